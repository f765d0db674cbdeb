//! Which leaders must step down, and which must not: a hanging disk ends a leadership; a stranger,
//! an observer, or the same promise twice does not.

use std::time::Duration;

use zebu_proto::Zxid;

use zebu_zab::Leave;

use crate::plan::Plan;
use crate::server::Server;

#[derive(Clone, Default)]
struct Track {
    /// While the disk has work: the last durable transaction, since when, and the number of pauses
    /// so far.
    hangs: Option<(Zxid, Duration, (u64, u64))>,
    /// Whether the server led after its last step.
    led: bool,
    /// The oldest transaction that the leader has proposed and not committed, and since when.
    waits: Option<(Zxid, Duration)>,
}

/// The longest time until a commit if a quorum has quick disks and networks: many times the
/// observed one.
const SWIFT_MAX: Duration = Duration::from_millis(1_500);

/// The reasons that may end a leadership.
pub(crate) struct Leadership {
    tracks: Vec<Track>,
    voters: usize,
    undisturbed: bool,
    swift: bool,
    counted: bool,
    /// The longest time for which a leader's disk may hang.
    limit: Duration,
    /// The number of leaderships that a later promise may have ended.
    allowed: usize,
}

impl Leadership {
    pub(crate) fn new(plan: &Plan) -> Self {
        let counts =
            |fault: &crate::plan::Planned| matches!(fault.fault, crate::plan::Fault::Promise(..));
        Self {
            tracks: vec![Track::default(); plan.servers()],
            voters: plan.voters,
            undisturbed: plan.undisturbed,
            swift: plan.swift,
            counted: !plan.faults.is_empty() && plan.faults.iter().all(counts),
            // `syncLimit` is five ticks. The rest covers the drift of clocks and the interval of
            // the check.
            limit: plan.tick * 8 + Duration::from_secs(1),
            allowed: 0,
        }
    }

    /// A server returns with a later promise.
    pub(crate) fn promised(&mut self, votes: bool) {
        // Each of the other voters may be elected without having heard of the promise.
        self.allowed += if votes { self.voters } else { 0 };
    }

    /// A server has taken a step.
    pub(crate) fn stepped(
        &mut self,
        server: usize,
        it: &Server,
        now: Duration,
    ) -> Result<(), String> {
        let track = &mut self.tracks[server];
        let Some(peer) = it.peer() else {
            *track = Track::default();
            return Ok(());
        };
        let leads = peer.leads().is_some();
        let ended = std::mem::replace(&mut track.led, leads) && !leads;
        if ended && self.undisturbed {
            return Err(format!(
                "P-10: nothing is wrong, and server {server} leads no more: {}",
                peer.left()
            ));
        }
        if ended && self.counted && matches!(peer.left(), Leave::LaterPromise { .. }) {
            self.allowed = self.allowed.checked_sub(1).ok_or_else(|| {
                format!("B-30: a promise ends the leadership of server {server} again and again")
            })?;
        }
        let waiting = peer.history().pending().next().map(|pending| pending.zxid);
        track.waits = waiting
            .filter(|_| self.swift && it.leads().is_some())
            .map(|zxid| track.waits.filter(|(before, _)| *before == zxid).unwrap_or((zxid, now)));
        if let Some((zxid, since)) = track.waits
            && since + SWIFT_MAX < now
        {
            return Err(format!(
                "F9: a quorum is quick, and {zxid} waits at its leader, server {server}, since {since:?}"
            ));
        }
        let (flushed, last) = (peer.history().flushed(), peer.history().last());
        let run = (it.number, it.pauses);
        if !leads || flushed == last || it.paused.is_some() {
            track.hangs = None;
            return Ok(());
        }
        let since = match track.hangs {
            Some((zxid, since, before)) if zxid == flushed && before == run => since,
            _ => now,
        };
        track.hangs = Some((flushed, since, run));
        if since + self.limit < now {
            return Err(format!(
                "progress: server {server} leads, though its disk hangs since {since:?}"
            ));
        }
        Ok(())
    }
}

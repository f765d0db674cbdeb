//! After a leader has stopped, is paused or hears nobody, another server leads soon, if there is no
//! other fault.
//!
//! A leader that is asked to hand over is succeeded by the named server.
//!
//! A leader that is asked to stop leaves no proposal uncommitted. Another server leads before an
//! election would have waited for the vote of the stopped one. The end of a paused leader is
//! detected within the time for which a leader may be silent, and a leader that hears nobody
//! detects that itself within the same time.

use std::time::Duration;

use zebu_proto::ServerId;
use zebu_zab::Role;

/// The longest gap between two leaders at a handover. An election that waits for further votes
/// takes 200 ms more.
const GAP_MAX: Duration = Duration::from_millis(190);

/// The longest gap between two leaders after a leader is paused.
const PAUSED_MAX: Duration = Duration::from_secs(1);

/// The longest gap between two leaders after a leader hears nobody any more.
const DEAF_MAX: Duration = Duration::from_millis(1_500);

/// The state of retirements and pauses, in plans without other faults.
pub(crate) struct Handover {
    watches: bool,
    /// The leader that was asked to stop.
    asked: Option<usize>,
    /// Since when the ensemble has had no leader, and the longest gap.
    gone: Option<(Duration, Duration)>,
    /// The server that the leader has handed over to.
    heir: Option<ServerId>,
    /// The leader that is paused, or hears nobody.
    paused: Option<usize>,
}

impl Handover {
    pub(crate) fn new(watches: bool) -> Self {
        Self { watches, asked: None, gone: None, heir: None, paused: None }
    }

    /// A server is asked to stop.
    pub(crate) fn asked(&mut self, server: usize, leads: bool) {
        if self.watches && leads {
            (self.asked, self.gone, self.heir) = (Some(server), None, None);
        }
    }

    /// A server is ready to stop. `pending` is the number of transactions that it has logged and
    /// not delivered.
    pub(crate) fn retired(
        &mut self,
        server: usize,
        now: Duration,
        pending: usize,
    ) -> Option<String> {
        if self.asked != Some(server) {
            return None;
        }
        self.gone = Some((now, GAP_MAX));
        (pending > 0).then(|| {
            format!(
                "liveness: leader {server} hands over, and {pending} transactions are not committed"
            )
        })
    }

    /// A leader has handed over to `heir`.
    pub(crate) fn handed_over(&mut self, heir: ServerId, now: Duration) {
        if self.watches {
            (self.heir, self.gone) = (Some(heir), Some((now, GAP_MAX)));
        }
    }

    /// A server is paused.
    pub(crate) fn paused(&mut self, server: usize, leads: bool, now: Duration) {
        if self.watches && leads {
            (self.paused, self.gone) = (Some(server), Some((now, PAUSED_MAX)));
        }
    }

    /// A server hears nobody from now on.
    pub(crate) fn deafened(&mut self, server: usize, leads: bool, now: Duration) {
        if self.watches && leads {
            (self.paused, self.gone) = (Some(server), Some((now, DEAF_MAX)));
        }
    }

    /// A server resumes, or hears the others again.
    pub(crate) fn resumed(&mut self, server: usize) -> Option<String> {
        let was_awaited = self.paused.take_if(|paused| *paused == server).is_some();
        let is_missed = was_awaited && self.gone.take().is_some();
        is_missed
            .then(|| format!("liveness: leader {server} was paused or heard nobody, and nobody else led meanwhile"))
    }

    /// A server changes its role.
    pub(crate) fn role(&mut self, server: ServerId, role: Role, now: Duration) -> Option<String> {
        let (gone, max) = self.gone.filter(|_| matches!(role, Role::Leading(_)))?;
        (self.asked, self.gone) = (None, None);
        let gap = now - gone;
        if let Some(heir) = self.heir.take().filter(|heir| *heir != server) {
            return Some(format!("liveness: server {heir:?} was to lead, and {server:?} leads"));
        }
        (gap > max).then(|| format!("liveness: a leader is gone, and nobody led for {gap:?}"))
    }
}

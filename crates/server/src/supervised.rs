//! Messages to systemd, or to any other supervisor that has set `NOTIFY_SOCKET`: the server is
//! ready, has changed its role, or stops.
//!
//! The server feeds the watchdog only while its write path makes progress, by the rules of
//! `/health/live`. So the supervisor restarts a process that runs but makes no progress.

use std::io;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::{Duration, Instant};

use sd_notify::NotifyState;
use tracing::{error, info, warn};
use zebu_admin::health::{Health, INTERVAL, Standstill};
use zebu_admin::{Progress, Served as _};

use crate::counting::server_facts::ServerFactsView;
use crate::shared::Shared;

/// A shorter time than this is not measured.
const SHORTEST: Duration = Duration::from_millis(1);

/// Reports to the supervisor that the server accepts connections.
///
/// A member reports this before it has a leader. Otherwise, a supervisor that starts members one
/// after the other would wait for a quorum for ever.
pub(crate) fn ready() {
    tell(&[NotifyState::Ready, NotifyState::Status("takes connections")]);
}

/// Reports to the supervisor that the server was asked to stop.
pub(crate) fn stopping() {
    tell(&[NotifyState::Stopping, NotifyState::Status("finishes what is in progress")]);
}

/// Informs the supervisor that the process waits, and that a restart would not help. Must be
/// repeated.
pub(crate) fn waits(what: &str) {
    tell(&[NotifyState::Watchdog, NotifyState::Status(what)]);
}

/// Informs the supervisor why the server stops by itself; the status of the unit shows the reason.
pub(crate) fn failed(failure: &dyn std::error::Error) {
    let text = failure.to_string().replace('\n', " ");
    tell(&[NotifyState::Stopping, NotifyState::Status(&text)]);
}

fn tell(state: &[NotifyState<'_>]) {
    // Without NOTIFY_SOCKET this does nothing.
    if let Err(failure) = sd_notify::notify(state) {
        warn!("no message can be sent to NOTIFY_SOCKET: {failure}");
    }
}

/// The thread that feeds the watchdog. Dropping this ends the thread, and does not wait for it: a
/// supervisor that reads nothing holds up the thread, and must not hold up the end of the server.
pub(crate) struct Watchdog {
    _ended: Sender<()>,
}

impl Watchdog {
    /// Feeds the supervisor's watchdog; `None` if the supervisor has none.
    ///
    /// # Errors
    /// The system provides no further thread.
    pub(crate) fn start(shared: &Arc<Shared>) -> io::Result<Option<Self>> {
        let Some(patience) = sd_notify::watchdog_enabled() else { return Ok(None) };
        info!("the supervisor expects a watchdog message every {} ms", patience.as_millis());
        // The thread does not keep the server's directory locked.
        let shared = Arc::downgrade(shared);
        let progress = move || shared.upgrade().map(|shared| ServerFactsView(shared).progress());
        let (ended, until) = channel();
        std::thread::Builder::new()
            .name("zebu-watchdog".to_owned())
            .spawn(move || feed(patience, progress, &until))?;
        Ok(Some(Self { _ended: ended }))
    }
}

fn feed(patience: Duration, progress: impl Fn() -> Option<Progress>, ended: &Receiver<()>) {
    let every = INTERVAL.min(patience / 3).max(SHORTEST);
    let mut judge = Judge::default();
    let mut last = Instant::now();
    while ended.recv_timeout(every) == Err(RecvTimeoutError::Timeout) {
        let Some(progress) = progress() else { return };
        let now = Instant::now();
        match judge.look(progress, now.duration_since(last)) {
            Verdict::Moves => tell(&[NotifyState::Watchdog]),
            Verdict::Stands(what) => {
                error!("no watchdog message is sent: {}", what.text());
                tell(&[NotifyState::Status(what.text())]);
            }
            Verdict::StillStands => {}
        }
        last = now;
    }
}

/// The result of one observation of the server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Verdict {
    /// The write path makes progress.
    Moves,
    /// The write path makes no progress any more; this observation is the first that finds it.
    Stands(Standstill),
    /// The last observation found that the write path makes no progress.
    StillStands,
}

/// Decides whether the watchdog is fed; pure.
#[derive(Debug, Default)]
struct Judge {
    health: Health,
    stands: Option<Standstill>,
}

impl Judge {
    fn look(&mut self, now: Progress, elapsed: Duration) -> Verdict {
        self.health.look(now, elapsed);
        let before = std::mem::replace(&mut self.stands, self.health.standstill());
        match self.stands {
            None => Verdict::Moves,
            Some(_) if before == self.stands => Verdict::StillStands,
            Some(what) => Verdict::Stands(what),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use zebu_admin::health::STANDSTILL_MAX;

    #[test]
    fn the_watchdog_is_fed_while_the_write_path_moves_and_again_when_it_moves_again() {
        let mut judge = Judge::default();
        let at = |turns| Progress { turns, ..Progress::default() };
        for turns in 1..100 {
            assert_eq!(judge.look(at(turns), INTERVAL), Verdict::Moves);
        }
        let mut stood = Duration::ZERO;
        while stood < STANDSTILL_MAX {
            stood += INTERVAL;
            assert_eq!(judge.look(at(99), INTERVAL), Verdict::Moves, "after {stood:?}");
        }
        assert_eq!(judge.look(at(99), INTERVAL), Verdict::Stands(Standstill::Replica));
        for _ in 0..100 {
            assert_eq!(judge.look(at(99), INTERVAL), Verdict::StillStands);
        }
        assert_eq!(judge.look(at(100), INTERVAL), Verdict::Moves);
    }

    #[test]
    fn a_disk_that_takes_no_records_starves_the_watchdog() {
        let mut judge = Judge::default();
        let stuck = |turns| Progress { turns, waiting: 1, batches: 5, remaking: false };
        let verdicts: Vec<Verdict> =
            (1..100).map(|turns| judge.look(stuck(turns), INTERVAL)).collect();
        assert!(verdicts.contains(&Verdict::Stands(Standstill::Log)), "{verdicts:?}");
        assert_eq!(verdicts.last(), Some(&Verdict::StillStands));
    }
}

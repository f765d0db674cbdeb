//! The health of a server: whether its write path makes progress.
//!
//! A process may run and answer `ruok` while the replica's thread hangs, or while the disk does not
//! accept the log. This module judges progress: the turns of the replica, and the batches of the
//! log while records wait for them.
//!
//! It is pure: observations go in with the time between them, and a verdict comes out.

use std::time::Duration;

/// A server without progress for longer than this is not alive.
pub const STANDSTILL_MAX: Duration = Duration::from_secs(15);

/// The interval of observations.
pub const INTERVAL: Duration = Duration::from_millis(500);

/// The progress of the write path at one moment.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Progress {
    /// Turns of the replica since the start. An idle replica takes some turns each second, too.
    pub turns: u64,
    /// Records that wait for the log.
    pub waiting: usize,
    /// Durable batches of the log. A change of the number shows progress.
    pub batches: u64,
    /// Whether log and tree are being rebuilt, which takes long.
    pub remaking: bool,
}

/// The part that makes no progress.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Standstill {
    /// The replica takes no turns.
    Replica,
    /// The log takes no records.
    Log,
}

impl Standstill {
    /// The description.
    pub fn text(self) -> &'static str {
        match self {
            Self::Replica => "the replica takes no turns",
            Self::Log => "the transaction log takes no records",
        }
    }
}

/// The observations so far.
#[derive(Debug, Default)]
pub struct Health {
    last: Progress,
    replica_stands: Duration,
    log_stands: Duration,
}

impl Health {
    /// Adds an observation. `elapsed`: the time since the last one.
    ///
    /// A late observation proves nothing about the time before it: the whole process may have been
    /// paused.
    pub fn look(&mut self, now: Progress, elapsed: Duration) {
        let elapsed = elapsed.min(INTERVAL * 2);
        let stands = |still: bool, before: Duration| {
            if still { before.saturating_add(elapsed) } else { Duration::ZERO }
        };
        let turns = now.turns == self.last.turns;
        let log = now.waiting > 0 && !now.remaking && now.batches == self.last.batches;
        self.replica_stands = stands(turns, self.replica_stands);
        self.log_stands = stands(log, self.log_stands);
        self.last = now;
    }

    /// The part that has made no progress for too long.
    pub fn standstill(&self) -> Option<Standstill> {
        if self.replica_stands > STANDSTILL_MAX {
            Some(Standstill::Replica)
        } else if self.log_stands > STANDSTILL_MAX {
            Some(Standstill::Log)
        } else {
            None
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seen(looks: impl IntoIterator<Item = Progress>) -> Option<Standstill> {
        let mut health = Health::default();
        looks.into_iter().for_each(|look| health.look(look, INTERVAL));
        health.standstill()
    }

    const LOOKS: u64 = 100;

    #[test]
    fn a_server_without_work_lives() {
        assert_eq!(seen((1..LOOKS).map(|turns| Progress { turns, ..Progress::default() })), None);
    }

    #[test]
    fn a_replica_that_takes_no_turns_is_found() {
        let stuck = Progress { turns: 7, ..Progress::default() };
        assert_eq!(seen([stuck; 3]), None, "not at once");
        assert_eq!(seen([stuck; LOOKS as usize]), Some(Standstill::Replica));
        let again = Progress { turns: 8, ..stuck };
        assert_eq!(seen([stuck; LOOKS as usize].into_iter().chain([again])), None);
    }

    #[test]
    fn a_log_that_takes_no_records_is_found() {
        let look = |turns| Progress { turns, waiting: 3, batches: 9, remaking: false };
        assert_eq!(seen((1..LOOKS).map(look)), Some(Standstill::Log));
        // It makes progress, has nothing to do, or is rebuilding.
        let moving = |turns| Progress { batches: turns, ..look(turns) };
        assert_eq!(seen((1..LOOKS).map(moving)), None);
        assert_eq!(seen((1..LOOKS).map(|turns| Progress { waiting: 0, ..look(turns) })), None);
        assert_eq!(seen((1..LOOKS).map(|turns| Progress { remaking: true, ..look(turns) })), None);
    }

    #[test]
    fn the_time_in_which_the_process_stood_still_does_not_count() {
        let mut health = Health::default();
        let look = Progress { turns: 7, ..Progress::default() };
        health.look(look, INTERVAL);
        health.look(look, Duration::from_secs(3600));
        assert_eq!(health.standstill(), None);
    }
}

//! Requests for the replica that a network worker carries out itself, once it has nothing else to do.
//!
//! A write that goes through the replica's thread costs two changes of thread: to it, and back to the worker that
//! sends the answer. Where cores rest in between, each takes longer than all that is done for the write, and on a quick
//! disk nearly as long as making it durable. So a server that stands alone spares them a client that has the worker
//! for itself: its requests are handed in without waking the replica's thread, and when the worker would go to sleep it
//! takes the replica's turn.
//!
//! With several connections, and when there is much to do, the replica's thread is better: the worker answers
//! reads and takes the next requests while the disk writes.

use std::time::Duration;

use zebu_replica::ConnId;

use crate::faults;
use crate::inbox::Inbox;
use crate::sync::Mutex;

/// Requests of one turn that a worker carries out itself at most.
const REQUESTS_MAX: usize = 64;

/// For so long after a connection was served, others do not have the worker for themselves.
const LATELY: Duration = Duration::from_millis(2);

/// How often a worker may turn to its connections before it sees to the requests it has kept.
const PASSES_MAX: usize = 256;

/// What a worker knows of its connections.
#[derive(Debug, Default)]
pub struct WorkerTurns {
    /// Whether this thread takes turns at all.
    is_allowed: bool,
    /// Requests handed in that nobody was woken for.
    waiting: usize,
    /// How often it has turned to a connection since.
    passes: usize,
    /// Who was served last, and when.
    last: Option<(ConnId, Duration)>,
    /// When another one was.
    other: Option<Duration>,
}

impl WorkerTurns {
    /// Lets the worker take turns. To be called only where it looks at what it has kept before it sleeps, and where no
    /// code of others, that may take its time, is a part of what the replica does.
    pub fn allow(&mut self) {
        self.is_allowed = true;
    }

    /// What it has kept; it has kept nothing any more.
    pub fn take(&mut self) -> usize {
        std::mem::take(&mut self.waiting)
    }

    /// Serves a connection; whether it has the worker for itself.
    pub fn serves(&mut self, conn: ConnId, now: Duration) -> bool {
        if let Some((before, at)) = self.last
            && before != conn
        {
            self.other = Some(at);
        }
        self.last = Some((conn, now));
        self.other.is_none_or(|at| now.saturating_sub(at) >= LATELY)
    }

    /// Turns to a connection; whether somebody else had better see to what is kept.
    pub fn passes(&mut self) -> bool {
        if self.waiting == 0 {
            return false;
        }
        self.passes += 1;
        let is_busy = self.passes > PASSES_MAX;
        if is_busy {
            self.waiting = 0;
        }
        is_busy
    }

    /// Whether the worker keeps `count` requests of a connection for itself.
    pub fn keeps(&mut self, conn: ConnId, now: Duration, count: usize) -> bool {
        if !self.serves(conn, now) || !self.is_allowed || self.waiting + count > REQUESTS_MAX {
            self.waiting = 0;
            return false;
        }
        if self.waiting == 0 {
            self.passes = 0;
        }
        self.waiting += if faults::forgets_what_it_keeps() { 0 } else { count };
        assert!(self.waiting <= REQUESTS_MAX, "{} requests are kept", self.waiting);
        true
    }
}

/// Takes turns on the thread of the caller, unless somebody else does at the moment: then what is in the inbox is
/// seen to there. `turn` says whether the driver goes on.
pub fn turn_here<D>(driver: &Mutex<D>, inbox: &Inbox, mut turn: impl FnMut(&mut D) -> bool) {
    // Whoever could not get it while this thread had it relies on this thread.
    while !inbox.is_empty()
        && let Some(mut driver) = driver.try_lock()
    {
        if !turn(&mut driver) {
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: ConnId = ConnId(1);
    const B: ConnId = ConnId(2);

    fn ms(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    #[test]
    fn one_connection_at_a_time_is_served_by_the_worker() {
        let mut turns = WorkerTurns { is_allowed: true, ..WorkerTurns::default() };
        assert!(turns.keeps(A, ms(0), 1));
        turns.serves(A, ms(1));
        assert!(turns.keeps(A, ms(1), 1), "who reads and writes by turns waits for nobody");
        assert!(!turns.keeps(B, ms(2), 1), "another one was here just now");
        assert!(turns.keeps(B, ms(3), 1));
        turns.serves(A, ms(4));
        assert!(!turns.keeps(B, ms(5), 1), "and may be again");
        assert!(turns.keeps(B, ms(6), 1));
    }

    #[test]
    fn much_at_once_is_left_to_the_replicas_thread() {
        let mut turns = WorkerTurns { is_allowed: true, ..WorkerTurns::default() };
        assert!(turns.keeps(A, ms(0), REQUESTS_MAX - 1));
        assert!(turns.keeps(A, ms(0), 1));
        assert!(!turns.keeps(A, ms(0), 1));
        assert!(turns.keeps(A, ms(0), REQUESTS_MAX));
    }

    #[test]
    fn a_busy_worker_keeps_nothing_for_long() {
        let mut turns = WorkerTurns { is_allowed: true, ..WorkerTurns::default() };
        assert!((0..2 * PASSES_MAX).all(|_| !turns.passes()), "there is nothing");
        for _ in 0..2 {
            assert!(turns.keeps(A, ms(0), 1));
            assert!((0..PASSES_MAX).all(|_| !turns.passes()));
            assert!(turns.passes() && !turns.passes());
        }
    }
}

//! Turns of the replica that a network worker runs itself, when it has nothing else to do.
//!
//! A write through the replica's thread costs two thread switches: to that thread, and back to the
//! worker that sends the answer. When cores sleep in between, each switch takes longer than the
//! write itself, and with a fast disk nearly as long as the sync. A standalone server avoids this
//! for a client that has a worker to itself. Its requests are handed in without waking the
//! replica's thread, and the worker runs the turn before it would sleep.
//!
//! With several connections or much load, the replica's thread is better: the worker answers reads
//! and takes more requests while the disk writes.

use std::time::Duration;

use zebu_replica::ConnId;

use crate::faults;
use crate::inbox::Inbox;
use crate::sync::Mutex;

/// Most requests that a worker runs itself in one turn.
const REQUESTS_MAX: usize = 64;

/// For this long after a connection was served, no other has the worker to itself.
const LATELY: Duration = Duration::from_millis(2);

/// How many connections a worker may serve before the requests it kept must run.
const PASSES_MAX: usize = 256;

/// A worker's record of its recent connections.
#[derive(Debug, Default)]
pub struct WorkerTurns {
    /// Whether this worker may run turns.
    is_allowed: bool,
    /// Requests handed in without waking the replica's thread.
    waiting: usize,
    /// How many connections it has served since.
    passes: usize,
    /// The connection served last, and when.
    last: Option<(ConnId, Duration)>,
    /// When a different connection was last served.
    other: Option<Duration>,
}

impl WorkerTurns {
    /// Lets the worker run turns. Precondition: the worker checks its kept requests before it
    /// sleeps, and no slow third-party code runs as part of the replica.
    pub fn allow(&mut self) {
        self.is_allowed = true;
    }

    /// Takes the number of requests kept, and resets it.
    pub fn take(&mut self) -> usize {
        std::mem::take(&mut self.waiting)
    }

    /// Notes that a connection is served. Returns whether it has the worker to itself.
    pub fn serves(&mut self, conn: ConnId, now: Duration) -> bool {
        if let Some((before, at)) = self.last
            && before != conn
        {
            self.other = Some(at);
        }
        self.last = Some((conn, now));
        self.other.is_none_or(|at| now.saturating_sub(at) >= LATELY)
    }

    /// Notes that a connection is about to be served. Returns whether the replica's thread should
    /// run the kept requests.
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

    /// Whether the worker keeps `count` requests of this connection to run them itself.
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

/// Runs turns on the calling thread, unless another thread is running one: that thread then handles
/// the inbox. `turn` returns whether the driver continues.
pub fn turn_here<D>(driver: &Mutex<D>, inbox: &Inbox, mut turn: impl FnMut(&mut D) -> bool) {
    // A thread that could not lock the driver relies on this thread to handle its inputs.
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

//! Turns of the replica that another thread runs itself, when it has nothing else to do.
//!
//! A write through the replica's thread costs two thread switches: to that thread, and back to the
//! worker that sends the answer. When cores sleep in between, each switch takes longer than the
//! write itself, and with a fast disk nearly as long as the sync. So a network worker whose client
//! has it to itself hands the requests in without waking the replica's thread, and runs the turn
//! before it would sleep. In an ensemble, the thread of the network between servers does the same
//! with what other servers send, and the log's thread with the news of a sync.
//!
//! With several connections or much load, the replica's thread is better: the other threads answer
//! reads, receive and sync while it works.

use std::time::Duration;

use zebu_replica::ConnId;

use crate::faults;
use crate::inbox::Inbox;
use crate::sync::Mutex;

/// Most inputs that a thread keeps to run them itself in one turn.
const INPUTS_MAX: usize = 64;

/// Turns that a thread runs in a row before the replica's thread must go on. The checker of threads
/// need not find so many in a row.
const TURNS_MAX: usize = if cfg!(feature = "shuttle") { 1 } else { 8 };

/// For this long after a connection was served, no other has the worker to itself.
const LATELY: Duration = Duration::from_millis(2);

/// Maximum number of connections that a thread may serve before it must process its kept inputs.
const PASSES_MAX: usize = 256;

/// The inputs that a thread has added without waking the replica's thread.
#[derive(Debug, Default)]
pub struct Kept {
    /// Whether this thread may run turns.
    is_allowed: bool,
    /// Their number.
    waiting: usize,
    /// The number of connections that the thread has served since.
    passes: usize,
}

impl Kept {
    /// Lets the thread run turns. Precondition: the thread checks its kept inputs before it sleeps,
    /// and no slow third-party code runs as part of the replica.
    pub fn allow(&mut self) {
        self.is_allowed = true;
    }

    /// Takes the number of inputs kept, and resets it.
    pub fn take(&mut self) -> usize {
        std::mem::take(&mut self.waiting)
    }

    /// Notes that a connection is about to be served. Returns whether the replica's thread should
    /// run the kept inputs.
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

    /// Whether the thread keeps `count` more inputs to run them itself. If not, the replica's
    /// thread must be woken, and runs those kept before too.
    pub fn keeps(&mut self, count: usize) -> bool {
        if !self.is_allowed || self.waiting + count > INPUTS_MAX {
            self.waiting = 0;
            return false;
        }
        if self.waiting == 0 {
            self.passes = 0;
        }
        self.waiting += if faults::forgets_what_it_keeps() { 0 } else { count };
        assert!(self.waiting <= INPUTS_MAX, "{} inputs are kept", self.waiting);
        true
    }
}

/// A worker's record of its recent connections.
#[derive(Debug, Default)]
pub struct WorkerTurns {
    kept: Kept,
    /// The connection served last, and when.
    last: Option<(ConnId, Duration)>,
    /// When a different connection was last served.
    other: Option<Duration>,
}

impl WorkerTurns {
    /// Lets the worker run turns: see [`Kept::allow`].
    pub fn allow(&mut self) {
        self.kept.allow();
    }

    /// Takes the number of requests kept, and resets it.
    pub fn take(&mut self) -> usize {
        self.kept.take()
    }

    /// Notes that a connection is served. Returns whether it has the worker to itself.
    pub fn serves(&mut self, conn: ConnId, now: Duration) -> bool {
        if let Some((before, at)) = self.last
            && before != conn
        {
            self.other = Some(at);
        }
        self.last = Some((conn, now));
        self.is_alone(conn, now)
    }

    /// Whether no other connection was served lately.
    pub fn is_alone(&self, conn: ConnId, now: Duration) -> bool {
        let is_over = |at: Duration| now.saturating_sub(at) >= LATELY;
        self.other.is_none_or(is_over)
            && self.last.is_none_or(|(before, at)| before == conn || is_over(at))
    }

    /// Notes that a connection is about to be served. Returns whether the replica's thread should
    /// run the kept requests.
    pub fn passes(&mut self) -> bool {
        self.kept.passes()
    }

    /// Whether the worker keeps `count` requests of this connection to run them itself.
    pub fn keeps(&mut self, conn: ConnId, now: Duration, count: usize) -> bool {
        if !self.serves(conn, now) {
            self.kept.take();
            return false;
        }
        self.kept.keeps(count)
    }
}

/// Runs turns on the calling thread, unless another thread is running one: that thread then handles
/// the inbox. `turn` returns whether the driver continues.
///
/// If inputs still arrive after some turns, the replica's thread is woken for them, so that others
/// cannot hold the calling thread here.
pub fn turn_here<D>(driver: &Mutex<D>, inbox: &Inbox, mut turn: impl FnMut(&mut D) -> bool) {
    for _ in 0..TURNS_MAX {
        // A thread that could not lock the driver relies on this thread to handle its inputs.
        if inbox.is_empty() {
            return;
        }
        let Some(mut driver) = driver.try_lock() else { return };
        if !turn(&mut driver) {
            return;
        }
    }
    if !faults::leaves_the_rest_to_nobody() {
        inbox.wake();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: ConnId = ConnId(1);
    const B: ConnId = ConnId(2);

    fn allowed() -> WorkerTurns {
        let mut turns = WorkerTurns::default();
        turns.allow();
        turns
    }

    fn ms(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    #[test]
    fn one_connection_at_a_time_is_served_by_the_worker() {
        let mut turns = allowed();
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
    fn a_connection_is_alone_once_no_other_was_served_for_a_while() {
        let mut turns = WorkerTurns::default();
        assert!(turns.is_alone(A, ms(0)));
        turns.serves(A, ms(0));
        assert!(turns.is_alone(A, ms(0)) && !turns.is_alone(B, ms(1)));
        turns.serves(B, ms(1));
        assert!(!turns.is_alone(A, ms(2)), "the other one was here just now");
        turns.serves(A, ms(2));
        assert!(!turns.is_alone(A, ms(2)) && turns.is_alone(A, ms(3)));
    }

    #[test]
    fn much_at_once_is_left_to_the_replicas_thread() {
        let mut turns = allowed();
        assert!(turns.keeps(A, ms(0), INPUTS_MAX - 1));
        assert!(turns.keeps(A, ms(0), 1));
        assert!(!turns.keeps(A, ms(0), 1));
        assert!(turns.keeps(A, ms(0), INPUTS_MAX));
    }

    #[test]
    fn a_busy_worker_keeps_nothing_for_long() {
        let mut turns = allowed();
        assert!((0..2 * PASSES_MAX).all(|_| !turns.passes()), "there is nothing");
        for _ in 0..2 {
            assert!(turns.keeps(A, ms(0), 1));
            assert!((0..PASSES_MAX).all(|_| !turns.passes()));
            assert!(turns.passes() && !turns.passes());
        }
    }
}

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

use std::cell::RefCell;
use std::time::Duration;

use parking_lot::Mutex;
use zebu_replica::{ConnId, Input};

use crate::engine::{self, Engine};
use crate::shared::Shared;

/// Requests of one turn that a worker carries out itself at most.
const REQUESTS_MAX: usize = 64;

/// For so long after a connection was served, others do not have the worker for themselves.
const LATELY: Duration = Duration::from_millis(2);

/// How often a worker may turn to its connections before it sees to the requests it has kept.
const PASSES_MAX: usize = 256;

/// What a worker knows of its connections.
#[derive(Debug, Default)]
struct Aside {
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

thread_local! {
    static ASIDE: RefCell<Aside> = RefCell::default();
}

impl Aside {
    /// Serves a connection; whether it has the worker for itself.
    fn serves(&mut self, conn: ConnId, now: Duration) -> bool {
        if let Some((before, at)) = self.last
            && before != conn
        {
            self.other = Some(at);
        }
        self.last = Some((conn, now));
        self.other.is_none_or(|at| now.saturating_sub(at) >= LATELY)
    }

    /// Turns to a connection; whether somebody else had better see to what is kept.
    fn passes(&mut self) -> bool {
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
    fn keeps(&mut self, conn: ConnId, now: Duration, count: usize) -> bool {
        if !self.serves(conn, now) || !self.is_allowed || self.waiting + count > REQUESTS_MAX {
            self.waiting = 0;
            return false;
        }
        if self.waiting == 0 {
            self.passes = 0;
        }
        self.waiting += count;
        true
    }
}

/// Notes that reads of a connection were answered.
pub fn serves(conn: ConnId, now: Duration) {
    ASIDE.with_borrow_mut(|aside| aside.serves(conn, now));
}

/// Notes that the worker turns to a connection: it has something else to do.
pub fn passes(shared: &Shared) {
    if ASIDE.with_borrow_mut(Aside::passes) {
        shared.inbox.wake();
    }
}

/// Lets this thread take turns. To be called only where [`carry_out`] is, and where no code of others, that may
/// take its time, is a part of what the replica does.
pub fn allow() {
    ASIDE.with_borrow_mut(|aside| aside.is_allowed = true);
}

/// Hands in requests of a connection; `inputs` is empty afterwards and keeps its room.
pub fn hand_in(shared: &Shared, conn: ConnId, now: Duration, inputs: &mut Vec<Input>) {
    if ASIDE.with_borrow_mut(|aside| aside.keeps(conn, now, inputs.len())) {
        shared.inbox.push_quietly(inputs);
    } else {
        shared.inbox.push_all(inputs);
    }
}

/// Carries out what was kept. To be called when this thread has nothing else to do.
pub fn carry_out(engine: &Mutex<Engine>, shared: &Shared) {
    let waiting = ASIDE.with_borrow_mut(|aside| std::mem::take(&mut aside.waiting));
    if waiting > 0 {
        engine::turn_here(engine, shared);
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
        let mut aside = Aside { is_allowed: true, ..Aside::default() };
        assert!(aside.keeps(A, ms(0), 1));
        aside.serves(A, ms(1));
        assert!(aside.keeps(A, ms(1), 1), "who reads and writes by turns waits for nobody");
        assert!(!aside.keeps(B, ms(2), 1), "another one was here just now");
        assert!(aside.keeps(B, ms(3), 1));
        aside.serves(A, ms(4));
        assert!(!aside.keeps(B, ms(5), 1), "and may be again");
        assert!(aside.keeps(B, ms(6), 1));
    }

    #[test]
    fn much_at_once_is_left_to_the_replicas_thread() {
        let mut aside = Aside { is_allowed: true, ..Aside::default() };
        assert!(aside.keeps(A, ms(0), REQUESTS_MAX - 1));
        assert!(aside.keeps(A, ms(0), 1));
        assert!(!aside.keeps(A, ms(0), 1));
        assert!(aside.keeps(A, ms(0), REQUESTS_MAX));
    }

    #[test]
    fn a_busy_worker_keeps_nothing_for_long() {
        let mut aside = Aside { is_allowed: true, ..Aside::default() };
        assert!((0..2 * PASSES_MAX).all(|_| !aside.passes()), "there is nothing");
        for _ in 0..2 {
            assert!(aside.keeps(A, ms(0), 1));
            assert!((0..PASSES_MAX).all(|_| !aside.passes()));
            assert!(aside.passes() && !aside.passes());
        }
    }
}

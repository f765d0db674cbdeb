//! Lets an idle network worker run the replica for the requests that it has received.
//!
//! [`WorkerTurns`] decides; this module holds one for each thread.

use std::cell::RefCell;
use std::time::Duration;

use parking_lot::Mutex;
use zebu_engine::{Inbox, WorkerTurns};
use zebu_replica::{ConnId, Input};

use crate::driver::{self, Driver};

thread_local! {
    static TURNS: RefCell<WorkerTurns> = RefCell::default();
}

/// Records that reads of a connection were answered.
pub fn serves(conn: ConnId, now: Duration) {
    TURNS.with_borrow_mut(|turns| turns.serves(conn, now));
}

/// Whether only one connection has used this worker recently.
pub fn is_alone(conn: ConnId, now: Duration) -> bool {
    TURNS.with_borrow(|turns| turns.is_alone(conn, now))
}

/// Records that the worker turns to a connection, so it is not idle.
pub fn passes(inbox: &Inbox) {
    if TURNS.with_borrow_mut(WorkerTurns::passes) {
        inbox.wake();
    }
}

/// Lets this thread run turns. Call it only on a thread that calls [`carry_out`], and only if the
/// replica calls no code of others, which may take long.
pub fn allow() {
    TURNS.with_borrow_mut(WorkerTurns::allow);
}

/// Adds requests of a connection. `inputs` is empty afterwards and keeps its capacity.
pub fn hand_in(inbox: &Inbox, conn: ConnId, now: Duration, inputs: &mut Vec<Input>) {
    if TURNS.with_borrow_mut(|turns| turns.keeps(conn, now, inputs.len())) {
        inbox.push_quietly(inputs, 0);
    } else {
        inbox.push_all(inputs);
    }
}

/// Runs a turn for the kept inputs. Must be called when this thread is idle.
pub fn carry_out(driver: &Mutex<Driver>, inbox: &Inbox) {
    if TURNS.with_borrow_mut(WorkerTurns::take) > 0 {
        driver::turn_here(driver, inbox);
    }
}

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

/// Notes that reads of a connection were answered.
pub fn serves(conn: ConnId, now: Duration) {
    TURNS.with_borrow_mut(|turns| turns.serves(conn, now));
}

/// Whether a connection had this worker to itself just now.
pub fn is_alone(conn: ConnId, now: Duration) -> bool {
    TURNS.with_borrow(|turns| turns.is_alone(conn, now))
}

/// Notes that the worker turns to a connection: it has something else to do.
pub fn passes(inbox: &Inbox) {
    if TURNS.with_borrow_mut(WorkerTurns::passes) {
        inbox.wake();
    }
}

/// Lets this thread take turns. To be called only where [`carry_out`] is, and where no code of others, that may
/// take its time, is a part of what the replica does.
pub fn allow() {
    TURNS.with_borrow_mut(WorkerTurns::allow);
}

/// Hands in requests of a connection; `inputs` is empty afterwards and keeps its room.
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

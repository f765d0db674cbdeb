//! Turns of the replica that other threads of a member run: the thread of the network between
//! servers when it is idle, and the log's thread after a sync.
//!
//! A write in an ensemble passes through both threads several times. Without this module, each pass
//! would have to wake the replica's thread.
//!
//! **Invariant:** a thread that adds an input without waking the replica's thread runs a turn
//! afterwards, or wakes it. Checked by `tests/server/turns.rs` and `../engine/tests/threads.rs`.

use std::cell::RefCell;
use std::sync::{Arc, OnceLock, Weak};

use parking_lot::Mutex;
use zebu_engine::{Inbox, Kept};
use zebu_replica::Input;

use crate::driver::{self, Driver};

/// Bytes of inputs that a thread keeps at most: to log and send more takes its time.
const KEPT_BYTES_MAX: usize = 64 << 10;

/// Inputs in the inbox at which the log's thread leaves them to the replica's: it is to sync.
const LEISURELY_MAX: usize = 64;

thread_local! {
    static KEPT: RefCell<Kept> = RefCell::default();
}

/// The driver, after its start. The replica's thread owns it, so it ends with that thread.
#[derive(Default)]
pub struct Turns(OnceLock<Weak<Mutex<Driver>>>);

impl Turns {
    /// From now on others may take turns. To be called only where no code of others, that may take its time, is a part
    /// of what the replica does.
    pub fn allow(&self, driver: &Arc<Mutex<Driver>>) {
        let _ = self.0.set(Arc::downgrade(driver)); // it is the same one
    }

    fn driver(&self) -> Option<Arc<Mutex<Driver>>> {
        self.0.get().and_then(Weak::upgrade)
    }
}

/// Lets this thread keep its own inputs. Call it only on a thread that calls [`carry_out`].
pub fn keep() {
    KEPT.with_borrow_mut(Kept::allow);
}

/// Hands in inputs that hold `bytes` together; `inputs` is empty afterwards and keeps its room.
pub fn hand_in(inbox: &Inbox, inputs: &mut Vec<Input>, bytes: usize) {
    if inputs.is_empty() {
        return;
    }
    // A thread that may keep nothing has nothing to take either.
    let keeps = bytes <= KEPT_BYTES_MAX && KEPT.with_borrow_mut(|kept| kept.keeps(inputs.len()));
    if keeps {
        inbox.push_quietly(inputs, bytes);
    } else {
        inbox.push_sized(inputs, bytes);
    }
}

/// Notes that this thread turns to a connection: it has something else to do.
pub fn passes(inbox: &Inbox) {
    if KEPT.with_borrow_mut(Kept::passes) {
        inbox.wake();
    }
}

/// Runs a turn for the kept inputs. Must be called when this thread is idle.
pub fn carry_out(turns: &Turns, inbox: &Inbox) {
    if KEPT.with_borrow_mut(Kept::take) > 0 {
        take(turns, inbox);
    }
}

/// Hands in what the log's thread has to tell, and takes the turn, unless it or the replica has much to do.
pub fn tell(turns: &Turns, inbox: &Inbox, input: Input, is_idle: bool) {
    let (waiting, bytes) = inbox.load();
    if is_idle && waiting < LEISURELY_MAX && bytes <= KEPT_BYTES_MAX {
        inbox.push_one_quietly(input);
        take(turns, inbox);
    } else {
        inbox.push(input);
    }
}

fn take(turns: &Turns, inbox: &Inbox) {
    match turns.driver() {
        Some(driver) => driver::turn_here(&driver, inbox),
        None => inbox.wake(),
    }
}

//! Turns of the replica that other threads of a member run: the thread of the network between
//! servers when it is idle, and the log's thread after a sync.
//!
//! A write in an ensemble passes through both threads several times. Without this module, each pass
//! would have to wake the replica's thread. With more than a few sessions it does, because its
//! turns then carry more requests.
//!
//! **Invariant:** a thread that adds an input without waking the replica's thread runs a turn
//! afterwards, or wakes it. Checked by `tests/server/turns.rs` and `../engine/tests/threads.rs`.

use std::cell::RefCell;
use std::sync::{Arc, OnceLock, Weak};

use parking_lot::Mutex;
use zebu_engine::{Inbox, Kept};
use zebu_replica::Input;

use crate::driver::{self, Driver};

/// Maximum bytes of inputs that a thread keeps, because logging and sending more takes long.
const KEPT_BYTES_MAX: usize = 64 << 10;

/// Number of inputs at which the log's thread leaves the turn to the replica's thread, because the
/// log's thread must sync.
const LEISURELY_MAX: usize = 64;

thread_local! {
    static KEPT: RefCell<Kept> = RefCell::default();
}

/// The driver, after its start. The replica's thread owns it, so it ends with that thread.
#[derive(Default)]
pub struct Turns(OnceLock<Weak<Mutex<Driver>>>);

impl Turns {
    /// From now on, other threads may run turns. Call it only if the replica calls no code of
    /// others, which may take long.
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

/// Adds inputs that have `bytes` together. `inputs` is empty afterwards and keeps its capacity.
pub fn hand_in(inbox: &Inbox, inputs: &mut Vec<Input>, bytes: usize) {
    if inputs.is_empty() {
        return;
    }
    // A thread that may not keep inputs has none to process.
    let keeps = bytes <= KEPT_BYTES_MAX
        && inbox.has_few_sessions()
        && KEPT.with_borrow_mut(|kept| kept.keeps(inputs.len()));
    if keeps {
        inbox.push_quietly(inputs, bytes);
    } else {
        inbox.push_sized(inputs, bytes);
    }
}

/// Records that this thread turns to a connection, so it is not idle.
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

/// Adds the results of the log's thread, and runs a turn unless this thread or the replica has much
/// to do.
pub fn tell(turns: &Turns, inbox: &Inbox, input: Input, is_idle: bool) {
    let (waiting, bytes) = inbox.load();
    let is_idle = is_idle && inbox.has_few_sessions();
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

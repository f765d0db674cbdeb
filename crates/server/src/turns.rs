//! Turns of the replica's that a member's other threads take: that of the network between servers, when it has nothing
//! else to do, and the log's, after a sync.
//!
//! A write in an ensemble passes through both of them several times, and each time the replica's thread would have to
//! be woken in between. **Invariant:** who hands something in without waking that thread takes a turn afterwards, or
//! wakes it.

use std::cell::RefCell;
use std::sync::{Arc, OnceLock, Weak};

use parking_lot::Mutex;
use zebu_engine::Kept;
use zebu_replica::Input;

use crate::driver::{self, Driver};
use crate::shared::Shared;

/// Bytes of inputs that a thread keeps at most: to log and send more takes its time.
const KEPT_BYTES_MAX: usize = 64 << 10;

/// Inputs in the inbox at which the log's thread leaves them to the replica's: it is to sync.
const LEISURELY_MAX: usize = 64;

thread_local! {
    static KEPT: RefCell<Kept> = RefCell::default();
}

/// The driver, once there is one. The replica's thread has it, so that it ends with that thread.
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

/// Lets this thread keep what it hands in. To be called only where [`carry_out`] is.
pub fn keep() {
    KEPT.with_borrow_mut(Kept::allow);
}

/// Hands in inputs that hold `bytes` together; `inputs` is empty afterwards and keeps its room.
pub fn hand_in(shared: &Shared, inputs: &mut Vec<Input>, bytes: usize) {
    if inputs.is_empty() {
        return;
    }
    // A thread that may keep nothing has nothing to take either.
    let keeps = bytes <= KEPT_BYTES_MAX && KEPT.with_borrow_mut(|kept| kept.keeps(inputs.len()));
    if keeps {
        shared.inbox().push_quietly(inputs, bytes);
    } else {
        shared.inbox().push_sized(inputs, bytes);
    }
}

/// Notes that this thread turns to a connection: it has something else to do.
pub fn passes(shared: &Shared) {
    if KEPT.with_borrow_mut(Kept::passes) {
        shared.inbox().wake();
    }
}

/// Carries out what was kept. To be called when this thread has nothing else to do.
pub fn carry_out(shared: &Shared) {
    if KEPT.with_borrow_mut(Kept::take) > 0 {
        take(shared);
    }
}

/// Hands in what the log's thread has to tell, and takes the turn, unless it or the replica has much to do.
pub fn tell(shared: &Shared, input: Input, is_idle: bool) {
    let (waiting, bytes) = shared.inbox().load();
    if is_idle && waiting < LEISURELY_MAX && bytes <= KEPT_BYTES_MAX {
        shared.inbox().push_one_quietly(input);
        take(shared);
    } else {
        shared.inbox().push(input);
    }
}

fn take(shared: &Shared) {
    match shared.turns.driver() {
        Some(driver) => driver::turn_here(&driver, shared),
        None => shared.inbox().wake(),
    }
}

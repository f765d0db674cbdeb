//! The replica's queue of inputs. Connections, the log and timers add to it; the engine takes
//! everything at once.

use std::time::Duration;

use crate::faults;
use crate::sync::atomic::{AtomicBool, Ordering};
use crate::sync::{Condvar, Mutex, wait_for};
use zebu_replica::Input;

/// A queue that is emptied at once.
#[derive(Debug, Default)]
pub struct Inbox {
    waiting: Mutex<Waiting>,
    filled: Condvar,
    /// Whether more than a few sessions cause the inputs.
    has_many_sessions: AtomicBool,
}

#[derive(Debug, Default)]
struct Waiting {
    inputs: Vec<Input>,
    /// Bytes received from other servers or read for them, in the waiting inputs.
    bytes: usize,
    asleep: bool,
    stop: bool,
    /// Whether the next wait returns at once, even without inputs.
    look_up: bool,
}

impl Inbox {
    /// Adds one input.
    pub fn push(&self, input: Input) {
        self.with(|inputs| inputs.push(input));
    }

    /// Adds several. `inputs` is left empty and keeps its capacity.
    pub fn push_all(&self, inputs: &mut Vec<Input>) {
        if !inputs.is_empty() {
            self.with(|waiting| add(waiting, inputs));
        }
    }

    /// Adds several that hold `bytes` together, without waking the waiting thread. The caller runs
    /// the turn itself or calls [`Inbox::wake`].
    pub fn push_quietly(&self, inputs: &mut Vec<Input>, bytes: usize) {
        let mut waiting = self.waiting.lock();
        waiting.bytes += bytes;
        add(&mut waiting.inputs, inputs);
    }

    /// Adds one input likewise.
    pub fn push_one_quietly(&self, input: Input) {
        self.waiting.lock().inputs.push(input);
    }

    /// Wakes the waiting thread, if there are inputs.
    pub fn wake(&self) {
        let mut waiting = self.waiting.lock();
        if !waiting.inputs.is_empty() && std::mem::take(&mut waiting.asleep) {
            self.filled.notify_one();
        }
    }

    /// Whether there are no inputs.
    pub fn is_empty(&self) -> bool {
        self.waiting.lock().inputs.is_empty()
    }

    /// Adds several inputs that hold `bytes` together.
    pub fn push_sized(&self, inputs: &mut Vec<Input>, bytes: usize) {
        if !inputs.is_empty() {
            self.with_size(bytes, |waiting| add(waiting, inputs));
        }
    }

    /// Whether few sessions cause the inputs, so that a thread may take the turn for those that it
    /// adds.
    pub fn has_few_sessions(&self) -> bool {
        !self.has_many_sessions.load(Ordering::Relaxed)
    }

    pub(crate) fn set_few_sessions(&self, few: bool) {
        // Hardly ever changed, and read by other threads: a store would take the line from them.
        if self.has_few_sessions() != few {
            self.has_many_sessions.store(!few, Ordering::Relaxed);
        }
    }

    /// The number of inputs, and the bytes of those added with a size.
    pub fn load(&self) -> (usize, usize) {
        let waiting = self.waiting.lock();
        (waiting.inputs.len(), waiting.bytes)
    }

    fn with(&self, add: impl FnOnce(&mut Vec<Input>)) {
        self.with_size(0, add);
    }

    fn with_size(&self, bytes: usize, add: impl FnOnce(&mut Vec<Input>)) {
        let mut waiting = self.waiting.lock();
        waiting.bytes += bytes;
        add(&mut waiting.inputs);
        if std::mem::take(&mut waiting.asleep) && !faults::lets_the_inbox_sleep() {
            self.filled.notify_one();
        }
    }

    /// Wakes the waiting thread, even without inputs.
    pub fn poke(&self) {
        let mut waiting = self.waiting.lock();
        waiting.look_up = true;
        waiting.asleep = false;
        self.filled.notify_one();
    }

    /// Connections add nothing from now on. Inputs of other sources are still taken.
    pub fn stop(&self) {
        let mut waiting = self.waiting.lock();
        waiting.stop = true;
        waiting.look_up = true;
        waiting.asleep = false;
        self.filled.notify_one();
    }

    /// Waits for inputs, at most for `most`. Returns false after [`Inbox::stop`].
    pub fn wait(&self, most: Duration) -> bool {
        let mut waiting = self.waiting.lock();
        let look_up = std::mem::take(&mut waiting.look_up);
        if waiting.inputs.is_empty() && !look_up {
            waiting.asleep = true;
            waiting = wait_for(&self.filled, waiting, most);
            waiting.asleep = false;
        }
        !waiting.stop
    }

    /// Takes all inputs.
    pub fn take(&self, into: &mut Vec<Input>) {
        assert!(into.is_empty(), "the last batch is done");
        let mut waiting = self.waiting.lock();
        std::mem::swap(into, &mut waiting.inputs);
        waiting.bytes = 0;
        assert!(waiting.inputs.is_empty(), "the queue is taken whole");
    }
}

/// Adds `inputs` to `waiting`. When that is empty, the common case, nothing is copied.
fn add(waiting: &mut Vec<Input>, inputs: &mut Vec<Input>) {
    if waiting.is_empty() {
        std::mem::swap(waiting, inputs);
    } else {
        waiting.append(inputs);
    }
    debug_assert!(inputs.is_empty(), "what is handed in is not the caller's");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_has_been_taken_counts_no_longer() {
        let inbox = Inbox::default();
        inbox.push_sized(&mut vec![Input::Tick, Input::Tick], 700);
        inbox.push(Input::Tick);
        inbox.push_sized(&mut vec![Input::Tick], 50);
        assert_eq!(inbox.load(), (4, 750));
        let mut taken = Vec::new();
        assert!(inbox.wait(Duration::ZERO));
        inbox.take(&mut taken);
        assert_eq!((taken.len(), inbox.load()), (4, (0, 0)));
        inbox.push_sized(&mut Vec::new(), 9);
        assert_eq!(inbox.load(), (0, 0));
    }
}

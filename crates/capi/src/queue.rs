//! The pending calls of the program's functions, in order. The calling thread takes one at a time.

use std::collections::VecDeque;

use parking_lot::{Condvar, Mutex};

use crate::callback::Callback;

#[derive(Debug, Default)]
struct Inside {
    waiting: VecDeque<Callback>,
    /// Whether no further calls will be added.
    is_finished: bool,
    /// Whether a thread waits for a call.
    is_awaited: bool,
}

/// A queue between the threads that add calls and the one that makes them.
#[derive(Debug, Default)]
pub(crate) struct Queue {
    inside: Mutex<Inside>,
    has_changed: Condvar,
}

impl Queue {
    pub(crate) fn push(&self, callbacks: Vec<Callback>) {
        let mut inside = self.inside.lock();
        inside.waiting.extend(callbacks);
        if inside.is_awaited {
            self.has_changed.notify_one();
        }
    }

    /// Removes the next call, if there is one.
    pub(crate) fn pop(&self) -> Option<Callback> {
        self.inside.lock().waiting.pop_front()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.inside.lock().waiting.is_empty()
    }

    /// Waits for the next call; `None` if no further calls will be added.
    pub(crate) fn wait(&self) -> Option<Callback> {
        let mut inside = self.inside.lock();
        loop {
            if let Some(callback) = inside.waiting.pop_front() {
                return Some(callback);
            }
            if inside.is_finished {
                return None;
            }
            inside.is_awaited = true;
            self.has_changed.wait(&mut inside);
            inside.is_awaited = false;
        }
    }

    /// Records that no further calls will be added.
    pub(crate) fn finish(&self) {
        self.inside.lock().is_finished = true;
        self.has_changed.notify_all();
    }
}

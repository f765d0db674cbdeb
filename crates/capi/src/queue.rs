//! What the program is told next, in order. Whoever tells it takes one thing at a time.

use std::collections::VecDeque;

use parking_lot::{Condvar, Mutex};

use crate::callback::Callback;

#[derive(Debug, Default)]
struct Inside {
    waiting: VecDeque<Callback>,
    /// Nothing more will come.
    is_finished: bool,
    /// Somebody sleeps until something comes.
    is_awaited: bool,
}

/// A queue between whoever has something to tell and whoever tells it.
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

    /// The next thing that is there.
    pub(crate) fn pop(&self) -> Option<Callback> {
        self.inside.lock().waiting.pop_front()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.inside.lock().waiting.is_empty()
    }

    /// Waits for the next thing; `None` when nothing more will come.
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

    /// Nothing more will come.
    pub(crate) fn finish(&self) {
        self.inside.lock().is_finished = true;
        self.has_changed.notify_all();
    }
}

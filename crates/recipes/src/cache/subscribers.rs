//! Readers of a cache's changes. Each has a queue of limited length.

use std::collections::VecDeque;
use std::sync::{Arc, Weak};
use std::task::{Context, Poll, Waker};

use parking_lot::Mutex;

use super::Change;

/// Maximum number of changes that wait for one reader.
pub(super) const WAITING_MAX: usize = 1 << 12;

#[derive(Debug, Default)]
struct Inside {
    changes: VecDeque<Change>,
    /// The queue exceeded its limit, so the waiting changes were dropped.
    is_overrun: bool,
    is_closed: bool,
    reader: Option<Waker>,
}

/// The queue of one reader.
#[derive(Debug, Default)]
pub(super) struct Waiting(Mutex<Inside>);

/// The next item for a reader.
#[derive(Debug)]
pub(super) enum Taken {
    Change(Change),
    /// Changes were dropped: the reader must begin again.
    Overrun,
    /// There will be no more changes.
    Closed,
}

impl Waiting {
    fn put(&self, changes: &[Change]) {
        let mut inside = self.0.lock();
        if inside.is_overrun {
            return;
        }
        if inside.changes.len() + changes.len() > WAITING_MAX {
            inside.changes = VecDeque::new();
            inside.is_overrun = true;
        } else {
            inside.changes.extend(changes.iter().cloned());
        }
        wake(inside.reader.take());
    }

    fn close(&self) {
        let mut inside = self.0.lock();
        inside.is_closed = true;
        wake(inside.reader.take());
    }

    pub(super) fn poll_take(&self, cx: &mut Context<'_>) -> Poll<Taken> {
        let mut inside = self.0.lock();
        if inside.is_overrun {
            inside.is_overrun = false;
            return Poll::Ready(Taken::Overrun);
        }
        if let Some(change) = inside.changes.pop_front() {
            return Poll::Ready(Taken::Change(change));
        }
        if inside.is_closed {
            return Poll::Ready(Taken::Closed);
        }
        inside.reader = Some(cx.waker().clone());
        Poll::Pending
    }
}

fn wake(reader: Option<Waker>) {
    if let Some(reader) = reader {
        reader.wake();
    }
}

#[derive(Debug, Default)]
pub(super) struct Subscribers {
    /// The queues of the readers. Dropped readers are removed when the next change is sent.
    waiting: Vec<Weak<Waiting>>,
    is_closed: bool,
}

impl Subscribers {
    pub(super) fn add(&mut self) -> Arc<Waiting> {
        let waiting = Arc::new(Waiting::default());
        if self.is_closed {
            waiting.close();
        }
        self.waiting.retain(|reader| reader.strong_count() > 0);
        self.waiting.push(Arc::downgrade(&waiting));
        waiting
    }

    pub(super) fn tell(&mut self, changes: &[Change]) {
        if changes.is_empty() {
            return;
        }
        self.waiting.retain(|reader| match reader.upgrade() {
            Some(reader) => {
                reader.put(changes);
                true
            }
            None => false,
        });
    }

    pub(super) fn close(&mut self) {
        self.is_closed = true;
        for reader in self.waiting.drain(..).filter_map(|reader| reader.upgrade()) {
            reader.close();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn take(waiting: &Waiting) -> Poll<Taken> {
        waiting.poll_take(&mut Context::from_waker(Waker::noop()))
    }

    #[test]
    fn what_does_not_fit_makes_the_reader_begin_again() {
        let mut subscribers = Subscribers::default();
        let reader = subscribers.add();
        for _ in 0..=WAITING_MAX {
            subscribers.tell(&[Change::Suspended]);
        }
        assert!(reader.0.lock().changes.is_empty());
        assert!(matches!(take(&reader), Poll::Ready(Taken::Overrun)));
        subscribers.tell(&[Change::Current]);
        assert!(matches!(take(&reader), Poll::Ready(Taken::Change(Change::Current))));
        assert!(take(&reader).is_pending());
    }

    #[test]
    fn readers_that_are_dropped_are_forgotten() {
        let mut subscribers = Subscribers::default();
        for _ in 0..5 {
            drop(subscribers.add());
        }
        subscribers.tell(&[Change::Current]);
        assert!(subscribers.waiting.is_empty());
    }

    #[test]
    fn what_was_told_before_the_end_is_still_read() {
        let mut subscribers = Subscribers::default();
        let reader = subscribers.add();
        subscribers.tell(&[Change::Current]);
        subscribers.close();
        assert!(matches!(take(&reader), Poll::Ready(Taken::Change(Change::Current))));
        assert!(matches!(take(&reader), Poll::Ready(Taken::Closed)));
        assert!(matches!(take(&subscribers.add()), Poll::Ready(Taken::Closed)));
    }
}

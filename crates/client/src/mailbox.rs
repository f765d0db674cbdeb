//! A bounded queue with one reader. When it is full, one mark stands for all entries that do not
//! fit.

use std::collections::VecDeque;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use parking_lot::Mutex;

/// The most items that wait for a reader.
pub(crate) const WAITING_MAX: usize = 1 << 16;

#[derive(Debug)]
struct Inside<T> {
    items: VecDeque<T>,
    is_closed: bool,
    reader: Option<Waker>,
}

/// Both ends of a queue: the writer's end, and clones for the reader.
#[derive(Debug)]
pub(crate) struct Mailbox<T>(Arc<Mutex<Inside<T>>>);

impl<T> Clone for Mailbox<T> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

impl<T> Mailbox<T> {
    pub(crate) fn new() -> Self {
        let inside = Inside { items: VecDeque::new(), is_closed: false, reader: None };
        Self(Arc::new(Mutex::new(inside)))
    }

    /// Adds an item. If the reader is too far behind, `missed` replaces all waiting items.
    pub(crate) fn put(&self, item: T, missed: impl FnOnce() -> T) {
        let mut inside = self.0.lock();
        if inside.is_closed {
            return;
        }
        if inside.items.len() >= WAITING_MAX {
            inside.items.clear();
            inside.items.push_back(missed());
        } else {
            inside.items.push_back(item);
        }
        wake(inside);
    }

    /// Replaces all waiting items by one item.
    pub(crate) fn put_instead(&self, item: T) {
        let mut inside = self.0.lock();
        if inside.is_closed {
            return;
        }
        inside.items.clear();
        inside.items.push_back(item);
        wake(inside);
    }

    /// Whether this is the only end, so the queue has no reader.
    pub(crate) fn is_abandoned(&self) -> bool {
        Arc::strong_count(&self.0) == 1
    }

    /// Closes the queue: no further items follow.
    pub(crate) fn close(&self) {
        let mut inside = self.0.lock();
        inside.is_closed = true;
        wake(inside);
    }

    /// The next item; `None` after the last.
    pub(crate) fn poll_take(&self, cx: &mut Context<'_>) -> Poll<Option<T>> {
        let mut inside = self.0.lock();
        if let Some(item) = inside.items.pop_front() {
            return Poll::Ready(Some(item));
        }
        if inside.is_closed {
            return Poll::Ready(None);
        }
        match &mut inside.reader {
            Some(reader) => reader.clone_from(cx.waker()),
            reader => *reader = Some(cx.waker().clone()),
        }
        Poll::Pending
    }
}

fn wake<T>(mut inside: parking_lot::MutexGuard<'_, Inside<T>>) {
    let reader = inside.reader.take();
    drop(inside);
    if let Some(reader) = reader {
        reader.wake();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn take(mailbox: &Mailbox<usize>) -> Poll<Option<usize>> {
        mailbox.poll_take(&mut Context::from_waker(Waker::noop()))
    }

    #[test]
    fn what_does_not_fit_becomes_one_mark() {
        let mailbox = Mailbox::new();
        for item in 0..=WAITING_MAX {
            mailbox.put(item, || usize::MAX);
        }
        mailbox.put(7, || usize::MAX);
        assert_eq!(take(&mailbox), Poll::Ready(Some(usize::MAX)));
        assert_eq!(take(&mailbox), Poll::Ready(Some(7)));
        assert_eq!(take(&mailbox), Poll::Pending);
    }

    #[test]
    fn who_stopped_reading_is_missed() {
        let mailbox = Mailbox::<usize>::new();
        let reader = mailbox.clone();
        assert!(!mailbox.is_abandoned());
        drop(reader);
        assert!(mailbox.is_abandoned());
    }

    #[test]
    fn what_was_put_before_the_end_is_still_read() {
        let mailbox = Mailbox::new();
        mailbox.put(1, || 0);
        mailbox.close();
        mailbox.put(2, || 0);
        assert_eq!(take(&mailbox), Poll::Ready(Some(1)));
        assert_eq!(take(&mailbox), Poll::Ready(None));
    }
}

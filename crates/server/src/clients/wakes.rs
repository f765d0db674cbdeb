//! Wakes the tasks of a network worker from other threads, many with one system call.
//!
//! A runtime that is woken from another thread costs that thread a system call for each task. A
//! turn of the replica answers many connections of the same worker, so it leaves their wakers in a
//! list, and wakes only the task that empties this list. That task runs on the worker, where waking
//! needs no system call.

use std::cell::Cell;
use std::future::poll_fn;
use std::sync::Arc;
use std::task::{Poll, Waker};

use atomic_waker::AtomicWaker;
use parking_lot::Mutex;

thread_local! {
    /// The number of the worker whose thread this is.
    static WORKER: Cell<Option<usize>> = const { Cell::new(None) };
}

/// The tasks of all network workers that are to be woken.
#[derive(Debug)]
pub struct Wakes {
    workers: Box<[ForWorker]>,
}

/// The tasks of one worker that are to be woken.
#[derive(Debug, Default)]
struct ForWorker {
    /// `None` while nobody serves this list.
    waiting: Mutex<Option<Vec<Waker>>>,
    /// The task that wakes them, while it waits.
    waking: AtomicWaker,
}

impl Wakes {
    /// Lists for this many workers.
    pub fn new(workers: usize) -> Self {
        Self { workers: (0..workers).map(|_| ForWorker::default()).collect() }
    }

    /// Wakes a task of a worker: at once on the worker's own thread, otherwise as soon as the
    /// worker gets to it.
    pub fn wake(&self, worker: usize, task: &AtomicWaker) {
        let Some(list) = self.workers.get(worker).filter(|_| WORKER.get() != Some(worker)) else {
            task.wake();
            return;
        };
        let Some(task) = task.take() else { return };
        let mut waiting = list.waiting.lock();
        let Some(tasks) = &mut *waiting else {
            drop(waiting);
            task.wake();
            return;
        };
        tasks.push(task);
        let is_first = tasks.len() == 1;
        drop(waiting);
        if is_first {
            list.waking.wake();
        }
    }

    /// Wakes the tasks of a worker as long as it is polled. Precondition: the worker's thread polls
    /// it, and runs the tasks.
    pub async fn serve(self: Arc<Self>, worker: usize) {
        WORKER.set(Some(worker));
        let list = &self.workers[worker];
        let before = list.waiting.lock().replace(Vec::new());
        assert!(before.is_none(), "worker {worker} is served already");
        let _forget = Forget(list);
        let mut tasks = Vec::new();
        poll_fn(|context| {
            // In this order, a later waker finds this task.
            list.waking.register(context.waker());
            if let Some(waiting) = &mut *list.waiting.lock() {
                std::mem::swap(&mut tasks, waiting);
            }
            tasks.drain(..).for_each(Waker::wake);
            Poll::Pending
        })
        .await
    }
}

/// Forgets all wakers of a worker that ends: a waker keeps the runtime alive, and the runtime the
/// server.
struct Forget<'l>(&'l ForWorker);

impl Drop for Forget<'_> {
    fn drop(&mut self) {
        let tasks = self.0.waiting.lock().take();
        self.0.waking.take();
        drop(tasks);
    }
}

#[cfg(test)]
mod tests {
    use std::future::Future;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::task::{Context, Wake};

    use super::*;

    #[derive(Default)]
    struct Count(AtomicUsize);

    impl Wake for Count {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }

    impl Count {
        fn get(&self) -> usize {
            self.0.load(Ordering::Relaxed)
        }

        fn task(self: &Arc<Self>) -> AtomicWaker {
            let task = AtomicWaker::new();
            task.register(&self.clone().into());
            task
        }
    }

    #[test]
    fn many_tasks_of_a_worker_are_woken_by_waking_one() {
        let wakes = Arc::new(Wakes::new(2));
        let (waking, woken) = (Arc::new(Count::default()), Arc::new(Count::default()));
        std::thread::scope(|scope| {
            let worker = scope.spawn(|| {
                let mut serving = Box::pin(wakes.clone().serve(1));
                let waker = waking.clone().into();
                assert!(serving.as_mut().poll(&mut Context::from_waker(&waker)).is_pending());
                serving
            });
            let mut serving = worker.join().unwrap();
            for round in 1..=2 {
                for _ in 0..10 {
                    wakes.wake(1, &woken.task());
                }
                assert_eq!((waking.get(), woken.get()), (round, 10 * (round - 1)));
                let waker = waking.clone().into();
                assert!(serving.as_mut().poll(&mut Context::from_waker(&waker)).is_pending());
                assert_eq!((waking.get(), woken.get()), (round, 10 * round));
            }
        });
        wakes.wake(1, &AtomicWaker::new());
        assert_eq!(waking.get(), 2, "a task that does not wait needs nobody");
    }

    #[test]
    fn a_task_without_a_list_is_woken_at_once() {
        let wakes = Arc::new(Wakes::new(1));
        let woken = Arc::new(Count::default());
        wakes.wake(1, &woken.task());
        assert_eq!(woken.get(), 1, "there is no such worker");
        wakes.wake(0, &woken.task());
        assert_eq!(woken.get(), 2, "nobody serves it");
        let mut serving = Box::pin(wakes.clone().serve(0));
        assert!(serving.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
        wakes.wake(0, &woken.task());
        assert_eq!(woken.get(), 3, "this is the worker's own thread");
    }

    #[test]
    fn a_worker_that_ends_leaves_no_waker_behind() {
        let wakes = Arc::new(Wakes::new(1));
        let (waking, woken) = (Arc::new(Count::default()), Arc::new(Count::default()));
        let mut serving = Box::pin(wakes.clone().serve(0));
        let waker = waking.clone().into();
        assert!(serving.as_mut().poll(&mut Context::from_waker(&waker)).is_pending());
        drop(waker);
        WORKER.set(None);
        wakes.wake(0, &woken.task());
        let waker = waking.clone().into();
        wakes.workers[0].waking.register(&waker);
        drop(waker);
        assert_eq!((Arc::strong_count(&waking), Arc::strong_count(&woken)), (2, 2));
        drop(serving);
        assert_eq!((Arc::strong_count(&waking), Arc::strong_count(&woken)), (1, 1));
        wakes.wake(0, &woken.task());
        assert_eq!((Arc::strong_count(&woken), woken.get()), (1, 1));
    }
}

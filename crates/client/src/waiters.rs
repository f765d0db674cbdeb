//! A bounded number of threads for calls that may block for long, such as those of the Kerberos
//! library.
//!
//! A silent key distribution centre blocks such a thread until the library gives up. A session that
//! reconnects meanwhile must not block another thread each time, and a thousand sessions must not
//! block a thousand threads.

use std::collections::VecDeque;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;

/// The threads that wait for Kerberos.
pub(crate) static KERBEROS: Waiters = Waiters::new("zebu-kerberos", 16);

/// A limited number of threads, and the calls that wait for one.
pub(crate) struct Waiters {
    name: &'static str,
    /// The most threads.
    most: usize,
    state: Mutex<State>,
}

/// Invariant: no call waits while the number of threads is below its limit. Checked by
/// `threads_end_and_come_again`.
struct State {
    threads: usize,
    /// Calls without a thread, oldest first: at most one for each claim that still exists, and some
    /// whose claim was dropped.
    waiting: VecDeque<Call>,
}

struct Call {
    is_given_up: Arc<AtomicBool>,
    work: Box<dyn FnOnce() + Send>,
}

/// Shows that the caller wants the result of a call. If it is dropped before the call begins, the
/// call never begins.
#[derive(Debug)]
pub(crate) struct Claim(Arc<AtomicBool>);

impl Drop for Claim {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

impl Waiters {
    const fn new(name: &'static str, most: usize) -> Self {
        let state = State { threads: 0, waiting: VecDeque::new() };
        Self { name, most, state: Mutex::new(state) }
    }

    /// Runs a call now, or after another call has ended.
    ///
    /// # Errors
    /// The system has no thread left.
    pub(crate) fn call(&'static self, work: impl FnOnce() + Send + 'static) -> io::Result<Claim> {
        let is_given_up = Arc::new(AtomicBool::new(false));
        let claim = Claim(is_given_up.clone());
        let call = Call { is_given_up, work: Box::new(work) };
        let mut state = self.lock();
        state.waiting.retain(|call| !call.is_given_up.load(Ordering::Relaxed));
        state.waiting.push_back(call);
        if state.threads < self.most {
            let thread = thread::Builder::new().name(self.name.to_owned());
            match thread.spawn(|| self.work()) {
                Ok(_) => state.threads += 1,
                Err(error) => {
                    state.waiting.pop_back();
                    return Err(error);
                }
            }
        }
        Ok(claim)
    }

    /// Runs one call after the other until none waits.
    fn work(&self) {
        loop {
            let call = {
                let mut state = self.lock();
                let Some(call) = state.waiting.pop_front() else {
                    // Under the same lock, so that a call that arrives now starts a thread.
                    state.threads -= 1;
                    return;
                };
                call
            };
            if !call.is_given_up.load(Ordering::Relaxed) {
                // Other calls use this thread after a panic. The panic has been printed.
                let _ = catch_unwind(AssertUnwindSafe(call.work));
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::channel;
    use std::time::Duration;

    use super::*;

    /// Far longer than the test should take.
    const DEADLINE: Duration = Duration::from_secs(60);

    #[test]
    fn silent_calls_hold_so_many_threads_and_those_given_up_hold_nothing() {
        static FEW: Waiters = Waiters::new("few", 2);
        let (begun, begins) = channel();
        let (release, held) = channel::<()>();
        let held = Arc::new(Mutex::new(held));
        let call = |name: &'static str| {
            let (begun, held) = (begun.clone(), held.clone());
            let work = move || {
                begun.send(name).unwrap();
                held.lock().unwrap().recv().unwrap();
            };
            FEW.call(work).unwrap()
        };
        let _held = [call("a"), call("b")];
        let mut first =
            [begins.recv_timeout(DEADLINE).unwrap(), begins.recv_timeout(DEADLINE).unwrap()];
        first.sort_unstable();
        assert_eq!(first, ["a", "b"]);
        // A session that tries ten thousand times has one waiting call.
        let mut last = call("again");
        for _ in 0..10_000 {
            let next = call("again");
            last = next;
        }
        assert!(FEW.lock().waiting.len() <= 2, "{}", FEW.lock().waiting.len());
        let _other = call("other");
        drop(last);
        assert_eq!(FEW.lock().threads, 2);
        for _ in 0..3 {
            release.send(()).unwrap();
        }
        assert_eq!(
            begins.recv_timeout(DEADLINE).unwrap(),
            "other",
            "what was given up never begins"
        );
    }

    #[test]
    fn threads_end_and_come_again() {
        static ONE: Waiters = Waiters::new("one", 1);
        let (done, is_done) = channel();
        for number in 0..100 {
            let done = done.clone();
            let _claim = ONE.call(move || done.send(number).unwrap()).unwrap();
            assert_eq!(is_done.recv_timeout(DEADLINE).unwrap(), number);
        }
    }
}

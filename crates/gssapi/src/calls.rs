//! Calls into the library, and the end of the process.
//!
//! When a process ends, the library destroys its locks, although other threads may still be inside
//! it. If one of them takes a lock afterwards, the library aborts the process. So the end of the
//! process first waits for calls in progress, up to [`PATIENCE`], and no call begins after that.

use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crate::sys::Uint;

/// The maximum time that the end of a process waits for calls. A call that waits for a key
/// distribution centre may take longer.
const PATIENCE: Duration = Duration::from_secs(2);

/// The calls of all threads.
struct Calls {
    in_progress: usize,
    /// The process is ending: no further call begins.
    over: bool,
}

static CALLS: Mutex<Calls> = Mutex::new(Calls { in_progress: 0, over: false });
static ENDED: Condvar = Condvar::new();

fn calls() -> MutexGuard<'static, Calls> {
    CALLS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A call in progress.
struct InProgress;

impl InProgress {
    fn begin() -> Option<Self> {
        let mut calls = calls();
        (!calls.over).then(|| {
            calls.in_progress += 1;
            Self
        })
    }
}

impl Drop for InProgress {
    fn drop(&mut self) {
        let mut calls = calls();
        assert!(calls.in_progress > 0, "a call ends that has not begun");
        calls.in_progress -= 1;
        if calls.over {
            ENDED.notify_all();
        }
    }
}

/// The result of a call that is not made because the process is ending.
pub(crate) trait Outcome {
    const OVER: Self;
}

/// `GSS_S_FAILURE`.
impl Outcome for Uint {
    const OVER: Self = 13 << 16;
}

/// An error code that `krb5.h` does not use.
impl Outcome for i32 {
    const OVER: Self = -1;
}

impl Outcome for () {
    const OVER: Self = ();
}

/// Makes a call, unless the process is ending.
pub(crate) fn call<T: Outcome>(call: impl FnOnce() -> T) -> T {
    match InProgress::begin() {
        Some(_in_progress) => call(),
        None => T::OVER,
    }
}

/// Makes the end of the process wait for calls. This must be called once, when the library is
/// loaded: handlers run in the reverse order of their registration, so this one runs before the
/// library's own.
pub(crate) fn end_with_the_process() {
    extern "C" fn end() {
        let mut calls = calls();
        calls.over = true;
        let waited = ENDED.wait_timeout_while(calls, PATIENCE, |calls| calls.in_progress > 0);
        drop(waited);
    }
    // SAFETY: the function is there until the process ends, and does not unwind: a poisoned lock is
    // taken as well. It fails only without memory, and then nothing is registered.
    unsafe { libc::atexit(end) };
}

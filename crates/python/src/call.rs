//! A request whose answer comes later. A thread waits for the answer, or gets a callback.

use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use pyo3::exceptions::{PyRuntimeError, PyTimeoutError};
use pyo3::prelude::*;
use tokio::task::AbortHandle;
use zebu_client::SessionThread;

use crate::error::{Answer, Failure, answer};

/// The maximum time for which a waiting thread does not react to signals such as Ctrl-C.
const SIGNALS: Duration = Duration::from_millis(50);

enum State {
    /// No caller waits for the answer.
    Running,
    /// The callback for the answer.
    Told(Py<PyAny>),
    Done(Answer),
    /// The answer was taken, or the call was cancelled.
    Taken,
}

struct Slot {
    state: Mutex<State>,
    changed: Condvar,
}

impl Slot {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Runs on the session's thread, so it never waits for a thread that holds the interpreter.
    fn fill(&self, answer: Answer) {
        self.put(State::Done(answer));
    }

    /// Withdraws the call, whether the answer has arrived or not.
    fn withdraw(&self) {
        self.put(State::Taken);
    }

    fn put(&self, next: State) {
        let mut state = self.lock();
        // The answer to a cancelled call is dropped: a lock that was granted too late is released.
        let before = match &*state {
            State::Taken => next,
            _ => std::mem::replace(&mut *state, next),
        };
        drop(state);
        self.changed.notify_all();
        if let State::Told(callback) = before {
            tell(callback);
        }
    }
}

/// Fills the slot, also if the future is dropped before it is ready.
struct Filler(Option<Arc<Slot>>);

impl Filler {
    fn fill(&mut self, answer: Answer) {
        if let Some(slot) = self.0.take() {
            slot.fill(answer);
        }
    }
}

impl Drop for Filler {
    fn drop(&mut self) {
        self.fill(answer(Err::<(), _>(Failure::Thread("the session has ended".to_owned()))));
    }
}

/// Whether the interpreter is ending. A callback holds this while it runs.
///
/// At its end, the interpreter stops each thread that waits for it, in the middle of our code, and
/// that aborts the process. So from then on no thread waits for it.
static IS_ENDING: Mutex<bool> = Mutex::new(false);

/// The interpreter is about to end: waits for the running callback, and lets no other begin.
#[pyfunction]
pub(crate) fn end_callbacks(py: Python<'_>) {
    py.detach(|| *IS_ENDING.lock().unwrap_or_else(PoisonError::into_inner) = true);
}

/// Calls these on a thread that may wait for the interpreter. A session's thread may not.
fn tell(callback: Py<PyAny>) {
    static TELLER: OnceLock<Option<Sender<Py<PyAny>>>> = OnceLock::new();
    let teller = TELLER.get_or_init(|| {
        let (send, callbacks) = channel::<Py<PyAny>>();
        let run = move || {
            for callback in callbacks {
                let is_ending = IS_ENDING.lock().unwrap_or_else(PoisonError::into_inner);
                if *is_ending {
                    // No callback listens any more, and without the interpreter the answer cannot
                    // be dropped.
                    std::mem::forget(callback);
                    continue;
                }
                // `None`: the interpreter is ending.
                Python::try_attach(|py| {
                    if let Err(error) = callback.call0(py) {
                        error.write_unraisable(py, None);
                    }
                });
            }
        };
        thread::Builder::new().name("zebu-python".to_owned()).spawn(run).ok().map(|_| send)
    });
    if let Some(teller) = teller {
        // The thread never ends before its channel.
        let _ = teller.send(callback);
    }
}

/// The future answer to a request.
///
/// Dropping it before the answer has arrived withdraws the request, if that is still possible.
#[pyclass(frozen, module = "zebu._native")]
pub(crate) struct Call {
    slot: Arc<Slot>,
    task: AbortHandle,
}

impl Call {
    /// Runs a future on the session's thread.
    pub(crate) fn new<T, E>(
        thread: &SessionThread,
        future: impl Future<Output = Result<T, E>> + Send + 'static,
    ) -> Self
    where
        T: for<'py> IntoPyObject<'py> + Send + 'static,
        E: Into<Failure>,
    {
        let slot = Arc::new(Slot { state: Mutex::new(State::Running), changed: Condvar::new() });
        let mut filler = Filler(Some(slot.clone()));
        let task = thread.spawn(async move {
            let result = future.await;
            filler.fill(answer(result));
        });
        Self { slot, task: task.abort_handle() }
    }

    /// The answer, once it has arrived.
    fn taken(&self) -> PyResult<Option<Answer>> {
        let mut state = self.slot.lock();
        match &*state {
            State::Running | State::Told(_) => Ok(None),
            State::Done(_) | State::Taken => match std::mem::replace(&mut *state, State::Taken) {
                State::Done(answer) => Ok(Some(answer)),
                _ => Err(PyRuntimeError::new_err("the answer was taken, or the call withdrawn")),
            },
        }
    }
}

impl Drop for Call {
    fn drop(&mut self) {
        self.cancel();
    }
}

#[pymethods]
impl Call {
    /// Waits for the answer, at most this number of seconds. After a `TimeoutError` the caller can
    /// wait again.
    #[pyo3(signature = (timeout=None))]
    fn wait(&self, py: Python<'_>, timeout: Option<f64>) -> PyResult<Py<PyAny>> {
        let end = timeout.map(|seconds| Instant::now() + duration(seconds));
        loop {
            if let Some(answer) = self.taken()? {
                return answer(py);
            }
            let now = Instant::now();
            if end.is_some_and(|end| end <= now) {
                return Err(PyTimeoutError::new_err("no answer in time"));
            }
            let wait = end.map_or(SIGNALS, |end| SIGNALS.min(end - now));
            py.detach(|| {
                let state = self.slot.lock();
                let is_open = |state: &mut State| matches!(state, State::Running | State::Told(_));
                drop(self.slot.changed.wait_timeout_while(state, wait, is_open));
            });
            py.check_signals()?;
        }
    }

    /// Calls this once, on a thread of the package, when the answer has arrived. Only the callback
    /// of the last call counts.
    fn on_done(&self, callback: Py<PyAny>) {
        let mut state = self.slot.lock();
        match &*state {
            State::Running | State::Told(_) => *state = State::Told(callback),
            State::Done(_) | State::Taken => {
                drop(state);
                tell(callback);
            }
        }
    }

    /// The answer, once it has arrived.
    fn take(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        match self.taken()? {
            Some(answer) => answer(py),
            None => Err(PyRuntimeError::new_err("there is no answer yet")),
        }
    }

    /// Whether the answer has arrived.
    fn is_done(&self) -> bool {
        matches!(&*self.slot.lock(), State::Done(_) | State::Taken)
    }

    /// Withdraws the request, and wakes the thread that waits for it.
    fn cancel(&self) {
        self.slot.withdraw();
        self.task.abort();
    }
}

/// Seconds as a Python number. A time that is too long for a clock becomes a hundred years.
pub(crate) fn duration(seconds: f64) -> Duration {
    const LONGEST: f64 = 100.0 * 365.0 * 86400.0;
    Duration::try_from_secs_f64(seconds.clamp(0.0, LONGEST)).unwrap_or_default()
}

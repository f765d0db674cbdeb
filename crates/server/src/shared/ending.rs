//! Whether the server must stop, and the reason.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use zebu_proto::Causes;

use parking_lot::{Condvar, Mutex};
use tokio::sync::Notify;

use super::Shared;
use crate::error::RunError;
use crate::retiring::{HandingOver, Retiring};

/// Whether the server must stop, and the reason.
#[derive(Default)]
pub struct Ending {
    /// Set once, when the server must stop; contains the failure, if there is one.
    stopping: Mutex<Option<Result<(), Failure>>>,
    /// The steps before that, unless there is a failure.
    pub retiring: Retiring,
    /// Requests to hand over the leadership.
    pub handing_over: HandingOver,
    stop: Notify,
    stop_sync: Condvar,
}

impl Ending {
    /// The server must stop. The first failure counts, even if the server was asked to stop before.
    pub(super) fn decide(&self, why: Result<(), RunError>) {
        let why = why.map_err(|why| Failure(Arc::new(why)));
        let mut stopping = self.stopping.lock();
        if !matches!(*stopping, Some(Err(_))) {
            *stopping = Some(match stopping.take() {
                Some(before) => before.and(why),
                None => why,
            });
        }
    }

    /// Wakes the threads that wait for the end.
    pub(super) fn tell(&self) {
        assert!(self.is_stopping(), "the end is told before it is decided");
        self.retiring.end();
        self.stop.notify_waiters();
        self.stop_sync.notify_all();
    }

    /// Whether the server was asked to stop.
    pub fn is_stopping(&self) -> bool {
        self.stopping.lock().is_some()
    }

    /// Waits, blocking, until the server is asked to stop.
    ///
    /// # Errors
    /// The failure, if that is the reason.
    pub fn wait(&self) -> Result<(), Failure> {
        let mut stopping = self.stopping.lock();
        loop {
            if let Some(why) = stopping.clone() {
                return why;
            }
            self.stop_sync.wait(&mut stopping);
        }
    }

    /// Whether something has failed.
    pub fn has_failed(&self) -> bool {
        matches!(*self.stopping.lock(), Some(Err(_)))
    }

    /// Waits, blocking, until the server is asked to stop or the time is over.
    pub fn wait_for(&self, most: Duration) {
        let mut stopping = self.stopping.lock();
        if stopping.is_none() {
            self.stop_sync.wait_for(&mut stopping, most);
        }
    }

    /// Waits until the server is asked to stop.
    ///
    /// # Errors
    /// The failure, if that is the reason.
    pub async fn stopped(&self) -> Result<(), Failure> {
        loop {
            let asked = self.stop.notified();
            tokio::pin!(asked);
            asked.as_mut().enable();
            if let Some(why) = self.stopping.lock().clone() {
                return why;
            }
            asked.await;
        }
    }
}

/// Why a running server had to stop.
#[derive(Clone)]
pub struct Failure(Arc<RunError>);

impl fmt::Debug for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        Causes(&*self.0).fmt(f)
    }
}

/// The error and its causes, in one line.
impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        Causes(&*self.0).fmt(f)
    }
}

impl std::error::Error for Failure {}

impl Failure {
    /// What has failed.
    pub fn cause(&self) -> &(dyn std::error::Error + 'static) {
        &*self.0
    }
}

/// Stops the server when the thread or task that holds this guard panics, because the rest of a
/// server must not
/// continue without that thread.
pub struct StopOnPanic {
    shared: Arc<Shared>,
    what: &'static str,
}

impl StopOnPanic {
    /// A guard for the thread or task `what`, which holds it while it runs.
    pub fn new(shared: &Arc<Shared>, what: &'static str) -> Self {
        Self { shared: shared.clone(), what }
    }
}

impl Drop for StopOnPanic {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.shared.stop(Err(RunError::Panicked(self.what)));
        }
    }
}

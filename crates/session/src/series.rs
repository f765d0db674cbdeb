//! Series of requests: none is sent after one that may not have been executed.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// A series of requests, of which the ensemble executes a prefix, possibly all, and never one after
/// a gap.
///
/// Shared by its requests and their submitter. It breaks if a request is lost or fails unsent. An
/// answer of the server, even an error, does not break it.
#[derive(Clone, Debug, Default)]
pub struct Series(Arc<AtomicBool>);

impl Series {
    /// A series without requests.
    pub fn new() -> Self {
        Self::default()
    }

    /// Whether a request of the series may not have been executed, so that no more are sent.
    pub fn is_broken(&self) -> bool {
        self.0.load(Ordering::Acquire)
    }

    pub(crate) fn break_off(&self) {
        self.0.store(true, Ordering::Release);
    }
}

//! Requests that belong together: none is sent after one that may not have been executed.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// A series of requests, of which the ensemble executes the first few, or all, and never one behind a gap.
///
/// Shared by its requests and by whoever makes them. It breaks when one of them is lost or fails unsent; what a
/// server answers, errors too, does not break it.
#[derive(Clone, Debug, Default)]
pub struct Series(Arc<AtomicBool>);

impl Series {
    /// A series without requests.
    pub fn new() -> Self {
        Self::default()
    }

    /// Whether one of its requests may not have been executed, so that none is sent any more.
    pub fn is_broken(&self) -> bool {
        self.0.load(Ordering::Acquire)
    }

    pub(crate) fn break_off(&self) {
        self.0.store(true, Ordering::Release);
    }
}

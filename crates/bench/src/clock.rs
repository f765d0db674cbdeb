//! One time base for a whole run: nanoseconds since its start, as plain numbers, which need little
//! memory.

use std::time::{Duration, Instant};

/// Nanoseconds since the run's origin.
pub(crate) type Nanos = u64;

/// The run's clock. Copies share the origin.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Clock(Instant);

impl Clock {
    /// A clock that starts now.
    pub(crate) fn start() -> Self {
        Self(Instant::now())
    }

    /// The time since the origin.
    #[inline]
    pub(crate) fn now(self) -> Nanos {
        nanos(self.0.elapsed())
    }

    /// Sleeps until `at`. Returns at once if `at` has passed.
    pub(crate) fn sleep_until(self, at: Nanos) {
        let left = at.saturating_sub(self.now());
        std::thread::sleep(Duration::from_nanos(left));
    }
}

/// A duration in nanoseconds, at most 584 years.
pub(crate) fn nanos(duration: Duration) -> Nanos {
    u64::try_from(duration.as_nanos()).unwrap_or(Nanos::MAX)
}

/// CPU time the calling thread has used.
pub(crate) fn thread_cpu() -> Duration {
    let used = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    Duration::new(u64::try_from(used.tv_sec).unwrap_or(0), u32::try_from(used.tv_nsec).unwrap_or(0))
}

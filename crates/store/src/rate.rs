//! How quickly files may be read or sent, so that clients do not wait for the disk or the network.

use std::time::Duration;

/// Shorter pauses are left for later: a thread that is woken often costs more than it reads.
const PAUSE_MIN: Duration = Duration::from_millis(20);

/// A limit in bytes a second. Several users of one limit share it.
#[derive(Clone, Copy, Debug)]
pub struct Rate {
    bytes_per_second: u64,
    began: Duration,
    bytes: u64,
}

impl Rate {
    /// So many bytes a second, from `now` on.
    ///
    /// # Panics
    /// The rate is 0.
    pub fn new(bytes_per_second: u64, now: Duration) -> Self {
        assert!(bytes_per_second > 0, "a rate of nothing never ends");
        Self { bytes_per_second, began: now, bytes: 0 }
    }

    /// Counts what was read; says how long to wait before more is read.
    ///
    /// Time in which the reader was held up is not made good for: a burst would disturb the others.
    pub fn pause(&mut self, now: Duration, bytes: u64) -> Duration {
        self.bytes = self.bytes.saturating_add(bytes);
        let takes = |bytes: u64| {
            Duration::from_nanos(
                u64::try_from(
                    u128::from(bytes) * 1_000_000_000 / u128::from(self.bytes_per_second),
                )
                .unwrap_or(u64::MAX),
            )
        };
        let due = self.began.saturating_add(takes(self.bytes));
        if due <= now {
            (self.began, self.bytes) = (now, 0);
            return Duration::ZERO;
        }
        let pause = due - now;
        if pause < PAUSE_MIN { Duration::ZERO } else { pause }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rate_is_kept_and_never_made_good_for() {
        let second = Duration::from_secs(1);
        let mut rate = Rate::new(1_000, Duration::ZERO);
        assert_eq!(rate.pause(Duration::ZERO, 500), second / 2);
        assert_eq!(rate.pause(second / 2, 1_000), second);
        // It stood still for an hour, and goes on as before.
        assert_eq!(rate.pause(second * 3600, 1_000), Duration::ZERO);
        assert_eq!(rate.pause(second * 3600, 1_000), second);
        assert!(rate.pause(second * 3600, u64::MAX) > second * 1_000_000);
    }

    #[test]
    fn short_pauses_are_left_for_later_and_not_forgotten() {
        let mut rate = Rate::new(1_000, Duration::ZERO);
        assert_eq!(rate.pause(Duration::ZERO, 15), Duration::ZERO);
        assert_eq!(rate.pause(Duration::ZERO, 15), Duration::from_millis(30));
    }
}

//! The maximum rate for reading or sending files, so that clients do not wait for the disk or the
//! network.

use std::time::Duration;

/// The reader skips shorter pauses, because a thread that is woken often costs more than it reads.
const PAUSE_MIN: Duration = Duration::from_millis(20);

/// A limit in bytes a second. Several users of one limit share it.
#[derive(Clone, Copy, Debug)]
pub struct Rate {
    bytes_per_second: u64,
    began: Duration,
    bytes: u64,
}

impl Rate {
    /// This number of bytes a second, from `now` on.
    ///
    /// # Panics
    /// The rate is 0.
    pub fn new(bytes_per_second: u64, now: Duration) -> Self {
        assert!(bytes_per_second > 0, "a rate of nothing never ends");
        Self { bytes_per_second, began: now, bytes: 0 }
    }

    /// Counts the read bytes. Returns the time to wait before the next read.
    ///
    /// A reader that was delayed does not catch up, because a burst would disturb other users of
    /// the disk.
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
        // The reader was paused for an hour, and continues at the same rate.
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

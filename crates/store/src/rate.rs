//! The maximum rate for reading or sending files, so that clients do not wait for the disk or the
//! network.

use std::time::Duration;

/// Bytes that a reader reads at once and between two pauses, so that a thread of a client waits for
/// no more than these. Even a thread of the lowest priority keeps its processor for a time slice of
/// some milliseconds.
pub const PIECE_BYTES: usize = 64 << 10;
/// The reader skips shorter pauses, because a thread that is woken often costs more than it reads.
const PAUSE_MIN: Duration = Duration::from_millis(1);
/// With fewer bytes than a piece, it also skips pauses below this.
const PAUSE_OF_LITTLE_MIN: Duration = Duration::from_millis(20);

/// A limit in bytes a second. Several users of one limit share it.
#[derive(Clone, Copy, Debug)]
pub struct Rate {
    bytes_per_second: u64,
    began: Duration,
    bytes: u64,
    /// The bytes since the last pause.
    piece: u64,
}

impl Rate {
    /// This number of bytes a second, from `now` on.
    ///
    /// # Panics
    /// The rate is 0.
    pub fn new(bytes_per_second: u64, now: Duration) -> Self {
        assert!(bytes_per_second > 0, "a rate of nothing never ends");
        Self { bytes_per_second, began: now, bytes: 0, piece: 0 }
    }

    /// Counts the read bytes. Returns the time to wait before the next read.
    ///
    /// A reader that was delayed does not catch up, because a burst would disturb other users of
    /// the disk.
    pub fn pause(&mut self, now: Duration, bytes: u64) -> Duration {
        self.bytes = self.bytes.saturating_add(bytes);
        self.piece = self.piece.saturating_add(bytes);
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
        let is_piece = self.piece >= PIECE_BYTES as u64;
        if pause < if is_piece { PAUSE_MIN } else { PAUSE_OF_LITTLE_MIN } {
            return Duration::ZERO;
        }
        self.piece = 0;
        pause
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

    #[test]
    fn a_fast_reader_pauses_after_each_piece() {
        let (piece, second) = (PIECE_BYTES as u64, 32 << 20);
        let mut rate = Rate::new(second, Duration::ZERO);
        let (mut now, mut pieces, mut read) = (Duration::ZERO, 0, 0);
        while read < second {
            let pause = rate.pause(now, piece / 4);
            read += piece / 4;
            pieces += u32::from(!pause.is_zero());
            now += pause;
        }
        assert_eq!((pieces, now), (512, Duration::from_secs(1)));
    }

    #[test]
    fn a_thread_is_not_woken_for_less_than_a_millisecond() {
        let mut rate = Rate::new(PIECE_BYTES as u64 * 4_000, Duration::ZERO);
        let mut pause = || rate.pause(Duration::ZERO, PIECE_BYTES as u64);
        let pauses = [pause(), pause(), pause(), pause()];
        assert_eq!(pauses.map(|it| it.as_micros()), [0, 0, 0, 1_000]);
    }
}

//! Extra time for clients and peers after this server did not read its sockets.

use std::time::Duration;

/// Delay in reading sockets or the inbox above which the server counts as not listening.
pub const LATE_MIN: Duration = Duration::from_secs(1);

/// The extra time granted so far.
#[derive(Debug, Default)]
pub struct ExtraTime(Duration);

impl ExtraTime {
    /// How much extra time to grant now. `until`: up to when the server was listening.
    pub fn look(&mut self, until: Option<Duration>, now: Duration) -> Duration {
        let from = until.unwrap_or(now) + LATE_MIN;
        let more = now.saturating_sub(from.max(self.0));
        if more > Duration::ZERO {
            self.0 = now;
        }
        assert!(self.0 <= now, "time is given that is to come");
        more
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_time_in_which_nobody_listened_is_given_once() {
        let ms = Duration::from_millis;
        let mut extra = ExtraTime::default();
        assert_eq!(extra.look(None, ms(5_000)), ms(0));
        assert_eq!(extra.look(Some(ms(4_500)), ms(5_400)), ms(0));
        assert_eq!(extra.look(Some(ms(4_500)), ms(7_500)), ms(2_000));
        assert_eq!(extra.look(Some(ms(4_500)), ms(8_000)), ms(500));
        assert_eq!(extra.look(Some(ms(7_900)), ms(8_100)), ms(0));
        assert_eq!(extra.look(Some(ms(7_900)), ms(9_000)), ms(100));
    }
}

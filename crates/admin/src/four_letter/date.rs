//! Dates as the original prints them: `Sat Nov 21 07:25:58 UTC 2026`.

use std::fmt;

use jiff::Timestamp;
use jiff::tz::TimeZone;

/// A time in ms since 1970, printed in UTC. Outside of the years -9999 to 9999 it is printed as the
/// number.
pub(super) struct Date(pub(super) i64);

impl fmt::Display for Date {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match Timestamp::from_millisecond(self.0) {
            Ok(time) => {
                let date = time.to_zoned(TimeZone::UTC);
                write!(f, "{}", date.strftime("%a %b %d %H:%M:%S UTC %Y"))
            }
            Err(_) => write!(f, "{}", self.0),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_look_like_those_of_the_original() {
        for (ms, text) in [
            (0, "Thu Jan 01 00:00:00 UTC 1970"),
            (1_795_245_958_999, "Sat Nov 21 07:25:58 UTC 2026"),
            (951_782_400_000, "Tue Feb 29 00:00:00 UTC 2000"),
            (4_107_542_399_000, "Sun Feb 28 23:59:59 UTC 2100"),
            (4_107_542_400_000, "Mon Mar 01 00:00:00 UTC 2100"),
            (-1, "Wed Dec 31 23:59:59 UTC 1969"),
            (i64::MAX, "9223372036854775807"),
        ] {
            assert_eq!(Date(ms).to_string(), text);
        }
    }
}

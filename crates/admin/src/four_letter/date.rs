//! Dates as the original prints them: `Sat Nov 21 07:25:58 UTC 2026`.

use std::fmt;

/// A point in time, ms since 1970, shown in UTC.
pub(super) struct Date(pub(super) i64);

const DAYS: [&str; 7] = ["Thu", "Fri", "Sat", "Sun", "Mon", "Tue", "Wed"];
const MONTHS: [&str; 12] =
    ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];

impl fmt::Display for Date {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let seconds = self.0.div_euclid(1000);
        let (days, second) = (seconds.div_euclid(86_400), seconds.rem_euclid(86_400));
        let (year, month, day) = civil(days);
        let weekday = DAYS[days.rem_euclid(7) as usize];
        let (hour, minute, second) = (second / 3600, second / 60 % 60, second % 60);
        write!(
            f,
            "{weekday} {} {day:02} {hour:02}:{minute:02}:{second:02} UTC {year}",
            MONTHS[month]
        )
    }
}

/// Year, month (0 to 11) and day of a day since 1970, in the Gregorian calendar.
fn civil(days: i64) -> (i64, usize, i64) {
    // Counted from 1 March of the year 0, so that the leap day is the last of a year, in eras of 400 years.
    let days = days + 719_468;
    let era = days.div_euclid(146_097);
    let day_of_era = days.rem_euclid(146_097);
    let year_of_era =
        (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month_from_march + 2) / 5 + 1;
    let month = (month_from_march + 2) % 12;
    let year = year_of_era + era * 400 + i64::from(month < 2);
    (year, month as usize, day)
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
        ] {
            assert_eq!(Date(ms).to_string(), text);
        }
    }
}

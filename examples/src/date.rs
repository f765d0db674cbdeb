//! Formats times of the servers for readers.

/// Milliseconds since 1970 as a date and time in UTC, as `2014-03-09 17:20:21Z`.
pub fn utc(ms: i64) -> String {
    let seconds = ms.div_euclid(1000);
    let (days, second) = (seconds.div_euclid(86_400), seconds.rem_euclid(86_400));
    // Years that begin in March, so that a leap day is the last of its year; in cycles of 400.
    let days = days + 719_468;
    let (cycle, day) = (days.div_euclid(146_097), days.rem_euclid(146_097));
    let year = (day - day / 1_460 + day / 36_524 - day / 146_096) / 365;
    let day = day - (365 * year + year / 4 - year / 100);
    let month = (5 * day + 2) / 153;
    let day = day - (153 * month + 2) / 5 + 1;
    let (year, month) = if month < 10 { (year, month + 3) } else { (year + 1, month - 9) };
    format!(
        "{:04}-{month:02}-{day:02} {:02}:{:02}:{:02}Z",
        year + 400 * cycle,
        second / 3600,
        second / 60 % 60,
        second % 60
    )
}

#[test]
fn dates_are_right() {
    // Compare with `date -u -d @SECONDS`.
    assert_eq!(utc(0), "1970-01-01 00:00:00Z");
    assert_eq!(utc(1_394_385_621_999), "2014-03-09 17:20:21Z");
    assert_eq!(utc(951_782_400_000), "2000-02-29 00:00:00Z");
    assert_eq!(utc(4_107_542_399_000), "2100-02-28 23:59:59Z");
    assert_eq!(utc(4_107_542_400_000), "2100-03-01 00:00:00Z");
    assert_eq!(utc(-1), "1969-12-31 23:59:59Z");
}

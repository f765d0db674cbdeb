//! Times as the original's tools print them, in the time zone of this machine.

use jiff::tz::TimeZone;
use jiff::{Timestamp, Zoned};

/// The format in the transactions of a log: `11/21/26, 7:20:15 AM UTC`.
pub(crate) fn short(ms: i64) -> String {
    local(ms, "%-m/%-d/%y, %-I:%M:%S %p %Z")
}

/// The format in a znode's stat: `Sat Nov 21 07:20:16 UTC 2026`.
pub(crate) fn full(ms: i64) -> String {
    local(ms, "%a %b %d %H:%M:%S %Z %Y")
}

/// The format of a file's modification time: `Nov 21, 2026, 7:20:16 AM`.
pub(crate) fn medium(time: Timestamp) -> String {
    zoned(time).strftime("%b %-d, %Y, %-I:%M:%S %p").to_string()
}

fn local(ms: i64, format: &str) -> String {
    // A time outside of the calendar is printed as its number.
    Timestamp::from_millisecond(ms)
        .map_or_else(|_| ms.to_string(), |time| zoned(time).strftime(format).to_string())
}

fn zoned(time: Timestamp) -> Zoned {
    time.to_zoned(TimeZone::system())
}

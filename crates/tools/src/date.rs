//! Times as the original's tools print them, in the time zone of this machine.

use jiff::tz::TimeZone;
use jiff::{Timestamp, Zoned};

/// As a log's transactions have it: `11/21/26, 7:20:15 AM UTC`.
pub(crate) fn short(ms: i64) -> String {
    local(ms, "%-m/%-d/%y, %-I:%M:%S %p %Z")
}

/// As a znode's stat has it: `Sat Nov 21 07:20:16 UTC 2026`.
pub(crate) fn full(ms: i64) -> String {
    local(ms, "%a %b %d %H:%M:%S %Z %Y")
}

/// As a file's change has it: `Nov 21, 2026, 7:20:16 AM`.
pub(crate) fn medium(time: Timestamp) -> String {
    zoned(time).strftime("%b %-d, %Y, %-I:%M:%S %p").to_string()
}

fn local(ms: i64, format: &str) -> String {
    // What no calendar has is shown as it stands in the file.
    Timestamp::from_millisecond(ms)
        .map_or_else(|_| ms.to_string(), |time| zoned(time).strftime(format).to_string())
}

fn zoned(time: Timestamp) -> Zoned {
    time.to_zoned(TimeZone::system())
}

//! Points of the history as operators write them, as a zxid or a time; and times as text.

use jiff::tz::TimeZone;
use jiff::{Timestamp, civil};
use zebu_proto::Zxid;

/// A point in the history.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Point {
    /// A transaction.
    Zxid(Zxid),
    /// Milliseconds since the Unix epoch.
    Time(i64),
}

impl Point {
    /// Whether a transaction precedes the point.
    pub fn is_after(self, zxid: Zxid, time_ms: i64) -> bool {
        match self {
            Self::Zxid(point) => zxid < point,
            Self::Time(point) => time_ms < point,
        }
    }

    /// Whether a transaction follows the point.
    pub fn is_before(self, zxid: Zxid, time_ms: i64) -> bool {
        match self {
            Self::Zxid(point) => zxid > point,
            Self::Time(point) => time_ms > point,
        }
    }
}

/// Parses a zxid, `0x…`, or a time: `2026-11-25T04:50:00Z`, a local time without a zone, or a date
/// alone.
pub fn parse_point(text: &str) -> Result<Point, String> {
    if let Some(zxid) = parse_hex(text) {
        return Ok(Point::Zxid(zxid));
    }
    parse_time(text).map(Point::Time).map_err(|_| {
        format!(
            "{text:?} is neither a zxid, as in 0x100000004, nor a time, as in 2026-11-25T04:50:00Z"
        )
    })
}

fn parse_hex(text: &str) -> Option<Zxid> {
    let digits = text.strip_prefix("0x")?;
    i64::from_str_radix(digits, 16).ok().filter(|zxid| *zxid >= 0).map(Zxid)
}

/// Parses a time, in milliseconds since the Unix epoch.
pub fn parse_time(text: &str) -> Result<i64, String> {
    if let Ok(time) = text.parse::<Timestamp>() {
        return Ok(time.as_millisecond());
    }
    let civil = text.parse::<civil::DateTime>().map_err(|error| error.to_string())?;
    let zoned = civil.to_zoned(TimeZone::system()).map_err(|error| error.to_string())?;
    Ok(zoned.timestamp().as_millisecond())
}

/// A time as text, in UTC.
pub fn utc(ms: i64) -> String {
    // A time outside the calendar is printed as its number.
    Timestamp::from_millisecond(ms)
        .map_or_else(|_| ms.to_string(), |time| time.strftime("%Y-%m-%dT%H:%M:%S.%3fZ").to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn points_are_zxids_or_times() {
        assert_eq!(parse_point("0x100000004"), Ok(Point::Zxid(Zxid(0x1_0000_0004))));
        assert_eq!(parse_point("1970-01-01T00:00:01Z"), Ok(Point::Time(1000)));
        assert_eq!(parse_point("1970-01-01T01:00:01+01:00"), Ok(Point::Time(1000)));
        assert!(matches!(parse_point("2026-11-25"), Ok(Point::Time(_))));
        assert!(parse_point("yesterday").unwrap_err().contains("neither a zxid"));
        assert!(parse_point("0xffffffffffffffff").is_err());
        assert_eq!(utc(1500), "1970-01-01T00:00:01.500Z");
    }
}

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

/// A text that is no point of the history.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is neither a zxid, as in 0x100000004, nor a time, as in 2026-11-25T04:50:00Z")]
pub struct NoPoint(pub String);

/// Parses a zxid, `0x…`, or a time: `2026-11-25T04:50:00Z`, a local time without a zone, or a date
/// alone.
///
/// # Errors
/// The text is neither.
pub fn parse_point(text: &str) -> Result<Point, NoPoint> {
    let zxid = parse_hex(text).map(Point::Zxid);
    let point = zxid.or_else(|| parse_time(text).map(Point::Time));
    point.ok_or_else(|| NoPoint(text.to_owned()))
}

fn parse_hex(text: &str) -> Option<Zxid> {
    let digits = text.strip_prefix("0x")?;
    i64::from_str_radix(digits, 16).ok().filter(|zxid| *zxid >= 0).map(Zxid)
}

/// A time, in milliseconds since the Unix epoch.
fn parse_time(text: &str) -> Option<i64> {
    if let Ok(time) = text.parse::<Timestamp>() {
        return Some(time.as_millisecond());
    }
    let civil = text.parse::<civil::DateTime>().ok()?;
    let zoned = civil.to_zoned(TimeZone::system()).ok()?;
    Some(zoned.timestamp().as_millisecond())
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
        assert!(parse_point("yesterday").unwrap_err().to_string().contains("neither a zxid"));
        assert!(parse_point("0xffffffffffffffff").is_err());
        assert_eq!(utc(1500), "1970-01-01T00:00:01.500Z");
    }
}

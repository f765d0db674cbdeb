//! Values as text: numbers, switches, intervals.

use std::time::Duration;

use super::registry::{Kind, Property, Setting};

/// Returns the reason if `value` is invalid for `setting`.
///
/// The text names neither the source nor the key, unless the original's own text does.
pub(super) fn fault(setting: &Setting, key: &str, value: &str) -> Option<String> {
    match setting.kind {
        Kind::Text
        | Kind::Path
        | Kind::JavaBool
        | Kind::Flag { .. }
        | Kind::List
        | Kind::Secret => None,
        Kind::StrictBool => strict_bool(value)
            .is_none()
            .then(|| format!("Invalid option {value} for {key}. Choose 'true' or 'false.'")),
        Kind::Int { min, max, unit } => {
            let bounds = |number: i64| -> Option<String> {
                if number < min {
                    Some(format!("must be at least {min}"))
                } else if number > max {
                    Some(format!("must be at most {max}"))
                } else {
                    None
                }
            };
            match whole_number(value, setting.property != Property::None) {
                Ok(number) => bounds(number),
                Err(fault) => {
                    let what = if unit.is_empty() { String::new() } else { format!(" ({unit})") };
                    Some(format!("{fault}, expected a whole number{what}"))
                }
            }
        }
        Kind::Decimal => decimal(value).is_none().then(|| "expected a number".to_owned()),
        Kind::Interval => interval(value).err().map(|fault| fault.to_string()),
        Kind::Choice(words) => choice(words, value)
            .is_none()
            .then(|| format!("expected one of {}", words.join(", ").trim_start_matches(", "))),
    }
}

/// Why a text is neither a level nor a list of levels for modules: `info,zebu_zab=debug`.
pub(super) fn levels_fault(value: &str) -> Option<String> {
    const LEVELS: [&str; 6] = ["off", "error", "warn", "info", "debug", "trace"];
    let is_level = |text: &str| LEVELS.iter().any(|it| it.eq_ignore_ascii_case(text.trim()));
    let is_module = |text: &str| {
        let is_part = |it: char| it.is_ascii_alphanumeric() || matches!(it, '_' | ':');
        !text.trim().is_empty() && text.trim().chars().all(is_part)
    };
    value.split(',').find_map(|part| match part.split_once('=') {
        Some((module, _)) if !is_module(module) => {
            Some(format!("{:?} is not the name of a module, such as zebu_zab", module.trim()))
        }
        Some((_, level)) if is_level(level) => None,
        None if is_level(part) => None,
        _ => {
            let level = part.rsplit('=').next().unwrap_or_default();
            Some(format!("{:?} is not a level: {}", level.trim(), LEVELS.join(", ")))
        }
    })
}

/// `true` or `false` in any case.
pub(super) fn strict_bool(value: &str) -> Option<bool> {
    if value.eq_ignore_ascii_case("true") {
        Some(true)
    } else if value.eq_ignore_ascii_case("false") {
        Some(false)
    } else {
        None
    }
}

/// Java's reading of a boolean property.
pub(super) fn java_bool(value: &str) -> bool {
    value.eq_ignore_ascii_case("true")
}

/// Reads a whole number: decimal, or hexadecimal after `0x` if the original decodes properties in
/// that way.
///
/// A leading zero is refused in that case, because the original reads such a property as octal, or
/// not, depending on the property.
pub(super) fn whole_number(value: &str, is_property: bool) -> Result<i64, &'static str> {
    let (negative, digits) = match value.as_bytes().first() {
        Some(b'-') => (true, &value[1..]),
        Some(b'+') => (false, &value[1..]),
        _ => (false, value),
    };
    let hexadecimal = ["0x", "0X", "#"].iter().find_map(|prefix| digits.strip_prefix(prefix));
    let (digits, radix) = match hexadecimal {
        Some(digits) if is_property => (digits, 16),
        Some(_) => return Err("hexadecimal is not accepted here"),
        None => (digits, 10),
    };
    if digits.is_empty() || !digits.chars().all(|c| c.is_digit(radix)) {
        return Err("not a number");
    }
    if is_property && radix == 10 && digits.len() > 1 && digits.starts_with('0') {
        return Err("leading zeros are ambiguous (octal or not)");
    }
    let sign = if negative { "-" } else { "" };
    i64::from_str_radix(&format!("{sign}{digits}"), radix).map_err(|_| "number out of range")
}

/// A finite number.
pub(super) fn decimal(value: &str) -> Option<f64> {
    value.parse().ok().filter(|number: &f64| number.is_finite())
}

/// Why a text is no interval.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum IntervalFault {
    /// It does not begin with a number, for this reason.
    #[error("{0}, expected hours or a number with ms, s, m, h or d")]
    Number(&'static str),
    /// There is no such unit.
    #[error("unknown unit {0}, expected ms, s, m, h or d")]
    Unit(String),
    /// The interval is too long.
    #[error("number out of range")]
    TooLong,
}

/// Reads the time between purges: a plain number is in hours; `ms`, `s`, `m`, `h` and `d` are
/// units.
///
/// Zero and negative numbers: never.
///
/// # Errors
/// [`IntervalFault`].
pub fn interval(value: &str) -> Result<Option<Duration>, IntervalFault> {
    let digits_end =
        value.find(|c: char| !c.is_ascii_digit() && c != '-' && c != '+').unwrap_or(value.len());
    let (digits, unit) = value.split_at(digits_end);
    let number = whole_number(digits, false).map_err(IntervalFault::Number)?;
    let unit_ms: u64 = match unit.trim().to_ascii_lowercase().as_str() {
        "ms" => 1,
        "s" => 1_000,
        "m" => 60_000,
        "" | "h" => 3_600_000,
        "d" => 86_400_000,
        other => return Err(IntervalFault::Unit(other.to_owned())),
    };
    let Ok(number) = u64::try_from(number) else { return Ok(None) };
    let total_ms = number.checked_mul(unit_ms).ok_or(IntervalFault::TooLong)?;
    Ok((total_ms > 0).then(|| Duration::from_millis(total_ms)))
}

/// The word of the list that matches `value` in any case.
pub(super) fn choice(words: &'static [&'static str], value: &str) -> Option<&'static str> {
    words.iter().copied().find(|word| word.eq_ignore_ascii_case(value))
}

/// Comma-separated words, without surrounding blanks and without empty words.
pub(super) fn list(value: &str) -> Vec<String> {
    value.split(',').map(str::trim).filter(|word| !word.is_empty()).map(str::to_owned).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whole_numbers() {
        assert_eq!(whole_number("10", false), Ok(10));
        assert_eq!(whole_number("+10", false), Ok(10));
        assert_eq!(whole_number("-1", false), Ok(-1));
        assert_eq!(whole_number("010", false), Ok(10));
        assert_eq!(whole_number("0xfffff", true), Ok(1_048_575));
        assert_eq!(whole_number("-0x10", true), Ok(-16));
        assert_eq!(whole_number("-9223372036854775808", true), Ok(i64::MIN));
        for (text, is_property) in [
            ("", true),
            ("-", true),
            ("0x", true),
            ("0x10", false),
            ("010", true),
            ("10s", true),
            ("1.5", true),
            ("9223372036854775808", true),
            ("--1", true),
            ("0x-1", true),
        ] {
            assert!(whole_number(text, is_property).is_err(), "{text}");
        }
    }

    #[test]
    fn intervals_count_hours_unless_told() {
        let hour = Duration::from_secs(3600);
        for (text, expected) in [
            ("0", None),
            ("-1", None),
            ("0ms", None),
            ("1", Some(hour)),
            ("24", Some(24 * hour)),
            ("1h", Some(hour)),
            ("90s", Some(Duration::from_secs(90))),
            ("5m", Some(Duration::from_secs(300))),
            ("250ms", Some(Duration::from_millis(250))),
            ("2d", Some(48 * hour)),
            ("2 D", Some(48 * hour)),
        ] {
            assert_eq!(interval(text), Ok(expected), "{text}");
        }
        for text in ["", "h", "1w", "1.5h", "99999999999999999d"] {
            assert!(interval(text).is_err(), "{text}");
        }
    }

    #[test]
    fn lists_lose_blanks() {
        assert_eq!(list(" srvr, ,mntr ,"), ["srvr", "mntr"]);
    }
}

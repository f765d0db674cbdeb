//! The text format of limits and usage in the znodes of quotas.

use std::collections::BTreeMap;

use serde_json::Value;

/// Named numbers: `count=4,bytes=5=;byteHardLimit=10;countHardLimit=10`.
///
/// Source: `StatsTrack`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Limits(BTreeMap<String, i64>);

/// Soft limit on znodes, or their number.
pub(crate) const COUNT: &str = "count";
/// Soft limit on bytes, or their number.
pub(crate) const BYTES: &str = "bytes";
/// Hard limit on znodes.
pub(crate) const COUNT_HARD: &str = "countHardLimit";
/// Hard limit on bytes.
pub(crate) const BYTES_HARD: &str = "byteHardLimit";

impl Limits {
    /// Parses the text. Invalid numbers count as unlimited.
    pub(crate) fn parse(text: &[u8]) -> Self {
        let text = String::from_utf8_lossy(text);
        let pairs = text.split([',', ';']).filter_map(|pair| {
            let (key, value) = pair.split_once('=')?;
            // A second `=` after the bytes is for servers that do not know hard limits.
            let value = value.trim_end_matches('=');
            Some((key.to_owned(), value.parse().unwrap_or(-1)))
        });
        Self(pairs.collect())
    }

    /// No limit of any kind.
    pub(crate) fn unlimited() -> Self {
        let keys = [COUNT, BYTES, COUNT_HARD, BYTES_HARD];
        Self(keys.into_iter().map(|key| (key.to_owned(), -1)).collect())
    }

    /// No usage.
    pub(crate) fn unused() -> Self {
        Self([COUNT, BYTES].into_iter().map(|key| (key.to_owned(), 0)).collect())
    }

    /// One number; −1 if it is missing.
    pub(crate) fn get(&self, key: &str) -> i64 {
        self.0.get(key).copied().unwrap_or(-1)
    }

    pub(crate) fn set(&mut self, key: &str, value: i64) {
        self.0.insert(key.to_owned(), value);
    }

    /// The text: count and bytes first, then the rest by name.
    pub(crate) fn text(&self) -> String {
        let mut text = format!("{COUNT}={},{BYTES}={}", self.get(COUNT), self.get(BYTES));
        let mut rest = self.0.iter().filter(|(key, _)| *key != COUNT && *key != BYTES).peekable();
        if rest.peek().is_some() {
            text.push('=');
        }
        rest.for_each(|(key, value)| text.push_str(&format!(";{key}={value}")));
        text
    }

    /// The numbers as JSON.
    pub(crate) fn json(&self) -> Value {
        let pairs = self.0.iter().map(|(key, value)| (key.clone(), Value::from(*value)));
        pairs.collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_the_originals() {
        let text = "count=3,bytes=100=;byteHardLimit=200;countHardLimit=5";
        let mut limits = Limits::parse(text.as_bytes());
        assert_eq!(limits.text(), text);
        limits.set(COUNT, -1);
        assert_eq!(limits.get(COUNT), -1);
        assert_eq!(limits.get("none"), -1);
        assert_eq!(Limits::unused().text(), "count=0,bytes=0");
        assert_eq!(
            Limits::unlimited().text(),
            "count=-1,bytes=-1=;byteHardLimit=-1;countHardLimit=-1"
        );
        assert_eq!(Limits::parse(b"count=x,junk").text(), "count=-1,bytes=-1");
    }
}

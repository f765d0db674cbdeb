//! Quotas: the text of their znodes, and which quota applies to a path.
//!
//! A quota on `/p` consists of two znodes: `/zookeeper/quota/p/zookeeper_limits` with the limits,
//! and `/zookeeper/quota/p/zookeeper_stats` with the usage. A higher layer enforces the limits.
//! Source: `StatsTrack`, `Quotas`.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use zebu_proto::path::reserved::{LIMITS, QUOTA, STATS};

/// A text that is neither limits nor usage.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QuotaTextError {
    /// The invalid part.
    pub part: String,
}

impl fmt::Display for QuotaTextError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "quota text cannot be read: {:?}", self.part)
    }
}

impl std::error::Error for QuotaTextError {}

/// The data of a limits or usage znode.
///
/// Text: `count=5,bytes=1000`, followed for further keys by `=` and `;key=value` for each in
/// alphabetical order. A missing key is −1: no limit. Source: `StatsTrack`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct QuotaText {
    values: BTreeMap<String, i64>,
}

impl QuotaText {
    const COUNT: &'static str = "count";
    const BYTES: &'static str = "bytes";

    /// Parses the text; null has no values.
    ///
    /// # Errors
    /// [`QuotaTextError`] for a part that is not `key=number`.
    pub fn parse(data: Option<&[u8]>) -> Result<Self, QuotaTextError> {
        let text = String::from_utf8_lossy(data.unwrap_or_default());
        let mut values = BTreeMap::new();
        for part in text.split([',', ';']).filter(|part| !part.is_empty()) {
            let error = || QuotaTextError { part: part.to_owned() };
            let mut fields = part.split('=');
            let key = fields.next().unwrap_or_default();
            let value = match fields.next().ok_or_else(error)? {
                "" => -1,
                number => number.parse().map_err(|_| error())?,
            };
            values.insert(key.to_owned(), value);
        }
        Ok(Self { values })
    }

    /// A usage.
    pub fn usage(count: i64, bytes: i64) -> Self {
        let values = [(Self::COUNT.to_owned(), count), (Self::BYTES.to_owned(), bytes)];
        Self { values: values.into() }
    }

    fn value(&self, key: &str) -> i64 {
        self.values.get(key).copied().unwrap_or(-1)
    }

    /// Number of znodes: the usage or the soft limit.
    pub fn count(&self) -> i64 {
        self.value(Self::COUNT)
    }

    /// Bytes of data: the usage or the soft limit.
    pub fn bytes(&self) -> i64 {
        self.value(Self::BYTES)
    }

    /// Hard limit of znodes.
    pub fn count_hard(&self) -> i64 {
        self.value("countHardLimit")
    }

    /// Hard limit of bytes of data.
    pub fn bytes_hard(&self) -> i64 {
        self.value("byteHardLimit")
    }

    pub(crate) fn add(&mut self, count: i64, bytes: i64) {
        let (count, bytes) = (self.count().wrapping_add(count), self.bytes().wrapping_add(bytes));
        self.values.insert(Self::COUNT.to_owned(), count);
        self.values.insert(Self::BYTES.to_owned(), bytes);
    }
}

impl fmt::Display for QuotaText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "count={},bytes={}", self.count(), self.bytes())?;
        let more = |key: &str| key != Self::COUNT && key != Self::BYTES;
        for (i, (key, value)) in self.values.iter().filter(|(key, _)| more(key)).enumerate() {
            // The additional `=` makes old readers stop here.
            let mark = if i == 0 { "=" } else { "" };
            write!(f, "{mark};{key}={value}")?;
        }
        Ok(())
    }
}

/// The quota that applies to a path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Quota {
    /// The path that has the quota.
    pub path: String,
    /// The limits.
    pub limits: Result<QuotaText, QuotaTextError>,
    /// The usage; `None` if its znode is missing.
    pub usage: Option<Result<QuotaText, QuotaTextError>>,
}

/// The path whose limits or usage are in the znode at `path`.
///
/// `None` if it is not such a znode, and directly below `/zookeeper/quota`, since the root has no
/// quota.
fn quota_znode<'a>(path: &'a str, name: &str) -> Option<&'a str> {
    let below = path.strip_prefix(QUOTA)?.strip_suffix(name)?.strip_suffix('/')?;
    (below.len() > 1 && below.starts_with('/')).then_some(below)
}

pub(crate) fn limits_of(path: &str) -> Option<&str> {
    quota_znode(path, LIMITS)
}

pub(crate) fn stats_of(path: &str) -> Option<&str> {
    quota_znode(path, STATS)
}

pub(crate) fn limits_path(path: &str) -> String {
    format!("{QUOTA}{path}/{LIMITS}")
}

pub(crate) fn stats_path(path: &str) -> String {
    format!("{QUOTA}{path}/{STATS}")
}

/// The paths that have a quota.
#[derive(Debug, Default)]
pub(crate) struct QuotaPaths(BTreeSet<Box<str>>);

impl QuotaPaths {
    pub(crate) fn add(&mut self, path: &str) {
        self.0.insert(path.into());
    }

    pub(crate) fn remove(&mut self, path: &str) {
        self.0.remove(path);
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &str> {
        self.0.iter().map(|path| &**path)
    }

    /// The deepest path with a quota among `path` and its ancestors.
    pub(crate) fn deepest<'a>(&self, path: &'a str) -> Option<&'a str> {
        if self.0.is_empty() {
            return None;
        }
        let mut prefix = path;
        while !prefix.is_empty() {
            if self.0.contains(prefix) {
                return Some(prefix);
            }
            prefix = &prefix[..prefix.rfind('/')?];
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_of_the_original() {
        for text in [
            "count=5,bytes=1000",
            "count=5,bytes=1000=;byteHardLimit=4096;countHardLimit=10",
            "count=-1,bytes=-1=;zz=3",
        ] {
            assert_eq!(QuotaText::parse(Some(text.as_bytes())).unwrap().to_string(), text);
        }
        let empty = QuotaText::parse(None).unwrap();
        assert_eq!((empty.count(), empty.bytes(), empty.count_hard()), (-1, -1, -1));
        assert_eq!(QuotaText::parse(Some(b"count=,bytes=3")).unwrap().count(), -1);
        for bad in ["count", "count=x", "count=99999999999999999999", "\u{fffd}"] {
            QuotaText::parse(Some(bad.as_bytes())).unwrap_err();
        }
    }

    #[test]
    fn which_znodes_belong_to_a_quota() {
        assert_eq!(limits_of("/zookeeper/quota/a/b/zookeeper_limits"), Some("/a/b"));
        assert_eq!(stats_of("/zookeeper/quota/a/zookeeper_stats"), Some("/a"));
        assert_eq!(limits_of("/zookeeper/quota/zookeeper_limits"), None);
        assert_eq!(limits_of("/zookeeper/quota/azookeeper_limits"), None);
        assert_eq!(limits_of("/zookeeper/quotas/a/zookeeper_limits"), None);
    }

    #[test]
    fn the_deepest_quota_applies() {
        let mut paths = QuotaPaths::default();
        paths.add("/a");
        paths.add("/a/b");
        assert_eq!(paths.deepest("/a/b/c/d"), Some("/a/b"));
        assert_eq!(paths.deepest("/a/bb"), Some("/a"));
        assert_eq!(paths.deepest("/a"), Some("/a"));
        assert_eq!(paths.deepest("/aa"), None);
        paths.remove("/a/b");
        assert_eq!(paths.deepest("/a/b"), Some("/a"));
    }
}

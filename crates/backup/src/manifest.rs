//! A manifest: the files of a backup, and their contents.
//!
//! Its first line is one JSON object, its second line the SHA-256 of the first. A manifest alone is
//! enough to restore every moment between its first snapshot and its last transaction.

use serde_json::{Value, json};
use zebu_proto::Zxid;
use zebu_store::{Compression, names};

use crate::dates;
use crate::repository::{Sha, sha256};

/// The version of the format.
const FORMAT: u64 = 1;

/// Why a text is not a manifest.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ManifestError {
    /// There is no second line.
    #[error("a manifest has two lines")]
    Short,
    /// The second line is not the checksum of the first.
    #[error("its checksum is not that of its content")]
    Checksum,
    /// The first line is not JSON.
    #[error("{0}")]
    Json(#[from] serde_json::Error),
    /// A newer version of this program has written it.
    #[error("format {0} is of another version of this program")]
    Format(u64),
    /// A field is missing or has another type.
    #[error("{0} is missing")]
    Missing(&'static str),
    /// A field has an invalid value.
    #[error("{text} is no {what}")]
    Value {
        /// The expected value.
        what: &'static str,
        /// The actual value.
        text: String,
    },
    /// The files are not sorted.
    #[error("its files are not in order")]
    Order,
}

/// The result of functions of this file.
type Result<T, E = ManifestError> = std::result::Result<T, E>;

/// The content of a backup.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Manifest {
    /// The number of the backup in its repository, from 1.
    pub number: u64,
    /// The time of the backup, in milliseconds since the Unix epoch.
    pub made_ms: i64,
    /// The description of its source.
    pub source: String,
    /// Oldest first.
    pub snapshots: Vec<SnapEntry>,
    /// Oldest first.
    pub logs: Vec<LogEntry>,
}

/// A snapshot of a backup.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SnapEntry {
    /// The last transaction that was applied before the snapshot began.
    pub zxid: Zxid,
    /// Its compression.
    pub compression: Compression,
    /// The number of znodes.
    pub znodes: u64,
    /// The time of the first backup with this snapshot, in milliseconds since the Unix epoch.
    pub seen_ms: i64,
    /// The file's length.
    pub bytes: u64,
    /// The file's hash.
    pub sha: Sha,
}

/// A transaction log of a backup. It ends with a complete record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogEntry {
    /// Its first transaction.
    pub first: Zxid,
    /// The last transaction before it, if known.
    pub previous: Option<Zxid>,
    /// Its last transaction.
    pub last: Zxid,
    /// The number of transactions.
    pub records: u64,
    /// The chained hash of its records, as in a sidecar.
    pub chain: u64,
    /// The time of its first transaction.
    pub first_ms: i64,
    /// The time of its last transaction.
    pub last_ms: i64,
    /// The file's length.
    pub bytes: u64,
    /// The file's hash.
    pub sha: Sha,
}

impl SnapEntry {
    /// The name of the file in a data directory.
    pub fn name(&self) -> String {
        names::snapshot(self.zxid, self.compression)
    }
}

impl LogEntry {
    /// The name of the file in a data directory.
    pub fn name(&self) -> String {
        names::log(self.first)
    }
}

impl Manifest {
    /// The last transaction of its logs, or of its last snapshot.
    pub fn last(&self) -> Zxid {
        let log = self.logs.last().map_or(Zxid::ZERO, |log| log.last);
        self.snapshots.last().map_or(log, |snapshot| snapshot.zxid.max(log))
    }

    /// The time of the last transaction in its logs.
    pub fn last_ms(&self) -> Option<i64> {
        self.logs.last().map(|log| log.last_ms)
    }

    /// The names and hashes of all its files.
    pub fn files(&self) -> impl Iterator<Item = (String, &Sha)> {
        let snapshots = self.snapshots.iter().map(|entry| (entry.name(), &entry.sha));
        snapshots.chain(self.logs.iter().map(|entry| (entry.name(), &entry.sha)))
    }

    /// The total length of its files.
    pub fn bytes(&self) -> u64 {
        let snapshots: u64 = self.snapshots.iter().map(|entry| entry.bytes).sum();
        snapshots + self.logs.iter().map(|entry| entry.bytes).sum::<u64>()
    }

    /// Encodes the manifest.
    pub fn encode(&self) -> String {
        let snapshots: Vec<Value> = (self.snapshots.iter())
            .map(|entry| {
                json!({
                    "name": entry.name(), "znodes": entry.znodes, "seen_ms": entry.seen_ms, "bytes": entry.bytes, "sha256": entry.sha,
                })
            })
            .collect();
        let logs: Vec<Value> = (self.logs.iter())
            .map(|entry| {
                json!({
                    "name": entry.name(), "previous": entry.previous.map(|zxid| zxid.to_string()),
                    "last": entry.last.to_string(), "records": entry.records,
                    "chain": format!("{:016x}", entry.chain), "first_ms": entry.first_ms, "last_ms": entry.last_ms,
                    "bytes": entry.bytes, "sha256": entry.sha,
                })
            })
            .collect();
        let line = json!({
            "format": FORMAT, "number": self.number, "made": dates::utc(self.made_ms), "made_ms": self.made_ms,
            "source": self.source, "last": self.last().to_string(), "snapshots": snapshots, "logs": logs,
        })
        .to_string();
        let sum = sha256(line.as_bytes());
        format!("{line}\n{sum}\n")
    }

    /// Decodes a manifest.
    ///
    /// # Errors
    /// It is damaged, or a newer version has written it.
    pub fn decode(text: &str) -> Result<Self> {
        let (line, sum) = text.split_once('\n').ok_or(ManifestError::Short)?;
        if sum.trim_end() != sha256(line.as_bytes()) {
            return Err(ManifestError::Checksum);
        }
        let value: Value = serde_json::from_str(line)?;
        let format = number(&value, "format")?;
        if format != FORMAT {
            return Err(ManifestError::Format(format));
        }
        let entries = |key: &'static str| value[key].as_array().ok_or(ManifestError::Missing(key));
        let manifest = Self {
            number: number(&value, "number")?,
            made_ms: time(&value, "made_ms")?,
            source: text_of(&value, "source")?.to_owned(),
            snapshots: entries("snapshots")?.iter().map(snapshot).collect::<Result<_>>()?,
            logs: entries("logs")?.iter().map(log).collect::<Result<_>>()?,
        };
        let is_ordered = manifest.snapshots.is_sorted_by(|a, b| a.zxid < b.zxid)
            && manifest.logs.is_sorted_by(|a, b| a.first < b.first);
        is_ordered.then_some(manifest).ok_or(ManifestError::Order)
    }
}

fn snapshot(value: &Value) -> Result<SnapEntry> {
    let name = text_of(value, "name")?;
    let Some((zxid, compression)) = names::parse_snapshot(name) else {
        return Err(no("snapshot", name));
    };
    let (znodes, bytes) = (number(value, "znodes")?, number(value, "bytes")?);
    let seen_ms = time(value, "seen_ms")?;
    Ok(SnapEntry { zxid, compression, znodes, seen_ms, bytes, sha: sha(value)? })
}

fn log(value: &Value) -> Result<LogEntry> {
    let name = text_of(value, "name")?;
    let first = names::parse_log(name).ok_or_else(|| no("log", name))?;
    let previous = match &value["previous"] {
        Value::Null => None,
        _ => Some(zxid(value, "previous")?),
    };
    let chain = text_of(value, "chain")?;
    let chain = u64::from_str_radix(chain, 16).map_err(|_| no("chain", chain))?;
    Ok(LogEntry {
        first,
        previous,
        last: zxid(value, "last")?,
        records: number(value, "records")?,
        chain,
        first_ms: time(value, "first_ms")?,
        last_ms: time(value, "last_ms")?,
        bytes: number(value, "bytes")?,
        sha: sha(value)?,
    })
}

fn no(what: &'static str, text: &str) -> ManifestError {
    ManifestError::Value { what, text: text.to_owned() }
}

fn text_of<'a>(value: &'a Value, key: &'static str) -> Result<&'a str> {
    value[key].as_str().ok_or(ManifestError::Missing(key))
}

fn number(value: &Value, key: &'static str) -> Result<u64> {
    value[key].as_u64().ok_or(ManifestError::Missing(key))
}

fn time(value: &Value, key: &'static str) -> Result<i64> {
    value[key].as_i64().ok_or(ManifestError::Missing(key))
}

fn zxid(value: &Value, key: &'static str) -> Result<Zxid> {
    let text = text_of(value, key)?;
    let digits = text.strip_prefix("0x").ok_or_else(|| no("zxid", text))?;
    i64::from_str_radix(digits, 16).map(Zxid).map_err(|_| no("zxid", text))
}

/// A hash becomes part of a path, so the form is checked.
fn sha(value: &Value) -> Result<Sha> {
    let sha = text_of(value, "sha256")?;
    let is_hash = sha.len() == 64 && sha.bytes().all(|byte| byte.is_ascii_hexdigit());
    is_hash.then(|| sha.to_owned()).ok_or_else(|| no("hash", sha))
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// A manifest with snapshots at these zxids, and logs of ten transactions each.
    pub(crate) fn manifest(logs: &[i64], snapshots: &[i64]) -> Manifest {
        let log = |first: &i64| LogEntry {
            first: Zxid(*first),
            previous: Some(Zxid(first - 1)),
            last: Zxid(first + 9),
            records: 10,
            chain: *first as u64,
            first_ms: first * 1000,
            last_ms: (first + 9) * 1000,
            bytes: 100,
            sha: sha256(&first.to_be_bytes()),
        };
        let snapshot = |zxid: &i64| SnapEntry {
            zxid: Zxid(*zxid),
            compression: Compression::None,
            znodes: 3,
            seen_ms: 1_000_000,
            bytes: 50,
            sha: sha256(&zxid.to_be_bytes()),
        };
        Manifest {
            number: 7,
            made_ms: 1_000_000,
            source: "directory \"/data\"".to_owned(),
            snapshots: snapshots.iter().map(snapshot).collect(),
            logs: logs.iter().map(log).collect(),
        }
    }

    #[test]
    fn a_manifest_reads_back_and_shows_any_change() {
        let whole = manifest(&[1, 11], &[0, 10]);
        let text = whole.encode();
        assert_eq!(Manifest::decode(&text).unwrap(), whole);
        assert_eq!((whole.last(), whole.bytes()), (Zxid(20), 300));
        for at in 0..text.len() - 1 {
            let mut bytes = text.clone().into_bytes();
            bytes[at] ^= 1;
            if let Ok(text) = String::from_utf8(bytes) {
                Manifest::decode(&text).unwrap_err();
            }
            Manifest::decode(&text[..at]).unwrap_err();
        }
    }

    #[test]
    fn a_hash_that_is_none_never_becomes_a_path() {
        let mut evil = manifest(&[1], &[]);
        evil.logs[0].sha = "../../etc/passwd".to_owned();
        let error = Manifest::decode(&evil.encode()).unwrap_err();
        assert!(error.to_string().contains("is no hash"), "{error}");
    }
}

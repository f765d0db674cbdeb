//! File names.
//!
//! The original treats every name whose first dot-separated part is `log` or `snapshot` as its own.
//! So the names of our additional files start with other words. Of the original's names we only
//! accept those that it writes itself, so that a stray `log.1.bak` does not break a start.

use std::path::{Path, PathBuf};

use zebu_proto::Zxid;

use crate::Compression;
use crate::vfs::Entry;

/// The directory inside `dataDir` and `dataLogDir`, named after the format's version.
pub const VERSION_DIR: &str = "version-2";

const LOG: &str = "log";
const SNAPSHOT: &str = "snapshot";
const SIDECAR: &str = "durable";
/// Prefix of incomplete files, which the next start removes.
const TEMPORARY: &str = "tmp.";
/// Prefix of damaged files that were set aside.
const SET_ASIDE: &str = "damaged.";
/// Prefix of the mark of a pending truncation.
const TRUNCATING: &str = "truncating";
/// Prefix of a complete snapshot of a leader that is being installed.
const RECEIVED: &str = "received.";
/// Prefix of files that an installed snapshot has replaced.
const SUPERSEDED: &str = "old.";

/// The name of a log; `first` is the zxid of its first record.
pub fn log(first: Zxid) -> String {
    format!("{LOG}.{:x}", first.0)
}

/// The name of a sidecar; `first` as for its log.
pub fn sidecar(first: Zxid) -> String {
    format!("{SIDECAR}.{:x}", first.0)
}

/// The name of a snapshot; `zxid` is the last transaction applied when it was started.
pub fn snapshot(zxid: Zxid, compression: Compression) -> String {
    format!("{SNAPSHOT}.{:x}{}", zxid.0, compression.suffix())
}

/// The name of a file until it is complete.
pub(crate) fn temporary(name: &str) -> String {
    format!("{TEMPORARY}{name}")
}

/// The name of a damaged file that is kept as evidence.
pub(crate) fn set_aside(path: &Path) -> PathBuf {
    let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    path.with_file_name(format!("{SET_ASIDE}{name}"))
}

/// The name of the mark of a pending truncation after `zxid`. The file is empty.
pub(crate) fn truncating(zxid: Zxid) -> String {
    format!("{TRUNCATING}.{:x}", zxid.0)
}

/// The zxid in the name of such a mark.
pub(crate) fn parse_truncating(name: &str) -> Option<Zxid> {
    parse(name, TRUNCATING).filter(|(_, rest)| rest.is_empty()).map(|(zxid, _)| zxid)
}

/// The name of a leader's snapshot during its installation.
pub(crate) fn received(snapshot: &str) -> String {
    format!("{RECEIVED}{snapshot}")
}

/// The final name of a received snapshot.
pub(crate) fn parse_received(name: &str) -> Option<&str> {
    name.strip_prefix(RECEIVED).filter(|snapshot| parse_snapshot(snapshot).is_some())
}

/// The name of a file that an installed snapshot has replaced.
pub(crate) fn superseded(name: &str) -> String {
    format!("{SUPERSEDED}{name}")
}

/// Whether an installed snapshot has replaced the file.
pub(crate) fn is_superseded(name: &str) -> bool {
    name.strip_prefix(SUPERSEDED).is_some_and(is_data)
}

/// Whether this is the name of a log, a sidecar or a snapshot.
pub fn is_data(name: &str) -> bool {
    parse_log(name).is_some() || parse_sidecar(name).is_some() || parse_snapshot(name).is_some()
}

/// Whether this is a temporary name of this crate.
pub(crate) fn is_temporary(name: &str) -> bool {
    [LOG, SIDECAR, SNAPSHOT, RECEIVED, PROBE]
        .iter()
        .any(|kind| name.strip_prefix(TEMPORARY).and_then(|rest| rest.strip_prefix(kind)).is_some())
}

/// The base name of the file that tests whether a directory is writable.
pub(crate) const PROBE: &str = "probe";

/// The first transactions of the logs in a directory, oldest first, by their names.
pub(crate) fn logs(entries: &[Entry]) -> Vec<Zxid> {
    let mut logs: Vec<Zxid> = entries.iter().filter_map(|entry| parse_log(&entry.name)).collect();
    logs.sort();
    logs
}

/// The first zxid of the log with this name.
pub fn parse_log(name: &str) -> Option<Zxid> {
    parse(name, LOG).filter(|(_, rest)| rest.is_empty()).map(|(zxid, _)| zxid)
}

/// The first zxid of the log that belongs to the sidecar with this name.
pub fn parse_sidecar(name: &str) -> Option<Zxid> {
    parse(name, SIDECAR).filter(|(_, rest)| rest.is_empty()).map(|(zxid, _)| zxid)
}

/// Zxid and compression of the snapshot with this name.
pub fn parse_snapshot(name: &str) -> Option<(Zxid, Compression)> {
    let (zxid, rest) = parse(name, SNAPSHOT)?;
    let all = [Compression::None, Compression::Gzip, Compression::Snappy];
    let compression = all.into_iter().find(|compression| compression.suffix() == rest)?;
    Some((zxid, compression))
}

/// Whether the original would load a file of this name, and this crate would not.
pub(crate) fn is_foreign(name: &str) -> bool {
    let is = |kind| parse(name, kind).is_some();
    (is(LOG) && parse_log(name).is_none()) || (is(SNAPSHOT) && parse_snapshot(name).is_none())
}

/// Splits `<kind>.<hex><rest>`.
fn parse<'a>(name: &'a str, kind: &str) -> Option<(Zxid, &'a str)> {
    let rest = name.strip_prefix(kind)?.strip_prefix('.')?;
    let (hex, rest) = rest.split_at(rest.find('.').unwrap_or(rest.len()));
    if hex.is_empty() || !hex.bytes().all(|byte| byte.is_ascii_hexdigit()) {
        return None;
    }
    i64::from_str_radix(hex, 16).ok().map(|zxid| (Zxid(zxid), rest))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_go_there_and_back() {
        let zxid = Zxid(0x1_0000_00af);
        assert_eq!(log(zxid), "log.1000000af");
        assert_eq!(parse_log("log.1000000af"), Some(zxid));
        assert_eq!(parse_sidecar(&sidecar(zxid)), Some(zxid));
        for compression in [Compression::None, Compression::Gzip, Compression::Snappy] {
            assert_eq!(parse_snapshot(&snapshot(zxid, compression)), Some((zxid, compression)));
        }
    }

    #[test]
    fn only_what_a_server_writes_is_read() {
        for name in
            ["log", "log.", "log.g", "log.1.bak", "log.-1", "log.8000000000000000", "llog.1"]
        {
            assert_eq!(parse_log(name), None, "{name}");
        }
        for name in ["snapshot.1.tmp", "snapshot.1.gz.gz", "snapshot", "tmp.snapshot.1"] {
            assert_eq!(parse_snapshot(name), None, "{name}");
        }
        assert!(is_foreign("log.1.bak") && is_foreign("snapshot.1.tmp"));
        assert!(!is_foreign("log.1") && !is_foreign("acceptedEpoch") && !is_foreign("durable.1"));
    }

    #[test]
    fn the_original_takes_no_name_of_ours_for_its_own() {
        let whole = snapshot(Zxid(1), Compression::None);
        let names = [
            sidecar(Zxid(1)),
            temporary(&whole),
            truncating(Zxid(1)),
            received(&whole),
            superseded(&whole),
            superseded(&log(Zxid(1))),
        ];
        assert_eq!(parse_truncating(&names[2]), Some(Zxid(1)));
        assert_eq!(parse_received(&names[3]), Some(&whole[..]));
        assert!(is_superseded(&names[4]) && is_superseded(&names[5]));
        assert!(is_temporary(&temporary(&names[3])) && !is_temporary(&names[3]));
        for name in names {
            let first = name.split('.').next().unwrap();
            assert!(first != "log" && first != "snapshot", "{name}");
            assert!(!name.starts_with("log") && !name.starts_with("snapshot"), "{name}");
        }
    }
}

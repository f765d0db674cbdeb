//! The golden files of the original, and what is in them.

use std::path::{Path, PathBuf};

use zebu_proto::Zxid;
use zebu_store::log::read::{LogRecord, read_log};

/// The longest record of the fixtures' logs, in bytes.
const RECORD_BYTES_MAX: usize = 1 << 20;

/// The folder of all golden files.
pub fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/fixtures")
}

/// The zxid and the body of each transaction that the original wrote to its two logs of
/// `zookeeper-3.8.0/basic`.
///
/// # Panics
/// The files are missing.
pub fn basic_bodies() -> Vec<(Zxid, Vec<u8>)> {
    let mut all = Vec::new();
    for log in ["log.1", "log.3d"] {
        let path = folder().join("zookeeper-3.8.0/basic/version-2").join(log);
        let bytes = std::fs::read(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
        let mut take = |record: LogRecord<'_>| all.push((record.zxid, record.body.to_vec()));
        read_log(&bytes[..], RECORD_BYTES_MAX, &mut take).expect("a log of the original");
    }
    all
}

//! Snapshots: format, reading, writing, and the handle that finds and removes them.

mod compress;
pub mod read;
mod write;

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use zebu_proto::Zxid;

use crate::scrub::Pace;
use crate::store::Shared;
use crate::vfs::{UNSYNCED_BYTES_MAX, Vfs};
use crate::{Compression, LogFiles, Purged, StoreError, names, purge};

pub use compress::{decompressed, uncompressed};
pub use write::{Received, SnapshotWriter, Written};

/// The first bytes of a snapshot: magic "ZKSN", version 2, database −1.
pub const HEADER: [u8; 16] = *b"ZKSN\0\0\0\x02\xff\xff\xff\xff\xff\xff\xff\xff";
/// The end of a seal, after its checksum: the string "/".
const SEAL_END: [u8; 5] = [0, 0, 0, 1, b'/'];
/// Size of a seal.
const SEAL_BYTES: usize = 8 + SEAL_END.len();
const _: () = assert!(SEAL_BYTES == 13, "a checksum and the string \"/\"");

/// Minimum size of a snapshot worth reading.
const BYTES_MIN: u64 = 10;

/// Bytes of a leader's snapshot that may be unsynced.
const COPY_UNSYNCED_BYTES_MAX: u64 = 8 << 20;
const _: () = assert!(COPY_UNSYNCED_BYTES_MAX >= UNSYNCED_BYTES_MAX, "nobody waits for a copy");

/// A snapshot on disk.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SnapshotFile {
    /// Its path.
    pub path: PathBuf,
    /// The last transaction applied when it was started.
    pub zxid: Zxid,
    /// Its compression.
    pub compression: Compression,
    /// Its size in bytes.
    pub bytes: u64,
}

/// Bytes on disk.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DirSizes {
    /// All files in the directory of snapshots.
    pub snapshots: u64,
    /// All files in the directory of logs.
    pub logs: u64,
}

/// Takes, finds and removes snapshots. Clones share one directory.
#[derive(Clone, Debug)]
pub struct Snapshots {
    shared: Arc<Shared>,
}

impl Snapshots {
    pub(crate) fn new(shared: Arc<Shared>) -> Self {
        Self { shared }
    }

    /// Starts a snapshot of a state whose last transaction is `zxid`.
    ///
    /// # Errors
    /// [`StoreError::Io`]; other snapshots are untouched.
    pub fn begin(&self, zxid: Zxid) -> Result<SnapshotWriter, StoreError> {
        SnapshotWriter::begin(Arc::clone(&self.shared), zxid, UNSYNCED_BYTES_MAX)
    }

    /// Starts a snapshot that a leader sends. The receiver's log is idle meanwhile, so larger parts
    /// may be unsynced, which is faster.
    ///
    /// # Errors
    /// As for [`Snapshots::begin`].
    pub fn begin_copy(&self, zxid: Zxid) -> Result<SnapshotWriter, StoreError> {
        SnapshotWriter::begin(Arc::clone(&self.shared), zxid, COPY_UNSYNCED_BYTES_MAX)
    }

    /// Removes snapshots and logs that the newest `keep` generations, at least 3, do not need.
    ///
    /// A generation is a sound snapshot that a scrub or this method has read to its end within the
    /// last two days, if no log after it is known to be damaged. The caller's `pace` limits the
    /// reading. If no file can be removed, this reads nothing. It takes no lock while it reads.
    ///
    /// # Errors
    /// [`StoreError::Io`]; whatever is left can still be loaded.
    pub fn purge(&self, keep: usize, pace: Pace<'_>) -> Result<Purged, StoreError> {
        purge::purge(&self.shared, keep, pace)
    }

    /// The newest snapshot that looks complete.
    ///
    /// # Errors
    /// [`StoreError::Io`].
    pub fn latest(&self) -> Result<Option<SnapshotFile>, StoreError> {
        let Shared { vfs, snap_dir, .. } = &*self.shared;
        let files = list(vfs.as_ref(), snap_dir)?;
        Ok(files.into_iter().find(|file| looks_complete(vfs.as_ref(), file)))
    }

    /// A reader for the logs on disk.
    pub fn logs(&self) -> LogFiles {
        LogFiles::new(Arc::clone(&self.shared))
    }

    /// The sizes of the directories; equal if snapshots and logs share one.
    ///
    /// # Errors
    /// [`StoreError::Io`].
    pub fn sizes(&self) -> Result<DirSizes, StoreError> {
        let Shared { vfs, snap_dir, log_dir, .. } = &*self.shared;
        let size = |dir: &Path| {
            let entries = vfs.list(dir).map_err(StoreError::io("list directory", dir))?;
            Ok::<u64, StoreError>(entries.iter().map(|entry| entry.bytes).sum())
        };
        Ok(DirSizes { snapshots: size(snap_dir)?, logs: size(log_dir)? })
    }
}

/// All snapshots of a directory by name, newest first.
///
/// # Errors
/// [`StoreError::Io`].
pub fn list(vfs: &dyn Vfs, dir: &Path) -> Result<Vec<SnapshotFile>, StoreError> {
    let entries = vfs.list(dir).map_err(StoreError::io("list directory", dir))?;
    let mut files: Vec<_> = (entries.into_iter())
        .filter_map(|entry| {
            let (zxid, compression) = names::parse_snapshot(&entry.name)?;
            Some(SnapshotFile { path: dir.join(entry.name), zxid, compression, bytes: entry.bytes })
        })
        .collect();
    files.sort_by_key(|file| std::cmp::Reverse(file.zxid));
    Ok(files)
}

/// Whether a snapshot looks complete, judged by its first and last bytes.
/// Source: `SnapStream.isValidSnapshot`.
pub fn looks_complete(vfs: &dyn Vfs, file: &SnapshotFile) -> bool {
    has_both_ends(vfs, file).unwrap_or(false)
}

/// Whether a snapshot looks complete, or the disk cannot read its end: that is no sign of a crash
/// while the snapshot was written.
pub(crate) fn is_to_be_read(vfs: &dyn Vfs, file: &SnapshotFile) -> bool {
    has_both_ends(vfs, file).unwrap_or_else(|error| error.kind() != io::ErrorKind::NotFound)
}

fn has_both_ends(vfs: &dyn Vfs, file: &SnapshotFile) -> io::Result<bool> {
    let found = |expected: &[u8], offset: u64| {
        let mut bytes = vec![0; expected.len()];
        let read = vfs.open(&file.path)?.read_at(&mut bytes, offset)?;
        Ok(read == expected.len() && bytes == expected)
    };
    match file.compression {
        Compression::None if file.bytes < BYTES_MIN => Ok(false),
        Compression::None => found(&SEAL_END, file.bytes - SEAL_END.len() as u64),
        Compression::Gzip => found(&compress::GZIP_MAGIC, 0),
        Compression::Snappy => found(&compress::SNAPPY_MAGIC, 0),
    }
}

//! The file system operations that the store needs.
//!
//! Three implementations: [`OsVfs`] is the real one, and the only user of `std::fs`. [`MemVfs`] is
//! an in-memory disk that simulates power cuts. [`FaultVfs`] injects failures into another one.

mod fault;
mod mem;
mod os;

use std::any::Any;
use std::fmt::Debug;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::{PIECE_BYTES, faults};

pub use fault::{Fault, FaultVfs};
pub use mem::{Crash, MemVfs, Names, Unsynced};
pub use os::{OsVfs, without_read_ahead};

/// A file in a directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Its name; names that are not Unicode are not listed.
    pub name: String,
    /// Its length in bytes.
    pub bytes: u64,
}

/// A file system.
///
/// Nothing is durable until [`VfsFile::sync`] (content) or [`Vfs::sync_dir`] (names) has returned.
pub trait Vfs: Debug + Send + Sync {
    /// Creates a file for writing, readable by owner and group only. An existing file is emptied.
    ///
    /// # Errors
    /// Errors of the system.
    fn create(&self, path: &Path) -> io::Result<Box<dyn VfsFile>>;

    /// Opens an existing file for reading.
    ///
    /// # Errors
    /// Errors of the system.
    fn open(&self, path: &Path) -> io::Result<Box<dyn VfsFile>>;

    /// Opens an existing file for reading and writing.
    ///
    /// # Errors
    /// Errors of the system.
    fn open_rw(&self, path: &Path) -> io::Result<Box<dyn VfsFile>>;

    /// The files of a directory, sorted by name, without subdirectories.
    ///
    /// # Errors
    /// Errors of the system.
    fn list(&self, dir: &Path) -> io::Result<Vec<Entry>>;

    /// Whether a file or directory has this name.
    ///
    /// # Errors
    /// Errors of the system.
    fn exists(&self, path: &Path) -> io::Result<bool>;

    /// Creates one directory, writable by its owner only.
    ///
    /// # Errors
    /// Errors of the system.
    fn create_dir(&self, dir: &Path) -> io::Result<()>;

    /// Renames a file atomically, and replaces an existing one.
    ///
    /// # Errors
    /// Errors of the system.
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()>;

    /// Removes a file.
    ///
    /// # Errors
    /// Errors of the system.
    fn remove(&self, path: &Path) -> io::Result<()>;

    /// Makes the names in a directory durable.
    ///
    /// # Errors
    /// Errors of the system.
    fn sync_dir(&self, dir: &Path) -> io::Result<()>;

    /// Locks a directory against other servers until the guard is dropped; `None` if another server
    /// has it. On systems without such locks, the guard does nothing.
    ///
    /// # Errors
    /// Errors of the system.
    fn lock(&self, dir: &Path) -> io::Result<Option<DirLock>>;

    /// A monotonic clock.
    fn now(&self) -> Duration;
}

/// Locks a directory until it is dropped.
#[derive(Debug)]
pub struct DirLock(#[allow(dead_code, reason = "held for its drop")] Box<dyn Guard>);

impl DirLock {
    /// A lock that ends when `guard` is dropped.
    pub fn new(guard: impl Any + Debug + Send + Sync) -> Self {
        Self(Box::new(guard))
    }
}

trait Guard: Debug + Send + Sync {}
impl<T: Debug + Send + Sync> Guard for T {}

/// An open file.
pub trait VfsFile: Debug + Send {
    /// Reads at `offset` into `buffer`; 0 bytes are read only at the end.
    ///
    /// # Errors
    /// Errors of the system.
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize>;

    /// Writes all of `bytes` at `offset`.
    ///
    /// # Errors
    /// Errors of the system; any part may have been written.
    fn write_at(&mut self, bytes: &[u8], offset: u64) -> io::Result<()>;

    /// Truncates the file, or extends it with zeros that occupy no blocks yet.
    ///
    /// # Errors
    /// Errors of the system.
    fn set_len(&mut self, bytes: u64) -> io::Result<()>;

    /// Makes content and length durable.
    ///
    /// # Errors
    /// Errors of the system. After an error the content of the disk is unknown.
    fn sync(&mut self) -> io::Result<()>;

    /// Length in bytes.
    ///
    /// # Errors
    /// Errors of the system.
    fn len(&self) -> io::Result<u64>;

    /// Lets the next read come from the disk instead of memory, if the system can do that.
    fn forget_cached(&self) {}

    /// Lets reads of this file get from the disk what they ask for, and nothing ahead of it, if the
    /// system can do that.
    fn without_read_ahead(&self) {}

    /// Whether the file is empty.
    ///
    /// # Errors
    /// Errors of the system.
    fn is_empty(&self) -> io::Result<bool> {
        Ok(self.len()? == 0)
    }
}

/// Parts of a file that are read on their own once a disk could not read more: those that systems
/// cache, and those that disks read.
pub(crate) const READ_APART: [u64; 2] = [4096, 512];

/// The disk cannot read a byte.
#[derive(Debug, thiserror::Error)]
#[error("the disk cannot read offset {offset}: {source}")]
pub struct Unreadable {
    /// The offset of the byte.
    pub offset: u64,
    /// The system's error.
    source: io::Error,
}

impl Unreadable {
    /// The offset of the byte that a disk could not read.
    pub fn offset_of(error: &io::Error) -> Option<u64> {
        let unreadable = error.get_ref()?.downcast_ref::<Self>()?;
        Some(unreadable.offset)
    }
}

/// Reads a file from front to back. An error means that the very next byte cannot be read.
#[derive(Debug)]
pub struct Sequential {
    file: Box<dyn VfsFile>,
    at: u64,
    /// The maximum length of a read: small once a read has failed.
    most: usize,
}

impl Sequential {
    /// Starts at the file's first byte.
    pub fn new(file: Box<dyn VfsFile>) -> Self {
        Self { file, at: 0, most: usize::MAX }
    }

    /// The same for a reader that pauses: the disk reads a piece at a time. Otherwise a system may
    /// read megabytes ahead at once, and syncs of the transaction log wait for them.
    pub fn in_pieces(file: Box<dyn VfsFile>) -> Self {
        file.without_read_ahead();
        Self { most: PIECE_BYTES, ..Self::new(file) }
    }

    /// Reads what the disk can read of a part that it could not read as a whole.
    fn read_apart(&mut self, buffer: &mut [u8], failed: io::Error) -> io::Result<usize> {
        self.most = READ_APART[0] as usize;
        for part in READ_APART {
            let most = buffer.len().min((part - self.at % part) as usize);
            if let Ok(read) = self.file.read_at(&mut buffer[..most], self.at) {
                return Ok(read);
            }
        }
        let kind = failed.kind();
        Err(io::Error::new(kind, Unreadable { offset: self.at, source: failed }))
    }
}

impl io::Read for Sequential {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let most = buffer.len().min(self.most);
        let buffer = &mut buffer[..most];
        let read = match self.file.read_at(buffer, self.at) {
            Err(error) if error.kind() != io::ErrorKind::Interrupted => {
                self.read_apart(buffer, error)?
            }
            read => read?,
        };
        self.at += read as u64;
        Ok(read)
    }
}

/// Bytes of a long file that may be unsynced.
///
/// If a disk gets hundreds of megabytes at once, every other sync waits for them, including those
/// of the transaction log, and so all writes.
pub(crate) const UNSYNCED_BYTES_MAX: u64 = 1 << 20;

/// Writes a file sequentially and syncs it in pieces.
#[derive(Debug)]
pub(crate) struct Appending {
    file: Box<dyn VfsFile>,
    at: u64,
    /// The durable length.
    synced: u64,
    unsynced_bytes_max: u64,
}

impl Appending {
    /// Writes to an empty file. `unsynced_bytes_max`: bytes that may be unsynced.
    pub(crate) fn new(file: Box<dyn VfsFile>, unsynced_bytes_max: u64) -> Self {
        Self { file, at: 0, synced: 0, unsynced_bytes_max }
    }

    /// Syncs the rest. Returns the length.
    pub(crate) fn finish(mut self) -> io::Result<u64> {
        if self.synced < self.at {
            self.sync()?;
        }
        Ok(self.at)
    }

    fn sync(&mut self) -> io::Result<()> {
        if !faults::snapshot_fsync_removed() {
            self.file.sync()?;
        }
        assert!(self.synced <= self.at, "more is durable than was written");
        self.synced = self.at;
        Ok(())
    }
}

impl io::Write for Appending {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.file.write_at(bytes, self.at)?;
        self.at += bytes.len() as u64;
        if self.at - self.synced >= self.unsynced_bytes_max {
            self.sync()?;
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// The directory that holds `path`'s name.
pub(crate) fn parent(path: &Path) -> PathBuf {
    match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent.to_path_buf(),
        _ => PathBuf::from("."),
    }
}

/// Creates a directory and its parents, and makes their names durable.
pub(crate) fn create_dirs(vfs: &dyn Vfs, dir: &Path) -> io::Result<()> {
    if vfs.exists(dir)? {
        return keep_dirs(vfs, dir);
    }
    let above = parent(dir);
    if above != dir {
        create_dirs(vfs, &above)?;
    }
    match vfs.create_dir(dir) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
        result => result?,
    }
    vfs.sync_dir(&above)
}

/// Makes an existing directory and its parents durable: its creator may have been interrupted
/// before doing so.
pub(crate) fn keep_dirs(vfs: &dyn Vfs, dir: &Path) -> io::Result<()> {
    if faults::found_directory_not_made_durable() {
        return Ok(());
    }
    let above = parent(dir);
    match vfs.sync_dir(&above) {
        // Directories of other users were not created by a server.
        Err(error) if is_others(&error) => return Ok(()),
        result => result?,
    }
    if above.parent().is_none_or(|next| next.as_os_str().is_empty()) {
        return Ok(());
    }
    keep_dirs(vfs, &above)
}

/// Rewrites a part of a file and makes the file durable.
///
/// Data that were read may exist in memory only: if a sync of the previous process failed, the
/// system treats the lost pages as written. Only rewritten data are written.
pub(crate) fn rewrite(file: &mut dyn VfsFile, from: u64, to: u64) -> io::Result<()> {
    let mut piece = vec![
        0;
        REWRITTEN_PIECE_BYTES
            .min(usize::try_from(to.saturating_sub(from)).unwrap_or(usize::MAX))
    ];
    let mut at = from;
    while at < to {
        let room = piece.len().min(usize::try_from(to - at).unwrap_or(usize::MAX));
        let read = file.read_at(&mut piece[..room], at)?;
        if read == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        file.write_at(&piece[..read], at)?;
        at += read as u64;
    }
    file.sync()
}

/// Size of the buffer of [`rewrite`].
const REWRITTEN_PIECE_BYTES: usize = 1 << 20;

/// Whether a directory cannot be synced because the server may not change it: it belongs to another
/// user, or is on a file system that is read-only or not persistent, such as the root of a
/// container.
fn is_others(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::PermissionDenied
            | io::ErrorKind::ReadOnlyFilesystem
            | io::ErrorKind::InvalidInput
            | io::ErrorKind::Unsupported
    )
}

/// Reads a small file completely.
///
/// # Errors
/// Errors of the system.
pub fn read(vfs: &dyn Vfs, path: &Path) -> io::Result<Vec<u8>> {
    let mut content = Vec::new();
    io::Read::read_to_end(&mut Sequential::new(vfs.open(path)?), &mut content)?;
    Ok(content)
}

/// Writes a small file atomically: a crash leaves either the old content or the new.
///
/// `temporary`: its name until it is complete.
///
/// # Errors
/// Errors of the system.
pub fn replace(vfs: &dyn Vfs, path: &Path, temporary: &Path, content: &[u8]) -> io::Result<()> {
    let mut file = vfs.create(temporary)?;
    file.write_at(content, 0)?;
    if !faults::small_file_fsync_removed() {
        file.sync()?;
    }
    drop(file);
    vfs.rename(temporary, path)?;
    if faults::rename_not_made_durable() {
        return Ok(());
    }
    vfs.sync_dir(&parent(path))
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;
    use std::sync::Arc;

    use super::*;

    #[test]
    fn directories_above_that_cannot_be_made_durable_do_not_end_a_start() {
        // squashfs returns EINVAL. Other file systems report that they are read-only, or that they
        // do not support this.
        let kinds = [
            io::ErrorKind::InvalidInput,
            io::ErrorKind::ReadOnlyFilesystem,
            io::ErrorKind::Unsupported,
            io::ErrorKind::PermissionDenied,
        ];
        let dir = Path::new("/srv/zookeeper/version-2");
        let keep = |fault| {
            let vfs = FaultVfs::new(Arc::new(MemVfs::new(dir)), fault);
            (keep_dirs(&vfs, dir), vfs.calls())
        };
        let calls = keep(None).1;
        assert_eq!(calls, 3, "/srv/zookeeper, /srv and the root");
        for at in 0..calls {
            let fault = |kind| Some(Fault { at, for_good: true, kind, half_written: false });
            for kind in kinds {
                keep(fault(kind)).0.unwrap();
            }
            keep(fault(io::ErrorKind::Other)).0.unwrap_err();
        }
    }

    #[test]
    fn a_long_file_never_keeps_much_from_the_disk() {
        let vfs = MemVfs::new(Path::new("/d"));
        let mut file = Appending::new(vfs.create(Path::new("/d/f")).unwrap(), UNSYNCED_BYTES_MAX);
        for _ in 0..40 {
            file.write_all(&[7; 100_000]).unwrap();
            assert!(vfs.unsynced_sectors() * 512 < UNSYNCED_BYTES_MAX + 100_000);
        }
        assert_eq!(file.finish().unwrap(), 4_000_000);
        assert_eq!(vfs.unsynced_sectors(), 0);
    }
}

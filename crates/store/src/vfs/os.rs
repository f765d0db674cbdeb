//! The real file system.
//!
//! **Invariant:** no other module of this crate uses `std::fs`. Checked by
//! `no_other_module_uses_the_file_system`.

use std::fs::{DirBuilder, File, OpenOptions, TryLockError};
use std::io;
use std::os::unix::fs::{DirBuilderExt, FileExt, OpenOptionsExt};
use std::path::Path;
use std::sync::LazyLock;
use std::time::{Duration, Instant};

use super::{DirLock, Entry, Vfs, VfsFile};

const FILE_MODE: u32 = 0o640;
const DIR_MODE: u32 = 0o750;

/// The clock starts at its first use.
static START: LazyLock<Instant> = LazyLock::new(Instant::now);

/// The operating system's file system.
#[derive(Clone, Copy, Debug, Default)]
pub struct OsVfs;

impl Vfs for OsVfs {
    fn create(&self, path: &Path) -> io::Result<Box<dyn VfsFile>> {
        let mut options = OpenOptions::new();
        options.read(true).write(true).create(true).truncate(true).mode(FILE_MODE);
        Ok(Box::new(OsFile(options.open(path)?)))
    }

    fn open(&self, path: &Path) -> io::Result<Box<dyn VfsFile>> {
        Ok(Box::new(OsFile(File::open(path)?)))
    }

    fn open_rw(&self, path: &Path) -> io::Result<Box<dyn VfsFile>> {
        Ok(Box::new(OsFile(OpenOptions::new().read(true).write(true).open(path)?)))
    }

    fn list(&self, dir: &Path) -> io::Result<Vec<Entry>> {
        let mut entries = Vec::new();
        for entry in std::fs::read_dir(dir)? {
            let entry = entry?;
            let Ok(name) = entry.file_name().into_string() else { continue };
            // Purged meanwhile, so not listed.
            let metadata = match std::fs::metadata(entry.path()) {
                Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
                metadata => metadata?,
            };
            if metadata.is_file() {
                entries.push(Entry { name, bytes: metadata.len() });
            }
        }
        entries.sort_by(|a, b| a.name.cmp(&b.name));
        Ok(entries)
    }

    fn exists(&self, path: &Path) -> io::Result<bool> {
        path.try_exists()
    }

    fn create_dir(&self, dir: &Path) -> io::Result<()> {
        DirBuilder::new().mode(DIR_MODE).create(dir)
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        std::fs::rename(from, to)
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        std::fs::remove_file(path)
    }

    fn sync_dir(&self, dir: &Path) -> io::Result<()> {
        File::open(dir)?.sync_all()
    }

    fn lock(&self, dir: &Path) -> io::Result<Option<DirLock>> {
        // The lock is on the directory itself, so that no lock file is needed.
        let file = File::open(dir)?;
        match file.try_lock() {
            Ok(()) => Ok(Some(DirLock::new(file))),
            Err(TryLockError::WouldBlock) => Ok(None),
            // Network file systems may refuse locks on directories.
            Err(TryLockError::Error(_)) => Ok(Some(DirLock::new(()))),
        }
    }

    fn now(&self) -> Duration {
        START.elapsed()
    }
}

/// Lets reads of an open file get from the disk what they ask for, and nothing ahead of it, if the
/// system can do that.
pub fn without_read_ahead(file: &File) {
    // Linux reads as much ahead as the device is configured to, which may be megabytes.
    #[cfg(target_os = "linux")]
    let _ = rustix::fs::fadvise(file, 0, None, rustix::fs::Advice::Random);
    #[cfg(not(target_os = "linux"))]
    let _ = file;
}

#[derive(Debug)]
struct OsFile(File);

impl VfsFile for OsFile {
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        loop {
            match self.0.read_at(buffer, offset) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                result => return result,
            }
        }
    }

    fn write_at(&mut self, bytes: &[u8], offset: u64) -> io::Result<()> {
        self.0.write_all_at(bytes, offset)
    }

    fn set_len(&mut self, bytes: u64) -> io::Result<()> {
        self.0.set_len(bytes)
    }

    fn sync(&mut self) -> io::Result<()> {
        self.0.sync_data()
    }

    fn len(&self) -> io::Result<u64> {
        Ok(self.0.metadata()?.len())
    }

    #[cfg(target_os = "linux")]
    fn forget_cached(&self) {
        // Data that are not on the disk yet stay in memory. File systems without this feature read
        // from memory.
        let _ = rustix::fs::fadvise(&self.0, 0, None, rustix::fs::Advice::DontNeed);
    }

    fn without_read_ahead(&self) {
        without_read_ahead(&self.0);
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    /// The bytes that a disk has read for this thread.
    #[cfg(target_os = "linux")]
    fn bytes_read() -> u64 {
        let io = std::fs::read_to_string("/proc/thread-self/io").unwrap();
        let line = io.lines().find_map(|line| line.strip_prefix("read_bytes: "));
        line.unwrap().parse().unwrap()
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn a_reader_that_pauses_gets_from_the_disk_only_what_it_asks_for() {
        use std::io::Read as _;

        use crate::PIECE_BYTES;
        use crate::vfs::{OsVfs, Sequential, Vfs as _};

        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("log.1");
        let mut file = OsVfs.create(&path).unwrap();
        file.write_at(&vec![7; 64 * PIECE_BYTES], 0).unwrap();
        file.sync().unwrap();
        file.forget_cached();
        let mut reader = Sequential::in_pieces(OsVfs.open(&path).unwrap());
        let before = bytes_read();
        let mut block = vec![0; 4 * PIECE_BYTES];
        for _ in 0..4 {
            assert_eq!(reader.read(&mut block).unwrap(), PIECE_BYTES);
        }
        // File systems in memory read nothing from a disk.
        let read = bytes_read() - before;
        assert!(read <= 5 * PIECE_BYTES as u64, "{read} bytes for four pieces");
    }

    /// The production code of the modules in a folder that uses the file system.
    fn users_of(folder: &Path) -> Vec<String> {
        let mut users = Vec::new();
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                users.extend(users_of(&path));
                continue;
            }
            let text = std::fs::read_to_string(&path).unwrap();
            let production = text.split("#[cfg(test)]").next().unwrap();
            let is_code = |line: &&str| !line.trim_start().starts_with("//");
            if production.lines().filter(is_code).any(|line| line.contains("std::fs")) {
                users.push(path.file_name().unwrap().to_str().unwrap().to_owned());
            }
        }
        users
    }

    #[test]
    fn no_other_module_uses_the_file_system() {
        let sources = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
        assert_eq!(users_of(&sources), ["os.rs"]);
    }
}

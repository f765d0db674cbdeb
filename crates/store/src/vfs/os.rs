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
}

#[cfg(test)]
mod tests {
    use std::path::Path;

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

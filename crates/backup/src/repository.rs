//! Where a backup is kept: a directory with files that never change, and numbered manifests that name them.
//!
//! ```text
//! BACKUP/manifests/00000001       what backup 1 consists of
//! BACKUP/files/log.1.<sha256>     the files, each named for its content
//! ```
//!
//! A file gets its name only when all of it is durable, and only when nothing has that name. So two writers cannot
//! overwrite each other: of two that make the same manifest, one is refused.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};

use sha2::{Digest as _, Sha256};

use crate::error::{At as _, BackupError, Result};

/// The directory of the manifests.
const MANIFESTS: &str = "manifests";
/// The directory of everything else.
const FILES: &str = "files";
/// Locked by the process that makes a backup.
const LOCK: &str = "lock";
/// Starts the names of files that are not complete yet.
const TEMPORARY: &str = "tmp.";
/// How much is read at once.
const BLOCK_BYTES: usize = 256 * 1024;
/// No manifest is longer.
const MANIFEST_BYTES_MAX: u64 = 1 << 30;

/// A SHA-256 as hex digits.
pub type Sha = String;

/// A backup's directory.
#[derive(Clone, Debug)]
pub struct Repository {
    root: PathBuf,
}

impl Repository {
    /// Opens a backup.
    ///
    /// # Errors
    /// There is none.
    pub fn open(root: &Path) -> Result<Self> {
        let repository = Self { root: root.to_owned() };
        let dir = repository.root.join(MANIFESTS);
        if !dir.is_dir() {
            return Err(BackupError::NoBackup(root.to_owned()));
        }
        Ok(repository)
    }

    /// Opens a backup, or begins one in a directory that is empty or does not exist.
    ///
    /// # Errors
    /// The directory has other files, or cannot be made.
    pub fn create(root: &Path) -> Result<Self> {
        let is_new = match fs::read_dir(root) {
            Ok(mut entries) => entries.next().is_none(),
            Err(error) if error.kind() == io::ErrorKind::NotFound => true,
            Err(error) => return Err(error).at(root),
        };
        if !is_new {
            return Self::open(root);
        }
        for dir in [FILES, MANIFESTS] {
            let dir = root.join(dir);
            fs::create_dir_all(&dir).at(&dir)?;
        }
        sync_dir(root)?;
        Self::open(root)
    }

    /// Keeps other processes from making or removing backups until the guard is dropped, and removes what an interrupted one
    /// has left.
    ///
    /// Without it, a file could be removed that a backup in the making relies on. Where the file system has no locks, the
    /// guard guards nothing.
    ///
    /// # Errors
    /// Another process has it, or the directory cannot be written.
    pub fn lock(&self) -> Result<Lock> {
        let path = self.root.join(LOCK);
        let file = OpenOptions::new().write(true).create(true).truncate(false).open(&path);
        let file = file.at(&path)?;
        match file.try_lock() {
            Ok(()) => self.remove_temporary()?,
            Err(TryLockError::WouldBlock) => return Err(BackupError::Busy(self.name())),
            Err(TryLockError::Error(error)) if error.kind() == io::ErrorKind::Unsupported => {}
            Err(TryLockError::Error(error)) => return Err(error).at(&path),
        }
        Ok(Lock { _file: file })
    }

    fn remove_temporary(&self) -> Result<()> {
        for dir in [FILES, MANIFESTS] {
            let dir = self.root.join(dir);
            for name in list(&dir)?.into_iter().filter(|name| name.starts_with(TEMPORARY)) {
                let path = dir.join(name);
                fs::remove_file(&path).at(&path)?;
            }
        }
        Ok(())
    }

    /// What messages call it.
    pub fn name(&self) -> String {
        self.root.display().to_string()
    }

    /// The numbers of its manifests, oldest first.
    ///
    /// # Errors
    /// The directory cannot be read.
    pub fn manifests(&self) -> Result<Vec<u64>> {
        let names = list(&self.root.join(MANIFESTS))?;
        let mut numbers: Vec<u64> = names.iter().filter_map(|name| name.parse().ok()).collect();
        numbers.sort_unstable();
        Ok(numbers)
    }

    /// Where a manifest is.
    pub fn manifest_path(&self, number: u64) -> PathBuf {
        self.root.join(MANIFESTS).join(format!("{number:08}"))
    }

    /// Reads a manifest.
    ///
    /// # Errors
    /// It cannot be read.
    pub fn manifest(&self, number: u64) -> Result<String> {
        let path = self.manifest_path(number);
        let mut text = String::new();
        File::open(&path)
            .and_then(|file| file.take(MANIFEST_BYTES_MAX).read_to_string(&mut text))
            .at(&path)?;
        Ok(text)
    }

    /// Makes a manifest; false when this number exists already.
    ///
    /// # Errors
    /// It cannot be written.
    pub fn put_manifest(&self, number: u64, text: &str) -> Result<bool> {
        let path = self.manifest_path(number);
        let mut staged = Staged::new(&self.root.join(MANIFESTS))?;
        staged.write_all(text.as_bytes())?;
        staged.publish(&path)
    }

    /// Removes a manifest.
    ///
    /// # Errors
    /// It cannot be removed.
    pub fn remove_manifest(&self, number: u64) -> Result<()> {
        let path = self.manifest_path(number);
        fs::remove_file(&path).at(&path)?;
        sync_dir(&self.root.join(MANIFESTS))
    }

    /// Where the file with this name and content is.
    pub fn file_path(&self, name: &str, sha: &Sha) -> PathBuf {
        self.root.join(FILES).join(format!("{name}.{sha}"))
    }

    /// Begins a file.
    ///
    /// # Errors
    /// It cannot be created.
    pub fn stage(&self) -> Result<Staged> {
        Staged::new(&self.root.join(FILES))
    }

    /// Gives a file that is complete its name; what has the name already has the same content.
    ///
    /// # Errors
    /// It cannot be made durable.
    pub fn put(&self, staged: Staged, name: &str) -> Result<Sha> {
        let sha = staged.sha();
        let path = self.file_path(name, &sha);
        staged.publish(&path)?;
        Ok(sha)
    }

    /// Opens a file.
    ///
    /// # Errors
    /// It cannot be opened.
    pub fn file(&self, name: &str, sha: &Sha) -> Result<File> {
        let path = self.file_path(name, sha);
        File::open(&path).at(&path)
    }

    /// Reads a whole file: its length and its hash.
    ///
    /// # Errors
    /// It cannot be read.
    pub fn hash(&self, name: &str, sha: &Sha) -> Result<(u64, Sha)> {
        let mut file = self.file(name, sha)?;
        let (mut hash, mut bytes) = (Sha256::new(), 0);
        let mut block = vec![0; BLOCK_BYTES];
        loop {
            let read = file.read(&mut block).at(&self.file_path(name, sha))?;
            if read == 0 {
                return Ok((bytes, hex(hash)));
            }
            hash.update(&block[..read]);
            bytes += read as u64;
        }
    }

    /// Removes a file; it may have gone already.
    ///
    /// # Errors
    /// It cannot be removed.
    pub fn remove(&self, name: &str, sha: &Sha) -> Result<()> {
        let path = self.file_path(name, sha);
        match fs::remove_file(&path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error).at(&path),
            _ => Ok(()),
        }
    }
}

/// Holds a repository while it lives.
#[derive(Debug)]
pub struct Lock {
    _file: File,
}

/// A file that is not complete yet; it goes when it is dropped.
pub struct Staged {
    path: PathBuf,
    file: File,
    hash: Sha256,
    bytes: u64,
}

impl Staged {
    fn new(dir: &Path) -> Result<Self> {
        let mut turn = 0;
        loop {
            let path = dir.join(format!("{TEMPORARY}{}.{turn}", std::process::id()));
            match OpenOptions::new().write(true).create_new(true).open(&path) {
                Ok(file) => return Ok(Self { path, file, hash: Sha256::new(), bytes: 0 }),
                // Of a process that ended without removing it, or on another machine.
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => turn += 1,
                Err(error) => return Err(error).at(&path),
            }
        }
    }

    /// Adds bytes.
    ///
    /// # Errors
    /// They cannot be written.
    pub fn write_all(&mut self, bytes: &[u8]) -> Result<()> {
        self.file.write_all(bytes).at(&self.path)?;
        self.hash.update(bytes);
        self.bytes += bytes.len() as u64;
        Ok(())
    }

    /// Adds all that a stream has, which is the file `path`.
    ///
    /// # Errors
    /// The stream cannot be read, or the file cannot be written.
    pub fn copy(&mut self, from: &mut dyn Read, path: &Path) -> Result<()> {
        let mut block = vec![0; BLOCK_BYTES];
        loop {
            match from.read(&mut block).at(path)? {
                0 => return Ok(()),
                read => self.write_all(&block[..read])?,
            }
        }
    }

    /// Opens it for reading, from its first byte.
    ///
    /// # Errors
    /// It cannot be opened.
    pub fn reopen(&self) -> Result<File> {
        File::open(&self.path).at(&self.path)
    }

    /// How long it is.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// The hash of its content.
    pub fn sha(&self) -> Sha {
        hex(self.hash.clone())
    }

    /// Makes it durable under a name that nothing else has; false when something has it.
    fn publish(self, path: &Path) -> Result<bool> {
        self.file.sync_all().at(&self.path)?;
        let is_new = match fs::hard_link(&self.path, path) {
            Ok(()) => true,
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => false,
            Err(source) => return Err(BackupError::Link { path: path.to_owned(), source }),
        };
        sync_dir(path.parent().expect("a file is in a directory"))?;
        Ok(is_new)
    }
}

impl Drop for Staged {
    fn drop(&mut self) {
        // What stays is of no use, and does no harm.
        let _ = fs::remove_file(&self.path);
    }
}

impl std::fmt::Debug for Staged {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Staged").field("path", &self.path).finish_non_exhaustive()
    }
}

/// The SHA-256 of some bytes, as hex digits.
pub fn sha256(bytes: &[u8]) -> Sha {
    hex(Sha256::new_with_prefix(bytes))
}

/// What has been hashed, as hex digits.
pub(crate) fn hex(hash: Sha256) -> Sha {
    hash.finalize().iter().map(|byte| format!("{byte:02x}")).collect()
}

fn list(dir: &Path) -> Result<Vec<String>> {
    let mut names = Vec::new();
    for entry in fs::read_dir(dir).at(dir)? {
        names.extend(entry.at(dir)?.file_name().into_string().ok());
    }
    Ok(names)
}

fn sync_dir(dir: &Path) -> Result<()> {
    File::open(dir).and_then(|dir| dir.sync_all()).at(dir)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_two_writers_one_gets_the_manifest() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().join("new/backup");
        let first = Repository::create(&root).unwrap();
        let second = Repository::create(&root).unwrap();
        assert!(first.put_manifest(1, "one").unwrap());
        assert!(!second.put_manifest(1, "two").unwrap());
        assert_eq!(second.manifest(1).unwrap(), "one");
        assert_eq!(first.manifests().unwrap(), [1]);
        assert_eq!(list(&root.join(MANIFESTS)).unwrap(), ["00000001"]);
    }

    #[test]
    fn files_are_named_for_their_content_and_leave_nothing_when_given_up() {
        let dir = tempfile::tempdir().unwrap();
        let repository = Repository::create(dir.path()).unwrap();
        let mut staged = repository.stage().unwrap();
        staged.copy(&mut &b"abc"[..], dir.path()).unwrap();
        let sha = repository.put(staged, "log.1").unwrap();
        // The hash that FIPS 180-2 gives for these bytes.
        assert_eq!(sha, "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
        assert_eq!(repository.hash("log.1", &sha).unwrap(), (3, sha.clone()));
        drop(repository.stage().unwrap());
        assert_eq!(list(&dir.path().join(FILES)).unwrap(), [format!("log.1.{sha}")]);
        repository.remove("log.1", &sha).unwrap();
        repository.remove("log.1", &sha).unwrap();
    }

    #[test]
    fn one_process_at_a_time_makes_backups_and_cleans_up() {
        let dir = tempfile::tempdir().unwrap();
        let repository = Repository::create(dir.path()).unwrap();
        let left = dir.path().join(FILES).join("tmp.1.0");
        fs::write(&left, "half").unwrap();
        let lock = repository.lock().unwrap();
        assert!(!left.exists());
        let staged = repository.stage().unwrap();
        let refused = Repository::create(dir.path()).unwrap().lock().unwrap_err();
        assert!(refused.to_string().contains("another process is making a backup"), "{refused}");
        assert!(staged.path.exists(), "a refused process removes nothing");
        drop(lock);
        repository.lock().unwrap();
    }

    #[test]
    fn a_directory_with_other_files_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join("mine"), "").unwrap();
        let error = Repository::create(dir.path()).unwrap_err();
        assert!(error.to_string().contains("no backup"), "{error}");
        Repository::open(&dir.path().join("nowhere")).unwrap_err();
    }
}

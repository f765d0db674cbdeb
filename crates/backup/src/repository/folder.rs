//! A backup in a directory, on a file system with hard links.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use super::{FILES, Lock, MANIFESTS, Place, Staged};
use crate::error::{At as _, BackupError, Result};

/// The file that the process with a backup in progress locks.
const LOCK: &str = "lock";
/// The prefix of incomplete files.
const TEMPORARY: &str = "tmp.";

/// The directory.
#[derive(Debug)]
pub struct Folder {
    root: PathBuf,
}

impl Folder {
    /// Opens a directory.
    ///
    /// # Errors
    /// It has no manifests.
    pub fn open(root: &Path) -> Result<Self> {
        if !root.join(MANIFESTS).is_dir() {
            return Err(BackupError::NoBackup(root.to_owned()));
        }
        Ok(Self { root: root.to_owned() })
    }

    /// Opens a directory, or creates it.
    ///
    /// # Errors
    /// The directory has other files, or cannot be created.
    pub fn create(root: &Path) -> Result<Self> {
        let is_new = match fs::read_dir(root) {
            Ok(mut entries) => entries.next().is_none(),
            Err(error) if error.kind() == io::ErrorKind::NotFound => true,
            Err(error) => return Err(error).at(root),
        };
        if is_new {
            for dir in [FILES, MANIFESTS] {
                let dir = root.join(dir);
                fs::create_dir_all(&dir).at(&dir)?;
            }
            sync_dir(root)?;
        }
        Self::open(root)
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
}

impl Place for Folder {
    fn path(&self, folder: &str, name: &str) -> PathBuf {
        self.root.join(folder).join(name)
    }

    fn list(&self, folder: &str) -> Result<Vec<String>> {
        list(&self.root.join(folder))
    }

    fn lock(&self) -> Result<Lock> {
        let path = self.root.join(LOCK);
        let file = OpenOptions::new().write(true).create(true).truncate(false).open(&path);
        let file = file.at(&path)?;
        match file.try_lock() {
            Ok(()) => self.remove_temporary()?,
            Err(TryLockError::WouldBlock) => {
                return Err(BackupError::Busy(self.root.display().to_string()));
            }
            Err(TryLockError::Error(error)) if error.kind() == io::ErrorKind::Unsupported => {}
            Err(TryLockError::Error(error)) => return Err(error).at(&path),
        }
        Ok(Lock { _file: Some(file) })
    }

    fn open(&self, folder: &str, name: &str) -> Result<Box<dyn Read + Send>> {
        let path = self.path(folder, name);
        Ok(Box::new(File::open(&path).at(&path)?))
    }

    fn stage(&self, folder: &str) -> Result<Staged> {
        let mut turn = 0;
        loop {
            let path = self.path(folder, &format!("{TEMPORARY}{}.{turn}", std::process::id()));
            match OpenOptions::new().read(true).write(true).create_new(true).open(&path) {
                Ok(file) => return Ok(Staged::new(file, path, true)),
                // A killed process, or one on another machine, has left this file.
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => turn += 1,
                Err(error) => return Err(error).at(&path),
            }
        }
    }

    fn publish(&self, staged: Staged, folder: &str, name: &str) -> Result<bool> {
        let path = self.path(folder, name);
        staged.file.sync_all().at(&staged.path)?;
        let is_new = match fs::hard_link(&staged.path, &path) {
            Ok(()) => true,
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => false,
            Err(source) => return Err(BackupError::Link { path, source }),
        };
        sync_dir(&self.root.join(folder))?;
        Ok(is_new)
    }

    fn remove(&self, folder: &str, name: &str) -> Result<()> {
        let path = self.path(folder, name);
        match fs::remove_file(&path) {
            Ok(()) => sync_dir(&self.root.join(folder)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            Err(error) => Err(error).at(&path),
        }
    }
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
    use crate::repository::Repository;

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
        // The hash of these bytes in FIPS 180-2.
        assert_eq!(sha, "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
        assert_eq!(repository.hash("log.1", &sha).unwrap(), (3, sha.clone()));
        drop(repository.stage().unwrap());
        assert_eq!(list(&dir.path().join(FILES)).unwrap(), [format!("log.1.{sha}")]);
        repository.remove("log.1", &sha).unwrap();
        repository.remove("log.1", &sha).unwrap();
    }

    #[test]
    fn a_long_file_is_synced_in_pieces() {
        let dir = tempfile::tempdir().unwrap();
        let mut staged = Repository::create(dir.path()).unwrap().stage().unwrap();
        for _ in 0..40 {
            staged.copy(&mut &[7; 100_000][..], dir.path()).unwrap();
            assert!(staged.bytes() - staged.synced < 1 << 20, "{} of 1 MiB", staged.bytes());
        }
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

//! Where a backup is kept: files that never change, and numbered manifests that name them.
//!
//! ```text
//! BACKUP/manifests/00000001       what backup 1 consists of
//! BACKUP/files/log.1.<sha256>     the files, each named for its content
//! ```
//!
//! A file gets its name only when all of it is durable, and only when nothing has that name. So two
//! writers cannot overwrite each other: of two that make the same manifest, one is refused.

mod bucket;
mod cipher;
mod folder;
mod https;

use std::fs::File;
use std::io::{Read, Seek as _, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use sha2::{Digest as _, Sha256};

use crate::error::{At as _, BackupError, Result};
use bucket::Bucket;
use cipher::{Identities, Recipients};
use folder::Folder;

pub use bucket::BucketError;
pub use cipher::KeyError;

/// The directory of the manifests.
const MANIFESTS: &str = "manifests";
/// The directory of all other files.
const FILES: &str = "files";
/// The file of recipients, beside the manifests.
const RECIPIENTS: &str = "recipients";
/// The longest accepted list of recipients.
const RECIPIENTS_BYTES_MAX: u64 = 1 << 20;
/// The size of a read.
const BLOCK_BYTES: usize = 256 * 1024;
/// Bytes of a file that may be unsynced. If a disk gets hundreds of megabytes at once, the syncs of
/// a server's log wait for them.
const UNSYNCED_BYTES_MAX: u64 = 1 << 20;
/// The longest accepted manifest.
const MANIFEST_BYTES_MAX: u64 = 1 << 30;
/// The prefix of a backup's name if it is in a bucket.
const BUCKET_SCHEME: &str = "s3://";

/// A SHA-256 as hex digits.
pub type Sha = String;

/// A storage with two directories of files.
trait Place: std::fmt::Debug + Send + Sync {
    /// The name of a file for messages.
    fn path(&self, folder: &str, name: &str) -> PathBuf;
    /// The names of the files in a directory.
    fn list(&self, folder: &str) -> Result<Vec<String>>;
    /// Keeps other processes out, if the storage has locks.
    fn lock(&self) -> Result<Lock>;
    /// Opens a file for reading.
    fn open(&self, folder: &str, name: &str) -> Result<Box<dyn Read + Send>>;
    /// Begins a file of a directory.
    fn stage(&self, folder: &str) -> Result<Staged>;
    /// Gives a complete file its name, durably. Returns false if the name exists already.
    fn publish(&self, staged: Staged, folder: &str, name: &str) -> Result<bool>;
    /// Removes a file, if it still exists.
    fn remove(&self, folder: &str, name: &str) -> Result<()>;
}

/// A repository of backups, in a directory or in a bucket.
#[derive(Clone, Debug)]
pub struct Repository {
    root: PathBuf,
    place: Arc<dyn Place>,
    /// The recipients of encrypted files, if there are any.
    recipients: Option<Recipients>,
    identities: Option<Identities>,
}

/// Whether the name is that of a bucket: `s3://BUCKET` or `s3://BUCKET/PREFIX`.
pub fn is_bucket(root: &Path) -> bool {
    root.as_os_str().as_encoded_bytes().starts_with(BUCKET_SCHEME.as_bytes())
}

impl Repository {
    /// Opens a repository.
    ///
    /// # Errors
    /// There is no repository.
    pub fn open(root: &Path) -> Result<Self> {
        let place: Arc<dyn Place> = match is_bucket(root) {
            true => Arc::new(Bucket::open(root)?),
            false => Arc::new(Folder::open(root)?),
        };
        Self::of(root, place)
    }

    /// Opens a repository, or creates one in a directory that is empty or does not exist.
    ///
    /// # Errors
    /// The directory has other files, or cannot be created.
    pub fn create(root: &Path) -> Result<Self> {
        let place: Arc<dyn Place> = match is_bucket(root) {
            true => Arc::new(Bucket::create(root)?),
            false => Arc::new(Folder::create(root)?),
        };
        Self::of(root, place)
    }

    fn of(root: &Path, place: Arc<dyn Place>) -> Result<Self> {
        let mut recipients = None;
        if place.list(MANIFESTS)?.iter().any(|name| name == RECIPIENTS) {
            let (path, mut text) = (place.path(MANIFESTS, RECIPIENTS), String::new());
            let file = place.open(MANIFESTS, RECIPIENTS)?.take(RECIPIENTS_BYTES_MAX);
            { file }.read_to_string(&mut text).at(&path)?;
            recipients = Some(Recipients::parse(&text, &path)?);
        }
        Ok(Self { root: root.to_owned(), place, recipients, identities: None })
    }

    /// Encrypts all files for the recipients in this file. The first backup decides whether to
    /// encrypt, and for whom.
    ///
    /// # Errors
    /// The file has no keys, or the existing backups are not encrypted for them.
    pub fn encrypt_to(&mut self, file: &Path) -> Result<()> {
        let recipients = Recipients::read(file)?;
        let decided = |what| Err(self.key_error(KeyError::Decided(what)));
        match &self.recipients {
            Some(known) if known.text() == recipients.text() => return Ok(()),
            Some(_) => return decided("encrypted for others"),
            None if !self.manifests()?.is_empty() => return decided("not encrypted"),
            None => {}
        }
        let mut staged = self.place.stage(MANIFESTS)?;
        staged.write_all(recipients.text().as_bytes())?;
        if !self.place.publish(staged, MANIFESTS, RECIPIENTS)? {
            return Err(BackupError::Busy(self.name()));
        }
        self.recipients = Some(recipients);
        Ok(())
    }

    /// Takes the keys for reading, or checks that none are needed.
    ///
    /// # Errors
    /// Keys are missing or not needed, or do not fit this backup.
    pub fn unlock(&mut self, file: Option<&Path>) -> Result<()> {
        let identities = file.map(Identities::read).transpose()?;
        let wrong = match (&self.recipients, &identities, file) {
            (None, Some(_), _) => KeyError::NotNeeded,
            (Some(_), None, _) => KeyError::Needed,
            (Some(recipients), Some(identities), Some(file)) if !identities.open(recipients) => {
                KeyError::Wrong(file.to_owned())
            }
            _ => {
                self.identities = identities;
                return Ok(());
            }
        };
        Err(self.key_error(wrong))
    }

    /// Whether the files are encrypted.
    pub fn is_encrypted(&self) -> bool {
        self.recipients.is_some()
    }

    fn key_error(&self, source: KeyError) -> BackupError {
        BackupError::Key { path: self.root.clone(), source }
    }

    /// Until the guard is dropped, other processes cannot make or remove backups. Also removes the
    /// files of interrupted backups.
    ///
    /// Without the lock, another process could remove a file that an unfinished backup relies on.
    /// If the storage has no locks, the guard has no effect.
    ///
    /// # Errors
    /// Another process has the lock, or the directory cannot be written.
    pub fn lock(&self) -> Result<Lock> {
        self.place.lock()
    }

    /// The name for messages.
    pub fn name(&self) -> String {
        self.root.display().to_string()
    }

    /// The numbers of the manifests, oldest first.
    ///
    /// # Errors
    /// They cannot be listed.
    pub fn manifests(&self) -> Result<Vec<u64>> {
        let names = self.place.list(MANIFESTS)?;
        let mut numbers: Vec<u64> = names.iter().filter_map(|name| name.parse().ok()).collect();
        numbers.sort_unstable();
        Ok(numbers)
    }

    /// The name of a manifest for messages.
    pub fn manifest_path(&self, number: u64) -> PathBuf {
        self.place.path(MANIFESTS, &manifest_name(number))
    }

    /// Reads a manifest.
    ///
    /// # Errors
    /// It cannot be read.
    pub fn manifest(&self, number: u64) -> Result<String> {
        let mut text = String::new();
        let file = self.place.open(MANIFESTS, &manifest_name(number))?;
        file.take(MANIFEST_BYTES_MAX).read_to_string(&mut text).at(&self.manifest_path(number))?;
        Ok(text)
    }

    /// Writes a manifest. Returns false if the number exists already.
    ///
    /// # Errors
    /// It cannot be written.
    pub fn put_manifest(&self, number: u64, text: &str) -> Result<bool> {
        let mut staged = self.place.stage(MANIFESTS)?;
        staged.write_all(text.as_bytes())?;
        self.place.publish(staged, MANIFESTS, &manifest_name(number))
    }

    /// Removes a manifest.
    ///
    /// # Errors
    /// It cannot be removed.
    pub fn remove_manifest(&self, number: u64) -> Result<()> {
        self.place.remove(MANIFESTS, &manifest_name(number))
    }

    /// The name, for messages, of the file with this name and content.
    pub fn file_path(&self, name: &str, sha: &Sha) -> PathBuf {
        self.place.path(FILES, &file_name(name, sha))
    }

    /// Begins a file.
    ///
    /// # Errors
    /// It cannot be created.
    pub fn stage(&self) -> Result<Staged> {
        if self.recipients.is_none() {
            return self.place.stage(FILES);
        }
        // Plain text stays on this machine until it is encrypted, in a file without a name.
        let file = tempfile::tempfile().at(&std::env::temp_dir())?;
        Ok(Staged::new(file, std::env::temp_dir(), false))
    }

    /// Gives a complete file its name. An existing file with that name has the same content.
    ///
    /// # Errors
    /// It cannot be made durable.
    pub fn put(&self, staged: Staged, name: &str) -> Result<Sha> {
        let sha = staged.sha();
        let staged = match &self.recipients {
            None => staged,
            Some(recipients) => {
                let mut encrypted = self.place.stage(FILES)?;
                recipients.encrypt(&staged, &mut encrypted)?;
                encrypted
            }
        };
        self.place.publish(staged, FILES, &file_name(name, &sha))?;
        Ok(sha)
    }

    /// Opens a file.
    ///
    /// # Errors
    /// It cannot be opened.
    pub fn file(&self, name: &str, sha: &Sha) -> Result<Box<dyn Read + Send>> {
        let file = self.place.open(FILES, &file_name(name, sha))?;
        if self.recipients.is_none() {
            return Ok(file);
        }
        let Some(identities) = &self.identities else {
            return Err(self.key_error(KeyError::Needed));
        };
        let opened = identities.decrypt(file);
        opened.map_err(|source| BackupError::Key { path: self.file_path(name, sha), source })
    }

    /// Reads a whole file. Returns its length and its hash.
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

    /// Removes a file, if it still exists.
    ///
    /// # Errors
    /// It cannot be removed.
    pub fn remove(&self, name: &str, sha: &Sha) -> Result<()> {
        self.place.remove(FILES, &file_name(name, sha))
    }
}

fn manifest_name(number: u64) -> String {
    format!("{number:08}")
}

fn file_name(name: &str, sha: &Sha) -> String {
    format!("{name}.{sha}")
}

/// Holds the lock of a repository, if the storage has locks.
#[derive(Debug)]
pub struct Lock {
    _file: Option<File>,
}

/// An incomplete file. It is removed on drop.
#[derive(Debug)]
pub struct Staged {
    /// The name of the file, or its name for messages if it has none.
    path: PathBuf,
    has_name: bool,
    file: File,
    hash: Sha256,
    bytes: u64,
    /// How much of it was synced.
    synced: u64,
}

impl Staged {
    /// A temporary file for data on their way to `path`. A named file is removed on drop.
    fn new(file: File, path: PathBuf, has_name: bool) -> Self {
        Self { path, has_name, file, hash: Sha256::new(), bytes: 0, synced: 0 }
    }

    /// Adds bytes.
    ///
    /// # Errors
    /// They cannot be written.
    pub fn write_all(&mut self, bytes: &[u8]) -> Result<()> {
        self.file.write_all(bytes).at(&self.path)?;
        self.hash.update(bytes);
        self.bytes += bytes.len() as u64;
        // A file without a name never becomes durable.
        if self.has_name && self.bytes - self.synced >= UNSYNCED_BYTES_MAX {
            self.file.sync_data().at(&self.path)?;
            self.synced = self.bytes;
        }
        Ok(())
    }

    /// Adds the content of a stream. `path`: the name of the stream for errors.
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

    /// The file, positioned at its first byte. After this call nothing is added.
    ///
    /// # Errors
    /// It cannot be read.
    pub fn content(&self) -> Result<&File> {
        (&self.file).seek(SeekFrom::Start(0)).at(&self.path)?;
        Ok(&self.file)
    }

    /// The length.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// The hash of the content.
    pub fn sha(&self) -> Sha {
        hex(self.hash.clone())
    }
}

impl Drop for Staged {
    fn drop(&mut self) {
        if self.has_name {
            // A remaining file is useless but harmless.
            let _ = std::fs::remove_file(&self.path);
        }
    }
}

/// The SHA-256 of some bytes, as hex digits.
pub fn sha256(bytes: &[u8]) -> Sha {
    hex(Sha256::new_with_prefix(bytes))
}

/// The hash as hex digits.
pub(crate) fn hex(hash: Sha256) -> Sha {
    hash.finalize().iter().map(|byte| format!("{byte:02x}")).collect()
}

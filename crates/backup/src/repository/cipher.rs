//! Encrypts the files of a backup, in the format of age, to the recipients of the first backup.
//!
//! To make backups, a server needs no secret: an attacker who controls the server cannot read older
//! backups.

use std::fs;
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};

use age::x25519::{Identity, Recipient};
use age::{DecryptError, Decryptor, EncryptError, Encryptor};

use super::Staged;
use crate::error::{At as _, BackupError, Result};

/// The prefix of a comment line.
const COMMENT: char = '#';

/// Why files cannot be encrypted or decrypted.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum KeyError {
    /// A line of a file is not a key.
    #[error("line {line}: {why}")]
    Line {
        /// The line, from 1.
        line: usize,
        /// The reason.
        why: &'static str,
    },
    /// A file has no key.
    #[error("it has no key")]
    None,
    /// The backup is encrypted, and no key is given.
    #[error("the backup is encrypted\nhint: --identity names the file with the key")]
    Needed,
    /// The backup is not encrypted, but a key is given.
    #[error("the backup is not encrypted, so --identity is of no use")]
    NotNeeded,
    /// The backup is encrypted for other keys.
    #[error("no key of {} opens this backup", .0.display())]
    Wrong(PathBuf),
    /// The first backup decides whether to encrypt, and for whom.
    #[error(
        "the backups there are {0}\nhint: the first backup decides; begin with --encrypt-to in another directory"
    )]
    Decided(&'static str),
    /// A file cannot be encrypted.
    #[error("{0}")]
    Encrypt(#[source] Box<EncryptError>),
    /// A file differs from the one that was encrypted.
    #[error("it cannot be decrypted: {0}")]
    Decrypt(#[from] DecryptError),
}

/// The recipients of encrypted files.
#[derive(Clone)]
pub struct Recipients(Vec<Recipient>);

impl std::fmt::Debug for Recipients {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Recipients").field(&self.text()).finish()
    }
}

impl Recipients {
    /// Reads a file with one public age key in each line.
    ///
    /// # Errors
    /// The file cannot be read, or has other content.
    pub fn read(path: &Path) -> Result<Self> {
        Self::parse(&fs::read_to_string(path).at(path)?, path)
    }

    /// Parses the text of such a file. `path`: its name for errors.
    pub(super) fn parse(text: &str, path: &Path) -> Result<Self> {
        keys(text, "no public key of age, which begins with age1", path).map(Self)
    }

    /// The sorted keys, one in each line.
    pub(super) fn text(&self) -> String {
        let mut lines: Vec<String> = self.0.iter().map(|key| format!("{key}\n")).collect();
        lines.sort_unstable();
        lines.concat()
    }

    /// Encrypts a whole file into another file.
    pub(super) fn encrypt(&self, from: &Staged, into: &mut Staged) -> Result<()> {
        let path = into.path.clone();
        let keys = self.0.iter().map(|key| key as &dyn age::Recipient);
        let failed = |source| BackupError::Key { path: path.clone(), source };
        let encryptor = Encryptor::with_recipients(keys)
            .map_err(|error| failed(KeyError::Encrypt(Box::new(error))))?;
        let mut output = encryptor.wrap_output(Sink(into)).at(&path)?;
        io::copy(&mut from.content()?, &mut output).at(&path)?;
        output.finish().at(&path)?;
        Ok(())
    }
}

/// Writes to an incomplete file.
struct Sink<'a>(&'a mut Staged);

impl Write for Sink<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self.0.write_all(bytes) {
            Ok(()) => Ok(bytes.len()),
            Err(BackupError::File { source, .. }) => Err(source),
            Err(error) => Err(io::Error::other(error)),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// The secret keys for a backup.
#[derive(Clone)]
pub struct Identities(Vec<Identity>);

impl std::fmt::Debug for Identities {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Identities").field(&self.0.len()).finish()
    }
}

impl Identities {
    /// Reads a file with secret age keys, in the format of `age-keygen`.
    ///
    /// # Errors
    /// The file cannot be read, or has other content.
    pub fn read(path: &Path) -> Result<Self> {
        let text = fs::read_to_string(path).at(path)?;
        keys(&text, "no secret key of age, which begins with AGE-SECRET-KEY-1", path).map(Self)
    }

    /// Whether one of the keys can decrypt files for these recipients.
    pub(super) fn open(&self, recipients: &Recipients) -> bool {
        let opens = |key: &Recipient| recipients.0.contains(key);
        self.0.iter().any(|identity| opens(&identity.to_public()))
    }

    /// Decrypts a file.
    pub(super) fn decrypt(
        &self,
        from: Box<dyn Read + Send>,
    ) -> Result<Box<dyn Read + Send>, KeyError> {
        let decryptor = Decryptor::new(from)?;
        let keys = self.0.iter().map(|key| key as &dyn age::Identity);
        Ok(Box::new(decryptor.decrypt(keys)?))
    }
}

/// Parses one key in each line. Errors never show a line, because it may be secret.
fn keys<K: std::str::FromStr>(text: &str, why: &'static str, path: &Path) -> Result<Vec<K>> {
    let failed = |source| BackupError::Key { path: path.to_owned(), source };
    let mut keys = Vec::new();
    for (at, line) in text.lines().map(str::trim).enumerate() {
        if !line.is_empty() && !line.starts_with(COMMENT) {
            let key = line.parse().map_err(|_| failed(KeyError::Line { line: at + 1, why }))?;
            keys.push(key);
        }
    }
    if keys.is_empty() { Err(failed(KeyError::None)) } else { Ok(keys) }
}

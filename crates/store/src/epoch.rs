//! The two epoch files of an ensemble's member.
//!
//! Decimal numbers without a newline, replaced at once, in the original's names throughout.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use zebu_proto::{Epoch, Zxid};

use crate::StoreError;
use crate::names::VERSION_DIR;
use crate::vfs::{Vfs, replace};

/// Longer than any number.
const BYTES_MAX: usize = 64;

/// One of the two files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EpochFile {
    /// The epoch of the last leader this member has promised to follow.
    Accepted,
    /// The epoch of the last leader whose history this member has taken over.
    Current,
}

impl EpochFile {
    const fn name(self) -> &'static str {
        match self {
            Self::Accepted => "acceptedEpoch",
            Self::Current => "currentEpoch",
        }
    }
}

/// The epoch files beside the snapshots.
#[derive(Clone, Debug)]
pub struct EpochFiles {
    vfs: Arc<dyn Vfs>,
    dir: PathBuf,
}

impl EpochFiles {
    /// Those of the data directory `data_dir`.
    pub fn new(vfs: Arc<dyn Vfs>, data_dir: &Path) -> Self {
        Self { vfs, dir: data_dir.join(VERSION_DIR) }
    }

    fn temporary(&self, file: EpochFile) -> PathBuf {
        self.dir.join(format!("{}.tmp", file.name()))
    }

    /// Writes an epoch, durably and at once.
    ///
    /// # Errors
    /// [`StoreError::Io`].
    pub fn write(&self, file: EpochFile, epoch: Epoch) -> Result<(), StoreError> {
        let path = self.dir.join(file.name());
        let content = epoch.0.to_string();
        replace(self.vfs.as_ref(), &path, &self.temporary(file), content.as_bytes())
            .map_err(StoreError::io("write epoch", &path))
    }

    /// Reads an epoch; `None` when there is no such file.
    ///
    /// # Errors
    /// [`StoreError::Epoch`] when it holds no epoch, or [`StoreError::Io`].
    pub fn read(&self, file: EpochFile) -> Result<Option<Epoch>, StoreError> {
        self.read_path(&self.dir.join(file.name()))
    }

    fn read_path(&self, path: &Path) -> Result<Option<Epoch>, StoreError> {
        let opened = match self.vfs.open(path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            opened => opened.map_err(StoreError::io("read epoch", path))?,
        };
        let mut bytes = [0; BYTES_MAX];
        let read = opened.read_at(&mut bytes, 0).map_err(StoreError::io("read epoch", path))?;
        let text = str::from_utf8(&bytes[..read]).unwrap_or_default();
        let line = text.lines().next().unwrap_or_default();
        match line.trim().parse() {
            Ok(epoch) => Ok(Some(Epoch(epoch))),
            Err(_) => Err(StoreError::Epoch {
                path: path.to_path_buf(),
                reason: format!("this is not an epoch: {line:?}"),
            }),
        }
    }

    /// Reads both, given the last transaction that was recovered; missing ones are written.
    ///
    /// Returns the accepted and the current epoch. Source: `QuorumPeer.loadDataBase`.
    ///
    /// # Errors
    /// [`StoreError::Epoch`] when they do not fit together, or [`StoreError::Io`].
    pub fn load(&self, last: Zxid) -> Result<(Epoch, Epoch), StoreError> {
        let logged = last.max(Zxid::ZERO).epoch();
        let mut current = self.read_or_write(EpochFile::Current, logged)?;
        if current < logged {
            // A crash between writing the new epoch and renaming the file.
            let temporary = self.read_path(&self.temporary(EpochFile::Current));
            current =
                temporary.ok().flatten().filter(|epoch| logged <= *epoch).ok_or_else(|| {
                    self.unfit(
                        EpochFile::Current,
                        format!(
                            "current epoch {} is older than that of the last transaction {last}",
                            current.0
                        ),
                    )
                })?;
            self.write(EpochFile::Current, current)?;
        }
        let accepted = self.read_or_write(EpochFile::Accepted, logged)?;
        if accepted < current {
            return Err(self.unfit(
                EpochFile::Accepted,
                format!(
                    "accepted epoch {} is older than the current epoch {}",
                    accepted.0, current.0
                ),
            ));
        }
        Ok((accepted, current))
    }

    fn read_or_write(&self, file: EpochFile, epoch: Epoch) -> Result<Epoch, StoreError> {
        if let Some(epoch) = self.read(file)? {
            return Ok(epoch);
        }
        self.write(file, epoch)?;
        Ok(epoch)
    }

    fn unfit(&self, file: EpochFile, reason: String) -> StoreError {
        StoreError::Epoch { path: self.dir.join(file.name()), reason }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::vfs::MemVfs;

    fn files() -> (MemVfs, EpochFiles) {
        let vfs = MemVfs::new(Path::new("/d/version-2"));
        (vfs.clone(), EpochFiles::new(Arc::new(vfs), Path::new("/d")))
    }

    #[test]
    fn missing_files_take_the_epoch_of_the_last_transaction() {
        let (vfs, files) = files();
        let last = Zxid::new(Epoch(7), 1);
        assert_eq!(files.load(last).unwrap(), (Epoch(7), Epoch(7)));
        let content = vfs.content(Path::new("/d/version-2/currentEpoch"));
        assert_eq!(content.as_deref(), Some(&b"7"[..]));
        assert_eq!(files.read(EpochFile::Accepted).unwrap(), Some(Epoch(7)));
    }

    #[test]
    fn an_epoch_that_was_not_renamed_in_time_is_taken() {
        let (vfs, files) = files();
        files.write(EpochFile::Accepted, Epoch(8)).unwrap();
        files.write(EpochFile::Current, Epoch(7)).unwrap();
        let last = Zxid::new(Epoch(8), 1);
        assert!(matches!(files.load(last), Err(StoreError::Epoch { .. })));
        vfs.put(Path::new("/d/version-2/currentEpoch.tmp"), b"8");
        assert_eq!(files.load(last).unwrap(), (Epoch(8), Epoch(8)));
    }

    #[test]
    fn epochs_that_cannot_be_are_refused() {
        let (vfs, files) = files();
        files.write(EpochFile::Accepted, Epoch(6)).unwrap();
        files.write(EpochFile::Current, Epoch(7)).unwrap();
        assert!(matches!(files.load(Zxid::ZERO), Err(StoreError::Epoch { .. })));
        vfs.put(Path::new("/d/version-2/currentEpoch"), b"");
        assert!(matches!(files.load(Zxid::ZERO), Err(StoreError::Epoch { .. })));
    }
}

//! The two epoch files of a member.
//!
//! They hold decimal numbers without a newline, under the original's names, and are replaced
//! atomically.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use zebu_proto::{Epoch, Zxid};

use crate::StoreError;
use crate::faults;
use crate::names::VERSION_DIR;
use crate::vfs::{Vfs, replace};

/// Longer than any epoch.
const BYTES_MAX: usize = 64;

/// One of the two files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EpochFile {
    /// The accepted epoch: that of the last leader this member has promised to follow.
    Accepted,
    /// The current epoch: that of the last leader whose history this member has adopted.
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

/// The epochs that a member starts with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Epochs {
    /// The accepted epoch. At least the other two.
    pub accepted: Epoch,
    /// The current epoch.
    pub current: Epoch,
    /// The epoch of the last transaction. Later than `current` if a synchronization was
    /// interrupted.
    pub logged: Epoch,
}

/// The epoch files beside the snapshots.
#[derive(Clone, Debug)]
pub struct EpochFiles {
    vfs: Arc<dyn Vfs>,
    dir: PathBuf,
}

impl EpochFiles {
    /// The epoch files of `data_dir`.
    pub fn new(vfs: Arc<dyn Vfs>, data_dir: &Path) -> Self {
        Self { vfs, dir: data_dir.join(VERSION_DIR) }
    }

    /// The path of a file.
    pub fn path(&self, file: EpochFile) -> PathBuf {
        self.dir.join(file.name())
    }

    fn temporary(&self, file: EpochFile) -> PathBuf {
        self.dir.join(format!("{}.tmp", file.name()))
    }

    /// Writes an epoch atomically and durably.
    ///
    /// # Errors
    /// [`StoreError::Io`].
    pub fn write(&self, file: EpochFile, epoch: Epoch) -> Result<(), StoreError> {
        if faults::epoch_not_persisted() {
            return Ok(());
        }
        let path = self.path(file);
        let content = epoch.0.to_string();
        replace(self.vfs.as_ref(), &path, &self.temporary(file), content.as_bytes())
            .map_err(StoreError::io("write epoch", &path))
    }

    /// Reads an epoch; `None` when there is no such file.
    ///
    /// # Errors
    /// [`StoreError::Epoch`] when it holds no epoch, or [`StoreError::Io`].
    pub fn read(&self, file: EpochFile) -> Result<Option<Epoch>, StoreError> {
        self.read_path(&self.path(file))
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
        let epoch = line.trim().parse().map(Epoch);
        match epoch {
            // No leader could choose a later epoch.
            Ok(epoch) if epoch < Epoch::MAX => Ok(Some(epoch)),
            _ => Err(StoreError::Epoch {
                path: path.to_path_buf(),
                reason: format!("this is not an epoch: {line:?}"),
            }),
        }
    }

    /// Reads both epochs; missing files are created. `last`: the last transaction recovered.
    ///
    /// A crash between two writes never blocks a start. A file that is behind takes the value of
    /// its complete `.tmp` file, if that suffices. A crash during synchronization, between logging
    /// transactions and writing the epoch, leaves transactions of a later epoch than the current
    /// one. They are loaded and reported in [`Epochs::logged`]. The current epoch stays, and the
    /// accepted epoch is raised to theirs.
    /// Source: `QuorumPeer.loadDataBase`, which refuses to start in the latter case.
    ///
    /// # Errors
    /// [`StoreError::Epoch`] if the accepted epoch is below the current one, so that the promise is
    /// lost, or if a file holds no epoch; [`StoreError::Io`].
    pub fn load(&self, last: Zxid) -> Result<Epochs, StoreError> {
        let logged = last.max(Zxid::ZERO).epoch();
        let current = match self.read(EpochFile::Current)? {
            None => {
                self.write(EpochFile::Current, logged)?;
                logged
            }
            Some(current) if current < logged => {
                self.adopt(EpochFile::Current, logged)?.unwrap_or(current)
            }
            Some(current) => current,
        };
        let accepted = match self.read(EpochFile::Accepted)? {
            None => {
                let accepted = logged.max(current);
                self.write(EpochFile::Accepted, accepted)?;
                accepted
            }
            Some(accepted) if accepted < current => {
                self.adopt(EpochFile::Accepted, current)?.ok_or_else(|| StoreError::Epoch {
                    path: self.path(EpochFile::Accepted),
                    reason: format!(
                        "accepted epoch {} is older than the current epoch {}",
                        accepted.0, current.0
                    ),
                })?
            }
            Some(accepted) => accepted,
        };
        if accepted < logged {
            // Raising a promise is always safe.
            self.write(EpochFile::Accepted, logged)?;
        }
        // The epochs count as promises from now on. If the previous process failed between renaming
        // a file and syncing the directory, a power cut could still undo the rename.
        self.vfs.sync_dir(&self.dir).map_err(StoreError::io("sync directory", &self.dir))?;
        let accepted = accepted.max(logged);
        assert!(current <= accepted, "{current:?} is taken over, and {accepted:?} promised");
        Ok(Epochs { accepted, current, logged })
    }

    /// Takes the value of the `.tmp` file if it is at least `least`.
    fn adopt(&self, file: EpochFile, least: Epoch) -> Result<Option<Epoch>, StoreError> {
        let found = self.read_path(&self.temporary(file)).ok().flatten();
        let Some(epoch) = found.filter(|epoch| least <= *epoch) else { return Ok(None) };
        self.write(file, epoch)?;
        Ok(Some(epoch))
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

    fn epochs(accepted: u32, current: u32, logged: u32) -> Epochs {
        let [accepted, current, logged] = [accepted, current, logged].map(Epoch);
        Epochs { accepted, current, logged }
    }

    #[test]
    fn missing_files_take_the_epoch_of_the_last_transaction() {
        let (vfs, files) = files();
        let last = Zxid::new(Epoch(7), 1);
        assert_eq!(files.load(last).unwrap(), epochs(7, 7, 7));
        let content = vfs.content(Path::new("/d/version-2/currentEpoch"));
        assert_eq!(content.as_deref(), Some(&b"7"[..]));
        assert_eq!(files.read(EpochFile::Accepted).unwrap(), Some(Epoch(7)));
        // A lost promise is at least the epoch of the adopted history.
        vfs.put(Path::new("/d/version-2/currentEpoch"), b"9");
        vfs.remove(Path::new("/d/version-2/acceptedEpoch")).unwrap();
        assert_eq!(files.load(last).unwrap(), epochs(9, 9, 7));
        assert_eq!(files.read(EpochFile::Accepted).unwrap(), Some(Epoch(9)));
        // An untrusted state gives no information about epochs.
        assert_eq!(files.load(Zxid(-1)).unwrap(), epochs(9, 9, 0));
    }

    #[test]
    fn an_epoch_that_was_not_renamed_in_time_is_taken() {
        let (vfs, files) = files();
        files.write(EpochFile::Accepted, Epoch(8)).unwrap();
        files.write(EpochFile::Current, Epoch(7)).unwrap();
        let last = Zxid::new(Epoch(8), 1);
        vfs.put(Path::new("/d/version-2/currentEpoch.tmp"), b"8");
        assert_eq!(files.load(last).unwrap(), epochs(8, 8, 8));
        assert_eq!(files.read(EpochFile::Current).unwrap(), Some(Epoch(8)));
        files.write(EpochFile::Accepted, Epoch(5)).unwrap();
        vfs.put(Path::new("/d/version-2/acceptedEpoch.tmp"), b"9");
        assert_eq!(files.load(last).unwrap(), epochs(9, 8, 8));
        assert_eq!(files.read(EpochFile::Accepted).unwrap(), Some(Epoch(9)));
    }

    #[test]
    fn a_crash_before_the_current_epoch_was_written_does_not_end_the_start() {
        // Transactions of epoch 8 are durable, but the current epoch is still 7.
        let (vfs, files) = files();
        files.write(EpochFile::Accepted, Epoch(8)).unwrap();
        files.write(EpochFile::Current, Epoch(7)).unwrap();
        let last = Zxid::new(Epoch(8), 1);
        assert_eq!(files.load(last).unwrap(), epochs(8, 7, 8));
        assert_eq!(files.read(EpochFile::Current).unwrap(), Some(Epoch(7)));
        // The rest of an incomplete write with a lower epoch than necessary is not used.
        vfs.put(Path::new("/d/version-2/currentEpoch.tmp"), b"7");
        assert_eq!(files.load(last).unwrap(), epochs(8, 7, 8));
        // A server that has logged an epoch had promised it.
        files.write(EpochFile::Accepted, Epoch(7)).unwrap();
        assert_eq!(files.load(last).unwrap(), epochs(8, 7, 8));
        assert_eq!(files.read(EpochFile::Accepted).unwrap(), Some(Epoch(8)));
    }

    #[test]
    fn epochs_that_cannot_be_are_refused() {
        let (vfs, files) = files();
        files.write(EpochFile::Accepted, Epoch(6)).unwrap();
        files.write(EpochFile::Current, Epoch(7)).unwrap();
        vfs.put(Path::new("/d/version-2/acceptedEpoch.tmp"), b"6");
        assert!(matches!(files.load(Zxid::ZERO), Err(StoreError::Epoch { .. })));
        vfs.put(Path::new("/d/version-2/currentEpoch"), b"");
        assert!(matches!(files.load(Zxid::ZERO), Err(StoreError::Epoch { .. })));
        // A zxid is a signed number, and no leader could choose a later epoch.
        vfs.put(Path::new("/d/version-2/currentEpoch"), b"1");
        for none in ["2147483647", "4294967295", "-1"] {
            vfs.put(Path::new("/d/version-2/acceptedEpoch"), none.as_bytes());
            assert!(matches!(files.load(Zxid::ZERO), Err(StoreError::Epoch { .. })), "{none}");
        }
        vfs.put(Path::new("/d/version-2/acceptedEpoch"), b"2147483646");
        assert_eq!(files.load(Zxid::ZERO).unwrap(), epochs(2_147_483_646, 1, 0));
    }

    #[test]
    fn an_epoch_that_was_read_survives_a_power_cut() {
        use crate::vfs::{Crash, Names, Unsynced};
        let (vfs, files) = files();
        files.write(EpochFile::Current, Epoch(1)).unwrap();
        files.write(EpochFile::Accepted, Epoch(1)).unwrap();
        // The last call of a write makes the new name durable.
        let before = vfs.mutations();
        files.write(EpochFile::Accepted, Epoch(2)).unwrap();
        let calls = vfs.mutations() - before;
        vfs.stop_at(vfs.mutations() + calls - 1);
        assert!(files.write(EpochFile::Accepted, Epoch(3)).is_err());
        vfs.resume();
        assert_eq!(files.load(Zxid::ZERO).unwrap(), epochs(3, 1, 0));
        let disk = vfs.crash(Crash { content: Unsynced::Lost, names: Names::Lost });
        let files = EpochFiles::new(Arc::new(disk), Path::new("/d"));
        assert_eq!(files.read(EpochFile::Accepted).unwrap(), Some(Epoch(3)));
    }

    #[test]
    fn a_power_cut_leaves_the_old_epoch_or_the_new_one() {
        use crate::vfs::{Crash, Names, Unsynced};
        for calls in 0..4 {
            let (vfs, files) = files();
            files.write(EpochFile::Current, Epoch(12)).unwrap();
            files.write(EpochFile::Accepted, Epoch(12)).unwrap();
            vfs.stop_at(vfs.mutations() + calls);
            let written = files.write(EpochFile::Current, Epoch(345)).is_ok();
            assert!(!written, "{calls} calls are not enough");
            for content in [Unsynced::Lost, Unsynced::Kept, Unsynced::Torn(1)] {
                for names in [Names::Lost, Names::Kept, Names::Subset(1), Names::Subset(2)] {
                    let disk = vfs.crash(Crash { content, names });
                    let files = EpochFiles::new(Arc::new(disk), Path::new("/d"));
                    let found = files.read(EpochFile::Current).unwrap().unwrap();
                    assert!([Epoch(12), Epoch(345)].contains(&found), "{calls}: {found:?}");
                }
            }
        }
    }
}

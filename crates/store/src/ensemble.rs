//! The file `ensemble` beside the snapshots: the id of the ensemble that the data belong to.
//!
//! The file has one line, such as `0123456789abcdef0123456789abcdef settled 0 1f2e3d4c`: the id,
//! its certainty, the epoch of the leader that proposed it, and the CRC-32 of the line before it.
//! The file is always replaced as a whole. The original ignores it. Its format is in
//! `docs/formats/ensemble.md`.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use zebu_proto::{EnsembleId, Epoch, Identity};

use crate::StoreError;
use crate::names::VERSION_DIR;
use crate::vfs::{Vfs, replace};

const NAME: &str = "ensemble";
const TEMPORARY: &str = "ensemble.tmp";
const PROPOSED: &str = "proposed";
const SETTLED: &str = "settled";
/// Longer than any line.
const BYTES_MAX: usize = 128;

/// The file `ensemble` of a data directory.
#[derive(Clone, Debug)]
pub struct EnsembleFile {
    vfs: Arc<dyn Vfs>,
    dir: PathBuf,
}

impl EnsembleFile {
    /// The file `ensemble` of the data directory `data_dir`.
    pub fn new(vfs: Arc<dyn Vfs>, data_dir: &Path) -> Self {
        Self { vfs, dir: data_dir.join(VERSION_DIR) }
    }

    /// The path of the file.
    pub fn path(&self) -> PathBuf {
        self.dir.join(NAME)
    }

    /// Reads the file. Returns [`Identity::Unknown`] if it does not exist, and `None` if it has no
    /// complete line, or if the disk cannot read the line.
    ///
    /// # Errors
    /// [`StoreError::Io`].
    pub fn read(&self) -> Result<Option<Identity>, StoreError> {
        let path = self.path();
        let file = match self.vfs.open(&path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                return Ok(Some(Identity::Unknown));
            }
            opened => opened.map_err(StoreError::io("read", &path))?,
        };
        let mut bytes = [0; BYTES_MAX];
        Ok(file.read_at(&mut bytes, 0).ok().and_then(|read| decode(&bytes[..read])))
    }

    /// Makes durable what a start has read. A process that failed after renaming the file, but
    /// before syncing the directory, left a file that the next power cut could remove.
    ///
    /// # Errors
    /// [`StoreError::Io`].
    pub fn settle(&self) -> Result<(), StoreError> {
        self.vfs.sync_dir(&self.dir).map_err(StoreError::io("sync directory", &self.dir))
    }

    /// Writes the file and syncs it at once.
    ///
    /// # Errors
    /// [`StoreError::Io`].
    pub fn write(&self, identity: Identity) -> Result<(), StoreError> {
        let Some(line) = encode(identity) else { return Ok(()) };
        let path = self.path();
        replace(self.vfs.as_ref(), &path, &self.dir.join(TEMPORARY), line.as_bytes())
            .map_err(StoreError::io("write", &path))
    }
}

fn encode(identity: Identity) -> Option<String> {
    let text = match identity {
        Identity::Unknown => return None,
        Identity::Proposed { id, epoch } => format!("{id} {PROPOSED} {:x}", epoch.0),
        Identity::Settled(id) => format!("{id} {SETTLED} 0"),
    };
    let line = format!("{text} {:08x}\n", crc32fast::hash(text.as_bytes()));
    debug_assert_eq!(decode(line.as_bytes()), Some(identity), "it reads back as another");
    Some(line)
}

fn decode(bytes: &[u8]) -> Option<Identity> {
    let (text, sum) = str::from_utf8(bytes).ok()?.strip_suffix('\n')?.rsplit_once(' ')?;
    if sum.len() != 8 || u32::from_str_radix(sum, 16) != Ok(crc32fast::hash(text.as_bytes())) {
        return None;
    }
    let (id, state) = text.split_once(' ')?;
    let (state, epoch) = state.split_once(' ')?;
    let id: EnsembleId = id.parse().ok()?;
    let epoch = Epoch(u32::from_str_radix(epoch, 16).ok()?);
    match state {
        PROPOSED => Some(Identity::Proposed { id, epoch }),
        SETTLED => Some(Identity::Settled(id)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::vfs::MemVfs;

    const ID: EnsembleId = EnsembleId(0x0123_4567_89ab_cdef_0123_4567_89ab_cdef);

    #[test]
    fn bytes_of_the_line() {
        let line = encode(Identity::Settled(ID)).unwrap();
        assert_eq!(line, "0123456789abcdef0123456789abcdef settled 0 a643d820\n");
        for at in 0..line.len() {
            let mut changed = line.clone().into_bytes();
            changed[at] ^= 1;
            assert_eq!(decode(&changed), None, "byte {at}");
            assert_eq!(decode(&line.as_bytes()[..at]), None, "{at} bytes");
        }
    }

    #[test]
    fn it_says_what_was_written_last() {
        let vfs = MemVfs::new(Path::new("/d/version-2"));
        let file = EnsembleFile::new(Arc::new(vfs.clone()), Path::new("/d"));
        assert_eq!(file.read().unwrap(), Some(Identity::Unknown));
        let proposed = Identity::Proposed { id: ID, epoch: Epoch(0x1f) };
        for identity in [proposed, Identity::Settled(ID)] {
            file.write(identity).unwrap();
            assert_eq!(file.read().unwrap(), Some(identity));
        }
        vfs.put(&file.path(), b"0123");
        assert_eq!(file.read().unwrap(), None);
        vfs.spoil(&file.path(), 0);
        assert_eq!(file.read().unwrap(), None);
        file.write(proposed).unwrap();
        assert_eq!(file.read().unwrap(), Some(proposed));
    }

    #[test]
    fn a_power_cut_leaves_the_old_line_or_the_new_one() {
        use crate::vfs::{Crash, Names, Unsynced};
        for calls in 0..5 {
            let vfs = MemVfs::new(Path::new("/d/version-2"));
            let file = EnsembleFile::new(Arc::new(vfs.clone()), Path::new("/d"));
            let before = Identity::Proposed { id: ID, epoch: Epoch(3) };
            file.write(before).unwrap();
            vfs.stop_at(vfs.mutations() + calls);
            let written = file.write(Identity::Settled(ID)).is_ok();
            for content in [Unsynced::Lost, Unsynced::Kept, Unsynced::Torn(1)] {
                for names in [Names::Lost, Names::Kept, Names::Subset(1), Names::Subset(2)] {
                    let disk = vfs.crash(Crash { content, names });
                    let file = EnsembleFile::new(Arc::new(disk), Path::new("/d"));
                    let found = file.read().unwrap().expect("a whole line");
                    let either = [before, Identity::Settled(ID)].contains(&found);
                    assert!(either && (!written || found != before), "{calls}: {found:?}");
                }
            }
        }
    }
}

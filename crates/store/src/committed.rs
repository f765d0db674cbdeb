//! The file `committed`: the newest transaction that a member knows to be committed.
//!
//! The file has one line, such as `0x0000000500000003 1f2e3d4c`: a zxid, and the CRC-32 of its
//! sixteen digits. A quorum had made that transaction durable when this member served it. The line
//! has a fixed length and is written in place, so it fits into one sector. It is written without a
//! sync and may lag behind: it is a lower bound. The original ignores the file. Its format is in
//! `docs/formats/ensemble.md`.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use zebu_proto::Zxid;

use crate::StoreError;
use crate::vfs::{Vfs, VfsFile, replace};

const NAME: &str = "committed";
const TEMPORARY: &str = "committed.tmp";
const DIGITS: usize = 16;
/// `0x`, the digits, a blank, eight digits of the sum, a newline.
const LINE_BYTES: usize = 2 + DIGITS + 1 + 8 + 1;

const _: () = assert!(LINE_BYTES <= 512, "a line lies in one sector");

/// The file `committed` of a member.
#[derive(Debug)]
pub struct CommittedFile {
    vfs: Arc<dyn Vfs>,
    path: PathBuf,
    temporary: PathBuf,
    file: Option<Box<dyn VfsFile>>,
    /// The content of the file.
    written: Option<Zxid>,
}

impl CommittedFile {
    /// The file beside the logs in `dir` (`version-2` below `dataLogDir`).
    pub fn new(vfs: Arc<dyn Vfs>, dir: &Path) -> Self {
        let (path, temporary) = (dir.join(NAME), dir.join(TEMPORARY));
        Self { vfs, path, temporary, file: None, written: None }
    }

    /// Where the file is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Reads the zxid; `None` if there is no file, or no complete line in it, or if the disk cannot
    /// read the line.
    ///
    /// # Errors
    /// [`StoreError::Io`].
    pub fn read(&self) -> Result<Option<Zxid>, StoreError> {
        let file = match self.vfs.open(&self.path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            opened => opened.map_err(StoreError::io("read", &self.path))?,
        };
        let mut bytes = [0; LINE_BYTES];
        // The file is a help. A start goes on without it, and its next write replaces it.
        let read = file.read_at(&mut bytes, 0).unwrap_or(0);
        Ok(decode(&bytes[..read]))
    }

    /// Stores that all transactions up to `zxid` are committed. Only the first line is synced.
    ///
    /// # Errors
    /// [`StoreError::Io`].
    pub fn write(&mut self, zxid: Zxid) -> Result<(), StoreError> {
        if self.written == Some(zxid) {
            return Ok(());
        }
        let line = encode(zxid);
        let done = match &mut self.file {
            Some(file) => file.write_at(&line, 0),
            None => replace(self.vfs.as_ref(), &self.path, &self.temporary, &line)
                .and_then(|()| self.vfs.open_rw(&self.path))
                .map(|file| self.file = Some(file)),
        };
        done.map_err(StoreError::io("write", &self.path))?;
        self.written = Some(zxid);
        Ok(())
    }
}

fn encode(zxid: Zxid) -> [u8; LINE_BYTES] {
    let digits = format!("{:016x}", zxid.0);
    let sum = crc32fast::hash(digits.as_bytes());
    let line = format!("0x{digits} {sum:08x}\n");
    let bytes: [u8; LINE_BYTES] = line.into_bytes().try_into().expect("a line has one length");
    debug_assert_eq!(decode(&bytes), Some(zxid), "it reads back as another");
    bytes
}

fn decode(bytes: &[u8]) -> Option<Zxid> {
    let line = str::from_utf8(bytes).ok().filter(|line| line.len() == LINE_BYTES)?;
    let (digits, sum) = line.strip_prefix("0x")?.strip_suffix('\n')?.split_once(' ')?;
    let sum = u32::from_str_radix(sum, 16).ok()?;
    if digits.len() != DIGITS || crc32fast::hash(digits.as_bytes()) != sum {
        return None;
    }
    let zxid = i64::from_str_radix(digits, 16).ok()?;
    (zxid >= 0).then_some(Zxid(zxid))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::vfs::MemVfs;

    #[test]
    fn bytes_of_the_line() {
        let line = encode(Zxid(0x5_0000_0003));
        assert_eq!(line[..19], *b"0x0000000500000003 ");
        for at in 0..line.len() {
            let mut changed = line;
            changed[at] ^= 1;
            assert_eq!(decode(&changed), None, "byte {at}");
            assert_eq!(decode(&line[..at]), None, "{at} bytes");
        }
    }

    #[test]
    fn it_says_what_was_written_last() {
        let vfs = MemVfs::new(Path::new("/d/version-2"));
        let mut file = CommittedFile::new(Arc::new(vfs.clone()), Path::new("/d/version-2"));
        assert_eq!(file.read().unwrap(), None);
        for zxid in [7, 9, 3] {
            file.write(Zxid(zxid)).unwrap();
            let again = CommittedFile::new(Arc::new(vfs.clone()), Path::new("/d/version-2"));
            assert_eq!(again.read().unwrap(), Some(Zxid(zxid)));
        }
        vfs.put(Path::new("/d/version-2/committed"), b"0x1");
        assert_eq!(file.read().unwrap(), None);
    }

    #[test]
    fn a_line_that_the_disk_cannot_read_is_replaced() {
        let vfs = MemVfs::new(Path::new("/d/version-2"));
        let file = || CommittedFile::new(Arc::new(vfs.clone()), Path::new("/d/version-2"));
        file().write(Zxid(7)).unwrap();
        vfs.spoil(file().path(), 0);
        assert_eq!(file().read().unwrap(), None);
        file().write(Zxid(8)).unwrap();
        assert_eq!(file().read().unwrap(), Some(Zxid(8)));
    }
}

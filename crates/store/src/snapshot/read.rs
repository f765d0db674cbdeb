//! Reading a snapshot from any stream, in one pass, into a [`Recover`].

use std::io::{self, Read};

use zebu_jute::{Decode, Decoder};
use zebu_proto::{Acl, Id, Perms, STAT_PERSISTED_BYTES, SessionId, StatPersisted, Zxid};

use super::{HEADER, SEAL_BYTES, SEAL_END};
use crate::window::Window;
use crate::{Recover, Refused};

/// Maximum bytes that are examined after the znodes' seal.
const SECTIONS_BYTES_MAX: usize = 64 * 1024;

/// Why a stream is not a complete and intact snapshot.
#[derive(Debug, thiserror::Error)]
pub enum SnapshotError {
    /// It ends too early.
    #[error("it ends at offset {offset}")]
    Short {
        /// The offset of its end.
        offset: u64,
    },
    /// It has no snapshot header.
    #[error("this is not a snapshot")]
    Header,
    /// An impossible length.
    #[error("unreasonable length {length} at offset {offset}")]
    Length {
        /// The offset.
        offset: u64,
        /// The length.
        length: i32,
    },
    /// A checksum does not match the preceding bytes.
    #[error("checksum mismatch at offset {offset}")]
    Checksum {
        /// The offset.
        offset: u64,
    },
    /// The state refuses a znode.
    #[error("{path}: {reason}")]
    Node {
        /// The path of the znode.
        path: String,
        /// The reason.
        reason: Refused,
    },
    /// The state refuses the snapshot as a whole.
    #[error("{reason}")]
    Whole {
        /// The reason.
        reason: Refused,
    },
    /// The stream cannot be read or decompressed.
    #[error("{0}")]
    Io(#[from] io::Error),
}

/// The sections of a snapshot after its znodes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sections {
    /// Number of znodes.
    pub nodes: u64,
    /// The digest section: zxid, version and digest; zxid 0 means no digest.
    pub digest: Option<(Zxid, i32, i64)>,
    /// The last-zxid section.
    pub last_zxid: Option<Zxid>,
}

impl Sections {
    /// The last transaction that the snapshot may contain, including those applied while it was
    /// being written. `None` if unknown.
    ///
    /// Our servers write both sections after the walk over the tree. The original's digest section
    /// may be older, because transactions without a digest do not update it. `trust_digest`:
    /// whether the snapshot is known to be ours.
    pub fn extent(&self, trust_digest: bool) -> Option<Zxid> {
        let digest = self.digest.map(|(zxid, ..)| zxid).filter(|zxid| *zxid > Zxid::ZERO);
        match self.last_zxid {
            Some(last) => Some(digest.map_or(last, |zxid| zxid.max(last))),
            None => digest.filter(|_| trust_digest),
        }
    }
}

/// Reads an uncompressed snapshot, and verifies all checksums.
///
/// `digest`: whether to pass the digest to `state`. The caller calls [`Recover::restart`] and
/// [`Recover::loaded`], and discards the state after an error.
///
/// # Errors
/// [`SnapshotError`].
pub fn read_snapshot(
    source: impl Read,
    record_bytes_max: usize,
    digest: bool,
    state: &mut dyn Recover,
) -> Result<Sections, SnapshotError> {
    let mut reader = Reader { window: Window::checksummed(source), record_bytes_max };
    if reader.take(HEADER.len())?[..4] != HEADER[..4] {
        return Err(SnapshotError::Header);
    }
    for _ in 0..reader.int()? {
        let id = SessionId(reader.long()?);
        let timeout_ms = reader.int()?;
        state.session(id, timeout_ms);
    }
    for _ in 0..reader.int()? {
        let id = reader.long()?;
        let mut acl = Vec::new();
        for _ in 0..reader.int()? {
            let perms = Perms(reader.int()?);
            acl.push(Acl { perms, id: Id { scheme: reader.string()?, id: reader.string()? } });
        }
        state.acl(id, acl);
    }
    let mut nodes = 0;
    while reader.node(state)? {
        nodes += 1;
    }
    reader.seal()?;
    let sections = Sections { nodes, ..reader.sections()? };
    if let Some((zxid, version, value)) = sections.digest
        && digest
    {
        state.digest(zxid, version, value);
    }
    Ok(sections)
}

struct Reader<R> {
    window: Window<R>,
    record_bytes_max: usize,
}

impl<R: Read> Reader<R> {
    /// The next `bytes` bytes; the next call consumes them.
    fn see(&mut self, bytes: usize) -> Result<&[u8], SnapshotError> {
        let offset = self.window.position();
        let seen = self.window.peek(bytes)?;
        if seen.len() < bytes {
            return Err(SnapshotError::Short { offset: offset + seen.len() as u64 });
        }
        Ok(seen)
    }

    fn take(&mut self, bytes: usize) -> Result<Vec<u8>, SnapshotError> {
        let taken = self.see(bytes)?.to_vec();
        self.window.consume(bytes);
        Ok(taken)
    }

    fn int(&mut self) -> Result<i32, SnapshotError> {
        let value = int_at(self.see(4)?, 0);
        self.window.consume(4);
        Ok(value)
    }

    fn long(&mut self) -> Result<i64, SnapshotError> {
        let bytes = self.see(8)?;
        let value = i64::from_be_bytes(bytes.try_into().expect("eight bytes"));
        self.window.consume(8);
        Ok(value)
    }

    /// The length at offset `at` from the current position; `None` for null.
    fn length(&mut self, at: usize) -> Result<Option<usize>, SnapshotError> {
        let length = int_at(self.see(at + 4)?, at);
        let offset = self.window.position() + at as u64;
        match usize::try_from(length) {
            Ok(bytes) if bytes <= self.record_bytes_max => Ok(Some(bytes)),
            Err(_) if length == -1 => Ok(None),
            _ => Err(SnapshotError::Length { offset, length }),
        }
    }

    /// A string; null becomes empty.
    fn string(&mut self) -> Result<String, SnapshotError> {
        let length = self.length(0)?.unwrap_or(0);
        let bytes = self.take(4 + length)?;
        Ok(String::from_utf8_lossy(&bytes[4..]).into_owned())
    }

    /// Reads a znode. False at the end marker, which is consumed.
    fn node(&mut self, state: &mut dyn Recover) -> Result<bool, SnapshotError> {
        let path_bytes = self.length(0)?.unwrap_or(0);
        let path_end = 4 + path_bytes;
        if path_bytes == 1 && self.see(5)?[4] == b'/' {
            self.window.consume(5);
            return Ok(false);
        }
        let data_bytes = self.length(path_end)?;
        let data_end = path_end + 4 + data_bytes.unwrap_or(0);
        let node_end = data_end + 8 + STAT_PERSISTED_BYTES;
        let bytes = self.see(node_end)?;
        let path = String::from_utf8_lossy(&bytes[4..path_end]);
        let data = data_bytes.map(|_| &bytes[path_end + 4..data_end]);
        let mut from = Decoder::new(&bytes[data_end..]);
        let fixed = (from.long()).and_then(|acl| Ok((acl, StatPersisted::decode(&mut from)?)));
        let (acl, stat) = fixed.expect("all its bytes are there");
        state
            .node(&path, data, acl, &stat)
            .map_err(|reason| SnapshotError::Node { path: path.into_owned(), reason })?;
        self.window.consume(node_end);
        Ok(true)
    }

    fn seal(&mut self) -> Result<(), SnapshotError> {
        let offset = self.window.position();
        let sum = self.window.checksum();
        let seal = self.take(SEAL_BYTES)?;
        if seal[..8] != u64::from(sum).to_be_bytes() || seal[8..] != SEAL_END {
            return Err(SnapshotError::Checksum { offset });
        }
        Ok(())
    }

    /// Reads the sections after the first seal. They are detected from their bytes, whatever the
    /// writer's configuration was.
    fn sections(&mut self) -> Result<Sections, SnapshotError> {
        let mut sections = Sections::default();
        let rest = self.window.peek(SECTIONS_BYTES_MAX)?;
        if rest.is_empty() {
            return Ok(sections);
        }
        // Where a digest section has its version, a last-zxid section has its seal.
        let only_last_zxid = rest.len() == 8 + SEAL_BYTES;
        if !only_last_zxid {
            let zxid = Zxid(self.long()?);
            let version = self.int()?;
            let digest = if version < 2 {
                // Snapshots of early 3.6 have it as hexadecimal digits.
                let text = self.string()?;
                i64::from_str_radix(&text, 16).unwrap_or_default()
            } else {
                self.long()?
            };
            self.seal()?;
            sections.digest = Some((zxid, version, digest));
        }
        if !self.window.peek(1)?.is_empty() {
            let zxid = Zxid(self.long()?);
            self.seal()?;
            sections.last_zxid = Some(zxid);
        }
        // Sections of later versions are skipped, but must be readable to the end.
        while let read @ 1.. = self.window.peek(SECTIONS_BYTES_MAX)?.len() {
            self.window.consume(read);
        }
        Ok(sections)
    }
}

fn int_at(bytes: &[u8], at: usize) -> i32 {
    i32::from_be_bytes(bytes[at..at + 4].try_into().expect("four bytes"))
}

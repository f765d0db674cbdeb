//! The sidecar of a log: the durable end of the log, and a chained hash of its records.
//!
//! A log of the original cannot distinguish a crash from damage, because a length of 0 marks its
//! end. The sidecar can: all records that it calls durable must be there. It has two slots of the
//! same form in separate sectors, written in turn, so that a torn write leaves one intact. The
//! format is in `docs/formats/sidecar.md`.

use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use zebu_jute::Encoder;
use zebu_proto::Zxid;

use crate::names;
use crate::vfs::{Vfs, VfsFile, replace};

const MAGIC: [u8; 4] = *b"ZBDU";
const VERSION: i32 = 1;
/// Size of a slot; the last four bytes are the CRC-32 of the others.
const SLOT_BYTES: usize = 68;
/// Distance between the slots: they are in separate sectors for any sector size up to 4 KiB.
const SLOT_STRIDE: u64 = 4096;
const SLOTS: u64 = 2;

const _: () = assert!(SLOT_BYTES == 4 + 4 + 6 * 8 + 4 + 4 + 4, "as docs/formats/sidecar.md says");
const _: () = assert!(SLOT_BYTES <= 512, "a slot lies in one sector, whatever its size");
const _: () = assert!(SLOT_BYTES as u64 <= SLOT_STRIDE, "slots do not overlap");

/// The durable part of a log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mark {
    /// Zxid in the log's name.
    pub first: Zxid,
    /// The last transaction before this log; 0 for the first log.
    pub previous: Zxid,
    /// The end of the last durable record.
    pub end: u64,
    /// The zxid of that record, or `previous` when there is none.
    pub last: Zxid,
    /// The number of records up to `end`.
    pub records: u64,
    /// The chained hash of those records, see [`chain`].
    pub chain: u64,
    /// Whether the log is complete and ends there.
    pub sealed: bool,
}

/// Adds a record to a chained hash. The hash starts with the zxid in the log's name.
///
/// Each step is a bijection of the hash, so no input is lost.
pub fn chain(hash: u64, body: &[u8]) -> u64 {
    let record = u64::from(crc32fast::hash(body)) | (body.len() as u64) << 32;
    let mixed = hash ^ record;
    let mixed = (mixed ^ mixed >> 32).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    mixed ^ mixed >> 29
}

impl Mark {
    /// The mark of a log without records.
    pub fn start(first: Zxid, previous: Zxid) -> Self {
        Self {
            first,
            previous,
            end: super::HEADER_BYTES as u64,
            last: previous,
            records: 0,
            chain: first.0 as u64,
            sealed: false,
        }
    }

    /// Adds one record.
    pub fn advance(&mut self, zxid: Zxid, body: &[u8]) {
        self.end += (body.len() + super::OVERHEAD_BYTES) as u64;
        self.last = zxid;
        self.records += 1;
        self.chain = chain(self.chain, body);
    }

    /// Whether both describe the same records.
    pub fn agrees(&self, other: &Self) -> bool {
        (self.end, self.last, self.records, self.chain)
            == (other.end, other.last, other.records, other.chain)
    }

    fn encode(&self) -> Vec<u8> {
        let (header, is_empty) = (super::HEADER_BYTES as u64, self.records == 0);
        assert!(self.end >= header, "a log ends in its header: {self:?}");
        assert_eq!(is_empty, self.end == header, "records without bytes: {self:?}");
        assert!(!is_empty || self.last == self.previous, "a transaction of no record: {self:?}");
        let mut bytes = Vec::with_capacity(SLOT_BYTES);
        let mut out = Encoder::new(&mut bytes);
        out.raw(&MAGIC);
        out.int(VERSION);
        out.long(self.first.0);
        out.long(self.previous.0);
        out.long(self.end as i64);
        out.long(self.last.0);
        out.long(self.records as i64);
        out.long(self.chain as i64);
        out.int(self.sealed.into());
        // Reserved for later versions.
        out.int(0);
        let sum = crc32fast::hash(&bytes);
        bytes.extend_from_slice(&sum.to_be_bytes());
        assert_eq!(bytes.len(), SLOT_BYTES);
        debug_assert_eq!(Self::decode(&bytes).as_ref(), Some(self), "it reads back as another");
        bytes
    }

    fn decode(slot: &[u8]) -> Option<Self> {
        let (content, sum) = slot.split_at_checked(SLOT_BYTES - 4)?;
        if crc32fast::hash(content).to_be_bytes() != sum {
            return None;
        }
        let mut from = zebu_jute::Decoder::new(content.strip_prefix(&MAGIC)?);
        if from.int().ok()? != VERSION {
            return None;
        }
        Some(Self {
            first: Zxid(from.long().ok()?),
            previous: Zxid(from.long().ok()?),
            end: from.long().ok()? as u64,
            last: Zxid(from.long().ok()?),
            records: from.long().ok()? as u64,
            chain: from.long().ok()? as u64,
            sealed: from.int().ok()? != 0,
        })
    }

    /// The mark that reaches furthest; `None` if neither slot is valid.
    pub fn read(bytes: &[u8]) -> Option<Self> {
        (0..SLOTS)
            .filter_map(|slot| {
                let at = usize::try_from(slot * SLOT_STRIDE).ok()?;
                Self::decode(bytes.get(at..at + SLOT_BYTES)?)
            })
            .max_by_key(|mark| (mark.end, mark.sealed))
    }

    /// The content of a sidecar with this mark in both slots.
    pub fn file(&self) -> Vec<u8> {
        let mut bytes = vec![0; (SLOT_STRIDE * (SLOTS - 1)) as usize + SLOT_BYTES];
        for slot in 0..SLOTS {
            let at = (slot * SLOT_STRIDE) as usize;
            bytes[at..at + SLOT_BYTES].copy_from_slice(&self.encode());
        }
        bytes
    }
}

/// Reads the sidecar at `path`. The inner value is `None` if it is unreadable, or vouches for no
/// record.
///
/// Earlier versions wrote an empty sidecar before its log. If the log has records, the original may
/// have written them since, under the same name.
///
/// # Errors
/// Errors of the system; a slot that the disk cannot read is an error only if the other one is
/// invalid.
pub fn read(vfs: &dyn Vfs, path: &Path) -> io::Result<Option<Mark>> {
    let file = vfs.open(path)?;
    let mut bytes = vec![0; (SLOT_STRIDE * SLOTS) as usize];
    let mut unreadable = None;
    for slot in 0..SLOTS {
        let at = slot * SLOT_STRIDE;
        // Each slot by itself: a disk that cannot read one may read the other.
        let slot = &mut bytes[at as usize..][..SLOT_BYTES];
        if let Err(error) = file.read_at(slot, at) {
            slot.fill(0);
            unreadable = Some(error);
        }
    }
    match (Mark::read(&bytes), unreadable) {
        (None, Some(error)) => Err(error),
        (mark, _) => Ok(mark.filter(|mark| mark.records > 0)),
    }
}

/// Writes the sidecar of `mark` atomically and durably.
pub(crate) fn put(vfs: &dyn Vfs, dir: &Path, mark: &Mark) -> io::Result<PathBuf> {
    let name = names::sidecar(mark.first);
    let path = dir.join(&name);
    replace(vfs, &path, &dir.join(names::temporary(&name)), &mark.file())?;
    Ok(path)
}

/// The sidecar of the log being written.
#[derive(Debug)]
pub(crate) struct Sidecar {
    pub(crate) path: PathBuf,
    file: Box<dyn VfsFile>,
    turn: u64,
    /// Whether a mark is written but not synced.
    dirty: bool,
    synced_at: Duration,
}

impl Sidecar {
    /// Creates the sidecar of a log whose first records and name are durable.
    ///
    /// Until then the log counts as one of the original, which a log of complete records may be.
    pub(crate) fn create(vfs: &dyn Vfs, dir: &Path, mark: &Mark) -> io::Result<Self> {
        let path = put(vfs, dir, mark)?;
        let file = vfs.open_rw(&path)?;
        Ok(Self { path, file, turn: 0, dirty: false, synced_at: vfs.now() })
    }

    /// Writes a mark. The records it describes must already be durable.
    pub(crate) fn note(&mut self, mark: &Mark) -> io::Result<()> {
        self.file.write_at(&mark.encode(), self.turn * SLOT_STRIDE)?;
        self.turn = (self.turn + 1) % SLOTS;
        assert!(self.turn < SLOTS, "there is no slot {}", self.turn);
        self.dirty = true;
        Ok(())
    }

    /// Makes the mark durable in both slots.
    pub(crate) fn settle(&mut self, mark: &Mark, now: Duration) -> io::Result<()> {
        for _ in 0..SLOTS {
            self.note(mark)?;
        }
        assert!(self.dirty, "both slots have been written");
        self.file.sync()?;
        self.dirty = false;
        self.synced_at = now;
        Ok(())
    }

    /// Whether a mark is not durable yet, and the time since the last sync.
    pub(crate) fn overdue(&self, now: Duration) -> Option<Duration> {
        self.dirty.then(|| now.saturating_sub(self.synced_at))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mark() -> Mark {
        let mut mark = Mark::start(Zxid(5), Zxid(4));
        mark.advance(Zxid(5), b"a body");
        mark
    }

    #[test]
    fn bytes_of_a_slot() {
        let slot = mark().encode();
        let start = b"ZBDU\0\0\0\x01\0\0\0\0\0\0\0\x05\0\0\0\0\0\0\0\x04\0\0\0\0\0\0\0\x23";
        assert_eq!(slot[..32], start[..]);
        assert_eq!(Mark::decode(&slot), Some(mark()));
        for at in 0..slot.len() {
            let mut changed = slot.clone();
            changed[at] ^= 0x10;
            assert_eq!(Mark::decode(&changed), None, "byte {at}");
        }
    }

    #[test]
    fn a_damaged_slot_leaves_the_other() {
        let file = mark().file();
        for at in [0, 4096] {
            let mut changed = file.clone();
            changed[at..at + 64].fill(0);
            assert_eq!(Mark::read(&changed), Some(mark()));
        }
        assert_eq!(Mark::read(&file[..10]), None);
        assert_eq!(Mark::read(&[]), None);
    }

    #[test]
    fn an_unreadable_slot_leaves_the_other() {
        let path = Path::new("/d/durable.5");
        for (unreadable, found) in
            [(&[0][..], Some(mark())), (&[4096], Some(mark())), (&[0, 4096], None)]
        {
            let vfs = crate::vfs::MemVfs::new(Path::new("/d"));
            vfs.put(path, &mark().file());
            unreadable.iter().for_each(|at| vfs.spoil(path, *at));
            assert_eq!(read(&vfs, path).ok().flatten(), found, "{unreadable:?}");
        }
    }

    #[test]
    fn the_chain_knows_order_and_content() {
        let of = |bodies: [&[u8]; 2]| bodies.iter().fold(1, |hash, body| chain(hash, body));
        assert_ne!(of([b"a", b"b"]), of([b"b", b"a"]));
        assert_ne!(of([b"a", b"b"]), of([b"a", b"b\0"]));
    }
}

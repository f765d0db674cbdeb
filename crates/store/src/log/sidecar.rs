//! The sidecar of a log: up to where it is durable, and a chained hash of what is there.
//!
//! The original's log cannot tell a crash from damage, because a length of 0 means its end. This file
//! beside it can: what it says was durable must be there. It holds two slots of the same form, each in
//! a sector of its own and written in turn, so that a torn write leaves the other. Its page is
//! `docs/formats/sidecar.md`.

use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use zebu_jute::Encoder;
use zebu_proto::Zxid;

use crate::names;
use crate::vfs::{Vfs, VfsFile, replace};

const MAGIC: [u8; 4] = *b"ZBDU";
const VERSION: i32 = 1;
/// Bytes of a slot; the last four are the CRC-32 of the others.
const SLOT_BYTES: usize = 68;
/// Distance of the slots: each in its own sector, whatever the disk's sectors are up to 4 KiB.
const SLOT_STRIDE: u64 = 4096;
const SLOTS: u64 = 2;

const _: () = assert!(SLOT_BYTES == 4 + 4 + 6 * 8 + 4 + 4 + 4, "as docs/formats/sidecar.md says");
const _: () = assert!(SLOT_BYTES <= 512, "a slot lies in one sector, whatever its size");
const _: () = assert!(SLOT_BYTES as u64 <= SLOT_STRIDE, "slots do not overlap");

/// How far a log is durable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mark {
    /// Zxid in the log's name.
    pub first: Zxid,
    /// Last transaction before this log; 0 when the log is the first of all.
    pub previous: Zxid,
    /// Behind the last durable record.
    pub end: u64,
    /// The zxid of that record, or `previous` when there is none.
    pub last: Zxid,
    /// How many records there are up to `end`.
    pub records: u64,
    /// Hash of those records, see [`chain`].
    pub chain: u64,
    /// Whether the log ends there for good.
    pub sealed: bool,
}

/// Adds a record to a chained hash, which starts at the zxid in the log's name.
///
/// Every step is a bijection of the hash so far, so nothing that went in is lost.
pub fn chain(hash: u64, body: &[u8]) -> u64 {
    let record = u64::from(crc32fast::hash(body)) | (body.len() as u64) << 32;
    let mixed = hash ^ record;
    let mixed = (mixed ^ mixed >> 32).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    mixed ^ mixed >> 29
}

impl Mark {
    /// The mark of a log that has no record yet.
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

    /// Counts one more record.
    pub fn advance(&mut self, zxid: Zxid, body: &[u8]) {
        self.end += (body.len() + super::OVERHEAD_BYTES) as u64;
        self.last = zxid;
        self.records += 1;
        self.chain = chain(self.chain, body);
    }

    /// Whether the same records end at the same place.
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
        // Room for what a later version adds.
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

    /// The furthest mark in a sidecar's bytes; `None` when it has none that can be read.
    pub fn read(bytes: &[u8]) -> Option<Self> {
        (0..SLOTS)
            .filter_map(|slot| {
                let at = usize::try_from(slot * SLOT_STRIDE).ok()?;
                Self::decode(bytes.get(at..at + SLOT_BYTES)?)
            })
            .max_by_key(|mark| (mark.end, mark.sealed))
    }

    /// A whole sidecar with this mark in both slots.
    pub fn file(&self) -> Vec<u8> {
        let mut bytes = vec![0; (SLOT_STRIDE * (SLOTS - 1)) as usize + SLOT_BYTES];
        for slot in 0..SLOTS {
            let at = (slot * SLOT_STRIDE) as usize;
            bytes[at..at + SLOT_BYTES].copy_from_slice(&self.encode());
        }
        bytes
    }
}

/// Reads the sidecar at `path`; `None` inside when it holds nothing readable, or vouches for no record.
///
/// Earlier versions wrote such a sidecar before its log. Where its log has records, the original may have
/// written them since, in a file of the same name.
///
/// # Errors
/// What the system reports.
pub fn read(vfs: &dyn Vfs, path: &Path) -> io::Result<Option<Mark>> {
    let file = vfs.open(path)?;
    let mut bytes = vec![0; (SLOT_STRIDE * SLOTS) as usize];
    let mut length = 0;
    while length < bytes.len() {
        match file.read_at(&mut bytes[length..], length as u64)? {
            0 => break,
            read => length += read,
        }
    }
    Ok(Mark::read(&bytes[..length]).filter(|mark| mark.records > 0))
}

/// Puts a sidecar with `mark` beside its log, durably and at once.
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
    /// Whether something is written and not synced.
    dirty: bool,
    synced_at: Duration,
}

impl Sidecar {
    /// Creates the sidecar of a log whose first records are durable, and whose name is.
    ///
    /// Until then the log is taken for one of the original's, which a log of whole records can be.
    pub(crate) fn create(vfs: &dyn Vfs, dir: &Path, mark: &Mark) -> io::Result<Self> {
        let path = put(vfs, dir, mark)?;
        let file = vfs.open_rw(&path)?;
        Ok(Self { path, file, turn: 0, dirty: false, synced_at: vfs.now() })
    }

    /// Notes what is durable. Never called before it is.
    pub(crate) fn note(&mut self, mark: &Mark) -> io::Result<()> {
        self.file.write_at(&mark.encode(), self.turn * SLOT_STRIDE)?;
        self.turn = (self.turn + 1) % SLOTS;
        assert!(self.turn < SLOTS, "there is no slot {}", self.turn);
        self.dirty = true;
        Ok(())
    }

    /// Makes the mark itself durable, in both slots.
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

    /// Whether a mark waits to become durable, and for how long that has been possible.
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
    fn the_chain_knows_order_and_content() {
        let of = |bodies: [&[u8]; 2]| bodies.iter().fold(1, |hash, body| chain(hash, body));
        assert_ne!(of([b"a", b"b"]), of([b"b", b"a"]));
        assert_ne!(of([b"a", b"b"]), of([b"a", b"b\0"]));
    }
}

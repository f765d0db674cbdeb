//! One way to append records to a file, durably.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::Path;

use rustix::fs::{FallocateFlags, OFlags, fallocate};

/// What the file is before the first record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Before {
    /// Empty; each record makes it longer.
    Empty,
    /// It has its length, but no blocks.
    Holes,
    /// It has its length, and its blocks are allocated, but were never written.
    Allocated,
    /// All its blocks were written with zeros.
    Zeros,
    /// As [`Before::Holes`], but as in the log of the server, a record that reaches beyond
    /// the zeros written so far is followed by [`AHEAD_BYTES`] of them.
    ZerosAhead,
}

/// What makes a record durable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Sync {
    /// `fdatasync` after the write.
    After,
    /// The write itself: `O_DSYNC`.
    Dsync,
    /// The write itself, past the page cache: `O_DIRECT` and `O_DSYNC`. It writes whole blocks, the
    /// last one again with each record that begins in it.
    Direct,
}

/// A way to append records.
#[derive(Clone, Copy, Debug)]
pub(super) struct Way {
    pub(super) name: &'static str,
    before: Before,
    sync: Sync,
}

const fn way(name: &'static str, before: Before, sync: Sync) -> Way {
    Way { name, before, sync }
}

/// All ways. The others are compared with the first.
pub(super) const WAYS: [Way; 9] = [
    way("append, fdatasync", Before::Empty, Sync::After),
    way("holes, fdatasync", Before::Holes, Sync::After),
    way("allocated, fdatasync", Before::Allocated, Sync::After),
    way("filled with zeros, fdatasync", Before::Zeros, Sync::After),
    way("zeros 256 KiB ahead, fdatasync", Before::ZerosAhead, Sync::After),
    way("append, O_DSYNC", Before::Empty, Sync::Dsync),
    way("allocated, O_DSYNC", Before::Allocated, Sync::Dsync),
    way("filled with zeros, O_DSYNC", Before::Zeros, Sync::Dsync),
    way("filled with zeros, O_DIRECT and O_DSYNC", Before::Zeros, Sync::Direct),
];

/// Zeros written at a time, ahead of the records.
const AHEAD_BYTES: u64 = 256 << 10;
/// The unit of direct writes, and the alignment of their memory: a multiple of every disk's sector.
const BLOCK_BYTES: usize = 4096;
/// Zeros are written in pieces of this size.
const PIECE_BYTES: u64 = 1 << 20;

impl Way {
    /// Makes a file for `bytes` bytes of records, in the state that the way needs, and durable.
    pub(super) fn prepare(&self, path: &Path, bytes: u64) -> io::Result<Appended> {
        let bytes = bytes.next_multiple_of(BLOCK_BYTES as u64);
        let file = File::create_new(path)?;
        match self.before {
            Before::Empty => {}
            Before::Allocated => fallocate(&file, FallocateFlags::empty(), 0, bytes)?,
            Before::Zeros => write_zeros(&file, 0, bytes)?,
            Before::Holes | Before::ZerosAhead => file.set_len(bytes)?,
        }
        file.sync_all()?;
        drop(file);
        let mut options = OpenOptions::new();
        options.write(true);
        match self.sync {
            Sync::After => &mut options,
            Sync::Dsync => options.custom_flags(OFlags::DSYNC.bits().cast_signed()),
            Sync::Direct => options.custom_flags(direct()?),
        };
        let file = options.open(path)?;
        let direct = (self.sync == Sync::Direct).then(Tail::default);
        Ok(Appended { file, way: *self, at: 0, bytes, zeroed: 0, direct })
    }
}

/// The flags of [`Sync::Direct`].
#[cfg(target_os = "linux")]
fn direct() -> io::Result<i32> {
    Ok((OFlags::DSYNC | OFlags::DIRECT).bits().cast_signed())
}

#[cfg(not(target_os = "linux"))]
fn direct() -> io::Result<i32> {
    Err(io::ErrorKind::Unsupported.into())
}

/// Whether the system refuses what a way needs, and so does not have it.
pub(super) fn is_missing(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::InvalidInput | io::ErrorKind::Unsupported)
}

fn write_zeros(file: &File, from: u64, to: u64) -> io::Result<()> {
    let zeros = vec![0; PIECE_BYTES.min(to - from) as usize];
    let mut at = from;
    while at < to {
        let piece = (to - at).min(PIECE_BYTES);
        file.write_all_at(&zeros[..piece as usize], at)?;
        at += piece;
    }
    Ok(())
}

/// A file to which records are appended.
#[derive(Debug)]
pub(super) struct Appended {
    file: File,
    way: Way,
    /// The end of the last record.
    at: u64,
    /// The length that the file has, or reaches.
    bytes: u64,
    /// Where the zeros written ahead end.
    zeroed: u64,
    direct: Option<Tail>,
}

impl Appended {
    /// Appends a record, which is durable afterwards.
    pub(super) fn append(&mut self, record: &[u8]) -> io::Result<()> {
        let end = self.at + record.len() as u64;
        assert!(end <= self.bytes, "the file has room for all records");
        match &mut self.direct {
            Some(tail) => tail.append(&self.file, record, self.at)?,
            None => self.file.write_all_at(record, self.at)?,
        }
        if self.way.before == Before::ZerosAhead && self.zeroed < end {
            self.zeroed = self.bytes.min(end + AHEAD_BYTES);
            write_zeros(&self.file, end, self.zeroed)?;
        }
        self.at = end;
        match self.way.sync {
            Sync::After => self.file.sync_data(),
            Sync::Dsync | Sync::Direct => Ok(()),
        }
    }
}

/// The last block of a file that is written in whole blocks.
#[derive(Debug, Default)]
struct Tail {
    /// The block, as far as it has records, and room for the next record. The first bytes are
    /// skipped, so that the rest is aligned.
    memory: Vec<u8>,
}

impl Tail {
    fn append(&mut self, file: &File, record: &[u8], at: u64) -> io::Result<()> {
        let inside = (at % BLOCK_BYTES as u64) as usize;
        let end = inside + record.len();
        let whole = end.next_multiple_of(BLOCK_BYTES);
        let blocks = self.aligned(whole);
        blocks[inside..end].copy_from_slice(record);
        blocks[end..whole].fill(0);
        file.write_all_at(&blocks[..whole], at - inside as u64)?;
        let last = end / BLOCK_BYTES * BLOCK_BYTES;
        blocks.copy_within(last..whole, 0);
        Ok(())
    }

    /// Aligned memory of at least `bytes` bytes, which begins with the last block.
    fn aligned(&mut self, bytes: usize) -> &mut [u8] {
        if self.memory.len() < bytes + BLOCK_BYTES {
            let block = match self.memory.is_empty() {
                true => [0; BLOCK_BYTES],
                false => *self.memory[skipped(&self.memory)..].first_chunk().expect("one block"),
            };
            self.memory = vec![0; bytes + BLOCK_BYTES];
            let skipped = skipped(&self.memory);
            self.memory[skipped..skipped + BLOCK_BYTES].copy_from_slice(&block);
        }
        let skipped = skipped(&self.memory);
        &mut self.memory[skipped..]
    }
}

/// Bytes before the first aligned one.
fn skipped(memory: &[u8]) -> usize {
    let address = memory.as_ptr().addr();
    address.next_multiple_of(BLOCK_BYTES) - address
}

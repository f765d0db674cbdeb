//! A log file that reserves space ahead of its records.

use std::io;

use super::{HEADER_BYTES, header, padded_size};
use crate::Options;
use crate::vfs::VfsFile;

/// The first step of adaptive preallocation.
const ADAPTIVE_STEP_BYTES_MIN: u64 = 64 * 1024;
/// Bytes of zeros written ahead for small batches. A sync that must allocate new blocks takes up to
/// twice as long as one that writes to allocated blocks.
const ZEROED_AHEAD_BYTES: u64 = 256 * 1024;
const _: () = assert!(ZEROED_AHEAD_BATCH_MAX < ZEROED_AHEAD_BYTES, "batches fit into the zeros");
static ZEROS: [u8; ZEROED_AHEAD_BYTES as usize] = [0; ZEROED_AHEAD_BYTES as usize];
/// The largest batch for which zeros ahead are worth writing everything twice.
const ZEROED_AHEAD_BATCH_MAX: u64 = ZEROED_AHEAD_BYTES / 8;

/// An open log file. Only zeros follow the last record.
#[derive(Debug)]
pub(super) struct Growing {
    file: Box<dyn VfsFile>,
    /// The end of the last record.
    written: u64,
    /// Length of the file.
    size: u64,
    /// Blocks up to this position are allocated, and contain zeros after the last record.
    zeroed: u64,
}

impl Growing {
    /// Writes the header and the first records into an empty file.
    pub(super) fn create(
        file: Box<dyn VfsFile>,
        options: &Options,
        records: &[u8],
    ) -> io::Result<Self> {
        let mut this = Self { file, written: 0, size: 0, zeroed: 0 };
        this.write(options, &[&header()[..], records].concat())?;
        Ok(this)
    }

    /// The end of the last record.
    pub(super) fn written(&self) -> u64 {
        self.written
    }

    /// Appends records, then reserves space for more.
    ///
    /// The file only grows after the write: if the disk is full, it ends with a partial record,
    /// never with zeros instead of a header.
    pub(super) fn write(&mut self, options: &Options, bytes: &[u8]) -> io::Result<()> {
        let start = self.written.max(HEADER_BYTES as u64);
        let end = self.written + bytes.len() as u64;
        self.file.write_at(bytes, self.written)?;
        self.written = end;
        let size = self.size_for(options, start, end - start);
        if size > self.size.max(end) {
            self.file.set_len(size)?;
        }
        self.size = size.max(end);
        let worth_it = options.force_sync && end - start <= ZEROED_AHEAD_BATCH_MAX;
        let ahead = self.size.min(end + ZEROED_AHEAD_BYTES);
        if self.zeroed < end && end < ahead && worth_it {
            self.file.write_at(&ZEROS[..(ahead - end) as usize], end)?;
            self.zeroed = ahead;
        }
        self.check();
        Ok(())
    }

    /// Asserts what holds between any two calls, where the first has written a header.
    fn check(&self) {
        assert!(HEADER_BYTES as u64 <= self.written);
        assert!(self.written <= self.size, "records behind the end: {self:?}");
        assert!(self.zeroed <= self.size, "zeros behind the end: {self:?}");
    }

    /// Makes the content durable.
    pub(super) fn sync(&mut self) -> io::Result<()> {
        self.file.sync()
    }

    /// The file size that leaves room for a batch of `bytes` at `start`.
    fn size_for(&self, options: &Options, start: u64, bytes: u64) -> u64 {
        let step = |size: u64| {
            let adaptive = size.next_power_of_two().max(ADAPTIVE_STEP_BYTES_MIN);
            let most = options.prealloc_bytes;
            if options.prealloc_adaptive { adaptive.min(most) } else { most }
        };
        let size = self.size.max(HEADER_BYTES as u64);
        let mut size = padded_size(start, size, step(size));
        // The original extends the file once for each record; here, once for each batch.
        if step(size) > 0 && size < start + bytes {
            size = padded_size(start + bytes, size, step(size));
        }
        size
    }
}

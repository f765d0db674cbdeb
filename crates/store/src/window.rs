//! Reads a stream in large blocks and gives access to records in place.
//!
//! **Invariant:** the buffer grows with the bytes received, never with an announced length. Checked
//! by `a_promised_length_costs_no_memory`.

use std::io::{self, Read};

use simd_adler32::Adler32;

/// Bytes read at once.
const BLOCK_BYTES: usize = 256 * 1024;

/// A buffered stream.
pub(crate) struct Window<R> {
    source: R,
    buffer: Vec<u8>,
    /// Unconsumed bytes are `buffer[start..end]`.
    start: usize,
    end: usize,
    /// Consumed bytes from here on are not in the checksum yet. `hashed <= start`.
    hashed: usize,
    adler: Option<Adler32>,
    /// Offset in the stream of `buffer[0]`.
    base: u64,
    finished: bool,
}

impl<R: Read> Window<R> {
    pub(crate) fn new(source: R) -> Self {
        Self {
            source,
            buffer: Vec::new(),
            start: 0,
            end: 0,
            hashed: 0,
            adler: None,
            base: 0,
            finished: false,
        }
    }

    /// Also computes the Adler-32 of the consumed bytes.
    pub(crate) fn checksummed(source: R) -> Self {
        Self { adler: Some(Adler32::new()), ..Self::new(source) }
    }

    /// Offset of the next byte in the stream.
    pub(crate) fn position(&self) -> u64 {
        self.base + self.start as u64
    }

    /// The next `bytes` bytes, or fewer at the end of the stream.
    #[inline]
    pub(crate) fn peek(&mut self, bytes: usize) -> io::Result<&[u8]> {
        if self.end - self.start < bytes {
            self.fill(bytes)?;
        }
        let end = self.end.min(self.start.saturating_add(bytes));
        Ok(&self.buffer[self.start..end])
    }

    /// The bytes in the buffer.
    pub(crate) fn buffered(&self) -> &[u8] {
        &self.buffer[self.start..self.end]
    }

    /// Consumes `bytes`, which must have been peeked.
    #[inline]
    pub(crate) fn consume(&mut self, bytes: usize) {
        assert!(bytes <= self.end - self.start, "consumed what was never seen");
        self.start += bytes;
    }

    /// The Adler-32 of everything consumed so far.
    pub(crate) fn checksum(&mut self) -> u32 {
        self.hash();
        self.adler.as_ref().map_or(0, Adler32::finish)
    }

    /// Asserts the order of the positions in the buffer.
    fn check(&self) {
        assert!(self.hashed <= self.start);
        assert!(self.start <= self.end);
        assert!(self.end <= self.buffer.len());
    }

    fn hash(&mut self) {
        if let Some(adler) = &mut self.adler {
            adler.write(&self.buffer[self.hashed..self.start]);
        }
        self.hashed = self.start;
    }

    fn fill(&mut self, bytes: usize) -> io::Result<()> {
        self.check();
        if self.finished {
            return Ok(());
        }
        self.hash();
        self.buffer.copy_within(self.start..self.end, 0);
        self.base += self.start as u64;
        self.end -= self.start;
        self.start = 0;
        self.hashed = 0;
        while self.end < bytes && !self.finished {
            if self.buffer.len() - self.end < BLOCK_BYTES {
                // At most twice the bytes received, whatever `bytes` is.
                self.buffer.resize(self.end * 2 + BLOCK_BYTES, 0);
            }
            assert!(self.end < self.buffer.len(), "there is room to read into");
            match self.source.read(&mut self.buffer[self.end..]) {
                Ok(0) => self.finished = true,
                Ok(read) => self.end += read,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }
}

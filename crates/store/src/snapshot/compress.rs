//! Streaming compression and decompression of snapshots.
//!
//! A block's decompressed length is limited to [`BLOCK_BYTES_MAX`], so that a small file cannot
//! claim much memory.

use std::io::{self, BufRead as _, Read, Write};

use flate2::read::MultiGzDecoder;
use flate2::write::GzEncoder;

use crate::Compression;
use crate::vfs::Appending;

pub(super) const GZIP_MAGIC: [u8; 2] = [0x1f, 0x8b];
pub(super) const SNAPPY_MAGIC: [u8; 8] = *b"\x82SNAPPY\0";

/// The rest of a snappy stream's header: version 1, readable by version 1.
const SNAPPY_VERSION: [u8; 8] = [0, 0, 0, 1, 0, 0, 0, 1];
/// Decompressed size of the snappy blocks that are written, as in the original.
const BLOCK_BYTES: usize = 32 * 1024;
/// Maximum decompressed size of a block that is read.
const BLOCK_BYTES_MAX: usize = 4 * 1024 * 1024;
const _: () = assert!(BLOCK_BYTES <= BLOCK_BYTES_MAX, "what is written can be read");

/// Bytes of a compressed file read or written at once.
const FILE_BLOCK_BYTES: usize = 256 * 1024;

/// The uncompressed content of a stream.
pub fn decompressed<'a>(source: impl Read + 'a, compression: Compression) -> Box<dyn Read + 'a> {
    let buffered = |source| io::BufReader::with_capacity(FILE_BLOCK_BYTES, source);
    match compression {
        Compression::None => Box::new(source),
        Compression::Gzip => Box::new(MultiGzDecoder::new(buffered(source))),
        Compression::Snappy => Box::new(SnappyReader::new(buffered(source))),
    }
}

/// The uncompressed content of a stream whose first bytes show how it is compressed.
///
/// # Errors
/// The first bytes cannot be read.
pub fn uncompressed<'a>(source: impl Read + 'a) -> io::Result<Box<dyn Read + 'a>> {
    let mut source = io::BufReader::with_capacity(FILE_BLOCK_BYTES, source);
    let first = source.fill_buf()?;
    let compression = if first.starts_with(&GZIP_MAGIC) {
        Compression::Gzip
    } else if first.first() == SNAPPY_MAGIC.first() {
        Compression::Snappy
    } else {
        Compression::None
    };
    Ok(decompressed(source, compression))
}

/// Reads xerial's framing: a header, then blocks with a compressed-length prefix.
struct SnappyReader<R> {
    source: R,
    started: bool,
    compressed: Vec<u8>,
    block: Vec<u8>,
    /// The number of bytes of `block` that were returned.
    at: usize,
}

impl<R: Read> SnappyReader<R> {
    fn new(source: R) -> Self {
        Self { source, started: false, compressed: Vec::new(), block: Vec::new(), at: 0 }
    }

    /// Reads and decompresses the next block; an empty one at the end.
    fn next_block(&mut self) -> io::Result<()> {
        self.block.clear();
        self.at = 0;
        if !self.started {
            let mut header = [0; 16];
            self.source.read_exact(&mut header)?;
            let (magic, version) = header.split_at(8);
            if magic != SNAPPY_MAGIC || version[..4] != SNAPPY_VERSION[..4] {
                return Err(malformed("not a snappy stream of version 1"));
            }
            self.started = true;
        }
        let mut length = Vec::with_capacity(4);
        self.source.by_ref().take(4).read_to_end(&mut length)?;
        if length.is_empty() {
            return Ok(());
        }
        let length = length.try_into().map_err(|_| malformed("snappy block cut off"))?;
        let length = usize::try_from(i32::from_be_bytes(length))
            .ok()
            .filter(|length| *length <= snap::raw::max_compress_len(BLOCK_BYTES_MAX))
            .ok_or_else(|| malformed("unreasonable snappy block length"))?;
        self.compressed.clear();
        self.source.by_ref().take(length as u64).read_to_end(&mut self.compressed)?;
        if self.compressed.len() != length {
            return Err(malformed("snappy block cut off"));
        }
        let bytes = snap::raw::decompress_len(&self.compressed).map_err(malformed)?;
        if bytes > BLOCK_BYTES_MAX {
            return Err(malformed("unreasonable snappy block length"));
        }
        self.block.resize(bytes, 0);
        let decompressed = snap::raw::Decoder::new().decompress(&self.compressed, &mut self.block);
        decompressed.map_err(malformed)?;
        if self.block.is_empty() {
            return Err(malformed("empty snappy block"));
        }
        Ok(())
    }
}

fn malformed(what: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, what)
}

impl<R: Read> Read for SnappyReader<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.at == self.block.len() {
            self.next_block()?;
        }
        let bytes = buffer.len().min(self.block.len() - self.at);
        buffer[..bytes].copy_from_slice(&self.block[self.at..self.at + bytes]);
        self.at += bytes;
        assert!(self.at <= self.block.len(), "handed out behind the end");
        Ok(bytes)
    }
}

/// Compresses into a file.
pub(super) enum Compressor {
    None(Appending),
    Gzip(Box<GzEncoder<io::BufWriter<Appending>>>),
    Snappy(Box<SnappyWriter>),
}

impl Compressor {
    pub(super) fn new(file: Appending, compression: Compression) -> Self {
        let buffered = |file| io::BufWriter::with_capacity(FILE_BLOCK_BYTES, file);
        match compression {
            Compression::None => Self::None(file),
            Compression::Gzip => {
                let level = flate2::Compression::default();
                Self::Gzip(Box::new(GzEncoder::new(buffered(file), level)))
            }
            Compression::Snappy => Self::Snappy(Box::new(SnappyWriter {
                sink: buffered(file),
                started: false,
                block: Vec::with_capacity(BLOCK_BYTES),
                encoder: snap::raw::Encoder::new(),
                compressed: vec![0; snap::raw::max_compress_len(BLOCK_BYTES)],
            })),
        }
    }

    pub(super) fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        match self {
            Self::None(file) => file.write_all(bytes),
            Self::Gzip(encoder) => encoder.write_all(bytes),
            Self::Snappy(writer) => writer.write(bytes),
        }
    }

    /// Flushes, and returns the file.
    pub(super) fn finish(self) -> io::Result<Appending> {
        let buffered = match self {
            Self::None(file) => return Ok(file),
            Self::Gzip(encoder) => encoder.finish()?,
            Self::Snappy(mut writer) => {
                writer.write_block()?;
                writer.sink
            }
        };
        buffered.into_inner().map_err(io::IntoInnerError::into_error)
    }
}

pub(super) struct SnappyWriter {
    sink: io::BufWriter<Appending>,
    started: bool,
    block: Vec<u8>,
    encoder: snap::raw::Encoder,
    compressed: Vec<u8>,
}

impl SnappyWriter {
    fn write(&mut self, mut bytes: &[u8]) -> io::Result<()> {
        while !bytes.is_empty() {
            let (fits, rest) = bytes.split_at(bytes.len().min(BLOCK_BYTES - self.block.len()));
            self.block.extend_from_slice(fits);
            bytes = rest;
            if self.block.len() == BLOCK_BYTES {
                self.write_block()?;
            }
        }
        Ok(())
    }

    fn write_block(&mut self) -> io::Result<()> {
        if !self.started {
            self.sink.write_all(&SNAPPY_MAGIC)?;
            self.sink.write_all(&SNAPPY_VERSION)?;
            self.started = true;
        }
        if self.block.is_empty() {
            return Ok(());
        }
        let length = self.encoder.compress(&self.block, &mut self.compressed).map_err(malformed)?;
        self.sink.write_all(&(length as u32).to_be_bytes())?;
        assert!(length <= self.compressed.len(), "{length} bytes of a block");
        self.sink.write_all(&self.compressed[..length])?;
        self.block.clear();
        Ok(())
    }
}

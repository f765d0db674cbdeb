//! Reads the records of a log in order, valid and invalid ones.
//!
//! A server must stop at damage. This reader continues as long as the bytes have the shape of a
//! record, because an operator who inspects a damaged log wants to see the rest of it.

use std::io::{self, Read, Write};

use simd_adler32::adler32;
use zebu_store::log::{HEADER_BYTES, TERMINATOR};

/// A log's first bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Header {
    pub(super) bytes: [u8; HEADER_BYTES],
}

impl Header {
    pub(super) fn magic(self) -> [u8; 4] {
        self.bytes[..4].try_into().expect("four bytes")
    }

    fn version(self) -> i32 {
        i32::from_be_bytes(self.bytes[4..8].try_into().expect("four bytes"))
    }

    fn database(self) -> i64 {
        i64::from_be_bytes(self.bytes[8..].try_into().expect("eight bytes"))
    }

    /// The text before the first record.
    pub(super) fn title(self) -> String {
        format!(
            "ZooKeeper Transactional Log File with dbid {} txnlog format version {}",
            self.database(),
            self.version()
        )
    }
}

/// The bytes of a record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Record {
    /// The stored checksum.
    pub(super) sum: u64,
    /// Header, transaction and digest.
    pub(super) body: Vec<u8>,
    /// The byte at the position of the end mark; `None` after the end of the file.
    pub(super) terminator: Option<u8>,
}

impl Record {
    /// The correct checksum.
    pub(super) fn sum_of_body(&self) -> u64 {
        u64::from(adler32(&self.body.as_slice()))
    }

    /// Writes the record unchanged, but with the end mark of a whole record.
    pub(super) fn write(&self, to: &mut impl Write) -> io::Result<()> {
        let length = i32::try_from(self.body.len()).expect("a length that was read as one");
        to.write_all(&self.sum.to_be_bytes())?;
        to.write_all(&length.to_be_bytes())?;
        to.write_all(&self.body)?;
        to.write_all(&[TERMINATOR])
    }
}

/// Reads a log sequentially.
pub(super) struct Records<R> {
    source: R,
}

impl<R: Read> Records<R> {
    pub(super) fn new(source: R) -> Self {
        Self { source }
    }

    /// The header. It must be read first, and only once.
    pub(super) fn header(&mut self) -> io::Result<Header> {
        let mut bytes = [0; HEADER_BYTES];
        self.source.read_exact(&mut bytes)?;
        Ok(Header { bytes })
    }

    /// The next record; `None` where the file ends, also in the middle of one, or padding begins.
    ///
    /// # Errors
    /// The file cannot be read, or the length of a record is negative.
    pub(super) fn next(&mut self) -> io::Result<Option<Record>> {
        let Some(sum) = self.bytes::<8>()? else { return Ok(None) };
        let Some(length) = self.bytes::<4>()? else { return Ok(None) };
        let length = i32::from_be_bytes(length);
        if length == 0 {
            return Ok(None);
        }
        let length = u64::try_from(length).map_err(|_| {
            io::Error::new(io::ErrorKind::InvalidData, format!("unreasonable length {length}"))
        })?;
        // Memory is allocated for the bytes that exist, not for the announced length.
        let mut body = Vec::new();
        if self.source.by_ref().take(length).read_to_end(&mut body)? as u64 != length {
            return Ok(None);
        }
        let terminator = self.bytes::<1>()?.map(|[byte]| byte);
        Ok(Some(Record { sum: u64::from_be_bytes(sum), body, terminator }))
    }

    /// The requested number of bytes; `None` if there are fewer.
    fn bytes<const N: usize>(&mut self) -> io::Result<Option<[u8; N]>> {
        let mut bytes = [0; N];
        match self.source.read_exact(&mut bytes) {
            Ok(()) => Ok(Some(bytes)),
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Ok(None),
            Err(error) => Err(error),
        }
    }
}

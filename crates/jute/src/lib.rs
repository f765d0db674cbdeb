//! The jute codec: big-endian records, read in place and written into a growing buffer.
//!
//! Owns the encoding of numbers, buffers, strings, vectors and records, and the limits that keep a
//! hostile length from costing memory. Knows nothing of ZooKeeper: records live in `zebu-proto`.
//!
//! **Invariant:** nothing is allocated from a length that has not been checked against the bytes
//! that are really there.

mod fields;
mod read;
mod write;

pub use read::{DecodeError, Decoder, Vector};
pub use write::Encoder;

/// A record that can be written.
pub trait Encode {
    /// Appends the record's bytes.
    fn encode(&self, out: &mut Encoder<'_>);

    /// The record's bytes, in a buffer of their own.
    fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = Vec::new();
        self.encode(&mut Encoder::new(&mut bytes));
        bytes
    }
}

/// A field or a record that always has the same number of bytes. Such records are written and read at once.
pub trait Fixed: Sized {
    /// How many.
    const BYTES: usize;

    /// Writes it into these bytes, of which there are so many.
    fn put(&self, to: &mut [u8]);

    /// Reads it from these bytes, of which there are so many.
    fn get(from: &[u8]) -> Self;
}

/// A record that can be read, borrowing from the bytes it came in.
pub trait Decode<'a>: Sized {
    /// Reads one record and leaves the decoder behind its last byte.
    ///
    /// # Errors
    /// [`DecodeError`] when the bytes end early or a length is impossible.
    fn decode(from: &mut Decoder<'a>) -> Result<Self, DecodeError>;

    /// Reads one record from the start of `bytes`; what follows it is ignored, as the original does.
    ///
    /// # Errors
    /// As [`Decode::decode`].
    fn from_bytes(bytes: &'a [u8]) -> Result<Self, DecodeError> {
        Self::decode(&mut Decoder::new(bytes))
    }
}

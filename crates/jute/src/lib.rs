//! The jute codec: big-endian records, decoded in place and encoded into a growing buffer.
//!
//! Owns the encoding of numbers, buffers, strings, vectors and records, and the limits that keep a
//! hostile length from costing memory. Knows nothing of ZooKeeper: records are defined in
//! `zebu-proto`.
//!
//! **Invariant:** no allocation depends on a length that was not checked against the bytes actually
//! present. Checked by `a_promise_of_more_than_is_there_is_refused_before_allocation`.

mod fields;
mod read;
mod write;

pub use read::{DecodeError, Decoder, Vector};
pub use write::Encoder;

/// A record that can be encoded.
pub trait Encode {
    /// Appends the record's encoding.
    fn encode(&self, out: &mut Encoder<'_>);

    /// The record's encoding, in a new buffer.
    fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = Vec::new();
        self.encode(&mut Encoder::new(&mut bytes));
        bytes
    }
}

/// A field or record with a fixed size. Records of such fields are encoded and decoded as one
/// block.
pub trait Fixed: Sized {
    /// The size in bytes.
    const BYTES: usize;

    /// Encodes `self` into `to`, which is exactly `BYTES` long.
    fn put(&self, to: &mut [u8]);

    /// Decodes a value from `from`, which is exactly `BYTES` long.
    fn get(from: &[u8]) -> Self;
}

/// A record that can be decoded; it borrows from its bytes.
pub trait Decode<'a>: Sized {
    /// Decodes one record, and leaves the decoder after its last byte.
    ///
    /// # Errors
    /// [`DecodeError`] if the bytes end early or a length is impossible.
    fn decode(from: &mut Decoder<'a>) -> Result<Self, DecodeError>;

    /// Decodes one record at the start of `bytes`. Trailing bytes are ignored, as in the original.
    ///
    /// # Errors
    /// As for [`Decode::decode`].
    fn from_bytes(bytes: &'a [u8]) -> Result<Self, DecodeError> {
        Self::decode(&mut Decoder::new(bytes))
    }
}

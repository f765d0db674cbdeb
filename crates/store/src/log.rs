//! The transaction log: its format, its sidecar, and writing it.

mod growing;
pub mod read;
pub mod sidecar;
mod write;

pub use write::{Synced, TxnLog};

use simd_adler32::adler32;

/// Size of the file header.
pub const HEADER_BYTES: usize = 16;
/// The first bytes of a log: "ZKLG".
pub const MAGIC: [u8; 4] = *b"ZKLG";
/// The last byte of a record.
pub const TERMINATOR: u8 = b'B';
/// What a record adds to its body: checksum, length and terminator.
pub const OVERHEAD_BYTES: usize = PREFIX_BYTES + 1;

/// Checksum and length in front of a body.
const PREFIX_BYTES: usize = 12;
/// Minimum size of a body: session, cxid, zxid, time and type.
pub(crate) const BODY_BYTES_MIN: usize = zebu_proto::txn::TXN_HEADER_BYTES;

const _: () = assert!(HEADER_BYTES == 4 + 4 + 8, "magic, version and database");
const _: () = assert!(PREFIX_BYTES == 8 + 4, "checksum and length");
const _: () = assert!(OVERHEAD_BYTES == 13, "as docs/formats says");
const _: () = assert!(BODY_BYTES_MIN >= 20, "every body has its zxid, which ends there");

/// The first bytes of every log: magic, version 2, database 0.
pub fn header() -> [u8; HEADER_BYTES] {
    let mut header = [0; HEADER_BYTES];
    header[..4].copy_from_slice(&MAGIC);
    header[7] = 2;
    header
}

/// Appends a record.
///
/// # Panics
/// If the body has 2 GiB or more.
pub fn encode_record(body: &[u8], out: &mut Vec<u8>) {
    let length = u32::try_from(body.len()).ok().filter(|length| *length <= i32::MAX as u32);
    let length = length.expect("a transaction is bounded far below 2 GiB");
    out.reserve(body.len() + OVERHEAD_BYTES);
    out.extend_from_slice(&u64::from(adler32(&body)).to_be_bytes());
    out.extend_from_slice(&length.to_be_bytes());
    out.extend_from_slice(body);
    out.push(TERMINATOR);
}

/// The file size after making room for a record at `at`, in a file of `size` bytes.
///
/// Keeps 4 KiB of room before the record by adding whole steps of `step` bytes; with 0, the file
/// does not grow.
/// Source: `FilePadding.calculateFileSizeWithPadding`.
pub fn padded_size(at: u64, size: u64, step: u64) -> u64 {
    const ROOM_BYTES: u64 = 4096;
    let padded = if step == 0 || at + ROOM_BYTES < size {
        size
    } else if at > size {
        (at + step) / step * step
    } else {
        size + step
    };
    assert!(padded >= size, "a file of {size} bytes gets shorter: {padded}");
    padded
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_of_the_original() {
        // preAllocSize 8 KiB: the fixtures' logs have 8208 bytes, and 16400 after a second step.
        assert_eq!(padded_size(16, 16, 8192), 8208);
        assert_eq!(padded_size(4111, 8208, 8192), 8208);
        assert_eq!(padded_size(4112, 8208, 8192), 16400);
        // The default: 64 MiB and the header.
        assert_eq!(padded_size(16, 16, 65536 * 1024), 67_108_880);
        // One transaction beyond the end: whole steps, counted from 0.
        assert_eq!(padded_size(10_000, 8208, 8192), 16384);
        assert_eq!(padded_size(16, 16, 0), 16);
    }
}

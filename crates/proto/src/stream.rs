//! Reads records from a stream that arrives in pieces.
//!
//! **Invariant:** a length is checked against its limit as soon as its four bytes have arrived,
//! before waiting for that many bytes or allocating memory for them. Checked by
//! `data_as_large_as_the_limit_pass_and_larger_ones_do_not_wait_for_their_bytes` and
//! `lengths_beyond_the_limit_do_not_wait_for_their_bytes`.

use bytes::{Buf, Bytes, BytesMut};
use zebu_jute::{DecodeError, Decoder};

/// Fields up to this size are copied out of the receive buffer, so that a small packet does not
/// keep the whole buffer alive. Larger ones share the buffer.
const COPY_BYTES_MAX: usize = 16 * 1024;

/// Turns a premature end into `None`.
#[inline]
pub(crate) fn if_complete<T>(result: Result<T, DecodeError>) -> Result<Option<T>, DecodeError> {
    match result {
        Ok(value) => Ok(Some(value)),
        Err(DecodeError::Short { .. }) => Ok(None),
        Err(fault) => Err(fault),
    }
}

/// A buffer or string of at most `bytes_max` bytes; `None` for null.
#[inline]
pub(crate) fn limited<'a>(
    from: &mut Decoder<'a>,
    bytes_max: usize,
) -> Result<Option<&'a [u8]>, DecodeError> {
    let at = from.position();
    let length = from.clone().int()?;
    if usize::try_from(length).map_or(length != -1, |length| length > bytes_max) {
        return Err(DecodeError::Length { at, length });
    }
    from.buffer()
}

/// Removes the first `end` bytes of the buffer, and returns those from `start` on.
pub(crate) fn take(buffer: &mut BytesMut, start: usize, end: usize) -> Bytes {
    if end - start <= COPY_BYTES_MAX {
        let taken = Bytes::copy_from_slice(&buffer[start..end]);
        buffer.advance(end);
        return taken;
    }
    let mut taken = buffer.split_to(end).freeze();
    taken.advance(start);
    taken
}

//! Decoding: a cursor over bytes in memory.

use std::borrow::Cow;
use std::marker::PhantomData;

use crate::Decode;

/// Why bytes are not a valid record.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DecodeError {
    /// The bytes end inside a field.
    #[error("record ends early: {missing} more bytes needed at offset {at}")]
    Short {
        /// Offset of the field, from the start of the record's bytes.
        at: usize,
        /// Number of missing bytes.
        missing: usize,
    },
    /// A length or count that no record can have.
    #[error("unreasonable length {length} at offset {at}")]
    Length {
        /// Offset of the length field.
        at: usize,
        /// The length.
        length: i32,
    },
    /// A null where the record needs a value.
    #[error("null value at offset {at}")]
    Null {
        /// Offset of the field.
        at: usize,
    },
    /// A value outside the field's range.
    #[error("{what} has the impossible value {value}")]
    Value {
        /// The field.
        what: &'static str,
        /// The value.
        value: i64,
    },
}

/// A cursor over the bytes of a record.
///
/// Lengths are checked against the remaining bytes, so an excessive length costs nothing.
#[derive(Clone, Debug)]
pub struct Decoder<'a> {
    /// The remaining bytes.
    rest: &'a [u8],
    /// The total number of bytes.
    bytes: usize,
}

impl<'a> Decoder<'a> {
    /// A cursor at the start of `bytes`.
    #[inline]
    pub fn new(bytes: &'a [u8]) -> Self {
        Self { rest: bytes, bytes: bytes.len() }
    }

    /// Offset of the next byte.
    #[inline]
    pub fn position(&self) -> usize {
        self.bytes - self.rest.len()
    }

    /// Number of remaining bytes.
    #[inline]
    pub fn remaining(&self) -> usize {
        self.rest.len()
    }

    /// The remaining bytes.
    #[inline]
    pub fn rest(&self) -> &'a [u8] {
        self.rest
    }

    #[cold]
    fn short(&self, length: usize) -> DecodeError {
        DecodeError::Short { at: self.position(), missing: length - self.rest.len() }
    }

    #[inline]
    fn take(&mut self, length: usize) -> Result<&'a [u8], DecodeError> {
        let Some((taken, rest)) = self.rest.split_at_checked(length) else {
            return Err(self.short(length));
        };
        self.rest = rest;
        Ok(taken)
    }

    /// The next `N` bytes, if there are as many.
    #[inline]
    pub fn chunk<const N: usize>(&mut self) -> Option<&'a [u8; N]> {
        let (taken, rest) = self.rest.split_first_chunk()?;
        self.rest = rest;
        Some(taken)
    }

    /// Skips `length` bytes.
    ///
    /// # Errors
    /// [`DecodeError::Short`].
    #[inline]
    pub fn skip(&mut self, length: usize) -> Result<(), DecodeError> {
        self.take(length).map(drop)
    }

    #[inline]
    fn array<const N: usize>(&mut self) -> Result<[u8; N], DecodeError> {
        match self.chunk() {
            Some(taken) => Ok(*taken),
            None => Err(self.short(N)),
        }
    }

    /// One byte.
    ///
    /// # Errors
    /// [`DecodeError::Short`].
    #[inline]
    pub fn byte(&mut self) -> Result<u8, DecodeError> {
        Ok(self.array::<1>()?[0])
    }

    /// A boolean: one byte, any non-zero is true.
    ///
    /// # Errors
    /// [`DecodeError::Short`].
    #[inline]
    pub fn boolean(&mut self) -> Result<bool, DecodeError> {
        Ok(self.byte()? != 0)
    }

    /// A 32-bit integer.
    ///
    /// # Errors
    /// [`DecodeError::Short`].
    #[inline]
    pub fn int(&mut self) -> Result<i32, DecodeError> {
        self.array().map(i32::from_be_bytes)
    }

    /// A 64-bit integer.
    ///
    /// # Errors
    /// [`DecodeError::Short`].
    #[inline]
    pub fn long(&mut self) -> Result<i64, DecodeError> {
        self.array().map(i64::from_be_bytes)
    }

    /// A length-prefixed byte string; length −1 is null.
    ///
    /// # Errors
    /// [`DecodeError::Length`] below −1, [`DecodeError::Short`] if bytes are missing.
    #[inline]
    pub fn buffer(&mut self) -> Result<Option<&'a [u8]>, DecodeError> {
        let at = self.position();
        match self.int()? {
            -1 => Ok(None),
            length => {
                let length =
                    usize::try_from(length).map_err(|_| DecodeError::Length { at, length })?;
                self.take(length).map(Some)
            }
        }
    }

    /// A UTF-8 string; null is `None`. Malformed bytes become U+FFFD, as in the original.
    ///
    /// # Errors
    /// As for [`Decoder::buffer`].
    #[inline]
    pub fn ustring(&mut self) -> Result<Option<Cow<'a, str>>, DecodeError> {
        Ok(self.buffer()?.map(|bytes| match std::str::from_utf8(bytes) {
            Ok(text) => Cow::Borrowed(text),
            Err(_) => String::from_utf8_lossy(bytes),
        }))
    }

    /// A UTF-8 string that must not be null.
    ///
    /// # Errors
    /// As [`Decoder::buffer`], and [`DecodeError::Null`].
    #[inline]
    pub fn text(&mut self) -> Result<Cow<'a, str>, DecodeError> {
        let at = self.position();
        self.ustring()?.ok_or(DecodeError::Null { at })
    }

    /// A vector's elements; null is `None`.
    ///
    /// A count below −1 means empty, as in the original. Every element has at least one byte, so a
    /// count above the remaining bytes is refused at once.
    ///
    /// # Errors
    /// [`DecodeError::Length`] for a count that exceeds the remaining bytes.
    pub fn vector<T: Decode<'a>>(&mut self) -> Result<Option<Vec<T>>, DecodeError> {
        let at = self.position();
        let count = self.int()?;
        if count == -1 {
            return Ok(None);
        }
        let length = usize::try_from(count).unwrap_or(0);
        if length > self.remaining() {
            return Err(DecodeError::Length { at, length: count });
        }
        // Elements may be far larger in memory than on the wire, so the count is not reserved.
        let mut elements = Vec::with_capacity(length.min(16));
        for _ in 0..length {
            elements.push(T::decode(self)?);
        }
        Ok(Some(elements))
    }

    /// A vector that is iterated instead of collected.
    ///
    /// # Errors
    /// As for [`Decoder::vector`].
    pub fn elements<T: Decode<'a>>(&mut self) -> Result<Vector<'a, T>, DecodeError> {
        let at = self.position();
        let count = self.int()?;
        let left = usize::try_from(count).unwrap_or(0);
        if left > self.remaining() {
            return Err(DecodeError::Length { at, length: count });
        }
        Ok(Vector { from: self.clone(), left, element: PhantomData })
    }
}

/// The elements of a vector, decoded during iteration.
#[derive(Clone, Debug)]
pub struct Vector<'a, T> {
    from: Decoder<'a>,
    left: usize,
    element: PhantomData<T>,
}

impl<'a, T: Decode<'a>> Iterator for Vector<'a, T> {
    type Item = Result<T, DecodeError>;

    fn next(&mut self) -> Option<Self::Item> {
        self.left = self.left.checked_sub(1)?;
        let element = T::decode(&mut self.from);
        if element.is_err() {
            self.left = 0;
        }
        Some(element)
    }
}

impl<'a> Decode<'a> for String {
    fn decode(from: &mut Decoder<'a>) -> Result<Self, DecodeError> {
        from.text().map(Cow::into_owned)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_promise_of_more_than_is_there_is_refused_before_allocation() {
        let mut bytes = vec![0x7f, 0xff, 0xff, 0xff];
        bytes.extend([0; 8]);
        assert_eq!(
            Decoder::new(&bytes).vector::<String>(),
            Err(DecodeError::Length { at: 0, length: i32::MAX })
        );
        assert!(matches!(Decoder::new(&bytes).buffer(), Err(DecodeError::Short { .. })));
    }

    #[test]
    fn null_empty_and_negative_lengths() {
        assert_eq!(Decoder::new(&[0xff; 4]).buffer(), Ok(None));
        assert_eq!(Decoder::new(&[0; 4]).buffer(), Ok(Some(&[][..])));
        let below = [0xff, 0xff, 0xff, 0xfe];
        assert_eq!(Decoder::new(&below).buffer(), Err(DecodeError::Length { at: 0, length: -2 }));
        assert_eq!(Decoder::new(&below).vector::<String>(), Ok(Some(vec![])));
        assert_eq!(Decoder::new(&[0xff; 4]).vector::<String>(), Ok(None));
    }

    #[test]
    fn malformed_utf8_becomes_replacement_characters() {
        let bytes = [0, 0, 0, 2, b'a', 0xff];
        assert_eq!(Decoder::new(&bytes).text().unwrap(), "a\u{fffd}");
    }
}

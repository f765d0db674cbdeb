//! Encoding: appends fields to a growing buffer.

use crate::Encode;

/// Appends fields to a buffer.
#[derive(Debug)]
pub struct Encoder<'b> {
    bytes: &'b mut Vec<u8>,
}

impl<'b> Encoder<'b> {
    /// Appends to `bytes`, after its current content.
    #[inline]
    pub fn new(bytes: &'b mut Vec<u8>) -> Self {
        Self { bytes }
    }

    /// Reserves room for `bytes` more bytes.
    #[inline]
    pub fn reserve(&mut self, bytes: usize) {
        self.bytes.reserve(bytes);
    }

    /// One byte.
    #[inline]
    pub fn byte(&mut self, value: u8) {
        self.bytes.push(value);
    }

    /// A boolean, as 0 or 1.
    #[inline]
    pub fn boolean(&mut self, value: bool) {
        self.byte(value.into());
    }

    /// A 32-bit integer.
    #[inline]
    pub fn int(&mut self, value: i32) {
        self.bytes.extend_from_slice(&value.to_be_bytes());
    }

    /// A 64-bit integer.
    #[inline]
    pub fn long(&mut self, value: i64) {
        self.bytes.extend_from_slice(&value.to_be_bytes());
    }

    /// A length-prefixed byte string; `None` is length −1.
    #[inline]
    pub fn buffer(&mut self, value: Option<&[u8]>) {
        match value {
            None => self.int(-1),
            Some(bytes) => {
                self.count(bytes.len());
                self.bytes.extend_from_slice(bytes);
            }
        }
    }

    /// A UTF-8 string; `None` is length −1.
    #[inline]
    pub fn ustring(&mut self, value: Option<&str>) {
        self.buffer(value.map(str::as_bytes));
    }

    /// A UTF-8 string.
    #[inline]
    pub fn text(&mut self, value: &str) {
        self.buffer(Some(value.as_bytes()));
    }

    /// The count or length before a vector, a buffer or a string.
    ///
    /// # Panics
    /// Above `i32::MAX`, which no ZooKeeper record can have.
    #[inline]
    pub fn count(&mut self, count: usize) {
        self.int(i32::try_from(count).expect("records are bounded far below 2 GiB"));
    }

    /// A vector of records; `None` is count −1.
    pub fn vector<T: Encode>(&mut self, elements: Option<&[T]>) {
        match elements {
            None => self.int(-1),
            Some(elements) => {
                self.count(elements.len());
                for element in elements {
                    element.encode(self);
                }
            }
        }
    }

    /// Appends encoded bytes.
    #[inline]
    pub fn raw(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
    }

    /// Number of bytes in the buffer.
    #[inline]
    pub fn position(&self) -> usize {
        self.bytes.len()
    }

    /// Overwrites the four bytes at `at` with `value`, for lengths that are known later.
    ///
    /// # Panics
    /// If those bytes are not written yet.
    #[inline]
    pub fn patch_int(&mut self, at: usize, value: i32) {
        self.bytes[at..at + 4].copy_from_slice(&value.to_be_bytes());
    }

    /// Removes everything from `at` on.
    pub fn truncate(&mut self, at: usize) {
        self.bytes.truncate(at);
    }
}

impl Encode for &str {
    fn encode(&self, out: &mut Encoder<'_>) {
        out.text(self);
    }
}

impl Encode for String {
    fn encode(&self, out: &mut Encoder<'_>) {
        out.text(self);
    }
}

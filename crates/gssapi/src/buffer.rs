//! Buffers that are passed to the library, and buffers that the library has allocated.

use std::ptr;

use crate::sys::{Api, Buffer};

/// Bytes that the library reads. They must outlive the result.
pub(crate) fn lent(bytes: &[u8]) -> Buffer {
    Buffer { length: bytes.len(), value: bytes.as_ptr().cast_mut().cast() }
}

/// A buffer that the library fills, and later frees.
pub(crate) struct Owned<'a> {
    api: &'a Api,
    buffer: Buffer,
}

impl<'a> Owned<'a> {
    /// An empty buffer.
    pub(crate) fn new(api: &'a Api) -> Self {
        Self { api, buffer: Buffer { length: 0, value: ptr::null_mut() } }
    }

    /// The pointer through which the library fills the buffer, for one call only.
    pub(crate) fn slot(&mut self) -> *mut Buffer {
        &mut self.buffer
    }

    /// A copy of the content.
    pub(crate) fn to_vec(&self) -> Vec<u8> {
        if self.buffer.value.is_null() || self.buffer.length == 0 {
            return Vec::new();
        }
        // SAFETY: the library has allocated so many bytes there, and nobody changes them.
        let bytes = unsafe {
            std::slice::from_raw_parts(self.buffer.value.cast::<u8>(), self.buffer.length)
        };
        bytes.to_vec()
    }
}

impl Drop for Owned<'_> {
    fn drop(&mut self) {
        let mut minor = 0;
        // SAFETY: the buffer is empty or the library's, and not used again.
        unsafe { self.api.gss_release_buffer(&mut minor, &mut self.buffer) };
    }
}

//! Memory shared with C: strings that C frees, and strings and arrays from C.

use std::ffi::{CStr, c_char, c_void};

/// A copy that C frees with `free`; null if there is not enough memory.
pub(crate) fn duplicate(bytes: &[u8]) -> *mut c_char {
    // SAFETY: `malloc` takes any size; one byte more than the text is never zero bytes.
    let copy = unsafe { libc::malloc(bytes.len() + 1) }.cast::<u8>();
    if !copy.is_null() {
        // SAFETY: the allocation has room for the text and its end, and overlaps nothing.
        unsafe {
            std::ptr::copy_nonoverlapping(bytes.as_ptr(), copy, bytes.len());
            copy.add(bytes.len()).write(0);
        }
    }
    copy.cast()
}

/// An array of zeros that C frees with `free`; null if it is empty or there is not enough memory.
pub(crate) fn array<T>(count: usize) -> *mut T {
    if count == 0 {
        return std::ptr::null_mut();
    }
    // SAFETY: `calloc` checks the product, and takes any numbers.
    unsafe { libc::calloc(count, size_of::<T>()) }.cast()
}

/// Frees memory from `malloc`; null is ignored.
///
/// # Safety
/// The memory came from `malloc` and is freed once.
pub(crate) unsafe fn free<T>(memory: *mut T) {
    // SAFETY: guaranteed by the caller.
    unsafe { libc::free(memory.cast::<c_void>()) }
}

/// The text behind a pointer; `None` for null.
///
/// # Safety
/// A pointer other than null points to a zero-terminated text, which does not change while it is
/// borrowed.
pub(crate) unsafe fn text<'a>(text: *const c_char) -> Option<&'a CStr> {
    // SAFETY: guaranteed by the caller.
    (!text.is_null()).then(|| unsafe { CStr::from_ptr(text) })
}

/// The elements behind a pointer; none if it is null or the count is not positive.
///
/// # Safety
/// A pointer other than null points to `count` elements, which do not change while they are
/// borrowed.
pub(crate) unsafe fn slice<'a, T>(first: *const T, count: i32) -> &'a [T] {
    match usize::try_from(count) {
        // SAFETY: guaranteed by the caller.
        Ok(count) if !first.is_null() && count > 0 => unsafe {
            std::slice::from_raw_parts(first, count)
        },
        _ => &[],
    }
}

/// Stores a value for the C caller, unless the pointer is null.
///
/// # Safety
/// A pointer other than null is writable.
pub(crate) unsafe fn put<T>(to: *mut T, value: T) {
    if !to.is_null() {
        // SAFETY: guaranteed by the caller.
        unsafe { to.write(value) };
    }
}

/// Copies a text into a C buffer, truncated if necessary and always zero-terminated. Returns the
/// number of bytes used, the zero included.
///
/// # Safety
/// A buffer other than null has `length` writable bytes.
pub(crate) unsafe fn put_text(to: *mut c_char, length: i32, text: &[u8]) -> i32 {
    let Ok(room) = usize::try_from(length) else { return 0 };
    if to.is_null() || room == 0 {
        return 0;
    }
    let count = text.len().min(room - 1);
    // SAFETY: `count` and the zero fit into the buffer, which overlaps nothing of ours.
    unsafe {
        std::ptr::copy_nonoverlapping(text.as_ptr(), to.cast::<u8>(), count);
        to.add(count).write(0);
    }
    i32::try_from(count + 1).unwrap_or(i32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_is_cut_to_the_buffer() {
        let mut buffer = [1_u8; 4];
        let mut put = |length, text: &[u8]| {
            // SAFETY: the buffer has at least `length` bytes.
            unsafe { put_text(buffer.as_mut_ptr().cast(), length, text) }
        };
        assert_eq!(put(4, b"/abcdef"), 4);
        assert_eq!(put(0, b"x"), 0);
        assert_eq!(put(-1, b"x"), 0);
        assert_eq!(buffer, *b"/ab\0");
        // SAFETY: null is allowed.
        assert_eq!(unsafe { put_text(std::ptr::null_mut(), 4, b"x") }, 0);
    }
}

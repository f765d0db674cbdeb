//! `recordio.h`: archives, which write and read the fields of records.
//!
//! An archive is a table of functions and a private state, as in the C client, so a program may use
//! its own archives. Missing values are null (−1 on the wire). Errors are negative `errno` numbers.

use std::ffi::{c_char, c_int};

use zebu_jute::{DecodeError, Decoder, Encoder};

use crate::memory;

type WriteTag = unsafe extern "C" fn(*mut OutArchive, *const c_char) -> c_int;
type ReadTag = unsafe extern "C" fn(*mut InArchive, *const c_char) -> c_int;
type Write<T> = unsafe extern "C" fn(*mut OutArchive, *const c_char, *const T) -> c_int;
type WriteText = unsafe extern "C" fn(*mut OutArchive, *const c_char, *mut *mut c_char) -> c_int;
type Read<T> = unsafe extern "C" fn(*mut InArchive, *const c_char, *mut T) -> c_int;

/// `struct buffer`: bytes with their length; −1 for null.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Buffer {
    /// The number of bytes.
    pub len: i32,
    /// The bytes.
    pub buff: *mut c_char,
}

/// `struct oarchive`.
#[repr(C)]
pub struct OutArchive {
    pub(crate) start_record: WriteTag,
    pub(crate) end_record: WriteTag,
    pub(crate) start_vector: Write<i32>,
    pub(crate) end_vector: WriteTag,
    pub(crate) bool: Write<i32>,
    pub(crate) int: Write<i32>,
    pub(crate) long: Write<i64>,
    pub(crate) buffer: Write<Buffer>,
    pub(crate) text: WriteText,
    state: *mut Written,
}

/// `struct iarchive`.
#[repr(C)]
pub struct InArchive {
    pub(crate) start_record: ReadTag,
    pub(crate) end_record: ReadTag,
    pub(crate) start_vector: Read<i32>,
    pub(crate) end_vector: ReadTag,
    pub(crate) bool: Read<i32>,
    pub(crate) int: Read<i32>,
    pub(crate) long: Read<i64>,
    pub(crate) buffer: Read<Buffer>,
    pub(crate) text: Read<*mut c_char>,
    state: *mut Unread,
}

/// The output of a Zebu archive. The memory comes from `malloc`, because C may keep it.
///
/// Laid out as the C client's: programs without `get_buffer`, such as its test suite, read the
/// fields.
#[repr(C)]
struct Written {
    room: i32,
    length: i32,
    bytes: *mut u8,
}

/// The input of a Zebu archive.
struct Unread {
    bytes: *const u8,
    length: usize,
    at: usize,
}

impl Written {
    fn push(&mut self, write: impl FnOnce(&mut Encoder<'_>)) -> c_int {
        let mut bytes = Vec::new();
        write(&mut Encoder::new(&mut bytes));
        let used = self.length as usize;
        let needed = used + bytes.len();
        let Ok(length) = i32::try_from(needed) else { return -libc::E2BIG };
        if length > self.room {
            let room = i32::try_from(needed.next_power_of_two().max(128)).unwrap_or(i32::MAX);
            // SAFETY: the bytes came from `malloc` or are null, and `room` is not zero.
            let moved = unsafe { libc::realloc(self.bytes.cast(), room as usize) }.cast::<u8>();
            if moved.is_null() {
                return -libc::ENOMEM;
            }
            (self.bytes, self.room) = (moved, room);
        }
        // SAFETY: there is room for `needed` bytes, of which the first `used` are taken.
        unsafe {
            std::ptr::copy_nonoverlapping(bytes.as_ptr(), self.bytes.add(used), bytes.len());
        }
        self.length = length;
        0
    }
}

impl Unread {
    fn pull<'a, T>(
        &'a mut self,
        read: impl FnOnce(&mut Decoder<'a>) -> Result<T, DecodeError>,
    ) -> Result<T, c_int> {
        // SAFETY: the creator of the archive promised `length` bytes; `at` is never behind them.
        let rest =
            unsafe { std::slice::from_raw_parts(self.bytes.add(self.at), self.length - self.at) };
        let mut decoder = Decoder::new(rest);
        let value = read(&mut decoder).map_err(|error| match error {
            DecodeError::Short { .. } => -libc::E2BIG,
            _ => -libc::EINVAL,
        })?;
        self.at += decoder.position();
        Ok(value)
    }
}

/// Writes with the state of a Zebu archive.
///
/// # Safety
/// The archive is a Zebu archive, and open.
unsafe fn push(archive: *mut OutArchive, write: impl FnOnce(&mut Encoder<'_>)) -> c_int {
    // SAFETY: guaranteed by the caller; nobody else uses the archive meanwhile.
    unsafe { (*(*archive).state).push(write) }
}

/// Reads with the state of a Zebu archive, and stores the result.
///
/// # Safety
/// The archive is a Zebu archive, and open; `to` is writable.
unsafe fn pull<T>(
    archive: *mut InArchive,
    to: *mut T,
    read: impl for<'a> FnOnce(&mut Decoder<'a>) -> Result<T, DecodeError>,
) -> c_int {
    // SAFETY: guaranteed by the caller; nobody else uses the archive meanwhile.
    match unsafe { (*(*archive).state).pull(read) } {
        Ok(value) => {
            // SAFETY: guaranteed by the caller.
            unsafe { to.write(value) };
            0
        }
        Err(error) => error,
    }
}

unsafe extern "C" fn write_tag(_: *mut OutArchive, _: *const c_char) -> c_int {
    0
}

unsafe extern "C" fn read_tag(_: *mut InArchive, _: *const c_char) -> c_int {
    0
}

unsafe extern "C" fn write_bool(to: *mut OutArchive, _: *const c_char, value: *const i32) -> c_int {
    // SAFETY: the C caller passes a Zebu archive and a number.
    unsafe { push(to, |out| out.boolean(*value != 0)) }
}

unsafe extern "C" fn write_int(to: *mut OutArchive, _: *const c_char, value: *const i32) -> c_int {
    // SAFETY: the C caller passes a Zebu archive and a number.
    unsafe { push(to, |out| out.int(*value)) }
}

unsafe extern "C" fn write_long(to: *mut OutArchive, _: *const c_char, value: *const i64) -> c_int {
    // SAFETY: the C caller passes a Zebu archive and a number.
    unsafe { push(to, |out| out.long(*value)) }
}

unsafe extern "C" fn write_buffer(
    to: *mut OutArchive,
    _: *const c_char,
    value: *const Buffer,
) -> c_int {
    // SAFETY: the C caller passes a buffer, or null.
    let bytes = unsafe { value.as_ref() }.filter(|buffer| buffer.len >= 0);
    // SAFETY: a buffer has as many bytes as it says; an empty one may have none.
    let bytes = bytes.map(|buffer| unsafe { memory::slice(buffer.buff.cast::<u8>(), buffer.len) });
    // SAFETY: the C caller passes a Zebu archive.
    unsafe { push(to, |out| out.buffer(bytes)) }
}

unsafe extern "C" fn write_text(
    to: *mut OutArchive,
    _: *const c_char,
    value: *mut *mut c_char,
) -> c_int {
    // SAFETY: the C caller passes a pointer to a text, which may be null.
    let text = unsafe { memory::text(*value) };
    // SAFETY: the C caller passes a Zebu archive.
    unsafe { push(to, |out| out.buffer(text.map(std::ffi::CStr::to_bytes))) }
}

unsafe extern "C" fn read_bool(from: *mut InArchive, _: *const c_char, to: *mut i32) -> c_int {
    // SAFETY: the C caller passes a Zebu archive and room for a number.
    unsafe { pull(from, to, |from| Ok(i32::from(from.boolean()?))) }
}

unsafe extern "C" fn read_int(from: *mut InArchive, _: *const c_char, to: *mut i32) -> c_int {
    // SAFETY: the C caller passes a Zebu archive and room for a number.
    unsafe { pull(from, to, |from| from.int()) }
}

unsafe extern "C" fn read_long(from: *mut InArchive, _: *const c_char, to: *mut i64) -> c_int {
    // SAFETY: the C caller passes a Zebu archive and room for a number.
    unsafe { pull(from, to, |from| from.long()) }
}

/// Reads the number of a vector's elements. It is at most the number of bytes left, because each
/// element has at least one.
unsafe extern "C" fn read_count(from: *mut InArchive, _: *const c_char, to: *mut i32) -> c_int {
    let read = |from: &mut Decoder<'_>| {
        let (at, length) = (from.position(), from.int()?);
        let fits = usize::try_from(length).is_ok_and(|count| count <= from.remaining());
        if fits || length == -1 {
            Ok(length.max(0))
        } else {
            Err(DecodeError::Length { at, length })
        }
    };
    // SAFETY: the C caller passes a Zebu archive and room for a number.
    unsafe { pull(from, to, read) }
}

unsafe extern "C" fn read_buffer(from: *mut InArchive, _: *const c_char, to: *mut Buffer) -> c_int {
    // SAFETY: the C caller passes a Zebu archive and room for a buffer.
    unsafe {
        pull(from, to, |from| {
            Ok(match from.buffer()? {
                Some(bytes) => {
                    let len = i32::try_from(bytes.len()).unwrap_or(i32::MAX);
                    Buffer { len, buff: memory::duplicate(bytes) }
                }
                None => Buffer { len: -1, buff: std::ptr::null_mut() },
            })
        })
    }
}

unsafe extern "C" fn read_text(
    from: *mut InArchive,
    _: *const c_char,
    to: *mut *mut c_char,
) -> c_int {
    let read = |from: &mut Decoder<'_>| Ok(from.buffer()?.map(memory::duplicate));
    let mut found = None;
    // SAFETY: the C caller passes a Zebu archive and room for a pointer.
    let code = unsafe { pull(from, &raw mut found, read) };
    match (code, found) {
        (0, Some(copy)) if copy.is_null() => -libc::ENOMEM,
        (0, Some(copy)) => {
            // SAFETY: as above.
            unsafe { memory::put(to, copy) };
            0
        }
        // As in the C client, a text is never null.
        (0, None) => -libc::EINVAL,
        _ => code,
    }
}

/// Creates an archive that writes into its own memory.
#[unsafe(no_mangle)]
extern "C" fn create_buffer_oarchive() -> *mut OutArchive {
    let state = Written { bytes: std::ptr::null_mut(), length: 0, room: 0 };
    Box::into_raw(Box::new(OutArchive {
        start_record: write_tag,
        end_record: write_tag,
        start_vector: write_int,
        end_vector: write_tag,
        bool: write_bool,
        int: write_int,
        long: write_long,
        buffer: write_buffer,
        text: write_text,
        state: Box::into_raw(Box::new(state)),
    }))
}

/// Closes an archive. Frees the output, or leaves it to the program if the program has asked for
/// it.
#[unsafe(no_mangle)]
unsafe extern "C" fn close_buffer_oarchive(archive: *mut *mut OutArchive, free_buffer: c_int) {
    // SAFETY: the caller gives where an archive of `create_buffer_oarchive` is, or null.
    unsafe {
        if archive.is_null() || (*archive).is_null() {
            return;
        }
        let archive = Box::from_raw(std::mem::replace(&mut *archive, std::ptr::null_mut()));
        let state = Box::from_raw(archive.state);
        if free_buffer != 0 {
            memory::free(state.bytes);
        }
    }
}

/// The output of an archive.
#[unsafe(no_mangle)]
unsafe extern "C" fn get_buffer(archive: *mut OutArchive) -> *mut c_char {
    // SAFETY: the caller gives an archive of `create_buffer_oarchive`.
    unsafe { (*(*archive).state).bytes.cast() }
}

/// The number of bytes that an archive has written.
#[unsafe(no_mangle)]
unsafe extern "C" fn get_buffer_len(archive: *mut OutArchive) -> c_int {
    // SAFETY: the caller gives an archive of `create_buffer_oarchive`.
    unsafe { (*(*archive).state).length }
}

/// Creates an archive that reads these bytes, which the caller keeps.
#[unsafe(no_mangle)]
extern "C" fn create_buffer_iarchive(buffer: *mut c_char, len: c_int) -> *mut InArchive {
    let length = if buffer.is_null() { 0 } else { usize::try_from(len).unwrap_or(0) };
    let bytes = if length == 0 { std::ptr::dangling() } else { buffer.cast::<u8>().cast_const() };
    let state = Unread { bytes, length, at: 0 };
    Box::into_raw(Box::new(InArchive {
        start_record: read_tag,
        end_record: read_tag,
        start_vector: read_count,
        end_vector: read_tag,
        bool: read_bool,
        int: read_int,
        long: read_long,
        buffer: read_buffer,
        text: read_text,
        state: Box::into_raw(Box::new(state)),
    }))
}

/// Closes a reading archive.
#[unsafe(no_mangle)]
unsafe extern "C" fn close_buffer_iarchive(archive: *mut *mut InArchive) {
    // SAFETY: the caller gives where an archive of `create_buffer_iarchive` is, or null.
    unsafe {
        if archive.is_null() || (*archive).is_null() {
            return;
        }
        let archive = Box::from_raw(std::mem::replace(&mut *archive, std::ptr::null_mut()));
        drop(Box::from_raw(archive.state));
    }
}

/// Converts a number between the byte orders of this machine and of the wire.
#[unsafe(no_mangle)]
extern "C" fn zoo_htonll(value: i64) -> i64 {
    value.to_be()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_is_never_null() {
        let bytes = [0xff_u8; 4];
        let mut archive = create_buffer_iarchive(bytes.as_ptr().cast_mut().cast(), 4);
        let mut text = std::ptr::null_mut();
        // SAFETY: the archive is open, and there is room for a pointer.
        unsafe {
            assert_eq!(read_text(archive, std::ptr::null(), &mut text), -libc::EINVAL);
            close_buffer_iarchive(&mut archive);
        }
    }

    #[test]
    fn lengths_that_lie_are_refused() {
        for (bytes, error) in [
            (&[0, 0, 0, 9, b'a'][..], -libc::E2BIG),
            (&[0xff, 0xff, 0xff, 0xfe], -libc::EINVAL),
            (&[0, 0], -libc::E2BIG),
        ] {
            let mut archive =
                create_buffer_iarchive(bytes.as_ptr().cast_mut().cast(), bytes.len() as c_int);
            let mut text = std::ptr::null_mut();
            // SAFETY: the archive is open, and the bytes live.
            unsafe {
                assert_eq!(read_text(archive, std::ptr::null(), &mut text), error);
                assert!(text.is_null());
                let mut count = 7;
                let expected = if bytes.len() < 4 { -libc::E2BIG } else { -libc::EINVAL };
                assert_eq!(read_count(archive, std::ptr::null(), &mut count), expected);
                close_buffer_iarchive(&mut archive);
            }
            assert!(archive.is_null());
        }
    }
}

//! Checks the program's arguments and encodes them as requests.

use std::borrow::Cow;
use std::ffi::{c_char, c_int};

use zebu_jute::Encoder;
use zebu_proto::OpCode;
use zebu_proto::path::validate;
use zebu_session::Chroot;

use crate::errors;
use crate::memory;
use crate::records::{ACL, ACL_vector};

/// The reason for refusing a call: its code, and a sentence for the log.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Refused(pub(crate) c_int, pub(crate) String);

/// Invalid arguments.
pub(crate) fn bad(why: impl Into<String>) -> Refused {
    Refused(errors::BAD_ARGUMENTS, why.into())
}

/// The maximum time to live.
const TTL_MAX: i64 = 0xff_ffff_ffff;

/// The sequential create modes. The numbers are those of the wire.
const SEQUENTIAL: [c_int; 3] = [2, 3, 6];
const CONTAINER: c_int = 4;
const WITH_TTL: [c_int; 2] = [5, 6];

/// A text of the program.
///
/// # Safety
/// The pointer is null, or points to a zero-terminated text.
pub(crate) unsafe fn text<'a>(text: *const c_char, what: &str) -> Result<&'a str, Refused> {
    // SAFETY: guaranteed by the caller.
    let text = unsafe { memory::text(text) }.ok_or_else(|| bad(format!("{what} is NULL")))?;
    text.to_str().map_err(|_| bad(format!("{what} is not UTF-8: {text:?}")))
}

/// The server's form of the program's path.
///
/// # Safety
/// As for [`text`].
pub(crate) unsafe fn path<'a>(
    path: *const c_char,
    chroot: &Chroot,
) -> Result<Cow<'a, str>, Refused> {
    // SAFETY: guaranteed by the caller.
    let path = unsafe { text(path, "path") }?;
    validate(path).map_err(|error| bad(format!("path {path:?}: {error}")))?;
    Ok(chroot.absolute(path))
}

/// Bytes of the program; length −1 means null.
///
/// # Safety
/// A pointer other than null points to `length` bytes.
pub(crate) unsafe fn data<'a>(
    data: *const c_char,
    length: c_int,
) -> Result<Option<&'a [u8]>, Refused> {
    match (data.is_null(), length) {
        (_, -1) => Ok(None),
        (_, ..-1) => Err(bad(format!("{length} bytes of data"))),
        (_, 0) => Ok(Some(&[])),
        (true, _) => Err(bad(format!("{length} bytes of data at NULL"))),
        // SAFETY: guaranteed by the caller.
        (false, _) => Ok(Some(unsafe { memory::slice(data.cast::<u8>(), length) })),
    }
}

/// Encodes an ACL.
///
/// # Safety
/// Each entry has texts, or null.
pub(crate) unsafe fn put_acl(acl: &[ACL], out: &mut Encoder<'_>) {
    out.count(acl.len());
    for entry in acl {
        out.int(entry.perms);
        // SAFETY: guaranteed by the caller.
        let (scheme, id) = unsafe { (memory::text(entry.id.scheme), memory::text(entry.id.id)) };
        out.buffer(scheme.map(std::ffi::CStr::to_bytes));
        out.buffer(id.map(std::ffi::CStr::to_bytes));
    }
}

/// The entries of an ACL; none for null.
///
/// # Safety
/// A pointer other than null points to a vector.
pub(crate) unsafe fn acl<'a>(acl: *const ACL_vector) -> &'a [ACL] {
    // SAFETY: guaranteed by the caller.
    match unsafe { acl.as_ref() } {
        // SAFETY: a vector has `count` elements.
        Some(acl) => unsafe { memory::slice(acl.data, acl.count) },
        None => &[],
    }
}

/// The opcode for a mode. Modes other than containers and TTL znodes use `plain`.
pub(crate) fn create_op(mode: c_int, plain: OpCode) -> OpCode {
    match mode {
        CONTAINER => OpCode::CREATE_CONTAINER,
        _ if WITH_TTL.contains(&mode) => OpCode::CREATE_TTL,
        _ => plain,
    }
}

/// A create with valid arguments.
#[derive(Debug)]
pub(crate) struct Create<'a> {
    path: Cow<'a, str>,
    data: Option<&'a [u8]>,
    acl: &'a [ACL],
    mode: c_int,
    ttl: i64,
}

impl Create<'_> {
    /// Checks the arguments. `ttl` is used by the modes with a time to live only.
    ///
    /// # Safety
    /// The pointers are null, or valid in the sense of `zookeeper.h`.
    pub(crate) unsafe fn new(
        chroot: &Chroot,
        path: *const c_char,
        bytes: *const c_char,
        length: c_int,
        entries: *const ACL_vector,
        mode: c_int,
        ttl: i64,
    ) -> Result<Self, Refused> {
        if !(0..=6).contains(&mode) {
            return Err(bad(format!("create mode {mode}")));
        }
        if WITH_TTL.contains(&mode) && !(1..=TTL_MAX).contains(&ttl) {
            return Err(bad(format!("time to live {ttl} is not from 1 to {TTL_MAX}")));
        }
        // SAFETY: guaranteed by the caller.
        let name = unsafe { text(path, "path") }?;
        let path = if SEQUENTIAL.contains(&mode) {
            // The server appends a number, so the path may end with a slash.
            validate(&format!("{name}1"))
                .map_err(|error| bad(format!("path {name:?}: {error}")))?;
            chroot.absolute_prefix(name)
        } else {
            validate(name).map_err(|error| bad(format!("path {name:?}: {error}")))?;
            chroot.absolute(name)
        };
        // SAFETY: guaranteed by the caller.
        Ok(unsafe { Self { path, data: data(bytes, length)?, acl: acl(entries), mode, ttl } })
    }

    /// Encodes the body.
    ///
    /// # Safety
    /// The ACL is valid in the sense of `zookeeper.h`.
    pub(crate) unsafe fn encode(&self, op: OpCode, out: &mut Encoder<'_>) {
        out.text(&self.path);
        out.buffer(self.data);
        // SAFETY: guaranteed by the caller.
        unsafe { put_acl(self.acl, out) };
        out.int(self.mode);
        if op == OpCode::CREATE_TTL {
            out.long(self.ttl);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn create(path: &std::ffi::CStr, mode: c_int, ttl: i64) -> Result<String, Refused> {
        let chroot = Chroot::new("/app").unwrap();
        // SAFETY: the path is a text, the rest is null.
        let create = unsafe {
            Create::new(&chroot, path.as_ptr(), std::ptr::null(), -1, std::ptr::null(), mode, ttl)
        };
        create.map(|create| create.path.into_owned())
    }

    #[test]
    fn arguments_of_a_create() {
        assert_eq!(create(c"/a", 0, -1).as_deref(), Ok("/app/a"));
        assert_eq!(create(c"/", 2, -1).as_deref(), Ok("/app/"));
        assert_eq!(create(c"/a/", 3, -1).as_deref(), Ok("/app/a/"));
        assert_eq!(create(c"/a", 5, TTL_MAX).as_deref(), Ok("/app/a"));
        for (path, mode, ttl) in [
            (c"/a/", 0, -1),
            (c"a", 0, -1),
            (c"", 2, -1),
            (c"/a", 7, -1),
            (c"/a", -1, -1),
            (c"/a", 5, -1),
            (c"/a", 6, TTL_MAX + 1),
            (c"/\xff", 0, -1),
        ] {
            assert_eq!(create(path, mode, ttl).unwrap_err().0, errors::BAD_ARGUMENTS, "{path:?}");
        }
    }

    #[test]
    fn lengths_of_data() {
        let bytes = c"abc".as_ptr();
        // SAFETY: there are as many bytes as the lengths that are accepted say.
        unsafe {
            assert_eq!(data(bytes, 2), Ok(Some(&b"ab"[..])));
            assert_eq!(data(bytes, -1), Ok(None));
            assert_eq!(data(std::ptr::null(), 0), Ok(Some(&[][..])));
            assert!(data(bytes, -2).is_err());
            assert!(data(std::ptr::null(), 1).is_err());
        }
    }
}

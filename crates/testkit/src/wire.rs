//! The client protocol's encodings, written without `zebu-proto`, so that a mistake there shows.
//!
//! Builds requests, also invalid ones, and reads answers.

/// Opcodes by name. Source: the protocol's table of request types.
pub mod op {
    #![allow(missing_docs, reason = "the names say it")]
    pub const CREATE: i32 = 1;
    pub const DELETE: i32 = 2;
    pub const EXISTS: i32 = 3;
    pub const GET_DATA: i32 = 4;
    pub const SET_DATA: i32 = 5;
    pub const GET_ACL: i32 = 6;
    pub const SET_ACL: i32 = 7;
    pub const GET_CHILDREN: i32 = 8;
    pub const SYNC: i32 = 9;
    pub const PING: i32 = 11;
    pub const GET_CHILDREN2: i32 = 12;
    pub const CHECK: i32 = 13;
    pub const MULTI: i32 = 14;
    pub const CREATE2: i32 = 15;
    pub const RECONFIG: i32 = 16;
    pub const CHECK_WATCHES: i32 = 17;
    pub const REMOVE_WATCHES: i32 = 18;
    pub const CREATE_CONTAINER: i32 = 19;
    pub const DELETE_CONTAINER: i32 = 20;
    pub const CREATE_TTL: i32 = 21;
    pub const MULTI_READ: i32 = 22;
    pub const AUTH: i32 = 100;
    pub const SET_WATCHES: i32 = 101;
    pub const SASL: i32 = 102;
    pub const GET_EPHEMERALS: i32 = 103;
    pub const GET_ALL_CHILDREN_NUMBER: i32 = 104;
    pub const SET_WATCHES2: i32 = 105;
    pub const ADD_WATCH: i32 = 106;
    pub const WHO_AM_I: i32 = 107;
    pub const CLOSE_SESSION: i32 = -11;
    pub const ERROR: i32 = -1;
}

/// Error codes by name.
pub mod err {
    #![allow(missing_docs, reason = "the names say it")]
    pub const OK: i32 = 0;
    pub const UNIMPLEMENTED: i32 = -6;
    pub const NO_NODE: i32 = -101;
    pub const NO_AUTH: i32 = -102;
    pub const NODE_EXISTS: i32 = -110;
    pub const INVALID_ACL: i32 = -114;
    pub const AUTH_FAILED: i32 = -115;
    pub const RECONFIG_DISABLED: i32 = -123;
    pub const REQUIRES_AUTH: i32 = -124;
    pub const QUOTA_EXCEEDED: i32 = -125;
    pub const THROTTLED: i32 = -127;
}

/// An ACL entry: permission bits, scheme, id.
pub type Acl = (i32, Option<String>, Option<String>);

/// `world:anyone` with every permission.
pub const OPEN: &[(i32, &str, &str)] = &[(31, "world", "anyone")];

/// [`OPEN`] as it is read.
pub fn open_acl() -> Vec<Acl> {
    vec![(31, Some("world".into()), Some("anyone".into()))]
}

/// A text, or null.
pub trait Text {
    /// The text, if it is not null.
    fn text(&self) -> Option<&str>;
}

impl Text for &str {
    fn text(&self) -> Option<&str> {
        Some(self)
    }
}

impl Text for Option<String> {
    fn text(&self) -> Option<&str> {
        self.as_deref()
    }
}

/// Builds a payload, field by field.
#[derive(Clone, Debug, Default)]
pub struct Writer(Vec<u8>);

impl Writer {
    /// An empty payload.
    pub fn new() -> Self {
        Self::default()
    }

    /// A request header.
    pub fn request(xid: i32, op: i32) -> Self {
        Self::new().int(xid).int(op)
    }

    /// Bytes unchanged.
    #[must_use]
    pub fn raw(mut self, bytes: &[u8]) -> Self {
        self.0.extend_from_slice(bytes);
        self
    }

    /// One byte, 0 or 1.
    #[must_use]
    pub fn bool(self, value: bool) -> Self {
        self.raw(&[u8::from(value)])
    }

    /// Four bytes.
    #[must_use]
    pub fn int(self, value: i32) -> Self {
        self.raw(&value.to_be_bytes())
    }

    /// Eight bytes.
    #[must_use]
    pub fn long(self, value: i64) -> Self {
        self.raw(&value.to_be_bytes())
    }

    /// Length and bytes.
    #[must_use]
    pub fn buffer(self, value: &[u8]) -> Self {
        self.int(count(value.len())).raw(value)
    }

    /// Length and bytes, or -1.
    #[must_use]
    pub fn optional_buffer(self, value: Option<&[u8]>) -> Self {
        match value {
            None => self.int(-1),
            Some(bytes) => self.buffer(bytes),
        }
    }

    /// Length and text.
    #[must_use]
    pub fn string(self, value: &str) -> Self {
        self.buffer(value.as_bytes())
    }

    /// Length and text, or -1.
    #[must_use]
    pub fn optional_string(self, value: Option<&str>) -> Self {
        self.optional_buffer(value.map(str::as_bytes))
    }

    /// Count and texts.
    #[must_use]
    pub fn strings<S: AsRef<str>>(self, values: &[S]) -> Self {
        let start = self.int(count(values.len()));
        values.iter().fold(start, |writer, value| writer.string(value.as_ref()))
    }

    /// Count and ACL entries.
    #[must_use]
    pub fn acl<T: Text>(self, entries: &[(i32, T, T)]) -> Self {
        entries.iter().fold(self.int(count(entries.len())), |writer, (perms, scheme, id)| {
            writer.int(*perms).optional_string(scheme.text()).optional_string(id.text())
        })
    }

    /// The payload so far.
    pub fn bytes(&self) -> &[u8] {
        &self.0
    }

    /// The payload.
    pub fn done(self) -> Vec<u8> {
        self.0
    }
}

fn count(length: usize) -> i32 {
    i32::try_from(length).expect("test data is small")
}

/// Puts the length in front of a payload.
pub fn frame(payload: &[u8]) -> Vec<u8> {
    Writer::new().buffer(payload).done()
}

/// The first frame's payload, and the bytes behind the frame. `None` if the bytes do not contain a
/// whole frame.
pub fn split_frame(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let (length, rest) = bytes.split_first_chunk()?;
    rest.split_at_checked(usize::try_from(i32::from_be_bytes(*length)).ok()?)
}

/// A request with its length before it.
pub fn framed_request(xid: i32, op: i32, body: &[u8]) -> Vec<u8> {
    frame(Writer::request(xid, op).raw(body).bytes())
}

/// The body of a create.
pub fn create<T: Text>(path: &str, data: &[u8], acl: &[(i32, T, T)], flags: i32) -> Writer {
    Writer::new().string(path).buffer(data).acl(acl).int(flags)
}

/// The body of a setData without a check of the version.
pub fn set_data(path: &str, data: &[u8]) -> Writer {
    Writer::new().string(path).buffer(data).int(-1)
}

/// The body of a multi: operations and their bodies.
pub fn multi(ops: &[(i32, Writer)]) -> Writer {
    let body = ops.iter().fold(Writer::new(), |body, (op, operation)| {
        body.int(*op).bool(false).int(-1).raw(operation.bytes())
    });
    body.int(-1).bool(true).int(-1)
}

/// A payload is not what its reader expects.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Odd {
    /// It ends within a field.
    #[error("payload ends early")]
    Short,
    /// A field has this length.
    #[error("a field of length {0}")]
    Length(i32),
    /// A text is not UTF-8, or digits are not hexadecimal.
    #[error("a text that is none")]
    Text,
    /// This number of bytes follows the last field.
    #[error("{0} bytes left over")]
    Rest(usize),
}

/// A znode's stat, as encoded on the wire.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "the protocol's own names")]
pub struct Stat {
    pub czxid: i64,
    pub mzxid: i64,
    pub ctime: i64,
    pub mtime: i64,
    pub version: i32,
    pub cversion: i32,
    pub aversion: i32,
    pub ephemeral_owner: i64,
    pub data_length: i32,
    pub num_children: i32,
    pub pzxid: i64,
}

/// Reads a payload field by field.
#[derive(Clone, Debug)]
pub struct Reader<'a> {
    rest: &'a [u8],
}

impl<'a> Reader<'a> {
    /// Starts at the beginning of `bytes`.
    pub fn new(bytes: &'a [u8]) -> Self {
        Self { rest: bytes }
    }

    /// The remaining bytes.
    pub fn rest(&self) -> &'a [u8] {
        self.rest
    }

    fn take(&mut self, length: usize) -> Result<&'a [u8], Odd> {
        let (head, tail) = self.rest.split_at_checked(length).ok_or(Odd::Short)?;
        self.rest = tail;
        Ok(head)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], Odd> {
        let (head, tail) = self.rest.split_first_chunk().ok_or(Odd::Short)?;
        self.rest = tail;
        Ok(*head)
    }

    /// One byte; non-zero is true.
    ///
    /// # Errors
    /// The payload ends.
    pub fn bool(&mut self) -> Result<bool, Odd> {
        Ok(self.take(1)?[0] != 0)
    }

    /// Four bytes.
    ///
    /// # Errors
    /// The payload ends.
    pub fn int(&mut self) -> Result<i32, Odd> {
        self.array().map(i32::from_be_bytes)
    }

    /// Eight bytes.
    ///
    /// # Errors
    /// The payload ends.
    pub fn long(&mut self) -> Result<i64, Odd> {
        self.array().map(i64::from_be_bytes)
    }

    /// Length and bytes; -1 is `None`.
    ///
    /// # Errors
    /// The payload ends.
    pub fn optional_buffer(&mut self) -> Result<Option<&'a [u8]>, Odd> {
        match self.int()? {
            -1 => Ok(None),
            length => {
                let bytes = usize::try_from(length).map_err(|_| Odd::Length(length))?;
                self.take(bytes).map(Some)
            }
        }
    }

    /// Length and bytes.
    ///
    /// # Errors
    /// The payload ends, or the field is null.
    pub fn buffer(&mut self) -> Result<&'a [u8], Odd> {
        self.optional_buffer()?.ok_or(Odd::Length(-1))
    }

    /// Length and text; -1 is `None`.
    ///
    /// # Errors
    /// The payload ends, or is not UTF-8.
    pub fn optional_string(&mut self) -> Result<Option<String>, Odd> {
        let bytes = self.optional_buffer()?.map(<[u8]>::to_vec);
        bytes.map(String::from_utf8).transpose().map_err(|_| Odd::Text)
    }

    /// Length and text.
    ///
    /// # Errors
    /// The payload ends, is not UTF-8, or the field is null.
    pub fn string(&mut self) -> Result<String, Odd> {
        self.optional_string()?.ok_or(Odd::Length(-1))
    }

    /// Count, then elements; -1 is empty.
    ///
    /// # Errors
    /// As `element`.
    pub fn vector<T>(
        &mut self,
        mut element: impl FnMut(&mut Self) -> Result<T, Odd>,
    ) -> Result<Vec<T>, Odd> {
        let count = self.int()?;
        (0..count.max(0)).map(|_| element(self)).collect()
    }

    /// Count and texts.
    ///
    /// # Errors
    /// The payload ends.
    pub fn strings(&mut self) -> Result<Vec<String>, Odd> {
        self.vector(Self::string)
    }

    /// ACL entries.
    ///
    /// # Errors
    /// The payload ends.
    pub fn acl(&mut self) -> Result<Vec<Acl>, Odd> {
        self.vector(|from| Ok((from.int()?, from.optional_string()?, from.optional_string()?)))
    }

    /// A stat.
    ///
    /// # Errors
    /// The payload ends.
    pub fn stat(&mut self) -> Result<Stat, Odd> {
        Ok(Stat {
            czxid: self.long()?,
            mzxid: self.long()?,
            ctime: self.long()?,
            mtime: self.long()?,
            version: self.int()?,
            cversion: self.int()?,
            aversion: self.int()?,
            ephemeral_owner: self.long()?,
            data_length: self.int()?,
            num_children: self.int()?,
            pzxid: self.long()?,
        })
    }

    /// Checks that no bytes are left.
    ///
    /// # Errors
    /// Some are left.
    pub fn end(&self) -> Result<(), Odd> {
        if self.rest.is_empty() { Ok(()) } else { Err(Odd::Rest(self.rest.len())) }
    }
}

/// Bytes from hexadecimal digits.
///
/// # Errors
/// The text is not hexadecimal.
pub fn unhex(text: &str) -> Result<Vec<u8>, Odd> {
    let pair = |at| text.get(at..at + 2).and_then(|pair| u8::from_str_radix(pair, 16).ok());
    (0..text.len()).step_by(2).map(|at| pair(at).ok_or(Odd::Text)).collect()
}

/// Bytes as hexadecimal digits.
pub fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_frame_is_split_off_when_it_is_whole() {
        let bytes = [frame(b"one"), frame(b""), frame(b"two")].concat();
        let (first, rest) = split_frame(&bytes).unwrap();
        assert_eq!(first, b"one");
        let (second, rest) = split_frame(rest).unwrap();
        assert_eq!((second, split_frame(rest)), (&b""[..], Some((&b"two"[..], &b""[..]))));
        assert!((0..7).all(|end| split_frame(&bytes[..end]).is_none()));
        assert_eq!(split_frame(&[0xff; 9]), None);
    }
}

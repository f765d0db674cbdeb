//! The client protocol's encodings, implemented independently of `zebu-proto`.
//!
//! Only the parts that the scenarios need: building requests, also invalid ones, and reading
//! answers.

use anyhow::{Context, Result, bail, ensure};

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

/// An ACL entry: permission bits, scheme, id.
pub type Acl = (i32, Option<String>, Option<String>);

/// `world:anyone` with every permission.
pub fn open_acl() -> Vec<Acl> {
    vec![(31, Some("world".into()), Some("anyone".into()))]
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

    /// Length and bytes, or -1.
    #[must_use]
    pub fn buffer(self, value: Option<&[u8]>) -> Self {
        match value {
            None => self.int(-1),
            Some(bytes) => self.int(count(bytes.len())).raw(bytes),
        }
    }

    /// Length and text.
    #[must_use]
    pub fn string(self, value: &str) -> Self {
        self.buffer(Some(value.as_bytes()))
    }

    /// Length and text, or -1.
    #[must_use]
    pub fn optional_string(self, value: Option<&str>) -> Self {
        self.buffer(value.map(str::as_bytes))
    }

    /// Count and texts.
    #[must_use]
    pub fn strings<S: AsRef<str>>(self, values: &[S]) -> Self {
        let start = self.int(count(values.len()));
        values.iter().fold(start, |writer, value| writer.string(value.as_ref()))
    }

    /// Count and ACL entries.
    #[must_use]
    pub fn acl(self, entries: &[Acl]) -> Self {
        entries.iter().fold(self.int(count(entries.len())), |writer, (perms, scheme, id)| {
            writer.int(*perms).optional_string(scheme.as_deref()).optional_string(id.as_deref())
        })
    }

    /// The payload.
    pub fn done(self) -> Vec<u8> {
        self.0
    }
}

fn count(len: usize) -> i32 {
    i32::try_from(len).expect("test data is small")
}

/// Puts the length in front of a payload.
pub fn frame(payload: &[u8]) -> Vec<u8> {
    Writer::new().buffer(Some(payload)).done()
}

/// A znode's stat, as encoded on the wire.
#[derive(Clone, Debug, PartialEq, Eq)]
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

    fn take(&mut self, len: usize) -> Result<&'a [u8]> {
        let (head, tail) = self.rest.split_at_checked(len).context("payload ends early")?;
        self.rest = tail;
        Ok(head)
    }

    /// One byte; non-zero is true.
    ///
    /// # Errors
    /// The payload ends.
    pub fn bool(&mut self) -> Result<bool> {
        Ok(self.take(1)?[0] != 0)
    }

    /// Four bytes.
    ///
    /// # Errors
    /// The payload ends.
    pub fn int(&mut self) -> Result<i32> {
        Ok(i32::from_be_bytes(self.take(4)?.try_into()?))
    }

    /// Eight bytes.
    ///
    /// # Errors
    /// The payload ends.
    pub fn long(&mut self) -> Result<i64> {
        Ok(i64::from_be_bytes(self.take(8)?.try_into()?))
    }

    /// Length and bytes; -1 is `None`.
    ///
    /// # Errors
    /// The payload ends.
    pub fn buffer(&mut self) -> Result<Option<&'a [u8]>> {
        match self.int()? {
            -1 => Ok(None),
            len => Ok(Some(self.take(usize::try_from(len)?)?)),
        }
    }

    /// Length and text; -1 is `None`.
    ///
    /// # Errors
    /// The payload ends, or is not UTF-8.
    pub fn string(&mut self) -> Result<Option<String>> {
        Ok(self.buffer()?.map(|bytes| String::from_utf8(bytes.to_vec())).transpose()?)
    }

    /// Count, then elements; -1 is empty.
    ///
    /// # Errors
    /// As `element`.
    pub fn vector<T>(&mut self, mut element: impl FnMut(&mut Self) -> Result<T>) -> Result<Vec<T>> {
        let count = self.int()?;
        (0..count.max(0)).map(|_| element(self)).collect()
    }

    /// ACL entries.
    ///
    /// # Errors
    /// The payload ends.
    pub fn acl(&mut self) -> Result<Vec<Acl>> {
        self.vector(|reader| Ok((reader.int()?, reader.string()?, reader.string()?)))
    }

    /// A stat.
    ///
    /// # Errors
    /// The payload ends.
    pub fn stat(&mut self) -> Result<Stat> {
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
    pub fn end(&self) -> Result<()> {
        ensure!(self.rest.is_empty(), "{} bytes left over", self.rest.len());
        Ok(())
    }
}

/// Bytes from hexadecimal digits.
///
/// # Errors
/// The text is not hexadecimal.
pub fn unhex(text: &str) -> Result<Vec<u8>> {
    if !text.len().is_multiple_of(2) {
        bail!("odd number of digits");
    }
    (0..text.len()).step_by(2).map(|i| Ok(u8::from_str_radix(&text[i..i + 2], 16)?)).collect()
}

/// Bytes as hexadecimal digits.
pub fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

//! Snapshot transfer from a leader to a learner.
//!
//! The bytes are those of a snapshot file between its header and its first checksum, followed by a
//! signature. There is no length prefix: [`SnapshotReader`] finds the end record by record, so that
//! neither side holds the whole snapshot in memory.
//! Source: `LearnerHandler.run`, `Learner.syncWithLeader`, `SerializeUtils`.

use std::borrow::Cow;

use zebu_jute::{Decode, DecodeError, Decoder, Encode, Encoder};

use crate::stream::{if_complete, limited};
use crate::{Acl, Id, Perms, STAT_PERSISTED_BYTES, SessionId, StatPersisted};

/// The path that marks the end of the znodes.
const END: &str = "/";

/// The signature after the end.
pub const SIGNATURE: &str = "BenWasHere";

/// Size of end marker and signature.
const END_BYTES: usize = size_of::<i32>() + END.len() + size_of::<i32>() + SIGNATURE.len();

/// Size of a znode without its path and data.
const NODE_FIXED_BYTES: usize = 2 * size_of::<i32>() + size_of::<i64>() + STAT_PERSISTED_BYTES;

/// A part of a snapshot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SnapshotRecord<'a> {
    /// A session. All of them come first.
    Session {
        /// The session.
        id: SessionId,
        /// Its timeout, in milliseconds.
        timeout_ms: i32,
    },
    /// An ACL. All of them come between the sessions and the znodes.
    Acl {
        /// The number by which znodes refer to it.
        id: i64,
        /// The ACL.
        acl: Vec<Acl>,
    },
    /// A znode: the root with the empty path first, parents before children.
    Node {
        /// Where it is.
        path: Cow<'a, str>,
        /// Its data.
        data: Option<&'a [u8]>,
        /// The number of its ACL.
        acl: i64,
        /// Its stat.
        stat: StatPersisted,
    },
    /// The end; a packet follows.
    End,
}

/// The position of a reader.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Part {
    SessionCount,
    Sessions(u32),
    AclCount,
    Acls(u32),
    Nodes,
    Signature,
    Done,
}

/// The result of [`SnapshotReader::skip`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Skipped {
    /// Number of bytes that the caller must consume.
    pub bytes: usize,
    /// How many of them precede the end marker: those that a snapshot file has too.
    pub content: usize,
    /// Number of znodes.
    pub znodes: u64,
}

/// Finds the records of a snapshot that arrives in pieces.
#[derive(Clone, Debug)]
pub struct SnapshotReader {
    part: Part,
    record_bytes_max: usize,
}

impl SnapshotReader {
    /// A reader at the start. A path, a znode's data and an ACL may have `record_bytes_max` bytes
    /// each.
    pub fn new(record_bytes_max: usize) -> Self {
        Self { part: Part::SessionCount, record_bytes_max }
    }

    /// Whether the end has been seen.
    pub fn is_done(&self) -> bool {
        self.part == Part::Done
    }

    /// Returns the first record of the unconsumed bytes, and the number of bytes that the caller
    /// must consume. `None`: it is incomplete; consume nothing.
    ///
    /// # Errors
    /// [`DecodeError`]: close the connection. Offsets count from the start of `received`.
    ///
    /// # Panics
    /// After the end.
    #[inline]
    pub fn next<'b>(
        &mut self,
        received: &'b [u8],
    ) -> Result<Option<(SnapshotRecord<'b>, usize)>, DecodeError> {
        assert!(!self.is_done(), "nothing comes behind the end");
        // A count is consumed together with its first record, or not at all.
        let mut part = self.part;
        let mut from = Decoder::new(received);
        let Some(record) = if_complete(self.record(&mut part, &mut from))? else {
            return Ok(None);
        };
        self.part = part;
        Ok(Some((record, from.position())))
    }

    /// Skips all complete records in the unconsumed bytes. It does not check the contents of
    /// znodes, so they may still prove invalid.
    ///
    /// # Errors
    /// As for [`SnapshotReader::next`].
    pub fn skip(&mut self, received: &[u8]) -> Result<Skipped, DecodeError> {
        let mut skipped = Skipped::default();
        while !self.is_done() {
            let rest = &received[skipped.bytes..];
            if self.part == Part::Nodes
                && let Some(bytes) = if_complete(self.node_bytes(rest))?.flatten()
            {
                skipped.bytes += bytes;
                skipped.content = skipped.bytes;
                skipped.znodes += 1;
                continue;
            }
            let Some((record, bytes)) = self.next(rest)? else { break };
            skipped.bytes += bytes;
            skipped.content = skipped.bytes;
            match record {
                SnapshotRecord::Node { .. } => skipped.znodes += 1,
                SnapshotRecord::End => skipped.content -= END_BYTES,
                SnapshotRecord::Session { .. } | SnapshotRecord::Acl { .. } => {}
            }
        }
        Ok(skipped)
    }

    /// The size of the first znode; `None` at the end marker.
    fn node_bytes(&self, received: &[u8]) -> Result<Option<usize>, DecodeError> {
        let mut from = Decoder::new(received);
        let path = limited(&mut from, self.record_bytes_max)?.ok_or(DecodeError::Null { at: 0 })?;
        if path == END.as_bytes() {
            return Ok(None);
        }
        limited(&mut from, self.record_bytes_max)?;
        from.skip(size_of::<i64>() + STAT_PERSISTED_BYTES)?;
        Ok(Some(from.position()))
    }

    #[inline]
    fn record<'b>(
        &self,
        part: &mut Part,
        from: &mut Decoder<'b>,
    ) -> Result<SnapshotRecord<'b>, DecodeError> {
        loop {
            match *part {
                Part::SessionCount => *part = Part::Sessions(count(from)?),
                Part::Sessions(0) => *part = Part::AclCount,
                Part::Sessions(left) => {
                    *part = Part::Sessions(left - 1);
                    let id = SessionId::decode(from)?;
                    return Ok(SnapshotRecord::Session { id, timeout_ms: from.int()? });
                }
                Part::AclCount => *part = Part::Acls(count(from)?),
                Part::Acls(0) => *part = Part::Nodes,
                Part::Acls(left) => {
                    *part = Part::Acls(left - 1);
                    let id = from.long()?;
                    return Ok(SnapshotRecord::Acl { id, acl: self.acl(from)? });
                }
                Part::Nodes => {
                    let at = from.position();
                    let path = limited(from, self.record_bytes_max)?;
                    let path = path.ok_or(DecodeError::Null { at })?;
                    if path != END.as_bytes() {
                        return Ok(SnapshotRecord::Node {
                            // Paths are nearly always valid UTF-8, and checking that is the fastest
                            // case.
                            path: std::str::from_utf8(path)
                                .map_or_else(|_| String::from_utf8_lossy(path), Cow::Borrowed),
                            data: limited(from, self.record_bytes_max)?,
                            acl: from.long()?,
                            stat: StatPersisted::decode(from)?,
                        });
                    }
                    *part = Part::Signature;
                }
                Part::Signature => {
                    if limited(from, SIGNATURE.len())? != Some(SIGNATURE.as_bytes()) {
                        let what = "signature behind a snapshot";
                        return Err(DecodeError::Value { what, value: 0 });
                    }
                    *part = Part::Done;
                }
                Part::Done => return Ok(SnapshotRecord::End),
            }
        }
    }

    fn acl(&self, from: &mut Decoder<'_>) -> Result<Vec<Acl>, DecodeError> {
        let began = from.position();
        let length = from.int()?;
        if length == -1 {
            return Err(DecodeError::Null { at: began });
        }
        let mut acl = Vec::new();
        for _ in 0..length {
            let at = from.position();
            let left = self.record_bytes_max.saturating_sub(at - began);
            if left == 0 {
                return Err(DecodeError::Length { at: began, length });
            }
            let perms = Perms::decode(from)?;
            let mut text = || {
                let text = limited(from, left)?.unwrap_or_default();
                Ok(String::from_utf8_lossy(text).into_owned())
            };
            acl.push(Acl { perms, id: Id { scheme: text()?, id: text()? } });
        }
        Ok(acl)
    }
}

/// Negative counts mean zero, as in the original.
fn count(from: &mut Decoder<'_>) -> Result<u32, DecodeError> {
    Ok(u32::try_from(from.int()?).unwrap_or(0))
}

/// Appends the start of a snapshot: sessions with their timeouts in milliseconds, and ACLs by their
/// numbers.
pub fn encode_tables<A: AsRef<[Acl]>>(
    sessions: &[(SessionId, i32)],
    acls: &[(i64, A)],
    out: &mut Encoder<'_>,
) {
    out.count(sessions.len());
    for (id, timeout_ms) in sessions {
        id.encode(out);
        out.int(*timeout_ms);
    }
    out.count(acls.len());
    for (id, acl) in acls {
        out.long(*id);
        out.vector(Some(acl.as_ref()));
    }
}

/// Appends a znode. The root, with the empty path, comes first, and parents before children.
///
/// # Panics
/// For the path that marks the end.
pub fn encode_node(
    path: &str,
    data: Option<&[u8]>,
    acl: i64,
    stat: &StatPersisted,
    out: &mut Encoder<'_>,
) {
    assert_ne!(path, END, "this path marks the end of the znodes");
    out.reserve(NODE_FIXED_BYTES + path.len() + data.map_or(0, <[u8]>::len));
    out.text(path);
    out.buffer(data);
    out.long(acl);
    stat.encode(out);
}

/// Appends the end and the signature.
pub fn encode_end(out: &mut Encoder<'_>) {
    out.text(END);
    out.text(SIGNATURE);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample() -> Vec<u8> {
        let mut bytes = Vec::new();
        let mut out = Encoder::new(&mut bytes);
        let sessions = [(SessionId(5), 10_000), (SessionId(6), 20_000)];
        encode_tables(&sessions, &[(1, Acl::read_only()), (2, Acl::open())], &mut out);
        let stat = StatPersisted { version: 7, ..StatPersisted::default() };
        encode_node("", Some(b""), -1, &stat, &mut out);
        encode_node("/a", Some(b"hello"), 2, &stat, &mut out);
        encode_node("/b", None, 1, &stat, &mut out);
        encode_end(&mut out);
        bytes
    }

    /// Everything in `bytes`, handed over in steps of `step` bytes.
    fn read(bytes: &[u8], step: usize) -> Result<(Vec<String>, usize), DecodeError> {
        let mut reader = SnapshotReader::new(1000);
        let mut records = Vec::new();
        let (mut taken, mut there) = (0, 0);
        while !reader.is_done() {
            match reader.next(&bytes[taken..there])? {
                Some((record, size)) => {
                    assert!(size > 0);
                    records.push(format!("{record:?}"));
                    taken += size;
                }
                None if there == bytes.len() => break,
                None => there = bytes.len().min(there + step),
            }
        }
        Ok((records, taken))
    }

    #[test]
    fn the_pieces_do_not_matter() {
        let bytes = sample();
        let whole = read(&bytes, bytes.len()).unwrap();
        assert_eq!((whole.0.len(), whole.1), (8, bytes.len()));
        for step in [1, 2, 3, 7, 50] {
            assert_eq!(read(&bytes, step).as_ref(), Ok(&whole), "{step}");
        }
        let mut longer = bytes.clone();
        longer.extend([0, 0, 0, 10]);
        assert_eq!(read(&longer, 5), Ok(whole), "packets behind it are left");
        for cut in 0..bytes.len() {
            assert!(!read(&bytes[..cut], 10).unwrap().0.contains(&"End".to_owned()), "{cut}");
        }
    }

    #[test]
    fn what_is_passed_over_ends_where_what_is_read_does() {
        let mut bytes = sample();
        let mut end = Vec::new();
        encode_end(&mut Encoder::new(&mut end));
        let (whole, content) = (bytes.len(), bytes.len() - end.len());
        bytes.extend([0, 0, 0, 10]);
        for step in [1, 2, 3, 7, 50, bytes.len()] {
            let mut reader = SnapshotReader::new(1000);
            let (mut all, mut there) = (Skipped::default(), 0);
            while !reader.is_done() {
                there = bytes.len().min(there + step);
                let skipped = reader.skip(&bytes[all.bytes..there]).unwrap();
                if skipped.content > 0 {
                    all.content = all.bytes + skipped.content;
                }
                all.bytes += skipped.bytes;
                all.znodes += skipped.znodes;
            }
            assert_eq!(all, Skipped { bytes: whole, content, znodes: 3 }, "{step}");
        }
        let mut reader = SnapshotReader::new(4);
        assert!(matches!(reader.skip(&bytes), Err(DecodeError::Length { .. })), "hello");
    }

    #[test]
    fn an_empty_snapshot_ends_too() {
        let mut bytes = Vec::new();
        let none: [(i64, Vec<Acl>); 0] = [];
        encode_tables(&[], &none, &mut Encoder::new(&mut bytes));
        encode_end(&mut Encoder::new(&mut bytes));
        assert_eq!(read(&bytes, 1), Ok((vec!["End".to_owned()], bytes.len())));
        let skipped = Skipped { bytes: bytes.len(), content: 8, znodes: 0 };
        assert_eq!(SnapshotReader::new(1000).skip(&bytes), Ok(skipped), "both counts are content");
    }

    #[test]
    fn another_signature_is_refused() {
        let mut bytes = sample();
        *bytes.last_mut().unwrap() ^= 1;
        assert!(matches!(read(&bytes, 9), Err(DecodeError::Value { .. })));
    }

    #[test]
    fn lengths_beyond_the_limit_do_not_wait_for_their_bytes() {
        let tables = [0; 8];
        let path = [0, 0, 3, 0xe9];
        let bytes = [&tables[..], &path].concat();
        assert_eq!(read(&bytes, 4), Err(DecodeError::Length { at: 8, length: 1001 }));
        let data = [0, 0, 0, 1, b'x', 0x7f, 0xff, 0xff, 0xff];
        let bytes = [&tables[..], &data].concat();
        assert_eq!(read(&bytes, 4), Err(DecodeError::Length { at: 13, length: i32::MAX }));
        // An ACL of more entries than anybody can have given.
        let mut bytes =
            vec![0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 1, 0x7f, 0xff, 0xff, 0xff];
        bytes.extend([0; 1200]);
        assert!(matches!(read(&bytes, 100), Err(DecodeError::Length { at: 16, .. })));
    }
}

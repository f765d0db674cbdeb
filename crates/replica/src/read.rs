//! Reads: requests answered from the current tree, including those that set watches.
//!
//! The caller holds a lock on the tree, so that a read and setting its watch are one step.
//! Source: `FinalRequestProcessor`.

use std::borrow::Cow;
use std::collections::BTreeMap;

use zebu_jute::{Decode, DecodeError, Decoder, Encode, Encoder};
use zebu_proto::reply::ReplyHeader;
use zebu_proto::request::{
    AddWatch, MultiHeader, MultiOp, PathKind, PathOnly, PathWatch, PersistentWatches, SetWatches,
    multi_ops,
};
use zebu_proto::{Acl, AclRef, ErrorCode, Id, OpCode, Perms, SessionId, WatcherType, Xid, Zxid};
use zebu_tree::{Node, Tree, WatchLists, WatchMode, WatcherId};

use crate::auth::{Schemes, masked};
use crate::faults;
use crate::frame::{bare_reply, fail, notification, reply};
use crate::long_reads::{CHILDREN_AT_ONCE_MAX, PART_BYTES_MAX, PART_OPS_MAX, may_take_long};

/// Default limit of an answer in bytes, equal to the limit of a connection's outbox. A limit is
/// needed: a one-megabyte multiRead could ask for a one-megabyte znode sixty thousand times, and a
/// znode may have any number of children.
pub const ANSWER_BYTES_MAX: usize = 64 << 20;

/// A longer ACL is compared with the client's ids only once in a multiRead.
const LONG_ACL: usize = 16;

/// The reading client.
#[derive(Clone, Copy)]
pub struct Reader<'r> {
    /// The server's schemes.
    pub schemes: &'r Schemes,
    /// The owner of watches it sets.
    pub watcher: WatcherId,
    /// Its session.
    pub session: SessionId,
    /// Its credentials.
    pub ids: &'r [Id],
    /// Longest answer in bytes; a longer one becomes an error.
    pub answer_bytes_max: usize,
}

/// How the connection continues after an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum After {
    /// It stays open.
    Keep,
    /// It closes once the answer is sent.
    Close,
    /// It stays open; the answer was too long and became an error.
    TooLong,
    /// Not answered yet: a long read, to be started with [`Reader::begin`].
    Long,
}

/// Why a read has no result.
pub(crate) enum Failure {
    Code(ErrorCode),
    Malformed,
    TooLong,
    /// The read must run in parts.
    Long,
    /// A later read of a list cannot be decoded. The results before it are still sent.
    MalformedLater,
}

impl From<ErrorCode> for Failure {
    fn from(code: ErrorCode) -> Self {
        Self::Code(code)
    }
}

impl From<DecodeError> for Failure {
    fn from(_: DecodeError) -> Self {
        Self::Malformed
    }
}

impl Reader<'_> {
    /// Answers one request that is not a write, and appends the answer to `out`. When a client sets
    /// its watches again, notifications of missed changes precede the answer.
    pub fn answer(
        &self,
        tree: &Tree,
        xid: Xid,
        op: OpCode,
        body: &[u8],
        out: &mut Vec<u8>,
    ) -> After {
        if may_take_long(op)
            && let Some(after) = self.at_once(tree, xid, op, body, out)
        {
            return after;
        }
        self.respond(tree, xid, op, body, false, out)
    }

    /// Like [`Reader::answer`], for callers that can wait: a long list of children, or a multiRead
    /// of several parts, is left to [`Reader::begin`].
    pub fn answer_or_defer(
        &self,
        tree: &Tree,
        xid: Xid,
        op: OpCode,
        body: &[u8],
        out: &mut Vec<u8>,
    ) -> After {
        self.respond(tree, xid, op, body, true, out)
    }

    fn respond(
        &self,
        tree: &Tree,
        xid: Xid,
        op: OpCode,
        body: &[u8],
        defers: bool,
        out: &mut Vec<u8>,
    ) -> After {
        let zxid = tree.last_zxid();
        let start = out.len();
        let header = ReplyHeader { xid, zxid, err: ErrorCode::OK };
        let mut failure = None;
        if matches!(op, OpCode::SET_WATCHES | OpCode::SET_WATCHES2) {
            // Notifications of missed changes are separate frames before the answer.
            match self.set_watches(tree, op, body, out) {
                Ok(true) => bare_reply(out, xid, zxid, ErrorCode::OK),
                // Missed changes are reported all the same.
                Ok(false) => bare_reply(out, xid, zxid, ErrorCode::QUOTA_EXCEEDED),
                Err(other) => failure = Some(other),
            }
        } else {
            reply(out, header, |encoder| {
                failure = self.body(tree, op, body, defers, encoder).err();
            });
        }
        let err = match failure {
            None => return After::Keep,
            Some(Failure::Code(code)) => code,
            Some(Failure::Malformed) => ErrorCode::MARSHALLING_ERROR,
            Some(Failure::TooLong) => {
                out.truncate(start);
                // Do not keep the large buffer for the rest of the connection.
                out.shrink_to(start.max(1 << 16));
                bare_reply(out, xid, zxid, ErrorCode::MARSHALLING_ERROR);
                return After::TooLong;
            }
            Some(Failure::Long) => {
                out.truncate(start);
                return After::Long;
            }
            Some(Failure::MalformedLater) => {
                fail(&mut out[start..], ErrorCode::MARSHALLING_ERROR);
                return After::Keep;
            }
        };
        out.truncate(start);
        if err == ErrorCode::UNIMPLEMENTED {
            bare_reply(out, xid, Zxid(-1), err);
            return After::Close;
        }
        bare_reply(out, xid, zxid, err);
        After::Keep
    }

    pub(crate) fn readable<'t>(&self, tree: &'t Tree, path: &str) -> Result<Node<'t>, ErrorCode> {
        let node = tree.node(path).ok_or(ErrorCode::NO_NODE)?;
        self.permit(&node, Perms::READ)?;
        Ok(node)
    }

    fn permit(&self, node: &Node<'_>, wanted: Perms) -> Result<(), ErrorCode> {
        if self.schemes.permits(node.acl(), wanted, self.ids) {
            Ok(())
        } else {
            Err(ErrorCode::NO_AUTH)
        }
    }

    /// Inlined because servers spend most of their time on reads: a separate function costs 5 %
    /// more instructions per read.
    #[inline(always)]
    fn body(
        &self,
        tree: &Tree,
        op: OpCode,
        body: &[u8],
        defers: bool,
        out: &mut Encoder<'_>,
    ) -> Result<(), Failure> {
        let from = &mut Decoder::new(body);
        match op {
            OpCode::PING => {}
            OpCode::GET_DATA => {
                let (path, watch) = path_and_watch(from)?;
                self.get_data(&self.readable(tree, &path)?, out);
                if watch {
                    self.watch(tree, &path, WatchMode::Data)?;
                }
            }
            OpCode::EXISTS => {
                let (path, watch) = path_and_watch(from)?;
                if path.contains('\0') {
                    return Err(ErrorCode::BAD_ARGUMENTS.into());
                }
                let found = self.readable(tree, &path);
                if watch && !matches!(found, Err(ErrorCode::NO_AUTH)) {
                    self.watch(tree, &path, WatchMode::Data)?;
                }
                found?.stat().encode(out);
            }
            OpCode::GET_CHILDREN | OpCode::GET_CHILDREN2 => {
                let (path, watch) = path_and_watch(from)?;
                let node = self.readable(tree, &path)?;
                if defers && node.child_count() > CHILDREN_AT_ONCE_MAX {
                    return Err(Failure::Long);
                }
                self.children(&node, out)?;
                if op == OpCode::GET_CHILDREN2 {
                    node.stat().encode(out);
                }
                if watch {
                    self.watch(tree, &path, WatchMode::Child)?;
                }
            }
            OpCode::GET_ACL => {
                let path = required_path(from)?;
                let node = tree.node(&path).ok_or(ErrorCode::NO_NODE)?;
                self.get_acl(&node, out)?;
            }
            OpCode::GET_ALL_CHILDREN_NUMBER => {
                // Descendants of other znodes are counted in parts.
                let path = required_path(from)?;
                let node = self.readable(tree, &path)?;
                // The root, whose name is empty, counts itself, as in the original.
                let count = node.descendants() + usize::from(path.is_empty());
                out.int(i32::try_from(count).unwrap_or(i32::MAX));
            }
            // The permitted cases were answered earlier.
            OpCode::GET_EPHEMERALS => return Err(Failure::Malformed),
            OpCode::SYNC => {
                PathOnly::decode(from)?.path.encode(out);
            }
            OpCode::ADD_WATCH => {
                self.add_watch(tree, AddWatch::decode(from)?)?;
                out.int(0);
            }
            OpCode::CHECK_WATCHES | OpCode::REMOVE_WATCHES => {
                let PathKind { path, kind } = PathKind::decode(from)?;
                let kind = WatcherType::from_wire(kind).ok_or(Failure::Malformed)?;
                let found = path.is_some_and(|path| match op {
                    OpCode::CHECK_WATCHES => tree.has_watch(&path, self.watcher, kind),
                    _ => tree.remove_watch(&path, self.watcher, kind),
                });
                if !found {
                    return Err(ErrorCode::NO_WATCHER.into());
                }
            }
            OpCode::MULTI_READ => {
                let ops = match multi_ops(from, true) {
                    Ok(ops) => ops,
                    // Writes that can be decoded fail individually, so the first one fails.
                    Err(_) => multi_ops(&mut Decoder::new(body), false)?,
                };
                self.multi_read(tree, &ops, defers, out)?;
            }
            OpCode::WHO_AM_I => {
                self.schemes.who_am_i(self.ids).encode(out);
            }
            _ => return Err(ErrorCode::UNIMPLEMENTED.into()),
        }
        Ok(())
    }

    /// An ACL, whose ids are masked for a client that may only read it.
    #[inline]
    fn get_acl(&self, node: &Node<'_>, out: &mut Encoder<'_>) -> Result<(), ErrorCode> {
        self.permit(node, Perms::READ.or(Perms::ADMIN))?;
        let open = self.permit(node, Perms::ADMIN).is_ok();
        out.count(node.acl().len());
        for entry in node.acl() {
            if open { AclRef::from(entry) } else { masked(entry) }.encode(out);
        }
        node.stat().encode(out);
        Ok(())
    }

    fn add_watch(&self, tree: &Tree, request: AddWatch) -> Result<(), Failure> {
        let mode = match request.mode {
            0 => WatchMode::Persistent,
            1 => WatchMode::PersistentRecursive,
            _ => return Err(Failure::Malformed),
        };
        // The original treats null as a path that never exists.
        if let Some(path) = request.path {
            self.watch(tree, &path, mode)?;
        }
        Ok(())
    }

    /// Executes the reads of a list, up to the first that is none.
    #[inline]
    fn multi_read(
        &self,
        tree: &Tree,
        ops: &[MultiOp<'_>],
        defers: bool,
        out: &mut Encoder<'_>,
    ) -> Result<(), Failure> {
        if defers && ops.len() > PART_OPS_MAX && ops[0].is_read() {
            return Err(Failure::Long);
        }
        let start = out.position();
        let mut permitted = BTreeMap::new();
        let mut whole = true;
        for op in ops {
            if defers && out.position() - start > PART_BYTES_MAX {
                return Err(Failure::Long);
            }
            whole = self.sub_read(tree, op, defers, &mut permitted, out)?;
            if out.position() - start > self.answer_bytes_max {
                return Err(Failure::TooLong);
            }
            if !whole {
                break;
            }
        }
        MultiHeader::END.encode(out);
        if whole { Ok(()) } else { Err(Failure::MalformedLater) }
    }

    fn watch(&self, tree: &Tree, path: &str, mode: WatchMode) -> Result<(), ErrorCode> {
        if tree.add_watch(path, self.watcher, mode) {
            Ok(())
        } else {
            Err(ErrorCode::QUOTA_EXCEEDED)
        }
    }

    #[inline(always)]
    fn get_data(&self, node: &Node<'_>, out: &mut Encoder<'_>) {
        out.buffer(node.data());
        node.stat().encode(out);
    }

    /// Executes one read of a list. False if it is not a read or has no path: the list ends there.
    ///
    /// `permitted` caches decisions on long ACLs, since the reads of a list often meet the same
    /// one. If the caller `defers`, a long list of children is not started.
    pub(crate) fn sub_read(
        &self,
        tree: &Tree,
        op: &MultiOp<'_>,
        defers: bool,
        permitted: &mut BTreeMap<*const Acl, bool>,
        out: &mut Encoder<'_>,
    ) -> Result<bool, Failure> {
        let kind = match op {
            MultiOp::GetData(_) => OpCode::GET_DATA,
            MultiOp::GetChildren(_) => OpCode::GET_CHILDREN,
            _ => return Ok(false),
        };
        let Some(path) = op.path() else { return Ok(false) };
        let node = tree.node(path).ok_or(ErrorCode::NO_NODE).and_then(|node| {
            let check = || self.permit(&node, Perms::READ).is_ok();
            let may_read = match node.acl() {
                acl if acl.len() > LONG_ACL => *permitted.entry(acl.as_ptr()).or_insert_with(check),
                _ => check(),
            };
            if may_read { Ok(node) } else { Err(ErrorCode::NO_AUTH) }
        });
        match node {
            Ok(node) => {
                let is_list = kind == OpCode::GET_CHILDREN;
                if defers && is_list && node.child_count() > CHILDREN_AT_ONCE_MAX {
                    return Err(Failure::Long);
                }
                MultiHeader { op: kind, done: false, err: 0 }.encode(out);
                if kind == OpCode::GET_DATA {
                    self.get_data(&node, out);
                } else {
                    self.children(&node, out)?;
                }
            }
            Err(code) => refused_read(code, out),
        }
        Ok(true)
    }

    fn children(&self, node: &Node<'_>, out: &mut Encoder<'_>) -> Result<(), Failure> {
        let most = out.position().saturating_add(self.answer_bytes_max);
        let count = node.child_count() as usize;
        // Each name has at least a length prefix.
        if count > self.answer_bytes_max / 4 {
            return Err(Failure::TooLong);
        }
        out.count(count);
        for name in node.children() {
            out.text(name);
            if out.position() > most {
                return Err(Failure::TooLong);
            }
        }
        Ok(())
    }

    fn set_watches(
        &self,
        tree: &Tree,
        op: OpCode,
        body: &[u8],
        out: &mut Vec<u8>,
    ) -> Result<bool, Failure> {
        let from = &mut Decoder::new(body);
        let SetWatches { relative_zxid, data, exist, child } = SetWatches::decode(from)?;
        let PersistentWatches { persistent, recursive } = if op == OpCode::SET_WATCHES2 {
            PersistentWatches::decode(from)?
        } else {
            PersistentWatches { persistent: vec![], recursive: vec![] }
        };
        let persistent: Vec<_> = persistent.into_iter().flatten().collect();
        let recursive: Vec<_> = recursive.into_iter().flatten().collect();
        let lists = WatchLists {
            data: &data,
            exist: &exist,
            child: &child,
            persistent: &persistent,
            recursive: &recursive,
        };
        let relative_zxid =
            if faults::missed_events_dropped() { tree.last_zxid() } else { relative_zxid };
        let missed = &mut |event, path: &str| notification(out, event, path, Zxid(-1));
        Ok(tree.set_watches(relative_zxid, &lists, self.watcher, missed))
    }
}

/// The result of a refused read in a list.
pub(crate) fn refused_read(code: ErrorCode, out: &mut Encoder<'_>) {
    MultiHeader { op: OpCode::ERROR, done: false, err: code.0 }.encode(out);
    code.encode(out);
}

fn required_path<'a>(from: &mut Decoder<'a>) -> Result<Cow<'a, str>, Failure> {
    PathOnly::decode(from)?.path.ok_or(Failure::Malformed)
}

fn path_and_watch<'a>(from: &mut Decoder<'a>) -> Result<(Cow<'a, str>, bool), Failure> {
    let PathWatch { path, watch } = PathWatch::decode(from)?;
    Ok((path.ok_or(Failure::Malformed)?, watch))
}

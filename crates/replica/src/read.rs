//! Reads: everything that is answered from the tree as it is, watches included.
//!
//! The caller holds the tree still, so that a read and the watch it leaves are one step.
//! Source: `FinalRequestProcessor`.

use std::borrow::Cow;

use zebu_jute::{Decode, DecodeError, Decoder, Encode, Encoder};
use zebu_proto::reply::ReplyHeader;
use zebu_proto::request::{
    AddWatch, MultiHeader, MultiOp, PathKind, PathOnly, PathWatch, PersistentWatches, SetWatches,
    multi_ops,
};
use zebu_proto::{AclRef, ErrorCode, Id, OpCode, Perms, SessionId, WatcherType, Xid, Zxid};
use zebu_tree::{Node, Tree, WatchLists, WatchMode, WatcherId};

use crate::auth::{Schemes, masked};
use crate::frame::{bare_reply, fail, notification, reply};

/// Longest list that a multiRead is answered with, as much as may wait in a connection's outbox. A
/// request of a megabyte could ask for a znode of a megabyte sixty thousand times.
const LIST_BYTES_MAX: usize = 64 << 20;

/// Who reads.
#[derive(Clone, Copy)]
pub struct Reader<'r> {
    /// The server's schemes.
    pub schemes: &'r Schemes,
    /// Who owns the watches it leaves.
    pub watcher: WatcherId,
    /// Its session.
    pub session: SessionId,
    /// Its ids.
    pub ids: &'r [Id],
}

/// What becomes of the connection after an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum After {
    /// It goes on.
    Keep,
    /// It is closed once the answer is out.
    Close,
}

/// Why a read has no result.
enum Failure {
    Code(ErrorCode),
    Malformed,
    /// Something in the middle of a list: what was read before it is answered, too.
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
    /// Answers one request that is not a write, appending the answer's frame to `out`, and in front
    /// of it the notifications that setting watches again catches up on.
    pub fn answer(
        &self,
        tree: &Tree,
        xid: Xid,
        op: OpCode,
        body: &[u8],
        out: &mut Vec<u8>,
    ) -> After {
        let zxid = tree.last_zxid();
        let start = out.len();
        let header = ReplyHeader { xid, zxid, err: ErrorCode::OK };
        let mut failure = None;
        if matches!(op, OpCode::SET_WATCHES | OpCode::SET_WATCHES2) {
            // Catch-up notifications are frames of their own, so they come before the answer's.
            failure = self.set_watches(tree, op, body, out).err();
            if failure.is_none() {
                bare_reply(out, xid, zxid, ErrorCode::OK);
            }
        } else {
            reply(out, header, |encoder| {
                failure = self.body(tree, op, body, encoder).err();
            });
        }
        let err = match failure {
            None => return After::Keep,
            Some(Failure::Code(code)) => code,
            Some(Failure::Malformed) => ErrorCode::MARSHALLING_ERROR,
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

    fn readable<'t>(&self, tree: &'t Tree, path: &str) -> Result<Node<'t>, ErrorCode> {
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

    fn body(
        &self,
        tree: &Tree,
        op: OpCode,
        body: &[u8],
        out: &mut Encoder<'_>,
    ) -> Result<(), Failure> {
        let from = &mut Decoder::new(body);
        match op {
            OpCode::PING => {}
            OpCode::GET_DATA => {
                let (path, watch) = path_and_watch(from)?;
                self.get_data(&self.readable(tree, &path)?, out);
                if watch {
                    tree.add_watch(&path, self.watcher, WatchMode::Data);
                }
            }
            OpCode::EXISTS => {
                let (path, watch) = path_and_watch(from)?;
                if path.contains('\0') {
                    return Err(ErrorCode::BAD_ARGUMENTS.into());
                }
                let found = self.readable(tree, &path);
                if watch && !matches!(found, Err(ErrorCode::NO_AUTH)) {
                    tree.add_watch(&path, self.watcher, WatchMode::Data);
                }
                found?.stat().encode(out);
            }
            OpCode::GET_CHILDREN | OpCode::GET_CHILDREN2 => {
                let (path, watch) = path_and_watch(from)?;
                let node = self.readable(tree, &path)?;
                children(&node, out);
                if op == OpCode::GET_CHILDREN2 {
                    node.stat().encode(out);
                }
                if watch {
                    tree.add_watch(&path, self.watcher, WatchMode::Child);
                }
            }
            OpCode::GET_ACL => {
                let path = required_path(from)?;
                let node = tree.node(&path).ok_or(ErrorCode::NO_NODE)?;
                self.permit(&node, Perms::READ.or(Perms::ADMIN))?;
                let open = self.permit(&node, Perms::ADMIN).is_ok();
                out.count(node.acl().len());
                for entry in node.acl() {
                    if open { AclRef::from(entry) } else { masked(entry) }.encode(out);
                }
                node.stat().encode(out);
            }
            OpCode::GET_ALL_CHILDREN_NUMBER => {
                let path = required_path(from)?;
                let node = self.readable(tree, &path)?;
                // By its empty name the root counts itself, as it does for the original.
                let count = node.descendants() + usize::from(path.is_empty());
                out.int(i32::try_from(count).unwrap_or(i32::MAX));
            }
            OpCode::GET_EPHEMERALS => {
                let prefix = PathOnly::decode(from)?.path.unwrap_or_default();
                let prefix = if prefix.trim().is_empty() { "/" } else { &*prefix };
                let paths: Vec<String> =
                    tree.ephemerals(self.session).filter(|path| path.starts_with(prefix)).collect();
                paths.encode(out);
            }
            OpCode::SYNC => {
                PathOnly::decode(from)?.path.encode(out);
            }
            OpCode::ADD_WATCH => {
                let AddWatch { path, mode } = AddWatch::decode(from)?;
                let mode = match mode {
                    0 => WatchMode::Persistent,
                    1 => WatchMode::PersistentRecursive,
                    _ => return Err(Failure::Malformed),
                };
                // The original takes a null for a path that never exists.
                if let Some(path) = path {
                    tree.add_watch(&path, self.watcher, mode);
                }
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
                    // Writes that can be read fail one by one, that is at the first.
                    Err(_) => multi_ops(&mut Decoder::new(body), false)?,
                };
                let start = out.position();
                let room = |out: &Encoder<'_>| out.position() - start <= LIST_BYTES_MAX;
                let whole = ops.iter().all(|op| room(out) && self.sub_read(tree, op, out));
                if !room(out) {
                    return Err(Failure::Malformed);
                }
                MultiHeader::END.encode(out);
                if !whole {
                    return Err(Failure::MalformedLater);
                }
            }
            OpCode::WHO_AM_I => {
                self.schemes.who_am_i(self.ids).encode(out);
            }
            _ => return Err(ErrorCode::UNIMPLEMENTED.into()),
        }
        Ok(())
    }

    fn get_data(&self, node: &Node<'_>, out: &mut Encoder<'_>) {
        out.buffer(node.data());
        node.stat().encode(out);
    }

    /// One read of a list; false where it is none or has no path, and the list ends.
    fn sub_read(&self, tree: &Tree, op: &MultiOp<'_>, out: &mut Encoder<'_>) -> bool {
        let kind = match op {
            MultiOp::GetData(_) => OpCode::GET_DATA,
            MultiOp::GetChildren(_) => OpCode::GET_CHILDREN,
            _ => return false,
        };
        let Some(path) = op.path() else { return false };
        match self.readable(tree, path) {
            Ok(node) => {
                MultiHeader { op: kind, done: false, err: 0 }.encode(out);
                if kind == OpCode::GET_DATA {
                    self.get_data(&node, out);
                } else {
                    children(&node, out);
                }
            }
            Err(code) => {
                MultiHeader { op: OpCode::ERROR, done: false, err: code.0 }.encode(out);
                code.encode(out);
            }
        }
        true
    }

    fn set_watches(
        &self,
        tree: &Tree,
        op: OpCode,
        body: &[u8],
        out: &mut Vec<u8>,
    ) -> Result<(), Failure> {
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
        let relative_zxid = if zebu_proto::mutant!("missed events dropped") {
            tree.last_zxid()
        } else {
            relative_zxid
        };
        tree.set_watches(relative_zxid, &lists, self.watcher, &mut |event, path| {
            notification(out, event, path, Zxid(-1));
        });
        Ok(())
    }
}

fn required_path<'a>(from: &mut Decoder<'a>) -> Result<Cow<'a, str>, Failure> {
    PathOnly::decode(from)?.path.ok_or(Failure::Malformed)
}

fn path_and_watch<'a>(from: &mut Decoder<'a>) -> Result<(Cow<'a, str>, bool), Failure> {
    let PathWatch { path, watch } = PathWatch::decode(from)?;
    Ok((path.ok_or(Failure::Malformed)?, watch))
}

fn children(node: &Node<'_>, out: &mut Encoder<'_>) {
    out.count(node.child_count() as usize);
    for name in node.children() {
        out.text(name);
    }
}

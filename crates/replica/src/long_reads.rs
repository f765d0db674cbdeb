//! Reads whose cost is not bounded by the size of their answer. They run in parts, so that the tree
//! is not locked for long.
//!
//! A count of descendants or a list of ephemerals may or may not reflect changes made between two
//! parts. The original, which locks nothing for these, gives no other guarantee. A list of children
//! is consistent: it is that of the moment of its last part. In a multiRead each read is
//! consistent, but the tree may change between two reads, as in the original.
//!
//! Long lists are made in pieces, and the pieces are sent as they are: no long answer is copied
//! while the tree is locked.

use std::collections::BTreeMap;
use std::ops::Deref;

use zebu_jute::{Decode as _, Decoder, Encode as _, Encoder};
use zebu_proto::STAT_BYTES;
use zebu_proto::reply::ReplyHeader;
use zebu_proto::request::{MultiHeader, MultiOp, PathOnly, PathWatch};
use zebu_proto::{ErrorCode, OpCode, Xid, Zxid};
use zebu_tree::{Change, Count, Listed as Step, Listing, Tree, WatchMode};

use crate::frame;
use crate::read::{After, Failure, Reader, refused_read};

/// A znode with more children is listed in parts.
pub(crate) const CHILDREN_AT_ONCE_MAX: u32 = 2_048;

/// Maximum number of reads in one part of a multiRead.
pub(crate) const PART_OPS_MAX: usize = 512;

/// A part of a multiRead ends once its answers exceed this size.
pub(crate) const PART_BYTES_MAX: usize = 64 << 10;

/// A piece of a list gets no more names once it has this size.
const PIECE_BYTES: usize = 16 << 10;

/// How often a list of children restarts before it runs in one part. It restarts when very many of
/// its children are deleted between two parts.
const RESTARTS_MAX: u32 = 3;

/// Whether a read of this kind may be long whatever its answer.
pub fn may_take_long(op: OpCode) -> bool {
    matches!(op, OpCode::GET_ALL_CHILDREN_NUMBER | OpCode::GET_EPHEMERALS)
}

fn lists_children(op: OpCode) -> bool {
    matches!(op, OpCode::GET_CHILDREN | OpCode::GET_CHILDREN2)
}

/// Whether a read is, or may be, long. It then waits until nothing of its connection is in flight:
/// reads that are queued behind writes are answered with the tree locked.
///
/// `tree` is called only if the kind of the read does not decide.
pub fn waits_for_turn<T: Deref<Target = Tree>>(
    op: OpCode,
    body: &[u8],
    tree: impl FnOnce() -> T,
) -> bool {
    if op == OpCode::MULTI_READ {
        return has_parts(body, &tree()).unwrap_or(false);
    }
    if !lists_children(op) {
        return may_take_long(op);
    }
    let Ok(PathWatch { path: Some(path), .. }) = PathWatch::decode(&mut Decoder::new(body)) else {
        return false;
    };
    tree().node(&path).is_some_and(|node| node.child_count() > CHILDREN_AT_ONCE_MAX)
}

/// Whether a multiRead needs more than one part with the current tree; `None` if it cannot be
/// decoded.
fn has_parts(body: &[u8], tree: &Tree) -> Option<bool> {
    let from = &mut Decoder::new(body);
    let mut bytes = 0;
    for number in 0.. {
        let Some(op) = next_read(from).ok()? else { break };
        if number == PART_OPS_MAX || bytes > PART_BYTES_MAX {
            return Some(true);
        }
        let Some(node) = tree.node(op.path()?) else { continue };
        bytes += match op {
            MultiOp::GetChildren(_) if node.child_count() > CHILDREN_AT_ONCE_MAX => {
                return Some(true);
            }
            MultiOp::GetChildren(_) => node.children().map(|name| 4 + name.len()).sum(),
            _ => node.data().map_or(0, <[u8]>::len) + STAT_BYTES,
        };
    }
    Some(false)
}

/// The next read of a multiRead; `None` at its end.
fn next_read<'a>(from: &mut Decoder<'a>) -> Result<Option<MultiOp<'a>>, Failure> {
    let header = MultiHeader::decode(from)?;
    if header.done {
        return Ok(None);
    }
    let read = PathWatch::decode(from)?;
    match header.op {
        OpCode::GET_DATA => Ok(Some(MultiOp::GetData(read))),
        OpCode::GET_CHILDREN => Ok(Some(MultiOp::GetChildren(read))),
        _ => Err(Failure::Malformed),
    }
}

/// A long read in progress.
#[derive(Debug)]
pub struct LongRead {
    xid: Xid,
    op: OpCode,
    part: Part,
}

#[derive(Debug)]
enum Part {
    /// Counts descendants.
    Count(Count),
    /// Lists paths of ephemerals with a prefix.
    Ephemerals {
        prefix: String,
        last: Option<u32>,
        listed: Listed,
    },
    /// Lists the children of a znode.
    Children(Box<Children>),
    /// The reads of a multiRead.
    Several(Box<Several>),
    /// The body of the answer.
    Done(Body),
    /// The body of an answer that ends with an error because one of the reads has no path.
    Cut(Body),
    TooLong,
    Failed(ErrorCode),
}

/// A partial list of children.
#[derive(Debug)]
struct Children {
    path: String,
    /// Whether the client wants a watch on the children.
    watch: bool,
    /// `None` before the first part and before a restart.
    listing: Option<Listing>,
    listed: Listed,
    restarts: u32,
}

impl Children {
    fn of(path: String, watch: bool) -> Box<Self> {
        let (listing, listed, restarts) = (None, Listed::default(), 0);
        Box::new(Self { path, watch, listing, listed, restarts })
    }
}

/// A partially executed multiRead.
#[derive(Debug)]
struct Several {
    /// The request.
    body: Vec<u8>,
    /// Offset of the next read in `body`.
    at: usize,
    /// Results of the earlier reads.
    results: Vec<u8>,
    /// The last of the earlier reads, if it is an unfinished list of children.
    children: Option<Box<Children>>,
}

/// Encoded strings of a list, in pieces.
#[derive(Debug, Default)]
struct Listed {
    pieces: Vec<Piece>,
    bytes: usize,
    count: usize,
}

/// Consecutive strings of a list.
#[derive(Debug)]
struct Piece {
    bytes: Vec<u8>,
    /// The czxid of the last child.
    last: Zxid,
}

impl Listed {
    /// Appends a name. `czxid` does not decrease, if names are removed again.
    fn add(&mut self, czxid: Zxid, text: &str) {
        let is_full = self.pieces.last().is_none_or(|last| last.bytes.len() >= PIECE_BYTES);
        if is_full {
            let bytes = Vec::with_capacity(PIECE_BYTES + PIECE_BYTES / 16);
            self.pieces.push(Piece { bytes, last: czxid });
        }
        let Some(piece) = self.pieces.last_mut() else { return };
        piece.last = czxid;
        Encoder::new(&mut piece.bytes).text(text);
        self.count += 1;
        self.bytes += 4 + text.len();
    }

    /// Removes the first such name of a child. The caller notices by the number of names if there
    /// is none.
    fn remove(&mut self, czxid: Zxid, name: &str) {
        let first = self.pieces.partition_point(|piece| piece.last < czxid);
        for piece in &mut self.pieces[first..] {
            let mut at = 0;
            while let Some(length) = piece.bytes.get(at..).and_then(|rest| rest.first_chunk()) {
                let end = at + 4 + u32::from_be_bytes(*length) as usize;
                if piece.bytes.get(at + 4..end) == Some(name.as_bytes()) {
                    piece.bytes.drain(at..end);
                    self.count -= 1;
                    self.bytes -= end - at;
                    return;
                }
                at = end;
            }
            if piece.last > czxid {
                return;
            }
        }
    }

    /// The encoded list with its count.
    fn into_body(self) -> Body {
        let mut front = Vec::with_capacity(4);
        Encoder::new(&mut front).count(self.count);
        let pieces = self.pieces.into_iter().map(|piece| piece.bytes);
        Body { pieces: std::iter::once(front).chain(pieces).collect() }
    }
}

/// The body of an answer, in pieces.
#[derive(Debug)]
struct Body {
    pieces: Vec<Vec<u8>>,
}

impl From<Vec<u8>> for Body {
    fn from(bytes: Vec<u8>) -> Self {
        Self { pieces: vec![bytes] }
    }
}

impl LongRead {
    /// The operation.
    pub fn op(&self) -> OpCode {
        self.op
    }

    /// The request's xid.
    pub fn xid(&self) -> Xid {
        self.xid
    }
}

impl Reader<'_> {
    /// Starts a long read. `None` if the request is not one, or is answered at once. A multiRead
    /// always starts; a short one takes one part.
    pub fn begin(&self, tree: &Tree, xid: Xid, op: OpCode, body: &[u8]) -> Option<LongRead> {
        if lists_children(op) {
            let PathWatch { path, watch } = PathWatch::decode(&mut Decoder::new(body)).ok()?;
            let path = path?.into_owned();
            let node = self.readable(tree, &path).ok()?;
            if node.child_count() <= CHILDREN_AT_ONCE_MAX {
                return None;
            }
            let part = Part::Children(Children::of(path, watch));
            return Some(LongRead { xid, op, part });
        }
        if op == OpCode::MULTI_READ {
            let (body, results) = (body.to_vec(), Vec::new());
            let part = Part::Several(Box::new(Several { body, at: 0, results, children: None }));
            return Some(LongRead { xid, op, part });
        }
        let path = PathOnly::decode(&mut Decoder::new(body)).ok()?.path;
        let part = match op {
            OpCode::GET_ALL_CHILDREN_NUMBER => {
                let path = path.filter(|path| !matches!(&**path, "" | "/"))?;
                Part::Count(Count::below(&self.readable(tree, &path).ok()?))
            }
            OpCode::GET_EPHEMERALS => {
                let prefix = path.unwrap_or_default();
                let prefix = if prefix.trim().is_empty() { "/" } else { &*prefix };
                let (prefix, listed) = (prefix.to_owned(), Listed::default());
                Part::Ephemerals { prefix, last: None, listed }
            }
            _ => return None,
        };
        Some(LongRead { xid, op, part })
    }

    /// Visits up to `budget` more znodes. Returns true when the read is complete.
    pub fn go_on(&self, tree: &Tree, read: &mut LongRead, budget: usize) -> bool {
        match &mut read.part {
            Part::Count(count) => {
                let Some(count) = count.step(tree, budget) else { return false };
                let count = i32::try_from(count).unwrap_or(i32::MAX);
                read.part = Part::Done(count.to_bytes().into());
            }
            Part::Ephemerals { prefix, last, listed } => {
                let mut looked = 0;
                for (number, path) in tree.ephemerals_behind(self.session, *last).take(budget) {
                    looked += 1;
                    *last = Some(number);
                    if path.starts_with(&**prefix) {
                        listed.add(Zxid::ZERO, &path);
                    }
                }
                let is_long = listed.bytes > self.answer_bytes_max;
                if looked == budget && !is_long {
                    return false;
                }
                let listed = std::mem::take(listed);
                read.part = if is_long { Part::TooLong } else { Part::Done(listed.into_body()) };
            }
            Part::Children(children) => {
                let Some(done) = self.list(tree, read.op, children, budget) else { return false };
                read.part = done;
            }
            Part::Several(several) => {
                let Some(done) = self.read_several(tree, several, budget) else { return false };
                read.part = done;
            }
            Part::Done(_) | Part::Cut(_) | Part::TooLong | Part::Failed(_) => {}
        }
        true
    }

    /// Lists up to `budget` more children. Returns the result when all are listed.
    fn list(
        &self,
        tree: &Tree,
        op: OpCode,
        children: &mut Children,
        mut budget: usize,
    ) -> Option<Part> {
        loop {
            let Children { path, watch, listing, listed, restarts } = children;
            let node = match self.readable(tree, path) {
                Ok(node) => node,
                Err(code) => return Some(Part::Failed(code)),
            };
            // Each name has at least a length prefix.
            if node.child_count() as usize > self.answer_bytes_max / 4 {
                return Some(Part::TooLong);
            }
            if *restarts > RESTARTS_MAX {
                budget = usize::MAX;
            }
            let listing_now = listing.get_or_insert_with(|| Listing::of(&node));
            let step = listing_now.step(&node, budget, |change| match change {
                Change::Add { czxid, name } => listed.add(czxid, name),
                Change::Remove { czxid, name } => listed.remove(czxid, name),
            });
            if listed.bytes > self.answer_bytes_max {
                return Some(Part::TooLong);
            }
            let is_whole = listed.count == node.child_count() as usize;
            match step {
                Step::More => return None,
                Step::Lost | Step::All if step == Step::Lost || !is_whole => {
                    (*listing, *listed) = (None, Listed::default());
                    *restarts += 1;
                }
                Step::Lost | Step::All => {
                    if *watch && !tree.add_watch(path, self.watcher, WatchMode::Child) {
                        return Some(Part::Failed(ErrorCode::QUOTA_EXCEEDED));
                    }
                    let mut body = std::mem::take(listed).into_body();
                    if op == OpCode::GET_CHILDREN2 {
                        body.pieces.push(node.stat().to_bytes());
                    }
                    return Some(Part::Done(body));
                }
            }
        }
    }

    /// Executes up to `budget` more reads of a multiRead. Returns the result when all are done.
    fn read_several(&self, tree: &Tree, several: &mut Several, budget: usize) -> Option<Part> {
        let Several { body, at, results, children } = several;
        let before = results.len();
        // Only for this part: the map identifies an ACL by its address.
        let mut permitted = BTreeMap::new();
        for _ in 0..budget.min(PART_OPS_MAX) {
            let made = if let Some(list) = children {
                let list = self.list(tree, OpCode::GET_CHILDREN, list, budget)?;
                *children = None;
                let out = &mut Encoder::new(results);
                match list {
                    Part::Done(names) => {
                        let op = OpCode::GET_CHILDREN;
                        MultiHeader { op, done: false, err: 0 }.encode(out);
                        names.pieces.iter().for_each(|piece| out.raw(piece));
                        Ok(true)
                    }
                    Part::Failed(code) => {
                        refused_read(code, out);
                        Ok(true)
                    }
                    _ => Err(Failure::TooLong),
                }
            } else {
                let from = &mut Decoder::new(&body[*at..]);
                let op = match next_read(from) {
                    Ok(Some(op)) => op,
                    Ok(None) => {
                        MultiHeader::END.encode(&mut Encoder::new(results));
                        return Some(Part::Done(std::mem::take(results).into()));
                    }
                    Err(_) => return Some(Part::Failed(ErrorCode::MARSHALLING_ERROR)),
                };
                *at += from.position();
                let out = &mut Encoder::new(results);
                let made = self.sub_read(tree, &op, true, &mut permitted, out);
                if matches!(made, Err(Failure::Long)) {
                    let path = op.path().expect("a list of children has been looked for");
                    *children = Some(Children::of(path.to_owned(), false));
                    continue;
                }
                made
            };
            match made {
                Ok(_) if results.len() > self.answer_bytes_max => return Some(Part::TooLong),
                Ok(true) => {}
                Ok(false) => {
                    MultiHeader::END.encode(&mut Encoder::new(results));
                    return Some(Part::Cut(std::mem::take(results).into()));
                }
                Err(_) => return Some(Part::TooLong),
            }
            if results.len() - before > PART_BYTES_MAX {
                break;
            }
        }
        None
    }

    /// The answer of a completed read, in pieces.
    ///
    /// # Panics
    /// If the read is not complete.
    pub fn finish(&self, tree: &Tree, read: LongRead) -> (Vec<Vec<u8>>, After) {
        let zxid = tree.last_zxid();
        let (body, err, after) = match read.part {
            Part::Done(body) => (body.pieces, ErrorCode::OK, After::Keep),
            Part::Cut(body) => (body.pieces, ErrorCode::MARSHALLING_ERROR, After::Keep),
            Part::TooLong => (Vec::new(), ErrorCode::MARSHALLING_ERROR, After::TooLong),
            Part::Failed(code) => (Vec::new(), code, After::Keep),
            other => panic!("not everything was looked at: {other:?}"),
        };
        let length = body.iter().map(Vec::len).sum();
        let front = frame::reply_front(ReplyHeader { xid: read.xid, zxid, err }, length);
        (std::iter::once(front).chain(body).collect(), after)
    }

    /// Answers a long read in one part, for callers that keep the tree locked anyway. False if the
    /// request is not a long read.
    pub(crate) fn at_once(
        &self,
        tree: &Tree,
        xid: Xid,
        op: OpCode,
        body: &[u8],
        out: &mut Vec<u8>,
    ) -> Option<After> {
        let mut read = self.begin(tree, xid, op, body)?;
        while !self.go_on(tree, &mut read, usize::MAX) {}
        let (pieces, after) = self.finish(tree, read);
        pieces.iter().for_each(|piece| out.extend_from_slice(piece));
        Some(after)
    }
}

//! The whole tree on its way from a leader to a learner, as bytes.

use bytes::{Buf as _, BytesMut};
use zebu_jute::{DecodeError, Encoder};
use zebu_proto::Zxid;
use zebu_proto::snapshot::{
    Skipped, SnapshotReader, SnapshotRecord, encode_end, encode_node, encode_tables,
};
use zebu_store::{Received, SnapshotWriter, Snapshots, StoreError};
use zebu_tree::{DuplicateNode, Loader, Options, Tree, Walk};

use crate::{Outline, Step};

/// A tree that is being sent, while it goes on changing.
#[derive(Debug)]
pub struct Sending {
    walk: Walk,
    zxid: Zxid,
}

impl Sending {
    /// Begins with the tree as it is now: everything but the znodes goes to `out`.
    pub fn begin(tree: &Tree, out: &mut Vec<u8>) -> Self {
        let Outline { walk, zxid, sessions, acls } = Outline::of(tree);
        encode_tables(&sessions, &acls, &mut Encoder::new(out));
        Self { walk, zxid }
    }

    /// The transaction that the tree had applied last when this began.
    pub fn zxid(&self) -> Zxid {
        self.zxid
    }

    /// Adds so many znodes to `out`, and the end behind the last.
    pub fn step(&mut self, tree: &Tree, znodes: usize, out: &mut Vec<u8>) -> Step {
        self.fill(tree, znodes, usize::MAX, out)
    }

    /// The same, but only until `out` has this length: znodes may be large.
    pub fn fill(&mut self, tree: &Tree, znodes: usize, bytes: usize, out: &mut Vec<u8>) -> Step {
        if !self.walk.is_of(tree) {
            return Step::Replaced;
        }
        let done = self.walk.step_while(tree, znodes, &mut |path, data, acl, stat| {
            encode_node(path, data, acl, stat, &mut Encoder::new(out));
            out.len() < bytes
        });
        if !done {
            return Step::More;
        }
        encode_end(&mut Encoder::new(out));
        Step::Done
    }
}

/// A leader's tree that is being received: into memory, and into a file that is not in use yet.
#[derive(Debug)]
pub struct Receiving {
    cutting: Cutting,
    filing: Filing,
    entering: Entering,
}

/// The part of it that finds whole records, and the end.
#[derive(Debug)]
pub struct Cutting {
    reader: SnapshotReader,
    znodes: u64,
}

/// The part of it that goes to the disk, as it came.
#[derive(Debug)]
pub struct Filing {
    zxid: Zxid,
    writer: SnapshotWriter,
}

/// The part of it that becomes a tree in memory.
#[derive(Debug)]
pub struct Entering {
    zxid: Zxid,
    reader: SnapshotReader,
    loader: Loader,
}

/// A leader's tree that was received, and is durable.
#[derive(Debug)]
pub struct Copied {
    /// The tree; the leader went on changing it, so nobody knows its digest.
    pub tree: Tree,
    /// The file it is in, until the log installs it.
    pub file: Received,
    /// How many znodes came.
    pub znodes: u64,
}

/// Why a tree cannot be received.
#[derive(Debug, thiserror::Error)]
pub enum CopyError {
    /// It is not what the protocol says.
    #[error(transparent)]
    Decode(#[from] DecodeError),
    /// A znode is none.
    #[error("znode {path}: {reason}")]
    Znode {
        /// Its path.
        path: String,
        /// What is wrong with it.
        reason: String,
    },
    /// A znode came twice.
    #[error(transparent)]
    Duplicate(#[from] DuplicateNode),
    /// The disk.
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl Receiving {
    /// Begins to receive a tree as of `zxid`; fields longer than `field_bytes_max` are refused.
    ///
    /// # Errors
    /// The file cannot be created.
    pub fn begin(
        snapshots: &Snapshots,
        zxid: Zxid,
        options: Options,
        field_bytes_max: usize,
    ) -> Result<Self, StoreError> {
        let reader = SnapshotReader::new(field_bytes_max);
        let cutting = Cutting { reader: reader.clone(), znodes: 0 };
        let filing = Filing { zxid, writer: snapshots.begin_copy(zxid)? };
        let entering = Entering { zxid, reader, loader: Loader::new(options) };
        Ok(Self { cutting, filing, entering })
    }

    /// Its parts, for threads of their own: what the first one has cut is for both others to take.
    pub fn split(self) -> (Cutting, Filing, Entering) {
        (self.cutting, self.filing, self.entering)
    }

    /// Takes what is whole out of what was received, and writes it; true when that was the end.
    ///
    /// # Errors
    /// The tree is of no use.
    pub fn take(&mut self, received: &mut BytesMut) -> Result<bool, CopyError> {
        let cut = self.cutting.cut(received)?;
        self.filing.take(&received[..cut.content])?;
        self.entering.take(&received[..cut.bytes])?;
        received.advance(cut.bytes);
        Ok(self.cutting.is_done())
    }

    /// Makes everything durable, once the end was taken.
    ///
    /// # Errors
    /// The disk, or a znode that came twice; the tree is of no use.
    ///
    /// # Panics
    /// Before the end was taken.
    pub fn complete(self) -> Result<Copied, CopyError> {
        let tree = self.entering.complete()?;
        let file = self.filing.complete()?;
        Ok(Copied { tree, file, znodes: self.cutting.znodes })
    }
}

impl Cutting {
    /// Finds what is whole at the front of what was received, and was not cut off yet.
    ///
    /// # Errors
    /// The tree is of no use.
    pub fn cut(&mut self, received: &[u8]) -> Result<Skipped, DecodeError> {
        let cut = self.reader.skip(received)?;
        self.znodes += cut.znodes;
        Ok(cut)
    }

    /// Whether the end was found.
    pub fn is_done(&self) -> bool {
        self.reader.is_done()
    }

    /// How many znodes came.
    pub fn znodes(&self) -> u64 {
        self.znodes
    }
}

impl Filing {
    /// Writes what is in front of the end, in pieces that may end anywhere.
    ///
    /// # Errors
    /// The disk; the tree is of no use.
    pub fn take(&mut self, content: &[u8]) -> Result<(), StoreError> {
        self.writer.encoded(content)
    }

    /// Makes everything durable, once all was written.
    ///
    /// # Errors
    /// The disk; the tree is of no use.
    pub fn complete(self) -> Result<Received, StoreError> {
        self.writer.complete(None, Some(self.zxid))
    }
}

impl Entering {
    /// Takes whole records.
    ///
    /// # Errors
    /// The tree is of no use.
    pub fn take(&mut self, received: &[u8]) -> Result<(), CopyError> {
        let mut at = 0;
        while !self.reader.is_done() {
            let Some((record, bytes)) = self.reader.next(&received[at..])? else { break };
            match record {
                SnapshotRecord::Session { id, timeout_ms } => self.loader.session(id, timeout_ms),
                SnapshotRecord::Acl { id, acl } => self.loader.acl(id, acl),
                SnapshotRecord::Node { path, data, acl, stat } => {
                    self.loader.node(&path, data, acl, &stat).map_err(|error| {
                        CopyError::Znode { path: path.to_string(), reason: error.to_string() }
                    })?;
                }
                SnapshotRecord::End => {}
            }
            at += bytes;
        }
        assert_eq!(at, received.len(), "whole records");
        Ok(())
    }

    /// Whether the end was taken.
    pub fn is_done(&self) -> bool {
        self.reader.is_done()
    }

    /// The tree, once the end was taken; the leader went on changing it, so nobody knows its digest.
    ///
    /// # Errors
    /// A znode came twice.
    ///
    /// # Panics
    /// Before the end was taken.
    pub fn complete(self) -> Result<Tree, DuplicateNode> {
        assert!(self.reader.is_done(), "a whole tree");
        let mut tree = self.loader.finish()?;
        tree.set_last_zxid(self.zxid);
        tree.distrust_digests();
        Ok(tree)
    }
}

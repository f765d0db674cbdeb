//! Snapshot transfer from a leader to a learner, as bytes.

use bytes::{Buf as _, BytesMut};
use zebu_jute::{DecodeError, Encoder};
use zebu_proto::Zxid;
use zebu_proto::snapshot::{
    Skipped, SnapshotReader, SnapshotRecord, encode_end, encode_node, encode_tables,
};
use zebu_store::{Received, SnapshotWriter, Snapshots, StoreError};
use zebu_tree::{DuplicateNode, Loader, Options, Tree, Walk};

use crate::{Outline, Step};

/// A snapshot being sent, while the tree may change.
#[derive(Debug)]
pub struct Sending {
    walk: Walk,
    zxid: Zxid,
}

impl Sending {
    /// Starts with the current tree: writes everything but the znodes to `out`.
    pub fn begin(tree: &Tree, out: &mut Vec<u8>) -> Self {
        let Outline { walk, zxid, sessions, acls } = Outline::of(tree);
        encode_tables(&sessions, &acls, &mut Encoder::new(out));
        Self { walk, zxid }
    }

    /// The last transaction applied when the transfer started.
    pub fn zxid(&self) -> Zxid {
        self.zxid
    }

    /// Appends up to `znodes` znodes to `out`, and the end marker after the last one.
    pub fn step(&mut self, tree: &Tree, znodes: usize, out: &mut Vec<u8>) -> Step {
        self.fill(tree, znodes, usize::MAX, out)
    }

    /// Like [`Self::step`], but stops when `out` has reached `bytes`: znodes may be large.
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

/// A leader's snapshot being received, into memory and into a file that is not in use yet.
#[derive(Debug)]
pub struct Receiving {
    cutting: Cutting,
    filing: Filing,
    entering: Entering,
}

/// The part that finds complete records and the end.
#[derive(Debug)]
pub struct Cutting {
    reader: SnapshotReader,
    znodes: u64,
}

/// The part that writes the received bytes to disk.
#[derive(Debug)]
pub struct Filing {
    zxid: Zxid,
    writer: SnapshotWriter,
}

/// The part that builds the tree in memory.
#[derive(Debug)]
pub struct Entering {
    zxid: Zxid,
    reader: SnapshotReader,
    loader: Loader,
}

/// A leader's snapshot, received and durable.
#[derive(Debug)]
pub struct Copied {
    /// The tree. The leader changed it during the transfer, so its digest is unknown.
    pub tree: Tree,
    /// Its file, until the log installs it.
    pub file: Received,
    /// Number of znodes.
    pub znodes: u64,
}

/// Why receiving a snapshot failed.
#[derive(Debug, thiserror::Error)]
pub enum CopyError {
    /// The bytes violate the protocol.
    #[error(transparent)]
    Decode(#[from] DecodeError),
    /// A znode is invalid.
    #[error("znode {path}: {reason}")]
    Znode {
        /// Its path.
        path: String,
        /// The reason.
        reason: String,
    },
    /// Two znodes have the same path.
    #[error(transparent)]
    Duplicate(#[from] DuplicateNode),
    /// The disk failed.
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl Receiving {
    /// Starts to receive a snapshot as of `zxid`. Fields longer than `field_bytes_max` are refused.
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

    /// The parts, for separate threads. The other two take the records that the first one has cut.
    pub fn split(self) -> (Cutting, Filing, Entering) {
        (self.cutting, self.filing, self.entering)
    }

    /// Takes and writes the complete records at the start of `received`. True at the end of the
    /// snapshot.
    ///
    /// # Errors
    /// The snapshot is unusable.
    pub fn take(&mut self, received: &mut BytesMut) -> Result<bool, CopyError> {
        let cut = self.cutting.cut(received)?;
        self.filing.take(&received[..cut.content])?;
        self.entering.take(&received[..cut.bytes])?;
        received.advance(cut.bytes);
        Ok(self.cutting.is_done())
    }

    /// Makes everything durable after the end.
    ///
    /// # Errors
    /// The disk failed, or two znodes have the same path; the snapshot is unusable.
    ///
    /// # Panics
    /// Before the end.
    pub fn complete(self) -> Result<Copied, CopyError> {
        let tree = self.entering.complete()?;
        let file = self.filing.complete()?;
        Ok(Copied { tree, file, znodes: self.cutting.znodes })
    }
}

impl Cutting {
    /// Finds the complete records at the start of `received`, which must continue after those found
    /// before.
    ///
    /// # Errors
    /// The snapshot is unusable.
    pub fn cut(&mut self, received: &[u8]) -> Result<Skipped, DecodeError> {
        let cut = self.reader.skip(received)?;
        self.znodes += cut.znodes;
        Ok(cut)
    }

    /// Whether the end was found.
    pub fn is_done(&self) -> bool {
        self.reader.is_done()
    }

    /// Number of znodes so far.
    pub fn znodes(&self) -> u64 {
        self.znodes
    }
}

impl Filing {
    /// Writes the content before the end marker, in pieces of any size.
    ///
    /// # Errors
    /// The disk failed; the snapshot is unusable.
    pub fn take(&mut self, content: &[u8]) -> Result<(), StoreError> {
        self.writer.encoded(content)
    }

    /// Makes everything durable after the last piece.
    ///
    /// # Errors
    /// The disk failed; the snapshot is unusable.
    pub fn complete(self) -> Result<Received, StoreError> {
        self.writer.complete(None, Some(self.zxid))
    }
}

impl Entering {
    /// Takes complete records.
    ///
    /// # Errors
    /// The snapshot is unusable.
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

    /// Returns the tree after the end. The leader changed it during the transfer, so its digest is
    /// unknown.
    ///
    /// # Errors
    /// Two znodes have the same path.
    ///
    /// # Panics
    /// Before the end.
    pub fn complete(self) -> Result<Tree, DuplicateNode> {
        assert!(self.reader.is_done(), "a whole tree");
        let mut tree = self.loader.finish()?;
        tree.set_last_zxid(self.zxid);
        tree.distrust_digests();
        Ok(tree)
    }
}

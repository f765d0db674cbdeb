//! Takes a snapshot while the tree may change.

use std::sync::Arc;

use zebu_proto::{Acl, SessionId, Zxid};
use zebu_store::{SnapshotWriter, Snapshots, StoreError, Written};
use zebu_tree::{Tree, Walk};

/// The start of a snapshot: everything except the znodes, and a walk over these.
#[derive(Debug)]
pub struct Outline {
    pub(crate) walk: Walk,
    pub(crate) zxid: Zxid,
    pub(crate) sessions: Vec<(SessionId, i32)>,
    pub(crate) acls: Vec<(i64, Arc<[Acl]>)>,
}

impl Outline {
    /// The start of a snapshot of the current tree.
    pub fn of(tree: &Tree) -> Self {
        let outline = Self {
            walk: Walk::new(tree),
            zxid: tree.last_zxid(),
            sessions: tree.sessions().collect(),
            acls: tree.acl_table().collect(),
        };
        assert_eq!(outline.walk.began(), outline.zxid, "all of it is of one moment");
        outline
    }

    /// Starts a snapshot on disk.
    ///
    /// # Errors
    /// The file cannot be created.
    pub fn begin(self, snapshots: &Snapshots) -> Result<Taking, StoreError> {
        let mut writer = snapshots.begin(self.zxid)?;
        writer.sessions(&self.sessions);
        writer.acls(&self.acls);
        Ok(Taking { walk: self.walk, writer, ended: None })
    }
}

/// The result of a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// There are more znodes.
    More,
    /// These were the last.
    Done,
    /// The tree was replaced after a truncation or by a leader's snapshot: discard what was
    /// started.
    Replaced,
}

/// A snapshot in progress.
#[derive(Debug)]
pub struct Taking {
    walk: Walk,
    writer: SnapshotWriter,
    /// The tree's last transaction and digest when its last znode was copied.
    ended: Option<(Zxid, i64)>,
}

impl Taking {
    /// Copies up to `znodes` znodes into memory, and stops once they have `bytes` bytes: znodes may
    /// be large.
    pub fn step(&mut self, tree: &Tree, znodes: usize, bytes: usize) -> Step {
        if !self.walk.is_of(tree) {
            return Step::Replaced;
        }
        let writer = &mut self.writer;
        let mut copied = 0;
        let done = self.walk.step_while(tree, znodes, &mut |path, data, acl, stat| {
            writer.node(path, data, acl, stat);
            copied += path.len() + data.map_or(0, <[u8]>::len);
            copied < bytes
        });
        if !done {
            return Step::More;
        }
        self.ended = Some((tree.last_zxid(), tree.digest()));
        Step::Done
    }

    /// The last transaction before the snapshot began.
    pub fn began(&self) -> Zxid {
        self.walk.began()
    }

    /// Writes what was copied. Call this between steps.
    ///
    /// # Errors
    /// The disk failed; there will be no snapshot.
    pub fn flush(&mut self) -> Result<(), StoreError> {
        self.writer.flush()
    }

    /// Makes the snapshot durable. `digest` and `last_zxid`: whether these sections are written.
    ///
    /// # Errors
    /// As for [`SnapshotWriter::finish`].
    ///
    /// # Panics
    /// Before the last step.
    pub fn finish(self, digest: bool, last_zxid: bool) -> Result<Written, StoreError> {
        let (last, sum) = self.ended.expect("all znodes were copied");
        assert!(self.walk.began() <= last, "the tree went back to {last} meanwhile");
        self.writer.finish(digest.then_some((last, sum)), last_zxid.then_some(last))
    }
}

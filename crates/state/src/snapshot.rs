//! A snapshot of a tree that goes on changing.

use std::sync::Arc;

use zebu_proto::{Acl, SessionId, Zxid};
use zebu_store::{SnapshotWriter, Snapshots, StoreError, Written};
use zebu_tree::{Tree, Walk};

/// What a snapshot begins with: everything of a tree but its znodes, and the way through these.
#[derive(Debug)]
pub struct Outline {
    pub(crate) walk: Walk,
    pub(crate) zxid: Zxid,
    pub(crate) sessions: Vec<(SessionId, i32)>,
    pub(crate) acls: Vec<(i64, Arc<[Acl]>)>,
}

impl Outline {
    /// That of a tree as it is now.
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

    /// Begins a snapshot on the disk.
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

/// What a step through a tree has come to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// There are more znodes.
    More,
    /// These were the last.
    Done,
    /// The tree is another one by now, after a truncation or a leader's copy: what was begun is of no
    /// use any more.
    Replaced,
}

/// A snapshot that is being taken.
#[derive(Debug)]
pub struct Taking {
    walk: Walk,
    writer: SnapshotWriter,
    /// The tree's last transaction and digest when its last znode was copied.
    ended: Option<(Zxid, i64)>,
}

impl Taking {
    /// Copies so many znodes into memory, and no more once these have so many bytes: znodes may be large.
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

    /// Writes what was copied; to be called between steps.
    ///
    /// # Errors
    /// The disk; there will be no snapshot.
    pub fn flush(&mut self) -> Result<(), StoreError> {
        self.writer.flush()
    }

    /// Makes it durable; `digest` and `last_zxid` say which of the two are written into it.
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

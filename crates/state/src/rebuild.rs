//! Builds the tree from what the store finds on the disk.

use zebu_proto::txn::{DIGEST_VERSION, TxnRecord};
use zebu_proto::{Acl, SessionId, StatPersisted, Zxid};
use zebu_store::{Recover, StoreError, Truncated, TxnLog};
use zebu_tree::{Loader, Options, Silent, Tree};

/// A tree that is being recovered.
#[derive(Debug)]
pub struct Rebuild {
    options: Options,
    loader: Option<Loader>,
    tree: Option<Tree>,
    expected: Option<(Zxid, i64)>,
    mismatches: u64,
}

/// A tree that was recovered.
#[derive(Debug)]
pub struct Rebuilt {
    /// The tree. Its digests are trusted again once everything of the history is applied; see
    /// [`Tree::trust_digests`].
    pub tree: Tree,
    /// How often its digest was not the one on the disk.
    pub mismatches: u64,
}

impl Rebuild {
    /// Nothing yet; the tree will have these options.
    pub fn new(options: Options) -> Self {
        Self { options, loader: None, tree: None, expected: None, mismatches: 0 }
    }

    /// What has been recovered by now.
    ///
    /// # Panics
    /// Before anything was recovered.
    pub fn finish(self) -> Rebuilt {
        let tree = self.tree.expect("the store reports what it loaded");
        Rebuilt { tree, mismatches: self.mismatches }
    }
}

impl Recover for Rebuild {
    fn restart(&mut self) {
        *self = Self::new(self.options);
        self.loader = Some(Loader::new(self.options));
    }

    fn session(&mut self, id: SessionId, timeout_ms: i32) {
        if let Some(loader) = &mut self.loader {
            loader.session(id, timeout_ms);
        }
    }

    fn acl(&mut self, id: i64, acl: Vec<Acl>) {
        if let Some(loader) = &mut self.loader {
            loader.acl(id, acl);
        }
    }

    fn node(
        &mut self,
        path: &str,
        data: Option<&[u8]>,
        acl: i64,
        stat: &StatPersisted,
    ) -> Result<(), String> {
        let loader = self.loader.as_mut().ok_or("a znode before the snapshot began")?;
        loader.node(path, data, acl, stat).map_err(|error| error.to_string())
    }

    fn digest(&mut self, zxid: Zxid, version: i32, digest: i64) {
        if version == DIGEST_VERSION && zxid > Zxid::ZERO {
            self.expected = Some((zxid, digest));
        }
    }

    fn loaded(&mut self, zxid: Zxid) -> Result<(), String> {
        let mut tree = match self.loader.take() {
            Some(loader) => loader.finish().map_err(|error| error.to_string())?,
            None => Tree::new(self.options),
        };
        tree.set_last_zxid(zxid);
        match self.expected {
            Some((at, digest)) => {
                self.mismatches += u64::from(tree.expect_digest(at, digest) == Some(false));
            }
            // A leader's tree that was changed while it was sent, or one from before there were digests.
            None if zxid > Zxid::ZERO => tree.distrust_digests(),
            None => {}
        }
        assert!(self.loader.is_none(), "a tree that is loaded is loaded further");
        self.tree = Some(tree);
        Ok(())
    }

    fn txn(&mut self, body: &[u8]) -> Result<(), String> {
        let tree = self.tree.as_mut().ok_or("a transaction before the snapshot was loaded")?;
        let record = TxnRecord::decode(body).map_err(|error| error.to_string())?;
        if !tree.apply(&record, &mut Silent).digest_matches {
            self.mismatches += 1;
        }
        Ok(())
    }
}

/// What a restart would find: where the log ends, and the tree.
///
/// An end of `None` is that of a disk with nothing that can be used: a leader has to send its whole tree.
///
/// # Errors
/// The log cannot be used any more.
pub fn reload(log: &mut TxnLog, options: Options) -> Result<(Option<Zxid>, Tree), StoreError> {
    let mut rebuild = Rebuild::new(options);
    let end = log.recover(&mut rebuild)?.last_zxid;
    let (end, tree) = (Some(end).filter(|end| *end >= Zxid::ZERO), rebuild.finish().tree);
    assert!(end.is_none_or(|end| tree.last_zxid() == end), "{end:?} is not where the tree ends");
    Ok((end, tree))
}

/// Takes back everything behind `zxid`, on a leader's word: where the log ends then, and the tree that
/// takes the place of one that has applied `applied`, if it cannot stay.
///
/// An end of `None` is that of a disk whose logs and snapshots do not lead to `zxid`: a leader has to
/// send its whole tree.
///
/// # Errors
/// The log cannot be used any more.
pub fn truncate(
    log: &mut TxnLog,
    zxid: Zxid,
    applied: Zxid,
    options: Options,
) -> Result<(Option<Zxid>, Option<Tree>), StoreError> {
    let mut rebuild = Rebuild::new(options);
    Ok(match log.truncate(zxid, &mut rebuild)? {
        Truncated::Lost { .. } => (None, Some(Tree::new(options))),
        // What is committed will be applied in its turn; a tree that is behind has nothing to lose.
        Truncated::Reaches(_) if applied <= zxid => (Some(zxid), None),
        Truncated::Reaches(_) => {
            let tree = rebuild.finish().tree;
            assert_eq!(tree.last_zxid(), zxid, "the tree ends where the log does");
            (Some(zxid), Some(tree))
        }
    })
}

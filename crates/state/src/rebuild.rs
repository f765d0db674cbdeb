//! Builds the tree from the data that the store recovers.

use zebu_proto::txn::{DIGEST_VERSION, TxnRecord};
use zebu_proto::{Acl, SessionId, StatPersisted, Zxid};
use zebu_store::{Recover, Refused, StoreError, Truncated, TxnLog};
use zebu_tree::{Loader, Options, Silent, Tree};

const BEFORE_IT_BEGAN: Refused = Refused::OutOfPlace("a znode before the snapshot began");
const BEFORE_IT_WAS_LOADED: Refused =
    Refused::OutOfPlace("a transaction before the snapshot was loaded");

/// Number of transactions that are read ahead together: enough to wait for main memory once instead
/// of 64 times, and few enough to stay in a processor's cache.
const AHEAD_TXNS: usize = 64;
/// A tree with fewer znodes is in the processor's cache anyway, and reading ahead costs a sixth of
/// the time of a transaction.
const AHEAD_ZNODES: usize = 1 << 14;

/// A tree being recovered.
#[derive(Debug)]
pub struct Rebuild {
    options: Options,
    loader: Option<Loader>,
    tree: Option<Tree>,
    expected: Option<(Zxid, i64)>,
    mismatches: u64,
}

/// A recovered tree.
#[derive(Debug)]
pub struct Rebuilt {
    /// The tree. Its digests are trusted again once the whole history is applied; see
    /// [`Tree::trust_digests`].
    pub tree: Tree,
    /// Number of digest mismatches.
    pub mismatches: u64,
}

impl Rebuild {
    /// Starts empty; the tree will have these options.
    pub fn new(options: Options) -> Self {
        Self { options, loader: None, tree: None, expected: None, mismatches: 0 }
    }

    /// Applies consecutive transactions. The result is that of [`Recover::txn`] for each, but takes
    /// less time in a large tree.
    ///
    /// # Errors
    /// The reason for the refusal of one of them. The tree is unusable then.
    pub fn txns<'b>(&mut self, bodies: impl Iterator<Item = &'b [u8]>) -> Result<(), Refused> {
        let tree = self.tree.as_mut().ok_or(BEFORE_IT_WAS_LOADED)?;
        let mut bodies = bodies.peekable();
        let mut records = Vec::with_capacity(AHEAD_TXNS);
        while bodies.peek().is_some() {
            for body in bodies.by_ref().take(AHEAD_TXNS) {
                records.push(TxnRecord::decode(body)?);
            }
            if tree.znode_count() >= AHEAD_ZNODES {
                tree.read_ahead(&records);
            }
            for record in records.drain(..) {
                self.mismatches += mismatches(tree, &record);
            }
        }
        Ok(())
    }

    /// Returns the recovered tree.
    ///
    /// # Panics
    /// If nothing was recovered.
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
    ) -> Result<(), Refused> {
        let loader = self.loader.as_mut().ok_or(BEFORE_IT_BEGAN)?;
        loader.node(path, data, acl, stat).map_err(Refused::state)
    }

    fn digest(&mut self, zxid: Zxid, version: i32, digest: i64) {
        if version == DIGEST_VERSION && zxid > Zxid::ZERO {
            self.expected = Some((zxid, digest));
        }
    }

    fn loaded(&mut self, zxid: Zxid) -> Result<(), Refused> {
        let mut tree = match self.loader.take() {
            Some(loader) => loader.finish().map_err(Refused::state)?,
            None => Tree::new(self.options),
        };
        tree.set_last_zxid(zxid);
        match self.expected {
            Some((at, digest)) => {
                self.mismatches += u64::from(tree.expect_digest(at, digest) == Some(false));
            }
            // A leader's snapshot that was changed during the transfer, or one from before digests
            // existed.
            None if zxid > Zxid::ZERO => tree.distrust_digests(),
            None => {}
        }
        assert!(self.loader.is_none(), "a tree that is loaded is loaded further");
        self.tree = Some(tree);
        Ok(())
    }

    fn txn(&mut self, body: &[u8]) -> Result<(), Refused> {
        let tree = self.tree.as_mut().ok_or(BEFORE_IT_WAS_LOADED)?;
        let record = TxnRecord::decode(body)?;
        self.mismatches += mismatches(tree, &record);
        Ok(())
    }
}

/// Applies a transaction. Returns the number of digests that do not match: 0 or 1.
fn mismatches(tree: &mut Tree, record: &TxnRecord<'_>) -> u64 {
    u64::from(!tree.apply(record, &mut Silent).digest_matches)
}

/// Recovers as a restart would. Returns the end of the log, and the tree.
///
/// The end is `None` if nothing on disk is usable: a leader must send a snapshot.
///
/// # Errors
/// The log is unusable afterwards.
pub fn reload(log: &mut TxnLog, options: Options) -> Result<(Option<Zxid>, Tree), StoreError> {
    let mut rebuild = Rebuild::new(options);
    let end = log.recover(&mut rebuild)?.last_zxid;
    let (end, tree) = (Some(end).filter(|end| *end >= Zxid::ZERO), rebuild.finish().tree);
    assert!(end.is_none_or(|end| tree.last_zxid() == end), "{end:?} is not where the tree ends");
    Ok((end, tree))
}

/// Truncates the log after `zxid`, as a leader requests. Returns the new end of the log, and a tree
/// if the current one, which has applied `applied`, must be replaced.
///
/// The end is `None` if logs and snapshots do not lead to `zxid`: a leader must send a snapshot.
///
/// # Errors
/// The log is unusable afterwards.
pub fn truncate(
    log: &mut TxnLog,
    zxid: Zxid,
    applied: Zxid,
    options: Options,
) -> Result<(Option<Zxid>, Option<Tree>), StoreError> {
    let mut rebuild = Rebuild::new(options);
    Ok(match log.truncate(zxid, &mut rebuild)? {
        Truncated::Lost { .. } => (None, Some(Tree::new(options))),
        // Committed transactions are applied later: a tree that is behind loses nothing.
        Truncated::Reaches(_) if applied <= zxid => (Some(zxid), None),
        Truncated::Reaches(_) => {
            let tree = rebuild.finish().tree;
            assert_eq!(tree.last_zxid(), zxid, "the tree ends where the log does");
            (Some(zxid), Some(tree))
        }
    })
}

//! Builds the tree from what the store finds on the disk.

use std::time::{Duration, Instant};

use zebu_proto::txn::{DIGEST_VERSION, TxnRecord};
use zebu_proto::{Acl, SessionId, StatPersisted, Zxid};
use zebu_store::Recover;
use zebu_tree::{Loader, Options, Silent, Tree};

/// A tree that is being recovered.
pub struct Rebuild {
    options: Options,
    loader: Option<Loader>,
    tree: Option<Tree>,
    expected: Option<(Zxid, i64)>,
    mismatches: u64,
    began: Instant,
    loaded: Instant,
}

/// A tree that was recovered, and how that went.
pub struct Rebuilt {
    /// The tree.
    pub tree: Tree,
    /// How often its digest was not the one on the disk.
    pub mismatches: u64,
    /// How long the snapshot took.
    pub snapshot_time: Duration,
    /// How long the log took.
    pub log_time: Duration,
}

impl Rebuild {
    /// Nothing yet; the tree will have these options.
    pub fn new(options: Options) -> Self {
        let now = Instant::now();
        Self {
            options,
            loader: None,
            tree: None,
            expected: None,
            mismatches: 0,
            began: now,
            loaded: now,
        }
    }

    /// What has been recovered by now.
    ///
    /// # Panics
    /// Before anything was recovered.
    pub fn finish(self) -> Rebuilt {
        Rebuilt {
            tree: self.tree.expect("the store reports what it loaded"),
            mismatches: self.mismatches,
            snapshot_time: self.loaded - self.began,
            log_time: self.loaded.elapsed(),
        }
    }
}

impl Recover for Rebuild {
    fn restart(&mut self) {
        self.loader = Some(Loader::new(self.options));
        self.tree = None;
        self.expected = None;
        self.mismatches = 0;
        self.began = Instant::now();
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
        loader.node(path, data, acl, stat).map_err(|error| format!("znode {path}: {error}"))
    }

    fn digest(&mut self, zxid: Zxid, version: i32, digest: i64) {
        if version == DIGEST_VERSION && zxid > Zxid::ZERO {
            self.expected = Some((zxid, digest));
        }
    }

    fn loaded(&mut self, zxid: Zxid) -> Result<(), String> {
        let mut tree = match self.loader.take() {
            Some(loader) => loader.finish(),
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
        self.tree = Some(tree);
        self.loaded = Instant::now();
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

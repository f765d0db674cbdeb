//! Builds a tree from what the store finds on a disk, or from what a leader sends.

use zebu_proto::txn::{DIGEST_VERSION, TxnRecord};
use zebu_proto::{Acl, SessionId, StatPersisted, Zxid};
use zebu_store::Recover;
use zebu_tree::{Loader, Options, Silent, Tree};

/// A tree that is being recovered.
pub(crate) struct Rebuild {
    options: Options,
    loader: Option<Loader>,
    tree: Option<Tree>,
    expected: Option<(Zxid, i64)>,
    /// How often the tree's digest was not the one on the disk.
    pub(crate) mismatches: u64,
}

impl Rebuild {
    pub(crate) fn new(options: Options) -> Self {
        Self { options, loader: None, tree: None, expected: None, mismatches: 0 }
    }

    /// What has been recovered, or an empty tree.
    pub(crate) fn finish(self) -> Tree {
        self.tree.unwrap_or_else(|| Tree::new(self.options))
    }
}

impl Recover for Rebuild {
    fn restart(&mut self) {
        self.loader = Some(Loader::new(self.options));
        self.tree = None;
        self.expected = None;
        self.mismatches = 0;
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
        if let Some((at, digest)) = self.expected
            && tree.expect_digest(at, digest) == Some(false)
        {
            self.mismatches += 1;
        }
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

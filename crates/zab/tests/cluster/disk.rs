//! A peer's disk, as far as the peer knows it.

use std::sync::Arc;

use zebu_proto::{Epoch, Identity, Zxid};
use zebu_zab::ConfigChange;
use zebu_zab::config::Membership;
use zebu_zab::history::Txn;

/// The durable state, and the changes in the page cache.
#[derive(Clone)]
pub struct Disk {
    /// The newest snapshot: everything up to its zxid.
    pub base: Vec<Txn>,
    pub base_zxid: Zxid,
    pub log: Vec<Txn>,
    pub synced: usize,
    pub accepted: Epoch,
    pub current: Epoch,
    pub committed: Arc<Membership>,
    pub proposed: Option<Arc<Membership>>,
    pub identity: Identity,
}

impl Disk {
    pub fn new(config: Arc<Membership>) -> Self {
        Self {
            base: Vec::new(),
            base_zxid: Zxid::ZERO,
            log: Vec::new(),
            synced: 0,
            accepted: Epoch(0),
            current: Epoch(0),
            committed: config,
            proposed: None,
            identity: Identity::Unknown,
        }
    }

    pub fn save(&mut self, change: ConfigChange) {
        match change {
            ConfigChange::Proposed(config) => self.proposed = Some(config),
            ConfigChange::Withdrawn => self.proposed = None,
            ConfigChange::Heard(_) => {}
            ConfigChange::Committed(config) => {
                assert!(config.version() > self.committed.version());
                self.committed = config;
                let version = self.committed.version();
                self.proposed = self.proposed.take().filter(|it| it.version() > version);
            }
        }
    }

    pub fn last(&self) -> Zxid {
        self.log.last().map_or(self.base_zxid, |txn| txn.zxid)
    }

    pub fn tree(&self) -> Vec<Txn> {
        self.base.iter().chain(&self.log).cloned().collect()
    }
}

/// The newest configuration in a tree.
pub fn newest(tree: &[Txn]) -> Option<Arc<Membership>> {
    tree.iter().rev().find_map(|txn| Membership::in_txn(&txn.record)).map(Arc::new)
}

//! What a member of an ensemble starts with: what its disk and its operator's files say.

use std::sync::Arc;

use bytes::Bytes;
use zebu_proto::{Epoch, Zxid};
use zebu_store::Recovered;
use zebu_zab::config::Membership;
use zebu_zab::history::Txn;
use zebu_zab::{Epochs, Start};

/// What a start has found.
#[derive(Debug)]
pub struct Found<'r> {
    /// The data.
    pub recovered: &'r Recovered,
    /// The epochs beside them.
    pub epochs: zebu_store::Epochs,
    /// What this server has remembered to be committed, if anything.
    pub certain: Option<Zxid>,
    /// The configuration in force, as the operator's file says.
    pub committed: Arc<Membership>,
    /// The one that was proposed when this server stopped.
    pub proposed: Option<Membership>,
    /// The newest one that the data have.
    pub in_data: Option<Membership>,
    /// The newest one that the files have known to be in force, whichever of them counts.
    pub in_files: Option<Membership>,
    /// Whether the members may change.
    pub reconfig: bool,
}

impl Found<'_> {
    /// Whether the data are gone although the ensemble has agreed on its configuration before: what
    /// they were may have been acknowledged.
    pub fn has_forgotten(&self) -> bool {
        self.reconfig
            && self.recovered.fresh
            && self.epochs.current == Epoch(0)
            && self.committed.version() > Zxid::ZERO
    }

    /// The newest transaction that this server has served, where the data end before it: they are older than this server.
    pub fn put_back(&self) -> Option<Zxid> {
        let last = self.recovered.last_zxid;
        let is_whole = self.recovered.damaged.is_none() && last >= Zxid::ZERO;
        self.certain.filter(|certain| is_whole && *certain > last)
    }

    /// The newest configuration that this server has ever known to be in force, or has logged.
    fn known(&self) -> Option<&Membership> {
        let known = [self.in_data.as_ref(), self.in_files.as_ref()].into_iter().flatten();
        known.filter(|_| self.reconfig).max_by_key(|config| config.version())
    }

    /// What was proposed, unless the transaction it came with never got to the log: then it was never
    /// acknowledged here, and whoever leads decides without it.
    fn proposed(&self) -> Option<&Membership> {
        let logged = self.in_data.as_ref().map_or(Zxid::ZERO, Membership::version);
        let is_there = |config: &&Membership| {
            !self.reconfig || config.version().counter() == 0 || config.version() <= logged
        };
        self.proposed.as_ref().filter(is_there)
    }

    /// The newest configuration this server has heard of besides the one in force.
    fn last_seen(&self) -> Option<&Membership> {
        let seen = [self.known(), self.proposed()].into_iter().flatten();
        let newer = seen.filter(|config| config.version() > self.committed.version());
        newer.max_by_key(|config| config.version())
    }

    /// A configuration the ensemble has agreed on that the operator's file does not have: either a
    /// crash came between the data and the file, or somebody has changed the file by hand.
    pub fn hand_made(&self) -> Option<&Membership> {
        let known = self.known()?;
        let proposed = self.proposed().map_or(Zxid::ZERO, Membership::version);
        let counts = known.version() > proposed && self.committed.version() == Zxid::ZERO;
        (counts && !self.committed.has_same_members(known)).then_some(known)
    }

    /// What this member of the ensemble starts with.
    pub fn start(self) -> Start {
        let has_database = self.recovered.last_zxid >= Zxid::ZERO
            && self.recovered.damaged.is_none()
            && !self.has_forgotten()
            && self.put_back().is_none();
        let last_seen = self.last_seen().cloned().map(Arc::new);
        let recent = self.recovered.recent.iter();
        let recent = recent
            .map(|(zxid, record)| Txn { zxid: *zxid, record: Bytes::copy_from_slice(record) });
        Start {
            epochs: Epochs { accepted: self.epochs.accepted, current: self.epochs.current },
            committed: self.committed,
            last_seen,
            last: self.recovered.last_zxid.max(Zxid::ZERO),
            recent: recent.collect(),
            certain: self.certain.unwrap_or(Zxid::ZERO),
            assumed_new: self.recovered.assumed_new,
            has_database,
        }
    }
}

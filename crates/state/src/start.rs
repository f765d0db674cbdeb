//! The state that a member starts with, from its disk and the operator's files.

use std::sync::Arc;

use bytes::Bytes;
use zebu_proto::{Epoch, Identity, Zxid};
use zebu_store::Recovered;
use zebu_zab::config::Membership;
use zebu_zab::history::Txn;
use zebu_zab::{Epochs, Start};

/// The state found at a start.
#[derive(Debug)]
pub struct Found<'r> {
    /// The data.
    pub recovered: &'r Recovered,
    /// The epochs on disk.
    pub epochs: zebu_store::Epochs,
    /// The stored zxid that is known to be committed, if any.
    pub certain: Option<Zxid>,
    /// The server's stored knowledge of the ensemble's id.
    pub identity: Identity,
    /// The committed configuration, from the operator's file.
    pub committed: Arc<Membership>,
    /// The configuration proposed when this server stopped.
    pub proposed: Option<Membership>,
    /// The newest configuration in the data.
    pub in_data: Option<Membership>,
    /// The newest committed configuration in any file.
    pub in_files: Option<Membership>,
    /// Whether the membership may be reconfigured.
    pub reconfig: bool,
}

impl Found<'_> {
    /// Whether the data are missing although the ensemble has agreed on its configuration before.
    /// Lost transactions may have been acknowledged.
    pub fn has_forgotten(&self) -> bool {
        self.reconfig
            && self.recovered.fresh
            && self.epochs.current == Epoch(0)
            && self.committed.version() > Zxid::ZERO
    }

    /// The committed zxid stored by this server, if the data end before it: they were restored from
    /// an older state.
    pub fn put_back(&self) -> Option<Zxid> {
        let last = self.recovered.last_zxid;
        let is_whole = self.recovered.damaged.is_none() && last >= Zxid::ZERO;
        self.certain.filter(|certain| is_whole && *certain > last)
    }

    /// The newest configuration that this server knew to be committed, or has logged.
    fn known(&self) -> Option<&Membership> {
        let known = [self.in_data.as_ref(), self.in_files.as_ref()].into_iter().flatten();
        known.filter(|_| self.reconfig).max_by_key(|config| config.version())
    }

    /// The proposed configuration, unless its transaction is not in the log. Then it was never
    /// acknowledged here, and the leader decides without it.
    fn proposed(&self) -> Option<&Membership> {
        let logged = self.in_data.as_ref().map_or(Zxid::ZERO, Membership::version);
        let is_there = |config: &&Membership| {
            !self.reconfig || config.version().counter() == 0 || config.version() <= logged
        };
        self.proposed.as_ref().filter(is_there)
    }

    /// The newest configuration known besides the committed one.
    fn last_seen(&self) -> Option<&Membership> {
        let seen = [self.known(), self.proposed()].into_iter().flatten();
        let newer = seen.filter(|config| config.version() > self.committed.version());
        newer.max_by_key(|config| config.version())
    }

    /// A configuration that the ensemble has agreed on, but the operator's file lacks. Either a
    /// crash came between writing the data and the file, or the file was edited by hand.
    pub fn hand_made(&self) -> Option<&Membership> {
        let known = self.known()?;
        let proposed = self.proposed().map_or(Zxid::ZERO, Membership::version);
        let counts = known.version() > proposed && self.committed.version() == Zxid::ZERO;
        (counts && !self.committed.has_same_members(known)).then_some(known)
    }

    /// The state that this member starts with.
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
            identity: self.identity,
        }
    }
}

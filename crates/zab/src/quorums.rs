//! The configurations that count at the moment: the one in force, and a proposed one beside it.

use std::collections::BTreeSet;
use std::sync::Arc;

use zebu_proto::ServerId;

use crate::config::Membership;

/// The committed configuration, and the newest one that was seen.
///
/// Invariant: the newest seen is the committed one or has a higher version.
#[derive(Clone, Debug)]
pub struct Quorums {
    committed: Arc<Membership>,
    last_seen: Arc<Membership>,
    /// What the oracle of two servers says, if there is one.
    oracle: Option<bool>,
}

impl Quorums {
    /// A configuration that everybody agrees on.
    pub fn new(committed: Arc<Membership>) -> Self {
        Self { last_seen: committed.clone(), committed, oracle: None }
    }

    /// The configuration in force.
    pub fn committed(&self) -> &Arc<Membership> {
        &self.committed
    }

    /// The newest configuration that was proposed.
    pub fn last_seen(&self) -> &Arc<Membership> {
        &self.last_seen
    }

    /// Whether a reconfiguration is under way.
    pub fn is_joint(&self) -> bool {
        self.last_seen.version() > self.committed.version()
    }

    /// A configuration has been proposed. An older one than is known changes nothing.
    pub fn propose(&mut self, config: Arc<Membership>) -> bool {
        let newer = config.version() > self.last_seen.version();
        if newer {
            self.last_seen = config;
        }
        newer
    }

    /// A leader's history has taken the place of this server's: what was proposed is what is proposed
    /// there, even if that is older. Says whether that changes anything.
    pub fn adopt(&mut self, config: Arc<Membership>) -> bool {
        let config = if config.version() > self.committed.version() {
            config
        } else {
            self.committed.clone()
        };
        let differs = config.version() != self.last_seen.version();
        self.last_seen = config;
        differs
    }

    /// A configuration is in force. An older one than is known changes nothing.
    pub fn commit(&mut self, config: Arc<Membership>) -> bool {
        let newer = config.version() > self.committed.version();
        if newer {
            if config.version() >= self.last_seen.version() {
                self.last_seen = config.clone();
            }
            self.committed = config;
        }
        newer
    }

    fn in_force(&self) -> impl Iterator<Item = &Membership> {
        let proposed = self.is_joint().then_some(&*self.last_seen);
        std::iter::once(&*self.committed).chain(proposed)
    }

    /// Everybody with a vote in either configuration, in ascending order.
    pub fn voters(&self) -> impl Iterator<Item = ServerId> {
        let all: BTreeSet<ServerId> = self.in_force().flat_map(Membership::voters).collect();
        all.into_iter()
    }

    /// Whether a server has a vote in either configuration.
    pub fn is_voter(&self, server: ServerId) -> bool {
        self.in_force().any(|config| config.is_voter(server))
    }

    /// Whether a server is an observer: who is to get a vote is needed as one before it has it.
    pub fn is_observer(&self, server: ServerId) -> bool {
        self.committed.is_observer(server) && !self.is_voter(server)
    }

    /// Whether a server is a member of either configuration.
    pub fn is_member(&self, server: ServerId) -> bool {
        self.in_force().any(|config| config.member(server).is_some())
    }

    /// How much a server's election counts; a server with 0 is not elected.
    pub fn weight(&self, server: ServerId) -> u64 {
        self.in_force().map(|config| config.weight(server)).max().unwrap_or(0)
    }

    /// The oracle has said whether this server may go on alone.
    pub fn set_oracle(&mut self, allows_alone: bool) {
        self.oracle = Some(allows_alone);
    }

    /// What the oracle says: whether this server is enough, as one of two. `None` without an oracle
    /// that counts.
    ///
    /// Source: `QuorumOracleMaj`.
    pub fn oracle(&self) -> Option<bool> {
        self.oracle.filter(|_| !self.is_joint() && self.committed.heeds_oracle())
    }

    /// Whether these servers are a quorum of every configuration that counts.
    pub fn all_have_quorum(&self, servers: &BTreeSet<ServerId>) -> bool {
        self.in_force().all(|config| config.is_quorum(servers))
    }
}

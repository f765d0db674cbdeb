//! The relevant configurations: the committed one, a proposed one besides it, and one that only
//! other servers have proposed.

use std::collections::BTreeSet;
use std::sync::Arc;

use zebu_proto::ServerId;

use crate::config::Membership;
use crate::faults;

/// The committed configuration, the one proposed in this server's history, and one learned from
/// election messages.
///
/// Invariant: each has a higher version than those before it. Checked by `check`.
///
/// The last one is proposed in a transaction that this server does not have. Its voters take part
/// in elections, but no quorum of them is required. It only binds servers that have the
/// transaction.
#[derive(Clone, Debug)]
pub struct Quorums {
    committed: Arc<Membership>,
    proposed: Option<Arc<Membership>>,
    heard: Option<Arc<Membership>>,
    /// The oracle's answer for two voters, if there is an oracle.
    oracle: Option<bool>,
}

impl Quorums {
    /// A configuration without a pending change.
    pub fn new(committed: Arc<Membership>) -> Self {
        Self { committed, proposed: None, heard: None, oracle: None }
    }

    /// The committed configuration.
    pub fn committed(&self) -> &Arc<Membership> {
        &self.committed
    }

    /// The newest configuration that binds this server: the proposed one, otherwise the committed
    /// one.
    pub fn last_seen(&self) -> &Arc<Membership> {
        self.proposed.as_ref().unwrap_or(&self.committed)
    }

    /// The configuration that binds this server besides the committed one.
    pub fn proposed(&self) -> Option<&Arc<Membership>> {
        self.proposed.as_ref()
    }

    /// Whether a proposed configuration binds this server too.
    pub fn is_joint(&self) -> bool {
        self.proposed.is_some()
    }

    /// Adds a proposed configuration. Returns false, without effect, if it is not newer.
    pub fn propose(&mut self, config: Arc<Membership>) -> bool {
        let newer = config.version() > self.last_seen().version();
        if newer {
            self.proposed = Some(config);
            self.drop_old();
            assert!(self.is_joint(), "what has been proposed counts");
        }
        newer
    }

    /// Adds a configuration learned from an election message. Returns false, without effect, if it
    /// is not newer.
    pub fn hear(&mut self, config: Arc<Membership>) -> bool {
        let known = self.heard.as_ref().unwrap_or(self.last_seen());
        let newer = config.version() > known.version();
        if newer {
            self.heard = Some(config);
            self.check();
        }
        newer
    }

    /// Drops a configuration learned from election messages. Returns whether there was one.
    pub fn forget_hearsay(&mut self) -> bool {
        self.heard.take().is_some()
    }

    /// Replaces the proposed configuration because another history replaced this server's; it may
    /// be older, or `None`. Returns whether that changes anything.
    pub fn adopt(&mut self, config: Option<Arc<Membership>>) -> bool {
        let before = self.last_seen().version();
        self.proposed = config.filter(|config| config.version() > self.committed.version());
        self.drop_old();
        self.last_seen().version() != before
    }

    /// Commits a configuration. Returns false, without effect, if it is not newer.
    pub fn commit(&mut self, config: Arc<Membership>) -> bool {
        let older =
            faults::older_configuration_comes_back() && config.version() < self.committed.version();
        let newer = config.version() > self.committed.version() || older;
        if newer {
            self.committed = config;
            self.drop_old();
        }
        newer
    }

    /// Drops configurations that are superseded.
    fn drop_old(&mut self) {
        let committed = self.committed.version();
        self.proposed = self.proposed.take().filter(|config| config.version() > committed);
        let seen = self.last_seen().version();
        self.heard = self.heard.take().filter(|config| config.version() > seen);
        self.check();
    }

    /// Asserts what holds between any two calls.
    fn check(&self) {
        let (committed, seen) = (self.committed.version(), self.last_seen().version());
        let proposed = self.proposed.as_ref().map(|config| config.version());
        assert!(proposed.is_none_or(|it| it > committed), "{proposed:?} is proposed, and old");
        let heard = self.heard.as_ref().map(|config| config.version());
        assert!(heard.is_none_or(|it| it > seen), "{heard:?} is hearsay, and old");
    }

    /// The configurations that bind this server.
    fn binding(&self) -> impl Iterator<Item = &Membership> {
        std::iter::once(&*self.committed).chain(self.proposed.as_deref())
    }

    /// The configurations whose voters take part in elections.
    fn known(&self) -> impl Iterator<Item = &Membership> {
        self.binding().chain(self.heard.as_deref())
    }

    /// The voters of all known configurations, in ascending order.
    pub fn voters(&self) -> impl Iterator<Item = ServerId> {
        let all: BTreeSet<ServerId> = self.known().flat_map(Membership::voters).collect();
        all.into_iter()
    }

    /// Whether a server is a voter in any known configuration.
    pub fn is_voter(&self, server: ServerId) -> bool {
        self.known().any(|config| config.is_voter(server))
    }

    /// Whether a server is an observer and not about to become a voter: its vote may be needed
    /// before the change is committed.
    pub fn is_observer(&self, server: ServerId) -> bool {
        self.committed.is_observer(server) && !self.is_voter(server)
    }

    /// Whether a server is a member of any known configuration.
    pub fn is_member(&self, server: ServerId) -> bool {
        self.known().any(|config| config.member(server).is_some())
    }

    /// The weight of a server in elections; with weight 0 it is not elected.
    pub fn weight(&self, server: ServerId) -> u64 {
        self.known().map(|config| config.weight(server)).max().unwrap_or(0)
    }

    /// Stores the oracle's answer: whether this server may continue alone.
    pub fn set_oracle(&mut self, allows_alone: bool) {
        self.oracle = Some(allows_alone);
    }

    /// The oracle's answer: whether this server alone suffices, of two voters. `None` if no oracle
    /// applies.
    /// Source: `QuorumOracleMaj`.
    pub fn oracle(&self) -> Option<bool> {
        self.oracle.filter(|_| !self.is_joint() && self.committed.heeds_oracle())
    }

    /// Whether these servers are a quorum of every configuration that binds this server.
    pub fn all_have_quorum(&self, servers: &BTreeSet<ServerId>) -> bool {
        if faults::one_quorum_for_an_election() {
            return self.committed.is_quorum(servers);
        }
        self.binding().all(|config| config.is_quorum(servers))
    }
}

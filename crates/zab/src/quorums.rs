//! The configurations that count at the moment: the one in force, a proposed one beside it, and what
//! others say is proposed.

use std::collections::BTreeSet;
use std::sync::Arc;

use zebu_proto::ServerId;

use crate::config::Membership;

/// The committed configuration, the one that is proposed in this server's history, and hearsay.
///
/// Invariant: each has a higher version than those before it.
///
/// Hearsay is what others have proposed in a transaction that this server does not have: whom it names
/// takes part in elections, but nobody needs a quorum of them. It binds who has the transaction.
#[derive(Clone, Debug)]
pub struct Quorums {
    committed: Arc<Membership>,
    proposed: Option<Arc<Membership>>,
    heard: Option<Arc<Membership>>,
    /// What the oracle of two servers says, if there is one.
    oracle: Option<bool>,
}

impl Quorums {
    /// A configuration that everybody agrees on.
    pub fn new(committed: Arc<Membership>) -> Self {
        Self { committed, proposed: None, heard: None, oracle: None }
    }

    /// The configuration in force.
    pub fn committed(&self) -> &Arc<Membership> {
        &self.committed
    }

    /// The newest configuration that binds this server: the proposed one, or the one in force.
    pub fn last_seen(&self) -> &Arc<Membership> {
        self.proposed.as_ref().unwrap_or(&self.committed)
    }

    /// Whether a reconfiguration is under way that binds this server.
    pub fn is_joint(&self) -> bool {
        self.proposed.is_some()
    }

    /// A configuration has been proposed. An older one than is known changes nothing.
    pub fn propose(&mut self, config: Arc<Membership>) -> bool {
        let newer = config.version() > self.last_seen().version();
        if newer {
            self.proposed = Some(config);
            self.drop_old();
            assert!(self.is_joint(), "what has been proposed counts");
        }
        newer
    }

    /// Another server says that a configuration has been proposed. An older one than is known changes
    /// nothing.
    pub fn hear(&mut self, config: Arc<Membership>) -> bool {
        let known = self.heard.as_ref().unwrap_or(self.last_seen());
        let newer = config.version() > known.version();
        if newer {
            self.heard = Some(config);
            self.check();
        }
        newer
    }

    /// Forgets hearsay; says whether there was any.
    pub fn forget_hearsay(&mut self) -> bool {
        self.heard.take().is_some()
    }

    /// Another history has taken the place of this server's: what was proposed is what is proposed
    /// there, even if that is older or nothing. Says whether that changes anything.
    pub fn adopt(&mut self, config: Option<Arc<Membership>>) -> bool {
        let before = self.last_seen().version();
        self.proposed = config.filter(|config| config.version() > self.committed.version());
        self.drop_old();
        self.last_seen().version() != before
    }

    /// A configuration is in force. An older one than is known changes nothing.
    pub fn commit(&mut self, config: Arc<Membership>) -> bool {
        let older = zebu_proto::mutant!("older configuration comes back")
            && config.version() < self.committed.version();
        let newer = config.version() > self.committed.version() || older;
        if newer {
            self.committed = config;
            self.drop_old();
        }
        newer
    }

    /// What has become known better is no longer proposed, or heard.
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

    /// Those that bind this server.
    fn binding(&self) -> impl Iterator<Item = &Membership> {
        std::iter::once(&*self.committed).chain(self.proposed.as_deref())
    }

    /// Those whose members take part in elections.
    fn known(&self) -> impl Iterator<Item = &Membership> {
        self.binding().chain(self.heard.as_deref())
    }

    /// Everybody with a vote in any configuration that is known, in ascending order.
    pub fn voters(&self) -> impl Iterator<Item = ServerId> {
        let all: BTreeSet<ServerId> = self.known().flat_map(Membership::voters).collect();
        all.into_iter()
    }

    /// Whether a server has a vote in any configuration that is known.
    pub fn is_voter(&self, server: ServerId) -> bool {
        self.known().any(|config| config.is_voter(server))
    }

    /// Whether a server is an observer: who is to get a vote is needed as one before it has it.
    pub fn is_observer(&self, server: ServerId) -> bool {
        self.committed.is_observer(server) && !self.is_voter(server)
    }

    /// Whether a server is a member of any configuration that is known.
    pub fn is_member(&self, server: ServerId) -> bool {
        self.known().any(|config| config.member(server).is_some())
    }

    /// How much a server's election counts; a server with 0 is not elected.
    pub fn weight(&self, server: ServerId) -> u64 {
        self.known().map(|config| config.weight(server)).max().unwrap_or(0)
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

    /// Whether these servers are a quorum of every configuration that binds this server.
    pub fn all_have_quorum(&self, servers: &BTreeSet<ServerId>) -> bool {
        if zebu_proto::mutant!("one quorum for an election") {
            return self.committed.is_quorum(servers);
        }
        self.binding().all(|config| config.is_quorum(servers))
    }
}

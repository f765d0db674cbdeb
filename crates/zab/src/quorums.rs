//! The configurations that count at the moment: the one in force, and a proposed one beside it.

use std::collections::BTreeSet;
use std::sync::Arc;

use zebu_proto::ServerId;

use crate::config::Membership;

/// The committed configuration, and the newest one that was seen.
///
/// Invariant: the newest seen is the committed one or has a higher version.
///
/// Hearsay is what others have proposed in a transaction that this server does not have: whom it names
/// takes part in elections, but nobody needs a quorum of them. It binds who has the transaction.
#[derive(Clone, Debug)]
pub struct Quorums {
    committed: Arc<Membership>,
    last_seen: Arc<Membership>,
    /// Whether the newest seen is hearsay.
    is_hearsay: bool,
    /// What the oracle of two servers says, if there is one.
    oracle: Option<bool>,
}

impl Quorums {
    /// A configuration that everybody agrees on.
    pub fn new(committed: Arc<Membership>) -> Self {
        let last_seen = committed.clone();
        Self { last_seen, committed, is_hearsay: false, oracle: None }
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
        if newer || config.version() == self.last_seen.version() {
            self.is_hearsay = false;
        }
        if newer {
            self.last_seen = config;
        }
        newer
    }

    /// Another server says that a configuration has been proposed. An older one than is known changes
    /// nothing.
    pub fn hear(&mut self, config: Arc<Membership>) -> bool {
        let newer = config.version() > self.last_seen.version();
        if newer {
            self.is_hearsay = true;
            self.last_seen = config;
        }
        newer
    }

    /// Forgets hearsay; says whether there was any.
    pub fn forget_hearsay(&mut self) -> bool {
        let was_hearsay = std::mem::take(&mut self.is_hearsay);
        if was_hearsay {
            self.last_seen = self.committed.clone();
        }
        was_hearsay
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
        self.is_hearsay = false;
        differs
    }

    /// A configuration is in force. An older one than is known changes nothing.
    pub fn commit(&mut self, config: Arc<Membership>) -> bool {
        let older = zebu_proto::mutant!("older configuration comes back")
            && config.version() < self.committed.version();
        let newer = config.version() > self.committed.version() || older;
        if newer {
            if config.version() >= self.last_seen.version() {
                self.last_seen = config.clone();
                self.is_hearsay = false;
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
        let both = !self.is_hearsay && !zebu_proto::mutant!("one quorum for an election");
        let binds = |config: &&Membership| both || config.version() == self.committed.version();
        self.in_force().filter(binds).all(|config| config.is_quorum(servers))
    }
}

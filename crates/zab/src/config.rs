//! Membership: who belongs to the ensemble, in which role and at which addresses, and which servers
//! are a quorum.
//!
//! A configuration is a text: it travels in notifications, NEWLEADER and transactions, is the data
//! of `/zookeeper/config`, and lies in files. `text` reads and writes it, `change` makes a new one
//! from an old one, `files` knows the files around it, `txn` finds it in a transaction. Names are not
//! resolved and no file is read here.
//!
//! Source: `quorum-reconfig.md`; `QuorumPeerConfig`, `QuorumMaj`, `QuorumHierarchical`.

mod change;
mod fault;
pub mod files;
mod member;
mod text;
mod txn;
mod verifier;

#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};

use zebu_proto::{ServerId, Zxid};

pub use change::ChangeError;
pub use fault::{ConfigFault, TextError};
pub use member::{Member, PeerAddress, Role};
pub use text::is_config_key;
pub use verifier::{Groups, Verifier};

/// The znode whose data are the text of the committed configuration.
pub const CONFIG_PATH: &str = "/zookeeper/config";

/// What a server's own settings say about configurations.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rules {
    /// A configuration of one voter, or none, is a server that runs alone (`standaloneEnabled`).
    pub standalone: bool,
    /// A server may have several addresses (`multiAddress.enabled`).
    pub multi_address: bool,
}

impl Default for Rules {
    fn default() -> Self {
        Self { standalone: true, multi_address: false }
    }
}

/// One configuration of the ensemble.
///
/// `==` tells whether everything in it is the same, [`Membership::is_same_as`] whether the original
/// would take the two for the same.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Membership {
    members: BTreeMap<ServerId, Member>,
    verifier: Verifier,
    version: Zxid,
}

impl Membership {
    /// Majorities of these members.
    pub fn majority(members: impl IntoIterator<Item = Member>, version: Zxid) -> Self {
        let members = members.into_iter().map(|member| (member.id, member)).collect();
        Self { members, verifier: Verifier::Majority, version }
    }

    /// The zxid of the transaction that made this configuration, or the first of the epoch that
    /// agreed on it; 0 when the ensemble never agreed on it.
    pub fn version(&self) -> Zxid {
        self.version
    }

    /// The same members with another version.
    pub fn with_version(mut self, version: Zxid) -> Self {
        self.version = version;
        self
    }

    /// How quorums are made.
    pub fn verifier(&self) -> &Verifier {
        &self.verifier
    }

    /// Everybody, by id.
    pub fn members(&self) -> impl ExactSizeIterator<Item = &Member> {
        self.members.values()
    }

    /// A member.
    pub fn member(&self, server: ServerId) -> Option<&Member> {
        self.members.get(&server)
    }

    /// Those who vote, by id.
    pub fn voters(&self) -> impl Iterator<Item = ServerId> {
        self.with_role(Role::Participant)
    }

    /// Those who do not, by id.
    pub fn observers(&self) -> impl Iterator<Item = ServerId> {
        self.with_role(Role::Observer)
    }

    fn with_role(&self, role: Role) -> impl Iterator<Item = ServerId> {
        self.members().filter(move |member| member.role == role).map(|member| member.id)
    }

    /// Whether a server votes.
    pub fn is_voter(&self, server: ServerId) -> bool {
        self.role(server) == Some(Role::Participant)
    }

    /// Whether a server is a member without a vote.
    pub fn is_observer(&self, server: ServerId) -> bool {
        self.role(server) == Some(Role::Observer)
    }

    /// What a server is, if it is a member.
    pub fn role(&self, server: ServerId) -> Option<Role> {
        self.member(server).map(|member| member.role)
    }

    /// How much a server counts; who has 0 is not elected. Majorities weigh every server alike,
    /// even one that is no member.
    pub fn weight(&self, server: ServerId) -> u64 {
        match &self.verifier {
            Verifier::Majority => 1,
            Verifier::Hierarchical(groups) => groups.weight(server),
        }
    }

    /// Whether these servers are a quorum; those without a vote do not count.
    pub fn is_quorum(&self, servers: &BTreeSet<ServerId>) -> bool {
        if zebu_proto::mutant!("observers counted") {
            return servers.len() > self.voters().count() / 2;
        }
        self.has_quorum(|server| servers.contains(&server))
    }

    /// Whether the servers for which `has` holds are a quorum. Only voters are asked about, each at
    /// most once, and nothing is allocated.
    pub fn has_quorum(&self, mut has: impl FnMut(ServerId) -> bool) -> bool {
        match &self.verifier {
            Verifier::Majority => {
                let (mut voters, mut found) = (0, 0);
                for voter in self.voters() {
                    voters += 1;
                    found += usize::from(has(voter));
                }
                assert!(found <= voters, "{found} of {voters} voters");
                found > voters / 2
            }
            Verifier::Hierarchical(groups) => {
                groups.has_quorum(|server| self.is_voter(server) && has(server))
            }
        }
    }

    /// Whether the original would take both for the same configuration: quorums are made the same
    /// way, and the versions are equal or everything else is. The texts may differ.
    ///
    /// Source: `QuorumMaj.equals`, `QuorumHierarchical.equals`.
    pub fn is_same_as(&self, other: &Self) -> bool {
        match (&self.verifier, &other.verifier) {
            (Verifier::Majority, Verifier::Majority) => {
                self.version == other.version || self.has_same_members(other)
            }
            (Verifier::Hierarchical(ours), Verifier::Hierarchical(theirs)) => {
                self.version == other.version || (self.has_same_members(other) && ours == theirs)
            }
            _ => false,
        }
    }

    /// Whether both have the same members at the same addresses and in the same roles.
    pub fn has_same_members(&self, other: &Self) -> bool {
        self.members.len() == other.members.len()
            && (self.members.values().zip(other.members.values()))
                .all(|(ours, theirs)| ours.is_same_as(theirs))
    }
}

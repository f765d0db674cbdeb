//! Membership: the servers of the ensemble with their roles and addresses, and the quorum verifier.
//!
//! A configuration is a text: it is sent in notifications, NEWLEADER and transactions, stored in
//! files, and is the data of `/zookeeper/config`. `text` parses and prints it, `change` derives a
//! new one, `files` knows the names and contents of its files, and `txn` finds it in a transaction.
//! This module resolves no names and reads no files.
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

/// The znode that holds the committed configuration.
pub const CONFIG_PATH: &str = "/zookeeper/config";

/// A server's settings for configurations.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rules {
    /// Whether a configuration of at most one voter means a standalone server
    /// (`standaloneEnabled`).
    pub standalone: bool,
    /// Whether a server may have several addresses (`multiAddress.enabled`).
    pub multi_address: bool,
}

impl Default for Rules {
    fn default() -> Self {
        Self { standalone: true, multi_address: false }
    }
}

/// One configuration of the ensemble.
///
/// `==` compares everything. [`Membership::is_same_as`] compares as the original does.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Membership {
    members: BTreeMap<ServerId, Member>,
    verifier: Verifier,
    version: Zxid,
}

impl Membership {
    /// A configuration of these members with majority quorums.
    pub fn majority(members: impl IntoIterator<Item = Member>, version: Zxid) -> Self {
        let members = members.into_iter().map(|member| (member.id, member)).collect();
        Self { members, verifier: Verifier::Majority, version }
    }

    /// The version: the zxid of the transaction that created this configuration, or the first zxid
    /// of the epoch that agreed on it; 0 if the ensemble never agreed on it.
    pub fn version(&self) -> Zxid {
        self.version
    }

    /// The same members with another version.
    pub fn with_version(mut self, version: Zxid) -> Self {
        self.version = version;
        self
    }

    /// The quorum verifier.
    pub fn verifier(&self) -> &Verifier {
        &self.verifier
    }

    /// All members, by id.
    pub fn members(&self) -> impl ExactSizeIterator<Item = &Member> {
        self.members.values()
    }

    /// The member with this id.
    pub fn member(&self, server: ServerId) -> Option<&Member> {
        self.members.get(&server)
    }

    /// The voters, by id.
    pub fn voters(&self) -> impl Iterator<Item = ServerId> {
        self.with_role(Role::Participant)
    }

    /// The observers, by id.
    pub fn observers(&self) -> impl Iterator<Item = ServerId> {
        self.with_role(Role::Observer)
    }

    fn with_role(&self, role: Role) -> impl Iterator<Item = ServerId> {
        self.members().filter(move |member| member.role == role).map(|member| member.id)
    }

    /// Whether a server is a voter.
    pub fn is_voter(&self, server: ServerId) -> bool {
        self.role(server) == Some(Role::Participant)
    }

    /// Whether a server is an observer.
    pub fn is_observer(&self, server: ServerId) -> bool {
        self.role(server) == Some(Role::Observer)
    }

    /// The role of a server, if it is a member.
    pub fn role(&self, server: ServerId) -> Option<Role> {
        self.member(server).map(|member| member.role)
    }

    /// The weight of a server; a server of weight 0 is not elected. With majorities every server
    /// has weight 1, even a non-member.
    pub fn weight(&self, server: ServerId) -> u64 {
        match &self.verifier {
            Verifier::Majority => 1,
            Verifier::Hierarchical(groups) => groups.weight(server),
        }
    }

    /// Whether these servers are a quorum; non-voters do not count.
    pub fn is_quorum(&self, servers: &BTreeSet<ServerId>) -> bool {
        if crate::faults::observers_counted() {
            return servers.len() > self.voters().count() / 2;
        }
        self.has_quorum(|server| servers.contains(&server))
    }

    /// Whether the servers for which `has` returns true are a quorum. Calls `has` only for voters,
    /// at most once each, and allocates nothing.
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

    /// Whether the original would treat both as the same configuration: the quorum verifiers are of
    /// one kind, and either the versions or all else are equal. The texts may differ.
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

    /// Whether both have the same members with the same addresses and roles.
    pub fn has_same_members(&self, other: &Self) -> bool {
        self.members.len() == other.members.len()
            && (self.members.values().zip(other.members.values()))
                .all(|(ours, theirs)| ours.is_same_as(theirs))
    }
}

//! The quorum verifier: which sets of servers are quorums.

use std::collections::{BTreeMap, BTreeSet};

use zebu_proto::ServerId;

use super::Membership;

/// The quorum verifier.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verifier {
    /// More than half of the voters.
    Majority,
    /// More than half of the weight, in more than half of the groups.
    Hierarchical(Groups),
}

/// Groups of servers with weights.
///
/// Source: `QuorumHierarchical`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Groups {
    /// The servers of each group; every voter is in exactly one.
    pub(super) groups: BTreeMap<i64, BTreeSet<ServerId>>,
    /// The weights of all voters, of other grouped servers, and of servers that the configuration
    /// names.
    pub(super) weights: BTreeMap<ServerId, u64>,
}

impl Groups {
    /// The groups by id.
    pub fn groups(&self) -> impl Iterator<Item = (i64, &BTreeSet<ServerId>)> {
        self.groups.iter().map(|(id, members)| (*id, members))
    }

    /// The weight of a server; 0 if the configuration does not name it.
    pub fn weight(&self, server: ServerId) -> u64 {
        self.weights.get(&server).copied().unwrap_or(0)
    }

    /// Groups with a total weight of 0 are ignored.
    pub(super) fn has_quorum(&self, mut has: impl FnMut(ServerId) -> bool) -> bool {
        let (mut counting, mut won) = (0, 0);
        for members in self.groups.values() {
            let (mut whole, mut found) = (0u64, 0u64);
            for server in members {
                let weight = self.weight(*server);
                whole = whole.saturating_add(weight);
                if weight > 0 && has(*server) {
                    found = found.saturating_add(weight);
                }
            }
            debug_assert!(found <= whole, "{found} of {whole} in a group");
            counting += usize::from(whole > 0);
            won += usize::from(found > whole / 2);
        }
        assert!(won <= counting, "{won} of {counting} groups");
        won > counting / 2
    }
}

impl Membership {
    /// Whether an oracle applies: only with majorities and exactly two voters.
    /// Source: `QuorumOracleMaj`.
    pub fn heeds_oracle(&self) -> bool {
        *self.verifier() == Verifier::Majority && self.voters().count() == 2
    }
}

//! Which servers are a quorum.

use std::collections::{BTreeMap, BTreeSet};

use zebu_proto::ServerId;

use super::Membership;

/// How quorums are made.
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
    /// Who is in which group; every voter is in exactly one.
    pub(super) groups: BTreeMap<i64, BTreeSet<ServerId>>,
    /// Every voter, whoever else is in a group, and whom else the configuration names.
    pub(super) weights: BTreeMap<ServerId, u64>,
}

impl Groups {
    /// The groups by number.
    pub fn groups(&self) -> impl Iterator<Item = (i64, &BTreeSet<ServerId>)> {
        self.groups.iter().map(|(id, members)| (*id, members))
    }

    /// How much a server counts; 0 when the configuration does not name it.
    pub fn weight(&self, server: ServerId) -> u64 {
        self.weights.get(&server).copied().unwrap_or(0)
    }

    /// Groups of no weight do not count at all.
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
    /// Whether an oracle can have a say at all: majorities, and exactly two voters.
    ///
    /// Source: `QuorumOracleMaj`.
    pub fn heeds_oracle(&self) -> bool {
        *self.verifier() == Verifier::Majority && self.voters().count() == 2
    }
}

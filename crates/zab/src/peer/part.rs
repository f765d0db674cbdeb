//! The phases of a member, each with the state that exists only in that phase.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use zebu_proto::ServerId;

use crate::disk_progress::DiskProgress;
use crate::election::Ballot;
use crate::leader::Leader;
use crate::learner::Learner;

/// The phase of a member.
#[derive(Debug)]
pub(super) enum Part {
    /// Waits for the disk before it votes.
    Settling(Settling),
    /// Votes until there is a leader.
    Looking(Looking),
    /// Leads, from the end of its election on.
    Leading(Box<Leader>, Tenure),
    /// Follows or observes a leader, from the end of its election on.
    Learning(Box<Learner>, Tenure),
}

/// What a member keeps while it cannot vote yet.
#[derive(Debug, Default)]
pub(super) struct Settling {
    /// Ballots received before this server could vote.
    pub(super) early: BTreeMap<ServerId, Ballot>,
    /// Non-voters that asked for the leader before the last election ended without one.
    pub(super) asked: BTreeSet<ServerId>,
    /// No look for a leader before this time.
    pub(super) rest_until: Duration,
    /// Whether a ballot ends that rest: this server may be one that the others hear and that does
    /// not hear them.
    pub(super) rests_unheard: bool,
}

/// What a member keeps while it votes.
#[derive(Debug, Default)]
pub(super) struct Looking {
    /// Non-voters that asked for the leader while it was unknown.
    pub(super) asked: BTreeSet<ServerId>,
}

/// What a member keeps while it leads or learns.
#[derive(Debug, Default)]
pub(super) struct Tenure {
    /// Servers that have begun to look for a leader, and when.
    pub(super) ahead: BTreeMap<ServerId, (Duration, Ballot)>,
    /// Progress of this server's own disk.
    pub(super) disk_progress: DiskProgress,
}

impl Part {
    /// A member that is about to settle, and remembers nothing.
    pub(super) fn settling() -> Self {
        Self::Settling(Settling::default())
    }

    /// Takes the non-voters that wait for the result of the election.
    pub(super) fn take_asked(&mut self) -> BTreeSet<ServerId> {
        match self {
            Self::Settling(Settling { asked, .. }) | Self::Looking(Looking { asked }) => {
                std::mem::take(asked)
            }
            Self::Leading(..) | Self::Learning(..) => BTreeSet::new(),
        }
    }

    /// What a member with a role keeps.
    pub(super) fn tenure(&self) -> Option<&Tenure> {
        match self {
            Self::Leading(_, tenure) | Self::Learning(_, tenure) => Some(tenure),
            Self::Settling(_) | Self::Looking(_) => None,
        }
    }

    /// See [`Part::tenure`].
    pub(super) fn tenure_mut(&mut self) -> Option<&mut Tenure> {
        match self {
            Self::Leading(_, tenure) | Self::Learning(_, tenure) => Some(tenure),
            Self::Settling(_) | Self::Looking(_) => None,
        }
    }
}

//! The rules of the actions: which servers are a quorum, and which guard is left out on purpose.

use std::fmt;

use crate::state::{Servers, Txn};

/// Decides which servers are a quorum.
pub trait Quorums: fmt::Debug {
    /// Whether `servers` are enough to commit the history, or to establish a leader with it.
    ///
    /// `committed`: the length of the history that is known to be committed. If a reconfiguration
    /// after it is in progress, quorums of both configurations count.
    fn is_quorum(&self, history: &[Txn], committed: usize, servers: Servers) -> bool;
}

/// More than half of the first servers; the others are observers.
#[derive(Clone, Copy, Debug)]
pub struct Majority(pub usize);

impl Quorums for Majority {
    fn is_quorum(&self, _: &[Txn], _: usize, servers: Servers) -> bool {
        let voters = servers.0 & ((1 << self.0) - 1);
        voters.count_ones() as usize * 2 > self.0
    }
}

/// A guard that is left out, or a wrong effect, to show that the invariants detect it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// A leader does not wait for promises.
    NoQuorumOfPromises,
    /// A leader with an older history than a promising server does not give up.
    OlderHistory,
    /// A server promises the same epoch to two leaders.
    PromisesTwice,
    /// A server follows a leader of an epoch before the one that it has accepted.
    OldEpochAccepted,
    /// A restart forgets the accepted epoch.
    AcceptedNotDurable,
    /// A leader does not wait until a quorum has adopted its history.
    NoQuorumOfHistories,
    /// A server adopts a history that is not on its disk.
    AdoptsBeforeFlush,
    /// A server acknowledges transactions that are not on its disk.
    AcksBeforeFlush,
    /// A server that has lost its disk promises as if it had not.
    EmptyPromises,
    /// A leader commits transactions that only it has.
    CommitsAlone,
    /// A leader counts acknowledgements of servers that have not adopted its history, and histories
    /// are compared by the current epoch alone, as the original's servers do.
    CountsUnproven,
    /// A follower keeps transactions that its leader does not have.
    NotTruncated,
    /// A follower leaves out a proposal.
    SkipsProposal,
    /// A follower delivers transactions that its leader has not committed.
    DeliversEarly,
}

impl Fault {
    /// All of them.
    pub const ALL: [Self; 14] = [
        Self::NoQuorumOfPromises,
        Self::OlderHistory,
        Self::PromisesTwice,
        Self::OldEpochAccepted,
        Self::AcceptedNotDurable,
        Self::NoQuorumOfHistories,
        Self::AdoptsBeforeFlush,
        Self::AcksBeforeFlush,
        Self::EmptyPromises,
        Self::CommitsAlone,
        Self::CountsUnproven,
        Self::NotTruncated,
        Self::SkipsProposal,
        Self::DeliversEarly,
    ];
}

/// The rules that the actions use.
#[derive(Debug)]
pub struct Rules<Q> {
    /// Which servers are a quorum.
    pub quorums: Q,
    /// The fault of the rules.
    pub fault: Option<Fault>,
}

impl<Q> Rules<Q> {
    /// The rules without a fault.
    pub fn new(quorums: Q) -> Self {
        Self { quorums, fault: None }
    }

    /// Whether the rules have this fault.
    pub(crate) fn has(&self, fault: Fault) -> bool {
        self.fault == Some(fault)
    }
}

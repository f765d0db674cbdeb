//! What a leader has in one phase only.

use std::collections::{BTreeSet, VecDeque};
use std::time::Duration;

use zebu_proto::{Epoch, ServerId, Zxid};

use super::{Confirmation, reconfig};
use crate::ctx::Ctx;
use crate::doubt::Reports;
use crate::history::History;

/// The phases of a leader, in order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Phase {
    /// Discovery: the leader collects the promised epochs of a quorum.
    EpochDiscovery,
    /// Discovery: the leader makes its own promise of the new epoch durable.
    EpochPromise,
    /// Discovery: the leader collects the history ends of a quorum.
    HistoryDiscovery,
    /// Synchronization: the leader synchronizes a quorum.
    Synchronization,
    /// Broadcast: the leader orders transactions.
    Broadcast,
}

/// The state of a leader in each phase.
#[derive(Debug)]
pub(super) enum State {
    EpochDiscovery {
        /// The highest epoch that a server has promised.
        highest: Epoch,
        /// The voters whose promises are known.
        connecting: BTreeSet<ServerId>,
        /// From then on, a supporter that looks for a leader again ends this leadership.
        disloyal_after: Duration,
    },
    EpochPromise,
    HistoryDiscovery {
        /// The voters that have accepted the epoch, and whose history is not newer.
        electing: BTreeSet<ServerId>,
    },
    Synchronization {
        /// The voters that have this leader's history on disk.
        proven: BTreeSet<ServerId>,
        /// Whether the epoch is durable here as the current one.
        current_saved: bool,
    },
    Broadcast(Broadcast),
}

impl State {
    pub(super) fn phase(&self) -> Phase {
        match self {
            Self::EpochDiscovery { .. } => Phase::EpochDiscovery,
            Self::EpochPromise => Phase::EpochPromise,
            Self::HistoryDiscovery { .. } => Phase::HistoryDiscovery,
            Self::Synchronization { .. } => Phase::Synchronization,
            Self::Broadcast(_) => Phase::Broadcast,
        }
    }

    pub(super) fn broadcast(&self) -> Option<&Broadcast> {
        match self {
            Self::Broadcast(broadcast) => Some(broadcast),
            _ => None,
        }
    }

    pub(super) fn broadcast_mut(&mut self) -> Option<&mut Broadcast> {
        match self {
            Self::Broadcast(broadcast) => Some(broadcast),
            _ => None,
        }
    }
}

/// A leader that orders transactions.
#[derive(Debug)]
pub(super) struct Broadcast {
    /// The time at which the leader next checks whether a quorum of its learners is alive.
    pub(super) check_at: Duration,
    /// The time at which the leader next tells its learners that it is alive, and checks whether a
    /// quorum of them has answered.
    pub(super) alive_at: Duration,
    /// Requests that wait for a proof that this server leads, in order.
    pub(super) confirmations: VecDeque<Confirmation>,
    /// The configurations whose quorums transactions require.
    pub(super) needed: reconfig::Needed,
    /// The leader of the new committed configuration. If set, this server commits nothing more.
    pub(super) successor: Option<reconfig::Successor>,
    /// The follower that is to lead next, and the transaction that only it gets. If set, this
    /// server proposes and commits nothing more.
    pub(super) heir: Option<(ServerId, Zxid)>,
    /// Followers that report a different tree.
    pub(super) reports: Reports,
}

impl Broadcast {
    pub(super) fn new(ctx: &Ctx<'_>) -> Self {
        Self {
            check_at: ctx.now + ctx.options.tick,
            alive_at: ctx.options.leader_silence.map_or(Duration::MAX, |_| ctx.now),
            confirmations: VecDeque::new(),
            needed: reconfig::Needed::default(),
            successor: None,
            heir: None,
            reports: Reports::default(),
        }
    }

    /// Asserts what holds between any two steps of a leader in `epoch` that has committed `end` and
    /// proposed `proposed`, in this ping round.
    pub(super) fn check(
        &self,
        epoch: Epoch,
        end: Zxid,
        proposed: Zxid,
        round: u64,
        history: &History,
    ) {
        self.needed.check(end, proposed);
        assert_eq!(proposed.epoch(), epoch, "{proposed} is proposed");
        let is_last = proposed.counter() == 0 || proposed == history.last();
        assert!(is_last, "{proposed} was proposed last, and {} is last", history.last());
        let rounds = self.confirmations.iter().map(|it| (it.above, it.round));
        assert!(rounds.is_sorted(), "confirmations are in the order in which they were asked for");
        let last = self.confirmations.back();
        assert!(last.is_none_or(|it| it.round <= round + 1), "a round nobody will begin");
        assert!(last.is_none_or(|it| it.above <= proposed), "waits for what is not proposed");
    }

    /// When this leader next has something to do.
    pub(super) fn deadline(&self) -> Duration {
        let successor = self.successor.map_or(Duration::MAX, |successor| successor.until());
        self.check_at.min(self.alive_at).min(successor)
    }

    /// Whether another server is to lead next.
    pub(super) fn ends(&self) -> bool {
        self.successor.is_some() || self.heir.is_some()
    }
}

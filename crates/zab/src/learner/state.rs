//! What a learner has in one stage only.

use std::collections::VecDeque;

use zebu_proto::Zxid;
use zebu_proto::quorum::QuorumPacket;

use crate::relay::Relay;

/// The stages of a learner, in order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Stage {
    /// Discovery: the learner dials, or waits before it dials again.
    Connecting,
    /// Discovery: the learner has sent FOLLOWERINFO or OBSERVERINFO.
    Introduced,
    /// Discovery: the learner makes its promise of the leader's epoch durable.
    EpochPromise,
    /// Discovery is over: the learner has sent ACKEPOCH.
    EpochAccepted,
    /// Synchronization by TRUNC: the disk truncates the log.
    Truncation,
    /// Synchronization by SNAP: the leader's snapshot is being received.
    SnapshotTransfer,
    /// Synchronization by SNAP: the snapshot ends before a transaction that this server knows to be
    /// committed. The transactions after it decide whether the leader has that: a snapshot may be
    /// older than the leader's history.
    SnapshotDoubted,
    /// Synchronization by SNAP: the disk installs the snapshot.
    SnapshotInstall,
    /// Synchronization: the learner receives missing transactions.
    CatchUp,
    /// Synchronization: NEWLEADER has arrived, and everything before it is being synced.
    HistorySync,
    /// Synchronization: the leader's epoch is being stored as the current epoch.
    EpochSync,
    /// The learner has acknowledged NEWLEADER, and waits for UPTODATE.
    Synchronized,
    /// Broadcast: the learner serves clients.
    Broadcast,
}

/// The state of a learner in each stage. Packets that arrive while the disk is busy, or while a
/// snapshot is doubted, wait there.
#[derive(Debug)]
pub(super) enum State {
    Connecting,
    Introduced,
    EpochPromise,
    EpochAccepted {
        /// Whether it has requested a snapshot despite a history of its own.
        wants_tree: bool,
    },
    Truncation {
        held: VecDeque<QuorumPacket>,
    },
    SnapshotTransfer,
    SnapshotDoubted {
        /// The end of the snapshot, or of the transactions after it.
        end: Zxid,
        held: VecDeque<QuorumPacket>,
    },
    SnapshotInstall {
        held: VecDeque<QuorumPacket>,
    },
    CatchUp,
    HistorySync {
        /// What must be durable before NEWLEADER is acknowledged.
        prove: Zxid,
    },
    EpochSync,
    Synchronized,
    Broadcast(Broadcast),
}

impl State {
    pub(super) fn stage(&self) -> Stage {
        match self {
            Self::Connecting => Stage::Connecting,
            Self::Introduced => Stage::Introduced,
            Self::EpochPromise => Stage::EpochPromise,
            Self::EpochAccepted { .. } => Stage::EpochAccepted,
            Self::Truncation { .. } => Stage::Truncation,
            Self::SnapshotTransfer => Stage::SnapshotTransfer,
            Self::SnapshotDoubted { .. } => Stage::SnapshotDoubted,
            Self::SnapshotInstall { .. } => Stage::SnapshotInstall,
            Self::CatchUp => Stage::CatchUp,
            Self::HistorySync { .. } => Stage::HistorySync,
            Self::EpochSync => Stage::EpochSync,
            Self::Synchronized => Stage::Synchronized,
            Self::Broadcast(_) => Stage::Broadcast,
        }
    }

    /// The observers that learn from this server.
    pub(super) fn relay(&self) -> Option<&Relay> {
        match self {
            Self::Broadcast(broadcast) => broadcast.relay.as_ref(),
            _ => None,
        }
    }

    /// The observers that learn from this server, mutably.
    pub(super) fn relay_mut(&mut self) -> Option<&mut Relay> {
        match self {
            Self::Broadcast(broadcast) => broadcast.relay.as_mut(),
            _ => None,
        }
    }
}

/// A learner that serves clients.
#[derive(Debug)]
pub(super) struct Broadcast {
    /// At a follower: the observers that learn from it.
    pub(super) relay: Option<Relay>,
    /// The newest transaction that this server has acknowledged.
    pub(super) acked: Zxid,
    /// The end of its history at the leader's last ping.
    pub(super) had: Zxid,
}

//! Why a member ends its role and looks for a leader again.

use std::time::Duration;

use zebu_proto::quorum::PacketKind;
use zebu_proto::{EnsembleId, Epoch, ServerId, Zxid};

/// Why a member ended its last role, with the facts that decided it.
///
/// Its text is one clause for the server's log, with "this server" as the member that speaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Leave {
    /// The process has just started: there was no role before.
    #[error("this server has just started")]
    Started,

    // ---- of a leader
    /// No quorum completed discovery and synchronization within `initLimit`.
    #[error("no quorum has synchronized with this leader in time")]
    NoQuorumInTime,
    /// The followers that have been heard of within `syncLimit` are no quorum.
    #[error("this leader hears no quorum of followers any more")]
    QuorumLost,
    /// The voters have been silent for longer than `zebu.leaderSilence` allows, and a leader
    /// without them is no quorum.
    #[error("this leader has heard no quorum of followers for {0:?}")]
    QuorumSilent(Duration),
    /// While a reconfiguration is in progress, the followers heard of are no quorum of the
    /// configuration in force.
    #[error(
        "this leader hears no quorum of the configuration that its pending reconfiguration replaces"
    )]
    FormerQuorumLost,
    /// A supporter of a leader that waits for a quorum votes again.
    #[error("server {} had voted for this leader and looks for a leader again", .0.0)]
    SupporterLooks(ServerId),
    /// Too many supporters have voted for another leader in the same election.
    #[error("server {} has voted for another leader, and the remaining supporters are no quorum", .0.0)]
    SupporterTurnsAway(ServerId),
    /// A voter knows a configuration that this leader does not.
    #[error("server {} knows configuration {version:?}, this leader only {own:?}", server.0)]
    NewerConfig {
        /// The voter.
        server: ServerId,
        /// The version that the voter knows.
        version: Zxid,
        /// The version in force at this leader.
        own: Zxid,
    },
    /// A voter has promised an epoch behind this leader's.
    #[error("server {} has promised epoch {:x}, and this leader's is {:x}", server.0, promised.0, own.0)]
    LaterPromise {
        /// The voter.
        server: ServerId,
        /// The epoch that it has promised.
        promised: Epoch,
        /// This leader's epoch.
        own: Epoch,
    },
    /// A voter's history is newer than that of the leader that it has voted for.
    #[error("server {} has a newer history: it ends at {last:?} in epoch {:x}", server.0, epoch.0)]
    BetterHistory {
        /// The voter.
        server: ServerId,
        /// The epoch by which its history is compared.
        epoch: Epoch,
        /// The end of its history.
        last: Zxid,
    },
    /// A reconfiguration is in force that another server leads, and that server's followers have
    /// left.
    #[error("server {} leads the new configuration", .0.0)]
    Succeeded(ServerId),
    /// This leader was asked to let a follower lead, and that follower has everything.
    #[error("this leader was asked to hand over to server {}", .0.0)]
    HandedOver(ServerId),
    /// The follower that was to lead next has left, or has not logged the last transaction in time.
    #[error("this leader was to hand over to server {}, which does not answer", .0.0)]
    HeirLost(ServerId),
    /// The reconfiguration that this leader completed as its first act has another leader.
    #[error("the configuration that came into force with this leader's epoch has another leader")]
    ConfigHasOtherLeader,

    /// Two of the voters that have accepted this leader's epoch belong to different ensembles.
    #[error(
        "server {} belongs to ensemble {}, and server {} to ensemble {}: one of them does not belong here, so the list of \
         members is wrong, or data were copied from another ensemble",
        first.0.0, first.1, second.0.0, second.1
    )]
    TwoEnsembles {
        /// One of the two voters, and the id of its ensemble.
        first: (ServerId, EnsembleId),
        /// The other voter, and the id of its ensemble.
        second: (ServerId, EnsembleId),
    },
    /// A quorum of followers has one and the same tree after a transaction, and this leader has
    /// another one.
    #[error(
        "at {zxid:?} a quorum of followers agrees on another tree, so the tree of this leader is wrong. This server \
         neither votes nor serves until a leader elected without it has sent it the whole tree"
    )]
    TreeOutvoted {
        /// The first transaction whose digest differs.
        zxid: Zxid,
    },

    // ---- of a learner
    /// The leader, or the follower that was to serve this observer, belongs to another ensemble.
    #[error(
        "server {} belongs to ensemble {theirs}, and this server's data to ensemble {own}: this server keeps its data and \
         does not follow; the list of members is wrong, or data were copied from another ensemble",
        server.0
    )]
    OtherEnsemble {
        /// The server to which this one connected.
        server: ServerId,
        /// The id of its ensemble.
        theirs: EnsembleId,
        /// The id of this server's ensemble.
        own: EnsembleId,
    },
    /// The leader refuses connections, or its address does not answer.
    #[error("leader {} cannot be reached", .0.0)]
    LeaderUnreachable(ServerId),
    /// The leader has said nothing for as long as the limits allow.
    #[error("leader {} has been silent for too long", .0.0)]
    LeaderSilent(ServerId),
    /// The leader ended the connection, or the network did.
    #[error("the connection to leader {} was closed", .0.0)]
    LinkClosed(ServerId),
    /// An observer could reach none of the observer masters.
    #[error("no observer master can be reached")]
    MastersUnreachable,
    /// A packet arrived at a stage at which no leader sends it.
    #[error("the leader has sent {0} out of turn")]
    OutOfTurn(PacketKind),
    /// The content of a packet cannot be decoded, because it was changed on its way.
    #[error("the leader's {0} has arrived damaged")]
    Damaged(PacketKind),
    /// The first packet of a leader is not LEADERINFO.
    #[error("the leader has sent {0} instead of its epoch")]
    EpochNotTold(PacketKind),
    /// LEADERINFO contains a number that is not an epoch.
    #[error("the leader has announced the zxid {0:?}, which belongs to no epoch")]
    EpochImpossible(Zxid),
    /// The leader's epoch is below the one that this server has promised.
    #[error("the leader's epoch {:x} is over: this server has promised {:x}", epoch.0, promised.0)]
    EpochOver {
        /// The leader's epoch.
        epoch: Epoch,
        /// The epoch that this server has promised.
        promised: Epoch,
    },
    /// The leader's epoch is so far ahead that this server must receive it twice before it promises
    /// it.
    #[error("the leader's epoch {:x} is far ahead of {:x}: the leader must announce it again", epoch.0, promised.0)]
    EpochFarAhead {
        /// The leader's epoch.
        epoch: Epoch,
        /// The epoch that this server has promised.
        promised: Epoch,
    },
    /// The leader wants to send a tree of an epoch that has not begun.
    #[error("the leader offers a tree that ends at {zxid:?}, behind its own epoch {:x}", epoch.0)]
    TreeOfLaterEpoch {
        /// The last transaction of the tree.
        zxid: Zxid,
        /// The leader's epoch.
        epoch: Epoch,
    },
    /// This server has requested the whole tree, and the leader's tree ends before this server's
    /// log.
    #[error("the leader's tree ends at {zxid:?}, and this server has logged up to {last:?}")]
    TreeTooShort {
        /// The end of the leader's tree.
        zxid: Zxid,
        /// The end of this server's log.
        last: Zxid,
    },
    /// TRUNC names a position after the end of this server's history.
    #[error("the leader truncates at {zxid:?}, and this server's history ends at {last:?}")]
    TruncatedBeyondEnd {
        /// The position that the leader names.
        zxid: Zxid,
        /// The end of this server's history.
        last: Zxid,
    },
    /// TRUNC names a position that this server cannot reach from its snapshots and logs.
    #[error(
        "the leader requests a truncation to a transaction that no snapshot and log of this server can restore"
    )]
    TruncatedNowhere,
    /// The leader's history ends before a transaction that this server has and knows to be
    /// committed.
    #[error(
        "server {} leads without {certain:?}, which is committed: its quorum has lost everything after {end:?}; this \
         server keeps its data and does not follow",
        leader.0
    )]
    WouldForget {
        /// The leader.
        leader: ServerId,
        /// The end of the history that both have in common.
        end: Zxid,
        /// The newest transaction that this server knows to be committed.
        certain: Zxid,
    },
    /// The ensemble has a history, and this member, whose disk is empty, may have had it.
    #[error(
        "server {} has a history of this ensemble (zxid {zxid:?}), and this server's data directory is empty: it may \
         have lost its data, and neither votes nor serves until a leader elected without it has brought it up to \
         date; to let it vote all the same, create a file named initialize beside version-2 and start it again",
        server.0
    )]
    MayHaveLost {
        /// The server that has reported that history.
        server: ServerId,
        /// The newest zxid of the candidate that it votes for.
        zxid: Zxid,
    },
    /// The packet after discovery is not DIFF, TRUNC or SNAP.
    #[error("the leader has sent {0} in place of DIFF, TRUNC or SNAP")]
    SyncNotTold(PacketKind),
    /// The leader knows the ensemble's id, but NEWLEADER arrives before it.
    #[error("the leader has not sent the ensemble's id before the end of its history")]
    IdentityNotTold,
    /// NEWLEADER names another epoch than LEADERINFO.
    #[error("the leader has announced epoch {:x} and then {:x}", told.0, now.0)]
    EpochChanged {
        /// The epoch at discovery.
        told: Epoch,
        /// The epoch in NEWLEADER.
        now: Epoch,
    },
    /// An observer has a vote in the configuration that the leader works on.
    #[error("this server has a vote in the configuration that is proposed")]
    HasVoteInProposed,
    /// The leader's end of history is before what this server logged in the same epoch.
    #[error(
        "the leader has proposed up to {end:?} only, and this server has logged {had:?} in its epoch"
    )]
    NotProposed {
        /// The last transaction that the leader reports as proposed.
        end: Zxid,
        /// The last transaction that this server had logged.
        had: Zxid,
    },
    /// The leader's end of history is before the end that it announced for its snapshot. The tree
    /// is the leader's, and its zxid is wrong.
    #[error(
        "the leader has announced that its snapshot ends at {copied:?}, and has proposed up to {end:?} only: this \
         server does not vote until a leader has sent it another snapshot"
    )]
    CopyNotProposed {
        /// The last transaction that the leader reports as proposed.
        end: Zxid,
        /// The end of the snapshot, as the leader has announced it.
        copied: Zxid,
    },
    /// A proposal is of an epoch behind the leader's.
    #[error("the leader has proposed {zxid:?} in its epoch {:x}", epoch.0)]
    ProposedInLaterEpoch {
        /// The proposal.
        zxid: Zxid,
        /// The leader's epoch.
        epoch: Epoch,
    },
    /// A proposal does not follow what this server has.
    #[error("the leader has left a gap: {zxid:?} came after {last:?}")]
    Gap {
        /// The end of this server's history.
        last: Zxid,
        /// What came.
        zxid: Zxid,
    },
    /// A commit names a transaction that is not the next one to be committed.
    #[error(
        "the leader has committed {zxid:?}, which is not the next proposal after {committed:?}"
    )]
    CommittedUnproposed {
        /// What the leader has committed.
        zxid: Zxid,
        /// What was committed before.
        committed: Zxid,
    },
    /// The packet that brings a reconfiguration into force does not say who leads it.
    #[error("the leader does not name the leader of the new configuration")]
    NoDesignatedLeader,
    /// This server's role or its leader is another in the configuration that came into force.
    #[error("configuration {0:?} is in force, and this server has another role or leader in it")]
    ConfigChanged(Zxid),
    /// This server's digests have differed from the leader's for a while.
    #[error("this server's tree differs from the leader's")]
    TreeDiffers,
    /// The leader has not ordered a request of this server that it must have received.
    #[error("the leader has lost a request of this server")]
    RequestLost,
    /// This server has not made durable for `syncLimit` what its leader has committed.
    #[error("this server's disk is behind its leader")]
    DiskBehindLeader,

    // ---- of both
    /// The server is asked to stop: a leader lets another server lead.
    #[error("this server is asked to stop")]
    Retired,
    /// The followers have made more durable that this leader's disk has not than its memory may
    /// hold.
    #[error("this leader's disk is too far behind its followers' disks")]
    DiskBehind,
    /// A sync of this server's log has not come back for `syncLimit`.
    #[error("this server's disk has not synced for {} ms", .0.as_millis())]
    DiskHangs(Duration),
    /// The epoch has no zxids left.
    #[error("the zxids of this epoch are spent")]
    ZxidsSpent,
}

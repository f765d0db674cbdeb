//! The inputs and outputs of a member of an ensemble.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use zebu_proto::quorum::QuorumPacket;
use zebu_proto::{EnsembleId, Epoch, Identity, ServerId, Zxid};

use crate::config::Membership;
use crate::election::Ballot;
use crate::history::Memory;
use crate::mesh::WireId;
use crate::{election, mesh};

/// Identifies a connection between a leader and a learner. Never reused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LinkId(pub u64);

/// Options of a member.
#[derive(Clone, Debug)]
pub struct Options {
    /// The id of this server.
    pub me: ServerId,
    /// The unit of the limits below.
    pub tick: Duration,
    /// Ticks that discovery and synchronization may take.
    pub init_limit: u32,
    /// Ticks that a peer may be silent or leave a proposal unacknowledged.
    pub sync_limit: u32,
    /// Ticks that connecting to a leader may take.
    pub connect_limit: u32,
    /// Pause between attempts to connect to a leader.
    pub connect_pause: Duration,
    /// Timing of elections.
    pub patience: election::Patience,
    /// How much history is kept in memory.
    pub memory: Memory,
    /// Fraction of the newest snapshot's size up to which a learner is synchronized from the log on
    /// disk (`zookeeper.snapshotSizeFactor`); `None`: never.
    pub log_share: Option<f64>,
    /// Always sends snapshots to learners (`zookeeper.forceSnapshotSync`).
    pub always_copy: bool,
    /// How long a new leader waits for a quorum of learners, even if a supporter looks for a leader
    /// again (`zookeeper.leader.maxTimeToWaitForEpoch`). After that, such a supporter makes it give
    /// up. `None`: it waits as long as discovery may take.
    pub epoch_wait_max: Option<Duration>,
    /// How an observer spares the other servers.
    pub observer: ObserverOptions,
    /// How many observers may be synchronized at a time.
    pub syncs_max: SyncsMax,
    /// Seed of random pauses.
    pub seed: u64,
    /// Whether the membership may be reconfigured (`reconfigEnabled`).
    pub reconfig: bool,
    /// Counter of the first transaction of an epoch. Tests set it to exhaust an epoch.
    pub first_counter: u32,
    /// How long a learner with digest mismatches waits before it requests another snapshot. Grows
    /// each time the snapshot does not help.
    pub resync_pause: Duration,
    /// Behaves like the original, to simulate mixed ensembles. As a learner, the server lets the
    /// leader's configuration replace the one it has seen proposed, and puts it in force when it
    /// may serve. In elections, it prefers the higher id if histories are equal, and does not stand
    /// before it is a voter.
    pub credulous: bool,
    /// The id of the ensemble if this server is the first to lead it: random, and never used
    /// before. `None`: this server knows no such ids, as those of the original.
    pub new_ensemble: Option<EnsembleId>,
    /// How long a learner lets its leader be silent if all voters are Zebu servers; the leader
    /// announces it. A longer `syncLimit` counts beside other servers, and before the learner
    /// serves. `None`: `syncLimit` always counts.
    pub leader_silence: Option<Duration>,
}

/// How an observer spares the other servers.
#[derive(Clone, Copy, Debug)]
pub struct ObserverOptions {
    /// Whether observers learn from followers (`observerMasterPort`).
    pub masters: bool,
    /// Whether it logs transactions (`syncEnabled`). Otherwise only snapshots are written to its
    /// disk.
    pub logs: bool,
    /// Upper bound of a random pause before it connects (`zookeeper.observer.reconnectDelayMs`).
    pub connect_pause_max: Duration,
    /// Upper bound of a random pause before it looks for a leader again
    /// (`zookeeper.observer.election.DelayMs`).
    pub look_pause_max: Duration,
}

impl Default for ObserverOptions {
    fn default() -> Self {
        let (connect_pause_max, look_pause_max) = (Duration::ZERO, Duration::ZERO);
        Self { masters: false, logs: true, connect_pause_max, look_pause_max }
    }
}

/// How many observers may be synchronized at the same time. Followers are never limited, but count.
#[derive(Clone, Copy, Debug)]
pub struct SyncsMax {
    /// With a snapshot (`zookeeper.leader.maxConcurrentSnapSyncs`).
    pub copies: usize,
    /// With missing transactions (`zookeeper.leader.maxConcurrentDiffSyncs`).
    pub diffs: usize,
}

impl Default for SyncsMax {
    fn default() -> Self {
        Self { copies: 10, diffs: 100 }
    }
}

impl Options {
    /// Default options.
    pub fn new(me: ServerId) -> Self {
        Self {
            me,
            tick: Duration::from_secs(2),
            init_limit: 10,
            sync_limit: 5,
            connect_limit: 10,
            connect_pause: Duration::from_millis(100),
            patience: election::Patience::default(),
            memory: Memory::default(),
            log_share: Some(0.33),
            always_copy: false,
            epoch_wait_max: None,
            observer: ObserverOptions::default(),
            syncs_max: SyncsMax::default(),
            seed: 0,
            reconfig: false,
            first_counter: 1,
            resync_pause: Duration::from_secs(60),
            credulous: false,
            new_ensemble: None,
            leader_silence: None,
        }
    }

    pub(crate) fn init_time(&self) -> Duration {
        self.tick * self.init_limit
    }

    pub(crate) fn sync_time(&self) -> Duration {
        self.tick * self.sync_limit
    }
}

/// Which of the two epochs on disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EpochKind {
    /// The newest epoch this server has promised to take part in (accepted epoch).
    Accepted,
    /// The epoch of the newest leader whose history this server has (current epoch).
    Current,
}

/// Configurations in a notification, besides the vote.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Configs {
    /// The sender's committed configuration.
    pub committed: Option<Arc<Membership>>,
    /// The sender's proposed configuration. Servers of the original do not send it.
    pub proposed: Option<Arc<Membership>>,
    /// The id of the sender's ensemble, if that is settled. The original's servers do not say that.
    pub ensemble: Option<EnsembleId>,
}

/// A change of the configuration, in memory and on disk.
#[derive(Clone, Debug, PartialEq)]
pub enum ConfigChange {
    /// It is proposed: it counts besides the committed one, also after a restart.
    Proposed(Arc<Membership>),
    /// The proposed configuration was dropped with its transaction.
    Withdrawn,
    /// It is committed.
    Committed(Arc<Membership>),
    /// Other servers have it as proposed; `None`: no longer. It is not binding and not stored, but
    /// gives the addresses of servers that no other configuration names.
    Heard(Option<Arc<Membership>>),
}

/// How a read of the log on disk ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LogEnd {
    /// There is more, in further inputs.
    More,
    /// Everything requested was read.
    Complete,
    /// The log does not reach back far enough, is too long, or has a gap.
    Unusable,
}

/// The digest of this server's tree after a transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TreeDigest {
    /// The transaction.
    pub zxid: Zxid,
    /// The digest of the tree.
    pub tree: i64,
}

/// A digest in a delivered transaction was compared with the tree's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Compared {
    /// The tree's digest.
    pub digest: TreeDigest,
    /// Whether the digest in the transaction is different.
    pub differs: bool,
}

/// Events that a member reacts to.
#[derive(Clone, Debug)]
pub enum Input {
    /// Time passed.
    Tick,
    /// The whole server was suspended for this long. Messages of that time follow.
    Stalled(Duration),
    /// An event on the election network.
    Mesh(mesh::Input),
    /// A notification arrived on the election network.
    Heard {
        /// The connection.
        wire: WireId,
        /// The ballot.
        ballot: Ballot,
        /// The configurations with it.
        said: Configs,
    },
    /// A learner has connected to the open port.
    Accepted(LinkId),
    /// [`Output::Connect`] or [`Output::ConnectToMaster`] has succeeded.
    Connected(LinkId),
    /// [`Output::Connect`] or [`Output::ConnectToMaster`] has failed.
    ConnectFailed,
    /// A packet arrived.
    Packet(LinkId, QuorumPacket),
    /// The snapshot after a SNAP packet has arrived completely. The driver keeps it until
    /// [`Output::Restore`] or [`Output::Close`], even if the connection ends.
    Copied {
        /// The connection.
        link: LinkId,
        /// The snapshot's zxid: that of the SNAP packet.
        zxid: Zxid,
    },
    /// [`Output::SendCopy`] is done: the snapshot is sent.
    CopySent(LinkId),
    /// The tree's digest was compared with that in a delivered transaction. A match must be
    /// reported only after a mismatch, and after a snapshot was installed.
    Compared(Compared),
    /// Bytes move between leader and learner without a whole packet: a part of a snapshot or a
    /// large packet was received, or the peer has accepted more of the queued bytes. Reported from
    /// time to time, more often than once a tick.
    Moves(LinkId),
    /// A connection between leader and learner has ended. [`Output::Close`] follows if this server
    /// still uses it.
    LinkDown(LinkId),
    /// The log is durable up to this zxid.
    Flushed(Zxid),
    /// [`Output::SaveEpoch`] is durable.
    EpochSaved(EpochKind, Epoch),
    /// [`Output::Truncate`] is done.
    Truncated {
        /// The end of log and tree: the requested one. `None`: no snapshot and log lead exactly
        /// there, and both are now empty.
        end: Option<Zxid>,
        /// The newest configuration in the tree.
        config: Option<Arc<Membership>>,
    },
    /// [`Output::Reload`] is done.
    Reloaded {
        /// The end of log and tree. `None`: nothing on disk is usable.
        end: Option<Zxid>,
    },
    /// [`Output::Restore`] is done: tree and log durably equal the snapshot.
    Restored {
        /// Their end.
        zxid: Zxid,
        /// The newest configuration in the tree, committed or not.
        config: Option<Arc<Membership>>,
    },
    /// The oracle's answer for two voters: whether this one may continue alone. Never sent without
    /// an oracle.
    Oracle(bool),
    /// A part of the log requested with [`Output::ReadLog`], in order.
    LogRead {
        /// The learner's connection.
        link: LinkId,
        /// Only in the first part: the newest transaction at or below the start of reading.
        floor: Option<Zxid>,
        /// The transactions.
        txns: Vec<(Zxid, Bytes)>,
        /// Whether more follows.
        end: LogEnd,
    },
}

/// Effects that a member asks for, to be carried out in the given order.
#[derive(Clone, Debug, PartialEq)]
pub enum Output {
    /// An effect on the election network.
    Mesh(mesh::Output),
    /// Close the election port for good, so that the other servers notice at once that this one has
    /// left elections.
    Retire,
    /// Open the quorum port; connections come as [`Input::Accepted`].
    Listen,
    /// Open the port for observers; connections come as [`Input::Accepted`].
    ListenForObservers,
    /// Close the open port.
    Unlisten,
    /// Connect to a leader's quorum port.
    Connect(ServerId),
    /// Connect to a follower's port for observers. Otherwise like [`Output::Connect`].
    ConnectToMaster(ServerId),
    /// Send a packet.
    Send(LinkId, QuorumPacket),
    /// Send a SNAP packet with the tree's zxid, then the snapshot; report [`Input::CopySent`].
    /// Until then, no other packet is sent on this connection.
    SendCopy(LinkId),
    /// Close a connection, and stop connecting or a snapshot transfer on it.
    Close(LinkId),
    /// Stop connecting to a leader.
    CancelConnect,
    /// Read the log on disk from the newest transaction at or below `after`, up to and including
    /// `up_to`, unless that is more than `share` of the newest snapshot's size; report
    /// [`Input::LogRead`].
    ReadLog {
        /// The learner's connection.
        link: LinkId,
        /// The learner's newest zxid.
        after: Zxid,
        /// Where to stop.
        up_to: Zxid,
        /// Fraction of the newest snapshot's size; 0: no limit.
        share: f64,
    },
    /// Make an epoch durable; report [`Input::EpochSaved`].
    SaveEpoch(EpochKind, Epoch),
    /// Store the committed zxid. Losing it is harmless, but it must never be beyond the durable end
    /// of the log.
    Committed(Zxid),
    /// Store a configuration, durably before any later request to the disk. A committed one is
    /// shown to clients and peers, and gives the addresses to listen on and connect to. A proposed
    /// one adds the addresses of servers that the committed one lacks.
    Config(ConfigChange),
    /// Remember what this server knows of the ensemble's id, durably before anything that is asked
    /// of the disk later. A settled id goes with every notification from now on.
    Identity(Identity),
    /// A server of another ensemble has been refused. Operators want to know.
    OtherEnsemble {
        /// Which server it says it is.
        server: ServerId,
        /// The id of its ensemble.
        theirs: EnsembleId,
    },
    /// Write a record to the log; report [`Input::Flushed`] when it is durable.
    Append {
        /// Its zxid.
        zxid: Zxid,
        /// Its body.
        record: Bytes,
    },
    /// Remove everything above this zxid from the log, and from the tree if necessary; report
    /// [`Input::Truncated`].
    Truncate(Zxid),
    /// Reload the tree as after a restart; report [`Input::Reloaded`].
    Reload,
    /// Make the snapshot received on this connection durable, install it as the tree, and continue
    /// the log after it; report [`Input::Restored`].
    Restore(LinkId),
    /// Apply a committed transaction.
    Deliver {
        /// Its zxid.
        zxid: Zxid,
        /// Its body.
        record: Bytes,
    },
    /// A learner was disconnected because it claims to have promised an impossibly high epoch. The
    /// operator should know.
    AbsurdEpoch {
        /// The server id that the learner gives.
        server: ServerId,
        /// The epoch that it claims to have promised.
        epoch: Epoch,
    },
    /// This server's role has changed. Earlier digest comparisons are obsolete.
    Role(Role),
    /// Stop serving clients: the tree has differed from the leader's since this transaction.
    Doubted(TreeDigest),
    /// Serve clients again: the tree equals the leader's.
    Trusted,
    /// An event for the layer that handles clients.
    Up(Up),
}

/// The role of a member.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// Looking for a leader; serves no clients.
    Looking,
    /// Leader in this epoch; transactions may be proposed.
    Leading(Epoch),
    /// Follower of this leader; requests may be forwarded.
    Following(ServerId),
    /// Observer of this leader; requests may be forwarded.
    Observing(ServerId),
}

/// The learners of a leader.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Learners {
    /// All connections, including unsynchronized ones.
    pub connected: usize,
    /// Followers that are synchronized, or have been sent everything.
    pub followers: usize,
    /// Followers that are not voters.
    pub without_vote: usize,
    /// Observers that are synchronized, or have been sent everything.
    pub observers: usize,
}

/// Messages between servers about clients.
#[derive(Clone, Debug, PartialEq)]
pub enum Up {
    /// At the leader, or a follower with observers: a learner forwards a request, revalidates a
    /// session or reports signs of life.
    FromLearner(LinkId, QuorumPacket),
    /// At a learner: the leader's answer.
    FromLeader(QuorumPacket),
    /// At a learner: the leader's ping, to be answered with the sessions heard of.
    Ping(QuorumPacket),
    /// At the leader: it still led after the call of [`crate::Peer::confirm`], and everything
    /// proposed before the call is committed.
    Confirmed(u64),
}

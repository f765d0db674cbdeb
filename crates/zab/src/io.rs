//! What a member of an ensemble is told, and what it asks for.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use zebu_proto::quorum::QuorumPacket;
use zebu_proto::{Epoch, ServerId, Zxid};

use crate::config::Membership;
use crate::election::Ballot;
use crate::history::Memory;
use crate::mesh::WireId;
use crate::{election, mesh};

/// A connection between a leader and a learner: a number that is never used twice.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LinkId(pub u64);

/// What a member is configured with.
#[derive(Clone, Debug)]
pub struct Options {
    /// This server.
    pub me: ServerId,
    /// The unit of the limits below.
    pub tick: Duration,
    /// Ticks that discovery and synchronization may take.
    pub init_limit: u32,
    /// Ticks that a peer may be silent, or keep a proposal unacknowledged.
    pub sync_limit: u32,
    /// Ticks that connecting to a leader may take.
    pub connect_limit: u32,
    /// Pause between attempts to connect to a leader.
    pub connect_pause: Duration,
    /// Timing of elections.
    pub patience: election::Patience,
    /// How much of the history is kept in memory.
    pub memory: Memory,
    /// Share of the newest snapshot's size up to which a learner is brought up to date from the log
    /// on disk (`zookeeper.snapshotSizeFactor`); `None` is never.
    pub log_share: Option<f64>,
    /// Always copies the whole state to learners (`zookeeper.forceSnapshotSync`).
    pub always_copy: bool,
    /// How long a leader waits for a quorum of learners before a supporter that looks for a leader
    /// again makes it give up (`zookeeper.leader.maxTimeToWaitForEpoch`); `None` is until discovery
    /// has taken too long.
    pub epoch_wait_max: Option<Duration>,
    /// What an observer does so as not to burden others.
    pub observer: ObserverOptions,
    /// Observers that may be brought up to date at a time.
    pub syncs_max: SyncsMax,
    /// Seed of the random pauses.
    pub seed: u64,
    /// Whether the members may change (`reconfigEnabled`).
    pub reconfig: bool,
    /// Counter of the first transaction of an epoch, for tests of its end.
    pub first_counter: u32,
    /// Before a learner whose tree differs from its leader's asks for the whole tree once more, it waits for so long,
    /// and longer each time that does not help.
    pub resync_pause: Duration,
    /// Lets a leader's word on the configuration replace whatever this server has seen proposed, and puts it in force
    /// when it may serve, as the original's learners do; in elections, prefers the higher id where histories are equally
    /// good, and does not stand before it has a vote, as the original. For simulations of ensembles with some of them.
    pub credulous: bool,
}

/// What an observer does so as not to burden others.
#[derive(Clone, Copy, Debug)]
pub struct ObserverOptions {
    /// Whether observers learn from followers (`observerMasterPort`).
    pub masters: bool,
    /// Whether it logs what it is told (`syncEnabled`); else only whole trees get to its disk.
    pub logs: bool,
    /// Below this, a random pause before it dials (`zookeeper.observer.reconnectDelayMs`).
    pub connect_pause_max: Duration,
    /// Below this, a random pause before it looks for a leader after it has lost one
    /// (`zookeeper.observer.election.DelayMs`).
    pub look_pause_max: Duration,
}

impl Default for ObserverOptions {
    fn default() -> Self {
        let (connect_pause_max, look_pause_max) = (Duration::ZERO, Duration::ZERO);
        Self { masters: false, logs: true, connect_pause_max, look_pause_max }
    }
}

/// How many observers may be brought up to date at the same time; servers that vote may always, and
/// count all the same.
#[derive(Clone, Copy, Debug)]
pub struct SyncsMax {
    /// With the whole tree (`zookeeper.leader.maxConcurrentSnapSyncs`).
    pub copies: usize,
    /// With what they lack (`zookeeper.leader.maxConcurrentDiffSyncs`).
    pub diffs: usize,
}

impl Default for SyncsMax {
    fn default() -> Self {
        Self { copies: 10, diffs: 100 }
    }
}

impl Options {
    /// The usual options of a server.
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
        }
    }

    pub(crate) fn init_time(&self) -> Duration {
        self.tick * self.init_limit
    }

    pub(crate) fn sync_time(&self) -> Duration {
        self.tick * self.sync_limit
    }
}

/// One of the two epochs on disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EpochKind {
    /// The newest epoch this server has promised to take part in.
    Accepted,
    /// The epoch of the newest leader whose history this server has.
    Current,
}

/// What a notification says of configurations, beside the vote.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Configs {
    /// The one in force there.
    pub committed: Option<Arc<Membership>>,
    /// The one that is proposed there. The original's servers do not say that.
    pub proposed: Option<Arc<Membership>>,
}

/// What becomes of a configuration, in memory and on disk.
#[derive(Clone, Debug, PartialEq)]
pub enum ConfigChange {
    /// It is proposed: it counts beside the one in force, also after a restart.
    Proposed(Arc<Membership>),
    /// What was proposed has been taken back with the transaction it came with.
    Withdrawn,
    /// It is in force.
    Committed(Arc<Membership>),
    /// Others say that it is proposed, or nobody does any more: it binds nobody and is not kept, but says
    /// where to dial whom no other configuration names.
    Heard(Option<Arc<Membership>>),
}

/// How a stretch of the log on disk reached its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LogEnd {
    /// There is more; it comes with further inputs.
    More,
    /// Everything that was asked for has come.
    Complete,
    /// The log does not reach back that far, is too long or has a hole.
    Unusable,
}

/// What this server's tree is after a transaction.
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
    /// The tree's.
    pub digest: TreeDigest,
    /// Whether the transaction's is another one.
    pub differs: bool,
}

/// Everything that can happen to a member.
#[derive(Clone, Debug)]
pub enum Input {
    /// Time has passed.
    Tick,
    /// The whole server stood still for so long; what has come meanwhile has not been told yet.
    Stalled(Duration),
    /// Something happened on the election network.
    Mesh(mesh::Input),
    /// A notification came over the election network.
    Heard {
        /// The connection.
        wire: WireId,
        /// What it says.
        ballot: Ballot,
        /// What is said beside it.
        said: Configs,
    },
    /// A learner has dialled the port that is open.
    Accepted(LinkId),
    /// [`Output::Connect`] or [`Output::ConnectToMaster`] has succeeded.
    Connected(LinkId),
    /// It has failed.
    ConnectFailed,
    /// A packet came.
    Packet(LinkId, QuorumPacket),
    /// The snapshot behind a SNAP packet has come completely. It is kept apart until [`Output::Restore`] or
    /// [`Output::Close`], also when the connection ends.
    Copied {
        /// The connection.
        link: LinkId,
        /// The snapshot's zxid: that of the SNAP packet.
        zxid: Zxid,
    },
    /// [`Output::SendCopy`] is done: all of the tree has been sent.
    CopySent(LinkId),
    /// The tree's digest was compared with the one in a delivered transaction. Equal ones need to be told only after
    /// others, and after a tree has come from a leader.
    Compared(Compared),
    /// Bytes move on a connection between leader and learner, although no whole packet does: a part of a tree or of a
    /// large packet was received, or the other end has taken more of what waits for it. To be reported now and then,
    /// more often than a tick.
    Moves(LinkId),
    /// A connection between leader and learner is gone. [`Output::Close`] follows if this server still uses it.
    LinkDown(LinkId),
    /// Everything appended up to here is durable.
    Flushed(Zxid),
    /// [`Output::SaveEpoch`] is durable.
    EpochSaved(EpochKind, Epoch),
    /// [`Output::Truncate`] is done.
    Truncated {
        /// Where log and tree end now: where they were cut. `None`: the disk had nothing that leads
        /// exactly there, and log and tree are empty.
        end: Option<Zxid>,
        /// The newest configuration that the tree has.
        config: Option<Arc<Membership>>,
    },
    /// [`Output::Reload`] is done.
    Reloaded {
        /// Where log and tree end now. `None`: there is nothing that can be used.
        end: Option<Zxid>,
    },
    /// [`Output::Restore`] is done: tree and log are the copy's, durably.
    Restored {
        /// Their end.
        zxid: Zxid,
        /// The newest configuration that the tree has, in force or not.
        config: Option<Arc<Membership>>,
    },
    /// What the oracle of two servers says: whether this one may go on alone. Without an oracle
    /// this never comes.
    Oracle(bool),
    /// A part of what [`Output::ReadLog`] asked for, in order.
    LogRead {
        /// For whom.
        link: LinkId,
        /// In the first part, the newest transaction at or below where reading began.
        floor: Option<Zxid>,
        /// What was read.
        txns: Vec<(Zxid, Bytes)>,
        /// Whether that is all.
        end: LogEnd,
    },
}

/// Everything a member can ask for, to be done in the order given.
#[derive(Clone, Debug, PartialEq)]
pub enum Output {
    /// Something is to be done on the election network.
    Mesh(mesh::Output),
    /// Close the election port for good: the others find at once that this server takes no part in elections.
    Retire,
    /// Open the quorum port; connections come as [`Input::Accepted`].
    Listen,
    /// Open the port for observers; connections come as [`Input::Accepted`].
    ListenForObservers,
    /// Close whichever port is open.
    Unlisten,
    /// Dial a leader's quorum port.
    Connect(ServerId),
    /// Dial a follower's port for observers; like [`Output::Connect`] in all other ways.
    ConnectToMaster(ServerId),
    /// Send a packet.
    Send(LinkId, QuorumPacket),
    /// Send a SNAP packet with the tree's zxid, then the tree as a snapshot; report
    /// [`Input::CopySent`]. Nothing else is sent there before that.
    SendCopy(LinkId),
    /// Close a connection; a dial or a copy in progress on it ends as well.
    Close(LinkId),
    /// Give up dialling a leader.
    CancelConnect,
    /// Read the log on disk from the newest transaction at or below `after`, up to and including
    /// `up_to`, unless that is more than `share` of the newest snapshot's size; report
    /// [`Input::LogRead`].
    ReadLog {
        /// For whom.
        link: LinkId,
        /// What the learner has.
        after: Zxid,
        /// Where to stop.
        up_to: Zxid,
        /// Share of the newest snapshot's size; 0 is no limit.
        share: f64,
    },
    /// Make an epoch durable; report [`Input::EpochSaved`].
    SaveEpoch(EpochKind, Epoch),
    /// Remember that everything up to here is committed. That may be forgotten, but nothing behind the durable end of the
    /// log may be remembered.
    Committed(Zxid),
    /// Remember a configuration, durably before anything that is asked of the disk later. One in
    /// force is shown to clients and peers, and is where this server listens and dials from now on;
    /// one that is proposed says where to dial whom the other does not name.
    Config(ConfigChange),
    /// Write a record to the log; report [`Input::Flushed`] when it is durable.
    Append {
        /// Its zxid.
        zxid: Zxid,
        /// Its body.
        record: Bytes,
    },
    /// Remove everything above this from the log, and from the tree if it is there; report
    /// [`Input::Truncated`].
    Truncate(Zxid),
    /// Let the tree be what a restart would find; report [`Input::Reloaded`].
    Reload,
    /// Make the snapshot that came on this connection durable, take it as the tree, and let the log
    /// go on after it; report [`Input::Restored`].
    Restore(LinkId),
    /// Apply a committed transaction.
    Deliver {
        /// Its zxid.
        zxid: Zxid,
        /// Its body.
        record: Bytes,
    },
    /// A learner has been sent away: it says that it has promised an epoch so far above all others that this
    /// cannot be. Operators want to know.
    AbsurdEpoch {
        /// Which server it says it is.
        server: ServerId,
        /// What it says it has promised.
        epoch: Epoch,
    },
    /// What the server is to clients has changed. What was said of its tree holds no more.
    Role(Role),
    /// Serve no client: the tree differs from the leader's, since this transaction.
    Doubted(TreeDigest),
    /// Serve clients again: the tree is the leader's.
    Trusted,
    /// Something that concerns clients.
    Up(Up),
}

/// What a member is to its clients.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// It has no leader and serves nobody.
    Looking,
    /// It leads, in this epoch; transactions may be proposed.
    Leading(Epoch),
    /// It follows; requests may be forwarded.
    Following(ServerId),
    /// It follows without a vote; requests may be forwarded.
    Observing(ServerId),
}

/// How many learners a leader has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Learners {
    /// All connections, those included that have not been brought up to date.
    pub connected: usize,
    /// Followers that have, or are being sent the last of it.
    pub followers: usize,
    /// Those of them without a vote.
    pub without_vote: usize,
    /// Observers likewise.
    pub observers: usize,
}

/// What the members' servers say to each other about clients.
#[derive(Clone, Debug, PartialEq)]
pub enum Up {
    /// At the leader, or at a follower with observers: a learner forwards a request, revalidates a session or reports touches.
    FromLearner(LinkId, QuorumPacket),
    /// At a learner: the leader's answer to one of these.
    FromLeader(QuorumPacket),
    /// At a learner: the leader's ping, to be answered with the sessions that were heard of.
    Ping(QuorumPacket),
    /// At the leader: it has led all the time until after [`crate::Peer::confirm`] was called, and
    /// what was proposed before that is committed.
    Confirmed(u64),
}

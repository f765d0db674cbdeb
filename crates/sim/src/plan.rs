//! The plan of a run: the ensemble, its clients and all faults. A seed decides the plan before the
//! run, so that parts can be left out to find the essential ones.

use std::fmt;
use std::time::Duration;

use zebu_proto::quorum::{PacketKind, QuorumPacket};
use zebu_testkit::Random;
use zebu_zab::config::Membership;

use crate::aims::{AIMS, Aim};

/// The server that a fault affects. The world decides it when the fault happens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Target {
    /// This server, counted from 0.
    Server(usize),
    /// The leader, if there is one.
    Leader,
    /// A server that does not lead, counted among those.
    Other(usize),
    /// The sender of the packet that an ambush waits for.
    Here,
    /// The receiver of that packet.
    There,
}

/// The other servers that a fault affects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// All of them.
    Servers,
    /// The servers with a vote.
    Voters,
    /// All but this one.
    AllBut(usize),
}

/// The packet that an ambush waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum When {
    /// A learner introduces itself.
    FollowerInfo,
    /// A leader announces its epoch.
    LeaderInfo,
    /// A learner promises the epoch.
    AckEpoch,
    /// A leader sends the transactions that a learner lacks.
    Diff,
    /// A leader truncates a learner's log.
    Trunc,
    /// A leader sends its tree.
    Snap,
    /// A leader has sent its whole history.
    NewLeader,
    /// A learner has adopted the history.
    AckNewLeader,
    /// A learner may serve.
    UpToDate,
    /// A leader proposes a transaction.
    Proposal,
    /// A learner acknowledges a transaction.
    Ack,
    /// A leader commits a transaction.
    Commit,
    /// A leader proposes a reconfiguration.
    Change,
    /// A leader commits a reconfiguration.
    Activate,
}

impl When {
    /// All packets that occur without a reconfiguration.
    pub const ALL: [Self; 12] = [
        Self::FollowerInfo,
        Self::LeaderInfo,
        Self::AckEpoch,
        Self::Diff,
        Self::Trunc,
        Self::Snap,
        Self::NewLeader,
        Self::AckNewLeader,
        Self::UpToDate,
        Self::Proposal,
        Self::Ack,
        Self::Commit,
    ];

    /// Whether `packet` is of this kind.
    pub(crate) fn is(self, packet: &QuorumPacket) -> bool {
        let kind = match self {
            Self::FollowerInfo => PacketKind::FOLLOWERINFO,
            Self::LeaderInfo => PacketKind::LEADERINFO,
            Self::AckEpoch => PacketKind::ACKEPOCH,
            Self::Diff => PacketKind::DIFF,
            Self::Trunc => PacketKind::TRUNC,
            Self::Snap => PacketKind::SNAP,
            Self::NewLeader => PacketKind::NEWLEADER,
            Self::AckNewLeader | Self::Ack => PacketKind::ACK,
            Self::UpToDate => PacketKind::UPTODATE,
            Self::Proposal | Self::Change => PacketKind::PROPOSAL,
            Self::Commit => PacketKind::COMMIT,
            Self::Activate => PacketKind::COMMITANDACTIVATE,
        };
        let history = packet.zxid.counter() == 0;
        packet.kind == kind
            && match self {
                Self::AckNewLeader => history,
                Self::Ack => !history,
                Self::Change => Membership::in_txn(packet.body()).is_some(),
                _ => true,
            }
    }
}

/// The unsynced writes that survive a power cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Left {
    /// No part of it.
    Nothing,
    /// All of it.
    All,
    /// Any part of them; the seed decides.
    Some(u64),
}

/// How a follower acknowledges transactions during a synchronization. The releases of the original
/// differ.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Acks {
    /// Only uncommitted transactions, after UPTODATE, as 3.9.2 and Zebu do.
    Late,
    /// All transactions, before it acknowledges NEWLEADER (ZOOKEEPER-4685).
    Early,
    /// Also the committed transactions, once more after UPTODATE.
    Again,
}

/// How a leader treats its learners, where leaders of the original differ from Zebu's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Leads {
    /// As a leader of Zebu does.
    Well,
    /// Now and then the leader proposes an error with the zxid of its last proposal, as 3.9 does
    /// after a request that it cannot read (B-27).
    Again,
    /// Now and then the leader omits a transaction that is missing in its memory when it
    /// synchronizes a learner (ZOOKEEPER-2846, ZOOKEEPER-4925).
    Holes,
    /// Now and then the leader loses a learner's request.
    Loses,
}

/// The ports that a member changes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Moves {
    /// The one for learners.
    pub quorum: bool,
    /// The one for elections.
    pub election: bool,
    /// The one for clients.
    pub client: bool,
}

/// The configuration that a change refers to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Meant {
    /// The committed one, whichever it is.
    Any,
    /// The newest.
    Newest,
    /// One that is not in force any more, or never was.
    Older,
}

/// A reconfiguration that an operator requests.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Change {
    /// The servers that join or change their role, each with whether it votes.
    pub joining: Vec<(Target, bool)>,
    /// The servers that leave.
    pub leaving: Vec<Target>,
    /// The ports that joining servers change.
    pub moves: Moves,
    /// The seed of the new members' groups and weights. Only for a request that names all members.
    pub groups: Option<u64>,
    /// Whether the request names all members, or only those that join and leave.
    pub whole: bool,
    /// The configuration that the request refers to.
    pub meant: Meant,
}

/// A fault, or an action of an operator.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fault {
    /// A process is killed in the middle of its disk's work, after this many calls, and restarts
    /// after a delay.
    Kill(Target, u64, Duration),
    /// A machine loses its power in the middle of its disk's work, after this many calls, and
    /// restarts after a delay.
    PowerCut(Target, u64, Left, Duration),
    /// All machines lose their power.
    PowerCutAll(u64, Left, Duration),
    /// All connections between two servers break.
    Break(usize, usize),
    /// For each pair, nothing passes from the first server to the second for a while.
    Cut(Vec<(usize, usize)>, Duration),
    /// For a while, nothing passes from a server to the other side; nor back, if `true`.
    CutOff(Target, Side, bool, Duration),
    /// For a while, nothing passes from the other servers to this one.
    Deafen(Target, Duration),
    /// For a while, nothing passes from a server to the other side. Soon all connections between
    /// them break, and what is on the way is lost.
    Sever(Target, Side, Duration),
    /// A fault happens when this packet is sent, after this number of others of its kind.
    Ambush(When, u32, Box<Fault>),
    /// A process is paused.
    Pause(Target, Duration),
    /// All other processes are paused.
    PauseOthers(Target, Duration),
    /// All processes are paused.
    PauseAll(Duration),
    /// A disk is slower by this factor for a while.
    SlowDisk(Target, u32, Duration),
    /// One modifying call of a disk fails, after this number of others.
    DiskError(Target, u64),
    /// A disk is full for a while.
    DiskFull(Target, Duration),
    /// A wall clock jumps by this number of milliseconds.
    ClockJump(Target, i64),
    /// A server is stopped, and restarts with an empty disk.
    Wipe(Target, Duration),
    /// An operator copies a server's data.
    BackUp(Target),
    /// A server is stopped, and restarts with the data of its last copy.
    RollBack(Target, Duration),
    /// A server is stopped, and a part of its logs or snapshots rots; the seed decides which.
    Rot(Target, u64, Duration),
    /// All servers are stopped, and records in their logs rot; the seed decides which. Each record
    /// stays intact at one server that has it.
    RotEverywhere(u64, Duration),
    /// A part of the logs or snapshots of a running server rots; the seed decides which.
    RotBeneath(Target, u64),
    /// A client's connection breaks.
    ClientBreak(usize),
    /// A client is silent for a while.
    ClientSilent(usize, Duration),
    /// For a while, a client reaches no server (`true`), or only the answers to it are lost.
    ClientCut(usize, bool, Duration),
    /// For a while, a client's requests are held back, and some of them even longer.
    ClientHeld(usize, Duration),
    /// A client leaves its connection without closing it.
    ClientLeaves(usize),
    /// An operator requests a reconfiguration.
    Change(Change),
    /// The whole network is slower by this factor for a while.
    SlowNetwork(u32, Duration),
    /// A stranger claims to the leader that it is this machine and has promised this epoch, with a
    /// vote or without. Then it sends this number of further packets.
    Stranger(usize, u32, bool, u32),
    /// The data of a znode become wrong in a server's memory.
    Diverge(Target),
    /// A server is stopped, and restarts with a promise that is this number of epochs later.
    Promise(Target, u32, Duration),
    /// A server is stopped, and restarts with the data of another ensemble. After a while it is
    /// stopped again, and restarts with its own data.
    Stray(Target, Duration),
    /// A server is asked to stop, and started again after a delay.
    Retire(Target, Duration),
    /// The leader is asked to hand over to this server, or to the best follower.
    HandOver(Option<usize>),
}

impl Fault {
    /// The name of the fault's class, for the counts.
    pub fn class(&self) -> &'static str {
        match self {
            Self::Kill(..) => "process killed",
            Self::PowerCut(..) => "power cut",
            Self::PowerCutAll(..) => "power cut of all",
            Self::Break(..) => "connections broken",
            Self::Cut(pairs, _) if pairs.len() == 1 => "one direction cut",
            Self::Cut(..) => "partition",
            Self::Sever(..) => "partition",
            Self::CutOff(.., true, _) => "partition",
            Self::CutOff(.., false, _) | Self::Deafen(..) => "one direction cut",
            Self::Ambush(_, _, fault) => fault.class(),
            Self::PauseOthers(..) => "all others paused",
            Self::Pause(..) => "process paused",
            Self::PauseAll(..) => "all paused",
            Self::SlowDisk(..) => "slow disk",
            Self::DiskError(..) => "disk error",
            Self::DiskFull(..) => "disk full",
            Self::ClockJump(..) => "clock jump",
            Self::Wipe(..) => "disk wiped",
            Self::BackUp(_) => "data copied",
            Self::RollBack(..) => "older data",
            Self::Rot(..) => "bit rot",
            Self::RotEverywhere(..) => "bit rot everywhere",
            Self::RotBeneath(..) => "bit rot beneath a server",
            Self::ClientBreak(..) => "client's connection broken",
            Self::ClientSilent(..) => "client silent",
            Self::ClientCut(..) => "client cut off",
            Self::ClientHeld(..) => "client held back",
            Self::ClientLeaves(_) => "client leaves without a word",
            Self::Change(_) => "members to be changed",
            Self::SlowNetwork(..) => "slow network",
            Self::Stranger(..) => "stranger",
            Self::Diverge(_) => "wrong data in a tree",
            Self::Promise(..) => "later promise",
            Self::Stray(..) => "of another ensemble",
            Self::Retire(..) => "asked to stop",
            Self::HandOver(..) => "asked to hand over",
        }
    }
}

/// A fault and its time.
#[derive(Clone, Debug)]
pub struct Planned {
    /// The time since the start.
    pub at: Duration,
    /// The fault.
    pub fault: Fault,
}

impl fmt::Display for Planned {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:>9.3} s  {:?}", self.at.as_secs_f64(), self.fault)
    }
}

/// Everything that distinguishes one run from another.
#[derive(Clone, Debug)]
pub struct Plan {
    /// Decides everything that the plan does not contain.
    pub seed: u64,
    /// The number of voters.
    pub voters: usize,
    /// The number of observers.
    pub observers: usize,
    /// The group and the weight of each voter. Empty: a majority is a quorum.
    pub groups: Vec<(u64, u64)>,
    /// How each server acknowledges. Servers beyond the end acknowledge as Zebu does.
    pub acks: Vec<Acks>,
    /// How each server leads. Servers beyond the end lead as Zebu does.
    pub leads: Vec<Leads>,
    /// The number of machines that are no members at first, but may become members.
    pub spares: usize,
    /// Whether the members may change.
    pub reconfig: bool,
    /// Whether a server takes an empty disk for a new one without an operator's word, as by
    /// default. False where the members may change.
    pub autocreate: bool,
    /// Whether the spare machines have a vote in their own configuration files.
    pub spares_vote: bool,
    /// The first member whose file names the spare machines too: the operator is adding them.
    pub edited: Option<usize>,
    /// Whether some servers believe what a leader says of the members, as those of the original do.
    pub credulous: bool,
    /// Whether nothing happens that may end a leadership.
    pub undisturbed: bool,
    /// Whether the only faults are retirements and pauses of leaders and leaders that hear nobody,
    /// with quick networks and disks, so that another server must lead at once.
    pub hands_over: bool,
    /// Whether a quorum always has quick disks and networks, so that a leader waits for no slow
    /// server.
    pub swift: bool,
    /// How long a leader may be silent in an ensemble of Zebu servers. `None`: only `syncLimit`
    /// counts.
    pub leader_silence: Option<Duration>,
    /// The number of regions.
    pub regions: usize,
    /// The delay of a message from one region to the next.
    pub distance: Duration,
    /// Whether observers learn from followers.
    pub masters: bool,
    /// Whether new sessions are local to their servers until they create an ephemeral znode.
    pub local_sessions: bool,
    /// Whether servers without a leader serve read-only sessions, and whether programs accept such
    /// sessions.
    pub read_only: bool,
    /// Whether some programs cancel a request after a timeout.
    pub impatient: bool,
    /// Whether observers log no transactions (`syncEnabled=false`).
    pub logless: bool,
    /// Whether servers enforce quotas, and clients set some.
    pub quotas: bool,
    /// Whether clients set quotas below others.
    pub nested_quotas: bool,
    /// Whether clients restart their xids on each connection.
    pub counts_anew: bool,
    /// Whether clients send further requests after the one that closes their session.
    pub asks_behind_end: bool,
    /// The longest pause between two steps of a snapshot transfer.
    pub copy_pause: Duration,
    /// The number of clients that speak the protocol themselves.
    pub clients: usize,
    /// The number of programs that use `zebu-session`.
    pub sessions: usize,
    /// The number of programs outside the simulator; see `guest`.
    pub guests: usize,
    /// The servers' tick.
    pub tick: Duration,
    /// Mean time between two requests of a client.
    pub think: Duration,
    /// Whether messages between servers are encoded and decoded.
    pub codec: bool,
    /// The number of transactions that a server keeps in memory.
    pub memory_txns: usize,
    /// The number of transactions between two snapshots.
    pub snapshot_every: u64,
    /// Learners are served from the log up to this share of a snapshot's size.
    pub log_share: Option<f64>,
    /// Whether learners always get a snapshot.
    pub always_copy: bool,
    /// The counter of the first transaction of an epoch.
    pub first_counter: u32,
    /// The percentage of additional requests that are a sync and a read after it.
    pub syncs: u64,
    /// The longest pause between two steps of a snapshot.
    pub snapshot_pause: Duration,
    /// One in this number of bytes between servers changes on its way; see `flips`.
    pub flip_every: Option<u64>,
    /// Whether bytes change in the log records that servers send each other for a repair.
    pub lies: bool,
    /// Whether trees change in memory; see `trees`.
    pub diverges: bool,
    /// Whether a run fails only if the model of the protocol forbids a step of a server.
    pub only_model: bool,
    /// Whether a run continues after a violated property, and reports one violation of each check.
    pub goes_on: bool,
    /// The length of the safety phase.
    pub length: Duration,
    /// The faults, in order.
    pub faults: Vec<Planned>,
}

const SECOND: Duration = Duration::from_secs(1);

impl Plan {
    /// The plan of a seed. Every other plan has an aim.
    pub fn new(seed: u64) -> Self {
        let mut plan = if seed.is_multiple_of(2) {
            let mut plan = Self::random(seed);
            plan.draw_rot(&mut Random::stream(seed, 7));
            plan
        } else {
            Self::aimed(AIMS[(seed / 2) as usize % AIMS.len()], seed)
        };
        let mut of_quotas = Random::stream(seed, 11);
        plan.quotas = of_quotas.one_in(5);
        plan.nested_quotas = of_quotas.one_in(2);
        plan
    }

    /// The plan of a seed with this aim.
    pub fn aimed(aim: Aim, seed: u64) -> Self {
        let mut plan = Self { faults: Vec::new(), ..Self::random(seed) };
        aim.take(&mut plan, &mut Random::stream(seed, 3));
        plan
    }

    /// A plan without an aim.
    pub fn random(seed: u64) -> Self {
        let mut random = Random::stream(seed, 1);
        let voters = *random.pick(&[3, 3, 3, 5]);
        let observers = *random.pick(&[0, 0, 0, 1]);
        let mut plan = Self {
            voters,
            observers,
            clients: random.between(1, 4) as usize,
            sessions: random.between(1, 2) as usize,
            tick: Duration::from_millis(*random.pick(&[500, 1000, 2000])),
            think: Duration::from_millis(*random.pick(&[50, 200, 200, 1000])),
            codec: random.one_in(4),
            memory_txns: *random.pick(&[2, 10, 100, 500]),
            snapshot_every: *random.pick(&[10, 50, 200, 1000]),
            log_share: *random.pick(&[None, Some(0.33), Some(100.0), Some(100.0)]),
            always_copy: random.one_in(12),
            autocreate: seed % 3 == 1,
            first_counter: if random.one_in(10) { u32::MAX - 40 } else { 1 },
            snapshot_pause: Duration::from_millis(if seed.is_multiple_of(5) { 3000 } else { 30 }),
            logless: Random::stream(seed, 12).one_in(3),
            leader_silence: (seed >> 2).is_multiple_of(2).then_some(Duration::from_millis(600)),
            length: SECOND * random.between(60, 180) as u32,
            ..Self::calm(seed)
        };
        plan.faults = plan.draw_faults(&mut random);
        plan
    }

    /// A plan in which bytes between servers change, with few other faults.
    pub fn flipped(seed: u64) -> Self {
        let mut plan = Self::random(seed);
        let mut random = Random::stream(seed, 4);
        plan.flip_every = Some(*random.pick(&[500, 2_000, 8_000, 64_000]));
        plan.codec = true;
        plan.masters = random.one_in(2);
        plan.tick = Duration::from_millis(500);
        plan.think = Duration::from_millis(100);
        plan.length = SECOND * random.between(30, 90) as u32;
        plan.faults.retain(|_| random.one_in(8));
        plan
    }

    /// A plan in which trees change in memory, one after the other, most often the leader's,
    /// without other faults.
    pub fn diverged(seed: u64) -> Self {
        let random = Self::random(seed);
        let mut plan = Self {
            voters: random.voters,
            observers: random.observers,
            memory_txns: random.memory_txns,
            snapshot_every: random.snapshot_every,
            log_share: random.log_share,
            clients: random.clients.max(2),
            diverges: true,
            tick: Duration::from_millis(500),
            think: Duration::from_millis(100),
            ..Self::calm(seed)
        };
        let mut random = Random::stream(seed, 6);
        let mut at = SECOND * 10;
        for _ in 0..random.between(1, 4) {
            let target = match random.below(3) {
                0 => Target::Leader,
                _ => Target::Server(random.below(plan.members() as u64) as usize),
            };
            plan.faults.push(Planned { at, fault: Fault::Diverge(target) });
            // By then the ensemble has detected the last wrong tree, and the server has its
            // leader's tree.
            at += SECOND * 40 + random.ms(0, 5_000);
        }
        plan.length = at;
        plan
    }

    /// Three servers for this number of guests, with faults of all kinds for `length`. Many of the
    /// faults affect the guests.
    pub fn visited(seed: u64, guests: usize, length: Duration) -> Self {
        let mut random = Random::stream(seed, 8);
        let tick = Duration::from_millis(500);
        let (clients, sessions) = (0, 0);
        let mut plan = Self { clients, sessions, guests, tick, length, ..Self::calm(seed) };
        plan.leader_silence = random.one_in(2).then_some(Duration::from_millis(600));
        if !random.one_in(8) {
            plan.faults = plan.draw_faults(&mut random);
        }
        // Each run has its own mixture of these faults too.
        let weights = [0; 4].map(|_| random.below(4));
        let mut at = SECOND * 4;
        while at < length && weights.iter().sum::<u64>() > 0 {
            at += random.ms(0, 4_000);
            let guest = random.below(guests as u64) as usize;
            let longest = *random.pick(&[400, 3_000, 9_000]);
            let time = random.ms(50, longest);
            let mut ticket = random.below(weights.iter().sum());
            let class = weights.iter().position(|weight| {
                let is_here = ticket < *weight;
                ticket = ticket.wrapping_sub(*weight);
                is_here
            });
            let fault = match class {
                Some(0) => Fault::ClientBreak(guest),
                Some(1) => Fault::ClientSilent(guest, time),
                Some(2) => Fault::ClientCut(guest, random.one_in(2), time),
                _ => Fault::ClientHeld(guest, time),
            };
            plan.faults.push(Planned { at, fault });
        }
        plan.faults.sort_by_key(|planned| planned.at);
        plan
    }

    /// Three servers and two clients, without faults.
    pub fn calm(seed: u64) -> Self {
        Self {
            seed,
            voters: 3,
            observers: 0,
            groups: Vec::new(),
            acks: Vec::new(),
            leads: Vec::new(),
            spares: 0,
            reconfig: false,
            autocreate: false,
            spares_vote: false,
            edited: None,
            credulous: false,
            undisturbed: false,
            hands_over: false,
            swift: false,
            leader_silence: None,
            regions: 1,
            distance: Duration::ZERO,
            masters: false,
            local_sessions: false,
            read_only: false,
            impatient: false,
            logless: false,
            quotas: false,
            nested_quotas: false,
            counts_anew: false,
            asks_behind_end: false,
            copy_pause: Duration::from_millis(10),
            clients: 2,
            sessions: 1,
            guests: 0,
            tick: Duration::from_secs(2),
            think: Duration::from_millis(200),
            codec: true,
            memory_txns: 500,
            snapshot_every: 1000,
            log_share: Some(0.33),
            always_copy: false,
            flip_every: None,
            lies: false,
            diverges: false,
            only_model: false,
            goes_on: false,
            first_counter: 1,
            syncs: 0,
            snapshot_pause: Duration::from_millis(30),
            length: SECOND * 30,
            faults: Vec::new(),
        }
    }

    /// The number of first members.
    pub fn members(&self) -> usize {
        self.voters + self.observers
    }

    /// The number of servers, members or not.
    pub fn servers(&self) -> usize {
        self.members() + self.spares
    }

    /// In some plans, files of running servers rot.
    fn draw_rot(&mut self, random: &mut Random) {
        if !random.one_in(6) {
            return;
        }
        for _ in 0..random.between(1, 4) {
            let at = random.ms(5_000, self.length.as_millis() as u64);
            let target = Target::Server(random.below(self.servers() as u64) as usize);
            self.faults.push(Planned { at, fault: Fault::RotBeneath(target, random.next()) });
        }
        self.faults.sort_by_key(|planned| planned.at);
    }

    /// Whether servers scrub their disks while they run.
    pub(crate) fn scrubs(&self) -> bool {
        self.faults.iter().any(|planned| matches!(planned.fault, Fault::RotBeneath(..)))
    }

    pub(crate) fn draw_faults(&self, random: &mut Random) -> Vec<Planned> {
        // Each run has its own mixture, so some runs consist of rare classes.
        let weights: Vec<u64> = (0..CLASSES)
            .map(|class| if random.one_in(3) { 0 } else { random.between(1, COMMON[class]) })
            .collect();
        let gap_ms = *random.pick(&[1_000, 2_500, 2_500, 6_000]);
        let mut at = SECOND * 3;
        let mut faults = Vec::new();
        while at < self.length {
            if let Some(fault) = self.draw(&weights, random) {
                faults.push(Planned { at, fault });
            }
            at += if random.one_in(6) { random.ms(0, 60) } else { random.ms(0, gap_ms * 2) };
        }
        faults
    }

    fn draw(&self, weights: &[u64], random: &mut Random) -> Option<Fault> {
        let mut ticket = random.below(weights.iter().sum());
        let class = weights.iter().position(|weight| {
            let here = ticket < *weight;
            ticket = ticket.wrapping_sub(*weight);
            here
        })?;
        let servers = self.servers() as u64;
        let target = match random.below(5) {
            0 | 1 => Target::Leader,
            2 => Target::Other(random.below(servers) as usize),
            _ => Target::Server(random.below(servers) as usize),
        };
        let client = random.below((self.clients + self.sessions + self.guests) as u64) as usize;
        let calls = if random.one_in(2) { 0 } else { random.below(12) };
        let left = match random.below(4) {
            0 => Left::Nothing,
            1 => Left::All,
            _ => Left::Some(random.next()),
        };
        let back = if random.one_in(4) { random.ms(5, 50) } else { random.ms(100, 9_000) };
        let tick_ms = self.tick.as_millis() as u64;
        let while_ms = match random.below(3) {
            0 => random.ms(10, tick_ms * 2),
            1 => random.ms(tick_ms, tick_ms * 6),
            _ => random.ms(tick_ms * 5, tick_ms * 14),
        };
        let a = random.below(servers) as usize;
        let b = (a + 1 + random.below(servers.max(2) - 1) as usize) % servers as usize;
        Some(match class {
            0 => Fault::Kill(target, calls, back),
            1 => Fault::PowerCut(target, calls, left, back),
            2 => Fault::PowerCutAll(calls, left, back),
            3 => Fault::Break(a, b),
            4 => Fault::Cut(vec![(a, b)], while_ms),
            5 => Fault::Cut(self.draw_partition(random), while_ms),
            6 => Fault::Pause(target, while_ms),
            7 => Fault::PauseAll(while_ms),
            8 => Fault::SlowDisk(target, random.between(10, 1000) as u32, while_ms),
            9 => Fault::DiskError(target, random.below(20)),
            10 => Fault::DiskFull(target, while_ms),
            11 => Fault::ClockJump(target, random.between(0, 200_000) as i64 - 100_000),
            12 => Fault::Wipe(target, back),
            13 => Fault::ClientBreak(client),
            14 => Fault::ClientSilent(client, random.ms(100, tick_ms * 30)),
            15 => Fault::ClientCut(client, random.one_in(2), while_ms),
            _ => Fault::SlowNetwork(random.between(5, 200) as u32, while_ms),
        })
    }

    fn draw_partition(&self, random: &mut Random) -> Vec<(usize, usize)> {
        let servers = self.servers();
        let mut pairs = Vec::new();
        let one_way = random.one_in(4);
        let halves = random.one_in(2);
        let side: Vec<bool> = (0..servers).map(|_| random.one_in(2)).collect();
        for a in 0..servers {
            for b in (0..servers).filter(|b| *b != a) {
                let split = if halves { side[a] != side[b] } else { a < b && random.one_in(2) };
                if split {
                    pairs.push((a, b));
                    if !one_way && !halves {
                        pairs.push((b, a));
                    }
                }
            }
        }
        pairs
    }
}

const CLASSES: usize = 17;

/// The highest weight of each class.
const COMMON: [u64; CLASSES] = [10, 10, 3, 8, 4, 5, 5, 2, 4, 2, 2, 2, 1, 4, 4, 3, 2];

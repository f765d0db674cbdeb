//! The plan of a run: the ensemble, its clients and all faults. A seed decides the plan before the
//! run, so that parts can be left out to find the essential ones.

use std::fmt;
use std::time::Duration;

use zebu_proto::quorum::{PacketKind, QuorumPacket};
use zebu_testkit::Random;
use zebu_zab::config::Membership;

use crate::aims::{AIMS, Aim};

/// Whom a fault meets, decided when it happens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Target {
    /// This server, counted from 0.
    Server(usize),
    /// Who leads, if anybody does.
    Leader,
    /// A server that does not lead: the so-manieth.
    Other(usize),
    /// Who sends the packet that an ambush has waited for.
    Here,
    /// Who is to receive it.
    There,
}

/// Which other servers a fault is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// All of them.
    Servers,
    /// Those with a vote.
    Voters,
    /// All but this one.
    AllBut(usize),
}

/// The packet that an ambush waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum When {
    /// A learner introduces itself.
    FollowerInfo,
    /// A leader tells its epoch.
    LeaderInfo,
    /// A learner promises it.
    AckEpoch,
    /// A leader sends what a learner lacks.
    Diff,
    /// A leader cuts a learner's log.
    Trunc,
    /// A leader sends its tree.
    Snap,
    /// A leader has sent its history.
    NewLeader,
    /// A learner has it.
    AckNewLeader,
    /// A learner may serve.
    UpToDate,
    /// Something is proposed.
    Proposal,
    /// Something is acknowledged.
    Ack,
    /// Something is committed.
    Commit,
    /// A change of the members is proposed.
    Change,
    /// It is committed.
    Activate,
}

impl When {
    /// All that do not need a change of the members.
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

    /// Whether this is the packet.
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

/// What a power cut leaves of what was not synced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Left {
    /// Nothing of it.
    Nothing,
    /// All of it.
    All,
    /// Any part of it, by this seed.
    Some(u64),
}

/// How a follower acknowledges what comes in a synchronization. The original's releases differ.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Acks {
    /// What is not committed, and after it has been told to serve: as 3.9.2 does, and ours.
    Late,
    /// Everything, before it acknowledges the leader's history (ZOOKEEPER-4685).
    Early,
    /// What is committed as well, once more when it serves.
    Again,
}

/// How a leader treats its learners where the original's differ from ours.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Leads {
    /// As ours do.
    Well,
    /// It proposes an error in the place of what it has proposed last, now and then, as 3.9 does after a
    /// request that cannot be read (B-27).
    Again,
    /// It leaves out what is missing in its own memory, now and then, when it brings a learner up to
    /// date (ZOOKEEPER-2846, ZOOKEEPER-4925).
    Holes,
    /// It loses what a learner asks for, now and then.
    Loses,
}

/// Which of its ports a member changes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Moves {
    /// The one for learners.
    pub quorum: bool,
    /// The one for elections.
    pub election: bool,
    /// The one for clients.
    pub client: bool,
}

/// Which configuration a change is meant for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Meant {
    /// Whichever is in force.
    Any,
    /// The newest.
    Newest,
    /// One that is not in force any more, if it ever was.
    Older,
}

/// A change of the members that an operator asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Change {
    /// Who joins, or takes another part, and whether with a vote.
    pub joining: Vec<(Target, bool)>,
    /// Who leaves.
    pub leaving: Vec<Target>,
    /// Which ports those who join change.
    pub moves: Moves,
    /// Groups and weights of the new members, drawn by this seed; only where all are named.
    pub groups: Option<u64>,
    /// Whether the request names all members, not only those who come and go.
    pub whole: bool,
    /// Which configuration it is to change.
    pub meant: Meant,
}

/// Something that goes wrong, or that an operator does meanwhile.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fault {
    /// A process is killed in the middle of what its disk is doing, after so many calls.
    Kill(Target, u64, Duration),
    /// A machine loses its power in the middle of what its disk is doing, after so many calls.
    PowerCut(Target, u64, Left, Duration),
    /// All machines lose their power.
    PowerCutAll(u64, Left, Duration),
    /// Connections between two servers break.
    Break(usize, usize),
    /// Nothing comes through from the first server to the second, for so long.
    Cut(Vec<(usize, usize)>, Duration),
    /// Nothing comes through from a server to those others, nor, if `true`, back, for so long.
    CutOff(Target, Side, bool, Duration),
    /// Nothing comes through from a server to those others, for so long, and soon all connections
    /// between them break, with what is on its way.
    Sever(Target, Side, Duration),
    /// Something goes wrong when so many such packets have been sent and another one is.
    Ambush(When, u32, Box<Fault>),
    /// A process stands still.
    Pause(Target, Duration),
    /// All other processes stand still.
    PauseOthers(Target, Duration),
    /// All processes stand still.
    PauseAll(Duration),
    /// A disk takes so many times longer.
    SlowDisk(Target, u32, Duration),
    /// The disk's changing call after so many others fails.
    DiskError(Target, u64),
    /// Nothing more fits on a disk.
    DiskFull(Target, Duration),
    /// A wall clock jumps by so many milliseconds.
    ClockJump(Target, i64),
    /// A server is stopped and comes back with an empty disk.
    Wipe(Target, Duration),
    /// An operator copies a server's data.
    BackUp(Target),
    /// A server is stopped and comes back with the data that were copied.
    RollBack(Target, Duration),
    /// A server is stopped, and something in its logs or snapshots rots, by this seed.
    Rot(Target, u64, Duration),
    /// All servers are stopped, and records in their logs rot, by this seed: each is whole at one of those that have it.
    RotEverywhere(u64, Duration),
    /// Something in the logs or snapshots of a running server rots, by this seed.
    RotBeneath(Target, u64),
    /// A client's connection breaks.
    ClientBreak(usize),
    /// A client falls silent, for so long.
    ClientSilent(usize, Duration),
    /// A client reaches no server or only its answers are lost.
    ClientCut(usize, bool, Duration),
    /// What a client sends is held back, for so long, and some of it for a while longer.
    ClientHeld(usize, Duration),
    /// A client leaves its connection, and the server does not hear of it.
    ClientLeaves(usize),
    /// An operator changes the members.
    Change(Change),
    /// Everything on the network takes so many times longer.
    SlowNetwork(u32, Duration),
    /// Somebody says to the leader that he is this machine and has promised this epoch, with a vote or not, and goes on
    /// for so many packets.
    Stranger(usize, u32, bool, u32),
    /// The data of a znode become wrong ones in a server's memory.
    Diverge(Target),
    /// A server is stopped and comes back with a promise of so many epochs later.
    Promise(Target, u32, Duration),
    /// A server is stopped and comes back with the data of another ensemble; after so long, it is stopped again and has its own.
    Stray(Target, Duration),
    /// A server is asked to stop, and started again so much later.
    Retire(Target, Duration),
    /// The leader is asked to let this server lead, or the best follower.
    HandOver(Option<usize>),
}

impl Fault {
    /// The name of its class, for counting.
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
            Self::CutOff(.., false, _) => "one direction cut",
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
    /// Since the start.
    pub at: Duration,
    /// What goes wrong.
    pub fault: Fault,
}

impl fmt::Display for Planned {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:>9.3} s  {:?}", self.at.as_secs_f64(), self.fault)
    }
}

/// A whole run.
#[derive(Clone, Debug)]
pub struct Plan {
    /// Decides everything that is not in here.
    pub seed: u64,
    /// Servers with a vote.
    pub voters: usize,
    /// Servers without one.
    pub observers: usize,
    /// Of each voter its group and its weight; empty where the majority decides.
    pub groups: Vec<(u64, u64)>,
    /// How each server acknowledges; those that are not named as ours do.
    pub acks: Vec<Acks>,
    /// How each server leads; those that are not named as ours do.
    pub leads: Vec<Leads>,
    /// Machines that are no members at first, but may become ones.
    pub spares: usize,
    /// Whether the members may change.
    pub reconfig: bool,
    /// Whether an empty disk is taken for a new one though nobody says so, as by default; not where the members may
    /// change.
    pub autocreate: bool,
    /// Whether those who are no members at first are in their own lists with a vote.
    pub spares_vote: bool,
    /// Who of the first members has the others in its list, too: the operator is adding them.
    pub edited: Option<usize>,
    /// Whether some servers take a leader's word on the members as the original's do.
    pub credulous: bool,
    /// Whether nothing happens that may end a leadership.
    pub undisturbed: bool,
    /// Whether nothing else happens than that servers are asked to stop, or leaders are paused, with quick networks and disks, so
    /// that another server leads at once.
    pub hands_over: bool,
    /// Whether a quorum has quick disks and networks all the time, so that a leader waits for nobody.
    pub swift: bool,
    /// How long a leader may be silent in an ensemble of Zebu servers; `None`: `syncLimit` alone counts.
    pub leader_silence: Option<Duration>,
    /// How many regions the machines are in.
    pub regions: usize,
    /// How long a message takes from one region to the next.
    pub distance: Duration,
    /// Whether observers learn from followers.
    pub masters: bool,
    /// Whether new sessions are known to their servers only, until they want an ephemeral znode.
    pub local_sessions: bool,
    /// Whether servers that have no leader serve clients that only read, and whether programs want that.
    pub read_only: bool,
    /// Whether some programs wait for an answer for so long only.
    pub impatient: bool,
    /// Whether clients count their requests anew on each connection.
    pub counts_anew: bool,
    /// Whether clients ask for more behind the end of their session.
    pub asks_behind_end: bool,
    /// How long the sending of a whole tree may stand still between two of its steps.
    pub copy_pause: Duration,
    /// Clients that speak the protocol themselves.
    pub clients: usize,
    /// Programs above sessions.
    pub sessions: usize,
    /// Programs that somebody else runs; see `guest`.
    pub guests: usize,
    /// The servers' tick.
    pub tick: Duration,
    /// Mean time between two requests of a client.
    pub think: Duration,
    /// Whether messages between servers pass through the codec.
    pub codec: bool,
    /// Transactions that a server keeps in memory.
    pub memory_txns: usize,
    /// Transactions between snapshots.
    pub snapshot_every: u64,
    /// Share of a snapshot's size up to which learners are served from the log.
    pub log_share: Option<f64>,
    /// Whether learners get the whole tree always.
    pub always_copy: bool,
    /// Counter of the first transaction of an epoch.
    pub first_counter: u32,
    /// How many of a hundred requests of clients are a sync and a read behind it, beside the usual
    /// ones.
    pub syncs: u64,
    /// How long a snapshot may stand still between two of its steps.
    pub snapshot_pause: Duration,
    /// Of so many bytes between servers one changes on its way; see `flips`.
    pub flip_every: Option<u64>,
    /// Whether bytes change in what servers send each other for damaged logs.
    pub lies: bool,
    /// Whether trees become other ones; see `trees`.
    pub diverges: bool,
    /// Whether a run fails only where the model of the protocol refuses what a server does.
    pub only_model: bool,
    /// Length of the safety phase.
    pub length: Duration,
    /// What goes wrong, in order.
    pub faults: Vec<Planned>,
}

const SECOND: Duration = Duration::from_secs(1);

impl Plan {
    /// The plan of a seed: every other one is aimed at something.
    pub fn new(seed: u64) -> Self {
        if seed.is_multiple_of(2) {
            let mut plan = Self::random(seed);
            plan.draw_rot(&mut Random::stream(seed, 7));
            plan
        } else {
            Self::aimed(AIMS[(seed / 2) as usize % AIMS.len()], seed)
        }
    }

    /// A plan that is aimed at something.
    pub fn aimed(aim: Aim, seed: u64) -> Self {
        let mut plan = Self { faults: Vec::new(), ..Self::random(seed) };
        aim.take(&mut plan, &mut Random::stream(seed, 3));
        plan
    }

    /// A plan in which everything is left to chance.
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
            leader_silence: (seed >> 2).is_multiple_of(2).then_some(Duration::from_millis(600)),
            length: SECOND * random.between(60, 180) as u32,
            ..Self::calm(seed)
        };
        plan.faults = plan.draw_faults(&mut random);
        plan
    }

    /// Bytes change on their way between servers, and little else goes wrong.
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

    /// Trees become other ones, one after the other, the leader's above all, and nothing else goes wrong.
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
            // The one before has been found out, and has its leader's tree.
            at += SECOND * 40 + random.ms(0, 5_000);
        }
        plan.length = at;
        plan
    }

    /// Three servers for so many guests, and all kinds of faults for `length`, many of which meet the guests.
    pub fn visited(seed: u64, guests: usize, length: Duration) -> Self {
        let mut random = Random::stream(seed, 8);
        let tick = Duration::from_millis(500);
        let (clients, sessions) = (0, 0);
        let mut plan = Self { clients, sessions, guests, tick, length, ..Self::calm(seed) };
        plan.leader_silence = random.one_in(2).then_some(Duration::from_millis(600));
        if !random.one_in(8) {
            plan.faults = plan.draw_faults(&mut random);
        }
        // Each run has its own mixture of these as well.
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

    /// Three servers, two clients, and nothing goes wrong.
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
            first_counter: 1,
            syncs: 0,
            snapshot_pause: Duration::from_millis(30),
            length: SECOND * 30,
            faults: Vec::new(),
        }
    }

    /// How many members there are at first.
    pub fn members(&self) -> usize {
        self.voters + self.observers
    }

    /// How many servers there are, members or not.
    pub fn servers(&self) -> usize {
        self.members() + self.spares
    }

    /// In some plans something rots beneath servers that run.
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

    /// Whether servers look for damage while they run.
    pub(crate) fn scrubs(&self) -> bool {
        self.faults.iter().any(|planned| matches!(planned.fault, Fault::RotBeneath(..)))
    }

    pub(crate) fn draw_faults(&self, random: &mut Random) -> Vec<Planned> {
        // Each run has its own mixture, so that rare classes get runs of their own.
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

/// How common each class may be.
const COMMON: [u64; CLASSES] = [10, 10, 3, 8, 4, 5, 5, 2, 4, 2, 2, 2, 1, 4, 4, 3, 2];

//! The world of the peers: time, connections, disks and their faults.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, BinaryHeap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use zebu_jute::{Encode as _, Encoder};
use zebu_proto::quorum::{PacketKind, QuorumPacket};
use zebu_proto::txn::TxnHeader;
use zebu_proto::{EnsembleId, Epoch, Identity, OpCode, ServerId, SessionId, Zxid};
use zebu_testkit::Random;
use zebu_zab::config::Membership;
use zebu_zab::election::{Ballot, State};
use zebu_zab::history::Txn;
use zebu_zab::mesh::{self, WireId};
use zebu_zab::{
    ConfigChange, Configs, EpochKind, Epochs, Input, LinkId, LogEnd, Options, Output, Peer, Role,
    Start,
};

use crate::disk::{Disk, newest};

const MS: Duration = Duration::from_millis(1);

/// The faults, each with a chance of one in this number; 0 is never.
#[derive(Clone, Copy)]
pub struct Faults {
    crash: u64,
    partition: u64,
    pause: u64,
    break_connection: u64,
}

impl Faults {
    pub fn none() -> Self {
        Self { crash: 0, partition: 0, pause: 0, break_connection: 0 }
    }

    pub fn all() -> Self {
        Self { crash: 12, partition: 25, pause: 25, break_connection: 12 }
    }
}

enum Job {
    Append(Txn),
    Truncate(Zxid),
    Reload,
    Restore(LinkId),
    Epoch(EpochKind, Epoch),
    Config(ConfigChange),
    Identity(Identity),
}

/// The servers whose connections a server accepts.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Listening {
    Nobodys,
    Learners,
    Observers,
}

struct Node {
    peer: Option<Peer>,
    incarnation: u64,
    disk: Disk,
    jobs: VecDeque<Job>,
    disk_busy: bool,
    /// All applied transactions, in order.
    tree: Vec<Txn>,
    tree_zxid: Zxid,
    copies: BTreeMap<LinkId, (Vec<Txn>, Zxid)>,
    listening: Listening,
    connect: u64,
    paused: bool,
    held: Vec<Happening>,
    timer: Option<Duration>,
    role: Role,
}

#[derive(Clone)]
enum Message {
    Ballot(Ballot, Configs),
    Packet(QuorumPacket),
    Copy(Vec<Txn>, Zxid),
    Close,
}

#[derive(Clone)]
enum Happening {
    Input(usize, u64, Input),
    Arrive { connection: u64, to: usize, message: Message },
    Dialled { from: usize, incarnation: u64, to: usize },
    Linked { from: usize, incarnation: u64, attempt: u64, to: usize, port: Listening },
    DiskDone(usize, u64),
    Timer(usize, u64),
    Propose,
    Mischief,
    Restart(usize),
    Resume(usize),
    Heal,
}

struct Connection {
    ends: [usize; 2],
    open: [bool; 2],
    election: bool,
    /// The arrival time of the last message of each direction.
    clock: [Duration; 2],
}

pub struct World {
    seed: u64,
    now: Duration,
    random: Random,
    faults: Faults,
    mischief: bool,
    /// One in this number of proposals is a reconfiguration; 0 is none.
    reconfigs: u64,
    /// Every configuration that was ever in force or proposed.
    configs: BTreeMap<Zxid, Arc<Membership>>,
    /// The number of times a transaction put a configuration into force.
    changes: usize,
    nodes: Vec<Node>,
    queue: BinaryHeap<Reverse<(Duration, u64)>>,
    happenings: BTreeMap<u64, Happening>,
    next: u64,
    connections: BTreeMap<u64, Connection>,
    cut: BTreeSet<(usize, usize)>,
    proposals: u32,
    /// The transactions that any server has delivered, in order.
    global: Vec<Txn>,
    leaders: BTreeMap<Epoch, usize>,
    proposing: bool,
    /// Whether observers keep a log.
    observers_log: bool,
    /// Whether observers learn from followers.
    observer_masters: bool,
}

impl World {
    pub fn new(seed: u64, voters: usize, observers: usize, faults: Faults) -> Self {
        Self::with_spares(seed, voters, observers, 0, faults)
    }

    /// The last `spares` servers are not in the first configuration; they consider themselves its
    /// observers. With spares, the configuration changes.
    pub fn with_spares(
        seed: u64,
        voters: usize,
        observers: usize,
        spares: usize,
        faults: Faults,
    ) -> Self {
        let config = |spare: Option<usize>| {
            let roles = (1..=voters + observers + spares).map(|n| match n {
                n if n <= voters => Some("participant"),
                n if n <= voters + observers || spare == Some(n) => Some("observer"),
                _ => None,
            });
            membership(roles, Zxid::ZERO)
        };
        let mut world = Self {
            seed,
            now: Duration::ZERO,
            random: Random::new(seed),
            faults,
            mischief: false,
            reconfigs: if spares > 0 { 12 } else { 0 },
            configs: BTreeMap::new(),
            changes: 0,
            nodes: Vec::new(),
            queue: BinaryHeap::new(),
            happenings: BTreeMap::new(),
            next: 0,
            connections: BTreeMap::new(),
            cut: BTreeSet::new(),
            proposals: 0,
            global: Vec::new(),
            leaders: BTreeMap::new(),
            proposing: false,
            observers_log: !seed.is_multiple_of(4),
            observer_masters: seed % 5 < 2,
        };
        for n in 1..=voters + observers + spares {
            let spare = Some(n).filter(|n| *n > voters + observers);
            world.nodes.push(Node {
                peer: None,
                incarnation: 0,
                disk: Disk::new(config(spare)),
                jobs: VecDeque::new(),
                disk_busy: false,
                tree: Vec::new(),
                tree_zxid: Zxid::ZERO,
                copies: BTreeMap::new(),
                listening: Listening::Nobodys,
                connect: 0,
                paused: false,
                held: Vec::new(),
                timer: None,
                role: Role::Looking,
            });
        }
        for node in 0..world.nodes.len() {
            let after = MS * world.random.below(500) as u32;
            world.at(after, Happening::Restart(node));
        }
        world
    }

    fn at(&mut self, after: Duration, happening: Happening) {
        let id = self.next;
        self.next += 1;
        self.queue.push(Reverse((self.now + after, id)));
        self.happenings.insert(id, happening);
    }

    fn say(&self, what: impl FnOnce() -> String) {
        if std::env::var_os("ZEBU_TRACE").is_some() {
            println!("{:>9.3} {}", self.now.as_secs_f64(), what());
        }
    }

    // ---- running

    fn next_happening(&mut self) {
        let Reverse((at, id)) = self.queue.pop().expect("something is always to come");
        self.now = self.now.max(at);
        let happening = self.happenings.remove(&id).expect("it was planned");
        self.happen(happening);
    }

    pub fn run(&mut self, seconds: u64) {
        self.mischief = true;
        self.proposing = true;
        self.at(MS, Happening::Mischief);
        self.at(MS, Happening::Propose);
        let end = self.now + Duration::from_secs(seconds);
        while self.now < end {
            self.next_happening();
        }
        self.mischief = false;
        self.proposing = false;
    }

    pub fn run_until_serving(&mut self) {
        let end = self.now + Duration::from_secs(60);
        while !self.nodes.iter().all(|node| node.role != Role::Looking) {
            self.next_happening();
            assert!(self.now < end, "seed {}: no leader\n{}", self.seed, self.status());
        }
    }

    pub fn propose_everywhere(&mut self, count: u32) {
        let end = self.proposals + count;
        self.proposing = true;
        self.at(MS, Happening::Propose);
        while self.proposals < end {
            self.next_happening();
        }
        self.proposing = false;
    }

    /// Ends all faults, and waits until every server has everything.
    pub fn settle(&mut self) {
        self.happen(Happening::Heal);
        for node in 0..self.nodes.len() {
            self.happen(Happening::Resume(node));
        }
        let end = self.now + Duration::from_secs(240);
        while !self.is_settled() {
            self.next_happening();
            assert!(self.now < end, "seed {}: no convergence\n{}", self.seed, self.status());
        }
    }

    fn is_settled(&self) -> bool {
        let last = self.global.last().map(|txn| txn.zxid);
        self.nodes.iter().all(|node| {
            node.role != Role::Looking
                && node.tree.last().map(|txn| txn.zxid) == last
                && node.peer.as_ref().is_some_and(|peer| peer.history().pending().len() == 0)
        })
    }

    fn status(&self) -> String {
        let line = |(n, node): (usize, &Node)| {
            let left = node
                .peer
                .as_ref()
                .map_or_else(|| "down".to_owned(), |peer| peer.left().to_string());
            let Disk { accepted, current, .. } = &node.disk;
            let last = node.disk.last();
            let configs = node.peer.as_ref().map_or(String::new(), |peer| {
                let (committed, seen) = (peer.quorums().committed(), peer.quorums().last_seen());
                let voters =
                    |config: &Membership| config.voters().map(|it| it.0).collect::<Vec<_>>();
                let now = format!("{} {:?}", committed.version(), voters(committed));
                format!("{now} then {} {:?}", seen.version(), voters(seen))
            });
            format!(
                "{n}: {:?} {left}; {accepted:?} {current:?} log {last} tree {}; {configs}",
                node.role, node.tree_zxid
            )
        };
        self.nodes.iter().enumerate().map(line).collect::<Vec<_>>().join("\n")
    }

    pub fn committed(&self) -> usize {
        self.global.len()
    }

    /// The number of changes of the configuration.
    pub fn changes(&self) -> usize {
        self.changes
    }

    // ---- what happens

    fn happen(&mut self, happening: Happening) {
        let node = match &happening {
            Happening::Input(node, ..)
            | Happening::Arrive { to: node, .. }
            | Happening::DiskDone(node, _)
            | Happening::Timer(node, _) => Some(*node),
            Happening::Dialled { from, .. } | Happening::Linked { from, .. } => Some(*from),
            _ => None,
        };
        if let Some(node) = node
            && self.nodes[node].paused
        {
            self.nodes[node].held.push(happening);
            return;
        }
        match happening {
            Happening::Input(node, incarnation, input) => self.input(node, incarnation, input),
            Happening::Arrive { connection, to, message } => self.arrive(connection, to, message),
            Happening::Dialled { from, incarnation, to } => self.dialled(from, incarnation, to),
            Happening::Linked { from, incarnation, attempt, to, port } => {
                self.linked(from, incarnation, attempt, to, port);
            }
            Happening::DiskDone(node, incarnation) => self.disk_done(node, incarnation),
            Happening::Timer(node, incarnation) => {
                if self.nodes[node].incarnation == incarnation {
                    self.nodes[node].timer = None;
                    self.input(node, incarnation, Input::Tick);
                }
            }
            Happening::Propose => self.propose(),
            Happening::Mischief => self.make_mischief(),
            Happening::Restart(node) => self.start(node),
            Happening::Resume(node) => {
                self.nodes[node].paused = false;
                for happening in std::mem::take(&mut self.nodes[node].held) {
                    self.happen(happening);
                }
            }
            Happening::Heal => {
                for (a, b) in std::mem::take(&mut self.cut) {
                    // If messages were lost meanwhile, the connection breaks.
                    self.break_between(a, b);
                }
            }
        }
    }

    fn propose(&mut self) {
        if !self.proposing {
            return;
        }
        for node in 0..self.nodes.len() {
            let (now, paused) = (self.now, self.nodes[node].paused);
            let Some(peer) = self.nodes[node].peer.as_mut().filter(|_| !paused) else { continue };
            if peer.next_zxid().is_none() {
                continue;
            }
            let mut record = Bytes::from(format!("txn {} of {node}", self.proposals));
            if self.random.one_in(self.reconfigs) {
                record = self.reconfiguration(node).unwrap_or(record);
            }
            let Some(peer) = self.nodes[node].peer.as_mut() else { continue };
            let mut out = Vec::new();
            peer.propose(now, record, &mut out);
            self.proposals += 1;
            self.carry_out(node, out);
        }
        let after = MS * (1 + self.random.below(200) as u32);
        self.at(after, Happening::Propose);
    }

    /// Another configuration, if this leader can propose one now.
    fn reconfiguration(&mut self, node: usize) -> Option<Bytes> {
        let count = self.nodes.len();
        let random = &mut self.random;
        let mut roles: Vec<_> = (0..count)
            .map(|_| [Some("participant"), Some("observer"), None][random.below(3) as usize])
            .collect();
        roles[random.below(count as u64) as usize] = Some("participant");
        let peer = self.nodes[node].peer.as_ref()?;
        let zxid = peer.next_zxid()?;
        let config = membership(roles.into_iter(), zxid);
        if peer.quorums().is_joint() || !peer.reaches_quorum(self.now, &config) {
            return None;
        }
        let mut record = Vec::new();
        let mut out = Encoder::new(&mut record);
        let (session, op) = (SessionId(1), OpCode::RECONFIG);
        TxnHeader { session, cxid: 0, zxid, time_ms: 0, op }.encode(&mut out);
        let text = config.to_string();
        let path = "/zookeeper/config".into();
        zebu_proto::txn::Txn::SetData { path, data: Some(text.as_bytes()), version: -1 }
            .encode(op, &mut out);
        self.say(|| format!("{node} proposes {text}"));
        Some(record.into())
    }

    fn make_mischief(&mut self) {
        if !self.mischief {
            return;
        }
        let count = self.nodes.len() as u64;
        let Faults { crash, partition, pause, break_connection } = self.faults;
        if self.random.one_in(crash) {
            let node = self.random.below(count) as usize;
            self.crash(node);
            let after = MS * (10 + self.random.below(8000) as u32);
            self.at(after, Happening::Restart(node));
        }
        if self.random.one_in(crash * 12) {
            for node in 0..self.nodes.len() {
                self.crash(node);
                let after = MS * (10 + self.random.below(1000) as u32);
                self.at(after, Happening::Restart(node));
            }
        }
        if self.random.one_in(partition) && self.cut.is_empty() {
            for a in 0..self.nodes.len() {
                for b in 0..a {
                    if self.random.one_in(2) {
                        self.cut.insert((b, a));
                    }
                }
            }
            self.say(|| format!("partition {:?}", self.cut));
            let after = MS * self.random.below(30_000) as u32;
            self.at(after, Happening::Heal);
        }
        if self.random.one_in(pause) {
            let node = self.random.below(count) as usize;
            self.nodes[node].paused = true;
            self.say(|| format!("{node} pauses"));
            let after = MS * self.random.below(25_000) as u32;
            self.at(after, Happening::Resume(node));
        }
        if self.random.one_in(break_connection) {
            let (a, b) = (self.random.below(count) as usize, self.random.below(count) as usize);
            self.say(|| format!("connections of {a} and {b} break"));
            self.break_between(a.min(b), a.max(b));
        }
        self.at(MS * 200, Happening::Mischief);
    }

    fn crash(&mut self, node: usize) {
        if self.nodes[node].peer.is_none() {
            return;
        }
        let unsynced = self.nodes[node].disk.log.len() - self.nodes[node].disk.synced;
        let kept = self.random.below(unsynced as u64 + 1) as usize;
        let it = &mut self.nodes[node];
        it.peer = None;
        it.incarnation += 1;
        it.disk.log.truncate(it.disk.synced + kept);
        it.jobs.clear();
        it.disk_busy = false;
        it.copies.clear();
        it.listening = Listening::Nobodys;
        it.paused = false;
        it.held.clear();
        it.role = Role::Looking;
        self.say(|| format!("{node} crashes with {}", self.nodes[node].disk.last()));
        for other in 0..self.nodes.len() {
            self.break_between(node.min(other), node.max(other));
        }
    }

    fn start(&mut self, node: usize) {
        if self.nodes[node].peer.is_some() {
            return;
        }
        let it = &mut self.nodes[node];
        it.disk.synced = it.disk.log.len();
        it.tree = it.disk.tree();
        it.tree_zxid = it.disk.last();
        it.timer = None;
        let mut options = Options::new(ServerId(node as i64 + 1));
        options.memory.txns = 5;
        options.memory.bytes = 0;
        if self.seed.is_multiple_of(3) {
            options.memory.pending_bytes = 30;
        }
        options.observer.connect_pause_max = MS * 50;
        options.observer.look_pause_max = MS * 200;
        options.observer.logs = self.observers_log;
        options.observer.masters = self.observer_masters;
        options.seed = self.seed ^ it.incarnation;
        options.reconfig = self.reconfigs > 0;
        let id = u128::from(self.seed) << 64 | (node as u128) << 32 | u128::from(it.incarnation);
        options.new_ensemble = Some(EnsembleId(id));
        let start = Start {
            epochs: Epochs { accepted: it.disk.accepted, current: it.disk.current },
            committed: it.disk.committed.clone(),
            last_seen: it.disk.proposed.clone(),
            last: it.disk.last(),
            recent: it.disk.log.iter().rev().take(5).rev().cloned().collect(),
            certain: Zxid::ZERO,
            assumed_new: false,
            has_database: true,
            identity: it.disk.identity,
        };
        it.peer = Some(Peer::new(options, start));
        self.say(|| format!("{node} starts with {}", self.nodes[node].disk.last()));
        let incarnation = self.nodes[node].incarnation;
        self.input(node, incarnation, Input::Tick);
    }

    fn input(&mut self, node: usize, incarnation: u64, input: Input) {
        let now = self.now;
        let it = &mut self.nodes[node];
        let Some(peer) = it.peer.as_mut().filter(|_| it.incarnation == incarnation) else { return };
        let mut out = Vec::new();
        peer.step(now, input, &mut out);
        self.carry_out(node, out);
        self.check(node);
        let it = &mut self.nodes[node];
        let Some(peer) = &it.peer else { return };
        let deadline = peer.deadline();
        if deadline != Duration::MAX && it.timer.is_none_or(|timer| deadline < timer) {
            it.timer = Some(deadline);
            self.at(deadline.saturating_sub(now), Happening::Timer(node, incarnation));
        }
    }

    fn check(&mut self, node: usize) {
        let it = &self.nodes[node];
        let (disk, seed) = (&it.disk, self.seed);
        assert!(disk.accepted >= disk.current, "seed {seed}: {node} broke its promise");
        let Some(quorums) = it.peer.as_ref().map(Peer::quorums) else { return };
        let (committed, seen) = (quorums.committed(), quorums.last_seen());
        assert!(committed.version() <= seen.version(), "seed {seed}: {node}");
        for config in [committed, seen].into_iter().filter(|it| it.version() > Zxid::ZERO) {
            let known = self.configs.entry(config.version()).or_insert_with(|| config.clone());
            assert!(known.has_same_members(config), "seed {seed}: {node} has {config}");
        }
    }

    // ---- what peers ask for

    fn carry_out(&mut self, node: usize, out: Vec<Output>) {
        for output in out {
            match output {
                Output::Mesh(output) => self.mesh(node, output),
                Output::Retire => unreachable!("nobody is asked to stop here"),
                Output::Listen => self.nodes[node].listening = Listening::Learners,
                Output::ListenForObservers => self.nodes[node].listening = Listening::Observers,
                Output::Unlisten => self.nodes[node].listening = Listening::Nobodys,
                Output::Connect(to) => self.connect(node, to, Listening::Learners),
                Output::ConnectToMaster(to) => self.connect(node, to, Listening::Observers),
                Output::CancelConnect => self.nodes[node].connect += 1,
                Output::Send(link, packet) => {
                    self.check_send(node, &packet);
                    self.send(link.0, node, Message::Packet(packet));
                }
                Output::SendCopy(link) => {
                    let (tree, zxid) = (self.nodes[node].tree.clone(), self.nodes[node].tree_zxid);
                    let packet = QuorumPacket::new(PacketKind::SNAP, zxid);
                    self.send(link.0, node, Message::Packet(packet));
                    self.send(link.0, node, Message::Copy(tree, zxid));
                    let incarnation = self.nodes[node].incarnation;
                    let after = MS * (1 + self.random.below(300) as u32);
                    let sent = Input::CopySent(link);
                    self.at(after, Happening::Input(node, incarnation, sent));
                }
                Output::Close(link) => self.close(link.0, node),
                Output::ReadLog { link, after, up_to, .. } => {
                    self.read_log(node, link, after, up_to);
                }
                Output::Config(change) => self.job(node, Job::Config(change)),
                Output::Committed(_) | Output::OtherEnsemble { .. } => {}
                Output::Identity(identity) => self.job(node, Job::Identity(identity)),
                Output::SaveEpoch(kind, epoch) => self.job(node, Job::Epoch(kind, epoch)),
                Output::Append { zxid, record } => {
                    self.job(node, Job::Append(Txn { zxid, record }))
                }
                Output::Truncate(zxid) => self.job(node, Job::Truncate(zxid)),
                Output::Reload => self.job(node, Job::Reload),
                Output::Restore(link) => self.job(node, Job::Restore(link)),
                Output::Deliver { zxid, record } => self.deliver(node, Txn { zxid, record }),
                Output::Role(role) => self.role(node, role),
                Output::Up(_)
                | Output::AbsurdEpoch { .. }
                | Output::Doubted(_)
                | Output::Trusted => {}
            }
        }
    }

    fn check_send(&self, node: usize, packet: &QuorumPacket) {
        let disk = &self.nodes[node].disk;
        if packet.kind == PacketKind::ACK && packet.zxid.counter() > 0 {
            let durable = disk.log[..disk.synced].last().map_or(disk.base_zxid, |txn| txn.zxid);
            assert!(durable >= packet.zxid, "seed {}: {node} acknowledges too early", self.seed);
        }
        if packet.kind == PacketKind::ACK && packet.zxid.counter() == 0 {
            assert_eq!(disk.current, packet.zxid.epoch(), "seed {}: {node}", self.seed);
        }
        if packet.kind == PacketKind::ACKEPOCH {
            let peer = self.nodes[node].peer.as_ref().expect("it just spoke");
            assert!(disk.accepted >= peer.epochs().accepted);
        }
    }

    fn role(&mut self, node: usize, role: Role) {
        self.say(|| format!("{node} is {role:?}: {}", self.status()));
        self.nodes[node].role = role;
        if let Role::Leading(epoch) = role {
            let before = self.leaders.insert(epoch, node);
            assert_eq!(before, None, "seed {}: two leaders of {epoch:?}", self.seed);
            // The message of a paused leader may arrive after other servers have led.
            let tree = &self.nodes[node].tree;
            let count = self.global.partition_point(|txn| txn.zxid.epoch() < epoch);
            assert!(
                tree.len() >= count && tree[..count] == self.global[..count],
                "seed {}: leader {node} lacks what was committed",
                self.seed
            );
            // Its state is one that a quorum has agreed to.
            if tree.len() > self.global.len() {
                self.global.clone_from(tree);
            }
        }
        if role != Role::Looking {
            let tree = &self.nodes[node].tree;
            let count = tree.len().min(self.global.len());
            assert_eq!(tree[..count], self.global[..count], "seed {}: {node}", self.seed);
        }
    }

    fn deliver(&mut self, node: usize, txn: Txn) {
        let at = self.nodes[node].tree.len();
        if self.nodes[node].role == Role::Looking && self.global.get(at) != Some(&txn) {
            // An unconfirmed leader prepares a snapshot transfer, or a learner takes the state of
            // such a leader: that state is not committed, and may never be. A server's state is
            // compared when it begins to serve.
            let it = &mut self.nodes[node];
            it.tree_zxid = txn.zxid;
            it.tree.push(txn);
            return;
        }
        if at >= self.global.len() {
            // A new leader has just been confirmed, with its whole history.
            let tree = &self.nodes[node].tree;
            self.global.extend(tree[self.global.len()..].iter().cloned());
            self.changes += usize::from(Membership::in_txn(&txn.record).is_some());
            self.global.push(txn.clone());
        }
        assert_eq!(self.global[at], txn, "seed {}: {node} delivers something else", self.seed);
        let it = &mut self.nodes[node];
        it.tree_zxid = txn.zxid;
        it.tree.push(txn);
        let durable = it.disk.log[..it.disk.synced].last().map_or(it.disk.base_zxid, |t| t.zxid);
        let peer = it.peer.as_ref().expect("it delivers");
        // Its role may have changed with this.
        let logs = matches!(it.role, Role::Following(_) | Role::Leading(_));
        let observes = peer.state() == State::Observing || (self.reconfigs > 0 && !logs);
        if observes && !self.observers_log {
            // A server that had a vote before has a log from that time.
            let has_voted = self.reconfigs > 0;
            assert!(has_voted || it.disk.log.is_empty(), "seed {}: {node} logs", self.seed);
            return;
        }
        assert!(durable >= it.tree_zxid, "seed {}: {node} is ahead of its log", self.seed);
    }

    // ---- disks

    fn job(&mut self, node: usize, job: Job) {
        if let Job::Append(txn) = job {
            // The page cache has the write at once, behind all pending writes.
            self.nodes[node].jobs.push_back(Job::Append(txn));
        } else {
            self.nodes[node].jobs.push_back(job);
        }
        self.work(node);
    }

    fn work(&mut self, node: usize) {
        if self.nodes[node].disk_busy || self.nodes[node].jobs.is_empty() {
            return;
        }
        let it = &mut self.nodes[node];
        it.disk_busy = true;
        while matches!(it.jobs.front(), Some(Job::Append(_))) {
            let Some(Job::Append(txn)) = it.jobs.pop_front() else { unreachable!("just seen") };
            it.disk.log.push(txn);
        }
        let incarnation = it.incarnation;
        let slow = self.random.one_in(50);
        let after = MS * (1 + self.random.below(if slow { 900 } else { 10 }) as u32);
        self.at(after, Happening::DiskDone(node, incarnation));
    }

    fn disk_done(&mut self, node: usize, incarnation: u64) {
        if self.nodes[node].incarnation != incarnation {
            return;
        }
        let it = &mut self.nodes[node];
        it.disk_busy = false;
        let input = if it.disk.synced < it.disk.log.len() {
            it.disk.synced = it.disk.log.len();
            Input::Flushed(it.disk.last())
        } else {
            match it.jobs.pop_front() {
                None => return,
                Some(Job::Append(txn)) => {
                    it.jobs.push_front(Job::Append(txn));
                    return self.work(node);
                }
                Some(Job::Epoch(kind, epoch)) => {
                    match kind {
                        EpochKind::Accepted => it.disk.accepted = epoch,
                        EpochKind::Current => it.disk.current = epoch,
                    }
                    Input::EpochSaved(kind, epoch)
                }
                Some(Job::Identity(identity)) => {
                    it.disk.identity = identity;
                    return self.work(node);
                }
                Some(Job::Config(change)) => {
                    it.disk.save(change);
                    return self.work(node);
                }
                Some(Job::Truncate(zxid)) => {
                    it.disk.log.retain(|txn| txn.zxid <= zxid);
                    it.disk.synced = it.disk.log.len();
                    let reaches = it.disk.last() == zxid;
                    if !reaches {
                        it.disk.base.clear();
                        it.disk.base_zxid = Zxid::ZERO;
                        it.disk.log.clear();
                        it.disk.synced = 0;
                    }
                    if !reaches || it.tree_zxid > zxid {
                        it.tree = it.disk.tree();
                        it.tree_zxid = it.disk.last();
                    }
                    let config = newest(&it.tree);
                    Input::Truncated { end: reaches.then_some(zxid), config }
                }
                Some(Job::Reload) => {
                    it.tree = it.disk.tree();
                    it.tree_zxid = it.disk.last();
                    Input::Reloaded { end: Some(it.tree_zxid) }
                }
                Some(Job::Restore(link)) => {
                    let (tree, zxid) = it.copies.remove(&link).expect("a copy to restore");
                    it.disk.base.clone_from(&tree);
                    it.disk.base_zxid = zxid;
                    it.disk.log.clear();
                    it.disk.synced = 0;
                    it.tree = tree;
                    it.tree_zxid = zxid;
                    let config = newest(&it.tree);
                    Input::Restored { zxid, config }
                }
            }
        };
        self.work(node);
        self.input(node, incarnation, input);
    }

    fn read_log(&mut self, node: usize, link: LinkId, after: Zxid, up_to: Zxid) {
        let disk = &self.nodes[node].disk;
        let floor = disk.log.iter().map(|txn| txn.zxid).rfind(|zxid| *zxid <= after);
        let floor = floor.or((disk.base_zxid == after).then_some(after));
        let range = disk.log.iter().filter(|txn| txn.zxid > after && txn.zxid <= up_to);
        let txns: Vec<_> = range.map(|txn| (txn.zxid, txn.record.clone())).collect();
        let usable = floor.is_some() && !self.random.one_in(4);
        let incarnation = self.nodes[node].incarnation;
        let half = txns.len() / 2;
        let (first, second) = txns.split_at(half);
        let part = |txns: &[_], end| Input::LogRead { link, floor, txns: txns.to_vec(), end };
        let (more, last) = (LogEnd::More, if usable { LogEnd::Complete } else { LogEnd::Unusable });
        let inputs = [part(first, more), part(second, last)];
        let mut after = Duration::ZERO;
        for input in inputs {
            after += MS * (1 + self.random.below(50) as u32);
            self.at(after, Happening::Input(node, incarnation, input));
        }
    }

    // ---- connections

    fn delay(&mut self) -> Duration {
        let slow = self.random.one_in(20);
        MS * (1 + self.random.below(if slow { 400 } else { 5 }) as u32)
    }

    fn is_cut(&self, a: usize, b: usize) -> bool {
        self.cut.contains(&(a.min(b), a.max(b)))
    }

    fn open(&mut self, from: usize, to: usize, election: bool) -> u64 {
        let id = self.next;
        self.next += 1;
        let clock = [self.now; 2];
        let connection = Connection { ends: [from, to], open: [true; 2], election, clock };
        self.connections.insert(id, connection);
        id
    }

    fn mesh(&mut self, node: usize, output: mesh::Output) {
        match output {
            mesh::Output::Dial(to) => {
                let incarnation = self.nodes[node].incarnation;
                let after = self.delay();
                let to = to.0 as usize - 1;
                self.at(after, Happening::Dialled { from: node, incarnation, to });
            }
            mesh::Output::Send(wire, ballot) => {
                let Some(peer) = &self.nodes[node].peer else { return };
                let quorums = peer.quorums();
                let committed = Some(quorums.committed().clone());
                let proposed = quorums.is_joint().then(|| quorums.last_seen().clone());
                let ensemble = peer.identity().settled();
                let message = Message::Ballot(ballot, Configs { committed, proposed, ensemble });
                self.send(wire.0, node, message);
            }
            mesh::Output::Close(wire) => self.close(wire.0, node),
        }
    }

    fn dialled(&mut self, from: usize, incarnation: u64, to: usize) {
        if self.nodes[from].incarnation != incarnation {
            return;
        }
        let peer = ServerId(to as i64 + 1);
        if self.is_cut(from, to) || self.nodes[to].peer.is_none() {
            return self.input(from, incarnation, Input::Mesh(mesh::Input::Refused(peer)));
        }
        let wire = WireId(self.open(from, to, true));
        let other = Input::Mesh(mesh::Input::Accepted { wire, peer: ServerId(from as i64 + 1) });
        let there = self.nodes[to].incarnation;
        self.at(Duration::ZERO, Happening::Input(to, there, other));
        self.input(from, incarnation, Input::Mesh(mesh::Input::Dialled { wire, peer }));
    }

    fn connect(&mut self, from: usize, to: ServerId, port: Listening) {
        let it = &mut self.nodes[from];
        it.connect += 1;
        let (incarnation, attempt) = (it.incarnation, it.connect);
        let to = to.0 as usize - 1;
        let after = self.delay();
        self.at(after, Happening::Linked { from, incarnation, attempt, to, port });
    }

    fn linked(&mut self, from: usize, incarnation: u64, attempt: u64, to: usize, port: Listening) {
        let it = &self.nodes[from];
        if it.incarnation != incarnation || it.connect != attempt {
            return;
        }
        if self.is_cut(from, to) || self.nodes[to].listening != port {
            return self.input(from, incarnation, Input::ConnectFailed);
        }
        let link = LinkId(self.open(from, to, false));
        let there = self.nodes[to].incarnation;
        self.at(Duration::ZERO, Happening::Input(to, there, Input::Accepted(link)));
        self.input(from, incarnation, Input::Connected(link));
    }

    fn send(&mut self, id: u64, from: usize, message: Message) {
        let delay = self.delay();
        let now = self.now;
        let Some(connection) = self.connections.get_mut(&id) else { return };
        let side = usize::from(connection.ends[1] == from);
        if !connection.open[side] {
            return;
        }
        let to = connection.ends[1 - side];
        let at = (now + delay).max(connection.clock[side]);
        connection.clock[side] = at;
        self.at(at - now, Happening::Arrive { connection: id, to, message });
    }

    fn close(&mut self, id: u64, from: usize) {
        self.send(id, from, Message::Close);
        if let Some(connection) = self.connections.get_mut(&id) {
            let side = usize::from(connection.ends[1] == from);
            connection.open[side] = false;
        }
    }

    fn arrive(&mut self, id: u64, to: usize, message: Message) {
        let Some(connection) = self.connections.get_mut(&id) else { return };
        let side = usize::from(connection.ends[1] == to);
        let election = connection.election;
        let from = connection.ends[1 - side];
        if !connection.open[side] || self.is_cut(from, to) {
            return;
        }
        let input = match message {
            Message::Close => {
                self.connections.get_mut(&id).expect("it was there").open[side] = false;
                Self::closed(id, election)
            }
            Message::Ballot(ballot, said) => Input::Heard { wire: WireId(id), ballot, said },
            Message::Packet(packet) => Input::Packet(LinkId(id), packet),
            Message::Copy(tree, zxid) => {
                self.nodes[to].copies.insert(LinkId(id), (tree, zxid));
                Input::Copied { link: LinkId(id), zxid }
            }
        };
        let incarnation = self.nodes[to].incarnation;
        self.input(to, incarnation, input);
    }

    fn closed(id: u64, election: bool) -> Input {
        if election {
            Input::Mesh(mesh::Input::Closed(WireId(id)))
        } else {
            Input::LinkDown(LinkId(id))
        }
    }

    fn break_between(&mut self, a: usize, b: usize) {
        let broken: Vec<u64> = self
            .connections
            .iter()
            .filter(|(_, connection)| {
                let [x, y] = connection.ends;
                (x.min(y), x.max(y)) == (a, b)
            })
            .map(|(id, _)| *id)
            .collect();
        for id in broken {
            let connection = self.connections.remove(&id).expect("it was there");
            for side in 0..2 {
                if connection.open[side] {
                    let node = connection.ends[side];
                    let incarnation = self.nodes[node].incarnation;
                    let input = Self::closed(id, connection.election);
                    self.at(MS, Happening::Input(node, incarnation, input));
                }
            }
        }
    }
}

/// A configuration in which server 1, 2 and so on have these roles.
fn membership(roles: impl Iterator<Item = Option<&'static str>>, version: Zxid) -> Arc<Membership> {
    let line = |(n, role): (usize, Option<&str>)| {
        role.map(|role| format!("server.{n}=127.0.0.{n}:2888:3888:{role};2181\n"))
    };
    let lines: String = (1..).zip(roles).filter_map(line).collect();
    let text = format!("{lines}version={:x}", version.0);
    Arc::new(Membership::agreed(text.as_bytes()).expect("a configuration"))
}

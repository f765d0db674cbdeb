//! Turns lines of a script into inputs, and outputs into lines.
//!
//! There is no network: the script says what other servers send, and what they receive is text.

use std::collections::{BTreeMap, VecDeque};
use std::fmt::Write as _;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use zebu_jute::{Decode as _, Encode as _, Encoder};
use zebu_proto::quorum::{
    Activate, Alive, EpochAck, LeaderInfo, LearnerInfo, PacketKind, QuorumPacket,
};
use zebu_proto::txn::TxnHeader;
use zebu_proto::{EnsembleId, Epoch, Identity, OpCode, ServerId, SessionId, Zxid};
use zebu_zab::config::Membership;
use zebu_zab::election::{Ballot, State, Vote};
use zebu_zab::history::Txn;
use zebu_zab::mesh::{self, WireId};
use zebu_zab::{
    Compared, ConfigChange, Configs, Epochs, Input, LinkId, LogEnd, Options, Output, Peer, Start,
    TreeDigest, Up,
};

struct Run {
    peer: Option<Peer>,
    me: ServerId,
    now: Duration,
    wires: BTreeMap<ServerId, WireId>,
    wires_made: u64,
    /// The servers that have dialled by a line of their own.
    knocked: BTreeMap<ServerId, WireId>,
    /// The unfinished work of the disk, while it is slow.
    disk: VecDeque<Input>,
    slow: bool,
    /// Whether the script shows the messages on the election network.
    aloud: bool,
    /// Whether the script shows the state that the disk must keep.
    remembers: bool,
    copied: Zxid,
    /// The state that a restart would find.
    on_disk: Zxid,
    /// The configuration in the received tree.
    copied_config: Option<Membership>,
    text: String,
}

/// The outputs for the inputs of a script.
pub fn script(script: &str) -> String {
    let mut run = Run {
        peer: None,
        me: ServerId(0),
        now: Duration::ZERO,
        wires: BTreeMap::new(),
        wires_made: 0,
        knocked: BTreeMap::new(),
        disk: VecDeque::new(),
        slow: false,
        aloud: false,
        remembers: false,
        copied: Zxid::ZERO,
        on_disk: Zxid::ZERO,
        copied_config: None,
        text: String::new(),
    };
    for line in script.lines() {
        if line.starts_with('#') || line.is_empty() || line.starts_with("> ") {
            writeln!(run.text, "{line}").unwrap();
        }
        if let Some(line) = line.strip_prefix("> ") {
            let words: Vec<&str> = line.split_whitespace().collect();
            run.line(words[0], &words[1..]);
        }
    }
    run.text
}

fn number(word: &str) -> i64 {
    word.parse().unwrap_or_else(|_| panic!("not a number: {word}"))
}

/// `epoch.counter`, or `0`.
fn zxid(word: &str) -> Zxid {
    match word.split_once('.') {
        Some((epoch, counter)) => Zxid::new(Epoch(number(epoch) as u32), number(counter) as u32),
        None => Zxid(number(word)),
    }
}

fn show(zxid: Zxid) -> String {
    if zxid.0 <= 0 { zxid.0.to_string() } else { format!("{}.{}", zxid.epoch().0, zxid.counter()) }
}

fn ensemble(word: &str) -> EnsembleId {
    EnsembleId(u128::from_str_radix(word, 16).expect("an id"))
}

/// `none`, a settled id, or `id@epoch` for a proposed one.
fn identity(word: &str) -> Identity {
    match word.split_once('@') {
        _ if word == "none" => Identity::Unknown,
        Some((id, epoch)) => {
            Identity::Proposed { id: ensemble(id), epoch: Epoch(number(epoch) as u32) }
        }
        None => Identity::Settled(ensemble(word)),
    }
}

fn show_identity(identity: Identity) -> String {
    match identity {
        Identity::Unknown => "no ensemble".to_owned(),
        Identity::Proposed { id, epoch } => {
            format!("ensemble {:x}, proposed in epoch {}", id.0, epoch.0)
        }
        Identity::Settled(id) => format!("ensemble {:x}", id.0),
    }
}

/// The value after `key=`, if there is one.
fn value<'w>(words: &[&'w str], key: &str) -> Option<&'w str> {
    words.iter().find_map(|word| word.strip_prefix(key)?.strip_prefix('='))
}

fn record(zxid: Zxid) -> Bytes {
    Bytes::from(format!("txn {}", show(zxid)))
}

/// A configuration with the given `voters`, which may be `moved`, and `observers`.
fn membership(words: &[&str], version: Zxid) -> Option<Membership> {
    value(words, "voters")?;
    let mut text = String::new();
    for (key, role) in [("voters", "participant"), ("observers", "observer")] {
        for server in value(words, key).iter().flat_map(|list| list.split(',')) {
            let port = if value(words, "moved") == Some(server) { 2889 } else { 2888 };
            text.push_str(&format!("server.{server}=127.0.0.{server}:{port}:3888:{role};2181\n"));
        }
    }
    text.push_str(&format!("version={:x}", version.0));
    Some(Membership::agreed(text.as_bytes()).expect("members"))
}

/// A transaction; a reconfiguration if it names `voters`.
fn record_of(words: &[&str], zxid: Zxid) -> Bytes {
    let Some(config) = membership(words, zxid) else { return record(zxid) };
    let mut record = Vec::new();
    let mut out = Encoder::new(&mut record);
    let (session, op) = (SessionId(1), OpCode::RECONFIG);
    TxnHeader { session, cxid: 0, zxid, time_ms: 0, op }.encode(&mut out);
    let (path, text) = ("/zookeeper/config".into(), config.to_string());
    let data = Some(text.as_bytes());
    zebu_proto::txn::Txn::SetData { path, data, version: -1 }.encode(op, &mut out);
    record.into()
}

fn show_config(config: &Membership) -> String {
    let list = |servers: Vec<i64>| servers.iter().map(i64::to_string).collect::<Vec<_>>().join(",");
    let voters = list(config.voters().map(|server| server.0).collect());
    let observers = list(config.observers().map(|server| server.0).collect());
    let observers =
        if observers.is_empty() { observers } else { format!(" observers {observers}") };
    format!("{} with voters {voters}{observers}", show(config.version()))
}

/// `1.2-1.5` or `1.2`.
fn txns(range: &str) -> Vec<Txn> {
    let (first, last) = range.split_once('-').unwrap_or((range, range));
    let (first, last) = (zxid(first), zxid(last));
    let zxids = (first.counter()..=last.counter()).map(|n| Zxid::new(first.epoch(), n));
    zxids.map(|zxid| Txn { zxid, record: record(zxid) }).collect()
}

/// `floor=1.2 txns=1.3-1.5 complete`: a part of the log, with what follows it.
fn log_read(link: LinkId, words: &[&str]) -> Input {
    let txns = value(words, "txns").map(txns).unwrap_or_default();
    let end = match *words.last().expect("words") {
        "more" => LogEnd::More,
        "complete" => LogEnd::Complete,
        _ => LogEnd::Unusable,
    };
    let txns = txns.into_iter().map(|txn| (txn.zxid, txn.record)).collect();
    Input::LogRead { link, floor: value(words, "floor").map(zxid), txns, end }
}

const KINDS: [(&str, PacketKind); 22] = [
    ("ENSEMBLE", PacketKind::ENSEMBLE),
    ("ALIVE", PacketKind::ALIVE),
    ("TREE_DIFFERS", PacketKind::TREE_DIFFERS),
    ("INFORMANDACTIVATE", PacketKind::INFORMANDACTIVATE),
    ("REQUEST", PacketKind::REQUEST),
    ("PROPOSAL", PacketKind::PROPOSAL),
    ("ACK", PacketKind::ACK),
    ("COMMIT", PacketKind::COMMIT),
    ("PING", PacketKind::PING),
    ("REVALIDATE", PacketKind::REVALIDATE),
    ("SYNC", PacketKind::SYNC),
    ("INFORM", PacketKind::INFORM),
    ("COMMITANDACTIVATE", PacketKind::COMMITANDACTIVATE),
    ("NEWLEADER", PacketKind::NEWLEADER),
    ("FOLLOWERINFO", PacketKind::FOLLOWERINFO),
    ("UPTODATE", PacketKind::UPTODATE),
    ("DIFF", PacketKind::DIFF),
    ("TRUNC", PacketKind::TRUNC),
    ("SNAP", PacketKind::SNAP),
    ("OBSERVERINFO", PacketKind::OBSERVERINFO),
    ("LEADERINFO", PacketKind::LEADERINFO),
    ("ACKEPOCH", PacketKind::ACKEPOCH),
];

/// A packet that the server sends, with the facts of its kind.
fn show_packet(link: LinkId, packet: QuorumPacket) -> String {
    let QuorumPacket { kind, zxid, data, .. } = packet;
    let more = match (kind, data) {
        (PacketKind::COMMITANDACTIVATE | PacketKind::INFORMANDACTIVATE, Some(data)) => {
            let activate = Activate::decode(&data).expect("our own packet");
            format!(", {} leads", activate.leader.0)
        }
        (PacketKind::NEWLEADER, Some(data)) => match Membership::agreed(&data) {
            Some(config) if config.version() > Zxid::ZERO => format!(", {}", show_config(&config)),
            _ => String::new(),
        },
        (PacketKind::ALIVE, Some(data)) => {
            let alive = Alive::from_bytes(&data).expect("our own packet");
            format!(" {} ms", alive.silence_ms)
        }
        (PacketKind::ENSEMBLE, Some(data)) => {
            let identity = Identity::from_bytes(&data).expect("our own packet");
            format!(" {}", show_identity(identity))
        }
        _ => String::new(),
    };
    format!("to {}: {} {}{more}", link.0, name(kind), show(zxid))
}

/// A change of the configuration that the server keeps.
fn show_change(change: &ConfigChange) -> String {
    match change {
        ConfigChange::Proposed(config) => format!("proposed: {}", show_config(config)),
        ConfigChange::Withdrawn => "withdrawn".to_owned(),
        ConfigChange::Heard(Some(config)) => format!("heard of: {}", show_config(config)),
        ConfigChange::Heard(None) => "heard of nothing".to_owned(),
        ConfigChange::Committed(config) => format!("in force: {}", show_config(config)),
    }
}

fn name(kind: PacketKind) -> &'static str {
    KINDS.iter().find(|(_, other)| *other == kind).map_or("?", |(name, _)| name)
}

impl Run {
    fn line(&mut self, verb: &str, words: &[&str]) {
        let link = || LinkId(number(words[0]) as u64);
        match verb {
            "server" => self.start(words),
            "wait" => self.wait(number(words[0]) as u64),
            // hear 2 looking 3 1.4 epoch 1 round 1
            "hear" => self.hear(words),
            "knock" => {
                self.wires_made += 1;
                let (wire, peer) = (WireId(self.wires_made), ServerId(number(words[0])));
                self.knocked.insert(peer, wire);
                self.step(Input::Mesh(mesh::Input::Accepted { wire, peer }));
            }
            "oracle" => self.step(Input::Oracle(words[0] == "yes")),
            "deaf" => {
                let wire = self.wires.remove(&ServerId(number(words[0]))).expect("a connection");
                self.step(Input::Mesh(mesh::Input::Closed(wire)));
            }
            "accepted" => self.step(Input::Accepted(link())),
            "connected" => self.step(Input::Connected(link())),
            "refused" => self.step(Input::ConnectFailed),
            // The network refuses every dial until the server looks for a leader again.
            "unreachable" => self.is_refused_everywhere(),
            "down" => self.step(Input::LinkDown(link())),
            "propose" => self.propose(number(words[0])),
            // reconfigure voters=1,2 observers=3
            "reconfigure" => {
                let zxid = self.peer().next_zxid().expect("it leads");
                self.act(|peer, now, out| {
                    peer.propose(now, record_of(words, zxid), out);
                });
            }
            "reaches" => {
                let config = membership(words, Zxid::ZERO).expect("members");
                let now = self.now;
                let reaches = self.peer().reaches_quorum(now, &config);
                self.yes_or_no(reaches);
            }
            "may-retire" => {
                let may = self.peer().may_retire();
                self.yes_or_no(may);
            }
            // heir 2, or heir
            "heir" => {
                let to = words.first().map(|word| ServerId(number(word)));
                let said = match self.peer().heir(to) {
                    Ok(heir) => format!("server {}", heir.0),
                    Err(why) => why.to_string(),
                };
                writeln!(self.text, "{said}").unwrap();
            }
            "may-hand-over" => {
                let may = self.peer().may_hand_over(ServerId(number(words[0])));
                self.yes_or_no(may);
            }
            "hand-over" => {
                let zxid = self.peer().next_zxid().expect("it leads");
                let heir = ServerId(number(words[0]));
                self.act(|peer, now, out| {
                    peer.hand_over(now, heir, record(zxid), out);
                });
            }
            "retire" => self.act(Peer::retire),
            "sent" => self.step(Input::CopySent(link())),
            // differs 1.5: the tree's digest after that transaction differs from the leader's.
            "differs" | "agrees" => {
                let zxid = words.first().map_or(Zxid::new(Epoch(1), 4), |word| zxid(word));
                let digest = TreeDigest { zxid, tree: 0xbad };
                self.step(Input::Compared(Compared { digest, differs: verb == "differs" }));
            }
            // moves 1 15000 4: this number of times, with this number of milliseconds in between.
            "moves" => {
                for _ in 0..number(words[2]) {
                    self.wait(number(words[1]) as u64);
                    self.step(Input::Moves(link()));
                }
            }
            "copied" => {
                self.copied = zxid(words[1]);
                let version = value(words, "version").map_or(self.copied, zxid);
                self.copied_config = membership(words, version);
                self.step(Input::Copied { link: link(), zxid: zxid(words[1]) });
            }
            "log" => self.step(log_read(link(), words)),
            "stalled" => {
                let time = Duration::from_millis(number(words[0]) as u64);
                self.now += time;
                self.step(Input::Stalled(time));
            }
            // starved 700: it looks at its clock only after this number of milliseconds.
            "starved" => {
                self.now += Duration::from_millis(number(words[0]) as u64);
                self.step(Input::Tick);
            }
            "slow" => self.slow = true,
            "quick" => {
                self.slow = false;
                while let Some(done) = self.disk.pop_front() {
                    self.step(done);
                }
            }
            "from" => {
                let packet = self.packet(&words[1..]);
                self.step(Input::Packet(link(), packet));
            }
            other => panic!("no such line: {other}"),
        }
    }

    fn start(&mut self, words: &[&str]) {
        self.me = ServerId(number(words[0]));
        self.aloud = words.contains(&"aloud");
        let mut options = Options::new(self.me);
        let ms = |key| value(words, key).map(|ms| Duration::from_millis(number(ms) as u64));
        options.epoch_wait_max = ms("epoch_wait");
        options.observer.connect_pause_max = ms("connect_pause").unwrap_or_default();
        options.observer.look_pause_max = ms("look_pause").unwrap_or_default();
        if let Some(bytes) = value(words, "pending_bytes") {
            options.memory.pending_bytes = number(bytes) as usize;
        }
        if let Some(txns) = value(words, "memory") {
            options.memory.txns = number(txns) as usize;
            options.memory.bytes = 0;
        }
        options.observer.masters = words.contains(&"masters");
        options.observer.logs = !words.contains(&"forgetful");
        if let Some(most) = value(words, "copies") {
            options.syncs_max.copies = number(most) as usize;
        }
        if let Some(most) = value(words, "diffs") {
            options.syncs_max.diffs = number(most) as usize;
        }
        options.reconfig = words.contains(&"reconfig");
        let version = value(words, "version").map_or(Zxid::ZERO, zxid);
        // `proposed=1.5:1,2`
        let proposed = value(words, "proposed").and_then(|proposed| proposed.split_once(':'));
        let proposed = proposed.and_then(|(version, voters)| {
            membership(&[&format!("voters={voters}")], zxid(version))
        });
        let epoch = Epoch(value(words, "epoch").map_or(0, number) as u32);
        let start = Start {
            epochs: Epochs { accepted: epoch, current: epoch },
            committed: Arc::new(membership(words, version).expect("members")),
            last_seen: proposed.map(Arc::new),
            last: value(words, "last").map_or(Zxid::ZERO, zxid),
            recent: value(words, "recent").map(txns).unwrap_or_default(),
            certain: value(words, "certain").map_or(Zxid::ZERO, zxid),
            assumed_new: words.contains(&"assumed_new"),
            has_database: !words.contains(&"empty"),
            identity: value(words, "ensemble").map_or(Identity::Unknown, identity),
        };
        options.new_ensemble = value(words, "new_ensemble").map(ensemble);
        options.leader_silence = ms("leader_silence");
        self.on_disk = start.last;
        self.remembers = words.contains(&"remembers");
        self.peer = Some(Peer::new(options, start));
        self.wires.clear();
        self.knocked.clear();
        self.disk.clear();
        self.slow = false;
        self.now += Duration::from_secs(1000);
        self.step(Input::Tick);
    }

    fn peer(&mut self) -> &mut Peer {
        self.peer.as_mut().expect("a script starts a server first")
    }

    /// The other voters that lack a committed transaction, and those of which nobody knows.
    fn forgetful(&mut self) -> String {
        let Some(lacks) = self.peer().lacks() else { return String::new() };
        let ids = |servers: Vec<ServerId>| {
            let ids: Vec<String> = servers.iter().map(|server| server.0.to_string()).collect();
            ids.join(",")
        };
        match (ids(lacks.without_certain), ids(lacks.may_have_certain)) {
            (without, _) if without.is_empty() => String::new(),
            (without, may) if may.is_empty() => format!(" [without it: {without}]"),
            (without, may) => format!(" [without it: {without}; perhaps with it: {may}]"),
        }
    }

    fn wait(&mut self, ms: u64) {
        let end = self.now + Duration::from_millis(ms);
        loop {
            let due = self.peer().deadline().max(self.now);
            if due > end {
                break;
            }
            self.now = due;
            self.step(Input::Tick);
        }
        self.now = end;
    }

    fn hear(&mut self, words: &[&str]) {
        let from = ServerId(number(words[0]));
        let state = match words[1] {
            "looking" => State::Looking,
            "following" => State::Following,
            "leading" => State::Leading,
            other => panic!("no such state: {other}"),
        };
        let vote = Vote {
            leader: ServerId(number(words[2])),
            zxid: zxid(words[3]),
            epoch: number(value(words, "epoch").unwrap_or("0")),
        };
        let round = number(value(words, "round").unwrap_or("1"));
        if !self.wires.contains_key(&from) {
            self.wires_made += 1;
            let wire = WireId(self.wires_made);
            self.wires.insert(from, wire);
            self.step(Input::Mesh(mesh::Input::Accepted { wire, peer: from }));
        }
        let ballot = Ballot { vote, round, state, versioned: true };
        let config = |key| {
            let (version, voters) = value(words, key)?.split_once(':')?;
            membership(&[&format!("voters={voters}")], zxid(version)).map(Arc::new)
        };
        let said = Configs {
            committed: config("config"),
            proposed: config("proposed"),
            ensemble: value(words, "ensemble").map(ensemble),
        };
        self.step(Input::Heard { wire: self.wires[&from], ballot, said });
    }

    fn propose(&mut self, count: i64) {
        for _ in 0..count {
            let zxid = self.peer().next_zxid().expect("it leads");
            self.act(|peer, now, out| {
                peer.propose(now, record(zxid), out);
            });
        }
    }

    /// `KIND zxid ...`: the further words depend on the kind.
    fn packet(&self, words: &[&str]) -> QuorumPacket {
        let kind = KINDS.iter().find(|(name, _)| *name == words[0]).expect("a kind").1;
        let zxid = zxid(words[1]);
        let data = match kind {
            PacketKind::FOLLOWERINFO | PacketKind::OBSERVERINFO => {
                let server = ServerId(number(words[2]));
                let version = value(words, "version").map_or(Zxid::ZERO, self::zxid);
                let identity = value(words, "ensemble").map(identity);
                let mut info = LearnerInfo::new(server, version).with_identity(identity);
                if words.contains(&"old") {
                    info = LearnerInfo { protocol_version: None, ..info };
                }
                Some(info.to_data())
            }
            PacketKind::ACKEPOCH => {
                let current = number(words[2]);
                let current_epoch = (current >= 0).then_some(Epoch(current as u32));
                Some(EpochAck { current_epoch }.to_data())
            }
            PacketKind::PROPOSAL | PacketKind::INFORM => Some(record_of(words, zxid)),
            PacketKind::COMMITANDACTIVATE | PacketKind::INFORMANDACTIVATE => {
                let txn = match kind {
                    PacketKind::INFORMANDACTIVATE => record_of(words, zxid),
                    _ => Bytes::new(),
                };
                Some(Activate { leader: ServerId(number(words[2])), txn }.to_data())
            }
            PacketKind::NEWLEADER => {
                let version = value(words, "version").map_or(Zxid::ZERO, self::zxid);
                membership(words, version).map(|config| config.to_string().into())
            }
            PacketKind::TREE_DIFFERS => {
                let tree = number(value(words, "tree").expect("a digest"));
                Some(tree.to_be_bytes().to_vec().into())
            }
            PacketKind::LEADERINFO => {
                let exact = value(words, "digests").is_some_and(|digests| digests == "exact");
                let identity = value(words, "ensemble").map(identity);
                Some(LeaderInfo::new(exact).with_identity(identity).to_data())
            }
            PacketKind::ENSEMBLE => Some(identity(words[2]).to_bytes().into()),
            PacketKind::ALIVE => {
                let limit = Duration::from_millis(number(words[2]) as u64);
                Some(Alive::new(limit).to_bytes().into())
            }
            _ => None,
        };
        QuorumPacket { kind, zxid, data, authinfo: None }
    }

    fn step(&mut self, input: Input) {
        self.act(|peer, now, out| peer.step(now, input, out));
    }

    /// Does something with the server, and carries out its outputs.
    fn act(&mut self, act: impl FnOnce(&mut Peer, Duration, &mut Vec<Output>)) {
        let (now, mut outputs) = (self.now, Vec::new());
        act(self.peer(), now, &mut outputs);
        self.carry_out(outputs);
    }

    fn yes_or_no(&mut self, yes: bool) {
        self.text.push_str(if yes { "yes\n" } else { "no\n" });
    }

    /// Refuses every dial until the server looks for a leader again.
    fn is_refused_everywhere(&mut self) {
        while self.peer().state() != State::Looking {
            self.step(Input::ConnectFailed);
            let due = self.peer().deadline();
            if self.peer().state() != State::Looking {
                self.now = self.now.max(due);
                self.step(Input::Tick);
            }
        }
    }

    fn done(&mut self, input: Input) {
        self.disk.push_back(input);
    }

    /// Carries out an output on the election network. Returns its line, if the script shows it.
    fn mesh(&mut self, output: mesh::Output) -> Option<String> {
        match output {
            mesh::Output::Dial(peer) if self.knocked.contains_key(&peer) => {
                Some(format!("dial {}", peer.0))
            }
            mesh::Output::Close(wire) if self.knocked.values().any(|knocked| *knocked == wire) => {
                Some("hang up".to_owned())
            }
            mesh::Output::Dial(peer) if peer < self.me => {
                self.wires_made += 1;
                let wire = WireId(self.wires_made);
                self.wires.insert(peer, wire);
                self.disk.push_back(Input::Mesh(mesh::Input::Dialled { wire, peer }));
                None
            }
            mesh::Output::Send(wire, ballot) if self.aloud => {
                let to = self.wires.iter().find(|(_, other)| **other == wire);
                let to = to.expect("a connection").0.0;
                let Ballot { vote, round, state, .. } = ballot;
                let vote = format!("{} {}", vote.leader.0, show(vote.zxid));
                Some(format!("tell {to}: {state:?} {vote}, round {round}"))
            }
            _ => None,
        }
    }

    fn carry_out(&mut self, outputs: Vec<Output>) {
        for output in outputs {
            let line = match output {
                Output::Mesh(output) => match self.mesh(output) {
                    Some(line) => line,
                    None => continue,
                },
                Output::Committed(zxid) if self.remembers => {
                    format!("remember {} as committed", show(zxid))
                }
                Output::Committed(_) => continue,
                Output::Retire => "close the election port".to_owned(),
                Output::Listen => "listen".to_owned(),
                Output::ListenForObservers => "listen for observers".to_owned(),
                Output::Unlisten => "do not listen".to_owned(),
                Output::Connect(server) => format!("connect to {}", server.0),
                Output::ConnectToMaster(server) => format!("connect to master {}", server.0),
                Output::CancelConnect => "do not connect".to_owned(),
                Output::Send(link, packet) => show_packet(link, packet),
                Output::Config(change) => show_change(&change),
                Output::SendCopy(link) => {
                    let zxid = self.peer().history().delivered();
                    format!("to {}: the tree as of {}", link.0, show(zxid))
                }
                Output::Close(link) => format!("close {}", link.0),
                Output::ReadLog { link, after, up_to, share } => {
                    let range = format!("after {} up to {}", show(after), show(up_to));
                    format!("read the log for {}: {range}, share {share}", link.0)
                }
                Output::SaveEpoch(kind, epoch) => {
                    self.done(Input::EpochSaved(kind, epoch));
                    format!("save {kind:?} epoch {}", epoch.0)
                }
                Output::Append { zxid, .. } => {
                    self.done(Input::Flushed(zxid));
                    format!("append {}", show(zxid))
                }
                Output::Truncate(zxid) => {
                    self.done(Input::Truncated { end: Some(zxid), config: None });
                    format!("truncate to {}", show(zxid))
                }
                Output::Reload => {
                    let end = Some(self.on_disk);
                    self.done(Input::Reloaded { end });
                    format!("reload {}", show(self.on_disk))
                }
                Output::Restore(_) => {
                    let config = self.copied_config.take().map(Arc::new);
                    self.done(Input::Restored { zxid: self.copied, config });
                    format!("restore {}", show(self.copied))
                }
                Output::Deliver { zxid, .. } => format!("deliver {}", show(zxid)),
                Output::AbsurdEpoch { server, epoch } => {
                    format!("server {} has promised epoch {}, which cannot be", server.0, epoch.0)
                }
                Output::OtherEnsemble { server, theirs } => {
                    format!("server {} belongs to ensemble {:x}", server.0, theirs.0)
                }
                Output::Identity(identity) => format!("remember {}", show_identity(identity)),
                Output::Doubted(since) => format!("serve no client since {}", show(since.zxid)),
                Output::Trusted => "serve clients again".to_owned(),
                Output::Role(role) => {
                    let left = self.peer().left();
                    let why = match role {
                        zebu_zab::Role::Looking => format!(": {left}{}", self.forgetful()),
                        _ => String::new(),
                    };
                    format!("{role:?}{why}")
                }
                Output::Up(Up::FromLearner(link, packet)) => {
                    format!("up from {}: {}", link.0, name(packet.kind))
                }
                Output::Up(Up::FromLeader(packet)) => format!("up: {}", name(packet.kind)),
                Output::Up(Up::Ping(_)) => "up: answer the ping".to_owned(),
                Output::Up(up) => format!("up: {up:?}"),
            };
            writeln!(self.text, "{line}").unwrap();
        }
        while !self.slow
            && let Some(done) = self.disk.pop_front()
        {
            self.step(done);
        }
    }
}

//! Plays the recorded conversations of the original's servers with one server replaced by ours: our
//! server sends the same bytes in the same order.
//!
//! Messages on behalf of clients, and the times of pings, are not decided here and are left out.
//! There is no network: one server takes what the recording says, and its own messages are
//! compared.

#![expect(clippy::disallowed_methods, reason = "a test reads the recordings")]

use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use zebu_jute::Encode as _;
use zebu_proto::quorum::{Activate, EpochAck, LeaderInfo, LearnerInfo, PacketKind, QuorumPacket};
use zebu_proto::{Epoch, Identity, ServerId, Zxid};
use zebu_zab::config::{Membership, Rules};
use zebu_zab::election::{Ballot, State, Vote};
use zebu_zab::history::Txn;
use zebu_zab::mesh::{self, WireId};
use zebu_zab::{Configs, Epochs, Input, LinkId, LogEnd, Options, Output, Peer, Start};

/// The recorded connection.
const LINK: LinkId = LinkId(1);

/// The connection of a follower that is not in the recording.
fn partner_link(partner: ServerId) -> LinkId {
    LinkId(100 + partner.0 as u64)
}

/// The packet types that carry a transaction.
const ORDERS: [PacketKind; 3] =
    [PacketKind::PROPOSAL, PacketKind::INFORM, PacketKind::INFORMANDACTIVATE];

/// A recorded connection between a learner, which dials, and its leader.
struct Conversation {
    /// Whether an observer learns from a follower.
    is_with_master: bool,
    learner: ServerId,
    leader: ServerId,
    /// Whether the learner sends the message, and the message.
    packets: Vec<(bool, QuorumPacket)>,
}

impl Conversation {
    /// Connection number `number` of a recording.
    fn read(file: &str, number: usize) -> Self {
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/fixtures/quorum-captures");
        let text = fs::read_to_string(Path::new(folder).join(file)).unwrap();
        let mut lines = text.lines().skip_while(|line| !line.starts_with(&format!("@ {number} ")));
        let heading: Vec<&str> = lines.next().unwrap().split(' ').collect();
        assert!(["quorum", "obsmaster"].contains(&heading[2]), "{file} {number}");
        let server = |at: usize| ServerId(heading[at].parse().unwrap());
        let mut packets = Vec::new();
        let mut lines = lines.take_while(|line| !line.starts_with('@'));
        while let Some(line) = lines.next() {
            if !line.starts_with(['<', '>']) {
                continue;
            }
            let mut bytes = BytesMut::from(&unhex(lines.next().unwrap())[..]);
            // The driver handles the tree after SNAP.
            if !line.contains(" SNAPSHOT ") {
                let packet = QuorumPacket::decode(&mut bytes, 1 << 20).unwrap().unwrap();
                assert!(bytes.is_empty(), "{line}");
                packets.push((line.starts_with('>'), packet));
            }
        }
        let is_with_master = heading[2] == "obsmaster";
        Self { is_with_master, learner: server(4), leader: server(7), packets }
    }

    /// The messages of one side that are decided here.
    fn said(&self, by_learner: bool) -> Vec<QuorumPacket> {
        let concerns_clients =
            [PacketKind::PING, PacketKind::REQUEST, PacketKind::REVALIDATE, PacketKind::SYNC];
        let said = self.packets.iter().filter(|(forth, _)| *forth == by_learner);
        let said = said.map(|(_, packet)| packet.clone());
        said.filter(|packet| !concerns_clients.contains(&packet.kind)).collect()
    }

    fn first(&self, kind: PacketKind) -> &QuorumPacket {
        &self.packets.iter().find(|(_, packet)| packet.kind == kind).unwrap().1
    }

    fn membership(&self) -> Arc<Membership> {
        let text = self.first(PacketKind::NEWLEADER).body();
        let rules = Rules { multi_address: true, ..Rules::default() };
        Arc::new(Membership::parse(text, rules).unwrap())
    }

    /// The transaction with this zxid, as it was proposed; any transaction if it was not proposed.
    fn txn(&self, zxid: Zxid) -> Txn {
        let is_it = |packet: &QuorumPacket| ORDERS.contains(&packet.kind) && packet.zxid == zxid;
        let found = self.packets.iter().find(|(_, packet)| is_it(packet));
        let record = found.and_then(|(_, packet)| match packet.kind {
            PacketKind::INFORMANDACTIVATE => {
                Some(Activate::decode(packet.data.as_ref().unwrap()).unwrap().txn)
            }
            _ => packet.data.clone(),
        });
        Txn { zxid, record: record.unwrap_or_else(|| Bytes::from_static(b"not recorded")) }
    }
}

fn unhex(text: &str) -> Vec<u8> {
    let digit = |pair: &[u8]| u8::from_str_radix(std::str::from_utf8(pair).unwrap(), 16).unwrap();
    text.as_bytes().chunks(2).map(digit).collect()
}

/// Our server with a fast disk and a reliable network.
struct World {
    me: ServerId,
    peer: Peer,
    now: Duration,
    /// Its messages to the recorded server.
    said: Vec<QuorumPacket>,
    /// The zxid of the tree that it has received.
    copied: Zxid,
    /// The transactions that it has logged.
    logged: Vec<Zxid>,
    /// The connection that it gets when it dials.
    connects: LinkId,
    wires: u64,
    /// It has left the recorded server, and then dials this server; its own id if it leads.
    left_for: Option<ServerId>,
    closed: bool,
}

impl World {
    fn new(me: ServerId, start: Start, reconfig: bool) -> Self {
        let mut options = Options::new(me);
        options.observer.masters = !reconfig;
        options.reconfig = reconfig;
        let peer = Peer::new(options, start);
        let (said, copied, logged) = (Vec::new(), Zxid::ZERO, Vec::new());
        let now = Duration::from_secs(1);
        let (left_for, closed) = (None, false);
        let connects = LINK;
        let mut world =
            Self { me, peer, now, said, copied, logged, connects, wires: 0, left_for, closed };
        world.step(Input::Tick);
        world
    }

    fn step(&mut self, input: Input) {
        let mut outputs = Vec::new();
        self.peer.step(self.now, input, &mut outputs);
        self.carry_out(outputs);
    }

    fn carry_out(&mut self, outputs: Vec<Output>) {
        let mut done = Vec::new();
        for output in outputs {
            match output {
                Output::Committed(_) => {}
                Output::SaveEpoch(kind, epoch) => done.push(Input::EpochSaved(kind, epoch)),
                Output::Append { zxid, .. } => {
                    self.logged.push(zxid);
                    done.push(Input::Flushed(zxid));
                }
                Output::Truncate(zxid) => {
                    done.push(Input::Truncated { end: Some(zxid), config: None });
                }
                Output::Restore(_) => {
                    done.push(Input::Restored { zxid: self.copied, config: None });
                }
                Output::Connect(leader) if self.closed => self.left_for = Some(leader),
                Output::Listen if self.closed => self.left_for = Some(self.me),
                Output::Connect(_) | Output::ConnectToMaster(_) => {
                    done.push(Input::Connected(self.connects));
                }
                Output::Close(LINK) if self.left_for.is_none() => self.closed = true,
                // The log on disk begins too late.
                Output::ReadLog { link, .. } => {
                    let (floor, txns, end) = (None, Vec::new(), LogEnd::Unusable);
                    done.push(Input::LogRead { link, floor, txns, end });
                }
                Output::SendCopy(LINK) => {
                    let zxid = self.peer.history().delivered();
                    self.said.push(QuorumPacket::new(PacketKind::SNAP, zxid));
                    done.push(Input::CopySent(LINK));
                }
                Output::Send(LINK, packet) if packet.kind != PacketKind::PING => {
                    self.said.push(packet);
                }
                Output::Mesh(mesh::Output::Dial(peer)) if peer < self.me => {
                    let wire = self.wire();
                    done.push(Input::Mesh(mesh::Input::Dialled { wire, peer }));
                }
                Output::Close(link) => panic!("{link:?} is closed: {}", self.peer.left()),
                _ => {}
            }
        }
        for input in done {
            self.step(input);
        }
    }

    fn wire(&mut self) -> WireId {
        self.wires += 1;
        WireId(self.wires)
    }

    fn is_observer(&self, membership: &Membership) -> bool {
        membership.is_observer(self.me)
    }

    /// The leader reports that it leads, and is dialled on this connection.
    fn hear_with(&mut self, link: LinkId, leader: ServerId, vote: Vote) {
        self.connects = link;
        self.hear(leader, vote, State::Leading);
    }

    /// `from` reports its state on the election network.
    fn hear(&mut self, from: ServerId, vote: Vote, state: State) {
        if from > self.me {
            let wire = self.wire();
            self.step(Input::Mesh(mesh::Input::Accepted { wire, peer: from }));
        }
        let is_it = |wire: &WireId| self.peer.wire_peer(*wire) == Some(from);
        let wire = (1..=self.wires).map(WireId).find(is_it).expect("a connection");
        let ballot = Ballot { vote, round: 1, state, versioned: true };
        self.step(Input::Heard { wire, ballot, said: Configs::default() });
    }

    fn propose(&mut self, txn: Txn) {
        let mut outputs = Vec::new();
        let zxid = self.peer.propose(self.now, txn.record, &mut outputs);
        assert_eq!(zxid, txn.zxid);
        self.carry_out(outputs);
    }

    fn say(&mut self, partners: &[ServerId], packet: &QuorumPacket) {
        for partner in partners {
            self.step(Input::Packet(partner_link(*partner), packet.clone()));
        }
    }

    fn ack(&mut self, partners: &[ServerId], zxid: Zxid) {
        self.say(partners, &QuorumPacket::new(PacketKind::ACK, zxid));
    }
}

/// The voters other than these two.
fn others(membership: &Membership, conversation: &Conversation) -> Vec<ServerId> {
    let two = [conversation.learner, conversation.leader];
    membership.voters().filter(|voter| !two.contains(voter)).collect()
}

/// If a synchronization was broken off, the original names the epoch of the last leader that it
/// followed, and ours the epoch of its last transaction.
fn name_the_later_epoch(said: &mut QuorumPacket) {
    if said.kind == PacketKind::ACKEPOCH
        && let Some(current) = EpochAck::decode(said.data.as_deref()).unwrap().current_epoch
    {
        let current_epoch = Some(current.max(said.zxid.epoch()));
        said.data = Some(EpochAck { current_epoch }.to_data());
    }
}

/// Our server is the learner of a recorded conversation. Returns the server for which it leaves at
/// the end.
fn learn(file: &str, number: usize) -> Option<ServerId> {
    let conversation = Conversation::read(file, number);
    let world = play_learner(&conversation, &conversation.membership());
    let mut recorded = conversation.said(true);
    recorded.iter_mut().for_each(name_the_later_epoch);
    compare(&world.said, &recorded, &format!("{file} {number}"));
    assert_eq!(world.closed, world.left_for.is_some(), "{file} {number}: {}", world.peer.left());
    world.left_for
}

/// Our server at the end of a recorded conversation in which it is the learner.
fn play_learner(conversation: &Conversation, membership: &Arc<Membership>) -> World {
    let Conversation { learner, leader, .. } = *conversation;
    let accepted = conversation.packets[0].1.epoch();
    let ack = conversation.first(PacketKind::ACKEPOCH);
    // A learner that reports −1 had promised the epoch before, and taken part in it.
    let current = EpochAck::decode(ack.data.as_deref()).unwrap().current_epoch;
    let reconfig = membership.version() > Zxid::ZERO;
    let info = LearnerInfo::decode(conversation.packets[0].1.data.as_deref()).unwrap().unwrap();
    let version = info.config_version.unwrap_or_default();
    let start = Start {
        epochs: Epochs { accepted, current: current.unwrap_or(accepted) },
        committed: Arc::new(Membership::clone(membership).with_version(version)),
        last_seen: None,
        last: ack.zxid,
        recent: Vec::new(),
        certain: Zxid::ZERO,
        assumed_new: false,
        has_database: true,
        identity: Identity::Unknown,
    };
    let mut world = World::new(learner, start, reconfig);
    // One of the two recorded servers may be a follower that serves an observer.
    let others = others(membership, conversation);
    let follows = world.is_observer(membership) && conversation.is_with_master;
    let leader = if follows { others[0] } else { leader };
    let vote = Vote { leader, zxid: Zxid::ZERO, epoch: 1 };
    for follower in membership.voters().filter(|it| ![leader, learner].contains(it)) {
        world.hear(follower, vote, State::Following);
    }
    world.hear(leader, vote, State::Leading);
    for packet in conversation.said(false) {
        let (is_copy, zxid) = (packet.kind == PacketKind::SNAP, packet.zxid);
        world.step(Input::Packet(LINK, packet));
        if is_copy {
            world.copied = zxid;
            world.step(Input::Copied { link: LINK, zxid });
        }
    }
    world
}

/// Our server is the follower that serves the observer of a recorded conversation.
fn serve_observer(file: &str, number: usize, committed: Zxid) {
    let conversation = Conversation::read(file, number);
    let membership = conversation.membership();
    let leader = others(&membership, &conversation)[0];
    let epoch = conversation.first(PacketKind::LEADERINFO).epoch();
    let start = Start {
        epochs: Epochs { accepted: epoch, current: epoch },
        committed: membership.clone(),
        last_seen: None,
        last: committed,
        recent: Vec::new(),
        certain: Zxid::ZERO,
        assumed_new: false,
        has_database: true,
        identity: Identity::Unknown,
    };
    let mut world = World::new(conversation.leader, start, false);
    let vote = Vote { leader, zxid: Zxid::ZERO, epoch: 1 };
    let other = membership.voters().find(|it| ![leader, conversation.leader].contains(it));
    world.hear(other.unwrap(), vote, State::Following);
    world.said.clear();
    world.hear_with(partner_link(leader), leader, vote);
    for (kind, zxid) in [
        (PacketKind::LEADERINFO, Zxid::new(epoch, 0)),
        (PacketKind::DIFF, committed),
        (PacketKind::NEWLEADER, Zxid::new(epoch, 0)),
        (PacketKind::UPTODATE, zebu_proto::quorum::NO_ZXID),
    ] {
        world.say(&[leader], &QuorumPacket::new(kind, zxid));
    }
    world.step(Input::Accepted(LINK));
    for (by_observer, packet) in &conversation.packets {
        if *by_observer {
            world.step(Input::Packet(LINK, packet.clone()));
        } else if packet.kind == PacketKind::INFORM {
            let Txn { zxid, record } = conversation.txn(packet.zxid);
            let proposal = QuorumPacket::with_data(PacketKind::PROPOSAL, zxid, record);
            world.say(&[leader], &proposal);
            world.say(&[leader], &QuorumPacket::new(PacketKind::COMMIT, zxid));
        }
    }
    compare(&world.said, &conversation.said(false), &format!("{file} {number}"));
}

/// The actions of the leader before the recorded conversation.
#[derive(Default)]
struct Past {
    /// The end of the previous epoch.
    end: Zxid,
    /// Committed transactions of its own epoch.
    committed: u32,
    /// Later transactions that were not committed.
    outstanding: u32,
}

/// Our server is the leader of a recorded conversation.
fn lead(file: &str, number: usize, past: &Past) {
    let conversation = Conversation::read(file, number);
    let membership = conversation.membership();
    let partners = others(&membership, &conversation);
    let epoch = conversation.first(PacketKind::LEADERINFO).epoch();
    let before = Epoch(epoch.0 - 1);
    let oldest = past.end.counter().saturating_sub(3).max(1);
    let known =
        (oldest..=past.end.counter()).map(|n| conversation.txn(Zxid::new(past.end.epoch(), n)));
    let reconfig = membership.version() > Zxid::ZERO;
    // The first leader and its first followers agree on a configuration that was in no file.
    let is_first = membership.version() == Zxid::new(epoch, 0) && past.committed == 0;
    let version = if is_first { Zxid::ZERO } else { membership.version() };
    let membership = Arc::new(Membership::clone(&membership).with_version(version));
    let start = Start {
        epochs: Epochs { accepted: before, current: before },
        committed: membership.clone(),
        last_seen: None,
        last: past.end,
        recent: known.collect(),
        certain: Zxid::ZERO,
        assumed_new: false,
        has_database: true,
        identity: Identity::Unknown,
    };
    let mut world = World::new(conversation.leader, start, reconfig);
    let vote = Vote { leader: conversation.leader, zxid: past.end, epoch: before.0.into() };
    for partner in &partners {
        world.hear(*partner, vote, State::Looking);
    }
    while world.peer.state() != State::Leading {
        world.now = world.peer.deadline();
        world.step(Input::Tick);
    }
    let promised = Zxid::new(before, 0);
    for partner in &partners {
        world.step(Input::Accepted(partner_link(*partner)));
        let info = LearnerInfo::new(*partner, membership.version()).to_data();
        let told = QuorumPacket::with_data(PacketKind::FOLLOWERINFO, promised, info);
        world.say(&[*partner], &told);
    }
    let ack = EpochAck { current_epoch: Some(before) }.to_data();
    world.say(&partners, &QuorumPacket::with_data(PacketKind::ACKEPOCH, past.end, ack));
    world.ack(&partners, Zxid::new(epoch, 0));
    assert_eq!(world.peer.leads(), Some(epoch));
    for counter in 1..=past.committed + past.outstanding {
        let zxid = Zxid::new(epoch, counter);
        world.propose(conversation.txn(zxid));
        if counter <= past.committed {
            world.ack(&partners, zxid);
        }
    }

    world.step(Input::Accepted(LINK));
    let wanted = conversation.said(false);
    let mut heard = 0;
    for (by_learner, packet) in &conversation.packets {
        if *by_learner {
            world.step(Input::Packet(LINK, packet.clone()));
        } else if wanted.get(heard) == Some(packet) {
            if world.said.len() == heard && ORDERS.contains(&packet.kind) {
                world.propose(conversation.txn(packet.zxid));
                world.ack(&partners, packet.zxid);
            }
            heard += 1;
        }
    }
    world.said.iter_mut().for_each(announce_nothing);
    compare(&world.said, &wanted, &format!("{file} {number}"));
}

/// Our server announces exact digests, in bytes that the original ignores.
fn announce_nothing(said: &mut QuorumPacket) {
    if said.kind == PacketKind::LEADERINFO {
        assert_eq!(LeaderInfo::decode(said.data.as_deref()), Ok(LeaderInfo::new(true)));
        said.data = Some(LeaderInfo::new(false).to_data());
    }
}

fn compare(ours: &[QuorumPacket], recorded: &[QuorumPacket], what: &str) {
    let bytes = |packet: &QuorumPacket| packet.to_bytes();
    for (at, (ours, recorded)) in ours.iter().zip(recorded).enumerate() {
        assert_eq!(bytes(ours), bytes(recorded), "{what}, packet {at}: {ours:?}, {recorded:?}");
    }
    assert_eq!(ours.len(), recorded.len(), "{what}: {ours:?}");
}

#[test]
fn our_learner_says_what_the_originals_said() {
    for (file, number) in [
        ("01-three-fresh-servers.txt", 6),
        ("01-three-fresh-servers.txt", 7),
        ("02-late-join-diff.txt", 4),
        ("04-late-join-trunc.txt", 2),
        ("05-late-join-snap.txt", 4),
        ("06-observer-join.txt", 3),
        ("07-leader-failover.txt", 5),
        ("07-leader-failover.txt", 6),
        ("07-leader-failover.txt", 7),
        ("07-leader-failover.txt", 10),
        ("01b-three-fresh-servers-3.8.0.txt", 5),
        ("01b-three-fresh-servers-3.8.0.txt", 6),
        ("09-observer-master.txt", 3),
        ("11-multi-address.txt", 2),
        ("11-multi-address.txt", 6),
        ("13-duplicate-zxid-proposal.txt", 0),
        ("13-duplicate-zxid-proposal.txt", 1),
        ("14-trunc-interrupted.txt", 1),
        ("14-trunc-interrupted.txt", 2),
        ("12-zxid-rollover.txt", 0),
        ("12-zxid-rollover.txt", 1),
        ("12-zxid-rollover.txt", 2),
        ("12-zxid-rollover.txt", 3),
    ] {
        assert_eq!(learn(file, number), None);
    }
}

/// Four reconfigurations: an observer is added, gets another client port, gets a vote, and then the
/// leader is removed.
#[test]
fn our_learner_changes_with_the_configuration_as_the_originals_did() {
    for (number, left_for) in [
        // The designated server leads.
        (5, Some(1)),
        (6, Some(1)),
        // First without a vote, then as an observer, then with a vote.
        (13, Some(3)),
        (14, Some(3)),
        (15, Some(1)),
        (16, None),
        (17, None),
        (18, None),
    ] {
        let left = learn("08-reconfig.txt", number);
        assert_eq!(left.map(|server| server.0), left_for, "connection {number}");
    }
}

#[test]
fn our_leader_says_what_the_originals_said() {
    let fresh = Past::default;
    let committed = |committed| Past { committed, ..Past::default() };
    let elected_with = |counter| Past { end: Zxid::new(Epoch(1), counter), ..Past::default() };
    for (file, number, past) in [
        ("01-three-fresh-servers.txt", 6, fresh()),
        ("01-three-fresh-servers.txt", 7, fresh()),
        ("02-late-join-diff.txt", 4, committed(5)),
        ("03-late-join-diff-outstanding.txt", 0, Past { outstanding: 1, ..committed(4) }),
        ("04-late-join-trunc.txt", 2, elected_with(3)),
        ("05-late-join-snap.txt", 4, committed(4)),
        ("06-observer-join.txt", 3, committed(2)),
        ("07-leader-failover.txt", 5, fresh()),
        ("07-leader-failover.txt", 6, fresh()),
        ("07-leader-failover.txt", 7, elected_with(2)),
        ("07-leader-failover.txt", 10, Past { committed: 3, ..elected_with(2) }),
        ("01b-three-fresh-servers-3.8.0.txt", 5, fresh()),
        ("01b-three-fresh-servers-3.8.0.txt", 6, fresh()),
        ("02b-late-join-diff-3.8.0.txt", 4, committed(5)),
        ("11-multi-address.txt", 2, fresh()),
        ("12-zxid-rollover.txt", 2, elected_with(u32::MAX - 1)),
        ("12-zxid-rollover.txt", 3, elected_with(u32::MAX - 1)),
    ] {
        lead(file, number, &past);
    }
}

#[test]
fn our_follower_says_to_an_observer_what_the_originals_said() {
    serve_observer("09-observer-master.txt", 3, Zxid::new(Epoch(1), 2));
}

/// In this case the original lost a committed transaction: the transaction was in memory only, the
/// server reported it, and did not have it after a restart.
#[test]
fn what_a_leader_sent_that_breaks_off_after_a_truncation_is_in_the_log() {
    let file = "14-trunc-interrupted.txt";
    let conversation = Conversation::read(file, 0);
    let world = play_learner(&conversation, &Conversation::read(file, 1).membership());
    compare(&world.said, &conversation.said(true), file);
    assert_eq!(world.logged, [Zxid::new(Epoch(2), 1)]);
}

#[test]
fn our_leader_changes_the_configuration_as_the_originals_did() {
    let committed = |committed| Past { committed, ..Past::default() };
    let elected_with = |counter| Past { end: Zxid::new(Epoch(1), counter), ..Past::default() };
    for (number, past) in [
        (5, committed(0)),
        (6, committed(0)),
        (14, committed(2)),
        (15, committed(5)),
        (16, elected_with(6)),
        (17, elected_with(6)),
        (18, elected_with(6)),
    ] {
        lead("08-reconfig.txt", number, &past);
    }
}

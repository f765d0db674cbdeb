//! Links between servers: which servers reach each other, and their messages, typed or, in some
//! runs, through the codec.

use std::sync::Arc;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use zebu_jute::Encode as _;
use zebu_proto::ServerId;
use zebu_proto::quorum::{
    NOTIFICATION_VERSION, Notification, PacketKind, QuorumPacket, ServerState,
};
use zebu_replica::Input;
use zebu_zab::config::Membership;
use zebu_zab::election::{Ballot, State, Vote};
use zebu_zab::mesh::WireId;
use zebu_zab::{Configs, LinkId};

use crate::members::{self, machine};
use crate::net::{Kind, Message};
use crate::server::Process;
use crate::world::{Happening, World};

pub(crate) const FIELD_BYTES_MAX: usize = 1 << 20;

fn notification(ballot: &Ballot, said: &Configs) -> Notification {
    let text = |config: &Option<Arc<Membership>>| {
        config.as_ref().map(|config| Bytes::from(config.to_string()))
    };
    let state = match ballot.state {
        State::Looking => ServerState::LOOKING,
        State::Following => ServerState::FOLLOWING,
        State::Leading => ServerState::LEADING,
        State::Observing => ServerState::OBSERVING,
    };
    Notification {
        state,
        leader: ballot.vote.leader,
        zxid: ballot.vote.zxid,
        round: ballot.round,
        peer_epoch: ballot.vote.epoch,
        version: NOTIFICATION_VERSION,
        config: text(&said.committed),
        proposed: text(&said.proposed),
        ensemble: said.ensemble,
    }
}

fn ballot(notification: &Notification) -> Ballot {
    let state = match notification.state {
        ServerState::LOOKING => State::Looking,
        ServerState::FOLLOWING => State::Following,
        ServerState::LEADING => State::Leading,
        _ => State::Observing,
    };
    let vote = Vote {
        leader: notification.leader,
        zxid: notification.zxid,
        epoch: notification.peer_epoch,
    };
    let versioned = notification.version > 0;
    Ballot { vote, round: notification.round, state, versioned }
}

fn configs(notification: &Notification) -> Configs {
    let read = |text: &Option<Bytes>| {
        text.as_ref().and_then(|text| Membership::agreed(text)).map(Arc::new)
    };
    Configs {
        committed: read(&notification.config),
        proposed: read(&notification.proposed),
        ensemble: notification.ensemble,
    }
}

/// The port that a server dials.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Port {
    /// The quorum port of a leader.
    Quorum,
    /// The port of a follower for observers.
    Observers,
}

/// An attempt to connect to a leader, or to a follower instead.
pub(crate) struct Dial {
    pub(crate) attempt: u64,
    pub(crate) to: usize,
    pub(crate) port: Port,
    pub(crate) given_up: bool,
}

impl World {
    pub(crate) fn send_ballot(&mut self, server: usize, wire: WireId, ballot: Ballot) {
        let Some(process) = &self.servers[server].process else { return };
        let said = process.said.configs();
        let message = if self.plan.codec {
            Message::Raw(self.flip(notification(&ballot, &said).to_bytes()).into())
        } else {
            Message::Ballot(ballot, said)
        };
        self.send(wire.0, server, message);
    }

    /// Sends a packet without changes.
    pub(crate) fn send_one(&mut self, server: usize, link: LinkId, packet: QuorumPacket) {
        self.trace(server as u64 ^ 4 << 40, packet.zxid.0 as u64 ^ (packet.kind.0 as u64) << 48);
        self.checks.send(server, &self.servers[server], &packet);
        if let Some(connection) = self.net.connections.get(&link.0) {
            let other = connection.line.other(server);
            self.checks.tells_server(link.0, server, other, &packet);
        }
        self.tell_packet(server, link, &packet);
        self.watch(server, link.0, &packet);
        if self.is_master_on(server, link) {
            self.checks.tells(link.0, &packet);
        }
        let message = if self.plan.codec {
            Message::Raw(self.flip(packet.to_bytes()).into())
        } else {
            Message::Packet(packet)
        };
        self.send(link.0, server, message);
    }

    /// Prints a packet, except pings.
    fn tell_packet(&self, server: usize, link: LinkId, packet: &QuorumPacket) {
        if !self.say || packet.kind == PacketKind::PING {
            return;
        }
        let Some(connection) = self.net.connections.get(&link.0) else { return };
        let to = connection.line.other(server);
        self.tell(|| format!("server {server} to {to}: {:?} {}", packet.kind, packet.zxid));
    }

    pub(crate) fn server_receives(&mut self, server: usize, id: u64, kind: Kind, message: Message) {
        let number = self.servers[server].number;
        match (kind, message) {
            (Kind::Client, Message::Frames(frames)) => self.frames(server, id, frames),
            (Kind::Election, Message::Ballot(ballot, said)) => {
                self.heard(server, number, id, ballot, said);
            }
            (Kind::Election, Message::Raw(bytes)) => {
                let Ok(notification) = Notification::decode(&bytes) else {
                    assert!(self.flips.is_some(), "it was just encoded");
                    self.close(id, server);
                    return self.server_loses(server, id, kind);
                };
                self.heard(server, number, id, ballot(&notification), configs(&notification));
            }
            (Kind::Quorum, Message::Packet(packet)) => self.packet(server, number, id, packet),
            (Kind::Quorum, Message::Raw(bytes)) if self.flips.is_some() => {
                self.hear_bytes(server, number, id, &bytes);
            }
            (Kind::Quorum, Message::Raw(bytes)) => {
                let mut bytes = BytesMut::from(bytes);
                let packet = QuorumPacket::decode(&mut bytes, FIELD_BYTES_MAX)
                    .expect("it was just encoded")
                    .expect("it is whole");
                self.packet(server, number, id, packet);
            }
            (Kind::Quorum, Message::Piece(piece)) => {
                self.take_piece(server, LinkId(id), &piece);
            }
            (kind, message) => unreachable!("{message:?} over a connection for {kind:?}"),
        }
    }

    fn heard(&mut self, server: usize, number: u64, id: u64, ballot: Ballot, said: Configs) {
        self.tell(|| {
            let from = self.net.connections.get(&id).map(|it| it.line.other(server));
            let Ballot { vote, round, state, .. } = ballot;
            let Vote { leader, zxid, .. } = vote;
            format!("server {server} hears {from:?}: {state:?} {leader:?} {zxid} round {round}")
        });
        let input = zebu_zab::Input::Heard { wire: WireId(id), ballot, said };
        self.input(server, number, Input::Zab(input));
    }

    pub(crate) fn packet(&mut self, server: usize, number: u64, id: u64, packet: QuorumPacket) {
        let link = LinkId(id);
        let useless = packet.txn().is_err();
        if useless || packet.kind == PacketKind::SNAP && !self.begin_copy(server, link, packet.zxid)
        {
            return self.break_link(server, number, link);
        }
        self.checks.receive(server, &packet);
        if let Some(connection) = self.net.connections.get(&id) {
            let from = connection.line.other(server);
            let passes = self.checks.ensembles.passes(id, from, server, packet.kind);
            passes.into_iter().for_each(|what| self.checks.insist(what));
        }
        if self.is_master_on(server, link) {
            self.checks.asks(id, &packet);
            if self.is_lost(server, id, &packet) {
                return;
            }
        }
        self.input(server, number, Input::Zab(zebu_zab::Input::Packet(link, packet)));
    }

    /// The server closes a connection that is of no further use.
    pub(crate) fn break_link(&mut self, server: usize, number: u64, link: LinkId) {
        self.close(link.0, server);
        self.input(server, number, Input::Zab(zebu_zab::Input::LinkDown(link)));
    }

    /// Whether the other end of this connection learns from this server.
    fn is_master_on(&self, server: usize, link: LinkId) -> bool {
        self.net.connections.get(&link.0).is_some_and(|it| it.line.ends()[1] == server)
    }

    // ---- who reaches whom

    /// Opens a port, or closes the open one.
    pub(crate) fn listen(&mut self, server: usize, port: Option<Port>) {
        if let Some(process) = &mut self.servers[server].process {
            process.takes_observers = port == Some(Port::Observers);
            process.listening = match port {
                Some(Port::Quorum) => process.said.quorum_addresses(),
                _ => Vec::new(),
            };
        }
    }

    /// The time until an attempt to connect fails without an answer.
    fn connect_timeout(&self) -> Duration {
        (self.plan.tick * 5).min(Duration::from_secs(5))
    }

    pub(crate) fn mesh(&mut self, server: usize, number: u64, output: zebu_zab::mesh::Output) {
        use zebu_zab::mesh::Output as Mesh;
        match output {
            Mesh::Dial(to) => {
                let to = machine(to);
                let after = self.delay_between(server, to);
                self.after(
                    after,
                    Happening::Dialled { server, process: number, to, given_up: false },
                );
            }
            Mesh::Send(wire, ballot) => self.send_ballot(server, wire, ballot),
            Mesh::Close(wire) => self.close(wire.0, server),
        }
    }

    /// Whether an attempt to connect gets any answer.
    fn answers(&self, from: usize, to: usize) -> bool {
        self.net.ways.reaches(from, to) && !self.net.dark.contains(&to)
    }

    pub(crate) fn dialled(&mut self, server: usize, number: u64, to: usize, given_up: bool) {
        use zebu_zab::mesh::{Input as Mesh, WireId};
        if self.process(server, number).is_none() {
            return;
        }
        let peer = ServerId(to as i64 + 1);
        if !given_up && !self.answers(server, to) {
            let after = self.connect_timeout();
            self.after(after, Happening::Dialled { server, process: number, to, given_up: true });
            return;
        }
        let there = self.servers[to].number;
        let Some(process) = &self.servers[server].process else { return };
        let (known, own) = (process.said.electors(peer), process.said.election_addresses());
        let is_there = self.servers[to].process.as_mut().is_some_and(|process| {
            let listens = process.said.election_addresses();
            let reached = !given_up
                && !process.retired
                && listens.iter().any(|address| known.contains(address));
            if reached {
                process.said.meet(members::id(server), own);
            }
            reached
        });
        if !is_there {
            let refused = zebu_zab::Input::Mesh(Mesh::Refused(peer));
            return self.input(server, number, Input::Zab(refused));
        }
        let wire = WireId(self.open(Kind::Election, server, to));
        let accepted = Mesh::Accepted { wire, peer: ServerId(server as i64 + 1) };
        let accepted = zebu_zab::Input::Mesh(accepted);
        self.after(Duration::ZERO, Happening::Tell { server: to, process: there, input: accepted });
        let dialled = zebu_zab::Input::Mesh(Mesh::Dialled { wire, peer });
        self.input(server, number, Input::Zab(dialled));
    }

    pub(crate) fn linked(&mut self, server: usize, number: u64, dial: Dial) {
        let Dial { attempt, to, port, given_up } = dial;
        if self.process(server, number).is_none_or(|process| process.attempt != attempt) {
            return;
        }
        if !given_up && !self.answers(server, to) {
            let after = self.connect_timeout();
            let given_up = true;
            let linked = Happening::Linked { server, process: number, attempt, to, port, given_up };
            self.after(after, linked);
            return;
        }
        let known =
            self.process(server, number).map(|process| process.said.addresses(members::id(to)));
        let known = known.unwrap_or_default();
        let listens = |process: &Process| match port {
            Port::Quorum => process.listening.iter().any(|address| known.contains(address)),
            Port::Observers => process.takes_observers,
        };
        let listening = self.servers[to].process.as_deref().is_some_and(listens);
        if given_up || !listening {
            let failed = zebu_zab::Input::ConnectFailed;
            return self.input(server, number, Input::Zab(failed));
        }
        let link = LinkId(self.open(Kind::Quorum, server, to));
        let there = self.servers[to].number;
        let accepted = zebu_zab::Input::Accepted(link);
        self.after(Duration::ZERO, Happening::Tell { server: to, process: there, input: accepted });
        self.input(server, number, Input::Zab(zebu_zab::Input::Connected(link)));
    }

    /// The other end of a connection has closed it.
    pub(crate) fn server_loses(&mut self, server: usize, id: u64, kind: Kind) {
        let number = self.servers[server].number;
        match kind {
            Kind::Client => self.end_conn(server, id),
            Kind::Election => {
                let wire = zebu_zab::mesh::WireId(id);
                let closed = zebu_zab::mesh::Input::Closed(wire);
                self.input(server, number, Input::Zab(zebu_zab::Input::Mesh(closed)));
            }
            Kind::Quorum => {
                // A complete snapshot stays until the replica has handled the end of the link and
                // closes it.
                if let Some(process) = &mut self.servers[server].process {
                    process.arriving.retain(|link, arriving| link.0 != id || arriving.is_whole());
                    process.leaving.remove(&LinkId(id));
                }
                let down = zebu_zab::Input::LinkDown(LinkId(id));
                self.input(server, number, Input::Zab(down));
            }
        }
    }

    pub(crate) fn forget_link(&mut self, server: usize, link: LinkId) {
        if let Some(process) = &mut self.servers[server].process {
            process.arriving.remove(&link);
            process.leaving.remove(&link);
        }
    }
}

//! Messages between servers: typed, or through the codec in a part of the runs.

use std::sync::Arc;

use bytes::{Bytes, BytesMut};
use zebu_jute::Encode as _;
use zebu_proto::quorum::{
    NOTIFICATION_VERSION, Notification, PacketKind, QuorumPacket, ServerState,
};
use zebu_replica::Input;
use zebu_zab::config::Membership;
use zebu_zab::election::{Ballot, State, Vote};
use zebu_zab::mesh::WireId;
use zebu_zab::{Configs, LinkId};

use crate::net::{Kind, Message};
use crate::world::World;

const FIELD_BYTES_MAX: usize = 1 << 20;

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
    Configs { committed: read(&notification.config), proposed: read(&notification.proposed) }
}

impl World {
    pub(crate) fn send_ballot(&mut self, server: usize, wire: WireId, ballot: Ballot) {
        let Some(process) = &self.servers[server].process else { return };
        let said = process.said.configs();
        let message = if self.plan.codec {
            Message::Raw(notification(&ballot, &said).to_bytes().into())
        } else {
            Message::Ballot(ballot, said)
        };
        self.send(wire.0, server, message);
    }

    pub(crate) fn send_packet(&mut self, server: usize, link: LinkId, packet: QuorumPacket) {
        self.trace(server as u64 ^ 4 << 40, packet.zxid.0 as u64 ^ (packet.kind.0 as u64) << 48);
        self.checks.send(server, &self.servers[server], &packet);
        self.tell_packet(server, link, &packet);
        self.watch(server, link.0, &packet);
        let message = if self.plan.codec {
            Message::Raw(packet.to_bytes().into())
        } else {
            Message::Packet(packet)
        };
        self.send(link.0, server, message);
    }

    /// Says what begins, goes through, or ends a synchronization.
    fn tell_packet(&self, server: usize, link: LinkId, packet: &QuorumPacket) {
        if !self.say || packet.kind == PacketKind::PING {
            return;
        }
        let Some(connection) = self.net.connections.get(&link.0) else { return };
        let to = connection.ends[1 - connection.side(server)];
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
                let notification = Notification::decode(&bytes).expect("it was just encoded");
                self.heard(server, number, id, ballot(&notification), configs(&notification));
            }
            (Kind::Quorum, Message::Packet(packet)) => self.packet(server, number, id, packet),
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
        let input = zebu_zab::Input::Heard { wire: WireId(id), ballot, said };
        self.input(server, number, Input::Zab(input));
    }

    fn packet(&mut self, server: usize, number: u64, id: u64, packet: QuorumPacket) {
        let link = LinkId(id);
        if packet.kind == PacketKind::SNAP && !self.begin_copy(server, link, packet.zxid) {
            self.close(id, server);
            let down = zebu_zab::Input::LinkDown(link);
            return self.input(server, number, Input::Zab(down));
        }
        self.checks.receive(server, &packet);
        self.input(server, number, Input::Zab(zebu_zab::Input::Packet(link, packet)));
    }
}

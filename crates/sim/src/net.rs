//! Connections with delays: each delivers in order or breaks. Data in flight on a blocked way
//! arrive when the way is free again, unless an end has disconnected by then.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use bytes::Bytes;
use zebu_proto::quorum::QuorumPacket;
use zebu_testkit::lines::{Line, Ways};
use zebu_zab::Configs;
use zebu_zab::election::Ballot;

use crate::world::{Happening, World};

/// The purpose of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Election,
    Quorum,
    Client,
}

/// A message on a connection.
#[derive(Clone, Debug)]
pub(crate) enum Message {
    Ballot(Ballot, Configs),
    Packet(QuorumPacket),
    /// The bytes of a packet or a notification.
    Raw(Bytes),
    /// A part of a snapshot.
    Piece(Bytes),
    /// Whole frames from or to a client.
    Frames(Bytes),
    Close,
}

/// A connection between two places. Servers have the first numbers, then clients.
#[derive(Debug)]
pub(crate) struct Connection {
    pub(crate) kind: Kind,
    /// The two places, and the messages that arrived while the way was blocked.
    pub(crate) line: Line<Message>,
    pub(crate) open: [bool; 2],
    /// Whether a closed end stays unnoticed, because its machine is gone.
    pub(crate) mute: bool,
    /// The arrival time of the last message to each end.
    clock: [Duration; 2],
}

/// The network.
#[derive(Debug, Default)]
pub(crate) struct Net {
    pub(crate) connections: BTreeMap<u64, Connection>,
    pub(crate) ways: Ways,
    /// Machines without power.
    pub(crate) dark: BTreeSet<usize>,
    pub(crate) slow: u32,
    /// The arrival time of the last message that was sent while the network was slow.
    pub(crate) slow_until: Option<Duration>,
    /// The number of messages between servers.
    pub(crate) sent: u64,
    /// The number of election messages since the last check.
    pub(crate) ballots: u64,
}

impl World {
    pub(crate) fn delay(&mut self) -> Duration {
        let slow = self.random.one_in(30) && !self.plan.hands_over;
        let micros = self.random.between(100, if slow { 200_000 } else { 2_000 });
        let delay = Duration::from_micros(micros) * self.net.slow.max(1);
        if self.net.slow > 1 {
            self.net.slow_until = self.net.slow_until.max(Some(self.now + delay));
        }
        delay
    }

    /// The delay from one place to another. Clients are close to every server.
    pub(crate) fn delay_between(&mut self, from: usize, to: usize) -> Duration {
        let delay = self.delay();
        let machines = self.plan.servers();
        if self.plan.regions <= 1 || from >= machines || to >= machines {
            return delay;
        }
        let region = |machine: usize| machine % self.plan.regions;
        delay + self.plan.distance * region(from).abs_diff(region(to)) as u32
    }

    pub(crate) fn open(&mut self, kind: Kind, from: usize, to: usize) -> u64 {
        let id = self.next_id;
        self.next_id += 1;
        let connection = Connection {
            kind,
            line: Line::new(from, to),
            open: [true; 2],
            mute: false,
            clock: [self.now; 2],
        };
        self.net.connections.insert(id, connection);
        id
    }

    pub(crate) fn send(&mut self, id: u64, from: usize, message: Message) {
        let there = self.net.connections.get(&id).map(|it| it.line.other(from));
        let delay = self.delay_between(from, there.unwrap_or(from));
        let now = self.now;
        let Some(connection) = self.net.connections.get_mut(&id) else { return };
        let side = connection.line.side(from);
        if !connection.open[side] {
            return;
        }
        self.net.sent += u64::from(connection.kind != Kind::Client);
        self.net.ballots += u64::from(connection.kind == Kind::Election);
        let to = 1 - side;
        let at = (now + delay).max(connection.clock[to]);
        connection.clock[to] = at;
        self.at(at, Happening::Arrive { connection: id, side: to, message });
    }

    /// Closes one end. The other end is notified if it is reachable.
    pub(crate) fn close(&mut self, id: u64, from: usize) {
        self.send(id, from, Message::Close);
        if let Some(connection) = self.net.connections.get_mut(&id) {
            let side = connection.line.side(from);
            connection.open[side] = false;
            if connection.open == [false; 2] {
                self.net.connections.remove(&id);
            }
        }
    }

    /// Ends every connection of a place. `say`: whether the other ends are notified.
    pub(crate) fn drop_all(&mut self, place: usize, say: bool) {
        let of = |connection: &Connection| connection.line.ends().contains(&place);
        let ids: Vec<u64> =
            self.net.connections.iter().filter(|(_, c)| of(c)).map(|(id, _)| *id).collect();
        for id in ids {
            if say {
                self.close(id, place);
            } else if let Some(connection) = self.net.connections.get_mut(&id) {
                let side = connection.line.side(place);
                connection.open[side] = false;
            }
        }
    }

    /// Breaks all connections between two places, at both ends.
    pub(crate) fn break_between(&mut self, a: usize, b: usize) {
        let ids: Vec<u64> = self
            .net
            .connections
            .iter()
            .filter(|(_, c)| [[a, b], [b, a]].contains(&c.line.ends()))
            .map(|(id, _)| *id)
            .collect();
        for id in ids {
            for side in 0..2 {
                let after = self.random.ms(0, 20);
                self.at(self.now + after, Happening::Reset { connection: id, side });
            }
        }
    }

    pub(crate) fn arrive(&mut self, id: u64, side: usize, message: Message) {
        let Some(connection) = self.net.connections.get_mut(&id) else { return };
        connection.line.arrive(side, message);
        self.release(id, side);
    }

    /// Delivers the messages that have arrived, unless the way is blocked.
    pub(crate) fn release(&mut self, id: u64, side: usize) {
        while let Some(connection) = self.net.connections.get_mut(&id)
            && let Some(message) = connection.line.take(side, &self.net.ways)
        {
            self.reach(id, side, message);
        }
    }

    /// Delivers held messages on ways that are free again: some only after a delay, as
    /// retransmissions arrive. Some connections end instead.
    pub(crate) fn release_all(&mut self) {
        let waiting: Vec<(u64, usize)> = self
            .net
            .connections
            .iter()
            .flat_map(|(id, c)| (0..2).map(move |side| (*id, side, c.line.is_waiting(side))))
            .filter(|(.., waits)| *waits)
            .map(|(id, side, _)| (id, side))
            .collect();
        for (id, side) in waiting {
            if self.random.one_in(4) {
                for side in 0..2 {
                    self.at(self.now, Happening::Reset { connection: id, side });
                }
            } else {
                let after = self.random.ms(0, 1000);
                self.at(self.now + after, Happening::Release { connection: id, side });
            }
        }
    }

    fn reach(&mut self, id: u64, side: usize, message: Message) {
        let Some(connection) = self.net.connections.get_mut(&id) else { return };
        let (to, kind) = (connection.line.ends()[side], connection.kind);
        if !connection.open[side] {
            // The end is closed. The sender gets a reset, unless the whole machine is gone.
            let is_heard = !connection.mute && !self.net.dark.contains(&to);
            if connection.open[1 - side] && is_heard {
                let after = self.delay();
                self.at(self.now + after, Happening::Reset { connection: id, side: 1 - side });
            }
            return;
        }
        if matches!(message, Message::Close) {
            return self.reset(id, side);
        }
        if to < self.plan.servers() {
            self.server_receives(to, id, kind, message);
        } else {
            let party = to - self.plan.servers();
            if let Some(guest) = self.guest_of(party) {
                return self.guest_receives(guest, id, message);
            }
            match party.checked_sub(self.clients.len()) {
                None => self.client_receives(party, id, message),
                Some(app) => self.app_receives(app, id, message),
            }
        }
    }

    /// One end notices that the connection is gone.
    pub(crate) fn reset(&mut self, id: u64, side: usize) {
        let Some(connection) = self.net.connections.get_mut(&id) else { return };
        if !std::mem::replace(&mut connection.open[side], false) {
            return;
        }
        let (place, kind) = (connection.line.ends()[side], connection.kind);
        if connection.open == [false; 2] {
            self.net.connections.remove(&id);
        }
        if place < self.plan.servers() {
            self.server_loses(place, id, kind);
        } else {
            let party = place - self.plan.servers();
            if let Some(guest) = self.guest_of(party) {
                return self.guest_loses(guest, id);
            }
            match party.checked_sub(self.clients.len()) {
                None => self.client_loses(party, id),
                Some(app) => self.app_loses(app, id),
            }
        }
    }
}

//! Guests: external programs that reach the ensemble over the simulator's network.
//!
//! A guest has its own code and its own clock. Its runner opens connections here, moves bytes, and
//! lets the simulation run for a while. Faults affect guests as they affect clients.

use std::collections::VecDeque;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use bytes::Bytes;
use zebu_proto::{Owner, SessionId, Version, Zxid};

use crate::net::Message;
use crate::world::{Happening, Outcome, World};

/// An event for a guest.
#[derive(Clone, Debug)]
pub enum Arrival {
    /// The attempt to connect has succeeded.
    Connected {
        /// The guest's number of the attempt.
        attempt: u64,
        /// The world's number of the connection.
        connection: u64,
    },
    /// The connection was refused.
    Refused {
        /// The guest's number of the attempt.
        attempt: u64,
    },
    /// Bytes from a server.
    Bytes(u64, Bytes),
    /// The connection has ended.
    Closed(u64),
}

/// The world's state for a guest.
#[derive(Debug, Default)]
pub(crate) struct Guest {
    pub(crate) is_silent: bool,
    connections: Vec<u64>,
    arrivals: VecDeque<Arrival>,
}

/// The address of a server.
pub fn address(server: usize) -> SocketAddr {
    ([127, 0, 0, server as u8 + 1], 2181).into()
}

/// The server with this address, even if the world has fewer servers.
pub(crate) fn server_at(address: SocketAddr) -> Option<usize> {
    let IpAddr::V4(ip) = address.ip() else { return None };
    usize::from(ip.octets()[3]).checked_sub(1)
}

impl Guest {
    pub(crate) fn connection(&self) -> Option<u64> {
        self.connections.last().copied()
    }
}

impl World {
    /// The number of a guest among the parties.
    pub(crate) fn guest_of(&self, party: usize) -> Option<usize> {
        party.checked_sub(self.clients.len() + self.apps.len())
    }

    fn guest_place(&self, guest: usize) -> usize {
        self.plan.servers() + self.clients.len() + self.apps.len() + guest
    }

    /// The time.
    pub fn now(&self) -> Duration {
        self.now
    }

    /// Runs the world until `until`. Returns false if a property is violated; then [`World::end`]
    /// says which.
    pub fn pass(&mut self, until: Duration) -> bool {
        self.run_until(until);
        self.checks.broken.is_empty()
    }

    /// Ends all faults.
    pub fn get_well(&mut self) {
        self.heal();
        self.checks.calm_since = Some(self.now);
    }

    /// Whether a guest is paused.
    pub fn is_silent(&self, guest: usize) -> bool {
        self.guests[guest].is_silent
    }

    /// The events for a guest since the last call.
    pub fn arrivals(&mut self, guest: usize) -> Vec<Arrival> {
        self.guests[guest].arrivals.drain(..).collect()
    }

    /// Connects a guest to a server.
    pub fn dial_from(&mut self, guest: usize, attempt: u64, server: SocketAddr) {
        let after = self.delay();
        match server_at(server) {
            Some(to) if to < self.plan.servers() => {
                self.after(after, Happening::GuestDialled { guest, attempt, to });
            }
            _ => self.guests[guest].arrivals.push_back(Arrival::Refused { attempt }),
        }
    }

    pub(crate) fn guest_dialled(&mut self, guest: usize, attempt: u64, to: usize) {
        let place = self.guest_place(guest);
        if !self.net.ways.reaches(place, to) || self.net.dark.contains(&to) {
            // There is no answer, so the guest's attempt times out.
            return;
        }
        let arrival = if self.servers[to].process.is_none() || self.servers[to].paused.is_some() {
            Arrival::Refused { attempt }
        } else {
            let connection = self.accept(to, place);
            self.guests[guest].connections.push(connection);
            Arrival::Connected { attempt, connection }
        };
        self.guests[guest].arrivals.push_back(arrival);
    }

    /// A guest sends whole frames.
    pub fn send_from(&mut self, guest: usize, connection: u64, bytes: Bytes) {
        self.trace(guest as u64 ^ 3 << 40, bytes.len() as u64);
        let place = self.guest_place(guest);
        self.send(connection, place, Message::Frames(bytes));
    }

    /// A guest ends a connection.
    pub fn close_from(&mut self, guest: usize, connection: u64) {
        let connections = &mut self.guests[guest].connections;
        connections.retain(|other| *other != connection);
        let place = self.guest_place(guest);
        self.close(connection, place);
    }

    pub(crate) fn guest_receives(&mut self, guest: usize, id: u64, message: Message) {
        if let Message::Frames(bytes) = message {
            self.guests[guest].arrivals.push_back(Arrival::Bytes(id, bytes));
        }
    }

    pub(crate) fn guest_loses(&mut self, guest: usize, id: u64) {
        let it = &mut self.guests[guest];
        it.connections.retain(|other| *other != id);
        it.arrivals.push_back(Arrival::Closed(id));
    }

    /// Adds something that a guest has done to the digest of the run.
    pub fn note(&mut self, what: u64) {
        self.trace(4 << 40, what);
    }

    /// Prints what a guest does, if the world prints its events.
    pub fn say(&self, what: impl FnOnce() -> String) {
        self.tell(what);
    }

    /// The znode of this path in the tree of the committed transactions: the transaction that
    /// created it, and its data.
    pub fn znode(&self, path: &str) -> Option<(Zxid, Vec<u8>)> {
        let node = self.checks.reference.tree().node(path)?;
        Some((node.stat().czxid, node.data().unwrap_or_default().to_vec()))
    }

    /// The version of a znode's data in the tree of the committed transactions.
    pub fn version(&self, path: &str) -> Option<Version> {
        Some(Version(self.checks.reference.tree().node(path)?.stat().version))
    }

    /// The session that owns an ephemeral znode in the tree of the committed transactions.
    pub fn owner(&self, path: &str) -> Option<SessionId> {
        match self.checks.reference.tree().node(path)?.owner() {
            Owner::Session(session) => Some(session),
            _ => None,
        }
    }

    /// The sorted names of a znode's children in the tree of the committed transactions.
    pub fn children(&self, path: &str) -> Vec<String> {
        let mut names: Vec<String> = (self.checks.reference.tree().node(path))
            .map(|node| node.children().map(|name| name.to_string()).collect())
            .unwrap_or_default();
        names.sort_unstable();
        names
    }

    /// Ends the run, and returns its result.
    pub fn end(mut self) -> Outcome {
        self.outcome.broken = std::mem::take(&mut self.checks.broken);
        self.outcome.simulated = self.now;
        self.outcome.committed = self.checks.order.committed() as u64;
        self.outcome.leaders = self.checks.leaders.count() as u64;
        self.outcome
    }
}

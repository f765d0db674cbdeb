//! The election network: one connection for each pair of servers, opened by the server with the
//! higher id.
//!
//! Decides which server connects, which connection is kept and what is sent again. The driver opens
//! sockets and exchanges the initial messages. Only the newest message to each peer matters: it
//! replaces an unsent one, and is repeated on a new connection, since it may have been lost with
//! the old one. Source: `quorum-election.md` part I, `QuorumCnxManager`.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use zebu_proto::ServerId;

use crate::election::Ballot;

/// How often to reconnect to unreachable servers while there is no leader. Votes are repeated at
/// growing intervals of up to a minute, too rarely to trigger reconnects. A new connection carries
/// the newest vote.
pub(crate) const REDIAL_AFTER: Duration = Duration::from_secs(5);

/// Identifies a connection of the election network. Never reused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct WireId(pub u64);

/// Events of the election network.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Input {
    /// A server has connected and introduced itself.
    Accepted {
        /// The connection.
        wire: WireId,
        /// The server id that it gives.
        peer: ServerId,
    },
    /// This server has connected and sent the initial message.
    Dialled {
        /// The connection.
        wire: WireId,
        /// The other server.
        peer: ServerId,
    },
    /// This server could not connect.
    Refused(ServerId),
    /// A connection was closed by either side.
    Closed(WireId),
}

/// Effects on the election network.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Output {
    /// Connect to a server, at the address that it announced itself, otherwise at the configured
    /// one.
    Dial(ServerId),
    /// Send a notification.
    Send(WireId, Ballot),
    /// Close a connection.
    Close(WireId),
}

#[derive(Debug, Default)]
struct Line {
    wire: Option<WireId>,
    dialling: bool,
    /// The unsent ballot.
    next: Option<Ballot>,
    last: Option<Ballot>,
}

/// The connections of one server's election network.
///
/// Invariant: `wires` has exactly the connections of `lines`.
#[derive(Debug)]
pub struct Mesh {
    me: ServerId,
    lines: BTreeMap<ServerId, Line>,
    wires: BTreeMap<WireId, ServerId>,
    absent: BTreeSet<ServerId>,
    redial_at: Duration,
}

impl Mesh {
    /// No connections.
    pub fn new(me: ServerId) -> Self {
        let (lines, wires, absent) = Default::default();
        Self { me, lines, wires, absent, redial_at: Duration::ZERO }
    }

    /// The servers that were unreachable at the last attempt, or whose connection has broken since.
    pub fn absent(&self) -> &BTreeSet<ServerId> {
        &self.absent
    }

    /// Whether there was ever a connection or message for this server.
    pub fn knows(&self, peer: ServerId) -> bool {
        self.lines.contains_key(&peer)
    }

    /// The number of servers with a connection or message so far.
    pub fn acquaintances(&self) -> usize {
        self.lines.len()
    }

    /// The server at the other end of a connection.
    pub fn peer(&self, wire: WireId) -> Option<ServerId> {
        self.wires.get(&wire).copied()
    }

    /// Sends a notification, or keeps it until there is a connection.
    pub fn send(&mut self, peer: ServerId, ballot: Ballot, out: &mut Vec<Output>) {
        let line = self.lines.entry(peer).or_default();
        if let Some(wire) = line.wire {
            line.last = Some(ballot);
            out.push(Output::Send(wire, ballot));
        } else {
            line.next = Some(ballot);
            self.dial(peer, out);
        }
    }

    /// Connects to a server without a connection.
    pub fn dial(&mut self, peer: ServerId, out: &mut Vec<Output>) {
        let line = self.lines.entry(peer).or_default();
        if peer != self.me && line.wire.is_none() && !line.dialling {
            line.dialling = true;
            out.push(Output::Dial(peer));
        }
    }

    /// When [`Mesh::redial`] is due for these servers.
    pub fn redial_due(&self, mut peers: impl Iterator<Item = ServerId>) -> Duration {
        if peers.any(|peer| self.absent.contains(&peer)) { self.redial_at } else { Duration::MAX }
    }

    /// Reconnects to the unreachable ones of these servers, if it is due.
    pub fn redial(
        &mut self,
        now: Duration,
        peers: impl Iterator<Item = ServerId>,
        out: &mut Vec<Output>,
    ) {
        if now >= self.redial_at {
            self.redial_later(now);
            for peer in peers {
                if self.absent.contains(&peer) {
                    self.dial(peer, out);
                }
            }
        }
    }

    /// All servers are being dialled now: schedules the next time.
    pub fn redial_later(&mut self, now: Duration) {
        self.redial_at = now + REDIAL_AFTER;
    }

    /// Handles an event.
    pub fn step(&mut self, input: Input, out: &mut Vec<Output>) {
        match input {
            Input::Accepted { wire, peer } if peer > self.me => self.keep(wire, peer, out),
            Input::Accepted { wire, peer } => {
                out.push(Output::Close(wire));
                if peer == self.me {
                    return;
                }
                // The peer has lost its end of the old connection, otherwise it would not connect.
                if let Some(old) = self.lines.entry(peer).or_default().wire.take() {
                    self.wires.remove(&old);
                    out.push(Output::Close(old));
                }
                self.dial(peer, out);
            }
            Input::Dialled { wire, peer } => {
                self.lines.entry(peer).or_default().dialling = false;
                if peer < self.me {
                    self.keep(wire, peer, out);
                } else {
                    // The peer knows this server now and connects in turn.
                    out.push(Output::Close(wire));
                }
            }
            Input::Refused(peer) => {
                let line = self.lines.entry(peer).or_default();
                line.dialling = false;
                if line.wire.is_none() {
                    self.absent.insert(peer);
                }
            }
            Input::Closed(wire) => {
                if let Some(peer) = self.wires.remove(&wire) {
                    self.lines.entry(peer).or_default().wire = None;
                    self.absent.insert(peer);
                }
            }
        }
    }

    /// Asserts what holds between any two steps.
    pub(crate) fn check(&self) {
        let connected = self.lines.values().filter(|line| line.wire.is_some()).count();
        assert_eq!(connected, self.wires.len(), "a connection is of nobody, or unknown");
        for (wire, peer) in &self.wires {
            let line = self.lines.get(peer).expect("there is a line for each connection");
            assert_eq!(line.wire, Some(*wire), "{peer:?} has another connection");
            assert!(line.next.is_none(), "{peer:?} is connected, and its notification waits");
            assert!(!self.absent.contains(peer), "{peer:?} is connected and absent");
            assert_ne!(*peer, self.me, "it is connected to itself");
        }
        let own = self.lines.get(&self.me);
        assert!(own.is_none_or(|line| !line.dialling), "it dials itself");
        assert!(self.absent.iter().all(|peer| self.knows(*peer)), "a stranger is absent");
    }

    fn keep(&mut self, wire: WireId, peer: ServerId, out: &mut Vec<Output>) {
        self.absent.remove(&peer);
        let line = self.lines.entry(peer).or_default();
        if let Some(old) = line.wire.replace(wire) {
            self.wires.remove(&old);
            out.push(Output::Close(old));
        }
        let before = self.wires.insert(wire, peer);
        assert!(before.is_none(), "{wire:?} is of two connections");
        if let Some(ballot) = line.next.take().or(line.last) {
            line.last = Some(ballot);
            out.push(Output::Send(wire, ballot));
        }
    }

    /// Closes all connections, for example after a reconfiguration.
    pub fn restart(&mut self, out: &mut Vec<Output>) {
        out.extend(self.wires.keys().map(|wire| Output::Close(*wire)));
        *self = Self::new(self.me);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::election::{State, Vote};
    use zebu_proto::Zxid;

    fn ballot(round: i64) -> Ballot {
        let vote = Vote { leader: ServerId(1), zxid: Zxid(7), epoch: 1 };
        Ballot { vote, round, state: State::Looking, versioned: true }
    }

    fn step(mesh: &mut Mesh, input: Input) -> Vec<Output> {
        let mut out = Vec::new();
        mesh.step(input, &mut out);
        out
    }

    #[test]
    fn the_larger_one_keeps_its_dial() {
        let mut mesh = Mesh::new(ServerId(2));
        let mut out = Vec::new();
        mesh.send(ServerId(1), ballot(1), &mut out);
        assert_eq!(out, [Output::Dial(ServerId(1))]);
        let out = step(&mut mesh, Input::Dialled { wire: WireId(5), peer: ServerId(1) });
        assert_eq!(out, [Output::Send(WireId(5), ballot(1))]);
    }

    #[test]
    fn the_smaller_one_knocks_and_is_dialled_back() {
        let mut mesh = Mesh::new(ServerId(2));
        let mut out = Vec::new();
        mesh.send(ServerId(3), ballot(1), &mut out);
        let out = step(&mut mesh, Input::Dialled { wire: WireId(5), peer: ServerId(3) });
        assert_eq!(out, [Output::Close(WireId(5))]);
        let out = step(&mut mesh, Input::Accepted { wire: WireId(6), peer: ServerId(3) });
        assert_eq!(out, [Output::Send(WireId(6), ballot(1))]);
    }

    #[test]
    fn a_knock_of_a_smaller_one_is_answered_by_a_dial() {
        let mut mesh = Mesh::new(ServerId(2));
        let out = step(&mut mesh, Input::Accepted { wire: WireId(1), peer: ServerId(1) });
        assert_eq!(out, [Output::Close(WireId(1)), Output::Dial(ServerId(1))]);
        step(&mut mesh, Input::Dialled { wire: WireId(2), peer: ServerId(1) });
        let out = step(&mut mesh, Input::Accepted { wire: WireId(3), peer: ServerId(1) });
        let expected =
            [Output::Close(WireId(3)), Output::Close(WireId(2)), Output::Dial(ServerId(1))];
        assert_eq!(out, expected);
    }

    #[test]
    fn the_last_message_is_sent_again_on_a_new_connection() {
        let mut mesh = Mesh::new(ServerId(1));
        step(&mut mesh, Input::Accepted { wire: WireId(1), peer: ServerId(2) });
        let mut out = Vec::new();
        mesh.send(ServerId(2), ballot(1), &mut out);
        step(&mut mesh, Input::Closed(WireId(1)));
        assert!(mesh.absent().contains(&ServerId(2)));
        let out = step(&mut mesh, Input::Accepted { wire: WireId(2), peer: ServerId(2) });
        assert_eq!(out, [Output::Send(WireId(2), ballot(1))]);
        assert!(mesh.absent().is_empty());
    }

    #[test]
    fn a_newer_message_replaces_an_unsent_one() {
        let mut mesh = Mesh::new(ServerId(1));
        let mut out = Vec::new();
        mesh.send(ServerId(2), ballot(1), &mut out);
        mesh.send(ServerId(2), ballot(2), &mut out);
        assert_eq!(out, [Output::Dial(ServerId(2))], "one dial at a time");
        let out = step(&mut mesh, Input::Accepted { wire: WireId(1), peer: ServerId(2) });
        assert_eq!(out, [Output::Send(WireId(1), ballot(2))]);
    }

    #[test]
    fn who_claims_to_be_this_server_is_turned_away() {
        let mut mesh = Mesh::new(ServerId(1));
        let out = step(&mut mesh, Input::Accepted { wire: WireId(1), peer: ServerId(1) });
        assert_eq!(out, [Output::Close(WireId(1))]);
    }
}

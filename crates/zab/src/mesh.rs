//! The election network: one connection for each pair of servers, dialled by the larger of the two.
//!
//! Decides who dials, which connection is kept and what is sent again; the driver opens sockets and
//! exchanges the initial messages. For each peer only the newest message matters: it replaces an
//! unsent one, and goes out once more on a new connection, since the old one may have died with it.
//! Source: `quorum-election.md` part I, `QuorumCnxManager`.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use zebu_proto::ServerId;

use crate::election::Ballot;

/// How often servers that cannot be reached are dialled again while there is no leader. Votes are repeated more and
/// more rarely, up to once a minute, and would be all that is dialled for; a new connection brings the newest one.
pub(crate) const REDIAL_AFTER: Duration = Duration::from_secs(5);

/// A connection of the election network: a number that is never used twice.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct WireId(pub u64);

/// What happened on the election network.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Input {
    /// A server has dialled this one and said who it is.
    Accepted {
        /// The connection.
        wire: WireId,
        /// Who it says it is.
        peer: ServerId,
    },
    /// A dial has succeeded, and the initial message is written.
    Dialled {
        /// The connection.
        wire: WireId,
        /// Whom it leads to.
        peer: ServerId,
    },
    /// A dial has failed.
    Refused(ServerId),
    /// A connection is gone, at either end's wish.
    Closed(WireId),
}

/// What is to be done on the election network.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Output {
    /// Dial a server, at the address it named itself if it did, else at that of the configuration.
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
    /// Not sent yet.
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
    /// No connections yet.
    pub fn new(me: ServerId) -> Self {
        let (lines, wires, absent) = Default::default();
        Self { me, lines, wires, absent, redial_at: Duration::ZERO }
    }

    /// The servers that could not be reached when last tried, or whose connection has broken since.
    pub fn absent(&self) -> &BTreeSet<ServerId> {
        &self.absent
    }

    /// Whether there has been anything to do with a server.
    pub fn knows(&self, peer: ServerId) -> bool {
        self.lines.contains_key(&peer)
    }

    /// How many servers that is.
    pub fn acquaintances(&self) -> usize {
        self.lines.len()
    }

    /// Whose connection this is.
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

    /// Dials a server to which there is no connection.
    pub fn dial(&mut self, peer: ServerId, out: &mut Vec<Output>) {
        let line = self.lines.entry(peer).or_default();
        if peer != self.me && line.wire.is_none() && !line.dialling {
            line.dialling = true;
            out.push(Output::Dial(peer));
        }
    }

    /// When [`Mesh::redial`] is due, for these servers.
    pub fn redial_due(&self, mut peers: impl Iterator<Item = ServerId>) -> Duration {
        if peers.any(|peer| self.absent.contains(&peer)) { self.redial_at } else { Duration::MAX }
    }

    /// Dials those of these servers again that cannot be reached, if it is time: the way to one of them may be
    /// open again.
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

    /// All are dialled now.
    pub fn redial_later(&mut self, now: Duration) {
        self.redial_at = now + REDIAL_AFTER;
    }

    /// Takes what happened.
    pub fn step(&mut self, input: Input, out: &mut Vec<Output>) {
        match input {
            Input::Accepted { wire, peer } if peer > self.me => self.keep(wire, peer, out),
            Input::Accepted { wire, peer } => {
                out.push(Output::Close(wire));
                if peer == self.me {
                    return;
                }
                // Its end of the old connection is gone, or it would not dial.
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
                    // It knows of this server now and dials back.
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

    /// Closes everything, as after a change of the members.
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

//! The state: the history of each server, and the messages of each leader.
//!
//! The messages of a leader in its epoch only grow, so they need no queues. A late message is a
//! shorter prefix of the leader's messages. A lost message is an action that never happens.

use std::fmt;

/// A set of servers, by their index.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Servers(pub u64);

impl Servers {
    /// Adds a server.
    pub fn insert(&mut self, server: usize) {
        self.0 |= 1 << server;
    }

    /// Whether the set has a server.
    pub fn contains(self, server: usize) -> bool {
        self.0 >> server & 1 == 1
    }

    /// The number of servers in the set.
    pub fn len(self) -> usize {
        self.0.count_ones() as usize
    }

    /// Whether the set has no server.
    pub fn is_empty(self) -> bool {
        self.0 == 0
    }
}

impl FromIterator<usize> for Servers {
    fn from_iter<T: IntoIterator<Item = usize>>(servers: T) -> Self {
        let mut set = Self::default();
        servers.into_iter().for_each(|server| set.insert(server));
        set
    }
}

/// A transaction.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Txn {
    /// The epoch in its zxid.
    pub epoch: u32,
    /// The counter in its zxid, from 1.
    pub counter: u32,
    /// Stands for its content.
    pub value: u64,
}

impl Txn {
    /// Its zxid: epoch and counter.
    pub fn zxid(self) -> (u32, u32) {
        (self.epoch, self.counter)
    }
}

impl fmt::Debug for Txn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.epoch, self.counter)
    }
}

/// A leadership: an epoch, and the server that has chosen it for itself.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TermId {
    /// The epoch.
    pub epoch: u32,
    /// The server.
    pub leader: usize,
}

impl fmt::Debug for TermId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "epoch {} of server {}", self.epoch, self.leader)
    }
}

/// What a server does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Role {
    /// It takes part in no leadership.
    Looking,
    /// It leads, or tries to.
    Leading(TermId),
    /// It learns from a leader.
    Following(TermId),
}

/// What a server has.
#[derive(Clone, Debug)]
pub struct Server {
    /// The newest epoch that it has accepted, durable (acceptedEpoch).
    pub accepted: u32,
    /// The epoch of the newest leader whose history it has, durable (currentEpoch).
    pub current: u32,
    /// What it has logged.
    pub history: Vec<Txn>,
    /// How much of the history is on its disk.
    pub durable: usize,
    /// How much of the history it has delivered.
    pub delivered: usize,
    /// What it does.
    pub role: Role,
    /// Whether it has lost its disk, and no leader has synchronized it since.
    pub empty: bool,
    /// The epoch that it had accepted when it lost its disk last. It does not know that.
    pub forgotten: u32,
    /// Whether its history is known to be a prefix of what its leader has said. Follows from the rest of the state;
    /// kept so that a replay need not compare again.
    pub agrees: bool,
}

impl Server {
    pub(crate) fn new() -> Self {
        Self {
            accepted: 0,
            current: 0,
            history: Vec::new(),
            durable: 0,
            delivered: 0,
            role: Role::Looking,
            empty: false,
            forgotten: 0,
            agrees: false,
        }
    }

    /// The zxid at the end of its history.
    pub fn last(&self) -> (u32, u32) {
        self.history.last().map_or((0, 0), |txn| txn.zxid())
    }

    /// What it has delivered.
    pub fn has_delivered(&self) -> &[Txn] {
        &self.history[..self.delivered]
    }
}

/// A promise to follow no leader of an earlier epoch, with the promising server's epoch and end of history.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Promise {
    /// Who has promised.
    pub server: usize,
    /// Its current epoch, and the zxid at the end of its history.
    pub summary: (u32, (u32, u32)),
}

/// What a leader has said, and what was said to it.
#[derive(Clone, Debug)]
pub struct Term {
    /// Its epoch, and who it is.
    pub id: TermId,
    /// Until synchronization begins: who has promised this epoch to this leader, in the order of their indexes.
    pub promises: Vec<Promise>,
    /// Once synchronization has begun: how much of the history is what the leader had at its election.
    pub initial: Option<usize>,
    /// What a follower that has everything has: what the leader had, then what it has proposed.
    pub history: Vec<Txn>,
    /// Who has adopted the initial history: those that may acknowledge NEWLEADER.
    pub adopted: Servers,
    /// Whether the leader was established by a quorum of those.
    pub established: bool,
    /// Up to where each server has acknowledged the history.
    pub acked: Vec<usize>,
    /// How much of the history the leader has called committed.
    pub committed: usize,
}

impl Term {
    /// How much of this history is counted on a server to keep: what others may have committed, and what it has
    /// acknowledged.
    pub fn counts_on(&self, server: usize) -> usize {
        self.initial.unwrap_or(0).max(self.acked[server])
    }

    /// What the leader has called committed.
    pub fn has_committed(&self) -> &[Txn] {
        &self.history[..self.committed]
    }
}

/// The whole ensemble.
#[derive(Clone, Debug)]
pub struct State {
    /// The servers.
    pub servers: Vec<Server>,
    /// All leaderships there ever were, in the order in which they began.
    pub terms: Vec<Term>,
    /// The longest history that was ever called committed.
    pub agreed: Vec<Txn>,
}

impl State {
    /// `Init`: servers without history.
    pub fn init(servers: usize) -> Self {
        let server = Server::new();
        Self { servers: vec![server; servers], terms: Vec::new(), agreed: Vec::new() }
    }

    /// A leadership.
    pub fn term(&self, id: TermId) -> Option<&Term> {
        self.terms.iter().rev().find(|term| term.id == id)
    }

    /// How many transactions were ever proposed.
    pub fn proposed(&self) -> usize {
        let own = |term: &Term| term.history.len() - term.initial.unwrap_or(0);
        self.terms.iter().map(own).sum()
    }
}

/// How long a history begins like another.
pub(crate) fn common(one: &[Txn], other: &[Txn]) -> usize {
    // Two histories that agree at one zxid agree before, unless something is wrong, so this is quick.
    one.iter().zip(other).take_while(|(one, other)| one == other).count()
}

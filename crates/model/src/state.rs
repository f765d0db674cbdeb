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

/// The role of a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Role {
    /// It takes part in no leadership.
    Looking,
    /// It leads, or tries to.
    Leading(TermId),
    /// It learns from a leader.
    Following(TermId),
}

/// The state of a server.
#[derive(Clone, Debug)]
pub struct Server {
    /// The newest epoch that it has accepted, durable (acceptedEpoch).
    pub accepted: u32,
    /// The epoch of the newest leader whose history it has, durable (currentEpoch).
    pub current: u32,
    /// Its log.
    pub history: Vec<Txn>,
    /// The length of the history on its disk.
    pub durable: usize,
    /// The length of the history that it has delivered.
    pub delivered: usize,
    /// Its role.
    pub role: Role,
    /// Whether it has lost its disk, and no leader has synchronized it since.
    pub empty: bool,
    /// The epoch that it had accepted when it last lost its disk. The server does not know it.
    pub forgotten: u32,
    /// Whether its history is known to be a prefix of its leader's messages. This follows from the
    /// rest of the state; it is kept so that a replay need not compare again.
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

    /// The transactions that it has delivered.
    pub fn has_delivered(&self) -> &[Txn] {
        &self.history[..self.delivered]
    }
}

/// A promise to follow no leader of an earlier epoch, with the promising server's epoch and end of
/// history.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Promise {
    /// The server that has promised.
    pub server: usize,
    /// Its current epoch, and the zxid at the end of its history.
    pub summary: (u32, (u32, u32)),
}

/// The messages from and to a leader.
#[derive(Clone, Debug)]
pub struct Term {
    /// Its epoch, and the server.
    pub id: TermId,
    /// Until synchronization begins: the servers that have promised this epoch to this leader, in
    /// the order of their indexes.
    pub promises: Vec<Promise>,
    /// After synchronization has begun: the length of the leader's history at its election.
    pub initial: Option<usize>,
    /// The history of a follower that has everything: the leader's history at its election, then
    /// its proposals.
    pub history: Vec<Txn>,
    /// The servers that have adopted the initial history. Only these may acknowledge NEWLEADER.
    pub adopted: Servers,
    /// Whether a quorum of them has established the leader.
    pub established: bool,
    /// The length of the history that each server has acknowledged.
    pub acked: Vec<usize>,
    /// The length of the history that the leader has called committed.
    pub committed: usize,
}

impl Term {
    /// The length of this history that the leader counts on a server to keep: the part that others
    /// may have committed, and the part that the server has acknowledged.
    pub fn counts_on(&self, server: usize) -> usize {
        self.initial.unwrap_or(0).max(self.acked[server])
    }

    /// The part that the leader has called committed.
    pub fn has_committed(&self) -> &[Txn] {
        &self.history[..self.committed]
    }
}

/// The whole ensemble.
#[derive(Clone, Debug)]
pub struct State {
    /// The servers.
    pub servers: Vec<Server>,
    /// All leaderships of the run, in the order of their beginning.
    pub terms: Vec<Term>,
    /// The longest history that a leader has called committed.
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

    /// The number of transactions proposed so far.
    pub fn proposed(&self) -> usize {
        let own = |term: &Term| term.history.len() - term.initial.unwrap_or(0);
        self.terms.iter().map(own).sum()
    }
}

/// The length of the common beginning of two histories.
pub(crate) fn common(one: &[Txn], other: &[Txn]) -> usize {
    // Two histories that agree at one zxid agree before it, unless there is a fault, so this is
    // fast.
    one.iter().zip(other).take_while(|(one, other)| one == other).count()
}

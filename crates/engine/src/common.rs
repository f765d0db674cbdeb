//! What the threads of one server share: the tree, the connections, and the way into the replica.

use std::sync::Arc;
use std::time::Duration;

use zebu_replica::auth::{Credentials, Schemes};
use zebu_replica::{ANSWER_BYTES_MAX, ConnId, Reader};
use zebu_tree::Tree;

use crate::conn::Side;
use crate::conns::{Conns, watcher};
use crate::inbox::Inbox;
use crate::load::{Load, LoadLimits};
use crate::sasl::ClientSasl;
use crate::sync::atomic::Ordering;
use crate::sync::{Mutex, RwLock};

/// What a server is to its clients.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    /// It runs alone.
    Standalone,
    /// It leads an ensemble.
    Leader,
    /// It follows a leader, and votes.
    Follower,
    /// It follows a leader, and does not vote.
    Observer,
    /// It has no leader, and serves clients that only read.
    ReadOnly,
}

impl Mode {
    /// As the four-letter words print it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Standalone => "standalone",
            Self::Leader => "leader",
            Self::Follower => "follower",
            Self::Observer => "observer",
            Self::ReadOnly => "read-only",
        }
    }
}

/// What connections must obey.
#[derive(Debug, Clone)]
pub struct ClientRules {
    /// Longest frame of a client, in bytes: `jute.maxbuffer`.
    pub packet_bytes: usize,
    /// Longest answer to a read, in bytes.
    pub answer_bytes_max: usize,
    /// Unsent bytes above which a connection that does not read what it is sent is closed.
    pub outbox_bytes_max: usize,
    /// A client must have one of these schemes before it asks for anything: `enforce.auth.schemes`. Empty: none.
    pub enforced_schemes: Vec<String>,
    /// How clients authenticate with SASL; `None` where they cannot.
    pub sasl: Option<ClientSasl>,
    /// What may be in progress.
    pub load: LoadLimits,
}

impl Default for ClientRules {
    fn default() -> Self {
        Self {
            packet_bytes: 1 << 20,
            answer_bytes_max: ANSWER_BYTES_MAX,
            outbox_bytes_max: crate::outbox::OUTBOX_BYTES_MAX,
            enforced_schemes: Vec::new(),
            sasl: None,
            load: LoadLimits::default(),
        }
    }
}

/// What the threads of one server share.
pub struct Common<S> {
    /// The state.
    pub tree: RwLock<Tree>,
    /// The authentication schemes.
    pub schemes: Arc<Schemes>,
    /// Every connection.
    pub conns: Conns<S>,
    /// The way into the replica.
    pub inbox: Inbox,
    /// What is on that way or behind it, and not answered.
    pub load: Load,
    /// What connections must obey.
    pub rules: ClientRules,
    /// What this server is to its clients, while it serves any: one fact, so that nobody sees it serve as what it
    /// is not any more.
    serving: Mutex<Option<Serving>>,
}

/// What a server is to its clients, and since when on the monotonic clock.
#[derive(Clone, Copy, Debug)]
struct Serving {
    mode: Mode,
    since: Duration,
}

impl<S: Side> Common<S> {
    /// A server that serves nobody yet.
    pub fn new(tree: Tree, schemes: Arc<Schemes>, rules: ClientRules) -> Self {
        Self {
            tree: RwLock::new(tree),
            schemes,
            conns: Conns::default(),
            inbox: Inbox::default(),
            load: Load::new(rules.load),
            rules,
            serving: Mutex::new(None),
        }
    }

    /// What this server is to its clients; `None` while it serves nobody.
    pub fn serving(&self) -> Option<Mode> {
        self.serving.lock().map(|serving| serving.mode)
    }

    /// Since when it has been that, on the monotonic clock.
    pub fn serving_since(&self) -> Option<Duration> {
        self.serving.lock().map(|serving| serving.since)
    }

    /// Serves clients as `mode` says, or nobody. `mode` is asked under the lock, so that no older answer replaces a
    /// newer one. An unchanged mode keeps its beginning.
    pub fn serve(&self, since: Duration, mode: impl FnOnce() -> Option<Mode>) {
        let mut serving = self.serving.lock();
        *serving = mode().map(|mode| match *serving {
            Some(before) if before.mode == mode => before,
            _ => Serving { mode, since },
        });
    }

    /// Closes the connections of all clients; what is in their outboxes is still sent.
    ///
    /// A connection that has not said yet whether it is a client stays open: a monitor that asks a four-letter
    /// word in this moment gets its answer, and a client is refused when its connect request arrives.
    pub fn close_clients(&self) {
        for conn in self.conns.all() {
            if conn.has_connected.load(Ordering::SeqCst) {
                conn.outbox.lock().close();
                conn.wake();
            }
        }
    }

    /// Answers the reads of a connection that has these credentials.
    pub fn reader<'r>(
        &'r self,
        conn: ConnId,
        session: zebu_proto::SessionId,
        ids: &'r Credentials,
    ) -> Reader<'r> {
        Reader {
            schemes: &self.schemes,
            watcher: watcher(conn),
            session,
            ids,
            answer_bytes_max: self.rules.answer_bytes_max,
        }
    }
}

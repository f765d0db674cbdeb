//! What the threads of one server share: the tree, the connections, and the way into the replica.

use std::sync::Arc;
use std::time::Duration;

use zebu_proto::Identity;
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

/// How this server serves its clients.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    /// Without an ensemble.
    Standalone,
    /// As the leader of an ensemble.
    Leader,
    /// As a follower.
    Follower,
    /// As an observer.
    Observer,
    /// Without a leader, for read-only clients.
    ReadOnly,
}

impl Mode {
    /// The name that four-letter words print.
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

/// Limits and rules for client connections.
#[derive(Debug, Clone)]
pub struct ClientRules {
    /// Longest frame a client may send, in bytes: `jute.maxbuffer`.
    pub packet_bytes: usize,
    /// Longest answer to a read, in bytes.
    pub answer_bytes_max: usize,
    /// Unsent bytes above which a client that does not read its answers is disconnected.
    pub outbox_bytes_max: usize,
    /// A client must authenticate with one of these schemes before other requests:
    /// `enforce.auth.schemes`. Empty: no scheme is enforced.
    pub enforced_schemes: Vec<String>,
    /// SASL settings; `None` if clients cannot authenticate with SASL.
    pub sasl: Option<ClientSasl>,
    /// Limits on requests in flight.
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
    /// The database.
    pub tree: RwLock<Tree>,
    /// The authentication schemes.
    pub schemes: Arc<Schemes>,
    /// Every connection.
    pub conns: Conns<S>,
    /// The queue of inputs for the replica.
    pub inbox: Inbox,
    /// Counts the requests that are handed in and not answered.
    pub load: Load,
    /// What connections must obey.
    pub rules: ClientRules,
    /// How this server serves clients, if it does. Mode and start time are under one lock, so that
    /// no reader sees a mode that has ended.
    serving: Mutex<Option<Serving>>,
    /// What this server knows of the id of its ensemble.
    identity: Mutex<Identity>,
}

/// The mode, and its start on the monotonic clock.
#[derive(Clone, Copy, Debug)]
struct Serving {
    mode: Mode,
    since: Duration,
}

impl<S: Side> Common<S> {
    /// Creates the state of a server that does not serve yet.
    pub fn new(tree: Tree, schemes: Arc<Schemes>, rules: ClientRules) -> Self {
        Self {
            tree: RwLock::new(tree),
            schemes,
            conns: Conns::default(),
            inbox: Inbox::default(),
            load: Load::new(rules.load),
            rules,
            serving: Mutex::new(None),
            identity: Mutex::new(Identity::Unknown),
        }
    }

    /// How this server serves clients; `None` while it does not.
    pub fn serving(&self) -> Option<Mode> {
        self.serving.lock().map(|serving| serving.mode)
    }

    /// When the current mode began, on the monotonic clock.
    pub fn serving_since(&self) -> Option<Duration> {
        self.serving.lock().map(|serving| serving.since)
    }

    /// Sets how clients are served. `mode` is called under the lock, so that an older value never
    /// replaces a newer one. An unchanged mode keeps its start time.
    pub fn serve(&self, since: Duration, mode: impl FnOnce() -> Option<Mode>) {
        let mut serving = self.serving.lock();
        *serving = mode().map(|mode| match *serving {
            Some(before) if before.mode == mode => before,
            _ => Serving { mode, since },
        });
    }

    /// What this server knows of the id of its ensemble.
    pub fn identity(&self) -> Identity {
        *self.identity.lock()
    }

    /// This server knows more of the id of its ensemble.
    pub fn set_identity(&self, identity: Identity) {
        *self.identity.lock() = identity;
    }

    /// Closes all client connections after sending what is in their outboxes.
    ///
    /// A connection that has not sent a connect request stays open. It may ask a four-letter word,
    /// which is answered. A connect request is refused when it arrives.
    pub fn close_clients(&self) {
        for conn in self.conns.all() {
            if conn.has_connected.load(Ordering::SeqCst) {
                conn.outbox.lock().close();
                conn.wake();
            }
        }
    }

    /// A reader that answers requests with the credentials of a connection.
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

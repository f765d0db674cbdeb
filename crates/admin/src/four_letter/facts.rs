//! The facts that the words show, as plain data.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::PathBuf;

use zebu_engine::Mode;
use zebu_proto::{Identity, ServerId, SessionId, Xid, Zxid};
use zebu_zab::Learners;

use super::environment::Environment;
use zebu_config::Config;
use zebu_metrics::{Metrics, ResponseSizes};

/// The position at which a page of facts begins. 0 is the beginning. Every other value comes from
/// the previous page, and has a meaning only for the server that returned it.
pub type Cursor = u64;

/// The facts that a server reports about itself.
///
/// Each method returns a consistent view, but two calls may return views of different moments. A
/// page (`watches_*`, `ephemerals`) should have some hundred entries, read under one lock. Between
/// two pages the lock is free.
pub trait Facts {
    /// The server's mode; `None` while it does not serve clients.
    fn serving(&self) -> Option<Mode>;
    /// Figures of the whole server.
    fn server(&self) -> ServerFacts;
    /// Metrics.
    fn metrics(&self) -> &Metrics;
    /// All client connections, including that of this request.
    fn connections(&self) -> Vec<ConnectionFacts>;
    /// Connections by the time at which they end if they stay silent.
    fn connection_buckets(&self) -> Vec<Bucket<ConnectionRef>>;
    /// Sessions by the time at which they expire on this server: local ones, or the others.
    fn session_buckets(&self, local: bool) -> Vec<Bucket<SessionId>>;
    /// The number of sessions with ephemerals.
    fn ephemeral_sessions(&self) -> usize;
    /// Appends ephemerals, grouped by session. Returns the place to continue, or `None` at the end.
    fn ephemerals(&self, from: Cursor, out: &mut Vec<(SessionId, String)>) -> Option<Cursor>;
    /// Counts of data watches.
    fn watch_summary(&self) -> WatchSummary;
    /// Appends data watches, grouped by path. Returns the place to continue, or `None` at the end.
    fn watches_by_path(&self, from: Cursor, out: &mut Vec<Watcher>) -> Option<Cursor>;
    /// Appends data watches, grouped by session. Returns the place to continue, or `None` at the
    /// end.
    fn watches_by_session(&self, from: Cursor, out: &mut Vec<Watcher>) -> Option<Cursor>;
    /// Digests of the tree at some zxids, oldest first.
    fn digests(&self) -> Vec<(Zxid, i64)>;
    /// Bytes on disk.
    fn dirs(&self) -> DirSizes;
    /// The facts for `conf`.
    fn conf(&self) -> ConfFacts;
    /// Facts of a member of an ensemble.
    fn member(&self) -> Option<MemberFacts>;
    /// What is known about the ensemble's id.
    fn identity(&self) -> Identity {
        Identity::Unknown
    }
    /// All global sessions with their timeouts in ms, by id.
    fn global_sessions(&self) -> Vec<(SessionId, i32)>;
    /// The facts for `envi`.
    fn environment(&self) -> Environment;
    /// The mask for `gtmk`.
    fn trace_mask(&self) -> i64;
}

/// Facts of a member of an ensemble.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MemberFacts {
    /// Its id.
    pub me: ServerId,
    /// Whether it is an observer.
    pub observes: bool,
    /// `initLimit`.
    pub init_ticks: u32,
    /// `syncLimit`.
    pub sync_ticks: u32,
    /// The ports on which it listens for votes.
    pub election_ports: Vec<u16>,
    /// The ports on which it listens for learners while it leads.
    pub learner_ports: Vec<u16>,
    /// The text of the committed configuration.
    pub membership: String,
    /// The number of voters.
    pub voters: usize,
    /// Whether local sessions are possible.
    pub local_sessions: bool,
    /// Set if it is the leader.
    pub leader: Option<LeaderFacts>,
    /// The number of observers, if it is a follower that serves observers.
    pub observers: Option<usize>,
    /// The server from which an observer learns.
    pub master: Option<ServerId>,
    /// If the server has no leader, or a tree that differs from its leader's: the conditions that
    /// it waits for, one clause each.
    pub lacks: Vec<String>,
}

/// Facts of a leader.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LeaderFacts {
    /// Its learners.
    pub learners: Learners,
    /// The number of pending syncs.
    pub pending_syncs: usize,
    /// Milliseconds since it began to lead.
    pub uptime_ms: u64,
    /// Sizes of the proposals.
    pub proposals: ProposalSizes,
}

/// The bytes of the last, the smallest and the largest proposed transaction; -1 before the first
/// one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs)]
pub struct ProposalSizes {
    pub last: i64,
    pub min: i64,
    pub max: i64,
}

impl Default for ProposalSizes {
    fn default() -> Self {
        Self { last: -1, min: -1, max: -1 }
    }
}

impl ProposalSizes {
    /// Adds a proposed transaction of `bytes` bytes.
    pub fn add(&mut self, bytes: usize) {
        let bytes = i64::try_from(bytes).unwrap_or(i64::MAX);
        self.last = bytes;
        self.min = if self.min < 0 { bytes } else { self.min.min(bytes) };
        self.max = self.max.max(bytes);
    }
}

/// Figures of the whole server.
#[derive(Debug, Clone, PartialEq)]
pub struct ServerFacts {
    /// Smallest request latency in ms since the last reset.
    pub latency_min_ms: i64,
    /// Average request latency in ms.
    pub latency_avg_ms: f64,
    /// Largest request latency in ms.
    pub latency_max_ms: i64,
    /// Frames received since the last reset.
    pub packets_received: u64,
    /// Frames sent.
    pub packets_sent: u64,
    /// Open client connections, including that of this request.
    pub connections: usize,
    /// TLS handshakes in progress.
    pub tls_handshakes: usize,
    /// TLS handshakes that failed, also because of a refused certificate.
    pub auth_failures: u64,
    /// Client connections without TLS from this machine.
    pub plain_local: u64,
    /// Client connections without TLS from other machines.
    pub plain_remote: u64,
    /// Seconds until the first of the certificates that the client ports with TLS use or trust
    /// expires; negative afterwards. `None` without such a port.
    pub certificate_seconds_left: Option<i64>,
    /// Requests in progress.
    pub outstanding: usize,
    /// Last zxid applied.
    pub zxid: Zxid,
    /// Znodes, counted as the original does, with both aliases of the root.
    pub znodes: usize,
    /// Registrations of data and child watches.
    pub watches: usize,
    /// Ephemeral znodes.
    pub ephemerals: usize,
    /// Bytes of paths and data.
    pub data_bytes: u64,
    /// Global sessions.
    pub sessions: usize,
    /// Local sessions.
    pub local_sessions: usize,
    /// Milliseconds since the server began to serve in its current mode.
    pub uptime_ms: u64,
    /// Syncs of the log that took longer than `fsync.warningthresholdms`.
    pub slow_syncs: u64,
    /// Current random drop chance of the connection throttle.
    pub connection_drop_probability: f64,
    /// Sizes of responses.
    pub response_sizes: ResponseSizes,
    /// Used file descriptors, if known.
    pub fds_open: Option<u64>,
    /// The limit of file descriptors, if known.
    pub fds_max: Option<u64>,
    /// Quotas by namespace.
    pub quotas: GaugeSets,
}

/// Gauges by namespace, which is the first component of a path.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct GaugeSets {
    /// Limit of znodes, the hard one if there is one.
    pub count_limit: BTreeMap<String, i64>,
    /// Limit of bytes, the hard one if there is one.
    pub bytes_limit: BTreeMap<String, i64>,
    /// Znodes under quota.
    pub count_usage: BTreeMap<String, i64>,
    /// Bytes under quota.
    pub bytes_usage: BTreeMap<String, i64>,
}

/// A connection.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConnectionFacts {
    /// The client's address.
    pub remote: SocketAddr,
    /// Whether it has TLS.
    pub is_secure: bool,
    /// Whether the server reads from the connection (bit 1), and whether it waits to write to it
    /// (bit 4).
    pub interest: u8,
    /// Requests in progress.
    pub queued: u64,
    /// Frames received.
    pub received: u64,
    /// Frames sent.
    pub sent: u64,
    /// Its session, once it has one.
    pub session: Option<SessionFacts>,
}

/// The facts of `cons` about a connection with a session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SessionFacts {
    /// The session's id.
    pub id: SessionId,
    /// Last operation: `NA`, `PING`, `SESS`, `CREA`, ...
    pub last_op: &'static str,
    /// When the connection began, ms since 1970.
    pub established_ms: i64,
    /// Timeout in ms.
    pub timeout_ms: u64,
    /// The xid of the last request, if the client chose it.
    pub last_xid: Option<Xid>,
    /// Zxid of the last response.
    pub last_zxid: Zxid,
    /// The time of the last response, in ms of a monotonic clock.
    pub last_response_ms: i64,
    /// Latency of the last response in ms.
    pub latency_last_ms: i64,
    /// Smallest latency in ms.
    pub latency_min_ms: i64,
    /// Average latency in whole ms.
    pub latency_avg_ms: i64,
    /// Largest latency in ms.
    pub latency_max_ms: i64,
}

/// Connections or sessions that expire together.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Bucket<T> {
    /// The time of expiry, in ms since 1970.
    pub expires_ms: i64,
    /// Its connections or sessions.
    pub members: Vec<T>,
}

/// A connection in a bucket.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ConnectionRef {
    /// The client's address.
    pub remote: SocketAddr,
    /// Its session, or [`SessionId::NONE`].
    pub session: SessionId,
}

/// Counts of data watches.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WatchSummary {
    /// Connections with watches.
    pub connections: usize,
    /// Watched paths.
    pub paths: usize,
    /// Pairs of a connection and a path.
    pub watches: usize,
}

/// A session that watches a path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Watcher {
    /// The watched path.
    pub path: String,
    /// The session.
    pub session: SessionId,
}

/// Bytes on disk.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct DirSizes {
    /// The size of the snapshot directory.
    pub data_bytes: u64,
    /// The size of the log directory.
    pub log_bytes: u64,
}

/// The facts for `conf`.
#[derive(Debug, Clone, PartialEq, Eq)]
#[allow(missing_docs)] // As `conf` prints them.
pub struct ConfFacts {
    pub client_port: Option<u16>,
    pub secure_client_port: Option<u16>,
    pub data_dir: PathBuf,
    pub log_dir: PathBuf,
    pub sizes: DirSizes,
    pub tick_ms: u128,
    pub connections_per_address: u32,
    pub session_timeout_min_ms: u128,
    pub session_timeout_max_ms: u128,
    pub backlog: Option<u32>,
}

impl ConfFacts {
    /// The facts from the configuration. `client_port` is the bound port.
    pub fn new(config: &Config, client_port: Option<u16>, sizes: DirSizes) -> Self {
        Self {
            client_port,
            secure_client_port: config.client_tls.as_ref().and_then(|tls| tls.port),
            data_dir: config.data.snapshots(),
            log_dir: config.data.logs(),
            sizes,
            tick_ms: config.sessions.tick.as_millis(),
            connections_per_address: config.limits.connections_per_address.unwrap_or(0),
            session_timeout_min_ms: config.sessions.timeout_min.as_millis(),
            session_timeout_max_ms: config.sessions.timeout_max.as_millis(),
            backlog: config.net.backlog,
        }
    }
}

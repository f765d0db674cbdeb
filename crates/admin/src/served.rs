//! The facts and operations of a server that the admin server needs beside those of the four-letter
//! words.

use std::fs::File;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use zebu_config::Config;
use zebu_metrics::Histograms;
use zebu_proto::{ServerId, SessionId, Zxid};
use zebu_zab::config::Membership;

use crate::four_letter::Facts;
use crate::health::Progress;
use crate::http::Client;
use crate::inside::Opening;

/// A server that is asked over HTTP.
///
/// Most of it only looks. What changes something is what the commands of that name do, and no more.
pub trait Served: Facts + Send + Sync + 'static {
    /// Its configuration.
    fn config(&self) -> Option<&Config> {
        None
    }
    /// How far its write path has come.
    fn progress(&self) -> Progress;
    /// Files that were found damaged while the server runs, each as a sentence.
    fn damaged_files(&self) -> Vec<String>;
    /// Starts the statistics of the server again (`stat_reset`).
    fn reset_stats(&self);
    /// Starts the statistics of all connections again (`connection_stat_reset`).
    fn reset_connections(&self);
    /// Starts the statistics of the connections of observers again (`observer_connection_stat_reset`).
    fn reset_observers(&self);
    /// Sets what `get_trace_mask` shows.
    fn set_trace_mask(&self, mask: i64);
    /// Times in buckets; they stand on the Prometheus page.
    fn histograms(&self) -> Option<&Histograms> {
        None
    }
    /// What may be used up: the setting, how much of it is used, and how much there is.
    fn limits(&self) -> Vec<(&'static str, u64, u64)> {
        Vec::new()
    }
    /// Has the list of sessions renewed that [`Facts::session_buckets`] shows, if that does not take long.
    fn renew_sessions(&self) -> Pin<Box<dyn Future<Output = ()> + Send + '_>>;
    /// The newest snapshot on the disk.
    fn last_snapshot(&self) -> Option<SnapshotFacts>;
    /// The ensemble, at a member.
    fn ensemble(&self) -> Option<EnsembleFacts>;
    /// At a server that serves observers: those that are connected.
    fn observers(&self) -> Vec<ObserverFacts>;
    /// At a server that has learners: those that are connected, observers included.
    fn learners(&self) -> Vec<LearnerFacts>;
    /// Paths of a session's ephemerals, at most `most`.
    fn ephemerals_of(&self, session: SessionId, most: usize) -> Vec<String>;
    /// Ends a session as if it had expired.
    fn end_session(&self, session: SessionId) -> Ended;
    /// Closes the connection of a session, which lives on.
    fn end_connection(&self, session: SessionId) -> Ended;
    /// Starts the statistics of the connection of a session again.
    fn reset_connection(&self, session: SessionId) -> Ended;
    /// Lets another server lead: `to`, or the best follower. Waits until this server no longer does.
    ///
    /// # Errors
    /// Why not, in words for that person.
    fn hand_over(&self, to: Option<ServerId>) -> HandingOver<'_>;
    /// Whether this client with these credentials has every permission on `/`. Waits for a scheme that takes its time.
    ///
    /// # Errors
    /// Why not.
    fn authorize<'s>(
        &'s self,
        client: &'s Client,
        scheme: &'s str,
        data: &'s str,
    ) -> Pin<Box<dyn Future<Output = Result<(), Denied>> + Send + 's>>;
    /// Begins the session of a client inside this process, for this client; it has the identities of
    /// its address and its certificate.
    ///
    /// # Errors
    /// Why there is none, in words for that person.
    fn open_session<'s>(&'s self, client: &'s Client) -> Opening<'s>;
    /// Takes a snapshot, which may take long; blocking.
    ///
    /// # Errors
    /// Why there is none, in words for a log.
    fn take_snapshot(&self) -> Result<TakenSnapshot, String>;
    /// Replaces the state of a standalone server by the snapshot that `source` sends; blocking. `fuzzy`: also if the
    /// digest in it differs.
    ///
    /// # Errors
    /// Why the state is the old one still.
    fn restore(
        &self,
        source: &mut dyn std::io::Read,
        fuzzy: bool,
    ) -> Result<Restored, RestoreDenied>;
    /// The logs, sidecars and snapshots on the disk; blocking.
    ///
    /// # Errors
    /// Why they cannot be listed, in words for a log.
    fn data_files(&self) -> Result<Vec<DataFile>, String>;
    /// Opens one of them; `None` when there is none of that name. Blocking.
    ///
    /// # Errors
    /// Why it cannot be opened, in words for a log.
    fn open_data_file(&self, name: &str) -> Result<Option<(File, u64)>, String>;
    /// Reads from the logs on the disk what happened to a znode, and with `below` to everything below it; blocking, for some
    /// seconds, at a rate that slows no client.
    ///
    /// # Errors
    /// The reason why there is none, as a text for the user.
    fn history(&self, path: &str, below: bool) -> Result<HistoryFacts, String>;
}

/// The newest changes of a znode.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct HistoryFacts {
    /// The changes, oldest first, each as `zebu history --json` prints it.
    pub changes: Vec<serde_json::Value>,
    /// Whether the logs that were read have older changes, too.
    pub is_cut: bool,
    /// The first transaction that was read.
    pub first: Option<Zxid>,
    /// How many older logs were not read.
    pub unread_logs: usize,
    /// What is damaged or cannot be read.
    pub errors: Vec<String>,
}

/// A leader hands over to a server that the request names.
pub type HandingOver<'s> = Pin<Box<dyn Future<Output = Result<ServerId, String>> + Send + 's>>;

/// The reason why a command is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Denied {
    /// No scheme of that name, or it refuses the credentials.
    #[error("Not authenticated")]
    Unknown,
    /// A permission on `/` is missing.
    #[error("Not authorized")]
    Forbidden,
}

/// What became of the wish to do something to a session or its connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ended {
    /// It is done, or is on its way.
    Done,
    /// There is none.
    Unknown,
    /// Only the leader can do it. Contains the leader, if there is one.
    Elsewhere(Option<ServerId>),
}

/// A snapshot on the disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SnapshotFacts {
    /// Its last transaction.
    pub zxid: Zxid,
    /// When it was written, in seconds since 1970.
    pub taken_s: i64,
}

/// A file of the server's data.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DataFile {
    /// Its name.
    pub name: String,
    /// Its length; that of a log without the room that is not used yet.
    pub bytes: u64,
}

/// A snapshot that was just taken.
#[derive(Debug)]
pub struct TakenSnapshot {
    /// Open for reading, so that nothing that removes it is in the way.
    pub file: File,
    /// Its last transaction when it was begun.
    pub zxid: Zxid,
    /// Its length.
    pub bytes: u64,
}

/// A snapshot that has become the state.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Restored {
    /// The last zxid of the server since.
    pub zxid: Zxid,
    /// The last transaction that is in the snapshot.
    pub snapshot: Zxid,
    /// How many znodes there are.
    pub znodes: usize,
    /// How many sessions live on.
    pub sessions: usize,
    /// Whether the snapshot has a digest.
    pub has_digest: bool,
}

/// Why a snapshot has not become the state.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RestoreDenied {
    /// The server is a member of an ensemble.
    #[error(
        "this server is a member of an ensemble, whose other members would keep another state; \
         stop all members, and restore their directories with `zebu restore`"
    )]
    Ensemble,
    /// Another snapshot is being restored.
    #[error("another snapshot is being restored")]
    Busy,
    /// The snapshot is incomplete or damaged.
    #[error("the snapshot cannot be used: {0}")]
    Unusable(String),
    /// The digest in the snapshot differs from that of its znodes.
    #[error(
        "the digest in the snapshot is not that of its znodes: transactions were applied while it was taken, or it is damaged; \
         with ?fuzzy=true it is restored all the same"
    )]
    Fuzzy,
    /// The server stops.
    #[error("this server is stopping")]
    Stops,
    /// Another reason, as a text for the user.
    #[error("{0}")]
    Failed(String),
}

/// An ensemble as one member sees it.
#[derive(Debug, Clone)]
pub struct EnsembleFacts {
    /// This member.
    pub me: ServerId,
    /// The committed configuration.
    pub members: Arc<Membership>,
    /// The leader, which may be this member; `None` if this member knows no leader.
    pub leader: Option<ServerId>,
}

/// A learner that is connected to a server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LearnerFacts {
    /// Whether it is an observer.
    pub observes: bool,
    /// Its connection.
    pub connection: ObserverFacts,
    /// What it has acknowledged last; observers acknowledge nothing.
    pub acked: Option<Acked>,
}

impl LearnerFacts {
    /// How many transactions of the epoch of `newest` it has not acknowledged.
    pub fn unacknowledged(&self, newest: Zxid) -> Option<u64> {
        let acked = self.acked?.zxid;
        let newest = newest.max(self.connection.last_zxid);
        let is_same_epoch = acked.epoch() == newest.epoch();
        is_same_epoch.then(|| newest.0.saturating_sub(acked.0).max(0).unsigned_abs())
    }
}

/// The last acknowledgement of a follower.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Acked {
    /// The transaction that it has on its disk, with all before.
    pub zxid: Zxid,
    /// How long ago the acknowledgement came.
    pub age: Duration,
}

/// The connection of a learner, such as an observer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ObserverFacts {
    /// Where its connection comes from.
    pub remote: std::net::SocketAddr,
    /// Its id.
    pub server: ServerId,
    /// When it connected, ms since 1970.
    pub established_ms: i64,
    /// Packets that wait for its socket.
    pub queued_packets: u64,
    /// Bytes of them.
    pub queued_bytes: u64,
    /// Packets that came from it.
    pub packets_received: u64,
    /// Packets that were sent to it.
    pub packets_sent: u64,
    /// Requests that came from it.
    pub requests: u64,
    /// The last transaction that was sent to it.
    pub last_zxid: Zxid,
}

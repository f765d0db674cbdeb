//! The facts and operations of a server that the admin server needs beside those of the four-letter
//! words.

use std::error::Error;
use std::fs::File;
use std::future::Future;
use std::io;
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

/// A server as HTTP shows it.
///
/// Most methods only read. The others do exactly what the commands of the same name do.
pub trait Served: Facts + Send + Sync + 'static {
    /// The configuration.
    fn config(&self) -> Option<&Config> {
        None
    }
    /// The progress of the write path.
    fn progress(&self) -> Progress;
    /// Files whose damage was found while the server runs, each as a sentence.
    fn damaged_files(&self) -> Vec<String>;
    /// Resets the statistics of the server (`stat_reset`).
    fn reset_stats(&self);
    /// Resets the statistics of all connections (`connection_stat_reset`).
    fn reset_connections(&self);
    /// Resets the statistics of the observers' connections (`observer_connection_stat_reset`).
    fn reset_observers(&self);
    /// Sets the mask for `get_trace_mask`.
    fn set_trace_mask(&self, mask: i64);
    /// Histograms of times for the Prometheus page.
    fn histograms(&self) -> Option<&Histograms> {
        None
    }
    /// Limited resources: the setting, the used amount, and the limit.
    fn limits(&self) -> Vec<(&'static str, u64, u64)> {
        Vec::new()
    }
    /// Updates the list of sessions for [`Facts::session_buckets`], unless that takes long.
    fn renew_sessions(&self) -> Pin<Box<dyn Future<Output = ()> + Send + '_>>;
    /// The newest snapshot on the disk.
    fn last_snapshot(&self) -> Option<SnapshotFacts>;
    /// The ensemble, if the server is a member.
    fn ensemble(&self) -> Option<EnsembleFacts>;
    /// The connected observers of a server that serves observers.
    fn observers(&self) -> Vec<ObserverFacts>;
    /// The connected learners of a server that has learners, including observers.
    fn learners(&self) -> Vec<LearnerFacts>;
    /// At most `most` paths of a session's ephemerals.
    fn ephemerals_of(&self, session: SessionId, most: usize) -> Vec<String>;
    /// Ends a session as if it had expired.
    fn end_session(&self, session: SessionId) -> Ended;
    /// Closes the connection of a session. The session stays.
    fn end_connection(&self, session: SessionId) -> Ended;
    /// Resets the statistics of the connection of a session.
    fn reset_connection(&self, session: SessionId) -> Ended;
    /// Hands over to `to`, or to the best follower. Waits until this server does not lead any more.
    ///
    /// # Errors
    /// The reason for a refusal.
    fn hand_over(&self, to: Option<ServerId>) -> HandingOver<'_>;
    /// Whether this client with these credentials has every permission on `/`. Waits for a slow
    /// scheme.
    ///
    /// # Errors
    /// The reason for a refusal.
    fn authorize<'s>(
        &'s self,
        client: &'s Client,
        scheme: &'s str,
        data: &'s str,
    ) -> Pin<Box<dyn Future<Output = Result<(), Denied>> + Send + 's>>;
    /// Opens a session inside this process for this client. The session has the identities of the
    /// client's address and certificate.
    ///
    /// # Errors
    /// The reason for a refusal.
    fn open_session<'s>(&'s self, client: &'s Client) -> Opening<'s>;
    /// Takes a snapshot. Blocks, perhaps for a long time.
    ///
    /// # Errors
    /// Why there is no snapshot.
    fn take_snapshot(&self) -> Result<TakenSnapshot, NotTaken>;
    /// Replaces the state of a standalone server by the snapshot from `source`. Blocks. `fuzzy`:
    /// whether to accept a snapshot whose digest differs.
    ///
    /// # Errors
    /// Why the state was not replaced.
    fn restore(&self, source: &mut dyn io::Read, fuzzy: bool) -> Result<Restored, RestoreDenied>;
    /// The logs, sidecars and snapshots on the disk. Blocks.
    ///
    /// # Errors
    /// They cannot be listed.
    fn data_files(&self) -> io::Result<Vec<DataFile>>;
    /// Opens such a file; `None` if there is no file with this name. Blocks.
    ///
    /// # Errors
    /// The file cannot be opened.
    fn open_data_file(&self, name: &str) -> io::Result<Option<(File, u64)>>;
    /// Counts bytes of files and snapshots that were sent. Returns the time until more may be sent,
    /// so that clients do not wait for the disk or the network.
    fn pause_shipping(&self, bytes: u64) -> Duration;
    /// Reads the changes of a znode, and with `below` those of all its descendants, from the logs
    /// on the disk. Blocks for some seconds, and reads slowly enough not to delay clients.
    ///
    /// # Errors
    /// Why there is no history.
    fn history(&self, path: &str, below: bool) -> Result<HistoryFacts, NoHistory>;
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
pub type HandingOver<'s> =
    Pin<Box<dyn Future<Output = Result<ServerId, HandOverDenied>> + Send + 's>>;

/// Why a server does not hand over.
#[derive(Debug, thiserror::Error)]
pub enum HandOverDenied {
    /// Another server leads.
    #[error("only the leader hands over: server.{} leads", .0.0)]
    LedBy(ServerId),
    /// This server does not lead, and no leader is known.
    #[error("only the leader hands over: no leader is known")]
    NoLeader,
    /// The server stops.
    #[error("this server is stopping")]
    Stopping,
    /// The server makes no progress.
    #[error("this server does not answer in time")]
    Late,
    /// The server's own reason.
    #[error(transparent)]
    Refused(Box<dyn Error + Send + Sync>),
}

/// Why there is no snapshot.
#[derive(Debug, thiserror::Error)]
pub enum NotTaken {
    /// The state was replaced while its snapshot was being written.
    #[error("this server's state has been replaced")]
    Replaced,
    /// The snapshot cannot be read.
    #[error(transparent)]
    Unreadable(#[from] io::Error),
    /// The server cannot write it.
    #[error(transparent)]
    Failed(Box<dyn Error + Send + Sync>),
}

/// Why there is no history of a znode.
#[derive(Debug, thiserror::Error)]
pub enum NoHistory {
    /// The program that runs the server reads no logs.
    #[error("this server was started without a reader of its logs")]
    NoReader,
    /// The logs cannot be read.
    #[error(transparent)]
    Failed(Box<dyn Error + Send + Sync>),
}

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

/// The result of an operation on a session or its connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ended {
    /// The operation is done or on its way.
    Done,
    /// There is no such session.
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
    /// Its length; for a log without the preallocated rest.
    pub bytes: u64,
}

/// A snapshot that was just taken.
#[derive(Debug)]
pub struct TakenSnapshot {
    /// The open file. It stays readable even if the file is removed.
    pub file: File,
    /// The last transaction before the snapshot was begun.
    pub zxid: Zxid,
    /// Its length.
    pub bytes: u64,
}

/// A snapshot that has replaced the state.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Restored {
    /// The last zxid of the server afterwards.
    pub zxid: Zxid,
    /// The last transaction in the snapshot.
    pub snapshot: Zxid,
    /// The number of znodes.
    pub znodes: usize,
    /// The number of sessions that continue.
    pub sessions: usize,
    /// Whether the snapshot has a digest.
    pub has_digest: bool,
}

/// Why a snapshot has not replaced the state.
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
    /// The server is stopping.
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
    /// The last acknowledgement. Observers acknowledge nothing.
    pub acked: Option<Acked>,
}

impl LearnerFacts {
    /// The number of transactions in the epoch of `newest` that it has not acknowledged.
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
    /// The last transaction on the follower's disk.
    pub zxid: Zxid,
    /// The age of the acknowledgement.
    pub age: Duration,
}

/// The connection of a learner, such as an observer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ObserverFacts {
    /// The address from which it connected.
    pub remote: std::net::SocketAddr,
    /// Its id.
    pub server: ServerId,
    /// The time at which it connected, in ms since 1970.
    pub established_ms: i64,
    /// Packets that wait for its socket.
    pub queued_packets: u64,
    /// The bytes of those packets.
    pub queued_bytes: u64,
    /// Packets received from the learner.
    pub packets_received: u64,
    /// Packets sent to the learner.
    pub packets_sent: u64,
    /// Requests received from the learner.
    pub requests: u64,
    /// The last transaction that was sent to it.
    pub last_zxid: Zxid,
}

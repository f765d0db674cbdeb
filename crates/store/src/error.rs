//! Errors of the disk, and errors in its content.

use std::error::Error;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use zebu_jute::DecodeError;
use zebu_proto::{Epoch, Zxid};

/// Storage that cannot be opened, trusted or written.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// A directory is missing and must not be created, or cannot be created or written.
    #[error("data directory is not usable: {path}")]
    Directory {
        /// The directory.
        path: PathBuf,
        /// The reason.
        #[source]
        source: io::Error,
    },
    /// A log in the directory of snapshots, or a snapshot in that of logs, where the two are
    /// separate.
    #[error(
        "{what} found in the wrong directory: {path}\n\
         hint: dataDir holds snapshots and dataLogDir holds logs; move the file, or check whether \
         the two were swapped"
    )]
    Misplaced {
        /// The file.
        path: PathBuf,
        /// The kind of file.
        what: &'static str,
    },
    /// Another server uses the directory.
    #[error("another server is using this directory: {path}")]
    Locked {
        /// The directory.
        path: PathBuf,
    },
    /// Durable data is missing or changed.
    #[error(transparent)]
    Damaged(Box<Damage>),
    /// There are logs, but no snapshot before them.
    #[error(
        "no snapshot found, but there are logs: {path}\n\
         hint: if the logs are complete from the first transaction on, start once with \
         zookeeper.snapshot.trust.empty=true"
    )]
    SnapshotMissing {
        /// The directory without a snapshot.
        path: PathBuf,
    },
    /// There are snapshots, but none is readable.
    #[error(
        "no snapshot can be read: {path}: {reason}\n\
         hint: restore version-2 from a backup or from another server"
    )]
    SnapshotsRejected {
        /// The newest snapshot.
        path: PathBuf,
        /// The fault.
        reason: String,
    },
    /// The state refuses a transaction.
    #[error("{path}: transaction {zxid} at offset {offset} cannot be replayed: {reason}")]
    Replay {
        /// The log.
        path: PathBuf,
        /// Offset of its record.
        offset: u64,
        /// Its zxid.
        zxid: Zxid,
        /// The reason.
        reason: Refused,
    },
    /// The epoch file contradicts the other files.
    #[error("{path}: {reason}")]
    Epoch {
        /// The file.
        path: PathBuf,
        /// The fault.
        reason: String,
    },
    /// A transaction must be logged before any snapshot is durable. The original could not load
    /// such a log.
    #[error("no snapshot is durable yet: write one before the first transaction")]
    SnapshotFirst,
    /// The state was replaced while its snapshot was being written, so the snapshot is discarded.
    #[error("the state was replaced while its snapshot was being written: {path}")]
    Superseded {
        /// The snapshot.
        path: PathBuf,
    },
    /// A snapshot of a member's untrusted state is refused: the next start would trust it.
    #[error("only a leader's snapshot may become the state of this member: {path}")]
    Untrusted {
        /// The snapshot.
        path: PathBuf,
    },
    /// The system refused an operation.
    #[error("{action} failed: {path}")]
    Io {
        /// The operation.
        action: &'static str,
        /// The file or directory.
        path: PathBuf,
        /// The cause.
        #[source]
        source: io::Error,
    },
    /// An earlier write or sync failed, so the content of the disk is unknown.
    #[error("the log cannot be used any more, it failed before: {first}")]
    Poisoned {
        /// The first failure.
        first: String,
    },
}

impl StoreError {
    /// For `map_err`: the system refused `action` on `path`.
    pub(crate) fn io<'a>(
        action: &'static str,
        path: &'a Path,
    ) -> impl FnOnce(io::Error) -> Self + use<'a> {
        move |source| Self::Io { action, path: path.to_path_buf(), source }
    }
}

impl StoreError {
    /// The damage, if the error is about damage.
    pub(crate) fn damage(&self) -> Option<Damage> {
        let whole = |path: &Path, what| Damage {
            path: path.to_path_buf(),
            offset: 0,
            last: Zxid::ZERO,
            what,
        };
        Some(match self {
            Self::Damaged(damage) => (**damage).clone(),
            Self::SnapshotMissing { path } => whole(path, DamageKind::SnapshotMissing),
            Self::SnapshotsRejected { path, .. } => whole(path, DamageKind::SnapshotsRejected),
            Self::Replay { path, offset, zxid, .. } => {
                Damage { offset: *offset, ..whole(path, DamageKind::Replay(*zxid)) }
            }
            _ => return None,
        })
    }
}

impl From<Damage> for StoreError {
    fn from(damage: Damage) -> Self {
        Self::Damaged(Box::new(damage))
    }
}

/// Why a state that is rebuilt refuses what it is given.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Refused {
    /// A record that may not come here.
    #[error("{0}")]
    OutOfPlace(&'static str),
    /// Bytes that are no transaction.
    #[error(transparent)]
    Txn(#[from] DecodeError),
    /// A fault that the state itself has found.
    #[error(transparent)]
    State(Arc<dyn Error + Send + Sync>),
}

impl Refused {
    /// For `map_err`: a fault that the state itself has found.
    pub fn state(fault: impl Error + Send + Sync + 'static) -> Self {
        Self::State(Arc::new(fault))
    }
}

/// Durable data that is missing or changed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "damaged: {path}, offset {offset}, last good transaction {last}: {what}\n\
     hint: restore version-2 from a backup or from another server; to go on without what is lost, \
     copy the directory away and start once with zebu.acceptDamagedLog=true"
)]
pub struct Damage {
    /// The file.
    pub path: PathBuf,
    /// Offset of the damage in bytes; 0 for a whole file.
    pub offset: u64,
    /// The last transaction before it.
    pub last: Zxid,
    /// The kind of damage.
    pub what: DamageKind,
}

/// How durable data is damaged.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum DamageKind {
    /// A record does not match its checksum.
    #[error("checksum mismatch")]
    Checksum,
    /// A record's length is impossible.
    #[error("unreasonable record length {0}")]
    Length(i32),
    /// The file has no log header.
    #[error("this is not a transaction log")]
    Header,
    /// A file without any content.
    #[error("the file is empty, and later logs follow it")]
    Empty,
    /// The records end before the durable end in the sidecar.
    #[error("the log ends here, but was durable up to offset {end} and transaction {last}")]
    Short {
        /// The durable end.
        end: u64,
        /// The last durable transaction.
        last: Zxid,
    },
    /// The records are complete, but differ from those the sidecar vouches for.
    #[error("the records up to here are not those that were written")]
    Chain,
    /// A record follows the end of a sealed log.
    #[error("the log was complete before this record, with transaction {last}")]
    BehindEnd {
        /// The last transaction of the sealed log.
        last: Zxid,
    },
    /// More data follows the end of the records.
    #[error("the log ends here, but there is more data at offset {0}")]
    MoreFollows(u64),
    /// Transactions are missing between two records.
    #[error("transactions up to {next} are missing")]
    Gap {
        /// The first transaction after the gap.
        next: Zxid,
    },
    /// The log of a sidecar is missing.
    #[error("the log with transactions up to {last} is missing")]
    LogMissing {
        /// The last transaction it had.
        last: Zxid,
    },
    /// An unreadable snapshot has a later state than the logs reach.
    #[error("this snapshot cannot be read, and the logs end before its transaction {0}")]
    Unreached(Zxid),
    /// The disk reports a read error.
    #[error("the disk cannot read it")]
    Unreadable,
    /// There are logs, but no snapshot before them.
    #[error("there are logs, but no snapshot that they continue")]
    SnapshotMissing,
    /// There are snapshots, but none is readable.
    #[error("no snapshot can be read")]
    SnapshotsRejected,
    /// The state refuses a transaction.
    #[error("transaction {0} cannot be replayed")]
    Replay(Zxid),
    /// A pending truncation cannot be finished: the remaining data do not end at this transaction.
    #[error(
        "an interrupted truncation cannot be completed: the remaining log does not end at transaction {0}"
    )]
    TruncationLost(Zxid),
    /// This member has followed a leader before, but has neither snapshot nor log.
    #[error("this member was in epoch {}, and there is neither snapshot nor log", .0.0)]
    HistoryMissing(Epoch),
}

/// A warning for the operator; the start continues.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Warning {
    /// An unreadable snapshot was skipped.
    #[error("snapshot cannot be used: {path}: {reason}")]
    SnapshotRejected {
        /// The file.
        path: PathBuf,
        /// The fault.
        reason: String,
    },
    /// Damage was accepted as configured.
    #[error("damage accepted, transactions may be lost: {0}")]
    DamageAccepted(Damage),
    /// A log of the original repeats zxids or goes back.
    #[error("{path}: the zxids of {records} records are not above the zxid before them")]
    NotAdvancing {
        /// The log.
        path: PathBuf,
        /// Number of such records.
        records: u64,
    },
    /// A new epoch does not start with its first transaction.
    #[error("{path}: the first transaction of its epoch in this log is {zxid}")]
    EpochStart {
        /// The log.
        path: PathBuf,
        /// The record's zxid.
        zxid: Zxid,
    },
    /// A sidecar is unreadable, or vouches for no record.
    #[error(
        "{path}: unusable sidecar; its log is checked as ZooKeeper checks a log, without the sidecar"
    )]
    SidecarUnusable {
        /// The file.
        path: PathBuf,
    },
    /// An empty log was removed.
    #[error("empty log removed: {path}")]
    EmptyLogRemoved {
        /// The file.
        path: PathBuf,
    },
    /// The original would load a file of this name, but this server ignores it.
    #[error("not a log or snapshot of a server, ignored: {path}\nhint: the original would load it")]
    ForeignFile {
        /// The file.
        path: PathBuf,
    },
    /// The state refuses a transaction; another message says what happens.
    #[error("{path}: transaction {zxid} cannot be replayed: {reason}")]
    NotReplayable {
        /// The log.
        path: PathBuf,
        /// Its zxid.
        zxid: Zxid,
        /// The reason.
        reason: String,
    },
    /// An interrupted truncation was finished.
    #[error(
        "all transactions after {0} were truncated, as a leader had requested before the last stop"
    )]
    TruncationFinished(Zxid),
    /// An interrupted installation of a leader's snapshot was finished.
    #[error("completed an interrupted snapshot transfer: {path} replaces the older data")]
    InstallationFinished {
        /// The snapshot.
        path: PathBuf,
    },
    /// The state was rebuilt from logs alone, because no snapshot could be used.
    #[error("no snapshot was used: all transactions were replayed from the first on")]
    NoSnapshot,
}

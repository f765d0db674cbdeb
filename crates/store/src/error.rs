//! What can be wrong with a disk, or with what is on it.

use std::io;
use std::path::{Path, PathBuf};

use zebu_proto::{Epoch, Zxid};

/// Storage that cannot be opened, trusted or written.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// A directory is missing and must not be created, or cannot be created or written.
    #[error("data directory is not usable: {path}")]
    Directory {
        /// The directory.
        path: PathBuf,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// A log among the snapshots, or a snapshot among the logs, while the two have directories of
    /// their own.
    #[error(
        "{what} found in the wrong directory: {path}\n\
         hint: dataDir holds snapshots and dataLogDir holds logs; move the file, or check whether \
         the two were swapped"
    )]
    Misplaced {
        /// The file.
        path: PathBuf,
        /// What it is.
        what: &'static str,
    },
    /// Another server has the directory.
    #[error("another server is using this directory: {path}")]
    Locked {
        /// The directory.
        path: PathBuf,
    },
    /// What was durable once is gone or changed.
    #[error(transparent)]
    Damaged(Box<Damage>),
    /// There are logs, but no snapshot that they continue.
    #[error(
        "no snapshot found, but there are logs: {path}\n\
         hint: if the logs are complete from the first transaction on, start once with \
         zookeeper.snapshot.trust.empty=true"
    )]
    SnapshotMissing {
        /// The directory that should have one.
        path: PathBuf,
    },
    /// There are snapshots, and none can be read.
    #[error(
        "no snapshot can be read: {path}: {reason}\n\
         hint: restore version-2 from a backup or from another server"
    )]
    SnapshotsRejected {
        /// The newest.
        path: PathBuf,
        /// What is wrong with it.
        reason: String,
    },
    /// A transaction that the state does not accept.
    #[error("{path}: transaction {zxid} at offset {offset} cannot be replayed: {reason}")]
    Replay {
        /// The log.
        path: PathBuf,
        /// Where its record starts.
        offset: u64,
        /// Which one.
        zxid: Zxid,
        /// What the state says.
        reason: String,
    },
    /// An epoch file that cannot be, given the other files.
    #[error("{path}: {reason}")]
    Epoch {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        reason: String,
    },
    /// A transaction was to be logged before a snapshot was durable; such a log could not be
    /// loaded by the original.
    #[error("no snapshot is durable yet: write one before the first transaction")]
    SnapshotFirst,
    /// A snapshot was begun of a state that has been replaced meanwhile: it must not be kept.
    #[error("the state was replaced while its snapshot was being written: {path}")]
    Superseded {
        /// The snapshot.
        path: PathBuf,
    },
    /// A snapshot of a member's state that is not to be trusted: the next start would trust it.
    #[error("only a leader's snapshot may become the state of this member: {path}")]
    Untrusted {
        /// The snapshot.
        path: PathBuf,
    },
    /// The system refused.
    #[error("{action} failed: {path}")]
    Io {
        /// What was tried.
        action: &'static str,
        /// On what.
        path: PathBuf,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// An earlier write or sync failed, so nobody knows what the disk holds.
    #[error("the log cannot be used any more, it failed before: {first}")]
    Poisoned {
        /// What failed.
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
    /// What is damaged, when that is what the error is about.
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

/// Durable data that is gone or changed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "damaged: {path}, offset {offset}, last good transaction {last}: {what}\n\
     hint: restore version-2 from a backup or from another server; to go on without what is lost, \
     copy the directory away and start once with zebu.acceptDamagedLog=true"
)]
pub struct Damage {
    /// The file.
    pub path: PathBuf,
    /// Where it starts, in bytes; 0 for a file as a whole.
    pub offset: u64,
    /// The last transaction before it.
    pub last: Zxid,
    /// What is wrong there.
    pub what: DamageKind,
}

/// How durable data is damaged.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum DamageKind {
    /// A record's content is not what its checksum says.
    #[error("checksum mismatch")]
    Checksum,
    /// A record's length is impossible.
    #[error("unreasonable record length {0}")]
    Length(i32),
    /// The file does not start as a log does.
    #[error("this is not a transaction log")]
    Header,
    /// A file without any content.
    #[error("the file is empty, and later logs follow it")]
    Empty,
    /// Records end before the place up to which the sidecar says they were durable.
    #[error("the log ends here, but was durable up to offset {end} and transaction {last}")]
    Short {
        /// Where they ended once.
        end: u64,
        /// The last one of them.
        last: Zxid,
    },
    /// The records are whole, but not those the sidecar tells of.
    #[error("the records up to here are not those that were written")]
    Chain,
    /// Records end, and more data follows.
    #[error("the log ends here, but there is more data at offset {0}")]
    MoreFollows(u64),
    /// Transactions are missing between two records.
    #[error("transactions up to {next} are missing")]
    Gap {
        /// The first one after them.
        next: Zxid,
    },
    /// The log that a sidecar stands beside is gone.
    #[error("the log with transactions up to {last} is gone")]
    LogMissing {
        /// The last one it had.
        last: Zxid,
    },
    /// A snapshot of a later state exists, but cannot be read, and the logs do not reach that state.
    #[error("this snapshot cannot be read, and the logs end before its transaction {0}")]
    Unreached(Zxid),
    /// The disk cannot read it.
    #[error("the disk cannot read it")]
    Unreadable,
    /// There are logs, but no snapshot that they continue.
    #[error("there are logs, but no snapshot that they continue")]
    SnapshotMissing,
    /// There are snapshots, and none can be read.
    #[error("no snapshot can be read")]
    SnapshotsRejected,
    /// A transaction that the state does not accept.
    #[error("transaction {0} cannot be replayed")]
    Replay(Zxid),
    /// The logs are to be truncated behind a transaction that what is left does not end at.
    #[error("to be truncated, and what is left does not end at transaction {0}")]
    TruncationLost(Zxid),
    /// This member has followed a leader, and now there is neither snapshot nor log.
    #[error("this member was in epoch {}, and there is neither snapshot nor log", .0.0)]
    HistoryMissing(Epoch),
}

/// Something an operator should hear of, though the start goes on.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Warning {
    /// A snapshot was passed over.
    #[error("snapshot cannot be used: {path}: {reason}")]
    SnapshotRejected {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        reason: String,
    },
    /// Damage was accepted because the configuration says so.
    #[error("damage accepted, transactions may be lost: {0}")]
    DamageAccepted(Damage),
    /// A log that the original wrote repeats zxids or goes back.
    #[error("{path}: {records} records do not advance the zxid")]
    NotAdvancing {
        /// The log.
        path: PathBuf,
        /// How many records.
        records: u64,
    },
    /// The first record of a new epoch is not the first transaction of that epoch.
    #[error("{path}: the first transaction of its epoch in this log is {zxid}")]
    EpochStart {
        /// The log.
        path: PathBuf,
        /// The record's zxid.
        zxid: Zxid,
    },
    /// A sidecar that holds nothing readable, or vouches for no record.
    #[error("sidecar cannot be used, its log is checked as the original's: {path}")]
    SidecarUnusable {
        /// The file.
        path: PathBuf,
    },
    /// A log was empty and has been removed.
    #[error("empty log removed: {path}")]
    EmptyLogRemoved {
        /// The file.
        path: PathBuf,
    },
    /// A name the original would take for one of its own files.
    #[error("not a log or snapshot of a server, ignored: {path}\nhint: the original would load it")]
    ForeignFile {
        /// The file.
        path: PathBuf,
    },
    /// The state does not accept a transaction; what to do is said elsewhere.
    #[error("{path}: transaction {zxid} cannot be replayed: {reason}")]
    NotReplayable {
        /// The log.
        path: PathBuf,
        /// Which one.
        zxid: Zxid,
        /// What the state says.
        reason: String,
    },
    /// A truncation that a crash had interrupted was finished.
    #[error(
        "everything behind transaction {0} was taken back: a leader had said so before the last stop"
    )]
    TruncationFinished(Zxid),
    /// The installation of a leader's snapshot that a crash had interrupted was finished.
    #[error("{path} has replaced what was there: a leader had sent it before the last stop")]
    InstallationFinished {
        /// The snapshot.
        path: PathBuf,
    },
    /// All state came from the logs, because no snapshot could be used.
    #[error("no snapshot was used: all transactions were replayed from the first on")]
    NoSnapshot,
}

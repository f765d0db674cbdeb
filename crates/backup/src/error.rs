//! Errors of backups, restores and histories.

use std::io;
use std::path::{Path, PathBuf};

use zebu_proto::Causes;
use zebu_proto::Zxid;
use zebu_store::snapshot::read::SnapshotError;
use zebu_store::{Refused, StoreError, names};

use crate::backup::{Mismatch, ServerError};
use crate::manifest::ManifestError;
use crate::repository::{BucketError, KeyError};
use crate::source::LogDamage;

/// The result of functions of this crate.
pub(crate) type Result<T = (), E = BackupError> = std::result::Result<T, E>;

/// Something that cannot be backed up, restored or shown.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BackupError {
    /// The arguments of the command contradict each other.
    #[error("{0}")]
    Usage(String),
    /// The connection settings in the arguments cannot be used.
    #[error(transparent)]
    Credentials(#[from] zebu_credentials::Failure),
    /// A file or a directory cannot be read, written or removed.
    #[error("{}: {source}", path.display())]
    File {
        /// The file or directory.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// The caller cannot write the output.
    #[error("{0}")]
    Output(#[source] io::Error),
    /// Damage that the available data cannot repair.
    #[error("{}: {what}", path.display())]
    Unrepairable {
        /// The file or directory.
        path: PathBuf,
        /// Why.
        what: String,
    },
    /// A live ensemble does not answer, or refuses.
    #[error("{servers}: {error}")]
    Ensemble {
        /// The servers, as clients name them.
        servers: String,
        /// The failure.
        error: Box<zebu_client::Error>,
    },
    /// A restore would overwrite or delete existing data.
    #[error(
        "{count} znodes in {subtree} would be overwritten or deleted\nhint: nothing was changed; --over permits it"
    )]
    Overwrites {
        /// The subtree.
        subtree: String,
        /// The number of such changes.
        count: usize,
    },
    /// A restore ended before its last change.
    #[error(
        "{subtree}: stopped after {done} of {of} changes: {error}\nhint: run again: what is done is not done twice"
    )]
    Stopped {
        /// The subtree.
        subtree: String,
        /// How many changes were made.
        done: usize,
        /// The number of all changes.
        of: usize,
        /// Why.
        error: Box<zebu_client::Error>,
    },
    /// Another client has changed restored znodes.
    #[error(
        "{subtree}: {count} znodes were changed by another client meanwhile\nhint: run again to see which"
    )]
    ChangedMeanwhile {
        /// The subtree.
        subtree: String,
        /// The number of znodes.
        count: usize,
    },
    /// The logs cannot be read within the time limit.
    #[error("the logs were not read to their end in {} s", .0.as_secs())]
    TooLong(std::time::Duration),
    /// A file system without hard links.
    #[error(
        "{}: {source}\nhint: the file system of a backup has to support hard links",
        path.display()
    )]
    Link {
        /// The file that gets a second name.
        path: PathBuf,
        /// The cause.
        source: io::Error,
    },
    /// A directory is no data directory.
    #[error(
        "{}: no data directory of a server: it has neither {} nor logs or snapshots",
        .0.display(), names::VERSION_DIR
    )]
    NoDataDir(PathBuf),
    /// A directory has no manifests.
    #[error("{}: no backup: it has no directory manifests", .0.display())]
    NoBackup(PathBuf),
    /// A bucket cannot be used.
    #[error("{}: {source}", path.display())]
    Bucket {
        /// The bucket or the object.
        path: PathBuf,
        /// Why.
        source: BucketError,
    },
    /// A backup cannot be encrypted or decrypted.
    #[error("{}: {source}", path.display())]
    Key {
        /// The file of keys, the backup, or a file of it.
        path: PathBuf,
        /// Why.
        source: KeyError,
    },
    /// `--number` is given for a directory that is no backup.
    #[error("--number is for a backup: {0}")]
    NumberOfNone(#[source] Box<Self>),
    /// A repository without backups.
    #[error("{0}: there is no backup in it yet")]
    Empty(String),
    /// Another process is making a backup in the same repository.
    #[error(
        "{0}: another process is making a backup there\nhint: nothing was changed; run again when it has ended"
    )]
    Busy(String),
    /// Another process has made a backup with the same number in spite of the lock.
    #[error(
        "{repository}: backup {number} was made by another process at the same time\nhint: nothing of it was changed; run again"
    )]
    Taken {
        /// The repository.
        repository: String,
        /// The number.
        number: u64,
    },
    /// A manifest is damaged.
    #[error("{}: damaged manifest: {source}", path.display())]
    Manifest {
        /// The file.
        path: PathBuf,
        /// Why.
        source: ManifestError,
    },
    /// The number in a manifest differs from that in its file name.
    #[error("{}: it is the manifest of backup {number}", path.display())]
    OtherManifest {
        /// The file.
        path: PathBuf,
        /// The number in the manifest.
        number: u64,
    },
    /// A file that the manifest of a backup does not name.
    #[error("{}: a file of another backup", .0.display())]
    Foreign(PathBuf),
    /// The source does not continue the last backup.
    #[error(
        "{of}: {mismatch}\nhint: nothing was changed; --anew begins a new history beside the old one, which stays restorable by \
         its number"
    )]
    Mismatch {
        /// The source.
        of: String,
        /// Why.
        mismatch: Mismatch,
    },
    /// The backup was made, but old backups could not be removed.
    #[error("the backup is complete, but old backups were not removed: {0}")]
    Prune(#[source] Box<Self>),
    /// A file was removed or changed while it was copied.
    #[error("{}: {what} while it was copied\nhint: run again", path.display())]
    Moved {
        /// The file.
        path: PathBuf,
        /// The failure.
        what: &'static str,
    },
    /// A server has sent no snapshot.
    #[error("snapshot of {address}: {source}")]
    Server {
        /// The server.
        address: String,
        /// Why.
        source: ServerError,
    },
    /// The data from a server are not a snapshot.
    #[error("what {address} has sent is no snapshot: {source}")]
    Sent {
        /// The server.
        address: String,
        /// Why.
        source: SnapshotError,
    },
    /// A file lacks the expected credential.
    #[error("{}: {what}", path.display())]
    Credential {
        /// The file.
        path: PathBuf,
        /// The fault.
        what: String,
    },
    /// A snapshot cannot be read, or is damaged.
    #[error("{}: {source}", path.display())]
    Snapshot {
        /// The file.
        path: PathBuf,
        /// Why.
        source: SnapshotError,
    },
    /// A log is damaged, so it is not backed up.
    #[error(
        "{}: {damage}\nhint: no backup was made; take it from another member, or let this server repair its log first",
        path.display()
    )]
    DamagedLog {
        /// The log.
        path: PathBuf,
        /// The damage.
        damage: LogDamage,
    },
    /// The end of a source is damaged, so its last transaction is unknown.
    #[error(
        "{damage}\nhint: --to {last} restores what comes before the damage; another member or a backup may have the rest"
    )]
    DamagedEnd {
        /// The log, and the position in it.
        damage: String,
        /// The last transaction before the damage.
        last: Zxid,
    },
    /// A transaction of a log cannot be decoded or applied.
    #[error("{}: transaction {zxid}: {reason}", path.display())]
    Txn {
        /// The log.
        path: PathBuf,
        /// The transaction.
        zxid: Zxid,
        /// Why.
        reason: Refused,
    },
    /// A log was removed while it was read.
    #[error("{}: removed meanwhile", .0.display())]
    Gone(PathBuf),
    /// The source ends before the wanted transaction.
    #[error("{source_name}: it ends with transaction {last}, before {wanted}")]
    EndsBefore {
        /// The source.
        source_name: String,
        /// Its last transaction.
        last: Zxid,
        /// The wanted transaction.
        wanted: Zxid,
    },
    /// The source begins after the wanted time.
    #[error("{source_name}: no transaction in it was made before {time}")]
    BeginsAfter {
        /// The source.
        source_name: String,
        /// The wanted time.
        time: String,
    },
    /// No snapshot and logs reach the wanted transaction.
    #[error("{source_name}: no snapshot and logs reach transaction {wanted}:\n{reasons}")]
    Unreachable {
        /// The source.
        source_name: String,
        /// The wanted transaction.
        wanted: Zxid,
        /// Why each snapshot cannot be used, one line each.
        reasons: String,
    },
    /// The directory for a restore is not empty.
    #[error(
        "{}: not empty: it has {found}\nhint: nothing was changed; a restore needs a new or empty directory",
        path.display()
    )]
    NotEmpty {
        /// The directory.
        path: PathBuf,
        /// A file in it.
        found: String,
    },
    /// Reading the restored snapshot back gives different data.
    #[error("{}: reading it back gives other data than were written", .0.display())]
    NotWritten(PathBuf),
    /// The files of the restored data directory cannot be written.
    #[error("{}", Causes(.0))]
    Store(#[from] StoreError),
}

/// Adds a file's name to its error.
pub(crate) trait At<T> {
    /// The result with this file in its error.
    fn at(self, path: &Path) -> Result<T>;
}

impl<T> At<T> for io::Result<T> {
    fn at(self, path: &Path) -> Result<T> {
        self.map_err(|source| BackupError::File { path: path.to_owned(), source })
    }
}

impl<T> At<T> for std::result::Result<T, SnapshotError> {
    fn at(self, path: &Path) -> Result<T> {
        self.map_err(|source| BackupError::Snapshot { path: path.to_owned(), source })
    }
}

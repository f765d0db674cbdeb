//! The reasons why a server cannot start, and why a running server has to stop.

use std::collections::BTreeSet;
use std::io;
use std::path::PathBuf;

use zebu_admin::BindError;
use zebu_engine::Failed;
use zebu_engine::journal::JobError;
use zebu_proto::Causes;
use zebu_proto::ServerId;
use zebu_replica::auth::UnknownAlgorithm;
use zebu_state::membership::ConfigError;
use zebu_store::{Refused, StoreError};

/// Why a server does not start.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StartError {
    /// A scheme that clients must use is missing.
    #[error("enforce.auth.schemes names {0}, which has no authentication provider")]
    NoProvider(String),
    /// The setting names no known algorithm for the scheme `digest`.
    #[error(transparent)]
    Algorithm(#[from] UnknownAlgorithm),
    /// The files on the disk cannot be used.
    #[error(transparent)]
    Data(#[from] StoreError),
    /// The data on the disk are no valid tree.
    #[error(transparent)]
    Tree(#[from] BuildError),
    /// There is no database where one must be.
    #[error(
        "{}: the database is empty and db.autocreate is false\n\
         hint: restore version-2 from a backup, or create a file named initialize beside it",
        .0.display()
    )]
    Empty(PathBuf),
    /// The configuration has other voters than the ensemble of these data, and more than one.
    #[error(
        "{origin}: the data belong to an ensemble with voters {then:?}, but the configuration names {now:?}: \
         changing more than one voter at a time can lose acknowledged writes\n\
         hint: change one server at a time, or use reconfig (reconfigEnabled=true); \
         zebu.acceptMembers=true skips this check"
    )]
    OtherVoters {
        /// The source of the configuration.
        origin: String,
        /// The voters when the data were written.
        then: BTreeSet<i64>,
        /// The voters in the configuration.
        now: BTreeSet<i64>,
    },
    /// The data belong to a member of an ensemble, but the configuration names no other servers.
    #[error(
        "{}: the data belong to an ensemble with voters {then:?}, but this server would run alone: \
         the other members would never receive the writes that it acknowledges\n\
         hint: add the server lines of the ensemble; \
         zebu.acceptMembers=true skips this check",
        file.display()
    )]
    WithoutEnsemble {
        /// The configuration, or the data directory.
        file: PathBuf,
        /// The voters when the data were written.
        then: BTreeSet<i64>,
    },
    /// The files of the configuration cannot be written.
    #[error(transparent)]
    Configuration(#[from] ConfigError),
    /// The epoch files cannot be read.
    #[error("the epochs of this server cannot be used")]
    Epochs(#[source] StoreError),
    /// The file with the newest transaction that this server knows to be committed cannot be read.
    #[error("the list of committed transactions that this server knows cannot be read")]
    Committed(#[source] StoreError),
    /// The file with the id of the ensemble cannot be read or written.
    #[error("the id of this server's ensemble cannot be read or written")]
    Ensemble(#[source] StoreError),
    /// The system provides no random bytes for an id.
    #[error("the system gives no random bytes for the id of an ensemble")]
    NoRandomBytes,
    /// The configuration does not name this server.
    #[error("this server, {}, is not in its own configuration", .0.0)]
    NotAMember(ServerId),
    /// The host name of an address cannot be resolved.
    #[error("{0} has no addresses")]
    NoAddress(&'static str),
    /// The certificates of a port for TLS.
    #[error("TLS for clients")]
    Tls(#[from] zebu_auth::tls::PortError),
    /// The certificates of this server as a member.
    #[error("TLS between servers")]
    PeerTls(#[source] zebu_auth::tls::PortError),
    /// A section of the JAAS file requires Kerberos, which is not available.
    #[error("{place}: {fault}")]
    Kerberos {
        /// The file, the line and the section.
        place: String,
        /// The missing part.
        fault: String,
    },
    /// The audit log cannot be opened.
    #[error(
        "{}: the audit log cannot be opened: {source}\n\
         hint: zookeeper.log.dir names its directory, audit.enable=false starts without it",
        path.display()
    )]
    AuditLog {
        /// The file.
        path: PathBuf,
        /// The reason.
        source: io::Error,
    },
    /// The server cannot listen on a port.
    #[error("{what}")]
    Listen {
        /// The failed operation.
        what: String,
        /// The reason.
        source: io::Error,
    },
    /// The port of an explicitly enabled admin server cannot be opened.
    #[error("the admin server cannot be started")]
    Admin(#[source] BindError),
    /// The certificates of the admin server cannot be used.
    #[error("TLS of the admin server")]
    AdminTls(#[source] zebu_auth::tls::PortError),
    /// The certificates of the Prometheus page cannot be used.
    #[error("TLS of the Prometheus page")]
    PrometheusTls(#[source] zebu_auth::tls::PortError),
    /// The configuration gives no port for the Prometheus page.
    #[error("the Prometheus page cannot be served")]
    Prometheus(#[source] BindError),
    /// The snapshot that the server writes at its start cannot be written.
    #[error("the first snapshot cannot be written")]
    FirstSnapshot(#[source] SnapshotError),
    /// The system provides no further thread or socket.
    #[error("{what} cannot start")]
    System {
        /// The failed operation.
        what: &'static str,
        /// Its error.
        source: io::Error,
    },
}

impl StartError {
    /// The error and its causes, in one line.
    pub fn in_full(&self) -> String {
        Causes(self).to_string()
    }
}

/// Why no tree can be built from the data on the disk.
#[derive(Clone, Debug, thiserror::Error)]
pub enum BuildError {
    /// The tree refuses a znode.
    #[error("{path}: {fault}")]
    Znode {
        /// The path of the znode.
        path: String,
        /// The reason.
        fault: Refused,
    },
    /// The tree refuses a snapshot as a whole, or a transaction.
    #[error(transparent)]
    Refused(#[from] Refused),
    /// The tree is not built any more.
    #[error("the thread that builds the tree has ended")]
    Ended,
}

/// Why a running server has to stop.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RunError {
    /// The engine cannot continue.
    #[error(transparent)]
    Engine(#[from] Failed),
    /// The transaction log failed.
    #[error("the transaction log {what}")]
    Log {
        /// The failed operation.
        what: &'static str,
        /// Its error.
        source: StoreError,
    },
    /// The epoch files or the configuration cannot be written, or the log cannot be replaced.
    #[error(transparent)]
    Job(#[from] JobError),
    /// A thread has panicked.
    #[error("{0} has panicked")]
    Panicked(&'static str),
    /// A damaged log cannot be repaired.
    #[error("damaged logs cannot be repaired")]
    Repair(#[source] StoreError),
    /// This number of damaged logs has been repaired, and the server must restart with them.
    #[error("{0} damaged logs are repaired; this server restarts to load them")]
    Repaired(usize),
    /// The system reported an error.
    #[error("{what}")]
    System {
        /// The failed operation.
        what: &'static str,
        /// Its error.
        source: io::Error,
    },
}

impl RunError {
    /// Whether the server stops only to restart with repaired logs.
    pub(crate) fn is_repaired(failure: &(dyn std::error::Error + 'static)) -> bool {
        matches!(failure.downcast_ref(), Some(Self::Repaired(_)))
    }

    /// An operation on the transaction log failed.
    pub(crate) fn log(what: &'static str) -> impl FnOnce(StoreError) -> Self {
        move |source| Self::Log { what, source }
    }
}

/// Why no snapshot is taken.
#[derive(Debug, thiserror::Error)]
pub enum SnapshotError {
    /// The server is stopping.
    #[error("the server stops")]
    Stops,
    /// The disk reported an error.
    #[error("a snapshot cannot be {what}")]
    Store {
        /// The failed operation.
        what: &'static str,
        /// Its error.
        source: StoreError,
    },
}

impl SnapshotError {
    /// An operation on a snapshot failed.
    pub(crate) fn store(what: &'static str) -> impl FnOnce(StoreError) -> Self {
        move |source| Self::Store { what, source }
    }
}

#[cfg(test)]
mod tests {
    use zebu_store::room::is_missing;

    use super::*;

    fn failed(kind: io::ErrorKind) -> RunError {
        let (path, source) = (PathBuf::from("/data/log.1"), kind.into());
        let source = StoreError::Io { action: "write", path, source };
        RunError::Log { what: "cannot be written", source }
    }

    #[test]
    fn a_disk_that_takes_no_more_is_told_from_a_broken_one() {
        assert!(is_missing(&failed(io::ErrorKind::StorageFull)));
        assert!(is_missing(&failed(io::ErrorKind::ReadOnlyFilesystem)));
        assert!(!is_missing(&failed(io::ErrorKind::Other)));
        assert!(!is_missing(&RunError::Panicked("the log's thread")));
        let job = JobError::Store(StoreError::Io {
            action: "write",
            path: "/data/currentEpoch".into(),
            source: io::ErrorKind::StorageFull.into(),
        });
        assert!(is_missing(&RunError::Job(job)));
    }
}

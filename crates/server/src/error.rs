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
use zebu_store::StoreError;

/// Why a server does not start.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StartError {
    /// A scheme that clients must use is not there.
    #[error("enforce.auth.schemes names {0}, which has no authentication provider")]
    NoProvider(String),
    /// The algorithm of the scheme `digest` does not exist.
    #[error(transparent)]
    Algorithm(#[from] UnknownAlgorithm),
    /// What is on the disk cannot be used.
    #[error(transparent)]
    Data(#[from] StoreError),
    /// What is on the disk makes no tree.
    #[error("{0}")]
    Tree(String),
    /// There is no database where one must be.
    #[error(
        "{}: the database is empty and db.autocreate is false\n\
         hint: restore version-2 from a backup, or create a file named initialize beside it",
        .0.display()
    )]
    Empty(PathBuf),
    /// The configuration has other voters than the ensemble of these data, and more than one.
    #[error(
        "{origin}: the data are those of an ensemble with voters {then:?}, not {now:?}: \
         to change more than one at a time can lose what was acknowledged\n\
         hint: change one server at a time, or use reconfig (reconfigEnabled=true); \
         zebu.acceptMembers=true starts all the same"
    )]
    OtherVoters {
        /// Where the configuration comes from.
        origin: String,
        /// The voters when the data were written.
        then: BTreeSet<i64>,
        /// The voters now.
        now: BTreeSet<i64>,
    },
    /// These are the data of a member of an ensemble, and the configuration names no other servers.
    #[error(
        "{}: the data are those of an ensemble with voters {then:?}, but this server would run alone: \
         what it acknowledges would be lost to the others\n\
         hint: add the server lines of the ensemble; \
         zebu.acceptMembers=true starts alone all the same",
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
    /// The epochs cannot be read.
    #[error("the epochs of this server cannot be used")]
    Epochs(#[source] StoreError),
    /// What this server knows to be committed cannot be read.
    #[error("the list of committed transactions that this server knows cannot be read")]
    Committed(#[source] StoreError),
    /// What this server knows of the id of its ensemble cannot be read or written.
    #[error("the id of this server's ensemble cannot be read or written")]
    Ensemble(#[source] StoreError),
    /// The system gives no random bytes for an id.
    #[error("the system gives no random bytes for the id of an ensemble")]
    NoRandomBytes,
    /// The configuration does not name this server.
    #[error("this server, {}, is not in its own configuration", .0.0)]
    NotAMember(ServerId),
    /// The name of an address leads nowhere.
    #[error("{0} has no addresses")]
    NoAddress(&'static str),
    /// The certificates of a port for TLS.
    #[error("TLS for clients")]
    Tls(#[from] zebu_auth::tls::PortError),
    /// The certificates of this server as a member.
    #[error("TLS between servers")]
    PeerTls(#[source] zebu_auth::tls::PortError),
    /// A section of the JAAS file asks for Kerberos, which cannot be had.
    #[error("{place}: {fault}")]
    Kerberos {
        /// File, line and section.
        place: String,
        /// What is missing.
        fault: String,
    },
    /// The audit log cannot be opened.
    #[error(
        "{}: the audit log cannot be opened: {source}\n\
         hint: zookeeper.log.dir names its directory, audit.enable=false starts without it",
        path.display()
    )]
    AuditLog {
        /// Which file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// A port cannot be listened on.
    #[error("{what}")]
    Listen {
        /// What cannot be done.
        what: String,
        /// Why.
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
    /// The page for Prometheus has no port.
    #[error("the Prometheus page cannot be served")]
    Prometheus(#[source] BindError),
    /// The snapshot that comes before everything else cannot be written.
    #[error("the first snapshot cannot be written")]
    FirstSnapshot(#[source] SnapshotError),
    /// The system has no thread left, or no socket.
    #[error("{what} cannot start")]
    System {
        /// What.
        what: &'static str,
        /// Why.
        source: io::Error,
    },
}

impl StartError {
    /// The error and what led to it, in one line.
    pub fn in_full(&self) -> String {
        Causes(self).to_string()
    }
}

/// Why a running server has to stop.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RunError {
    /// Its engine cannot continue.
    #[error(transparent)]
    Engine(#[from] Failed),
    /// The transaction log.
    #[error("the transaction log {what}")]
    Log {
        /// What cannot be done.
        what: &'static str,
        /// Why.
        source: StoreError,
    },
    /// Epochs, the configuration, or a log that is made anew.
    #[error(transparent)]
    Job(#[from] JobError),
    /// A thread.
    #[error("{0} has panicked")]
    Panicked(&'static str),
    /// A damaged log cannot be mended.
    #[error("damaged logs cannot be mended")]
    Mending(#[source] StoreError),
    /// So many damaged logs are whole again, and the server has to start anew with them.
    #[error("{0} damaged logs are whole again: the server has to start with them")]
    Mended(usize),
    /// The system.
    #[error("{what}")]
    System {
        /// What cannot be done.
        what: &'static str,
        /// Why.
        source: io::Error,
    },
}

impl RunError {
    /// Whether the server stops only to start again with logs that are whole again.
    pub(crate) fn is_mended(failure: &(dyn std::error::Error + 'static)) -> bool {
        matches!(failure.downcast_ref(), Some(Self::Mended(_)))
    }

    /// Something cannot be done with the transaction log.
    pub(crate) fn log(what: &'static str) -> impl FnOnce(StoreError) -> Self {
        move |source| Self::Log { what, source }
    }
}

/// Why a snapshot is not taken.
#[derive(Debug, thiserror::Error)]
pub enum SnapshotError {
    /// The server stops.
    #[error("the server stops")]
    Stops,
    /// The disk.
    #[error("a snapshot cannot be {what}")]
    Store {
        /// What cannot be done.
        what: &'static str,
        /// Why.
        source: StoreError,
    },
}

impl SnapshotError {
    /// Something cannot be done with a snapshot.
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

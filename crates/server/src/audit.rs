//! The audit log: a line for each change, and for each client that was refused.
//!
//! The thread that runs the replica stores each audited request until its result is known. At the
//! end of a turn it passes all results to the audit log's thread at once. It formats nothing: an
//! [`Event`] shares the bytes of its request and of its transaction, and the audit log's thread
//! formats the line.
//!
//! Source: `AuditHelper.java`, `ZKAuditProvider.java`, `DataTree.deleteNodes`.

mod event;
mod pending;

use std::io;
use std::net::IpAddr;
use std::sync::{Arc, Weak};

use tracing::error;
use zebu_admin::four_letter::Environment;
use zebu_logs::audit::Outcome;
use zebu_logs::queue::{Queue, QueueLimits, ToFile, Watcher, now_ms};
use zebu_logs::rotating::RotatingFile;
use zebu_proto::SessionId;
use zebu_replica::auth::{Credentials, Schemes};

pub use self::pending::Pending;

use self::event::{Event, Names, What};
use crate::config::FileConfig;
use crate::error::StartError;
use crate::logging::rotation;
use crate::shared::Shared;

/// Maximum number of events that wait for the disk.
const WAITING: QueueLimits = QueueLimits { entries: 1 << 17, bytes: 64 << 20 };

/// The audit log of a server.
pub struct Audit {
    queue: Queue<Event>,
    losses: Arc<Losses>,
}

/// The audit log's own warnings and errors.
#[derive(Default)]
struct Losses {
    path: std::path::PathBuf,
    shared: parking_lot::Mutex<Weak<Shared>>,
}

impl Watcher for Losses {
    fn lost(&self, count: u64) {
        if let Some(shared) = self.shared.lock().upgrade() {
            shared.metrics.audit_events_lost.add(count);
        }
    }

    fn failed(&self, failure: &io::Error) {
        error!(
            "the audit log {} cannot be written: {failure}; audit_events_lost counts the missing lines",
            self.path.display()
        );
    }
}

impl Audit {
    /// Opens the file and starts the log's thread.
    ///
    /// # Errors
    /// The file cannot be opened, or the system provides no further thread.
    pub fn start(config: &FileConfig, schemes: Arc<Schemes>) -> Result<Self, StartError> {
        let file = RotatingFile::open(&config.path, rotation(config), now_ms())
            .map_err(|source| StartError::AuditLog { path: config.path.clone(), source })?;
        let losses = Arc::new(Losses { path: config.path.clone(), ..Losses::default() });
        let names = Names { server: Environment::collect().user_name, schemes };
        let queue = Queue::start("zebu-audit", WAITING, ToFile::new(file, names), losses.clone())
            .map_err(|source| StartError::System { what: "the audit log", source })?;
        Ok(Self { queue, losses })
    }

    /// From now on, counts lost lines in this server's metrics.
    pub fn belongs_to(&self, shared: &Arc<Shared>) {
        *self.losses.shared.lock() = Arc::downgrade(shared);
    }

    fn add(&self, what: What) {
        self.queue.add(Event { wall_ms: now_ms(), what });
    }

    /// The server has started, or its start has failed.
    pub fn started(&self, well: bool) {
        let result = if well { Outcome::Success } else { Outcome::Failure };
        self.add(What::Own { operation: "serverStart", result });
    }

    /// The server is stopping.
    pub fn stops(&self) {
        self.add(What::Own { operation: "serverStop", result: Outcome::Invoked });
    }

    /// A client could not authenticate.
    pub fn not_authenticated(
        &self,
        peer: IpAddr,
        session: Option<SessionId>,
        ids: Option<Credentials>,
        scheme: &str,
        reason: String,
    ) {
        let scheme = scheme.to_owned();
        self.add(What::NotAuthenticated { peer, session, ids, scheme, reason });
    }

    /// A connection was refused.
    pub fn refused(&self, peer: IpAddr, reason: String) {
        self.add(What::Refused { peer, reason });
    }

    /// Writes all waiting lines, and ends the thread.
    pub fn close(&self) {
        self.queue.close();
    }
}

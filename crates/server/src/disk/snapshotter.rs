//! Snapshots in the background: the thread walks the tree in short steps, each under the read lock.

use std::path::PathBuf;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Instant;

use parking_lot::Mutex;
use tracing::{error, info};
use zebu_proto::Causes;
use zebu_proto::Zxid;
use zebu_replica::Input;
use zebu_state::{Outline, Step};
use zebu_store::{Snapshots, StoreError};

use crate::error::SnapshotError;
use crate::shared::Shared;
use crate::threads;

/// Znodes written under one read lock.
const STEP_ZNODES: usize = 512;
/// Maximum bytes of one step: copied data are in memory until they are written.
const STEP_BYTES: usize = 256 << 10;

/// Takes snapshots, one at a time, each on a separate thread.
#[derive(Clone)]
pub struct Snapshotter {
    snapshots: Snapshots,
    /// The thread of the present snapshot, or of the last one.
    thread: Arc<Mutex<Option<JoinHandle<()>>>>,
}

/// A completed snapshot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Taken {
    /// Its path.
    pub path: PathBuf,
    /// The last transaction of the tree when the snapshot was begun.
    pub zxid: Zxid,
    /// Its length.
    pub bytes: u64,
}

impl Snapshotter {
    /// Writes into the directory of `snapshots`.
    pub fn new(snapshots: Snapshots) -> Self {
        Self { snapshots, thread: Arc::default() }
    }

    /// Starts a snapshot. The replica is notified when it is complete.
    ///
    /// A failed snapshot does not stop the server, because the log still has everything.
    pub fn start(&self, shared: &Arc<Shared>) {
        let this = self.clone();
        let take = move |shared: &Arc<Shared>| {
            let done = match this.take(shared) {
                Err(failure) if !shared.ending.is_stopping() => {
                    error!("{}", Causes(&failure));
                    shared.metrics.snapshot_error_count.add(1);
                    Input::SnapshotFailed
                }
                _ => Input::SnapshotDone,
            };
            shared.inbox().push(done);
        };
        match threads::guarded(shared, "zebu-snapshot", "the snapshot thread", take) {
            Ok(thread) => *self.thread.lock() = Some(thread),
            Err(failure) => {
                error!("no thread for a snapshot: {failure}");
                shared.inbox().push(Input::SnapshotFailed);
            }
        }
    }

    /// Waits until no snapshot is being written. This does not take long once the server stops.
    pub fn join(&self) {
        let thread = self.thread.lock().take();
        if let Some(thread) = thread {
            let _ = thread.join();
        }
    }

    /// Takes a snapshot of the tree, including changes made meanwhile. Returns `None` if the
    /// server's state is replaced meanwhile.
    ///
    /// # Errors
    /// The snapshot cannot be written, or the server stops meanwhile. The incomplete file is
    /// removed.
    pub fn take(&self, shared: &Shared) -> Result<Option<Taken>, SnapshotError> {
        let _alone = shared.disk.taking_snapshot.lock();
        let began = Instant::now();
        let config = &shared.config.snapshot;
        let (outline, zxid) = {
            let tree = shared.tree().read();
            (Outline::of(&tree), tree.last_zxid())
        };
        let mut taking = outline.begin(&self.snapshots).map_err(SnapshotError::store("started"))?;
        // Znodes are only copied under the lock, and written without it.
        let mut step = Step::More;
        while step == Step::More {
            if shared.ending.is_stopping() {
                return Err(SnapshotError::Stops);
            }
            step = taking.step(&shared.tree().read(), STEP_ZNODES, STEP_BYTES);
            if step == Step::Replaced {
                info!(
                    "the snapshot is abandoned: the leader's snapshot has replaced this server's state meanwhile"
                );
                return Ok(None);
            }
            taking.flush().map_err(SnapshotError::store("written"))?;
        }
        let written = match taking.finish(config.digest, config.last_zxid) {
            Err(superseded @ StoreError::Superseded { .. }) => {
                info!("the snapshot is abandoned: {superseded}");
                return Ok(None);
            }
            finished => finished.map_err(SnapshotError::store("finished"))?,
        };
        let took = began.elapsed();
        shared.metrics.snapshottime.add(took.as_millis() as i64);
        info!(
            "snapshot {} of {} bytes taken in {} ms",
            written.path.display(),
            written.bytes,
            took.as_millis()
        );
        Ok(Some(Taken { path: written.path, zxid, bytes: written.bytes }))
    }
}

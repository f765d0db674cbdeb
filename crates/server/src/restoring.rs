//! Replaces the state of a running standalone server with a snapshot that an operator provides.
//!
//! The server reads, checks and writes the snapshot while it serves clients. Then it pauses for a
//! moment: it finishes requests in progress, the snapshot becomes the state on disk and in memory,
//! and clients reconnect. A crash leaves either the old or the new state. The files of the old
//! state stay.

use std::fs;
use std::io::{self, Read};
use std::path::Path;
use std::sync::{Arc, OnceLock, Weak};
use std::time::Instant;

use parking_lot::{Condvar, Mutex};
use tracing::info;
use zebu_admin::{RestoreDenied, Restored};
use zebu_engine::Mode;
use zebu_proto::{Causes, Zxid};
use zebu_state::{DigestFound, HandedIn, Limits, read_handed_in, write_unused};
use zebu_store::{EpochFile, EpochFiles, OsVfs, Received, StoreError};
use zebu_tree::Tree;

use crate::driver::Driver;
use crate::retiring;
use crate::shared::{Ending, Shared};

/// Maximum ratio between the memory of a state and the bytes of its snapshot.
const BYTES_IN_MEMORY: u64 = 4;

/// The server whose state can be replaced.
#[derive(Default)]
pub struct Restoring {
    driver: OnceLock<Weak<Mutex<Driver>>>,
    /// Notified after each turn of the driver.
    turned: Condvar,
    /// Held while a snapshot is read.
    busy: Mutex<()>,
}

impl Restoring {
    /// From now on, the state of this standalone server can be replaced.
    pub fn allow(&self, driver: &Arc<Mutex<Driver>>) {
        let _ = self.driver.set(Arc::downgrade(driver));
    }

    /// A turn has ended, so requests in progress may be finished.
    pub fn turned(&self) {
        self.turned.notify_all();
    }
}

/// Replaces the state by a snapshot; blocking. `fuzzy`: also by one with traces of later
/// transactions.
///
/// # Errors
/// The reason why the state was not replaced; or the disk failed, and the server ends.
pub fn restore(
    shared: &Arc<Shared>,
    source: &mut dyn Read,
    fuzzy: bool,
) -> Result<Restored, RestoreDenied> {
    let began = Instant::now();
    let Some(driver) = shared.restoring.driver.get() else {
        return Err(RestoreDenied::Ensemble);
    };
    let Some(_busy) = shared.restoring.busy.try_lock() else { return Err(RestoreDenied::Busy) };
    let snapshot = read(shared, source, memory_available())?;
    let newest = snapshot.newest;
    if snapshot.digest == DigestFound::Differs && !fuzzy {
        return Err(RestoreDenied::Fuzzy);
    }
    let digest = snapshot.digest;
    let (before, last) = {
        let tree = shared.tree().read();
        (tree.znode_count(), tree.last_zxid())
    };
    let tree =
        snapshot.continue_after(last).map_err(|why| RestoreDenied::Unusable(why.to_string()))?;
    let restored = Restored {
        zxid: tree.last_zxid(),
        snapshot: newest,
        znodes: tree.znode_count(),
        sessions: tree.sessions().len(),
        has_digest: digest != DigestFound::Missing,
    };
    let failed = |why: &StoreError| RestoreDenied::Failed(Causes(why).to_string());
    raise_epochs(&shared.config.data.dir, restored.zxid).map_err(|why| failed(&why))?;
    let file = write_unused(&tree, &shared.disk.snapshots).map_err(|why| failed(&why))?;
    let driver = driver.upgrade().ok_or(RestoreDenied::Stops)?;
    take_over(shared, &driver, (tree, file))?;
    shared.metrics.restore_time.add(began.elapsed().as_millis() as i64);
    info!(
        "restored a snapshot that ends at {newest}: the state of this server now ends at {}, with {} znodes (before: \
         {before}) and {} sessions; the names of the old state's files begin with `old.`",
        restored.zxid, restored.znodes, restored.sessions
    );
    Ok(restored)
}

/// Reads and checks a snapshot, if the memory suffices for it.
fn read(
    shared: &Shared,
    source: &mut dyn Read,
    memory: Option<u64>,
) -> Result<HandedIn, RestoreDenied> {
    let options = shared.tree().read().options();
    let limits = Limits {
        bytes_max: memory.map_or(u64::MAX, |memory| memory / BYTES_IN_MEMORY),
        record_bytes_max: shared.config.limits.record_bytes_max(),
    };
    let read = read_handed_in(Interrupted { source, by: &shared.ending }, limits, options);
    read.map_err(|why| RestoreDenied::Unusable(why.to_string()))
}

/// The epoch files of a former member must not be behind its data, because the original refuses
/// that.
fn raise_epochs(dir: &Path, zxid: Zxid) -> Result<(), StoreError> {
    let files = EpochFiles::new(Arc::new(OsVfs), dir);
    // The accepted epoch is never behind the current one.
    for file in [EpochFile::Accepted, EpochFile::Current] {
        if files.read(file)?.is_some_and(|epoch| epoch < zxid.epoch()) {
            files.write(file, zxid.epoch())?;
        }
    }
    Ok(())
}

/// Makes the snapshot the state, while no client is served.
fn take_over(
    shared: &Shared,
    driver: &Mutex<Driver>,
    snapshot: (Tree, Received),
) -> Result<(), RestoreDenied> {
    shared.serve(None);
    shared.common.close_clients();
    let by = Instant::now() + shared.config.throttle.shutdown_timeout.min(retiring::TIME_MAX);
    let mut waits = Some(snapshot);
    let mut driver = driver.lock();
    while let Some(snapshot) = waits.take() {
        if shared.ending.is_stopping() {
            return Err(RestoreDenied::Stops);
        }
        let done = driver.restore(snapshot);
        waits = done.map_err(|failure| {
            let denied = RestoreDenied::Failed(Causes(&failure).to_string());
            shared.stop(Err(failure));
            denied
        })?;
        if waits.is_some() && shared.restoring.turned.wait_until(&mut driver, by).timed_out() {
            shared.serve(Some(Mode::Standalone));
            let why = "requests in progress are not finished in time: the disk may be slow";
            return Err(RestoreDenied::Failed(why.to_owned()));
        }
    }
    drop(driver);
    shared.serve(Some(Mode::Standalone));
    Ok(())
}

/// A stream that ends when the server stops.
struct Interrupted<'s> {
    source: &'s mut dyn Read,
    by: &'s Ending,
}

impl Read for Interrupted<'_> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        if self.by.is_stopping() {
            return Err(io::Error::other("the server stops"));
        }
        self.source.read(into)
    }
}

/// The memory that this process may still use, limited by the system and by its control group.
fn memory_available() -> Option<u64> {
    let text = |path: &str| fs::read_to_string(path).ok();
    let of_system = text("/proc/meminfo").and_then(|text| {
        let line =
            text.lines().find_map(|line| line.strip_prefix("MemAvailable:")?.strip_suffix("kB"))?;
        Some(line.trim().parse::<u64>().ok()? << 10)
    });
    let number = |path| text(path)?.trim().parse::<u64>().ok();
    let of_group = number("/sys/fs/cgroup/memory.max")
        .zip(number("/sys/fs/cgroup/memory.current"))
        .map(|(most, used)| most.saturating_sub(used));
    of_system.into_iter().chain(of_group).min()
}

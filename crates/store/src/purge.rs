//! Purge: removes snapshots and logs that no start needs.
//!
//! It keeps generations: snapshots that were read to their end and are sound, and the logs after
//! the oldest of them. A start can rebuild the state from each generation.

use std::io;
use std::path::{Path, PathBuf};

use crate::faults;
use crate::names::VERSION_DIR;
use crate::scrub::{Pace, Rotten, Scrubbed, look_at_snapshot};
use crate::snapshot::{self, SnapshotFile, is_to_be_read};
use crate::store::Shared;
use crate::vfs::Entry;
use crate::{StoreError, Vfs, install, names};

/// Minimum number of generations to keep, whatever the request.
pub(crate) const SNAPSHOTS_KEPT_MIN: usize = 3;

/// The files that a purge has removed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Purged {
    /// Snapshots, oldest first.
    pub snapshots: Vec<PathBuf>,
    /// Logs, oldest first.
    pub logs: Vec<PathBuf>,
    /// Snapshots that are damaged and therefore do not count, newest first. They are removed with
    /// the others.
    pub damaged: Vec<Rotten>,
}

/// Keeps the newest `keep` generations. Removes nothing if there are fewer.
pub(crate) fn purge(shared: &Shared, keep: usize, pace: Pace<'_>) -> Result<Purged, StoreError> {
    let vfs = shared.vfs.as_ref();
    let find = |is_sound: &mut dyn FnMut(&SnapshotFile) -> bool| {
        Superfluous::find(vfs, &shared.snap_dir, &shared.log_dir, keep, is_sound)
    };
    let most = find(&mut |_| true)?;
    if most.is_none_or(|most| most.is_empty()) && !install::are_superseded(shared)? {
        return Ok(Purged::default());
    }
    // Reads without a lock.
    let mut read = Scrubbed::default();
    let mut damaged = Vec::new();
    find(&mut |file| {
        let known = shared.health().of(file, vfs.now());
        let state = known.or_else(|| {
            shared.look_at_snapshot(file, &mut read, pace);
            shared.health().of(file, vfs.now())
        });
        match state {
            Some(Some(rotten)) => damaged.push(rotten),
            Some(None) => return true,
            // The file has disappeared, or the caller has ended the purge.
            None => {}
        }
        false
    })?;
    let _generation = shared.generation();
    let health = shared.health().clone();
    let entries = list(vfs, &shared.log_dir)?;
    let logs = names::logs(&entries);
    let found = find(&mut |file| {
        matches!(health.of(file, vfs.now()), Some(None)) && !health.is_cut_off(file.zxid, &logs)
    })?;
    let Some(found) = found else { return Ok(Purged { damaged, ..Purged::default() }) };
    install::remove_superseded(shared)?;
    Ok(Purged { damaged, ..found.remove(vfs, &mut |path| vfs.remove(path))? })
}

/// Purges from a program other than the server. It takes no lock, and keeps files that only the
/// server can judge. `remove` is called for each file.
///
/// Each call that removes files reads the snapshots that it counts, but no logs. A file that has
/// already disappeared is no error, because the server purges, too.
///
/// # Errors
/// A directory cannot be read, or a file cannot be removed.
pub fn purge_beside(
    vfs: &dyn Vfs,
    data_dir: &Path,
    log_dir: &Path,
    keep: usize,
    remove: &mut dyn FnMut(&Path) -> io::Result<()>,
) -> Result<Purged, StoreError> {
    let (snap_dir, log_dir) = (data_dir.join(VERSION_DIR), log_dir.join(VERSION_DIR));
    let find = |is_sound: &mut dyn FnMut(&SnapshotFile) -> bool| {
        Superfluous::find(vfs, &snap_dir, &log_dir, keep, is_sound)
    };
    if find(&mut |_| true)?.is_none_or(|most| most.is_empty()) {
        return Ok(Purged::default());
    }
    let mut read = Scrubbed::default();
    let found = find(&mut |file| {
        let (files, damaged) = (read.files, read.damage.len());
        // This program does not know the length of the longest record.
        look_at_snapshot(vfs, file, usize::MAX, &mut read, &mut |_| true);
        read.files > files && read.damage.len() == damaged
    })?;
    let damaged = read.damage;
    let Some(found) = found else { return Ok(Purged { damaged, ..Purged::default() }) };
    let purged = found.remove(vfs, &mut |path| match remove(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        removed => removed,
    })?;
    Ok(Purged { damaged, ..purged })
}

fn list(vfs: &dyn Vfs, dir: &Path) -> Result<Vec<Entry>, StoreError> {
    vfs.list(dir).map_err(StoreError::io("list directory", dir))
}

/// The files that no start needs.
struct Superfluous {
    snap_dir: PathBuf,
    log_dir: PathBuf,
    snapshots: Vec<PathBuf>,
    sidecars: Vec<PathBuf>,
    logs: Vec<PathBuf>,
}

impl Superfluous {
    /// `None` unless `keep` snapshots are sound. `is_sound` is called for the newest snapshots
    /// first, until that many are sound.
    fn find(
        vfs: &dyn Vfs,
        snap_dir: &Path,
        log_dir: &Path,
        keep: usize,
        is_sound: &mut dyn FnMut(&SnapshotFile) -> bool,
    ) -> Result<Option<Self>, StoreError> {
        let keep = keep.max(SNAPSHOTS_KEPT_MIN);
        let snapshots = snapshot::list(vfs, snap_dir)?;
        let counts = |file: &&SnapshotFile| {
            let is_mutant = faults::purge_counts_a_damaged_snapshot();
            is_to_be_read(vfs, file) && (is_mutant || is_sound(file))
        };
        let Some(oldest) = snapshots.iter().filter(counts).map(|file| file.zxid).nth(keep - 1)
        else {
            return Ok(None);
        };
        assert!(keep >= SNAPSHOTS_KEPT_MIN, "{keep} snapshots are kept");
        let old = snapshots.iter().rev().filter(|file| file.zxid < oldest);
        let old: Vec<PathBuf> = old.map(|file| file.path.clone()).collect();

        let entries = list(vfs, log_dir)?;
        let logs = names::logs(&entries);
        // The newest log that starts at or before the oldest snapshot may continue it.
        let needed = logs.iter().rposition(|first| *first <= oldest).unwrap_or(0);
        let continues = logs.get(needed).is_none_or(|first| *first <= oldest);
        assert!(needed == 0 || continues, "the log that continues the oldest snapshot goes");
        let logs = &logs[..needed];
        let sidecars: Vec<PathBuf> = (logs.iter())
            .map(|first| names::sidecar(*first))
            .filter(|name| entries.iter().any(|entry| entry.name == *name))
            .map(|name| log_dir.join(name))
            .collect();
        let logs: Vec<PathBuf> =
            logs.iter().map(|first| log_dir.join(names::log(*first))).collect();
        let (snap_dir, log_dir) = (snap_dir.to_owned(), log_dir.to_owned());
        Ok(Some(Self { snap_dir, log_dir, snapshots: old, sidecars, logs }))
    }

    fn is_empty(&self) -> bool {
        self.snapshots.is_empty() && self.logs.is_empty()
    }

    /// Removes snapshots before the logs that continue them, and sidecars before their logs, each
    /// durably. So after a crash every remaining snapshot can still be loaded.
    fn remove(
        self,
        vfs: &dyn Vfs,
        remove: &mut dyn FnMut(&Path) -> io::Result<()>,
    ) -> Result<Purged, StoreError> {
        let Self { snap_dir, log_dir, snapshots, sidecars, logs } = self;
        for (dir, paths) in [(&snap_dir, &snapshots), (&log_dir, &sidecars), (&log_dir, &logs)] {
            for path in paths {
                remove(path).map_err(StoreError::io("remove", path))?;
            }
            if !paths.is_empty() {
                vfs.sync_dir(dir).map_err(StoreError::io("sync directory", dir))?;
            }
        }
        Ok(Purged { snapshots, logs, damaged: Vec::new() })
    }
}

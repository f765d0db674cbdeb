//! Replaces all data by a snapshot of a leader or of an operator.
//!
//! The snapshot is complete and durable when this starts. Renaming it to `received.snapshot.<zxid>`
//! is the decisive step: a crash before it leaves the old state, and after it the next start
//! finishes the installation. Old logs and snapshots are renamed rather than removed: no start may
//! use them, since they may be of another history or have gaps, but an operator may want them. The
//! next snapshot of a leader removes them, or a purge that has enough newer snapshots. A snapshot
//! of an operator leaves them: the state before a mistake must outlive the attempts to correct it.

use std::path::PathBuf;

use crate::faults;
use crate::health::Health;
use crate::snapshot::Received;
use crate::store::Shared;
use crate::{StoreError, Written, names, recover};

/// The fate of the files that earlier installations have replaced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Earlier {
    /// The files stay.
    Stay,
    /// The files are removed.
    Go,
}

/// Installs `received`. The caller holds the generation.
pub(crate) fn install(
    shared: &Shared,
    received: &Received,
    earlier: Earlier,
) -> Result<Written, StoreError> {
    let Shared { vfs, snap_dir, .. } = shared;
    if earlier == Earlier::Go {
        remove_superseded(shared)?;
    }
    let decided = snap_dir.join(names::received(&received.name));
    vfs.rename(&received.temporary, &decided)
        .and_then(|()| vfs.sync_dir(snap_dir))
        .map_err(StoreError::io("install snapshot", &decided))?;
    finish(shared)?;
    recover::forget_initialize(shared)?;
    *shared.health() = Health::default();
    shared.replaced(true, received.zxid);
    Ok(Written { path: snap_dir.join(&received.name), bytes: received.bytes })
}

/// Finishes an interrupted installation. Returns the snapshot; `None` if there was none.
pub(crate) fn finish(shared: &Shared) -> Result<Option<PathBuf>, StoreError> {
    let Shared { vfs, snap_dir, .. } = shared;
    let entries = vfs.list(snap_dir).map_err(StoreError::io("list directory", snap_dir))?;
    let mut decided = entries.iter().filter_map(|entry| names::parse_received(&entry.name));
    let Some(name) = decided.next() else { return Ok(None) };
    // The process that decided may have failed to make it durable. Without the decision, nothing
    // may be renamed durably: the old state would be lost.
    vfs.sync_dir(snap_dir).map_err(StoreError::io("sync directory", snap_dir))?;
    for dir in shared.dirs() {
        for entry in vfs.list(dir).map_err(StoreError::io("list directory", dir))? {
            let path = dir.join(&entry.name);
            if names::is_data(&entry.name) && !faults::old_logs_stay_beside_a_copy() {
                let old = dir.join(names::superseded(&entry.name));
                vfs.rename(&path, &old).map_err(StoreError::io("rename", &path))?;
            } else if names::parse_truncating(&entry.name).is_some() {
                // It belongs to a replaced state.
                vfs.remove(&path).map_err(StoreError::io("remove", &path))?;
            }
        }
        // No old file may reappear once the new name is there.
        vfs.sync_dir(dir).map_err(StoreError::io("sync directory", dir))?;
    }
    let path = snap_dir.join(name);
    vfs.rename(&snap_dir.join(names::received(name)), &path)
        .and_then(|()| vfs.sync_dir(snap_dir))
        .map_err(StoreError::io("install snapshot", &path))?;
    Ok(Some(path))
}

/// Whether there are files that earlier installations replaced.
pub(crate) fn are_superseded(shared: &Shared) -> Result<bool, StoreError> {
    Ok(!superseded(shared)?.is_empty())
}

/// Removes the files that earlier installations replaced.
pub(crate) fn remove_superseded(shared: &Shared) -> Result<(), StoreError> {
    for path in superseded(shared)? {
        shared.vfs.remove(&path).map_err(StoreError::io("remove", &path))?;
    }
    Ok(())
}

fn superseded(shared: &Shared) -> Result<Vec<PathBuf>, StoreError> {
    let mut paths = Vec::new();
    for dir in shared.dirs() {
        let entries = shared.vfs.list(dir).map_err(StoreError::io("list directory", dir))?;
        let entries = entries.iter().filter(|entry| names::is_superseded(&entry.name));
        paths.extend(entries.map(|entry| dir.join(&entry.name)));
    }
    Ok(paths)
}

//! Purge: removing snapshots and logs that no start needs any more.

use std::path::PathBuf;

use zebu_proto::Zxid;

use crate::snapshot::{self, looks_complete};
use crate::store::Shared;
use crate::{StoreError, install, names};

/// As few snapshots are kept at least, whatever is asked for.
pub(crate) const SNAPSHOTS_KEPT_MIN: usize = 3;

/// What a purge has removed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Purged {
    /// Snapshots, oldest first.
    pub snapshots: Vec<PathBuf>,
    /// Logs, oldest first.
    pub logs: Vec<PathBuf>,
}

/// Keeps the newest `keep` snapshots and the logs they need; nothing is removed while there are not
/// so many that look complete.
///
/// Snapshots go before the logs that continue them, and sidecars before their logs, each durably:
/// whatever a crash leaves can be loaded from any snapshot that is left.
pub(crate) fn purge(shared: &Shared, keep: usize) -> Result<Purged, StoreError> {
    let vfs = shared.vfs.as_ref();
    let _generation = shared.generation();
    let keep = keep.max(SNAPSHOTS_KEPT_MIN);
    let snapshots = snapshot::list(vfs, &shared.snap_dir)?;
    let complete = snapshots.iter().filter(|file| looks_complete(vfs, file));
    let Some(oldest) = complete.map(|file| file.zxid).nth(keep - 1) else {
        return Ok(Purged::default());
    };
    install::remove_superseded(shared)?;
    let old = snapshots.iter().rev().filter(|file| file.zxid < oldest);
    let old: Vec<PathBuf> = old.map(|file| file.path.clone()).collect();

    let entries =
        vfs.list(&shared.log_dir).map_err(StoreError::io("list directory", &shared.log_dir))?;
    let mut logs: Vec<Zxid> =
        entries.iter().filter_map(|entry| names::parse_log(&entry.name)).collect();
    logs.sort();
    // The newest of those that start at or before the oldest snapshot may continue it.
    let needed = logs.iter().rposition(|first| *first <= oldest).unwrap_or(0);
    let logs = &logs[..needed];
    let sidecars: Vec<PathBuf> = (logs.iter())
        .map(|first| names::sidecar(*first))
        .filter(|name| entries.iter().any(|entry| entry.name == *name))
        .map(|name| shared.log_dir.join(name))
        .collect();
    let logs: Vec<PathBuf> =
        logs.iter().map(|first| shared.log_dir.join(names::log(*first))).collect();

    for (dir, paths) in
        [(&shared.snap_dir, &old), (&shared.log_dir, &sidecars), (&shared.log_dir, &logs)]
    {
        for path in paths {
            vfs.remove(path).map_err(StoreError::io("remove", path))?;
        }
        if !paths.is_empty() {
            vfs.sync_dir(dir).map_err(StoreError::io("sync directory", dir))?;
        }
    }
    Ok(Purged { snapshots: old, logs })
}

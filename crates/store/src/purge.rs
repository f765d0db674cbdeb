//! Purge: removes snapshots and logs that no start needs.

use std::io;
use std::path::{Path, PathBuf};

use zebu_proto::Zxid;

use crate::names::VERSION_DIR;
use crate::snapshot::{self, looks_complete};
use crate::store::Shared;
use crate::{StoreError, Vfs, install, names};

/// Minimum number of snapshots to keep, whatever the request.
pub(crate) const SNAPSHOTS_KEPT_MIN: usize = 3;

/// The files that a purge has removed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Purged {
    /// Snapshots, oldest first.
    pub snapshots: Vec<PathBuf>,
    /// Logs, oldest first.
    pub logs: Vec<PathBuf>,
}

/// Keeps the newest `keep` snapshots and the logs they need. Removes nothing unless that many
/// snapshots look complete.
pub(crate) fn purge(shared: &Shared, keep: usize) -> Result<Purged, StoreError> {
    let vfs = shared.vfs.as_ref();
    let _generation = shared.generation();
    let Some(found) = Superfluous::find(vfs, &shared.snap_dir, &shared.log_dir, keep)? else {
        return Ok(Purged::default());
    };
    install::remove_superseded(shared)?;
    found.remove(vfs, &mut |path| vfs.remove(path))
}

/// Purges from a program other than the server. It takes no lock, and keeps what only the server
/// can judge. `remove` is called for each file.
///
/// Files that are already gone are no error: the server purges too.
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
    let Some(found) = Superfluous::find(vfs, &snap_dir, &log_dir, keep)? else {
        return Ok(Purged::default());
    };
    found.remove(vfs, &mut |path| match remove(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        removed => removed,
    })
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
    /// `None` unless `keep` snapshots look complete.
    fn find(
        vfs: &dyn Vfs,
        snap_dir: &Path,
        log_dir: &Path,
        keep: usize,
    ) -> Result<Option<Self>, StoreError> {
        let keep = keep.max(SNAPSHOTS_KEPT_MIN);
        let snapshots = snapshot::list(vfs, snap_dir)?;
        let complete = snapshots.iter().filter(|file| looks_complete(vfs, file));
        let Some(oldest) = complete.map(|file| file.zxid).nth(keep - 1) else { return Ok(None) };
        assert!(keep >= SNAPSHOTS_KEPT_MIN, "{keep} snapshots are kept");
        let old = snapshots.iter().rev().filter(|file| file.zxid < oldest);
        let old: Vec<PathBuf> = old.map(|file| file.path.clone()).collect();

        let entries = vfs.list(log_dir).map_err(StoreError::io("list directory", log_dir))?;
        let mut logs: Vec<Zxid> =
            entries.iter().filter_map(|entry| names::parse_log(&entry.name)).collect();
        logs.sort();
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
        Ok(Purged { snapshots, logs })
    }
}

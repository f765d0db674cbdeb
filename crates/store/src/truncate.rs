//! Removing every trace of the transactions behind one of them, on a leader's word.
//!
//! Recovery decides first, without changing anything, whether what is left reaches that transaction.
//! Then the mark `truncating.<zxid>` is created; its name is all it holds. From then on a start
//! finishes the truncation before anything else, so no crash leaves half of one.

use std::path::PathBuf;

use zebu_proto::Zxid;

use crate::log::sidecar::{self, Mark};
use crate::store::Shared;
use crate::vfs::rewrite;
use crate::{Recovered, StoreError, names};

/// What a truncation came to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Truncated {
    /// The state is the one after the transaction asked for, and nothing later is on the disk.
    Reaches(Box<Recovered>),
    /// What there is does not lead to exactly that state: a snapshot may have traces of later
    /// transactions, or something is missing or damaged. Nothing on the disk was changed. The state
    /// in memory is to be discarded, and the leader to be asked for a full copy.
    Lost {
        /// Why, for an operator.
        reason: String,
    },
}

/// What has to go.
#[derive(Debug, Default)]
pub(crate) struct Removal {
    /// Snapshots that have, or may have, traces of later transactions.
    pub(crate) snapshots: Vec<PathBuf>,
    /// Logs with later transactions only, newest first.
    pub(crate) logs: Vec<PathBuf>,
    /// Their sidecars, and those that cannot be read of a log that is cut.
    pub(crate) sidecars: Vec<PathBuf>,
    /// The log that has both.
    pub(crate) cut: Option<Cut>,
}

/// Where a log is cut.
#[derive(Debug)]
pub(crate) struct Cut {
    pub(crate) path: PathBuf,
    /// What stays.
    pub(crate) mark: Mark,
    /// Up to here the log is known to be durable.
    pub(crate) confirmed: u64,
    /// Whether there is a readable sidecar, to be changed.
    pub(crate) ours: bool,
}

/// The truncation that was begun and not finished.
pub(crate) fn pending(shared: &Shared) -> Result<Option<Zxid>, StoreError> {
    let dir = &shared.log_dir;
    let entries = shared.vfs.list(dir).map_err(StoreError::io("list directory", dir))?;
    Ok(entries.iter().filter_map(|entry| names::parse_truncating(&entry.name)).min())
}

/// Makes a restart finish the truncation from now on.
pub(crate) fn begin(shared: &Shared, zxid: Zxid) -> Result<(), StoreError> {
    let path = shared.log_dir.join(names::truncating(zxid));
    (shared.vfs.create(&path).map(drop))
        .and_then(|()| shared.vfs.sync_dir(&shared.log_dir))
        .map_err(StoreError::io("create mark", &path))
}

/// Removes everything, then the mark. Each part may have been done before.
pub(crate) fn carry_out(shared: &Shared, zxid: Zxid, removal: &Removal) -> Result<(), StoreError> {
    let Shared { vfs, snap_dir, log_dir, .. } = shared;
    // Logs tell which snapshots may be trusted, so they go after them; and a log that has lost its
    // sidecar would be taken for the original's.
    let Removal { snapshots, logs, sidecars, .. } = removal;
    for (dir, paths) in [(snap_dir, snapshots), (log_dir, logs), (log_dir, sidecars)] {
        for path in paths {
            vfs.remove(path).map_err(StoreError::io("remove", path))?;
        }
        if !paths.is_empty() {
            vfs.sync_dir(dir).map_err(StoreError::io("sync directory", dir))?;
        }
    }
    if let Some(cut) = &removal.cut {
        cut.carry_out(shared).map_err(StoreError::io("truncate log", &cut.path))?;
    }
    let mark = log_dir.join(names::truncating(zxid));
    vfs.remove(&mark)
        .and_then(|()| vfs.sync_dir(log_dir))
        .map_err(StoreError::io("remove mark", &mark))
}

impl Cut {
    fn carry_out(&self, shared: &Shared) -> std::io::Result<()> {
        let Shared { vfs, log_dir, .. } = shared;
        if self.ours {
            // A log that is shorter than its sidecar says is damaged, a longer one is cut again.
            sidecar::put(vfs.as_ref(), log_dir, &Mark { sealed: true, ..self.mark })?;
        }
        let mut file = vfs.open_rw(&self.path)?;
        file.set_len(self.mark.end)?;
        rewrite(file.as_mut(), self.confirmed, self.mark.end)
    }
}

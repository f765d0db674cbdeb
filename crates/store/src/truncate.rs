//! Truncation: removes every trace of the transactions after a given one, as a leader requests.
//!
//! Recovery first decides, without changing anything, whether the rest reaches that transaction.
//! Then the empty file `truncating.<zxid>` is created as a mark. From then on every start first
//! finishes the truncation, so a crash never leaves it half done.

use std::path::PathBuf;

use zebu_proto::Zxid;

use crate::log::sidecar::{self, Mark};
use crate::store::Shared;
use crate::vfs::rewrite;
use crate::{Recovered, StoreError, names};

/// The result of a truncation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Truncated {
    /// The state is that of the requested transaction, and nothing later is on disk.
    Reaches(Box<Recovered>),
    /// The remaining data do not lead exactly to that state: a snapshot may contain later
    /// transactions, or data are missing or damaged. The disk is unchanged. Discard the state in
    /// memory, and ask the leader for a snapshot.
    Lost {
        /// The reason, for the operator.
        reason: String,
    },
}

/// What a truncation removes.
#[derive(Debug, Default)]
pub(crate) struct Removal {
    /// Snapshots that contain later transactions, or may.
    pub(crate) snapshots: Vec<PathBuf>,
    /// Logs with only later transactions, newest first.
    pub(crate) logs: Vec<PathBuf>,
    /// The sidecars of those logs, and an unreadable one of a log that is cut.
    pub(crate) sidecars: Vec<PathBuf>,
    /// The log that contains both earlier and later transactions.
    pub(crate) cut: Option<Cut>,
    /// Logs that end with the last transaction to keep, if an interrupted truncation is finished:
    /// it may have cut them, and failed to make that durable.
    pub(crate) cut_before: Vec<Cut>,
}

/// The cut of a log.
#[derive(Debug)]
pub(crate) struct Cut {
    pub(crate) path: PathBuf,
    /// The part to keep.
    pub(crate) mark: Mark,
    /// Up to here the log is known to be durable.
    pub(crate) confirmed: u64,
    /// Whether there is a readable sidecar to update.
    pub(crate) ours: bool,
}

/// The unfinished truncation, if any.
pub(crate) fn pending(shared: &Shared) -> Result<Option<Zxid>, StoreError> {
    let dir = &shared.log_dir;
    let entries = shared.vfs.list(dir).map_err(StoreError::io("list directory", dir))?;
    Ok(entries.iter().filter_map(|entry| names::parse_truncating(&entry.name)).min())
}

/// Marks the truncation, so that a restart finishes it.
pub(crate) fn begin(shared: &Shared, zxid: Zxid) -> Result<(), StoreError> {
    let path = shared.log_dir.join(names::truncating(zxid));
    (shared.vfs.create(&path).map(drop))
        .and_then(|()| shared.vfs.sync_dir(&shared.log_dir))
        .map_err(StoreError::io("create mark", &path))
}

/// Finishes an interrupted truncation.
///
/// The interrupted process may have failed to sync a step. This process sees the result of that
/// step, but a power cut can still undo it. So all steps that may have been made become durable
/// before the mark is removed.
pub(crate) fn finish(shared: &Shared, zxid: Zxid, removal: &Removal) -> Result<(), StoreError> {
    // The directory of the mark first: nothing is removed before the mark is durable.
    for dir in shared.dirs() {
        shared.vfs.sync_dir(dir).map_err(StoreError::io("sync directory", dir))?;
    }
    for cut in &removal.cut_before {
        match cut.carry_out(shared) {
            // Another user has put a copy there. This server cannot have cut it.
            Err(error) if error.kind() == std::io::ErrorKind::PermissionDenied => {}
            result => result.map_err(StoreError::io("truncate log", &cut.path))?,
        }
    }
    carry_out(shared, zxid, removal)
}

/// Removes everything, then the mark. Every step may have been done before.
pub(crate) fn carry_out(shared: &Shared, zxid: Zxid, removal: &Removal) -> Result<(), StoreError> {
    let Shared { vfs, snap_dir, log_dir, .. } = shared;
    // Logs tell which snapshots may be trusted, so they are removed after the snapshots. Sidecars
    // come last: a log without its sidecar would count as one of the original.
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
            // A log shorter than its sidecar says is damaged; a longer one is cut again.
            sidecar::put(vfs.as_ref(), log_dir, &Mark { sealed: true, ..self.mark })?;
        }
        let mut file = vfs.open_rw(&self.path)?;
        file.set_len(self.mark.end)?;
        rewrite(file.as_mut(), self.confirmed, self.mark.end)
    }
}

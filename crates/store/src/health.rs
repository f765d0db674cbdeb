//! The results of rereading files, so that a purge need not read the files that a scrub has read.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::time::Duration;

use zebu_proto::Zxid;

use crate::scrub::{Rotten, RottenFile, is_needed};
use crate::snapshot::SnapshotFile;

/// The time for which a result counts: twice the time between two scrubs, unless configured
/// otherwise.
const LOOK_COUNTS_FOR: Duration = Duration::from_secs(2 * 24 * 3600);

/// The known results for the files of a directory.
#[derive(Clone, Debug, Default)]
pub(crate) struct Health {
    snapshots: BTreeMap<PathBuf, Look>,
    /// The logs that the last scrub has found to be damaged, by their first transactions.
    damaged_logs: BTreeSet<Zxid>,
}

/// The result of reading a snapshot.
#[derive(Clone, Debug)]
struct Look {
    at: Duration,
    bytes: u64,
    damage: Option<Rotten>,
}

impl Health {
    /// A snapshot was read to its end at this time, with this result.
    pub(crate) fn snapshot(&mut self, file: &SnapshotFile, at: Duration, damage: Option<&Rotten>) {
        self.snapshots.retain(|_, look| at.saturating_sub(look.at) <= LOOK_COUNTS_FOR);
        let look = Look { at, bytes: file.bytes, damage: damage.cloned() };
        self.snapshots.insert(file.path.clone(), look);
    }

    /// All logs were read, with this result.
    pub(crate) fn logs(&mut self, damage: &[Rotten]) {
        self.damaged_logs = (damage.iter())
            .filter_map(|rotten| match rotten.file {
                RottenFile::Log(first) => Some(first),
                RottenFile::Snapshot(_) => None,
            })
            .collect();
    }

    /// Another file gets this name.
    pub(crate) fn forget(&mut self, path: &Path) {
        self.snapshots.remove(path);
    }

    /// Whether the snapshot is sound or has damage; `None` if it was not read recently.
    pub(crate) fn of(&self, file: &SnapshotFile, now: Duration) -> Option<Option<Rotten>> {
        let look = self.snapshots.get(&file.path)?;
        let counts = look.bytes == file.bytes && now.saturating_sub(look.at) <= LOOK_COUNTS_FOR;
        counts.then(|| look.damage.clone())
    }

    /// Whether a log that continues a snapshot of `zxid` is damaged; `logs` are the present ones.
    pub(crate) fn is_cut_off(&self, zxid: Zxid, logs: &[Zxid]) -> bool {
        let mut damaged = self.damaged_logs.iter();
        damaged.any(|first| is_needed(RottenFile::Log(*first), Some(zxid), logs))
    }
}

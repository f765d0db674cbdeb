//! The files of the next backup, from the files of the last backup and of the source. Pure.

use zebu_proto::Zxid;

use crate::manifest::{LogEntry, Manifest, SnapEntry};
use crate::source::follows;

/// The logs and snapshots of a source, oldest first.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Seen {
    /// Its snapshots.
    pub snapshots: Vec<SnapEntry>,
    /// Its logs.
    pub logs: Vec<SeenLog>,
}

/// A log of a source.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SeenLog {
    /// Its content.
    pub entry: LogEntry,
    /// The last backup has a copy of this log. This is the chained hash of the records up to the
    /// end of that copy; `None` if no record ends there.
    pub chain_at_copy: Option<u64>,
}

/// The reason why a source does not continue the last backup.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Mismatch {
    /// Nothing can be restored from the source.
    #[error(
        "there is neither a snapshot nor a log that begins with the first transaction, so nothing could be restored"
    )]
    Empty,
    /// The source ends before the backup.
    #[error(
        "it ends with transaction {last}, and the backup ends with {copied}: its server has truncated transactions, or it \
         lags behind, or it belongs to another ensemble"
    )]
    Behind {
        /// The last transaction of the source.
        last: Zxid,
        /// The last transaction of the backup.
        copied: Zxid,
    },
    /// A log and its copy have different records.
    #[error(
        "{log} has other transactions than its copy in the backup: its server has truncated transactions, or it belongs to \
         another ensemble"
    )]
    Rewritten {
        /// The log.
        log: String,
    },
    /// Transactions are missing between the backup and the source.
    #[error(
        "transactions between {after} and {before} are missing: the source no longer has them, or it belongs to another \
         ensemble"
    )]
    Gap {
        /// The last transaction of the backup.
        after: Zxid,
        /// The first transaction of the source that follows.
        before: Zxid,
    },
}

/// Combines the files of the last backup and of a source.
///
/// # Errors
/// The source does not continue the last backup.
pub fn merge(
    last: Option<&Manifest>,
    seen: &Seen,
) -> Result<(Vec<SnapEntry>, Vec<LogEntry>), Mismatch> {
    let mut logs: Vec<LogEntry> = seen.logs.iter().map(|log| log.entry.clone()).collect();
    let mut snapshots = seen.snapshots.clone();
    if let Some(last) = last {
        let copied = last.last();
        let end = logs.last().map_or(Zxid::ZERO, |log| log.last);
        let end = snapshots.last().map_or(end, |snapshot| end.max(snapshot.zxid));
        if end < copied {
            return Err(Mismatch::Behind { last: end, copied });
        }
        for log in &seen.logs {
            let copy = last.logs.iter().find(|copy| copy.first == log.entry.first);
            if copy.is_some_and(|copy| log.chain_at_copy != Some(copy.chain)) {
                return Err(Mismatch::Rewritten { log: log.entry.name() });
            }
        }
        // The source has purged this log.
        let is_gone = |copy: &&LogEntry| logs.iter().all(|log| log.first != copy.first);
        let gone: Vec<_> = last.logs.iter().filter(is_gone).cloned().collect();
        logs.extend(gone);
        // A restart may have written the same snapshot again. One of the two is enough.
        snapshots.retain(|new| last.snapshots.iter().all(|old| old.zxid != new.zxid));
        snapshots.extend(last.snapshots.iter().cloned());
    }
    logs.sort_by_key(|log| log.first);
    snapshots.sort_by_key(|snapshot| snapshot.zxid);
    if snapshots.is_empty() && !logs.first().is_some_and(is_first) {
        return Err(Mismatch::Empty);
    }
    if let Some(last) = last
        && let Some((after, before)) = gap(&logs)
        && last.last() <= after
    {
        return Err(Mismatch::Gap { after, before });
    }
    Ok((snapshots, logs))
}

/// Whether a log begins with the first transaction.
pub fn is_first(log: &LogEntry) -> bool {
    match log.previous {
        Some(previous) => previous == Zxid::ZERO,
        None => log.first.counter() == 1 && log.first.epoch().0 <= 1,
    }
}

/// The last gap between two logs.
pub fn gap(logs: &[LogEntry]) -> Option<(Zxid, Zxid)> {
    let mut pairs = logs.iter().zip(logs.iter().skip(1));
    let is_gap = |(before, after): &(&LogEntry, &LogEntry)| match after.previous {
        Some(previous) => previous > before.last,
        None => after.first > before.last && !follows(before.last, after.first),
    };
    pairs.rfind(is_gap).map(|(before, after)| (before.last, after.first))
}

/// Removes files that no restore to a point since `horizon_ms` needs. The newest snapshot always
/// stays.
pub fn retain(snapshots: &mut Vec<SnapEntry>, logs: &mut Vec<LogEntry>, horizon_ms: i64) {
    // The last transaction that is certainly older. A snapshot from before it is enough for every
    // later point.
    let logged = logs.iter().rev().find(|log| log.last_ms < horizon_ms).map(|log| log.last);
    let seen = snapshots.iter().rev().find(|file| file.seen_ms < horizon_ms).map(|file| file.zxid);
    let Some(reached) = logged.max(seen) else { return };
    let Some(base) =
        snapshots.iter().rev().map(|snapshot| snapshot.zxid).find(|zxid| *zxid <= reached)
    else {
        return;
    };
    // If this snapshot may contain effects of transactions after the horizon, the one before is
    // needed too.
    let before = snapshots.iter().rev().map(|snapshot| snapshot.zxid).find(|zxid| *zxid < base);
    let Some(base) = before else { return };
    snapshots.retain(|snapshot| snapshot.zxid >= base);
    let first = logs.iter().rposition(|log| log.first.0 <= base.0.saturating_add(1)).unwrap_or(0);
    logs.drain(..first);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::manifest::tests::manifest;

    /// The content of a source with these files, which agree with their copies.
    fn seen(logs: &[i64], snapshots: &[i64]) -> Seen {
        let Manifest { snapshots, logs, .. } = manifest(logs, snapshots);
        let logs =
            logs.into_iter().map(|entry| SeenLog { chain_at_copy: Some(entry.chain), entry });
        Seen { snapshots, logs: logs.collect() }
    }

    fn merged(last: &Manifest, seen: &Seen) -> Result<(Vec<i64>, Vec<i64>), Mismatch> {
        merge(Some(last), seen).map(|(snapshots, logs)| {
            let snapshots = snapshots.iter().map(|entry| entry.zxid.0).collect();
            (snapshots, logs.iter().map(|entry| entry.first.0).collect())
        })
    }

    #[test]
    fn a_backup_keeps_what_the_source_has_purged() {
        let last = manifest(&[1, 11], &[0, 10]);
        let now = seen(&[11, 21], &[10, 20]);
        assert_eq!(merged(&last, &now), Ok((vec![0, 10, 20], vec![1, 11, 21])));
        assert_eq!(merged(&last, &seen(&[1, 11], &[0, 10])), Ok((vec![0, 10], vec![1, 11])));
        // All files of the backup were purged at the source, and the next files continue the
        // backup.
        assert_eq!(merged(&last, &seen(&[21], &[20])), Ok((vec![0, 10, 20], vec![1, 11, 21])));
    }

    #[test]
    fn histories_never_mix() {
        let last = manifest(&[1, 11], &[0]);
        let behind = Mismatch::Behind { last: Zxid(10), copied: Zxid(20) };
        assert_eq!(merged(&last, &seen(&[1], &[0])), Err(behind));
        let gap = Mismatch::Gap { after: Zxid(20), before: Zxid(31) };
        assert_eq!(merged(&last, &seen(&[31], &[30])), Err(gap));
        let mut other = seen(&[1, 11, 21], &[0]);
        other.logs[1].chain_at_copy = Some(99);
        assert_eq!(merged(&last, &other), Err(Mismatch::Rewritten { log: "log.b".to_owned() }));
        other.logs[1].chain_at_copy = None;
        assert_eq!(merged(&last, &other), Err(Mismatch::Rewritten { log: "log.b".to_owned() }));
    }

    #[test]
    fn what_nothing_can_be_restored_from_is_no_backup() {
        assert_eq!(merge(None, &seen(&[11], &[])), Err(Mismatch::Empty));
        merge(None, &seen(&[1], &[])).unwrap();
        merge(None, &seen(&[], &[10])).unwrap();
    }

    #[test]
    fn a_gap_that_the_source_itself_has_is_no_reason_to_refuse() {
        // A gap that a backup contains already is not reported again.
        let last = manifest(&[1, 21], &[0, 20]);
        merge(None, &seen(&[1, 21], &[0, 20])).unwrap();
        assert_eq!(merged(&last, &seen(&[1, 21, 31], &[20])), Ok((vec![0, 20], vec![1, 21, 31])));
        assert_eq!(gap(&last.logs), Some((Zxid(10), Zxid(21))));
    }

    #[test]
    fn every_point_since_the_horizon_stays() {
        let kept = |horizon: i64| {
            let Manifest { mut snapshots, mut logs, .. } =
                manifest(&[1, 11, 21, 31], &[0, 10, 20, 30]);
            retain(&mut snapshots, &mut logs, horizon * 1000);
            let snapshots: Vec<i64> = snapshots.iter().map(|entry| entry.zxid.0).collect();
            (snapshots, logs.iter().map(|entry| entry.first.0).collect::<Vec<_>>())
        };
        assert_eq!(kept(0), (vec![0, 10, 20, 30], vec![1, 11, 21, 31]));
        assert_eq!(kept(15), (vec![0, 10, 20, 30], vec![1, 11, 21, 31]));
        // Transaction 20 is older than the horizon, so snapshots 20 and 10 lead to it.
        assert_eq!(kept(21), (vec![10, 20, 30], vec![11, 21, 31]));
        assert_eq!(kept(999), (vec![20, 30], vec![21, 31]));
    }

    #[test]
    fn snapshots_without_logs_are_as_old_as_their_backups() {
        let Manifest { mut snapshots, mut logs, .. } = manifest(&[], &[10, 20, 30, 40]);
        for (snapshot, seen_ms) in snapshots.iter_mut().zip([1000, 2000, 3000, 4000]) {
            snapshot.seen_ms = seen_ms;
        }
        retain(&mut snapshots, &mut logs, 3500);
        let zxids: Vec<i64> = snapshots.iter().map(|entry| entry.zxid.0).collect();
        assert_eq!(zxids, [20, 30, 40]);
    }
}

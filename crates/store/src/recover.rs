//! Recovery: chooses the snapshot and the logs, and decides which records to trust.
//!
//! The sidecar decides whether a log ends because of a crash or because of data loss: everything up
//! to its mark must be there, and a torn record after it is dropped. A log without a sidecar was
//! written by the original and is judged by its content. The disk is not changed until the whole
//! start is known to succeed.
//!
//! A truncation is a recovery with a limit. It skips snapshots that may contain later transactions,
//! applies none of them, and removes them once the limit is known to be reachable.

mod recent;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use zebu_proto::{Epoch, Zxid};

use crate::faults;
use crate::log::read::{EndKind, LogEnd, LogReader, LogRecord, Tail};
use crate::log::sidecar::{self, Mark};
use crate::snapshot::read::{Sections, SnapshotError, read_snapshot};
use crate::snapshot::{self, SnapshotFile, decompressed, is_to_be_read};
use crate::store::{Recover, Shared};
use crate::truncate::{self, Cut, Removal, Truncated};
use crate::vfs::{Sequential, Vfs, parent, rewrite};
use crate::{
    Damage, DamageKind, EpochFile, EpochFiles, Options, StoreError, Warning, install, names,
};
use recent::Recent;

/// Maximum number of snapshots to try, as in the original.
const SNAPSHOTS_TRIED_MAX: usize = 100;
/// Maximum length of a snapshot's record, unless the configuration allows more.
const SNAPSHOT_RECORD_BYTES_MAX: usize = 64 * 1024 * 1024;
/// The marker file beside the log's `version-2`: an empty database is new.
const INITIALIZE: &str = "initialize";

/// Maximum length of a snapshot's record. Checksums reveal a wrong length, and a limit that was
/// lowered since must not block a start.
pub(crate) fn snapshot_record_bytes_max(options: &Options) -> usize {
    options.record_bytes_max.max(SNAPSHOT_RECORD_BYTES_MAX)
}

/// The result of a recovery.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Recovered {
    /// The last transaction of the state. −1 for an untrusted state: an empty database that is not
    /// marked as new, or a damaged one.
    pub last_zxid: Zxid,
    /// The snapshot that was loaded.
    pub snapshot: Option<Zxid>,
    /// The number of transactions applied after it.
    pub replayed: u64,
    /// Sum of their record sizes in bytes.
    pub replayed_bytes: u64,
    /// The newest of them, oldest first, without a gap: as many as
    /// [`Options::recent_txns_max`](crate::Options::recent_txns_max) and
    /// [`Options::recent_bytes_max`](crate::Options::recent_bytes_max) allow.
    pub recent: Vec<(Zxid, Vec<u8>)>,
    /// The last torn record that was dropped.
    pub truncated: Option<Torn>,
    /// How far the logs can be trusted.
    pub mode: Mode,
    /// Warnings for the operator.
    pub warnings: Vec<Warning>,
    /// Time spent on finding and reading the snapshot.
    pub snapshot_time: Duration,
    /// Time spent on reading and applying the logs.
    pub log_time: Duration,
    /// Whether there was neither snapshot nor log. A snapshot is due before anything else.
    pub fresh: bool,
    /// Whether the database is empty and assumed to be that of a new ensemble, though not marked as
    /// new. The data may as well have been lost.
    pub assumed_new: bool,
    /// The damage; only for a member of an ensemble, since a standalone server does not start then.
    /// The state is empty, and the files are unchanged. The member neither votes nor serves, and
    /// writes neither transactions nor snapshots, until a leader's snapshot is installed.
    pub damaged: Option<Damage>,
}

/// How far recovered logs can be trusted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Mode {
    /// All data that was ever durable is known to be there.
    Verified,
    /// A log was written by the original, so its durable end is unknown: damage at its end would
    /// look like a crash.
    Weaker {
        /// The last such log.
        log: PathBuf,
    },
}

/// A record that was being written at a crash; it was never acknowledged.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Torn {
    /// The log.
    pub path: PathBuf,
    /// Where the record starts.
    pub offset: u64,
    /// The last transaction before it.
    pub last: Zxid,
}

/// The marker file by which an operator declares an empty database as new.
fn initialize(shared: &Shared) -> PathBuf {
    shared.options.log_dir.join(INITIALIZE)
}

/// Whether an operator has declared an empty database as new. Without `db.autocreate` no server
/// creates a database unasked, so an empty one counts as declared.
fn is_marked_new(shared: &Shared) -> Result<bool, StoreError> {
    let marker = initialize(shared);
    let exists = shared.vfs.exists(&marker).map_err(StoreError::io("look for", &marker))?;
    Ok(exists || !shared.options.autocreate_db)
}

/// Removes the marker for a new database once the database is durable. If it stayed, a later loss
/// of all files would look like a first start. If it were removed earlier, an interrupted start
/// could not be repeated.
pub(crate) fn forget_initialize(shared: &Shared) -> Result<(), StoreError> {
    let marker = initialize(shared);
    let vfs = &shared.vfs;
    vfs.exists(&marker)
        .and_then(|exists| if exists { vfs.remove(&marker) } else { Ok(()) })
        .map_err(StoreError::io("remove", &marker))
}

/// Finishes interrupted operations, then rebuilds the state.
pub(crate) fn recover(shared: &Shared, state: &mut dyn Recover) -> Result<Recovered, StoreError> {
    let mut generation = shared.generation();
    *generation += 1;
    let installed = install::finish(shared)?;
    let limit = truncate::pending(shared)?;
    let mut recovery = Recovery::new(shared, limit)?;
    recovery.finishes = limit.is_some();
    recovery.warnings.extend(installed.map(|path| Warning::InstallationFinished { path }));
    let found = match recovery.run(state) {
        Err(error) => match error.damage() {
            Some(damage) if shared.options.member => recovery.damaged(damage, &error, state)?,
            _ => return Err(error),
        },
        Ok(mut found) => {
            recovery.repair()?;
            if shared.snap_dir != shared.log_dir {
                // The names found there count from now on. If the previous process renamed a
                // snapshot and failed to sync the directory, a power cut could still undo that,
                // and the next start would install the snapshot over what is logged until then.
                let dir = &shared.snap_dir;
                shared.vfs.sync_dir(dir).map_err(StoreError::io("sync directory", dir))?;
            }
            found.assumed_new = found.last_zxid == Zxid::ZERO && !is_marked_new(shared)?;
            if let Some(limit) = limit {
                assert_eq!(found.last_zxid, limit, "what is left ends elsewhere");
                truncate::finish(shared, limit, &recovery.removal)?;
                recovery.warnings.push(Warning::TruncationFinished(limit));
            }
            if recovery.is_based(&found) || faults::initialize_used_up_at_once() {
                forget_initialize(shared)?;
            }
            found
        }
    };
    shared.replaced(recovery.is_based(&found), found.last_zxid);
    Ok(recovery.finish(found))
}

/// Rebuilds the state as of `zxid` and removes everything later, if possible.
pub(crate) fn truncate(
    shared: &Shared,
    zxid: Zxid,
    state: &mut dyn Recover,
) -> Result<Truncated, StoreError> {
    let mut generation = shared.generation();
    let mut recovery = Recovery::new(shared, Some(zxid))?;
    let found = match recovery.run(state) {
        Ok(found) => found,
        Err(error) => match error.damage() {
            Some(Damage { path, last, what, .. }) => {
                let reason = format!("{}, after transaction {last}: {what}", path.display());
                return Ok(Truncated::Lost { reason });
            }
            None => return Err(error),
        },
    };
    assert_eq!(found.last_zxid, zxid, "what is left ends elsewhere");
    assert!(!found.fresh, "nothing is left, and nothing was there");
    *generation += 1;
    truncate::begin(shared, zxid)?;
    recovery.repair()?;
    truncate::carry_out(shared, zxid, &recovery.removal)?;
    shared.replaced(recovery.is_based(&found), found.last_zxid);
    Ok(Truncated::Reaches(Box::new(recovery.finish(found))))
}

const EMPTY: Recovered = Recovered {
    last_zxid: Zxid::ZERO,
    snapshot: None,
    replayed: 0,
    replayed_bytes: 0,
    recent: Vec::new(),
    truncated: None,
    mode: Mode::Verified,
    warnings: Vec::new(),
    snapshot_time: Duration::ZERO,
    log_time: Duration::ZERO,
    fresh: false,
    assumed_new: false,
    damaged: None,
};

struct Log {
    first: Zxid,
    path: PathBuf,
}

/// What was read of a log so far.
struct ReadLog {
    /// The mark of its sidecar.
    mark: Option<Mark>,
    /// The chain of all records read.
    seen: Mark,
    /// Up to here the log is known to be durable, or not needed.
    confirmed: u64,
    /// The part up to the limit, if the log continues after that.
    kept: Option<Mark>,
    /// The number of records that are not above the one before.
    not_advancing: u64,
}

impl ReadLog {
    /// Whether everything that the sidecar vouches for has been read. A drive may spoil the sector
    /// that it is writing when the power fails, so what it cannot read from there on is no damage.
    fn is_behind_mark(&self) -> bool {
        let is_behind = self.mark.is_some_and(|mark| mark.end <= self.seen.end);
        is_behind && !faults::unreadable_end_refused()
    }
}

/// A change of a log, to be made once the recovery is known to succeed.
enum Repair {
    /// Cut the log at the mark if it is longer, make the part after `confirmed` durable, and update
    /// the sidecar.
    Seal { path: PathBuf, mark: Mark, confirmed: u64, cut: bool },
    /// Make this part of a log of the original durable.
    Confirm { path: PathBuf, from: u64, to: u64 },
    /// Remove a log without useful content.
    Remove { path: PathBuf },
    /// Rename a log that this start and later ones ignore.
    SetAside { path: PathBuf },
}

struct Recovery<'s> {
    shared: &'s Shared,
    vfs: &'s dyn Vfs,
    /// The last transaction to keep, for a truncation.
    limit: Option<Zxid>,
    /// Whether that truncation was interrupted.
    finishes: bool,
    /// What the truncation removes.
    removal: Removal,
    /// Whether every log that may have later transactions was written by this software.
    ours_behind: bool,
    /// By the zxids in their names, oldest first.
    logs: Vec<Log>,
    sidecars: BTreeMap<Zxid, PathBuf>,
    /// Whether there were logs to continue from.
    has_logs: bool,
    /// The zxids of unreadable snapshots.
    rejected: Vec<Zxid>,
    /// The zxid of the loaded snapshot; 0 if there is none.
    start: Zxid,
    /// The newest transaction read. Invariant: `start <= last`.
    last: Zxid,
    replayed: u64,
    replayed_bytes: u64,
    recent: Recent,
    truncated: Option<Torn>,
    weaker: Option<PathBuf>,
    repairs: Vec<Repair>,
    warnings: Vec<Warning>,
    snapshot_time: Duration,
    log_time: Duration,
}

impl<'s> Recovery<'s> {
    fn new(shared: &'s Shared, limit: Option<Zxid>) -> Result<Self, StoreError> {
        let vfs = shared.vfs.as_ref();
        let (mut logs, mut sidecars, mut warnings) = (Vec::new(), BTreeMap::new(), Vec::new());
        let log_dir = &shared.log_dir;
        for entry in vfs.list(log_dir).map_err(StoreError::io("list directory", log_dir))? {
            let path = log_dir.join(&entry.name);
            if let Some(first) = names::parse_log(&entry.name) {
                logs.push(Log { first, path });
            } else if let Some(first) = names::parse_sidecar(&entry.name) {
                sidecars.insert(first, path);
            } else if names::is_foreign(&entry.name) {
                warnings.push(Warning::ForeignFile { path });
            }
        }
        logs.sort_by_key(|log| log.first);
        let mut recovery = Self {
            shared,
            vfs,
            limit,
            finishes: false,
            removal: Removal::default(),
            ours_behind: true,
            logs,
            sidecars,
            has_logs: false,
            rejected: Vec::new(),
            start: Zxid::ZERO,
            last: Zxid::ZERO,
            replayed: 0,
            replayed_bytes: 0,
            recent: Recent::new(&shared.options),
            truncated: None,
            weaker: None,
            repairs: Vec::new(),
            warnings,
            snapshot_time: Duration::ZERO,
            log_time: Duration::ZERO,
        };
        if let Some(limit) = limit {
            recovery.set_apart(limit)?;
        }
        Ok(recovery)
    }

    /// Excludes logs and sidecars that start after the limit.
    fn set_apart(&mut self, limit: Zxid) -> Result<(), StoreError> {
        let behind = self.logs.partition_point(|log| log.first <= limit);
        for log in &self.logs[behind.saturating_sub(1)..] {
            self.ours_behind &= self.mark(log.first)?.flatten().is_some();
        }
        for log in self.logs.drain(behind..).rev() {
            self.removal.logs.push(log.path);
        }
        let sidecars = self.sidecars.split_off(&Zxid(limit.0.saturating_add(1)));
        self.removal.sidecars.extend(sidecars.into_values());
        assert!(self.logs.last().is_none_or(|log| log.first <= limit), "a log is behind {limit}");
        Ok(())
    }

    /// Rebuilds the state and determines the repairs. Does not change the disk.
    fn run(&mut self, state: &mut dyn Recover) -> Result<Recovered, StoreError> {
        let mut snapshots = snapshot::list(self.vfs, &self.shared.snap_dir)?;
        if let Some(limit) = self.limit {
            let behind = snapshots.iter().position(|file| file.zxid <= limit);
            let behind = snapshots.drain(..behind.unwrap_or(snapshots.len()));
            self.removal.snapshots = behind.map(|file| file.path).collect();
        }
        let began = self.vfs.now();
        let chosen = self.load_snapshot(&snapshots, state)?;
        let loaded = self.vfs.now();
        self.snapshot_time = loaded - began;
        self.check_orphans()?;
        if chosen.is_none() && self.logs.is_empty() && self.limit.is_none() {
            let last_zxid = if self.may_be_new()? { Zxid::ZERO } else { Zxid(-1) };
            return Ok(Recovered { last_zxid, fresh: true, ..EMPTY });
        }
        self.has_logs = !self.logs.is_empty();
        self.replay(state)?;
        self.log_time = self.vfs.now() - loaded;
        self.check_reached(&snapshots)?;
        if let Some(limit) = self.limit
            && self.last != limit
        {
            let path = self.shared.log_dir.join(names::truncating(limit));
            let what = DamageKind::TruncationLost(limit);
            return Err(Damage { path, offset: 0, last: self.last, what }.into());
        }
        Ok(Recovered { last_zxid: self.last, snapshot: chosen, ..EMPTY })
    }

    /// Reports a member whose data are unusable. Does not change the disk.
    fn damaged(
        &mut self,
        damage: Damage,
        error: &StoreError,
        state: &mut dyn Recover,
    ) -> Result<Recovered, StoreError> {
        if let StoreError::Replay { path, zxid, reason, .. } = error {
            let (path, reason) = (path.clone(), reason.to_string());
            self.warnings.push(Warning::NotReplayable { path, zxid: *zxid, reason });
        }
        (self.replayed, self.replayed_bytes) = (0, 0);
        self.recent.clear();
        self.truncated = None;
        self.load_nothing(state)?;
        Ok(Recovered { last_zxid: Zxid(-1), damaged: Some(damage), ..EMPTY })
    }

    /// Whether a new log may continue: from a snapshot, or from logs that start with the first
    /// transaction, which the next start accepts as well.
    fn is_based(&self, found: &Recovered) -> bool {
        let is_sound = found.damaged.is_none() && !found.fresh;
        found.snapshot.is_some() || is_sound && self.has_logs
    }

    fn finish(self, recovered: Recovered) -> Recovered {
        Recovered {
            replayed: self.replayed,
            replayed_bytes: self.replayed_bytes,
            recent: self.recent.into_vec(),
            truncated: self.truncated,
            mode: self.weaker.map_or(Mode::Verified, |log| Mode::Weaker { log }),
            warnings: self.warnings,
            snapshot_time: self.snapshot_time,
            log_time: self.log_time,
            ..recovered
        }
    }

    /// Loads the newest readable snapshot, and returns its zxid.
    fn load_snapshot(
        &mut self,
        snapshots: &[SnapshotFile],
        state: &mut dyn Recover,
    ) -> Result<Option<Zxid>, StoreError> {
        let mut newest_rejected = None;
        let mut tried = 0;
        for file in snapshots {
            let reason = if tried == SNAPSHOTS_TRIED_MAX {
                break;
            } else if is_to_be_read(self.vfs, file) {
                tried += 1;
                state.restart();
                match self.read_snapshot(file, state) {
                    Ok(sections) if self.is_free_of_later(&sections) => {
                        (self.start, self.last) = (file.zxid, file.zxid);
                        return Ok(Some(file.zxid));
                    }
                    Ok(_) => {
                        self.removal.snapshots.push(file.path.clone());
                        "it may have traces of transactions that were truncated".to_owned()
                    }
                    Err(error) => error.to_string(),
                }
            } else {
                "it is not complete".to_owned()
            };
            self.rejected.push(file.zxid);
            let path = file.path.clone();
            let warning = Warning::SnapshotRejected { path: path.clone(), reason: reason.clone() };
            self.warnings.push(warning);
            newest_rejected.get_or_insert((path, reason));
        }
        state.restart();
        let nothing_durable = snapshots.iter().all(|file| file.zxid == Zxid::ZERO);
        if self.logs.is_empty() {
            // The original's first start leaves an empty snapshot.0 without a log if it crashes.
            match newest_rejected {
                Some((path, reason)) if tried > 0 || !nothing_durable => {
                    return Err(StoreError::SnapshotsRejected { path, reason });
                }
                _ => {}
            }
        } else if self.logs_start_from_nothing()?
            || (tried == 0 && self.shared.options.trust_empty_snapshot)
        {
            self.warnings.push(Warning::NoSnapshot);
        } else {
            return Err(match newest_rejected {
                Some((path, reason)) if tried > 0 => StoreError::SnapshotsRejected { path, reason },
                _ => StoreError::SnapshotMissing { path: self.shared.snap_dir.clone() },
            });
        }
        self.load_nothing(state)?;
        Ok(None)
    }

    /// Makes the state empty.
    fn load_nothing(&self, state: &mut dyn Recover) -> Result<(), StoreError> {
        state.restart();
        state.loaded(Zxid::ZERO).map_err(|reason| StoreError::SnapshotsRejected {
            path: self.shared.snap_dir.clone(),
            reason: reason.to_string(),
        })
    }

    /// Whether a snapshot contains no transaction after the limit.
    ///
    /// The original records the last transaction when it has been applied, so the next one may
    /// already be in the snapshot. Older snapshots need no check: a server writes one at a time, so
    /// they were complete before this one was started.
    fn is_free_of_later(&self, sections: &Sections) -> bool {
        let Some(limit) = self.limit else { return true };
        if faults::truncation_trusts_every_snapshot() {
            return true;
        }
        let extent = sections.extent(self.ours_behind);
        extent.is_some_and(|last| if self.ours_behind { last <= limit } else { last < limit })
    }

    fn read_snapshot(
        &self,
        file: &SnapshotFile,
        state: &mut dyn Recover,
    ) -> Result<Sections, SnapshotError> {
        let options = &self.shared.options;
        let source = Sequential::new(self.vfs.open(&file.path)?);
        let source = decompressed(source, file.compression);
        let most = snapshot_record_bytes_max(options);
        let sections = read_snapshot(source, most, options.digest, state)?;
        state.loaded(file.zxid).map_err(|reason| SnapshotError::Whole { reason })?;
        Ok(sections)
    }

    /// Whether the oldest log is known to start with the first transaction. Then no snapshot is
    /// needed.
    fn logs_start_from_nothing(&self) -> Result<bool, StoreError> {
        let Some(oldest) = self.logs.first() else { return Ok(false) };
        let mark = self.mark(oldest.first)?;
        Ok(mark.flatten().is_some_and(|mark| mark.previous == Zxid::ZERO))
    }

    /// The mark of the log that starts at `first`. The inner value is `None` if it is unreadable.
    fn mark(&self, first: Zxid) -> Result<Option<Option<Mark>>, StoreError> {
        let Some(path) = self.sidecars.get(&first) else { return Ok(None) };
        // A read error counts as damage of the sidecar: the log decides.
        let mark = sidecar::read(self.vfs, path).unwrap_or(None);
        Ok(Some(mark.filter(|mark| mark.first == first)))
    }

    /// Whether an empty database may be a new one.
    ///
    /// A member that has followed a leader had at least a snapshot. Without the operator's marker
    /// it has lost its data.
    fn may_be_new(&mut self) -> Result<bool, StoreError> {
        let marker = initialize(self.shared);
        if self.vfs.exists(&marker).map_err(StoreError::io("look for", &marker))? {
            return Ok(true);
        }
        let options = &self.shared.options;
        if options.member {
            let epochs = EpochFiles::new(self.shared.vfs.clone(), &options.data_dir);
            if let Some(epoch) = epochs.read(EpochFile::Current)?
                && epoch > Epoch(0)
            {
                let path = epochs.path(EpochFile::Current);
                self.damage(&path, 0, DamageKind::HistoryMissing(epoch))?;
            }
        }
        Ok(options.autocreate_db)
    }

    /// Refuses damage, or notes it if the configuration accepts it.
    fn damage(&mut self, path: &Path, offset: u64, what: DamageKind) -> Result<(), StoreError> {
        let damage = Damage { path: path.to_path_buf(), offset, last: self.last, what };
        // Accepted damage must not justify removing data.
        if !self.shared.options.accept_damage || self.limit.is_some() {
            return Err(damage.into());
        }
        self.warnings.push(Warning::DamageAccepted(damage));
        Ok(())
    }

    /// Handles sidecars without logs.
    fn check_orphans(&mut self) -> Result<(), StoreError> {
        let orphans: Vec<_> = (self.sidecars.iter())
            .filter(|(first, _)| self.logs.iter().all(|log| log.first != **first))
            .map(|(first, path)| (*first, path.clone()))
            .collect();
        for (first, path) in orphans {
            match self.mark(first)?.flatten() {
                Some(mark) if mark.records > 0 && self.start < mark.last => {
                    self.damage(&path, 0, DamageKind::LogMissing { last: mark.last })?;
                    self.repairs.push(Repair::SetAside { path });
                }
                // The sidecar was created before its log, or its log is no longer needed.
                _ => self.repairs.push(Repair::Remove { path }),
            }
        }
        Ok(())
    }

    /// Applies the transactions after the snapshot.
    fn replay(&mut self, state: &mut dyn Recover) -> Result<(), StoreError> {
        let logs = std::mem::take(&mut self.logs);
        let next = self.start.0.saturating_add(1);
        let from = logs.iter().rposition(|log| log.first.0 <= next).unwrap_or(0);
        for (at, log) in logs.iter().enumerate().skip(from) {
            self.replay_log(log, at + 1 == logs.len(), state)?;
        }
        Ok(())
    }

    fn replay_log(
        &mut self,
        log: &Log,
        newest: bool,
        state: &mut dyn Recover,
    ) -> Result<(), StoreError> {
        let path = &log.path;
        let mark = self.mark(log.first)?;
        if mark == Some(None) {
            let path = self.sidecars[&log.first].clone();
            self.warnings.push(Warning::SidecarUnusable { path });
        }
        let mark = mark.flatten();
        if let Some(mark) = mark
            && self.last < mark.previous
        {
            self.damage(path, 0, DamageKind::Gap { next: mark.first })?;
        }
        let file = self.vfs.open(path).map_err(StoreError::io("open log", path))?;
        // Records of our own logs can be read whatever the current limit is.
        let most = if mark.is_some() { usize::MAX } else { self.shared.options.record_bytes_max };
        let mut reader = LogReader::new(Sequential::new(file), most);
        let mut read = ReadLog {
            mark,
            seen: Mark::start(log.first, mark.map_or(self.last, |mark| mark.previous)),
            confirmed: mark.map_or(0, |mark| mark.end),
            kept: None,
            not_advancing: 0,
        };
        let end = loop {
            let record = match reader.next() {
                Ok(Ok(record)) => record,
                Ok(Err(end)) => break end,
                Err(_) if read.is_behind_mark() => break reader.give_up(),
                Err(_) => {
                    self.damage(path, read.seen.end, DamageKind::Unreadable)?;
                    return Ok(());
                }
            };
            let before = read.seen;
            read.seen.advance(record.zxid, record.body);
            if let Some(mark) = mark
                && before.end < mark.end
                && mark.end <= read.seen.end
                && !read.seen.agrees(&mark)
            {
                self.damage(path, record.offset, DamageKind::Chain)?;
                return Ok(());
            }
            if self.limit.is_some_and(|limit| limit < record.zxid) {
                if self.removal.cut.is_some() {
                    // The logs overlap, perhaps because they were copied. Only one of them can be
                    // cut.
                    self.damage(path, record.offset, DamageKind::Gap { next: record.zxid })?;
                }
                let one_more = faults::truncation_keeps_one_more();
                read.kept.get_or_insert(if one_more { read.seen } else { before });
                continue;
            }
            if read.kept.is_some() {
                // A log whose zxids go back cannot be cut.
                self.damage(path, record.offset, DamageKind::Gap { next: record.zxid })?;
            }
            if let Some(Mark { end, last, sealed: true, .. }) = mark
                && end <= record.offset
                && self.start < record.zxid
            {
                // No server of ours writes behind the end of a sealed log. Either another server
                // has acknowledged the record, or a truncation has cut it: it is neither dropped
                // nor applied.
                self.damage(path, record.offset, DamageKind::BehindEnd { last })?;
                return Ok(());
            }
            if record.zxid <= self.start {
                if mark.is_none() {
                    read.confirmed = record.end;
                }
                continue;
            }
            if record.zxid <= self.last {
                read.not_advancing += 1;
            } else {
                self.check_follows(path, &record, mark.is_some())?;
            }
            self.replay_record(path, &record, state)?;
        };
        self.end_of_log(log, newest, read, end, &mut reader)
    }

    /// Applies a transaction.
    fn replay_record(
        &mut self,
        path: &Path,
        record: &LogRecord<'_>,
        state: &mut dyn Recover,
    ) -> Result<(), StoreError> {
        let is_left_out = faults::log_record_not_replayed() && record.zxid.0 % 4 == 0;
        let body = (!is_left_out).then_some(record.body);
        body.map_or(Ok(()), |body| state.txn(body)).map_err(|reason| StoreError::Replay {
            path: path.to_path_buf(),
            offset: record.offset,
            zxid: record.zxid,
            reason,
        })?;
        self.replayed += 1;
        self.replayed_bytes += record.body.len() as u64;
        self.recent.push(self.last, record.zxid, record.body);
        self.last = self.last.max(record.zxid);
        assert!(self.start < self.last, "{} was in the snapshot", self.last);
        assert!(self.limit.is_none_or(|limit| self.last <= limit), "behind the limit");
        Ok(())
    }

    /// Decides what becomes of a log that was read up to its end: whether it is damaged, and what
    /// is to be repaired or cut.
    fn end_of_log(
        &mut self,
        log: &Log,
        newest: bool,
        read: ReadLog,
        end: LogEnd,
        reader: &mut LogReader<Sequential>,
    ) -> Result<(), StoreError> {
        let ReadLog { mark, seen, confirmed, kept, not_advancing } = read;
        let path = &log.path;
        if not_advancing > 0 {
            let path = path.clone();
            self.warnings.push(Warning::NotAdvancing { path, records: not_advancing });
        }
        if self.finishes && kept.is_none() {
            self.cut_before(log, mark, seen);
        }
        match (mark, kept) {
            (Some(mark), Some(kept)) => {
                self.check_length(path, &mark, &seen, end)?;
                self.cut(log, kept, confirmed, true);
                Ok(())
            }
            (None, Some(kept)) => {
                self.weaker = Some(path.clone());
                self.cut(log, kept, confirmed, false);
                Ok(())
            }
            (Some(mark), None) => self.end_of_ours(log, &mark, seen, end, reader),
            (None, None) => {
                self.end_of_the_originals(log, newest, end, reader)?;
                if confirmed < seen.end && seen.records > 0 {
                    let (path, to) = (path.clone(), seen.end);
                    self.repairs.push(Repair::Confirm { path, from: confirmed, to });
                }
                Ok(())
            }
        }
    }

    /// Notes that only `kept` of this log stays.
    fn cut(&mut self, log: &Log, kept: Mark, confirmed: u64, ours: bool) {
        if kept.records > 0 {
            assert!(self.removal.cut.is_none(), "two logs are to be cut: {}", log.path.display());
            self.removal.cut = Some(Cut { path: log.path.clone(), mark: kept, confirmed, ours });
        } else {
            self.removal.logs.push(log.path.clone());
        }
        if kept.records == 0 || !ours {
            // The sidecar vouches for records that will be removed.
            self.removal.sidecars.extend(self.sidecars.get(&log.first).cloned());
        }
    }

    /// Notes that this log is to be cut once more where it ends, if the interrupted truncation may
    /// have cut it there. No part of it counts as durable: its sidecar is older than its cut.
    fn cut_before(&mut self, log: &Log, mark: Option<Mark>, seen: Mark) {
        let may_be_cut = seen.records > 0 && self.limit == Some(seen.last);
        if may_be_cut && mark.is_none_or(|mark| mark.sealed && mark.agrees(&seen)) {
            let (path, ours) = (log.path.clone(), mark.is_some());
            self.removal.cut_before.push(Cut { path, mark: seen, confirmed: 0, ours });
        }
    }

    /// Checks that the log has every record its sidecar vouches for.
    fn check_length(
        &mut self,
        path: &Path,
        mark: &Mark,
        seen: &Mark,
        end: LogEnd,
    ) -> Result<(), StoreError> {
        if seen.end < mark.end {
            let what = DamageKind::Short { end: mark.end, last: mark.last };
            self.damage(path, end.offset, what)?;
        }
        Ok(())
    }

    /// Checks that no transaction is missing before this one.
    fn check_follows(
        &mut self,
        path: &Path,
        record: &LogRecord<'_>,
        ours: bool,
    ) -> Result<(), StoreError> {
        let (zxid, last) = (record.zxid, self.last);
        if ours {
            // The sidecar vouches for what comes before.
        } else if self.rejected.iter().any(|snapshot| last < *snapshot && *snapshot < zxid) {
            // A leader may have sent that snapshot because of the transactions missing here.
            return self.damage(path, record.offset, DamageKind::Gap { next: zxid });
        } else if zxid.epoch() != last.epoch() && zxid.counter() > 1 {
            self.warnings.push(Warning::EpochStart { path: path.to_path_buf(), zxid });
        }
        if zxid.epoch() == last.epoch() && last.next() != Some(zxid) {
            self.damage(path, record.offset, DamageKind::Gap { next: zxid })?;
        }
        Ok(())
    }

    /// The end of our own log: incomplete records after the mark were never acknowledged.
    fn end_of_ours(
        &mut self,
        log: &Log,
        mark: &Mark,
        seen: Mark,
        end: LogEnd,
        reader: &mut LogReader<Sequential>,
    ) -> Result<(), StoreError> {
        let path = log.path.clone();
        self.check_length(&path, mark, &seen, end)?;
        if mark.sealed || seen.end < mark.end {
            return Ok(());
        }
        let torn = !matches!(reader.tail(), Ok(Tail::Clean));
        if torn {
            self.truncated = Some(Torn { path: path.clone(), offset: end.offset, last: self.last });
        }
        let confirmed = mark.end;
        assert!(confirmed <= seen.end, "what is missing is damage");
        self.repairs.push(Repair::Seal {
            path,
            mark: Mark { sealed: true, ..seen },
            confirmed,
            cut: torn,
        });
        Ok(())
    }

    /// The end of a log of the original: its rules apply, except that data after the end are never
    /// ignored.
    fn end_of_the_originals(
        &mut self,
        log: &Log,
        newest: bool,
        end: LogEnd,
        reader: &mut LogReader<Sequential>,
    ) -> Result<(), StoreError> {
        let path = &log.path;
        self.weaker = Some(path.clone());
        if end.kind == EndKind::Empty && newest {
            self.warnings.push(Warning::EmptyLogRemoved { path: path.clone() });
            self.repairs.push(Repair::Remove { path: path.clone() });
            return Ok(());
        }
        if let Some(sidecar) = self.sidecars.get(&log.first)
            && end.kind == EndKind::NoHeader
            && reader.is_blank().unwrap_or(false)
        {
            // An earlier version reserved space before its first write, which never came.
            for path in [path, sidecar] {
                self.repairs.push(Repair::Remove { path: path.clone() });
            }
            return Ok(());
        }
        let what = match reader.tail() {
            Err(_) => DamageKind::Unreadable,
            Ok(Tail::MoreFollows { offset }) => DamageKind::MoreFollows(offset),
            Ok(Tail::Damaged | Tail::Clean | Tail::Torn) if end.kind == EndKind::Empty => {
                DamageKind::Empty
            }
            Ok(Tail::Clean) => return Ok(()),
            Ok(Tail::Torn) => {
                self.truncated =
                    Some(Torn { path: path.clone(), offset: end.offset, last: self.last });
                return Ok(());
            }
            Ok(Tail::Damaged) => match end.kind {
                EndKind::Length(length) => DamageKind::Length(length),
                EndKind::NoHeader => DamageKind::Header,
                _ => DamageKind::Checksum,
            },
        };
        self.damage(path, end.offset, what)
    }

    /// Checks that the logs reach the state of every unreadable snapshot.
    ///
    /// A crash of the original leaves incomplete snapshots; ours have their names only when
    /// complete. A later start cannot tell which server wrote a snapshot.
    fn check_reached(&mut self, snapshots: &[SnapshotFile]) -> Result<(), StoreError> {
        let last = self.last;
        for file in snapshots.iter().filter(|file| last < file.zxid) {
            if self.weaker.is_none() || is_to_be_read(self.vfs, file) {
                self.damage(&file.path, 0, DamageKind::Unreached(file.zxid))?;
            }
            self.repairs.push(Repair::SetAside { path: file.path.clone() });
        }
        Ok(())
    }

    /// Makes the repairs. A crash in between does not change the outcome.
    fn repair(&mut self) -> Result<(), StoreError> {
        for repair in &self.repairs {
            let (path, result) = match repair {
                Repair::Seal { path, mark, confirmed, cut } => {
                    (path, self.seal(path, mark, *confirmed, *cut))
                }
                Repair::Confirm { path, from, to } => (path, self.confirm(path, *from, *to)),
                Repair::Remove { path } => (path, self.remove(path)),
                Repair::SetAside { path } => (path, self.set_aside(path)),
            };
            result.map_err(StoreError::io("repair log", path))?;
        }
        Ok(())
    }

    fn seal(&self, path: &Path, mark: &Mark, confirmed: u64, cut: bool) -> std::io::Result<()> {
        if cut {
            self.vfs.open_rw(path)?.set_len(mark.end)?;
        }
        self.confirm(path, confirmed, mark.end)?;
        sidecar::put(self.vfs, &self.shared.log_dir, mark).map(drop)
    }

    /// Makes the content of a log and its name durable.
    fn confirm(&self, path: &Path, from: u64, to: u64) -> std::io::Result<()> {
        assert!(from <= to, "{from} to {to} of {}", path.display());
        match self.vfs.open_rw(path) {
            Ok(mut file) => rewrite(file.as_mut(), from, to)?,
            // Another user has put a copy there, for this server to read.
            Err(error) if error.kind() == std::io::ErrorKind::PermissionDenied => {
                self.vfs.open(path)?.sync()?;
            }
            Err(error) => return Err(error),
        }
        self.vfs.sync_dir(&self.shared.log_dir)
    }

    /// Removes a file durably, since the next repair may remove what explains it.
    fn remove(&self, path: &Path) -> std::io::Result<()> {
        self.vfs.remove(path)?;
        self.vfs.sync_dir(&parent(path))
    }

    fn set_aside(&self, path: &Path) -> std::io::Result<()> {
        self.vfs.rename(path, &names::set_aside(path))?;
        self.vfs.sync_dir(&parent(path))
    }
}

//! Recovery: which snapshot, which logs, and what is believed of them.
//!
//! Whether a log ends because the machine stopped or because the disk lost something is decided by
//! its sidecar: up to its mark everything must be there, behind it a torn record is dropped. A log
//! without a sidecar was written by the original and is judged by what it holds. Nothing on the disk
//! is changed before the whole start is known to succeed.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;

use zebu_proto::Zxid;

use crate::log::read::{EndKind, LogEnd, LogReader, LogRecord, Tail};
use crate::log::sidecar::{self, Mark};
use crate::snapshot::read::{Sections, SnapshotError, read_snapshot};
use crate::snapshot::{self, SnapshotFile, decompressed, looks_complete};
use crate::store::{Recover, Shared};
use crate::vfs::{Sequential, Vfs};
use crate::{Damage, DamageKind, StoreError, Warning, names};

/// Snapshots tried before the start is given up, as in the original.
const SNAPSHOTS_TRIED_MAX: usize = 100;
/// Longest part of a snapshot that is believed, unless the configuration allows more.
const SNAPSHOT_RECORD_BYTES_MAX: usize = 64 * 1024 * 1024;
/// Beside the log's `version-2`: an empty database may be trusted.
const INITIALIZE: &str = "initialize";

/// What a start has found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Recovered {
    /// The last transaction of the state; −1 for an empty database that is not to be trusted.
    pub last_zxid: Zxid,
    /// The snapshot it started from.
    pub snapshot: Option<Zxid>,
    /// How many transactions were applied after it.
    pub replayed: u64,
    /// The last torn record that was dropped.
    pub truncated: Option<Torn>,
    /// How far the logs can be trusted.
    pub mode: Mode,
    /// What an operator should hear of.
    pub warnings: Vec<Warning>,
    /// Whether there was nothing: neither snapshot nor log.
    pub fresh: bool,
}

/// How far recovered logs can be trusted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Mode {
    /// Everything that was durable once is known to be there.
    Verified,
    /// The original wrote this log, so nobody knows where it ended: damage at its end would look like
    /// a crash.
    Weaker {
        /// The last such log.
        log: PathBuf,
    },
}

/// A record that was being written when the machine stopped; nobody was told of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Torn {
    /// The log.
    pub path: PathBuf,
    /// Where the record starts.
    pub offset: u64,
    /// The last transaction before it.
    pub last: Zxid,
}

pub(crate) fn recover(shared: &Shared, state: &mut dyn Recover) -> Result<Recovered, StoreError> {
    let mut recovery = Recovery::new(shared)?;
    let snapshots = snapshot::list(shared.vfs.as_ref(), &shared.snap_dir)?;
    let chosen = recovery.load_snapshot(&snapshots, state)?;
    recovery.check_orphans()?;
    if chosen.is_none() && recovery.logs.is_empty() {
        recovery.repair()?;
        let last_zxid = if recovery.may_be_new()? { Zxid::ZERO } else { Zxid(-1) };
        return Ok(recovery.finish(Recovered { last_zxid, fresh: true, ..EMPTY }));
    }
    recovery.replay(state)?;
    recovery.check_reached(&snapshots)?;
    recovery.repair()?;
    shared.has_snapshot.store(chosen.is_some(), Ordering::Release);
    let last_zxid = recovery.last;
    Ok(recovery.finish(Recovered { last_zxid, snapshot: chosen, ..EMPTY }))
}

const EMPTY: Recovered = Recovered {
    last_zxid: Zxid::ZERO,
    snapshot: None,
    replayed: 0,
    truncated: None,
    mode: Mode::Verified,
    warnings: Vec::new(),
    fresh: false,
};

struct Log {
    first: Zxid,
    path: PathBuf,
}

/// What is to be done to a log once everything is known to be well.
enum Repair {
    /// Cut it behind the mark if it is longer, make it durable, and let the sidecar say so.
    Seal { path: PathBuf, mark: Mark, cut: bool },
    /// Nothing in it was ever durable: remove it and its sidecar.
    Remove { path: PathBuf, sidecar: Option<PathBuf> },
}

struct Recovery<'s> {
    shared: &'s Shared,
    vfs: &'s dyn Vfs,
    /// By the zxids in their names, oldest first.
    logs: Vec<Log>,
    sidecars: BTreeMap<Zxid, PathBuf>,
    /// Zxid of the snapshot that was loaded; 0 when there is none.
    start: Zxid,
    /// The newest transaction seen. Invariant: `start <= last`.
    last: Zxid,
    replayed: u64,
    truncated: Option<Torn>,
    weaker: Option<PathBuf>,
    repairs: Vec<Repair>,
    warnings: Vec<Warning>,
}

impl<'s> Recovery<'s> {
    fn new(shared: &'s Shared) -> Result<Self, StoreError> {
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
        Ok(Self {
            shared,
            vfs,
            logs,
            sidecars,
            start: Zxid::ZERO,
            last: Zxid::ZERO,
            replayed: 0,
            truncated: None,
            weaker: None,
            repairs: Vec::new(),
            warnings,
        })
    }

    fn finish(self, recovered: Recovered) -> Recovered {
        Recovered {
            replayed: self.replayed,
            truncated: self.truncated,
            mode: self.weaker.map_or(Mode::Verified, |log| Mode::Weaker { log }),
            warnings: self.warnings,
            ..recovered
        }
    }

    /// Reads the newest snapshot that can be read, and says which.
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
            } else if looks_complete(self.vfs, file) {
                tried += 1;
                state.restart();
                match self.read_snapshot(file, state) {
                    Ok(_) => {
                        (self.start, self.last) = (file.zxid, file.zxid);
                        return Ok(Some(file.zxid));
                    }
                    Err(error) => error.to_string(),
                }
            } else {
                "it is not complete".to_owned()
            };
            let path = file.path.clone();
            let warning = Warning::SnapshotRejected { path: path.clone(), reason: reason.clone() };
            self.warnings.push(warning);
            newest_rejected.get_or_insert((path, reason));
        }
        state.restart();
        let nothing_durable = snapshots.iter().all(|file| file.zxid == Zxid::ZERO);
        if self.logs.is_empty() {
            // An empty snapshot.0 without a log is what a crash leaves of the original's first start.
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
        let loaded = state.loaded(Zxid::ZERO);
        loaded.map_err(|reason| StoreError::SnapshotsRejected {
            path: self.shared.snap_dir.clone(),
            reason,
        })?;
        Ok(None)
    }

    fn read_snapshot(
        &self,
        file: &SnapshotFile,
        state: &mut dyn Recover,
    ) -> Result<Sections, SnapshotError> {
        let options = &self.shared.options;
        let source = Sequential::new(self.vfs.open(&file.path)?);
        let source = decompressed(source, file.compression);
        // Checksums tell whether a length is right; a limit lowered since must not end a start.
        let most = options.record_bytes_max.max(SNAPSHOT_RECORD_BYTES_MAX);
        let sections = read_snapshot(source, most, options.digest, state)?;
        state
            .loaded(file.zxid)
            .map_err(|reason| SnapshotError::Node { path: "/".to_owned(), reason })?;
        Ok(sections)
    }

    /// Whether the oldest log is known to be the first there ever was: then no snapshot is needed.
    fn logs_start_from_nothing(&self) -> Result<bool, StoreError> {
        let Some(oldest) = self.logs.first() else { return Ok(false) };
        let mark = self.mark(oldest.first)?;
        Ok(mark.flatten().is_some_and(|mark| mark.previous == Zxid::ZERO))
    }

    /// The mark of the log that starts at `first`; `None` inside when it cannot be read.
    fn mark(&self, first: Zxid) -> Result<Option<Option<Mark>>, StoreError> {
        let Some(path) = self.sidecars.get(&first) else { return Ok(None) };
        // What the disk cannot read is as good as damaged: the log decides.
        let mark = sidecar::read(self.vfs, path).unwrap_or(None);
        Ok(Some(mark.filter(|mark| mark.first == first)))
    }

    /// Whether an empty database may be taken for a new one.
    fn may_be_new(&self) -> Result<bool, StoreError> {
        let marker = self.shared.options.log_dir.join(INITIALIZE);
        let fail = StoreError::io("remove", &marker);
        let asked = self.vfs.exists(&marker).and_then(|exists| {
            if exists {
                self.vfs.remove(&marker)?;
            }
            Ok(exists)
        });
        Ok(asked.map_err(fail)? || self.shared.options.autocreate_db)
    }

    /// Refuses the damage, or notes it where the configuration accepts it.
    fn damage(&mut self, path: &Path, offset: u64, what: DamageKind) -> Result<(), StoreError> {
        let damage = Damage { path: path.to_path_buf(), offset, last: self.last, what };
        if !self.shared.options.accept_damage {
            return Err(damage.into());
        }
        self.warnings.push(Warning::DamageAccepted(damage));
        Ok(())
    }

    /// Looks for sidecars whose logs are gone.
    fn check_orphans(&mut self) -> Result<(), StoreError> {
        let orphans: Vec<_> = (self.sidecars.iter())
            .filter(|(first, _)| self.logs.iter().all(|log| log.first != **first))
            .map(|(first, path)| (*first, path.clone()))
            .collect();
        for (first, path) in orphans {
            match self.mark(first)?.flatten() {
                Some(mark) if mark.records > 0 && self.start < mark.last => {
                    self.damage(&path, 0, DamageKind::LogMissing { last: mark.last })?;
                }
                // Created before its log, or of a log that is not needed any more.
                _ => self.repairs.push(Repair::Remove { path, sidecar: None }),
            }
        }
        Ok(())
    }

    /// Applies every transaction behind the snapshot.
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
            self.warnings.push(Warning::SidecarUnreadable { path });
        }
        let mark = mark.flatten();
        if let Some(mark) = mark
            && self.last < mark.previous
        {
            self.damage(path, 0, DamageKind::Gap { next: mark.first })?;
        }
        let file = self.vfs.open(path).map_err(StoreError::io("open log", path))?;
        // What we wrote we can read, whatever the limit is by now.
        let most = if mark.is_some() { usize::MAX } else { self.shared.options.record_bytes_max };
        let mut reader = LogReader::new(Sequential::new(file), most);
        let mut seen = Mark::start(log.first, mark.map_or(self.last, |mark| mark.previous));
        let mut not_advancing = 0;
        let end = loop {
            let record = match reader.next() {
                Ok(Ok(record)) => record,
                Ok(Err(end)) => break end,
                Err(_) => {
                    self.damage(path, seen.end, DamageKind::Unreadable)?;
                    return Ok(());
                }
            };
            let before = seen;
            seen.advance(record.zxid, record.body);
            if let Some(mark) = mark
                && before.end < mark.end
                && mark.end <= seen.end
                && !seen.agrees(&mark)
            {
                self.damage(path, record.offset, DamageKind::Chain)?;
                return Ok(());
            }
            if record.zxid <= self.start {
                continue;
            }
            if record.zxid <= self.last {
                not_advancing += 1;
            } else {
                self.check_follows(path, &record, mark.is_some())?;
            }
            state.txn(record.body).map_err(|reason| StoreError::Replay {
                path: path.clone(),
                offset: record.offset,
                zxid: record.zxid,
                reason,
            })?;
            self.replayed += 1;
            self.last = self.last.max(record.zxid);
        };
        if not_advancing > 0 {
            let path = path.clone();
            self.warnings.push(Warning::NotAdvancing { path, records: not_advancing });
        }
        match mark {
            Some(mark) => self.end_of_ours(log, &mark, seen, end, &mut reader),
            None => self.end_of_the_originals(log, newest, end, &mut reader),
        }
    }

    /// Checks that no transaction is missing in front of this one.
    fn check_follows(
        &mut self,
        path: &Path,
        record: &LogRecord<'_>,
        ours: bool,
    ) -> Result<(), StoreError> {
        let zxid = record.zxid;
        if zxid.epoch() == self.last.epoch() {
            if self.last.next() != Some(zxid) {
                self.damage(path, record.offset, DamageKind::Gap { next: zxid })?;
            }
        } else if !ours && zxid.counter() > 1 {
            // Our own sidecar has said already what came before.
            self.warnings.push(Warning::EpochStart { path: path.to_path_buf(), zxid });
        }
        Ok(())
    }

    /// A log of our own: behind the mark, whatever is not whole was never acknowledged.
    fn end_of_ours(
        &mut self,
        log: &Log,
        mark: &Mark,
        seen: Mark,
        end: LogEnd,
        reader: &mut LogReader<Sequential>,
    ) -> Result<(), StoreError> {
        let path = log.path.clone();
        if seen.end < mark.end {
            let what = DamageKind::Short { end: mark.end, last: mark.last };
            return self.damage(&path, end.offset, what);
        }
        if mark.sealed {
            return Ok(());
        }
        let torn = !matches!(reader.tail(), Ok(Tail::Clean));
        if torn {
            self.truncated = Some(Torn { path: path.clone(), offset: end.offset, last: self.last });
        }
        self.repairs.push(if seen.records == 0 {
            Repair::Remove { path, sidecar: self.sidecars.get(&log.first).cloned() }
        } else {
            Repair::Seal { path, mark: Mark { sealed: true, ..seen }, cut: torn }
        });
        Ok(())
    }

    /// A log of the original: by its rules, except that nothing behind an end is ignored.
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
            self.repairs.push(Repair::Remove { path: path.clone(), sidecar: None });
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

    /// Checks that the logs reach the state of every snapshot that could not be read.
    ///
    /// A snapshot that is not complete is what a crash leaves of the original's; ours has its name
    /// only when it is complete.
    fn check_reached(&mut self, snapshots: &[SnapshotFile]) -> Result<(), StoreError> {
        for file in snapshots {
            let whole_once = self.weaker.is_none() || looks_complete(self.vfs, file);
            if self.last < file.zxid && whole_once {
                self.damage(&file.path, 0, DamageKind::Unreached(file.zxid))?;
            }
        }
        Ok(())
    }

    /// Carries out what was found to be necessary; a crash in between changes nothing of the outcome.
    fn repair(&mut self) -> Result<(), StoreError> {
        for repair in &self.repairs {
            let (path, result) = match repair {
                Repair::Seal { path, mark, cut } => (path, self.seal(path, mark, *cut)),
                Repair::Remove { path, sidecar } => (path, self.remove(path, sidecar.as_deref())),
            };
            result.map_err(StoreError::io("repair log", path))?;
        }
        Ok(())
    }

    fn seal(&self, path: &Path, mark: &Mark, cut: bool) -> std::io::Result<()> {
        let mut file = self.vfs.open_rw(path)?;
        if cut {
            file.set_len(mark.end)?;
        }
        // What was read may be in memory only, if the process ended and the machine did not.
        file.sync()?;
        self.vfs.sync_dir(&self.shared.log_dir)?;
        sidecar::put(self.vfs, &self.shared.log_dir, mark).map(drop)
    }

    /// Removes a log before its sidecar: without one, what is left of it would look like damage.
    fn remove(&self, path: &Path, sidecar: Option<&Path>) -> std::io::Result<()> {
        self.vfs.remove(path)?;
        if let Some(sidecar) = sidecar {
            self.vfs.sync_dir(&self.shared.log_dir)?;
            self.vfs.remove(sidecar)?;
        }
        Ok(())
    }
}

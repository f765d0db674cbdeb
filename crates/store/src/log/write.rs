//! Writes the log: records are collected, then made durable by one write and one sync.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use zebu_proto::Causes;
use zebu_proto::Zxid;

use super::growing::Growing;
use super::read::zxid_of;
use super::sidecar::{Mark, Sidecar};
use super::{HEADER_BYTES, encode_record};
use crate::faults;
use crate::install::Earlier;
use crate::recover::{self, Recovered};
use crate::store::Shared;
use crate::{Received, Recover, StoreError, Truncated, Written, install, names};

/// How long a mark may remain unsynced while the log is being written.
const MARK_DELAY: Duration = Duration::from_secs(1);
/// Capacity of the buffer that is kept between batches.
const BUFFER_BYTES_KEPT: usize = 4 * 1024 * 1024;

/// The result of [`TxnLog::commit`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Synced {
    /// Every transaction up to here is durable.
    pub up_to: Zxid,
    /// Duration of the sync; zero if there was none.
    pub took: Duration,
    /// Whether that exceeds the configured threshold for a warning.
    pub slow: bool,
    /// Number of bytes written.
    pub bytes: u64,
}

/// The transaction log, owned by the thread that writes it.
///
/// A log file is created with its first record; a start never appends to an existing file. After an
/// error every call fails: after a failed sync the content of the disk is unknown, and a second
/// sync might report success wrongly.
#[derive(Debug)]
pub struct TxnLog {
    shared: Arc<Shared>,
    /// The file being written, if any since the last roll.
    current: Option<Current>,
    /// Encoded records that are not written yet.
    buffer: Vec<u8>,
    /// The mark once `buffer` is durable; `None` if no file is open and the buffer is empty.
    gathered: Option<Mark>,
    /// The last transaction appended. Invariant: `durable <= appended`.
    appended: Zxid,
    /// The last durable transaction.
    durable: Zxid,
    /// The first failure.
    failure: Option<String>,
}

#[derive(Debug)]
struct Current {
    path: PathBuf,
    file: Growing,
    sidecar: Sidecar,
    /// The durable part of the log.
    mark: Mark,
}

impl TxnLog {
    pub(crate) fn new(shared: Arc<Shared>, last: Zxid) -> Self {
        Self {
            shared,
            current: None,
            buffer: Vec::new(),
            gathered: None,
            appended: last,
            durable: last,
            failure: None,
        }
    }

    /// Adds a transaction to the next batch. `body`: header, transaction and digest.
    ///
    /// # Panics
    /// If the body has another zxid, or transactions are missing before this one: a log with a gap
    /// could not be loaded.
    pub fn append(&mut self, zxid: Zxid, body: &[u8]) {
        assert_eq!(zxid_of(body), zxid, "a record is logged under its own zxid");
        let follows = zxid == self.appended
            || self.appended.next() == Some(zxid)
            || (self.appended < zxid && self.appended.epoch() != zxid.epoch());
        assert!(follows, "{zxid} does not follow {}", self.appended);
        let mark = self.gathered.get_or_insert_with(|| Mark::start(zxid, self.appended));
        mark.advance(zxid, body);
        encode_record(body, &mut self.buffer);
        self.appended = zxid;
    }

    /// Asserts what holds between any two calls that reach the disk, as long as none has failed.
    fn check(&self) {
        assert!(self.failure.is_none(), "what failed first is final");
        assert!(self.durable <= self.appended, "{} of {}", self.durable, self.appended);
        let Some(gathered) = &self.gathered else {
            assert!(self.current.is_none(), "an open file has a mark");
            assert!(self.buffer.is_empty(), "records are gathered for no file");
            return;
        };
        assert_eq!(gathered.last, self.appended, "the mark ends with another record");
        assert!(!gathered.sealed, "records are gathered for a file that has ended");
        let waiting = self.buffer.len() as u64;
        if let Some(current) = &self.current {
            assert_eq!(current.mark.first, gathered.first, "the mark is of another file");
            assert_eq!(current.file.written() + waiting, gathered.end, "a record is lost");
            assert!(current.mark.end <= gathered.end, "more is durable than there is");
            assert!(current.mark.last <= self.durable, "{} is marked", current.mark.last);
        }
        if waiting == 0 {
            assert_eq!(self.durable, self.appended, "everything is written, and not durable");
        }
    }

    /// Makes everything appended durable, with one write and, unless syncing is off, one sync.
    ///
    /// # Errors
    /// The failure; the log is unusable afterwards.
    pub fn commit(&mut self) -> Result<Synced, StoreError> {
        self.guarded(Self::write_gathered)
    }

    /// Commits and closes the current file. The next transaction starts a new one.
    ///
    /// # Errors
    /// The failure; the log is unusable afterwards.
    pub fn roll(&mut self) -> Result<Synced, StoreError> {
        self.guarded(|log| {
            let synced = log.write_gathered()?;
            if let Some(mut current) = log.current.take() {
                current.mark = log.gathered.expect("an open file has a mark");
                current.mark.sealed = true;
                current.settle(&log.shared)?;
            }
            log.gathered = None;
            Ok(synced)
        })
    }

    /// Makes the sidecar's mark durable, so that damage and a crash can be distinguished up to the
    /// last transaction. Call this when no transaction has come for a while; cheap if there is
    /// nothing to do.
    ///
    /// # Errors
    /// The failure; the log is unusable afterwards.
    pub fn settle(&mut self) -> Result<(), StoreError> {
        self.guarded(|log| {
            log.write_gathered()?;
            let now = log.shared.vfs.now();
            let Some(current) = &mut log.current else { return Ok(()) };
            let behind =
                !log.shared.options.force_sync && current.mark.end < current.file.written();
            if behind || current.sidecar.overdue(now).is_some() {
                current.mark = log.gathered.expect("an open file has a mark");
                current.settle(&log.shared)?;
            }
            Ok(())
        })
    }

    /// Commits, and ends the log permanently.
    ///
    /// # Errors
    /// The failure.
    pub fn close(mut self) -> Result<Synced, StoreError> {
        self.roll()
    }

    /// Continues after a state that came from elsewhere, with last transaction `zxid`.
    ///
    /// Commits everything appended before. A snapshot of that state must already be durable.
    ///
    /// # Errors
    /// The failure; the log is unusable afterwards.
    pub fn continue_after(&mut self, zxid: Zxid) -> Result<Synced, StoreError> {
        let synced = self.roll()?;
        assert!(self.current.is_none() && self.buffer.is_empty(), "the log was rolled");
        (self.appended, self.durable) = (zxid, zxid);
        Ok(synced)
    }

    /// Commits everything appended, rebuilds the state from disk into `state`, and continues after
    /// it. A snapshot that is being written is discarded, since its state is replaced.
    ///
    /// # Errors
    /// As for [`Store::recover`](crate::Store::recover). The log is unusable afterwards.
    pub fn recover(&mut self, state: &mut dyn Recover) -> Result<Recovered, StoreError> {
        self.roll()?;
        self.guarded(|log| {
            let recovered = recover::recover(&log.shared, state)?;
            log.continue_behind(recovered.last_zxid);
            Ok(recovered)
        })
    }

    /// Removes everything after `zxid`, as a leader requests, and rebuilds the state as of `zxid`
    /// into `state`.
    ///
    /// Everything appended is committed first. With [`Truncated::Reaches`], the disk has no record
    /// after `zxid`, and no snapshot that may contain one. The log continues after `zxid`. If a
    /// crash interrupts this, the next start finishes it. With [`Truncated::Lost`], the disk is
    /// unchanged and the log continues where it was; discard `state`.
    ///
    /// # Errors
    /// The failure; the log is unusable afterwards, and the next start finishes the truncation.
    pub fn truncate(
        &mut self,
        zxid: Zxid,
        state: &mut dyn Recover,
    ) -> Result<Truncated, StoreError> {
        self.roll()?;
        self.guarded(|log| {
            let truncated = recover::truncate(&log.shared, zxid, state)?;
            if let Truncated::Reaches(_) = truncated {
                log.continue_behind(zxid);
            }
            Ok(truncated)
        })
    }

    /// Makes a leader's snapshot the state of this member, and continues after it.
    ///
    /// All older data are set aside, whatever their zxid: logs and snapshots get names that start
    /// with `old.`, until the next installation or a purge with enough newer snapshots removes
    /// them. A crash leaves either the old state or the new one.
    ///
    /// # Errors
    /// The failure; the log is unusable afterwards.
    pub fn install(&mut self, received: Received) -> Result<Written, StoreError> {
        self.replace(received, Earlier::Go)
    }

    /// Makes an operator's snapshot the state of this standalone server, and continues after it.
    /// The snapshot must end after the log does.
    ///
    /// Differs from [`TxnLog::install`] in that files set aside earlier stay until a purge.
    ///
    /// # Errors
    /// As for [`TxnLog::install`].
    pub fn restore(&mut self, received: Received) -> Result<Written, StoreError> {
        self.replace(received, Earlier::Stay)
    }

    fn replace(&mut self, received: Received, earlier: Earlier) -> Result<Written, StoreError> {
        self.roll()?;
        self.guarded(|log| {
            let mut generation = log.shared.generation();
            *generation += 1;
            let written = install::install(&log.shared, &received, earlier)?;
            drop(generation);
            log.continue_behind(received.zxid());
            Ok(written)
        })
    }

    fn continue_behind(&mut self, zxid: Zxid) {
        assert!(self.current.is_none() && self.buffer.is_empty(), "the log was rolled");
        // An untrusted state has last zxid −1. A leader determines where its log starts.
        let zxid = zxid.max(Zxid::ZERO);
        (self.appended, self.durable) = (zxid, zxid);
    }

    /// Bytes in the current file, including uncommitted ones; 0 if there is none.
    pub fn size(&self) -> u64 {
        self.gathered.map_or(0, |mark| mark.end)
    }

    /// Whether the current file exceeds the configured limit.
    pub fn should_roll(&self) -> bool {
        self.shared.options.log_size_limit.is_some_and(|limit| self.size() > limit)
    }

    /// The last transaction appended.
    pub fn appended(&self) -> Zxid {
        self.appended
    }

    /// The last durable transaction; without a log, the last committed one.
    pub fn durable(&self) -> Zxid {
        self.durable
    }

    /// The file being written.
    pub fn path(&self) -> Option<&Path> {
        self.current.as_ref().map(|current| current.path.as_path())
    }

    /// Runs a step, unless an earlier one has failed.
    fn guarded<T>(
        &mut self,
        step: impl FnOnce(&mut Self) -> Result<T, StoreError>,
    ) -> Result<T, StoreError> {
        if let Some(first) = &self.failure {
            return Err(StoreError::Poisoned { first: first.clone() });
        }
        let result = step(self);
        if let Err(error) = &result {
            self.failure = Some(Causes(error).to_string());
            self.current = None;
            self.buffer = Vec::new();
        } else {
            self.check();
        }
        result
    }

    fn write_gathered(&mut self) -> Result<Synced, StoreError> {
        let mut synced =
            Synced { up_to: self.durable, took: Duration::ZERO, slow: false, bytes: 0 };
        if self.buffer.is_empty() {
            return Ok(synced);
        }
        if !self.shared.has_base.load(Ordering::Acquire) {
            return Err(StoreError::SnapshotFirst);
        }
        let mark = self.gathered.expect("what was gathered has a mark");
        synced.bytes = self.buffer.len() as u64;
        if let Some(current) = &mut self.current {
            current.write(&self.shared, &self.buffer)?;
            assert_eq!(current.file.written(), mark.end);
            if self.shared.options.force_sync {
                synced.took = current.sync(&self.shared)?;
                current.mark = mark;
                current.note(&self.shared)?;
            }
        } else {
            let (current, took) = Current::create(&self.shared, mark, &self.buffer)?;
            self.current = Some(current);
            synced.took = took;
        }
        synced.slow = synced.took > self.shared.options.fsync_warning;
        self.buffer.clear();
        self.buffer.shrink_to(BUFFER_BYTES_KEPT);
        self.durable = self.appended;
        synced.up_to = self.durable;
        assert_eq!(self.durable, mark.last);
        Ok(synced)
    }
}

impl Current {
    /// Starts a new file with `records`, which `mark` describes. Returns how long the syncs took.
    ///
    /// The file gets its name when its first records are durable, and its sidecar when the name is.
    /// So a crash or a full disk never leaves a log without records, which the original cannot
    /// load, nor a sidecar that vouches for nothing beside a log that another server may write. The
    /// first records are synced even if syncing is off: a name without content would count as
    /// damage.
    fn create(shared: &Shared, mark: Mark, records: &[u8]) -> Result<(Self, Duration), StoreError> {
        let Shared { vfs, log_dir, .. } = shared;
        let name = names::log(mark.first);
        let path = log_dir.join(&name);
        let temporary = log_dir.join(names::temporary(&name));
        let file = vfs.create(&temporary).map_err(StoreError::io("create log", &temporary))?;
        let mut file = Growing::create(file, &shared.options, records)
            .map_err(StoreError::io("write log", &temporary))?;
        assert_eq!(file.written(), mark.end);
        let start = vfs.now();
        if !faults::fsync_removed() {
            file.sync().map_err(StoreError::io("sync log", &temporary))?;
        }
        let mut took = vfs.now().saturating_sub(start);
        if let Ok(old) = vfs.open(&path)
            && old.len().is_ok_and(|bytes| bytes > HEADER_BYTES as u64)
        {
            // Only a start that accepted damage leaves a file of this name.
            drop(old);
            vfs.rename(&path, &names::set_aside(&path)).map_err(StoreError::io("rename", &path))?;
        }
        vfs.rename(&temporary, &path).map_err(StoreError::io("rename", &temporary))?;
        let start = vfs.now();
        if !faults::directory_fsync_removed() {
            vfs.sync_dir(log_dir).map_err(StoreError::io("sync directory", log_dir))?;
        }
        took += vfs.now().saturating_sub(start);
        let sidecar = Sidecar::create(vfs.as_ref(), log_dir, &mark)
            .map_err(StoreError::io("create sidecar", &path))?;
        Ok((Self { path, file, sidecar, mark }, took))
    }

    /// Appends records.
    fn write(&mut self, shared: &Shared, records: &[u8]) -> Result<(), StoreError> {
        let result = self.file.write(&shared.options, records);
        if faults::acknowledged_without_room() && result.is_err() {
            return Ok(());
        }
        result.map_err(StoreError::io("write log", &self.path))
    }

    /// Syncs the file. Returns how long that took.
    fn sync(&mut self, shared: &Shared) -> Result<Duration, StoreError> {
        let start = shared.vfs.now();
        if !faults::fsync_removed() {
            self.file.sync().map_err(StoreError::io("sync log", &self.path))?;
        }
        Ok(shared.vfs.now().saturating_sub(start))
    }

    /// Writes the durable end to the sidecar.
    fn note(&mut self, shared: &Shared) -> Result<(), StoreError> {
        let Self { sidecar, mark, .. } = self;
        let now = shared.vfs.now();
        let result = match sidecar.overdue(now) {
            Some(waited) if waited >= MARK_DELAY => sidecar.settle(mark, now),
            _ => sidecar.note(mark),
        };
        result.map_err(StoreError::io("write sidecar", &sidecar.path))
    }

    /// Makes the records durable, then the mark.
    fn settle(&mut self, shared: &Shared) -> Result<(), StoreError> {
        if !shared.options.force_sync {
            self.sync(shared)?;
        }
        let now = shared.vfs.now();
        self.sidecar
            .settle(&self.mark, now)
            .map_err(StoreError::io("write sidecar", &self.sidecar.path))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::vfs::MemVfs;
    use crate::{Options, Store, Vfs};

    #[test]
    fn small_logs_take_little_room_when_preallocation_is_adaptive() {
        let vfs = MemVfs::new(Path::new("/d"));
        let options = Options { prealloc_adaptive: true, ..Options::new("/d") };
        let mut store = Store::open(Arc::new(vfs.clone()), options).unwrap();
        store.last = Some(Zxid::ZERO);
        store.shared.has_base.store(true, Ordering::Release);
        let (mut log, _) = store.split();
        let mut sizes = Vec::new();
        let mut body = vec![1; 10_000];
        for zxid in 1..=200 {
            body[12..20].copy_from_slice(&i64::to_be_bytes(zxid));
            log.append(Zxid(zxid), &body);
            log.commit().unwrap();
            let size = vfs.open(log.path().unwrap()).unwrap().len().unwrap();
            assert!(log.size() < size);
            sizes.push(size);
        }
        sizes.dedup();
        assert_eq!(sizes[0], 64 * 1024 + 16);
        assert!(sizes.len() < 10 && *sizes.last().unwrap() < 5 << 20, "{sizes:?}");
        // A batch longer than a step fits as well.
        for zxid in 201..=1000 {
            body[12..20].copy_from_slice(&i64::to_be_bytes(zxid));
            log.append(Zxid(zxid), &body);
        }
        log.commit().unwrap();
        let size = vfs.open(log.path().unwrap()).unwrap().len().unwrap();
        assert!(log.size() < size);
    }

    #[test]
    #[should_panic(expected = "does not follow")]
    fn a_gap_is_never_logged() {
        let vfs = MemVfs::new(Path::new("/d"));
        let mut store = Store::open(Arc::new(vfs), Options::new("/d")).unwrap();
        store.last = Some(Zxid(4));
        let mut body = [0; 32];
        body[12..20].copy_from_slice(&6_i64.to_be_bytes());
        store.split().0.append(Zxid(6), &body);
    }
}

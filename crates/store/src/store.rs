//! A data directory: opens it, and holds the state its parts share.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use zebu_proto::{Acl, SessionId, StatPersisted, Zxid};

use crate::health::Health;
use crate::log::TxnLog;
use crate::snapshot::Snapshots;
use crate::vfs::{DirLock, Vfs, create_dirs, keep_dirs};
use crate::{CommittedFile, EnsembleFile};
use crate::{EpochFiles, Refused, StoreError, Truncated, names, recover};

/// Compression of written snapshots. When reading, the name decides.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Compression {
    /// No compression.
    #[default]
    None,
    /// Gzip; suffix `.gz`.
    Gzip,
    /// Snappy blocks in xerial's framing; suffix `.snappy`.
    Snappy,
}

impl Compression {
    /// The suffix of the file name.
    pub const fn suffix(self) -> &'static str {
        match self {
            Self::None => "",
            Self::Gzip => ".gz",
            Self::Snappy => ".snappy",
        }
    }
}

/// Locations and options of the data.
#[derive(Clone, Debug)]
pub struct Options {
    /// `dataDir`: its `version-2` holds the snapshots.
    pub data_dir: PathBuf,
    /// `dataLogDir`: its `version-2` holds the logs. May be the same directory.
    pub log_dir: PathBuf,
    /// `preAllocSize` in bytes: how far logs are extended ahead of writing; 0: not at all.
    pub prealloc_bytes: u64,
    /// Whether extensions start small and grow with the log, up to `prealloc_bytes`.
    pub prealloc_adaptive: bool,
    /// `forceSync`: whether a transaction is durable before it is acknowledged.
    pub force_sync: bool,
    /// `fsync.warningthresholdms`: a sync that takes longer is reported as slow.
    pub fsync_warning: Duration,
    /// `txnLogSizeLimitInKb` in bytes: a larger log should be rolled.
    pub log_size_limit: Option<u64>,
    /// `snapshot.compression.method`.
    pub compression: Compression,
    /// `digest.enabled`: whether snapshots contain the tree's digest.
    pub digest: bool,
    /// `serializeLastProcessedZxid.enabled`: whether snapshots contain the last zxid.
    pub last_zxid_section: bool,
    /// `snapshot.trust.empty`: whether logs without a snapshot are complete.
    pub trust_empty_snapshot: bool,
    /// `datadir.autocreate`: whether missing directories are created.
    pub autocreate_dirs: bool,
    /// `db.autocreate`: whether an empty directory counts as a new database without the marker
    /// file.
    pub autocreate_db: bool,
    /// Maximum length of a record in a log of the original: `jute.maxbuffer` plus its overhead.
    pub record_bytes_max: usize,
    /// `zebu.acceptDamagedLog`: load the readable records, and report the others.
    pub accept_damage: bool,
    /// Whether this is a member of an ensemble. Damage is then reported in
    /// [`Recovered::damaged`](crate::Recovered::damaged), for a leader to repair, and does not end
    /// the start.
    pub member: bool,
    /// Number of newest transactions that a recovery keeps in
    /// [`Recovered::recent`](crate::Recovered::recent); 0: none.
    pub recent_txns_max: usize,
    /// Maximum sum of their body sizes in bytes.
    pub recent_bytes_max: usize,
}

impl Shared {
    /// The directories with data files: that of the logs, and that of the snapshots if it is
    /// another one.
    pub(crate) fn dirs(&self) -> impl Iterator<Item = &PathBuf> {
        let apart = self.snap_dir != self.log_dir;
        std::iter::once(&self.log_dir).chain(apart.then_some(&self.snap_dir))
    }

    /// Notes the properties of the new state.
    pub(crate) fn replaced(&self, is_based: bool, last: Zxid) {
        self.has_base.store(is_based, Ordering::Release);
        self.untrusted.store(self.options.member && last < Zxid::ZERO, Ordering::Release);
    }

    /// Locks the number of the current state. Only the holder may create or remove names of data
    /// files.
    pub(crate) fn generation(&self) -> MutexGuard<'_, u64> {
        // A single number cannot be inconsistent.
        self.generation.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The results of rereading the files.
    pub(crate) fn health(&self) -> MutexGuard<'_, Health> {
        // Each change is a single one.
        self.health.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Options {
    /// The original's defaults, with snapshots and logs in one directory.
    pub fn new(dir: impl Into<PathBuf>) -> Self {
        let data_dir = dir.into();
        Self {
            log_dir: data_dir.clone(),
            data_dir,
            prealloc_bytes: 64 * 1024 * 1024,
            prealloc_adaptive: false,
            force_sync: true,
            fsync_warning: Duration::from_secs(1),
            log_size_limit: None,
            compression: Compression::None,
            digest: true,
            last_zxid_section: true,
            trust_empty_snapshot: false,
            autocreate_dirs: true,
            autocreate_db: true,
            // Twice jute.maxbuffer, as in the original.
            record_bytes_max: 2 * 0xf_ffff,
            accept_damage: false,
            member: false,
            recent_txns_max: 0,
            recent_bytes_max: 64 * 1024 * 1024,
        }
    }
}

/// The state that recovery rebuilds.
///
/// An error of a method rejects the snapshot, or ends the start if a transaction cannot be applied.
pub trait Recover {
    /// Makes the state empty: a snapshot is about to be read, perhaps after a failed one.
    fn restart(&mut self);
    /// A session from the snapshot.
    fn session(&mut self, id: SessionId, timeout_ms: i32);
    /// An entry of the snapshot's ACL table.
    fn acl(&mut self, id: i64, acl: Vec<Acl>);
    /// A znode from the snapshot. Parents come before children; the root's path is empty.
    ///
    /// # Errors
    /// The reason for the refusal.
    fn node(
        &mut self,
        path: &str,
        data: Option<&[u8]>,
        acl: i64,
        stat: &StatPersisted,
    ) -> Result<(), Refused>;
    /// The digest of the tree as of `zxid`. Called only if digests are enabled and the snapshot has
    /// one.
    fn digest(&mut self, zxid: Zxid, version: i32, digest: i64);
    /// The snapshot is complete and was taken at `zxid`. Without a snapshot, `zxid` is 0.
    ///
    /// # Errors
    /// The reason for the refusal.
    fn loaded(&mut self, zxid: Zxid) -> Result<(), Refused>;
    /// A transaction to apply: header, transaction and digest.
    ///
    /// # Errors
    /// The reason for the refusal.
    fn txn(&mut self, body: &[u8]) -> Result<(), Refused>;
}

/// A state that keeps nothing, to check how far files are readable.
#[derive(Clone, Copy, Debug, Default)]
pub struct Nothing;

impl Recover for Nothing {
    fn restart(&mut self) {}

    fn session(&mut self, _: SessionId, _: i32) {}

    fn acl(&mut self, _: i64, _: Vec<Acl>) {}

    fn node(
        &mut self,
        _: &str,
        _: Option<&[u8]>,
        _: i64,
        _: &StatPersisted,
    ) -> Result<(), Refused> {
        Ok(())
    }

    fn digest(&mut self, _: Zxid, _: i32, _: i64) {}

    fn loaded(&mut self, _: Zxid) -> Result<(), Refused> {
        Ok(())
    }

    fn txn(&mut self, _: &[u8]) -> Result<(), Refused> {
        Ok(())
    }
}

/// State shared by log, snapshots and recovery.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) vfs: Arc<dyn Vfs>,
    pub(crate) options: Options,
    /// `version-2` in the data directory.
    pub(crate) snap_dir: PathBuf,
    /// `version-2` in the log directory.
    pub(crate) log_dir: PathBuf,
    /// Whether a new log may start: there is a durable snapshot, or logs that need none.
    pub(crate) has_base: AtomicBool,
    /// Whether a member's state is untrusted, so that no snapshot of it may be kept.
    pub(crate) untrusted: AtomicBool,
    /// The number of times the state was replaced. Locked while data files get or lose their names,
    /// so that a snapshot of a replaced state never appears among those of the new one.
    pub(crate) generation: Mutex<u64>,
    /// Number of snapshots started; makes their temporary names unique.
    pub(crate) snapshots_begun: AtomicU64,
    /// The results of rereading the files.
    health: Mutex<Health>,
    _locks: Vec<DirLock>,
}

/// An open data directory.
#[derive(Debug)]
pub struct Store {
    pub(crate) shared: Arc<Shared>,
    pub(crate) last: Option<Zxid>,
}

impl Store {
    /// Opens the directories, creates them if permitted, and keeps other servers out.
    ///
    /// # Errors
    /// [`StoreError::Directory`], [`StoreError::Locked`], [`StoreError::Misplaced`] or
    /// [`StoreError::Io`].
    pub fn open(vfs: Arc<dyn Vfs>, options: Options) -> Result<Self, StoreError> {
        let snap_dir = options.data_dir.join(names::VERSION_DIR);
        let log_dir = options.log_dir.join(names::VERSION_DIR);
        let mut locks = Vec::new();
        let mut dirs = vec![&snap_dir];
        dirs.extend((log_dir != snap_dir).then_some(&log_dir));
        for &dir in &dirs {
            let unusable = |source| StoreError::Directory { path: dir.clone(), source };
            prepare(vfs.as_ref(), dir, options.autocreate_dirs).map_err(unusable)?;
            match vfs.lock(dir).map_err(unusable)? {
                Some(lock) => locks.push(lock),
                None => return Err(StoreError::Locked { path: dir.clone() }),
            }
            clean(vfs.as_ref(), dir).map_err(unusable)?;
        }
        if dirs.len() == 2 {
            refuse(vfs.as_ref(), &log_dir, "snapshot.", "snapshot")?;
            refuse(vfs.as_ref(), &snap_dir, "log.", "log")?;
        }
        let shared = Shared {
            vfs,
            options,
            snap_dir,
            log_dir,
            has_base: AtomicBool::new(false),
            untrusted: AtomicBool::new(false),
            generation: Mutex::new(0),
            snapshots_begun: AtomicU64::new(0),
            health: Mutex::default(),
            _locks: locks,
        };
        Ok(Self { shared: Arc::new(shared), last: None })
    }

    /// Rebuilds the state from the newest readable snapshot and the transactions after it.
    ///
    /// First finishes an interrupted truncation or installation of a leader's snapshot. May be
    /// called repeatedly; each call reads everything again.
    ///
    /// # Errors
    /// [`StoreError::Damaged`] and the other errors that say what cannot be loaded, and what to do.
    pub fn recover(&mut self, state: &mut dyn Recover) -> Result<recover::Recovered, StoreError> {
        let recovered = recover::recover(&self.shared, state)?;
        self.last = Some(recovered.last_zxid);
        Ok(recovered)
    }

    /// Rebuilds the state as of `zxid`, and removes everything later; see [`TxnLog::truncate`].
    ///
    /// # Errors
    /// As for [`TxnLog::truncate`].
    pub fn truncate(
        &mut self,
        zxid: Zxid,
        state: &mut dyn Recover,
    ) -> Result<Truncated, StoreError> {
        let truncated = recover::truncate(&self.shared, zxid, state)?;
        if let Truncated::Reaches(recovered) = &truncated {
            self.last = Some(recovered.last_zxid);
        }
        Ok(truncated)
    }

    /// The epoch files beside the snapshots.
    pub fn epochs(&self) -> EpochFiles {
        EpochFiles::new(Arc::clone(&self.shared.vfs), &self.shared.options.data_dir)
    }

    /// The file with the id of the ensemble, beside the snapshots.
    pub fn ensemble(&self) -> EnsembleFile {
        EnsembleFile::new(Arc::clone(&self.shared.vfs), &self.shared.options.data_dir)
    }

    /// The file with the committed zxid. `None` if the log is not synced: it may then end before
    /// that zxid.
    pub fn committed(&self) -> Option<CommittedFile> {
        let options = &self.shared.options;
        let vfs = || Arc::clone(&self.shared.vfs);
        options.force_sync.then(|| CommittedFile::new(vfs(), &self.shared.log_dir))
    }

    /// Returns the log for the thread that writes it, and the snapshots for the thread that takes
    /// them.
    ///
    /// # Panics
    /// If [`Store::recover`] has not succeeded before.
    pub fn split(self) -> (TxnLog, Snapshots) {
        let last = self.last.expect("a log continues what was recovered");
        // An untrusted or damaged database has last zxid −1. A leader determines where its log
        // starts.
        let last = last.max(Zxid::ZERO);
        assert!(last >= Zxid::ZERO, "no log starts in front of the first transaction");
        (TxnLog::new(Arc::clone(&self.shared), last), Snapshots::new(self.shared))
    }
}

/// Creates the directory if necessary, makes its name durable, and tests whether it is writable.
fn prepare(vfs: &dyn Vfs, dir: &Path, create: bool) -> io::Result<()> {
    if vfs.exists(dir)? {
        keep_dirs(vfs, dir)?;
    } else if create {
        create_dirs(vfs, dir)?;
    } else {
        return Err(io::ErrorKind::NotFound.into());
    }
    let probe = dir.join(names::temporary(names::PROBE));
    drop(vfs.create(&probe)?);
    vfs.remove(&probe)
}

/// Removes the incomplete files of an earlier server.
fn clean(vfs: &dyn Vfs, dir: &Path) -> io::Result<()> {
    for entry in vfs.list(dir)? {
        if names::is_temporary(&entry.name) {
            vfs.remove(&dir.join(&entry.name))?;
        }
    }
    Ok(())
}

/// Refuses a directory with files of the other kind.
fn refuse(vfs: &dyn Vfs, dir: &Path, prefix: &str, what: &'static str) -> Result<(), StoreError> {
    let entries = vfs.list(dir).map_err(StoreError::io("list directory", dir))?;
    match entries.into_iter().find(|entry| entry.name.starts_with(prefix)) {
        Some(entry) => Err(StoreError::Misplaced { path: dir.join(entry.name), what }),
        None => Ok(()),
    }
}

//! A data directory: opening it, and what its parts share.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use zebu_proto::{Acl, SessionId, StatPersisted, Zxid};

use crate::CommittedFile;
use crate::log::TxnLog;
use crate::snapshot::Snapshots;
use crate::vfs::{DirLock, Vfs, create_dirs, keep_dirs};
use crate::{EpochFiles, StoreError, Truncated, names, recover};

/// How snapshots are compressed when they are written; when read, their names say it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Compression {
    /// Not at all.
    #[default]
    None,
    /// A gzip member; suffix `.gz`.
    Gzip,
    /// Snappy blocks in the framing of xerial's library; suffix `.snappy`.
    Snappy,
}

impl Compression {
    /// What it adds to a file's name.
    pub const fn suffix(self) -> &'static str {
        match self {
            Self::None => "",
            Self::Gzip => ".gz",
            Self::Snappy => ".snappy",
        }
    }
}

/// Where and how data is kept.
#[derive(Clone, Debug)]
pub struct Options {
    /// `dataDir`: has snapshots in its `version-2`.
    pub data_dir: PathBuf,
    /// `dataLogDir`: has logs in its `version-2`; may be the same directory.
    pub log_dir: PathBuf,
    /// `preAllocSize`, in bytes: by how much logs are extended ahead of writing; 0 for not at all.
    pub prealloc_bytes: u64,
    /// Whether extensions start small and grow with the log, up to `prealloc_bytes`.
    pub prealloc_adaptive: bool,
    /// `forceSync`: whether a transaction is durable before it is acknowledged.
    pub force_sync: bool,
    /// `fsync.warningthresholdms`: a sync that takes longer is reported as slow.
    pub fsync_warning: Duration,
    /// `txnLogSizeLimitInKb`, in bytes: a log that is larger asks to be rolled.
    pub log_size_limit: Option<u64>,
    /// `snapshot.compression.method`.
    pub compression: Compression,
    /// `digest.enabled`: whether snapshots carry the tree's digest.
    pub digest: bool,
    /// `serializeLastProcessedZxid.enabled`: whether snapshots carry the last zxid.
    pub last_zxid_section: bool,
    /// `snapshot.trust.empty`: whether logs without a snapshot are complete.
    pub trust_empty_snapshot: bool,
    /// `datadir.autocreate`: whether missing directories are created.
    pub autocreate_dirs: bool,
    /// `db.autocreate`: whether an empty directory is a new database without being told so.
    pub autocreate_db: bool,
    /// Longest record that is believed in a log of the original: `jute.maxbuffer` and what it adds.
    pub record_bytes_max: usize,
    /// `zebu.acceptDamagedLog`: load what can be read, and say what cannot.
    pub accept_damage: bool,
    /// Whether this is a member of an ensemble: what is damaged is then reported in
    /// [`Recovered::damaged`](crate::Recovered::damaged), for a leader to repair, and does not end
    /// the start.
    pub member: bool,
    /// `syncEnabled`: whether transactions are logged. An observer may go without a log; it then
    /// starts from its last snapshot.
    pub log_txns: bool,
    /// How many of the newest transactions a recovery keeps in
    /// [`Recovered::recent`](crate::Recovered::recent); 0 for none.
    pub recent_txns_max: usize,
    /// How many bytes their bodies may have together.
    pub recent_bytes_max: usize,
}

impl Shared {
    /// Notes what kind of state there is now.
    pub(crate) fn replaced(&self, is_based: bool, last: Zxid) {
        self.has_base.store(is_based, Ordering::Release);
        self.untrusted.store(self.options.member && last < Zxid::ZERO, Ordering::Release);
    }

    /// The number of the current state; nobody else changes files while it is held.
    pub(crate) fn generation(&self) -> MutexGuard<'_, u64> {
        // The number alone cannot be inconsistent.
        self.generation.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Options {
    /// The original's defaults, with snapshots and logs under one directory.
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
            // jute.maxbuffer and as much again, as in the original.
            record_bytes_max: 2 * 0xf_ffff,
            accept_damage: false,
            member: false,
            log_txns: true,
            recent_txns_max: 0,
            recent_bytes_max: 64 * 1024 * 1024,
        }
    }
}

/// The state that is rebuilt at a start.
///
/// An error of a method is a reason in words; it rejects the snapshot, or ends the start when the
/// state does not accept a transaction.
pub trait Recover {
    /// Forgets everything: a snapshot is about to be read, perhaps after another one failed.
    fn restart(&mut self);
    /// A session of the snapshot.
    fn session(&mut self, id: SessionId, timeout_ms: i32);
    /// An entry of the snapshot's ACL table.
    fn acl(&mut self, id: i64, acl: Vec<Acl>);
    /// A znode of the snapshot; parents come before children, the root's path is empty.
    ///
    /// # Errors
    /// Why it cannot be.
    fn node(
        &mut self,
        path: &str,
        data: Option<&[u8]>,
        acl: i64,
        stat: &StatPersisted,
    ) -> Result<(), String>;
    /// The digest of the tree when it had applied `zxid`; called only when digests are enabled and
    /// the snapshot has one.
    fn digest(&mut self, zxid: Zxid, version: i32, digest: i64);
    /// The snapshot is complete and was taken at `zxid`, or there is none and `zxid` is 0.
    ///
    /// # Errors
    /// Why it cannot be.
    fn loaded(&mut self, zxid: Zxid) -> Result<(), String>;
    /// A transaction to apply: header, transaction and digest.
    ///
    /// # Errors
    /// Why it cannot be applied.
    fn txn(&mut self, body: &[u8]) -> Result<(), String>;
}

/// Takes what is recovered, and keeps nothing of it: for whoever wants to know only whether files can be read, and how far.
#[derive(Clone, Copy, Debug, Default)]
pub struct Nothing;

impl Recover for Nothing {
    fn restart(&mut self) {}

    fn session(&mut self, _: SessionId, _: i32) {}

    fn acl(&mut self, _: i64, _: Vec<Acl>) {}

    fn node(&mut self, _: &str, _: Option<&[u8]>, _: i64, _: &StatPersisted) -> Result<(), String> {
        Ok(())
    }

    fn digest(&mut self, _: Zxid, _: i32, _: i64) {}

    fn loaded(&mut self, _: Zxid) -> Result<(), String> {
        Ok(())
    }

    fn txn(&mut self, _: &[u8]) -> Result<(), String> {
        Ok(())
    }
}

/// What log, snapshots and recovery share.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) vfs: Arc<dyn Vfs>,
    pub(crate) options: Options,
    /// `version-2` in the data directory.
    pub(crate) snap_dir: PathBuf,
    /// `version-2` in the log directory.
    pub(crate) log_dir: PathBuf,
    /// Whether a snapshot is durable, or logs that need none, so that logs may follow.
    pub(crate) has_base: AtomicBool,
    /// Whether a member's state is not to be trusted, so that no snapshot of it may be kept.
    pub(crate) untrusted: AtomicBool,
    /// How often the state has been replaced. Held while files get or lose their names, so that a
    /// snapshot of a state that is no more does not appear among those of the new one.
    pub(crate) generation: Mutex<u64>,
    /// How many snapshots have been begun: each has a temporary name of its own.
    pub(crate) snapshots_begun: AtomicU64,
    _locks: Vec<DirLock>,
}

/// An open data directory.
#[derive(Debug)]
pub struct Store {
    pub(crate) shared: Arc<Shared>,
    pub(crate) last: Option<Zxid>,
}

impl Store {
    /// Opens the directories, creating them if that is allowed, and keeps other servers out.
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
            _locks: locks,
        };
        Ok(Self { shared: Arc::new(shared), last: None })
    }

    /// Rebuilds the state: the newest snapshot that can be read, then the transactions after it.
    ///
    /// What a crash has interrupted, a truncation or the installation of a leader's snapshot, is
    /// finished first. May be called again; each time everything is read anew.
    ///
    /// # Errors
    /// [`StoreError::Damaged`] and the others that say what cannot be loaded, and what to do.
    pub fn recover(&mut self, state: &mut dyn Recover) -> Result<recover::Recovered, StoreError> {
        let recovered = recover::recover(&self.shared, state)?;
        self.last = Some(recovered.last_zxid);
        Ok(recovered)
    }

    /// Rebuilds the state as it was after `zxid`, and removes everything later for good; see
    /// [`TxnLog::truncate`].
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

    /// What a member knows to be committed, beside the log; `None` where the log is not synced or not written: then it may
    /// end before what is known.
    pub fn committed(&self) -> Option<CommittedFile> {
        let options = &self.shared.options;
        let vfs = || Arc::clone(&self.shared.vfs);
        (options.force_sync && options.log_txns)
            .then(|| CommittedFile::new(vfs(), &self.shared.log_dir))
    }

    /// Hands out the log for the thread that writes it, and snapshots for the thread that takes them.
    ///
    /// # Panics
    /// Before [`Store::recover`] has succeeded.
    pub fn split(self) -> (TxnLog, Snapshots) {
        let last = self.last.expect("a log continues what was recovered");
        // An untrusted or damaged database has last zxid -1; its log starts where a leader says.
        let last = last.max(Zxid::ZERO);
        assert!(last >= Zxid::ZERO, "no log starts in front of the first transaction");
        (TxnLog::new(Arc::clone(&self.shared), last), Snapshots::new(self.shared))
    }
}

/// Creates the directory if it is missing, makes sure that a loss of power leaves it there, and tries
/// whether it can be written.
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

/// Removes what an earlier server did not complete.
fn clean(vfs: &dyn Vfs, dir: &Path) -> io::Result<()> {
    for entry in vfs.list(dir)? {
        if names::is_temporary(&entry.name) {
            vfs.remove(&dir.join(&entry.name))?;
        }
    }
    Ok(())
}

/// Refuses a directory that has files of the other kind.
fn refuse(vfs: &dyn Vfs, dir: &Path, prefix: &str, what: &'static str) -> Result<(), StoreError> {
    let entries = vfs.list(dir).map_err(StoreError::io("list directory", dir))?;
    match entries.into_iter().find(|entry| entry.name.starts_with(prefix)) {
        Some(entry) => Err(StoreError::Misplaced { path: dir.join(entry.name), what }),
        None => Ok(()),
    }
}

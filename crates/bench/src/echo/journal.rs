//! The log of the echo server: every request that a real server has to log, in one file.
//!
//! The file has its full size from the beginning and is filled with zeros, as the servers' logs
//! are, so that a sync allocates no space. After its end, writing continues at its beginning. One
//! `pwrite` and one `fdatasync` serve all waiting requests. The thread that reads and answers syncs
//! a small batch itself, because a hand-over and a wake-up take about as long as the answers to
//! some hundred requests. A thread of its own syncs a larger batch, while the next one is read.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, Sender, TryRecvError, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

use anyhow::Context;
use mio::Waker;

/// The size of the file: small, so that filling it does not keep the disk busy during the
/// measurement.
const FILE_BYTES: u64 = 4 << 20;
/// Its name.
const FILE: &str = "log";
/// Up to this many requests are synced without a change of threads.
const SMALL: usize = 64;
/// Zeros are written in blocks of this size.
const BLOCK_BYTES: usize = 1 << 20;

/// What a server has logged since its start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Logged {
    /// Records in its log.
    pub(crate) records: u64,
    /// Syncs of its log.
    pub(crate) syncs: u64,
}

/// The same, while it is counted.
#[derive(Debug, Default)]
pub(super) struct Counts {
    records: AtomicU64,
    syncs: AtomicU64,
}

impl Counts {
    /// The counts so far.
    pub(super) fn logged(&self) -> Logged {
        Logged {
            records: self.records.load(Ordering::Relaxed),
            syncs: self.syncs.load(Ordering::Relaxed),
        }
    }
}

/// Requests that must become durable, and the sync in progress.
#[derive(Debug)]
pub(super) struct Journal {
    log: Arc<Mutex<Log>>,
    pending: Vec<u8>,
    /// Requests in `pending`.
    count: usize,
    counts: Arc<Counts>,
    work: Sender<Vec<u8>>,
    done: Receiver<io::Result<Vec<u8>>>,
    is_busy: bool,
}

impl Journal {
    /// A journal in `dir`, which is created. `waker` tells the caller's thread that a sync is over.
    ///
    /// # Errors
    /// The file cannot be made or filled.
    pub(super) fn new(dir: &Path, waker: Waker) -> anyhow::Result<Self> {
        let log = Log::create(dir).with_context(|| format!("make a log in {}", dir.display()))?;
        let log = Arc::new(Mutex::new(log));
        let (work, todo) = channel::<Vec<u8>>();
        let (report, done) = channel();
        let shared = Arc::clone(&log);
        thread::Builder::new().name("echo-sync".into()).spawn(move || {
            // The loop ends when the journal is dropped.
            for mut bytes in todo {
                let result = write(&shared, &bytes).map(|()| {
                    bytes.clear();
                    bytes
                });
                if report.send(result).is_err() || waker.wake().is_err() {
                    return; // nobody waits any more
                }
            }
        })?;
        let counts = Arc::default();
        Ok(Self { log, pending: Vec::new(), count: 0, counts, work, done, is_busy: false })
    }

    /// Adds a request.
    pub(super) fn add(&mut self, request: &[u8]) {
        self.pending.extend_from_slice(&(request.len() as u64).to_be_bytes());
        self.pending.extend_from_slice(request);
        self.count += 1;
    }

    /// What it has logged; the counts go on.
    pub(super) fn counts(&self) -> Arc<Counts> {
        Arc::clone(&self.counts)
    }

    /// The number of requests that wait for the next sync.
    pub(super) fn waiting(&self) -> usize {
        self.count
    }

    /// Whether a sync is in progress.
    pub(super) fn is_busy(&self) -> bool {
        self.is_busy
    }

    /// Syncs the waiting requests. Returns `true` if the sync is complete, and `false` if
    /// [`Journal::is_done`] will report that.
    ///
    /// # Errors
    /// The disk failed.
    pub(super) fn sync(&mut self) -> io::Result<bool> {
        assert!(!self.is_busy, "one sync at a time");
        if self.pending.is_empty() {
            return Ok(true);
        }
        let is_small = self.count <= SMALL;
        self.counts.records.fetch_add(self.count as u64, Ordering::Relaxed);
        self.counts.syncs.fetch_add(1, Ordering::Relaxed);
        self.count = 0;
        if is_small {
            write(&self.log, &self.pending)?;
            self.pending.clear();
            return Ok(true);
        }
        self.is_busy = true;
        let bytes = std::mem::take(&mut self.pending);
        self.work.send(bytes).map_err(|_| io::Error::other("the thread that syncs has ended"))?;
        Ok(false)
    }

    /// Whether the sync that was in progress is complete.
    ///
    /// # Errors
    /// The disk failed.
    pub(super) fn is_done(&mut self) -> io::Result<bool> {
        match self.done.try_recv() {
            Ok(result) => {
                let spare = result?;
                if self.pending.is_empty() {
                    self.pending = spare;
                }
                self.is_busy = false;
                Ok(true)
            }
            Err(TryRecvError::Empty) => Ok(false),
            Err(TryRecvError::Disconnected) => {
                Err(io::Error::other("the thread that syncs has ended"))
            }
        }
    }
}

fn write(log: &Mutex<Log>, bytes: &[u8]) -> io::Result<()> {
    log.lock().unwrap_or_else(PoisonError::into_inner).write(bytes)
}

/// The file.
#[derive(Debug)]
struct Log {
    file: File,
    /// The position of the next write.
    at: u64,
}

impl Log {
    fn create(dir: &Path) -> io::Result<Self> {
        std::fs::create_dir_all(dir)?;
        let file = File::create(dir.join(FILE))?;
        let zeros = vec![0; BLOCK_BYTES];
        for at in (0..FILE_BYTES).step_by(BLOCK_BYTES) {
            file.write_all_at(&zeros, at)?;
        }
        file.sync_all()?;
        Ok(Self { file, at: 0 })
    }

    /// Writes all of `bytes`, with wrap-around at the end of the file, and syncs once.
    fn write(&mut self, mut bytes: &[u8]) -> io::Result<()> {
        while !bytes.is_empty() {
            let room = usize::try_from(FILE_BYTES - self.at).unwrap_or(usize::MAX);
            let (part, rest) = bytes.split_at(bytes.len().min(room));
            self.file.write_all_at(part, self.at)?;
            self.at = (self.at + part.len() as u64) % FILE_BYTES;
            bytes = rest;
        }
        self.file.sync_data()
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn records_and_syncs_are_counted() {
        let dir = tempfile::tempdir().unwrap();
        let poll = mio::Poll::new().unwrap();
        let waker = Waker::new(poll.registry(), mio::Token(0)).unwrap();
        let mut journal = Journal::new(dir.path(), waker).unwrap();
        let counts = journal.counts();
        assert!(journal.sync().unwrap(), "nothing to sync");
        for records in [1, 3, SMALL + 1] {
            (0..records).for_each(|_| journal.add(b"record"));
            journal.sync().unwrap();
        }
        assert_eq!(counts.logged(), Logged { records: 5 + SMALL as u64, syncs: 3 });
    }

    #[test]
    fn the_file_keeps_its_size_and_begins_again_at_its_end() {
        let dir = tempfile::tempdir().unwrap();
        let mut log = Log::create(dir.path()).unwrap();
        let size = || fs::metadata(dir.path().join(FILE)).unwrap().len();
        assert_eq!(size(), FILE_BYTES);
        log.at = FILE_BYTES - 2;
        log.write(&[1, 2, 3, 4, 5]).unwrap();
        assert_eq!((log.at, size()), (3, FILE_BYTES));
        let bytes = fs::read(dir.path().join(FILE)).unwrap();
        assert_eq!((&bytes[..4], &bytes[bytes.len() - 2..]), (&[3, 4, 5, 0][..], &[1, 2][..]));
    }
}

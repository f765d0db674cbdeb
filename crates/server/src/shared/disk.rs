//! State that the threads for the disk share.

use std::sync::atomic::AtomicUsize;
use std::time::Duration;

use parking_lot::Mutex;
use zebu_proto::Zxid;
use zebu_store::{Rate, Snapshots};

/// State that the threads for the disk share.
pub struct Disk {
    /// Transactions on their way to the log.
    pub log_queue: AtomicUsize,
    /// Bytes of those records.
    pub log_queue_bytes: AtomicUsize,
    /// Replacements of log and tree that are requested and not yet done.
    pub remaking: AtomicUsize,
    /// The snapshots on the disk.
    pub snapshots: Snapshots,
    /// Held while a snapshot is taken, because two at a time would write the same file.
    pub taking_snapshot: Mutex<()>,
    /// The first transaction after which this member's tree is known to differ from its leader's.
    pub differing: Mutex<Option<Zxid>>,
    /// Files that were found damaged while the server runs, each as a sentence.
    pub damaged_files: Mutex<Vec<String>>,
    /// The reasons why the repair of damaged logs waits, each as a sentence.
    pub repair: Mutex<Vec<String>>,
    /// Limits the rate at which files are sent, to backups and to members that repair their logs
    /// together.
    shipping: Mutex<Rate>,
}

impl Disk {
    pub(super) fn new(snapshots: Snapshots, ship_bytes_per_second: u64) -> Self {
        Self {
            log_queue: AtomicUsize::new(0),
            log_queue_bytes: AtomicUsize::new(0),
            remaking: AtomicUsize::new(0),
            snapshots,
            taking_snapshot: Mutex::default(),
            differing: Mutex::default(),
            damaged_files: Mutex::default(),
            repair: Mutex::default(),
            shipping: Mutex::new(Rate::new(ship_bytes_per_second, Duration::ZERO)),
        }
    }

    /// Counts sent bytes of files. Returns the time to wait before more are sent.
    pub fn pause_shipping(&self, now: Duration, bytes: u64) -> Duration {
        self.shipping.lock().pause(now, bytes)
    }
}

//! State that the threads for the disk share.

use std::sync::atomic::AtomicUsize;
use std::time::Duration;

use parking_lot::Mutex;
use zebu_proto::Zxid;
use zebu_store::{Rate, Snapshots};

/// State that the threads for the disk share.
pub struct Disk {
    /// Txns on their way to the log.
    pub log_queue: AtomicUsize,
    /// Bytes of those records.
    pub log_queue_bytes: AtomicUsize,
    /// How often log and tree are to be made anew, and have not been.
    pub remaking: AtomicUsize,
    /// Snapshots on the disk.
    pub snapshots: Snapshots,
    /// Held while a snapshot is taken: two at a time would write the same file.
    pub taking_snapshot: Mutex<()>,
    /// The first transaction behind which this member's tree is known to differ from its leader's.
    pub differing: Mutex<Option<Zxid>>,
    /// Files that were found damaged while the server runs, each as a sentence.
    pub damaged_files: Mutex<Vec<String>>,
    /// What damaged logs wait for, each as a sentence.
    pub mending: Mutex<Vec<String>>,
    /// How quickly files are sent to backups and to members that mend their logs, all together.
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
            mending: Mutex::default(),
            shipping: Mutex::new(Rate::new(ship_bytes_per_second, Duration::ZERO)),
        }
    }

    /// Counts bytes of files that were sent; says how long to wait before more are sent.
    pub fn pause_shipping(&self, now: Duration, bytes: u64) -> Duration {
        self.shipping.lock().pause(now, bytes)
    }
}

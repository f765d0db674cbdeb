//! State that the threads for the disk share.

use std::sync::atomic::AtomicUsize;

use parking_lot::Mutex;
use zebu_proto::Zxid;
use zebu_store::Snapshots;

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
}

impl Disk {
    pub(super) fn new(snapshots: Snapshots) -> Self {
        Self {
            log_queue: AtomicUsize::new(0),
            log_queue_bytes: AtomicUsize::new(0),
            remaking: AtomicUsize::new(0),
            snapshots,
            taking_snapshot: Mutex::default(),
            differing: Mutex::default(),
            damaged_files: Mutex::default(),
            mending: Mutex::default(),
        }
    }
}

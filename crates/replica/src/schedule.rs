//! Decides when a snapshot is due: at a random point in the second half of the configured number of
//! transactions or bytes, so that a quorum never snapshots together. Never two at once (STO-24).
//!
//! The number of transactions alone would write a large tree again and again for few changes: ten
//! million znodes for each hundred thousand transactions. So the log must also have a share of the
//! snapshot's bytes: a snapshot saves the replay of the log, and nothing else.
//!
//! Source: `SyncRequestProcessor.shouldSnapshot`.

use std::time::Duration;

use zebu_tree::Tree;
use zebu_zab::random::Random;

/// The time after which a failed snapshot is tried again.
const RETRY_AFTER: Duration = Duration::from_secs(60);

/// How often snapshots are taken.
#[derive(Clone, Debug)]
pub struct SnapshotOptions {
    /// Transactions between snapshots, at least 2.
    pub every_txns: u64,
    /// Bytes of log between snapshots; `None` is no limit.
    pub every_bytes: Option<u64>,
    /// The share of a snapshot's bytes, in percent, that the log must also have before `every_txns`
    /// counts; 0: none. `every_bytes` counts regardless of it.
    pub log_percent: u32,
}

impl Default for SnapshotOptions {
    fn default() -> Self {
        Self { every_txns: 100_000, every_bytes: Some(4 << 30), log_percent: 100 }
    }
}

/// Counts towards the next snapshot.
#[derive(Debug)]
pub(crate) struct SnapshotSchedule {
    options: SnapshotOptions,
    random: Random,
    txns: u64,
    bytes: u64,
    txns_due: u64,
    bytes_due: Option<u64>,
    /// Per mille of a snapshot's bytes.
    share_due: u64,
    running: bool,
    /// Whether to start a snapshot as soon as this server serves.
    wanted: bool,
    /// When a failed snapshot is tried again.
    retry_at: Option<Duration>,
}

impl SnapshotSchedule {
    pub(crate) fn new(options: SnapshotOptions, seed: u64) -> Self {
        let mut schedule = Self {
            options,
            random: Random::new(seed),
            txns: 0,
            bytes: 0,
            txns_due: 0,
            bytes_due: None,
            share_due: 0,
            running: false,
            wanted: false,
            retry_at: None,
        };
        schedule.draw();
        schedule
    }

    /// Draws the next point: half of the limit plus a random part of the other half.
    fn draw(&mut self) {
        let half = self.options.every_txns.max(2) / 2;
        self.txns_due = half + self.random.below(half);
        assert!(half <= self.txns_due && self.txns_due < 2 * half, "due in the second half");
        let random = &mut self.random;
        self.bytes_due = self.options.every_bytes.map(|bytes| bytes / 2 + random.below(bytes / 2));
        let most = u64::from(self.options.log_percent) * 10;
        self.share_due = most / 2 + random.below((most / 2).max(1));
        assert!(self.share_due <= most, "due in the second half");
        self.txns = 0;
        self.bytes = 0;
    }

    /// Counts records logged since the last snapshot.
    pub(crate) fn count(&mut self, txns: u64, bytes: u64) {
        self.txns = self.txns.saturating_add(txns);
        self.bytes = self.bytes.saturating_add(bytes);
    }

    /// Counts one record. Returns whether a snapshot of this tree starts now.
    pub(crate) fn appended(&mut self, bytes: usize, tree: &Tree) -> bool {
        self.count(1, bytes as u64);
        self.starts(tree)
    }

    /// Whether a snapshot of this tree starts now.
    ///
    /// If one is due while the last is still being written, it is skipped and counting restarts.
    pub(crate) fn starts(&mut self, tree: &Tree) -> bool {
        if !self.is_due(|| snapshot_bytes(tree)) {
            return false;
        }
        self.draw();
        assert_eq!((self.txns, self.bytes), (0, 0), "the count starts again");
        !std::mem::replace(&mut self.running, true)
    }

    /// Whether a snapshot of so many bytes is due.
    fn is_due(&self, snapshot: impl FnOnce() -> u64) -> bool {
        let is_worth =
            || u128::from(self.bytes) * 1000 >= u128::from(snapshot()) * u128::from(self.share_due);
        self.bytes_due.is_some_and(|due| self.bytes > due)
            || (self.txns > self.txns_due && is_worth())
    }

    /// Requests a snapshot as soon as this server serves, even with few transactions.
    pub(crate) fn want(&mut self) {
        self.wanted = true;
    }

    /// This server starts to serve. Returns whether a requested snapshot starts now.
    pub(crate) fn serves(&mut self) -> bool {
        if !std::mem::take(&mut self.wanted) {
            return false;
        }
        self.draw();
        !std::mem::replace(&mut self.running, true)
    }

    /// A snapshot is already being written.
    pub(crate) fn begun(&mut self) {
        self.running = true;
    }

    pub(crate) fn done(&mut self) {
        self.running = false;
        self.retry_at = None;
    }

    /// A snapshot could not be written, for example because the disk is full. The log continues to
    /// grow, so the retry does not wait for the next count.
    pub(crate) fn failed(&mut self, now: Duration) {
        self.running = false;
        self.retry_at = Some(now.saturating_add(RETRY_AFTER));
    }

    /// Time has passed. Returns whether a failed snapshot is tried again now.
    pub(crate) fn retries(&mut self, now: Duration) -> bool {
        if self.running || self.retry_at.is_none_or(|at| now < at) {
            return false;
        }
        self.retry_at = None;
        self.draw();
        !std::mem::replace(&mut self.running, true)
    }
}

/// The approximate bytes of a snapshot of a tree: each znode's path and data, and a constant for
/// each znode.
fn snapshot_bytes(tree: &Tree) -> u64 {
    /// Two lengths, the number of the ACL, and the stored part of the stat.
    const ZNODE_BYTES: u64 = 4 + 4 + 8 + 60;
    tree.approximate_data_size() + tree.znode_count() as u64 * ZNODE_BYTES
}

#[cfg(test)]
mod tests {
    use zebu_tree::Options;

    use super::*;

    fn empty() -> Tree {
        Tree::new(Options::default())
    }

    fn first_due(schedule: &mut SnapshotSchedule) -> u64 {
        let tree = empty();
        (1..).find(|_| schedule.appended(100, &tree)).unwrap()
    }

    #[test]
    fn one_that_is_wanted_starts_when_the_server_serves() {
        let mut schedule = SnapshotSchedule::new(
            SnapshotOptions { every_txns: 1000, every_bytes: None, log_percent: 0 },
            1,
        );
        assert!(!schedule.serves());
        schedule.want();
        assert!(schedule.serves());
        schedule.want();
        assert!(!schedule.serves(), "one is being written");
        schedule.done();
        assert!(!schedule.serves(), "it was wanted once");
    }

    #[test]
    fn snapshots_fall_into_the_second_half_of_the_interval() {
        let options = SnapshotOptions { every_txns: 1000, every_bytes: None, log_percent: 0 };
        let mut points = Vec::new();
        for seed in 0..50 {
            let due = first_due(&mut SnapshotSchedule::new(options.clone(), seed));
            assert!((501..=1001).contains(&due), "{due}");
            points.push(due);
        }
        points.dedup();
        assert!(points.len() > 20, "the points are spread out");
    }

    #[test]
    fn one_that_is_due_while_another_runs_is_skipped() {
        let options = SnapshotOptions { every_txns: 2, every_bytes: None, log_percent: 0 };
        let mut schedule = SnapshotSchedule::new(options, 1);
        first_due(&mut schedule);
        let tree = empty();
        assert!((0..1000).all(|_| !schedule.appended(1, &tree)));
        schedule.done();
        first_due(&mut schedule);
    }

    #[test]
    fn what_was_in_the_log_before_counts() {
        let options =
            SnapshotOptions { every_txns: 1000, every_bytes: Some(100_000), log_percent: 0 };
        for (txns, bytes) in [(1000, 0), (0, 100_000)] {
            let mut schedule = SnapshotSchedule::new(options.clone(), 9);
            schedule.count(txns, bytes);
            assert_eq!(first_due(&mut schedule), 1);
            schedule.done();
            assert!(first_due(&mut schedule) > 500, "counted once");
        }
    }

    #[test]
    fn the_log_of_a_large_tree_has_to_be_worth_a_share_of_it() {
        let options =
            |every_bytes| SnapshotOptions { every_txns: 1000, every_bytes, log_percent: 100 };
        for seed in 0..20 {
            // Records of 100 bytes, and a tree whose snapshot has a million bytes.
            let due_after = |every_bytes| {
                let mut schedule = SnapshotSchedule::new(options(every_bytes), seed);
                (1_u64..)
                    .find(|_| {
                        schedule.count(1, 100);
                        schedule.is_due(|| 1_000_000)
                    })
                    .unwrap()
            };
            let due = due_after(None);
            assert!((5_000..=10_000).contains(&due), "{due}");
            assert!(
                (1001..=2001).contains(&due_after(Some(200_000))),
                "a limit of bytes stays one"
            );
        }
    }

    #[test]
    fn a_small_tree_is_written_after_as_many_transactions_as_ever() {
        for log_percent in [0, 100] {
            let options = SnapshotOptions { every_txns: 1000, every_bytes: None, log_percent };
            let due = first_due(&mut SnapshotSchedule::new(options, 5));
            assert!((501..=1001).contains(&due), "{due}");
        }
    }

    #[test]
    fn bytes_count_too() {
        let options =
            SnapshotOptions { every_txns: 1 << 40, every_bytes: Some(10_000), log_percent: 0 };
        let due = first_due(&mut SnapshotSchedule::new(options, 3));
        assert!((51..=101).contains(&due), "{due}");
    }

    #[test]
    fn one_that_failed_is_tried_again_after_a_while_and_alone() {
        let mut schedule = SnapshotSchedule::new(SnapshotOptions::default(), 1);
        let minute = Duration::from_secs(60);
        assert!(!schedule.retries(minute), "none has failed");
        schedule.begun();
        schedule.failed(minute);
        assert!(!schedule.retries(minute), "not at once");
        assert!(schedule.retries(minute * 2));
        assert!(!schedule.retries(minute * 9), "it is being written");
        schedule.failed(minute * 3);
        schedule.begun();
        schedule.done();
        assert!(!schedule.retries(minute * 9), "another one was written meanwhile");
    }

    #[test]
    fn one_that_is_wanted_begins_however_little_there_is() {
        let mut schedule = SnapshotSchedule::new(SnapshotOptions::default(), 1);
        assert!(!schedule.serves());
        schedule.want();
        assert!(schedule.serves());
        schedule.want();
        assert!(!schedule.serves(), "one is being written");
    }
}

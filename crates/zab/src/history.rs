//! One server's part of the order of transactions: those delivered, and those logged beyond.
//!
//! **Invariant:** `recent` ends at `delivered`, `pending` continues from there, and neither has
//! gaps; `flushed` is between `delivered` and the end.

use std::collections::VecDeque;

use bytes::Bytes;
use zebu_proto::Zxid;

use crate::faults;

/// A transaction. This crate only uses its place in the order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Txn {
    /// Its place in the order.
    pub zxid: Zxid,
    /// Its bytes: header, record and digest, as in the log.
    pub record: Bytes,
}

/// How much delivered history is kept in memory.
#[derive(Clone, Copy, Debug)]
pub struct Memory {
    /// Transactions to keep whatever their size (`zookeeper.commitLogCount`), up to `bytes_max`.
    pub txns: usize,
    /// Above this many bytes, only `txns` transactions are kept.
    pub bytes: usize,
    /// Hard limit in bytes; only a single transaction may exceed it.
    pub bytes_max: usize,
    /// Bytes of logged but undelivered transactions above which a learner starts to apply them
    /// during synchronization.
    pub pending_bytes: usize,
}

impl Default for Memory {
    fn default() -> Self {
        Self { txns: 500, bytes: 8 << 20, bytes_max: 64 << 20, pending_bytes: 64 << 20 }
    }
}

/// Factor above `pending_bytes` at which a leader is too far ahead of its disk.
const TOO_FAR: usize = 4;

/// The most recent part of a server's history.
#[derive(Debug)]
pub struct History {
    memory: Memory,
    recent: VecDeque<Txn>,
    recent_bytes: usize,
    pending: VecDeque<Txn>,
    pending_bytes: usize,
    delivered: Zxid,
    flushed: Zxid,
}

/// Whether `next` may follow `before`: as the next zxid of the epoch, or in a later epoch.
pub fn follows(before: Zxid, next: Zxid) -> bool {
    if before.epoch() == next.epoch() {
        before.next() == Some(next)
    } else {
        next > before && next.counter() > 0
    }
}

impl History {
    /// The history after recovery: everything up to `delivered` is applied and durable. `recent`:
    /// the last part of it.
    pub fn new(memory: Memory, delivered: Zxid, recent: impl IntoIterator<Item = Txn>) -> Self {
        let mut history = Self {
            memory,
            recent: VecDeque::new(),
            recent_bytes: 0,
            pending: VecDeque::new(),
            pending_bytes: 0,
            delivered,
            flushed: delivered,
        };
        for txn in recent {
            history.remember(txn);
        }
        if history.recent.back().is_some_and(|txn| txn.zxid != delivered) {
            history.recent.clear();
            history.recent_bytes = 0;
        }
        history.check_whole();
        history
    }

    /// The newest transaction in the tree.
    pub fn delivered(&self) -> Zxid {
        self.delivered
    }

    /// The newest transaction that is durable.
    pub fn flushed(&self) -> Zxid {
        self.flushed
    }

    /// The newest transaction.
    pub fn last(&self) -> Zxid {
        self.pending.back().map_or(self.delivered, |txn| txn.zxid)
    }

    /// The undelivered transactions.
    pub fn pending(&self) -> impl ExactSizeIterator<Item = &Txn> {
        self.pending.iter()
    }

    /// Whether the undelivered transactions exceed the limit.
    pub fn is_far_ahead(&self) -> bool {
        self.pending_bytes > self.memory.pending_bytes
    }

    /// Whether the undelivered transactions exceed the limit several times.
    pub fn is_too_far_ahead(&self) -> bool {
        self.pending_bytes / TOO_FAR > self.memory.pending_bytes
    }

    /// The undelivered transactions above `after`.
    pub fn pending_above(&self, after: Zxid) -> impl Iterator<Item = &Txn> {
        let start = self.pending.partition_point(|txn| txn.zxid <= after);
        self.pending.range(start..)
    }

    /// The transactions in memory above `after`, oldest first.
    pub fn above(&self, after: Zxid) -> impl Iterator<Item = &Txn> {
        let start = self.recent.partition_point(|txn| txn.zxid <= after);
        self.recent.range(start..).chain(self.pending_above(after))
    }

    /// All transactions in memory, oldest first.
    pub fn all(&self) -> impl Iterator<Item = &Txn> {
        self.recent.iter().chain(&self.pending)
    }

    /// Adds a transaction that is being logged.
    ///
    /// # Panics
    /// If it does not follow the last one.
    pub fn push(&mut self, txn: Txn) {
        let is_next = follows(self.last(), txn.zxid) || faults::gap_accepted();
        assert!(is_next, "{} after {}", txn.zxid, self.last());
        self.pending_bytes += txn.record.len();
        self.pending.push_back(txn);
    }

    /// Everything up to `zxid` is durable.
    ///
    /// A late report may concern transactions that were truncated meanwhile; then it only counts up
    /// to the end.
    pub fn set_flushed(&mut self, zxid: Zxid) {
        self.flushed = self.flushed.max(zxid.min(self.last()));
    }

    /// Takes the next transaction to deliver, if it is durable and not above `bound`.
    pub fn deliver(&mut self, bound: Zxid) -> Option<Txn> {
        let next = self.pending.front()?;
        let flushed = if faults::applied_before_fsync() { bound } else { self.flushed };
        if next.zxid > bound.min(flushed) {
            return None;
        }
        let txn = self.pending.pop_front()?;
        assert!(txn.zxid > self.delivered, "{} after {}", txn.zxid, self.delivered);
        self.pending_bytes -= txn.record.len();
        self.delivered = txn.zxid;
        self.remember(txn.clone());
        Some(txn)
    }

    /// Removes the undelivered transactions above `zxid`.
    ///
    /// # Panics
    /// If `zxid` is below the delivered end.
    pub fn cut(&mut self, zxid: Zxid) {
        assert!(zxid >= self.delivered, "{zxid} is below {}", self.delivered);
        let keep = self.pending.partition_point(|txn| txn.zxid <= zxid);
        let cut = self.pending.drain(keep..);
        self.pending_bytes -= cut.map(|txn| txn.record.len()).sum::<usize>();
        self.flushed = self.flushed.min(self.last());
        assert!(self.last() <= zxid, "{} is left behind {zxid}", self.last());
        self.check_whole();
    }

    /// The tree was rebuilt: it and the log end at `delivered`.
    pub fn reset(&mut self, delivered: Zxid) {
        while self.recent.back().is_some_and(|txn| txn.zxid > delivered) {
            let txn = self.recent.pop_back().expect("it was there");
            self.recent_bytes -= txn.record.len();
        }
        let other = self.recent.back().is_some_and(|txn| txn.zxid != delivered);
        if other && !faults::memory_with_a_hole() {
            self.recent.clear();
            self.recent_bytes = 0;
        }
        self.pending.clear();
        self.pending_bytes = 0;
        self.delivered = delivered;
        self.flushed = delivered;
        self.check_whole();
    }

    /// Asserts that the transactions are consistent; visits each, in debug builds only.
    fn check_whole(&self) {
        if cfg!(debug_assertions) {
            let bytes = |txns: &VecDeque<Txn>| txns.iter().map(|txn| txn.record.len()).sum();
            assert_eq!(self.pending_bytes, bytes(&self.pending), "bytes that are pending");
            assert_eq!(self.recent_bytes, bytes(&self.recent), "bytes in memory");
            let is_whole = self.all().is_sorted_by(|a, b| follows(a.zxid, b.zxid));
            let may_gap = faults::memory_with_a_hole();
            assert!(is_whole || may_gap, "what is in memory has a hole");
        }
    }

    /// Asserts what holds between any two steps.
    pub(crate) fn check(&self) {
        let Self { delivered, flushed, memory, .. } = *self;
        assert!(delivered <= flushed, "{delivered} is in the tree and only {flushed} is durable");
        assert!(flushed <= self.last(), "{flushed} is durable and {} is all there is", self.last());
        let next = self.pending.front();
        assert!(next.is_none_or(|txn| txn.zxid > delivered), "{next:?} is pending and delivered");
        assert!(next.is_some() || self.pending_bytes == 0, "bytes of nothing are pending");
        let newest = self.recent.back();
        assert!(newest.is_none_or(|txn| txn.zxid == delivered), "memory ends before the tree");
        let is_one = self.recent.len() <= 1;
        assert!(is_one || self.recent_bytes <= memory.bytes_max, "memory is above its limit");
    }

    fn remember(&mut self, txn: Txn) {
        let hole = self.recent.back().is_some_and(|last| !follows(last.zxid, txn.zxid));
        if hole && !faults::memory_with_a_hole() {
            // Otherwise learners would receive a history with a gap.
            self.recent.clear();
            self.recent_bytes = 0;
        }
        self.recent_bytes += txn.record.len();
        self.recent.push_back(txn);
        let Memory { txns, bytes, bytes_max, .. } = self.memory;
        let is_too_much = |count: usize, now: usize| {
            let beyond = count > txns.max(1) && (now > bytes || count > 64 * txns);
            beyond || count > 1 && now > bytes_max
        };
        while is_too_much(self.recent.len(), self.recent_bytes) {
            let oldest = self.recent.pop_front().expect("there are some");
            self.recent_bytes -= oldest.record.len();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use zebu_proto::Epoch;

    fn txn(epoch: u32, counter: u32) -> Txn {
        Txn { zxid: Zxid::new(Epoch(epoch), counter), record: Bytes::from_static(b"txn") }
    }

    fn zxids<'t>(txns: impl Iterator<Item = &'t Txn>) -> Vec<(u32, u32)> {
        txns.map(|txn| (txn.zxid.epoch().0, txn.zxid.counter())).collect()
    }

    #[test]
    fn only_the_next_one_or_a_later_epoch_follows() {
        let at = |epoch, counter| Zxid::new(Epoch(epoch), counter);
        assert!(follows(at(1, 1), at(1, 2)));
        assert!(follows(at(1, 7), at(2, 1)));
        assert!(follows(Zxid::ZERO, at(1, 1)));
        assert!(!follows(at(1, 1), at(1, 3)));
        assert!(!follows(at(1, 1), at(1, 1)));
        assert!(!follows(at(2, 1), at(1, 2)));
        assert!(!follows(at(1, 1), at(2, 0)));
    }

    #[test]
    fn what_is_durable_and_committed_is_delivered() {
        let mut history = History::new(Memory::default(), Zxid::ZERO, []);
        history.push(txn(1, 1));
        history.push(txn(1, 2));
        assert_eq!(history.deliver(Zxid::new(Epoch(1), 2)), None);
        history.set_flushed(Zxid::new(Epoch(1), 2));
        assert_eq!(history.deliver(Zxid::new(Epoch(1), 1)), Some(txn(1, 1)));
        assert_eq!(history.deliver(Zxid::new(Epoch(1), 1)), None);
        assert_eq!(zxids(history.pending()), [(1, 2)]);
        assert_eq!(zxids(history.all()), [(1, 1), (1, 2)]);
    }

    #[test]
    fn a_cut_takes_the_end_and_late_reports_change_nothing() {
        let mut history = History::new(Memory::default(), Zxid::ZERO, []);
        history.push(txn(1, 1));
        history.push(txn(1, 2));
        history.cut(Zxid::new(Epoch(1), 1));
        history.set_flushed(Zxid::new(Epoch(1), 2));
        assert_eq!(history.flushed(), Zxid::new(Epoch(1), 1));
        history.push(txn(2, 1));
        assert_eq!(history.flushed(), Zxid::new(Epoch(1), 1));
    }

    #[test]
    fn memory_is_bounded_and_never_has_a_hole() {
        let memory = Memory { txns: 2, bytes: 10, ..Memory::default() };
        let mut history = History::new(memory, Zxid::ZERO, []);
        for counter in 1..=5 {
            history.push(txn(1, counter));
            history.set_flushed(history.last());
            history.deliver(history.last());
        }
        assert_eq!(zxids(history.all()), [(1, 3), (1, 4), (1, 5)]);
        history.reset(Zxid::new(Epoch(1), 4));
        assert_eq!(zxids(history.all()), [(1, 3), (1, 4)]);
        history.reset(Zxid::new(Epoch(3), 0));
        assert_eq!(zxids(history.all()), []);
    }

    #[test]
    fn large_transactions_are_not_kept_for_their_number_but_the_last_one() {
        let memory = Memory { txns: 4, bytes: 0, bytes_max: 7, ..Memory::default() };
        let mut history = History::new(memory, Zxid::ZERO, []);
        let mut deliver = |counter, record: &'static [u8]| {
            let zxid = Zxid::new(Epoch(1), counter);
            history.push(Txn { zxid, record: Bytes::from_static(record) });
            history.set_flushed(zxid);
            history.deliver(zxid);
            zxids(history.all())
        };
        deliver(1, b"txn");
        assert_eq!(deliver(2, b"txn"), [(1, 1), (1, 2)]);
        assert_eq!(deliver(3, b"txn"), [(1, 2), (1, 3)]);
        assert_eq!(deliver(4, b"a long one"), [(1, 4)]);
        assert_eq!(deliver(5, b"txn"), [(1, 5)]);
    }

    #[test]
    fn what_is_logged_beyond_the_tree_counts_until_it_is_delivered_or_gone() {
        let memory = Memory { pending_bytes: 5, ..Memory::default() };
        let mut history = History::new(memory, Zxid::ZERO, []);
        history.push(txn(1, 1));
        assert!(!history.is_far_ahead());
        history.push(txn(1, 2));
        assert!(history.is_far_ahead());
        history.set_flushed(Zxid::new(Epoch(1), 2));
        history.deliver(Zxid::new(Epoch(1), 1));
        assert!(!history.is_far_ahead());
        history.push(txn(1, 3));
        assert!(history.is_far_ahead());
        history.cut(Zxid::new(Epoch(1), 2));
        assert!(!history.is_far_ahead());
        history.push(txn(1, 3));
        history.reset(Zxid::new(Epoch(2), 0));
        assert!(!history.is_far_ahead());
    }
}

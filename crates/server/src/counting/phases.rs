//! The time that each phase of a write takes, and slow requests.
//!
//! Times are taken once for each batch of the log. Only the time of arrival is taken for each
//! request. [`Batches`] finds the times of the batch that contains a transaction.

use std::collections::VecDeque;
use std::fmt;
use std::time::Duration;

use zebu_proto::Zxid;

use crate::metrics::Phases;

/// Maximum number of lines about slow requests in a second. Further ones are only counted.
const LINES_MAX: u32 = 10;

/// Records that were appended together, and the times of their phases.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Batch {
    last: Zxid,
    /// The time at which their inputs were taken.
    taken: Duration,
    /// The time at which the records were made.
    prepared: Duration,
    /// The time since which they are known to be durable.
    synced: Option<Duration>,
}

/// The records that are appended but not applied yet.
#[derive(Debug, Default)]
pub struct Batches(VecDeque<Batch>);

impl Batches {
    /// A record is appended; its request was taken at `taken`, and the transaction was prepared at
    /// `prepared`.
    pub fn appends(&mut self, zxid: Zxid, taken: Duration, prepared: Duration) {
        if let Some(back) = self.0.back_mut()
            && back.last < zxid
            && (back.taken, back.prepared, back.synced) == (taken, prepared, None)
        {
            back.last = zxid;
            return;
        }
        // The log was truncated before the records that this one replaces.
        while self.0.back().is_some_and(|back| back.last >= zxid) {
            self.0.pop_back();
        }
        self.0.push_back(Batch { last: zxid, taken, prepared, synced: None });
    }

    /// All records up to this one are durable.
    pub fn synced(&mut self, zxid: Zxid, now: Duration) {
        let up_to = self.0.partition_point(|batch| batch.last <= zxid);
        for batch in self.0.range_mut(..up_to).rev().take_while(|batch| batch.synced.is_none()) {
            batch.synced = Some(now);
        }
    }

    /// The batch of a record that is applied. Earlier batches are forgotten.
    pub fn applies(&mut self, zxid: Zxid) -> Option<&Batch> {
        while self.0.front().is_some_and(|front| front.last < zxid) {
            self.0.pop_front();
        }
        self.0.front()
    }
}

/// The durations of a write's phases before it is applied.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Times {
    /// From its arrival until this server took it or received the leader's proposal.
    pub taken: Duration,
    /// Whether another server, the leader, ordered it.
    pub is_forwarded: bool,
    /// Until its record was made.
    pub prepare: Duration,
    /// Until its record was durable.
    pub sync: Duration,
    /// Until the write was applied.
    pub quorum: Duration,
}

impl Times {
    /// The durations for a write that was `received` at that time, and is applied from `began` on.
    pub fn new(batch: &Batch, received: Duration, began: Duration, is_forwarded: bool) -> Self {
        // It is applied when a quorum has stored it. This server's own disk may be the last one of
        // the quorum.
        let synced = batch.synced.unwrap_or(began);
        Self {
            taken: batch.taken.saturating_sub(received),
            is_forwarded,
            prepare: batch.prepared.saturating_sub(batch.taken),
            sync: synced.saturating_sub(batch.prepared),
            quorum: began.saturating_sub(synced),
        }
    }
}

impl fmt::Display for Times {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let first = if self.is_forwarded { "forward" } else { "queue" };
        write!(f, "{first} {} ms", self.taken.as_millis())?;
        for (name, time) in
            [("prepare", self.prepare), ("sync", self.sync), ("quorum", self.quorum)]
        {
            write!(f, ", {name} {} ms", time.as_millis())?;
        }
        Ok(())
    }
}

/// Collects the durations of successive writes. Those of one batch that arrived together are
/// counted together.
pub struct Gathered<'m> {
    phases: &'m Phases,
    row: Option<Row>,
}

/// Writes of one batch that arrived together.
struct Row {
    last: Zxid,
    received: Duration,
    times: Times,
    writes: u64,
}

impl<'m> Gathered<'m> {
    /// Without any write yet.
    pub fn new(phases: &'m Phases) -> Self {
        Self { phases, row: None }
    }

    /// A write of this batch, `received` at that time, is applied from `began` on.
    pub fn add(&mut self, batch: &Batch, received: Duration, began: Duration, is_forwarded: bool) {
        if let Some(row) = &mut self.row
            && (row.last, row.received) == (batch.last, received)
        {
            row.writes += 1;
            return;
        }
        self.record();
        let times = Times::new(batch, received, began, is_forwarded);
        self.row = Some(Row { last: batch.last, received, times, writes: 1 });
    }

    /// Counts the collected writes.
    pub fn record(&mut self) {
        let Some(Row { times, writes, .. }) = self.row.take() else { return };
        let Phases { queue, forward, prepare, sync, quorum, .. } = self.phases;
        let first = if times.is_forwarded { forward } else { queue };
        for (histogram, time) in [
            (first, times.taken),
            (prepare, times.prepare),
            (sync, times.sync),
            (quorum, times.quorum),
        ] {
            histogram.add_many(time, writes);
        }
    }
}

/// Limits the number of lines about slow requests.
#[derive(Debug, Default)]
pub struct Told {
    since: Duration,
    lines: u32,
    untold: u64,
}

impl Told {
    /// Whether another line may be written now, and how many were left out before it.
    pub fn may(&mut self, now: Duration) -> Option<u64> {
        if now >= self.since + Duration::from_secs(1) {
            (self.since, self.lines) = (now, 0);
        }
        if self.lines >= LINES_MAX {
            self.untold += 1;
            return None;
        }
        self.lines += 1;
        Some(std::mem::take(&mut self.untold))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    #[test]
    fn a_write_has_the_times_of_its_batch_and_its_own_arrival() {
        let mut batches = Batches::default();
        batches.appends(Zxid(1), at(10), at(12));
        batches.appends(Zxid(2), at(10), at(12));
        batches.appends(Zxid(3), at(20), at(21));
        assert_eq!(batches.0.len(), 2);
        batches.synced(Zxid(2), at(30));
        // A later sync does not affect records that were durable before.
        batches.synced(Zxid(3), at(50));
        let times = Times::new(batches.applies(Zxid(1)).unwrap(), at(3), at(60), false);
        assert_eq!(times.to_string(), "queue 7 ms, prepare 2 ms, sync 18 ms, quorum 30 ms");
        assert_eq!(batches.0.len(), 2, "the second one is not applied yet");
        let times = Times::new(batches.applies(Zxid(3)).unwrap(), at(3), at(60), true);
        assert_eq!(times.to_string(), "forward 17 ms, prepare 1 ms, sync 29 ms, quorum 10 ms");
        assert_eq!(batches.applies(Zxid(4)), None);
    }

    #[test]
    fn what_is_cut_off_is_forgotten_and_nothing_piles_up() {
        let mut batches = Batches::default();
        for zxid in 1..=5 {
            batches.appends(Zxid(zxid), at(zxid as u64), at(zxid as u64));
        }
        batches.appends(Zxid(3), at(9), at(9));
        assert_eq!(batches.0.iter().map(|it| it.last.0).collect::<Vec<_>>(), [1, 2, 3]);
        assert_eq!(batches.applies(Zxid(3)).unwrap().taken, at(9));
        assert_eq!(batches.0.len(), 1);
    }

    #[test]
    fn writes_are_counted_once_each_however_they_come() {
        let phases = Phases::default();
        let mut batches = Batches::default();
        for zxid in 1..=3 {
            batches.appends(Zxid(zxid), at(10), at(12));
        }
        batches.appends(Zxid(4), at(20), at(21));
        let mut gathered = Gathered::new(&phases);
        for (zxid, received) in [(1, 3), (2, 3), (3, 4), (4, 4)] {
            let batch = batches.applies(Zxid(zxid)).unwrap();
            gathered.add(batch, at(received), at(60), false);
        }
        gathered.record();
        gathered.record();
        let counted = |it: &crate::metrics::Histogram| {
            let (rows, sum_s) = it.shown();
            (rows[rows.len() - 1].1, (sum_s * 1e3).round() as u64)
        };
        assert_eq!(counted(&phases.queue), (4, 7 + 7 + 6 + 16));
        assert_eq!(counted(&phases.prepare), (4, 2 + 2 + 2 + 1));
        assert_eq!(counted(&phases.forward), (0, 0));
    }

    #[test]
    fn many_slow_requests_make_few_lines_and_all_are_counted() {
        let mut told = Told::default();
        let lines = (0..100).filter(|_| told.may(at(5_000)).is_some()).count();
        assert_eq!(lines, LINES_MAX as usize);
        assert_eq!(told.may(at(5_999)), None);
        assert_eq!(told.may(at(6_000)), Some(91));
        assert_eq!(told.may(at(6_001)), Some(0));
    }
}

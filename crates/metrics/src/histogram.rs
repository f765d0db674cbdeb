//! Durations in buckets, in seconds. Unlike quantiles, Prometheus can add them up over servers.
//!
//! These metrics are Zebu's own. Only the Prometheus page shows them.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

/// Inclusive upper bounds of the buckets, in nanoseconds. Longer durations go to one more bucket.
const BOUNDS_NS: [u64; 18] = [
    25_000,
    50_000,
    100_000,
    250_000,
    500_000,
    1_000_000,
    2_500_000,
    5_000_000,
    10_000_000,
    25_000_000,
    50_000_000,
    100_000_000,
    250_000_000,
    500_000_000,
    1_000_000_000,
    2_500_000_000,
    5_000_000_000,
    10_000_000_000,
];

/// Number of buckets. The last one has no bound.
const BUCKETS: usize = BOUNDS_NS.len() + 1;

fn bucket(ns: u64) -> usize {
    BOUNDS_NS.partition_point(|bound| *bound < ns)
}

fn ns(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

/// Durations of one kind of event.
#[derive(Debug, Default)]
pub struct Histogram {
    buckets: [AtomicU64; BUCKETS],
    sum_ns: AtomicU64,
}

impl Histogram {
    /// Records `times` events that took this long each.
    pub fn add_many(&self, took: Duration, times: u64) {
        if times > 0 {
            let took = ns(took);
            self.buckets[bucket(took)].fetch_add(times, Relaxed);
            self.sum_ns.fetch_add(took.saturating_mul(times), Relaxed);
        }
    }

    /// Records one event that took this long.
    pub fn add(&self, took: Duration) {
        self.add_many(took, 1);
    }

    /// The upper bounds in seconds, each with the number of durations up to it, and the sum of all
    /// durations in seconds. The last bound is infinite, so its number counts all durations.
    pub fn shown(&self) -> ([(f64, u64); BUCKETS], f64) {
        let mut below = 0;
        let mut shown = [(f64::INFINITY, 0); BUCKETS];
        for (at, row) in shown.iter_mut().enumerate() {
            below += self.buckets[at].load(Relaxed);
            row.1 = below;
            if let Some(bound) = BOUNDS_NS.get(at) {
                row.0 = *bound as f64 / 1e9;
            }
        }
        (shown, self.sum_ns.load(Relaxed) as f64 / 1e9)
    }

    fn reset(&self) {
        self.buckets.iter().for_each(|bucket| bucket.store(0, Relaxed));
        self.sum_ns.store(0, Relaxed);
    }
}

/// The time that requests spend in each phase.
#[derive(Debug, Default)]
pub struct Phases {
    /// From the arrival of a write until the replica takes it. For writes that this server orders.
    pub queue: Histogram,
    /// From the arrival of a write until the leader's proposal arrives here. For writes that
    /// another server orders.
    pub forward: Histogram,
    /// Until the write is validated and its record is encoded.
    pub prepare: Histogram,
    /// Until the record is durable on this server.
    pub sync: Histogram,
    /// Until a quorum has acknowledged the record, and all earlier transactions are applied.
    pub quorum: Histogram,
    /// Until the transaction is applied and the answer is encoded.
    pub apply: Histogram,
    /// Until the socket has taken the encoded answers.
    pub send: Histogram,
}

impl Phases {
    /// All phases in order, with their names.
    pub fn all(&self) -> [(&'static str, &Histogram); 7] {
        [
            ("queue", &self.queue),
            ("forward", &self.forward),
            ("prepare", &self.prepare),
            ("sync", &self.sync),
            ("quorum", &self.quorum),
            ("apply", &self.apply),
            ("send", &self.send),
        ]
    }
}

/// Every histogram of a server.
#[derive(Debug, Default)]
pub struct Histograms {
    /// The time that requests spend in each phase.
    pub phases: Phases,
    /// Durations of syncs of the transaction log.
    pub fsync: Histogram,
}

impl Histograms {
    /// Resets all histograms (`srst`).
    pub fn reset(&self) {
        let phases = self.phases.all();
        phases.iter().map(|(_, it)| *it).chain([&self.fsync]).for_each(Histogram::reset);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_is_in_the_first_bucket_that_holds_it_and_in_all_above() {
        let histogram = Histogram::default();
        histogram.add(Duration::from_micros(25));
        histogram.add(Duration::from_nanos(25_001));
        histogram.add_many(Duration::from_millis(300), 3);
        histogram.add(Duration::from_secs(3600));
        histogram.add_many(Duration::from_secs(1), 0);
        let (rows, sum_s) = histogram.shown();
        let below = |bound: f64| rows.iter().find(|row| row.0 == bound).unwrap().1;
        assert_eq!([below(0.000_025), below(0.000_05), below(0.25)], [1, 2, 2]);
        assert_eq!([below(0.5), below(10.0), below(f64::INFINITY)], [5, 5, 6]);
        assert!((sum_s - 3_600.900_050_001).abs() < 1e-6, "{sum_s}");
        assert!(rows.windows(2).all(|pair| pair[0].0 < pair[1].0 && pair[0].1 <= pair[1].1));
        histogram.reset();
        assert_eq!(histogram.shown().0[BUCKETS - 1].1, 0);
    }
}

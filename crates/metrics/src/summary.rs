//! Summaries of values: average, minimum, maximum, count, sum, and percentiles of a sample.

use std::fmt;
use std::sync::atomic::{AtomicI64, AtomicU32, AtomicU64, Ordering::Relaxed};

use super::{Exposition, Kind, Metric, Shown, Visitor};

/// Values collected on one thread and merged at once, to avoid contention on shared counters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Gathered {
    count: u64,
    sum: i64,
    min: i64,
    max: i64,
    last: i64,
}

impl Default for Gathered {
    fn default() -> Self {
        Self { count: 0, sum: 0, min: i64::MAX, max: i64::MIN, last: 0 }
    }
}

impl Gathered {
    /// Adds one value.
    pub fn add(&mut self, value: i64) {
        self.count += 1;
        self.sum += value;
        self.min = self.min.min(value);
        self.max = self.max.max(value);
        self.last = value;
    }
}

/// Size of the sample from which a [`Summary`] computes its median.
const MEDIAN_VALUES: usize = 256;

/// Average, minimum, maximum, count and sum, and the median of a sample of 256 values. Of values
/// merged together, only the last one may be in the sample.
///
/// Fields are updated one by one: a reader may see a value counted but not yet summed.
#[derive(Debug)]
pub struct Summary {
    count: AtomicU64,
    sum: AtomicI64,
    /// `i64::MAX` without values.
    min: AtomicI64,
    /// `i64::MIN` without values.
    max: AtomicI64,
    /// The sample.
    sample: Box<[AtomicU32; MEDIAN_VALUES]>,
    /// Number of values offered to the sample.
    sampled: AtomicU64,
}

impl Default for Summary {
    fn default() -> Self {
        Self {
            count: AtomicU64::new(0),
            sum: AtomicI64::new(0),
            min: AtomicI64::new(i64::MAX),
            max: AtomicI64::new(i64::MIN),
            sample: Box::new([const { AtomicU32::new(0) }; MEDIAN_VALUES]),
            sampled: AtomicU64::new(0),
        }
    }
}

impl Summary {
    /// Records one value.
    pub fn add(&self, value: i64) {
        self.merge(1, value, value, value);
        self.sample(value);
    }

    fn sample(&self, value: i64) {
        let seen = self.sampled.fetch_add(1, Relaxed);
        store_in_sample(&*self.sample, seen, value);
    }

    /// The median of the sample; `None` without values.
    fn median(&self) -> Option<i64> {
        quantiles_of(&*self.sample, self.sampled.load(Relaxed), [0.5])[0]
    }

    pub(super) fn expose_parts(
        &self,
        name: &str,
        key: Option<&str>,
        quantiles: Vec<(f64, Option<i64>)>,
        out: &mut dyn Exposition,
    ) {
        let shown = Shown { count: self.count(), sum: self.sum(), quantiles };
        out.summary(name, key, &shown);
    }

    /// Records one value `count` times.
    pub fn add_many(&self, value: i64, count: u64) {
        if count > 0 {
            self.merge(count, times(value, count), value, value);
            self.sample(value);
        }
    }

    /// Records collected values.
    pub fn add_gathered(&self, values: Gathered) {
        if values.count > 0 {
            self.merge(values.count, values.sum, values.min, values.max);
            self.sample(values.last);
        }
    }

    /// Records several values at once.
    fn merge(&self, count: u64, sum: i64, min: i64, max: i64) {
        self.count.fetch_add(count, Relaxed);
        // Most latencies are less than a millisecond.
        if sum != 0 {
            self.sum.fetch_add(sum, Relaxed);
        }
        // Most values are neither the minimum nor the maximum. Reading before writing avoids
        // contention.
        if min < self.min.load(Relaxed) {
            self.min.fetch_min(min, Relaxed);
        }
        if max > self.max.load(Relaxed) {
            self.max.fetch_max(max, Relaxed);
        }
    }

    /// Number of values.
    pub fn count(&self) -> u64 {
        self.count.load(Relaxed)
    }

    /// Sum of the values.
    pub fn sum(&self) -> i64 {
        self.sum.load(Relaxed)
    }

    /// The smallest value; 0 without values.
    pub fn min(&self) -> i64 {
        match self.min.load(Relaxed) {
            i64::MAX => 0,
            min => min,
        }
    }

    /// The largest value; 0 without values.
    pub fn max(&self) -> i64 {
        match self.max.load(Relaxed) {
            i64::MIN => 0,
            max => max,
        }
    }

    /// The average; 0 without values.
    pub fn avg(&self) -> f64 {
        match self.count() {
            0 => 0.0,
            count => self.sum() as f64 / count as f64,
        }
    }

    pub(super) fn visit_parts(&self, name: &str, visitor: &mut dyn Visitor) {
        visitor.decimal(&format!("avg_{name}"), self.avg());
        visitor.integer(&format!("min_{name}"), self.min());
        visitor.integer(&format!("max_{name}"), self.max());
        visitor.integer(&format!("cnt_{name}"), i64::try_from(self.count()).unwrap_or(i64::MAX));
        visitor.integer(&format!("sum_{name}"), self.sum());
    }

    pub(super) fn reset_parts(&self) {
        self.count.store(0, Relaxed);
        self.sum.store(0, Relaxed);
        self.min.store(i64::MAX, Relaxed);
        self.max.store(i64::MIN, Relaxed);
        self.sampled.store(0, Relaxed);
    }
}

impl Metric for Summary {
    const KIND: Kind = Kind::Summary;

    fn expose(&self, name: &str, key: Option<&str>, out: &mut dyn Exposition) {
        self.expose_parts(name, key, vec![(0.5, self.median())], out);
    }

    fn visit(&self, name: &str, visitor: &mut dyn Visitor) {
        self.visit_parts(name, visitor);
    }

    fn reset(&self) {
        self.reset_parts();
    }
}

/// Size of the sample for percentiles.
const SAMPLE_VALUES: usize = 4096;

/// A [`Summary`] with percentiles of a uniform sample of 4096 values.
pub struct PercentileSummary {
    summary: Summary,
    /// Number of values since the reset; decides which slot the next one takes.
    seen: AtomicU64,
    /// Values are milliseconds, so 32 bits are 49 days.
    sample: Box<[AtomicU32; SAMPLE_VALUES]>,
}

impl Default for PercentileSummary {
    fn default() -> Self {
        Self {
            summary: Summary::default(),
            seen: AtomicU64::new(0),
            sample: Box::new([const { AtomicU32::new(0) }; SAMPLE_VALUES]),
        }
    }
}

impl fmt::Debug for PercentileSummary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.summary.fmt(f)
    }
}

impl PercentileSummary {
    /// Records one value.
    pub fn add(&self, value: i64) {
        self.add_many(value, 1);
    }

    /// Records one value `count` times.
    pub fn add_many(&self, value: i64, count: u64) {
        let all = times(value, count);
        if count > 0 {
            self.summary.merge(count, all, value, value);
        }
        let first = self.seen.fetch_add(count, Relaxed);
        for seen in first..first.saturating_add(count) {
            store_in_sample(&*self.sample, seen, value);
        }
    }

    /// Collects values, which are often repeated.
    pub fn gather(&self) -> Repeated<'_> {
        Repeated { summary: self, value: 0, count: 0 }
    }

    /// The summary without percentiles.
    pub fn summary(&self) -> &Summary {
        &self.summary
    }

    /// The 50th, 95th, 99th and 99.9th percentile of the sample; 0 without values.
    fn percentiles(&self) -> [i64; 4] {
        self.quantiles([0.5, 0.95, 0.99, 0.999]).map(Option::unwrap_or_default)
    }

    fn quantiles<const N: usize>(&self, wanted: [f64; N]) -> [Option<i64>; N] {
        quantiles_of(&*self.sample, self.seen.load(Relaxed), wanted)
    }
}

/// Reservoir sampling: once the sample is full, value n replaces another with probability size/n.
fn store_in_sample(sample: &[AtomicU32], seen: u64, value: i64) {
    let slot = if seen < sample.len() as u64 { seen } else { scatter(seen) % (seen + 1) };
    if let Some(slot) = usize::try_from(slot).ok().and_then(|slot| sample.get(slot)) {
        slot.store(u32::try_from(value.max(0)).unwrap_or(u32::MAX), Relaxed);
    }
}

/// Quantiles of a sample to which `seen` values were offered.
fn quantiles_of<const N: usize>(
    sample: &[AtomicU32],
    seen: u64,
    wanted: [f64; N],
) -> [Option<i64>; N] {
    let filled = usize::try_from(seen).unwrap_or(usize::MAX).min(sample.len());
    let mut values: Vec<u32> = sample[..filled].iter().map(|slot| slot.load(Relaxed)).collect();
    values.sort_unstable();
    wanted.map(|quantile| (filled > 0).then(|| quantile_of(&values, quantile)))
}

/// Collects repetitions of a value, and records them at the latest on drop.
#[derive(Debug)]
pub struct Repeated<'s> {
    summary: &'s PercentileSummary,
    value: i64,
    count: u64,
}

impl Repeated<'_> {
    /// Adds a value.
    pub fn add(&mut self, value: i64) {
        if self.value != value {
            self.record();
            self.value = value;
        }
        self.count += 1;
    }

    /// Records the collected values.
    pub fn record(&mut self) {
        let count = std::mem::take(&mut self.count);
        if count > 0 {
            self.summary.add_many(self.value, count);
        }
    }
}

impl Drop for Repeated<'_> {
    fn drop(&mut self) {
        self.record();
    }
}

impl Metric for PercentileSummary {
    const KIND: Kind = Kind::Summary;

    fn expose(&self, name: &str, key: Option<&str>, out: &mut dyn Exposition) {
        let wanted = [0.5, 0.9, 0.99];
        let quantiles = wanted.into_iter().zip(self.quantiles(wanted)).collect();
        self.summary.expose_parts(name, key, quantiles, out);
    }

    fn visit(&self, name: &str, visitor: &mut dyn Visitor) {
        self.summary.visit_parts(name, visitor);
        for (prefix, value) in ["p50", "p95", "p99", "p999"].into_iter().zip(self.percentiles()) {
            visitor.integer(&format!("{prefix}_{name}"), value);
        }
    }

    fn reset(&self) {
        self.summary.reset_parts();
        self.seen.store(0, Relaxed);
    }
}

/// Interpolates between the two nearest values, as the original's library does, and rounds.
fn quantile_of(sorted: &[u32], quantile: f64) -> i64 {
    let (Some(&first), Some(&last)) = (sorted.first(), sorted.last()) else { return 0 };
    let place = quantile * (sorted.len() + 1) as f64;
    let index = place as usize;
    if index < 1 {
        return i64::from(first);
    }
    if index >= sorted.len() {
        return i64::from(last);
    }
    let (lower, upper) = (f64::from(sorted[index - 1]), f64::from(sorted[index]));
    (lower + (place - place.floor()) * (upper - lower)).round() as i64
}

/// Spreads a counter over 64 bits (splitmix64): random enough to choose a slot.
fn scatter(n: u64) -> u64 {
    let mut z = n.wrapping_add(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// The sum of `count` equal values. Most are 0: latencies below a millisecond.
fn times(value: i64, count: u64) -> i64 {
    if value == 0 {
        return 0;
    }
    value.saturating_mul(i64::try_from(count).unwrap_or(i64::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_gathered_is_what_was_added() {
        let (one_by_one, gathered) = (PercentileSummary::default(), PercentileSummary::default());
        let mut row = gathered.gather();
        for value in [0, 0, 3, 3, 3, 1, 0, 9] {
            one_by_one.add(value);
            row.add(value);
        }
        assert_eq!(gathered.summary().count(), 7, "the last may still be repeated");
        drop(row);
        assert_eq!(gathered.percentiles(), one_by_one.percentiles());
        let parts = |summary: &Summary| (summary.count(), summary.sum(), summary.max());
        assert_eq!(parts(gathered.summary()), parts(one_by_one.summary()));
    }

    #[test]
    fn nothing_recorded_is_zero_everywhere() {
        let summary = PercentileSummary::default();
        assert_eq!(summary.percentiles(), [0; 4]);
        let summary = summary.summary();
        assert_eq!((summary.avg(), summary.min(), summary.max()), (0.0, 0, 0));
    }

    #[test]
    fn percentiles_of_a_known_row() {
        let summary = PercentileSummary::default();
        (1..=1000).for_each(|value| summary.add(value));
        assert_eq!(summary.percentiles(), [501, 951, 991, 1000]);
    }

    #[test]
    fn many_at_once_count_like_one_by_one() {
        let (together, alone) = (PercentileSummary::default(), PercentileSummary::default());
        for (value, count) in [(3, 10), (7, 0), (9, 4100)] {
            together.add_many(value, count);
            (0..count).for_each(|_| alone.add(value));
        }
        let all = |metric: &PercentileSummary| {
            let summary = metric.summary();
            (metric.percentiles(), summary.count(), summary.sum(), summary.min(), summary.max())
        };
        assert_eq!(all(&together), all(&alone));
        assert_eq!(together.summary().sum(), 30 + 9 * 4100);
    }

    #[test]
    fn a_long_row_is_sampled_evenly() {
        let summary = PercentileSummary::default();
        (0..1_000_000).for_each(|value| summary.add(value / 100));
        let [p50, p95, ..] = summary.percentiles();
        assert!((4_500..5_500).contains(&p50), "{p50}");
        assert!((9_300..9_700).contains(&p95), "{p95}");
        assert_eq!(summary.summary().count(), 1_000_000);
    }

    #[test]
    fn huge_and_negative_values_do_no_harm() {
        let summary = PercentileSummary::default();
        summary.add(i64::from(u32::MAX) + 5);
        summary.add(-3);
        assert_eq!(summary.percentiles()[3], i64::from(u32::MAX));
        assert_eq!(summary.summary().min(), -3);
    }
}

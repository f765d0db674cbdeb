//! Latency over the time of a run: the maximum of each short interval, to compare it with the
//! activities of the server.

use std::ops::Range;

use crate::clock::Nanos;

/// The shortest interval.
const INTERVAL_NS_MIN: Nanos = 5_000_000;
/// The most intervals of a run. Longer runs have longer intervals.
const INTERVALS_MAX: u64 = 6_000;

/// For each interval of a window, the longest latency of the requests that began in it.
#[derive(Clone, Debug)]
pub(crate) struct Timeline {
    start: Nanos,
    interval: Nanos,
    /// By interval, beginning at `start`; 0 for intervals without a request.
    longest: Vec<Nanos>,
}

impl Timeline {
    /// An empty timeline of a window.
    pub(crate) fn new(window: &Range<Nanos>) -> Self {
        let length = window.end.saturating_sub(window.start);
        let interval = (length / INTERVALS_MAX).max(INTERVAL_NS_MIN);
        Self { start: window.start, interval, longest: Vec::new() }
    }

    /// Adds a request.
    #[inline]
    pub(crate) fn record(&mut self, began: Nanos, latency: Nanos) {
        let index = (began.saturating_sub(self.start) / self.interval).min(INTERVALS_MAX) as usize;
        if index >= self.longest.len() {
            self.longest.resize(index + 1, 0);
        }
        self.longest[index] = self.longest[index].max(latency);
    }

    /// Adds another thread's timeline of the same window.
    pub(crate) fn merge(&mut self, other: &Self) {
        let length = self.longest.len().max(other.longest.len());
        self.longest.resize(length, 0);
        for (to, from) in self.longest.iter_mut().zip(&other.longest) {
            *to = (*to).max(*from);
        }
    }

    /// The longest latency of the requests that may have been in flight during any of `times`, and
    /// that of all others.
    pub(crate) fn split(&self, times: &[Range<Nanos>]) -> (Option<Nanos>, Option<Nanos>) {
        let (mut within, mut outside) = (None, None);
        for (index, &longest) in self.longest.iter().enumerate().filter(|(_, ns)| **ns > 0) {
            let began = self.start + index as u64 * self.interval;
            let ended = began + self.interval + longest;
            let meets = |time: &Range<Nanos>| began <= time.end && time.start <= ended;
            let to = if times.iter().any(meets) { &mut within } else { &mut outside };
            *to = (*to).max(Some(longest));
        }
        (within, outside)
    }

    /// For each interval with requests, its start in seconds and the longest latency in µs.
    pub(crate) fn to_json(&self) -> serde_json::Value {
        let points = self.longest.iter().enumerate().filter(|(_, ns)| **ns > 0);
        let points = points.map(|(index, &longest)| {
            let at = (index as u64 * self.interval) as f64 / 1e9;
            serde_json::json!([at, longest as f64 / 1e3])
        });
        points.collect()
    }
}

#[cfg(test)]
mod tests {
    use std::slice;

    use super::*;

    const MS: Nanos = 1_000_000;

    #[test]
    fn what_was_under_way_in_a_time_is_told_from_the_rest() {
        let mut timeline = Timeline::new(&(100 * MS..10_000 * MS));
        timeline.record(101 * MS, 3 * MS);
        // This request began before the time, and is still in flight within it.
        timeline.record(200 * MS, 150 * MS);
        timeline.record(310 * MS, 7 * MS);
        timeline.record(500 * MS, 9 * MS);
        assert_eq!(
            timeline.split(slice::from_ref(&(300 * MS..320 * MS))),
            (Some(150 * MS), Some(9 * MS))
        );
        let times = [100 * MS..102 * MS, 305 * MS..330 * MS, 490 * MS..501 * MS];
        assert_eq!(timeline.split(&times), (Some(150 * MS), None));
        assert_eq!(timeline.split(&[]), (None, Some(150 * MS)));
    }

    #[test]
    fn threads_are_merged_and_long_runs_have_longer_intervals() {
        let window = 0..86_400_000 * MS;
        let mut timeline = Timeline::new(&window);
        timeline.record(1, 5);
        let mut other = Timeline::new(&window);
        other.record(2, 9);
        other.record(86_400_000 * MS - 1, 4);
        timeline.merge(&other);
        assert!(timeline.longest.len() <= INTERVALS_MAX as usize + 1);
        assert_eq!(timeline.to_json().as_array().unwrap().len(), 2);
        assert_eq!(timeline.split(slice::from_ref(&(0..1))), (Some(9), Some(4)));
    }
}

//! The times at which an open loop's requests are due, and the CPU time of the generator within the
//! window.

use std::time::Duration;

use crate::clock::{Nanos, thread_cpu};
use crate::tally::Tally;

/// The times at which the requests of an open loop are due: at equal intervals from start to stop.
#[derive(Debug)]
pub(super) struct Schedule {
    start: Nanos,
    interval_ns: f64,
    count: u64,
    index: u64,
    /// The next connection.
    pub(super) turn: usize,
}

impl Schedule {
    pub(super) fn new(start: Nanos, stop: Nanos, rate: f64) -> Self {
        let interval_ns = 1e9 / rate;
        let count = (stop.saturating_sub(start) as f64 / interval_ns) as u64;
        Self { start, interval_ns, count, index: 0, turn: 0 }
    }

    /// The time of the next request; `None` at the end of the schedule.
    pub(super) fn next(&self) -> Option<Nanos> {
        let due = self.start + (self.index as f64 * self.interval_ns) as u64;
        (self.index < self.count).then_some(due)
    }

    /// The time of the next request, if it has passed.
    pub(super) fn due(&self, now: Nanos) -> Option<Nanos> {
        self.next().filter(|&due| due <= now)
    }

    pub(super) fn sent(&mut self) {
        self.index += 1;
    }

    pub(super) fn unsent(&self) -> u64 {
        self.count - self.index
    }
}

/// The CPU time of this thread during the window.
#[derive(Default)]
pub(super) struct CpuWindow {
    at_start: Option<Duration>,
    counted: bool,
}

impl CpuWindow {
    pub(super) fn observe(&mut self, now: Nanos, tally: &mut Tally) {
        if self.at_start.is_none() && now >= tally.window.start {
            self.at_start = Some(thread_cpu());
        }
        if !self.counted && now >= tally.window.end {
            self.finish(tally);
        }
    }

    pub(super) fn finish(&mut self, tally: &mut Tally) {
        if let (Some(start), false) = (self.at_start, self.counted) {
            tally.cpu += thread_cpu().saturating_sub(start);
            self.counted = true;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_schedule_spreads_the_rate_over_the_time() {
        let mut schedule = Schedule::new(1_000, 1_000_001_000, 4.0);
        assert_eq!(schedule.due(999), None);
        let mut due = Vec::new();
        while let Some(at) = schedule.next() {
            due.push(at - 1_000);
            schedule.sent();
        }
        assert_eq!(due, [0, 250_000_000, 500_000_000, 750_000_000]);
        assert_eq!(schedule.unsent(), 0);
    }
}

//! Results: counts, errors and latency histograms of one generator thread, or of several merged
//! ones.

use std::collections::BTreeMap;
use std::ops::Range;
use std::time::Duration;

use hdrhistogram::Histogram;

use crate::clock::Nanos;
use crate::timeline::Timeline;

/// The largest latency that is recorded exactly, in ns: ten minutes. Longer ones count as this.
const LATENCY_NS_MAX: u64 = 600_000_000_000;
/// Significant decimal digits of a recorded latency.
const LATENCY_DIGITS: u8 = 3;

/// The kinds of requests that are counted separately.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Changes nothing.
    Read,
    /// Goes through the txn log.
    Write,
}

/// Counts and latencies of one kind of request.
#[derive(Clone, Debug)]
pub(crate) struct KindTally {
    /// Successful replies that arrived within the window.
    pub(crate) completed: u64,
    /// Latencies in ns.
    pub(crate) latency: Histogram<u64>,
    /// The longest latencies by when the requests began.
    pub(crate) timeline: Timeline,
}

/// The counts of one thread.
#[derive(Clone, Debug)]
pub(crate) struct Tally {
    /// The measured window: warm-up is before it, draining after it.
    pub(crate) window: Range<Nanos>,
    /// Whether a latency begins when the request was due, and not when it was sent.
    pub(crate) open_loop: bool,
    kinds: [KindTally; 2],
    /// Error replies by code, at any time.
    pub(crate) errors: BTreeMap<i32, u64>,
    /// Requests whose connection broke before the reply.
    pub(crate) lost: u64,
    /// Requests that were sent and not answered in time, or were due and never sent.
    pub(crate) unanswered: u64,
    /// CPU time of the generator within the window.
    pub(crate) cpu: Duration,
}

impl Tally {
    /// An empty tally for requests within `window`.
    pub(crate) fn new(window: Range<Nanos>, open_loop: bool) -> Self {
        let histogram = || {
            Histogram::new_with_bounds(1, LATENCY_NS_MAX, LATENCY_DIGITS)
                .expect("the bounds are constants that hdrhistogram accepts")
        };
        let kind =
            || KindTally { completed: 0, latency: histogram(), timeline: Timeline::new(&window) };
        let kinds = [kind(), kind()];
        Self {
            window,
            open_loop,
            kinds,
            errors: BTreeMap::new(),
            lost: 0,
            unanswered: 0,
            cpu: Duration::ZERO,
        }
    }

    /// A tally that counts everything, at any time.
    pub(crate) fn whole() -> Self {
        Self::new(0..Nanos::MAX, false)
    }

    /// The counts of one kind.
    pub(crate) fn kind(&self, kind: Kind) -> &KindTally {
        &self.kinds[kind as usize]
    }

    /// Counts `count` successful replies that arrived at `now` to requests that began at `began`.
    #[inline]
    pub(crate) fn answered(&mut self, kind: Kind, count: u32, began: Nanos, now: Nanos) {
        let to = &mut self.kinds[kind as usize];
        if self.window.contains(&now) {
            to.completed += u64::from(count);
        }
        // An open loop counts the requests that were due within the window, however late their
        // replies are. To leave out the late ones would hide what an open loop must show.
        let counts = if self.open_loop { began } else { now };
        if self.window.contains(&counts) {
            let latency = now.saturating_sub(began).max(1);
            to.latency.saturating_record_n(latency, u64::from(count));
            to.timeline.record(began, latency);
        }
    }

    /// Both kinds together.
    pub(crate) fn total(&self) -> KindTally {
        let [mut all, other] = self.kinds.clone();
        merge(&mut all, &other);
        all
    }

    /// The number of error replies.
    pub(crate) fn error_count(&self) -> u64 {
        self.errors.values().sum()
    }

    /// Whether every request was answered without an error.
    pub(crate) fn is_clean(&self) -> bool {
        self.errors.is_empty() && self.lost == 0 && self.unanswered == 0
    }

    /// Adds another thread's counts to this.
    pub(crate) fn merge(&mut self, other: &Self) {
        for (to, from) in self.kinds.iter_mut().zip(&other.kinds) {
            merge(to, from);
        }
        for (&code, count) in &other.errors {
            *self.errors.entry(code).or_default() += count;
        }
        self.lost += other.lost;
        self.unanswered += other.unanswered;
        self.cpu += other.cpu;
    }
}

fn merge(to: &mut KindTally, from: &KindTally) {
    to.completed += from.completed;
    to.latency.add(&from.latency).expect("all histograms have the same bounds");
    to.timeline.merge(&from.timeline);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_closed_loop_counts_replies_by_arrival() {
        let mut tally = Tally::new(100..200, false);
        tally.answered(Kind::Read, 3, 90, 99);
        tally.answered(Kind::Read, 2, 90, 110);
        tally.answered(Kind::Write, 1, 190, 210);
        assert_eq!(tally.kind(Kind::Read).completed, 2);
        assert_eq!(tally.total().latency.len(), 2);
        assert_eq!(tally.total().latency.max(), 20);
    }

    #[test]
    fn an_open_loop_keeps_the_latency_of_late_replies() {
        let mut tally = Tally::new(100..200, true);
        tally.answered(Kind::Read, 1, 90, 110); // due in warm-up
        tally.answered(Kind::Read, 1, 190, 900); // due in time, answered far too late
        assert_eq!(tally.total().completed, 1);
        assert_eq!(tally.total().latency.len(), 1);
        assert_eq!(tally.total().latency.max(), 710);
    }
}

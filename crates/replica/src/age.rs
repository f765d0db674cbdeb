//! The age of a znode, judged without trusting the wall clock alone.
//!
//! Wall clocks jump. A server whose clock is a day ahead must not delete znodes that were just
//! created. So a server adds the time that passes on its monotonic clock to a base. For znodes that
//! existed before, the base is the newest time in its history; for znodes it has stamped itself, it
//! is its wall clock at the start of the count.
//!
//! A server counts from its own start, and again from the start of its leadership, and uses the
//! smaller age. The history may have come from another server, and the previous leader's clock may
//! have been ahead too. Time without a leader is not counted.

use std::time::Duration;

use zebu_tree::Tree;

use crate::io::Now;

/// How far the wall clock may be ahead of the known time before a warning is logged.
const AHEAD_TOLD_MS: i64 = 3_600_000;

/// The clock by which ages are judged.
#[derive(Debug)]
pub(crate) struct Ages {
    /// Since the server started.
    started: Span,
    /// Since this server leads, if it has led.
    leads: Option<Span>,
    /// How far ahead the wall clock was at the last warning.
    told_ms: i64,
}

/// Time counted from a starting point.
#[derive(Clone, Copy, Debug)]
struct Span {
    /// The newest time in the history at that point, in milliseconds since the Unix epoch.
    newest_ms: i64,
    began: Now,
}

impl Span {
    fn new(newest_ms: i64, began: Now) -> Self {
        // The history is empty.
        let newest_ms = if newest_ms <= 0 { began.wall_ms } else { newest_ms };
        Self { newest_ms, began }
    }

    fn passed_ms(&self, now: Now) -> i64 {
        let passed = now.monotonic.saturating_sub(self.began.monotonic).as_millis();
        i64::try_from(passed).unwrap_or(i64::MAX)
    }

    /// The current time, as far as known, for a znode changed at `changed_ms`.
    fn known_ms(&self, changed_ms: i64, now: Now) -> i64 {
        let was_there = changed_ms <= self.newest_ms;
        let base_ms = match was_there {
            true => self.newest_ms.min(self.began.wall_ms),
            false => self.began.wall_ms,
        };
        base_ms.saturating_add(self.passed_ms(now))
    }
}

impl Ages {
    /// Starts to count, with the history in `tree`.
    pub(crate) fn new(tree: &Tree, now: Now) -> Self {
        Self { started: Span::new(tree.newest_time_ms(), now), leads: None, told_ms: 0 }
    }

    /// This server becomes the leader.
    pub(crate) fn leads(&mut self, tree: &Tree, now: Now) {
        self.leads = Some(Span::new(tree.newest_time_ms(), now));
        self.told_ms = 0;
    }

    fn spans(&self) -> impl Iterator<Item = &Span> {
        std::iter::once(&self.started).chain(&self.leads)
    }

    /// The age of a znode changed at `changed_ms`.
    pub(crate) fn of(&self, changed_ms: i64, now: Now) -> Duration {
        let known_ms = self.spans().map(|span| span.known_ms(changed_ms, now)).min();
        let known_ms = known_ms.unwrap_or(now.wall_ms).min(now.wall_ms);
        Duration::from_millis(known_ms.saturating_sub(changed_ms).max(0) as u64)
    }

    /// How many milliseconds the wall clock is ahead of the known time. `None` if that is little,
    /// or was reported before.
    pub(crate) fn ahead_ms(&mut self, now: Now) -> Option<i64> {
        let span = self.leads.as_ref().unwrap_or(&self.started);
        let known_ms = span.known_ms(span.newest_ms, now);
        let ahead_ms = now.wall_ms.saturating_sub(known_ms);
        let is_new = ahead_ms.saturating_sub(self.told_ms) > AHEAD_TOLD_MS;
        is_new.then(|| {
            self.told_ms = ahead_ms;
            ahead_ms
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DAY_MS: i64 = 24 * 3_600_000;
    /// The starting time, by a correct clock.
    const START_MS: i64 = 1_700_000_000_000;

    /// This number of seconds later, by a clock that is ahead.
    fn at(seconds: u64, ahead_ms: i64) -> Now {
        let monotonic = Duration::from_secs(seconds);
        Now { monotonic, wall_ms: START_MS + monotonic.as_millis() as i64 + ahead_ms }
    }

    #[test]
    fn two_leaders_in_a_row_with_clocks_ahead_make_no_znode_older() {
        let made_ms = START_MS - 10_000;
        // It follows a leader whose clock is right, then one that stamps a day ahead, and leads
        // when its own clock is a day ahead, too.
        let started = Span::new(START_MS, at(0, 0));
        let leads = Span::new(START_MS + DAY_MS + 30_000, at(60, DAY_MS));
        let by_both = Ages { started, leads: Some(leads), told_ms: 0 };
        let by_one = Ages { started: leads, leads: None, told_ms: 0 };
        let now = at(120, DAY_MS);
        assert_eq!(by_both.of(made_ms, now), Duration::from_secs(130));
        assert!(by_one.of(made_ms, now) > Duration::from_secs(86_000), "which is what it is for");
    }

    #[test]
    fn a_history_that_came_from_elsewhere_is_as_old_as_its_end_says() {
        // It started empty with a clock that is ahead, and got a history that ends now.
        let started = Span::new(0, at(0, DAY_MS));
        let leads = Span::new(START_MS + 50_000, at(60, DAY_MS));
        let ages = Ages { started, leads: Some(leads), told_ms: 0 };
        assert_eq!(ages.of(START_MS, at(120, DAY_MS)), Duration::from_secs(110));
    }
}

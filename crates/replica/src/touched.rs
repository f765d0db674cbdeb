//! Signs of life of sessions that a learner has not reported to its leader yet.

use std::collections::BTreeMap;
use std::ops::Bound;

use zebu_proto::SessionId;
use zebu_proto::quorum::Touch;

/// Sessions and their timeouts in milliseconds.
#[derive(Debug, Default)]
pub(crate) struct Touched {
    by_id: BTreeMap<SessionId, i32>,
    /// The last session reported, if there were too many for one report.
    reported: SessionId,
}

impl Touched {
    /// Notes a sign of life.
    pub(crate) fn add(&mut self, session: SessionId, timeout_ms: i32) {
        self.by_id.insert(session, timeout_ms);
    }

    /// Removes all.
    pub(crate) fn clear(&mut self) {
        self.by_id.clear();
    }

    /// Takes up to `most` sessions to report: the leader disconnects a learner whose packet is too
    /// long. The rest comes first in the next report.
    pub(crate) fn take(&mut self, most: usize) -> Vec<Touch> {
        let touch = |(session, timeout_ms)| Touch { session, timeout_ms };
        if self.by_id.len() <= most {
            return std::mem::take(&mut self.by_id).into_iter().map(touch).collect();
        }
        let behind = self.by_id.range((Bound::Excluded(self.reported), Bound::Unbounded));
        let all = behind.chain(self.by_id.range(..=self.reported));
        let taken: Vec<Touch> = all.take(most).map(|(id, ms)| touch((*id, *ms))).collect();
        for touch in &taken {
            self.by_id.remove(&touch.session);
            self.reported = touch.session;
        }
        assert_eq!(taken.len(), most, "there are more than fit into a report");
        taken
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nobody_is_left_out_for_ever_where_not_all_fit_into_a_report() {
        let mut touched = Touched::default();
        let mut last = [0; 100];
        for round in 1..=50 {
            // All of them speak all the time.
            (0..100).for_each(|id| touched.add(SessionId(id - 50), 4000));
            let taken = touched.take(30);
            assert_eq!(taken.len(), 30);
            taken.iter().for_each(|touch| last[(touch.session.0 + 50) as usize] = round);
            assert!(last.iter().all(|heard| *heard + 4 > round), "round {round}: {last:?}");
        }
        assert_eq!(touched.take(100).len(), 70);
        assert_eq!(touched.take(100), []);
    }
}

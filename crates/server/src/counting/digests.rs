//! Transactions whose digest is not the tree's: each one is counted, and one log line reports many.

use std::time::Duration;

use tracing::{error, info};
use zebu_metrics::Counter;
use zebu_proto::Zxid;

/// Minimum time between two lines about transactions whose digests differ.
const INTERVAL: Duration = Duration::from_secs(5);

/// The results of the comparisons so far.
#[derive(Debug, Default)]
pub struct Digests {
    /// Whether the digests of the last comparison differed.
    differs: bool,
    /// The number of mismatches since the last log line.
    untold: u64,
    /// The time of the last log line, on the monotonic clock.
    told: Option<Duration>,
}

/// A comparison of the tree's digest after a transaction with the one in the transaction, or in a
/// snapshot.
#[derive(Clone, Copy, Debug)]
pub struct Comparison {
    /// The transaction.
    pub zxid: Zxid,
    /// Whether both digests are the same.
    pub matches: bool,
    /// The digest of this server's tree.
    pub tree: i64,
    /// The other digest, if it is known.
    pub expected: Option<i64>,
}

/// The log line for a comparison.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum News {
    Nothing,
    /// The digests are the same again.
    Recovered,
    /// The number of mismatches since the last log line.
    Differing(u64),
}

impl Digests {
    /// Counts a mismatch in `mismatches`, and returns the log line that is due.
    pub fn compared(&mut self, now: Duration, mismatches: &Counter, comparison: Comparison) {
        let Comparison { zxid, matches, tree, expected } = comparison;
        match self.news(now, mismatches, matches) {
            News::Nothing => {}
            News::Recovered => {
                info!(
                    "at {zxid} the digest of this server's tree matches the transaction's digest again"
                );
            }
            News::Differing(untold) => {
                let expected =
                    expected.map_or("a different one".to_owned(), |it| format!("{it:#x}"));
                error!(
                    "after {zxid} the digest of this server's tree is {tree:#x}, but {expected} was expected: \
                     znodes differ from those of other servers ({untold} mismatches since the previous such line)"
                );
            }
        }
    }

    fn news(&mut self, now: Duration, mismatches: &Counter, matches: bool) -> News {
        let differed = std::mem::replace(&mut self.differs, !matches);
        if matches {
            return if differed { News::Recovered } else { News::Nothing };
        }
        mismatches.add(1);
        self.untold += 1;
        if self.told.is_some_and(|told| now < told + INTERVAL) {
            return News::Nothing;
        }
        self.told = Some(now);
        News::Differing(std::mem::take(&mut self.untold))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_mismatch_is_counted_and_a_line_is_told_every_five_seconds() {
        let (mut digests, mismatches) = (Digests::default(), Counter::default());
        let mut compare = |now_ms, matches| {
            let news = digests.news(Duration::from_millis(now_ms), &mismatches, matches);
            (news, mismatches.value())
        };
        assert_eq!(compare(0, true), (News::Nothing, 0));
        // The first mismatch is logged at once.
        assert_eq!(compare(1_000, false), (News::Differing(1), 1));
        assert_eq!(compare(1_000, false), (News::Nothing, 2));
        assert_eq!(compare(5_999, false), (News::Nothing, 3));
        assert_eq!(compare(6_000, false), (News::Differing(3), 4));
        assert_eq!(compare(10_999, false), (News::Nothing, 5));
        // That the digests match again is logged once. The next mismatch is not logged earlier for
        // that.
        assert_eq!(compare(10_999, true), (News::Recovered, 5));
        assert_eq!(compare(10_999, true), (News::Nothing, 5));
        assert_eq!(compare(10_999, false), (News::Nothing, 6));
        assert_eq!(compare(60_000, false), (News::Differing(3), 7));
    }
}

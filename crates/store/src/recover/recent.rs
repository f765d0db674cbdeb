//! The newest replayed transactions, for a leader that synchronizes learners.

use std::collections::VecDeque;

use zebu_proto::Zxid;

use crate::Options;

/// Keeps the newest transactions within two limits.
///
/// **Invariant:** each transaction follows the previous one: as the next of its epoch, or in a
/// later epoch. Checked by `there_is_never_a_gap`.
#[derive(Debug)]
pub(crate) struct Recent {
    txns: VecDeque<(Zxid, Vec<u8>)>,
    bytes: usize,
    txns_max: usize,
    bytes_max: usize,
}

impl Recent {
    pub(crate) fn new(options: &Options) -> Self {
        let (txns_max, bytes_max) = (options.recent_txns_max, options.recent_bytes_max);
        Self { txns: VecDeque::new(), bytes: 0, txns_max, bytes_max }
    }

    /// Adds a transaction. `last`: the newest transaction before it was applied.
    pub(crate) fn push(&mut self, last: Zxid, zxid: Zxid, body: &[u8]) {
        if self.txns_max == 0 || zxid <= last {
            // A repeated zxid changes nothing: the original may log an error twice.
            return;
        }
        let follows = if zxid.epoch() == last.epoch() {
            last.next() == Some(zxid)
        } else {
            zxid.counter() == 1
        };
        if !follows {
            self.clear();
        }
        let before = self.txns.back().map(|(before, _)| *before);
        assert!(before.is_none_or(|before| before < zxid), "{zxid} after {before:?}");
        self.bytes += body.len();
        self.txns.push_back((zxid, body.to_vec()));
        while self.txns.len() > self.txns_max || self.bytes > self.bytes_max {
            let Some((_, gone)) = self.txns.pop_front() else { break };
            self.bytes -= gone.len();
        }
        assert!(self.txns.len() <= self.txns_max, "{} transactions are kept", self.txns.len());
        assert!(self.bytes <= self.bytes_max, "{} bytes are kept", self.bytes);
        assert!(!self.txns.is_empty() || self.bytes == 0, "bytes of nothing are kept");
    }

    pub(crate) fn clear(&mut self) {
        self.txns.clear();
        self.bytes = 0;
    }

    pub(crate) fn into_vec(self) -> Vec<(Zxid, Vec<u8>)> {
        self.txns.into()
    }
}

#[cfg(test)]
mod tests {
    use zebu_proto::Epoch;

    use super::*;

    fn kept(txns_max: usize, bytes_max: usize, zxids: &[Zxid]) -> Vec<Zxid> {
        let options =
            Options { recent_txns_max: txns_max, recent_bytes_max: bytes_max, ..Options::new("") };
        let mut recent = Recent::new(&options);
        let mut last = Zxid::ZERO;
        for zxid in zxids {
            recent.push(last, *zxid, &[0; 10]);
            last = last.max(*zxid);
        }
        recent.into_vec().into_iter().map(|(zxid, _)| zxid).collect()
    }

    #[test]
    fn the_newest_are_kept_within_both_limits() {
        let zxids = [1, 2, 3, 4].map(Zxid);
        assert_eq!(kept(10, 1000, &zxids), zxids);
        assert_eq!(kept(2, 1000, &zxids), zxids[2..]);
        assert_eq!(kept(10, 35, &zxids), zxids[1..]);
        assert_eq!(kept(10, 9, &zxids), []);
        assert_eq!(kept(0, 1000, &zxids), []);
    }

    #[test]
    fn there_is_never_a_gap() {
        let first = |epoch| Zxid::new(Epoch(epoch), 1);
        assert_eq!(kept(9, 999, &[1, 2, 4, 5].map(Zxid)), [4, 5].map(Zxid));
        assert_eq!(kept(9, 999, &[Zxid(1), first(3)]), [Zxid(1), first(3)]);
        assert_eq!(kept(9, 999, &[Zxid(1), Zxid(first(3).0 + 1)]), [Zxid(first(3).0 + 1)]);
        // The original logs an error under the zxid of the transaction before.
        assert_eq!(kept(9, 999, &[1, 2, 2, 3].map(Zxid)), [1, 2, 3].map(Zxid));
    }
}

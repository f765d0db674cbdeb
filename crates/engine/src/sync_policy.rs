//! Which thread syncs the records of a turn: the thread of the turn, or the log's.
//!
//! With few records the thread of the turn syncs: waking the log's thread, and being woken in turn,
//! would take longer than the disk. Under load the log's thread syncs, while the next requests are
//! prepared. A turn under load may also have few records, and the requests behind it must not wait
//! for the disk. So the decision depends on recent turns too.
//!
//! A single client waits for its own requests anyway, and no others need preparing. Its limit is
//! higher.

use zebu_replica::ConnId;

/// Up to this many records a turn counts as small.
const FEW_MAX: usize = 64;
/// The same limit for a single client.
const ALONE_MAX: usize = 128;
/// A client counts as single after this many turns without another client.
const ALONE_AFTER: u32 = 64;

const _: () = assert!(FEW_MAX <= ALONE_MAX, "a single client may ask for no less");

/// What the decision needs from recent turns.
#[derive(Debug, Default)]
pub struct SyncPolicy {
    /// Records of the largest recent turn, decaying with each turn.
    most: usize,
    /// The client of the last request.
    client: Option<ConnId>,
    /// For this many more turns, the client does not count as single.
    others: u32,
}

impl SyncPolicy {
    /// A client has sent a request.
    pub fn asked_by(&mut self, client: ConnId) {
        if self.client.replace(client).is_some_and(|before| before != client) {
            self.others = ALONE_AFTER;
        }
    }

    /// Ends a turn with `records` records. Returns whether the thread of the turn should sync them.
    pub fn is_leisurely(&mut self, records: usize) -> bool {
        self.most = records.max(self.most.saturating_sub(1.max(self.most / 64)));
        assert!(self.most >= records && self.others <= ALONE_AFTER, "{self:?}");
        let most = if self.others == 0 { ALONE_MAX } else { FEW_MAX };
        self.others = self.others.saturating_sub(1);
        self.most <= most
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: ConnId = ConnId(1);
    const B: ConnId = ConnId(2);

    #[test]
    fn few_at_a_time_are_leisurely() {
        let mut policy = SyncPolicy::default();
        for client in [A, B, A] {
            policy.asked_by(client);
            assert!(policy.is_leisurely(FEW_MAX));
        }
        assert!(!policy.is_leisurely(FEW_MAX + 1));
    }

    #[test]
    fn few_after_many_are_not_for_a_while() {
        let mut policy = SyncPolicy::default();
        policy.asked_by(A);
        policy.asked_by(B);
        assert!(!policy.is_leisurely(1000));
        let turns = (0..).take_while(|_| !policy.is_leisurely(1)).count();
        assert!((100..1000).contains(&turns), "after {turns} turns");
        assert!(policy.is_leisurely(1));
    }

    #[test]
    fn one_client_may_ask_for_more() {
        let mut policy = SyncPolicy::default();
        policy.asked_by(A);
        assert!(policy.is_leisurely(ALONE_MAX));
        policy.asked_by(B);
        assert!(!policy.is_leisurely(ALONE_MAX));
        for _ in 1..ALONE_AFTER {
            policy.asked_by(B);
            assert!(!policy.is_leisurely(ALONE_MAX));
        }
        assert!(policy.is_leisurely(ALONE_MAX));
        assert!(!policy.is_leisurely(ALONE_MAX + 1));
    }
}

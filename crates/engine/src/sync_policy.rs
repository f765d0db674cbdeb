//! Which thread makes a turn's records durable: the one that had the turn, or the log's.
//!
//! The replica's thread does it itself where that is the fastest: with few records the log's thread would take longer to
//! be woken, and to wake in turn, than the disk takes. While there is much to do the log's thread does it, and
//! the next requests are prepared meanwhile. Then a turn may have few records, too: the others are on their way,
//! and are not to wait for the disk behind it. So what counts is not the turn at hand alone.
//!
//! One client by itself waits for what it has asked for, however much that is, and there is nobody else's to prepare.

use zebu_replica::ConnId;

/// Records of a turn that are few.
const FEW_MAX: usize = 64;
/// Records of a single client that are not too many.
const ALONE_MAX: usize = 128;
/// Turns in which nobody else was seen, after which a client is alone.
const ALONE_AFTER: u32 = 64;

const _: () = assert!(FEW_MAX <= ALONE_MAX, "a single client may ask for no less");

/// What is remembered of the last turns.
#[derive(Debug, Default)]
pub struct SyncPolicy {
    /// Records of the largest turn, less of it the longer that is ago.
    most: usize,
    /// Whose the last request was.
    client: Option<ConnId>,
    /// For so many turns more there is another client.
    others: u32,
}

impl SyncPolicy {
    /// A client has asked for something.
    pub fn asked_by(&mut self, client: ConnId) {
        if self.client.replace(client).is_some_and(|before| before != client) {
            self.others = ALONE_AFTER;
        }
    }

    /// A turn ends with so many records; whether they are best made durable by the thread that had it.
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

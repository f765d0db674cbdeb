//! How far a learner's tree is behind what its leader has committed: its own disk may stand still while
//! the leader's pings go on.
//!
//! A follower that acknowledges nothing is sent away by its leader; of an observer nobody knows. A
//! learner that has not applied what it knew to be committed `syncLimit` ago serves nobody any more
//! (ORD-09).

use std::time::Duration;

use zebu_proto::Zxid;

/// A transaction that is known to be committed and not applied yet, and since when.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Lag(Option<(Zxid, Duration)>);

impl Lag {
    /// Looks at how far this server knows things to be committed, and how far it has delivered them.
    pub(crate) fn look(&mut self, committed: Zxid, delivered: Zxid, now: Duration) {
        assert!(delivered <= committed, "{delivered} is delivered before it is committed");
        self.0 = match self.0 {
            Some((zxid, since)) if delivered < zxid => Some((zxid, since)),
            _ if delivered < committed => Some((committed, now)),
            _ => None,
        };
    }

    /// This server stood still for so long, and its disk perhaps did not.
    pub(crate) fn postpone(&mut self, time: Duration) {
        if let Some((_, since)) = &mut self.0 {
            *since += time;
        }
    }

    /// Since when this server has not applied something.
    pub(crate) fn since(&self) -> Option<Duration> {
        self.0.map(|(_, since)| since)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_behind_since_it_knew_of_what_it_has_not_applied() {
        let secs = Duration::from_secs;
        let mut lag = Lag::default();
        lag.look(Zxid(5), Zxid(5), secs(1));
        assert_eq!(lag.since(), None);
        lag.look(Zxid(7), Zxid(5), secs(2));
        // That more is applied and more committed does not help what was committed at first.
        lag.look(Zxid(9), Zxid(6), secs(3));
        assert_eq!(lag.since(), Some(secs(2)));
        lag.postpone(secs(10));
        lag.look(Zxid(9), Zxid(7), secs(14));
        assert_eq!(lag.since(), Some(secs(14)));
        lag.look(Zxid(9), Zxid(9), secs(15));
        assert_eq!(lag.since(), None);
    }
}

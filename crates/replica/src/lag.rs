//! The distance of a learner's tree from the transactions that its leader has committed. A
//! learner's disk may stall while the leader's pings continue.
//!
//! The leader disconnects a follower that acknowledges nothing, but expects no acknowledgements
//! from an observer. So a learner stops serving when it has not applied, for `syncLimit`, a
//! transaction it knew to be committed (ORD-09).

use std::time::Duration;

use zebu_proto::Zxid;

/// A transaction known to be committed but not applied, and since when.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Lag(Option<(Zxid, Duration)>);

impl Lag {
    /// Compares what this server knows to be committed with what it has delivered.
    pub(crate) fn look(&mut self, committed: Zxid, delivered: Zxid, now: Duration) {
        assert!(delivered <= committed, "{delivered} is delivered before it is committed");
        self.0 = match self.0 {
            Some((zxid, since)) if delivered < zxid => Some((zxid, since)),
            _ if delivered < committed => Some((committed, now)),
            _ => None,
        };
    }

    /// This server was suspended for `time`; its disk perhaps was not.
    pub(crate) fn postpone(&mut self, time: Duration) {
        if let Some((_, since)) = &mut self.0 {
            *since += time;
        }
    }

    /// Since when a committed transaction has not been applied.
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
        // Further applied and further committed transactions do not help those that were committed
        // first.
        lag.look(Zxid(9), Zxid(6), secs(3));
        assert_eq!(lag.since(), Some(secs(2)));
        lag.postpone(secs(10));
        lag.look(Zxid(9), Zxid(7), secs(14));
        assert_eq!(lag.since(), Some(secs(14)));
        lag.look(Zxid(9), Zxid(9), secs(15));
        assert_eq!(lag.since(), None);
    }
}

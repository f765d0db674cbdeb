//! Observer masters: the voters from which an observer learns, in turn.
//!
//! If none has served the observer for as long as an ensemble may take to start, it asks the leader
//! itself. The original never does, though its masters may be of no use. They disconnect an
//! observer that has a transaction of an earlier epoch which no other server has, as a leader that
//! lost its vote may. And while a leader waits for the vote that the observer is about to get, no
//! follower serves.

use std::collections::VecDeque;
use std::time::Duration;

use zebu_proto::ServerId;

use crate::config::Membership;
use crate::io::Options;
use crate::learner::Learner;
use crate::random::Random;

/// The masters, and which one is next.
#[derive(Debug, Default)]
pub(crate) struct Masters {
    /// All voters, in an order chosen by this observer.
    known: Vec<ServerId>,
    next: usize,
    /// Since when its attempts have failed.
    vain_since: Option<Duration>,
}

impl Masters {
    /// The masters to try now, starting after the last one, and whether all have been tried. Empty:
    /// the leader itself.
    /// Source: `QuorumPeer.updateObserverMasterList`, `nextObserverMaster`.
    pub(crate) fn untried(
        &mut self,
        now: Duration,
        leader: ServerId,
        members: &Membership,
        options: &Options,
        random: &mut Random,
    ) -> (VecDeque<ServerId>, bool) {
        assert!(self.next <= self.known.len(), "{} of {:?} is next", self.next, self.known);
        let mut known = self.known.clone();
        known.sort_unstable();
        let mut all_tried = false;
        if !known.into_iter().eq(members.voters()) {
            *self = Self { known: members.voters().collect(), ..Self::default() };
            for last in (1..self.known.len()).rev() {
                let other = random.below(last as u64 + 1) as usize;
                self.known.swap(last, other);
            }
        } else if self.known[self.next..].iter().all(|master| *master == leader) {
            all_tried = true;
            self.next = 0;
            if self.vain_since.is_some_and(|since| now >= since + options.init_time()) {
                return (VecDeque::new(), all_tried);
            }
        }
        debug_assert!(members.voters().all(|it| self.known.contains(&it)), "a master is left out");
        // The leader is left out to spare it. Without followers, only the leader remains.
        let to_try = self.known[self.next..].iter().copied();
        (to_try.filter(|master| *master != leader).collect(), all_tried)
    }

    /// An observer's role has ended.
    pub(crate) fn left(&mut self, now: Duration, learner: &Learner) {
        let tried = self.known.iter().position(|master| *master == learner.master());
        let at_leader = learner.master() == learner.leader();
        self.next = tried.filter(|_| !at_leader).map_or(0, |tried| tried + 1);
        self.vain_since = match learner.serving() {
            Some(_) => None,
            None => self.vain_since.filter(|_| !at_leader).or(Some(now)),
        };
    }
}

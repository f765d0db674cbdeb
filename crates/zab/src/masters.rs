//! Whom an observer learns from instead of the leader: one of those who vote, in turn.
//!
//! When all have had their turn in vain, the leader itself is asked. The original goes on with them for ever, though
//! they may never be of use: its own masters let go of whoever has a transaction of an earlier epoch that nobody else
//! has, as a leader that lost its vote may; and while a leader waits for the vote that the observer is to get,
//! nobody else serves.

use std::collections::VecDeque;

use zebu_proto::ServerId;

use crate::config::Membership;
use crate::learner::Learner;
use crate::random::Random;

/// Those who may serve an observer, and which of them is next.
#[derive(Debug, Default)]
pub(crate) struct Masters {
    /// Everybody who votes, in an order of this observer's own.
    known: Vec<ServerId>,
    next: usize,
    /// Whether one of them has served it since the first had its turn.
    served: bool,
}

impl Masters {
    /// Whom to try now, beginning with the one behind the last, and whether all of them have had their turn. Nobody: the
    /// leader itself.
    ///
    /// Source: `QuorumPeer.updateObserverMasterList`, `nextObserverMaster`.
    pub(crate) fn untried(
        &mut self,
        leader: ServerId,
        members: &Membership,
        random: &mut Random,
    ) -> (VecDeque<ServerId>, bool) {
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
            if !std::mem::take(&mut self.served) {
                return (VecDeque::new(), all_tried);
            }
        }
        // A leader has other things to do; without followers, there is only the leader.
        let to_try = self.known[self.next..].iter().copied();
        (to_try.filter(|master| *master != leader).collect(), all_tried)
    }

    /// An observer's role has ended.
    pub(crate) fn left(&mut self, learner: &Learner) {
        let tried = self.known.iter().position(|master| *master == learner.master());
        let at_leader = learner.master() == learner.leader();
        self.next = tried.filter(|_| !at_leader).map_or(0, |tried| tried + 1);
        self.served |= !at_leader && learner.serving().is_some();
    }
}

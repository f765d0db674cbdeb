//! What others may want to know of a member's links.

use std::time::Duration;

use zebu_proto::ServerId;

use super::{Part, Peer};
use crate::io::{Learners, LinkId};
use crate::relay::Relay;

impl Peer {
    /// How long a leader and a learner bear each other's silence.
    pub fn sync_time(&self) -> Duration {
        self.options.sync_time()
    }

    /// At a leader: until when a learner has told of everything that its clients have said; `None` when
    /// nobody serves on this link.
    pub fn told_until(&self, link: LinkId) -> Option<Duration> {
        match &self.part {
            Part::Leading(leader) => leader.told_until(link),
            _ => None,
        }
    }

    /// At a leader: until when all learners that serve have told of everything that their clients have said; `None` when
    /// nobody serves.
    pub fn all_told_until(&self) -> Option<Duration> {
        match &self.part {
            Part::Leading(leader) => leader.all_told_until(),
            _ => None,
        }
    }

    /// At a follower that serves observers: how many there are.
    pub fn observers(&self) -> Option<usize> {
        match &self.part {
            Part::Learning(learner) => learner.relay().map(Relay::observers),
            _ => None,
        }
    }

    /// At an observer: from whom it learns, or tries to.
    pub fn master(&self) -> Option<ServerId> {
        match &self.part {
            Part::Learning(learner) if learner.is_observer() => Some(learner.master()),
            _ => None,
        }
    }

    /// At a learner: who leads.
    pub fn leader(&self) -> Option<ServerId> {
        match &self.part {
            Part::Learning(learner) => Some(learner.leader()),
            _ => None,
        }
    }

    /// At a leader, who is connected to it.
    pub fn learners(&self) -> Option<Learners> {
        match &self.part {
            Part::Leading(leader) => Some(leader.learners(self.quorums.committed())),
            _ => None,
        }
    }
}

//! Information about a member's links and its past.

use std::time::Duration;

use zebu_proto::ServerId;

use super::{Part, Peer};
use crate::election::{Ballot, State};
use crate::io::{Learners, LinkId};
use crate::leave::Leave;
use crate::relay::Relay;

/// Why a member has no leader, and which voters it waits for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lacks {
    /// Why its last role ended.
    pub why: Leave,
    /// Whether it does not vote because its history is lost, damaged or older than what it has
    /// served.
    pub abstains: bool,
    /// The voters that were unreachable at the last attempt.
    pub unreachable: Vec<ServerId>,
    /// The reachable other voters that do not vote for the same reason.
    pub abstaining: Vec<ServerId>,
    /// After [`Leave::WouldForget`]: the other voters whose history, or the history that they elect
    /// or follow, has shown itself to lack the newest transaction that this server knows to be
    /// committed. They may never have had it.
    pub without_certain: Vec<ServerId>,
    /// After [`Leave::WouldForget`]: the other voters that have not shown that.
    pub may_have_certain: Vec<ServerId>,
}

impl Peer {
    /// Why it has no leader, while it looks for one.
    pub fn lacks(&self) -> Option<Lacks> {
        if !matches!(self.part, Part::Settling(_) | Part::Looking(_)) {
            return None;
        }
        let absent = self.mesh.absent();
        let (unreachable, others): (Vec<_>, Vec<_>) =
            self.quorums.voters().partition(|voter| absent.contains(voter));
        let abstaining = others.into_iter().filter(|voter| self.abstaining.contains(voter));
        let (without_certain, may_have_certain) = self.without_certain();
        Some(Lacks {
            without_certain,
            may_have_certain,
            why: self.left,
            abstains: !self.has_database,
            unreachable,
            abstaining: abstaining.collect(),
        })
    }

    /// After [`Leave::WouldForget`]: the other voters, split into those that are known to lack the
    /// transaction or to give it up, and the rest.
    fn without_certain(&self) -> (Vec<ServerId>, Vec<ServerId>) {
        let Leave::WouldForget { leader, certain, .. } = self.left else {
            return (Vec::new(), Vec::new());
        };
        // A vote is for a history that is at least as good as the voter's own. The vote of a server
        // with a leader says nothing of its history, unless the leader is the one that lacks it.
        let lacks = |voter: &ServerId| {
            let elects = |ballot: &Ballot| {
                let looks_for_less = ballot.state == State::Looking && ballot.vote.zxid < certain;
                ballot.vote.leader == leader || looks_for_less
            };
            *voter == leader || self.heard.get(voter).is_some_and(elects)
        };
        let others = self.quorums.voters().filter(|voter| *voter != self.options.me);
        others.partition(lacks)
    }

    /// Whether its history counts: it is neither lost nor damaged nor known to be wrong.
    pub fn has_history(&self) -> bool {
        self.has_database
    }

    /// How often this server gave up leading before broadcast because a supporter looked for a
    /// leader again.
    pub fn disloyal_supporters(&self) -> u64 {
        self.disloyal
    }

    /// The server at the other end of a connection of the election network.
    pub fn wire_peer(&self, wire: crate::mesh::WireId) -> Option<ServerId> {
        self.mesh.peer(wire)
    }

    /// How long a leader and a learner tolerate each other's silence.
    pub fn sync_time(&self) -> Duration {
        self.options.sync_time()
    }

    /// At a leader: up to when a learner has reported its clients' signs of life; `None` if no
    /// learner serves on this link.
    pub fn told_until(&self, link: LinkId) -> Option<Duration> {
        match &self.part {
            Part::Leading(leader, _) => leader.told_until(link),
            _ => None,
        }
    }

    /// At a leader: up to when all serving learners have reported their clients' signs of life;
    /// `None` if no learner serves.
    pub fn all_told_until(&self) -> Option<Duration> {
        match &self.part {
            Part::Leading(leader, _) => leader.all_told_until(),
            _ => None,
        }
    }

    /// At a follower that serves observers: their number.
    pub fn observers(&self) -> Option<usize> {
        match &self.part {
            Part::Learning(learner, _) => learner.relay().map(Relay::observers),
            _ => None,
        }
    }

    /// At an observer: the server it learns from, or tries to.
    pub fn master(&self) -> Option<ServerId> {
        match &self.part {
            Part::Learning(learner, _) if learner.is_observer() => Some(learner.master()),
            _ => None,
        }
    }

    /// At a learner: the leader.
    pub fn leader(&self) -> Option<ServerId> {
        match &self.part {
            Part::Learning(learner, _) => Some(learner.leader()),
            _ => None,
        }
    }

    /// At a leader: its learners.
    pub fn learners(&self) -> Option<Learners> {
        match &self.part {
            Part::Leading(leader, _) => Some(leader.learners(self.quorums.committed())),
            _ => None,
        }
    }
}

//! Fast leader election.
//!
//! Every voter votes for the best history it has heard of; a server with a quorum of votes is
//! elected. Servers that already have a leader answer with it, so that a late server finds it.
//! Messages may be lost, stale, duplicated and reordered. Source: `quorum-election.md` part II,
//! `FastLeaderElection`.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use zebu_proto::quorum::NO_ZXID;
use zebu_proto::{ServerId, Zxid};

use crate::config::Membership;
use crate::faults;
use crate::quorums::Quorums;

/// The state of a server in its notifications.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// Looking for a leader.
    Looking,
    /// Following, as a voter.
    Following,
    /// Leading.
    Leading,
    /// Observing.
    Observing,
}

/// A vote: a candidate and its history. Ordered by epoch, then zxid, then server id.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Vote {
    /// The candidate.
    pub leader: ServerId,
    /// The candidate's newest zxid.
    pub zxid: Zxid,
    /// The epoch of the candidate's history.
    pub epoch: i64,
}

impl Vote {
    /// The vote of a server that may not be elected and only asks.
    pub const NONE: Self =
        Self { leader: ServerId(i64::MIN), zxid: Zxid(i64::MIN), epoch: i64::MIN };

    /// The history of the candidate.
    fn history(&self) -> (i64, Zxid) {
        let epoch = if faults::vote_without_epoch() { 0 } else { self.epoch };
        let zxid = if faults::vote_without_zxid() { Zxid::ZERO } else { self.zxid };
        (epoch, zxid)
    }
}

/// A vote as sent in a notification.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ballot {
    /// The vote.
    pub vote: Vote,
    /// The election round it was cast in.
    pub round: i64,
    /// The sender's state.
    pub state: State,
    /// Whether the sender compares epochs of servers that have a leader (notification version).
    pub versioned: bool,
}

/// The result of an election for this server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Decision {
    /// The new state; never [`State::Looking`].
    pub state: State,
    /// The vote for the elected server.
    pub vote: Vote,
}

/// The recipient of a notification.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tell {
    /// Every voter, including this server if it is one.
    Voters,
    /// One server.
    One(ServerId),
}

/// A notification to send.
pub type Post = (Tell, Ballot);

/// Election timing.
#[derive(Clone, Copy, Debug)]
pub struct Patience {
    /// How long to wait for a better vote once a quorum agrees. Not used if no other voter can send
    /// one.
    pub settle: Duration,
    /// Silence after which votes are sent again; doubles each time.
    pub resend_min: Duration,
    /// Upper limit of the doubling.
    pub resend_max: Duration,
}

impl Default for Patience {
    fn default() -> Self {
        Self {
            settle: Duration::from_millis(200),
            resend_min: Duration::from_millis(200),
            resend_max: Duration::from_secs(60),
        }
    }
}

/// One server's part in electing a leader.
///
/// Invariant: `received` holds votes of `round` only.
#[derive(Debug)]
pub struct Election {
    me: ServerId,
    patience: Patience,
    state: State,
    round: i64,
    initial: Vote,
    proposal: Vote,
    /// The vote and round that this server answers with while it is not looking.
    current: (Vote, i64),
    received: BTreeMap<ServerId, Ballot>,
    /// Ballots of servers that have a leader, of any round.
    settled: BTreeMap<ServerId, Ballot>,
    /// The configurations that voters have sent.
    lists: BTreeMap<ServerId, Arc<Membership>>,
    /// The last round each other voter was heard in, while this server may not vote.
    witnessed: BTreeMap<ServerId, i64>,
    resend_at: Duration,
    resend_after: Duration,
    decide_at: Option<Duration>,
    avoided: Avoided,
    /// The vote for this server itself, if it is about to become a voter; cast at `stand_at`.
    late: Option<Vote>,
    stand_at: Option<Duration>,
    /// Whether votes are compared as in the original; see [`crate::Options::credulous`].
    credulous: bool,
}

/// Servers that are neither voted for nor followed, and until when.
pub type Avoided = BTreeMap<ServerId, Duration>;

impl Election {
    /// A server that has not voted.
    pub fn new(me: ServerId, patience: Patience, credulous: bool) -> Self {
        let own = Vote { leader: me, zxid: Zxid::ZERO, epoch: 0 };
        Self {
            me,
            patience,
            state: State::Looking,
            round: 0,
            initial: own,
            proposal: own,
            current: (own, -1),
            received: BTreeMap::new(),
            settled: BTreeMap::new(),
            lists: BTreeMap::new(),
            witnessed: BTreeMap::new(),
            resend_at: Duration::MAX,
            resend_after: patience.resend_min,
            decide_at: None,
            avoided: Avoided::new(),
            late: None,
            stand_at: None,
            credulous,
        }
    }

    /// The state of this server.
    pub fn state(&self) -> State {
        self.state
    }

    /// The round of the election.
    pub fn round(&self) -> i64 {
        self.round
    }

    /// Starts a new round with this server's own vote, or [`Vote::NONE`].
    ///
    /// A server that is about to become a voter passes its own vote as `late`: it stands as a
    /// candidate if no voter has an equally good history. In the original it may never stand. But
    /// it may be the only server with the history needed to complete the reconfiguration that makes
    /// it a voter.
    pub fn look(&mut self, now: Duration, own: Vote, late: Option<Vote>, out: &mut Vec<Post>) {
        self.state = State::Looking;
        self.initial = own;
        self.late = late;
        self.settled.clear();
        self.witnessed.clear();
        self.resend_after = self.patience.resend_min;
        self.resend_at = now + self.resend_after;
        self.enter(now, self.next_round(), own, out);
    }

    /// From the next round on, these servers are neither voted for nor followed for some time. They
    /// may have the best history, yet be unreachable for most servers.
    pub fn avoid(&mut self, avoided: Avoided) {
        self.avoided = avoided;
    }

    /// The avoided servers.
    pub fn avoided(&self) -> &Avoided {
        &self.avoided
    }

    /// No other server can be elected: the next tick, due at once, ends the avoidance.
    pub fn avoid_no_longer(&mut self, now: Duration) {
        for until in self.avoided.values_mut() {
            *until = now.min(*until);
        }
    }

    fn avoids(&self, server: ServerId) -> bool {
        self.avoided.contains_key(&server)
    }

    /// The role has ended, and the next round cannot start yet.
    pub fn wait(&mut self) {
        self.state = State::Looking;
        self.resend_at = Duration::MAX;
        self.decide_at = None;
        self.stand_at = None;
        self.avoided.clear();
    }

    /// The leader's epoch is now known: answers contain it from now on.
    pub fn established(&mut self, epoch: i64) {
        self.current.0.epoch = epoch;
    }

    /// Joins a leader without an election, as a reconfiguration may designate one.
    pub fn appoint(&mut self, state: State, leader: ServerId, zxid: Zxid) {
        assert_ne!(state, State::Looking, "an appointment ends the election");
        assert_eq!(state == State::Leading, leader == self.me, "{leader:?} is appointed");
        self.state = state;
        if self.current.0.leader != leader {
            self.current = (Vote { leader, zxid, epoch: -1 }, -1);
        }
        self.resend_at = Duration::MAX;
        self.decide_at = None;
        self.stand_at = None;
    }

    /// The elected leader's notification to its supporters: some may not reach enough voters to
    /// learn the result.
    pub fn result(&self) -> Ballot {
        let (vote, round) = self.current;
        self.ballot(vote, round)
    }

    /// Stores the configuration from a server's notification; `None` if it has no news.
    pub fn lists(&mut self, from: ServerId, list: Option<Arc<Membership>>, quorums: &Quorums) {
        match list.filter(|_| quorums.is_voter(from)) {
            Some(list) => self.lists.insert(from, list),
            None => self.lists.remove(&from),
        };
    }

    /// Forgets the rounds, for example after a reconfiguration.
    pub fn restart(&mut self) {
        self.join(0);
    }

    /// Changes the round. Ballots of another round do not count in it.
    fn join(&mut self, round: i64) {
        if round != self.round {
            self.received.clear();
        }
        self.round = round;
    }

    /// The next round. The highest round has no successor and repeats, so that a server that claims
    /// to be in it cannot block elections.
    fn next_round(&self) -> i64 {
        self.round.saturating_add(1)
    }

    /// Asserts what holds between any two steps.
    pub(crate) fn check(&self) {
        let (round, state) = (self.round, self.state);
        assert!(self.received.values().all(|it| it.round == round), "a ballot of another round");
        let has_leader = |it: &Ballot| it.state != State::Looking;
        assert!(self.settled.values().all(has_leader), "one who looks for a leader has one");
        let witnesses = self.initial.zxid == NO_ZXID;
        assert!(witnesses || self.witnessed.is_empty(), "it votes, and watches others vote");
        if state != State::Looking || self.resend_at == Duration::MAX {
            assert!(self.decide_at.is_none(), "{state:?}, and it is still to decide");
            assert!(self.stand_at.is_none(), "{state:?}, and it is still to stand");
        }
        assert!(state == State::Looking || self.resend_at == Duration::MAX, "{state:?} and votes");
        assert!(self.stand_at.is_none() || self.late.is_some(), "it is to stand without a vote");
        let Patience { resend_min, resend_max, .. } = self.patience;
        assert!(self.resend_after >= resend_min.min(resend_max), "it votes again too soon");
        assert!(self.resend_after <= resend_min.max(resend_max), "it votes again too late");
    }

    /// When [`Election::tick`] is due.
    pub fn deadline(&self) -> Duration {
        if self.state == State::Looking {
            let avoided = self.avoided.values().copied().min().unwrap_or(Duration::MAX);
            let due = [self.decide_at, self.stand_at].into_iter().flatten().min();
            due.unwrap_or(Duration::MAX).min(self.resend_at).min(avoided)
        } else {
            Duration::MAX
        }
    }

    fn ballot(&self, vote: Vote, round: i64) -> Ballot {
        Ballot { vote, round, state: self.state, versioned: true }
    }

    fn announce(&self, out: &mut Vec<Post>) {
        out.push((Tell::Voters, self.ballot(self.proposal, self.round)));
    }

    /// Time has passed.
    pub fn tick(
        &mut self,
        now: Duration,
        quorums: &Quorums,
        out: &mut Vec<Post>,
    ) -> Option<Decision> {
        if self.state != State::Looking {
            return None;
        }
        if self.decide_at.is_some_and(|at| at <= now) {
            return Some(self.decide(self.proposal, self.round, quorums));
        }
        if self.avoided.values().any(|until| *until <= now) {
            self.avoided.retain(|_, until| *until > now);
            for ballot in self.received.values().filter(|ballot| ballot.state == State::Looking) {
                if self.better(&ballot.vote, &self.proposal, quorums) {
                    self.proposal = ballot.vote;
                    self.decide_at = None;
                }
            }
            // Followers of the avoided servers answer again.
            self.resend_at = now;
        }
        if self.stand_at.is_some_and(|at| at <= now) {
            self.stand_at = None;
            // No other candidate is as good, or this server would be voting for it.
            if let Some(own) = self.late.filter(|_| self.proposal == self.initial) {
                self.proposal = own;
                self.announce(out);
            }
        }
        if self.resend_at <= now {
            let is_stuck = self.resend_after > self.patience.resend_min * 2;
            if is_stuck && self.is_outranked(quorums) {
                // A server that is about to become a voter stands again only if no voter does.
                self.enter(now, self.next_round(), self.initial, out);
            } else {
                self.announce(out);
            }
            self.resend_after = (self.resend_after * 2).min(self.patience.resend_max);
            self.resend_at = now + self.resend_after;
        }
        None
    }

    /// Whether another server votes in this round for a server that is not a voter yet, and will
    /// not change to this server's vote. This happens if the histories are equal: the original
    /// ignores the difference and prefers the higher id. In a later round it hears of the other
    /// candidates first.
    fn is_outranked(&self, quorums: &Quorums) -> bool {
        let members = quorums.committed();
        let own = &self.proposal;
        !self.credulous
            && !faults::stands_without_a_vote()
            && members.is_voter(own.leader)
            && self.received.values().filter(|ballot| ballot.state == State::Looking).any(
                |ballot| {
                    let other = &ballot.vote;
                    other.history() == own.history()
                        && other.leader > own.leader
                        && !members.is_voter(other.leader)
                },
            )
    }

    /// Handles a notification. `absent`: the servers that cannot be heard now.
    pub fn receive(
        &mut self,
        now: Duration,
        from: ServerId,
        ballot: Ballot,
        quorums: &Quorums,
        absent: &BTreeSet<ServerId>,
        out: &mut Vec<Post>,
    ) -> Option<Decision> {
        if !quorums.is_voter(from) {
            // A non-voter asks for the leader. If it is unknown there is no answer: the answer
            // might itself be answered, endlessly.
            let is_known = self.state != State::Looking || faults::looks_answer_looks();
            if ballot.state == State::Looking && is_known {
                let (vote, _) = self.current;
                out.push((Tell::One(from), self.ballot(vote, self.round)));
            }
            return None;
        }
        if self.state != State::Looking {
            if ballot.state == State::Looking {
                let (vote, round) = self.current;
                out.push((Tell::One(from), self.ballot(vote, round)));
            }
            return None;
        }
        self.witness(now, from, &ballot);
        if ballot.state == State::Looking && ballot.round < self.round {
            // Only a voter's round matters.
            if quorums.is_voter(self.me) || faults::looks_answer_looks() {
                out.push((Tell::One(from), self.ballot(self.proposal, self.round)));
            }
            return None;
        }
        if !quorums.is_voter(ballot.vote.leader) {
            // The sender does not know yet that it is a voter, so it votes for no server. Its round
            // and this server's must become equal before its vote can count.
            if ballot.state == State::Looking && ballot.round > self.round {
                self.enter(now, ballot.round, self.initial, out);
            }
            return None;
        }
        match ballot.state {
            State::Looking => self.looking(now, from, ballot, quorums, absent, out),
            State::Observing => None,
            State::Following | State::Leading => self.has_leader(from, ballot, quorums),
        }
    }

    fn looking(
        &mut self,
        now: Duration,
        from: ServerId,
        ballot: Ballot,
        quorums: &Quorums,
        absent: &BTreeSet<ServerId>,
        out: &mut Vec<Post>,
    ) -> Option<Decision> {
        // A server without a database neither votes nor counts votes.
        let nothing = self.initial.zxid == NO_ZXID || ballot.vote.zxid == NO_ZXID;
        if nothing && !faults::empty_server_counted() {
            return None;
        }
        if ballot.round > self.round {
            let is_better = self.better(&ballot.vote, &self.initial, quorums);
            let proposal = if is_better { ballot.vote } else { self.initial };
            self.enter(now, ballot.round, proposal, out);
        } else if self.better(&ballot.vote, &self.proposal, quorums) {
            self.proposal = ballot.vote;
            self.decide_at = None;
            self.announce(out);
        }
        self.received.insert(from, ballot);
        self.consider(now, quorums, absent)
    }

    /// Handles a voter's ballot at a server that takes no part in the election. That server asks
    /// the voters for the leader soon after, since the new leader may not last.
    ///
    /// Each round of each voter counts once, and ballots of servers that take no part do not count:
    /// otherwise questions and answers could cause further questions. A server that restarts counts
    /// rounds anew.
    fn witness(&mut self, now: Duration, from: ServerId, ballot: &Ballot) {
        let elects = ballot.state == State::Looking && ballot.vote.zxid > NO_ZXID;
        if self.initial.zxid != NO_ZXID || !elects {
            return;
        }
        if self.witnessed.insert(from, ballot.round) != Some(ballot.round) {
            self.resend_after = self.patience.resend_min;
            self.resend_at = self.resend_at.min(now + self.resend_after);
        }
    }

    /// The servers that vote as this server does, in its round.
    pub fn supporters(&self) -> BTreeSet<ServerId> {
        let agrees = self.received.iter().filter(|(_, ballot)| self.matches_proposal(ballot));
        agrees.map(|(server, _)| *server).collect()
    }

    /// Moves on to a later round.
    fn enter(&mut self, now: Duration, round: i64, proposal: Vote, out: &mut Vec<Post>) {
        assert!(round > self.round || round == i64::MAX, "{round} after {}", self.round);
        assert_eq!(self.state, State::Looking, "only a server that looks for a leader votes");
        self.round = round;
        self.received.clear();
        self.stand_at = self.late.map(|_| now + self.patience.settle);
        self.decide_at = None;
        self.proposal = proposal;
        self.announce(out);
    }

    /// Decides, or schedules a decision, if a quorum votes for the proposal.
    fn consider(
        &mut self,
        now: Duration,
        quorums: &Quorums,
        absent: &BTreeSet<ServerId>,
    ) -> Option<Decision> {
        let agree = self.supporters();
        // To lead, a server also needs a quorum of the proposed configuration; to follow, it does
        // not. The original then stays out of the ensemble, even if it is the only server that
        // still considers the configuration proposed.
        let decided = if self.proposal.leader == self.me {
            quorums.all_have_quorum(&agree)
        } else {
            quorums.committed().is_quorum(&agree)
        };
        if !decided {
            // The other server of the two may still answer, and have the better history.
            let alone = quorums.oracle() == Some(true)
                && self.proposal.leader == self.me
                && agree.contains(&self.me);
            self.decide_at = if alone {
                Some(self.decide_at.unwrap_or(now + self.patience.settle))
            } else {
                None
            };
            return None;
        }
        let complete = quorums.voters().all(|sid| agree.contains(&sid) || absent.contains(&sid));
        if complete {
            return Some(self.decide(self.proposal, self.round, quorums));
        }
        self.decide_at.get_or_insert(now + self.patience.settle);
        None
    }

    /// The oracle has answered, or the set of absent servers has changed since the last vote.
    pub fn reconsider(
        &mut self,
        now: Duration,
        quorums: &Quorums,
        absent: &BTreeSet<ServerId>,
    ) -> Option<Decision> {
        if self.received.is_empty() { None } else { self.consider(now, quorums, absent) }
    }

    fn matches_proposal(&self, ballot: &Ballot) -> bool {
        ballot.vote == self.proposal && ballot.round == self.round
    }

    /// Handles a ballot of a server that has a leader.
    fn has_leader(
        &mut self,
        from: ServerId,
        ballot: Ballot,
        quorums: &Quorums,
    ) -> Option<Decision> {
        let leader = ballot.vote.leader;
        if self.avoids(leader) {
            return None;
        }
        if ballot.round == self.round {
            self.received.insert(from, ballot);
            let same = |other: &Ballot| match other.state {
                State::Looking => other.vote == ballot.vote && other.round == ballot.round,
                _ => other.vote.leader == leader,
            };
            let have_quorum = |agree: &_| quorums.all_have_quorum(agree);
            // The leader was elected with this server's vote, though by voters that only it can
            // hear.
            let by_my_vote = ballot.state == State::Leading
                && from == leader
                && self.proposal.leader == leader
                && !faults::elected_by_those_it_hears_itself();
            if by_my_vote || self.backed(&self.received, leader, ballot.round, same, have_quorum) {
                return Some(self.decide(ballot.vote, self.round, quorums));
            }
        }
        if ballot.state == State::Leading && from == leader && quorums.oracle() == Some(false) {
            // It leads alone: the oracle allows that server to, and not this one.
            self.join(ballot.round);
            return Some(self.decide(ballot.vote, ballot.round, quorums));
        }
        self.settled.insert(from, ballot);
        let same = |other: &Ballot| {
            other.vote.leader == leader
                && (other.versioned != ballot.versioned || other.vote.epoch == ballot.vote.epoch)
        };
        // The server leads, whatever this server considers proposed. The original also requires a
        // quorum of the proposed configuration, and stays out without one.
        let have_quorum = |agree: &_| {
            quorums.committed().is_quorum(agree) || self.leads_by_its_list(leader, agree, quorums)
        };
        if self.backed(&self.settled, leader, ballot.round, same, have_quorum) {
            self.join(ballot.round);
            return Some(self.decide(ballot.vote, ballot.round, quorums));
        }
        None
    }

    /// Whether these servers are a quorum in the leader's own configuration, where configurations
    /// of one version differ because an operator adds servers by editing files one by one. The
    /// leader needs no more than that to lead. The original requires a quorum of its own
    /// configuration, and stays out until the leader has that too.
    fn leads_by_its_list(
        &self,
        leader: ServerId,
        servers: &BTreeSet<ServerId>,
        quorums: &Quorums,
    ) -> bool {
        let own = quorums.committed();
        !faults::leader_of_a_shorter_list_refused()
            && !self.credulous
            && self
                .lists
                .get(&leader)
                .is_some_and(|list| list.version() == own.version() && list.is_quorum(servers))
    }

    /// Whether a quorum says the same, and the leader itself confirms that it leads.
    fn backed(
        &self,
        ballots: &BTreeMap<ServerId, Ballot>,
        leader: ServerId,
        round: i64,
        same: impl Fn(&Ballot) -> bool,
        have_quorum: impl Fn(&BTreeSet<ServerId>) -> bool,
    ) -> bool {
        let agree: BTreeSet<ServerId> =
            ballots.iter().filter(|(_, ballot)| same(ballot)).map(|(sid, _)| *sid).collect();
        let leads = if leader == self.me {
            // The voters may have elected this server before it lost its database.
            let lost = self.initial.zxid == NO_ZXID && !faults::empty_server_leads();
            self.round == round && !lost
        } else {
            ballots.get(&leader).is_some_and(|ballot| ballot.state == State::Leading)
        };
        leads && have_quorum(&agree)
    }

    /// Whether a vote is preferred to another. A server of weight 0 is never elected.
    ///
    /// With equal histories, voters are preferred to servers that are about to become voters: not
    /// all servers know those.
    fn better(&self, new: &Vote, current: &Vote, quorums: &Quorums) -> bool {
        let rank = |vote: &Vote| {
            let has_vote = self.credulous || quorums.committed().is_voter(vote.leader);
            (vote.history(), has_vote, vote.leader)
        };
        quorums.weight(new.leader) != 0 && !self.avoids(new.leader) && rank(new) > rank(current)
    }

    fn decide(&mut self, vote: Vote, round: i64, quorums: &Quorums) -> Decision {
        assert_eq!(self.state, State::Looking, "whoever has a leader decides nothing");
        self.state = if vote.leader == self.me {
            State::Leading
        } else if quorums.is_observer(self.me) {
            State::Observing
        } else {
            State::Following
        };
        self.current = (vote, round);
        self.decide_at = None;
        self.stand_at = None;
        self.resend_at = Duration::MAX;
        assert_ne!(self.state, State::Looking, "a decision ends the election");
        Decision { state: self.state, vote }
    }
}

#[cfg(test)]
mod tests;

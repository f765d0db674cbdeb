//! Fast leader election: how one server comes to know who leads.
//!
//! Every voter proposes the best history it has heard of; a quorum that proposes the same server
//! elects it. Servers that already follow answer with their leader, so that a latecomer finds it.
//! Messages may be lost, stale, repeated and reordered. Source: `quorum-election.md` part II,
//! `FastLeaderElection`.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use zebu_proto::quorum::NO_ZXID;
use zebu_proto::{ServerId, Zxid};

use crate::config::Membership;
use crate::quorums::Quorums;

/// What a server is doing, as its notifications say.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// Asking who leads.
    Looking,
    /// Following a leader, with a vote.
    Following,
    /// Leading.
    Leading,
    /// Following a leader, without a vote.
    Observing,
}

/// A candidate and how good its history is. Ordered by epoch, then zxid, then server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Vote {
    /// Who should lead.
    pub leader: ServerId,
    /// Its newest zxid.
    pub zxid: Zxid,
    /// The epoch of the last leader whose history it adopted.
    pub epoch: i64,
}

impl Vote {
    /// The vote of a server that may not be elected and only asks.
    pub const NONE: Self =
        Self { leader: ServerId(i64::MIN), zxid: Zxid(i64::MIN), epoch: i64::MIN };

    /// How good the history is that the vote is for.
    fn history(&self) -> (i64, Zxid) {
        let epoch = if zebu_proto::mutant!("vote without epoch") { 0 } else { self.epoch };
        let zxid = if zebu_proto::mutant!("vote without zxid") { Zxid::ZERO } else { self.zxid };
        (epoch, zxid)
    }
}

/// A vote as it travels.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ballot {
    /// The vote.
    pub vote: Vote,
    /// The election round it was cast in.
    pub round: i64,
    /// What its sender is doing.
    pub state: State,
    /// Whether its sender compares epochs of those who already follow (notification version).
    pub versioned: bool,
}

/// How an election ended for this server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Decision {
    /// What it is to do now; never [`State::Looking`].
    pub state: State,
    /// The elected server's vote.
    pub vote: Vote,
}

/// Whom to tell something.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tell {
    /// Every voter, this server included unless it is none.
    Voters,
    /// One server.
    One(ServerId),
}

/// A notification to send.
pub type Post = (Tell, Ballot);

/// How long things take.
#[derive(Clone, Copy, Debug)]
pub struct Patience {
    /// Wait for a better vote once a quorum agrees, unless nobody is left who could send one.
    pub settle: Duration,
    /// First silence after which votes are sent again; doubles each time.
    pub resend_min: Duration,
    /// Where the doubling ends.
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
    /// What this server answers while it is not looking, and the round that came from.
    current: (Vote, i64),
    received: BTreeMap<ServerId, Ballot>,
    /// Those who already have a leader, of any round.
    settled: BTreeMap<ServerId, Ballot>,
    /// The members as voters have them who have said so.
    lists: BTreeMap<ServerId, Arc<Membership>>,
    /// The last round that each of the others was heard to vote in, while this server may not.
    witnessed: BTreeMap<ServerId, i64>,
    resend_at: Duration,
    resend_after: Duration,
    decide_at: Option<Duration>,
    avoided: Avoided,
    /// The vote for this server itself, if it is only to get a vote, and when it casts it.
    late: Option<Vote>,
    stand_at: Option<Duration>,
    /// Whether votes are compared as the original does; see [`crate::Options::credulous`].
    credulous: bool,
}

/// Who is not voted for, nor followed, and until when.
pub type Avoided = BTreeMap<ServerId, Duration>;

impl Election {
    /// A server that has not voted yet.
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

    /// What this server is doing.
    pub fn state(&self) -> State {
        self.state
    }

    /// The round of the election.
    pub fn round(&self) -> i64 {
        self.round
    }

    /// Starts a new round with this server's own vote, or [`Vote::NONE`].
    ///
    /// A server that is only to get a vote says with `late` that it stands if nobody with a vote is as good. The original
    /// does not let it stand at all; but it may be the only one whose history is good enough to complete what
    /// gives it the vote.
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

    /// From the next round on these servers are neither voted for nor followed, for so long: they may have
    /// the best history, and yet be out of most servers' reach.
    pub fn avoid(&mut self, avoided: Avoided) {
        self.avoided = avoided;
    }

    /// Who is avoided.
    pub fn avoided(&self) -> &Avoided {
        &self.avoided
    }

    /// Nobody else can be elected any more: the next tick, which is due, ends that they are avoided.
    pub fn avoid_no_longer(&mut self, now: Duration) {
        for until in self.avoided.values_mut() {
            *until = now.min(*until);
        }
    }

    fn avoids(&self, server: ServerId) -> bool {
        self.avoided.contains_key(&server)
    }

    /// The role is over, and the next round cannot start yet.
    pub fn wait(&mut self) {
        self.state = State::Looking;
        self.resend_at = Duration::MAX;
        self.decide_at = None;
        self.stand_at = None;
        self.avoided.clear();
    }

    /// The epoch of the leader is now known: answers name it from here on.
    pub fn established(&mut self, epoch: i64) {
        self.current.0.epoch = epoch;
    }

    /// Goes over to a leader without an election, as a reconfiguration may ask for.
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

    /// What a server that has been elected says to those who have voted for it: some of them may not
    /// reach enough of the others to know.
    pub fn result(&self) -> Ballot {
        let (vote, round) = self.current;
        self.ballot(vote, round)
    }

    /// A server's notification names the members as that server has them, or nothing that is news.
    pub fn lists(&mut self, from: ServerId, list: Option<Arc<Membership>>, quorums: &Quorums) {
        match list.filter(|_| quorums.is_voter(from)) {
            Some(list) => self.lists.insert(from, list),
            None => self.lists.remove(&from),
        };
    }

    /// Forgets the rounds, as after a change of the members.
    pub fn restart(&mut self) {
        self.join(0);
    }

    /// Counts with this round from now on. The ballots of another round say nothing about it.
    fn join(&mut self, round: i64) {
        if round != self.round {
            self.received.clear();
        }
        self.round = round;
    }

    /// The round after this one. The last round that there is has none: it goes on, so that a server that claims to be
    /// in it ends no election.
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
            // Those who follow them answer once more.
            self.resend_at = now;
        }
        if self.stand_at.is_some_and(|at| at <= now) {
            self.stand_at = None;
            // Nobody is as good, or this server would vote for it.
            if let Some(own) = self.late.filter(|_| self.proposal == self.initial) {
                self.proposal = own;
                self.announce(out);
            }
        }
        if self.resend_at <= now {
            let is_stuck = self.resend_after > self.patience.resend_min * 2;
            if is_stuck && self.is_outranked(quorums) {
                // Who is to get a vote stands again only if nobody with one does.
                self.enter(now, self.next_round(), self.initial, out);
            } else {
                self.announce(out);
            }
            self.resend_after = (self.resend_after * 2).min(self.patience.resend_max);
            self.resend_at = now + self.resend_after;
        }
        None
    }

    /// Whether somebody votes, in this round, for a server that is only to get a vote, and will not vote as this
    /// server does: the histories are equally good, and the original, which does not know the difference, prefers the
    /// higher id. In a later round it hears of the others first.
    fn is_outranked(&self, quorums: &Quorums) -> bool {
        let members = quorums.committed();
        let own = &self.proposal;
        !self.credulous
            && !zebu_proto::mutant!("stands without a vote")
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

    /// A notification came. `absent` says whom nothing can come from at the moment.
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
            // Whoever has no vote asks who leads. While that is not known there is no answer: it
            // might be answered in turn, and so on for ever.
            let is_known =
                self.state != State::Looking || zebu_proto::mutant!("looks answer looks");
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
            // Only a voter's round is of interest.
            if quorums.is_voter(self.me) || zebu_proto::mutant!("looks answer looks") {
                out.push((Tell::One(from), self.ballot(self.proposal, self.round)));
            }
            return None;
        }
        if !quorums.is_voter(ballot.vote.leader) {
            // Its sender does not know yet that it has a vote. The others' rounds must come to it, or
            // its own to them, before it can give it.
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
        // Who has no database yet neither votes nor hears votes.
        let nothing = self.initial.zxid == NO_ZXID || ballot.vote.zxid == NO_ZXID;
        if nothing && !zebu_proto::mutant!("empty server counted") {
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

    /// Others elect a leader, and this server, which takes no part, has to ask them for it: soon, since that one
    /// may not last. Each round of each of them counts once, and who takes no part either does not count: nothing
    /// that is asked or answered may lead to more questions. A server that starts again counts rounds anew.
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

    /// Who votes as this server does, in its round.
    pub fn supporters(&self) -> BTreeSet<ServerId> {
        let agrees = self.received.iter().filter(|(_, ballot)| self.matches_proposal(ballot));
        agrees.map(|(server, _)| *server).collect()
    }

    /// Goes on in a later round.
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

    /// Decides now or later if a quorum votes for the proposal.
    fn consider(
        &mut self,
        now: Duration,
        quorums: &Quorums,
        absent: &BTreeSet<ServerId>,
    ) -> Option<Decision> {
        let agree = self.supporters();
        // Whoever leads needs a quorum of what is proposed as well. To follow it takes none: the
        // original stays out, even where what it takes for proposed is long forgotten.
        let decided = if self.proposal.leader == self.me {
            quorums.all_have_quorum(&agree)
        } else {
            quorums.committed().is_quorum(&agree)
        };
        if !decided {
            // The other one of two may still be heard of, and have the better history.
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

    /// The oracle has spoken, or others are absent than when the last vote came.
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

    /// Somebody has a leader already.
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
            // It has been elected with this server's vote, though by some whom only it can hear.
            let by_my_vote = ballot.state == State::Leading
                && from == leader
                && self.proposal.leader == leader
                && !zebu_proto::mutant!("elected by those it hears itself");
            if by_my_vote || self.backed(&self.received, leader, ballot.round, same, have_quorum) {
                return Some(self.decide(ballot.vote, self.round, quorums));
            }
        }
        if ballot.state == State::Leading && from == leader && quorums.oracle() == Some(false) {
            // It leads alone, since the oracle allows it and not this server.
            self.join(ballot.round);
            return Some(self.decide(ballot.vote, ballot.round, quorums));
        }
        self.settled.insert(from, ballot);
        let same = |other: &Ballot| {
            other.vote.leader == leader
                && (other.versioned != ballot.versioned || other.vote.epoch == ballot.vote.epoch)
        };
        // It leads, whatever this server believes to be proposed; the original asks for a quorum of
        // that too, and stays out when there is none.
        let have_quorum = |agree: &_| {
            quorums.committed().is_quorum(agree) || self.leads_by_its_list(leader, agree, quorums)
        };
        if self.backed(&self.settled, leader, ballot.round, same, have_quorum) {
            self.join(ballot.round);
            return Some(self.decide(ballot.vote, ballot.round, quorums));
        }
        None
    }

    /// Whether these are a quorum by the leader's own list, where lists of one version differ: an operator adds servers
    /// by editing files, one by one. The leader needs no more than that to lead; the original asks for a quorum of the
    /// own list, and stays out until the leader has that, too.
    fn leads_by_its_list(
        &self,
        leader: ServerId,
        servers: &BTreeSet<ServerId>,
        quorums: &Quorums,
    ) -> bool {
        let own = quorums.committed();
        !zebu_proto::mutant!("leader of a shorter list refused")
            && !self.credulous
            && self
                .lists
                .get(&leader)
                .is_some_and(|list| list.version() == own.version() && list.is_quorum(servers))
    }

    /// Whether a quorum says the same, and the leader itself says that it leads.
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
            // They may have elected it when it had what it has lost since.
            let lost = self.initial.zxid == NO_ZXID && !zebu_proto::mutant!("empty server leads");
            self.round == round && !lost
        } else {
            ballots.get(&leader).is_some_and(|ballot| ballot.state == State::Leading)
        };
        leads && have_quorum(&agree)
    }

    /// Whether a vote is to be preferred to another. A server without weight is never elected.
    ///
    /// Of equally good servers one that is only to get a vote comes after those who have one: not everybody knows of it.
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

//! What an election decides, message by message.

use std::sync::Arc;

use super::*;
use crate::config::{Membership, Rules};

const ME: [ServerId; 4] = [ServerId(0), ServerId(1), ServerId(2), ServerId(3)];
const AFTER: Duration = Duration::from_millis(200);

fn quorums() -> Quorums {
    let text = "server.1=a:1:2:participant\nserver.2=b:1:2:participant\n\
                server.3=c:1:2:participant\nserver.4=d:1:2:observer\nversion=0";
    Quorums::new(Arc::new(Membership::parse(text.as_bytes(), Rules::default()).unwrap()))
}

fn vote(leader: i64, zxid: i64, epoch: i64) -> Vote {
    Vote { leader: ServerId(leader), zxid: Zxid(zxid), epoch }
}

/// A server in the middle of an election, fed with what others say.
struct Voter {
    election: Election,
    quorums: Quorums,
    absent: BTreeSet<ServerId>,
    now: Duration,
    sent: Vec<Post>,
}

impl Voter {
    fn new(me: usize, own: Vote) -> Self {
        let mut election = Election::new(ME[me], Patience::default(), false);
        let mut sent = Vec::new();
        election.look(Duration::ZERO, own, None, &mut sent);
        let quorums = quorums();
        let mut voter =
            Self { election, quorums, absent: BTreeSet::new(), now: Duration::ZERO, sent };
        voter.echo();
        voter
    }

    /// Its own notifications come back to it.
    fn echo(&mut self) -> Option<Decision> {
        let mut decided = None;
        for (tell, ballot) in self.sent.clone() {
            if tell == Tell::Voters && decided.is_none() {
                decided = self.hear_quietly(self.election.me, ballot);
            }
        }
        decided
    }

    fn hear_quietly(&mut self, from: ServerId, ballot: Ballot) -> Option<Decision> {
        let Self { election, quorums, absent, now, sent } = self;
        sent.clear();
        let decision = election.receive(*now, from, ballot, quorums, absent, sent);
        election.check();
        decision
    }

    fn hear(&mut self, from: usize, state: State, vote: Vote, round: i64) -> Option<Decision> {
        let ballot = Ballot { vote, round, state, versioned: true };
        self.hear_quietly(ME[from], ballot).or_else(|| self.echo())
    }

    fn wait(&mut self) -> Option<Decision> {
        self.now += AFTER;
        self.sent.clear();
        self.election.tick(self.now, &self.quorums, &mut self.sent)
    }
}

fn follows(leader: i64, decision: Option<Decision>) {
    let decision = decision.expect("a decision");
    assert_eq!(decision.state, State::Following);
    assert_eq!(decision.vote.leader, ServerId(leader));
}

/// ZAB-10.
#[test]
fn equal_histories_elect_the_larger_server() {
    let mut voter = Voter::new(1, vote(1, 0x1_0000_0002, 1));
    let heard = voter.hear(2, State::Looking, vote(2, 0x1_0000_0002, 1), 1);
    assert_eq!(heard, None, "somebody better may still come");
    follows(2, voter.wait());
}

/// ZAB-10.
#[test]
fn epoch_goes_before_zxid_and_zxid_before_server() {
    for (own, other) in [
        (vote(3, 0x1_0000_0001, 1), vote(1, 0x1_0000_0005, 1)),
        (vote(3, 0x1_0000_0009, 1), vote(1, 0x2_0000_0000, 2)),
        (vote(3, 0x2_0000_0000, 1), vote(1, 0x1_0000_0009, 2)),
    ] {
        let mut voter = Voter::new(3, own);
        assert_eq!(voter.hear(1, State::Looking, other, 1), None);
        follows(1, voter.wait());
    }
}

/// ZAB-12, PAI-55.
#[test]
fn nobody_waits_for_those_who_cannot_come() {
    let mut voter = Voter::new(1, vote(1, 7, 1));
    voter.absent.insert(ME[3]);
    follows(2, voter.hear(2, State::Looking, vote(2, 7, 1), 1));
    let mut voter = Voter::new(1, vote(1, 7, 1));
    assert_eq!(voter.hear(2, State::Looking, vote(3, 7, 1), 1), None);
    follows(3, voter.hear(3, State::Looking, vote(3, 7, 1), 1));
}

#[test]
fn a_late_better_vote_changes_the_outcome() {
    let mut voter = Voter::new(1, vote(1, 7, 1));
    voter.hear(2, State::Looking, vote(2, 7, 1), 1);
    assert_eq!(voter.hear(3, State::Looking, vote(3, 8, 1), 1), None);
    follows(3, voter.wait());
}

#[test]
fn an_older_round_is_answered_and_a_newer_one_adopted() {
    let mut voter = Voter::new(1, vote(1, 7, 1));
    let mut out = Vec::new();
    for _ in 0..3 {
        voter.election.look(Duration::ZERO, vote(1, 7, 1), None, &mut out);
    }
    assert_eq!(voter.hear(2, State::Looking, vote(2, 9, 1), 3), None);
    let [(Tell::One(to), answer)] = voter.sent[..] else { panic!("{:?}", voter.sent) };
    assert_eq!((to, answer.round, answer.vote), (ME[2], 4, vote(1, 7, 1)));

    // The proposal starts again from the server's own history, not from what it had heard.
    let mut voter = Voter::new(1, vote(1, 7, 1));
    voter.hear(3, State::Looking, vote(3, 9, 1), 1);
    voter.hear(2, State::Looking, vote(2, 5, 1), 5);
    assert_eq!((voter.election.round(), voter.election.proposal), (5, vote(1, 7, 1)));
}

#[test]
fn a_latecomer_finds_the_leader() {
    let mut voter = Voter::new(3, vote(3, 0, 0));
    assert_eq!(voter.hear(1, State::Following, vote(2, 9, 4), 7), None);
    follows(2, voter.hear(2, State::Leading, vote(2, 9, 4), 7));
    assert_eq!(voter.election.round(), 7);

    let mut voter = Voter::new(3, vote(3, 0, 0));
    voter.hear(1, State::Following, vote(2, 9, 4), 7);
    assert_eq!(voter.hear(2, State::Leading, vote(2, 9, 5), 7), None, "their epochs differ");
    follows(2, voter.hear(1, State::Following, vote(2, 9, 5), 7));
}

/// Four servers by its own list, three by the leader's: two of them are enough for that one to
/// lead.
#[test]
fn a_leader_of_a_shorter_list_is_followed() {
    let list = |text: &str| Arc::new(Membership::parse(text.as_bytes(), Rules::default()).unwrap());
    let three = "server.1=a:1:2\nserver.2=b:1:2\nserver.3=c:1:2\n";
    let four = format!("{three}server.4=d:1:2\n");
    let hear = |leaders: &str| {
        let mut voter = Voter::new(2, vote(2, 9, 1));
        voter.quorums = Quorums::new(list(&format!("{four}version=0")));
        let leaders = list(leaders);
        voter.election.lists(ME[3], Some(leaders), &voter.quorums);
        assert_eq!(voter.hear(3, State::Leading, vote(3, 9, 2), 7), None, "alone");
        voter.hear(1, State::Following, vote(3, 9, 2), 7)
    };
    follows(3, hear(&format!("{three}version=0")));
    assert_eq!(hear(&format!("{four}version=0")), None, "two of four");
    assert_eq!(
        hear(&format!("{three}version=1")),
        None,
        "of a change: what is in force is learned first"
    );
}

#[test]
fn nobody_leads_because_others_say_so() {
    let mut voter = Voter::new(3, vote(3, 0, 0));
    assert_eq!(voter.hear(1, State::Following, vote(3, 9, 4), 7), None);
    assert_eq!(voter.hear(2, State::Following, vote(3, 9, 4), 7), None);
    assert_eq!(voter.wait(), None);
}

#[test]
fn who_has_no_vote_is_answered_only_when_it_asks() {
    let mut voter = Voter::new(1, vote(1, 7, 1));
    voter.hear(2, State::Looking, vote(2, 7, 1), 1);
    follows(2, voter.wait());
    let stranger = ServerId(9);
    let ballot = |state| Ballot { vote: Vote::NONE, round: 3, state, versioned: true };
    for (state, answers) in [(State::Looking, 1), (State::Following, 0), (State::Observing, 0)] {
        assert_eq!(voter.hear_quietly(stranger, ballot(state)), None);
        assert_eq!(voter.sent.len(), answers, "{state:?}");
    }
}

#[test]
fn an_observer_learns_from_votes_and_from_followers() {
    let quorums = quorums();
    let mut election = Election::new(ServerId(4), Patience::default(), false);
    let mut out = Vec::new();
    election.look(Duration::ZERO, Vote::NONE, None, &mut out);
    let absent = BTreeSet::new();
    let ballot = |state| Ballot { vote: vote(3, 9, 1), round: 1, state, versioned: true };
    let now = Duration::ZERO;
    let first = election.receive(now, ME[1], ballot(State::Following), &quorums, &absent, &mut out);
    assert_eq!(first, None);
    let decision =
        election.receive(now, ME[3], ballot(State::Leading), &quorums, &absent, &mut out);
    assert_eq!(decision.map(|d| d.state), Some(State::Observing));
}

#[test]
fn a_server_without_a_database_takes_no_part() {
    let mut voter = Voter::new(1, vote(1, -1, 0));
    voter.hear(2, State::Looking, vote(2, 7, 1), 1);
    voter.hear(3, State::Looking, vote(2, 7, 1), 1);
    assert_eq!(voter.wait(), None);
    voter.hear(3, State::Following, vote(2, 7, 2), 1);
    follows(2, voter.hear(2, State::Leading, vote(2, 7, 2), 1));

    let mut voter = Voter::new(3, vote(3, 0, 0));
    voter.hear(1, State::Looking, vote(1, -1, 0), 1);
    assert_eq!(voter.wait(), None, "two empty servers are no quorum");
}

#[test]
fn votes_are_sent_again_more_and_more_rarely() {
    let mut voter = Voter::new(1, vote(1, 7, 1));
    let mut sent_at = Vec::new();
    for _ in 0..40 {
        voter.wait();
        if !voter.sent.is_empty() {
            sent_at.push(voter.now.as_millis() / 200);
        }
    }
    assert_eq!(sent_at, [1, 3, 7, 15, 31]);
}

/// Nothing a voter claims may end the counting of rounds.
#[test]
fn the_last_round_that_there_is_goes_on() {
    let (own, best) = (vote(1, 0x1_0000_0002, 1), vote(3, 0x1_0000_0003, 1));
    let mut voter = Voter::new(1, own);
    assert_eq!(voter.hear(3, State::Looking, best, i64::MAX), None);
    voter.election.wait();
    voter.sent.clear();
    voter.election.look(voter.now, own, None, &mut voter.sent);
    assert_eq!(voter.election.round(), i64::MAX);
    assert_eq!(voter.echo(), None);
    assert_eq!(voter.hear(3, State::Looking, best, i64::MAX), None);
    follows(3, voter.wait());
}

//! What a server brings along when its part changes.

use zebu_proto::quorum::NO_ZXID;

use super::*;
use crate::config::Rules;
use crate::election::{Ballot, Vote};
use crate::mesh::{self, REDIAL_AFTER, WireId};

fn members(first: &str, version: u64) -> Arc<Membership> {
    let text = format!(
        "server.1=a:1:2:{first}\nserver.2=b:1:2:participant\nserver.3=c:1:2:participant\nversion={version:x}"
    );
    Arc::new(Membership::parse(text.as_bytes(), Rules::default()).unwrap())
}

/// The zxid it votes with, as soon as somebody is there to hear it.
fn vote(peer: &mut Peer) -> Zxid {
    let mut out = Vec::new();
    let (wire, other) = (WireId(1), ServerId(2));
    peer.step(Duration::ZERO, Input::Mesh(mesh::Input::Accepted { wire, peer: other }), &mut out);
    peer.step(Duration::ZERO, Input::Tick, &mut out);
    let sent = out.iter().find_map(|output| match output {
        Output::Mesh(mesh::Output::Send(_, ballot)) => Some(ballot.vote.zxid),
        _ => None,
    });
    sent.expect("a vote")
}

fn start(committed: Arc<Membership>) -> Start {
    Start {
        epochs: Epochs { accepted: Epoch(0), current: Epoch(0) },
        committed,
        last_seen: None,
        last: Zxid(7),
        recent: Vec::new(),
        certain: Zxid::ZERO,
        assumed_new: false,
        has_database: true,
        identity: Identity::Unknown,
    }
}

#[test]
fn who_gets_a_vote_does_not_vote_with_what_it_has_not_logged() {
    for (on_disk, expected) in [(Zxid(7), Zxid(7)), (Zxid(3), Zxid(3)), (NO_ZXID, NO_ZXID)] {
        let mut options = Options::new(ServerId(1));
        options.observer.logs = false;
        let mut peer = Peer::new(options, start(members("observer", 0)));
        peer.unlogged = on_disk != Zxid(7);
        peer.quorums.commit(members("participant", 9));
        if peer.unlogged {
            let mut out = Vec::new();
            peer.step(Duration::ZERO, Input::Tick, &mut out);
            assert!(out.contains(&Output::Reload), "{out:?}");
            assert!(!matches!(peer.part, Part::Looking(_)));
            let end = Some(on_disk).filter(|it| *it != NO_ZXID);
            peer.step(Duration::ZERO, Input::Reloaded { end }, &mut out);
        }
        assert_eq!(vote(&mut peer), expected);
    }
}

#[test]
fn a_server_that_stops_while_it_looks_for_a_leader_waits_for_nothing() {
    let mut peer = Peer::new(Options::new(ServerId(1)), start(members("participant", 0)));
    vote(&mut peer);
    assert!(peer.deadline() < Duration::MAX, "it repeats its vote");
    peer.retire(Duration::ZERO, &mut Vec::new());
    assert_eq!(peer.deadline(), Duration::MAX);
}

/// When it dials server 2 until `end`. Server 1 is there, though it says nothing, and server 2 is
/// if `there`.
fn dials(peer: &mut Peer, from: Duration, end: Duration, there: bool) -> Vec<Duration> {
    let (mut now, mut dials) = (from, Vec::new());
    while now < end {
        let mut inputs = vec![Input::Tick];
        while let Some(input) = inputs.pop() {
            let mut out = Vec::new();
            peer.step(now, input, &mut out);
            for output in out {
                let Output::Mesh(mesh::Output::Dial(other)) = output else { continue };
                if other == ServerId(2) {
                    dials.push(now);
                }
                let wire = WireId(other.0 as u64);
                inputs.push(Input::Mesh(match other {
                    ServerId(2) if !there => mesh::Input::Refused(other),
                    _ => mesh::Input::Dialled { wire, peer: other },
                }));
            }
        }
        let due = peer.deadline();
        assert!(due > now, "what was due at {now:?} is done");
        now = due;
    }
    dials
}

#[test]
fn who_does_not_vote_is_named_until_it_votes_or_has_a_leader() {
    let mut peer = Peer::new(Options::new(ServerId(1)), start(members("participant", 0)));
    vote(&mut peer);
    let mut says = |from: i64, zxid: Zxid, state: State| {
        let vote = Vote { leader: ServerId(from), zxid, epoch: 0 };
        let ballot = Ballot { vote, round: 1, state, versioned: true };
        peer.hear(Duration::ZERO, ServerId(from), ballot, &mut Vec::new()).unwrap();
        peer.lacks().expect("it looks for a leader").abstaining
    };
    assert_eq!(says(2, NO_ZXID, State::Looking), [ServerId(2)]);
    assert_eq!(says(3, NO_ZXID, State::Looking), [ServerId(2), ServerId(3)]);
    assert_eq!(says(9, NO_ZXID, State::Looking), [ServerId(2), ServerId(3)]);
    assert_eq!(says(3, Zxid(1), State::Looking), [ServerId(2)]);
    assert!(says(2, Zxid(7), State::Following).is_empty());
}

#[test]
fn who_cannot_be_reached_is_dialled_every_few_seconds_while_there_is_no_leader() {
    let seconds = Duration::from_secs;
    let mut peer = Peer::new(Options::new(ServerId(3)), start(members("participant", 0)));
    let lost = dials(&mut peer, Duration::ZERO, seconds(300), false);
    // Votes alone would be a minute apart by then.
    assert!(lost.windows(2).all(|pair| pair[1] - pair[0] <= REDIAL_AFTER), "{lost:?}");
    assert!(lost.len() < 80, "{lost:?}");
    let found = dials(&mut peer, seconds(300), seconds(600), true);
    assert_eq!(found.len(), 1, "{found:?}");
}

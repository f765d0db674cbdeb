//! What a server brings along when its part changes.

use super::*;
use crate::config::Rules;
use crate::mesh::{self, WireId};

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

#[test]
fn who_gets_a_vote_does_not_vote_with_what_it_has_not_logged() {
    for (unlogged, expected) in [(false, Zxid(7)), (true, NO_ZXID)] {
        let epochs = Epochs { accepted: Epoch(0), current: Epoch(0) };
        let start = Start {
            epochs,
            committed: members("observer", 0),
            last_seen: None,
            last: Zxid(7),
            recent: Vec::new(),
            has_database: true,
        };
        let mut peer = Peer::new(Options::new(ServerId(1)), start);
        peer.unlogged = unlogged;
        peer.quorums.commit(members("participant", 9));
        assert_eq!(vote(&mut peer), expected);
    }
}

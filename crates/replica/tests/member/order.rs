//! Answers of a leader go to the client that sent the request.

use std::time::Duration;

use zebu_proto::quorum::PacketKind;
use zebu_proto::{ErrorCode, OpCode};
use zebu_replica::MemberOptions;
use zebu_zab::Role;

use crate::world::{ClientId, PERSISTENT, Said, World, create, err, ok, path_only};

#[test]
fn a_client_that_counts_anew_elsewhere_harms_nobody_there() {
    let mut world = World::led(3, &MemberOptions::default());
    let [here, there] = world.followers();
    let (old, session) = world.open(here);
    let (other, _) = world.open(there);
    let new = world.renew(there, session);
    assert_eq!(world.heard(new).len(), 1);
    // The session's request at this server has the same number as its request at the other server,
    // and comes after a request of another client.
    world.post(old, 1, OpCode::CREATE, create("/a", PERSISTENT));
    world.post(other, 1, OpCode::CREATE, create("/b", PERSISTENT));
    world.post(new, 1, OpCode::CREATE, create("/c", PERSISTENT));
    world.settle();
    assert!(matches!(world.role(there), Role::Following(_)));
    assert_eq!(world.heard(other), ok(1));
    assert_eq!(world.heard(new), ok(1));
    assert_eq!(world.create(new, 2, "/d", PERSISTENT), ok(2));
}

/// A follower that waits for a request which its leader never received, and another client of that
/// follower.
fn a_lost_request() -> (World, usize, usize, ClientId) {
    let mut world = World::led(3, &MemberOptions::default());
    let [here, _] = world.followers();
    let leader = world.leader();
    let (asker, _) = world.open(here);
    let (other, _) = world.open(here);
    world.lose(Some((here, leader, PacketKind::REQUEST)));
    world.send(asker, 1, OpCode::CREATE, create("/lost", PERSISTENT));
    world.lose(None);
    (world, here, leader, other)
}

#[test]
fn a_lost_request_leaves_no_hole_in_the_tree() {
    let (mut world, here, leader, other) = a_lost_request();
    // Requests of other clients are executed, and their answers wait for the answer to the lost
    // request.
    let mut count = 0;
    while world.heard(other).is_empty() {
        count += 1;
        assert!(count < 60, "a lost request is noticed");
        world.send(other, count, OpCode::CREATE, create(&format!("/{count}"), PERSISTENT));
        world.pass(Duration::from_millis(500));
    }
    world.wait_for(|world| matches!(world.role(here), Role::Following(_)));
    for server in [here, leader] {
        for number in 1..=count {
            let path = format!("/{number}");
            assert!(world.tree(server).node(&path).is_some(), "server {server} lacks {path}");
        }
    }
}

/// The transaction that shows a learner that a request is lost is also in its tree: the peer has
/// delivered it, and no leader sends it again.
#[test]
fn what_shows_that_a_request_is_lost_is_applied() {
    let (mut world, here, leader, other) = a_lost_request();
    world.send(other, 1, OpCode::CREATE, create("/overtakes", PERSISTENT));
    // The limit is syncLimit and a tick, twelve seconds. A transaction is committed behind its last
    // moment, and in front of the tick.
    for count in 0..23 {
        world.pass(Duration::from_millis(500));
        let path = format!("/{count}");
        world.send(other, 2 + count, OpCode::CREATE, create(&path, PERSISTENT));
    }
    world.pass(Duration::from_millis(450));
    assert!(world.heard(other).is_empty(), "the limit is not reached yet");
    let without = (0..3).filter(|server| *server != here).collect::<Vec<_>>();
    for server in &without {
        world.stop_disk(*server);
    }
    world.send(other, 25, OpCode::CREATE, create("/shows", PERSISTENT));
    assert!(world.heard(other).is_empty(), "no quorum has it on its disk");
    world.stand_still(Duration::from_millis(100));
    for server in without {
        world.start_disk(server);
    }
    assert!(!world.heard(other).is_empty(), "a lost request is noticed");
    world.wait_for(|world| matches!(world.role(here), Role::Following(_)));
    for server in [here, leader] {
        assert!(world.tree(server).node("/shows").is_some(), "server {server} has a hole");
    }
}

#[test]
fn a_way_that_stands_still_for_less_than_the_limit_loses_nothing() {
    let mut world = World::led(3, &MemberOptions::default());
    let [here, there] = world.followers();
    let leader = world.leader();
    let (old, session) = world.open(here);
    world.hold(here, leader);
    world.send(old, 1, OpCode::CREATE, create("/old1", PERSISTENT));
    world.send(old, 2, OpCode::CREATE, create("/old2", PERSISTENT));
    // The client moves to another server, where it numbers its requests anew.
    let new = world.renew(there, session);
    world.heard(new);
    assert_eq!(world.create(new, 2, "/new2", PERSISTENT), ok(2));
    world.pass(Duration::from_millis(9_500));
    assert_eq!(world.create(new, 3, "/new3", PERSISTENT), ok(3));
    assert_eq!(world.create(new, 4, "/new4", PERSISTENT), ok(4));
    world.release(here, leader);
    assert!(matches!(world.role(here), Role::Following(_)));
    assert!(world.tree(here).node("/new4").is_some());
    assert!(world.tree(here).node("/old1").is_none());
}

#[test]
fn what_was_ordered_before_a_request_is_not_taken_for_it() {
    let mut world = World::led(3, &MemberOptions::default());
    let [here, there] = world.followers();
    let (old, session) = world.open(here);
    // The session's request at the other server is committed, but not yet durable at the server
    // that it moves to.
    world.stop_disk(there);
    assert_eq!(world.create(old, 1, "/old", PERSISTENT), ok(1));
    let new = world.renew(there, session);
    assert_eq!(world.heard(new), [Said::Welcome(session)]);
    world.send(new, 1, OpCode::CREATE, create("/old", PERSISTENT));
    world.start_disk(there);
    assert_eq!(world.heard(new), err(1, ErrorCode::NODE_EXISTS));
}

#[test]
fn many_syncs_at_a_time_cost_one_round_of_pings() {
    let mut world = World::led(3, &MemberOptions::default());
    let leader = world.leader();
    let clients: Vec<ClientId> = (0..32).map(|_| world.open(leader).0).collect();
    let before = world.sent(PacketKind::PING);
    for client in &clients {
        for xid in 1..=32 {
            world.post(*client, xid, OpCode::SYNC, path_only("/"));
        }
    }
    world.settle();
    for client in clients {
        assert_eq!(world.heard(client).len(), 32);
    }
    // To each learner and back, in a few rounds.
    assert!(world.sent(PacketKind::PING) - before <= 12, "{}", world.sent(PacketKind::PING));
}

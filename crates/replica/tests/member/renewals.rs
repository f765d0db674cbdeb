//! Sessions that continue at another server, while packets of the previous server are still on
//! their way.

use zebu_proto::quorum::PacketKind;
use zebu_proto::{ErrorCode, OpCode, SessionId};
use zebu_replica::MemberOptions;

use crate::world::{PERSISTENT, Said, World, create, ok};

#[test]
fn an_old_connection_ends_when_its_session_is_to_be_renewed() {
    let mut world = World::led(3, &MemberOptions::default());
    let [here, there] = world.followers();
    let leader = world.leader();
    let (old, session) = world.open(here);
    world.hold(here, leader);
    // The client reconnects, gives up because no server answers, and moves to another server.
    let waiting = world.renew(here, session);
    let new = world.renew(there, session);
    assert_eq!(world.heard(new), [Said::Welcome(session)]);
    assert_eq!(world.create(new, 10, "/new", PERSISTENT), ok(10));
    // The bytes in the old connection's socket arrive now.
    world.send(old, 5, OpCode::CREATE, create("/old", PERSISTENT));
    world.release(here, leader);
    assert!(world.tree(leader).node("/old").is_none(), "an old write is behind a newer one");
    assert_eq!(world.heard(old), [Said::Closed]);
    assert_eq!(world.heard(waiting), [Said::Welcome(session)]);
}

#[test]
fn a_session_that_was_at_the_leader_last_is_not_its_old_servers() {
    let mut world = World::led(3, &MemberOptions::default());
    let [here, _] = world.followers();
    let leader = world.leader();
    let (old, session) = world.open(here);
    world.hold(here, leader);
    world.send(old, 5, OpCode::CREATE, create("/old", PERSISTENT));
    let new = world.renew(leader, session);
    assert_eq!(world.heard(new), [Said::Welcome(session)]);
    assert_eq!(world.create(new, 10, "/new", PERSISTENT), ok(10));
    world.drop_client(new);
    world.release(here, leader);
    assert!(world.tree(leader).node("/old").is_none(), "an old write is behind a newer one");
}

#[test]
fn a_client_is_not_told_that_its_session_has_moved() {
    let mut world = World::led(3, &MemberOptions::default());
    let [here, there] = world.followers();
    let (old, session) = world.open(here);
    world.renew(there, session);
    world.send(old, 1, OpCode::CREATE, create("/old", PERSISTENT));
    // The client returns, and has its session again.
    assert_eq!(world.heard(old), [Said::Closed]);
    let again = world.renew(here, session);
    assert_eq!(world.heard(again), [Said::Welcome(session)]);
    assert_eq!(world.create(again, 2, "/again", PERSISTENT), ok(2));
}

#[test]
fn a_client_that_asks_twice_has_the_second_connection() {
    let mut world = World::led(3, &MemberOptions::default());
    let [here, _] = world.followers();
    let leader = world.leader();
    let (_, session) = world.open(here);
    world.hold(here, leader);
    let first = world.renew(here, session);
    let second = world.renew(here, session);
    world.release(here, leader);
    assert_eq!(world.heard(first), [Said::Closed]);
    assert_eq!(world.heard(second), [Said::Welcome(session)]);
    assert_eq!(world.create(second, 1, "/a", PERSISTENT), ok(1));
}

#[test]
fn renewals_are_answered_in_the_order_of_the_questions() {
    let mut world = World::led(3, &MemberOptions::default());
    let [here, there] = world.followers();
    let leader = world.leader();
    let (_, session) = world.open(here);
    // No learner answers the leader's pings, so the leader cannot prove that a session is over.
    world.lose(Some((leader, here, PacketKind::PING)));
    world.hold(leader, there);
    let over = world.renew(here, SessionId(4711));
    let alive = world.renew(here, session);
    assert_eq!(world.heard(over), []);
    assert_eq!(world.heard(alive), [], "an answer has overtaken another one");
    world.lose(None);
    world.release(leader, there);
    assert_eq!(world.heard(over), [Said::Refused]);
    assert_eq!(world.heard(alive), [Said::Welcome(session)]);
}

#[test]
fn a_closing_session_writes_nothing_more() {
    let mut world = World::led(3, &MemberOptions::default());
    let leader = world.leader();
    let (conn, _) = world.open(leader);
    world.stop_disk(leader);
    world.post(conn, 1, OpCode::CLOSE_SESSION, Vec::new());
    world.post(conn, 2, OpCode::CREATE, create("/late", PERSISTENT));
    world.settle();
    world.start_disk(leader);
    assert!(world.tree(leader).node("/late").is_none());
    let heard = world.heard(conn);
    assert!(heard.starts_with(&[Said::Answer(zebu_proto::Xid(1), ErrorCode::OK)]), "{heard:?}");
}

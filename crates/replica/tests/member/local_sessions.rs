//! Sessions that only one server knows. Source: `client-protocol.md` §16,
//! `quorum-sync-broadcast.md` §7.4.

use std::time::Duration;

use zebu_jute::Encode as _;
use zebu_proto::request::MultiHeader;
use zebu_proto::{ErrorCode, OpCode, Xid, Zxid};
use zebu_replica::MemberOptions;
use zebu_zab::Role;

use crate::world::{EPHEMERAL, PERSISTENT, Said, World, create, delete, err, ok, path_only};

fn local(upgrade: bool) -> World {
    let member = MemberOptions {
        local_sessions: true,
        upgrade_local_sessions: upgrade,
        ..MemberOptions::default()
    };
    World::led(3, &member)
}

/// All members, the leader first.
fn all(world: &World) -> [usize; 3] {
    let [a, b] = world.followers();
    [world.leader(), a, b]
}

fn last(world: &World) -> Zxid {
    world.tree(world.leader()).last_zxid()
}

/// A multi of one create.
fn multi(path: &str, flags: i32) -> Vec<u8> {
    let header = |op, done| MultiHeader { op, done, err: -1 }.to_bytes();
    [header(OpCode::CREATE, false), create(path, flags), header(OpCode(-1), true)].concat()
}

#[test]
fn a_local_session_costs_no_transaction_and_nobody_else_knows_it() {
    let mut world = local(false);
    let before = last(&world);
    for server in all(&world) {
        let (conn, session) = world.open(server);
        assert_eq!(session.0 >> 56, server as i64 + 1);
        assert_eq!(world.replica(server).sessions().locals(), 1);
        for other in all(&world) {
            assert_eq!(world.tree(other).session_timeout(session), None);
            assert_eq!(world.replica(other).sessions().get(session).is_some(), other == server);
        }
        let closed = [Said::Answer(Xid(1), ErrorCode::OK), Said::Closed];
        assert_eq!(world.ask(conn, 1, OpCode::CLOSE_SESSION, vec![]), closed);
        assert_eq!(world.replica(server).sessions().len(), 0);
    }
    assert_eq!(last(&world), before);
}

#[test]
fn a_local_session_reads_and_writes_like_any_other() {
    let mut world = local(false);
    for (number, server) in all(&world).into_iter().enumerate() {
        let (conn, _) = world.open(server);
        let path = format!("/a{number}");
        assert_eq!(world.create(conn, 1, &path, PERSISTENT), ok(1));
        assert_eq!(world.ask(conn, 2, OpCode::SYNC, path_only("/")), ok(2));
        assert_eq!(world.ask(conn, 3, OpCode::DELETE, delete(&path)), ok(3));
        assert_eq!(world.ask(conn, 4, OpCode::MULTI, multi("/m", PERSISTENT)), ok(4));
        assert_eq!(world.ask(conn, 5, OpCode::DELETE, delete("/m")), ok(5));
    }
}

#[test]
fn without_an_upgrade_it_has_no_ephemerals() {
    let mut world = local(false);
    for server in all(&world) {
        let (conn, session) = world.open(server);
        // Sent after a write, so that the answers show their order.
        world.send(conn, 1, OpCode::CREATE, create("/a", PERSISTENT));
        world.send(conn, 2, OpCode::CREATE, create("/e", EPHEMERAL));
        world.send(conn, 3, OpCode::DELETE, delete("/a"));
        let said = world.heard(conn);
        let refused = err(2, ErrorCode::EPHEMERAL_ON_LOCAL_SESSION);
        assert_eq!(said, [ok(1), refused, ok(3)].concat(), "server {server}");
        // The other servers do not know the reason: a multi fails as at the leader.
        let code = match world.role(server) {
            Role::Leading(_) => ErrorCode::EPHEMERAL_ON_LOCAL_SESSION,
            _ => ErrorCode::SESSION_EXPIRED,
        };
        assert_eq!(world.ask(conn, 4, OpCode::MULTI, multi("/e", EPHEMERAL)), err(4, code));
        // The session continues unchanged.
        assert_eq!(world.create(conn, 5, "/b", PERSISTENT), ok(5));
        assert_eq!(world.ask(conn, 6, OpCode::DELETE, delete("/b")), ok(6));
        assert!(world.replica(server).sessions().get(session).is_some_and(|live| live.local));
    }
    assert!(world.tree(0).node("/e").is_none());
}

#[test]
fn an_ephemeral_makes_it_one_of_the_ensemble() {
    let mut world = local(true);
    for (number, server) in all(&world).into_iter().enumerate() {
        let path = format!("/e{number}");
        let body = [create(&path, EPHEMERAL), multi(&path, EPHEMERAL)];
        for (op, body) in [OpCode::CREATE, OpCode::MULTI].into_iter().zip(body) {
            let (conn, session) = world.open(server);
            let before = last(&world);
            world.send(conn, 1, OpCode::CREATE, create("/a", PERSISTENT));
            world.send(conn, 2, op, body);
            world.send(conn, 3, OpCode::DELETE, delete("/a"));
            assert_eq!(world.heard(conn), [ok(1), ok(2), ok(3)].concat());
            assert_eq!(last(&world).counter() - before.counter(), 4, "one for the session");
            for other in all(&world) {
                assert_eq!(world.tree(other).session_timeout(session), Some(10_000));
                assert_eq!(world.tree(other).ephemerals(session).collect::<Vec<_>>(), [&*path]);
            }
            assert_eq!(world.replica(server).sessions().locals(), 0);
            // From now on the session expires like a global one.
            let closed = [Said::Answer(Xid(4), ErrorCode::OK), Said::Closed];
            assert_eq!(world.ask(conn, 4, OpCode::CLOSE_SESSION, vec![]), closed);
            assert_eq!(world.tree(server).session_timeout(session), None);
            assert!(world.tree(server).node(&path).is_none());
        }
    }
}

#[test]
fn an_upgraded_session_may_move_and_expires_at_the_leader() {
    let mut world = local(true);
    let [leader, a, b] = all(&world);
    let (conn, session) = world.open(a);
    assert_eq!(world.create(conn, 1, "/e", EPHEMERAL), ok(1));
    let there = world.renew(b, session);
    assert_eq!(world.heard(there), [Said::Welcome(session)]);
    // A message of the client at that server reaches the leader.
    for _ in 0..10 {
        world.touch(there);
        world.pass(Duration::from_secs(3));
    }
    assert!(world.tree(leader).node("/e").is_some());
    world.pass(Duration::from_secs(20));
    assert!(world.tree(leader).node("/e").is_none());
    assert_eq!(world.heard(there), [Said::Closed]);
}

#[test]
fn it_expires_where_it_is_and_only_there() {
    let mut world = local(false);
    let before = last(&world);
    for server in all(&world) {
        let (silent, _) = world.open(server);
        let (heard_of, session) = world.open(server);
        for _ in 0..6 {
            world.pass(Duration::from_secs(3));
            world.touch(heard_of);
        }
        assert_eq!(world.heard(silent), [Said::Closed]);
        assert_eq!(world.heard(heard_of), []);
        // A client that returns in time continues its session on a new connection.
        world.drop_client(heard_of);
        world.pass(Duration::from_secs(5));
        let back = world.renew(server, session);
        assert_eq!(world.heard(back), [Said::Welcome(session)]);
        world.pass(Duration::from_secs(15));
        assert_eq!(world.heard(back), [Said::Closed]);
        let late = world.renew(server, session);
        assert_eq!(world.heard(late), [Said::Refused]);
    }
    assert_eq!(last(&world), before);
}

#[test]
fn it_does_not_move() {
    let mut world = local(true);
    for server in all(&world) {
        let (conn, session) = world.open(server);
        for other in all(&world).into_iter().filter(|other| *other != server) {
            let moved = world.renew(other, session);
            assert_eq!(world.heard(moved), [Said::Refused], "from {server} to {other}");
        }
        // No server has taken it away.
        assert_eq!(world.create(conn, 1, "/a", PERSISTENT), ok(1));
        assert_eq!(world.ask(conn, 2, OpCode::DELETE, delete("/a")), ok(2));
        let again = world.renew(server, session);
        assert_eq!(world.heard(again), [Said::Welcome(session)]);
        assert_eq!(world.heard(conn), [Said::Closed], "the other connection lost it");
    }
}

#[test]
fn it_ends_with_the_role_of_its_server() {
    let mut world = local(true);
    let [leader, a, _] = all(&world);
    let (conn, session) = world.open(a);
    world.isolate(leader);
    world.wait_for(|world| matches!(world.role(a), Role::Leading(_) | Role::Following(_)));
    assert_eq!(world.heard(conn), [Said::Closed]);
    let back = world.renew(a, session);
    assert_eq!(world.heard(back), [Said::Refused]);
}

#[test]
fn unless_configured_all_sessions_are_known_to_everybody() {
    let mut world = World::led(3, &MemberOptions::default());
    for server in all(&world) {
        let (conn, session) = world.open(server);
        assert_eq!(world.replica(server).sessions().locals(), 0);
        for other in all(&world) {
            assert_eq!(world.tree(other).session_timeout(session), Some(10_000));
        }
        assert_eq!(world.create(conn, 1, &format!("/e{server}"), EPHEMERAL), ok(1));
    }
}

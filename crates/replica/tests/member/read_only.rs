//! Servers without a leader, and clients that only read. Source: `client-protocol.md` §15,
//! `quorum-sync-broadcast.md` §11.

use std::time::Duration;

use zebu_proto::{ErrorCode, OpCode, SessionId, Xid, compatible_password};
use zebu_replica::MemberOptions;
use zebu_zab::Role;

use crate::world::{ClientId, EPHEMERAL, PERSISTENT, Said, World, create, delete, err, ok, read};

const PATIENCE: Duration = Duration::from_secs(2);

/// Three members that serve readers without a leader.
fn options(local_sessions: bool) -> MemberOptions {
    MemberOptions {
        local_sessions,
        upgrade_local_sessions: local_sessions,
        read_only_after: Some(PATIENCE),
        ..MemberOptions::default()
    }
}

/// Isolates a follower for longer than it waits for a leader. Returns that follower.
fn cut_off(world: &mut World) -> usize {
    let [server, _] = world.followers();
    world.isolate(server);
    world.wait_for(|world| world.role(server) == Role::Looking);
    world.pass(PATIENCE + Duration::from_millis(1));
    server
}

/// A client that accepts read-only servers.
fn reader(world: &mut World, server: usize) -> ClientId {
    world.connect_with(server, |hello| hello.read_only = true)
}

/// A reader that resumes a session.
fn reader_with(world: &mut World, server: usize, session: SessionId) -> Vec<Said> {
    let conn = world.connect_with(server, |hello| {
        hello.read_only = true;
        hello.session = session;
        hello.password = compatible_password(session).to_vec();
    });
    world.heard(conn)
}

#[test]
fn a_server_without_a_leader_waits_before_it_serves_readers() {
    let mut world = World::led(3, &options(true));
    let [server, _] = world.followers();
    world.isolate(server);
    world.wait_for(|world| world.role(server) == Role::Looking);
    world.pass(PATIENCE - Duration::from_millis(20));
    let early = reader(&mut world, server);
    assert_eq!(world.heard(early), [Said::Closed]);
    world.pass(Duration::from_millis(20));
    let reader = reader(&mut world, server);
    assert!(matches!(world.heard(reader)[..], [Said::Welcome(_)]));
    // The server refuses a client that does not accept read-only servers.
    let writer = world.connect(server);
    assert_eq!(world.heard(writer), [Said::Closed]);
}

#[test]
fn unless_configured_nobody_is_served_without_a_leader() {
    let member = MemberOptions { read_only_after: None, ..options(true) };
    let mut world = World::led(3, &member);
    let server = cut_off(&mut world);
    world.pass(Duration::from_secs(100));
    let reader = reader(&mut world, server);
    assert_eq!(world.heard(reader), [Said::Closed]);
}

#[test]
fn a_server_that_never_had_a_leader_serves_readers_too() {
    let mut world = World::new(3, &options(true));
    for server in 0..3 {
        world.isolate(server);
    }
    world.pass(PATIENCE + Duration::from_secs(1));
    let reader = reader(&mut world, 0);
    assert!(matches!(world.heard(reader)[..], [Said::Welcome(_)]));
}

#[test]
fn a_reader_reads_and_nothing_else() {
    let mut world = World::led(3, &options(true));
    let server = cut_off(&mut world);
    let before = world.tree(server).last_zxid();
    let conn = reader(&mut world, server);
    let Some(Said::Welcome(session)) = world.heard(conn).pop() else { panic!("no session") };
    assert_eq!(session.0 >> 56, server as i64 + 1);
    for (xid, op, body) in [
        (1, OpCode::CREATE, create("/a", PERSISTENT)),
        (2, OpCode::CREATE2, create("/a", EPHEMERAL)),
        (3, OpCode::DELETE, delete("/a")),
        (4, OpCode::SET_DATA, vec![]),
        (5, OpCode::SET_ACL, vec![]),
        (6, OpCode::MULTI, vec![]),
        (7, OpCode::SYNC, vec![]),
        (8, OpCode::RECONFIG, vec![]),
        (9, OpCode::CREATE_TTL, vec![]),
        (10, OpCode::CREATE_CONTAINER, create("/a", PERSISTENT)),
    ] {
        assert_eq!(world.ask(conn, xid, op, body), err(xid, ErrorCode::NOT_READ_ONLY), "{op}");
    }
    assert_eq!(world.ask(conn, 11, OpCode::GET_DATA, read("/")), ok(11));
    assert_eq!(world.replica(server).sessions().locals(), 1);
    let closed = [Said::Answer(Xid(12), ErrorCode::OK), Said::Closed];
    assert_eq!(world.ask(conn, 12, OpCode::CLOSE_SESSION, vec![]), closed);
    assert_eq!(world.replica(server).sessions().len(), 0);
    assert_eq!(world.tree(server).last_zxid(), before);
    assert_eq!(world.tree(server).session_timeout(session), None);
}

#[test]
fn without_local_sessions_there_is_no_session_to_be_had() {
    let mut world = World::led(3, &options(false));
    let server = cut_off(&mut world);
    let conn = reader(&mut world, server);
    assert_eq!(world.heard(conn), [Said::Denied]);
}

#[test]
fn a_reader_keeps_its_session_until_it_is_silent() {
    let mut world = World::led(3, &options(true));
    let server = cut_off(&mut world);
    let conn = reader(&mut world, server);
    let Some(Said::Welcome(session)) = world.heard(conn).pop() else { panic!("no session") };
    world.drop_client(conn);
    world.pass(Duration::from_secs(5));
    assert_eq!(reader_with(&mut world, server, session), [Said::Welcome(session)]);
    world.pass(Duration::from_secs(15));
    assert_eq!(reader_with(&mut world, server, session), [Said::Refused]);
}

#[test]
fn only_a_quorum_can_say_that_a_session_is_over() {
    let mut world = World::led(3, &options(false));
    let leader = world.leader();
    let [_, other] = world.followers();
    let (_, known) = world.open(other);
    let server = cut_off(&mut world);
    // A session that the server knows, one that was created since, and one that no server created.
    let (_, unknown) = world.open(leader);
    let own = SessionId((server as i64 + 1) << 56 | 77);
    assert_eq!(reader_with(&mut world, server, known), [Said::Closed]);
    assert_eq!(reader_with(&mut world, server, unknown), [Said::Closed]);
    assert_eq!(reader_with(&mut world, server, own), [Said::Refused]);
    let wrong = world.connect_with(server, |hello| {
        hello.read_only = true;
        hello.session = known;
    });
    assert_eq!(world.heard(wrong), [Said::Refused]);
}

#[test]
fn readers_are_sent_away_when_there_is_a_leader_again() {
    let mut world = World::led(3, &options(true));
    let server = cut_off(&mut world);
    let conn = reader(&mut world, server);
    let Some(Said::Welcome(session)) = world.heard(conn).pop() else { panic!("no session") };
    world.touch(conn);
    world.reunite(server);
    world.wait_for(|world| world.role(server) != Role::Looking);
    assert_eq!(world.heard(conn), [Said::Closed]);
    // Their sessions are over, because no other server has heard of them.
    assert_eq!(reader_with(&mut world, server, session), [Said::Refused]);
    let (conn, _) = world.open(server);
    assert_eq!(world.create(conn, 1, "/e", EPHEMERAL), ok(1));
}

#[test]
fn a_client_that_has_seen_more_is_not_served() {
    let mut world = World::led(3, &options(true));
    let server = cut_off(&mut world);
    let seen = world.tree(server).last_zxid();
    let conn = world.connect_with(server, |hello| {
        hello.read_only = true;
        hello.last_zxid_seen = zebu_proto::Zxid(seen.0 + 1);
    });
    assert_eq!(world.heard(conn), [Said::Closed]);
}

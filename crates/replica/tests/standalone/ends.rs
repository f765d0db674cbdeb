//! Ends of sessions while other requests are in flight, the reaper, and the counter of the zxid.

use std::time::Duration;

use zebu_jute::{Decode as _, Encode as _, Encoder};
use zebu_proto::reply::ReplyHeader;
use zebu_proto::request::{Create, CreateTtl, MultiHeader, PathWatch, SetData};
use zebu_proto::{Acl, AclRef, ErrorCode, OpCode, SessionId, Version, Xid, Zxid};
use zebu_replica::{Input, Output, Reader, frame};
use zebu_tree::WatcherId;

use crate::world::{EPHEMERAL, PERSISTENT, Server, tree};

#[test]
fn a_session_takes_nothing_along_that_others_have_put_in_place_of_its_ephemerals() {
    for lists_paths in [true, false] {
        for flags in [PERSISTENT, EPHEMERAL] {
            let mut server = Server::new(lists_paths, 2);
            server.create(1, "/leader", EPHEMERAL);
            server.flush();
            // All three requests arrive before any of them is applied.
            server.delete(2, "/leader");
            server.create(2, "/leader", flags);
            server.close(1);
            server.flush();
            let owner = if flags == EPHEMERAL { 2 } else { 0 };
            assert_eq!(server.owner("/leader"), Some(owner), "paths listed: {lists_paths}");
        }
    }
}

#[test]
fn a_session_takes_along_what_it_was_about_to_own() {
    for lists_paths in [true, false] {
        let mut server = Server::new(lists_paths, 2);
        server.create(1, "/a", EPHEMERAL);
        server.create(2, "/b", EPHEMERAL);
        server.flush();
        server.delete(1, "/a");
        server.create(1, "/a", EPHEMERAL);
        server.create(1, "/c", EPHEMERAL);
        server.delete(1, "/b");
        server.create(1, "/b", EPHEMERAL);
        server.create(1, "/d", EPHEMERAL);
        server.delete(2, "/d");
        server.close(1);
        server.create(2, "/c", EPHEMERAL);
        server.flush();
        let owners = ["/a", "/b", "/c", "/d"].map(|path| server.owner(path));
        assert_eq!(owners, [None, None, Some(2), None], "paths listed: {lists_paths}");
    }
}

#[test]
fn the_counter_of_the_zxid_carries_into_the_epoch() {
    let mut tree = tree();
    tree.set_last_zxid(Zxid(0xffff_fffd));
    let mut server = Server::on(tree, true, 1);
    server.create(1, "/a", PERSISTENT);
    server.create(1, "/b", PERSISTENT);
    server.flush();
    let zxids = ["/a", "/b"].map(|path| server.tree.node(path).unwrap().persisted().czxid);
    assert_eq!(zxids, [Zxid(0xffff_ffff), Zxid(0x1_0000_0000)]);
}

#[test]
fn a_list_of_reads_does_not_cost_more_than_a_connection_may() {
    let mut server = Server::new(true, 1);
    let data = vec![7; 1_000_000];
    let open = Acl::open();
    let acl = Some(open.iter().map(AclRef::from).collect());
    let create = Create { path: Some("/a".into()), data: Some(&data), acl, flags: PERSISTENT };
    server.request(1, OpCode::CREATE, create.to_bytes());
    server.flush();
    let read = |times: usize| {
        let mut body = Vec::new();
        let mut out = Encoder::new(&mut body);
        for _ in 0..times {
            MultiHeader { op: OpCode::GET_DATA, done: false, err: -1 }.encode(&mut out);
            PathWatch { path: Some("/a".into()), watch: false }.encode(&mut out);
        }
        MultiHeader::END.encode(&mut out);
        let reader = Reader {
            schemes: &server.schemes,
            watcher: WatcherId(1),
            session: SessionId(1),
            ids: &server.ids,
            answer_bytes_max: zebu_replica::ANSWER_BYTES_MAX,
        };
        let mut answer = Vec::new();
        reader.answer(&server.tree, Xid(1), OpCode::MULTI_READ, &body, &mut answer);
        let header = ReplyHeader::from_bytes(&answer[frame::LENGTH_BYTES..]).unwrap();
        (header.err, answer.len(), answer.capacity())
    };
    let (err, bytes, _) = read(60);
    assert!(err == ErrorCode::OK && bytes > 60_000_000);
    let (err, bytes, memory) = read(200);
    assert!(err == ErrorCode::MARSHALLING_ERROR && bytes == 20 && memory < 200_000_000);
}

#[test]
fn the_reaper_takes_nothing_that_has_changed_since_it_was_found() {
    let mut server = Server::new(true, 1);
    let open = Acl::open();
    let create_ttl = CreateTtl {
        path: Some("/ttl".into()),
        data: None,
        acl: Some(open.iter().map(AclRef::from).collect()),
        flags: 5,
        ttl_ms: 1_000,
    };
    for path in ["/kept", "/ttl"] {
        let create = CreateTtl { path: Some(path.into()), ..create_ttl.clone() };
        server.request(1, OpCode::CREATE_TTL, create.to_bytes());
    }
    let acl = Some(open.iter().map(AclRef::from).collect());
    let create = Create { path: Some("/c".into()), data: None, acl, flags: 4 };
    server.request(1, OpCode::CREATE_CONTAINER, create.to_bytes());
    server.create(1, "/c/child", PERSISTENT);
    server.delete(1, "/c/child");
    server.flush();
    // A minute later, one znode is refreshed and another one replaced, and neither transaction is
    // applied yet.
    server.now.monotonic += Duration::from_secs(70);
    server.now.wall_ms += 70_000;
    server.step(Input::Touched { session: SessionId(1), at: server.now.monotonic });
    let path = Some("/kept".into());
    let set = SetData { path, data: Some(b"new"), version: Version::ANY };
    server.request(1, OpCode::SET_DATA, set.to_bytes());
    server.delete(1, "/c");
    server.create(1, "/c", PERSISTENT);
    server.step(Input::Tick);
    server.flush();
    let owners = ["/ttl", "/c"].map(|path| server.owner(path));
    assert_eq!(owners, [None, Some(0)]);
    assert_eq!(server.tree.node("/kept").unwrap().data(), Some(&b"new"[..]));
}

#[test]
fn the_reaper_leaves_a_container_that_was_made_anew_unused() {
    let mut server = Server::new(true, 1);
    let open = Acl::open();
    let acl = Some(open.iter().map(AclRef::from).collect());
    let create = Create { path: Some("/c".into()), data: None, acl, flags: 4 }.to_bytes();
    server.request(1, OpCode::CREATE_CONTAINER, create.clone());
    server.create(1, "/c/child", PERSISTENT);
    server.delete(1, "/c/child");
    server.flush();
    server.now.monotonic += Duration::from_secs(70);
    server.now.wall_ms += 70_000;
    server.step(Input::Touched { session: SessionId(1), at: server.now.monotonic });
    // The znode is deleted and created again. Neither transaction is applied yet when the reaper
    // checks.
    server.delete(1, "/c");
    server.request(1, OpCode::CREATE_CONTAINER, create);
    server.step(Input::Tick);
    server.flush();
    assert!(server.tree.node("/c").is_some(), "nobody has used it yet");
}

const DAY_MS: i64 = 86_400_000;

/// The paths that still exist after this many seconds.
fn after(server: &mut Server, seconds: u64, paths: &[&str]) -> Vec<bool> {
    // The reaper checks once a minute.
    for _ in 0..seconds.div_ceil(60) {
        server.now.monotonic += Duration::from_secs(60);
        server.now.wall_ms += 60_000;
        for session in [1, 2].map(SessionId) {
            server.step(Input::Touched { session, at: server.now.monotonic });
        }
        server.step(Input::Tick);
        server.flush();
    }
    paths.iter().map(|path| server.tree.node(path).is_some()).collect()
}

fn create_ttl(server: &mut Server, session: i64, path: &str, ttl_ms: i64) {
    let acl = Acl::open();
    let acl = Some(acl.iter().map(AclRef::from).collect());
    let create =
        CreateTtl { path: Some(path.to_owned().into()), data: None, acl, flags: 5, ttl_ms };
    server.request(session, OpCode::CREATE_TTL, create.to_bytes());
    server.flush();
}

#[test]
fn a_clock_that_jumps_a_day_ahead_makes_no_znode_older() {
    let mut server = Server::new(true, 1);
    create_ttl(&mut server, 1, "/before", 600_000);
    server.now.wall_ms += DAY_MS;
    create_ttl(&mut server, 1, "/later", 600_000);
    let paths = ["/before", "/later"];
    assert_eq!(after(&mut server, 480, &paths), [true, true]);
    assert!(server.replica.counts().clock_ahead_ms >= Some(DAY_MS));
    server.replica.counts().clear();
    // The znode expires in the end, and the jump of the clock is reported once.
    assert_eq!(after(&mut server, 240, &paths), [false, true]);
    assert_eq!(server.replica.counts().clock_ahead_ms, None);
    // A znode that was stamped with a time in the future ages normally when the clock is correct
    // again.
    server.now.wall_ms -= DAY_MS;
    assert_eq!(after(&mut server, 60, &paths), [false, true]);
}

#[test]
fn a_server_that_starts_with_a_clock_a_day_ahead_deletes_nothing_too_early() {
    let mut server = Server::new(true, 1);
    create_ttl(&mut server, 1, "/ttl", 600_000);
    let mut again = Server::at(server.tree, server.now.wall_ms + DAY_MS);
    assert_eq!(after(&mut again, 480, &["/ttl"]), [true]);
    create_ttl(&mut again, 2, "/new", 120_000);
    // A znode that the server itself has created ages from the beginning.
    assert_eq!(after(&mut again, 300, &["/ttl", "/new"]), [false, false]);
}

/// The actions of a server that is asked to stop, in order.
#[test]
fn a_server_that_is_asked_to_stop_finishes_what_is_in_progress_and_begins_nothing() {
    let mut server = Server::new(true, 2);
    server.create(1, "/in-progress", PERSISTENT);
    let by = server.now.monotonic + Duration::from_secs(2);
    let outputs = server.step(Input::Retire { by });
    assert!(outputs.is_empty(), "its log has not synced yet: {outputs:?}");
    server.now.monotonic += Duration::from_millis(1);
    server.create(2, "/too-late", PERSISTENT);
    let outputs = server.step(Input::Flushed(server.tree.last_zxid().next().unwrap()));
    let told: Vec<_> = outputs
        .iter()
        .map(|output| match output {
            Output::Apply { origin: Some(origin), .. } => ("answered", origin.conn.0),
            Output::Abandon(origin) => ("abandoned", origin.conn.0),
            Output::Retired => ("retired", 0),
            other => panic!("{other:?}"),
        })
        .collect();
    assert_eq!(told, [("answered", 1), ("abandoned", 2), ("retired", 0)]);
    let again = server.step(Input::Retire { by });
    assert!(again.is_empty(), "{again:?}");
}

#[test]
fn a_server_whose_disk_hangs_retires_when_its_time_is_over() {
    let mut server = Server::new(true, 1);
    server.create(1, "/never", PERSISTENT);
    let by = server.now.monotonic + Duration::from_secs(2);
    server.step(Input::Retire { by });
    assert_eq!(server.replica.next_tick(), by);
    server.now.monotonic = by;
    assert!(matches!(server.step(Input::Tick)[..], [Output::Retired]));
}

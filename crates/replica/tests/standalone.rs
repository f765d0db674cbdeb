//! A server that stands alone: ends of sessions while other things are on their way, and limits.

use std::time::Duration;

use bytes::Bytes;
use zebu_jute::{Decode as _, Encode as _, Encoder};
use zebu_proto::reply::ReplyHeader;
use zebu_proto::request::{Create, CreateTtl, MultiHeader, PathVersion, PathWatch, SetData};
use zebu_proto::txn::TxnRecord;
use zebu_proto::{
    Acl, AclRef, ErrorCode, ExtendedTypes, OpCode, ServerId, SessionId, Version, Xid, Zxid,
};
use zebu_replica::auth::{Credentials, Schemes};
use zebu_replica::{
    ConnId, Connect, Input, IntakeOptions, MemberOptions, Now, Options, Output, Reader,
    ReaperOptions, Replica, Request, Rules, SnapshotOptions, ThrottleOptions, frame,
};
use zebu_tree::{Silent, Tree, WatcherId};

const NOW: Now = Now { monotonic: Duration::from_secs(1), wall_ms: 1_700_000_000_000 };
const EPHEMERAL: i32 = 1;
const PERSISTENT: i32 = 0;

const TYPES: ExtendedTypes = ExtendedTypes { enabled: true, emulate_353: false };

fn tree() -> Tree {
    Tree::new(zebu_tree::Options { types: TYPES, ..zebu_tree::Options::default() })
}

/// A server whose disk is as slow as the test wants.
struct Server {
    tree: Tree,
    replica: Replica,
    schemes: Schemes,
    ids: Credentials,
    logged: Zxid,
    xid: i32,
    now: Now,
}

impl Server {
    /// With so many sessions, each at a connection of the same number, counted from 1.
    fn new(close_session_lists_paths: bool, sessions: u64) -> Self {
        Self::on(tree(), close_session_lists_paths, sessions)
    }

    /// The same on a tree that is there already.
    fn on(tree: Tree, close_session_lists_paths: bool, sessions: u64) -> Self {
        let options = Options {
            server: ServerId(1),
            first_session: SessionId(1),
            tick: Duration::from_secs(2),
            session_timeout_ms_min: 4_000,
            session_timeout_ms_max: 40_000,
            rules: Rules { close_session_lists_paths, types: TYPES, ..Rules::default() },
            eager_acl_check: false,
            intake: IntakeOptions::default(),
            throttled_op_wait: Duration::ZERO,
            connections: ThrottleOptions::default(),
            reaper: ReaperOptions::default(),
            snapshots: SnapshotOptions::default(),
            member: MemberOptions::default(),
            seed: 1,
        };
        let replica = Replica::new(options, &tree, NOW);
        let schemes = Schemes::new(vec![], false);
        let ids = schemes.initial([127, 0, 0, 1].into());
        let logged = tree.last_zxid();
        let mut server = Self { tree, replica, schemes, ids, logged, xid: 0, now: NOW };
        for conn in 1..=sessions {
            server.step(Input::Connect(Connect {
                conn: ConnId(conn),
                last_zxid_seen: Zxid::ZERO,
                timeout_ms: 30_000,
                session: SessionId::NONE,
                password: vec![0; 16],
                read_only: false,
            }));
        }
        server.flush();
        server
    }

    fn step(&mut self, input: Input) -> Vec<Output> {
        let mut outputs = Vec::new();
        self.replica.step(self.now, &self.tree, &self.schemes, input, &mut outputs).unwrap();
        for output in &outputs {
            if let Output::Append { zxid, .. } = output {
                self.logged = *zxid;
            }
        }
        outputs
    }

    fn request(&mut self, session: i64, op: OpCode, body: Vec<u8>) {
        self.xid += 1;
        self.step(Input::Request(Request {
            conn: ConnId(session as u64),
            session: SessionId(session),
            xid: Xid(self.xid),
            op,
            bytes: body.len() + 8,
            body: Bytes::from(body),
            ids: self.ids.clone(),
            received: self.now.monotonic,
        }));
    }

    fn create(&mut self, session: i64, path: &str, flags: i32) {
        let open = Acl::open();
        let acl = Some(open.iter().map(AclRef::from).collect());
        let create = Create { path: Some(path.into()), data: Some(b"x"), acl, flags };
        self.request(session, OpCode::CREATE, create.to_bytes());
    }

    fn delete(&mut self, session: i64, path: &str) {
        let delete = PathVersion { path: Some(path.into()), version: Version::ANY };
        self.request(session, OpCode::DELETE, delete.to_bytes());
    }

    fn close(&mut self, session: i64) {
        self.request(session, OpCode::CLOSE_SESSION, vec![]);
    }

    /// Everything becomes durable and is applied.
    fn flush(&mut self) {
        for output in self.step(Input::Flushed(self.logged)) {
            if let Output::Apply { record, .. } = output {
                let record = TxnRecord::decode(&record).unwrap();
                assert!(self.tree.apply(&record, &mut Silent).digest_matches, "{record:?}");
            }
        }
        self.step(Input::Applied(self.logged));
    }

    fn owner(&self, path: &str) -> Option<i64> {
        self.tree.node(path).map(|node| node.persisted().ephemeral_owner)
    }
}

#[test]
fn a_session_takes_nothing_along_that_others_have_put_in_place_of_its_ephemerals() {
    for lists_paths in [true, false] {
        for flags in [PERSISTENT, EPHEMERAL] {
            let mut server = Server::new(lists_paths, 2);
            server.create(1, "/leader", EPHEMERAL);
            server.flush();
            // All three before any of them is applied.
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
    // A minute later one is refreshed and another replaced, and neither is applied yet.
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

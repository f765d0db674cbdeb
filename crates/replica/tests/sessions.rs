//! The end of a session, while other things are on their way.

use std::time::Duration;

use bytes::Bytes;
use zebu_jute::Encode as _;
use zebu_proto::request::{Create, PathVersion};
use zebu_proto::txn::TxnRecord;
use zebu_proto::{Acl, AclRef, OpCode, ServerId, SessionId, Version, Xid, Zxid};
use zebu_replica::auth::{Credentials, Schemes};
use zebu_replica::{
    ConnId, Connect, Input, IntakeOptions, Now, Options, Output, ReaperOptions, Replica, Request,
    Rules, SnapshotOptions, ThrottleOptions,
};
use zebu_tree::{Silent, Tree};

const NOW: Now = Now { monotonic: Duration::from_secs(1), wall_ms: 1_700_000_000_000 };
const EPHEMERAL: i32 = 1;
const PERSISTENT: i32 = 0;

/// A server whose disk is as slow as the test wants.
struct Server {
    tree: Tree,
    replica: Replica,
    schemes: Schemes,
    ids: Credentials,
    logged: Zxid,
    xid: i32,
}

impl Server {
    /// With so many sessions, each at a connection of the same number, counted from 1.
    fn new(close_session_lists_paths: bool, sessions: u64) -> Self {
        let tree = Tree::new(zebu_tree::Options::default());
        let options = Options {
            server: ServerId(1),
            first_session: SessionId(1),
            tick: Duration::from_secs(2),
            session_timeout_ms_min: 4_000,
            session_timeout_ms_max: 40_000,
            rules: Rules { close_session_lists_paths, ..Rules::default() },
            eager_acl_check: false,
            intake: IntakeOptions::default(),
            throttled_op_wait: Duration::ZERO,
            connections: ThrottleOptions::default(),
            reaper: ReaperOptions::default(),
            snapshots: SnapshotOptions::default(),
            seed: 1,
        };
        let replica = Replica::new(options, &tree, NOW);
        let schemes = Schemes::new(vec![], false);
        let ids = schemes.initial([127, 0, 0, 1].into());
        let mut server = Self { tree, replica, schemes, ids, logged: Zxid::ZERO, xid: 0 };
        for conn in 1..=sessions {
            server.step(Input::Connect(Connect {
                conn: ConnId(conn),
                last_zxid_seen: Zxid::ZERO,
                timeout_ms: 30_000,
                session: SessionId::NONE,
                password: vec![0; 16],
            }));
        }
        server.flush();
        server
    }

    fn step(&mut self, input: Input) -> Vec<Output> {
        let mut outputs = Vec::new();
        self.replica.step(NOW, &self.tree, &self.schemes, input, &mut outputs).unwrap();
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
            received: NOW.monotonic,
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

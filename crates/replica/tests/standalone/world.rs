//! A standalone server, with a disk as slow as the test wants.
//!
//! It does not use `engine`: the tests check the outputs of single inputs, and the requests in
//! flight between two inputs, which a turn of the engine does not show.

use std::time::Duration;

use bytes::Bytes;
use zebu_jute::Encode as _;
use zebu_proto::request::{Create, PathVersion};
use zebu_proto::txn::{Txn, TxnRecord};
use zebu_proto::{Acl, AclRef, ErrorCode, ExtendedTypes, OpCode, SessionId, Version, Xid, Zxid};
use zebu_replica::auth::{Credentials, Schemes};
use zebu_replica::{ConnId, Connect, Input, Now, Options, Output, Replica, Request, Rules};
use zebu_tree::{Silent, Tree};

pub const NOW: Now = Now { monotonic: Duration::from_secs(1), wall_ms: 1_700_000_000_000 };
pub const EPHEMERAL: i32 = 1;
pub const PERSISTENT: i32 = 0;

pub const TYPES: ExtendedTypes = ExtendedTypes { enabled: true, emulate_353: false };

pub fn tree() -> Tree {
    Tree::new(zebu_tree::Options { types: TYPES, ..zebu_tree::Options::default() })
}

/// A server whose disk is as slow as the test wants.
pub struct Server {
    pub tree: Tree,
    pub replica: Replica,
    pub schemes: Schemes,
    pub ids: Credentials,
    /// All logged transactions.
    pub records: Vec<Bytes>,
    logged: Zxid,
    xid: i32,
    pub now: Now,
}

impl Server {
    /// With this many sessions, each at the connection with the same number, counted from 1.
    pub fn new(close_session_lists_paths: bool, sessions: u64) -> Self {
        Self::on(tree(), close_session_lists_paths, sessions)
    }

    /// The same with an existing tree.
    pub fn on(tree: Tree, close_session_lists_paths: bool, sessions: u64) -> Self {
        Self::with(tree, Rules { close_session_lists_paths, ..Rules::default() }, sessions)
    }

    /// The same with one session, and a wall clock with another time.
    pub fn at(tree: Tree, wall_ms: i64) -> Self {
        Self::starting(tree, Rules::default(), 1, Now { wall_ms, ..NOW })
    }

    /// The same with these rules.
    pub fn with(tree: Tree, rules: Rules, sessions: u64) -> Self {
        Self::starting(tree, rules, sessions, NOW)
    }

    fn starting(tree: Tree, rules: Rules, sessions: u64, now: Now) -> Self {
        let options = Options {
            first_session: SessionId(1),
            rules: Rules { types: TYPES, ..rules },
            ..zebu_testkit::alone::options()
        };
        let before = tree.sessions().len() as u64;
        let replica = Replica::new(options, &tree, now);
        let schemes = Schemes::new(vec![], false);
        let ids = schemes.initial([127, 0, 0, 1].into());
        let logged = tree.last_zxid();
        let records = Vec::new();
        let mut server = Self { tree, replica, schemes, ids, records, logged, xid: 0, now };
        for conn in before + 1..=before + sessions {
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

    pub fn step(&mut self, input: Input) -> Vec<Output> {
        let mut outputs = Vec::new();
        self.replica.step(self.now, &self.tree, &self.schemes, input, &mut outputs).unwrap();
        for output in &outputs {
            if let Output::Append { zxid, record } = output {
                self.records.push(record.clone());
                self.logged = *zxid;
            }
        }
        outputs
    }

    pub fn request(&mut self, session: i64, op: OpCode, body: Vec<u8>) {
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

    pub fn create(&mut self, session: i64, path: &str, flags: i32) {
        let open = Acl::open();
        let acl = Some(open.iter().map(AclRef::from).collect());
        let create = Create { path: Some(path.into()), data: Some(b"x"), acl, flags };
        self.request(session, OpCode::CREATE, create.to_bytes());
    }

    pub fn delete(&mut self, session: i64, path: &str) {
        let delete = PathVersion { path: Some(path.into()), version: Version::ANY };
        self.request(session, OpCode::DELETE, delete.to_bytes());
    }

    pub fn close(&mut self, session: i64) {
        self.request(session, OpCode::CLOSE_SESSION, vec![]);
    }

    /// Makes everything durable and applies it.
    pub fn flush(&mut self) {
        for output in self.step(Input::Flushed(self.logged)) {
            if let Output::Apply { record, .. } = output {
                let record = TxnRecord::decode(&record).unwrap();
                assert!(self.tree.apply(&record, &mut Silent).digest_matches, "{record:?}");
            }
        }
        self.step(Input::Applied(self.logged));
    }

    pub fn owner(&self, path: &str) -> Option<i64> {
        self.tree.node(path).map(|node| node.persisted().ephemeral_owner)
    }

    /// The error of the request that was logged last.
    pub fn refusal(&self) -> Option<ErrorCode> {
        match TxnRecord::decode(self.records.last()?).unwrap().txn {
            Txn::Error(code) => Some(code),
            _ => None,
        }
    }
}

//! Helpers for the tests of the tree: short constructors of transactions, a recorder of events, and
//! a reader of the original's files.

#![expect(clippy::disallowed_methods, reason = "tests read the fixtures")]
#![allow(dead_code, unreachable_pub, missing_docs)]

use std::collections::BTreeSet;
use std::path::PathBuf;

use zebu_proto::txn::{CreateTxn, Txn, TxnHeader, TxnRecord};
use zebu_proto::{
    Acl, AclRef, ErrorCode, EventType, ExtendedTypes, OpCode, SessionId, StatPersisted, Zxid,
};
use zebu_tree::{Applied, Events, Loader, OpResult, Options, Outcome, Silent, Tree, WatcherId};

pub const SESSION: SessionId = SessionId(0x0100_0000_0000_0001);

pub fn options() -> Options {
    let types = ExtendedTypes { enabled: true, emulate_353: false };
    Options { types, ..Options::default() }
}

pub fn tree() -> Tree {
    Tree::new(options())
}

/// Time of every transaction, so that no test depends on a clock.
pub fn time_of(zxid: i64) -> i64 {
    1_700_000_000_000 + zxid * 7
}

pub fn record<'a>(zxid: i64, op: OpCode, txn: Txn<'a>) -> TxnRecord<'a> {
    let header =
        TxnHeader { session: SESSION, cxid: 1, zxid: Zxid(zxid), time_ms: time_of(zxid), op };
    TxnRecord { header, txn, digest: None }
}

pub fn open_acl() -> Vec<AclRef<'static>> {
    acl_of(31, "world", "anyone")
}

pub fn acl_of(perms: i32, scheme: &'static str, id: &'static str) -> Vec<AclRef<'static>> {
    let perms = zebu_proto::Perms(perms);
    vec![AclRef { perms, scheme: Some(scheme.into()), id: Some(id.into()) }]
}

pub fn create_txn<'a>(path: &'a str, data: &'a [u8]) -> CreateTxn<'a> {
    CreateTxn {
        path: path.into(),
        data: Some(data),
        acl: open_acl(),
        ephemeral: false,
        parent_cversion: -1,
        ttl_ms: 0,
    }
}

pub fn create<'a>(zxid: i64, path: &'a str, data: &'a [u8]) -> TxnRecord<'a> {
    record(zxid, OpCode::CREATE, Txn::Create(create_txn(path, data)))
}

pub fn create_at<'a>(zxid: i64, path: &'a str, parent_cversion: i32) -> TxnRecord<'a> {
    let txn = CreateTxn { parent_cversion, ..create_txn(path, b"") };
    record(zxid, OpCode::CREATE, Txn::Create(txn))
}

pub fn ephemeral<'a>(zxid: i64, path: &'a str, session: SessionId) -> TxnRecord<'a> {
    let txn = CreateTxn { ephemeral: true, ..create_txn(path, b"") };
    let mut made = record(zxid, OpCode::CREATE, Txn::Create(txn));
    made.header.session = session;
    made
}

pub fn delete(zxid: i64, path: &str) -> TxnRecord<'_> {
    record(zxid, OpCode::DELETE, Txn::Delete { path: path.into() })
}

pub fn set<'a>(zxid: i64, path: &'a str, data: &'a [u8], version: i32) -> TxnRecord<'a> {
    record(zxid, OpCode::SET_DATA, Txn::SetData { path: path.into(), data: Some(data), version })
}

pub fn close<'a>(zxid: i64, session: SessionId, paths: Option<&[&'a str]>) -> TxnRecord<'a> {
    let paths = paths.map(|paths| paths.iter().map(|path| (*path).into()).collect());
    let mut made = record(zxid, OpCode::CLOSE_SESSION, Txn::CloseSession { paths });
    made.header.session = session;
    made
}

/// Applies a transaction without watchers and returns the only result.
pub fn apply<'r>(tree: &mut Tree, record: &'r TxnRecord<'_>) -> OpResult<'r> {
    match tree.apply(record, &mut Silent) {
        Applied { result: Outcome::One(result), .. } => result,
        other => panic!("a single result was expected: {other:?}"),
    }
}

/// Applies a transaction that must succeed.
pub fn ok(tree: &mut Tree, record: &TxnRecord<'_>) {
    assert_eq!(apply(tree, record).err, ErrorCode::OK, "{record:?}");
}

/// All parts of a znode that the original stores.
pub type Row = (String, Option<Vec<u8>>, StatPersisted, Vec<Acl>);

/// The znodes of a tree, by path.
pub fn rows(tree: &Tree) -> Vec<Row> {
    let mut rows = Vec::new();
    let mut todo = vec![tree.node("/").unwrap()];
    while let Some(node) = todo.pop() {
        rows.push((
            node.path(),
            node.data().map(<[u8]>::to_vec),
            node.persisted(),
            node.acl().to_vec(),
        ));
        todo.extend(node.children().map(|name| node.child(name).unwrap()));
    }
    rows.sort_by(|a, b| a.0.cmp(&b.0));
    rows
}

/// The digest computed from scratch.
pub fn digest_from_scratch(tree: &Tree) -> i64 {
    rows(tree)
        .iter()
        .filter(|row| zebu_tree::digest_counts(&row.0))
        .map(|row| i64::from(zebu_tree::node_digest(&row.0, row.1.as_deref(), &row.2)))
        .sum()
}

/// Records delivered events.
#[derive(Debug, Default)]
pub struct Recorder {
    pub seen: Vec<(u32, EventType, String)>,
    pub zxids: Vec<Zxid>,
    /// Watchers that may read only znodes open to the world.
    pub strangers: BTreeSet<u32>,
}

impl Recorder {
    /// Events delivered since the last call.
    pub fn take(&mut self) -> Vec<(u32, EventType, String)> {
        std::mem::take(&mut self.seen)
    }

    /// The same as text, in the order of delivery.
    pub fn text(&mut self) -> String {
        let name = |event| match event {
            EventType::NODE_CREATED => "created",
            EventType::NODE_DELETED => "deleted",
            EventType::NODE_DATA_CHANGED => "changed",
            EventType::NODE_CHILDREN_CHANGED => "children",
            _ => "other",
        };
        let line = |(watcher, event, path): (u32, EventType, String)| {
            format!("{watcher} {} {path}", name(event))
        };
        self.take().into_iter().map(line).collect::<Vec<_>>().join("; ")
    }
}

impl Events for Recorder {
    fn notify(&mut self, watcher: WatcherId, event: EventType, path: &str, zxid: Zxid) {
        self.seen.push((watcher.0, event, path.to_owned()));
        self.zxids.push(zxid);
    }

    fn may_read(&mut self, watcher: WatcherId, acl: &[Acl]) -> bool {
        let open = |acl: &Acl| acl.id.scheme == "world" && acl.perms.0 & 1 != 0;
        !self.strangers.contains(&watcher.0) || acl.iter().any(open)
    }
}

/// A file of the original.
pub fn fixture(name: &str) -> Vec<u8> {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../tests/fixtures").join(name);
    std::fs::read(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// Bodies of the records of a log file.
pub fn log_bodies(file: &[u8]) -> Vec<&[u8]> {
    let mut bodies = Vec::new();
    let mut rest = &file[16..];
    while rest.len() >= 12 {
        let length = i32::from_be_bytes(rest[8..12].try_into().unwrap()) as usize;
        if length == 0 {
            break;
        }
        bodies.push(&rest[12..12 + length]);
        assert_eq!(rest[12 + length], b'B');
        rest = &rest[12 + length + 1..];
    }
    bodies
}

/// A snapshot read by the loader, and its digest section.
pub fn load_snapshot(file: &[u8], options: Options) -> (Tree, Option<(Zxid, i64)>) {
    use zebu_jute::{Decode, Decoder};
    let mut from = Decoder::new(&file[16..]);
    let mut loader = Loader::new(options);
    for _ in 0..from.int().unwrap() {
        loader.session(SessionId(from.long().unwrap()), from.int().unwrap());
    }
    for _ in 0..from.int().unwrap() {
        let id = from.long().unwrap();
        let acl = from.vector::<AclRef<'_>>().unwrap().unwrap();
        loader.acl(id, acl.iter().map(AclRef::to_owned).collect());
    }
    loop {
        let path = from.text().unwrap();
        if path == "/" {
            break;
        }
        let data = from.buffer().unwrap();
        let acl = from.long().unwrap();
        let stat = StatPersisted::decode(&mut from).unwrap();
        loader.node(&path, data, acl, &stat).unwrap();
    }
    from.long().unwrap();
    from.text().unwrap();
    let digest = (from.remaining() > 0).then(|| {
        let zxid = Zxid(from.long().unwrap());
        assert_eq!(from.int(), Ok(2));
        (zxid, from.long().unwrap())
    });
    assert_eq!(loader.unknown_acls(), 0);
    (loader.finish().unwrap(), digest)
}

/// Copies a tree through a snapshot that was walked without changes in between.
pub fn reload(tree: &Tree) -> Tree {
    let mut loader = Loader::new(tree.options());
    for (session, timeout) in tree.sessions() {
        loader.session(session, timeout);
    }
    for (id, acl) in tree.acl_table() {
        loader.acl(id, acl.to_vec());
    }
    let mut walk = zebu_tree::Walk::new(tree);
    while !walk.step(tree, 3, &mut |path, data, acl, stat| {
        loader.node(path, data, acl, stat).unwrap();
    }) {}
    let mut copy = loader.finish().unwrap();
    copy.set_last_zxid(tree.last_zxid());
    copy
}

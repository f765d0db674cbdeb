//! Answers to requests with nulls, truncated bodies and unusual flags, byte for byte as the
//! original gives them.

use zebu_jute::{Decode as _, Encode as _, Encoder};
use zebu_proto::request::{
    AuthPacket, ConnectRequest, Create, CreateTtl, MultiHeader, PathWatch, SetData,
};
use zebu_proto::txn::{Txn, TxnHeader, TxnRecord};
use zebu_proto::{AclRef, OpCode, Perms, SessionId, Version, Zxid};
use zebu_replica::auth::{Claim, Digest, DigestAlgorithm, Schemes};
use zebu_replica::{Now, Options, Replica, Rules};
use zebu_testkit::alone::{self, Alone};
use zebu_testkit::client::Connection;
use zebu_testkit::wire::{frame, framed_request};
use zebu_tree::{Silent, Tree};

const SESSION: SessionId = SessionId(1 << 56);

/// A server, and a client with a session.
struct Server {
    alone: Alone,
    client: Connection,
}

/// The answer to a request: the error, the body, and the number of zxids that it took.
#[derive(Debug, PartialEq, Eq)]
struct Answer {
    err: i32,
    body: Vec<u8>,
    zxids: i64,
}

fn failed(err: i32, zxids: i64) -> Answer {
    Answer { err, body: Vec::new(), zxids }
}

impl Server {
    fn new(rules: Rules) -> Self {
        let tree = Tree::new(zebu_tree::Options { digest: rules.digest, ..Default::default() });
        let options = Options { first_session: SESSION, rules, ..alone::options() };
        let replica = Replica::new(options, &tree, Now::default());
        let digest = Digest::new(DigestAlgorithm::default(), None);
        let schemes = Schemes::new(vec![Box::new(digest)], false);
        let alone = Alone::new(replica, tree, schemes, Now::default(), ());
        let client = Connection::open(&alone.common, [127, 0, 0, 1].into());
        let mut server = Self { alone, client };
        let connect = ConnectRequest::new_session(30_000);
        server.exchange(&frame(&connect.to_bytes()));
        assert_eq!(server.client.conn().session(), Some(SESSION));
        server
    }

    /// The client sends bytes, and receives the answers.
    fn exchange(&mut self, bytes: &[u8]) -> Vec<u8> {
        let now = self.alone.desk.now.monotonic;
        self.client.send(&self.alone.common, now, bytes);
        self.alone.settle();
        self.client.serve(&self.alone.common, now);
        self.client.take()
    }

    fn last_zxid(&self) -> Zxid {
        self.alone.common.tree.read().last_zxid()
    }

    fn ask(&mut self, op: OpCode, body: Vec<u8>) -> Answer {
        let before = self.last_zxid();
        let sent = self.exchange(&framed_request(7, op.0, &body));
        let length = i32::from_be_bytes(*sent.first_chunk().unwrap());
        assert_eq!(usize::try_from(length).unwrap(), sent.len() - 4, "one frame");
        assert_eq!(sent[4..8], 7_i32.to_be_bytes());
        assert_eq!(sent[8..16], self.last_zxid().0.to_be_bytes());
        Answer {
            err: i32::from_be_bytes(sent[16..20].try_into().unwrap()),
            body: sent[20..].to_vec(),
            zxids: self.last_zxid().0 - before.0,
        }
    }

    fn create(&mut self, path: &str, data: &[u8]) -> Answer {
        self.ask(OpCode::CREATE, bytes(&create(path, data, Some(open()), 0)))
    }
}

fn bytes(record: &impl zebu_jute::Encode) -> Vec<u8> {
    let mut bytes = Vec::new();
    record.encode(&mut Encoder::new(&mut bytes));
    bytes
}

fn open() -> Vec<AclRef<'static>> {
    vec![AclRef { perms: Perms::ALL, scheme: Some("world".into()), id: Some("anyone".into()) }]
}

fn create<'a>(
    path: &'a str,
    data: &'a [u8],
    acl: Option<Vec<AclRef<'a>>>,
    flags: i32,
) -> Create<'a> {
    Create { path: Some(path.into()), data: Some(data), acl, flags }
}

fn set_data<'a>(path: &'a str, data: &'a [u8]) -> SetData<'a> {
    SetData { path: Some(path.into()), data: Some(data), version: Version::ANY }
}

/// A list of operations, encoded as in multi and multiRead.
fn list(ops: &[(OpCode, Vec<u8>)]) -> Vec<u8> {
    let mut list = Vec::new();
    for (op, body) in ops {
        list.extend(bytes(&MultiHeader { op: *op, done: false, err: -1 }));
        list.extend(body);
    }
    list.extend(bytes(&MultiHeader::END));
    list
}

fn hex(text: &str) -> Vec<u8> {
    let digits: Vec<u8> =
        text.bytes().map(|digit| (digit as char).to_digit(16).unwrap() as u8).collect();
    digits.chunks(2).map(|pair| pair[0] << 4 | pair[1]).collect()
}

#[test]
fn a_multi_with_a_null_acl_takes_a_zxid_only_if_its_flags_are_unknown() {
    let mut server = Server::new(Rules::default());
    for op in [OpCode::CREATE, OpCode::CREATE2, OpCode::CREATE_CONTAINER] {
        for flags in [0, 4, 5, 6] {
            let multi = list(&[(op, bytes(&create("/x", b"", None, flags)))]);
            assert_eq!(server.ask(OpCode::MULTI, multi), failed(-5, 0), "{op} {flags}");
        }
        for acl in [None, Some(vec![]), Some(open())] {
            let multi = list(&[(op, bytes(&create("/x", b"", acl, 9)))]);
            assert_eq!(server.ask(OpCode::MULTI, multi), failed(-5, 1), "{op}");
        }
        for flags in [5, 6] {
            let multi = list(&[(op, bytes(&create("/x", b"", Some(open()), flags)))]);
            assert_eq!(server.ask(OpCode::MULTI, multi), failed(-5, 1), "{op} {flags}");
        }
    }
    // The first of two faults decides.
    let good = (OpCode::CREATE, bytes(&create("/x", b"", None, 0)));
    let bad = (OpCode::CREATE, bytes(&create("/x", b"", Some(open()), 9)));
    assert_eq!(server.ask(OpCode::MULTI, list(&[good, bad])), failed(-5, 0));
}

#[test]
fn in_a_multi_the_flags_of_a_ttl_create_decide_what_it_is() {
    let mut server = Server::new(Rules::default());
    let ttl = |flags, ttl_ms| {
        let Create { path, data, acl, flags } = create("/x", b"", Some(open()), flags);
        (OpCode::CREATE_TTL, bytes(&CreateTtl { path, data, acl, flags, ttl_ms }))
    };
    let bad_arguments = hex("ffffffff00fffffff8fffffff8ffffffff01ffffffff");
    let unknown = server.ask(OpCode::MULTI, list(&[ttl(9, 1000)]));
    assert_eq!(unknown, Answer { err: 0, body: bad_arguments, zxids: 1 });
    let plain = server.ask(OpCode::MULTI, list(&[ttl(0, -1)]));
    let created = hex("000000010000000000000000022f78ffffffff01ffffffff");
    assert_eq!(plain, Answer { err: 0, body: created, zxids: 1 });
}

#[test]
fn a_multi_that_ends_early_takes_a_zxid() {
    let mut server = Server::new(Rules::default());
    let whole = list(&[(OpCode::CREATE, bytes(&create("/x", b"", Some(open()), 0)))]);
    for length in 0..whole.len() {
        let answer = server.ask(OpCode::MULTI, whole[..length].to_vec());
        assert_eq!(answer, failed(-5, 1), "{length}");
    }
    let nested = list(&[(OpCode::MULTI, whole)]);
    assert_eq!(server.ask(OpCode::MULTI, nested), failed(-5, 1));
}

/// Unlike a multi, which takes a zxid as in the original.
#[test]
fn a_write_that_ends_early_takes_no_zxid() {
    let mut server = Server::new(Rules::default());
    for (op, whole) in [
        (OpCode::CREATE, bytes(&create("/x", b"data", Some(open()), 0))),
        (OpCode::SET_DATA, bytes(&set_data("/", b"data"))),
    ] {
        for length in 0..whole.len() {
            let answer = server.ask(op, whole[..length].to_vec());
            assert_eq!(answer, failed(-5, 0), "{op} {length}");
        }
    }
}

#[test]
fn the_container_flag_of_a_plain_create_makes_a_persistent_znode() {
    let mut server = Server::new(Rules { digest: true, ..Rules::default() });
    // `Alone` compares the digest of the transaction with the digest of the tree.
    let made = server.ask(OpCode::CREATE, bytes(&create("/plain", b"", Some(open()), 4)));
    assert_eq!((made.err, made.zxids), (0, 1));
    let made = server.ask(OpCode::CREATE_CONTAINER, bytes(&create("/c", b"", Some(open()), 4)));
    assert_eq!((made.err, made.zxids), (0, 1));
    let tree = server.alone.common.tree.read();
    let containers: Vec<String> = tree.containers().map(|znode| znode.path()).collect();
    assert_eq!(containers, ["/c"]);
    assert!(tree.node("/plain").is_some());
}

/// ZOOKEEPER-4743: a version of -1 in a request means any version.
#[test]
fn a_data_version_skips_the_one_that_means_any() {
    let mut server = Server::new(Rules::default());
    server.create("/x", b"");
    for (before, after) in [(-3, -2), (-2, 0), (0, 1), (i32::MAX, i32::MIN)] {
        let zxid = server.last_zxid();
        let op = OpCode::SET_DATA;
        let header = TxnHeader { session: SESSION, cxid: 0, zxid, time_ms: 0, op };
        let txn = Txn::SetData { path: "/x".into(), data: None, version: before };
        let record = TxnRecord { header, txn, digest: None };
        server.alone.common.tree.write().apply(&record, &mut Silent);
        let answer = server.ask(OpCode::SET_DATA, bytes(&set_data("/x", b"")));
        assert_eq!(answer.err, 0);
        let tree = server.alone.common.tree.read();
        assert_eq!(tree.node("/x").unwrap().stat().version, after, "{before}");
    }
}

#[test]
fn a_list_of_reads_ends_at_the_first_null_path() {
    let mut server = Server::new(Rules::default());
    let read = |path: Option<&'static str>| PathWatch { path: path.map(Into::into), watch: false };
    let nothing = hex("ffffffff01ffffffff");
    for op in [OpCode::GET_DATA, OpCode::GET_CHILDREN] {
        let answer = server.ask(OpCode::MULTI_READ, list(&[(op, bytes(&read(None)))]));
        assert_eq!(answer, Answer { err: -5, body: nothing.clone(), zxids: 0 });
    }
    let reads = list(&[
        (OpCode::GET_DATA, bytes(&read(Some("/a\0")))),
        (OpCode::GET_DATA, bytes(&read(None))),
        (OpCode::GET_DATA, bytes(&read(Some("/b")))),
    ]);
    let answer = server.ask(OpCode::MULTI_READ, reads.clone());
    let first = hex("ffffffff00ffffff9bffffff9bffffffff01ffffffff");
    assert_eq!(answer, Answer { err: -5, body: first, zxids: 0 });
    // A list of writes fails at its first operation. A list with both kinds cannot be decoded.
    let write = || (OpCode::CREATE, bytes(&create("/x", b"", Some(open()), 0)));
    let read = || (OpCode::GET_DATA, bytes(&read(Some("/"))));
    let answer = server.ask(OpCode::MULTI_READ, list(&[write(), write()]));
    assert_eq!(answer, Answer { err: -5, body: nothing, zxids: 0 });
    for mixed in [list(&[read(), write()]), list(&[write(), read()])] {
        assert_eq!(server.ask(OpCode::MULTI_READ, mixed.clone()), failed(-5, 0));
        assert_eq!(server.ask(OpCode::MULTI, mixed), failed(-5, 1));
    }
    assert_eq!(server.ask(OpCode::MULTI, list(&[read()])), failed(-5, 1));
    let null_acl = (OpCode::CREATE, bytes(&create("/x", b"", None, 0)));
    assert_eq!(server.ask(OpCode::MULTI, list(&[read(), null_acl])), failed(-5, 0));
    // A list that cannot be read at all has no results.
    let cut = reads[..reads.len() - 1].to_vec();
    assert_eq!(server.ask(OpCode::MULTI_READ, cut), failed(-5, 0));
    let null = PathWatch { path: None, watch: false };
    assert_eq!(server.ask(OpCode::GET_DATA, bytes(&null)), failed(-5, 0));
}

#[test]
fn a_hard_quota_needs_the_znode_that_counts() {
    let mut server = Server::new(Rules { enforce_quota: true, ..Rules::default() });
    let limits = b"count=-1,bytes=-1=;byteHardLimit=120;countHardLimit=-1";
    assert_eq!(server.create("/zookeeper/quota/a", b"").err, 0);
    assert_eq!(server.create("/zookeeper/quota/a/zookeeper_limits", limits).err, 0);
    assert_eq!(server.create("/a", b"").err, 0);
    let large = bytes(&set_data("/a", &[0; 1000]));
    assert_eq!(server.ask(OpCode::SET_DATA, large).err, 0);
    let in_multi = (OpCode::CREATE, bytes(&create("/a/b", &[0; 1000], Some(open()), 0)));
    let answer = server.ask(OpCode::MULTI, list(&[in_multi]));
    assert_eq!(answer.body[..9], hex("000000010000000000"));

    let stats = "/zookeeper/quota/a/zookeeper_stats";
    assert_eq!(server.create(stats, b"count=2,bytes=2000").err, 0);
    assert_eq!(server.create("/a/c", &[0; 1000]), failed(-125, 1));
}

#[test]
fn beyond_a_soft_quota_a_write_is_only_told_of() {
    let mut server = Server::new(Rules { enforce_quota: true, ..Rules::default() });
    for (path, data) in [
        ("/zookeeper/quota/a", ""),
        ("/zookeeper/quota/a/zookeeper_limits", "count=3,bytes=10"),
        ("/zookeeper/quota/a/zookeeper_stats", "count=0,bytes=0"),
        ("/a", ""),
        ("/a/b", "1234567890"),
    ] {
        assert_eq!(server.create(path, data.as_bytes()).err, 0, "{path}");
    }
    let told = |server: &mut Server| {
        std::mem::take(&mut server.alone.desk.replica.counts().quota_warnings)
    };
    assert_eq!(told(&mut server), [""; 0], "up to the limit is not beyond it");
    assert_eq!(server.create("/a/c", b"1").err, 0);
    assert_eq!(told(&mut server), ["/a [current bytes=11, softByteLimit=10]"]);
    assert_eq!(server.create("/a/d", b"").err, 0);
    assert_eq!(told(&mut server), ["/a [current count=4, softCountLimit=3]"]);
}

#[test]
fn limits_that_are_not_enforced_are_told_of_all_the_same() {
    let mut server = Server::new(Rules::default());
    for (path, data) in [
        ("/zookeeper/quota/a", ""),
        ("/zookeeper/quota/a/zookeeper_limits", "count=2,bytes=-1=;byteHardLimit=10"),
        ("/zookeeper/quota/a/zookeeper_stats", "count=0,bytes=0"),
        ("/a", ""),
        ("/a/b", "1234567890"),
    ] {
        assert_eq!(server.create(path, data.as_bytes()).err, 0, "{path}");
    }
    let told = |server: &mut Server| {
        std::mem::take(&mut server.alone.desk.replica.counts().quota_warnings)
    };
    assert_eq!(told(&mut server), [""; 0]);
    assert_eq!(server.create("/a/c", b"1").err, 0);
    let both =
        ["/a [current count=3, softCountLimit=2]", "/a [current bytes=11, hardByteLimit=10]"];
    assert_eq!(told(&mut server), both);
    let limits = bytes(&set_data("/zookeeper/quota/a/zookeeper_limits", b"none"));
    assert_eq!(server.ask(OpCode::SET_DATA, limits).err, 0);
    assert_eq!(server.create("/a/d", b"1").err, 0);
    assert_eq!(told(&mut server), [""; 0]);
}

#[test]
fn null_credentials_are_refused_where_the_scheme_reads_them() {
    let server = Server::new(Rules::default());
    let packet = hex("0000000000000006646967657374ffffffff");
    let AuthPacket { scheme, auth, .. } = AuthPacket::from_bytes(&packet).unwrap();
    assert_eq!(auth, None);
    let claim = Claim::new([127, 0, 0, 1].into(), auth);
    let (schemes, ids) = (&server.alone.common.schemes, server.client.conn().ids());
    let digest = schemes.authenticate(&ids, &scheme.unwrap(), &claim);
    digest.unwrap_err();
    let ip = schemes.authenticate(&ids, "ip", &claim).unwrap();
    assert_eq!(ip, Some(ids));
}

//! The maximum length of a log record, and its consequences for the ephemerals of a session and for
//! ACLs.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::Relaxed;

use zebu_jute::{Decode as _, Decoder, Encode as _, Encoder};
use zebu_proto::reply::ReplyHeader;
use zebu_proto::request::{Create, MultiHeader, PathOnly, PathVersion, PathWatch, SetAcl, SetData};
use zebu_proto::txn::{CreateTxn, Txn, TxnHeader, TxnRecord};
use zebu_proto::{
    Acl, AclRef, ErrorCode, Id, OpCode, Perms, SessionId, Stat, Version, WatcherType, Xid, Zxid,
};
use zebu_replica::auth::{AuthProvider, Claim, IDS_MAX, Schemes, Verdict};
use zebu_replica::{ANSWER_BYTES_MAX, After, LongRead, Reader, Rules, frame, waits_for_turn};
use zebu_tree::{Silent, Tree, WatcherId};

use crate::world::{EPHEMERAL, PERSISTENT, Server, tree};

const RECORD_BYTES: usize = 2000;

fn rules() -> Rules {
    Rules { record_bytes_max: RECORD_BYTES, ..Rules::default() }
}

fn create_body(path: &str, flags: i32, acl: &[Acl]) -> Vec<u8> {
    let acl = Some(acl.iter().map(AclRef::from).collect());
    Create { path: Some(path.into()), data: None, acl, flags }.to_bytes()
}

fn multi(creates: &[(&str, i32)]) -> Vec<u8> {
    let mut body = Vec::new();
    let mut out = Encoder::new(&mut body);
    for (path, flags) in creates {
        MultiHeader { op: OpCode::CREATE, done: false, err: -1 }.encode(&mut out);
        out.raw(&create_body(path, *flags, &Acl::open()));
    }
    MultiHeader::END.encode(&mut out);
    body
}

/// The errors of a multi that was logged.
fn multi_errors(record: &[u8]) -> Vec<ErrorCode> {
    match TxnRecord::decode(record).unwrap().txn {
        Txn::Multi(ops) => ops
            .into_iter()
            .filter_map(|(_, txn)| match txn {
                Txn::Error(code) => Some(code),
                _ => None,
            })
            .collect(),
        other => panic!("no multi: {other:?}"),
    }
}

#[test]
fn a_session_owns_no_more_than_its_end_can_list() {
    for flushes in [true, false] {
        let mut server = Server::with(tree(), rules(), 2);
        let name = |n: usize| format!("/{n:0>95}");
        let mut count = 0;
        loop {
            server.create(1, &name(count), EPHEMERAL);
            if flushes {
                server.flush();
            }
            if server.refusal().is_some() {
                break;
            }
            count += 1;
        }
        // The header, the number of paths and the digest take 48 bytes; each path 100.
        assert_eq!((count, server.refusal()), (19, Some(ErrorCode::QUOTA_EXCEEDED)));
        assert_eq!(server.replica.counts().ephemerals_refused, 1);
        // A shorter path fits. Other kinds of znodes and other sessions are not refused. A deleted
        // ephemeral makes room.
        server.create(1, "/fits", EPHEMERAL);
        assert_eq!(server.refusal(), None);
        server.create(1, &name(100), PERSISTENT);
        assert_eq!(server.refusal(), None);
        server.create(2, &name(101), EPHEMERAL);
        assert_eq!(server.refusal(), None);
        server.delete(1, &name(0));
        let two = [name(102), name(103)];
        server.request(1, OpCode::MULTI, multi(&[(&two[0], EPHEMERAL), (&two[1], EPHEMERAL)]));
        let refused = multi_errors(server.records.last().unwrap());
        assert_eq!(refused, [ErrorCode::OK, ErrorCode::QUOTA_EXCEEDED]);
        server.create(1, &name(0), EPHEMERAL);
        assert_eq!(server.refusal(), None);
        server.close(1);
        assert!(server.records.iter().all(|record| record.len() <= RECORD_BYTES));
        server.flush();
        assert_eq!(server.tree.ephemeral_count(SessionId(1)), 0);
        assert_eq!(server.tree.ephemeral_count(SessionId(2)), 1);
    }
}

#[test]
fn where_ends_list_nothing_a_session_may_own_any_number() {
    let rules = Rules { close_session_lists_paths: false, ..rules() };
    let mut server = Server::with(tree(), rules, 1);
    for n in 0..100 {
        server.create(1, &format!("/{n:0>95}"), EPHEMERAL);
        assert_eq!(server.refusal(), None);
    }
    server.close(1);
    server.flush();
    assert_eq!(server.tree.ephemerals_count(), 0);
}

#[test]
fn what_a_session_owns_is_known_whatever_is_in_flight() {
    let mut numbers = zebu_testkit::Random::new(7);
    let mut random = |below: u64| numbers.below(below);
    let mut server = Server::with(tree(), Rules { record_bytes_max: 548, ..Rules::default() }, 2);
    let fits = |owned: &BTreeSet<u64>| owned.len() < 5;
    let mut owned: [BTreeSet<u64>; 2] = Default::default();
    let (mut refused, mut created) = (0, 0);
    for _ in 0..4000 {
        let (session, n) = (random(2) as usize, random(14));
        let path = |n: u64| format!("/{n:0>95}");
        let free = |owned: &[BTreeSet<u64>; 2], n| owned.iter().all(|owned| !owned.contains(&n));
        match random(5) {
            0 => server.flush(),
            1 => {
                server.delete(session as i64 + 1, &path(n));
                owned.iter_mut().for_each(|owned| {
                    owned.remove(&n);
                });
            }
            2 => {
                // Both znodes are created, or neither.
                let other = (n + 1) % 14;
                let (one, two) = (path(n), path(other));
                let body = multi(&[(&one, EPHEMERAL), (&two, EPHEMERAL)]);
                server.request(session as i64 + 1, OpCode::MULTI, body);
                let mut after = owned.clone();
                let works = [n, other].into_iter().all(|n| {
                    let works = free(&after, n) && fits(&after[session]);
                    after[session].insert(n);
                    works
                });
                let errors = multi_errors(server.records.last().unwrap());
                assert_eq!(errors.is_empty(), works, "{errors:?}");
                if works {
                    owned = after;
                }
            }
            _ => {
                server.create(session as i64 + 1, &path(n), EPHEMERAL);
                let expected = match (free(&owned, n), fits(&owned[session])) {
                    (false, _) => Some(ErrorCode::NODE_EXISTS),
                    (true, false) => Some(ErrorCode::QUOTA_EXCEEDED),
                    (true, true) => None,
                };
                assert_eq!(server.refusal(), expected);
                refused += u32::from(expected == Some(ErrorCode::QUOTA_EXCEEDED));
                created += u32::from(expected.is_none());
                if expected.is_none() {
                    owned[session].insert(n);
                }
            }
        }
    }
    assert!(refused > 100 && created > 100, "{refused}, {created}");
}

/// A tree in which session 1 has many ephemerals, as a server without a limit leaves it: each with
/// its own parent, or all with one parent.
fn overloaded(parents: bool, ephemerals: bool) -> Tree {
    let mut tree = tree();
    let open = Acl::open();
    let mut zxid = 0;
    let mut apply = |op, session, txn| {
        zxid += 1;
        let header = TxnHeader { session, cxid: 0, zxid: Zxid(zxid), time_ms: 1, op };
        let record = TxnRecord { header, txn, digest: None };
        assert_eq!(tree.apply(&record, &mut Silent).err, ErrorCode::OK);
    };
    let create = |path: String, ephemeral| {
        let acl = open.iter().map(AclRef::from).collect();
        let path = path.into();
        Txn::Create(CreateTxn { path, data: None, acl, ephemeral, parent_cversion: -1, ttl_ms: 0 })
    };
    apply(OpCode::CREATE_SESSION, SessionId(1), Txn::CreateSession { timeout_ms: 30_000 });
    let parent = |n| if parents { format!("/{n:0>60}") } else { "/all".to_owned() };
    for n in 0..if parents { 100 } else { 1 } {
        apply(OpCode::CREATE, SessionId::NONE, create(parent(n), false));
    }
    for n in 0..if ephemerals { 100 } else { 0 } {
        let path = format!("{}/{n:0>40}", parent(n));
        apply(OpCode::CREATE, SessionId(1), create(path, true));
    }
    tree
}

#[test]
fn a_session_that_owns_too_much_already_ends_all_the_same() {
    for parents in [false, true] {
        let loaded = overloaded(parents, true);
        let mut server = Server::with(loaded, rules(), 0);
        assert_eq!(server.tree.ephemeral_count(SessionId(1)), 100);
        // The session expires.
        server.now.monotonic += std::time::Duration::from_secs(60);
        server.step(zebu_replica::Input::Tick);
        assert!(server.records.iter().all(|record| record.len() <= RECORD_BYTES));
        // One transaction is enough if the parents can be listed.
        assert_eq!(server.records.len() > 1, parents);
        server.flush();
        assert_eq!(server.tree.ephemerals_count(), 0);
        assert_eq!(server.tree.session_timeout(SessionId(1)), None);
        // Replayed over a snapshot that has the parents as they were, but no longer the ephemerals.
        let mut ahead = overloaded(parents, false);
        let mut whole = overloaded(parents, true);
        for record in &server.records {
            let record = TxnRecord::decode(record).unwrap();
            ahead.apply(&record, &mut Silent);
            assert!(whole.apply(&record, &mut Silent).digest_matches);
        }
        let pzxids = |tree: &Tree| -> BTreeSet<(String, Zxid)> {
            let root = tree.node("/").unwrap();
            let names = root.children().filter(|name| *name != "zookeeper");
            names.map(|name| (name.to_owned(), root.child(name).unwrap().stat().pzxid)).collect()
        };
        assert_eq!(pzxids(&ahead), pzxids(&whole));
    }
}

/// A scheme that accepts every identity.
struct Trusting;

impl AuthProvider for Trusting {
    fn scheme(&self) -> &str {
        "t"
    }

    fn authenticate(&self, claim: &Claim<'_>) -> Verdict {
        Ok(vec![Id::new("t", String::from_utf8_lossy(claim.data.unwrap_or_default()))])
    }

    fn is_authenticated(&self) -> bool {
        true
    }

    fn is_valid(&self, _: &str) -> bool {
        true
    }

    fn matches(&self, id: &str, expression: &str) -> bool {
        id == expression
    }
}

/// A request of the maximum length with the longest ids: its record can be logged, and the leader
/// accepts the forwarded request.
#[test]
fn the_limits_of_requests_ids_and_records_belong_together() {
    const EXTRA_BYTES: usize = 1024;
    for packet_bytes in [1000, 100_000, 0xf_ffff] {
        for extra_bytes in [EXTRA_BYTES, packet_bytes.max(EXTRA_BYTES)] {
            let record_bytes_max = packet_bytes + extra_bytes;
            let rules = Rules { record_bytes_max, ..Rules::default() };
            let mut server = Server::with(tree(), rules, 1);
            server.schemes =
                Schemes::new(vec![Box::new(Trusting)], false).limited(record_bytes_max);
            let peer = [127, 0, 0, 1].into();
            for n in 0..IDS_MAX {
                let auth = "i".repeat(packet_bytes / 10) + &n.to_string();
                let claim = Claim::new(peer, Some(auth.as_bytes()));
                let with = server.schemes.authenticate(&server.ids, "t", &claim);
                let Ok(Some(with)) = with else { break };
                server.ids = with;
            }
            let authinfo: usize =
                server.ids.iter().map(|id| 8 + id.scheme.len() + id.id.len()).sum();
            assert!(authinfo <= record_bytes_max);

            let auth = [Acl { perms: Perms(31), id: Id::new("auth", "") }];
            let open = Acl::open();
            let list = || Some(auth.iter().map(AclRef::from).collect());
            let data = |used: usize| vec![7; (packet_bytes - 100).saturating_sub(used)];
            let mut tried = 0;
            for used in [0, packet_bytes / 2, packet_bytes] {
                let data = data(used);
                let path = Some(format!("/n{used}").into());
                let create = Create { path, data: Some(&data), acl: list(), flags: 2 };
                server.request(1, OpCode::CREATE, create.to_bytes());
                let set = SetAcl { path: Some("/".into()), acl: list(), version: Version::ANY };
                server.request(1, OpCode::SET_ACL, set.to_bytes());
                // Sequential creates in a multi: the server appends ten bytes to each name.
                let mut body = Vec::new();
                let mut out = Encoder::new(&mut body);
                while out.position() + 100 < packet_bytes {
                    MultiHeader { op: OpCode::CREATE, done: false, err: -1 }.encode(&mut out);
                    let acl = if used == 0 { &auth[..] } else { &open[..] };
                    let acl = Some(acl.iter().map(AclRef::from).collect());
                    let create = Create { path: Some("/".into()), data: None, acl, flags: 2 };
                    create.encode(&mut out);
                }
                MultiHeader::END.encode(&mut out);
                server.request(1, OpCode::MULTI, body);
                tried += 3;
            }
            assert_eq!(server.records.len(), 1 + tried);
            let longest = server.records.iter().map(bytes::Bytes::len).max().unwrap();
            assert!(longest <= record_bytes_max, "{longest} with {packet_bytes}+{extra_bytes}");
            server.flush();
        }
    }
}

/// A scheme that counts how often an id is compared with an entry.
struct Counting(Arc<AtomicUsize>, bool);

impl AuthProvider for Counting {
    fn scheme(&self) -> &str {
        "c"
    }

    fn authenticate(&self, claim: &Claim<'_>) -> Verdict {
        Ok(vec![Id::new("c", String::from_utf8_lossy(claim.data.unwrap_or_default()))])
    }

    fn is_authenticated(&self) -> bool {
        true
    }

    fn is_valid(&self, _: &str) -> bool {
        true
    }

    fn matches(&self, id: &str, expression: &str) -> bool {
        self.0.fetch_add(1, Relaxed);
        id == expression
    }

    fn is_exact(&self) -> bool {
        self.1
    }
}

#[test]
fn a_long_acl_is_compared_once_in_a_list_and_many_ids_by_a_table() {
    const ENTRIES: usize = 1000;
    for (exact, many) in [(false, false), (true, true)] {
        let compared = Arc::new(AtomicUsize::new(0));
        let mut server = Server::with(tree(), Rules::default(), 1);
        let counting = Counting(compared.clone(), exact);
        server.schemes = Schemes::new(vec![Box::new(counting)], false);
        let peer = [127, 0, 0, 1].into();
        for n in 0..if many { 500 } else { 1 } {
            let auth = format!("me{n}");
            let claim = Claim::new(peer, Some(auth.as_bytes()));
            let added = server.schemes.authenticate(&server.ids, "c", &claim);
            server.ids = added.unwrap().unwrap();
        }
        // Only the last entry matches.
        let mut acl: Vec<Acl> = (0..ENTRIES)
            .map(|n| Acl { perms: Perms(31), id: Id::new("c", format!("somebody{n}")) })
            .collect();
        acl.push(Acl { perms: Perms(31), id: Id::new("c", "me0") });
        server.request(1, OpCode::CREATE, create_body("/n", PERSISTENT, &acl));
        server.flush();
        assert_eq!(server.refusal(), None);

        let mut body = Vec::new();
        let mut out = Encoder::new(&mut body);
        for _ in 0..200 {
            MultiHeader { op: OpCode::CHECK, done: false, err: -1 }.encode(&mut out);
            PathVersion { path: Some("/n".into()), version: Version::ANY }.encode(&mut out);
        }
        MultiHeader::END.encode(&mut out);
        compared.store(0, Relaxed);
        server.request(1, OpCode::MULTI, body);
        assert_eq!(multi_errors(server.records.last().unwrap()), []);

        let mut body = Vec::new();
        let mut out = Encoder::new(&mut body);
        for _ in 0..200 {
            MultiHeader { op: OpCode::GET_DATA, done: false, err: -1 }.encode(&mut out);
            PathWatch { path: Some("/n".into()), watch: false }.encode(&mut out);
        }
        MultiHeader::END.encode(&mut out);
        let (after, err, _) = read(&server, OpCode::MULTI_READ, &body, ANSWER_BYTES_MAX);
        assert_eq!((after, err), (After::Keep, ErrorCode::OK));
        let most = if exact { 0 } else { 2 * (ENTRIES + 1) };
        assert!(compared.load(Relaxed) <= most, "{}", compared.load(Relaxed));
    }
}

/// The answer to a read: the next step, the error and the body.
fn read(
    server: &Server,
    op: OpCode,
    body: &[u8],
    answer_bytes_max: usize,
) -> (After, ErrorCode, Vec<u8>) {
    let reader = Reader { answer_bytes_max, ..reader(server) };
    let mut answer = Vec::new();
    let after = reader.answer(&server.tree, Xid(1), op, body, &mut answer);
    let header = ReplyHeader::from_bytes(&answer[frame::LENGTH_BYTES..]).unwrap();
    (after, header.err, answer.split_off(frame::LENGTH_BYTES + 16))
}

#[test]
fn an_answer_that_is_too_long_is_an_error() {
    let mut server = Server::with(tree(), Rules::default(), 1);
    for n in 0..10 {
        server.create(1, &format!("/child-{n}"), EPHEMERAL);
    }
    server.flush();
    let path = PathWatch { path: Some("/".into()), watch: false }.to_bytes();
    let prefix = PathOnly { path: Some("/child".into()) }.to_bytes();
    let several = multi_read(&[(OpCode::GET_DATA, "/"), (OpCode::GET_CHILDREN, "/")]);
    let reads = [
        (OpCode::GET_CHILDREN, &path),
        (OpCode::GET_CHILDREN2, &path),
        (OpCode::GET_EPHEMERALS, &prefix),
        (OpCode::MULTI_READ, &several),
    ];
    for (op, body) in reads {
        let (after, err, body_there) = read(&server, op, body, 1000);
        assert_eq!((after, err), (After::Keep, ErrorCode::OK), "{op}");
        assert!(body_there.len() > 100);
        for most in [100, 10] {
            let (after, err, body_there) = read(&server, op, body, most);
            assert_eq!((after, err), (After::TooLong, ErrorCode::MARSHALLING_ERROR), "{op}");
            assert_eq!(body_there, [0_u8; 0]);
            // The same for a read in parts.
            let reader = Reader { answer_bytes_max: most, ..reader(&server) };
            let Some(mut long) = reader.begin(&server.tree, Xid(1), op, body) else { continue };
            while !reader.go_on(&server.tree, &mut long, 1) {}
            let mut answer = Vec::new();
            assert_eq!(finish(&reader, &server.tree, long, &mut answer), After::TooLong, "{op}");
            let header = ReplyHeader::from_bytes(&answer[frame::LENGTH_BYTES..]).unwrap();
            let nothing_else = answer.len() == frame::LENGTH_BYTES + 16;
            assert_eq!((header.err, nothing_else), (ErrorCode::MARSHALLING_ERROR, true));
        }
    }
}

/// The body of a multiRead.
fn multi_read(reads: &[(OpCode, &str)]) -> Vec<u8> {
    let mut body = Vec::new();
    let mut out = Encoder::new(&mut body);
    for (op, path) in reads {
        MultiHeader { op: *op, done: false, err: -1 }.encode(&mut out);
        PathWatch { path: Some((*path).into()), watch: false }.encode(&mut out);
    }
    MultiHeader::END.encode(&mut out);
    body
}

/// Appends the answer of a completed read.
fn finish(reader: &Reader<'_>, tree: &Tree, long: LongRead, out: &mut Vec<u8>) -> After {
    let (pieces, after) = reader.finish(tree, long);
    out.extend(pieces.concat());
    after
}

/// The answer for a caller that can wait, and the number of further turns that the answer takes.
fn read_in_parts(server: &Server, body: &[u8], budget: usize) -> (Vec<u8>, usize) {
    let (op, mut answer) = (OpCode::MULTI_READ, Vec::new());
    let reader = reader(server);
    match reader.answer_or_defer(&server.tree, Xid(1), op, body, &mut answer) {
        After::Keep => (answer, 0),
        After::Long => {
            assert_eq!(answer, [0_u8; 0], "nothing was answered");
            let mut long = reader.begin(&server.tree, Xid(1), op, body).unwrap();
            let mut parts = 1;
            while !reader.go_on(&server.tree, &mut long, budget) {
                parts += 1;
            }
            assert_eq!(finish(&reader, &server.tree, long, &mut answer), After::Keep);
            (answer, parts)
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_long_multi_read_is_made_in_parts_and_its_answer_is_the_same() {
    const BUDGET: usize = 8_192;
    let mut server = Server::with(tree(), Rules::default(), 1);
    for path in ["/t", "/t/1", "/t/2", "/large", "/long"] {
        server.create(1, path, PERSISTENT);
    }
    let [data, small] = [vec![7; 40 << 10], vec![7; 100]].map(|data| {
        let set = SetData { path: Some("/large".into()), data: Some(&data), version: Version::ANY };
        set.to_bytes()
    });
    server.request(1, OpCode::SET_DATA, data);
    let mine = [Acl { perms: Perms(31), id: Id::new("ip", "192.0.2.1") }];
    server.request(1, OpCode::CREATE, create_body("/mine", PERSISTENT, &mine));
    for n in 0..8_193 {
        server.create(1, &format!("/long/{n}"), PERSISTENT);
    }
    server.flush();
    let (data, list) = (OpCode::GET_DATA, OpCode::GET_CHILDREN);
    let mixed = [(data, "/t"), (list, "/t"), (data, "/none"), (list, "/mine")];
    let repeat = |reads: &[(OpCode, &'static str)], times| multi_read(&reads.repeat(times));
    let mut without_path = multi_read(&[(data, "/t"); 600]);
    without_path.truncate(without_path.len() - 9);
    let mut out = Encoder::new(&mut without_path);
    MultiHeader { op: data, done: false, err: -1 }.encode(&mut out);
    PathWatch { path: None, watch: false }.encode(&mut out);
    MultiHeader::END.encode(&mut out);
    let mut cut_short = multi_read(&[(data, "/t"); 3]);
    cut_short.truncate(cut_short.len() - 9);
    let cases = [
        // A few reads with short answers are one step. So is a long answer that is the last one.
        ("none", multi_read(&[]), 0),
        ("few", repeat(&mixed, 2), 0),
        ("as many as may be", repeat(&mixed, 128), 0),
        ("one large", multi_read(&[(data, "/large")]), 0),
        ("two large", multi_read(&[(data, "/large"); 2]), 0),
        // Other connections have their turn after 512 reads, 64 KiB, or 8192 children. The end
        // needs no step of its own unless the step before is full.
        ("many", repeat(&mixed, 129), 2),
        ("more", repeat(&mixed, 500), 4),
        ("much", multi_read(&[(data, "/large"); 10]), 6),
        ("a long list", multi_read(&[(data, "/t"), (list, "/long"), (list, "/t")]), 2),
        ("long lists", multi_read(&[(list, "/long"); 3]), 4),
        // Errors that end the whole multiRead.
        ("no path", without_path, 2),
        ("no end", cut_short, 0),
        ("writes", multi_read(&[(OpCode::CREATE, "/t")]), 0),
    ];
    for (name, body, expected) in &cases {
        let mut at_once = Vec::new();
        let op = OpCode::MULTI_READ;
        assert_eq!(
            reader(&server).answer(&server.tree, Xid(1), op, body, &mut at_once),
            After::Keep
        );
        let (answer, parts) = read_in_parts(&server, body, BUDGET);
        assert_eq!(parts, *expected, "parts of {name}");
        assert!(answer == at_once, "the answer to {name} depends on how it is made");
        // After a write, the multiRead waits for its turn if it needs several steps.
        let waits = waits_for_turn(op, body, || &server.tree);
        assert_eq!(waits, *expected > 0, "{name}");
    }
    // It does not depend on the budget either.
    for (name, body, _) in cases.iter().filter(|case| case.2 > 0) {
        let whole = read_in_parts(&server, body, BUDGET).0;
        let (answer, parts) = read_in_parts(&server, body, 500);
        assert!(parts > 1 && answer == whole, "{name}");
    }
    // The present content of the tree decides.
    server.request(1, OpCode::SET_DATA, small);
    server.flush();
    assert_eq!(read_in_parts(&server, &multi_read(&[(data, "/large"); 10]), BUDGET).1, 0);
}

#[test]
fn each_read_of_a_long_multi_read_is_of_one_moment() {
    let mut server = Server::with(tree(), Rules::default(), 1);
    server.create(1, "/t", PERSISTENT);
    for n in 0..8_193 {
        server.create(1, &format!("/t/{n}"), PERSISTENT);
    }
    server.create(1, "/gone", PERSISTENT);
    server.flush();
    let (data, list) = (OpCode::GET_DATA, OpCode::GET_CHILDREN);
    let reads = [(data, "/gone"), (list, "/t"), (data, "/gone"), (list, "/t/none")];
    let body = multi_read(&reads);
    let mut long = reader(&server).begin(&server.tree, Xid(1), OpCode::MULTI_READ, &body).unwrap();
    // The first read is done, and the list has begun.
    assert!(!reader(&server).go_on(&server.tree, &mut long, 4_000));
    server.delete(1, "/gone");
    server.delete(1, "/t/0");
    server.create(1, "/t/new", PERSISTENT);
    server.flush();
    while !reader(&server).go_on(&server.tree, &mut long, 4_000) {}
    let mut answer = Vec::new();
    assert_eq!(finish(&reader(&server), &server.tree, long, &mut answer), After::Keep);
    let header = ReplyHeader::from_bytes(&answer[frame::LENGTH_BYTES..]).unwrap();
    assert_eq!((header.zxid, header.err), (server.tree.last_zxid(), ErrorCode::OK));
    let answer = &answer[frame::LENGTH_BYTES + 16..];
    let from = &mut Decoder::new(answer);
    assert_eq!(MultiHeader::decode(from).unwrap(), MultiHeader { op: data, done: false, err: 0 });
    assert_eq!(from.buffer().unwrap(), Some(&b"x"[..]));
    Stat::decode(from).unwrap();
    assert_eq!(MultiHeader::decode(from).unwrap(), MultiHeader { op: list, done: false, err: 0 });
    let names = Vec::<String>::decode(from).unwrap();
    let expected: Vec<&str> = server.tree.node("/t").unwrap().children().collect();
    assert_eq!(names, expected);
    for _ in 0..2 {
        let header = MultiHeader::decode(from).unwrap();
        assert_eq!((header.op, header.err), (OpCode::ERROR, ErrorCode::NO_NODE.0));
        assert_eq!(from.int(), Ok(ErrorCode::NO_NODE.0));
    }
    assert_eq!(MultiHeader::decode(from).unwrap(), MultiHeader::END);
    assert_eq!(from.remaining(), 0);
}

#[test]
fn a_read_that_takes_long_goes_on_while_the_tree_changes() {
    let mut server = Server::with(tree(), Rules::default(), 1);
    server.create(1, "/t", PERSISTENT);
    for n in 0..10 {
        server.create(1, &format!("/t/{n}"), PERSISTENT);
        server.create(1, &format!("/t/{n}/below"), EPHEMERAL);
    }
    server.create(1, "/other", EPHEMERAL);
    server.flush();
    let begin = |server: &Server, op, path: &'static str| {
        let body = PathOnly { path: Some(path.into()) }.to_bytes();
        reader(server).begin(&server.tree, Xid(1), op, &body).unwrap()
    };
    let finish = |server: &Server, long| {
        let mut out = Vec::new();
        assert_eq!(finish(&reader(server), &server.tree, long, &mut out), After::Keep);
        out.split_off(frame::LENGTH_BYTES + 16)
    };
    for deleted in [None, Some("/t/3/below"), Some("/t/0/below")] {
        let mut count = begin(&server, OpCode::GET_ALL_CHILDREN_NUMBER, "/t");
        let mut list = begin(&server, OpCode::GET_EPHEMERALS, "/t/");
        let before = server.tree.ephemeral_count(SessionId(1)) - 1;
        let mut steps = 0;
        while !reader(&server).go_on(&server.tree, &mut count, 3) {
            reader(&server).go_on(&server.tree, &mut list, 1);
            steps += 1;
            if steps == 2
                && let Some(path) = deleted
            {
                server.delete(1, path);
                server.flush();
            }
        }
        assert!(steps >= 5);
        while !reader(&server).go_on(&server.tree, &mut list, 1) {}
        let count = i32::from_bytes(&finish(&server, count)).unwrap() as usize;
        let list = Vec::<String>::from_bytes(&finish(&server, list)).unwrap();
        let least = before - usize::from(deleted.is_some());
        assert!((10 + least..=10 + before).contains(&count), "{count}");
        assert!((least..=before).contains(&list.len()), "{list:?}");
    }
    // The znode whose descendants are counted is deleted.
    let mut count = begin(&server, OpCode::GET_ALL_CHILDREN_NUMBER, "/t/5");
    server.delete(1, "/t/5/below");
    server.delete(1, "/t/5");
    server.flush();
    assert!(reader(&server).go_on(&server.tree, &mut count, 1));
    assert_eq!(finish(&server, count), 0_i32.to_be_bytes());
}

#[test]
fn a_long_list_of_children_is_of_one_moment() {
    const CHILDREN: usize = 8_200;
    let mut server = Server::with(tree(), Rules::default(), 1);
    server.create(1, "/t", PERSISTENT);
    for n in 0..CHILDREN {
        server.create(1, &format!("/t/{n}"), PERSISTENT);
    }
    server.flush();
    let begin = |server: &Server, path: &'static str| {
        let body = PathWatch { path: Some(path.into()), watch: true }.to_bytes();
        reader(server).begin(&server.tree, Xid(1), OpCode::GET_CHILDREN, &body)
    };
    let finish = |server: &Server, long| {
        let mut out = Vec::new();
        assert_eq!(finish(&reader(server), &server.tree, long, &mut out), After::Keep);
        let err = i32::from_be_bytes(*out[frame::LENGTH_BYTES + 12..].first_chunk().unwrap());
        (ErrorCode(err), out.split_off(frame::LENGTH_BYTES + 16))
    };
    let names = |body: &[u8]| Vec::<String>::from_bytes(body).unwrap();
    let is_watched =
        |server: &Server| server.tree.has_watch("/t", WatcherId(1), WatcherType::Children);
    assert!(begin(&server, "/t/1").is_none(), "a short list is made at once");
    // The list ends however often the children change, and has the children of its last moment.
    for changes in [0, 1, 3, 4, 100] {
        let mut list = begin(&server, "/t").unwrap();
        let (mut made, mut steps) = (0, 0);
        while !reader(&server).go_on(&server.tree, &mut list, 4_000) {
            assert!(!is_watched(&server), "the watch comes with the list");
            steps += 1;
            if made < changes {
                made += 1;
                server.create(1, "/t/new", PERSISTENT);
                server.delete(1, "/t/new");
                server.create(1, "/t/new", PERSISTENT);
                server.flush();
            }
        }
        assert!((2..=16).contains(&steps), "{steps} steps with {changes} changes");
        assert!(is_watched(&server));
        let (err, body) = finish(&server, list);
        let expected: Vec<&str> = server.tree.node("/t").unwrap().children().collect();
        assert_eq!(
            (err, names(&body)),
            (ErrorCode::OK, expected.iter().map(ToString::to_string).collect())
        );
        server.delete(1, if made > 0 { "/t/new" } else { "/t/0" });
        server.flush();
        assert!(!is_watched(&server), "the next change takes it");
    }
    // The znode may be deleted, or become unreadable for this client.
    let mut list = begin(&server, "/t").unwrap();
    assert!(!reader(&server).go_on(&server.tree, &mut list, 1));
    for n in 1..CHILDREN {
        server.delete(1, &format!("/t/{n}"));
    }
    server.delete(1, "/t");
    server.flush();
    assert!(reader(&server).go_on(&server.tree, &mut list, 1));
    assert_eq!(finish(&server, list), (ErrorCode::NO_NODE, vec![]));
}

fn reader(server: &Server) -> Reader<'_> {
    Reader {
        schemes: &server.schemes,
        watcher: WatcherId(1),
        session: SessionId(1),
        ids: &server.ids,
        answer_bytes_max: ANSWER_BYTES_MAX,
    }
}

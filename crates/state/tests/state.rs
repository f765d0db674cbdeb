//! Trees that are changed or replaced during other operations, on a disk in memory.

use std::ops::ControlFlow;
use std::path::Path;
use std::sync::Arc;

use bytes::BytesMut;
use zebu_jute::Encoder;
use zebu_proto::txn::{CreateTxn, Txn, TxnHeader, TxnRecord};
use zebu_proto::{Epoch, OpCode, SessionId, Zxid};
use zebu_state::{LogRange, Outline, Rebuild, Receiving, Sending, Step, read_log, truncate};
use zebu_store::vfs::MemVfs;
use zebu_store::{Recover as _, Snapshots, Store, TxnLog};
use zebu_tree::{Options, Silent, Tree};
use zebu_zab::LinkId;

const OPTIONS: Options = Options {
    types: zebu_proto::ExtendedTypes { enabled: true, emulate_353: false },
    digest: true,
    hash_seed: 7,
};

fn at(counter: u32) -> Zxid {
    Zxid::new(Epoch(1), counter)
}

/// Splitting the bytes among three threads gives the same result as one thread, which only sees
/// whole records.
#[test]
fn all_parts_of_what_is_received_end_together() {
    let (mut tree, _, snapshots) = disk();
    (1..=9).for_each(|counter| apply(&mut tree, counter));
    let mut bytes = Vec::new();
    let mut sending = Sending::begin(&tree, &mut bytes);
    while sending.step(&tree, 1, &mut bytes) == Step::More {}
    for part in [1, 7, 64, bytes.len()] {
        let receiving = Receiving::begin(&snapshots, sending.zxid(), OPTIONS, 1 << 20).unwrap();
        let (mut cutting, mut filing, mut entering) = receiving.split();
        let mut received = Vec::new();
        for part in bytes.chunks(part) {
            received.extend_from_slice(part);
            let cut = cutting.cut(&received).unwrap();
            filing.take(&received[..cut.content]).unwrap();
            entering.take(&received[..cut.bytes]).unwrap();
            received.drain(..cut.bytes);
            assert_eq!(cutting.is_done(), entering.is_done());
        }
        let entered = entering.complete().unwrap();
        assert_eq!((entered.last_zxid(), entered.digest()), (at(9), tree.digest()));
        assert!(entered.sessions().eq(tree.sessions()));
        assert_eq!(cutting.znodes(), tree.znode_count() as u64);
        let file = filing.complete().unwrap();
        assert_eq!(file.zxid(), at(9));
    }
}

/// The record of a new session. Its id is the transaction's number.
fn record(counter: u32) -> Vec<u8> {
    let session = SessionId(counter.into());
    let (zxid, op) = (at(counter), OpCode::CREATE_SESSION);
    let header = TxnHeader { session, cxid: 0, zxid, time_ms: 1, op };
    let txn = Txn::CreateSession { timeout_ms: 30_000 };
    let mut body = Vec::new();
    TxnRecord { header, txn, digest: None }.encode(&mut Encoder::new(&mut body));
    body
}

fn apply(tree: &mut Tree, counter: u32) {
    tree.apply(&TxnRecord::decode(&record(counter)).unwrap(), &mut Silent);
}

fn disk() -> (Tree, TxnLog, Snapshots) {
    let vfs = MemVfs::new(Path::new("/d"));
    let options = zebu_store::Options { member: true, ..zebu_store::Options::new("/d") };
    let mut store = Store::open(Arc::new(vfs), options).unwrap();
    let mut rebuild = Rebuild::new(OPTIONS);
    store.recover(&mut rebuild).unwrap();
    let tree = rebuild.finish().tree;
    let (log, snapshots) = store.split();
    let mut first = Outline::of(&tree).begin(&snapshots).unwrap();
    assert_eq!(first.step(&tree, usize::MAX, usize::MAX), Step::Done);
    first.finish(true, true).unwrap();
    (tree, log, snapshots)
}

fn append(log: &mut TxnLog, counters: std::ops::RangeInclusive<u32>) {
    counters.for_each(|counter| log.append(at(counter), &record(counter)));
    log.commit().unwrap();
}

#[test]
fn a_tree_that_is_ahead_of_a_truncation_is_replaced() {
    let (mut tree, mut log, _) = disk();
    append(&mut log, 1..=3);
    (1..=3).for_each(|counter| apply(&mut tree, counter));
    let (end, replaced) = truncate(&mut log, at(2), tree.last_zxid(), OPTIONS).unwrap();
    assert_eq!(end, Some(at(2)));
    let replaced = replaced.expect("it had what is no more");
    assert_eq!(replaced.last_zxid(), at(2));
    assert_eq!(replaced.session_timeout(SessionId(2)), Some(30_000));
    assert_eq!(replaced.session_timeout(SessionId(3)), None);
}

/// Transactions that it has not applied are delivered afterwards, from the first one on.
#[test]
fn a_tree_that_is_behind_a_truncation_stays() {
    let (mut tree, mut log, _) = disk();
    append(&mut log, 1..=3);
    apply(&mut tree, 1);
    let (end, replaced) = truncate(&mut log, at(2), tree.last_zxid(), OPTIONS).unwrap();
    assert_eq!(end, Some(at(2)));
    assert!(replaced.is_none());
}

#[test]
fn whatever_walks_through_a_tree_that_is_replaced_is_given_up() {
    let (tree, _, snapshots) = disk();
    let mut taking = Outline::of(&tree).begin(&snapshots).unwrap();
    assert_eq!(taking.step(&tree, 1, usize::MAX), Step::More);
    let mut out = Vec::new();
    let mut sending = Sending::begin(&tree, &mut out);
    let other = Tree::new(OPTIONS);
    assert_eq!(taking.step(&other, 1, usize::MAX), Step::Replaced);
    assert_eq!(sending.step(&other, 1, &mut out), Step::Replaced);
}

#[test]
fn a_log_is_read_no_further_than_somebody_wants_it() {
    let (_, mut log, snapshots) = disk();
    append(&mut log, 1..=9);
    for wanted in 1..4 {
        let range = LogRange {
            link: LinkId(1),
            after: at(1),
            up_to: at(9),
            share: 0.0,
            // One part for each transaction.
            part_bytes: 1,
        };
        let mut parts = 0;
        let read = read_log(&snapshots, range, &mut |_| {
            parts += 1;
            if parts < wanted { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
        });
        read.unwrap();
        assert_eq!(parts, wanted);
    }
}

#[test]
fn a_tree_that_is_sent_byte_by_byte_is_the_same_and_its_digests_wait() {
    let (mut tree, _, snapshots) = disk();
    (1..=9).for_each(|counter| apply(&mut tree, counter));
    let mut bytes = Vec::new();
    let mut sending = Sending::begin(&tree, &mut bytes);
    while sending.step(&tree, 1, &mut bytes) == Step::More {}
    bytes.extend_from_slice(b"next");
    let mut receiving = Receiving::begin(&snapshots, sending.zxid(), OPTIONS, 1 << 20).unwrap();
    let (mut received, mut fed) = (BytesMut::new(), 0);
    while !receiving.take(&mut received).unwrap() {
        received.extend_from_slice(&bytes[fed..=fed]);
        fed += 1;
    }
    assert_eq!(&bytes[fed..], b"next", "what comes behind it is left alone");
    let copied = receiving.complete().unwrap();
    assert_eq!(copied.tree.last_zxid(), at(9));
    assert_eq!(copied.tree.digest(), tree.digest());
    assert!(copied.tree.sessions().eq(tree.sessions()));
    assert_eq!(copied.file.zxid(), at(9));
}

#[test]
fn a_step_of_a_snapshot_ends_by_bytes_as_well() {
    let (mut tree, _, snapshots) = disk();
    let data = vec![7; 100_000];
    for counter in 1..=9 {
        let header = TxnHeader {
            session: SessionId::NONE,
            cxid: 0,
            zxid: at(counter),
            time_ms: 1,
            op: OpCode::CREATE,
        };
        let txn = Txn::Create(CreateTxn {
            path: format!("/{counter}").into(),
            data: Some(&data),
            acl: Vec::new(),
            ephemeral: false,
            parent_cversion: -1,
            ttl_ms: 0,
        });
        tree.apply(&TxnRecord { header, txn, digest: None }, &mut Silent);
    }
    let mut taking = Outline::of(&tree).begin(&snapshots).unwrap();
    let mut steps = 1;
    while taking.step(&tree, 512, 150_000) == Step::More {
        taking.flush().unwrap();
        steps += 1;
    }
    assert!((5..=6).contains(&steps), "two large znodes at once: {steps}");
    taking.flush().unwrap();
    taking.finish(true, true).unwrap();
}

/// Creates, changes and removes znodes, also ones that do not exist, in single transactions and
/// multis.
fn change(counter: u32) -> Vec<u8> {
    let path = |number: u32| match number % 3 {
        0 => format!("/p{}", number % 50),
        _ => format!("/p{}/n{}", number % 50, number % 700),
    };
    let create = |number| {
        let acl = Vec::new();
        let (path, data, parent_cversion) = (path(number).into(), Some(&b"new"[..]), -1);
        Txn::Create(CreateTxn { path, data, acl, ephemeral: false, parent_cversion, ttl_ms: 0 })
    };
    let set = |number| {
        let (path, data) = (path(number).into(), Some(&b"other data"[..]));
        Txn::SetData { path, data, version: counter as i32 }
    };
    let (op, txn) = match counter % 7 {
        0 => (OpCode::DELETE, Txn::Delete { path: path(counter * 5).into() }),
        1 => (OpCode::SET_DATA, set(counter * 3)),
        2 => {
            let ops = [(OpCode::CREATE, create(counter)), (OpCode::SET_DATA, set(counter * 11))];
            (OpCode::MULTI, Txn::Multi(ops.into()))
        }
        _ => (OpCode::CREATE, create(counter)),
    };
    let header = TxnHeader { session: SessionId(1), cxid: 0, zxid: at(counter), time_ms: 1, op };
    let mut body = Vec::new();
    TxnRecord { header, txn, digest: None }.encode(&mut Encoder::new(&mut body));
    body
}

#[test]
fn transactions_applied_together_do_what_each_of_them_does() {
    let bodies: Vec<Vec<u8>> = (1..=5_000).map(change).collect();
    let begin = || {
        let mut rebuild = Rebuild::new(OPTIONS);
        rebuild.restart();
        rebuild.loaded(Zxid::ZERO).unwrap();
        rebuild
    };
    let mut alone = begin();
    bodies.iter().for_each(|body| alone.txn(body).unwrap());
    let alone = alone.finish().tree;
    assert!(alone.znode_count() > 400, "{}", alone.znode_count());
    for together in [1, 64, 65, 1_000, 5_000] {
        let mut rebuild = begin();
        for bodies in bodies.chunks(together) {
            rebuild.txns(bodies.iter().map(Vec::as_slice)).unwrap();
        }
        let tree = rebuild.finish().tree;
        assert_eq!((tree.last_zxid(), tree.digest()), (alone.last_zxid(), alone.digest()));
        assert_eq!(tree.znode_count(), alone.znode_count());
        assert_eq!(tree.approximate_data_size(), alone.approximate_data_size());
    }
}

//! The order of children and ephemerals is that of their creation, however the tree was built.

mod common;

use common::*;
use zebu_proto::txn::Txn;
use zebu_proto::{OpCode, StatPersisted, Zxid};
use zebu_tree::{Loader, Silent, Tree};

fn children_of(tree: &Tree, path: &str) -> Vec<String> {
    tree.node(path).unwrap().children().map(str::to_owned).collect()
}

#[test]
fn children_come_in_the_order_of_their_creation() {
    let mut tree = tree();
    ok(&mut tree, &create(1, "/a", b""));
    assert!(children_of(&tree, "/a").is_empty());
    for (zxid, path) in [(2, "/a/e"), (3, "/a/b"), (4, "/a/d"), (5, "/a/c"), (6, "/a/d/x")] {
        ok(&mut tree, &create(zxid, path, b""));
    }
    assert_eq!(children_of(&tree, "/a"), ["e", "b", "d", "c"]);
    // A child from the middle, the newest and the oldest one. Each is created again, and is then
    // the last.
    ok(&mut tree, &delete(7, "/a/b"));
    assert_eq!(children_of(&tree, "/a"), ["e", "d", "c"]);
    ok(&mut tree, &delete(8, "/a/c"));
    ok(&mut tree, &create(9, "/a/c", b""));
    ok(&mut tree, &delete(10, "/a/e"));
    ok(&mut tree, &create(11, "/a/b", b""));
    assert_eq!(children_of(&tree, "/a"), ["d", "c", "b"]);
    for (zxid, path) in [(12, "/a/b"), (13, "/a/c"), (14, "/a/d/x"), (15, "/a/d")] {
        ok(&mut tree, &delete(zxid, path));
    }
    assert!(children_of(&tree, "/a").is_empty());
    ok(&mut tree, &create(16, "/a/last", b""));
    assert_eq!(children_of(&tree, "/a"), ["last"]);
}

#[test]
fn children_keep_the_order_of_their_creation_in_snapshots() {
    let mut tree = tree();
    for (zxid, path) in [(1, "/a"), (2, "/a/e"), (3, "/a/b"), (4, "/a/e/x"), (6, "/a/d")] {
        ok(&mut tree, &create(zxid, path, b""));
    }
    // Within one transaction.
    let both =
        ["/a/z", "/a/c", "/a/y"].map(|path| (OpCode::CREATE, Txn::Create(create_txn(path, b""))));
    tree.apply(&record(7, OpCode::MULTI, Txn::Multi(both.into())), &mut Silent);
    let order = ["e", "b", "d", "z", "c", "y"];
    assert_eq!(children_of(&tree, "/a"), order);
    let again = reload(&tree);
    assert_eq!(children_of(&again, "/a"), order);
    assert_eq!(children_of(&reload(&again), "/a"), order);
}

#[test]
fn children_that_a_snapshot_has_in_another_order_come_in_that_of_their_creation() {
    let mut loader = Loader::new(options());
    let born = |zxid| StatPersisted { czxid: Zxid(zxid), ..StatPersisted::default() };
    let nodes = [
        ("", 0),
        ("/q", 1),
        ("/q/n3", 4),
        ("/q/n1", 2),
        ("/q/n1/b", 8),
        ("/q/n1/a", 9),
        ("/q/n4", 5),
        ("/q/n0", 1),
        ("/q/n2", 3),
        ("/r", 7),
        ("/r/y", 9),
        ("/r/x", 8),
        ("/r/z", 10),
    ];
    for (path, zxid) in nodes {
        loader.node(path, Some(b""), -1, &born(zxid)).unwrap();
    }
    let mut tree = loader.finish().unwrap();
    assert_eq!(children_of(&tree, "/q"), ["n0", "n1", "n2", "n3", "n4"]);
    assert_eq!(children_of(&tree, "/q/n1"), ["b", "a"]);
    assert_eq!(children_of(&tree, "/r"), ["x", "y", "z"]);
    for (zxid, path) in [(11, "/q/n0"), (12, "/q/n4"), (13, "/q/n2"), (14, "/q/n3")] {
        ok(&mut tree, &delete(zxid, path));
    }
    assert_eq!(children_of(&tree, "/q"), ["n1"]);
}

#[test]
fn children_come_in_the_order_of_their_creation_after_replay_over_a_fuzzy_snapshot() {
    // Before the snapshot began, b existed. It was deleted and created again, and a was created,
    // before the walk visited them.
    let log = [delete(3, "/q/b"), create(4, "/q/b", b""), create(5, "/q/a", b"")];
    let mut fuzzy = tree();
    for txn in [create(1, "/q", b""), create(2, "/q/b", b"")].iter().chain(&log) {
        ok(&mut fuzzy, txn);
    }
    let mut tree = reload(&fuzzy);
    tree.set_last_zxid(Zxid(2));
    for txn in &log {
        apply(&mut tree, txn);
    }
    assert_eq!(children_of(&tree, "/q"), ["b", "a"]);
}

#[test]
fn ephemerals_of_a_session_come_in_the_order_of_their_creation() {
    let mut tree = tree();
    for (zxid, path) in [(1, "/a"), (2, "/b"), (3, "/c")] {
        ok(&mut tree, &ephemeral(zxid, path, SESSION));
    }
    // A new znode may reuse the memory of a deleted one.
    ok(&mut tree, &delete(4, "/a"));
    ok(&mut tree, &ephemeral(5, "/d", SESSION));
    let paths: Vec<String> = tree.ephemerals(SESSION).collect();
    assert_eq!(paths, ["/b", "/c", "/d"]);
    assert_eq!(reload(&tree).ephemerals(SESSION).collect::<Vec<_>>(), paths);
}

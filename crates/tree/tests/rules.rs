//! The effects of each transaction on the tree, rule by rule.

mod common;

use common::*;
use zebu_proto::txn::{CreateTxn, Txn, TxnDigest};
use zebu_proto::{ErrorCode, OpCode, Owner, SessionId, Zxid};
use zebu_tree::{Loader, Options, Outcome, QuotaText, Silent, Tree};

fn parent(tree: &Tree) -> (i32, i64) {
    let stat = tree.node("/p").unwrap().persisted();
    (stat.cversion, stat.pzxid.0)
}

#[test]
fn anything_malformed_is_just_not_there() {
    let mut tree = tree();
    ok(&mut tree, &create(1, "/a", b""));
    assert!(tree.node("").is_some() && tree.node("/").is_some());
    for path in ["a", "/a/", "//a", "/a//", "//", "/a/b", "x/a"] {
        assert!(tree.node(path).is_none(), "{path}");
    }
}

#[test]
fn a_new_znode_has_versions_0_and_its_zxid_three_times() {
    let mut tree = tree();
    let txn = create(9, "/p", b"abc");
    let result = apply(&mut tree, &txn);
    assert_eq!((result.err, result.path), (ErrorCode::OK, Some("/p")));
    let stat = result.stat.unwrap();
    assert_eq!((stat.czxid, stat.mzxid, stat.pzxid), (Zxid(9), Zxid(9), Zxid(9)));
    assert_eq!((stat.ctime, stat.mtime), (time_of(9), time_of(9)));
    assert_eq!((stat.version, stat.cversion, stat.aversion), (0, 0, 0));
    assert_eq!((stat.data_length, stat.num_children), (3, 0));
    assert_eq!(tree.node("/p").unwrap().stat(), stat);
    assert_eq!(tree.last_zxid(), Zxid(9));
}

#[test]
fn null_data_are_not_empty_data() {
    let mut tree = tree();
    let txn = CreateTxn { data: None, ..create_txn("/p", b"") };
    ok(&mut tree, &record(1, OpCode::CREATE, Txn::Create(txn)));
    assert_eq!(tree.node("/p").unwrap().data(), None);
    ok(&mut tree, &set(2, "/p", b"", 1));
    assert_eq!(tree.node("/p").unwrap().data(), Some(&[][..]));
    let null = Txn::SetData { path: "/p".into(), data: None, version: 2 };
    ok(&mut tree, &record(3, OpCode::SET_DATA, null));
    assert_eq!(tree.node("/p").unwrap().data(), None);
}

#[test]
fn the_parents_cversion_is_that_of_the_txn_and_never_goes_down() {
    let mut tree = tree();
    ok(&mut tree, &create(1, "/p", b""));
    ok(&mut tree, &create_at(2, "/p/a", 5));
    assert_eq!(parent(&tree), (5, 2));
    ok(&mut tree, &create_at(3, "/p/b", 4));
    assert_eq!(parent(&tree), (5, 2), "an older cversion changes nothing, pzxid neither");
    ok(&mut tree, &create_at(4, "/p/c", -1));
    assert_eq!(parent(&tree), (6, 4), "-1 is one more");
    ok(&mut tree, &create_at(5, "/p/d", i32::MAX));
    ok(&mut tree, &create_at(6, "/p/e", -1));
    assert_eq!(parent(&tree), (i32::MAX, 5), "the wrapped counter is not larger");
    assert_eq!(tree.node("/p").unwrap().stat().cversion, i32::MAX.wrapping_mul(2).wrapping_sub(5));
}

#[test]
fn a_delete_raises_pzxid_only_and_only_up() {
    let mut tree = tree();
    ok(&mut tree, &create(1, "/p", b""));
    ok(&mut tree, &create(2, "/p/a", b""));
    ok(&mut tree, &create(3, "/p/b", b""));
    ok(&mut tree, &delete(7, "/p/a"));
    assert_eq!(parent(&tree), (2, 7));
    ok(&mut tree, &delete(5, "/p/b"));
    assert_eq!(parent(&tree), (2, 7));
    assert_eq!(tree.last_zxid(), Zxid(7), "last zxid never decreases");
    assert_eq!(tree.node("/p").unwrap().stat().cversion, 4);
}

#[test]
fn zookeeper_3249_create_over_an_existing_znode_raises_the_parent() {
    let mut tree = tree();
    ok(&mut tree, &create(1, "/p", b""));
    ok(&mut tree, &create_at(2, "/p/a", 1));
    let again = create_at(9, "/p/a", 4);
    assert_eq!(apply(&mut tree, &again).err, ErrorCode::NODE_EXISTS);
    assert_eq!(parent(&tree), (4, 9));
    assert_eq!(tree.node("/p/a").unwrap().persisted().czxid, Zxid(2), "the znode stays as it is");
    let older = create_at(10, "/p/a", 3);
    assert_eq!(apply(&mut tree, &older).err, ErrorCode::NODE_EXISTS);
    assert_eq!(parent(&tree), (4, 9));
    assert_eq!(tree.digest(), digest_from_scratch(&tree));
}

#[test]
fn zookeeper_4846_create_over_an_existing_znode_replaces_its_acl() {
    let mut tree = tree();
    ok(&mut tree, &create(1, "/a", b""));
    let txn = CreateTxn { acl: acl_of(1, "ip", "10.0.0.1"), ..create_txn("/a", b"") };
    apply(&mut tree, &record(2, OpCode::CREATE2, Txn::Create(txn)));
    assert_eq!(tree.node("/a").unwrap().acl()[0].id.scheme, "ip");
    assert_eq!(tree.acl_table().len(), 2, "the list it had is gone");
}

#[test]
fn an_acl_the_snapshot_does_not_have_lets_nobody_in_until_replay() {
    let mut loader = Loader::new(options());
    let stat = Default::default();
    loader.node("", Some(b""), -1, &stat).unwrap();
    loader.node("/a", Some(b""), 17, &stat).unwrap();
    assert_eq!(loader.unknown_acls(), 1);
    let mut tree = loader.finish().unwrap();
    let perms: i32 = tree.node("/a").unwrap().acl().iter().map(|acl| acl.perms.0).sum();
    assert_eq!(perms, 0);
    apply(&mut tree, &create(2, "/a", b""));
    assert_eq!(tree.node("/a").unwrap().acl()[0].perms.0, 31);
}

#[test]
fn zookeeper_3127_delete_of_a_missing_znode_raises_the_parents_pzxid() {
    let mut tree = tree();
    ok(&mut tree, &create(1, "/p", b""));
    assert_eq!(apply(&mut tree, &delete(8, "/p/gone")).err, ErrorCode::NO_NODE);
    assert_eq!(parent(&tree), (0, 8));
    assert_eq!(apply(&mut tree, &delete(9, "/nowhere/gone")).err, ErrorCode::NO_NODE);
    assert_eq!(apply(&mut tree, &create(10, "/nowhere/new", b"")).err, ErrorCode::NO_NODE);
    assert_eq!(apply(&mut tree, &set(11, "/nowhere", b"", 1)).err, ErrorCode::NO_NODE);
    assert_eq!(tree.last_zxid(), Zxid(11));
    assert_eq!(tree.digest(), digest_from_scratch(&tree));
}

#[test]
fn replaying_the_delete_of_a_znode_from_a_later_life_takes_its_children_along() {
    let mut tree = tree();
    ok(&mut tree, &create(1, "/p", b"12"));
    ok(&mut tree, &create(2, "/p/a", b"345"));
    ok(&mut tree, &ephemeral(3, "/p/a/e", SESSION));
    ok(&mut tree, &create(4, "/p/b", b""));
    ok(&mut tree, &delete(5, "/p"));
    assert_eq!(tree.znode_count(), 4);
    assert_eq!(tree.ephemerals_count(), 0);
    assert_eq!(tree.approximate_data_size(), 44);
    assert_eq!(tree.digest(), digest_from_scratch(&tree));
}

#[test]
fn set_data_takes_the_version_of_the_txn() {
    let mut tree = tree();
    ok(&mut tree, &create(1, "/a", b""));
    let txn = set(2, "/a", b"xy", 41);
    let stat = apply(&mut tree, &txn).stat.unwrap();
    assert_eq!((stat.version, stat.mzxid, stat.mtime), (41, Zxid(2), time_of(2)));
    assert_eq!((stat.czxid, stat.ctime, stat.pzxid), (Zxid(1), time_of(1), Zxid(1)));
    let config = "/zookeeper/config";
    let txn = Txn::SetData { path: config.into(), data: Some(b"version=3"), version: -1 };
    ok(&mut tree, &record(3, OpCode::RECONFIG, txn));
    assert_eq!(tree.node(config).unwrap().stat().version, -1);
}

#[test]
fn set_acl_changes_aversion_and_nothing_else() {
    let mut tree = tree();
    ok(&mut tree, &create(1, "/a", b""));
    let before = tree.node("/a").unwrap().persisted();
    let txn = Txn::SetAcl { path: "/a".into(), acl: acl_of(1, "world", "anyone"), version: 7 };
    let txn = record(2, OpCode::SET_ACL, txn);
    let stat = apply(&mut tree, &txn).stat.unwrap();
    assert_eq!(stat.aversion, 7);
    let mut after = tree.node("/a").unwrap().persisted();
    after.aversion = before.aversion;
    assert_eq!(after, before);
}

#[test]
fn acl_lists_are_numbered_upwards_and_dropped_with_their_last_znode() {
    let mut tree = tree();
    let ids = |tree: &Tree| tree.acl_table().map(|(id, _)| id).collect::<Vec<_>>();
    assert_eq!(ids(&tree), [1], "the configuration's");
    ok(&mut tree, &create(1, "/a", b""));
    ok(&mut tree, &create(2, "/b", b""));
    assert_eq!(tree.node("/").unwrap().acl_id(), -1);
    assert_eq!((tree.node("/a").unwrap().acl_id(), tree.node("/b").unwrap().acl_id()), (2, 2));
    ok(&mut tree, &delete(3, "/a"));
    assert_eq!(ids(&tree), [1, 2]);
    ok(&mut tree, &delete(4, "/b"));
    assert_eq!(ids(&tree), [1]);
    ok(&mut tree, &create(5, "/a", b""));
    assert_eq!(ids(&tree), [1, 3]);
}

#[test]
fn owners_of_containers_ttl_znodes_and_ephemerals() {
    let mut tree = tree();
    ok(&mut tree, &record(1, OpCode::CREATE_CONTAINER, Txn::Create(create_txn("/c", b""))));
    let ttl = CreateTxn { ttl_ms: 500, ..create_txn("/t", b"") };
    ok(&mut tree, &record(2, OpCode::CREATE_TTL, Txn::Create(ttl)));
    ok(&mut tree, &ephemeral(3, "/e", SESSION));
    ok(&mut tree, &create(4, "/c/x", b""));
    let owner = |path: &str| tree.node(path).unwrap().owner();
    assert_eq!(owner("/c"), Owner::Container);
    assert_eq!(owner("/t"), Owner::Ttl(500));
    assert_eq!(owner("/e"), Owner::Session(SESSION));
    for (path, shown) in [("/c", 0), ("/t", 0), ("/e", SESSION.0)] {
        assert_eq!(tree.node(path).unwrap().stat().ephemeral_owner, shown);
    }
    let paths: Vec<_> = tree.containers().map(|node| (node.path(), node.child_count())).collect();
    assert_eq!(paths, [("/c".to_owned(), 1)]);
    assert_eq!(tree.ttl_nodes().map(|node| node.path()).collect::<Vec<_>>(), ["/t"]);

    ok(&mut tree, &delete(5, "/c/x"));
    ok(&mut tree, &record(6, OpCode::DELETE_CONTAINER, Txn::Delete { path: "/c".into() }));
    ok(&mut tree, &delete(7, "/t"));
    assert_eq!((tree.containers().len(), tree.ttl_nodes().len()), (0, 0));
}

#[test]
fn without_extended_types_a_ttl_owner_is_a_sessions() {
    let mut tree = Tree::new(Options::default());
    let ttl = CreateTxn { ttl_ms: 500, ..create_txn("/t", b"") };
    ok(&mut tree, &record(1, OpCode::CREATE_TTL, Txn::Create(ttl)));
    assert_eq!(tree.ttl_nodes().len(), 0);
    assert_eq!(tree.ephemerals_count(), 1);
    assert_eq!(tree.remove_orphan_ephemerals(), 1);
}

#[test]
fn the_end_of_a_session_deletes_the_listed_paths_and_then_all_it_owns() {
    let mut tree = tree();
    let other = SessionId(77);
    let open = record(1, OpCode::CREATE_SESSION, Txn::CreateSession { timeout_ms: 4000 });
    ok(&mut tree, &open);
    assert_eq!(tree.session_timeout(SESSION), Some(4000));
    for (zxid, path) in [(2, "/e1"), (3, "/e2"), (4, "/e3")] {
        ok(&mut tree, &ephemeral(zxid, path, SESSION));
    }
    ok(&mut tree, &ephemeral(5, "/other", other));
    let mut paths: Vec<String> = tree.ephemerals(SESSION).collect();
    paths.sort();
    assert_eq!(paths, ["/e1", "/e2", "/e3"]);
    ok(&mut tree, &close(9, SESSION, Some(&["/e3", "/missing"])));
    assert_eq!(tree.znode_count(), 5);
    assert_eq!(tree.sessions().len(), 0);
    assert_eq!(tree.ephemerals_count(), 1);
    assert_eq!(tree.node("/").unwrap().persisted().pzxid, Zxid(9), "all share its zxid");
    ok(&mut tree, &close(10, other, None));
    assert_eq!(tree.sessions_with_ephemerals().len(), 0);
}

#[test]
fn ephemerals_without_session_go_at_the_end_of_a_start() {
    let mut tree = tree();
    ok(&mut tree, &record(1, OpCode::CREATE_SESSION, Txn::CreateSession { timeout_ms: 4000 }));
    ok(&mut tree, &ephemeral(2, "/mine", SESSION));
    ok(&mut tree, &ephemeral(3, "/theirs", SessionId(5)));
    let mut tree = reload(&tree);
    assert_eq!(tree.remove_orphan_ephemerals(), 1);
    assert!(tree.node("/mine").is_some() && tree.node("/theirs").is_none());
    assert_eq!(tree.last_zxid(), Zxid(3));
    assert_eq!(tree.digest(), digest_from_scratch(&tree));
}

#[test]
fn a_multi_applies_in_order_with_one_zxid() {
    let mut tree = tree();
    let acl = Txn::SetAcl { path: "/a".into(), acl: open_acl(), version: 1 };
    let ops = vec![
        (OpCode::CREATE, Txn::Create(create_txn("/a", b""))),
        (OpCode::CREATE2, Txn::Create(create_txn("/a/b", b"1"))),
        (OpCode::SET_DATA, Txn::SetData { path: "/a/b".into(), data: Some(b"22"), version: 1 }),
        (OpCode::CHECK, Txn::Check { path: "/a".into(), version: 1 }),
        (OpCode::DELETE, Txn::Delete { path: "/a/b".into() }),
        (OpCode::SET_ACL, acl),
    ];
    let multi = record(4, OpCode::MULTI, Txn::Multi(ops));
    let applied = tree.apply(&multi, &mut Silent);
    assert_eq!(applied.err, ErrorCode::OK);
    let Outcome::Multi(results) = applied.result else { panic!("a multi has many results") };
    assert!(results.iter().all(|result| result.err == ErrorCode::OK));
    assert_eq!(results[1].path, Some("/a/b"));
    assert_eq!(results[1].stat.as_ref().unwrap().data_length, 1);
    assert_eq!(results[2].stat.as_ref().unwrap().data_length, 2);
    assert_eq!(results.iter().map(|result| result.op.0).collect::<Vec<_>>(), [1, 15, 5, 13, 2, 7]);
    assert_eq!(tree.node("/a").unwrap().persisted().pzxid, Zxid(4));
    assert_eq!(tree.last_zxid(), Zxid(4));
}

#[test]
fn a_failed_multi_applies_nothing() {
    let mut tree = tree();
    let before = rows(&tree);
    let ops = vec![
        (OpCode::CREATE, Txn::Create(create_txn("/a", b""))),
        (OpCode::ERROR, Txn::Error(ErrorCode::BAD_VERSION)),
        (OpCode::ERROR, Txn::Error(ErrorCode::RUNTIME_INCONSISTENCY)),
    ];
    let multi = record(4, OpCode::MULTI, Txn::Multi(ops));
    let applied = tree.apply(&multi, &mut Silent);
    let Outcome::Multi(results) = applied.result else { panic!("a multi has many results") };
    assert!(results.iter().all(|result| result.op == OpCode::ERROR));
    assert_eq!(results.iter().map(|result| result.err.0).collect::<Vec<_>>(), [0, -103, -2]);
    assert_eq!(rows(&tree), before);
    assert_eq!(tree.last_zxid(), Zxid(4));
}

#[test]
fn zookeeper_3145_a_multi_replayed_over_part_of_its_effects() {
    let ops = || {
        vec![
            (
                OpCode::CREATE,
                Txn::Create(CreateTxn { parent_cversion: 1, ..create_txn("/p/a", b"") }),
            ),
            (
                OpCode::CREATE,
                Txn::Create(CreateTxn { parent_cversion: 2, ..create_txn("/p/b", b"") }),
            ),
        ]
    };
    let multi = record(4, OpCode::MULTI, Txn::Multi(ops()));
    let mut tree = tree();
    ok(&mut tree, &create(1, "/p", b""));
    let mut fuzzy = reload(&tree);
    tree.apply(&multi, &mut Silent);
    apply(&mut fuzzy, &create_at(4, "/p/a", -1));
    let applied = fuzzy.apply(&multi, &mut Silent);
    assert_eq!(applied.err, ErrorCode::NODE_EXISTS);
    assert_eq!(rows(&fuzzy), rows(&tree));
}

#[test]
fn an_error_only_moves_the_zxid() {
    let mut tree = tree();
    let error = record(12, OpCode::ERROR, Txn::Error(ErrorCode::NO_NODE));
    let result = apply(&mut tree, &error);
    assert_eq!((result.op, result.err), (OpCode::ERROR, ErrorCode::NO_NODE));
    assert_eq!((tree.last_zxid(), tree.digest()), (Zxid(12), 1_371_985_504));
}

#[test]
fn a_wrong_digest_is_reported_and_counted() {
    let mut tree = tree();
    let mut txn = create(1, "/zookeeper/uncounted", b"");
    txn.digest = Some(TxnDigest { version: 2, tree: 5 });
    // The znode itself has changed no child list, but its parent's stat has changed.
    assert!(!tree.apply(&txn, &mut Silent).digest_matches);
    assert_eq!(tree.digest_mismatches(), 1);
    let mut txn = delete(2, "/zookeeper/uncounted");
    txn.digest = Some(TxnDigest { version: 1, tree: 5 });
    assert!(tree.apply(&txn, &mut Silent).digest_matches, "another version says nothing");
}

#[test]
fn acls_and_sessions_do_not_change_the_digest() {
    let with_acl = |acl| {
        let mut tree = tree();
        let txn = CreateTxn { acl, ..create_txn("/a", b"x") };
        ok(&mut tree, &record(1, OpCode::CREATE, Txn::Create(txn)));
        tree
    };
    let (mut open, closed) = (with_acl(open_acl()), with_acl(acl_of(1, "ip", "10.0.0.1")));
    assert_ne!(rows(&open), rows(&closed));
    assert_eq!(open.digest(), closed.digest());
    ok(&mut open, &record(2, OpCode::CREATE_SESSION, Txn::CreateSession { timeout_ms: 4000 }));
    assert_eq!(open.digest(), closed.digest());
}

#[test]
fn digests_of_txns_are_not_compared_before_the_snapshots_is_reached() {
    let mut tree = tree();
    assert_eq!(tree.expect_digest(Zxid(3), 77), None);
    let mut txn = create(1, "/a", b"");
    txn.digest = Some(TxnDigest { version: 2, tree: 5 });
    assert!(tree.apply(&txn, &mut Silent).digest_matches);
    assert!(tree.digest_pending());
    let mut txn = set(3, "/a", b"", 1);
    assert!(!tree.apply(&txn, &mut Silent).digest_matches);
    assert_eq!((tree.digest_mismatches(), tree.digest_pending()), (1, false));
    txn.header.zxid = Zxid(4);
    txn.digest = Some(TxnDigest { version: 2, tree: 5 });
    assert!(!tree.apply(&txn, &mut Silent).digest_matches);
}

#[test]
fn digests_are_not_compared_while_nobody_knows_how_far_a_snapshot_is_ahead() {
    let mut tree = tree();
    tree.distrust_digests();
    let mut txn = create(1, "/a", b"");
    txn.digest = Some(TxnDigest { version: 2, tree: 5 });
    assert!(tree.apply(&txn, &mut Silent).digest_matches);
    assert_eq!(tree.digest_mismatches(), 0);
    // Transactions committed by then are not applied yet.
    tree.trust_digests(Zxid(3));
    let mut txn = set(2, "/a", b"", 1);
    txn.digest = Some(TxnDigest { version: 2, tree: 5 });
    assert!(tree.apply(&txn, &mut Silent).digest_matches);
    txn.header.zxid = Zxid(3);
    assert!(!tree.apply(&txn, &mut Silent).digest_matches);
}

#[test]
fn digests_of_every_128th_zxid_are_remembered() {
    let mut tree = tree();
    ok(&mut tree, &create(1, "/a", b""));
    for zxid in 2..=128 * 1030 {
        ok(&mut tree, &record(zxid, OpCode::ERROR, Txn::Error(ErrorCode::OK)));
    }
    let history: Vec<_> = tree.digest_history().collect();
    assert_eq!(history.len(), 1024);
    assert_eq!(history[0], (Zxid(128 * 7), tree.digest()));
    assert_eq!(history[1023].0, Zxid(128 * 1030));
}

#[test]
fn the_newest_digest_is_that_of_the_last_transaction_once_it_can_be_trusted() {
    let mut tree = tree();
    assert_eq!(tree.newest_digest(), None);
    ok(&mut tree, &create(1, "/a", b""));
    assert_eq!(tree.newest_digest(), Some((Zxid(1), tree.digest())));
    // A fuzzy snapshot may be ahead of its transactions.
    tree.distrust_digests();
    assert_eq!(tree.newest_digest(), None);
    tree.trust_digests(Zxid(2));
    ok(&mut tree, &create(2, "/b", b""));
    assert_eq!(tree.newest_digest(), Some((Zxid(2), tree.digest())));
    let mut without = Tree::new(Options { digest: false, ..options() });
    ok(&mut without, &create(1, "/a", b""));
    assert_eq!(without.newest_digest(), None);
}

#[test]
fn without_digests_nothing_is_computed() {
    let mut tree = Tree::new(Options { digest: false, ..options() });
    let mut txn = create(1, "/a", b"x");
    txn.digest = Some(TxnDigest { version: 2, tree: 5 });
    assert!(tree.apply(&txn, &mut Silent).digest_matches);
    assert_eq!(tree.digest(), 0);
    let node = tree.node("/a").unwrap();
    assert_eq!(node.digest(), zebu_tree::node_digest("/a", Some(b"x"), &node.persisted()));
}

fn usage(tree: &Tree, path: &str) -> (i64, i64) {
    let usage = tree.quota_for(path).unwrap().usage.unwrap().unwrap();
    (usage.count(), usage.bytes())
}

fn quota_on(tree: &mut Tree, zxid: i64, limits: &[u8]) {
    ok(tree, &create(zxid, "/zookeeper/quota/q", b""));
    ok(tree, &create(zxid + 1, "/zookeeper/quota/q/zookeeper_limits", limits));
    ok(tree, &create(zxid + 2, "/zookeeper/quota/q/zookeeper_stats", b"count=0,bytes=0"));
}

#[test]
fn usage_follows_creates_deletes_and_changes() {
    let mut tree = tree();
    ok(&mut tree, &create(1, "/q", b"12345"));
    ok(&mut tree, &create(2, "/q/a", b"67"));
    assert_eq!(tree.quota_for("/q/a"), None);
    quota_on(&mut tree, 3, b"count=5,bytes=1000");
    assert_eq!(usage(&tree, "/q/a"), (2, 7), "the subtree is counted when the usage is created");
    ok(&mut tree, &create(10, "/q/b", b"890"));
    assert_eq!(usage(&tree, "/q"), (3, 10));
    ok(&mut tree, &set(11, "/q/b", b"8", 1));
    ok(&mut tree, &delete(12, "/q/a"));
    assert_eq!(usage(&tree, "/q"), (2, 6));
    let stats = tree.node("/zookeeper/quota/q/zookeeper_stats").unwrap();
    assert_eq!(stats.data(), Some(&b"count=2,bytes=6"[..]));
    assert_eq!((stats.stat().version, stats.stat().mzxid), (0, Zxid(5)), "changed in place");
    assert_eq!(tree.digest(), digest_from_scratch(&tree));
    let limits = tree.quota_for("/q").unwrap().limits.unwrap();
    assert_eq!((limits.count(), limits.bytes_hard()), (5, -1));

    ok(&mut tree, &delete(13, "/zookeeper/quota/q/zookeeper_limits"));
    assert_eq!(tree.quota_for("/q/a"), None);
}

#[test]
fn only_the_deepest_quota_is_charged() {
    let mut tree = tree();
    ok(&mut tree, &create(1, "/q", b""));
    ok(&mut tree, &create(2, "/q/in", b""));
    quota_on(&mut tree, 3, b"count=5");
    ok(&mut tree, &create(6, "/zookeeper/quota/q/in", b""));
    ok(&mut tree, &create(7, "/zookeeper/quota/q/in/zookeeper_limits", b"count=1"));
    ok(&mut tree, &create(8, "/zookeeper/quota/q/in/zookeeper_stats", b""));
    ok(&mut tree, &create(9, "/q/in/a", b"1"));
    assert_eq!(usage(&tree, "/q/in/a"), (2, 1));
    assert_eq!(usage(&tree, "/q"), (2, 0));
    assert_eq!(tree.quota_paths().collect::<Vec<_>>(), ["/q", "/q/in"]);
}

#[test]
fn usage_that_cannot_be_read_starts_from_nothing() {
    let mut tree = tree();
    ok(&mut tree, &create(1, "/q", b""));
    quota_on(&mut tree, 2, b"what?");
    ok(&mut tree, &set(5, "/zookeeper/quota/q/zookeeper_stats", b"count=;;;=x,\xff", 1));
    ok(&mut tree, &create(6, "/q/a", b"123"));
    assert_eq!(usage(&tree, "/q"), (1, 3));
    assert!(tree.quota_for("/q").unwrap().limits.is_err());
    ok(&mut tree, &delete(7, "/zookeeper/quota/q/zookeeper_stats"));
    assert_eq!(tree.quota_for("/q").unwrap().usage, None);
    ok(&mut tree, &create(8, "/q/b", b"123"));
}

#[test]
fn limits_directly_below_the_quota_root_mean_nothing() {
    let mut tree = tree();
    ok(&mut tree, &create(1, "/zookeeper/quota/zookeeper_limits", b"count=1"));
    ok(&mut tree, &create(2, "/zookeeper/quota/zookeeper_stats", b"mine"));
    ok(&mut tree, &create(3, "/a", b""));
    assert_eq!(tree.quota_for("/a"), None);
    assert_eq!(tree.node("/zookeeper/quota/zookeeper_stats").unwrap().data(), Some(&b"mine"[..]));
    ok(&mut tree, &delete(4, "/zookeeper/quota/zookeeper_limits"));
    let reloaded = reload(&tree);
    assert_eq!(reloaded.quota_paths().count(), 0);
}

#[test]
fn usage_is_counted_afresh_when_loading() {
    let mut tree = tree();
    ok(&mut tree, &create(1, "/q", b"1"));
    quota_on(&mut tree, 2, b"count=5");
    ok(&mut tree, &set(5, "/zookeeper/quota/q/zookeeper_stats", b"count=99,bytes=99", 1));
    assert_eq!(usage(&reload(&tree), "/q"), (1, 1));
    assert_eq!(QuotaText::usage(1, 1).to_string(), "count=1,bytes=1");
}

#[test]
fn a_snapshot_that_contradicts_itself_is_refused() {
    use zebu_proto::StatPersisted;
    use zebu_tree::BadNode;
    let stat = StatPersisted::default();
    let mut loader = Loader::new(options());
    loader.node("", Some(b""), -1, &stat).unwrap();
    assert_eq!(loader.node("", Some(b""), -1, &stat), Err(BadNode::Duplicate));
    assert_eq!(loader.node("/a/b", None, -1, &stat), Err(BadNode::ParentMissing));
    loader.node("/a", None, -1, &stat).unwrap();
    assert_eq!(loader.node("/a/", None, -1, &stat), Err(BadNode::Path));
    for path in ["/zookeeper", "/zookeeper/quota", "/zookeeper/config"] {
        let owned = StatPersisted { ephemeral_owner: 7, ..stat };
        assert_eq!(loader.node(path, None, -1, &owned), Err(BadNode::Owned), "{path}");
    }
    assert_eq!(loader.node("a", None, -1, &stat), Err(BadNode::Path));
    assert_eq!(loader.node("//b", None, -1, &stat), Err(BadNode::Path));
    let tree = loader.finish().unwrap();
    assert_eq!(tree.znode_count(), 5, "what every tree has is added");
    assert_eq!(tree.digest(), digest_from_scratch(&tree));
}

#[test]
fn a_snapshot_with_a_znode_twice_is_refused_and_says_which() {
    let stat = Default::default();
    // A few children are inserted one by one, many at once.
    for count in [10, 5_000] {
        let paths: Vec<String> = (0..count).map(|number| format!("/many/{number}")).collect();
        let again = [
            Vec::new(),
            vec!["/many/7".to_owned()],
            vec!["/first".to_owned(), "/many/9".to_owned()],
        ];
        for (again, twice) in again.iter().zip([None, Some("/many/7"), Some("/many/9")]) {
            let mut loader = Loader::new(options());
            loader.node("/many", None, -1, &stat).unwrap();
            for path in paths.iter().chain(again) {
                loader.node(path, None, -1, &stat).unwrap();
            }
            match (loader.finish(), twice) {
                (Ok(tree), None) => assert!(paths.iter().all(|path| tree.node(path).is_some())),
                (Err(error), Some(path)) => assert_eq!(error.path, path),
                (result, _) => panic!("{:?}", result.err()),
            }
        }
    }
}

#[test]
fn znodes_may_come_in_any_order_that_has_parents_first() {
    let stat = Default::default();
    // One directory after the other, and level by level, as no server writes them.
    for by_level in [false, true] {
        let mut paths = vec!["/d".to_owned()];
        for directory in 0..40 {
            paths.push(format!("/d/{directory}"));
            paths.extend((0..100).map(|number| format!("/d/{directory}/{number}")));
        }
        if by_level {
            paths.sort_by_key(|path| path.matches('/').count());
        }
        let mut loader = Loader::new(options());
        for path in &paths {
            loader.node(path, Some(path.as_bytes()), -1, &stat).unwrap();
        }
        let mut tree = loader.finish().unwrap();
        for path in &paths {
            assert_eq!(
                tree.node(path).and_then(|node| node.data()),
                Some(path.as_bytes()),
                "{path}"
            );
        }
        assert_eq!(tree.node("/d").map(|node| node.child_count()), Some(40));
        assert_eq!(tree.digest(), digest_from_scratch(&tree));
        // From here on the index grows and shrinks further.
        let mut zxid = 0;
        for number in 0..10_000 {
            zxid += 1;
            ok(&mut tree, &create(zxid, &format!("/d/39/more-{number}"), b""));
        }
        for path in paths.iter().filter(|path| path.matches('/').count() == 3) {
            zxid += 1;
            ok(&mut tree, &delete(zxid, path));
        }
        assert_eq!(tree.node("/d/39").map(|node| node.child_count()), Some(10_000));
    }
}

#[test]
fn descendants_and_names() {
    let mut tree = tree();
    let long = format!("/{}", "n".repeat(70_000));
    for (zxid, path) in [(1, "/a"), (2, "/a/b"), (3, "/a/b/c"), (4, "/a/d"), (5, &*long)] {
        ok(&mut tree, &create(zxid, path, b"0123456789"));
    }
    assert_eq!(tree.node("/a").unwrap().descendants(), 3);
    assert_eq!(tree.node("/").unwrap().descendants(), 8);
    let mut names: Vec<&str> = tree.node("/a").unwrap().children().collect();
    names.sort_unstable();
    assert_eq!(names, ["b", "d"]);
    ok(&mut tree, &set(6, &long, &[7; 50_000], 1));
    ok(&mut tree, &set(7, &long, b"small", 2));
    assert_eq!(tree.node(&long).unwrap().data(), Some(&b"small"[..]));
    assert_eq!(tree.node(&long).unwrap().path(), long);
    assert_eq!(tree.node("/a/b").unwrap().parent().unwrap().name(), "a");
}

#[test]
fn approximate_data_size_counts_characters_of_paths_and_bytes_of_data() {
    let mut tree = tree();
    ok(&mut tree, &create(1, "/жж", b"12345"));
    assert_eq!(tree.approximate_data_size(), 44 + 3 + 5);
    ok(&mut tree, &set(2, "/жж", b"1", 1));
    assert_eq!(tree.approximate_data_size(), 44 + 3 + 1);
    ok(&mut tree, &set(3, "/", b"1", 1));
    assert_eq!(reload(&tree).approximate_data_size(), tree.approximate_data_size());
    ok(&mut tree, &delete(4, "/жж"));
    assert_eq!(tree.approximate_data_size(), 44 + 2);
}

#[test]
fn a_doubled_slash_in_a_log_names_no_znode() {
    let mut tree = tree();
    ok(&mut tree, &create(1, "/a", b"12"));
    for txn in [create(2, "//b", b"1"), delete(3, "//a")] {
        let applied = tree.apply(&txn, &mut Silent);
        assert_eq!(applied.err, ErrorCode::BAD_ARGUMENTS);
    }
    assert_eq!(tree.approximate_data_size(), 44 + 2 + 2);
    assert_eq!(tree.digest(), digest_from_scratch(&tree));
}

#[test]
fn the_configuration_is_shown_without_a_transaction() {
    let mut tree = Tree::new(Options::default());
    let digest = tree.digest();
    tree.show_configuration(b"server.1=a:1:2:participant", Zxid(0x1_0000_0000), 77);
    let node = tree.node("/zookeeper/config").unwrap();
    assert_eq!(node.data(), Some(&b"server.1=a:1:2:participant"[..]));
    let stat = node.stat();
    assert_eq!((stat.version, stat.mzxid, stat.mtime), (-1, Zxid(0x1_0000_0000), 77));
    assert_eq!((tree.last_zxid(), tree.digest()), (Zxid::ZERO, digest));
}

//! Directories that the original server wrote, replayed record by record.

mod common;

use base64::Engine as _;
use common::{digest_from_scratch, fixture, load_snapshot, log_bodies, options, reload, tree};
use zebu_proto::txn::TxnRecord;
use zebu_proto::{SessionId, Zxid};
use zebu_tree::{Node, Silent, Tree};

const BASIC: &str = "zookeeper-3.8.0/basic/version-2";

/// Applies a log after the tree's zxid, and compares every digest.
fn replay(tree: &mut Tree, log: &[u8]) {
    for body in log_bodies(log) {
        let record = TxnRecord::decode(body).unwrap();
        if record.header.zxid <= tree.last_zxid() {
            continue;
        }
        let applied = tree.apply(&record, &mut Silent);
        assert!(applied.digest_matches, "digest after {record:?}");
        assert_eq!(tree.last_zxid(), record.header.zxid);
        assert_eq!(tree.digest(), digest_from_scratch(tree), "digest at {}", record.header.zxid);
    }
    assert_eq!(tree.digest_mismatches(), 0);
}

/// Compares a tree with the listing of a super user of the original.
fn assert_expected(tree: &Tree) {
    tree.check();
    let json = fixture("zookeeper-3.8.0/basic/expected-tree.json");
    let expected: serde_json::Value = serde_json::from_slice(&json).unwrap();
    let expected = expected.as_object().unwrap();
    for (path, want) in expected {
        let node = tree.node(path).unwrap_or_else(|| panic!("{path} is missing"));
        assert_node(path, &node, want);
    }
    // The listing leaves out znodes below /zookeeper.
    let listed =
        |row: &common::Row| row.0.starts_with("/zookeeper") || expected.contains_key(&row.0);
    assert!(common::rows(tree).iter().all(listed));
}

fn assert_node(path: &str, node: &Node<'_>, want: &serde_json::Value) {
    let data = want["data_b64"]
        .as_str()
        .map(|text| base64::engine::general_purpose::STANDARD.decode(text).unwrap());
    assert_eq!(node.data(), data.as_deref(), "data of {path}");

    let mut children: Vec<&str> = node.children().collect();
    children.sort_unstable();
    let mut names: Vec<&str> =
        want["children"].as_array().unwrap().iter().map(|name| name.as_str().unwrap()).collect();
    names.sort_unstable();
    assert_eq!(children, names, "children of {path}");

    let acl: Vec<_> =
        node.acl().iter().map(|acl| (acl.perms.0, &*acl.id.scheme, &*acl.id.id)).collect();
    let entry = |acl: &serde_json::Value| {
        let text = |i: usize| acl[i].as_str().unwrap().to_owned();
        (acl[0].as_i64().unwrap() as i32, text(1), text(2))
    };
    let wanted: Vec<_> = want["acl"].as_array().unwrap().iter().map(entry).collect();
    let wanted: Vec<_> =
        wanted.iter().map(|(perms, scheme, id)| (*perms, &**scheme, &**id)).collect();
    assert_eq!(acl, wanted, "ACL of {path}");

    let stat = node.stat();
    let number = |key: &str| want["stat"][key].as_i64().unwrap();
    let got = [
        ("czxid", stat.czxid.0),
        ("mzxid", stat.mzxid.0),
        ("pzxid", stat.pzxid.0),
        ("ctime", stat.ctime),
        ("mtime", stat.mtime),
        ("version", stat.version.into()),
        ("cversion", stat.cversion.into()),
        ("aversion", stat.aversion.into()),
        ("ephemeralOwner", stat.ephemeral_owner),
        ("dataLength", stat.data_length.into()),
        ("numChildren", stat.num_children.into()),
    ];
    for (key, value) in got {
        assert_eq!(value, number(key), "{key} of {path}");
    }
}

fn assert_sessions(tree: &Tree) {
    let sessions: Vec<_> = tree.sessions().collect();
    let expected = [
        (SessionId(0x0100_001a_3980_0000), 3_000_000, "/eph/e1"),
        (SessionId(0x0100_001a_3980_0001), 2_400_000, "/eph/e2-0000000001"),
        (SessionId(0x0100_001a_45ac_0000), 600_000, "/eph/e3"),
    ];
    assert_eq!(sessions, expected.map(|(session, timeout, _)| (session, timeout)));
    for (session, _, path) in expected {
        assert_eq!(tree.ephemerals(session).collect::<Vec<_>>(), [path]);
        assert_eq!(tree.ephemeral_count(session), 1);
    }
    assert_eq!(tree.ephemerals_count(), 3);
    assert_eq!(tree.sessions_with_ephemerals().len(), 3);
}

#[test]
fn a_pristine_tree_is_the_originals() {
    let tree = tree();
    assert_eq!(tree.digest(), 1_371_985_504);
    // The original shows 5 znodes, because it counts the root under both its names.
    assert_eq!(tree.znode_count(), 4);
    assert_eq!(tree.approximate_data_size(), 44);
    assert_eq!(tree.node("/").unwrap().stat().cversion, -1);
    assert_eq!(tree.node("/zookeeper").unwrap().stat().cversion, -2);
    assert_eq!(tree.node("/zookeeper/config").unwrap().stat().aversion, -1);

    let (loaded, digest) = load_snapshot(&fixture(&format!("{BASIC}/snapshot.0")), options());
    assert_eq!(digest, Some((Zxid(0), 0)));
    assert_eq!(common::rows(&loaded), common::rows(&tree));
    assert_eq!(loaded.digest(), tree.digest());
    assert!(loaded.acl_table().eq(tree.acl_table()));
}

#[test]
fn both_logs_replayed_from_nothing() {
    let mut tree = tree();
    replay(&mut tree, &fixture(&format!("{BASIC}/log.1")));
    assert_eq!((tree.last_zxid(), tree.digest()), (Zxid(0x3c), 100_698_096_921));
    replay(&mut tree, &fixture(&format!("{BASIC}/log.3d")));
    assert_eq!((tree.last_zxid(), tree.digest()), (Zxid(0x48), 110_862_930_961));
    assert_eq!(tree.znode_count(), 56);
    assert_eq!(tree.digest_history().count(), 0);
    assert_expected(&tree);
    assert_sessions(&tree);
    assert_eq!(common::rows(&reload(&tree)), common::rows(&tree));
}

#[test]
fn the_snapshot_and_the_log_after_it() {
    let snapshot = fixture(&format!("{BASIC}/snapshot.3c"));
    let (mut tree, digest) = load_snapshot(&snapshot, options());
    assert_eq!(tree.znode_count(), 50);
    assert_eq!(digest, Some((Zxid(0x3c), 100_698_096_921)));
    tree.set_last_zxid(Zxid(0x3c));
    assert_eq!(tree.expect_digest(Zxid(0x3c), 100_698_096_921), Some(true));
    replay(&mut tree, &fixture(&format!("{BASIC}/log.3d")));
    assert_eq!((tree.last_zxid(), tree.digest()), (Zxid(0x48), 110_862_930_961));
    assert_expected(&tree);
    assert_sessions(&tree);
    assert_eq!(tree.remove_orphan_ephemerals(), 0);
}

#[test]
fn a_snapshot_with_the_acl_numbers_of_the_original() {
    let (loaded, _) = load_snapshot(&fixture(&format!("{BASIC}/snapshot.3c")), options());
    let mut replayed = tree();
    replay(&mut replayed, &fixture(&format!("{BASIC}/log.1")));
    assert!(loaded.acl_table().eq(replayed.acl_table()));
    let ids = |tree: &Tree| -> Vec<i64> {
        common::rows(tree).iter().map(|row| tree.node(&row.0).unwrap().acl_id()).collect()
    };
    assert_eq!(ids(&loaded), ids(&replayed));
}

#[test]
fn a_directory_of_the_next_version() {
    let snapshot = fixture("zookeeper-3.9.5/basic/version-2/snapshot.48");
    let (mut tree, digest) = load_snapshot(&snapshot, options());
    let (zxid, digest) = digest.unwrap();
    tree.set_last_zxid(Zxid(0x48));
    assert_eq!(tree.expect_digest(zxid, digest), Some(true));
    assert_expected(&tree);
    replay(&mut tree, &fixture("zookeeper-3.9.5/basic/version-2/log.49"));
    assert_eq!((tree.last_zxid(), tree.digest()), (Zxid(0x4b), 110_869_729_281));
}

#[test]
fn usage_of_quotas_is_counted_when_loading() {
    let (tree, _) = load_snapshot(&fixture(&format!("{BASIC}/snapshot.3c")), options());
    let quota = tree.quota_for("/q/x").unwrap();
    assert_eq!(quota.path, "/q");
    let usage = quota.usage.unwrap().unwrap();
    let subtree = tree.node("/q").unwrap();
    let bytes: i64 = ["x", "y"]
        .iter()
        .map(|name| i64::from(subtree.child(name).unwrap().stat().data_length))
        .sum();
    assert_eq!((usage.count(), usage.bytes()), (3, bytes + i64::from(subtree.stat().data_length)));
    let limits = quota.limits.unwrap();
    assert_eq!((limits.count(), limits.bytes()), (5, 1000));
    assert_eq!((limits.count_hard(), limits.bytes_hard()), (10, 4096));
}

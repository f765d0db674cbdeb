//! Watches: registration, the events that fire them, the order, and the watches that remain.

mod common;

use common::*;
use zebu_proto::txn::Txn;
use zebu_proto::{EventType, OpCode, WatcherType, Zxid};
use zebu_tree::{Events, Tree, WATCH_BYTES_MAX, WatchLists, WatchMode, WatcherId};

const ONE: WatcherId = WatcherId(1);
const TWO: WatcherId = WatcherId(2);

fn fire(tree: &mut Tree, seen: &mut Recorder, txn: &zebu_proto::txn::TxnRecord<'_>) -> String {
    tree.apply(txn, seen);
    seen.text()
}

/// WAT-01.
#[test]
fn one_shot_watches_fire_once() {
    let (mut tree, mut seen) = (tree(), Recorder::default());
    tree.add_watch("/a", ONE, WatchMode::Data);
    tree.add_watch("/a", ONE, WatchMode::Data);
    assert_eq!(tree.watch_count(), 1);
    assert_eq!(fire(&mut tree, &mut seen, &create(1, "/a", b"")), "1 created /a");
    assert_eq!(fire(&mut tree, &mut seen, &set(2, "/a", b"", 1)), "");
    tree.add_watch("/a", ONE, WatchMode::Data);
    tree.add_watch("/a", ONE, WatchMode::Child);
    assert_eq!(fire(&mut tree, &mut seen, &set(3, "/a", b"", 2)), "1 changed /a");
    assert_eq!(fire(&mut tree, &mut seen, &create(4, "/a/b", b"")), "1 children /a");
    assert_eq!(fire(&mut tree, &mut seen, &delete(5, "/a/b")), "");
    assert_eq!(tree.watch_count(), 0);
    assert_eq!(seen.zxids, [Zxid(1), Zxid(3), Zxid(4)]);
}

/// WAT-03, WAT-07, WAT-08, WAT-10.
#[test]
fn the_measured_sequence_of_all_modes_on_one_connection() {
    let (mut tree, mut seen) = (tree(), Recorder::default());
    ok(&mut tree, &create(1, "/w", b""));
    tree.add_watch("/w/n", ONE, WatchMode::Data);
    tree.add_watch("/w", ONE, WatchMode::Child);
    tree.add_watch("/w/n", ONE, WatchMode::Child);
    tree.add_watch("/w/n", ONE, WatchMode::PersistentRecursive);
    tree.add_watch("/w/n", ONE, WatchMode::Persistent);
    let mut all = Vec::new();
    for txn in
        [create(2, "/w/n", b""), create(3, "/w/n/k", b""), delete(4, "/w/n/k"), delete(5, "/w/n")]
    {
        all.push(fire(&mut tree, &mut seen, &txn));
    }
    let expected = [
        "1 created /w/n; 1 children /w",
        "1 created /w/n/k; 1 children /w/n",
        "1 deleted /w/n/k; 1 children /w/n",
        "1 deleted /w/n",
    ];
    assert_eq!(all, expected);
}

#[test]
fn a_deletion_is_told_once_although_data_and_children_are_watched() {
    let (mut tree, mut seen) = (tree(), Recorder::default());
    ok(&mut tree, &create(1, "/a", b""));
    tree.add_watch("/a", ONE, WatchMode::Data);
    tree.add_watch("/a", ONE, WatchMode::Child);
    tree.add_watch("/a", TWO, WatchMode::Child);
    tree.add_watch("/", TWO, WatchMode::Child);
    let text = fire(&mut tree, &mut seen, &delete(2, "/a"));
    let mut told: Vec<&str> = text.split("; ").collect();
    assert_eq!(told.pop(), Some("2 children /"), "the parent's event comes last");
    told.sort_unstable();
    assert_eq!(told, ["1 deleted /a", "2 deleted /a"]);
    assert_eq!(tree.watch_count(), 0);
}

#[test]
fn persistent_watches_survive_deletion_and_creation() {
    let (mut tree, mut seen) = (tree(), Recorder::default());
    tree.add_watch("/p", ONE, WatchMode::Persistent);
    assert_eq!(tree.watch_count(), 2, "it is a data watch and a child watch");
    for zxid in [1, 11, 21] {
        assert_eq!(fire(&mut tree, &mut seen, &create(zxid, "/p", b"")), "1 created /p");
        assert_eq!(fire(&mut tree, &mut seen, &set(zxid + 1, "/p", b"", 1)), "1 changed /p");
        assert_eq!(fire(&mut tree, &mut seen, &create(zxid + 2, "/p/k", b"")), "1 children /p");
        assert_eq!(fire(&mut tree, &mut seen, &set(zxid + 3, "/p/k", b"", 1)), "");
        assert_eq!(fire(&mut tree, &mut seen, &delete(zxid + 4, "/p/k")), "1 children /p");
        assert_eq!(fire(&mut tree, &mut seen, &delete(zxid + 5, "/p")), "1 deleted /p");
        assert!(tree.has_watch("/p", ONE, WatcherType::Persistent));
    }
}

#[test]
fn recursive_watches_see_everything_below_but_no_lists_of_children() {
    let (mut tree, mut seen) = (tree(), Recorder::default());
    tree.add_watch("/", ONE, WatchMode::PersistentRecursive);
    tree.add_watch("/a", TWO, WatchMode::PersistentRecursive);
    tree.add_watch("/a/b", TWO, WatchMode::Data);
    assert_eq!(fire(&mut tree, &mut seen, &create(1, "/a", b"")), "1 created /a; 2 created /a");
    assert_eq!(fire(&mut tree, &mut seen, &create(2, "/ab", b"")), "1 created /ab");
    let told = fire(&mut tree, &mut seen, &create(3, "/a/b", b""));
    assert_eq!(told, "1 created /a/b; 2 created /a/b", "two matching watches, one event");
    assert!(!tree.has_watch("/a/b", TWO, WatcherType::Data), "and the one-shot is spent");
    let told = fire(&mut tree, &mut seen, &set(4, "/a/b", b"", 1));
    assert_eq!(told, "1 changed /a/b; 2 changed /a/b");
    let told = fire(&mut tree, &mut seen, &delete(5, "/a/b"));
    assert_eq!(told, "1 deleted /a/b; 2 deleted /a/b");
    assert_eq!(fire(&mut tree, &mut seen, &set(6, "/", b"", 1)), "1 changed /");
    assert_eq!(tree.watch_count(), 2);
}

#[test]
fn cve_2024_23944_events_of_unreadable_znodes_are_dropped_and_one_shots_spent() {
    let (mut tree, mut seen) = (tree(), Recorder::default());
    ok(&mut tree, &create(1, "/w", b""));
    let secret = zebu_proto::txn::CreateTxn {
        acl: acl_of(31, "digest", "alice"),
        ..create_txn("/w/secret", b"")
    };
    seen.strangers.insert(1);
    tree.add_watch("/w", ONE, WatchMode::PersistentRecursive);
    tree.add_watch("/w/secret", ONE, WatchMode::Data);
    tree.add_watch("/w", ONE, WatchMode::Child);
    let txn = record(2, OpCode::CREATE, Txn::Create(secret));
    assert_eq!(fire(&mut tree, &mut seen, &txn), "1 children /w");
    assert!(!tree.has_watch("/w/secret", ONE, WatcherType::Data));
    tree.add_watch("/w/secret", TWO, WatchMode::Data);
    assert_eq!(fire(&mut tree, &mut seen, &delete(3, "/w/secret")), "2 deleted /w/secret");
    assert_eq!(fire(&mut tree, &mut seen, &create(4, "/w/open", b"")), "1 created /w/open");
}

/// WAT-03.
#[test]
fn what_changes_no_znode_fires_nothing() {
    let (mut tree, mut seen) = (tree(), Recorder::default());
    ok(&mut tree, &create(1, "/a", b""));
    ok(&mut tree, &create(2, "/q", b""));
    ok(&mut tree, &create(3, "/zookeeper/quota/q", b""));
    ok(&mut tree, &create(4, "/zookeeper/quota/q/zookeeper_limits", b"count=3"));
    ok(&mut tree, &create(5, "/zookeeper/quota/q/zookeeper_stats", b""));
    for path in ["/a", "/zookeeper/quota/q/zookeeper_stats"] {
        tree.add_watch(path, ONE, WatchMode::Persistent);
    }
    let acl = Txn::SetAcl { path: "/a".into(), acl: open_acl(), version: 1 };
    tree.apply(&record(6, OpCode::SET_ACL, acl), &mut seen);
    tree.apply(&create(7, "/a", b""), &mut seen);
    tree.apply(&delete(8, "/a/none"), &mut seen);
    tree.apply(&create(9, "/q/x", b""), &mut seen);
    assert_eq!(seen.text(), "");
}

#[test]
fn operations_of_a_multi_fire_one_after_the_other() {
    let (mut tree, mut seen) = (tree(), Recorder::default());
    tree.add_watch("/m", ONE, WatchMode::Data);
    tree.add_watch("/m", TWO, WatchMode::Persistent);
    let ops = vec![
        (OpCode::CREATE, Txn::Create(create_txn("/m", b""))),
        (OpCode::SET_DATA, Txn::SetData { path: "/m".into(), data: Some(b"1"), version: 1 }),
        (OpCode::DELETE, Txn::Delete { path: "/m".into() }),
    ];
    tree.apply(&record(5, OpCode::MULTI, Txn::Multi(ops)), &mut seen);
    let mut ones = seen.take();
    let twos: Vec<_> = ones.extract_if(.., |event| event.0 == 2).map(|event| event.1).collect();
    assert_eq!(ones, [(1, EventType::NODE_CREATED, "/m".to_owned())]);
    let expected = [EventType::NODE_CREATED, EventType::NODE_DATA_CHANGED, EventType::NODE_DELETED];
    assert_eq!(twos, expected);
}

/// WAT-08.
#[test]
fn ephemerals_of_a_closed_session_fire_as_deletions() {
    let (mut tree, mut seen) = (tree(), Recorder::default());
    ok(&mut tree, &ephemeral(1, "/e", SESSION));
    tree.add_watch("/e", ONE, WatchMode::Data);
    tree.add_watch("/", ONE, WatchMode::Child);
    let text = fire(&mut tree, &mut seen, &close(2, SESSION, None));
    assert_eq!(text, "1 deleted /e; 1 children /");
}

#[test]
fn each_type_of_removal_takes_its_own_kind() {
    use WatcherType::{Any, Children, Data, Persistent, PersistentRecursive};
    for there in [true, false] {
        let mut tree = tree();
        if there {
            ok(&mut tree, &create(1, "/a", b""));
        }
        let all = [
            WatchMode::Data,
            WatchMode::Child,
            WatchMode::Persistent,
            WatchMode::PersistentRecursive,
        ];
        for mode in all {
            tree.add_watch("/a", ONE, mode);
        }
        tree.add_watch("/a", TWO, WatchMode::Data);
        for kind in [Children, Data, Persistent, PersistentRecursive] {
            assert!(tree.has_watch("/a", ONE, kind) && tree.has_watch("/a", ONE, Any));
            assert!(tree.remove_watch("/a", ONE, kind));
            assert!(!tree.has_watch("/a", ONE, kind));
            assert!(!tree.remove_watch("/a", ONE, kind));
        }
        assert!(!tree.has_watch("/a", ONE, Any));
        assert!(tree.has_watch("/a", TWO, Any));
        assert!(tree.remove_watch("/a", TWO, Any));
        assert_eq!(tree.watch_count(), 0);
    }
}

/// WAT-26.
#[test]
fn a_connection_that_goes_leaves_nothing() {
    let (mut tree, mut seen) = (tree(), Recorder::default());
    ok(&mut tree, &create(1, "/a", b""));
    for watcher in [ONE, TWO] {
        tree.add_watch("/a", watcher, WatchMode::Persistent);
        tree.add_watch("/b", watcher, WatchMode::PersistentRecursive);
        tree.add_watch("/a/b/c", watcher, WatchMode::Data);
    }
    tree.drop_watcher(ONE);
    tree.drop_watcher(WatcherId(9));
    assert_eq!(tree.watch_count(), 4);
    assert_eq!(fire(&mut tree, &mut seen, &create(2, "/b", b"")), "2 created /b");
    tree.drop_watcher(TWO);
    assert_eq!(fire(&mut tree, &mut seen, &delete(3, "/b")), "");
    assert_eq!(tree.watch_count(), 0);
    assert_eq!(tree.data_watches(), []);
}

#[test]
fn numbers_and_lists_of_data_watches() {
    let mut tree = tree();
    ok(&mut tree, &create(1, "/a", b""));
    tree.add_watch("/a", ONE, WatchMode::Data);
    tree.add_watch("/a", ONE, WatchMode::Persistent);
    tree.add_watch("/a", TWO, WatchMode::PersistentRecursive);
    tree.add_watch("/b", TWO, WatchMode::Data);
    tree.add_watch("/a", WatcherId(3), WatchMode::Child);
    let summary = tree.watch_summary();
    assert_eq!((summary.watchers, summary.paths, summary.watches), (2, 2, 3));
    assert_eq!(tree.watch_count(), 5);
    let mut lists = tree.data_watches();
    lists.sort();
    assert_eq!(lists, [("/a".to_owned(), vec![ONE, TWO]), ("/b".to_owned(), vec![TWO])]);
    let mut of_two = tree.data_watches_of(TWO);
    of_two.sort();
    assert_eq!(of_two, ["/a", "/b"]);
    assert_eq!(tree.data_watches_of(ONE), ["/a"]);
    assert!(tree.data_watches_of(WatcherId(3)).is_empty());
    assert!(tree.data_watches_of(WatcherId(4)).is_empty());
}

#[test]
fn catching_up_after_a_reconnection() {
    let (mut tree, mut seen) = (tree(), Recorder::default());
    ok(&mut tree, &create(1, "/same", b""));
    ok(&mut tree, &create(2, "/data", b""));
    ok(&mut tree, &create(3, "/child", b""));
    ok(&mut tree, &set(6, "/data", b"x", 1));
    ok(&mut tree, &create(7, "/child/k", b""));
    let lists = WatchLists {
        data: &["/same", "/data", "/gone"],
        exist: &["/same", "/missing"],
        child: &["/same", "/child", "/gone"],
        persistent: &["/data", "/missing"],
        recursive: &["/child"],
    };
    let mut missed = Vec::new();
    tree.set_watches(Zxid(5), &lists, ONE, &mut |event, path: &str| {
        missed.push((event, path.to_owned()));
    });
    let expected = [
        (EventType::NODE_DATA_CHANGED, "/data"),
        (EventType::NODE_DELETED, "/gone"),
        (EventType::NODE_CREATED, "/same"),
        (EventType::NODE_CHILDREN_CHANGED, "/child"),
        (EventType::NODE_DELETED, "/gone"),
    ];
    assert_eq!(missed, expected.map(|(event, path)| (event, path.to_owned())));
    let kinds = |path: &str| -> Vec<bool> {
        use WatcherType::{Children, Data, Persistent, PersistentRecursive};
        [Data, Children, Persistent, PersistentRecursive]
            .map(|kind| tree.has_watch(path, ONE, kind))
            .to_vec()
    };
    assert_eq!(kinds("/same"), [true, true, false, false]);
    assert_eq!(kinds("/data"), [false, false, true, false]);
    assert_eq!(kinds("/missing"), [true, false, true, false]);
    assert_eq!(kinds("/child"), [false, false, false, true]);
    assert_eq!(kinds("/gone"), [false; 4]);
    assert_eq!(fire(&mut tree, &mut seen, &create(8, "/missing", b"")), "1 created /missing");
}

#[test]
fn a_watch_follows_its_path_not_the_znodes_number() {
    let (mut tree, mut seen) = (tree(), Recorder::default());
    ok(&mut tree, &create(1, "/a", b""));
    tree.add_watch("/a", ONE, WatchMode::Persistent);
    assert_eq!(fire(&mut tree, &mut seen, &delete(2, "/a")), "1 deleted /a");
    // The next znode reuses the number of the deleted one.
    assert_eq!(fire(&mut tree, &mut seen, &create(3, "/b", b"")), "");
    assert_eq!(fire(&mut tree, &mut seen, &set(4, "/b", b"", 1)), "");
    assert_eq!(fire(&mut tree, &mut seen, &create(5, "/a", b"")), "1 created /a");
}

#[test]
fn the_empty_path_is_no_watch_on_the_root() {
    let (mut tree, mut seen) = (tree(), Recorder::default());
    tree.add_watch("", ONE, WatchMode::Persistent);
    tree.add_watch("/", TWO, WatchMode::Persistent);
    assert_eq!(fire(&mut tree, &mut seen, &create(1, "/a", b"")), "2 children /");
    assert_eq!(fire(&mut tree, &mut seen, &set(2, "", b"", 1)), "2 changed /");
}

/// WAT-23.
#[test]
fn ten_thousand_watchers_of_one_znode_all_hear_of_it() {
    struct Count(usize);
    impl Events for Count {
        fn notify(&mut self, _: WatcherId, _: EventType, _: &str, _: Zxid) {
            self.0 += 1;
        }
        fn may_read(&mut self, _: WatcherId, _: &[zebu_proto::Acl]) -> bool {
            true
        }
    }
    let mut tree = tree();
    for round in 0..20 {
        for watcher in 0..10_000 {
            tree.add_watch("/hot", WatcherId(watcher), WatchMode::Data);
            if watcher % 10 == 0 {
                tree.add_watch("/hot", WatcherId(watcher), WatchMode::PersistentRecursive);
            }
        }
        assert_eq!(tree.watch_count(), 10_000);
        let mut count = Count(0);
        let txn = match round {
            0 => create(1, "/hot", b""),
            19 => delete(100, "/hot"),
            _ => set(round, "/hot", b"", round as i32),
        };
        tree.apply(&txn, &mut count);
        assert_eq!(count.0, 10_000);
        assert_eq!(tree.watch_count(), 1_000);
    }
    for watcher in 0..10_000 {
        tree.drop_watcher(WatcherId(watcher));
    }
    assert_eq!(tree.watch_count(), 0);
}

#[test]
fn what_is_kept_for_one_watcher_is_bounded_by_bytes() {
    let tree = tree();
    let (one, other) = (WatcherId(1), WatcherId(2));
    let path = |n: usize| format!("/{}{n:0>8}", "x".repeat((1 << 20) - 9));
    let most = WATCH_BYTES_MAX >> 20;
    for n in 0..most {
        assert!(tree.add_watch(&path(n), one, WatchMode::Data));
    }
    // No further watches are accepted. Setting an existing one again is accepted, and costs
    // nothing.
    assert!(!tree.add_watch(&path(most), one, WatchMode::Data));
    assert!(!tree.has_watch(&path(most), one, WatcherType::Any));
    assert!(tree.add_watch(&path(0), one, WatchMode::Persistent));
    // Other connections have room, and so have watches on znodes that are deleted with these.
    assert!(tree.add_watch(&path(most), other, WatchMode::Data));
    assert!(tree.add_watch("/zookeeper", one, WatchMode::Child));
    assert!(!tree.add_watch("/zookeeper", one, WatchMode::Persistent));
    // Removing watches makes room.
    assert!(tree.remove_watch(&path(0), one, WatcherType::Any));
    assert!(tree.add_watch(&path(most), one, WatchMode::Data));
    tree.drop_watcher(one);
    assert!(tree.add_watch("/zookeeper", one, WatchMode::Persistent));
}

//! Compares the watch table with a naive model.

#![expect(clippy::disallowed_methods, reason = "a test needs threads")]

mod common;

use std::collections::{BTreeMap, BTreeSet};

use common::{Recorder, create, delete, set, tree};
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::test_runner::{Config, RngAlgorithm, RngSeed};
use zebu_proto::{EventType, WatcherType, Zxid};
use zebu_tree::{Tree, WatchLists, WatchMode, WatcherId};

#[derive(Clone, Debug)]
enum Step {
    Add {
        path: &'static str,
        watcher: u32,
        mode: WatchMode,
    },
    Remove {
        path: &'static str,
        watcher: u32,
        kind: WatcherType,
    },
    Drop {
        watcher: u32,
    },
    Reset {
        path: &'static str,
        watcher: u32,
        relative: i64,
    },
    Create {
        path: &'static str,
    },
    Delete {
        path: &'static str,
    },
    Set {
        path: &'static str,
    },
    /// Many watchers at once, so that they share a group.
    Crowd {
        path: &'static str,
        count: u32,
        mode: WatchMode,
    },
}

const PATHS: [&str; 6] = ["/", "/a", "/a/b", "/a/b/c", "/a/d", "/e"];

fn path() -> impl Strategy<Value = &'static str> {
    (0..PATHS.len()).prop_map(|i| PATHS[i])
}

fn mode() -> impl Strategy<Value = WatchMode> {
    use WatchMode::{Child, Data, Persistent, PersistentRecursive};
    prop_oneof![Just(Data), Just(Child), Just(Persistent), Just(PersistentRecursive)]
}

fn kind() -> impl Strategy<Value = WatcherType> {
    (1..=5).prop_map(|kind| WatcherType::from_wire(kind).unwrap())
}

fn step() -> impl Strategy<Value = Step> {
    let watcher = || 0..14u32;
    prop_oneof![
        8 => (path(), watcher(), mode())
            .prop_map(|(path, watcher, mode)| Step::Add { path, watcher, mode }),
        2 => (path(), watcher(), kind())
            .prop_map(|(path, watcher, kind)| Step::Remove { path, watcher, kind }),
        1 => watcher().prop_map(|watcher| Step::Drop { watcher }),
        1 => (path(), watcher(), 0..60i64)
            .prop_map(|(path, watcher, relative)| Step::Reset { path, watcher, relative }),
        4 => path().prop_map(|path| Step::Create { path }),
        3 => path().prop_map(|path| Step::Delete { path }),
        3 => path().prop_map(|path| Step::Set { path }),
        1 => (path(), 1..14u32, mode())
            .prop_map(|(path, count, mode)| Step::Crowd { path, count, mode }),
    ]
}

/// Four tables of (path, watcher), and the znodes that exist.
#[derive(Default)]
struct Model {
    tables: BTreeMap<u8, BTreeSet<(String, u32)>>,
}

fn number(mode: WatchMode) -> u8 {
    match mode {
        WatchMode::Data => 0,
        WatchMode::Child => 1,
        WatchMode::Persistent => 2,
        WatchMode::PersistentRecursive => 3,
    }
}

fn numbers(kind: WatcherType) -> &'static [u8] {
    match kind {
        WatcherType::Data => &[0],
        WatcherType::Children => &[1],
        WatcherType::Persistent => &[2],
        WatcherType::PersistentRecursive => &[3],
        WatcherType::Any => &[0, 1, 2, 3],
    }
}

impl Model {
    fn table(&mut self, number: u8) -> &mut BTreeSet<(String, u32)> {
        self.tables.entry(number).or_default()
    }

    fn on(&mut self, table: u8, path: &str) -> BTreeSet<u32> {
        let here = |entry: &&(String, u32)| entry.0 == path;
        self.table(table).iter().filter(here).map(|entry| entry.1).collect()
    }

    fn recursive(&mut self, path: &str) -> BTreeSet<u32> {
        let covers = |entry: &&(String, u32)| {
            entry.0 == "/" || entry.0 == path || path.starts_with(&format!("{}/", entry.0))
        };
        self.table(3).iter().filter(covers).map(|entry| entry.1).collect()
    }

    fn spend(&mut self, table: u8, path: &str) {
        self.table(table).retain(|entry| entry.0 != path);
    }

    /// The watchers of an event on the znode itself.
    fn node_event(&mut self, path: &str, deleted: bool) -> BTreeSet<u32> {
        let mut told = &(&self.on(0, path) | &self.on(2, path)) | &self.recursive(path);
        self.spend(0, path);
        if deleted {
            told = &told | &self.on(1, path);
            self.spend(1, path);
        }
        told
    }

    fn children_event(&mut self, path: &str) -> BTreeSet<u32> {
        let told = &self.on(1, path) | &self.on(2, path);
        self.spend(1, path);
        told
    }

    /// Registrations as the original counts them: per table, path and watcher.
    fn count(&mut self) -> usize {
        let data = &(&self.table(0).clone() | &self.table(2).clone()) | &self.table(3).clone();
        let child = &self.table(1).clone() | &self.table(2).clone();
        data.len() + child.len()
    }
}

fn parent_of(path: &str) -> &str {
    match path.rfind('/') {
        Some(0) | None => "/",
        Some(at) => &path[..at],
    }
}

/// Compares the notifications event by event. The order among the watchers of one event is not
/// defined.
fn assert_told(
    seen: &mut Recorder,
    expected: &[(EventType, &str, BTreeSet<u32>)],
) -> Result<(), TestCaseError> {
    let told = seen.take();
    let mut rest = &told[..];
    for (event, path, watchers) in expected {
        let mut here = BTreeSet::new();
        while let Some(((watcher, _, _), more)) =
            rest.split_first().filter(|(first, _)| first.1 == *event && first.2 == *path)
        {
            prop_assert!(here.insert(*watcher), "told twice: {watcher}");
            rest = more;
        }
        prop_assert_eq!(&here, watchers, "{:?} {}", event, path);
    }
    prop_assert!(rest.is_empty(), "more than expected: {:?}", rest);
    Ok(())
}

fn assert_tables(tree: &Tree, model: &mut Model) -> Result<(), TestCaseError> {
    tree.check();
    prop_assert_eq!(tree.watch_count(), model.count());
    for path in PATHS {
        for watcher in 0..14 {
            for kind in (1..=5).map(|kind| WatcherType::from_wire(kind).unwrap()) {
                let entry = (path.to_owned(), watcher);
                let has = numbers(kind).iter().any(|table| model.table(*table).contains(&entry));
                prop_assert_eq!(tree.has_watch(path, WatcherId(watcher), kind), has);
            }
        }
    }
    let mut lists = BTreeMap::new();
    for table in [0, 2, 3] {
        for (path, watcher) in model.table(table).iter() {
            lists.entry(path.clone()).or_insert_with(BTreeSet::new).insert(WatcherId(*watcher));
        }
    }
    let mut ours = BTreeMap::new();
    for (path, watchers) in tree.data_watches() {
        ours.insert(path, watchers.into_iter().collect::<BTreeSet<_>>());
    }
    prop_assert_eq!(&ours, &lists);
    let summary = tree.watch_summary();
    prop_assert_eq!(summary.paths, lists.len());
    prop_assert_eq!(summary.watches, lists.values().map(BTreeSet::len).sum::<usize>());
    Ok(())
}

/// A client sets its watches on a znode again, as of the zxid `relative`.
fn reset(
    tree: &mut Tree,
    model: &mut Model,
    path: &str,
    watcher: u32,
    relative: i64,
) -> Result<(), TestCaseError> {
    let here = [path];
    let lists = WatchLists { data: &here, child: &here, ..WatchLists::default() };
    let mut missed = Vec::new();
    tree.set_watches(Zxid(relative), &lists, WatcherId(watcher), &mut |event, _: &str| {
        missed.push(event);
    });
    let stat = tree.node(path).map(|node| node.persisted());
    let mut expected = Vec::new();
    for (table, change) in
        [(0, EventType::NODE_DATA_CHANGED), (1, EventType::NODE_CHILDREN_CHANGED)]
    {
        let zxid = |stat: &zebu_proto::StatPersisted| {
            if table == 0 { stat.mzxid } else { stat.pzxid }
        };
        match &stat {
            None => expected.push(EventType::NODE_DELETED),
            Some(stat) if zxid(stat).0 > relative => expected.push(change),
            Some(_) => {
                model.table(table).insert((path.to_owned(), watcher));
            }
        }
    }
    prop_assert_eq!(missed, expected);
    Ok(())
}

fn run(steps: Vec<Step>) -> Result<(), TestCaseError> {
    let (mut tree, mut model, mut seen) = (tree(), Model::default(), Recorder::default());
    for (i, step) in steps.into_iter().enumerate() {
        let zxid = i as i64 + 1;
        match step {
            Step::Add { path, watcher, mode } => {
                tree.add_watch(path, WatcherId(watcher), mode);
                model.table(number(mode)).insert((path.to_owned(), watcher));
            }
            Step::Crowd { path, count, mode } => {
                for watcher in 0..count {
                    tree.add_watch(path, WatcherId(watcher), mode);
                    model.table(number(mode)).insert((path.to_owned(), watcher));
                }
            }
            Step::Remove { path, watcher, kind } => {
                let mut any = false;
                for table in numbers(kind) {
                    any |= model.table(*table).remove(&(path.to_owned(), watcher));
                }
                prop_assert_eq!(tree.remove_watch(path, WatcherId(watcher), kind), any);
            }
            Step::Drop { watcher } => {
                tree.drop_watcher(WatcherId(watcher));
                model
                    .tables
                    .values_mut()
                    .for_each(|table| table.retain(|entry| entry.1 != watcher));
            }
            Step::Reset { path, watcher, relative } => {
                reset(&mut tree, &mut model, path, watcher, relative)?;
            }
            Step::Create { path } => {
                let fits = tree.node(path).is_none() && tree.node(parent_of(path)).is_some();
                tree.apply(&create(zxid, path, b""), &mut seen);
                let mut expected = Vec::new();
                if fits {
                    let told = model.node_event(path, false);
                    expected.push((EventType::NODE_CREATED, path, told));
                    let parent = parent_of(path);
                    let told = model.children_event(parent);
                    expected.push((EventType::NODE_CHILDREN_CHANGED, parent, told));
                }
                assert_told(&mut seen, &expected)?;
            }
            Step::Delete { path } => {
                let leaf = tree.node(path).is_some_and(|node| node.child_count() == 0);
                if !leaf || path == "/" {
                    continue;
                }
                tree.apply(&delete(zxid, path), &mut seen);
                let told = model.node_event(path, true);
                let parent = parent_of(path);
                let above = model.children_event(parent);
                let expected = [
                    (EventType::NODE_DELETED, path, told),
                    (EventType::NODE_CHILDREN_CHANGED, parent, above),
                ];
                assert_told(&mut seen, &expected)?;
            }
            Step::Set { path } => {
                let there = tree.node(path).is_some();
                tree.apply(&set(zxid, path, b"", 1), &mut seen);
                let mut expected = Vec::new();
                if there {
                    let told = model.node_event(path, false);
                    expected.push((EventType::NODE_DATA_CHANGED, path, told));
                }
                assert_told(&mut seen, &expected)?;
            }
        }
    }
    assert_tables(&tree, &mut model)
}

proptest! {
    #![proptest_config(Config {
        cases: 300,
        rng_algorithm: RngAlgorithm::ChaCha,
        rng_seed: RngSeed::Fixed(0x5eed),
        failure_persistence: None,
        ..Config::default()
    })]

    #[test]
    fn random_steps_do_what_four_plain_tables_do(steps in vec(step(), 1..120)) {
        run(steps)?;
    }
}

#[test]
fn many_threads_register_and_remove_at_once() {
    let mut tree = tree();
    for (zxid, path) in [(1, "/a"), (2, "/a/b")] {
        tree.apply(&create(zxid, path, b""), &mut Recorder::default());
    }
    std::thread::scope(|scope| {
        for thread in 0..8 {
            let tree = &tree;
            scope.spawn(move || {
                for round in 0..300 {
                    let watcher = WatcherId(thread * 4 + round % 4);
                    for path in PATHS {
                        tree.add_watch(path, watcher, WatchMode::Persistent);
                        tree.add_watch(path, watcher, WatchMode::Data);
                    }
                    assert!(tree.remove_watch("/e", watcher, WatcherType::Any));
                    tree.data_watches();
                    if round % 3 == 0 {
                        tree.drop_watcher(watcher);
                    }
                }
                for watcher in 0..4 {
                    tree.drop_watcher(WatcherId(thread * 4 + watcher));
                }
            });
        }
    });
    assert_eq!(tree.watch_count(), 0);
    assert_eq!(tree.data_watches(), []);
}

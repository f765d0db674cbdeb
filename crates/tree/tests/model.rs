//! Compares the tree with a naive model: random transactions, with snapshots taken meanwhile.

mod common;

use std::collections::{BTreeMap, BTreeSet};

use common::{Row, apply, digest_from_scratch, options, record, rows, time_of, tree};
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::test_runner::{Config, RngAlgorithm, RngSeed};
use zebu_proto::txn::{CreateTxn, Txn, TxnRecord};
use zebu_proto::{Acl, AclRef, ErrorCode, OpCode, Owner, SessionId, StatPersisted, Zxid};
use zebu_tree::{Loader, Silent, Tree, Walk};

/// A step of a test. It may turn out to be impossible.
#[derive(Clone, Debug)]
enum Step {
    Create {
        path: String,
        data: Vec<u8>,
        kind: u8,
        acl: u8,
    },
    Delete {
        path: String,
    },
    Set {
        path: String,
        data: Option<Vec<u8>>,
    },
    SetAcl {
        path: String,
        acl: u8,
    },
    Open {
        session: i64,
    },
    Close {
        session: i64,
        listed: bool,
    },
    Multi(Vec<Step>),
    /// Number of znodes that a walk visits in this step, if there is a walk.
    Walk(usize),
}

fn path() -> impl Strategy<Value = String> {
    vec(0..4u8, 1..4).prop_map(|names| names.iter().map(|name| format!("/n{name}")).collect())
}

fn single() -> impl Strategy<Value = Step> {
    let data = || vec(any::<u8>(), 0..300);
    prop_oneof![
        6 => (path(), data(), 0..5u8, 0..3u8)
            .prop_map(|(path, data, kind, acl)| Step::Create { path, data, kind, acl }),
        3 => path().prop_map(|path| Step::Delete { path }),
        2 => (path(), proptest::option::of(data())).prop_map(|(path, data)| Step::Set { path, data }),
        1 => (path(), 0..3u8).prop_map(|(path, acl)| Step::SetAcl { path, acl }),
    ]
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        12 => single(),
        1 => (1..4i64).prop_map(|session| Step::Open { session }),
        1 => (1..4i64, any::<bool>()).prop_map(|(session, listed)| Step::Close { session, listed }),
        1 => vec(single(), 0..4).prop_map(Step::Multi),
        2 => (1..4usize).prop_map(Step::Walk),
    ]
}

fn acl(number: u8) -> Vec<Acl> {
    match number {
        0 => Acl::open(),
        1 => Acl::read_only(),
        _ => [Acl::read_only(), Acl::open()].concat(),
    }
}

#[derive(Clone, Debug, PartialEq)]
struct Znode {
    data: Option<Vec<u8>>,
    stat: StatPersisted,
    acl: Vec<Acl>,
}

/// The naive tree: a map of paths. It also plays the role of validation.
#[derive(Clone, Debug)]
struct Model {
    znodes: BTreeMap<String, Znode>,
    sessions: BTreeMap<i64, i32>,
}

fn parent_of(path: &str) -> String {
    match path.rfind('/') {
        Some(0) => "/".to_owned(),
        at => path[..at.expect("paths are absolute")].to_owned(),
    }
}

impl Model {
    fn new() -> Self {
        let znodes = rows(&tree())
            .into_iter()
            .map(|(path, data, stat, acl)| (path, Znode { data, stat, acl }))
            .collect();
        Self { znodes, sessions: BTreeMap::new() }
    }

    fn rows(&self) -> Vec<Row> {
        self.znodes
            .iter()
            .map(|(path, node)| (path.clone(), node.data.clone(), node.stat, node.acl.clone()))
            .collect()
    }

    fn has_children(&self, path: &str) -> bool {
        let below = format!("{path}/");
        self.znodes.keys().any(|other| other.starts_with(&below))
    }

    fn create(
        &mut self,
        path: &str,
        data: &[u8],
        kind: u8,
        number: u8,
        zxid: i64,
    ) -> Option<(OpCode, i64, Txn<'static>)> {
        let above = self.znodes.get_mut(&parent_of(path))?;
        let owner = Owner::decode(above.stat.ephemeral_owner, options().types);
        if matches!(owner, Owner::Session(_)) {
            return None;
        }
        let (op, owner, session) = match kind {
            0 | 1 => (OpCode::CREATE, Owner::Persistent, 0),
            2 => {
                let session = *self.sessions.keys().next()?;
                (OpCode::CREATE2, Owner::Session(SessionId(session)), session)
            }
            3 => (OpCode::CREATE_CONTAINER, Owner::Container, 0),
            _ => (OpCode::CREATE_TTL, Owner::Ttl(1000), 0),
        };
        if self.znodes.contains_key(path) {
            return None;
        }
        let above = self.znodes.get_mut(&parent_of(path))?;
        above.stat.cversion += 1;
        above.stat.pzxid = Zxid(zxid);
        let parent_cversion = above.stat.cversion;
        let stat = StatPersisted {
            czxid: Zxid(zxid),
            mzxid: Zxid(zxid),
            pzxid: Zxid(zxid),
            ctime: time_of(zxid),
            mtime: time_of(zxid),
            ephemeral_owner: owner.encode(),
            ..Default::default()
        };
        let acl = acl(number);
        let txn = CreateTxn {
            path: path.to_owned().into(),
            data: Some(data.to_vec().leak()),
            acl: refs(&acl),
            ephemeral: kind == 2,
            parent_cversion,
            ttl_ms: if kind == 4 { 1000 } else { 0 },
        };
        let znode = Znode { data: Some(data.to_vec()), stat, acl };
        self.znodes.insert(path.to_owned(), znode);
        Some((op, session, Txn::Create(txn)))
    }

    /// Executes a step if possible, and returns the transaction to log.
    fn apply(&mut self, step: &Step, zxid: i64) -> Option<(OpCode, i64, Txn<'static>)> {
        match step {
            Step::Create { path, data, kind, acl } => self.create(path, data, *kind, *acl, zxid),
            Step::Delete { path } => {
                if self.has_children(path) || self.znodes.remove(path).is_none() {
                    return None;
                }
                self.znodes.get_mut(&parent_of(path))?.stat.pzxid = Zxid(zxid);
                Some((OpCode::DELETE, 0, Txn::Delete { path: path.clone().into() }))
            }
            Step::Set { path, data } => {
                let node = self.znodes.get_mut(path)?;
                node.data = data.clone();
                node.stat.version += 1;
                node.stat.mzxid = Zxid(zxid);
                node.stat.mtime = time_of(zxid);
                let (path, version) = (path.clone().into(), node.stat.version);
                let data = data.clone().map(|data| &*data.leak());
                Some((OpCode::SET_DATA, 0, Txn::SetData { path, data, version }))
            }
            Step::SetAcl { path, acl: number } => {
                let node = self.znodes.get_mut(path)?;
                node.acl = acl(*number);
                node.stat.aversion += 1;
                let (acl, version) = (refs(&node.acl), node.stat.aversion);
                Some((OpCode::SET_ACL, 0, Txn::SetAcl { path: path.clone().into(), acl, version }))
            }
            Step::Open { session } => {
                self.sessions.insert(*session, 4000);
                Some((OpCode::CREATE_SESSION, *session, Txn::CreateSession { timeout_ms: 4000 }))
            }
            Step::Close { session, listed } => {
                self.sessions.remove(session)?;
                let owned = |node: &Znode| node.stat.ephemeral_owner == *session;
                let paths: Vec<String> = self
                    .znodes
                    .iter()
                    .filter(|(_, node)| owned(node))
                    .map(|(path, _)| path.clone())
                    .collect();
                for path in &paths {
                    self.znodes.remove(path);
                    self.znodes.get_mut(&parent_of(path))?.stat.pzxid = Zxid(zxid);
                }
                let paths = listed.then(|| paths.into_iter().map(Into::into).collect());
                Some((OpCode::CLOSE_SESSION, *session, Txn::CloseSession { paths }))
            }
            Step::Multi(steps) => {
                let mut after = self.clone();
                let mut ops = Vec::new();
                for step in steps {
                    // All operations of a multi have the same session.
                    if matches!(step, Step::Create { kind: 2, .. }) {
                        continue;
                    }
                    if let Some((op, _, txn)) = after.apply(step, zxid) {
                        ops.push((op, txn));
                    }
                }
                *self = after;
                Some((OpCode::MULTI, 0, Txn::Multi(ops)))
            }
            Step::Walk(_) => None,
        }
    }
}

fn refs(acl: &[Acl]) -> Vec<AclRef<'static>> {
    let entry = |acl: &Acl| AclRef {
        perms: acl.perms,
        scheme: Some(acl.id.scheme.clone().into()),
        id: Some(acl.id.id.clone().into()),
    };
    acl.iter().map(entry).collect()
}

fn assert_same(tree: &Tree, model: &Model) {
    tree.check();
    assert_eq!(rows(tree), model.rows());
    assert_eq!(tree.digest(), digest_from_scratch(tree));
    let sessions: Vec<_> = tree.sessions().map(|(session, timeout)| (session.0, timeout)).collect();
    assert_eq!(sessions, model.sessions.clone().into_iter().collect::<Vec<_>>());
    let paths_of = |wanted: fn(Owner) -> bool| -> BTreeSet<String> {
        let owner = |node: &Znode| Owner::decode(node.stat.ephemeral_owner, options().types);
        let held = model.znodes.iter().filter(|(_, node)| wanted(owner(node)));
        held.map(|(path, _)| path.clone()).collect()
    };
    let ephemerals: BTreeSet<String> =
        tree.sessions_with_ephemerals().flat_map(|session| tree.ephemerals(session)).collect();
    assert_eq!(ephemerals.len(), tree.ephemerals_count());
    assert_eq!(ephemerals, paths_of(|owner| matches!(owner, Owner::Session(_))));
    let containers: BTreeSet<String> = tree.containers().map(|node| node.path()).collect();
    assert_eq!(containers, paths_of(|owner| owner == Owner::Container));
    let ttls: BTreeSet<String> = tree.ttl_nodes().map(|node| node.path()).collect();
    assert_eq!(ttls, paths_of(|owner| matches!(owner, Owner::Ttl(_))));
    let size =
        |(path, node): (&String, &Znode)| path.len() + node.data.as_ref().map_or(0, Vec::len);
    assert_eq!(tree.approximate_data_size() as usize, model.znodes.iter().map(size).sum::<usize>());
    for (path, node) in &model.znodes {
        let here = tree.node(path).unwrap();
        let above = |other: &&String| other.len() > 1 && parent_of(other) == *path;
        let children = model.znodes.keys().filter(above).count();
        assert_eq!(here.child_count() as usize, children);
        let names: Vec<&str> = here.children().collect();
        assert_eq!(names.len(), children);
        let born = |name: &&str| here.child(name).unwrap().persisted().czxid;
        assert!(names.iter().map(born).is_sorted(), "{path}: {names:?}");
        assert_eq!(here.persisted(), node.stat);
    }
}

/// A snapshot in progress. Its sessions and ACLs are those from its beginning.
struct Snapshot {
    walk: Walk,
    loader: Loader,
    done: bool,
}

impl Snapshot {
    fn begin(tree: &Tree) -> Self {
        let mut loader = Loader::new(tree.options());
        tree.sessions().for_each(|(session, timeout)| loader.session(session, timeout));
        tree.acl_table().for_each(|(id, acl)| loader.acl(id, acl.to_vec()));
        Self { walk: Walk::new(tree), loader, done: false }
    }

    fn step(&mut self, tree: &Tree, budget: usize) {
        let Self { walk, loader, .. } = self;
        self.done = walk.step(tree, budget, &mut |path, data, acl, stat| {
            loader.node(path, data, acl, stat).expect("parents come first and nothing comes twice");
        });
    }
}

fn config(cases: u32) -> Config {
    Config {
        cases,
        rng_algorithm: RngAlgorithm::ChaCha,
        rng_seed: RngSeed::Fixed(0x5eed),
        failure_persistence: None,
        ..Config::default()
    }
}

proptest! {
    #![proptest_config(config(200))]

    #[test]
    fn random_transactions_do_what_a_map_of_paths_does(steps in vec(step(), 1..80)) {
        let (mut tree, mut model) = (tree(), Model::new());
        for (i, step) in steps.iter().enumerate() {
            let zxid = i as i64 + 1;
            if let Some((op, session, txn)) = model.apply(step, zxid) {
                let mut txn = record(zxid, op, txn);
                txn.header.session = SessionId(session);
                prop_assert_eq!(tree.apply(&txn, &mut Silent).err, ErrorCode::OK);
            }
        }
        assert_same(&tree, &model);
        assert_same(&common::reload(&tree), &model);
    }

    #[test]
    fn a_fuzzy_snapshot_and_the_log_give_the_same_tree(
        before in vec(step(), 0..40),
        during in vec(step(), 1..60),
        after in vec(step(), 0..20),
    ) {
        let (mut tree, mut model) = (tree(), Model::new());
        let mut log: Vec<TxnRecord<'static>> = Vec::new();
        let mut snapshots: Vec<(usize, Snapshot)> = Vec::new();
        let walks = before.len();
        for (i, step) in before.iter().chain(&during).chain(&after).enumerate() {
            if i >= walks && i < walks + during.len() && snapshots.len() < 4 {
                snapshots.push((log.len(), Snapshot::begin(&tree)));
            }
            if let Step::Walk(budget) = step {
                for (_, snapshot) in &mut snapshots {
                    snapshot.step(&tree, *budget);
                }
            }
            // Without the list, replay cannot know that a parent has lost an ephemeral that is
            // missing in the snapshot. That is why the original started to log the list
            // (ZOOKEEPER-3145).
            let step = match step {
                Step::Close { session, .. } => &Step::Close { session: *session, listed: true },
                step => step,
            };
            let zxid = i as i64 + 1;
            if let Some((op, session, txn)) = model.apply(step, zxid) {
                let mut txn = record(zxid, op, txn);
                txn.header.session = SessionId(session);
                tree.apply(&txn, &mut Silent);
                log.push(txn);
            }
        }
        let last = tree.last_zxid();
        for (from, mut snapshot) in snapshots {
            while !snapshot.done {
                snapshot.step(&tree, 5);
            }
            let promised = (last, tree.digest());
            let mut loaded = snapshot.loader.finish().unwrap();
            loaded.set_last_zxid(snapshot.walk.began());
            loaded.expect_digest(promised.0, promised.1);
            for txn in &log[from..] {
                prop_assert!(loaded.apply(txn, &mut Silent).digest_matches);
            }
            prop_assert!(!loaded.digest_pending() || last == Zxid::ZERO);
            prop_assert_eq!(loaded.digest_mismatches(), 0);
            assert_same(&loaded, &model);
            for path in model.znodes.keys() {
                let names = |tree: &Tree| -> Vec<String> {
                    tree.node(path).unwrap().children().map(str::to_owned).collect()
                };
                prop_assert_eq!(names(&loaded), names(&tree));
            }
        }
    }

    #[test]
    fn no_transaction_ever_fails_to_apply(steps in vec(step(), 1..60), keep in vec(any::<bool>(), 60)) {
        // A log with gaps, on a tree without the earlier changes.
        let (mut tree, mut model) = (tree(), Model::new());
        for (i, step) in steps.iter().enumerate() {
            let zxid = i as i64 + 1;
            let Some((op, session, txn)) = model.apply(step, zxid) else { continue };
            if keep[i] {
                let mut txn = record(zxid, op, txn);
                txn.header.session = SessionId(session);
                tree.read_ahead(std::slice::from_ref(&txn));
                tree.apply(&txn, &mut Silent);
                assert_eq!(tree.digest(), digest_from_scratch(&tree));
            }
        }
        let again = common::reload(&tree);
        assert_eq!(rows(&again), rows(&tree));
        assert_eq!(again.approximate_data_size(), tree.approximate_data_size());
    }
}

#[test]
fn a_walk_stands_on_a_znode_that_goes() {
    let mut tree = tree();
    for (zxid, path) in [(1, "/a"), (2, "/b"), (3, "/b/x"), (4, "/c")] {
        apply(&mut tree, &common::create(zxid, path, b""));
    }
    let mut walk = Walk::new(&tree);
    let mut seen = Vec::new();
    let mut visit = |path: &str, _: Option<&[u8]>, _: i64, _: &StatPersisted| {
        seen.push(path.to_owned());
    };
    assert!(!walk.step(&tree, 3, &mut visit)); // The root, /c, /b; next is /b/x.
    for (zxid, path) in [(5, "/b/x"), (6, "/b")] {
        apply(&mut tree, &common::delete(zxid, path));
    }
    apply(&mut tree, &common::create(7, "/b", b""));
    apply(&mut tree, &common::create(8, "/b/x", b""));
    while !walk.step(&tree, 1, &mut visit) {}
    assert!(walk.step(&tree, 1, &mut visit));
    assert_eq!(seen[..4], ["", "/c", "/b", "/a"]);
    assert_eq!(seen.iter().collect::<BTreeSet<_>>().len(), seen.len());
}

#[test]
#[should_panic(expected = "another tree")]
fn a_walk_does_not_go_on_over_another_tree() {
    let mut walk = Walk::new(&tree());
    walk.step(&tree(), 1, &mut |_, _, _, _| {});
}

//! A tree built from the content of a store, and the parts that two trees must have in common.

use std::collections::BTreeMap;

use zebu_jute::Encoder;
use zebu_proto::txn::{Txn, TxnHeader, TxnRecord};
use zebu_proto::{Acl, ExtendedTypes, OpCode, Owner, SessionId, StatPersisted, Zxid};
use zebu_testkit::told::{Told, Znode};
use zebu_tree::{Loader, Options, Tree, digest_counts, node_digest};

/// All kinds of znodes.
pub(crate) const OPTIONS: Options = Options {
    types: ExtendedTypes { enabled: true, emulate_353: false },
    digest: true,
    hash_seed: 7,
};

/// The body of the record that creates a session.
pub(crate) fn create_session(zxid: Zxid, session: SessionId, timeout_ms: i32) -> Vec<u8> {
    let header = TxnHeader { session, cxid: 0, zxid, time_ms: 1, op: OpCode::CREATE_SESSION };
    let txn = Txn::CreateSession { timeout_ms };
    let mut body = Vec::new();
    TxnRecord { header, txn, digest: None }.encode(&mut Encoder::new(&mut body));
    body
}

/// The tree in a snapshot, if the snapshot is valid.
pub(crate) fn load(told: &Told, options: Options) -> Option<Tree> {
    let mut loader = Loader::new(options);
    for (id, timeout_ms) in &told.sessions {
        loader.session(*id, *timeout_ms);
    }
    for (id, acl) in &told.acls {
        loader.acl(*id, acl.clone());
    }
    for Znode { path, data, acl, stat } in &told.znodes {
        loader.node(path, data.as_deref(), *acl, stat).ok()?;
    }
    loader.finish().ok()
}

/// Data, stat and ACL of a znode.
type Values = (Option<Vec<u8>>, StatPersisted, Vec<Acl>);

/// The parts that two trees with the same history have in common.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Content {
    znodes: BTreeMap<String, Values>,
    sessions: Vec<(SessionId, i32)>,
    ephemerals: BTreeMap<SessionId, Vec<String>>,
    quotas: Vec<String>,
    digest: i64,
}

impl Content {
    /// The whole tree except the usage of quotas, which every start computes again.
    pub(crate) fn of(tree: &Tree) -> Self {
        let mut znodes = BTreeMap::new();
        each(tree, &mut |path, node| {
            let usage = path.starts_with("/zookeeper/quota/") && path.ends_with("/zookeeper_stats");
            let data = node.data().filter(|_| !usage).map(<[u8]>::to_vec);
            znodes.insert(path.to_owned(), (data, node.persisted(), node.acl().to_vec()));
        });
        let ephemerals = tree.sessions_with_ephemerals().map(|session| {
            let mut paths: Vec<String> = tree.ephemerals(session).collect();
            paths.sort();
            (session, paths)
        });
        Self {
            znodes,
            sessions: tree.sessions().collect(),
            ephemerals: ephemerals.collect(),
            quotas: tree.quota_paths().map(str::to_owned).collect(),
            digest: tree.digest(),
        }
    }
}

fn each(tree: &Tree, visit: &mut dyn FnMut(&str, zebu_tree::Node<'_>)) {
    let mut waiting = vec![("/".to_owned(), tree.node("/").expect("there is always a root"))];
    while let Some((path, node)) = waiting.pop() {
        visit(&path, node);
        for name in node.children() {
            let below = format!("{}/{name}", if path == "/" { "" } else { &path });
            waiting.push((below, node.child(name).expect("it was just listed")));
        }
    }
}

/// Checks the invariants of a tree: its counters are those of its znodes, and its digest equals the
/// digest computed from scratch.
pub(crate) fn check_tree(tree: &Tree) {
    let (mut count, mut digest, mut size, mut ephemerals) = (0, 0_u64, 0, 0);
    each(tree, &mut |path, node| {
        count += 1;
        size += path.chars().count() as u64 + node.data().map_or(0, <[u8]>::len) as u64;
        assert_eq!(node.child_count() as usize, node.children().count(), "{path}");
        assert_eq!(node.stat().num_children, node.child_count() as i32);
        if path == "/" {
            // The root counts under both its names, one of which is empty.
            size += node.data().map_or(0, <[u8]>::len) as u64;
        }
        assert_eq!(node.path(), path);
        if digest_counts(path) {
            let part = node_digest(path, node.data(), &node.persisted());
            digest = digest.wrapping_add(part.into());
        }
        if let Owner::Session(session) = node.owner() {
            ephemerals += 1;
            assert!(tree.ephemerals(session).any(|owned| owned == path), "{path}");
        }
    });
    assert_eq!(tree.znode_count(), count);
    assert_eq!(tree.approximate_data_size(), size);
    assert_eq!(tree.ephemerals_count(), ephemerals);
    if tree.options().digest {
        assert_eq!(tree.digest(), digest as i64, "the digest is that of the znodes");
    }
}

//! A tree built from what a store finds, and what two trees must have in common.

use std::collections::BTreeMap;

use zebu_jute::Encoder;
use zebu_proto::txn::{Txn, TxnHeader, TxnRecord};
use zebu_proto::{Acl, ExtendedTypes, OpCode, Owner, SessionId, StatPersisted, Zxid};
use zebu_store::Recover;
use zebu_tree::{Loader, Options, Tree, digest_counts, node_digest};

/// All kinds of znode there are.
pub(crate) const OPTIONS: Options = Options {
    types: ExtendedTypes { enabled: true, emulate_353: false },
    digest: true,
    hash_seed: 7,
};

/// The body of the record that makes a session.
pub(crate) fn create_session(zxid: Zxid, session: SessionId, timeout_ms: i32) -> Vec<u8> {
    let header = TxnHeader { session, cxid: 0, zxid, time_ms: 1, op: OpCode::CREATE_SESSION };
    let txn = Txn::CreateSession { timeout_ms };
    let mut body = Vec::new();
    TxnRecord { header, txn, digest: None }.encode(&mut Encoder::new(&mut body));
    body
}

/// A znode as a snapshot has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Znode {
    pub(crate) path: String,
    pub(crate) data: Option<Vec<u8>>,
    pub(crate) acl: i64,
    pub(crate) stat: StatPersisted,
}

/// A snapshot as it was read.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Told {
    pub(crate) sessions: Vec<(SessionId, i32)>,
    pub(crate) acls: Vec<(i64, Vec<Acl>)>,
    pub(crate) znodes: Vec<Znode>,
    pub(crate) digest: Option<(Zxid, i32, i64)>,
}

impl Told {
    /// The tree the snapshot describes, if it is one.
    pub(crate) fn load(&self, options: Options) -> Option<Tree> {
        let mut loader = Loader::new(options);
        for (id, timeout_ms) in &self.sessions {
            loader.session(*id, *timeout_ms);
        }
        for (id, acl) in &self.acls {
            loader.acl(*id, acl.clone());
        }
        for Znode { path, data, acl, stat } in &self.znodes {
            loader.node(path, data.as_deref(), *acl, stat).ok()?;
        }
        loader.finish().ok()
    }
}

impl Recover for Told {
    fn restart(&mut self) {
        *self = Self::default();
    }

    fn session(&mut self, id: SessionId, timeout_ms: i32) {
        self.sessions.push((id, timeout_ms));
    }

    fn acl(&mut self, id: i64, acl: Vec<Acl>) {
        self.acls.push((id, acl));
    }

    fn node(
        &mut self,
        path: &str,
        data: Option<&[u8]>,
        acl: i64,
        stat: &StatPersisted,
    ) -> Result<(), String> {
        let data = data.map(<[u8]>::to_vec);
        self.znodes.push(Znode { path: path.to_owned(), data, acl, stat: *stat });
        Ok(())
    }

    fn digest(&mut self, zxid: Zxid, version: i32, digest: i64) {
        self.digest = Some((zxid, version, digest));
    }

    fn loaded(&mut self, _: Zxid) -> Result<(), String> {
        Ok(())
    }

    fn txn(&mut self, _: &[u8]) -> Result<(), String> {
        Err("a snapshot has no transactions".to_owned())
    }
}

/// Data, stat and ACL of a znode.
type Values = (Option<Vec<u8>>, StatPersisted, Vec<Acl>);

/// What two trees with the same history have in common.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Content {
    znodes: BTreeMap<String, Values>,
    sessions: Vec<(SessionId, i32)>,
    ephemerals: BTreeMap<SessionId, Vec<String>>,
    quotas: Vec<String>,
    digest: i64,
}

impl Content {
    /// All of a tree but the usage of quotas, which every start counts afresh.
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

/// Checks what always holds of a tree: its counters are those of its znodes, and the digest that is
/// kept up to date is the one computed afresh.
pub(crate) fn check_tree(tree: &Tree) {
    let (mut count, mut digest, mut size, mut ephemerals) = (0, 0_u64, 0, 0);
    each(tree, &mut |path, node| {
        count += 1;
        size += path.chars().count() as u64 + node.data().map_or(0, <[u8]>::len) as u64;
        assert_eq!(node.child_count() as usize, node.children().count(), "{path}");
        assert_eq!(node.stat().num_children, node.child_count() as i32);
        if path == "/" {
            // It is counted under both its names, the other one of which is empty.
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

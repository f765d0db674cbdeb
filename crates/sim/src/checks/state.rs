//! S-5, S-6 and S-10: at one zxid all servers have the same state, also after a restart. No
//! ephemeral outlives its session, and none exists without one.

use std::collections::BTreeMap;

use bytes::Bytes;
use zebu_proto::path::reserved::CONFIG;
use zebu_proto::txn::TxnHeader;
use zebu_proto::{OpCode, SessionId, Zxid};
use zebu_tree::{Tree, Walk};

/// The state of a tree, for comparisons between servers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Print {
    digest: i64,
    znodes: usize,
    sessions: u64,
    ephemerals: usize,
}

impl Print {
    fn of(tree: &Tree) -> Self {
        let mut sessions = 0;
        for (session, timeout_ms) in tree.sessions() {
            let mixed =
                (session.0 as u64 ^ (timeout_ms as u64) << 40).wrapping_mul(0x9e37_79b9_7f4a_7c15);
            sessions ^= mixed ^ mixed >> 29;
        }
        Self {
            digest: tree.digest(),
            znodes: tree.znode_count(),
            sessions,
            ephemerals: tree.ephemerals_count(),
        }
    }
}

/// The state at each zxid, and the servers whose trees may be ahead.
pub(crate) struct States {
    at: BTreeMap<Zxid, (Print, usize)>,
    /// For each server: its tree is as of the first zxid, and may contain effects of transactions
    /// up to the second.
    fuzzy: Vec<(Zxid, Zxid)>,
    /// The same for the snapshot that a server is installing. A start may complete the
    /// installation.
    installing: Vec<(Zxid, Zxid)>,
}

impl States {
    pub(crate) fn new(servers: usize) -> Self {
        let none = vec![(Zxid::ZERO, Zxid::ZERO); servers];
        Self { at: BTreeMap::new(), fuzzy: none.clone(), installing: none }
    }

    pub(crate) fn wiped(&mut self, server: usize) {
        self.fuzzy[server] = (Zxid::ZERO, Zxid::ZERO);
    }

    /// The zxid of a server's tree, and the last transaction of which the tree may contain effects.
    pub(crate) fn fuzzy_of(&self, server: usize) -> (Zxid, Zxid) {
        self.fuzzy[server]
    }

    /// A server begins to install a fuzzy snapshot.
    pub(crate) fn installs(&mut self, server: usize, zxid: Zxid, extent: Zxid) {
        self.installing[server] = (zxid, extent);
    }

    /// A server has installed a fuzzy snapshot.
    pub(crate) fn fuzzy(&mut self, server: usize, zxid: Zxid, extent: Zxid) {
        self.fuzzy[server] = (zxid, extent);
    }

    pub(crate) fn recovered(
        &mut self,
        server: usize,
        last: Zxid,
        tree: &Tree,
        mismatches: u64,
    ) -> Result<(), String> {
        if tree.last_zxid() != last {
            let tree = tree.last_zxid();
            return Err(format!("S-5: server {server} recovers {last} with a tree at {tree}"));
        }
        if mismatches > 0 {
            return Err(format!("S-6: server {server} recovers a tree unlike its digest"));
        }
        // A panic counts as a violated property.
        tree.check();
        self.compare(server, tree)
    }

    /// Compares a tree with those of other servers at the same zxid.
    pub(crate) fn compare(&mut self, server: usize, tree: &Tree) -> Result<(), String> {
        let zxid = tree.last_zxid();
        let may_be_ahead = |(from, to): (Zxid, Zxid)| from <= zxid && zxid < to;
        if may_be_ahead(self.fuzzy[server]) || may_be_ahead(self.installing[server]) {
            return Ok(());
        }
        let print = Print::of(tree);
        let (expected, other) = *self.at.entry(zxid).or_insert((print, server));
        if print != expected {
            return Err(format!(
                "S-10: at {zxid} server {server} has {print:x?}, server {other} had {expected:x?}"
            ));
        }
        let alive = |session: &SessionId| tree.session_timeout(*session).is_some();
        match tree.sessions_with_ephemerals().find(|session| !alive(session)) {
            Some(session) => Err(format!(
                "B-20: server {server} at {zxid} has ephemerals of {session}, which is over"
            )),
            None => Ok(()),
        }
    }

    pub(crate) fn applied(
        &mut self,
        server: usize,
        zxid: Zxid,
        record: &Bytes,
        tree: &Tree,
    ) -> Result<(), String> {
        let header: TxnHeader = zebu_jute::Decode::decode(&mut zebu_jute::Decoder::new(record))
            .map_err(|error| format!("S-11: {zxid} is no transaction: {error}"))?;
        if header.op == OpCode::CLOSE_SESSION
            && (tree.ephemeral_count(header.session) > 0
                || tree.session_timeout(header.session).is_some())
        {
            let session = header.session;
            return Err(format!("SES-01: server {server} keeps something of {session} at {zxid}"));
        }
        self.compare(server, tree)
    }
}

/// The content of a tree as text, by path. `may_differ`: which znodes are left out.
fn content(tree: &Tree, may_differ: &impl Fn(&str) -> bool) -> BTreeMap<String, String> {
    let acls: BTreeMap<i64, _> = tree.acl_table().collect();
    let mut content = BTreeMap::new();
    Walk::new(tree).step(tree, usize::MAX, &mut |path, data, acl, stat| {
        if path == CONFIG || may_differ(path) {
            // Each server updates these znodes at its own time.
            return;
        }
        let acl = acls.get(&acl);
        content.insert(path.to_owned(), format!("{data:?} {acl:?} {stat:?}"));
    });
    for (session, timeout_ms) in tree.sessions() {
        content.insert(format!("session {session}"), format!("{timeout_ms} ms"));
    }
    content
}

/// Whether everything that is replicated is equal in two trees, except the data of some znodes.
pub(crate) fn same(a: &Tree, b: &Tree, may_differ: impl Fn(&str) -> bool) -> Result<(), String> {
    let (a, b) = (content(a, &may_differ), content(b, &may_differ));
    let differs = a.iter().find(|(path, value)| b.get(*path) != Some(value));
    if let Some((path, value)) = differs {
        return Err(format!("{path}: {value} instead of {:?}", b.get(path)));
    }
    match b.keys().find(|path| !a.contains_key(*path)) {
        Some(path) => Err(format!("{path} is missing")),
        None => Ok(()),
    }
}

//! The history of some znodes: transactions and snapshots go in, changes come out, in order.
//!
//! Where transactions are missing, a snapshot shows what remains of their effects: when a znode was
//! created, and when its data were set last. The authors of these changes, and changes that were
//! overwritten or deleted since, are unknown.

use std::collections::BTreeMap;

use zebu_proto::txn::{CreateTxn, Txn, TxnHeader, TxnRecord};
use zebu_proto::{Acl, AclRef, ExtendedTypes, OpCode, Owner, SessionId, StatPersisted, Zxid};
use zebu_store::{Recover, Refused};

/// The znodes to follow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    /// The znode itself.
    This,
    /// The znode and its children.
    Children,
    /// The znode and all its descendants.
    Below,
}

/// The znodes to follow, by path.
#[derive(Clone, Debug)]
pub struct Wanted {
    /// Empty for the root, as in snapshots.
    path: String,
    scope: Scope,
}

impl Wanted {
    /// The znode at `path`, and those that `scope` adds.
    pub fn new(path: &str, scope: Scope) -> Self {
        Self { path: if path == "/" { String::new() } else { path.to_owned() }, scope }
    }

    fn has(&self, path: &str) -> bool {
        let path = if path == "/" { "" } else { path };
        let Some(rest) = path.strip_prefix(&self.path) else { return false };
        let Some(below) = rest.strip_prefix('/') else { return rest.is_empty() };
        match self.scope {
            Scope::This => false,
            Scope::Children => !below.contains('/'),
            Scope::Below => true,
        }
    }
}

/// One change of one znode.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Event {
    /// The transaction.
    pub zxid: Zxid,
    /// The time in milliseconds since the Unix epoch; `None` if unknown.
    pub time_ms: Option<i64>,
    /// The path; empty for the root.
    pub path: String,
    /// The change.
    pub change: Change,
    /// The origin of the knowledge.
    pub origin: Origin,
}

/// How a change is known.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Origin {
    /// From the log.
    Log {
        /// The requesting session; 0 for the server itself.
        session: SessionId,
        /// The request's xid.
        cxid: i32,
        /// The position within a multi, and the number of its operations.
        multi: Option<(usize, usize)>,
    },
    /// From a later snapshot, or from a later change. No log contains the transaction.
    Snapshot,
}

/// The change of a znode.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change {
    /// It was created.
    Created {
        /// Its kind.
        kind: Kind,
        /// The data; `None` if they were overwritten before the first known transaction.
        data: Option<Vec<u8>>,
        /// Its ACL.
        acl: Vec<Acl>,
    },
    /// Its data were set.
    DataSet {
        /// The new version.
        version: i32,
        /// The data.
        data: Vec<u8>,
    },
    /// Its ACL was set.
    AclSet {
        /// The new ACL version.
        version: i32,
        /// The ACL.
        acl: Vec<Acl>,
    },
    /// It was deleted.
    Deleted(Cause),
    /// It was deleted by one of the missing transactions after this one.
    Vanished {
        /// The last known transaction before them.
        after: Zxid,
    },
}

/// The cause of a deletion.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cause {
    /// A client's request.
    Request,
    /// The end of its session.
    SessionEnd,
    /// The server's reaper: an empty container, or the end of a TTL.
    Reaper,
}

/// The kind of a znode.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// It exists until it is deleted.
    Persistent,
    /// It is deleted with its session.
    Ephemeral(SessionId),
    /// It is deleted after its last child.
    Container,
    /// The TTL in milliseconds since the last change.
    Ttl(i64),
}

impl Kind {
    fn of(stat: &StatPersisted) -> Self {
        let types = ExtendedTypes { enabled: true, emulate_353: false };
        match Owner::decode(stat.ephemeral_owner, types) {
            Owner::Persistent => Self::Persistent,
            Owner::Session(session) => Self::Ephemeral(session),
            Owner::Container => Self::Container,
            Owner::Ttl(ttl_ms) => Self::Ttl(ttl_ms),
        }
    }
}

/// Missing transactions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Gap {
    /// The last known transaction before them; 0 if there is none.
    pub after: Zxid,
    /// The time of that transaction, if known.
    pub after_ms: Option<i64>,
    /// The first known transaction after them; `None` if there is none.
    pub before: Option<Zxid>,
    /// The time of that transaction, if known.
    pub before_ms: Option<i64>,
}

impl Gap {
    fn has(self, zxid: Zxid) -> bool {
        self.after < zxid && self.before.is_none_or(|before| zxid < before)
    }
}

/// A znode that exists.
#[derive(Clone, Copy, Debug)]
struct Alive {
    czxid: Zxid,
    /// The zxid of its last data change, as a snapshot has shown it.
    mzxid: Zxid,
    owner: Option<SessionId>,
    /// Set after a gap: the znode still exists, or a missing transaction after this one has deleted
    /// it.
    doubted_after: Option<Zxid>,
}

/// Follows the znodes through transactions and gaps, in order.
#[derive(Clone, Debug)]
pub struct Trace {
    wanted: Wanted,
    alive: BTreeMap<String, Alive>,
    /// The last transaction before the newest gap.
    gap_after: Option<Zxid>,
}

impl Trace {
    /// A trace without transactions.
    pub fn new(wanted: Wanted) -> Self {
        Self { wanted, alive: BTreeMap::new(), gap_after: None }
    }

    /// Takes the next transaction.
    pub fn txn(&mut self, record: &TxnRecord<'_>, out: &mut dyn FnMut(Event)) {
        let header = &record.header;
        match &record.txn {
            // A failed multi contains an error, and none of its operations counts.
            Txn::Multi(ops) if ops.iter().any(|(_, txn)| matches!(txn, Txn::Error(_))) => {}
            Txn::Multi(ops) => {
                for (at, (op, txn)) in ops.iter().enumerate() {
                    self.op(header, *op, txn, Some((at + 1, ops.len())), out);
                }
            }
            txn => self.op(header, header.op, txn, None, out),
        }
    }

    fn op(
        &mut self,
        header: &TxnHeader,
        op: OpCode,
        txn: &Txn<'_>,
        multi: Option<(usize, usize)>,
        out: &mut dyn FnMut(Event),
    ) {
        let TxnHeader { session, cxid, zxid, time_ms, .. } = *header;
        let event = |path: &str, change| {
            let origin = Origin::Log { session, cxid, multi };
            let path = path.strip_suffix('/').unwrap_or(path).to_owned();
            Event { zxid, time_ms: Some(time_ms), path, change, origin }
        };
        match txn {
            Txn::Create(create) if self.wanted.has(&create.path) => {
                let owner = create.ephemeral.then_some(session);
                let alive = Alive { czxid: zxid, mzxid: zxid, owner, doubted_after: None };
                // The znode existed, so a missing transaction has deleted it.
                if let Some(before) = self.alive.insert(create.path.to_string(), alive)
                    && let Some(after) = before.doubted_after.or(self.gap_after)
                {
                    let path = create.path.to_string();
                    let (change, origin) = (Change::Vanished { after }, Origin::Snapshot);
                    out(Event { zxid, time_ms: None, path, change, origin });
                }
                out(event(&create.path, created(op, create, session)));
            }
            Txn::SetData { path, data, version } if self.wanted.has(path) => {
                self.exists(path);
                let data = data.unwrap_or_default().to_vec();
                out(event(path, Change::DataSet { version: *version, data }));
            }
            Txn::SetAcl { path, acl, version } if self.wanted.has(path) => {
                self.exists(path);
                let acl = acl.iter().map(AclRef::to_owned).collect();
                out(event(path, Change::AclSet { version: *version, acl }));
            }
            Txn::Delete { path } if self.wanted.has(path) => {
                self.alive.remove(&**path);
                let by_reaper = op == OpCode::DELETE_CONTAINER || session == SessionId::NONE;
                out(event(
                    path,
                    Change::Deleted(if by_reaper { Cause::Reaper } else { Cause::Request }),
                ));
            }
            Txn::CloseSession { paths: Some(paths) } => {
                for path in paths.iter().filter(|path| self.wanted.has(path)) {
                    self.alive.remove(&**path);
                    out(event(path, Change::Deleted(Cause::SessionEnd)));
                }
            }
            // The ephemerals are not listed, so all known ones of the session are deleted.
            Txn::CloseSession { paths: None } => {
                self.alive.retain(|path, alive| {
                    let goes = alive.owner == Some(session);
                    if goes {
                        out(event(path, Change::Deleted(Cause::SessionEnd)));
                    }
                    !goes
                });
            }
            _ => {}
        }
    }

    /// A transaction has changed this znode, so no missing transaction before it has deleted it.
    fn exists(&mut self, path: &str) {
        let path = path.strip_suffix('/').unwrap_or(path);
        if let Some(alive) = self.alive.get_mut(path) {
            alive.doubted_after = None;
        }
    }

    /// Skips missing transactions about which no snapshot shows anything.
    pub fn blank(&mut self, gap: Gap) {
        self.gap_after = Some(gap.after);
    }

    /// Skips missing transactions, and adds the effects that a snapshot shows.
    ///
    /// `extent` is the last transaction of which the snapshot may contain effects; `None` if the
    /// snapshot does not tell.
    pub fn gap(
        &mut self,
        gap: Gap,
        extent: Option<Zxid>,
        found: &Found,
        out: &mut dyn FnMut(Event),
    ) {
        self.blank(gap);
        let mut events = Vec::new();
        // In other cases the snapshot may lack a znode because of a later transaction that is not
        // missing.
        let is_exact = extent.is_some_and(|extent| gap.before.is_none_or(|before| extent < before));
        for (path, alive) in &mut self.alive {
            match found.nodes.get(path) {
                Some(node) if node.stat.czxid == alive.czxid => alive.doubted_after = None,
                // It was created again, which is reported below.
                Some(node) if gap.has(node.stat.czxid) => {}
                _ => {
                    alive.doubted_after.get_or_insert(gap.after);
                }
            }
        }
        if is_exact {
            let zxid = gap.before.unwrap_or(gap.after);
            self.settle(zxid, &mut |event| events.push(event));
        }
        for (path, node) in &found.nodes {
            let stat = &node.stat;
            let kind = Kind::of(stat);
            let known = |zxid, time_ms, change| {
                let origin = Origin::Snapshot;
                Event { zxid, time_ms: Some(time_ms), path: path.clone(), change, origin }
            };
            // A snapshot may contain effects of later transactions, so the next snapshot may show
            // the same.
            let told = self.alive.get(path).filter(|alive| alive.czxid == stat.czxid).copied();
            let is_from_start = stat.czxid == Zxid::ZERO && gap.after == Zxid::ZERO;
            if told.is_none() && (gap.has(stat.czxid) || is_from_start) {
                let data = (stat.mzxid == stat.czxid).then(|| node.data.clone());
                let acl = found.acls.get(&node.acl).cloned().unwrap_or_default();
                let owner = match kind {
                    Kind::Ephemeral(session) => Some(session),
                    _ => None,
                };
                let (czxid, mzxid) = (stat.czxid, stat.czxid);
                let alive = Alive { czxid, mzxid, owner, doubted_after: None };
                if let Some(before) = self.alive.insert(path.clone(), alive) {
                    let after = before.doubted_after.unwrap_or(gap.after);
                    let change = Change::Vanished { after };
                    events.push(Event { time_ms: None, ..known(stat.czxid, 0, change) });
                }
                // The root and the server's own znodes exist from the beginning.
                if stat.czxid > Zxid::ZERO {
                    events.push(known(stat.czxid, stat.ctime, Change::Created { kind, data, acl }));
                }
            }
            let is_told = told.is_some_and(|alive| alive.mzxid == stat.mzxid);
            if stat.mzxid != stat.czxid && !is_told && gap.has(stat.mzxid) {
                if let Some(alive) = self.alive.get_mut(path) {
                    alive.mzxid = stat.mzxid;
                }
                let change = Change::DataSet { version: stat.version, data: node.data.clone() };
                events.push(known(stat.mzxid, stat.mtime, change));
            }
        }
        // A stable sort keeps the order of each znode's events.
        events.sort_by_key(|event| event.zxid);
        events.into_iter().for_each(out);
    }

    /// Ends the trace.
    pub fn end(&mut self, last: Zxid, out: &mut dyn FnMut(Event)) {
        self.settle(last, out);
    }

    /// Reports the deletion of znodes that missing transactions may have deleted.
    fn settle(&mut self, zxid: Zxid, out: &mut dyn FnMut(Event)) {
        self.alive.retain(|path, alive| {
            let Some(after) = alive.doubted_after else { return true };
            let change = Change::Vanished { after };
            let (path, origin) = (path.clone(), Origin::Snapshot);
            out(Event { zxid, time_ms: None, path, change, origin });
            false
        });
    }
}

fn created(op: OpCode, create: &CreateTxn<'_>, session: SessionId) -> Change {
    let kind = match op {
        OpCode::CREATE_CONTAINER => Kind::Container,
        OpCode::CREATE_TTL => Kind::Ttl(create.ttl_ms),
        _ if create.ephemeral => Kind::Ephemeral(session),
        _ => Kind::Persistent,
    };
    let acl = create.acl.iter().map(AclRef::to_owned).collect();
    Change::Created { kind, data: Some(create.data.unwrap_or_default().to_vec()), acl }
}

/// The followed znodes in a snapshot.
#[derive(Clone, Debug)]
pub struct Found {
    wanted: Wanted,
    acls: BTreeMap<i64, Vec<Acl>>,
    nodes: BTreeMap<String, FoundNode>,
}

#[derive(Clone, Debug)]
struct FoundNode {
    data: Vec<u8>,
    acl: i64,
    stat: StatPersisted,
}

impl Found {
    /// An empty result.
    pub fn new(wanted: Wanted) -> Self {
        Self { wanted, acls: BTreeMap::new(), nodes: BTreeMap::new() }
    }
}

impl Recover for Found {
    fn restart(&mut self) {
        self.acls.clear();
        self.nodes.clear();
    }

    fn session(&mut self, _: SessionId, _: i32) {}

    fn acl(&mut self, id: i64, acl: Vec<Acl>) {
        self.acls.insert(id, acl);
    }

    fn node(
        &mut self,
        path: &str,
        data: Option<&[u8]>,
        acl: i64,
        stat: &StatPersisted,
    ) -> Result<(), Refused> {
        if self.wanted.has(path) {
            let data = data.unwrap_or_default().to_vec();
            self.nodes.insert(path.to_owned(), FoundNode { data, acl, stat: *stat });
        }
        Ok(())
    }

    fn digest(&mut self, _: Zxid, _: i32, _: i64) {}

    fn loaded(&mut self, _: Zxid) -> Result<(), Refused> {
        Ok(())
    }

    fn txn(&mut self, _: &[u8]) -> Result<(), Refused> {
        Ok(())
    }
}

#[cfg(test)]
mod tests;

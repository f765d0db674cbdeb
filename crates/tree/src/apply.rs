//! Applies transactions.
//!
//! Applying is total: a logged transaction is applied whatever the state of the tree. A fuzzy
//! snapshot is ahead of the log that is replayed on it, so znodes may already exist, or no longer
//! exist. The parent's changes are still applied, so that the final tree is the same. Source:
//! `DataTree.processTxn`.

use zebu_proto::txn::{CreateTxn, DIGEST_VERSION, Txn, TxnHeader, TxnRecord};
use zebu_proto::{AclRef, ErrorCode, OpCode, Owner, SessionId, Stat, StatPersisted, Zxid, path};

use crate::arena::ROOT;
use crate::events::{Events, Happening, Silent};
use crate::faults;
use crate::tree::{DIGEST_HISTORY_INTERVAL, DIGEST_HISTORY_MAX, split};
use crate::{Node, Tree, quota};

/// The effect of a transaction, with everything its answer needs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Applied<'r> {
    /// The error of the transaction: the logged one, or that of the first operation that did not
    /// fit the tree, as happens in replay.
    ///
    /// A failed multi has the code of the failed operation here, and 0 in its answer's header.
    pub err: ErrorCode,
    /// The results of the operations.
    pub result: Outcome<'r>,
    /// Whether the tree has the digest in the record, or that expected from a snapshot.
    pub digest_matches: bool,
    /// Whether a digest was compared.
    pub digest_compared: bool,
}

/// One result, or the results of a multi.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome<'r> {
    /// Of a single operation.
    One(OpResult<'r>),
    /// Of each operation of a multi.
    Multi(Vec<OpResult<'r>>),
}

/// The result of one operation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OpResult<'r> {
    /// The operation; [`OpCode::ERROR`] if it failed, or was not tried because another one failed.
    pub op: OpCode,
    /// The error code.
    pub err: ErrorCode,
    /// The path of the created znode.
    pub path: Option<&'r str>,
    /// The stat of the znode that was created, or whose data or ACL was set.
    pub stat: Option<Stat>,
    /// The new configuration, after a reconfiguration.
    pub data: Option<&'r [u8]>,
}

impl OpResult<'_> {
    fn new(op: OpCode, err: ErrorCode) -> Self {
        Self { op, err, path: None, stat: None, data: None }
    }
}

impl Tree {
    /// Applies a transaction and fires the watches on its changes.
    pub fn apply<'r>(
        &mut self,
        record: &'r TxnRecord<'_>,
        events: &mut impl Events,
    ) -> Applied<'r> {
        let header = &record.header;
        let (err, result) = match &record.txn {
            Txn::Multi(ops) => {
                let results = self.apply_multi(header, ops, events);
                let failed = results.iter().find(|result| result.err != ErrorCode::OK);
                (failed.map_or(ErrorCode::OK, |result| result.err), Outcome::Multi(results))
            }
            txn => {
                let result = self.apply_one(header, header.op, txn, events);
                (result.err, Outcome::One(result))
            }
        };
        self.last_zxid = self.last_zxid.max(header.zxid);
        self.newest_time_ms = self.newest_time_ms.max(header.time_ms);
        let (digest_matches, digest_compared) = match self.check_digest(record) {
            Some(matches) => (matches, true),
            None => (true, false),
        };
        Applied { err, result, digest_matches, digest_compared }
    }

    /// Compares the expected digest with the tree's; `None` if there is nothing to compare.
    fn check_digest(&mut self, record: &TxnRecord<'_>) -> Option<bool> {
        if !self.options.digest || self.last_zxid < self.digests_ahead_until {
            return None;
        }
        if self.digest_expected.is_some() {
            return self.check_expected_digest();
        }
        if record.header.zxid.0 % DIGEST_HISTORY_INTERVAL == 0 {
            if self.digest_history.len() == DIGEST_HISTORY_MAX {
                self.digest_history.pop_front();
            }
            self.digest_history.push_back((record.header.zxid, self.digest()));
        }
        let digest = record.digest.filter(|digest| digest.version == DIGEST_VERSION)?;
        let matches = digest.tree == self.digest();
        self.digest_mismatches += u64::from(!matches);
        Some(matches)
    }

    fn apply_multi<'r>(
        &mut self,
        header: &TxnHeader,
        ops: &'r [(OpCode, Txn<'_>)],
        events: &mut impl Events,
    ) -> Vec<OpResult<'r>> {
        let is_error = |(_, txn): &(OpCode, Txn<'_>)| matches!(txn, Txn::Error(_));
        if !ops.iter().any(is_error) {
            return ops.iter().map(|(op, txn)| self.apply_one(header, *op, txn, events)).collect();
        }
        let mut failed = false;
        let result = |(_, txn): &(OpCode, Txn<'_>)| {
            let err = match txn {
                Txn::Error(err) => {
                    failed = true;
                    *err
                }
                _ if failed => ErrorCode::RUNTIME_INCONSISTENCY,
                _ => ErrorCode::OK,
            };
            OpResult::new(OpCode::ERROR, err)
        };
        ops.iter().map(result).collect()
    }

    fn apply_one<'r>(
        &mut self,
        header: &TxnHeader,
        op: OpCode,
        txn: &'r Txn<'_>,
        events: &mut impl Events,
    ) -> OpResult<'r> {
        let done = |result: Result<Option<Stat>, ErrorCode>| match result {
            Ok(stat) => OpResult { stat, ..OpResult::new(op, ErrorCode::OK) },
            Err(err) => OpResult::new(op, err),
        };
        match txn {
            Txn::Create(create) => match self.create(header, op, create, events) {
                Ok(stat) => OpResult {
                    path: Some(&create.path),
                    stat: Some(stat),
                    ..OpResult::new(op, ErrorCode::OK)
                },
                Err(err) => OpResult::new(op, err),
            },
            Txn::Delete { path } => done(self.delete(path, header.zxid, events).map(|()| None)),
            Txn::SetData { path, data, version } => {
                let set = self.set_data(header, path, *data, *version, events);
                let (err, stat) = match set {
                    Ok(stat) => (ErrorCode::OK, Some(stat)),
                    Err(err) => (err, None),
                };
                let data = data.filter(|_| op == OpCode::RECONFIG);
                OpResult { op, err, path: None, stat, data }
            }
            Txn::SetAcl { path, acl, version } => done(self.set_acl(path, acl, *version).map(Some)),
            Txn::CreateSession { timeout_ms } => {
                self.owners.sessions.insert(header.session, *timeout_ms);
                done(Ok(None))
            }
            Txn::CloseSession { .. } if faults::ephemerals_outlive_their_session() => {
                self.owners.sessions.remove(&header.session);
                done(Ok(None))
            }
            Txn::CloseSession { paths } => {
                for path in paths.iter().flatten() {
                    // Missing znodes are normal in replay.
                    let _ = self.delete(path, header.zxid, events);
                }
                self.delete_ephemerals(header.session, header.zxid, events);
                self.owners.sessions.remove(&header.session);
                done(Ok(None))
            }
            Txn::Check { .. } => done(Ok(None)),
            Txn::Error(err) => OpResult::new(op, *err),
            // Decoding allows no multi inside a multi; one outside is handled elsewhere.
            Txn::Multi(_) => OpResult::new(op, ErrorCode::UNIMPLEMENTED),
        }
    }

    fn create(
        &mut self,
        header: &TxnHeader,
        op: OpCode,
        txn: &CreateTxn<'_>,
        events: &mut impl Events,
    ) -> Result<Stat, ErrorCode> {
        let zxid = header.zxid;
        let path = &*txn.path;
        if path.is_empty() || path == "/" {
            return Err(ErrorCode::NODE_EXISTS);
        }
        let (parent_path, name) = split(path).ok_or(ErrorCode::BAD_ARGUMENTS)?;
        let parent = self.arena.lookup(parent_path).ok_or(ErrorCode::NO_NODE)?;
        let acl = self.acls.intern(&txn.acl);
        if let Some(id) = self.arena.child(parent, name) {
            // The snapshot already had the znode, perhaps with an ACL number that is not in its
            // table (ZOOKEEPER-4846), or written after its parent (ZOOKEEPER-3249).
            self.replace_acl(id, acl);
            self.make_newest(id);
            self.raise_parent(parent, parent_path, txn.parent_cversion, zxid);
            return Err(ErrorCode::NODE_EXISTS);
        }
        self.raise_parent(parent, parent_path, txn.parent_cversion, zxid);
        let owner = match op {
            OpCode::CREATE_CONTAINER => Owner::Container,
            OpCode::CREATE_TTL => Owner::Ttl(txn.ttl_ms),
            _ if txn.ephemeral => Owner::Session(header.session),
            _ => Owner::Persistent,
        };
        let stat = StatPersisted {
            czxid: zxid,
            mzxid: zxid,
            pzxid: zxid,
            ctime: header.time_ms,
            mtime: header.time_ms,
            ephemeral_owner: owner.encode(),
            ..StatPersisted::default()
        };
        let id = self.insert(parent, path, name, txn.data, acl, &stat);
        // The current stat: creating the usage znode of a quota changes its data.
        let visible = Node { tree: self, id }.stat();
        if let Some(owner) = quota::limits_of(path) {
            self.quotas.add(owner);
        }
        if let Some(owner) = quota::stats_of(path) {
            self.recount_quota(owner);
        }
        self.charge_quota(path, 1, txn.data.map_or(0, <[u8]>::len) as i64);
        self.fire_node(Happening::Created, id, path, zxid, events);
        self.fire_children(parent, parent_path, zxid, events);
        Ok(visible)
    }

    /// Applies the parent's changes of a create, unless the parent is already ahead.
    fn raise_parent(&mut self, id: u32, path: &str, cversion: i32, zxid: Zxid) {
        let now = self.arena.stat(id).cversion;
        let raised = if cversion == -1 { now.wrapping_add(1) } else { cversion };
        if raised > now {
            self.change_stat(id, path, |parent| {
                parent.cversion = raised;
                parent.pzxid = zxid;
            });
        }
    }

    fn delete(
        &mut self,
        path: &str,
        zxid: Zxid,
        events: &mut impl Events,
    ) -> Result<(), ErrorCode> {
        let (parent_path, name) = split(path).ok_or(ErrorCode::BAD_ARGUMENTS)?;
        let parent = self.arena.lookup(parent_path).ok_or(ErrorCode::NO_NODE)?;
        if zxid > self.arena.stat(parent).pzxid {
            self.change_stat(parent, parent_path, |parent| parent.pzxid = zxid);
        }
        let id = self.arena.child(parent, name).ok_or(ErrorCode::NO_NODE)?;
        // Only replay can find children here, from a later life of the znode. The znode will be
        // created again, and then its children.
        let below: Vec<u32> = self.arena.subtree(id).skip(1).collect();
        for child in below.into_iter().rev() {
            let path = self.arena.path(child);
            self.delete_node(child, &path);
        }
        self.fire_node(Happening::Deleted, id, path, zxid, events);
        self.delete_node(id, path);
        self.fire_children(parent, parent_path, zxid, events);
        Ok(())
    }

    /// Removes a znode without children, and updates its quota.
    fn delete_node(&mut self, id: u32, path: &str) {
        let bytes = self.arena.get(id).data_length() as i64;
        self.remove(id, path);
        if let Some(owner) = quota::limits_of(path) {
            self.quotas.remove(owner);
        }
        if !faults::quota_never_given_back() {
            self.charge_quota(path, -1, -bytes);
        }
    }

    fn set_data(
        &mut self,
        header: &TxnHeader,
        path: &str,
        data: Option<&[u8]>,
        version: i32,
        events: &mut impl Events,
    ) -> Result<Stat, ErrorCode> {
        let id = self.arena.lookup(path).ok_or(ErrorCode::NO_NODE)?;
        let path = if id == ROOT { "/" } else { path };
        let before = self.arena.get(id).data_length() as i64;
        let stat = self.change_data(id, path, data, |stat| {
            stat.version = version;
            stat.mzxid = header.zxid;
            stat.mtime = header.time_ms;
        });
        let visible = Node { tree: self, id }.visible(&stat);
        let bytes = data.map_or(0, <[u8]>::len) as i64 - before;
        if bytes != 0 {
            self.charge_quota(path, 0, bytes);
        }
        self.fire_node(Happening::DataChanged, id, path, header.zxid, events);
        Ok(visible)
    }

    fn set_acl(&mut self, path: &str, acl: &[AclRef<'_>], version: i32) -> Result<Stat, ErrorCode> {
        let id = self.arena.lookup(path).ok_or(ErrorCode::NO_NODE)?;
        let slot = self.acls.intern(acl);
        self.replace_acl(id, slot);
        self.change_stat(id, path, |stat| stat.aversion = version);
        Ok(Node { tree: self, id }.stat())
    }

    fn delete_ephemerals(&mut self, session: SessionId, zxid: Zxid, events: &mut impl Events) {
        let Some(owned) = self.owners.ephemerals.get(&session) else { return };
        let paths: Vec<String> = owned.ids.iter().map(|id| self.arena.path(*id)).collect();
        for path in paths {
            // It exists, unless deleting another one of the list removed it.
            let _ = self.delete(&path, zxid, events);
        }
    }

    /// Replaces the data of the znode that shows the ensemble's configuration. There is no
    /// transaction for this, and no watch fires.
    /// Source: `ZKDatabase.initConfigInZKDatabase`.
    pub fn show_configuration(&mut self, text: &[u8], version: Zxid, time_ms: i64) {
        let path = path::reserved::CONFIG;
        let Some(id) = self.arena.lookup(path) else { return };
        self.change_data(id, path, Some(text), |stat| {
            stat.version = -1;
            stat.mzxid = version;
            stat.mtime = time_ms;
        });
    }

    /// Removes the ephemerals whose session is not in the table, at the end of a start. There is no
    /// transaction for this. Returns their number.
    /// Source: `ZooKeeperServer.loadData`.
    pub fn remove_orphan_ephemerals(&mut self) -> usize {
        let before = self.ephemerals_count();
        let orphans: Vec<SessionId> = self
            .sessions_with_ephemerals()
            .filter(|session| !self.owners.sessions.contains_key(session))
            .collect();
        for session in orphans {
            self.delete_ephemerals(session, self.last_zxid, &mut Silent);
        }
        before - self.ephemerals_count()
    }
}

//! From request to transaction: every check a write must pass, in the documented order, against the
//! tree plus what is in flight.
//!
//! A transaction that leaves here cannot fail when it is applied. Source: `PrepRequestProcessor`.

use std::borrow::Cow;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use zebu_jute::{Decode, DecodeError, Decoder, Encoder};
use zebu_proto::request::{
    Create, CreateTtl, MultiOp, PathVersion, Reconfig, SetAcl, SetData, multi_ops,
};
use zebu_proto::txn::{CreateTxn, DIGEST_VERSION, Txn, TxnDigest, TxnHeader};
use zebu_proto::{
    Acl, AclRef, CreateMode, ErrorCode, ExtendedTypes, Id, OpCode, Owner, Perms, SessionId,
    StatPersisted, TTL_MS_MAX, Zxid, path,
};
use zebu_tree::{QuotaText, Tree};
use zebu_zab::{Peer, config};

use crate::auth::{EXPANDED_BYTES_MAX, Schemes};
use crate::counts::Counts;
use crate::outstanding::{Outstanding, View};
use crate::pack::Pack;

/// What a server's configuration says about writes.
#[derive(Clone, Copy, Debug)]
pub struct Rules {
    /// Which extended kinds of znode there are.
    pub types: ExtendedTypes,
    /// Whether hard quotas reject (`zookeeper.enforceQuota`).
    pub enforce_quota: bool,
    /// Whether closeSession names the ephemerals it removes (`zookeeper.closeSessionTxn.enabled`).
    pub close_session_lists_paths: bool,
    /// Whether transactions carry the tree's digest (`zookeeper.digest.enabled`).
    pub digest: bool,
    /// Whether `reconfigEnabled` is set.
    pub reconfig: bool,
    /// What a new configuration may be.
    pub members: config::Rules,
}

impl Default for Rules {
    fn default() -> Self {
        Self {
            types: ExtendedTypes::default(),
            enforce_quota: false,
            close_session_lists_paths: true,
            digest: true,
            reconfig: false,
            members: config::Rules::default(),
        }
    }
}

/// Why a request does not become the transaction it asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Refusal {
    /// It fails, and the failure is logged under its zxid.
    Code(ErrorCode),
    /// Its bytes are not a request: it takes no zxid.
    Malformed,
}

impl From<ErrorCode> for Refusal {
    fn from(code: ErrorCode) -> Self {
        Self::Code(code)
    }
}

impl From<DecodeError> for Refusal {
    fn from(_: DecodeError) -> Self {
        Self::Malformed
    }
}

/// Whether the bytes of a request can be read, whatever becomes of it then.
pub(crate) fn well_formed(op: OpCode, body: &[u8]) -> bool {
    let from = &mut Decoder::new(body);
    match op {
        OpCode::CREATE | OpCode::CREATE2 | OpCode::CREATE_CONTAINER => Create::decode(from).is_ok(),
        OpCode::CREATE_TTL => CreateTtl::decode(from).is_ok(),
        OpCode::DELETE => PathVersion::decode(from).is_ok(),
        OpCode::SET_DATA => SetData::decode(from).is_ok(),
        OpCode::SET_ACL => SetAcl::decode(from).is_ok(),
        OpCode::MULTI => multi_ops(from, false).is_ok(),
        OpCode::RECONFIG => Reconfig::decode(from).is_ok(),
        _ => true,
    }
}

/// The request at hand: who asks, and which place in the order it gets.
pub(crate) struct Prep<'p> {
    pub(crate) tree: &'p Tree,
    pub(crate) outstanding: &'p mut Outstanding,
    pub(crate) pack: &'p mut Pack,
    pub(crate) schemes: &'p Schemes,
    pub(crate) peer: Option<&'p Peer>,
    pub(crate) now: Duration,
    pub(crate) rules: &'p Rules,
    pub(crate) counts: &'p mut Counts,
    pub(crate) ids: &'p [Id],
    pub(crate) session: SessionId,
    pub(crate) cxid: i32,
    pub(crate) zxid: Zxid,
    pub(crate) time_ms: i64,
    /// What ephemeral znodes of this session fail with, if it may have none.
    pub(crate) ephemerals_refused: Option<ErrorCode>,
}

impl Prep<'_> {
    /// Makes the log record of a request, whether it succeeds or fails.
    ///
    /// # Errors
    /// [`Refusal::Malformed`]: no record, no zxid.
    pub(crate) fn record(&mut self, op: OpCode, body: &[u8]) -> Result<Bytes, Malformed> {
        let mut record = self.pack.begin(body.len() + 96);
        let mut out = Encoder::new(&mut record);
        self.header(op, &mut out);
        let body_at = out.position();
        match self.txn(op, body, &mut out) {
            Ok(logged) => {
                if logged != op {
                    // The type is the header's last field.
                    out.patch_int(body_at - 4, logged.0);
                }
                self.end(&mut out);
            }
            Err(Refusal::Code(code)) => {
                return Ok(self.failed(code));
            }
            Err(Refusal::Malformed) => return Err(Malformed),
        }
        Ok(self.pack.end(record))
    }

    /// The log record of something the server does by itself.
    pub(crate) fn own(&mut self, op: OpCode, txn: &Txn<'_>) -> Bytes {
        let mut record = self.pack.begin(64);
        let mut out = Encoder::new(&mut record);
        self.header(op, &mut out);
        txn.encode(op, &mut out);
        self.end(&mut out);
        self.pack.end(record)
    }

    /// The log record of a request that fails whatever it says.
    pub(crate) fn failed(&mut self, code: ErrorCode) -> Bytes {
        let mut record = self.pack.begin(64);
        let mut out = Encoder::new(&mut record);
        self.header(OpCode::ERROR, &mut out);
        Txn::Error(code).encode(OpCode::ERROR, &mut out);
        self.pack.end(record)
    }

    fn header(&self, op: OpCode, out: &mut Encoder<'_>) {
        let header = TxnHeader {
            session: self.session,
            cxid: self.cxid,
            zxid: self.zxid,
            time_ms: self.time_ms,
            op,
        };
        zebu_jute::Encode::encode(&header, out);
    }

    fn end(&self, out: &mut Encoder<'_>) {
        if self.rules.digest {
            let tree = self.outstanding.digest(self.tree);
            zebu_jute::Encode::encode(&TxnDigest { version: DIGEST_VERSION, tree }, out);
        }
    }

    /// Validates one request, appends its transaction and says under which type it is logged.
    fn txn(&mut self, op: OpCode, body: &[u8], out: &mut Encoder<'_>) -> Result<OpCode, Refusal> {
        let from = &mut Decoder::new(body);
        match op {
            OpCode::CREATE | OpCode::CREATE2 | OpCode::CREATE_CONTAINER => {
                let Create { path, data, acl, flags } = Create::decode(from)?;
                self.create(op, CreateTtl { path, data, acl, flags, ttl_ms: -1 }, out)?;
            }
            OpCode::CREATE_TTL => self.create(op, CreateTtl::decode(from)?, out)?,
            OpCode::DELETE => self.delete(PathVersion::decode(from)?, out)?,
            OpCode::SET_DATA => self.set_data(SetData::decode(from)?, out)?,
            OpCode::SET_ACL => self.set_acl(SetAcl::decode(from)?, out)?,
            OpCode::MULTI => match multi_ops(from, false) {
                Ok(ops) => self.multi(ops, body.len(), out)?,
                // Unlike other requests, a multi that cannot be read takes its zxid.
                Err(DecodeError::Null { .. }) => return Err(Refusal::Malformed),
                Err(_) => return Err(ErrorCode::MARSHALLING_ERROR.into()),
            },
            OpCode::RECONFIG => self.reconfig(&Reconfig::decode(from)?, out)?,
            OpCode::CLOSE_SESSION => {
                let txn = self.close_session();
                txn.encode(op, out);
            }
            OpCode::DELETE_CONTAINER => self.delete_container(body, out)?,
            _ => return Err(Refusal::Code(ErrorCode::UNIMPLEMENTED)),
        }
        Ok(op)
    }

    fn view(&self, path: &str) -> Option<View<'_>> {
        self.outstanding.view(self.tree, path)
    }

    /// A list for what is in flight; mostly other znodes have the same one.
    fn shared(&self, acl: &[AclRef<'_>]) -> Arc<[Acl]> {
        match self.tree.known_acl(acl) {
            Some(known) => known.clone(),
            None => acl.iter().map(AclRef::to_owned).collect(),
        }
    }

    fn permit(&self, acl: &[Acl], wanted: Perms) -> Result<(), ErrorCode> {
        if self.schemes.permits(acl, wanted, self.ids) { Ok(()) } else { Err(ErrorCode::NO_AUTH) }
    }

    fn create(
        &mut self,
        op: OpCode,
        request: CreateTtl<'_>,
        out: &mut Encoder<'_>,
    ) -> Result<(), ErrorCode> {
        let CreateTtl { path: asked, data, acl, flags, ttl_ms } = request;
        let mode = CreateMode::from_flags(flags).ok_or(ErrorCode::BAD_ARGUMENTS)?;
        if mode.ttl && !self.rules.types.enabled {
            return Err(ErrorCode::UNIMPLEMENTED);
        }
        let fits = if mode.ttl {
            op == OpCode::CREATE_TTL && (1..=TTL_MS_MAX).contains(&ttl_ms)
        } else {
            // A TTL request for a znode without one would be logged with a TTL nobody can apply.
            op != OpCode::CREATE_TTL && ttl_ms < 0
        };
        if !fits {
            return Err(ErrorCode::BAD_ARGUMENTS);
        }
        if mode.ephemeral
            && let Some(refusal) = self.ephemerals_refused
        {
            return Err(refusal);
        }
        let asked = asked.ok_or(ErrorCode::MARSHALLING_ERROR)?;
        let (parent_path, _) = path::split(&asked)
            .filter(|_| !asked.contains('\0'))
            .ok_or(ErrorCode::BAD_ARGUMENTS)?;
        let acl = self.schemes.fix_up(acl, self.ids)?;
        let parent_key = if parent_path.is_empty() { "/" } else { parent_path };
        let parent = self.outstanding.view(self.tree, parent_key).ok_or(ErrorCode::NO_NODE)?;
        self.permit(parent.acl(), Perms::CREATE)?;
        let parent_stat = parent.stat();
        let path = if mode.sequential {
            Cow::Owned(format!("{asked}{:0SEQUENCE_DIGITS$}", parent_stat.cversion))
        } else {
            asked.clone()
        };
        path::validate(&path).map_err(|_| ErrorCode::BAD_ARGUMENTS)?;
        let Err(seen) = self.outstanding.look(self.tree, &path) else {
            return Err(ErrorCode::NODE_EXISTS);
        };
        let parent_owner = Owner::decode(parent_stat.ephemeral_owner, self.rules.types);
        if matches!(parent_owner, Owner::Session(_)) {
            return Err(ErrorCode::NO_CHILDREN_FOR_EPHEMERALS);
        }
        if is_bad_quota_node(&path) {
            return Err(ErrorCode::BAD_ARGUMENTS);
        }
        let data_bytes = data.map_or(0, <[u8]>::len) as i64;
        let checked = Self::check_quota(self.tree, self.rules, self.counts, &path, data_bytes, 1);
        if let Err(code) = checked {
            self.count_refusal(&path, code);
            return Err(code);
        }

        let owner = match op {
            OpCode::CREATE_CONTAINER => Owner::Container,
            OpCode::CREATE_TTL => Owner::Ttl(ttl_ms),
            _ if mode.ephemeral => Owner::Session(self.session),
            _ => Owner::Persistent,
        };
        let parent_cversion = parent_stat.cversion.wrapping_add(1);
        // The tree applies the larger one: a counter that wrapped does not go back.
        let raised = parent_cversion > parent_stat.cversion;
        let parent_after = StatPersisted {
            cversion: if raised { parent_cversion } else { parent_stat.cversion },
            pzxid: if raised { self.zxid } else { parent_stat.pzxid },
            ..parent_stat
        };
        let parent_seen = parent.seen();
        let parent = parent.with(parent_after, parent.children() + 1);
        let stat = StatPersisted {
            czxid: self.zxid,
            mzxid: self.zxid,
            pzxid: self.zxid,
            ctime: self.time_ms,
            mtime: self.time_ms,
            ephemeral_owner: owner.encode(),
            ..StatPersisted::default()
        };
        let znode = self.outstanding.fresh(&path, stat, self.shared(&acl), data);
        self.outstanding.set(self.tree, self.zxid, parent_key, parent_seen, Some(parent));
        self.outstanding.set(self.tree, self.zxid, &path, seen, Some(znode));
        let txn = CreateTxn {
            path,
            data,
            acl,
            ephemeral: mode.ephemeral && op != OpCode::CREATE_CONTAINER,
            parent_cversion,
            ttl_ms: if mode.ttl { ttl_ms } else { 0 },
        };
        Txn::Create(txn).encode(op, out);
        Ok(())
    }

    fn delete(&mut self, request: PathVersion<'_>, out: &mut Encoder<'_>) -> Result<(), ErrorCode> {
        let PathVersion { path, version } = request;
        let path = path.ok_or(ErrorCode::MARSHALLING_ERROR)?;
        let (parent_path, _) = deletable(&path)?;
        let parent_key = if parent_path.is_empty() { "/" } else { parent_path };
        let parent = self.view(parent_key).ok_or(ErrorCode::NO_NODE)?;
        self.permit(parent.acl(), Perms::DELETE)?;
        let znode = self.view(&path).ok_or(ErrorCode::NO_NODE)?;
        if !version.admits(znode.stat().version) {
            return Err(ErrorCode::BAD_VERSION);
        }
        if znode.children() > 0 {
            return Err(ErrorCode::NOT_EMPTY);
        }
        self.remove(&path);
        Txn::Delete { path }.encode(OpCode::DELETE, out);
        Ok(())
    }

    /// Removal of a container or TTL znode by the reaper; the body is the path.
    fn delete_container(&mut self, body: &[u8], out: &mut Encoder<'_>) -> Result<(), ErrorCode> {
        let path = String::from_utf8_lossy(body);
        let (parent_path, _) = deletable(&path)?;
        let znode = self.view(&path).ok_or(ErrorCode::NO_NODE)?;
        if znode.children() > 0 {
            return Err(ErrorCode::NOT_EMPTY);
        }
        let stat = znode.stat();
        // Since it was found it may have been changed, or another may have taken its place.
        let is_due = match Owner::decode(stat.ephemeral_owner, self.rules.types) {
            Owner::Container => true,
            Owner::Ttl(ttl_ms) => self.time_ms.saturating_sub(stat.mtime) > ttl_ms,
            Owner::Session(_) | Owner::Persistent => false,
        };
        if !is_due {
            return Err(ErrorCode::BAD_VERSION);
        }
        let parent_key = if parent_path.is_empty() { "/" } else { parent_path };
        self.view(parent_key).ok_or(ErrorCode::NO_NODE)?;
        self.remove(&path);
        Txn::Delete { path }.encode(OpCode::DELETE_CONTAINER, out);
        Ok(())
    }

    /// Notes that a znode will be gone, and that its parent will have one child less.
    fn remove(&mut self, path: &str) {
        let parent_key = match path::split(path) {
            Some(("", _)) | None => "/",
            Some((parent, _)) => parent,
        };
        if let Some(parent) = self.view(parent_key) {
            let stat = parent.stat();
            let stat = StatPersisted { pzxid: stat.pzxid.max(self.zxid), ..stat };
            let after = parent.with(stat, parent.children().saturating_sub(1));
            let seen = parent.seen();
            self.outstanding.set(self.tree, self.zxid, parent_key, seen, Some(after));
        }
        let seen = match self.outstanding.look(self.tree, path) {
            Ok(znode) => znode.seen(),
            Err(seen) => seen,
        };
        self.outstanding.set(self.tree, self.zxid, path, seen, None);
    }

    fn set_data(&mut self, request: SetData<'_>, out: &mut Encoder<'_>) -> Result<(), ErrorCode> {
        let SetData { path, data, version } = request;
        let path = path.ok_or(ErrorCode::BAD_ARGUMENTS)?;
        path::validate(&path).map_err(|_| ErrorCode::BAD_ARGUMENTS)?;
        let znode = self.outstanding.view(self.tree, &path).ok_or(ErrorCode::NO_NODE)?;
        self.permit(znode.acl(), Perms::WRITE)?;
        let bytes_before = znode.applied_data_bytes() as i64;
        let growth = data.map_or(0, <[u8]>::len) as i64 - bytes_before;
        if growth != 0
            && let Err(code) =
                Self::check_quota(self.tree, self.rules, self.counts, &path, growth, 0)
        {
            self.count_refusal(&path, code);
            return Err(code);
        }
        let stat = znode.stat();
        if !version.admits(stat.version) {
            return Err(ErrorCode::BAD_VERSION);
        }
        let version = next_version(stat.version);
        let stat = StatPersisted { version, mzxid: self.zxid, mtime: self.time_ms, ..stat };
        let (seen, after) = (znode.seen(), znode.with_data(&path, stat, data));
        self.outstanding.set(self.tree, self.zxid, &path, seen, Some(after));
        Txn::SetData { path, data, version }.encode(OpCode::SET_DATA, out);
        Ok(())
    }

    fn set_acl(&mut self, request: SetAcl<'_>, out: &mut Encoder<'_>) -> Result<(), ErrorCode> {
        let SetAcl { path, acl, version } = request;
        let path = path.ok_or(ErrorCode::BAD_ARGUMENTS)?;
        path::validate(&path).map_err(|_| ErrorCode::BAD_ARGUMENTS)?;
        let acl = self.schemes.fix_up(acl, self.ids)?;
        let znode = self.view(&path).ok_or(ErrorCode::NO_NODE)?;
        self.permit(znode.acl(), Perms::ADMIN)?;
        let stat = znode.stat();
        if !version.admits(stat.aversion) {
            return Err(ErrorCode::BAD_VERSION);
        }
        let version = next_version(stat.aversion);
        let after = znode.with_acl(StatPersisted { aversion: version, ..stat }, self.shared(&acl));
        let seen = znode.seen();
        self.outstanding.set(self.tree, self.zxid, &path, seen, Some(after));
        Txn::SetAcl { path, acl, version }.encode(OpCode::SET_ACL, out);
        Ok(())
    }

    fn check(&mut self, request: PathVersion<'_>, out: &mut Encoder<'_>) -> Result<(), ErrorCode> {
        let PathVersion { path, version } = request;
        let path = path.ok_or(ErrorCode::BAD_ARGUMENTS)?;
        path::validate(&path).map_err(|_| ErrorCode::BAD_ARGUMENTS)?;
        let znode = self.view(&path).ok_or(ErrorCode::NO_NODE)?;
        self.permit(znode.acl(), Perms::READ)?;
        let current = znode.stat().version;
        if !version.admits(current) {
            return Err(ErrorCode::BAD_VERSION);
        }
        Txn::Check { path, version: next_version(current) }.encode(OpCode::CHECK, out);
        Ok(())
    }

    /// Another configuration, if there is none on its way and a quorum of it follows this leader.
    fn reconfig(&mut self, request: &Reconfig<'_>, out: &mut Encoder<'_>) -> Result<(), ErrorCode> {
        if !self.rules.reconfig {
            return Err(ErrorCode::RECONFIG_DISABLED);
        }
        let peer = self.peer.ok_or(ErrorCode::UNIMPLEMENTED)?;
        let seen = peer.quorums().last_seen();
        if seen.version() != peer.quorums().committed().version() {
            return Err(ErrorCode::RECONFIG_IN_PROGRESS);
        }
        let changed = seen.changed(request, self.zxid, self.rules.members);
        let changed = changed.map_err(|fault| fault.code())?;
        if !peer.reaches_quorum(self.now, &changed) {
            return Err(ErrorCode::NEW_CONFIG_NO_QUORUM);
        }
        let path = path::reserved::CONFIG;
        let znode = self.view(path).ok_or(ErrorCode::NO_NODE)?;
        self.permit(znode.acl(), Perms::WRITE)?;
        let text = changed.to_string();
        let version = -1;
        let stat = StatPersisted { version, mzxid: self.zxid, mtime: self.time_ms, ..znode.stat() };
        let (seen, after) = (znode.seen(), znode.with_data(path, stat, Some(text.as_bytes())));
        self.outstanding.set(self.tree, self.zxid, path, seen, Some(after));
        let txn = Txn::SetData { path: path.into(), data: Some(text.as_bytes()), version };
        txn.encode(OpCode::RECONFIG, out);
        Ok(())
    }

    /// All operations of a multi, or none: after a failure the ones before it are taken back, and
    /// it and the ones after it become errors.
    ///
    /// # Errors
    /// When an operation has a null where there must be none: the multi as a whole fails.
    fn multi(
        &mut self,
        ops: Vec<MultiOp<'_>>,
        body_bytes: usize,
        out: &mut Encoder<'_>,
    ) -> Result<(), ErrorCode> {
        // The original looks all paths up before it looks at the first operation.
        if ops.iter().any(|op| op.path().is_none()) {
            return Err(ErrorCode::MARSHALLING_ERROR);
        }
        let list_at = out.position();
        let bytes_max = body_bytes + SEQUENCE_DIGITS * ops.len() + EXPANDED_BYTES_MAX;
        out.count(ops.len());
        let start = self.outstanding.begin(self.tree);
        let mut failed = false;
        for op in ops {
            let type_at = out.position();
            out.int(0);
            out.int(0);
            let body_at = out.position();
            let done =
                if failed { Err(ErrorCode::RUNTIME_INCONSISTENCY) } else { self.multi_op(op, out) };
            // Only `auth` entries and the counters of sequential znodes make a record longer than its request.
            let done = done.and_then(|op| {
                let is_too_long = out.position() - list_at > bytes_max;
                if is_too_long { Err(ErrorCode::INVALID_ACL) } else { Ok(op) }
            });
            let logged = match done {
                Ok(op) => op,
                Err(ErrorCode::MARSHALLING_ERROR) => {
                    self.outstanding.take_back(start);
                    return Err(ErrorCode::MARSHALLING_ERROR);
                }
                Err(code) => {
                    failed = true;
                    out.truncate(body_at);
                    out.int(code.0);
                    OpCode::ERROR
                }
            };
            out.patch_int(type_at, logged.0);
            out.patch_int(type_at + 4, (out.position() - body_at) as i32);
        }
        if failed {
            self.outstanding.take_back(start);
        } else {
            self.outstanding.keep();
        }
        Ok(())
    }

    fn multi_op(&mut self, op: MultiOp<'_>, out: &mut Encoder<'_>) -> Result<OpCode, ErrorCode> {
        Ok(match op {
            MultiOp::Create(op, create) => {
                self.create(op, create, out)?;
                op
            }
            MultiOp::Delete(delete) => {
                self.delete(delete, out)?;
                OpCode::DELETE
            }
            MultiOp::SetData(set) => {
                self.set_data(set, out)?;
                OpCode::SET_DATA
            }
            MultiOp::Check(check) => {
                self.check(check, out)?;
                OpCode::CHECK
            }
            MultiOp::GetData(_) | MultiOp::GetChildren(_) => {
                return Err(ErrorCode::MARSHALLING_ERROR);
            }
        })
    }

    /// The end of this session, with everything it owns or is about to own.
    pub(crate) fn close_session(&mut self) -> Txn<'static> {
        // Where something is in flight, that decides: the znode may be gone by then, and another's in
        // its place.
        let applied = self.tree.ephemerals(self.session);
        let mut paths: Vec<String> = applied.filter(|path| !self.outstanding.has(path)).collect();
        paths.extend(self.outstanding.owned(self.session.0).map(str::to_owned));
        // The order of a table must not leak into the log.
        paths.sort_unstable();
        for path in &paths {
            self.remove(path);
        }
        let listed = self.rules.close_session_lists_paths;
        let paths = listed.then(|| paths.into_iter().map(Cow::Owned).collect());
        Txn::CloseSession { paths }
    }

    /// Whether the deepest quota above `path` has room for these many more bytes and znodes. A hard
    /// limit refuses; where there is none, going beyond the soft one is said and no more.
    fn check_quota(
        tree: &Tree,
        rules: &Rules,
        counts: &mut Counts,
        path: &str,
        bytes: i64,
        count: i64,
    ) -> Result<(), ErrorCode> {
        if !rules.enforce_quota || path.starts_with("/zookeeper/") {
            return Ok(());
        }
        let Some(quota) = tree.quota_for(path) else { return Ok(()) };
        let limits = quota.limits.map_err(|_| ErrorCode::MARSHALLING_ERROR)?;
        // Without the znode that counts, nothing is enforced.
        let Some(usage) = quota.usage else { return Ok(()) };
        let usage = usage.unwrap_or_else(|_| QuotaText::usage(0, 0));
        let exceeds = |more: i64, will: i64, limit: i64| more != 0 && limit > -1 && will > limit;
        let (will_count, will_bytes) =
            (usage.count().saturating_add(count), usage.bytes().saturating_add(bytes));
        if exceeds(count, will_count, limits.count_hard())
            || exceeds(bytes, will_bytes, limits.bytes_hard())
        {
            return Err(ErrorCode::QUOTA_EXCEEDED);
        }
        if limits.count_hard() < 0 && exceeds(count, will_count, limits.count()) {
            counts.beyond_quota(|| {
                let (path, soft) = (&quota.path, limits.count());
                format!("{path} [current count={will_count}, softCountLimit={soft}]")
            });
        }
        if limits.bytes_hard() < 0 && exceeds(bytes, will_bytes, limits.bytes()) {
            counts.beyond_quota(|| {
                let (path, soft) = (&quota.path, limits.bytes());
                format!("{path} [current bytes={will_bytes}, softBytesLimit={soft}]")
            });
        }
        Ok(())
    }

    fn count_refusal(&mut self, path: &str, code: ErrorCode) {
        if code == ErrorCode::QUOTA_EXCEEDED {
            self.counts.refused_by_quota(path);
        }
    }
}

/// Digits, at least, of the counter at the end of a sequential znode's name.
const SEQUENCE_DIGITS: usize = 10;

/// Bytes that are not the request they claim to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Malformed;

/// The version after this one. It wraps, and skips −1, which means «any» in a request
/// (ZOOKEEPER-4743).
fn next_version(version: i32) -> i32 {
    match version.wrapping_add(1) {
        -1 => 0,
        next => next,
    }
}

/// Splits a path that may be deleted.
fn deletable(path: &str) -> Result<(&str, &str), ErrorCode> {
    path::split(path)
        .filter(|_| !path.contains('\0') && !path::reserved::is_undeletable(path))
        .ok_or(ErrorCode::BAD_ARGUMENTS)
}

/// Limits that are nobody's: directly below the root of the quotas.
fn is_bad_quota_node(path: &str) -> bool {
    path.strip_prefix("/zookeeper/quota/") == Some(path::reserved::LIMITS)
}

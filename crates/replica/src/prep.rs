//! Turns a request into a transaction. Applies every check that a write must pass, in the
//! documented order, against the tree plus changes in flight.
//!
//! Applying the resulting transaction cannot fail. Source: `PrepRequestProcessor`.

use std::borrow::Cow;
use std::cell::RefCell;
use std::cmp::Ordering;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use zebu_jute::{Decode, DecodeError, Decoder, Encoder};
use zebu_proto::request::{
    Create, CreateTtl, MultiOp, PathVersion, Reconfig, SetAcl, SetData, multi_ops,
};
use zebu_proto::txn::{
    CreateTxn, DIGEST_BYTES, DIGEST_VERSION, TXN_HEADER_BYTES, Txn, TxnDigest, TxnHeader,
};
use zebu_proto::{
    Acl, AclRef, CreateMode, ErrorCode, ExtendedTypes, Id, OpCode, Owner, Perms, SessionId,
    StatPersisted, TTL_MS_MAX, Zxid, path,
};
use zebu_tree::{QuotaText, Tree};
use zebu_zab::{Peer, config};

use crate::age::Ages;
use crate::auth::{EXPANDED_BYTES_MAX, Schemes};
use crate::counts::Counts;
use crate::faults;
use crate::io::Now;
use crate::outstanding::{Outstanding, View};
use crate::owned::listed_bytes;
use crate::pack::Pack;

/// The configured rules for writes.
#[derive(Clone, Copy, Debug)]
pub struct Rules {
    /// Which extended kinds of znode are enabled.
    pub types: ExtendedTypes,
    /// Whether hard quotas reject writes (`zookeeper.enforceQuota`). Otherwise they only warn, like
    /// soft ones.
    pub enforce_quota: bool,
    /// Whether closeSession names the ephemerals it removes (`zookeeper.closeSessionTxn.enabled`).
    pub close_session_lists_paths: bool,
    /// Longest log record in bytes: what fits into a packet between servers, and what the original
    /// can read.
    pub record_bytes_max: usize,
    /// Whether transactions carry the tree's digest (`zookeeper.digest.enabled`).
    pub digest: bool,
    /// Whether `reconfigEnabled` is set.
    pub reconfig: bool,
    /// Rules for a new configuration.
    pub members: config::Rules,
}

impl Default for Rules {
    fn default() -> Self {
        Self {
            types: ExtendedTypes::default(),
            enforce_quota: false,
            close_session_lists_paths: true,
            record_bytes_max: RECORD_BYTES_MAX,
            digest: true,
            reconfig: false,
            members: config::Rules::default(),
        }
    }
}

/// Default limit of a record in bytes: twice `jute.maxbuffer`.
pub const RECORD_BYTES_MAX: usize = 2 * 0xf_ffff;

/// What a record adds to the body of its request, apart from `auth` entries: the header, the
/// digest, the counter of a sequential znode, and the parent's version.
const ADDED_BYTES: usize = TXN_HEADER_BYTES + DIGEST_BYTES + SEQUENCE_DIGITS_MAX + 4 + 1;

/// What a closeSession record adds to its paths: the header, their number, the digest.
const CLOSE_SESSION_BYTES: usize = TXN_HEADER_BYTES + 4 + DIGEST_BYTES;

/// What a reconfig record adds to path and text: the header, two lengths, the version, the digest.
const RECONFIG_BYTES: usize = TXN_HEADER_BYTES + 4 + 4 + 4 + DIGEST_BYTES;

/// What a delete in a multi record adds to its path: type and length.
const DELETE_BYTES: usize = 4 + 4;

// The limit leaves room for the fixed parts of every record.
const _: () = assert!(ADDED_BYTES + EXPANDED_BYTES_MAX < RECORD_BYTES_MAX);
const _: () = assert!(CLOSE_SESSION_BYTES < RECORD_BYTES_MAX);
const _: () = assert!(RECONFIG_BYTES > CLOSE_SESSION_BYTES, "a text has a length and a version");

impl Rules {
    /// Maximum bytes that the `auth` entries of a request with a body of this length may expand to.
    pub(crate) fn expanded_bytes_max(&self, body_bytes: usize) -> usize {
        let room = self.record_bytes_max.saturating_sub(body_bytes + ADDED_BYTES);
        EXPANDED_BYTES_MAX.min(room)
    }

    /// Maximum bytes of the paths in a closeSession record.
    fn closed_bytes_max(&self) -> usize {
        self.record_bytes_max.saturating_sub(CLOSE_SESSION_BYTES)
    }
}

/// Why a request does not become its transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Refusal {
    /// It fails, and the failure is logged under its zxid.
    Code(ErrorCode),
    /// It cannot be decoded, and takes no zxid.
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

/// Whether a request can be decoded.
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

/// The request being prepared: its session and its place in the order.
pub(crate) struct Prep<'p> {
    pub(crate) tree: &'p Tree,
    pub(crate) outstanding: &'p mut Outstanding,
    pub(crate) pack: &'p mut Pack,
    pub(crate) schemes: &'p Schemes,
    pub(crate) peer: Option<&'p Peer>,
    pub(crate) now: Now,
    pub(crate) ages: &'p Ages,
    pub(crate) rules: &'p Rules,
    pub(crate) counts: &'p mut Counts,
    pub(crate) ids: &'p [Id],
    pub(crate) session: SessionId,
    pub(crate) cxid: i32,
    pub(crate) zxid: Zxid,
    pub(crate) time_ms: i64,
    /// The error for ephemeral znodes of this session, if it may have none.
    pub(crate) ephemerals_refused: Option<ErrorCode>,
    /// Maximum bytes that the `auth` entries of this request may expand to.
    pub(crate) expanded_bytes_max: usize,
    /// Long ACLs that were found to permit an operation, since the operations of a multi often meet
    /// the same one. None is dropped before the multi ends, because it may have to be restored.
    pub(crate) permitted: RefCell<BTreeSet<(*const Acl, i32)>>,
}

/// A longer ACL is compared with the client's ids only once in a multi.
const LONG_ACL: usize = 16;

impl Prep<'_> {
    /// Makes the log record of a request, successful or not.
    ///
    /// # Errors
    /// [`Refusal::Malformed`]: no record, no zxid.
    pub(crate) fn record(&mut self, op: OpCode, body: &[u8]) -> Result<Bytes, Malformed> {
        self.expanded_bytes_max = self.rules.expanded_bytes_max(body.len());
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

    /// Makes the log record of a transaction of the server's own.
    pub(crate) fn own(&mut self, op: OpCode, txn: &Txn<'_>) -> Bytes {
        let mut record = self.pack.begin(64);
        let mut out = Encoder::new(&mut record);
        self.header(op, &mut out);
        txn.encode(op, &mut out);
        self.end(&mut out);
        self.pack.end(record)
    }

    /// Makes the log record of a request that fails with `code`.
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

    /// Validates one request and appends its transaction. Returns the type under which it is
    /// logged.
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
                // Unlike other requests, a multi that cannot be decoded takes a zxid.
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

    /// A shared ACL for a change in flight. Usually other znodes already have the same one.
    fn shared(&self, acl: &[AclRef<'_>]) -> Arc<[Acl]> {
        match self.tree.known_acl(acl) {
            Some(known) => known.clone(),
            None => acl.iter().map(AclRef::to_owned).collect(),
        }
    }

    fn permit(&self, acl: &[Acl], wanted: Perms) -> Result<(), ErrorCode> {
        let is_long = acl.len() > LONG_ACL;
        let key = (acl.as_ptr(), wanted.0);
        if is_long && self.permitted.borrow().contains(&key) {
            return Ok(());
        }
        if !self.schemes.permits(acl, wanted, self.ids) {
            return Err(ErrorCode::NO_AUTH);
        }
        if is_long {
            self.permitted.borrow_mut().insert(key);
        }
        Ok(())
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
            // The transaction of a TTL request without a TTL could not be applied.
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
        let acl = self.schemes.fix_up(acl, self.ids, self.expanded_bytes_max)?;
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
        if mode.ephemeral && op != OpCode::CREATE_CONTAINER && self.is_full(&path) {
            self.counts.refused_ephemeral(self.session, self.now.monotonic);
            return Err(ErrorCode::QUOTA_EXCEEDED);
        }
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
        // The tree keeps the larger version: one that wraps does not go back.
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

    /// Deletion of a container or TTL znode by the reaper. The body is the path.
    fn delete_container(&mut self, body: &[u8], out: &mut Encoder<'_>) -> Result<(), ErrorCode> {
        let path = String::from_utf8_lossy(body);
        let (parent_path, _) = deletable(&path)?;
        let znode = self.view(&path).ok_or(ErrorCode::NO_NODE)?;
        if znode.children() > 0 {
            return Err(ErrorCode::NOT_EMPTY);
        }
        let stat = znode.stat();
        // Since the search, the znode may have been changed or replaced.
        let is_due = match Owner::decode(stat.ephemeral_owner, self.rules.types) {
            // A never-used container was due by the tree's state. A change in flight means it is
            // different or newer now.
            Owner::Container => stat.cversion > 0 || !self.outstanding.has(&path),
            Owner::Ttl(ttl_ms) => {
                self.ages.of(stat.mtime, self.now) > Duration::from_millis(ttl_ms.max(0) as u64)
            }
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

    /// Records the deletion of a znode, and the change of its parent.
    fn remove(&mut self, path: &str) {
        let parent_key = parent_of(path);
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
        let acl = self.schemes.fix_up(acl, self.ids, self.expanded_bytes_max)?;
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

    /// Whether the closeSession record would become too long with one more path. No server could
    /// accept such a record, and the session would never end.
    fn is_full(&self, path: &str) -> bool {
        let owned = || self.outstanding.owned_bytes(self.tree, self.session.0);
        self.rules.close_session_lists_paths
            && owned() + listed_bytes(path) > self.rules.closed_bytes_max()
    }

    /// A new configuration, if none is in flight and a quorum of it follows this leader.
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
        if !peer.reaches_quorum(self.now.monotonic, &changed) {
            return Err(ErrorCode::NEW_CONFIG_NO_QUORUM);
        }
        let path = path::reserved::CONFIG;
        let znode = self.view(path).ok_or(ErrorCode::NO_NODE)?;
        self.permit(znode.acl(), Perms::WRITE)?;
        let text = changed.to_string();
        if text.len() + path.len() + RECONFIG_BYTES > self.rules.record_bytes_max {
            return Err(ErrorCode::BAD_ARGUMENTS);
        }
        let version = -1;
        let stat = StatPersisted { version, mzxid: self.zxid, mtime: self.time_ms, ..znode.stat() };
        let (seen, after) = (znode.seen(), znode.with_data(path, stat, Some(text.as_bytes())));
        self.outstanding.set(self.tree, self.zxid, path, seen, Some(after));
        let txn = Txn::SetData { path: path.into(), data: Some(text.as_bytes()), version };
        txn.encode(OpCode::RECONFIG, out);
        Ok(())
    }

    /// All operations of a multi, or none. After a failure the earlier operations are undone, and
    /// all operations become errors; the earlier ones have the code OK.
    ///
    /// # Errors
    /// If an operation has a null path, the whole multi fails.
    fn multi(
        &mut self,
        ops: Vec<MultiOp<'_>>,
        body_bytes: usize,
        out: &mut Encoder<'_>,
    ) -> Result<(), ErrorCode> {
        // The original reads all paths before it checks the first operation.
        if ops.iter().any(|op| op.path().is_none()) {
            return Err(ErrorCode::MARSHALLING_ERROR);
        }
        let list_at = out.position();
        let plain_bytes = body_bytes + SEQUENCE_DIGITS_MAX * ops.len();
        let room = self.rules.record_bytes_max.saturating_sub(ADDED_BYTES);
        let bytes_max = room.min(plain_bytes + EXPANDED_BYTES_MAX);
        let too_long = match plain_bytes > room {
            true => ErrorCode::BAD_ARGUMENTS,
            false => ErrorCode::INVALID_ACL,
        };
        let count = ops.len();
        out.count(count);
        let start = self.outstanding.begin(self.tree);
        for (index, op) in ops.into_iter().enumerate() {
            let type_at = out.position();
            out.int(0);
            out.int(0);
            let body_at = out.position();
            let code = match self.multi_op(op, out) {
                Ok(op) if out.position() - list_at <= bytes_max => {
                    out.patch_int(type_at, op.0);
                    out.patch_int(type_at + 4, (out.position() - body_at) as i32);
                    continue;
                }
                Ok(_) => too_long,
                Err(code) => code,
            };
            self.outstanding.take_back(start);
            if code == ErrorCode::MARSHALLING_ERROR {
                return Err(code);
            }
            // Errors are shorter than the operations they replace, so they always fit.
            out.truncate(list_at);
            out.count(count);
            for at in 0..count {
                out.int(OpCode::ERROR.0);
                out.int(4);
                out.int(match at.cmp(&index) {
                    Ordering::Less => ErrorCode::OK.0,
                    Ordering::Equal => code.0,
                    Ordering::Greater => ErrorCode::RUNTIME_INCONSISTENCY.0,
                });
            }
            return Ok(());
        }
        self.outstanding.keep();
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

    /// All paths this session owns or will own, in order.
    fn owned(&self) -> Vec<String> {
        // A change in flight decides: it may delete the znode, or replace it by one of another
        // owner.
        let applied = self.tree.ephemerals(self.session);
        let mut paths: Vec<String> = applied.filter(|path| !self.outstanding.has(path)).collect();
        paths.extend(self.outstanding.owned(self.session.0).map(str::to_owned));
        // The order must not depend on a hash table.
        paths.sort_unstable();
        paths
    }

    /// Whether the closeSession record cannot list all owned paths, because a server without this
    /// limit let the session create too many.
    fn owns_too_much(&self) -> bool {
        self.rules.close_session_lists_paths
            && self.outstanding.owned_bytes(self.tree, self.session.0)
                > self.rules.closed_bytes_max()
    }

    /// Paths to delete before this session ends, one transaction each group, so that its
    /// closeSession record fits; usually none. See [`Prep::close_session`].
    pub(crate) fn surplus(&self) -> Vec<Vec<String>> {
        if !self.owns_too_much() {
            return Vec::new();
        }
        let mut chunks: Vec<Vec<String>> = Vec::new();
        let (mut listed, mut chunk_bytes) = (0, 0);
        let paths = self.owned();
        let mut parents: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
        for path in &paths {
            parents.entry(parent_of(path)).or_default().push(path);
        }
        for paths in parents.into_values() {
            listed += listed_bytes(paths[0]);
            if listed <= self.rules.closed_bytes_max() {
                continue;
            }
            for path in paths {
                let bytes = DELETE_BYTES + listed_bytes(path);
                if chunks.is_empty() || chunk_bytes + bytes > self.rules.closed_bytes_max() {
                    chunks.push(Vec::new());
                    chunk_bytes = 0;
                }
                chunk_bytes += bytes;
                chunks.last_mut().expect("one was added").push(path.to_owned());
            }
        }
        chunks
    }

    /// The record that deletes these znodes together, whatever their owner.
    pub(crate) fn delete_all(&mut self, paths: Vec<String>) -> Bytes {
        paths.iter().for_each(|path| self.remove(path));
        let delete = |path| (OpCode::DELETE, Txn::Delete { path: Cow::Owned(path) });
        self.own(OpCode::MULTI, &Txn::Multi(paths.into_iter().map(delete).collect()))
    }

    /// The closeSession transaction, with the paths this session owns or will own.
    ///
    /// Unlisted ephemerals are deleted too, since the session ends. The list tells a server that
    /// replays the transaction over a later state which parents change (ZOOKEEPER-3145). So if not
    /// all paths fit into a record, one path of each parent is enough.
    pub(crate) fn close_session(&mut self) -> Txn<'static> {
        let mut paths = self.owned();
        for path in &paths {
            self.remove(path);
        }
        if !self.rules.close_session_lists_paths {
            return Txn::CloseSession { paths: None };
        }
        let bytes_max = self.rules.closed_bytes_max();
        let mut bytes: usize = paths.iter().map(|path| listed_bytes(path)).sum();
        if bytes > bytes_max {
            let mut parents = BTreeSet::new();
            let is_first: Vec<bool> =
                paths.iter().map(|path| parents.insert(parent_of(path))).collect();
            let mut is_first = is_first.into_iter();
            paths.retain(|path| {
                let goes = bytes > bytes_max && is_first.next() == Some(false);
                if goes {
                    bytes -= listed_bytes(path);
                }
                !goes
            });
            debug_assert!(bytes <= bytes_max, "what does not fit was to be deleted before");
        }
        Txn::CloseSession { paths: Some(paths.into_iter().map(Cow::Owned).collect()) }
    }

    /// Whether the deepest quota above `path` permits this many more bytes and znodes.
    ///
    /// Where quotas are enforced, a hard limit refuses. All other excesses only produce a warning.
    fn check_quota(
        tree: &Tree,
        rules: &Rules,
        counts: &mut Counts,
        path: &str,
        bytes: i64,
        count: i64,
    ) -> Result<(), ErrorCode> {
        if path.starts_with("/zookeeper/") {
            return Ok(());
        }
        let Some(quota) = tree.quota_for(path) else { return Ok(()) };
        let limits = match quota.limits {
            Ok(limits) => limits,
            Err(_) if rules.enforce_quota => return Err(ErrorCode::MARSHALLING_ERROR),
            Err(_) => return Ok(()),
        };
        // Without the usage znode, quotas are not enforced.
        let Some(usage) = quota.usage else { return Ok(()) };
        let usage = usage.unwrap_or_else(|_| QuotaText::usage(0, 0));
        let limit = |hard: i64, soft: i64| if hard > -1 { ("hard", hard) } else { ("soft", soft) };
        let of_count =
            (count, usage.count(), limit(limits.count_hard(), limits.count()), ["count", "Count"]);
        let of_bytes =
            (bytes, usage.bytes(), limit(limits.bytes_hard(), limits.bytes()), ["bytes", "Byte"]);
        let exceeded = [of_count, of_bytes].map(|(more, used, (kind, limit), names)| {
            let will = used.saturating_add(more);
            (more != 0 && limit > -1 && will > limit).then_some((will, kind, limit, names))
        });
        let is_refused = exceeded.iter().flatten().any(|(_, kind, ..)| *kind == "hard");
        if rules.enforce_quota && is_refused && !faults::quota_ignored() {
            return Err(ErrorCode::QUOTA_EXCEEDED);
        }
        for (will, kind, limit, [what, name]) in exceeded.into_iter().flatten() {
            counts.beyond_quota(|| {
                format!("{} [current {what}={will}, {kind}{name}Limit={limit}]", quota.path)
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

/// Minimum number of digits of a sequential znode's counter.
const SEQUENCE_DIGITS: usize = 10;

/// Maximum length of the counter: a wrapped version has a sign.
const SEQUENCE_DIGITS_MAX: usize = SEQUENCE_DIGITS + 1;

/// A request that cannot be decoded.
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

/// The parent's path; `/` for the root.
fn parent_of(path: &str) -> &str {
    match path::split(path) {
        Some(("", _)) | None => "/",
        Some((parent, _)) => parent,
    }
}

/// Splits a path, if it may be deleted.
fn deletable(path: &str) -> Result<(&str, &str), ErrorCode> {
    path::split(path)
        .filter(|_| !path.contains('\0') && !path::reserved::is_undeletable(path))
        .ok_or(ErrorCode::BAD_ARGUMENTS)
}

/// Whether `path` is the limits znode directly below the quota root, which belongs to no path.
fn is_bad_quota_node(path: &str) -> bool {
    path.strip_prefix("/zookeeper/quota/") == Some(path::reserved::LIMITS)
}

//! The tree: its content, and the elementary changes that transactions consist of.

use std::collections::{BTreeSet, VecDeque};
use std::ops::Bound;
use std::sync::atomic::AtomicU32;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use zebu_proto::path::reserved;
use zebu_proto::{Acl, AclRef, ExtendedTypes, Owner, SessionId, StatPersisted, WatcherType, Zxid};

use crate::acl_table::{AclTable, OPEN};
use crate::arena::{Arena, NONE, ROOT};
use crate::digest::{digest_counts, moved_digest, node_digest};
use crate::faults;
use crate::listing;
use crate::node::Node;
use crate::owners::Owners;
use crate::quota::{self, Quota, QuotaPaths, QuotaText};
use crate::watches::{SHARDS, Target, WatchMode, WatchSummary, WatcherId, Watches};

/// Digests are recorded at multiples of this zxid.
pub const DIGEST_HISTORY_INTERVAL: i64 = 128;
/// Maximum number of recorded digests.
pub const DIGEST_HISTORY_MAX: usize = 1024;

/// Options of a tree.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// Which extended kinds of znodes are enabled.
    pub types: ExtendedTypes,
    /// Whether the tree digest is computed and compared.
    pub digest: bool,
    /// Seed of the hash tables. It has no visible effect. A server chooses a random one, so that
    /// clients cannot provoke collisions.
    pub hash_seed: u64,
}

impl Default for Options {
    fn default() -> Self {
        Self { types: ExtendedTypes::default(), digest: true, hash_seed: 0 }
    }
}

/// The replicated state of one server, and the watches on it.
///
/// Invariants: `last_zxid` never goes down while transactions are applied; the digest is the sum
/// over all znodes that count; every session in the table of ephemerals has at least one.
/// Checked by `assert_same`, after each random transaction.
#[derive(Debug)]
pub struct Tree {
    pub(crate) options: Options,
    pub(crate) arena: Arena,
    pub(crate) acls: AclTable,
    pub(crate) owners: Owners,
    pub(crate) quotas: QuotaPaths,
    pub(crate) watches: Watches,
    /// The cursors of all walks in progress.
    pub(crate) walks: Mutex<Vec<Weak<AtomicU32>>>,
    /// All lists of children in progress.
    pub(crate) lists: Mutex<Vec<Weak<Mutex<listing::State>>>>,
    pub(crate) last_zxid: Zxid,
    pub(crate) digest: u64,
    pub(crate) digest_mismatches: u64,
    pub(crate) digest_history: VecDeque<(Zxid, i64)>,
    /// The digest in the loaded snapshot, for a zxid that is not reached yet.
    pub(crate) digest_expected: Option<(Zxid, i64)>,
    /// Before this zxid the tree may be ahead of the transactions.
    pub(crate) digests_ahead_until: Zxid,
    /// The newest time of a transaction or znode.
    pub(crate) newest_time_ms: i64,
    /// Characters of all paths plus bytes of all data.
    pub(crate) data_size: u64,
    /// A vector for the watchers of one event, kept for its capacity.
    pub(crate) found: Vec<u32>,
}

const _: () = {
    const fn shared<T: Send + Sync>() {}
    shared::<Tree>();
};

pub(crate) fn characters(path: &str) -> u64 {
    if path.is_ascii() { path.len() as u64 } else { path.chars().count() as u64 }
}

/// Splits the path of a znode other than the root into the parent's path (empty for the root) and
/// the name.
///
/// `None` if the name is empty, or the parent is a second name of the root. Validated paths have
/// neither, but a file may.
pub(crate) fn split(path: &str) -> Option<(&str, &str)> {
    // Names are short: a bytewise search is faster than one by words.
    let at = path.bytes().rposition(|byte| byte == b'/')?;
    let (parent, name) = (&path[..at], &path[at + 1..]);
    (parent != "/" && !name.is_empty()).then_some((parent, name))
}

impl Tree {
    /// The tree of a new server: the root, `/zookeeper`, and its quota and configuration znodes.
    pub fn new(options: Options) -> Self {
        let mut tree = Self::bare(options);
        tree.add_reserved();
        tree
    }

    /// A tree with only an empty root.
    pub(crate) fn bare(options: Options) -> Self {
        let mut acls = AclTable::new(options.hash_seed);
        acls.retain(OPEN);
        let mut tree = Self {
            options,
            arena: Arena::new(options.hash_seed),
            acls,
            owners: Owners::default(),
            quotas: QuotaPaths::default(),
            watches: Watches::new(options.hash_seed),
            walks: Mutex::default(),
            lists: Mutex::default(),
            last_zxid: Zxid::ZERO,
            digest: 0,
            digest_mismatches: 0,
            digest_history: VecDeque::new(),
            digest_expected: None,
            digests_ahead_until: Zxid::ZERO,
            newest_time_ms: 0,
            // The root counts under both its names.
            data_size: 1,
            found: Vec::new(),
        };
        if options.digest {
            let root = node_digest("/", Some(&[]), &StatPersisted::default());
            tree.set_digest(ROOT, root, true);
        }
        tree
    }

    /// Adds missing reserved znodes.
    pub(crate) fn add_reserved(&mut self) {
        for path in [reserved::ZOOKEEPER, reserved::QUOTA, reserved::CONFIG] {
            if self.arena.lookup(path).is_some() {
                continue;
            }
            let (parent, name) = path.rsplit_once('/').expect("reserved paths are absolute");
            let parent = self.arena.lookup(parent).expect("parents are added first");
            let mut stat = StatPersisted::default();
            let mut acl = OPEN;
            if path == reserved::CONFIG {
                stat.aversion = -1;
                acl =
                    self.acls.intern(&Acl::read_only().iter().map(Into::into).collect::<Vec<_>>());
            } else {
                self.acls.retain(OPEN);
            }
            self.insert(parent, path, name, Some(&[]), acl, &stat);
        }
    }

    /// The znode with this path.
    ///
    /// An empty path is the root, like `/`. An invalid path has no znode.
    pub fn node(&self, path: &str) -> Option<Node<'_>> {
        self.arena.lookup(path).map(|id| Node { tree: self, id })
    }

    /// The tree's options.
    pub fn options(&self) -> Options {
        self.options
    }

    /// Zxid of the last transaction applied.
    pub fn last_zxid(&self) -> Zxid {
        self.last_zxid
    }

    /// Sets the zxid of a loaded tree.
    pub fn set_last_zxid(&mut self, zxid: Zxid) {
        self.last_zxid = zxid;
    }

    /// The newest time of a transaction or loaded znode, in milliseconds since the Unix epoch by
    /// the clock of the leader at that time; 0 if there is none.
    pub fn newest_time_ms(&self) -> i64 {
        self.newest_time_ms
    }

    /// The tree digest, version 2; 0 when it is not computed.
    pub fn digest(&self) -> i64 {
        self.digest as i64
    }

    /// Number of digest mismatches.
    pub fn digest_mismatches(&self) -> u64 {
        self.digest_mismatches
    }

    /// Digests at every 128th zxid, oldest first.
    pub fn digest_history(&self) -> impl Iterator<Item = (Zxid, i64)> {
        self.digest_history.iter().copied()
    }

    /// The digest behind the last transaction; `None` when it is not computed, or not known to be
    /// right.
    pub fn newest_digest(&self) -> Option<(Zxid, i64)> {
        let is_known = self.options.digest
            && self.last_zxid > Zxid::ZERO
            && self.last_zxid >= self.digests_ahead_until
            && self.digest_expected.is_none();
        is_known.then(|| (self.last_zxid, self.digest()))
    }

    /// Compares the digest with that of a snapshot at `zxid`, now or once that is reached.
    ///
    /// Until then digests of transactions are not compared, since a fuzzy snapshot is ahead of
    /// them. `Some(false)`: a mismatch, which is counted. A zxid of 0 means no digest.
    pub fn expect_digest(&mut self, zxid: Zxid, digest: i64) -> Option<bool> {
        self.digest_expected = None;
        if zxid == Zxid::ZERO || !self.options.digest {
            return None;
        }
        self.digest_expected = Some((zxid, digest));
        self.check_expected_digest()
    }

    /// Compares no digests until [`Tree::trust_digests`]: the tree comes from a fuzzy snapshot that
    /// is ahead of the following transactions by an unknown number.
    pub fn distrust_digests(&mut self) {
        if !faults::digests_trusted_at_once() {
            self.digests_ahead_until = Zxid(i64::MAX);
        }
    }

    /// Compares the digests of transactions again from `from` on. With that transaction, everything
    /// that a fuzzy snapshot was ahead of is applied.
    pub fn trust_digests(&mut self, from: Zxid) {
        self.digests_ahead_until = from;
    }

    /// Whether a snapshot's digest is still to be compared.
    pub fn digest_pending(&self) -> bool {
        self.digest_expected.is_some()
    }

    pub(crate) fn check_expected_digest(&mut self) -> Option<bool> {
        let (zxid, digest) = self.digest_expected.filter(|(zxid, _)| *zxid <= self.last_zxid)?;
        self.digest_expected = None;
        if zxid != self.last_zxid {
            // The transaction of the digest is not in the log.
            return None;
        }
        let matches = digest == self.digest();
        self.digest_mismatches += u64::from(!matches);
        Some(matches)
    }

    /// All sessions and their timeouts in milliseconds, by id.
    pub fn sessions(&self) -> impl ExactSizeIterator<Item = (SessionId, i32)> {
        self.owners.sessions.iter().map(|(session, timeout)| (*session, *timeout))
    }

    /// The timeout a session was created with, in milliseconds.
    pub fn session_timeout(&self, session: SessionId) -> Option<i32> {
        self.owners.sessions.get(&session).copied()
    }

    /// Paths of a session's ephemerals, in the order of their creation.
    pub fn ephemerals(&self, session: SessionId) -> impl Iterator<Item = String> {
        let owned = self.owners.ephemerals.get(&session).map(|owned| &owned.ids);
        let mut ids: Vec<u32> = owned.into_iter().flatten().copied().collect();
        ids.sort_by_key(|id| self.arena.get(*id).czxid);
        ids.into_iter().map(|id| self.arena.path(id))
    }

    /// Paths of a session's ephemerals after the one with this id, each with its id and in the
    /// order of ids: for a list made in parts.
    pub fn ephemerals_behind(
        &self,
        session: SessionId,
        number: Option<u32>,
    ) -> impl Iterator<Item = (u32, String)> {
        let from = number.map_or(Bound::Unbounded, Bound::Excluded);
        let owned = self.owners.ephemerals.get(&session);
        let ids = owned.map(|owned| owned.ids.range((from, Bound::Unbounded)));
        ids.into_iter().flatten().map(|id| (*id, self.arena.path(*id)))
    }

    /// Total length of the paths of a session's ephemerals, in bytes.
    pub fn ephemeral_path_bytes(&self, session: SessionId) -> usize {
        self.owners.ephemerals.get(&session).map_or(0, |owned| owned.path_bytes)
    }

    /// Number of a session's ephemerals.
    pub fn ephemeral_count(&self, session: SessionId) -> usize {
        self.owners.ephemerals.get(&session).map_or(0, |owned| owned.ids.len())
    }

    /// Sessions with ephemerals, even if they are not in the session table.
    pub fn sessions_with_ephemerals(&self) -> impl ExactSizeIterator<Item = SessionId> {
        self.owners.ephemerals.keys().copied()
    }

    /// The first session with ephemerals whose id is at least `from`.
    pub fn session_with_ephemerals(&self, from: SessionId) -> Option<SessionId> {
        self.owners.ephemerals.range(from..).next().map(|(session, _)| *session)
    }

    /// Number of all ephemerals.
    pub fn ephemerals_count(&self) -> usize {
        self.owners.ephemerals_count
    }

    /// All containers.
    pub fn containers(&self) -> impl ExactSizeIterator<Item = Node<'_>> {
        self.owners.containers.iter().map(|id| Node { tree: self, id: *id })
    }

    /// All znodes with a time to live.
    pub fn ttl_nodes(&self) -> impl ExactSizeIterator<Item = Node<'_>> {
        self.owners.ttls.iter().map(|id| Node { tree: self, id: *id })
    }

    /// Number of znodes, with the root counted once. The original counts it twice.
    pub fn znode_count(&self) -> usize {
        self.arena.len()
    }

    /// Characters of all paths plus bytes of all data, with the root counted under both its names.
    pub fn approximate_data_size(&self) -> u64 {
        self.data_size
    }

    /// Numbers and lists of all ACLs that a snapshot needs.
    pub fn acl_table(&self) -> impl ExactSizeIterator<Item = (i64, Arc<[Acl]>)> + use<> {
        self.acls.iter().collect::<Vec<_>>().into_iter()
    }

    /// The shared copy of a list that znodes already have.
    pub fn known_acl(&self, list: &[AclRef<'_>]) -> Option<&Arc<[Acl]>> {
        self.acls.find(list).map(|slot| self.acls.get(slot))
    }

    /// The deepest quota that applies to `path`.
    pub fn quota_for(&self, path: &str) -> Option<Quota> {
        let mut path = self.quotas.deepest(path)?;
        if faults::outer_quota_counts() {
            let above = |path: &'_ str| path.rfind('/').unwrap_or(0);
            while let Some(outer) = self.quotas.deepest(&path[..above(path)]) {
                path = outer;
            }
        }
        let text = |path: &str| self.node(path).map(|node| QuotaText::parse(node.data()));
        Some(Quota {
            path: path.to_owned(),
            limits: text(&quota::limits_path(path)).unwrap_or_else(|| Ok(QuotaText::default())),
            usage: text(&quota::stats_path(path)),
        })
    }

    /// Paths with a quota, in order.
    pub fn quota_paths(&self) -> impl Iterator<Item = &str> {
        self.quotas.iter()
    }
}

/// Watches.
impl Tree {
    /// The target of a watch on a path. The empty path is the root only for reads: events of the
    /// root have the path `/`.
    pub(crate) fn target<'a>(&self, path: &'a str) -> Target<'a> {
        match self.arena.lookup(path) {
            Some(id) if !path.is_empty() => Target::Node(id),
            _ => Target::Missing(path),
        }
    }

    /// Registers a watch, at most once. The path need not exist. False, without effect, if the
    /// paths of this watcher exceed [`crate::WATCH_BYTES_MAX`].
    pub fn add_watch(&self, path: &str, watcher: WatcherId, mode: WatchMode) -> bool {
        self.watches.add(self.target(path), path, watcher, mode.bit())
    }

    /// Whether the watcher has a watch of this kind on the path.
    pub fn has_watch(&self, path: &str, watcher: WatcherId, kind: WatcherType) -> bool {
        self.watches.has(self.target(path), watcher, kind)
    }

    /// Removes the watcher's watches of this kind on the path. Returns whether there were any.
    pub fn remove_watch(&self, path: &str, watcher: WatcherId, kind: WatcherType) -> bool {
        self.watches.remove(self.target(path), watcher, kind)
    }

    /// Removes all watches of a closed connection.
    pub fn drop_watcher(&self, watcher: WatcherId) {
        self.watches.drop_watcher(watcher);
    }

    /// Number of data and child watches; a persistent watch counts as both.
    pub fn watch_count(&self) -> usize {
        let (data, child) = self.watches.counts();
        data + child
    }

    /// Statistics of the data watches.
    pub fn watch_summary(&self) -> WatchSummary {
        self.watches.summary()
    }

    /// Counts the paths with data watches, and the data watches, in one part of the table. Adds
    /// their owners to `watchers`.
    ///
    /// # Panics
    /// If `part` is not below [`Tree::WATCH_PARTS`].
    pub fn count_data_watches(
        &self,
        part: usize,
        watchers: &mut BTreeSet<WatcherId>,
    ) -> (usize, usize) {
        self.watches.count_in(part, watchers)
    }

    /// Number of parts of the watch table.
    pub const WATCH_PARTS: usize = SHARDS;

    /// The data watches in one part of the table; each path is in one part only.
    ///
    /// # Panics
    /// `part` is not below [`Tree::WATCH_PARTS`].
    pub fn data_watches_in(&self, part: usize) -> Vec<(String, Vec<WatcherId>)> {
        let mut found = Vec::new();
        let name = |id| self.arena.path(id);
        self.watches.data_watches(part, name, |path, ids| found.push((path, ids)));
        found
    }

    /// The paths on which a watcher has data watches, in arbitrary order.
    pub fn data_watches_of(&self, watcher: WatcherId) -> Vec<String> {
        self.watches.data_watches_of(watcher, |id| self.arena.path(id))
    }

    /// All data watches: paths in arbitrary order, with their watchers.
    pub fn data_watches(&self) -> Vec<(String, Vec<WatcherId>)> {
        (0..Self::WATCH_PARTS).flat_map(|part| self.data_watches_in(part)).collect()
    }
}

/// The elementary changes of transactions. The caller passes each path along with the id that it
/// belongs to.
impl Tree {
    /// Replaces a znode's contribution to the digest. `counts`: whether the tree's digest includes
    /// it.
    fn set_digest(&mut self, id: u32, digest: u32, counts: bool) {
        let before = std::mem::replace(&mut self.arena.get_mut(id).digest, digest);
        if counts {
            self.digest = self.digest.wrapping_sub(before.into()).wrapping_add(digest.into());
        }
    }

    /// Changes a stat.
    pub(crate) fn change_stat(
        &mut self,
        id: u32,
        path: &str,
        change: impl FnOnce(&mut StatPersisted),
    ) {
        let before = self.arena.stat(id);
        let mut stat = before;
        change(&mut stat);
        self.arena.set_stat(id, &stat);
        if self.options.digest {
            let digest = moved_digest(self.arena.get(id).digest, &before, &stat);
            self.set_digest(id, digest, digest_counts(path));
        }
    }

    /// Adds a new znode. The use of its ACL is already counted.
    pub(crate) fn insert(
        &mut self,
        parent: u32,
        path: &str,
        name: &str,
        data: Option<&[u8]>,
        acl: u32,
        stat: &StatPersisted,
    ) -> u32 {
        debug_assert_eq!(self.arena.child(parent, name), None, "{path} is there already");
        let id = self.arena.link(parent, name, data, stat);
        self.added(id, path, data, acl, stat);
        id
    }

    /// Updates the registries for a znode added to the arena.
    pub(crate) fn added(
        &mut self,
        id: u32,
        path: &str,
        data: Option<&[u8]>,
        acl: u32,
        stat: &StatPersisted,
    ) {
        self.arena.get_mut(id).acl = acl;
        self.newest_time_ms = self.newest_time_ms.max(stat.mtime);
        if self.options.digest {
            let digest = node_digest(path, data, stat);
            self.set_digest(id, digest, digest_counts(path));
        }
        let owner = Owner::decode(stat.ephemeral_owner, self.options.types);
        self.owners.add(id, owner, path.len());
        self.data_size += characters(path) + data.map_or(0, <[u8]>::len) as u64;
    }

    /// Makes a znode the newest of its siblings when replay reaches its creation, so that the order
    /// of siblings is that of creation whatever the fuzzy snapshot contained.
    ///
    /// Not while a walk is in progress: it would visit the siblings of a moved znode again. Loading
    /// a snapshot restores the order.
    pub(crate) fn make_newest(&mut self, id: u32) {
        let walks = self.walks.get_mut().unwrap_or_else(PoisonError::into_inner);
        if walks.iter().all(|walk| walk.strong_count() == 0) {
            self.lose_lists();
            self.arena.make_newest(id);
        }
    }

    /// Removes a znode without children.
    pub(crate) fn remove(&mut self, id: u32, path: &str) {
        self.move_walks_past(id);
        self.lists_lose(id);
        if self.options.digest {
            self.set_digest(id, 0, digest_counts(path));
        }
        let record = self.arena.get(id);
        let (acl, length) = (record.acl, record.data_length() as u64);
        let owner = self.arena.stat(id).ephemeral_owner;
        self.owners.remove(id, Owner::decode(owner, self.options.types), path.len());
        self.acls.release(acl);
        self.data_size -= characters(path) + length;
        self.watches.node_became_path(id, path);
        self.arena.unlink(id);
    }

    /// Replaces data, and nothing else.
    pub(crate) fn replace_data(&mut self, id: u32, path: &str, data: Option<&[u8]>) {
        self.change_data(id, path, data, |_| {});
    }

    /// Replaces the data and changes the stat. Returns the new stat.
    pub(crate) fn change_data(
        &mut self,
        id: u32,
        path: &str,
        data: Option<&[u8]>,
        change: impl FnOnce(&mut StatPersisted),
    ) -> StatPersisted {
        let names = if id == ROOT { 2 } else { 1 };
        self.data_size -= names * self.arena.get(id).data_length() as u64;
        self.data_size += names * data.map_or(0, <[u8]>::len) as u64;
        let mut stat = self.arena.stat(id);
        change(&mut stat);
        self.arena.set_data(id, data, &stat);
        if self.options.digest {
            let digest = node_digest(path, data, &stat);
            self.set_digest(id, digest, digest_counts(path));
        }
        stat
    }

    /// Replaces the ACL by one whose use is already counted.
    pub(crate) fn replace_acl(&mut self, id: u32, acl: u32) {
        let old = std::mem::replace(&mut self.arena.get_mut(id).acl, acl);
        self.acls.release(old);
    }

    /// Adds a change of usage to the deepest quota of a path.
    pub(crate) fn charge_quota(&mut self, path: &str, count: i64, bytes: i64) {
        let Some(owner) = self.quotas.deepest(path) else { return };
        let path = quota::stats_path(owner);
        let Some(id) = self.arena.lookup(&path) else { return };
        let mut usage = match QuotaText::parse(self.arena.data(id)) {
            Ok(usage) => usage,
            Err(_) => QuotaText::usage(0, 0),
        };
        usage.add(count, bytes);
        self.replace_data(id, &path, Some(usage.to_string().as_bytes()));
    }

    /// Recounts the znodes and bytes under a quota.
    pub(crate) fn recount_quota(&mut self, owner: &str) {
        let path = quota::stats_path(owner);
        let Some(id) = self.arena.lookup(&path) else { return };
        let (mut count, mut bytes) = (0, 0);
        if let Some(top) = self.arena.lookup(owner) {
            for id in self.arena.subtree(top) {
                count += 1;
                bytes += self.arena.get(id).data_length() as i64;
            }
        }
        let usage = QuotaText::usage(count, bytes);
        self.replace_data(id, &path, Some(usage.to_string().as_bytes()));
    }

    /// Advances the walks at a znode that is about to be removed.
    fn move_walks_past(&mut self, id: u32) {
        let walks = self.walks.get_mut().unwrap_or_else(PoisonError::into_inner);
        if walks.is_empty() {
            return;
        }
        let next = self.arena.after_subtree(id, ROOT).unwrap_or(NONE);
        walks.retain(|walk| {
            let Some(cursor) = walk.upgrade() else { return false };
            crate::walk::move_past(&cursor, id, next);
            true
        });
    }
}

//! Changes that are ordered but not applied. Every write is validated against the tree plus these
//! changes.
//! Source: `ZooKeeperServer.ChangeRecord`, `PrepRequestProcessor.getRecordForPath`.

use std::collections::VecDeque;
use std::hash::BuildHasher as _;
use std::sync::Arc;

use foldhash::fast::FixedState;
use hashbrown::HashTable;
use hashbrown::hash_table;
use zebu_proto::{Acl, StatPersisted, Zxid};
use zebu_tree::{Node, Tree, digest_counts, moved_digest, node_digest};

use crate::owned::Owned;

/// The future state of a znode.
#[derive(Clone, Debug)]
pub(crate) struct Pending {
    stat: StatPersisted,
    children: u32,
    /// `None`: the same as in the tree.
    acl: Option<Arc<[Acl]>>,
    /// `None`: the same as in the tree.
    data_bytes: Option<usize>,
    /// Its contribution to the digest.
    digest: u32,
}

#[derive(Clone, Debug)]
struct Change {
    zxid: Zxid,
    /// `None`: the znode will be deleted.
    znode: Option<Pending>,
}

impl Change {
    /// The future ephemeral owner; 0 if there is none.
    fn owner(&self) -> i64 {
        self.znode.as_ref().map_or(0, |znode| znode.stat.ephemeral_owner)
    }
}

#[derive(Debug)]
struct Entry {
    path: Arc<str>,
    /// The hash of the path.
    hash: u64,
    change: Change,
}

/// The changes in flight by path, and the digest after all of them.
#[derive(Debug)]
pub(crate) struct Outstanding {
    changes: HashTable<Entry>,
    /// Which sessions own paths in flight, and the total size each will own.
    owned: Owned,
    /// Hashes of the changed paths in the order of application.
    order: VecDeque<(Zxid, u64)>,
    digest: i64,
    /// What the current multi has replaced, newest last; empty outside a multi.
    undo: Vec<Undo>,
    in_multi: bool,
    with_digest: bool,
    /// Changes put in flight and removed since the counts were last taken.
    queued: u64,
    removed: u64,
}

/// Undoes one change.
#[derive(Debug)]
struct Undo {
    hash: u64,
    path: Arc<str>,
    before: Option<Change>,
    /// The previous ephemeral owner, applied or in flight.
    owner: i64,
}

/// The result of a look-up before a change.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Seen {
    hash: u64,
    /// The znode's contribution to the digest.
    digest: u32,
    /// Its ephemeral owner; 0 if there is none.
    owner: i64,
}

/// A znode as requests see it: from the tree, with changes in flight on top.
pub(crate) struct View<'v> {
    found: Found<'v>,
    hash: u64,
    /// Whether it contributes to a digest that is in use.
    counts: bool,
}

enum Found<'v> {
    Applied(Node<'v>),
    Pending { pending: &'v Pending, under: Option<Node<'v>> },
}

impl View<'_> {
    pub(crate) fn seen(&self) -> Seen {
        let owner = self.stat().ephemeral_owner;
        Seen { hash: self.hash, digest: self.digest(), owner }
    }

    pub(crate) fn stat(&self) -> StatPersisted {
        match &self.found {
            Found::Applied(node) => node.persisted(),
            Found::Pending { pending, .. } => pending.stat,
        }
    }

    pub(crate) fn children(&self) -> u32 {
        match &self.found {
            Found::Applied(node) => node.child_count(),
            Found::Pending { pending, .. } => pending.children,
        }
    }

    pub(crate) fn acl(&self) -> &[Acl] {
        match &self.found {
            Found::Applied(node) => node.acl(),
            Found::Pending { pending: Pending { acl: Some(acl), .. }, .. } => acl,
            Found::Pending { under, .. } => under.as_ref().map_or(&[], |node| node.acl()),
        }
    }

    /// Data bytes of the znode in the tree. If it is not in the tree, its future size.
    pub(crate) fn applied_data_bytes(&self) -> usize {
        match &self.found {
            Found::Applied(node) | Found::Pending { under: Some(node), .. } => node.data_bytes(),
            Found::Pending { pending, under: None } => pending.data_bytes.unwrap_or(0),
        }
    }

    fn digest(&self) -> u32 {
        match &self.found {
            _ if !self.counts => 0,
            Found::Applied(node) => node.digest(),
            Found::Pending { pending, .. } => pending.digest,
        }
    }

    /// The ACL and data size that are in flight.
    fn in_flight(&self) -> (Option<Arc<[Acl]>>, Option<usize>) {
        match &self.found {
            Found::Applied(_) => (None, None),
            Found::Pending { pending, .. } => (pending.acl.clone(), pending.data_bytes),
        }
    }

    /// The znode at `path` with a new stat and new data; ACL and child count stay.
    pub(crate) fn with_data(
        &self,
        path: &str,
        stat: StatPersisted,
        data: Option<&[u8]>,
    ) -> Pending {
        let digest = if self.counts { node_digest(path, data, &stat) } else { 0 };
        let data_bytes = Some(data.map_or(0, <[u8]>::len));
        Pending { stat, children: self.children(), acl: self.in_flight().0, data_bytes, digest }
    }

    /// The znode with a new stat and child count; data and ACL stay.
    pub(crate) fn with(&self, stat: StatPersisted, children: u32) -> Pending {
        let before = self.digest();
        let digest = if self.counts { moved_digest(before, &self.stat(), &stat) } else { 0 };
        let (acl, data_bytes) = self.in_flight();
        Pending { stat, children, acl, data_bytes, digest }
    }

    /// The znode with a new stat and ACL; data and child count stay.
    pub(crate) fn with_acl(&self, stat: StatPersisted, acl: Arc<[Acl]>) -> Pending {
        Pending { acl: Some(acl), ..self.with(stat, self.children()) }
    }
}

fn hash(path: &str) -> u64 {
    FixedState::default().hash_one(path)
}

impl Outstanding {
    /// No changes in flight. `with_digest`: whether digests are used.
    pub(crate) fn new(with_digest: bool) -> Self {
        Self {
            changes: HashTable::new(),
            owned: Owned::default(),
            order: VecDeque::new(),
            digest: 0,
            undo: Vec::new(),
            in_multi: false,
            with_digest,
            queued: 0,
            removed: 0,
        }
    }

    /// Asserts what holds between any two steps: everything in flight is above what is `applied`.
    pub(crate) fn check(&self, applied: Zxid) {
        assert!(!self.in_multi, "a multi neither goes on nor is taken back");
        assert!(self.undo.is_empty(), "a multi is over, and could be taken back");
        assert!(self.changes.len() <= self.order.len(), "a change that is never applied");
        let first = self.order.front().map(|(zxid, _)| *zxid);
        assert!(first.is_none_or(|first| first > applied), "{first:?} is applied, and in flight");
        if self.order.is_empty() {
            assert!(self.changes.is_empty(), "a change of nothing is in flight");
            assert!(self.owned.is_empty(), "nothing is in flight, and somebody will own it");
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.order.len()
    }

    /// Takes the number of changes put in flight since the last call.
    pub(crate) fn take_queued(&mut self) -> u64 {
        std::mem::take(&mut self.queued)
    }

    /// Takes the number of changes applied or undone since the last call.
    pub(crate) fn take_removed(&mut self) -> u64 {
        std::mem::take(&mut self.removed)
    }

    /// The znode at `path` after everything in flight.
    pub(crate) fn view<'v>(&'v self, tree: &'v Tree, path: &str) -> Option<View<'v>> {
        self.look(tree, path).ok()
    }

    /// The znode at `path` after everything in flight, or a record that there will be none.
    pub(crate) fn look<'v>(&'v self, tree: &'v Tree, path: &str) -> Result<View<'v>, Seen> {
        let hash = hash(path);
        let found = match self.change(hash, path) {
            Some(Change { znode: Some(pending), .. }) => {
                Some(Found::Pending { pending, under: tree.node(path) })
            }
            Some(Change { znode: None, .. }) => None,
            None => tree.node(path).map(Found::Applied),
        };
        let found = found.ok_or(Seen { hash, digest: 0, owner: 0 })?;
        Ok(View { found, hash, counts: self.counts(path) })
    }

    fn change(&self, hash: u64, path: &str) -> Option<&Change> {
        self.changes.find(hash, |entry| *entry.path == *path).map(|entry| &entry.change)
    }

    /// Whether the znode at `path` contributes to a digest that is in use.
    fn counts(&self, path: &str) -> bool {
        self.with_digest && digest_counts(path)
    }

    /// A newly created znode at `path`.
    pub(crate) fn fresh(
        &self,
        path: &str,
        stat: StatPersisted,
        acl: Arc<[Acl]>,
        data: Option<&[u8]>,
    ) -> Pending {
        let digest = if self.counts(path) { node_digest(path, data, &stat) } else { 0 };
        let data_bytes = Some(data.map_or(0, <[u8]>::len));
        Pending { stat, children: 0, acl: Some(acl), data_bytes, digest }
    }

    /// Records that the znode at `path` will be `znode` from `zxid` on. `seen`: the result of
    /// looking the path up.
    pub(crate) fn set(
        &mut self,
        tree: &Tree,
        zxid: Zxid,
        path: &str,
        seen: Seen,
        znode: Option<Pending>,
    ) {
        if self.with_digest {
            if self.order.is_empty() {
                self.digest = tree.digest();
            }
            let digest = znode.as_ref().map_or(0, |znode| znode.digest);
            self.digest = self.digest.wrapping_sub(seen.digest.into()).wrapping_add(digest.into());
        }
        let change = Change { zxid, znode };
        let after = change.owner();
        let same = |entry: &Entry| *entry.path == *path;
        let (entry, before) = match self.changes.entry(seen.hash, same, |entry| entry.hash) {
            hash_table::Entry::Occupied(there) => {
                let there = there.into_mut();
                let before = std::mem::replace(&mut there.change, change);
                (there, Some(before))
            }
            hash_table::Entry::Vacant(free) => {
                let entry = Entry { path: path.into(), hash: seen.hash, change };
                (free.insert(entry).into_mut(), None)
            }
        };
        self.owned.change(&entry.path, before.as_ref().map_or(0, Change::owner), after);
        self.owned.pass(tree, zxid, path, seen.owner, after);
        if self.in_multi {
            let (hash, path) = (seen.hash, entry.path.clone());
            self.undo.push(Undo { hash, path, before, owner: seen.owner });
        }
        let before = self.order.back().map(|(before, _)| *before);
        assert!(before.is_none_or(|before| before <= zxid), "{zxid} after {before:?}");
        self.order.push_back((zxid, seen.hash));
        self.queued += 1;
    }

    /// The tree's digest after everything in flight.
    pub(crate) fn digest(&self, tree: &Tree) -> i64 {
        if self.order.is_empty() { tree.digest() } else { self.digest }
    }

    /// Starts a group of changes that succeed or fail together.
    pub(crate) fn begin(&mut self, tree: &Tree) -> Savepoint {
        assert!(!self.in_multi, "there is no multi in a multi");
        assert!(self.undo.is_empty(), "the last multi is over");
        self.in_multi = true;
        Savepoint { digest: self.digest(tree), order: self.order.len() }
    }

    /// Ends the group and keeps its changes.
    pub(crate) fn keep(&mut self) {
        assert!(self.in_multi, "a list of changes that was not begun");
        self.in_multi = false;
        self.undo.clear();
    }

    /// Ends the group and undoes its changes.
    pub(crate) fn take_back(&mut self, to: Savepoint) {
        assert!(self.in_multi, "a list of changes that was not begun");
        assert_eq!(self.order.len(), to.order + self.undo.len(), "each change can be taken back");
        self.in_multi = false;
        while let Some(Undo { hash, path, before, owner }) = self.undo.pop() {
            let there = self.changes.find_entry(hash, |entry| entry.path == path);
            let mut there = there.expect("what replaced it is there");
            let to = before.as_ref().map_or(0, Change::owner);
            let undone = match before {
                Some(before) => std::mem::replace(&mut there.get_mut().change, before),
                None => there.remove().0.change,
            };
            self.owned.change(&path, undone.owner(), to);
            self.owned.take_back(&path, owner, undone.owner());
        }
        self.removed += (self.order.len() - to.order) as u64;
        self.order.truncate(to.order);
        self.digest = to.digest;
    }

    /// Removes the changes that the tree has applied.
    pub(crate) fn applied(&mut self, up_to: Zxid) {
        while let Some(&(zxid, hash)) = self.order.front()
            && zxid <= up_to
        {
            self.order.pop_front();
            self.removed += 1;
            // A later change may have replaced this one. Another path with the same hash may also
            // be due. The table offers entries of other hashes, too: if one of them were removed
            // here, this entry might never be found again.
            let is_due = |entry: &Entry| entry.hash == hash && entry.change.zxid <= up_to;
            if let Ok(there) = self.changes.find_entry(hash, is_due) {
                let Entry { path, change, .. } = there.remove().0;
                self.owned.change(&path, change.owner(), 0);
            }
        }
    }

    /// Paths in flight whose znodes the session will own.
    pub(crate) fn owned(&self, owner: i64) -> impl Iterator<Item = &str> {
        self.owned.paths(owner)
    }

    /// Bytes of a list of all paths that the session will own.
    pub(crate) fn owned_bytes(&self, tree: &Tree, owner: i64) -> usize {
        self.owned.bytes(tree, owner)
    }

    /// Whether a change is in flight at `path`.
    pub(crate) fn has(&self, path: &str) -> bool {
        self.change(hash(path), path).is_some()
    }
}

/// The state at the start of a group of changes.
pub(crate) struct Savepoint {
    digest: i64,
    order: usize,
}

#[cfg(test)]
mod tests {
    use zebu_proto::Epoch;

    use super::*;

    /// Many changes of the same paths in flight, applied in parts: a server stopped at such a load.
    #[test]
    fn every_change_that_is_applied_is_no_longer_in_flight() {
        let tree = Tree::new(zebu_tree::Options::default());
        let mut outstanding = Outstanding::new(false);
        let stat = StatPersisted::default();
        let paths: Vec<String> = (0..1_000).map(|number| format!("/load/k{number:07}")).collect();
        let zxid = |counter| Zxid::new(Epoch(1), counter);
        let (mut ordered, mut applied) = (0, 0);
        let mut random = zebu_testkit::Random::new(1);
        for _ in 0..500 {
            while ordered - applied < 1_790 {
                ordered += 1;
                let path = random.pick(&paths);
                let seen = match outstanding.look(&tree, path) {
                    Ok(view) => view.seen(),
                    Err(seen) => seen,
                };
                let znode = outstanding.fresh(path, stat, Arc::from([]), None);
                outstanding.set(&tree, zxid(ordered), path, seen, Some(znode));
            }
            applied += 1 + random.index(1_790) as u32;
            outstanding.applied(zxid(applied));
            outstanding.check(zxid(applied));
            let due = outstanding.changes.iter().find(|entry| entry.change.zxid <= zxid(applied));
            assert!(due.is_none(), "applied, and in flight: {due:?}");
        }
    }
}

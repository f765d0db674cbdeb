//! What is ordered but not applied: every write is validated against the tree plus this.
//!
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

/// A znode as it will be.
#[derive(Clone, Debug)]
pub(crate) struct Pending {
    stat: StatPersisted,
    children: u32,
    /// `None` while it is what the tree has.
    acl: Option<Arc<[Acl]>>,
    /// `None` while the data are what the tree has.
    data_bytes: Option<usize>,
    /// What it adds to the digest.
    digest: u32,
}

#[derive(Clone, Debug)]
struct Change {
    zxid: Zxid,
    /// `None` when the znode will be gone.
    znode: Option<Pending>,
}

impl Change {
    /// Who will own the znode; 0 for nobody.
    fn owner(&self) -> i64 {
        self.znode.as_ref().map_or(0, |znode| znode.stat.ephemeral_owner)
    }
}

#[derive(Debug)]
struct Entry {
    path: Arc<str>,
    change: Change,
}

/// The changes in flight, by path, and the digest the tree will have after them.
#[derive(Debug)]
pub(crate) struct Outstanding {
    changes: HashTable<Entry>,
    /// Who owns what of it, and how much everybody will own.
    owned: Owned,
    /// Hashes of the paths in the order their changes will be applied.
    order: VecDeque<(Zxid, u64)>,
    digest: i64,
    /// What a multi has replaced so far, newest last; empty outside of one.
    undo: Vec<Undo>,
    in_multi: bool,
    with_digest: bool,
    /// Changes put in flight, and taken out of it, since somebody asked.
    queued: u64,
    removed: u64,
}

/// What takes a change back.
#[derive(Debug)]
struct Undo {
    hash: u64,
    path: Arc<str>,
    before: Option<Change>,
    /// Who owned the znode, whether that was in flight or not.
    owner: i64,
}

/// A path that was looked up: what is there will be replaced.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Seen {
    hash: u64,
    /// What the znode adds to the digest.
    digest: u32,
    /// Who owns it; 0 for nobody.
    owner: i64,
}

/// A znode as a request must see it: the tree's, with what is in flight on top.
pub(crate) struct View<'v> {
    found: Found<'v>,
    hash: u64,
    /// Whether it counts in a digest that is wanted.
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

    /// How many bytes of data the tree has here; where it has no znode, how many it will have.
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

    /// What is in flight of ACL and data.
    fn in_flight(&self) -> (Option<Arc<[Acl]>>, Option<usize>) {
        match &self.found {
            Found::Applied(_) => (None, None),
            Found::Pending { pending, .. } => (pending.acl.clone(), pending.data_bytes),
        }
    }

    /// The znode, which is that of `path`, with another stat and other data; ACL and child count stay.
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

    /// The znode with another stat and child count; data and ACL stay.
    pub(crate) fn with(&self, stat: StatPersisted, children: u32) -> Pending {
        let before = self.digest();
        let digest = if self.counts { moved_digest(before, &self.stat(), &stat) } else { 0 };
        let (acl, data_bytes) = self.in_flight();
        Pending { stat, children, acl, data_bytes, digest }
    }

    /// The znode with another stat and ACL; data and child count stay.
    pub(crate) fn with_acl(&self, stat: StatPersisted, acl: Arc<[Acl]>) -> Pending {
        Pending { acl: Some(acl), ..self.with(stat, self.children()) }
    }
}

fn hash(path: &str) -> u64 {
    FixedState::default().hash_one(path)
}

impl Outstanding {
    /// Nothing in flight; `with_digest` says whether digests are wanted at all.
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

    /// Changes put in flight since this was last asked.
    pub(crate) fn take_queued(&mut self) -> u64 {
        std::mem::take(&mut self.queued)
    }

    /// Changes that were applied or taken back since this was last asked.
    pub(crate) fn take_removed(&mut self) -> u64 {
        std::mem::take(&mut self.removed)
    }

    /// The znode at `path`, as it will be when everything in flight is applied.
    pub(crate) fn view<'v>(&'v self, tree: &'v Tree, path: &str) -> Option<View<'v>> {
        self.look(tree, path).ok()
    }

    /// The same; where there will be none, that was seen.
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

    /// Whether the znode at `path` counts in a digest that is wanted.
    fn counts(&self, path: &str) -> bool {
        self.with_digest && digest_counts(path)
    }

    /// A znode that comes to be at `path`.
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

    /// Says that the znode at `path`, where `seen` was seen, will be `znode` from `zxid` on.
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
        let (entry, before) = match self.changes.entry(seen.hash, same, |entry| hash(&entry.path)) {
            hash_table::Entry::Occupied(there) => {
                let there = there.into_mut();
                let before = std::mem::replace(&mut there.change, change);
                (there, Some(before))
            }
            hash_table::Entry::Vacant(free) => {
                (free.insert(Entry { path: path.into(), change }).into_mut(), None)
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

    /// Starts a list of changes that happen together or not at all.
    pub(crate) fn begin(&mut self, tree: &Tree) -> Savepoint {
        assert!(!self.in_multi, "there is no multi in a multi");
        assert!(self.undo.is_empty(), "the last multi is over");
        self.in_multi = true;
        Savepoint { digest: self.digest(tree), order: self.order.len() }
    }

    /// Ends the list, keeping its changes.
    pub(crate) fn keep(&mut self) {
        assert!(self.in_multi, "a list of changes that was not begun");
        self.in_multi = false;
        self.undo.clear();
    }

    /// Ends the list and takes its changes back.
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

    /// Forgets the changes that the tree has by now.
    pub(crate) fn applied(&mut self, up_to: Zxid) {
        while let Some(&(zxid, hash)) = self.order.front()
            && zxid <= up_to
        {
            self.order.pop_front();
            self.removed += 1;
            // A later change may have taken its place. With the same hash there may be another path, whose turn is
            // now as well.
            let is_due = |entry: &Entry| entry.change.zxid <= up_to;
            if let Ok(there) = self.changes.find_entry(hash, is_due) {
                let Entry { path, change } = there.remove().0;
                self.owned.change(&path, change.owner(), 0);
            }
        }
    }

    /// Paths in flight whose znodes will be the owner's.
    pub(crate) fn owned(&self, owner: i64) -> impl Iterator<Item = &str> {
        self.owned.paths(owner)
    }

    /// The bytes that a list of everything has that will be the owner's.
    pub(crate) fn owned_bytes(&self, tree: &Tree, owner: i64) -> usize {
        self.owned.bytes(tree, owner)
    }

    /// Whether something is in flight at `path`.
    pub(crate) fn has(&self, path: &str) -> bool {
        self.change(hash(path), path).is_some()
    }
}

/// Where a list of changes began.
pub(crate) struct Savepoint {
    digest: i64,
    order: usize,
}

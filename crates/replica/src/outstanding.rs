//! What is ordered but not applied: every write is validated against the tree plus this.
//!
//! Source: `ZooKeeperServer.ChangeRecord`, `PrepRequestProcessor.getRecordForPath`.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use bytes::Bytes;
use foldhash::fast::FixedState;
use hashbrown::HashMap;
use hashbrown::hash_map::EntryRef;
use zebu_proto::{Acl, StatPersisted, Zxid};
use zebu_tree::{Node, Tree, digest_counts, node_digest};

/// A znode as it will be.
#[derive(Clone, Debug)]
pub(crate) struct Pending {
    pub(crate) stat: StatPersisted,
    pub(crate) children: u32,
    /// `None` while it is what the tree has.
    pub(crate) acl: Option<Arc<[Acl]>>,
    /// `None` while it is what the tree has.
    pub(crate) data: Option<Option<Bytes>>,
    pub(crate) digest: u32,
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

/// The changes in flight, by path, and the digest the tree will have after them.
#[derive(Debug)]
pub(crate) struct Outstanding {
    changes: HashMap<Arc<str>, Change, FixedState>,
    /// Those of `changes` whose znodes will have an owner, by owner: the end of one session must not
    /// look at what all the others do.
    owned: BTreeMap<i64, BTreeSet<Arc<str>>>,
    /// Paths in the order their changes will be applied.
    order: VecDeque<(Zxid, Arc<str>)>,
    digest: i64,
    /// What a multi has replaced so far, newest last; empty outside of one.
    undo: Vec<(Arc<str>, Option<Change>)>,
    in_multi: bool,
    with_digest: bool,
    /// Changes put in flight, and taken out of it, since somebody asked.
    queued: u64,
    removed: u64,
}

/// What a znode adds to the digest.
#[derive(Clone, Copy, Debug)]
pub(crate) struct DigestPart(u32);

/// A znode as a request must see it: the tree's, with what is in flight on top.
pub(crate) enum View<'v> {
    Applied(Node<'v>),
    Pending { pending: &'v Pending, under: Option<Node<'v>> },
}

impl View<'_> {
    pub(crate) fn stat(&self) -> StatPersisted {
        match self {
            Self::Applied(node) => node.persisted(),
            Self::Pending { pending, .. } => pending.stat,
        }
    }

    pub(crate) fn children(&self) -> u32 {
        match self {
            Self::Applied(node) => node.child_count(),
            Self::Pending { pending, .. } => pending.children,
        }
    }

    pub(crate) fn acl(&self) -> &[Acl] {
        match self {
            Self::Applied(node) => node.acl(),
            Self::Pending { pending: Pending { acl: Some(acl), .. }, .. } => acl,
            Self::Pending { under, .. } => under.as_ref().map_or(&[], |node| node.acl()),
        }
    }

    pub(crate) fn data(&self) -> Option<&[u8]> {
        match self {
            Self::Applied(node) => node.data(),
            Self::Pending { pending: Pending { data: Some(data), .. }, .. } => data.as_deref(),
            Self::Pending { under, .. } => under.as_ref().and_then(|node| node.data()),
        }
    }

    /// The znode as the tree has it, if it has.
    pub(crate) fn applied(&self) -> Option<&Node<'_>> {
        match self {
            Self::Applied(node) => Some(node),
            Self::Pending { under, .. } => under.as_ref(),
        }
    }

    fn digest(&self) -> u32 {
        match self {
            Self::Applied(node) => node.digest(),
            Self::Pending { pending, .. } => pending.digest,
        }
    }

    /// The znode with another stat and other data; ACL and child count stay.
    pub(crate) fn with_data(&self, stat: StatPersisted, data: Option<Bytes>) -> Pending {
        let acl = match self {
            Self::Applied(_) => None,
            Self::Pending { pending, .. } => pending.acl.clone(),
        };
        Pending { stat, children: self.children(), acl, data: Some(data), digest: 0 }
    }

    /// The znode with another stat and child count; data and ACL stay.
    pub(crate) fn with(&self, stat: StatPersisted, children: u32) -> Pending {
        let (acl, data) = match self {
            Self::Applied(_) => (None, None),
            Self::Pending { pending, .. } => (pending.acl.clone(), pending.data.clone()),
        };
        Pending { stat, children, acl, data, digest: 0 }
    }
}

impl Outstanding {
    /// Nothing in flight; `with_digest` says whether digests are wanted at all.
    pub(crate) fn new(with_digest: bool) -> Self {
        Self {
            changes: HashMap::with_hasher(FixedState::default()),
            owned: BTreeMap::new(),
            order: VecDeque::new(),
            digest: 0,
            undo: Vec::new(),
            in_multi: false,
            with_digest,
            queued: 0,
            removed: 0,
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
        if !self.changes.is_empty()
            && let Some(change) = self.changes.get(path)
        {
            let pending = change.znode.as_ref()?;
            return Some(View::Pending { pending, under: tree.node(path) });
        }
        tree.node(path).map(View::Applied)
    }

    /// What the znode at `path` adds to the digest, for [`Outstanding::replace_seen`].
    pub(crate) fn part(&self, path: &str, seen: Option<&View<'_>>) -> DigestPart {
        match seen {
            Some(znode) if self.with_digest && digest_counts(path) => DigestPart(znode.digest()),
            _ => DigestPart(0),
        }
    }

    /// Says that the znode at `path` will be `znode` from `zxid` on.
    pub(crate) fn set(&mut self, tree: &Tree, zxid: Zxid, path: &str, znode: Option<Pending>) {
        let before = self.part(path, self.view(tree, path).as_ref());
        self.replace_seen(tree, zxid, path, before, znode);
    }

    /// As [`Outstanding::set`], by somebody who has just seen the znode.
    pub(crate) fn replace_seen(
        &mut self,
        tree: &Tree,
        zxid: Zxid,
        path: &str,
        before: DigestPart,
        mut znode: Option<Pending>,
    ) {
        if self.with_digest {
            if self.order.is_empty() {
                self.digest = tree.digest();
            }
            if digest_counts(path) {
                self.digest = self.digest.wrapping_sub(before.0.into());
                if let Some(znode) = &mut znode {
                    let data = match &znode.data {
                        Some(data) => data.as_deref(),
                        None => tree.node(path).and_then(|node| node.data()),
                    };
                    znode.digest = node_digest(path, data, &znode.stat);
                    self.digest = self.digest.wrapping_add(znode.digest.into());
                }
            }
        }
        let change = Change { zxid, znode };
        let after = change.owner();
        let (key, before) = match self.changes.entry_ref(path) {
            EntryRef::Occupied(mut there) => (there.key().clone(), Some(there.insert(change))),
            EntryRef::Vacant(free) => (free.insert_entry(change).key().clone(), None),
        };
        self.change_owner(&key, before.as_ref().map_or(0, Change::owner), after);
        if self.in_multi {
            self.undo.push((key.clone(), before));
        }
        self.order.push_back((zxid, key));
        self.queued += 1;
    }

    /// The tree's digest after everything in flight.
    pub(crate) fn digest(&self, tree: &Tree) -> i64 {
        if self.order.is_empty() { tree.digest() } else { self.digest }
    }

    /// Starts a list of changes that happen together or not at all.
    pub(crate) fn begin(&mut self, tree: &Tree) -> Savepoint {
        self.in_multi = true;
        Savepoint { digest: self.digest(tree), order: self.order.len() }
    }

    /// Ends the list, keeping its changes.
    pub(crate) fn keep(&mut self) {
        self.in_multi = false;
        self.undo.clear();
    }

    /// Ends the list and takes its changes back.
    pub(crate) fn take_back(&mut self, to: Savepoint) {
        self.in_multi = false;
        while let Some((path, before)) = self.undo.pop() {
            let to = before.as_ref().map_or(0, Change::owner);
            let undone = match before {
                Some(change) => self.changes.insert(path.clone(), change),
                None => self.changes.remove(&path),
            };
            self.change_owner(&path, undone.as_ref().map_or(0, Change::owner), to);
        }
        self.removed += (self.order.len() - to.order) as u64;
        self.order.truncate(to.order);
        self.digest = to.digest;
    }

    /// Forgets the changes that the tree has by now.
    pub(crate) fn applied(&mut self, up_to: Zxid) {
        while let Some((zxid, _)) = self.order.front()
            && *zxid <= up_to
        {
            let (_, path) = self.order.pop_front().expect("the front was there");
            self.removed += 1;
            if let EntryRef::Occupied(there) = self.changes.entry_ref(&*path)
                && there.get().zxid <= up_to
            {
                let owner = there.remove().owner();
                self.change_owner(&path, owner, 0);
            }
        }
    }

    /// Notes that the znode at `path` will belong to `after` rather than to `before`.
    fn change_owner(&mut self, path: &Arc<str>, before: i64, after: i64) {
        if before == after {
            return;
        }
        if let Some(paths) = self.owned.get_mut(&before) {
            paths.remove(path);
            if paths.is_empty() {
                self.owned.remove(&before);
            }
        }
        if after != 0 {
            self.owned.entry(after).or_default().insert(path.clone());
        }
    }

    /// Paths in flight whose znodes will be the owner's.
    pub(crate) fn owned(&self, owner: i64) -> impl Iterator<Item = &str> {
        self.owned.get(&owner).into_iter().flatten().map(|path| &**path)
    }

    /// Whether something is in flight at `path`.
    pub(crate) fn has(&self, path: &str) -> bool {
        self.changes.contains_key(path)
    }
}

/// Where a list of changes began.
pub(crate) struct Savepoint {
    digest: i64,
    order: usize,
}

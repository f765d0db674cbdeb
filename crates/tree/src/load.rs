//! Builds a tree from the parts of a snapshot.

use std::collections::BTreeMap;
use std::sync::Arc;

use zebu_proto::path::reserved::is_undeletable;
use zebu_proto::{Acl, Id, Perms, SessionId, StatPersisted};

use crate::acl_table::{OPEN, OPEN_ID};
use crate::arena::ROOT;
use crate::tree::split;
use crate::{Options, Tree, quota};

/// An inconsistency in a snapshot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BadNode {
    /// The parent is missing or comes later.
    ParentMissing,
    /// A second root.
    Duplicate,
    /// An invalid path.
    Path,
    /// An ephemeral znode at a path that may not be deleted.
    Owned,
}

impl std::fmt::Display for BadNode {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::ParentMissing => "the parent of a znode did not come before it",
            Self::Duplicate => "a znode comes twice",
            Self::Path => "not the path of a znode",
            Self::Owned => "a reserved znode has an owner",
        })
    }
}

impl std::error::Error for BadNode {}

/// A snapshot has two znodes with the same path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DuplicateNode {
    /// The path.
    pub path: String,
}

impl std::fmt::Display for DuplicateNode {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}: {}", self.path, BadNode::Duplicate)
    }
}

impl std::error::Error for DuplicateNode {}

/// A tree being loaded: sessions and ACLs, then znodes with parents first, then [`Loader::finish`].
#[derive(Debug)]
pub struct Loader {
    tree: Tree,
    /// Slots by the snapshot's ACL numbers.
    acls: BTreeMap<i64, u32>,
    unknown_acls: usize,
    root_seen: bool,
    /// The path of the last znode.
    last: String,
    /// The last znode and its ancestors, each with the length of its path. The parent of the next
    /// znode is nearly always among them.
    above: Vec<(usize, u32)>,
    /// Hashes of the znodes that are not in the index yet. They are indexed at the end, which is
    /// much faster than one by one.
    unindexed: Vec<u32>,
    /// Znodes whose children did not come in the order of creation; may contain duplicates.
    unordered: Vec<u32>,
}

impl Loader {
    /// A loader for a tree with these options.
    pub fn new(options: Options) -> Self {
        Self {
            tree: Tree::bare(options),
            acls: BTreeMap::from([(OPEN_ID, OPEN)]),
            unknown_acls: 0,
            root_seen: false,
            last: String::new(),
            above: Vec::new(),
            unindexed: Vec::new(),
            unordered: Vec::new(),
        }
    }

    /// Adds a session with its timeout in milliseconds.
    pub fn session(&mut self, session: SessionId, timeout_ms: i32) {
        self.tree.owners.sessions.insert(session, timeout_ms);
    }

    /// Adds an ACL under its number.
    pub fn acl(&mut self, id: i64, acl: Vec<Acl>) {
        if id != OPEN_ID && !self.acls.contains_key(&id) {
            let slot = self.tree.acls.insert(id, acl.into());
            self.acls.insert(id, slot);
        }
    }

    /// Returns the slot of an ACL, and counts the use.
    ///
    /// A znode in a fuzzy snapshot may refer to an ACL created after the table was written. Replay
    /// restores it. Until then the znode grants no permissions.
    fn acl_slot(&mut self, id: i64) -> u32 {
        let slot = match self.acls.get(&id) {
            Some(slot) => *slot,
            None => {
                self.unknown_acls += 1;
                let nobody = Acl { perms: Perms::default(), id: Id::new("world", "anyone") };
                let slot = self.tree.acls.insert(self.tree.acls.next_id(), Arc::new([nobody]));
                self.acls.insert(id, slot);
                slot
            }
        };
        self.tree.acls.retain(slot);
        slot
    }

    /// Adds a znode; the root's path is empty.
    ///
    /// # Errors
    /// [`BadNode`]; the tree is unusable then.
    pub fn node(
        &mut self,
        path: &str,
        data: Option<&[u8]>,
        acl_id: i64,
        stat: &StatPersisted,
    ) -> Result<(), BadNode> {
        if path.is_empty() {
            return self.root(data, acl_id, stat);
        }
        if is_undeletable(path) && stat.ephemeral_owner != 0 {
            return Err(BadNode::Owned);
        }
        let (parent_path, name) = split(path).ok_or(BadNode::Path)?;
        let parent = self.parent(parent_path)?;
        let acl = self.acl_slot(acl_id);
        let (id, is_ordered) = self.tree.arena.append_in_order(parent, name, data, stat);
        if !is_ordered && self.unordered.last() != Some(&parent) {
            self.unordered.push(parent);
        }
        self.unindexed.push(self.tree.arena.get(id).hash);
        self.tree.added(id, path, data, acl, stat);
        self.last.truncate(parent_path.len());
        self.last.push_str(&path[parent_path.len()..]);
        self.above.push((path.len(), id));
        if let Some(owner) = quota::limits_of(path) {
            self.tree.quotas.add(owner);
        }
        Ok(())
    }

    /// The existing znode at `path`; remembers it and its ancestors.
    fn parent(&mut self, path: &str) -> Result<u32, BadNode> {
        if path.is_empty() {
            self.above.clear();
            return Ok(ROOT);
        }
        while let Some((length, id)) = self.above.last() {
            if *length == path.len() && self.last.as_bytes().get(..*length) == Some(path.as_bytes())
            {
                return Ok(*id);
            }
            self.above.pop();
        }
        self.index().map_err(|_| BadNode::Duplicate)?;
        let parent = self.tree.arena.lookup(path).ok_or(BadNode::ParentMissing)?;
        path.clone_into(&mut self.last);
        self.above.push((path.len(), parent));
        Ok(parent)
    }

    /// Indexes all added znodes. Fails with the path of a duplicate.
    fn index(&mut self) -> Result<(), DuplicateNode> {
        let arena = &mut self.tree.arena;
        arena.index_newest(&self.unindexed).map_err(|id| DuplicateNode { path: arena.path(id) })?;
        self.unindexed.clear();
        Ok(())
    }

    fn root(
        &mut self,
        data: Option<&[u8]>,
        acl_id: i64,
        stat: &StatPersisted,
    ) -> Result<(), BadNode> {
        if std::mem::replace(&mut self.root_seen, true) {
            return Err(BadNode::Duplicate);
        }
        let acl = self.acl_slot(acl_id);
        self.tree.replace_acl(ROOT, acl);
        self.tree.change_data(ROOT, "/", data, |root| *root = *stat);
        Ok(())
    }

    /// Number of znodes that refer to an ACL missing from the snapshot.
    pub fn unknown_acls(&self) -> usize {
        self.unknown_acls
    }

    /// Returns the tree. Unused ACLs are dropped, and quota usages are recounted.
    ///
    /// # Errors
    /// Two znodes have the same path.
    pub fn finish(mut self) -> Result<Tree, DuplicateNode> {
        self.index()?;
        let mut tree = self.tree;
        // The original's snapshots have children in hash order.
        self.unordered.sort_unstable();
        self.unordered.dedup();
        for parent in self.unordered {
            tree.arena.sort_children(parent);
        }
        tree.add_reserved();
        tree.acls.purge();
        let quotas: Vec<String> = tree.quotas.iter().map(str::to_owned).collect();
        for owner in quotas {
            tree.recount_quota(&owner);
        }
        Ok(tree)
    }
}

//! Building a tree from the parts of a snapshot.

use std::collections::BTreeMap;
use std::sync::Arc;

use zebu_proto::path::reserved::is_undeletable;
use zebu_proto::{Acl, Id, Perms, SessionId, StatPersisted};

use crate::acl_table::{OPEN, OPEN_ID};
use crate::arena::ROOT;
use crate::tree::split;
use crate::{Options, Tree, quota};

/// A snapshot that contradicts itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BadNode {
    /// The znode's parent did not come before it.
    ParentMissing,
    /// The root came before.
    Duplicate,
    /// Not the path of a znode.
    Path,
    /// A znode that nobody may delete would go with a session.
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

/// A snapshot has two znodes of one path.
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

/// A tree being loaded: first sessions and ACLs, then znodes, parents first, then
/// [`Loader::finish`].
#[derive(Debug)]
pub struct Loader {
    tree: Tree,
    /// Slots by the numbers of the snapshot.
    acls: BTreeMap<i64, u32>,
    unknown_acls: usize,
    root_seen: bool,
    /// The last znode's path.
    last: String,
    /// The last znode and all above it, each with the length of its path: nearly always the next one's
    /// parent is among them.
    above: Vec<(usize, u32)>,
    /// Hashes of the znodes that cannot be found by their names yet. All are entered when nothing more comes:
    /// that takes a small part of the time of entering one after the other.
    unindexed: Vec<u32>,
    /// Znodes whose children came in no order of their creation, some of them more than once.
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

    /// A session and its timeout in milliseconds.
    pub fn session(&mut self, session: SessionId, timeout_ms: i32) {
        self.tree.owners.sessions.insert(session, timeout_ms);
    }

    /// An ACL and its number.
    pub fn acl(&mut self, id: i64, acl: Vec<Acl>) {
        if id != OPEN_ID && !self.acls.contains_key(&id) {
            let slot = self.tree.acls.insert(id, acl.into());
            self.acls.insert(id, slot);
        }
    }

    /// The slot of an ACL, counted.
    ///
    /// A fuzzy snapshot may name one that came into being after its table was written; replay gives
    /// the znode its list again. Until then nobody may do anything to it.
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

    /// A znode; the root's path is empty.
    ///
    /// # Errors
    /// [`BadNode`]; the tree is of no use then.
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

    /// The znode of a path that has one; it and what is above it is noted.
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

    /// Enters all znodes that were added; the path of one that was there before, if there is one.
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
        self.tree.change_data(ROOT, "/", data, |root| root.set_stat(stat));
        Ok(())
    }

    /// How many ACLs znodes named that the snapshot does not have.
    pub fn unknown_acls(&self) -> usize {
        self.unknown_acls
    }

    /// The tree: ACLs without a znode are dropped and the usage of every quota is counted afresh.
    ///
    /// # Errors
    /// Two znodes have the same path.
    pub fn finish(mut self) -> Result<Tree, DuplicateNode> {
        self.index()?;
        let mut tree = self.tree;
        // The original's snapshots have children in the order of a hash table.
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

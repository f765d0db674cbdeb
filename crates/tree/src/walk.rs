//! A walk over all znodes while the tree goes on changing, for snapshots.
//!
//! Parents come before their children and no path comes twice. A znode created in a place the walk
//! has passed is left out: replaying the log from where the walk began brings it. That holds
//! because the walk visits newer siblings before older ones, so a new znode is always behind the walk or
//! wholly before it, and because a deletion moves every walk that stands on the znode.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use zebu_proto::{StatPersisted, Zxid};

use crate::Tree;
use crate::arena::{NONE, ROOT};

/// A walk under way. Take the tables of sessions and ACLs under the same lock as its beginning.
#[derive(Debug)]
pub struct Walk {
    /// The znode to visit next.
    cursor: Arc<AtomicU32>,
    /// Of the znode visited last, or to visit next.
    path: String,
    began: Zxid,
    /// ACLs from this number on are not in the table taken at the beginning.
    new_acls: i64,
}

/// Moves a cursor off a znode without children that is about to be removed.
pub(crate) fn move_past(cursor: &AtomicU32, gone: u32, next: u32) {
    if cursor.load(Ordering::Relaxed) == gone {
        cursor.store(next, Ordering::Relaxed);
    }
}

impl Walk {
    /// A walk that begins at the root.
    pub fn new(tree: &Tree) -> Self {
        let cursor = Arc::new(AtomicU32::new(ROOT));
        tree.register(&cursor);
        Self { cursor, path: String::new(), began: tree.last_zxid, new_acls: tree.acls.next_id() }
    }

    /// The zxid the walk began at: replay from the one after it completes the snapshot.
    pub fn began(&self) -> Zxid {
        self.began
    }

    /// Whether the walk began on this tree, and can go on.
    pub fn is_of(&self, tree: &Tree) -> bool {
        tree.knows(&self.cursor)
    }

    /// Visits up to `budget` znodes: path (empty for the root), data, number of the ACL, stat.
    /// Whether that were the last ones.
    ///
    /// The tree may change between steps.
    ///
    /// # Panics
    /// When the tree is not the one the walk began on.
    pub fn step(
        &mut self,
        tree: &Tree,
        budget: usize,
        visit: &mut impl FnMut(&str, Option<&[u8]>, i64, &StatPersisted),
    ) -> bool {
        self.step_while(tree, budget, &mut |path, data, acl, stat| {
            visit(path, data, acl, stat);
            true
        })
    }

    /// The same, and no further than to the first znode that `visit` has enough with.
    ///
    /// # Panics
    /// When the tree is not the one the walk began on.
    pub fn step_while(
        &mut self,
        tree: &Tree,
        budget: usize,
        visit: &mut impl FnMut(&str, Option<&[u8]>, i64, &StatPersisted) -> bool,
    ) -> bool {
        assert!(self.is_of(tree), "a walk goes on over another tree");

        let mut id = self.cursor.load(Ordering::Relaxed);
        if id == NONE {
            return true;
        }
        debug_assert!(tree.arena.is_live(id), "a walk stands on a znode that is gone");
        tree.arena.path_into(id, &mut self.path);
        if id == ROOT {
            self.path.clear();
        }
        for _ in 0..budget {
            let record = tree.arena.get(id);
            let acl = tree.acls.id(record.acl);
            // Created since, with an ACL that the table does not have: replay brings both.
            let skip = record.czxid > self.began && acl >= self.new_acls;
            let goes_on = skip || visit(&self.path, tree.arena.data(id), acl, &record.stat());
            id = match record.newest_child {
                child if child != NONE && !skip => {
                    self.path.push('/');
                    self.path.push_str(tree.arena.name(child));
                    child
                }
                _ => self.leave(tree, id),
            };
            if id == NONE || !goes_on {
                break;
            }
        }
        self.cursor.store(id, Ordering::Relaxed);
        id == NONE
    }

    /// Goes to the next older sibling, or that of the nearest ancestor that has one.
    fn leave(&mut self, tree: &Tree, mut id: u32) -> u32 {
        while id != ROOT {
            let record = tree.arena.get(id);
            let parent = self.path.rfind('/').expect("below the root every path has a slash");
            self.path.truncate(parent);
            if record.older != NONE {
                self.path.push('/');
                self.path.push_str(tree.arena.name(record.older));
                return record.older;
            }
            id = record.parent;
        }
        NONE
    }
}

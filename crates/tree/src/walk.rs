//! Walks over all znodes for a snapshot, while the tree may change.
//!
//! Parents come before their children, and no path comes twice. A znode created at a place that the
//! walk has passed is left out; replaying the log from the start of the walk adds it. This works
//! because the walk visits newer siblings before older ones, so that a new znode is always in the
//! part already passed, or in a subtree not yet reached. Deleting a znode moves every walk that
//! stands at it.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use zebu_proto::{StatPersisted, Zxid};

use crate::Tree;
use crate::arena::{NONE, ROOT};

/// A walk in progress. Copy the tables of sessions and ACLs under the same lock as its start.
#[derive(Debug)]
pub struct Walk {
    /// The znode to visit next.
    cursor: Arc<AtomicU32>,
    /// The path of the znode visited last, or to visit next.
    path: String,
    began: Zxid,
    /// ACLs from this number on are not in the table copied at the start.
    new_acls: i64,
}

/// Advances a cursor at a childless znode that is about to be removed.
pub(crate) fn move_past(cursor: &AtomicU32, gone: u32, next: u32) {
    if cursor.load(Ordering::Relaxed) == gone {
        cursor.store(next, Ordering::Relaxed);
    }
}

impl Walk {
    /// Starts a walk at the root.
    pub fn new(tree: &Tree) -> Self {
        let cursor = Arc::new(AtomicU32::new(ROOT));
        tree.register(&cursor);
        Self { cursor, path: String::new(), began: tree.last_zxid, new_acls: tree.acls.next_id() }
    }

    /// The zxid at the start of the walk: replaying all later transactions completes the snapshot.
    pub fn began(&self) -> Zxid {
        self.began
    }

    /// Whether the walk started on this tree, so that it can continue.
    pub fn is_of(&self, tree: &Tree) -> bool {
        tree.knows(&self.cursor)
    }

    /// Visits up to `budget` znodes: path (empty for the root), data, number of the ACL, stat.
    /// Returns whether the walk is complete.
    ///
    /// The tree may change between steps.
    ///
    /// # Panics
    /// If the walk did not start on this tree.
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

    /// Like [`Walk::step`], but also stops after a znode for which `visit` returns false.
    ///
    /// # Panics
    /// If the walk did not start on this tree.
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
            // Created since the start, with an ACL that the copied table lacks: replay restores
            // both.
            let skip = record.czxid > self.began && acl >= self.new_acls;
            let goes_on = skip || visit(&self.path, tree.arena.data(id), acl, &tree.arena.stat(id));
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

    /// Moves to the next older sibling, or to that of the nearest ancestor with one.
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

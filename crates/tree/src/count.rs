//! Counts descendants in parts, while the tree may change.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, PoisonError};

use crate::arena::{NONE, ROOT};
use crate::{Node, Tree};

/// A count in progress.
#[derive(Debug)]
pub struct Count {
    /// The znode to count next; moved on if that is deleted.
    cursor: Arc<AtomicU32>,
    top: u32,
    found: usize,
}

impl Count {
    /// Counts the descendants of a znode.
    pub fn below(node: &Node<'_>) -> Self {
        let tree = node.tree;
        let first = tree.arena.after(node.id, node.id).unwrap_or(NONE);
        let cursor = Arc::new(AtomicU32::new(first));
        tree.register(&cursor);
        Self { cursor, top: node.id, found: 0 }
    }

    /// Counts up to `budget` more znodes. Returns the total when the count is complete.
    ///
    /// The tree may change between steps: a znode that exists all the time is counted exactly once.
    /// If the tree was replaced or the znode deleted, the count ends.
    pub fn step(&mut self, tree: &Tree, budget: usize) -> Option<usize> {
        let mut id = self.cursor.load(Ordering::Relaxed);
        if id == NONE || !tree.knows(&self.cursor) || !is_below(tree, id, self.top) {
            return Some(self.found);
        }
        for _ in 0..budget {
            self.found += 1;
            match tree.arena.after(id, self.top) {
                Some(next) => id = next,
                None => {
                    self.cursor.store(NONE, Ordering::Relaxed);
                    return Some(self.found);
                }
            }
        }
        self.cursor.store(id, Ordering::Relaxed);
        None
    }
}

fn is_below(tree: &Tree, mut id: u32, top: u32) -> bool {
    while id != top && id != ROOT {
        id = tree.arena.get(id).parent;
    }
    id == top
}

impl Tree {
    /// Registers a walk's cursor, so that a deletion moves it on.
    pub(crate) fn register(&self, cursor: &Arc<AtomicU32>) {
        let mut walks = self.walks.lock().unwrap_or_else(PoisonError::into_inner);
        walks.retain(|walk| walk.strong_count() > 0);
        walks.push(Arc::downgrade(cursor));
    }

    /// Whether a walk started on this tree.
    pub(crate) fn knows(&self, cursor: &Arc<AtomicU32>) -> bool {
        let ours = Arc::downgrade(cursor);
        let walks = self.walks.lock().unwrap_or_else(PoisonError::into_inner);
        walks.iter().any(|walk| walk.ptr_eq(&ours))
    }
}

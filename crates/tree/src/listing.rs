//! Lists children in parts, while the tree may change.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use crate::arena::NONE;
use crate::{Node, Tree};

/// A list in progress. It is consistent: it restarts if the children change.
#[derive(Debug)]
pub struct Listing {
    /// The child listed last. It is registered with the tree, so that a replaced tree is
    /// recognised.
    cursor: Arc<AtomicU32>,
    /// The znode, and the version of its list of children.
    id: u32,
    version: Version,
}

/// Fields that change with every creation or deletion of a child.
type Version = (i64, i64, i32, u32);

fn version(node: &Node<'_>) -> Version {
    let stat = node.stat();
    (stat.czxid.0, stat.pzxid.0, stat.cversion, node.child_count())
}

/// The progress of a list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Listed {
    /// There are more children.
    More,
    /// The list is complete.
    All,
    /// The children have changed: discard what was listed.
    Changed,
}

impl Listing {
    /// Starts a list of a znode's children.
    pub fn of(node: &Node<'_>) -> Self {
        let cursor = Arc::new(AtomicU32::new(NONE));
        node.tree.register(&cursor);
        Self { cursor, id: node.id, version: version(node) }
    }

    /// Passes up to `budget` more names of children to `show`, oldest first.
    pub fn step(&self, node: &Node<'_>, budget: usize, mut show: impl FnMut(&str)) -> Listed {
        let tree: &Tree = node.tree;
        let is_same = node.id == self.id && version(node) == self.version;
        if !is_same || !tree.knows(&self.cursor) {
            return Listed::Changed;
        }
        let last = self.cursor.load(Ordering::Relaxed);
        debug_assert!(last == NONE || tree.arena.get(last).parent == self.id, "not its child");
        let show = |id: u32| {
            show(tree.arena.name(id));
            id
        };
        let (shown, newest) = if last == NONE {
            tree.arena.children(node.id).take(budget).map(show).fold((0, NONE), count)
        } else {
            tree.arena.children_behind(node.id, last).take(budget).map(show).fold((0, last), count)
        };
        self.cursor.store(newest, Ordering::Relaxed);
        if shown < budget { Listed::All } else { Listed::More }
    }
}

fn count((count, _): (usize, u32), id: u32) -> (usize, u32) {
    (count + 1, id)
}

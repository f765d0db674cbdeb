//! Listing the children of a znode, a part at a time, while the tree goes on changing.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use crate::arena::NONE;
use crate::{Node, Tree};

/// A list under way. All of it is of one moment: it begins anew when the children have changed.
#[derive(Debug)]
pub struct Listing {
    /// The child that was listed last. The tree knows it, and so a tree that has taken its place does not.
    cursor: Arc<AtomicU32>,
    /// The znode, and what every change of its children changes.
    id: u32,
    version: Version,
}

/// What every creation and every deletion of a child changes.
type Version = (i64, i64, i32, u32);

fn version(node: &Node<'_>) -> Version {
    let stat = node.stat();
    (stat.czxid.0, stat.pzxid.0, stat.cversion, node.child_count())
}

/// How far a step has got.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Listed {
    /// There are more children.
    More,
    /// Those were all.
    All,
    /// The children have changed since the list began: what was listed is worth nothing.
    Changed,
}

impl Listing {
    /// A list of the children of a znode.
    pub fn of(node: &Node<'_>) -> Self {
        let cursor = Arc::new(AtomicU32::new(NONE));
        node.tree.register(&cursor);
        Self { cursor, id: node.id, version: version(node) }
    }

    /// Shows up to `budget` more names of the children of `node`, the oldest first, to `show`.
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

//! Lists children in parts, while the tree may change.
//!
//! Children are listed in the order of their creation, so a new child comes behind all that are
//! listed. A deletion of a listed child is noted until the next part. So the complete list is that
//! of the moment of its last part, however many children came and went meanwhile.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use zebu_proto::Zxid;

use crate::arena::NONE;
use crate::{Node, Tree};

/// Listed children that may be deleted between two parts. After more deletions the list restarts:
/// to take each of them back takes time, too.
const GONE_MAX: usize = 1024;

/// A list in progress.
#[derive(Debug)]
pub struct Listing {
    /// The state that the deletion of a child changes. It is registered with the tree, so that a
    /// replaced tree is recognised.
    state: Arc<Mutex<State>>,
    /// When the znode was created: its id may be reused.
    czxid: Zxid,
}

/// The part of a list that changes of the tree concern.
#[derive(Debug)]
pub(crate) struct State {
    /// The znode whose children are listed.
    parent: u32,
    /// The newest child that is listed.
    cursor: u32,
    /// Children that were listed and are deleted.
    gone: Vec<(Zxid, String)>,
    /// The list cannot be continued.
    is_lost: bool,
}

/// A change that one part makes to the list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change<'n> {
    /// Append the name of a child.
    Add {
        /// The child's czxid. It never decreases within a list.
        czxid: Zxid,
        /// Its name.
        name: &'n str,
    },
    /// Remove the first such name: the child was deleted.
    Remove {
        /// The czxid with which the name was added.
        czxid: Zxid,
        /// The name.
        name: &'n str,
    },
}

/// The progress of a list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Listed {
    /// There are more children.
    More,
    /// The list is complete.
    All,
    /// The list cannot be continued: discard what was listed.
    Lost,
}

impl Listing {
    /// Starts a list of a znode's children.
    pub fn of(node: &Node<'_>) -> Self {
        let (parent, cursor) = (node.id, NONE);
        let state = State { parent, cursor, gone: Vec::new(), is_lost: false };
        let state = Arc::new(Mutex::new(state));
        let mut lists = node.tree.lists.lock().unwrap_or_else(PoisonError::into_inner);
        lists.retain(|list| list.strong_count() > 0);
        lists.push(Arc::downgrade(&state));
        Self { state, czxid: node.stat().czxid }
    }

    /// Passes deletions since the last part, then up to `budget` more names of children, oldest
    /// first.
    pub fn step(
        &self,
        node: &Node<'_>,
        budget: usize,
        mut change: impl FnMut(Change<'_>),
    ) -> Listed {
        let tree: &Tree = node.tree;
        let mut state = lock(&self.state);
        let is_same = node.id == state.parent && node.stat().czxid == self.czxid;
        if !is_same || state.is_lost || !knows(tree, &self.state) {
            return Listed::Lost;
        }
        for (czxid, name) in state.gone.drain(..) {
            change(Change::Remove { czxid, name: &name });
        }
        let last = state.cursor;
        debug_assert!(last == NONE || tree.arena.get(last).parent == node.id, "not its child");
        let mut show = |id: u32| {
            change(Change::Add { czxid: tree.arena.get(id).czxid, name: tree.arena.name(id) });
            id
        };
        let (shown, newest) = if last == NONE {
            tree.arena.children(node.id).take(budget).map(&mut show).fold((0, NONE), count)
        } else {
            let behind = tree.arena.children_behind(node.id, last);
            behind.take(budget).map(&mut show).fold((0, last), count)
        };
        state.cursor = newest;
        if shown < budget { Listed::All } else { Listed::More }
    }
}

fn count((count, _): (usize, u32), id: u32) -> (usize, u32) {
    (count + 1, id)
}

fn lock(state: &Mutex<State>) -> MutexGuard<'_, State> {
    state.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Whether a list started on this tree.
fn knows(tree: &Tree, state: &Arc<Mutex<State>>) -> bool {
    let ours = Arc::downgrade(state);
    let lists = tree.lists.lock().unwrap_or_else(PoisonError::into_inner);
    lists.iter().any(|list| list.ptr_eq(&ours))
}

impl Tree {
    /// Notes in all lists that a znode is about to be removed.
    #[inline]
    pub(crate) fn lists_lose(&mut self, id: u32) {
        let lists = self.lists.get_mut().unwrap_or_else(PoisonError::into_inner);
        if !lists.is_empty() {
            let mut lists = std::mem::take(lists);
            self.each_list_loses(&mut lists, id);
            self.lists = Mutex::new(lists);
        }
    }

    #[cold]
    fn each_list_loses(&self, lists: &mut Vec<Weak<Mutex<State>>>, id: u32) {
        lists.retain(|list| {
            let Some(state) = list.upgrade() else { return false };
            let mut state = lock(&state);
            let child = self.arena.get(id);
            if child.parent != state.parent || !self.is_listed(&state, id) {
                return true;
            }
            if state.cursor == id {
                state.cursor = child.older;
            }
            if state.gone.len() == GONE_MAX {
                state.is_lost = true;
            }
            if !state.is_lost {
                state.gone.push((child.czxid, self.arena.name(id).to_owned()));
            }
            true
        });
    }

    /// Whether a child is not newer than the newest listed one.
    fn is_listed(&self, state: &State, id: u32) -> bool {
        if state.cursor == NONE {
            return false;
        }
        let czxid = self.arena.get(id).czxid;
        let newest = self.arena.get(state.cursor).czxid;
        if czxid != newest {
            return czxid < newest;
        }
        // Children of one transaction.
        let older = |id: &u32| Some(self.arena.get(*id).older).filter(|older| *older != NONE);
        std::iter::successors(Some(state.cursor), older)
            .take_while(|sibling| self.arena.get(*sibling).czxid == czxid)
            .any(|sibling| sibling == id)
    }

    /// Ends all lists: the order of siblings changes.
    pub(crate) fn lose_lists(&mut self) {
        self.lists.get_mut().unwrap_or_else(PoisonError::into_inner).clear();
    }
}

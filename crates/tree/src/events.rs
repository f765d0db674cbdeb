//! Turns changes into watch events: which watchers get which event, in which order.

use zebu_proto::{Acl, EventType, Zxid};

use crate::Tree;
use crate::arena::NONE;
use crate::watches::{CHILD, DATA, PERSISTENT, RECURSIVE, Target, WatcherId};

/// Receives the events of applied transactions.
pub trait Events {
    /// A watch has fired.
    ///
    /// Called in the order of delivery: first the event of the znode, then that of its parent. A
    /// watcher is notified at most once per event.
    fn notify(&mut self, watcher: WatcherId, event: EventType, path: &str, zxid: Zxid);

    /// Whether the watcher may read a znode with this ACL.
    ///
    /// Called for the changed znode, or the parent for `NODE_CHILDREN_CHANGED`; for a deletion with
    /// the previous ACL. If not, the event is dropped, but a one-shot watch is still consumed
    /// (CVE-2024-23944).
    fn may_read(&mut self, watcher: WatcherId, acl: &[Acl]) -> bool;
}

/// Ignores all events: for replay.
#[derive(Clone, Copy, Debug, Default)]
pub struct Silent;

impl Events for Silent {
    fn notify(&mut self, _: WatcherId, _: EventType, _: &str, _: Zxid) {}

    fn may_read(&mut self, _: WatcherId, _: &[Acl]) -> bool {
        false
    }
}

/// The lists of setWatches and setWatches2.
#[derive(Clone, Copy, Debug, Default)]
pub struct WatchLists<'a, P> {
    /// Paths with data watches.
    pub data: &'a [P],
    /// Paths that did not exist, watched for creation.
    pub exist: &'a [P],
    /// Paths with child watches.
    pub child: &'a [P],
    /// Paths with persistent watches.
    pub persistent: &'a [P],
    /// Paths with persistent recursive watches.
    pub recursive: &'a [P],
}

/// The kind of change of a znode.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Happening {
    Created,
    Deleted,
    DataChanged,
}

impl Tree {
    /// Notifies the watchers of a znode and the recursive watchers of its ancestors.
    ///
    /// `id`: the znode, which must exist; `acl`: the slot of its ACL.
    pub(crate) fn fire_node(
        &mut self,
        happening: Happening,
        id: u32,
        path: &str,
        zxid: Zxid,
        events: &mut impl Events,
    ) {
        let mut found = std::mem::take(&mut self.found);
        let (event, mask, consume) = match happening {
            Happening::Created => (EventType::NODE_CREATED, DATA | PERSISTENT | RECURSIVE, DATA),
            Happening::DataChanged => {
                (EventType::NODE_DATA_CHANGED, DATA | PERSISTENT | RECURSIVE, DATA)
            }
            // Both tables at once, so that no watcher is notified twice.
            Happening::Deleted => {
                (EventType::NODE_DELETED, DATA | CHILD | PERSISTENT | RECURSIVE, DATA | CHILD)
            }
        };
        let target = match happening {
            Happening::Created => Target::Missing(path),
            _ => Target::Node(id),
        };
        self.watches.take(target, mask, consume, &mut found);
        if self.watches.any_recursive() {
            let own = found.len();
            let mut above = self.arena.get(id).parent;
            while above != NONE {
                self.watches.take(Target::Node(above), RECURSIVE, 0, &mut found);
                above = self.arena.get(above).parent;
            }
            if found.len() > own {
                found.sort_unstable();
                found.dedup();
            }
        }
        self.tell(found, event, id, path, zxid, events);
        if matches!(happening, Happening::Created) {
            self.watches.path_became_node(path, id);
        }
    }

    /// Notifies the child watchers of a znode.
    pub(crate) fn fire_children(
        &mut self,
        id: u32,
        path: &str,
        zxid: Zxid,
        events: &mut impl Events,
    ) {
        let mut found = std::mem::take(&mut self.found);
        self.watches.take(Target::Node(id), CHILD | PERSISTENT, CHILD, &mut found);
        let path = if path.is_empty() { "/" } else { path };
        self.tell(found, EventType::NODE_CHILDREN_CHANGED, id, path, zxid, events);
    }

    fn tell(
        &mut self,
        mut found: Vec<u32>,
        event: EventType,
        id: u32,
        path: &str,
        zxid: Zxid,
        events: &mut impl Events,
    ) {
        if found.is_empty() {
            self.found = found;
            return;
        }
        let acl = self.acls.get(self.arena.get(id).acl);
        for watcher in found.iter().copied().map(WatcherId) {
            if events.may_read(watcher, acl) {
                events.notify(watcher, event, path, zxid);
            }
        }
        found.clear();
        found.shrink_to(1024);
        self.found = found;
    }

    /// Restores the watches of a reconnected client, and reports events that it has missed.
    ///
    /// `relative`: the newest zxid the client has seen. Missed events go to `missed` in order,
    /// without permission checks. False if the watcher exceeds its limit; see [`Tree::add_watch`].
    /// Source: `DataTree.setWatches`.
    pub fn set_watches<P: AsRef<str>>(
        &self,
        relative: Zxid,
        lists: &WatchLists<'_, P>,
        watcher: WatcherId,
        missed: &mut impl FnMut(EventType, &str),
    ) -> bool {
        let mut all = true;
        let mut add = |path: &str, mode| {
            all &= self.watches.add(self.target(path), path, watcher, mode);
        };
        for path in lists.data.iter().map(AsRef::as_ref) {
            match self.node(path) {
                None => missed(EventType::NODE_DELETED, path),
                Some(node) if node.persisted().mzxid > relative => {
                    missed(EventType::NODE_DATA_CHANGED, path);
                }
                Some(_) => add(path, DATA),
            }
        }
        for path in lists.exist.iter().map(AsRef::as_ref) {
            match self.node(path) {
                Some(_) => missed(EventType::NODE_CREATED, path),
                None => add(path, DATA),
            }
        }
        for path in lists.child.iter().map(AsRef::as_ref) {
            match self.node(path) {
                None => missed(EventType::NODE_DELETED, path),
                Some(node) if node.persisted().pzxid > relative => {
                    missed(EventType::NODE_CHILDREN_CHANGED, path);
                }
                Some(_) => add(path, CHILD),
            }
        }
        for path in lists.persistent.iter().map(AsRef::as_ref) {
            add(path, PERSISTENT);
        }
        for path in lists.recursive.iter().map(AsRef::as_ref) {
            add(path, RECURSIVE);
        }
        all
    }
}

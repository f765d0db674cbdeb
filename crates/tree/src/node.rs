//! Read access to a znode, through a shared reference to the tree.

use std::sync::Arc;

use zebu_proto::{Acl, Owner, Stat, StatPersisted};

use crate::arena::ROOT;
use crate::record::{Form, Record, fresh};
use crate::{Tree, digest};

/// A znode. Only [`Node::path`] allocates.
#[derive(Clone, Copy, Debug)]
pub struct Node<'t> {
    pub(crate) tree: &'t Tree,
    pub(crate) id: u32,
}

impl<'t> Node<'t> {
    fn record(&self) -> &'t Record {
        self.tree.arena.get(self.id)
    }

    /// The stat as clients see it.
    #[inline]
    pub fn stat(&self) -> Stat {
        let record = self.record();
        if record.form == Form::Fresh {
            let stat = fresh(record.czxid, record.ctime);
            return stat.visible(false, record.data_length(), record.children);
        }
        self.changed_stat()
    }

    #[inline(never)]
    fn changed_stat(&self) -> Stat {
        self.visible(&self.persisted())
    }

    /// The stat as clients see it, from the one that snapshots keep.
    pub(crate) fn visible(&self, stat: &StatPersisted) -> Stat {
        let record = self.record();
        let (length, children) = (record.data_length(), record.children);
        let owner = Owner::decode(stat.ephemeral_owner, self.tree.options.types);
        stat.visible(matches!(owner, Owner::Session(_)), length, children)
    }

    /// The stat as snapshots keep it.
    pub fn persisted(&self) -> StatPersisted {
        self.tree.arena.stat(self.id)
    }

    /// The data; null is not the same as empty.
    pub fn data(&self) -> Option<&'t [u8]> {
        self.tree.arena.data(self.id)
    }

    /// Size of the data in bytes; 0 for null.
    pub fn data_bytes(&self) -> usize {
        self.record().data_length()
    }

    /// The ACL.
    pub fn acl(&self) -> &'t [Acl] {
        self.acl_arc()
    }

    /// The ACL, shared among znodes.
    pub fn acl_arc(&self) -> &'t Arc<[Acl]> {
        self.tree.acls.get(self.record().acl)
    }

    /// The ACL's number in a snapshot.
    pub fn acl_id(&self) -> i64 {
        self.tree.acls.id(self.record().acl)
    }

    /// The kind of znode.
    pub fn owner(&self) -> Owner {
        Owner::decode(self.persisted().ephemeral_owner, self.tree.options.types)
    }

    /// The last part of the path; empty for the root.
    pub fn name(&self) -> &'t str {
        self.tree.arena.name(self.id)
    }

    /// The full path; `/` for the root.
    pub fn path(&self) -> String {
        self.tree.arena.path(self.id)
    }

    /// The parent; `None` for the root.
    pub fn parent(&self) -> Option<Self> {
        (self.id != ROOT).then(|| Self { tree: self.tree, id: self.record().parent })
    }

    /// Number of children.
    pub fn child_count(&self) -> u32 {
        self.record().children
    }

    /// Names of the children in the order of their creation.
    pub fn children(&self) -> impl Iterator<Item = &'t str> + use<'t> {
        let tree = self.tree;
        tree.arena.children(self.id).map(move |id| tree.arena.name(id))
    }

    /// Children that were created behind `after`, which is one of them, or all of them; in the
    /// order of their creation.
    pub fn children_behind(&self, after: Option<&Self>) -> impl Iterator<Item = Self> + use<'t> {
        let tree = self.tree;
        let all = after.is_none().then(|| tree.arena.children(self.id));
        let behind = after.map(|child| tree.arena.children_behind(self.id, child.id));
        let ids = all.into_iter().flatten().chain(behind.into_iter().flatten());
        ids.map(move |id| Self { tree, id })
    }

    /// The child with this name.
    pub fn child(&self, name: &str) -> Option<Self> {
        self.tree.arena.child(self.id, name).map(|id| Self { tree: self.tree, id })
    }

    /// Number of descendants; visits all of them, except at the root.
    pub fn descendants(&self) -> usize {
        if self.id == ROOT {
            return self.tree.arena.len() - 1;
        }
        self.tree.arena.subtree(self.id).count() - 1
    }

    /// The znode's contribution to the tree digest, even if it is excluded.
    pub fn digest(&self) -> u32 {
        if self.tree.options.digest {
            return self.record().digest;
        }
        digest::node_digest(&self.path(), self.data(), &self.persisted())
    }
}

//! Asserts in tests and in the simulator that all parts of a tree agree.
//!
//! This visits every znode, so a serving server never does it.

use std::collections::BTreeMap;

use zebu_proto::Owner;

use crate::acl_table::OPEN_ID;
use crate::arena::{NONE, ROOT};
use crate::tree::{DIGEST_HISTORY_MAX, Tree, characters};
use crate::{digest_counts, node_digest, quota};

/// Totals over all znodes.
#[derive(Debug, Default)]
struct Sums {
    znodes: usize,
    digest: u64,
    data_size: u64,
    ephemerals: usize,
    /// Total path length of ephemerals, by session.
    path_bytes: BTreeMap<zebu_proto::SessionId, usize>,
    containers: usize,
    ttls: usize,
    /// Number of znodes by ACL slot.
    acls: BTreeMap<u32, u32>,
}

impl Tree {
    /// Asserts that all derived data match the znodes.
    ///
    /// # Panics
    /// If they do not.
    pub fn check(&self) {
        let mut sums = Sums::default();
        for id in self.arena.subtree(ROOT) {
            self.check_znode(id, &mut sums);
        }
        assert_eq!(sums.znodes, self.arena.len(), "a znode that cannot be reached");
        assert_eq!(sums.data_size, self.data_size, "bytes of all paths and data");
        if self.options.digest {
            assert_eq!(sums.digest, self.digest, "the digest is the sum of the znodes'");
        }
        assert!(self.digest_history.len() <= DIGEST_HISTORY_MAX, "digests of too many zxids");
        self.check_owners(&sums);
        self.acls.check(&sums.acls);
        for owner in self.quotas.iter() {
            let limits = self.arena.lookup(&quota::limits_path(owner));
            assert!(limits.is_some(), "{owner} has a quota without limits");
        }
        self.arena.check();
        self.watches.check(|id| self.arena.is_live(id));
    }

    fn check_znode(&self, id: u32, sums: &mut Sums) {
        let path = self.arena.path(id);
        let (record, data) = (self.arena.get(id), self.arena.data(id));
        let stat = self.arena.stat(id);
        assert_eq!(self.arena.lookup(&path), Some(id), "{path} is another znode");
        self.check_children(id, &path);
        sums.znodes += 1;
        *sums.acls.entry(record.acl).or_default() += 1;
        let bytes = data.map_or(0, <[u8]>::len) as u64;
        // The root counts under both its names.
        sums.data_size += if id == ROOT { 1 + 2 * bytes } else { characters(&path) + bytes };
        if self.options.digest {
            assert_eq!(record.digest, node_digest(&path, data, &stat), "{path}");
            if digest_counts(&path) {
                sums.digest = sums.digest.wrapping_add(record.digest.into());
            }
        }
        let is_limits = quota::limits_of(&path);
        let is_noted = is_limits.is_none_or(|owner| self.quotas.deepest(owner) == Some(owner));
        assert!(is_noted, "{path} limits nothing");
        if id != ROOT {
            self.check_owner(id, &path, stat.ephemeral_owner, sums);
        }
    }

    fn check_owner(&self, id: u32, path: &str, owner: i64, sums: &mut Sums) {
        match Owner::decode(owner, self.options.types) {
            Owner::Persistent => {}
            Owner::Session(session) => {
                let owned = self.owners.ephemerals.get(&session);
                assert!(owned.is_some_and(|owned| owned.ids.contains(&id)), "{path} is nobody's");
                *sums.path_bytes.entry(session).or_default() += path.len();
                sums.ephemerals += 1;
            }
            Owner::Container => {
                assert!(self.owners.containers.contains(&id), "{path} is never cleaned up");
                sums.containers += 1;
            }
            Owner::Ttl(_) => {
                assert!(self.owners.ttls.contains(&id), "{path} lives for ever");
                sums.ttls += 1;
            }
        }
    }

    fn check_owners(&self, sums: &Sums) {
        let owners = &self.owners;
        assert_eq!(owners.ephemerals_count, sums.ephemerals, "ephemerals of all sessions");
        assert_eq!(owners.containers.len(), sums.containers, "a container that is gone");
        assert_eq!(owners.ttls.len(), sums.ttls, "a TTL znode that is gone");
        assert_eq!(owners.ephemerals.len(), sums.path_bytes.len(), "a session owns nothing");
        for (session, owned) in &owners.ephemerals {
            assert_eq!(Some(&owned.path_bytes), sums.path_bytes.get(session), "paths of {session}");
        }
    }

    /// Asserts that the ring of children contains each child once, in both directions.
    fn check_children(&self, id: u32, path: &str) {
        let record = self.arena.get(id);
        let (mut older, mut count) = (NONE, 0);
        for child in self.arena.children(id) {
            let it = self.arena.get(child);
            assert_eq!(it.parent, id, "a child of {path} has another parent");
            assert_eq!(it.older, older, "a child of {path} has another sibling");
            older = child;
            count += 1;
            assert!(count <= record.children, "the children of {path} go round");
        }
        assert_eq!(older, record.newest_child, "the newest child of {path}");
        assert_eq!(count, record.children, "how many children {path} has");
    }
}

const _: () = assert!(OPEN_ID < 0, "no list of a transaction has the open one's number");

#[cfg(test)]
mod tests {
    use zebu_proto::StatPersisted;

    use super::*;
    use crate::Options;

    fn tree() -> Tree {
        let mut tree = Tree::new(Options::default());
        tree.acls.retain(crate::acl_table::OPEN);
        tree.insert(ROOT, "/a", "a", Some(b"1"), 0, &StatPersisted::default());
        tree
    }

    #[test]
    fn a_tree_agrees_with_itself() {
        tree().check();
    }

    #[test]
    #[should_panic(expected = "bytes of all paths and data")]
    fn bytes_that_are_not_there_are_found() {
        let mut tree = tree();
        tree.data_size += 1;
        tree.check();
    }

    #[test]
    #[should_panic(expected = "/a is nobody's")]
    fn an_ephemeral_of_nobody_is_found() {
        let mut tree = tree();
        let id = tree.arena.lookup("/a").unwrap();
        tree.change_stat(id, "/a", |stat| stat.ephemeral_owner = 7);
        tree.check();
    }

    #[test]
    #[should_panic(expected = "znodes with the list")]
    fn a_list_that_is_counted_twice_is_found() {
        let mut tree = tree();
        tree.acls.retain(crate::acl_table::OPEN);
        tree.check();
    }
}

//! The znodes that each session will own when everything in flight is applied: the paths in flight,
//! and the size of a list of all its paths.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use zebu_proto::{Owner, SessionId, Zxid};
use zebu_tree::Tree;

/// Bytes of a path in an encoded list.
pub(crate) fn listed_bytes(path: &str) -> usize {
    LENGTH_BYTES + path.len()
}

/// The length in front of a string.
const LENGTH_BYTES: usize = 4;

/// Maximum number of sums kept for owners without changes in flight.
const SUMS_KEPT: usize = 1024;

/// Keyed by `ephemeralOwner`; 0 stands for no owner.
#[derive(Debug, Default)]
pub(crate) struct Owned {
    /// Paths in flight by future owner, so that closing one session does not visit the changes of
    /// all others.
    paths: BTreeMap<i64, BTreeSet<Arc<str>>>,
    /// Size of a list of all paths, applied and in flight, of each owner with changes in flight. A
    /// sum whose last change is applied is outdated and not used.
    sums: BTreeMap<i64, Sum>,
}

#[derive(Debug)]
struct Sum {
    bytes: usize,
    /// The transaction of the owner's last change.
    last: Zxid,
}

impl Owned {
    /// Notes that the znode in flight at `path` belongs to `after` rather than to `before`.
    pub(crate) fn change(&mut self, path: &Arc<str>, before: i64, after: i64) {
        if before == after {
            return;
        }
        let mut was_there = false;
        if let Some(paths) = self.paths.get_mut(&before) {
            was_there = paths.remove(path);
            if paths.is_empty() {
                self.paths.remove(&before);
            }
        }
        assert_eq!(was_there, before != 0, "{path} was not going to be {before:#x}'s");
        if after != 0 {
            let is_new = self.paths.entry(after).or_default().insert(path.clone());
            assert!(is_new, "{path} was going to be {after:#x}'s already");
        }
    }

    /// Whether no change in flight has an owner.
    pub(crate) fn is_empty(&self) -> bool {
        self.paths.is_empty()
    }

    /// Paths in flight whose znodes the session will own.
    pub(crate) fn paths(&self, owner: i64) -> impl Iterator<Item = &str> {
        self.paths.get(&owner).into_iter().flatten().map(|path| &**path)
    }

    /// Notes that transaction `zxid` takes the znode at `path` from `before` and gives it to
    /// `after`.
    pub(crate) fn pass(&mut self, tree: &Tree, zxid: Zxid, path: &str, before: i64, after: i64) {
        if before == after {
            return;
        }
        if self.sums.len() > SUMS_KEPT {
            let applied = tree.last_zxid();
            self.sums.retain(|_, sum| sum.last > applied);
        }
        let bytes = listed_bytes(path);
        // Special kinds of znodes are encoded as owners too. Nobody needs their sums.
        let types = tree.options().types;
        let is_session = |owner| matches!(Owner::decode(owner, types), Owner::Session(_));
        if is_session(before) {
            let sum = self.sum(tree, zxid, before);
            sum.bytes = sum.bytes.saturating_sub(bytes);
        }
        if is_session(after) {
            self.sum(tree, zxid, after).bytes += bytes;
        }
    }

    /// Undoes [`Owned::pass`].
    pub(crate) fn take_back(&mut self, path: &str, before: i64, after: i64) {
        if before == after {
            return;
        }
        let bytes = listed_bytes(path);
        if let Some(sum) = self.sums.get_mut(&before) {
            sum.bytes += bytes;
        }
        if let Some(sum) = self.sums.get_mut(&after) {
            sum.bytes = sum.bytes.saturating_sub(bytes);
        }
    }

    fn sum(&mut self, tree: &Tree, zxid: Zxid, owner: i64) -> &mut Sum {
        let applied = tree.last_zxid();
        let sum = self.sums.entry(owner).or_insert(Sum { bytes: 0, last: Zxid(i64::MIN) });
        if sum.last <= applied {
            sum.bytes = applied_bytes(tree, owner);
        }
        assert!(sum.last <= zxid, "{zxid} after {}", sum.last);
        sum.last = zxid;
        sum
    }

    /// Size of an encoded list of all the owner's paths.
    pub(crate) fn bytes(&self, tree: &Tree, owner: i64) -> usize {
        match self.sums.get(&owner) {
            Some(sum) if sum.last > tree.last_zxid() => sum.bytes,
            _ => applied_bytes(tree, owner),
        }
    }
}

fn applied_bytes(tree: &Tree, owner: i64) -> usize {
    let session = SessionId(owner);
    LENGTH_BYTES * tree.ephemeral_count(session) + tree.ephemeral_path_bytes(session)
}

//! The difference between a replaced tree and the tree that replaces it, znode by znode.
//!
//! The new tree has transactions that the old one never had, and it continues to change. So a
//! difference counts only if no transaction after the old tree's last one can have caused it. Stats
//! show that, except for ACLs. An ACL counts if both trees have changed it equally often.

use zebu_proto::{StatPersisted, Zxid};
use zebu_tree::{Node, Tree, Walk, digest_counts};

use crate::Step;

/// A znode that differs between two trees.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Difference {
    /// The znode.
    pub path: String,
    /// The difference: the state in the old tree, and the state in the new one.
    pub what: String,
}

/// A comparison in progress: first through the old tree, then through the new one.
#[derive(Debug)]
pub struct Differing {
    old: Tree,
    walk: Walk,
    is_over_old: bool,
    found: Vec<Difference>,
    found_max: usize,
    /// The number of differences, including those beyond `found_max`.
    count: u64,
}

impl Differing {
    /// Begins a comparison that describes at most this number of differences.
    pub fn new(old: Tree, found_max: usize) -> Self {
        let walk = Walk::new(&old);
        Self { old, walk, is_over_old: true, found: Vec::new(), found_max, count: 0 }
    }

    /// Compares this number of znodes.
    pub fn step(&mut self, new: &Tree, znodes: usize) -> Step {
        let Self { old, walk, found, found_max, count, .. } = self;
        let mut add = |path: &str, what: String| {
            *count += 1;
            if found.len() < *found_max {
                found.push(Difference { path: path.to_owned(), what });
            }
        };
        if self.is_over_old {
            let done = walk.step(old, znodes, &mut |path, data, _, stat| {
                let path = shown(path);
                if digest_counts(path)
                    && let Some(what) = compare(old, new, path, data, stat)
                {
                    add(path, what);
                }
            });
            if done {
                self.is_over_old = false;
                self.walk = Walk::new(new);
            }
            return Step::More;
        }
        if !walk.is_of(new) {
            return Step::Replaced;
        }
        let last = old.last_zxid();
        let done = walk.step(new, znodes, &mut |path, _, _, stat| {
            let path = shown(path);
            if digest_counts(path) && stat.czxid <= last && old.node(path).is_none() {
                add(
                    path,
                    format!("it was missing here, and the leader has it since {}", stat.czxid),
                );
            }
        });
        if done { Step::Done } else { Step::More }
    }

    /// The old tree's last transaction.
    pub fn last_zxid(&self) -> Zxid {
        self.old.last_zxid()
    }

    /// The described differences, and the number of all.
    pub fn found(self) -> (Vec<Difference>, u64) {
        (self.found, self.count)
    }
}

fn shown(path: &str) -> &str {
    if path.is_empty() { "/" } else { path }
}

/// The difference of a znode of the old tree from the new one.
fn compare(
    old: &Tree,
    new: &Tree,
    path: &str,
    data: Option<&[u8]>,
    stat: &StatPersisted,
) -> Option<String> {
    let last = old.last_zxid();
    let Some(node) = new.node(path) else {
        let is_explained = ancestor(new, path).is_some_and(|node| node.persisted().pzxid > last);
        return (!is_explained)
            .then(|| format!("it was here since {}, and the leader does not have it", stat.czxid));
    };
    let now = node.persisted();
    if now.czxid > last {
        return None;
    }
    let mut what = Vec::new();
    let mut field = |name: &str, here: String, there: String| {
        if here != there {
            what.push(format!("{name} {here} here, {there} in the leader's tree"));
        }
    };
    field("czxid", stat.czxid.to_string(), now.czxid.to_string());
    field("ctime", stat.ctime.to_string(), now.ctime.to_string());
    let owner = |stat: &StatPersisted| format!("{:#x}", stat.ephemeral_owner);
    field("ephemeralOwner", owner(stat), owner(&now));
    if now.mzxid <= last {
        field("mzxid", stat.mzxid.to_string(), now.mzxid.to_string());
        field("mtime", stat.mtime.to_string(), now.mtime.to_string());
        field("dataVersion", stat.version.to_string(), now.version.to_string());
        if data != node.data() {
            let bytes = |data: Option<&[u8]>| match data {
                Some(data) => {
                    format!("of {} bytes (CRC-32 {:08x})", data.len(), crc32fast::hash(data))
                }
                None => "null".to_owned(),
            };
            field("data", bytes(data), bytes(node.data()));
        }
    }
    if now.pzxid <= last {
        field("pzxid", stat.pzxid.to_string(), now.pzxid.to_string());
        field("cversion", stat.cversion.to_string(), now.cversion.to_string());
    }
    if stat.aversion > now.aversion {
        field("aclVersion", stat.aversion.to_string(), now.aversion.to_string());
    } else if stat.aversion == now.aversion
        && let Some(before) = old.node(path)
    {
        field("ACL", format!("{:?}", before.acl()), format!("{:?}", node.acl()));
    }
    (!what.is_empty()).then(|| what.join("; "))
}

/// The nearest existing ancestor.
fn ancestor<'t>(tree: &'t Tree, path: &str) -> Option<Node<'t>> {
    let mut path = path;
    loop {
        let end = path.rfind('/')?;
        path = if end == 0 { "/" } else { &path[..end] };
        if let Some(node) = tree.node(path) {
            return Some(node);
        }
        if path == "/" {
            return None;
        }
    }
}

#[cfg(test)]
mod tests {
    use zebu_proto::Acl;
    use zebu_tree::{Loader, Options};

    use super::*;

    fn tree(last: i64, znodes: &[(&str, &[u8], i64, i64)]) -> Tree {
        let mut loader = Loader::new(Options::default());
        loader.acl(1, Acl::open());
        for (path, data, mzxid, pzxid) in znodes {
            let stat = StatPersisted {
                czxid: Zxid(1),
                mzxid: Zxid(*mzxid),
                pzxid: Zxid(*pzxid),
                ..StatPersisted::default()
            };
            loader.node(path, Some(data), 1, &stat).unwrap();
        }
        let mut tree = loader.finish().unwrap();
        tree.set_last_zxid(Zxid(last));
        tree
    }

    fn found(old: Tree, new: &Tree, most: usize) -> (Vec<(String, String)>, u64) {
        let mut differing = Differing::new(old, most);
        while differing.step(new, 1) == Step::More {}
        let (found, count) = differing.found();
        (found.into_iter().map(|it| (it.path, it.what)).collect(), count)
    }

    #[test]
    fn what_no_later_transaction_explains_is_found() {
        let old = || {
            tree(
                5,
                &[
                    ("", b"", 0, 5),
                    ("/data", b"wrong", 3, 3),
                    ("/extra", b"", 2, 2),
                    ("/same", b"s", 2, 2),
                ],
            )
        };
        let new = tree(
            9,
            &[
                ("", b"", 0, 5),
                ("/data", b"right", 3, 3),
                ("/more", b"", 2, 2),
                ("/same", b"s", 2, 2),
            ],
        );
        let (mut all, count) = found(old(), &new, 10);
        all.sort();
        let paths: Vec<_> = all.iter().map(|(path, _)| path.as_str()).collect();
        assert_eq!((paths, count), (vec!["/data", "/extra", "/more"], 3));
        assert!(all[0].1.starts_with("data of 5 bytes (CRC-32 "), "{}", all[0].1);
        assert!(
            all[1].1.contains("the leader does not have it") && all[2].1.contains("missing here")
        );
        // Only the wanted number is described, and all are counted.
        assert_eq!((found(old(), &new, 1).0.len(), found(old(), &new, 1).1), (1, 3));
    }

    #[test]
    fn what_later_transactions_have_done_is_no_difference() {
        let old = tree(
            5,
            &[
                ("", b"", 0, 5),
                ("/set", b"a", 3, 3),
                ("/gone", b"", 2, 2),
                ("/gone/too", b"", 2, 2),
            ],
        );
        let new = tree(9, &[("", b"", 0, 8), ("/set", b"b", 7, 3)]);
        assert_eq!(found(old, &new, 10), (vec![], 0));
    }
}

//! The changes that make a subtree of a live ensemble equal to that of a backup. They are computed
//! from both subtrees, without a connection.
//!
//! Ephemerals belong to sessions: ephemerals in the backup are left out, and existing ones stay.

use std::collections::BTreeMap;

use zebu_proto::path::reserved;
use zebu_proto::{Acl, Owner, Version};
use zebu_tree::Tree;

use crate::error::{BackupError, Result};

/// The lifetime of a znode.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Until it is deleted.
    Persistent,
    /// Until its last child is deleted.
    Container,
    /// The TTL in milliseconds since the last change.
    Ttl(i64),
    /// Until its session ends.
    Ephemeral,
}

impl From<Owner> for Kind {
    fn from(owner: Owner) -> Self {
        match owner {
            Owner::Persistent => Self::Persistent,
            Owner::Session(_) => Self::Ephemeral,
            Owner::Container => Self::Container,
            Owner::Ttl(ttl_ms) => Self::Ttl(ttl_ms),
        }
    }
}

impl std::fmt::Display for Kind {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Persistent => write!(f, "a persistent znode"),
            Self::Container => write!(f, "a container"),
            Self::Ttl(ttl_ms) => write!(f, "a znode with a TTL of {ttl_ms} ms"),
            Self::Ephemeral => write!(f, "an ephemeral"),
        }
    }
}

/// The restorable content of a znode.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Content {
    /// Its lifetime.
    pub kind: Kind,
    /// Its data.
    pub data: Vec<u8>,
    /// Its ACL.
    pub acl: Vec<Acl>,
}

/// A znode of the live ensemble.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Live {
    /// Its content. Servers do not show clients which znodes are containers or have a TTL, so those
    /// count as persistent.
    pub content: Content,
    /// The version of its data.
    pub version: Version,
    /// The version of its ACL.
    pub acl_version: Version,
}

/// A change of one znode.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change {
    /// Creates a missing znode.
    Create(Content),
    /// Sets different data.
    SetData(Vec<u8>, Version),
    /// Deletes a znode that the backup does not contain.
    Delete(Version),
    /// Sets a different ACL.
    SetAcl(Vec<Acl>, Version),
}

impl Change {
    /// Whether the change destroys existing data.
    pub fn overwrites(&self) -> bool {
        !matches!(self, Self::Create(_))
    }
}

impl std::fmt::Display for Change {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Create(content) => {
                write!(f, "create {}, {} bytes", content.kind, content.data.len())
            }
            Self::SetData(data, version) => {
                write!(f, "set the data, {} bytes, over version {}", data.len(), version.0)
            }
            Self::Delete(version) => write!(f, "delete version {}", version.0),
            Self::SetAcl(acl, version) => {
                write!(f, "set the ACL, {} entries, over version {}", acl.len(), version.0)
            }
        }
    }
}

/// The changes of a restore.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Plan {
    /// The changes in an order in which they are possible: parents are created before their
    /// children and deleted after them. ACLs come last, because a restored ACL may forbid other
    /// changes.
    pub changes: Vec<(String, Change)>,
    /// The number of unchanged znodes.
    pub equal: usize,
    /// The ephemerals of the backup, which are not restored.
    pub ephemerals: Vec<String>,
    /// The ephemerals of the live ensemble, which stay.
    pub held: Vec<String>,
    /// Differences that remain, with the reasons.
    pub kept: Vec<(String, String)>,
}

impl Plan {
    /// The number of changes that destroy existing data.
    pub fn overwriting(&self) -> usize {
        self.changes.iter().filter(|(_, change)| change.overwrites()).count()
    }
}

/// Whether a path is the root of a subtree or below it.
fn is_within(root: &str, path: &str) -> bool {
    let root = root.trim_end_matches('/');
    path.strip_prefix(root).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

/// Whether a path belongs to the servers.
pub(super) fn is_reserved(path: &str) -> bool {
    is_within(reserved::ZOOKEEPER, path)
}

/// The znodes of a subtree, by path.
///
/// # Errors
/// The subtree belongs to the servers, does not exist, or is an ephemeral.
pub fn of_tree(tree: &Tree, root: &str) -> Result<BTreeMap<String, Content>> {
    let wrong = |what: &str| BackupError::Usage(format!("{root}: {what}"));
    zebu_proto::path::validate(root).map_err(|error| wrong(&error.to_string()))?;
    if is_reserved(root) {
        return Err(wrong("it belongs to the servers, which write it themselves"));
    }
    let node = tree.node(root).ok_or_else(|| wrong("the tree of this moment does not have it"))?;
    if Kind::from(node.owner()) == Kind::Ephemeral {
        return Err(wrong("it was an ephemeral, which ends with its session"));
    }
    let mut found = BTreeMap::new();
    let mut todo = vec![(root.to_owned(), node)];
    while let Some((path, node)) = todo.pop() {
        let (kind, data) = (Kind::from(node.owner()), node.data().unwrap_or_default().to_vec());
        let start = path.trim_end_matches('/');
        for child in node.children_behind(None) {
            let path = format!("{start}/{}", child.name());
            if !is_reserved(&path) {
                todo.push((path, child));
            }
        }
        found.insert(path, Content { kind, data, acl: node.acl().to_vec() });
    }
    Ok(found)
}

/// The changes that turn the live znodes into those of the backup. Both are of the same subtree. An
/// existing znode keeps its kind.
pub fn plan(wanted: &BTreeMap<String, Content>, live: &BTreeMap<String, Live>) -> Plan {
    let mut plan = Plan::default();
    let (mut creates, mut sets, mut acls, mut deletes) = (vec![], vec![], vec![], vec![]);
    let is_ephemeral =
        |path: &str| live.get(path).is_some_and(|found| found.content.kind == Kind::Ephemeral);
    for (path, content) in wanted {
        if content.kind == Kind::Ephemeral {
            plan.ephemerals.push(path.clone());
            continue;
        }
        let Some(found) = live.get(path) else {
            match ancestors(path).find(|above| is_ephemeral(above)) {
                Some(above) => {
                    plan.kept.push((path.clone(), format!("{above} is an ephemeral now")));
                }
                None => creates.push((path.clone(), Change::Create(content.clone()))),
            }
            continue;
        };
        if found.content.kind == Kind::Ephemeral {
            let why = format!("it was {}, and is an ephemeral now", content.kind);
            plan.kept.push((path.clone(), why));
            continue;
        }
        let (other_data, other_acl) =
            (found.content.data != content.data, found.content.acl != content.acl);
        if other_data {
            let change = Change::SetData(content.data.clone(), found.version);
            sets.push((path.clone(), change));
        }
        if other_acl {
            let change = Change::SetAcl(content.acl.clone(), found.acl_version);
            acls.push((path.clone(), change));
        }
        plan.equal += usize::from(!other_data && !other_acl);
    }
    let holds: Vec<&String> = live.keys().filter(|path| is_ephemeral(path)).collect();
    // Children come before their parents.
    for (path, found) in live.iter().rev().filter(|(path, _)| !is_wanted(wanted, path)) {
        if found.content.kind == Kind::Ephemeral {
            plan.held.push(path.clone());
        } else if let Some(hold) = holds.iter().find(|hold| is_within(path, hold)) {
            plan.kept.push((path.clone(), format!("{hold} below it is an ephemeral")));
        } else {
            deletes.push((path.clone(), Change::Delete(found.version)));
        }
    }
    plan.changes = [creates, sets, deletes, acls].concat();
    plan
}

/// Whether the backup has a znode other than an ephemeral at this path.
fn is_wanted(wanted: &BTreeMap<String, Content>, path: &str) -> bool {
    wanted.get(path).is_some_and(|content| content.kind != Kind::Ephemeral)
}

/// The ancestors of a path, the nearest first.
fn ancestors(path: &str) -> impl Iterator<Item = &str> {
    std::iter::successors(parent(path), |above| parent(above))
}

/// The parent of a path; `None` for the root.
pub(super) fn parent(path: &str) -> Option<&str> {
    match path.rsplit_once('/')? {
        ("", "") => None,
        ("", _) => Some("/"),
        (above, _) => Some(above),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn content(data: &str) -> Content {
        Content { kind: Kind::Persistent, data: data.into(), acl: Acl::open() }
    }

    fn live(content: Content, version: i32) -> Live {
        Live { content, version: Version(version), acl_version: Version(0) }
    }

    fn lines(plan: &Plan) -> Vec<String> {
        plan.changes.iter().map(|(path, change)| format!("{path}: {change}")).collect()
    }

    /// Makes the changes, as a server would.
    fn carried_out(live: &mut BTreeMap<String, Live>, plan: &Plan) {
        for (path, change) in &plan.changes {
            let is_there = |path: &str| live.contains_key(path);
            match change.clone() {
                Change::Create(content) => {
                    assert!(!is_there(path), "{path} exists");
                    assert!(path == "/a" || parent(path).is_some_and(is_there), "{path}");
                    live.insert(path.clone(), self::live(content, 0));
                }
                Change::SetData(data, version) => {
                    let found = live.get_mut(path).unwrap();
                    assert_eq!(found.version, version);
                    found.content.data = data;
                    found.version = Version(version.0 + 1);
                }
                Change::Delete(version) => {
                    let found = live.remove(path).unwrap();
                    assert_eq!(found.version, version);
                    assert!(
                        !live.keys().any(|other| is_within(path, other)),
                        "{path} has children"
                    );
                }
                Change::SetAcl(acl, version) => {
                    let found = live.get_mut(path).unwrap();
                    assert_eq!(found.acl_version, version);
                    found.content.acl = acl;
                    found.acl_version = Version(version.0 + 1);
                }
            }
        }
    }

    #[test]
    fn what_is_missing_is_created_parents_first_and_once() {
        let wanted: BTreeMap<String, Content> =
            ["/a", "/a/b", "/a/b/c", "/a-b"].map(|path| (path.to_owned(), content(path))).into();
        let mut there = BTreeMap::from([("/a-b".to_owned(), live(content("/a-b"), 7))]);
        let first = plan(&wanted, &there);
        assert_eq!((first.changes.len(), first.equal, first.overwriting()), (3, 1, 0));
        // The restore was interrupted after the first change, and runs again.
        let begun = Plan { changes: first.changes[..1].to_vec(), ..first };
        carried_out(&mut there, &begun);
        let second = plan(&wanted, &there);
        assert_eq!((second.changes.len(), second.equal), (2, 2));
        carried_out(&mut there, &second);
        let third = plan(&wanted, &there);
        assert_eq!((third.changes, third.equal, third.kept), (vec![], 4, vec![]));
    }

    #[test]
    fn what_differs_is_overwritten_by_version_and_what_is_new_is_deleted_children_first() {
        let other = Acl { perms: zebu_proto::Perms::READ, ..Acl::open().remove(0) };
        let guarded = Content { acl: vec![other], ..content("same") };
        let wanted =
            BTreeMap::from([("/a".to_owned(), content("old")), ("/a/acl".to_owned(), guarded)]);
        let mut there = BTreeMap::from([
            ("/a".to_owned(), live(content("new"), 5)),
            ("/a/acl".to_owned(), live(content("same"), 0)),
            ("/a/new".to_owned(), live(content(""), 2)),
            ("/a/new/child".to_owned(), live(content(""), 0)),
        ]);
        let found = plan(&wanted, &there);
        assert_eq!(
            lines(&found),
            [
                "/a: set the data, 3 bytes, over version 5",
                "/a/new/child: delete version 0",
                "/a/new: delete version 2",
                "/a/acl: set the ACL, 1 entries, over version 0",
            ]
        );
        assert_eq!(found.overwriting(), 4);
        carried_out(&mut there, &found);
        assert_eq!(plan(&wanted, &there).changes, vec![]);
    }

    #[test]
    fn ephemerals_are_left_out_and_those_of_now_stay_with_what_is_above_them() {
        let ephemeral = Content { kind: Kind::Ephemeral, ..content("") };
        let wanted = BTreeMap::from([
            ("/a".to_owned(), content("")),
            ("/a/gone".to_owned(), ephemeral.clone()),
            ("/a/taken".to_owned(), content("")),
        ]);
        let there = BTreeMap::from([
            ("/a".to_owned(), live(content(""), 0)),
            ("/a/new".to_owned(), live(content(""), 0)),
            ("/a/new/held".to_owned(), live(ephemeral.clone(), 0)),
            ("/a/taken".to_owned(), live(ephemeral, 0)),
        ]);
        let found = plan(&wanted, &there);
        assert_eq!((lines(&found), &found.ephemerals), (vec![], &vec!["/a/gone".to_owned()]));
        assert_eq!(found.held, ["/a/new/held"]);
        let kept: Vec<String> =
            found.kept.iter().map(|(path, why)| format!("{path}: {why}")).collect();
        assert_eq!(
            kept,
            [
                "/a/taken: it was a persistent znode, and is an ephemeral now",
                "/a/new: /a/new/held below it is an ephemeral",
            ]
        );
    }
}

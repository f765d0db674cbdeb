//! Lists the children of a znode in several parts.

mod common;

use common::*;
use zebu_proto::txn::Txn;
use zebu_proto::{OpCode, Zxid};
use zebu_tree::{Change, Listed, Listing, Silent, Tree};

/// A tree with a znode that has ten children; the next transaction is the twelfth.
fn ten() -> Tree {
    let mut tree = tree();
    ok(&mut tree, &create(1, "/top", b""));
    for number in 0..10 {
        ok(&mut tree, &create(2 + number, &format!("/top/{number}"), b""));
    }
    tree
}

#[test]
fn a_list_in_parts_has_all_children_in_their_order() {
    let tree = ten();
    let node = tree.node("/top").unwrap();
    let expected: Vec<&str> = node.children().collect();
    assert_eq!(expected.len(), 10);
    for budget in [1, 3, 5, 9, 10, 11, 1_000] {
        let listing = Listing::of(&node);
        let mut listed = Names::default();
        while listing.step(&node, budget, |change| listed.change(change)) == Listed::More {}
        assert_eq!(listed.names(), expected, "{budget}");
    }
    let node = tree.node("/top/1").unwrap();
    assert_eq!(Listing::of(&node).step(&node, 1, |_| panic!("no child")), Listed::All);
}

/// The names that a list consists of, as its owner keeps them.
#[derive(Default)]
struct Names(Vec<(Zxid, String)>);

impl Names {
    fn change(&mut self, change: Change<'_>) {
        match change {
            Change::Add { czxid, name } => {
                let last = self.0.last().map_or(Zxid::ZERO, |(last, _)| *last);
                assert!(last <= czxid, "{name} is older than the name before it");
                self.0.push((czxid, name.to_owned()));
            }
            Change::Remove { czxid, name } => {
                let at = self.0.iter().position(|it| (it.0, &*it.1) == (czxid, name));
                self.0.remove(at.expect("it was listed"));
            }
        }
    }

    fn names(&self) -> Vec<&str> {
        self.0.iter().map(|(_, name)| &**name).collect()
    }
}

/// The next part of a list of the children of `/top`.
fn step(tree: &Tree, listing: &Listing, names: &mut Names, budget: usize) -> Listed {
    listing.step(&tree.node("/top").unwrap(), budget, |change| names.change(change))
}

#[test]
fn a_list_is_that_of_its_last_part_whatever_changes_meanwhile() {
    for seed in 1..=300 {
        let mut random = seed as u64;
        let mut below = |bound: u64| {
            random ^= random << 13;
            random ^= random >> 7;
            random ^= random << 17;
            random % bound
        };
        let (mut tree, mut zxid) = (ten(), 12);
        let listing = Listing::of(&tree.node("/top").unwrap());
        let mut names = Names::default();
        // Creations are no faster than the listing, or it would never end.
        while step(&tree, &listing, &mut names, 1 + below(3) as usize) != Listed::All {
            for _ in 0..below(3) {
                let all: Vec<String> =
                    tree.node("/top").unwrap().children().map(str::to_owned).collect();
                let any = |random: u64| all.get(random as usize).map(|name| format!("/top/{name}"));
                match (below(4), any(below(all.len().max(1) as u64))) {
                    // The name appears again, some at once and some later.
                    (0, Some(path)) => {
                        ok(&mut tree, &delete(zxid, &path));
                        ok(&mut tree, &create(zxid + 1, &path, b""));
                    }
                    (1 | 2, Some(path)) => ok(&mut tree, &delete(zxid, &path)),
                    (_, _) => {
                        let path = format!("/top/{}", below(20));
                        if tree.node(&path).is_none() {
                            ok(&mut tree, &create(zxid, &path, b""));
                        }
                    }
                }
                zxid += 2;
            }
        }
        let expected: Vec<&str> = tree.node("/top").unwrap().children().collect();
        assert_eq!(names.names(), expected, "seed {seed}");
    }
}

#[test]
fn children_of_one_transaction_are_told_apart() {
    for deleted in ["a", "b", "c", "d"] {
        let mut tree = ten();
        let paths = ["/top/a", "/top/b", "/top/c", "/top/d"];
        let creates = paths.map(|path| (OpCode::CREATE, Txn::Create(create_txn(path, b""))));
        let multi = record(12, OpCode::MULTI, Txn::Multi(creates.into()));
        tree.apply(&multi, &mut Silent);
        let listing = Listing::of(&tree.node("/top").unwrap());
        let mut names = Names::default();
        assert_eq!(step(&tree, &listing, &mut names, 12), Listed::More);
        ok(&mut tree, &delete(13, &format!("/top/{deleted}")));
        assert_eq!(step(&tree, &listing, &mut names, 12), Listed::All);
        let expected: Vec<&str> = tree.node("/top").unwrap().children().collect();
        assert_eq!(names.names(), expected, "{deleted}");
    }
}

#[test]
fn a_list_ends_with_its_tree_with_its_znode_and_with_very_many_deletions() {
    let lost = |tree: &Tree, listing: &Listing| {
        step(tree, listing, &mut Names::default(), 1) == Listed::Lost
    };
    // Another tree with the same znodes, such as a leader's snapshot, has them at other places.
    let listing = Listing::of(&ten().node("/top").unwrap());
    assert!(lost(&ten(), &listing));
    let mut tree = ten();
    let listing = Listing::of(&tree.node("/top").unwrap());
    for number in 0..10 {
        ok(&mut tree, &delete(12 + number, &format!("/top/{number}")));
    }
    ok(&mut tree, &delete(22, "/top"));
    ok(&mut tree, &create(23, "/top", b""));
    assert!(lost(&tree, &listing));
    for number in 0..1_100 {
        ok(&mut tree, &create(24 + number, &format!("/top/{number}"), b""));
    }
    let listing = Listing::of(&tree.node("/top").unwrap());
    assert_eq!(step(&tree, &listing, &mut Names::default(), 1_050), Listed::More);
    for number in 0..1_025 {
        ok(&mut tree, &delete(2_000 + number, &format!("/top/{number}")));
    }
    assert!(lost(&tree, &listing));
}

//! Lists the children of a znode in several parts.

mod common;

use common::*;
use zebu_tree::{Listed, Listing, Tree};

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
        let mut listed = Vec::new();
        while listing.step(&node, budget, |name| listed.push(name.to_owned())) == Listed::More {}
        assert_eq!(listed, expected, "{budget}");
    }
    let node = tree.node("/top/1").unwrap();
    assert_eq!(Listing::of(&node).step(&node, 1, |_| panic!("no child")), Listed::All);
}

#[test]
fn every_change_of_the_children_is_noticed_and_no_other() {
    let begun = |tree: &Tree| {
        let node = tree.node("/top").unwrap();
        let listing = Listing::of(&node);
        assert_eq!(listing.step(&node, 2, |_| {}), Listed::More);
        listing
    };
    let step =
        |tree: &Tree, listing: &Listing| listing.step(&tree.node("/top").unwrap(), 1, |_| {});
    let mut tree = ten();
    let listing = begun(&tree);
    ok(&mut tree, &create(12, "/other", b""));
    ok(&mut tree, &create(13, "/top/0/below", b""));
    assert_eq!(step(&tree, &listing), Listed::More);
    ok(&mut tree, &delete(14, "/top/9"));
    assert_eq!(step(&tree, &listing), Listed::Changed);
    let listing = begun(&tree);
    ok(&mut tree, &create(15, "/top/9", b""));
    assert_eq!(step(&tree, &listing), Listed::Changed);
    // Another tree with the same znodes, such as a leader's snapshot, has them at other places.
    let listing = begun(&ten());
    assert_eq!(step(&ten(), &listing), Listed::Changed);
}

//! Three members with the original's transactions, written by our store. Each has some damage.

use std::collections::BTreeMap;

use zebu_state::{Outline, Rebuild, Step};
use zebu_store::log::HEADER_BYTES;
use zebu_store::{Options, Store};
use zebu_testkit::fixtures::basic_bodies;
use zebu_tree::Tree;

use super::*;
use crate::restore::rebuild::tree_options;

/// A data directory of Zebu with these transactions, in logs of up to `roll` transactions.
fn member(place: &Path, name: &str, roll: usize) -> PathBuf {
    let dir = place.join(name);
    let options = Options { prealloc_bytes: 0, ..Options::new(&dir) };
    let mut store = Store::open(Arc::new(OsVfs), options).unwrap();
    store.recover(&mut Rebuild::new(tree_options())).unwrap();
    let (mut log, snapshots) = store.split();
    let tree = Tree::new(tree_options());
    let mut taking = Outline::of(&tree).begin(&snapshots).unwrap();
    assert_eq!(taking.step(&tree, 10, 1000), Step::Done);
    taking.finish(true, true).unwrap();
    for (number, (zxid, body)) in basic_bodies().into_iter().enumerate() {
        if number > 0 && number % roll == 0 {
            log.roll().unwrap();
        }
        log.append(zxid, &body);
        log.commit().unwrap();
    }
    log.roll().unwrap();
    dir.join(names::VERSION_DIR)
}

/// The logs of a directory without their preallocated rests.
fn content(dir: &Path) -> BTreeMap<String, Vec<u8>> {
    let mut found = BTreeMap::new();
    for entry in fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        if names::parse_log(&name_of(&path)).is_some() {
            let mut bytes = fs::read(&path).unwrap();
            bytes.truncate(bytes.iter().rposition(|byte| *byte != 0).unwrap() + 1);
            found.insert(name_of(&path), bytes);
        }
    }
    found
}

fn damage(file: &Path, at: usize, bytes: usize) {
    let mut content = fs::read(file).unwrap();
    content[at..at + bytes].fill(0xa5);
    fs::write(file, content).unwrap();
}

fn repair(dir: &Path, others: &[&PathBuf], into: &Path) -> Result<String> {
    let from = others.iter().map(|other| (*other).clone()).collect();
    let args = RepairArgs { dir: dir.to_owned(), from, into: into.to_owned() };
    let mut out = Vec::new();
    act(&args, &mut out).map(|_| String::from_utf8(out).unwrap())
}

#[test]
fn members_with_damage_at_different_places_repair_each_other() {
    let place = tempfile::tempdir().unwrap();
    // The members have rolled their logs at different transactions.
    let dirs = [("one", 30), ("two", 100), ("three", 17)]
        .map(|(name, roll)| member(place.path(), name, roll));
    let before = dirs.each_ref().map(|dir| content(dir));
    // At each member, a third of the transactions is damaged, in sectors.
    for (index, dir) in dirs.iter().enumerate() {
        for (name, bytes) in &before[index] {
            let third = bytes.len() / 3;
            let from = (HEADER_BYTES + 40 + index * third).min(bytes.len() - 20);
            damage(&dir.join(name), from, third.min(bytes.len() - from) / 4 + 1);
        }
    }
    for (index, dir) in dirs.iter().enumerate() {
        let others: Vec<&PathBuf> = dirs.iter().filter(|other| *other != dir).collect();
        let into = place.path().join(format!("repaired-{index}"));
        let said = repair(dir, &others, &into).unwrap();
        assert!(said.contains("transactions are from other sources"), "{said}");
        assert!(said.contains("whole up to transaction 0x48"), "{said}");
        assert_eq!(content(&into.join(names::VERSION_DIR)), before[index]);
        let mut store = Store::open(Arc::new(OsVfs), Options::new(&into)).unwrap();
        let mut rebuild = Rebuild::new(tree_options());
        assert_eq!(store.recover(&mut rebuild).unwrap().last_zxid, Zxid(0x48));
        // The digest of the last transaction, from the fixtures.
        assert_eq!(rebuild.finish().tree.digest(), 110_862_930_961);
    }
}

#[test]
fn a_log_that_is_gone_is_made_again_and_what_is_nowhere_is_named() {
    let place = tempfile::tempdir().unwrap();
    let (one, two) = (member(place.path(), "one", 30), member(place.path(), "two", 100));
    let before = content(&one);
    let (log, first) = before.iter().nth(1).unwrap();
    fs::remove_file(one.join(log)).unwrap();
    let into = place.path().join("repaired");
    repair(&one, &[&two], &into).unwrap();
    assert_eq!(content(&into.join(names::VERSION_DIR)), before);
    assert!(repair(&one, &[&two], &into).unwrap_err().to_string().contains("not empty"));
    // The same transactions are damaged at both members.
    let middle = first.len() / 2;
    let wanted = &first[middle..middle + 64];
    let theirs = fs::read(two.join("log.1")).unwrap();
    let at = theirs.windows(64).position(|part| part == wanted).unwrap();
    damage(&two.join("log.1"), at, 64);
    let failed = repair(&one, &[&two], &place.path().join("other")).unwrap_err().to_string();
    assert!(
        failed.contains(&format!("{log}: ")) && failed.contains("no source has an intact copy"),
        "{failed}"
    );
}

/// Adds a snapshot as of a transaction to a directory, and removes the files that a purge would
/// remove.
fn purged(dir: &Path, zxid: Zxid) -> PathBuf {
    let source = Directory::open(Arc::new(OsVfs), dir, None).unwrap();
    let built = rebuild::build(&source, Some(crate::dates::Point::Zxid(zxid)), false).unwrap();
    let place = tempfile::tempdir().unwrap();
    let written = crate::restore::write(&built.tree, place.path()).unwrap();
    let to = dir.join(name_of(&written.path));
    fs::copy(&written.path, &to).unwrap();
    fs::remove_file(dir.join("snapshot.0")).unwrap();
    fs::remove_file(dir.join("log.1")).unwrap();
    fs::remove_file(dir.join("durable.1")).unwrap();
    to
}

#[test]
fn a_damaged_snapshot_without_which_nothing_can_be_replayed_comes_from_another_member() {
    let place = tempfile::tempdir().unwrap();
    let [one, two] = ["one", "two"].map(|name| member(place.path(), name, 30));
    let (snapshot, _) = (purged(&one, Zxid(0x30)), purged(&two, Zxid(0x30)));
    damage(&snapshot, 200, 64);
    let into = place.path().join("repaired");
    let said = repair(&one, &[&two], &into).unwrap();
    assert!(said.contains("snapshot.30: left out: "), "{said}");
    assert!(said.contains("snapshot.30: from "), "{said}");
    let mut store = Store::open(Arc::new(OsVfs), Options::new(&into)).unwrap();
    let mut rebuild = Rebuild::new(tree_options());
    assert_eq!(store.recover(&mut rebuild).unwrap().last_zxid, Zxid(0x48));
    assert_eq!(rebuild.finish().tree.digest(), 110_862_930_961);
    // With that snapshot damaged everywhere, no files lead to the end.
    damage(&two.join("snapshot.30"), 200, 64);
    repair(&one, &[&two], &place.path().join("other")).unwrap_err();
}

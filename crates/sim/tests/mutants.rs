//! The list of faults that can be put into the code is whole.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

/// Those that only threads can reach: `engine/tests/threads.rs` looks for them.
const OF_THREADS: [&str; 2] = ["inbox sleeps on", "rest left to nobody"];

/// The names behind `start`, which opens a parenthesis.
fn names(text: &str, start: &str) -> BTreeSet<String> {
    let quoted = text.split(start).skip(1).filter_map(|rest| rest.trim_start().strip_prefix('"'));
    quoted.filter_map(|rest| Some(rest.split_once('"')?.0.to_owned())).collect()
}

fn in_sources(dir: &Path, into: &mut BTreeSet<String>) {
    for entry in fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            in_sources(&path, into);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            into.extend(names(&fs::read_to_string(&path).unwrap(), "mutant!("));
        }
    }
}

#[test]
fn every_fault_in_the_code_is_looked_for() {
    let own = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut found = BTreeSet::new();
    for name in ["engine", "replica", "state", "store", "tree", "zab", "session", "server"] {
        in_sources(&own.join("..").join(name).join("src"), &mut found);
    }
    let list = fs::read_to_string(own.join("src/mutants.rs")).unwrap();
    let (_, list) = list.split_once("MUTANTS").unwrap();
    let mut known: BTreeSet<String> = OF_THREADS.map(str::to_owned).into();
    for start in ["mutant(", "aimed(", "alone(", "trees(", "formed(", "tested("] {
        known.extend(names(list, start));
    }
    assert!(found.len() > 80, "they are found: {}", found.len());
    assert_eq!(found, known);
}

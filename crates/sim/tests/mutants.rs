//! The list of deliberate faults is complete.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

/// Faults that only threads can show: `engine/tests/threads.rs` looks for them.
const OF_THREADS: [&str; 2] = ["inbox sleeps on", "rest left to nobody"];

/// The names after `start`, which opens a parenthesis.
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

/// The marks in the second column of the list, beside PAI, for lost or foreign data.
const OF_DATA: [&str; 22] = [
    "S-8", "S-10", "F2", "F4", "F6", "F8", "F9", "F12", "F13", "F14", "B-02", "B-03", "B-08",
    "B-09", "B-13", "B-16", "B-18", "B-26", "B-27", "B-30", "P-4", "P-11",
];

/// The operators' table lists every fault that removes a protection of data once, and no other
/// name.
#[test]
fn the_table_of_protections_is_whole() {
    let own = Path::new(env!("CARGO_MANIFEST_DIR"));
    let list = fs::read_to_string(own.join("src/mutants.rs")).unwrap();
    let (_, list) = list.split_once("MUTANTS").unwrap();
    let quoted: Vec<&str> = list.split('"').skip(1).step_by(2).collect();
    let of_data: BTreeSet<&str> = (quoted.windows(2))
        .filter(|pair| {
            let first = pair[1].split(", ").next().unwrap();
            let names = |source: &str| first == source || first.starts_with("PAI-");
            OF_DATA.iter().any(|source| names(source))
        })
        .map(|pair| pair[0])
        .collect();
    let page = fs::read_to_string(own.join("../../docs/durability.md")).unwrap();
    let (_, table) = page.split_once("| mutants that remove it |").unwrap();
    let (table, _) = table.split_once("\n\n").unwrap();
    let mut named = BTreeSet::new();
    for row in table.lines().skip(2) {
        let cells: Vec<&str> = row.split('|').map(str::trim).collect();
        let found_by = cells[3];
        assert!(!found_by.is_empty() && !cells[1].is_empty(), "nothing finds it: {row}");
        for name in cells[2].split('`').skip(1).step_by(2) {
            assert!(quoted.contains(&name), "{name} is no mutant");
            assert!(named.insert(name), "{name} is there twice");
        }
    }
    let missing: Vec<_> = of_data.difference(&named).collect();
    assert!(missing.is_empty(), "protections without a row: {missing:?}");
}

/// The table of checks has each check once, and each check finds a deliberate fault that seeds can
/// show.
#[test]
fn every_check_finds_a_fault() {
    let own = Path::new(env!("CARGO_MANIFEST_DIR"));
    let list = fs::read_to_string(own.join("src/mutants.rs")).unwrap();
    let (_, list) = list.split_once("MUTANTS").unwrap();
    let mut simulated = BTreeSet::new();
    for start in [" mutant(", "aimed(", "alone(", "trees(", "formed("] {
        simulated.extend(names(list, start));
    }
    let page = fs::read_to_string(own.join("../../docs/simulation.md")).unwrap();
    let (_, table) = page.split_once("| mutants that it finds |").unwrap();
    let (table, _) = table.split_once("\n\n").unwrap();
    let mut checks = Vec::new();
    for row in table.lines().skip(2) {
        let cells: Vec<&str> = row.split('|').map(str::trim).collect();
        let mutants: Vec<&str> = cells[3].split('`').skip(1).step_by(2).collect();
        assert!(!mutants.is_empty() && !cells[2].is_empty(), "it finds nothing: {row}");
        for name in mutants {
            assert!(simulated.contains(name), "{name} is no mutant of the simulator");
        }
        checks.push(cells[1]);
    }
    assert_eq!(checks, zebu_sim::names::NAMES);
}

/// Each violation is reported under the name of a check.
#[test]
fn every_message_names_its_check() {
    let own = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut dirs = vec![own.join("src")];
    let (mut seen, mut unnamed) = (0, Vec::new());
    while let Some(dir) = dirs.pop() {
        for entry in fs::read_dir(dir).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                dirs.push(path);
                continue;
            }
            let text = fs::read_to_string(&path).unwrap();
            for start in ["found(format!(", "insist(format!("] {
                for rest in text.split(start).skip(1) {
                    let message = rest.trim_start().trim_start_matches('"');
                    let (name, _) = message.split_once(": ").unwrap_or_default();
                    let is_known = zebu_sim::names::NAMES.contains(&name);
                    // These pass on a message that has a name already.
                    let passes_on = message.contains("{what}\"") || message.starts_with("{found}");
                    seen += 1;
                    if !is_known && !passes_on {
                        unnamed.push(message.lines().next().unwrap_or_default().to_owned());
                    }
                }
            }
        }
    }
    assert!(seen > 10, "messages are found: {seen}");
    assert!(unnamed.is_empty(), "{unnamed:#?}");
}

//! Which checks find which deliberate faults.

use std::collections::{BTreeMap, BTreeSet};

use crate::mutants::{MUTANTS, Mutant};
use crate::names::{NAMES, name_of};
use crate::plan::Plan;
use crate::run::run;

/// After this number of failed runs, a mutant's further seeds are left out.
const FAILED_MAX: usize = 8;

/// The checks that find a mutant within some seeds, each with the first seed in which it does.
pub fn found_by(mutant: &Mutant, first: u64, seeds: u64) -> BTreeMap<&'static str, u64> {
    let mut found = BTreeMap::new();
    let mut failed = 0;
    zebu_proto::mutants::choose(mutant.name);
    for seed in first..first + seeds {
        let broken = if mutant.alone {
            crate::alone::run_caught(seed).broken
        } else {
            run(&Plan { goes_on: true, ..mutant.plan(seed) }).broken
        };
        for what in &broken {
            found.entry(name_of(what)).or_insert(seed);
        }
        failed += usize::from(!broken.is_empty());
        if failed == FAILED_MAX {
            break;
        }
    }
    zebu_proto::mutants::choose("");
    found
}

/// Prints which checks find the mutants, or one of them, and the reverse. Returns true if every
/// check finds one.
pub fn print_table(only: Option<&str>, first: u64, seeds: u64) -> bool {
    let mut by_check: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    let mutants = MUTANTS.iter().filter(|mutant| mutant.test.is_none());
    for mutant in mutants.filter(|mutant| only.is_none_or(|name| name == mutant.name)) {
        let found = found_by(mutant, first, seeds);
        let list: Vec<String> =
            found.iter().map(|(name, seed)| format!("{name} ({seed})")).collect();
        println!("{}: {}", mutant.name, list.join(", "));
        for name in found.into_keys() {
            by_check.entry(name).or_default().insert(mutant.name);
        }
    }
    println!();
    let mut idle = Vec::new();
    for name in NAMES {
        match by_check.get(name) {
            Some(mutants) => {
                let list: Vec<String> = mutants.iter().map(|name| format!("`{name}`")).collect();
                println!("| {name} | {} |", list.join(", "));
            }
            None => idle.push(name),
        }
    }
    println!("checks that find none: {}", idle.join(", "));
    idle.is_empty()
}

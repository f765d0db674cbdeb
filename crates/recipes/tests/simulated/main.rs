//! Every recipe in the simulator: the shipped recipes over the shipped client, with shipped
//! servers. The seed decides partitions, pauses, crashes and ends of sessions.
//!
//! `SEEDS` sets the number of seeds for each recipe, `FIRST` the first of them, `RECIPE` the only
//! recipe to run; `TRACE` prints the events.

mod agreements;
mod announced;
mod barriers;
mod caches;
mod counters;
mod house;
mod kept;
mod ledger;
mod locks;
mod queues;
mod told;
mod typed;
mod wires;

use std::panic::{AssertUnwindSafe, catch_unwind};

use zebu_sim::Outcome;

use crate::agreements::Agreements;
use crate::announced::Announcing;
use crate::caches::Caches;
use crate::counters::Counters;
use crate::house::run as live;
use crate::kept::Keeping;
use crate::locks::Locks;
use crate::queues::Queues;
use crate::told::Told;
use crate::typed::Accounts;

/// A recipe, or several related ones.
struct Trial {
    name: &'static str,
    run: fn(u64) -> Outcome,
}

const TRIALS: &[Trial] = &[
    Trial { name: "lock", run: |seed| live(seed, locks::GUESTS, Locks::new(locks::Recipe::Lock)) },
    Trial {
        name: "mutex",
        run: |seed| live(seed, locks::GUESTS, Locks::new(locks::Recipe::Mutex)),
    },
    Trial {
        name: "read-write lock",
        run: |seed| live(seed, locks::GUESTS, Locks::new(locks::Recipe::ReadWrite)),
    },
    Trial {
        name: "semaphore",
        run: |seed| live(seed, locks::GUESTS, Locks::new(locks::Recipe::Semaphore)),
    },
    Trial {
        name: "election",
        run: |seed| live(seed, locks::GUESTS, Locks::new(locks::Recipe::Election)),
    },
    Trial {
        name: "leader selector",
        run: |seed| live(seed, locks::GUESTS, Locks::new(locks::Recipe::Selector)),
    },
    Trial {
        name: "leader latch",
        run: |seed| live(seed, locks::GUESTS, Locks::new(locks::Recipe::Latch)),
    },
    Trial {
        name: "multi-lock",
        run: |seed| live(seed, locks::GUESTS, Locks::new(locks::Recipe::Multi)),
    },
    Trial {
        name: "queue",
        run: |seed| live(seed, queues::GUESTS, Queues::new(queues::Recipe::Own)),
    },
    Trial {
        name: "sharded queue",
        run: |seed| live(seed, queues::GUESTS, Queues::new(queues::Recipe::Sharded)),
    },
    Trial {
        name: "plain queue",
        run: |seed| live(seed, queues::GUESTS, Queues::new(queues::Recipe::Plain)),
    },
    Trial {
        name: "priority queue",
        run: |seed| live(seed, queues::GUESTS, Queues::new(queues::Recipe::Priority)),
    },
    Trial {
        name: "semaphore with kazoo's znodes",
        run: |seed| live(seed, locks::GUESTS, Locks::new(locks::Recipe::KazooSemaphore)),
    },
    Trial {
        name: "partitions",
        run: |seed| live(seed, locks::GUESTS, Locks::new(locks::Recipe::Partitions)),
    },
    Trial {
        name: "locking queue with kazoo's znodes",
        run: |seed| live(seed, queues::GUESTS, Queues::new(queues::Recipe::Locking)),
    },
    Trial {
        name: "queue with kazoo's znodes",
        run: |seed| live(seed, queues::GUESTS, Queues::new(queues::Recipe::Removing)),
    },
    Trial {
        name: "atomic number",
        run: |seed| live(seed, counters::GUESTS, Counters::new(counters::Recipe::Atomic)),
    },
    Trial {
        name: "promoted atomic number",
        run: |seed| live(seed, counters::GUESTS, Counters::new(counters::Recipe::Promoted)),
    },
    Trial {
        name: "shared count",
        run: |seed| live(seed, counters::GUESTS, Counters::new(counters::Recipe::Shared)),
    },
    Trial {
        name: "ids",
        run: |seed| live(seed, counters::GUESTS, Counters::new(counters::Recipe::Ids)),
    },
    Trial {
        name: "lock wanted back",
        run: |seed| live(seed, locks::GUESTS, Locks::new(locks::Recipe::WantedBack)),
    },
    Trial {
        name: "delay queue",
        run: |seed| live(seed, queues::GUESTS, Queues::new(queues::Recipe::Delay)),
    },
    Trial {
        name: "id queue",
        run: |seed| live(seed, queues::GUESTS, Queues::new(queues::Recipe::Id)),
    },
    Trial {
        name: "barrier",
        run: |seed| live(seed, barriers::GUESTS, barriers::Single::default()),
    },
    Trial {
        name: "double barrier",
        run: |seed| live(seed, barriers::GUESTS, barriers::Double::default()),
    },
    Trial {
        name: "cache of a znode",
        run: |seed| live(seed, caches::GUESTS, Caches::new(caches::Recipe::Node)),
    },
    Trial {
        name: "cache of children",
        run: |seed| live(seed, caches::GUESTS, Caches::new(caches::Recipe::Children)),
    },
    Trial {
        name: "cache of a tree",
        run: |seed| live(seed, caches::GUESTS, Caches::new(caches::Recipe::Tree)),
    },
    Trial {
        name: "ephemeral kept znode",
        run: |seed| live(seed, kept::GUESTS, Keeping::new(kept::Recipe::Ephemeral)),
    },
    Trial {
        name: "sequential kept znode",
        run: |seed| live(seed, kept::GUESTS, Keeping::new(kept::Recipe::Sequential)),
    },
    Trial {
        name: "persistent kept znode",
        run: |seed| live(seed, kept::GUESTS, Keeping::new(kept::Recipe::Persistent)),
    },
    Trial {
        name: "kept znode with a time to live",
        run: |seed| live(seed, kept::GUESTS, Keeping::new(kept::Recipe::Ttl)),
    },
    Trial {
        name: "group",
        run: |seed| live(seed, kept::GUESTS, Keeping::new(kept::Recipe::Group)),
    },
    Trial {
        name: "discovery",
        run: |seed| live(seed, kept::GUESTS, Keeping::new(kept::Recipe::Service)),
    },
    Trial { name: "agreement", run: |seed| live(seed, agreements::GUESTS, Agreements::default()) },
    Trial { name: "value", run: |seed| live(seed, told::GUESTS, Told::new(told::Recipe::Value)) },
    Trial {
        name: "settings",
        run: |seed| live(seed, told::GUESTS, Told::new(told::Recipe::Settings)),
    },
    Trial {
        name: "held settings",
        run: |seed| live(seed, told::GUESTS, Told::new(told::Recipe::Held)),
    },
    Trial {
        name: "announcements",
        run: |seed| live(seed, announced::GUESTS, Announcing::default()),
    },
    Trial { name: "models", run: |seed| live(seed, typed::GUESTS, Accounts::default()) },
];

fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok()?.parse().ok()
}

fn is_loud() -> bool {
    std::env::var_os("TRACE").is_some()
}

fn run(trial: &Trial, seed: u64) -> Outcome {
    catch_unwind(AssertUnwindSafe(|| (trial.run)(seed))).unwrap_or_else(|panic| {
        let text = panic.downcast_ref::<String>().cloned();
        let text = text.or_else(|| panic.downcast_ref::<&str>().map(|text| (*text).to_owned()));
        let broken = vec![format!("panic: {}", text.unwrap_or_default())];
        Outcome { broken, ..Outcome::default() }
    })
}

fn trials() -> impl Iterator<Item = &'static Trial> {
    let only = std::env::var("RECIPE").ok();
    TRIALS.iter().filter(move |trial| only.as_ref().is_none_or(|only| only == trial.name))
}

#[test]
fn every_recipe_keeps_its_promises() {
    let (first, count) = (number("FIRST").unwrap_or(1), number("SEEDS").unwrap_or(4));
    for trial in trials() {
        let mut reached = std::collections::BTreeMap::new();
        let mut committed = 0;
        for seed in first..first + count {
            let outcome = run(trial, seed);
            let broken = &outcome.broken;
            assert!(broken.is_empty(), "{}, seed {seed}: {}", trial.name, broken.join("\n"));
            committed += outcome.committed;
            for (what, count) in outcome.reached.iter().chain(&outcome.faults) {
                *reached.entry(*what).or_insert(0) += count;
            }
        }
        println!("{}: {count} seeds, {committed} transactions, {reached:?}", trial.name);
    }
}

/// Seeds that have found a fault in a recipe.
///
/// Double barrier: a process joined the last one inside, which then closed the barrier around it
/// (2). A process that joined was overlooked while its predecessor left (67). A process had joined
/// and did not learn of it (120). A process that was paused closed the barrier of the next round
/// (121). A znode stayed whose creator never got the answer (264, 267).
///
/// Held settings: a reader that was dropped while it read waited for the next change, and there was
/// none (1, 8, 10, 12).
const FOUND: &[(&str, u64)] = &[
    ("double barrier", 2),
    ("double barrier", 67),
    ("double barrier", 120),
    ("double barrier", 121),
    ("double barrier", 264),
    ("double barrier", 267),
    ("held settings", 1),
    ("held settings", 8),
    ("held settings", 10),
    ("held settings", 12),
];

#[test]
fn what_was_found_once_stays_repaired() {
    for (name, seed) in FOUND {
        let trial = TRIALS.iter().find(|trial| trial.name == *name).expect("it is in the list");
        let broken = run(trial, *seed).broken;
        assert!(broken.is_empty(), "{name}, seed {seed}: {}", broken.join("\n"));
    }
}

/// A run is a function of its seed.
#[test]
fn the_same_seed_gives_the_same_run() {
    for trial in trials() {
        for seed in [3, 4] {
            let (one, other) = (run(trial, seed), run(trial, seed));
            assert_eq!(one.trace, other.trace, "{}, seed {seed}", trial.name);
            assert_eq!(one.committed, other.committed);
        }
    }
}

/// Deliberate faults in the code, and the recipe that shows each of them.
#[cfg(feature = "mutants")]
const MUTANTS: &[(&str, &str)] = &[
    ("lock without a second look", "lock"),
    ("place left behind", "lock"),
    ("protected znode left behind", "lock"),
    ("guard deaf to its loss", "lock"),
    ("reader beside a writer", "read-write lock"),
    ("one lease too many", "semaphore"),
    ("lost put taken for done", "queue"),
    ("version ignored", "atomic number"),
    ("unknown outcome forgotten", "atomic number"),
    ("request for a lock unheard", "lock wanted back"),
    ("delay ignored", "delay queue"),
    ("barrier passed on old news", "barrier"),
    ("barrier open too early", "double barrier"),
    ("barrier left alone", "double barrier"),
    ("cache with a hole", "cache of a tree"),
    ("older data left in a kept znode", "ephemeral kept znode"),
    ("data of a kept znode in another one", "group"),
    ("closed znode left behind", "ephemeral kept znode"),
    ("decision of its own", "agreement"),
    ("value told apart by its version", "value"),
    ("half a change of settings", "settings"),
    ("held settings read", "held settings"),
    ("announcement of a former leader believed", "announcements"),
    ("lost create taken for done", "models"),
    ("rule of a schema unheeded", "models"),
    ("lease granted without its lock", "semaphore with kazoo's znodes"),
    ("part owned by two", "partitions"),
    ("lost get taken for done", "queue with kazoo's znodes"),
];

/// The maximum number of seeds to find a fault.
#[cfg(feature = "mutants")]
const SEEDS_MAX: u64 = 400;

#[cfg(feature = "mutants")]
#[test]
fn every_fault_in_the_code_is_found() {
    let only = std::env::var("MUTANT").ok();
    let mut missed = Vec::new();
    for (mutant, recipe) in MUTANTS {
        if only.as_ref().is_some_and(|only| only != mutant) {
            continue;
        }
        let trial = TRIALS.iter().find(|trial| trial.name == *recipe).expect("it is in the list");
        zebu_proto::mutants::choose(mutant);
        let found = (1..=SEEDS_MAX).find_map(|seed| {
            let broken = run(trial, seed).broken;
            broken.first().map(|what| (seed, what.clone()))
        });
        zebu_proto::mutants::choose("");
        match found {
            Some((seed, what)) => {
                let line = what.lines().next().unwrap_or_default();
                println!("{mutant}: {recipe}, seed {seed}: {line}");
            }
            None => missed.push(mutant),
        }
    }
    assert!(missed.is_empty(), "not found: {missed:?}");
}

/// The list above is complete.
#[cfg(feature = "mutants")]
#[test]
fn every_fault_in_the_code_is_in_the_list() {
    let own = std::path::Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut found = std::collections::BTreeSet::new();
    for file in ["src/faults.rs", "../client/src/faults.rs"] {
        let text = std::fs::read_to_string(own.join(file)).unwrap();
        let names = text.split("mutant!(\"").skip(1).filter_map(|rest| rest.split('"').next());
        found.extend(names.map(str::to_owned));
    }
    let known: std::collections::BTreeSet<_> =
        MUTANTS.iter().map(|(name, _)| (*name).to_owned()).collect();
    assert_eq!(found, known);
}

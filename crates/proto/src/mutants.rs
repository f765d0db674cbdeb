//! Faults that are put in on purpose, to see whether the checks find them.
//!
//! Without the feature `mutants` there are none: [`mutant!`](crate::mutant) is `false`. With it, one
//! can be chosen for a thread. No shipped build has the feature.

use std::cell::Cell;

thread_local! {
    static CHOSEN: Cell<&'static str> = const { Cell::new("") };
}

/// Chooses a fault for this thread; none by an empty name.
pub fn choose(name: &'static str) {
    CHOSEN.set(name);
}

/// Whether this fault is chosen.
pub fn is_chosen(name: &str) -> bool {
    CHOSEN.get() == name
}

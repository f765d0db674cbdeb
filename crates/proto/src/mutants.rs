//! Deliberate faults, to verify that the checks find them.
//!
//! Without the feature `mutants`, [`mutant!`](crate::mutant) is always `false`. With it, a thread
//! can select one fault. No shipped build has the feature.

use std::cell::Cell;

thread_local! {
    static CHOSEN: Cell<&'static str> = const { Cell::new("") };
}

/// Selects a fault for this thread; an empty name selects none.
pub fn choose(name: &'static str) {
    CHOSEN.set(name);
}

/// Whether this fault is selected.
pub fn is_chosen(name: &str) -> bool {
    CHOSEN.get() == name
}

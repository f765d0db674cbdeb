//! Runs many seeds, and reports the results.

use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Duration;

use crate::plan::Plan;
use crate::world::{Outcome, World};

/// Runs a plan. A panic counts as a violated property.
pub fn run(plan: &Plan) -> Outcome {
    let world = World::new(plan.clone());
    let noted = world.checks.noted();
    let mut outcome = match catch_unwind(AssertUnwindSafe(|| world.run())) {
        Ok(outcome) => outcome,
        Err(panic) => {
            let text = panic.downcast_ref::<String>().cloned();
            let text = text.or_else(|| panic.downcast_ref::<&str>().map(|text| (*text).to_owned()));
            let text = format!("panic: {}", text.unwrap_or_default());
            Outcome { broken: vec![text], ..Outcome::default() }
        }
    };
    outcome.broken.extend(std::mem::take(&mut *noted.lock()).into_values());
    outcome
}

/// The sum of many runs.
#[derive(Clone, Debug, Default)]
pub struct Total {
    /// The number of runs.
    pub runs: u64,
    /// Seeds of failed runs, each with its violated property.
    pub broken: Vec<(u64, String)>,
    /// Simulated time.
    pub simulated: Duration,
    /// Faults that took effect, by class.
    pub faults: BTreeMap<&'static str, u64>,
    /// Rare situations that occurred, by name.
    pub reached: BTreeMap<&'static str, u64>,
    /// Committed transactions.
    pub committed: u64,
    /// Answered client requests.
    pub answered: u64,
    /// Notifications to clients.
    pub notified: u64,
    /// Established leaders.
    pub leaders: u64,
}

impl Total {
    /// Adds a run.
    pub fn add(&mut self, seed: u64, outcome: &Outcome) {
        self.runs += 1;
        self.broken.extend(outcome.broken.first().map(|what| (seed, what.clone())));
        self.simulated += outcome.simulated;
        self.committed += outcome.committed;
        self.answered += outcome.answered;
        self.notified += outcome.notified;
        self.leaders += outcome.leaders;
        for (class, count) in &outcome.faults {
            *self.faults.entry(class).or_default() += count;
        }
        for (what, count) in &outcome.reached {
            *self.reached.entry(what).or_default() += count;
        }
    }
}

//! Makes the plan of a failure small enough to read: fewer faults, fewer clients, a shorter run.

use std::time::Duration;

use crate::plan::Plan;
use crate::run::run;

/// The property in a description, without the times and numbers of this run.
fn property(what: &str) -> String {
    let words = what.split(": ").nth(1).unwrap_or(what);
    words.chars().filter(|c| !c.is_ascii_digit()).collect()
}

/// Tries up to `tries` smaller plans and keeps those that still violate the same property. Returns
/// the last one and its violation.
pub fn shrink(plan: &Plan, broken: &str, tries: usize) -> (Plan, String) {
    let wanted = property(broken);
    let mut best = (plan.clone(), broken.to_owned());
    let mut left = tries;
    let mut attempt = |plan: &Plan| {
        left = left.checked_sub(1)?;
        let outcome = run(plan);
        let what = outcome.broken.first()?;
        (property(what) == wanted).then(|| (plan.clone(), what.clone()))
    };
    // Faults after the failure do not matter.
    let mut plan = best.0.clone();
    if let Some(at) = time(broken) {
        plan.length = plan.length.min(at + Duration::from_millis(1));
        plan.faults.retain(|fault| fault.at <= plan.length);
    }
    if let Some(smaller) = attempt(&plan) {
        best = smaller;
    }
    let mut part = best.0.faults.len().div_ceil(2);
    while part > 0 {
        let mut from = 0;
        while from < best.0.faults.len() {
            let mut plan = best.0.clone();
            let to = (from + part).min(plan.faults.len());
            plan.faults.drain(from..to);
            match attempt(&plan) {
                Some(smaller) => best = smaller,
                None => from += part,
            }
        }
        part /= 2;
    }
    for change in [
        |plan: &mut Plan| plan.clients = 1,
        |plan: &mut Plan| plan.clients = 2,
        |plan: &mut Plan| plan.sessions = 0,
        |plan: &mut Plan| plan.observers = 0,
        |plan: &mut Plan| plan.codec = false,
        |plan: &mut Plan| plan.length /= 2,
    ] {
        let mut plan = best.0.clone();
        change(&mut plan);
        if let Some(smaller) = attempt(&plan) {
            best = smaller;
        }
    }
    best
}

/// The time of a violation.
fn time(what: &str) -> Option<Duration> {
    let seconds = what.strip_prefix("at ")?.split(' ').next()?.parse().ok()?;
    Some(Duration::from_secs_f64(seconds))
}

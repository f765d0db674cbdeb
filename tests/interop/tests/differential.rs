//! Random requests to the original and to Zebu in lockstep. The first difference is shrunk and
//! shown.
//!
//! `ZEBU_DIFF_OPS` sets the number of steps, `ZEBU_DIFF_SEED` the first seed. Every thousand steps
//! both servers are replaced by fresh ones.

use zebu_interop::diff::{compare, describe, generate, shrink};
use zebu_interop::scenario::subject;

const STEPS_PER_RUN: usize = 1000;

fn number(name: &str, default: u64) -> u64 {
    std::env::var(name).map_or(default, |text| text.parse().expect("a number"))
}

#[test]
#[ignore = "needs third-party programs: cargo xtask deps"]
fn random_operations_are_answered_alike() {
    let steps = usize::try_from(number("ZEBU_DIFF_OPS", 8000)).expect("a usize");
    let first = number("ZEBU_DIFF_SEED", 1);
    let runs = steps.div_ceil(STEPS_PER_RUN);
    for run in 0..runs {
        let seed = first + u64::try_from(run).expect("few runs");
        let count = STEPS_PER_RUN.min(steps - run * STEPS_PER_RUN);
        let all = generate(seed, count);
        let Some(found) = compare(subject(), &all).expect("both servers run") else {
            println!("seed {seed}: {count} steps, no difference");
            continue;
        };
        let upto = &all.steps[..(found.at + 1).min(all.steps.len())];
        let last = all.with(&upto[upto.len() - 1..]);
        println!("seed {seed}: differs, shrinking\n{}", describe(&last, &found));
        let (small, found) = shrink(subject(), &all.with(upto), 100).expect("both servers run");
        panic!("seed {seed}\n{}", describe(&small, &found));
    }
}

//! Seeds that have shown something, each under the name of what it showed.

use zebu_sim::plan::Plan;
use zebu_sim::run::run;

fn holds(seed: u64) {
    assert_eq!(run(&Plan::new(seed)).broken, [] as [&str; 0], "seed {seed}");
}

/// A leader that had not been confirmed sent its tree without the end of its history, which came
/// behind it: until that was on the learner's disk, a quorum had lost what it had committed.
#[test]
fn a_copy_has_everything_of_the_history_that_its_learner_had() {
    holds(114);
}

/// What a client had said last was not reported when its connection ended: its session's time ran
/// from what it had said before.
#[test]
fn the_last_word_of_a_connection_counts_for_its_session() {
    holds(398);
}

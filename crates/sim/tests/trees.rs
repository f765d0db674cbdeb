//! Trees change in memory: the servers detect each change, and all trees become equal without the
//! wrong data.

use zebu_sim::plan::Plan;
use zebu_sim::run::run;

/// A member whose tree differed continued to serve it for a while, and followers of a leader with a
/// wrong tree took that tree.
#[test]
fn a_tree_that_becomes_another_one_is_found_out_and_repaired() {
    for seed in 0..6 {
        let outcome = run(&Plan::diverged(seed));
        assert_eq!(outcome.broken, [] as [&str; 0], "seed {seed}");
        assert!(outcome.faults["wrong data in a tree"] > 0, "seed {seed}");
    }
}

//! Bytes change on their way between servers: nobody dies of it, and all trees become one.

use zebu_sim::plan::Plan;
use zebu_sim::run::run;

fn nothing_breaks(seed: u64) {
    assert_eq!(run(&Plan::flipped(seed)).broken, [] as [&str; 0], "seed {seed}");
}

/// A log or an engine that took what a packet brought without looking at it ended the process; a member whose tree
/// lacked znodes went on serving it.
#[test]
fn bytes_that_change_between_servers_end_no_process_and_all_trees_become_one() {
    for seed in 0..12 {
        let outcome = run(&Plan::flipped(seed));
        assert_eq!(outcome.broken, [] as [&str; 0], "seed {seed}");
        assert!(outcome.faults["byte changed"] > 0, "seed {seed}");
    }
}

/// A znode that nobody may delete had got an owner in a tree on its way, and went with its session: no tree that the
/// leader sent was its own any more.
#[test]
fn a_reserved_znode_does_not_go_with_a_session() {
    nothing_breaks(51);
}

/// A tree came as of a transaction that its leader has never had: whoever had taken it could not lead.
#[test]
fn a_tree_of_a_later_epoch_than_its_leader_is_refused() {
    nothing_breaks(73);
}

/// A leader's epoch came as a much later one, and the observer that it was told to promised that: no leader was late
/// enough for it any more.
#[test]
fn an_observer_follows_on_after_it_has_promised_an_epoch_that_nobody_has() {
    nothing_breaks(527);
}

/// The id of the ensemble came with another digit. The member kept it for good, and refused its own ensemble ever after.
#[test]
fn an_ensemble_id_that_changed_on_its_way_is_not_kept() {
    nothing_breaks(529);
}

/// A snapshot came with a later zxid than its leader's. The member took that transaction for committed, and refused all
/// leaders, since none had it.
#[test]
fn a_snapshot_that_came_with_a_later_zxid_is_not_history() {
    nothing_breaks(581);
}

/// The packet with a proposed id came as one of another kind, and the follower acknowledged its leader without the id. The
/// leader settled it alone, and the next leader settled another one.
#[test]
fn a_follower_that_was_not_told_the_ensembles_id_acknowledges_nothing() {
    nothing_breaks(181);
}

/// Two members had promised an epoch far ahead. The leader found no quorum in it and began the next one, and the others
/// wanted to be told the same one twice.
#[test]
fn an_epoch_far_ahead_that_goes_on_is_followed() {
    nothing_breaks(400);
}

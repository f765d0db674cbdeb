//! Bytes change on their way between servers: no process ends, and all trees become equal.

use zebu_sim::plan::Plan;
use zebu_sim::run::run;

fn nothing_breaks(seed: u64) {
    assert_eq!(run(&Plan::flipped(seed)).broken, [] as [&str; 0], "seed {seed}");
}

/// A log or an engine accepted a packet without a check, and the process ended. A member whose tree
/// lacked znodes continued to serve it.
#[test]
fn bytes_that_change_between_servers_end_no_process_and_all_trees_become_one() {
    for seed in 0..12 {
        let outcome = run(&Plan::flipped(seed));
        assert_eq!(outcome.broken, [] as [&str; 0], "seed {seed}");
        assert!(outcome.faults["byte changed"] > 0, "seed {seed}");
    }
}

/// In a transferred tree, a znode that no client may delete got an owner, and was deleted with that
/// session. So no tree from this leader equalled the leader's own tree.
#[test]
fn a_reserved_znode_does_not_go_with_a_session() {
    nothing_breaks(51);
}

/// A tree arrived with the zxid of a transaction that its leader never had. The server that
/// accepted it could not lead.
#[test]
fn a_tree_of_a_later_epoch_than_its_leader_is_refused() {
    nothing_breaks(73);
}

/// A leader's epoch arrived as a much later one, and an observer promised it. No leader had a late
/// enough epoch for this observer.
#[test]
fn an_observer_follows_on_after_it_has_promised_an_epoch_that_nobody_has() {
    nothing_breaks(527);
}

/// The id of the ensemble arrived with a changed digit. The member kept it for good, and refused
/// its own ensemble.
#[test]
fn an_ensemble_id_that_changed_on_its_way_is_not_kept() {
    nothing_breaks(529);
}

/// A snapshot arrived with a later zxid than its leader's. The member considered that transaction
/// committed, and refused all leaders because none had it.
#[test]
fn a_snapshot_that_came_with_a_later_zxid_is_not_history() {
    nothing_breaks(581);
}

/// The packet with a proposed id arrived as a packet of another type, and the follower acknowledged
/// its leader without the id. The leader settled the id alone, and the next leader settled another
/// one.
#[test]
fn a_follower_that_was_not_told_the_ensembles_id_acknowledges_nothing() {
    nothing_breaks(181);
}

/// Two members had promised a far later epoch. The leader found no quorum in that epoch and began
/// the next one, and the two members wanted the same epoch a second time.
#[test]
fn an_epoch_far_ahead_that_goes_on_is_followed() {
    nothing_breaks(400);
}

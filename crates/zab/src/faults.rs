//! Deliberate faults, one function each, to prove that the simulator finds them. Without the
//! feature `mutants` of `zebu-proto`, each function returns a constant. The name of a function is
//! that of the fault; `sim::mutants` lists the rules that the faults break.

pub(crate) fn ack_before_fsync() -> bool {
    zebu_proto::mutant!("ack before fsync")
}

pub(crate) fn alive_beside_the_original() -> bool {
    zebu_proto::mutant!("alive beside the original")
}

pub(crate) fn announced_end_believed() -> bool {
    zebu_proto::mutant!("announced end believed")
}

pub(crate) fn another_tree_is_served() -> bool {
    zebu_proto::mutant!("another tree is served")
}

pub(crate) fn applied_before_fsync() -> bool {
    zebu_proto::mutant!("applied before fsync")
}

pub(crate) fn better_follower_ignored() -> bool {
    zebu_proto::mutant!("better follower ignored")
}

pub(crate) fn commit_out_of_order() -> bool {
    zebu_proto::mutant!("commit out of order")
}

pub(crate) fn commit_without_quorum() -> bool {
    zebu_proto::mutant!("commit without quorum")
}

pub(crate) fn copied_change_is_hearsay() -> bool {
    zebu_proto::mutant!("copied change is hearsay")
}

pub(crate) fn copies_have_a_time_limit() -> bool {
    zebu_proto::mutant!("copies have a time limit")
}

pub(crate) fn copy_without_its_end() -> bool {
    zebu_proto::mutant!("copy without its end")
}

pub(crate) fn counter_overflows() -> bool {
    zebu_proto::mutant!("counter overflows")
}

pub(crate) fn deaf_leader_stays() -> bool {
    zebu_proto::mutant!("deaf leader stays")
}

pub(crate) fn diff_instead_of_trunc() -> bool {
    zebu_proto::mutant!("diff instead of trunc")
}

pub(crate) fn doubt_ends_with_the_role() -> bool {
    zebu_proto::mutant!("doubt ends with the role")
}

pub(crate) fn elected_by_those_it_hears_itself() -> bool {
    zebu_proto::mutant!("elected by those it hears itself")
}

pub(crate) fn elected_for_ever() -> bool {
    zebu_proto::mutant!("elected for ever")
}

pub(crate) fn empty_server_counted() -> bool {
    zebu_proto::mutant!("empty server counted")
}

pub(crate) fn empty_server_leads() -> bool {
    zebu_proto::mutant!("empty server leads")
}

pub(crate) fn ensemble_id_made_anew() -> bool {
    zebu_proto::mutant!("ensemble id made anew")
}

pub(crate) fn ensemble_id_not_waited_for() -> bool {
    zebu_proto::mutant!("ensemble id not waited for")
}

pub(crate) fn ensemble_id_settled_by_one() -> bool {
    zebu_proto::mutant!("ensemble id settled by one")
}

pub(crate) fn epoch_announced_before_it_is_durable() -> bool {
    zebu_proto::mutant!("epoch announced before it is durable")
}

pub(crate) fn epoch_not_promised() -> bool {
    zebu_proto::mutant!("epoch not promised")
}

pub(crate) fn epoch_used_twice() -> bool {
    zebu_proto::mutant!("epoch used twice")
}

pub(crate) fn every_silence_counts_alike() -> bool {
    zebu_proto::mutant!("every silence counts alike")
}

pub(crate) fn forgets_at_a_leaders_word() -> bool {
    zebu_proto::mutant!("forgets at a leader's word")
}

pub(crate) fn gap_accepted() -> bool {
    zebu_proto::mutant!("gap accepted")
}

pub(crate) fn history_acknowledged_before_fsync() -> bool {
    zebu_proto::mutant!("history acknowledged before fsync")
}

pub(crate) fn hung_disk_leads_on() -> bool {
    zebu_proto::mutant!("hung disk leads on")
}

pub(crate) fn leader_counts_before_fsync() -> bool {
    zebu_proto::mutant!("leader counts before fsync")
}

pub(crate) fn leader_of_a_shorter_list_refused() -> bool {
    zebu_proto::mutant!("leader of a shorter list refused")
}

pub(crate) fn leads_before_its_epoch_is_durable() -> bool {
    zebu_proto::mutant!("leads before its epoch is durable")
}

pub(crate) fn looks_answer_looks() -> bool {
    zebu_proto::mutant!("looks answer looks")
}

pub(crate) fn lost_leader_missed_late() -> bool {
    zebu_proto::mutant!("lost leader missed late")
}

pub(crate) fn memory_with_a_hole() -> bool {
    zebu_proto::mutant!("memory with a hole")
}

pub(crate) fn observers_counted() -> bool {
    zebu_proto::mutant!("observers counted")
}

pub(crate) fn old_epoch_accepted() -> bool {
    zebu_proto::mutant!("old epoch accepted")
}

pub(crate) fn older_configuration_comes_back() -> bool {
    zebu_proto::mutant!("older configuration comes back")
}

pub(crate) fn older_connection_kept() -> bool {
    zebu_proto::mutant!("older connection kept")
}

pub(crate) fn one_epoch_a_try() -> bool {
    zebu_proto::mutant!("one epoch a try")
}

pub(crate) fn one_quorum_for_a_reconfiguration() -> bool {
    zebu_proto::mutant!("one quorum for a reconfiguration")
}

pub(crate) fn one_quorum_for_an_election() -> bool {
    zebu_proto::mutant!("one quorum for an election")
}

pub(crate) fn other_ensembles_admitted() -> bool {
    zebu_proto::mutant!("other ensembles admitted")
}

pub(crate) fn other_lists_refused() -> bool {
    zebu_proto::mutant!("other lists refused")
}

pub(crate) fn outvoted_leader_leads_on() -> bool {
    zebu_proto::mutant!("outvoted leader leads on")
}

pub(crate) fn pause_taken_for_silence() -> bool {
    zebu_proto::mutant!("pause taken for silence")
}

pub(crate) fn paused_leader_is_waited_for() -> bool {
    zebu_proto::mutant!("paused leader is waited for")
}

pub(crate) fn proposal_in_front() -> bool {
    zebu_proto::mutant!("proposal in front")
}

pub(crate) fn proposal_left_out() -> bool {
    zebu_proto::mutant!("proposal left out")
}

pub(crate) fn proposed_and_not_logged() -> bool {
    zebu_proto::mutant!("proposed and not logged")
}

pub(crate) fn proposal_named() -> bool {
    zebu_proto::mutant!("proposal named")
}

pub(crate) fn retired_server_is_there() -> bool {
    zebu_proto::mutant!("retired server is there")
}

pub(crate) fn slowest_learner_waited_for() -> bool {
    zebu_proto::mutant!("slowest learner waited for")
}

pub(crate) fn stands_without_a_vote() -> bool {
    zebu_proto::mutant!("stands without a vote")
}

pub(crate) fn starved_learner_gives_up() -> bool {
    zebu_proto::mutant!("starved learner gives up")
}

pub(crate) fn strangers_believed() -> bool {
    zebu_proto::mutant!("strangers believed")
}

pub(crate) fn sync_without_proof() -> bool {
    zebu_proto::mutant!("sync without proof")
}

pub(crate) fn unknown_transaction_kept() -> bool {
    zebu_proto::mutant!("unknown transaction kept")
}

pub(crate) fn unlogged_history_votes() -> bool {
    zebu_proto::mutant!("unlogged history votes")
}

pub(crate) fn unproven_acknowledgements_counted() -> bool {
    zebu_proto::mutant!("unproven acknowledgements counted")
}

pub(crate) fn vote_from_the_tree() -> bool {
    zebu_proto::mutant!("vote from the tree")
}

pub(crate) fn vote_without_epoch() -> bool {
    zebu_proto::mutant!("vote without epoch")
}

pub(crate) fn vote_without_zxid() -> bool {
    zebu_proto::mutant!("vote without zxid")
}

pub(crate) fn what_comes_again_is_logged_again() -> bool {
    zebu_proto::mutant!("what comes again is logged again")
}

pub(crate) fn wiped_server_votes() -> bool {
    zebu_proto::mutant!("wiped server votes")
}

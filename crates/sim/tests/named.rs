//! Seeds that have found a fault. Each test has the name of the behaviour that was wrong.

use zebu_sim::aims::Aim;
use zebu_sim::plan::Plan;
use zebu_sim::run::run;

fn holds(seed: u64) {
    assert_eq!(run(&Plan::random(seed)).broken, [] as [&str; 0], "seed {seed}");
}

/// As [`holds`], with the plan that the simulator draws for a seed, which may have an aim.
fn holds_as_drawn(seed: u64) {
    assert_eq!(run(&Plan::new(seed)).broken, [] as [&str; 0], "seed {seed}");
}

fn holds_aimed(aim: Aim, seed: u64) {
    assert_eq!(run(&Plan::aimed(aim, seed)).broken, [] as [&str; 0], "{aim:?}, seed {seed}");
}

/// An unconfirmed leader sent its tree without the end of its history, and sent that end after the
/// tree. Until the end was on the learner's disk, a quorum had lost committed transactions.
#[test]
fn a_copy_has_everything_of_the_history_that_its_learner_had() {
    holds_aimed(Aim::LoneLeader, 1);
    holds(174);
}

/// The server did not report a client's last message when the connection ended, so the session
/// timeout started at the previous message.
#[test]
fn the_last_word_of_a_connection_counts_for_its_session() {
    holds(398);
}

/// A session was due when its leader was paused. When the leader continued, it expired the session
/// at once, before it read the client's messages.
#[test]
fn who_spoke_while_the_leader_stood_still_is_heard_before_it_expires() {
    holds(2_000_190);
}

/// A server lost its disk and received everything in a snapshot transfer, but had not followed that
/// leader yet. Its vote named no epoch, and a server with a shorter history led it.
#[test]
fn what_a_broken_synchronization_has_brought_is_not_given_up() {
    holds(4_000_734);
}

/// A server had promised an epoch that no other server knew. It could not follow a leader of an
/// earlier epoch, and stayed outside until the next election.
#[test]
fn a_leader_that_is_too_old_for_a_member_makes_room_for_another() {
    holds_aimed(Aim::BrokenPromises, 19);
    holds_aimed(Aim::BrokenPromises, 51);
}

/// A learner served as soon as it received UPTODATE. Its tree contained effects of transactions
/// that it had not applied: the transactions after the snapshot transfer were not on its disk yet.
#[test]
fn a_learner_serves_when_its_tree_is_that_of_one_transaction_again() {
    holds(104);
}

/// A session numbered its requests anew on each connection. A request that was still on its way
/// from the previous server was mistaken for a new one with the same number.
#[test]
fn requests_of_a_session_keep_their_numbers_apart_over_connections() {
    holds_aimed(Aim::LoyalObservers, 43);
}

/// The file with a promise was renamed, but the name was not durable. The promise counted after the
/// next start, and the next power cut lost it.
#[test]
fn an_epoch_that_a_start_has_read_stays_promised() {
    holds(358);
}

/// A candidate announced its proposed configuration in an election, and disappeared. Another server
/// was elected without that configuration, but put it into force. After a restart, the members
/// would not have known it.
#[test]
fn what_is_proposed_elsewhere_does_not_come_into_force() {
    holds_aimed(Aim::Halves, 77);
}

/// The file with the newest members was renamed, but the name was not durable when the server was
/// killed. The next start used the file, and a power cut lost it.
#[test]
fn a_configuration_that_a_start_has_read_stays_in_force() {
    holds_aimed(Aim::BrokenChange, 235);
}

/// A candidate did not know that a configuration was in force, and refused the servers that knew
/// it, hundreds of times.
#[test]
fn a_candidate_that_has_missed_a_change_is_told() {
    holds_aimed(Aim::Halves, 123);
}

/// The first snapshot was damaged, which did no harm because the logs were complete. But no log was
/// accepted as their continuation, and the member stopped at its first transaction after every
/// start.
#[test]
fn a_member_without_its_first_snapshot_goes_on_from_its_logs() {
    holds_aimed(Aim::BadDisks, 17);
}

/// The server with the best history could reach only one other server, and was elected again and
/// again.
#[test]
fn who_is_out_of_most_servers_reach_is_not_elected_for_ever() {
    holds_aimed(Aim::BadLinks, 20);
    holds_aimed(Aim::BadLinks, 5);
}

/// A server that a candidate refused at once avoided the candidate while the other supporters still
/// dialled it, and no longer avoided it when they began to. Two candidates were elected in turn.
#[test]
fn those_who_avoid_a_candidate_do_so_at_the_same_time() {
    holds(2001539);
    holds(3000509);
    holds_aimed(Aim::BadLinks, 252);
}

/// Two servers were elected in turn by supporters that heard too few of the other supporters.
#[test]
fn who_is_elected_is_followed_by_those_who_hear_few_others() {
    holds_aimed(Aim::BadLinks, 2329);
    holds_aimed(Aim::BadLinks, 60);
}

/// An observer in a later round and a member without data, both LOOKING, corrected each other
/// without end.
#[test]
fn who_looks_for_a_leader_does_not_answer_without_end() {
    holds_aimed(Aim::BadDisks, 53);
}

/// A new member's operator had configured another port than the new configuration says. The member
/// was elected, and listened at the operator's port.
#[test]
fn who_is_to_become_a_member_leads_where_the_others_find_it() {
    holds_aimed(Aim::BrokenChange, 267);
}

/// A first start was interrupted after it had removed the file that permits an empty database.
#[test]
fn a_first_start_that_was_interrupted_is_repeated() {
    holds_aimed(Aim::EmptyVoter, 14);
}

/// The simulated operator gave a removed server its first list again, in which it was the only
/// voter: it led alone.
#[test]
fn a_removed_server_that_comes_back_leads_nobody() {
    holds_aimed(Aim::ChangingMembers, 110281);
}

/// A leader was paused and replaced without noticing it. It then refused a newer session.
#[test]
fn a_leader_refuses_a_session_only_while_it_leads() {
    holds(300460);
}

/// An observer that no observer master accepted looked for a leader again at once, in an endless
/// loop.
#[test]
fn an_observer_without_a_master_does_not_look_without_end() {
    holds_aimed(Aim::LocalSessions, 39);
}

/// A process was killed when a snapshot transfer had replaced its history, before any server was
/// told. The check reported the transactions of the old history as lost.
#[test]
fn a_copy_counts_as_soon_as_it_is_installed() {
    holds(5001370);
}

/// A server knew only an old port of the voter. A file with an earlier proposal named other ports,
/// so the simulated operator assumed that the server would use those.
#[test]
fn what_was_proposed_before_what_is_in_force_is_no_reason_to_wait() {
    holds_aimed(Aim::Groups, 6000087);
}

/// After a crash, or an edit by hand, a server had a newer configuration in its data than in its
/// file. It asked the members of both configurations for the leader, but knew only the addresses in
/// the file.
#[test]
fn the_members_that_the_data_name_are_found_at_the_addresses_in_the_data() {
    holds_aimed(Aim::Groups, 88015);
}

/// Each leadership lasted about a second. A server without data did not take part in the elections,
/// and asked for the leader so rarely that each time the next election was in progress.
#[test]
fn who_takes_no_part_in_elections_asks_soon_after_them() {
    holds(4001186);
}

/// The link between the only two voters was cut for a minute. When it worked again, neither server
/// dialled the other.
#[test]
fn ways_that_are_open_again_are_found() {
    holds_aimed(Aim::BadLinks, 8000142);
}

/// A truncation failed when it had cut a log and not synced it. The next start found the log cut,
/// and removed the mark of the truncation. A power cut then brought the truncated transactions
/// back.
#[test]
fn a_truncation_is_finished_when_its_cut_is_durable() {
    holds_as_drawn(8_000_912);
}

/// The network is slow for a moment between two checks, and messages arrive seconds later: a leader
/// that does not see its quorum is right.
#[test]
fn what_a_slow_network_still_carries_is_no_silence_without_a_reason() {
    for seed in [9101368, 9102214, 9104352] {
        holds(seed);
    }
}

/// A leader disappeared just after it had sent its tree. The learner's connection ended before the
/// learner took the tree, the tree was dropped with the connection, and the process ended.
#[test]
fn a_tree_that_has_come_outlives_the_connection_it_came_on() {
    holds_aimed(Aim::Halves, 21);
    holds_aimed(Aim::OtherKinds, 199);
}

/// The transfer of a tree took longer than `initLimit`, piece by piece, and both ends gave it up
/// again and again.
#[test]
fn a_tree_that_takes_longer_than_init_limit_arrives() {
    holds_aimed(Aim::SlowCopies, 3);
}

/// A leader had proposed its last transaction to its successor alone. A client's earlier request,
/// which was processed only after that, was ordered after that transaction.
#[test]
fn nothing_is_ordered_behind_the_last_transaction_of_a_leader_that_hands_over() {
    holds_aimed(Aim::Retirements, 81);
    holds_aimed(Aim::Retirements, 104);
}

/// The check of linearizability expected a transaction for the end of a local session.
#[test]
fn the_end_of_a_local_session_is_ordered_after_nothing() {
    holds_as_drawn(8_001_097);
    holds_as_drawn(8_020_837);
}

/// The power of a server failed before its sidecar had the mark of the last records, and a bit of
/// these records changed before the next start. To the server this is a torn write; the simulator
/// took it for damage that the server must notice.
#[test]
fn records_that_no_mark_proves_do_not_rot() {
    holds_as_drawn(8_001_025);
}

/// All members were paused for longer than `syncLimit`, the leader in the middle of a turn. The
/// simulated server did not tell its engine that it had read nothing meanwhile, as a real server
/// does, so the leader gave up its quorum.
#[test]
fn a_leader_that_was_paused_in_the_middle_of_a_turn_gives_its_quorum_time() {
    holds_as_drawn(8_020_942);
}

/// An operator added a voter, and the leader was the first member whose file named it. The check
/// took the list of the other members, which had the same version, for the leader's.
#[test]
fn a_leader_with_an_edited_file_needs_the_quorum_of_its_own_list() {
    holds_as_drawn(9_002_055);
}

/// Members elected another leader between two checks, and it lost a follower before the others had
/// found it. The check took it for the leader that they had followed before.
#[test]
fn a_leader_that_few_have_found_may_step_down() {
    holds_as_drawn(10_502_831);
}

/// An observer answered a leader of an earlier epoch, and its link ended in the same step. The
/// check took the answer for a voter's promise.
#[test]
fn an_observer_promises_nothing_also_while_its_link_ends() {
    holds_as_drawn(23_000_443);
}

/// No snapshot and log of a follower led to where its leader truncated, and it was killed before it
/// got a snapshot. It started with what it had, and the model had forgotten that.
#[test]
fn a_failed_truncation_changes_nothing_on_the_disk() {
    holds_as_drawn(23_000_501);
}

/// An observer without a log became a voter again. Its log ended before the last transaction of
/// which its newest snapshot had effects.
#[test]
fn a_snapshot_without_a_log_behind_it_may_be_ahead() {
    holds_aimed(Aim::ChangingMembers, 21_000_110);
}

//! Seeds that have shown something, each under the name of what it showed.

use zebu_sim::aims::Aim;
use zebu_sim::plan::Plan;
use zebu_sim::run::run;

fn holds(seed: u64) {
    assert_eq!(run(&Plan::random(seed)).broken, [] as [&str; 0], "seed {seed}");
}

fn holds_aimed(aim: Aim, seed: u64) {
    assert_eq!(run(&Plan::aimed(aim, seed)).broken, [] as [&str; 0], "{aim:?}, seed {seed}");
}

/// A leader that had not been confirmed sent its tree without the end of its history, which came
/// behind it: until that was on the learner's disk, a quorum had lost what it had committed.
#[test]
fn a_copy_has_everything_of_the_history_that_its_learner_had() {
    holds_aimed(Aim::LoneLeader, 1);
    holds(174);
}

/// What a client had said last was not reported when its connection ended: its session's time ran
/// from what it had said before.
#[test]
fn the_last_word_of_a_connection_counts_for_its_session() {
    holds(398);
}

/// A session was due when its leader, which had stood still, was to look next: it was called over at once,
/// with its client's words still unread.
#[test]
fn who_spoke_while_the_leader_stood_still_is_heard_before_it_expires() {
    holds(2_000_190);
}

/// A server whose disk had been lost had everything back from a copy, but had not followed that leader yet: its vote
/// named no epoch, and one that had less led it.
#[test]
fn what_a_broken_synchronization_has_brought_is_not_given_up() {
    holds(4_000_734);
}

/// A server that had promised an epoch that nobody else ever heard of could follow no leader of an
/// earlier one, and stayed outside until there was an election for another reason.
#[test]
fn a_leader_that_is_too_old_for_a_member_makes_room_for_another() {
    holds_aimed(Aim::BrokenPromises, 19);
    holds_aimed(Aim::BrokenPromises, 51);
}

/// A learner served as soon as it was told that it is up to date, with a tree that was in part ahead of
/// the transactions it had applied: those that came behind the copy were not on its disk yet.
#[test]
fn a_learner_serves_when_its_tree_is_that_of_one_transaction_again() {
    holds(104);
}

/// A session began to count its requests anew on each connection: one that was still on its way from
/// the server before was taken for another one with the same number.
#[test]
fn requests_of_a_session_keep_their_numbers_apart_over_connections() {
    holds_aimed(Aim::LoyalObservers, 43);
}

/// A promise whose file had been renamed, but not durably, was given after the next start and lost with
/// the power after that.
#[test]
fn an_epoch_that_a_start_has_read_stays_promised() {
    holds(358);
}

/// A candidate had told others what it had proposed, and was gone. Somebody else was elected without
/// that, and put it into force all the same: who had agreed to it would not have known it after a start.
#[test]
fn what_is_proposed_elsewhere_does_not_come_into_force() {
    holds_aimed(Aim::Halves, 77);
}

/// The file with the newest members had been renamed, but not durably, when its server was killed: it
/// counted at the next start, and was lost with the power after that.
#[test]
fn a_configuration_that_a_start_has_read_stays_in_force() {
    holds_aimed(Aim::BrokenChange, 235);
}

/// A candidate had missed that a change was in force, and sent those away who knew, hundreds of times.
#[test]
fn a_candidate_that_has_missed_a_change_is_told() {
    holds_aimed(Aim::Halves, 123);
}

/// The first snapshot had rotted, which did no harm: the logs began at the beginning. But no log might go
/// on from there, and the member stopped at its first transaction, after every start.
#[test]
fn a_member_without_its_first_snapshot_goes_on_from_its_logs() {
    holds_aimed(Aim::BadDisks, 17);
}

/// Who has the best history reached one other server only, and was elected again and again.
#[test]
fn who_is_out_of_most_servers_reach_is_not_elected_for_ever() {
    holds_aimed(Aim::BadLinks, 20);
    holds_aimed(Aim::BadLinks, 5);
}

/// Who was refused at once avoided the candidate while those who got no answer still dialled it, and was done with that when
/// they began; two candidates were elected in turn.
#[test]
fn those_who_avoid_a_candidate_do_so_at_the_same_time() {
    holds(2001539);
    holds(3000509);
    holds_aimed(Aim::BadLinks, 252);
}

/// Two were elected in turn, by some who could not know it: they heard too few of those who had voted likewise.
#[test]
fn who_is_elected_is_followed_by_those_who_hear_few_others() {
    holds_aimed(Aim::BadLinks, 2329);
    holds_aimed(Aim::BadLinks, 60);
}

/// An observer in a later round and a member without data, both looking for a leader, corrected each other.
#[test]
fn who_looks_for_a_leader_does_not_answer_without_end() {
    holds_aimed(Aim::BadDisks, 53);
}

/// Who was to become a member at another port than its operator had given it was elected, and listened at
/// its operator's.
#[test]
fn who_is_to_become_a_member_leads_where_the_others_find_it() {
    holds_aimed(Aim::BrokenChange, 267);
}

/// A first start was interrupted, and had used up what allows an empty database to be a new one.
#[test]
fn a_first_start_that_was_interrupted_is_repeated() {
    holds_aimed(Aim::EmptyVoter, 14);
}

/// A removed server was given its first list again, in which nobody else had a vote: it led alone.
#[test]
fn a_removed_server_that_comes_back_leads_nobody() {
    holds_aimed(Aim::ChangingMembers, 110281);
}

/// A leader that had stood still, and been replaced without knowing it, refused a session that was newer.
#[test]
fn a_leader_refuses_a_session_only_while_it_leads() {
    holds(300460);
}

/// An observer none of whose masters took it looked for a leader again at once, and so on.
#[test]
fn an_observer_without_a_master_does_not_look_without_end() {
    holds_aimed(Aim::LocalSessions, 39);
}

/// A process was killed when a copy had taken the place of its history, and nobody had been told yet: what only the old
/// one had was taken for lost.
#[test]
fn a_copy_counts_as_soon_as_it_is_installed() {
    holds(5001370);
}

/// A server knew only an old port of the one that votes. A file of what had once been proposed named others, so its operator
/// thought that it would ask them.
#[test]
fn what_was_proposed_before_what_is_in_force_is_no_reason_to_wait() {
    holds_aimed(Aim::Groups, 6000087);
}

/// A crash, or an edit of the file by hand, left a server with a newer configuration in its data than in its file. The
/// server asked the members of both for the leader, and knew the addresses of those in the file only.
#[test]
fn the_members_that_the_data_name_are_found_at_the_addresses_in_the_data() {
    holds_aimed(Aim::Groups, 88015);
}

/// Leaders had a second each. Who had no data left took no part in electing them, and asked for the leader so rarely that each
/// time the next election was under way.
#[test]
fn who_takes_no_part_in_elections_asks_soon_after_them() {
    holds(4001186);
}

/// The way between the only two voters was cut for a minute, and when it was open again neither tried it.
#[test]
fn ways_that_are_open_again_are_found() {
    holds_aimed(Aim::BadLinks, 8000142);
}

/// The network is slow for a moment between two looks, and what was sent in it arrives seconds later: a leader that
/// misses its quorum is right.
#[test]
fn what_a_slow_network_still_carries_is_no_silence_without_a_reason() {
    for seed in [9101368, 9102214, 9104352] {
        holds(seed);
    }
}

/// A leader was gone just after it had sent its tree. The learner's connection ended before the learner had taken the
/// tree, which was dropped with the connection: the process ended.
#[test]
fn a_tree_that_has_come_outlives_the_connection_it_came_on() {
    holds_aimed(Aim::Halves, 21);
    holds_aimed(Aim::OtherKinds, 199);
}

/// A tree took longer than `initLimit` to come, piece by piece: both ends gave it up, again and again.
#[test]
fn a_tree_that_takes_longer_than_init_limit_arrives() {
    holds_aimed(Aim::SlowCopies, 3);
}

/// A leader had proposed its last transaction to the next leader alone. A request that a client had sent before, and that
/// came to its turn only then, was ordered behind it.
#[test]
fn nothing_is_ordered_behind_the_last_transaction_of_a_leader_that_hands_over() {
    holds_aimed(Aim::Retirements, 81);
    holds_aimed(Aim::Retirements, 104);
}

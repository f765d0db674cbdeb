//! Deliberate faults in the code, and their purposes.

use crate::aims::{Aim, form_seed};
use crate::plan::Plan;

/// A deliberate fault, with the reason for it.
pub struct Mutant {
    /// The name of the fault in the code.
    pub name: &'static str,
    /// The bug or rule behind it.
    pub source: &'static str,
    /// The aim of every seed, for a fault that random plans seldom show.
    pub aim: Option<Aim>,
    /// The form of the aim, if all plans need the same; see [`form_seed`].
    pub form: Option<u64>,
    /// The test of another crate that finds the fault, if seeds do not.
    pub test: Option<&'static str>,
    /// Whether the search uses a server that runs alone.
    pub alone: bool,
    /// Whether the search uses plans in which trees change in memory.
    pub trees: bool,
}

impl Mutant {
    /// The plan for a seed of the search.
    pub fn plan(&self, seed: u64) -> Plan {
        match self.aim {
            _ if self.trees => Plan::diverged(seed),
            Some(aim) => Plan::aimed(aim, self.form.map_or(seed, |form| form_seed(form, seed))),
            None => Plan::new(seed),
        }
    }
}

const fn mutant(name: &'static str, source: &'static str) -> Mutant {
    Mutant { name, source, aim: None, form: None, test: None, alone: false, trees: false }
}

const fn aimed(name: &'static str, source: &'static str, aim: Aim) -> Mutant {
    Mutant { aim: Some(aim), ..mutant(name, source) }
}

const fn alone(name: &'static str, source: &'static str) -> Mutant {
    Mutant { alone: true, ..mutant(name, source) }
}

const fn trees(name: &'static str, source: &'static str) -> Mutant {
    Mutant { trees: true, ..mutant(name, source) }
}

const fn formed(name: &'static str, source: &'static str, aim: Aim, form: u64) -> Mutant {
    Mutant { aim: Some(aim), form: Some(form), ..mutant(name, source) }
}

const fn tested(name: &'static str, source: &'static str, test: &'static str) -> Mutant {
    Mutant { test: Some(test), ..mutant(name, source) }
}

/// All mutants.
pub const MUTANTS: &[Mutant] = &[
    mutant("ack before fsync", "S-8"),
    aimed("unlogged history votes", "S-8", Aim::ChangingMembers),
    mutant("history acknowledged before fsync", "B-03, B-04"),
    mutant("leader counts before fsync", "S-8"),
    mutant("applied before fsync", "S-8"),
    mutant("fsync removed", "F2"),
    // A sidecar's name is durable only together with its log's, so acknowledged transactions never
    // depend on this. A power cut between the two calls may leave a sidecar without its log, and no
    // start accepts that: the window is one call.
    tested(
        "directory fsync removed",
        "F4",
        "a_power_cut_at_any_call_loses_nothing_that_was_acknowledged of zebu-store",
    ),
    mutant("found directory not made durable", "S-8"),
    aimed("initialize used up at once", "PAI-42", Aim::EmptyVoter),
    mutant("small file fsync removed", "B-13"),
    // A batch must begin in a new sector, and the drive must be writing that sector.
    tested(
        "unreadable end refused",
        "F2",
        "an_unreadable_sector_behind_what_is_durable_is_cut of zebu-store",
    ),
    mutant("rename not made durable", "B-13"),
    mutant("snapshot fsync removed", "B-16"),
    tested(
        "purge counts a damaged snapshot",
        "F12",
        "a_purge_keeps_enough_sound_snapshots_whatever_is_damaged_in_others of zebu-store",
    ),
    aimed("repaired log not compared", "F13", Aim::RotEverywhere),
    mutant("epoch not persisted", "B-30"),
    mutant("epoch not promised", "B-30"),
    mutant("old epoch accepted", "B-30"),
    mutant("epoch used twice", "S-3"),
    mutant("vote without epoch", "B-23"),
    mutant("vote without zxid", "P-10"),
    mutant("vote from the tree", "B-06"),
    mutant("better follower ignored", "P-10"),
    mutant("observers counted", "B-24"),
    mutant("empty server counted", "B-26"),
    formed("wiped server votes", "PAI-42", Aim::EmptyVoter, 3),
    formed("empty server leads", "PAI-44", Aim::EmptyVoter, 2),
    mutant("diff instead of trunc", "B-18"),
    mutant("unknown transaction kept", "B-18"),
    mutant("truncation keeps one more", "B-02"),
    aimed("truncation trusts every snapshot", "B-01", Aim::SlowSnapshot),
    mutant("old logs stay beside a copy", "B-16"),
    mutant("copy without its end", "P-11"),
    aimed("memory with a hole", "B-09", Aim::CopyThenLead),
    mutant("digests trusted at once", "S-10"),
    aimed("copies have a time limit", "liveness", Aim::SlowCopies),
    mutant("proposal left out", "B-08"),
    aimed("gap accepted", "B-08, B-09", Aim::OtherLeaders),
    aimed("what comes again is logged again", "B-27", Aim::OtherLeaders),
    mutant("commit out of order", "P-13"),
    mutant("commit without quorum", "P-4"),
    mutant("counter overflows", "B-21"),
    mutant("one quorum for a reconfiguration", "R-1"),
    mutant("one quorum for an election", "R-2, B-25"),
    mutant("older configuration comes back", "S-13, B-25"),
    mutant("configuration not kept", "S-13"),
    formed("copied change is hearsay", "R-2", Aim::BrokenChange, 2),
    mutant("pause taken for silence", "steady"),
    aimed("elected for ever", "progress", Aim::BadLinks),
    // None of 512 plans of the third form of `BadLinks` shows it.
    tested(
        "elected by those it hears itself",
        "progress",
        "script partly_connected.txt of zebu-zab",
    ),
    aimed("looks answer looks", "progress", Aim::ChangingMembers),
    mutant("sync without proof", "FUT-06"),
    mutant("stale sync", "FUT-06"),
    mutant("lost leader missed late", "ORD-09"),
    mutant("sync answered before it is applied", "B7"),
    mutant("session goes back", "SES-06"),
    mutant("live session refused", "SES-10"),
    mutant("early expiry", "SES-07"),
    mutant("pause leaves no time to hear", "SES-07"),
    mutant("touch forgotten", "SES-07"),
    aimed("moved session ordered", "ORD-01", Aim::Movers),
    aimed("moved session relayed", "ORD-01", Aim::Movers),
    aimed("old connection served during a renewal", "ORD-01", Aim::Movers),
    aimed("closing session writes", "B-20", Aim::Movers),
    // The limit must pass between two ticks while a transaction is pending.
    tested(
        "delivered and not applied",
        "S-6",
        "what_shows_that_a_request_is_lost_is_applied of zebu-replica",
    ),
    // The server must take the old connection's request after the renewal, and before the end of
    // that connection.
    tested(
        "moved session served",
        "ORD-01",
        "an_old_connection_ends_when_its_session_is_to_be_renewed of zebu-replica",
    ),
    aimed("leads before its epoch is durable", "B-30", Aim::HungDisks),
    // Only a late learner acknowledges a transaction before the proof of its history. No plan loses
    // data that a quorum has, because the guarantees end there.
    tested("forgets at a leader's word", "F14, F31", "script would_forget.txt of zebu-zab"),
    // A packet in an ensemble's first second must be damaged.
    tested("ensemble id not waited for", "PAI-43", "script other_ensembles.txt of zebu-zab"),
    // The request for a snapshot must be lost.
    tested("doubt ends with the role", "F14", "script another_tree.txt of zebu-zab"),
    // A single bit of one packet must change, which takes too many seeds.
    tested(
        "announced end believed",
        "F14",
        "script copied_beyond_its_leader.txt of zebu-zab, and flips.rs",
    ),
    tested(
        "unproven acknowledgements counted",
        "P-4",
        "script counted_acknowledgements.txt of zebu-zab",
    ),
    aimed("older connection kept", "P-4", Aim::BadLinks),
    mutant("touches not relayed", "SES-07"),
    mutant("read overtakes", "ORD-04"),
    aimed("readers may write", "B-22", Aim::Readers),
    mutant("quota ignored", "quota"),
    mutant("outer quota counts", "quota"),
    mutant("quota never given back", "quota"),
    aimed("request timeout ignored", "ERR-10", Aim::Impatience),
    aimed("sent request said to be unsent", "ERR-10", Aim::Impatience),
    mutant("watch dropped", "WAT-14"),
    mutant("missed events dropped", "WAT-19"),
    aimed("proposal in front", "R-1", Aim::PendingChange),
    aimed("proposal named", "R-1", Aim::PendingChange),
    aimed("stands without a vote", "progress", Aim::PendingChange),
    aimed("hung disk leads on", "progress", Aim::HungDisks),
    aimed("acknowledged without room", "F6", Aim::FullDisks),
    aimed("returns before there is room", "F6", Aim::FullDisks),
    aimed("slowest learner waited for", "F9", Aim::SlowDisks),
    aimed("incident ignored", "F12", Aim::RotBeneath),
    aimed("strangers believed", "P-10", Aim::Strangers),
    aimed("one epoch a try", "B-30", Aim::LaterEpochs),
    aimed("other lists refused", "liveness", Aim::OtherLists),
    aimed("leader of a shorter list refused", "liveness", Aim::OtherLists),
    aimed("other ensembles admitted", "PAI-43", Aim::OtherEnsembles),
    // In an ensemble's first second, a leader must fail between two acknowledgements, twice.
    tested(
        "ensemble id made anew",
        "PAI-43",
        "an_id_is_made_only_where_nobody_has_heard_of_one of zebu-zab",
    ),
    tested("ensemble id settled by one", "PAI-43", "script other_ensembles.txt of zebu-zab"),
    aimed("retires at once", "liveness", Aim::Retirements),
    aimed("retired server is there", "liveness", Aim::Retirements),
    aimed("paused leader is waited for", "F8", Aim::SilentLeaders),
    aimed("deaf leader stays", "F16", Aim::SilentLeaders),
    tested("alive beside the original", "steady", "script announced_silence.txt of zebu-zab"),
    tested("starved learner gives up", "steady", "script announced_silence.txt of zebu-zab"),
    tested("every silence counts alike", "steady", "script announced_silence.txt of zebu-zab"),
    trees("another tree is served", "S-10"),
    trees("outvoted leader leads on", "S-10"),
    alone("told before the sync", "S-8"),
    alone("sync of a turn not told", "liveness"),
    alone("lost wake-up", "liveness"),
    alone("answer overtaken in a run", "ORD-04"),
    // No time passes there in a run, because the clock does not advance during an event.
    tested(
        "run without end",
        "limits",
        "a_run_of_reads_ends_by_time_and_writes_come_in_between of zebu-engine",
    ),
    alone("AUTH after the next request", "ACL"),
    alone("all may read", "ACL"),
    alone("frames of any length", "limits"),
    alone("answered and in progress", "liveness"),
    alone("kept and forgotten", "liveness"),
    alone("end of a connection ignored", "liveness"),
    alone("notification after the answer", "WAT-14"),
    alone("half a batch forgotten", "liveness"),
    mutant("touches not reported", "SES-07"),
    mutant("lost time not given", "SES-07"),
    mutant("applied in secret", "liveness"),
    mutant("epoch announced before it is durable", "S-1"),
    mutant("ephemerals outlive their session", "SES-01"),
    mutant("request sent twice", "ONCE"),
    mutant("log record not replayed", "S-5"),
    mutant("proposed and not logged", "P-3"),
    alone("short frames refused", "limits"),
    mutant("configuration not shown", "S-13"),
];

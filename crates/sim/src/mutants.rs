//! The faults that can be put into the code on purpose, and what they are for.

use crate::aims::Aim;
use crate::plan::Plan;

/// A fault: its name in the code, and what it stands for.
pub struct Mutant {
    /// Its name.
    pub name: &'static str,
    /// The bug it is an example of, or the rule it breaks.
    pub source: &'static str,
    /// What every seed is aimed at, for what chance seldom shows.
    pub aim: Option<Aim>,
}

impl Mutant {
    /// The plan of a seed in which it is looked for.
    pub fn plan(&self, seed: u64) -> Plan {
        match self.aim {
            Some(aim) => Plan::aimed(aim, seed),
            None => Plan::new(seed),
        }
    }
}

const fn mutant(name: &'static str, source: &'static str) -> Mutant {
    Mutant { name, source, aim: None }
}

const fn aimed(name: &'static str, source: &'static str, aim: Aim) -> Mutant {
    Mutant { name, source, aim: Some(aim) }
}

/// All of them.
pub const MUTANTS: &[Mutant] = &[
    mutant("ack before fsync", "S-8"),
    mutant("history acknowledged before fsync", "B-03, B-04"),
    mutant("leader counts before fsync", "S-8"),
    mutant("applied before fsync", "S-8"),
    mutant("fsync removed", "F2"),
    mutant("directory fsync removed", "F4"),
    mutant("found directory not made durable", "S-8"),
    aimed("initialize used up at once", "PAI-42", Aim::EmptyVoter),
    mutant("small file fsync removed", "B-13"),
    mutant("rename not made durable", "B-13"),
    mutant("snapshot fsync removed", "B-16"),
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
    aimed("empty server leads", "PAI-44", Aim::EmptyVoter),
    mutant("diff instead of trunc", "B-18"),
    mutant("unknown transaction kept", "B-18"),
    mutant("truncation keeps one more", "B-02"),
    aimed("truncation trusts every snapshot", "B-01", Aim::SlowSnapshot),
    mutant("old logs stay beside a copy", "B-16"),
    mutant("copy without its end", "P-11"),
    mutant("memory with a hole", "B-09"),
    mutant("digests trusted at once", "S-10"),
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
    aimed("copied change is hearsay", "R-2", Aim::BrokenChange),
    mutant("pause taken for silence", "steady"),
    aimed("elected for ever", "progress", Aim::BadLinks),
    aimed("elected by those it hears itself", "progress", Aim::BadLinks),
    aimed("looks answer looks", "progress", Aim::ChangingMembers),
    mutant("sync without proof", "FUT-06"),
    mutant("stale sync", "FUT-06"),
    mutant("sync answered before it is applied", "B7"),
    mutant("session goes back", "SES-06"),
    mutant("live session refused", "SES-10"),
    mutant("early expiry", "SES-07"),
    mutant("pause leaves no time to hear", "SES-07"),
    mutant("touch forgotten", "SES-07"),
    mutant("touches not relayed", "SES-07"),
    mutant("read overtakes", "ORD-04"),
    aimed("readers may write", "B-22", Aim::Readers),
    aimed("request timeout ignored", "ERR-10", Aim::Impatience),
    aimed("sent request said to be unsent", "ERR-10", Aim::Impatience),
    mutant("watch dropped", "WAT-14"),
    mutant("missed events dropped", "WAT-19"),
];

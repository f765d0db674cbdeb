//! The decision for a server whose ensemble has lost its quorum, and the data that are lost with
//! it. Pure.

use std::fmt;
use std::path::PathBuf;

use zebu_proto::{Epoch, Identity, ServerId, Zxid};

/// The facts that determine the decision.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Facts {
    /// The id of this server.
    pub(super) me: ServerId,
    /// This server's directories.
    pub(super) here: Place,
    /// Whether a configuration that the ensemble has agreed on outlives an empty directory. Then no
    /// file lets the server vote.
    pub(super) is_agreed: bool,
    /// Whether a running server has locked the directories.
    pub(super) is_locked: bool,
    /// Further directories.
    pub(super) others: Vec<Place>,
    /// The newest history that the operator knows of.
    pub(super) newest: Option<Zxid>,
    /// The members, with this server.
    pub(super) members: Vec<Member>,
}

/// The content of a directory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Place {
    pub(super) path: PathBuf,
    /// The last transaction; `None` without a history.
    pub(super) last: Option<Zxid>,
    /// The last transaction that is recorded as committed.
    pub(super) committed: Option<Zxid>,
    pub(super) current_epoch: Option<Epoch>,
    /// The recorded id of the ensemble.
    pub(super) identity: Identity,
    /// The damage.
    pub(super) damage: Option<String>,
}

/// The answers of a member.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Member {
    pub(super) server: ServerId,
    pub(super) votes: bool,
    /// Whether its quorum port is open: only a leader listens there.
    pub(super) leads: bool,
    pub(super) answer: Result<Answer, String>,
}

/// The answer to `srvr`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Answer {
    /// Empty if the member does not serve clients.
    pub(crate) mode: String,
    pub(crate) zxid: Option<Zxid>,
}

/// The possible decisions of the operator.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Decision {
    /// An empty server may vote.
    LetVote,
    /// A server continues with a history that ends before transactions that it has acknowledged.
    AcceptOlder,
    /// A server discards its history, and takes that of the others.
    GiveUp,
}

/// The decision that follows from the facts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Verdict {
    /// Another step is necessary first.
    Refused(String),
    /// This server needs no decision.
    Nothing(String),
    /// A decision is possible.
    May {
        decision: Decision,
        /// The name of the loss, for `--lose`.
        name: String,
        /// A description of the loss.
        lost: String,
    },
}

/// Determines the decision.
pub(super) fn decide(facts: &Facts) -> Verdict {
    let Facts { me, here, is_agreed, is_locked, members, .. } = facts;
    let mine = members.iter().find(|member| member.server == *me);
    if *is_locked || mine.is_some_and(|member| member.answer.is_ok()) {
        return Verdict::Refused(format!("server.{} runs: stop it first", me.0));
    }
    if let Some(damage) = &here.damage {
        return Verdict::Refused(format!(
            "{damage}: a server with damaged data does not vote, and takes a full copy from a leader; keep this directory \
             until one leads"
        ));
    }
    let serving = members.iter().find(|member| {
        let modes = ["leader", "follower", "observer"];
        member.leads || member.answer.as_ref().is_ok_and(|answer| modes.contains(&&*answer.mode))
    });
    match (here.last, here.committed, serving) {
        (Some(last), committed, None) if committed.is_none_or(|committed| committed <= last) => {
            Verdict::Nothing(format!(
                "this directory has everything that this server has acknowledged, up to {last}: keep it and start this server. \
                 Run this command at members that are empty or whose data were put back"
            ))
        }
        (Some(last), committed, Some(_)) if committed.is_none_or(|committed| committed <= last) => {
            Verdict::May {
                decision: Decision::GiveUp,
                name: format!("history-up-to-{last}"),
                lost: format!(
                    "a quorum serves. If this server logs that it does not follow, the quorum lacks transactions that are \
                     committed and that this server has, up to {last}. With this decision they are lost: the directories \
                     version-2 are moved away, and this server takes the quorum's history"
                ),
            }
        }
        (_, _, Some(member)) => Verdict::Nothing(format!(
            "a quorum serves, as server.{} shows: start this server unchanged, and the leader sends the missing transactions",
            member.server.0
        )),
        (Some(last), committed, None) => {
            let committed = committed.expect("it is behind what is committed");
            Verdict::May {
                decision: Decision::AcceptOlder,
                name: format!("behind-{last}-up-to-{committed}"),
                lost: format!(
                    "the data end at {last}, and this server has served {committed}. With this decision it votes with these data: \
                     what it has acknowledged after {last} is lost unless a member that runs has it{}",
                    silent(facts)
                ),
            }
        }
        (None, _, None) if *is_agreed && here.current_epoch.is_none_or(|epoch| epoch == Epoch(0)) => {
            Verdict::Refused(
                "this server is empty, and its configuration is one that the ensemble has agreed on: no file makes it vote. \
                 Copy the newest history that is left to it, see docs/recovery.md"
                    .to_owned(),
            )
        }
        (None, _, None) => let_vote(facts),
    }
}

fn let_vote(facts: &Facts) -> Verdict {
    let seen = facts.members.iter().filter_map(|member| member.answer.as_ref().ok()?.zxid);
    let found = facts.others.iter().filter_map(|place| place.last).chain(facts.newest);
    let Some(newest) = seen.chain(found).max().filter(|newest| *newest > Zxid::ZERO) else {
        return Verdict::Refused(
            "this server is empty, and no history was found: run this command at the members that have data, and pass the newest \
             zxid that it shows with --newest, or a copy of a dataDir with --also"
                .to_owned(),
        );
    };
    let lost = format!(
        "this server is empty. With this decision it votes all the same. The newest history that was found ends at {newest}: \
         all that was acknowledged after it is lost"
    );
    let committed =
        facts.others.iter().filter_map(|place| place.committed).chain(facts.here.committed);
    let known = committed.max().filter(|committed| *committed > newest);
    let known = known.map(|known| format!(", of which {known} is known to have been committed"));
    Verdict::May {
        decision: Decision::LetVote,
        name: format!("all-behind-{newest}"),
        lost: lost + &known.unwrap_or_default() + &silent(facts),
    }
}

/// Warns of voters whose disks may have a newer history.
fn silent(facts: &Facts) -> String {
    let silent: Vec<_> = (facts.members.iter())
        .filter(|member| member.votes && member.server != facts.me && member.answer.is_err())
        .map(|member| format!("server.{}", member.server.0))
        .collect();
    match &silent[..] {
        [] => String::new(),
        silent => format!(
            ". No answer came from {}: if a disk of theirs is left, look at it first",
            silent.join(", ")
        ),
    }
}

impl fmt::Display for Facts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "server.{}", self.me.0)?;
        for place in std::iter::once(&self.here).chain(&self.others) {
            writeln!(f, "  {place}")?;
        }
        if let Some(newest) = self.newest {
            writeln!(f, "  newest history, according to the operator: {newest}")?;
        }
        writeln!(f, "members")?;
        for Member { server, votes, leads, answer } in &self.members {
            let kind = if *votes { "voter" } else { "observer" };
            let answer = match answer {
                Ok(Answer { mode, zxid }) => {
                    let mode = if mode.is_empty() { "does not serve" } else { mode };
                    format!("{mode}, {}", shown(*zxid, "zxid", "zxid unknown"))
                }
                Err(why) => format!("no answer: {why}"),
            };
            let leads = if *leads { ", its quorum port is open" } else { "" };
            writeln!(f, "  server.{} ({kind}): {answer}{leads}", server.0)?;
        }
        Ok(())
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{}: {}, {}",
            self.path.display(),
            shown(self.last, "history up to", "no history"),
            shown(self.committed, "committed up to", "no file committed")
        )?;
        if let Some(epoch) = self.current_epoch {
            write!(f, ", epoch {:#x}", epoch.0)?;
        }
        match self.identity {
            Identity::Unknown => {}
            Identity::Proposed { id, .. } => write!(f, ", ensemble {id} (proposed)")?,
            Identity::Settled(id) => write!(f, ", ensemble {id}")?,
        }
        self.damage.as_ref().map_or(Ok(()), |damage| write!(f, ", damaged: {damage}"))
    }
}

fn shown(zxid: Option<Zxid>, with: &str, without: &str) -> String {
    zxid.map_or_else(|| without.to_owned(), |zxid| format!("{with} {zxid}"))
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Refused(why) => writeln!(f, "refused: {why}"),
            Self::Nothing(why) => writeln!(f, "nothing to decide: {why}"),
            Self::May { name, lost, .. } => writeln!(f, "decision: {lost}\nlost: {name}"),
        }
    }
}

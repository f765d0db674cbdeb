//! Checks `peers`, `roles`, `members`, `versions` and `acls`: judge the answers of the servers.

use std::collections::BTreeMap;
use std::io;

use zebu_client::{Acl, EnsembleId, Perms};
use zebu_zab::config::{Membership, Role};

use super::answers::{Answers, in_words};
use super::files::some;
use super::finding::{Check, Finding, Findings};

/// The first release that the original's project still maintains.
const VERSION_MIN: (u32, u32) = (3, 8);

/// Whether every member can be reached.
pub(super) fn peers(answers: &[Answers]) -> Vec<Finding> {
    let mut findings = Findings::of(Check::Peers);
    let remedy = "start that server, or open the port in the firewalls between the two";
    for member in answers {
        let line = format!("server.{}", member.server.0);
        if member.is_me {
            // Before a start, this state is normal.
            match (&member.status, &member.client) {
                (Err(why), Some(client)) => findings
                    .info(format!("no server answers here, at {}: {why}", shown(client)), ""),
                (Err(why), None) => findings.info(format!("this server was not asked: {why}"), ""),
                (Ok(_), _) => {}
            }
            continue;
        }
        let lost: Vec<_> = member.election.iter().filter(|(_, reached)| reached.is_err()).collect();
        for (at, reached) in &lost {
            let why = in_words(reached.err().unwrap_or(io::ErrorKind::Other));
            let text =
                format!("{line} cannot be reached at its election port {}: {why}", shown(at));
            // Another address of the same server may work, and an observer's vote does not count.
            if lost.len() == member.election.len() && member.role == Role::Participant {
                findings.error(text, remedy);
            } else {
                findings.warning(text, remedy);
            }
        }
        let leads = member.status.as_ref().is_ok_and(|status| status.mode == "leader");
        for (at, reached) in &member.quorum {
            match reached {
                Err(kind) if leads => findings.error(
                    format!(
                        "{line} leads and cannot be reached at its quorum port {}: {}",
                        shown(at),
                        in_words(*kind)
                    ),
                    remedy,
                ),
                // Only a leader listens on this port, but a packet filter that drops packets is
                // detected.
                Err(io::ErrorKind::TimedOut) if lost.is_empty() => findings.warning(
                    format!("packets to the quorum port {} of {line} are lost", shown(at)),
                    "open the port in the firewalls between the two",
                ),
                _ => {}
            }
        }
        match (&member.status, &member.client) {
            (Err(why), Some(client)) => findings.warning(
                format!("{line} does not answer at its client port {}: {why}", shown(client)),
                remedy,
            ),
            (Err(why), None) => findings.info(format!("{line} was not asked: {why}"), ""),
            (Ok(_), _) => {}
        }
    }
    findings.found
}

/// Whether servers run alone, and whether exactly one server leads. `is_ensemble`: the
/// configuration names several servers.
pub(super) fn roles(answers: &[Answers], is_ensemble: bool, was_member: bool) -> Vec<Finding> {
    let mut findings = Findings::of(Check::Roles);
    let in_mode = |mode: &str| -> Vec<String> {
        (answers.iter())
            .filter(|member| member.status.as_ref().is_ok_and(|status| status.mode == mode))
            .map(|member| format!("server.{}", member.server.0))
            .collect()
    };
    if !is_ensemble {
        if was_member {
            findings.error(
                "the configuration is for a standalone server, but the data belong to a member of an ensemble",
                "add the server.N lines; a member that starts alone takes writes that the ensemble never sees",
            );
        }
        let modes = ["leader", "follower", "observer"];
        if let Some(mode) = modes.into_iter().find(|mode| !in_mode(mode).is_empty()) {
            findings.error(
                format!("the running server is a {mode}, but the configuration is for a standalone server"),
                "check which configuration the server was started with",
            );
        }
        return findings.found;
    }
    let alone = in_mode("standalone");
    if !alone.is_empty() {
        findings.error(
            format!("{} runs alone, outside of the ensemble: writes to it are lost to the others", alone.join(", ")),
            "stop it, compare its configuration and myid with the others', move its data away, and start it as a member",
        );
    }
    let (leaders, waiting, read_only) = (in_mode("leader"), in_mode(""), in_mode("read-only"));
    if leaders.len() > 1 {
        findings.error(
            format!("{} lead at the same time", leaders.join(", ")),
            "if it stays like this, stop one of them: their member lists differ",
        );
    }
    let is_anybody_there = answers.iter().any(|member| member.status.is_ok());
    let is_everybody_asked = answers.iter().all(|member| member.status.is_ok());
    if leaders.is_empty() && is_anybody_there {
        let text = "no server that answers leads";
        if is_everybody_asked || !waiting.is_empty() || !read_only.is_empty() {
            findings.error(
                text,
                "look for members that cannot be reached, and into /health/ready of each",
            );
        } else {
            findings.warning(text, "ask the members that did not answer");
        }
    } else if !waiting.is_empty() {
        findings.warning(
            format!("{} does not serve clients", waiting.join(", ")),
            "/health/ready of that server shows the reason",
        );
    }
    findings.found
}

/// Whether all servers have the same list of members. `own`: the list in the configuration.
pub(super) fn members(answers: &[Answers], own: Option<&Membership>) -> Vec<Finding> {
    let mut findings = Findings::of(Check::Members);
    let Some(own) = own else { return findings.found };
    for member in answers {
        let Some(theirs) = &member.members else { continue };
        if is_same(own, theirs) {
            continue;
        }
        let line = format!("server.{}", member.server.0);
        if theirs.version() > own.version() && theirs.member(member.server).is_some() {
            findings.warning(
                format!("{line} has a newer list of members (version {:x}) than this configuration", theirs.version().0),
                "start this server: it learns the list; a new server needs the list in its configuration",
            );
        } else {
            findings.error(
                format!(
                    "{line} has another list of members than this configuration: {}",
                    difference(own, theirs)
                ),
                "make the server.N, group and weight lines the same on all members",
            );
        }
    }
    for pair in answers.windows(2) {
        let (Some(one), Some(two)) = (&pair[0].members, &pair[1].members) else { continue };
        if one.version() == two.version() && !is_same(one, two) {
            findings.error(
                format!(
                    "server.{} and server.{} have different lists of members: {}",
                    pair[0].server.0,
                    pair[1].server.0,
                    difference(one, two)
                ),
                "make the server.N, group and weight lines the same on all members",
            );
        }
    }
    findings.found
}

/// Whether all servers, and this server's data, belong to the same ensemble. `own`: the id in the
/// data.
pub(super) fn identities(answers: &[Answers], own: Option<EnsembleId>) -> Vec<Finding> {
    let mut findings = Findings::of(Check::Members);
    let mut ids: BTreeMap<EnsembleId, Vec<String>> = BTreeMap::new();
    for member in answers {
        if let Some(id) = member.ensemble {
            ids.entry(id).or_default().push(format!("server.{}", member.server.0));
        }
    }
    let remedy = "check the server.N lines of all members, and whether data were copied from another ensemble; \
                  a server of another ensemble needs an empty data directory to join this one";
    if ids.len() > 1 {
        let texts: Vec<String> =
            ids.iter().map(|(id, servers)| format!("{} to {id}", servers.join(", "))).collect();
        let text = format!("the members belong to different ensembles: {}", texts.join("; "));
        findings.error(text, remedy);
    }
    match (own, ids.keys().next()) {
        (Some(own), Some(id)) if !ids.contains_key(&own) => findings.error(
            format!("the data here belong to ensemble {own}, and the members to {id}"),
            remedy,
        ),
        (_, Some(id)) if ids.len() == 1 => findings.info(format!("the ensemble is {id}"), ""),
        (Some(own), None) => findings.info(format!("the data here belong to ensemble {own}"), ""),
        _ => {}
    }
    findings.found
}

/// Compares without versions, because a list in a file may have none.
fn is_same(one: &Membership, two: &Membership) -> bool {
    one.has_same_members(two) && one.verifier() == two.verifier()
}

fn difference(own: &Membership, theirs: &Membership) -> String {
    let mut texts = Vec::new();
    for member in own.members() {
        match theirs.member(member.id) {
            None => texts.push(format!("server.{} is missing there", member.id.0)),
            Some(other) if !other.is_same_as(member) => {
                texts.push(format!("server.{} differs there", member.id.0));
            }
            Some(_) => {}
        }
    }
    for other in theirs.members().filter(|other| own.member(other.id).is_none()) {
        texts.push(format!("server.{} is there only", other.id.0));
    }
    if texts.is_empty() {
        texts.push("groups or weights differ".to_owned());
    }
    some(&texts)
}

/// Whether all servers run the same, maintained version.
pub(super) fn versions(answers: &[Answers]) -> Vec<Finding> {
    let mut findings = Findings::of(Check::Versions);
    let mut versions: BTreeMap<&str, Vec<String>> = BTreeMap::new();
    for member in answers {
        let Ok(status) = &member.status else { continue };
        if !status.version.is_empty() {
            let servers = versions.entry(&status.version).or_default();
            servers.push(format!("server.{}", member.server.0));
        }
    }
    if versions.len() > 1 {
        let texts: Vec<String> = (versions.iter())
            .map(|(version, servers)| format!("{} on {}", version, servers.join(", ")))
            .collect();
        findings.warning(
            format!("the members run different versions: {}", texts.join("; ")),
            "finish the upgrade: restart the older members with the newer version, one at a time",
        );
    }
    for (version, servers) in &versions {
        let mut numbers = version.split('.').map_while(|part| part.parse::<u32>().ok());
        let (Some(major), Some(minor)) = (numbers.next(), numbers.next()) else { continue };
        if (major, minor) < VERSION_MIN {
            findings.warning(
                format!(
                    "{} runs {version}, which gets no security fixes any more",
                    servers.join(", ")
                ),
                "upgrade it",
            );
        }
    }
    findings.found
}

/// Whether every client may change the top znodes.
pub(super) fn acls(answers: &[Answers]) -> Vec<Finding> {
    let mut findings = Findings::of(Check::Acls);
    let Some(asked) = answers.iter().find(|member| !member.acls.is_empty()) else {
        findings.info("no server has shown its ACLs", "");
        return findings.found;
    };
    let open: Vec<String> = (asked.acls.iter())
        .filter(|(_, acl)| acl.iter().any(is_open))
        .map(|(path, _)| path.clone())
        .collect();
    if !open.is_empty() {
        findings.warning(
            format!("every client may change {}", some(&open)),
            "give these znodes ACLs (setAcl), and let no client in that does not authenticate (enforce.auth.enabled=true)",
        );
    }
    findings.found
}

fn is_open(acl: &Acl) -> bool {
    let changing = Perms::WRITE.or(Perms::CREATE).or(Perms::DELETE).or(Perms::ADMIN);
    (acl.id.scheme.as_str(), acl.id.id.as_str()) == ("world", "anyone")
        && acl.perms.intersects(changing)
}

fn shown(at: &zebu_proto::HostPort) -> String {
    if at.host.contains(':') {
        format!("[{}]:{}", at.host, at.port)
    } else {
        format!("{}:{}", at.host, at.port)
    }
}

#[cfg(test)]
mod tests;

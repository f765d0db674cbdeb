//! Compares the members of an ensemble while they serve.

use std::collections::BTreeMap;
use std::path::Path;
use std::thread;
use std::time::Duration;

use zebu_config::Config;
use zebu_credentials::Dialer;
use zebu_proto::{HostPort, Zxid};

use super::MembersArgs;
use super::report::{Finding, Kind, Place, Report};
use super::spool::{Difference, Spool, compare};
use super::walk::{Seen, Session};
use crate::ask;
use crate::configuration::Access;
use crate::doctor::answers::client_of;
use crate::failure::Failure;
use crate::recover::look::parse;

/// The number of rounds of requests until all members have applied the same transaction.
const ROUNDS_MAX: usize = 5;
/// The number of repeated reads of differing znodes until their state is stable.
const READS_MAX: usize = 10;
/// The most differing znodes that are read again. With more, writes between the reads are likely.
const REREAD_MAX: usize = 100_000;

/// A member of the ensemble.
#[derive(Clone, Debug)]
pub(super) struct Member {
    /// Its name.
    pub(super) name: String,
    /// Where it serves clients.
    pub(super) client: Option<HostPort>,
    /// The access, address and path of its HTTP server, if it may have one.
    pub(super) admin: Option<(Dialer, HostPort, String)>,
}

/// The answers of a member.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Answer {
    pub(super) mode: String,
    pub(super) zxid: Option<Zxid>,
    pub(super) znodes: Option<u64>,
    /// Digests of its tree, by transaction.
    pub(super) digests: BTreeMap<Zxid, i64>,
}

/// Verifies.
///
/// # Errors
/// The configuration, or a temporary file.
pub(super) fn verify(args: &MembersArgs) -> Result<Report, Failure> {
    let read = |path: &Path| std::fs::read(path);
    let config = args.configuration.load(zebu_config::variables(), &read)?.config;
    let access = Access::of(&args.credentials)?;
    let members = members_of(&config, &access)?;
    let auth = args.auth_file.as_deref().map(identity).transpose()?;
    let timeout = Duration::from_millis(args.timeout);
    let mut report = Report::default();
    let answers = rounds(&members, &access, timeout);
    judge(&members, &answers, args.znodes, &mut report);
    if args.znodes {
        znodes(&members, &access, auth.as_ref(), timeout, args.limit, &mut report)?;
    }
    Ok(report)
}

/// Reads a scheme and a credential from a file.
fn identity(path: &Path) -> Result<(String, String), Failure> {
    let value = zebu_backup::backup::read_authorization(path)?;
    let text = value.to_str()?;
    let (scheme, credential) = text.split_once(' ').unwrap_or((text, ""));
    Ok((scheme.to_owned(), credential.trim().to_owned()))
}

fn members_of(config: &Config, access: &Access) -> Result<Vec<Member>, Failure> {
    let Some(ensemble) = &config.ensemble else {
        return Err(Failure::new(
            "error: the configuration names no other server, so there is nothing to compare; hint: zebu verify directories checks \
             the data of a server that stands alone",
        ));
    };
    let all = &ensemble.members;
    let admin = access.admin(config);
    let admin = admin.as_ref();
    Ok((all.members())
        .map(|member| {
            let client = client_of(member, all, config, access.dialer.is_secure());
            let admin = client.as_ref().zip(admin).map(|(client, (dialer, admin))| {
                let at = HostPort::new(client.host.clone(), admin.port);
                (dialer.clone(), at, admin.command_url.clone())
            });
            // Members on one host cannot all have this server's port.
            let shares = |other: &zebu_zab::config::Member| {
                let host = |member: &zebu_zab::config::Member| {
                    member.addresses.first().map(|at| at.host.clone())
                };
                other.id != member.id && host(other) == host(member)
            };
            let admin = admin.filter(|_| !all.members().any(shares));
            Member { name: format!("server.{}", member.id.0), client, admin }
        })
        .collect())
}

/// Asks all members until they have applied the same transaction, for a limited number of rounds.
fn rounds(members: &[Member], access: &Access, timeout: Duration) -> Vec<Result<Answer, String>> {
    let mut before = ask_all(members, access, timeout);
    for _ in 1..ROUNDS_MAX {
        let now = ask_all(members, access, timeout);
        // Two equal answers: the counts and the transaction belong together.
        let is_same = now == before && one_zxid(&now).is_some();
        before = now;
        if is_same {
            break;
        }
    }
    before
}

/// The last transaction of all serving members, if it is the same.
fn one_zxid(answers: &[Result<Answer, String>]) -> Option<Zxid> {
    let mut zxids = answers.iter().flatten().filter_map(|answer| answer.zxid);
    let first = zxids.next()?;
    zxids.all(|zxid| zxid == first).then_some(first)
}

fn ask_all(members: &[Member], access: &Access, timeout: Duration) -> Vec<Result<Answer, String>> {
    thread::scope(|scope| {
        let asked: Vec<_> = members
            .iter()
            .map(|member| scope.spawn(move || ask_one(member, access, timeout)))
            .collect();
        let join = |thread: thread::ScopedJoinHandle<'_, _>| {
            thread.join().unwrap_or_else(|_| Err("the question failed".to_owned()))
        };
        asked.into_iter().map(join).collect()
    })
}

fn ask_one(member: &Member, access: &Access, timeout: Duration) -> Result<Answer, String> {
    let dialer = &access.dialer;
    let Some(client) = &member.client else {
        return Err("its server.N line names no client port, and another member has the same host"
            .to_owned());
    };
    let text = ask::word(dialer, client, "srvr", timeout).map_err(|error| error.to_string())?;
    let answer = parse(&text).ok_or_else(|| {
        format!("the answer to srvr is {:?}", text.lines().next().unwrap_or_default())
    })?;
    let line = |key: &str| text.lines().find_map(|line| line.strip_prefix(key));
    let znodes = line("Node count: ").and_then(|count| count.trim().parse().ok());
    let digests =
        ask::word(dialer, client, "hash", timeout).ok().and_then(|text| digests_of_word(&text));
    let digests = digests.or_else(|| {
        let (dialer, at, url) = member.admin.as_ref()?;
        let page = ask::get(dialer, at, &format!("{url}/hash"), timeout).ok()?;
        digests_of_page(&page.body)
    });
    let digests = digests.unwrap_or_default();
    Ok(Answer { mode: answer.mode, zxid: answer.zxid, znodes, digests })
}

/// Parses lines such as `80: 270434420806`, one for each transaction.
fn digests_of_word(text: &str) -> Option<BTreeMap<Zxid, i64>> {
    let line = |line: &str| {
        let (zxid, digest) = line.split_once(": ")?;
        Some((Zxid(i64::from_str_radix(zxid, 16).ok()?), digest.trim().parse().ok()?))
    };
    text.lines().map(line).collect()
}

/// Parses the answer of `/commands/hash`.
fn digests_of_page(body: &str) -> Option<BTreeMap<Zxid, i64>> {
    let json: serde_json::Value = serde_json::from_str(body).ok()?;
    let digest = |entry: &serde_json::Value| {
        Some((Zxid(entry["zxid"].as_i64()?), entry["digest"].as_i64()?))
    };
    json["digests"].as_array()?.iter().map(digest).collect()
}

/// Compares the members' answers.
pub(super) fn judge(
    members: &[Member],
    answers: &[Result<Answer, String>],
    znodes: bool,
    report: &mut Report,
) {
    let mut serving = Vec::new();
    for (member, answer) in members.iter().zip(answers) {
        let mut facts = Vec::new();
        match answer {
            Err(why) => {
                report.add(Finding::new(Kind::Unknown, &member.name, format!("no answer: {why}")));
            }
            Ok(answer) if answer.mode.is_empty() => {
                report.add(Finding::new(
                    Kind::Unknown,
                    &member.name,
                    "it does not serve clients at the moment",
                ));
            }
            Ok(answer) => {
                facts.push(("mode", answer.mode.clone()));
                if let Some(zxid) = answer.zxid {
                    facts.push(("epoch", zxid.epoch().0.to_string()));
                    facts.push(("last", zxid.to_string()));
                }
                facts.extend(answer.znodes.map(|count| ("znodes", count.to_string())));
                facts.push(("digests", answer.digests.len().to_string()));
                serving.push((member, answer));
            }
        }
        report.places.push(Place { name: member.name.clone(), facts });
    }
    let leaders: Vec<_> = (serving.iter())
        .filter(|(_, answer)| answer.mode == "leader")
        .map(|(member, _)| member.name.as_str())
        .collect();
    if leaders.len() > 1 {
        let text = format!("more than one member leads: {}", leaders.join(", "));
        report.add(Finding::new(Kind::Unknown, "", text));
    }
    if serving.len() < 2 {
        report.add(Finding::new(
            Kind::Unknown,
            "",
            "fewer than two members serve, so there is nothing to compare",
        ));
        return;
    }
    let zxids: Vec<_> = serving.iter().map(|(_, answer)| answer.zxid).collect();
    if zxids.iter().all(|zxid| *zxid == zxids[0]) && zxids[0].is_some() {
        report.compared_at = zxids[0];
        let counts: Vec<_> = serving.iter().map(|(_, answer)| answer.znodes).collect();
        if counts.iter().any(|count| *count != counts[0]) {
            let counts: Vec<_> = (serving.iter())
                .map(|(member, answer)| {
                    let count = answer.znodes.map_or("unknown".to_owned(), |it| it.to_string());
                    format!("{count} in {}", member.name)
                })
                .collect();
            let text = format!("znodes: {}", counts.join(", "));
            report.add(Finding::new(Kind::Differs, "", text));
        }
    } else {
        let text = "the members were at different transactions each time they were asked, so their counts are not compared";
        report.add(Finding::new(Kind::Note, "", text));
    }
    compare_digests(&serving, znodes, report);
}

/// Compares the digests after each transaction that at least two members remember.
fn compare_digests(serving: &[(&Member, &Answer)], znodes: bool, report: &mut Report) {
    let mut by_zxid: BTreeMap<Zxid, Vec<(&str, i64)>> = BTreeMap::new();
    for (member, answer) in serving {
        for (zxid, digest) in &answer.digests {
            by_zxid.entry(*zxid).or_default().push((&member.name, *digest));
        }
    }
    let mut differing = (by_zxid.iter())
        .filter(|(_, found)| found.iter().any(|(_, digest)| *digest != found[0].1))
        .peekable();
    if let Some((zxid, found)) = differing.peek() {
        let found: Vec<_> =
            found.iter().map(|(name, digest)| format!("{digest:#x} in {name}")).collect();
        let text = format!("digest after transaction {zxid}: {}", found.join(", "));
        let finding = Finding::new(Kind::Differs, "", text).at(**zxid);
        let count = differing.count();
        let text = format!("{}; {count} digests differ", finding.text);
        report.add(Finding { text, ..finding });
        return;
    }
    let compared = by_zxid.values().filter(|found| found.len() == serving.len()).count();
    if compared > 0 {
        let newest = by_zxid.iter().rev().find(|(_, found)| found.len() == serving.len());
        let newest = newest.map_or(Zxid::ZERO, |(zxid, _)| *zxid);
        let text = format!(
            "{compared} digests are the same in all members, the newest after transaction {newest}"
        );
        report.add(Finding::new(Kind::Note, "", text));
        return;
    }
    // Every znode is compared, so nothing is unknown without the digests.
    let kind = if znodes { Kind::Note } else { Kind::Unknown };
    let text = "no digest was compared: members answer neither the word hash (4lw.commands.whitelist) nor the HTTP command \
                hash, or have none in common, as they keep one of every 128 transactions; hint: --znodes compares every znode";
    report.add(Finding::new(kind, "", text));
}

/// Opens a session with every serving member, and syncs each.
fn sessions(
    members: &[Member],
    access: &Access,
    auth: Option<&(String, String)>,
    timeout: Duration,
    report: &mut Report,
) -> Vec<(String, Session)> {
    let mut sessions = Vec::new();
    for member in members {
        let Some(client) = &member.client else { continue };
        let opened = Session::open(client, access, auth, timeout);
        match opened.and_then(|session| session.sync().map(|()| session)) {
            Ok(session) => sessions.push((member.name.clone(), session)),
            Err(error) => {
                let text = format!("its znodes cannot be read: {error}");
                report.add(Finding::new(Kind::Unknown, &member.name, text));
            }
        }
    }
    sessions
}

/// Reads every znode of these members, all members at once. Returns those that could be read.
fn read_all(
    sessions: Vec<(String, Session)>,
    report: &mut Report,
) -> (Vec<Spool>, Vec<(String, Session)>) {
    let read: Vec<_> = thread::scope(|scope| {
        let walk = |session: &Session| {
            let mut spool = Spool::new()?;
            let denied = session.walk(&mut spool)?;
            Ok::<_, Failure>((spool, denied))
        };
        let threads: Vec<_> =
            sessions.iter().map(|(_, session)| scope.spawn(move || walk(session))).collect();
        threads.into_iter().map(|thread| thread.join().expect("a walk does not panic")).collect()
    });
    let (mut spools, mut readable) = (Vec::new(), Vec::new());
    for ((name, session), read) in sessions.into_iter().zip(read) {
        match read {
            Ok((spool, denied)) => {
                if denied > 0 {
                    let text = format!(
                        "{denied} znodes may not be read; hint: --auth-file names an identity that may"
                    );
                    report.add(Finding::new(Kind::Unknown, &name, text));
                }
                spools.push(spool);
                readable.push((name, session));
            }
            Err(error) => {
                let text = format!("its znodes cannot be read: {error}");
                report.add(Finding::new(Kind::Unknown, &name, text));
                session.close();
            }
        }
    }
    (spools, readable)
}

/// Reads and compares every znode of every serving member.
pub(super) fn znodes(
    members: &[Member],
    access: &Access,
    auth: Option<&(String, String)>,
    timeout: Duration,
    limit: usize,
    report: &mut Report,
) -> Result<(), Failure> {
    let sessions = sessions(members, access, auth, timeout, report);
    let (spools, compared) = read_all(sessions, report);
    if spools.len() < 2 {
        report.add(Finding::new(
            Kind::Unknown,
            "",
            "the znodes of fewer than two members could be read",
        ));
    } else {
        compare_znodes(&compared, spools, limit, report)?;
    }
    for (_, session) in compared {
        session.close();
    }
    Ok(())
}

/// Compares the znodes that were read, reads those that differ again, and reports the result.
fn compare_znodes(
    compared: &[(String, Session)],
    mut spools: Vec<Spool>,
    limit: usize,
    report: &mut Report,
) -> Result<(), Failure> {
    let mut found = Vec::new();
    compare(&mut spools, &mut |difference| {
        found.push(difference);
        found.len() <= REREAD_MAX
    })?;
    let is_cut = found.len() > REREAD_MAX;
    let znodes: u64 = spools.iter().map(|spool| spool.znodes).max().unwrap_or_default();
    drop(spools);
    let (confirmed, unsettled) = match reread(compared, found) {
        Ok(read) => read,
        Err(error) => {
            let text = format!("znodes that differed could not be read again: {error}");
            report.add(Finding::new(Kind::Unknown, "", text));
            (Vec::new(), 0)
        }
    };
    report.compared = compared.iter().map(|(name, _)| name.clone()).collect();
    let all = confirmed.len() as u64;
    let more = if is_cut { ", and there are more" } else { "" };
    report.differing = Some(all);
    if all > 0 {
        let text = format!("{all} of {znodes} znodes differ{more}");
        report.add(Finding::new(Kind::Differs, "", text));
    } else {
        report.add(Finding::new(Kind::Note, "", format!("{znodes} znodes were compared")));
    }
    if unsettled > 0 {
        let text = format!(
            "{unsettled} znodes changed each time they were read, so they were not compared"
        );
        report.add(Finding::new(Kind::Unknown, "", text));
    }
    report.znodes = confirmed;
    report.znodes.truncate(limit);
    Ok(())
}

/// Reads znodes again until they are equal, or stay different. Returns the differing ones, and the
/// number of those that changed all the time.
fn reread(
    sessions: &[(String, Session)],
    found: Vec<Difference>,
) -> zebu_client::Result<(Vec<Difference>, u64)> {
    let mut open: Vec<(String, Option<Vec<Seen>>)> =
        found.into_iter().map(|difference| (difference.path, None)).collect();
    let mut confirmed = Vec::new();
    for _ in 0..READS_MAX {
        if open.is_empty() {
            break;
        }
        let paths: Vec<String> = open.iter().map(|(path, _)| path.clone()).collect();
        let mut by_path: Vec<Vec<Seen>> = vec![Vec::new(); paths.len()];
        for (_, session) in sessions {
            session.sync()?;
            for (at, seen) in session.again(&paths)?.into_iter().enumerate() {
                by_path[at].push(seen);
            }
        }
        let mut left = Vec::new();
        for ((path, before), now) in open.into_iter().zip(by_path) {
            let is_settled = now.iter().all(|seen| *seen == now[0]) || now.contains(&Seen::Denied);
            if is_settled {
                continue;
            }
            if before.as_ref() == Some(&now) {
                let znodes = now.into_iter().map(|seen| match seen {
                    Seen::There(znode) => Some(znode),
                    Seen::Missing | Seen::Denied => None,
                });
                confirmed.push(Difference { path, znodes: znodes.collect() });
            } else {
                left.push((path, Some(now)));
            }
        }
        open = left;
    }
    Ok((confirmed, open.len() as u64))
}

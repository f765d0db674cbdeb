//! The answers of a standalone server, or of all members of an ensemble. Each server is asked once,
//! and all servers at the same time.
//!
//! The checks connect to ports and close the connections again. They send the words `srvr`, `mntr`,
//! `conf` and `cons`. A session reads `/zookeeper/config` and the ACLs of the top znodes. Apart
//! from the session itself, nothing is written.

use std::io;
use std::thread;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use zebu_client::{Acl, Connector, EnsembleId, blocking};
use zebu_config::Config;
use zebu_credentials::Dialer;
use zebu_proto::{HostPort, ServerId};
use zebu_zab::config::{CONFIG_PATH, Member, Membership, Role};

use super::clocks::{Skew, parse_date};
use crate::ask;
use crate::configuration::Access;

/// The most znodes whose ACLs are read.
const ZNODES_MAX: usize = 1_000;

/// Stands for a server that is no member of an ensemble.
const ALONE: ServerId = ServerId(0);

/// The reason why a server with an unknown client port is not asked.
const SHARES_HOST: &str =
    "its server.N line names no client port, and another member has the same host";

/// The result of an attempt to connect.
pub(super) type Reached = Result<(), io::ErrorKind>;

/// The answers of one server.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Answers {
    pub(super) server: ServerId,
    pub(super) is_me: bool,
    pub(super) role: Role,
    /// Each election address.
    pub(super) election: Vec<(HostPort, Reached)>,
    /// Each quorum address.
    pub(super) quorum: Vec<(HostPort, Reached)>,
    /// The client address for connections with, or without, TLS, as far as this configuration
    /// tells.
    pub(super) client: Option<HostPort>,
    /// Mode and version from `srvr`, or the reason why there are none.
    pub(super) status: Result<Status, String>,
    /// The members that it knows.
    pub(super) members: Option<Membership>,
    /// The id of the ensemble that it belongs to; servers of the original have none.
    pub(super) ensemble: Option<EnsembleId>,
    /// How far its clock is ahead.
    pub(super) skew: Option<Skew>,
    /// How many files it may open.
    pub(super) files_max: Option<u64>,
    /// The ACLs of the root and of the znodes below it.
    pub(super) acls: Vec<(String, Vec<Acl>)>,
}

/// The answer to `srvr`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Status {
    pub(super) version: String,
    /// `leader`, `follower`, `observer`, `standalone`, `read-only`; empty if the server does not
    /// serve clients.
    pub(super) mode: String,
}

impl Status {
    /// Parses an answer; `None` if it is invalid.
    pub(super) fn parse(answer: &str) -> Option<Self> {
        let line = |key: &str| answer.lines().find_map(|line| line.strip_prefix(key));
        if answer.starts_with("This ZooKeeper instance is not currently serving requests") {
            return Some(Self { version: String::new(), mode: String::new() });
        }
        let version = line("Zookeeper version: ")?;
        let version = version.split([',', '-']).next().unwrap_or_default();
        let mode = line("Mode: ").unwrap_or_default();
        Some(Self { version: version.to_owned(), mode: mode.trim().to_owned() })
    }
}

/// Asks all servers of the configuration.
pub(super) fn look(config: &Config, access: &Access, timeout: Duration) -> Vec<Answers> {
    let is_secure = access.dialer.is_secure();
    let mut asked = match &config.ensemble {
        None => {
            let mut own = unasked(ALONE, true, Role::Participant, own_client(config, is_secure));
            if own.client.is_none() && config.client_tls.is_none() {
                own.status = Err("this configuration has no port for clients".to_owned());
            }
            vec![own]
        }
        Some(ensemble) => (ensemble.members.members())
            .map(|member| {
                let is_me = member.id == ensemble.me;
                // A certificate is issued for a host, and hardly ever for 127.0.0.1.
                let client = if is_me && member.client.is_none() && !is_secure {
                    own_client(config, false)
                } else {
                    client_of(member, &ensemble.members, config, is_secure)
                };
                let is_unknown = client.is_none() && port_of(config, is_secure).is_some();
                let mut answers = unasked(member.id, is_me, member.role, client);
                if is_unknown {
                    answers.status = Err(SHARES_HOST.to_owned());
                }
                answers.election = with(member.election_addresses());
                answers.quorum = with(member.quorum_addresses());
                answers
            })
            .collect(),
    };
    let admin = access.admin(config).map(|(dialer, admin)| (dialer, admin.port));
    let admin = admin.as_ref();
    thread::scope(|scope| {
        for answers in &mut asked {
            scope.spawn(move || ask_one(answers, access, admin, timeout));
        }
    });
    asked
}

/// The client port of this server with TLS, or without.
fn port_of(config: &Config, is_secure: bool) -> Option<u16> {
    let secure = config.client_tls.as_ref().filter(|_| is_secure).and_then(|tls| tls.port);
    secure.or(config.net.client_port).filter(|port| *port > 0)
}

/// The client address of another member, with TLS or without: from its line, and otherwise with the
/// port of this server. Members that share a host have different ports, so their addresses are
/// unknown.
pub(crate) fn client_of(
    member: &Member,
    all: &Membership,
    config: &Config,
    is_secure: bool,
) -> Option<HostPort> {
    // The port in a line is for clients without TLS. It may serve TLS too.
    let has_own_port = config.client_tls.as_ref().is_some_and(|tls| tls.port.is_some());
    let named = member.client.as_ref().filter(|_| !(is_secure && has_own_port));
    client_at(member, all, named, port_of(config, is_secure))
}

/// The same, with the address in the member's line, unless that port is of another kind.
pub(crate) fn client_at(
    member: &Member,
    all: &Membership,
    named: Option<&HostPort>,
    port: Option<u16>,
) -> Option<HostPort> {
    let host_of = |member: &Member| member.addresses.first().map(|at| at.host.clone());
    let host = host_of(member)?;
    match named {
        Some(client) if client.is_wildcard() => Some(HostPort::new(host, client.port)),
        Some(client) => Some(client.clone()),
        None => {
            let sharing = all.members().filter(|other| host_of(other).as_ref() == Some(&host));
            let is_alone = sharing.count() == 1;
            port.filter(|_| is_alone).map(|port| HostPort::new(host, port))
        }
    }
}

fn with(addresses: Vec<HostPort>) -> Vec<(HostPort, Reached)> {
    addresses.into_iter().map(|at| (at, Ok(()))).collect()
}

fn own_client(config: &Config, is_secure: bool) -> Option<HostPort> {
    let port = port_of(config, is_secure)?;
    let secure = config.client_tls.as_ref().filter(|tls| is_secure && tls.port.is_some());
    let address = match secure {
        Some(tls) => tls.address.as_deref(),
        None => config.net.client_address.as_deref(),
    };
    Some(HostPort::new(address.unwrap_or("127.0.0.1"), port))
}

pub(super) fn unasked(
    server: ServerId,
    is_me: bool,
    role: Role,
    client: Option<HostPort>,
) -> Answers {
    Answers {
        server,
        is_me,
        role,
        election: Vec::new(),
        quorum: Vec::new(),
        client,
        status: Err(
            "the server accepts only TLS clients: set the TLS properties in the file of --client-configuration"
                .to_owned(),
        ),
        members: None,
        ensemble: None,
        skew: None,
        files_max: None,
        acls: Vec::new(),
    }
}

fn ask_one(
    answers: &mut Answers,
    access: &Access,
    admin: Option<&(Dialer, u16)>,
    timeout: Duration,
) {
    for (at, reached) in answers.election.iter_mut().chain(&mut answers.quorum) {
        *reached = ask::connect(at, timeout).map(drop).map_err(|error| error.kind());
    }
    let Some(client) = answers.client.clone() else { return };
    let word = |word: &str| ask::word(&access.dialer, &client, word, timeout);
    answers.status = word("srvr").map_err(|error| fault_in_words(&error)).and_then(|answer| {
        let first = answer.lines().next().unwrap_or_default().to_owned();
        Status::parse(&answer).ok_or_else(|| format!("the answer to srvr is {first:?}"))
    });
    let conf = word("conf").unwrap_or_default();
    if let Some(other) = server_of_conf(&conf).filter(|other| *other != answers.server)
        && answers.server != ALONE
    {
        answers.status = Err(format!("server.{} answers there", other.0));
    }
    let Ok(status) = &answers.status else { return };
    let is_serving = !status.mode.is_empty();
    answers.members = members_of_conf(&conf);
    answers.files_max = word("mntr").ok().and_then(|answer| files_of_mntr(&answer));
    if let Some((dialer, port)) = admin
        && !answers.is_me
    {
        let before = now_ms();
        let at = HostPort::new(client.host.clone(), *port);
        let page = ask::get(dialer, &at, "/commands/ruok", timeout);
        let date = page.ok().and_then(|page| parse_date(page.header("date")?));
        answers.skew = date.map(|date| Skew::between(before, date, now_ms(), 1_000));
    }
    if is_serving {
        // This check ignores that the server ends the session; `srvr` has shown its mode.
        session(answers, &client, access, timeout).ok();
    }
}

/// The checks that need a session.
fn session(
    answers: &mut Answers,
    at: &HostPort,
    access: &Access,
    timeout: Duration,
) -> zebu_client::Result<()> {
    let host = if at.host.contains(':') { format!("[{}]", at.host) } else { at.host.clone() };
    let connector = Connector::new()
        .session_timeout(Duration::from_secs(10))
        .connection_wait(timeout)
        .request_timeout(timeout)
        .give_up_after(timeout)
        .allow_read_only();
    let connector = access.credentials.apply(connector);
    let before = now_ms();
    let client = blocking::Client::open(connector, &format!("{host}:{}", at.port))?;
    let after = now_ms();
    answers.ensemble = client.ensemble();
    if let Ok(cons) = ask::word(&access.dialer, at, "cons", timeout)
        && let Some(made) = established(&cons, &client.session_id().to_string())
    {
        answers.skew = Some(Skew::between(before, made, after, 1));
    }
    if let Ok((text, _)) = client.get_data(CONFIG_PATH)
        && let Some(members) = Membership::agreed(&text)
    {
        answers.members = Some(members);
    }
    let (mut children, _) = client.get_children("/")?;
    children.sort();
    children.truncate(ZNODES_MAX);
    let paths = children.iter().map(|name| format!("/{name}"));
    for path in std::iter::once("/".to_owned()).chain(paths) {
        // The znode may be gone, or this user may not read it.
        if let Ok((acl, _)) = client.get_acl(&path) {
            answers.acls.push((path, acl));
        }
    }
    client.close()
}

/// The time at which the session's connection was opened, from `cons`.
fn established(cons: &str, session: &str) -> Option<i64> {
    let line = cons.lines().find(|line| line.contains(&format!("sid={session},")))?;
    line.split(['(', ',']).find_map(|part| part.strip_prefix("est="))?.parse().ok()
}

/// The id of the answering server.
fn server_of_conf(conf: &str) -> Option<ServerId> {
    conf.lines().find_map(|line| line.strip_prefix("serverId="))?.trim().parse().ok().map(ServerId)
}

fn members_of_conf(conf: &str) -> Option<Membership> {
    let (_, members) = conf.split_once("membership: ")?;
    Membership::agreed(members.trim().as_bytes())
}

fn files_of_mntr(mntr: &str) -> Option<u64> {
    let mut lines = mntr.lines().filter_map(|line| line.split_once('\t'));
    lines.find(|(name, _)| *name == "zk_max_file_descriptor_count")?.1.trim().parse().ok()
}

/// Errors of TLS are reported unchanged.
fn fault_in_words(error: &io::Error) -> String {
    match error.kind() {
        io::ErrorKind::InvalidData | io::ErrorKind::InvalidInput => error.to_string(),
        kind => in_words(kind),
    }
}

pub(super) fn in_words(kind: io::ErrorKind) -> String {
    match kind {
        io::ErrorKind::ConnectionRefused => "no server listens there".to_owned(),
        io::ErrorKind::TimedOut => "no answer in time".to_owned(),
        kind => kind.to_string(),
    }
}

fn now_ms() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_millis()).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn srvr_is_read() {
        let answer = "Zookeeper version: 3.9.5-abc, built on 2025\nLatency: 0\nMode: leader\nNode count: 5\n";
        let status = Status::parse(answer).unwrap();
        assert_eq!((&*status.version, &*status.mode), ("3.9.5", "leader"));
        let waiting = "This ZooKeeper instance is not currently serving requests\n";
        assert_eq!(Status::parse(waiting).unwrap().mode, "");
        assert_eq!(
            Status::parse("srvr is not executed because it is not in the whitelist.\n"),
            None
        );
    }

    #[test]
    fn a_session_is_found_among_connections() {
        let cons = " /127.0.0.1:1[1](queued=0,recved=1,sent=1,sid=0x10,lop=SESS,est=17,to=5)\n \
                    /127.0.0.1:2[1](queued=0,recved=1,sent=1,sid=0x1,lop=SESS,est=18,to=5)\n \
                    /127.0.0.1:3[0](queued=0,recved=1,sent=0)\n";
        assert_eq!(established(cons, "0x1"), Some(18));
        assert_eq!(established(cons, "0x2"), None);
    }

    #[test]
    fn other_words_are_read() {
        let conf = "serverId=1\nmembership: \nserver.1=a:1:2:participant\nserver.2=b:1:2:participant;0.0.0.0:5\nversion=7\n";
        let members = members_of_conf(conf).unwrap();
        assert_eq!((members.voters().count(), members.version().0), (2, 7));
        assert_eq!(members_of_conf("serverId=0\n"), None);
        assert_eq!(files_of_mntr("zk_x\t1\nzk_max_file_descriptor_count\t1024\n"), Some(1024));
        assert_eq!(files_of_mntr("zk_max_file_descriptor_count\t"), None);
    }

    #[test]
    fn a_client_port_is_guessed_only_where_no_other_member_has_the_host() {
        let text = "server.1=a:1:2\nserver.2=b:1:2\nserver.3=b:3:4\nserver.4=b:5:6;c:7\nserver.5=d:1:2;0.0.0.0:8";
        let all = Membership::agreed(text.as_bytes()).unwrap();
        let clients: Vec<_> = all
            .members()
            .map(|member| client_at(member, &all, member.client.as_ref(), Some(2181)))
            .collect();
        let at = |host: &str, port| Some(HostPort::new(host, port));
        assert_eq!(clients, [at("a", 2181), None, None, at("c", 7), at("d", 8)]);
        let first = all.members().next().unwrap();
        assert_eq!(client_at(first, &all, None, None), None, "this server has TLS only");
        let fifth = all.members().last().unwrap();
        assert_eq!(
            client_at(fifth, &all, None, Some(2281)),
            at("d", 2281),
            "the line names the other port"
        );
    }

    #[test]
    fn a_server_says_which_one_it_is() {
        assert_eq!(server_of_conf("clientPort=1\nserverId=12\ninitLimit=5\n"), Some(ServerId(12)));
        assert_eq!(
            server_of_conf("conf is not executed because it is not in the whitelist.\n"),
            None
        );
    }
}

//! The commands: their names, what they need, and their answers.
//!
//! Source: `Commands.java` of 3.9.5, whose field names these are.

use zebu_zab::config::{Member, Role};

use crate::figures::{self, Figures};
use crate::four_letter::{ConnectionFacts, Mode, full_version};
use crate::json::Json;
use crate::pages::{Kind, Pages};
use crate::served::{EnsembleFacts, Served};
use zebu_metrics::Visitor;

/// The error of an answer while the server does not serve clients.
const NOT_SERVING: &str = "This ZooKeeper instance is not currently serving requests";

/// A command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Command {
    /// The name in an answer.
    pub name: &'static str,
    /// Other names.
    pub also: &'static [&'static str],
    /// Whether it is answered only while the server serves clients.
    pub needs_serving: bool,
    /// Whether the client must authenticate with all permissions on `/`.
    pub needs_auth: bool,
}

const fn command(name: &'static str, also: &'static [&'static str]) -> Command {
    Command { name, also, needs_serving: true, needs_auth: false }
}

impl Command {
    const fn always(mut self) -> Self {
        self.needs_serving = false;
        self
    }

    const fn with_auth(mut self) -> Self {
        self.needs_auth = true;
        self
    }
}

/// All commands, sorted by name.
pub const COMMANDS: &[Command] = &[
    command("configuration", &["conf", "config"]),
    command("connection_stat_reset", &["crst"]),
    command("connections", &["cons"]),
    command("dirs", &[]),
    command("dump", &[]),
    command("environment", &["env", "envi"]).always(),
    command("get_trace_mask", &["gtmk"]).always(),
    command("hash", &[]),
    command("initial_configuration", &["icfg"]),
    command("is_read_only", &["isro"]),
    command("last_snapshot", &["lsnp"]),
    command("leader", &["lead"]),
    command("monitor", &["mntr"]).always(),
    command("observer_connection_stat_reset", &["orst"]),
    command("observers", &["obsr"]),
    command(RESTORE, &["rest"]).with_auth(),
    command("ruok", &[]),
    command("server_stats", &["srvr"]),
    command("set_trace_mask", &["stmk"]).always(),
    command(SNAPSHOT, &["snap"]).with_auth(),
    command("stat_reset", &["srst"]),
    command("stats", &["stat"]),
    command("system_properties", &["sysp"]).always(),
    command("voting_view", &[]),
    command("watch_summary", &["wchs"]),
    command("watches", &["wchc"]),
    command("watches_by_path", &["wchp"]),
    command("zabstate", &[]).always(),
];

/// The command that takes a snapshot and sends it.
pub const SNAPSHOT: &str = "snapshot";
/// The command that replaces the state of a standalone server by a snapshot.
pub const RESTORE: &str = "restore";

/// The command with this name or alias.
pub fn by_name(name: &str) -> Option<&'static Command> {
    COMMANDS.iter().find(|command| command.name == name || command.also.contains(&name))
}

/// The page with links to all commands below `url`.
pub fn list(url: &str) -> String {
    let link = |command: &Command| format!("<a href=\"{url}/{0}\">{0}</a>\n<br/>\n", command.name);
    COMMANDS.iter().map(link).collect()
}

/// The answer to a command.
#[derive(Debug)]
pub enum Answer {
    /// These fields, `command` and `error`.
    Fields(Json),
    /// A text that is sent page by page. It contains `command` and `error` too.
    Pages(Pages),
}

impl Answer {
    fn failed(command: &str, error: &str) -> Self {
        Self::Fields(failed(command, error))
    }
}

/// An error in the form of the original's own commands, with `error` first.
fn own_error(error: &str, command: &str) -> Answer {
    Answer::Fields(Json::object([("error", error.into()), ("command", command.into())]))
}

/// An answer with an error, or an empty answer with `error: null`.
pub fn failed(command: &str, error: impl Into<Json>) -> Json {
    Json::object([("command", command.into()), ("error", error.into())])
}

/// The answer if the command is refused at the moment; `None` if it is not.
pub fn refused(command: &Command, serving: Option<Mode>) -> Option<Json> {
    (command.needs_serving && serving.is_none()).then(|| failed(command.name, NOT_SERVING))
}

/// The settings with which the server was started.
#[derive(Debug, Clone, Default)]
pub struct Started {
    /// The text of the configuration file, without secrets.
    pub configuration: String,
    /// The properties by name, without secrets.
    pub properties: std::collections::BTreeMap<String, String>,
}

/// Answers a command that needs no authorization; `mask` is the argument `traceMask`.
pub async fn run(
    command: &Command,
    mask: Option<&str>,
    served: &std::sync::Arc<dyn Served>,
    started: &Started,
) -> Answer {
    let facts = served.as_ref();
    let serving = facts.serving();
    if let Some(refused) = refused(command, serving) {
        return Answer::Fields(refused);
    }
    if let Some(kind) = in_pages(command) {
        if kind == Kind::Dump {
            facts.renew_sessions().await;
        }
        return Answer::Pages(Pages::new(served.clone(), kind, command.name));
    }
    let mut fields = match command.name {
        "configuration" => configuration(facts),
        "connection_stat_reset" => {
            facts.reset_connections();
            Vec::new()
        }
        "connections" => connections(facts, true),
        "dirs" => {
            let sizes = facts.dirs();
            vec![field("datadir_size", sizes.data_bytes), field("logdir_size", sizes.log_bytes)]
        }
        "environment" => {
            let entries = facts.environment().entries();
            entries.into_iter().map(|(key, value)| field(key, value)).collect()
        }
        "get_trace_mask" => vec![field("tracemask", facts.trace_mask())],
        "hash" => vec![("digests".to_owned(), digests(facts))],
        "initial_configuration" => {
            vec![field("initial_configuration", started.configuration.as_str())]
        }
        "is_read_only" => vec![field("read_only", serving == Some(Mode::ReadOnly))],
        "last_snapshot" => last_snapshot(facts),
        "leader" => match facts.ensemble() {
            Some(ensemble) => leader(&ensemble),
            None => return own_error("server is not initialized", command.name),
        },
        "monitor" => {
            let mut fields = Fields(Vec::new());
            figures::gauges(facts, serving, &mut fields);
            facts.metrics().visit(&mut fields);
            fields.0
        }
        "observer_connection_stat_reset" => {
            facts.reset_observers();
            Vec::new()
        }
        "observers" => observers(facts),
        "server_stats" => stats(facts, serving),
        "set_trace_mask" => match mask.and_then(|mask| mask.parse().ok()) {
            Some(mask) => {
                facts.set_trace_mask(mask);
                vec![field("tracemask", mask)]
            }
            None => {
                return own_error("setTraceMask requires long traceMask argument", command.name);
            }
        },
        "stat_reset" => {
            facts.reset_stats();
            Vec::new()
        }
        "stats" => {
            let mut fields = stats(facts, serving);
            fields.extend(connections(facts, false));
            fields
        }
        "system_properties" => {
            started.properties.iter().map(|(key, value)| field(key, value.as_str())).collect()
        }
        "voting_view" => vec![("current_config".to_owned(), voting_view(facts.ensemble()))],
        "watch_summary" => watch_summary(facts),
        "zabstate" => zabstate(facts, serving),
        "ruok" => Vec::new(),
        name => return Answer::failed(name, "this command is not answered here"),
    };
    fields.push(field("command", command.name));
    fields.push(("error".to_owned(), Json::Null));
    Answer::Fields(Json::Object(fields))
}

/// How a command's answer is made, if it is sent page by page.
fn in_pages(command: &Command) -> Option<Kind> {
    match command.name {
        "dump" => Some(Kind::Dump),
        "watches" => Some(Kind::Watches),
        "watches_by_path" => Some(Kind::WatchesByPath),
        _ => None,
    }
}

pub(crate) type Field = (String, Json);

pub(crate) fn field(key: &str, value: impl Into<Json>) -> Field {
    (key.to_owned(), value.into())
}

fn last_snapshot(facts: &dyn Served) -> Vec<Field> {
    let last = facts.last_snapshot();
    let zxid = last.map_or(-1, |last| last.zxid.0);
    vec![
        field("zxid", format!("{zxid:x}")),
        field("timestamp", last.map_or(-1, |last| last.taken_s)),
    ]
}

fn watch_summary(facts: &dyn Served) -> Vec<Field> {
    let summary = facts.watch_summary();
    vec![
        field("num_connections", summary.connections),
        field("num_paths", summary.paths),
        field("num_total_watches", summary.watches),
    ]
}

fn configuration(facts: &dyn Served) -> Vec<Field> {
    let conf = facts.conf();
    let or_off = |number: Option<u32>| number.map_or(-1, i64::from);
    let ms = |ms: u128| i64::try_from(ms).unwrap_or(i64::MAX);
    vec![
        field("client_port", or_off(conf.client_port.map(u32::from))),
        field("data_dir", conf.data_dir.display().to_string()),
        field("data_log_dir", conf.log_dir.display().to_string()),
        field("tick_time", ms(conf.tick_ms)),
        field("max_client_cnxns", i64::from(conf.connections_per_address)),
        field("min_session_timeout", ms(conf.session_timeout_min_ms)),
        field("max_session_timeout", ms(conf.session_timeout_max_ms)),
        field("server_id", facts.ensemble().map_or(0, |ensemble| ensemble.me.0)),
        field("client_port_listen_backlog", or_off(conf.backlog)),
    ]
}

pub(crate) fn connections(facts: &dyn Served, with_session: bool) -> Vec<Field> {
    let connections = facts.connections();
    let list = |is_secure| {
        let those = connections.iter().filter(|it| it.is_secure == is_secure);
        Json::List(those.map(|it| connection(it, with_session)).collect())
    };
    vec![("connections".to_owned(), list(false)), ("secure_connections".to_owned(), list(true))]
}

pub(crate) fn connection(connection: &ConnectionFacts, with_session: bool) -> Json {
    let mut fields = vec![
        field("remote_socket_address", connection.remote.to_string()),
        field("interest_ops", i64::from(connection.interest)),
        field("outstanding_requests", connection.queued),
        field("packets_received", connection.received),
        field("packets_sent", connection.sent),
    ];
    if let Some(session) = connection.session.as_ref().filter(|_| with_session) {
        fields.extend([
            field("session_id", session.id.0),
            field("last_operation", session.last_op),
            field("established", session.established_ms),
            field("session_timeout", session.timeout_ms),
            field("last_cxid", session.last_xid.map_or(-1, |xid| i64::from(xid.0))),
            field("last_zxid", session.last_zxid.0),
            field("last_response_time", session.last_response_ms),
            field("last_latency", session.latency_last_ms),
            field("min_latency", session.latency_min_ms),
            field("avg_latency", session.latency_avg_ms),
            field("max_latency", session.latency_max_ms),
        ]);
    }
    Json::Object(fields)
}

/// The version of the digests of trees.
///
/// Source: `DigestCalculator.DIGEST_VERSION`.
const DIGEST_VERSION: i64 = 2;

fn digests(facts: &dyn Served) -> Json {
    let digest = |(zxid, digest): (zebu_proto::Zxid, i64)| {
        Json::object([
            ("zxid", zxid.0.into()),
            ("digest", digest.into()),
            ("digest_version", DIGEST_VERSION.into()),
        ])
    };
    Json::List(facts.digests().into_iter().map(digest).collect())
}

fn leader(ensemble: &EnsembleFacts) -> Vec<Field> {
    let Some(leader) = ensemble.leader else {
        return vec![field("is_leader", false), field("leader_id", -1_i64), field("leader_ip", "")];
    };
    let member = ensemble.members.member(leader);
    let host = member.and_then(|member| Some(member.addresses.first()?.host.clone()));
    vec![
        field("is_leader", leader == ensemble.me),
        field("leader_id", leader.0),
        field("leader_ip", host.unwrap_or_default()),
    ]
}

fn observers(facts: &dyn Served) -> Vec<Field> {
    let count = facts.member().map_or(0, |member| match member.leader {
        Some(leader) => leader.learners.observers,
        None => member.observers.unwrap_or(0),
    });
    let observer = |it: crate::served::ObserverFacts| {
        Json::object([
            ("remote_socket_address", format!("/{}", it.remote).into()),
            ("sid", it.server.0.into()),
            ("established", it.established_ms.into()),
            ("queued_packets", it.queued_packets.into()),
            ("queued_packets_size", it.queued_bytes.into()),
            ("packets_received", it.packets_received.into()),
            ("packets_sent", it.packets_sent.into()),
            ("requests", it.requests.into()),
            ("last_zxid", it.last_zxid.0.into()),
        ])
    };
    let observers = facts.observers().into_iter().map(observer).collect();
    vec![field("synced_observers", count), ("observers".to_owned(), Json::List(observers))]
}

fn sizes(last: i64, min: i64, max: i64) -> Json {
    Json::object([
        ("last_buffer_size", last.into()),
        ("min_buffer_size", min.into()),
        ("max_buffer_size", max.into()),
    ])
}

fn stats(facts: &dyn Served, serving: Option<Mode>) -> Vec<Field> {
    let server = facts.server();
    let dirs = facts.dirs();
    let responses = server.response_sizes;
    let responses = sizes(responses.last_bytes, responses.min_bytes, responses.max_bytes);
    let mode = serving.unwrap_or(Mode::Standalone);
    let numbers = Json::object([
        ("packets_sent", server.packets_sent.into()),
        ("packets_received", server.packets_received.into()),
        ("fsync_threshold_exceed_count", server.slow_syncs.into()),
        ("client_response_stats", responses.clone()),
        ("uptime", server.uptime_ms.into()),
        ("data_dir_size", dirs.data_bytes.into()),
        ("log_dir_size", dirs.log_bytes.into()),
        ("provider_null", false.into()),
        ("last_processed_zxid", server.zxid.0.into()),
        ("outstanding_requests", server.outstanding.into()),
        ("server_state", mode.name().into()),
        ("avg_latency", server.latency_avg_ms.into()),
        ("max_latency", server.latency_max_ms.into()),
        ("min_latency", server.latency_min_ms.into()),
        ("num_alive_client_connections", server.connections.into()),
        ("auth_failed_count", server.auth_failures.into()),
        ("non_mtlsremote_conn_count", server.plain_remote.into()),
        ("non_mtlslocal_conn_count", server.plain_local.into()),
    ]);
    let mut fields = vec![
        field("version", full_version()),
        field("read_only", mode == Mode::ReadOnly),
        ("server_stats".to_owned(), numbers),
        ("client_response".to_owned(), responses),
    ];
    if let Some(leader) = facts.member().and_then(|member| member.leader) {
        let proposals = leader.proposals;
        let stats = sizes(proposals.last, proposals.min, proposals.max);
        fields.push(("proposal_stats".to_owned(), stats));
    }
    fields.push(field("node_count", server.znodes));
    fields
}

/// The voters, without observers.
fn voting_view(ensemble: Option<EnsembleFacts>) -> Json {
    let Some(ensemble) = ensemble else { return Json::Object(Vec::new()) };
    let voters = ensemble.members.members().filter(|member| member.role == Role::Participant);
    let shown = voters.map(|member| {
        let view = Json::object([
            ("server_addresses", addresses(member, |it| it.quorum_port)),
            ("election_addresses", addresses(member, |it| it.election_port)),
            ("client_address", client_address(member)),
            ("learner_type", "participant".into()),
        ]);
        (member.id.0.to_string(), view)
    });
    Json::Object(shown.collect())
}

pub(crate) fn addresses(member: &Member, port: fn(&zebu_zab::config::PeerAddress) -> u16) -> Json {
    Json::list(member.addresses.iter().map(|at| host_port(&at.host, port(at))))
}

fn host_port(host: &str, port: u16) -> String {
    if host.contains(':') { format!("[{host}]:{port}") } else { format!("{host}:{port}") }
}

pub(crate) fn client_address(member: &Member) -> Json {
    let client = member.client.as_ref();
    client.map_or_else(|| "".into(), |at| host_port(&at.host, at.port).into())
}

fn zabstate(facts: &dyn Served, serving: Option<Mode>) -> Vec<Field> {
    let Some(ensemble) = facts.ensemble() else {
        return vec![field("voting", false), field("zabstate", "")];
    };
    let mut fields =
        vec![field("myid", ensemble.me.0), field("is_leader", serving == Some(Mode::Leader))];
    let member = ensemble.members.member(ensemble.me);
    if let Some(member) = member {
        fields.push(("quorum_address".to_owned(), multiple(member, |it| it.quorum_port)));
        fields.push(("election_address".to_owned(), multiple(member, |it| it.election_port)));
        fields.push(("client_address".to_owned(), client_address(member)));
    }
    let zxid = facts.server().zxid;
    // A serving member is in the broadcast phase. Another member has no leader with which it is
    // synchronized.
    let state = if serving.is_some_and(|mode| mode != Mode::ReadOnly) {
        "broadcast"
    } else if ensemble.leader.is_some() {
        "synchronization"
    } else {
        "election"
    };
    fields.extend([
        field("voting", ensemble.members.is_voter(ensemble.me)),
        field("last_zxid", format!("{:#x}", zxid.0)),
        field("zab_epoch", zxid.0 >> 32),
        field("zab_counter", zxid.0 & 0xffff_ffff),
        field("zabstate", state),
    ]);
    fields
}

/// The addresses of a member in all forms that the original shows. The server does not check
/// whether they are reachable.
fn multiple(member: &Member, port: fn(&zebu_zab::config::PeerAddress) -> u16) -> Json {
    let all: Vec<String> =
        member.addresses.iter().map(|at| host_port(&at.host, port(at))).collect();
    let ports: Vec<u16> = member.addresses.iter().map(port).collect();
    let first = all.first().cloned().unwrap_or_default();
    let wildcards = ports.iter().map(|port| format!("0.0.0.0:{port}"));
    Json::object([
        ("empty", all.is_empty().into()),
        ("all_addresses", Json::list(all.clone())),
        ("wildcard_addresses", Json::list(wildcards)),
        ("all_ports", Json::list(ports.clone())),
        ("all_host_strings", Json::list(member.addresses.iter().map(|at| at.host.clone()))),
        ("reachable_address", first.clone().into()),
        ("all_reachable_addresses", Json::list(all.clone())),
        ("all_reachable_addresses_or_all", Json::list(all)),
        ("reachable_or_one", first.clone().into()),
        ("one", first.into()),
    ])
}

/// Figures as fields of an answer.
struct Fields(Vec<Field>);

impl Visitor for Fields {
    fn integer(&mut self, name: &str, value: i64) {
        self.0.push(field(name, value));
    }

    fn decimal(&mut self, name: &str, value: f64) {
        self.0.push(field(name, value));
    }
}

impl Figures for Fields {
    fn text(&mut self, name: &str, value: &str) {
        self.0.push(field(name, value));
    }

    fn keyed(&mut self, name: &str, key: &str, value: i64) {
        self.integer(&format!("{key}_{name}"), value);
    }
}

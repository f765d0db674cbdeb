//! The admin server over HTTP.

use std::fs;
use std::io::{Read as _, Write as _};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::path::Path;

use zebu_server::{Server, StartError};
use zebu_testkit::connection::PATIENCE;
use zebu_testkit::wire::{Writer, op};

use crate::gate::Gate;
use crate::members::ensemble;
use crate::running::{Running, config, wait};

const PROMETHEUS: &str =
    "metricsProvider.className=org.apache.zookeeper.metrics.prometheus.PrometheusMetricsProvider";

/// An answer: its first line, its headers and its body.
pub struct Answer {
    head: String,
    pub body: Vec<u8>,
}

impl Answer {
    pub fn parse(mut all: Vec<u8>) -> Self {
        let end = all.windows(4).position(|bytes| bytes == b"\r\n\r\n").expect("a header");
        let head = String::from_utf8_lossy(&all[..end]).into_owned();
        Self { head, body: all.split_off(end + 4) }
    }

    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    #[track_caller]
    pub fn has(&self, text: &str) {
        assert!(self.text().contains(text), "{text}: {}\n{}", self.head, self.text());
    }

    pub fn status(&self) -> &str {
        self.head.split(' ').nth(1).unwrap_or_default()
    }
}

pub fn get(port: u16, path: &str, header: &str) -> Answer {
    ask("GET", port, path, header)
}

pub fn ask(method: &str, port: u16, path: &str, header: &str) -> Answer {
    let mut stream = TcpStream::connect((Ipv4Addr::LOCALHOST, port)).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    // A body without chunked encoding.
    write!(stream, "{method} {path} HTTP/1.0\r\n{header}\r\n").unwrap();
    let mut all = Vec::new();
    stream.read_to_end(&mut all).unwrap();
    Answer::parse(all)
}

fn http(settings: &[&str]) -> Running {
    let own = ["admin.enableServer=true", "admin.serverPort=0", "admin.rateLimiterIntervalInMS=0"];
    Running::new(&[&own, settings].concat())
}

fn command(running: &Running, name: &str) -> Answer {
    get(running.admin_port(), &format!("/commands/{name}"), "")
}

#[test]
fn commands_show_what_there_is() {
    let running = http(&["-Dzookeeper.snapCount=77"]);
    let mut client = running.client();
    client.ephemeral("/mine");
    client.watch("/mine");
    let session = client.session;
    let show = |name: &str, text: &str| command(&running, name).has(text);
    show("ruok", "\"error\" : null");
    show("server_stats", "\"last_processed_zxid\" : 2,");
    show("server_stats", "\"server_state\" : \"standalone\"");
    show("connections", &format!("\"session_id\" : {session},\n    \"last_operation\" : \"EXIS\""));
    show("watches", &format!("\"{session}\" : [ \"/mine\" ]"));
    show("watches_by_path", &format!("\"/mine\" : [ {session} ]"));
    show("dump", &format!("[ {session} ]\n  }},\n  \"session_id_to_ephemeral_paths\""));
    show("dump", &format!("\"{session}\" : [ \"/mine\" ]"));
    show("configuration", &format!("\"client_port\" : {},", running.port));
    show("last_snapshot", "\"zxid\" : \"0\"");
    show("system_properties", "\"zookeeper.snapCount\" : \"77\"");
    show("monitor", "\"ephemerals_count\" : 1,");
    show("connection_stat_reset", "\"error\" : null");
    show("connections", "\"packets_received\" : 0,");
    show("stat_reset", "\"error\" : null");
    show("server_stats", "\"packets_received\" : 0,");
    show("set_trace_mask?traceMask=9", "\"tracemask\" : 9");
    assert_eq!(running.word("gtmk"), "9");
    let health = |path: &str| get(running.admin_port(), path, "").status().to_owned();
    assert_eq!([health("/health/live"), health("/health/ready?role=leader")], ["200", "200"]);
}

#[test]
fn no_admin_server_listens_where_none_is_wanted() {
    let running = Running::new(&[]);
    assert_eq!((running.server().admin_port(), running.server().metrics_port()), (None, None));
}

#[test]
fn a_snapshot_that_was_sent_is_a_start() {
    let running = http(&[]);
    let mut client = running.client();
    client.create("/kept", b"").unwrap();
    let snap = || get(running.admin_port(), "/commands/snapshot", "Authorization: digest u:p\r\n");
    let taken = snap();
    assert_eq!(taken.status(), "200", "{}", taken.head);
    assert!(taken.head.contains("\r\nlast_zxid: 0x2\r\n"), "{}", taken.head);
    assert!(taken.head.contains(&format!("\r\nsnapshot_size: {}\r\n", taken.body.len())));
    // The same state gives the same file again.
    assert_eq!(snap().body.len(), taken.body.len());
    let other = tempfile::tempdir().unwrap();
    fs::create_dir(other.path().join("version-2")).unwrap();
    fs::write(other.path().join("version-2/snapshot.2"), &taken.body).unwrap();
    let restored = Running::on(other.path(), &["-Dzookeeper.snapshot.trust.empty=true"]);
    let mut client = restored.client();
    assert!(client.exists("/kept"));
}

#[test]
fn a_snapshot_is_for_who_has_every_permission_on_the_root() {
    let running = http(&[]);
    let mut client = running.client();
    client.auth("digest", "root:pw").unwrap();
    let snap = |user: &str| {
        let header = format!("Authorization: digest {user}\r\n");
        get(running.admin_port(), "/commands/snapshot", &header).status().to_owned()
    };
    assert_eq!(snap("u:p"), "200", "the root is open to everybody");
    // Every client has all permissions except ADMIN, which `root` has.
    let acl = Writer::new().string("/").acl(&[(15, "world", "anyone"), (16, "auth", "")]).int(-1);
    assert_eq!(client.call(op::SET_ACL, &acl).err, 0);
    assert_eq!([snap("u:p"), snap("root:no"), snap("root:pw")], ["403", "403", "200"]);
}

/// CVE-2024-51504: the address of the scheme `ip` is that of the connection.
#[test]
fn an_address_in_a_header_is_not_believed() {
    let running = http(&[]);
    let mut client = running.client();
    let header = "Authorization: ip x\r\nX-Forwarded-For: 10.0.0.9\r\n";
    for (address, status) in [("127.0.0.1", "200"), ("10.0.0.9", "403")] {
        let acl = Writer::new().string("/").acl(&[(31, "ip", address)]).int(-1);
        assert_eq!(client.call(op::SET_ACL, &acl).err, 0);
        assert_eq!(get(running.admin_port(), "/commands/snapshot", header).status(), status);
    }
}

#[test]
fn the_prometheus_page_is_served_beside() {
    let running = Running::new(&[
        PROMETHEUS,
        "metricsProvider.httpPort=0",
        "metricsProvider.httpHost=127.0.0.1",
    ]);
    let mut client = running.client();
    client.create("/app", b"").unwrap();
    let port = running.server().metrics_port().unwrap();
    let page = get(port, "/metrics", "");
    page.has("\nop_count_create 1.0\n");
    page.has("\nznode_count 6.0\n");
    page.has("\nwrite_per_namespace_count{key=\"app\"} 1.0\n");
    assert_eq!(get(port, "/commands/ruok", "").status(), "404");
    // The phases of the write.
    for phase in ["queue", "prepare", "sync", "quorum", "apply"] {
        page.has(&format!("\nzebu_request_phase_seconds_count{{phase=\"{phase}\"}} 1\n"));
    }
    page.has("\nzebu_request_phase_seconds_count{phase=\"forward\"} 0\n");
    page.has("\nzebu_limit_max{limit=\"globalOutstandingLimit\"} 1000\n");
    let open = get(port, "/metrics", "Accept: application/openmetrics-text\r\n");
    open.has("\n# UNIT zebu_fsync_seconds seconds\n");
    open.has("\n# EOF\n");
}

fn start(dir: &Path, settings: &[&str]) -> Result<Server, StartError> {
    Server::start(config(dir, settings), Vec::new())
}

#[test]
fn a_port_that_is_taken_is_a_fault_only_where_somebody_asks_for_it() {
    let dir = tempfile::tempdir().unwrap();
    let taken = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let port = taken.local_addr().unwrap().port();
    let ours = ["admin.enableServer=true", &format!("admin.serverPort={port}")];
    let failure = start(dir.path(), &ours).err().map(|failure| failure.in_full()).unwrap();
    let expected = format!(
        "the admin server cannot be started: 127.0.0.1 port {port} cannot be listened on: "
    );
    assert!(failure.starts_with(&expected), "{failure}");
    // This logger has no level of its own.
    let mut default = config(dir.path(), &ours);
    default.admin.as_mut().unwrap().is_asked_for = false;
    let server = Server::start(default, Vec::new()).unwrap();
    assert_eq!(server.admin_port(), None);
    server.stop().unwrap();
    let page = [
        PROMETHEUS,
        &format!("metricsProvider.httpPort={port}"),
        "metricsProvider.httpHost=127.0.0.1",
    ];
    let failure = start(dir.path(), &page).err().map(|failure| failure.in_full()).unwrap();
    assert!(failure.starts_with("the Prometheus page cannot be served: "), "{failure}");
}

#[test]
fn members_tell_who_leads() {
    let (_dirs, members) = ensemble(&["admin.enableServer=true", "admin.serverPort=0"]);
    let mut leads = 0;
    let mut ids = Vec::new();
    for member in &members {
        let answer = command(member, "leader").text();
        let line = |key: &str| {
            let line = answer.lines().find(|line| line.contains(key)).unwrap_or_default();
            line.split(" : ").nth(1).unwrap_or_default().trim_end_matches(',').to_owned()
        };
        assert_eq!(line("leader_ip"), "\"127.0.0.1\"", "{answer}");
        leads += usize::from(line("is_leader") == "true");
        ids.push(line("leader_id"));
        command(member, "zabstate").has("\"zabstate\" : \"broadcast\"");
        command(member, "voting_view").has("\"learner_type\" : \"participant\"");
        let ready = get(member.admin_port(), "/health/ready?role=leader", "");
        assert_eq!(ready.status() == "200", line("is_leader") == "true");
    }
    assert_eq!(leads, 1);
    ids.dedup();
    assert_eq!(ids.len(), 1, "all name the same: {ids:?}");
}

#[test]
fn a_server_whose_writes_stand_still_is_neither_alive_nor_ready() {
    let (running, mut keeper) = Gate::server(&["admin.enableServer=true", "admin.serverPort=0"]);
    let port = running.admin_port();
    let health = |path: &str| get(port, path, "").status().to_owned();
    let both = || [health("/health/live"), health("/health/ready")];
    assert_eq!(both(), ["200", "200"]);
    keeper.close();
    wait("the standstill is found", || health("/health/live") == "503");
    assert_eq!(both(), ["503", "503"]);
    get(port, "/health/live", "").has("\"reasons\" : [ \"the replica takes no turns\" ]");
    keeper.open();
    wait("the end of it is found", || health("/health/live") == "200");
    assert_eq!(both(), ["200", "200"]);
}

#[test]
fn a_session_and_a_connection_are_ended_over_http() {
    let running = http(&[]);
    let port = running.admin_port();
    let mut owner = running.client();
    owner.ephemeral("/mine");
    let mut other = running.client();
    let post = |session: i64, operation: &str| {
        let url = format!("/jmx/connections/{session:#x}/{operation}");
        ask("POST", port, &url, "Authorization: digest u:p\r\n")
    };
    let one = get(port, &format!("/jmx/connections/{}", owner.session), "");
    one.has("\"ephemeral_nodes\" : [ \"/mine\" ]");
    assert_eq!(post(owner.session, "terminate_connection").status(), "200");
    wait("the connection is closed", || {
        get(port, &format!("/jmx/connections/{}", owner.session), "").status() == "404"
    });
    assert!(other.exists("/mine"), "the session lives on");
    assert_eq!(post(owner.session, "terminate_session").status(), "200");
    wait("the session is ended", || !other.exists("/mine"));
    assert_eq!(post(owner.session, "terminate_session").status(), "404");
    assert_eq!(post(other.session, "reset_counters").status(), "200");
}

#[test]
fn a_leader_names_its_learners() {
    let (_dirs, members) = ensemble(&["admin.enableServer=true", "admin.serverPort=0"]);
    let learners = |member: &Running| {
        let text = get(member.admin_port(), "/jmx", "").text();
        let (_, learners) = text.split_once("\"learners\" : [").unwrap();
        learners.matches("\"learner_type\"").count()
    };
    let total = || members.iter().map(learners).sum::<usize>();
    wait("a follower and an observer are connected to the leader", || total() == members.len() - 1);
    let follower = members.iter().find(|member| learners(member) == 0).unwrap();
    let client = follower.client();
    let url = format!("/jmx/connections/{}/terminate_session", client.session);
    let answer = ask("POST", follower.admin_port(), &url, "Authorization: digest u:p\r\n");
    assert_eq!(answer.status(), "409");
    answer.has("only the leader ends a session that all servers know: server.");
}

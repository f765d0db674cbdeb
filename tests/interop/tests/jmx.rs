//! The beans of the original, read over JMX, and the JSON below `/jmx` of Zebu: for each attribute
//! and each operation, the JSON has a place, or the test has a reason.

use std::collections::BTreeMap;
use std::process::Command;

use anyhow::{Context as _, Result, ensure};
use serde_json::Value;
use zebu_interop::deps;
use zebu_interop::ensemble::{Ensemble, options};
use zebu_interop::http::get;
use zebu_interop::network::Network;
use zebu_interop::raw::Session;
use zebu_interop::run::succeed;
use zebu_interop::server::Kind::{Java395, Zebu};
use zebu_interop::server::{PATIENCE, free_port};

/// Attributes and operations whose place has another name: the bean, the attribute, and the place
/// as a JSON pointer.
const ELSEWHERE: [(&str, &str, &str); 25] = [
    ("ConnectionBean", "SourceIP", "/remote_socket_address"),
    ("ConnectionBean", "StartedTime", "/established"),
    ("DataTreeBean", "approximateDataSize", "/data_tree/approximate_data_size"),
    ("DataTreeBean", "countEphemerals", "/data_tree/ephemerals_count"),
    ("FollowerBean", "QuorumAddress", "/ensemble/replicas/0/quorum_addresses"),
    ("LeaderBean", "followerInfo", "/learners"),
    ("LeaderBean", "nonVotingFollowerInfo", "/learners"),
    ("LocalPeerBean", "ClientAddress", "/ensemble/replicas/0/client_address"),
    ("LocalPeerBean", "ElectionAddress", "/ensemble/replicas/0/election_addresses"),
    ("LocalPeerBean", "Leader", "/ensemble/replicas/0/leader"),
    ("LocalPeerBean", "LearnerType", "/ensemble/replicas/0/learner_type"),
    ("LocalPeerBean", "Name", "/ensemble/server_id"),
    ("LocalPeerBean", "PartOfEnsemble", "/ensemble"),
    ("LocalPeerBean", "QuorumAddress", "/ensemble/replicas/0/quorum_addresses"),
    ("LocalPeerBean", "QuorumSystemInfo", "/ensemble/replicas"),
    ("LocalPeerBean", "StartTime", "/server/uptime"),
    ("ObserverBean", "LearnerMaster", "/ensemble/learner_master_id"),
    ("ObserverBean", "QuorumAddress", "/ensemble/replicas/0/quorum_addresses"),
    ("QuorumBean", "Name", "/ensemble/server_id"),
    ("RemotePeerBean", "ClientAddress", "/ensemble/replicas/1/client_address"),
    ("RemotePeerBean", "ElectionAddress", "/ensemble/replicas/1/election_addresses"),
    ("RemotePeerBean", "Leader", "/ensemble/replicas/1/leader"),
    ("RemotePeerBean", "LearnerType", "/ensemble/replicas/1/learner_type"),
    ("RemotePeerBean", "Name", "/ensemble/replicas/1/server_id"),
    ("RemotePeerBean", "QuorumAddress", "/ensemble/replicas/1/quorum_addresses"),
];

/// Any of the three beans of a member's role may have it.
const OF_A_ROLE: [(&str, &str); 7] = [
    ("StartTime", "/server/uptime"),
    ("resetAuthFailedCount", "reset_statistics"),
    ("resetFsyncThresholdExceedCount", "reset_statistics"),
    ("resetLatency", "reset_statistics"),
    ("resetMaxLatency", "reset_statistics"),
    ("resetNonMTLSConnCount", "reset_statistics"),
    ("resetProposalStatistics", "reset_statistics"),
];

/// Attributes and operations without a place, and the reasons.
const ABSENT: [(&str, &str); 12] = [
    ("CommitProcMaxCommitBatchSize", "there is no commit processor"),
    ("CommitProcMaxReadBatchSize", "there is no commit processor"),
    ("ElectionTimeTaken", "is the metric election_time"),
    ("ElectionType", "there is one kind of election"),
    ("LastQueuedZxid", "a follower applies what its leader has committed: data_tree.last_zxid"),
    ("PendingRevalidationCount", "sessions are revalidated in the order of requests"),
    ("ResponseCachingEnabled", "there is no cache of responses"),
    ("SecureClientAddress", "is a setting that the configuration shows: secure_client_port"),
    ("Tick", "ticks of a leader and its learners are not counted"),
    ("TxnLogElapsedSyncTime", "is the metric fsynctime"),
    ("disableDigest", "no setting changes at run time"),
    // Exists only in a leader's bean of a learner, or in the bean of a client's connection.
    ("LearnerHandlerBean.terminateConnection", "a learner that is cut off connects again at once"),
];

/// `MaxCnxns` is `max_cnxns`, `NonMTLSLocalConnCount` is `non_mtls_local_conn_count`.
fn snake(name: &str) -> String {
    let letters: Vec<char> = name.chars().collect();
    let mut text = String::new();
    for (at, letter) in letters.iter().enumerate() {
        let is_after_small = at > 0 && letters[at - 1].is_ascii_lowercase();
        let ends_capitals = at > 0
            && letters[at - 1].is_ascii_uppercase()
            && letters.get(at + 1).is_some_and(char::is_ascii_lowercase);
        if letter.is_ascii_uppercase() && (is_after_small || ends_capitals) {
            text.push('_');
        }
        text.push(letter.to_ascii_lowercase());
    }
    text
}

/// A line of output of the Java program.
struct Row {
    is_operation: bool,
    bean: String,
    name: String,
    value: String,
}

fn beans(process: u32) -> Result<Vec<Row>> {
    let program = deps::client("jmx/Beans.java");
    let text = succeed(Command::new("java").arg(program).arg(process.to_string()), PATIENCE)?;
    let rows = text.lines().filter(|line| line.contains("org.apache.ZooKeeperService"));
    let row = |line: &str| {
        let fields: Vec<&str> = line.split('\t').collect();
        ensure!(fields.len() == 5, "{line}");
        let [kind, bean, name, _, value] = [0, 1, 2, 3, 4].map(|at| fields[at].to_owned());
        Ok(Row { is_operation: kind == "operation", bean, name, value })
    };
    rows.map(row).collect()
}

/// Finds a key with this name in the top-level objects, and in the settings.
fn found<'v>(jmx: &'v Value, name: &str) -> Option<&'v Value> {
    let parts = jmx.as_object()?.values();
    parts.chain([&jmx["server"]["settings"]]).chain([jmx]).find_map(|part| part.get(name))
}

/// The members of an ensemble of two voters and an observer as JSON, by the bean of their role, and
/// one of their connections.
fn ours() -> Result<BTreeMap<&'static str, (Value, Value)>> {
    let ports: Vec<u16> = (0..3).map(|_| free_port()).collect();
    let options = |index: usize| {
        options()
            .config("admin.enableServer", "true")
            .config("admin.serverAddress", "127.0.0.1")
            .config("admin.serverPort", ports[index])
    };
    let prepared = Ensemble::prepare_each(Network::loopback(3), &[Zebu; 3], 1, &options)?;
    let mut ensemble = prepared.started()?;
    ensemble.wait_for_all()?;
    let leader = ensemble.leader(None)?;
    let mut roles = BTreeMap::new();
    for (index, port) in ports.iter().enumerate() {
        let mut session = Session::open(ensemble.addresses()[index], 60_000)?;
        session.create(&format!("/n{index}"), b"", 1)?;
        let jmx = get(*port, "/jmx")?.json()?;
        let all = get(*port, "/jmx/connections")?.json()?;
        let id = all["connections"][0]["session_id"].as_i64().context("a session")?;
        let connection = get(*port, &format!("/jmx/connections/{id}"))?.json()?;
        let role = match index {
            2 => "ObserverBean",
            _ if index == leader => "LeaderBean",
            _ => "FollowerBean",
        };
        roles.insert(role, (jmx, connection));
    }
    Ok(roles)
}

#[test]
#[ignore = "needs third-party programs: cargo xtask deps"]
fn each_attribute_and_operation_of_the_beans_has_its_place() -> Result<()> {
    let ours = ours()?;
    let prepared = Ensemble::prepare_with_observers(&[Java395; 3], 1, &options())?;
    let mut theirs = prepared.started()?;
    theirs.wait_for_all()?;
    let mut sessions = Vec::new();
    for address in theirs.addresses() {
        sessions.push(Session::open(address, 60_000)?);
    }
    let (mut count, mut lacks, mut differ) = (0, Vec::new(), Vec::new());
    for member in theirs.members() {
        let rows = beans(member.pid())?;
        let is_role = |row: &&Row| ours.contains_key(&*row.bean);
        let role = rows.iter().find(is_role).context("a bean of a role")?.bean.clone();
        let (jmx, connection) = &ours[&*role];
        let operations = jmx["operations"].to_string();
        for Row { is_operation, bean, name, value } in &rows {
            count += 1;
            let of_bean = format!("{bean}.{name}");
            if ABSENT.iter().any(|(absent, _)| *absent == name || *absent == of_bean) {
                continue;
            }
            let own = if bean == "ConnectionBean" { connection } else { jmx };
            let pointer =
                ELSEWHERE.iter().find(|it| (it.0, it.1) == (bean.as_str(), name.as_str()));
            let pointer = pointer.map(|it| it.2);
            let of_role = OF_A_ROLE.iter().find(|it| it.0 == name && role == *bean).map(|it| it.1);
            let place = match pointer.or(of_role) {
                Some(pointer) if pointer.starts_with('/') => own.pointer(pointer).cloned(),
                Some(operation) => operations.contains(operation).then_some(Value::Null),
                None if *is_operation => operations.contains(&snake(name)).then_some(Value::Null),
                None => found(own, &snake(name)).or_else(|| own.get(snake(name))).cloned(),
            };
            let Some(place) = place else {
                lacks.push(of_bean);
                continue;
            };
            // Settings have the same defaults. In the original, a follower has settings for its
            // observers only while it has observers.
            let is_unused = bean == "FollowerBean" && value == "-1";
            let is_setting = jmx["server"]["settings"].get(snake(name)).is_some() && !is_unused;
            let ours = place.to_string();
            if is_setting && ours != *value {
                differ.push(format!("{of_bean}: {value}, and {ours}"));
            }
        }
    }
    ensure!(count > 300, "{count}");
    ensure!(lacks.is_empty() && differ.is_empty(), "without a place: {lacks:#?}\n{differ:#?}");
    Ok(())
}

#[test]
fn names_of_java_become_names_of_json() {
    for (java, json) in [
        ("MaxCnxns", "max_cnxns"),
        ("NonMTLSLocalConnCount", "non_mtls_local_conn_count"),
        ("ObserverElectionDelayMS", "observer_election_delay_ms"),
        ("terminateSession", "terminate_session"),
    ] {
        assert_eq!(snake(java), json);
    }
}

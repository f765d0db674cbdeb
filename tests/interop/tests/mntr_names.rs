//! The original's names in `mntr`: Zebu has each of them, or its Prometheus page says why it does
//! not count them.

use std::collections::BTreeSet;

use anyhow::{Result, ensure};
use zebu_interop::ensemble::{Ensemble, options};
use zebu_interop::http;
use zebu_interop::load::Client;
use zebu_interop::raw::Session;
use zebu_interop::server::Kind::{self, Java395, Zebu};
use zebu_interop::server::{Options, Server, free_port};

/// Metrics of elections, synchronizations, proposals and commits.
const BETWEEN_SERVERS: [&str; 25] = [
    "ack_latency",
    "commit_count",
    "commit_propagation_latency",
    "connection_revalidate_count",
    "diff_count",
    "election_time",
    "follower_sync_time",
    "inflight_diff_count",
    "inflight_snap_count",
    "leader_unavailable_time",
    "learner_commit_received_count",
    "learner_handler_qp_size",
    "learner_handler_qp_time_ms",
    "learner_proposal_received_count",
    "looking_count",
    "observer_sync_time",
    "propagation_latency",
    "proposal_ack_creation_latency",
    "proposal_count",
    "proposal_latency",
    "quit_leading_due_to_disloyal_voter",
    "quorum_ack_latency",
    "revalidate_count",
    "snap_count",
    "unavailable_time",
];

/// The metrics that a server of Zebu never counts. Its Prometheus page has each of them, with the
/// reason; `mntr` lacks them.
fn uncounted() -> Result<BTreeSet<String>> {
    let port = free_port();
    let _server = Server::start(Zebu, &Options::default().metrics(port))?;
    let page = http::ask(port, "GET", "/metrics", "")?.text();
    let help = page.lines().filter_map(|line| line.strip_prefix("# HELP "));
    Ok(help.filter_map(|help| Some(help.split_once(" Always 0: ")?.0.to_owned())).collect())
}

/// The name of a metric without the prefix for its kind of number, and without the key of a set.
fn base(line: &str) -> Option<String> {
    let name = line.split_once('\t')?.0.strip_prefix("zk_")?;
    let kinds = ["avg_", "min_", "max_", "cnt_", "sum_", "p50_", "p95_", "p99_", "p999_"];
    let name = kinds.iter().find_map(|kind| name.strip_prefix(kind)).unwrap_or(name);
    let of_learner = name.trim_start_matches(|c: char| c.is_ascii_digit());
    let name = of_learner.strip_prefix('_').filter(|_| of_learner != name).unwrap_or(name);
    Some(name.to_owned())
}

/// The metrics of a server after a client's writes and reads.
fn told(server: &Server) -> Result<BTreeSet<String>> {
    let mut session = Session::open(server.address(), 60_000)?;
    session.create("/zk_names-", b"", 2)?;
    session.close()?;
    let text = server.four_letter_word("mntr")?;
    ensure!(text.contains("zk_server_state"), "{text}");
    Ok(text.lines().filter_map(base).collect())
}

/// The same for a leader, two followers and an observer, and for a standalone server.
fn all(kind: Kind) -> Result<Vec<(String, BTreeSet<String>)>> {
    let mut ensemble = Ensemble::prepare_with_observers(&[kind; 4], 1, &options())?.started()?;
    let leader = ensemble.leader(None)?;
    let follower = (0..3).find(|index| *index != leader).expect("one of two");
    let alone = Server::start(kind, &Options::default())?;
    let members = ensemble.members();
    let servers = [
        ("leader", &members[leader]),
        ("follower", &members[follower]),
        ("observer", &members[3]),
        ("standalone", &alone),
    ];
    servers.into_iter().map(|(role, server)| Ok((role.to_owned(), told(server)?))).collect()
}

#[test]
#[ignore = "needs third-party programs: cargo xtask deps"]
fn every_name_of_the_original_is_told_or_never_counted() {
    let [theirs, ours] =
        [Java395, Zebu].map(|kind| all(kind).unwrap_or_else(|e| panic!("{kind:?}: {e:?}")));
    let uncounted = uncounted().expect("Zebu's page");
    for ((role, theirs), (_, ours)) in theirs.iter().zip(&ours) {
        // Metrics of namespaces that were written or read.
        let is_own = |name: &&String| !name.ends_with("_per_namespace");
        let lacks: BTreeSet<String> = theirs.difference(ours).filter(is_own).cloned().collect();
        assert_eq!(uncounted, lacks, "{role}: those without a reason, or with one and not needed");
    }
}

/// The metrics of [`BETWEEN_SERVERS`] that have values at a server.
fn moved(server: &Server) -> Result<BTreeSet<String>> {
    let text = server.four_letter_word("mntr")?;
    let is_count = |line: &&str| {
        let other = ["avg_", "min_", "max_", "sum_", "p50_", "p95_", "p99_", "p999_"];
        let name = line.strip_prefix("zk_").unwrap_or(line);
        !other.iter().any(|kind| name.starts_with(kind)) && !name.ends_with("\t0")
    };
    let names = text.lines().filter(is_count).filter_map(base);
    Ok(names.filter(|name| BETWEEN_SERVERS.contains(&name.as_str())).collect())
}

/// Metrics with values after the leader was stopped, came back behind, and then came back empty: at
/// the current leader, a follower, and an observer.
fn moved_by_a_story(kind: Kind) -> Result<[BTreeSet<String>; 3]> {
    let options = options().property("zookeeper.leader.ackLoggingFrequency", 100);
    let mut ensemble = Ensemble::prepare_with_observers(&[kind; 4], 1, &options)?.started()?;
    let first = ensemble.leader(None)?;
    let others = [1, 2].map(|step| (first + step) % 3);
    let addresses = [others[0], others[1], 3].map(|index| ensemble.member(index).address());
    let clients = (0..3).map(|at| Client::open(&addresses, at, 60_000));
    let mut clients: Vec<Client> = clients.collect::<Result<_>>()?;
    let mut count = 0;
    let mut write = |clients: &mut [Client], each: usize| -> Result<()> {
        for _ in 0..each {
            for client in clients.iter_mut() {
                count += 1;
                while client.create(&format!("/n{count}"), "", 0)?.is_none() {}
            }
        }
        Ok(())
    };
    write(&mut clients, 10)?;
    ensemble.member(first).kill()?;
    let leader = ensemble.leader(Some(first))?;
    // The waiting time of packets is measured for one of a thousand.
    write(&mut clients, 250)?;
    ensemble.member(first).launch()?;
    ensemble.member(first).kill()?;
    ensemble.wipe(first)?;
    ensemble.member(first).launch()?;
    ensemble.wait_for_all()?;
    write(&mut clients, 10)?;
    let [a, b] = others;
    let follower = if leader == a { b } else { a };
    // A session moves to each server from another one.
    for (from, to) in [(follower, leader), (3, follower), (leader, 3)] {
        let [from, to] = [from, to].map(|index| ensemble.members()[index].address());
        let session = Session::open(from, 60_000)?;
        Session::resume(to, 60_000, session.id, &session.password)?.close()?;
    }
    let told = [leader, follower, 3].map(|index| moved(&ensemble.members()[index]));
    clients.into_iter().for_each(Client::close);
    let [leader, follower, observer] = told;
    Ok([leader?, follower?, observer?])
}

#[test]
#[ignore = "needs third-party programs: cargo xtask deps"]
fn what_is_counted_between_servers_moves_where_it_does_at_the_original() {
    let [theirs, ours] = [Java395, Zebu]
        .map(|kind| moved_by_a_story(kind).unwrap_or_else(|e| panic!("{kind:?}: {e:?}")));
    let roles = ["leader", "follower", "observer"];
    for ((role, theirs), ours) in roles.iter().zip(&theirs).zip(&ours) {
        assert_eq!(ours, theirs, "{role}");
    }
    let all: BTreeSet<&str> = ours.iter().flatten().map(String::as_str).collect();
    let still: Vec<&str> = BETWEEN_SERVERS.into_iter().filter(|name| !all.contains(name)).collect();
    assert_eq!(still, ["quit_leading_due_to_disloyal_voter"], "nothing of this has happened");
}

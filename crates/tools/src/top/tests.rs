//! Fixtures for the tests of all parts, and `--once` against servers that answer.

use std::collections::BTreeMap;
use std::time::Duration;

use zebu_proto::HostPort;

use super::look::{Client, Facts, Sample};
use super::*;

/// Source: an answer of ZooKeeper 3.9.5, with another zxid and mode.
pub(super) const SRVR: &str = "Zookeeper version: 3.9.5-abc, built on 2025-01-01 00:00 UTC\n\
    Latency min/avg/max: 0/1.878/11\nReceived: 49\nSent: 66\nConnections: 3\nOutstanding: 0\n\
    Zxid: 0x20000001a\nMode: leader\nProposal sizes last/min/max: -1/-1/-1\nNode count: 12\n";

pub(super) const LEADER_CONF: &str = "clientPort=1\nserverId=1\ninitLimit=10\nmembership: \n\
    server.1=127.0.0.1:11:12:participant;127.0.0.1:1\nserver.2=127.0.0.1:21:22:participant;127.0.0.1:2\n\
    server.3=127.0.0.1:31:32:participant;127.0.0.1:3\nversion=200000000";

fn facts(words: &[(&str, &str)]) -> Facts {
    let ask = |_: &HostPort, word: &str| {
        let found = words.iter().find(|(name, _)| *name == word);
        Ok(found.map_or_else(String::new, |(_, answer)| (*answer).to_owned()))
    };
    let at = HostPort::new("127.0.0.1", 1);
    let mut samples = look::look(&[at], &[], std::time::Instant::now(), true, false, &ask);
    samples.remove(0).facts.unwrap()
}

fn client(session: &str, received: u64) -> Client {
    Client {
        address: "10.0.0.1:5".to_owned(),
        session: session.to_owned(),
        queued: 0,
        received,
        last_op: "SETD".to_owned(),
        latency_avg: 1,
        latency_max: 9,
    }
}

/// Two observations, two seconds apart: a leader that answers all words, a follower that answers
/// `srvr` only, and an absent member.
pub(super) fn samples() -> (Vec<Sample>, Vec<Sample>) {
    let mntr: [BTreeMap<&str, f64>; 2] = [(100.0, 0.0), (200.0, 1.0)].map(|(number, later)| {
        BTreeMap::from([
            ("watch_count", 7.0),
            ("sum_readlatency", 100.0 + later * 200.0),
            ("cnt_readlatency", 1_000.0 + later * 50.0),
            ("sum_updatelatency", 10.0 + later * 100.0),
            ("cnt_updatelatency", 10.0 + later * 50.0),
            ("sum_fsynctime", later * 25.0),
            ("cnt_fsynctime", later * 10.0),
            ("max_fsynctime", 8.0),
            ("op_count_total", number + 2.0),
            ("op_count_set_data", number),
            ("op_count_ping", later * 2.0),
            ("op_count_sync", 5.0),
            ("cnt_app_1_write_per_namespace", number),
            ("sum_app_1_write_per_namespace", number * 100.0),
        ])
    });
    let one = |later: usize| {
        let mut leader = facts(&[("srvr", SRVR), ("conf", LEADER_CONF)]);
        leader.missing.clear();
        leader.mntr =
            mntr[later].iter().map(|(name, value)| ((*name).to_owned(), *value)).collect();
        leader.srvr.insert("Received".to_owned(), 1_000.0 * later as f64 + 49.0);
        let later = later as u64;
        leader.clients = vec![client("0x12", 5 + later * 2), client("0x11", 100 + later * 800)];
        let follower = SRVR.replace("leader", "follower").replace("1a\n", "10\n");
        let conf = LEADER_CONF.replace("serverId=1", "serverId=2");
        let mut follower = facts(&[("srvr", &follower), ("conf", &conf)]);
        follower.missing.retain(|missing| missing.starts_with("mntr"));
        let sample = |port, facts| Sample {
            at: HostPort::new("127.0.0.1", port),
            when: Duration::from_secs(10 + 2 * later),
            facts,
        };
        vec![
            sample(1, Ok(leader)),
            sample(2, Ok(follower)),
            sample(3, Err("connection refused".to_owned())),
        ]
    };
    (one(0), one(1))
}

fn args(servers: &str) -> TopArgs {
    TopArgs {
        servers: servers.to_owned(),
        credentials: CredentialArgs::default(),
        interval: 10,
        timeout: 60_000,
        clients: 50,
        once: true,
        json: false,
        only: false,
    }
}

#[test]
fn a_server_is_asked_over_its_port() {
    let at = crate::ask::tests::serve(|asked| match asked {
        "srvr" => SRVR.to_owned(),
        "mntr" => "zk_version\t3.9.5\nzk_watch_count\t7\n".to_owned(),
        "cons" => "\n".to_owned(),
        _ => "serverId=0\n".to_owned(),
    });
    let mut out = Vec::new();
    assert!(once(&args(&at.to_string()), &mut out).unwrap());
    let text = String::from_utf8(out).unwrap();
    assert!(text.starts_with("1 of 1 servers serve\n"), "{text}");
    assert!(!text.contains("note:"), "{text}");
}

#[test]
fn no_server_that_answers_is_a_failure_and_is_shown_all_the_same() {
    let mut out = Vec::new();
    let args = TopArgs { json: true, ..args("127.0.0.1:1") };
    assert!(!once(&args, &mut out).unwrap());
    let json: serde_json::Value = serde_json::from_slice(&out).unwrap();
    assert_eq!(json["servers"][0]["health"], "unreachable");
}

#[test]
fn a_connect_string_with_a_root_is_refused() {
    let failure = once(&args("a:1/root"), &mut Vec::new()).unwrap_err();
    assert!(failure.to_string().contains("/root"), "{failure}");
    once(&args(""), &mut Vec::new()).unwrap_err();
}

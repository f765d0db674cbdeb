//! Four-letter words of ensemble members: a leader, a follower and an observer have the same lines,
//! names and types of values as the original.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use regex::Regex;
use zebu_interop::ensemble::{Ensemble, options};
use zebu_interop::normalise::is_only_ours;
use zebu_interop::raw::Session;
use zebu_interop::scenario::compare;
use zebu_interop::server::Kind::{self, Java395, Zebu};
use zebu_interop::server::PATIENCE;

/// Member 3 leads, 1 and 2 follow, 4 observes.
const ROLES: [(&str, usize); 3] = [("leader", 2), ("follower", 0), ("observer", 3)];

/// Values of `mntr` in an idle ensemble that must be equal, because they do not depend on time and
/// machine.
const EQUAL: [&str; 26] = [
    "zk_server_state",
    "zk_peer_state",
    "zk_observer_master_id",
    "zk_quorum_size",
    "zk_learners",
    "zk_synced_followers",
    "zk_synced_non_voting_followers",
    "zk_synced_observers",
    "zk_pending_syncs",
    "zk_global_sessions",
    "zk_local_sessions",
    "zk_ephemerals_count",
    "zk_watch_count",
    "zk_znode_count",
    "zk_approximate_data_size",
    "zk_num_alive_connections",
    "zk_outstanding_requests",
    "zk_last_proposal_size",
    "zk_max_proposal_size",
    "zk_min_proposal_size",
    "zk_connection_drop_probability",
    "zk_looking_count",
    "zk_proposal_count",
    "zk_commit_count",
    "zk_learner_proposal_received_count",
    "zk_learner_commit_received_count",
];

/// Number of data bytes in the last transaction.
const LAST_BYTES: usize = 400;

/// Metrics measured between members. Another test compares their names with the original's; here
/// each must have values. By role: leader, follower, observer.
const MEASURED: [(&str, [bool; 3]); 21] = [
    ("unavailable_time", [true, true, true]),
    ("leader_unavailable_time", [true, false, false]),
    ("inflight_snap_count", [true, false, false]),
    ("inflight_diff_count", [true, false, false]),
    ("proposal_latency", [false, true, false]),
    ("proposal_ack_creation_latency", [true, true, false]),
    ("commit_propagation_latency", [false, true, true]),
    ("quorum_ack_latency", [true, false, false]),
    ("1_learner_handler_qp_size", [true, false, false]),
    ("2_learner_handler_qp_size", [true, false, false]),
    ("4_learner_handler_qp_size", [true, false, false]),
    ("1_learner_handler_qp_time_ms", [true, false, false]),
    ("4_learner_handler_qp_time_ms", [true, false, false]),
    ("commit_commit_proc_req_queued", [true, true, true]),
    ("write_commit_proc_issued", [true, true, true]),
    ("write_batch_time_in_commit_processor", [true, true, true]),
    ("commit_process_time", [true, true, true]),
    ("write_commitproc_time_ms", [true, true, true]),
    ("local_write_committed_time_ms", [true, true, true]),
    ("server_write_committed_time_ms", [false, true, true]),
    ("read_commit_proc_issued", [true, true, true]),
];

/// The answers by role.
struct Told {
    words: BTreeMap<(&'static str, &'static str), String>,
    mntr: BTreeMap<&'static str, BTreeMap<String, String>>,
}

fn start(kind: Kind) -> Result<Ensemble> {
    let options = options();
    let mut ensemble = Ensemble::prepare_with_observers(&[kind; 4], 1, &options)?;
    for index in [2, 1] {
        ensemble.member(index).spawn()?;
    }
    // Among members with the same history, the one with the greatest id becomes the leader.
    ensemble.member(2).wait_until_serving()?;
    // A member without data receives the whole tree.
    Session::open(ensemble.member(2).address(), 60_000)?.close()?;
    for index in [0, 3] {
        ensemble.member(index).launch()?;
    }
    Ok(ensemble)
}

/// An answer without numbers, ids, file names and dates.
fn shape(answer: &str) -> String {
    let mut shape = answer.to_owned();
    for (what, with) in [
        (r"(?m)^(Zookeeper version: ).*", "${1}V"),
        (r"(?m)^((dataDir|dataLogDir)=).*", "${1}D"),
        (r"expire at .*", "expire at T:"),
        (r"0x[0-9a-f]+", "X"),
        (r"-?[0-9]+(\.[0-9]+)?", "N"),
    ] {
        shape = Regex::new(what).expect("a pattern").replace_all(&shape, with).into_owned();
    }
    shape
}

fn tell(kind: Kind) -> Result<Told> {
    let mut ensemble = start(kind)?;
    let mut sessions = Vec::new();
    for (number, (_, index)) in ROLES.into_iter().enumerate() {
        // One of a thousand transactions, and its acknowledgements, are timed.
        let mut session = Session::open(ensemble.member(index).address(), 60_000)?;
        for _ in 0..340 {
            session.create(&format!("/many-{number}-"), b"", 2)?;
        }
        session.close()?;
    }
    for (role, index) in ROLES {
        let mut session = Session::open(ensemble.member(index).address(), 60_000)?;
        // The last transaction is the largest one, so that its position is known.
        session.create(
            &format!("/{role}"),
            "data".repeat(1 + sessions.len() * 50).as_bytes(),
            1,
        )?;
        sessions.push(session);
    }
    let mut told = Told { words: BTreeMap::new(), mntr: BTreeMap::new() };
    let buckets = Regex::new(r"(?m)^(\t|N expire|.* Sets \(N\)).*\n")?;
    let acks = Regex::new(r"zk_cnt_[123]_ack_latency\t[1-9]")?;
    // Later releases have the first ones, fast servers the others.
    let other = Regex::new(r"^zk_[a-z0-9]+_[0-9]_ack_latency")?;
    let is_last = |bytes: &str| bytes.parse().is_ok_and(|bytes: usize| bytes > LAST_BYTES);
    for (role, index) in ROLES {
        let start = Instant::now();
        let member = ensemble.member(index);
        while member.monitor("zk_ephemerals_count")? != "3"
            || member.monitor("zk_learners").is_ok_and(|learners| learners != "3")
            || member.monitor("zk_last_proposal_size").is_ok_and(|bytes| !is_last(&bytes))
        {
            ensure!(start.elapsed() < PATIENCE, "{role}: not there yet");
            std::thread::sleep(Duration::from_millis(20));
        }
        for word in ["srvr", "stat", "conf", "cons", "dump", "isro", "ruok", "wchs", "dirs"] {
            let mut answer = shape(&member.four_letter_word(word)?);
            if matches!(word, "dump" | "cons" | "stat") {
                // Buckets and the order of connections depend on timing.
                answer = buckets.replace_all(&answer, "").into_owned();
                let (mut connections, other): (Vec<&str>, Vec<&str>) =
                    answer.lines().partition(|line| line.starts_with(" /"));
                connections.sort_unstable();
                answer = [connections.join("\n"), other.join("\n")].join("\n");
            }
            told.words.insert((role, word), answer);
        }
        let mntr = member.four_letter_word("mntr")?;
        let acks = acks.is_match(&mntr);
        ensure!(acks == (role == "leader"), "{role}: acknowledgements are timed: {acks}");
        let lines = mntr.lines().filter(|line| !other.is_match(line));
        let lines = lines.filter_map(|line| line.split_once('\t'));
        let lines = lines.filter(|(key, _)| !is_only_ours(key));
        let lines = lines.map(|(key, value)| (key.to_owned(), value.to_owned()));
        told.mntr.insert(role, lines.collect());
    }
    Ok(told)
}

/// Keys of one member that another one lacks.
fn only<'m>(
    here: &'m BTreeMap<String, String>,
    there: &BTreeMap<String, String>,
) -> BTreeSet<&'m str> {
    here.keys().filter(|key| !there.contains_key(*key)).map(String::as_str).collect()
}

fn is_decimal(value: &str) -> bool {
    value.contains('.')
}

#[test]
#[ignore = "needs third-party programs: cargo xtask deps"]
fn members_tell_what_the_originals_do() {
    let [java, ours] =
        [Java395, Zebu].map(|kind| tell(kind).unwrap_or_else(|e| panic!("{kind:?}: {e:?}")));
    for ((role, word), answer) in &java.words {
        compare(&format!("{word} of a {role}"), answer, &ours.words[&(*role, *word)]);
    }
    for (role, theirs) in &java.mntr {
        let here = &ours.mntr[role];
        assert_eq!(only(here, theirs), BTreeSet::new(), "{role}: names the original has not");
        for (other, others) in &java.mntr {
            // The list of differences between the roles is complete.
            let wanted = only(theirs, others);
            assert_eq!(only(here, &ours.mntr[other]), wanted, "{role} against {other}");
        }
        for (name, by_role) in MEASURED {
            let place = ROLES.iter().position(|(other, _)| other == role).expect("a role");
            let key = format!("zk_cnt_{name}");
            for (kind, told) in [("the original", theirs), ("ours", here)] {
                let is_measured = told.get(&key).is_some_and(|count| count != "0");
                assert_eq!(is_measured, by_role[place], "{role}: {key} at {kind}");
            }
        }
        for key in EQUAL {
            assert_eq!(here.get(key), theirs.get(key), "{role}: {key}");
        }
        for (key, value) in here.iter().filter(|(_, value)| value.parse::<f64>().is_ok()) {
            assert_eq!(is_decimal(value), is_decimal(&theirs[key]), "{role}: {key}");
        }
    }
}

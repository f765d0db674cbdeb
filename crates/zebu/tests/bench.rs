//! `zebu bench compare` of ensembles and of protections, with tiny numbers, so that it keeps
//! working. The tests check that all operations were counted, and no times.

use std::process::{Command, Stdio};

use serde_json::Value;

#[test]
fn ensembles_are_measured() {
    let dir = tempfile::tempdir().unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_zebu"));
    command.args(["bench", "compare", "--servers", "zebu", "--rounds", "1"]);
    command.args(["--suite", "ensemble,failover,rejoin,moving", "--json", "out.json"]);
    command.args(["--tick", "200", "--sync-limit", "5", "--repeats", "1"]);
    command.args(["--seconds", "0.1", "--warmup", "0", "--server-warmup", "0", "--keys", "10"]);
    command.args(["--depths", "4", "--ensemble-connections", "3", "--count", "2000"]);
    command.args(["--sessions", "60"]);
    let output = command.current_dir(dir.path()).stdin(Stdio::null()).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}");
    let out: Value =
        serde_json::from_slice(&std::fs::read(dir.path().join("out.json")).unwrap()).unwrap();
    let text = out["result"].to_string();
    for figure in [
        "three servers: writes, depth 4, 3 conn",
        "three servers: 90 % writes, depth 4, 3 conn",
        "three servers: 90 % reads, depth 4, 3 conn",
        "three servers: reads, depth 4, 3 conn",
        "leader killed, median",
        "leader paused, median",
        "leader asked to stop, median",
        "rolling restart, longest",
        "kept in a rolling restart",
        "few transactions (DIFF)",
        "the whole tree (SNAP)",
        "the last",
        "kept when the leader dies",
    ] {
        assert!(text.contains(figure), "{figure}: {text}");
    }
    // Every session has survived the loss of its leader.
    assert!(!text.contains("sessions lost"), "{text}");
}

#[test]
fn protections_are_measured_in_pairs() {
    let dir = tempfile::tempdir().unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_zebu"));
    command.args(["bench", "compare", "--servers", "zebu", "--rounds", "1"]);
    command.args(["--suite", "protections", "--json", "out.json"]);
    command.args(["--seconds", "0.1", "--warmup", "0", "--server-warmup", "0.2", "--keys", "10"]);
    command.args(["--rates", "100", "--rate-seconds", "0.2", "--backups-through", "nice"]);
    let output = command.current_dir(dir.path()).stdin(Stdio::null()).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}");
    let out: Value =
        serde_json::from_slice(&std::fs::read(dir.path().join("out.json")).unwrap()).unwrap();
    let rows = out["result"]["rows"].as_array().unwrap();
    for (group, name) in [
        ("% of the throughput without", "set, with all protections"),
        ("% of the throughput without", "set, with all protections, 95 % interval from"),
        ("% of the throughput without", "set, with all protections, 95 % interval to"),
        ("% of the server's CPU time per write without", "set, with all protections"),
        ("times the p99 without", "set, 100/s, while a scrub runs"),
        ("times the p99 without", "set, 100/s, while scrub and backups run"),
        ("times the p99 without", "set, 100/s, while scrub and backups through nice run"),
    ] {
        assert!(rows.iter().any(|row| row["group"] == group && row["name"] == name), "{rows:?}");
    }
    let notes = out["result"]["notes"].as_array().unwrap();
    let pairs =
        notes.iter().find_map(|note| note.as_str()?.split_once("throughput without, by pair: "));
    let (_, pairs) = pairs.unwrap_or_else(|| panic!("{notes:?}"));
    assert_eq!(pairs.split(' ').count(), 6, "the fewest that have an interval: {pairs}");
}

//! `zebu bench compare` of ensembles, with tiny numbers, so that it keeps working. The tests check
//! that all operations were counted, and no times.

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

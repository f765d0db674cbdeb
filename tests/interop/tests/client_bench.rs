//! The comparison of client libraries with tiny numbers: every program works, and no request fails.
//! The speed is not checked.

use std::process::Command;

use zebu_interop::deps;
use zebu_interop::run::succeed;
use zebu_interop::server::PATIENCE;

#[test]
#[ignore = "needs third-party programs: cargo xtask deps"]
fn every_client_carries_the_load() {
    let folder = tempfile::tempdir().expect("a folder");
    let json = folder.path().join("out.json");
    let mut command = Command::new(deps::zebu());
    command.args(["bench", "clients", "--rounds", "1", "--seconds", "0.3", "--keys", "200"]);
    command.args(["--clients", "zebu-c,zebu,c,kazoo", "--libraries"]);
    command.arg(deps::our_libraries().join("lib"));
    command.args(["--depths", "1,16", "--dir"]).arg(folder.path());
    command.arg("--python").arg(deps::python()).arg("--json").arg(&json);
    let text = succeed(&mut command, PATIENCE).expect("it succeeds");
    assert!(text.contains("zebu-c/kazoo"), "{text}");
    let found: serde_json::Value =
        serde_json::from_slice(&std::fs::read(json).expect("a file")).expect("JSON");
    let runs = found["runs"].as_array().expect("a list");
    // Four clients; get and set with two depths, and every other operation once.
    assert_eq!(runs.len(), 4 * 5, "{runs:?}");
    for run in runs {
        let requests = run["requests"].as_f64().expect("a number");
        assert!(requests > 0.0, "{run}");
        assert!(run["load"] != "all" || requests == 200.0, "{run}");
    }
}

/// Both servers take the same handshakes and the same load over TLS.
#[test]
#[ignore = "needs third-party programs: cargo xtask deps"]
fn both_servers_are_compared_over_tls() {
    let folder = tempfile::tempdir().expect("a folder");
    let json = folder.path().join("out.json");
    let mut command = Command::new(deps::zebu());
    command.args(["bench", "compare", "--suite", "tls", "--rounds", "1", "--seconds", "0.3"]);
    command.args(["--server-warmup", "0.3", "--depths", "1,16", "--connections", "2", "--dir"]);
    command.arg(folder.path()).arg("--json").arg(&json);
    command.arg("--java-classpath").arg(deps::classpath_395());
    succeed(&mut command, PATIENCE).expect("it succeeds");
    let found: serde_json::Value =
        serde_json::from_slice(&std::fs::read(json).expect("a file")).expect("JSON");
    assert_eq!(found["result"]["notes"], serde_json::json!([]), "{found}");
    let rows = found["result"]["rows"].as_array().expect("a list");
    for (group, name) in [
        ("handshakes/s", "full handshake and srvr, 16 at a time"),
        ("requests/s", "TLS, get, depth 16, 2 conn"),
    ] {
        let row = rows.iter().find(|row| row["group"] == group && row["name"] == name);
        let values = &row.unwrap_or_else(|| panic!("no {group}: {name}"))["values"];
        for server in ["zebu", "java"] {
            assert!(values[server][0].as_f64() > Some(0.0), "{server}: {values}");
        }
    }
}

//! The tests of the original's C client, built from its source with TLS and SASL, against both servers.
//!
//! They name ports in their text: 22181, and 22281 for TLS. So one run at a time has this machine.

use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use zebu_interop::deps;
use zebu_interop::run::run;
use zebu_interop::scenario::subject;
use zebu_interop::server::Kind;

/// The longest suite takes a minute.
const LIMIT: Duration = Duration::from_secs(600);

/// The suites that need a server, how many tests of each pass at least, and those of TLS and SASL.
const SUITES: [(&str, usize, &[&str]); 5] = [
    ("Zookeeper_simpleSystem", 26, &["testSSL", "testAcl", "testAuth"]),
    ("Zookeeper_readOnly", 2, &["testReadOnlyWithSSL"]),
    (
        "Zookeeper_SASLAuth",
        4,
        &[
            "testServerRequireClientSASL",
            "testClientSASL",
            "testClientSASLReadOnly",
            "testClientSASLPacketOrder",
        ],
    ),
    ("Zookeeper_multi", 13, &[]),
    ("Zookeeper_clientretry", 1, &[]),
];

/// Stops the server that a suite has left, in this folder.
struct Stops(PathBuf);

impl Drop for Stops {
    fn drop(&mut self) {
        if let Ok(pid) = std::fs::read_to_string(self.0.join("zk.pid")) {
            let _ = Command::new("kill").arg("-9").arg(pid.trim()).status();
        }
    }
}

#[test]
#[ignore = "needs third-party programs: cargo xtask deps"]
fn the_tests_of_the_c_client_with_tls_and_sasl() {
    let root = deps::repository().join("tests/interop/shim");
    let installed = deps::installed("c-suite");
    let folder = tempfile::tempdir().expect("a folder");
    let _stops = Stops(folder.path().to_owned());
    for (suite, count, tests) in SUITES {
        let mut command = Command::new(installed.join("build/zktest"));
        command.arg(suite).current_dir(folder.path());
        command.env("ZKTEST_SERVER", root.join("zktest-server"));
        command.env("ZKTEST_SOURCE", installed.join("source/zookeeper-client/zookeeper-client-c"));
        command.env("ZKTEST_CLASSPATH", deps::classpath_395());
        if subject() == Kind::Zebu {
            let path = std::env::var("PATH").unwrap_or_default();
            command.env("PATH", format!("{}:{path}", root.display()));
            command.env("ZEBU_BIN", deps::zebu());
        }
        let output = run(&mut command, LIMIT).expect("the suite ends");
        let text = output.text;
        assert!(output.status.success(), "{suite}: {}\n{text}", output.status);
        assert!(text.contains(&format!("OK ({count})")), "{suite}: {count} tests\n{text}");
        for test in tests {
            assert!(text.contains(&format!("{suite}::{test} ")), "{suite}::{test}\n{text}");
        }
    }
}

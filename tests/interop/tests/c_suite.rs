//! The tests of the original's C client, built from its source with TLS and SASL, against both
//! servers. Those that concern any library also run over ours.
//!
//! Their text contains the ports: 22181, and 22281 for TLS. So only one run at a time is possible
//! on this machine.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Mutex;
use std::time::Duration;

use zebu_interop::deps;
use zebu_interop::run::{run, succeed};
use zebu_interop::scenario::subject;
use zebu_interop::server::Kind;

/// The longest suite takes a minute.
const LIMIT: Duration = Duration::from_secs(600);

/// The suites that need a server, the minimum number of passed tests of each, and those of TLS and
/// SASL.
const SUITES: [(&str, usize, &[&str]); 5] = [
    ("Zookeeper_simpleSystem", 25, &["testSSL", "testAcl", "testAuth"]),
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

/// The C client, in the installed source.
const CLIENT: &str = "source/zookeeper-client/zookeeper-client-c";

/// The ports permit one run at a time.
static PORTS: Mutex<()> = Mutex::new(());

/// The suites over our library, and the number of passed tests of each.
const OURS: [(&str, usize); 4] = [
    ("Zookeeper_simpleSystem", 23),
    ("Zookeeper_multi", 13),
    ("Zookeeper_readOnly", 2),
    ("Zookeeper_clientretry", 1),
];

/// The files of the tests, and the files that these need. The other files replace functions inside
/// the original's library.
const FILES: [&str; 9] = [
    "TestDriver",
    "TestClient",
    "TestMulti",
    "TestReadOnlyClient",
    "TestClientRetry",
    "TestLogClientEnv",
    "Util",
    "ThreadingUtil",
    "LibCSymTable",
];

/// Tests that read the private fields of a handle.
const PRIVATE: [&str; 2] = ["testServersResolutionDelay", "testLastZxid"];

/// Replaces the original's private header, so that these tests compile.
const FIELDS: &str = "#include <sys/time.h>
#include <zookeeper.h>
struct _zhandle { int io_count, resolve_delay_ms; zsock_t *fd; int64_t last_zxid; struct timeval last_resolve; };
";

/// Stops the server that a suite has left running, in this folder.
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
    let _ports = PORTS.lock();
    let installed = deps::installed("c-suite");
    let folder = tempfile::tempdir().expect("a folder");
    let _stops = Stops(folder.path().to_owned());
    for (suite, count, tests) in SUITES {
        let mut command = prepared(&installed.join("build/zktest"), folder.path(), subject());
        let text = passes(command.arg(suite), suite, count);
        for test in tests {
            assert!(text.contains(&format!("{suite}::{test} ")), "{suite}::{test}\n{text}");
        }
    }
}

/// A program of the suite, in this folder, against this server.
fn prepared(program: &Path, folder: &Path, server: Kind) -> Command {
    let shim = deps::repository().join("tests/interop/shim");
    let mut command = Command::new(program);
    command.current_dir(folder);
    command.env("ZKTEST_SERVER", shim.join("zktest-server"));
    command.env("ZKTEST_SOURCE", deps::installed("c-suite").join(CLIENT));
    command.env("ZKTEST_CLASSPATH", deps::classpath_395());
    if server == Kind::Zebu {
        let path = std::env::var("PATH").unwrap_or_default();
        command.env("PATH", format!("{}:{path}", shim.display()));
        command.env("ZEBU_BIN", deps::zebu());
    }
    command
}

/// Runs one suite, asserts the number of passed tests, and returns the output.
fn passes(command: &mut Command, suite: &str, count: usize) -> String {
    let output = run(command, LIMIT).expect("the suite ends");
    let text = output.text;
    assert!(output.status.success(), "{suite}: {}\n{text}", output.status);
    assert!(text.contains(&format!("OK ({count})")), "{suite}: {count} tests\n{text}");
    text
}

/// The files of the suite, compiled with our headers and linked against our library.
#[test]
#[ignore = "needs third-party programs: cargo xtask deps"]
fn the_tests_of_the_c_client_over_our_library() {
    let _ports = PORTS.lock();
    let installed = deps::installed("c-suite");
    let client = installed.join(CLIENT);
    let (tests, ours) = (client.join("tests"), deps::our_libraries());
    let folder = tempfile::tempdir().expect("a folder");
    let _stops = Stops(folder.path().to_owned());

    let text = std::fs::read_to_string(tests.join("TestClient.cc")).expect("the suite");
    let mut text = text.replace("#include \"ZKMocks.h\"", FIELDS);
    for test in PRIVATE {
        let line = format!("CPPUNIT_TEST({test});");
        assert!(text.contains(&line), "{test}");
        text = text.replace(&line, "");
    }
    std::fs::write(folder.path().join("TestClient.cc"), text).expect("a file");
    let mut link = Command::new("g++");
    for name in FILES {
        let file = format!("{name}.cc");
        let changed = folder.path().join(&file);
        let source = if changed.exists() { changed } else { tests.join(file) };
        let object = folder.path().join(format!("{name}.o"));
        let mut compile = Command::new("g++");
        compile.args(["-w", "-DTHREADED", "-DHAVE_OPENSSL_H", "-c", "-o"]).arg(&object).arg(source);
        compile.arg(format!("-DZKSERVER_CMD=\"{}\"", tests.join("zkServer.sh").display()));
        let headers =
            [ours.join("include/zookeeper"), tests.clone(), installed.join("build/include")];
        for headers in headers {
            compile.arg("-I").arg(headers);
        }
        succeed(&mut compile, LIMIT).expect(name);
        link.arg(object);
    }
    let program = folder.path().join("zktest");
    link.arg("-o").arg(&program).arg("-L").arg(ours.join("lib"));
    succeed(link.args(["-lzookeeper_mt", "-lcppunit", "-lpthread"]), LIMIT).expect("it links");

    for (suite, count) in OURS {
        let mut command = prepared(&program, folder.path(), Kind::Zebu);
        command.env("LD_LIBRARY_PATH", ours.join("lib"));
        passes(command.arg(suite), suite, count);
    }
}

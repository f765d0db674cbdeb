//! kazoo's own test suite, which starts its servers itself, against the original and against Zebu.
//!
//! Its harness runs `java`. A program with that name, first on the PATH, starts Zebu instead. The
//! suite runs with one server and with three. `kazoo-excluded.txt` lists the tests that cannot
//! pass, each with a reason. `zebu_races.py` mends a race of kazoo itself.

use std::collections::BTreeMap;
use std::fs;
use std::process::Command;
use std::time::Duration;

use zebu_interop::deps;
use zebu_interop::kdc::Kdc;
use zebu_interop::run::run;
use zebu_interop::scenario::subject;
use zebu_interop::server::{Kind, free_ports};

/// The suite takes three and a half minutes if all tests pass.
const LIMIT: Duration = Duration::from_secs(30 * 60);

/// The realm that the suite's tests of Kerberos name, and its principals by the names of their key
/// tables.
const REALM: &str = "KAZOOTEST.ORG";
const PRINCIPALS: [(&str, &str); 2] =
    [("zookeeper/127.0.0.1", "server.keytab"), ("client", "client.keytab")];

/// Number of servers that the harness starts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Servers {
    One,
    Three,
}

impl Servers {
    fn name(self) -> &'static str {
        match self {
            Self::One => "one",
            Self::Three => "three",
        }
    }

    fn count(self) -> u16 {
        match self {
            Self::One => 1,
            Self::Three => 3,
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Outcome {
    Passed,
    Skipped,
    Failed(String),
}

fn excluded(servers: Servers) -> BTreeMap<String, String> {
    let file = deps::repository().join("tests/interop/kazoo-excluded.txt");
    let text = fs::read_to_string(file).expect("kazoo-excluded.txt");
    text.lines()
        .filter(|line| !line.is_empty() && !line.starts_with('#'))
        .filter_map(|line| {
            let (name, rest) = line.split_once(' ').expect("a name");
            let (place, reason) = rest.trim().split_once(' ').expect("a place and a reason");
            assert!(["one", "three", "always"].contains(&place), "{name}: {place}");
            let is_here = [servers.name(), "always"].contains(&place);
            is_here.then(|| (name.to_owned(), reason.trim().to_owned()))
        })
        .collect()
}

/// Runs the suite, or only the named tests, and returns the result of each test.
fn suite(servers: Servers, kind: Kind, only: &[&str]) -> BTreeMap<String, Outcome> {
    let folder = tempfile::tempdir().expect("a folder");
    let kdc = Kdc::start_realm(REALM, &PRINCIPALS.map(|(principal, _)| principal)).expect("a KDC");
    for (principal, name) in PRINCIPALS {
        let path = kdc.folder().join(name);
        fs::rename(kdc.key_tab_of(principal), path).expect("a key table");
    }
    let report = folder.path().join("report.xml");
    let root = deps::repository().join("tests/interop");
    let mut command = Command::new(deps::python());
    command
        .args(["-m", "pytest", "-q", "-p", "no:cacheprovider"])
        .args(["-p", "zebu_excluded", "-p", "zebu_races"])
        .args(["--timeout", "120", "--pyargs", "kazoo.tests"])
        .arg(format!("--junit-xml={}", report.display()))
        .current_dir(folder.path())
        .env_remove("CI")
        .env("TMPDIR", folder.path())
        .env("KRB5_CONFIG", kdc.config())
        .env("KRB5_TEST_ENV", kdc.folder())
        .env("KRB5CCNAME", kdc.folder().join("cache"))
        .env("PYTHONPATH", root.join("clients/kazoo"))
        .env("ZEBU_KAZOO_EXCLUDED", root.join("kazoo-excluded.txt"))
        .env("ZEBU_KAZOO_ONLY", only.join(","))
        .env("ZOOKEEPER_CLASSPATH", deps::classpath_395())
        .env("ZOOKEEPER_VERSION", "3.9.5")
        .env("ZEBU_KAZOO_SERVERS", servers.name())
        .env("ZOOKEEPER_CLUSTER_SIZE", servers.count().to_string())
        .env("ZOOKEEPER_PORT_OFFSET", free_ports(10 * servers.count()).to_string());
    if kind == Kind::Zebu {
        let path = std::env::var("PATH").unwrap_or_default();
        command.env("PATH", format!("{}:{path}", root.join("shim").display()));
        command.env("ZEBU_BIN", deps::zebu());
    }
    let output = run(&mut command, LIMIT).expect("the suite ends");
    let xml = fs::read_to_string(&report)
        .unwrap_or_else(|error| panic!("no report: {error}\n{}", output.text));
    let document = roxmltree::Document::parse(&xml).expect("the report is XML");
    let cases = document.descendants().filter(|node| node.has_tag_name("testcase"));
    let mut outcomes = BTreeMap::new();
    for case in cases {
        let class = case.attribute("classname").expect("classname");
        let module = class.strip_prefix("kazoo.tests.").unwrap_or(class);
        let name = format!("{module}.{}", case.attribute("name").expect("name"));
        let outcome = case
            .children()
            .find_map(|child| match child.tag_name().name() {
                "failure" | "error" => {
                    Some(Outcome::Failed(child.text().unwrap_or_default().to_owned()))
                }
                "skipped" => Some(Outcome::Skipped),
                _ => None,
            })
            .unwrap_or(Outcome::Passed);
        outcomes.insert(name, outcome);
    }
    outcomes
}

fn failures(outcomes: &BTreeMap<String, Outcome>) -> Vec<&str> {
    let failed = outcomes.iter().filter(|(_, outcome)| matches!(outcome, Outcome::Failed(_)));
    failed.map(|(name, _)| name.as_str()).collect()
}

/// All tests except for the excluded ones pass against Zebu.
fn check(servers: Servers) {
    let mut ours = suite(servers, subject(), &[]);
    let excluded = excluded(servers);
    for name in excluded.keys() {
        assert_eq!(ours.get(name), Some(&Outcome::Skipped), "{name} is excluded in vain");
    }
    let skipped = ours.iter().filter(|(_, outcome)| **outcome == Outcome::Skipped);
    for (name, _) in skipped {
        assert!(excluded.contains_key(name), "{name} skips itself without being listed");
    }
    // Many tests have short deadlines. A test that fails under load runs a second time alone.
    let again = |ours: &BTreeMap<String, Outcome>, kind: Kind| {
        let failed = failures(ours);
        if failed.is_empty() {
            return BTreeMap::new();
        }
        println!("again, alone, with {kind:?}: {failed:?}");
        suite(servers, kind, &failed)
    };
    let second = again(&ours, subject());
    ours.extend(second);
    let java = again(&ours, Kind::Java395);
    let mut texts = Vec::new();
    for (name, outcome) in &ours {
        if let Outcome::Failed(text) = outcome {
            let original = java.get(name);
            texts.push(format!("{name} (against the original: {original:?})\n{text}"));
        }
    }
    assert!(texts.is_empty(), "{} tests fail\n{}", texts.len(), texts.join("\n\n"));
    let passed = ours.values().filter(|outcome| **outcome == Outcome::Passed).count();
    println!("{passed} of kazoo's tests pass, {} are excluded", excluded.len());
    assert!(passed > 470, "only {passed} tests were found");
}

#[test]
#[ignore = "needs third-party programs: cargo xtask deps"]
fn kazoos_own_tests_pass_with_one_server() {
    check(Servers::One);
}

#[test]
#[ignore = "needs third-party programs: cargo xtask deps"]
fn kazoos_own_tests_pass_with_three_servers() {
    check(Servers::Three);
}

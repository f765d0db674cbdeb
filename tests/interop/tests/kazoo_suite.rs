//! kazoo's own test-suite, which starts its servers itself, against the original and against ours.
//!
//! Its harness calls `java`; a program of that name, first on the PATH, starts ours instead. One server is
//! started, not three: what needs an ensemble is listed in `kazoo-excluded.txt`, with all else that cannot
//! pass, by name and with the reason.

use std::collections::BTreeMap;
use std::fs;
use std::process::Command;
use std::time::Duration;

use zebu_interop::deps;
use zebu_interop::run::run;
use zebu_interop::scenario::subject;
use zebu_interop::server::{Kind, free_ports};

/// The suite takes three and a half minutes when nothing is wrong.
const LIMIT: Duration = Duration::from_secs(20 * 60);

#[derive(Clone, Debug, PartialEq, Eq)]
enum Outcome {
    Passed,
    Skipped,
    Failed(String),
}

fn excluded() -> BTreeMap<String, String> {
    let file = deps::repository().join("tests/interop/kazoo-excluded.txt");
    let text = fs::read_to_string(file).expect("kazoo-excluded.txt");
    text.lines()
        .filter(|line| !line.is_empty() && !line.starts_with('#'))
        .map(|line| {
            let (name, reason) = line.split_once(' ').expect("a name and a reason");
            (name.to_owned(), reason.trim().to_owned())
        })
        .collect()
}

/// Runs the suite, or only the tests named, and returns what became of each.
fn suite(kind: Kind, only: &[&str]) -> BTreeMap<String, Outcome> {
    let folder = tempfile::tempdir().expect("a folder");
    let report = folder.path().join("report.xml");
    let root = deps::repository().join("tests/interop");
    let mut command = Command::new(deps::python());
    command
        .args(["-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "zebu_excluded"])
        .args(["--timeout", "120", "--pyargs", "kazoo.tests"])
        .arg(format!("--junit-xml={}", report.display()))
        .current_dir(folder.path())
        .env_remove("CI")
        .env("TMPDIR", folder.path())
        .env("PYTHONPATH", root.join("clients/kazoo"))
        .env("ZEBU_KAZOO_EXCLUDED", root.join("kazoo-excluded.txt"))
        .env("ZEBU_KAZOO_ONLY", only.join(","))
        .env("ZOOKEEPER_CLASSPATH", deps::classpath_395())
        .env("ZOOKEEPER_VERSION", "3.9.5")
        .env("ZOOKEEPER_CLUSTER_SIZE", "1")
        .env("ZOOKEEPER_PORT_OFFSET", free_ports(5).to_string());
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

#[test]
#[ignore = "needs third-party programs: cargo xtask deps"]
fn kazoos_own_tests_pass() {
    // Both at once: they mostly wait.
    let (java, mut ours) = std::thread::scope(|scope| {
        let java = scope.spawn(|| suite(Kind::Java395, &[]));
        let ours = suite(subject(), &[]);
        (java.join().expect("the suite against the original"), ours)
    });

    let excluded = excluded();
    for name in excluded.keys() {
        assert_eq!(ours.get(name), Some(&Outcome::Skipped), "{name} is excluded in vain");
    }
    let skipped = ours.iter().filter(|(_, outcome)| **outcome == Outcome::Skipped);
    for (name, _) in skipped {
        assert!(excluded.contains_key(name), "{name} skips itself without being listed");
    }
    assert_eq!(java.keys().collect::<Vec<_>>(), ours.keys().collect::<Vec<_>>());

    // Many of its tests have deadlines of their own; what fails under load gets a second chance alone.
    let failed: Vec<String> = failures(&ours).into_iter().map(str::to_owned).collect();
    if !failed.is_empty() {
        println!("again, alone: {failed:?}");
        let names: Vec<&str> = failed.iter().map(String::as_str).collect();
        ours.extend(suite(subject(), &names));
    }
    let mut texts = Vec::new();
    for (name, outcome) in &ours {
        if let Outcome::Failed(text) = outcome {
            texts.push(format!("{name} (against the original: {:?})\n{text}", java[name]));
        }
    }
    assert!(texts.is_empty(), "{} tests fail\n{}", texts.len(), texts.join("\n\n"));
    let passed = ours.values().filter(|outcome| **outcome == Outcome::Passed).count();
    println!("{passed} of kazoo's tests pass, {} are excluded", excluded.len());
    println!("the original in this run: {} failed", failures(&java).len());
    assert!(passed > 470, "only {passed} tests were found");
}

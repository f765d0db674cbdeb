//! Test suites of Java programs that start servers in their own process: here the servers are
//! separate processes.
//!
//! Classes below `clients/suites` replace the classes with which a suite starts its servers.
//! `suites/NAME.txt` lists which test classes run and which tests are left out, each with a reason.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};

use crate::deps;
use crate::run::{run, succeed};
use crate::server::{Kind, java_with};

/// No class takes this long, even on a busy machine.
const LIMIT: Duration = Duration::from_secs(30 * 60);
/// Compiling takes some seconds.
const COMPILE_LIMIT: Duration = Duration::from_secs(300);

/// The result of a test.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It passed.
    Passed,
    /// It was skipped by itself.
    Skipped,
    /// It failed, with this message.
    Failed(String),
}

/// Results by name: `CLASS#METHOD`, and a number in brackets if a method is several tests.
pub type Outcomes = BTreeMap<String, Outcome>;

/// The selection of a suite's tests.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct List {
    /// Names of the classes.
    pub classes: Vec<String>,
    /// Tests that are left out, `CLASS#METHOD`, with their reasons.
    pub excluded: BTreeMap<String, String>,
}

impl List {
    /// Parses `run CLASS` and `not CLASS#METHOD REASON`, one a line. `#` starts a comment line.
    ///
    /// # Errors
    /// A line has another form, or leaves out a test of a class that does not run.
    pub fn parse(text: &str) -> Result<Self> {
        let mut list = Self::default();
        for line in text.lines().filter(|line| !line.is_empty() && !line.starts_with('#')) {
            match line.split_once(' ') {
                Some(("run", class)) => list.classes.push(class.trim().to_owned()),
                Some(("not", rest)) => {
                    let (name, reason) = rest.trim().split_once(' ').context(line.to_owned())?;
                    let (class, _) = name.split_once('#').context(line.to_owned())?;
                    ensure!(
                        list.classes.iter().any(|known| known == class),
                        "{class} does not run"
                    );
                    list.excluded.insert(name.to_owned(), reason.trim().to_owned());
                }
                _ => bail!("neither run nor not: {line}"),
            }
        }
        Ok(list)
    }
}

/// A suite with its compiled replacement classes.
pub struct Suite {
    name: &'static str,
    classes: tempfile::TempDir,
    list: List,
}

impl Suite {
    /// The names of the suites.
    pub const NAMES: [&str; 3] = ["curator", "kafka", "zookeeper"];

    /// Reads the selection and compiles the replacement classes.
    ///
    /// # Errors
    /// The list is invalid, or the classes do not compile.
    pub fn prepare(name: &'static str) -> Result<Self> {
        let file = deps::repository().join(format!("tests/interop/suites/{name}.txt"));
        let text = fs::read_to_string(&file).with_context(|| file.display().to_string())?;
        let list = List::parse(&text).with_context(|| file.display().to_string())?;
        let suite = Self { name, classes: tempfile::tempdir()?, list };
        let mut javac = Command::new("javac");
        javac.args(["-Xlint:all,-classfile", "-Werror", "-cp", &suite.libraries(), "-d"]);
        javac.arg(suite.classes.path());
        for folder in ["common", name] {
            sources(&deps::client("suites").join(folder), &mut javac)?;
        }
        succeed(&mut javac, COMPILE_LIMIT)?;
        Ok(suite)
    }

    /// The selection.
    pub fn list(&self) -> &List {
        &self.list
    }

    fn libraries(&self) -> String {
        let own = deps::installed(&format!("suite-{}", self.name));
        let junit = deps::installed("suite-junit");
        format!("{}/*:{}/*", own.display(), junit.display())
    }

    /// Runs these words, each `CLASS` or `CLASS#METHOD`, except for tests that are left out.
    ///
    /// # Errors
    /// The program does not end normally.
    pub fn run(&self, kind: Kind, words: &[&str]) -> Result<Outcomes> {
        let folder = tempfile::tempdir()?;
        let server = match kind {
            Kind::Zebu => {
                let zebu = deps::zebu();
                format!("{}\nserver\n--set\nzebu.runWithout=plugins", zebu.display())
            }
            _ => format!(
                "java\n-XX:+UseSerialGC\n-XX:TieredStopAtLevel=1\n\
                 -Dorg.slf4j.simpleLogger.defaultLogLevel=warn\n-cp\n{}\n\
                 org.apache.zookeeper.server.quorum.QuorumPeerMain",
                deps::classpath_395()
            ),
        };
        let classpath = format!("{}:{}", self.classes.path().display(), self.libraries());
        let mut java = java_with(&classpath);
        java.arg(format!("-Djava.io.tmpdir={}", folder.path().display()))
            .arg(format!("-Dbuild.test.dir={}", folder.path().display()))
            .arg(format!("-Dzebu.suite.server={server}"))
            .arg("-Dorg.slf4j.simpleLogger.defaultLogLevel=off")
            // Mockito changes platform classes.
            .args(["--add-opens", "java.base/java.lang=ALL-UNNAMED"]);
        if self.name == "zookeeper" {
            let factory = "org.apache.zookeeper.server.ProcessCnxnFactory";
            java.arg(format!("-Dzookeeper.serverCnxnFactory={factory}"));
        }
        java.arg("zebu.RunSuite").args(words);
        java.args(self.list.excluded.keys().map(|name| format!("-{name}")));
        let output = run(java.current_dir(folder.path()), LIMIT)?;
        outcomes(&output.text)
    }
}

/// Adds all sources below a folder.
fn sources(folder: &Path, javac: &mut Command) -> Result<()> {
    let entries = fs::read_dir(folder).with_context(|| folder.display().to_string())?;
    let mut paths = entries.map(|entry| Ok(entry?.path())).collect::<Result<Vec<PathBuf>>>()?;
    paths.sort();
    for path in paths {
        if path.is_dir() {
            sources(&path, javac)?;
        } else {
            javac.arg(path);
        }
    }
    Ok(())
}

/// Parses the test runner's report.
fn outcomes(text: &str) -> Result<Outcomes> {
    ensure!(text.lines().any(|line| line == "::end"), "the suite did not end\n{text}");
    let mut outcomes = Outcomes::new();
    for line in text.lines() {
        let Some((what, rest)) = line.strip_prefix("::").and_then(|line| line.split_once(' '))
        else {
            continue;
        };
        let (name, more) = rest.split_once(' ').unwrap_or((rest, ""));
        let outcome = match what {
            "passed" => Outcome::Passed,
            "skipped" => Outcome::Skipped,
            _ => Outcome::Failed(more.to_owned()),
        };
        outcomes.insert(name.to_owned(), outcome);
    }
    Ok(outcomes)
}

#[test]
fn lists_say_what_runs_and_what_does_not() {
    let list =
        List::parse("# all\nrun a.B\n\nrun a.C\nnot a.B#m  has no\tserver\n").expect("a list");
    assert_eq!(list.classes, ["a.B", "a.C"]);
    assert_eq!(list.excluded, [("a.B#m".to_owned(), "has no\tserver".to_owned())].into());
    for wrong in ["a.B", "not a.B#m why", "run a.B\nnot a.B#m", "run a.B\nnot a.B why not"] {
        assert!(List::parse(wrong).is_err(), "{wrong}");
    }
}

#[test]
fn lines_of_the_runner_become_outcomes() {
    let text = "noise\n::passed a.B#m 12ms\n::failed a.B#n[2] 3ms why\n::skipped a.B#o no\n::end\n";
    let failed = Outcome::Failed("3ms why".to_owned());
    let wanted = [("a.B#m", Outcome::Passed), ("a.B#n[2]", failed), ("a.B#o", Outcome::Skipped)];
    let wanted = wanted.map(|(name, outcome)| (name.to_owned(), outcome));
    assert_eq!(outcomes(text).expect("an end"), wanted.into());
    assert!(outcomes("::passed a.B#m 12ms\n").is_err());
}

//! The steps of a test run, each with a headline and its time.

use std::fs::File;
use std::io::Seek;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Instant;

use anyhow::{Context, Result, ensure};

use crate::runner::{Executable, Job};
use crate::{deps, runner, tidy};

/// The number of test executables that run at the same time. Most of them mostly wait.
const AT_ONCE: usize = 2;

/// The packages with tests that need third-party programs, and the argument that selects those
/// tests.
///
/// In all packages except zebu-interop, the tests without such programs run beforehand.
const WITH_PROGRAMS: [(&str, &str); 4] = [
    ("tests/interop", "--include-ignored"),
    ("examples", "--ignored"),
    ("crates/auth", "--ignored"),
    ("xtask", "--ignored"),
];

/// The crates that other projects use.
const PUBLISHED: [&str; 8] = [
    "zebu-auth",
    "zebu-client",
    "zebu-gssapi",
    "zebu-jute",
    "zebu-ocsp",
    "zebu-proto",
    "zebu-recipes",
    "zebu-session",
];

/// Runs all checks and tests.
pub(crate) fn test() -> Result<()> {
    let start = Instant::now();
    section("formatting", || run(cargo(&["fmt", "--all", "--check"])))?;
    section("tidy", tidy::check)?;
    section("clippy", || {
        run(cargo(&["clippy", "--workspace", "--all-targets", "--", "-D", "warnings"]))
    })?;
    section("documentation", documentation)?;
    section("packages of crates", packages)?;
    section("third-party programs", deps::install)?;
    let tests = section("build", runner::build)?;
    let release = Background::start(release())?;
    // All test runs are finished even if one fails, so that one run shows everything.
    let ours = section("tests", || {
        let jobs = tests.iter().filter(|test| !test.is_of("tests/interop"));
        runner::run(jobs.map(|test| job(test, Vec::new())).collect(), AT_ONCE)
    });
    let examples = section("examples of the documentation", || {
        run(cargo(&["test", "--workspace", "--doc", "--no-fail-fast"]))
    });
    let threads = section("interleaved threads", || {
        let test = ["test", "-p", "zebu-engine", "--features", "shuttle", "--test", "threads"];
        run(cargo(&test))
    });
    let interop = section("interop tests", || with_programs(&tests, &[]));
    let released = section("release build", || release.finish());
    let counted = section("counted costs", || counted(&[]));
    println!("\n== done in {:.0?}", start.elapsed());
    all([ours, examples, threads, interop, released, counted])
}

/// Combines the failures of all steps.
fn all(steps: impl IntoIterator<Item = Result<()>>) -> Result<()> {
    let failures = steps.into_iter().filter_map(Result::err);
    let failures: Vec<String> = failures.map(|error| format!("{error:#}")).collect();
    ensure!(failures.is_empty(), "{}", failures.join("\n"));
    Ok(())
}

/// Every public item is documented, and every link in the documentation leads somewhere.
fn documentation() -> Result<()> {
    let mut command = cargo(&["doc", "--workspace", "--no-deps", "--quiet"]);
    command.env("RUSTDOCFLAGS", "-D warnings");
    run(command)
}

/// The published crates can be packaged: they depend on nothing that is not published.
fn packages() -> Result<()> {
    let mut command = cargo(&["package", "--no-verify", "--allow-dirty", "--offline", "--quiet"]);
    command.args(PUBLISHED.iter().flat_map(|name| ["--package", name]));
    run(command)
}

/// Runs the interop tests. They are ignored by default because they need third-party programs.
pub(crate) fn interop(words: &[String]) -> Result<()> {
    deps::install()?;
    with_programs(&runner::build()?, words)
}

/// Runs the tests that need third-party programs.
fn with_programs(tests: &[Executable], words: &[String]) -> Result<()> {
    let mut jobs = Vec::new();
    for (package, which) in WITH_PROGRAMS {
        for test in tests.iter().filter(|test| test.is_of(package)) {
            let own = [which.to_owned(), "--test-threads=2".to_owned()];
            jobs.push(job(test, own.into_iter().chain(words.iter().cloned()).collect()));
        }
    }
    runner::run(jobs, AT_ONCE)
}

fn job(test: &Executable, words: Vec<String>) -> Job {
    let zebu =
        std::env::var_os("ZEBU_BIN").map_or_else(|| target().join("debug/zebu"), PathBuf::from);
    Job { executable: test.clone(), words, variables: vec![("ZEBU_BIN", zebu)] }
}

/// A background command that uses little of the machine. The task shows its output at its end.
struct Background {
    child: Child,
    command: Command,
    output: File,
}

impl Background {
    fn start(of: Command) -> Result<Self> {
        let output = tempfile::tempfile().context("a file for the output")?;
        let mut command = Command::new("nice");
        command.args(["-n", "15"]).arg(of.get_program()).args(of.get_args()).current_dir(root());
        command.stdin(Stdio::null()).stdout(output.try_clone()?).stderr(output.try_clone()?);
        let child = command.spawn().with_context(|| format!("{command:?}"))?;
        Ok(Self { child, command, output })
    }

    fn finish(mut self) -> Result<()> {
        let status = self.child.wait()?;
        self.output.rewind()?;
        std::io::copy(&mut self.output, &mut std::io::stdout())?;
        ensure!(status.success(), "{:?}: {status}", self.command);
        Ok(())
    }
}

/// Runs the test suites of Java programs against our server.
pub(crate) fn suites(words: &[String]) -> Result<()> {
    deps::install()?;
    deps::install_suites()?;
    program("suites", words)
}

/// Runs applications while their servers change from the original to Zebu and back.
pub(crate) fn dependants(words: &[String]) -> Result<()> {
    deps::install()?;
    deps::install_dependants()?;
    program("dependants", words)
}

/// Runs a program of zebu-interop.
fn program(name: &str, words: &[String]) -> Result<()> {
    run(cargo(&["build", "-p", "zebu", "-p", "zebu-interop", "--bins"]))?;
    let debug = target().join("debug");
    let mut command = Command::new(debug.join(name));
    command.args(words);
    if std::env::var_os("ZEBU_BIN").is_none() {
        command.env("ZEBU_BIN", debug.join("zebu"));
    }
    run(command)
}

/// The build for counted costs.
fn release() -> Command {
    cargo(&["build", "--release", "-p", "zebu", "-p", "zebu-counted"])
}

/// Compares the costs of a request in a release build with the limits. With `--steps`, also shows
/// where they arise.
pub(crate) fn counted(words: &[String]) -> Result<()> {
    deps::install()?;
    run(release())?;
    let release = target().join("release");
    let mut command = Command::new(release.join("zebu-counted"));
    command.arg(release.join("zebu")).args(words);
    run(command)
}

/// Runs the differential test only.
pub(crate) fn diff(ops: Option<u64>, seed: Option<u64>) -> Result<()> {
    let variables = [
        ("ZEBU_DIFF_OPS", ops.map(|ops| ops.to_string())),
        ("ZEBU_DIFF_SEED", seed.map(|seed| seed.to_string())),
    ];
    one_test("differential", "random_operations", &variables)
}

/// Runs ensembles of real processes under faults, for as long as requested.
pub(crate) fn torture(
    minutes: Option<u64>,
    seed: Option<u64>,
    nemesis: Option<String>,
    workload: Option<String>,
) -> Result<()> {
    let variables = [
        ("ZEBU_TORTURE_MINUTES", minutes.map(|minutes| minutes.to_string())),
        ("ZEBU_TORTURE_SEED", seed.map(|seed| seed.to_string())),
        ("ZEBU_TORTURE_NEMESIS", nemesis),
        ("ZEBU_TORTURE_WORKLOAD", workload),
    ];
    one_test("torture", "ensembles_outlive_everything", &variables)
}

/// Kills servers at their system calls.
pub(crate) fn crash_points(points: Option<u64>) -> Result<()> {
    let variables = [("ZEBU_CRASH_POINTS", points.map(|points| points.to_string()))];
    one_test("crash_points", "that_is_killed_at_any_call", &variables)
}

/// Cuts the power of servers' disks.
pub(crate) fn power_cuts(cuts: Option<u64>, age: Option<u64>) -> Result<()> {
    let variables = [
        ("ZEBU_POWER_CUTS", cuts.map(|cuts| cuts.to_string())),
        ("ZEBU_POWER_CUTS_AGE", age.map(|seconds| seconds.to_string())),
    ];
    one_test("power_cuts", "acknowledged", &variables)
}

/// Damages the files of members.
pub(crate) fn damage(times: Option<u64>) -> Result<()> {
    let variables = [("ZEBU_DAMAGE", times.map(|times| times.to_string()))];
    one_test("damaged_files", "acknowledged", &variables)
}

/// Runs one interop test. The given options become environment variables.
fn one_test(file: &str, name: &str, variables: &[(&str, Option<String>)]) -> Result<()> {
    deps::install()?;
    let mut command = cargo(&["test", "-p", "zebu-interop", "--test", file, "--"]);
    command.args(["--include-ignored", "--nocapture", name]);
    for (variable, value) in variables {
        if let Some(value) = value {
            command.env(variable, value);
        }
    }
    if std::env::var_os("ZEBU_BIN").is_none() {
        run(cargo(&["build", "-p", "zebu"]))?;
        command.env("ZEBU_BIN", target().join("debug/zebu"));
    }
    run(command)
}

/// Runs the simulator, optimized and with every assertion.
pub(crate) fn sim(words: &[String]) -> Result<()> {
    let mut command = cargo(&["run", "--quiet", "--profile", "sim", "-p", "zebu-sim", "--"]);
    command.args(words);
    run(command)
}

/// Runs the simulator with deliberate faults. One build contains all of them.
pub(crate) fn mutants(words: &[String]) -> Result<()> {
    let mut command = cargo(&["run", "--quiet", "--profile", "sim", "-p", "zebu-sim"]);
    command.args(["--features", "mutants", "--", "--mutants"]);
    command.args(words);
    run(command)
}

fn section<T>(title: &str, step: impl FnOnce() -> Result<T>) -> Result<T> {
    println!("\n== {title}");
    let start = Instant::now();
    let result = step().with_context(|| title.to_owned());
    let word = if result.is_ok() { "passed" } else { "FAILED" };
    println!("-- {title}: {word} in {:.0?}; {}", start.elapsed(), room());
    result
}

/// The free disk space.
fn room() -> String {
    let space = |path: &Path| {
        let output = Command::new("df").args(["--output=avail", "-h"]).arg(path).output().ok()?;
        let text = String::from_utf8(output.stdout).ok()?;
        Some(format!("{} left in {}", text.lines().nth(1)?.trim(), path.display()))
    };
    [root(), std::env::temp_dir()]
        .iter()
        .filter_map(|path| space(path))
        .collect::<Vec<_>>()
        .join(", ")
}

pub(crate) fn cargo(words: &[&str]) -> Command {
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.args(words).current_dir(root());
    command
}

/// Runs a command with this process's input and output.
pub(crate) fn run(mut command: Command) -> Result<()> {
    let status = command.status().with_context(|| format!("{command:?}"))?;
    ensure!(status.success(), "{command:?}: {status}");
    Ok(())
}

/// The root of the repository.
pub(crate) fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).parent().expect("xtask is below it").to_path_buf()
}

pub(crate) fn target() -> PathBuf {
    std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root().join("target"), PathBuf::from)
}

#[cfg(test)]
mod tests {
    use anyhow::anyhow;

    use super::*;

    #[test]
    fn every_failed_step_is_reported() {
        all([Ok(()), Ok(())]).unwrap();
        let error = all([Err(anyhow!("one")), Ok(()), Err(anyhow!("other"))]).unwrap_err();
        assert_eq!(error.to_string(), "one\nother");
    }
}

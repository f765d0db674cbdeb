//! The steps of a test run, each with a headline and its time.

use std::path::PathBuf;
use std::process::Command;
use std::time::Instant;

use anyhow::{Context, Result, ensure};

use crate::{deps, tidy};

/// Everything a submission must pass.
pub(crate) fn test() -> Result<()> {
    let start = Instant::now();
    section("formatting", || run(cargo(&["fmt", "--all", "--check"])))?;
    section("tidy", tidy::check)?;
    section("clippy", || {
        run(cargo(&["clippy", "--workspace", "--all-targets", "--", "-D", "warnings"]))
    })?;
    section("documentation", documentation)?;
    section("third-party programs", deps::install)?;
    section("build", || run(cargo(&["build", "--workspace", "--bins"])))?;
    // Both test runs are finished even if the first one fails, so that one run shows everything.
    let ours = section("tests", || {
        run(cargo(&["test", "--workspace", "--exclude", "zebu-interop", "--no-fail-fast"]))
    });
    let threads = section("interleaved threads", || {
        let test = ["test", "-p", "zebu-engine", "--features", "shuttle", "--test", "threads"];
        run(cargo(&test))
    });
    let interop = section("interop tests", || interop(&[]));
    let counted = section("counted costs", || counted(&[]));
    println!("\n== done in {:.0?}", start.elapsed());
    ours.and(threads).and(interop).and(counted)
}

/// Every public item is documented, and every link in the documentation leads somewhere.
fn documentation() -> Result<()> {
    let mut command = cargo(&["doc", "--workspace", "--no-deps", "--quiet"]);
    command.env("RUSTDOCFLAGS", "-D warnings");
    run(command)
}

/// The interop tests; they are ignored without the third-party programs, so they are asked for.
pub(crate) fn interop(words: &[String]) -> Result<()> {
    deps::install()?;
    let zebu = target().join("debug/zebu");
    let is_given = std::env::var_os("ZEBU_BIN").is_some();
    if !is_given {
        run(cargo(&["build", "-p", "zebu"]))?;
    }
    // Of the other packages only the tests that need third-party programs: the others run with all tests.
    let packages = [
        ("zebu-interop", "--include-ignored"),
        ("zebu-examples", "--ignored"),
        ("zebu-auth", "--ignored"),
        ("xtask", "--ignored"),
    ];
    // All are run even if one fails, so that one run shows everything.
    let mut done = Ok(());
    for (package, which) in packages {
        let mut command = cargo(&["test", "-p", package, "--no-fail-fast"]);
        command.args(["--", which, "--test-threads=2"]);
        command.args(words);
        if !is_given {
            command.env("ZEBU_BIN", &zebu);
        }
        done = done.and(run(command));
    }
    done
}

/// The test-suites of Java programs against our server.
pub(crate) fn suites(words: &[String]) -> Result<()> {
    deps::install()?;
    deps::install_suites()?;
    run(cargo(&["build", "-p", "zebu", "-p", "zebu-interop", "--bins"]))?;
    let debug = target().join("debug");
    let mut command = Command::new(debug.join("suites"));
    command.args(words);
    if std::env::var_os("ZEBU_BIN").is_none() {
        command.env("ZEBU_BIN", debug.join("zebu"));
    }
    run(command)
}

/// What a request costs a release build, against the limits; with `--steps` also where.
pub(crate) fn counted(words: &[String]) -> Result<()> {
    deps::install()?;
    run(cargo(&["build", "--release", "-p", "zebu", "-p", "zebu-counted"]))?;
    let release = target().join("release");
    let mut command = Command::new(release.join("zebu-counted"));
    command.arg(release.join("zebu")).args(words);
    run(command)
}

/// The differential test alone.
pub(crate) fn diff(ops: Option<u64>, seed: Option<u64>) -> Result<()> {
    let variables = [
        ("ZEBU_DIFF_OPS", ops.map(|ops| ops.to_string())),
        ("ZEBU_DIFF_SEED", seed.map(|seed| seed.to_string())),
    ];
    one_test("differential", "random_operations", &variables)
}

/// Ensembles of real processes under faults, as long as one likes.
pub(crate) fn faults(minutes: Option<u64>, seed: Option<u64>, only: Option<String>) -> Result<()> {
    let variables = [
        ("ZEBU_FAULTS_MINUTES", minutes.map(|minutes| minutes.to_string())),
        ("ZEBU_FAULTS_SEED", seed.map(|seed| seed.to_string())),
        ("ZEBU_FAULTS_ONLY", only),
    ];
    one_test("faults", "members_outlive_faults_drawn_from_a_seed", &variables)
}

/// One interop test; the options that were given become environment variables.
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

/// The simulator, as fast as it gets and with every assertion.
pub(crate) fn sim(words: &[String]) -> Result<()> {
    let mut command = cargo(&["run", "--quiet", "--profile", "sim", "-p", "zebu-sim", "--"]);
    command.args(words);
    run(command)
}

/// The simulator over code with faults put in on purpose; one build has them all.
pub(crate) fn mutants(words: &[String]) -> Result<()> {
    let mut command = cargo(&["run", "--quiet", "--profile", "sim", "-p", "zebu-sim"]);
    command.args(["--features", "mutants", "--", "--mutants"]);
    command.args(words);
    run(command)
}

fn section(title: &str, step: impl FnOnce() -> Result<()>) -> Result<()> {
    println!("\n== {title}");
    let start = Instant::now();
    let result = step().with_context(|| title.to_owned());
    let word = if result.is_ok() { "passed" } else { "FAILED" };
    println!("-- {title}: {word} in {:.0?}", start.elapsed());
    result
}

pub(crate) fn cargo(words: &[&str]) -> Command {
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.args(words).current_dir(root());
    command
}

/// Runs a command with our own input and output.
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

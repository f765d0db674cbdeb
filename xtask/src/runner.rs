//! The executables of the tests: built once, then run several at a time.
//!
//! `cargo test` runs one executable after the other, and most of ours wait for timers, disks and
//! other processes. It also builds the same crates again for each choice of packages.

use std::collections::VecDeque;
use std::fs::File;
use std::io::{Read, Seek, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::Mutex;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use serde_json::Value;

use crate::steps::{cargo, root};

/// The time limit of an executable. The task kills its process then.
const LIMIT: Duration = Duration::from_secs(20 * 60);

/// The interval of checks of a running executable.
const LOOK: Duration = Duration::from_millis(50);

/// One executable of tests.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Executable {
    /// The folder of its package, relative to the root of the repository.
    package: PathBuf,
    /// Its source, relative to the folder of the package.
    source: PathBuf,
    path: PathBuf,
}

impl Executable {
    /// Whether it belongs to the package in this folder.
    pub(crate) fn is_of(&self, folder: &str) -> bool {
        self.package == Path::new(folder)
    }

    fn name(&self) -> String {
        self.package.join(&self.source).display().to_string()
    }

    /// The test executable that a line of cargo's messages names, if it names one.
    fn announced(line: &str, root: &Path) -> Option<Self> {
        let message: Value = serde_json::from_str(line).ok()?;
        if message["profile"]["test"] != true {
            return None;
        }
        let path = message["executable"].as_str()?.into();
        let folder = Path::new(message["manifest_path"].as_str()?).parent()?;
        let source = Path::new(message["target"]["src_path"].as_str()?);
        Some(Self {
            package: folder.strip_prefix(root).ok()?.into(),
            source: source.strip_prefix(folder).unwrap_or(source).into(),
            path,
        })
    }
}

/// An executable with its arguments.
#[derive(Debug)]
pub(crate) struct Job {
    pub(crate) executable: Executable,
    pub(crate) words: Vec<String>,
    pub(crate) variables: Vec<(&'static str, PathBuf)>,
}

/// Builds all tests of the workspace, and the programs that they start.
pub(crate) fn build() -> Result<Vec<Executable>> {
    let mut command = cargo(&["test", "--workspace", "--no-run"]);
    command.arg("--message-format=json-render-diagnostics").stdout(Stdio::piped());
    let output = command.spawn().and_then(Child::wait_with_output)?;
    ensure!(output.status.success(), "{command:?}: {}", output.status);
    let text = String::from_utf8(output.stdout).context("the messages of cargo")?;
    let root = root();
    Ok(text.lines().filter_map(|line| Executable::announced(line, &root)).collect())
}

/// Runs all jobs, `at_once` at a time, even if some fail. Shows the output of each job when it
/// ends.
pub(crate) fn run(jobs: Vec<Job>, at_once: usize) -> Result<()> {
    let waiting = Mutex::new(VecDeque::from(jobs));
    let failed = Mutex::new(Vec::new());
    thread::scope(|scope| {
        for _ in 0..at_once {
            scope.spawn(|| {
                while let Some(job) = take(&waiting) {
                    let name = job.executable.name();
                    if let Err(error) = job.run() {
                        println!("   {name}: {error:#}");
                        failed.lock().expect("no holder panics").push(name);
                    }
                }
            });
        }
    });
    let mut failed = failed.into_inner().expect("no holder panics");
    failed.sort();
    ensure!(failed.is_empty(), "failed: {}", failed.join(", "));
    Ok(())
}

fn take(waiting: &Mutex<VecDeque<Job>>) -> Option<Job> {
    waiting.lock().expect("no holder panics").pop_front()
}

impl Job {
    fn run(&self) -> Result<()> {
        let mut output = tempfile::tempfile().context("a file for the output")?;
        let start = Instant::now();
        let folder = root().join(&self.executable.package);
        let mut command = Command::new(&self.executable.path);
        command.args(&self.words).envs(self.variables.iter().map(|(name, value)| (name, value)));
        command.env("CARGO_MANIFEST_DIR", &folder).current_dir(folder);
        command.stdin(Stdio::null()).stdout(output.try_clone()?).stderr(output.try_clone()?);
        let ended = ended(command.spawn()?);
        self.show(&mut output, start.elapsed())?;
        let status = ended?;
        ensure!(status.success(), "{status}");
        Ok(())
    }

    /// One write, so that the outputs of two executables do not mix.
    fn show(&self, output: &mut File, took: Duration) -> Result<()> {
        let mut text = format!("   {} ({took:.1?})\n", self.executable.name()).into_bytes();
        output.rewind()?;
        output.read_to_end(&mut text)?;
        Ok(std::io::stdout().write_all(&text)?)
    }
}

/// Waits for the end of a process, and kills it at the limit.
fn ended(mut child: Child) -> Result<ExitStatus> {
    let start = Instant::now();
    while start.elapsed() < LIMIT {
        if let Some(status) = child.try_wait()? {
            return Ok(status);
        }
        thread::sleep(LOOK);
    }
    child.kill()?;
    child.wait()?;
    anyhow::bail!("killed after {} minutes", LIMIT.as_secs() / 60)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cargo_announces_the_executables_of_tests_among_other_things() {
        let announced = |line: &str| Executable::announced(line, Path::new("/zebu"));
        let test = r#"{"reason":"compiler-artifact","manifest_path":"/zebu/crates/zab/Cargo.toml",
            "target":{"name":"peer","src_path":"/zebu/crates/zab/tests/peer/main.rs"},
            "profile":{"test":true},"executable":"/zebu/target/debug/deps/peer-0a13"}"#;
        let executable = announced(test).unwrap();
        assert_eq!(executable.name(), "crates/zab/tests/peer/main.rs");
        assert!(executable.is_of("crates/zab") && !executable.is_of("crates"));
        assert_eq!(executable.path, Path::new("/zebu/target/debug/deps/peer-0a13"));
        for line in [
            "not of cargo",
            r#"{"reason":"build-finished","success":true}"#,
            &test.replace("true", "false"),
            &test.replace("\"/zebu/target/debug/deps/peer-0a13\"", "null"),
        ] {
            assert_eq!(announced(line), None, "{line}");
        }
    }

    fn job(words: &[&str]) -> Job {
        let executable =
            Executable { package: "xtask".into(), source: "src".into(), path: "/bin/sh".into() };
        let words = words.iter().map(|&word| word.to_owned()).collect();
        Job { executable, words, variables: vec![("WORD", "given".into())] }
    }

    #[test]
    fn all_jobs_run_and_the_failed_ones_are_named() {
        let made = tempfile::tempdir().unwrap();
        let file = made.path().join("made");
        let make = format!("test $WORD = given && touch {}", file.display());
        let failed = run(vec![job(&["-c", "exit 3"]), job(&["-c", &make])], 1).unwrap_err();
        assert_eq!(failed.to_string(), "failed: xtask/src");
        assert!(file.exists());
        run(vec![job(&["-c", "true"]), job(&["-c", &make])], 2).unwrap();
    }
}

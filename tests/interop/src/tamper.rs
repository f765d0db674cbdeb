//! Manipulates a running process from outside: its system calls fail or wait, and its wall clock
//! changes.

use std::fs;
use std::os::unix::fs::FileExt as _;
use std::path::PathBuf;
use std::process::Command;
use std::sync::LazyLock;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use tempfile::TempDir;

use crate::deps;
use crate::run::{Program, succeed};
use crate::server::PATIENCE;

const LOOK_AFTER: Duration = Duration::from_millis(5);

/// The name of the library that moves clocks.
const LIBRARY: &str = "clock.so";

/// Faults of the system calls by which a process writes its files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Disk {
    /// Each sync takes 40 ms longer.
    Slow,
    /// The next sync fails.
    Fails,
    /// Every write and every new file fails: the file system is read-only.
    ReadOnly,
}

impl Disk {
    /// The changed calls and their results, in the syntax of `strace`.
    fn injections(self) -> &'static [&'static str] {
        match self {
            Self::Slow => &["fsync,fdatasync:delay_enter=40000"],
            Self::Fails => &["fsync,fdatasync:error=EIO:when=1"],
            Self::ReadOnly => &["pwrite64,ftruncate,fallocate,rename,unlink,mkdir:error=EROFS"],
        }
    }
}

/// A process with changed system calls, until this value is dropped.
pub struct Tampered {
    /// The process that changes the calls.
    strace: Program,
}

impl Drop for Tampered {
    fn drop(&mut self) {
        // On SIGTERM, strace detaches, and the process continues.
        self.strace.terminate().ok();
        let start = Instant::now();
        while self.strace.is_running().unwrap_or(false) && start.elapsed() < PATIENCE {
            std::thread::sleep(LOOK_AFTER);
        }
    }
}

impl Tampered {
    /// Changes the system calls of a running process from now on.
    ///
    /// # Errors
    /// This machine does not permit it.
    pub fn with(pid: u32, disk: Disk) -> Result<Self> {
        let mut command = Command::new("strace");
        command.args(["-f", "-qq", "-o", "/dev/null", "-p"]).arg(pid.to_string());
        for injection in disk.injections() {
            let (calls, _) = injection.split_once(':').context("calls and what becomes of them")?;
            command.args(["-e", &format!("trace={calls}"), "-e", &format!("inject={injection}")]);
        }
        let mut strace = Program::start(&mut command)?;
        let traced = format!("/proc/{pid}/status");
        loop {
            let status = fs::read_to_string(&traced).with_context(|| traced.clone())?;
            if status.lines().any(|line| line == format!("TracerPid:\t{}", strace.pid())) {
                return Ok(Self { strace });
            }
            if !strace.is_running()? {
                bail!("strace: {}", strace.text()?.trim());
            }
            std::thread::sleep(LOOK_AFTER);
        }
    }

    /// Whether this machine permits it.
    pub fn is_possible() -> bool {
        static POSSIBLE: LazyLock<bool> = LazyLock::new(|| {
            let tried = Command::new("sleep").arg("60").spawn().map(|mut process| {
                let tampered = Tampered::with(process.id(), Disk::Slow);
                if let Err(error) = &tampered {
                    eprintln!("no changed system calls on this machine: {error:#}");
                }
                let is_ok = tampered.is_ok();
                drop(tampered);
                // The process is our own. A failure means that it has already ended.
                process.kill().ok();
                process.wait().ok();
                is_ok
            });
            tried.unwrap_or(false)
        });
        *POSSIBLE
    }
}

/// The same command, whose process is killed before one of these calls. The process stays a child
/// of this one.
pub fn killed_at(calls: &str, when: u32, command: &Command) -> Command {
    let mut outer = Command::new("strace");
    outer.args(["-D", "-f", "--seccomp-bpf", "-qq", "-o", "/dev/null"]);
    outer.args(["-e", &format!("trace={calls}")]);
    outer.args(["-e", &format!("inject={calls}:signal=KILL:when={when}"), "--"]);
    outer.arg(command.get_program()).args(command.get_args());
    outer.envs(command.get_envs().filter_map(|(name, value)| Some((name, value?))));
    outer
}

/// A library that moves the wall clock of the processes into which it is loaded.
#[derive(Debug)]
pub struct Clocks {
    folder: TempDir,
}

impl Clocks {
    /// Builds the library.
    ///
    /// # Errors
    /// There is no C compiler.
    pub fn build() -> Result<Self> {
        let folder = tempfile::Builder::new().prefix("zebu-interop-").tempdir()?;
        let mut gcc = Command::new("gcc");
        gcc.args(["-Wall", "-Wextra", "-Werror", "-O1", "-shared", "-fPIC", "-o"]);
        gcc.arg(folder.path().join(LIBRARY)).arg(deps::client("clock/clock.c"));
        succeed(&mut gcc, PATIENCE)?;
        Ok(Self { folder })
    }

    /// Moves this clock by this many seconds from now on.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn set(&self, number: usize, seconds: i64) -> Result<()> {
        let mut options = fs::File::options();
        let options = options.create(true).truncate(false).write(true);
        let file = options.open(self.file(number))?;
        Ok(file.write_all_at(&seconds.to_be_bytes(), 0)?)
    }

    /// The variables of a process with this clock, which must have been set.
    pub fn variables(&self, number: usize) -> [(&'static str, String); 2] {
        let library = self.folder.path().join(LIBRARY);
        [
            ("LD_PRELOAD", library.display().to_string()),
            ("ZEBU_CLOCK", self.file(number).display().to_string()),
        ]
    }

    fn file(&self, number: usize) -> PathBuf {
        self.folder.path().join(format!("clock-{number}"))
    }
}

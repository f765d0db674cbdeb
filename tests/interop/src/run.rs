//! Runs a program with a time limit. Both outputs go to one file.

use std::fs::File;
use std::io::Write;
use std::process::{Child, ChildStdin, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use rustix::process::{Pid, Signal, kill_process};
use tempfile::NamedTempFile;

/// The output and exit status of a program.
#[derive(Debug)]
pub struct Output {
    /// stdout and stderr in order; only stdout if they were separated.
    pub text: String,
    /// stderr, if it was separated.
    pub errors: String,
    /// The exit status.
    pub status: ExitStatus,
}

/// Runs a program without input until it ends.
///
/// # Errors
/// It does not start, or takes longer than `limit`.
pub fn run(command: &mut Command, limit: Duration) -> Result<Output> {
    Program::start(command)?.finish(limit)
}

/// Runs a program that must succeed.
///
/// # Errors
/// As for [`run`], or the program reports a failure.
pub fn succeed(command: &mut Command, limit: Duration) -> Result<String> {
    let output = run(command, limit)?;
    if !output.status.success() {
        bail!("{command:?}: {}\n{}", output.status, output.text);
    }
    Ok(output.text)
}

/// A running program that reads lines.
pub struct Program {
    child: Child,
    input: Option<ChildStdin>,
    output: NamedTempFile,
    /// The file for stderr, if it is separated.
    errors: Option<NamedTempFile>,
    what: String,
}

impl Program {
    /// Starts the program.
    ///
    /// # Errors
    /// It does not start.
    pub fn start(command: &mut Command) -> Result<Self> {
        Self::start_with(command, None)
    }

    /// Starts the program with separate outputs.
    ///
    /// # Errors
    /// It does not start.
    pub fn start_apart(command: &mut Command) -> Result<Self> {
        Self::start_with(command, Some(NamedTempFile::new()?))
    }

    fn start_with(command: &mut Command, errors: Option<NamedTempFile>) -> Result<Self> {
        let output = NamedTempFile::new()?;
        let appending = |file: &NamedTempFile| File::options().append(true).open(file.path());
        let stdout = appending(&output)?;
        let stderr = appending(errors.as_ref().unwrap_or(&output))?;
        let what = format!("{:?}", command.get_program());
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(stdout)
            .stderr(stderr)
            .spawn()
            .with_context(|| what.clone())?;
        let input = child.stdin.take();
        Ok(Self { child, input, output, errors, what })
    }

    /// Writes a line to its input, in one system call.
    ///
    /// The command line of the C client forgets the beginning of a line that it has read without
    /// its end, if another line was before it.
    ///
    /// # Errors
    /// It no longer reads its input.
    pub fn say(&mut self, line: &str) -> Result<()> {
        let input = self.input.as_mut().context("input is closed")?;
        input.write_all(format!("{line}\n").as_bytes())?;
        Ok(input.flush()?)
    }

    /// Writes a script line by line. `# await 15` waits until that many notifications are printed.
    ///
    /// # Errors
    /// It no longer reads its input, or does not print the notifications.
    pub fn play(&mut self, script: &str, limit: Duration) -> Result<()> {
        for line in script.lines() {
            if let Some(events) = line.strip_prefix("# await ") {
                let events: usize = events.parse()?;
                self.wait_for(limit, |text| text.matches("WATCHER::").count() >= events)?;
            } else {
                self.say(line)?;
            }
        }
        Ok(())
    }

    /// Whether it still runs.
    ///
    /// # Errors
    /// The system call fails.
    pub fn is_running(&mut self) -> Result<bool> {
        Ok(self.child.try_wait()?.is_none())
    }

    /// The process's id.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Asks it to end (SIGTERM).
    ///
    /// # Errors
    /// It has ended.
    pub fn terminate(&self) -> Result<()> {
        self.signal(Signal::TERM)
    }

    /// Pauses it (SIGSTOP), and waits until it stands still.
    ///
    /// # Errors
    /// It has ended.
    pub fn pause(&self) -> Result<()> {
        self.signal(Signal::STOP)?;
        Ok(zebu_testkit::program::wait_until_paused(self.pid())?)
    }

    /// Continues it after [`Program::pause`] (SIGCONT).
    ///
    /// # Errors
    /// It has ended.
    pub fn go_on(&self) -> Result<()> {
        self.signal(Signal::CONT)
    }

    fn signal(&self, signal: Signal) -> Result<()> {
        let pid = Pid::from_raw(i32::try_from(self.child.id())?).context("pid 0")?;
        Ok(kill_process(pid, signal)?)
    }

    /// The output so far.
    ///
    /// # Errors
    /// The file cannot be read.
    pub fn text(&self) -> Result<String> {
        read(&self.output)
    }

    /// Waits until `done` accepts the output.
    ///
    /// # Errors
    /// It never does.
    pub fn wait_for(&self, limit: Duration, done: impl Fn(&str) -> bool) -> Result<()> {
        let start = Instant::now();
        while !done(&self.text()?) {
            if start.elapsed() > limit {
                bail!("{} did not print what was awaited\n{}", self.what, self.text()?);
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        Ok(())
    }

    /// Closes its input and waits until it ends.
    ///
    /// # Errors
    /// It takes longer than `limit`.
    pub fn finish(mut self, limit: Duration) -> Result<Output> {
        self.input = None;
        let start = Instant::now();
        loop {
            if let Some(status) = self.child.try_wait()? {
                let errors = self.errors.as_ref().map(read).transpose()?.unwrap_or_default();
                return Ok(Output { text: self.text()?, errors, status });
            }
            if start.elapsed() > limit {
                bail!("{} takes longer than {limit:?}\n{}", self.what, self.text()?);
            }
            std::thread::sleep(Duration::from_millis(10));
        }
    }
}

fn read(file: &NamedTempFile) -> Result<String> {
    Ok(String::from_utf8_lossy(&std::fs::read(file.path())?).into_owned())
}

impl Drop for Program {
    fn drop(&mut self) {
        // The process is our own, by its id. A failure means that it has already ended.
        self.child.kill().ok();
        self.child.wait().ok();
    }
}

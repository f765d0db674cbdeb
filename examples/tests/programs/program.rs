//! One of the programs, as a process.

use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{Arc, Condvar, Mutex};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

/// Far longer than any step takes, even on a busy machine.
pub const PATIENCE: Duration = Duration::from_secs(240);

/// The session timeout of programs whose death must be noticed soon.
pub const SESSION_MS: &str = "3000";

/// The output of a program; another thread continues to read it.
type Lines = Arc<(Mutex<Vec<String>>, Condvar)>;

/// A process that ends with this value.
pub struct Program {
    child: Child,
    what: String,
    lines: Lines,
}

impl Program {
    /// Starts an example that connects to these servers.
    pub fn start(example: &str, servers: &str, words: &[&str]) -> Self {
        let mut command = Command::new(path(example));
        command.env_clear().env("ZK_SERVERS", servers).env("ZK_AUTH", "amy:secret");
        command.env("PATH", "/usr/bin:/bin");
        command.args(["--session-timeout-ms", SESSION_MS]).args(words);
        Self::spawn(command, format!("{example} {}", words.join(" ")))
    }

    /// Starts an example that does not connect.
    pub fn plain(example: &str, words: &[&str]) -> Self {
        let mut command = Command::new(path(example));
        command.env_clear().args(words);
        Self::spawn(command, format!("{example} {}", words.join(" ")))
    }

    fn spawn(mut command: Command, what: String) -> Self {
        // Not inherited from this test: a child of a killed program may live on, and a reader of
        // this test's stderr would wait for it.
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap_or_else(|error| panic!("{what}: {error}"));
        let stdout = BufReader::new(child.stdout.take().expect("piped"));
        let lines = Lines::default();
        let seen = lines.clone();
        let name = what.clone();
        std::thread::spawn(move || {
            for line in stdout.lines().map_while(Result::ok) {
                println!("{name} | {line}");
                seen.0.lock().expect("nobody panics with it").push(line);
                seen.1.notify_all();
            }
        });
        let stderr = BufReader::new(child.stderr.take().expect("piped"));
        let name = what.clone();
        std::thread::spawn(move || {
            stderr.lines().map_while(Result::ok).for_each(|line| eprintln!("{name} | {line}"));
        });
        Self { child, what, lines }
    }

    /// The output so far.
    pub fn lines(&self) -> Vec<String> {
        self.lines.0.lock().expect("nobody panics with it").clone()
    }

    /// Waits for a line that contains this, and returns the first one.
    pub fn says(&self, text: &str) -> String {
        self.says_after(0, text).1
    }

    /// The same, beginning with the line of this number. Also returns the number of the next line.
    pub fn says_after(&self, first: usize, text: &str) -> (usize, String) {
        let start = Instant::now();
        let mut lines = self.lines.0.lock().expect("nobody panics with it");
        loop {
            let found = lines.iter().enumerate().skip(first).find(|(_, line)| line.contains(text));
            if let Some((at, line)) = found {
                return (at + 1, line.clone());
            }
            assert!(start.elapsed() < PATIENCE, "{} never says {text}: {lines:#?}", self.what);
            let waited = self.lines.1.wait_timeout(lines, Duration::from_secs(1));
            lines = waited.expect("nobody panics with it").0;
        }
    }

    /// The number of lines printed so far.
    pub fn count(&self) -> usize {
        self.lines().len()
    }

    /// SIGKILL: the program can do nothing more.
    pub fn kill(mut self) {
        self.signal(Signal::KILL);
        self.child.wait().expect("it was started");
    }

    /// SIGSTOP: the program is paused without notice.
    pub fn pause(&self) {
        self.signal(Signal::STOP);
    }

    /// SIGCONT.
    pub fn go_on(&self) {
        self.signal(Signal::CONT);
    }

    /// SIGTERM; waits for a clean end.
    pub fn stop(self) {
        self.signal(Signal::TERM);
        self.succeed();
    }

    /// Waits for its end, which must be a success. Returns its whole output.
    pub fn succeed(self) -> Vec<String> {
        let what = self.what.clone();
        let (status, lines) = self.end();
        assert!(status.success(), "{what}: {status}, {lines:#?}");
        lines
    }

    /// Waits for its end.
    pub fn end(mut self) -> (ExitStatus, Vec<String>) {
        let start = Instant::now();
        loop {
            if let Some(status) = self.child.try_wait().expect("it was started") {
                // The reader has finished when it holds the only reference.
                while Arc::strong_count(&self.lines) > 1 && start.elapsed() < PATIENCE {
                    std::thread::sleep(Duration::from_millis(1));
                }
                return (status, self.lines());
            }
            assert!(start.elapsed() < PATIENCE, "{} does not end", self.what);
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal)
            .expect("it is there until it is awaited");
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        // Our child, by its process id; a failure means that it has ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The program that cargo has built beside this test.
pub fn path(example: &str) -> PathBuf {
    let test = std::env::current_exe().expect("a running program has a path");
    let folder = test.ancestors().nth(2).expect("target/debug/deps").join("examples");
    let path = folder.join(example);
    assert!(path.exists(), "no {}\nhint: cargo build -p zebu-examples --examples", path.display());
    path
}

/// Waits until a condition holds.
pub fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    let start = Instant::now();
    while !is_so() {
        assert!(start.elapsed() < PATIENCE, "never: {what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

//! A server program that a test runs, and processes that a test pauses.

use std::fs;
use std::io::{self, BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// Starts a standalone server with these settings, in `dir`, on a port that the system chooses.
/// Returns the process, and the address in its greeting.
///
/// # Panics
/// The server does not start.
#[must_use]
pub fn serve(program: &str, dir: &Path, settings: &[&str]) -> (Child, String) {
    let mut command = Command::new(program);
    command.args(["server", "--set", "clientPort=0", "--set", "forceSync=no"]);
    command.args(settings.iter().flat_map(|setting| ["--set", setting]));
    let mut child = command
        .env("SERVER_JVMFLAGS", "-Dzookeeper.admin.enableServer=false")
        .current_dir(dir)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .expect("the program starts");
    let mut greeting = String::new();
    let stdout = child.stdout.take().expect("it is a pipe");
    BufReader::new(stdout).read_line(&mut greeting).expect("the server greets");
    let address = greeting.trim().strip_prefix("listening on ").expect("a greeting").to_owned();
    (child, address)
}

/// Waits until a process stands still after SIGSTOP: the signal reaches its threads one by one, and
/// until then they may answer another request. Returns at once on a system without `/proc`.
///
/// # Errors
/// The process has ended, or continues to run.
pub fn wait_until_paused(pid: u32) -> io::Result<()> {
    if !Path::new("/proc/self/task").exists() {
        return Ok(());
    }
    let start = Instant::now();
    loop {
        let mut is_paused = true;
        for task in fs::read_dir(format!("/proc/{pid}/task"))? {
            // A thread may end meanwhile.
            let stat = fs::read_to_string(task?.path().join("stat")).unwrap_or_default();
            // The name of the program, in parentheses, may contain anything.
            let state = stat.rsplit_once(") ").and_then(|(_, rest)| rest.chars().next());
            // A thread that waits for a disk stops when the disk has answered.
            is_paused &= matches!(state, None | Some('T' | 't' | 'D' | 'X' | 'Z'));
        }
        if is_paused {
            return Ok(());
        }
        if start.elapsed() > Duration::from_secs(60) {
            return Err(io::Error::other(format!("process {pid} does not stand still")));
        }
        std::thread::sleep(Duration::from_millis(1));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_paused_process_stands_still() {
        let mut child = Command::new("sleep").arg("600").spawn().unwrap();
        // A process that starts may wait for a disk, which counts as a pause: only a signal from
        // outside says when the pause begins.
        let stop = format!("kill -STOP {}", child.id());
        assert!(Command::new("sh").args(["-c", &stop]).status().unwrap().success());
        wait_until_paused(child.id()).unwrap();
        assert_eq!(child.try_wait().unwrap(), None);
        child.kill().unwrap();
        assert!(!child.wait().unwrap().success());
    }
}

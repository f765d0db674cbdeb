//! `zebu ensemble` as somebody meets it who tries it out.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, ChildStdout, Command, Stdio};

use rustix::process::{Pid, Signal, kill_process, test_kill_process};

fn zebu(dir: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_zebu"));
    command.args(arguments).current_dir(dir).env_clear().stdin(Stdio::null());
    command
}

/// A port such that nobody listens on those that three servers need.
fn free_base() -> u16 {
    let is_free = |port: u16| TcpListener::bind((Ipv4Addr::LOCALHOST, port)).is_ok();
    let start = 30_000 + u16::try_from(std::process::id() % 100).unwrap() * 20;
    let all_free =
        |base: &u16| (0..3).all(|n| [0, 100, 200].iter().all(|up| is_free(base + n + up)));
    (start..start + 500).step_by(5).find(all_free).expect("free ports")
}

/// A running ensemble that has said all that it says at its start.
struct Running {
    child: Child,
    stdout: BufReader<ChildStdout>,
    greeting: Vec<String>,
}

impl Running {
    fn start(dir: &Path, base: u16) -> Self {
        let base = base.to_string();
        let mut command = zebu(dir, &["ensemble", "--base-port", &base, "--data-dir", "three"]);
        let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
        let mut stdout = BufReader::new(child.stdout.take().unwrap());
        let mut greeting = Vec::new();
        while greeting.last().is_none_or(|line: &String| !line.starts_with("Ctrl-C")) {
            let mut line = String::new();
            assert!(stdout.read_line(&mut line).unwrap() > 0, "{greeting:?}");
            greeting.push(line.trim_end().to_owned());
        }
        Self { child, stdout, greeting }
    }

    /// Role and process of each server.
    fn servers(&self) -> Vec<(String, Pid)> {
        let servers = self.greeting.iter().filter(|line| line.starts_with("server "));
        let server = |line: &String| {
            let words: Vec<&str> = line.split([' ', ',']).collect();
            let at = words.iter().position(|word| *word == "process").unwrap();
            (words[2].to_owned(), Pid::from_raw(words[at + 1].parse().unwrap()).unwrap())
        };
        servers.map(server).collect()
    }

    fn line(&mut self) -> String {
        let mut line = String::new();
        self.stdout.read_line(&mut line).unwrap();
        line
    }

    fn end(mut self, signal: Signal) -> Option<i32> {
        kill_process(Pid::from_child(&self.child), signal).unwrap();
        self.child.wait().unwrap().code()
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // Only a test that failed leaves it running.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn word(port: u16, word: &str) -> String {
    let mut answer = String::new();
    if let Ok(mut stream) = TcpStream::connect((Ipv4Addr::LOCALHOST, port)) {
        let _ = stream.write_all(word.as_bytes());
        let _ = stream.read_to_string(&mut answer);
    }
    answer
}

#[test]
fn an_ensemble_is_tried_out() {
    let dir = tempfile::tempdir().unwrap();
    let base = free_base();
    let mut ensemble = Running::start(dir.path(), base);
    let all = format!("127.0.0.1:{base},127.0.0.1:{},127.0.0.1:{}", base + 1, base + 2);
    assert_eq!(ensemble.greeting[0], format!("listening on {all}"));
    assert!(ensemble.greeting.contains(&format!("try it: zkCli.sh -server {all}")));
    let servers = ensemble.servers();
    let mut roles: Vec<&str> = servers.iter().map(|(role, _)| role.as_str()).collect();
    roles.sort_unstable();
    assert_eq!(roles, ["follower", "follower", "leader"]);

    // Its leader is killed as the greeting suggests, and another one comes.
    let leader = servers.iter().position(|(role, _)| role == "leader").unwrap();
    kill_process(servers[leader].1, Signal::KILL).unwrap();
    assert!(ensemble.line().starts_with(&format!("server {} ended: ", leader + 1)));
    let others = (0..3).filter(|index| *index != leader);
    let ports: Vec<u16> = others.map(|index| base + u16::try_from(index).unwrap()).collect();
    let start = std::time::Instant::now();
    while !ports.iter().any(|port| word(*port, "srvr").contains("Mode: leader")) {
        assert!(start.elapsed().as_secs() < 60, "nobody leads");
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
    assert_eq!(ensemble.end(Signal::INT), Some(0));
    for (_, pid) in servers {
        assert!(test_kill_process(pid).is_err(), "a server is still there");
    }

    // The same data again, then with another number of servers.
    let ensemble = Running::start(dir.path(), base);
    assert_eq!(ensemble.servers().len(), 3);
    assert_eq!(ensemble.end(Signal::TERM), Some(0));
    let five = ["ensemble", "--servers", "5", "--data-dir", "three"];
    let refused = zebu(dir.path(), &five).output().unwrap();
    assert_eq!(refused.status.code(), Some(1));
    let why = String::from_utf8(refused.stderr).unwrap();
    assert!(why.contains("an ensemble of 3 servers, not of 5\nhint: --servers 3"), "{why}");
}

#[test]
fn a_port_that_is_taken_is_said() {
    let dir = tempfile::tempdir().unwrap();
    let taken = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let port = taken.local_addr().unwrap().port();
    let base = (port.min(65_000) - 1).to_string();
    let refused = zebu(dir.path(), &["ensemble", "--base-port", &base]).output().unwrap();
    assert_eq!(refused.status.code(), Some(1));
    let why = String::from_utf8(refused.stderr).unwrap();
    assert!(why.contains("cannot be used\nhint: another --base-port"), "{why}");
}

//! `zebu ensemble` as a new user sees it, and three servers as in the original's documentation.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process, test_kill_process};

fn zebu(dir: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_zebu"));
    command.args(arguments).current_dir(dir).env_clear().stdin(Stdio::null());
    // Tests listen only on ports that they choose.
    command.env("SERVER_JVMFLAGS", "-Dzookeeper.admin.enableServer=false");
    command
}

/// A port followed by enough free ports for three servers. Each test has a number.
fn free_base(test: u16) -> u16 {
    let is_free = |port: u16| TcpListener::bind((Ipv4Addr::LOCALHOST, port)).is_ok();
    let start = 30_000 + u16::try_from(std::process::id() % 100).unwrap() * 20 + test * 503;
    let all_free =
        |base: &u16| (0..3).all(|n| [0, 100, 200].iter().all(|up| is_free(base + n + up)));
    (start..start + 500).step_by(5).find(all_free).expect("free ports")
}

/// A running ensemble that has printed its greeting.
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
        // Only a failed test leaves the process running.
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

fn until(what: &str, mut so: impl FnMut() -> bool) {
    let start = Instant::now();
    while !so() {
        assert!(start.elapsed() < Duration::from_secs(120), "{what}: never");
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn an_ensemble_is_tried_out() {
    let dir = tempfile::tempdir().unwrap();
    let base = free_base(0);
    let mut ensemble = Running::start(dir.path(), base);
    let all = format!("127.0.0.1:{base},127.0.0.1:{},127.0.0.1:{}", base + 1, base + 2);
    assert_eq!(ensemble.greeting[0], format!("listening on {all}"));
    assert!(ensemble.greeting.contains(&format!("try it: zebu shell -server {all}")));
    let servers = ensemble.servers();
    let mut roles: Vec<&str> = servers.iter().map(|(role, _)| role.as_str()).collect();
    roles.sort_unstable();
    assert_eq!(roles, ["follower", "follower", "leader"]);

    // Its leader is killed as the greeting suggests, and another server becomes the leader.
    let leader = servers.iter().position(|(role, _)| role == "leader").unwrap();
    kill_process(servers[leader].1, Signal::KILL).unwrap();
    assert!(ensemble.line().starts_with(&format!("server {} ended: ", leader + 1)));
    let others = (0..3).filter(|index| *index != leader);
    let ports: Vec<u16> = others.map(|index| base + u16::try_from(index).unwrap()).collect();
    until("somebody leads", || {
        ports.iter().any(|port| word(*port, "srvr").contains("Mode: leader"))
    });
    assert_eq!(ensemble.end(Signal::INT), Some(0));
    for (_, pid) in servers {
        assert!(test_kill_process(pid).is_err(), "a server is still there");
    }

    // A restart with the same data, then with another number of servers.
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

/// The servers of the original's guide, on one machine: three files that differ in `dataDir` and
/// `clientPort`.
struct Documented {
    dir: tempfile::TempDir,
    base: u16,
    running: [Option<Child>; 3],
}

impl Documented {
    fn new(base: u16) -> Self {
        let dir = tempfile::tempdir().unwrap();
        for index in 0..3 {
            let data = dir.path().join(format!("data{}", index + 1));
            std::fs::create_dir(&data).unwrap();
            std::fs::write(data.join("myid"), format!("{}\n", index + 1)).unwrap();
            let mut text = format!(
                "tickTime=2000\ndataDir={}\nclientPort={}\nclientPortAddress=127.0.0.1\n\
                 initLimit=5\nsyncLimit=2\n",
                data.display(),
                base + index
            );
            for (id, port) in (1..).zip(base..base + 3) {
                text += &format!("server.{id}=localhost:{}:{}\n", port + 100, port + 200);
            }
            std::fs::write(dir.path().join(format!("zoo{}.cfg", index + 1)), text).unwrap();
        }
        Self { dir, base, running: [None, None, None] }
    }

    fn start(&mut self, index: usize) {
        let file = format!("zoo{}.cfg", index + 1);
        let mut command = zebu(self.dir.path(), &["server", &file]);
        command.stdout(Stdio::null()).stderr(Stdio::null());
        self.running[index] = Some(command.spawn().unwrap());
    }

    fn kill(&mut self, index: usize) {
        let mut server = self.running[index].take().unwrap();
        server.kill().unwrap();
        server.wait().unwrap();
    }

    fn port(&self, index: usize) -> u16 {
        self.base + u16::try_from(index).unwrap()
    }

    fn says(&self, index: usize) -> String {
        word(self.port(index), "srvr")
    }

    /// Waits until one of the servers leads and this many follow. Returns the leader.
    fn leader(&self, followers: usize) -> usize {
        let mut leader = None;
        until("one leads, the others follow", || {
            let says: Vec<String> = (0..3).map(|index| self.says(index)).collect();
            leader = says.iter().position(|said| said.contains("Mode: leader"));
            let follow = says.iter().filter(|said| said.contains("Mode: follower"));
            leader.is_some() && follow.count() == followers
        });
        leader.unwrap()
    }

    /// Runs a shell command at one of the servers until it succeeds.
    fn shell(&self, index: usize, command: &[&str]) -> String {
        let server = format!("localhost:{}", self.port(index));
        let arguments = [&["shell", "-q", "-server", &server], command].concat();
        let mut said = String::new();
        until(&format!("{command:?} at server {}", index + 1), || {
            let output = zebu(self.dir.path(), &arguments).output().unwrap();
            said = String::from_utf8(output.stdout).unwrap();
            let errors = String::from_utf8(output.stderr).unwrap();
            // An earlier attempt, whose answer was lost, has created the znode.
            output.status.success() || errors.contains("Node already exists")
        });
        said
    }
}

impl Drop for Documented {
    fn drop(&mut self) {
        for server in self.running.iter_mut().flatten() {
            let _ = server.kill();
            let _ = server.wait();
        }
    }
}

/// ENS-01, ENS-03, ENS-04: one server alone serves no clients, the second one makes a quorum, the
/// third one joins. Then any two suffice.
#[test]
fn three_servers_as_in_the_guide() {
    let mut three = Documented::new(free_base(1));
    three.start(0);
    let nobody = "This ZooKeeper instance is not currently serving requests\n";
    until("the first one waits", || three.says(0) == nobody);
    three.start(1);
    three.shell(0, &["create", "/zk_test", "my_data"]);
    three.leader(1);
    three.start(2);
    assert_eq!(three.shell(2, &["get", "/zk_test"]), "my_data\n");
    let leader = three.leader(2);

    three.kill(leader);
    let other = (leader + 1) % 3;
    three.shell(other, &["set", "/zk_test", "junk"]);
    three.leader(1);
    three.start(leader);
    three.shell(leader, &["sync", "/"]);
    assert_eq!(three.shell(leader, &["get", "/zk_test"]), "junk\n");
}

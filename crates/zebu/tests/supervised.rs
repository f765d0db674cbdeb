//! Messages to the supervisor that has set `NOTIFY_SOCKET`. The test plays the role of systemd.

use std::io::{BufRead as _, BufReader};
use std::os::unix::net::UnixDatagram;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};

/// Far longer than any step should take.
const DEADLINE: Duration = Duration::from_secs(60);

struct Supervised {
    child: Child,
    socket: UnixDatagram,
}

impl Supervised {
    fn start(dir: &Path, watchdog: Option<Duration>, arguments: &[&str]) -> Self {
        let path = dir.join("notify");
        let socket = UnixDatagram::bind(&path).unwrap();
        socket.set_read_timeout(Some(DEADLINE)).unwrap();
        let mut command = Command::new(env!("CARGO_BIN_EXE_zebu"));
        command.arg("server").args(arguments).current_dir(dir).env_clear();
        command.env("SERVER_JVMFLAGS", "-Dzookeeper.admin.enableServer=false");
        command.env("NOTIFY_SOCKET", &path);
        if let Some(time) = watchdog {
            command.env("WATCHDOG_USEC", time.as_micros().to_string());
        }
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
        Self { child: command.spawn().unwrap(), socket }
    }

    /// The assignments of the next message.
    fn message(&self) -> Vec<String> {
        let mut bytes = [0; 4096];
        let length = self.socket.recv(&mut bytes).expect("the server says something in time");
        let text = std::str::from_utf8(&bytes[..length]).unwrap();
        text.lines().map(str::to_owned).collect()
    }

    /// The first message other than a watchdog signal, and the number of watchdog signals before
    /// it.
    fn message_after_signs_of_life(&self) -> (usize, Vec<String>) {
        let mut count = 0;
        loop {
            match self.message() {
                message if message == ["WATCHDOG=1"] => count += 1,
                message => return (count, message),
            }
        }
    }
}

impl Drop for Supervised {
    fn drop(&mut self) {
        // Only a failed test leaves the process running.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn a_server_says_that_it_takes_connections_that_it_moves_and_that_it_stops() {
    let dir = tempfile::tempdir().unwrap();
    // So frequent that the receiver cannot read all signals: the end must not wait for them.
    let watchdog = Some(Duration::from_millis(3));
    let mut server = Supervised::start(dir.path(), watchdog, &["--set", "clientPort=0"]);
    let (_, ready) = server.message_after_signs_of_life();
    assert_eq!(ready[0], "READY=1");
    // The server had bound its ports before it reported that it was ready.
    let mut greeting = String::new();
    BufReader::new(server.child.stdout.take().unwrap()).read_line(&mut greeting).unwrap();
    assert!(greeting.starts_with("listening on "), "{greeting}");
    for _ in 0..3 {
        assert_eq!(server.message(), ["WATCHDOG=1"]);
    }
    kill_process(Pid::from_child(&server.child), Signal::TERM).unwrap();
    let (_, stopping) = server.message_after_signs_of_life();
    assert_eq!(stopping[0], "STOPPING=1");
    assert_eq!(server.child.wait().unwrap().code(), Some(0));
}

#[test]
fn without_a_watchdog_there_are_no_signs_of_life() {
    let dir = tempfile::tempdir().unwrap();
    let mut server = Supervised::start(dir.path(), None, &["--set", "clientPort=0"]);
    let (before, ready) = server.message_after_signs_of_life();
    assert_eq!((before, ready[0].as_str()), (0, "READY=1"));
    kill_process(Pid::from_child(&server.child), Signal::TERM).unwrap();
    let (before, stopping) = server.message_after_signs_of_life();
    assert_eq!((before, stopping[0].as_str()), (0, "STOPPING=1"));
    assert_eq!(server.child.wait().unwrap().code(), Some(0));
}

#[test]
fn a_server_that_does_not_start_is_never_ready() {
    let dir = tempfile::tempdir().unwrap();
    let mut server = Supervised::start(dir.path(), None, &["--set", "clientPort=nonsense"]);
    assert_eq!(server.child.wait().unwrap().code(), Some(2));
    server.socket.set_nonblocking(true).unwrap();
    server.socket.recv(&mut [0; 4096]).expect_err("it has said nothing");
}

//! A server process whose disk is full: it stops serving, and serves again when there is room. The
//! test needs the right to mount.

use std::fs::{self, File};
use std::io::{self, BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitCode, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use zebu_server::cli::ServerArgs;
use zebu_testkit::connection::{Connection, Hello};

/// The variable that names the data directory, for the process in which this program is a server.
const DATA: &str = "ZEBU_TEST_FULL_DISK";

/// Far longer than any step should take.
const DEADLINE: Duration = Duration::from_secs(60);

/// A file system of a few megabytes in memory.
struct SmallDisk(PathBuf);

impl SmallDisk {
    /// Mounts the file system, or returns the reason why that is refused.
    fn mount(at: PathBuf) -> Result<Self, String> {
        fs::create_dir(&at).unwrap();
        let mut mount = Command::new("mount");
        mount.args(["-t", "tmpfs", "-o", "size=16m", "zebu-test"]).arg(&at);
        match mount.output() {
            Ok(output) if output.status.success() => Ok(Self(at)),
            Ok(output) => Err(String::from_utf8_lossy(&output.stderr).trim().to_owned()),
            Err(error) => Err(error.to_string()),
        }
    }

    fn filler(&self) -> PathBuf {
        self.0.join("filler")
    }

    /// Fills the file system.
    fn fill(&self) {
        let mut file = File::create(self.filler()).unwrap();
        for length in [1 << 16, 1] {
            let full = loop {
                if let Err(error) = file.write_all(&vec![0; length]) {
                    break error;
                }
            };
            assert_eq!(full.kind(), io::ErrorKind::StorageFull);
        }
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        // The test cannot do anything about a mount that stays.
        let _ = Command::new("umount").arg(&self.0).status();
    }
}

struct Server {
    child: Child,
    port: u16,
}

impl Server {
    /// Starts this test's program again, as a server.
    fn start(data: &Path) -> Self {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args(["--exact", "the_server_itself", "--nocapture"]).env(DATA, data);
        let command = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let lines = BufReader::new(child.stdout.as_mut().unwrap()).lines();
        let mut lines = lines.map(Result::unwrap);
        let greeting = lines.find_map(|line| Some(line.split_once("listening on ")?.1.to_owned()));
        let port = greeting.unwrap().rsplit(':').next().unwrap().parse().unwrap();
        Self { child, port }
    }

    /// A new session, which is a transaction.
    fn session(&self) -> io::Result<()> {
        let mut connection = Connection::local(self.port)?;
        connection.send(&Hello::default().bytes())?;
        connection.frame().map(|_| ())
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // Only a failed test leaves the process running.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn wait(what: &str, mut done: impl FnMut() -> bool) {
    let start = Instant::now();
    while !done() {
        assert!(start.elapsed() < DEADLINE, "not within {DEADLINE:?}: {what}");
        std::thread::park_timeout(Duration::from_millis(20));
    }
}

/// Does nothing except in the processes that the other test starts.
#[test]
fn the_server_itself() {
    let Ok(data) = std::env::var(DATA) else { return };
    let set = [
        "clientPort=0",
        "clientPortAddress=127.0.0.1",
        "preAllocSize=64",
        "admin.enableServer=false",
        &format!("dataDir={data}"),
    ];
    let set = set.iter().map(|line| (*line).to_owned()).collect();
    let code = zebu_server::run(&ServerArgs { set, ..ServerArgs::default() }, None);
    let is_well = format!("{code:?}") == format!("{:?}", ExitCode::SUCCESS);
    std::process::exit(if is_well { 0 } else { 9 });
}

#[test]
fn a_server_on_a_full_disk_waits_for_room_and_serves_again() {
    let dir = tempfile::tempdir().unwrap();
    let disk = match SmallDisk::mount(dir.path().join("disk")) {
        Ok(disk) => disk,
        Err(why) => {
            eprintln!("not tested: this machine refuses to mount a file system: {why}");
            return;
        }
    };
    let mut server = Server::start(&disk.0.join("data"));
    server.session().unwrap();
    disk.fill();
    // Data that fit into the last page are written.
    wait("the server steps aside", || server.session().is_err());
    wait("nobody listens", || TcpStream::connect(("127.0.0.1", server.port)).is_err());
    assert_eq!(server.child.try_wait().unwrap(), None, "the process waits");
    fs::remove_file(disk.filler()).unwrap();
    wait("the server serves again", || server.session().is_ok());
    kill_process(Pid::from_child(&server.child), Signal::TERM).unwrap();
    let mut log = String::new();
    server.child.stderr.take().unwrap().read_to_string(&mut log).unwrap();
    assert_eq!(server.child.wait().unwrap().code(), Some(0), "{log}");
    assert!(log.contains("not serving: ") && log.contains("there is room again"), "{log}");

    // A server that is asked to stop while it waits stops.
    let mut server = Server::start(&disk.0.join("data"));
    disk.fill();
    wait("the server steps aside", || server.session().is_err());
    wait("nobody listens", || TcpStream::connect(("127.0.0.1", server.port)).is_err());
    kill_process(Pid::from_child(&server.child), Signal::TERM).unwrap();
    assert_eq!(server.child.wait().unwrap().code(), Some(0));
}

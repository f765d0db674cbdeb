//! `members.sh` of the container image: an ensemble grows from one to three and five members and
//! shrinks again, as when Helm changes the number of replicas, while clients write.

use std::fs;
use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;
use tokio::runtime::Builder;
use zebu_client::{Acls, Connector, CreateMode, ErrorKind, Perms, Version};
use zebu_testkit::ports;

/// `super:secret` as `zebu digest` prints it.
const SUPER: &str = "super:lK75jTNcA+U9vtVEw5vB51mj/w4=";

/// Number of attempts for steps that need the other members, and the pause between them.
const TRIES: u32 = 600;
const PAUSE: Duration = Duration::from_millis(100);

struct Members {
    folder: TempDir,
    /// Ports for clients, for the quorum and for elections.
    ports: Vec<[u16; 3]>,
    running: Vec<Option<Child>>,
}

impl Members {
    fn new(count: usize) -> Self {
        let ports = (0..count).map(|_| ports::free()).collect();
        let running = (0..count).map(|_| None).collect();
        Self { folder: tempfile::tempdir().unwrap(), ports, running }
    }

    /// `ZOO_SERVERS` for this many members.
    fn servers(&self, count: usize) -> String {
        let line = |(index, ports): (usize, &[u16; 3])| {
            let [client, learners, election] = ports;
            format!("server.{}=127.0.0.1:{learners}:{election};{client}", index + 1)
        };
        self.ports.iter().take(count).enumerate().map(line).collect::<Vec<_>>().join(" ")
    }

    fn path(&self, index: usize) -> PathBuf {
        self.folder.path().join((index + 1).to_string())
    }

    /// Starts a member with a list of this many members.
    fn start(&mut self, index: usize, count: usize) {
        let folder = self.path(index);
        fs::create_dir_all(folder.join("data")).unwrap();
        fs::write(folder.join("data/myid"), format!("{}\n", index + 1)).unwrap();
        let lines = format!(
            "dataDir={}\ntickTime=500\ninitLimit=20\nsyncLimit=10\nstandaloneEnabled=false\nadmin.enableServer=false\n\
             reconfigEnabled=true\nDigestAuthenticationProvider.superDigest={SUPER}\n{}\n",
            folder.join("data").display(),
            self.servers(count).replace(' ', "\n"),
        );
        fs::write(folder.join("zoo.cfg"), lines).unwrap();
        let log = fs::File::create(folder.join("log")).unwrap();
        let mut command = Command::new(env!("CARGO_BIN_EXE_zebu"));
        command.arg("server").arg(folder.join("zoo.cfg")).env_clear();
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(log);
        self.running[index] = Some(command.spawn().unwrap());
    }

    fn mode(&self, index: usize) -> Option<String> {
        let mut stream = TcpStream::connect(("127.0.0.1", self.ports[index][0])).ok()?;
        stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
        stream.write_all(b"srvr").ok()?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer).ok()?;
        answer.lines().find_map(|line| line.strip_prefix("Mode: ")).map(str::to_owned)
    }

    /// Ends the process as Kubernetes does, and keeps its data.
    fn stop(&mut self, index: usize) {
        let mut child = self.running[index].take().unwrap();
        kill_process(Pid::from_child(&child), Signal::TERM).unwrap();
        assert!(child.wait().unwrap().success(), "{}", self.log(index));
    }

    fn log(&self, index: usize) -> String {
        fs::read_to_string(self.path(index).join("log")).unwrap_or_default()
    }

    /// The members according to a member.
    fn config(&self, index: usize) -> String {
        let server = format!("127.0.0.1:{}", self.ports[index][0]);
        let mut command = Command::new(env!("CARGO_BIN_EXE_zebu"));
        command.args(["shell", "-q", "-server", &server, "config"]).env_clear();
        String::from_utf8(command.output().unwrap().stdout).unwrap()
    }

    fn wait_until_serving(&self, index: usize) {
        for _ in 0..TRIES {
            if self.mode(index).is_some() {
                return;
            }
            std::thread::sleep(PAUSE);
        }
        panic!("member {} does not serve: {}", index + 1, self.log(index));
    }

    /// Runs the script until it succeeds, as Kubernetes repeats a job.
    fn change(&self, word: &str, count: usize) -> String {
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../deploy/image/members.sh");
        let binary = Path::new(env!("CARGO_BIN_EXE_zebu")).parent().unwrap();
        let path = format!("{}:{}", binary.display(), std::env::var("PATH").unwrap());
        let mut said = String::new();
        for _ in 0..TRIES / 10 {
            let mut command = Command::new(&script);
            command.arg(word).env_clear().env("PATH", &path).env("HOME", self.folder.path());
            command.env("ZOO_SERVERS", self.servers(count)).env("ZEBU_SUPER_PASSWORD", "secret");
            let output = command.output().unwrap();
            said = String::from_utf8([output.stdout, output.stderr].concat()).unwrap();
            if output.status.success() {
                return said;
            }
            std::thread::sleep(PAUSE);
        }
        panic!("{word}: {said}");
    }
}

impl Drop for Members {
    fn drop(&mut self) {
        for child in self.running.iter_mut().flatten() {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

#[test]
fn an_ensemble_of_three_becomes_one_of_five_and_of_three_again() {
    let mut members = Members::new(5);
    for index in 0..3 {
        members.start(index, 3);
    }
    (0..3).for_each(|index| members.wait_until_serving(index));
    assert_eq!(members.change("add", 3), "nothing to add\n");
    // The new pods have the list of five members from their first start.
    for index in 3..5 {
        members.start(index, 5);
    }
    let said = members.change("add", 5);
    assert!(said.starts_with("add: server.4="), "{said}");
    assert_eq!(members.change("add", 5), "nothing to add\n");
    (0..5).for_each(|index| members.wait_until_serving(index));
    let said = members.change("remove", 3);
    assert!(said.starts_with("remove: 4,5\n"), "{said}");
    assert_eq!(members.change("remove", 3), "nothing to remove\n");
    (0..3).for_each(|index| members.wait_until_serving(index));
}

/// A client that writes all the time, and keeps its session.
struct Writer {
    is_over: Arc<AtomicBool>,
    written: Arc<AtomicU64>,
    thread: JoinHandle<()>,
}

impl Writer {
    fn start(servers: String, path: String) -> Self {
        let (is_over, written) = (Arc::<AtomicBool>::default(), Arc::<AtomicU64>::default());
        let (ends, count) = (is_over.clone(), written.clone());
        let thread = std::thread::spawn(move || {
            let runtime = Builder::new_current_thread().enable_all().build().unwrap();
            runtime.block_on(write(&servers, &path, &ends, &count));
        });
        Self { is_over, written, thread }
    }

    /// Waits until a write that has begun after the call is acknowledged.
    fn wait_for_more(&self) {
        let before = self.written.load(Ordering::Relaxed);
        for _ in 0..TRIES {
            // The first of two may have begun before.
            if self.written.load(Ordering::Relaxed) >= before + 2 {
                return;
            }
            assert!(!self.thread.is_finished(), "the session is lost");
            std::thread::sleep(PAUSE);
        }
        panic!("a client writes nothing more");
    }

    fn end(self) {
        self.is_over.store(true, Ordering::Relaxed);
        self.thread.join().unwrap();
    }
}

/// Writes numbers to a znode of its own, in one session. No acknowledged number may be lost.
async fn write(servers: &str, path: &str, is_over: &AtomicBool, written: &AtomicU64) {
    let connector = Connector::new().session_timeout(Duration::from_secs(30));
    let client = connector.connect(servers).await.unwrap();
    client.create(path, "0", CreateMode::Ephemeral, &Acls::anyone(Perms::ALL)).await.unwrap();
    let mut number = 0_u64;
    while !is_over.load(Ordering::Relaxed) {
        match client.set_data(path, (number + 1).to_string(), Version::ANY).await {
            Ok(_) => {
                number += 1;
                written.store(number, Ordering::Relaxed);
            }
            // A repetition of this write does no harm.
            Err(error) if matches!(error.kind(), ErrorKind::Unknown | ErrorKind::NotExecuted) => {}
            Err(error) => panic!("{path}: {error}"),
        }
    }
    let (data, _) = client.get_data(path).await.unwrap();
    assert_eq!(data, number.to_string());
    client.close().await.unwrap();
}

/// What the chart does when `replicas` becomes 3, 5 and 3 again. Later a removed member comes back
/// with its old volume.
#[test]
fn clients_write_while_an_ensemble_of_one_becomes_three_and_five_and_three() {
    let mut members = Members::new(5);
    members.start(0, 1);
    members.wait_until_serving(0);
    let servers: Vec<_> =
        members.ports.iter().map(|ports| format!("127.0.0.1:{}", ports[0])).collect();
    // The connect string of a chart has all names that may exist.
    let writers = [0, 1, 2].map(|n| Writer::start(servers.join(","), format!("/writer{n}")));
    let all_write = || writers.iter().for_each(Writer::wait_for_more);
    all_write();
    for (before, count) in [(1, 3), (3, 5)] {
        for index in before..count {
            members.start(index, count);
        }
        let said = members.change("add", count);
        assert!(said.starts_with(&format!("add: server.{}=", before + 1)), "{said}");
        (0..count).for_each(|index| members.wait_until_serving(index));
        all_write();
    }
    // Member 4 is away when it is removed, member 5 is told.
    members.stop(3);
    all_write();
    let said = members.change("remove", 3);
    assert!(said.starts_with("remove: 4,5\n"), "{said}");
    for _ in 0..TRIES {
        if !members.config(4).contains("server.5=") {
            break;
        }
        std::thread::sleep(PAUSE);
    }
    members.stop(4);
    all_write();

    // Both return with their old volumes and a list that names them. They follow without a vote:
    // the configuration that the ensemble has agreed on counts.
    for index in 3..5 {
        members.start(index, 5);
        members.wait_until_serving(index);
    }
    all_write();
    for index in 0..5 {
        let config = members.config(index);
        assert!(config.contains("server.3="), "{index}: {config}");
        assert!(
            !config.contains("server.4=") && !config.contains("server.5="),
            "{index}: {config}"
        );
    }
    // Without two of its three voters, the ensemble has no quorum.
    (1..3).for_each(|index| members.stop(index));
    let stands = || {
        (0..5).filter(|index| ![1, 2].contains(index)).all(|index| members.mode(index).is_none())
    };
    assert!(
        (0..TRIES).any(|_| stands() || {
            std::thread::sleep(PAUSE);
            false
        }),
        "who has no vote votes"
    );
    (1..3).for_each(|index| members.start(index, 3));
    all_write();

    // `replicas` is 5 again.
    let said = members.change("add", 5);
    assert!(said.starts_with("add: server.4="), "{said}");
    (0..5).for_each(|index| members.wait_until_serving(index));
    all_write();
    writers.into_iter().for_each(Writer::end);
    for index in 0..5 {
        assert!(members.running[index].as_mut().unwrap().try_wait().unwrap().is_none());
        assert!(!members.log(index).contains("panicked"), "{}", members.log(index));
    }
}

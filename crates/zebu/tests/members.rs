//! `members.sh` of the container image: an ensemble grows from three to five members and shrinks
//! again, as when Helm changes the number of replicas.

use std::fs;
use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use tempfile::TempDir;
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

    fn wait_until_serving(&self, index: usize) {
        for _ in 0..TRIES {
            if self.mode(index).is_some() {
                return;
            }
            std::thread::sleep(PAUSE);
        }
        let log = fs::read_to_string(self.path(index).join("log")).unwrap();
        panic!("member {} does not serve: {log}", index + 1);
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

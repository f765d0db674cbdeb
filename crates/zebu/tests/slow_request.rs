//! A write that waits for a follower is logged with the time of each phase, in each output in its
//! own format.

use std::fs;
use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use zebu_testkit::connection::{Connection, Hello, Welcome};
use zebu_testkit::ports;
use zebu_testkit::wire::{Writer, create, op};

/// The threshold of the server.
const SLOW: Duration = Duration::from_millis(20);

/// Number of attempts for steps that need both members, and the pause between them.
const TRIES: u32 = 600;
const PAUSE: Duration = Duration::from_millis(100);

struct Member {
    child: Child,
    port: u16,
}

impl Member {
    fn start(folder: &Path, id: usize, ports: &[[u16; 3]; 2]) -> Self {
        let data = folder.join("data");
        fs::create_dir_all(&data).unwrap();
        fs::write(data.join("myid"), format!("{id}\n")).unwrap();
        let port = ports[id - 1][0];
        let mut lines = format!(
            "dataDir={}\ntickTime=2000\ninitLimit=20\nsyncLimit=20\nclientPort={port}\nclientPortAddress=127.0.0.1\n\
             admin.enableServer=false\n4lw.commands.whitelist=srvr,mntr\nzebu.slowRequest.millis={}\n\
             zebu.log.to=stderr,file\nzebu.log.format=text,file=json\n",
            data.display(),
            SLOW.as_millis(),
        );
        for (id, [_, learners, election]) in (1..).zip(ports) {
            lines += &format!("server.{id}=127.0.0.1:{learners}:{election}\n");
        }
        fs::write(folder.join("zoo.cfg"), lines).unwrap();
        let mut command = Command::new(env!("CARGO_BIN_EXE_zebu"));
        command.args(["server", "zoo.cfg"]).env_clear().current_dir(folder);
        command.stdin(Stdio::null()).stdout(Stdio::null());
        command.stderr(fs::File::create(folder.join("stderr")).unwrap());
        Self { child: command.spawn().unwrap(), port }
    }

    fn word(&self, word: &str) -> String {
        let mut answer = String::new();
        if let Ok(mut stream) = TcpStream::connect(("127.0.0.1", self.port)) {
            let _ = stream.write_all(word.as_bytes());
            let _ = stream.read_to_string(&mut answer);
        }
        answer
    }

    fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).unwrap();
    }
}

impl Drop for Member {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn until(what: &str, mut so: impl FnMut() -> bool) {
    for _ in 0..TRIES {
        if so() {
            return;
        }
        std::thread::sleep(PAUSE);
    }
    panic!("never: {what}");
}

#[test]
fn a_write_that_waits_for_a_follower_says_where_its_time_went() {
    let folder = tempfile::tempdir().unwrap();
    let ports = [ports::free(), ports::free()];
    let folders = ["1", "2"].map(|name| folder.path().join(name));
    let members = [1, 2].map(|id| Member::start(&folders[id - 1], id, &ports));
    let mut leader = 0;
    until("one leads, one follows", || {
        let modes = [0, 1].map(|index| members[index].word("srvr"));
        leader = usize::from(modes[1].contains("Mode: leader"));
        modes[leader].contains("Mode: leader") && modes[1 - leader].contains("Mode: follower")
    });
    let (follower, folder) = (&members[1 - leader], &folders[leader]);
    let leader = &members[leader];
    let mut client = Connection::local(leader.port).unwrap();
    client.send(&Hello::default().bytes()).unwrap();
    let session = Welcome::parse(&client.frame().unwrap()).unwrap().session;

    follower.signal(Signal::STOP);
    zebu_testkit::program::wait_until_paused(follower.child.id()).unwrap();
    let body = create("/late", b"", &[(31, "world", "anyone")], 0);
    client.send(Writer::request(1, op::CREATE).raw(body.bytes()).bytes()).unwrap();
    until("the leader waits for its quorum", || {
        leader.word("mntr").contains("zk_outstanding_requests\t1\n")
    });
    std::thread::sleep(2 * SLOW);
    follower.signal(Signal::CONT);
    client.frame().unwrap();

    let session = format!("0x{session:x}");
    let start = format!("slow request: create \"/late\" of session {session} from 127.0.0.1:");
    let mut told = None;
    until("the line", || {
        let json = fs::read_to_string(folder.join("zookeeper.log")).unwrap_or_default();
        let objects = json.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
        let message = |it: &Value| it["message"].as_str().unwrap_or_default().starts_with(&start);
        told = objects.into_iter().find(message);
        told.is_some()
    });
    let told = told.unwrap();
    let message = told["message"].as_str().unwrap();
    for phase in [" took ", "queue ", "prepare ", "sync ", "quorum ", "apply "] {
        assert!(message.contains(phase), "{message}");
    }
    assert_eq!((&told["session"], &told["role"]), (&session.into(), &"leader".into()));
    let connection = told["connection"].as_str().unwrap();
    assert!(connection.starts_with("127.0.0.1:"), "{told}");
    let text = fs::read_to_string(folder.join("stderr")).unwrap();
    let lines: Vec<&str> = text.lines().filter(|line| line.contains(message)).collect();
    assert_eq!(lines.len(), 1, "{text}");
    assert!(lines[0].contains(" leader] ") && lines[0].contains(" WARN "), "{text}");
    // The time of the phase that was slow, in the text of the line.
    let quorum = message.split_once("quorum ").unwrap().1.split(' ').next().unwrap();
    assert!(quorum.parse::<u128>().unwrap() >= SLOW.as_millis(), "{message}");
}

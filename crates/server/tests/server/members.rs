//! An ensemble in this process, for one test.

use std::io::{Read as _, Write as _};
use std::net::{Ipv4Addr, TcpStream};
use std::path::PathBuf;
use std::thread::sleep;
use std::time::{Duration, Instant};

use tempfile::TempDir;
use zebu_server::config::Config;
use zebu_testkit::connection::{Hello, PATIENCE};
use zebu_testkit::ports;
use zebu_testkit::wire::split_frame;

use crate::client::Client;
use crate::running::{self, Running};

/// The configuration of three members, and their directories.
pub struct Three {
    dir: TempDir,
    ports: [u16; 6],
    settings: Vec<String>,
}

impl Three {
    /// Three voters.
    pub fn voters(settings: &[&str]) -> Self {
        Self::new(["participant"; 3], settings)
    }

    fn new(roles: [&str; 3], settings: &[&str]) -> Self {
        let ports: [u16; 6] = ports::free();
        let lines = (1..).zip(ports.chunks(2)).zip(roles).map(|((id, ports), role)| {
            format!("server.{id}=127.0.0.1:{}:{}:{role}", ports[0], ports[1])
        });
        // A leader that waits for the processor keeps its leadership, too.
        let limits = ["initLimit=1000", "syncLimit=1000", "zebu.leaderSilence=60000"].into_iter();
        let all = limits.chain(settings.iter().copied()).map(str::to_owned).chain(lines);
        Self { dir: tempfile::tempdir().unwrap(), ports, settings: all.collect() }
    }

    /// The data directory of a member. It contains `myid`.
    fn path(&self, id: usize) -> PathBuf {
        let path = self.dir.path().join(id.to_string());
        std::fs::create_dir_all(&path).unwrap();
        std::fs::write(path.join("myid"), id.to_string()).unwrap();
        path
    }

    /// Starts or restarts a member.
    pub fn start(&self, id: usize) -> Running {
        self.start_with(id, &[])
    }

    /// The same, with settings of its own.
    pub fn start_with(&self, id: usize, more: &[&str]) -> Running {
        let path = self.path(id);
        let settings = self.settings.iter().map(String::as_str).chain(more.iter().copied());
        Running::on(&path, &settings.collect::<Vec<_>>())
    }

    /// The reason why a member does not start with these settings.
    pub fn refusal(&self, id: usize, more: &[&str]) -> String {
        let path = self.path(id);
        let settings = self.settings.iter().map(String::as_str).chain(more.iter().copied());
        Running::refusal(&path, &settings.collect::<Vec<_>>())
    }

    /// The settings of a member, and its directory.
    pub fn config(&self, id: usize) -> (Config, PathBuf) {
        let path = self.path(id);
        let settings: Vec<&str> = self.settings.iter().map(String::as_str).collect();
        (running::config(&path, &settings), path)
    }

    /// The ports of a member: for learners, and for votes.
    pub fn ports_of(&self, id: usize) -> [u16; 2] {
        [self.ports[2 * id - 2], self.ports[2 * id - 1]]
    }
}

/// Two voters and an observer that serve, and their directory.
pub fn ensemble(settings: &[&str]) -> (TempDir, Vec<Running>) {
    let three = Three::new(["participant", "participant", "observer"], settings);
    let members: Vec<Running> = (1..=3).map(|id| three.start(id)).collect();
    for member in &members {
        client_of(member).close();
    }
    (three.dir, members)
}

/// A function that restarts a member, and three voters of a new ensemble that need the file
/// `initialize`. The function owns the directory, so it is dropped after the voters.
pub fn initialized(settings: &[&str]) -> (impl Fn(usize) -> Running, Vec<Running>) {
    let three = Three::voters(settings);
    for id in 1..=3 {
        std::fs::write(three.path(id).join("initialize"), "").unwrap();
    }
    let members: Vec<Running> = (1..=3).map(|id| three.start(id)).collect();
    members.iter().for_each(|member| client_of(member).close());
    (move |id| three.start(id), members)
}

/// A leader-elect whose supporter looked for a leader again instead of following it, and the member
/// with which it serves now.
pub fn deserted() -> (TempDir, [Running; 2]) {
    let three = Three::voters(&["leader.maxTimeToWaitForEpoch=0"]);
    let deserted = three.start(2);
    let mut voter = Voter::new(three.ports[3], 3);
    let start = Instant::now();
    // A server that looks for a leader again does so in a later round.
    while !voter.heard.contains(&(LOOKING, ROUND + 1)) {
        assert!(start.elapsed() < PATIENCE, "{:?}", voter.heard);
        voter.votes_for(2);
        voter.listen();
    }
    drop(voter);
    let other = three.start(1);
    let members = [other, deserted];
    members.iter().for_each(|member| client_of(member).close());
    (three.dir, members)
}

const LOOKING: i32 = 0;
const ROUND: i64 = 7;

/// A server that votes and does nothing else.
struct Voter {
    stream: TcpStream,
    received: Vec<u8>,
    /// State and round of the other server's notifications.
    heard: Vec<(i32, i64)>,
}

impl Voter {
    /// Connects to an election port as soon as a server listens there, and sends the initial
    /// message.
    fn new(port: u16, id: i64) -> Self {
        let start = Instant::now();
        let mut stream = loop {
            match TcpStream::connect((Ipv4Addr::LOCALHOST, port)) {
                Ok(stream) => break stream,
                Err(error) => assert!(start.elapsed() < PATIENCE, "{error}"),
            }
            sleep(Duration::from_millis(20));
        };
        stream.set_read_timeout(Some(Duration::from_secs(1))).unwrap();
        stream.write_all(&id.to_be_bytes()).unwrap();
        Self { stream, received: Vec::new(), heard: Vec::new() }
    }

    /// A notification in the old format: LOOKING, always in the same round, with a vote for this
    /// leader.
    fn votes_for(&mut self, leader: i64) {
        let mut message = 40_i32.to_be_bytes().to_vec();
        message.extend(LOOKING.to_be_bytes());
        for number in [leader, 0, ROUND, 0] {
            message.extend(number.to_be_bytes());
        }
        let version = 0_i32;
        message.extend(version.to_be_bytes());
        self.stream.write_all(&message).unwrap();
    }

    /// Reads notifications until the connection is silent.
    fn listen(&mut self) {
        let mut bytes = [0; 4096];
        while let Ok(count) = self.stream.read(&mut bytes) {
            assert!(count > 0, "the connection is closed: {:?}", self.heard);
            self.received.extend(&bytes[..count]);
        }
        while let Some((message, rest)) = split_frame(&self.received) {
            let state = i32::from_be_bytes(message[..4].try_into().unwrap());
            let round = i64::from_be_bytes(message[20..28].try_into().unwrap());
            self.heard.push((state, round));
            self.received = rest.to_vec();
        }
    }
}

/// A client of a member, once the member serves.
pub fn client_of(member: &Running) -> Client {
    let start = Instant::now();
    loop {
        match Client::hello(member.port, &Hello::timeout(30_000)) {
            Ok(client) => return client,
            Err(_) => assert!(start.elapsed() < PATIENCE, "it does not serve"),
        }
        sleep(Duration::from_millis(20));
    }
}

//! Malicious clients, against Zebu only: the server stays up, serves other clients, and its memory
//! grows only with the bytes that were really sent.
//!
//! Many of these inputs end or block the original.

mod connections;
mod readers;
mod requests;
mod words;

use std::time::{Duration, Instant};

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use zebu_interop::raw::Session;
use zebu_interop::server::{Kind, Options, PATIENCE, Server};
use zebu_testkit::connection::{Connection, Hello, Incoming};
use zebu_testkit::wire::{Writer, op};

const MIB: u64 = 1 << 20;

/// Permitted growth of the process for buffers and allocator overhead.
const SLACK_BYTES: u64 = 16 * MIB;

/// A server and a well-behaved client.
struct Target {
    server: Server,
    neighbour: Session,
    turns: i32,
    before_bytes: u64,
}

impl Target {
    fn new() -> Self {
        Self::with(&Options::default())
    }

    fn with(options: &Options) -> Self {
        // Descriptors for both sides of thousands of connections. If the limit cannot be raised, a
        // test reports that itself.
        let maximum = getrlimit(Resource::Nofile).maximum;
        setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum }).ok();
        let options = options.clone().config("extendedTypesEnabled", true);
        let server = Server::start(Kind::Zebu, &options).unwrap();
        let neighbour = Session::open(server.address(), 30_000).unwrap();
        let mut target = Self { server, neighbour, turns: 0, before_bytes: 0 };
        target.neighbour.create("/neighbour", b"", 0).unwrap();
        target.serves();
        target.before_bytes = target.server.resident_bytes().unwrap();
        target
    }

    fn connect(&self) -> Connection {
        Connection::open(self.server.address()).unwrap()
    }

    fn session(&self) -> Session {
        Session::open(self.server.address(), 30_000).unwrap()
    }

    /// A connection with a session, without waiting for answers.
    fn open(&self) -> Connection {
        let mut connection = self.connect();
        connection.send(&Hello::timeout(30_000).bytes()).unwrap();
        connection.frame().unwrap();
        connection
    }

    /// The well-behaved client writes and reads, and a new client connects.
    fn serves(&mut self) {
        let data = self.turns.to_string();
        let write = Writer::new().string("/neighbour").string(&data).int(self.turns);
        self.neighbour.expect(op::SET_DATA, write).unwrap();
        self.turns += 1;
        let read = Writer::new().string("/neighbour").bool(false);
        let body = self.neighbour.expect(op::GET_DATA, read.clone()).unwrap();
        assert!(body[4..].starts_with(data.as_bytes()));
        let mut stranger = self.session();
        stranger.expect(op::GET_DATA, read).unwrap();
        stranger.close().unwrap();
        assert!(self.server.is_alive(), "{}", self.server.log());
    }

    /// Waits for this number of watches. Those of closed connections are removed in the background.
    fn wait_for_watches(&self, count: &str) {
        let start = Instant::now();
        while self.server.monitor("zk_watch_count").unwrap() != count {
            assert!(start.elapsed() < PATIENCE, "watches are left behind");
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// Growth of the process since its start, in bytes.
    fn growth_bytes(&self) -> u64 {
        self.server.resident_bytes().unwrap().saturating_sub(self.before_bytes)
    }

    fn assert_growth_below(&self, bytes: u64) {
        let growth = self.growth_bytes();
        assert!(growth < bytes, "{} KiB more, {} expected at most", growth >> 10, bytes >> 10);
    }
}

/// Waits for the end of a connection, and counts the frames before it.
fn frames_until_closed(connection: &mut Connection) -> usize {
    let mut frames = 0;
    loop {
        match connection.receive().unwrap() {
            Incoming::Frame(_) => frames += 1,
            Incoming::Closed => return frames,
            Incoming::Silence => panic!("still open after {frames} frames"),
        }
    }
}

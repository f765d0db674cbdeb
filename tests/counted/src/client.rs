//! A client that sends exactly the given number of requests.

use std::net::SocketAddr;
use std::time::Duration;

use anyhow::{Result, ensure};
use zebu_testkit::connection::{Connection, Hello, Reply};
use zebu_testkit::wire::{OPEN, Writer, create, err, framed_request, op, set_data};

/// The load of one count.
#[derive(Debug)]
pub(crate) struct Story {
    /// Its name in the table of limits.
    pub(crate) name: &'static str,
    /// The role of the counted server.
    pub(crate) role: Role,
    /// Requests in flight.
    depth: usize,
    /// The kind of request.
    asks: Asks,
}

/// The role of a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Role {
    /// A standalone server.
    Alone,
    /// The leader of two others.
    Leader,
    /// A follower beside another one.
    Follower,
}

impl Role {
    /// All of them.
    pub(crate) const ALL: [Self; 3] = [Self::Alone, Self::Leader, Self::Follower];
}

/// The kind of a request.
#[derive(Clone, Copy, Debug)]
enum Asks {
    /// Reads the data of a znode, always the same one.
    Get,
    /// Sets these data.
    Set,
    /// Creates a znode, always below the same parent.
    Create,
}

/// All of them.
pub(crate) const STORIES: &[Story] = &[
    alone("getData, one at a time", 1, Asks::Get),
    alone("getData, 128 at a time", 128, Asks::Get),
    alone("setData, one at a time", 1, Asks::Set),
    alone("setData, 128 at a time", 128, Asks::Set),
    alone("create, 128 at a time", 128, Asks::Create),
    set("setData of a leader, one at a time", Role::Leader, 1),
    set("setData of a leader, 128 at a time", Role::Leader, 128),
    set("setData of a follower, one at a time", Role::Follower, 1),
    set("setData of a follower, 128 at a time", Role::Follower, 128),
];

const fn alone(name: &'static str, depth: usize, asks: Asks) -> Story {
    Story { name, role: Role::Alone, depth, asks }
}

/// The story of a client that is connected to the counted server.
const fn set(name: &'static str, role: Role, depth: usize) -> Story {
    Story { name, role, depth, asks: Asks::Set }
}

/// The size of a value in bytes.
const VALUE: [u8; 100] = [b'v'; 100];
const PATH: &str = "/counted";

/// A connection with a session.
pub(crate) struct Client {
    connection: Connection,
    xid: i32,
}

impl Client {
    /// Connects as soon as a server serves, and creates the znode if it is missing.
    pub(crate) fn connect(address: SocketAddr) -> Result<Self> {
        let connection = Connection::open(address)?;
        connection.set_patience(Duration::from_secs(60))?;
        let mut client = Self { connection, xid: 0 };
        client.connection.send(&Hello::timeout(40_000).bytes())?;
        client.connection.frame()?;
        let bytes = client.create(PATH);
        client.connection.send_bytes(&bytes)?;
        let err = client.reply()?;
        ensure!(matches!(err, err::OK | err::NODE_EXISTS), "answered with error {err}");
        Ok(client)
    }

    /// Runs a story with this number of requests.
    pub(crate) fn tell(&mut self, story: &Story, requests: usize) -> Result<()> {
        for _ in 0..requests / story.depth {
            let mut bytes = Vec::new();
            for _ in 0..story.depth {
                bytes.extend(match story.asks {
                    Asks::Get => {
                        self.request(op::GET_DATA, &Writer::new().string(PATH).bool(false))
                    }
                    Asks::Set => self.request(op::SET_DATA, &set_data(PATH, &VALUE)),
                    Asks::Create => self.create(&format!("{PATH}/{:09}", self.xid)),
                });
            }
            self.connection.send_bytes(&bytes)?;
            for _ in 0..story.depth {
                let err = self.reply()?;
                ensure!(err == err::OK, "answered with error {err}");
            }
        }
        Ok(())
    }

    fn create(&mut self, path: &str) -> Vec<u8> {
        self.request(op::CREATE, &create(path, &VALUE, OPEN, 0))
    }

    fn request(&mut self, op: i32, body: &Writer) -> Vec<u8> {
        self.xid += 1;
        framed_request(self.xid, op, body.bytes())
    }

    fn reply(&mut self) -> Result<i32> {
        Ok(Reply::parse(&self.connection.frame()?)?.err)
    }
}

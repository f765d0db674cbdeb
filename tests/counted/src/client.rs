//! A client that sends exactly the given number of requests.

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use zebu_jute::{Decode as _, Decoder, Encode, Encoder};
use zebu_proto::reply::ReplyHeader;
use zebu_proto::request::{ConnectRequest, Create, PathWatch, RequestHeader, SetData};
use zebu_proto::{Acl, AclRef, ErrorCode, OpCode, Version, Xid};

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
    stream: TcpStream,
    xid: i32,
}

impl Client {
    /// Connects as soon as a server serves, and creates the znode if it is missing.
    pub(crate) fn connect(address: SocketAddr) -> Result<Self> {
        let stream = TcpStream::connect(address)?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(Duration::from_secs(60)))?;
        let mut client = Self { stream, xid: 0 };
        let request = ConnectRequest::new_session(40_000);
        client.stream.write_all(&frame(|to| request.encode(to)))?;
        client.answer()?;
        let bytes = client.create(PATH);
        client.stream.write_all(&bytes)?;
        let err = client.reply()?;
        ensure!(matches!(err, ErrorCode::OK | ErrorCode::NODE_EXISTS), "answered with {err:?}");
        Ok(client)
    }

    /// Runs a story with this number of requests.
    pub(crate) fn tell(&mut self, story: &Story, requests: usize) -> Result<()> {
        for _ in 0..requests / story.depth {
            let mut bytes = Vec::new();
            for _ in 0..story.depth {
                bytes.extend(match story.asks {
                    Asks::Get => {
                        let body = PathWatch { path: Some(PATH.into()), watch: false };
                        self.request(OpCode::GET_DATA, &body)
                    }
                    Asks::Set => {
                        let path = Some(PATH.into());
                        let body = SetData { path, data: Some(&VALUE), version: Version::ANY };
                        self.request(OpCode::SET_DATA, &body)
                    }
                    Asks::Create => self.create(&format!("{PATH}/{:09}", self.xid)),
                });
            }
            self.stream.write_all(&bytes)?;
            for _ in 0..story.depth {
                let err = self.reply()?;
                ensure!(err == ErrorCode::OK, "answered with {err:?}");
            }
        }
        Ok(())
    }

    fn create(&mut self, path: &str) -> Vec<u8> {
        let open = Acl::open();
        let acl = Some(open.iter().map(AclRef::from).collect());
        let body = Create { path: Some(path.into()), data: Some(&VALUE), acl, flags: 0 };
        self.request(OpCode::CREATE, &body)
    }

    fn request(&mut self, op: OpCode, body: &impl Encode) -> Vec<u8> {
        self.xid += 1;
        let header = RequestHeader { xid: Xid(self.xid), op };
        frame(|to| {
            header.encode(to);
            body.encode(to);
        })
    }

    fn answer(&mut self) -> Result<Vec<u8>> {
        let mut length = [0; 4];
        self.stream.read_exact(&mut length).context("the server has hung up")?;
        let mut payload = vec![0; usize::try_from(i32::from_be_bytes(length))?];
        self.stream.read_exact(&mut payload)?;
        Ok(payload)
    }

    fn reply(&mut self) -> Result<ErrorCode> {
        let payload = self.answer()?;
        Ok(ReplyHeader::decode(&mut Decoder::new(&payload))?.err)
    }
}

fn frame(write: impl FnOnce(&mut Encoder<'_>)) -> Vec<u8> {
    let mut bytes = vec![0; 4];
    write(&mut Encoder::new(&mut bytes));
    let length = i32::try_from(bytes.len() - 4).expect("requests are small");
    bytes[..4].copy_from_slice(&length.to_be_bytes());
    bytes
}

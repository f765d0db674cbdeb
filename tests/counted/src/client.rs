//! A client that sends a given number of requests and no more.

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use zebu_jute::{Decode as _, Decoder, Encode, Encoder};
use zebu_proto::reply::ReplyHeader;
use zebu_proto::request::{ConnectRequest, Create, PathWatch, RequestHeader, SetData};
use zebu_proto::{Acl, AclRef, ErrorCode, OpCode, Version, Xid, Zxid};

/// What clients do.
#[derive(Debug)]
pub(crate) struct Story {
    /// Its name in the table of limits.
    pub(crate) name: &'static str,
    /// Requests in flight.
    depth: usize,
    /// What they ask for.
    asks: Asks,
}

/// What a request asks for.
#[derive(Clone, Copy, Debug)]
enum Asks {
    /// The data of a znode, always the same.
    Get,
    /// To set it.
    Set,
    /// A new znode, each below the same one.
    Create,
}

/// All of them.
pub(crate) const STORIES: &[Story] = &[
    Story { name: "getData, one at a time", depth: 1, asks: Asks::Get },
    Story { name: "getData, 128 at a time", depth: 128, asks: Asks::Get },
    Story { name: "setData, one at a time", depth: 1, asks: Asks::Set },
    Story { name: "setData, 128 at a time", depth: 128, asks: Asks::Set },
    Story { name: "create, 128 at a time", depth: 128, asks: Asks::Create },
];

/// Bytes of a value.
const VALUE: [u8; 100] = [b'v'; 100];
const PATH: &str = "/counted";

/// A connection with a session.
pub(crate) struct Client {
    stream: TcpStream,
    xid: i32,
}

impl Client {
    /// Connects as soon as there is a server that serves, and makes the znode.
    pub(crate) fn connect(address: SocketAddr) -> Result<Self> {
        let stream = TcpStream::connect(address)?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(Duration::from_secs(60)))?;
        let mut client = Self { stream, xid: 0 };
        let request = ConnectRequest {
            protocol_version: 0,
            last_zxid_seen: Zxid::ZERO,
            timeout_ms: 40_000,
            session_id: 0,
            password: Some(&[0; 16]),
            read_only: Some(false),
        };
        client.stream.write_all(&frame(|to| request.encode(to)))?;
        client.answer()?;
        let bytes = client.create(PATH);
        client.stream.write_all(&bytes)?;
        client.reply()?;
        Ok(client)
    }

    /// Tells a story of so many requests.
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
                self.reply()?;
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

    fn reply(&mut self) -> Result<()> {
        let payload = self.answer()?;
        let header = ReplyHeader::decode(&mut Decoder::new(&payload))?;
        ensure!(header.err == ErrorCode::OK, "answered with {:?}", header.err);
        Ok(())
    }
}

fn frame(write: impl FnOnce(&mut Encoder<'_>)) -> Vec<u8> {
    let mut bytes = vec![0; 4];
    write(&mut Encoder::new(&mut bytes));
    let length = i32::try_from(bytes.len() - 4).expect("requests are small");
    bytes[..4].copy_from_slice(&length.to_be_bytes());
    bytes
}

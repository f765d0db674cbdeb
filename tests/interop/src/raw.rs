//! A client that sends arbitrary bytes and returns everything it receives.

use std::collections::VecDeque;
use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};

use crate::server::PATIENCE;
use crate::wire::{Reader, Writer, frame, op};

/// The result of waiting for a frame.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Incoming {
    /// A frame's payload.
    Frame(Vec<u8>),
    /// The server closed the connection.
    Closed,
    /// No frame arrived within the connection's time limit.
    Silence,
}

/// A server left a request unanswered.
#[derive(Debug)]
pub struct NoAnswer(String);

impl std::fmt::Display for NoAnswer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "no answer to {}", self.0)
    }
}

impl std::error::Error for NoAnswer {}

/// One TCP connection that carries frames.
pub struct Connection {
    stream: TcpStream,
    received: Vec<u8>,
}

impl Connection {
    /// Connects.
    ///
    /// # Errors
    /// No server listens.
    pub fn open(address: SocketAddr) -> Result<Self> {
        let stream = TcpStream::connect_timeout(&address, Duration::from_secs(10))?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(PATIENCE))?;
        stream.set_write_timeout(Some(PATIENCE))?;
        Ok(Self { stream, received: Vec::new() })
    }

    /// Sets how long [`Connection::receive`] waits.
    ///
    /// # Errors
    /// The socket refuses.
    pub fn set_patience(&self, patience: Duration) -> Result<()> {
        Ok(self.stream.set_read_timeout(Some(patience))?)
    }

    /// The socket itself, for tests that violate the protocol.
    pub fn stream(&mut self) -> &mut TcpStream {
        &mut self.stream
    }

    /// Sends bytes unchanged.
    ///
    /// # Errors
    /// The connection is closed.
    pub fn send_bytes(&mut self, bytes: &[u8]) -> Result<()> {
        Ok(self.stream.write_all(bytes)?)
    }

    /// Sends a payload with its length before it.
    ///
    /// # Errors
    /// The connection is closed.
    pub fn send(&mut self, payload: &[u8]) -> Result<()> {
        self.send_bytes(&frame(payload))
    }

    /// Waits for the next frame.
    ///
    /// # Errors
    /// A frame with an invalid length.
    pub fn receive(&mut self) -> Result<Incoming> {
        loop {
            if let Some(length) = self.received.first_chunk::<4>() {
                let length = usize::try_from(i32::from_be_bytes(*length)).context("length")?;
                if self.received.len() >= 4 + length {
                    let rest = self.received.split_off(4 + length);
                    let frame = std::mem::replace(&mut self.received, rest);
                    return Ok(Incoming::Frame(frame[4..].to_vec()));
                }
            }
            let mut chunk = [0; 65536];
            match self.stream.read(&mut chunk) {
                Ok(0) => return Ok(Incoming::Closed),
                Ok(count) => self.received.extend_from_slice(&chunk[..count]),
                Err(e) if matches!(e.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {
                    return Ok(Incoming::Silence);
                }
                Err(e) if e.kind() == ErrorKind::Interrupted => {}
                Err(e)
                    if matches!(e.kind(), ErrorKind::ConnectionReset | ErrorKind::BrokenPipe) =>
                {
                    return Ok(Incoming::Closed);
                }
                Err(e) => return Err(e.into()),
            }
        }
    }
}

/// The payload of a connect request.
pub fn connect_request(timeout_ms: i32, session: i64, password: &[u8], last_zxid: i64) -> Vec<u8> {
    Writer::new()
        .int(0)
        .long(last_zxid)
        .int(timeout_ms)
        .long(session)
        .buffer(Some(password))
        .bool(false)
        .done()
}

/// An answer: its header and body.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reply {
    /// The xid of the request.
    pub xid: i32,
    /// The server's last zxid.
    pub zxid: i64,
    /// 0, or the error code.
    pub err: i32,
    /// The record.
    pub body: Vec<u8>,
}

impl Reply {
    /// Splits a payload.
    ///
    /// # Errors
    /// It is shorter than a header.
    pub fn parse(payload: &[u8]) -> Result<Self> {
        let mut reader = Reader::new(payload);
        let (xid, zxid, err) = (reader.int()?, reader.long()?, reader.int()?);
        Ok(Self { xid, zxid, err, body: reader.rest().to_vec() })
    }
}

/// A session that follows the protocol, with one request at a time.
pub struct Session {
    /// The connection.
    pub connection: Connection,
    /// The session's id.
    pub id: i64,
    /// The session's password.
    pub password: Vec<u8>,
    /// The negotiated timeout, in milliseconds.
    pub timeout_ms: i32,
    /// Notifications that arrived before an answer.
    pub notifications: VecDeque<Reply>,
    xid: i32,
}

impl Session {
    /// A new session.
    ///
    /// # Errors
    /// The server refuses.
    pub fn open(address: SocketAddr, timeout_ms: i32) -> Result<Self> {
        Self::resume(address, timeout_ms, 0, &[0; 16])
    }

    /// A new session whose connection waits at most for `patience`.
    ///
    /// # Errors
    /// The server refuses, or does not answer.
    pub fn open_within(address: SocketAddr, timeout_ms: i32, patience: Duration) -> Result<Self> {
        let opened = Self::attach(address, timeout_ms, 0, &[0; 16], 0, patience)?;
        opened.context("session refused")
    }

    /// An existing session on a new connection.
    ///
    /// # Errors
    /// The server refuses.
    pub fn resume(address: SocketAddr, timeout_ms: i32, id: i64, password: &[u8]) -> Result<Self> {
        let resumed = Self::attach(address, timeout_ms, id, password, 0, PATIENCE)?;
        resumed.context("session refused")
    }

    /// An existing session on a new connection that waits at most for `patience`; `None` if the
    /// session has expired.
    ///
    /// # Errors
    /// The server does not answer.
    pub fn attach(
        address: SocketAddr,
        timeout_ms: i32,
        id: i64,
        password: &[u8],
        last_zxid: i64,
        patience: Duration,
    ) -> Result<Option<Self>> {
        let mut connection = Connection::open(address)?;
        connection.set_patience(patience)?;
        connection.send(&connect_request(timeout_ms, id, password, last_zxid))?;
        let Incoming::Frame(payload) = connection.receive()? else {
            bail!(NoAnswer("the connect request".to_owned()));
        };
        let mut reader = Reader::new(&payload);
        let _version = reader.int()?;
        let (timeout_ms, id) = (reader.int()?, reader.long()?);
        let password = reader.buffer()?.context("null password")?.to_vec();
        if timeout_ms <= 0 {
            return Ok(None);
        }
        let notifications = VecDeque::new();
        Ok(Some(Self { connection, id, password, timeout_ms, notifications, xid: 0 }))
    }

    /// Sends a request and waits for its answer.
    ///
    /// # Errors
    /// The connection is closed, or an unexpected answer arrived.
    pub fn call(&mut self, op: i32, body: Writer) -> Result<Reply> {
        self.xid += 1;
        let xid = if op == op::PING { -2 } else { self.xid };
        self.connection.send(&Writer::request(xid, op).raw(&body.done()).done())?;
        loop {
            let Incoming::Frame(payload) = self.connection.receive()? else {
                bail!(NoAnswer(format!("operation {op}")));
            };
            let reply = Reply::parse(&payload)?;
            if reply.xid == -1 {
                self.notifications.push_back(reply);
                continue;
            }
            ensure!(reply.xid == xid, "answer to {} instead of {xid}", reply.xid);
            return Ok(reply);
        }
    }

    /// Sends several requests in one write and waits for all answers. Each request must succeed.
    ///
    /// # Errors
    /// As for [`Session::expect`].
    pub fn expect_all(&mut self, requests: &[(i32, Writer)]) -> Result<Vec<Vec<u8>>> {
        let mut bytes = Vec::new();
        for (op, body) in requests {
            self.xid += 1;
            let request = Writer::request(self.xid, *op).raw(&body.clone().done());
            bytes.extend(frame(&request.done()));
        }
        self.connection.send_bytes(&bytes)?;
        let mut bodies = Vec::with_capacity(requests.len());
        while let Some((op, _)) = requests.get(bodies.len()) {
            let Incoming::Frame(payload) = self.connection.receive()? else {
                bail!(NoAnswer(format!("operation {op}")));
            };
            let reply = Reply::parse(&payload)?;
            if reply.xid == -1 {
                self.notifications.push_back(reply);
                continue;
            }
            ensure!(reply.err == 0, "operation {op}: error {}", reply.err);
            bodies.push(reply.body);
        }
        Ok(bodies)
    }

    /// As [`Session::call`], but an error code is an error.
    ///
    /// # Errors
    /// As for [`Session::call`], and an error code.
    pub fn expect(&mut self, op: i32, body: Writer) -> Result<Vec<u8>> {
        let reply = self.call(op, body)?;
        ensure!(reply.err == 0, "operation {op}: error {}", reply.err);
        Ok(reply.body)
    }

    /// Creates a znode with an open ACL.
    ///
    /// # Errors
    /// As [`Session::expect`].
    pub fn create(&mut self, path: &str, data: &[u8], flags: i32) -> Result<String> {
        let body =
            Writer::new().string(path).buffer(Some(data)).acl(&crate::wire::open_acl()).int(flags);
        let body = self.expect(op::CREATE, body)?;
        Reader::new(&body).string()?.context("null path")
    }

    /// Adds a credential to the connection.
    ///
    /// # Errors
    /// As [`Session::expect`].
    pub fn auth(&mut self, scheme: &str, credential: &str) -> Result<()> {
        let body = Writer::new().int(0).string(scheme).string(credential);
        self.expect(op::AUTH, body).map(|_| ())
    }

    /// Closes the session.
    ///
    /// # Errors
    /// As [`Session::expect`].
    pub fn close(mut self) -> Result<()> {
        self.expect(op::CLOSE_SESSION, Writer::new()).map(|_| ())
    }
}

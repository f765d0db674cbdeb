//! A client that sends arbitrary bytes and returns everything it receives.

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use zebu_testkit::connection::{Connection, Hello, Incoming, PATIENCE, Reply, Welcome};
use zebu_testkit::wire::{self, Reader, Writer, framed_request, op};

/// A server left a request unanswered.
#[derive(Debug)]
pub struct NoAnswer(String);

impl std::fmt::Display for NoAnswer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "no answer to {}", self.0)
    }
}

impl std::error::Error for NoAnswer {}

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
        let hello = Hello { last_zxid, ..Hello::renewal(timeout_ms, id, password) };
        connection.send(&hello.bytes())?;
        let Incoming::Frame(payload) = connection.receive()? else {
            bail!(NoAnswer("the connect request".to_owned()));
        };
        let Welcome { timeout_ms, session: id, password } = Welcome::parse(&payload)?;
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
        let reply = self.reply(op)?;
        ensure!(reply.xid == xid, "answer to {} instead of {xid}", reply.xid);
        Ok(reply)
    }

    /// The next answer. Notifications before it are kept.
    fn reply(&mut self, op: i32) -> Result<Reply> {
        loop {
            let Incoming::Frame(payload) = self.connection.receive()? else {
                bail!(NoAnswer(format!("operation {op}")));
            };
            let reply = Reply::parse(&payload)?;
            if reply.xid != -1 {
                return Ok(reply);
            }
            self.notifications.push_back(reply);
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
            bytes.extend(framed_request(self.xid, *op, body.bytes()));
        }
        self.connection.send_bytes(&bytes)?;
        let bodies = requests.iter().map(|(op, _)| {
            let reply = self.reply(*op)?;
            ensure!(reply.err == 0, "operation {op}: error {}", reply.err);
            Ok(reply.body)
        });
        bodies.collect()
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
        let body = self.expect(op::CREATE, wire::create(path, data, wire::OPEN, flags))?;
        Ok(Reader::new(&body).string()?)
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

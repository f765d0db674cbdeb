//! A session that moves from server to server and never sees an older state.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use anyhow::{Result, bail, ensure};
use zebu_testkit::connection::{Incoming, Reply};
use zebu_testkit::wire::{Writer, op, open_acl};

use crate::raw::Session;
use crate::server::PATIENCE;

/// Maximum time for a server's answer before the client tries another server.
const ANSWER_TIME: Duration = Duration::from_secs(6);

/// A session that moves from server to server.
pub struct Client {
    addresses: Vec<SocketAddr>,
    next: usize,
    timeout_ms: i32,
    id: i64,
    password: Vec<u8>,
    last_zxid: i64,
    session: Option<Session>,
    /// Number of connections so far.
    connections: usize,
}

impl Client {
    /// A new session. The first attempt goes to the server with the index `first`.
    ///
    /// # Errors
    /// No server answers.
    pub fn open(addresses: &[SocketAddr], first: usize, timeout_ms: i32) -> Result<Self> {
        let mut client = Self {
            addresses: addresses.to_vec(),
            next: first,
            timeout_ms,
            id: 0,
            password: vec![0; 16],
            last_zxid: 0,
            session: None,
            connections: 0,
        };
        client.connect()?;
        Ok(client)
    }

    /// The servers it knows.
    pub fn addresses(&self) -> &[SocketAddr] {
        &self.addresses
    }

    /// The server of its connection; without one, the server that it tries next.
    pub fn server(&self) -> SocketAddr {
        self.addresses[self.next % self.addresses.len()]
    }

    /// The session's id.
    pub fn id(&self) -> i64 {
        self.id
    }

    /// Number of connections so far. Watches end with their connection.
    pub fn connections(&self) -> usize {
        self.connections
    }

    /// The newest zxid seen.
    pub fn last_zxid(&self) -> i64 {
        self.last_zxid
    }

    /// The negotiated timeout.
    pub fn timeout(&self) -> Duration {
        Duration::from_millis(u64::try_from(self.timeout_ms).unwrap_or_default())
    }

    /// Tries servers until one accepts the session.
    ///
    /// # Errors
    /// The session has expired, or no server answers.
    pub fn connect(&mut self) -> Result<()> {
        let start = Instant::now();
        while self.session.is_none() {
            ensure!(start.elapsed() < PATIENCE, "no server takes session {:#x}", self.id);
            let address = self.server();
            let (timeout, id, zxid) = (self.timeout_ms, self.id, self.last_zxid);
            match Session::attach(address, timeout, id, &self.password, zxid, ANSWER_TIME / 3) {
                Ok(Some(session)) => {
                    ensure!(id == 0 || id == session.id, "session {id:#x} became another");
                    (self.id, self.password) = (session.id, session.password.clone());
                    self.timeout_ms = session.timeout_ms;
                    session.connection.set_patience(ANSWER_TIME)?;
                    self.session = Some(session);
                    self.connections += 1;
                }
                Ok(None) => bail!("session {id:#x} is lost, says {address}"),
                Err(_) => {
                    self.next += 1;
                    std::thread::sleep(Duration::from_millis(10));
                }
            }
        }
        Ok(())
    }

    /// Sends a request; `None` if the outcome is unknown.
    ///
    /// # Errors
    /// As for [`Client::connect`], or an answer shows an older state.
    pub fn call(&mut self, op: i32, body: Writer) -> Result<Option<Reply>> {
        self.connect()?;
        self.call_here(op, body)
    }

    /// As above, only if the session still has a connection.
    ///
    /// # Errors
    /// An answer shows an older state.
    pub fn call_here(&mut self, op: i32, body: Writer) -> Result<Option<Reply>> {
        let Some(session) = &mut self.session else { return Ok(None) };
        let Ok(reply) = session.call(op, body) else {
            self.hang_up();
            return Ok(None);
        };
        ensure!(
            reply.zxid >= self.last_zxid,
            "session {:#x} goes back from {:#x} to {:#x}",
            self.id,
            self.last_zxid,
            reply.zxid
        );
        self.last_zxid = reply.zxid;
        Ok(Some(reply))
    }

    /// Waits for a notification, for at most this time.
    ///
    /// # Errors
    /// An unexpected frame arrived.
    pub fn notification(&mut self, patience: Duration) -> Result<Option<Reply>> {
        let Some(session) = &mut self.session else { return Ok(None) };
        if let Some(reply) = session.notifications.pop_front() {
            return Ok(Some(reply));
        }
        session.connection.set_patience(patience)?;
        let came = session.connection.receive();
        session.connection.set_patience(ANSWER_TIME)?;
        match came {
            Ok(Incoming::Frame(payload)) => Ok(Some(Reply::parse(&payload)?)),
            Ok(Incoming::Silence) => Ok(None),
            Ok(Incoming::Closed) | Err(_) => {
                self.hang_up();
                Ok(None)
            }
        }
    }

    /// Closes the connection; the session stays.
    pub fn hang_up(&mut self) {
        self.session = None;
        self.next += 1;
    }

    /// Closes the session.
    pub fn close(mut self) {
        // If the answer is lost, the session may already be closed, so there is no second attempt.
        while let Ok(None) = self.call(op::CLOSE_SESSION, Writer::new()) {}
    }

    /// Creates a znode with an open ACL; `None` if it is unknown whether it exists.
    ///
    /// # Errors
    /// As for [`Client::call`].
    pub fn create(&mut self, path: &str, data: &str, flags: i32) -> Result<Option<Reply>> {
        let body = Writer::new().string(path).string(data).acl(&open_acl()).int(flags);
        self.call(op::CREATE, body)
    }

    /// The answer to a `getData` that shows everything done before this call; `None` if there is no
    /// answer.
    ///
    /// # Errors
    /// As for [`Client::call`].
    pub fn read(&mut self, path: &str) -> Result<Option<Reply>> {
        let synced = self.call(op::SYNC, Writer::new().string(path))?;
        if synced.is_none_or(|reply| reply.err != 0) {
            return Ok(None);
        }
        self.call_here(op::GET_DATA, Writer::new().string(path).bool(false))
    }
}

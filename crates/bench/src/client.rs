//! One session with one request at a time, for the steps before and after a measurement.

use std::io::{Read, Write};
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use zebu_credentials::Wire;
use zebu_jute::Encoder;

use crate::entry::Entry;
use crate::wire::{self, LENGTH_BYTES, REPLY_HEADER_BYTES, SessionKey, op};

/// A blocking session.
#[derive(Debug)]
pub(crate) struct Client {
    stream: Wire,
    /// The time limit for an answer.
    patience: Duration,
    next_xid: i32,
}

impl Client {
    /// Opens a session. `patience`: the time limit for the connection and for every reply.
    pub(crate) fn connect(server: SocketAddr, patience: Duration) -> anyhow::Result<Self> {
        Self::enter(&Entry::default(), server, patience, 30_000).map(|(client, _)| client)
    }

    /// Opens a session and authenticates.
    pub(crate) fn enter(
        entry: &Entry,
        server: SocketAddr,
        patience: Duration,
        timeout_ms: i32,
    ) -> anyhow::Result<(Self, SessionKey)> {
        let opened = Self::open(entry, server, patience, timeout_ms, &SessionKey::default())?;
        let Some((mut client, key)) = opened else { bail!("{server} granted no session") };
        entry.prove(&mut client, server)?;
        Ok((client, key))
    }

    /// Returns the connection.
    pub(crate) fn into_wire(self) -> Wire {
        self.stream
    }

    /// Resumes a session, or opens one if the key is that of none. `None`: the session has expired.
    pub(crate) fn resume(
        server: SocketAddr,
        patience: Duration,
        session: &SessionKey,
    ) -> anyhow::Result<Option<(Self, SessionKey)>> {
        Self::open(&Entry::default(), server, patience, 30_000, session)
    }

    fn open(
        entry: &Entry,
        server: SocketAddr,
        patience: Duration,
        timeout_ms: i32,
        session: &SessionKey,
    ) -> anyhow::Result<Option<(Self, SessionKey)>> {
        let mut stream = entry.connect(server, patience)?;
        stream.set_deadline(Instant::now() + patience);
        stream.write_all(&wire::connect_request(timeout_ms, session))?;
        let hello = receive(&mut stream).with_context(|| format!("handshake with {server}"))?;
        let granted = wire::granted(&hello);
        Ok(granted.map(|key| (Self { stream, patience, next_xid: 1 }, key)))
    }

    /// Sends one request and returns its error code and the body of the reply.
    pub(crate) fn call(
        &mut self,
        opcode: i32,
        body: impl FnOnce(&mut Encoder<'_>),
    ) -> anyhow::Result<(i32, Vec<u8>)> {
        let xid = self.next_xid;
        self.next_xid += 1;
        let mut request = Vec::new();
        wire::frame(&mut request, xid, opcode, body);
        self.stream.set_deadline(Instant::now() + self.patience);
        self.stream.write_all(&request).context("send a request")?;
        loop {
            let mut reply = receive(&mut self.stream)?;
            let Some((got, err)) = wire::reply_header(&reply) else {
                bail!("a reply shorter than its header");
            };
            if got == xid {
                reply.drain(..REPLY_HEADER_BYTES);
                return Ok((err, reply));
            }
            if got > 0 {
                bail!("reply out of order: xid {got}, not {xid}");
            }
        }
    }

    /// Sends one request that must succeed.
    pub(crate) fn expect(
        &mut self,
        what: &str,
        opcode: i32,
        body: impl FnOnce(&mut Encoder<'_>),
    ) -> anyhow::Result<()> {
        match self.call(opcode, body)? {
            (0, _) => Ok(()),
            (err, _) => bail!("{what}: error {err}"),
        }
    }

    /// Creates a persistent znode if it does not exist.
    pub(crate) fn ensure(&mut self, path: &str) -> anyhow::Result<()> {
        match self.call(op::CREATE, |to| wire::create_body(to, path, b""))? {
            (0 | wire::ERR_NODE_EXISTS, _) => Ok(()),
            (err, _) => bail!("create {path}: error {err}"),
        }
    }

    /// Whether a znode exists.
    pub(crate) fn exists(&mut self, path: &str) -> anyhow::Result<bool> {
        match self.call(op::EXISTS, |to| wire::read_body(to, path, false))? {
            (0, _) => Ok(true),
            (wire::ERR_NO_NODE, _) => Ok(false),
            (err, _) => bail!("exists {path}: error {err}"),
        }
    }

    /// The names of a znode's children.
    pub(crate) fn children(&mut self, path: &str) -> anyhow::Result<Vec<String>> {
        match self.call(op::GET_CHILDREN, |to| wire::read_body(to, path, false))? {
            (0, body) => wire::names(&body).with_context(|| format!("children of {path}")),
            (wire::ERR_NO_NODE, _) => Ok(Vec::new()),
            (err, _) => bail!("children of {path}: error {err}"),
        }
    }

    /// Ends the session.
    pub(crate) fn close(mut self) -> anyhow::Result<()> {
        self.expect("close session", op::CLOSE_SESSION, |_| {})
    }
}

fn receive(stream: &mut Wire) -> anyhow::Result<Vec<u8>> {
    let mut length = [0; LENGTH_BYTES];
    stream.read_exact(&mut length).context("wait for a reply")?;
    let length = i32::from_be_bytes(length);
    let Some(length) = usize::try_from(length).ok().filter(|&l| l <= wire::REPLY_BYTES_MAX) else {
        bail!("unreasonable reply length: {length}");
    };
    let mut payload = vec![0; length];
    stream.read_exact(&mut payload).context("read a reply")?;
    Ok(payload)
}

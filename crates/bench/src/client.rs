//! One session with one request at a time, for the steps before and after a measurement.

use std::io::{Read, Write};
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use anyhow::{Context, bail, ensure};
use zebu_credentials::Wire;
use zebu_jute::Encoder;

use crate::entry::Entry;
use crate::wire::{self, LENGTH_BYTES, REPLY_HEADER_BYTES, SessionKey, op};

/// Bytes of a long answer that are received at once, if they are not kept.
const SKIPPED_BYTES: usize = 64 << 10;

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
        let xid = self.ask(opcode, body)?;
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

    /// Sends one request and returns its xid.
    fn ask(&mut self, opcode: i32, body: impl FnOnce(&mut Encoder<'_>)) -> anyhow::Result<i32> {
        let xid = self.next_xid;
        self.next_xid += 1;
        let mut request = Vec::new();
        wire::frame(&mut request, xid, opcode, body);
        self.stream.set_deadline(Instant::now() + self.patience);
        self.stream.write_all(&request).context("send a request")?;
        Ok(xid)
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

    /// The number of a znode's children. The whole list is received, and neither kept nor decoded.
    pub(crate) fn count_children(&mut self, path: &str) -> anyhow::Result<usize> {
        let xid = self.ask(op::GET_CHILDREN, |to| wire::read_body(to, path, false))?;
        let mut skipped = vec![0; SKIPPED_BYTES];
        loop {
            let length = receive_length(&mut self.stream)?;
            let mut header = [0; REPLY_HEADER_BYTES];
            ensure!(length >= header.len(), "a reply shorter than its header");
            self.stream.read_exact(&mut header).context("read a reply")?;
            let mut rest = length - header.len();
            let (got, err) = wire::reply_header(&header).context("a reply without a header")?;
            let mut count = [0; 4];
            if got == xid && err == 0 {
                ensure!(rest >= count.len(), "a list without its length");
                self.stream.read_exact(&mut count).context("read the length of a list")?;
                rest -= count.len();
            }
            while rest > 0 {
                let some = rest.min(skipped.len());
                match self.stream.read(&mut skipped[..some]).context("read a list")? {
                    0 => bail!("a list that is cut short"),
                    read => rest -= read,
                }
            }
            match (got, err) {
                (got, _) if got <= 0 => {}
                (got, _) if got != xid => bail!("reply out of order: xid {got}, not {xid}"),
                (_, 0) => {
                    return usize::try_from(i32::from_be_bytes(count)).context("a negative count");
                }
                (_, err) => bail!("children of {path}: error {err}"),
            }
        }
    }

    /// Ends the session.
    pub(crate) fn close(mut self) -> anyhow::Result<()> {
        self.expect("close session", op::CLOSE_SESSION, |_| {})
    }
}

fn receive(stream: &mut Wire) -> anyhow::Result<Vec<u8>> {
    let mut payload = vec![0; receive_length(stream)?];
    stream.read_exact(&mut payload).context("read a reply")?;
    Ok(payload)
}

fn receive_length(stream: &mut Wire) -> anyhow::Result<usize> {
    let mut length = [0; LENGTH_BYTES];
    stream.read_exact(&mut length).context("wait for a reply")?;
    let length = i32::from_be_bytes(length);
    let Some(length) = usize::try_from(length).ok().filter(|&l| l <= wire::REPLY_BYTES_MAX) else {
        bail!("unreasonable reply length: {length}");
    };
    Ok(length)
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;
    use std::thread;

    use super::*;

    /// A reply to the first request: the error, then the body.
    fn reply(err: i32, body: &[u8]) -> Vec<u8> {
        let length = (REPLY_HEADER_BYTES + body.len()) as u32;
        let header = [&1_i32.to_be_bytes()[..], &[0; 8], &err.to_be_bytes()].concat();
        [&length.to_be_bytes()[..], &header, body].concat()
    }

    /// What a client counts whose first request gets this reply.
    fn counted(reply: Vec<u8>) -> anyhow::Result<usize> {
        let listener = TcpListener::bind("127.0.0.1:0")?;
        let address = listener.local_addr()?;
        let server = thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            let mut length = [0; 4];
            for answer in [[&[0, 0, 0, 36][..], &[1; 16], &[0, 0, 0, 16], &[7; 16]].concat(), reply]
            {
                stream.read_exact(&mut length).unwrap();
                let mut request = vec![0; u32::from_be_bytes(length) as usize];
                stream.read_exact(&mut request).unwrap();
                stream.write_all(&answer).unwrap();
            }
        });
        let counted = Client::connect(address, Duration::from_secs(60))?.count_children("/t");
        server.join().unwrap();
        counted
    }

    #[test]
    fn children_are_counted_without_their_names() {
        let list = |count: u32| {
            let names = b"\0\0\0\x02k0".repeat(count as usize);
            [&count.to_be_bytes()[..], &names].concat()
        };
        assert_eq!(counted(reply(0, &list(0))).unwrap(), 0);
        assert_eq!(counted(reply(0, &list(100_000))).unwrap(), 100_000);
        assert!(counted(reply(wire::ERR_NO_NODE, &[])).is_err());
        assert!(counted(reply(0, &[0, 0])).is_err());
        let mut cut = reply(0, &list(100_000));
        cut.truncate(1000);
        assert!(counted(cut).is_err());
    }
}

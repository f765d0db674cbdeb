//! A connection to a server: frames, arbitrary bytes, and the two headers of the protocol.

use std::io::{self, ErrorKind, Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use crate::wire::{Odd, Reader, Writer, frame};

/// Far above anything that should happen: a test that waits this long has found a fault.
pub const PATIENCE: Duration = Duration::from_secs(180);

/// The longest time in which a server takes a connection.
const CONNECT_MAX: Duration = Duration::from_secs(10);

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

/// One TCP connection that carries frames.
#[derive(Debug)]
pub struct Connection {
    stream: TcpStream,
    received: Vec<u8>,
}

impl Connection {
    /// Connects.
    ///
    /// # Errors
    /// No server listens.
    pub fn open(address: SocketAddr) -> io::Result<Self> {
        let stream = TcpStream::connect_timeout(&address, CONNECT_MAX)?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(PATIENCE))?;
        stream.set_write_timeout(Some(PATIENCE))?;
        Ok(Self { stream, received: Vec::new() })
    }

    /// Connects to a port of this machine.
    ///
    /// # Errors
    /// No server listens.
    pub fn local(port: u16) -> io::Result<Self> {
        Self::open(([127, 0, 0, 1], port).into())
    }

    /// Sets how long [`Connection::receive`] waits.
    ///
    /// # Errors
    /// The socket refuses.
    pub fn set_patience(&self, patience: Duration) -> io::Result<()> {
        self.stream.set_read_timeout(Some(patience))
    }

    /// The socket itself, for tests that violate the protocol.
    pub fn stream(&mut self) -> &mut TcpStream {
        &mut self.stream
    }

    /// Sends bytes unchanged.
    ///
    /// # Errors
    /// The connection is closed.
    pub fn send_bytes(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.stream.write_all(bytes)
    }

    /// Sends a payload with its length before it.
    ///
    /// # Errors
    /// The connection is closed.
    pub fn send(&mut self, payload: &[u8]) -> io::Result<()> {
        self.send_bytes(&frame(payload))
    }

    /// Waits for the next frame.
    ///
    /// # Errors
    /// A frame with a negative length.
    pub fn receive(&mut self) -> io::Result<Incoming> {
        loop {
            if let Some(length) = self.received.first_chunk::<4>() {
                let length = usize::try_from(i32::from_be_bytes(*length));
                let length = length.map_err(|_| io::Error::other("a frame of negative length"))?;
                if self.received.len() >= 4 + length {
                    let rest = self.received.split_off(4 + length);
                    let frame = std::mem::replace(&mut self.received, rest);
                    return Ok(Incoming::Frame(frame[4..].to_vec()));
                }
            }
            match self.read() {
                Ok(true) => {}
                Ok(false) => return Ok(Incoming::Closed),
                Err(e) if matches!(e.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {
                    return Ok(Incoming::Silence);
                }
                Err(e) => return Err(e),
            }
        }
    }

    /// The payload of the next frame, where a test expects nothing else.
    ///
    /// # Errors
    /// The server closed the connection, sent nothing within the time limit, or sent a frame with a
    /// negative length.
    pub fn frame(&mut self) -> io::Result<Vec<u8>> {
        match self.receive()? {
            Incoming::Frame(payload) => Ok(payload),
            Incoming::Closed => Err(io::Error::new(ErrorKind::UnexpectedEof, "no frame: closed")),
            Incoming::Silence => Err(io::Error::new(ErrorKind::TimedOut, "no frame: silence")),
        }
    }

    /// Everything up to the end of the connection.
    ///
    /// # Errors
    /// The connection does not end.
    pub fn rest(&mut self) -> io::Result<Vec<u8>> {
        while self.read()? {}
        Ok(std::mem::take(&mut self.received))
    }

    /// Reads what there is; false at the end of the connection.
    fn read(&mut self) -> io::Result<bool> {
        let mut chunk = [0; 65536];
        loop {
            match self.stream.read(&mut chunk) {
                Ok(count) => {
                    self.received.extend_from_slice(&chunk[..count]);
                    return Ok(count > 0);
                }
                Err(e) if e.kind() == ErrorKind::Interrupted => {}
                Err(e)
                    if matches!(e.kind(), ErrorKind::ConnectionReset | ErrorKind::BrokenPipe) =>
                {
                    return Ok(false);
                }
                Err(e) => return Err(e),
            }
        }
    }
}

/// A connect request.
#[derive(Clone, Debug)]
pub struct Hello {
    /// The newest zxid that the client has seen.
    pub last_zxid: i64,
    /// The timeout it asks for, in milliseconds.
    pub timeout_ms: i32,
    /// The session to renew; 0 for a new one.
    pub session: i64,
    /// The session's password.
    pub password: Vec<u8>,
    /// Whether a read-only server will do. Old clients do not send this byte.
    pub read_only: Option<bool>,
}

impl Default for Hello {
    fn default() -> Self {
        Self {
            last_zxid: 0,
            timeout_ms: 30_000,
            session: 0,
            password: vec![0; 16],
            read_only: Some(false),
        }
    }
}

impl Hello {
    /// For a new session with this timeout.
    pub fn timeout(timeout_ms: i32) -> Self {
        Self { timeout_ms, ..Self::default() }
    }

    /// For a session that exists.
    pub fn renewal(timeout_ms: i32, session: i64, password: &[u8]) -> Self {
        Self { timeout_ms, session, password: password.to_vec(), ..Self::default() }
    }

    /// The payload.
    pub fn bytes(&self) -> Vec<u8> {
        let bytes = Writer::new()
            .int(0)
            .long(self.last_zxid)
            .int(self.timeout_ms)
            .long(self.session)
            .buffer(&self.password);
        match self.read_only {
            Some(read_only) => bytes.bool(read_only).done(),
            None => bytes.done(),
        }
    }
}

/// The answer to a connect request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Welcome {
    /// The negotiated timeout in milliseconds; 0 if the session has expired.
    pub timeout_ms: i32,
    /// The session.
    pub session: i64,
    /// Its password.
    pub password: Vec<u8>,
}

impl Welcome {
    /// Reads a payload, up to the password.
    ///
    /// # Errors
    /// It is shorter.
    pub fn parse(payload: &[u8]) -> Result<Self, Odd> {
        let mut from = Reader::new(payload);
        let _version = from.int()?;
        let (timeout_ms, session) = (from.int()?, from.long()?);
        Ok(Self { timeout_ms, session, password: from.buffer()?.to_vec() })
    }
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
    pub fn parse(payload: &[u8]) -> Result<Self, Odd> {
        let mut from = Reader::new(payload);
        let (xid, zxid, err) = (from.int()?, from.long()?, from.int()?);
        Ok(Self { xid, zxid, err, body: from.rest().to_vec() })
    }
}

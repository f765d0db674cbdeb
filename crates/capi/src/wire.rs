//! A connection: a non-blocking socket, and its input and output buffers.

use std::io::{self, Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::os::fd::{AsRawFd as _, RawFd};

use bytes::{Buf as _, Bytes, BytesMut};
use socket2::{Domain, Protocol, Socket, Type};
use zebu_session::Attempt;

/// Minimum and maximum size of a read. The actual size adapts to the traffic.
const READ_BYTES_MIN: usize = 8 * 1024;
const READ_BYTES_MAX: usize = 256 * 1024;

/// A connection, or an attempt at one.
#[derive(Debug)]
pub(crate) struct Wire {
    pub(crate) attempt: Attempt,
    pub(crate) server: SocketAddr,
    stream: TcpStream,
    is_connected: bool,
    input: BytesMut,
    read_bytes: usize,
    output: Vec<u8>,
    /// The number of bytes of `output` that are sent.
    sent: usize,
}

impl Wire {
    /// Starts to connect.
    pub(crate) fn connect(attempt: Attempt, server: SocketAddr) -> io::Result<Self> {
        let stream = dial(server)?;
        Ok(Self {
            attempt,
            server,
            stream,
            is_connected: false,
            input: BytesMut::new(),
            read_bytes: READ_BYTES_MIN,
            output: Vec::new(),
            sent: 0,
        })
    }

    pub(crate) fn fd(&self) -> RawFd {
        self.stream.as_raw_fd()
    }

    pub(crate) fn stream(&self) -> &TcpStream {
        &self.stream
    }

    pub(crate) fn is_connected(&self) -> bool {
        self.is_connected
    }

    /// Checks whether the connection is established.
    pub(crate) fn finish_connecting(&mut self) -> io::Result<bool> {
        if let Some(error) = self.stream.take_error()? {
            return Err(error);
        }
        match self.stream.peer_addr() {
            Ok(_) => {
                self.stream.set_nodelay(true)?;
                self.is_connected = true;
                Ok(true)
            }
            Err(error) if error.kind() == io::ErrorKind::NotConnected => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Queues complete frames for sending.
    pub(crate) fn push(&mut self, bytes: Vec<u8>) {
        if self.output.is_empty() {
            self.output = bytes;
        } else {
            self.output.extend_from_slice(&bytes);
        }
    }

    /// Whether bytes wait to be sent.
    pub(crate) fn has_output(&self) -> bool {
        self.sent < self.output.len()
    }

    /// Sends as much as the socket accepts.
    pub(crate) fn flush(&mut self) -> io::Result<()> {
        while self.is_connected && self.has_output() {
            match self.stream.write(&self.output[self.sent..]) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(count) => self.sent += count,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(()),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        if !self.has_output() {
            self.output.clear();
            self.output.shrink_to(READ_BYTES_MAX);
            self.sent = 0;
        }
        Ok(())
    }

    /// Reads once. Returns whether there was anything to read.
    pub(crate) fn read(&mut self) -> io::Result<bool> {
        let filled = self.input.len();
        self.input.resize(filled + self.read_bytes, 0);
        let read = loop {
            match self.stream.read(&mut self.input[filled..]) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                read => break read,
            }
        };
        self.input.truncate(filled + *read.as_ref().unwrap_or(&0));
        match read {
            Ok(0) => Err(io::ErrorKind::UnexpectedEof.into()),
            Ok(count) => {
                if count >= self.read_bytes {
                    self.read_bytes = (self.read_bytes * 2).min(READ_BYTES_MAX);
                } else if count < self.read_bytes / 8 {
                    self.read_bytes = (self.read_bytes / 2).max(READ_BYTES_MIN);
                }
                Ok(true)
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Removes the next complete frame, without its length. An invalid length is an error.
    pub(crate) fn frame(&mut self) -> Result<Option<Bytes>, i32> {
        let Some(length) = self.input.first_chunk().copied().map(i32::from_be_bytes) else {
            return Ok(None);
        };
        let bytes = usize::try_from(length).map_err(|_| length)?;
        if self.input.len() - 4 < bytes {
            return Ok(None);
        }
        self.input.advance(4);
        Ok(Some(self.input.split_to(bytes).freeze()))
    }
}

/// Starts to connect to a server.
pub(crate) fn dial(server: SocketAddr) -> io::Result<TcpStream> {
    let socket = Socket::new(Domain::for_address(server), Type::STREAM, Some(Protocol::TCP))?;
    socket.set_nonblocking(true)?;
    match socket.connect(&server.into()) {
        Ok(()) => {}
        Err(error) if error.raw_os_error() == Some(libc::EINPROGRESS) => {}
        Err(error) => return Err(error),
    }
    Ok(socket.into())
}

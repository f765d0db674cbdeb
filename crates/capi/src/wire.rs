//! A connection: a non-blocking socket, TLS if the handle has it, and the input and output buffers.

use std::io::{self, IoSlice, Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::os::fd::{AsRawFd as _, RawFd};

use bytes::{Buf as _, Bytes, BytesMut};
use rustls::ClientConnection;
use rustls::pki_types::ServerName;
use socket2::{Domain, Protocol, SockRef, Socket, Type};
use zebu_auth::tls::fault;
use zebu_session::Attempt;

use crate::descriptors;
use crate::tls::Tls;

/// Minimum and maximum size of a read. The actual size adapts to the traffic.
const READ_BYTES_MIN: usize = 8 * 1024;
const READ_BYTES_MAX: usize = 256 * 1024;

/// A connection, or an attempt at one.
#[derive(Debug)]
pub(crate) struct Wire {
    pub(crate) attempt: Attempt,
    pub(crate) server: SocketAddr,
    stream: TcpStream,
    progress: Progress,
    tls: Option<Box<ClientConnection>>,
    /// Whether TLS shows a certificate of this client.
    shows_key: bool,
    input: BytesMut,
    read_bytes: usize,
    output: Vec<u8>,
    /// The number of bytes of `output` that are sent.
    sent: usize,
}

/// The steps until a connection is established.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Progress {
    /// The system connects.
    Dialing,
    /// TLS is being settled.
    ShakingHands,
    /// Frames can be sent.
    Connected,
}

impl Wire {
    /// Starts to connect.
    pub(crate) fn connect(
        attempt: Attempt,
        server: SocketAddr,
        tls: Option<&Tls>,
    ) -> io::Result<Self> {
        let connection = |tls: &Tls| {
            // Nobody checks the name, and no server chooses its certificate by an address.
            let name = ServerName::from(server.ip().to_canonical());
            ClientConnection::new(tls.config.clone(), name).map(Box::new)
        };
        let connection = tls.map(connection).transpose().map_err(io::Error::other)?;
        Ok(Self {
            attempt,
            server,
            stream: dial(server)?,
            progress: Progress::Dialing,
            tls: connection,
            shows_key: tls.is_some_and(|tls| tls.shows_key),
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

    /// Whether frames can be sent.
    pub(crate) fn is_connected(&self) -> bool {
        self.progress == Progress::Connected
    }

    /// Whether the connection is, or is to be, one over TLS.
    pub(crate) fn is_tls(&self) -> bool {
        self.tls.is_some()
    }

    /// Goes on to connect, as far as the socket permits.
    pub(crate) fn go_on(&mut self) -> io::Result<Progress> {
        if self.progress == Progress::Dialing {
            if let Some(error) = self.stream.take_error()? {
                return Err(error);
            }
            match self.stream.peer_addr() {
                Ok(_) => self.stream.set_nodelay(true)?,
                Err(error) if error.kind() == io::ErrorKind::NotConnected => {
                    return Ok(self.progress);
                }
                Err(error) => return Err(error),
            }
            self.progress = Progress::ShakingHands;
        }
        if self.progress == Progress::ShakingHands {
            match self.shake_hands() {
                Ok(true) => self.progress = Progress::Connected,
                Ok(false) => {}
                Err(error) => {
                    return Err(io::Error::other(fault::of_handshake(&error, self.shows_key)));
                }
            }
        }
        Ok(self.progress)
    }

    /// Returns whether the handshake is complete.
    fn shake_hands(&mut self) -> io::Result<bool> {
        let Some(tls) = &mut self.tls else { return Ok(true) };
        loop {
            let is_written = write_tls(tls, &self.stream)?;
            if !tls.is_handshaking() {
                return Ok(true);
            }
            if !is_written || !read_tls(tls, &mut self.stream)? {
                return Ok(false);
            }
        }
    }

    /// The meaning of an error of an established connection, for people.
    pub(crate) fn fault(&self, error: &io::Error) -> String {
        fault::of_connection(error, self.shows_key).unwrap_or_else(|| error.to_string())
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
        self.has_frames() || self.tls.as_ref().is_some_and(|tls| tls.wants_write())
    }

    fn has_frames(&self) -> bool {
        self.sent < self.output.len()
    }

    /// Whether to wait until the socket is writable.
    pub(crate) fn waits_to_write(&self) -> bool {
        match self.progress {
            Progress::Dialing => true,
            // Frames wait for the end of the handshake.
            Progress::ShakingHands => self.tls.as_ref().is_some_and(|tls| tls.wants_write()),
            Progress::Connected => self.has_output(),
        }
    }

    /// Sends as much as the socket accepts.
    pub(crate) fn flush(&mut self) -> io::Result<()> {
        while self.is_connected() && self.has_output() {
            let unsent = &self.output[self.sent..];
            let written = match &mut self.tls {
                None => self.stream.write(unsent),
                Some(tls) => {
                    // It takes a limited number of bytes before they must go to the socket.
                    self.sent += tls.writer().write(unsent)?;
                    match write_tls(tls, &self.stream)? {
                        true => continue,
                        false => return Ok(()),
                    }
                }
            };
            match written {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(count) => self.sent += count,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(()),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        if !self.has_frames() {
            self.output.clear();
            self.output.shrink_to(READ_BYTES_MAX);
            self.sent = 0;
        }
        Ok(())
    }

    /// Reads once. Returns whether there was anything to read.
    pub(crate) fn read(&mut self) -> io::Result<bool> {
        if self.is_tls() {
            return self.read_over_tls();
        }
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

    /// Reads once, and takes all data of the records that are complete: the socket will not report
    /// them again.
    fn read_over_tls(&mut self) -> io::Result<bool> {
        let Some(tls) = &mut self.tls else { return Ok(false) };
        if !read_tls(tls, &mut self.stream)? {
            return Ok(false);
        }
        loop {
            let filled = self.input.len();
            self.input.resize(filled + READ_BYTES_MIN, 0);
            let read = tls.reader().read(&mut self.input[filled..]);
            self.input.truncate(filled + *read.as_ref().unwrap_or(&0));
            match read {
                // The server has ended the connection, which the next read reports.
                Ok(0) => return Ok(true),
                Ok(_) => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(true),
                Err(error) => return Err(error),
            }
        }
    }

    /// The input that is no frame.
    pub(crate) fn input(&self) -> &[u8] {
        &self.input
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

impl Drop for Wire {
    /// Tells the server that the connection ends here, as far as the socket takes that at once.
    fn drop(&mut self) {
        if let Some(tls) = &mut self.tls
            && self.progress == Progress::Connected
        {
            tls.send_close_notify();
            let _ends_anyway = write_tls(tls, &self.stream);
        }
    }
}

/// A socket for writing that never raises SIGPIPE: that signal would end the program of the
/// application.
///
/// The standard library asks the system for this in `write`, but not in `write_vectored`, which TLS
/// uses.
struct NoSignal<'a>(&'a TcpStream);

impl io::Write for NoSignal<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.write(bytes)
    }

    fn write_vectored(&mut self, buffers: &[IoSlice<'_>]) -> io::Result<usize> {
        SockRef::from(self.0).send_vectored_with_flags(buffers, libc::MSG_NOSIGNAL)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Writes records to the socket. Returns whether all are written.
fn write_tls(tls: &mut ClientConnection, stream: &TcpStream) -> io::Result<bool> {
    while tls.wants_write() {
        match tls.write_tls(&mut NoSignal(stream)) {
            Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
            Ok(_) => {}
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(false),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(true)
}

/// Reads from the socket once. Returns whether there was anything to read.
fn read_tls(tls: &mut ClientConnection, stream: &mut TcpStream) -> io::Result<bool> {
    loop {
        match tls.read_tls(stream) {
            Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
            Ok(_) => break,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(false),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    if let Err(fault) = tls.process_new_packets() {
        // The server learns why the connection ends.
        let _ends_anyway = write_tls(tls, stream);
        return Err(io::Error::new(io::ErrorKind::InvalidData, fault));
    }
    Ok(true)
}

/// Starts to connect to a server.
fn dial(server: SocketAddr) -> io::Result<TcpStream> {
    let socket = Socket::new(Domain::for_address(server), Type::STREAM, Some(Protocol::TCP))?;
    let socket = Socket::from(descriptors::apart(socket.into())?);
    socket.set_nonblocking(true)?;
    match socket.connect(&server.into()) {
        Ok(()) => {}
        Err(error) if error.raw_os_error() == Some(libc::EINPROGRESS) => {}
        Err(error) => return Err(error),
    }
    Ok(socket.into())
}

#[cfg(test)]
mod tests {
    use std::net::{Ipv4Addr, TcpListener};
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::time::Duration;

    use rustix::event::{PollFd, PollFlags, poll};

    use super::*;

    static SIGNALS: AtomicUsize = AtomicUsize::new(0);

    extern "C" fn count(_: libc::c_int) {
        SIGNALS.fetch_add(1, Ordering::Relaxed);
    }

    #[test]
    fn a_connection_that_the_server_has_reset_raises_no_signal() {
        // SAFETY: the handler only adds to an atomic number.
        unsafe { libc::signal(libc::SIGPIPE, count as *const () as libc::sighandler_t) };
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let stream = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let server = listener.accept().unwrap().0;
        server.shutdown(std::net::Shutdown::Write).unwrap();
        SockRef::from(&server).set_linger(Some(Duration::ZERO)).unwrap();
        drop(server);
        // The system reports the end of both directions when the reset has arrived.
        let mut wanted = [PollFd::new(&stream, PollFlags::empty())];
        while !wanted[0].revents().contains(PollFlags::HUP) {
            poll(&mut wanted, None).unwrap();
        }
        let buffers = [IoSlice::new(b"one"), IoSlice::new(b"other")];
        let error = NoSignal(&stream).write_vectored(&buffers).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::BrokenPipe);
        assert_eq!(SIGNALS.load(Ordering::Relaxed), 0);
    }
}

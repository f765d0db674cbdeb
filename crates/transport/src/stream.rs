//! A connection with or without TLS: reads and writes without blocking.

use std::cell::RefCell;
use std::io::{self, ErrorKind, IoSlice, Read, Write};

use rustls::ServerConnection;
use socket2::SockRef;
use tokio::io::Interest;
use tokio::net::TcpStream;

/// Largest size of one read from a socket.
pub const READ_BYTES: usize = 64 << 10;

thread_local! {
    /// Buffer for received bytes.
    static READ_BUFFER: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
    /// Buffer for decrypted bytes.
    static PLAIN_BUFFER: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}

/// A connection between two runtimes: no runtime owns it.
#[derive(Debug)]
pub struct Parked {
    socket: std::net::TcpStream,
    tls: Option<Box<ServerConnection>>,
}

impl Parked {
    pub(crate) fn plain(socket: std::net::TcpStream) -> Self {
        Self { socket, tls: None }
    }

    pub(crate) fn secured(socket: std::net::TcpStream, tls: ServerConnection) -> Self {
        assert!(!tls.is_handshaking(), "a stream begins after the handshake");
        Self { socket, tls: Some(Box::new(tls)) }
    }

    /// Registers it with this thread's runtime.
    ///
    /// # Errors
    /// The runtime refuses the socket.
    pub fn resume(self) -> io::Result<Stream> {
        Ok(Stream { socket: TcpStream::from_std(self.socket)?, tls: self.tls })
    }
}

/// A connection of this thread's runtime.
#[derive(Debug)]
pub struct Stream {
    socket: TcpStream,
    tls: Option<Box<ServerConnection>>,
}

impl From<TcpStream> for Stream {
    /// A connection without TLS.
    fn from(socket: TcpStream) -> Self {
        Self { socket, tls: None }
    }
}

impl Stream {
    /// Removes it from the runtime.
    ///
    /// # Errors
    /// The runtime cannot release the socket.
    pub fn park(self) -> io::Result<Parked> {
        Ok(Parked { socket: self.socket.into_std()?, tls: self.tls })
    }

    /// The socket, for its owner to wait on.
    pub fn socket(&self) -> &TcpStream {
        &self.socket
    }

    /// Whether the connection uses TLS.
    pub fn is_secure(&self) -> bool {
        self.tls.is_some()
    }

    /// Whether bytes accepted by [`Stream::try_write`] wait for room in the socket.
    pub fn has_unsent(&self) -> bool {
        self.tls.as_ref().is_some_and(|tls| tls.wants_write())
    }

    /// Accepts as many bytes as there is room for, and returns their number. [`Stream::flush`]
    /// sends the last of them.
    ///
    /// # Errors
    /// `WouldBlock`: no byte was accepted; wait until the socket is writable. Any other error ends
    /// the connection.
    pub fn try_write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let Some(tls) = &mut self.tls else { return self.socket.try_write(bytes) };
        // Bytes that the socket has not taken yet limit how much is encrypted in advance.
        send(tls, &self.socket)?;
        if tls.wants_write() {
            return Err(ErrorKind::WouldBlock.into());
        }
        let count = tls.writer().write(bytes)?;
        send(tls, &self.socket)?;
        Ok(count)
    }

    /// Sends accepted bytes, as far as there is room in the socket.
    ///
    /// # Errors
    /// The connection has ended.
    pub fn flush(&mut self) -> io::Result<()> {
        match &mut self.tls {
            Some(tls) => send(tls, &self.socket),
            None => Ok(()),
        }
    }

    /// Ends the writing direction. Unsent bytes must still be flushed.
    pub fn finish(&mut self) {
        if let Some(tls) = &mut self.tls {
            tls.send_close_notify();
        }
    }

    /// Reads up to `most` bytes from the socket and passes them to `take`. Returns false at the end
    /// of the stream. `most`: 1 to [`READ_BYTES`].
    ///
    /// `take` is called once, possibly with no bytes. With TLS it gets the content of the records
    /// that are complete, which may be up to 16 KiB more than `most`.
    ///
    /// # Errors
    /// The connection has ended. A peer that violates TLS was informed.
    pub fn read(&mut self, most: usize, take: impl FnOnce(&[u8])) -> io::Result<bool> {
        assert!((1..=READ_BYTES).contains(&most), "{most} bytes at a time");
        READ_BUFFER.with_borrow_mut(|buffer| {
            buffer.resize(READ_BYTES, 0);
            let buffer = &mut buffer[..most];
            let mut count = 0;
            // A read that does not fill its buffer has emptied the socket. So the next read, which
            // would only return `WouldBlock`, is skipped.
            let read = self.socket.try_io(Interest::READABLE, || {
                count = (&*SockRef::from(&self.socket)).read(buffer)?;
                if (1..most).contains(&count) { Err(ErrorKind::WouldBlock.into()) } else { Ok(()) }
            });
            let goes_on = match read {
                Ok(()) => count > 0,
                Err(error) if error.kind() == ErrorKind::WouldBlock => true,
                Err(error) => return Err(error),
            };
            match &mut self.tls {
                None => {
                    take(&buffer[..count]);
                    Ok(goes_on)
                }
                Some(tls) => {
                    let open = PLAIN_BUFFER.with_borrow_mut(|plain| {
                        plain.clear();
                        let open = decrypt(tls, &buffer[..count], plain);
                        take(plain);
                        open
                    });
                    // For example an alert, or the answer to a key update.
                    send(tls, &self.socket)?;
                    Ok(open? && goes_on)
                }
            }
        })
    }

    /// Returns the bytes that arrived together with the end of the handshake. Call it before
    /// waiting for the socket.
    ///
    /// # Errors
    /// The connection has ended.
    pub fn early(&mut self, take: impl FnOnce(&[u8])) -> io::Result<()> {
        let Some(tls) = &mut self.tls else { return Ok(()) };
        PLAIN_BUFFER.with_borrow_mut(|plain| {
            plain.clear();
            let open = decrypt(tls, &[], plain);
            if !plain.is_empty() {
                take(plain);
            }
            open.map(|_| ())
        })
    }
}

/// Appends the content of received records to `plain`. Returns false at the end of the stream.
fn decrypt(tls: &mut ServerConnection, mut bytes: &[u8], plain: &mut Vec<u8>) -> io::Result<bool> {
    loop {
        let state = tls
            .process_new_packets()
            .map_err(|error| io::Error::new(ErrorKind::InvalidData, error))?;
        let start = plain.len();
        plain.resize(start + state.plaintext_bytes_to_read(), 0);
        tls.reader().read_exact(&mut plain[start..])?;
        if state.peer_has_closed() {
            return Ok(false);
        }
        if bytes.is_empty() {
            return Ok(true);
        }
        if tls.read_tls(&mut bytes)? == 0 {
            return Ok(false);
        }
    }
}

/// Sends as many records as there is room for.
fn send(tls: &mut ServerConnection, socket: &TcpStream) -> io::Result<()> {
    while tls.wants_write() {
        match tls.write_tls(&mut Socket(socket)) {
            Ok(_) => {}
            Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(()),
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// Sends several records in one system call.
struct Socket<'s>(&'s TcpStream);

impl Write for Socket<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.try_write(bytes)
    }

    fn write_vectored(&mut self, parts: &[IoSlice<'_>]) -> io::Result<usize> {
        self.0.try_write_vectored(parts)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

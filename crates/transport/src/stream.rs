//! A connection that may have TLS: reads and writes that never wait.

use std::cell::RefCell;
use std::io::{self, ErrorKind, IoSlice, Read, Write};

use rustls::ServerConnection;
use socket2::SockRef;
use tokio::io::Interest;
use tokio::net::TcpStream;

/// Bytes read from a socket at once.
const READ_BYTES: usize = 64 << 10;

thread_local! {
    /// Where bytes arrive.
    static READ_BUFFER: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
    /// Where they are readable.
    static PLAIN_BUFFER: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}

/// A connection that no runtime has: on its way to the one that is to serve it.
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

    /// Gives it to the runtime of this thread.
    ///
    /// # Errors
    /// The runtime cannot wait for it.
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
    /// Without TLS.
    fn from(socket: TcpStream) -> Self {
        Self { socket, tls: None }
    }
}

impl Stream {
    /// Takes it from the runtime.
    ///
    /// # Errors
    /// The runtime cannot let go of it.
    pub fn park(self) -> io::Result<Parked> {
        Ok(Parked { socket: self.socket.into_std()?, tls: self.tls })
    }

    /// The socket, to wait for.
    pub fn socket(&self) -> &TcpStream {
        &self.socket
    }

    /// Whether it has TLS.
    pub fn is_secure(&self) -> bool {
        self.tls.is_some()
    }

    /// Whether something that was taken by [`Stream::try_write`] waits for room in the socket.
    pub fn has_unsent(&self) -> bool {
        self.tls.as_ref().is_some_and(|tls| tls.wants_write())
    }

    /// Takes as many of the bytes as there is room for; how many. [`Stream::flush`] sends the last of them.
    ///
    /// # Errors
    /// `WouldBlock`: none, until the socket is writable. Otherwise the connection is over.
    pub fn try_write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let Some(tls) = &mut self.tls else { return self.socket.try_write(bytes) };
        // What is behind in the socket bounds what is encrypted ahead of it.
        send(tls, &self.socket)?;
        if tls.wants_write() {
            return Err(ErrorKind::WouldBlock.into());
        }
        let count = tls.writer().write(bytes)?;
        send(tls, &self.socket)?;
        Ok(count)
    }

    /// Sends what was taken, as far as there is room in the socket.
    ///
    /// # Errors
    /// The connection is over.
    pub fn flush(&mut self) -> io::Result<()> {
        match &mut self.tls {
            Some(tls) => send(tls, &self.socket),
            None => Ok(()),
        }
    }

    /// Says that nothing follows. What is unsent still is to be flushed.
    pub fn finish(&mut self) {
        if let Some(tls) = &mut self.tls {
            tls.send_close_notify();
        }
    }

    /// Reads what has come, up to 64 KiB, and has `take` take it; false when nothing follows any more.
    ///
    /// `take` is called once, if need be with nothing.
    ///
    /// # Errors
    /// The connection is over. A peer that breaks TLS has been told so.
    pub fn read(&mut self, take: impl FnOnce(&[u8])) -> io::Result<bool> {
        READ_BUFFER.with_borrow_mut(|buffer| {
            buffer.resize(READ_BYTES, 0);
            let mut count = 0;
            // A read that does not fill its buffer has taken everything: the next one, which would only
            // say so, is spared by saying it ourselves.
            let read = self.socket.try_io(Interest::READABLE, || {
                count = (&*SockRef::from(&self.socket)).read(buffer)?;
                if (1..READ_BYTES).contains(&count) {
                    Err(ErrorKind::WouldBlock.into())
                } else {
                    Ok(())
                }
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
                    // An alert, an answer to a new key.
                    send(tls, &self.socket)?;
                    Ok(open? && goes_on)
                }
            }
        })
    }

    /// What came together with the end of the handshake; to be asked for before the socket is waited for.
    ///
    /// # Errors
    /// The connection is over.
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

/// Adds the content of records to `plain`; false when the peer has said that nothing follows.
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

/// Where records go: several in one call of the system.
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

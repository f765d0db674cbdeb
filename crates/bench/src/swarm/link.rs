//! A socket of a swarm, with or without TLS: reads and writes never block.

use std::io::{self, Read, Write};

use mio::net::TcpStream;
use rustls::ClientConnection;

/// A connection.
#[derive(Debug)]
pub(super) struct Link {
    socket: TcpStream,
    tls: Option<Box<ClientConnection>>,
}

impl From<TcpStream> for Link {
    /// Without TLS.
    fn from(socket: TcpStream) -> Self {
        Self { socket, tls: None }
    }
}

impl Link {
    /// A connection after its TLS handshake, if there was one.
    pub(super) fn new(socket: TcpStream, tls: Option<Box<ClientConnection>>) -> Self {
        Self { socket, tls }
    }

    /// The socket, to wait for.
    pub(super) fn socket(&mut self) -> &mut TcpStream {
        &mut self.socket
    }

    /// Whether a read that does not fill its buffer may leave bytes in the socket. TLS records
    /// arrive whole.
    pub(super) fn may_have_more(&self) -> bool {
        self.tls.is_some()
    }
}

impl Read for Link {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let Some(tls) = self.tls.as_deref_mut() else { return self.socket.read(into) };
        loop {
            match tls.reader().read(into) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                read => return read,
            }
            if tls.read_tls(&mut self.socket)? == 0 {
                return Ok(0);
            }
            tls.process_new_packets()
                .map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))?;
        }
    }
}

impl Write for Link {
    /// Takes as many bytes as fit. Records that the socket has not taken wait for [`Write::flush`].
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.tls.is_none() {
            return self.socket.write(bytes);
        }
        // Unsent records limit what is encrypted ahead.
        self.flush()?;
        let taken = match self.tls.as_deref_mut() {
            Some(tls) => tls.writer().write(bytes)?,
            None => 0,
        };
        match self.flush() {
            Err(error) if error.kind() != io::ErrorKind::WouldBlock => Err(error),
            _ => Ok(taken),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        let Some(tls) = self.tls.as_deref_mut() else { return Ok(()) };
        while tls.wants_write() {
            tls.write_tls(&mut self.socket)?;
        }
        Ok(())
    }
}

//! Connections that are made one by one, with or without TLS: blocking, and with one deadline for
//! all steps.

use std::io::{self, ErrorKind, Read, Write};
use std::net::TcpStream;
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, ClientConnection};
use zebu_auth::tls::ocsp::{Ocsp, Side};

/// Makes connections with TLS or without.
#[derive(Clone, Debug, Default)]
pub struct Door {
    tls: Option<Arc<ClientConfig>>,
    /// What asks responders once a handshake is over.
    ocsp: Option<Arc<Ocsp>>,
}

impl Door {
    /// Without TLS.
    pub fn plain() -> Self {
        Self::default()
    }

    pub(crate) fn secure(config: Arc<ClientConfig>, ocsp: Option<Arc<Ocsp>>) -> Self {
        Self { tls: Some(config), ocsp }
    }

    /// Whether its connections have TLS.
    pub fn is_secure(&self) -> bool {
        self.tls.is_some()
    }

    /// What its handshakes are done with, if they are; [`Door::check`] follows.
    pub fn config(&self) -> Option<Arc<ClientConfig>> {
        self.tls.clone()
    }

    /// Asks about the certificates of a handshake that the caller has done with [`Door::config`], where that is to be done.
    ///
    /// # Errors
    /// One of them is revoked, or nobody says that it is good.
    pub async fn check(&self, chain: Option<&[CertificateDer<'_>]>) -> io::Result<()> {
        let Some(ocsp) = &self.ocsp else { return Ok(()) };
        zebu_ocsp::check(ocsp, chain, Side::Server).await.map_err(zebu_ocsp::refused)
    }

    /// Does the handshake of a connection to that host, if it is to have one. The deadline is that of the whole connection.
    ///
    /// # Errors
    /// The handshake fails, or takes too long. The text says with whom and why.
    pub fn enter(&self, socket: TcpStream, host: &str, deadline: Instant) -> io::Result<Wire> {
        let socket = Timed { socket, deadline };
        let Some(config) = &self.tls else { return Ok(Wire { socket, tls: None }) };
        let failed = |kind: ErrorKind, why: &dyn std::fmt::Display| {
            io::Error::new(kind, format!("no TLS with {host}: {why}"))
        };
        let name = ServerName::try_from(host.to_owned())
            .map_err(|error| failed(ErrorKind::InvalidInput, &error))?;
        let tls = ClientConnection::new(config.clone(), name)
            .map_err(|error| failed(ErrorKind::InvalidInput, &error))?;
        let mut wire = Wire { socket, tls: Some(Box::new(tls)) };
        while let Some(tls) = wire.tls.as_deref_mut().filter(|tls| tls.is_handshaking()) {
            match tls.complete_io(&mut wire.socket) {
                Ok(_) => {}
                Err(error) if error.kind() == ErrorKind::TimedOut => return Err(error),
                Err(error) if error.kind() == ErrorKind::UnexpectedEof => {
                    let why = "the server closes the connection: it has no TLS there, or wants another certificate";
                    return Err(failed(ErrorKind::InvalidData, &why));
                }
                Err(error) => return Err(failed(ErrorKind::InvalidData, &error)),
            }
        }
        if let (Some(ocsp), Some(tls)) = (&self.ocsp, &wire.tls) {
            zebu_ocsp::check_blocking(ocsp, tls.peer_certificates(), Side::Server)
                .map_err(|error| failed(ErrorKind::InvalidData, &error))?;
        }
        Ok(wire)
    }
}

/// A connection.
#[derive(Debug)]
pub struct Wire {
    socket: Timed,
    tls: Option<Box<ClientConnection>>,
}

impl Wire {
    /// From now on everything is to be done until then.
    pub fn set_deadline(&mut self, deadline: Instant) {
        self.socket.deadline = deadline;
    }

    /// The socket, and TLS after its handshake, for callers that wait in another way.
    pub fn into_parts(self) -> (TcpStream, Option<Box<ClientConnection>>) {
        (self.socket.socket, self.tls)
    }
}

impl Read for Wire {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        match self.tls.as_deref_mut() {
            None => self.socket.read(into),
            Some(tls) => rustls::Stream::new(tls, &mut self.socket).read(into),
        }
    }
}

impl Write for Wire {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self.tls.as_deref_mut() {
            None => self.socket.write(bytes),
            Some(tls) => rustls::Stream::new(tls, &mut self.socket).write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match self.tls.as_deref_mut() {
            None => self.socket.flush(),
            Some(tls) => rustls::Stream::new(tls, &mut self.socket).flush(),
        }
    }
}

/// A socket whose every call ends at the deadline: a server that sends a byte at a time wins nothing.
#[derive(Debug)]
struct Timed {
    socket: TcpStream,
    deadline: Instant,
}

impl Timed {
    fn left(&self) -> io::Result<Duration> {
        let left = self.deadline.saturating_duration_since(Instant::now());
        if left.is_zero() { Err(late()) } else { Ok(left) }
    }
}

fn late() -> io::Error {
    io::Error::new(ErrorKind::TimedOut, "no answer in time")
}

/// A time limit of a socket shows as a call that would block.
fn timed<T>(result: io::Result<T>) -> io::Result<T> {
    result.map_err(|error| if error.kind() == ErrorKind::WouldBlock { late() } else { error })
}

impl Read for Timed {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        self.socket.set_read_timeout(Some(self.left()?))?;
        timed(self.socket.read(into))
    }
}

impl Write for Timed {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.socket.set_write_timeout(Some(self.left()?))?;
        timed(self.socket.write(bytes))
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

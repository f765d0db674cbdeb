//! Blocking connections, with or without TLS, with one deadline for all steps.

use std::io::{self, ErrorKind, Read, Write};
use std::net::TcpStream;
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, ClientConnection};
use zebu_auth::tls::ocsp::{Ocsp, Side};

/// Makes connections with or without TLS.
#[derive(Clone, Debug, Default)]
pub struct Dialer {
    tls: Option<Arc<ClientConfig>>,
    /// The OCSP checks after a handshake.
    ocsp: Option<Arc<Ocsp>>,
}

impl Dialer {
    /// Without TLS.
    pub fn plain() -> Self {
        Self::default()
    }

    pub(crate) fn secure(config: Arc<ClientConfig>, ocsp: Option<Arc<Ocsp>>) -> Self {
        Self { tls: Some(config), ocsp }
    }

    /// Whether its connections use TLS.
    pub fn is_secure(&self) -> bool {
        self.tls.is_some()
    }

    /// The configuration of its handshakes, if it uses TLS. [`Dialer::check`] must follow.
    pub fn config(&self) -> Option<Arc<ClientConfig>> {
        self.tls.clone()
    }

    /// Checks the certificates of a handshake that the caller has done with [`Dialer::config`], if
    /// a check is configured.
    ///
    /// # Errors
    /// A certificate is revoked, or no responder or list finds it good.
    pub async fn check(&self, chain: Option<&[CertificateDer<'_>]>) -> io::Result<()> {
        let Some(ocsp) = &self.ocsp else { return Ok(()) };
        zebu_ocsp::check(ocsp, chain, Side::Server).await.map_err(zebu_ocsp::refused)
    }

    /// Does the TLS handshake with this host, if TLS is used. The deadline is that of the whole
    /// connection.
    ///
    /// # Errors
    /// The handshake fails, or takes too long. The text names the host and the reason.
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
    /// Sets the deadline of all further operations.
    pub fn set_deadline(&mut self, deadline: Instant) {
        self.socket.deadline = deadline;
    }

    /// The socket, and TLS after its handshake, for callers that do not block.
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

/// A socket whose operations all end at the deadline, so that a server cannot extend the time by
/// sending a byte at a time.
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

/// A socket's timeout appears as a call that would block.
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

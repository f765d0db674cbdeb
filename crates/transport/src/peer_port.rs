//! TLS between servers: which connections use it, and how each side checks the other's certificate.

use std::io;
use std::time::Duration;

use rustls::pki_types::ServerName;
use tokio::net::TcpStream;
use tokio_rustls::{TlsAcceptor, TlsConnector, TlsStream};
use zebu_auth::certificate::{Facts, NotACertificate};
use zebu_auth::tls::ocsp::Side;
use zebu_auth::tls::{HostnameError, PortError, PortFiles, verify_hostname};

use crate::bounded::Bounded;
use crate::peer::PeerStream;
use crate::port::Port;
use crate::{Begins, plainly, sort};

/// Maximum time to wait for the rest of a TLS record header after its first byte.
const REST_OF_HEADER: Duration = Duration::from_secs(1);

/// Which connections between servers use TLS, and which checks are made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PeerRules {
    /// Outgoing connections use TLS.
    pub dials: bool,
    /// Incoming connections without TLS are accepted.
    pub accepts_plain: bool,
    /// How long an incoming connection may stay silent before it counts as one without TLS, if
    /// those are accepted.
    pub detection_time: Duration,
    /// The certificate on an outgoing connection must be for the requested host.
    pub verifies_servers: bool,
    /// The certificate on an incoming connection must be for the address of its sender, or for a
    /// member of the ensemble.
    pub verifies_clients: bool,
}

/// The reason why a connection between servers cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum PeerError {
    /// It has ended, or one side refused the other's certificate.
    #[error("no TLS: {}", plainly(.0))]
    Failed(#[from] io::Error),
    /// The other side's certificate is invalid.
    #[error("no TLS: the other server's certificate cannot be read: {0}")]
    Certificate(#[from] NotACertificate),
    /// The certificate is for another host.
    #[error("no TLS: {source}; {setting}=false does without this check")]
    Host {
        /// The expected host.
        #[source]
        source: HostnameError,
        /// The setting that disables the check.
        setting: &'static str,
    },
    /// The other side does not use TLS.
    #[error("it does not begin TLS, and nothing else is taken (sslQuorum without portUnification)")]
    Plain,
    /// The requested host has a name for which no certificate can be issued.
    #[error("no TLS: no certificate can be for the host {0:?}")]
    Name(String),
}

/// The certificates of a server as a member of its ensemble, and the rules for TLS.
#[derive(Debug)]
pub struct PeerPort {
    port: Port,
    rules: PeerRules,
}

impl PeerPort {
    /// Reads the files and logs which certificate this server has.
    ///
    /// # Panics
    /// The files are not for both directions.
    ///
    /// # Errors
    /// One sentence with the file, the error and the remedy.
    pub fn new(files: PortFiles, rules: PeerRules) -> Result<Self, PortError> {
        assert!(files.dials, "a member connects to others and is connected to");
        Ok(Self { port: Port::new("TLS between servers", files)?, rules })
    }

    /// The server's certificates.
    pub fn port(&self) -> &Port {
        &self.port
    }

    /// Does the TLS handshake of an incoming connection, if it starts one. `hosts`: the hosts of
    /// the members.
    ///
    /// # Errors
    /// The connection cannot be used.
    pub async fn accept(
        &self,
        socket: TcpStream,
        hosts: &[String],
    ) -> Result<PeerStream, PeerError> {
        let patience = self.rules.detection_time;
        // The first bytes show whether the other server starts TLS.
        let begins = if self.rules.accepts_plain {
            sort(&socket, patience).await?
        } else {
            first(&socket).await?
        };
        match (begins, self.rules.accepts_plain) {
            (Begins::Plain, true) => return Ok(PeerStream::plain(socket)?),
            (Begins::Plain, false) => return Err(PeerError::Plain),
            (Begins::Tls, _) => {}
        }
        let peer = socket.peer_addr()?;
        let stream = TlsAcceptor::from(self.port.config()).accept(Bounded::new(socket)).await?;
        self.port.check(stream.get_ref().1.peer_certificates(), Side::Client).await?;
        let certificate = certificate(stream.get_ref().1.peer_certificates())?;
        if self.rules.verifies_clients
            && let Some(facts) = &certificate
        {
            let address = peer.ip().to_canonical().to_string();
            let names = std::iter::once(&address).chain(hosts).map(String::as_str);
            check_host(facts, names, "ssl.quorum.clientHostnameVerification")?;
        }
        Ok(PeerStream::secured(TlsStream::Server(stream), peer, certificate))
    }

    /// Does the TLS handshake of an outgoing connection to a host, if outgoing connections use TLS.
    ///
    /// # Errors
    /// The connection cannot be used.
    pub async fn connect(&self, socket: TcpStream, host: &str) -> Result<PeerStream, PeerError> {
        if !self.rules.dials {
            return Ok(PeerStream::plain(socket)?);
        }
        let peer = socket.peer_addr()?;
        let name =
            ServerName::try_from(host.to_owned()).map_err(|_| PeerError::Name(host.to_owned()))?;
        let config = self.port.client();
        let stream = TlsConnector::from(config).connect(name, Bounded::new(socket)).await?;
        self.port.check(stream.get_ref().1.peer_certificates(), Side::Server).await?;
        let certificate = certificate(stream.get_ref().1.peer_certificates())?;
        if self.rules.verifies_servers
            && let Some(facts) = &certificate
        {
            let address = peer.ip().to_canonical().to_string();
            check_host(facts, [host, &address].into_iter(), "ssl.quorum.hostnameVerification")?;
        }
        Ok(PeerStream::secured(TlsStream::Client(stream), peer, certificate))
    }
}

/// Waits for the first bytes of a connection, and detects TLS.
pub(crate) async fn first(socket: &TcpStream) -> io::Result<Begins> {
    if socket.peek(&mut [0]).await? == 0 {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    sort(socket, REST_OF_HEADER).await
}

/// The identity in the first certificate of a chain, if there is one.
pub(crate) fn certificate(
    chain: Option<&[rustls::pki_types::CertificateDer<'_>]>,
) -> Result<Option<Facts>, NotACertificate> {
    chain.and_then(<[_]>::first).map(|der| Facts::of(der)).transpose()
}

fn check_host<'h>(
    facts: &Facts,
    names: impl Iterator<Item = &'h str>,
    setting: &'static str,
) -> Result<(), PeerError> {
    let names: Vec<&str> = names.collect();
    verify_hostname(facts, &names).map_err(|source| PeerError::Host { source, setting })
}

impl From<PeerError> for io::Error {
    fn from(error: PeerError) -> Self {
        match error {
            PeerError::Failed(error) if error.kind() != io::ErrorKind::InvalidData => error,
            error => Self::new(io::ErrorKind::PermissionDenied, error),
        }
    }
}

//! TCP and TLS streams of a server: detects TLS, does the handshake, and reads and writes without
//! blocking.
//!
//! A [`Stream`] never waits for its socket; its owner does. A [`Port`] has the certificates of a
//! port and reloads them when their files change. [`sort`] and [`secure`] handle a connection
//! before it is a stream. Both wait, so their caller must limit their time and number; the bytes of
//! every handshake are limited here. A
//! [`PeerPort`] makes a [`PeerStream`], a connection between servers. An [`HttpPort`] makes an
//! [`HttpStream`].

mod bounded;
mod http_port;
mod listener;
mod peer;
mod peer_port;
mod port;
mod stream;

pub use bounded::{CHAIN_BYTES_MAX, HELLO_BYTES_MAX};
pub use http_port::{HttpError, HttpPort, HttpStream};
pub use listener::listen;
pub use peer::{PeerReader, PeerStream, PeerWriter};
pub use peer_port::{PeerError, PeerPort, PeerRules};
pub use port::{EXPIRES_SOON, Port};
pub use stream::{Parked, READ_BYTES, Stream};

use std::io;
use std::net::TcpStream as StdStream;
use std::time::Duration;

use tokio::net::TcpStream;
use tokio::time::Instant;
use tokio_rustls::TlsAcceptor;
use zebu_auth::certificate::{Facts, NotACertificate};
use zebu_auth::tls::ocsp::Side;
use zebu_auth::tls::{Detection, HEADER_BYTES, detect};

use crate::bounded::Bounded;

/// Pause between two looks at an incomplete TLS record header.
const MORE_PAUSE: Duration = Duration::from_millis(10);

/// The first message of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Begins {
    /// A TLS handshake.
    Tls,
    /// Another message, or none in time.
    Plain,
}

/// The reason why a TLS handshake failed.
#[derive(Debug, thiserror::Error)]
pub enum HandshakeError {
    /// The connection ended, or a message was no valid handshake.
    #[error("{}", plainly(.0))]
    Failed(#[source] io::Error),
    /// The client's certificate is invalid.
    #[error("the client's certificate cannot be read: {0}")]
    Certificate(#[from] NotACertificate),
}

/// Why a handshake failed, in words that name the remedy where there is one on this side.
fn plainly(error: &io::Error) -> String {
    use rustls::PeerIncompatible as Lacks;
    let cause = error.get_ref().and_then(|cause| cause.downcast_ref::<rustls::Error>());
    match cause {
        // Every client has had the extension since TLS 1.2, which introduced it.
        Some(rustls::Error::PeerIncompatible(
            Lacks::SignatureAlgorithmsExtensionRequired | Lacks::Tls12NotOffered,
        )) => "it offers only TLS 1.1 or older, and this server takes TLS 1.2 and 1.3".to_owned(),
        Some(rustls::Error::PeerIncompatible(
            Lacks::SupportedVersionsExtensionRequired | Lacks::Tls12NotOfferedOrEnabled,
        )) => "it offers no version of TLS that is switched on here".to_owned(),
        Some(rustls::Error::PeerIncompatible(Lacks::NoCipherSuitesInCommon)) => {
            "it offers no cipher suite that is switched on here".to_owned()
        }
        _ => error.to_string(),
    }
}

/// Finds out from the first bytes of a connection whether it starts TLS. The bytes stay unread.
///
/// # Errors
/// The connection failed.
pub async fn sort(socket: &TcpStream, patience: Duration) -> io::Result<Begins> {
    let deadline = Instant::now() + patience;
    let mut header = [0; HEADER_BYTES];
    loop {
        let Ok(peeked) = tokio::time::timeout_at(deadline, socket.peek(&mut header)).await else {
            return Ok(Begins::Plain);
        };
        let count = peeked?;
        match detect(&header[..count]) {
            Detection::Tls => return Ok(Begins::Tls),
            Detection::Plain => return Ok(Begins::Plain),
            Detection::More if count == 0 || Instant::now() >= deadline => {
                return Ok(Begins::Plain);
            }
            // The bytes that have arrived stay readable, so the socket does not report that more
            // arrive: poll.
            Detection::More => tokio::time::sleep(MORE_PAUSE).await,
        }
    }
}

/// A connection after its TLS handshake.
#[derive(Debug)]
pub struct Secured {
    /// The connection.
    pub parked: Parked,
    /// The identity in the client's certificate, if it has sent one. The certificate is trusted.
    pub client: Option<Facts>,
}

/// Does the TLS handshake of an accepted connection, and asks about its certificates where the port
/// has that done.
///
/// # Errors
/// The handshake failed. The client was informed and the connection is closed.
pub async fn secure(socket: TcpStream, port: &Port) -> Result<Secured, HandshakeError> {
    let socket = Bounded::new(socket);
    let stream =
        TlsAcceptor::from(port.config()).accept(socket).await.map_err(HandshakeError::Failed)?;
    let (socket, tls) = stream.into_inner();
    port.check(tls.peer_certificates(), Side::Client).await.map_err(HandshakeError::Failed)?;
    let own = tls.peer_certificates().and_then(<[_]>::first);
    let client = own.map(|der| Facts::of(der)).transpose()?;
    let socket = socket.into_inner().into_std().map_err(HandshakeError::Failed)?;
    Ok(Secured { parked: Parked::secured(socket, tls), client })
}

/// A connection without TLS.
pub fn plain(socket: StdStream) -> Parked {
    Parked::plain(socket)
}

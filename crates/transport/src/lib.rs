//! TCP and TLS streams of a server: what tells them apart, makes them, and reads and writes them without waiting.
//!
//! A [`Stream`] is driven by whoever waits for its socket: it never waits itself. A [`Port`] has the certificates of a
//! port, and reads them anew when their files change. [`secure`] and [`sort`] are what happens to a connection before it is
//! a stream; both wait, and whoever calls them bounds their time and their number.
//! A [`PeerStream`] is a connection between servers, which a [`PeerPort`] makes. An [`HttpPort`] makes an [`HttpStream`] of a
//! connection for HTTP.

mod http_port;
mod peer;
mod peer_port;
mod port;
mod stream;

pub use http_port::{HttpError, HttpPort, HttpStream};
pub use peer::{PeerReader, PeerStream, PeerWriter};
pub use peer_port::{PeerError, PeerPort, PeerRules};
pub use port::{EXPIRES_SOON, Port};
pub use stream::{Parked, Stream};

use std::io;
use std::net::TcpStream as StdStream;
use std::sync::Arc;
use std::time::Duration;

use rustls::ServerConfig;
use tokio::net::TcpStream;
use tokio::time::Instant;
use tokio_rustls::TlsAcceptor;
use zebu_auth::certificate::{Facts, NotACertificate};
use zebu_auth::tls::{Detection, HEADER_BYTES, detect};

/// How long to wait for more of a header of which a part has come.
const MORE_PAUSE: Duration = Duration::from_millis(10);

/// What a connection begins with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Begins {
    /// TLS.
    Tls,
    /// Anything else, or nothing in time.
    Plain,
}

/// Why a connection has no TLS.
#[derive(Debug, thiserror::Error)]
pub enum HandshakeError {
    /// It has ended, or said what no handshake says.
    #[error("{0}")]
    Failed(#[source] io::Error),
    /// The client's certificate is none.
    #[error("the client's certificate cannot be read: {0}")]
    Certificate(#[from] NotACertificate),
}

/// Tells from a connection's first bytes, of which none are consumed, what it begins with.
///
/// # Errors
/// The connection has failed.
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
            // What has come stays readable: nothing tells of more.
            Detection::More => tokio::time::sleep(MORE_PAUSE).await,
        }
    }
}

/// A connection after its handshake.
#[derive(Debug)]
pub struct Secured {
    /// The connection, for whoever serves it.
    pub parked: Parked,
    /// What the certificate of the client says, if it has shown one: it is trusted.
    pub client: Option<Facts>,
}

/// Does the handshake of a connection.
///
/// # Errors
/// There is none: the client has been told, and the connection is closed.
pub async fn secure(
    socket: TcpStream,
    config: Arc<ServerConfig>,
) -> Result<Secured, HandshakeError> {
    let stream = TlsAcceptor::from(config).accept(socket).await.map_err(HandshakeError::Failed)?;
    let (socket, tls) = stream.into_inner();
    let own = tls.peer_certificates().and_then(<[_]>::first);
    let client = own.map(|der| Facts::of(der)).transpose()?;
    let socket = socket.into_std().map_err(HandshakeError::Failed)?;
    Ok(Secured { parked: Parked::secured(socket, tls), client })
}

/// A connection without TLS.
pub fn plain(socket: StdStream) -> Parked {
    Parked::plain(socket)
}

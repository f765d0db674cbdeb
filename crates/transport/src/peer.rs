//! A connection between two servers, with or without TLS.

use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf, ReadHalf, WriteHalf, split};
use tokio::net::TcpStream;
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio_rustls::TlsStream;
use zebu_auth::certificate::Facts;

use crate::bounded::Bounded;

/// A connection between two servers.
#[derive(Debug)]
pub struct PeerStream {
    stream: Stream,
    peer: SocketAddr,
    certificate: Option<Facts>,
}

#[derive(Debug)]
enum Stream {
    Plain(TcpStream),
    Secured(Box<TlsStream<Bounded<TcpStream>>>),
}

impl PeerStream {
    /// A connection without TLS.
    ///
    /// # Errors
    /// The connection has ended.
    pub fn plain(socket: TcpStream) -> io::Result<Self> {
        let peer = socket.peer_addr()?;
        Ok(Self { stream: Stream::Plain(socket), peer, certificate: None })
    }

    /// A connection after its TLS handshake. `certificate`: the identity in the other server's
    /// certificate.
    pub(crate) fn secured(
        mut stream: TlsStream<Bounded<TcpStream>>,
        peer: SocketAddr,
        certificate: Option<Facts>,
    ) -> Self {
        assert!(!stream.get_ref().1.is_handshaking(), "a stream begins after the handshake");
        stream.get_mut().0.lift();
        Self { stream: Stream::Secured(Box::new(stream)), peer, certificate }
    }

    /// The identity in the other server's certificate, if it has sent one. The certificate is
    /// trusted.
    pub fn certificate(&self) -> Option<&Facts> {
        self.certificate.as_ref()
    }

    /// Splits it into its two directions.
    pub fn into_split(self) -> (PeerReader, PeerWriter) {
        let Self { stream, peer, certificate } = self;
        let (from, to) = match stream {
            Stream::Plain(socket) => {
                let (from, to) = socket.into_split();
                (Reader::Plain(from), Writer::Plain(to))
            }
            Stream::Secured(stream) => {
                let (from, to) = split(stream);
                (Reader::Secured(from), Writer::Secured(to))
            }
        };
        (PeerReader { from, peer, certificate }, PeerWriter(to))
    }
}

/// The reading direction.
#[derive(Debug)]
pub struct PeerReader {
    from: Reader,
    peer: SocketAddr,
    certificate: Option<Facts>,
}

#[derive(Debug)]
enum Reader {
    Plain(OwnedReadHalf),
    Secured(ReadHalf<Box<TlsStream<Bounded<TcpStream>>>>),
}

impl PeerReader {
    /// The address of the other server.
    pub fn peer(&self) -> SocketAddr {
        self.peer
    }

    /// The identity in the other server's certificate, if it has sent one. The certificate is
    /// trusted.
    pub fn certificate(&self) -> Option<&Facts> {
        self.certificate.as_ref()
    }
}

impl AsyncRead for PeerReader {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        match &mut self.from {
            Reader::Plain(from) => Pin::new(from).poll_read(context, buffer),
            Reader::Secured(from) => Pin::new(from).poll_read(context, buffer),
        }
    }
}

/// The writing direction.
///
/// With TLS, written bytes may wait in a buffer until they are flushed. Dropping this value ends
/// the direction of a connection without TLS. With TLS, only `shutdown` ends it properly.
#[derive(Debug)]
pub struct PeerWriter(Writer);

#[derive(Debug)]
enum Writer {
    Plain(OwnedWriteHalf),
    Secured(WriteHalf<Box<TlsStream<Bounded<TcpStream>>>>),
}

impl PeerWriter {
    /// Whether [`PeerWriter::try_write`] can write: not with TLS.
    pub fn writes_at_once(&self) -> bool {
        matches!(self.0, Writer::Plain(_))
    }

    /// Writes what the socket takes now, from any thread.
    ///
    /// # Errors
    /// It takes nothing now, or the connection has ended. With TLS, nothing is ever written this
    /// way.
    pub fn try_write(&self, bytes: &[u8]) -> io::Result<usize> {
        match &self.0 {
            Writer::Plain(to) => to.try_write(bytes),
            Writer::Secured(_) => Err(io::ErrorKind::WouldBlock.into()),
        }
    }
}

impl AsyncWrite for PeerWriter {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        match &mut self.0 {
            Writer::Plain(to) => Pin::new(to).poll_write(context, bytes),
            Writer::Secured(to) => Pin::new(to).poll_write(context, bytes),
        }
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        match &mut self.0 {
            Writer::Plain(to) => Pin::new(to).poll_flush(context),
            Writer::Secured(to) => Pin::new(to).poll_flush(context),
        }
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        match &mut self.0 {
            Writer::Plain(to) => Pin::new(to).poll_shutdown(context),
            Writer::Secured(to) => Pin::new(to).poll_shutdown(context),
        }
    }
}

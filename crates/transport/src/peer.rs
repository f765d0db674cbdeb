//! A connection between two servers, with TLS or without.

use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf, ReadHalf, WriteHalf, split};
use tokio::net::TcpStream;
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio_rustls::TlsStream;
use zebu_auth::certificate::Facts;

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
    Secured(Box<TlsStream<TcpStream>>),
}

impl PeerStream {
    /// One without TLS.
    ///
    /// # Errors
    /// It has ended.
    pub fn plain(socket: TcpStream) -> io::Result<Self> {
        let peer = socket.peer_addr()?;
        Ok(Self { stream: Stream::Plain(socket), peer, certificate: None })
    }

    /// One after its handshake; `certificate` is what the other side has shown.
    pub(crate) fn secured(
        stream: TlsStream<TcpStream>,
        peer: SocketAddr,
        certificate: Option<Facts>,
    ) -> Self {
        assert!(!stream.get_ref().1.is_handshaking(), "a stream begins after the handshake");
        Self { stream: Stream::Secured(Box::new(stream)), peer, certificate }
    }

    /// What the certificate of the other side says, if it has shown one: it is trusted.
    pub fn certificate(&self) -> Option<&Facts> {
        self.certificate.as_ref()
    }

    /// Its two directions.
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

/// What the other server says.
#[derive(Debug)]
pub struct PeerReader {
    from: Reader,
    peer: SocketAddr,
    certificate: Option<Facts>,
}

#[derive(Debug)]
enum Reader {
    Plain(OwnedReadHalf),
    Secured(ReadHalf<Box<TlsStream<TcpStream>>>),
}

impl PeerReader {
    /// Where the other server is.
    pub fn peer(&self) -> SocketAddr {
        self.peer
    }

    /// What the certificate of the other server says, if it has shown one: it is trusted.
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

/// What is said to the other server.
///
/// With TLS, bytes that were written may wait here until they are flushed. Without it, the connection's direction ends when
/// this is dropped; with TLS it ends properly by `shutdown` only.
#[derive(Debug)]
pub struct PeerWriter(Writer);

#[derive(Debug)]
enum Writer {
    Plain(OwnedWriteHalf),
    Secured(WriteHalf<Box<TlsStream<TcpStream>>>),
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

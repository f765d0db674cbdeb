//! TLS of what a server says over HTTP: which connections have it, and the stream that HTTP is served on.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio_rustls::{TlsAcceptor, server::TlsStream};
use zebu_auth::certificate::Facts;
use zebu_auth::tls::{PortError, PortFiles};

use crate::peer_port::{certificate, first};
use crate::port::Port;
use crate::{Begins, HandshakeError};

/// The certificates of a port for HTTP, and whether it takes connections without TLS.
#[derive(Debug)]
pub struct HttpPort {
    port: Port,
    accepts_plain: bool,
}

/// Why a connection for HTTP is not served.
#[derive(Debug, thiserror::Error)]
pub enum HttpError {
    /// It has ended before it said anything.
    #[error("{0}")]
    Ended(#[from] io::Error),
    /// It does not begin TLS, and the port takes nothing else.
    #[error("it does not begin TLS, and nothing else is taken")]
    Plain,
    /// The handshake has failed.
    #[error("no TLS: {0}")]
    Handshake(#[from] HandshakeError),
}

impl HttpPort {
    /// Reads the files, and says which certificate the port has. `accepts_plain`: requests without TLS are taken, too.
    ///
    /// # Errors
    /// One sentence with the file, what is wrong and what helps.
    pub fn new(files: PortFiles, accepts_plain: bool) -> Result<Self, PortError> {
        Ok(Self { port: Port::new("TLS over HTTP", files)?, accepts_plain })
    }

    /// Its certificates.
    pub fn port(&self) -> &Port {
        &self.port
    }

    /// Does the handshake of a connection that came in, if it has one. A client speaks first in HTTP, so this waits for its
    /// first byte; the caller bounds the time.
    ///
    /// # Errors
    /// The connection cannot be served.
    pub async fn accept(&self, socket: TcpStream) -> Result<HttpStream, HttpError> {
        match (first(&socket).await?, self.accepts_plain) {
            (Begins::Plain, true) => return Ok(HttpStream::from(socket)),
            (Begins::Plain, false) => return Err(HttpError::Plain),
            (Begins::Tls, _) => {}
        }
        let acceptor = TlsAcceptor::from(self.port.config());
        let stream = acceptor.accept(socket).await.map_err(HandshakeError::Failed)?;
        let client =
            certificate(stream.get_ref().1.peer_certificates()).map_err(HandshakeError::from)?;
        Ok(HttpStream { stream: Either::Secured(Box::new(stream)), client })
    }
}

/// A connection that HTTP is served on.
#[derive(Debug)]
pub struct HttpStream {
    stream: Either,
    client: Option<Facts>,
}

#[derive(Debug)]
enum Either {
    Plain(TcpStream),
    Secured(Box<TlsStream<TcpStream>>),
}

impl From<TcpStream> for HttpStream {
    /// Without TLS.
    fn from(socket: TcpStream) -> Self {
        Self { stream: Either::Plain(socket), client: None }
    }
}

impl HttpStream {
    /// Whether it has TLS.
    pub fn is_secure(&self) -> bool {
        matches!(self.stream, Either::Secured(_))
    }

    /// What the certificate of the client says, if it has shown one: it is trusted.
    pub fn client(&self) -> Option<&Facts> {
        self.client.as_ref()
    }
}

impl AsyncRead for HttpStream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        into: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        match &mut self.stream {
            Either::Plain(stream) => Pin::new(stream).poll_read(context, into),
            Either::Secured(stream) => Pin::new(stream).poll_read(context, into),
        }
    }
}

impl AsyncWrite for HttpStream {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        match &mut self.stream {
            Either::Plain(stream) => Pin::new(stream).poll_write(context, bytes),
            Either::Secured(stream) => Pin::new(stream).poll_write(context, bytes),
        }
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        parts: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        match &mut self.stream {
            Either::Plain(stream) => Pin::new(stream).poll_write_vectored(context, parts),
            Either::Secured(stream) => Pin::new(stream).poll_write_vectored(context, parts),
        }
    }

    fn is_write_vectored(&self) -> bool {
        match &self.stream {
            Either::Plain(stream) => stream.is_write_vectored(),
            Either::Secured(stream) => stream.is_write_vectored(),
        }
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        match &mut self.stream {
            Either::Plain(stream) => Pin::new(stream).poll_flush(context),
            Either::Secured(stream) => Pin::new(stream).poll_flush(context),
        }
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        match &mut self.stream {
            Either::Plain(stream) => Pin::new(stream).poll_shutdown(context),
            Either::Secured(stream) => Pin::new(stream).poll_shutdown(context),
        }
    }
}

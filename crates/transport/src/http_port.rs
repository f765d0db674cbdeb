//! TLS for HTTP: which connections use it, and the stream for the HTTP server.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio_rustls::{TlsAcceptor, server::TlsStream};
use zebu_auth::certificate::Facts;
use zebu_auth::tls::ocsp::Side;
use zebu_auth::tls::{PortError, PortFiles};

use crate::bounded::Bounded;
use crate::peer_port::{certificate, first};
use crate::port::Port;
use crate::{Begins, HandshakeError};

/// The certificates of an HTTP port, and whether it accepts connections without TLS.
#[derive(Debug)]
pub struct HttpPort {
    port: Port,
    accepts_plain: bool,
}

/// The reason why an HTTP connection is not served.
#[derive(Debug, thiserror::Error)]
pub enum HttpError {
    /// The client closed it before it sent anything.
    #[error("{0}")]
    Ended(#[from] io::Error),
    /// The client did not start TLS, and the port accepts only TLS.
    #[error("it does not begin TLS, and nothing else is taken")]
    Plain,
    /// The TLS handshake failed.
    #[error("no TLS: {0}")]
    Handshake(#[from] HandshakeError),
}

impl HttpPort {
    /// Reads the files and logs which certificate the port has. `name`: the prefix of its log
    /// lines; `accepts_plain`: whether requests without TLS are accepted.
    ///
    /// # Errors
    /// One sentence with the file, the error and the remedy.
    pub fn new(
        name: &'static str,
        files: PortFiles,
        accepts_plain: bool,
    ) -> Result<Self, PortError> {
        Ok(Self { port: Port::new(name, files)?, accepts_plain })
    }

    /// The port's certificates.
    pub fn port(&self) -> &Port {
        &self.port
    }

    /// Does the TLS handshake of an accepted connection, if the client starts one. HTTP clients
    /// send first, so this waits for the first byte. The caller must limit the time.
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
        let socket = Bounded::new(socket);
        let mut stream = acceptor.accept(socket).await.map_err(HandshakeError::Failed)?;
        stream.get_mut().0.lift();
        let chain = stream.get_ref().1.peer_certificates();
        self.port.check(chain, Side::Client).await.map_err(HandshakeError::Failed)?;
        let client =
            certificate(stream.get_ref().1.peer_certificates()).map_err(HandshakeError::from)?;
        Ok(HttpStream { stream: Either::Secured(Box::new(stream)), client })
    }
}

/// A connection for the HTTP server.
#[derive(Debug)]
pub struct HttpStream {
    stream: Either,
    client: Option<Facts>,
}

#[derive(Debug)]
enum Either {
    Plain(TcpStream),
    Secured(Box<TlsStream<Bounded<TcpStream>>>),
}

impl From<TcpStream> for HttpStream {
    /// A connection without TLS.
    fn from(socket: TcpStream) -> Self {
        Self { stream: Either::Plain(socket), client: None }
    }
}

impl HttpStream {
    /// Whether the connection uses TLS.
    pub fn is_secure(&self) -> bool {
        matches!(self.stream, Either::Secured(_))
    }

    /// The identity in the client's certificate, if it has sent one. The certificate is trusted.
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

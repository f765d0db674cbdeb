//! Connections to servers: how they are made, and the bytes they carry, in plain text or over TLS.

use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, ReadBuf};
use tokio::net::TcpStream;

use crate::transport::{Connection, Transport};

/// How connections are opened. Clones share the files that were read for TLS.
#[derive(Clone, Default)]
pub(crate) struct Dialer {
    /// A replacement for the system's TCP.
    pub(crate) transport: Option<std::sync::Arc<dyn Transport>>,
    #[cfg(feature = "tls")]
    pub(crate) tls: Option<std::sync::Arc<crate::tls::Material>>,
}

/// The destination of a connection.
pub(crate) struct Destination {
    pub(crate) server: SocketAddr,
    /// The name that the server's certificate must have; `None` for the address.
    #[cfg_attr(not(feature = "tls"), allow(dead_code))]
    pub(crate) name: Option<String>,
}

impl Dialer {
    /// Opens a connection. Calls `connected` when the server has accepted it and the TLS handshake
    /// remains.
    ///
    /// Dropping the future ends the attempt.
    ///
    /// # Errors
    /// The server cannot be reached, or the TLS handshake fails. The text is for people.
    pub(crate) async fn dial(
        &self,
        to: Destination,
        connected: impl FnOnce(),
    ) -> io::Result<Stream> {
        if let Some(transport) = &self.transport {
            return Ok(Stream::Other(transport.dial(to.server).await?));
        }
        let tcp = connect_to_other(to.server).await?;
        tcp.set_nodelay(true)?;
        #[cfg(feature = "tls")]
        if let Some(material) = &self.tls {
            connected();
            let stream = Box::new(material.shake_hands(tcp, to).await?);
            return Ok(Stream::Tls(stream, material.shows_key()));
        }
        let _not_without_tls = connected;
        Ok(Stream::Plain(tcp))
    }

    /// Whether a server says that it has a quorum.
    ///
    /// # Errors
    /// As [`Dialer::dial`], or the server does not answer.
    pub(crate) async fn ask_mode(&self, to: Destination) -> io::Result<bool> {
        let mut stream = self.dial(to, || {}).await?;
        stream.write_all(b"isro").await?;
        stream.flush().await?;
        let mut answer = [0; 2];
        stream.read_exact(&mut answer).await?;
        Ok(answer == *b"rw")
    }
}

/// A connection.
pub(crate) enum Stream {
    Plain(TcpStream),
    Other(Box<dyn Connection>),
    #[cfg(feature = "tls")]
    /// TLS, and whether this client has a certificate.
    Tls(Box<crate::tls::TlsStream>, bool),
}

impl Stream {
    /// The local address.
    pub(crate) fn local_addr(&self) -> io::Result<SocketAddr> {
        match self {
            Self::Plain(tcp) => tcp.local_addr(),
            Self::Other(_) => Err(io::ErrorKind::Unsupported.into()),
            #[cfg(feature = "tls")]
            Self::Tls(tls, _) => tls.get_ref().0.local_addr(),
        }
    }

    /// The protocol below the session, for the log.
    pub(crate) fn carrier(&self) -> &'static str {
        match self {
            Self::Plain(_) | Self::Other(_) => "in plain text",
            #[cfg(feature = "tls")]
            Self::Tls(tls, _) => match tls.get_ref().1.protocol_version() {
                Some(rustls::ProtocolVersion::TLSv1_2) => "over TLSv1.2",
                _ => "over TLSv1.3",
            },
        }
    }

    /// The TLS-specific description of an error of this connection, for people.
    pub(crate) fn fault(&self, error: &io::Error) -> Option<String> {
        match self {
            Self::Plain(_) | Self::Other(_) => {
                let _is_without_tls = error;
                None
            }
            #[cfg(feature = "tls")]
            Self::Tls(_, shows_key) => crate::tls::fault_of(error, *shows_key),
        }
    }
}

impl AsyncRead for Stream {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        into: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Plain(tcp) => Pin::new(tcp).poll_read(cx, into),
            Self::Other(other) => Pin::new(other).poll_read(cx, into),
            #[cfg(feature = "tls")]
            Self::Tls(tls, _) => Pin::new(&mut **tls).poll_read(cx, into),
        }
    }
}

impl AsyncWrite for Stream {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        match self.get_mut() {
            Self::Plain(tcp) => Pin::new(tcp).poll_write(cx, bytes),
            Self::Other(other) => Pin::new(other).poll_write(cx, bytes),
            #[cfg(feature = "tls")]
            Self::Tls(tls, _) => Pin::new(&mut **tls).poll_write(cx, bytes),
        }
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Plain(tcp) => Pin::new(tcp).poll_flush(cx),
            Self::Other(other) => Pin::new(other).poll_flush(cx),
            #[cfg(feature = "tls")]
            Self::Tls(tls, _) => Pin::new(&mut **tls).poll_flush(cx),
        }
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Plain(tcp) => Pin::new(tcp).poll_shutdown(cx),
            Self::Other(other) => Pin::new(other).poll_shutdown(cx),
            #[cfg(feature = "tls")]
            Self::Tls(tls, _) => Pin::new(&mut **tls).poll_shutdown(cx),
        }
    }
}

#[cfg(feature = "tls")]
impl Drop for Stream {
    /// Sends the end of the connection, as far as the system takes it at once.
    fn drop(&mut self) {
        if let Self::Tls(tls, _) = self {
            let mut cx = Context::from_waker(std::task::Waker::noop());
            let _ends_anyway = Pin::new(&mut **tls).poll_shutdown(&mut cx);
        }
    }
}

/// Connects to a server, and not to itself.
async fn connect_to_other(server: SocketAddr) -> io::Result<TcpStream> {
    not_to_itself(TcpStream::connect(server).await?)
}

/// If a server on this machine is down, the system may connect from the very port that it connects
/// to. Such a connection echoes all bytes, and keeps the server from binding its port.
fn not_to_itself(stream: TcpStream) -> io::Result<TcpStream> {
    if stream.local_addr()? == stream.peer_addr()? {
        return Err(io::ErrorKind::ConnectionRefused.into());
    }
    Ok(stream)
}

#[cfg(test)]
mod tests {
    use tokio::net::{TcpListener, TcpSocket};

    use super::*;

    #[tokio::test]
    async fn a_connection_with_itself_is_none() {
        let socket = TcpSocket::new_v4().unwrap();
        socket.bind(([127, 0, 0, 1], 0).into()).unwrap();
        let own = socket.local_addr().unwrap();
        let stream = socket.connect(own).await.unwrap();
        let error = not_to_itself(stream).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::ConnectionRefused);
    }

    #[tokio::test]
    async fn a_connection_with_somebody_else_is_one() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        connect_to_other(listener.local_addr().unwrap()).await.unwrap();
    }
}

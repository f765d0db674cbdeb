//! A limit on the bytes of a TLS handshake, so that a client that has not authenticated costs
//! little memory.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// Maximum bytes that a client may send before this server has answered: its ClientHello. With a
/// key share for post-quantum cryptography and a session ticket, it has some 2 KiB.
pub const HELLO_BYTES_MAX: usize = 8 << 10;
/// Maximum bytes that the other side may send afterwards, mostly a chain of certificates. Java
/// accepts messages of 32 KiB.
pub const CHAIN_BYTES_MAX: usize = 32 << 10;

/// The other side of a handshake has sent more than it may.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("its handshake is longer than {0} bytes")]
pub struct TooLong(usize);

/// A socket whose handshake is limited.
#[derive(Debug)]
pub struct Bounded<S> {
    socket: S,
    /// Bytes received so far; `None` when the handshake is over.
    received: Option<usize>,
    /// Their maximum.
    most: usize,
}

impl<S> Bounded<S> {
    /// A socket whose handshake begins.
    pub fn new(socket: S) -> Self {
        Self { socket, received: Some(0), most: HELLO_BYTES_MAX }
    }

    /// The handshake is over: from now on there is no limit.
    pub fn lift(&mut self) {
        self.received = None;
    }

    /// The socket itself.
    pub fn into_inner(self) -> S {
        self.socket
    }
}

impl<S> Bounded<S> {
    /// This side has answered, so the other side may say more.
    fn answers(&mut self) {
        self.most = HELLO_BYTES_MAX + CHAIN_BYTES_MAX;
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Bounded<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        into: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let Some(received) = self.received else {
            return Pin::new(&mut self.socket).poll_read(context, into);
        };
        let room = self.most.saturating_sub(received);
        if room == 0 {
            let error = io::Error::new(io::ErrorKind::InvalidData, TooLong(self.most));
            return Poll::Ready(Err(error));
        }
        let room = room.min(into.remaining());
        let mut part = ReadBuf::new(into.initialize_unfilled_to(room));
        ready!(Pin::new(&mut self.socket).poll_read(context, &mut part))?;
        let count = part.filled().len();
        into.advance(count);
        assert!(received + count <= self.most, "{count} bytes more than there is room for");
        self.received = Some(received + count);
        Poll::Ready(Ok(()))
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Bounded<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.answers();
        Pin::new(&mut self.socket).poll_write(context, bytes)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        parts: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.answers();
        Pin::new(&mut self.socket).poll_write_vectored(context, parts)
    }

    fn is_write_vectored(&self) -> bool {
        self.socket.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.socket).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.socket).poll_shutdown(context)
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, duplex};

    use super::*;

    #[tokio::test]
    async fn a_handshake_has_a_largest_size_and_the_rest_has_none() {
        let (socket, mut other) = duplex(1 << 20);
        let mut bounded = Bounded::new(socket);
        other.write_all(&vec![7; 1 << 17]).await.unwrap();
        let mut received = Vec::new();
        let error = bounded.read_to_end(&mut received).await.unwrap_err();
        assert_eq!(received.len(), HELLO_BYTES_MAX);
        assert_eq!(error.to_string(), "its handshake is longer than 8192 bytes");
        bounded.write_all(b"hello").await.unwrap();
        let error = bounded.read_to_end(&mut received).await.unwrap_err();
        assert_eq!(received.len(), HELLO_BYTES_MAX + CHAIN_BYTES_MAX);
        assert_eq!(error.to_string(), "its handshake is longer than 40960 bytes");
        bounded.lift();
        other.shutdown().await.unwrap();
        bounded.read_to_end(&mut received).await.unwrap();
        assert_eq!(received.len(), 1 << 17);
    }
}

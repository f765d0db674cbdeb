//! The body of a request for code that blocks: one task passes the received bytes on, one thread
//! reads them.

use std::io::{self, Read};
use std::pin::Pin;
use std::time::Duration;

use axum::body::Body;
use bytes::{Buf as _, Bytes};
use hyper::body::Body as _;
use tokio::sync::mpsc::{Receiver, Sender, channel};
use tokio::time::timeout;

/// The most pieces that wait for the reader.
const PIECES_MAX: usize = 4;

/// A piece, or the reason why none follows.
type Piece = io::Result<Bytes>;

/// The received data, for the thread that reads them.
pub struct Received {
    pieces: Receiver<Piece>,
    piece: Bytes,
}

/// The sender and the reader.
pub fn received() -> (Sender<Piece>, Received) {
    let (to, pieces) = channel(PIECES_MAX);
    (to, Received { pieces, piece: Bytes::new() })
}

/// Passes a body on until it ends or breaks off, until no byte has arrived for the given time, or
/// until the reader is dropped.
pub async fn pass(mut body: Body, to: &Sender<Piece>, idle_timeout: Duration) {
    loop {
        let frame = std::future::poll_fn(|context| Pin::new(&mut body).poll_frame(context));
        let piece = match timeout(idle_timeout, frame).await {
            Ok(None) => return,
            Ok(Some(Ok(frame))) => match frame.into_data() {
                Ok(data) => Ok(data),
                // This frame contains trailers.
                Err(_) => continue,
            },
            Ok(Some(Err(error))) => Err(io::Error::other(error)),
            Err(_) => {
                let why = format!("nothing more arrives for {} ms", idle_timeout.as_millis());
                Err(io::Error::new(io::ErrorKind::TimedOut, why))
            }
        };
        let is_last = piece.is_err();
        if to.send(piece).await.is_err() || is_last {
            return;
        }
    }
}

impl Read for Received {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        while self.piece.is_empty() {
            match self.pieces.blocking_recv() {
                Some(piece) => self.piece = piece?,
                None => return Ok(0),
            }
        }
        let bytes = self.piece.len().min(into.len());
        self.piece.copy_to_slice(&mut into[..bytes]);
        Ok(bytes)
    }
}

//! One client of the echo server.

use std::io::{self, Write};

use mio::net::TcpStream;

/// A connection and its answers, on their way from `out` to the socket. In between they wait for what they tell of
/// to be durable, where the server makes anything durable.
#[derive(Debug)]
pub(super) struct Conn {
    pub(super) stream: TcpStream,
    pub(super) greeted: bool,
    /// The start of a request whose end has not come.
    pub(super) partial: Vec<u8>,
    /// Answers that no sync covers yet.
    pub(super) out: Vec<u8>,
    /// Answers that the sync under way covers.
    syncing: Vec<u8>,
    /// Answers that may be sent; those before `written` are.
    sending: Vec<u8>,
    written: usize,
    /// Whether it is among those that wait for the next sync.
    pub(super) is_waiting: bool,
    /// Whether nothing more is read before it has been sent something.
    pub(super) is_paused: bool,
    pub(super) closing: bool,
}

/// Whether a connection goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Next {
    Serve,
    Hang,
}

impl Conn {
    pub(super) fn new(stream: TcpStream) -> Self {
        Self {
            stream,
            greeted: false,
            partial: Vec::new(),
            out: Vec::new(),
            syncing: Vec::new(),
            sending: Vec::new(),
            written: 0,
            is_waiting: false,
            is_paused: false,
            closing: false,
        }
    }

    /// Bytes of answers that have not been sent.
    pub(super) fn unsent(&self) -> usize {
        self.out.len() + self.syncing.len() + self.sending.len() - self.written
    }

    /// Whether answers wait for a sync.
    pub(super) fn is_held(&self) -> bool {
        self.is_waiting || !self.syncing.is_empty()
    }

    /// What is in `out` may be sent now.
    pub(super) fn release(&mut self) {
        debug_assert!(self.syncing.is_empty(), "answers keep their order");
        pour(&mut self.out, &mut self.sending);
    }

    /// A sync that covers all answers begins.
    pub(super) fn sync_begins(&mut self) {
        debug_assert!(self.syncing.is_empty(), "one sync at a time");
        self.is_waiting = false;
        std::mem::swap(&mut self.out, &mut self.syncing);
    }

    /// It is over.
    pub(super) fn sync_ends(&mut self) {
        pour(&mut self.syncing, &mut self.sending);
    }

    /// Sends as much as the kernel takes of what may be sent.
    pub(super) fn flush(&mut self) -> Next {
        while self.written < self.sending.len() {
            match self.stream.write(&self.sending[self.written..]) {
                Ok(0) => return Next::Hang,
                Ok(count) => self.written += count,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Next::Serve,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(_) => return Next::Hang,
            }
        }
        self.sending.clear();
        self.written = 0;
        match self.closing && self.unsent() == 0 {
            true => Next::Hang,
            false => Next::Serve,
        }
    }
}

/// Appends all of `from` to `to`.
fn pour(from: &mut Vec<u8>, to: &mut Vec<u8>) {
    if to.is_empty() {
        std::mem::swap(from, to);
    } else {
        to.append(from);
    }
}

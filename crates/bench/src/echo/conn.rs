//! One client of the echo server.

use std::collections::VecDeque;
use std::io::{self, Write};

use mio::net::TcpStream;

use super::order::Ticket;

/// So many sent bytes may stay at the front of the buffer before the rest is moved.
const SENT_BYTES_MAX: usize = 256 << 10;

/// A connection and its answers. If the server makes writes durable, some answers wait for that.
///
/// **Invariant:** answers keep their order: those before `written` are sent, those before
/// `released` may be sent, and `held` contains the tickets that the others wait for, in order.
#[derive(Debug)]
pub(super) struct Conn {
    pub(super) stream: TcpStream,
    pub(super) greeted: bool,
    /// The beginning of a request whose end has not arrived.
    pub(super) partial: Vec<u8>,
    /// Queued answers.
    pub(super) out: Vec<u8>,
    written: usize,
    released: usize,
    /// Tickets that answers wait for, each with the end of the last answer that waits for it.
    held: VecDeque<(Ticket, usize)>,
    /// Whether reading is paused until something is sent.
    pub(super) is_paused: bool,
    pub(super) closing: bool,
}

/// Whether a connection continues.
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
            written: 0,
            released: 0,
            held: VecDeque::new(),
            is_paused: false,
            closing: false,
        }
    }

    /// The number of unsent bytes.
    pub(super) fn unsent(&self) -> usize {
        self.out.len() - self.written
    }

    /// Whether any answers wait.
    pub(super) fn is_held(&self) -> bool {
        !self.held.is_empty()
    }

    /// Makes all answers that do not wait yet wait for `ticket`, or for the ticket of the answers
    /// before them. Returns whether the connection must be notified of `ticket`.
    pub(super) fn hold(&mut self, ticket: Ticket) -> bool {
        match self.held.back_mut() {
            Some((last, end)) if *last >= ticket => {
                *end = self.out.len();
                false
            }
            _ => {
                self.held.push_back((ticket, self.out.len()));
                true
            }
        }
    }

    /// Allows the answers that wait for tickets up to `ticket`.
    pub(super) fn release(&mut self, ticket: Ticket) {
        while let Some(&(waits_for, end)) = self.held.front()
            && waits_for <= ticket
        {
            self.held.pop_front();
            self.released = end;
        }
        if self.held.is_empty() {
            self.released = self.out.len();
        }
    }

    /// Allows all answers.
    pub(super) fn release_all(&mut self) {
        debug_assert!(self.held.is_empty(), "answers keep their order");
        self.released = self.out.len();
    }

    /// Sends the allowed answers, as far as the kernel takes them.
    pub(super) fn flush(&mut self) -> Next {
        while self.written < self.released {
            match self.stream.write(&self.out[self.written..self.released]) {
                Ok(0) => return Next::Hang,
                Ok(count) => self.written += count,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Next::Serve,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(_) => return Next::Hang,
            }
        }
        if self.written == self.out.len() {
            self.out.clear();
            (self.written, self.released) = (0, 0);
        } else if self.written > SENT_BYTES_MAX {
            self.out.drain(..self.written);
            self.released -= self.written;
            for (_, end) in &mut self.held {
                *end -= self.written;
            }
            self.written = 0;
        }
        match self.closing && self.unsent() == 0 {
            true => Next::Hang,
            false => Next::Serve,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read;
    use std::net::{Ipv4Addr, TcpListener};

    use super::*;

    #[test]
    fn answers_are_sent_in_order_when_what_they_wait_for_has_come() {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let mut client = std::net::TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (stream, _) = listener.accept().unwrap();
        let mut conn = Conn::new(TcpStream::from_std(stream));
        let mut reads = |conn: &mut Conn, text: &str| {
            assert_eq!(conn.flush(), Next::Serve);
            let mut bytes = vec![0; text.len()];
            client.read_exact(&mut bytes).unwrap();
            assert_eq!(bytes, text.as_bytes());
        };
        conn.out.extend(b"a");
        assert!(conn.hold(1));
        conn.out.extend(b"b"); // waits for nothing itself
        assert!(!conn.hold(1));
        conn.out.extend(b"c");
        assert!(conn.hold(3));
        conn.release(0);
        assert_eq!((conn.flush(), conn.unsent()), (Next::Serve, 3));
        conn.release(2);
        reads(&mut conn, "ab");
        assert_eq!(conn.unsent(), 1);
        conn.release(3);
        reads(&mut conn, "c");
        conn.out.extend(b"d");
        conn.release_all();
        reads(&mut conn, "d");
    }
}

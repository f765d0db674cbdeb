//! One client of the echo server.

use std::collections::VecDeque;
use std::io::{self, Write};

use mio::net::TcpStream;

use super::order::Ticket;

/// Bytes that were sent and are still at the front of the answers before these are moved.
const SENT_BYTES_MAX: usize = 256 << 10;

/// A connection and its answers. Some of them wait for what they tell of to be durable, where the server makes anything
/// durable.
///
/// **Invariant:** answers keep their order: those before `written` are sent, those before `released` may be sent, and
/// `held` says what the others wait for, in order.
#[derive(Debug)]
pub(super) struct Conn {
    pub(super) stream: TcpStream,
    pub(super) greeted: bool,
    /// The start of a request whose end has not come.
    pub(super) partial: Vec<u8>,
    /// Answers.
    pub(super) out: Vec<u8>,
    written: usize,
    released: usize,
    /// What answers wait for, and where the last that waits for it ends.
    held: VecDeque<(Ticket, usize)>,
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
            written: 0,
            released: 0,
            held: VecDeque::new(),
            is_paused: false,
            closing: false,
        }
    }

    /// Bytes of answers that have not been sent.
    pub(super) fn unsent(&self) -> usize {
        self.out.len() - self.written
    }

    /// Whether answers wait for anything.
    pub(super) fn is_held(&self) -> bool {
        !self.held.is_empty()
    }

    /// All answers that wait for nothing yet wait for `ticket`, or for what those before them wait for. Whether it is to
    /// be told of this ticket.
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

    /// What waits for tickets up to this one may be sent.
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

    /// All answers may be sent: none waits.
    pub(super) fn release_all(&mut self) {
        debug_assert!(self.held.is_empty(), "answers keep their order");
        self.released = self.out.len();
    }

    /// Sends as much as the kernel takes of what may be sent.
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

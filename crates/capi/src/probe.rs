//! The question to another server whether it has a quorum, asked while a session is on a server that only reads.

use std::io::{self, Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use zebu_session::Probe;

use crate::wire;

/// How long a server may take to say whether it has a quorum.
const TIME_MAX: Duration = Duration::from_secs(1);

/// How often a question that is under way is looked after.
pub(crate) const LOOK: Duration = Duration::from_millis(10);

/// A question that is under way.
#[derive(Debug)]
pub(crate) struct Question {
    pub(crate) server: SocketAddr,
    stream: Option<TcpStream>,
    is_asked: bool,
    answer: Vec<u8>,
    until: Duration,
}

impl Question {
    pub(crate) fn new(now: Duration, server: SocketAddr) -> Self {
        let stream = wire::dial(server).ok();
        Self { server, stream, is_asked: false, answer: Vec::new(), until: now + TIME_MAX }
    }

    /// The answer, if there is one by now.
    pub(crate) fn look(&mut self, now: Duration) -> Option<Probe> {
        match self.go_on() {
            Ok(false) if now < self.until => None,
            Ok(true) if self.answer == b"rw" => Some(Probe::ReadWrite),
            _ => Some(Probe::Other),
        }
    }

    /// Returns whether the answer is complete.
    fn go_on(&mut self) -> io::Result<bool> {
        let waits = |error: io::Error| match error.kind() {
            io::ErrorKind::WouldBlock
            | io::ErrorKind::NotConnected
            | io::ErrorKind::Interrupted => Ok(false),
            _ => Err(error),
        };
        let Some(stream) = &mut self.stream else { return Ok(true) };
        if !self.is_asked {
            // A socket that was just opened takes four bytes at once.
            match stream.write_all(b"isro") {
                Ok(()) => self.is_asked = true,
                Err(error) => return waits(error),
            }
        }
        let mut bytes = [0; 16];
        match stream.read(&mut bytes) {
            Ok(0) => Ok(true),
            Ok(count) => {
                self.answer.extend_from_slice(&bytes[..count]);
                Ok(self.answer.len() >= 2)
            }
            Err(error) => waits(error),
        }
    }
}

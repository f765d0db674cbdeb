//! The question to another server whether it has a quorum, asked while a session is on a server
//! that only reads.

use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use zebu_session::{Attempt, Probe};

use crate::tls::Tls;
use crate::wire::{Progress, Wire};

/// How long a server may take to say whether it has a quorum.
const TIME_MAX: Duration = Duration::from_secs(1);

/// How often a question that is under way is looked after.
pub(crate) const LOOK: Duration = Duration::from_millis(10);

/// A question that is under way.
#[derive(Debug)]
pub(crate) struct Question {
    pub(crate) server: SocketAddr,
    wire: Option<Wire>,
    until: Duration,
}

impl Question {
    pub(crate) fn new(now: Duration, server: SocketAddr, tls: Option<&Tls>) -> Self {
        // Its connection is no attempt of the session's.
        let mut wire = Wire::connect(Attempt(0), server, tls).ok();
        if let Some(wire) = &mut wire {
            wire.push(b"isro".to_vec());
        }
        Self { server, wire, until: now + TIME_MAX }
    }

    /// The answer, if there is one by now.
    pub(crate) fn look(&mut self, now: Duration) -> Option<Probe> {
        match self.go_on() {
            Ok(false) if now < self.until => None,
            Ok(true) if self.wire.as_ref().is_some_and(|wire| wire.input() == b"rw") => {
                Some(Probe::ReadWrite)
            }
            _ => Some(Probe::Other),
        }
    }

    /// Returns whether the answer is complete.
    fn go_on(&mut self) -> io::Result<bool> {
        let Some(wire) = &mut self.wire else { return Ok(true) };
        if wire.go_on()? != Progress::Connected {
            return Ok(false);
        }
        wire.flush()?;
        while wire.input().len() < 2 {
            if !wire.read()? {
                return Ok(false);
            }
        }
        Ok(true)
    }
}

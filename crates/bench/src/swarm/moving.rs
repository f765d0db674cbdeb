//! Sessions whose servers end: each session moves to another server and repeats its request until
//! it gets an answer.

use std::net::SocketAddr;
use std::time::Duration;

use anyhow::bail;
use mio::net::TcpStream;
use mio::{Interest, Token};

use super::conn::{Broken, Conn, NO_SESSION, Phase, is_for_later, payload_at};
use super::{Swarm, TURN_MAX};
use crate::clock::{Nanos, nanos};
use crate::wire::{self, LENGTH_BYTES, op};

/// The pause of a session between two attempts.
const REST: Nanos = 20_000_000;
/// The xid of the `sync` request.
const ASKED_XID: i32 = i32::MAX - 1;

/// The results of the sessions.
#[derive(Debug, Default)]
pub(crate) struct Moved {
    /// The time of each answer, earliest first.
    pub(crate) answered: Vec<Nanos>,
    /// The number of expired sessions.
    pub(crate) lost: usize,
    /// The number of connections that broke or failed.
    pub(crate) broken: usize,
}

/// The state of a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    /// The session has sent its request, or sends it once it is connected.
    Asking,
    /// The session tries again at this time.
    Resting(Nanos),
    Answered,
    Lost,
}

impl Swarm {
    /// Every session sends a `sync` to its server. If the connection breaks, or is silent for a
    /// third of the session's timeout, the session tries another of `servers`, until one answers.
    /// At most `opening_max` sessions are in the handshake at a time.
    ///
    /// No requests may be in flight at the call.
    pub(crate) fn move_on(
        &mut self,
        servers: &[SocketAddr],
        opening_max: usize,
        session_timeout: Duration,
        limit: Duration,
    ) -> anyhow::Result<Moved> {
        let timeout_ms = i32::try_from(session_timeout.as_millis()).unwrap_or(i32::MAX);
        let start = self.clock.now();
        let mut moved = Moved::default();
        let mut ways = vec![Way::Asking; self.conns.len()];
        for (conn, way) in self.conns.iter_mut().zip(&mut ways) {
            match conn.phase {
                Phase::Ready => conn.ask(),
                _ => *way = Way::Resting(0),
            }
        }
        let mut attempts = vec![0; self.conns.len()];
        let mut asked = vec![start; self.conns.len()];
        let patience = nanos(session_timeout / 3);
        let mut opening = 0;
        let mut unsettled = self.conns.len();
        while unsettled > 0 {
            let now = self.clock.now();
            if now > start + nanos(limit) {
                bail!("{unsettled} of {} sessions have no answer after {limit:?}", ways.len());
            }
            for id in 0..ways.len() {
                if ways[id] == Way::Asking && now > asked[id] + patience {
                    // As clients do: a silent server is given up.
                    opening -= usize::from(self.conns[id].is_opening());
                    moved.broken += 1;
                    self.drop_conn(id);
                    ways[id] = Way::Resting(now);
                }
                let Way::Resting(until) = ways[id] else { continue };
                if until > now || opening >= opening_max {
                    continue;
                }
                attempts[id] += 1;
                let server = servers[(id + attempts[id]) % servers.len()];
                match self.reconnect(id, server) {
                    Ok(()) => {
                        ways[id] = Way::Asking;
                        asked[id] = now;
                        opening += 1;
                    }
                    Err(_) => ways[id] = Way::Resting(now + REST),
                }
            }
            self.wait(TURN_MAX.min(Duration::from_nanos(REST)))?;
            let events = std::mem::replace(&mut self.events, mio::Events::with_capacity(0));
            for event in &events {
                let id = event.token().0;
                let Some(conn) = self.conns.get_mut(id) else { continue };
                if ways[id] != Way::Asking {
                    // A connection may break after the answer.
                    continue;
                }
                let was_opening = conn.is_opening();
                let hello = wire::connect_request(timeout_ms, &conn.session);
                let result = conn.go_on(&hello, &mut self.scratch);
                let is_opening = conn.is_opening();
                let now = self.clock.now();
                let next = match result {
                    Ok(None) => Way::Asking,
                    Ok(Some(true)) => Way::Answered,
                    Ok(Some(false)) => Way::Lost,
                    Err(Broken(_)) => {
                        moved.broken += 1;
                        Way::Resting(now + REST)
                    }
                };
                opening -= usize::from(was_opening && !(is_opening && next == Way::Asking));
                ways[id] = next;
                match next {
                    Way::Answered => {
                        moved.answered.push(now - start);
                        unsettled -= 1;
                    }
                    Way::Lost => {
                        moved.lost += 1;
                        unsettled -= 1;
                        self.drop_conn(id);
                    }
                    Way::Resting(_) => self.drop_conn(id),
                    Way::Asking => {}
                }
            }
            self.events = events;
        }
        self.ready = self.conns.iter().filter(|conn| conn.phase == Phase::Ready).count();
        Ok(moved)
    }

    fn drop_conn(&mut self, id: usize) {
        let conn = &mut self.conns[id];
        conn.phase = Phase::Gone;
        let _ = self.poll.registry().deregister(conn.stream.socket()); // it is going away either way
    }

    fn reconnect(&mut self, id: usize, server: SocketAddr) -> std::io::Result<()> {
        let mut stream = TcpStream::connect(server)?;
        let interest = Interest::READABLE | Interest::WRITABLE;
        self.poll.registry().register(&mut stream, Token(id), interest)?;
        let conn = &mut self.conns[id];
        conn.stream = stream.into();
        conn.phase = Phase::Connecting;
        conn.out.clear();
        conn.written = 0;
        conn.partial.clear();
        (conn.next_xid, conn.expected_xid) = (1, 1);
        Ok(())
    }
}

impl Conn {
    fn is_opening(&self) -> bool {
        matches!(self.phase, Phase::Connecting | Phase::Greeting)
    }

    fn ask(&mut self) {
        wire::frame(&mut self.out, ASKED_XID, op::SYNC, |to| to.ustring(Some("/")));
        let _ = self.flush(); // a broken connection shows when it is read
    }

    /// Continues the session. Returns `true` once the answer has arrived, and `false` if the
    /// session has expired.
    fn go_on(&mut self, hello: &[u8], scratch: &mut [u8]) -> Result<Option<bool>, Broken> {
        if self.is_opening() {
            let session = self.session;
            match self.greet(hello, scratch) {
                Ok(false) => return Ok(None),
                Ok(true) if self.session == session => self.ask(),
                Ok(true) => return Ok(Some(false)),
                Err(Broken(why)) if why == NO_SESSION => return Ok(Some(false)),
                Err(broken) => return Err(broken),
            }
            self.session = session;
        }
        self.flush()?;
        let count = match std::io::Read::read(&mut self.stream, scratch) {
            Ok(0) => return Err(Broken("the server closed the connection".into())),
            Ok(count) => count,
            Err(error) if is_for_later(&error) => return Ok(None),
            Err(error) => return Err(error.into()),
        };
        self.partial.extend_from_slice(&scratch[..count]);
        let mut at = 0;
        let mut answer = None;
        while let Some(payload) = payload_at(&self.partial[at..])? {
            at += LENGTH_BYTES + payload.len();
            match wire::reply_header(payload) {
                Some((ASKED_XID, 0)) => answer = Some(true),
                Some((ASKED_XID, err)) => return Err(Broken(format!("error {err}"))),
                Some(_) => {}
                None => return Err(Broken("a reply shorter than its header".into())),
            }
        }
        self.partial.drain(..at);
        Ok(answer)
    }
}

//! One session: its handshake, its pipeline, and its answers.

use std::collections::VecDeque;
use std::io::{self, Read, Write};

use super::READ_BYTES;
use super::link::Link;
use super::workload::Workload;
use crate::clock::{Clock, Nanos};
use crate::tally::{Kind, Tally};
use crate::wire::{self, LENGTH_BYTES, SessionKey};

/// No more requests are queued on a connection with this many unsent bytes.
const UNSENT_BYTES_MAX: usize = 1 << 20;
/// The error of a connection whose session the server does not know.
pub(super) const NO_SESSION: &str = "the server granted no session";

/// Consecutive requests of one kind that began at the same time.
#[derive(Clone, Copy, Debug)]
struct Run {
    began: Nanos,
    kind: Kind,
    left: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Phase {
    Connecting,
    Greeting,
    Ready,
    Gone,
}

#[derive(Debug)]
pub(super) struct Conn {
    pub(super) stream: Link,
    pub(super) phase: Phase,
    pub(super) session: SessionKey,
    /// Requests for the kernel. Those before `written` are sent.
    pub(super) out: Vec<u8>,
    pub(super) written: usize,
    /// The beginning of a reply whose end has not arrived.
    pub(super) partial: Vec<u8>,
    /// Requests in flight, oldest first. The sum of `left` is `in_flight`.
    runs: VecDeque<Run>,
    pub(super) in_flight: u32,
    pub(super) next_xid: i32,
    pub(super) expected_xid: i32,
    pub(super) last_sent: Nanos,
}

/// Why a connection ended.
#[derive(Debug)]
pub(super) struct Broken(pub(super) String);

impl From<io::Error> for Broken {
    fn from(error: io::Error) -> Self {
        Self(error.to_string())
    }
}

impl Conn {
    /// A session before its connection is established.
    pub(super) fn new(stream: Link, now: Nanos) -> Self {
        Self {
            stream,
            phase: Phase::Connecting,
            session: SessionKey::default(),
            out: Vec::new(),
            written: 0,
            partial: Vec::new(),
            runs: VecDeque::new(),
            in_flight: 0,
            next_xid: 1,
            expected_xid: 1,
            last_sent: now,
        }
    }

    /// Drops the requests in flight and the unsent ones. Returns how many were in flight.
    pub(super) fn give_up(&mut self) -> u32 {
        self.phase = Phase::Gone;
        self.runs.clear();
        self.out.clear();
        self.written = 0;
        std::mem::take(&mut self.in_flight)
    }

    /// Continues the handshake of a session. Returns `true` once the session is established.
    pub(super) fn greet(&mut self, hello: &[u8], scratch: &mut [u8]) -> Result<bool, Broken> {
        if self.phase == Phase::Connecting {
            if let Some(error) = self.stream.socket().take_error()? {
                return Err(error.into());
            }
            match self.stream.socket().peer_addr() {
                Ok(_) => {}
                Err(error) if error.kind() == io::ErrorKind::NotConnected => return Ok(false),
                Err(error) => return Err(error.into()),
            }
            self.stream.socket().set_nodelay(true)?;
            self.out.extend_from_slice(hello);
            self.phase = Phase::Greeting;
        }
        if self.phase != Phase::Greeting {
            return Ok(false);
        }
        self.flush()?;
        match self.stream.read(scratch) {
            Ok(0) => return Err(Broken("the server closed the connection".into())),
            Ok(count) => self.partial.extend_from_slice(&scratch[..count]),
            Err(error) if is_for_later(&error) => return Ok(false),
            Err(error) => return Err(error.into()),
        }
        let Some(payload) = payload_at(&self.partial)? else { return Ok(false) };
        let Some(session) = wire::granted(payload) else {
            return Err(Broken(NO_SESSION.into()));
        };
        self.session = session;
        self.partial = Vec::new();
        self.out = Vec::new();
        self.phase = Phase::Ready;
        Ok(true)
    }

    /// Reads all received bytes. Returns the time of the last read, if there was one.
    pub(super) fn read<W: Workload>(
        &mut self,
        id: usize,
        scratch: &mut Vec<u8>,
        clock: Clock,
        work: &mut W,
        tally: &mut Tally,
    ) -> Result<Option<Nanos>, Broken> {
        let mut last = None;
        loop {
            let kept = self.partial.len();
            if scratch.len() < kept + READ_BYTES {
                scratch.resize(kept + READ_BYTES, 0);
            }
            let count = match self.stream.read(&mut scratch[kept..]) {
                Ok(0) => return Err(Broken("the server closed the connection".into())),
                Ok(count) => count,
                Err(error) if is_for_later(&error) => return Ok(last),
                Err(error) => return Err(error.into()),
            };
            scratch[..kept].copy_from_slice(&self.partial);
            let now = clock.now();
            last = Some(now);
            let bytes = &scratch[..kept + count];
            let used = self.replies(id, bytes, now, work, tally)?;
            self.partial.clear();
            self.partial.extend_from_slice(&bytes[used..]);
            if kept + count < scratch.len() && !self.stream.may_have_more() {
                return Ok(last); // drained: the next byte raises a new event
            }
        }
    }

    /// Takes the complete replies at the start of `bytes`. Returns their length.
    fn replies<W: Workload>(
        &mut self,
        id: usize,
        bytes: &[u8],
        now: Nanos,
        work: &mut W,
        tally: &mut Tally,
    ) -> Result<usize, Broken> {
        let mut at = 0;
        // Successful replies to the oldest run that the tally does not contain yet.
        let mut good = 0;
        while let Some(payload) = payload_at(&bytes[at..])? {
            at += LENGTH_BYTES + payload.len();
            let Some((xid, err)) = wire::reply_header(payload) else {
                return Err(Broken("a reply shorter than its header".into()));
            };
            if xid == self.expected_xid
                && let Some(run) = self.runs.front_mut()
            {
                self.expected_xid = following(xid);
                self.in_flight -= 1;
                run.left -= 1;
                if err == 0 {
                    good += 1;
                } else {
                    *tally.errors.entry(err).or_default() += 1;
                }
                if run.left == 0 {
                    tally.answered(run.kind, good, run.began, now);
                    good = 0;
                    self.runs.pop_front();
                }
            } else if xid == wire::XID_NOTIFICATION {
                work.notified(id, now);
            } else if xid != wire::XID_PING {
                let expected = self.expected_xid;
                return Err(Broken(format!("reply out of order: xid {xid}, not {expected}")));
            }
        }
        if good > 0
            && let Some(run) = self.runs.front()
        {
            tally.answered(run.kind, good, run.began, now);
        }
        Ok(at)
    }

    /// Queues requests until `depth` of them are in flight.
    pub(super) fn fill<W: Workload>(&mut self, id: usize, depth: u32, now: Nanos, work: &mut W) {
        while self.in_flight < depth
            && self.out.len() - self.written < UNSENT_BYTES_MAX
            && self.push(id, now, now, work)
        {}
    }

    /// Queues one request with the starting time `began`. Returns `false` if the workload has none.
    pub(super) fn push<W: Workload>(
        &mut self,
        id: usize,
        began: Nanos,
        now: Nanos,
        work: &mut W,
    ) -> bool {
        let Some(kind) = work.next(id, self.next_xid, &mut self.out) else { return false };
        self.next_xid = following(self.next_xid);
        self.in_flight += 1;
        self.last_sent = now;
        match self.runs.back_mut() {
            Some(run) if run.began == began && run.kind == kind => run.left += 1,
            _ => self.runs.push_back(Run { began, kind, left: 1 }),
        }
        true
    }

    /// Writes as much as the kernel takes.
    pub(super) fn flush(&mut self) -> Result<(), Broken> {
        while self.written < self.out.len() {
            match self.stream.write(&self.out[self.written..]) {
                Ok(0) => return Err(Broken("the connection takes no more bytes".into())),
                Ok(count) => self.written += count,
                Err(error) if is_for_later(&error) => return Ok(()),
                Err(error) => return Err(error.into()),
            }
        }
        self.out.clear();
        self.written = 0;
        match self.stream.flush() {
            Err(error) if !is_for_later(&error) => Err(error.into()),
            _ => Ok(()),
        }
    }
}

/// The payload of the frame at the start of `bytes`, if it is complete.
#[inline]
pub(super) fn payload_at(bytes: &[u8]) -> Result<Option<&[u8]>, Broken> {
    let Some((length, rest)) = bytes.split_first_chunk::<LENGTH_BYTES>() else { return Ok(None) };
    let length = i32::from_be_bytes(*length);
    match usize::try_from(length) {
        Ok(length) if length <= wire::REPLY_BYTES_MAX => Ok(rest.get(..length)),
        _ => Err(Broken(format!("unreasonable reply length: {length}"))),
    }
}

pub(super) fn is_for_later(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted)
}

/// The next xid, which is always positive.
fn following(xid: i32) -> i32 {
    xid.checked_add(1).unwrap_or(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn xids_stay_positive() {
        assert_eq!(following(1), 2);
        assert_eq!(following(i32::MAX), 1);
    }

    #[test]
    fn frames_are_taken_whole_or_not_at_all() {
        let frame = [0, 0, 0, 2, 7, 8, 0];
        assert_eq!(payload_at(&frame).unwrap(), Some(&[7, 8][..]));
        assert_eq!(payload_at(&frame[..5]).unwrap(), None);
        assert_eq!(payload_at(&frame[..3]).unwrap(), None);
        assert!(payload_at(&[0xff; 4]).is_err());
    }
}

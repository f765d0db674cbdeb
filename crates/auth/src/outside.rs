//! A scheme that another program decides over a local socket: the requests to the program, their
//! limits, and the meaning of its answers.
//!
//! This module has neither the socket nor the clock: a driver reports events to an [`Outside`], and
//! executes its outputs. Every error refuses the client: see [`Judged`]. `docs/external-auth.md`
//! describes the protocol.

mod message;

use std::collections::{BTreeMap, VecDeque};
use std::net::IpAddr;
use std::time::Duration;

use sha2::{Digest as _, Sha256};

use message::{Reply, Request};

use crate::Secret;

/// Maximum length of a client's data in bytes. Longer data are refused without a request to the
/// program.
pub const DATA_BYTES_MAX: usize = 64 << 10;
/// Maximum number of waiting clients, including those with a request in progress.
pub const WAITING_MAX: usize = 10_000;
/// Maximum bytes of data of waiting clients.
pub const WAITING_BYTES_MAX: usize = 16 << 20;
/// Maximum number of cached verdicts.
pub const CACHE_MAX: usize = 10_000;
/// The first pause before another attempt to connect to the program; it doubles.
const PAUSE_MIN: Duration = Duration::from_millis(20);
/// The maximum pause.
const PAUSE_MAX: Duration = Duration::from_secs(1);
/// Minimum time between two warnings about one scheme.
const WARNING_PAUSE: Duration = Duration::from_secs(5);

/// Whether a text may be an id: not empty, not too long, and without control characters.
pub fn is_id(text: &str) -> bool {
    (1..=message::ID_BYTES_MAX).contains(&text.len()) && !text.chars().any(char::is_control)
}

/// The settings of a scheme.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rules {
    /// The maximum time that a client waits for a verdict.
    pub time_max: Duration,
    /// The maximum number of requests that the program has at a time.
    pub asked_max: usize,
    /// The maximum time that a positive verdict is cached. Refusals are never cached.
    pub cache_time: Duration,
}

/// The result for a client.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Judged {
    /// The client has these ids of the scheme.
    Ids(Vec<String>),
    /// The program refuses the client's credentials.
    Refused,
    /// There is no verdict: the program is unreachable, is too slow, or has sent an invalid answer.
    /// Another server may get a verdict.
    Unknown,
}

/// An event.
pub enum Input {
    /// A client asks for a verdict.
    Ask {
        /// Returned with the verdict.
        ticket: u64,
        /// The client's address.
        peer: IpAddr,
        /// The client's data: bytes, or null.
        data: Option<Secret>,
    },
    /// The connection to the program is established.
    Connected,
    /// Bytes from the program.
    Received(Vec<u8>),
    /// The connection has ended, or could not be established.
    Ended {
        /// The reason.
        why: String,
        /// Bytes of requests that the connection has not taken: the last ones.
        unsent: usize,
    },
    /// Time has passed.
    Tick,
}

/// An effect to execute.
#[derive(Debug, PartialEq, Eq)]
pub enum Output {
    /// Connect to the program; [`Input::Connected`] or [`Input::Ended`] follows.
    Dial,
    /// Send these bytes, which contain a client's data.
    Send(Secret),
    /// Close the connection. No event follows.
    Close,
    /// A verdict.
    Judged(u64, Judged),
    /// Log a warning.
    Warn(String),
    /// Log information.
    Inform(String),
}

/// The state of the connection to the program.
#[derive(Debug, PartialEq, Eq)]
enum Link {
    /// Not connected.
    Down,
    /// Connecting.
    Dialling,
    /// Connected.
    Up,
    /// Not connected. The next attempt is at this time, if there is a request.
    Pause(Duration),
}

/// The clients that wait for the same verdict, because they sent the same data.
struct Waiting {
    key: [u8; 32],
    peer: IpAddr,
    data: Option<Secret>,
    tickets: Vec<u64>,
    /// The deadline.
    due: Duration,
    /// Whether the request was sent on this connection.
    sent: Option<Sent>,
    /// Whether an earlier connection has taken the request, or a part of it. It is not sent a third
    /// time.
    was_sent: bool,
}

/// A request that was sent.
#[derive(Clone, Copy)]
struct Sent {
    at: Duration,
    bytes: usize,
}

/// A scheme that an external program decides.
pub struct Outside {
    scheme: String,
    rules: Rules,
    /// A secret, so that no other party can compute the keys of the cache.
    secret: [u8; 32],
    link: Link,
    pause: Duration,
    /// The beginning of an incomplete line.
    input: Vec<u8>,
    /// When the program last sent something.
    heard: Duration,
    next_id: u64,
    waiting: BTreeMap<u64, Waiting>,
    by_key: BTreeMap<[u8; 32], u64>,
    clients: usize,
    /// Bytes of the waiting clients' data.
    bytes: usize,
    /// Requests without a waiting client, and their bytes. They count until the program answers.
    late: BTreeMap<u64, usize>,
    cache: BTreeMap<[u8; 32], (Duration, Vec<String>)>,
    cached: VecDeque<[u8; 32]>,
    warned: Option<Duration>,
    is_lost: bool,
}

impl Outside {
    /// It does not connect before the first request. `secret`: random bytes.
    pub fn new(scheme: impl Into<String>, rules: Rules, secret: [u8; 32]) -> Self {
        Self {
            scheme: scheme.into(),
            rules,
            secret,
            link: Link::Down,
            pause: PAUSE_MIN,
            input: Vec::new(),
            heard: Duration::ZERO,
            next_id: 1,
            waiting: BTreeMap::new(),
            by_key: BTreeMap::new(),
            clients: 0,
            bytes: 0,
            late: BTreeMap::new(),
            cache: BTreeMap::new(),
            cached: VecDeque::new(),
            warned: None,
            is_lost: false,
        }
    }

    /// The scheme's name.
    pub fn scheme(&self) -> &str {
        &self.scheme
    }

    /// Processes an event and its time. Returns the effects in order.
    pub fn step(&mut self, now: Duration, input: Input, out: &mut Vec<Output>) {
        match input {
            Input::Ask { ticket, peer, data } => self.ask(now, ticket, peer, data, out),
            Input::Connected => {
                self.link = Link::Up;
                self.heard = now;
                self.input.clear();
            }
            Input::Received(bytes) => self.received(now, &bytes, out),
            Input::Ended { why, unsent } => self.ended(now, &why, unsent, out),
            Input::Tick => {}
        }
        self.expire(now, out);
        self.go_on(now, out);
        self.check();
    }

    /// The latest time for the next [tick](Input::Tick).
    pub fn due(&self) -> Option<Duration> {
        let first = self.waiting.values().map(|waiting| waiting.due).min();
        let dial = match self.link {
            Link::Pause(until) if !self.waiting.is_empty() => Some(until),
            _ => None,
        };
        [first, dial].into_iter().flatten().min()
    }

    fn check(&self) {
        assert_eq!(self.by_key.len(), self.waiting.len(), "each question is asked once");
        assert!(self.cache.len() <= CACHE_MAX && self.cached.len() <= CACHE_MAX);
        assert!(self.clients <= WAITING_MAX && self.clients >= self.waiting.len());
        assert!(self.bytes <= WAITING_BYTES_MAX, "bytes are counted");
        assert!(self.asked() <= self.rules.asked_max, "the program has as much as it may have");
    }

    /// The number of requests that the program has.
    fn asked(&self) -> usize {
        self.late.len() + self.waiting.values().filter(|waiting| waiting.sent.is_some()).count()
    }

    fn key(&self, peer: IpAddr, data: Option<&[u8]>) -> [u8; 32] {
        let mut hash = Sha256::new();
        hash.update(self.secret);
        let peer = peer.to_string();
        hash.update([peer.len() as u8, u8::from(data.is_some())]);
        hash.update(peer);
        hash.update(data.unwrap_or_default());
        hash.update(self.secret);
        hash.finalize().into()
    }

    fn ask(
        &mut self,
        now: Duration,
        ticket: u64,
        peer: IpAddr,
        data: Option<Secret>,
        out: &mut Vec<Output>,
    ) {
        let bytes = data.as_ref().map_or(0, |data| data.expose().len());
        if bytes > DATA_BYTES_MAX {
            out.push(Output::Judged(ticket, Judged::Refused));
            return;
        }
        let key = self.key(peer, data.as_ref().map(Secret::expose));
        if let Some((until, ids)) = self.cache.get(&key)
            && now < *until
        {
            out.push(Output::Judged(ticket, Judged::Ids(ids.clone())));
            return;
        }
        if self.clients >= WAITING_MAX {
            out.push(Output::Judged(ticket, Judged::Unknown));
            let text = format!("the check of scheme {}: too many clients wait", self.scheme);
            self.warn(now, text, out);
            return;
        }
        if let Some(id) = self.by_key.get(&key)
            && let Some(same) = self.waiting.get_mut(id)
        {
            // The request has the deadline of its first client.
            same.tickets.push(ticket);
            self.clients += 1;
            return;
        }
        if self.bytes + bytes > WAITING_BYTES_MAX {
            out.push(Output::Judged(ticket, Judged::Unknown));
            let text = format!("the check of scheme {}: too many bytes wait", self.scheme);
            self.warn(now, text, out);
            return;
        }
        self.clients += 1;
        self.bytes += bytes;
        let id = self.next_id;
        self.next_id += 1;
        let due = now + self.rules.time_max;
        self.by_key.insert(key, id);
        let tickets = vec![ticket];
        let waiting = Waiting { key, peer, data, tickets, due, sent: None, was_sent: false };
        self.waiting.insert(id, waiting);
    }

    fn received(&mut self, now: Duration, bytes: &[u8], out: &mut Vec<Output>) {
        if self.link != Link::Up {
            return;
        }
        self.heard = now;
        // The bytes before `searched` contain no end of a line.
        let mut searched = self.input.len();
        let mut input = std::mem::take(&mut self.input);
        input.extend_from_slice(bytes);
        let mut begin = 0;
        while let Some(length) = input[searched..].iter().position(|byte| *byte == b'\n') {
            let end = searched + length;
            if let Err(fault) = self.answer(now, &input[begin..end], out) {
                return self.breaks(now, &fault, out);
            }
            (begin, searched) = (end + 1, end + 1);
        }
        input.drain(..begin);
        self.input = input;
        if self.input.len() > message::LINE_BYTES_MAX {
            self.breaks(now, "its answer is too long", out);
        }
    }

    fn answer(&mut self, now: Duration, line: &[u8], out: &mut Vec<Output>) -> Result<(), String> {
        if line.len() > message::LINE_BYTES_MAX {
            return Err("its answer is too long".to_owned());
        }
        let Reply { id, verdict, reason, cache_time } = Reply::parse(line)?;
        if self.late.remove(&id).is_some() {
            return Ok(());
        }
        if self.waiting.get(&id).is_none_or(|waiting| waiting.sent.is_none()) {
            return Err(format!("it answers {id}, which was not asked"));
        }
        self.pause = PAUSE_MIN;
        if std::mem::take(&mut self.is_lost) {
            out.push(Output::Inform(format!("the check of scheme {} answers again", self.scheme)));
        }
        match &verdict {
            Judged::Ids(ids) => {
                let time = cache_time.unwrap_or(self.rules.cache_time).min(self.rules.cache_time);
                if let Some(waiting) = self.waiting.get(&id) {
                    let key = waiting.key;
                    self.remember(key, now + time, ids.clone());
                }
            }
            Judged::Refused | Judged::Unknown => {
                if let Some(reason) = reason {
                    let peer = self.waiting.get(&id).map(|waiting| waiting.peer.to_string());
                    let (scheme, peer) = (&self.scheme, peer.unwrap_or_default());
                    self.warn(
                        now,
                        format!("the check of scheme {scheme} refuses {peer}: {reason:?}"),
                        out,
                    );
                }
            }
        }
        self.judge(id, &verdict, out);
        Ok(())
    }

    fn remember(&mut self, key: [u8; 32], until: Duration, ids: Vec<String>) {
        if self.rules.cache_time.is_zero() {
            return;
        }
        if self.cache.insert(key, (until, ids)).is_none() {
            if self.cached.len() == CACHE_MAX
                && let Some(oldest) = self.cached.pop_front()
            {
                self.cache.remove(&oldest);
            }
            self.cached.push_back(key);
        }
    }

    fn judge(&mut self, id: u64, verdict: &Judged, out: &mut Vec<Output>) {
        let Some(waiting) = self.waiting.remove(&id) else { return };
        self.by_key.remove(&waiting.key);
        self.clients -= waiting.tickets.len();
        self.bytes -= waiting.data.as_ref().map_or(0, |data| data.expose().len());
        let judged = |ticket| Output::Judged(ticket, verdict.clone());
        out.extend(waiting.tickets.into_iter().map(judged));
    }

    /// Refuses the clients whose deadline has passed.
    fn expire(&mut self, now: Duration, out: &mut Vec<Output>) {
        let is_due = |waiting: &&Waiting| waiting.due <= now;
        if !self.waiting.values().any(|waiting| is_due(&waiting)) {
            return;
        }
        let due: Vec<u64> =
            self.waiting.iter().filter(|(_, it)| is_due(it)).map(|(id, _)| *id).collect();
        let mut is_silent = false;
        for id in due {
            if let Some(sent) = self.waiting[&id].sent {
                self.late.insert(id, sent.bytes);
                is_silent |= self.heard <= sent.at;
            }
            self.judge(id, &Judged::Unknown, out);
        }
        self.warn(
            now,
            format!("the check of scheme {} gives no verdict in time", self.scheme),
            out,
        );
        // The program reads or answers nothing. Another connection may work.
        if self.link == Link::Up && (is_silent || self.late.len() >= self.rules.asked_max) {
            self.breaks(now, "it does not answer", out);
        }
    }

    fn breaks(&mut self, now: Duration, why: &str, out: &mut Vec<Output>) {
        out.push(Output::Close);
        self.ended(now, why, 0, out);
    }

    /// The first request of which the connection has taken no byte. Requests are sent in the order
    /// of their ids, so all later ones are untouched, too.
    fn first_untouched(&self, mut unsent: usize) -> u64 {
        let waiting = self.waiting.iter().filter_map(|(id, it)| Some((*id, it.sent?.bytes)));
        let late = self.late.iter().map(|(id, bytes)| (*id, *bytes));
        let sent: BTreeMap<u64, usize> = waiting.chain(late).collect();
        let mut first = self.next_id;
        for (id, bytes) in sent.iter().rev() {
            if *bytes > unsent {
                break;
            }
            unsent -= bytes;
            first = *id;
        }
        first
    }

    fn ended(&mut self, now: Duration, why: &str, unsent: usize, out: &mut Vec<Output>) {
        // The program has not seen these, for example because it closed the connection before.
        let untouched = self.first_untouched(unsent);
        self.link = Link::Pause(now + self.pause);
        self.pause = (self.pause * 2).min(PAUSE_MAX);
        self.input.clear();
        self.late.clear();
        let lost: Vec<u64> = self
            .waiting
            .iter_mut()
            .filter_map(|(id, waiting)| {
                waiting.sent.take()?;
                if *id >= untouched {
                    return None;
                }
                std::mem::replace(&mut waiting.was_sent, true).then_some(*id)
            })
            .collect();
        for id in &lost {
            self.judge(*id, &Judged::Unknown, out);
        }
        self.is_lost = true;
        self.warn(now, format!("the check of scheme {} is not there: {why}", self.scheme), out);
    }

    /// Connects if a client waits, and sends as many requests as the program may have at a time.
    fn go_on(&mut self, now: Duration, out: &mut Vec<Output>) {
        if self.waiting.is_empty() {
            return;
        }
        match self.link {
            Link::Dialling => {}
            Link::Pause(until) if now < until => {}
            Link::Down | Link::Pause(_) => {
                self.link = Link::Dialling;
                out.push(Output::Dial);
            }
            Link::Up => {
                let room = self.rules.asked_max - self.asked();
                let next = self.waiting.iter_mut().filter(|(_, waiting)| waiting.sent.is_none());
                for (id, waiting) in next.take(room) {
                    let request = Request {
                        id: *id,
                        scheme: &self.scheme,
                        address: waiting.peer,
                        data: waiting.data.as_ref().map(Secret::expose),
                    };
                    let line = request.line();
                    waiting.sent = Some(Sent { at: now, bytes: line.len() });
                    out.push(Output::Send(Secret::new(line)));
                }
            }
        }
    }

    fn warn(&mut self, now: Duration, text: String, out: &mut Vec<Output>) {
        if self.warned.is_none_or(|before| now >= before + WARNING_PAUSE) {
            self.warned = Some(now);
            out.push(Output::Warn(text));
        }
    }
}

#[cfg(test)]
mod tests;

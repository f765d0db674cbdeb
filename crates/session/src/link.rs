//! An established connection, and the requests sent on it but not yet answered.

use std::collections::{BTreeMap, VecDeque};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use zebu_proto::{OpCode, Xid};

use crate::event::{Attempt, Effect, RequestId};
use crate::{Frame, Series};

/// What an outstanding answer is for.
#[derive(Debug)]
pub(crate) enum Awaited {
    /// A request of the caller, with its rare properties.
    Request(RequestId, Option<Box<More>>),
    /// A request to remove a watch, whose answer does not matter.
    Unwatch,
    /// A SASL token.
    Proof,
    /// The end of the session.
    Close,
}

/// Properties that few requests have.
#[derive(Debug)]
pub(crate) struct More {
    pub(crate) effect: Effect,
    pub(crate) series: Option<Series>,
}

impl Awaited {
    pub(crate) fn request(id: RequestId, effect: Effect, series: Option<Series>) -> Self {
        let has_more = effect != Effect::None || series.is_some();
        Self::Request(id, has_more.then(|| Box::new(More { effect, series })))
    }

    /// The path on which the request sets a watch.
    fn registers(&self) -> Option<&Arc<str>> {
        match self {
            Self::Request(_, Some(more)) => match &more.effect {
                Effect::Watch(watch) => Some(&watch.path),
                Effect::None | Effect::Unwatch { .. } => None,
            },
            _ => None,
        }
    }
}

#[derive(Debug)]
struct Sent {
    xid: Xid,
    /// When it was submitted. Never earlier than the previous one.
    made: Duration,
    awaited: Awaited,
}

/// A connection on which the session lives.
#[derive(Debug)]
pub(crate) struct Link {
    pub(crate) attempt: Attempt,
    pub(crate) server: SocketAddr,
    pub(crate) read_only: bool,
    /// When something was last received.
    pub(crate) heard: Duration,
    /// When something was last sent.
    pub(crate) spoke: Duration,
    /// When the newest answered request was sent, or submitted if that is earlier.
    proven: Duration,
    /// When the unanswered pings were sent, oldest first.
    pings: VecDeque<Duration>,
    /// Unanswered credentials, as indexes into the session's list.
    pub(crate) credentials: VecDeque<usize>,
    /// A read-write server found while this one is read-only. The session moves there once all
    /// requests are answered.
    pub(crate) moving_to: Option<SocketAddr>,
    sent: VecDeque<Sent>,
    /// Paths on which requests in flight set watches, with their numbers.
    registering: BTreeMap<Arc<str>, u32>,
    xid: Xid,
}

impl Link {
    pub(crate) fn new(
        attempt: Attempt,
        server: SocketAddr,
        read_only: bool,
        xid: Xid,
        (asked, now): (Duration, Duration),
    ) -> Self {
        assert!(asked <= now, "the server has answered before it was asked");
        Self {
            attempt,
            server,
            read_only,
            heard: now,
            spoke: now,
            proven: asked,
            pings: VecDeque::new(),
            credentials: VecDeque::new(),
            moving_to: None,
            sent: VecDeque::new(),
            registering: BTreeMap::new(),
            xid,
        }
    }

    /// Asserts what holds between any two steps.
    pub(crate) fn check(&self) {
        assert!(self.pings.iter().is_sorted(), "a heartbeat is older than the one before");
        assert!(self.registering.len() <= self.sent.len(), "a watch that no request leaves");
        let last = self.sent.back();
        assert!(last.is_none_or(|last| last.xid == self.xid), "the last xid is another one's");
    }

    /// The xid of the last request sent, on this connection or an earlier one.
    pub(crate) fn xid(&self) -> Xid {
        self.xid
    }

    /// Sends a request under the next xid.
    pub(crate) fn send(
        &mut self,
        now: Duration,
        made: Duration,
        frame: &Frame,
        awaited: Awaited,
        out: &mut Vec<u8>,
    ) {
        // As in clients of the original: from 1 to 2^31 − 2, then again from 1.
        self.xid = Xid(if self.xid.0 == i32::MAX - 1 { 1 } else { self.xid.0 + 1 });
        assert!(0 < self.xid.0 && self.xid.0 < i32::MAX, "{:?} has a meaning of its own", self.xid);
        assert!(self.sent.back().is_none_or(|last| last.made <= made), "older than the one before");
        if let Some(path) = awaited.registers() {
            *self.registering.entry(path.clone()).or_default() += 1;
        }
        self.sent.push_back(Sent { xid: self.xid, made, awaited });
        frame.write(self.xid, out);
        self.spoke = now;
    }

    /// Sends a packet with a special xid.
    pub(crate) fn send_as(&mut self, now: Duration, frame: &Frame, xid: Xid, out: &mut Vec<u8>) {
        assert!(xid.0 < 0, "{xid:?} is a request's");
        frame.write(xid, out);
        self.spoke = now;
    }

    /// Sends a ping.
    pub(crate) fn ping(&mut self, now: Duration, out: &mut Vec<u8>) {
        self.pings.push_back(now);
        self.send_as(now, &Frame::new(OpCode::PING, |_| {}), Xid::PING, out);
    }

    /// The oldest ping was answered. Surplus answers of a broken server prove nothing.
    pub(crate) fn pinged(&mut self) {
        if let Some(sent) = self.pings.pop_front() {
            self.proven = self.proven.max(sent);
        }
    }

    /// The server has heard of the session at this time or later.
    pub(crate) fn proven(&self) -> Duration {
        self.proven
    }

    /// The purpose of the answer with this xid; `None` if it is not the next one due.
    pub(crate) fn answered(&mut self, xid: Xid) -> Option<Awaited> {
        if self.sent.front()?.xid != xid {
            return None;
        }
        let Sent { made, awaited, .. } = self.sent.pop_front()?;
        self.proven = self.proven.max(made);
        if let Some(path) = awaited.registers()
            && let Some(count) = self.registering.get_mut(path)
        {
            *count -= 1;
            if *count == 0 {
                self.registering.remove(path);
            }
        }
        Some(awaited)
    }

    /// Whether a request in flight sets a watch on this path.
    pub(crate) fn is_registering(&self, path: &str) -> bool {
        self.registering.contains_key(path)
    }

    /// The number of outstanding answers.
    pub(crate) fn sent(&self) -> usize {
        self.sent.len()
    }

    /// When the oldest unanswered request was submitted.
    pub(crate) fn oldest(&self) -> Option<Duration> {
        self.sent.front().map(|sent| sent.made)
    }

    /// The caller's requests that will get no answer, in order, with the time of their submission.
    /// Breaks their series.
    pub(crate) fn into_lost(self) -> impl Iterator<Item = (RequestId, Duration)> {
        self.sent.into_iter().filter_map(|sent| match sent.awaited {
            Awaited::Request(id, more) => {
                if let Some(series) = more.and_then(|more| more.series) {
                    series.break_off();
                }
                Some((id, sent.made))
            }
            Awaited::Unwatch | Awaited::Proof | Awaited::Close => None,
        })
    }
}

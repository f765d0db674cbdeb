//! The requests of sessions: the loads of all measurements, and the plan by which they are sent.

use std::time::Duration;

use crate::clock::{Clock, Nanos, nanos};
use crate::tally::Kind;

/// The requests of a run.
pub(crate) trait Workload {
    /// Appends the next request of connection `conn` to `out`, or nothing if there is none.
    fn next(&mut self, conn: usize, xid: i32, out: &mut Vec<u8>) -> Option<Kind>;

    /// A notification arrived at connection `conn`.
    fn notified(&mut self, _conn: usize, _now: Nanos) {}

    /// Whether everything that the workload waits for has happened.
    fn is_done(&self) -> bool {
        false
    }
}

/// Sends no requests.
pub(crate) struct Idle;

impl Workload for Idle {
    fn next(&mut self, _conn: usize, _xid: i32, _out: &mut Vec<u8>) -> Option<Kind> {
        None
    }
}

/// How requests are sent.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Plan {
    /// The most requests in flight on a connection.
    pub(crate) depth: u32,
    /// Requests per second over all connections, at fixed intervals whatever the replies do (open
    /// loop); `None` sends the next request when a reply arrives (closed loop).
    pub(crate) rate: Option<f64>,
    /// The start of the open loop's schedule.
    pub(crate) start: Nanos,
    /// No request is sent after this.
    pub(crate) stop: Nanos,
    /// Whether to stay until `stop`, or until the workload is done, even if all requests are
    /// answered.
    pub(crate) linger: bool,
    /// Idle sessions are pinged after this time.
    pub(crate) ping_after: Option<Duration>,
}

impl Plan {
    /// Sends the whole workload as fast as replies arrive, within `limit`.
    pub(crate) fn all(clock: Clock, depth: u32, limit: Duration) -> Self {
        let start = clock.now();
        Self {
            depth,
            rate: None,
            start,
            stop: start + nanos(limit),
            linger: false,
            ping_after: None,
        }
    }

    /// Waits up to `limit` for the workload to be done, keeping sessions alive.
    pub(crate) fn wait(clock: Clock, limit: Duration, ping_after: Duration) -> Self {
        Self { linger: true, ping_after: Some(ping_after), ..Self::all(clock, 1, limit) }
    }
}

/// One request per connection.
pub(crate) struct Once<F> {
    asked: Vec<bool>,
    request: F,
}

impl<F: FnMut(i32, &mut Vec<u8>)> Once<F> {
    pub(crate) fn new(connections: usize, request: F) -> Self {
        Self { asked: vec![false; connections], request }
    }
}

impl<F: FnMut(i32, &mut Vec<u8>)> Workload for Once<F> {
    fn next(&mut self, conn: usize, xid: i32, out: &mut Vec<u8>) -> Option<Kind> {
        if std::mem::replace(&mut self.asked[conn], true) {
            return None;
        }
        (self.request)(xid, out);
        Some(Kind::Read)
    }
}

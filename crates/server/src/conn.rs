//! A client's connection as the rest of the server sees it: where answers go, who the client is,
//! and what it has done so far.

use std::net::{IpAddr, SocketAddr};
use std::sync::atomic::{
    AtomicBool, AtomicI32, AtomicI64, AtomicU32, AtomicU64, AtomicUsize, Ordering,
};
use std::time::Duration;

use parking_lot::{Mutex, RwLock};
use tokio::sync::Notify;
use zebu_proto::{OpCode, SessionId};
use zebu_replica::ConnId;
use zebu_replica::auth::Credentials;

/// Unsent bytes above which a connection that does not read what it is sent is closed, unless more are
/// needed for the answers it may ask for.
pub const OUTBOX_BYTES_MAX: usize = 64 << 20;

/// What is to be sent, and whether that is the end.
///
/// **Invariant:** whoever locks the tree and an outbox locks the tree first.
#[derive(Debug)]
pub struct Outbox {
    /// Whole frames, in order.
    bytes: Vec<u8>,
    bytes_max: usize,
    end: OutboxEnd,
}

/// Whether a connection goes on after what waits in its outbox.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OutboxEnd {
    /// It goes on.
    #[default]
    Open,
    /// It ends once everything is sent; nothing more is added.
    Last,
    /// It ends at once: it did not read what it was sent.
    Overrun,
}

impl Outbox {
    /// An empty one. Once more than `bytes_max` wait in it, the connection ends.
    pub fn new(bytes_max: usize) -> Self {
        Self { bytes: Vec::new(), bytes_max, end: OutboxEnd::Open }
    }

    /// Adds what `write` appends, unless the connection ends; says how many bytes that were.
    pub fn put(&mut self, write: impl FnOnce(&mut Vec<u8>)) -> usize {
        if self.end != OutboxEnd::Open {
            return 0;
        }
        let before = self.bytes.len();
        if before > self.bytes_max {
            self.bytes = Vec::new();
            self.end = OutboxEnd::Overrun;
            return 0;
        }
        write(&mut self.bytes);
        self.bytes.len() - before
    }

    /// Nothing follows what is in it.
    pub fn close(&mut self) {
        if self.end == OutboxEnd::Open {
            self.end = OutboxEnd::Last;
        }
    }

    /// Whether the connection goes on.
    pub fn end(&self) -> OutboxEnd {
        self.end
    }

    /// How many bytes wait.
    pub fn len(&self) -> usize {
        self.bytes.len()
    }

    /// Takes what waits; `empty`, whose room is used for what comes, is empty.
    pub fn swap(&mut self, empty: &mut Vec<u8>) {
        assert!(empty.is_empty(), "what was taken before is sent");
        std::mem::swap(&mut self.bytes, empty);
    }
}

/// Counters that the four-letter words `cons` and `stat` show.
#[derive(Debug, Default)]
pub struct ConnStats {
    /// Frames received.
    pub received: AtomicU64,
    /// Frames sent.
    pub sent: AtomicU64,
    /// The last operation.
    pub last_op: AtomicI32,
    /// Its xid; −1 before the first.
    pub last_cxid: AtomicI64,
    /// The last zxid answered with; −1 before the first.
    pub last_zxid: AtomicI64,
    /// When the last answer was made, in milliseconds of the monotonic clock.
    pub last_response_ms: AtomicU64,
    /// Latency of the last answer, in milliseconds.
    pub last_latency_ms: AtomicU64,
    /// Least latency, in milliseconds; `u64::MAX` before the first answer.
    pub latency_ms_min: AtomicU64,
    /// Largest latency, in milliseconds.
    pub latency_ms_max: AtomicU64,
    /// Sum of all latencies, in milliseconds.
    pub latency_ms_sum: AtomicU64,
    /// Number of answers with a latency.
    pub latencies: AtomicU64,
}

impl ConnStats {
    /// Everything back to the beginning.
    pub fn reset(&self) {
        for counter in [
            &self.received,
            &self.sent,
            &self.last_response_ms,
            &self.last_latency_ms,
            &self.latency_ms_max,
            &self.latency_ms_sum,
            &self.latencies,
        ] {
            counter.store(0, Ordering::Relaxed);
        }
        self.latency_ms_min.store(u64::MAX, Ordering::Relaxed);
        self.last_cxid.store(-1, Ordering::Relaxed);
        self.last_zxid.store(-1, Ordering::Relaxed);
        self.last_op.store(NO_OP, Ordering::Relaxed);
    }

    /// Notes `count` answers made at `now_ms` to requests that took `latency_ms`.
    pub fn answered(
        &self,
        count: u64,
        last_op: OpCode,
        cxid: i32,
        zxid: i64,
        now_ms: u64,
        latency_ms: u64,
    ) {
        self.last_op.store(last_op.0, Ordering::Relaxed);
        if cxid >= 0 {
            self.last_cxid.store(cxid.into(), Ordering::Relaxed);
        }
        self.last_zxid.store(zxid, Ordering::Relaxed);
        self.last_response_ms.store(now_ms, Ordering::Relaxed);
        self.last_latency_ms.store(latency_ms, Ordering::Relaxed);
        self.latency_ms_min.fetch_min(latency_ms, Ordering::Relaxed);
        self.latency_ms_max.fetch_max(latency_ms, Ordering::Relaxed);
        self.latency_ms_sum.fetch_add(latency_ms * count, Ordering::Relaxed);
        self.latencies.fetch_add(count, Ordering::Relaxed);
    }
}

/// `last_op` before the first operation.
pub const NO_OP: i32 = i32::MIN;

/// A client's connection.
#[derive(Debug)]
pub struct Conn {
    /// Its number.
    pub id: ConnId,
    /// Where it comes from.
    pub peer: SocketAddr,
    /// When it came, in milliseconds since the Unix epoch.
    pub established_ms: i64,
    /// What is to be sent.
    pub outbox: Mutex<Outbox>,
    /// Wakes the connection's task.
    pub wake: Notify,
    /// Set by whoever wakes it, so that only the first does.
    woken: AtomicBool,
    /// The network worker that is to serve it.
    pub worker: AtomicUsize,
    /// Requests on their way through the replica.
    pub in_flight: AtomicU32,
    /// Those of them whose answers nobody knows the size of.
    pub queued_reads: AtomicU32,
    /// Its session; 0 before it has one.
    session: AtomicI64,
    /// The session's timeout, in milliseconds.
    pub timeout_ms: AtomicI32,
    /// Whether the client sent the optional byte of the connect request.
    pub says_read_only: AtomicBool,
    /// Whether it wants to go on with a session, not to begin one.
    pub renews: AtomicBool,
    /// Its ids.
    ids: RwLock<Credentials>,
    /// When it was last heard of, in milliseconds of the server's monotonic clock.
    pub heard_ms: AtomicU64,
    /// Counters.
    pub stats: ConnStats,
}

impl Conn {
    /// A connection that was just accepted.
    pub fn new(
        id: ConnId,
        peer: SocketAddr,
        ids: Credentials,
        established_ms: i64,
        worker: usize,
        outbox: Outbox,
    ) -> Self {
        let conn = Self {
            id,
            peer,
            established_ms,
            outbox: Mutex::new(outbox),
            wake: Notify::new(),
            woken: AtomicBool::new(false),
            worker: AtomicUsize::new(worker),
            in_flight: AtomicU32::new(0),
            queued_reads: AtomicU32::new(0),
            session: AtomicI64::new(0),
            timeout_ms: AtomicI32::new(0),
            says_read_only: AtomicBool::new(false),
            renews: AtomicBool::new(false),
            ids: RwLock::new(ids),
            heard_ms: AtomicU64::new(0),
            stats: ConnStats::default(),
        };
        conn.stats.reset();
        conn
    }

    /// The client's address.
    pub fn address(&self) -> IpAddr {
        self.peer.ip().to_canonical()
    }

    /// The session, once there is one.
    pub fn session(&self) -> Option<SessionId> {
        let id = self.session.load(Ordering::Acquire);
        (id != 0).then_some(SessionId(id))
    }

    /// Gives the connection its session.
    pub fn set_session(&self, session: SessionId, timeout_ms: i32) {
        self.timeout_ms.store(timeout_ms, Ordering::Relaxed);
        self.session.store(session.0, Ordering::Release);
    }

    /// The ids it has now.
    pub fn ids(&self) -> Credentials {
        self.ids.read().clone()
    }

    /// Runs `look` on the ids it has now.
    pub fn with_ids<T>(&self, look: impl FnOnce(&Credentials) -> T) -> T {
        look(&self.ids.read())
    }

    /// Replaces the ids.
    pub fn set_ids(&self, ids: Credentials) {
        *self.ids.write() = ids;
    }

    /// Says that there is something to send or to look at.
    pub fn wake(&self) {
        if !self.woken.swap(true, Ordering::AcqRel) {
            self.wake.notify_one();
        }
    }

    /// The task is about to look: whatever comes from now on wakes it again.
    ///
    /// A swap, not a store: the task must see what came before the last wake-up that it takes.
    pub fn looking(&self) {
        self.woken.swap(false, Ordering::AcqRel);
    }

    /// When it was last heard of.
    pub fn heard(&self) -> Duration {
        Duration::from_millis(self.heard_ms.load(Ordering::Relaxed))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_follows_the_last_frame() {
        let mut outbox = Outbox::new(OUTBOX_BYTES_MAX);
        assert_eq!(outbox.put(|bytes| bytes.extend([1, 2])), 2);
        outbox.close();
        assert_eq!(outbox.put(|bytes| bytes.push(3)), 0);
        let mut taken = Vec::new();
        outbox.swap(&mut taken);
        assert_eq!((taken, outbox.end()), (vec![1, 2], OutboxEnd::Last));
    }

    #[test]
    fn what_nobody_reads_is_bounded() {
        let mut outbox = Outbox::new(OUTBOX_BYTES_MAX);
        // One frame may be as large as it has to be.
        outbox.put(|bytes| bytes.resize(OUTBOX_BYTES_MAX + 1, 0));
        assert_eq!(outbox.end(), OutboxEnd::Open);
        outbox.put(|bytes| bytes.push(0));
        assert_eq!((outbox.end(), outbox.len()), (OutboxEnd::Overrun, 0));
        outbox.close();
        assert_eq!(outbox.end(), OutboxEnd::Overrun);
    }
}

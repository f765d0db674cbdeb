//! The record of a client's connection: its task, its worker, and its statistics.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicI32, AtomicI64, AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use atomic_waker::AtomicWaker;
use parking_lot::Mutex;
use zebu_proto::OpCode;

use crate::clients::access::Entered;
use crate::clients::wakes::Wakes;

/// A client's connection.
pub type Conn = zebu_engine::Conn<Side>;

/// The state of a connection.
#[derive(Debug)]
pub struct Side {
    /// The client's address.
    pub peer: SocketAddr,
    /// The time of its accept, in milliseconds since the Unix epoch.
    pub established_ms: i64,
    /// Whether the connection uses TLS.
    pub is_secure: bool,
    /// The connection's task, while it waits.
    pub task: AtomicWaker,
    /// Wakes it, if a network worker runs it.
    wakes: Option<Arc<Wakes>>,
    /// The network worker that should serve it.
    pub worker: AtomicUsize,
    /// The identities for which it counts.
    pub entered: Mutex<Entered>,
    /// The time since which the oldest answers made by the replica's thread wait for the socket, in
    /// microseconds of the monotonic clock; 0 if there are none.
    waiting_since_us: AtomicU64,
    /// Counters.
    pub stats: ConnStats,
}

impl Side {
    /// The state of a connection that was just accepted. `wakes`: wakes the tasks of network
    /// workers; `None` if none of them runs its task.
    pub fn new(
        peer: SocketAddr,
        established_ms: i64,
        worker: usize,
        wakes: Option<Arc<Wakes>>,
        is_secure: bool,
        entered: Entered,
    ) -> Self {
        let stats = ConnStats::default();
        stats.reset();
        let worker = AtomicUsize::new(worker);
        let (task, entered) = (AtomicWaker::new(), Mutex::new(entered));
        let waiting_since_us = AtomicU64::new(0);
        Self {
            peer,
            established_ms,
            is_secure,
            task,
            wakes,
            worker,
            entered,
            waiting_since_us,
            stats,
        }
    }

    /// Answers were made at this time.
    pub fn answers_at(&self, now: Duration) {
        if self.waiting_since_us.load(Ordering::Relaxed) == 0 {
            self.waiting_since_us.store(now.as_micros() as u64, Ordering::Relaxed);
        }
    }

    /// All answers are with the socket. Returns the time since which the oldest of them waited, if
    /// any did.
    pub fn all_sent(&self) -> Option<Duration> {
        if self.waiting_since_us.load(Ordering::Relaxed) == 0 {
            return None;
        }
        Some(Duration::from_micros(self.waiting_since_us.swap(0, Ordering::Relaxed)))
    }
}

impl zebu_engine::Side for Side {
    fn wake(&self) {
        match &self.wakes {
            Some(wakes) => wakes.wake(self.worker.load(Ordering::Relaxed), &self.task),
            None => self.task.wake(),
        }
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
    /// The zxid of the last answer; −1 before the first.
    pub last_zxid: AtomicI64,
    /// When the last answer was made, in milliseconds of the monotonic clock.
    pub last_response_ms: AtomicU64,
    /// Latency of the last answer, in milliseconds.
    pub last_latency_ms: AtomicU64,
    /// The smallest latency, in milliseconds; `u64::MAX` before the first answer.
    pub latency_ms_min: AtomicU64,
    /// The largest latency, in milliseconds.
    pub latency_ms_max: AtomicU64,
    /// The sum of all latencies, in milliseconds.
    pub latency_ms_sum: AtomicU64,
    /// Number of answers with a latency.
    pub latencies: AtomicU64,
}

impl ConnStats {
    /// Resets all counters.
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

    /// Counts `count` answers made at `now_ms` to requests that took `latency_ms`.
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
        // Most latencies are neither the smallest nor the largest.
        if latency_ms < self.latency_ms_min.load(Ordering::Relaxed) {
            self.latency_ms_min.fetch_min(latency_ms, Ordering::Relaxed);
        }
        if latency_ms > self.latency_ms_max.load(Ordering::Relaxed) {
            self.latency_ms_max.fetch_max(latency_ms, Ordering::Relaxed);
        }
        // Most are less than a millisecond.
        if latency_ms > 0 {
            self.latency_ms_sum.fetch_add(latency_ms * count, Ordering::Relaxed);
        }
        self.latencies.fetch_add(count, Ordering::Relaxed);
    }
}

/// The value of `last_op` before the first operation.
pub const NO_OP: i32 = i32::MIN;

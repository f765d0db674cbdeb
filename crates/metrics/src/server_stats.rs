//! Packets, latencies and response sizes since the last `srst`, as shown by `srvr`, `stat` and the
//! gauges of `mntr`.
//! Source: `ServerStats.java`, `BufferStats.java`.

use std::sync::atomic::{AtomicI64, Ordering::Relaxed};

use super::{Counter, Summary};

/// The statistics.
#[derive(Debug, Default)]
pub struct ServerStats {
    /// Frames received.
    pub packets_received: Counter,
    /// Frames sent.
    pub packets_sent: Counter,
    /// fsyncs above the warning threshold.
    pub fsync_threshold_exceed_count: Counter,
    /// Milliseconds from arrival to answer.
    latency: Summary,
    /// Payload bytes of response frames.
    response: ResponseStats,
}

/// Sizes of the last, smallest and largest response; −1 if there was none.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ResponseSizes {
    /// Size of the last response.
    pub last_bytes: i64,
    /// Size of the smallest response.
    pub min_bytes: i64,
    /// Size of the largest response.
    pub max_bytes: i64,
}

#[derive(Debug)]
struct ResponseStats {
    last_bytes: AtomicI64,
    min_bytes: AtomicI64,
    max_bytes: AtomicI64,
}

impl Default for ResponseStats {
    fn default() -> Self {
        Self {
            last_bytes: AtomicI64::new(-1),
            min_bytes: AtomicI64::new(-1),
            max_bytes: AtomicI64::new(-1),
        }
    }
}

impl ServerStats {
    /// Records `answers` answers with the same latency.
    pub fn record_latency(&self, latency_ms: i64, answers: u64) {
        self.latency.add_many(latency_ms, answers);
    }

    /// Records the sizes of responses.
    pub fn record_responses(&self, seen: ResponseSizes) {
        let sizes = &self.response;
        sizes.last_bytes.store(seen.last_bytes, Relaxed);
        if seen.max_bytes > sizes.max_bytes.load(Relaxed) {
            sizes.max_bytes.fetch_max(seen.max_bytes, Relaxed);
        }
        let min = sizes.min_bytes.load(Relaxed);
        if min == -1 || seen.min_bytes < min {
            // A race between two threads may keep the larger of two small values, which is
            // acceptable.
            sizes.min_bytes.store(seen.min_bytes, Relaxed);
        }
    }

    /// Latency since the last reset.
    pub fn latency(&self) -> &Summary {
        &self.latency
    }

    /// Response sizes since the last reset.
    pub fn response_sizes(&self) -> ResponseSizes {
        ResponseSizes {
            last_bytes: self.response.last_bytes.load(Relaxed),
            min_bytes: self.response.min_bytes.load(Relaxed),
            max_bytes: self.response.max_bytes.load(Relaxed),
        }
    }

    /// Resets the statistics (`srst`).
    pub fn reset(&self) {
        self.packets_received.reset();
        self.packets_sent.reset();
        self.fsync_threshold_exceed_count.reset();
        self.latency.reset_parts();
        for size in [&self.response.last_bytes, &self.response.min_bytes, &self.response.max_bytes]
        {
            size.store(-1, Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn latencies_and_sizes_are_recorded_and_reset() {
        let stats = ServerStats::default();
        assert_eq!((stats.latency().count(), stats.latency().min()), (0, 0));
        [(4, 1), (0, 1), (11, 1), (5, 2)]
            .into_iter()
            .for_each(|(ms, answers)| stats.record_latency(ms, answers));
        assert_eq!(
            (stats.latency().min(), stats.latency().max(), stats.latency().avg()),
            (0, 11, 5.0)
        );
        for (last_bytes, min_bytes, max_bytes) in [(100, 100, 100), (20, 16, 30)] {
            stats.record_responses(ResponseSizes { last_bytes, min_bytes, max_bytes });
        }
        assert_eq!(
            stats.response_sizes(),
            ResponseSizes { last_bytes: 20, min_bytes: 16, max_bytes: 100 }
        );
        stats.reset();
        assert_eq!(stats.response_sizes().min_bytes, -1);
        assert_eq!(stats.latency().count(), 0);
    }
}

//! Packets, latencies and response sizes since the last `srst`: what `srvr`, `stat` and the gauges of `mntr` show.
//!
//! Source: `ServerStats.java`, `BufferStats.java`.

use std::sync::atomic::{AtomicI64, Ordering::Relaxed};

use super::{Counter, Summary};

/// The numbers.
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

/// Last, smallest and largest response; -1 until there is one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ResponseSizes {
    /// Of the last response.
    pub last_bytes: i64,
    /// Of the smallest.
    pub min_bytes: i64,
    /// Of the largest.
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

/// Latencies gathered on one thread, to be merged at once: a shared number per answer would be what the cores fight over.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LatencyBatch {
    count: u64,
    sum_ms: i64,
    min_ms: i64,
    max_ms: i64,
}

impl Default for LatencyBatch {
    fn default() -> Self {
        Self { count: 0, sum_ms: 0, min_ms: i64::MAX, max_ms: i64::MIN }
    }
}

impl LatencyBatch {
    /// Gathers one latency.
    pub fn add(&mut self, latency_ms: i64) {
        self.count += 1;
        self.sum_ms += latency_ms;
        self.min_ms = self.min_ms.min(latency_ms);
        self.max_ms = self.max_ms.max(latency_ms);
    }
}

impl ServerStats {
    /// Records gathered latencies.
    pub fn record(&self, batch: LatencyBatch) {
        if batch.count > 0 {
            self.latency.merge(batch.count, batch.sum_ms, batch.min_ms, batch.max_ms);
        }
    }

    /// Records the size of a response.
    pub fn record_response(&self, bytes: i64) {
        let sizes = &self.response;
        sizes.last_bytes.store(bytes, Relaxed);
        if bytes > sizes.max_bytes.load(Relaxed) {
            sizes.max_bytes.fetch_max(bytes, Relaxed);
        }
        let min = sizes.min_bytes.load(Relaxed);
        if min == -1 || bytes < min {
            // A race between two threads leaves one of two small values: good enough for a statistic.
            sizes.min_bytes.store(bytes, Relaxed);
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

    /// Starts again (`srst`).
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
    fn batches_and_sizes_are_recorded_and_reset() {
        let stats = ServerStats::default();
        let mut batch = LatencyBatch::default();
        stats.record(batch);
        assert_eq!((stats.latency().count(), stats.latency().min()), (0, 0));
        [4, 0, 11].into_iter().for_each(|ms| batch.add(ms));
        stats.record(batch);
        assert_eq!(
            (stats.latency().min(), stats.latency().max(), stats.latency().avg()),
            (0, 11, 5.0)
        );
        [100, 16, 20].into_iter().for_each(|bytes| stats.record_response(bytes));
        assert_eq!(
            stats.response_sizes(),
            ResponseSizes { last_bytes: 20, min_bytes: 16, max_bytes: 100 }
        );
        stats.reset();
        assert_eq!(stats.response_sizes().min_bytes, -1);
        assert_eq!(stats.latency().count(), 0);
    }
}

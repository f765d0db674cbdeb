//! How much is in progress, and how much is too much.
//!
//! Counts requests from the moment they leave their connection for the replica until they are
//! answered. What a limit means is decided by the connections: they stop reading, or end.

use std::sync::atomic::{AtomicUsize, Ordering};

use crate::config::LimitConfig;

/// What part of the requests that may be in progress one connection always may have.
const SHARES: u32 = 32;

/// Requests in progress.
#[derive(Debug)]
pub struct Load {
    requests: AtomicUsize,
    bytes: AtomicUsize,
    large_bytes: AtomicUsize,
    limits: LimitConfig,
}

impl Load {
    /// Nothing is in progress.
    pub fn new(limits: LimitConfig) -> Self {
        Self {
            requests: AtomicUsize::new(0),
            bytes: AtomicUsize::new(0),
            large_bytes: AtomicUsize::new(0),
            limits,
        }
    }

    /// How many requests there are.
    pub fn requests(&self) -> usize {
        self.requests.load(Ordering::Relaxed)
    }

    /// A request is handed to the replica; `bytes` is the length of its frame. False when there is
    /// no room for a request of that length, and then nothing has happened.
    ///
    /// Source: `ZooKeeperServer.checkRequestSizeWhenMessageReceived`.
    #[must_use]
    pub fn enter(&self, bytes: usize) -> bool {
        if self.is_large(bytes) {
            let most = self.limits.large_requests_bytes_max as usize;
            let before = self.large_bytes.fetch_add(bytes, Ordering::Relaxed);
            if before.saturating_add(bytes) > most {
                self.large_bytes.fetch_sub(bytes, Ordering::Relaxed);
                return false;
            }
        }
        self.requests.fetch_add(1, Ordering::Relaxed);
        self.bytes.fetch_add(bytes, Ordering::Relaxed);
        true
    }

    /// A request is answered or given up.
    pub fn leave(&self, bytes: usize) {
        self.requests.fetch_sub(1, Ordering::Relaxed);
        self.bytes.fetch_sub(bytes, Ordering::Relaxed);
        if self.is_large(bytes) {
            self.large_bytes.fetch_sub(bytes, Ordering::Relaxed);
        }
    }

    /// Whether a connection that waits for `in_flight` answers has to wait before it sends more.
    ///
    /// When there are too many requests, a connection may still have its share of them in progress:
    /// one by one they would each pay for a round trip of their own. Source:
    /// `ZooKeeperServer.shouldThrottle`, whose share is one.
    pub fn holds(&self, in_flight: u32) -> bool {
        let LimitConfig { outstanding_requests, outstanding_bytes, .. } = self.limits;
        let share = (outstanding_requests / SHARES).max(1);
        in_flight > 0
            && (in_flight >= share && self.requests() > outstanding_requests as usize
                || self.bytes.load(Ordering::Relaxed) > outstanding_bytes)
    }

    /// Whether a request of that length counts against `largeRequestMaxBytes`.
    fn is_large(&self, bytes: usize) -> bool {
        self.limits.large_request_bytes.is_some_and(|threshold| bytes > threshold as usize)
    }

    /// Whether there is room for a request of that length.
    ///
    /// Source: `ZooKeeperServer.checkRequestSizeWhenReceivingMessage`.
    pub fn has_room_for(&self, bytes: usize) -> bool {
        let most = self.limits.large_requests_bytes_max as usize;
        !self.is_large(bytes)
            || self.large_bytes.load(Ordering::Relaxed).saturating_add(bytes) <= most
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn load(outstanding_requests: u32, outstanding_bytes: usize) -> Load {
        Load::new(LimitConfig {
            connections_per_address: None,
            connections: None,
            packet_bytes: 1 << 20,
            packet_extra_bytes: 1 << 20,
            outstanding_requests,
            outstanding_bytes,
            large_request_bytes: Some(1_000),
            large_requests_bytes_max: 4_000,
        })
    }

    #[test]
    fn requests_and_bytes_fill_the_server() {
        for (load, bytes) in [(load(2, 10_000), 1), (load(1_000, 2_000), 1_000)] {
            (0..2).for_each(|_| assert!(load.enter(bytes)));
            assert!(!load.holds(1));
            assert!(load.enter(bytes));
            assert!(load.holds(1) && !load.holds(0));
            load.leave(bytes);
            assert!(!load.holds(1));
            (0..2).for_each(|_| load.leave(bytes));
            assert_eq!((load.requests(), load.bytes.into_inner()), (0, 0));
        }
    }

    #[test]
    fn each_connection_has_its_share_of_the_requests_but_not_of_the_bytes() {
        let full = load(64, 10_000);
        (0..65).for_each(|_| assert!(full.enter(1)));
        assert!(!full.holds(1) && full.holds(2));
        let full = load(64, 10_000);
        (0..11).for_each(|_| assert!(full.enter(999)));
        assert!(full.holds(1));
    }

    #[test]
    fn only_large_requests_count_as_large() {
        let load = load(2, 10_000);
        assert!(load.has_room_for(1_000), "not large, so it never counts");
        assert!(load.enter(1_000));
        assert!(load.enter(3_000));
        assert!(!load.enter(1_001), "what is too much is not counted");
        assert!(!load.has_room_for(1_001));
        assert!(load.has_room_for(1_000));
        load.leave(3_000);
        assert!(load.has_room_for(4_000));
        assert!(!load.has_room_for(4_001));
    }
}

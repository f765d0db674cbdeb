//! Counts the requests in flight, and compares them with the limits.
//!
//! A request is in flight from the moment it leaves its connection for the replica until it is
//! answered. The connections act on the limits: they stop reading, or close.

use crate::sync::atomic::{AtomicU32, AtomicUsize, Ordering};

/// One connection may always have 1/`SHARES` of the permitted requests in flight.
const SHARES: u32 = 32;

/// Most requests that one connection may have in flight while others have some, too. Requests of
/// others wait behind all that are in flight: for a client with one at a time, that is its latency.
const BESIDE_OTHERS_MAX: u32 = 256;

/// Limits on requests in flight.
#[derive(Clone, Copy, Debug)]
pub struct LoadLimits {
    /// Number of requests: `globalOutstandingLimit`.
    pub requests: u32,
    /// Bytes of all requests: `zebu.globalOutstandingBytes`.
    pub bytes: usize,
    /// A request with more bytes is large: `largeRequestThreshold`. `None`: no request is large.
    pub large_request: Option<u32>,
    /// Bytes of all large requests: `largeRequestMaxBytes`.
    pub large_bytes: u32,
}

impl Default for LoadLimits {
    /// No limits.
    fn default() -> Self {
        Self { requests: u32::MAX, bytes: usize::MAX, large_request: None, large_bytes: u32::MAX }
    }
}

/// Requests and their bytes, counted together.
#[derive(Clone, Copy, Debug, Default)]
pub struct Several {
    pub(crate) requests: usize,
    bytes: usize,
    large_bytes: usize,
}

/// The requests in flight.
#[derive(Debug)]
pub struct Load {
    requests: AtomicUsize,
    bytes: AtomicUsize,
    large_bytes: AtomicUsize,
    /// This server's share of `globalOutstandingLimit`.
    requests_max: AtomicU32,
    limits: LoadLimits,
}

impl Load {
    /// Creates counters at zero.
    pub fn new(limits: LoadLimits) -> Self {
        Self {
            requests: AtomicUsize::new(0),
            bytes: AtomicUsize::new(0),
            large_bytes: AtomicUsize::new(0),
            requests_max: AtomicU32::new(limits.requests),
            limits,
        }
    }

    /// Divides `globalOutstandingLimit` by the number of other voters. A standalone server, an
    /// observer and a member of an ensemble of two have all of it.
    /// Source: `getGlobalOutstandingLimit` of `LeaderZooKeeperServer` and of
    /// `FollowerZooKeeperServer`.
    pub fn divide_among(&self, voters: usize) {
        let parts = if voters > 2 { voters - 1 } else { 1 };
        let parts = u32::try_from(parts).unwrap_or(u32::MAX);
        self.requests_max.store(self.limits.requests / parts, Ordering::Relaxed);
    }

    /// The number of requests in flight.
    pub fn requests(&self) -> usize {
        self.requests.load(Ordering::Relaxed)
    }

    /// Adds a request to `others`, which are about to be handed to the replica. `bytes`: the size
    /// of its frame. Returns false, without any effect, if there is no room for a request of that
    /// size.
    /// Source: `ZooKeeperServer.checkRequestSizeWhenMessageReceived`.
    #[must_use]
    pub fn enter(&self, bytes: usize, others: &mut Several) -> bool {
        if self.is_large(bytes) {
            let most = self.limits.large_bytes as usize;
            let before = self.large_bytes.fetch_add(bytes, Ordering::Relaxed);
            if before.saturating_add(bytes) > most {
                self.large_bytes.fetch_sub(bytes, Ordering::Relaxed);
                return false;
            }
        }
        others.requests += 1;
        others.bytes += bytes;
        true
    }

    /// Counts requests that were handed in.
    pub fn entered(&self, several: Several) {
        self.requests.fetch_add(several.requests, Ordering::Relaxed);
        self.bytes.fetch_add(several.bytes, Ordering::Relaxed);
    }

    /// Adds a request to `others`, which were answered or given up.
    pub fn leave(&self, bytes: usize, others: &mut Several) {
        others.requests += 1;
        others.bytes += bytes;
        if self.is_large(bytes) {
            others.large_bytes += bytes;
        }
    }

    /// Counts requests as no longer in flight.
    pub fn left(&self, several: Several) {
        self.requests.fetch_sub(several.requests, Ordering::Relaxed);
        self.bytes.fetch_sub(several.bytes, Ordering::Relaxed);
        if several.large_bytes > 0 {
            self.large_bytes.fetch_sub(several.large_bytes, Ordering::Relaxed);
        }
    }

    /// Whether a connection with `in_flight` requests must wait before it sends more. `entering`:
    /// what it is about to hand in.
    ///
    /// Above the limit, a connection may still have its share in flight. With one at a time, each
    /// request would cost a round trip. Source: `ZooKeeperServer.shouldThrottle`, whose share is
    /// one.
    ///
    /// Below the limit, a connection waits only if it has 256 requests in flight and is
    /// not alone.
    pub fn holds(&self, in_flight: u32, entering: &Several) -> bool {
        let outstanding_bytes = self.limits.bytes;
        let outstanding_requests = self.requests_max.load(Ordering::Relaxed);
        let share = (outstanding_requests / SHARES).max(1);
        let all = self.requests() + entering.requests;
        in_flight > 0
            && (in_flight >= share && all > outstanding_requests as usize
                || in_flight >= BESIDE_OTHERS_MAX && all > in_flight as usize
                || self.bytes.load(Ordering::Relaxed) + entering.bytes > outstanding_bytes)
    }

    /// Whether a request of this size counts against `largeRequestMaxBytes`.
    fn is_large(&self, bytes: usize) -> bool {
        self.limits.large_request.is_some_and(|threshold| bytes > threshold as usize)
    }

    /// Whether there is room for a request of this size.
    /// Source: `ZooKeeperServer.checkRequestSizeWhenReceivingMessage`.
    pub fn has_room_for(&self, bytes: usize) -> bool {
        let most = self.limits.large_bytes as usize;
        !self.is_large(bytes)
            || self.large_bytes.load(Ordering::Relaxed).saturating_add(bytes) <= most
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn load(outstanding_requests: u32, outstanding_bytes: usize) -> Load {
        Load::new(LoadLimits {
            requests: outstanding_requests,
            bytes: outstanding_bytes,
            large_request: Some(1_000),
            large_bytes: 4_000,
        })
    }

    impl Load {
        fn enter_one(&self, bytes: usize) -> bool {
            let mut one = Several::default();
            let has_room = self.enter(bytes, &mut one);
            self.entered(one);
            has_room
        }

        fn leave_one(&self, bytes: usize) {
            let mut one = Several::default();
            self.leave(bytes, &mut one);
            self.left(one);
        }

        fn holds_now(&self, in_flight: u32) -> bool {
            self.holds(in_flight, &Several::default())
        }
    }

    #[test]
    fn requests_and_bytes_fill_the_server() {
        for (load, bytes) in [(load(2, 10_000), 1), (load(1_000, 2_000), 1_000)] {
            (0..2).for_each(|_| assert!(load.enter_one(bytes)));
            assert!(!load.holds_now(1));
            let mut third = Several::default();
            assert!(load.enter(bytes, &mut third));
            assert!(!load.holds_now(1) && load.holds(1, &third), "who hands it in knows of it");
            load.entered(third);
            assert!(load.holds_now(1) && !load.holds_now(0));
            load.leave_one(bytes);
            assert!(!load.holds_now(1));
            let mut rest = Several::default();
            (0..2).for_each(|_| load.leave(bytes, &mut rest));
            load.left(rest);
            assert_eq!((load.requests(), load.bytes.into_inner()), (0, 0));
            assert_eq!(load.large_bytes.into_inner(), 0);
        }
    }

    #[test]
    fn each_connection_has_its_share_of_the_requests_but_not_of_the_bytes() {
        let full = load(64, 10_000);
        (0..65).for_each(|_| assert!(full.enter_one(1)));
        assert!(!full.holds_now(1) && full.holds_now(2));
        let full = load(64, 10_000);
        (0..11).for_each(|_| assert!(full.enter_one(999)));
        assert!(full.holds_now(1));
    }

    #[test]
    fn a_connection_with_many_requests_waits_while_others_have_some() {
        let load = load(u32::MAX, usize::MAX);
        let most = BESIDE_OTHERS_MAX;
        (0..2 * most).for_each(|_| assert!(load.enter_one(1)));
        assert!(!load.holds_now(2 * most), "it is alone");
        assert!(load.enter_one(1), "another one comes");
        assert!(load.holds_now(2 * most) && load.holds_now(most));
        assert!(!load.holds_now(most - 1) && !load.holds_now(1));
        load.leave_one(1);
        assert!(!load.holds_now(2 * most), "the other one has its answer");
    }

    #[test]
    fn voters_of_an_ensemble_divide_the_requests_among_them() {
        let load = load(12, 10_000);
        (0..4).for_each(|_| assert!(load.enter_one(1)));
        for (voters, holds) in
            [(1, false), (2, false), (3, false), (4, false), (5, true), (3, false)]
        {
            load.divide_among(voters);
            assert_eq!(load.holds_now(1), holds, "{voters} voters");
        }
    }

    #[test]
    fn only_large_requests_count_as_large() {
        let load = load(2, 10_000);
        assert!(load.has_room_for(1_000), "not large, so it never counts");
        assert!(load.enter_one(1_000));
        assert!(load.enter_one(3_000));
        assert!(!load.enter_one(1_001), "what is too much is not counted");
        assert!(!load.has_room_for(1_001));
        assert!(load.has_room_for(1_000));
        load.leave_one(3_000);
        assert!(load.has_room_for(4_000));
        assert!(!load.has_room_for(4_001));
    }
}

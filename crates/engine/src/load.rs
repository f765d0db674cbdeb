//! How much is in progress, and how much is too much.
//!
//! Counts requests from the moment they leave their connection for the replica until they are
//! answered. What a limit means is decided by the connections: they stop reading, or end.

use crate::sync::atomic::{AtomicU32, AtomicUsize, Ordering};

/// What part of the requests that may be in progress one connection always may have.
const SHARES: u32 = 32;

/// How much may be in progress.
#[derive(Clone, Copy, Debug)]
pub struct LoadLimits {
    /// Requests, `globalOutstandingLimit`.
    pub requests: u32,
    /// Bytes of requests, `zebu.globalOutstandingBytes`.
    pub bytes: usize,
    /// Above so many bytes a request is large, `largeRequestThreshold`; `None`: none is.
    pub large_request: Option<u32>,
    /// Bytes of large requests, `largeRequestMaxBytes`.
    pub large_bytes: u32,
}

impl Default for LoadLimits {
    /// No limits.
    fn default() -> Self {
        Self { requests: u32::MAX, bytes: usize::MAX, large_request: None, large_bytes: u32::MAX }
    }
}

/// Requests and their bytes, to be counted together.
#[derive(Clone, Copy, Debug, Default)]
pub struct Several {
    pub(crate) requests: usize,
    bytes: usize,
    large_bytes: usize,
}

/// Requests in progress.
#[derive(Debug)]
pub struct Load {
    requests: AtomicUsize,
    bytes: AtomicUsize,
    large_bytes: AtomicUsize,
    /// This server's part of `globalOutstandingLimit`.
    requests_max: AtomicU32,
    limits: LoadLimits,
}

impl Load {
    /// Nothing is in progress.
    pub fn new(limits: LoadLimits) -> Self {
        Self {
            requests: AtomicUsize::new(0),
            bytes: AtomicUsize::new(0),
            large_bytes: AtomicUsize::new(0),
            requests_max: AtomicU32::new(limits.requests),
            limits,
        }
    }

    /// Divides `globalOutstandingLimit` by the voters of the ensemble that this server is one of, less one; alone, of
    /// two, and where it does not vote, a server has all of it.
    ///
    /// Source: `getGlobalOutstandingLimit` of `LeaderZooKeeperServer` and of `FollowerZooKeeperServer`.
    pub fn divide_among(&self, voters: usize) {
        let parts = if voters > 2 { voters - 1 } else { 1 };
        let parts = u32::try_from(parts).unwrap_or(u32::MAX);
        self.requests_max.store(self.limits.requests / parts, Ordering::Relaxed);
    }

    /// How many requests there are.
    pub fn requests(&self) -> usize {
        self.requests.load(Ordering::Relaxed)
    }

    /// A request is to be handed to the replica with `others`; `bytes` is the length of its frame. False when there is
    /// no room for a request of that length, and then nothing has happened.
    ///
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

    /// They are handed in.
    pub fn entered(&self, several: Several) {
        self.requests.fetch_add(several.requests, Ordering::Relaxed);
        self.bytes.fetch_add(several.bytes, Ordering::Relaxed);
    }

    /// A request is answered or given up, as `others` are.
    pub fn leave(&self, bytes: usize, others: &mut Several) {
        others.requests += 1;
        others.bytes += bytes;
        if self.is_large(bytes) {
            others.large_bytes += bytes;
        }
    }

    /// They are in progress no more.
    pub fn left(&self, several: Several) {
        self.requests.fetch_sub(several.requests, Ordering::Relaxed);
        self.bytes.fetch_sub(several.bytes, Ordering::Relaxed);
        if several.large_bytes > 0 {
            self.large_bytes.fetch_sub(several.large_bytes, Ordering::Relaxed);
        }
    }

    /// Whether a connection that waits for `in_flight` answers has to wait before it sends more; `entering` is
    /// what it is about to hand in.
    ///
    /// When there are too many requests, a connection may still have its share of them in progress:
    /// one by one they would each pay for a round trip of their own. Source:
    /// `ZooKeeperServer.shouldThrottle`, whose share is one.
    pub fn holds(&self, in_flight: u32, entering: &Several) -> bool {
        let outstanding_bytes = self.limits.bytes;
        let outstanding_requests = self.requests_max.load(Ordering::Relaxed);
        let share = (outstanding_requests / SHARES).max(1);
        in_flight > 0
            && (in_flight >= share
                && self.requests() + entering.requests > outstanding_requests as usize
                || self.bytes.load(Ordering::Relaxed) + entering.bytes > outstanding_bytes)
    }

    /// Whether a request of that length counts against `largeRequestMaxBytes`.
    fn is_large(&self, bytes: usize) -> bool {
        self.limits.large_request.is_some_and(|threshold| bytes > threshold as usize)
    }

    /// Whether there is room for a request of that length.
    ///
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

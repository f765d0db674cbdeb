//! Counters and facts beside the metrics.

use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::Notify;
use zebu_proto::{ServerId, SessionId, Zxid};
use zebu_zab::{Lacks, Learners};

use crate::config::EnsembleConfig;
use crate::counting::quota_warnings::QuotaWarnings;
use crate::four_letter::ProposalSizes;
use crate::metrics::{Histograms, Metrics, ServerStats};

/// Counters and facts beside the metrics.
pub struct Counting {
    /// Histograms of durations.
    pub histograms: Histograms,
    /// Packets and latencies since the last reset.
    pub stats: ServerStats,
    /// Parts of the replica's state for the four-letter words.
    pub status: Mutex<Status>,
    /// A copy of the replica's sessions, for readers on other threads.
    pub session_list: SessionList,
    /// The number of local sessions.
    pub local_sessions: AtomicUsize,
    /// The bits of the connection throttle's drop probability.
    pub drop_probability: AtomicU64,
    /// The times at which writes beyond a quota were logged.
    pub quota_warnings: Mutex<QuotaWarnings>,
    /// At a leader, the proposal whose acknowledgements are timed.
    marked: Mutex<Option<MarkedProposal>>,
    /// The acknowledgements of one in this number of transactions are timed.
    acks_timed_every: Option<u32>,
}

/// The facts that a leader has about its ensemble.
#[derive(Clone, Copy, Debug)]
pub struct Leading {
    /// The start of its leadership, on the monotonic clock.
    pub since: Duration,
    /// Its learners.
    pub learners: Learners,
    /// The number of waiting syncs.
    pub pending_syncs: usize,
    /// Sizes of the proposals.
    pub proposals: ProposalSizes,
}

/// A copy of the replica's own state, updated by its thread.
#[derive(Clone, Debug, Default)]
pub struct Status {
    /// At a leader: its own view of the ensemble.
    pub leading: Option<Leading>,
    /// At a follower that serves observers: the number of observers.
    pub observers: Option<usize>,
    /// At an observer: the server from which it learns.
    pub master: Option<ServerId>,
    /// At a learner: the leader.
    pub leader: Option<ServerId>,
    /// Without a leader: the missing conditions.
    pub lacks: Option<Lacks>,
    /// At a learner that serves no clients because its tree differs from its leader's: the first
    /// transaction that differs.
    pub doubted: Option<Zxid>,
}

/// The expiry time of a session.
#[derive(Clone, Copy, Debug)]
pub struct SessionDeadline {
    /// The session.
    pub id: SessionId,
    /// The time, on the monotonic clock, unless the session is renewed before.
    pub deadline: Duration,
    /// Whether the session is local: only this server knows it.
    pub local: bool,
}

/// A copy of the replica's sessions. It is made only on request, because there may be very many.
#[derive(Debug, Default)]
pub struct SessionList {
    wanted: AtomicBool,
    made: Notify,
    last: Mutex<Vec<SessionDeadline>>,
    /// The number of opportunities that the replica's thread had to make a copy.
    turns: AtomicU64,
}

impl SessionList {
    /// Requests a copy, and waits some time for it. `wake` wakes the replica's thread.
    pub async fn renew(&self, wake: impl FnOnce()) {
        let made = self.made.notified();
        tokio::pin!(made);
        made.as_mut().enable();
        self.wanted.store(true, Ordering::Release);
        wake();
        // If the replica is delayed, an old copy is better than none.
        let _ = tokio::time::timeout(Duration::from_secs(1), made).await;
    }

    /// Makes a copy if one is requested.
    pub fn answer(&self, copy: impl FnOnce() -> Vec<SessionDeadline>) {
        self.turns.fetch_add(1, Ordering::Relaxed);
        if self.wanted.swap(false, Ordering::AcqRel) {
            *self.last.lock() = copy();
            self.made.notify_waiters();
        }
    }

    /// The number of times that the replica's thread has come here: after every turn, and several
    /// times each second.
    pub fn turns(&self) -> u64 {
        self.turns.load(Ordering::Relaxed)
    }

    /// The last copy.
    pub fn last(&self) -> Vec<SessionDeadline> {
        self.last.lock().clone()
    }
}

/// A leader's proposal whose acknowledgements are timed.
#[derive(Clone, Copy, Debug)]
pub struct MarkedProposal {
    /// Its zxid.
    pub zxid: Zxid,
    /// The time at which it was made, by the wall clock.
    pub made_ms: i64,
}

impl Counting {
    pub(super) fn new(config: Option<&EnsembleConfig>) -> Self {
        Self {
            histograms: Histograms::default(),
            stats: ServerStats::default(),
            status: Mutex::default(),
            session_list: SessionList::default(),
            local_sessions: AtomicUsize::new(0),
            drop_probability: AtomicU64::new(0),
            quota_warnings: Mutex::default(),
            marked: Mutex::default(),
            acks_timed_every: config.and_then(|it| it.learners.acks_timed_every),
        }
    }

    fn is_timed(&self, zxid: Zxid) -> bool {
        self.acks_timed_every.is_some_and(|every| zxid.0 % i64::from(every) == 0)
    }

    /// The proposal whose acknowledgements are timed, at a leader.
    pub fn marked(&self) -> Option<MarkedProposal> {
        *self.marked.lock()
    }

    /// This server has proposed a transaction as a leader.
    ///
    /// True if its acknowledgements are timed.
    pub fn mark(&self, proposal: MarkedProposal) -> bool {
        let is_timed = self.is_timed(proposal.zxid);
        if is_timed {
            *self.marked.lock() = Some(proposal);
        }
        is_timed
    }

    /// The transactions up to this one are committed: their later acknowledgements are not timed.
    pub fn unmark(&self, zxid: Zxid) {
        if self.acks_timed_every.is_some() {
            self.marked.lock().take_if(|marked| marked.zxid <= zxid);
        }
    }

    /// A server has acknowledged a transaction at this time of the wall clock.
    pub fn acknowledged(
        &self,
        zxid: Zxid,
        server: &str,
        metrics: &Metrics,
        now_ms: impl FnOnce() -> i64,
    ) {
        if !self.is_timed(zxid) {
            return;
        }
        if let Some(marked) = self.marked.lock().filter(|marked| marked.zxid == zxid) {
            let latency = now_ms().saturating_sub(marked.made_ms);
            if latency >= 0 {
                metrics.ack_latency.add(server, latency);
            }
        }
    }
}

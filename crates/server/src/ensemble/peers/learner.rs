//! Facts about a connected learner, for admin commands and metrics.
//!
//! Source: `LearnerHandler.getLearnerHandlerInfo`.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Weak};
use std::time::Instant;

use parking_lot::Mutex;
use zebu_admin::{Acked, LearnerFacts, ObserverFacts};
use zebu_proto::quorum::PacketKind;
use zebu_proto::{ServerId, Zxid};

use super::backlog::Backlog;

/// A connected or disconnected learner.
#[derive(Debug)]
pub struct Learner {
    observes: bool,
    remote: SocketAddr,
    server: ServerId,
    established_ms: i64,
    received: AtomicU64,
    requests: AtomicU64,
    /// The last transaction that it has acknowledged, and the time of that.
    acked: Mutex<Option<(Zxid, Instant)>>,
    /// The number of packets that had been sent at the last reset.
    sent_before: AtomicU64,
    /// The bytes that wait for its socket, while there is a connection.
    backlog: Weak<Backlog>,
}

/// Packets that arrived from a learner together.
#[derive(Debug, Default)]
pub(super) struct Packets {
    all: u64,
    requests: u64,
    /// The last acknowledged transaction.
    acked: Option<Zxid>,
}

impl Packets {
    /// Adds a packet.
    pub(super) fn add(&mut self, kind: PacketKind, zxid: Zxid) {
        self.all += 1;
        self.requests += u64::from(kind == PacketKind::REQUEST);
        if kind == PacketKind::ACK {
            self.acked = Some(zxid);
        }
    }
}

impl Learner {
    /// Adds a learner that has just introduced itself, and removes disconnected ones.
    pub(super) fn enter(
        all: &Mutex<Vec<Arc<Self>>>,
        (server, observes): (ServerId, bool),
        remote: SocketAddr,
        established_ms: i64,
        backlog: &Arc<Backlog>,
    ) -> Arc<Self> {
        let learner = Arc::new(Self {
            observes,
            remote,
            server,
            established_ms,
            received: AtomicU64::new(0),
            requests: AtomicU64::new(0),
            acked: Mutex::default(),
            sent_before: AtomicU64::new(0),
            backlog: Arc::downgrade(backlog),
        });
        let mut all = all.lock();
        all.retain(|other| other.backlog.strong_count() > 0);
        all.push(learner.clone());
        learner
    }

    /// Packets arrived from it.
    pub(super) fn received(&self, packets: &Packets) {
        self.received.fetch_add(packets.all, Ordering::Relaxed);
        self.requests.fetch_add(packets.requests, Ordering::Relaxed);
        if let Some(acked) = packets.acked.filter(|_| !self.observes) {
            *self.acked.lock() = Some((acked, Instant::now()));
        }
    }

    /// Whether it is an observer.
    pub fn observes(&self) -> bool {
        self.observes
    }

    /// Resets the counters.
    pub fn reset(&self) {
        self.received.store(0, Ordering::Relaxed);
        self.requests.store(0, Ordering::Relaxed);
        let sent = self.backlog.upgrade().map_or(0, |backlog| backlog.packets_sent());
        self.sent_before.store(sent, Ordering::Relaxed);
    }

    /// The facts about it; `None` once its connection has ended.
    pub fn facts(&self) -> Option<LearnerFacts> {
        let backlog = self.backlog.upgrade()?;
        let sent_before = self.sent_before.load(Ordering::Relaxed);
        let connection = ObserverFacts {
            remote: self.remote,
            server: self.server,
            established_ms: self.established_ms,
            queued_packets: backlog.packets_waiting(),
            queued_bytes: backlog.bytes() as u64,
            packets_received: self.received.load(Ordering::Relaxed),
            packets_sent: backlog.packets_sent().saturating_sub(sent_before),
            requests: self.requests.load(Ordering::Relaxed),
            last_zxid: Zxid(backlog.last_zxid()),
        };
        let acked = self.acked.lock().map(|(zxid, at)| Acked { zxid, age: at.elapsed() });
        Some(LearnerFacts { observes: self.observes, connection, acked })
    }
}

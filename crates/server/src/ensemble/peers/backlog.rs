//! The number of bytes that wait for the socket to another server.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicI64, AtomicUsize, Ordering};
use std::time::Instant;

use bytes::Bytes;
use tokio::sync::Notify;
use zebu_proto::quorum::QuorumPacket;
use zebu_proto::{ServerId, Zxid};

use crate::metrics::Metrics;

/// Bytes waiting for one peer's socket at which reading from the disk for this peer pauses.
pub(super) const READ_AHEAD_BYTES: usize = 16 << 20;

/// Bytes waiting for one peer's socket at which the peer is disconnected. When it returns, it gets
/// the missing transactions from the disk, as fast as it can receive them.
pub(super) const BACKLOG_BYTES_MAX: usize = 256 << 20;

/// One in this number of packets is timed.
const MARKED_EVERY: usize = 1000;

/// The packets that wait for a link's socket.
#[derive(Debug, Default)]
pub(super) struct Backlog {
    bytes: AtomicUsize,
    /// The number of all packets so far, and of the waiting ones.
    packets: AtomicUsize,
    waiting: AtomicUsize,
    /// The last zxid that was added.
    last_zxid: AtomicI64,
    /// The learner at the other end, after its introduction.
    learner: OnceLock<String>,
    /// Notified when more may be read from the disk for the peer, and when the link ends.
    room: Notify,
}

impl Backlog {
    /// Counts packets to send. Returns false if too many bytes wait before them.
    pub(super) fn add(&self, packets: &[QuorumPacket]) -> bool {
        let bytes = packets.iter().map(packet_bytes).sum();
        if let Some(last) = packets.iter().rev().find(|packet| packet.zxid > Zxid::ZERO) {
            self.last_zxid.fetch_max(last.zxid.0, Ordering::Relaxed);
        }
        self.waiting.fetch_add(packets.len(), Ordering::Relaxed);
        self.bytes.fetch_add(bytes, Ordering::Relaxed) <= BACKLOG_BYTES_MAX
    }

    /// This number of packets will be sent next. They have waited since that time, if it was
    /// measured.
    pub(super) fn takes(&self, packets: usize, since: Option<Instant>, metrics: &Metrics) {
        let waiting = self.waiting.fetch_sub(packets, Ordering::Relaxed);
        assert!(packets <= waiting, "{packets} packets are taken, and {waiting} waited");
        let Some(learner) = self.learner() else { return };
        metrics.learner_handler_qp_size.add(learner, waiting as i64 - 1);
        if let Some(since) = since {
            metrics.learner_handler_qp_time_ms.add(learner, since.elapsed().as_millis() as i64);
        }
    }

    /// Counts a piece of a tree to send.
    pub(super) fn grow(&self, bytes: usize) {
        self.bytes.fetch_add(bytes, Ordering::Relaxed);
    }

    /// Whether to time one of the next `packets` packets.
    pub(super) fn marks(&self, packets: usize) -> bool {
        let before = self.packets.fetch_add(packets, Ordering::Relaxed);
        before.next_multiple_of(MARKED_EVERY) < before + packets
    }

    /// A learner has introduced itself.
    pub(super) fn set_learner(&self, server: ServerId) {
        let _ = self.learner.set(server.0.to_string());
    }

    /// The learner at the other end.
    pub(super) fn learner(&self) -> Option<&str> {
        self.learner.get().map(String::as_str)
    }

    /// The number of packets taken for sending.
    pub(super) fn packets_sent(&self) -> u64 {
        self.packets.load(Ordering::Relaxed) as u64
    }

    /// The number of waiting packets.
    pub(super) fn packets_waiting(&self) -> u64 {
        self.waiting.load(Ordering::Relaxed) as u64
    }

    /// The last zxid that was added.
    pub(super) fn last_zxid(&self) -> i64 {
        self.last_zxid.load(Ordering::Relaxed)
    }

    /// Packets with this number of bytes have been sent.
    pub(super) fn sent(&self, bytes: usize) {
        let before = self.bytes.fetch_sub(bytes, Ordering::Relaxed);
        assert!(bytes <= before, "{bytes} bytes are sent, and {before} waited");
        if before > READ_AHEAD_BYTES && before - bytes <= READ_AHEAD_BYTES {
            self.room.notify_waiters();
        }
    }

    /// The link has ended.
    pub(super) fn end(&self) {
        self.room.notify_waiters();
    }

    /// Notified when more may be read from the disk for the peer, and when the link ends.
    pub(super) fn room(&self) -> &Notify {
        &self.room
    }

    pub(super) fn bytes(&self) -> usize {
        self.bytes.load(Ordering::Relaxed)
    }
}

/// The approximate bytes that a packet occupies while it waits.
pub(super) fn packet_bytes(packet: &QuorumPacket) -> usize {
    size_of::<QuorumPacket>() + packet.data.as_ref().map_or(0, Bytes::len)
}

#[cfg(test)]
mod tests {
    use std::pin::pin;

    use super::*;

    #[test]
    fn who_reads_from_the_disk_hears_of_room_and_of_the_end() {
        let backlog = Backlog::default();
        let is_told = |change: &dyn Fn()| {
            let mut told = pin!(backlog.room().notified());
            assert!(!told.as_mut().enable());
            change();
            told.enable()
        };
        backlog.grow(READ_AHEAD_BYTES + 3);
        assert!(!is_told(&|| backlog.sent(2)), "there is no room yet");
        assert!(is_told(&|| backlog.sent(1)));
        assert!(!is_told(&|| backlog.sent(1)), "there was room before");
        assert!(is_told(&|| backlog.end()));
    }

    #[test]
    fn one_of_every_thousand_is_measured_however_they_come() {
        for together in [1, 7, 64, 1000] {
            let backlog = Backlog::default();
            let rows = 5 * MARKED_EVERY / together;
            let marked = (0..rows).filter(|_| backlog.marks(together)).count();
            assert_eq!(marked, (rows * together).div_ceil(MARKED_EVERY), "{together} at a time");
        }
    }
}

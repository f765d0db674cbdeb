//! What waits for the socket to another server, in bytes.

use std::sync::atomic::{AtomicUsize, Ordering};

use bytes::Bytes;
use zebu_proto::quorum::QuorumPacket;

/// Bytes that wait for one peer's socket at which nothing more is read from the disk for it.
pub(super) const READ_AHEAD_BYTES: usize = 16 << 20;

/// Bytes that wait for one peer's socket at which the peer is given up. It gets what it lacks from the disk when it
/// comes back, as fast as it can take it.
pub(super) const BACKLOG_BYTES_MAX: usize = 256 << 20;

/// What waits for a link's socket.
#[derive(Debug, Default)]
pub(super) struct Backlog(AtomicUsize);

impl Backlog {
    /// Counts a packet that is to be sent; false when too much waits in front of it.
    pub(super) fn add(&self, packet: &QuorumPacket) -> bool {
        self.0.fetch_add(packet_bytes(packet), Ordering::Relaxed) <= BACKLOG_BYTES_MAX
    }

    /// Packets of so many bytes have been sent.
    pub(super) fn sent(&self, bytes: usize) {
        self.0.fetch_sub(bytes, Ordering::Relaxed);
    }

    pub(super) fn bytes(&self) -> usize {
        self.0.load(Ordering::Relaxed)
    }
}

/// What a packet costs while it waits, roughly.
pub(super) fn packet_bytes(packet: &QuorumPacket) -> usize {
    size_of::<QuorumPacket>() + packet.data.as_ref().map_or(0, Bytes::len)
}

//! The path to a link's socket: directly, while the link's writer task sleeps, or through the
//! writer's queue.
//!
//! To wake the writer for a few packets costs more than to write them. So the sending thread writes
//! them itself, if the queue is empty.
//!
//! **Invariant:** while the queue contains packets, no packet goes to the socket directly.
//! Checked by `packets_go_past_the_writer_only_when_nothing_is_in_front_of_them`.

use parking_lot::Mutex;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender};
use zebu_jute::{Encode as _, Encoder};
use zebu_proto::quorum::QuorumPacket;
use zebu_transport::PeerWriter;

use super::ToLink;
use super::backlog::packet_bytes;

/// Maximum number of packets written directly. More packets are worth waking a task.
const PACKETS_MAX: usize = 16;

/// Maximum bytes written directly: sockets accept more.
const BYTES_MAX: usize = 16 << 10;

/// The state that the sender and the writer of a link share.
#[derive(Debug, Default)]
pub(super) struct Line(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    /// The socket, while the link's writer waits for its queue.
    idle: Option<PeerWriter>,
    /// Whether the queue contains packets.
    is_queued: bool,
    /// An empty buffer, kept for its capacity.
    bytes: Vec<u8>,
}

impl Line {
    /// Adds to the queue of the link's writer.
    pub(super) fn queue(&self, to: &UnboundedSender<ToLink>, what: ToLink) {
        let mut state = self.0.lock();
        state.is_queued = true;
        let _ = to.send(what); // the link may be about to end
    }

    /// Writes packets at once, if they are few and the queue is empty; returns `None` if they must
    /// be queued. Bytes that the socket does not accept now go into the queue. Returns the number
    /// of bytes that no longer wait.
    pub(super) fn write(
        &self,
        to: &UnboundedSender<ToLink>,
        packets: &[QuorumPacket],
    ) -> Option<usize> {
        if packets.len() > PACKETS_MAX {
            return None;
        }
        let leaving: usize = packets.iter().map(packet_bytes).sum();
        if leaving > BYTES_MAX {
            return None;
        }
        let mut state = self.0.lock();
        let State { idle, is_queued, bytes } = &mut *state;
        let socket = idle.as_ref().filter(|socket| !*is_queued && socket.writes_at_once())?;
        assert!(bytes.is_empty(), "{} bytes are left of the last packets", bytes.len());
        for packet in packets {
            packet.encode(&mut Encoder::new(bytes));
        }
        // If this fails, the link's writer fails with the same error.
        let count = socket.try_write(bytes).unwrap_or(0);
        if count < bytes.len() {
            *is_queued = true;
            let _ = to.send(ToLink::Rest(bytes.split_off(count), leaving));
        }
        bytes.clear();
        Some(if *is_queued { 0 } else { leaving })
    }

    /// The link's writer has sent everything from its queue, and sleeps.
    pub(super) fn rest(&self, socket: PeerWriter, queue: &UnboundedReceiver<ToLink>) {
        let mut state = self.0.lock();
        state.is_queued = !queue.is_empty();
        let before = state.idle.replace(socket);
        assert!(before.is_none(), "a link has two sockets");
    }

    /// The link's writer continues.
    pub(super) fn resume(&self) -> Option<PeerWriter> {
        self.0.lock().idle.take()
    }
}

//! The whole tree on its way from a leader to a learner.

use std::io;
use std::sync::Arc;

use bytes::{Bytes, BytesMut};
use tokio::io::AsyncReadExt as _;
use tokio::net::tcp::OwnedReadHalf;
use tokio::sync::mpsc::{Receiver, Sender, channel};
use tracing::info;
use zebu_jute::{Encode as _, Encoder};
use zebu_proto::Zxid;
use zebu_proto::quorum::{PacketKind, QuorumPacket};
use zebu_state::{CopyError, Receiving, Sending, Step};
use zebu_zab::LinkId;

use super::Net;
use crate::shared::Shared;

/// Znodes copied under one read lock.
const STEP_ZNODES: usize = 512;
/// Pieces that wait to be sent.
const PIECES_MAX: usize = 8;
/// Bytes of a piece, roughly.
const PIECE_BYTES: usize = 256 << 10;
/// Bytes that are copied under the first read lock, roughly: a tree that is no larger does not change
/// while it is copied, so the transactions behind it find the digests they expect.
const AT_ONCE_BYTES: usize = 2 << 20;

/// A tree that is being sent.
pub(super) struct Source {
    sending: Sending,
    /// What the last step has left to do.
    step: Step,
    piece: Vec<u8>,
    to: Sender<Bytes>,
}

impl Source {
    /// Begins with the tree as it is now. The pieces end with an empty one if all went well.
    pub(super) fn new(shared: &Arc<Shared>) -> (Self, Receiver<Bytes>) {
        let (to, pieces) = channel(PIECES_MAX);
        let mut tables = Vec::new();
        let tree = shared.tree.read();
        let mut sending = Sending::begin(&tree, &mut tables);
        let mut piece = Vec::with_capacity(PIECE_BYTES);
        let packet = QuorumPacket::new(PacketKind::SNAP, sending.zxid());
        packet.encode(&mut Encoder::new(&mut piece));
        piece.append(&mut tables);
        let mut step = Step::More;
        while step == Step::More && piece.len() < AT_ONCE_BYTES {
            step = sending.step(&tree, STEP_ZNODES, &mut piece);
        }
        (Self { sending, step, piece, to }, pieces)
    }

    /// Sends everything; ends early when the learner is gone, or the tree.
    pub(super) fn run(mut self, shared: &Shared) {
        while self.step == Step::More {
            self.step = self.sending.step(&shared.tree.read(), STEP_ZNODES, &mut self.piece);
            if self.step == Step::Replaced || (self.piece.len() >= PIECE_BYTES && !self.send()) {
                return;
            }
        }
        if self.send() {
            let _ = self.to.blocking_send(Bytes::new());
        }
    }

    fn send(&mut self) -> bool {
        let piece = std::mem::replace(&mut self.piece, Vec::with_capacity(PIECE_BYTES));
        self.to.blocking_send(piece.into()).is_ok()
    }
}

/// Receives a leader's tree: into memory, and into a file that is durable but not in use yet.
pub(super) async fn receive(
    net: &Net,
    link: LinkId,
    zxid: Zxid,
    from: &mut OwnedReadHalf,
    received: &mut BytesMut,
) -> io::Result<()> {
    let options = net.shared.tree.read().options();
    let mut receiving =
        Receiving::begin(&net.shared.snapshots, zxid, options, net.field_bytes_max())
            .map_err(io::Error::other)?;
    while !receiving.take(received).map_err(useless)? {
        if receiving.gathered_bytes() > PIECE_BYTES {
            tokio::task::block_in_place(|| receiving.flush()).map_err(io::Error::other)?;
        }
        received.reserve(PIECE_BYTES);
        if from.read_buf(received).await? == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
    }
    let copied = tokio::task::block_in_place(|| receiving.complete()).map_err(io::Error::other)?;
    let (znodes, bytes) = (copied.znodes, copied.file.bytes());
    info!("received the leader's tree as of {zxid}: {znodes} znodes, {bytes} bytes");
    net.copied.lock().insert(link, copied);
    Ok(())
}

fn useless(error: CopyError) -> io::Error {
    match error {
        CopyError::Decode(error) => io::Error::new(io::ErrorKind::InvalidData, error),
        error => io::Error::other(error),
    }
}

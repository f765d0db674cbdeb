//! The whole tree on its way from a leader to a learner.

use std::io;
use std::sync::Arc;

use bytes::{Buf as _, Bytes, BytesMut};
use tokio::io::AsyncReadExt as _;
use tokio::net::tcp::OwnedReadHalf;
use tokio::sync::mpsc::{Receiver, Sender, channel};
use tracing::info;
use zebu_jute::{Encode as _, Encoder};
use zebu_proto::Zxid;
use zebu_proto::quorum::{PacketKind, QuorumPacket};
use zebu_proto::snapshot::{
    SnapshotReader, SnapshotRecord, encode_end, encode_node, encode_tables,
};
use zebu_tree::{Loader, Walk};
use zebu_zab::LinkId;

use super::{Copied, Net};
use crate::shared::Shared;

/// Znodes copied under one read lock.
const STEP_ZNODES: usize = 512;
/// Pieces that wait to be sent.
const PIECES_MAX: usize = 8;
/// Bytes of a piece, roughly.
const PIECE_BYTES: usize = 256 << 10;

/// A tree that is being sent.
pub(super) struct Source {
    walk: Walk,
    piece: Vec<u8>,
    to: Sender<Bytes>,
}

impl Source {
    /// Begins with the tree as it is now. The pieces end with an empty one if all went well.
    pub(super) fn new(shared: &Arc<Shared>) -> (Self, Receiver<Bytes>) {
        let (to, pieces) = channel(PIECES_MAX);
        let tree = shared.tree.read();
        let acls: Vec<_> = tree.acl_table().collect();
        let sessions: Vec<_> = tree.sessions().collect();
        let mut piece = Vec::with_capacity(PIECE_BYTES);
        let mut out = Encoder::new(&mut piece);
        QuorumPacket::new(PacketKind::SNAP, tree.last_zxid()).encode(&mut out);
        encode_tables(&sessions, &acls, &mut out);
        (Self { walk: Walk::new(&tree), piece, to }, pieces)
    }

    /// Sends everything; ends early when the learner is gone.
    pub(super) fn run(mut self, shared: &Shared) {
        let mut done = false;
        while !done {
            {
                let tree = shared.tree.read();
                let mut out = Encoder::new(&mut self.piece);
                done = self.walk.step(&tree, STEP_ZNODES, &mut |path, data, acl, stat| {
                    encode_node(path, data, acl, stat, &mut out);
                });
            }
            if self.piece.len() >= PIECE_BYTES && !self.send() {
                return;
            }
        }
        encode_end(&mut Encoder::new(&mut self.piece));
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
    let mut loader = Loader::new(options);
    let mut writer = net.shared.snapshots.begin(zxid).map_err(io::Error::other)?;
    let mut reader = SnapshotReader::new(net.field_bytes_max());
    let (mut sessions, mut acls, mut tables) = (Vec::new(), Vec::new(), false);
    let mut znodes = 0_u64;
    while !reader.is_done() {
        let Some((record, bytes)) = reader.next(received).map_err(invalid)? else {
            if writer.gathered_bytes() > PIECE_BYTES {
                tokio::task::block_in_place(|| writer.flush()).map_err(io::Error::other)?;
            }
            received.reserve(PIECE_BYTES);
            if from.read_buf(received).await? == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            continue;
        };
        if !tables && matches!(record, SnapshotRecord::Node { .. } | SnapshotRecord::End) {
            tables = true;
            writer.sessions(&sessions);
            writer.acls(&acls);
        }
        match record {
            SnapshotRecord::Session { id, timeout_ms } => {
                loader.session(id, timeout_ms);
                sessions.push((id, timeout_ms));
            }
            SnapshotRecord::Acl { id, acl } => {
                loader.acl(id, acl.clone());
                acls.push((id, acl));
            }
            SnapshotRecord::Node { path, data, acl, stat } => {
                writer.node(&path, data, acl, &stat);
                loader
                    .node(&path, data, acl, &stat)
                    .map_err(|error| io::Error::other(format!("znode {path}: {error}")))?;
                znodes += 1;
            }
            SnapshotRecord::End => {}
        }
        received.advance(bytes);
    }
    let mut tree = loader.finish();
    tree.set_last_zxid(zxid);
    tree.distrust_digests();
    // The leader goes on changing the tree while it sends it: nobody knows its digest.
    let complete = || writer.complete(None, Some(zxid));
    let file = tokio::task::block_in_place(complete).map_err(io::Error::other)?;
    info!("received the leader's tree as of {zxid}: {znodes} znodes, {} bytes", file.bytes());
    net.copied.lock().insert(link, Copied { tree, file });
    Ok(())
}

fn invalid(error: zebu_jute::DecodeError) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, error)
}

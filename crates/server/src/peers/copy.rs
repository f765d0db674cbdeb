//! The whole tree on its way from a leader to a learner.

use std::sync::Arc;
use std::sync::mpsc::sync_channel;
use std::{io, thread};

use bytes::{Bytes, BytesMut};
use parking_lot::RwLock;
use tokio::io::AsyncReadExt as _;
use tokio::net::tcp::OwnedReadHalf;
use tokio::sync::mpsc::{Receiver, Sender, channel};
use tracing::info;
use zebu_jute::{Encode as _, Encoder};
use zebu_proto::Zxid;
use zebu_proto::quorum::{PacketKind, QuorumPacket};
use zebu_state::{Copied, CopyError, Entering, Receiving, Sending, Step};
use zebu_tree::Tree;
use zebu_zab::LinkId;

use super::Net;
use super::backlog::Backlog;
use crate::shared::StopOnPanic;

/// Znodes copied under one read lock.
const STEP_ZNODES: usize = 512;
/// Pieces that wait to be sent: the next one is made while one is sent.
const PIECES_MAX: usize = 1;
/// Pieces that wait to be entered into a learner's tree.
const PIECES_ENTERING_MAX: usize = 4;
/// Bytes of a piece, roughly.
const PIECE_BYTES: usize = 256 << 10;
/// Bytes that are copied under the first read lock, roughly: a tree that is no larger does not change
/// while it is copied, so the transactions behind it find the digests they expect.
const AT_ONCE_BYTES: usize = 2 << 20;

/// What was received of a tree, in whole records.
type Pieces = std::sync::mpsc::Receiver<Bytes>;

/// A tree that is being sent.
pub(super) struct Source {
    sending: Sending,
    /// What the last step has left to do.
    step: Step,
    piece: Vec<u8>,
    to: Sender<Bytes>,
    /// What waits for the learner.
    backlog: Arc<Backlog>,
}

impl Source {
    /// Begins with the tree as it is now. The pieces end with an empty one if all went well.
    pub(super) fn new(tree: &RwLock<Tree>, backlog: Arc<Backlog>) -> (Self, Receiver<Bytes>) {
        let (to, pieces) = channel(PIECES_MAX);
        let mut tables = Vec::new();
        let tree = tree.read();
        let mut sending = Sending::begin(&tree, &mut tables);
        let mut piece = Vec::with_capacity(PIECE_BYTES);
        let packet = QuorumPacket::new(PacketKind::SNAP, sending.zxid());
        packet.encode(&mut Encoder::new(&mut piece));
        piece.append(&mut tables);
        let mut step = Step::More;
        while step == Step::More && piece.len() < AT_ONCE_BYTES {
            step = sending.fill(&tree, STEP_ZNODES, AT_ONCE_BYTES, &mut piece);
        }
        (Self { sending, step, piece, to, backlog }, pieces)
    }

    /// Sends everything, as fast as the learner takes it; ends early when the learner is gone, or the tree.
    pub(super) fn run(mut self, tree: &RwLock<Tree>) {
        while self.step == Step::More {
            let piece = &mut self.piece;
            self.step = self.sending.fill(&tree.read(), STEP_ZNODES, PIECE_BYTES, piece);
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
        self.backlog.grow(piece.len());
        self.to.blocking_send(piece.into()).is_ok()
    }
}

/// Receives a leader's tree: into memory, and into a file that is durable but not in use yet. Each on a thread of
/// its own, for either takes longer than all the rest.
pub(super) async fn receive(
    net: &Net,
    link: LinkId,
    zxid: Zxid,
    from: &mut OwnedReadHalf,
    received: &mut BytesMut,
) -> io::Result<()> {
    let options = net.shared.tree.read().options();
    let receiving = Receiving::begin(&net.shared.snapshots, zxid, options, net.field_bytes_max())
        .map_err(io::Error::other)?;
    let (mut filing, entering) = receiving.split();
    let (to, pieces) = sync_channel(PIECES_ENTERING_MAX);
    let shared = net.shared.clone();
    let entering = thread::Builder::new().name("zebu-enter".into()).spawn(move || {
        let _guard = StopOnPanic::new(&shared, "who enters a leader's tree");
        enter(entering, pieces)
    })?;
    loop {
        let bytes = filing.take(received).map_err(useless)?;
        if bytes > 0 {
            let piece = received.split_to(bytes).freeze();
            if tokio::task::block_in_place(|| to.send(piece)).is_err() {
                break; // why, it says itself
            }
        }
        if filing.is_done() {
            break;
        }
        if filing.gathered_bytes() > PIECE_BYTES {
            tokio::task::block_in_place(|| filing.flush()).map_err(io::Error::other)?;
        }
        received.reserve(PIECE_BYTES);
        if from.read_buf(received).await? == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
    }
    drop(to);
    let copied = tokio::task::block_in_place(|| {
        let filed = filing.is_done().then(|| filing.complete()).transpose();
        let entered = entering.join().map_err(|_| io::Error::other("a thread has panicked"))?;
        let (tree, filed) = (entered.map_err(useless)?, filed.map_err(io::Error::other)?);
        let whole = tree.zip(filed).ok_or(io::ErrorKind::UnexpectedEof)?;
        let (tree, (file, znodes)) = whole;
        io::Result::Ok(Copied { tree, file, znodes })
    })?;
    let (znodes, bytes) = (copied.znodes, copied.file.bytes());
    info!("received the leader's tree as of {zxid}: {znodes} znodes, {bytes} bytes");
    net.copied.lock().insert(link, copied);
    Ok(())
}

/// Enters a leader's tree into memory, piece by piece; nothing when not all of it comes.
fn enter(mut entering: Entering, pieces: Pieces) -> Result<Option<Tree>, CopyError> {
    for piece in pieces {
        entering.take(&piece)?;
    }
    let whole = entering.is_done().then(|| entering.complete());
    Ok(whole.transpose()?)
}

fn useless(error: CopyError) -> io::Error {
    match error {
        CopyError::Decode(error) => io::Error::new(io::ErrorKind::InvalidData, error),
        error => io::Error::other(error),
    }
}

#[cfg(test)]
mod tests {
    use zebu_proto::{Acl, ExtendedTypes, StatPersisted};
    use zebu_tree::{Loader, Options};

    use super::*;

    const OPTIONS: Options = Options {
        types: ExtendedTypes { enabled: true, emulate_353: false },
        digest: true,
        hash_seed: 7,
    };

    fn tree(znodes: usize, bytes: usize) -> RwLock<Tree> {
        let mut loader = Loader::new(OPTIONS);
        loader.acl(1, Acl::open());
        let (data, stat) = (vec![7; bytes], StatPersisted::default());
        loader.node("", None, 1, &stat).unwrap();
        for number in 0..znodes {
            loader.node(&format!("/{number}"), Some(&data), 1, &stat).unwrap();
        }
        RwLock::new(loader.finish().unwrap())
    }

    #[test]
    fn a_large_tree_waits_for_a_learner_in_small_pieces() {
        let (znodes, bytes) = (64, 900_000);
        let tree = Arc::new(tree(znodes, bytes));
        let backlog = Arc::new(Backlog::default());
        let (source, mut pieces) = Source::new(&tree, backlog.clone());
        let making = std::thread::spawn(move || source.run(&tree));
        // The first piece, one that waits and one that is to wait, each with a znode too many.
        let most = AT_ONCE_BYTES + 2 * PIECE_BYTES + 3 * (bytes + 1000);
        let (mut sent, mut whole) = (0, false);
        while let Some(piece) = pieces.blocking_recv() {
            assert!(backlog.bytes() <= most, "{} of {most} bytes wait", backlog.bytes());
            backlog.sent(piece.len());
            sent += piece.len();
            whole = piece.is_empty();
        }
        making.join().unwrap();
        assert!(whole && sent > znodes * bytes, "{sent}");
        assert_eq!(backlog.bytes(), 0);
    }

    #[test]
    fn nothing_more_is_made_for_a_learner_that_is_gone() {
        let tree = Arc::new(tree(64, 900_000));
        let (source, pieces) = Source::new(&tree, Arc::default());
        let making = std::thread::spawn(move || source.run(&tree));
        drop(pieces);
        making.join().unwrap();
    }
}

//! The transfer of a whole tree from a leader to a learner.

use std::collections::VecDeque;
use std::io;
use std::sync::Arc;
use std::thread::JoinHandle;

use bytes::{Bytes, BytesMut};
use parking_lot::RwLock;
use tokio::io::AsyncReadExt as _;
use tokio::sync::mpsc::{Receiver, Sender, channel};
use tracing::info;
use zebu_jute::{DecodeError, Encode as _, Encoder};
use zebu_proto::Zxid;
use zebu_proto::quorum::{PacketKind, QuorumPacket};
use zebu_state::{Copied, CopyError, Entering, Filing, Receiving, Sending, Step};
use zebu_store::{Received, StoreError};
use zebu_transport::PeerReader;
use zebu_tree::Tree;
use zebu_zab::LinkId;

use super::Net;
use super::backlog::Backlog;
use super::links::Progress;
use crate::threads;

/// Znodes copied under one read lock.
const STEP_ZNODES: usize = 512;
/// Number of pieces that wait to be sent: the next one is made while one is sent.
const PIECES_MAX: usize = 1;
/// Number of pieces that wait to be inserted into a learner's tree.
const PIECES_ENTERING_MAX: usize = 4;
/// Number of pieces that wait to be written into the file, so that the transfer continues while the
/// disk is busy.
const PIECES_FILING_MAX: usize = 16;
/// Minimum free space in the buffer of a read.
const READ_BYTES_MIN: usize = 64 << 10;
/// Approximate bytes of a piece.
const PIECE_BYTES: usize = 256 << 10;
/// Capacity for a piece: more than enough for a znode of usual size.
const PIECE_ROOM_BYTES: usize = PIECE_BYTES + (16 << 10);
/// Approximate bytes copied under the first read lock. A smaller tree does not change while it is
/// copied, so the transactions after it find the expected digests.
const AT_ONCE_BYTES: usize = 2 << 20;

/// A tree that is being sent.
pub(super) struct Source {
    sending: Sending,
    /// The remaining work of the last step.
    step: Step,
    piece: Vec<u8>,
    to: Sender<Bytes>,
    /// The bytes that wait for the learner.
    backlog: Arc<Backlog>,
}

impl Source {
    /// Starts with the present tree. After a complete transfer, the last piece is empty.
    pub(super) fn new(tree: &RwLock<Tree>, backlog: Arc<Backlog>) -> (Self, Receiver<Bytes>) {
        let (to, pieces) = channel(PIECES_MAX);
        let mut tables = Vec::new();
        let tree = tree.read();
        let mut sending = Sending::begin(&tree, &mut tables);
        let mut piece = Vec::with_capacity(AT_ONCE_BYTES + PIECE_BYTES);
        let packet = QuorumPacket::new(PacketKind::SNAP, sending.zxid());
        packet.encode(&mut Encoder::new(&mut piece));
        piece.append(&mut tables);
        let mut step = Step::More;
        while step == Step::More && piece.len() < AT_ONCE_BYTES {
            step = sending.fill(&tree, STEP_ZNODES, AT_ONCE_BYTES, &mut piece);
        }
        (Self { sending, step, piece, to, backlog }, pieces)
    }

    /// Sends the snapshot, as fast as the learner receives it. Ends early if the learner
    /// disconnects, or if the tree is replaced.
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
        let piece = std::mem::replace(&mut self.piece, Vec::with_capacity(PIECE_ROOM_BYTES));
        self.backlog.grow(piece.len());
        self.to.blocking_send(piece.into()).is_ok()
    }
}

/// Receives a leader's tree, both into memory and into a file that is durable but not in use yet.
/// Each has a thread of its own, because each takes longer than everything else.
pub(super) async fn receive(
    net: &Net,
    link: LinkId,
    zxid: Zxid,
    from: &mut PeerReader,
    received: &mut BytesMut,
    progress: &mut Progress<impl Fn()>,
) -> io::Result<()> {
    let options = net.shared.tree().read().options();
    let (snapshots, field_bytes_max) = (net.shared.disk.snapshots.clone(), net.field_bytes_max());
    // This creates a file, and a disk may hang.
    let begin = move || Receiving::begin(&snapshots, zxid, options, field_bytes_max);
    let begun = tokio::task::spawn_blocking(begin).await.map_err(io::Error::other)?;
    let receiving = begun.map_err(io::Error::other)?;
    let (mut cutting, filing, entering) = receiving.split();
    let (to_file, contents) = channel(PIECES_FILING_MAX);
    let (to_tree, records) = channel(PIECES_ENTERING_MAX);
    let filing = thread_of(net, "zebu-file", move || write(filing, contents))?;
    let entering = thread_of(net, "zebu-enter", move || enter(entering, records))?;
    let mut buffers = Buffers::default();
    // The complete records in the received bytes. The file has everything except the end.
    let (mut whole, mut content) = (0, 0);
    loop {
        let cut = cutting.cut(&received[whole..]).map_err(invalid)?;
        content = if cut.content > 0 { whole + cut.content } else { content };
        whole += cut.bytes;
        if whole >= PIECE_BYTES / 2 || cutting.is_done() {
            let next = buffers.next(&received[whole..]);
            received.truncate(whole);
            let piece = std::mem::replace(received, next).freeze();
            let (filed, entered) = (piece.slice(..content), piece.clone());
            buffers.lent.push_back(piece);
            (whole, content) = (0, 0);
            let is_end = cutting.is_done();
            let dealt = async {
                if !filed.is_empty() {
                    to_file.send(filed).await.ok()?;
                }
                to_tree.send(entered).await.ok()?;
                if is_end {
                    to_file.send(Bytes::new()).await.ok()?;
                }
                Some(())
            };
            if dealt.await.is_none() || is_end {
                break; // who takes no more says why
            }
        }
        received.reserve(READ_BYTES_MIN);
        if from.read_buf(received).await? == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        progress.moved();
    }
    drop((to_file, to_tree));
    // Other tasks run meanwhile.
    let joined = tokio::task::spawn_blocking(|| (entering.join(), filing.join())).await;
    let (entered, filed) = joined.map_err(io::Error::other)?;
    let panicked = |_| io::Error::other("a thread has panicked");
    let (entered, filed) = (entered.map_err(panicked)?, filed.map_err(panicked)?);
    let (tree, file) = (entered.map_err(useless)?, filed.map_err(io::Error::other)?);
    let (tree, file) = tree.zip(file).ok_or(io::ErrorKind::UnexpectedEof)?;
    let (znodes, bytes) = (cutting.znodes(), file.bytes());
    info!("received the leader's tree as of {zxid}: {znodes} znodes, {bytes} bytes");
    net.keep_copy(link, Copied { tree, file, znodes });
    Ok(())
}

/// The buffers for received pieces, which are reused.
#[derive(Default)]
struct Buffers {
    lent: VecDeque<Bytes>,
}

impl Buffers {
    /// A buffer that begins with these bytes.
    fn next(&mut self, bytes: &[u8]) -> BytesMut {
        let back = self.lent.pop_front().and_then(|oldest| match oldest.try_into_mut() {
            // A buffer that had to grow for a large znode is not reused.
            Ok(buffer) => Some(buffer).filter(|buffer| buffer.capacity() <= 2 * PIECE_BYTES),
            Err(lent) => {
                self.lent.push_front(lent);
                None
            }
        });
        let mut buffer = back.unwrap_or_else(|| BytesMut::with_capacity(PIECE_BYTES));
        buffer.clear();
        buffer.extend_from_slice(bytes);
        buffer
    }
}

/// Writes a leader's tree into a file in pieces. The last piece is empty; without it, the result is
/// `None`.
fn write(
    mut filing: Filing,
    mut contents: Receiver<Bytes>,
) -> Result<Option<Received>, StoreError> {
    while let Some(content) = contents.blocking_recv() {
        if content.is_empty() {
            return filing.complete().map(Some);
        }
        filing.take(&content)?;
    }
    Ok(None)
}

/// Inserts a leader's tree into memory in pieces. Returns `None` if the tree is incomplete.
fn enter(mut entering: Entering, mut records: Receiver<Bytes>) -> Result<Option<Tree>, CopyError> {
    while let Some(piece) = records.blocking_recv() {
        entering.take(&piece)?;
    }
    let whole = entering.is_done().then(|| entering.complete());
    Ok(whole.transpose()?)
}

fn thread_of<T: Send + 'static>(
    net: &Net,
    name: &'static str,
    run: impl FnOnce() -> T + Send + 'static,
) -> io::Result<JoinHandle<T>> {
    threads::guarded(&net.shared, name, name, |_| run())
}

fn useless(error: CopyError) -> io::Error {
    match error {
        CopyError::Decode(error) => invalid(error),
        error => io::Error::other(error),
    }
}

fn invalid(error: DecodeError) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, error)
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use zebu_proto::{Acl, ExtendedTypes, StatPersisted};
    use zebu_state::Rebuild;
    use zebu_store::Store;
    use zebu_store::vfs::MemVfs;
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

    /// The result of a snapshot transfer that is cut after `cut` bytes, in the file and in memory.
    fn received(bytes: &[u8], cut: usize) -> (Option<Received>, Option<Tree>) {
        let vfs = Arc::new(MemVfs::new(Path::new("/d")));
        let mut store = Store::open(vfs, zebu_store::Options::new("/d")).unwrap();
        store.recover(&mut Rebuild::new(OPTIONS)).unwrap();
        let (_log, snapshots) = store.split();
        let receiving = Receiving::begin(&snapshots, Zxid(7), OPTIONS, 1 << 20).unwrap();
        let (mut cutting, filing, entering) = receiving.split();
        let ((to_file, contents), (to_tree, records)) = (channel(2), channel(1));
        let cut = cutting.cut(&bytes[..cut]).unwrap();
        to_file.try_send(Bytes::copy_from_slice(&bytes[..cut.content])).unwrap();
        to_tree.try_send(Bytes::copy_from_slice(&bytes[..cut.bytes])).unwrap();
        if cutting.is_done() {
            to_file.try_send(Bytes::new()).unwrap();
        }
        drop((to_file, to_tree));
        (write(filing, contents).unwrap(), enter(entering, records).unwrap())
    }

    #[test]
    fn a_tree_whose_end_does_not_come_is_none() {
        let tree = tree(9, 100);
        let mut bytes = Vec::new();
        let mut sending = Sending::begin(&tree.read(), &mut bytes);
        while sending.step(&tree.read(), 1, &mut bytes) == Step::More {}
        for cut in [bytes.len() - 1, bytes.len() - 19, bytes.len() / 2] {
            let (file, entered) = received(&bytes, cut);
            assert!(file.is_none() && entered.is_none(), "{cut}");
        }
        let (file, entered) = received(&bytes, bytes.len());
        assert!(file.unwrap().bytes() > bytes.len() as u64 - 19);
        assert_eq!(entered.unwrap().znode_count(), tree.read().znode_count());
    }

    #[test]
    fn a_buffer_is_used_again_once_nobody_has_it() {
        let mut buffers = Buffers::default();
        let piece = buffers.next(b"a").freeze();
        buffers.lent.push_back(piece.clone());
        assert_ne!(buffers.next(b"").as_ptr(), piece.as_ptr(), "it is still read");
        let at = piece.as_ptr();
        drop(piece);
        let again = buffers.next(b"bc");
        assert_eq!((again.as_ptr(), &*again), (at, &b"bc"[..]));
        buffers.lent.push_back(Bytes::from(vec![0; 1 << 20]));
        assert_eq!(buffers.next(b"").capacity(), PIECE_BYTES, "a large one is not kept");
    }
}

//! A snapshot that an operator hands in to replace the state of a standalone server.
//!
//! It is read and checked as a whole before anything changes. The new state gets the first zxid of
//! an epoch in which there are no transactions yet: no client has seen a later state, and no znode
//! has a later change.

use std::io::{self, Read};

use zebu_proto::path::reserved;
use zebu_proto::txn::DIGEST_VERSION;
use zebu_proto::{Acl, Epoch, SessionId, StatPersisted, Zxid};
use zebu_store::snapshot::read::{SnapshotError, read_snapshot};
use zebu_store::snapshot::uncompressed;
use zebu_store::{Received, Recover, Refused, Snapshots, StoreError};
use zebu_tree::{Loader, Options, Tree};

use crate::Outline;

/// Znodes written at once.
const STEP_ZNODES: usize = 4096;
/// Bytes of them after which no more are.
const STEP_BYTES: usize = 1 << 20;

/// A complete and intact snapshot.
#[derive(Debug)]
pub struct HandedIn {
    /// The state.
    pub tree: Tree,
    /// The last transaction that the state may contain.
    pub newest: Zxid,
    /// The result of the comparison with the digest in the snapshot.
    pub digest: DigestFound,
}

/// The comparison of the znodes with the digest in their snapshot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DigestFound {
    /// They agree.
    Matches,
    /// The snapshot has no digest, or this server computes none.
    Missing,
    /// They differ. Transactions were applied while the snapshot was taken, or it is damaged.
    Differs,
}

/// Why a snapshot does not become the state.
#[derive(Debug, thiserror::Error)]
pub enum HandedInError {
    /// It is incomplete or damaged.
    #[error(transparent)]
    Snapshot(#[from] SnapshotError),
    /// No later epoch exists.
    #[error("no epoch comes after that of {0}")]
    EpochsSpent(Zxid),
}

/// The limits on the size of a snapshot.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Bytes of the snapshot, compressed and uncompressed.
    pub bytes_max: u64,
    /// The longest string and the longest data of a znode.
    pub record_bytes_max: usize,
}

/// Reads a snapshot, compressed or not, to its end.
///
/// # Errors
/// It is incomplete, damaged or too large, or the source fails.
pub fn read_handed_in(
    source: impl Read,
    limits: Limits,
    options: Options,
) -> Result<HandedIn, HandedInError> {
    let bounded = Bounded { source, limit: limits.bytes_max, left: limits.bytes_max };
    let source = uncompressed(bounded).map_err(SnapshotError::Io)?;
    let source = Bounded { source, limit: limits.bytes_max, left: limits.bytes_max };
    let loader = Loader::new(options);
    let mut entering = Entering { loader, newest: Zxid::ZERO, digest: None };
    let sections = read_snapshot(source, limits.record_bytes_max, options.digest, &mut entering)?;
    let Entering { loader, newest, digest } = entering;
    let tree =
        loader.finish().map_err(|error| SnapshotError::Whole { reason: Refused::state(error) })?;
    let digest = match digest {
        None => DigestFound::Missing,
        Some(digest) if digest == tree.digest() => DigestFound::Matches,
        Some(_) => DigestFound::Differs,
    };
    let newest = sections.extent(true).map_or(newest, |extent| extent.max(newest));
    Ok(HandedIn { tree, newest, digest })
}

impl HandedIn {
    /// Prepares the state to continue after a state that ends at `last`: it ends at the first zxid
    /// of a new epoch, has no configuration of an ensemble, and no ephemerals without sessions.
    ///
    /// # Errors
    /// No later epoch exists.
    pub fn continue_after(mut self, last: Zxid) -> Result<Tree, HandedInError> {
        let end = self.newest.max(last);
        let epoch = Some(end.epoch()).filter(|epoch| *epoch < Epoch::MAX);
        let epoch = Epoch(epoch.ok_or(HandedInError::EpochsSpent(end))?.0 + 1);
        self.tree.set_last_zxid(Zxid::new(epoch, 0));
        if self.tree.node(reserved::CONFIG).is_some_and(|node| node.data_bytes() > 0) {
            self.tree.show_configuration(b"", Zxid::ZERO, 0);
        }
        self.tree.remove_orphan_ephemerals();
        assert!(self.tree.last_zxid() > end, "the new state is later than both");
        Ok(self.tree)
    }
}

/// Writes a state that no other thread uses as a snapshot that is durable and not in use yet.
///
/// # Errors
/// The disk failed; nothing of the snapshot stays.
pub fn write_unused(tree: &Tree, snapshots: &Snapshots) -> Result<Received, StoreError> {
    let Outline { mut walk, zxid, sessions, acls } = Outline::of(tree);
    let mut writer = snapshots.begin(zxid)?;
    writer.sessions(&sessions);
    writer.acls(&acls);
    loop {
        let mut copied = 0;
        let is_done = walk.step_while(tree, STEP_ZNODES, &mut |path, data, acl, stat| {
            writer.node(path, data, acl, stat);
            copied += path.len() + data.map_or(0, <[u8]>::len);
            copied < STEP_BYTES
        });
        writer.flush()?;
        if is_done {
            break;
        }
    }
    writer.complete(Some((zxid, tree.digest())), Some(zxid))
}

/// A stream of a limited length.
struct Bounded<R> {
    source: R,
    limit: u64,
    left: u64,
}

impl<R: Read> Read for Bounded<R> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let read = self.source.read(into)?;
        self.left = self.left.checked_sub(read as u64).ok_or_else(|| {
            let why = format!(
                "it exceeds {} bytes, the most that fits into this server's memory",
                self.limit
            );
            io::Error::other(why)
        })?;
        Ok(read)
    }
}

/// Builds the tree, and finds the newest transaction that a znode names.
struct Entering {
    loader: Loader,
    newest: Zxid,
    digest: Option<i64>,
}

impl Recover for Entering {
    fn restart(&mut self) {}

    fn session(&mut self, id: SessionId, timeout_ms: i32) {
        self.loader.session(id, timeout_ms);
    }

    fn acl(&mut self, id: i64, acl: Vec<Acl>) {
        self.loader.acl(id, acl);
    }

    fn node(
        &mut self,
        path: &str,
        data: Option<&[u8]>,
        acl: i64,
        stat: &StatPersisted,
    ) -> Result<(), Refused> {
        self.newest = self.newest.max(stat.czxid).max(stat.mzxid).max(stat.pzxid);
        self.loader.node(path, data, acl, stat).map_err(Refused::state)
    }

    fn digest(&mut self, zxid: Zxid, version: i32, digest: i64) {
        self.digest = (version == DIGEST_VERSION && zxid > Zxid::ZERO).then_some(digest);
    }

    fn loaded(&mut self, _: Zxid) -> Result<(), Refused> {
        Ok(())
    }

    fn txn(&mut self, _: &[u8]) -> Result<(), Refused> {
        Err(Refused::OutOfPlace("a snapshot has no transactions"))
    }
}

//! Writes a snapshot, under a temporary name until it is durable.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use simd_adler32::Adler32;
use zebu_jute::{Encode, Encoder};
use zebu_proto::txn::DIGEST_VERSION;
use zebu_proto::{Acl, SessionId, StatPersisted, Zxid};

use super::compress::Compressor;
use super::{HEADER, SEAL_END};
use crate::store::Shared;
use crate::vfs::Appending;
use crate::{StoreError, names, recover};

/// A written snapshot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Written {
    /// Its path.
    pub path: PathBuf,
    /// Its size on disk in bytes.
    pub bytes: u64,
}

/// A leader's snapshot, complete and durable, but not in use yet.
///
/// [`TxnLog::install`](crate::TxnLog::install) makes it the state of this member. Dropping it
/// changes nothing.
#[derive(Debug)]
pub struct Received {
    pub(crate) temporary: PathBuf,
    pub(crate) name: String,
    pub(crate) zxid: Zxid,
    pub(crate) bytes: u64,
    shared: Arc<Shared>,
}

impl Received {
    /// The last transaction of the state.
    pub fn zxid(&self) -> Zxid {
        self.zxid
    }

    /// Its size on disk in bytes.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }
}

impl Drop for Received {
    fn drop(&mut self) {
        // The file no longer exists once it is installed.
        remove_if_there(&self.shared, &self.temporary);
    }
}

/// A snapshot being written: sessions, then ACLs, then znodes, then [`SnapshotWriter::finish`], or
/// [`SnapshotWriter::complete`] for a leader's snapshot.
///
/// Dropping it earlier leaves nothing behind. An error ends this snapshot only.
pub struct SnapshotWriter {
    shared: Arc<Shared>,
    zxid: Zxid,
    name: String,
    temporary: PathBuf,
    path: PathBuf,
    /// The generation of the state that the snapshot is of.
    generation: u64,
    sink: Option<Compressor>,
    block: Vec<u8>,
    adler: Adler32,
    part: Part,
}

/// The part written last.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Part {
    Header,
    Sessions,
    Acls,
    /// Everything, as encoded elsewhere.
    Encoded,
}

impl std::fmt::Debug for SnapshotWriter {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SnapshotWriter").field("path", &self.path).finish_non_exhaustive()
    }
}

impl SnapshotWriter {
    pub(super) fn begin(
        shared: Arc<Shared>,
        zxid: Zxid,
        unsynced_bytes_max: u64,
    ) -> Result<Self, StoreError> {
        let compression = shared.options.compression;
        let generation = *shared.generation();
        let name = names::snapshot(zxid, compression);
        // Another snapshot of the same state may be in progress: from a leader, or from before a
        // reload.
        let turn = shared.snapshots_begun.fetch_add(1, Ordering::Relaxed);
        let temporary = shared.snap_dir.join(format!("{}.{turn}", names::temporary(&name)));
        let file =
            shared.vfs.create(&temporary).map_err(StoreError::io("create snapshot", &temporary))?;
        Ok(Self {
            path: shared.snap_dir.join(&name),
            zxid,
            name,
            generation,
            sink: Some(Compressor::new(Appending::new(file, unsynced_bytes_max), compression)),
            shared,
            temporary,
            block: HEADER.to_vec(),
            adler: Adler32::new(),
            part: Part::Header,
        })
    }

    /// Adds the sessions and their timeouts in milliseconds. Does no I/O.
    pub fn sessions(&mut self, sessions: &[(SessionId, i32)]) {
        assert_eq!(self.part, Part::Header, "sessions come first");
        self.part = Part::Sessions;
        let mut out = Encoder::new(&mut self.block);
        out.count(sessions.len());
        for (id, timeout_ms) in sessions {
            id.encode(&mut out);
            out.int(*timeout_ms);
        }
    }

    /// Adds the ACL table: lists by the ids that znodes refer to. Does no I/O.
    pub fn acls<A: AsRef<[Acl]>>(&mut self, acls: &[(i64, A)]) {
        assert_eq!(self.part, Part::Sessions, "ACLs come behind the sessions");
        self.part = Part::Acls;
        let mut out = Encoder::new(&mut self.block);
        out.count(acls.len());
        for (id, acl) in acls {
            out.long(*id);
            out.vector(Some(acl.as_ref()));
        }
    }

    /// Adds a znode. The root, with the empty path, comes first, and parents before children.
    ///
    /// Does no I/O, so it may be called under a lock. Call [`SnapshotWriter::flush`] from time to
    /// time, without a lock.
    pub fn node(&mut self, path: &str, data: Option<&[u8]>, acl: i64, stat: &StatPersisted) {
        assert_eq!(self.part, Part::Acls, "znodes come behind the ACLs");
        assert_ne!(path, "/", "this path marks the end of the znodes");
        let mut out = Encoder::new(&mut self.block);
        out.text(path);
        out.buffer(data);
        out.long(acl);
        stat.encode(&mut out);
    }

    /// Writes encoded sessions, ACLs and znodes, in pieces of any size. Excludes the other methods
    /// that add content.
    ///
    /// # Errors
    /// [`StoreError::Io`].
    pub fn encoded(&mut self, records: &[u8]) -> Result<(), StoreError> {
        assert!(matches!(self.part, Part::Header | Part::Encoded), "all of it is encoded, or none");
        if self.part == Part::Header {
            self.part = Part::Encoded;
            self.flush()?;
        }
        self.adler.write(records);
        let sink = self.sink.as_mut().expect("only finish takes it");
        sink.write(records).map_err(StoreError::io("write snapshot", &self.temporary))
    }

    /// Bytes that wait for [`SnapshotWriter::flush`].
    pub fn gathered_bytes(&self) -> usize {
        self.block.len()
    }

    /// Writes the content added so far.
    ///
    /// # Errors
    /// [`StoreError::Io`].
    pub fn flush(&mut self) -> Result<(), StoreError> {
        self.adler.write(&self.block);
        let sink = self.sink.as_mut().expect("only finish takes it");
        sink.write(&self.block).map_err(StoreError::io("write snapshot", &self.temporary))?;
        self.block.clear();
        Ok(())
    }

    /// Completes the snapshot and makes it durable; only then does it get its name.
    ///
    /// `digest`: the tree's digest and the last transaction in it, if digests are enabled.
    /// `last_zxid`: the last transaction applied, if that section is enabled. Determine both after
    /// adding the last znode: they tell a later truncation what the snapshot may contain. Disabled
    /// sections are left out; a missing digest is written as none.
    ///
    /// # Errors
    /// [`StoreError::Superseded`] if the state was replaced meanwhile by a truncation, a leader's
    /// snapshot or another recovery, and [`StoreError::Untrusted`] if a member's state has last
    /// zxid −1: the snapshot is discarded. [`StoreError::Io`].
    pub fn finish(
        mut self,
        digest: Option<(Zxid, i64)>,
        last_zxid: Option<Zxid>,
    ) -> Result<Written, StoreError> {
        let bytes = self.write_out(digest, last_zxid)?;
        assert!(self.sink.is_none(), "a name is given to what is whole");
        let Shared { vfs, snap_dir, has_base, .. } = &*self.shared;
        let generation = self.shared.generation();
        assert!(self.generation <= *generation, "a state of a time to come");
        if *generation != self.generation {
            return Err(StoreError::Superseded { path: self.path.clone() });
        }
        if self.shared.untrusted.load(Ordering::Acquire) {
            return Err(StoreError::Untrusted { path: self.path.clone() });
        }
        self.shared.health().forget(&self.path);
        vfs.rename(&self.temporary, &self.path)
            .and_then(|()| vfs.sync_dir(snap_dir))
            .map_err(StoreError::io("write snapshot", &self.path))?;
        if !has_base.swap(true, Ordering::AcqRel) {
            recover::forget_initialize(&self.shared)?;
        }
        drop(generation);
        Ok(Written { path: self.path.clone(), bytes })
    }

    /// Completes a leader's snapshot and makes it durable, ready for installation.
    ///
    /// Arguments as for [`SnapshotWriter::finish`]; `last_zxid` is the zxid of the leader's packet.
    ///
    /// # Errors
    /// [`StoreError::Io`].
    pub fn complete(
        mut self,
        digest: Option<(Zxid, i64)>,
        last_zxid: Option<Zxid>,
    ) -> Result<Received, StoreError> {
        let bytes = self.write_out(digest, last_zxid)?;
        Ok(Received {
            temporary: std::mem::take(&mut self.temporary),
            name: std::mem::take(&mut self.name),
            zxid: self.zxid,
            bytes,
            shared: Arc::clone(&self.shared),
        })
    }

    /// Writes the rest and makes everything durable. Returns the size of the file.
    fn write_out(
        &mut self,
        digest: Option<(Zxid, i64)>,
        last_zxid: Option<Zxid>,
    ) -> Result<u64, StoreError> {
        let is_begun = matches!(self.part, Part::Acls | Part::Encoded);
        assert!(is_begun, "a snapshot has sessions and ACLs, if only none");
        Encoder::new(&mut self.block).text("/");
        self.seal()?;
        if self.shared.options.digest {
            let (zxid, digest) = digest.unwrap_or_default();
            let mut out = Encoder::new(&mut self.block);
            zxid.encode(&mut out);
            out.int(DIGEST_VERSION);
            out.long(digest);
            self.seal()?;
        }
        if self.shared.options.last_zxid_section
            && let Some(zxid) = last_zxid
        {
            zxid.encode(&mut Encoder::new(&mut self.block));
            self.seal()?;
        }
        assert!(self.block.is_empty(), "everything gathered is sealed");
        let sink = self.sink.take().expect("taken once");
        let done = sink.finish().and_then(Appending::finish);
        done.map_err(StoreError::io("write snapshot", &self.path))
    }

    /// Writes the checksum of everything so far.
    fn seal(&mut self) -> Result<(), StoreError> {
        self.flush()?;
        let sum = self.adler.finish();
        self.block.extend_from_slice(&u64::from(sum).to_be_bytes());
        self.block.extend_from_slice(&SEAL_END);
        self.flush()
    }
}

impl Drop for SnapshotWriter {
    fn drop(&mut self) {
        // A renamed file no longer exists. If removal fails, the next start removes it.
        self.sink = None;
        remove_if_there(&self.shared, &self.temporary);
    }
}

/// Removes a temporary file. If that fails, the next start removes it.
fn remove_if_there(shared: &Shared, temporary: &Path) {
    if temporary.file_name().is_some() && shared.vfs.exists(temporary).unwrap_or(false) {
        let _ = shared.vfs.remove(temporary);
    }
}

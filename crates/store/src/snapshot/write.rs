//! Writing a snapshot: under a temporary name until everything of it is durable.

use std::path::PathBuf;
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
use crate::{StoreError, names};

/// A snapshot that has been written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Written {
    /// Where it is.
    pub path: PathBuf,
    /// Its length on the disk.
    pub bytes: u64,
}

/// A snapshot being written: sessions, then ACLs, then znodes, then [`SnapshotWriter::finish`].
///
/// Dropping it before leaves nothing behind. An error is final for this snapshot only.
pub struct SnapshotWriter {
    shared: Arc<Shared>,
    temporary: PathBuf,
    path: PathBuf,
    sink: Option<Compressor>,
    block: Vec<u8>,
    adler: Adler32,
    part: Part,
}

/// What has been written last.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Part {
    Header,
    Sessions,
    Acls,
}

impl std::fmt::Debug for SnapshotWriter {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SnapshotWriter").field("path", &self.path).finish_non_exhaustive()
    }
}

impl SnapshotWriter {
    pub(super) fn begin(shared: Arc<Shared>, zxid: Zxid) -> Result<Self, StoreError> {
        let compression = shared.options.compression;
        let name = names::snapshot(zxid, compression);
        let temporary = shared.snap_dir.join(names::temporary(&name));
        let file =
            shared.vfs.create(&temporary).map_err(StoreError::io("create snapshot", &temporary))?;
        Ok(Self {
            path: shared.snap_dir.join(name),
            sink: Some(Compressor::new(Appending { file, at: 0 }, compression)),
            shared,
            temporary,
            block: HEADER.to_vec(),
            adler: Adler32::new(),
            part: Part::Header,
        })
    }

    /// Gathers the sessions and their timeouts in milliseconds; does no I/O.
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

    /// Gathers the ACL table, lists by the ids that znodes have; does no I/O.
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

    /// Gathers a znode; the root, with the empty path, comes first, parents before children.
    ///
    /// Does no I/O, so it may be called under a lock; [`SnapshotWriter::flush`] has to be called
    /// now and then, under none.
    pub fn node(&mut self, path: &str, data: Option<&[u8]>, acl: i64, stat: &StatPersisted) {
        assert_eq!(self.part, Part::Acls, "znodes come behind the ACLs");
        assert_ne!(path, "/", "this path marks the end of the znodes");
        let mut out = Encoder::new(&mut self.block);
        out.text(path);
        out.buffer(data);
        out.long(acl);
        stat.encode(&mut out);
    }

    /// How many bytes wait for [`SnapshotWriter::flush`].
    pub fn gathered_bytes(&self) -> usize {
        self.block.len()
    }

    /// Writes what was gathered.
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
    /// `digest` is the tree's digest and the last transaction in it, when digests are enabled;
    /// `last_zxid` is the last transaction applied, when that section is. Sections the configuration
    /// switches off are left out, and a missing digest is written as none.
    ///
    /// # Errors
    /// [`StoreError::Io`].
    pub fn finish(
        mut self,
        digest: Option<(Zxid, i64)>,
        last_zxid: Option<Zxid>,
    ) -> Result<Written, StoreError> {
        assert_eq!(self.part, Part::Acls, "a snapshot has sessions and ACLs, if only none");
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
        let sink = self.sink.take().expect("only finish takes it");
        let Shared { vfs, snap_dir, has_snapshot, .. } = &*self.shared;
        let result = (|| {
            let Appending { mut file, at } = sink.finish()?;
            file.sync()?;
            drop(file);
            vfs.rename(&self.temporary, &self.path)?;
            vfs.sync_dir(snap_dir)?;
            Ok(at)
        })();
        let bytes = result.map_err(StoreError::io("write snapshot", &self.path))?;
        has_snapshot.store(true, Ordering::Release);
        Ok(Written { path: self.path.clone(), bytes })
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
        // Gone after a rename; otherwise what is left is removed at the next start.
        self.sink = None;
        if self.shared.vfs.exists(&self.temporary).unwrap_or(false) {
            let _ = self.shared.vfs.remove(&self.temporary);
        }
    }
}

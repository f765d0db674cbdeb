//! A state that is nothing but what it was told, and records for it.
#![allow(dead_code, reason = "every test uses some of it")]

use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use zebu_proto::{Acl, SessionId, StatPersisted, Zxid};
use zebu_store::vfs::{DirLock, Entry, VfsFile};
use zebu_store::{OsVfs, Recover, Vfs};

/// Everything a recovery said, in order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Told {
    pub(crate) sessions: Vec<(SessionId, i32)>,
    pub(crate) acls: Vec<(i64, Vec<Acl>)>,
    pub(crate) nodes: Vec<Node>,
    pub(crate) digest: Option<(Zxid, i32, i64)>,
    pub(crate) loaded: Option<Zxid>,
    pub(crate) txns: Vec<Vec<u8>>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Node {
    pub(crate) path: String,
    pub(crate) data: Option<Vec<u8>>,
    pub(crate) acl: i64,
    pub(crate) stat: StatPersisted,
}

impl Recover for Told {
    fn restart(&mut self) {
        *self = Self::default();
    }

    fn session(&mut self, id: SessionId, timeout_ms: i32) {
        self.sessions.push((id, timeout_ms));
    }

    fn acl(&mut self, id: i64, acl: Vec<Acl>) {
        self.acls.push((id, acl));
    }

    fn node(
        &mut self,
        path: &str,
        data: Option<&[u8]>,
        acl: i64,
        stat: &StatPersisted,
    ) -> Result<(), String> {
        let data = data.map(<[u8]>::to_vec);
        self.nodes.push(Node { path: path.to_owned(), data, acl, stat: *stat });
        Ok(())
    }

    fn digest(&mut self, zxid: Zxid, version: i32, digest: i64) {
        self.digest = Some((zxid, version, digest));
    }

    fn loaded(&mut self, zxid: Zxid) -> Result<(), String> {
        self.loaded = Some(zxid);
        Ok(())
    }

    fn txn(&mut self, body: &[u8]) -> Result<(), String> {
        self.txns.push(body.to_vec());
        Ok(())
    }
}

impl Told {
    /// The zxids of the transactions.
    pub(crate) fn zxids(&self) -> Vec<i64> {
        let zxid = |body: &Vec<u8>| i64::from_be_bytes(body[12..20].try_into().unwrap());
        self.txns.iter().map(zxid).collect()
    }
}

/// The body of a record with this zxid; what is in it depends on `salt`.
pub(crate) fn body(zxid: Zxid, salt: u8) -> Vec<u8> {
    let mut body = vec![0; 32];
    body[12..20].copy_from_slice(&zxid.0.to_be_bytes());
    let bytes = 20 + (zxid.0 as usize * 37 + usize::from(salt) * 11) % 90;
    body.extend((0..bytes).map(|at| (at as u8).wrapping_mul(7) ^ zxid.0 as u8 ^ salt | 1));
    body
}

/// The directory of golden files.
pub(crate) fn fixtures() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/fixtures")
}

/// The real file system, seen as if a directory were its root.
#[derive(Debug)]
pub(crate) struct Beneath(pub(crate) PathBuf);

impl Beneath {
    fn path(&self, path: &Path) -> PathBuf {
        self.0.join(path.strip_prefix("/").unwrap_or(path))
    }
}

impl Vfs for Beneath {
    fn create(&self, path: &Path) -> io::Result<Box<dyn VfsFile>> {
        OsVfs.create(&self.path(path))
    }

    fn open(&self, path: &Path) -> io::Result<Box<dyn VfsFile>> {
        OsVfs.open(&self.path(path))
    }

    fn open_rw(&self, path: &Path) -> io::Result<Box<dyn VfsFile>> {
        OsVfs.open_rw(&self.path(path))
    }

    fn list(&self, dir: &Path) -> io::Result<Vec<Entry>> {
        OsVfs.list(&self.path(dir))
    }

    fn exists(&self, path: &Path) -> io::Result<bool> {
        OsVfs.exists(&self.path(path))
    }

    fn create_dir(&self, dir: &Path) -> io::Result<()> {
        OsVfs.create_dir(&self.path(dir))
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        OsVfs.rename(&self.path(from), &self.path(to))
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        OsVfs.remove(&self.path(path))
    }

    fn sync_dir(&self, dir: &Path) -> io::Result<()> {
        OsVfs.sync_dir(&self.path(dir))
    }

    fn lock(&self, dir: &Path) -> io::Result<Option<DirLock>> {
        OsVfs.lock(&self.path(dir))
    }

    fn now(&self) -> Duration {
        OsVfs.now()
    }
}

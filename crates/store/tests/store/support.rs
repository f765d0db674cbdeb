//! Records with any content, and a file system below a directory.

use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use zebu_proto::Zxid;
use zebu_store::vfs::{DirLock, Entry, VfsFile};
use zebu_store::{OsVfs, Vfs};

/// The body of a record with this zxid; `salt` decides its content.
pub(crate) fn body(zxid: Zxid, salt: u8) -> Vec<u8> {
    let mut body = vec![0; 32];
    body[12..20].copy_from_slice(&zxid.0.to_be_bytes());
    let bytes = 20 + (zxid.0 as usize * 37 + usize::from(salt) * 11) % 90;
    body.extend((0..bytes).map(|at| (at as u8).wrapping_mul(7) ^ zxid.0 as u8 ^ salt | 1));
    body
}

/// The real file system, with a directory as its root.
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

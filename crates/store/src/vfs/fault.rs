//! A file system on which one call, or every call from that one on, fails.

use std::io;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use super::{DirLock, Entry, Vfs, VfsFile};

/// The failure, and its time.
#[derive(Clone, Copy, Debug)]
pub struct Fault {
    /// The failing call, counted from 0 over all calls including reads.
    pub at: u64,
    /// Whether all later calls fail too.
    pub for_good: bool,
    /// The kind of error, such as [`io::ErrorKind::StorageFull`].
    pub kind: io::ErrorKind,
    /// Whether a failing write still writes its first half.
    pub half_written: bool,
}

/// Wraps a file system and injects the failure.
#[derive(Clone, Debug)]
pub struct FaultVfs {
    inner: Arc<dyn Vfs>,
    plan: Arc<Plan>,
}

#[derive(Debug)]
struct Plan {
    fault: Option<Fault>,
    calls: AtomicU64,
}

impl Plan {
    /// Counts a call, and fails if it is the one.
    fn call(&self) -> io::Result<()> {
        let call = self.calls.fetch_add(1, Ordering::Relaxed);
        match self.fault {
            Some(fault) if call == fault.at || (fault.for_good && call > fault.at) => {
                Err(io::Error::new(fault.kind, "injected fault"))
            }
            _ => Ok(()),
        }
    }
}

impl FaultVfs {
    /// Injects `fault` into calls of `inner`; with `None` it only counts.
    pub fn new(inner: Arc<dyn Vfs>, fault: Option<Fault>) -> Self {
        Self { inner, plan: Arc::new(Plan { fault, calls: AtomicU64::new(0) }) }
    }

    /// The number of calls so far.
    pub fn calls(&self) -> u64 {
        self.plan.calls.load(Ordering::Relaxed)
    }

    fn file(&self, file: io::Result<Box<dyn VfsFile>>) -> io::Result<Box<dyn VfsFile>> {
        Ok(Box::new(FaultFile { inner: file?, plan: Arc::clone(&self.plan) }))
    }
}

impl Vfs for FaultVfs {
    fn create(&self, path: &Path) -> io::Result<Box<dyn VfsFile>> {
        self.plan.call()?;
        self.file(self.inner.create(path))
    }

    fn open(&self, path: &Path) -> io::Result<Box<dyn VfsFile>> {
        self.plan.call()?;
        self.file(self.inner.open(path))
    }

    fn open_rw(&self, path: &Path) -> io::Result<Box<dyn VfsFile>> {
        self.plan.call()?;
        self.file(self.inner.open_rw(path))
    }

    fn list(&self, dir: &Path) -> io::Result<Vec<Entry>> {
        self.plan.call()?;
        self.inner.list(dir)
    }

    fn exists(&self, path: &Path) -> io::Result<bool> {
        self.plan.call()?;
        self.inner.exists(path)
    }

    fn create_dir(&self, dir: &Path) -> io::Result<()> {
        self.plan.call()?;
        self.inner.create_dir(dir)
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.plan.call()?;
        self.inner.rename(from, to)
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        self.plan.call()?;
        self.inner.remove(path)
    }

    fn sync_dir(&self, dir: &Path) -> io::Result<()> {
        self.plan.call()?;
        self.inner.sync_dir(dir)
    }

    fn lock(&self, dir: &Path) -> io::Result<Option<DirLock>> {
        self.plan.call()?;
        self.inner.lock(dir)
    }

    fn now(&self) -> Duration {
        self.inner.now()
    }
}

#[derive(Debug)]
struct FaultFile {
    inner: Box<dyn VfsFile>,
    plan: Arc<Plan>,
}

impl VfsFile for FaultFile {
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        self.plan.call()?;
        self.inner.read_at(buffer, offset)
    }

    fn write_at(&mut self, bytes: &[u8], offset: u64) -> io::Result<()> {
        if let Err(error) = self.plan.call() {
            if self.plan.fault.is_some_and(|fault| fault.half_written) {
                self.inner.write_at(&bytes[..bytes.len() / 2], offset)?;
            }
            return Err(error);
        }
        self.inner.write_at(bytes, offset)
    }

    fn set_len(&mut self, bytes: u64) -> io::Result<()> {
        self.plan.call()?;
        self.inner.set_len(bytes)
    }

    fn sync(&mut self) -> io::Result<()> {
        self.plan.call()?;
        self.inner.sync()
    }

    fn len(&self) -> io::Result<u64> {
        self.plan.call()?;
        self.inner.len()
    }
}

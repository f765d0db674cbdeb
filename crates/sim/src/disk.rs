//! A server's disk: a disk in memory that can lose power, fail, and be full.

use std::collections::BTreeSet;
use std::io;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use zebu_proto::Zxid;
use zebu_store::log::read::{LogRecord, read_log};
use zebu_store::log::sidecar::Mark;
use zebu_store::vfs::{Crash, DirLock, Entry, MemVfs, Unsynced, VfsFile};
use zebu_store::{Vfs, names};
use zebu_testkit::Random;

/// The length of the header of a log or a snapshot: some of its bytes are never checked.
const HEADER_BYTES: usize = 16;

/// The length of the part of a log's header that a start checks.
const MAGIC_BYTES: usize = 4;

/// The distance between the slots of a sidecar.
const SLOT_STRIDE: usize = 4096;

/// The number of bytes that rot together.
const SECTOR_BYTES: usize = 512;

/// Where every server keeps its data.
pub(crate) const ROOT: &str = "/data";

const NEVER: u64 = u64::MAX;

/// A disk. Clones share its content.
#[derive(Clone, Debug)]
pub(crate) struct Disk {
    mem: MemVfs,
    state: Arc<State>,
}

#[derive(Debug)]
struct State {
    now_ns: AtomicU64,
    /// The number of changing calls until one fails.
    calls_left: AtomicU64,
    full: AtomicBool,
    /// The number of failed calls.
    failed: AtomicU64,
}

impl Disk {
    /// An empty disk.
    pub(crate) fn new() -> Self {
        Self::over(MemVfs::new(Path::new(ROOT)))
    }

    fn over(mem: MemVfs) -> Self {
        let state = State {
            now_ns: AtomicU64::new(0),
            calls_left: AtomicU64::new(NEVER),
            full: AtomicBool::new(false),
            failed: AtomicU64::new(0),
        };
        Self { mem, state: Arc::new(state) }
    }

    /// Creates the file by which an operator says that an empty database is new.
    pub(crate) fn initialize(&self) {
        self.mem.put(&Path::new(ROOT).join("initialize"), b"");
    }

    /// Writes a durable file, as an operator does.
    pub(crate) fn put(&self, path: &Path, content: &[u8]) {
        self.mem.put(path, content);
    }

    /// Damages a log, a sidecar or a snapshot durably. Returns a description, or `None` if it
    /// changes nothing: a power cut may have left a mark from before the last acknowledged records,
    /// and no server can tell damage in these records from a torn write.
    pub(crate) fn rot(&self, seed: u64) -> Option<String> {
        let mut random = Random::stream(seed, 6);
        let is_data = |path: &PathBuf| {
            let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
            !name.ends_with(".tmp") && zebu_store::names::is_data(name)
        };
        let files: Vec<PathBuf> = self.mem.files().into_iter().filter(is_data).collect();
        if files.is_empty() {
            return None;
        }
        let path = random.pick(&files);
        let sound = self.mem.content(path)?;
        if sound.is_empty() {
            return None;
        }
        let mut content = sound.clone();
        let at = random.below(content.len() as u64) as usize;
        let start = at / SECTOR_BYTES * SECTOR_BYTES;
        let sector = start..(start + SECTOR_BYTES).min(content.len());
        // A member cannot repair records that no mark proves, even where damage begins before them.
        let unproven = self.unproven(path, &sound);
        let spares_unproven =
            |range: &Range<usize>| range.end <= unproven.start || unproven.end <= range.start;
        if random.one_in(4) {
            if !spares_unproven(&sector) {
                return None;
            }
            self.mem.spoil(path, at);
            return Some(format!(
                "an unreadable sector at {start} of {}, {} bytes",
                path.display(),
                sound.len()
            ));
        }
        let (what, range) = if random.one_in(3) {
            content[sector.clone()].fill(0);
            ("zeros", sector)
        } else {
            content[at] ^= 1 << random.below(8);
            ("a bit flipped", at..at + 1)
        };
        if !spares_unproven(&range) {
            return None;
        }
        self.mem.put(path, &content);
        Some(format!("{what} at {at} of {}, {} bytes", path.display(), content.len()))
    }

    /// Damages a part of a log or a snapshot that the running server relies on. Returns a
    /// description.
    pub(crate) fn rot_beneath(&self, seed: u64) -> Option<String> {
        let mut random = Random::stream(seed, 8);
        let mut places = Vec::new();
        for path in self.mem.files() {
            let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
            let end = if let Some(first) = names::parse_log(name) {
                // Beyond the sidecar's mark, damage looks like a crash.
                let sidecar = self.mem.content(&path.with_file_name(names::sidecar(first)));
                sidecar.and_then(|mark| Mark::read(&mark)).map_or(0, |mark| mark.end as usize)
            } else if names::parse_snapshot(name).is_some() {
                self.mem.content(&path)?.len()
            } else {
                0
            };
            if end > HEADER_BYTES {
                places.push((path, end));
            }
        }
        if places.is_empty() {
            return None;
        }
        let (path, end) = random.pick(&places);
        let at = random.between(HEADER_BYTES as u64, *end as u64 - 1) as usize;
        let bit = random.below(8);
        // A sector with the mark's end in it has records that the mark does not prove.
        if random.one_in(3) && at / SECTOR_BYTES < end / SECTOR_BYTES {
            self.mem.spoil(path, at);
            return Some(format!(
                "the sector at {at} of {}, up to {end}, becomes unreadable",
                path.display()
            ));
        }
        self.mem.rot(path, at, |byte| byte ^ 1 << bit);
        Some(format!("a bit flipped at {at} of {}, up to {end}", path.display()))
    }

    /// Damages a snapshot, a sidecar, or the header of a log, and no record. Returns a description.
    ///
    /// Spares a sidecar whose slots differ: without the newer slot, no server can tell a damaged
    /// record from a torn write.
    pub(crate) fn rot_around_records(&self, seed: u64) -> Option<String> {
        let mut random = Random::stream(seed, 11);
        let mut places = Vec::new();
        for path in self.mem.files() {
            let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
            let content = self.mem.content(&path)?;
            if names::parse_snapshot(name).is_some() && content.len() > HEADER_BYTES {
                places.push((path, HEADER_BYTES..content.len()));
            } else if names::parse_log(name).is_some() && content.len() > MAGIC_BYTES {
                places.push((path, 0..MAGIC_BYTES));
            } else if names::parse_sidecar(name).is_some() && content.len() > SLOT_STRIDE {
                let without = |slot: Range<usize>| {
                    let mut content = content.clone();
                    content[slot].fill(0);
                    Mark::read(&content)
                };
                let slots = [0..SECTOR_BYTES, SLOT_STRIDE..content.len()];
                if without(slots[0].clone()) == without(slots[1].clone()) {
                    places.extend(slots.map(|slot| (path.clone(), slot)));
                }
            }
        }
        if places.is_empty() {
            return None;
        }
        let (path, range) = random.pick(&places);
        let at = random.between(range.start as u64, range.end as u64 - 1) as usize;
        let mut content = self.mem.content(path)?;
        let is_log = path
            .file_name()
            .is_some_and(|name| names::parse_log(&name.to_string_lossy()).is_some());
        // The sector of a log's header has records, too.
        if !is_log && random.one_in(3) {
            self.mem.spoil(path, at);
            return Some(format!(
                "an unreadable sector at {at} of {}, {} bytes",
                path.display(),
                content.len()
            ));
        }
        content[at] ^= 1 << random.below(8);
        self.mem.put(path, &content);
        Some(format!("a bit flipped at {at} of {}, {} bytes", path.display(), content.len()))
    }

    /// The bytes of whole records in a log that its sidecar does not prove.
    fn unproven(&self, path: &Path, content: &[u8]) -> Range<usize> {
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        let Some(first) = names::parse_log(name) else { return 0..0 };
        let sidecar = self.mem.content(&path.with_file_name(names::sidecar(first)));
        let mark = sidecar.and_then(|sidecar| Mark::read(&sidecar));
        let proven = mark.map_or(HEADER_BYTES, |mark| mark.end as usize);
        let mut whole = proven;
        // A log that cannot be read to its end has the records before that place.
        let _ = read_log(content, 1 << 20, &mut |record| whole = whole.max(record.end as usize));
        proven..whole
    }

    /// The content of a log, and its durable length. `None` if no sidecar gives that length.
    fn log(&self, path: &Path) -> Option<(Vec<u8>, u64)> {
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        let sidecar = path.with_file_name(names::sidecar(names::parse_log(name)?));
        let mark = Mark::read(&self.mem.content(&sidecar)?)?;
        Some((self.mem.content(path)?, mark.end))
    }

    /// The transactions that the logs contain, as far as sidecars prove them.
    pub(crate) fn durable_records(&self) -> BTreeSet<Zxid> {
        let mut found = BTreeSet::new();
        for path in self.mem.files() {
            let Some((content, end)) = self.log(&path) else { continue };
            let mut take = |record: LogRecord<'_>| {
                found.extend((record.end <= end).then_some(record.zxid));
            };
            // A log that cannot be read to its end has the records before that place.
            let _ = read_log(&content[..], 1 << 20, &mut take);
        }
        found
    }

    /// Damages the records of these transactions, as far as sidecars prove them. `dispensable`:
    /// transactions that another server has. A sector with no other records may become unreadable.
    /// Returns the number of such sectors.
    pub(crate) fn damage_records(
        &self,
        zxids: &[Zxid],
        dispensable: &BTreeSet<Zxid>,
        seed: u64,
    ) -> usize {
        let mut random = Random::stream(seed, 10);
        let mut unreadable = 0;
        for path in self.mem.files() {
            let Some((content, end)) = self.log(&path) else { continue };
            let mut places = Vec::new();
            // The sectors with something that no other server has, and the end of the proven part.
            let mut needed = BTreeSet::from([end as usize / SECTOR_BYTES]);
            let mut take = |record: LogRecord<'_>| {
                if record.end > end {
                    return;
                }
                let (from, to) = (record.offset as usize, record.end as usize);
                if zxids.contains(&record.zxid) {
                    places.push((from, to));
                }
                if !dispensable.contains(&record.zxid) {
                    needed.extend(from / SECTOR_BYTES..=(to - 1) / SECTOR_BYTES);
                }
            };
            let _ = read_log(&content[..], 1 << 20, &mut take);
            if places.is_empty() {
                continue;
            }
            let mut content = content;
            let mut spoilt = Vec::new();
            for (from, to) in places {
                let mut sectors = (from / SECTOR_BYTES..=(to - 1) / SECTOR_BYTES)
                    .filter(|sector| !needed.contains(sector));
                if let Some(sector) = sectors.next_back()
                    && random.one_in(2)
                {
                    spoilt.push(sector * SECTOR_BYTES);
                    continue;
                }
                let at = random.between(from as u64, to as u64 - 1) as usize;
                match random.below(3) {
                    0 => content[from..to].fill(0),
                    1 => content[at..to].fill(0xa5),
                    _ => content[at] ^= 1 << random.below(8),
                }
            }
            self.mem.put(&path, &content);
            spoilt.iter().for_each(|at| self.mem.spoil(&path, *at));
            unreadable += spoilt.len();
        }
        unreadable
    }

    /// The number of unreadable sectors.
    pub(crate) fn unreadable_sectors(&self) -> usize {
        self.mem.unreadable_sectors()
    }

    pub(crate) fn set_now(&self, now: Duration) {
        self.state.now_ns.store(now.as_nanos() as u64, Ordering::Relaxed);
    }

    /// Makes one changing call fail, after `calls` others.
    pub(crate) fn fail_after(&self, calls: u64) {
        self.state.calls_left.store(calls, Ordering::Relaxed);
    }

    /// Makes the disk full, or gives it room again.
    pub(crate) fn set_full(&self, full: bool) {
        self.state.full.store(full, Ordering::Relaxed);
    }

    /// Whether the disk is full.
    pub(crate) fn is_full(&self) -> bool {
        self.state.full.load(Ordering::Relaxed)
    }

    /// The number of failed calls.
    pub(crate) fn failures(&self) -> u64 {
        self.state.failed.load(Ordering::Relaxed)
    }

    /// Ignores all changing calls after the next `calls`.
    pub(crate) fn stop_after(&self, calls: u64) {
        self.mem.stop_at(self.mem.mutations() + calls);
    }

    /// Ends [`Disk::stop_after`]: the process has ended, and the machine continues to run.
    pub(crate) fn resume(&self) {
        self.mem.resume();
    }

    /// The disk after a power cut.
    pub(crate) fn crash(&self, crash: Crash) -> Self {
        let disk = Self::over(self.mem.crash(crash));
        disk.set_full(self.state.full.load(Ordering::Relaxed));
        disk
    }

    fn failed(&self, kind: io::ErrorKind) -> io::Error {
        self.state.failed.fetch_add(1, Ordering::Relaxed);
        io::Error::new(kind, "injected fault")
    }

    fn change(&self) -> io::Result<()> {
        let left = self.state.calls_left.load(Ordering::Relaxed);
        if left == 0 {
            self.state.calls_left.store(NEVER, Ordering::Relaxed);
            return Err(self.failed(io::ErrorKind::Other));
        }
        if left != NEVER {
            self.state.calls_left.store(left - 1, Ordering::Relaxed);
        }
        Ok(())
    }

    fn grow(&self) -> io::Result<()> {
        self.change()?;
        if self.state.full.load(Ordering::Relaxed) {
            return Err(self.failed(io::ErrorKind::StorageFull));
        }
        Ok(())
    }

    fn file(&self, file: io::Result<Box<dyn VfsFile>>) -> io::Result<Box<dyn VfsFile>> {
        Ok(Box::new(File { inner: file?, disk: self.clone() }))
    }
}

impl Vfs for Disk {
    fn create(&self, path: &Path) -> io::Result<Box<dyn VfsFile>> {
        self.grow()?;
        self.file(self.mem.create(path))
    }

    fn open(&self, path: &Path) -> io::Result<Box<dyn VfsFile>> {
        self.file(self.mem.open(path))
    }

    fn open_rw(&self, path: &Path) -> io::Result<Box<dyn VfsFile>> {
        self.file(self.mem.open_rw(path))
    }

    fn list(&self, dir: &Path) -> io::Result<Vec<Entry>> {
        self.mem.list(dir)
    }

    fn exists(&self, path: &Path) -> io::Result<bool> {
        self.mem.exists(path)
    }

    fn create_dir(&self, dir: &Path) -> io::Result<()> {
        self.grow()?;
        self.mem.create_dir(dir)
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.change()?;
        self.mem.rename(from, to)
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        self.change()?;
        self.mem.remove(path)
    }

    fn sync_dir(&self, dir: &Path) -> io::Result<()> {
        self.change()?;
        self.mem.sync_dir(dir)
    }

    fn lock(&self, dir: &Path) -> io::Result<Option<DirLock>> {
        self.mem.lock(dir)
    }

    fn now(&self) -> Duration {
        Duration::from_nanos(self.state.now_ns.load(Ordering::Relaxed))
    }
}

#[derive(Debug)]
struct File {
    inner: Box<dyn VfsFile>,
    disk: Disk,
}

impl VfsFile for File {
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        self.inner.read_at(buffer, offset)
    }

    fn write_at(&mut self, bytes: &[u8], offset: u64) -> io::Result<()> {
        if let Err(error) = self.disk.grow() {
            // A failed write may leave any part of its bytes.
            let _ = self.inner.write_at(&bytes[..bytes.len() / 2], offset);
            return Err(error);
        }
        self.inner.write_at(bytes, offset)
    }

    fn set_len(&mut self, bytes: u64) -> io::Result<()> {
        self.disk.change()?;
        self.inner.set_len(bytes)
    }

    fn sync(&mut self) -> io::Result<()> {
        if let Err(error) = self.disk.change() {
            // The written bytes stay visible, and no later sync writes them. A part is durable.
            self.disk.mem.fail_sync(Unsynced::Parts(self.disk.failures()));
            let _ = self.inner.sync();
            return Err(error);
        }
        self.inner.sync()
    }

    fn len(&self) -> io::Result<u64> {
        self.inner.len()
    }
}

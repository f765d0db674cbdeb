//! An in-memory disk that simulates power cuts and unreadable sectors.
//!
//! Each file has durable content and unsynced writes; each directory has durable names and unsynced
//! changes. [`MemVfs::crash`] returns the disk after a power cut. It decides which unsynced writes,
//! by sector, which lengths and which unsynced names survive. Any subset is possible, as on a real
//! disk that reorders writes, and each file has a fate of its own.
//!
//! A read that touches an unreadable sector fails, and so does a write of a part of it: the rest of
//! the sector would have to be read. A write of the whole sector makes it readable again.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use super::{DirLock, Entry, Vfs, VfsFile, parent};

/// The size that a disk writes atomically.
pub(crate) const SECTOR_BYTES: u64 = 512;
/// The same for a disk with large sectors.
const BLOCK_BYTES: u64 = 4096;

/// So many last bytes of a line or a slot change whenever it is overwritten.
const END_BYTES: usize = 9;

/// The fate of unsynced data at a crash.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Crash {
    /// Content.
    pub content: Unsynced,
    /// Names.
    pub names: Names,
}

/// The fate of unsynced content.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unsynced {
    /// All of it is lost.
    Lost,
    /// All of it survives, as when only the process ends.
    Kept,
    /// In each file, this many unsynced sectors survive, from the first on.
    Torn(u64),
    /// Each sector and each change of length survives or not, by a seeded coin.
    Scattered(u64),
    /// As with a drive that keeps a part of its cache: each file has a fate of its own, by the
    /// seed, and its length is one that it had since its last sync.
    Parts(u64),
    /// As [`Unsynced::Parts`], and the power failed while the drive was writing one sector. It has
    /// old and new bytes, or cannot be read any more.
    ///
    /// The drive harms no durable byte that the write leaves as it is: a sector with such bytes
    /// stays readable.
    Spoiled(u64),
}

impl Unsynced {
    /// The seed of what a drive keeps of its cache.
    fn parts(self) -> Option<u64> {
        match self {
            Self::Parts(seed) | Self::Spoiled(seed) => Some(seed),
            _ => None,
        }
    }
}

/// The sectors of a file that survive with [`Unsynced::Parts`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fate {
    None,
    All,
    /// The first ones.
    First(u64),
    /// All but the first ones.
    Last(u64),
    /// All but one.
    AllBut(u64),
    /// One.
    One(u64),
    /// Each by a coin.
    Sectors,
    /// Each block of 4096 bytes as a whole, by a coin.
    Blocks,
}

impl Fate {
    /// The fate of a file with so many unsynced sectors.
    fn draw(seed: u64, number: u64, sectors: u64) -> Self {
        let drawn = hash(seed, number, 0);
        let at = (drawn >> 8) % (sectors + 1);
        match drawn & 7 {
            0 => Self::None,
            1 => Self::All,
            2 => Self::First(at),
            3 => Self::Last(at),
            4 => Self::AllBut(at),
            5 => Self::One(at),
            6 => Self::Sectors,
            _ => Self::Blocks,
        }
    }

    /// Whether a sector survives. `turn` counts the sectors of all changes from 1 on, and `change`
    /// the changes.
    fn keeps(self, seed: u64, number: u64, turn: u64, change: u64, offset: u64) -> bool {
        match self {
            Self::None => false,
            Self::All => true,
            Self::First(sectors) => turn <= sectors,
            Self::Last(sectors) => sectors < turn,
            Self::AllBut(lost) => turn != lost,
            Self::One(kept) => turn == kept,
            Self::Sectors => coin(seed, number, turn),
            Self::Blocks => coin(seed, number, (change << 32) | (offset / BLOCK_BYTES)),
        }
    }
}

/// The fate of unsynced names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Names {
    /// No change survives.
    Lost,
    /// All changes survive.
    Kept,
    /// The i-th change survives if bit i is set; those from 64 on are lost.
    Subset(u64),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Node {
    Dir,
    File(usize),
}

/// A change of a file's content, in order.
#[derive(Clone, Debug)]
enum Change {
    Write { offset: u64, bytes: Vec<u8> },
    SetLen(u64),
}

impl Change {
    fn apply(&self, content: &mut Content) {
        match self {
            Self::Write { offset, bytes } => content.write(*offset, bytes),
            Self::SetLen(bytes) => content.resize(*bytes),
        }
    }
}

/// The bytes of a file, and the sectors that cannot be read.
#[derive(Clone, Debug, Default)]
struct Content {
    bytes: Vec<u8>,
    /// By their numbers in the file.
    unreadable: BTreeSet<u64>,
}

impl Content {
    fn new(bytes: &[u8]) -> Self {
        Self { bytes: bytes.to_vec(), unreadable: BTreeSet::new() }
    }

    /// The sectors of which a write replaces every byte. The last one may be shorter.
    fn rewritten(&self, offset: u64, bytes: &[u8]) -> Range<u64> {
        let end = offset + bytes.len() as u64;
        let is_last = self.bytes.len() as u64 <= end;
        let after = if is_last { end.div_ceil(SECTOR_BYTES) } else { end / SECTOR_BYTES };
        offset.div_ceil(SECTOR_BYTES)..after
    }

    /// A sector that is written as a whole becomes readable.
    fn write(&mut self, offset: u64, bytes: &[u8]) {
        let (start, end) = (offset as usize, offset as usize + bytes.len());
        let rewritten = self.rewritten(offset, bytes);
        self.unreadable.retain(|sector| !rewritten.contains(sector));
        if self.bytes.len() < end {
            self.bytes.resize(end, 0);
        }
        self.bytes[start..end].copy_from_slice(bytes);
    }

    fn resize(&mut self, bytes: u64) {
        self.bytes.resize(bytes as usize, 0);
        self.unreadable.retain(|sector| sector * SECTOR_BYTES < bytes);
    }

    /// Fails if a sector of the range cannot be read.
    fn check_readable(&self, range: Range<u64>) -> io::Result<()> {
        self.check_without(range, &(0..0))
    }

    /// The same for all sectors but some.
    fn check_without(&self, range: Range<u64>, spared: &Range<u64>) -> io::Result<()> {
        let sectors = range.start / SECTOR_BYTES..range.end.div_ceil(SECTOR_BYTES);
        match self.unreadable.range(sectors).find(|sector| !spared.contains(sector)) {
            Some(sector) => Err(io::Error::other(format!("sector {sector} cannot be read"))),
            None => Ok(()),
        }
    }

    /// Fails if a write would have to read a sector that cannot be read.
    fn check_writable(&self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        let range = offset..offset + bytes.len() as u64;
        self.check_without(range, &self.rewritten(offset, bytes))
    }
}

#[derive(Clone, Debug)]
enum NameChange {
    Add { path: PathBuf, node: Node },
    Remove { path: PathBuf },
    Rename { from: PathBuf, to: PathBuf, node: Node },
}

impl NameChange {
    fn is_in(&self, dir: &Path) -> bool {
        match self {
            Self::Add { path, .. } | Self::Remove { path } => parent(path) == dir,
            Self::Rename { from, to, .. } => parent(from) == dir || parent(to) == dir,
        }
    }

    fn apply(&self, names: &mut BTreeMap<PathBuf, Node>) {
        match self {
            Self::Add { path, node } => drop(names.insert(path.clone(), *node)),
            Self::Remove { path } => drop(names.remove(path)),
            Self::Rename { from, to, node } => {
                names.remove(from);
                names.insert(to.clone(), *node);
            }
        }
    }
}

#[derive(Clone, Debug, Default)]
struct Inode {
    live: Content,
    durable: Content,
    unsynced: Vec<Change>,
}

#[derive(Clone, Debug, Default)]
struct Disk {
    inodes: Vec<Inode>,
    live: BTreeMap<PathBuf, Node>,
    durable: BTreeMap<PathBuf, Node>,
    unsynced: Vec<NameChange>,
    locked: Vec<PathBuf>,
    mutations: u64,
    /// The directory, if the last modifying call was its sync.
    just_synced: Option<PathBuf>,
    repeated_syncs: u64,
    stop_at: Option<u64>,
    fails_sync: Option<Unsynced>,
    now: Duration,
}

/// A disk in memory. Clones are the same disk.
#[derive(Clone, Debug, Default)]
pub struct MemVfs(Arc<Mutex<Disk>>);

impl MemVfs {
    /// An empty disk with the directory `root`.
    pub fn new(root: &Path) -> Self {
        let mut disk = Disk::default();
        for dir in root.ancestors().filter(|dir| !dir.as_os_str().is_empty()) {
            disk.live.insert(dir.to_path_buf(), Node::Dir);
        }
        disk.durable = disk.live.clone();
        Self(Arc::new(Mutex::new(disk)))
    }

    fn disk(&self) -> MutexGuard<'_, Disk> {
        self.0.lock().expect("no test panics while it holds the disk")
    }

    /// The number of modifying calls so far, including syncs.
    pub fn mutations(&self) -> u64 {
        self.disk().mutations
    }

    /// The number of syncs of a directory that directly followed another sync of it.
    pub fn repeated_syncs(&self) -> u64 {
        self.disk().repeated_syncs
    }

    /// Permits this many modifying calls in total; later ones fail without effect.
    pub fn stop_at(&self, mutations: u64) {
        self.disk().stop_at = Some(mutations);
    }

    /// Makes the next sync of a file fail as on Linux: readers still see the unsynced data, and no
    /// later sync writes them. `written`: what the sync wrote before it failed.
    pub fn fail_sync(&self, written: Unsynced) {
        self.disk().fails_sync = Some(written);
    }

    /// Advances the clock.
    pub fn advance(&self, by: Duration) {
        self.disk().now += by;
    }

    /// The largest number of unsynced sectors in a file.
    pub fn unsynced_sectors(&self) -> u64 {
        let disk = self.disk();
        disk.inodes.iter().map(|inode| inode.unsynced_sectors()).max().unwrap_or(0)
    }

    /// The number of unsynced changes of names.
    pub fn unsynced_names(&self) -> usize {
        self.disk().unsynced.len()
    }

    /// The disk after a power cut.
    pub fn crash(&self, crash: Crash) -> Self {
        let before = self.disk();
        let mut disk = Disk { now: before.now, ..Disk::default() };
        let being_written = before.being_written(crash.content);
        disk.inodes = (before.inodes.iter().enumerate())
            .map(|(number, inode)| {
                let mut content = inode.after(crash.content, number as u64);
                if let Some((seed, _)) = being_written.filter(|(_, written)| *written == number) {
                    inode.spoil(&mut content, seed);
                }
                Inode { live: content.clone(), durable: content, unsynced: Vec::new() }
            })
            .collect();
        disk.durable = before.durable.clone();
        for (at, change) in before.unsynced.iter().enumerate() {
            let kept = match crash.names {
                Names::Lost => false,
                Names::Kept => true,
                Names::Subset(bits) => at < 64 && bits >> at & 1 == 1,
            };
            if kept {
                change.apply(&mut disk.durable);
            }
        }
        // The content of a lost directory is lost too.
        let dirs: Vec<PathBuf> = disk.durable.keys().cloned().collect();
        for path in dirs {
            let above = parent(&path);
            if above != path && above != Path::new(".") && !disk.durable.contains_key(&above) {
                disk.durable.remove(&path);
            }
        }
        disk.live = disk.durable.clone();
        Self(Arc::new(Mutex::new(disk)))
    }

    /// Undoes [`MemVfs::stop_at`]: the process was killed, but the machine kept running.
    pub fn resume(&self) {
        self.disk().stop_at = None;
    }

    /// An independent copy with everything durable.
    pub fn fork(&self) -> Self {
        self.crash(Crash { content: Unsynced::Kept, names: Names::Kept })
    }

    /// A file's content.
    pub fn content(&self, path: &Path) -> Option<Vec<u8>> {
        let disk = self.disk();
        match disk.live.get(path)? {
            Node::File(number) => Some(disk.inodes[*number].live.bytes.clone()),
            Node::Dir => None,
        }
    }

    /// Makes the sector with this byte of a file unreadable, durably. Open files notice that.
    pub fn spoil(&self, path: &Path, at: usize) {
        let mut disk = self.disk();
        let Some(Node::File(number)) = disk.live.get(path).copied() else { return };
        let Inode { live, durable, .. } = &mut disk.inodes[number];
        for content in [live, durable] {
            if at < content.bytes.len() {
                content.unreadable.insert(at as u64 / SECTOR_BYTES);
            }
        }
    }

    /// The number of unreadable sectors in all files.
    pub fn unreadable_sectors(&self) -> usize {
        let disk = self.disk();
        let files = disk.live.values().filter_map(|node| match node {
            Node::File(number) => Some(disk.inodes[*number].live.unreadable.len()),
            Node::Dir => None,
        });
        files.sum()
    }

    /// Creates or replaces a durable file, with its directories.
    pub fn put(&self, path: &Path, content: &[u8]) {
        let mut disk = self.disk();
        let number = disk.inodes.len();
        let content = Content::new(content);
        disk.inodes.push(Inode { live: content.clone(), durable: content, unsynced: Vec::new() });
        for dir in parent(path).ancestors() {
            disk.live.insert(dir.to_path_buf(), Node::Dir);
            disk.durable.insert(dir.to_path_buf(), Node::Dir);
        }
        disk.live.insert(path.to_path_buf(), Node::File(number));
        disk.durable.insert(path.to_path_buf(), Node::File(number));
    }

    /// Changes a byte of a file in place, durably. Open files see the change.
    pub fn rot(&self, path: &Path, at: usize, change: impl Fn(u8) -> u8) {
        let mut disk = self.disk();
        let Some(Node::File(number)) = disk.live.get(path).copied() else { return };
        let Inode { live, durable, .. } = &mut disk.inodes[number];
        for content in [live, durable] {
            if let Some(byte) = content.bytes.get_mut(at) {
                *byte = change(*byte);
            }
        }
    }

    /// All files, sorted by path.
    pub fn files(&self) -> Vec<PathBuf> {
        let disk = self.disk();
        let files = disk.live.iter().filter(|(_, node)| matches!(node, Node::File(_)));
        files.map(|(path, _)| path.clone()).collect()
    }

    fn handle(&self, number: usize) -> Box<dyn VfsFile> {
        Box::new(MemFile { disk: self.clone(), number })
    }
}

impl Inode {
    /// Splits a write at the sector boundaries.
    fn sectors(offset: u64, bytes: &[u8]) -> impl Iterator<Item = (u64, &[u8])> {
        let mut at = offset;
        let mut left = bytes;
        std::iter::from_fn(move || {
            if left.is_empty() {
                return None;
            }
            let room = (SECTOR_BYTES - at % SECTOR_BYTES) as usize;
            let (piece, rest) = left.split_at(room.min(left.len()));
            let piece_at = at;
            at += piece.len() as u64;
            left = rest;
            Some((piece_at, piece))
        })
    }

    fn unsynced_sectors(&self) -> u64 {
        (self.unsynced.iter())
            .map(|change| match change {
                Change::Write { offset, bytes } => Self::sectors(*offset, bytes).count() as u64,
                Change::SetLen(_) => 1,
            })
            .sum()
    }

    /// The content after a crash.
    fn after(&self, crash: Unsynced, number: u64) -> Content {
        let parts = crash.parts();
        let fate =
            parts.map_or(Fate::None, |seed| Fate::draw(seed, number, self.unsynced_sectors()));
        let mut content = self.durable.clone();
        let mut turn = 0;
        let mut kept = |change: usize, offset: u64| {
            turn += 1;
            match crash {
                Unsynced::Lost => false,
                Unsynced::Kept => true,
                Unsynced::Torn(sectors) => turn <= sectors,
                Unsynced::Scattered(seed) => coin(seed, number, turn),
                Unsynced::Parts(seed) | Unsynced::Spoiled(seed) => {
                    fate.keeps(seed, number, turn, change as u64, offset)
                }
            }
        };
        let mut length = self.durable.bytes.len() as u64;
        let mut lengths = vec![length];
        for (at, change) in self.unsynced.iter().enumerate() {
            match change {
                Change::SetLen(bytes) => {
                    length = *bytes;
                    if kept(at, *bytes) {
                        content.resize(*bytes);
                    }
                }
                Change::Write { offset, bytes } => {
                    length = length.max(offset + bytes.len() as u64);
                    for (offset, piece) in Self::sectors(*offset, bytes) {
                        if kept(at, offset) {
                            content.write(offset, piece);
                        }
                    }
                }
            }
            lengths.push(length);
        }
        // A length is metadata: it may be durable without the data, and the data without it.
        if let Some(seed) = parts {
            let drawn = hash(seed, number, 1);
            if drawn & 1 == 1 {
                let length = lengths[((drawn >> 8) % lengths.len() as u64) as usize];
                content.resize(length);
            }
        }
        content
    }

    /// All unsynced sectors of writes.
    fn written(&self) -> Vec<(u64, &[u8])> {
        let pieces = self.unsynced.iter().filter_map(|change| match change {
            Change::Write { offset, bytes } => Some(Self::sectors(*offset, bytes)),
            Change::SetLen(_) => None,
        });
        pieces.flatten().collect()
    }

    /// Spoils the sector that the drive was writing: one of the unsynced ones.
    fn spoil(&self, content: &mut Content, seed: u64) {
        let drawn = hash(seed, 0, 2);
        let written = self.written();
        let (offset, new) = written[(drawn >> 8) as usize % written.len()];
        let durable =
            |at: usize| self.durable.bytes.get(offset as usize + at).copied().unwrap_or_default();
        let old: Vec<u8> = (0..new.len()).map(durable).collect();
        let sector = offset / SECTOR_BYTES;
        if drawn & 1 == 1 && !self.has_more_in(sector, offset, new) {
            content.write(offset, new);
            content.unreadable.insert(sector);
            return;
        }
        let at = (drawn >> 40) as usize % (new.len() + 1);
        let (first, last) = if drawn & 2 == 2 { (&old[..], new) } else { (new, &old[..]) };
        content.write(offset, &[&first[..at], &last[at..]].concat());
    }

    /// Whether a sector has durable bytes that the write at `offset` leaves as they are: the write
    /// does not cover them, or it leaves their end and adds to them.
    fn has_more_in(&self, sector: u64, offset: u64, new: &[u8]) -> bool {
        let start = (sector * SECTOR_BYTES) as usize;
        let durable = self.durable.bytes.iter().enumerate().skip(start);
        let durable = durable.take(SECTOR_BYTES as usize).filter(|(_, byte)| **byte != 0);
        let written = |at: usize| at.checked_sub(offset as usize).and_then(|at| new.get(at));
        let is_covered = durable.clone().all(|(at, _)| written(at).is_some());
        let mut end = durable.rev().take(END_BYTES).peekable();
        let is_new = end.peek().is_none();
        let is_replaced = is_covered && end.any(|(at, byte)| written(at) != Some(byte));
        !is_new && !is_replaced
    }
}

/// A fair coin for each position, determined by the seed.
///
/// This is no stream of random numbers, such as the tests have: a coin must not depend on those
/// that were thrown before it.
fn coin(seed: u64, number: u64, turn: u64) -> bool {
    hash(seed, number, turn) >> 40 & 1 == 1
}

fn hash(seed: u64, number: u64, turn: u64) -> u64 {
    let mut x = seed ^ number.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ turn.rotate_left(40);
    for _ in 0..3 {
        x = (x ^ x >> 29).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    }
    x
}

impl Disk {
    /// Counts a modifying call, or refuses it if the power is off.
    fn mutate(&mut self) -> io::Result<()> {
        if self.stop_at.is_some_and(|stop| self.mutations >= stop) {
            return Err(io::Error::other("the power is off"));
        }
        self.mutations += 1;
        self.just_synced = None;
        Ok(())
    }

    /// The file with a sector that the drive was writing when the power failed, with a seed.
    fn being_written(&self, crash: Unsynced) -> Option<(u64, usize)> {
        let Unsynced::Spoiled(seed) = crash else { return None };
        let files = self.inodes.iter().enumerate();
        let files = files.filter(|(_, inode)| !inode.written().is_empty());
        let files: Vec<usize> = files.map(|(number, _)| number).collect();
        let drawn = hash(seed, 1, 2) >> 8;
        (!files.is_empty()).then(|| (seed, files[drawn as usize % files.len()]))
    }

    fn file(&self, path: &Path) -> io::Result<usize> {
        match self.live.get(path) {
            Some(Node::File(number)) => Ok(*number),
            Some(Node::Dir) => Err(io::ErrorKind::IsADirectory.into()),
            None => Err(io::ErrorKind::NotFound.into()),
        }
    }

    fn rename_to(&mut self, change: NameChange) {
        change.apply(&mut self.live);
        self.unsynced.push(change);
    }
}

impl Vfs for MemVfs {
    fn create(&self, path: &Path) -> io::Result<Box<dyn VfsFile>> {
        let mut disk = self.disk();
        disk.mutate()?;
        if disk.live.get(&parent(path)) != Some(&Node::Dir) {
            return Err(io::ErrorKind::NotFound.into());
        }
        let number = match disk.file(path) {
            Ok(number) => {
                let inode = &mut disk.inodes[number];
                inode.live.resize(0);
                inode.unsynced.push(Change::SetLen(0));
                number
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                let number = disk.inodes.len();
                disk.inodes.push(Inode::default());
                let path = path.to_path_buf();
                disk.rename_to(NameChange::Add { path, node: Node::File(number) });
                number
            }
            Err(error) => return Err(error),
        };
        drop(disk);
        Ok(self.handle(number))
    }

    fn open(&self, path: &Path) -> io::Result<Box<dyn VfsFile>> {
        let number = self.disk().file(path)?;
        Ok(self.handle(number))
    }

    fn open_rw(&self, path: &Path) -> io::Result<Box<dyn VfsFile>> {
        self.open(path)
    }

    fn list(&self, dir: &Path) -> io::Result<Vec<Entry>> {
        let disk = self.disk();
        if disk.live.get(dir) != Some(&Node::Dir) {
            return Err(io::ErrorKind::NotFound.into());
        }
        let mut entries = Vec::new();
        for (path, node) in &disk.live {
            if let Node::File(number) = node
                && parent(path) == dir
                && let Some(name) = path.file_name().and_then(|name| name.to_str())
            {
                let bytes = disk.inodes[*number].live.bytes.len() as u64;
                entries.push(Entry { name: name.to_owned(), bytes });
            }
        }
        Ok(entries)
    }

    fn exists(&self, path: &Path) -> io::Result<bool> {
        Ok(self.disk().live.contains_key(path))
    }

    fn create_dir(&self, dir: &Path) -> io::Result<()> {
        let mut disk = self.disk();
        disk.mutate()?;
        if disk.live.contains_key(dir) {
            return Err(io::ErrorKind::AlreadyExists.into());
        }
        disk.rename_to(NameChange::Add { path: dir.to_path_buf(), node: Node::Dir });
        Ok(())
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        let mut disk = self.disk();
        disk.mutate()?;
        let node = Node::File(disk.file(from)?);
        let (from, to) = (from.to_path_buf(), to.to_path_buf());
        disk.rename_to(NameChange::Rename { from, to, node });
        Ok(())
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        let mut disk = self.disk();
        disk.mutate()?;
        disk.file(path)?;
        disk.rename_to(NameChange::Remove { path: path.to_path_buf() });
        Ok(())
    }

    fn sync_dir(&self, dir: &Path) -> io::Result<()> {
        let mut disk = self.disk();
        let is_repeated = disk.just_synced.as_deref() == Some(dir);
        disk.mutate()?;
        disk.repeated_syncs += u64::from(is_repeated);
        disk.just_synced = Some(dir.to_path_buf());
        let (synced, left) =
            std::mem::take(&mut disk.unsynced).into_iter().partition(|c| c.is_in(dir));
        disk.unsynced = left;
        let synced: Vec<NameChange> = synced;
        for change in synced {
            change.apply(&mut disk.durable);
        }
        Ok(())
    }

    fn lock(&self, dir: &Path) -> io::Result<Option<DirLock>> {
        let mut disk = self.disk();
        if disk.locked.iter().any(|locked| locked == dir) {
            return Ok(None);
        }
        disk.locked.push(dir.to_path_buf());
        drop(disk);
        Ok(Some(DirLock::new(MemLock { disk: self.clone(), dir: dir.to_path_buf() })))
    }

    fn now(&self) -> Duration {
        self.disk().now
    }
}

#[derive(Debug)]
struct MemLock {
    disk: MemVfs,
    dir: PathBuf,
}

impl Drop for MemLock {
    fn drop(&mut self) {
        if let Ok(mut disk) = self.disk.0.lock() {
            disk.locked.retain(|dir| *dir != self.dir);
        }
    }
}

#[derive(Debug)]
struct MemFile {
    disk: MemVfs,
    number: usize,
}

impl VfsFile for MemFile {
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        let disk = self.disk.disk();
        let content = &disk.inodes[self.number].live;
        let start = content.bytes.len().min(usize::try_from(offset).unwrap_or(usize::MAX));
        let bytes = buffer.len().min(content.bytes.len() - start);
        if bytes > 0 {
            content.check_readable(start as u64..(start + bytes) as u64)?;
        }
        buffer[..bytes].copy_from_slice(&content.bytes[start..start + bytes]);
        Ok(bytes)
    }

    fn write_at(&mut self, bytes: &[u8], offset: u64) -> io::Result<()> {
        let mut disk = self.disk.disk();
        disk.mutate()?;
        let inode = &mut disk.inodes[self.number];
        inode.live.check_writable(offset, bytes)?;
        inode.live.write(offset, bytes);
        inode.unsynced.push(Change::Write { offset, bytes: bytes.to_vec() });
        Ok(())
    }

    fn set_len(&mut self, bytes: u64) -> io::Result<()> {
        let mut disk = self.disk.disk();
        disk.mutate()?;
        let inode = &mut disk.inodes[self.number];
        if !bytes.is_multiple_of(SECTOR_BYTES) && bytes < inode.live.bytes.len() as u64 {
            // The rest of the last sector is overwritten with zeros.
            inode.live.check_readable(bytes..bytes + 1)?;
        }
        inode.live.resize(bytes);
        inode.unsynced.push(Change::SetLen(bytes));
        Ok(())
    }

    fn sync(&mut self) -> io::Result<()> {
        let mut disk = self.disk.disk();
        disk.mutate()?;
        let fails = disk.fails_sync.take();
        let inode = &mut disk.inodes[self.number];
        if let Some(written) = fails {
            inode.durable = inode.after(written, self.number as u64);
            inode.unsynced.clear();
            return Err(io::Error::other("the disk did not write"));
        }
        let unsynced = std::mem::take(&mut inode.unsynced);
        for change in unsynced {
            change.apply(&mut inode.durable);
        }
        Ok(())
    }

    fn len(&self) -> io::Result<u64> {
        Ok(self.disk.disk().inodes[self.number].live.bytes.len() as u64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn disk() -> (MemVfs, Box<dyn VfsFile>) {
        let vfs = MemVfs::new(Path::new("/d"));
        let mut file = vfs.create(Path::new("/d/f")).unwrap();
        file.write_at(&[1; 100], 0).unwrap();
        file.sync().unwrap();
        (vfs, file)
    }

    fn crash(vfs: &MemVfs, content: Unsynced, names: Names) -> Option<Vec<u8>> {
        vfs.crash(Crash { content, names }).content(Path::new("/d/f"))
    }

    #[test]
    fn a_name_is_lost_until_its_directory_is_synced() {
        let (vfs, _file) = disk();
        assert_eq!(crash(&vfs, Unsynced::Lost, Names::Lost), None);
        assert_eq!(crash(&vfs, Unsynced::Lost, Names::Kept), Some(vec![1; 100]));
        vfs.sync_dir(Path::new("/d")).unwrap();
        assert_eq!(crash(&vfs, Unsynced::Lost, Names::Lost), Some(vec![1; 100]));
    }

    #[test]
    fn unsynced_sectors_are_torn_one_by_one() {
        let (vfs, mut file) = disk();
        // From the middle of one sector to the middle of the third.
        file.write_at(&[2; 1000], 50).unwrap();
        assert_eq!(vfs.unsynced_sectors(), 3);
        let content = |sectors| crash(&vfs, Unsynced::Torn(sectors), Names::Kept).unwrap();
        assert_eq!(content(0), [1; 100]);
        assert_eq!(content(1).len(), 512);
        assert_eq!(content(1)[49..51], [1, 2]);
        assert_eq!(content(2).len(), 1024);
        assert_eq!(content(3), vfs.content(Path::new("/d/f")).unwrap());
    }

    /// Every subset of sectors, with every length, each file for itself.
    #[test]
    fn a_drive_keeps_any_part_of_its_cache() {
        let vfs = MemVfs::new(Path::new("/d"));
        let paths = [Path::new("/d/f"), Path::new("/d/g")];
        for path in paths {
            let mut file = vfs.create(path).unwrap();
            file.write_at(&[1; 512], 0).unwrap();
            file.sync().unwrap();
            // Two blocks of 4096 bytes, in three sectors.
            file.write_at(&[2; 1024], 3584).unwrap();
            file.write_at(&[3; 100], 8192).unwrap();
            file.set_len(10_000).unwrap();
        }
        vfs.sync_dir(Path::new("/d")).unwrap();
        let (mut seen, mut pairs) = (BTreeMap::new(), std::collections::BTreeSet::new());
        for seed in 0..20_000 {
            let content = Unsynced::Parts(seed);
            let disk = vfs.crash(Crash { content, names: Names::Lost });
            let parts = paths.map(|path| {
                let content = disk.content(path).unwrap();
                assert_eq!(content[..512], [1; 512], "what was synced stays");
                let has = |at: usize| content.get(at).is_some_and(|byte| *byte != 0);
                ([has(3584), has(4096), has(8192)], content.len())
            });
            *seen.entry(parts[0]).or_insert(0) += 1;
            pairs.insert((parts[0].0, parts[1].0));
            let again = vfs.crash(Crash { content, names: Names::Lost });
            assert_eq!(paths.map(|path| again.content(path)), paths.map(|path| disk.content(path)));
        }
        for bits in 0..8 {
            let sectors = [bits & 1 == 1, bits & 2 == 2, bits & 4 == 4];
            // Without a length of its own, a file ends with its last sector.
            let least = [512, 4096, 4608, 8292]
                [sectors.iter().rposition(|kept| *kept).map_or(0, |last| last + 1)];
            for length in [512, 4608, 8292, 10_000].into_iter().filter(|bytes| least <= *bytes) {
                assert!(seen.contains_key(&(sectors, length)), "{sectors:?}, {length} bytes");
            }
        }
        assert_eq!(pairs.len(), 64, "the fate of a file decides that of another");
    }

    #[test]
    fn a_failed_sync_may_have_written_a_part() {
        let (vfs, mut file) = disk();
        file.write_at(&[2; 1000], 0).unwrap();
        vfs.fail_sync(Unsynced::Torn(1));
        file.sync().unwrap_err();
        file.sync().unwrap();
        assert_eq!(vfs.content(Path::new("/d/f")), Some(vec![2; 1000]));
        assert_eq!(crash(&vfs, Unsynced::Kept, Names::Kept), Some(vec![2; 512]));
    }

    #[test]
    fn what_a_failed_sync_did_not_write_no_later_one_writes() {
        let (vfs, mut file) = disk();
        file.write_at(&[2; 50], 0).unwrap();
        vfs.fail_sync(Unsynced::Lost);
        file.sync().unwrap_err();
        file.write_at(&[3; 10], 90).unwrap();
        file.sync().unwrap();
        let seen = [&[2; 50][..], &[1; 40], &[3; 10]].concat();
        assert_eq!(vfs.content(Path::new("/d/f")), Some(seen));
        let durable = [&[1; 90][..], &[3; 10]].concat();
        assert_eq!(crash(&vfs, Unsynced::Kept, Names::Kept), Some(durable));
    }

    #[test]
    fn a_sector_is_unreadable_until_it_is_written_as_a_whole() {
        let (vfs, mut file) = disk();
        file.write_at(&[2; 2000], 0).unwrap();
        file.sync().unwrap();
        vfs.sync_dir(Path::new("/d")).unwrap();
        vfs.spoil(Path::new("/d/f"), 600);
        let reads = |file: &dyn VfsFile, range: Range<usize>| {
            file.read_at(&mut vec![0; range.len()], range.start as u64).is_ok()
        };
        assert!(reads(file.as_ref(), 0..512) && reads(file.as_ref(), 1024..3000));
        assert!(!reads(file.as_ref(), 0..513) && !reads(file.as_ref(), 1023..1024));
        // The rest of the sector would have to be read.
        file.write_at(&[3; 10], 512).unwrap_err();
        file.set_len(700).unwrap_err();
        let lost = Crash { content: Unsynced::Lost, names: Names::Lost };
        assert_eq!(vfs.crash(lost).unreadable_sectors(), 1);
        file.write_at(&[3; 512], 512).unwrap();
        assert!(reads(file.as_ref(), 0..2000));
        assert_eq!(vfs.crash(lost).unreadable_sectors(), 1, "it is not durable yet");
        file.sync().unwrap();
        assert_eq!(vfs.crash(lost).unreadable_sectors(), 0);
        // The last sector has only as many bytes as the file, and goes with its bytes.
        vfs.spoil(Path::new("/d/f"), 1999);
        file.write_at(&[4; 463], 1536).unwrap_err();
        file.write_at(&[4; 464], 1536).unwrap();
        assert!(reads(file.as_ref(), 0..2000));
        vfs.spoil(Path::new("/d/f"), 1999);
        file.set_len(1536).unwrap();
        assert_eq!((reads(file.as_ref(), 0..1536), vfs.unreadable_sectors()), (true, 0));
    }

    #[test]
    fn a_drive_spoils_the_sector_that_it_is_writing() {
        let (vfs, mut file) = disk();
        vfs.sync_dir(Path::new("/d")).unwrap();
        file.write_at(&[1; 512], 512).unwrap();
        file.sync().unwrap();
        // The rest of a sector, a sector as a whole, and a new one.
        file.write_at(&[2; 1436], 100).unwrap();
        let (mut mixed, mut unreadable) = ([0; 3], [0; 3]);
        for seed in 0..2_000 {
            let crash = Crash { content: Unsynced::Spoiled(seed), names: Names::Lost };
            let disk = vfs.crash(crash);
            let content = disk.content(Path::new("/d/f")).unwrap();
            assert_eq!(content[..100], [1; 100], "what was synced stays");
            let file = disk.open(Path::new("/d/f")).unwrap();
            for sector in 0..content.len().div_ceil(512) {
                let range = sector * 512..content.len().min(sector * 512 + 512);
                let read = file.read_at(&mut vec![0; range.len()], range.start as u64);
                unreadable[sector] += u32::from(read.is_err());
                let bytes = content[range].iter().skip(if sector == 0 { 100 } else { 0 });
                let new = bytes.clone().filter(|byte| **byte == 2).count();
                mixed[sector] += u32::from(0 < new && new < bytes.count());
            }
            assert_eq!(vfs.crash(crash).content(Path::new("/d/f")), Some(content));
        }
        assert!(mixed.iter().all(|count| *count > 20), "{mixed:?}");
        assert!(unreadable[0] == 0 && unreadable[1..].iter().all(|count| *count > 20));
    }

    #[test]
    fn nothing_happens_after_the_power_is_off() {
        let (vfs, mut file) = disk();
        vfs.stop_at(vfs.mutations());
        file.write_at(&[3], 0).unwrap_err();
        vfs.remove(Path::new("/d/f")).unwrap_err();
        assert_eq!(vfs.content(Path::new("/d/f")), Some(vec![1; 100]));
    }
}

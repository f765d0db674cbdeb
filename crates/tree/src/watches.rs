//! Watches.
//!
//! Registration needs only a shared reference to the tree, because it happens together with a read.
//! The table is divided into shards with a lock each. Firing has exclusive access to the tree and
//! takes no locks.
//!
//! Watches on znodes are stored by the znode's id, and watches on missing paths by the path. They
//! move when znodes are created or deleted. Each watcher has the set of its keys, so that a closed
//! connection leaves nothing behind.
//!
//! **Invariant:** locks are taken in the order watcher, paths, shard. Checked by
//! `many_threads_register_and_remove_at_once`: with another order, they would wait for ever.

mod paths;
mod shard;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use hashbrown::HashTable;
use hashbrown::hash_table::Entry;
use zebu_proto::WatcherType;

use paths::Paths;
use shard::{Shard, WATCHERS_MAX, Word, hash};

/// A connection's id in the watch table: small, and reused after [`crate::Tree::drop_watcher`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct WatcherId(pub u32);

impl WatcherId {
    /// Ids are below this value.
    pub const MAX: u32 = WATCHERS_MAX;
}

/// The events that a watch waits for. One path may have several modes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WatchMode {
    /// One-shot: creation, deletion or a change of the data.
    Data,
    /// One-shot: deletion or a change of the list of children.
    Child,
    /// Persistent: all of these events.
    Persistent,
    /// Persistent: creation, deletion or data change of the znode or a descendant.
    PersistentRecursive,
}

pub(crate) const DATA: u8 = 1;
pub(crate) const CHILD: u8 = 2;
pub(crate) const PERSISTENT: u8 = 4;
pub(crate) const RECURSIVE: u8 = 8;
/// Modes that the original keeps in its table of data watches.
pub(crate) const DATA_TABLE: u8 = DATA | PERSISTENT | RECURSIVE;
/// Modes that the original keeps in its table of child watches.
pub(crate) const CHILD_TABLE: u8 = CHILD | PERSISTENT;

impl WatchMode {
    pub(crate) fn bit(self) -> u8 {
        match self {
            Self::Data => DATA,
            Self::Child => CHILD,
            Self::Persistent => PERSISTENT,
            Self::PersistentRecursive => RECURSIVE,
        }
    }
}

fn bits(kind: WatcherType) -> u8 {
    match kind {
        WatcherType::Children => CHILD,
        WatcherType::Data => DATA,
        WatcherType::Any => DATA | CHILD | PERSISTENT | RECURSIVE,
        WatcherType::Persistent => PERSISTENT,
        WatcherType::PersistentRecursive => RECURSIVE,
    }
}

/// The target of a watch: a znode, or a path without one.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Target<'a> {
    Node(u32),
    Missing(&'a str),
}

/// This bit marks keys of paths; the keys of znodes are their ids.
const PATH: u32 = 1 << 31;
const _: () = assert!(crate::arena::IDS_MAX <= PATH, "no id of a znode is a path's key");

/// Number of shards.
pub(crate) const SHARDS: usize = 64;
const _: () = assert!(SHARDS.is_power_of_two());

/// Modes that are not consumed by an event.
const LASTING: u8 = PERSISTENT | RECURSIVE;

/// Maximum bytes of paths stored for one watcher: paths without a znode, and paths that must be
/// stored when their znodes are deleted.
pub const WATCH_BYTES_MAX: usize = 64 << 20;

/// The keys of one watcher.
#[derive(Debug)]
struct Watcher {
    id: u32,
    keys: HashTable<u32>,
    /// The keys among them whose paths are stored, or may have to be, with their sizes.
    charged: HashTable<(u32, u32)>,
    bytes: usize,
}

#[derive(Debug, Default)]
struct Watchers(HashTable<Watcher>);

impl Watchers {
    fn insert(&mut self, id: u32, key: u32) {
        let entry = self.0.entry(hash(id), |watcher| watcher.id == id, |watcher| hash(watcher.id));
        let (keys, charged) = (HashTable::new(), HashTable::new());
        let mut entry = entry.or_insert_with(|| Watcher { id, keys, charged, bytes: 0 });
        entry.get_mut().keys.insert_unique(hash(key), key, |key| hash(*key));
    }

    fn remove(&mut self, id: u32, key: u32) {
        let found = self.0.find_entry(hash(id), |watcher| watcher.id == id);
        let mut found = found.expect("every registration is in its watcher's set");
        found.get_mut().discharge(key);
        let keys = &mut found.get_mut().keys;
        keys.find_entry(hash(key), |other| *other == key)
            .expect("every registration is in its watcher's set")
            .remove();
        if keys.is_empty() {
            found.remove();
        } else if keys.capacity() > 64 && keys.capacity() > 4 * keys.len() {
            keys.shrink_to(2 * keys.len(), |key| hash(*key));
        }
    }
}

impl Watchers {
    fn get_mut(&mut self, id: u32) -> Option<&mut Watcher> {
        self.0.find_mut(hash(id), |watcher| watcher.id == id)
    }

    /// Whether the path of a key may be stored for a watcher, or already is.
    fn has_room(&mut self, id: u32, key: impl FnOnce() -> Option<u32>, bytes: usize) -> bool {
        let Some(watcher) = self.get_mut(id) else { return bytes <= WATCH_BYTES_MAX };
        watcher.bytes + bytes <= WATCH_BYTES_MAX
            || key().is_some_and(|key| watcher.charged.find(hash(key), |it| it.0 == key).is_some())
    }

    /// Counts the path of a key as stored for a watcher.
    fn charge(&mut self, id: u32, key: u32, bytes: usize) {
        let watcher = self.get_mut(id).expect("who has keys is there");
        let entry = watcher.charged.entry(hash(key), |it| it.0 == key, |it| hash(it.0));
        if let Entry::Vacant(free) = entry {
            // A path is shorter than a request.
            free.insert((key, u32::try_from(bytes).unwrap_or(u32::MAX)));
            watcher.bytes += bytes;
        }
    }
}

impl Watcher {
    fn check(&self) {
        assert!(!self.keys.is_empty(), "{} watches nothing", self.id);
        let bytes: usize = self.charged.iter().map(|(_, bytes)| *bytes as usize).sum();
        assert_eq!(self.bytes, bytes, "bytes that are kept for {}", self.id);
        let has = |key: &u32| self.keys.find(hash(*key), |it| it == key).is_some();
        assert!(self.charged.iter().all(|(key, _)| has(key)), "{} pays for nothing", self.id);
    }

    fn discharge(&mut self, key: u32) {
        if let Ok(found) = self.charged.find_entry(hash(key), |it| it.0 == key) {
            let (_, bytes) = found.remove().0;
            self.bytes -= bytes as usize;
        }
    }
}

/// Statistics of the data watches, as shown by `wchs`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WatchSummary {
    /// Connections with a data watch.
    pub watchers: usize,
    /// Paths with a data watch.
    pub paths: usize,
    /// Data watches.
    pub watches: usize,
}

/// All watches of a server.
#[derive(Debug)]
pub(crate) struct Watches {
    shards: Box<[Mutex<Shard>]>,
    watchers: Box<[Mutex<Watchers>]>,
    paths: Mutex<Paths>,
    recursive: AtomicUsize,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn own<T>(mutex: &mut Mutex<T>) -> &mut T {
    mutex.get_mut().unwrap_or_else(PoisonError::into_inner)
}

fn shard_of(number: u32) -> usize {
    // Use bits that the hash tables in the shards use least.
    (hash(number) >> 40) as usize & (SHARDS - 1)
}

impl Watches {
    pub(crate) fn new(seed: u64) -> Self {
        Self {
            shards: (0..SHARDS).map(|_| Mutex::default()).collect(),
            watchers: (0..SHARDS).map(|_| Mutex::default()).collect(),
            paths: Mutex::new(Paths::new(seed)),
            recursive: AtomicUsize::new(0),
        }
    }

    /// Asserts that registrations, watchers and paths agree. `is_live`: whether a znode exists.
    pub(crate) fn check(&self, is_live: impl Fn(u32) -> bool) {
        let (mut uses, mut recursive, mut words) = (BTreeMap::new(), 0, Vec::new());
        for shard in &self.shards {
            let shard = lock(shard);
            shard.check();
            shard.all(|key, word| words.push((key, word)));
        }
        for (key, word) in &words {
            let id = word.watcher();
            let watchers = self.watcher(id);
            let watcher = watchers.0.find(hash(id), |watcher| watcher.id == id);
            let keys = watcher.map(|watcher| &watcher.keys);
            let is_kept = keys.is_some_and(|keys| keys.find(hash(*key), |it| it == key).is_some());
            assert!(is_kept, "{key:#x} is not in the set of {id}");
            recursive += usize::from(word.modes() & RECURSIVE != 0);
            if key & PATH != 0 {
                *uses.entry(key & !PATH).or_default() += 1;
            } else {
                assert!(is_live(*key), "{id} watches a znode that is gone: {key}");
            }
        }
        assert_eq!(self.recursive.load(Ordering::Relaxed), recursive, "recursive watches");
        lock(&self.paths).check(&uses);
        let mut kept = 0;
        for watchers in &self.watchers {
            for watcher in &lock(watchers).0 {
                watcher.check();
                kept += watcher.keys.len();
            }
        }
        assert_eq!(kept, words.len(), "a key without a registration");
    }

    fn shard(&self, key: u32) -> MutexGuard<'_, Shard> {
        lock(&self.shards[shard_of(key)])
    }

    fn watcher(&self, id: u32) -> MutexGuard<'_, Watchers> {
        lock(&self.watchers[shard_of(id)])
    }

    fn own_shard(&mut self, key: u32) -> &mut Shard {
        own(&mut self.shards[shard_of(key)])
    }

    fn count_recursive(&self, old: u8, new: u8) {
        match (old & RECURSIVE != 0, new & RECURSIVE != 0) {
            (false, true) => self.recursive.fetch_add(1, Ordering::Relaxed),
            (true, false) => self.recursive.fetch_sub(1, Ordering::Relaxed),
            _ => 0,
        };
    }

    /// Adds modes to a watcher's registration on a target. False, without effect, if the watcher's
    /// limit is exceeded.
    pub(crate) fn add(
        &self,
        target: Target<'_>,
        path: &str,
        watcher: WatcherId,
        modes: u8,
    ) -> bool {
        assert!(watcher.0 < WatcherId::MAX, "watcher id too large: {}", watcher.0);
        let is_charged = modes & LASTING != 0 || matches!(target, Target::Missing(_));
        let mut mine = self.watcher(watcher.0);
        if is_charged && !mine.has_room(watcher.0, || self.key(target), path.len()) {
            return false;
        }
        let key = match target {
            Target::Node(key) => {
                let (old, new) = self.shard(key).update(key, watcher.0, |old| old | modes);
                self.count_recursive(old, new);
                if old == 0 {
                    mine.insert(watcher.0, key);
                }
                key
            }
            Target::Missing(path) => {
                let mut paths = lock(&self.paths);
                let number = paths.intern(path);
                let key = PATH | number;
                let (old, new) = self.shard(key).update(key, watcher.0, |old| old | modes);
                self.count_recursive(old, new);
                if old == 0 {
                    paths.retain(number);
                    mine.insert(watcher.0, key);
                }
                key
            }
        };
        if is_charged {
            mine.charge(watcher.0, key, path.len());
        }
        true
    }

    fn key(&self, target: Target<'_>) -> Option<u32> {
        match target {
            Target::Node(id) => Some(id),
            Target::Missing(path) => lock(&self.paths).find(path).map(|number| PATH | number),
        }
    }

    pub(crate) fn has(&self, target: Target<'_>, watcher: WatcherId, kind: WatcherType) -> bool {
        let _mine = self.watcher(watcher.0);
        self.key(target).is_some_and(|key| self.shard(key).modes(key, watcher.0) & bits(kind) != 0)
    }

    /// Removes the modes of a type. Returns whether there were any.
    pub(crate) fn remove(&self, target: Target<'_>, watcher: WatcherId, kind: WatcherType) -> bool {
        let mut mine = self.watcher(watcher.0);
        // If the path has no registration of this watcher, its number may be reassigned at any
        // time. But the watcher cannot have a registration on the new path either while its lock is
        // held.
        let Some(key) = self.key(target) else { return false };
        let modes = bits(kind);
        let (old, new) = self.shard(key).update(key, watcher.0, |old| old & !modes);
        self.count_recursive(old, new);
        if old != 0 && new == 0 {
            mine.remove(watcher.0, key);
            if key & PATH != 0 {
                lock(&self.paths).release(key & !PATH);
            }
        }
        old & modes != 0
    }

    /// Removes all registrations of a watcher.
    pub(crate) fn drop_watcher(&self, watcher: WatcherId) {
        let id = watcher.0;
        let mut mine = self.watcher(id);
        let Ok(found) = mine.0.find_entry(hash(id), |watcher| watcher.id == id) else { return };
        for key in found.remove().0.keys {
            let (old, new) = self.shard(key).update(key, id, |_| 0);
            self.count_recursive(old, new);
            if key & PATH != 0 {
                lock(&self.paths).release(key & !PATH);
            }
        }
    }

    /// Whether there are recursive watches.
    pub(crate) fn any_recursive(&mut self) -> bool {
        *self.recursive.get_mut() > 0
    }

    /// Collects the watchers of a target with a mode in `mask`, and consumes their modes in
    /// `consume`.
    pub(crate) fn take(&mut self, target: Target<'_>, mask: u8, consume: u8, found: &mut Vec<u32>) {
        let key = match target {
            Target::Node(id) => id,
            Target::Missing(path) => {
                let paths = own(&mut self.paths);
                if paths.is_empty() {
                    return;
                }
                let Some(number) = paths.find(path) else { return };
                PATH | number
            }
        };
        let shard = self.own_shard(key);
        if shard.is_empty() {
            return;
        }
        let mut gone = Vec::new();
        shard.take(key, mask, consume, |word| {
            found.push(word.watcher());
            if word.modes() & !consume == 0 {
                gone.push(word.watcher());
            }
        });
        for watcher in gone {
            own(&mut self.watchers[shard_of(watcher)]).remove(watcher, key);
            if key & PATH != 0 {
                own(&mut self.paths).release(key & !PATH);
            }
        }
    }

    /// Moves the watches on a path to the znode created there.
    pub(crate) fn path_became_node(&mut self, path: &str, id: u32) {
        if own(&mut self.paths).is_empty() {
            return;
        }
        let Some(number) = own(&mut self.paths).find(path) else { return };
        for word in self.move_all(PATH | number, id) {
            let watchers = own(&mut self.watchers[shard_of(word.watcher())]);
            watchers.insert(word.watcher(), id);
            if word.modes() & LASTING != 0 {
                watchers.charge(word.watcher(), id, path.len());
            }
            own(&mut self.paths).release(number);
        }
    }

    /// Moves the watches on a deleted znode to its path.
    pub(crate) fn node_became_path(&mut self, id: u32, path: &str) {
        let mut any = false;
        self.own_shard(id).each(id, |_| any = true);
        if !any {
            return;
        }
        let number = own(&mut self.paths).intern(path);
        let key = PATH | number;
        for word in self.move_all(id, key) {
            let watchers = own(&mut self.watchers[shard_of(word.watcher())]);
            watchers.insert(word.watcher(), key);
            watchers.charge(word.watcher(), key, path.len());
            own(&mut self.paths).retain(number);
        }
    }

    /// Moves all registrations to another key, and removes the old key from the watchers' sets.
    fn move_all(&mut self, from: u32, to: u32) -> Vec<Word> {
        let mut words = Vec::new();
        self.own_shard(from).each(from, |word| words.push(word));
        for word in &words {
            self.own_shard(from).update(from, word.watcher(), |_| 0);
            self.own_shard(to).update(to, word.watcher(), |_| word.modes());
            own(&mut self.watchers[shard_of(word.watcher())]).remove(word.watcher(), from);
        }
        words
    }

    /// Numbers of data watches and child watches.
    pub(crate) fn counts(&self) -> (usize, usize) {
        self.shards
            .iter()
            .map(lock)
            .fold((0, 0), |(data, child), shard| (data + shard.data, child + shard.child))
    }

    /// Passes all data watches of a part of the table to `pass`. `path` returns a znode's path.
    pub(crate) fn data_watches(
        &self,
        part: usize,
        path: impl Fn(u32) -> String,
        mut pass: impl FnMut(String, Vec<WatcherId>),
    ) {
        let mut words = Vec::new();
        lock(&self.shards[part]).all(|key, word| {
            if word.modes() & DATA_TABLE != 0 {
                words.push((key, WatcherId(word.watcher())));
            }
        });
        words.sort_unstable();
        for run in words.chunk_by(|a, b| a.0 == b.0) {
            let Some(name) = self.name(run[0].0, &path) else { continue };
            pass(name, run.iter().map(|(_, watcher)| *watcher).collect());
        }
    }

    /// The paths on which a watcher has data watches.
    pub(crate) fn data_watches_of(
        &self,
        watcher: WatcherId,
        path: impl Fn(u32) -> String,
    ) -> Vec<String> {
        let id = watcher.0;
        let mine = self.watcher(id);
        let Some(found) = mine.0.find(hash(id), |watcher| watcher.id == id) else {
            return Vec::new();
        };
        let is_data = |key: &&u32| self.shard(**key).modes(**key, id) & DATA_TABLE != 0;
        found.keys.iter().filter(is_data).filter_map(|key| self.name(*key, &path)).collect()
    }

    /// The path of a key, if it is still watched.
    fn name(&self, key: u32, path: impl Fn(u32) -> String) -> Option<String> {
        if key & PATH == 0 {
            return Some(path(key));
        }
        lock(&self.paths).get(key & !PATH).map(str::to_owned)
    }

    /// Counts the paths with data watches, the data watches and their watchers in a part of the
    /// table.
    pub(crate) fn count_in(
        &self,
        part: usize,
        watchers: &mut BTreeSet<WatcherId>,
    ) -> (usize, usize) {
        let mut keys = Vec::new();
        lock(&self.shards[part]).all(|key, word| {
            if word.modes() & DATA_TABLE != 0 {
                keys.push(key);
                watchers.insert(WatcherId(word.watcher()));
            }
        });
        let watches = keys.len();
        keys.sort_unstable();
        keys.dedup();
        (keys.len(), watches)
    }

    pub(crate) fn summary(&self) -> WatchSummary {
        let mut summary = WatchSummary::default();
        let mut watchers = BTreeSet::new();
        for part in 0..SHARDS {
            let (paths, watches) = self.count_in(part, &mut watchers);
            summary.paths += paths;
            summary.watches += watches;
        }
        summary.watchers = watchers.len();
        summary
    }
}

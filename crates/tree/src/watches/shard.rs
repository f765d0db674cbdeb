//! A shard of the watch table, with eight bytes for each registration.
//!
//! A watched key has one slot for each watcher, all under the same hash. If too many watch the same
//! key, one slot refers to a separate set, so that ten thousand watchers do not slow each other
//! down.

use std::hash::BuildHasher;

use foldhash::quality::FixedState;
use hashbrown::HashTable;

use super::{CHILD_TABLE, DATA_TABLE};

const WATCHER_BITS: u32 = 27;
/// Watcher ids are below this value.
pub(super) const WATCHERS_MAX: u32 = 1 << WATCHER_BITS;
const GROUP: u32 = 1 << 31;
const _: () = assert!(WATCHER_BITS + 4 == GROUP.trailing_zeros(), "watcher, four modes, group");
/// More watchers than this on one key form a group.
const INLINE_MAX: usize = 8;
/// A group with fewer watchers is dissolved.
const GROUP_MIN: usize = 4;
const _: () = assert!(GROUP_MIN < INLINE_MAX, "a group that is dissolved fits");

const HASHER: FixedState = FixedState::with_seed(0x7a65_6275);

pub(super) fn hash(number: u32) -> u64 {
    HASHER.hash_one(number)
}

/// A watcher and its modes on a key, packed into one number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Word(u32);

impl Word {
    pub(super) fn new(watcher: u32, modes: u8) -> Self {
        debug_assert!(watcher < WATCHERS_MAX && modes <= 0xf, "{watcher} {modes:#x}");
        Self(u32::from(modes) << WATCHER_BITS | watcher)
    }

    pub(super) fn watcher(self) -> u32 {
        self.0 & (WATCHERS_MAX - 1)
    }

    pub(super) fn modes(self) -> u8 {
        (self.0 >> WATCHER_BITS) as u8 & 0xf
    }
}

/// A registration, or a reference to the group of a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Slot {
    key: u32,
    word: u32,
}

const _: () = assert!(size_of::<Slot>() == 8);

impl Slot {
    fn group(self) -> Option<usize> {
        (self.word & GROUP != 0).then_some((self.word & !GROUP) as usize)
    }

    fn word(self) -> Word {
        Word(self.word)
    }
}

/// A part of the table: all registrations of some keys.
#[derive(Debug, Default)]
pub(super) struct Shard {
    slots: HashTable<Slot>,
    groups: Vec<HashTable<Word>>,
    vacant_groups: Vec<u32>,
    /// Registrations that count as data watches.
    pub(super) data: usize,
    /// Registrations that count as child watches.
    pub(super) child: usize,
}

impl Shard {
    /// Asserts that the counts match the registrations, and that groups have permitted sizes.
    pub(super) fn check(&self) {
        let (mut data, mut child) = (0, 0);
        self.all(|key, word| {
            assert_ne!(word.modes(), 0, "{} waits for nothing on {key:#x}", word.watcher());
            data += usize::from(word.modes() & DATA_TABLE != 0);
            child += usize::from(word.modes() & CHILD_TABLE != 0);
        });
        assert_eq!((self.data, self.child), (data, child), "data and child watches");
        let groups = self.slots.iter().filter_map(|slot| Some((slot, slot.group()?)));
        let mut used = 0;
        for (slot, group) in groups {
            used += 1;
            assert!(self.groups[group].len() >= GROUP_MIN, "a group of few");
            let inline = self.slots.iter_hash(hash(slot.key)).filter(|it| it.key == slot.key);
            assert_eq!(inline.count(), 1, "watchers of {:#x} beside its group", slot.key);
        }
        assert_eq!(used + self.vacant_groups.len(), self.groups.len(), "a group is lost");
    }

    fn count(&mut self, old: u8, new: u8) {
        self.data += usize::from(new & DATA_TABLE != 0);
        self.data -= usize::from(old & DATA_TABLE != 0);
        self.child += usize::from(new & CHILD_TABLE != 0);
        self.child -= usize::from(old & CHILD_TABLE != 0);
    }

    fn group_of(&self, key: u32) -> Option<usize> {
        let group = |slot: &Slot| slot.key == key && slot.group().is_some();
        self.slots.find(hash(key), group).and_then(|slot| slot.group())
    }

    /// The watcher's modes on a key; 0 if there are none.
    pub(super) fn modes(&self, key: u32, watcher: u32) -> u8 {
        let ours = |slot: &Slot| {
            slot.key == key && (slot.group().is_some() || slot.word().watcher() == watcher)
        };
        let Some(slot) = self.slots.find(hash(key), ours) else { return 0 };
        match slot.group() {
            None => slot.word().modes(),
            Some(group) => self.groups[group]
                .find(hash(watcher), |word| word.watcher() == watcher)
                .map_or(0, |word| word.modes()),
        }
    }

    /// Changes the watcher's modes on a key. Returns the modes before and after.
    pub(super) fn update(&mut self, key: u32, watcher: u32, to: impl FnOnce(u8) -> u8) -> (u8, u8) {
        let old = self.modes(key, watcher);
        let new = to(old);
        if new == old {
            return (old, new);
        }
        self.count(old, new);
        let word = Word::new(watcher, new);
        if let Some(group) = self.group_of(key) {
            let members = &mut self.groups[group];
            let ours = |word: &Word| word.watcher() == watcher;
            match members.find_entry(hash(watcher), ours) {
                Ok(found) if new == 0 => {
                    found.remove();
                    self.dissolve_if_small(key, group);
                }
                Ok(mut found) => *found.get_mut() = word,
                Err(_) => {
                    members.insert_unique(hash(watcher), word, |word| hash(word.watcher()));
                }
            }
            return (old, new);
        }
        let ours = |slot: &Slot| slot.key == key && slot.word().watcher() == watcher;
        match self.slots.find_entry(hash(key), ours) {
            Ok(found) if new == 0 => {
                found.remove();
            }
            Ok(mut found) => found.get_mut().word = word.0,
            Err(_) => self.insert(key, word),
        }
        self.shrink();
        (old, new)
    }

    /// Adds a registration for a key without a group.
    fn insert(&mut self, key: u32, word: Word) {
        let hash_key = hash(key);
        let count = self.slots.iter_hash(hash_key).filter(|slot| slot.key == key).count();
        if count < INLINE_MAX {
            let slot = Slot { key, word: word.0 };
            self.slots.insert_unique(hash_key, slot, |slot| hash(slot.key));
            return;
        }
        let mut members = HashTable::with_capacity(count + 1);
        members.insert_unique(hash(word.watcher()), word, |word| hash(word.watcher()));
        while let Ok(found) = self.slots.find_entry(hash_key, |slot| slot.key == key) {
            let word = found.remove().0.word();
            members.insert_unique(hash(word.watcher()), word, |word| hash(word.watcher()));
        }
        let group = match self.vacant_groups.pop() {
            Some(group) => {
                self.groups[group as usize] = members;
                group
            }
            None => {
                self.groups.push(members);
                (self.groups.len() - 1) as u32
            }
        };
        let slot = Slot { key, word: GROUP | group };
        self.slots.insert_unique(hash_key, slot, |slot| hash(slot.key));
    }

    fn dissolve_if_small(&mut self, key: u32, group: usize) {
        let members = &mut self.groups[group];
        if members.len() >= GROUP_MIN {
            if members.capacity() > 4 * members.len() {
                members.shrink_to(2 * members.len(), |word| hash(word.watcher()));
            }
            return;
        }
        let members = std::mem::take(members);
        self.vacant_groups.push(group as u32);
        let leads = |slot: &Slot| slot.key == key && slot.group().is_some();
        if let Ok(found) = self.slots.find_entry(hash(key), leads) {
            found.remove();
        }
        for word in members {
            let slot = Slot { key, word: word.0 };
            self.slots.insert_unique(hash(key), slot, |slot| hash(slot.key));
        }
    }

    /// Frees memory after many registrations were removed.
    fn shrink(&mut self) {
        if self.slots.capacity() > 64 && self.slots.capacity() > 4 * self.slots.len() {
            self.slots.shrink_to(2 * self.slots.len(), |slot| hash(slot.key));
        }
    }

    /// Passes every registration of a key to `pass`.
    pub(super) fn each(&self, key: u32, mut pass: impl FnMut(Word)) {
        for slot in self.slots.iter_hash(hash(key)).filter(|slot| slot.key == key) {
            match slot.group() {
                None => pass(slot.word()),
                Some(group) => self.groups[group].iter().for_each(|word| pass(*word)),
            }
        }
    }

    /// Whether there are no registrations.
    pub(super) fn is_empty(&self) -> bool {
        self.slots.is_empty()
    }

    /// Passes every registration of a key with a mode in `mask`, and removes the modes in `consume`
    /// from it.
    pub(super) fn take(&mut self, key: u32, mask: u8, consume: u8, mut pass: impl FnMut(Word)) {
        let mut inline = [Word(0); INLINE_MAX];
        let mut count = 0;
        let mut group = None;
        for slot in self.slots.iter_hash(hash(key)).filter(|slot| slot.key == key) {
            match slot.group() {
                Some(found) => group = Some(found),
                None if slot.word().modes() & mask != 0 => {
                    inline[count] = slot.word();
                    count += 1;
                }
                None => {}
            }
        }
        for word in &inline[..count] {
            self.update(key, word.watcher(), |modes| modes & !consume);
            pass(*word);
        }
        let Some(group) = group else { return };
        let mut members = std::mem::take(&mut self.groups[group]);
        members.retain(|word| {
            let (old, new) = (word.modes(), word.modes() & !consume);
            if old & mask == 0 {
                return true;
            }
            pass(*word);
            self.count(old, new);
            *word = Word::new(word.watcher(), new);
            new != 0
        });
        self.groups[group] = members;
        self.dissolve_if_small(key, group);
    }

    /// Passes every registration with its key.
    pub(super) fn all(&self, mut pass: impl FnMut(u32, Word)) {
        for slot in &self.slots {
            match slot.group() {
                None => pass(slot.key, slot.word()),
                Some(group) => self.groups[group].iter().for_each(|word| pass(slot.key, *word)),
            }
        }
    }
}

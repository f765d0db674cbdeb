//! Numbers for watched paths without a znode.

use std::collections::BTreeMap;
use std::hash::BuildHasher;

use foldhash::quality::FixedState;
use hashbrown::HashTable;

#[derive(Debug)]
struct Entry {
    path: Box<str>,
    /// Number of registrations.
    uses: u32,
}

/// The numbering.
#[derive(Debug)]
pub(super) struct Paths {
    entries: Vec<Entry>,
    vacant: Vec<u32>,
    by_path: HashTable<u32>,
    hasher: FixedState,
}

impl Paths {
    pub(super) fn new(seed: u64) -> Self {
        Self {
            entries: Vec::new(),
            vacant: Vec::new(),
            by_path: HashTable::new(),
            hasher: FixedState::with_seed(seed),
        }
    }

    /// Asserts that the use counts equal the numbers of registrations.
    pub(super) fn check(&self, uses: &BTreeMap<u32, u32>) {
        assert_eq!(self.by_path.len() + self.vacant.len(), self.entries.len(), "a number is lost");
        for (number, entry) in (0..).zip(&self.entries) {
            let used = uses.get(&number).copied().unwrap_or(0);
            assert_eq!(entry.uses, used, "registrations on {:?}", entry.path);
        }
        assert_eq!(self.by_path.len(), uses.len(), "a path that nobody watches");
    }

    pub(super) fn is_empty(&self) -> bool {
        self.by_path.is_empty()
    }

    pub(super) fn find(&self, path: &str) -> Option<u32> {
        let same = |number: &u32| &*self.entries[*number as usize].path == path;
        self.by_path.find(self.hasher.hash_one(path), same).copied()
    }

    /// The path with this number; `None` if it was released meanwhile.
    pub(super) fn get(&self, number: u32) -> Option<&str> {
        let entry = self.entries.get(number as usize)?;
        (entry.uses > 0).then_some(&entry.path)
    }

    /// The number of a path. A new path is unused: retain it.
    pub(super) fn intern(&mut self, path: &str) -> u32 {
        if let Some(number) = self.find(path) {
            return number;
        }
        let entry = Entry { path: path.into(), uses: 0 };
        let number = match self.vacant.pop() {
            Some(number) => {
                self.entries[number as usize] = entry;
                number
            }
            None => {
                self.entries.push(entry);
                (self.entries.len() - 1) as u32
            }
        };
        let Self { entries, by_path, hasher, .. } = self;
        let rehash = |number: &u32| hasher.hash_one(&*entries[*number as usize].path);
        by_path.insert_unique(hasher.hash_one(path), number, rehash);
        number
    }

    pub(super) fn retain(&mut self, number: u32) {
        self.entries[number as usize].uses += 1;
    }

    /// Counts one registration less. A path without registrations is dropped.
    pub(super) fn release(&mut self, number: u32) {
        let entry = &mut self.entries[number as usize];
        assert!(entry.uses > 0, "a path that nobody watches: {number}");
        entry.uses -= 1;
        if entry.uses > 0 {
            return;
        }
        let path = std::mem::take(&mut entry.path);
        let found = self.by_path.find_entry(self.hasher.hash_one(&*path), |other| *other == number);
        found.expect("every path with uses is indexed").remove();
        self.vacant.push(number);
        if self.by_path.is_empty() {
            // No number is in use any more.
            *self = Self { hasher: self.hasher.clone(), ..Self::new(0) };
        }
    }
}

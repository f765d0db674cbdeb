//! ACLs, each stored once, with reference counts.
//!
//! The numbers are those in snapshots. The open ACL of the znodes that every tree starts with is −1
//! and has no entry. Any list in a transaction, even the open one, gets the number after the
//! highest so far.

use std::collections::BTreeMap;
use std::hash::{BuildHasher, Hasher};
use std::sync::Arc;

use foldhash::quality::FixedState;
use hashbrown::HashTable;
use zebu_proto::{Acl, AclRef, Perms};

/// The number of the open ACL, which has no entry.
pub(crate) const OPEN_ID: i64 = -1;
/// The slot of the open ACL.
pub(crate) const OPEN: u32 = 0;

#[derive(Debug)]
struct Entry {
    id: i64,
    acl: Arc<[Acl]>,
    /// Number of znodes with this list.
    uses: u32,
}

/// All lists in use.
#[derive(Debug)]
pub(crate) struct AclTable {
    /// `None` for dropped lists.
    slots: Vec<Option<Entry>>,
    vacant: Vec<u32>,
    by_list: HashTable<u32>,
    hasher: FixedState,
    next_id: i64,
}

type Parts<'a> = (Perms, &'a str, &'a str);

fn parts(acl: &Acl) -> Parts<'_> {
    (acl.perms, &acl.id.scheme, &acl.id.id)
}

fn parts_ref<'a>(acl: &'a AclRef<'_>) -> Parts<'a> {
    let text = |text: &'a Option<std::borrow::Cow<'_, str>>| text.as_deref().unwrap_or_default();
    (acl.perms, text(&acl.scheme), text(&acl.id))
}

fn hash<'a>(hasher: &FixedState, list: impl Iterator<Item = Parts<'a>>) -> u64 {
    let mut hasher = hasher.build_hasher();
    for (perms, scheme, id) in list {
        hasher.write_i32(perms.0);
        hasher.write(scheme.as_bytes());
        hasher.write_u8(0xff);
        hasher.write(id.as_bytes());
        hasher.write_u8(0xff);
    }
    hasher.finish()
}

impl AclTable {
    pub(crate) fn new(seed: u64) -> Self {
        let open = Entry { id: OPEN_ID, acl: Acl::open().into(), uses: 0 };
        Self {
            slots: vec![Some(open)],
            vacant: Vec::new(),
            by_list: HashTable::new(),
            hasher: FixedState::with_seed(seed),
            next_id: 1,
        }
    }

    /// Asserts that the reference counts equal the numbers of znodes.
    pub(crate) fn check(&self, uses: &BTreeMap<u32, u32>) {
        let lists = self.slots.iter().flatten().count();
        assert_eq!(lists + self.vacant.len(), self.slots.len(), "a slot is lost");
        assert_eq!(self.by_list.len() + 1, lists, "a list that is not found");
        for (slot, entry) in (0..).zip(&self.slots) {
            let Some(entry) = entry else { continue };
            let used = uses.get(&slot).copied().unwrap_or(0);
            assert_eq!(entry.uses, used, "znodes with the list {}", entry.id);
            assert!(entry.uses > 0 || slot == OPEN, "the list {} is kept for nobody", entry.id);
            assert!(entry.id < self.next_id, "the list {} comes again", entry.id);
            assert_eq!(entry.id == OPEN_ID, slot == OPEN, "the open list is in slot {slot}");
        }
        assert!(uses.keys().all(|slot| self.slots[*slot as usize].is_some()), "a list is gone");
    }

    fn entry(&self, slot: u32) -> &Entry {
        self.slots[slot as usize].as_ref().expect("znodes refer to lists in use")
    }

    pub(crate) fn get(&self, slot: u32) -> &Arc<[Acl]> {
        &self.entry(slot).acl
    }

    pub(crate) fn id(&self, slot: u32) -> i64 {
        self.entry(slot).id
    }

    /// The number of the next new list.
    pub(crate) fn next_id(&self) -> i64 {
        self.next_id
    }

    /// The slot of a list, if znodes use it.
    pub(crate) fn find(&self, list: &[AclRef<'_>]) -> Option<u32> {
        let hash = hash(&self.hasher, list.iter().map(parts_ref));
        let same =
            |slot: &u32| self.entry(*slot).acl.iter().map(parts).eq(list.iter().map(parts_ref));
        self.by_list.find(hash, same).copied()
    }

    /// Counts one more znode with this list, and returns its slot.
    ///
    /// An empty list stands for the open ACL without an entry.
    pub(crate) fn intern(&mut self, list: &[AclRef<'_>]) -> u32 {
        let slot = if list.is_empty() {
            OPEN
        } else {
            match self.find(list) {
                Some(slot) => slot,
                None => {
                    let acl = list.iter().map(AclRef::to_owned).collect();
                    let id = self.next_id;
                    self.insert(id, acl)
                }
            }
        };
        self.retain(slot);
        slot
    }

    /// Adds a list under a given number, not used by any znode yet.
    pub(crate) fn insert(&mut self, id: i64, acl: Arc<[Acl]>) -> u32 {
        let key = hash(&self.hasher, acl.iter().map(parts));
        self.next_id = self.next_id.max(id.saturating_add(1));
        let entry = Some(Entry { id, acl, uses: 0 });
        let slot = match self.vacant.pop() {
            Some(slot) => {
                self.slots[slot as usize] = entry;
                slot
            }
            None => {
                self.slots.push(entry);
                (self.slots.len() - 1) as u32
            }
        };
        let Self { slots, by_list, hasher, .. } = self;
        by_list.insert_unique(key, slot, |slot| {
            let entry = slots[*slot as usize].as_ref().expect("indexed lists are in use");
            hash(hasher, entry.acl.iter().map(parts))
        });
        slot
    }

    pub(crate) fn retain(&mut self, slot: u32) {
        self.slots[slot as usize].as_mut().expect("znodes refer to lists in use").uses += 1;
    }

    /// Counts one znode less. A list without znodes is dropped.
    pub(crate) fn release(&mut self, slot: u32) {
        let entry = self.slots[slot as usize].as_mut().expect("znodes refer to lists in use");
        assert!(entry.uses > 0, "a list of no znode");
        entry.uses -= 1;
        if entry.uses == 0 {
            self.drop_unused(slot);
        }
    }

    fn drop_unused(&mut self, slot: u32) {
        if slot == OPEN {
            return;
        }
        let key = hash(&self.hasher, self.entry(slot).acl.iter().map(parts));
        if let Ok(found) = self.by_list.find_entry(key, |other| *other == slot) {
            found.remove();
        }
        assert_ne!(slot, OPEN, "the open list is always there");
        self.slots[slot as usize] = None;
        self.vacant.push(slot);
    }

    /// Drops all lists without znodes.
    pub(crate) fn purge(&mut self) {
        for slot in 0..self.slots.len() as u32 {
            if self.slots[slot as usize].as_ref().is_some_and(|entry| entry.uses == 0) {
                self.drop_unused(slot);
            }
        }
    }

    /// The numbers and lists that need an entry, by slot.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (i64, Arc<[Acl]>)> + use<> {
        self.slots
            .iter()
            .skip(1)
            .flatten()
            .map(|entry| (entry.id, Arc::clone(&entry.acl)))
            .collect::<BTreeMap<_, _>>()
            .into_iter()
    }
}

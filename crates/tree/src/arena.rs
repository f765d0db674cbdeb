//! The structure of the tree: parents, children, names and data.
//!
//! Znodes are records in chunks that never move, with 32-bit ids that are reused after deletion.
//! Siblings form a linked list in the order of their creation. The meaning of the stat's fields is
//! defined elsewhere.

use std::hash::{BuildHasher, Hasher};
use std::hint::black_box;

use foldhash::quality::FixedState;
use zebu_proto::StatPersisted;

use crate::index::{Index, Records};
use crate::payload::{Handle, Payloads};
use crate::record::{Form, NULL_DATA, Record, write_stat};

/// The id of no znode.
pub(crate) const NONE: u32 = u32::MAX;
/// The root's id.
pub(crate) const ROOT: u32 = 0;

const CHUNK_BITS: u32 = 10;
const CHUNK: usize = 1 << CHUNK_BITS;
const _: () = assert!(ROOT < IDS_MAX && IDS_MAX < NONE, "an id is never that of no znode");
/// Ids are below this value, so that other tables have a spare bit.
pub(crate) const IDS_MAX: u32 = 1 << 31;
/// How many records of a chain are read ahead; few chains have more.
const CHAINED_READ: usize = 4;
/// First byte of a payload whose name length takes four more bytes.
const LONG_NAME: u8 = u8::MAX;

#[derive(Debug)]
struct Chunks(Vec<Vec<Record>>);

impl Records for Chunks {
    fn record(&self, id: u32) -> &Record {
        &self.0[(id >> CHUNK_BITS) as usize][id as usize & (CHUNK - 1)]
    }

    fn record_mut(&mut self, id: u32) -> &mut Record {
        &mut self.0[(id >> CHUNK_BITS) as usize][id as usize & (CHUNK - 1)]
    }
}

/// All znodes.
#[derive(Debug)]
pub(crate) struct Arena {
    chunks: Chunks,
    payloads: Payloads,
    index: Index,
    hasher: FixedState,
    /// The first id to reuse.
    free: u32,
    /// Number of ids ever used.
    high: u32,
    live: u32,
}

impl Arena {
    /// Only the root, with empty data and a zero stat.
    pub(crate) fn new(seed: u64) -> Self {
        let mut arena = Self {
            chunks: Chunks(Vec::new()),
            payloads: Payloads::new(),
            index: Index::new(),
            hasher: FixedState::with_seed(seed),
            free: NONE,
            high: 0,
            live: 0,
        };
        let root = arena.allocate("", Some(&[]), &StatPersisted::default());
        assert_eq!(root, ROOT);
        arena
    }

    /// Number of znodes, including the root.
    pub(crate) fn len(&self) -> usize {
        self.live as usize
    }

    /// Whether an id belongs to a znode, as far as this can be determined: a free record has no
    /// payload, but keeps its fields.
    pub(crate) fn is_live(&self, id: u32) -> bool {
        id == ROOT || id < self.high && self.child(self.get(id).parent, self.name(id)) == Some(id)
    }

    /// Asserts that each record is either a znode or free, and that the index contains all znodes
    /// but the root.
    pub(crate) fn check(&self) {
        let mut free = 0;
        let mut id = self.free;
        while id != NONE {
            assert!(id < self.high, "a record is free that never was in use: {id}");
            assert_ne!(id, ROOT, "the root is free");
            free += 1;
            assert!(free <= self.high, "free records go round");
            id = self.get(id).hash_next;
        }
        assert_eq!(free + self.live, self.high, "a record is lost");
        let records: usize = self.chunks.0.iter().map(Vec::len).sum();
        assert_eq!(records, self.high as usize, "ids without a record");
        assert_eq!(self.index.len() + 1, self.len(), "znodes that can be found by name");
        assert!(self.get(ROOT).parent == NONE && self.get(ROOT).older == NONE, "the root is below");
    }

    #[cfg(test)]
    pub(crate) fn index(&self) -> &Index {
        &self.index
    }

    pub(crate) fn get(&self, id: u32) -> &Record {
        self.chunks.record(id)
    }

    pub(crate) fn get_mut(&mut self, id: u32) -> &mut Record {
        self.chunks.record_mut(id)
    }

    pub(crate) fn hash(&self, parent: u32, name: &[u8]) -> u32 {
        let mut hasher = self.hasher.build_hasher();
        hasher.write_u32(parent);
        hasher.write(name);
        hasher.finish() as u32
    }

    /// The child with this name.
    pub(crate) fn child(&self, parent: u32, name: &str) -> Option<u32> {
        self.child_named(parent, name.as_bytes())
    }

    fn child_named(&self, parent: u32, name: &[u8]) -> Option<u32> {
        let hash = self.hash(parent, name);
        let mut id = self.index.chain(hash);
        while id != NONE {
            let record = self.get(id);
            if record.hash == hash
                && record.parent == parent
                && self.name_and_data(record).0 == name
            {
                return Some(id);
            }
            id = record.hash_next;
        }
        None
    }

    /// Reads what looking up the children with these hashes and inserting `added` of them needs.
    /// Returns the number of records read.
    pub(crate) fn read_chains(&self, hashes: &[u32], added: usize) -> usize {
        let chain = |hash: &u32| (*hash, self.index.chain(*hash));
        let mut sought: Vec<(u32, u32)> = hashes.iter().map(chain).collect();
        let mut split: Vec<u32> = self.index.next_split(added).collect();
        let (mut records, mut bytes) = (0, 0);
        // Chain by chain, each read would wait for the one before it.
        for _ in 0..CHAINED_READ {
            sought.retain(|(_, id)| *id != NONE);
            split.retain(|id| *id != NONE);
            records += sought.len() + split.len();
            for (hash, id) in &mut sought {
                let record = self.get(*id);
                if record.hash == *hash {
                    bytes ^= self.payloads.slot_from(record.payload, 0)[0];
                }
                *id = record.hash_next;
            }
            for id in &mut split {
                *id = self.get(*id).hash_next;
            }
        }
        black_box((&sought, &split, bytes));
        records
    }

    /// The znode with this path; an empty path is the root too.
    pub(crate) fn lookup(&self, path: &str) -> Option<u32> {
        if path.is_empty() || path == "/" {
            return Some(ROOT);
        }
        // No znode has an empty name, so doubled and trailing slashes find nothing.
        let mut id = ROOT;
        // Names are short: a bytewise search is faster than one by words.
        for name in path.as_bytes().strip_prefix(b"/")?.split(|byte| *byte == b'/') {
            id = self.child_named(id, name)?;
        }
        Some(id)
    }

    /// The stat of a znode.
    #[inline]
    pub(crate) fn stat(&self, id: u32) -> StatPersisted {
        let record = self.get(id);
        record.stat(|| self.payloads.slot_from(record.payload, 0))
    }

    /// The name of a znode, and the bytes behind it.
    #[inline]
    fn name_and_data(&self, record: &Record) -> (&[u8], &[u8]) {
        Self::split_slot(self.payloads.slot_from(record.payload, record.form.bytes()))
    }

    #[inline]
    fn split_slot(slot: &[u8]) -> (&[u8], &[u8]) {
        let (length, rest) = match slot[0] {
            LONG_NAME => {
                let (length, rest) = slot[1..].split_at(4);
                let length = length.try_into().expect("four bytes were split off");
                (u32::from_be_bytes(length) as usize, rest)
            }
            length => (usize::from(length), &slot[1..]),
        };
        rest.split_at(length)
    }

    pub(crate) fn name(&self, id: u32) -> &str {
        std::str::from_utf8(self.name_and_data(self.get(id)).0).expect("names are stored as text")
    }

    #[inline]
    pub(crate) fn data(&self, id: u32) -> Option<&[u8]> {
        let record = self.get(id);
        if record.data_length == NULL_DATA {
            return None;
        }
        Some(&self.name_and_data(record).1[..record.data_length as usize])
    }

    fn header_bytes(name: usize) -> usize {
        if name < usize::from(LONG_NAME) { 1 } else { 5 }
    }

    /// Stores a stat in a form, name and data in a slot of their own.
    fn store(
        &mut self,
        (form, stat): (Form, &StatPersisted),
        name: &[u8],
        data: Option<&[u8]>,
    ) -> (Handle, u32) {
        let header = Self::header_bytes(name.len());
        let bytes = data.unwrap_or_default();
        let handle = self.payloads.allocate(form.bytes() + header + name.len() + bytes.len());
        let (before, slot) = self.payloads.slot_mut(handle).split_at_mut(form.bytes());
        write_stat(form, stat, before);
        if header == 1 {
            slot[0] = name.len() as u8;
        } else {
            slot[0] = LONG_NAME;
            slot[1..5].copy_from_slice(&(name.len() as u32).to_be_bytes());
        }
        slot[header..header + name.len()].copy_from_slice(name);
        slot[header + name.len()..header + name.len() + bytes.len()].copy_from_slice(bytes);
        (handle, data.map_or(NULL_DATA, |data| data.len() as u32))
    }

    fn allocate(&mut self, name: &str, data: Option<&[u8]>, stat: &StatPersisted) -> u32 {
        let form = Form::of(stat);
        let (payload, data_length) = self.store((form, stat), name.as_bytes(), data);
        let record = Record {
            czxid: stat.czxid,
            ctime: stat.ctime,
            acl: 0,
            parent: NONE,
            newest_child: NONE,
            older: NONE,
            newer: NONE,
            children: 0,
            digest: 0,
            hash: 0,
            hash_next: NONE,
            payload,
            data_length,
            form,
        };
        self.live += 1;
        if self.free != NONE {
            let id = self.free;
            let slot = self.get_mut(id);
            let next_free = slot.hash_next;
            *slot = record;
            self.free = next_free;
            return id;
        }
        let id = self.high;
        assert!(id < IDS_MAX, "znode ids are spent");
        self.high += 1;
        if id as usize & (CHUNK - 1) == 0 {
            self.chunks.0.push(Vec::with_capacity(CHUNK));
        }
        self.chunks.0[(id >> CHUNK_BITS) as usize].push(record);
        id
    }

    /// Adds a new child as the newest of its siblings.
    pub(crate) fn link(
        &mut self,
        parent: u32,
        name: &str,
        data: Option<&[u8]>,
        stat: &StatPersisted,
    ) -> u32 {
        let id = self.append(parent, name, data, stat);
        self.index.insert(&mut self.chunks, id);
        id
    }

    /// Like [`Self::link`], but the child cannot be found by name until [`Self::index_newest`] is
    /// called. Ids are consecutive as long as none was freed.
    pub(crate) fn append(
        &mut self,
        parent: u32,
        name: &str,
        data: Option<&[u8]>,
        stat: &StatPersisted,
    ) -> u32 {
        let id = self.allocate(name, data, stat);
        let hash = self.hash(parent, name.as_bytes());
        let record = self.get_mut(id);
        record.hash = hash;
        record.parent = parent;
        self.get_mut(parent).children += 1;
        self.enter_newest(id, parent);
        id
    }

    /// Like [`Self::append`], but inserts the child among its siblings by its czxid, if it belongs
    /// at either end. Otherwise it becomes the newest and the result is false:
    /// [`Self::sort_children`] is then required.
    ///
    /// Children with equal czxids must come newest first, as in our own snapshots.
    pub(crate) fn append_in_order(
        &mut self,
        parent: u32,
        name: &str,
        data: Option<&[u8]>,
        stat: &StatPersisted,
    ) -> (u32, bool) {
        let newest = self.get(parent).newest_child;
        let id = self.append(parent, name, data, stat);
        if newest == NONE {
            return (id, true);
        }
        let oldest = self.get(id).newer;
        if stat.czxid > self.get(oldest).czxid {
            return (id, stat.czxid >= self.get(newest).czxid);
        }
        // The child moves from the newer to the older end; the ring stays the same.
        self.get_mut(parent).newest_child = newest;
        self.get_mut(oldest).older = id;
        self.get_mut(id).older = NONE;
        (id, true)
    }

    /// Inserts a znode as the newest of its siblings.
    fn enter_newest(&mut self, id: u32, parent: u32) {
        let newest = std::mem::replace(&mut self.get_mut(parent).newest_child, id);
        let oldest = if newest == NONE {
            id
        } else {
            std::mem::replace(&mut self.get_mut(newest).newer, id)
        };
        let record = self.get_mut(id);
        record.older = newest;
        record.newer = oldest;
    }

    /// Removes a znode from the list of its siblings.
    fn leave_siblings(&mut self, id: u32) {
        let record = self.get(id);
        let (parent, older, newer) = (record.parent, record.older, record.newer);
        let newest = self.get(parent).newest_child;
        if id == newest {
            self.get_mut(parent).newest_child = older;
        } else {
            self.get_mut(newer).older = older;
        }
        if older != NONE {
            self.get_mut(older).newer = newer;
        } else if id != newest {
            self.get_mut(newest).newer = newer;
        }
    }

    /// Makes a znode the newest of its siblings.
    pub(crate) fn make_newest(&mut self, id: u32) {
        let parent = self.get(id).parent;
        if self.get(parent).newest_child != id {
            self.leave_siblings(id);
            self.enter_newest(id, parent);
        }
    }

    /// Sorts the children by czxid. The sort is stable.
    pub(crate) fn sort_children(&mut self, parent: u32) {
        let mut ids: Vec<u32> = self.children(parent).collect();
        ids.sort_by_key(|id| self.get(*id).czxid);
        self.get_mut(parent).newest_child = NONE;
        for id in ids {
            self.enter_newest(id, parent);
        }
    }

    /// Indexes the newest znodes, which were appended and have these hashes.
    ///
    /// # Errors
    /// The id of a znode with the same name and parent as another one. The arena is unusable then.
    pub(crate) fn index_newest(&mut self, hashes: &[u32]) -> Result<(), u32> {
        let first = self.high - hashes.len() as u32;
        if first > ROOT + 1 {
            for id in first..self.high {
                let record = self.get(id);
                if self.child(record.parent, self.name(id)).is_some() {
                    return Err(id);
                }
                self.index.insert(&mut self.chunks, id);
            }
            return Ok(());
        }
        let Self { chunks, payloads, index, .. } = self;
        let named = |id| {
            let record = chunks.record(id);
            let slot = payloads.slot_from(record.payload, record.form.bytes());
            (record.parent, Self::split_slot(slot).0)
        };
        let next = index.fill(first, hashes, |a, b| named(a) == named(b))?;
        for (id, next) in (first..).zip(next) {
            self.get_mut(id).hash_next = next;
        }
        Ok(())
    }

    /// Removes a znode without children. Its id may be reused at once.
    pub(crate) fn unlink(&mut self, id: u32) {
        let record = self.get(id);
        assert_eq!(record.newest_child, NONE, "a znode with children is removed");
        assert_ne!(id, ROOT, "the root is removed");
        let (parent, payload) = (record.parent, record.payload);
        assert!(self.get(parent).children > 0, "a child of a znode without children");
        self.index.remove(&mut self.chunks, id);
        self.leave_siblings(id);
        self.get_mut(parent).children -= 1;
        self.payloads.release(payload);
        let free = self.free;
        self.get_mut(id).hash_next = free;
        self.free = id;
        self.live -= 1;
    }

    /// Replaces the stat.
    pub(crate) fn set_stat(&mut self, id: u32, stat: &StatPersisted) {
        let record = self.get_mut(id);
        let (form, payload) = (record.form, record.payload);
        if form != Form::Whole && Form::of(stat) > form {
            let data = self.data(id).map(<[u8]>::to_vec);
            return self.move_payload(id, data.as_deref(), stat);
        }
        record.czxid = stat.czxid;
        record.ctime = stat.ctime;
        write_stat(form, stat, self.payloads.slot_mut(payload));
    }

    /// Replaces the data and the stat.
    pub(crate) fn set_data(&mut self, id: u32, data: Option<&[u8]>, stat: &StatPersisted) {
        let record = self.get(id);
        let (form, payload) = (record.form, record.payload);
        let name = self.name_and_data(record).0.len();
        let at = form.bytes() + Self::header_bytes(name) + name;
        let bytes = data.unwrap_or_default();
        let stays = form == Form::Whole || Form::of(stat) <= form;
        if !stays || !Payloads::same_slot(at + record.data_length(), at + bytes.len()) {
            return self.move_payload(id, data, stat);
        }
        let slot = self.payloads.slot_mut(payload);
        slot[at..at + bytes.len()].copy_from_slice(bytes);
        write_stat(form, stat, slot);
        let record = self.get_mut(id);
        record.czxid = stat.czxid;
        record.ctime = stat.ctime;
        record.data_length = data.map_or(NULL_DATA, |data| data.len() as u32);
    }

    /// Stores a znode's name, new data and new stat in a new slot.
    fn move_payload(&mut self, id: u32, data: Option<&[u8]>, stat: &StatPersisted) {
        let record = self.get(id);
        let (old, form) = (record.payload, record.form.max(Form::of(stat)));
        let name = self.name_and_data(record).0;
        let mut short = [0; 256];
        let long;
        let name = match short.get_mut(..name.len()) {
            Some(short) => {
                short.copy_from_slice(name);
                &*short
            }
            None => {
                long = name.to_vec();
                &long
            }
        };
        let (payload, data_length) = self.store((form, stat), name, data);
        self.payloads.release(old);
        let record = self.get_mut(id);
        record.czxid = stat.czxid;
        record.ctime = stat.ctime;
        record.payload = payload;
        record.data_length = data_length;
        record.form = form;
    }

    /// Writes the path of a znode to `path`; `/` for the root.
    pub(crate) fn path_into(&self, id: u32, path: &mut String) {
        path.clear();
        let mut length = 0;
        let mut at = id;
        while at != ROOT {
            length += 1 + self.name_and_data(self.get(at)).0.len();
            at = self.get(at).parent;
        }
        path.reserve(length.max(1));
        let mut ids = Vec::new();
        at = id;
        while at != ROOT {
            ids.push(at);
            at = self.get(at).parent;
        }
        for at in ids.into_iter().rev() {
            path.push('/');
            path.push_str(self.name(at));
        }
        if path.is_empty() {
            path.push('/');
        }
    }

    pub(crate) fn path(&self, id: u32) -> String {
        let mut path = String::new();
        self.path_into(id, &mut path);
        path
    }

    /// The next znode in the pre-order walk of the subtree of `top`, with newer siblings before
    /// older ones.
    pub(crate) fn after(&self, id: u32, top: u32) -> Option<u32> {
        match self.get(id).newest_child {
            NONE => self.after_subtree(id, top),
            child => Some(child),
        }
    }

    /// The next znode in that walk after the whole subtree of `id`.
    pub(crate) fn after_subtree(&self, mut id: u32, top: u32) -> Option<u32> {
        while id != top {
            let record = self.get(id);
            if record.older != NONE {
                return Some(record.older);
            }
            id = record.parent;
        }
        None
    }

    /// The ids of a znode and its descendants, parents first.
    pub(crate) fn subtree(&self, top: u32) -> impl Iterator<Item = u32> {
        std::iter::successors(Some(top), move |id| self.after(*id, top))
    }

    /// Ids of the children, oldest first.
    /// The children of a znode that are newer than one of them.
    pub(crate) fn children_behind(&self, id: u32, child: u32) -> impl Iterator<Item = u32> {
        let newest = self.get(id).newest_child;
        let next = move |id: u32| (id != newest).then(|| self.get(id).newer);
        std::iter::successors(next(child), move |id| next(*id))
    }

    pub(crate) fn children(&self, id: u32) -> impl Iterator<Item = u32> {
        let newest = self.get(id).newest_child;
        let oldest = (newest != NONE).then(|| self.get(newest).newer);
        std::iter::successors(oldest, move |id| (*id != newest).then(|| self.get(*id).newer))
    }
}

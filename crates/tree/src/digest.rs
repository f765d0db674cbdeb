//! The tree digest, version 2: a sum of CRCs, kept up to date change by change.

use zebu_proto::StatPersisted;

/// Whether a znode counts in the tree digest: all do but those below `/zookeeper`.
///
/// Source: `DigestCalculator.calculateDigest`.
pub fn digest_counts(path: &str) -> bool {
    !path.starts_with("/zookeeper/")
}

/// A znode's part of the tree digest: the CRC-32 of path, data and stat.
///
/// The root's path counts as empty. Source: `DigestCalculator.calculateDigest`.
pub fn node_digest(path: &str, data: Option<&[u8]>, stat: &StatPersisted) -> u32 {
    resume(start(path, data), stat)
}

/// The part of the CRC that only changes when the data do.
pub(crate) fn start(path: &str, data: Option<&[u8]>) -> u32 {
    let mut hasher = crc32fast::Hasher::new();
    if path != "/" {
        hasher.update(path.as_bytes());
    }
    hasher.update(data.unwrap_or_default());
    hasher.finalize()
}

/// Goes on from [`start`] over the stat. Its order here is not the order of snapshots.
pub(crate) fn resume(crc: u32, stat: &StatPersisted) -> u32 {
    let mut bytes = [0; 60];
    let longs = [stat.czxid.0, stat.mzxid.0, stat.pzxid.0, stat.ctime, stat.mtime];
    for (slot, long) in bytes.chunks_exact_mut(8).zip(longs) {
        slot.copy_from_slice(&long.to_be_bytes());
    }
    bytes[40..44].copy_from_slice(&stat.version.to_be_bytes());
    bytes[44..48].copy_from_slice(&stat.cversion.to_be_bytes());
    bytes[48..52].copy_from_slice(&stat.aversion.to_be_bytes());
    bytes[52..].copy_from_slice(&stat.ephemeral_owner.to_be_bytes());
    let mut hasher = crc32fast::Hasher::new_with_initial(crc);
    hasher.update(&bytes);
    hasher.finalize()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pristine_tree_of_the_original() {
        // Root and /zookeeper, both with a zero stat and empty data.
        let stat = StatPersisted::default();
        let sum = i64::from(node_digest("/", Some(b""), &stat))
            + i64::from(node_digest("/zookeeper", Some(b""), &stat));
        assert_eq!(sum, 1_371_985_504);
    }

    #[test]
    fn what_counts() {
        assert!(digest_counts("/") && digest_counts("/zookeeper") && digest_counts("/zookeepers"));
        assert!(!digest_counts("/zookeeper/config"));
    }
}

//! The tree digest, version 2: a sum of CRCs, updated with each change.

use zebu_proto::{STAT_PERSISTED_BYTES, StatPersisted};

/// Whether a znode contributes to the tree digest: all do, except those below `/zookeeper`.
/// Source: `DigestCalculator.calculateDigest`.
pub fn digest_counts(path: &str) -> bool {
    !path.starts_with("/zookeeper/")
}

/// A znode's contribution to the tree digest: the CRC-32 of path, data and stat.
///
/// The root's path counts as empty. Source: `DigestCalculator.calculateDigest`.
pub fn node_digest(path: &str, data: Option<&[u8]>, stat: &StatPersisted) -> u32 {
    let path = if path == "/" { &[] } else { path.as_bytes() };
    let data = data.unwrap_or_default();
    let stat = stat_bytes(stat);
    let (data_at, stat_at) = (path.len(), path.len() + data.len());
    let mut together = [0; TOGETHER_MAX];
    if let Some(together) = together.get_mut(..stat_at + stat.len()) {
        together[..data_at].copy_from_slice(path);
        together[data_at..stat_at].copy_from_slice(data);
        together[stat_at..].copy_from_slice(&stat);
        return crc32fast::hash(together);
    }
    let mut hasher = crc32fast::Hasher::new();
    hasher.update(path);
    hasher.update(data);
    hasher.update(&stat);
    hasher.finalize()
}

/// Up to this size, all parts are copied into one buffer and hashed at once, which is faster than
/// hashing them one by one.
const TOGETHER_MAX: usize = 256;

/// A znode's new contribution to the tree digest if only its stat changes, from `before` to
/// `after`.
///
/// Path and data are not needed: CRC is linear, so the change depends only on the difference of the
/// stats.
pub fn moved_digest(digest: u32, before: &StatPersisted, after: &StatPersisted) -> u32 {
    let (before, mut difference) = (stat_bytes(before), stat_bytes(after));
    difference.iter_mut().zip(before).for_each(|(byte, before)| *byte ^= before);
    digest ^ crc32fast::hash(&difference) ^ UNCHANGED
}

/// The CRC-32 of the difference of two equal stats.
const UNCHANGED: u32 = 0x0412_8908;

const _: () = assert!(STAT_PERSISTED_BYTES == 5 * 8 + 3 * 4 + 8, "longs, versions and the owner");
const _: () = assert!(TOGETHER_MAX > STAT_PERSISTED_BYTES, "room for a path");

/// The encoding of a stat in the digest. Its field order differs from that in snapshots.
fn stat_bytes(stat: &StatPersisted) -> [u8; STAT_PERSISTED_BYTES] {
    let mut bytes = [0; STAT_PERSISTED_BYTES];
    let longs = [stat.czxid.0, stat.mzxid.0, stat.pzxid.0, stat.ctime, stat.mtime];
    for (slot, long) in bytes.chunks_exact_mut(8).zip(longs) {
        slot.copy_from_slice(&long.to_be_bytes());
    }
    bytes[40..44].copy_from_slice(&stat.version.to_be_bytes());
    bytes[44..48].copy_from_slice(&stat.cversion.to_be_bytes());
    bytes[48..52].copy_from_slice(&stat.aversion.to_be_bytes());
    bytes[52..].copy_from_slice(&stat.ephemeral_owner.to_be_bytes());
    bytes
}

#[cfg(test)]
mod tests {
    use zebu_proto::Zxid;

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
    fn a_digest_moves_with_the_stat_alone() {
        let before = StatPersisted { mtime: 7, pzxid: Zxid(3), ..StatPersisted::default() };
        let after = StatPersisted {
            czxid: Zxid(-1),
            ctime: i64::MIN,
            version: -1,
            cversion: 0x0102_0304,
            aversion: i32::MAX,
            ephemeral_owner: 1 << 56,
            ..before
        };
        for (path, data) in [("/", None), ("/a", Some(&[][..])), ("/a/b", Some(&[0xff; 300]))] {
            let digest = |stat| node_digest(path, data, stat);
            assert_eq!(moved_digest(digest(&before), &before, &after), digest(&after));
            assert_eq!(moved_digest(digest(&after), &after, &before), digest(&before));
            assert_eq!(moved_digest(digest(&after), &after, &after), digest(&after));
        }
    }

    #[test]
    fn it_is_the_sum_of_path_data_and_stat_whatever_their_length() {
        let stat = StatPersisted { mtime: 7, ..StatPersisted::default() };
        let path = format!("/{}", "p".repeat(20));
        for bytes in 0..300 {
            let data = vec![b'd'; bytes];
            let all = [path.as_bytes(), &data, &stat_bytes(&stat)].concat();
            assert_eq!(node_digest(&path, Some(&data), &stat), crc32fast::hash(&all), "{bytes}");
        }
    }

    #[test]
    fn what_counts() {
        assert!(digest_counts("/") && digest_counts("/zookeeper") && digest_counts("/zookeepers"));
        assert!(!digest_counts("/zookeeper/config"));
    }
}

//! Arbitrary bytes: decoders return a result, and use no more memory than the input justifies.

use std::io::Read;

use zebu_store::Compression;
use zebu_store::log::read::read_log;
use zebu_store::log::sidecar::Mark;
use zebu_store::snapshot::decompressed;
use zebu_store::snapshot::read::read_snapshot;
use zebu_testkit::fixtures::folder as fixtures;
use zebu_testkit::told::Told;

const SEEDS: [&str; 5] = [
    "zookeeper-3.8.0/basic/version-2/log.3d",
    "zookeeper-3.8.0/basic/version-2/snapshot.3c",
    "zookeeper-3.8.0/compressed-gz/version-2/snapshot.48.gz",
    "zookeeper-3.8.0/compressed-snappy/version-2/snapshot.48.snappy",
    "zookeeper-3.9.5/basic/version-2/snapshot.48",
];

/// A small generator of random numbers; the same seed gives the same numbers.
struct Dice(u64);

impl Dice {
    fn below(&mut self, most: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) as usize % most
    }
}

#[test]
fn changed_files_are_read_without_a_panic() {
    for seed in SEEDS {
        let golden = std::fs::read(fixtures().join(seed)).unwrap();
        let mut dice = Dice(0x5eed);
        for _ in 0..2_000 {
            let mut bytes = golden.clone();
            for _ in 0..=dice.below(4) {
                let at = dice.below(bytes.len());
                match dice.below(4) {
                    0 => bytes[at] ^= 1 << dice.below(8),
                    1 => bytes[at] = [0, 0x7f, 0x80, 0xff][dice.below(4)],
                    2 => bytes.truncate(at + 1),
                    _ => {
                        let end = bytes.len().min(at + dice.below(600));
                        bytes[at..end].fill(0xff);
                    }
                }
            }
            let mut records = 0;
            read_log(&bytes[..], 1 << 20, &mut |_| records += 1).unwrap();
            assert!(records <= bytes.len() / 45);
            for compression in [Compression::None, Compression::Gzip, Compression::Snappy] {
                let source = decompressed(&bytes[..], compression);
                // Almost always an error, never a panic.
                let _ = read_snapshot(source, 1 << 20, true, &mut Told::default());
            }
            let _ = Mark::read(&bytes);
        }
    }
}

#[test]
fn a_small_file_cannot_ask_for_much_memory() {
    // A block that claims to be 4 GiB when it is decompressed.
    let mut bomb = b"\x82SNAPPY\0\0\0\0\x01\0\0\0\x01".to_vec();
    bomb.extend([0, 0, 0, 8, 0xff, 0xff, 0xff, 0xff, 0x0f, 0, 0, 0]);
    let mut plain = Vec::new();
    let error = decompressed(&bomb[..], Compression::Snappy).read_to_end(&mut plain).unwrap_err();
    assert!(error.to_string().contains("unreasonable"), "{error}");
    // A block that claims to be 2 GiB long.
    let bomb = b"\x82SNAPPY\0\0\0\0\x01\0\0\0\x01\x7f\xff\xff\xff";
    let error = decompressed(&bomb[..], Compression::Snappy).read_to_end(&mut plain).unwrap_err();
    assert!(error.to_string().contains("unreasonable"), "{error}");
    // Two thousand million sessions, without their bytes.
    let mut promise = zebu_store::snapshot::HEADER.to_vec();
    promise.extend([0x7f, 0xff, 0xff, 0xff, 1, 2, 3]);
    let mut told = Told::default();
    read_snapshot(&promise[..], 1 << 20, true, &mut told).unwrap_err();
    assert_eq!(told.sessions.capacity(), 0);
}

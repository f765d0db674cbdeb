//! The store reads the original's files, and writes them again byte for byte.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use zebu_proto::Zxid;
use zebu_proto::txn::TxnRecord;
use zebu_store::log::read::{LogReader, Tail, read_log};
use zebu_store::log::{encode_record, header};
use zebu_store::snapshot::decompressed;
use zebu_store::snapshot::read::read_snapshot;
use zebu_store::vfs::MemVfs;
use zebu_store::{
    Compression, DamageKind, Mode, Options, Recover, Recovered, Store, StoreError, Vfs, Warning,
    names,
};
use zebu_testkit::fixtures::folder as fixtures;
use zebu_testkit::told::Told;

const RECORD_BYTES_MAX: usize = 2 << 20;
const DIR: &str = "/data/version-2";

/// A disk with the files of a fixture directory.
pub(crate) fn disk(dirs: &[&str]) -> MemVfs {
    let vfs = MemVfs::new(Path::new(DIR));
    for dir in dirs {
        for entry in std::fs::read_dir(fixtures().join(dir)).unwrap() {
            let path = entry.unwrap().path();
            let content = std::fs::read(&path).unwrap();
            vfs.put(&Path::new(DIR).join(path.file_name().unwrap()), &content);
        }
    }
    vfs
}

fn remove(vfs: &MemVfs, name: &str) {
    vfs.remove(&Path::new(DIR).join(name)).unwrap();
}

fn recover_with(vfs: &MemVfs, options: Options) -> Result<(Recovered, Told), StoreError> {
    let mut told = Told::default();
    let mut store = Store::open(Arc::new(vfs.clone()), options)?;
    let recovered = store.recover(&mut told)?;
    Ok((recovered, told))
}

fn recover(vfs: &MemVfs) -> Result<(Recovered, Told), StoreError> {
    recover_with(vfs, Options::new("/data"))
}

fn damage(result: Result<(Recovered, Told), StoreError>) -> (u64, Zxid, DamageKind) {
    match result {
        Err(StoreError::Damaged(damage)) => (damage.offset, damage.last, damage.what),
        other => panic!("not refused as damaged: {other:?}"),
    }
}

fn range(from: i64, to: i64) -> Vec<i64> {
    (from..=to).collect()
}

pub(crate) const BASIC: &str = "zookeeper-3.8.0/basic/version-2";

fn logs() -> Vec<PathBuf> {
    let logs = [
        "zookeeper-3.8.0/basic/version-2/log.1",
        "zookeeper-3.8.0/basic/version-2/log.3d",
        "zookeeper-3.8.0/digest-disabled/version-2/log.49",
        "zookeeper-3.9.5/basic/version-2/log.49",
    ];
    logs.iter().map(|log| fixtures().join(log)).collect()
}

#[test]
fn every_record_is_written_again_as_it_was() {
    for path in logs() {
        let golden = std::fs::read(&path).unwrap();
        let mut again = header().to_vec();
        let (end, tail) = read_log(&golden[..], RECORD_BYTES_MAX, &mut |record| {
            let decoded = TxnRecord::decode(record.body).unwrap();
            assert_eq!(decoded.header.zxid, record.zxid);
            let mut body = Vec::new();
            decoded.encode(&mut zebu_jute::Encoder::new(&mut body));
            assert_eq!(body, record.body, "{path:?} {}", record.zxid);
            encode_record(&body, &mut again);
            assert_eq!(again.len() as u64, record.end);
        })
        .unwrap();
        assert_eq!(end.offset, again.len() as u64);
        assert_eq!(tail, Tail::Clean);
        again.resize(golden.len(), 0);
        assert!(again == golden, "{path:?}");
    }
}

/// STO-04, STO-12.
#[test]
fn our_log_files_are_the_originals() {
    // One commit for each record, as a single client caused them.
    for path in logs() {
        let golden = std::fs::read(&path).unwrap();
        let name = path.file_name().unwrap().to_str().unwrap();
        let first = names::parse_log(name).unwrap();
        let vfs = MemVfs::new(Path::new(DIR));
        let options = Options { prealloc_bytes: 8192, ..Options::new("/data") };
        let mut store = Store::open(Arc::new(vfs.clone()), options).unwrap();
        store.recover(&mut Told::default()).unwrap();
        let (mut log, snapshots) = store.split();
        let before = Zxid(first.0 - 1);
        let mut snapshot = snapshots.begin(before).unwrap();
        snapshot.sessions(&[]);
        snapshot.acls::<Vec<zebu_proto::Acl>>(&[]);
        snapshot.finish(None, None).unwrap();
        log.continue_after(before).unwrap();
        let mut reader = LogReader::new(&golden[..], RECORD_BYTES_MAX);
        while let Ok(record) = reader.next().unwrap() {
            log.append(record.zxid, record.body);
            log.commit().unwrap();
        }
        assert!(vfs.content(&Path::new(DIR).join(name)).unwrap() == golden, "{path:?}");
    }
}

#[test]
fn every_snapshot_is_written_again_as_it_was() {
    let cases = [
        ("zookeeper-3.8.0/basic/version-2/snapshot.0", true),
        ("zookeeper-3.8.0/basic/version-2/snapshot.3c", true),
        ("zookeeper-3.8.0/compressed-gz/version-2/snapshot.48.gz", true),
        ("zookeeper-3.8.0/compressed-snappy/version-2/snapshot.48.snappy", true),
        ("zookeeper-3.8.0/digest-disabled/version-2/snapshot.48", false),
        ("zookeeper-3.9.5/basic/version-2/snapshot.48", true),
    ];
    for (path, digest) in cases {
        let name = Path::new(path).file_name().unwrap().to_str().unwrap();
        let (zxid, compression) = names::parse_snapshot(name).unwrap();
        let plain = |bytes: &[u8]| {
            let mut plain = Vec::new();
            std::io::Read::read_to_end(&mut decompressed(bytes, compression), &mut plain).unwrap();
            plain
        };
        let golden = std::fs::read(fixtures().join(path)).unwrap();
        let mut told = Told::default();
        let sections =
            read_snapshot(&plain(&golden)[..], RECORD_BYTES_MAX, true, &mut told).unwrap();
        assert_eq!(sections.nodes, told.znodes.len() as u64);
        assert_eq!(sections.digest.is_some(), digest, "{path}");
        assert_eq!(sections.last_zxid.is_some(), path.contains("3.9.5"), "{path}");

        let vfs = MemVfs::new(Path::new(DIR));
        let options = Options { compression, digest, ..Options::new("/data") };
        let mut store = Store::open(Arc::new(vfs.clone()), options).unwrap();
        store.recover(&mut Told::default()).unwrap();
        let (_log, snapshots) = store.split();
        let mut writer = snapshots.begin(zxid).unwrap();
        writer.sessions(&told.sessions);
        writer.acls(&told.acls);
        for node in &told.znodes {
            writer.node(&node.path, node.data.as_deref(), node.acl, &node.stat);
            writer.flush().unwrap();
        }
        let of_tree = told.digest.map(|(zxid, _, digest)| (zxid, digest));
        let written = writer.finish(of_tree, sections.last_zxid).unwrap();
        assert_eq!(written.path, Path::new(DIR).join(name));
        let again = vfs.content(&written.path).unwrap();
        assert_eq!(written.bytes, again.len() as u64);
        assert!(plain(&again) == plain(&golden), "{path}");
        if compression == Compression::None {
            assert!(again == golden, "{path}");
        }
        assert_eq!(vfs.files(), [written.path], "nothing temporary is left");
    }
}

#[test]
fn directories_of_the_original_load() {
    let (recovered, told) = recover(&disk(&[BASIC])).unwrap();
    assert_eq!(recovered.last_zxid, Zxid(0x48));
    assert_eq!(recovered.snapshot, Some(Zxid(0x3c)));
    assert_eq!(told.zxids(), range(0x3d, 0x48));
    assert_eq!(told.znodes.len(), 50);
    assert_eq!(told.sessions.len(), 2);
    assert_eq!(told.digest, Some((Zxid(0x3c), 2, 100_698_096_921)));
    assert_eq!(told.loaded, Some(Zxid(0x3c)));
    assert!(matches!(recovered.mode, Mode::Weaker { .. }));
    assert_eq!((recovered.warnings, recovered.truncated, recovered.fresh), (vec![], None, false));

    for dir in ["zookeeper-3.8.0/compressed-gz", "zookeeper-3.8.0/compressed-snappy"] {
        let (recovered, told) = recover(&disk(&[&format!("{dir}/version-2")])).unwrap();
        assert_eq!((recovered.last_zxid, recovered.replayed), (Zxid(0x48), 0));
        assert_eq!(told.znodes.len(), 56);
    }
    let (recovered, told) = recover(&disk(&["zookeeper-3.8.0/digest-disabled/version-2"])).unwrap();
    assert_eq!((recovered.last_zxid, told.digest), (Zxid(0x4b), None));
    assert_eq!(told.zxids(), range(0x49, 0x4b));
    let (recovered, told) = recover(&disk(&["zookeeper-3.9.5/basic/version-2"])).unwrap();
    assert_eq!((recovered.last_zxid, told.digest.unwrap().0), (Zxid(0x4b), Zxid(0x48)));
}

#[test]
fn torn_logs_load_up_to_the_last_whole_record() {
    let cases = [
        "torn-crc-only",
        "torn-mid-record-nopad",
        "torn-mid-record-zeropad",
        "torn-no-eor",
        "torn-no-eor-zeropad",
    ];
    for case in cases {
        let vfs = disk(&[BASIC, &format!("zookeeper-3.8.0/torn/{case}")]);
        let before = vfs.content(Path::new("/data/version-2/log.3d"));
        let (recovered, told) = recover(&vfs).unwrap();
        assert_eq!(recovered.last_zxid, Zxid(0x47), "{case}");
        assert_eq!(told.zxids(), range(0x3d, 0x47), "{case}");
        let torn = recovered.truncated.expect(case);
        assert_eq!(torn.last, Zxid(0x47));
        // The original's file does not change.
        assert_eq!(vfs.content(&torn.path), before);
    }
}

#[test]
fn damaged_logs_are_refused() {
    let refused =
        |case: &str| damage(recover(&disk(&[BASIC, &format!("zookeeper-3.8.0/torn/{case}")])));
    assert_eq!(refused("crc-corrupt-last").1, Zxid(0x47));
    assert_eq!(refused("crc-corrupt-last").2, DamageKind::Checksum);
    assert_eq!(refused("crc-corrupt-middle").2, DamageKind::Checksum);
    // The original loads these two, and loses the records after the damage.
    let (_, last, what) = refused("partial-middle-then-more");
    assert!(matches!(what, DamageKind::MoreFollows(_)), "{what:?}");
    assert_eq!(last, Zxid(0x41));
    assert_eq!(
        refused("missing-middle-gap"),
        (16, Zxid(0x3c), DamageKind::Gap { next: Zxid(0x41) })
    );
}

#[test]
fn damage_can_be_accepted() {
    let cases = [
        ("partial-middle-then-more", range(0x3d, 0x41)),
        ("missing-middle-gap", range(0x41, 0x48)),
        ("crc-corrupt-last", range(0x3d, 0x47)),
    ];
    for (case, zxids) in cases {
        let vfs = disk(&[BASIC, &format!("zookeeper-3.8.0/torn/{case}")]);
        let options = Options { accept_damage: true, ..Options::new("/data") };
        let (recovered, told) = recover_with(&vfs, options).unwrap();
        assert_eq!(told.zxids(), zxids, "{case}");
        assert!(matches!(recovered.warnings[..], [Warning::DamageAccepted(_)]), "{case}");
    }
}

#[test]
fn a_bad_snapshot_is_passed_over() {
    for case in ["snap-truncated", "snap-bitflip"] {
        let vfs = disk(&[BASIC]);
        let bad = format!("zookeeper-3.8.0/bad-snapshots/{case}.snapshot.3c");
        let bad = std::fs::read(fixtures().join(bad)).unwrap();
        vfs.put(Path::new("/data/version-2/snapshot.3c"), &bad);
        let (recovered, told) = recover(&vfs).unwrap();
        assert_eq!(recovered.snapshot, Some(Zxid::ZERO));
        assert_eq!(told.zxids(), range(1, 0x48));
        assert_eq!(told.znodes.len(), 4);
        assert!(matches!(recovered.warnings[..], [Warning::SnapshotRejected { .. }]));
    }
}

#[test]
fn logs_without_a_snapshot_are_refused_unless_trusted() {
    let vfs = disk(&[BASIC]);
    remove(&vfs, "snapshot.0");
    remove(&vfs, "snapshot.3c");
    assert!(matches!(recover(&vfs), Err(StoreError::SnapshotMissing { .. })));
    let options = Options { trust_empty_snapshot: true, ..Options::new("/data") };
    let (recovered, told) = recover_with(&vfs, options).unwrap();
    assert_eq!((recovered.last_zxid, told.loaded), (Zxid(0x48), Some(Zxid::ZERO)));
    assert_eq!(told.zxids(), range(1, 0x48));
}

#[test]
fn logs_do_not_reach_a_snapshot_that_is_lost() {
    // The original starts with the state of snapshot.0 alone.
    let vfs = disk(&[BASIC]);
    remove(&vfs, "log.1");
    remove(&vfs, "log.3d");
    let bad = fixtures().join("zookeeper-3.8.0/bad-snapshots/snap-bitflip.snapshot.3c");
    vfs.put(Path::new("/data/version-2/snapshot.3c"), &std::fs::read(bad).unwrap());
    assert_eq!(damage(recover(&vfs)).2, DamageKind::Unreached(Zxid(0x3c)));
    // Without log.1, the logs do not continue snapshot.0.
    vfs.put(
        Path::new("/data/version-2/log.3d"),
        &std::fs::read(fixtures().join(BASIC).join("log.3d")).unwrap(),
    );
    assert_eq!(damage(recover(&vfs)).2, DamageKind::Gap { next: Zxid(0x3d) });
}

#[test]
fn a_lost_snapshot_of_a_leader_is_not_bridged_by_older_ones() {
    // A follower of the original: its own log ends at 0x3c, a leader has sent a snapshot of a later
    // epoch, and its log continues from there. The original replays the two logs one after the
    // other.
    let with = |snapshot: &str, first: i64| {
        let vfs = disk(&[BASIC]);
        remove(&vfs, "log.3d");
        let bad = fixtures().join("zookeeper-3.8.0/bad-snapshots/snap-bitflip.snapshot.3c");
        vfs.put(&Path::new(DIR).join(snapshot), &std::fs::read(bad).unwrap());
        let mut log = header().to_vec();
        for zxid in first..first + 3 {
            encode_record(&crate::support::body(Zxid(zxid), 0), &mut log);
        }
        vfs.put(&Path::new(DIR).join(format!("log.{first:x}")), &log);
        recover(&vfs)
    };
    let first = 0x2_0000_0001;
    let gap = |next| (16, Zxid(0x3c), DamageKind::Gap { next: Zxid(next) });
    assert_eq!(damage(with("snapshot.200000000", first)), gap(first));
    assert_eq!(damage(with("snapshot.100000007", first)), gap(first));
    // A snapshot is no loss if the log leads to it.
    let (recovered, _) = with("snapshot.200000002", first).unwrap();
    assert_eq!((recovered.snapshot, recovered.last_zxid.0), (Some(Zxid(0x3c)), first + 2));
}

#[test]
fn what_may_follow_the_last_log() {
    let with = |content: &[u8]| {
        let vfs = disk(&[BASIC]);
        vfs.put(Path::new("/data/version-2/log.49"), content);
        let result = recover(&vfs);
        (vfs, result)
    };
    let (vfs, result) = with(b"");
    assert_eq!(result.unwrap().0.last_zxid, Zxid(0x48));
    assert_eq!(vfs.content(Path::new("/data/version-2/log.49")), None);
    let (_, result) = with(&header());
    assert_eq!(result.unwrap().0.last_zxid, Zxid(0x48));
    assert_eq!(damage(with(&[0; 8208]).1).2, DamageKind::Header);
    assert_eq!(damage(with(&header()[..10]).1).2, DamageKind::Header);
}

#[test]
fn every_cut_of_a_snapshot_is_rejected() {
    let golden = std::fs::read(fixtures().join(BASIC).join("snapshot.3c")).unwrap();
    // If it is cut after the first seal, it is a whole snapshot without a digest.
    let older = golden.len() - 33;
    for cut in (0..golden.len()).filter(|cut| *cut != older) {
        let mut told = Told::default();
        told.restart();
        let result = read_snapshot(&golden[..cut], RECORD_BYTES_MAX, true, &mut told);
        assert!(result.is_err(), "cut at {cut}");
    }
}

#[test]
fn every_changed_byte_of_a_snapshot_is_found() {
    let golden = std::fs::read(fixtures().join(BASIC).join("snapshot.3c")).unwrap();
    // The reader ignores version and database, but the checksum covers them.
    for at in 0..golden.len() {
        let mut changed = golden.clone();
        changed[at] ^= 0x20;
        let result = read_snapshot(&changed[..], RECORD_BYTES_MAX, true, &mut Told::default());
        assert!(result.is_err(), "byte {at}");
    }
}

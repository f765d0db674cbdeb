//! Transactions read back from the logs: the written ones, without a gap, or none.

use std::path::Path;
use std::sync::Arc;

use zebu_proto::{Epoch, Zxid};
use zebu_store::vfs::MemVfs;
use zebu_store::{LogFiles, Options, Range, Snapshots, Store, TxnLog, Unusable, Vfs};

use crate::fixtures::{self, BASIC};
use crate::script::{ROOT, Run};
use zebu_testkit::told::Told;

const DIR: &str = "/srv/data/version-2";

type Txns = Vec<(Zxid, Vec<u8>)>;

/// The transactions after `after`, which must be in the logs or be the start of an epoch.
fn read(logs: &LogFiles, after: Zxid, up_to: Zxid) -> Result<Txns, Unusable> {
    let (floor, txns) = read_from(logs, after, up_to)?;
    assert!(floor == Some(after) || after.counter() == 0, "{floor:?}");
    Ok(txns)
}

fn read_from(logs: &LogFiles, after: Zxid, up_to: Zxid) -> Result<(Option<Zxid>, Txns), Unusable> {
    let mut history = logs.history(Range { after, up_to, bytes_max: u64::MAX })?;
    let mut txns = Vec::new();
    while let Some((zxid, body)) = history.next()? {
        txns.push((zxid, body.to_vec()));
    }
    assert_eq!(history.txns(), txns.len() as u64);
    assert_eq!(history.bytes(), txns.iter().map(|(_, body)| body.len() as u64 + 13).sum::<u64>());
    Ok((history.floor(), txns))
}

/// Two epochs in four logs: one epoch starts within a log, and the last log is still being written.
fn written() -> (MemVfs, Run, TxnLog, Snapshots) {
    let disk = MemVfs::new(Path::new(ROOT));
    let vfs: Arc<dyn Vfs> = Arc::new(disk.clone());
    let mut run = Run::default();
    let (mut log, snapshots) = run.start(&vfs).unwrap();
    run.write(&mut log, Zxid::new(Epoch(1), 1), 10).unwrap();
    log.roll().unwrap();
    run.write(&mut log, run.next(), 10).unwrap();
    run.write(&mut log, Zxid::new(Epoch(2), 1), 10).unwrap();
    log.roll().unwrap();
    run.write(&mut log, run.next(), 6).unwrap();
    log.roll().unwrap();
    run.write(&mut log, Zxid::new(Epoch(5), 1), 6).unwrap();
    (disk, run, log, snapshots)
}

#[test]
fn every_range_is_what_was_written() {
    let (_disk, mut run, mut log, snapshots) = written();
    let logs = snapshots.logs();
    for (from, (after, _)) in run.attempted.iter().enumerate() {
        for (to, (up_to, _)) in run.attempted.iter().enumerate().skip(from + 1) {
            let txns = read(&logs, *after, *up_to).unwrap();
            assert_eq!(txns, run.attempted[from + 1..=to], "{after} to {up_to}");
        }
    }
    // A learner that received its snapshot from a leader without transactions is at the epoch's
    // start.
    let last = run.last();
    assert_eq!(read(&logs, Zxid::new(Epoch(5), 0), last).unwrap(), run.attempted[36..]);
    assert_eq!(read(&logs, Zxid::new(Epoch(2), 0), last).unwrap(), run.attempted[20..]);
    // A range ends at the requested zxid, whatever is written meanwhile.
    let range = Range { after: run.attempted[3].0, up_to: last, bytes_max: u64::MAX };
    let mut history = logs.history(range).unwrap();
    let before = run.clone();
    run.write(&mut log, run.next(), 100).unwrap();
    log.roll().unwrap();
    let mut txns = Vec::new();
    while let Some((zxid, body)) = history.next().unwrap() {
        txns.push((zxid, body.to_vec()));
    }
    assert_eq!(txns, before.attempted[4..]);
}

#[test]
fn what_the_logs_do_not_have_is_not_made_up() {
    let (_disk, run, _log, snapshots) = written();
    let logs = snapshots.logs();
    let last = run.last();
    let start = |after| matches!(read(&logs, after, last), Err(Unusable::Start { .. }));
    // A learner without transactions, one with all of them, and one with more.
    assert!(start(Zxid::ZERO) && start(Zxid(-1)) && start(last) && start(Zxid::new(Epoch(6), 1)));
    // Learners with transactions that were never committed: the result names the point where the
    // histories differ.
    let parts = |after: Zxid| {
        let (floor, txns) = read_from(&logs, after, last).unwrap();
        let from = run.attempted.iter().position(|(zxid, _)| after < *zxid).unwrap();
        assert_eq!(txns, run.attempted[from..]);
        floor
    };
    assert_eq!(parts(Zxid::new(Epoch(1), 21)), Some(Zxid::new(Epoch(1), 20)));
    assert_eq!(parts(Zxid::new(Epoch(2), 17)), Some(Zxid::new(Epoch(2), 16)));
    assert_eq!(parts(Zxid::new(Epoch(3), 1)), Some(Zxid::new(Epoch(2), 16)));
    assert_eq!(parts(Zxid::new(Epoch(5), 0)), Some(Zxid::new(Epoch(2), 16)));
    // Before the first log there is none.
    assert_eq!(parts(Zxid::new(Epoch(0), 7)), None);
    assert_eq!(parts(Zxid::new(Epoch(1), 0)), None);
    let after = run.attempted[2].0;
    let end = |up_to| matches!(read(&logs, after, up_to), Err(Unusable::End { .. }));
    assert!(end(last.next().unwrap()) && end(Zxid::new(Epoch(4), 2)));
    let range = |bytes_max| logs.history(Range { after, up_to: last, bytes_max });
    let bytes = range(u64::MAX).unwrap().bytes();
    assert!(range(bytes).is_ok());
    assert!(matches!(range(bytes - 1), Err(Unusable::TooLarge { .. })));
}

#[test]
fn a_hole_is_never_skipped() {
    let range = |run: &Run| (run.attempted[4].0, run.last());
    for name in ["log.10000000b", "log.20000000b", "log.500000001"] {
        let (disk, run, _log, snapshots) = written();
        let path = Path::new(DIR).join(name);
        let (after, up_to) = range(&run);
        let whole = disk.content(&path).unwrap();
        let read_again = || read(&snapshots.logs(), after, up_to);
        // Missing, with and without its sidecar.
        disk.remove(&path).unwrap();
        assert!(read_again().is_err(), "{name}");
        let sidecar = Path::new(DIR).join(name.replace("log", "durable"));
        let mark = disk.content(&sidecar).unwrap();
        disk.remove(&sidecar).unwrap();
        assert!(read_again().is_err(), "{name}");
        // Damaged in any of its sectors.
        disk.put(&sidecar, &mark);
        for sector in 0..whole.len().div_ceil(512) {
            let mut changed = whole.clone();
            let end = whole.len().min(sector * 512 + 512);
            changed[sector * 512..end].fill(0);
            disk.put(&path, &changed);
            match read_again() {
                Ok(txns) => assert!(changed == whole && txns == run.attempted[5..], "{name}"),
                Err(unusable) => assert!(changed != whole, "{name}: {unusable}"),
            }
        }
        disk.put(&path, &whole);
        assert_eq!(read_again().unwrap(), run.attempted[5..]);
    }
}

#[test]
fn a_leaders_snapshot_separates_what_is_in_front_of_it() {
    let (_disk, run, mut log, snapshots) = written();
    let mut leader = run.clone();
    leader.attempted.truncate(30);
    leader.acknowledged = 30;
    log.install(leader.received(&snapshots).unwrap()).unwrap();
    let first = leader.last();
    leader.write(&mut log, Zxid::new(Epoch(6), 1), 5).unwrap();
    let logs = snapshots.logs();
    assert_eq!(read(&logs, first, leader.last()).unwrap(), leader.attempted[30..]);
    let beyond = first.next().unwrap();
    let (floor, _) = read_from(&logs, beyond, leader.last()).unwrap();
    assert_eq!(floor, Some(first));
    for after in [run.attempted[28].0, run.attempted[2].0] {
        assert!(matches!(read(&logs, after, leader.last()), Err(Unusable::Start { .. })));
    }
}

#[test]
fn purged_logs_are_not_read() {
    let (_disk, mut run, mut log, snapshots) = written();
    let first = run.attempted[0].0;
    let logs = snapshots.logs();
    let range = Range { after: first, up_to: run.last(), bytes_max: u64::MAX };
    let mut history = logs.history(range).unwrap();
    for _ in 0..3 {
        log.roll().unwrap();
        run.snapshot(&snapshots).unwrap();
        run.write(&mut log, run.next(), 5).unwrap();
    }
    assert!(!snapshots.purge(3, &mut |_| true).unwrap().logs.is_empty());
    assert!(matches!(history.next(), Err(Unusable::Disk(_))));
    assert!(matches!(read(&logs, first, run.last()), Err(Unusable::Start { .. })));
}

#[test]
fn the_size_of_what_follows_is_known_without_reading_it() {
    let (_disk, run, _log, snapshots) = written();
    let logs = snapshots.logs();
    for (after, _) in &run.attempted[..run.attempted.len() - 1] {
        let range = Range { after: *after, up_to: run.last(), bytes_max: u64::MAX };
        let exact = logs.history(range).unwrap().bytes();
        let estimate = logs.bytes_after(*after).unwrap();
        assert!(exact <= estimate && estimate < exact + 2_500, "{after}: {exact}, {estimate}");
    }
}

/// The logs of a directory of the original.
fn of_the_original(disk: &MemVfs) -> LogFiles {
    let mut store = Store::open(Arc::new(disk.clone()), Options::new("/data")).unwrap();
    store.recover(&mut Told::default()).unwrap();
    store.split().1.logs()
}

#[test]
fn logs_of_the_original_are_read_within_an_epoch() {
    let disk = fixtures::disk(&[BASIC]);
    let logs = of_the_original(&disk);
    let zxids = |after: i64, up_to: i64| {
        let txns = read(&logs, Zxid(after), Zxid(up_to))?;
        Ok::<Vec<i64>, Unusable>(txns.into_iter().map(|(zxid, _)| zxid.0).collect())
    };
    assert_eq!(zxids(1, 0x48).unwrap(), (2..=0x48).collect::<Vec<_>>());
    assert_eq!(zxids(0x3b, 0x3e).unwrap(), [0x3c, 0x3d, 0x3e]);
    assert!(matches!(zxids(0, 0x48), Err(Unusable::Start { .. })));
    assert!(matches!(zxids(3, 0x49), Err(Unusable::End { .. })));

    // These logs do not show what preceded an epoch: a leader's snapshot may have come in between.
    let mut log = zebu_store::log::header().to_vec();
    for zxid in [Zxid(0x1_0000_0001), Zxid(0x1_0000_0002)] {
        zebu_store::log::encode_record(&crate::support::body(zxid, 0), &mut log);
    }
    disk.put(Path::new("/data/version-2/log.100000001"), &log);
    let up_to = 0x1_0000_0002;
    assert!(matches!(zxids(0x40, up_to), Err(Unusable::Gap { .. })));
    assert_eq!(zxids(0x1_0000_0000, up_to).unwrap(), [up_to - 1, up_to]);
}

//! The start of a member of an ensemble, for every state of its disk.

use std::path::Path;
use std::sync::Arc;

use zebu_proto::{Epoch, Zxid};
use zebu_store::vfs::MemVfs;
use zebu_store::{
    Damage, DamageKind, EpochFile, Options, Store, StoreError, Truncated, Vfs, Warning,
};
use zebu_testkit::told::Told;

use crate::damage::one_log;
use crate::script::{ROOT, Run, finished, lives_on, options, recover};

fn member() -> Options {
    Options { member: true, recent_txns_max: 500, ..options() }
}

/// All files and their content.
fn content(disk: &MemVfs) -> Vec<(std::path::PathBuf, Option<Vec<u8>>)> {
    disk.files().into_iter().map(|path| (path.clone(), disk.content(&path))).collect()
}

/// Starts a member on a damaged disk, repairs it as a leader would, and starts it again.
fn repaired(disk: &MemVfs) -> Damage {
    let before = content(disk);
    assert!(recover(Arc::new(disk.fork()), options()).is_err(), "nobody else starts");
    let (store, recovered, history) = recover(Arc::new(disk.clone()), member()).unwrap();
    assert_eq!((recovered.last_zxid, history.bodies().len()), (Zxid(-1), 0));
    assert_eq!((recovered.replayed, recovered.recent.len(), recovered.fresh), (0, 0, false));
    assert_eq!(content(disk), before, "the evidence is untouched");
    let (mut log, snapshots) = store.split();

    // It logs nothing before it is repaired.
    let mut run = Run { salt: 9, ..Run::default() };
    for counter in 1..=7 {
        let zxid = Zxid::new(Epoch(6), counter);
        run.attempted.push((zxid, crate::support::body(zxid, 3)));
    }
    run.acknowledged = 7;
    log.install(run.received(&snapshots).unwrap()).unwrap();
    run.write(&mut log, Zxid::new(Epoch(7), 1), 3).unwrap();
    drop((log, snapshots));
    let (_, again, _) = recover(Arc::new(disk.fork()), member()).unwrap();
    assert_eq!(again.damaged, None);
    lives_on(disk, &run, &|| format!("{:?}", recovered.damaged));
    recovered.damaged.unwrap()
}

#[test]
fn a_damaged_member_starts_empty_and_is_repaired() {
    let (disk, _, path) = one_log(true);
    let mut content = disk.content(&path).unwrap();
    content[3000..3200].fill(0);
    disk.put(&path, &content);
    let damage = repaired(&disk);
    assert!(matches!(damage.what, DamageKind::Short { .. }), "{damage:?}");
    assert_eq!(damage.path, path);

    let (disk, ..) = one_log(true);
    disk.remove(&path).unwrap();
    assert!(matches!(repaired(&disk).what, DamageKind::LogMissing { last: Zxid(400) }));

    // Logs that continue a missing snapshot, and unreadable snapshots.
    let (disk, _) = finished();
    for path in disk.files() {
        if path.to_string_lossy().contains("snapshot.") {
            disk.remove(&path).unwrap();
        }
    }
    assert_eq!(repaired(&disk).what, DamageKind::SnapshotMissing);
    let (disk, _) = finished();
    for path in disk.files() {
        if path.to_string_lossy().contains("snapshot.") {
            let mut content = disk.content(&path).unwrap();
            content[30] ^= 1;
            disk.put(&path, &content);
        }
    }
    assert_eq!(repaired(&disk).what, DamageKind::SnapshotsRejected);
}

#[test]
fn a_transaction_that_cannot_be_replayed_is_damage_too() {
    let (disk, ..) = one_log(true);
    let mut state = Told { refuses: Some(Zxid(7)), ..Told::default() };
    let mut store = Store::open(Arc::new(disk.clone()), member()).unwrap();
    let recovered = store.recover(&mut state).unwrap();
    assert_eq!(recovered.damaged.unwrap().what, DamageKind::Replay(Zxid(7)));
    assert_eq!(state.bodies().len(), 0);
    assert!(matches!(&recovered.warnings[..], [Warning::NotReplayable { zxid: Zxid(7), .. }]));
    let truncated = store.truncate(Zxid(8), &mut state).unwrap();
    assert!(matches!(truncated, Truncated::Lost { .. }));
    let truncated = store.truncate(Zxid(6), &mut state).unwrap();
    assert!(matches!(truncated, Truncated::Reaches(_)));
}

#[test]
fn a_damaged_member_does_not_log() {
    let (disk, _, path) = one_log(true);
    disk.remove(&path).unwrap();
    let (store, ..) = recover(Arc::new(disk), member()).unwrap();
    let (mut log, _snapshots) = store.split();
    let mut run = Run::default();
    let written = run.write(&mut log, Zxid::new(Epoch(1), 1), 1);
    assert!(matches!(written, Err(StoreError::SnapshotFirst)));
}

#[test]
fn a_member_whose_files_are_gone_does_not_pass_for_a_new_one() {
    let disk = MemVfs::new(Path::new(ROOT));
    let vfs: Arc<dyn Vfs> = Arc::new(disk.clone());
    let start = || recover(Arc::clone(&vfs), member()).unwrap();
    let (store, recovered, _) = start();
    assert_eq!((recovered.last_zxid, recovered.damaged), (Zxid::ZERO, None));
    store.epochs().write(EpochFile::Accepted, Epoch(3)).unwrap();
    drop(store);
    // A promised epoch alone is no history.
    let (store, recovered, _) = start();
    assert_eq!((recovered.last_zxid, recovered.damaged), (Zxid::ZERO, None));
    store.epochs().write(EpochFile::Current, Epoch(3)).unwrap();
    drop(store);
    let (store, recovered, _) = start();
    assert_eq!(recovered.last_zxid, Zxid(-1));
    assert_eq!(recovered.damaged.unwrap().what, DamageKind::HistoryMissing(Epoch(3)));
    // A snapshot of its empty state would make it look like a new member.
    let (log, snapshots) = store.split();
    let files = disk.files();
    let snapshot = Run::default().snapshot(&snapshots);
    assert!(matches!(snapshot, Err(StoreError::Untrusted { .. })));
    assert_eq!(disk.files(), files);
    drop((log, snapshots));
    // Unless the operator permits it, once.
    let marker = Path::new("/srv/data/initialize");
    disk.put(marker, b"");
    assert_eq!(start().1.last_zxid, Zxid::ZERO);
    // That start was interrupted, and is repeated.
    let (store, recovered, _) = start();
    assert_eq!((recovered.last_zxid, recovered.fresh), (Zxid::ZERO, true));
    let (_log, snapshots) = store.split();
    Run::default().snapshot(&snapshots).unwrap();
    assert_eq!(disk.content(marker), None);
}

#[test]
fn the_file_that_allows_an_empty_database_does_not_stay_beside_one() {
    let (disk, _, _) = one_log(true);
    let marker = Path::new("/srv/data/initialize");
    disk.put(marker, b"");
    recover(Arc::new(disk.clone()), member()).unwrap();
    assert_eq!(disk.content(marker), None);
}

#[test]
fn the_newest_transactions_are_there_for_a_leader() {
    let (disk, run) = finished();
    let recent = |txns_max: usize, bytes_max: usize| {
        let options =
            Options { recent_txns_max: txns_max, recent_bytes_max: bytes_max, ..member() };
        recover(Arc::new(disk.fork()), options).unwrap().1
    };
    let recovered = recent(500, usize::MAX);
    assert!(recovered.replayed > 3);
    let from = run.attempted.len() - recovered.replayed as usize;
    assert_eq!(recovered.recent, run.attempted[from..]);
    assert_eq!(recent(3, usize::MAX).recent, run.attempted[run.attempted.len() - 3..]);
    assert_eq!(recent(500, run.attempted.last().unwrap().1.len()).recent.len(), 1);
    assert_eq!(recent(0, usize::MAX).recent, []);
}

#[test]
fn a_running_server_reads_its_directory_again() {
    let disk = MemVfs::new(Path::new(ROOT));
    let vfs: Arc<dyn Vfs> = Arc::new(disk.clone());
    let mut run = Run::default();
    let (mut log, snapshots) = run.start(&vfs).unwrap();
    for _ in 0..3 {
        run.write(&mut log, run.next(), 5).unwrap();
        let mut history = Told::default();
        let recovered = log.recover(&mut history).unwrap();
        run.check(&recovered, &history).unwrap();
        assert_eq!(history.bodies().len(), run.attempted.len());
        run.write(&mut log, run.next(), 5).unwrap();
        run.snapshot(&snapshots).unwrap();
    }
    drop((log, snapshots));
    lives_on(&disk, &run, &|| "after three reloads".to_owned());
}

/// The first snapshot has nothing that is not in the logs, which begin with the first transaction.
/// Without the snapshot, a member continues.
#[test]
fn a_member_goes_on_from_logs_that_need_no_snapshot() {
    let (disk, mut run, _) = one_log(true);
    for path in disk.files() {
        if path.to_string_lossy().contains("snapshot.") {
            let mut content = disk.content(&path).unwrap();
            content.fill(7);
            disk.put(&path, &content);
        }
    }
    let (store, recovered, history) = recover(Arc::new(disk.clone()), member()).unwrap();
    assert_eq!((recovered.snapshot, recovered.fresh, history.bodies().len()), (None, false, 400));
    let (mut log, _) = store.split();
    run.write(&mut log, run.next(), 5).unwrap();
    drop(log);
    let (.., history) = recover(Arc::new(disk), member()).unwrap();
    assert_eq!(history.bodies().len(), 405);
}

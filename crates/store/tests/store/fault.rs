//! Every call fails once, or from then on: acknowledged transactions survive, and no call is
//! retried.

use std::io::ErrorKind;
use std::path::Path;
use std::sync::Arc;

use zebu_proto::Zxid;
use zebu_store::log::read::{Tail, read_log};
use zebu_store::vfs::{Crash, Fault, FaultVfs, MemVfs, Names, Unsynced};
use zebu_store::{Options, Store, StoreError, Vfs};
use zebu_testkit::told::Told;

use crate::script::{ROOT, Run, finished, lives_on, options, recover, script};
use crate::support::body;

fn fault(at: u64) -> Fault {
    Fault { at, for_good: false, kind: ErrorKind::Other, half_written: false }
}

/// The number of calls that the script makes, reads included.
fn calls() -> u64 {
    let disk = MemVfs::new(Path::new(ROOT));
    let vfs = FaultVfs::new(Arc::new(disk.clone()), None);
    script(&(Arc::new(vfs.clone()) as Arc<dyn Vfs>), &disk, &mut Run::default()).unwrap();
    vfs.calls()
}

#[test]
fn any_failing_call_ends_the_server_without_a_loss() {
    let calls = calls();
    assert!(calls > 400, "the script makes {calls} calls");
    let mut survived = 0;
    for at in 0..calls {
        for fault in [
            Fault { half_written: true, ..fault(at) },
            Fault { for_good: true, kind: ErrorKind::StorageFull, ..fault(at) },
        ] {
            let disk = MemVfs::new(Path::new(ROOT));
            let vfs: Arc<dyn Vfs> = Arc::new(FaultVfs::new(Arc::new(disk.clone()), Some(fault)));
            let mut run = Run::default();
            survived += u32::from(script(&vfs, &disk, &mut run).is_ok());
            let parts = [Unsynced::Scattered(at), Unsynced::Parts(at)];
            for content in [Unsynced::Lost, Unsynced::Kept].into_iter().chain(parts) {
                for names in [Names::Lost, Names::Kept, Names::Subset(at)] {
                    let crash = Crash { content, names };
                    lives_on(&disk.crash(crash), &run, &|| format!("{fault:?}, {crash:?}"));
                }
            }
        }
    }
    // A start or a purge recovers from a failed read of a snapshot or a sidecar, but not from a
    // failed write.
    println!("{calls} calls, {survived} runs went on");
    assert!(survived < 150, "{survived} failures went unnoticed");
}

#[test]
fn a_failing_read_never_gives_a_shorter_state() {
    let (disk, run) = finished();
    let count = FaultVfs::new(Arc::new(disk.fork()), None);
    recover(Arc::new(count.clone()), options()).unwrap();
    let mut refused = 0;
    for at in 0..count.calls() {
        for for_good in [false, true] {
            let disk = disk.fork();
            let vfs = FaultVfs::new(Arc::new(disk.clone()), Some(Fault { for_good, ..fault(at) }));
            match recover(Arc::new(vfs), options()) {
                Ok((_, recovered, history)) => run.check(&recovered, &history).unwrap(),
                Err(_) => refused += 1,
            }
            lives_on(&disk, &run, &|| format!("read {at}"));
        }
    }
    assert!(refused > 0);
}

#[test]
fn a_failed_sync_is_never_asked_again() {
    let disk = MemVfs::new(Path::new(ROOT));
    let mut store =
        Store::open(Arc::new(disk.clone()), Options { prealloc_bytes: 0, ..options() }).unwrap();
    store.recover(&mut Told::default()).unwrap();
    let (mut log, snapshots) = store.split();
    Run::default().snapshot(&snapshots).unwrap();
    log.append(Zxid(1), &body(Zxid(1), 0));
    log.commit().unwrap();
    // The next commit writes, but cannot sync.
    disk.stop_at(disk.mutations() + 1);
    log.append(Zxid(2), &body(Zxid(2), 0));
    assert!(matches!(log.commit(), Err(StoreError::Io { action: "sync log", .. })));
    assert_eq!(log.durable(), Zxid(1));
    disk.resume();
    let before = disk.mutations();
    log.append(Zxid(3), &body(Zxid(3), 0));
    assert!(matches!(log.commit(), Err(StoreError::Poisoned { .. })));
    assert!(matches!(log.roll(), Err(StoreError::Poisoned { .. })));
    assert!(matches!(log.settle(), Err(StoreError::Poisoned { .. })));
    assert!(matches!(log.close(), Err(StoreError::Poisoned { .. })));
    assert_eq!(disk.mutations(), before, "nothing is written any more");
}

/// Everything that a start reports is durable, whichever process wrote it.
#[test]
fn what_a_failed_sync_left_in_memory_is_written_again_before_it_counts() {
    let written = (0..6).map(Unsynced::Parts).chain([Unsynced::Lost, Unsynced::Kept]);
    for (of_the_original, written) in
        [false, true].into_iter().flat_map(|it| written.clone().map(move |w| (it, w)))
    {
        for after in 1..5 {
            let disk = MemVfs::new(Path::new(ROOT));
            let vfs: Arc<dyn Vfs> = Arc::new(disk.clone());
            let mut run = Run::default();
            let (mut log, snapshots) = run.start(&vfs).unwrap();
            for batch in 0..after {
                run.write(&mut log, run.next(), 1 + 40 * batch).unwrap();
            }
            disk.fail_sync(written);
            run.write(&mut log, run.next(), 2).unwrap_err();
            let path = Path::new("/srv/data/version-2/durable.1");
            if of_the_original {
                disk.remove(path).unwrap();
            }
            drop((log, snapshots));
            // The machine continued, so the next process reads the bytes that the failed sync
            // should have written.
            let (store, recovered, history) = recover(Arc::clone(&vfs), options()).unwrap();
            run.acknowledged = history.bodies().len();
            run.check(&recovered, &history).unwrap();
            drop(store);
            for names in [Names::Lost, Names::Kept] {
                let crash = Crash { content: Unsynced::Lost, names };
                let at = || format!("{after} batches, {of_the_original}, {written:?}, {crash:?}");
                lives_on(&disk.crash(crash), &run, &at);
            }
        }
    }
}

/// The original refuses a log without a header, and a log with an unreadable part in the middle.
#[test]
fn a_full_disk_leaves_nothing_the_original_would_not_start_with() {
    fn live(vfs: &FaultVfs, prealloc_bytes: u64) -> Result<(), StoreError> {
        let options = Options { prealloc_bytes, ..options() };
        let (store, ..) = recover(Arc::new(vfs.clone()), options)?;
        let (mut log, snapshots) = store.split();
        let mut run = Run::default();
        run.snapshot(&snapshots)?;
        run.write(&mut log, run.next(), 60)?;
        log.roll()?;
        run.write(&mut log, run.next(), 5)
    }
    let mut found = 0;
    for prealloc_bytes in [0, 4096, 1 << 20] {
        let count = FaultVfs::new(Arc::new(MemVfs::new(Path::new(ROOT))), None);
        live(&count, prealloc_bytes).unwrap();
        for (at, half_written) in (0..count.calls()).flat_map(|at| [(at, false), (at, true)]) {
            let kind = ErrorKind::StorageFull;
            let full = Fault { at, for_good: true, kind, half_written };
            let disk = MemVfs::new(Path::new(ROOT));
            live(&FaultVfs::new(Arc::new(disk.clone()), Some(full)), prealloc_bytes).unwrap_err();
            let logs = disk.files().into_iter().filter(|path| {
                path.file_name().is_some_and(|name| name.to_string_lossy().starts_with("log"))
            });
            for path in logs {
                let content = disk.content(&path).unwrap();
                let mut records = 0;
                let (end, tail) = read_log(&content[..], 1 << 20, &mut |_| records += 1).unwrap();
                assert!(records > 0, "{full:?}: {path:?}: {end:?}");
                assert!(matches!(tail, Tail::Clean | Tail::Torn), "{full:?}: {path:?}: {end:?}");
                found += 1;
            }
        }
    }
    assert!(found > 100, "{found} logs");
}

#[test]
fn a_snapshot_that_fails_harms_nothing() {
    let (disk, mut run) = finished();
    let vfs: Arc<dyn Vfs> = Arc::new(disk.clone());
    let (mut log, snapshots) = run.start(&vfs).unwrap();
    run.write(&mut log, run.next(), 3).unwrap();
    let files = disk.files();
    for calls in 0..5 {
        disk.stop_at(disk.mutations() + calls);
        run.snapshot(&snapshots).unwrap_err();
        disk.resume();
        run.write(&mut log, run.next(), 3).unwrap();
    }
    drop((log, snapshots));
    lives_on(&disk, &run, &|| "after failed snapshots".to_owned());
    let left = disk.files().into_iter().filter(|file| !files.contains(file));
    let temporary = left.filter(|file| file.to_string_lossy().contains("tmp.")).count();
    assert_eq!(temporary, 0, "the next start cleans up");
}

#[test]
fn two_servers_cannot_have_one_directory() {
    let (disk, _) = finished();
    let vfs: Arc<dyn Vfs> = Arc::new(disk.clone());
    let first = Store::open(Arc::clone(&vfs), options()).unwrap();
    assert!(matches!(Store::open(Arc::clone(&vfs), options()), Err(StoreError::Locked { .. })));
    drop(first);
    Store::open(vfs, options()).unwrap();
}

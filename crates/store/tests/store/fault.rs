//! Every call fails once, or from then on: what was acknowledged survives, and nothing is retried.

use std::io::ErrorKind;
use std::path::Path;
use std::sync::Arc;

use zebu_proto::Zxid;
use zebu_store::vfs::{Crash, Fault, FaultVfs, MemVfs, Names, Unsynced};
use zebu_store::{Options, Store, StoreError, Vfs};

use crate::script::{History, ROOT, Run, finished, lives_on, options, recover, script};
use crate::support::body;

fn fault(at: u64) -> Fault {
    Fault { at, for_good: false, kind: ErrorKind::Other, half_written: false }
}

/// How many calls the script makes, reads included.
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
            for content in [Unsynced::Lost, Unsynced::Kept, Unsynced::Scattered(at)] {
                for names in [Names::Lost, Names::Kept, Names::Subset(at)] {
                    let crash = Crash { content, names };
                    lives_on(&disk.crash(crash), &run, &|| format!("{fault:?}, {crash:?}"));
                }
            }
        }
    }
    // A failing read of a snapshot or sidecar is made up for; a failing write never is.
    println!("{calls} calls, {survived} runs went on");
    assert!(survived < 100, "{survived} failures went unnoticed");
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
    store.recover(&mut History::default()).unwrap();
    let (mut log, snapshots) = store.split();
    Run::default().snapshot(&snapshots).unwrap();
    log.append(Zxid(1), &body(Zxid(1), 0));
    log.commit().unwrap();
    // The next commit writes, and then cannot sync.
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

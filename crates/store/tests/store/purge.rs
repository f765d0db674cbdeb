//! Purge: it keeps generations from which a start can rebuild the state, and counts no others.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use zebu_store::snapshot::{self, decompressed, read::read_snapshot};
use zebu_store::vfs::{MemVfs, Sequential};
use zebu_store::{Nothing, Purged, Snapshots, TxnLog, Vfs, names, purge_beside};

use crate::damage::damages;
use crate::script::{ROOT, Run, options, recover};

const KEEP: usize = 3;

fn dir() -> PathBuf {
    Path::new(ROOT).join("data/version-2")
}

/// A running server with a snapshot before each of `lives` logs; nothing is purged yet.
fn running(lives: usize) -> (MemVfs, Run, TxnLog, Snapshots) {
    let disk = MemVfs::new(Path::new(ROOT));
    let vfs: Arc<dyn Vfs> = Arc::new(disk.clone());
    let mut run = Run::default();
    let (mut log, snapshots) = run.start(&vfs).unwrap();
    for life in 0..lives {
        if life > 0 {
            log.roll().unwrap();
            run.snapshot(&snapshots).unwrap();
        }
        run.write(&mut log, run.next(), 11).unwrap();
    }
    log.settle().unwrap();
    (disk, run, log, snapshots)
}

fn purge(snapshots: &Snapshots, read: &mut u64) -> Purged {
    let mut pace = |bytes| {
        *read += bytes;
        true
    };
    snapshots.purge(KEEP, &mut pace).unwrap()
}

fn sound(disk: &MemVfs) -> Vec<PathBuf> {
    let mut files = snapshot::list(disk, &dir()).unwrap();
    files.retain(|file| {
        let source = Sequential::new(disk.open(&file.path).unwrap());
        let source = decompressed(source, file.compression);
        read_snapshot(source, 1 << 20, false, &mut Nothing).is_ok()
    });
    files.into_iter().map(|file| file.path).collect()
}

/// Each of the newest sound snapshots is enough by itself.
fn check(disk: &MemVfs, run: &Run, what: &str) {
    let sound = sound(disk);
    assert!(sound.len() >= KEEP, "{what}: {sound:?}");
    for kept in sound.iter().take(KEEP) {
        let disk = disk.fork();
        for other in snapshot::list(&disk, &dir()).unwrap() {
            if other.path != *kept {
                disk.remove(&other.path).unwrap();
            }
        }
        let (_, recovered, history) = recover(Arc::new(disk), options())
            .unwrap_or_else(|error| panic!("{what}, {kept:?}: {error}"));
        run.check(&recovered, &history).unwrap_or_else(|why| panic!("{what}, {kept:?}: {why}"));
    }
}

#[test]
fn a_purge_keeps_enough_sound_snapshots_whatever_is_damaged_in_others() {
    let (disk, run, log, snapshots) = running(6);
    drop((log, snapshots));
    let newest: Vec<_> = snapshot::list(&disk, &dir()).unwrap().into_iter().take(KEEP).collect();
    let mut kept_more = 0;
    for file in newest {
        for (what, content) in damages(&disk.content(&file.path).unwrap()) {
            let Some(content) = content else { continue };
            let what = format!("{:?} {what}", file.path);
            // By the server, while its disk rots, and by another program.
            let ours = disk.fork();
            let (store, ..) = recover(Arc::new(ours.clone()), options()).unwrap();
            let (_log, snapshots) = store.split();
            ours.put(&file.path, &content);
            let purged = purge(&snapshots, &mut 0);
            check(&ours, &run, &what);

            let beside = disk.fork();
            beside.put(&file.path, &content);
            let data = Path::new(ROOT).join("data");
            let remove = &mut |path: &Path| beside.remove(path);
            let same = purge_beside(&beside, &data, &data, KEEP, remove).unwrap();
            assert_eq!((&same.snapshots, &same.logs), (&purged.snapshots, &purged.logs), "{what}");
            check(&beside, &run, &what);

            assert!(!purged.snapshots.is_empty(), "{what}: old ones go all the same");
            kept_more += usize::from(purged.damaged.iter().any(|rotten| rotten.path == file.path));
        }
    }
    assert!(kept_more > 200, "{kept_more} damaged snapshots were seen");
}

#[test]
fn with_too_few_sound_snapshots_nothing_goes() {
    let (disk, _, _log, snapshots) = running(6);
    for file in snapshot::list(&disk, &dir()).unwrap().into_iter().skip(1).take(4) {
        let mut content = disk.content(&file.path).unwrap();
        let middle = content.len() / 2;
        content[middle] ^= 1;
        disk.put(&file.path, &content);
    }
    let before = disk.files();
    let purged = purge(&snapshots, &mut 0);
    assert_eq!((purged.snapshots.len(), purged.logs.len(), purged.damaged.len()), (0, 0, 4));
    assert_eq!(disk.files(), before);
}

#[test]
fn a_snapshot_in_front_of_a_damaged_log_does_not_count() {
    let (disk, mut run, mut log, snapshots) = running(6);
    // The log after the second newest snapshot rots: only the newest snapshot leads to the end.
    let second = snapshot::list(&disk, &dir()).unwrap()[1].zxid;
    let damaged = dir().join(names::log(second.next().unwrap()));
    let mut content = disk.content(&damaged).unwrap();
    content[100] ^= 1;
    disk.put(&damaged, &content);
    assert_eq!(snapshots.logs().scrub(&mut |_| true).unwrap().damage.len(), 1);
    let mut more = |log: &mut TxnLog| {
        log.roll().unwrap();
        run.snapshot(&snapshots).unwrap();
        run.write(log, run.next(), 3).unwrap();
    };
    for sound in 1..KEEP {
        let purged = purge(&snapshots, &mut 0);
        assert_eq!(purged, Purged::default(), "{sound} are no {KEEP}");
        more(&mut log);
    }
    assert_eq!(purge(&snapshots, &mut 0).snapshots.len(), 5);
    // The log before the oldest snapshot stays, as always, and is removed with the next one.
    more(&mut log);
    assert_eq!(purge(&snapshots, &mut 0).logs, [damaged]);
    log.settle().unwrap();
    check(&disk, &run, "the damaged log has gone");
}

#[test]
fn what_was_read_lately_is_not_read_again() {
    let (disk, mut run, mut log, snapshots) = running(KEEP);
    let mut read = 0;
    assert_eq!(purge(&snapshots, &mut read), Purged::default());
    assert_eq!(read, 0, "nothing is to go");
    let more = |run: &mut Run, log: &mut TxnLog| {
        log.roll().unwrap();
        run.snapshot(&snapshots).unwrap();
        run.write(log, run.next(), 3).unwrap();
        snapshot::list(&disk, &dir()).unwrap()[0].bytes
    };
    more(&mut run, &mut log);
    snapshots.logs().scrub(&mut |_| true).unwrap();
    assert_eq!(purge(&snapshots, &mut read).snapshots.len(), 1);
    assert_eq!(read, 0, "the scrub has read it");
    let newest = more(&mut run, &mut log);
    assert_eq!(purge(&snapshots, &mut read).snapshots.len(), 1);
    assert_eq!(read, newest);
    // After some days, an earlier read no longer counts.
    disk.advance(Duration::from_secs(3 * 24 * 3600));
    let newest = more(&mut run, &mut log);
    read = 0;
    assert_eq!(purge(&snapshots, &mut read).snapshots.len(), 1);
    assert!(read > newest * 2, "{read}");
    // A file that was written again under the same name has not been read yet.
    more(&mut run, &mut log);
    snapshots.logs().scrub(&mut |_| true).unwrap();
    run.snapshot(&snapshots).unwrap();
    read = 0;
    purge(&snapshots, &mut read);
    assert!(read > 0, "a new file under a known name");
}

#[test]
fn a_purge_that_is_ended_removes_nothing() {
    let (disk, _, _log, snapshots) = running(6);
    let before = disk.files();
    let purged = snapshots.purge(KEEP, &mut |_| false).unwrap();
    assert_eq!(purged, Purged::default());
    assert_eq!(disk.files(), before);
}

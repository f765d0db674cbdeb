//! Sectors that a disk cannot read: each sector of each file, before a start and while a server
//! runs. A standalone server has everything or names the file, a member has everything or waits for
//! a leader, and nobody has silently less.

use std::error::Error as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use zebu_proto::{EnsembleId, Epoch, Identity, Zxid};
use zebu_store::log::sidecar::Mark;
use zebu_store::vfs::MemVfs;
use zebu_store::{
    DamageKind, EpochFile, Options, Snapshots, StoreError, Truncated, TxnLog, Vfs, names,
};
use zebu_testkit::told::Told;

use crate::damage::one_log;
use crate::script::{Run, finished, lives_on, options, recover};

const SECTOR_BYTES: usize = 512;

fn member() -> Options {
    Options { member: true, recent_txns_max: 500, ..options() }
}

fn name(path: &Path) -> &str {
    path.file_name().unwrap().to_str().unwrap()
}

/// Every sector of every file: the path, and an offset in the sector.
fn sectors(disk: &MemVfs) -> Vec<(PathBuf, usize)> {
    let all = disk.files().into_iter().flat_map(|path| {
        let bytes = disk.content(&path).unwrap().len();
        (0..bytes).step_by(SECTOR_BYTES).map(move |at| (path.clone(), at))
    });
    all.collect()
}

/// A disk with logs after the last snapshot, and with all the files of a member. `closed`: the
/// server has ended in order.
fn disk(closed: bool) -> (MemVfs, Run) {
    let (disk, mut run) = finished();
    let vfs: Arc<dyn Vfs> = Arc::new(disk.clone());
    let (store, recovered, history) = recover(Arc::clone(&vfs), options()).unwrap();
    run.check(&recovered, &history).unwrap();
    store.epochs().load(recovered.last_zxid).unwrap();
    store.ensemble().write(Identity::Settled(EnsembleId(7))).unwrap();
    store.committed().unwrap().write(recovered.last_zxid).unwrap();
    let (mut log, _snapshots) = store.split();
    run.write(&mut log, run.next(), 25).unwrap();
    log.roll().unwrap();
    run.write(&mut log, run.next(), 25).unwrap();
    if closed {
        log.close().unwrap();
    }
    (disk, run)
}

/// What a start says of its failure, with all causes.
fn text(error: &StoreError) -> String {
    let causes = std::iter::successors(error.source(), |error| (*error).source());
    causes.fold(error.to_string(), |text, cause| format!("{text}: {cause}"))
}

/// Reads the small files of a member. Returns the error text of the one that stops a start.
fn small_files(vfs: &Arc<dyn Vfs>, last: Zxid) -> Result<(), String> {
    let (store, ..) = recover(Arc::clone(vfs), member()).unwrap();
    store.epochs().load(last).map_err(|error| text(&error))?;
    // Without these two, a start goes on.
    store.ensemble().read().unwrap();
    store.committed().unwrap().read().unwrap();
    Ok(())
}

#[test]
fn each_unreadable_sector_is_noticed_or_not_needed() {
    for closed in [true, false] {
        let (disk, run) = disk(closed);
        let (mut complete, mut refused) = (0, 0);
        for (path, at) in sectors(&disk) {
            let what = || format!("{} at {at}, closed: {closed}", path.display());
            let alone = disk.fork();
            alone.spoil(&path, at);
            match recover(Arc::new(alone.fork()), options()) {
                Ok((_, recovered, history)) => {
                    run.check(&recovered, &history).unwrap_or_else(|it| panic!("{}: {it}", what()));
                    complete += 1;
                    lives_on(&alone, &run, &what);
                }
                Err(error @ StoreError::Replay { .. }) => panic!("{}: {error}", what()),
                Err(error) => {
                    assert!(text(&error).contains(name(&path)), "{}: {}", what(), text(&error));
                    refused += 1;
                }
            }

            let disk = disk.fork();
            disk.spoil(&path, at);
            let vfs: Arc<dyn Vfs> = Arc::new(disk.clone());
            if let Err(error) = small_files(&vfs, run.last()) {
                assert!(error.contains(name(&path)) && name(&path).contains("Epoch"), "{error}");
                refused += 1;
                continue;
            }
            let (store, recovered, history) = recover(Arc::clone(&vfs), member()).unwrap();
            let Some(damage) = recovered.damaged.clone() else {
                run.check(&recovered, &history).unwrap_or_else(|it| panic!("{}: {it}", what()));
                continue;
            };
            assert_eq!(damage.path, path, "{}", what());
            assert_eq!((recovered.last_zxid, history.bodies().len()), (Zxid(-1), 0));
            let (mut log, snapshots) = store.split();
            let mut led = Run { salt: 9, ..run.clone() };
            log.install(led.received(&snapshots).unwrap()).unwrap();
            led.write(&mut log, Zxid::new(Epoch(7), 1), 3).unwrap();
            drop((log, snapshots));
            lives_on(&disk, &led, &what);
        }
        println!("closed: {closed}: {complete} complete, {refused} refused");
        assert!(complete > 30 && refused > 10, "{complete} complete, {refused} refused");
    }
}

/// ZooKeeper reads a log up to the first error, and goes on with less.
#[test]
fn a_start_names_the_log_the_offset_and_the_last_good_transaction() {
    let (disk, _, path) = one_log(true);
    let content = disk.content(&path).unwrap();
    let sidecar = disk.content(&path.with_file_name("durable.1")).unwrap();
    let end = Mark::read(&sidecar).unwrap().end as usize;
    for at in (0..end).step_by(SECTOR_BYTES) {
        let disk = disk.fork();
        disk.spoil(&path, at);
        let error = recover(Arc::new(disk.clone()), options()).unwrap_err();
        let StoreError::Damaged(damage) = &error else { panic!("{at}: {error}") };
        let offset = damage.offset as usize;
        assert_eq!((&damage.path, damage.what), (&path, DamageKind::Unreadable), "{at}");
        // The last record before the sector ends in front of it, or the next one reaches into it.
        assert!(offset <= at.max(16) && at < offset + 200, "{at}: {damage:?}");
        assert_eq!(damage.last == Zxid::ZERO, at == 0, "{at}: {damage:?}");
        assert!(text(&error).contains("the disk cannot read it"), "{}", text(&error));
        assert_eq!(disk.content(&path).as_ref(), Some(&content), "the evidence stays");
    }
}

/// The sector that a drive was writing when the power failed.
#[test]
fn an_unreadable_sector_behind_what_is_durable_is_cut() {
    let (disk, run, path) = one_log(true);
    let sidecar = disk.content(&path.with_file_name("durable.1")).unwrap();
    let end = Mark::read(&sidecar).unwrap().end as usize;
    let sound = disk.content(&path).unwrap();
    for behind in 0..3 {
        let mut content = sound.clone();
        content.resize((end / SECTOR_BYTES + 5) * SECTOR_BYTES, 0);
        let sector = (end.div_ceil(SECTOR_BYTES) + behind) * SECTOR_BYTES;
        content[end..sector].fill(3);
        let disk = disk.fork();
        disk.put(&path, &content);
        disk.spoil(&path, sector);
        for options in [options(), member()] {
            let (_, recovered, history) = recover(Arc::new(disk.fork()), options).unwrap();
            run.check(&recovered, &history).unwrap();
            assert_eq!((recovered.last_zxid, recovered.damaged), (Zxid(400), None));
        }
        lives_on(&disk, &run, &|| format!("{behind} sectors behind the mark"));
        assert_eq!(disk.unreadable_sectors(), 0);
    }
}

/// What a running server does until one of its calls fails.
fn goes_on(run: &mut Run, log: &mut TxnLog, snapshots: &Snapshots) -> Result<(), StoreError> {
    run.write(log, run.next(), 5)?;
    log.settle()?;
    run.write(log, run.next(), 5)?;
    run.snapshot(snapshots)?;
    log.roll()?;
    run.write(log, run.next(), 5)?;
    snapshots.purge(3, &mut |_| true)?;
    Ok(())
}

#[test]
fn a_sector_that_becomes_unreadable_beneath_a_server_loses_nothing_silently() {
    let running = || {
        let (disk, mut run) = disk(false);
        let vfs: Arc<dyn Vfs> = Arc::new(disk.clone());
        let (mut log, snapshots) = run.start(&vfs).unwrap();
        run.write(&mut log, run.next(), 25).unwrap();
        (disk, run, log, snapshots)
    };
    let (mut ended, mut refused) = (0, 0);
    for (path, at) in sectors(&running().0) {
        let what = || format!("{} at {at}", path.display());
        let (disk, mut run, mut log, snapshots) = running();
        let vfs: Arc<dyn Vfs> = Arc::new(disk.clone());
        disk.spoil(&path, at);
        assert_eq!(disk.unreadable_sectors(), 1, "{}", what());
        let scrubbed = snapshots.logs().scrub(&mut |_| true).unwrap();
        for rotten in &scrubbed.damage {
            assert_eq!(rotten.path, path, "{}", what());
            assert!(rotten.reason.contains("cannot read") && rotten.offset <= at as u64 + 512);
        }
        ended += u32::from(goes_on(&mut run, &mut log, &snapshots).is_err());
        drop((log, snapshots));
        match recover(Arc::clone(&vfs), options()).map(drop) {
            Ok(()) => lives_on(&disk, &run, &what),
            Err(error) => {
                assert!(text(&error).contains(name(&path)), "{}: {}", what(), text(&error));
                let (_, recovered, _) = recover(vfs, member()).unwrap();
                assert_eq!(recovered.damaged.unwrap().path, path, "{}", what());
                refused += 1;
            }
        }
    }
    println!("{ended} servers ended, {refused} starts were refused");
    assert!(ended > 0 && refused > 0, "no write met an unreadable sector");
}

#[test]
fn a_scrub_finds_each_unreadable_sector_that_is_durable() {
    let (disk, _) = disk(false);
    let vfs: Arc<dyn Vfs> = Arc::new(disk.clone());
    let (store, ..) = recover(vfs, options()).unwrap();
    let (_log, snapshots) = store.split();
    for (path, at) in sectors(&disk) {
        let sound = disk.content(&path).unwrap();
        let end = if let Some(first) = names::parse_log(name(&path)) {
            let sidecar = path.with_file_name(names::sidecar(first));
            Mark::read(&disk.content(&sidecar).unwrap()).unwrap().end as usize
        } else if names::parse_snapshot(name(&path)).is_some() {
            sound.len()
        } else {
            0
        };
        if end <= at {
            continue;
        }
        disk.spoil(&path, at);
        let found = snapshots.logs().scrub(&mut |_| true).unwrap().damage;
        assert_eq!(found.len(), 1, "{} at {at}: {found:?}", path.display());
        assert_eq!(found[0].path, path);
        disk.put(&path, &sound);
    }
}

#[test]
fn a_truncation_does_not_pass_over_an_unreadable_sector() {
    let (disk, mut run, path) = one_log(true);
    let vfs: Arc<dyn Vfs> = Arc::new(disk.clone());
    let (mut log, _snapshots) = run.start(&vfs).unwrap();
    run.write(&mut log, run.next(), 5).unwrap();
    drop((log, _snapshots));
    let end = disk.content(&path).unwrap().iter().rposition(|byte| *byte != 0).unwrap();
    let (mut lost, mut reached) = (0, 0);
    for at in (0..=end).step_by(SECTOR_BYTES) {
        let disk = disk.fork();
        let mut state = Told::default();
        let (mut store, ..) = recover(Arc::new(disk.clone()), member()).unwrap();
        // A snapshot of everything would make the log dispensable.
        for snapshot in disk.files().iter().filter(|path| name(path).starts_with("snapshot.19")) {
            disk.remove(snapshot).unwrap();
        }
        disk.spoil(&path, at);
        match store.truncate(Zxid(380), &mut state).unwrap() {
            Truncated::Lost { reason } => {
                assert!(reason.contains("log.1"), "{reason}");
                lost += 1;
            }
            Truncated::Reaches(recovered) => {
                assert_eq!(recovered.last_zxid, Zxid(380));
                reached += 1;
            }
        }
        drop(store);
        let (_, recovered, _) = recover(Arc::new(disk), member()).unwrap();
        assert!(recovered.damaged.is_some() || recovered.last_zxid == Zxid(380));
    }
    assert!(lost > 10, "{lost} lost, {reached} reached");
}

/// The epochs are promises, so a start does not guess them.
#[test]
fn an_unreadable_epoch_file_is_named() {
    for file in [EpochFile::Accepted, EpochFile::Current] {
        let (disk, run) = disk(true);
        let vfs: Arc<dyn Vfs> = Arc::new(disk.clone());
        let (store, ..) = recover(vfs, member()).unwrap();
        let path = store.epochs().path(file);
        disk.spoil(&path, 0);
        let error = text(&store.epochs().load(run.last()).unwrap_err());
        assert!(error.contains(name(&path)) && error.contains("cannot be read"), "{error}");
    }
}

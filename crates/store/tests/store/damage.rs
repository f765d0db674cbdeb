//! Damage: any sector of any file is zeroed, changed, random or from another place; files are cut
//! or missing. With sidecars, a start is refused or complete, never silently shorter.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use zebu_proto::Zxid;
use zebu_store::log::encode_record;
use zebu_store::log::read::read_log;
use zebu_store::log::sidecar::Mark;
use zebu_store::vfs::{Crash, MemVfs, Names, Unsynced};
use zebu_store::{DamageKind, Mode, Options, Range, StoreError, Unusable, Vfs, Warning};

use crate::script::{ROOT, Run, finished, options, recover, script};
use crate::support::body;

const SECTOR_BYTES: usize = 512;

/// All damaged variants of one file, each with a description.
pub(crate) fn damages(content: &[u8]) -> Vec<(String, Option<Vec<u8>>)> {
    let mut all = vec![("gone".to_owned(), None)];
    let sectors = content.len().div_ceil(SECTOR_BYTES);
    for sector in 0..sectors {
        let start = sector * SECTOR_BYTES;
        let end = content.len().min(start + SECTOR_BYTES);
        let mut change = |what: &str, to: &dyn Fn(usize, u8) -> u8| {
            let mut changed = content.to_vec();
            for (at, byte) in changed[start..end].iter_mut().enumerate() {
                *byte = to(at, *byte);
            }
            if changed != content {
                all.push((format!("sector {sector} {what}"), Some(changed)));
            }
        };
        change("zeroed", &|_, _| 0);
        change("random", &|at, _| (at as u8).wrapping_mul(151) ^ (sector as u8) << 3 ^ 0x5a);
        for bit in 0..48 {
            let (place, bit) = (bit * 331 % SECTOR_BYTES, bit % 8);
            change("bit changed", &|at, byte| if at == place { byte ^ 1 << bit } else { byte });
        }
        for other in [0, sector.saturating_sub(1), sector + 1] {
            let from = other * SECTOR_BYTES;
            if other != sector && from + (end - start) <= content.len() {
                change("from elsewhere", &|at, _| content[from + at]);
            }
        }
        all.push((format!("cut at {start}"), Some(content[..start].to_vec())));
    }
    all
}

/// Starts on every damaged variant of `disk`. Returns the numbers of complete, refused and shorter
/// starts.
pub(crate) fn sweep(disk: &MemVfs, run: &Run, shorter: &dyn Fn(&Path, &str, usize)) -> [usize; 3] {
    let mut outcomes = [0; 3];
    for path in disk.files() {
        for (what, content) in damages(&disk.content(&path).unwrap()) {
            let disk = disk.fork();
            match content {
                Some(content) => disk.put(&path, &content),
                None => disk.remove(&path).unwrap(),
            }
            match recover(Arc::new(disk.clone()), options()) {
                Err(StoreError::Replay { .. }) => panic!("{path:?} {what}: replayed"),
                Err(_) => outcomes[1] += 1,
                Ok((_, recovered, history)) => match run.check(&recovered, &history) {
                    Ok(()) => outcomes[0] += 1,
                    Err(_) => {
                        // The history may be shorter, but never different.
                        let found = history.bodies().len();
                        let mut shorter_run = run.clone();
                        shorter_run.acknowledged = found;
                        shorter_run
                            .check(&recovered, &history)
                            .unwrap_or_else(|broken| panic!("{path:?} {what}: {broken}"));
                        shorter(&path, &what, run.acknowledged - found);
                        outcomes[2] += 1;
                    }
                },
            }
        }
    }
    outcomes
}

pub(crate) fn never(path: &Path, what: &str, lost: usize) {
    panic!("{path:?} {what}: {lost} lost silently");
}

#[test]
fn after_a_clean_end_no_damage_goes_unnoticed() {
    let (disk, mut run) = finished();
    // One more life, so that there are logs after the last snapshot.
    let vfs: Arc<dyn Vfs> = Arc::new(disk.clone());
    let (mut log, _snapshots) = run.start(&vfs).unwrap();
    run.write(&mut log, run.next(), 25).unwrap();
    log.roll().unwrap();
    run.write(&mut log, run.next(), 25).unwrap();
    log.close().unwrap();
    drop(_snapshots);
    let [complete, refused, _] = sweep(&disk, &run, &never);
    println!("{complete} complete, {refused} refused");
    assert!(complete > 100 && refused > 100);
}

#[test]
fn after_a_power_cut_of_a_settled_log_no_damage_goes_unnoticed() {
    // The script's last life settles its log, and does not close it.
    let (disk, run) = finished();
    let [complete, refused, _] = sweep(&disk, &run, &never);
    println!("{complete} complete, {refused} refused");
    assert!(complete > 100 && refused > 10);
}

#[test]
fn without_sidecars_only_the_end_can_be_lost() {
    // As if the original had written the log: a start detects damage in the middle, and damage at
    // the very end looks like a crash.
    let (disk, run) = finished();
    for path in disk.files() {
        if path.to_string_lossy().contains("durable") {
            disk.remove(&path).unwrap();
        }
    }
    let logs = disk.files().into_iter().filter(|path| path.to_string_lossy().contains("/log."));
    let newest = logs.max_by_key(|path| {
        i64::from_str_radix(path.extension().unwrap().to_str().unwrap(), 16).unwrap()
    });
    let newest = newest.unwrap();
    let [complete, refused, shorter] = sweep(&disk, &run, &|path, what, lost| {
        let at_the_end = path == newest && (lost <= 4 || what == "gone" || what.starts_with("cut"));
        assert!(at_the_end, "{path:?} {what}: {lost} lost silently");
    });
    println!("{complete} complete, {refused} refused, {shorter} shorter");
    assert!(complete > 100 && refused > 100 && shorter > 0);
}

/// A directory with one log of transactions that are in no snapshot, and that log's path.
pub(crate) fn one_log(settled: bool) -> (MemVfs, Run, PathBuf) {
    let disk = MemVfs::new(Path::new(ROOT));
    let vfs: Arc<dyn Vfs> = Arc::new(disk.clone());
    let mut run = Run::default();
    let (mut log, _snapshots) = run.start(&vfs).unwrap();
    run.write(&mut log, run.next(), 400).unwrap();
    if settled {
        log.settle().unwrap();
    }
    let path = log.path().unwrap().to_path_buf();
    drop(log);
    (disk, run, path)
}

#[test]
fn one_zeroed_sector_in_mid_log_is_refused_and_named() {
    // ZooKeeper 3.9.5 starts without an error, with half of the transactions.
    let (disk, _, path) = one_log(true);
    let mut content = disk.content(&path).unwrap();
    let middle = content.iter().rposition(|byte| *byte != 0).unwrap() / 2 / SECTOR_BYTES;
    content[middle * SECTOR_BYTES..(middle + 1) * SECTOR_BYTES].fill(0);
    disk.put(&path, &content);
    let error = recover(Arc::new(disk.fork()), options()).unwrap_err();
    let StoreError::Damaged(damage) = &error else { panic!("{error}") };
    assert_eq!(damage.path, path);
    assert!(damage.offset < (middle as u64 + 1) * 512 && damage.last > Zxid(100), "{damage:?}");
    assert!(matches!(damage.what, DamageKind::Short { last: Zxid(400), .. }), "{damage:?}");
    let text = error.to_string();
    assert!(text.contains("log.1") && text.contains("zebu.acceptDamagedLog"), "{text}");

    // If the operator accepts the damage, the start loads the part before it, reports that, and
    // keeps the damaged file.
    let accepting = Options { accept_damage: true, ..options() };
    let (_, recovered, history) = recover(Arc::new(disk.clone()), accepting).unwrap();
    assert_eq!(recovered.last_zxid, damage.last);
    assert_eq!(history.bodies().len() as i64, damage.last.0);
    assert!(matches!(recovered.warnings[..], [Warning::DamageAccepted(_)]));
    assert_eq!(disk.content(&path).unwrap(), content);
}

/// A sealed log of 400 transactions, and a copy of it with one whole record more.
fn sealed_and_longer() -> (MemVfs, Run, PathBuf, Vec<u8>) {
    let (disk, mut run, path) = one_log(true);
    // A start seals the log.
    let (_, recovered, history) = recover(Arc::new(disk.clone()), options()).unwrap();
    run.check(&recovered, &history).unwrap();
    let mut longer = disk.content(&path).unwrap();
    let (end, _) = read_log(&longer[..], 1 << 20, &mut |_| ()).unwrap();
    longer.truncate(end.offset as usize);
    let (zxid, body) = (run.next(), body(run.next(), 9));
    encode_record(&body, &mut longer);
    run.attempted.push((zxid, body));
    (disk, run, path, longer)
}

#[test]
fn a_record_behind_the_end_of_a_sealed_log_is_neither_applied_nor_dropped() {
    let (disk, mut run, path, longer) = sealed_and_longer();
    let sidecar = disk.content(&path.with_file_name("durable.1")).unwrap();
    let mark = Mark::read(&sidecar).unwrap();
    assert!(mark.sealed && mark.last == Zxid(400) && mark.end < longer.len() as u64);
    disk.put(&path, &longer);
    let error = recover(Arc::new(disk.clone()), options()).unwrap_err();
    let StoreError::Damaged(damage) = &error else { panic!("{error}") };
    assert_eq!((&damage.path, damage.offset, damage.last), (&path, mark.end, Zxid(400)));
    assert_eq!(damage.what, DamageKind::BehindEnd { last: Zxid(400) });
    assert_eq!(disk.content(&path), Some(longer.clone()), "the evidence stays");

    // A member takes its leader's history.
    let member = Options { member: true, ..options() };
    let (_, recovered, history) = recover(Arc::new(disk.fork()), member).unwrap();
    assert_eq!((recovered.last_zxid, history.bodies().len()), (Zxid(-1), 0));
    assert_eq!(recovered.damaged.as_ref(), Some(&**damage));

    // An operator decides: the log as it was sealed, or as the other server left it.
    let accepting = Options { accept_damage: true, ..options() };
    let (_, recovered, _) = recover(Arc::new(disk.fork()), accepting).unwrap();
    assert_eq!(recovered.last_zxid, Zxid(400));
    disk.remove(&path.with_file_name("durable.1")).unwrap();
    run.acknowledged = run.attempted.len();
    let (_, recovered, history) = recover(Arc::new(disk), options()).unwrap();
    run.check(&recovered, &history).unwrap();
}

#[test]
fn what_follows_the_end_of_a_sealed_log_does_not_matter_if_it_is_no_record_or_in_a_snapshot() {
    let (disk, run, path, longer) = sealed_and_longer();
    let sound = disk.content(&path).unwrap();
    let (end, _) = read_log(&sound[..], 1 << 20, &mut |_| ()).unwrap();
    for rest in [&[0; 600][..], &[7; 600], &longer[end.offset as usize..longer.len() - 1]] {
        let disk = disk.fork();
        disk.put(&path, &[&longer[..end.offset as usize], rest].concat());
        let (_, recovered, history) = recover(Arc::new(disk), options()).unwrap();
        run.check(&recovered, &history).unwrap();
        assert_eq!((recovered.last_zxid, recovered.truncated), (Zxid(400), None));
    }
    let vfs: Arc<dyn Vfs> = Arc::new(disk.clone());
    let (store, ..) = recover(Arc::clone(&vfs), options()).unwrap();
    let (log, snapshots) = store.split();
    run.snapshot(&snapshots).unwrap();
    drop((log, snapshots));
    disk.put(&path, &longer);
    let (store, recovered, history) = recover(vfs, options()).unwrap();
    run.check(&recovered, &history).unwrap();
    assert_eq!((recovered.snapshot, recovered.replayed), (Some(Zxid(401)), 0));
    // No learner gets it from the log.
    let (_log, snapshots) = store.split();
    let range = Range { after: Zxid(399), up_to: Zxid(401), bytes_max: u64::MAX };
    assert!(matches!(snapshots.logs().history(range), Err(Unusable::End { last: Zxid(400) })));
}

/// A log of one batch, with the sidecar that earlier versions wrote before the log.
fn with_an_empty_sidecar() -> (MemVfs, Run, PathBuf) {
    let (disk, run, path) = one_log(true);
    let sidecar = path.with_file_name("durable.1");
    disk.put(&sidecar, &Mark::start(Zxid(1), Zxid::ZERO).file());
    (disk, run, path)
}

#[test]
fn a_sidecar_without_records_does_not_make_a_log_of_the_originals_ours() {
    // The server failed before its first batch, and the original continued in a log with the same
    // name.
    let (disk, run, path) = with_an_empty_sidecar();
    let (_, recovered, history) = recover(Arc::new(disk.fork()), options()).unwrap();
    run.check(&recovered, &history).unwrap();
    assert_eq!(recovered.mode, Mode::Weaker { log: path.clone() });
    let content = disk.content(&path).unwrap();
    let end = content.iter().rposition(|byte| *byte != 0).unwrap();
    for sector in 0..end / SECTOR_BYTES {
        let mut zeroed = content.clone();
        zeroed[sector * SECTOR_BYTES..(sector + 1) * SECTOR_BYTES].fill(0);
        let disk = disk.fork();
        disk.put(&path, &zeroed);
        let error = recover(Arc::new(disk.clone()), options()).unwrap_err();
        assert!(matches!(error, StoreError::Damaged(_)), "sector {sector}: {error}");
        assert_eq!(disk.content(&path).as_ref(), Some(&zeroed), "the evidence stays");
    }
}

#[test]
fn room_for_a_log_that_earlier_versions_never_wrote_is_given_back() {
    let (disk, mut run, path) = with_an_empty_sidecar();
    disk.put(&path, &[0; 4096]);
    run.acknowledged = 0;
    let (_, recovered, history) = recover(Arc::new(disk.clone()), options()).unwrap();
    run.check(&recovered, &history).unwrap();
    assert_eq!(disk.files(), [Path::new("/srv/data/version-2/snapshot.0")]);
    // Without any sidecar, it may be the remaining log of the original.
    disk.put(&path, &[0; 4096]);
    recover(Arc::new(disk), options()).unwrap_err();
}

#[test]
fn damaged_evidence_is_set_aside_when_its_name_is_needed() {
    let (disk, run, path) = one_log(true);
    let mut content = disk.content(&path).unwrap();
    content[16..40].fill(0);
    disk.put(&path, &content);
    let accepting = Options { accept_damage: true, ..options() };
    let (store, recovered, history) = recover(Arc::new(disk.clone()), accepting).unwrap();
    assert_eq!((recovered.last_zxid, history.bodies().len()), (Zxid::ZERO, 0));
    let (mut log, _snapshots) = store.split();
    let mut after = Run { attempted: Vec::new(), ..run };
    after.write(&mut log, Zxid(1), 5).unwrap();
    log.close().unwrap();
    drop(_snapshots);
    assert_eq!(disk.content(&path.with_file_name("damaged.log.1")).unwrap(), content);
    let (_, recovered, _) = recover(Arc::new(disk.clone()), options()).unwrap();
    assert_eq!(recovered.last_zxid, Zxid(5));
}

#[test]
fn what_a_start_went_on_without_does_not_end_the_next_one() {
    // A log of the original, and the incomplete later snapshot that a crash left.
    let (disk, mut run, _) = one_log(true);
    disk.remove(Path::new("/srv/data/version-2/durable.1")).unwrap();
    let cut = Path::new("/srv/data/version-2/snapshot.300");
    disk.put(cut, b"ZKSN\0\0\0\x02");
    let vfs: Arc<dyn Vfs> = Arc::new(disk.clone());
    let (mut log, snapshots) = run.start(&vfs).unwrap();
    run.snapshot(&snapshots).unwrap();
    run.write(&mut log, run.next(), 5).unwrap();
    log.close().unwrap();
    drop(snapshots);
    let (_, recovered, _) = recover(Arc::clone(&vfs), options()).unwrap();
    assert_eq!((recovered.last_zxid, &recovered.warnings[..]), (Zxid(405), &[][..]));
    let aside = cut.with_file_name("damaged.snapshot.300");
    assert_eq!(disk.content(&aside).as_deref(), Some(&b"ZKSN\0\0\0\x02"[..]));

    // Damage that was accepted once: an unreadable snapshot, and a missing log.
    for (gone, kept) in [("snapshot.300", "damaged.snapshot.300"), ("log.1", "damaged.durable.1")] {
        let (disk, _, path) = one_log(true);
        let path = path.with_file_name(gone);
        if gone == "log.1" {
            disk.remove(&path).unwrap();
        } else {
            disk.put(&path, b"ZKSN\0\0\0\x02");
        }
        recover(Arc::new(disk.fork()), options()).unwrap_err();
        let accepting = Options { accept_damage: true, ..options() };
        let (_, accepted, _) = recover(Arc::new(disk.clone()), accepting).unwrap();
        assert!(
            accepted
                .warnings
                .iter()
                .any(|warning| { matches!(warning, Warning::DamageAccepted(_)) })
        );
        let (_, recovered, _) = recover(Arc::new(disk.clone()), options()).unwrap();
        assert_eq!(recovered.last_zxid, accepted.last_zxid);
        assert!(disk.content(&path.with_file_name(kept)).is_some(), "{gone}: no evidence");
    }
}

#[test]
fn our_logs_load_without_any_snapshot() {
    // The sidecar of the first log proves that no log came before it.
    let (disk, run, _) = one_log(false);
    disk.remove(Path::new("/srv/data/version-2/snapshot.0")).unwrap();
    let (_, recovered, history) = recover(Arc::new(disk.clone()), options()).unwrap();
    run.check(&recovered, &history).unwrap();
    assert_eq!(recovered.snapshot, None);
    assert_eq!(recovered.warnings, [Warning::NoSnapshot]);
    assert_eq!(recovered.mode, Mode::Verified);
}

#[test]
fn a_log_continues_only_a_durable_snapshot() {
    let disk = MemVfs::new(Path::new(ROOT));
    let (store, recovered, _) = recover(Arc::new(disk.clone()), options()).unwrap();
    assert!(recovered.fresh);
    let (mut log, _snapshots) = store.split();
    let mut run = Run::default();
    assert!(matches!(run.write(&mut log, Zxid(1), 1), Err(StoreError::SnapshotFirst)));
    assert_eq!(disk.files(), Vec::<PathBuf>::new());
}

#[test]
fn an_empty_directory_is_a_new_database_only_when_that_is_allowed() {
    let disk = MemVfs::new(Path::new(ROOT));
    let cautious = || Options { autocreate_db: false, ..options() };
    let (_, recovered, _) = recover(Arc::new(disk.clone()), cautious()).unwrap();
    assert_eq!((recovered.last_zxid, recovered.fresh), (Zxid(-1), true));
    let marker = Path::new("/srv/data/initialize");
    disk.put(marker, b"");
    let (_, recovered, _) = recover(Arc::new(disk.clone()), cautious()).unwrap();
    assert_eq!((recovered.last_zxid, recovered.fresh), (Zxid::ZERO, true));
    // Not before there is a snapshot.
    let (store, recovered, _) = recover(Arc::new(disk.clone()), cautious()).unwrap();
    assert_eq!((recovered.last_zxid, recovered.fresh), (Zxid::ZERO, true));
    let (_log, snapshots) = store.split();
    Run::default().snapshot(&snapshots).unwrap();
    assert_eq!(disk.content(marker), None);
    assert!(!recovered.assumed_new, "it was said");
}

#[test]
fn an_empty_directory_is_assumed_to_be_new_unless_somebody_has_said_so() {
    let disk = MemVfs::new(Path::new(ROOT));
    let assumed = || recover(Arc::new(disk.clone()), options()).unwrap().1.assumed_new;
    assert!(assumed());
    let marker = Path::new("/srv/data/initialize");
    disk.put(marker, b"");
    assert!(!assumed());
    disk.remove(marker).unwrap();
    // A snapshot without a transaction proves nothing either.
    let (store, _, _) = recover(Arc::new(disk.clone()), options()).unwrap();
    let (mut log, snapshots) = store.split();
    let mut run = Run::default();
    run.snapshot(&snapshots).unwrap();
    run.write(&mut log, Zxid(1), 1).unwrap();
    drop((log, snapshots));
    assert!(!assumed());
}

#[test]
fn files_in_the_wrong_directory_are_refused() {
    let apart = || Options { log_dir: "/srv/logs".into(), ..options() };
    for (path, what) in
        [("/srv/data/version-2/log.1", "log"), ("/srv/logs/version-2/snapshot.0", "snapshot")]
    {
        let disk = MemVfs::new(Path::new(ROOT));
        disk.put(Path::new(path), b"");
        match recover(Arc::new(disk), apart()) {
            Err(StoreError::Misplaced { what: found, .. }) => assert_eq!(found, what),
            other => panic!("{path} was not refused: {other:?}"),
        }
    }
    let missing = Options { autocreate_dirs: false, ..options() };
    let disk = MemVfs::new(Path::new(ROOT));
    assert!(matches!(recover(Arc::new(disk), missing), Err(StoreError::Directory { .. })));
}

#[test]
fn the_script_works_with_logs_apart_and_unsynced_logs() {
    // Without forced syncs, nothing is promised for a power cut, but a clean end is complete.
    let disk = MemVfs::new(Path::new(ROOT));
    let vfs: Arc<dyn Vfs> = Arc::new(disk.clone());
    let options = Options { force_sync: false, log_dir: "/srv/logs".into(), ..options() };
    let mut run = Run::default();
    let (store, ..) = recover(Arc::clone(&vfs), options.clone()).unwrap();
    let (mut log, snapshots) = store.split();
    run.snapshot(&snapshots).unwrap();
    run.write(&mut log, Zxid(1), 50).unwrap();
    log.settle().unwrap();
    run.write(&mut log, run.next(), 50).unwrap();
    log.close().unwrap();
    drop(snapshots);
    let lost = Crash { content: Unsynced::Lost, names: Names::Lost };
    let (_, recovered, history) = recover(Arc::new(disk.crash(lost)), options).unwrap();
    run.check(&recovered, &history).unwrap();
    assert_eq!(recovered.mode, Mode::Verified);
}

#[test]
fn purge_leaves_three_snapshots_and_the_logs_they_need() {
    let (disk, run) = finished();
    let names: Vec<_> = (disk.files().iter())
        .map(|path| path.file_name().unwrap().to_str().unwrap().to_owned())
        .collect();
    assert_eq!(names.iter().filter(|name| name.starts_with("snapshot.")).count(), 3);
    let logs = names.iter().filter(|name| name.starts_with("log.")).count();
    let sidecars = names.iter().filter(|name| name.starts_with("durable.")).count();
    assert_eq!(logs, sidecars);
    // Each of the three is enough.
    let mut snapshots: Vec<_> = disk.files();
    snapshots.retain(|path| path.to_string_lossy().contains("/snapshot."));
    for kept in &snapshots {
        let disk = disk.fork();
        for other in snapshots.iter().filter(|other| *other != kept) {
            disk.remove(other).unwrap();
        }
        let (_, recovered, history) = recover(Arc::new(disk), options()).unwrap();
        run.check(&recovered, &history).unwrap();
    }
}

#[test]
fn a_purge_cut_short_leaves_snapshots_that_each_load() {
    // The life before the last purge; then that purge is stopped at each of its calls.
    let prepare = || {
        let (disk, mut run) = finished();
        let vfs: Arc<dyn Vfs> = Arc::new(disk.clone());
        let (mut log, snapshots) = run.start(&vfs).unwrap();
        for _ in 0..3 {
            run.write(&mut log, run.next(), 7).unwrap();
            log.roll().unwrap();
            run.snapshot(&snapshots).unwrap();
        }
        run.write(&mut log, run.next(), 7).unwrap();
        log.settle().unwrap();
        (disk, run, snapshots)
    };
    let (disk, _, snapshots) = prepare();
    let before = disk.mutations();
    let purged = snapshots.purge(3, &mut |_| true).unwrap();
    assert!(purged.snapshots.len() >= 3 && purged.logs.len() >= 3, "{purged:?}");
    for calls in 0..disk.mutations() - before {
        let (disk, run, snapshots) = prepare();
        disk.stop_at(before + calls);
        snapshots.purge(3, &mut |_| true).unwrap_err();
        for bits in 0..1 << disk.unsynced_names() {
            let crash = Crash { content: Unsynced::Lost, names: Names::Subset(bits) };
            let crashed = disk.crash(crash);
            let mut left = crashed.files();
            left.retain(|path| path.to_string_lossy().contains("/snapshot."));
            for kept in &left {
                let disk = crashed.fork();
                for other in left.iter().filter(|other| *other != kept) {
                    disk.remove(other).unwrap();
                }
                let (_, recovered, history) = recover(Arc::new(disk), options())
                    .unwrap_or_else(|error| panic!("{calls}, {crash:?}, {kept:?}: {error}"));
                run.check(&recovered, &history).unwrap();
            }
        }
    }
}

#[test]
fn a_finished_snapshot_survives_a_power_cut() {
    let disk = MemVfs::new(Path::new(ROOT));
    let (store, ..) = recover(Arc::new(disk.clone()), options()).unwrap();
    let (_log, snapshots) = store.split();
    Run::default().snapshot(&snapshots).unwrap();
    let lost = Crash { content: Unsynced::Lost, names: Names::Lost };
    let (_, recovered, _) = recover(Arc::new(disk.crash(lost)), options()).unwrap();
    assert_eq!(recovered.snapshot, Some(Zxid::ZERO));
}

#[test]
fn the_script_runs_on_a_real_disk() {
    let dir = tempfile::tempdir().unwrap();
    // The script's paths are fixed, so the test maps them into the real file system.
    let vfs: Arc<dyn Vfs> = Arc::new(crate::support::Beneath(dir.path().to_path_buf()));
    vfs.create_dir(Path::new(ROOT)).unwrap();
    let mut run = Run::default();
    script(&vfs, &MemVfs::default(), &mut run).unwrap();
    let (_, recovered, history) = recover(Arc::clone(&vfs), options()).unwrap();
    run.check(&recovered, &history).unwrap();
    assert_eq!(recovered.mode, Mode::Verified);
    let version_dir = dir.path().join("srv/data/version-2");
    for entry in std::fs::read_dir(&version_dir).unwrap() {
        use std::os::unix::fs::PermissionsExt;
        let mode = entry.unwrap().metadata().unwrap().permissions().mode();
        assert_eq!(mode & 0o7137, 0, "{mode:o}");
    }
    let _held = zebu_store::Store::open(Arc::clone(&vfs), options()).unwrap();
    let again = zebu_store::Store::open(vfs, options());
    assert!(matches!(again, Err(StoreError::Locked { .. })));
}

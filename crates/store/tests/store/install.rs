//! A leader's snapshot replaces the whole history at once, and no older state returns.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use zebu_proto::{Epoch, Zxid};
use zebu_store::vfs::{Fault, FaultVfs, MemVfs};
use zebu_store::{
    DamageKind, EpochFile, Options, Range, Received, Snapshots, StoreError, Truncated, TxnLog, Vfs,
    Warning, Written, names,
};
use zebu_testkit::told::Told;

use crate::crash::crashes;
use crate::damage::{never, sweep};
use crate::script::{ROOT, Run, case, lives_on, options, recover};

/// A member with a history that its leader does not share.
fn member(options: Options) -> (MemVfs, Run, TxnLog, Snapshots) {
    let disk = MemVfs::new(Path::new(ROOT));
    let (store, ..) = recover(Arc::new(disk.clone()), options).unwrap();
    let (mut log, snapshots) = store.split();
    let mut run = Run::default();
    run.snapshot(&snapshots).unwrap();
    run.write(&mut log, Zxid::new(Epoch(1), 1), 9).unwrap();
    log.roll().unwrap();
    run.snapshot(&snapshots).unwrap();
    run.write(&mut log, run.next(), 6).unwrap();
    run.snapshot(&snapshots).unwrap();
    run.write(&mut log, run.next(), 5).unwrap();
    (disk, run, log, snapshots)
}

/// The history of a leader up to `last`.
fn leader(last: &[(u32, u32)]) -> Run {
    let mut run = Run::default();
    for (epoch, counter) in last {
        for counter in 1..=*counter {
            let zxid = Zxid::new(Epoch(*epoch), counter);
            run.attempted.push((zxid, crate::support::body(zxid, 77)));
        }
    }
    run.acknowledged = run.attempted.len();
    run.salt = 5;
    run
}

/// The position of the leader: behind the member, in a later epoch, and ahead of the member.
const LEADERS: [&[(u32, u32)]; 4] = [&[(1, 25)], &[(1, 12), (2, 3)], &[(1, 11)], &[(1, 15)]];

fn separate() -> Options {
    Options { log_dir: "/srv/logs".into(), ..options() }
}

#[test]
fn a_leaders_snapshot_replaces_everything() {
    for last in LEADERS {
        let (disk, _, mut log, snapshots) = member(options());
        let mut run = leader(last);
        let received = run.received(&snapshots).unwrap();
        assert_eq!(received.zxid(), run.last());
        let written = log.install(received).unwrap();
        assert_eq!((log.appended(), log.durable()), (run.last(), run.last()));
        assert_eq!(snapshots.latest().unwrap().unwrap().path, written.path);
        for path in disk.files() {
            let name = path.file_name().unwrap().to_str().unwrap();
            let data = names::parse_log(name).is_some()
                || names::parse_sidecar(name).is_some()
                || names::parse_snapshot(name).is_some();
            assert!(name.starts_with("old.") || path == written.path || !data, "{name}");
        }
        let (_, history) = reload(&mut log);
        assert_eq!(history.bodies().len(), run.attempted.len());
        run.write(&mut log, Zxid::new(Epoch(9), 1), 4).unwrap();
        drop((log, snapshots));
        lives_on(&disk, &run, &|| format!("{last:?}"));
    }
}

fn reload(log: &mut TxnLog) -> (zebu_store::Recovered, Told) {
    let mut history = Told::default();
    (log.recover(&mut history).unwrap(), history)
}

#[test]
fn a_start_says_that_a_leaders_snapshot_has_replaced_what_was_there() {
    let mut finished = 0;
    for calls in 0.. {
        let (disk, _, mut log, snapshots) = member(options());
        let new = leader(LEADERS[0]);
        disk.stop_at(disk.mutations() + calls);
        let done = new.received(&snapshots).and_then(|received| log.install(received)).is_ok();
        drop((log, snapshots));
        disk.resume();
        let names = disk.files();
        let decided = names.iter().any(|path| path.to_string_lossy().contains("/received."));
        let (_, recovered, _) = recover(Arc::new(disk), options()).unwrap();
        let is_it = |warning: &Warning| matches!(warning, Warning::InstallationFinished { .. });
        assert_eq!(recovered.warnings.iter().any(is_it), decided, "{calls}");
        finished += u32::from(decided);
        if done {
            break;
        }
    }
    assert!(finished > 3);
}

#[test]
fn a_crash_leaves_the_old_state_or_the_leaders() {
    type Install = fn(&mut TxnLog, Received) -> Result<Written, StoreError>;
    let mut cases = 0;
    let of_leaders = LEADERS.into_iter().flat_map(|l| [(l, options()), (l, separate())]);
    let of_leaders = of_leaders.map(|(last, options)| (last, options, TxnLog::install as Install));
    let of_an_operator = (LEADERS[1], options(), TxnLog::restore as Install);
    for (last, options, install) in of_leaders.chain([of_an_operator]) {
        for calls in 0.. {
            let (disk, old, mut log, snapshots) = member(options.clone());
            let new = leader(last);
            disk.stop_at(disk.mutations() + calls);
            let done =
                new.received(&snapshots).and_then(|received| install(&mut log, received)).is_ok();
            drop((log, snapshots));
            for crash in crashes(&disk) {
                let disk = disk.crash(crash);
                let what = || format!("{last:?}: {}", case(calls, crash));
                is_one_of(&disk, &options, &old, &new, done, &what);
                cases += 1;
                // A second crash while a start completes the first installation.
                for calls in (0..).take_while(|_| calls % 4 == 0) {
                    let disk = disk.fork();
                    disk.stop_at(calls);
                    let finished = recover(Arc::new(disk.clone()), options.clone()).is_ok();
                    for crash in crashes(&disk) {
                        let what = || format!("{}, then {}", what(), case(calls, crash));
                        is_one_of(&disk.crash(crash), &options, &old, &new, done, &what);
                        cases += 1;
                    }
                    if finished {
                        break;
                    }
                }
            }
            if done {
                break;
            }
        }
    }
    println!("{cases} crashes");
    assert!(cases > 1_000, "only {cases} crashes");
}

/// A leader's snapshot replaces the files, but an operator who has made a mistake needs the state
/// before it.
#[test]
fn an_operators_snapshot_leaves_what_an_earlier_one_has_replaced() {
    for stays in [true, false] {
        let (disk, _, mut log, snapshots) = member(options());
        for last in [&[(1, 1), (2, 3)], &[(2, 3), (3, 3)]] {
            let received = leader(last).received(&snapshots).unwrap();
            let install = if stays { TxnLog::restore } else { TxnLog::install };
            install(&mut log, received).unwrap();
        }
        let is_first = |path: &PathBuf| path.ends_with("version-2/old.log.100000001");
        assert_eq!(disk.files().iter().any(is_first), stays);
    }
}

fn is_one_of(
    disk: &MemVfs,
    options: &Options,
    old: &Run,
    new: &Run,
    done: bool,
    what: &dyn Fn() -> String,
) {
    let disk = disk.fork();
    let started = recover(Arc::new(disk.clone()), options.clone());
    let (store, recovered, history) = started.unwrap_or_else(|error| panic!("{}: {error}", what()));
    if !done && old.check(&recovered, &history).is_ok() {
        return;
    }
    new.check(&recovered, &history)
        .unwrap_or_else(|broken| panic!("{}: {broken}: {recovered:?}", what()));
    let (mut log, _snapshots) = store.split();
    let mut run = new.clone();
    run.write(&mut log, Zxid::new(Epoch(7), 1), 2).unwrap();
    drop((log, _snapshots));
    let (_, recovered, history) = recover(Arc::new(disk), options.clone()).unwrap();
    run.check(&recovered, &history).unwrap_or_else(|broken| panic!("{}: {broken}", what()));
}

#[test]
fn what_follows_an_installation_is_not_taken_for_what_it_replaced() {
    // With separate directories, making a log durable does not make the snapshot's name durable.
    let (disk, _, mut log, snapshots) = member(separate());
    let mut run = leader(LEADERS[1]);
    log.install(run.received(&snapshots).unwrap()).unwrap();
    run.write(&mut log, Zxid::new(Epoch(3), 1), 6).unwrap();
    for crash in crashes(&disk) {
        let (_, recovered, history) = recover(Arc::new(disk.crash(crash)), separate()).unwrap();
        run.check(&recovered, &history).unwrap_or_else(|broken| panic!("{crash:?}: {broken}"));
    }
}

#[test]
fn a_call_that_fails_leaves_the_old_state_or_the_leaders() {
    let calls = |fault| {
        let (disk, old, log, snapshots) = member(options());
        log.close().unwrap();
        drop(snapshots);
        let vfs = FaultVfs::new(Arc::new(disk.clone()), fault);
        let new = leader(LEADERS[1]);
        let done = recover(Arc::new(vfs.clone()), options()).is_ok_and(|(store, ..)| {
            let (mut log, snapshots) = store.split();
            let Ok(received) = new.received(&snapshots) else { return false };
            let done = log.install(received).is_ok();
            let poisoned = matches!(log.commit(), Err(StoreError::Poisoned { .. }));
            assert_ne!(done, poisoned);
            done
        });
        (disk, old, new, done, vfs.calls())
    };
    let (.., done, all) = calls(None);
    assert!(done && all > 30, "{all} calls");
    for at in 0..all {
        for for_good in [false, true] {
            let kind = std::io::ErrorKind::StorageFull;
            let fault = Fault { at, for_good, kind, half_written: true };
            let (disk, old, new, done, _) = calls(Some(fault));
            for crash in crashes(&disk) {
                let disk = disk.crash(crash);
                let what = || format!("{fault:?}, {crash:?}");
                is_one_of(&disk, &options(), &old, &new, done, &what);
            }
        }
    }
}

#[test]
fn no_damage_behind_an_installation_brings_the_old_state_back() {
    for last in LEADERS {
        let (disk, _, mut log, snapshots) = member(options());
        let mut run = leader(last);
        log.install(run.received(&snapshots).unwrap()).unwrap();
        run.write(&mut log, Zxid::new(Epoch(9), 1), 4).unwrap();
        log.close().unwrap();
        drop(snapshots);
        let [complete, refused, _] = sweep(&disk, &run, &never);
        assert!(complete > 0 && refused > 0, "{complete} complete, {refused} refused");
    }
}

#[test]
fn a_leaders_snapshot_that_is_lost_before_anything_follows_is_missed() {
    let (disk, _, mut log, snapshots) = member(options());
    let run = leader(LEADERS[1]);
    let written = log.install(run.received(&snapshots).unwrap()).unwrap();
    drop((log, snapshots));
    let options = Options { member: true, ..options() };
    let (store, ..) = recover(Arc::new(disk.clone()), options.clone()).unwrap();
    store.epochs().write(EpochFile::Current, Epoch(2)).unwrap();
    drop(store);
    let damage = |disk: MemVfs| {
        recover(Arc::new(disk), options.clone()).unwrap().1.damaged.map(|damage| damage.what)
    };
    assert_eq!(damage(disk.fork()), None);
    let content = disk.content(&written.path).unwrap();
    for cut in [0, 100, content.len() - 1] {
        let disk = disk.fork();
        disk.put(&written.path, &content[..cut]);
        assert_eq!(damage(disk), Some(DamageKind::SnapshotsRejected));
    }
    disk.remove(&written.path).unwrap();
    assert_eq!(damage(disk), Some(DamageKind::HistoryMissing(Epoch(2))));
}

#[test]
fn a_leaders_snapshot_that_is_given_up_leaves_nothing() {
    let (disk, run, log, snapshots) = member(options());
    let files = disk.files();
    drop(leader(LEADERS[1]).received(&snapshots).unwrap());
    assert_eq!(disk.files(), files);
    // Another snapshot with the same zxid at the same time does not disturb it.
    let received = run.received(&snapshots).unwrap();
    run.snapshot(&snapshots).unwrap();
    let mut log = log;
    log.install(received).unwrap();
    drop((log, snapshots));
    lives_on(&disk, &run, &|| "two of one zxid".to_owned());
}

#[test]
fn what_was_replaced_is_kept_until_it_is_surely_of_no_use() {
    let (disk, _, mut log, snapshots) = member(options());
    let olds = || disk.files().iter().filter(|path| is_old(path)).count();
    log.install(leader(LEADERS[0]).received(&snapshots).unwrap()).unwrap();
    assert_eq!(olds(), 7, "three snapshots, two logs and their sidecars");
    let mut run = leader(LEADERS[1]);
    log.install(run.received(&snapshots).unwrap()).unwrap();
    assert_eq!(olds(), 1);
    snapshots.purge(3, &mut |_| true).unwrap();
    assert_eq!(olds(), 1);
    for epoch in 4..6 {
        run.write(&mut log, Zxid::new(Epoch(epoch), 1), 2).unwrap();
        run.snapshot(&snapshots).unwrap();
    }
    snapshots.purge(3, &mut |_| true).unwrap();
    assert_eq!(olds(), 0);
}

fn is_old(path: &Path) -> bool {
    path.file_name().unwrap().to_str().unwrap().starts_with("old.")
}

#[test]
fn a_snapshot_of_the_state_before_does_not_appear() {
    let (_disk, old, mut log, snapshots) = member(options());
    let mut writer = snapshots.begin(old.last()).unwrap();
    writer.sessions(&[]);
    writer.acls::<Vec<zebu_proto::Acl>>(&[]);
    log.install(leader(LEADERS[2]).received(&snapshots).unwrap()).unwrap();
    assert!(matches!(writer.finish(None, None), Err(StoreError::Superseded { .. })));
    assert_eq!(snapshots.latest().unwrap().unwrap().zxid, Zxid::new(Epoch(1), 11));
}

#[test]
fn a_member_that_has_nothing_takes_a_leaders_snapshot() {
    let disk = MemVfs::new(Path::new(ROOT));
    let vfs: Arc<dyn Vfs> = Arc::new(disk.clone());
    let cautious = Options { autocreate_db: false, member: true, ..options() };
    let (store, recovered, _) = recover(vfs, cautious).unwrap();
    assert_eq!(recovered.last_zxid, Zxid(-1));
    let (mut log, snapshots) = store.split();
    let mut run = leader(LEADERS[1]);
    log.install(run.received(&snapshots).unwrap()).unwrap();
    run.write(&mut log, Zxid::new(Epoch(3), 1), 3).unwrap();
    drop((log, snapshots));
    lives_on(&disk, &run, &|| "a new member".to_owned());
}

#[test]
fn a_real_disk_is_truncated_and_replaced() {
    let dir = tempfile::tempdir().unwrap();
    let vfs: Arc<dyn Vfs> = Arc::new(crate::support::Beneath(dir.path().to_path_buf()));
    vfs.create_dir(Path::new(ROOT)).unwrap();
    let mut run = Run::default();
    let (mut log, snapshots) = run.start(&vfs).unwrap();
    run.write(&mut log, Zxid::new(Epoch(1), 1), 30).unwrap();
    log.roll().unwrap();
    run.snapshot(&snapshots).unwrap();
    run.write(&mut log, run.next(), 30).unwrap();
    let mut history = Told::default();
    let truncated = log.truncate(Zxid::new(Epoch(1), 20), &mut history).unwrap();
    assert!(matches!(truncated, Truncated::Reaches(_)));
    run.attempted.truncate(20);
    run.acknowledged = 20;
    run.write(&mut log, Zxid::new(Epoch(2), 1), 10).unwrap();
    let (recovered, history) = reload(&mut log);
    run.check(&recovered, &history).unwrap();

    let mut run = leader(LEADERS[1]);
    log.install(run.received(&snapshots).unwrap()).unwrap();
    run.write(&mut log, Zxid::new(Epoch(3), 1), 10).unwrap();
    let range = Range { after: run.attempted[15].0, up_to: run.last(), bytes_max: u64::MAX };
    let mut history = snapshots.logs().history(range).unwrap();
    while let Some((zxid, body)) = history.next().unwrap() {
        let at = run.attempted.iter().position(|(other, _)| *other == zxid).unwrap();
        assert_eq!(run.attempted[at].1, body);
    }
    // A reader of the history keeps the directory in use.
    drop((log, snapshots, history));
    let (_, recovered, history) = recover(vfs, options()).unwrap();
    run.check(&recovered, &history).unwrap();
}

/// The process ends after so many calls, on a machine that continues: the next start finds the
/// result of each call, durable or not. Then the power fails, during that start or later.
#[test]
fn a_start_makes_durable_what_a_failed_installation_has_only_begun() {
    for options in [options(), separate()] {
        for calls in 0.. {
            let mut is_done = false;
            for later in 0.. {
                let (disk, old, mut log, snapshots) = member(options.clone());
                let mut new = leader(LEADERS[1]);
                disk.stop_at(disk.mutations() + calls);
                let received = new.received(&snapshots);
                is_done = received.and_then(|received| log.install(received)).is_ok();
                drop((log, snapshots));
                disk.resume();
                disk.stop_at(disk.mutations() + later);
                let started = recover(Arc::new(disk.clone()), options.clone());
                let is_started = started.is_ok();
                let mut is_new = false;
                if let Ok((store, _, history)) = started {
                    disk.resume();
                    is_new = history.bodies().len() == new.attempted.len();
                    if is_new {
                        let (mut log, _) = store.split();
                        new.write(&mut log, Zxid::new(Epoch(5), 1), 2).unwrap();
                    }
                }
                for crash in crashes(&disk) {
                    let what = || format!("{calls} calls, then {}", case(later, crash));
                    is_one_of(&disk.crash(crash), &options, &old, &new, is_new, &what);
                }
                if is_started {
                    break;
                }
            }
            if is_done {
                break;
            }
        }
    }
}

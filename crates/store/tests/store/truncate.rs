//! Truncation: nothing after the transaction survives, nothing before it is lost, and a crash
//! leaves the state before or the state after.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use zebu_proto::{Epoch, Zxid};
use zebu_store::log::read::read_log;
use zebu_store::vfs::{Fault, FaultVfs, MemVfs};
use zebu_store::{
    DamageKind, Options, Snapshots, Store, StoreError, Truncated, TxnLog, Vfs, Warning, names,
};

use crate::crash::crashes;
use crate::fixtures::{self, BASIC};
use crate::script::{ROOT, Run, case, finished, lives_on, options, recover};
use zebu_testkit::told::Told;

const DIR: &str = "/srv/data/version-2";

/// A member that has logged more than was committed: logs that end in different ways, snapshots
/// between them, and a file that is still being written.
fn member(vfs: &Arc<dyn Vfs>, run: &mut Run) -> Result<(TxnLog, Snapshots), StoreError> {
    let (mut log, snapshots) = run.start(vfs)?;
    run.write(&mut log, Zxid::new(Epoch(1), 1), 12)?;
    log.roll()?;
    run.snapshot(&snapshots)?;
    run.write(&mut log, run.next(), 9)?;
    log.roll()?;
    run.write(&mut log, Zxid::new(Epoch(3), 1), 8)?;
    run.snapshot(&snapshots)?;
    run.write(&mut log, run.next(), 5)?;
    log.roll()?;
    run.write(&mut log, run.next(), 4)?;
    Ok((log, snapshots))
}

fn prepared() -> (MemVfs, Arc<dyn Vfs>, Run, TxnLog, Snapshots) {
    let disk = MemVfs::new(Path::new(ROOT));
    let vfs: Arc<dyn Vfs> = Arc::new(disk.clone());
    let mut run = Run::default();
    let (log, snapshots) = member(&vfs, &mut run).unwrap();
    (disk, vfs, run, log, snapshots)
}

/// The run as if it had ended at `zxid`.
fn shortened(run: &Run, zxid: Zxid) -> Run {
    let mut run = run.clone();
    run.attempted.retain(|(other, _)| *other <= zxid);
    run.acknowledged = run.attempted.len();
    run
}

/// Every zxid of a record or a snapshot on the disk, by name and content, whatever the sidecars
/// say.
fn on_disk(disk: &MemVfs) -> Vec<Zxid> {
    let mut found = Vec::new();
    for path in disk.files() {
        let name = path.file_name().unwrap().to_str().unwrap();
        if names::parse_log(name).is_some() {
            let content = disk.content(&path).unwrap();
            read_log(&content[..], 1 << 20, &mut |record| found.push(record.zxid)).unwrap();
        }
        found.extend(names::parse_sidecar(name).or(names::parse_log(name)));
        found.extend(names::parse_snapshot(name).map(|(zxid, _)| zxid));
    }
    found
}

fn reaches(truncated: &Truncated) -> Zxid {
    match truncated {
        Truncated::Reaches(recovered) => recovered.last_zxid,
        Truncated::Lost { reason } => panic!("lost: {reason}"),
    }
}

#[test]
fn every_transaction_can_be_the_last() {
    let targets: Vec<Zxid> = prepared().2.attempted.iter().map(|(zxid, _)| *zxid).collect();
    assert_eq!(targets.len(), 38);
    for zxid in targets.into_iter().chain([Zxid::ZERO]) {
        let (disk, vfs, run, mut log, snapshots) = prepared();
        let mut history = Told::default();
        let truncated = log.truncate(zxid, &mut history).unwrap();
        assert_eq!(reaches(&truncated), zxid);
        assert_eq!((log.appended(), log.durable()), (zxid, zxid));
        let mut run = shortened(&run, zxid);
        let Truncated::Reaches(recovered) = truncated else { unreachable!() };
        run.check(&recovered, &history).unwrap();
        let later: Vec<_> = on_disk(&disk).into_iter().filter(|other| *other > zxid).collect();
        assert_eq!(later, [], "{zxid}");
        let left = disk.files().into_iter().filter(|path| path.to_string_lossy().contains("trunc"));
        assert_eq!(left.count(), 0);

        // The next leader's transactions follow.
        run.salt += 1;
        run.write(&mut log, Zxid::new(Epoch(4), 1), 6).unwrap();
        log.close().unwrap();
        drop(snapshots);
        lives_on(&disk, &run, &|| format!("truncated to {zxid}"));
        drop(vfs);
    }
}

#[test]
fn a_stopped_server_is_truncated_as_well() {
    let (disk, run) = finished();
    let zxid = run.attempted[run.attempted.len() - 30].0;
    let mut store = Store::open(Arc::new(disk.clone()), options()).unwrap();
    let mut history = Told::default();
    let truncated = store.truncate(zxid, &mut history).unwrap();
    assert_eq!(reaches(&truncated), zxid);
    let mut run = shortened(&run, zxid);
    // The same directory is read again, without releasing it in between.
    let recovered = store.recover(&mut history).unwrap();
    run.check(&recovered, &history).unwrap();
    let (mut log, _snapshots) = store.split();
    run.write(&mut log, Zxid::new(Epoch(9), 1), 3).unwrap();
    drop((log, _snapshots));
    lives_on(&disk, &run, &|| "truncated while stopped".to_owned());
}

#[test]
fn a_start_says_that_it_took_back_what_a_leader_had_said() {
    let zxid = Zxid::new(Epoch(1), 13);
    let mut finished = 0;
    for calls in 0.. {
        let (disk, vfs, _, mut log, snapshots) = prepared();
        disk.stop_at(disk.mutations() + calls);
        let done = log.truncate(zxid, &mut Told::default()).is_ok();
        drop((log, snapshots));
        disk.resume();
        let decided = disk.files().iter().any(|path| path.ends_with("truncating.10000000d"));
        let (_, recovered, _) = recover(vfs, options()).unwrap();
        let told = recovered.warnings.contains(&Warning::TruncationFinished(zxid));
        assert_eq!(told, decided, "{calls}");
        finished += u32::from(told);
        if done {
            break;
        }
    }
    assert!(finished > 3);
}

#[test]
fn a_crash_during_a_truncation_leaves_the_state_before_or_after() {
    let targets = [
        Zxid::ZERO,
        Zxid::new(Epoch(1), 5),
        // The zxid of a snapshot, and that of the end of a log.
        Zxid::new(Epoch(1), 12),
        Zxid::new(Epoch(1), 13),
        Zxid::new(Epoch(1), 21),
        Zxid::new(Epoch(3), 8),
        Zxid::new(Epoch(3), 10),
        Zxid::new(Epoch(3), 13),
        Zxid::new(Epoch(3), 15),
    ];
    let mut cases = 0;
    for zxid in targets {
        let stopped = |calls: u64| {
            let (disk, _vfs, run, mut log, _snapshots) = prepared();
            disk.stop_at(disk.mutations() + calls);
            let done = log.truncate(zxid, &mut Told::default()).is_ok();
            (disk, run, done)
        };
        for calls in 0.. {
            let (disk, run, done) = stopped(calls);
            let (all, after) = (run.attempted.len(), shortened(&run, zxid));
            for crash in crashes(&disk) {
                let disk = disk.crash(crash);
                let what = || format!("{zxid}: {}", case(calls, crash));
                outcome(&disk, all, &after, done, &what);
                cases += 1;
                if calls % 3 == 0 {
                    cases += second_crashes(&disk, all, &after, done, &what);
                }
            }
            if done {
                break;
            }
        }
    }
    println!("{cases} crashes");
    assert!(cases > 2_000, "only {cases} crashes");
}

/// Starts on the state after a crash. Both states are right, unless the truncation was reported.
fn outcome(disk: &MemVfs, all: usize, after: &Run, done: bool, what: &dyn Fn() -> String) {
    let disk = disk.fork();
    let started = recover(Arc::new(disk.clone()), options());
    let (_, _, history) = started.unwrap_or_else(|error| panic!("{}: {error}", what()));
    let found = history.bodies().len();
    assert!(found == after.attempted.len() || (!done && found == all), "{}: {found}", what());
    if found == after.attempted.len() {
        let later: Vec<_> = on_disk(&disk).into_iter().filter(|z| *z > after.last()).collect();
        assert_eq!(later, [], "{}", what());
        lives_on(&disk, after, what);
    }
}

fn second_crashes(
    disk: &MemVfs,
    all: usize,
    after: &Run,
    done: bool,
    what: &dyn Fn() -> String,
) -> usize {
    let mut cases = 0;
    for calls in 0.. {
        let disk = disk.fork();
        disk.stop_at(calls);
        let finished = recover(Arc::new(disk.clone()), options()).is_ok();
        for crash in crashes(&disk) {
            let what = || format!("{}, then {}", what(), case(calls, crash));
            outcome(&disk.crash(crash), all, after, done, &what);
            cases += 1;
        }
        if finished {
            return cases;
        }
    }
    unreachable!("a start makes a finite number of calls")
}

#[test]
fn a_call_that_fails_during_a_truncation_ends_the_log() {
    let zxid = Zxid::new(Epoch(1), 13);
    let calls = |fault| {
        let disk = MemVfs::new(Path::new(ROOT));
        let vfs = FaultVfs::new(Arc::new(disk.clone()), fault);
        let shared: Arc<dyn Vfs> = Arc::new(vfs.clone());
        let mut run = Run::default();
        let (mut log, snapshots) = member(&shared, &mut run).unwrap();
        let before = vfs.calls();
        let truncated = log.truncate(zxid, &mut Told::default());
        let poisoned = matches!(log.commit(), Err(StoreError::Poisoned { .. }));
        drop((log, snapshots));
        (disk, run, before, vfs.calls(), truncated, poisoned)
    };
    let (.., before, after, truncated, poisoned) = calls(None);
    assert!(truncated.is_ok() && !poisoned);
    let mut lost = 0;
    for at in before..after {
        for for_good in [false, true] {
            let kind = std::io::ErrorKind::StorageFull;
            let (disk, run, _, _, truncated, poisoned) =
                calls(Some(Fault { at, for_good, kind, half_written: true }));
            // An unreadable log does not lead to the transaction; then nothing is changed.
            lost += u32::from(matches!(truncated, Ok(Truncated::Lost { .. })));
            assert_eq!(truncated.is_err(), poisoned, "call {at}");
            let all = run.attempted.len();
            let done = matches!(truncated, Ok(Truncated::Reaches(_)));
            outcome(&disk, all, &shortened(&run, zxid), done, &|| format!("call {at}"));
        }
    }
    assert!(lost > 0);
}

/// A process that ended after so many calls of a truncation, on a machine that continues: the next
/// start finds the result of each of these calls, durable or not.
fn ended(zxid: Zxid, calls: u64) -> (MemVfs, Arc<dyn Vfs>, Run, bool) {
    let (disk, vfs, run, mut log, _snapshots) = prepared();
    disk.stop_at(disk.mutations() + calls);
    let done = log.truncate(zxid, &mut Told::default()).is_ok();
    disk.resume();
    (disk, vfs, run, done)
}

#[test]
fn a_start_makes_durable_what_a_failed_truncation_has_only_begun() {
    let targets = [(1, 5), (1, 13), (1, 21), (3, 10), (3, 15)];
    let mut finished = 0;
    for zxid in targets.map(|(epoch, counter)| Zxid::new(Epoch(epoch), counter)) {
        for calls in 0.. {
            let (disk, vfs, run, done) = ended(zxid, calls);
            let (all, after) = (run.attempted.len(), shortened(&run, zxid));
            let repeated = disk.repeated_syncs();
            let (_, recovered, _) = recover(vfs, options()).unwrap();
            if recovered.warnings.contains(&Warning::TruncationFinished(zxid)) {
                finished += 1;
                assert_eq!(disk.repeated_syncs(), repeated, "{zxid}: {calls}");
                for crash in crashes(&disk) {
                    let what = || format!("{zxid}: {}", case(calls, crash));
                    outcome(&disk.crash(crash), all, &after, true, &what);
                }
            }
            if done {
                break;
            }
        }
    }
    assert!(finished > 20, "a start finished only {finished} truncations");
}

/// The truncation has shortened the sidecar, and not the log. A copy of the directory may lack the
/// mark that a start needs to finish the truncation.
#[test]
fn what_a_leader_has_cut_does_not_return_without_the_mark_of_the_truncation() {
    let zxid = Zxid::new(Epoch(1), 13);
    let mut refused = 0;
    for calls in 0.. {
        let (disk, vfs, run, done) = ended(zxid, calls);
        let all = run.attempted.len();
        for name in names_of(&disk, "truncating.") {
            disk.remove(&Path::new(DIR).join(name)).unwrap();
        }
        match recover(vfs, options()) {
            Ok((_, _, history)) if done => assert_eq!(history.bodies().len(), all - 25),
            // Files that the truncation would have removed next may still be there.
            Ok((_, _, history)) => assert!(history.bodies().len() >= all - 25),
            Err(StoreError::Damaged(damage)) => {
                assert!(!done, "{calls}: {damage}");
                refused += u32::from(damage.what == DamageKind::BehindEnd { last: zxid });
            }
            Err(error) => panic!("{calls}: {error}"),
        }
        if done {
            break;
        }
    }
    assert!(refused > 0);
}

#[test]
fn a_power_cut_may_interrupt_the_start_that_finishes_a_failed_truncation() {
    let zxid = Zxid::new(Epoch(1), 13);
    let mut cases = 0;
    // False when the truncation, or the start after it, was not interrupted.
    let mut interrupted = |calls: u64, later: u64| {
        let (disk, vfs, run, done) = ended(zxid, calls);
        disk.stop_at(disk.mutations() + later);
        let is_interrupted = recover(vfs, options()).is_err();
        for crash in crashes(&disk) {
            let what = || format!("{calls} calls, then {}", case(later, crash));
            outcome(&disk.crash(crash), run.attempted.len(), &shortened(&run, zxid), done, &what);
            cases += 1;
        }
        !done && is_interrupted
    };
    for calls in 0.. {
        if !interrupted(calls, 0) {
            break;
        }
        for later in 1.. {
            if !interrupted(calls, later) {
                break;
            }
        }
    }
    assert!(cases > 1_000, "only {cases} crashes");
}

#[test]
fn snapshots_that_a_failed_truncation_has_removed_do_not_return_to_a_directory_of_their_own() {
    let two_dirs = || Options { log_dir: "/srv/logs".into(), ..options() };
    let zxid = Zxid(5);
    for calls in 0.. {
        let disk = MemVfs::new(Path::new(ROOT));
        let vfs: Arc<dyn Vfs> = Arc::new(disk.clone());
        let mut run = Run::default();
        let (store, ..) = recover(Arc::clone(&vfs), two_dirs()).unwrap();
        let (mut log, snapshots) = store.split();
        run.snapshot(&snapshots).unwrap();
        run.write(&mut log, Zxid(1), 8).unwrap();
        run.snapshot(&snapshots).unwrap();
        disk.stop_at(disk.mutations() + calls);
        let done = log.truncate(zxid, &mut Told::default()).is_ok();
        disk.resume();
        drop((log, snapshots));
        let last = recover(vfs, two_dirs()).unwrap().1.last_zxid;
        for crash in crashes(&disk) {
            let disk = disk.crash(crash);
            let (_, recovered, _) = recover(Arc::new(disk.clone()), two_dirs()).unwrap();
            assert_eq!(recovered.last_zxid, last, "{}", case(calls, crash));
            let is_later = disk.files().contains(&Path::new(DIR).join("snapshot.8"));
            assert_eq!(is_later, last > zxid, "{}", case(calls, crash));
        }
        if done {
            assert_eq!(last, zxid);
            break;
        }
    }
}

#[test]
fn a_snapshot_with_traces_of_later_transactions_is_not_used() {
    // The snapshot was begun at 1.12 and finished when 1.16 was applied, so its state is fuzzy.
    let fuzzy = |zxid: u32| {
        let disk = MemVfs::new(Path::new(ROOT));
        let vfs: Arc<dyn Vfs> = Arc::new(disk.clone());
        let mut run = Run::default();
        let (mut log, snapshots) = run.start(&vfs).unwrap();
        run.write(&mut log, Zxid::new(Epoch(1), 1), 12).unwrap();
        let mut writer = snapshots.begin(run.last()).unwrap();
        writer.sessions(&[]);
        writer.acls::<Vec<zebu_proto::Acl>>(&[]);
        run.write(&mut log, run.next(), 4).unwrap();
        for (zxid, body) in &run.attempted[..12] {
            writer.node(&format!("/{zxid}"), Some(body), -1, &Default::default());
        }
        writer.finish(Some((run.last(), 0)), Some(run.last())).unwrap();
        run.write(&mut log, run.next(), 4).unwrap();
        let mut history = Told::default();
        let zxid = Zxid::new(Epoch(1), zxid);
        let Truncated::Reaches(recovered) = log.truncate(zxid, &mut history).unwrap() else {
            panic!("{zxid} is lost")
        };
        shortened(&run, zxid).check(&recovered, &history).unwrap();
        let left = disk.content(&Path::new(DIR).join("snapshot.10000000c")).is_some();
        assert_eq!(left, recovered.snapshot == Some(Zxid::new(Epoch(1), 12)));
        left
    };
    assert!(!fuzzy(14));
    assert!(!fuzzy(15));
    assert!(fuzzy(16));
    assert!(fuzzy(17));
}

#[test]
fn a_snapshot_of_a_state_that_was_truncated_does_not_appear() {
    let (disk, _vfs, run, mut log, snapshots) = prepared();
    let mut writer = snapshots.begin(run.last()).unwrap();
    writer.sessions(&[]);
    writer.acls::<Vec<zebu_proto::Acl>>(&[]);
    log.truncate(Zxid::new(Epoch(3), 10), &mut Told::default()).unwrap();
    let files = disk.files();
    let finished = writer.finish(None, Some(run.last()));
    assert!(matches!(finished, Err(StoreError::Superseded { .. })), "{finished:?}");
    let left: Vec<PathBuf> = disk.files();
    assert!(left.iter().all(|path| files.contains(path)));
    assert!(!left.iter().any(|path| path.to_string_lossy().contains("tmp.")));
}

#[test]
fn a_truncation_that_cannot_be_finished_is_damage_until_a_leader_repairs_it() {
    let (disk, vfs, run, mut log, snapshots) = prepared();
    let zxid = Zxid::new(Epoch(3), 10);
    // The truncation stops when the mark is durable and a snapshot is removed; then the disk loses
    // a needed file.
    disk.stop_at(disk.mutations() + 9);
    log.truncate(zxid, &mut Told::default()).unwrap_err();
    drop((log, snapshots, vfs));
    disk.resume();
    let mark = Path::new(DIR).join(names_of(&disk, "truncating.").pop().expect("it was begun"));
    disk.remove(&Path::new(DIR).join("log.10000000d")).unwrap();
    disk.remove(&Path::new(DIR).join("snapshot.300000008")).unwrap();
    let refused = recover(Arc::new(disk.clone()), options()).unwrap_err();
    assert!(matches!(refused, StoreError::Damaged(_)), "{refused}");

    let member = Options { member: true, ..options() };
    let (store, recovered, history) = recover(Arc::new(disk.clone()), member).unwrap();
    assert!(recovered.damaged.is_some() && history.bodies().is_empty());
    let (mut log, snapshots) = store.split();
    let mut leader = shortened(&run, zxid);
    leader.salt += 1;
    log.install(leader.received(&snapshots).unwrap()).unwrap();
    assert_eq!(disk.content(&mark), None);
    leader.write(&mut log, Zxid::new(Epoch(4), 1), 3).unwrap();
    drop((log, snapshots));
    lives_on(&disk, &leader, &|| "repaired".to_owned());
}

/// The names that start with `prefix`.
fn names_of(disk: &MemVfs, prefix: &str) -> Vec<String> {
    let files = disk.files();
    let names = files.iter().map(|path| path.file_name().unwrap().to_str().unwrap().to_owned());
    names.filter(|name| name.starts_with(prefix)).collect()
}

#[test]
fn what_does_not_lead_to_the_transaction_is_lost_and_left_alone() {
    let before = |disk: &MemVfs| -> Vec<_> {
        disk.files().into_iter().map(|path| (disk.content(&path), path)).collect()
    };
    let lost = |change: &dyn Fn(&MemVfs), zxid: Zxid| {
        let (disk, ..) = {
            let (disk, vfs, run, log, snapshots) = prepared();
            log.close().unwrap();
            drop((vfs, snapshots));
            (disk, run)
        };
        change(&disk);
        let files = before(&disk);
        let mut store = Store::open(Arc::new(disk.clone()), options()).unwrap();
        let truncated = store.truncate(zxid, &mut Told::default()).unwrap();
        assert!(matches!(truncated, Truncated::Lost { .. }), "{zxid}: {truncated:?}");
        assert_eq!(before(&disk), files, "{zxid}");
    };
    let nothing = |_: &MemVfs| ();
    // Transactions that this member does not have.
    lost(&nothing, Zxid::new(Epoch(1), 22));
    lost(&nothing, Zxid::new(Epoch(2), 0));
    lost(&nothing, Zxid::new(Epoch(3), 18));
    // A log before it is missing, and the snapshot after it has later transactions.
    let at = |name: &str| Path::new(DIR).join(name);
    lost(&|disk| disk.remove(&at("log.10000000d")).unwrap(), Zxid::new(Epoch(1), 20));
    // Damage before the transaction, and after it in the same log.
    for offset in [100, 400] {
        let damage = |disk: &MemVfs| {
            let mut content = disk.content(&at("log.10000000d")).unwrap();
            content[offset] ^= 1;
            disk.put(&at("log.10000000d"), &content);
        };
        lost(&damage, Zxid::new(Epoch(1), 15));
    }
}

#[test]
fn a_transaction_that_only_a_snapshot_has_can_be_the_last() {
    // ZooKeeper keeps the first transaction after it, because the log has no record at or before
    // it.
    let (disk, vfs, run, mut log, snapshots) = prepared();
    let mut leader = shortened(&run, Zxid::new(Epoch(1), 5));
    log.install(leader.received(&snapshots).unwrap()).unwrap();
    leader.salt += 1;
    let committed = leader.clone();
    leader.write(&mut log, Zxid::new(Epoch(2), 1), 3).unwrap();
    let mut history = Told::default();
    let truncated = log.truncate(Zxid::new(Epoch(1), 5), &mut history).unwrap();
    assert_eq!(reaches(&truncated), Zxid::new(Epoch(1), 5));
    assert_eq!(history.bodies().len(), 5);
    drop((log, snapshots, vfs));
    lives_on(&disk, &committed, &|| "truncated to a snapshot".to_owned());
}

/// Truncates a directory of the original. Returns its transactions after that, or `None` if the
/// state is lost.
fn of_the_original(disk: &MemVfs, zxid: i64) -> Option<(Option<Zxid>, Vec<i64>)> {
    let options = Options::new("/data");
    let mut store = Store::open(Arc::new(disk.clone()), options.clone()).unwrap();
    let truncated = store.truncate(Zxid(zxid), &mut Told::default()).unwrap();
    drop(store);
    let Truncated::Reaches(recovered) = truncated else { return None };
    let mut told = Told::default();
    let mut store = Store::open(Arc::new(disk.clone()), options).unwrap();
    let again = store.recover(&mut told).unwrap();
    assert_eq!((again.last_zxid, recovered.last_zxid), (Zxid(zxid), Zxid(zxid)));
    assert_eq!(again.snapshot, recovered.snapshot);
    assert!(on_disk(disk).iter().all(|other| other.0 <= zxid));
    Some((again.snapshot, told.zxids()))
}

#[test]
fn directories_of_the_original_are_truncated() {
    // A snapshot of 3.8.0 does not reliably show which effects it may contain, so a leader has to
    // send one.
    for zxid in [0x1, 0x3c, 0x3d] {
        assert_eq!(of_the_original(&fixtures::disk(&[BASIC]), zxid), None);
    }
    // A snapshot of 3.9.5 shows it. It may also contain a transaction that was being applied when
    // the snapshot ended.
    let disk = || fixtures::disk(&["zookeeper-3.9.5/basic/version-2"]);
    let log = Path::new("/data/version-2/log.49");
    let golden = disk().content(log).unwrap();
    assert_eq!(of_the_original(&disk(), 0x4a), Some((Some(Zxid(0x48)), vec![0x49, 0x4a])));
    let truncated = disk();
    assert_eq!(of_the_original(&truncated, 0x49), Some((Some(Zxid(0x48)), vec![0x49])));
    // The remaining transactions are unchanged, and none follows them.
    let left = truncated.content(log).unwrap();
    let mut records = Vec::new();
    let (end, _) = read_log(&golden[..], 1 << 20, &mut |record| records.push(record.end)).unwrap();
    assert!(records.len() == 3 && end.offset == records[2]);
    assert_eq!(left, golden[..records[0] as usize]);
    assert_eq!(of_the_original(&disk(), 0x48), None);
    // Overlapping logs, for example after a manual copy: only one of them could be cut.
    let overlapping = disk();
    let rest = [&golden[..16], &golden[records[0] as usize..]].concat();
    overlapping.put(Path::new("/data/version-2/log.4a"), &rest);
    assert_eq!(of_the_original(&overlapping, 0x4a), None);
    assert_eq!(overlapping.content(log), Some(golden));
}

//! Damaged logs are repaired with the records of other members.

use std::ops::ControlFlow;
use std::path::Path;
use std::sync::Arc;

use zebu_proto::quorum::Missing;
use zebu_proto::{Epoch, Zxid};
use zebu_store::log::sidecar::Mark;
use zebu_store::log_repair::{self, DamagedLog, Repaired, zxid_of};
use zebu_store::vfs::{Crash, MemVfs, Names, Unsynced};
use zebu_store::{LogFiles, Options, Snapshots, Store, TxnLog, Vfs as _, names};

use crate::damage::{damages, one_log};
use crate::script::{Run, options, recover};

const RECORD_BYTES_MAX: usize = 1 << 20;

fn member() -> Options {
    Options { member: true, ..options() }
}

/// A member's start on a damaged disk, and the logs to repair.
fn with_damage(disk: &MemVfs) -> Option<(TxnLog, Snapshots, Vec<DamagedLog>)> {
    let mut state = zebu_testkit::told::Told::default();
    let mut store = Store::open(Arc::new(disk.clone()), member()).unwrap();
    let damage = store.recover(&mut state).unwrap().damaged?;
    let (log, snapshots) = store.split();
    let damaged_logs = snapshots.logs().damaged_logs(&damage).unwrap();
    Some((log, snapshots, damaged_logs))
}

/// Offers the missing transactions that are whole at another member.
fn ask(damaged: &mut DamagedLog, other: &MemVfs, log: &Path) {
    let missing = damaged.missing();
    let mut offer = |record: zebu_store::log::read::LogRecord<'_>| {
        damaged.offer(record.zxid, record.body);
        ControlFlow::Continue(())
    };
    let dir = log.parent().unwrap();
    log_repair::whole_records(other, dir, &missing, RECORD_BYTES_MAX, &mut offer).unwrap();
}

/// Repairs a log from an undamaged member, as the driver does it.
fn repairs(files: &LogFiles, mut damaged: DamagedLog, other: &MemVfs, log: &Path) -> Repaired {
    for _ in 0..2 {
        ask(&mut damaged, other, log);
        if damaged.is_filled() {
            let what = files.repair(&damaged).unwrap();
            if what != Repaired::Differs {
                return what;
            }
        }
        // Another record is in the place of a record.
        damaged.begin_anew();
    }
    Repaired::Differs
}

fn end_of(disk: &MemVfs, log: &Path) -> usize {
    let first = names::parse_log(log.file_name().unwrap().to_str().unwrap()).unwrap();
    let sidecar = disk.content(&log.with_file_name(names::sidecar(first))).unwrap();
    Mark::read(&sidecar).unwrap().end as usize
}

fn is_whole(disk: &MemVfs, run: &Run, what: &str) {
    let (_, recovered, history) = recover(Arc::new(disk.fork()), member()).unwrap();
    assert_eq!(recovered.damaged, None, "{what}");
    run.check(&recovered, &history).unwrap_or_else(|broken| panic!("{what}: {broken}"));
}

#[test]
fn whatever_is_damaged_in_a_log_is_made_what_it_was() {
    let (whole, run, path) = one_log(true);
    let original = whole.content(&path).unwrap();
    let end = end_of(&whole, &path);
    let mut repaired = 0;
    for (what, content) in damages(&original[..end]) {
        let disk = whole.fork();
        match content {
            Some(content) => disk.put(&path, &content),
            None => disk.remove(&path).unwrap(),
        }
        let Some((_log, snapshots, mut damaged_logs)) = with_damage(&disk) else {
            panic!("{what}: a start accepts it");
        };
        assert_eq!(damaged_logs.len(), 1, "{what}");
        let damaged = damaged_logs.remove(0);
        assert!(damaged.missing_bytes() <= end as u64, "{what}");
        assert_eq!(repairs(&snapshots.logs(), damaged, &whole, &path), Repaired::Whole, "{what}");
        assert_eq!(disk.content(&path).unwrap()[..end], original[..end], "{what}");
        is_whole(&disk, &run, &what);
        repaired += 1;
    }
    assert!(repaired > 1000, "{repaired}");
}

/// A record in the place of an earlier one leaves a gap to which no transaction belongs.
#[test]
fn a_sector_that_was_written_to_another_place_is_made_what_it_was() {
    let (whole, run, path) = one_log(true);
    let original = whole.content(&path).unwrap();
    let end = end_of(&whole, &path);
    let sectors: Vec<usize> = (0..end / 512).map(|number| number * 512).collect();
    let mut repaired = 0;
    let pairs = sectors.iter().flat_map(|to| sectors.iter().map(move |from| (*to, *from)));
    // A part of them, in which each sector occurs.
    for (to, from) in pairs.filter(|(to, from)| (to + from) / 512 % 16 == 1) {
        let mut content = original.clone();
        content.copy_within(from..from + 512, to);
        if content == original {
            continue;
        }
        let disk = whole.fork();
        disk.put(&path, &content);
        let what = format!("{from} at {to}");
        let Some((_log, snapshots, mut damaged_logs)) = with_damage(&disk) else {
            panic!("{what}: a start accepts it");
        };
        let damaged = damaged_logs.remove(0);
        assert!(!damaged.lacks().is_empty(), "{what}");
        assert_eq!(repairs(&snapshots.logs(), damaged, &whole, &path), Repaired::Whole, "{what}");
        assert_eq!(disk.content(&path).unwrap()[..end], original[..end], "{what}");
        repaired += 1;
        if repaired % 10 == 0 {
            is_whole(&disk, &run, &what);
        }
    }
    assert!(repaired > 20, "{repaired}");
}

/// Three members with the same transactions, each damaged at other places, repair each other.
#[test]
fn members_with_damage_at_different_places_repair_each_other() {
    let (whole, run, path) = one_log(true);
    let original = whole.content(&path).unwrap();
    let end = end_of(&whole, &path);
    let disks: Vec<MemVfs> = (0..3)
        .map(|number| {
            let disk = whole.fork();
            let mut content = original.clone();
            // Every ninth part is damaged at one of them.
            for part in (number..27).step_by(9) {
                let from = 16 + (end - 16) * part / 27;
                content[from..from + 300].fill(if part % 2 == 0 { 0 } else { 0xa5 });
            }
            disk.put(&path, &content);
            disk
        })
        .collect();
    let mut members: Vec<_> = disks.iter().map(|disk| with_damage(disk).unwrap()).collect();
    for (number, (_, snapshots, damaged_logs)) in members.iter_mut().enumerate() {
        let mut damaged = damaged_logs.remove(0);
        assert_eq!(damaged.missing().len(), 3);
        for other in (0..3).filter(|other| *other != number) {
            ask(&mut damaged, &disks[other], &path);
        }
        assert_eq!(snapshots.logs().repair(&damaged).unwrap(), Repaired::Whole);
        is_whole(&disks[number], &run, "repaired");
    }
}

#[test]
fn what_was_not_here_is_refused() {
    let (whole, run, path) = one_log(true);
    let disk = whole.fork();
    let mut content = disk.content(&path).unwrap();
    content[3000..3200].fill(0);
    disk.put(&path, &content);
    let (_log, snapshots, mut damaged_logs) = with_damage(&disk).unwrap();
    let (files, mut damaged) = (snapshots.logs(), damaged_logs.remove(0));
    let missing = damaged.missing();
    assert_eq!(missing.len(), 1);
    // Other transactions of the same length.
    let mut offer = |record: zebu_store::log::read::LogRecord<'_>| {
        let mut body = record.body.to_vec();
        *body.last_mut().unwrap() ^= 1;
        damaged.offer(record.zxid, &body);
        // Records that are not missing, or that do not fit, are refused.
        damaged.offer(Zxid(1), record.body);
        damaged.offer(Zxid(i64::MAX), record.body);
        damaged.offer(record.zxid, record.body);
        ControlFlow::Continue(())
    };
    let dir = path.parent().unwrap();
    log_repair::whole_records(&whole, dir, &missing, RECORD_BYTES_MAX, &mut offer).unwrap();
    assert!(damaged.is_filled());
    assert_eq!(files.repair(&damaged).unwrap(), Repaired::Differs);
    assert_eq!(disk.content(&path).unwrap(), content, "the damaged log stays");
    damaged.offer(missing[0].up_to, &vec![0; 1 << 20]);
    damaged.begin_anew();
    damaged.begin_anew();
    assert_eq!((damaged.missing(), damaged.lacks()), (missing.clone(), missing));
    assert_eq!(repairs(&files, damaged, &whole, &path), Repaired::Whole);
    is_whole(&disk, &run, "repaired in the end");
    assert_eq!((zxid_of(&[0; 31]), zxid_of(&[0; 32])), (None, Some(Zxid::ZERO)));
}

#[test]
fn a_leaders_snapshot_makes_it_needless() {
    let (whole, _, path) = one_log(true);
    let disk = whole.fork();
    let mut content = disk.content(&path).unwrap();
    content[3000..3200].fill(0);
    disk.put(&path, &content);
    let (mut log, snapshots, mut damaged_logs) = with_damage(&disk).unwrap();
    let mut leader = Run { salt: 9, ..Run::default() };
    leader
        .attempted
        .push((Zxid::new(Epoch(6), 1), crate::support::body(Zxid::new(Epoch(6), 1), 3)));
    log.install(leader.received(&snapshots).unwrap()).unwrap();
    assert!(!snapshots.logs().is_untrusted());
    let mut damaged = damaged_logs.remove(0);
    ask(&mut damaged, &whole, &path);
    // Its log has another name now.
    assert!(snapshots.logs().repair(&damaged).is_ok_and(|what| what != Repaired::Whole));
    assert!(disk.content(&path).is_none());
}

#[test]
fn a_power_cut_leaves_the_damaged_log_or_the_repaired_one() {
    let (whole, run, path) = one_log(true);
    let mut content = whole.content(&path).unwrap();
    content[3000..3200].fill(0);
    whole.put(&path, &content);
    let (sound, ..) = one_log(true);
    let mut outcomes = [0; 2];
    for calls in 0..20 {
        for left in [Unsynced::Lost, Unsynced::Kept, Unsynced::Torn(1)] {
            for names in [Names::Lost, Names::Kept, Names::Subset(1), Names::Subset(2)] {
                let disk = whole.fork();
                let (_log, snapshots, mut damaged_logs) = with_damage(&disk).unwrap();
                let mut damaged = damaged_logs.remove(0);
                ask(&mut damaged, &sound, &path);
                disk.stop_at(disk.mutations() + calls);
                let done =
                    snapshots.logs().repair(&damaged).is_ok_and(|what| what == Repaired::Whole);
                let after = disk.crash(Crash { content: left, names });
                match with_damage(&after) {
                    Some((_log, snapshots, mut damaged_logs)) => {
                        assert!(!done, "{calls}: it was durable");
                        let damaged = damaged_logs.remove(0);
                        assert_eq!(
                            repairs(&snapshots.logs(), damaged, &sound, &path),
                            Repaired::Whole
                        );
                        outcomes[0] += 1;
                    }
                    None => outcomes[1] += 1,
                }
                is_whole(&after, &run, "after a power cut");
            }
        }
    }
    assert!(outcomes[0] > 10 && outcomes[1] > 10, "{outcomes:?}");
}

#[test]
fn only_what_was_asked_for_is_handed_out_also_from_behind_damage() {
    let (disk, _, path) = one_log(true);
    let mut content = disk.content(&path).unwrap();
    content[16..19].fill(7);
    disk.put(&path, &content);
    let dir = path.parent().unwrap();
    let read = |missing: &[Missing], most: usize| {
        let mut found = Vec::new();
        let mut take = |record: zebu_store::log::read::LogRecord<'_>| {
            found.push(record.zxid.0);
            if found.len() == most { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        };
        log_repair::whole_records(&disk, dir, missing, RECORD_BYTES_MAX, &mut take).unwrap();
        found
    };
    let some = [(0, 3), (9, 12), (398, 1000)]
        .map(|(after, up_to)| Missing { after: Zxid(after), up_to: Zxid(up_to) });
    assert_eq!(read(&some, 100), [2, 3, 10, 11, 12, 399, 400]);
    assert_eq!(read(&some, 3), [2, 3, 10]);
    assert_eq!(read(&[], 3), [0; 0]);
}

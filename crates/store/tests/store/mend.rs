//! Damaged logs are repaired with the records of other members.

use std::ops::ControlFlow;
use std::path::Path;
use std::sync::Arc;

use zebu_proto::quorum::Missing;
use zebu_proto::{Epoch, Zxid};
use zebu_store::log::sidecar::Mark;
use zebu_store::mend::{self, Mended, Wound, zxid_of};
use zebu_store::vfs::{Crash, MemVfs, Names, Unsynced};
use zebu_store::{LogFiles, Options, Snapshots, Store, TxnLog, Vfs as _, names};

use crate::damage::{damages, one_log};
use crate::script::{Run, options, recover};

const RECORD_BYTES_MAX: usize = 1 << 20;

fn member() -> Options {
    Options { member: true, ..options() }
}

/// A member's start on a damaged disk, and the logs to repair.
fn wounded(disk: &MemVfs) -> Option<(TxnLog, Snapshots, Vec<Wound>)> {
    let mut state = crate::script::History::default();
    let mut store = Store::open(Arc::new(disk.clone()), member()).unwrap();
    let damage = store.recover(&mut state).unwrap().damaged?;
    let (log, snapshots) = store.split();
    let wounds = snapshots.logs().wounds(&damage).unwrap();
    Some((log, snapshots, wounds))
}

/// Offers the missing transactions that are whole at another member.
fn ask(wound: &mut Wound, other: &MemVfs, log: &Path) {
    let missing = wound.missing();
    let mut offer = |record: zebu_store::log::read::LogRecord<'_>| {
        wound.offer(record.zxid, record.body);
        ControlFlow::Continue(())
    };
    let dir = log.parent().unwrap();
    mend::whole_records(other, dir, &missing, RECORD_BYTES_MAX, &mut offer).unwrap();
}

/// Repairs a log from an undamaged member, as the driver does it.
fn mends(files: &LogFiles, mut wound: Wound, other: &MemVfs, log: &Path) -> Mended {
    for _ in 0..2 {
        ask(&mut wound, other, log);
        if wound.is_filled() {
            let what = files.mend(&wound).unwrap();
            if what != Mended::Differs {
                return what;
            }
        }
        // Another record is in the place of a record.
        wound.begin_anew();
    }
    Mended::Differs
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
    let mut mended = 0;
    for (what, content) in damages(&original[..end]) {
        let disk = whole.fork();
        match content {
            Some(content) => disk.put(&path, &content),
            None => disk.remove(&path).unwrap(),
        }
        let Some((_log, snapshots, mut wounds)) = wounded(&disk) else {
            panic!("{what}: a start accepts it");
        };
        assert_eq!(wounds.len(), 1, "{what}");
        let wound = wounds.remove(0);
        assert!(wound.missing_bytes() <= end as u64, "{what}");
        assert_eq!(mends(&snapshots.logs(), wound, &whole, &path), Mended::Whole, "{what}");
        assert_eq!(disk.content(&path).unwrap()[..end], original[..end], "{what}");
        is_whole(&disk, &run, &what);
        mended += 1;
    }
    assert!(mended > 1000, "{mended}");
}

/// A record in the place of an earlier one leaves a gap to which no transaction belongs.
#[test]
fn a_sector_that_was_written_to_another_place_is_made_what_it_was() {
    let (whole, run, path) = one_log(true);
    let original = whole.content(&path).unwrap();
    let end = end_of(&whole, &path);
    let sectors: Vec<usize> = (0..end / 512).map(|number| number * 512).collect();
    let mut mended = 0;
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
        let Some((_log, snapshots, mut wounds)) = wounded(&disk) else {
            panic!("{what}: a start accepts it");
        };
        let wound = wounds.remove(0);
        assert!(!wound.lacks().is_empty(), "{what}");
        assert_eq!(mends(&snapshots.logs(), wound, &whole, &path), Mended::Whole, "{what}");
        assert_eq!(disk.content(&path).unwrap()[..end], original[..end], "{what}");
        mended += 1;
        if mended % 10 == 0 {
            is_whole(&disk, &run, &what);
        }
    }
    assert!(mended > 20, "{mended}");
}

/// Three members with the same transactions, each damaged at other places, repair each other.
#[test]
fn members_with_damage_at_different_places_mend_each_other() {
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
    let mut members: Vec<_> = disks.iter().map(|disk| wounded(disk).unwrap()).collect();
    for (number, (_, snapshots, wounds)) in members.iter_mut().enumerate() {
        let mut wound = wounds.remove(0);
        assert_eq!(wound.missing().len(), 3);
        for other in (0..3).filter(|other| *other != number) {
            ask(&mut wound, &disks[other], &path);
        }
        assert_eq!(snapshots.logs().mend(&wound).unwrap(), Mended::Whole);
        is_whole(&disks[number], &run, "mended");
    }
}

#[test]
fn what_was_not_here_is_refused() {
    let (whole, run, path) = one_log(true);
    let disk = whole.fork();
    let mut content = disk.content(&path).unwrap();
    content[3000..3200].fill(0);
    disk.put(&path, &content);
    let (_log, snapshots, mut wounds) = wounded(&disk).unwrap();
    let (files, mut wound) = (snapshots.logs(), wounds.remove(0));
    let missing = wound.missing();
    assert_eq!(missing.len(), 1);
    // Other transactions of the same length.
    let mut offer = |record: zebu_store::log::read::LogRecord<'_>| {
        let mut body = record.body.to_vec();
        *body.last_mut().unwrap() ^= 1;
        wound.offer(record.zxid, &body);
        // Records that are not missing, or that do not fit, are refused.
        wound.offer(Zxid(1), record.body);
        wound.offer(Zxid(i64::MAX), record.body);
        wound.offer(record.zxid, record.body);
        ControlFlow::Continue(())
    };
    let dir = path.parent().unwrap();
    mend::whole_records(&whole, dir, &missing, RECORD_BYTES_MAX, &mut offer).unwrap();
    assert!(wound.is_filled());
    assert_eq!(files.mend(&wound).unwrap(), Mended::Differs);
    assert_eq!(disk.content(&path).unwrap(), content, "the damaged log stays");
    wound.offer(missing[0].up_to, &vec![0; 1 << 20]);
    wound.begin_anew();
    wound.begin_anew();
    assert_eq!((wound.missing(), wound.lacks()), (missing.clone(), missing));
    assert_eq!(mends(&files, wound, &whole, &path), Mended::Whole);
    is_whole(&disk, &run, "mended in the end");
    assert_eq!((zxid_of(&[0; 31]), zxid_of(&[0; 32])), (None, Some(Zxid::ZERO)));
}

#[test]
fn a_leaders_snapshot_makes_it_needless() {
    let (whole, _, path) = one_log(true);
    let disk = whole.fork();
    let mut content = disk.content(&path).unwrap();
    content[3000..3200].fill(0);
    disk.put(&path, &content);
    let (mut log, snapshots, mut wounds) = wounded(&disk).unwrap();
    let mut leader = Run { salt: 9, ..Run::default() };
    leader
        .attempted
        .push((Zxid::new(Epoch(6), 1), crate::support::body(Zxid::new(Epoch(6), 1), 3)));
    log.install(leader.received(&snapshots).unwrap()).unwrap();
    assert!(!snapshots.logs().is_untrusted());
    let mut wound = wounds.remove(0);
    ask(&mut wound, &whole, &path);
    // Its log has another name now.
    assert!(snapshots.logs().mend(&wound).is_ok_and(|what| what != Mended::Whole));
    assert!(disk.content(&path).is_none());
}

#[test]
fn a_power_cut_leaves_the_damaged_log_or_the_mended_one() {
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
                let (_log, snapshots, mut wounds) = wounded(&disk).unwrap();
                let mut wound = wounds.remove(0);
                ask(&mut wound, &sound, &path);
                disk.stop_at(disk.mutations() + calls);
                let done = snapshots.logs().mend(&wound).is_ok_and(|what| what == Mended::Whole);
                let after = disk.crash(Crash { content: left, names });
                match wounded(&after) {
                    Some((_log, snapshots, mut wounds)) => {
                        assert!(!done, "{calls}: it was durable");
                        let wound = wounds.remove(0);
                        assert_eq!(mends(&snapshots.logs(), wound, &sound, &path), Mended::Whole);
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
        mend::whole_records(&disk, dir, missing, RECORD_BYTES_MAX, &mut take).unwrap();
        found
    };
    let some = [(0, 3), (9, 12), (398, 1000)]
        .map(|(after, up_to)| Missing { after: Zxid(after), up_to: Zxid(up_to) });
    assert_eq!(read(&some, 100), [2, 3, 10, 11, 12, 399, 400]);
    assert_eq!(read(&some, 3), [2, 3, 10]);
    assert_eq!(read(&[], 3), [0; 0]);
}

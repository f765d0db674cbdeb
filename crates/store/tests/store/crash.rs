//! Power cuts: every changing call is a stopping point, and every unsynced write is lost, kept,
//! torn or scattered, also in each file in another way, and a sector that was being written is
//! mixed or unreadable. The store always starts again, with every acknowledged transaction, in
//! order.

use std::path::Path;
use std::sync::Arc;

use zebu_store::Vfs;
use zebu_store::log::read::{Tail, read_log};
use zebu_store::vfs::{Crash, MemVfs, Names, Unsynced};

use crate::script::{ROOT, Run, case, finished, lives_on, options, recover, script};
use crate::support::body;

/// Every possible state of a disk after a power cut.
pub(crate) fn crashes(disk: &MemVfs) -> Vec<Crash> {
    let mut contents = vec![Unsynced::Lost, Unsynced::Kept];
    contents.extend((1..disk.unsynced_sectors()).map(Unsynced::Torn));
    if disk.unsynced_sectors() > 1 {
        contents.extend((1..=2).map(Unsynced::Scattered));
    }
    if disk.unsynced_sectors() > 0 {
        // Other parts at each stopping point.
        let seed = disk.mutations() * 4;
        contents.extend((seed..seed + 4).map(Unsynced::Parts));
        contents.extend((seed..seed + 4).map(Unsynced::Spoiled));
    }
    let changes = disk.unsynced_names();
    let names = match changes {
        0 => vec![Names::Kept],
        1 => vec![Names::Lost, Names::Kept],
        // All subsets if there are few, otherwise a sample of them.
        2..=4 => (0..1 << changes).map(Names::Subset).collect(),
        _ => [0x5555, 0xaaaa, 0x3333, 0x0f0f, 0xfff0]
            .into_iter()
            .map(Names::Subset)
            .chain([Names::Lost, Names::Kept])
            .collect(),
    };
    let pairs = |content| names.iter().map(move |names| Crash { content, names: *names });
    contents.into_iter().flat_map(pairs).collect()
}

/// Runs the script until its `at`-th changing call.
fn stopped(at: u64) -> (MemVfs, Run) {
    let disk = MemVfs::new(Path::new(ROOT));
    disk.stop_at(at);
    let vfs: Arc<dyn Vfs> = Arc::new(disk.clone());
    let mut run = Run::default();
    script(&vfs, &disk, &mut run).unwrap_err();
    (disk, run)
}

/// The first start is killed without a power cut, and the second start finds directories that were
/// never synced.
#[test]
fn directories_that_an_interrupted_start_has_created_are_made_durable_by_the_next() {
    let (mut interrupted, mut at) = (true, 0);
    while interrupted {
        let disk = MemVfs::new(Path::new(ROOT));
        let vfs: Arc<dyn Vfs> = Arc::new(disk.clone());
        disk.stop_at(at);
        interrupted = Run::default().start(&vfs).is_err();
        disk.resume();
        let mut run = Run::default();
        let (mut log, _snapshots) = run.start(&vfs).unwrap();
        run.write(&mut log, run.next(), 5).unwrap();
        let crash = Crash { content: Unsynced::Lost, names: Names::Lost };
        lives_on(&disk.crash(crash), &run, &|| case(at, crash));
        at += 1;
    }
    assert!(at > 4, "a first start makes only {at} changing calls");
}

/// STO-02.
#[test]
fn a_power_cut_at_any_call_loses_nothing_that_was_acknowledged() {
    let (disk, run) = finished();
    assert_eq!(run.attempted.len(), 204);
    let calls = disk.mutations();
    assert!(calls > 300, "the script makes {calls} changing calls");
    let mut cases = 0;
    for at in 0..calls {
        let (disk, run) = stopped(at);
        for crash in crashes(&disk) {
            lives_on(&disk.crash(crash), &run, &|| case(at, crash));
            cases += 1;
        }
    }
    println!("{calls} stopping points, {cases} crashes");
    assert!(cases > 2_000, "only {cases} crashes");
}

#[test]
fn a_second_power_cut_during_recovery_changes_nothing() {
    let (disk, _) = finished();
    let mut cases = 0;
    for at in (0..disk.mutations()).step_by(17) {
        let (disk, run) = stopped(at);
        for first in crashes(&disk) {
            let calls = {
                let disk = disk.crash(first);
                let vfs: Arc<dyn Vfs> = Arc::new(disk.clone());
                recover(vfs, options()).unwrap();
                disk.mutations()
            };
            for second in 0..calls {
                let disk = disk.crash(first);
                disk.stop_at(second);
                let vfs: Arc<dyn Vfs> = Arc::new(disk.clone());
                recover(vfs, options()).unwrap_err();
                for crash in crashes(&disk) {
                    let what = || format!("{}, then {}", case(at, first), case(second, crash));
                    lives_on(&disk.crash(crash), &run, &what);
                    cases += 1;
                }
            }
        }
    }
    println!("{cases} double crashes");
}

#[test]
fn a_killed_process_loses_nothing_either() {
    // Bytes that were never synced are still in memory: the next start makes them durable before it
    // relies on them.
    for at in (0..finished().0.mutations()).step_by(3) {
        let (disk, mut run) = stopped(at);
        disk.resume();
        let vfs: Arc<dyn Vfs> = Arc::new(disk.clone());
        let (_, recovered, history) = recover(vfs, options()).unwrap();
        run.check(&recovered, &history).unwrap();
        run.attempted.truncate(history.bodies().len());
        run.acknowledged = history.bodies().len();
        let lost = Crash { content: Unsynced::Lost, names: Names::Lost };
        lives_on(&disk.crash(lost), &run, &|| case(at, lost));
    }
}

/// Some file systems show blocks of removed files where the data of a file were not written. A
/// start must not take them for damage.
#[test]
fn old_blocks_behind_what_is_durable_are_cut() {
    const BLOCK_BYTES: usize = 4096;
    let disk = MemVfs::new(Path::new(ROOT));
    let vfs: Arc<dyn Vfs> = Arc::new(disk.clone());
    let mut run = Run::default();
    let (mut log, _snapshots) = run.start(&vfs).unwrap();
    run.write(&mut log, run.next(), 30).unwrap();
    log.settle().unwrap();
    for _ in 0..150 {
        let (zxid, body) = (run.next(), body(run.next(), 1));
        log.append(zxid, &body);
        run.attempted.push((zxid, body));
    }
    disk.fail_sync(Unsynced::Lost);
    log.commit().unwrap_err();
    let path = Path::new("/srv/data/version-2/log.1");
    let written = disk.content(path).unwrap();
    let end = written.iter().rposition(|byte| *byte != 0).unwrap();
    let left = disk.crash(Crash { content: Unsynced::Lost, names: Names::Lost });
    let durable = left.content(path).unwrap();
    // Blocks with a part that was durable are no new ones.
    let first = durable.iter().rposition(|byte| *byte != 0).unwrap() / BLOCK_BYTES + 1;
    let blocks: Vec<usize> = (first..=end / BLOCK_BYTES).collect();
    assert!(blocks.len() >= 3, "{blocks:?}");
    let mut garbage = 0;
    for case in 0..3_usize.pow(blocks.len() as u32) {
        for last_of_durable in [false, true] {
            let mut content = if last_of_durable { written.clone() } else { durable.clone() };
            content.resize(written.len(), 0);
            for (at, block) in blocks.iter().enumerate() {
                let range = block * BLOCK_BYTES..((block + 1) * BLOCK_BYTES).min(written.len());
                match case / 3_usize.pow(at as u32) % 3 {
                    0 => content[range].fill(0),
                    1 => content[range.clone()].copy_from_slice(&written[range]),
                    _ => content[range].fill(0xaa),
                }
            }
            let (_, tail) = read_log(&content[..], 1 << 20, &mut |_| ()).unwrap();
            garbage += u32::from(tail == Tail::Damaged);
            let disk = left.fork();
            disk.put(path, &content);
            lives_on(&disk, &run, &|| format!("{case}, {last_of_durable}"));
        }
    }
    assert!(garbage > 10, "{garbage} ends are those that no lost sector explains");
}

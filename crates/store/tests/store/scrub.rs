//! The scrub finds every damage of durable bytes, and reports nothing else, also while a log is
//! being written.

use std::path::Path;
use std::sync::Arc;

use zebu_store::log::sidecar::Mark;
use zebu_store::scrub::{RottenFile, Scrubbed};
use zebu_store::vfs::MemVfs;
use zebu_store::{Snapshots, TxnLog, Vfs, names};

use crate::script::{ROOT, Run, script};

/// A running server with snapshots, and logs of which the newest is being written.
fn running() -> (MemVfs, Run, TxnLog, Snapshots) {
    let disk = MemVfs::new(Path::new(ROOT));
    let vfs: Arc<dyn Vfs> = Arc::new(disk.clone());
    let mut run = Run::default();
    script(&vfs, &disk, &mut run).unwrap();
    let (mut log, snapshots) = run.start(&vfs).unwrap();
    run.write(&mut log, run.next(), 9).unwrap();
    (disk, run, log, snapshots)
}

fn scrub(snapshots: &Snapshots) -> Scrubbed {
    snapshots.logs().scrub(&mut |_| true).unwrap()
}

fn name(path: &Path) -> &str {
    path.file_name().unwrap().to_str().unwrap()
}

#[test]
fn a_sound_disk_is_read_and_nothing_is_found() {
    let (disk, _, _log, snapshots) = running();
    let is_data = |path: &&std::path::PathBuf| {
        names::parse_log(name(path)).is_some() || names::parse_snapshot(name(path)).is_some()
    };
    let files = disk.files();
    let found = scrub(&snapshots);
    assert_eq!((found.files, found.damage.len()), (files.iter().filter(is_data).count(), 0));
    assert!(found.bytes > 4096, "{found:?}");
}

#[test]
fn every_changed_byte_of_what_is_durable_is_found_where_it_is() {
    let (disk, _, _log, snapshots) = running();
    let mut found_some = [0; 2];
    for path in disk.files() {
        let content = disk.content(&path).unwrap();
        let (end, file) = if let Some(first) = names::parse_log(name(&path)) {
            let sidecar = path.with_file_name(names::sidecar(first));
            let mark = Mark::read(&disk.content(&sidecar).unwrap()).unwrap();
            (mark.end as usize, RottenFile::Log(first))
        } else if let Some((zxid, _)) = names::parse_snapshot(name(&path)) {
            (content.len(), RottenFile::Snapshot(zxid))
        } else {
            continue;
        };
        // No reader uses version and database in the header.
        for at in (0..4).chain((16..end).step_by(61)) {
            let mut changed = content.clone();
            changed[at] ^= 1 << (at % 8);
            disk.put(&path, &changed);
            let found = scrub(&snapshots);
            assert_eq!(found.damage.len(), 1, "{} at {at}: {found:?}", path.display());
            let rotten = &found.damage[0];
            assert_eq!((&rotten.path, rotten.file), (&path, file), "at {at}");
            found_some[usize::from(matches!(file, RottenFile::Log(_)))] += 1;
        }
        disk.put(&path, &content);
    }
    assert!(found_some.iter().all(|count| *count > 20), "{found_some:?}");
    assert_eq!(scrub(&snapshots).damage, []);
}

#[test]
fn what_has_gone_or_is_not_durable_is_no_damage() {
    let (disk, _, _log, snapshots) = running();
    let newest = disk.files().into_iter().filter(|path| names::parse_log(name(path)).is_some());
    let newest = newest.max_by_key(|path| names::parse_log(name(path))).unwrap();
    // After the mark, a record is being written.
    let content = disk.content(&newest).unwrap();
    let mark = Mark::read(
        &disk
            .content(
                &newest.with_file_name(names::sidecar(names::parse_log(name(&newest)).unwrap())),
            )
            .unwrap(),
    )
    .unwrap();
    let mut torn = content.clone();
    torn.truncate(mark.end as usize);
    torn.extend([0, 0, 0, 0, 1, 2, 3]);
    disk.put(&newest, &torn);
    assert_eq!(scrub(&snapshots).damage, []);
    disk.put(&newest, &content);
    // A purge removes the file that the scrub is reading.
    let oldest = disk.files().into_iter().find(|path| name(path).starts_with("snapshot.")).unwrap();
    let found = snapshots
        .logs()
        .scrub(&mut |_| {
            let _ = disk.remove(&oldest);
            true
        })
        .unwrap();
    assert_eq!(found.damage, []);
}

#[test]
fn a_pass_ends_where_its_caller_wants() {
    let (_, _, _log, snapshots) = running();
    let all = scrub(&snapshots).bytes;
    let mut read = 0;
    let found = snapshots
        .logs()
        .scrub(&mut |bytes| {
            read += bytes;
            read < all / 2
        })
        .unwrap();
    assert!(found.damage.is_empty() && found.bytes < all, "{found:?}");
}

#[test]
fn a_fresh_snapshot_behind_a_new_log_makes_a_damaged_log_dispensable() {
    let (disk, mut run, mut log, snapshots) = running();
    let newest = |disk: &MemVfs| {
        let logs = disk.files().into_iter().filter_map(|path| names::parse_log(name(&path)));
        logs.max().unwrap()
    };
    let rotten = newest(&disk);
    let needs = || snapshots.logs().needs(RottenFile::Log(rotten)).unwrap();
    assert!(needs());
    log.roll().unwrap();
    assert!(needs(), "the newest snapshot is older");
    run.snapshot(&snapshots).unwrap();
    run.write(&mut log, run.next(), 3).unwrap();
    assert!(!needs());
    // And it is so: everything is recovered without the content of the damaged log.
    let path = disk.files().into_iter().find(|path| name(path) == names::log(rotten)).unwrap();
    let mut content = disk.content(&path).unwrap();
    content[40] ^= 1;
    disk.put(&path, &content);
    assert_eq!(scrub(&snapshots).damage.len(), 1);
    log.close().unwrap();
    drop(snapshots);
    let vfs: Arc<dyn Vfs> = Arc::new(disk.clone());
    run.start(&vfs).unwrap();
}

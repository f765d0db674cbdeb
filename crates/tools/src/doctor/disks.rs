//! Check `disks`: the duration of a sync, the free space, and the kind of file system.
//!
//! The check measures the latency with a temporary file in the directory, for a limited time and
//! number of syncs.

use std::io::{self, Write as _};
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rustix::fs::{StatVfsMountFlags, statfs, statvfs};
use zebu_config::Config;

use super::finding::{Check, Finding, Findings};

/// The most syncs that are measured.
const SYNCS_MAX: usize = 100;
/// The time limit for all syncs.
const SYNC_TIME_MAX: Duration = Duration::from_secs(2);
/// The bytes written before each sync.
const WRITE_BYTES: usize = 4 << 10;

/// With a larger median, the disk is slow for a log.
const SYNC_SLOW: Duration = Duration::from_millis(10);
/// With a larger median, sessions expire.
const SYNC_UNUSABLE: Duration = Duration::from_millis(200);
/// Less free space is an error, whatever the disk's size: room for a few logs and a snapshot.
const FREE_BYTES_MIN: u64 = 256 << 20;
/// Less free space is a warning, in percent.
const FREE_PERCENT_MIN: u64 = 10;
/// Fewer free inodes are a warning.
const FREE_INODES_MIN: u64 = 1_000;

/// File systems by their magic numbers. Source: `linux/magic.h`, `statfs(2)`.
const KINDS: [(u64, &str, Kind); 13] = [
    (0xef53, "ext4", Kind::Disk),
    (0x5846_5342, "xfs", Kind::Disk),
    (0x9123_683e, "btrfs", Kind::Disk),
    (0x2fc1_2fc1, "zfs", Kind::Disk),
    (0xf2f5_2010, "f2fs", Kind::Disk),
    (0x0102_1994, "tmpfs", Kind::Memory),
    (0x8584_58f6, "ramfs", Kind::Memory),
    (0x6969, "nfs", Kind::Network),
    (0xff53_4d42, "cifs", Kind::Network),
    (0xfe53_4d42, "smb2", Kind::Network),
    (0x6573_5546, "fuse", Kind::Network),
    (0x00c3_6400, "ceph", Kind::Network),
    (0x794c_7630, "overlay", Kind::Layer),
];

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Disk,
    Memory,
    Network,
    Layer,
}

/// A directory's file system as it was found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Disk {
    /// The setting.
    pub(super) key: &'static str,
    pub(super) path: PathBuf,
    /// The magic number of its kind.
    pub(super) kind: u64,
    pub(super) is_read_only: bool,
    pub(super) bytes: u64,
    pub(super) bytes_free: u64,
    /// 0 where the file system has no fixed number.
    pub(super) inodes: u64,
    pub(super) inodes_free: u64,
    /// The duration of each sync; `None` if none was measured.
    pub(super) syncs: Option<Result<Vec<Duration>, String>>,
}

/// Examines the file systems of both directories, or of their nearest existing parents, and
/// measures the log's.
pub(super) fn look(config: &Config) -> Vec<(&'static str, io::Result<Disk>)> {
    let data = &config.data;
    let mut disks = vec![("dataLogDir", disk("dataLogDir", &data.log_dir, true))];
    if data.dir != data.log_dir {
        disks.push(("dataDir", disk("dataDir", &data.dir, false)));
    } else {
        disks = vec![("dataDir", disk("dataDir", &data.dir, true))];
    }
    disks
}

fn disk(key: &'static str, path: &Path, is_measured: bool) -> io::Result<Disk> {
    let absolute = std::path::absolute(path)?;
    let path = absolute.ancestors().find(|path| path.is_dir()).unwrap_or(Path::new("/"));
    let space = statvfs(path)?;
    let is_read_only = space.f_flag.contains(StatVfsMountFlags::RDONLY);
    let is_there = path == absolute;
    let syncs = (is_measured && is_there && !is_read_only)
        .then(|| measure(path).map_err(|error| error.to_string()));
    Ok(Disk {
        key,
        path: path.to_owned(),
        kind: (statfs(path)?.f_type as u64) & 0xffff_ffff,
        is_read_only,
        bytes: space.f_blocks.saturating_mul(space.f_frsize),
        bytes_free: space.f_bavail.saturating_mul(space.f_frsize),
        inodes: space.f_files,
        inodes_free: space.f_favail,
        syncs,
    })
}

/// Overwrites the blocks of a file that already has them, as a log with preallocation does.
fn measure(dir: &Path) -> io::Result<Vec<Duration>> {
    let mut file = tempfile::Builder::new().prefix(".zebu-doctor-").tempfile_in(dir)?;
    let block = [0x5a; WRITE_BYTES];
    for _ in 0..SYNCS_MAX {
        file.write_all(&block)?;
    }
    let file = file.as_file();
    file.sync_all()?;
    let begun = Instant::now();
    let mut syncs = Vec::with_capacity(SYNCS_MAX);
    for at in 0..SYNCS_MAX as u64 {
        file.write_all_at(&block, at * WRITE_BYTES as u64)?;
        let before = Instant::now();
        file.sync_data()?;
        syncs.push(before.elapsed());
        if begun.elapsed() > SYNC_TIME_MAX {
            break;
        }
    }
    Ok(syncs)
}

/// Checks a file system. `warns_at`: `fsync.warningthresholdms`.
pub(super) fn judge(disk: &Disk, warns_at: Duration) -> Vec<Finding> {
    let mut findings = Findings::of(Check::Disks);
    let (key, path) = (disk.key, disk.path.display());
    if disk.is_read_only {
        findings.error(
            format!("{key}: the file system of {path} is read-only"),
            "mount it read-write; if the kernel has changed it, look for disk errors in its log",
        );
    }
    match KINDS.iter().find(|(magic, ..)| *magic == disk.kind) {
        Some((_, name, Kind::Memory)) => findings.error(
            format!("{key}: {path} is in memory ({name}): a restart of the machine loses all data"),
            format!("set {key} to a directory on a disk"),
        ),
        Some((_, name, Kind::Network)) => findings.warning(
            format!("{key}: {path} is not on a local disk ({name}): syncs may be slow, or not reach a disk"),
            format!("set {key} to a directory on a local disk"),
        ),
        Some((_, name, Kind::Layer)) => findings.warning(
            format!("{key}: {path} is in the writable layer of a container ({name}): the data go with the container"),
            format!("mount a volume at {key}"),
        ),
        Some((.., Kind::Disk)) | None => {}
    }
    space(disk, &mut findings);
    match &disk.syncs {
        None => {}
        Some(Err(error)) => findings.error(
            format!("{key}: a file in {path} cannot be written and synced: {error}"),
            "check the permissions of the directory and the health of the disk",
        ),
        Some(Ok(syncs)) => latency(disk, syncs, warns_at, &mut findings),
    }
    findings.found
}

fn space(disk: &Disk, findings: &mut Findings) {
    let Disk { key, bytes, bytes_free, inodes, inodes_free, .. } = disk;
    let path = disk.path.display();
    let remedy =
        "remove what is not needed (zebu purge for old snapshots and logs), or use a larger disk";
    if *bytes_free < FREE_BYTES_MIN {
        findings.error(format!("{key}: {path} has {} MiB left", bytes_free >> 20), remedy);
    } else if *bytes_free < bytes / 100 * FREE_PERCENT_MIN {
        findings.warning(
            format!(
                "{key}: {path} has {} MiB left, {} %",
                bytes_free >> 20,
                bytes_free * 100 / bytes
            ),
            remedy,
        );
    }
    if *inodes > 0 && *inodes_free < FREE_INODES_MIN {
        let text = format!(
            "{key}: {path} has {inodes_free} inodes left: no more files than that can be created"
        );
        if *inodes_free == 0 {
            findings.error(text, remedy);
        } else {
            findings.warning(text, remedy);
        }
    }
}

fn latency(disk: &Disk, syncs: &[Duration], warns_at: Duration, findings: &mut Findings) {
    let mut sorted = syncs.to_vec();
    sorted.sort_unstable();
    let (Some(median), Some(slowest)) = (sorted.get(sorted.len() / 2), sorted.last()) else {
        return;
    };
    let (key, path) = (disk.key, disk.path.display());
    let figures = format!(
        "median {:.1} ms, slowest {:.1} ms of {}",
        median.as_secs_f64() * 1e3,
        slowest.as_secs_f64() * 1e3,
        sorted.len()
    );
    let remedy = "use a disk with a write cache that survives power cuts, and put the log on a separate device";
    if *median > SYNC_UNUSABLE {
        findings.error(
            format!("{key}: a sync in {path} takes so long that sessions expire: {figures}"),
            remedy,
        );
    } else if *median > SYNC_SLOW || *slowest > warns_at {
        findings.warning(format!("{key}: syncs in {path} are slow: {figures}"), remedy);
    }
}

#[cfg(test)]
mod tests {
    use super::super::finding::Severity;
    use super::*;

    fn fine() -> Disk {
        Disk {
            key: "dataDir",
            path: "/d".into(),
            kind: 0xef53,
            is_read_only: false,
            bytes: 100 << 30,
            bytes_free: 50 << 30,
            inodes: 1 << 20,
            inodes_free: 1 << 19,
            syncs: Some(Ok(vec![Duration::from_millis(1); 9])),
        }
    }

    fn worst(disk: &Disk) -> Option<Severity> {
        judge(disk, Duration::from_secs(1)).iter().map(|finding| finding.severity).max()
    }

    #[test]
    fn a_good_disk_is_fine() {
        assert_eq!(worst(&fine()), None);
        // A file system without a fixed number of inodes, such as btrfs.
        assert_eq!(worst(&Disk { inodes: 0, inodes_free: 0, ..fine() }), None);
        // An unknown kind is no fault.
        assert_eq!(worst(&Disk { kind: 1, ..fine() }), None);
    }

    #[test]
    fn each_fault_of_a_disk_is_found() {
        let syncs = |ms: u64| Some(Ok(vec![Duration::from_millis(ms); 9]));
        let mut once_slow = vec![Duration::from_millis(1); 9];
        once_slow.push(Duration::from_millis(1_500));
        for (disk, severity) in [
            (Disk { is_read_only: true, syncs: None, ..fine() }, Severity::Error),
            (Disk { kind: 0x0102_1994, ..fine() }, Severity::Error),
            (Disk { kind: 0x6969, ..fine() }, Severity::Warning),
            (Disk { kind: 0x794c_7630, ..fine() }, Severity::Warning),
            (Disk { bytes_free: 200 << 20, ..fine() }, Severity::Error),
            (Disk { bytes_free: 9 << 30, ..fine() }, Severity::Warning),
            (Disk { inodes_free: 0, ..fine() }, Severity::Error),
            (Disk { inodes_free: 999, ..fine() }, Severity::Warning),
            (Disk { syncs: syncs(11), ..fine() }, Severity::Warning),
            (Disk { syncs: syncs(201), ..fine() }, Severity::Error),
            (Disk { syncs: Some(Ok(once_slow)), ..fine() }, Severity::Warning),
            (Disk { syncs: Some(Err("no space".to_owned())), ..fine() }, Severity::Error),
        ] {
            assert_eq!(worst(&disk), Some(severity), "{disk:?}");
        }
    }

    #[test]
    fn a_real_directory_is_measured_and_left_as_it_was() {
        let dir = tempfile::tempdir().unwrap();
        let disk = disk("dataDir", dir.path(), true).unwrap();
        let syncs = disk.syncs.unwrap().unwrap();
        assert!(!syncs.is_empty() && syncs.len() <= SYNCS_MAX, "{}", syncs.len());
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0);
        assert!(disk.bytes > 0);
    }

    #[test]
    fn nothing_is_measured_where_the_directory_is_missing() {
        let dir = tempfile::tempdir().unwrap();
        let disk = disk("dataDir", &dir.path().join("a/b"), true).unwrap();
        assert_eq!((disk.path.as_path(), disk.syncs), (dir.path(), None));
    }
}

//! Check `files`: snapshots that no start can use, temporary files, snapshots of a later epoch than
//! the server has accepted, and files that nothing purges.

use std::fs;
use std::io;
use std::path::Path;

use zebu_config::Config;
use zebu_proto::{Epoch, Zxid};
use zebu_store::snapshot::{list, looks_complete};
use zebu_store::{EpochFile, EpochFiles, OsVfs, names};

use super::finding::{Check, Finding, Findings};

/// With more snapshots or logs, and without a purge, the check warns.
const FILES_MANY: usize = 20;
/// The most names in a finding.
const NAMES_MAX: usize = 5;

/// The content of both `version-2` directories.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Files {
    /// Names and zxids of snapshots that look complete.
    pub(super) snapshots: Vec<(String, Zxid)>,
    /// Names of snapshots that look incomplete.
    pub(super) incomplete: Vec<String>,
    /// The number of logs.
    pub(super) logs: usize,
    /// Names of temporary and replaced files.
    pub(super) left_over: Vec<String>,
    /// Names of damaged files that a server set aside.
    pub(super) set_aside: Vec<String>,
    /// `currentEpoch`, of a member.
    pub(super) current_epoch: Option<Epoch>,
    /// `autopurge.purgeInterval` is set.
    pub(super) is_purged: bool,
    /// The server belongs to an ensemble.
    pub(super) is_member: bool,
}

/// Examines the files without changing them.
pub(super) fn look(config: &Config) -> io::Result<Files> {
    let data = &config.data;
    let mut files = Files {
        is_purged: config.purge.interval.is_some(),
        is_member: config.ensemble.is_some(),
        ..Files::default()
    };
    for file in list(&OsVfs, &data.snapshots()).or_else(none_where_missing(&data.snapshots()))? {
        let name = file.path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        if looks_complete(&OsVfs, &file) {
            files.snapshots.push((name, file.zxid));
        } else {
            files.incomplete.push(name);
        }
    }
    let mut dirs = vec![data.snapshots()];
    if data.log_dir != data.dir {
        dirs.push(data.logs());
    }
    for dir in dirs {
        let entries = match fs::read_dir(&dir) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
            entries => entries?,
        };
        for entry in entries {
            let name = entry?.file_name().to_string_lossy().into_owned();
            if names::parse_log(&name).is_some() {
                files.logs += 1;
            } else if is_left_over(&name) {
                files.left_over.push(name);
            } else if name.starts_with("damaged.") {
                files.set_aside.push(name);
            }
        }
    }
    files.left_over.sort();
    files.set_aside.sort();
    let epochs = EpochFiles::new(std::sync::Arc::new(OsVfs), &data.dir);
    files.current_epoch = epochs.read(EpochFile::Current).map_err(io::Error::other)?;
    Ok(files)
}

fn none_where_missing<T, E: std::error::Error + Send + Sync + 'static>(
    dir: &Path,
) -> impl Fn(E) -> io::Result<Vec<T>> {
    let is_missing = !dir.exists();
    move |error| if is_missing { Ok(Vec::new()) } else { Err(io::Error::other(error)) }
}

/// Whether a crash or a manual copy has left the file. The original's temporary files end with
/// `.tmp`.
fn is_left_over(name: &str) -> bool {
    let is_data = |name: &str| names::is_data(name);
    name.strip_prefix("tmp.").is_some_and(is_data)
        || name.strip_prefix("old.").is_some_and(is_data)
        || name.strip_suffix(".tmp").is_some()
        || [".bak", ".old", ".orig", "~"]
            .iter()
            .any(|end| name.strip_suffix(end).is_some_and(is_data))
}

/// Checks the files.
pub(super) fn judge(files: &Files) -> Vec<Finding> {
    let mut findings = Findings::of(Check::Files);
    if !files.incomplete.is_empty() {
        let text = format!("snapshots that are not complete: {}", some(&files.incomplete));
        if files.snapshots.is_empty() {
            findings.error(
                format!("{text}; there is no other one"),
                "do not start this server with an empty tree: see docs/recovery.md",
            );
        } else {
            findings.warning(
                format!("{text}; a start uses an older one"),
                "remove them once a newer snapshot is complete",
            );
        }
    }
    if let Some(current) = files.current_epoch.filter(|_| files.is_member) {
        let later: Vec<String> = (files.snapshots.iter())
            .filter(|(_, zxid)| zxid.epoch() > current)
            .map(|(name, _)| name.clone())
            .collect();
        if !later.is_empty() {
            findings.error(
                format!(
                    "snapshots of a later epoch than this server's currentEpoch {}: {}; they come from another server or another time",
                    current.0,
                    some(&later)
                ),
                "move them away if they were copied here; the server then gets its data from the leader",
            );
        }
    }
    if !files.left_over.is_empty() {
        findings.info(
            format!("files that no start reads: {}", some(&files.left_over)),
            "remove them while the server does not run",
        );
    }
    if !files.set_aside.is_empty() {
        findings.warning(
            format!("damaged files that the server has set aside: {}", some(&files.set_aside)),
            "look for errors of the disk in the kernel's log, then remove them",
        );
    }
    let many = files.snapshots.len().max(files.logs);
    if !files.is_purged && many > FILES_MANY {
        findings.warning(
            format!(
                "{} snapshots and {} logs, and autopurge is off: old ones are never removed",
                files.snapshots.len(),
                files.logs
            ),
            "set autopurge.purgeInterval=1, or run zebu purge regularly",
        );
    }
    findings.found
}

/// The first names, and the number of the others.
pub(super) fn some(names: &[String]) -> String {
    let mut text = names[..names.len().min(NAMES_MAX)].join(", ");
    if names.len() > NAMES_MAX {
        text.push_str(&format!(" and {} more", names.len() - NAMES_MAX));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::super::finding::Severity;
    use super::*;

    fn snapshot(zxid: i64) -> (String, Zxid) {
        (format!("snapshot.{zxid:x}"), Zxid(zxid))
    }

    fn fine() -> Files {
        Files {
            snapshots: vec![snapshot(0x1_0000_0005), snapshot(0)],
            logs: 3,
            current_epoch: Some(Epoch(1)),
            is_member: true,
            ..Files::default()
        }
    }

    fn worst(files: &Files) -> Option<Severity> {
        judge(files).iter().map(|finding| finding.severity).max()
    }

    #[test]
    fn a_few_complete_files_are_fine() {
        assert_eq!(worst(&fine()), None);
        assert_eq!(worst(&Files { logs: 1_000, is_purged: true, ..fine() }), None);
        // A standalone server has no epochs to compare.
        let alone = Files { is_member: false, current_epoch: Some(Epoch(0)), ..fine() };
        assert_eq!(worst(&alone), None);
    }

    #[test]
    fn what_is_wrong_with_files_is_found() {
        let names = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
        let incomplete: Vec<String> = names(&["snapshot.7"]);
        for (files, severity) in [
            (Files { incomplete: incomplete.clone(), ..fine() }, Severity::Warning),
            (Files { incomplete, snapshots: Vec::new(), ..fine() }, Severity::Error),
            (Files { current_epoch: Some(Epoch(0)), ..fine() }, Severity::Error),
            (Files { left_over: names(&["tmp.log.1"]), ..fine() }, Severity::Info),
            (Files { set_aside: names(&["damaged.log.1"]), ..fine() }, Severity::Warning),
            (Files { logs: 21, ..fine() }, Severity::Warning),
        ] {
            assert_eq!(worst(&files), Some(severity), "{files:?}");
        }
    }

    #[test]
    fn real_files_are_told_apart() {
        let root = tempfile::tempdir().unwrap();
        let dir = root.path().join("version-2");
        let config = Config::embedded(root.path());
        assert_eq!(look(&config).unwrap().snapshots, []);
        fs::create_dir(&dir).unwrap();
        let whole = include_bytes!(
            "../../../../tests/fixtures/zookeeper-3.9.5/basic/version-2/snapshot.48"
        );
        fs::write(dir.join("snapshot.48"), whole).unwrap();
        fs::write(dir.join("snapshot.99"), &whole[..whole.len() - 3]).unwrap();
        for name in [
            "log.1",
            "tmp.log.2",
            "old.log.3",
            "snapshot.4.bak",
            "acceptedEpoch.tmp",
            "damaged.log.5",
        ] {
            fs::write(dir.join(name), b"").unwrap();
        }
        fs::write(dir.join("currentEpoch"), b"3").unwrap();
        let files = look(&config).unwrap();
        assert_eq!(files.snapshots, [("snapshot.48".to_owned(), Zxid(0x48))]);
        assert_eq!(files.incomplete, ["snapshot.99"]);
        assert_eq!(files.logs, 1);
        assert_eq!(
            files.left_over,
            ["acceptedEpoch.tmp", "old.log.3", "snapshot.4.bak", "tmp.log.2"]
        );
        assert_eq!(files.set_aside, ["damaged.log.5"]);
        assert_eq!(files.current_epoch, Some(Epoch(3)));
    }
}

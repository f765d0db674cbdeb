//! Check `directories`: the locations of the data, the users who may write there, and whether the
//! log shares its device.

use std::fs;
use std::io;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

use rustix::fs::{Access, access};
use zebu_config::{DataConfig, dirs};

use super::finding::{Check, Finding, Findings};

/// The most files whose owners are checked.
const FILES_MAX: usize = 10_000;

/// A directory as it was found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Directory {
    /// The setting.
    pub(super) key: &'static str,
    pub(super) path: PathBuf,
    /// The facts about the directory, or the reason why it cannot be inspected.
    pub(super) state: Result<Facts, io::ErrorKind>,
    pub(super) is_created: bool,
}

/// The facts about a directory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Facts {
    pub(super) is_directory: bool,
    /// For this process.
    pub(super) is_writable: bool,
    pub(super) mode: u32,
    pub(super) owner: u32,
    pub(super) device: u64,
    /// The first file whose owner differs from the directory's owner.
    pub(super) strange_file: Option<(PathBuf, u32)>,
}

/// Inspects `dataDir`, and `dataLogDir` if it is a different directory.
pub(super) fn look(data: &DataConfig) -> Vec<Directory> {
    let mut directories = vec![directory("dataDir", &data.dir, data.create_dirs)];
    if data.log_dir != data.dir {
        directories.push(directory("dataLogDir", &data.log_dir, data.create_dirs));
    }
    directories
}

fn directory(key: &'static str, path: &Path, is_created: bool) -> Directory {
    let state = facts(path).map_err(|error| error.kind());
    Directory { key, path: path.to_owned(), state, is_created }
}

fn facts(path: &Path) -> io::Result<Facts> {
    let metadata = fs::metadata(path)?;
    let owner = metadata.uid();
    Ok(Facts {
        is_directory: metadata.is_dir(),
        is_writable: access(path, Access::WRITE_OK | Access::EXEC_OK).is_ok(),
        mode: metadata.permissions().mode() & 0o7777,
        owner,
        device: metadata.dev(),
        strange_file: strange_file(path, owner),
    })
}

fn strange_file(path: &Path, owner: u32) -> Option<(PathBuf, u32)> {
    [path.to_owned(), path.join("version-2")]
        .iter()
        .filter_map(|dir| fs::read_dir(dir).ok())
        .flat_map(|entries| entries.take(FILES_MAX).flatten())
        .filter_map(|entry| Some((entry.path(), entry.metadata().ok()?)))
        .find(|(_, metadata)| metadata.is_file() && metadata.uid() != owner)
        .map(|(path, metadata)| (path, metadata.uid()))
}

/// Checks the facts. `swapped`: the error of a start about files in the wrong directory.
pub(super) fn judge(
    directories: &[Directory],
    swapped: Option<&dirs::DataDirError>,
) -> Vec<Finding> {
    let mut findings = Findings::of(Check::Directories);
    for directory in directories {
        one(directory, &mut findings);
    }
    if let Some(error @ dirs::DataDirError::Swapped { path, file }) = swapped {
        assert!(error.to_string().contains(file));
        findings.error(
            format!("{} has {file}, which belongs into the other directory", path.display()),
            "check that dataDir and dataLogDir are not swapped",
        );
    }
    let devices: Vec<u64> = (directories.iter())
        .filter_map(|directory| directory.state.as_ref().ok().map(|facts| facts.device))
        .collect();
    match (directories, &devices[..]) {
        ([only], [_]) => findings.info(
            format!("the transaction log is in {}, beside the snapshots", only.path.display()),
            "set dataLogDir to a directory on a separate device, so that snapshots do not delay writes",
        ),
        ([_, _], [data, log]) if data == log => findings.info(
            "dataDir and dataLogDir are on one device",
            "mount a separate device at dataLogDir, so that snapshots do not delay writes",
        ),
        _ => {}
    }
    findings.found
}

fn one(directory: &Directory, findings: &mut Findings) {
    let Directory { key, path, state, is_created } = directory;
    let path = path.display();
    let facts = match state {
        Ok(facts) => facts,
        Err(io::ErrorKind::NotFound) if *is_created => {
            return findings.info(
                format!("{key}: {path} does not exist; the server creates it when it starts"),
                format!("if there should be data, check {key} and what is mounted there"),
            );
        }
        Err(io::ErrorKind::NotFound) => {
            return findings.error(
                format!("{key}: {path} does not exist"),
                "create it and make the server's user its owner, or set datadir.autocreate=true",
            );
        }
        Err(kind) => {
            return findings.error(
                format!("{key}: {path} cannot be looked at: {kind}"),
                "run the server and this check as the user who owns the directory",
            );
        }
    };
    if !facts.is_directory {
        findings.error(format!("{key}: {path} is not a directory"), format!("repair {key}"));
        return;
    }
    if !facts.is_writable {
        findings.error(
            format!("{key}: this user may not write into {path}"),
            "make the server's user the owner of the directory, and run this check as that user",
        );
    }
    if facts.mode & 0o002 != 0 && facts.mode & 0o1000 == 0 {
        findings.error(
            format!("{key}: every user may replace files in {path} (mode {:o})", facts.mode),
            format!("chmod o-w {path}"),
        );
    } else if facts.mode & 0o007 != 0 {
        findings.info(
            format!("{key}: other users may look into {path} (mode {:o})", facts.mode),
            format!("chmod o-rwx {path}: snapshots and logs hold all data, whatever the ACLs say"),
        );
    }
    if let Some((file, owner)) = &facts.strange_file {
        findings.warning(
            format!(
                "{} belongs to user {owner}, its directory to user {}",
                file.display(),
                facts.owner
            ),
            format!("chown it: a server that ran once as another user leaves files that user {} may not write", facts.owner),
        );
    }
}

#[cfg(test)]
mod tests {
    use super::super::finding::Severity;
    use super::*;

    const FINE: Facts = Facts {
        is_directory: true,
        is_writable: true,
        mode: 0o750,
        owner: 7,
        device: 1,
        strange_file: None,
    };

    fn dir(key: &'static str, facts: Facts) -> Directory {
        Directory { key, path: format!("/{key}").into(), state: Ok(facts), is_created: true }
    }

    fn worst(directories: &[Directory]) -> Option<(Severity, String)> {
        let findings = judge(directories, None);
        findings.into_iter().map(|finding| (finding.severity, finding.text)).max()
    }

    #[test]
    fn two_devices_of_the_right_user_are_fine() {
        let log = Facts { device: 2, ..FINE };
        assert_eq!(worst(&[dir("dataDir", FINE), dir("dataLogDir", log)]), None);
    }

    #[test]
    fn a_shared_device_is_named() {
        let (severity, text) = worst(&[dir("dataDir", FINE), dir("dataLogDir", FINE)]).unwrap();
        assert!(severity == Severity::Info && text.contains("one device"), "{text}");
        let (severity, text) = worst(&[dir("dataDir", FINE)]).unwrap();
        assert!(severity == Severity::Info && text.contains("beside the snapshots"), "{text}");
    }

    #[test]
    fn what_keeps_a_server_from_writing_is_an_error() {
        let faulty = |facts: Facts| worst(&[dir("dataDir", facts)]).unwrap();
        for (facts, part) in [
            (Facts { is_directory: false, ..FINE }, "is not a directory"),
            (Facts { is_writable: false, ..FINE }, "may not write"),
            (Facts { mode: 0o777, ..FINE }, "every user may replace"),
        ] {
            let (severity, text) = faulty(facts);
            assert!(severity == Severity::Error && text.contains(part), "{text}");
        }
        let (severity, text) = faulty(Facts { mode: 0o755, ..FINE });
        assert!(severity == Severity::Info, "{text}");
        let strange = Some(("/dataDir/version-2/log.1".into(), 0));
        let (severity, text) = faulty(Facts { strange_file: strange, ..FINE });
        assert!(severity == Severity::Warning && text.contains("belongs to user 0"), "{text}");
    }

    #[test]
    fn a_missing_directory_is_an_error_unless_it_is_created() {
        let mut missing = dir("dataDir", FINE);
        missing.state = Err(io::ErrorKind::NotFound);
        assert_eq!(worst(&[missing.clone()]).unwrap().0, Severity::Info);
        missing.is_created = false;
        assert_eq!(worst(&[missing.clone()]).unwrap().0, Severity::Error);
        missing.state = Err(io::ErrorKind::PermissionDenied);
        assert_eq!(worst(&[missing]).unwrap().0, Severity::Error);
    }

    #[test]
    fn real_directories_are_looked_at() {
        let root = tempfile::tempdir().unwrap();
        let log_dir = root.path().join("log");
        fs::create_dir_all(log_dir.join("version-2")).unwrap();
        fs::write(log_dir.join("version-2/snapshot.0"), b"").unwrap();
        let mut data = zebu_config::Config::embedded(root.path()).data;
        data.log_dir = log_dir;
        let found = look(&data);
        let facts = found[1].state.as_ref().unwrap();
        assert!(facts.is_directory && facts.is_writable && facts.strange_file.is_none());
        let swapped = dirs::check(&data).unwrap_err();
        let findings = judge(&found, Some(&swapped));
        assert!(findings.iter().any(|finding| finding.text.contains("snapshot.0")), "{findings:?}");
        data.dir = root.path().join("nowhere");
        assert_eq!(look(&data)[0].state, Err(io::ErrorKind::NotFound));
    }
}

//! Creates and checks the data directories, before a file in them is opened.
//!
//! Source: the constructor of `FileTxnSnapLog`.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use super::settings::DataConfig;

/// Data directories that cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum DataDirError {
    /// The directory is missing, and must not be created.
    #[error(
        "{path}: directory is missing and datadir.autocreate is false\nhint: create it, or set datadir.autocreate=true"
    )]
    Missing {
        /// The directory.
        path: PathBuf,
    },
    /// The directory could not be created or examined.
    #[error("{path}: {doing} failed: {source}")]
    Io {
        /// The directory.
        path: PathBuf,
        /// The operation.
        doing: &'static str,
        /// The fault.
        source: io::Error,
    },
    /// Another kind of file has this name.
    #[error("{path}: not a directory")]
    NotDirectory {
        /// The path.
        path: PathBuf,
    },
    /// Files of one kind are in the directory of the other kind.
    #[error(
        "{path}: found {file}, which belongs into the other directory\nhint: check dataDir and dataLogDir"
    )]
    Swapped {
        /// The directory.
        path: PathBuf,
        /// The files.
        file: String,
    },
}

impl DataDirError {
    /// Process exit code: data directory not accessible.
    pub const EXIT_CODE: u8 = 3;
}

/// Prepares the two `version-2` directories: creates them unless that is forbidden, and looks for
/// files in the wrong one.
///
/// # Errors
/// [`DataDirError`]
pub fn prepare(data: &DataConfig) -> Result<(), DataDirError> {
    for path in [data.logs(), data.snapshots()] {
        if !is_dir(&path)? {
            if !data.create_dirs {
                return Err(DataDirError::Missing { path });
            }
            fs::create_dir_all(&path).map_err(|source| DataDirError::Io {
                path,
                doing: "create",
                source,
            })?;
        }
    }
    check_contents(data)
}

/// Checks the same without creating anything: the errors of [`prepare`].
///
/// # Errors
/// [`DataDirError`]
pub fn check(data: &DataConfig) -> Result<(), DataDirError> {
    for path in [data.logs(), data.snapshots()] {
        if !is_dir(&path)? && !data.create_dirs {
            return Err(DataDirError::Missing { path });
        }
    }
    check_contents(data)
}

fn is_dir(path: &Path) -> Result<bool, DataDirError> {
    match fs::metadata(path) {
        Ok(found) if found.is_dir() => Ok(true),
        Ok(_) => Err(DataDirError::NotDirectory { path: path.to_owned() }),
        Err(fault) if fault.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(source) => Err(DataDirError::Io { path: path.to_owned(), doing: "stat", source }),
    }
}

/// With two directories, logs among the snapshots, or the reverse, mean that the two keys were
/// swapped or one of them changed. The server would serve an old or an empty tree.
fn check_contents(data: &DataConfig) -> Result<(), DataDirError> {
    let (logs, snapshots) = (data.logs(), data.snapshots());
    let same = match (fs::canonicalize(&logs), fs::canonicalize(&snapshots)) {
        (Ok(logs), Ok(snapshots)) => logs == snapshots,
        _ => logs == snapshots,
    };
    if same {
        return Ok(());
    }
    for (path, stranger) in [(logs, "snapshot."), (snapshots, "log.")] {
        if !is_dir(&path)? {
            continue;
        }
        let io = |source| DataDirError::Io { path: path.clone(), doing: "list", source };
        for entry in fs::read_dir(&path).map_err(io)? {
            let file = entry.map_err(io)?.file_name().to_string_lossy().into_owned();
            if file.starts_with(stranger) {
                return Err(DataDirError::Swapped { path, file });
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn data(root: &Path, create_dirs: bool) -> DataConfig {
        DataConfig {
            dir: root.join("data"),
            log_dir: root.join("log"),
            create_dirs,
            create_db: true,
            accept_members: false,
            trust_empty_snapshot: false,
            accept_damaged_log: false,
        }
    }

    #[test]
    fn directories_are_created_unless_forbidden() {
        let root = tempfile::tempdir().unwrap();
        let forbidden = data(root.path(), false);
        assert!(matches!(prepare(&forbidden), Err(DataDirError::Missing { .. })));
        assert!(matches!(check(&forbidden), Err(DataDirError::Missing { .. })));
        let allowed = data(root.path(), true);
        check(&allowed).unwrap();
        assert!(!allowed.dir.exists(), "checking creates nothing");
        prepare(&allowed).unwrap();
        assert!(allowed.snapshots().is_dir() && allowed.logs().is_dir());
        prepare(&forbidden).unwrap();
    }

    #[test]
    fn files_in_the_wrong_directory_are_refused() {
        let root = tempfile::tempdir().unwrap();
        let data = data(root.path(), true);
        prepare(&data).unwrap();
        fs::write(data.logs().join("snapshot.0"), b"").unwrap();
        assert!(matches!(prepare(&data), Err(DataDirError::Swapped { .. })));
        fs::remove_file(data.logs().join("snapshot.0")).unwrap();
        fs::write(data.snapshots().join("log.1"), b"").unwrap();
        assert!(matches!(check(&data), Err(DataDirError::Swapped { .. })));
    }

    #[test]
    fn a_file_in_the_way_is_named() {
        let root = tempfile::tempdir().unwrap();
        fs::create_dir(root.path().join("log")).unwrap();
        fs::write(root.path().join("log/version-2"), b"").unwrap();
        let fault = prepare(&data(root.path(), true)).unwrap_err();
        assert!(matches!(fault, DataDirError::NotDirectory { .. }), "{fault}");
    }
}

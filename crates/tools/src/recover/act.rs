//! Executes a decision: writes the record, then moves or creates one file or directory.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

use jiff::Timestamp;
use zebu_config::DataConfig;
use zebu_store::{CommittedFile, OsVfs, Vfs as _, vfs};

use super::decide::Decision;
use crate::failure::Failure;

/// Executes the decision, and returns a description of the changes.
pub(super) fn act(
    data: &DataConfig,
    decision: Decision,
    record: &str,
    now: Timestamp,
) -> Result<String, Failure> {
    let stamp = now.strftime("%Y%m%dT%H%M%S%3fZ").to_string();
    fs::create_dir_all(&data.dir)?;
    let path = data.dir.join(format!("recovered-{stamp}.txt"));
    vfs::replace(&OsVfs, &path, &path.with_extension("tmp"), record.as_bytes())
        .map_err(|error| Failure::new(format!("error: write {}: {error}", path.display())))?;
    let done = match decision {
        Decision::LetVote => {
            // The file would keep an empty server from voting, too.
            let moved = set_aside(&committed(data), &stamp)?;
            fs::create_dir_all(&data.log_dir)?;
            let marker = data.log_dir.join("initialize");
            File::create(&marker)?.sync_all()?;
            OsVfs.sync_dir(&data.log_dir)?;
            format!("{} was created{}", marker.display(), in_words(moved.as_slice()))
        }
        Decision::AcceptOlder => {
            let moved = set_aside(&committed(data), &stamp)?;
            format!("this server votes with the data that it has{}", in_words(moved.as_slice()))
        }
        Decision::GiveUp => {
            let mut moved = Vec::new();
            let (snapshots, logs) = (data.snapshots(), data.logs());
            // Snapshots alone would be an older history that could vote. Logs alone are either the
            // whole history, or no start accepts them; the file `committed` is among them.
            moved.extend(set_aside(&snapshots, &stamp)?);
            if snapshots != logs {
                moved.extend(set_aside(&logs, &stamp)?);
            }
            format!("this server is empty{}", in_words(&moved))
        }
    };
    Ok(format!("{done}.\nThe record is {}. Start this server now.", path.display()))
}

fn committed(data: &DataConfig) -> PathBuf {
    CommittedFile::new(std::sync::Arc::new(OsVfs), &data.logs()).path().to_owned()
}

/// Renames a file or a directory if it exists. Returns a text with both names.
fn set_aside(path: &Path, stamp: &str) -> Result<Option<(PathBuf, PathBuf)>, Failure> {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let to = path.with_file_name(format!("{name}.given-up-{stamp}"));
    let failed = |error| Failure::new(format!("error: move {} away: {error}", path.display()));
    match OsVfs.rename(path, &to) {
        Ok(()) => {}
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(failed(error)),
    }
    OsVfs.sync_dir(path.parent().unwrap_or(Path::new("."))).map_err(failed)?;
    Ok(Some((path.to_owned(), to)))
}

fn in_words(moved: &[(PathBuf, PathBuf)]) -> String {
    let one = |(from, to): &(PathBuf, PathBuf)| {
        format!("; {} was renamed to {}", from.display(), to.display())
    };
    moved.iter().map(one).collect()
}

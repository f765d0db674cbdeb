//! Whether a server has stopped because its disk accepts no data, and whether the disk accepts data
//! again.
//!
//! A disk that is full, over its quota or read-only is not broken: all durable data are still
//! there, and a start removes the incomplete write. So the process waits for free space and
//! restarts, with the same recovery as after a crash.

use std::error::Error;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::Vfs;
use crate::faults;

/// Time between two checks for free space.
pub const LOOK_AFTER: Duration = Duration::from_secs(1);

/// Free space that a directory must have: a start has to write, and so does the first client.
const ROOM_BYTES: usize = 1 << 20;

/// The file that the check writes. The next start removes it if a crash leaves it behind.
const NAME: &str = "tmp.probe";

/// The system's error that caused a failure.
pub fn io_of<'e>(failure: &'e (dyn Error + 'static)) -> Option<&'e io::Error> {
    let mut error = Some(failure);
    while let Some(here) = error {
        if let Some(io) = here.downcast_ref::<io::Error>() {
            return Some(io);
        }
        error = here.source();
    }
    None
}

/// Whether something failed because the disk accepts no data.
pub fn is_missing(failure: &(dyn Error + 'static)) -> bool {
    let is_passing = |kind| {
        matches!(
            kind,
            io::ErrorKind::StorageFull
                | io::ErrorKind::QuotaExceeded
                | io::ErrorKind::ReadOnlyFilesystem
        )
    };
    io_of(failure).is_some_and(|error| is_passing(error.kind()))
}

/// Whether each directory accepts a file again.
pub fn is_there(vfs: &dyn Vfs, dirs: &[PathBuf]) -> bool {
    faults::returns_before_there_is_room() || dirs.iter().all(|dir| try_room(vfs, dir).is_ok())
}

fn try_room(vfs: &dyn Vfs, dir: &Path) -> io::Result<()> {
    let path = dir.join(NAME);
    let written = vfs.create(&path).and_then(|mut file| {
        file.write_at(&vec![1; ROOM_BYTES], 0)?;
        file.sync()
    });
    // An incomplete file occupies space, too.
    let removed = vfs.remove(&path);
    written.and(removed)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::OsVfs;

    #[test]
    fn room_is_tried_and_nothing_is_left_behind() {
        let dir = tempfile::tempdir().unwrap();
        let there = |dirs: &[PathBuf]| is_there(&OsVfs, dirs);
        assert!(there(&[dir.path().to_owned()]));
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0);
        assert!(!there(&[dir.path().to_owned(), dir.path().join("missing")]));
    }
}

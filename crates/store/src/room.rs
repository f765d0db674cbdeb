//! Whether a server has stopped because its disk takes no more, and whether the disk takes something
//! again.
//!
//! A disk that is full, beyond a quota or read-only is no broken disk: nothing that was durable is
//! lost, and a start cuts what was being written. So the process waits for room and starts anew,
//! with a recovery as after a crash.

use std::error::Error;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::Vfs;

/// How often to look whether there is room.
pub const LOOK_AFTER: Duration = Duration::from_secs(1);

/// Less room in a directory than this is none: a start has to write, and so has the first client.
const ROOM_BYTES: usize = 1 << 20;

/// The file that tries it. A start removes it, should it be left behind.
const NAME: &str = "tmp.probe";

/// The system's error behind a failure.
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

/// Whether something failed because the disk takes no more.
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

/// Whether each directory takes a file again.
pub fn is_there(vfs: &dyn Vfs, dirs: &[PathBuf]) -> bool {
    zebu_proto::mutant!("returns before there is room")
        || dirs.iter().all(|dir| try_room(vfs, dir).is_ok())
}

fn try_room(vfs: &dyn Vfs, dir: &Path) -> io::Result<()> {
    let path = dir.join(NAME);
    let written = vfs.create(&path).and_then(|mut file| {
        file.write_at(&vec![1; ROOM_BYTES], 0)?;
        file.sync()
    });
    // What was written of it takes room, too.
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

//! The files of the data directory, for a program that copies them while the server writes.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt as _;
use std::path::Path;

use zebu_admin::DataFile;
use zebu_store::{OsVfs, Vfs as _, names};

use crate::config::DataConfig;

/// Bytes of one read.
const BLOCK_BYTES: usize = 64 << 10;

/// Their names and lengths.
///
/// # Errors
/// A directory cannot be listed.
pub fn list(data: &DataConfig) -> io::Result<Vec<DataFile>> {
    let (logs, snapshots) = (data.logs(), data.snapshots());
    let mut entries = OsVfs.list(&logs)?;
    if snapshots != logs {
        entries.extend(OsVfs.list(&snapshots)?);
    }
    entries.retain(|entry| names::is_data(&entry.name));
    let file = |entry: zebu_store::vfs::Entry| {
        let bytes = length(&logs, &entry.name, entry.bytes);
        DataFile { name: entry.name, bytes }
    };
    Ok(entries.into_iter().map(file).collect())
}

/// Opens a file, and returns it with its length; `None` if there is no file of that name.
///
/// # Errors
/// The file cannot be opened.
pub fn open(data: &DataConfig, name: &str) -> io::Result<Option<(File, u64)>> {
    if !names::is_data(name) {
        return Ok(None);
    }
    let is_snapshot = names::parse_snapshot(name).is_some();
    let dir = if is_snapshot { data.snapshots() } else { data.logs() };
    let file = match File::open(dir.join(name)) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        file => file?,
    };
    // It is sent at a limited rate, with a pause after each piece.
    zebu_store::vfs::without_read_ahead(&file);
    let bytes = length(&dir, name, file.metadata()?.len());
    Ok(Some((file, bytes)))
}

/// The length of the used part of a file: a log has reserved space with zeros after its last
/// record. A record never ends with a zero.
fn length(dir: &Path, name: &str, bytes: u64) -> u64 {
    if names::parse_log(name).is_none() {
        return bytes;
    }
    let end = File::open(dir.join(name)).and_then(|file| behind_zeros(&file, bytes));
    end.unwrap_or(bytes)
}

/// The position at which the zeros at the end of a file begin.
fn behind_zeros(file: &File, bytes: u64) -> io::Result<u64> {
    let mut block = vec![0; BLOCK_BYTES];
    let mut end = bytes;
    while end > 0 {
        let length = BLOCK_BYTES.min(usize::try_from(end).unwrap_or(BLOCK_BYTES));
        let start = end - length as u64;
        file.read_exact_at(&mut block[..length], start)?;
        if let Some(last) = block[..length].iter().rposition(|byte| *byte != 0) {
            return Ok(start + last as u64 + 1);
        }
        end = start;
    }
    Ok(0)
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use super::*;

    #[test]
    fn the_room_behind_the_last_record_is_not_counted() {
        for (content, room) in [(0, 0), (1, 0), (5, 3), (BLOCK_BYTES, 1), (3, 3 * BLOCK_BYTES)] {
            let mut file = tempfile::tempfile().unwrap();
            file.write_all(&vec![b'B'; content]).unwrap();
            file.write_all(&vec![0; room]).unwrap();
            let bytes = (content + room) as u64;
            assert_eq!(behind_zeros(&file, bytes).unwrap(), content as u64, "{content}, {room}");
        }
    }
}

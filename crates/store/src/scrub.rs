//! Rereads durable files while a server runs, to find damage before a start needs the file.
//!
//! The scrub reads a log up to its sidecar's mark, so it does not disturb a server that writes the
//! log. Damage counts only if a second read finds it, too, and the file still exists: a purge, a
//! truncation or the installation of a leader's snapshot may have removed it meanwhile.

use std::cell::Cell;
use std::fmt;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::time::Duration;

use zebu_proto::Zxid;

use crate::faults;
use crate::history::{LogFiles, OpenLog, Unusable};
use crate::log::read::Tail;
use crate::snapshot::read::{SnapshotError, read_snapshot};
use crate::snapshot::{self, SnapshotFile, decompressed};
use crate::store::Shared;
use crate::vfs::{Sequential, Unreadable, Vfs};
use crate::{Nothing, StoreError, names, recover};

/// The minimum time between two requests for a snapshot while a start would need a damaged file. A
/// snapshot is never requested before the last one can be complete.
pub const RETRY_AFTER: Duration = Duration::from_secs(30);

/// Gets the number of bytes read since the last call. Returns whether to continue.
pub type Pace<'a> = &'a mut dyn FnMut(u64) -> bool;

/// The result of one pass over all files.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Scrubbed {
    /// The number of files that were read to their end.
    pub files: usize,
    /// The number of bytes read.
    pub bytes: u64,
    /// The damage found.
    pub damage: Vec<Rotten>,
}

/// A damaged file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rotten {
    /// Its path.
    pub path: PathBuf,
    /// The kind of file.
    pub file: RottenFile,
    /// The offset of the damage in bytes; 0 if only the file as a whole is known to be damaged.
    pub offset: u64,
    /// The fault.
    pub reason: String,
}

/// The kind of a damaged file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RottenFile {
    /// The snapshot of this transaction.
    Snapshot(Zxid),
    /// The log that starts with this transaction.
    Log(Zxid),
}

impl LogFiles {
    /// Reads every snapshot and every log once. The caller can end the pass early.
    ///
    /// Needs memory for the longest record. Takes no lock while it reads.
    ///
    /// # Errors
    /// A directory cannot be listed.
    pub fn scrub(&self, pace: Pace<'_>) -> Result<Scrubbed, StoreError> {
        let mut done = Scrubbed::default();
        let shared = &self.shared;
        let mut snapshots = snapshot::list(shared.vfs.as_ref(), &shared.snap_dir)?;
        // A start uses the newest one.
        snapshots.sort_by_key(|file| std::cmp::Reverse(file.zxid));
        for file in snapshots {
            if !shared.look_at_snapshot(&file, &mut done, pace) {
                return Ok(done);
            }
        }
        let logs = self.logs()?;
        for (at, first) in logs.iter().enumerate().rev() {
            let is_newest = at + 1 == logs.len();
            let look =
                |done: &mut Scrubbed, pace: Pace<'_>| self.scrub_log(*first, is_newest, done, pace);
            let path = self.shared.log_dir.join(names::log(*first));
            if !twice(&mut done, pace, look, || (path, RottenFile::Log(*first))) {
                return Ok(done);
            }
        }
        shared.health().logs(&done.damage);
        Ok(done)
    }

    /// Whether a start needs the file, according to the present files: it is the newest snapshot,
    /// or a log that continues it.
    ///
    /// # Errors
    /// A directory cannot be listed.
    pub fn needs(&self, file: RottenFile) -> Result<bool, StoreError> {
        let snapshots = snapshot::list(self.shared.vfs.as_ref(), &self.shared.snap_dir)?;
        let newest = snapshots.iter().map(|file| file.zxid).max();
        Ok(is_needed(file, newest, &self.logs()?))
    }

    fn scrub_log(&self, first: Zxid, is_newest: bool, done: &mut Scrubbed, pace: Pace<'_>) -> Look {
        let path = self.shared.log_dir.join(names::log(first));
        let mut log = match OpenLog::open_from_disk(&self.shared, first) {
            Ok(log) => log,
            Err(StoreError::Io { source, .. }) if source.kind() == io::ErrorKind::NotFound => {
                return Look::Gone;
            }
            Err(error) => return self.unless_gone(&path, 0, error.to_string()),
        };
        let mut body = Vec::new();
        loop {
            // After the mark, a server may be writing.
            if log.is_at_mark() {
                return Look::Sound;
            }
            let before = log.offset();
            match log.advance(&mut body) {
                Ok(Some(_)) => {
                    let bytes = log.offset() - before;
                    done.bytes += bytes;
                    if !pace(bytes) {
                        return Look::Ended;
                    }
                }
                Ok(None) => break,
                Err(Unusable::Damaged { offset, .. }) => {
                    return self.unless_gone(
                        &path,
                        offset,
                        "its records are not those that were written".to_owned(),
                    );
                }
                Err(Unusable::Disk(StoreError::Io { source, .. })) => {
                    return self.unless_gone(&path, before, source.to_string());
                }
                Err(error) => return self.unless_gone(&path, before, error.to_string()),
            }
        }
        // A log without a mark: a log of the original, or one that has just begun.
        match log.tail() {
            _ if is_newest => Look::Sound,
            Ok(Tail::Clean | Tail::Torn) => Look::Sound,
            Ok(Tail::MoreFollows { .. } | Tail::Damaged) => {
                self.unless_gone(&path, log.offset(), "a record is not what was written".to_owned())
            }
            Err(error) => self.unless_gone(&path, log.offset(), error.to_string()),
        }
    }

    fn unless_gone(&self, path: &Path, offset: u64, reason: String) -> Look {
        unless_gone(self.shared.vfs.as_ref(), path, offset, reason)
    }
}

impl Shared {
    /// Reads a snapshot, and records the result for later. Returns whether to continue.
    pub(crate) fn look_at_snapshot(
        &self,
        file: &SnapshotFile,
        done: &mut Scrubbed,
        pace: Pace<'_>,
    ) -> bool {
        let (files, damaged) = (done.files, done.damage.len());
        let record_bytes_max = recover::snapshot_record_bytes_max(&self.options);
        let goes_on = look_at_snapshot(self.vfs.as_ref(), file, record_bytes_max, done, pace);
        if done.files > files {
            self.health().snapshot(file, self.vfs.now(), done.damage.get(damaged));
        }
        goes_on
    }
}

/// Reads a snapshot, and counts it and its damage. Returns whether to continue.
pub(crate) fn look_at_snapshot(
    vfs: &dyn Vfs,
    file: &SnapshotFile,
    record_bytes_max: usize,
    done: &mut Scrubbed,
    pace: Pace<'_>,
) -> bool {
    let look = |done: &mut Scrubbed, pace: Pace<'_>| {
        let read = &mut done.bytes;
        read_whole(vfs, file, record_bytes_max, read, pace)
    };
    twice(done, pace, look, || (file.path.clone(), RottenFile::Snapshot(file.zxid)))
}

fn read_whole(
    vfs: &dyn Vfs,
    file: &SnapshotFile,
    record_bytes_max: usize,
    read: &mut u64,
    pace: Pace<'_>,
) -> Look {
    let opened = match vfs.open(&file.path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Look::Gone,
        Err(error) => return Look::Damaged(0, error.to_string()),
        Ok(opened) => opened,
    };
    opened.forget_cached();
    let ended = Cell::new(false);
    let source = Paced { inner: Sequential::in_pieces(opened), read, pace, ended: &ended };
    let source = decompressed(source, file.compression);
    match read_snapshot(source, record_bytes_max, false, &mut Nothing) {
        _ if ended.get() => Look::Ended,
        Ok(_) => Look::Sound,
        Err(error) => {
            let offset = match error {
                SnapshotError::Short { offset }
                | SnapshotError::Checksum { offset }
                | SnapshotError::Length { offset, .. } => offset,
                SnapshotError::Io(ref source) => Unreadable::offset_of(source).unwrap_or(0),
                _ => 0,
            };
            unless_gone(vfs, &file.path, offset, error.to_string())
        }
    }
}

/// Records the damage, unless the file has disappeared: then it is no longer needed.
fn unless_gone(vfs: &dyn Vfs, path: &Path, offset: u64, reason: String) -> Look {
    match vfs.exists(path) {
        Ok(false) => Look::Gone,
        _ => Look::Damaged(offset, reason),
    }
}

/// The result of reading a file.
enum Look {
    /// The content is as it was written.
    Sound,
    /// The file no longer exists.
    Gone,
    /// The file is damaged: the offset, and the fault.
    Damaged(u64, String),
    /// The caller has ended the pass.
    Ended,
}

/// Reads a file, and reads it again if it seems damaged. Returns whether to continue.
fn twice(
    done: &mut Scrubbed,
    pace: Pace<'_>,
    look: impl Fn(&mut Scrubbed, Pace<'_>) -> Look,
    name: impl FnOnce() -> (PathBuf, RottenFile),
) -> bool {
    match look(done, pace) {
        Look::Ended => return false,
        Look::Gone => return true,
        Look::Sound => {}
        Look::Damaged(..) => match look(done, pace) {
            Look::Ended => return false,
            Look::Damaged(offset, reason) => {
                let (path, file) = name();
                done.damage.push(Rotten { path, file, offset, reason });
            }
            Look::Sound => {}
            Look::Gone => return true,
        },
    }
    done.files += 1;
    true
}

/// Whether a start with these files needs this one.
pub(crate) fn is_needed(file: RottenFile, newest_snapshot: Option<Zxid>, logs: &[Zxid]) -> bool {
    match file {
        RottenFile::Snapshot(zxid) => newest_snapshot.is_none_or(|newest| newest <= zxid),
        RottenFile::Log(first) => {
            let next = newest_snapshot.map_or(0, |zxid| zxid.0).saturating_add(1);
            // The last log that begins no later than the next transaction may contain it; see
            // `Recovery::replay`.
            let from = logs.iter().filter(|first| first.0 <= next).max();
            logs.contains(&first) && from.is_none_or(|from| *from <= first)
        }
    }
}

/// A file that is read no faster than its caller wants.
struct Paced<'a> {
    inner: Sequential,
    read: &'a mut u64,
    pace: Pace<'a>,
    ended: &'a Cell<bool>,
}

impl Read for Paced<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.inner.read(buffer)?;
        *self.read += read as u64;
        if !(self.pace)(read as u64) {
            self.ended.set(true);
            return Err(io::Error::other("the pass ends here"));
        }
        Ok(read)
    }
}

impl fmt::Display for Rotten {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { path, offset, reason, file } = self;
        write!(
            f,
            "damaged: {}, offset {offset}: {reason}\n\
             hint: check the disk; a start does not need the file once a newer snapshot is there, which this server takes by itself; ",
            path.display()
        )?;
        match file {
            RottenFile::Snapshot(_) => {
                write!(f, "a purge does not count the file, and removes it in its turn")
            }
            RottenFile::Log(_) => {
                write!(
                    f,
                    "keep the file for zebu log and zebu history; a purge removes it in its turn"
                )
            }
        }
    }
}

/// The known damage, so that each file is reported once.
#[derive(Clone, Debug, Default)]
pub struct Incidents {
    known: Vec<Rotten>,
    /// The time and the state of the last request for a snapshot, since the last pass.
    asked: Option<(Duration, Zxid)>,
}

impl Incidents {
    /// Takes the result of a whole pass. Returns the new damage. Damage that no longer exists is
    /// forgotten.
    pub fn found(&mut self, damage: Vec<Rotten>) -> Vec<Rotten> {
        self.asked = None;
        let known = std::mem::replace(&mut self.known, damage);
        let is_new = |rotten: &&Rotten| known.iter().all(|known| known.path != rotten.path);
        self.known.iter().filter(is_new).cloned().collect()
    }

    /// The known damage.
    pub fn known(&self) -> &[Rotten] {
        &self.known
    }

    /// Whether there is no damage.
    pub fn is_empty(&self) -> bool {
        self.known.is_empty()
    }

    /// Whether to take a snapshot now, of a state whose last transaction is `last`: a start would
    /// need a damaged file, and no snapshot of that state was requested recently.
    pub fn ask(&mut self, files: &LogFiles, now: Duration, last: Zxid) -> bool {
        let is_due = self.asked.is_none_or(|(at, of)| of != last && at + RETRY_AFTER <= now);
        let asks = is_due && self.is_needed(files);
        if asks {
            self.asked = Some((now, last));
        }
        asks
    }

    /// Whether a start would need a damaged file.
    pub fn is_needed(&self, files: &LogFiles) -> bool {
        if faults::incident_ignored() {
            return false;
        }
        // If the directory cannot be listed, another part of the server reports that.
        self.known.iter().any(|rotten| files.needs(rotten.file).unwrap_or(true))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::PIECE_BYTES;

    #[test]
    fn each_file_is_told_of_once() {
        let rotten = |path: &str| Rotten {
            path: path.into(),
            file: RottenFile::Log(Zxid(1)),
            offset: 1,
            reason: "bad".to_owned(),
        };
        let mut incidents = Incidents::default();
        assert_eq!(incidents.found(vec![rotten("a")]), [rotten("a")]);
        assert_eq!(incidents.found(vec![rotten("a"), rotten("b")]), [rotten("b")]);
        assert_eq!(incidents.found(vec![]), []);
        assert!(incidents.is_empty());
        assert_eq!(incidents.found(vec![rotten("a")]), [rotten("a")], "it is damaged again");
    }

    #[test]
    fn a_snapshot_is_read_in_pieces_between_which_the_reader_can_pause() {
        let vfs = crate::vfs::MemVfs::new(Path::new("/d"));
        let path = Path::new("/d/snapshot.1");
        vfs.create(path).unwrap().write_at(&vec![7; 5 * PIECE_BYTES + 1], 0).unwrap();
        let (mut read, mut pieces, ended) = (0, Vec::new(), Cell::new(false));
        let mut pace = |bytes| {
            pieces.push(bytes as usize);
            true
        };
        let inner = Sequential::in_pieces(vfs.open(path).unwrap());
        let mut paced = Paced { inner, read: &mut read, pace: &mut pace, ended: &ended };
        let mut block = vec![0; 4 * PIECE_BYTES];
        while paced.read(&mut block).unwrap() > 0 {}
        assert_eq!(pieces, [&[PIECE_BYTES; 5][..], &[1, 0]].concat());
    }

    #[test]
    fn a_start_needs_the_newest_snapshot_and_the_logs_that_continue_it() {
        let logs = [Zxid(1), Zxid(10), Zxid(20)];
        let log =
            |first, newest| is_needed(RottenFile::Log(Zxid(first)), Some(Zxid(newest)), &logs);
        assert!(!log(1, 12) && log(10, 12) && log(20, 12));
        // The next transaction begins the last log.
        assert!(!log(10, 19) && log(20, 19) && log(10, 18));
        assert!(!log(5, 12), "it is not there any more");
        let snapshot = |zxid, newest: i64| {
            is_needed(RottenFile::Snapshot(Zxid(zxid)), Some(Zxid(newest)), &logs)
        };
        assert!(snapshot(12, 12) && !snapshot(5, 12));
        assert!(is_needed(RottenFile::Log(Zxid(1)), None, &logs));
    }
}

//! A source of transactions and snapshots: a data directory, or something else with the same files.
//!
//! Meanwhile, a server may write to the directory, begin a new log, and purge. A missing file is
//! reported as missing, never as damaged. The last record of a log that a server is writing is no
//! damage either.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use zebu_proto::Zxid;
use zebu_store::log::read::{EndKind, LogReader, LogRecord, Tail};
use zebu_store::log::sidecar::{self, Mark};
use zebu_store::names;
use zebu_store::snapshot::decompressed;
use zebu_store::snapshot::read::{Sections, read_snapshot};
use zebu_store::vfs::{Sequential, VfsFile};
use zebu_store::{Compression, Rate, Recover, Vfs};

use crate::error::{At as _, BackupError, Result};

/// The longest accepted record. Memory is allocated only for bytes that have arrived.
pub const RECORD_BYTES_MAX: usize = i32::MAX as usize;

/// A transaction log of a source.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogFile {
    /// The zxid in its file name.
    pub first: Zxid,
    /// The name for messages.
    pub path: PathBuf,
    /// Its length on the disk, with the preallocated rest.
    pub bytes: u64,
    /// The last transaction before it, if a sidecar names it.
    pub previous: Option<Zxid>,
}

/// A snapshot of a source.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SnapFile {
    /// The zxid in its file name: the last transaction before it was begun.
    pub zxid: Zxid,
    /// Its compression.
    pub compression: Compression,
    /// The name for messages.
    pub path: PathBuf,
    /// Its length.
    pub bytes: u64,
}

/// The result of reading a log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogReport {
    /// The mark of its records, as a sidecar would have it.
    pub seen: Mark,
    /// The mark in its sidecar; `None` for a log of the original.
    pub mark: Option<Mark>,
    /// The damage. `None` if the log is intact, or if only its last record is incomplete.
    pub damage: Option<LogDamage>,
    /// Whether an incomplete record follows, as in a log that is being written.
    pub torn: bool,
}

/// Damage in a log.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("damaged at offset {offset}, after transaction {last}: {what}")]
pub struct LogDamage {
    /// The position of the first unreadable byte.
    pub offset: u64,
    /// The last transaction before it.
    pub last: Zxid,
    /// The description.
    pub what: String,
}

/// A place with logs and snapshots.
pub trait Source {
    /// The name for messages.
    fn name(&self) -> String;

    /// Its logs, oldest first.
    ///
    /// # Errors
    /// The list cannot be read.
    fn logs(&self) -> Result<Vec<LogFile>>;

    /// Its snapshots, oldest first.
    ///
    /// # Errors
    /// The list cannot be read.
    fn snapshots(&self) -> Result<Vec<SnapFile>>;

    /// Passes on a log's records in order. `None` if the log was removed.
    ///
    /// # Errors
    /// The log cannot be read, or `each` fails.
    fn read_log(
        &self,
        log: &LogFile,
        each: &mut dyn FnMut(LogRecord<'_>) -> Result<()>,
    ) -> Result<Option<LogReport>>;

    /// Reads a snapshot and checks all its checksums. `None` if it was removed.
    ///
    /// # Errors
    /// The snapshot cannot be read, or is damaged.
    fn read_snapshot(&self, file: &SnapFile, state: &mut dyn Recover) -> Result<Option<Sections>>;
}

/// A server's data directory.
#[derive(Clone, Debug)]
pub struct Directory {
    vfs: Arc<dyn Vfs>,
    snap_dir: PathBuf,
    log_dir: PathBuf,
    /// How much is read per second, if that is limited.
    bytes_per_second: Option<u64>,
}

impl Directory {
    /// Finds the files below `data_dir`, and the logs below `log_dir` if that is another directory.
    ///
    /// Both may also be `version-2` directories.
    ///
    /// # Errors
    /// A directory is missing, or has neither logs nor snapshots.
    pub fn open(vfs: Arc<dyn Vfs>, data_dir: &Path, log_dir: Option<&Path>) -> Result<Self> {
        let version_dir = |dir: &Path| -> Result<PathBuf> {
            let below = dir.join(names::VERSION_DIR);
            if vfs.exists(&below).at(&below)? {
                return Ok(below);
            }
            let entries = vfs.list(dir).at(dir)?;
            if entries.iter().any(|entry| names::is_data(&entry.name)) {
                return Ok(dir.to_owned());
            }
            Err(BackupError::NoDataDir(dir.to_owned()))
        };
        let snap_dir = version_dir(data_dir)?;
        let log_dir = log_dir.map(version_dir).transpose()?.unwrap_or_else(|| snap_dir.clone());
        Ok(Self { vfs, snap_dir, log_dir, bytes_per_second: None })
    }

    /// The same directory; each file is read no quicker than this.
    #[must_use]
    pub fn paced(self, bytes_per_second: u64) -> Self {
        Self { bytes_per_second: Some(bytes_per_second), ..self }
    }

    /// The directory of the snapshots and epoch files.
    pub fn snap_dir(&self) -> &Path {
        &self.snap_dir
    }

    /// The directory of the logs.
    pub fn log_dir(&self) -> &Path {
        &self.log_dir
    }

    /// The file system.
    pub fn vfs(&self) -> &Arc<dyn Vfs> {
        &self.vfs
    }

    /// The content of the sidecar of the log that begins at `first`; `None` if there is no readable
    /// one.
    fn mark(&self, first: Zxid) -> Option<Mark> {
        let path = self.log_dir.join(names::sidecar(first));
        let mark = sidecar::read(self.vfs.as_ref(), &path).ok().flatten();
        mark.filter(|mark| mark.first == first)
    }

    /// Opens a file; `None` if it was removed.
    pub(crate) fn open_file(&self, path: &Path) -> Result<Option<PacedFile>> {
        match self.vfs.open(path) {
            Ok(file) => Ok(Some(PacedFile::new(file, self.bytes_per_second))),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error).at(path),
        }
    }
}

/// A file that is read no quicker than wanted.
#[derive(Debug)]
pub(crate) struct PacedFile {
    inner: Sequential,
    began: Instant,
    rate: Option<Rate>,
}

impl PacedFile {
    fn new(file: Box<dyn VfsFile>, bytes_per_second: Option<u64>) -> Self {
        let inner = match bytes_per_second {
            Some(_) => Sequential::in_pieces(file),
            None => Sequential::new(file),
        };
        let rate = bytes_per_second.map(|rate| Rate::new(rate, Duration::ZERO));
        Self { inner, began: Instant::now(), rate }
    }
}

impl io::Read for PacedFile {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.inner.read(buffer)?;
        if let Some(rate) = &mut self.rate {
            std::thread::sleep(rate.pause(self.began.elapsed(), read as u64));
        }
        Ok(read)
    }
}

impl Source for Directory {
    fn name(&self) -> String {
        self.log_dir.display().to_string()
    }

    fn logs(&self) -> Result<Vec<LogFile>> {
        let dir = &self.log_dir;
        let entries = self.vfs.list(dir).at(dir)?;
        let file = |entry: zebu_store::vfs::Entry| {
            let first = names::parse_log(&entry.name)?;
            let previous = self.mark(first).map(|mark| mark.previous);
            Some(LogFile { first, path: dir.join(&entry.name), bytes: entry.bytes, previous })
        };
        let mut logs: Vec<_> = entries.into_iter().filter_map(file).collect();
        logs.sort_by_key(|log| log.first);
        Ok(logs)
    }

    fn snapshots(&self) -> Result<Vec<SnapFile>> {
        let dir = &self.snap_dir;
        let entries = self.vfs.list(dir).at(dir)?;
        let file = |entry: zebu_store::vfs::Entry| {
            let (zxid, compression) = names::parse_snapshot(&entry.name)?;
            Some(SnapFile { zxid, compression, path: dir.join(&entry.name), bytes: entry.bytes })
        };
        let mut files: Vec<_> = entries.into_iter().filter_map(file).collect();
        files.sort_by_key(|file| file.zxid);
        Ok(files)
    }

    fn read_log(
        &self,
        log: &LogFile,
        each: &mut dyn FnMut(LogRecord<'_>) -> Result<()>,
    ) -> Result<Option<LogReport>> {
        // The mark is read first, so the log contains everything up to it.
        let mark = self.mark(log.first);
        let Some(file) = self.open_file(&log.path)? else { return Ok(None) };
        let report = read_records(file, log, mark, each)?;
        if report.damage.is_none() {
            return Ok(Some(report));
        }
        let Some(file) = self.open_file(&log.path)? else { return Ok(None) };
        let again = read_records(file, log, mark, &mut |_| Ok(()))?;
        Ok(Some(settle(report, &again)))
    }

    fn read_snapshot(&self, file: &SnapFile, state: &mut dyn Recover) -> Result<Option<Sections>> {
        let Some(source) = self.open_file(&file.path)? else { return Ok(None) };
        let source = decompressed(source, file.compression);
        let sections = read_snapshot(source, RECORD_BYTES_MAX, true, state).at(&file.path)?;
        Ok(Some(sections))
    }
}

/// Reads a log from any stream, and checks its end against its sidecar's mark, if there is one.
///
/// # Errors
/// The stream cannot be read, or `each` fails.
pub fn read_records(
    from: impl io::Read,
    log: &LogFile,
    mark: Option<Mark>,
    each: &mut dyn FnMut(LogRecord<'_>) -> Result<()>,
) -> Result<LogReport> {
    let mut reader = LogReader::new(from, RECORD_BYTES_MAX);
    let previous = mark.map_or(Zxid::ZERO, |mark| mark.previous);
    let mut seen = Mark::start(log.first, previous);
    let mut differs = false;
    let end = loop {
        match reader.next().at(&log.path)? {
            Ok(record) => {
                seen.advance(record.zxid, record.body);
                if let Some(mark) = &mark
                    && seen.end == mark.end
                {
                    differs = !seen.agrees(mark);
                }
                each(record)?;
            }
            Err(end) => break end,
        }
    };
    let tail = reader.tail().at(&log.path)?;
    let damaged = |offset, what: String| Some(LogDamage { offset, last: seen.last, what });
    let damage = match (&mark, tail) {
        (Some(mark), _) if seen.end < mark.end => damaged(
            seen.end,
            format!(
                "{}, where its sidecar knows of {} more bytes",
                kind(end.kind),
                mark.end - seen.end
            ),
        ),
        (Some(_), _) if differs => {
            damaged(0, "its records are not those of which its sidecar has the hash".to_owned())
        }
        (Some(mark), _) if mark.sealed && mark.end < seen.end => damaged(
            mark.end,
            "the log was complete before this record, as its sidecar says".to_owned(),
        ),
        (None, Tail::MoreFollows { offset }) => {
            damaged(end.offset, format!("{}, and more follows at offset {offset}", kind(end.kind)))
        }
        (None, Tail::Damaged) => damaged(end.offset, kind(end.kind).to_owned()),
        _ => None,
    };
    let torn = damage.is_none() && tail != Tail::Clean;
    Ok(LogReport { seen, mark, damage, torn })
}

/// Decides about damage after a second read of the log.
///
/// If a server writes meanwhile, the first read may see a partial record, and then complete ones
/// after it. If the second read finds complete records at that place, there is no damage.
fn settle(first: LogReport, again: &LogReport) -> LogReport {
    match &first.damage {
        Some(damage)
            if first.seen.end < again.seen.end
                && again.damage.as_ref().is_none_or(|later| damage.offset < later.offset) =>
        {
            LogReport { damage: None, torn: true, ..first }
        }
        // A truncation has cut the log meanwhile, after it has written the sidecar.
        Some(damage) if again.damage.is_none() && again.seen.end == damage.offset => again.clone(),
        _ => first,
    }
}

/// The bytes in the place of the next record.
fn kind(kind: EndKind) -> &'static str {
    match kind {
        EndKind::File => "the file ends",
        EndKind::Padding => "zeros",
        EndKind::NoLength => "a record without a length",
        EndKind::PrefixCut | EndKind::BodyCut => "a record that is cut off",
        EndKind::NoTerminator => "a record that was not completed",
        EndKind::WrongTerminator => "a record with a wrong end",
        EndKind::Checksum => "a record with a wrong checksum",
        EndKind::Length(_) => "a record with an impossible length",
        EndKind::Unreadable => "a part that the disk cannot read",
        EndKind::Empty => "an empty file",
        EndKind::NoHeader => "a file that is no log",
    }
}

/// Whether `next` may directly follow `last` in one history.
///
/// Between two epochs, the zxids alone do not show whether the end of the first epoch is missing.
pub fn follows(last: Zxid, next: Zxid) -> bool {
    if next.epoch() == last.epoch() {
        last.next() == Some(next)
    } else {
        last < next && next.counter() == 1
    }
}

#[cfg(test)]
mod tests {
    use zebu_store::PIECE_BYTES;
    use zebu_store::log::{encode_record, header};

    use super::*;

    fn log(records: i64) -> Vec<u8> {
        let mut log = header().to_vec();
        for zxid in 1..=records {
            let mut body = vec![0; 40];
            body[12..20].copy_from_slice(&zxid.to_be_bytes());
            encode_record(&body, &mut log);
        }
        log
    }

    fn report(bytes: &[u8], mark: Option<Mark>) -> LogReport {
        let log = LogFile { first: Zxid(1), path: "log.1".into(), bytes: 0, previous: None };
        read_records(bytes, &log, mark, &mut |_| Ok(())).unwrap()
    }

    #[test]
    fn a_paced_directory_is_read_no_quicker_than_wanted() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("log.1");
        std::fs::write(&path, log(1_000)).unwrap();
        let bytes = std::fs::metadata(&path).unwrap().len();
        let directory = Directory::open(Arc::new(zebu_store::OsVfs), dir.path(), None).unwrap();
        // A fifth of a second for all of it; the last pause may be left out.
        let directory = directory.paced(bytes * 5);
        let began = Instant::now();
        let mut seen = 0;
        for log in directory.logs().unwrap() {
            let mut count = |_: LogRecord<'_>| {
                seen += 1;
                Ok(())
            };
            directory.read_log(&log, &mut count).unwrap();
        }
        assert_eq!(seen, 1_000);
        assert!(began.elapsed() >= Duration::from_millis(150), "{:?}", began.elapsed());
    }

    #[test]
    fn a_paced_file_is_read_in_pieces_between_which_the_reader_pauses() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("log.1");
        std::fs::write(&path, vec![7; 2 * PIECE_BYTES + 1]).unwrap();
        let directory = Directory::open(Arc::new(zebu_store::OsVfs), dir.path(), None).unwrap();
        let pieces = |directory: &Directory| {
            let mut file = directory.open_file(&path).unwrap().unwrap();
            let mut block = vec![0; 4 * PIECE_BYTES];
            let mut read = || io::Read::read(&mut file, &mut block).unwrap();
            [read(), read(), read()]
        };
        assert_eq!(pieces(&directory), [2 * PIECE_BYTES + 1, 0, 0]);
        assert_eq!(pieces(&directory.paced(1 << 30)), [PIECE_BYTES, PIECE_BYTES, 1]);
    }

    #[test]
    fn records_behind_the_end_of_a_sealed_log_are_damage_until_a_truncation_cuts_them() {
        let sealed = Mark { sealed: true, ..report(&log(2), None).seen };
        let longer = report(&log(3), Some(sealed));
        assert_eq!(longer.damage.as_ref().map(|damage| damage.offset), Some(sealed.end));
        assert_eq!(settle(longer.clone(), &longer), longer);
        let cut = report(&log(2), Some(sealed));
        assert_eq!((&cut.damage, cut.torn), (&None, false));
        assert_eq!(settle(longer, &cut), cut);
        let growing = Mark { sealed: false, ..sealed };
        assert_eq!(report(&log(3), Some(growing)).damage, None);
    }

    #[test]
    fn a_record_that_was_being_written_is_no_damage_once_it_is_whole() {
        let whole = log(3);
        // The second record is not written yet, but the third one is visible: two reads at
        // different times.
        let second = 16 + 53;
        let mut torn = whole.clone();
        torn[second..second + 53].fill(0);
        let first = report(&torn, None);
        assert_eq!(first.damage.as_ref().map(|damage| damage.offset), Some(second as u64));
        let settled = settle(first.clone(), &report(&whole, None));
        assert_eq!((settled.damage, settled.torn, settled.seen.last), (None, true, Zxid(1)));
        // Nothing has changed since, so it is damage.
        assert_eq!(settle(first.clone(), &report(&torn, None)), first);
        // A required record that differs is damage.
        let other = Mark { chain: 1, ..report(&whole, None).seen };
        let first = report(&whole, Some(other));
        assert!(first.damage.is_some());
        assert_eq!(settle(first.clone(), &report(&whole, Some(other))), first);
        assert_eq!(settle(first.clone(), &report(&log(4), Some(other))), first);
    }

    #[test]
    fn an_epoch_begins_with_its_first_transaction() {
        assert!(
            follows(Zxid(1), Zxid(2)) && !follows(Zxid(1), Zxid(3)) && !follows(Zxid(2), Zxid(2))
        );
        assert!(follows(Zxid(9), Zxid(0x1_0000_0001)) && !follows(Zxid(9), Zxid(0x1_0000_0002)));
        assert!(!follows(Zxid(0x1_0000_0001), Zxid(9)));
    }
}

//! Checks one directory: every file is intact, and nothing is missing.
//!
//! It reads each snapshot and log once, in memory of a fixed size, and checks every checksum, every
//! sidecar and the order of the transactions.

use std::sync::Arc;

use zebu_backup::BackupError;
use zebu_backup::source::{Directory, LogFile, Source, follows};
use zebu_proto::Zxid;
use zebu_store::log::sidecar::Mark;
use zebu_store::{CommittedFile, EpochFile, EpochFiles, Nothing, OsVfs, Vfs as _, names};

use super::VerifyError;
use super::histories::History;
use super::report::{Finding, Kind};

/// The content of a directory.
#[derive(Debug)]
pub(super) struct Alone {
    /// Its transactions.
    pub(super) history: History,
    /// Its readable snapshots, oldest first.
    pub(super) snapshots: Vec<Zxid>,
    /// The number of logs.
    pub(super) logs: usize,
    /// The last transaction before the first damage in a log.
    pub(super) damaged_behind: Option<Zxid>,
    /// The findings.
    pub(super) findings: Vec<Finding>,
}

impl Alone {
    /// Its last transaction.
    pub(super) fn last(&self) -> Option<Zxid> {
        self.history.last.max(self.snapshots.last().copied())
    }
}

/// Examines a directory or a backup.
///
/// # Errors
/// A list of files or a temporary file fails.
pub(super) fn look(
    name: &str,
    source: &dyn Source,
    directory: Option<&Directory>,
) -> Result<Alone, VerifyError> {
    // The logs are read later, so they contain everything up to the file's transaction.
    let committed =
        directory.map(|directory| CommittedFile::new(Arc::new(OsVfs), directory.log_dir()).read());
    let mut alone = Alone {
        history: History::new().map_err(VerifyError::Temporary)?,
        snapshots: Vec::new(),
        logs: 0,
        damaged_behind: None,
        findings: Vec::new(),
    };
    for file in source.snapshots()? {
        match source.read_snapshot(&file, &mut Nothing) {
            Ok(Some(_)) => alone.snapshots.push(file.zxid),
            Ok(None) => {}
            Err(error) => {
                let text = format!("this snapshot cannot be read: {}", reason(&error));
                alone.findings.push(Finding::new(Kind::Damage, name, text).of_file(file.path));
            }
        }
    }
    for log in source.logs()? {
        alone.log(name, source, &log)?;
    }
    if let Some(directory) = directory {
        alone.sidecars(name, directory)?;
        alone.epochs(name, directory);
    }
    match committed {
        Some(Ok(Some(committed))) if alone.last().is_none_or(|last| last < committed) => {
            let last = alone.last().map_or_else(|| "nothing".to_owned(), |last| last.to_string());
            let text = format!(
                "transactions are missing at the end: everything up to {committed} was committed, and the files end with {last}"
            );
            alone.findings.push(Finding::new(Kind::Damage, name, text).at(committed));
        }
        Some(Err(error)) => {
            alone.findings.push(Finding::new(Kind::Unknown, name, error.to_string()));
        }
        _ => {}
    }
    Ok(alone)
}

/// Why a file cannot be read, without its name.
fn reason(error: &BackupError) -> String {
    let mut cause: &dyn std::error::Error = error;
    while let Some(next) = cause.source() {
        cause = next;
    }
    cause.to_string()
}

impl Alone {
    fn log(&mut self, name: &str, source: &dyn Source, log: &LogFile) -> Result<(), VerifyError> {
        let mut previous = log.previous;
        let history = &mut self.history;
        let mut gaps = Vec::new();
        let mut repeated = 0_u64;
        let report = source.read_log(log, &mut |record| {
            let previous = previous.take();
            if let Some(last) = history.last {
                if record.zxid <= last {
                    repeated += 1;
                    return Ok(());
                }
                let is_next = match previous {
                    Some(previous) => previous <= last,
                    None => follows(last, record.zxid),
                };
                if !is_next {
                    gaps.push((last, record.zxid, previous.is_some()));
                    history.holes.push((last, record.zxid));
                }
            }
            history.add(record.zxid, record.body).map_err(BackupError::Output)
        });
        self.logs += 1;
        let path = &log.path;
        let report = match report {
            Ok(Some(report)) => report,
            // The file was purged meanwhile.
            Ok(None) => return Ok(()),
            Err(BackupError::Output(error)) => return Err(VerifyError::Temporary(error)),
            Err(error) => {
                let text = format!("this log cannot be read: {}", reason(&error));
                self.damaged_behind =
                    self.damaged_behind.or(Some(self.history.last.unwrap_or_default()));
                self.findings.push(Finding::new(Kind::Damage, name, text).of_file(path));
                return Ok(());
            }
        };
        for (last, next, is_told) in gaps {
            let bridge = self.snapshots.iter().find(|zxid| last < **zxid && **zxid < next);
            let is_other_epoch = last.epoch() != next.epoch() && !is_told;
            let (kind, text) = match bridge {
                Some(snapshot) => {
                    (Kind::Note, format!("the history begins anew with snapshot {snapshot}"))
                }
                None if is_other_epoch => (
                    Kind::Note,
                    format!(
                        "transactions between {last} and {next} may be missing: the epoch changes, and a log of ZooKeeper does not name its predecessor"
                    ),
                ),
                None => {
                    self.damaged_behind = self.damaged_behind.or(Some(last));
                    (
                        Kind::Damage,
                        format!(
                            "transactions between {last} and {next} are missing: a log or a part of a log does not exist"
                        ),
                    )
                }
            };
            self.findings.push(Finding::new(kind, name, text).of_file(path).at(last));
        }
        if let Some(damage) = report.damage {
            self.damaged_behind = self.damaged_behind.or(Some(damage.last));
            let text = format!("after transaction {}: {}", damage.last, damage.what);
            let finding = Finding::new(Kind::Damage, name, text).of_file(path).at(damage.last);
            self.findings.push(Finding { offset: Some(damage.offset), ..finding });
        }
        if report.torn {
            let text = "an incomplete record is at the end: a server is writing it, or was stopped while it wrote it";
            self.findings.push(Finding::new(Kind::Note, name, text).of_file(path));
        }
        if repeated > 0 {
            let text = format!("{repeated} transactions are in an earlier log, too");
            self.findings.push(Finding::new(Kind::Note, name, text).of_file(path));
        }
        Ok(())
    }

    /// Finds unreadable sidecars, and sidecars without a log.
    fn sidecars(&mut self, name: &str, directory: &Directory) -> Result<(), VerifyError> {
        let dir = directory.log_dir();
        let entries =
            OsVfs.list(dir).map_err(|source| VerifyError::List { path: dir.to_owned(), source })?;
        for entry in &entries {
            let Some(first) = names::parse_sidecar(&entry.name) else { continue };
            let path = dir.join(&entry.name);
            let has_log = entries.iter().any(|entry| entry.name == names::log(first));
            let bytes = match std::fs::read(&path) {
                // The file was purged meanwhile.
                Err(error) if error.kind() == std::io::ErrorKind::NotFound => continue,
                Err(error) => Err(error.to_string()),
                Ok(bytes) => Mark::read(&bytes)
                    .filter(|mark| mark.first == first)
                    .ok_or_else(|| "neither of its two marks is whole".to_owned()),
            };
            let finding = match bytes {
                Err(why) => {
                    let text =
                        format!("this sidecar cannot be read: {why}; its log is judged without it");
                    Finding::new(Kind::Damage, name, text)
                }
                Ok(mark) if !has_log && mark.records > 0 => {
                    let is_covered = self.snapshots.iter().any(|zxid| mark.last <= *zxid);
                    let kind = if is_covered { Kind::Note } else { Kind::Damage };
                    let text = format!(
                        "the log of this sidecar is missing, with transactions up to {}",
                        mark.last
                    );
                    Finding::new(kind, name, text).at(mark.last)
                }
                Ok(_) => continue,
            };
            self.findings.push(finding.of_file(path));
        }
        Ok(())
    }

    /// Checks the epoch files of a member.
    fn epochs(&mut self, name: &str, directory: &Directory) {
        let Some(data_dir) = directory.snap_dir().parent() else { return };
        if directory.snap_dir().file_name().is_none_or(|name| name != names::VERSION_DIR) {
            return;
        }
        let files = EpochFiles::new(Arc::new(OsVfs), data_dir);
        let read = |file| files.read(file);
        match (read(EpochFile::Accepted), read(EpochFile::Current)) {
            (Err(error), _) | (_, Err(error)) => {
                self.findings.push(Finding::new(Kind::Damage, name, error.to_string()));
            }
            (Ok(Some(accepted)), Ok(Some(current))) if accepted < current => {
                let text = format!(
                    "acceptedEpoch is {} and currentEpoch is {}: a member never follows an epoch that it has not accepted",
                    accepted.0, current.0
                );
                let path = files.path(EpochFile::Accepted);
                self.findings.push(Finding::new(Kind::Damage, name, text).of_file(path));
            }
            _ => {}
        }
    }
}

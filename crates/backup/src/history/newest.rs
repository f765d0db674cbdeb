//! The newest changes of a znode, read beside a running server at a limited cost: only the newest
//! logs, no snapshot, at a limited rate, and for a limited time.

use std::collections::VecDeque;
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use serde_json::Value;
use zebu_proto::Zxid;
use zebu_store::log::read::LogRecord;
use zebu_store::snapshot::read::Sections;
use zebu_store::{OsVfs, Recover};

use super::addresses::Addresses;
use super::show::Show;
use super::trace::{Gap, Scope, Wanted};
use super::{Item, read};
use crate::error::{BackupError, Result};
use crate::source::{Directory, LogFile, LogReport, SnapFile, Source};

/// The limits of a search.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// The most changes. The last ones are kept.
    pub changes: usize,
    /// Maximum bytes of all logs together. The newest log is read whatever its length.
    pub log_bytes: u64,
    /// The bytes that are read in a second.
    pub bytes_per_second: u64,
    /// The time limit.
    pub time: Duration,
}

impl Limits {
    /// For a reader beside a running server: less than 100 MiB a second, and at most 20 s.
    pub const BESIDE_A_SERVER: Self = Self {
        changes: 200,
        log_bytes: 256 << 20,
        bytes_per_second: 96 << 20,
        time: Duration::from_secs(20),
    };
}

/// The newest changes of a znode.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Newest {
    /// The changes, oldest first, each as `zebu history --json` prints it.
    pub changes: Vec<Value>,
    /// Whether the logs that were read have older changes, too.
    pub is_cut: bool,
    /// The first transaction that was read.
    pub first: Option<Zxid>,
    /// The number of older logs that were not read.
    pub unread_logs: usize,
    /// Damaged and unreadable files.
    pub errors: Vec<String>,
}

/// Reads the newest changes of the znode at `path` and, with `below`, of all its descendants.
///
/// # Errors
/// The path is invalid, the directories cannot be read, or the time limit is reached.
pub fn newest(
    data_dir: &Path,
    log_dir: &Path,
    path: &str,
    below: bool,
    limits: Limits,
) -> Result<Newest> {
    if let Err(error) = zebu_proto::path::validate(path) {
        return Err(BackupError::Usage(format!("{path}: {error}")));
    }
    let directory = Directory::open(Arc::new(OsVfs), data_dir, Some(log_dir))?;
    let directory = directory.paced(limits.bytes_per_second);
    let mut logs = directory.logs()?;
    let (mut bytes, mut taken) = (0_u64, 0);
    for log in logs.iter().rev() {
        bytes = bytes.saturating_add(log.bytes);
        if taken > 0 && bytes > limits.log_bytes {
            break;
        }
        taken += 1;
    }
    let unread_logs = logs.len() - taken;
    logs.drain(..unread_logs);
    let source = Timed { directory, logs, limits, until: Instant::now() + limits.time };
    let scope = if below { Scope::Below } else { Scope::This };
    let (mut kept, mut is_cut) = (VecDeque::new(), false);
    let summary = read(&[Box::new(source)], &Wanted::new(path, scope), &mut |item| {
        // `first` shows that older transactions are missing.
        if matches!(item, Item::Gap(Gap { after: Zxid::ZERO, .. })) {
            return Ok(());
        }
        if kept.len() == limits.changes {
            kept.pop_front();
            is_cut = true;
        }
        kept.push_back(item);
        Ok(())
    })?;
    let (mut nowhere, addresses) = (io::sink(), Addresses::default());
    let show = Show::new(&mut nowhere, true, false, &addresses);
    let changes = kept.iter().map(|item| show.json(item)).collect();
    let (first, errors) = (summary.first, summary.errors);
    Ok(Newest { changes, is_cut, first, unread_logs, errors })
}

/// Some logs of a directory, read until a time limit. Snapshots are ignored.
struct Timed {
    directory: Directory,
    logs: Vec<LogFile>,
    limits: Limits,
    until: Instant,
}

impl Source for Timed {
    fn name(&self) -> String {
        self.directory.name()
    }

    fn logs(&self) -> Result<Vec<LogFile>> {
        Ok(self.logs.clone())
    }

    fn snapshots(&self) -> Result<Vec<SnapFile>> {
        Ok(Vec::new())
    }

    fn read_log(
        &self,
        log: &LogFile,
        each: &mut dyn FnMut(LogRecord<'_>) -> Result<()>,
    ) -> Result<Option<LogReport>> {
        self.directory.read_log(log, &mut |record| {
            if Instant::now() >= self.until {
                return Err(BackupError::TooLong(self.limits.time));
            }
            each(record)
        })
    }

    fn read_snapshot(&self, _: &SnapFile, _: &mut dyn Recover) -> Result<Option<Sections>> {
        Ok(None)
    }
}

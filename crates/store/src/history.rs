//! Reading committed transactions back from the logs, for a learner that is behind.
//!
//! The logs may be written meanwhile. What comes out has neither holes nor doubts: each transaction
//! follows the one in front of it, from where the learner stands to the last one asked for, and
//! everything was looked at once before the first is handed out. Whatever else is on the disk is an
//! [`Unusable`], and the learner gets a snapshot.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use zebu_proto::Zxid;

use crate::log::OVERHEAD_BYTES;
use crate::log::read::LogReader;
use crate::log::sidecar::{self, Mark};
use crate::store::Shared;
use crate::vfs::Sequential;
use crate::{StoreError, names};

/// Which transactions are wanted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Range {
    /// The last one the learner has; those behind it are wanted. It need not be in the logs, see
    /// [`History::floor`].
    pub after: Zxid,
    /// The last one wanted: a transaction behind `after` that is durable and committed.
    pub up_to: Zxid,
    /// Most bytes that their records may have together.
    pub bytes_max: u64,
}

/// Why the logs cannot give what was asked for; a snapshot can.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Unusable {
    /// The logs do not show what follows the transaction asked for.
    #[error("the logs do not reach back to transaction {after}")]
    Start {
        /// The one asked for.
        after: Zxid,
    },
    /// The logs end too early.
    #[error("the logs end at transaction {last}")]
    End {
        /// Their last one.
        last: Zxid,
    },
    /// Transactions are missing between two records, or may be: the original's logs do not say
    /// what preceded the first transaction of an epoch.
    #[error("{path}: transaction {next} is not known to follow {last}")]
    Gap {
        /// The log.
        path: PathBuf,
        /// In front of the gap.
        last: Zxid,
        /// Behind it.
        next: Zxid,
    },
    /// A log is not what its sidecar says.
    #[error("{path}: damaged at offset {offset}")]
    Damaged {
        /// The log.
        path: PathBuf,
        /// Where its good records end.
        offset: u64,
    },
    /// They have more bytes than allowed.
    #[error("the transactions have more than {bytes_max} bytes")]
    TooLarge {
        /// What was allowed.
        bytes_max: u64,
    },
    /// A log cannot be read, or was purged meanwhile.
    #[error(transparent)]
    Disk(#[from] StoreError),
}

/// The logs on the disk. Clones are the same; each keeps other servers out of the directory.
#[derive(Clone, Debug)]
pub struct LogFiles {
    shared: Arc<Shared>,
}

impl LogFiles {
    pub(crate) fn new(shared: Arc<Shared>) -> Self {
        Self { shared }
    }

    /// Looks whether the transactions are there without a gap, and makes ready to read them.
    ///
    /// Everything is read once for that, and then a second time by [`History::next`]; it takes no
    /// more memory than the longest record.
    ///
    /// # Errors
    /// [`Unusable`]: the learner needs a snapshot.
    pub fn history(&self, range: Range) -> Result<History, Unusable> {
        // Nobody who has nothing is brought up to date from a log: it may continue a state.
        if range.after <= Zxid::ZERO || range.up_to <= range.after {
            return Err(Unusable::Start { after: range.after });
        }
        let logs = self.from(range.after)?;
        let mut scan = Scan::new(Arc::clone(&self.shared), logs.clone(), range);
        let (mut bytes, mut txns) = (0, 0);
        while scan.advance()? {
            bytes += (scan.body.len() + OVERHEAD_BYTES) as u64;
            txns += 1;
            if bytes > range.bytes_max {
                return Err(Unusable::TooLarge { bytes_max: range.bytes_max });
            }
        }
        let floor = scan.floor;
        assert!(floor.is_none_or(|floor| floor <= range.after), "{floor:?} is no floor");
        assert_eq!(scan.zxid, range.up_to, "another transaction is the last");
        let scan = Scan::new(Arc::clone(&self.shared), logs, range);
        Ok(History { scan, floor, bytes, txns })
    }

    /// How many bytes of log there are behind `after`, roughly: logs are counted as wholes, the
    /// original's with their padding. Reads sidecars only.
    ///
    /// # Errors
    /// [`StoreError::Io`].
    pub fn bytes_after(&self, after: Zxid) -> Result<u64, StoreError> {
        let Shared { vfs, log_dir, .. } = &*self.shared;
        let mut bytes = 0;
        for first in self.from(after)? {
            let mark = self.shared.mark(first);
            bytes += match mark {
                Some(mark) => mark.end,
                None => {
                    let path = log_dir.join(names::log(first));
                    let file = vfs.open(&path).and_then(|file| file.len());
                    file.map_err(StoreError::io("read log", &path))?
                }
            };
        }
        Ok(bytes)
    }

    /// The logs that may have transactions behind `after`, oldest first, by their names.
    fn from(&self, after: Zxid) -> Result<Vec<Zxid>, StoreError> {
        let Shared { vfs, log_dir, .. } = &*self.shared;
        let entries = vfs.list(log_dir).map_err(StoreError::io("list directory", log_dir))?;
        let mut logs: Vec<Zxid> =
            entries.iter().filter_map(|entry| names::parse_log(&entry.name)).collect();
        logs.sort();
        let next = Zxid(after.0.saturating_add(1));
        let from = logs.iter().rposition(|first| *first <= next).unwrap_or(0);
        Ok(logs.split_off(from))
    }
}

impl Shared {
    /// The mark of the log that starts at `first`, when it has a readable one.
    fn mark(&self, first: Zxid) -> Option<Mark> {
        let path = self.log_dir.join(names::sidecar(first));
        let mark = sidecar::read(self.vfs.as_ref(), &path).unwrap_or(None);
        mark.filter(|mark| mark.first == first)
    }
}

/// Transactions without a gap, being read.
pub struct History {
    scan: Scan,
    floor: Option<Zxid>,
    bytes: u64,
    txns: u64,
}

impl std::fmt::Debug for History {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { scan, floor, bytes, txns } = self;
        let mut out = f.debug_struct("History");
        out.field("range", &scan.range).field("floor", floor);
        out.field("bytes", bytes).field("txns", txns);
        out.finish_non_exhaustive()
    }
}

impl History {
    /// The newest transaction of this history that is not behind [`Range::after`], which the first
    /// one handed out follows. When it is `after` itself, the learner's history is part of this one;
    /// when it is an earlier one, the learner has something that never happened here, unless `after`
    /// is the start of an epoch. `None` when the logs begin with the next transaction behind `after`.
    pub fn floor(&self) -> Option<Zxid> {
        self.floor
    }

    /// How many bytes their records have together.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// How many transactions there are.
    pub fn txns(&self) -> u64 {
        self.txns
    }

    /// The next transaction: its zxid, and header, transaction and digest; `None` behind the last.
    ///
    /// # Errors
    /// [`Unusable`] when the disk has changed since everything was looked at: a log was purged or
    /// damaged. What was handed out before is right, but incomplete.
    #[expect(clippy::should_implement_trait, reason = "a body borrows from the reader")]
    pub fn next(&mut self) -> Result<Option<(Zxid, &[u8])>, Unusable> {
        Ok(self.scan.advance()?.then_some((self.scan.zxid, &self.scan.body)))
    }
}

/// One pass over the logs.
struct Scan {
    shared: Arc<Shared>,
    /// Logs that are not open yet, oldest last.
    logs: Vec<Zxid>,
    range: Range,
    log: Option<OpenLog>,
    /// What the next record has to follow; `None` while that is not known.
    last: Option<Zxid>,
    /// See [`History::floor`]; known with the first transaction handed out.
    floor: Option<Zxid>,
    /// The transaction to be handed out.
    zxid: Zxid,
    body: Vec<u8>,
}

struct OpenLog {
    path: PathBuf,
    reader: LogReader<Sequential>,
    /// The mark at the time it was opened; `None` for a log of the original.
    mark: Option<Mark>,
    seen: Mark,
}

impl Scan {
    fn new(shared: Arc<Shared>, mut logs: Vec<Zxid>, range: Range) -> Self {
        logs.reverse();
        let (log, last, floor, body) = (None, None, None, Vec::new());
        Self { shared, logs, range, log, last, floor, zxid: Zxid::ZERO, body }
    }

    /// Goes on to the next transaction; false behind the last one.
    fn advance(&mut self) -> Result<bool, Unusable> {
        let Range { after, up_to, .. } = self.range;
        loop {
            if self.zxid == up_to {
                return Ok(false);
            }
            let Some(log) = &mut self.log else {
                let Some(first) = self.logs.pop() else {
                    return Err(Unusable::End { last: self.last.unwrap_or(Zxid::ZERO) });
                };
                self.open(first)?;
                continue;
            };
            let Some(zxid) = log.advance(&mut self.body)? else {
                self.log = None;
                continue;
            };
            let last = self.last.replace(zxid);
            let first = self.zxid == Zxid::ZERO;
            if first && zxid <= after {
                continue;
            }
            if first {
                self.floor = last.filter(|last| *last > Zxid::ZERO && *last <= after);
            }
            // The next one of the learner's epoch needs no other proof: at the start of an epoch the
            // learner has its leader's whole history.
            let next = first && after.next() == Some(zxid);
            let last = match last {
                Some(last) if last <= after || !first => last,
                _ if next => after,
                _ => return Err(Unusable::Start { after }),
            };
            if zxid == last {
                // The original may log an error under the zxid of the transaction before.
                continue;
            }
            let follows = if zxid.epoch() == last.epoch() {
                last.next() == Some(zxid)
            } else {
                log.mark.is_some() && last < zxid && zxid.counter() == 1
            };
            if !follows && !next {
                return Err(Unusable::Gap { path: log.path.clone(), last, next: zxid });
            }
            if zxid > up_to {
                return Err(Unusable::End { last });
            }
            self.zxid = zxid;
            return Ok(true);
        }
    }

    /// Opens a log, which must continue the one before.
    fn open(&mut self, first: Zxid) -> Result<(), Unusable> {
        // The mark first: what it speaks of is in the log by then.
        let mark = self.shared.mark(first);
        let path = self.shared.log_dir.join(names::log(first));
        let file = self.shared.vfs.open(&path).map_err(StoreError::io("open log", &path))?;
        let previous = mark.map_or(self.last.unwrap_or_default(), |mark| mark.previous);
        if let Some(mark) = mark {
            // What comes before the first wanted is of no interest.
            if let Some(last) = self.last
                && last != mark.previous
                && self.range.after < mark.previous
            {
                return Err(Unusable::Gap { path, last, next: first });
            }
            self.last = Some(mark.previous);
        }
        let most = if mark.is_some() { usize::MAX } else { self.shared.options.record_bytes_max };
        let reader = LogReader::new(Sequential::new(file), most);
        self.log = Some(OpenLog { path, reader, mark, seen: Mark::start(first, previous) });
        Ok(())
    }
}

impl OpenLog {
    /// Reads the next record into `body`; `None` at the end.
    fn advance(&mut self, body: &mut Vec<u8>) -> Result<Option<Zxid>, Unusable> {
        let Self { path, reader, mark, seen } = self;
        let record = reader.next().map_err(StoreError::io("read log", path))?;
        let damaged = |path: &Path, offset| Unusable::Damaged { path: path.to_path_buf(), offset };
        let Ok(record) = record else {
            return match mark {
                Some(mark) if seen.end < mark.end => Err(damaged(path, seen.end)),
                _ => Ok(None),
            };
        };
        let before = seen.end;
        seen.advance(record.zxid, record.body);
        if let Some(mark) = mark
            && before < mark.end
            && mark.end <= seen.end
            && !seen.agrees(mark)
        {
            return Err(damaged(path, before));
        }
        body.clear();
        body.extend_from_slice(record.body);
        Ok(Some(record.zxid))
    }
}

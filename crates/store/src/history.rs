//! Reads committed transactions from the logs, to synchronize a learner that is behind.
//!
//! The logs may be written meanwhile. The result has no gaps: each transaction follows the previous
//! one, from the learner's position to the last one requested. Everything is checked before the
//! first transaction is returned. Any problem is an [`Unusable`], and the learner gets a snapshot.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use zebu_proto::Zxid;

use crate::log::OVERHEAD_BYTES;
use crate::log::read::{LogReader, Tail};
use crate::log::sidecar::{self, Mark};
use crate::store::Shared;
use crate::vfs::{Sequential, VfsFile};
use crate::{StoreError, names};

/// The requested transactions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Range {
    /// The learner's last transaction; the range starts after it. It need not be in the logs, see
    /// [`History::floor`].
    pub after: Zxid,
    /// The last transaction of the range. It must be after `after`, durable and committed.
    pub up_to: Zxid,
    /// Maximum sum of the record sizes in bytes.
    pub bytes_max: u64,
}

/// Why the logs cannot provide the range. The learner then needs a snapshot.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Unusable {
    /// The logs do not show which transaction follows `after`.
    #[error("the logs do not reach back to transaction {after}")]
    Start {
        /// The start of the range.
        after: Zxid,
    },
    /// The logs end too early.
    #[error("the logs end at transaction {last}")]
    End {
        /// The last transaction in the logs.
        last: Zxid,
    },
    /// Transactions are missing between two records, or may be: logs of the original do not say
    /// what precedes the first transaction of an epoch.
    #[error("{path}: transaction {next} is not known to follow {last}")]
    Gap {
        /// The log.
        path: PathBuf,
        /// The transaction before the gap.
        last: Zxid,
        /// The transaction after it.
        next: Zxid,
    },
    /// A log differs from its sidecar.
    #[error("{path}: damaged at offset {offset}")]
    Damaged {
        /// The log.
        path: PathBuf,
        /// The end of its intact records.
        offset: u64,
    },
    /// The range has more bytes than allowed.
    #[error("the transactions have more than {bytes_max} bytes")]
    TooLarge {
        /// The limit.
        bytes_max: u64,
    },
    /// A log cannot be read, or was purged meanwhile.
    #[error(transparent)]
    Disk(#[from] StoreError),
}

/// The logs on disk. Clones share them; each keeps other servers out of the directory.
#[derive(Clone, Debug)]
pub struct LogFiles {
    pub(crate) shared: Arc<Shared>,
}

impl LogFiles {
    pub(crate) fn new(shared: Arc<Shared>) -> Self {
        Self { shared }
    }

    /// Checks that the range is complete, and prepares reading it.
    ///
    /// This reads the whole range once; [`History::next`] reads it a second time. It needs no more
    /// memory than the longest record.
    ///
    /// # Errors
    /// [`Unusable`]: the learner needs a snapshot.
    pub fn history(&self, range: Range) -> Result<History, Unusable> {
        // A learner without a history gets a snapshot: the log may continue a state.
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

    /// Approximate bytes of log after `after`: logs are counted as a whole, those of the original
    /// with padding. Reads only sidecars.
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

    /// The logs that may have transactions after `after`, by their names, oldest first.
    fn from(&self, after: Zxid) -> Result<Vec<Zxid>, StoreError> {
        let mut logs = self.logs()?;
        let next = Zxid(after.0.saturating_add(1));
        let from = logs.iter().rposition(|first| *first <= next).unwrap_or(0);
        Ok(logs.split_off(from))
    }

    /// All logs, oldest first, by their names.
    pub(crate) fn logs(&self) -> Result<Vec<Zxid>, StoreError> {
        let Shared { vfs, log_dir, .. } = &*self.shared;
        let entries = vfs.list(log_dir).map_err(StoreError::io("list directory", log_dir))?;
        Ok(names::logs(&entries))
    }
}

impl Shared {
    /// The mark of the log that starts at `first`, if readable.
    fn mark(&self, first: Zxid) -> Option<Mark> {
        let path = self.log_dir.join(names::sidecar(first));
        let mark = sidecar::read(self.vfs.as_ref(), &path).unwrap_or(None);
        mark.filter(|mark| mark.first == first)
    }
}

/// A range of transactions without a gap, being read.
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
    /// The newest transaction not after [`Range::after`]; the first one returned follows it. If it
    /// is `after` itself, the learner's history is a prefix of this one. If it is earlier, the
    /// learner has a transaction that is not in this history, unless `after` is the start of an
    /// epoch. `None` if the logs start right after `after`.
    pub fn floor(&self) -> Option<Zxid> {
        self.floor
    }

    /// Sum of the record sizes in bytes.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Number of transactions.
    pub fn txns(&self) -> u64 {
        self.txns
    }

    /// The next transaction: its zxid and its body (header, transaction and digest); `None` at the
    /// end.
    ///
    /// # Errors
    /// [`Unusable`] if the disk has changed since the check: a log was purged or damaged. The
    /// transactions returned before are correct, but incomplete.
    #[expect(clippy::should_implement_trait, reason = "a body borrows from the reader")]
    pub fn next(&mut self) -> Result<Option<(Zxid, &[u8])>, Unusable> {
        Ok(self.scan.advance()?.then_some((self.scan.zxid, &self.scan.body)))
    }
}

/// One pass over the logs.
struct Scan {
    shared: Arc<Shared>,
    /// The logs to open, oldest last.
    logs: Vec<Zxid>,
    range: Range,
    log: Option<OpenLog>,
    /// The previous transaction; `None` while unknown.
    last: Option<Zxid>,
    /// See [`History::floor`]; known with the first transaction returned.
    floor: Option<Zxid>,
    /// The current transaction.
    zxid: Zxid,
    body: Vec<u8>,
}

/// A log that is being read.
pub(crate) struct OpenLog {
    path: PathBuf,
    reader: LogReader<Sequential>,
    /// The mark when the log was opened; `None` for a log of the original.
    mark: Option<Mark>,
    seen: Mark,
}

impl Scan {
    fn new(shared: Arc<Shared>, mut logs: Vec<Zxid>, range: Range) -> Self {
        logs.reverse();
        let (log, last, floor, body) = (None, None, None, Vec::new());
        Self { shared, logs, range, log, last, floor, zxid: Zxid::ZERO, body }
    }

    /// Moves to the next transaction; false at the end.
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
            // The next zxid of the learner's epoch needs no other proof: at the start of an epoch a
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

    /// Opens a log, which must continue the previous one.
    fn open(&mut self, first: Zxid) -> Result<(), Unusable> {
        let log = OpenLog::open(&self.shared, first)?;
        let (mark, path) = (log.mark, log.path.clone());
        if let Some(mark) = mark {
            // Transactions before the range do not matter.
            if let Some(last) = self.last
                && last != mark.previous
                && self.range.after < mark.previous
            {
                return Err(Unusable::Gap { path, last, next: first });
            }
            self.last = Some(mark.previous);
        }
        self.log = Some(log);
        Ok(())
    }
}

impl OpenLog {
    /// Opens the log that starts at `first`, and the log's mark as it is now.
    fn open(shared: &Shared, first: Zxid) -> Result<Self, StoreError> {
        Self::open_as(shared, first, Sequential::new)
    }

    /// The same for a reader that pauses and wants to know what the disk has.
    pub(crate) fn open_from_disk(shared: &Shared, first: Zxid) -> Result<Self, StoreError> {
        Self::open_as(shared, first, |file| {
            file.forget_cached();
            Sequential::in_pieces(file)
        })
    }

    fn open_as(
        shared: &Shared,
        first: Zxid,
        read: impl FnOnce(Box<dyn VfsFile>) -> Sequential,
    ) -> Result<Self, StoreError> {
        // The mark is read first, so the log already contains everything that the mark describes.
        let mark = shared.mark(first);
        let path = shared.log_dir.join(names::log(first));
        let file = shared.vfs.open(&path).map_err(StoreError::io("open log", &path))?;
        let most = if mark.is_some() { usize::MAX } else { shared.options.record_bytes_max };
        let reader = LogReader::new(read(file), most);
        let seen = Mark::start(first, mark.map_or(Zxid::ZERO, |mark| mark.previous));
        Ok(Self { path, reader, mark, seen })
    }

    /// The position after the last record that was read.
    pub(crate) fn offset(&self) -> u64 {
        self.seen.end
    }

    /// Whether all records that the mark describes have been read.
    pub(crate) fn is_at_mark(&self) -> bool {
        self.mark.is_some_and(|mark| mark.end <= self.seen.end)
    }

    /// The content after the end of the records, which has been reached.
    pub(crate) fn tail(&mut self) -> std::io::Result<Tail> {
        self.reader.tail()
    }

    /// Reads the next record into `body`; `None` at the end.
    pub(crate) fn advance(&mut self, body: &mut Vec<u8>) -> Result<Option<Zxid>, Unusable> {
        let Self { path, reader, mark, seen } = self;
        if mark.is_some_and(|mark| mark.sealed && mark.end <= seen.end) {
            // A start refuses what follows, unless a snapshot makes it unnecessary.
            return Ok(None);
        }
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

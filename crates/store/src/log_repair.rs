//! Repairs a damaged log with records of other members.
//!
//! Intact records are recognized by their checksums, also after damage. Between them are gaps, each
//! of a known length and between two known transactions. Records of other members fill the gaps.
//! The sidecar of the log proves the result: it contains the number and the chained hash of the
//! durable records. So the repaired log equals the original log byte for byte, whichever members
//! its records come from.

use std::collections::BTreeMap;
use std::io::{self, Read};
use std::ops::{Bound, ControlFlow};
use std::path::{Path, PathBuf};

use zebu_proto::Zxid;
use zebu_proto::quorum::Missing;

use crate::faults;
use crate::log::read::{self, LogReader, LogRecord};
use crate::log::sidecar::{self, Mark};
use crate::log::{BODY_BYTES_MIN, HEADER_BYTES, OVERHEAD_BYTES, encode_record, header};
use crate::recover::snapshot_record_bytes_max as record_bytes_max;
use crate::vfs::{READ_APART, Vfs, VfsFile};
use crate::{Damage, LogFiles, StoreError, names};

/// Bytes copied at once.
const PIECE_BYTES: usize = 1 << 20;

/// The zxid in a transaction's body; `None` if the body is too short for one.
pub fn zxid_of(body: &[u8]) -> Option<Zxid> {
    (body.len() >= BODY_BYTES_MIN).then(|| read::zxid_of(body))
}

/// The state of a log, compared with its sidecar.
#[derive(Debug)]
pub enum Examined {
    /// The log has every durable record.
    Whole,
    /// The log lacks durable records, or the file is missing.
    Damaged(Box<DamagedLog>),
    /// There is no readable sidecar, so nothing proves which records the log had.
    Unproven,
}

/// A part of a log without intact records.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Gap {
    missing: Missing,
    from: u64,
    to: u64,
}

/// A damaged log, and records of other members for its gaps.
#[derive(Debug)]
pub struct DamagedLog {
    path: PathBuf,
    mark: Mark,
    /// The gaps between this log's own intact records.
    own: Vec<Gap>,
    /// The gaps to fill: `own`, or one gap from the beginning to the end.
    gaps: Vec<Gap>,
    found: BTreeMap<Zxid, Vec<u8>>,
}

/// The result of a repair.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Repaired {
    /// The repaired log has replaced the damaged one, durably.
    Whole,
    /// The repaired log is not the log that was here. The damaged one stays.
    Differs,
    /// A leader's snapshot has replaced the damaged data meanwhile.
    Replaced,
}

impl DamagedLog {
    /// `agrees`: whether the log has all its durable records. Then only the header is damaged.
    fn new(path: PathBuf, mark: Mark, own: Vec<Gap>, agrees: bool) -> Self {
        let mut damaged = Self { path, mark, gaps: own.clone(), own, found: BTreeMap::new() };
        if damaged.gaps.is_empty() && !agrees {
            damaged.gaps = vec![damaged.whole()];
        }
        damaged
    }

    /// The whole log as one gap.
    fn whole(&self) -> Gap {
        let missing = Missing { after: before(self.mark.first), up_to: self.mark.last };
        Gap { missing, from: HEADER_BYTES as u64, to: self.mark.end }
    }

    /// The zxid in the log's name.
    pub fn first(&self) -> Zxid {
        self.mark.first
    }

    /// The log.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The number of durable records.
    pub fn records(&self) -> u64 {
        self.mark.records
    }

    /// The number of records from other members.
    pub fn found(&self) -> usize {
        self.found.len()
    }

    /// The records of other members for a gap.
    ///
    /// A record in the place of an earlier one leaves a gap to which no transaction belongs.
    fn found_for(&self, gap: &Gap) -> impl Iterator<Item = (&Zxid, &Vec<u8>)> {
        let Missing { after, up_to } = gap.missing;
        let range = (after < up_to).then_some((Bound::Excluded(after), Bound::Included(up_to)));
        range.into_iter().flat_map(|range| self.found.range(range))
    }

    /// The bytes that intact records of other members fill in a gap.
    fn filled(&self, gap: &Gap) -> u64 {
        self.found_for(gap).map(|(_, body)| (body.len() + OVERHEAD_BYTES) as u64).sum()
    }

    /// The number of missing bytes.
    pub fn missing_bytes(&self) -> u64 {
        let bytes = |gap: &Gap| (gap.to - gap.from).saturating_sub(self.filled(gap));
        self.gaps.iter().map(bytes).sum()
    }

    /// The ranges with missing transactions, in order.
    pub fn missing(&self) -> Vec<Missing> {
        let mut all = Vec::new();
        for gap in self.gaps.iter().filter(|gap| self.filled(gap) != gap.to - gap.from) {
            let Missing { mut after, up_to } = gap.missing;
            for (&zxid, _) in self.found_for(gap) {
                if after.next() != Some(zxid) && after < before(zxid) {
                    all.push(Missing { after, up_to: before(zxid) });
                }
                after = zxid;
            }
            if after < up_to {
                all.push(Missing { after, up_to });
            }
        }
        all
    }

    /// Takes an intact record of another member if it may be a missing one.
    pub fn offer(&mut self, zxid: Zxid, body: &[u8]) {
        let Some(gap) = self.gaps.iter().find(|gap| gap.missing.has(zxid)).copied() else {
            return;
        };
        let room = (gap.to - gap.from).saturating_sub(self.filled(&gap));
        if (body.len() + OVERHEAD_BYTES) as u64 <= room && !self.found.contains_key(&zxid) {
            self.found.insert(zxid, body.to_vec());
        }
    }

    /// Whether every byte has a record. Only [`DamagedLog::write`] determines whether these are the
    /// right records.
    pub fn is_filled(&self) -> bool {
        self.gaps.iter().all(|gap| self.filled(gap) == gap.to - gap.from)
    }

    /// The ranges in which this log itself lacks transactions.
    pub fn lacks(&self) -> Vec<Missing> {
        let lacks: Vec<Missing> = self.own.iter().map(|gap| gap.missing).collect();
        let has_some = |it: &Missing| it.after < it.up_to;
        if lacks.iter().any(has_some) {
            return lacks.into_iter().filter(has_some).collect();
        }
        vec![self.whole().missing]
    }

    /// The records are not those that were here, or do not fit. Starts again: without this log's
    /// own records if they were used, otherwise with them.
    ///
    /// A record can look intact although it belongs elsewhere.
    pub fn begin_anew(&mut self) {
        self.found.clear();
        let whole = vec![self.whole()];
        let own = !self.own.is_empty() && self.gaps == whole;
        self.gaps = if own { self.own.clone() } else { whole };
    }

    /// Writes the repaired log under a temporary name in `dir`, reads it back, and compares it with
    /// the sidecar of the damaged one. Returns the name if it equals the log that was here.
    ///
    /// # Errors
    /// Errors of the disk.
    pub fn write(&self, vfs: &dyn Vfs, dir: &Path) -> io::Result<Option<PathBuf>> {
        let temporary = dir.join(names::temporary(&names::log(self.mark.first)));
        let written = self.write_to(vfs, &temporary);
        if !matches!(written, Ok(true)) {
            // If this fails, the next start removes the file.
            let _ = vfs.remove(&temporary);
        }
        Ok(written?.then_some(temporary))
    }

    fn write_to(&self, vfs: &dyn Vfs, temporary: &Path) -> io::Result<bool> {
        let mut damaged = match vfs.open(&self.path) {
            Ok(file) => Some(Lenient::new(file)?),
            Err(error) if error.kind() == io::ErrorKind::NotFound => None,
            Err(error) => return Err(error),
        };
        let mut file = vfs.create(temporary)?;
        file.write_at(&header(), 0)?;
        let mut at = HEADER_BYTES as u64;
        for gap in &self.gaps {
            copy(damaged.as_mut(), file.as_mut(), at, gap.from)?;
            at = gap.from;
            let mut record = Vec::new();
            for (_, body) in self.found_for(gap) {
                record.clear();
                encode_record(body, &mut record);
                file.write_at(&record, at)?;
                at += record.len() as u64;
            }
        }
        copy(damaged.as_mut(), file.as_mut(), at, self.mark.end)?;
        // Records after the sidecar's mark were not known to be durable. The next start judges
        // them.
        if let Some(length) = damaged.as_ref().map(|damaged| damaged.bytes)
            && length > self.mark.end
        {
            copy(damaged.as_mut(), file.as_mut(), self.mark.end, length)?;
            file.set_len(length)?;
        }
        file.sync()?;
        drop(file);
        if faults::repaired_log_not_compared() {
            return Ok(true);
        }
        let mut reader = LogReader::new(Lenient::new(vfs.open(temporary)?)?, usize::MAX);
        let mut seen = Mark::start(self.mark.first, self.mark.previous);
        while let Ok(record) = reader.next()? {
            seen.advance(record.zxid, record.body);
            if seen.end >= self.mark.end {
                break;
            }
        }
        Ok(seen.agrees(&self.mark))
    }
}

/// The zxid before another one.
fn before(zxid: Zxid) -> Zxid {
    Zxid(zxid.0.saturating_sub(1))
}

/// Copies a part of a file to the same place in another file. Leaves out blocks of zeros.
fn copy(from: Option<&mut Lenient>, to: &mut dyn VfsFile, mut at: u64, end: u64) -> io::Result<()> {
    let Some(from) = from else { return Ok(()) };
    let mut piece =
        vec![0; PIECE_BYTES.min(usize::try_from(end.saturating_sub(at)).unwrap_or(PIECE_BYTES))];
    while at < end {
        let most = piece.len().min(usize::try_from(end - at).unwrap_or(PIECE_BYTES));
        let read = from.read_from(&mut piece[..most], at)?;
        if read == 0 {
            return Ok(());
        }
        if piece[..read].iter().any(|byte| *byte != 0) {
            to.write_at(&piece[..read], at)?;
        }
        at += read as u64;
    }
    Ok(())
}

/// Compares a log with its sidecar. A record longer than `record_bytes_max` counts as damaged if
/// other records follow it.
///
/// # Errors
/// Errors of the disk, except for blocks that it cannot read: these count as damage.
pub fn examine(
    vfs: &dyn Vfs,
    log_dir: &Path,
    first: Zxid,
    record_bytes_max: usize,
) -> io::Result<Examined> {
    let path = log_dir.join(names::log(first));
    let mark = sidecar::read(vfs, &log_dir.join(names::sidecar(first))).ok().flatten();
    let Some(mark) = mark.filter(|mark| mark.first == first) else {
        return Ok(Examined::Unproven);
    };
    let mut gaps = Vec::new();
    let mut seen = Mark::start(first, mark.previous);
    let (mut last, mut end) = (before(first), HEADER_BYTES as u64);
    let mut has_header = false;
    let file = match vfs.open(&path) {
        Ok(file) => Some(Lenient::new(file)?),
        Err(error) if error.kind() == io::ErrorKind::NotFound => None,
        Err(error) => return Err(error),
    };
    if let Some(file) = file {
        let mut start = [0; HEADER_BYTES];
        has_header = file.read_from(&mut start, 0)? == HEADER_BYTES && start == header();
        let mut reader = LogReader::new(file, record_bytes_max);
        salvage(&mut reader, &mut |record| {
            if record.offset >= mark.end {
                return Salvaged::Enough;
            }
            let is_ours = last < record.zxid && record.zxid <= mark.last && record.end <= mark.end;
            if !is_ours {
                return Salvaged::Refused;
            }
            if end < record.offset {
                let missing = Missing { after: last, up_to: before(record.zxid) };
                gaps.push(Gap { missing, from: end, to: record.offset });
            }
            seen.advance(record.zxid, record.body);
            (last, end) = (record.zxid, record.end);
            Salvaged::Taken
        })?;
    }
    if end < mark.end {
        gaps.push(Gap {
            missing: Missing { after: last, up_to: mark.last },
            from: end,
            to: mark.end,
        });
    }
    let agrees = seen.agrees(&mark);
    if gaps.is_empty() && agrees && has_header {
        return Ok(Examined::Whole);
    }
    Ok(Examined::Damaged(Box::new(DamagedLog::new(path, mark, gaps, agrees))))
}

/// Passes the intact records of these ranges to `each`, also those after damage, until `each`
/// breaks.
///
/// A server may write to the logs and purge them meanwhile.
///
/// # Errors
/// Errors of the disk, except for blocks that it cannot read.
pub fn whole_records(
    vfs: &dyn Vfs,
    log_dir: &Path,
    missing: &[Missing],
    record_bytes_max: usize,
    each: &mut dyn FnMut(LogRecord<'_>) -> ControlFlow<()>,
) -> io::Result<()> {
    let firsts = names::logs(&vfs.list(log_dir)?);
    for (number, first) in firsts.iter().enumerate() {
        let next = firsts.get(number + 1).copied().unwrap_or(Zxid(i64::MAX));
        let has_some = |missing: &Missing| *first <= missing.up_to && missing.after < before(next);
        let Some(last) = missing.iter().filter(|it| has_some(it)).map(|it| it.up_to).max() else {
            continue;
        };
        let file = match vfs.open(&log_dir.join(names::log(*first))) {
            Ok(file) => Lenient::new(file)?,
            Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
            Err(error) => return Err(error),
        };
        let mut goes_on = true;
        let mut reader = LogReader::new(file, record_bytes_max);
        salvage(&mut reader, &mut |record| {
            if record.zxid > last {
                return Salvaged::Enough;
            }
            if missing.iter().any(|missing| missing.has(record.zxid)) {
                goes_on = each(record).is_continue();
            }
            if goes_on { Salvaged::Taken } else { Salvaged::Enough }
        })?;
        if !goes_on {
            return Ok(());
        }
    }
    Ok(())
}

/// What happens with a record that looks intact.
enum Salvaged {
    Taken,
    /// It is refused: the search continues after its first byte.
    Refused,
    /// The search ends.
    Enough,
}

/// Reads all intact records of a log, also those after damage.
fn salvage(
    reader: &mut LogReader<Lenient>,
    each: &mut dyn FnMut(LogRecord<'_>) -> Salvaged,
) -> io::Result<()> {
    loop {
        let salvaged = match reader.next()? {
            Ok(record) => Some(each(record)),
            Err(_) => None,
        };
        match salvaged {
            Some(Salvaged::Taken) => {}
            Some(Salvaged::Refused) => reader.refuse(),
            Some(Salvaged::Enough) => return Ok(()),
            None if reader.resume()? => {}
            None => return Ok(()),
        }
    }
}

/// A file in which unreadable sectors read as zeros.
#[derive(Debug)]
struct Lenient {
    file: Box<dyn VfsFile>,
    bytes: u64,
    at: u64,
}

impl Lenient {
    fn new(file: Box<dyn VfsFile>) -> io::Result<Self> {
        let bytes = file.len()?;
        Ok(Self { file, bytes, at: 0 })
    }

    fn read_from(&self, buffer: &mut [u8], at: u64) -> io::Result<usize> {
        let left = usize::try_from(self.bytes.saturating_sub(at)).unwrap_or(usize::MAX);
        let most = buffer.len().min(left);
        if let Ok(read) = self.file.read_at(&mut buffer[..most], at) {
            return Ok(read);
        }
        for part in READ_APART {
            let most = most.min((part - at % part) as usize);
            match self.file.read_at(&mut buffer[..most], at) {
                Err(_) => buffer[..most].fill(0),
                read => return read,
            }
        }
        let [.., sector] = READ_APART;
        Ok(most.min((sector - at % sector) as usize))
    }
}

impl Read for Lenient {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.read_from(buffer, self.at)?;
        self.at += read as u64;
        Ok(read)
    }
}

impl LogFiles {
    /// The damaged logs that a start needs, oldest first, if their sidecars prove their content.
    /// `damage`: the damage that the start found first.
    ///
    /// # Errors
    /// [`StoreError::Io`].
    pub fn damaged_logs(&self, damage: &Damage) -> Result<Vec<DamagedLog>, StoreError> {
        let (vfs, dir) = (self.shared.vfs.as_ref(), &self.shared.log_dir);
        let name = damage.path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        let Some(oldest) = names::parse_log(name).or_else(|| names::parse_sidecar(name)) else {
            return Ok(Vec::new());
        };
        let entries = vfs.list(dir).map_err(StoreError::io("list directory", dir))?;
        let firsts = entries.iter().filter_map(|entry| {
            names::parse_log(&entry.name).or_else(|| names::parse_sidecar(&entry.name))
        });
        let firsts: std::collections::BTreeSet<Zxid> = firsts.filter(|it| *it >= oldest).collect();
        let mut damaged_logs = Vec::new();
        for first in firsts {
            let examined = examine(vfs, dir, first, record_bytes_max(&self.shared.options));
            let path = dir.join(names::log(first));
            if let Examined::Damaged(damaged) =
                examined.map_err(StoreError::io("examine log", &path))?
            {
                damaged_logs.push(*damaged);
            }
        }
        Ok(damaged_logs)
    }

    /// Whether this member's state is not trusted: no leader's snapshot has replaced it yet.
    pub fn is_untrusted(&self) -> bool {
        self.shared.untrusted.load(std::sync::atomic::Ordering::Acquire)
    }

    /// Replaces the damaged log with the repaired one, if that equals the log that was here.
    ///
    /// # Errors
    /// [`StoreError::Io`]; the damaged log may still be there.
    pub fn repair(&self, damaged: &DamagedLog) -> Result<Repaired, StoreError> {
        let (vfs, dir) = (self.shared.vfs.as_ref(), &self.shared.log_dir);
        let path = dir.join(names::log(damaged.first()));
        let written = damaged.write(vfs, dir).map_err(StoreError::io("repair log", &path))?;
        let Some(temporary) = written else { return Ok(Repaired::Differs) };
        let generation = self.shared.generation();
        if !self.is_untrusted() {
            vfs.remove(&temporary).map_err(StoreError::io("remove", &temporary))?;
            return Ok(Repaired::Replaced);
        }
        vfs.rename(&temporary, &path)
            .and_then(|()| vfs.sync_dir(dir))
            .map_err(StoreError::io("repair log", &path))?;
        drop(generation);
        Ok(Repaired::Whole)
    }

    /// Passes intact records to `each`; see [`whole_records`].
    ///
    /// # Errors
    /// [`StoreError::Io`].
    pub fn whole(
        &self,
        missing: &[Missing],
        each: &mut dyn FnMut(LogRecord<'_>) -> ControlFlow<()>,
    ) -> Result<(), StoreError> {
        let (vfs, dir) = (self.shared.vfs.as_ref(), &self.shared.log_dir);
        whole_records(vfs, dir, missing, record_bytes_max(&self.shared.options), each)
            .map_err(StoreError::io("read logs", dir))
    }
}

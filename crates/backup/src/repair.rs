//! `zebu repair`: repairs damaged logs and snapshots of one member with the data of other members.
//!
//! The sidecar of a log proves the result: it contains the number and the chained hash of the
//! durable records. So the repaired log is byte for byte the one that this member had, whatever the
//! source of its records. Nothing is guessed, and the result does not depend on which transactions
//! are committed. Whole records after damage are found by their checksums.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;

use zebu_proto::Zxid;
use zebu_store::log::sidecar::{self, Mark};
use zebu_store::log::{HEADER_BYTES, OVERHEAD_BYTES, TERMINATOR, encode_record, header};
use zebu_store::{Nothing, OsVfs, names};

use crate::error::{At as _, BackupError, Result};
use crate::restore::rebuild;
use crate::source::{Directory, SnapFile, Source as _};

/// Checksum and length in front of a body.
const PREFIX_BYTES: usize = OVERHEAD_BYTES - 1;
/// Where the zxid is in a body.
const ZXID: std::ops::Range<usize> = 12..20;
/// No body is smaller.
const BODY_BYTES_MIN: usize = 32;

/// Arguments of `zebu repair`.
#[derive(Debug, Clone, PartialEq, Eq, clap::Args)]
#[command(
    about = "Make damaged data of one member whole, from what other members have",
    long_about = "Make damaged data of one member whole, from what other members have.\n\n\
        Reads the data directory of a stopped member and those of other members, or copies of them. Each of them may be damaged \
        somewhere. Writes the repaired files into a new directory, and changes nothing else. The sidecar of each log proves that \
        the repaired log has exactly the transactions that were durable here.",
    after_long_help = "\
Examples:
  zebu repair member1 --from member2 --from member3 --into repaired

Exit codes: 0 repaired, 1 not: a transaction is whole nowhere, or nothing proves what it was; 2 wrong options."
)]
pub struct RepairArgs {
    /// The data directory (dataDir) of the member, or its version-2
    #[arg(value_name = "DIR")]
    pub dir: PathBuf,

    /// The data directory of another member; several are possible
    #[arg(long, value_name = "DIR", required = true)]
    pub from: Vec<PathBuf>,

    /// The new data directory
    #[arg(long, value_name = "DIR")]
    pub into: PathBuf,
}

/// Repairs.
pub fn run(args: &RepairArgs) -> ExitCode {
    crate::end(act(args, &mut io::stdout().lock()))
}

fn act(args: &RepairArgs, out: &mut dyn Write) -> Result<bool> {
    crate::restore::check_empty(&args.into)?;
    let open = |dir: &PathBuf| Directory::open(Arc::new(OsVfs), dir, None);
    let (own, others) = (open(&args.dir)?, args.from.iter().map(open).collect::<Result<Vec<_>>>()?);
    let into = args.into.join(names::VERSION_DIR);
    fs::create_dir_all(&into).at(&into)?;
    let mut say = |text: &str| writeln!(out, "{text}").map_err(BackupError::Output);
    let mut last = Zxid::ZERO;
    for first in logs(&own)? {
        let name = names::log(first);
        let (bytes, line) = repaired_log(&own, &others, first)?;
        last = last.max(salvage(&bytes).last().map_or(Zxid::ZERO, |record| record.zxid));
        write(&into.join(&name), &bytes)?;
        say(&format!("{name}: {line}"))?;
    }
    for file in own.snapshots()? {
        let name = name_of(&file.path);
        match own.read_snapshot(&file, &mut Nothing) {
            Ok(_) => copy(&file.path, &into.join(&name))?,
            Err(error) => say(&format!("{name}: left out: {error}"))?,
        }
    }
    for entry in fs::read_dir(own.snap_dir()).at(own.snap_dir())? {
        let path = entry.at(own.snap_dir())?.path();
        let name = name_of(&path);
        let is_done = names::parse_log(&name).is_some() || names::parse_snapshot(&name).is_some();
        if path.is_file() && !is_done {
            copy(&path, &into.join(&name))?;
        }
    }
    complete(&others, &args.into, &into, last, &mut say)?;
    say(&format!("{}: whole up to transaction {last}", args.into.display()))?;
    Ok(true)
}

/// Makes sure that the logs can be replayed, with a snapshot of another member if need be.
fn complete(
    others: &[Directory],
    data_dir: &Path,
    into: &Path,
    last: Zxid,
    say: &mut dyn FnMut(&str) -> Result<()>,
) -> Result<()> {
    let try_it = || -> Result<()> {
        let built =
            rebuild::build(&Directory::open(Arc::new(OsVfs), data_dir, None)?, None, false)?;
        let (wanted, built) = (last, built.zxid);
        if built < wanted {
            let what = format!("what is whole ends with transaction {built}, not {wanted}");
            return Err(BackupError::Unrepairable { path: data_dir.to_owned(), what });
        }
        Ok(())
    };
    let Err(first_reason) = try_it() else { return Ok(()) };
    let mut found: Vec<(SnapFile, &Directory)> = Vec::new();
    for other in others {
        found.extend(other.snapshots()?.into_iter().map(|file| (file, other)));
    }
    found.sort_by_key(|(file, _)| std::cmp::Reverse(file.zxid));
    for (file, other) in found {
        let name = name_of(&file.path);
        let Ok(Some(sections)) = other.read_snapshot(&file, &mut Nothing) else { continue };
        let traces = [sections.last_zxid, sections.digest.map(|(zxid, ..)| zxid), Some(file.zxid)];
        // The tree must not be ahead of the log.
        if traces.into_iter().flatten().any(|zxid| zxid > last) || into.join(&name).exists() {
            continue;
        }
        copy(&file.path, &into.join(&name))?;
        if try_it().is_ok() {
            return say(&format!("{name}: from {}", other.name()));
        }
        fs::remove_file(into.join(&name)).at(&into.join(&name))?;
    }
    Err(first_reason)
}

/// The logs that a member has or should have, by their first transactions.
fn logs(own: &Directory) -> Result<BTreeSet<Zxid>> {
    let mut found = BTreeSet::new();
    for entry in fs::read_dir(own.log_dir()).at(own.log_dir())? {
        let name = name_of(&entry.at(own.log_dir())?.path());
        found.extend(names::parse_log(&name).or_else(|| names::parse_sidecar(&name)));
    }
    Ok(found)
}

/// The bytes of a repaired log, and the repairs.
fn repaired_log(own: &Directory, others: &[Directory], first: Zxid) -> Result<(Vec<u8>, String)> {
    let path = own.log_dir().join(names::log(first));
    let failed = |what: String| BackupError::Unrepairable { path: path.clone(), what };
    let bytes = match fs::read(&path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Vec::new(),
        bytes => bytes.at(&path)?,
    };
    let sidecar = own.log_dir().join(names::sidecar(first));
    let mark = sidecar::read(own.vfs().as_ref(), &sidecar).ok().flatten();
    let Some(mark) = mark.filter(|mark| mark.first == first) else {
        return match sequence(&bytes) {
            Ok(_) => Ok((bytes, "is whole, as far as a log without a sidecar tells".to_owned())),
            Err(offset) => Err(failed(format!(
                "damaged at offset {offset}, and without a sidecar nothing proves what was there"
            ))),
        };
    };
    let own_records = salvage(&bytes);
    if proved(&mark, own_records.iter().map(|record| (record.zxid, record.body))) {
        return Ok((bytes, "is whole".to_owned()));
    }
    let is_here = |zxid: Zxid| mark.first <= zxid && zxid <= mark.last;
    let mut records: BTreeMap<Zxid, Vec<u8>> = BTreeMap::new();
    for record in own_records.iter().filter(|record| is_here(record.zxid)) {
        records.insert(record.zxid, record.body.to_vec());
    }
    let had = records.len();
    for other in others {
        for log in other.logs()?.into_iter().filter(|log| log.first <= mark.last) {
            let theirs = fs::read(&log.path).at(&log.path)?;
            for record in salvage(&theirs).into_iter().filter(|record| is_here(record.zxid)) {
                records.entry(record.zxid).or_insert_with(|| record.body.to_vec());
            }
        }
    }
    if !proved(&mark, records.iter().map(|(zxid, body)| (*zxid, &body[..]))) {
        let (found, wanted) = (records.len(), mark.records);
        let what = format!(
            "{found} of its {wanted} transactions {} to {} are whole somewhere, or are not those that were here",
            mark.first, mark.last
        );
        return Err(failed(what));
    }
    let mut whole = header().to_vec();
    records.values().for_each(|body| encode_record(body, &mut whole));
    // What was written behind the mark was not known to be durable; a start judges it.
    whole.extend_from_slice(bytes.get(whole.len()..).unwrap_or_default());
    let line = format!("{} of {} transactions are from others", records.len() - had, records.len());
    Ok((whole, line))
}

/// Whether these records, in their order and up to the end of the mark, are those that were durable.
fn proved<'r>(mark: &Mark, records: impl Iterator<Item = (Zxid, &'r [u8])>) -> bool {
    let mut seen = Mark::start(mark.first, mark.previous);
    for (zxid, body) in records {
        if seen.end >= mark.end {
            break;
        }
        seen.advance(zxid, body);
    }
    seen.agrees(mark)
}

/// A whole record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Record<'b> {
    offset: usize,
    zxid: Zxid,
    body: &'b [u8],
}

/// The record that begins at an offset, if one does.
fn record_at(bytes: &[u8], offset: usize) -> Option<Record<'_>> {
    let rest = bytes.get(offset..)?;
    let length = i32::from_be_bytes(rest.get(8..PREFIX_BYTES)?.try_into().ok()?);
    let length = usize::try_from(length).ok().filter(|length| *length >= BODY_BYTES_MIN)?;
    let body = rest.get(PREFIX_BYTES..PREFIX_BYTES.checked_add(length)?)?;
    if rest.get(PREFIX_BYTES + length) != Some(&TERMINATOR) {
        return None;
    }
    let mut encoded = Vec::new();
    encode_record(body, &mut encoded);
    let zxid = i64::from_be_bytes(body.get(ZXID)?.try_into().ok()?);
    rest.starts_with(&encoded).then_some(Record { offset, zxid: Zxid(zxid), body })
}

/// All whole records of a log, also behind damage.
fn salvage(bytes: &[u8]) -> Vec<Record<'_>> {
    let (mut found, mut offset) = (Vec::new(), HEADER_BYTES);
    while offset < bytes.len() {
        match record_at(bytes, offset) {
            Some(record) => {
                offset += record.body.len() + OVERHEAD_BYTES;
                found.push(record);
            }
            None => offset += 1,
        }
    }
    found
}

/// The records up to the zeros at the end, or where something else is.
fn sequence(bytes: &[u8]) -> Result<Vec<Record<'_>>, usize> {
    let (mut found, mut offset) = (Vec::new(), HEADER_BYTES);
    if !bytes.starts_with(&header()[..8]) {
        return Err(0);
    }
    while let Some(record) = record_at(bytes, offset) {
        offset += record.body.len() + OVERHEAD_BYTES;
        found.push(record);
    }
    let is_end = bytes.get(offset..).is_none_or(|rest| rest.iter().all(|byte| *byte == 0));
    if is_end { Ok(found) } else { Err(offset) }
}

fn name_of(path: &Path) -> String {
    path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default()
}

fn copy(from: &Path, to: &Path) -> Result<()> {
    fs::copy(from, to).at(from)?;
    fs::File::open(to).and_then(|file| file.sync_all()).at(to)
}

fn write(path: &Path, bytes: &[u8]) -> Result<()> {
    let mut file = fs::File::create(path).at(path)?;
    file.write_all(bytes).and_then(|()| file.sync_all()).at(path)
}

#[cfg(test)]
mod tests;

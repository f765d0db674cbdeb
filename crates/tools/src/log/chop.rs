//! Copies a log up to a transaction.

use std::fs::{self, File};
use std::io::{BufWriter, Read, Write};
use std::path::Path;

use zebu_proto::Zxid;
use zebu_store::log::{MAGIC, TERMINATOR};

use super::records::Records;
use super::{beside, name, text};
use crate::failure::Failure;

/// Writes a copy of the log that ends with transaction `zxid`, without room behind it.
pub(super) fn chop(
    records: Records<impl Read>,
    path: &Path,
    zxid: i64,
    out: &mut dyn Write,
) -> Result<(), Failure> {
    let copy_path = beside(path, &format!(".chopped{zxid}"));
    let mut copy = BufWriter::new(File::create(&copy_path)?);
    let copied = copy_until(records, Zxid(zxid), &mut copy, out);
    let synced = copy.into_inner().map_err(std::io::IntoInnerError::into_error)?.sync_all();
    let why = match copied {
        Ok(true) => return Ok(synced?),
        Ok(false) => format!("Failed to chop {}", name(path)),
        Err(failure) => failure.to_string(),
    };
    // A partial copy could be mistaken for a whole one.
    fs::remove_file(&copy_path)?;
    writeln!(out, "Got exception: {why}")?;
    Err(Failure::with_code(2, format_args!("hint: no {} was written", copy_path.display())))
}

/// Copies up to the transaction. Returns whether the transaction is in the log, with another one
/// after it.
fn copy_until(
    mut records: Records<impl Read>,
    zxid: Zxid,
    copy: &mut impl Write,
    out: &mut dyn Write,
) -> Result<bool, Failure> {
    let header = records.header()?;
    if header.magic() != MAGIC {
        eprintln!("Invalid magic number in txn log file");
        return Ok(false);
    }
    writeln!(out, "{}", header.title())?;
    copy.write_all(&header.bytes)?;
    let mut count = 0;
    let mut previous: Option<Zxid> = None;
    while let Some(record) = records.next()? {
        let right = record.sum_of_body();
        if record.sum != right {
            return Err(Failure::new(format_args!("CRC doesn't match {} vs {right}", record.sum)));
        }
        let current = text::zxid(&record.body)?;
        if record.terminator != Some(TERMINATOR) {
            writeln!(out, "Last transaction was partial.")?;
            return Err(Failure::new("Last transaction was partial."));
        }
        if let Some(gap) = previous.and_then(|previous| gap(previous, current)) {
            writeln!(out, "{gap}")?;
        }
        if current > zxid {
            if previous != Some(zxid) {
                writeln!(out, "This log does not contain zxid {:x}", zxid.0)?;
                return Ok(false);
            }
            writeln!(out, "Chopping at {:x} new log has {count} records", zxid.0)?;
            return Ok(true);
        }
        previous = Some(current);
        record.write(copy)?;
        count += 1;
    }
    writeln!(out, "EOF reached after {count} txns.")?;
    Ok(false)
}

/// The message about missing transactions between two records, if there are any.
fn gap(previous: Zxid, current: Zxid) -> Option<String> {
    if current.0 == previous.0 + 1 {
        return None;
    }
    let kind = if current.epoch() == previous.epoch() {
        "intra"
    } else if current.counter() != 1 {
        "inter"
    } else {
        return None;
    };
    Some(format!("There is {kind}-epoch gap between {:x} and {:x}", previous.0, current.0))
}

//! Prints a log, and copies it with corrected checksums.

use std::fs::{self, File};
use std::io::{BufRead, BufWriter, Read, Seek as _, Write};
use std::path::Path;

use zebu_store::log::{HEADER_BYTES, MAGIC, OVERHEAD_BYTES, TERMINATOR, padded_size};

use super::records::{Header, Record, Records};
use super::{beside, name, text};
use crate::failure::Failure;

/// The step by which the original extends a log file.
const STEP_BYTES: u64 = 64 * 1024 * 1024;

/// Prints a line for each transaction.
pub(super) fn dump(
    mut records: Records<impl Read>,
    path: &Path,
    out: &mut dyn Write,
) -> Result<(), Failure> {
    begin(&mut records, path, out)?;
    let mut count = 0;
    while let Some(record) = records.next()? {
        if record.sum != record.sum_of_body() {
            write!(out, "CRC ERROR - {}", text::line(&record.body)?)?;
        }
        write!(out, "{}", text::line(&record.body)?)?;
        must_be_whole(&record)?;
        count += 1;
    }
    Ok(writeln!(out, "EOF reached after {count} txns.")?)
}

/// Writes a copy with right checksums; with `answers` each is asked about.
pub(super) fn recover(
    mut records: Records<impl Read>,
    path: &Path,
    verbose: bool,
    mut answers: Option<&mut impl BufRead>,
    out: &mut dyn Write,
) -> Result<(), Failure> {
    let copy_path = beside(path, ".fixed");
    if fs::exists(&copy_path)? {
        return Err(Failure::new(format_args!(
            "Recovery file {} already exists or not writable",
            copy_path.display()
        )));
    }
    let header = begin(&mut records, path, out)?;
    let mut copy = Copy::create(&copy_path, header)?;
    let (mut count, mut fixed) = (0, 0);
    while let Some(mut record) = records.next()? {
        let right = record.sum_of_body();
        if record.sum != right {
            let line = text::line(&record.body)?;
            let fix = match &mut answers {
                None => {
                    write!(out, "CRC FIXED - {line}")?;
                    true
                }
                Some(answers) => {
                    write!(out, "CRC ERROR - {line}")?;
                    ask(answers, out)?
                }
            };
            if fix {
                record.sum = right;
                fixed += 1;
            }
        }
        if verbose {
            write!(out, "{}", text::line(&record.body)?)?;
        }
        must_be_whole(&record)?;
        copy.push(&record)?;
        count += 1;
    }
    copy.finish()?;
    writeln!(out, "EOF reached after {count} txns.")?;
    let path = copy_path.display();
    writeln!(out, "Recovery file {path} has been written with {fixed} fixed CRC error(s)")?;
    Ok(())
}

fn begin(
    records: &mut Records<impl Read>,
    path: &Path,
    out: &mut dyn Write,
) -> Result<Header, Failure> {
    let header = records.header()?;
    if header.magic() != MAGIC {
        let name = name(path);
        return Err(Failure::with_code(2, format_args!("Invalid magic number for {name}")));
    }
    writeln!(out, "{}", header.title())?;
    Ok(header)
}

/// A record that does not end as it should was never completed.
pub(super) fn must_be_whole(record: &Record) -> Result<(), Failure> {
    if record.terminator == Some(TERMINATOR) {
        return Ok(());
    }
    Err(Failure::new("Last transaction was partial."))
}

/// Whether to repair a checksum.
fn ask(answers: &mut impl BufRead, out: &mut dyn Write) -> Result<bool, Failure> {
    loop {
        write!(out, "Would you like to fix it (Yes/No/Abort) ? ")?;
        out.flush()?;
        match word(answers)?.bytes().next().map(|first| first.to_ascii_uppercase()) {
            Some(b'Y') => return Ok(true),
            Some(b'N') => return Ok(false),
            Some(b'A') => return Err(Failure::with_code(0, "Recovery aborted.")),
            Some(_) => {}
            None => return Err(Failure::new("error: no answer")),
        }
    }
}

/// The next word; empty where there is none.
fn word(answers: &mut impl BufRead) -> Result<String, Failure> {
    let mut line = String::new();
    while line.trim().is_empty() {
        line.clear();
        if answers.read_line(&mut line)? == 0 {
            break;
        }
    }
    Ok(line.trim().to_owned())
}

/// A log that is being written, with room behind its last record as a server's has.
struct Copy {
    file: BufWriter<File>,
    at: u64,
    size: u64,
}

impl Copy {
    fn create(path: &Path, header: Header) -> Result<Self, Failure> {
        let mut file = BufWriter::new(File::create_new(path)?);
        file.write_all(&header.bytes)?;
        let size = HEADER_BYTES as u64;
        Ok(Self { file, at: size, size })
    }

    fn push(&mut self, record: &Record) -> Result<(), Failure> {
        self.size = padded_size(self.at, self.size, STEP_BYTES);
        record.write(&mut self.file)?;
        self.at += (record.body.len() + OVERHEAD_BYTES) as u64;
        Ok(())
    }

    fn finish(mut self) -> Result<(), Failure> {
        self.file.flush()?;
        let end = self.file.stream_position()?;
        debug_assert_eq!(end, self.at);
        let file = self.file.get_ref();
        file.set_len(self.size.max(end))?;
        Ok(file.sync_all()?)
    }
}

//! `zebu log`: prints a transaction log, repairs its checksums, and cuts it.
//!
//! Its options and its output are those of the original's `TxnLogToolkit`.

mod chop;
mod dump;
mod records;
mod text;

use std::fs::File;
use std::io::{self, BufReader, BufWriter};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use crate::failure::{self, Failure};
use records::Records;

/// The size of a read.
const BLOCK_BYTES: usize = 256 * 1024;

/// Arguments of `zebu log`.
#[derive(Debug, Clone, PartialEq, Eq, clap::Args)]
#[command(
    about = "Show a transaction log, repair its checksums, or cut it",
    long_about = "Show a transaction log, repair its checksums, or cut it.\n\n\
        A server that refuses to start because of its log says so, and where; this shows what is there.",
    after_long_help = "\
Examples:
  zebu log zebu-data/version-2/log.1            every transaction, a line each
  zebu log -r log.1                             a copy, log.1.fixed, asking for each wrong checksum
  zebu log -c -z 0x4a log.1                     a copy that ends with this transaction, log.1.chopped74

Exit codes: 0 done, 1 damage or another failure, 2 not a log, wrong options, or nothing to cut."
)]
pub struct LogArgs {
    /// The log
    #[arg(value_name = "FILE")]
    pub file: PathBuf,

    /// Show all transactions (the default)
    #[arg(short, long)]
    pub dump: bool,

    /// Write FILE.fixed, in which records have the checksums they should have
    #[arg(short, long)]
    pub recover: bool,

    /// Show all transactions while repairing, not only those with wrong checksums
    #[arg(short, long)]
    pub verbose: bool,

    /// Repair all checksums without asking
    #[arg(short, long)]
    pub yes: bool,

    /// Write FILE.choppedZXID, which ends with transaction ZXID
    #[arg(short, long, requires = "zxid")]
    pub chop: bool,

    /// The last transaction that the cut log keeps; decimal, or hexadecimal with 0x
    #[arg(short, long, value_parser = parse_zxid, requires = "chop")]
    pub zxid: Option<i64>,
}

/// Executes the command.
pub fn run(args: &LogArgs) -> ExitCode {
    let mut out = BufWriter::new(io::stdout().lock());
    let done = act(args, &mut out);
    failure::end(done, &mut out)
}

fn act(args: &LogArgs, out: &mut dyn io::Write) -> Result<(), Failure> {
    let path = args.file.as_path();
    let file = File::open(path).map_err(|error| {
        Failure::new(format_args!(
            "File doesn't exist or not readable: {} ({error})",
            path.display()
        ))
    })?;
    let records = Records::new(BufReader::with_capacity(BLOCK_BYTES, file));
    if let Some(zxid) = args.zxid {
        return chop::chop(records, path, zxid, out);
    }
    if !args.recover {
        return dump::dump(records, path, out);
    }
    let ask = !args.yes;
    dump::recover(records, path, args.verbose, ask.then_some(&mut io::stdin().lock()), out)
}

/// The file's name without its directories, for messages.
fn name(path: &Path) -> String {
    path.file_name().map(|name| name.display().to_string()).unwrap_or_default()
}

/// A file beside the log, whose name begins with the log's.
fn beside(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(suffix);
    name.into()
}

/// Parses a number as Java does: `0x` or `#` for hexadecimal, a leading zero for octal digits.
fn parse_zxid(text: &str) -> Result<i64, String> {
    let hex = ["0x", "0X", "#"].iter().find_map(|prefix| text.strip_prefix(prefix));
    let parsed = match (hex, text.strip_prefix('0')) {
        (Some(digits), _) => i64::from_str_radix(digits, 16),
        (None, Some(digits)) if !digits.is_empty() => i64::from_str_radix(digits, 8),
        _ => text.parse(),
    };
    let zxid = parsed.ok().filter(|zxid| *zxid >= 0);
    zxid.ok_or_else(|| "a zxid was expected, such as 0x4a or 74".to_owned())
}

#[cfg(test)]
mod tests;

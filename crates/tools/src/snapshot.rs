//! `zebu snapshot`: prints a snapshot, sums up its subtrees, and compares two snapshots.
//!
//! Options and output are those of the original's `SnapshotFormatter`, `SnapshotRecursiveSummary`
//! and `SnapshotComparer`.

mod compare;
mod hashed;
mod image;
mod show;
mod summary;

use std::io::{self, BufWriter};
use std::path::PathBuf;
use std::process::ExitCode;

use crate::failure::{self, Failure};
use image::Image;

/// Arguments of `zebu snapshot`.
#[derive(Debug, Clone, PartialEq, Eq, clap::Args)]
#[command(
    about = "Show a snapshot, the sizes of its subtrees, or how two differ",
    after_long_help = "\
Examples:
  zebu snapshot show zebu-data/version-2/snapshot.4a
  zebu snapshot show --json snapshot.4a > tree.ncdu       for ncdu -f tree.ncdu
  zebu snapshot summary snapshot.4a / 2
  zebu snapshot compare -l snapshot.1 -r snapshot.4a -b 1000 -n 10

Compressed snapshots (.gz, .snappy) are read as they are.

Exit codes: 0 done, 1 a snapshot that cannot be read, 2 wrong options."
)]
pub struct SnapshotArgs {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Clone, PartialEq, Eq, clap::Subcommand)]
enum Command {
    /// All znodes with their stats, and the sessions.
    Show(ShowArgs),
    /// How many descendants znodes have, and how many bytes.
    Summary(SummaryArgs),
    /// Which znodes two snapshots have in common, and how much larger or smaller they are.
    Compare(compare::CompareArgs),
}

#[derive(Debug, Clone, PartialEq, Eq, clap::Args)]
struct ShowArgs {
    /// Show data, too, as base64
    #[arg(short, long, conflicts_with = "json")]
    data: bool,

    /// Print names and sizes as the JSON that ncdu reads
    #[arg(long)]
    json: bool,

    /// The snapshot
    #[arg(value_name = "FILE")]
    file: PathBuf,
}

#[derive(Debug, Clone, PartialEq, Eq, clap::Args)]
struct SummaryArgs {
    /// The snapshot
    #[arg(value_name = "FILE")]
    file: PathBuf,

    /// Where to begin
    path: String,

    /// Show znodes down to this depth, 0: all; deeper znodes still count
    depth: usize,
}

/// Executes the command.
pub fn run(args: &SnapshotArgs) -> ExitCode {
    let mut out = BufWriter::new(io::stdout().lock());
    let done = match &args.command {
        Command::Show(args) => show(args, &mut out),
        Command::Summary(args) => summary(args, &mut out),
        Command::Compare(args) => compare::run(args, &mut io::stdin().lock(), &mut out),
    };
    failure::end(done, &mut out)
}

fn show(args: &ShowArgs, out: &mut dyn io::Write) -> Result<(), Failure> {
    if !args.file.exists() {
        let path = std::path::absolute(&args.file)?;
        return Err(Failure::with_code(
            2,
            format_args!("File '{}' does not exist.", path.display()),
        ));
    }
    let image = Image::open(&args.file)?;
    if args.json {
        let now = jiff::Timestamp::now().as_millisecond();
        show::json(&image, now, out)?;
    } else {
        show::details(&image, args.data, out)?;
    }
    image.verdict()
}

fn summary(args: &SummaryArgs, out: &mut dyn io::Write) -> Result<(), Failure> {
    let image = Image::open(&args.file)?;
    let start = image.find(&args.path);
    let start = start.ok_or_else(|| Failure::new(format_args!("error: no znode {}", args.path)))?;
    summary::print(&image, start, args.depth, out)?;
    image.verdict()
}

#[cfg(test)]
mod tests;

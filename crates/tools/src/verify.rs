//! `zebu verify`: checks that the members of an ensemble have the same data, and that data
//! directories are intact.
//!
//! It asks members while they serve. It reads directories, also those of a running server, and
//! never changes them.

mod alone;
mod directories;
mod histories;
mod members;
mod report;
mod spool;
mod walk;

use std::io::{self, BufWriter, Write as _};
use std::path::PathBuf;
use std::process::ExitCode;

use report::Report;
use zebu_backup::BackupError;
use zebu_credentials::CredentialArgs;

use crate::configuration::ConfigArgs;
use crate::failure::Failure;

/// Arguments of `zebu verify`.
#[derive(Debug, Clone, PartialEq, Eq, clap::Args)]
#[command(
    about = "Compare the members of an ensemble, or check data directories and compare them",
    after_long_help = "\
Examples:
  zebu verify members /etc/zookeeper/conf/zoo.cfg
  zebu verify members --znodes --auth-file secret zoo.cfg     znode by znode
  zebu verify directories /var/lib/zookeeper                  one by itself
  zebu verify directories --znodes member1 member2 member3    and with each other

Exit codes: 0 verified; 1 something is damaged or differs; 2 bad arguments; 3 something could not be read or compared."
)]
pub struct VerifyArgs {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Clone, PartialEq, Eq, clap::Subcommand)]
enum Command {
    /// Ask all members of an ensemble, and compare their trees.
    Members(MembersArgs),
    /// Check data directories and backups, and compare them.
    Directories(DirectoriesArgs),
}

#[derive(Debug, Clone, PartialEq, Eq, clap::Args)]
#[command(long_about = "Ask all members of an ensemble, and compare their trees.\n\n\
    Asks every member for its last transaction and for the digests of its tree that it remembers: the four-letter words srvr \
    and hash, or the HTTP command hash. Digests behind the same transaction have to be the same. They cover path, data and stat \
    of every znode except those below /zookeeper, and no ACLs.\n\n\
    With --znodes a session with each member reads every znode: data, ACL and stat. What differs is read again until it stays, \
    so that writes meanwhile are no differences. Nothing is written but the sessions.")]
struct MembersArgs {
    #[command(flatten)]
    configuration: ConfigArgs,

    /// How the members are asked.
    #[command(flatten)]
    credentials: CredentialArgs,

    /// Read and compare every znode
    #[arg(long)]
    znodes: bool,

    /// A file with the identity for --znodes, one line: a scheme and a credential, as in
    /// `digest root:secret`
    #[arg(long, value_name = "FILE")]
    auth_file: Option<PathBuf>,

    /// How long to wait for each answer, in milliseconds
    #[arg(long, value_name = "MS", default_value_t = 5000, value_parser = clap::value_parser!(u64).range(1..=600_000))]
    timeout: u64,

    /// Show at most COUNT znodes that differ
    #[arg(long, value_name = "COUNT", default_value_t = 100)]
    limit: usize,

    /// Print a JSON object
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Clone, PartialEq, Eq, clap::Args)]
#[command(long_about = "Check data directories and backups, and compare them.\n\n\
    Each by itself: every snapshot and every log is read, with all checksums and sidecars; transactions must not be missing; and \
    the newest tree is built as a start builds it, with the digest of every transaction.\n\n\
    Two or more with each other: their transactions, one by one, and the trees behind the newest transaction that all have. \
    Digests cover path, data and stat of every znode except those below /zookeeper; --znodes compares ACLs as well.\n\n\
    One tree at a time is in memory. Znodes and transactions that are compared are in temporary files.")]
struct DirectoriesArgs {
    /// A data directory (dataDir), its version-2, or a backup
    #[arg(value_name = "DIR", required = true)]
    dirs: Vec<PathBuf>,

    /// The directory of the logs (dataLogDir), where it is another one; needs a single DIR
    #[arg(long, value_name = "DIR")]
    log_dir: Option<PathBuf>,

    /// The file with the key of those DIRs that are encrypted backups, as age-keygen writes it
    #[arg(long, value_name = "FILE")]
    identity: Option<PathBuf>,

    /// Compare every znode
    #[arg(long)]
    znodes: bool,

    /// Show at most COUNT znodes that differ
    #[arg(long, value_name = "COUNT", default_value_t = 100)]
    limit: usize,

    /// Print a JSON object
    #[arg(long)]
    json: bool,
}

/// Why directories cannot be verified.
#[derive(Debug, thiserror::Error)]
enum VerifyError {
    /// The arguments contradict each other.
    #[error("--log-dir needs a single directory")]
    LogDir,
    /// A directory or a backup cannot be opened or listed.
    #[error(transparent)]
    Source(#[from] BackupError),
    /// The sidecars of a directory cannot be listed.
    #[error("{}: {source}", path.display())]
    List {
        /// The directory.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// A temporary file cannot be written or read.
    #[error("temporary file: {0}")]
    Temporary(#[source] io::Error),
}

/// Runs the command.
pub fn run(args: &VerifyArgs) -> ExitCode {
    let (report, json) = match &args.command {
        Command::Members(args) => (members::verify(args), args.json),
        Command::Directories(args) => {
            zebu_backup::disk_class::read_when_idle();
            let report = directories::verify(args).map_err(|error| {
                Failure::with_code(report::UNKNOWN, format_args!("error: {error}"))
            });
            (report, args.json)
        }
    };
    match report.and_then(|report| shown(&report, json)) {
        Ok(code) => code,
        Err(failure) => failure.report(),
    }
}

fn shown(report: &Report, json: bool) -> Result<ExitCode, Failure> {
    let mut out = BufWriter::new(io::stdout().lock());
    if json { report.json(&mut out) } else { report.text(&mut out) }?;
    out.flush()?;
    Ok(ExitCode::from(report.code()))
}

#[cfg(test)]
mod tests;

//! `zebu backup`: copies of a server's logs and snapshots. Each backup contains only what is new
//! since the last one.

mod live;
mod plan;
mod shipped;
mod show;
mod take;
mod verify;

use std::io::{self, BufWriter, Write};
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};
use rustix::process::setpriority_process;
use zebu_credentials::CredentialArgs;
use zebu_store::OsVfs;

use crate::disk_class;
use crate::error::{BackupError, Result};
use crate::repository::{Lock, Repository};
use crate::source::Directory;
use crate::stored::Stored;

pub use live::{Received, ServerError, read_authorization, receive};
pub use plan::{Mismatch, Seen, SeenLog, gap, is_first, merge, retain};
pub use take::{Made, Wish, prune, take, take_received};
pub use verify::{Verdict, verify};

/// The newest backups that always stay.
const KEPT_MIN: usize = 3;
/// The largest accepted difference between clocks of machines.
const CLOCKS_MAX: SignedDuration = SignedDuration::from_mins(5);
/// The priority of this process while it makes a backup, as for `nice`.
const LOWEST_PRIORITY: i32 = 19;
/// A day.
const DAY_MS: i64 = 24 * 60 * 60 * 1000;

/// Arguments of `zebu backup`.
#[derive(Debug, Clone, PartialEq, Eq, clap::Args)]
#[command(
    about = "Back up the data of a server, list and verify backups",
    after_long_help = "\
Examples:
  zebu backup create --dir /var/lib/zookeeper --to /backup/zk --keep-days 30
  zebu backup create --server http://zk1:8080 --auth-file admin.auth --to /backup/zk
  zebu backup create --dir /var/lib/zookeeper --to s3://BUCKET/zk
  zebu backup list /backup/zk
  zebu backup verify /backup/zk
  zebu backup age /backup/zk --max 26h

Exit codes: 0 done, 1 failed, damaged, or older than --max, 2 wrong options."
)]
pub struct BackupArgs {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Clone, PartialEq, Eq, clap::Subcommand)]
enum Command {
    /// Back up a data directory, also while its server runs, or a snapshot that a server sends.
    Create(CreateArgs),
    /// Show which backups there are.
    List(ListArgs),
    /// Read all files of a backup, and check them.
    Verify(VerifyArgs),
    /// Show how old the newest backup is, for monitoring.
    Age(AgeArgs),
}

#[derive(Debug, Clone, PartialEq, Eq, clap::Args)]
#[command(
    long_about = "Back up a data directory, also while its server runs, or a snapshot that a server sends.\n\n\
    Of a directory (--dir), reads and checks all logs and snapshots, and copies those that the last backup does not have. A log \
    is copied up to its last whole record. Snapshots that are damaged are left out, with exit code 1; a damaged log ends the \
    backup. Every backup is complete: it needs no other one.\n\n\
    Of a server (--server), does the same over HTTP, if the server is Zebu. ZooKeeper since 3.9 sends a snapshot with the \
    command `snapshot`. Such a backup has no logs, so only the moments of its snapshots can be restored."
)]
struct CreateArgs {
    /// The data directory (dataDir), or its version-2
    #[arg(short, long, value_name = "DIR", required_unless_present = "server")]
    dir: Option<PathBuf>,

    /// The directory of the logs (dataLogDir), if it is a different one
    #[arg(long, value_name = "DIR", requires = "dir")]
    log_dir: Option<PathBuf>,

    /// A server, by the address of its HTTP server (admin.serverPort), instead of a directory
    #[arg(long, value_name = "URL", conflicts_with = "dir", value_parser = live::parse_server)]
    server: Option<live::Address>,

    /// A file with the credentials for the server: one line with scheme and credential, as in
    /// `digest root:secret`
    #[arg(long, value_name = "FILE", requires = "server")]
    auth_file: Option<PathBuf>,

    /// How a server is asked whose address begins with https://.
    #[command(flatten)]
    credentials: CredentialArgs,

    /// The directory of the backups, or s3://BUCKET/PREFIX; a new or empty one for the first backup
    #[arg(short, long, value_name = "BACKUP")]
    to: PathBuf,

    /// Encrypt to the age public keys in this file, one per line; the choice of the first backup
    /// applies to all later ones
    #[arg(long, value_name = "FILE")]
    encrypt_to: Option<PathBuf>,

    /// Remove files that no restore to a point of the last N days needs; the newest 3 backups stay
    #[arg(long, value_name = "DAYS", value_parser = clap::value_parser!(u32).range(1..=36500))]
    keep_days: Option<u32>,

    /// Read no more of a directory per second, in KiB, so that its server does not wait for the
    /// disk
    #[arg(long, value_name = "KIB", default_value_t = 32768, requires = "dir")]
    #[arg(value_parser = clap::value_parser!(u64).range(1..=u64::MAX / 1024))]
    rate_in_kb: u64,

    /// Keep the class of this process at the disk; otherwise a reader of a directory goes into the
    /// idle class, unless you have chosen one with ionice
    #[arg(long, requires = "dir")]
    keep_io_class: bool,

    /// Begin a new history: the directory need not continue the last backup
    #[arg(long)]
    anew: bool,

    /// Print a JSON object
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Clone, PartialEq, Eq, clap::Args)]
struct ListArgs {
    /// The directory of the backups, or s3://BUCKET/PREFIX
    #[arg(value_name = "BACKUP")]
    backup: PathBuf,

    /// Print JSON, an object a line
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Clone, PartialEq, Eq, clap::Args)]
struct VerifyArgs {
    /// The directory of the backups, or s3://BUCKET/PREFIX
    #[arg(value_name = "BACKUP")]
    backup: PathBuf,

    /// Which backup, instead of the newest
    #[arg(long, value_name = "NUMBER", conflicts_with = "all")]
    number: Option<u64>,

    /// All backups
    #[arg(long)]
    all: bool,

    /// The file with the key of an encrypted backup, as age-keygen writes it
    #[arg(short, long, value_name = "FILE")]
    identity: Option<PathBuf>,
}

#[derive(Debug, Clone, PartialEq, Eq, clap::Args)]
struct AgeArgs {
    /// The directory of the backups, or s3://BUCKET/PREFIX
    #[arg(value_name = "BACKUP")]
    backup: PathBuf,

    /// The exit code is 1 when the newest backup is older, as in 26h or 90m
    #[arg(long, value_name = "TIME", value_parser = parse_duration)]
    max: Option<SignedDuration>,

    /// Print metrics for Prometheus, as for the text files of its node exporter
    #[arg(long)]
    metrics: bool,
}

fn parse_duration(text: &str) -> Result<SignedDuration, String> {
    let parsed = text.parse::<SignedDuration>().ok().filter(|time| !time.is_negative());
    parsed.ok_or_else(|| format!("{text:?} is no time such as 26h or 90m"))
}

/// Runs the command.
pub fn run(args: &BackupArgs) -> ExitCode {
    let mut out = BufWriter::new(io::stdout().lock());
    let done = match &args.command {
        Command::Create(args) => create(args, &mut out),
        Command::List(args) => list(args, &mut out),
        Command::Verify(args) => verify_all(args, &mut out),
        Command::Age(args) => age(args, now_ms(), &mut out),
    };
    let done = done.and_then(|is_well| {
        out.flush().map_err(BackupError::Output)?;
        Ok(is_well)
    });
    crate::end(done)
}

fn now_ms() -> i64 {
    Timestamp::now().as_millisecond()
}

fn create(args: &CreateArgs, out: &mut dyn Write) -> Result<bool> {
    // Servers on this machine get the processor and the disk first. A system that does not permit
    // that lets this compete.
    let _ = setpriority_process(None, LOWEST_PRIORITY);
    if args.dir.is_some() && !args.keep_io_class {
        disk_class::read_when_idle();
    }
    let now_ms = now_ms();
    let horizon_ms = args.keep_days.map(|days| now_ms - i64::from(days) * DAY_MS);
    let wish = |source| Wish { source, now_ms, anew: args.anew, horizon_ms };
    let (made, repository, _lock) = match (&args.dir, &args.server) {
        (Some(dir), _) => {
            let source = Directory::open(Arc::new(OsVfs), dir, args.log_dir.as_deref())?;
            let source = source.paced(args.rate_in_kb * 1024);
            let (repository, lock) = begin(args)?;
            let wish = wish(format!("directory {}", source.snap_dir().display()));
            (take(&source, &repository, &wish)?, repository, lock)
        }
        (None, Some(server)) => {
            let authorization = args.auth_file.as_deref().map(read_authorization).transpose()?;
            let dialer = args.credentials.load(|remark| eprintln!("note: {remark}"))?.dialer()?;
            let (repository, lock) = begin(args)?;
            let wish = wish(format!("server {server}"));
            let last = take::last(&repository, &wish)?;
            if let Some(shipped) =
                shipped::ship(server, &dialer, authorization.as_ref(), last.as_ref())?
            {
                let made = take(&shipped.source, &repository, &wish)?;
                return finish(args, horizon_ms, &made, &repository, out);
            }
            let received = receive(server, &dialer, authorization, &repository, now_ms)?;
            if let Some(traces) = received.traces() {
                eprintln!(
                    "note: the server applied transactions up to {traces} while it took snapshot {}, so the snapshot has \
                     traces of some of them\nhint: zebu restore takes it with --fuzzy; a backup of the directory is exact",
                    received.entry.zxid
                );
            }
            (take_received(received, &repository, &wish)?, repository, lock)
        }
        (None, None) => {
            return Err(BackupError::Usage("--dir or --server is needed".to_owned()));
        }
    };
    finish(args, horizon_ms, &made, &repository, out)
}

/// Removes old backups, and reports the new one.
fn finish(
    args: &CreateArgs,
    horizon_ms: Option<i64>,
    made: &Made,
    repository: &Repository,
    out: &mut dyn Write,
) -> Result<bool> {
    let pruned = match horizon_ms {
        Some(horizon_ms) => prune(repository, horizon_ms, KEPT_MIN),
        None => Ok((0, 0)),
    };
    show::made(made, *pruned.as_ref().unwrap_or(&(0, 0)), args.json, out)
        .map_err(BackupError::Output)?;
    for left_out in &made.left_out {
        eprintln!(
            "error: {left_out}\nhint: this snapshot is not in the backup, which is complete without it"
        );
    }
    pruned.map_err(|error| BackupError::Prune(Box::new(error)))?;
    Ok(made.left_out.is_empty())
}

/// Opens the repository of a new backup for this process alone.
fn begin(args: &CreateArgs) -> Result<(Repository, Lock)> {
    let mut repository = Repository::create(&args.to)?;
    let lock = repository.lock()?;
    if let Some(file) = &args.encrypt_to {
        repository.encrypt_to(file)?;
    }
    Ok((repository, lock))
}

fn list(args: &ListArgs, out: &mut dyn Write) -> Result<bool> {
    let repository = Repository::open(&args.backup)?;
    let mut is_well = true;
    for number in repository.manifests()? {
        match crate::stored::read(&repository, number) {
            Ok(manifest) => {
                show::manifest(&manifest, args.json, out).map_err(BackupError::Output)?
            }
            Err(error) => {
                is_well = false;
                eprintln!("error: {error}");
            }
        }
    }
    Ok(is_well)
}

fn verify_all(args: &VerifyArgs, out: &mut dyn Write) -> Result<bool> {
    let mut repository = Repository::open(&args.backup)?;
    repository.unlock(args.identity.as_deref())?;
    let numbers = match (args.number, args.all) {
        (None, true) => repository.manifests()?.into_iter().map(Some).collect(),
        (number, _) => vec![number],
    };
    if numbers.is_empty() {
        return Err(BackupError::Empty(repository.name()));
    }
    let mut is_well = true;
    for number in numbers {
        let stored = match Stored::open(repository.clone(), number) {
            Ok(stored) => stored,
            Err(error) => {
                is_well = false;
                eprintln!("error: {error}");
                continue;
            }
        };
        let verdict = verify(&stored);
        show::verdict(&stored.manifest, &verdict, out).map_err(BackupError::Output)?;
        for fault in &verdict.faults {
            eprintln!("error: {fault}");
        }
        for note in &verdict.notes {
            eprintln!("note: {note}");
        }
        is_well &= verdict.faults.is_empty();
    }
    Ok(is_well)
}

fn age(args: &AgeArgs, now_ms: i64, out: &mut dyn Write) -> Result<bool> {
    let repository = Repository::open(&args.backup)?;
    let manifest = Stored::open(repository, None)?.manifest;
    let age = SignedDuration::from_millis(now_ms.saturating_sub(manifest.made_ms));
    show::age(&manifest, age, args.metrics, out).map_err(BackupError::Output)?;
    match args.max {
        Some(_) if age < -CLOCKS_MAX => {
            eprintln!(
                "error: the newest backup was made {:#} from now: the clock is wrong, or was wrong then",
                -age
            );
            Ok(false)
        }
        Some(max) if age > max => {
            eprintln!("error: the newest backup is {age:#} old, more than {max:#}");
            Ok(false)
        }
        _ => Ok(true),
    }
}

#[cfg(test)]
mod tests;

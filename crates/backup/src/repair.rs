//! `zebu repair`: repairs damaged logs and snapshots of one member with the data of other members.
//!
//! The sidecar of a log proves the result: it contains the number and the chained hash of the
//! durable records. So the repaired log is byte for byte the one that this member had, whatever the
//! source of its records. Nothing is guessed, and the result does not depend on which transactions
//! are committed. Whole records after damage are found by their checksums.

use std::collections::BTreeSet;
use std::fs;
use std::io::{self, Write};
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;

use zebu_proto::Zxid;
use zebu_store::log::read::LogRecord;
use zebu_store::log_repair::{self, Examined};
use zebu_store::{Nothing, OsVfs, names};

use crate::error::{At as _, BackupError, Result};
use crate::restore::rebuild;
use crate::source::{Directory, LogDamage, SnapFile, Source as _};

/// The longest record that the search after damage accepts.
const RECORD_BYTES_MAX: usize = 64 << 20;

/// Arguments of `zebu repair`.
#[derive(Debug, Clone, PartialEq, Eq, clap::Args)]
#[command(
    about = "Repair damaged logs and snapshots of one member with the data of other members",
    long_about = "Repair damaged logs and snapshots of one member with the data of other members.\n\n\
        Reads the data directory of a stopped member and those of other members, or copies of them. Each of them may be damaged \
        somewhere. Writes the repaired files into a new directory, and changes nothing else. The sidecar of each log proves that \
        the repaired log has exactly the transactions that were durable here.",
    after_long_help = "\
Examples:
  zebu repair member1 --from member2 --from member3 --into repaired

Exit codes: 0 repaired, 1 not repaired: no source has an intact copy of a transaction, or no sidecar proves it;\n2 wrong options."
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

/// Runs the command.
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
    for first in logs(&own)? {
        let line = repair_log(&own, &others, first, &into)?;
        say(&format!("{}: {line}", names::log(first)))?;
    }
    let last = last_of(&Directory::open(Arc::new(OsVfs), &args.into, None)?)?;
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

/// Makes sure that the logs can be replayed, if necessary with another member's snapshot.
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
            let what = format!("the repaired data end with transaction {built}, not {wanted}");
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

/// The first transactions of the logs that the member has or should have.
fn logs(own: &Directory) -> Result<BTreeSet<Zxid>> {
    let mut found = BTreeSet::new();
    for entry in fs::read_dir(own.log_dir()).at(own.log_dir())? {
        let name = name_of(&entry.at(own.log_dir())?.path());
        found.extend(names::parse_log(&name).or_else(|| names::parse_sidecar(&name)));
    }
    Ok(found)
}

/// Writes a whole log into a directory. Returns a description of the repair.
fn repair_log(own: &Directory, others: &[Directory], first: Zxid, into: &Path) -> Result<String> {
    let (name, vfs) = (names::log(first), own.vfs().as_ref());
    let path = own.log_dir().join(&name);
    let failed = |what: String| BackupError::Unrepairable { path: path.clone(), what };
    let mut damaged =
        match log_repair::examine(vfs, own.log_dir(), first, RECORD_BYTES_MAX).at(&path)? {
            Examined::Whole => {
                copy(&path, &into.join(&name))?;
                return Ok("is whole".to_owned());
            }
            Examined::Damaged(damaged) => *damaged,
            Examined::Unproven => {
                if let Some(damage) = damage(own, first)? {
                    return Err(failed(format!(
                        "{damage}; without a sidecar nothing proves what was there"
                    )));
                }
                if path.exists() {
                    copy(&path, &into.join(&name))?;
                }
                return Ok("is whole, as far as a log without a sidecar tells".to_owned());
            }
        };
    // Damage may look like intact records. Then all records are taken from the other members.
    for _ in 0..2 {
        let missing = damaged.missing();
        for other in others {
            let mut take = |record: LogRecord<'_>| {
                damaged.offer(record.zxid, record.body);
                ControlFlow::Continue(())
            };
            let (vfs, dir) = (other.vfs().as_ref(), other.log_dir());
            log_repair::whole_records(vfs, dir, &missing, RECORD_BYTES_MAX, &mut take).at(dir)?;
        }
        if damaged.is_filled()
            && let Some(temporary) = damaged.write(vfs, into).at(into)?
        {
            fs::rename(&temporary, into.join(&name)).at(&temporary)?;
            let (found, wanted) = (damaged.found(), damaged.records());
            return Ok(format!("{found} of {wanted} transactions are from other sources"));
        }
        damaged.begin_anew();
    }
    let lacks: Vec<String> =
        damaged.lacks().iter().map(|it| format!("{} to {}", it.after, it.up_to)).collect();
    let what = format!(
        "no source has an intact copy of some of its {} transactions, or the copies differ from the original ones; \
         missing between {}",
        damaged.records(),
        lacks.join(", ")
    );
    Err(failed(what))
}

/// The damage of a log without a sidecar.
fn damage(own: &Directory, first: Zxid) -> Result<Option<LogDamage>> {
    let log = own.logs()?.into_iter().find(|log| log.first == first);
    let Some(log) = log else { return Ok(None) };
    Ok(own.read_log(&log, &mut |_| Ok(()))?.and_then(|report| report.damage))
}

/// The last transaction in the logs of a directory.
fn last_of(dir: &Directory) -> Result<Zxid> {
    let mut last = Zxid::ZERO;
    for log in dir.logs()? {
        dir.read_log(&log, &mut |record| {
            last = last.max(record.zxid);
            Ok(())
        })?;
    }
    Ok(last)
}

fn name_of(path: &Path) -> String {
    path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default()
}

fn copy(from: &Path, to: &Path) -> Result<()> {
    fs::copy(from, to).at(from)?;
    fs::File::open(to).and_then(|file| file.sync_all()).at(to)
}

#[cfg(test)]
mod tests;

//! `zebu history`: the changes of a znode, from the files of a server that may run or not.
//!
//! Logs are read in the order of their transactions, across directories. A transaction that is in
//! several logs counts once. Where transactions are missing, snapshots show what remains of them;
//! see [`trace`].

mod addresses;
pub mod newest;
mod show;
pub mod trace;

use std::collections::VecDeque;
use std::fs::File;
use std::io::{self, BufReader, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use zebu_proto::Zxid;
use zebu_proto::txn::TxnRecord;

use crate::dates::{self, Point};
use crate::error::{At as _, BackupError, Result};
use crate::source::{LogFile, SnapFile, Source, follows};
use addresses::Addresses;
use show::Show;
use trace::{Event, Found, Gap, Scope, Trace, Wanted};

/// The most undecodable transactions that are listed.
const ERRORS_MAX: usize = 20;

/// Arguments of `zebu history`.
#[derive(Debug, Clone, PartialEq, Eq, clap::Args)]
#[command(
    about = "Show who changed a znode, when, from which session",
    long_about = "Show who changed a znode, when, from which session.\n\n\
        Reads the logs and snapshots of data directories and backups, also while a server runs, and those that ZooKeeper has \
        written. Transactions have the id of the session, and neither an address nor a user: --audit adds them from audit \
        logs. Where transactions are missing, the snapshots tell when a znode was created and when its data were set last, \
        and not by whom.",
    after_long_help = "\
Examples:
  zebu history /app/config --dir zebu-data
  zebu history /app --recursive --dir data --log-dir logs --since 2026-11-25T04:00 --json
  zebu history /app/config --dir zebu-data --dir old-data --audit zookeeper_audit.log --data

Exit codes: 0 shown, 1 something is damaged or cannot be read, 2 wrong options."
)]
pub struct HistoryArgs {
    /// The znode
    #[arg(value_name = "PATH")]
    pub path: String,

    /// A data directory (dataDir), its version-2, or a backup; may be given several times: the
    /// command merges their transactions
    #[arg(short, long, value_name = "DIR", required = true)]
    pub dir: Vec<PathBuf>,

    /// The directory of the logs (dataLogDir), if it is a different one; needs a single --dir
    #[arg(long, value_name = "DIR")]
    pub log_dir: Option<PathBuf>,

    /// Show its children, too
    #[arg(short, long, conflicts_with = "recursive")]
    pub children: bool,

    /// Show everything below it, too
    #[arg(short, long)]
    pub recursive: bool,

    /// Only changes from this point on: a zxid (0x…) or a time
    #[arg(long, value_name = "POINT", value_parser = dates::parse_point)]
    pub since: Option<Point>,

    /// Only changes up to this point: a zxid (0x…) or a time
    #[arg(long, value_name = "POINT", value_parser = dates::parse_point)]
    pub until: Option<Point>,

    /// Only the last COUNT changes
    #[arg(short = 'n', long, value_name = "COUNT", value_parser = clap::value_parser!(u32).range(1..))]
    pub last: Option<u32>,

    /// Show all data, instead of their beginning
    #[arg(long)]
    pub data: bool,

    /// An audit log, or a server log, that tells from which address a session was used; may be
    /// given several times
    #[arg(long, value_name = "FILE")]
    pub audit: Vec<PathBuf>,

    /// The file with the key of encrypted backups, as age-keygen writes it
    #[arg(long, value_name = "FILE")]
    pub identity: Option<PathBuf>,

    /// Print JSON, an object a line
    #[arg(long)]
    pub json: bool,
}

/// Shows the history.
pub fn run(args: &HistoryArgs) -> ExitCode {
    let mut out = BufWriter::new(io::stdout().lock());
    let shown = act(args, &mut out).and_then(|summary| {
        out.flush().map_err(BackupError::Output)?;
        summary.report(&args.path, args.audit.is_empty());
        Ok(summary.errors.is_empty())
    });
    crate::end(shown)
}

fn act(args: &HistoryArgs, out: &mut dyn Write) -> Result<Summary> {
    if let Err(error) = zebu_proto::path::validate(&args.path) {
        return Err(BackupError::Usage(format!("{}: {error}", args.path)));
    }
    if args.log_dir.is_some() && args.dir.len() != 1 {
        return Err(BackupError::Usage("--log-dir needs a single --dir".to_owned()));
    }
    let mut addresses = Addresses::default();
    for path in &args.audit {
        let log = File::open(path).at(path)?;
        addresses.read(BufReader::new(log)).at(path)?;
    }
    let mut sources: Vec<Box<dyn Source>> = Vec::new();
    for dir in &args.dir {
        sources.push(crate::stored::source(
            dir,
            args.log_dir.as_deref(),
            args.identity.as_deref(),
        )?);
    }
    let scope = match (args.children, args.recursive) {
        (_, true) => Scope::Below,
        (true, _) => Scope::Children,
        _ => Scope::This,
    };
    let mut show = Show::new(out, args.json, args.data, &addresses);
    let mut recent = Recent { items: VecDeque::new(), most: args.last.map(|most| most as usize) };
    let summary = read(&sources, &Wanted::new(&args.path, scope), &mut |item| {
        if is_between(&item, args.since, args.until) {
            recent.push(item, &mut show)?;
        }
        Ok(())
    })?;
    recent.end(&mut show).map_err(BackupError::Output)?;
    Ok(summary)
}

/// Whether an item may lie between two points. An item without a time lies between any two times.
fn is_between(item: &Item, since: Option<Point>, until: Option<Point>) -> bool {
    let (from, to) = match item {
        Item::Event(event) => {
            (Some((event.zxid, event.time_ms)), Some((event.zxid, event.time_ms)))
        }
        Item::Gap(gap) => {
            let after = (gap.after > Zxid::ZERO).then_some((gap.after, gap.after_ms));
            (after, gap.before.map(|before| (before, gap.before_ms)))
        }
    };
    let is_out =
        |point: Point, at: (Zxid, Option<i64>), is_out: fn(Point, Zxid, i64) -> bool| match (
            point, at.1,
        ) {
            (Point::Time(_), None) => false,
            (point, time_ms) => is_out(point, at.0, time_ms.unwrap_or_default()),
        };
    let is_early = since.zip(to).is_some_and(|(point, to)| is_out(point, to, Point::is_after));
    let is_late =
        until.zip(from).is_some_and(|(point, from)| is_out(point, from, Point::is_before));
    !is_early && !is_late
}

/// An item of the output.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Item {
    /// A change.
    Event(Event),
    /// Missing transactions.
    Gap(Gap),
}

/// Keeps the last changes only.
struct Recent {
    items: VecDeque<Item>,
    most: Option<usize>,
}

impl Recent {
    fn push(&mut self, item: Item, show: &mut Show<'_>) -> io::Result<()> {
        let Some(most) = self.most else { return show.item(&item) };
        if self.items.len() == most {
            self.items.pop_front();
        }
        self.items.push_back(item);
        Ok(())
    }

    fn end(&mut self, show: &mut Show<'_>) -> io::Result<()> {
        self.items.drain(..).try_for_each(|item| show.item(&item))
    }
}

/// The extent of what was read.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Summary {
    /// The number of transactions.
    pub txns: u64,
    /// The first of them.
    pub first: Option<Zxid>,
    /// The last of them.
    pub last: Zxid,
    /// The number of logs.
    pub logs: usize,
    /// Damaged and unreadable files; empty if everything could be read.
    pub errors: Vec<String>,
    /// Further remarks for the operator.
    pub notes: Vec<String>,
}

impl Summary {
    fn report(&self, path: &str, no_audit: bool) {
        for error in &self.errors {
            eprintln!("error: {error}");
        }
        for note in &self.notes {
            eprintln!("note: {note}");
        }
        let first = self.first.map(|first| format!(" ({first} to {})", self.last));
        let (txns, logs, first) = (self.txns, self.logs, first.unwrap_or_default());
        eprintln!("{path}: read {txns} transactions{first} in {logs} logs");
        if no_audit {
            eprintln!(
                "note: transactions have no addresses and no users: --audit FILE adds them from an audit log"
            );
        }
    }
}

/// Reads all sources, and passes the items on in order.
///
/// # Errors
/// A list of files cannot be read, or `each` fails. Single unreadable files are reported on stderr.
pub fn read(
    sources: &[Box<dyn Source>],
    wanted: &Wanted,
    each: &mut dyn FnMut(Item) -> io::Result<()>,
) -> Result<Summary> {
    let mut logs: Vec<(usize, LogFile)> = Vec::new();
    let mut snapshots: Vec<(usize, SnapFile)> = Vec::new();
    for (at, source) in sources.iter().enumerate() {
        logs.extend(source.logs()?.into_iter().map(|log| (at, log)));
        snapshots.extend(source.snapshots()?.into_iter().map(|file| (at, file)));
    }
    logs.sort_by_key(|(_, log)| log.first);
    snapshots.sort_by_key(|(_, file)| file.zxid);
    let mut reading = Reading {
        sources,
        snapshots,
        wanted: wanted.clone(),
        trace: Trace::new(wanted.clone()),
        last_ms: None,
        summary: Summary::default(),
    };
    for (at, log) in &logs {
        let mut previous = log.previous;
        let report = sources[*at].read_log(log, &mut |record| {
            reading.record(&log.path, record.zxid, record.body, previous.take(), each)
        });
        let report = match report {
            Ok(report) => report,
            Err(error @ (BackupError::Output(_) | BackupError::TooLong(_))) => return Err(error),
            Err(error) => {
                let last = reading.summary.last;
                reading.summary.errors.push(format!("{error}, after transaction {last}"));
                continue;
            }
        };
        let path = log.path.display();
        let Some(report) = report else {
            reading.summary.notes.push(format!("{path}: removed meanwhile, so it is not shown"));
            continue;
        };
        reading.summary.logs += 1;
        if report.torn {
            let last = report.seen.last;
            reading.summary.notes.push(format!(
                "{path}: an incomplete record follows transaction {last}: a server is writing it, or stopped while \
                 writing it"
            ));
        }
        if let Some(damage) = report.damage {
            reading.summary.errors.push(format!(
                "{path}: {damage}\nhint: what follows in this log is not shown; another member's directory may have it: \
                 add it with --dir"
            ));
        }
    }
    reading.gap(None, each)?;
    let mut said = Ok(());
    reading.trace.end(reading.summary.last, &mut |event| {
        if said.is_ok() {
            said = each(Item::Event(event));
        }
    });
    said.map_err(BackupError::Output)?;
    Ok(reading.summary)
}

struct Reading<'a> {
    sources: &'a [Box<dyn Source>],
    snapshots: Vec<(usize, SnapFile)>,
    wanted: Wanted,
    trace: Trace,
    /// The time of the last transaction.
    last_ms: Option<i64>,
    summary: Summary,
}

impl Reading<'_> {
    /// Takes the next record. `previous`: its predecessor according to the sidecar of its log.
    fn record(
        &mut self,
        path: &Path,
        zxid: Zxid,
        body: &[u8],
        previous: Option<Zxid>,
        each: &mut dyn FnMut(Item) -> io::Result<()>,
    ) -> Result<()> {
        let last = self.summary.last;
        if zxid <= last {
            return Ok(());
        }
        let is_next = match previous {
            Some(previous) => previous <= last,
            // The very first transaction has counter 1, in epoch 0 or 1.
            None if last == Zxid::ZERO => zxid.counter() == 1 && zxid.epoch().0 <= 1,
            None => follows(last, zxid),
        };
        let record = match TxnRecord::decode(body) {
            Ok(record) => record,
            Err(error) => {
                // The gap before the next record shows the missing transaction.
                let path = path.display();
                let message = format!("{path}: transaction {zxid} cannot be decoded: {error}");
                if self.summary.errors.len() < ERRORS_MAX {
                    self.summary.errors.push(message);
                }
                return Ok(());
            }
        };
        let time_ms = Some(record.header.time_ms);
        if !is_next {
            self.gap(Some((zxid, time_ms)), each)?;
        }
        let mut said = Ok(());
        self.trace.txn(&record, &mut |event| {
            if said.is_ok() {
                said = each(Item::Event(event));
            }
        });
        said.map_err(BackupError::Output)?;
        self.summary.first.get_or_insert(zxid);
        self.summary.last = zxid;
        self.last_ms = time_ms;
        self.summary.txns += 1;
        Ok(())
    }

    /// Handles the gap before `before`, from snapshot to snapshot.
    fn gap(
        &mut self,
        next: Option<(Zxid, Option<i64>)>,
        each: &mut dyn FnMut(Item) -> io::Result<()>,
    ) -> Result<()> {
        let (before, before_ms) = next.map_or((None, None), |(zxid, ms)| (Some(zxid), ms));
        let (after, after_ms) = (self.summary.last, self.last_ms);
        let mut gap = Gap { after, after_ms, before, before_ms };
        let inside = |file: &SnapFile| before.is_none_or(|before| file.zxid.0 < before.0 - 1);
        let files: Vec<_> = (self.snapshots.iter())
            .filter(|(_, file)| file.zxid > gap.after || gap.after == Zxid::ZERO)
            .cloned()
            .collect();
        if before.is_none() && files.iter().all(|(_, file)| file.zxid <= gap.after) {
            return Ok(());
        }
        each(Item::Gap(gap)).map_err(BackupError::Output)?;
        self.trace.blank(gap);
        for (at, file) in files {
            let mut found = Found::new(self.wanted.clone());
            let sections = match self.sources[at].read_snapshot(&file, &mut found) {
                Ok(Some(sections)) => sections,
                Ok(None) => continue,
                Err(error) => {
                    self.summary.errors.push(format!("{error}"));
                    continue;
                }
            };
            let mut said = Ok(());
            // Effects that an earlier snapshot has shown are not reported again. The rest of the
            // gap follows them.
            self.trace.gap(gap, sections.extent(false), &found, &mut |event| {
                if said.is_ok() {
                    said = each(Item::Event(event));
                }
            });
            said.map_err(BackupError::Output)?;
            if !inside(&file) {
                break;
            }
            gap.after = file.zxid;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;

//! `zebu bench compare`: the same load on Zebu and on the original, in turn, on this machine.

mod args;
mod estimate;
mod record;

use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context, anyhow, bail};
use tempfile::TempDir;

pub(crate) use args::CompareArgs;
use args::Suite;
use record::Record;

use crate::board::{Board, Sheet};
use crate::cleanup::{self, GuardedDir};
use crate::contestant::{Contestant, Running};
use crate::process;
use crate::suite;

/// The time limit for a server's first answer.
pub(crate) const START_LIMIT: Duration = Duration::from_secs(300);
/// Files that this process needs besides one for each session.
const OTHER_FILES: u64 = 100;
/// The type of an in-memory filesystem, on which an fsync costs nothing.
const TMPFS_MAGIC: i64 = 0x0102_1994;

/// A column of the tables: a server, or a server with one of several sizes.
struct Entrant<'a> {
    name: String,
    contestant: &'a Contestant,
    size: Option<usize>,
}

/// One server in one round of one suite.
pub(crate) struct Bout<'a> {
    pub(crate) contestant: &'a Contestant,
    pub(crate) args: &'a CompareArgs,
    /// The server's own directory.
    pub(crate) dir: &'a Path,
    /// The number of files that this process may open.
    pub(crate) open_files: u64,
}

impl Bout<'_> {
    /// Starts the server, and waits until it answers for `path`. Also returns the time until then.
    pub(crate) fn start(&self, path: &str) -> anyhow::Result<(Running, Duration)> {
        self.start_with(path, &[])
    }

    /// The same, with further lines of configuration.
    pub(crate) fn start_with(
        &self,
        path: &str,
        lines: &[String],
    ) -> anyhow::Result<(Running, Duration)> {
        rustix::fs::sync(); // what others wrote is not to be paid for by this server's fsync
        let extra = [&self.args.extra, lines].concat();
        let mut running = self.contestant.start(self.dir, &extra)?;
        let took = running.wait_for(path, START_LIMIT)?;
        Ok((running, took))
    }

    /// The same in another directory.
    pub(crate) fn within<'d>(&'d self, dir: &'d Path) -> Bout<'d> {
        Bout { dir, ..*self }
    }

    /// `wanted` connections, or as many as the limit of open files allows.
    /// This process has `ends` ends of each connection.
    pub(crate) fn connections(&self, wanted: usize, ends: u64) -> usize {
        let most = self.open_files.saturating_sub(OTHER_FILES) / ends;
        wanted.min(usize::try_from(most).unwrap_or(usize::MAX))
    }

    /// As [`Bout::connections`]; fewer than wanted are noted.
    pub(crate) fn affordable(&self, wanted: usize, ends: u64, sheet: &mut Sheet<'_>) -> usize {
        let most = self.connections(wanted, ends);
        if wanted > most {
            let limit = self.open_files;
            sheet.note(&format!(
                "only {most} of {wanted} connections: the limit of open files is {limit}"
            ));
        }
        most
    }
}

/// Prints the progress on stderr.
pub(crate) fn progress(what: &str) {
    eprintln!("{what}");
}

pub(crate) fn run(args: &CompareArgs) -> anyhow::Result<()> {
    args.check()?;
    let contestants = args.contestants()?;
    cleanup::on_interrupt();
    let open_files = process::raise_open_files();
    warn_of_memory_disk(&args.dir);
    let suites = args.suites();
    progress(&estimate::describe(args, &suites, &contestants));

    let mut record = Record::new(args)?;
    for contestant in &contestants {
        let version = args.probe(contestant).with_context(|| contestant.describe())?;
        record.add(contestant, version);
    }
    let entrants = args.entrants(&contestants);
    let mut board =
        Board::new(entrants.iter().map(|entrant| entrant.name.clone()).collect(), args.rounds);
    let mut failures = Vec::new();
    let begin = Instant::now();
    for &suite in &suites {
        for round in 0..args.rounds {
            for (index, entrant) in entrants.iter().enumerate() {
                if !suite.suits(entrant.contestant) {
                    continue;
                }
                let name = format!("{}, round {}, {}", suite.name(), round + 1, entrant.name);
                let mut sheet = board.sheet(index, round);
                let result = if begin.elapsed().as_secs_f64() < args.minutes * 60.0 {
                    progress(&name);
                    let sized = args.sized(suite, entrant.size);
                    let result = sized.bout(suite, entrant.contestant, open_files, &mut sheet);
                    let elapsed = begin.elapsed().as_secs();
                    progress(&format!("  {} min {:02} s", elapsed / 60, elapsed % 60));
                    result
                } else {
                    Err(anyhow!("the time of --minutes {} was over", args.minutes))
                };
                if let Err(error) = result {
                    progress(&format!("{name} failed: {error:#}"));
                    sheet.note(&format!("{} failed: {error:#}", suite.name()));
                    failures.push(name);
                }
            }
        }
        // An interrupt from here on keeps the results so far.
        record.keep(&board)?;
    }
    record.print(&board)?;
    if !failures.is_empty() {
        bail!("not measured: {}", failures.join("; "));
    }
    Ok(())
}

impl CompareArgs {
    /// The columns of the tables.
    fn entrants<'a>(&self, contestants: &'a [Contestant]) -> Vec<Entrant<'a>> {
        if let ([contestant], false) = (contestants, self.sizes.is_empty()) {
            let of_size =
                |&size: &usize| Entrant { name: size.to_string(), contestant, size: Some(size) };
            return self.sizes.iter().map(of_size).collect();
        }
        let names = distinct_names(contestants).into_iter();
        let of_server = |(name, contestant)| Entrant { name, contestant, size: None };
        names.zip(contestants).map(of_server).collect()
    }

    /// Starts a server once to check that it works, and asks for its version.
    fn probe(&self, contestant: &Contestant) -> anyhow::Result<Option<String>> {
        let dir = self.directory("probe")?;
        let _guard = GuardedDir::new(dir.path());
        let mut running = contestant.start(dir.path(), &self.extra)?;
        running.wait_for("/", START_LIMIT)?;
        let version = running.version();
        running.stop()?;
        Ok(version)
    }

    /// A new directory on the measured disk. It is removed on drop.
    fn directory(&self, name: &str) -> anyhow::Result<TempDir> {
        tempfile::Builder::new()
            .prefix(&format!("zebu-bench-{name}-"))
            .tempdir_in(std::path::absolute(&self.dir)?)
            .with_context(|| format!("make a directory in {}", self.dir.display()))
    }

    fn bout(
        &self,
        suite: Suite,
        contestant: &Contestant,
        open_files: u64,
        sheet: &mut Sheet<'_>,
    ) -> anyhow::Result<()> {
        let mut dir = self.directory(contestant.name())?;
        let _guard = if self.keep {
            dir.disable_cleanup(true);
            progress(&format!("  data and log in {}", dir.path().display()));
            None
        } else {
            Some(GuardedDir::new(dir.path()))
        };
        let bout = Bout { contestant, args: self, dir: dir.path(), open_files };
        match suite {
            Suite::All => unreachable!("taken apart before"),
            Suite::Pipeline => suite::pipeline::run(&bout, sheet),
            Suite::Tls => suite::tls::run(&bout, sheet),
            Suite::Latency => suite::latency::run(&bout, sheet),
            Suite::Writes => suite::writes::run(&bout, sheet),
            Suite::Neighbours => suite::neighbours::run(&bout, sheet),
            Suite::Admin => suite::admin::run(&bout, sheet),
            Suite::Cores => suite::cores::run(&bout, sheet),
            Suite::Znodes => suite::znodes::run(&bout, sheet),
            Suite::Watches => suite::watches::run(&bout, sheet),
            Suite::Log => suite::log::run(&bout, sheet),
            Suite::Sessions => suite::sessions::run(&bout, sheet),
            Suite::Ensemble => suite::ensemble::run(&bout, sheet),
            Suite::Failover => suite::failover::run(&bout, sheet),
            Suite::Rejoin => suite::rejoin::run(&bout, sheet),
            Suite::Learners => suite::learners::run(&bout, sheet),
            Suite::Moving => suite::moving::run(&bout, sheet),
            Suite::Protections => suite::protections::run(&bout, sheet),
        }
    }
}

/// The servers' names. A server that takes part twice, to show the noise, gets a number.
fn distinct_names(contestants: &[Contestant]) -> Vec<String> {
    let names = contestants.iter().enumerate().map(|(index, contestant)| {
        let name = contestant.name();
        match contestants[..index].iter().filter(|other| other.name() == name).count() {
            0 => name.to_owned(),
            earlier => format!("{name}-{}", earlier + 1),
        }
    });
    names.collect()
}

/// Warns of a file system in memory, where an fsync costs nothing and figures of writes are
/// worthless.
#[cfg(target_os = "linux")]
#[allow(clippy::useless_conversion, reason = "the type of f_type depends on the architecture")]
fn warn_of_memory_disk(dir: &Path) {
    if rustix::fs::statfs(dir).is_ok_and(|fs| i64::from(fs.f_type) == TMPFS_MAGIC) {
        progress(&format!(
            "warning: {} is in memory, where an fsync costs nothing\n\
             hint: --dir names a directory on a disk",
            dir.display()
        ));
    }
}

#[cfg(not(target_os = "linux"))]
fn warn_of_memory_disk(_dir: &Path) {}

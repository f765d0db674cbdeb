//! `zebu bench compare`: the same work on Zebu and on the original, in turn, on this machine.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context, anyhow, bail, ensure};
use clap::{Args, ValueEnum};
use serde_json::json;
use tempfile::TempDir;

use crate::board::{Board, Sheet};
use crate::cleanup::{self, GuardedDir};
use crate::contestant::{self, Contestant, Running};
use crate::floor;
use crate::output::Output;
use crate::process;
use crate::suite;
use crate::table::number;
use crate::wire::NAMES_MAX;

/// Where `cargo xtask deps` puts the original.
const JAVA_HOME_OF_DEPS: &str = ".deps/zookeeper-3.9.5";
/// How long a server may take until it answers for the first time.
pub(crate) const START_LIMIT: Duration = Duration::from_secs(300);
/// Open files this process needs besides one per session.
const OTHER_FILES: u64 = 100;
/// A load average above which something else is at work.
const BUSY: f64 = 0.7;
/// The type of an in-memory filesystem, on which an fsync costs nothing.
const TMPFS_MAGIC: i64 = 0x0102_1994;

/// A server that can take part.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum ServerName {
    /// zebu server
    Zebu,
    /// the original
    Java,
    /// the echo server of `zebu bench echo`: an upper bound
    Echo,
}

/// A set of figures that belong together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Suite {
    /// all that follow
    All,
    /// getData and setData by depth and connections
    Pipeline,
    /// one server and three: latency at an equal load (open loop); one write at a time beside the disk
    Latency,
    /// getData and setData by cores of the server
    Cores,
    /// many znodes: load, memory, disk, restart, requests during snapshots
    Znodes,
    /// many watches: memory, notifications
    Watches,
    /// many idle sessions: opening, memory, staying alive
    Sessions,
    /// three servers: reads and writes in several mixtures
    Ensemble,
    /// three servers: time without a write when the leader is killed or paused
    Failover,
    /// three servers: coming back to many znodes
    Rejoin,
    /// three servers: many sessions whose leader dies
    Moving,
}

impl Suite {
    /// Every one of them.
    const EVERY: [Self; 10] = [
        Self::Pipeline,
        Self::Latency,
        Self::Cores,
        Self::Znodes,
        Self::Watches,
        Self::Sessions,
        Self::Ensemble,
        Self::Failover,
        Self::Rejoin,
        Self::Moving,
    ];
}

/// Runs the same work on Zebu and on the Java server in turn and prints both and their ratio
#[derive(Clone, Debug, Args)]
pub(crate) struct CompareArgs {
    /// Servers; ratios are the first one's against each other one
    #[arg(long, value_enum, value_delimiter = ',', value_name = "NAME", default_values = ["zebu", "java"])]
    servers: Vec<ServerName>,
    /// What to measure
    #[arg(long, value_enum, value_delimiter = ',', value_name = "NAME", default_values = ["pipeline", "znodes", "watches", "sessions"])]
    suite: Vec<Suite>,
    /// How often each server runs each suite, in turn
    #[arg(long, value_name = "N", default_value_t = 3, default_value_if("quick", "true", "1"))]
    rounds: usize,
    /// Small numbers and short windows, to see that everything works; options that are given count
    #[arg(long)]
    quick: bool,
    /// Begin nothing more after this time
    #[arg(long, value_name = "M", default_value_t = 60.0)]
    minutes: f64,
    /// The zebu executable [default: this one]
    #[arg(long, value_name = "PATH")]
    zebu: Option<PathBuf>,
    /// The java executable [default: that of JAVA_HOME, or java]
    #[arg(long, value_name = "PATH")]
    java: Option<PathBuf>,
    /// Directory of the original's jars, or a classpath [default: .deps/zookeeper-3.9.5]
    #[arg(long, value_name = "DIR")]
    java_classpath: Option<String>,
    /// Options of the Java virtual machine
    #[arg(long, value_name = "OPTIONS", default_value = "-Xmx2g", allow_hyphen_values = true)]
    java_opts: String,
    /// A line more for the configuration of all servers; may be repeated
    #[arg(long = "config", value_name = "KEY=VALUE")]
    pub(crate) extra: Vec<String>,
    /// Where the data directories are made: on the disk to be measured
    #[arg(long, value_name = "DIR", default_value = ".")]
    dir: PathBuf,
    /// Leave the data directories and server logs behind
    #[arg(long)]
    keep: bool,
    /// Write the raw numbers, with all parameters, to this file (- for stdout)
    #[arg(long, value_name = "FILE")]
    json: Option<String>,

    /// latency, ensemble, failover, rejoin, moving: milliseconds of a tick
    #[arg(long, value_name = "MS", default_value_t = 500)]
    pub(crate) tick: u32,
    /// latency, ensemble, failover, rejoin, moving: ticks until a silent server is given up
    #[arg(long, value_name = "N", default_value_t = 6)]
    pub(crate) sync_limit: u32,

    /// pipeline, ensemble: requests each connection keeps in flight
    #[arg(long, value_name = "N", value_delimiter = ',', default_values_t = [1, 16, 128])]
    pub(crate) depths: Vec<u32>,
    /// pipeline: connections
    #[arg(long, value_name = "N", value_delimiter = ',', default_values_t = [1, 16, 64])]
    pub(crate) connections: Vec<usize>,
    /// ensemble: connections, dealt out over the servers
    #[arg(long, value_name = "N", default_value_t = 48)]
    pub(crate) ensemble_connections: usize,
    /// pipeline, latency, cores, ensemble: length of the measured window of each point
    #[arg(long, value_name = "S", default_value_t = 1.0, default_value_if("quick", "true", "0.3"))]
    pub(crate) seconds: f64,
    /// pipeline, latency, cores, ensemble: load before each window that does not count
    #[arg(long, value_name = "S", default_value_t = 0.3, default_value_if("quick", "true", "0.1"))]
    pub(crate) warmup: f64,
    /// pipeline, latency, cores, znodes, ensemble: load on a freshly started server, so that the Java compiler has done its work
    #[arg(long, value_name = "S", default_value_t = 5.0, default_value_if("quick", "true", "1"))]
    pub(crate) server_warmup: f64,
    /// pipeline, latency, cores, ensemble: znodes the requests are spread over
    #[arg(long, value_name = "N", default_value_t = 1000)]
    pub(crate) keys: usize,
    /// pipeline, latency, cores, ensemble: threads of the load generator
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub(crate) threads: usize,
    /// pipeline, latency, cores, znodes, ensemble, rejoin: bytes of each value
    #[arg(long, value_name = "BYTES", default_value_t = 100)]
    pub(crate) size: usize,
    /// latency: requests per second
    #[arg(long, value_name = "PER_SECOND", value_delimiter = ',', default_values_t = [1000.0, 4000.0])]
    pub(crate) rates: Vec<f64>,
    /// latency: length of the measured window of each rate
    #[arg(long, value_name = "S", default_value_t = 3.0, default_value_if("quick", "true", "1"))]
    pub(crate) rate_seconds: f64,
    /// cores: how many the server is kept to; the generator has the others, or shares them where none are left
    #[arg(long, value_name = "N", value_delimiter = ',', default_values_t = [1, 2])]
    pub(crate) cores: Vec<usize>,

    /// znodes, watches: how many of them
    #[arg(
        long,
        value_name = "N",
        default_value_t = 1_000_000,
        default_value_if("quick", "true", "100000")
    )]
    pub(crate) count: usize,
    /// znodes: requests per second while snapshots are written, half of them writes
    #[arg(long, value_name = "PER_SECOND", default_value_t = 4000.0)]
    pub(crate) snapshot_rate: f64,
    /// znodes: how long
    #[arg(long, value_name = "S", default_value_t = 8.0, default_value_if("quick", "true", "4"))]
    pub(crate) snapshot_seconds: f64,
    /// watches: connections that share them
    #[arg(long, value_name = "N", default_value_t = 100)]
    pub(crate) watch_connections: usize,
    /// watches: connections that all watch one znode
    #[arg(
        long,
        value_name = "N",
        default_value_t = 10_000,
        default_value_if("quick", "true", "1000")
    )]
    pub(crate) fanout: usize,
    /// watches: changes per round whose notifications are timed
    #[arg(long, value_name = "N", default_value_t = 5, default_value_if("quick", "true", "2"))]
    pub(crate) repeats: usize,
    /// rejoin: how many znodes
    #[arg(
        long,
        value_name = "N",
        default_value_t = 300_000,
        default_value_if("quick", "true", "100000")
    )]
    pub(crate) rejoin_count: usize,
    /// failover: faults of each kind per round
    #[arg(long, value_name = "N", default_value_t = 2, default_value_if("quick", "true", "1"))]
    pub(crate) faults: usize,

    /// sessions, moving: how many
    #[arg(
        long,
        value_name = "N",
        default_value_t = 10_000,
        default_value_if("quick", "true", "1000")
    )]
    pub(crate) sessions: usize,
    /// sessions, moving: their timeout
    #[arg(long, value_name = "S", default_value_t = 10, default_value_if("quick", "true", "4"))]
    pub(crate) session_timeout: u64,
    /// sessions: how long they stay idle but for pings [default: 1.5 timeouts]
    #[arg(long, value_name = "S")]
    pub(crate) hold: Option<f64>,
}

/// One server in one round of one suite.
pub(crate) struct Bout<'a> {
    pub(crate) contestant: &'a Contestant,
    pub(crate) args: &'a CompareArgs,
    /// The server's own directory.
    pub(crate) dir: &'a Path,
    /// Open files this process may have.
    open_files: u64,
}

impl Bout<'_> {
    /// Starts the server and waits until it answers about `path`; also the time that took.
    pub(crate) fn start(&self, path: &str) -> anyhow::Result<(Running, Duration)> {
        self.start_with(path, &[])
    }

    /// The same with lines more in the configuration.
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

    /// `wanted` connections, so many ends of each of which are ours, or as many as the limit of open files
    /// allows, which is then noted.
    pub(crate) fn affordable(&self, wanted: usize, ends: u64, sheet: &mut Sheet<'_>) -> usize {
        let most = self.open_files.saturating_sub(OTHER_FILES) / ends;
        let most = usize::try_from(most).unwrap_or(usize::MAX);
        if wanted > most {
            let limit = self.open_files;
            sheet.note(&format!(
                "only {most} of {wanted} connections: the limit of open files is {limit}"
            ));
        }
        wanted.min(most)
    }
}

/// Says on stderr what goes on.
pub(crate) fn progress(what: &str) {
    eprintln!("{what}");
}

pub(crate) fn run(args: &CompareArgs) -> anyhow::Result<()> {
    args.check()?;
    let contestants = args
        .servers
        .iter()
        .map(|&name| args.contestant(name))
        .collect::<anyhow::Result<Vec<_>>>()?;
    cleanup::on_interrupt();
    let open_files = process::raise_open_files();
    warn_of_memory_disk(&args.dir);

    let mut about = Vec::new();
    for contestant in &contestants {
        let version = args.probe(contestant).with_context(|| contestant.describe())?;
        about.push(json!({
            "name": contestant.name(),
            "version": version,
            "command": contestant.describe(),
        }));
    }
    let busy = process::load_average();
    if let Some(busy) = busy.filter(|busy| *busy > BUSY) {
        progress(&format!("warning: something else runs on this machine: load average {busy}"));
    }
    let disk = floor::sync_latency(&args.dir)?;
    let trip = floor::round_trip()?;
    let machine = process::machine();
    let suites = args.suites();
    let mut board = Board::new(distinct_names(&contestants), args.rounds);
    let mut failures = Vec::new();
    let begin = Instant::now();
    for &suite in &suites {
        for round in 0..args.rounds {
            for (index, contestant) in contestants.iter().enumerate() {
                let name = format!("{suite:?}, round {}, {}", round + 1, contestant.name());
                let name = name.to_lowercase();
                let mut sheet = board.sheet(index, round);
                let result = if begin.elapsed().as_secs_f64() < args.minutes * 60.0 {
                    progress(&name);
                    let result = args.bout(suite, contestant, open_files, &mut sheet);
                    let elapsed = begin.elapsed().as_secs();
                    progress(&format!("  {} min {:02} s", elapsed / 60, elapsed % 60));
                    result
                } else {
                    Err(anyhow!("the time of --minutes {} was over", args.minutes))
                };
                if let Err(error) = result {
                    progress(&format!("{name} failed: {error:#}"));
                    sheet.note(&format!("{suite:?} failed: {error:#}"));
                    failures.push(name);
                }
            }
        }
    }

    let output = Output::new(args.json.as_deref());
    output.line("");
    let fact = |value: &serde_json::Value| value.as_str().unwrap_or("unknown").to_owned();
    output.line(&format!(
        "machine  {} CPUs ({}), kernel {}",
        machine["cpus"],
        fact(&machine["cpu"]),
        fact(&machine["kernel"])
    ));
    let disk_us = disk.as_secs_f64() * 1e6;
    output.line(&format!("disk     a 4 KiB write and fdatasync: {} us, median", number(disk_us)));
    let trip_us = trip.as_secs_f64() * 1e6;
    output.line(&format!("network  a round trip on loopback: {} us, median", number(trip_us)));
    for server in &about {
        output.line(&format!("{:<8} {}", fact(&server["name"]), fact(&server["version"])));
    }
    output.line(&format!("rounds   {}; medians, with the smallest and largest\n", args.rounds));
    output.text(&board.render());
    output.json(&json!({
        "command": "compare",
        "arguments": std::env::args_os().map(|word| word.display().to_string()).collect::<Vec<_>>(),
        "machine": machine,
        "fdatasync_us": disk_us,
        "round_trip_us": trip_us,
        "load_average": busy,
        "minutes": begin.elapsed().as_secs_f64() / 60.0,
        "servers": about,
        "parameters": args.to_json(),
        "result": board.to_json(),
    }))?;
    if !failures.is_empty() {
        bail!("not measured: {}", failures.join("; "));
    }
    Ok(())
}

impl CompareArgs {
    fn check(&self) -> anyhow::Result<()> {
        ensure!(self.rounds > 0, "at least one round is needed");
        ensure!(
            0 < self.count && self.count <= NAMES_MAX,
            "between 1 and {NAMES_MAX} znodes or watches are possible: {}",
            self.count
        );
        ensure!(
            0 < self.rejoin_count && self.rejoin_count <= NAMES_MAX,
            "between 1 and {NAMES_MAX} znodes are possible: {}",
            self.rejoin_count
        );
        ensure!(self.watch_connections > 0, "watches need at least one connection");
        ensure!(self.fanout > 0, "the fan-out needs at least one connection");
        ensure!(self.repeats > 0, "at least one change is needed");
        ensure!(self.faults > 0, "at least one fault is needed");
        ensure!(self.sessions > 0, "at least one session is needed");
        ensure!(!self.cores.contains(&0), "a server needs at least one core");
        ensure!(
            (4..=40).contains(&self.session_timeout),
            "servers with a tick of 2 s grant timeouts of 4 to 40 s: {}",
            self.session_timeout
        );
        Ok(())
    }

    /// What to measure.
    fn suites(&self) -> Vec<Suite> {
        match self.suite.contains(&Suite::All) {
            true => Suite::EVERY.to_vec(),
            false => self.suite.clone(),
        }
    }

    /// How long sessions stay idle.
    pub(crate) fn hold(&self) -> Duration {
        let default = Duration::from_secs(self.session_timeout) * 3 / 2;
        self.hold.and_then(|hold| Duration::try_from_secs_f64(hold).ok()).unwrap_or(default)
    }

    fn contestant(&self, name: ServerName) -> anyhow::Result<Contestant> {
        Ok(match name {
            ServerName::Echo => Contestant::Echo,
            ServerName::Zebu => Contestant::Zebu {
                program: match &self.zebu {
                    // The server is started in another directory.
                    Some(path) => std::path::absolute(path)?,
                    None => std::env::current_exe().context("find this executable")?,
                },
            },
            ServerName::Java => Contestant::Java {
                java: self.java.clone().unwrap_or_else(default_java),
                classpath: match &self.java_classpath {
                    Some(given) => contestant::classpath(given)?,
                    None if Path::new(JAVA_HOME_OF_DEPS).is_dir() => {
                        contestant::classpath(JAVA_HOME_OF_DEPS)?
                    }
                    None => bail!(
                        "the Java server is not here: {JAVA_HOME_OF_DEPS} is missing\n\
                         hint: cargo xtask deps downloads it; --java-classpath names another; \
                         --servers zebu leaves it out"
                    ),
                },
                options: self
                    .java_opts
                    .split_whitespace()
                    .chain(["-Dzookeeper.admin.enableServer=false"])
                    .map(str::to_owned)
                    .collect(),
            },
        })
    }

    /// Starts a server once to see that it works, and asks for its version.
    fn probe(&self, contestant: &Contestant) -> anyhow::Result<Option<String>> {
        let dir = self.directory("probe")?;
        let _guard = GuardedDir::new(dir.path());
        let mut running = contestant.start(dir.path(), &self.extra)?;
        running.wait_for("/", START_LIMIT)?;
        let version = running.version();
        running.stop()?;
        Ok(version)
    }

    /// A new directory on the disk to be measured, which goes when it is dropped.
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
            Suite::Latency => suite::latency::run(&bout, sheet),
            Suite::Cores => suite::cores::run(&bout, sheet),
            Suite::Znodes => suite::znodes::run(&bout, sheet),
            Suite::Watches => suite::watches::run(&bout, sheet),
            Suite::Sessions => suite::sessions::run(&bout, sheet),
            Suite::Ensemble => suite::ensemble::run(&bout, sheet),
            Suite::Failover => suite::failover::run(&bout, sheet),
            Suite::Rejoin => suite::rejoin::run(&bout, sheet),
            Suite::Moving => suite::moving::run(&bout, sheet),
        }
    }

    fn to_json(&self) -> serde_json::Value {
        json!({
            "rounds": self.rounds,
            "suites": self.suites().iter().map(|suite| format!("{suite:?}")).collect::<Vec<_>>(),
            "config": self.extra,
            "tick": self.tick,
            "sync_limit": self.sync_limit,
            "depths": self.depths,
            "connections": self.connections,
            "ensemble_connections": self.ensemble_connections,
            "seconds": self.seconds,
            "warmup": self.warmup,
            "server_warmup": self.server_warmup,
            "keys": self.keys,
            "threads": self.threads,
            "size": self.size,
            "rates": self.rates,
            "rate_seconds": self.rate_seconds,
            "cores": self.cores,
            "count": self.count,
            "snapshot_rate": self.snapshot_rate,
            "snapshot_seconds": self.snapshot_seconds,
            "watch_connections": self.watch_connections,
            "fanout": self.fanout,
            "repeats": self.repeats,
            "rejoin_count": self.rejoin_count,
            "faults": self.faults,
            "sessions": self.sessions,
            "session_timeout": self.session_timeout,
            "hold": self.hold().as_secs_f64(),
        })
    }
}

/// The servers' names; one that takes part again, to see the noise, gets a number.
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

fn default_java() -> PathBuf {
    match std::env::var_os("JAVA_HOME") {
        Some(home) if !home.is_empty() => Path::new(&home).join("bin/java"),
        _ => PathBuf::from("java"),
    }
}

/// An fsync that costs nothing would make every figure of writes worthless.
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

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Cli {
        #[command(flatten)]
        args: CompareArgs,
    }

    fn parse(line: &str) -> CompareArgs {
        Cli::parse_from(std::iter::once("compare").chain(line.split_whitespace())).args
    }

    #[test]
    fn quick_changes_what_is_not_given() {
        let whole = parse("");
        assert_eq!((whole.rounds, whole.count, whole.seconds), (3, 1_000_000, 1.0));
        let quick = parse("--quick --count 5");
        assert_eq!((quick.rounds, quick.count, quick.seconds), (1, 5, 0.3));
    }

    #[test]
    fn all_is_every_suite() {
        let every = Suite::value_variants().iter().filter(|suite| **suite != Suite::All);
        assert_eq!(every.copied().collect::<Vec<_>>(), Suite::EVERY);
        assert_eq!(parse("--suite rejoin,all").suites(), Suite::EVERY);
        assert_eq!(parse("--suite rejoin,cores").suites(), [Suite::Rejoin, Suite::Cores]);
    }
}

//! The arguments of a comparison: servers, suites and their sizes.

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, bail, ensure};
use clap::{Args, ValueEnum};
use serde_json::json;

use crate::contestant::{self, Contestant};
use crate::wire::NAMES_MAX;

/// Where `cargo xtask deps` puts the original.
const JAVA_HOME_OF_DEPS: &str = ".deps/zookeeper-3.9.5";

/// The most observers of an ensemble, all of which run on this machine.
const OBSERVERS_MAX: usize = 100;

/// A server that can take part.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum ServerName {
    /// zebu server
    Zebu,
    /// the executable of --previous: an earlier state of zebu, to see what a change gains
    Previous,
    /// the original
    Java,
    /// the same as echo, but it makes durable what a server has to log: the bound of writes
    Durable,
    /// the echo server of `zebu bench echo`: the bound of everything
    Echo,
}

/// A set of figures that belong together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum Suite {
    /// all that follow
    All,
    /// getData and setData by depth and connections
    Pipeline,
    /// full TLS handshakes, and getData and setData over TLS by depth and connections
    Tls,
    /// one server and three: latency at an equal load (open loop); one write at a time beside the
    /// disk
    Latency,
    /// one server and three: kinds and sizes of writes, and mixes with reads
    Writes,
    /// latency of short requests beside long lists of children, a deep pipeline, many watchers of
    /// one change, and while many sessions expire
    Neighbours,
    /// latency of short requests beside requests to the HTTP server
    Admin,
    /// getData and setData by cores of the server
    Cores,
    /// many znodes: load, memory, disk, restart, requests during snapshots
    Znodes,
    /// many watches: memory, notifications
    Watches,
    /// one long log: a start that replays it
    Log,
    /// many idle sessions: opening, memory, staying alive
    Sessions,
    /// three servers: reads and writes in several mixtures
    Ensemble,
    /// three servers: time without a write when the leader is killed or paused
    Failover,
    /// three voters and some observers: writes
    Learners,
    /// three servers: coming back to many znodes
    Rejoin,
    /// three servers: many sessions whose leader dies
    Moving,
    /// Zebu alone: writes with digests, scrub and purge, and without them; latency during scrub and
    /// backups
    Protections,
}

impl Suite {
    /// Every one of them.
    const EVERY: [Self; 17] = [
        Self::Pipeline,
        Self::Tls,
        Self::Latency,
        Self::Writes,
        Self::Neighbours,
        Self::Admin,
        Self::Cores,
        Self::Znodes,
        Self::Watches,
        Self::Log,
        Self::Sessions,
        Self::Ensemble,
        Self::Failover,
        Self::Learners,
        Self::Rejoin,
        Self::Moving,
        Self::Protections,
    ];

    /// Its name, as on the command line.
    pub(super) fn name(self) -> String {
        format!("{self:?}").to_lowercase()
    }

    /// Whether the suite makes sense for a server. Of the servers that only answer, only the
    /// durable one can be an ensemble, which survives no failure.
    pub(super) fn suits(self, contestant: &Contestant) -> bool {
        match self {
            Self::Ensemble | Self::Writes => *contestant != Contestant::Echo,
            Self::Tls
            | Self::Log
            | Self::Failover
            | Self::Learners
            | Self::Rejoin
            | Self::Moving => !contestant.is_bound(),
            // The original's HTTP server needs additional libraries.
            Self::Admin => {
                matches!(contestant, Contestant::Zebu { .. } | Contestant::Previous { .. })
            }
            Self::Protections => matches!(contestant, Contestant::Zebu { .. }),
            _ => true,
        }
    }
}

/// Run the same work on Zebu and on the Java server in turn, and print both figures and their ratio
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
    pub(super) rounds: usize,
    /// Small numbers and short windows, to see that everything works; explicit options still apply
    #[arg(long)]
    quick: bool,
    /// znodes, watches, log, sessions, neighbours, learners, rejoin, moving: one server with each
    /// of these numbers of znodes, watches, transactions, sessions, listed children or observers,
    /// side by side: how its figures grow
    #[arg(long, value_name = "N", value_delimiter = ',')]
    pub(super) sizes: Vec<usize>,
    /// Begin nothing more after this time
    #[arg(long, value_name = "M", default_value_t = 60.0)]
    pub(super) minutes: f64,
    /// The zebu executable [default: this one]
    #[arg(long, value_name = "PATH")]
    zebu: Option<PathBuf>,
    /// The zebu executable that takes part as `previous`
    #[arg(long, value_name = "PATH")]
    previous: Option<PathBuf>,
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
    pub(super) dir: PathBuf,
    /// Leave the data directories and server logs behind
    #[arg(long)]
    pub(super) keep: bool,
    /// Write the raw numbers, with all parameters, to this file (- for stdout)
    #[arg(long, value_name = "FILE")]
    pub(super) json: Option<String>,

    /// latency, writes, ensemble, failover, learners, rejoin, moving: milliseconds of a tick
    #[arg(long, value_name = "MS", default_value_t = 500)]
    pub(crate) tick: u32,
    /// latency, writes, ensemble, failover, learners, rejoin, moving: ticks until a silent server
    /// is given up
    #[arg(long, value_name = "N", default_value_t = 6)]
    pub(crate) sync_limit: u32,

    /// pipeline, tls, writes, ensemble: requests each connection keeps in flight
    #[arg(long, value_name = "N", value_delimiter = ',', default_values_t = [1, 16, 128])]
    pub(crate) depths: Vec<u32>,
    /// pipeline, tls, writes: connections
    #[arg(long, value_name = "N", value_delimiter = ',', default_values_t = [1, 16])]
    pub(crate) connections: Vec<usize>,
    /// ensemble: connections, dealt out over the servers
    #[arg(long, value_name = "N", default_value_t = 48)]
    pub(crate) ensemble_connections: usize,
    /// pipeline, tls, latency, writes, neighbours, cores, ensemble: length of the measured window
    /// of each point; protections: twenty pairs of windows for each of these seconds
    #[arg(long, value_name = "S", default_value_t = 1.0, default_value_if("quick", "true", "0.3"))]
    pub(crate) seconds: f64,
    /// pipeline, tls, latency, writes, neighbours, cores, ensemble: load before each window that
    /// does not count
    #[arg(long, value_name = "S", default_value_t = 0.3, default_value_if("quick", "true", "0.1"))]
    pub(crate) warmup: f64,
    /// pipeline, tls, latency, writes, cores, znodes, ensemble: load on a freshly started server,
    /// so that the Java compiler has done its work
    #[arg(long, value_name = "S", default_value_t = 5.0, default_value_if("quick", "true", "1"))]
    pub(crate) server_warmup: f64,
    /// pipeline, tls, latency, writes, cores, ensemble: znodes the requests are spread over
    #[arg(long, value_name = "N", default_value_t = 1000)]
    pub(crate) keys: usize,
    /// pipeline, tls, latency, writes, cores, ensemble: threads of the load generator
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub(crate) threads: usize,
    /// pipeline, tls, latency, writes, cores, znodes, ensemble, rejoin: bytes of each value
    #[arg(long, value_name = "BYTES", default_value_t = 100)]
    pub(crate) size: usize,
    /// latency, protections: requests per second
    #[arg(long, value_name = "PER_SECOND", value_delimiter = ',', default_values_t = [1000.0, 4000.0])]
    pub(crate) rates: Vec<f64>,
    /// latency, protections: length of the measured window of each rate
    #[arg(long, value_name = "S", default_value_t = 2.0, default_value_if("quick", "true", "1"))]
    pub(crate) rate_seconds: f64,
    /// protections: where the backups go, for instance a directory on another disk
    /// [default: beside the data]
    #[arg(long, value_name = "DIR")]
    pub(crate) backups: Option<PathBuf>,
    /// protections: also measure beside backups that this command starts, for instance
    /// "ionice -c 3"; repeat it for several commands
    #[arg(long, value_name = "COMMAND")]
    pub(crate) backups_through: Vec<String>,
    /// cores: how many the server is kept to; the generator has the others, or shares them where
    /// none are left
    #[arg(long, value_name = "N", value_delimiter = ',', default_values_t = [1, 2])]
    pub(crate) cores: Vec<usize>,

    /// admin, znodes, watches: how many of them
    #[arg(
        long,
        value_name = "N",
        default_value_t = 1_000_000,
        default_value_if("quick", "true", "100000")
    )]
    pub(crate) count: usize,
    /// neighbours: children of the znode that is listed
    #[arg(
        long,
        value_name = "N",
        default_value_t = 400_000,
        default_value_if("quick", "true", "20000")
    )]
    pub(crate) listed: usize,
    /// neighbours: children that the listing clients ask for per second, all together
    #[arg(long, value_name = "PER_SECOND", default_value_t = 1_000_000.0)]
    pub(crate) list_rate: f64,
    /// admin: requests per second to the HTTP server
    #[arg(long, value_name = "PER_SECOND", default_value_t = 200.0)]
    pub(crate) admin_rate: f64,
    /// admin: length of each measured window
    #[arg(long, value_name = "S", default_value_t = 10.0, default_value_if("quick", "true", "1"))]
    pub(crate) admin_seconds: f64,
    /// znodes: requests per second while snapshots are written, half of them writes
    #[arg(long, value_name = "PER_SECOND", default_value_t = 4000.0)]
    pub(crate) snapshot_rate: f64,
    /// znodes: how long
    #[arg(long, value_name = "S", default_value_t = 8.0, default_value_if("quick", "true", "4"))]
    pub(crate) snapshot_seconds: f64,
    /// watches: connections that share them
    #[arg(long, value_name = "N", default_value_t = 100)]
    pub(crate) watch_connections: usize,
    /// watches, neighbours: connections that all watch one znode
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
        default_value_t = 200_000,
        default_value_if("quick", "true", "100000")
    )]
    pub(crate) rejoin_count: usize,
    /// log: transactions that a start replays
    #[arg(
        long,
        value_name = "N",
        default_value_t = 1_000_000,
        default_value_if("quick", "true", "100000")
    )]
    pub(crate) transactions: usize,
    /// learners: observers beside the three voters, at most 100
    #[arg(long, value_name = "N", default_value_t = 3, default_value_if("quick", "true", "1"))]
    pub(crate) observers: usize,
    /// failover: faults of each kind per round
    #[arg(long, value_name = "N", default_value_t = 2, default_value_if("quick", "true", "1"))]
    pub(crate) faults: usize,

    /// sessions, moving: how many; neighbours: how many expire
    #[arg(
        long,
        value_name = "N",
        default_value_t = 10_000,
        default_value_if("quick", "true", "1000")
    )]
    pub(crate) sessions: usize,
    /// sessions: how many of them may be in the handshake at a time
    #[arg(long, value_name = "N", default_value_t = 256)]
    pub(crate) opening: usize,
    /// sessions, moving: their timeout
    #[arg(long, value_name = "S", default_value_t = 10, default_value_if("quick", "true", "4"))]
    pub(crate) session_timeout: u64,
    /// sessions: how long they stay idle but for pings [default: 1.5 timeouts]
    #[arg(long, value_name = "S")]
    pub(crate) hold: Option<f64>,
}

impl CompareArgs {
    /// The same arguments, with another size of the suite's main object.
    pub(super) fn sized(&self, suite: Suite, size: Option<usize>) -> Self {
        let mut sized = self.clone();
        if let (Some(size), Some(own)) = (size, sized.size_of(suite)) {
            *own = size;
        }
        sized
    }

    /// The number that `--sizes` replaces for the suite, if there is one.
    fn size_of(&mut self, suite: Suite) -> Option<&mut usize> {
        match suite {
            Suite::Znodes | Suite::Watches => Some(&mut self.count),
            Suite::Sessions | Suite::Moving => Some(&mut self.sessions),
            Suite::Neighbours => Some(&mut self.listed),
            Suite::Log => Some(&mut self.transactions),
            Suite::Learners => Some(&mut self.observers),
            Suite::Rejoin => Some(&mut self.rejoin_count),
            _ => None,
        }
    }

    /// Refuses arguments that cannot be measured.
    pub(super) fn check(&self) -> anyhow::Result<()> {
        ensure!(
            self.sizes.is_empty() || self.servers.len() == 1,
            "--sizes shows how the figures of one server grow: name one with --servers"
        );
        for suite in self.suites() {
            for &size in &self.sizes {
                let mut sized = self.sized(suite, Some(size));
                ensure!(sized.size_of(suite).is_some(), "{} has no size to vary", suite.name());
                sized.sizes.clear();
                sized.check()?;
            }
        }
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
        ensure!(
            0 < self.listed && self.listed <= NAMES_MAX,
            "between 1 and {NAMES_MAX} children are possible: {}",
            self.listed
        );
        ensure!(
            1000.0 <= self.list_rate && self.list_rate.is_finite(),
            "at least 1000 children are listed per second: {}",
            self.list_rate
        );
        ensure!(self.transactions > 0, "at least one transaction is needed");
        ensure!(
            self.observers <= OBSERVERS_MAX,
            "at most {OBSERVERS_MAX} observers are possible: {}",
            self.observers
        );
        ensure!(self.admin_rate > 0.0, "at least some admin requests are needed");
        ensure!(self.watch_connections > 0, "watches need at least one connection");
        ensure!(self.fanout > 0, "the fan-out needs at least one connection");
        ensure!(self.repeats > 0, "at least one change is needed");
        ensure!(self.faults > 0, "at least one fault is needed");
        ensure!(self.sessions > 0, "at least one session is needed");
        ensure!(
            (1..=contestant::BACKLOG).contains(&self.opening),
            "servers let {} connections wait: {}",
            contestant::BACKLOG,
            self.opening
        );
        ensure!(!self.cores.contains(&0), "a server needs at least one core");
        ensure!(
            (4..=40).contains(&self.session_timeout),
            "servers with a tick of 2 s grant timeouts of 4 to 40 s: {}",
            self.session_timeout
        );
        Ok(())
    }

    /// The suites to run.
    pub(super) fn suites(&self) -> Vec<Suite> {
        match self.suite.contains(&Suite::All) {
            true => Suite::EVERY.to_vec(),
            false => self.suite.clone(),
        }
    }

    /// The time for which sessions are idle.
    pub(crate) fn hold(&self) -> Duration {
        let default = Duration::from_secs(self.session_timeout) * 3 / 2;
        self.hold.and_then(|hold| Duration::try_from_secs_f64(hold).ok()).unwrap_or(default)
    }

    /// The servers to compare.
    pub(super) fn contestants(&self) -> anyhow::Result<Vec<Contestant>> {
        self.servers.iter().map(|&name| self.contestant(name)).collect()
    }

    fn contestant(&self, name: ServerName) -> anyhow::Result<Contestant> {
        Ok(match name {
            ServerName::Echo => Contestant::Echo,
            ServerName::Durable => Contestant::Durable,
            ServerName::Zebu => Contestant::Zebu {
                program: match &self.zebu {
                    // The server starts in another directory.
                    Some(path) => std::path::absolute(path)?,
                    None => std::env::current_exe().context("find this executable")?,
                },
            },
            ServerName::Previous => match &self.previous {
                Some(path) => Contestant::Previous { program: std::path::absolute(path)? },
                None => bail!("--servers previous needs --previous PATH: the earlier executable"),
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

    /// All arguments, for the raw output.
    pub(super) fn to_json(&self) -> serde_json::Value {
        json!({
            "rounds": self.rounds,
            "sizes": self.sizes,
            "suites": self.suites().iter().map(|suite| suite.name()).collect::<Vec<_>>(),
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
            "backups": self.backups,
            "backups_through": self.backups_through,
            "cores": self.cores,
            "count": self.count,
            "admin_rate": self.admin_rate,
            "admin_seconds": self.admin_seconds,
            "snapshot_rate": self.snapshot_rate,
            "snapshot_seconds": self.snapshot_seconds,
            "watch_connections": self.watch_connections,
            "fanout": self.fanout,
            "repeats": self.repeats,
            "rejoin_count": self.rejoin_count,
            "transactions": self.transactions,
            "observers": self.observers,
            "faults": self.faults,
            "sessions": self.sessions,
            "opening": self.opening,
            "session_timeout": self.session_timeout,
            "hold": self.hold().as_secs_f64(),
        })
    }
}

/// The virtual machine that `JAVA_HOME` names, or the one on the path.
fn default_java() -> PathBuf {
    match std::env::var_os("JAVA_HOME") {
        Some(home) if !home.is_empty() => Path::new(&home).join("bin/java"),
        _ => PathBuf::from("java"),
    }
}

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
    fn sizes_are_those_of_one_server() {
        let check = |line: &str| parse(line).check().map_err(|error| error.to_string());
        let sizes = "--sizes 100,1000";
        assert!(check(sizes).unwrap_err().contains("name one with --servers"));
        let one = format!("{sizes} --servers zebu");
        check(&format!("{one} --suite znodes,watches,sessions")).unwrap();
        assert_eq!(
            check(&format!("{one} --suite cores")).unwrap_err(),
            "cores has no size to vary"
        );
        let none = check("--sizes 0 --servers zebu --suite rejoin").unwrap_err();
        assert!(none.starts_with("between 1 and"), "{none}");
        let sized = parse(&one).sized(Suite::Neighbours, Some(1000));
        assert_eq!((sized.listed, sized.count), (1000, 1_000_000));
    }

    #[test]
    fn an_earlier_state_takes_part_under_its_own_name() {
        let contestants = |line: &str| parse(line).contestants();
        let error = contestants("--servers zebu,previous").unwrap_err().to_string();
        assert!(error.contains("--previous PATH"), "{error}");
        let both = contestants("--servers zebu,previous --previous /opt/zebu").unwrap();
        assert_eq!(both.iter().map(Contestant::name).collect::<Vec<_>>(), ["zebu", "previous"]);
        assert_eq!(both[1].describe(), "/opt/zebu server zoo.cfg");
        assert!(!Suite::Protections.suits(&both[1]) && Suite::Writes.suits(&both[1]));
    }

    #[test]
    fn all_is_every_suite() {
        let every = Suite::value_variants().iter().filter(|suite| **suite != Suite::All);
        assert_eq!(every.copied().collect::<Vec<_>>(), Suite::EVERY);
        assert_eq!(parse("--suite rejoin,all").suites(), Suite::EVERY);
        assert_eq!(parse("--suite rejoin,cores").suites(), [Suite::Rejoin, Suite::Cores]);
    }

    #[test]
    fn servers_that_only_answer_are_left_out_where_ensembles_fail() {
        let suits = |contestant: &Contestant| {
            Suite::EVERY.into_iter().filter(|suite| suite.suits(contestant)).count()
        };
        assert_eq!(suits(&Contestant::Zebu { program: "zebu".into() }), Suite::EVERY.len());
        assert_eq!((suits(&Contestant::Echo), suits(&Contestant::Durable)), (7, 9));
        let java =
            Contestant::Java { java: "java".into(), classpath: String::new(), options: vec![] };
        assert_eq!(suits(&java), Suite::EVERY.len() - 2);
        assert!(!Suite::Failover.suits(&Contestant::Durable));
    }
}

//! getData and setData on a set of znodes: the load that `run`, `echo` and the `pipeline` suite
//! share.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, SystemTime};

use anyhow::{Context, bail, ensure};
use serde_json::json;
use zebu_figures::number;

use crate::client::Client;
use crate::clock::{Clock, Nanos, nanos};
use crate::entry::Entry;
use crate::process::Process;
use crate::swarm::Workload;
use crate::swarm::{Plan, Swarm};
use crate::tally::{Kind, KindTally, Tally};
use crate::wire::{self, DIGITS, NAMES_MAX, Template, digits, op};

/// The most sessions of one thread that are in the handshake at a time.
pub(crate) const OPENING_MAX: usize = 32;
/// The time limit for each step before and after the measurement.
const SETUP_LIMIT: Duration = Duration::from_secs(120);
/// The timeout that sessions request.
pub(crate) const SESSION_TIMEOUT: Duration = Duration::from_secs(30);
/// The number of znodes with names of their own. Leftovers of one run do not disturb the next.
static OWN_ZNODES: AtomicUsize = AtomicUsize::new(0);
/// Time between the start of the threads and the start of the load.
const LEAD: Duration = Duration::from_millis(20);

/// The kinds of writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Write {
    /// setData.
    Set,
    /// create, each znode with a new name.
    Create,
    /// create and delete in turn, of one znode for each connection.
    CreateAndDelete,
    /// multi with this many setData.
    Multi(usize),
}

/// What to measure.
#[derive(Clone, Debug)]
pub(crate) struct LoadSpec {
    /// Share of reads, 0 to 100.
    pub(crate) read_percent: u8,
    /// The kind of the writes.
    pub(crate) write: Write,
    pub(crate) connections: usize,
    pub(crate) depth: u32,
    pub(crate) seconds: f64,
    pub(crate) warmup: f64,
    pub(crate) value_bytes: usize,
    pub(crate) keys: usize,
    /// Requests per second of an open loop.
    pub(crate) rate: Option<f64>,
    pub(crate) threads: usize,
    /// The parent of the znodes, created when missing.
    pub(crate) root: String,
    /// TLS and SASL, if configured.
    pub(crate) entry: Entry,
}

impl LoadSpec {
    /// Checks what the command line does not check.
    fn check(&self) -> anyhow::Result<()> {
        ensure!(self.read_percent <= 100, "the read ratio is a percentage: {}", self.read_percent);
        ensure!(self.connections > 0, "at least one connection is needed");
        ensure!(self.depth > 0, "the depth is at least 1");
        ensure!(
            0 < self.keys && self.keys <= NAMES_MAX,
            "between 1 and {NAMES_MAX} keys are possible: {}",
            self.keys
        );
        ensure!(self.threads > 0, "at least one thread is needed");
        ensure!(
            self.seconds > 0.0
                && self.seconds <= 86_400.0
                && (0.0..=86_400.0).contains(&self.warmup),
            "a run takes more than 0 seconds and at most a day"
        );
        ensure!(
            self.rate.is_none_or(|rate| rate > 0.0 && rate.is_finite()),
            "the rate is a positive number of requests per second"
        );
        ensure!(
            self.root.starts_with('/') && self.root.len() > 1 && !self.root.ends_with('/'),
            "the root is the path of a znode below /: {}",
            self.root
        );
        ensure!(!self.root.contains('#'), "the root cannot contain a #");
        Ok(())
    }

    fn pattern(&self) -> String {
        format!("{}/k#", self.root)
    }

    /// The load in one line.
    pub(crate) fn describe(&self) -> String {
        let write = match self.write {
            Write::Set => "setData".to_owned(),
            Write::Create => "create".to_owned(),
            Write::CreateAndDelete => "create and delete by turns".to_owned(),
            Write::Multi(count) => format!("multi of {count} setData"),
        };
        let mix = match self.read_percent {
            100 => "getData".to_owned(),
            0 => write,
            percent => format!("{percent} % getData, {} % {write}", 100 - percent),
        };
        let pace = match self.rate {
            Some(rate) => format!("open loop at {} requests/s", number(rate)),
            None => "closed loop".to_owned(),
        };
        format!(
            "{mix}; {} connections x depth {}{}, {pace}; {} znodes of {} bytes",
            self.connections,
            self.depth,
            match self.entry.has() {
                (false, false) => "",
                (true, false) => " over TLS",
                (false, true) => " with SASL",
                (true, true) => " over TLS, with SASL",
            },
            self.keys,
            self.value_bytes
        )
    }

    /// All parameters, for the raw output.
    pub(crate) fn to_json(&self) -> serde_json::Value {
        json!({
            "read_percent": self.read_percent,
            "write": format!("{:?}", self.write),
            "connections": self.connections,
            "depth": self.depth,
            "seconds": self.seconds,
            "warmup": self.warmup,
            "value_bytes": self.value_bytes,
            "keys": self.keys,
            "rate": self.rate,
            "threads": self.threads,
            "root": self.root,
            "tls": self.entry.has().0,
            "sasl": self.entry.has().1,
        })
    }
}

/// The results.
#[derive(Debug)]
pub(crate) struct LoadResult {
    /// Length of the window.
    pub(crate) seconds: f64,
    pub(crate) tally: Tally,
    /// CPU time of the server within the window, when its process is known.
    pub(crate) server_cpu: Option<Duration>,
    /// Why the first connection broke.
    pub(crate) first_break: Option<String>,
    /// The time of day at which the clock of the tally was 0.
    pub(crate) origin: SystemTime,
}

impl LoadResult {
    /// Adds another window of the same load. In the timeline, the windows lie on top of each other.
    pub(crate) fn add(&mut self, other: &Self) {
        self.seconds += other.seconds;
        self.tally.merge(&other.tally);
        self.server_cpu = self.server_cpu.zip(other.server_cpu).map(|(cpu, more)| cpu + more);
        self.first_break = self.first_break.take().or_else(|| other.first_break.clone());
    }

    /// Successful requests per second.
    pub(crate) fn throughput(&self) -> f64 {
        self.tally.total().completed as f64 / self.seconds
    }

    /// CPU time per successful request, in µs.
    pub(crate) fn cpu_us_per_op(&self, cpu: Duration) -> Option<f64> {
        let ops = self.tally.total().completed;
        (ops > 0).then(|| cpu.as_secs_f64() * 1e6 / ops as f64)
    }

    pub(crate) fn to_json(&self) -> serde_json::Value {
        let server = self.server_cpu.and_then(|cpu| self.cpu_us_per_op(cpu));
        json!({
            "seconds": self.seconds,
            "all": kind_json(&self.tally.total(), self.seconds),
            "reads": kind_json(self.tally.kind(Kind::Read), self.seconds),
            "writes": kind_json(self.tally.kind(Kind::Write), self.seconds),
            "errors": self.tally.errors.iter().map(|(code, count)| json!([code, count]))
                .collect::<Vec<_>>(),
            "lost": self.tally.lost,
            "unanswered": self.tally.unanswered,
            "first_break": self.first_break,
            "generator_cpu_us_per_op": self.cpu_us_per_op(self.tally.cpu),
            "server_cpu_us_per_op": server,
        })
    }
}

fn kind_json(kind: &KindTally, seconds: f64) -> serde_json::Value {
    let us = |quantile: f64| kind.latency.value_at_quantile(quantile) as f64 / 1e3;
    json!({
        "completed": kind.completed,
        "per_second": kind.completed as f64 / seconds,
        "latency_us": {
            "mean": kind.latency.mean() / 1e3,
            "p50": us(0.5), "p90": us(0.9), "p99": us(0.99), "p999": us(0.999), "max": us(1.0),
        },
        // For each interval, its start in seconds and the longest latency in µs of the requests
        // that began in it.
        "longest_us": kind.timeline.to_json(),
        // The upper edge in µs and the count of each non-empty bucket.
        "histogram_us": kind.latency.iter_recorded()
            .map(|step| json!([
                step.value_iterated_to() as f64 / 1e3,
                step.count_since_last_iteration()
            ]))
            .collect::<Vec<_>>(),
    })
}

/// Prepared requests on random znodes.
struct KeyLoad {
    get: Template,
    writes: Writes,
    names: Vec<[u8; DIGITS]>,
    read_percent: usize,
    random: fastrand::Rng,
}

/// Prepared writes.
enum Writes {
    /// One of a random znode.
    Set(Template),
    /// A create without a name of its own: the server numbers the znodes.
    Create(Template),
    /// Requests for each connection's own znode, which of the two is next, and the number of the
    /// first connection.
    CreateAndDelete { create: Template, delete: Template, is_there: Vec<bool>, first: usize },
    /// A multi of this many random znodes among these paths.
    Multi { count: usize, paths: Vec<String>, data: Vec<u8> },
}

impl KeyLoad {
    fn new(spec: &LoadSpec, thread: usize, connections: usize) -> Self {
        let data = wire::value(spec.value_bytes);
        let pattern = spec.pattern();
        let create = |name: &str, flags| {
            let pattern = format!("{}/{name}", spec.root);
            Template::new(op::CREATE, &pattern, |to, path| {
                wire::create_body_of(to, path, &data, flags);
            })
        };
        let writes = match spec.write {
            Write::Set => Writes::Set(Template::new(op::SET_DATA, &pattern, |to, path| {
                wire::set_body(to, path, &data);
            })),
            Write::Create => Writes::Create(create("n-", wire::SEQUENTIAL)),
            Write::CreateAndDelete => Writes::CreateAndDelete {
                create: create("own#", 0),
                delete: Template::new(
                    op::DELETE,
                    &format!("{}/own#", spec.root),
                    wire::delete_body,
                ),
                is_there: vec![false; connections],
                first: OWN_ZNODES.fetch_add(connections, Ordering::Relaxed),
            },
            Write::Multi(count) => {
                let name = |number| String::from_utf8_lossy(&digits(number)).into_owned();
                let paths = (0..spec.keys).map(|key| pattern.replace('#', &name(key))).collect();
                Writes::Multi { count, paths, data }
            }
        };
        Self {
            get: Template::new(op::GET_DATA, &pattern, |to, path| {
                wire::read_body(to, path, false);
            }),
            writes,
            names: (0..spec.keys).map(digits).collect(),
            read_percent: spec.read_percent.into(),
            random: fastrand::Rng::with_seed(thread as u64 + 7),
        }
    }
}

impl Workload for KeyLoad {
    #[inline]
    fn next(&mut self, conn: usize, xid: i32, out: &mut Vec<u8>) -> Option<Kind> {
        let name = self.names[self.random.usize(..self.names.len())];
        let reads = match self.read_percent {
            0 => false,
            100 => true,
            percent => self.random.usize(..100) < percent,
        };
        if reads {
            self.get.put(out, xid, &[name]);
            return Some(Kind::Read);
        }
        match &mut self.writes {
            Writes::Set(set) => set.put(out, xid, &[name]),
            Writes::Create(create) => create.put(out, xid, &[]),
            Writes::CreateAndDelete { create, delete, is_there, first } => {
                let next = if is_there[conn] { delete } else { create };
                next.put(out, xid, &[digits(*first + conn)]);
                is_there[conn] = !is_there[conn];
            }
            Writes::Multi { count, paths, data } => {
                let random = &mut self.random;
                let paths = (0..*count).map(|_| paths[random.usize(..paths.len())].as_str());
                wire::frame(out, xid, op::MULTI, |to| {
                    wire::multi_body(to, op::SET_DATA, paths, |to, path| {
                        wire::set_body(to, path, data);
                    });
                });
            }
        }
        Some(Kind::Write)
    }
}

/// The same request once for each of several numbers.
pub(crate) struct Each {
    template: Template,
    kind: Kind,
    next: usize,
    count: usize,
}

impl Each {
    /// `template` for the numbers below `count`.
    pub(crate) fn new(template: Template, kind: Kind, count: usize) -> Self {
        Self { template, kind, next: 0, count }
    }
}

impl Workload for Each {
    fn next(&mut self, _conn: usize, xid: i32, out: &mut Vec<u8>) -> Option<Kind> {
        if self.next == self.count {
            return None;
        }
        self.template.put(out, xid, &[digits(self.next)]);
        self.next += 1;
        Some(self.kind)
    }
}

/// The largest pipeline depth that keeps values of this size below a megabyte.
pub(crate) fn setup_depth(value_bytes: usize) -> u32 {
    ((1 << 20) / (value_bytes + 100)).clamp(1, 250) as u32
}

/// Runs one pass of set-up requests over a single session.
pub(crate) fn pass(
    swarm: &mut Swarm,
    clock: Clock,
    work: &mut impl Workload,
    depth: u32,
) -> anyhow::Result<Tally> {
    let mut tally = Tally::whole();
    swarm.drive(work, &Plan::all(clock, depth, SETUP_LIMIT), &mut tally)?;
    if tally.lost + tally.unanswered > 0 {
        let why = swarm.first_break().unwrap_or("no reply in time");
        bail!("{} requests of the set-up had no reply: {why}", tally.lost + tally.unanswered);
    }
    Ok(tally)
}

/// Fails on any error code not in `expected`.
pub(crate) fn expect_errors(what: &str, tally: &Tally, expected: &[i32]) -> anyhow::Result<()> {
    match tally.errors.iter().find(|(code, _)| !expected.contains(code)) {
        Some((code, count)) => bail!("{what}: error {code}, {count} times"),
        None => Ok(()),
    }
}

/// Creates the znodes of `spec`, with values of its size.
pub(crate) fn prepare(server: SocketAddr, spec: &LoadSpec) -> anyhow::Result<()> {
    spec.check()?;
    let (mut client, _) = Client::enter(&spec.entry, server, Duration::from_secs(10), 30_000)?;
    client.ensure(&spec.root)?;
    client.close()?;
    let data = wire::value(spec.value_bytes);
    let pattern = spec.pattern();
    let depth = setup_depth(spec.value_bytes);
    let clock = Clock::start();
    let mut swarm = Swarm::new(clock)?.by(&spec.entry);
    swarm.open(&[server], 1, 1, SESSION_TIMEOUT, SETUP_LIMIT)?;
    let create = Template::new(op::CREATE, &pattern, |to, path| wire::create_body(to, path, &data));
    let tally = pass(&mut swarm, clock, &mut Each::new(create, Kind::Write, spec.keys), depth)?;
    expect_errors("create the znodes", &tally, &[wire::ERR_NODE_EXISTS])?;
    if !tally.errors.is_empty() {
        let set = Template::new(op::SET_DATA, &pattern, |to, path| wire::set_body(to, path, &data));
        let tally = pass(&mut swarm, clock, &mut Each::new(set, Kind::Write, spec.keys), depth)?;
        expect_errors("set the znodes", &tally, &[])?;
    }
    swarm.close(SETUP_LIMIT)?;
    Ok(())
}

/// Deletes a list of znodes.
struct Deletes {
    paths: std::vec::IntoIter<String>,
}

impl Workload for Deletes {
    fn next(&mut self, _conn: usize, xid: i32, out: &mut Vec<u8>) -> Option<Kind> {
        let path = self.paths.next()?;
        wire::frame(out, xid, op::DELETE, |to| wire::delete_body(to, &path));
        Some(Kind::Write)
    }
}

/// Deletes the znodes of `spec`, those that its writes have created, and their parent.
pub(crate) fn clean(server: SocketAddr, spec: &LoadSpec) -> anyhow::Result<()> {
    let (mut client, _) = Client::enter(&spec.entry, server, Duration::from_secs(10), 30_000)?;
    let names = client.children(&spec.root)?;
    client.close()?;
    let clock = Clock::start();
    let mut swarm = Swarm::new(clock)?.by(&spec.entry);
    swarm.open(&[server], 1, 1, SESSION_TIMEOUT, SETUP_LIMIT)?;
    let paths: Vec<String> = names.iter().map(|name| format!("{}/{name}", spec.root)).collect();
    let mut work = Deletes { paths: paths.into_iter() };
    let tally = pass(&mut swarm, clock, &mut work, setup_depth(0))?;
    expect_errors("delete the znodes", &tally, &[wire::ERR_NO_NODE])?;
    swarm.close(SETUP_LIMIT)?;
    let (mut client, _) = Client::enter(&spec.entry, server, Duration::from_secs(10), 30_000)?;
    let root = spec.root.as_str();
    client.expect("delete the root", op::DELETE, |to| wire::delete_body(to, root))?;
    client.close()
}

/// Runs the load against `servers`, whose znodes are prepared. Measures it, with the CPU time of
/// `processes`.
pub(crate) fn measure(
    servers: &[SocketAddr],
    processes: &[Process],
    spec: &LoadSpec,
) -> anyhow::Result<LoadResult> {
    spec.check()?;
    let (clock, origin) = (Clock::start(), SystemTime::now());
    let threads = spec.threads.min(spec.connections);
    let mut swarms = Vec::with_capacity(threads);
    for index in 0..threads {
        let share = (0..spec.connections).skip(index).step_by(threads).count();
        let mut swarm = Swarm::new(clock)?.by(&spec.entry);
        // Each thread begins with another server, so the connections are spread evenly.
        let mut servers = servers.to_vec();
        let first = index % servers.len();
        servers.rotate_left(first);
        swarm.open(&servers, share, OPENING_MAX, SESSION_TIMEOUT, SETUP_LIMIT)?;
        swarms.push((swarm, share));
    }
    let start = clock.now() + nanos(LEAD);
    let window_start = start + seconds(spec.warmup);
    let window = window_start..window_start + seconds(spec.seconds);
    let (tally, first_break, server_cpu) = thread::scope(|scope| {
        let mut handles = Vec::with_capacity(threads);
        for (index, (mut swarm, share)) in swarms.into_iter().enumerate() {
            let plan = Plan {
                depth: spec.depth,
                rate: spec.rate.map(|rate| rate * share as f64 / spec.connections as f64),
                start,
                stop: window.end,
                linger: false,
                ping_after: None,
            };
            let mut tally = Tally::new(window.clone(), spec.rate.is_some());
            let mut work = KeyLoad::new(spec, index, share);
            handles.push(scope.spawn(move || -> anyhow::Result<_> {
                clock.sleep_until(start);
                swarm.drive(&mut work, &plan, &mut tally)?;
                let first_break = swarm.first_break().map(str::to_owned);
                swarm.close(SETUP_LIMIT)?;
                Ok((tally, first_break))
            }));
        }
        clock.sleep_until(window.start);
        let cpu = || -> Option<Duration> {
            let each: Option<Vec<Duration>> = processes.iter().map(|it| it.cpu()).collect();
            each.filter(|each| !each.is_empty()).map(|each| each.iter().sum())
        };
        let cpu_before = cpu();
        clock.sleep_until(window.end);
        let cpu_after = cpu();
        let mut all = Tally::new(window.clone(), spec.rate.is_some());
        let mut first_break = None;
        for handle in handles {
            let (tally, broken) =
                handle.join().map_err(|_| anyhow::anyhow!("a generator thread panicked"))??;
            all.merge(&tally);
            first_break = first_break.or(broken);
        }
        let cpu = cpu_before.zip(cpu_after).map(|(before, after)| after.saturating_sub(before));
        anyhow::Ok((all, first_break, cpu))
    })
    .context("put the load on the server")?;
    Ok(LoadResult { seconds: spec.seconds, tally, server_cpu, first_break, origin })
}

fn seconds(seconds: f64) -> Nanos {
    nanos(Duration::from_secs_f64(seconds))
}

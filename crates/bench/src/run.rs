//! `zebu bench run` and `zebu bench echo`: one load on one server or ensemble.

use std::net::{SocketAddr, ToSocketAddrs};
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, ensure};
use clap::{Args, ValueEnum};
use serde_json::json;
use zebu_credentials::CredentialArgs;
use zebu_figures::number;

use crate::echo::EchoServer;
use crate::entry::Entry;
use crate::load::{LoadResult, LoadSpec, Write, clean, measure, prepare};
use crate::output::{Output, unit_us};
use crate::process::{self, Process};
use crate::sketch;

use crate::table::Table;
use crate::tally::{Kind, KindTally};

/// The requests of a load.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Op {
    /// getData
    Get,
    /// setData
    Set,
    /// both, by --read-ratio
    Mix,
    /// create, each znode with a name of its own
    Create,
    /// create and delete of one znode for each connection, by turns
    CreateDelete,
    /// multi of --multi setData
    Multi,
}

/// The load, shared by `run` and `echo`.
#[derive(Clone, Debug, Args)]
pub(crate) struct LoadArgs {
    /// Requests to send
    #[arg(long, value_enum, default_value_t = Op::Get)]
    op: Op,
    /// Share of reads of a mix, in percent
    #[arg(long, value_name = "PERCENT", default_value_t = 90, value_parser = clap::value_parser!(u8).range(0..=100))]
    read_ratio: u8,
    /// How many setData a multi has
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = at_least_one)]
    multi: usize,
    /// Connections, each a session of its own
    #[arg(long, value_name = "N", default_value_t = 16)]
    connections: usize,
    /// Requests each connection keeps in flight (with --rate: at most)
    #[arg(long, value_name = "N", default_value_t = 128)]
    depth: u32,
    /// Length of the measured window
    #[arg(long, value_name = "S", default_value_t = 5.0)]
    seconds: f64,
    /// Load before the window that does not count
    #[arg(long, value_name = "S", default_value_t = 1.0)]
    warmup: f64,
    /// Bytes of each value
    #[arg(long, value_name = "BYTES", default_value_t = 100)]
    size: usize,
    /// Znodes the requests are spread over, evenly and at random
    #[arg(long, value_name = "N", default_value_t = 1000)]
    keys: usize,
    /// Open loop: send this many requests per second whatever the replies do, and count latency
    /// from when each was due
    #[arg(long, value_name = "PER_SECOND")]
    rate: Option<f64>,
    /// Threads of the load generator
    #[arg(long, value_name = "N", default_value_t = 1)]
    threads: usize,
    /// Write the raw numbers, with all parameters and histograms, to this file (- for stdout)
    #[arg(long, value_name = "FILE")]
    json: Option<String>,
}

fn at_least_one(text: &str) -> Result<usize, String> {
    match text.parse() {
        Ok(0) => Err("a multi has at least one operation".to_owned()),
        Ok(count) => Ok(count),
        Err(error) => Err(format!("{error}")),
    }
}

impl LoadArgs {
    fn spec(&self, root: &str) -> LoadSpec {
        LoadSpec {
            read_percent: match self.op {
                Op::Get => 100,
                Op::Mix => self.read_ratio,
                Op::Set | Op::Create | Op::CreateDelete | Op::Multi => 0,
            },
            write: match self.op {
                Op::Get | Op::Set | Op::Mix => Write::Set,
                Op::Create => Write::Create,
                Op::CreateDelete => Write::CreateAndDelete,
                Op::Multi => Write::Multi(self.multi),
            },
            connections: self.connections,
            depth: self.depth,
            seconds: self.seconds,
            warmup: self.warmup,
            value_bytes: self.size,
            keys: self.keys,
            rate: self.rate,
            threads: self.threads,
            root: root.to_owned(),
            entry: Entry::default(),
        }
    }
}

/// Put load on a running server or ensemble, and print throughput and latency
#[derive(Clone, Debug, Args)]
pub(crate) struct RunArgs {
    /// Server, or servers separated by commas; connections are dealt out in turn
    #[arg(long, value_name = "HOST:PORT", default_value = "127.0.0.1:2181")]
    server: String,
    /// Process id of a server on this machine, to measure its CPU time per request
    #[arg(long, value_name = "PID")]
    server_pid: Option<u32>,
    /// Parent of the znodes used; created when missing, deleted afterwards
    #[arg(long, value_name = "PATH", default_value = "/zebu-bench")]
    root: String,
    /// Leave the znodes behind
    #[arg(long)]
    keep: bool,
    /// Over what, and as whom.
    #[command(flatten)]
    credentials: CredentialArgs,
    #[command(flatten)]
    load: LoadArgs,
}

/// Measure this machine's upper bound: the same load on a server that only answers
#[derive(Clone, Debug, Args)]
pub(crate) struct EchoArgs {
    /// Only serve, on this address, until the process is ended
    #[arg(long, value_name = "IP:PORT")]
    listen: Option<SocketAddr>,
    /// Make every write durable before it is answered, in a file of 4 MiB in this directory, many
    /// with one fdatasync: the upper bound of durable writes
    #[arg(long, value_name = "DIR")]
    durable: Option<PathBuf>,
    #[command(flatten)]
    load: LoadArgs,
}

pub(crate) fn run(args: &RunArgs) -> anyhow::Result<()> {
    process::raise_open_files();
    let servers = resolve(&args.server)?;
    let hosts = servers.iter().cloned().collect();
    let servers: Vec<SocketAddr> = servers.into_iter().map(|(server, _)| server).collect();
    let entry = Entry::new(&args.credentials, hosts)?;
    let spec = LoadSpec { entry, ..args.load.spec(&args.root) };
    prepare(servers[0], &spec)?;
    let result = measure(&servers, args.server_pid.map(Process).as_slice(), &spec)?;
    report(&args.server, &spec, &result, args.load.json.as_deref())?;
    if !args.keep {
        clean(servers[0], &spec).context("clean up")?;
    }
    Ok(())
}

pub(crate) fn echo(args: &EchoArgs) -> anyhow::Result<()> {
    process::raise_open_files();
    let start = |address| match &args.durable {
        Some(dir) => EchoServer::durable(address, dir),
        None => EchoServer::start(address),
    };
    if let Some(address) = args.listen {
        let server = start(address)?;
        eprintln!("echo server on {}", server.address());
        server.wait();
        return Ok(());
    }
    let server = start(SocketAddr::from(([127, 0, 0, 1], 0)))?;
    let spec = args.load.spec("/zebu-bench");
    prepare(server.address(), &spec)?;
    let result = measure(&[server.address()], &[], &spec)?;
    let name = format!("echo, in this process, on {}", server.address());
    report(&name, &spec, &result, args.load.json.as_deref())
}

/// The addresses of a comma-separated list of servers, with the names of their hosts.
fn resolve(list: &str) -> anyhow::Result<Vec<(SocketAddr, String)>> {
    let mut servers = Vec::new();
    for name in list.split(',').map(str::trim).filter(|name| !name.is_empty()) {
        let mut found = name.to_socket_addrs().with_context(|| format!("resolve {name}"))?;
        let server = found.next().with_context(|| format!("no address for {name}"))?;
        let host = name.rsplit_once(':').map_or(name, |(host, _)| host);
        servers.push((server, host.trim_matches(['[', ']']).to_owned()));
    }
    ensure!(!servers.is_empty(), "no server given");
    Ok(servers)
}

fn report(
    server: &str,
    spec: &LoadSpec,
    result: &LoadResult,
    json: Option<&str>,
) -> anyhow::Result<()> {
    let output = Output::new(json);
    output.line(&format!("server    {server}"));
    output.line(&format!("load      {}", spec.describe()));
    output.line(&format!(
        "measured  {} s after {} s of warm-up",
        number(spec.seconds),
        number(spec.warmup)
    ));
    output.line("");
    let mut table = Table::new(["", "ops/s", "mean us", "p50 us", "p99 us", "p999 us", "max us"]);
    let mut row = |name: &str, kind: &KindTally| {
        let us = |quantile: f64| unit_us(kind.latency.value_at_quantile(quantile));
        table.row([
            name.to_owned(),
            number(kind.completed as f64 / result.seconds),
            number(kind.latency.mean() / 1e3),
            us(0.5),
            us(0.99),
            us(0.999),
            us(1.0),
        ]);
    };
    if spec.read_percent > 0 {
        row("getData", result.tally.kind(Kind::Read));
    }
    if spec.read_percent < 100 {
        row("setData", result.tally.kind(Kind::Write));
    }
    if (1..100).contains(&spec.read_percent) {
        row("all", &result.tally.total());
    }
    output.text(&table.render());
    output.line("");
    output.text(&sketch::latencies(&result.tally.total().latency));
    output.line("");
    let cpu = |spent: Option<Duration>| match spent.and_then(|cpu| result.cpu_us_per_op(cpu)) {
        Some(us) => format!("{} us", number(us)),
        None => "-".to_owned(),
    };
    output.line(&format!(
        "CPU per request: generator {}, server {}",
        cpu(Some(result.tally.cpu)),
        cpu(result.server_cpu)
    ));
    let tally = &result.tally;
    let codes = tally.errors.iter().map(|(code, count)| format!("{code}: {count}"));
    let codes = codes.collect::<Vec<_>>().join(", ");
    output.line(&format!(
        "errors: {}{}, lost with their connection: {}, never answered: {}",
        tally.error_count(),
        if codes.is_empty() { String::new() } else { format!(" ({codes})") },
        tally.lost,
        tally.unanswered
    ));
    if let Some(why) = &result.first_break {
        output.line(&format!("first connection broke with: {why}"));
    }
    output.json(&json!({
        "command": "run",
        "server": server,
        "machine": process::machine(),
        "parameters": spec.to_json(),
        "result": result.to_json(),
    }))
}

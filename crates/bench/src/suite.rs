//! The suites of a comparison. Each starts its server, measures, and stops it.

pub(crate) mod admin;
pub(crate) mod cores;
pub(crate) mod ensemble;
pub(crate) mod failover;
pub(crate) mod latency;
pub(crate) mod moving;
pub(crate) mod neighbours;
pub(crate) mod pipeline;
pub(crate) mod protections;
pub(crate) mod rejoin;
pub(crate) mod rolling;
pub(crate) mod sessions;
pub(crate) mod snapshots;
pub(crate) mod tls;
pub(crate) mod watches;
pub(crate) mod writes;
pub(crate) mod znodes;

use std::net::SocketAddr;
use std::time::Duration;

use crate::client::Client;
use crate::clock::Nanos;
use crate::compare::Bout;
use crate::contestant::Running;
use crate::entry::Entry;
use crate::load::{LoadSpec, Write, measure, prepare};
use crate::process::Process;

/// The znode below which all suites work.
pub(crate) const ROOT: &str = "/zebu-bench";
/// Patience for one step of a suite.
pub(crate) const STEP_LIMIT: Duration = Duration::from_secs(600);
/// Patience for one answer.
pub(crate) const ANSWER_LIMIT: Duration = Duration::from_secs(30);

/// A session for single requests.
pub(crate) fn client(running: &Running) -> anyhow::Result<Client> {
    client_of(running.address)
}

/// The same at some address.
pub(crate) fn client_of(server: SocketAddr) -> anyhow::Result<Client> {
    Client::connect(server, ANSWER_LIMIT)
}

/// The load that suites vary: half reads and half writes, some of both in flight, for one window.
pub(crate) fn mixed_load(bout: &Bout<'_>) -> LoadSpec {
    LoadSpec {
        read_percent: 50,
        write: Write::Set,
        connections: 16,
        depth: 16,
        seconds: bout.args.seconds,
        warmup: bout.args.warmup,
        value_bytes: bout.args.size,
        keys: bout.args.keys,
        rate: None,
        threads: bout.args.threads,
        root: ROOT.to_owned(),
        entry: Entry::default(),
    }
}

/// Makes the znodes of the load, and puts it on servers that have just started, so that Java's compiler has done
/// its work when it counts.
pub(crate) fn warm_up(
    bout: &Bout<'_>,
    servers: &[SocketAddr],
    processes: &[Process],
) -> anyhow::Result<()> {
    let spec = mixed_load(bout);
    prepare(servers[0], &spec)?;
    // What only answers, inside this process, has nothing to compile.
    if bout.args.server_warmup > 0.0 && !bout.contestant.is_bound() {
        let spec = LoadSpec { seconds: bout.args.server_warmup, warmup: 0.0, ..spec };
        measure(servers, processes, &spec)?;
    }
    Ok(())
}

/// Bytes as MB, of a million.
pub(crate) fn megabytes(bytes: u64) -> f64 {
    bytes as f64 / 1e6
}

/// Nanoseconds as seconds.
pub(crate) fn seconds(ns: Nanos) -> f64 {
    ns as f64 / 1e9
}

/// Growth from `before` to `after` by each of `count`; negative when it shrank.
pub(crate) fn each(before: Option<u64>, after: Option<u64>, count: usize) -> Option<f64> {
    Some((after? as f64 - before? as f64) / count as f64)
}

/// Memory of a server, in bytes, as far as it can be known.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Memory {
    /// Resident memory.
    pub(crate) rss: Option<u64>,
    /// What is really in use: for Java the heap after a full collection, if `jcmd` can tell; else resident memory.
    pub(crate) live: Option<u64>,
}

impl Memory {
    /// Memory as it is now. Resident memory is looked at first, so that the collection does not count.
    pub(crate) fn of(running: &Running) -> Self {
        let rss = running.process().and_then(Process::rss);
        Self { rss, live: if running.has_heap() { running.live_heap() } else { rss } }
    }
}

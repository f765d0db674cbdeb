//! The suites of a comparison. Each starts its server, measures, and stops it.

pub(crate) mod admin;
pub(crate) mod cores;
pub(crate) mod ensemble;
pub(crate) mod failover;
pub(crate) mod latency;
pub(crate) mod learners;
pub(crate) mod log;
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
/// The time limit for one step of a suite.
pub(crate) const STEP_LIMIT: Duration = Duration::from_secs(600);
/// The time limit for one answer.
pub(crate) const ANSWER_LIMIT: Duration = Duration::from_secs(30);

/// A session for single requests.
pub(crate) fn client(running: &Running) -> anyhow::Result<Client> {
    client_of(running.address)
}

/// The same, at any address.
pub(crate) fn client_of(server: SocketAddr) -> anyhow::Result<Client> {
    Client::connect(server, ANSWER_LIMIT)
}

/// The common load of several suites: half reads and half writes, a few of both in flight, for one
/// window.
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

/// Creates the znodes of the load, and runs the load on freshly started servers, so that the Java
/// compiler has done its work before the measurement.
pub(crate) fn warm_up(
    bout: &Bout<'_>,
    servers: &[SocketAddr],
    processes: &[Process],
) -> anyhow::Result<()> {
    let spec = mixed_load(bout);
    prepare(servers[0], &spec)?;
    // A server inside this process that only answers has nothing to compile.
    if bout.args.server_warmup > 0.0 && !bout.contestant.is_bound() {
        let spec = LoadSpec { seconds: bout.args.server_warmup, warmup: 0.0, ..spec };
        measure(servers, processes, &spec)?;
    }
    Ok(())
}

/// Bytes in MB of a million bytes.
pub(crate) fn megabytes(bytes: u64) -> f64 {
    bytes as f64 / 1e6
}

/// Nanoseconds as seconds.
pub(crate) fn seconds(ns: Nanos) -> f64 {
    ns as f64 / 1e9
}

/// The growth from `before` to `after`, divided by `count`; negative after a decrease.
pub(crate) fn each(before: Option<u64>, after: Option<u64>, count: usize) -> Option<f64> {
    Some((after? as f64 - before? as f64) / count as f64)
}

/// The memory of a server in bytes, as far as it is known.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Memory {
    /// Resident memory.
    pub(crate) rss: Option<u64>,
    /// The memory in use: for Java the heap after a full collection, if `jcmd` reports it, and
    /// resident memory otherwise.
    pub(crate) live: Option<u64>,
}

impl Memory {
    /// The current memory. Resident memory is read first, so the collection does not affect it.
    pub(crate) fn of(running: &Running) -> Self {
        let rss = running.process().and_then(Process::rss);
        Self { rss, live: if running.has_heap() { running.live_heap() } else { rss } }
    }
}

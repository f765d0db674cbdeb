//! The suites of a comparison. Each starts its server, measures, and stops it.

pub(crate) mod ensemble;
pub(crate) mod failover;
pub(crate) mod moving;
pub(crate) mod pipeline;
pub(crate) mod rejoin;
pub(crate) mod sessions;
pub(crate) mod watches;
pub(crate) mod znodes;

use std::net::SocketAddr;
use std::time::Duration;

use crate::client::Client;
use crate::clock::Nanos;
use crate::contestant::Running;

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
    /// What is really in use: for Java the heap after a full collection, else resident memory.
    pub(crate) live: Option<u64>,
}

impl Memory {
    /// Memory as it is now. Resident memory is looked at first, so that the collection does not count.
    pub(crate) fn of(running: &Running) -> Self {
        let rss = running.process().and_then(crate::process::Process::rss);
        Self { rss, live: running.live_heap().or(rss) }
    }
}

//! Rates, lag and health, computed from two observations. Pure.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use zebu_proto::Zxid;

use super::look::{Client, Facts, Sample};

/// The content of the screen.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct View {
    /// A summary of the ensemble in one line.
    pub(super) summary: String,
    pub(super) servers: Vec<Server>,
    /// Clients, the busiest first.
    pub(super) clients: Vec<ClientRow>,
    /// Paths by their first component, the busiest first.
    pub(super) paths: Vec<PathRow>,
    /// Operations per second at all servers, the most frequent first.
    pub(super) operations: Vec<(String, f64)>,
    /// Faults, and facts that are unknown.
    pub(super) notes: Vec<String>,
}

/// A server. A number that the server does not report, or that needs two observations, is `None`.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Server {
    /// Its id, if it reports one.
    pub(super) id: Option<i64>,
    pub(super) address: String,
    /// `ok`, or the fault.
    pub(super) health: String,
    pub(super) mode: Option<String>,
    pub(super) version: Option<String>,
    pub(super) epoch: Option<i64>,
    pub(super) zxid: Option<String>,
    /// Transactions behind the newest server of the same epoch.
    pub(super) lag: Option<i64>,
    /// Frames from clients each second, pings included.
    pub(super) requests_per_s: Option<f64>,
    /// Average latency of the requests between the observations, or since the last reset.
    pub(super) latency_ms: Option<f64>,
    /// Largest latency since the last reset.
    pub(super) latency_max_ms: Option<f64>,
    pub(super) outstanding: Option<f64>,
    pub(super) connections: Option<f64>,
    pub(super) znodes: Option<f64>,
    pub(super) watches: Option<f64>,
    /// Average time of a log sync between the observations, or since the last reset.
    pub(super) fsync_ms: Option<f64>,
    /// Largest time of a sync since the last reset.
    pub(super) fsync_max_ms: Option<f64>,
}

/// A client's connection.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct ClientRow {
    /// The address of the server.
    pub(super) server: String,
    pub(super) client: Client,
    pub(super) requests_per_s: Option<f64>,
}

/// The requests below one child of the root, at all servers.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct PathRow {
    pub(super) path: String,
    /// Reads per second at all servers.
    pub(super) reads_per_s: f64,
    /// Bytes of paths and results of these reads.
    pub(super) read_bytes_per_s: f64,
    /// Writes per second, at the server with the most: all servers apply each write.
    pub(super) writes_per_s: f64,
    /// Bytes of paths and data of these writes.
    pub(super) write_bytes_per_s: f64,
}

/// The growth of a counter per second between two observations.
fn rate(before: Option<f64>, after: Option<f64>, elapsed: Duration) -> Option<f64> {
    let grown = after? - before?;
    // After a restart of the server or a reset of its statistics, the counter begins at 0.
    (grown >= 0.0 && !elapsed.is_zero()).then(|| grown / elapsed.as_secs_f64())
}

/// The average between two observations, from sums and counts; without an earlier observation, the
/// average since the start.
fn average(before: Option<&Facts>, after: &Facts, names: &[&str]) -> Option<f64> {
    let of = |facts: &Facts, what: &str| -> Option<f64> {
        names.iter().map(|name| facts.mntr.get(&format!("{what}_{name}"))).sum::<Option<f64>>()
    };
    let (sum, count) = (of(after, "sum")?, of(after, "cnt")?);
    let (sum_before, count_before) =
        before.and_then(|it| Some((of(it, "sum")?, of(it, "cnt")?))).unwrap_or((0.0, 0.0));
    let (sum, count) = (sum - sum_before, count - count_before);
    (count > 0.0 && sum >= 0.0).then(|| sum / count)
}

impl View {
    /// Builds the view from the last observation, and from the one before for rates. `clients`: the
    /// most clients in the view.
    pub(super) fn new(before: &[Sample], after: &[Sample], clients: usize) -> Self {
        let newest =
            after.iter().filter_map(|it| it.facts.as_ref().ok()?.zxid).max().unwrap_or(Zxid(0));
        let mut view = Self::default();
        let mut operations: BTreeMap<String, f64> = BTreeMap::new();
        let mut paths: BTreeMap<String, PathRow> = BTreeMap::new();
        for sample in after {
            let earlier = before.iter().find(|earlier| earlier.at == sample.at);
            let elapsed = earlier.map_or(Duration::ZERO, |it| sample.when.saturating_sub(it.when));
            let earlier = earlier.and_then(|it| it.facts.as_ref().ok());
            let address = sample.at.to_string();
            let facts = match &sample.facts {
                Ok(facts) => facts,
                Err(why) => {
                    view.notes.push(format!("{address}: {why}"));
                    let health = "unreachable".to_owned();
                    view.servers.push(Server { address, health, ..Server::default() });
                    continue;
                }
            };
            view.notes.extend(facts.missing.iter().map(|missing| format!("{address}: {missing}")));
            view.clients.extend(client_rows(&address, earlier, facts, elapsed));
            if let Some(earlier) = earlier {
                add_operations(&mut operations, earlier, facts, elapsed);
                add_paths(&mut paths, earlier, facts, elapsed);
            }
            view.servers.push(server_row(address, newest, earlier, facts, elapsed));
        }
        view.clients.sort_by(|a, b| busy(b).total_cmp(&busy(a)));
        view.clients.truncate(clients);
        view.operations = operations.into_iter().filter(|(_, rate)| *rate > 0.0).collect();
        view.operations.sort_by(|a, b| b.1.total_cmp(&a.1));
        view.paths = paths.into_values().collect();
        let bytes = |row: &PathRow| row.read_bytes_per_s + row.write_bytes_per_s;
        view.paths.retain(|row| row.reads_per_s + row.writes_per_s > 0.0);
        view.paths.sort_by(|a, b| bytes(b).total_cmp(&bytes(a)));
        view.summary = summary(after, &view.servers, &mut view.notes);
        view
    }
}

/// The rate or, without a rate, the total.
fn busy(row: &ClientRow) -> f64 {
    row.requests_per_s.unwrap_or(-1.0 / (1.0 + row.client.received as f64))
}

fn server_row(
    address: String,
    newest: Zxid,
    earlier: Option<&Facts>,
    facts: &Facts,
    elapsed: Duration,
) -> Server {
    let srvr = |name: &str| facts.srvr.get(name).copied();
    let mntr = |name: &str| facts.mntr.get(name).copied();
    let requests = ["readlatency", "updatelatency"];
    let lag = facts.zxid.filter(|zxid| zxid.0 >> 32 == newest.0 >> 32);
    Server {
        id: facts.id.map(|id| id.0),
        address,
        health: match facts.mode.as_deref() {
            None => "not serving".to_owned(),
            Some("read-only") => "read-only".to_owned(),
            Some(_) => "ok".to_owned(),
        },
        mode: facts.mode.clone(),
        version: facts.version.clone(),
        epoch: facts.zxid.map(|zxid| zxid.0 >> 32),
        zxid: facts.zxid.map(|zxid| format!("{:#x}", zxid.0)),
        lag: lag.map(|zxid| newest.0 - zxid.0),
        requests_per_s: rate(
            earlier.and_then(|it| it.srvr.get("Received").copied()),
            srvr("Received"),
            elapsed,
        ),
        latency_ms: average(earlier, facts, &requests)
            .or_else(|| facts.latency.map(|[_, average, _]| average)),
        latency_max_ms: facts.latency.map(|[.., largest]| largest),
        outstanding: srvr("Outstanding"),
        connections: srvr("Connections"),
        znodes: srvr("Node count"),
        watches: mntr("watch_count"),
        fsync_ms: average(earlier, facts, &["fsynctime"]).or_else(|| mntr("avg_fsynctime")),
        fsync_max_ms: mntr("max_fsynctime"),
    }
}

fn client_rows(
    address: &str,
    earlier: Option<&Facts>,
    facts: &Facts,
    elapsed: Duration,
) -> Vec<ClientRow> {
    let before: BTreeMap<_, _> = earlier
        .into_iter()
        .flat_map(|it| &it.clients)
        .map(|client| ((&client.address, &client.session), client.received as f64))
        .collect();
    let row = |client: &Client| {
        let received = before.get(&(&client.address, &client.session)).copied();
        let requests_per_s = rate(received, Some(client.received as f64), elapsed);
        ClientRow { server: address.to_owned(), client: client.clone(), requests_per_s }
    };
    facts.clients.iter().map(row).collect()
}

fn add_operations(
    operations: &mut BTreeMap<String, f64>,
    earlier: &Facts,
    facts: &Facts,
    elapsed: Duration,
) {
    for (name, value) in &facts.mntr {
        let Some(operation) = name.strip_prefix("op_count_").filter(|it| *it != "total") else {
            continue;
        };
        if let Some(rate) = rate(earlier.mntr.get(name).copied(), Some(*value), elapsed) {
            *operations.entry(operation.to_owned()).or_default() += rate;
        }
    }
}

fn add_paths(
    paths: &mut BTreeMap<String, PathRow>,
    earlier: &Facts,
    facts: &Facts,
    elapsed: Duration,
) {
    for (name, value) in &facts.mntr {
        let kinds = ["_read_per_namespace", "_write_per_namespace"];
        for (is_write, kind) in kinds.into_iter().enumerate() {
            let Some(rest) = name.strip_suffix(kind) else { continue };
            let Some((what @ ("cnt" | "sum"), namespace)) = rest.split_once('_') else { continue };
            // A path without requests at the earlier observation has begun at 0 since then.
            let before = earlier.mntr.get(name).copied().unwrap_or(0.0);
            let Some(rate) = rate(Some(before), Some(*value), elapsed) else { continue };
            let path = format!("/{namespace}");
            let row = paths.entry(path.clone()).or_insert(PathRow {
                path,
                reads_per_s: 0.0,
                read_bytes_per_s: 0.0,
                writes_per_s: 0.0,
                write_bytes_per_s: 0.0,
            });
            match (is_write, what) {
                (0, "cnt") => row.reads_per_s += rate,
                (0, _) => row.read_bytes_per_s += rate,
                (_, "cnt") => row.writes_per_s = row.writes_per_s.max(rate),
                (_, _) => row.write_bytes_per_s = row.write_bytes_per_s.max(rate),
            }
        }
    }
}

/// The ensemble in one line. Faults become notes.
fn summary(samples: &[Sample], servers: &[Server], notes: &mut Vec<String>) -> String {
    let facts = || samples.iter().filter_map(|sample| sample.facts.as_ref().ok());
    let newest = facts().filter_map(|it| it.members.as_ref()).max_by_key(|it| it.version());
    let serving = servers.iter().filter(|server| server.mode.is_some()).count();
    let leaders: Vec<_> =
        servers.iter().filter(|server| server.mode.as_deref() == Some("leader")).collect();
    let epochs: BTreeSet<_> = servers.iter().filter_map(|server| server.epoch).collect();
    let Some(members) = newest else {
        return format!("{serving} of {} servers serve", servers.len());
    };
    let voters: Vec<_> = members.voters().map(|id| id.0).collect();
    let is_up = |voter: &&i64| servers.iter().any(|it| it.id == Some(**voter) && it.mode.is_some());
    let up = voters.iter().filter(is_up).count();
    let leader = match leaders[..] {
        [leader] => format!(
            "leader {}",
            leader.id.map_or_else(|| leader.address.clone(), |id| format!("server.{id}"))
        ),
        [] => {
            notes.push("no server claims to lead".to_owned());
            "no leader".to_owned()
        }
        _ => {
            notes.push("more than one server claims to lead".to_owned());
            format!("{} leaders", leaders.len())
        }
    };
    if epochs.len() > 1 {
        notes.push("the servers are in different epochs".to_owned());
    }
    let versions: BTreeSet<_> =
        facts().filter_map(|it| it.members.as_ref()).map(|members| members.version()).collect();
    if versions.len() > 1 {
        notes.push("the servers have different configurations".to_owned());
    }
    let observers = members.members().len() - voters.len();
    let epoch = epochs.last().map_or_else(|| "-".to_owned(), ToString::to_string);
    format!(
        "{leader}, epoch {epoch}, {up} of {} voters serve, {observers} observers, configuration {:#x}",
        voters.len(),
        members.version().0
    )
}

#[cfg(test)]
mod tests {
    use super::super::tests::samples;
    use super::*;

    #[test]
    fn two_looks_make_rates() {
        let (before, after) = samples();
        let view = View::new(&before, &after, 10);
        let leader = &view.servers[0];
        assert_eq!(leader.requests_per_s, Some(500.0), "1,000 frames in two seconds");
        assert_eq!(leader.latency_ms, Some(3.0), "of what came between the looks");
        assert_eq!(leader.fsync_ms, Some(2.5));
        assert_eq!((leader.epoch, leader.lag), (Some(2), Some(0)));
        let follower = &view.servers[1];
        assert_eq!(follower.lag, Some(10));
        assert_eq!((follower.latency_ms, follower.fsync_ms), (Some(1.878), None), "without mntr");
        assert_eq!(view.servers[2].health, "unreachable");
        assert_eq!(view.clients[0].client.session, "0x11");
        assert_eq!(view.clients[0].requests_per_s, Some(400.0));
        assert_eq!(view.operations, [("set_data".to_owned(), 50.0), ("ping".to_owned(), 1.0)]);
        let path = &view.paths[0];
        assert_eq!((&*path.path, path.writes_per_s, path.write_bytes_per_s), ("/app_1", 50.0, 5e3));
        assert_eq!(
            view.summary,
            "leader server.1, epoch 2, 2 of 3 voters serve, 0 observers, configuration 0x200000000"
        );
    }

    #[test]
    fn one_look_has_no_rates() {
        let (_, after) = samples();
        let view = View::new(&[], &after, 1);
        assert_eq!(view.servers[0].requests_per_s, None);
        assert_eq!(view.clients.len(), 1, "no more than were asked for");
        assert_eq!(view.clients[0].client.session, "0x11", "the one with most requests");
        assert!(view.paths.is_empty() && view.operations.is_empty());
    }

    #[test]
    fn a_server_that_was_started_again_has_no_rate() {
        let (before, after) = samples();
        let view = View::new(&after, &before, 10);
        assert_eq!(view.servers[0].requests_per_s, None);
    }
}

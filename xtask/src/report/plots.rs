//! Which plots there are, and what each of them shows.

use zebu_figures::Spread;

use super::aims::JAVA;
use super::figures::Figures;
use super::svg::{Group, Panel, bars, curves, ratios};

/// A plot.
#[derive(Clone, Debug)]
pub(crate) struct Plot {
    pub(crate) file: &'static str,
    pub(crate) title: &'static str,
    pub(crate) svg: String,
}

/// The files of all possible plots, with their titles.
pub(crate) const NAMES: &[(&str, &str)] = &[
    ("ratios.svg", "How many times better"),
    ("reads.svg", "getData per second, closed loop"),
    ("writes.svg", "durable setData per second, closed loop"),
    ("latency.svg", "Latency at an equal load, open loop"),
    ("cores.svg", "Requests per second by cores"),
    ("ensemble.svg", "Three servers: requests per second, closed loop"),
    ("memory.svg", "Memory, in bytes each"),
];

/// The rows of the plot of ratios: label, group and name.
const RATIOS: &[(&str, &str, &str)] = &[
    ("getData/s, one at a time", "requests/s", "get, depth 1, 1 conn"),
    ("getData/s, 16 × 16 in flight", "requests/s", "get, depth 16, 16 conn"),
    ("getData/s, 16 × 128 in flight", "requests/s", "get, depth 128, 16 conn"),
    ("setData/s, one at a time", "requests/s", "set, depth 1, 1 conn"),
    ("setData/s, 16 × 16 in flight", "requests/s", "set, depth 16, 16 conn"),
    ("setData/s, 16 × 128 in flight", "requests/s", "set, depth 128, 16 conn"),
    ("p99 at * getData/s", "latency p99, us", "one server: open loop, * get/s"),
    ("p99 at * setData/s", "latency p99, us", "one server: open loop, * set/s"),
    ("3 servers: p99 at * getData/s", "latency p99, us", "three servers: open loop, * get/s"),
    ("3 servers: p99 at * setData/s", "latency p99, us", "three servers: open loop, * set/s"),
    ("memory per znode, in use", "bytes per znode", "in use after restart"),
    ("memory per watch, in use", "bytes per watch", "in use"),
    ("memory of * idle sessions", "memory, MB", "resident for * idle sessions"),
    ("start with all znodes", "time, s", "start with all znodes"),
    ("open all sessions", "time, s", "open sessions"),
    ("one change, * watchers", "notifications of one change, ms", "1 znode x * watchers, last"),
    ("back after the leader is killed", "s without a write", "leader killed, median"),
    ("follower back by SNAP", "rejoin, s", "the whole tree (SNAP)"),
];

/// Groups and names of the memory plot.
const MEMORY: &[(&str, &str, &str)] = &[
    ("a znode of 100 bytes, resident", "bytes per znode", "resident after restart"),
    ("a znode of 100 bytes, in use", "bytes per znode", "in use after restart"),
    ("a watch, resident", "bytes per watch", "resident"),
    ("a watch, in use", "bytes per watch", "in use"),
    ("an idle session, resident", "bytes per session", "resident after idling"),
    ("an idle session, in use", "bytes per session", "in use after idling"),
];

/// The quantiles of a latency curve: label and group.
const QUANTILES: [(&str, &str); 6] = [
    ("p50", "latency p50, us"),
    ("p90", "latency p90, us"),
    ("p99", "latency p99, us"),
    ("p99.9", "latency p999, us"),
    ("p99.99", "latency p9999, us"),
    ("max", "latency max, us"),
];

/// All plots for which there are figures.
pub(crate) fn all(figures: &Figures) -> Vec<Plot> {
    let make = |(file, title): &(&'static str, &'static str)| {
        let servers = &figures.servers;
        let throughput = |patterns: &[&str]| {
            let groups: Vec<Group> = patterns
                .iter()
                .flat_map(|pattern| groups(figures, "requests/s", pattern))
                .collect();
            bars(title, servers, "", &groups)
        };
        let svg = match *file {
            "ratios.svg" => ratios_of(figures, title),
            "reads.svg" => throughput(&["get, *"]),
            "writes.svg" => throughput(&["set, *"]),
            "latency.svg" => latency(figures, title),
            "cores.svg" => throughput(&["1 core*", "2 cores*", "4 cores*", "8 cores*"]),
            "ensemble.svg" => throughput(&["three servers: *conn"]),
            _ => {
                let rows = MEMORY.iter().flat_map(|(label, group, name)| {
                    let named = |found: Group| Group { label: (*label).to_owned(), ..found };
                    groups(figures, group, name).map(named)
                });
                bars(title, servers, "", &rows.collect::<Vec<_>>())
            }
        };
        svg.map(|svg| Plot { file, title, svg })
    };
    NAMES.iter().filter_map(make).collect()
}

fn groups<'a>(
    figures: &'a Figures,
    group: &'a str,
    pattern: &'a str,
) -> impl Iterator<Item = Group> + 'a {
    figures.find(group, pattern).map(|(row, _)| Group {
        label: row.name.clone(),
        values: (0..figures.servers.len()).map(|server| row.of(server)).collect(),
    })
}

fn ratios_of(figures: &Figures, title: &str) -> Option<String> {
    // Java, or another server that took part.
    let other = figures.server(JAVA).or_else(|| (figures.servers.len() > 1).then_some(1))?;
    let rows: Vec<(String, Spread)> = RATIOS
        .iter()
        .flat_map(|(label, group, name)| {
            figures.find(group, name).filter_map(|(row, stands_for)| {
                Some((label.replace('*', stands_for), row.times_better(other)?))
            })
        })
        .collect();
    ratios(
        &format!("{title} {} is than {}", figures.servers[0], figures.servers[other]),
        &figures.servers,
        &rows,
    )
}

fn latency(figures: &Figures, title: &str) -> Option<String> {
    let mut panels = Vec::new();
    for place in ["one server", "three servers"] {
        for op in ["get", "set"] {
            let pattern = format!("{place}: open loop, * {op}/s");
            // The highest rate was measured last.
            let Some((name, rate)) = figures
                .find(QUANTILES[0].1, &pattern)
                .last()
                .map(|(row, rate)| (row.name.clone(), rate.to_owned()))
            else {
                continue;
            };
            let curve = |server: usize| {
                let at = |(_, group): &(&str, &str)| {
                    figures.find(group, &name).next().and_then(|(row, _)| row.of(server))
                };
                QUANTILES.iter().map(|quantile| at(quantile).map(|of| of.median)).collect()
            };
            panels.push(Panel {
                title: format!("{place}, {rate} {op}Data/s"),
                curves: (0..figures.servers.len()).map(curve).collect(),
            });
        }
    }
    let categories = QUANTILES.map(|(name, _)| name);
    curves(title, &figures.servers, " µs", &categories, &panels)
}

//! The tables of figures in Markdown: what is aimed at first, then everything by subject.

use super::figures::{Figures, Row, Spread, number};
use super::plots::Plot;

/// Which tables a page has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Page {
    /// All of them, in `docs`.
    Full,
    /// What matters most, at the root.
    Short,
}

/// What a figure should reach.
#[derive(Clone, Copy, Debug)]
enum Aim {
    /// So many times better than the other server.
    Times(f64),
    /// No more than this, whatever the other server does.
    AtMost(f64),
    /// Nothing: it is there for information.
    Open,
}

/// A figure that matters: what it is called (`*` is what the name's `*` stands for), where it is, what it should
/// reach, and whether the short page has it too.
struct Key {
    label: &'static str,
    group: &'static str,
    name: &'static str,
    aim: Aim,
    is_short: bool,
}

const fn key(
    label: &'static str,
    group: &'static str,
    name: &'static str,
    aim: Aim,
    is_short: bool,
) -> Key {
    Key { label, group, name, aim, is_short }
}

/// The figures that matter, in the order of the table.
const KEYS: &[Key] = &[
    key("getData/s, one at a time", "requests/s", "get, depth 1, 1 conn", Aim::Open, true),
    key(
        "getData/s, 64 connections × 128",
        "requests/s",
        "get, depth 128, 64 conn",
        Aim::Open,
        true,
    ),
    key("durable setData/s, one at a time", "requests/s", "set, depth 1, 1 conn", Aim::Open, true),
    key(
        "durable setData/s, 64 connections × 128",
        "requests/s",
        "set, depth 128, 64 conn",
        Aim::Open,
        true,
    ),
    key(
        "p99 at * getData/s",
        "latency p99, us",
        "one server: open loop, * get/s",
        Aim::Times(4.0),
        true,
    ),
    key(
        "p99 at * setData/s",
        "latency p99, us",
        "one server: open loop, * set/s",
        Aim::Times(4.0),
        true,
    ),
    key(
        "three servers: p99 at * getData/s",
        "latency p99, us",
        "three servers: open loop, * get/s",
        Aim::Times(2.0),
        true,
    ),
    key(
        "three servers: p99 at * setData/s",
        "latency p99, us",
        "three servers: open loop, * set/s",
        Aim::Times(2.0),
        true,
    ),
    key("one setData at a time", "one at a time, us", "setData, p50", Aim::Open, false),
    key(
        "… as times of fdatasync + round trip",
        "times fdatasync + round trip",
        "*",
        Aim::Open,
        false,
    ),
    key(
        "server CPU per getData, 16 × 16",
        "server CPU, us/request",
        "get, depth 16, 16 conn",
        Aim::Open,
        false,
    ),
    key(
        "server CPU per setData, 16 × 16",
        "server CPU, us/request",
        "set, depth 16, 16 conn",
        Aim::Open,
        false,
    ),
    key(
        "memory per znode of 100 bytes",
        "bytes per znode",
        "resident after restart",
        Aim::AtMost(250.0),
        true,
    ),
    key("memory per watch", "bytes per watch", "resident", Aim::AtMost(40.0), true),
    key(
        "memory of * idle sessions",
        "memory, MB",
        "resident for * idle sessions",
        Aim::AtMost(40.0),
        true,
    ),
    key(
        "memory during a snapshot, above before",
        "% of memory",
        "peak of a snapshot, above before",
        Aim::AtMost(10.0),
        false,
    ),
    key(
        "longest read during snapshots",
        "longest request, ms",
        "read while a snapshot is written",
        Aim::AtMost(5.0),
        true,
    ),
    key(
        "longest write during snapshots",
        "longest request, ms",
        "write while a snapshot is written",
        Aim::AtMost(5.0),
        true,
    ),
    key("start with all znodes", "time, s", "start with all znodes", Aim::Times(10.0), true),
    key(
        "one change seen by * watchers",
        "notifications of one change, ms",
        "1 znode x * watchers, last",
        Aim::Times(10.0),
        true,
    ),
    key("open all sessions", "time, s", "open sessions", Aim::Times(10.0), true),
    key(
        "time without a write, leader killed",
        "s without a write",
        "leader killed, median",
        Aim::Open,
        true,
    ),
    key("follower back by SNAP", "rejoin, s", "the whole tree (SNAP)", Aim::Open, false),
    key("… tree over the wire", "MB/s", "SNAP, beyond what an empty tree takes", Aim::Open, false),
    key(
        "… the disk alone",
        "MB/s",
        "without a server: disk, write and fdatasync",
        Aim::Open,
        false,
    ),
    key("… loopback alone", "MB/s", "without a server: loopback", Aim::Open, false),
];

/// A subject of the full page: its headline, the plot that belongs to it, and the rows it has by group and pattern.
struct Subject {
    title: &'static str,
    plots: &'static [&'static str],
    rows: &'static [(&'static str, &'static str)],
}

const SUBJECTS: &[Subject] = &[
    Subject {
        title: "Throughput, closed loop",
        plots: &["reads.svg", "writes.svg"],
        rows: &[("requests/s", "get, *"), ("requests/s", "set, *")],
    },
    Subject {
        title: "Latency, closed loop: p99",
        plots: &[],
        rows: &[("latency p99, us", "get, *"), ("latency p99, us", "set, *")],
    },
    Subject {
        title: "CPU per request: server, then generator",
        plots: &[],
        rows: &[
            ("server CPU, us/request", "get, *"),
            ("server CPU, us/request", "set, *"),
            ("generator CPU, us/request", "get, *"),
            ("generator CPU, us/request", "set, *"),
        ],
    },
    Subject {
        title: "Latency at an equal load: p50, p99 and p99.9",
        plots: &["latency.svg"],
        rows: &[
            ("latency p50, us", "one server: *"),
            ("latency p99, us", "one server: *"),
            ("latency p999, us", "one server: *"),
            ("latency p50, us", "three servers: open loop, *"),
            ("latency p99, us", "three servers: open loop, *"),
            ("latency p999, us", "three servers: open loop, *"),
        ],
    },
    Subject {
        title: "One request at a time, and what disk and network take alone",
        plots: &[],
        rows: &[("one at a time, us", "*"), ("times fdatasync + round trip", "*")],
    },
    Subject {
        title: "Growth with cores",
        plots: &["cores.svg"],
        rows: &[
            ("requests/s", "1 core*"),
            ("requests/s", "2 cores*"),
            ("requests per second of server CPU", "*"),
        ],
    },
    Subject {
        title: "Three servers: requests per second",
        plots: &["ensemble.svg"],
        rows: &[
            ("requests/s", "three servers: *conn"),
            ("server CPU, us/request", "three servers: *conn"),
        ],
    },
    Subject {
        title: "Memory and disk",
        plots: &["memory.svg"],
        rows: &[
            ("bytes per znode", "*"),
            ("bytes per watch", "*"),
            ("bytes per session", "*"),
            ("memory, MB", "*"),
            ("% of memory", "*"),
            ("disk, MB", "*"),
        ],
    },
    Subject {
        title: "Recovery and bulk",
        plots: &[],
        rows: &[
            ("requests/s", "create"),
            ("requests/s", "exists with watch"),
            ("time, s", "*"),
            ("longest request, ms", "*"),
            ("notifications of one change, ms", "*"),
            ("server CPU, % of a core", "*"),
            ("sessions", "*"),
            ("s without a write", "*"),
            ("s until sessions are answered", "*"),
            ("rejoin, s", "*"),
            ("MB/s", "*"),
        ],
    },
];

/// What stands between the marks of a page.
pub(crate) fn render(figures: &Figures, plots: &[Plot], page: Page) -> String {
    let mut text = String::new();
    let plot = |text: &mut String, file: &str| {
        if let Some(plot) = plots.iter().find(|plot| plot.file == file) {
            let dir = if page == Page::Short { "docs/plots" } else { "plots" };
            text.push_str(&format!("![{}]({dir}/{file})\n\n", plot.title));
        }
    };
    if page == Page::Full {
        let rounds = figures.rows.iter().filter_map(|row| row.of(0)).map(|of| of.count).max();
        text.push_str(&format!(
            "Medians of {} rounds, the servers in turn; the ratio is above 1 where {} is better, with its spread over the rounds.\n\n",
            rounds.unwrap_or(0),
            figures.servers[0]
        ));
        for line in &figures.about {
            text.push_str(&format!("* {line}\n"));
        }
        text.push('\n');
    }
    plot(&mut text, "ratios.svg");
    text.push_str(&keys(figures, page));
    if page == Page::Short {
        return text;
    }
    for subject in SUBJECTS {
        let rows: Vec<&Row> = subject
            .rows
            .iter()
            .flat_map(|(group, pattern)| figures.find(group, pattern).map(|(row, _)| row))
            .collect();
        if rows.is_empty() {
            continue;
        }
        text.push_str(&format!("### {}\n\n", subject.title));
        for file in subject.plots {
            plot(&mut text, file);
        }
        text.push_str(&by_group(figures, &rows));
    }
    if !figures.notes.is_empty() {
        text.push_str("### What was noted\n\n");
        for note in &figures.notes {
            text.push_str(&format!("* {}\n", note.replace('\n', "; ")));
        }
    }
    text
}

/// The table of what matters.
fn keys(figures: &Figures, page: Page) -> String {
    let mut heads = vec!["figure".to_owned()];
    heads.extend(figures.servers.iter().cloned());
    heads.extend(
        figures.servers.iter().skip(1).map(|other| format!("{} : {other}", figures.servers[0])),
    );
    if page == Page::Full {
        heads.extend(["aim".to_owned(), "reached".to_owned()]);
    }
    let mut lines = Vec::new();
    for key in KEYS.iter().filter(|key| page == Page::Full || key.is_short) {
        for (row, stands_for) in figures.find(key.group, key.name) {
            let mut cells = vec![key.label.replace('*', stands_for)];
            cells.extend(cells_of(figures, row, &format!(" {}", row.unit())));
            if page == Page::Full {
                cells.extend(verdict(row, key.aim));
            }
            lines.push(cells);
        }
    }
    table(&heads, &lines)
}

fn verdict(row: &Row, aim: Aim) -> [String; 2] {
    let word = |is_reached: Option<bool>| match is_reached {
        Some(true) => "yes".to_owned(),
        Some(false) => "no".to_owned(),
        None => "–".to_owned(),
    };
    match aim {
        Aim::Times(times) => {
            let reached = row.times_better(1).map(|ratio| ratio.median >= times);
            [format!("at least {times} times"), word(reached)]
        }
        Aim::AtMost(most) => {
            let reached = row.of(0).map(|of| of.median <= most);
            [format!("at most {most}"), word(reached)]
        }
        Aim::Open => ["–".to_owned(), "–".to_owned()],
    }
}

/// A table of rows, with a line that names each group.
fn by_group(figures: &Figures, rows: &[&Row]) -> String {
    let mut text = String::new();
    let mut at = 0;
    while at < rows.len() {
        let group = &rows[at].group;
        let end =
            rows[at..].iter().position(|row| row.group != *group).map_or(rows.len(), |n| at + n);
        let mut heads = vec![titled(group)];
        heads.extend(figures.servers.iter().cloned());
        heads.extend(
            figures.servers.iter().skip(1).map(|other| format!("{} : {other}", figures.servers[0])),
        );
        let line = |row: &&Row| {
            let mut cells = vec![row.name.clone()];
            cells.extend(cells_of(figures, row, ""));
            cells
        };
        text.push_str(&table(&heads, &rows[at..end].iter().map(line).collect::<Vec<_>>()));
        at = end;
    }
    text
}

/// A group's name with the sign of its unit.
fn titled(group: &str) -> String {
    match group.split_once(", us") {
        Some((what, rest)) => format!("{what}, µs{rest}"),
        None => group.to_owned(),
    }
}

/// Medians of all servers, and how many times better the first is than each other.
fn cells_of(figures: &Figures, row: &Row, unit: &str) -> Vec<String> {
    let value = |of: Option<Spread>| match of {
        Some(of) => format!("{}{unit}", number(of.median)).trim_end().to_owned(),
        None => "–".to_owned(),
    };
    let ratio = |of: Option<Spread>| match of {
        Some(Spread { median, count: 1, .. }) => number(median),
        Some(of) => format!("{} ({} to {})", number(of.median), number(of.least), number(of.most)),
        None => "–".to_owned(),
    };
    let servers = 0..figures.servers.len();
    let values = servers.clone().map(|server| value(row.of(server)));
    values.chain(servers.skip(1).map(|other| ratio(row.times_better(other)))).collect()
}

fn table(heads: &[String], lines: &[Vec<String>]) -> String {
    let mut text = format!("| {} |\n|{}\n", heads.join(" | "), "---|".repeat(heads.len()));
    for cells in lines {
        text.push_str(&format!("| {} |\n", cells.join(" | ")));
    }
    text.push('\n');
    text
}

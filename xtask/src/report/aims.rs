//! The aims: the important figures, what each should reach, and whether it did.

use zebu_figures::number;

use super::figures::{Figures, Row};

/// The server that most aims compare with.
pub(crate) const JAVA: &str = "java";
/// The server that only answers.
const ECHO: &str = "echo";

/// The aim of a figure.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Aim {
    /// At least this many times better than Java's.
    Times(f64),
    /// At least this share of the echo server's figure.
    OfEcho(f64),
    /// At most this value.
    AtMost(f64),
    /// No aim: for information only.
    Open,
}

/// An important figure.
pub(crate) struct Key {
    /// Its label. `*` in the label stands for the text that matches `*` in the name.
    pub(crate) label: &'static str,
    /// The suite that measures it.
    pub(crate) suite: &'static str,
    pub(crate) group: &'static str,
    /// Its name in the group. One `*` matches any text.
    pub(crate) name: &'static str,
    pub(crate) aim: Aim,
    /// Whether the short page shows it.
    pub(crate) is_short: bool,
}

const fn key(
    label: &'static str,
    suite: &'static str,
    (group, name): (&'static str, &'static str),
    aim: Aim,
) -> Key {
    Key { label, suite, group, name, aim, is_short: false }
}

impl Key {
    const fn short(self) -> Self {
        Self { is_short: true, ..self }
    }
}

const OPS: &str = "requests/s";
const P99: &str = "latency p99, us";

/// A table of important figures.
pub(crate) struct Area {
    pub(crate) title: &'static str,
    pub(crate) keys: &'static [Key],
}

/// All aims.
#[rustfmt::skip] // a table: a line for each figure
pub(crate) const AREAS: &[Area] = &[
    Area { title: "Reads", keys: &[
        key("getData/s, one at a time, 1 connection", "pipeline", (OPS, "get, depth 1, 1 conn"), Aim::Open).short(),
        key("getData/s, one at a time, 16 connections", "pipeline", (OPS, "get, depth 1, 16 conn"), Aim::OfEcho(0.8)).short(),
        key("getData/s, depth 16, 1 connection", "pipeline", (OPS, "get, depth 16, 1 conn"), Aim::Times(12.0)),
        key("getData/s, depth 16, 16 connections", "pipeline", (OPS, "get, depth 16, 16 conn"), Aim::Times(12.0)).short(),
        key("getData/s, depth 128, 1 connection", "pipeline", (OPS, "get, depth 128, 1 conn"), Aim::Times(12.0)),
        key("getData/s, depth 128, 16 connections", "pipeline", (OPS, "get, depth 128, 16 conn"), Aim::Times(12.0)).short(),
        key("p99 at * getData/s", "latency", (P99, "one server: open loop, * get/s"), Aim::Times(4.0)).short(),
        key("server CPU per getData, 16 × 16", "pipeline", ("server CPU, us/request", "get, depth 16, 16 conn"), Aim::Open),
    ] },
    Area { title: "Durable writes", keys: &[
        key("setData/s, one at a time, 1 connection", "pipeline", (OPS, "set, depth 1, 1 conn"), Aim::Open).short(),
        key("one setData at a time", "latency", ("one at a time, us", "setData, p50"), Aim::Open),
        key("… as times of fdatasync + round trip", "latency", ("times fdatasync + round trip", "*"), Aim::AtMost(1.15)),
        key("setData/s, one at a time, 16 connections", "pipeline", (OPS, "set, depth 1, 16 conn"), Aim::Open),
        key("setData/s, depth 16, 1 connection", "pipeline", (OPS, "set, depth 16, 1 conn"), Aim::Times(8.0)),
        key("setData/s, depth 16, 16 connections", "pipeline", (OPS, "set, depth 16, 16 conn"), Aim::Times(8.0)).short(),
        key("setData/s, depth 128, 1 connection", "pipeline", (OPS, "set, depth 128, 1 conn"), Aim::Times(8.0)),
        key("setData/s, depth 128, 16 connections", "pipeline", (OPS, "set, depth 128, 16 conn"), Aim::Times(8.0)).short(),
        key("p99 at * setData/s", "latency", (P99, "one server: open loop, * set/s"), Aim::Open).short(),
        key("server CPU per setData, 16 × 16", "pipeline", ("server CPU, us/request", "set, depth 16, 16 conn"), Aim::Open),
    ] },
    Area { title: "Three servers", keys: &[
        key("setData/s, depth 128, * connections", "ensemble", (OPS, "three servers: writes, depth 128, * conn"), Aim::Times(5.0)).short(),
        key("… their p99", "ensemble", (P99, "three servers: writes, depth 128, * conn"), Aim::Times(2.0)),
        key("getData/s, depth 128, * connections", "ensemble", (OPS, "three servers: reads, depth 128, * conn"), Aim::Times(5.0)).short(),
        key("p99 at * getData/s", "latency", (P99, "three servers: open loop, * get/s"), Aim::Times(2.0)),
        key("p99 at * setData/s", "latency", (P99, "three servers: open loop, * set/s"), Aim::Times(2.0)).short(),
        key("time without a write, leader killed", "failover", ("s without a write", "leader killed, median"), Aim::Times(2.0)).short(),
        key("time without a write, leader paused", "failover", ("s without a write", "leader paused, median"), Aim::Times(2.0)),
        key("time without a write, leader asked to stop", "failover", ("s without a write", "leader asked to stop, median"), Aim::Open),
        key("time without a write, rolling restart, longest", "failover", ("s without a write", "rolling restart, longest"), Aim::AtMost(0.05)),
        key("sessions answered after the leader's death", "moving", ("s until sessions are answered", "the last"), Aim::Open),
        key("follower back by DIFF", "rejoin", ("rejoin, s", "few transactions (DIFF)"), Aim::Open),
        key("follower back by SNAP", "rejoin", ("rejoin, s", "the whole tree (SNAP)"), Aim::Open).short(),
        key("… the tree, as times of the slower of disk and wire", "rejoin", ("times the slower of disk and wire", "SNAP"), Aim::AtMost(1.0)),
    ] },
    Area { title: "Memory", keys: &[
        key("per znode of 100 bytes, all included", "znodes", ("bytes per znode", "resident after restart"), Aim::AtMost(250.0)).short(),
        key("per watch", "watches", ("bytes per watch", "resident"), Aim::AtMost(40.0)).short(),
        key("of * idle sessions", "sessions", ("memory, MB", "resident for * idle sessions"), Aim::AtMost(40.0)).short(),
        key("during a snapshot, above before", "znodes", ("% of memory", "peak of a snapshot, above before"), Aim::AtMost(10.0)),
    ] },
    Area { title: "Recovery and bulk", keys: &[
        key("start with all znodes", "znodes", ("time, s", "start with all znodes"), Aim::Times(10.0)).short(),
        key("longest read while a snapshot is written", "znodes", ("longest request, ms", "read while a snapshot is written"), Aim::AtMost(5.0)),
        key("longest write while a snapshot is written", "znodes", ("longest request, ms", "write while a snapshot is written"), Aim::AtMost(5.0)),
        key("longest write otherwise", "znodes", ("longest request, ms", "write otherwise"), Aim::Open),
        key("one change seen by * watchers", "watches", ("notifications of one change, ms", "1 znode x * watchers, last"), Aim::Times(10.0)).short(),
        key("all sessions opened", "sessions", ("time, s", "open sessions"), Aim::Times(10.0)).short(),
    ] },
];

/// The aim as text, and whether it was met.
pub(crate) fn verdict(figures: &Figures, row: &Row, aim: Aim) -> [String; 2] {
    let against = |name: &str| figures.server(name).and_then(|server| row.times_better(server));
    // The reached share of the aim.
    let share = |reached: f64, wanted: f64| match reached >= wanted {
        true => "met".to_owned(),
        false => format!("missed by {} %", number((1.0 - reached / wanted) * 100.0)),
    };
    let unknown = || "–".to_owned();
    match aim {
        Aim::Times(times) => {
            let reached = against(JAVA).map(|of| share(of.median, times));
            [format!("{times} times {JAVA}'s"), reached.unwrap_or_else(unknown)]
        }
        Aim::OfEcho(wanted) => {
            let reached = against(ECHO).map(|of| {
                format!("{} ({} of {ECHO}'s)", share(of.median, wanted), number(of.median))
            });
            [format!("{wanted} of {ECHO}'s"), reached.unwrap_or_else(unknown)]
        }
        Aim::AtMost(most) => {
            let unit = row.unit();
            let reached = row.of(0).map(|of| match of.median <= most {
                true => "met".to_owned(),
                false => {
                    format!("missed by {} {unit}", number(of.median - most)).trim_end().to_owned()
                }
            });
            let aim = format!("at most {most} {unit}").trim_end().to_owned();
            [aim, reached.unwrap_or_else(unknown)]
        }
        Aim::Open => [unknown(), unknown()],
    }
}

//! Everything that was measured, by subject.

/// A subject of the full page: its heading, its suite, its plots, and its rows by group and
/// pattern.
pub(crate) struct Subject {
    pub(crate) title: &'static str,
    pub(crate) suite: &'static str,
    pub(crate) plots: &'static [&'static str],
    pub(crate) rows: &'static [(&'static str, &'static str)],
}

pub(crate) const SUBJECTS: &[Subject] = &[
    Subject {
        title: "Throughput, closed loop",
        suite: "pipeline",
        plots: &["reads.svg", "writes.svg"],
        rows: &[("requests/s", "get, *"), ("requests/s", "set, *")],
    },
    Subject {
        title: "Latency, closed loop: p99",
        suite: "pipeline",
        plots: &[],
        rows: &[("latency p99, us", "get, *"), ("latency p99, us", "set, *")],
    },
    Subject {
        title: "CPU per request: server, then generator",
        suite: "pipeline",
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
        suite: "latency",
        plots: &["latency.svg"],
        rows: &[
            ("latency p50, us", "one server: *"),
            ("latency p50, us", "three servers: open loop, *"),
            ("latency p99, us", "one server: *"),
            ("latency p99, us", "three servers: open loop, *"),
            ("latency p999, us", "one server: *"),
            ("latency p999, us", "three servers: open loop, *"),
        ],
    },
    Subject {
        title: "One request at a time, and what disk and network take alone",
        suite: "latency",
        plots: &[],
        rows: &[("one at a time, us", "*"), ("times fdatasync + round trip", "*")],
    },
    Subject {
        title: "Growth with cores",
        suite: "cores",
        plots: &["cores.svg"],
        rows: &[
            ("requests/s", "1 core*"),
            ("requests/s", "2 cores*"),
            ("requests per second of server CPU", "*"),
        ],
    },
    Subject {
        title: "Three servers: requests per second",
        suite: "ensemble",
        plots: &["ensemble.svg"],
        rows: &[
            ("requests/s", "three servers: *conn"),
            ("latency p99, us", "three servers: *conn"),
            ("server CPU, us/request", "three servers: *conn"),
            ("memory, MB", "three servers: resident"),
        ],
    },
    Subject {
        title: "Three servers: the leader is killed or paused",
        suite: "failover",
        plots: &[],
        rows: &[("s without a write", "*")],
    },
    Subject {
        title: "Three servers: sessions whose leader dies",
        suite: "moving",
        plots: &[],
        rows: &[("s until sessions are answered", "*"), ("sessions", "kept when the leader dies")],
    },
    Subject {
        title: "Three servers: coming back",
        suite: "rejoin",
        plots: &[],
        rows: &[
            ("rejoin, s", "*"),
            ("MB/s", "*"),
            ("times the slower of disk and wire", "*"),
            ("disk, MB", "snapshot of SNAP"),
        ],
    },
    Subject {
        title: "Many znodes: memory, disk, start",
        suite: "znodes",
        plots: &["memory.svg"],
        rows: &[
            ("bytes per znode", "*"),
            ("memory, MB", "resident after load"),
            ("memory, MB", "in use after load"),
            ("memory, MB", "peak of load"),
            ("memory, MB", "resident after restart"),
            ("memory, MB", "in use after restart"),
            ("memory, MB", "peak of restart"),
            ("disk, MB", "after *"),
            ("requests/s", "create"),
            ("time, s", "start *"),
            ("time, s", "stop after load"),
        ],
    },
    Subject {
        title: "Snapshots of many znodes",
        suite: "znodes",
        plots: &[],
        rows: &[
            ("time, s", "write snapshot*"),
            ("disk, MB", "newest snapshot"),
            ("longest request, ms", "*"),
            ("memory, MB", "before a snapshot under load"),
            ("memory, MB", "peak of a snapshot under load"),
            ("% of memory", "*"),
        ],
    },
    Subject {
        title: "Watches",
        suite: "watches",
        plots: &[],
        rows: &[
            ("requests/s", "exists with watch"),
            ("bytes per watch", "*"),
            ("notifications of one change, ms", "*"),
        ],
    },
    Subject {
        title: "Sessions",
        suite: "sessions",
        plots: &[],
        rows: &[
            ("time, s", "open sessions"),
            ("time, s", "close sessions"),
            ("sessions", "alive at the end"),
            ("memory, MB", "resident for *"),
            ("bytes per session", "*"),
            ("server CPU, us/request", "open session"),
            ("server CPU, % of a core", "*"),
        ],
    },
    Subject {
        title: "Memory after all that load",
        suite: "pipeline",
        plots: &[],
        rows: &[("memory, MB", "resident after pipeline"), ("memory, MB", "peak of pipeline")],
    },
];

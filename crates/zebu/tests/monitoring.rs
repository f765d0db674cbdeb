//! The alert rules and the dashboard in `deploy` use only metrics that a server publishes.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::fs;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use serde_json::Value;
use zebu_testkit::ports;

/// Far longer than any step should take.
const PATIENCE: Duration = Duration::from_secs(60);

fn deploy(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../deploy").join(name)
}

/// Metrics that Prometheus itself adds.
const BY_PROMETHEUS: [&str; 1] = ["up"];

/// Keywords of the query language that may stand in the place of a metric.
const WORDS: [&str; 9] =
    ["and", "or", "unless", "on", "by", "ignoring", "without", "bool", "offset"];

/// The metrics in an expression.
fn metrics(expression: &str) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    let mut rest = expression;
    while let Some(start) = rest.find(|c: char| c.is_ascii_alphabetic() || "_{[\"".contains(c)) {
        let (first, after) = (rest.as_bytes()[start], &rest[start..]);
        if let Some(close) = match first {
            b'{' => Some('}'),
            b'[' => Some(']'),
            b'"' => Some('"'),
            _ => None,
        } {
            let length = after[1..].find(close).expect("it is closed") + 2;
            rest = &after[length..];
            continue;
        }
        let end = after.find(|c: char| !c.is_ascii_alphanumeric() && c != '_');
        let (word, behind) = after.split_at(end.unwrap_or(after.len()));
        let next = behind.trim_start();
        let is_call = next.starts_with('(');
        rest = behind;
        if WORDS.contains(&word) && is_call {
            // A list of labels follows.
            rest = &next[next.find(')').expect("it is closed")..];
        } else if !is_call && !WORDS.contains(&word) {
            // The `by` of an aggregation may precede the aggregated expression.
            let aggregates = next.starts_with("by ") || next.starts_with("by(");
            if !aggregates {
                found.insert(word.to_owned());
            }
        }
    }
    found
}

#[test]
fn names_are_told_from_functions_labels_and_durations() {
    let of = |text| metrics(text).into_iter().collect::<Vec<_>>();
    assert_eq!(of("rate(a_sum{job=\"b\"}[$__rate_interval]) / rate(c[5m]) > 0.5"), ["a_sum", "c"]);
    assert_eq!(of("count by (job) (q) unless on (job) count by (job) (l)"), ["l", "q"]);
    assert_eq!(of("count(l{job=\"$job\"}) or vector(0)"), ["l"]);
    assert_eq!(of("s <= floor(q / 2) and q > 2"), ["q", "s"]);
}

/// The expressions of the rules, each with its place.
fn rules() -> BTreeMap<String, String> {
    let text = fs::read_to_string(deploy("prometheus/zookeeper.rules.yml")).unwrap();
    let mut rules = BTreeMap::new();
    let mut name = String::new();
    for line in text.lines() {
        if let Some(alert) = line.trim().strip_prefix("- alert: ") {
            name = alert.to_owned();
        } else if let Some(expression) = line.trim().strip_prefix("expr: ") {
            rules.insert(name.clone(), expression.to_owned());
        }
    }
    assert_eq!(
        rules.len(),
        text.matches("- alert:").count(),
        "each rule has its expression in one line"
    );
    rules
}

fn dashboard() -> Value {
    let text = fs::read_to_string(deploy("grafana/zookeeper.json")).unwrap();
    serde_json::from_str(&text).expect("the dashboard is JSON")
}

fn panels(dashboard: &Value) -> impl Iterator<Item = &Value> {
    dashboard["panels"].as_array().expect("a list").iter()
}

fn shown(dashboard: &Value) -> BTreeMap<String, String> {
    let mut shown = BTreeMap::new();
    for panel in panels(dashboard).filter(|panel| panel["type"] != "row") {
        for target in panel["targets"].as_array().expect("a list") {
            let at = format!("{} {}", panel["title"], target["refId"]);
            shown.insert(at, target["expr"].as_str().expect("text").to_owned());
        }
    }
    shown
}

/// A server of an ensemble of two. Its leader also publishes metrics that standalone servers lack,
/// and those about its follower.
struct Member {
    child: Child,
    page: u16,
    folder: tempfile::TempDir,
}

impl Member {
    fn pair() -> [Self; 2] {
        let both: [[u16; 4]; 2] = [ports::free(), ports::free()];
        let mut list = String::new();
        for (id, [client, quorum, election, _]) in (1..).zip(both) {
            writeln!(list, "server.{id}=127.0.0.1:{quorum}:{election};127.0.0.1:{client}").unwrap();
        }
        [1, 2].map(|id: usize| Self::start(id, both[id - 1][3], &list))
    }

    fn start(id: usize, page: u16, list: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let lines = format!(
            "dataDir={}\ninitLimit=10\nsyncLimit=5\nadmin.enableServer=false\n{list}\
             metricsProvider.className=org.apache.zookeeper.metrics.prometheus.PrometheusMetricsProvider\n\
             metricsProvider.httpHost=127.0.0.1\nmetricsProvider.httpPort={page}\n",
            folder.path().join("data").display(),
        );
        fs::create_dir(folder.path().join("data")).unwrap();
        fs::write(folder.path().join("data/myid"), format!("{id}\n")).unwrap();
        fs::write(folder.path().join("zoo.cfg"), lines).unwrap();
        let log = fs::File::create(folder.path().join("log")).unwrap();
        let mut command = Command::new(env!("CARGO_BIN_EXE_zebu"));
        command.arg("server").arg(folder.path().join("zoo.cfg")).env_clear();
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(log);
        let mut child = command.spawn().unwrap();
        let mut greeting = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut greeting).unwrap();
        let member = Self { child, page, folder };
        assert!(greeting.starts_with("listening on "), "{}", member.log());
        member
    }

    fn log(&self) -> String {
        fs::read_to_string(self.folder.path().join("log")).unwrap()
    }

    fn page(&self) -> String {
        let mut stream = TcpStream::connect(("127.0.0.1", self.page)).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream.write_all(b"GET /metrics HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n").unwrap();
        let mut page = String::new();
        stream.read_to_string(&mut page).unwrap();
        page
    }
}

impl Drop for Member {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The page of a server that leads another one.
fn page_of_a_leader() -> String {
    let members = Member::pair();
    for _ in 0..600 {
        for page in members.iter().map(Member::page) {
            if page.contains("\nleader_uptime") && page.contains("\nzebu_follower_") {
                return page;
            }
        }
        std::thread::sleep(Duration::from_millis(100));
    }
    panic!("nobody leads: {}", members.iter().map(Member::log).collect::<String>())
}

#[test]
fn rules_and_dashboard_name_what_a_leader_publishes() {
    let page = page_of_a_leader();
    let published: BTreeSet<&str> = page
        .lines()
        .filter(|line| !line.starts_with('#'))
        .filter_map(|line| line.split(['{', ' ']).next())
        .collect();
    let mut count = 0;
    for (at, expression) in rules().into_iter().chain(shown(&dashboard())) {
        let names = metrics(&expression);
        assert!(!names.is_empty(), "{at}: {expression}");
        for name in names {
            let is_known = published.contains(&*name) || BY_PROMETHEUS.contains(&&*name);
            assert!(is_known, "{at}: no server publishes {name}");
            count += 1;
        }
    }
    assert!(count > 60, "{count}");
}

#[test]
fn panels_of_the_dashboard_do_not_overlap_and_have_their_own_ids() {
    let dashboard = dashboard();
    let (mut ids, mut taken) = (BTreeSet::new(), BTreeSet::new());
    for panel in panels(&dashboard) {
        let title = &panel["title"];
        assert!(ids.insert(panel["id"].as_u64().unwrap()), "{title}");
        let [x, y, width, height] =
            ["x", "y", "w", "h"].map(|key| panel["gridPos"][key].as_u64().unwrap());
        assert!(x + width <= 24, "{title}");
        for cell in (y..y + height).flat_map(|y| (x..x + width).map(move |x| (x, y))) {
            assert!(taken.insert(cell), "{title} lies over another panel");
        }
    }
}

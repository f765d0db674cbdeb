//! A real Prometheus scrapes servers of the original and of Zebu. Everything that dashboards and rules ask for is asked
//! over its query API.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail, ensure};
use serde_json::Value;
use tempfile::TempDir;
use zebu_interop::ensemble::{Ensemble, options};
use zebu_interop::http::get;
use zebu_interop::network::Network;
use zebu_interop::raw::Session;
use zebu_interop::run::Program;
use zebu_interop::server::Kind::{self, Java395, Zebu};
use zebu_interop::server::{PATIENCE, free_port};

/// Panels of dashboards of the community, as expressions over the original's names: those that need no metrics of a JVM.
const DASHBOARDS: [&str; 22] = [
    "sum by (job) (znode_count)",
    "sum(watch_count)",
    "sum(ephemerals_count)",
    "approximate_data_size / 1024",
    "num_alive_connections",
    "outstanding_requests",
    "rate(packets_received[1m])",
    "irate(packets_sent[1m])",
    "avg_latency",
    "max_latency",
    "min_latency",
    "open_file_descriptor_count / max_file_descriptor_count * 100",
    "increase(election_time_count[5m])",
    "election_time_sum",
    "fsynctime{quantile=\"0.5\"}",
    "rate(fsynctime_sum[1m])",
    "readlatency{quantile=\"0.99\"}",
    "updatelatency{quantile=\"0.9\"}",
    "snapshottime_sum",
    "rate(commit_count[1m])",
    "process_resident_memory_bytes",
    "rate(process_cpu_seconds_total[1m])",
];

/// An ensemble whose members publish at these ports.
fn ensemble(kind: Kind) -> Result<(Ensemble, Vec<u16>)> {
    let ports: Vec<u16> = (0..3).map(|_| free_port()).collect();
    let class = "org.apache.zookeeper.metrics.prometheus.PrometheusMetricsProvider";
    let options = |index: usize| {
        options()
            .config("metricsProvider.className", class)
            .config("metricsProvider.httpHost", "127.0.0.1")
            .config("metricsProvider.httpPort", ports[index])
    };
    let ensemble = Ensemble::prepare_each(Network::loopback(3), &[kind; 3], 0, &options)?;
    let mut ensemble = ensemble.started()?;
    ensemble.wait_for_all()?;
    let mut session = Session::open(ensemble.addresses()[0], 60_000)?;
    for number in 0..20 {
        session.create(&format!("/n{number}"), b"data", 0)?;
    }
    Ok((ensemble, ports))
}

fn deploy(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../deploy").join(name)
}

/// A Prometheus server with the rules of `deploy`.
struct Prometheus {
    port: u16,
    program: Program,
    _folder: TempDir,
}

impl Prometheus {
    fn start(jobs: &[(&str, &[u16])]) -> Result<Self> {
        let folder = tempfile::tempdir()?;
        let rules = deploy("prometheus/zookeeper.rules.yml").canonicalize()?;
        let mut text = format!(
            "global:\n  scrape_interval: 1s\n  evaluation_interval: 1s\nrule_files: [{rules:?}]\nscrape_configs:\n"
        );
        for (job, ports) in jobs {
            let targets: Vec<String> = ports.iter().map(|at| format!("127.0.0.1:{at}")).collect();
            writeln!(text, "  - job_name: {job}\n    static_configs: [{{targets: {targets:?}}}]")?;
        }
        let configuration = folder.path().join("prometheus.yml");
        fs::write(&configuration, text)?;
        let port = free_port();
        let mut command = Command::new("prometheus");
        command
            .arg(format!("--config.file={}", configuration.display()))
            .arg(format!("--storage.tsdb.path={}", folder.path().join("data").display()))
            .arg(format!("--web.listen-address=127.0.0.1:{port}"));
        let program = Program::start(&mut command).context("Debian's package prometheus")?;
        program.wait_for(PATIENCE, |text| text.contains("Server is ready"))?;
        Ok(Self { port, program, _folder: folder })
    }

    fn get(&self, path: &str) -> Result<Value> {
        let answer = get(self.port, path)?;
        let json = answer.json()?;
        ensure!(json["status"] == "success", "{path}: {json}");
        Ok(json["data"].clone())
    }

    /// The series that an expression gives now.
    fn query(&self, expression: &str) -> Result<Vec<Value>> {
        let is_plain = |it: u8| it.is_ascii_alphanumeric() || b"_-.".contains(&it);
        let escaped = expression.bytes().fold(String::new(), |mut text, it| {
            // Writing to a string cannot fail.
            let _ = match is_plain(it) {
                true => write!(text, "{}", char::from(it)),
                false => write!(text, "%{it:02X}"),
            };
            text
        });
        let data = self.get(&format!("/api/v1/query?query={escaped}"))?;
        Ok(data["result"].as_array().cloned().unwrap_or_default())
    }

    /// Waits until an expression gives something.
    fn query_until_some(&self, expression: &str) -> Result<Vec<Value>> {
        self.query_until(expression, |found| !found.is_empty())
    }

    /// Waits until the series that an expression gives are accepted.
    fn query_until(
        &self,
        expression: &str,
        accepts: impl Fn(&[Value]) -> bool,
    ) -> Result<Vec<Value>> {
        let start = Instant::now();
        loop {
            let found = self.query(expression)?;
            if accepts(&found) {
                return Ok(found);
            }
            if start.elapsed() > PATIENCE {
                bail!("{expression}: {found:?}\n{}", self.program.text()?);
            }
            std::thread::sleep(Duration::from_millis(200));
        }
    }

    /// Every name of a job, with the names of its labels.
    fn series(&self, job: &str) -> Result<BTreeMap<String, BTreeSet<String>>> {
        let mut found = BTreeMap::<_, BTreeSet<String>>::new();
        for series in self.query(&format!("{{job=\"{job}\"}}"))? {
            let metric = series["metric"].as_object().context("labels")?;
            let name = metric["__name__"].as_str().context("a name")?.to_owned();
            found.entry(name).or_default().extend(metric.keys().cloned());
        }
        Ok(found)
    }
}

/// Whether the original has it for its JVM, or Prometheus itself adds it for an alert that waits.
fn is_of_others(name: &str) -> bool {
    name.starts_with("jvm_") || name.starts_with("ALERTS")
}

#[test]
#[ignore = "needs third-party programs: cargo xtask deps"]
fn a_prometheus_finds_everything_that_dashboards_and_rules_ask_for() -> Result<()> {
    let (theirs, their_ports) = ensemble(Java395)?;
    let (ours, our_ports) = ensemble(Zebu)?;
    let prometheus = Prometheus::start(&[("java", &their_ports), ("zookeeper", &our_ports)])?;

    // Both ensembles are scraped, and each has a leader with followers.
    for job in ["java", "zookeeper"] {
        prometheus.query_until_some(&format!("count(up{{job=\"{job}\"}} == 1) == 3"))?;
        prometheus.query_until_some(&format!("count(synced_followers{{job=\"{job}\"}} == 2)"))?;
    }
    // Each series of the original, with its labels.
    let found = prometheus.series("zookeeper")?;
    let mut lacks = Vec::new();
    for (name, labels) in prometheus.series("java")? {
        if !is_of_others(&name) && found.get(&name) != Some(&labels) {
            lacks.push(format!("{name} {labels:?}: {:?}", found.get(&name)));
        }
    }
    ensure!(lacks.is_empty(), "{lacks:#?}");

    // The original and Zebu answer the same panels.
    for panel in DASHBOARDS {
        let has = |found: &[Value]| {
            let has_job = |job: &str| found.iter().any(|it| it["metric"]["job"] == job);
            panel.starts_with("sum(") && !found.is_empty()
                || has_job("java") && has_job("zookeeper")
        };
        prometheus.query_until(&format!("count by (job) ({panel})"), has)?;
    }

    // The dashboard of this project, with its variables as Grafana fills them in.
    let dashboard: Value =
        serde_json::from_str(&fs::read_to_string(deploy("grafana/zookeeper.json"))?)?;
    let mut count = 0;
    for panel in dashboard["panels"].as_array().context("panels")? {
        for target in panel["targets"].as_array().into_iter().flatten() {
            let expression = target["expr"].as_str().context("expr")?;
            let expression = expression
                .replace("$__rate_interval", "1m")
                .replace("$__range", "1m")
                .replace("$job", "zookeeper")
                .replace("$instance", ".*");
            let found = prometheus.query(&expression);
            found.with_context(|| format!("{}: {expression}", panel["title"]))?;
            count += 1;
        }
    }
    ensure!(count > 30, "{count}");

    // Every rule of this project is evaluated, and none of them fires.
    let start = Instant::now();
    loop {
        let data = prometheus.get("/api/v1/rules")?;
        let groups = data["groups"].as_array().context("groups")?;
        let rules: Vec<&Value> =
            groups.iter().flat_map(|group| group["rules"].as_array()).flatten().collect();
        ensure!(rules.len() > 10, "{}", rules.len());
        if rules.iter().all(|rule| rule["health"] == "ok") {
            let firing = rules.iter().find(|rule| rule["state"] == "firing");
            ensure!(firing.is_none(), "{firing:?}");
            break;
        }
        ensure!(start.elapsed() < PATIENCE, "{rules:#?}");
        std::thread::sleep(Duration::from_millis(200));
    }

    // A rule sees what it is for: a server that is gone.
    drop(theirs);
    let mut ours = ours;
    ours.member(0).kill()?;
    prometheus.query_until_some("ALERTS{alertname=\"ZooKeeperServerDown\",job=\"zookeeper\"}")?;
    Ok(())
}

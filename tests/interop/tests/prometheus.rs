//! A real Prometheus scrapes servers of the original and of Zebu. The test evaluates every
//! expression of dashboards and rules through its query API.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::fs;
use std::io::{Read as _, Write as _};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
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
use zebu_interop::run::{Program, succeed};
use zebu_interop::server::Kind::{self, Java395, Zebu};
use zebu_interop::server::{PATIENCE, free_port};
use zebu_interop::{dashboards, deps};
use zebu_testkit::wire::{Writer, op};

/// An ensemble whose members serve metrics at these ports.
fn ensemble(kind: Kind) -> Result<(Ensemble, Vec<u16>)> {
    let ports: Vec<u16> = (0..3).map(|_| free_port()).collect();
    let options = |index: usize| options().metrics(ports[index]);
    let ensemble = Ensemble::prepare_each(Network::loopback(3), &[kind; 3], 0, &options)?;
    let mut ensemble = ensemble.started()?;
    ensemble.wait_for_all()?;
    let mut session = Session::open(ensemble.addresses()[0], 60_000)?;
    for number in 0..20 {
        session.create(&format!("/n{number}"), b"data", 0)?;
    }
    session.expect(op::GET_DATA, Writer::new().string("/n0").bool(false))?;
    // Some metrics get a value only at every thousandth transaction.
    let set = || (op::SET_DATA, Writer::new().string("/n0").buffer(b"data").int(-1));
    for _ in 0..20 {
        session.expect_all(&(0..50).map(|_| set()).collect::<Vec<_>>())?;
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

    /// The present series of an expression.
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

    /// Waits until an expression has a result.
    fn query_until_some(&self, expression: &str) -> Result<Vec<Value>> {
        self.query_until(expression, |found| !found.is_empty())
    }

    /// Waits until the series of an expression are accepted.
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

    /// Every metric name of a job, with the names of its labels.
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

/// An expression as a dashboard sends it after its user has selected a job.
fn of_job(expression: &str, job: &str) -> String {
    expression.replace('$', &format!("{{job=\"{job}\",instance=~\".*\"}}"))
}

/// The metrics of `zookeeper-exporter` about servers, by its documentation: each number of `mntr`,
/// whether the server answers, whether it leads, and its version.
fn exported(servers: &[SocketAddr]) -> String {
    let mut page = String::new();
    for server in servers {
        let host = format!("zk_host=\"{server}\"");
        let answer = ask_word(*server, "mntr").unwrap_or_default();
        for line in answer.lines() {
            let Some((key, value)) = line.split_once('\t') else { continue };
            let name = key.replace(['-', '.', ','], "_");
            let labels = match name.strip_suffix('}') {
                Some(name) => format!("{name},{host}}}"),
                None => format!("{name}{{{host}}}"),
            };
            let _ = match key {
                "zk_server_state" => {
                    writeln!(page, "zk_server_leader{{{host}}} {}", u8::from(value == "leader"))
                }
                "zk_version" => {
                    let version = value.split('-').next().unwrap_or_default();
                    writeln!(page, "zk_version{{{host},version=\"{version}\"}} 1")
                }
                "zk_peer_state" => writeln!(page, "{key}{{{host},state=\"{value}\"}} 1"),
                _ if value.parse::<f64>().is_ok() => writeln!(page, "{labels} {value}"),
                _ => Ok(()),
            };
        }
        let _ = writeln!(page, "zk_up{{{host}}} {}", u8::from(!answer.is_empty()));
    }
    page
}

fn ask_word(server: SocketAddr, word: &str) -> Result<String> {
    let mut stream = TcpStream::connect(server)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.write_all(word.as_bytes())?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer)?;
    Ok(answer)
}

/// Serves the metrics of [`exported`] until the test ends. Returns the port.
fn export(servers: Vec<SocketAddr>) -> Result<u16> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
    let port = listener.local_addr()?.port();
    std::thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            let mut request = [0; 4096];
            let _ = stream.read(&mut request);
            let page = exported(&servers);
            let head =
                "HTTP/1.1 200 OK\r\nContent-Type: text/plain; version=0.0.4\r\nConnection: close";
            let _ = write!(stream, "{head}\r\nContent-Length: {}\r\n\r\n{page}", page.len());
        }
    });
    Ok(port)
}

/// Whether the original has the metric for its JVM, or Prometheus itself adds it for a pending
/// alert.
fn is_of_others(name: &str) -> bool {
    name.starts_with("jvm_") || name.starts_with("ALERTS")
}

#[test]
#[ignore = "needs third-party programs: cargo xtask deps"]
fn a_prometheus_finds_everything_that_dashboards_and_rules_ask_for() -> Result<()> {
    let (theirs, their_ports) = ensemble(Java395)?;
    let (ours, our_ports) = ensemble(Zebu)?;
    let exporters = [export(theirs.addresses())?, export(ours.addresses())?];
    let prometheus = Prometheus::start(&[
        ("java", &their_ports),
        ("zookeeper", &our_ports),
        ("exporter-java", &exporters[..1]),
        ("exporter", &exporters[1..]),
    ])?;

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

    // Zebu has every metric that dashboards and rules use, except for those of a JVM in JVM panels.
    let mut unanswered = Vec::new();
    for expression in dashboards::expressions() {
        if expression.contains("jvm_") && !expression.contains("jvm_pause_time_ms") {
            continue;
        }
        let answered =
            |job| -> Result<bool> { Ok(!prometheus.query(&of_job(&expression, job))?.is_empty()) };
        let start = Instant::now();
        // A rate requires two values, so it appears a moment later.
        while !answered("zookeeper")? && start.elapsed() < Duration::from_secs(10) {
            std::thread::sleep(Duration::from_millis(200));
        }
        if !answered("zookeeper")? {
            unanswered.push(format!("{expression} (3.9.5 answers: {})", answered("java")?));
        }
    }
    ensure!(unanswered.is_empty(), "{unanswered:#?}");
    for expression in dashboards::OF_11442 {
        for job in ["exporter-java", "exporter"] {
            let query = format!("count({}) == 3", of_job(expression, job));
            prometheus.query_until_some(&query).context(expression)?;
        }
    }
    prometheus.query_until_some("sum(zk_server_leader{job=\"exporter\"}) == 1")?;
    prometheus.query_until_some("zk_version{job=\"exporter\",version=\"3.9.5\"} == 1")?;

    // This project's dashboard, with its variables as Grafana sets them.
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

    // Every rule of this project is evaluated, and no alert fires.
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

    // A rule detects its case: a server that has ended.
    drop(theirs);
    let mut ours = ours;
    ours.member(0).kill()?;
    prometheus.query_until_some("ALERTS{alertname=\"ZooKeeperServerDown\",job=\"zookeeper\"}")?;
    Ok(())
}

#[test]
#[ignore = "needs third-party programs: cargo xtask deps"]
fn the_dashboard_has_the_form_that_grafana_publishes() -> Result<()> {
    let mut checker = Command::new(deps::installed("grafana").join("grafana"));
    succeed(checker.arg(deploy("grafana/zookeeper.json")), PATIENCE).map(drop)
}

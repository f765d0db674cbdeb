//! The settings of the HTTP interfaces: the admin server and the Prometheus page.

use super::DEFAULT_METRICS;
use super::build::Reader;
use super::registry;
use super::secret::MASK;
use super::settings::{AdminConfig, ConsoleConfig, PrometheusConfig};

/// Publishes nothing.
const NULL_METRICS: &str = "org.apache.zookeeper.metrics.impl.NullMetricsProvider";
/// Serves a page.
const PROMETHEUS: &str = "org.apache.zookeeper.metrics.prometheus.PrometheusMetricsProvider";

/// First path segments that the admin server uses besides the commands.
const TAKEN: [&str; 4] = ["health", "jmx", "console", "backup"];

impl Reader<'_> {
    pub(super) fn admin(&self) -> Option<AdminConfig> {
        let url = self.value("admin.commandURL").unwrap_or_default();
        let command_url = url.trim_end_matches('/').to_owned();
        if !is_url(&command_url) {
            self.problem(
                "admin.commandURL",
                format!(
                    "admin.commandURL={url}: must begin with / and have segments of letters, digits, . _ and - only"
                ),
            );
        }
        let is_served = self.is_on("admin.enableServer");
        let tls = self.admin_tls(is_served);
        let first = command_url.split('/').nth(1).unwrap_or_default();
        if TAKEN.contains(&first) {
            self.problem(
                "admin.commandURL",
                format!(
                    "admin.commandURL={url}: /{first} is served already\n\
                     hint: choose a path that begins with none of /{}",
                    TAKEN.join(", /")
                ),
            );
        }
        let console = ConsoleConfig {
            hosts: self.names("admin.console.hosts"),
            idle_timeout: self.ms("admin.console.idleTimeout"),
        };
        let settings = AdminConfig {
            address: self.host("admin.serverAddress"),
            port: self.port("admin.serverPort"),
            is_asked_for: ["admin.enableServer", "admin.serverPort"]
                .into_iter()
                .any(|key| self.given(key).is_some()),
            command_url,
            idle_timeout: self.ms("admin.idleTimeout"),
            snapshot_interval: self.ms("admin.rateLimiterIntervalInMS"),
            snapshot: self.is_on("admin.snapshot.enabled"),
            restore: self.is_on("admin.restore.enabled"),
            tls,
            console: self.is_on("admin.console").then_some(console),
            initial_configuration: self.file().map(masked).unwrap_or_default(),
            properties: self.properties(),
        };
        // Only one value exists.
        self.choice("admin.httpVersion");
        is_served.then_some(settings)
    }

    pub(super) fn prometheus(&self) -> Option<PrometheusConfig> {
        let class = self.text("metricsProvider.className");
        let class = class.as_deref().unwrap_or(DEFAULT_METRICS);
        let has_tls = self.text("metricsProvider.httpsPort").is_some();
        let port = self.port("metricsProvider.httpPort");
        let secure_port = self.port("metricsProvider.httpsPort");
        let settings = PrometheusConfig {
            top_clients: self.count("zebu.topClients") as usize,
            address: self.host("metricsProvider.httpHost"),
            port: (!has_tls || self.given("metricsProvider.httpPort").is_some()).then_some(port),
            tls: self.prometheus_tls(class == PROMETHEUS && has_tls, secure_port),
            process: self.is_on("metricsProvider.exportJvmInfo"),
        };
        if ![DEFAULT_METRICS, NULL_METRICS, PROMETHEUS].contains(&class) {
            self.problem(
                "metricsProvider.className",
                format!(
                    "metricsProvider.className={class}: metrics provider class was not found\n\
                     hint: there are {DEFAULT_METRICS}, {NULL_METRICS} and {PROMETHEUS}"
                ),
            );
        }
        (class == PROMETHEUS).then_some(settings)
    }

    fn port(&self, key: &'static str) -> u16 {
        self.number(key).and_then(|port| u16::try_from(port).ok()).unwrap_or(0)
    }

    /// Words separated by commas.
    fn names(&self, key: &'static str) -> Vec<String> {
        let words = self.value(key).unwrap_or_default().split(',').map(str::trim);
        words.filter(|word| !word.is_empty()).map(str::to_owned).collect()
    }

    fn host(&self, key: &'static str) -> String {
        let host = self.value(key).unwrap_or_default();
        host.trim_start_matches('[').trim_end_matches(']').to_owned()
    }
}

/// The text of a file, unchanged except that secrets are masked.
fn masked(file: &[u8]) -> String {
    let text = String::from_utf8_lossy(file);
    // A value may continue on the next line.
    let mut goes_on = false;
    text.split_inclusive('\n')
        .map(|line| {
            let content = line.trim_end_matches(['\r', '\n']);
            let end = &line[content.len()..];
            let key_end = content.find(['=', ':', ' ', '\t']).unwrap_or(content.len());
            let is_comment = content.trim_start().starts_with(['#', '!']);
            let names_secret = registry::looks_secret(content)
                && (is_comment || is_secret(content[..key_end].trim()));
            let is_secret = goes_on || names_secret;
            goes_on = is_secret && !is_comment && content.ends_with('\\');
            match (is_secret, content.find(['=', ':'])) {
                (false, _) => line.to_owned(),
                (true, Some(at)) if names_secret => format!("{}{MASK}{end}", &content[..=at]),
                (true, _) => format!("{MASK}{end}"),
            }
        })
        .collect()
}

fn is_secret(key: &str) -> bool {
    registry::looks_secret(key)
        || registry::by_key(key).is_some_and(|setting| setting.is_secret(key))
}

fn is_url(url: &str) -> bool {
    let is_segment = |segment: &str| {
        !segment.is_empty()
            && segment.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-'))
    };
    url.is_empty() || url.strip_prefix('/').is_some_and(|rest| rest.split('/').all(is_segment))
}

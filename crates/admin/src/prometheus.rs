//! The Prometheus page: all metrics, in the text format 0.0.4, or in OpenMetrics if the client asks
//! for it.
//!
//! The names of the original's counters do not end with `_total`. OpenMetrics requires that ending,
//! so these counters have the type `unknown` there: a Prometheus server asks for OpenMetrics first,
//! and its dashboards must find the same names. Zebu's own metrics have a unit in their names, and
//! are the same in both formats.
//!
//! Source: `PrometheusMetricsProvider.java` of 3.9.5 for names, labels and quantiles.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::fs;
use std::net::IpAddr;

use zebu_logs::control::{Control, control};
use zebu_metrics::{Exposition, Histogram, Histograms, Kind, Shown, Visitor};
use zebu_proto::Zxid;

use crate::figures::{self, Figures};
use crate::four_letter::ConnectionFacts;
use crate::served::{LearnerFacts, Served};
use crate::uncounted::{UNCOUNTED, Uncounted};

/// The content type of the page.
pub const CONTENT_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";

/// The content type of OpenMetrics.
const OPEN_METRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// The format for a client with this `Accept` header: OpenMetrics only if the header names it and
/// does not refuse it.
pub fn content_type(accept: &str) -> &'static str {
    let wants = accept.split(',').any(|range| {
        let mut parts = range.split(';').map(str::trim);
        let is_it =
            parts.next().is_some_and(|it| it.eq_ignore_ascii_case("application/openmetrics-text"));
        let parameters: Vec<&str> = parts.collect();
        let version = parameters.iter().find_map(|it| it.strip_prefix("version="));
        let weight = parameters.iter().find_map(|it| it.strip_prefix("q="));
        is_it
            && version.is_none_or(|it| it == "1.0.0")
            && weight.and_then(|it| it.parse::<f64>().ok()).is_none_or(|it| it > 0.0)
    });
    if wants { OPEN_METRICS } else { CONTENT_TYPE }
}

/// Parts of the page besides the metrics.
#[derive(Debug, Clone, Copy, Default)]
pub struct PageOptions {
    /// Whether to add facts of the system about this process.
    pub process: bool,
    /// The number of clients to list: those with the most requests.
    pub top_clients: usize,
}

/// Renders the page in this content type.
pub fn page(served: &dyn Served, options: PageOptions, content_type: &str) -> String {
    let mut page = Page { is_open: content_type == OPEN_METRICS, ..Page::default() };
    figures::gauges(served, served.serving(), &mut page);
    served.metrics().expose(&mut page);
    UNCOUNTED.iter().for_each(|group| page.uncounted(group));
    if let Some(id) = served.identity().settled() {
        page.begin("zebu_ensemble_info", "gauge", "Always 1: the key is the id of the ensemble.");
        page.value("zebu_ensemble_info", Some(&id.to_string()), None, 1.0);
    }
    if options.process {
        page.process();
    }
    if options.top_clients > 0 {
        page.top_clients(&served.connections(), options.top_clients);
    }
    if let Some(histograms) = served.histograms() {
        page.histograms(histograms);
    }
    let limits = served.limits();
    if !limits.is_empty() {
        page.limits(&limits);
    }
    page.followers(&served.learners(), served.server().zxid);
    if let Some(otlp) = control().and_then(Control::otlp) {
        page.otlp(otlp.sent(), otlp.lost());
    }
    if page.is_open {
        page.text.push_str("# EOF\n");
    }
    page.text
}

#[derive(Default)]
struct Page {
    text: String,
    /// The last metric family.
    family: String,
    /// Whether the page is in OpenMetrics.
    is_open: bool,
}

impl Page {
    fn begin(&mut self, name: &str, kind: &str, help: &str) {
        if self.family != name {
            let is_named_so = name.ends_with("_total");
            let kind = match kind {
                "counter" if self.is_open && !is_named_so => "unknown",
                kind => kind,
            };
            // The samples of a counter have the suffix, but its family does not.
            let name = if self.is_open { name.trim_end_matches("_total") } else { name };
            // Writing to a String cannot fail.
            let _ = writeln!(self.text, "# HELP {name} {}", Escaped(help, false));
            let _ = writeln!(self.text, "# TYPE {name} {kind}");
            name.clone_into(&mut self.family);
        }
    }

    fn value(&mut self, name: &str, key: Option<&str>, quantile: Option<f64>, value: f64) {
        self.text.push_str(name);
        let key = key.map(|key| format!("key=\"{}\"", Escaped(key, true)));
        let quantile = quantile.map(|quantile| format!("quantile=\"{quantile}\""));
        let labels: Vec<String> = key.into_iter().chain(quantile).collect();
        if !labels.is_empty() {
            let _ = write!(self.text, "{{{}}}", labels.join(","));
        }
        let _ = match value.is_nan() {
            true => writeln!(self.text, " NaN"),
            false => writeln!(self.text, " {value:?}"),
        };
    }

    fn gauge(&mut self, name: &str, kind: &str, help: &str, value: f64) {
        self.begin(name, kind, help);
        self.value(name, None, None, value);
    }

    fn uncounted(&mut self, group: &Uncounted) {
        let help = format!("Always 0: {}.", group.why);
        for name in group.gauges {
            self.gauge(name, "gauge", &help, 0.0);
        }
        for name in group.counters {
            self.gauge(name, "counter", &help, 0.0);
        }
        let summaries = group.summaries.iter().map(|name| (name, &[0.5][..]));
        let percentiles = group.percentiles.iter().map(|name| (name, &[0.5, 0.9, 0.99][..]));
        for (name, quantiles) in summaries.chain(percentiles) {
            self.begin(name, "summary", &help);
            let quantiles = quantiles.iter().map(|quantile| (*quantile, None)).collect();
            self.summary(name, None, &Shown { count: 0, sum: 0, quantiles });
        }
    }

    fn unit(&mut self, name: &str, unit: &str) {
        if self.is_open {
            let _ = writeln!(self.text, "# UNIT {name} {unit}");
        }
    }

    fn histogram(&mut self, name: &str, label: &str, histogram: &Histogram) {
        let (rows, sum_s) = histogram.shown();
        let comma = if label.is_empty() { "" } else { "," };
        for (bound, count) in rows {
            let bound = if bound.is_finite() { format!("{bound:?}") } else { "+Inf".to_owned() };
            let _ = writeln!(self.text, "{name}_bucket{{{label}{comma}le=\"{bound}\"}} {count}");
        }
        let labels = if label.is_empty() { String::new() } else { format!("{{{label}}}") };
        let count = rows.last().map_or(0, |row| row.1);
        let _ = writeln!(self.text, "{name}_count{labels} {count}\n{name}_sum{labels} {sum_s:?}");
    }

    /// Zebu's own metrics of times, in seconds.
    fn histograms(&mut self, histograms: &Histograms) {
        let name = "zebu_request_phase_seconds";
        self.begin(name, "histogram", "Where the time of requests goes.");
        self.unit(name, "seconds");
        for (phase, histogram) in histograms.phases.all() {
            self.histogram(name, &format!("phase=\"{phase}\""), histogram);
        }
        let name = "zebu_fsync_seconds";
        self.begin(name, "histogram", "Syncs of the transaction log.");
        self.unit(name, "seconds");
        self.histogram(name, "", &histograms.fsync);
    }

    /// Zebu's own metrics of used resources.
    fn limits(&mut self, limits: &[(&str, u64, u64)]) {
        let used = ("zebu_limit_used", "How much of a limit is used, by its setting.");
        let most = ("zebu_limit_max", "How much may be used, by its setting.");
        for (at, (name, help)) in [used, most].into_iter().enumerate() {
            self.begin(name, "gauge", help);
            for (setting, used, most) in limits {
                let value = [used, most][at];
                let _ = writeln!(self.text, "{name}{{limit=\"{setting}\"}} {value}");
            }
        }
    }

    /// Zebu's own metrics: the addresses whose open connections have sent the most requests, at
    /// most `most`.
    fn top_clients(&mut self, connections: &[ConnectionFacts], most: usize) {
        let mut clients = BTreeMap::<IpAddr, [u64; 3]>::new();
        for connection in connections {
            let sums = clients.entry(connection.remote.ip()).or_default();
            let more = [connection.received, connection.queued, 1];
            sums.iter_mut().zip(more).for_each(|(sum, more)| *sum += more);
        }
        let mut clients: Vec<_> = clients.into_iter().collect();
        clients.sort_by_key(|(_, [received, ..])| std::cmp::Reverse(*received));
        clients.truncate(most);
        for (at, (name, help)) in [
            ("zebu_top_client_requests", "Requests on the open connections of a client address."),
            ("zebu_top_client_outstanding_requests", "Those that are not answered yet."),
            ("zebu_top_client_connections", "Open connections of a client address."),
        ]
        .into_iter()
        .enumerate()
        {
            self.begin(name, "gauge", help);
            for (address, sums) in &clients {
                let _ = writeln!(self.text, "{name}{{client=\"{address}\"}} {}", sums[at]);
            }
        }
    }

    /// Zebu's own metrics: how far the followers of this leader are behind.
    fn followers(&mut self, learners: &[LearnerFacts], newest: Zxid) {
        // A member that reconnects may have two connections for a moment. The later one counts.
        let followers: BTreeMap<_, _> = learners
            .iter()
            .filter(|it| !it.observes)
            .filter_map(|it| Some((it.connection.server, (it.unacknowledged(newest), it.acked?))))
            .collect();
        if followers.is_empty() {
            return;
        }
        let name = "zebu_follower_unacknowledged_transactions";
        self.begin(name, "gauge", "Transactions that a follower has not acknowledged, by its id.");
        for (member, (behind, _)) in &followers {
            if let Some(behind) = behind {
                let _ = writeln!(self.text, "{name}{{member=\"{}\"}} {behind}", member.0);
            }
        }
        let name = "zebu_follower_last_acknowledgement_seconds";
        self.begin(name, "gauge", "Time since the last acknowledgement of a follower, by its id.");
        self.unit(name, "seconds");
        for (member, (_, acked)) in &followers {
            let age_s = acked.age.as_secs_f64();
            let _ = writeln!(self.text, "{name}{{member=\"{}\"}} {age_s:?}", member.0);
        }
    }

    /// Zebu's own metrics of records for a log collector.
    fn otlp(&mut self, sent: u64, lost: u64) {
        for (name, help, value) in [
            ("zebu_log_otlp_sent_total", "Records of the log that the collector has taken.", sent),
            ("zebu_log_otlp_lost_total", "Records of the log that the collector lacks.", lost),
        ] {
            self.gauge(name, "counter", help, value as f64);
        }
    }

    /// Facts about the process, under the names that a JVM uses.
    fn process(&mut self) {
        let file = |path: &str| fs::read_to_string(path).unwrap_or_default();
        let status = file("/proc/self/status");
        for (name, help, value) in [
            (
                "process_resident_memory_bytes",
                "Resident memory size in bytes.",
                bytes_of(&status, "VmRSS:"),
            ),
            (
                "process_virtual_memory_bytes",
                "Virtual memory size in bytes.",
                bytes_of(&status, "VmSize:"),
            ),
        ] {
            if let Some(value) = value {
                self.gauge(name, "gauge", help, value);
            }
        }
        let times = Times::of(&file("/proc/self/stat"), &file("/proc/stat"));
        if let Some(Times { used_s, started_s }) = times {
            let help = "Total user and system CPU time spent in seconds.";
            self.gauge("process_cpu_seconds_total", "counter", help, used_s);
            let help = "Start time of the process since unix epoch in seconds.";
            self.gauge("process_start_time_seconds", "gauge", help, started_s);
        }
    }
}

/// A text in a help line or, with `true`, in a label, where quotes are escaped too.
struct Escaped<'t>(&'t str, bool);

impl std::fmt::Display for Escaped<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.chars().try_for_each(|c| match c {
            '\\' => f.write_str("\\\\"),
            '\n' => f.write_str("\\n"),
            '"' if self.1 => f.write_str("\\\""),
            c => f.write_char(c),
        })
    }
}

impl Visitor for Page {
    fn integer(&mut self, name: &str, value: i64) {
        self.decimal(name, value as f64);
    }

    fn decimal(&mut self, name: &str, value: f64) {
        self.gauge(name, "gauge", name, value);
        // The metric has the meaning that it has in the original.
        if name == "open_file_descriptor_count" || name == "max_file_descriptor_count" {
            let other =
                if name.starts_with("open") { "process_open_fds" } else { "process_max_fds" };
            self.gauge(other, "gauge", name, value);
        }
    }
}

impl Figures for Page {
    // Prometheus has no texts.
    fn text(&mut self, _: &str, _: &str) {}

    fn set(&mut self, name: &str) {
        self.begin(name, "gauge", name);
    }

    fn keyed(&mut self, name: &str, key: &str, value: i64) {
        self.begin(name, "gauge", name);
        self.value(name, Some(key), None, value as f64);
    }
}

impl Exposition for Page {
    fn family(&mut self, name: &str, kind: Kind, help: &str) {
        let kind = match kind {
            Kind::Counter => "counter",
            Kind::Summary => "summary",
        };
        self.begin(name, kind, help);
    }

    fn counter(&mut self, name: &str, key: Option<&str>, value: u64) {
        self.value(name, key, None, value as f64);
    }

    fn summary(&mut self, name: &str, key: Option<&str>, summary: &Shown) {
        for (quantile, value) in &summary.quantiles {
            let value = value.map_or(f64::NAN, |value| value as f64);
            self.value(name, key, Some(*quantile), value);
        }
        self.value(&format!("{name}_count"), key, None, summary.count as f64);
        self.value(&format!("{name}_sum"), key, None, summary.sum as f64);
    }
}

/// The value of a line `name:   12 kB`, in bytes.
fn bytes_of(status: &str, name: &str) -> Option<f64> {
    let line = status.lines().find_map(|line| line.strip_prefix(name))?;
    let kib: u64 = line.split_whitespace().next()?.parse().ok()?;
    Some((kib * 1024) as f64)
}

/// The times of a process, in seconds.
#[derive(Debug, PartialEq)]
struct Times {
    /// CPU time of all threads.
    used_s: f64,
    /// The start, since 1970.
    started_s: f64,
}

/// The unit of `/proc`: Linux reports hundredths of a second to every program.
const TICKS_PER_S: f64 = 100.0;

impl Times {
    fn of(process: &str, system: &str) -> Option<Self> {
        // The program's name is in parentheses, and may contain spaces.
        let fields: Vec<&str> = process.rsplit_once(')')?.1.split_whitespace().collect();
        let number = |at: usize| fields.get(at)?.parse::<f64>().ok();
        let booted = system.lines().find_map(|line| line.strip_prefix("btime "))?;
        let booted: f64 = booted.trim().parse().ok()?;
        Some(Self {
            used_s: (number(11)? + number(12)?) / TICKS_PER_S,
            started_s: booted + number(19)? / TICKS_PER_S,
        })
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use zebu_metrics::Metrics;
    use zebu_proto::ServerId;

    use super::*;
    use crate::served::{Acked, ObserverFacts};

    #[test]
    fn followers_are_told_by_their_ids() {
        let learner = |server: i64, sent: i64, acked: Option<i64>| LearnerFacts {
            observes: acked.is_none(),
            connection: ObserverFacts {
                remote: ([127, 0, 0, 1], 1).into(),
                server: ServerId(server),
                established_ms: 0,
                queued_packets: 0,
                queued_bytes: 0,
                packets_received: 0,
                packets_sent: 0,
                requests: 0,
                last_zxid: Zxid(sent),
            },
            acked: acked.map(|zxid| Acked { zxid: Zxid(zxid), age: Duration::from_millis(2_500) }),
        };
        let mut page = Page::default();
        page.followers(&[], Zxid(5));
        assert_eq!(page.text, "");
        let epoch = 2 << 32;
        let learners = [
            learner(2, epoch + 9, Some(epoch + 9)),
            // The older connection of the same learner.
            learner(3, epoch + 1, Some(epoch + 1)),
            learner(3, epoch + 9, Some(epoch + 4)),
            // This learner has not acknowledged anything in this epoch.
            learner(4, epoch + 9, Some((1 << 32) + 7)),
            learner(5, epoch + 9, None),
        ];
        page.followers(&learners, Zxid(epoch + 8));
        assert_eq!(
            page.text,
            "# HELP zebu_follower_unacknowledged_transactions Transactions that a follower has not acknowledged, by its id.\n\
             # TYPE zebu_follower_unacknowledged_transactions gauge\n\
             zebu_follower_unacknowledged_transactions{member=\"2\"} 0\n\
             zebu_follower_unacknowledged_transactions{member=\"3\"} 5\n\
             # HELP zebu_follower_last_acknowledgement_seconds Time since the last acknowledgement of a follower, by its id.\n\
             # TYPE zebu_follower_last_acknowledgement_seconds gauge\n\
             zebu_follower_last_acknowledgement_seconds{member=\"2\"} 2.5\n\
             zebu_follower_last_acknowledgement_seconds{member=\"3\"} 2.5\n\
             zebu_follower_last_acknowledgement_seconds{member=\"4\"} 2.5\n"
        );
    }

    #[test]
    fn the_page_is_in_the_text_format() {
        let metrics = Metrics::default();
        metrics.response_bytes.add(7);
        [1, 2, 3].into_iter().for_each(|value| metrics.fsynctime.add(value));
        metrics.write_per_namespace.add("a\"b", 10);
        let mut page = Page::default();
        page.decimal("avg_latency", 4.5);
        page.text("version", "3");
        page.keyed("quota_count_limit_per_namespace", "a", 1);
        page.keyed("quota_count_limit_per_namespace", "b\\", 2);
        metrics.expose(&mut page);
        let of = |name: &str| -> String {
            let is_of = |line: &&str| {
                let line = line.trim_start_matches("# HELP ").trim_start_matches("# TYPE ");
                line.strip_prefix(name).is_some_and(|rest| {
                    ["_sum", "_count", "{", " "].iter().any(|next| rest.starts_with(next))
                })
            };
            page.text.lines().filter(is_of).flat_map(|line| [line, "\n"]).collect()
        };
        assert_eq!(
            of("avg_latency"),
            "# HELP avg_latency avg_latency\n# TYPE avg_latency gauge\navg_latency 4.5\n"
        );
        assert_eq!(of("version"), "");
        assert_eq!(
            of("quota_count_limit_per_namespace"),
            "# HELP quota_count_limit_per_namespace quota_count_limit_per_namespace\n\
             # TYPE quota_count_limit_per_namespace gauge\n\
             quota_count_limit_per_namespace{key=\"a\"} 1.0\n\
             quota_count_limit_per_namespace{key=\"b\\\\\"} 2.0\n"
        );
        assert_eq!(
            of("response_bytes"),
            "# HELP response_bytes Bytes of replies, notifications excluded.\n\
             # TYPE response_bytes counter\nresponse_bytes 7.0\n"
        );
        assert_eq!(
            of("fsynctime"),
            "# HELP fsynctime Milliseconds of an fsync.\n# TYPE fsynctime summary\n\
             fsynctime{quantile=\"0.5\"} 2.0\nfsynctime_count 3.0\nfsynctime_sum 6.0\n"
        );
        assert!(of("readlatency").contains("readlatency{quantile=\"0.99\"} NaN\n"));
        assert!(of("write_per_namespace").contains(
            "write_per_namespace{key=\"a\\\"b\",quantile=\"0.5\"} 10.0\n\
             write_per_namespace_count{key=\"a\\\"b\"} 1.0\n"
        ));
    }

    /// OpenMetrics 1.0: units, `# EOF`, and counters whose samples end with `_total`.
    #[test]
    fn open_metrics_has_units_and_an_end_and_keeps_the_names_of_the_original() {
        let histograms = Histograms::default();
        histograms.phases.sync.add(std::time::Duration::from_micros(200));
        let mut page = Page { is_open: true, ..Page::default() };
        page.gauge("response_bytes", "counter", "Bytes.", 1.0);
        page.gauge("process_cpu_seconds_total", "counter", "Time.", 2.0);
        page.histograms(&histograms);
        page.limits(&[("maxCnxns", 1, 60)]);
        for part in [
            "# HELP response_bytes Bytes.\n# TYPE response_bytes unknown\nresponse_bytes 1.0\n",
            "# TYPE process_cpu_seconds counter\nprocess_cpu_seconds_total 2.0\n",
            "# TYPE zebu_request_phase_seconds histogram\n# UNIT zebu_request_phase_seconds seconds\n",
            "zebu_request_phase_seconds_bucket{phase=\"sync\",le=\"0.0001\"} 0\n",
            "zebu_request_phase_seconds_bucket{phase=\"sync\",le=\"0.00025\"} 1\n",
            "zebu_request_phase_seconds_bucket{phase=\"sync\",le=\"+Inf\"} 1\n",
            "zebu_request_phase_seconds_count{phase=\"sync\"} 1\nzebu_request_phase_seconds_sum{phase=\"sync\"} 0.0002\n",
            "zebu_fsync_seconds_bucket{le=\"+Inf\"} 0\nzebu_fsync_seconds_count 0\nzebu_fsync_seconds_sum 0.0\n",
            "# TYPE zebu_limit_used gauge\nzebu_limit_used{limit=\"maxCnxns\"} 1\n",
            "zebu_limit_max{limit=\"maxCnxns\"} 60\n",
        ] {
            assert!(page.text.contains(part), "{part} is not in\n{}", page.text);
        }
    }

    #[test]
    fn open_metrics_is_for_whoever_asks_for_it() {
        for accept in [
            "",
            "*/*",
            "text/plain",
            "application/openmetrics-text;q=0",
            "application/openmetrics-text;version=0.0.1,text/plain;q=0.5",
        ] {
            assert_eq!(content_type(accept), CONTENT_TYPE, "{accept}");
        }
        // The requests of a Prometheus server of version 2 and of version 3.
        let two = "application/openmetrics-text; version=1.0.0,application/openmetrics-text; version=0.0.1;q=0.75,text/plain;version=0.0.4;q=0.5,*/*;q=0.1";
        let three = "application/openmetrics-text;version=1.0.0;escaping=allow-utf-8;q=0.5,text/plain;version=1.0.0;q=0.4";
        for accept in [two, three, "application/openmetrics-text"] {
            assert_eq!(content_type(accept), OPEN_METRICS, "{accept}");
        }
    }

    #[test]
    fn the_times_of_a_process_are_read_from_proc_lines() {
        let process =
            "42 (a b) c) S 1 42 42 0 -1 4194560 9 0 0 0 150 50 0 0 20 0 8 0 1000 123 45 6";
        let times = Times::of(process, "cpu 1\nbtime 5000\n");
        assert_eq!(times, Some(Times { used_s: 2.0, started_s: 5010.0 }));
        assert_eq!(Times::of("", ""), None);
        assert_eq!(bytes_of("VmRSS:\t    12 kB\n", "VmRSS:"), Some(12_288.0));
        let mut page = Page::default();
        page.process();
        if cfg!(target_os = "linux") {
            assert!(page.text.contains("\nprocess_cpu_seconds_total "), "{}", page.text);
        }
    }
}

//! Sets up the log of the process from the configuration.

use std::io;
use std::path::PathBuf;

use tracing::level_filters::LevelFilter;
use tracing::warn;
use zebu_https::{Https, trust_of_the_system};
use zebu_logs::control::{Levels, Setup, control, install};
use zebu_logs::daily::DailyFile;
use zebu_logs::line::Format;
use zebu_logs::otlp::{self, Collector, Otlp};
use zebu_logs::outputs::Output;
use zebu_logs::queue::now_ms;
use zebu_logs::rotating::{Period, RotatingFile, Rotation};

use crate::config::{
    Config, FileConfig, FilePeriod, LogOutput, LogTarget, OtlpConfig, TraceConfig,
};

/// The environment variable that sets the level if no setting does.
const VARIABLE: &str = "RUST_LOG";

/// Why a process cannot log.
#[derive(Debug, thiserror::Error)]
pub enum LogFault {
    /// The file cannot be opened.
    #[error(
        "{}: the log cannot be opened: {source}\n\
         hint: zookeeper.log.dir names its directory, zebu.log.to=stderr needs no file",
        path.display()
    )]
    File {
        /// The file.
        path: PathBuf,
        /// The reason.
        source: io::Error,
    },
    /// The file of the request trace cannot be opened.
    #[error(
        "{}: a file of the request trace cannot be opened: {source}\n\
         hint: traceFile or requestTraceFile names it",
        path.display()
    )]
    Trace {
        /// The beginning of the file's path.
        path: PathBuf,
        /// The reason.
        source: io::Error,
    },
    /// The system has no journal.
    #[error(
        "the journal of systemd cannot be reached: {0}\n\
         hint: zebu.log.to=stderr needs none, and systemd takes that stream to its journal, too"
    )]
    Journal(io::Error),
    /// Records cannot be sent to the collector.
    #[error("the log cannot be sent over OTLP: {0}")]
    Otlp(io::Error),
}

/// The rotation of a configured log file.
pub fn rotation(config: &FileConfig) -> Rotation {
    Rotation {
        bytes_max: Some(config.bytes_max),
        files_max: config.files_max,
        every: match config.period {
            FilePeriod::Ever => Period::Ever,
            FilePeriod::Hour => Period::Hour,
            FilePeriod::Day => Period::Day,
        },
    }
}

/// Sets up the log.
///
/// # Errors
/// The configured output is not available.
pub fn start(config: &Config) -> Result<(), LogFault> {
    let client_port = config.net.client_port;
    let config = &config.logging;
    let of_environment = std::env::var(VARIABLE).ok();
    let text = config.levels.as_deref().or(of_environment.as_deref());
    // The setting was checked when the configuration was read.
    let (levels, fault) = match text.map(Levels::parse) {
        None => (Levels::default(), None),
        Some(Ok(levels)) => (levels, None),
        Some(Err(fault)) => (Levels::default(), Some(fault)),
    };
    let outputs = config.outputs.iter().map(output).collect::<Result<_, _>>()?;
    let otlp = config.otlp.as_ref().map(|to| collector(to, client_port)).transpose();
    let otlp = otlp.map_err(LogFault::Otlp)?;
    let of_collector = config.otlp.as_ref().and_then(|to| to.levels.as_deref());
    // The setting was checked when the configuration was read.
    let otlp_levels = of_collector.and_then(|text| Levels::parse(text).ok());
    let trace = config.trace.as_ref().map(trace).transpose()?;
    install(Setup { levels, outputs, otlp, otlp_levels, trace }).map_err(LogFault::Journal)?;
    if let Some(fault) = fault {
        let fault = fault.to_string().replace('\n', "; ");
        warn!("{VARIABLE} has no effect: {fault}");
    }
    Ok(())
}

fn trace(config: &TraceConfig) -> Result<DailyFile, LogFault> {
    let fault = |source| LogFault::Trace { path: config.path.clone(), source };
    DailyFile::open(&config.path, config.files_max, now_ms()).map_err(fault)
}

fn output(config: &LogOutput) -> Result<(Output, LevelFilter), LogFault> {
    let format = |is_json| if is_json { Format::Json } else { Format::Text };
    let output = match &config.to {
        LogTarget::Stderr { is_json } => Output::Stderr(format(*is_json)),
        LogTarget::Journald => Output::Journald,
        LogTarget::File { file, is_json } => {
            let opened = RotatingFile::open(&file.path, rotation(file), now_ms());
            let fault = |source| LogFault::File { path: file.path.clone(), source };
            Output::File(opened.map_err(fault)?, format(*is_json))
        }
    };
    // The level was checked when the configuration was read.
    let threshold = config.threshold.and_then(|level| level.parse().ok());
    Ok((output, threshold.unwrap_or(LevelFilter::TRACE)))
}

/// Sends all remaining records to the collector before the process ends.
pub fn finish() {
    if let Some(otlp) = control().and_then(|log| log.otlp()) {
        otlp.close();
    }
}

/// Starts the export to a collector. Configured attributes replace default ones.
fn collector(config: &OtlpConfig, client_port: Option<u16>) -> io::Result<Otlp> {
    let host = rustix::system::uname().nodename().to_string_lossy().into_owned();
    let instance = match client_port {
        Some(port) => format!("{host}:{port}"),
        None => host.clone(),
    };
    let known = [
        ("service.name", "zebu".to_owned()),
        ("service.version", env!("CARGO_PKG_VERSION").to_owned()),
        ("service.instance.id", instance),
        ("host.name", host),
        ("process.pid", std::process::id().to_string()),
    ];
    let is_given = |name: &str| config.attributes.iter().any(|(given, _)| given == name);
    let known = known.into_iter().filter(|(name, _)| !is_given(name));
    let attributes = known.map(|(name, value)| (name.to_owned(), value));
    let collector = Collector {
        address: config.endpoint.clone(),
        headers: config.headers.clone(),
        attributes: attributes.chain(config.attributes.iter().cloned()).collect(),
    };
    let tls = trust_of_the_system().map_err(io::Error::other)?;
    Otlp::start(collector, Https::new(tls, otlp::PATIENCE), otlp::WAITING)
}

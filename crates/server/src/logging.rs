//! Sets up the log of the process from the configuration.

use std::io;
use std::path::PathBuf;

use tracing::warn;
use zebu_https::{Https, trust_of_the_system};
use zebu_logs::control::{Levels, Output, control, install};
use zebu_logs::line::Format;
use zebu_logs::otlp::{self, Collector, Otlp};
use zebu_logs::queue::now_ms;
use zebu_logs::rotating::{Period, RotatingFile, Rotation};

use crate::config::{Config, FileConfig, FilePeriod, LogOutput, OtlpConfig};

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
    let output = match &config.to {
        LogOutput::Stderr => Output::Stderr,
        LogOutput::Journald => Output::Journald,
        LogOutput::File(file) => {
            let opened = RotatingFile::open(&file.path, rotation(file), now_ms());
            let fault = |source| LogFault::File { path: file.path.clone(), source };
            Output::File(opened.map_err(fault)?)
        }
    };
    let format = if config.is_json { Format::Json } else { Format::Text };
    let otlp = config.otlp.as_ref().map(|to| collector(to, client_port)).transpose();
    let otlp = otlp.map_err(LogFault::Otlp)?;
    install(levels, format, output, otlp).map_err(LogFault::Journal)?;
    if let Some(fault) = fault {
        let fault = fault.to_string().replace('\n', "; ");
        warn!("{VARIABLE} has no effect: {fault}");
    }
    Ok(())
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

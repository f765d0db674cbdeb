//! Sets up the log of the process from the configuration.

use std::io;
use std::path::PathBuf;

use tracing::warn;
use zebu_logs::control::{Levels, Output, install};
use zebu_logs::line::Format;
use zebu_logs::queue::now_ms;
use zebu_logs::rotating::{Period, RotatingFile, Rotation};

use crate::config::{FileConfig, FilePeriod, LogOutput, LoggingConfig};

/// The variable that chooses the level where no setting does.
const VARIABLE: &str = "RUST_LOG";

/// Why a process has no log.
#[derive(Debug, thiserror::Error)]
pub enum LogFault {
    /// The file cannot be opened.
    #[error(
        "{}: the log cannot be opened: {source}\n\
         hint: zookeeper.log.dir names its directory, zebu.log.to=stderr needs no file",
        path.display()
    )]
    File {
        /// Which one.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// There is no journal.
    #[error(
        "the journal of systemd cannot be reached: {0}\n\
         hint: zebu.log.to=stderr needs none, and systemd takes that stream to its journal, too"
    )]
    Journal(io::Error),
}

/// How a configured file is rotated.
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

/// Sets it up.
///
/// # Errors
/// What it is to be written to is not there.
pub fn start(config: &LoggingConfig) -> Result<(), LogFault> {
    let of_environment = std::env::var(VARIABLE).ok();
    let text = config.levels.as_deref().or(of_environment.as_deref());
    // A setting was checked when it was read.
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
    install(levels, format, output).map_err(LogFault::Journal)?;
    if let Some(fault) = fault {
        let fault = fault.to_string().replace('\n', "; ");
        warn!("{VARIABLE} has no effect: {fault}");
    }
    Ok(())
}

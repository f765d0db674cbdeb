//! The configuration of a server: from `zoo.cfg`, properties, environment and command line to typed
//! settings.
//!
//! Owns every key of the original (the table in `table`), the sources of a value and their
//! precedence (`sources`), errors that refuse a configuration (`ConfigError`), and notes about
//! accepted ones (`Note`). It reads the files that it is given. It creates and checks data
//! directories only on request (`dirs`).
//!
//! Sources: `QuorumPeerConfig.java`, `ServerConfig.java`, the administrator's guide; CFG-01 to
//! CFG-34.

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;

use registry::{Fate, Part};
use sources::{Given, Merged};

mod admin;
mod build;
pub mod dirs;
pub mod docs;
mod dynamic;
mod effective;
mod ensemble;
pub mod four_letter_words;
pub mod hardened;
pub mod jvm_flags;
mod logging;
mod providers;
pub mod registry;
mod sasl;
mod secret;
mod session_key;
mod settings;
mod sources;
mod table;
mod tls;
mod value;

#[cfg(test)]
mod tests;

pub use effective::{Effective, EffectiveSetting};
pub use ensemble::{ElectionNetConfig, EnsembleConfig, LearnerSyncConfig};
pub use secret::{MASK, Secret};
pub use settings::*;
pub use sources::{Origin, ReadFile, Sources, Start, VARIABLES, variables};
pub use table::SETTINGS;
pub use value::{IntervalFault, interval};

/// The class of the scheme that uses clients' certificates.
const X509_PROVIDER: &str = "org.apache.zookeeper.server.auth.X509AuthenticationProvider";

/// A key of Zebu: names missing parts that the configuration may nevertheless require.
pub const RUN_WITHOUT: &str = "zebu.runWithout";

/// The classes of the original that write its audit log.
const AUDIT_LOGS: [&str; 2] =
    ["org.apache.zookeeper.audit.Slf4jAuditLogger", "org.apache.zookeeper.audit.Log4jAuditLogger"];
/// The times at which a new file is started, whatever the size of the old one.
const PERIODS: &[&str] = &["never", "hourly", "daily"];
/// The provider whose names `mntr` prints.
const DEFAULT_METRICS: &str = "org.apache.zookeeper.metrics.impl.DefaultMetricsProvider";

/// A configuration that cannot be used: every fault that was found, so that the operator can
/// correct all of them at once.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConfigError {
    /// Not empty.
    pub problems: Vec<Problem>,
    /// Unknown keys, which may be the reason for a missing setting.
    pub unknown: Vec<Note>,
}

impl ConfigError {
    /// Process exit code: invalid configuration.
    pub const EXIT_CODE: u8 = 2;

    fn new(merged: Merged) -> Self {
        let unknown = merged.notes.into_iter().filter(|note| note.is_unknown_key).collect();
        Self { problems: merged.problems, unknown }
    }
}

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, problem) in self.problems.iter().enumerate() {
            write!(f, "{}{problem}", if i > 0 { "\n" } else { "" })?;
        }
        for note in &self.unknown {
            write!(f, "\n{note}")?;
        }
        Ok(())
    }
}

impl std::error::Error for ConfigError {}

/// An error and its position.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    /// The position of the value; `Default` if a value is missing.
    pub origin: Origin,
    /// The error; a line `hint: ...` may follow.
    pub text: String,
}

impl Problem {
    fn new(origin: Origin, text: String) -> Self {
        Self { origin, text }
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.origin {
            Origin::Default => f.write_str(&self.text),
            _ => write!(f, "{}: {}", self.origin, self.text),
        }
    }
}

/// The severity of a note.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Level {
    /// Probably a mistake.
    Warn,
    /// Information.
    Info,
}

/// A message for the log at the start: one line, and perhaps a `hint: ...` line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Note {
    /// The severity.
    pub level: Level,
    /// The message.
    pub text: String,
    /// An unknown key: fatal with `--check`.
    pub is_unknown_key: bool,
}

impl Note {
    fn warn(text: String) -> Self {
        Self { level: Level::Warn, text, is_unknown_key: false }
    }

    fn info(text: String) -> Self {
        Self { level: Level::Info, text, is_unknown_key: false }
    }
}

impl fmt::Display for Note {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

/// A configuration with its notes.
#[derive(Debug, Clone)]
pub struct Loaded {
    /// The settings.
    pub config: Config,
    /// Messages for the log.
    pub notes: Vec<Note>,
    /// Every setting with its value and its origin.
    pub effective: Effective,
}

/// Reads all sources and makes the configuration.
///
/// # Errors
/// Every error found, each with file and line.
pub fn load(sources: &Sources<'_>) -> Result<Loaded, ConfigError> {
    let mut merged = sources::merge(sources);
    if merged.is_file_lost {
        return Err(ConfigError::new(merged));
    }
    let faults: Vec<Problem> = merged.given.values().filter_map(fault).collect();
    merged.problems.extend(faults);
    let rules = build::Reader::new(&merged, sources.read).rules();
    let members = dynamic::members(&mut merged, sources, rules);
    let file = match &sources.start {
        Start::File(path) => Some(path.clone()),
        Start::Defaults | Start::Arguments { .. } => None,
    };
    check_parts(&mut merged);

    let reader = build::Reader::new(&merged, sources.read);
    let config = reader.config(file, &members);
    let (problems, notes) = reader.finish();
    merged.problems.extend(problems);
    merged.notes.extend(notes);
    merged.notes.extend(check_words(&config));
    if merged.problems.is_empty() {
        let effective = Effective::new(&merged, &config);
        Ok(Loaded { config, notes: merged.notes, effective })
    } else {
        // In the order of lines in a file; sources from the weakest to the strongest.
        merged.problems.sort_by_key(|problem| problem.origin.order());
        merged.problems.dedup();
        // A missing setting is missing in the file.
        if let Start::File(path) = &sources.start {
            for problem in &mut merged.problems {
                if problem.origin == Origin::Default {
                    problem.origin = Origin::File { path: Arc::from(path.as_path()), line: 0 };
                }
            }
        }
        Err(ConfigError::new(merged))
    }
}

impl Config {
    /// For a server inside another process, such as the tests of an application: on a free port of
    /// 127.0.0.1, without a limit on connections, with its data in `data_dir`, and without the HTTP
    /// admin server. All other settings have their documented defaults.
    ///
    /// To change a setting, set the field: for example `sessions.tick` for sessions that expire
    /// quickly.
    pub fn embedded(data_dir: impl Into<PathBuf>) -> Self {
        let sources = Sources {
            start: Start::Arguments {
                port: "0".to_owned(),
                data_dir: ".".to_owned(),
                tick_time: None,
                max_client_cnxns: None,
            },
            variables: Vec::new(),
            defines: Vec::new(),
            sets: vec![
                "clientPortAddress=127.0.0.1".to_owned(),
                "admin.enableServer=false".to_owned(),
            ],
            read: &|_| Err(std::io::ErrorKind::NotFound.into()),
        };
        let mut config = load(&sources).expect("these are valid").config;
        config.data.dir = data_dir.into();
        config.data.log_dir.clone_from(&config.data.dir);
        config
    }
}

fn fault(given: &Given) -> Option<Problem> {
    // An empty value counts as a missing one, unless the setting requires a word or a number.
    let fault = value::fault(given.setting, &given.key, given.value())?;
    let text = if fault.starts_with("Invalid option") {
        fault
    } else {
        format!("{}={}: {fault}", given.name, given.shown())
    };
    Some(Problem::new(given.origin.clone(), text))
}

/// Refuses settings that enable unsupported features, and lists settings without effect, one line
/// each.
fn check_parts(merged: &mut Merged) {
    let waived = waived_parts(merged);
    let mut harmless = Vec::new();
    let mut details = Vec::new();
    for given in merged.given.values() {
        let named = || format!("{} ({})", given.name, given.origin);
        match given.setting.fate {
            Fate::Supported => {}
            Fate::Harmless(_) => harmless.push(named()),
            Fate::NotBuilt(part, switch) if switch.is_on(given.value()) => {
                if waived.contains(&part) {
                    let text = format!(
                        "{}: {}={} has no effect: {}",
                        given.origin,
                        given.name,
                        given.shown(),
                        part.missing()
                    );
                    merged.notes.push(Note::warn(text));
                    continue;
                }
                let text = format!(
                    "{}={}: {}\nhint: --set {RUN_WITHOUT}={} starts without it",
                    given.name,
                    given.shown(),
                    part.missing(),
                    part.name()
                );
                merged.problems.push(Problem::new(given.origin.clone(), text));
            }
            Fate::NotBuilt(_, registry::Switch::Never) => details.push(named()),
            Fate::NotBuilt(..) => {}
        }
    }
    if !harmless.is_empty() {
        merged.notes.push(Note::info(format!(
            "settings without effect in this server: {}",
            harmless.join(", ")
        )));
    }
    if !details.is_empty() {
        merged.notes.push(Note::info(format!(
            "settings of parts this version does not have: {}",
            details.join(", ")
        )));
    }
}

fn waived_parts(merged: &mut Merged) -> Vec<Part> {
    let Some(given) = merged.given.get(RUN_WITHOUT) else { return Vec::new() };
    let mut waived = Vec::new();
    for name in value::list(given.value()) {
        match Part::ALL.into_iter().find(|part| part.name() == name) {
            Some(part) => waived.push(part),
            None => merged.problems.push(Problem::new(
                given.origin.clone(),
                format!("{RUN_WITHOUT}: there is no part {name}"),
            )),
        }
    }
    waived
}

fn check_words(config: &Config) -> Vec<Note> {
    four_letter_words::Whitelist::new(&config.four_letter_words, config.readonly_mode)
        .unknown()
        .iter()
        .map(|word| Note::warn(format!("4lw.commands.whitelist: there is no word {word}")))
        .collect()
}

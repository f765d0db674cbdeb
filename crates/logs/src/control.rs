//! The log of this process: its target and its levels, which can change at run time.
//!
//! A process has one log. [`install`] sets it up, and [`control`] gives access to it afterwards.

use std::collections::BTreeMap;
use std::io::{self, IsTerminal as _, Write as _};
use std::str::FromStr as _;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{SystemTime, UNIX_EPOCH};

use parking_lot::Mutex;
use tracing::level_filters::LevelFilter;
use tracing::{Event, Subscriber};
use tracing_subscriber::filter::Targets;
use tracing_subscriber::layer::{Context, Layer, SubscriberExt as _};
use tracing_subscriber::util::SubscriberInitExt as _;
use tracing_subscriber::{Registry, reload};

use crate::line::{self, Format, Origin, Said};
use crate::otlp::{Otlp, ToCollector};
use crate::process;
use crate::queue::now_ms;
use crate::rotating::RotatingFile;

/// The name of the root level, which applies to every logger without its own level, as in the
/// original.
pub const ROOT: &str = "ROOT";

static CONTROL: OnceLock<Control> = OnceLock::new();

/// The levels: one for the root, and further ones for single modules.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Levels {
    root: LevelFilter,
    loggers: BTreeMap<String, LevelFilter>,
}

/// The reason why a level cannot be set.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LevelFault {
    /// The level does not exist.
    #[error("{0:?} is not a level\nhint: off, error, warn, info, debug or trace")]
    Level(String),
    /// The logger's name is invalid.
    #[error(
        "{0:?} is not the name of a logger\nhint: a module, such as zebu_server or zebu_zab::election, or ROOT"
    )]
    Logger(String),
    /// Too many loggers have a level.
    #[error("{LOGGERS_MAX} loggers have levels of their own already")]
    TooMany,
}

/// Maximum number of loggers with their own level.
const LOGGERS_MAX: usize = 256;

impl Default for Levels {
    fn default() -> Self {
        Self { root: LevelFilter::INFO, loggers: BTreeMap::new() }
    }
}

fn level(text: &str) -> Result<LevelFilter, LevelFault> {
    let fault = || LevelFault::Level(text.to_owned());
    // The library also reads numbers as levels, but users do not expect that.
    let text = text.trim();
    let is_word = !text.is_empty() && text.chars().all(|it| it.is_ascii_alphabetic());
    is_word.then(|| LevelFilter::from_str(text).ok()).flatten().ok_or_else(fault)
}

impl Levels {
    /// Parses `info,zebu_zab=debug`.
    ///
    /// # Errors
    /// The text has another form.
    pub fn parse(text: &str) -> Result<Self, LevelFault> {
        let mut levels = Self::default();
        for part in text.split(',').map(str::trim).filter(|part| !part.is_empty()) {
            match part.split_once('=') {
                Some((logger, text)) => levels.set(logger.trim(), Some(level(text)?))?,
                None => levels.root = level(part)?,
            }
        }
        Ok(levels)
    }

    /// Sets the level of a logger, or removes it.
    fn set(&mut self, logger: &str, level: Option<LevelFilter>) -> Result<(), LevelFault> {
        if logger == ROOT {
            self.root = level.unwrap_or(LevelFilter::INFO);
            return Ok(());
        }
        let is_name = !logger.is_empty()
            && logger.len() <= 128
            && logger.chars().all(|it| it.is_ascii_alphanumeric() || matches!(it, '_' | ':'));
        if !is_name {
            return Err(LevelFault::Logger(logger.to_owned()));
        }
        match level {
            None => {
                self.loggers.remove(logger);
            }
            Some(_) if self.loggers.len() >= LOGGERS_MAX && !self.loggers.contains_key(logger) => {
                return Err(LevelFault::TooMany);
            }
            Some(level) => {
                self.loggers.insert(logger.to_owned(), level);
            }
        }
        Ok(())
    }

    fn targets(&self) -> Targets {
        let loggers = self.loggers.iter().map(|(logger, level)| (logger.clone(), *level));
        Targets::new().with_default(self.root).with_targets(loggers)
    }

    /// The loggers with a level. The root comes first, under its name.
    pub fn all(&self) -> impl Iterator<Item = (&str, String)> {
        let root = std::iter::once((ROOT, &self.root));
        let loggers = self.loggers.iter().map(|(logger, level)| (logger.as_str(), level));
        root.chain(loggers).map(|(logger, level)| (logger, level.to_string().to_ascii_uppercase()))
    }
}

/// The target of the lines.
pub enum Output {
    /// The standard error stream.
    Stderr,
    /// A file.
    File(RotatingFile),
    /// The systemd journal, by its native protocol.
    Journald,
}

/// The log of this process.
pub struct Control {
    levels: Mutex<Levels>,
    handle: reload::Handle<Targets, Registry>,
    is_json: AtomicBool,
    /// Lines for the journal have no format.
    has_format: bool,
    otlp: Option<Arc<Otlp>>,
}

impl Control {
    /// The current levels.
    pub fn levels(&self) -> Levels {
        self.levels.lock().clone()
    }

    /// Sets the level of a logger. `None` removes it.
    ///
    /// # Errors
    /// The level or the logger does not exist.
    pub fn set_level(&self, logger: &str, to: Option<&str>) -> Result<(), LevelFault> {
        let to = to.map(level).transpose()?;
        let mut levels = self.levels.lock();
        levels.set(logger, to)?;
        // This fails only if the process is ending.
        let _ = self.handle.reload(levels.targets());
        Ok(())
    }

    /// The format of the lines; `None` if they have no format.
    pub fn format(&self) -> Option<Format> {
        let is_json = self.is_json.load(Ordering::Relaxed);
        self.has_format.then_some(if is_json { Format::Json } else { Format::Text })
    }

    /// The way to a collector of OpenTelemetry, if the log goes to one, too.
    pub fn otlp(&self) -> Option<&Otlp> {
        self.otlp.as_deref()
    }

    /// Changes the format of the lines.
    pub fn set_format(&self, format: Format) {
        self.is_json.store(format == Format::Json, Ordering::Relaxed);
    }
}

/// The log of this process, if it is set up.
pub fn control() -> Option<&'static Control> {
    CONTROL.get()
}

/// Sets up the log of this process. A second call changes nothing. `otlp` gets each event as well.
///
/// # Errors
/// The journal cannot be reached.
pub fn install(
    levels: Levels,
    format: Format,
    output: Output,
    otlp: Option<Otlp>,
) -> io::Result<()> {
    let (filter, handle) = reload::Layer::new(levels.targets());
    let has_format = !matches!(output, Output::Journald);
    let is_json = AtomicBool::new(format == Format::Json);
    let otlp = otlp.map(Arc::new);
    let collector = otlp.clone().map(ToCollector);
    let control = Control { levels: Mutex::new(levels), handle, is_json, has_format, otlp };
    let registry = tracing_subscriber::registry().with(filter).with(collector);
    let is_ours = match output {
        Output::Journald => {
            let journal = tracing_journald::layer()?.with_syslog_identifier("zebu".to_owned());
            registry.with(journal).try_init().is_ok()
        }
        Output::Stderr => {
            let color = io::stderr().is_terminal() && std::env::var_os("NO_COLOR").is_none();
            registry.with(Lines { sink: Sink::Stderr, color }).try_init().is_ok()
        }
        Output::File(file) => {
            let sink = Sink::File(Box::new(Mutex::new((file, false))));
            registry.with(Lines { sink, color: false }).try_init().is_ok()
        }
    };
    if is_ours {
        let _ = CONTROL.set(control);
    }
    Ok(())
}

enum Sink {
    Stderr,
    /// The file, and whether the last write failed.
    File(Box<Mutex<(RotatingFile, bool)>>),
}

/// Writes a line for each event on the event's own thread, so the last line before the process ends
/// is in the file.
struct Lines {
    sink: Sink,
    color: bool,
}

impl<S: Subscriber> Layer<S> for Lines {
    fn on_event(&self, event: &Event<'_>, _: Context<'_, S>) {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let thread = std::thread::current();
        let origin = Origin {
            wall_us: i64::try_from(since.as_micros()).unwrap_or(i64::MAX),
            level: *event.metadata().level(),
            target: event.metadata().target(),
            thread: thread.name().unwrap_or("-"),
            facts: process::facts(),
        };
        let format = control().and_then(Control::format).unwrap_or_default();
        let mut out = String::new();
        line::write(&mut out, format, self.color, &origin, &Said::of(event));
        match &self.sink {
            Sink::Stderr => {
                // A failed write is ignored: the reader may have gone.
                let _ = io::stderr().write_all(out.as_bytes());
            }
            Sink::File(file) => {
                let (file, fails) = &mut *file.lock();
                let failure = file.write(out.as_bytes(), now_ms()).err().or_else(|| file.trouble());
                if let Some(failure) = failure.as_ref().filter(|_| !*fails) {
                    let path = file.path().display();
                    let _ = writeln!(io::stderr(), "the log {path} cannot be written: {failure}");
                }
                *fails = failure.is_some();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rotating::{Period, Rotation};

    fn shown(levels: &Levels) -> String {
        let all = levels.all().map(|(logger, level)| format!("{logger}={level}"));
        all.collect::<Vec<_>>().join(",")
    }

    #[test]
    fn levels_are_those_of_the_root_and_of_modules() {
        let levels = Levels::parse(" warn, zebu_zab=debug ,zebu_server::clients=OFF").unwrap();
        assert_eq!(shown(&levels), "ROOT=WARN,zebu_server::clients=OFF,zebu_zab=DEBUG");
        assert_eq!(Levels::parse(""), Ok(Levels::default()));
        for text in ["verbose", "zebu=", "=info", "a b=info", "3", "zebu=[x]"] {
            assert!(Levels::parse(text).is_err(), "{text}");
        }
        let mut levels = Levels::default();
        for number in 0..LOGGERS_MAX {
            levels.set(&format!("a{number}"), Some(LevelFilter::INFO)).unwrap();
        }
        assert_eq!(levels.set("b", Some(LevelFilter::INFO)), Err(LevelFault::TooMany));
        levels.set("a0", None).unwrap();
        levels.set("b", Some(LevelFilter::INFO)).unwrap();
    }

    /// LGG-02, LGG-05.
    #[test]
    fn levels_and_the_format_change_while_the_process_runs() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("log");
        let rotation = Rotation { bytes_max: None, files_max: 1, every: Period::Ever };
        let file = RotatingFile::open(&path, rotation, 0).unwrap();
        install(Levels::default(), Format::Text, Output::File(file), None).unwrap();
        let control = control().unwrap();
        let say = || {
            tracing::debug!(target: "one::part", "first");
            tracing::debug!(target: "other", "second");
            std::fs::read_to_string(&path).unwrap().lines().count()
        };
        tracing::info!("begin");
        assert_eq!(say(), 1);
        control.set_level("one", Some("debug")).unwrap();
        assert_eq!(say(), 2);
        control.set_level(ROOT, Some("TRACE")).unwrap();
        assert_eq!(say(), 4);
        control.set_level("one", None).unwrap();
        control.set_level(ROOT, Some("off")).unwrap();
        assert_eq!(say(), 4);
        assert!(control.set_level(ROOT, Some("loud")).is_err());
        control.set_level(ROOT, Some("info")).unwrap();
        control.set_format(Format::Json);
        tracing::warn!(session = "0x1", "a\nb");
        let text = std::fs::read_to_string(&path).unwrap();
        let last: serde_json::Value = serde_json::from_str(text.lines().last().unwrap()).unwrap();
        assert_eq!((&last["message"], &last["session"]), (&"a\nb".into(), &"0x1".into()));
        // A second `install` changes nothing.
        install(Levels::default(), Format::Text, Output::Stderr, None).unwrap();
        assert_eq!(control.format(), Some(Format::Json));
    }
}

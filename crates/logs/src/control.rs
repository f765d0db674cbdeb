//! The log of this process: its outputs and its levels, which can change at run time.
//!
//! A process has one log. [`install`] sets it up, and [`control`] gives access to it afterwards.

use std::collections::BTreeMap;
use std::io;
use std::path::Path;
use std::str::FromStr as _;
use std::sync::{Arc, OnceLock};

use parking_lot::RwLock;
use tracing::Level;
use tracing::level_filters::LevelFilter;
use tracing_subscriber::filter::Targets;
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::util::SubscriberInitExt as _;
use tracing_subscriber::{Registry, reload};

use crate::daily::DailyFile;
use crate::journal;
use crate::otlp::{Otlp, ToCollector};
use crate::outputs::{Output, Outputs, ToOutputs, Traced};

/// The name of the root level, which applies to every logger without its own level, as in the
/// original.
pub const ROOT: &str = "ROOT";

/// The logger of the request trace.
pub const TRACE: &str = "zebu_trace";

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

    /// The levels at which only this logger logs, and logs everything.
    fn only(logger: &str) -> Self {
        let loggers = [(logger.to_owned(), LevelFilter::TRACE)];
        Self { root: LevelFilter::OFF, loggers: loggers.into() }
    }

    /// The level of a module: that of the longest name of a logger with which its name begins.
    fn of(&self, target: &str) -> LevelFilter {
        let loggers = self.loggers.iter().filter(|(logger, _)| target.starts_with(&***logger));
        loggers.max_by_key(|(logger, _)| logger.len()).map_or(self.root, |(_, level)| *level)
    }

    /// Whether a module logs at this level.
    pub(crate) fn want(&self, target: &str, level: Level) -> bool {
        level <= self.of(target)
    }

    /// The levels at which each module logs what it logs with these or with one of `others`.
    fn with(&self, others: &[Self]) -> Self {
        let all = || std::iter::once(self).chain(others);
        let most = |of: &dyn Fn(&Self) -> LevelFilter| all().map(of).max().unwrap_or(self.root);
        let loggers = all().flat_map(|levels| levels.loggers.keys());
        let loggers = loggers.map(|logger| (logger.clone(), most(&|levels| levels.of(logger))));
        Self { root: most(&|levels| levels.root), loggers: loggers.collect() }
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

/// The log of this process.
pub struct Control {
    levels: Arc<RwLock<Levels>>,
    /// Levels of outputs that do not depend on `levels`.
    fixed: Vec<Levels>,
    handle: reload::Handle<Targets, Registry>,
    outputs: Arc<Outputs>,
    otlp: Option<Arc<Otlp>>,
}

impl Control {
    /// The current levels.
    pub fn levels(&self) -> Levels {
        self.levels.read().clone()
    }

    /// Sets the level of a logger. `None` removes it.
    ///
    /// # Errors
    /// The level or the logger does not exist.
    pub fn set_level(&self, logger: &str, to: Option<&str>) -> Result<(), LevelFault> {
        let to = to.map(level).transpose()?;
        let mut levels = self.levels.write();
        levels.set(logger, to)?;
        // This fails only if the process is ending.
        let _ = self.handle.reload(levels.with(&self.fixed).targets());
        Ok(())
    }

    /// The outputs, and the formats of their lines.
    pub fn outputs(&self) -> &Outputs {
        &self.outputs
    }

    /// The way to a collector of OpenTelemetry, if the log goes to one, too.
    pub fn otlp(&self) -> Option<&Otlp> {
        self.otlp.as_deref()
    }
}

/// The log of this process, if it is set up.
pub fn control() -> Option<&'static Control> {
    CONTROL.get()
}

/// The log of a process.
#[derive(Default)]
pub struct Setup {
    /// The levels.
    pub levels: Levels,
    /// The outputs, each with the least severe level that it gets of the lines that `levels` let
    /// through.
    pub outputs: Vec<(Output, LevelFilter)>,
    /// The way to a collector of OpenTelemetry.
    pub otlp: Option<Otlp>,
    /// The levels for the collector; `None`: `levels`.
    pub otlp_levels: Option<Levels>,
    /// A file for every line of the logger [`TRACE`], whatever its level. `outputs` and `otlp` get
    /// such a line if their levels say so.
    pub trace: Option<DailyFile>,
}

/// Sets up the log of this process. A second call changes nothing.
///
/// # Errors
/// The journal cannot be reached.
pub fn install(setup: Setup) -> io::Result<()> {
    let Setup { levels, outputs, otlp, otlp_levels, trace } = setup;
    let of_trace = trace.is_some().then(|| Levels::only(TRACE));
    let fixed: Vec<_> = otlp_levels.clone().into_iter().chain(of_trace).collect();
    let (filter, handle) = reload::Layer::new(levels.with(&fixed).targets());
    let levels = Arc::new(RwLock::new(levels));
    let outputs = Arc::new(Outputs::open(outputs, Path::new(journal::SOCKET))?);
    let otlp = otlp.map(Arc::new);
    let of_collector = otlp_levels.map_or_else(|| levels.clone(), |own| Arc::new(RwLock::new(own)));
    let collector = otlp.clone().map(|otlp| ToCollector::new(otlp, of_collector));
    let lines = ToOutputs {
        outputs: Arc::clone(&outputs),
        levels: Arc::clone(&levels),
        trace: trace.map(Traced::new),
    };
    let control = Control { levels, fixed, handle, outputs, otlp };
    let registry = tracing_subscriber::registry().with(filter).with(collector).with(lines);
    if registry.try_init().is_ok() {
        let _ = CONTROL.set(control);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::line::Format;
    use crate::outputs::{FormatFault, OutputKind};
    use crate::queue::now_ms;
    use crate::rotating::{Period, RotatingFile, Rotation};

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

    /// LGG-04: each output has its own levels.
    #[test]
    fn a_module_logs_what_any_output_wants() {
        let [a, b] = ["warn,zebu_zab=debug,zebu_zab::election=off", "error,zebu=info"]
            .map(|text| Levels::parse(text).unwrap());
        let both = a.with(std::slice::from_ref(&b));
        for target in ["x", "zebu", "zebu_server", "zebu_zab", "zebu_zab::election::x"] {
            assert_eq!(both.of(target), a.of(target).max(b.of(target)), "{target}");
            for level in [Level::ERROR, Level::WARN, Level::INFO, Level::DEBUG, Level::TRACE] {
                let is_wanted = both.want(target, level);
                assert_eq!(is_wanted, both.targets().would_enable(target, &level), "{target}");
            }
        }
        assert_eq!(a.of("zebu_zab::election::x"), LevelFilter::OFF);
        assert_eq!(shown(&a.with(&[])), shown(&a));
    }

    /// LGG-02, LGG-04, LGG-05.
    #[test]
    fn levels_and_the_format_change_while_the_process_runs() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("log");
        let rotation = Rotation { bytes_max: None, files_max: 1, every: Period::Ever };
        let file = RotatingFile::open(&path, rotation, 0).unwrap();
        let outputs = [Output::Stderr(Format::Text), Output::File(file, Format::Text)];
        let outputs = outputs.map(|output| (output, LevelFilter::TRACE)).into();
        let at_ms = now_ms();
        let prefix = dir.path().join("trace");
        let trace = Some(DailyFile::open(&prefix, 1, at_ms).unwrap());
        let traced = trace.as_ref().map(|file| file.path().to_owned()).unwrap();
        install(Setup { outputs, trace, ..Setup::default() }).unwrap();
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
        let last = || {
            let text = std::fs::read_to_string(&path).unwrap();
            text.lines().last().unwrap().to_owned()
        };
        // The other output's format does not matter.
        control.outputs().set_format(Some(OutputKind::Stderr), Format::Json).unwrap();
        tracing::warn!("as text");
        assert!(last().ends_with(": as text"), "{}", last());
        control.outputs().set_format(Some(OutputKind::File), Format::Json).unwrap();
        tracing::warn!(session = "0x1", "a\nb");
        let object: serde_json::Value = serde_json::from_str(&last()).unwrap();
        assert_eq!((&object["message"], &object["session"]), (&"a\nb".into(), &"0x1".into()));
        control.outputs().set_format(None, Format::Text).unwrap();
        tracing::warn!("as text again");
        assert!(last().ends_with(": as text again"), "{}", last());
        let journal = control.outputs().set_format(Some(OutputKind::Journald), Format::Json);
        assert_eq!(journal, Err(FormatFault::NotUsed(OutputKind::Journald)));
        // The trace has its own file. The other outputs get its lines if a level says so.
        let trace = || {
            tracing::trace!(target: TRACE, session = "0x2", "request");
            tracing::trace!(target: "zebu_other", "not traced");
            let text = std::fs::read_to_string(&traced).unwrap();
            assert!(text.lines().all(|line| line.ends_with(" zebu_trace: request")), "{text}");
            text.lines().count()
        };
        assert_eq!(trace(), 1);
        assert!(last().ends_with(": as text again"), "{}", last());
        control.set_level(TRACE, Some("trace")).unwrap();
        assert_eq!(trace(), 2);
        assert!(last().ends_with(" zebu_trace: request"), "{}", last());
        control.set_level(ROOT, Some("off")).unwrap();
        control.set_level(TRACE, Some("off")).unwrap();
        assert_eq!(trace(), 3);
        // A second `install` changes nothing.
        install(Setup::default()).unwrap();
        assert_eq!(control.outputs().formats().count(), 2);
    }
}

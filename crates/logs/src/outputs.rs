//! The outputs of the log: the standard error stream, a file and the journal, alone or together.
//!
//! A line is written on the event's own thread, so the last line before the process ends is in the
//! file.

use std::fmt;
use std::io::{self, IsTerminal as _, Write as _};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

use parking_lot::{Mutex, RwLock};
use tracing::level_filters::LevelFilter;
use tracing::{Event, Metadata, Subscriber};
use tracing_subscriber::layer::{Context, Layer};

use crate::control::{Levels, TRACE};
use crate::daily::DailyFile;
use crate::journal::Journal;
use crate::line::{self, Format, Origin, Said};
use crate::process;
use crate::queue::now_ms;
use crate::rotating::RotatingFile;

/// The target of the lines, and their format if they have one.
pub enum Output {
    /// The standard error stream.
    Stderr(Format),
    /// A file.
    File(RotatingFile, Format),
    /// The systemd journal, by its native protocol, which has fields instead of lines.
    Journald,
}

/// The kind of an output.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OutputKind {
    /// The standard error stream.
    Stderr,
    /// A file.
    File,
    /// The systemd journal.
    Journald,
}

impl OutputKind {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Stderr, Self::File, Self::Journald];

    /// The name in settings.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Stderr => "stderr",
            Self::File => "file",
            Self::Journald => "journald",
        }
    }
}

impl fmt::Display for OutputKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// The reason why a format cannot be set.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FormatFault {
    /// The log does not go there.
    #[error("the log does not go to {0}")]
    NotUsed(OutputKind),
    /// Only the journal is used.
    #[error("lines to the journal have no format")]
    NoFormat,
}

/// An output in use.
struct Sink {
    kind: OutputKind,
    /// The least severe level that it gets.
    threshold: LevelFilter,
    is_json: AtomicBool,
    to: To,
}

enum To {
    Stderr {
        color: bool,
    },
    /// The file, and whether the last write failed.
    File(Box<Mutex<(RotatingFile, bool)>>),
    Journald(Journal),
}

impl Sink {
    fn open((output, threshold): (Output, LevelFilter), journal: &Path) -> io::Result<Self> {
        let (kind, format, to) = match output {
            Output::Stderr(format) => {
                let color = io::stderr().is_terminal() && std::env::var_os("NO_COLOR").is_none();
                (OutputKind::Stderr, format, To::Stderr { color })
            }
            Output::File(file, format) => {
                (OutputKind::File, format, To::File(Box::new(Mutex::new((file, false)))))
            }
            Output::Journald => {
                (OutputKind::Journald, Format::Text, To::Journald(Journal::open(journal)?))
            }
        };
        Ok(Self { kind, threshold, is_json: AtomicBool::new(format == Format::Json), to })
    }

    /// `None`: it has no lines.
    fn format(&self) -> Option<Format> {
        let is_json = self.is_json.load(Ordering::Relaxed);
        let format = if is_json { Format::Json } else { Format::Text };
        (self.kind != OutputKind::Journald).then_some(format)
    }

    fn write(&self, origin: &Origin<'_>, metadata: &Metadata<'_>, said: &Said) {
        let line = |color| {
            let mut out = String::new();
            line::write(&mut out, self.format().unwrap_or_default(), color, origin, said);
            out
        };
        match &self.to {
            To::Stderr { color } => {
                // A failed write is ignored: the reader may have gone.
                let _ = io::stderr().write_all(line(*color).as_bytes());
            }
            To::File(file) => {
                let (file, fails) = &mut *file.lock();
                let done = file.write(line(false).as_bytes(), now_ms());
                let failure = done.err().or_else(|| file.trouble());
                tell("the log", file.path(), failure, fails);
            }
            To::Journald(journal) => {
                // A failed write is ignored: the journal may be about to start again.
                let _ = journal.write(origin, metadata, said);
            }
        }
    }
}

/// Reports the first failure of a series on the standard error stream.
fn tell(what: &str, path: &Path, failure: Option<io::Error>, fails: &mut bool) {
    if let Some(failure) = failure.as_ref().filter(|_| !*fails) {
        let path = path.display();
        let _ = writeln!(io::stderr(), "{what} {path} cannot be written: {failure}");
    }
    *fails = failure.is_some();
}

/// The file of the request trace, and whether the last write failed.
pub(crate) struct Traced(Mutex<(DailyFile, bool)>);

impl Traced {
    pub(crate) fn new(file: DailyFile) -> Self {
        Self(Mutex::new((file, false)))
    }

    fn write(&self, origin: &Origin<'_>, said: &Said) {
        let mut out = String::new();
        line::write(&mut out, Format::Text, false, origin, said);
        let (file, fails) = &mut *self.0.lock();
        let failure = file.write(out.as_bytes(), now_ms()).err().or_else(|| file.trouble());
        tell("the trace", file.path(), failure, fails);
    }
}

/// The outputs in use.
pub struct Outputs(Vec<Sink>);

impl Outputs {
    /// `journal`: the socket of the journal.
    pub(crate) fn open(outputs: Vec<(Output, LevelFilter)>, journal: &Path) -> io::Result<Self> {
        let sinks = outputs.into_iter().map(|output| Sink::open(output, journal));
        Ok(Self(sinks.collect::<io::Result<_>>()?))
    }

    /// Each output with the format of its lines; `None` if they have no format.
    pub fn formats(&self) -> impl Iterator<Item = (OutputKind, Option<Format>)> {
        self.0.iter().map(|sink| (sink.kind, sink.format()))
    }

    /// Whether `set_format` would change a format.
    ///
    /// # Errors
    /// It would not.
    pub fn check_format(&self, kind: Option<OutputKind>) -> Result<(), FormatFault> {
        let mut formats = self.formats().filter(|(it, _)| kind.is_none_or(|kind| *it == kind));
        match kind {
            Some(kind) if formats.next().is_none() => Err(FormatFault::NotUsed(kind)),
            Some(OutputKind::Journald) => Err(FormatFault::NoFormat),
            None if formats.all(|(_, format)| format.is_none()) => Err(FormatFault::NoFormat),
            _ => Ok(()),
        }
    }

    /// Changes the format of the lines to one output, or to all that have lines.
    ///
    /// # Errors
    /// There is no such output.
    pub fn set_format(&self, kind: Option<OutputKind>, format: Format) -> Result<(), FormatFault> {
        self.check_format(kind)?;
        for sink in self.0.iter().filter(|sink| kind.is_none_or(|kind| sink.kind == kind)) {
            sink.is_json.store(format == Format::Json, Ordering::Relaxed);
        }
        Ok(())
    }
}

/// Gives events to the outputs and to the file of the trace.
pub(crate) struct ToOutputs {
    pub(crate) outputs: Arc<Outputs>,
    /// The levels of the outputs.
    pub(crate) levels: Arc<RwLock<Levels>>,
    pub(crate) trace: Option<Traced>,
}

impl<S: Subscriber> Layer<S> for ToOutputs {
    fn on_event(&self, event: &Event<'_>, _: Context<'_, S>) {
        let metadata = event.metadata();
        let (target, level) = (metadata.target(), *metadata.level());
        let trace = self.trace.as_ref().filter(|_| target == TRACE);
        let is_wanted = self.levels.read().want(target, level);
        if trace.is_none() && !is_wanted {
            return;
        }
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let thread = std::thread::current();
        let origin = Origin {
            wall_us: i64::try_from(since.as_micros()).unwrap_or(i64::MAX),
            level,
            target,
            thread: thread.name().unwrap_or("-"),
            facts: process::facts(),
        };
        let said = Said::of(event);
        if let Some(trace) = trace {
            trace.write(&origin, &said);
        }
        if is_wanted {
            for sink in self.outputs.0.iter().filter(|sink| level <= sink.threshold) {
                sink.write(&origin, metadata, &said);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use tracing_subscriber::layer::SubscriberExt as _;

    use super::*;
    use crate::rotating::{Period, Rotation};

    /// LGG-04.
    #[test]
    fn an_output_gets_no_line_below_its_threshold() {
        let dir = tempfile::tempdir().unwrap();
        let file = |name: &str| {
            let rotation = Rotation { bytes_max: None, files_max: 1, every: Period::Ever };
            let file = RotatingFile::open(&dir.path().join(name), rotation, 0).unwrap();
            Output::File(file, Format::Text)
        };
        let outputs = vec![
            (file("all"), LevelFilter::TRACE),
            (file("severe"), LevelFilter::WARN),
            (file("none"), LevelFilter::OFF),
        ];
        let outputs = Arc::new(Outputs::open(outputs, Path::new("/nowhere")).unwrap());
        let levels = Arc::new(RwLock::new(Levels::parse("info").unwrap()));
        let layer = ToOutputs { outputs, levels, trace: None };
        tracing::subscriber::with_default(tracing_subscriber::registry().with(layer), || {
            tracing::error!("one");
            tracing::warn!("two");
            tracing::info!("three");
            tracing::debug!("four");
        });
        let lines =
            |name: &str| std::fs::read_to_string(dir.path().join(name)).unwrap().lines().count();
        assert_eq!(["all", "severe", "none"].map(lines), [3, 2, 0]);
    }
}

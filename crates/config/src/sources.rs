//! The sources of settings, and their precedence.
//!
//! Weakest first: built-in default, `SERVER_JVMFLAGS`, `JVMFLAGS`, `-D` on the command line,
//! `zoo.cfg` (CFG-02: the file beats the property), `--set`. The order of the two variables is that
//! of the original's start script, which puts `SERVER_JVMFLAGS` in front of `JVMFLAGS`, so that a
//! later `-D` wins.

use std::collections::BTreeMap;
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use zebu_proto::properties;

use super::jvm_flags;
use super::registry::{self, Property, Setting};
use super::{Level, Note, Problem};

/// The variables that hold `-D` words, weakest first.
pub const VARIABLES: [&str; 2] = ["SERVER_JVMFLAGS", "JVMFLAGS"];

/// The values of [`VARIABLES`] in the environment of this process, by name.
pub fn variables() -> Vec<(&'static str, String)> {
    let value = |name| std::env::var_os(name).map(|value| value.to_string_lossy().into_owned());
    VARIABLES.into_iter().filter_map(|name| Some((name, value(name)?))).collect()
}

/// The form of the command line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Start {
    /// Without arguments: 127.0.0.1:2181, data in `./zebu-data`.
    Defaults,
    /// `zoo.cfg`.
    File(PathBuf),
    /// `<port> <datadir> [tickTime] [maxClientCnxns]`.
    Arguments {
        /// Client port.
        port: String,
        /// Data directory.
        data_dir: String,
        /// Tick in ms.
        tick_time: Option<String>,
        /// Connections per address; 0 (no limit) by default.
        max_client_cnxns: Option<String>,
    },
}

/// Reads a file. Tests provide a map.
pub type ReadFile<'a> = &'a dyn Fn(&Path) -> io::Result<Vec<u8>>;

/// The input of a configuration.
pub struct Sources<'a> {
    /// The form of the command line.
    pub start: Start,
    /// Values of [`VARIABLES`] that are set, by name.
    pub variables: Vec<(&'static str, String)>,
    /// `name=value` of each `-D`.
    pub defines: Vec<String>,
    /// `key=value` of each `--set`.
    pub sets: Vec<String>,
    /// Access to files.
    pub read: ReadFile<'a>,
}

/// The position of a value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Origin {
    /// Built in.
    Default,
    /// An environment variable.
    Environment(&'static str),
    /// `-D` on the command line.
    Define,
    /// A file.
    File {
        /// The path as it was given.
        path: Arc<Path>,
        /// The line, counted from 1; 0 is the whole file.
        line: u32,
    },
    /// `<port> <datadir> ...` on the command line.
    Arguments,
    /// `--set`.
    Set,
}

impl Origin {
    /// Sorts sources by strength and the lines of a file by number.
    pub(super) fn order(&self) -> (u8, Option<Arc<Path>>, u32) {
        match self {
            // A missing value sorts after all others.
            Self::Default => (6, None, 0),
            Self::Environment(_) => (1, None, 0),
            Self::Define => (2, None, 0),
            Self::File { path, line } => (3, Some(Arc::clone(path)), *line),
            Self::Arguments => (4, None, 0),
            Self::Set => (5, None, 0),
        }
    }
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Default => f.write_str("default"),
            Self::Environment(name) => f.write_str(name),
            Self::Define => f.write_str("-D"),
            Self::File { path, line: 0 } => write!(f, "{}", path.display()),
            Self::File { path, line } => write!(f, "{}:{line}", path.display()),
            Self::Arguments => f.write_str("command line"),
            Self::Set => f.write_str("--set"),
        }
    }
}

/// Possible meanings of a name.
const MY_ID: &str = "myid";

/// A known setting with a value.
#[derive(Debug, Clone)]
pub(super) struct Given {
    pub(super) setting: &'static Setting,
    /// The name in `zoo.cfg`; differs from `setting.key` in families.
    pub(super) key: String,
    /// The name in the source.
    pub(super) name: String,
    /// The value without surrounding blanks. It is private, so that no code prints a secret by
    /// accident.
    value: String,
    pub(super) origin: Origin,
}

impl Given {
    pub(super) fn value(&self) -> &str {
        &self.value
    }

    /// The value for output; a secret is masked.
    pub(super) fn shown(&self) -> &str {
        if self.setting.is_secret(&self.key) { super::secret::MASK } else { &self.value }
    }
}

/// All values found, merged.
#[derive(Default)]
pub(super) struct Merged {
    /// The strongest value of each key.
    pub(super) given: BTreeMap<String, Given>,
    pub(super) problems: Vec<Problem>,
    pub(super) notes: Vec<Note>,
    /// Properties of other programs or of a JVM, and their positions.
    foreign: Vec<String>,
    /// The configuration file could not be read, so missing settings prove nothing.
    pub(super) is_file_lost: bool,
    /// The configuration file, if there is one. Each file is read once.
    pub(super) file: Option<Vec<u8>>,
}

impl Merged {
    /// Sources must be added from the weakest to the strongest.
    fn add(
        &mut self,
        setting: &'static Setting,
        key: &str,
        name: &str,
        value: &str,
        origin: Origin,
    ) {
        let given = Given {
            setting,
            key: key.to_owned(),
            name: name.to_owned(),
            value: value.trim().to_owned(),
            origin,
        };
        if let Some(weaker) = self.given.get(key) {
            // Overriding a default, or one -D by another, is not reported.
            let is_news = matches!(given.origin, Origin::File { .. })
                && matches!(weaker.origin, Origin::Define | Origin::Environment(_))
                && weaker.value != given.value;
            if is_news {
                self.notes.push(Note::warn(format!(
                    "{}: {} overrides {} of {}",
                    given.origin, given.name, weaker.name, weaker.origin
                )));
            }
        }
        self.given.insert(key.to_owned(), given);
    }

    fn unknown(&mut self, origin: &Origin, name: &str) {
        let hint = match registry::near(name) {
            None if name == MY_ID => {
                format!("\nhint: the file {MY_ID} in dataDir contains the number of the server")
            }
            Some(near) => format!("\nhint: did you mean {near}?"),
            None => String::new(),
        };
        self.notes.push(Note {
            level: Level::Warn,
            text: format!("{origin}: {name} is no known setting and has no effect{hint}"),
            is_unknown_key: true,
        });
    }

    fn define(&mut self, name: &str, value: &str, origin: Origin) {
        if let Some((setting, key)) = registry::by_property(name) {
            self.add(setting, key, name, value, origin);
            return;
        }
        // A known setting under a wrong name: the message gives the right one.
        let bare = name.strip_prefix(registry::PREFIX);
        match registry::by_key(bare.unwrap_or(name)) {
            Some(setting) if setting.property == Property::None => self.notes.push(Note::warn(format!(
                "{origin}: {name} has no effect: this key is read from the configuration file only\nhint: use --set {}=...",
                bare.unwrap_or(name),
            ))),
            Some(setting) if !setting.key.ends_with('*') => {
                let right = setting.property_name().unwrap_or_default();
                self.notes.push(Note::warn(format!(
                    "{origin}: {name} has no effect\nhint: the property is called {right}"
                )));
            }
            _ if bare.is_some() => self.unknown(&origin, name),
            // Properties of other programs: log4j, java.net, com.sun.management, ... Values may be
            // secrets.
            _ => self.foreign.push(format!("{name} ({origin})")),
        }
    }

    fn file(&mut self, path: &Path, read: ReadFile<'_>) {
        let path: Arc<Path> = Arc::from(path);
        let at = |line| Origin::File { path: Arc::clone(&path), line };
        let bytes = match read(&path) {
            Ok(bytes) => bytes,
            Err(fault) => {
                self.problems
                    .push(Problem::new(at(0), format!("cannot read configuration file: {fault}")));
                self.is_file_lost = true;
                return;
            }
        };
        let parsed = properties::parse(&bytes);
        self.file = Some(bytes);
        let parsed = match parsed {
            Ok(parsed) => parsed,
            Err(fault) => {
                self.problems.push(Problem::new(at(fault.line()), fault.to_string()));
                self.is_file_lost = true;
                return;
            }
        };
        for old in &parsed.replaced {
            self.notes.push(Note::warn(format!(
                "{}: {} is set again further down, which wins",
                at(old.line),
                old.key
            )));
        }
        for property in parsed.entries {
            let key = property.key.trim();
            match registry::by_key(key) {
                Some(setting) => self.add(setting, key, key, &property.value, at(property.line)),
                None => self.unknown(&at(property.line), key),
            }
        }
    }

    fn set(&mut self, assignment: &str) {
        let Some((key, value)) = assignment.split_once('=') else {
            self.problems
                .push(Problem::new(Origin::Set, format!("{assignment}: expected key=value")));
            return;
        };
        let key = key.trim();
        match registry::by_key(key) {
            Some(setting) => self.add(setting, key, key, value, Origin::Set),
            None => {
                let mut text = format!("{key} is no known setting");
                if let Some(near) = registry::near(key) {
                    text.push_str(&format!("\nhint: did you mean {near}?"));
                }
                self.problems.push(Problem::new(Origin::Set, text));
            }
        }
    }

    /// The settings that a form of the command line implies.
    fn implied(&mut self, key: &str, value: &str, origin: Origin) {
        if let Some(setting) = registry::by_key(key) {
            self.add(setting, key, key, value, origin);
        }
    }
}

/// Reads all sources.
pub(super) fn merge(sources: &Sources<'_>) -> Merged {
    let mut merged = Merged::default();
    if sources.start == Start::Defaults {
        merged.implied("clientPort", "2181", Origin::Default);
        merged.implied("clientPortAddress", "127.0.0.1", Origin::Default);
        merged.implied("dataDir", "./zebu-data", Origin::Default);
    }
    let mut ignored = Vec::new();
    for name in VARIABLES {
        let Some((_, text)) = sources.variables.iter().find(|(variable, _)| *variable == name)
        else {
            continue;
        };
        let flags = jvm_flags::parse(text);
        for (property, value) in &flags.defines {
            merged.define(property, value, Origin::Environment(name));
        }
        for word in &flags.stray {
            merged
                .notes
                .push(Note::warn(format!("{name}: {word} is neither -Dname=value nor a JVM flag")));
        }
        ignored.extend(flags.ignored);
    }
    if !ignored.is_empty() {
        merged.notes.push(Note::info(format!(
            "JVM flags without meaning here, ignored: {}",
            ignored.join(" ")
        )));
    }
    for define in &sources.defines {
        let (name, value) = jvm_flags::define_pair(define);
        merged.define(&name, &value, Origin::Define);
    }
    if !merged.foreign.is_empty() {
        merged.notes.push(Note::info(format!(
            "properties without effect in this server: {}",
            merged.foreign.join(", ")
        )));
    }
    match &sources.start {
        Start::Defaults => {}
        Start::File(path) => merged.file(path, sources.read),
        Start::Arguments { port, data_dir, tick_time, max_client_cnxns } => {
            merged.implied("clientPort", port, Origin::Arguments);
            merged.implied("dataDir", data_dir, Origin::Arguments);
            if let Some(tick_time) = tick_time {
                merged.implied("tickTime", tick_time, Origin::Arguments);
            }
            let connections = max_client_cnxns.as_deref().unwrap_or("0");
            merged.implied("maxClientCnxns", connections, Origin::Arguments);
        }
    }
    for assignment in &sources.sets {
        merged.set(assignment);
    }
    merged
}

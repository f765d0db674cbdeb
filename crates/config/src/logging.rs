//! The settings of the logs: the log of the process and the audit log.

use std::path::PathBuf;

use zebu_https::given::{self, GivenFault};

use super::build::Reader;
use super::settings::{
    FileConfig, FilePeriod, LogOutput, LogTarget, LoggingConfig, OtlpConfig, TraceConfig,
};
use super::sources::Given;
use super::value;

/// The default address of an OpenTelemetry collector for logs.
const OTLP_PATH: &str = "/v1/logs";
/// The formats of log lines.
const FORMATS: [&str; 2] = ["text", "json"];
/// The levels of log lines.
const LEVELS: [&str; 5] = ["error", "warn", "info", "debug", "trace"];
/// The outputs of the log.
const OUTPUTS: [&str; 3] = [STDERR, FILE, JOURNALD];
const STDERR: &str = "stderr";
const FILE: &str = "file";
const JOURNALD: &str = "journald";

fn known(words: &'static [&'static str], text: &str, what: &str) -> Result<&'static str, String> {
    let fault = || format!("{text:?} is not {what}: {}", words.join(", "));
    value::choice(words, text).ok_or_else(fault)
}

/// The names of outputs between commas.
fn names(text: &str) -> Result<Vec<&'static str>, String> {
    let mut names = Vec::new();
    for part in text.split(',') {
        let name = known(&OUTPUTS, part.trim(), "an output")?;
        if names.contains(&name) {
            return Err(format!("{name} is there twice"));
        }
        names.push(name);
    }
    Ok(names)
}

/// A word for all outputs, and words for single ones.
#[derive(Debug, Default)]
struct ByOutput {
    /// For outputs without a word of their own.
    common: Option<&'static str>,
    own: Vec<(&'static str, &'static str)>,
}

impl ByOutput {
    /// Reads `json`, or `text,file=json`, for these outputs. `what`: the meaning of a word.
    fn read(
        text: &str,
        outputs: &[&'static str],
        (words, what): (&'static [&'static str], &str),
    ) -> Result<Self, String> {
        let mut read = Self::default();
        for part in text.split(',') {
            let (name, word) = match part.split_once('=') {
                Some((name, word)) => {
                    (Some(known(&OUTPUTS, name.trim(), "an output")?), word.trim())
                }
                None => (None, part.trim()),
            };
            let word = known(words, word, &format!("a {what}"))?;
            match name {
                Some(name) if !outputs.contains(&name) => {
                    return Err(format!("zebu.log.to does not name {name}"));
                }
                Some(name) if read.of(name).is_some() => {
                    return Err(format!("{name} has two {what}s"));
                }
                Some(name) => read.own.push((name, word)),
                None if read.common.replace(word).is_some() => {
                    return Err(format!("there are two {what}s for all outputs"));
                }
                None => {}
            }
        }
        Ok(read)
    }

    /// The own word of an output.
    fn of(&self, output: &str) -> Option<&'static str> {
        self.own.iter().find(|(name, _)| *name == output).map(|(_, word)| *word)
    }

    fn get(&self, output: &str) -> Option<&'static str> {
        self.of(output).or(self.common)
    }
}

/// The formats of these outputs.
fn formats(text: &str, outputs: &[&'static str]) -> Result<ByOutput, String> {
    let formats = ByOutput::read(text, outputs, (&FORMATS, "format"))?;
    match formats.of(JOURNALD) {
        Some(_) => Err("entries of journald have no format".to_owned()),
        None => Ok(formats),
    }
}

impl Reader<'_> {
    /// A file of this name, in `log.dir`.
    fn rotating(
        &self,
        name: &'static str,
        [megabytes, files, rotate]: [&'static str; 3],
    ) -> FileConfig {
        let dir = PathBuf::from(self.value("log.dir").unwrap_or_default());
        FileConfig {
            path: dir.join(self.value(name).unwrap_or_default()),
            bytes_max: u64::from(self.count(megabytes)) << 20,
            files_max: self.count(files),
            period: match self.choice(rotate) {
                "hourly" => FilePeriod::Hour,
                "daily" => FilePeriod::Day,
                _ => FilePeriod::Ever,
            },
        }
    }

    fn levels(&self, key: &'static str) -> Option<String> {
        let levels = self.text(key)?;
        if let Some(fault) = value::levels_fault(&levels) {
            self.problem(key, format!("{key}={levels}: {fault}"));
        }
        Some(levels)
    }

    fn trace(&self, files_max: u32) -> Option<TraceConfig> {
        let [file, property] = ["traceFile", "requestTraceFile"].map(|key| self.text(key));
        if let (Some(file), Some(property)) = (&file, &property)
            && file != property
        {
            let text = format!("traceFile={file}: requestTraceFile={property} names another file");
            self.problem("traceFile", text);
        }
        let path = PathBuf::from(file.or(property)?);
        if path.file_name().is_none() {
            let text = format!("{}: the name of a file is expected", path.display());
            self.problem("traceFile", text);
        }
        Some(TraceConfig { path, files_max })
    }

    fn otlp(&self) -> Option<OtlpConfig> {
        let read = |key, read: &dyn Fn(&str) -> Result<(), GivenFault>| {
            let text = self.text(key)?;
            if let Err(fault) = read(&text) {
                let shown = self.given(key).map_or("", Given::shown);
                self.problem(key, format!("{key}={shown}: {fault}"));
            }
            Some(text)
        };
        let endpoint =
            read("zebu.log.otlp.endpoint", &|it| given::address(it, OTLP_PATH).map(drop));
        let headers = read("zebu.log.otlp.headers", &|it| given::headers(it).map(drop));
        let attributes = read("zebu.log.otlp.attributes", &|it| given::pairs(it).map(drop));
        let levels = self.levels("zebu.log.otlp.level");
        // An error was reported, so its configuration is not used.
        Some(OtlpConfig {
            endpoint: given::address(&endpoint?, OTLP_PATH).ok()?,
            headers: given::headers(&headers.unwrap_or_default()).ok()?,
            attributes: given::pairs(&attributes.unwrap_or_default()).ok()?,
            levels,
        })
    }

    pub(super) fn logging(&self) -> LoggingConfig {
        let keys = ["zebu.log.fileMegabytes", "zebu.log.files", "zebu.log.rotate"];
        let file = self.rotating("log.file", keys);
        let levels = self.levels("zebu.log.level");
        let slow_request = self.ms("zebu.slowRequest.millis");
        LoggingConfig {
            slow_request: (!slow_request.is_zero()).then_some(slow_request),
            levels,
            outputs: self.outputs(&file),
            otlp: self.otlp(),
            trace: self.trace(file.files_max),
        }
    }

    /// `zebu.log.to`, `zebu.log.format` and `zebu.log.threshold`.
    fn outputs(&self, file: &FileConfig) -> Vec<LogOutput> {
        let report = |key, text: &str, fault: &str| {
            self.problem(key, format!("{key}={text}: {fault}"));
        };
        let text = self.value("zebu.log.to").unwrap_or_default();
        let names = names(text).unwrap_or_else(|fault| {
            report("zebu.log.to", text, &fault);
            vec![STDERR]
        });
        let text = self.value("zebu.log.format").unwrap_or_default();
        let formats = formats(text, &names).unwrap_or_else(|fault| {
            report("zebu.log.format", text, &fault);
            ByOutput::default()
        });
        let thresholds = self.text("zebu.log.threshold").map_or_else(ByOutput::default, |text| {
            ByOutput::read(&text, &names, (&LEVELS, "level")).unwrap_or_else(|fault| {
                report("zebu.log.threshold", &text, &fault);
                ByOutput::default()
            })
        });
        let output = |name| {
            let is_json = formats.get(name) == Some("json");
            let to = match name {
                FILE => LogTarget::File { file: file.clone(), is_json },
                JOURNALD => LogTarget::Journald,
                _ => LogTarget::Stderr { is_json },
            };
            LogOutput { to, threshold: thresholds.get(name) }
        };
        names.into_iter().map(output).collect()
    }

    pub(super) fn audit(&self) -> Option<FileConfig> {
        // Any other value was refused before, or writes the same lines.
        self.given("audit.impl.class");
        let keys = ["zebu.audit.fileMegabytes", "zebu.audit.files", "zebu.audit.rotate"];
        let file = self.rotating("auditlog.file", keys);
        self.is_on("audit.enable").then_some(file)
    }
}

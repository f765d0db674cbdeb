//! The log over HTTP: shows the loggers with their levels, and changes levels and the format.
//!
//! Operators of the original do this with JMX and the beans of its logging library.

use std::collections::HashMap;

use zebu_logs::control::{Control, LevelFault};
use zebu_logs::line::Format;
use zebu_logs::outputs::{FormatFault, OutputKind};

use crate::json::Json;

/// The path.
pub const URL: &str = "/loggers";

/// Why the log is not shown, or not changed.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum LoggersFault {
    /// An application has set up its own log.
    #[error("the log of this process was not set up by the server")]
    NotOurs,
    /// There is no such argument.
    #[error("{0:?} is not an argument: logger, level, format, output")]
    Argument(String),
    /// There is no such format.
    #[error("{0:?} is not a format: text, json")]
    Format(String),
    /// There is no such output.
    #[error("{0:?} is not an output: {names}", names = OutputKind::ALL.map(OutputKind::name).join(", "))]
    Output(String),
    /// An output without its format.
    #[error("output=file needs a format, as in output=file&format=json")]
    OutputAlone,
    /// The output is not in use, or has no format.
    #[error(transparent)]
    NoFormat(#[from] FormatFault),
    /// The logger or its level is invalid.
    #[error("{}", .0.to_string().replace('\n', "; "))]
    Level(#[from] LevelFault),
    /// The arguments ask for nothing.
    #[error("logger=zebu_zab&level=debug, or format=json, is expected")]
    Nothing,
}

/// The loggers with their levels, the outputs with the formats of their lines, and the format that
/// these have in common.
///
/// # Errors
/// The log belongs to the application.
pub fn list(control: Option<&Control>) -> Result<Json, LoggersFault> {
    let control = control.ok_or(LoggersFault::NotOurs)?;
    let levels = control.levels();
    let levels = levels.all().map(|(logger, level)| (logger.to_owned(), level.into()));
    let outputs = control.outputs().formats();
    let outputs = outputs.map(|(kind, format)| (kind.name().to_owned(), name(format))).collect();
    let mut formats = control.outputs().formats().filter_map(|(_, format)| format);
    let first = formats.next();
    let common = first.filter(|first| formats.all(|format| format == *first));
    Ok(Json::object([
        ("loggers", Json::Object(levels.collect())),
        ("format", name(common)),
        ("outputs", Json::Object(outputs)),
    ]))
}

fn name(format: Option<Format>) -> Json {
    match format {
        Some(Format::Text) => "text".into(),
        Some(Format::Json) => "json".into(),
        None => Json::Null,
    }
}

/// Applies the arguments `logger` and `level`, or `format` for all outputs, or `format` and
/// `output`. Returns the new list.
///
/// # Errors
/// The arguments are invalid, and nothing was changed.
pub fn change(
    control: Option<&Control>,
    arguments: &HashMap<String, String>,
) -> Result<Json, LoggersFault> {
    let ours = control.ok_or(LoggersFault::NotOurs)?;
    let argument = |name: &str| arguments.get(name).map(String::as_str);
    if let Some(other) =
        arguments.keys().find(|it| !["logger", "level", "format", "output"].contains(&&***it))
    {
        return Err(LoggersFault::Argument(other.clone()));
    }
    let format = match argument("format") {
        None => None,
        Some("text") => Some(Format::Text),
        Some("json") => Some(Format::Json),
        Some(other) => return Err(LoggersFault::Format(other.to_owned())),
    };
    let output = match argument("output") {
        None => None,
        Some(_) if format.is_none() => return Err(LoggersFault::OutputAlone),
        Some(text) => Some(output(text)?),
    };
    if format.is_some() {
        ours.outputs().check_format(output)?;
    }
    match (argument("logger"), argument("level")) {
        (Some(logger), Some("default")) => ours.set_level(logger, None)?,
        (Some(logger), Some(level)) => ours.set_level(logger, Some(level))?,
        (None, None) if format.is_some() => {}
        _ => return Err(LoggersFault::Nothing),
    }
    if let Some(format) = format {
        ours.outputs().set_format(output, format)?;
    }
    list(control)
}

fn output(text: &str) -> Result<OutputKind, LoggersFault> {
    let known = OutputKind::ALL.iter().find(|it| it.name() == text);
    known.copied().ok_or_else(|| LoggersFault::Output(text.to_owned()))
}

#[cfg(test)]
mod tests {
    use tracing::level_filters::LevelFilter;
    use zebu_logs::control::{Levels, Setup, control, install};
    use zebu_logs::outputs::Output;
    use zebu_logs::rotating::{Period, RotatingFile, Rotation};

    use super::*;

    #[test]
    fn levels_are_listed_and_changed_and_faults_change_nothing() {
        assert_eq!(list(None), Err(LoggersFault::NotOurs));
        assert!(change(None, &HashMap::new()).is_err());
        let levels = Levels::parse("warn,zebu_zab=debug").unwrap();
        let dir = tempfile::tempdir().unwrap();
        let rotation = Rotation { bytes_max: None, files_max: 1, every: Period::Ever };
        let file = RotatingFile::open(&dir.path().join("log"), rotation, 0).unwrap();
        let outputs = [Output::Stderr(Format::Text), Output::File(file, Format::Text)];
        let outputs = outputs.map(|output| (output, LevelFilter::TRACE)).into();
        install(Setup { levels, outputs, ..Setup::default() }).unwrap();
        let shown = || {
            let text = list(control()).unwrap().to_string();
            text.split_whitespace().collect::<String>()
        };
        let before = r#"{"loggers":{"ROOT":"WARN","zebu_zab":"DEBUG"},"format":"text","outputs":{"stderr":"text","file":"text"}}"#;
        assert_eq!(shown(), before);
        let ask = |text: &str| {
            let pairs = text.split('&').filter_map(|pair| pair.split_once('='));
            let arguments = pairs.map(|(name, value)| (name.to_owned(), value.to_owned()));
            change(control(), &arguments.collect())
        };
        for wrong in [
            "logger=ROOT&level=loud&format=json",
            "logger=a b&level=info",
            "level=info",
            "logger=zebu",
            "format=xml",
            "format=json&output=tape",
            "format=json&output=journald",
            "output=file",
            "colour=red",
            "",
        ] {
            assert!(ask(wrong).is_err(), "{wrong}");
        }
        assert_eq!(shown(), before);
        ask("logger=zebu_zab&level=default").unwrap();
        ask("logger=zebu_server::clients&level=off&format=json").unwrap();
        ask("logger=ROOT&level=Error").unwrap();
        assert_eq!(
            shown(),
            r#"{"loggers":{"ROOT":"ERROR","zebu_server::clients":"OFF"},"format":"json","outputs":{"stderr":"json","file":"json"}}"#
        );
        ask("format=text&output=file").unwrap();
        assert!(
            shown().ends_with(r#""format":null,"outputs":{"stderr":"json","file":"text"}}"#),
            "{}",
            shown()
        );
    }
}

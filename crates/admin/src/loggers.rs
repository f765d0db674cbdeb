//! The log over HTTP: shows the loggers with their levels, and changes levels and the format.
//!
//! Operators of the original do this with JMX and the beans of its logging library.

use std::collections::HashMap;

use zebu_logs::control::Control;
use zebu_logs::line::Format;

use crate::json::Json;

/// The path.
pub const URL: &str = "/loggers";

/// The answer if an application has set up its own log.
const NOT_OURS: &str = "the log of this process was not set up by the server";

/// The loggers with their levels, and the format of lines.
///
/// # Errors
/// The log belongs to the application.
pub fn list(control: Option<&Control>) -> Result<Json, String> {
    let control = control.ok_or_else(|| NOT_OURS.to_owned())?;
    let levels = control.levels();
    let levels = levels.all().map(|(logger, level)| (logger.to_owned(), level.into()));
    let format = match control.format() {
        Some(Format::Text) => "text".into(),
        Some(Format::Json) => "json".into(),
        None => Json::Null,
    };
    Ok(Json::object([("loggers", Json::Object(levels.collect())), ("format", format)]))
}

/// Applies the arguments `logger` and `level`, or `format`. Returns the new list.
///
/// # Errors
/// The arguments are invalid, and nothing was changed.
pub fn change(
    control: Option<&Control>,
    arguments: &HashMap<String, String>,
) -> Result<Json, String> {
    let ours = control.ok_or_else(|| NOT_OURS.to_owned())?;
    let argument = |name: &str| arguments.get(name).map(String::as_str);
    if let Some(other) =
        arguments.keys().find(|it| !["logger", "level", "format"].contains(&&***it))
    {
        return Err(format!("{other:?} is not an argument: logger, level, format"));
    }
    let format = match argument("format") {
        None => None,
        Some("text") => Some(Format::Text),
        Some("json") => Some(Format::Json),
        Some(other) => return Err(format!("{other:?} is not a format: text, json")),
    };
    if format.is_some() && ours.format().is_none() {
        return Err("lines to the journal have no format".to_owned());
    }
    match (argument("logger"), argument("level")) {
        (Some(logger), Some("default")) => ours.set_level(logger, None),
        (Some(logger), Some(level)) => ours.set_level(logger, Some(level)),
        (None, None) if format.is_some() => Ok(()),
        _ => {
            let remedy = "logger=zebu_zab&level=debug, or format=json, is expected";
            return Err(remedy.to_owned());
        }
    }
    .map_err(|fault| fault.to_string().replace('\n', "; "))?;
    if let Some(format) = format {
        ours.set_format(format);
    }
    list(control)
}

#[cfg(test)]
mod tests {
    use zebu_logs::control::{Levels, Output, control, install};

    use super::*;

    #[test]
    fn levels_are_listed_and_changed_and_faults_change_nothing() {
        assert_eq!(list(None), Err(NOT_OURS.to_owned()));
        assert!(change(None, &HashMap::new()).is_err());
        let levels = Levels::parse("warn,zebu_zab=debug").unwrap();
        install(levels, Format::Text, Output::Stderr, None).unwrap();
        let shown = || {
            let text = list(control()).unwrap().to_string();
            text.split_whitespace().collect::<String>()
        };
        let before = r#"{"loggers":{"ROOT":"WARN","zebu_zab":"DEBUG"},"format":"text"}"#;
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
            r#"{"loggers":{"ROOT":"ERROR","zebu_server::clients":"OFF"},"format":"json"}"#
        );
    }
}

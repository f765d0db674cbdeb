//! Lines of the server's log, as text or as JSON.

use std::fmt::{self, Write as _};

use jiff::Timestamp;
use tracing::field::{Field, Visit};
use tracing::{Event, Level};

use crate::escape::Escaped;
use crate::process::Facts;

/// The format of lines.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Format {
    /// Text, for people.
    #[default]
    Text,
    /// One JSON object a line, for programs.
    Json,
}

/// Fields that the message text already contains: JSON shows them as fields, too, text does not
/// repeat them.
const NAMED_BY_MESSAGE: [&str; 2] = ["session", "connection"];

/// The message and the fields of an event.
#[derive(Debug, Default)]
pub struct Said {
    message: String,
    fields: Vec<(&'static str, String)>,
}

impl Said {
    /// Collects message and fields of an event.
    pub fn of(event: &Event<'_>) -> Self {
        let mut said = Self::default();
        event.record(&mut said);
        said
    }

    /// The message.
    pub fn message(&self) -> &str {
        &self.message
    }

    /// The fields, without the message.
    pub fn fields(&self) -> &[(&'static str, String)] {
        &self.fields
    }
}

impl Visit for Said {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        let text = format!("{value:?}");
        if field.name() == "message" {
            self.message = text;
        } else {
            self.fields.push((field.name(), text));
        }
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        self.record_debug(field, &format_args!("{value}"));
    }
}

/// Origin and time of an event.
#[derive(Clone, Copy, Debug)]
pub struct Origin<'o> {
    /// Time in microseconds since the Unix epoch.
    pub wall_us: i64,
    /// The level.
    pub level: Level,
    /// The module.
    pub target: &'o str,
    /// The thread.
    pub thread: &'o str,
    /// The server's id and role, as far as known.
    pub facts: Facts,
}

/// Appends a line for an event, with its line end. `color`: whether to colour the level.
pub fn write(out: &mut String, format: Format, color: bool, origin: &Origin<'_>, said: &Said) {
    // Writing to a string cannot fail.
    let _ = match format {
        Format::Text => text(out, color, origin, said),
        Format::Json => json(out, origin, said),
    };
    out.push('\n');
}

fn time(wall_us: i64) -> impl fmt::Display {
    let at = Timestamp::from_microsecond(wall_us).unwrap_or(Timestamp::UNIX_EPOCH);
    at.strftime("%Y-%m-%dT%H:%M:%S.%6fZ").to_string()
}

fn text(out: &mut String, color: bool, origin: &Origin<'_>, said: &Said) -> fmt::Result {
    let Origin { wall_us, level, target, thread, facts } = *origin;
    write!(out, "{} ", time(wall_us))?;
    let code = match level {
        Level::ERROR => 31,
        Level::WARN => 33,
        Level::INFO => 32,
        Level::DEBUG => 34,
        _ => 35,
    };
    match color {
        true => write!(out, "\u{1b}[{code}m{level:>5}\u{1b}[0m ")?,
        false => write!(out, "{level:>5} ")?,
    }
    let of_process = |out: &mut String| match (facts.server, facts.role) {
        (Some(id), Some(role)) => write!(out, "myid:{id} {role}"),
        (Some(id), None) => write!(out, "myid:{id}"),
        (None, Some(role)) => write!(out, "{role}"),
        (None, None) => write!(out, "starting"),
    };
    out.push('[');
    of_process(out)?;
    write!(out, "] [{}] {target}: {}", Escaped(thread), Escaped(&said.message))?;
    for (name, value) in &said.fields {
        if !NAMED_BY_MESSAGE.contains(name) {
            write!(out, " {name}={}", Escaped(value))?;
        }
    }
    Ok(())
}

fn json(out: &mut String, origin: &Origin<'_>, said: &Said) -> fmt::Result {
    let Origin { wall_us, level, target, thread, facts } = *origin;
    write!(out, "{{\"time\":\"{}\",\"level\":\"{level}\"", time(wall_us))?;
    if let Some(id) = facts.server {
        write!(out, ",\"myid\":{id}")?;
    }
    let role = facts.role.map(|role| ("role", role));
    let own = [("thread", thread), ("logger", target)].into_iter().chain(role);
    let fields = said.fields.iter().map(|(name, value)| (*name, value.as_str()));
    for (name, value) in own.chain(fields).chain([("message", said.message.as_str())]) {
        write!(out, ",\"{name}\":")?;
        string(out, value)?;
    }
    out.push('}');
    Ok(())
}

/// A JSON string in which all characters that may end a line are escaped.
fn string(out: &mut String, text: &str) -> fmt::Result {
    out.push('"');
    for it in text.chars() {
        match it {
            '"' | '\\' => write!(out, "\\{it}")?,
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            it if it.is_control() || matches!(it, '\u{2028}' | '\u{2029}') => {
                write!(out, "\\u{:04x}", u32::from(it))?;
            }
            it => out.push(it),
        }
    }
    out.push('"');
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    const ORIGIN: Origin<'_> = Origin {
        wall_us: 1_700_000_000_000_001,
        level: Level::WARN,
        target: "zebu_server::clients",
        thread: "zebu-net-0",
        facts: Facts { server: Some(3), role: Some("leading") },
    };

    fn line(format: Format, origin: &Origin<'_>, message: &str) -> String {
        let mut out = String::new();
        let fields = vec![("session", "0x1".to_owned()), ("count", "2".to_owned())];
        let said = Said { message: message.to_owned(), fields };
        write(&mut out, format, false, origin, &said);
        out
    }

    /// LGG-03.
    #[test]
    fn a_line_has_time_level_myid_role_thread_and_source() {
        assert_eq!(
            line(Format::Text, &ORIGIN, "closing 0x1: \u{1b}[2J\nforged"),
            "2023-11-14T22:13:20.000001Z  WARN [myid:3 leading] [zebu-net-0] zebu_server::clients: \
             closing 0x1: \\u{1b}[2J\\nforged count=2\n"
        );
        let alone = Origin { facts: Facts::default(), ..ORIGIN };
        assert!(line(Format::Text, &alone, "x").contains(" [starting] "));
    }

    #[test]
    fn a_line_of_json_is_one_object() {
        let text = line(Format::Json, &ORIGIN, "a \"b\"\\\n\u{7f}\u{2028}é");
        assert_eq!(
            text,
            "{\"time\":\"2023-11-14T22:13:20.000001Z\",\"level\":\"WARN\",\"myid\":3,\"thread\":\"zebu-net-0\",\
             \"logger\":\"zebu_server::clients\",\"role\":\"leading\",\"session\":\"0x1\",\"count\":\"2\",\
             \"message\":\"a \\\"b\\\"\\\\\\n\\u007f\\u2028é\"}\n"
        );
        let value: serde_json::Value = serde_json::from_str(&text).unwrap();
        assert_eq!(value["message"], "a \"b\"\\\n\u{7f}\u{2028}é");
    }
}

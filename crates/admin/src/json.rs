//! JSON in the original's format: two spaces for each level, ` : ` after a key, and lists in one
//! line.
//!
//! Monitors parse it, and people and scripts use `grep`, so the output is byte for byte the same.

use std::fmt::Write;

/// A value.
#[derive(Debug, Clone, PartialEq)]
pub enum Json {
    /// `null`.
    Null,
    /// `true` or `false`.
    Bool(bool),
    /// A whole number.
    Int(i64),
    /// A number with a fraction. NaN is printed as `"NaN"`, as in the original.
    Decimal(f64),
    /// A text.
    Text(String),
    /// A list.
    List(Vec<Json>),
    /// Keys and values, in this order.
    Object(Vec<(String, Json)>),
}

impl Json {
    /// An object with these keys.
    pub fn object<const N: usize>(fields: [(&str, Self); N]) -> Self {
        Self::Object(fields.map(|(key, value)| (key.to_owned(), value)).into())
    }

    /// A list with these values.
    pub fn list<T: Into<Self>>(values: impl IntoIterator<Item = T>) -> Self {
        Self::List(values.into_iter().map(Into::into).collect())
    }

    /// Appends the value to `out`. `depth`: its nesting level.
    pub fn write(&self, depth: usize, out: &mut String) {
        match self {
            Self::Null => out.push_str("null"),
            Self::Bool(value) => put(out, value),
            Self::Int(value) => put(out, value),
            Self::Decimal(value) if value.is_finite() => {
                let _ = write!(out, "{value:?}");
            }
            Self::Decimal(_) => out.push_str("\"NaN\""),
            Self::Text(text) => write_text(text, out),
            Self::List(values) if values.is_empty() => out.push_str("[ ]"),
            Self::List(values) => {
                for (at, value) in values.iter().enumerate() {
                    out.push_str(if at == 0 { "[ " } else { ", " });
                    // A list adds no level.
                    value.write(depth, out);
                }
                out.push_str(" ]");
            }
            Self::Object(fields) if fields.is_empty() => out.push_str("{ }"),
            Self::Object(fields) => {
                for (at, (key, value)) in fields.iter().enumerate() {
                    out.push_str(if at == 0 { "{" } else { "," });
                    write_key(key, depth + 1, out);
                    value.write(depth + 1, out);
                }
                new_line(depth, out);
                out.push('}');
            }
        }
    }
}

/// The text of a whole answer.
impl std::fmt::Display for Json {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let mut out = String::new();
        self.write(0, &mut out);
        f.write_str(&out)
    }
}

/// Begins a new line with a key.
pub fn write_key(key: &str, depth: usize, out: &mut String) {
    new_line(depth, out);
    write_text(key, out);
    out.push_str(" : ");
}

/// A new line, indented by `depth` levels.
pub fn new_line(depth: usize, out: &mut String) {
    out.push('\n');
    out.extend(std::iter::repeat_n("  ", depth));
}

fn put(out: &mut String, value: impl std::fmt::Display) {
    // Writing to a String cannot fail.
    let _ = write!(out, "{value}");
}

fn write_text(text: &str, out: &mut String) {
    out.push('"');
    for c in text.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            c if c < ' ' => {
                let _ = write!(out, "\\u{:04X}", u32::from(c));
            }
            c => out.push(c),
        }
    }
    out.push('"');
}

impl From<&str> for Json {
    fn from(text: &str) -> Self {
        Self::Text(text.to_owned())
    }
}

impl From<String> for Json {
    fn from(text: String) -> Self {
        Self::Text(text)
    }
}

impl From<i64> for Json {
    fn from(value: i64) -> Self {
        Self::Int(value)
    }
}

impl From<u64> for Json {
    fn from(value: u64) -> Self {
        Self::Int(i64::try_from(value).unwrap_or(i64::MAX))
    }
}

impl From<u16> for Json {
    fn from(value: u16) -> Self {
        Self::Int(value.into())
    }
}

impl From<usize> for Json {
    fn from(value: usize) -> Self {
        Self::Int(i64::try_from(value).unwrap_or(i64::MAX))
    }
}

impl From<f64> for Json {
    fn from(value: f64) -> Self {
        Self::Decimal(value)
    }
}

impl From<bool> for Json {
    fn from(value: bool) -> Self {
        Self::Bool(value)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_looks_as_that_of_the_original() {
        // Recorded from 3.9.5, with other values.
        let connection = Json::object([("interest_ops", 1_i64.into()), ("sent", 0_i64.into())]);
        let answer = Json::object([
            ("connections", Json::List(vec![connection.clone(), connection])),
            ("secure_connections", Json::List(Vec::new())),
            ("paths", Json::list(["/a", "/b"])),
            ("stats", Json::object([("avg_latency", 4.5.into()), ("max", 0.0.into())])),
            ("current_config", Json::Object(Vec::new())),
            ("read_only", false.into()),
            ("error", Json::Null),
        ]);
        let text = r#"{
  "connections" : [ {
    "interest_ops" : 1,
    "sent" : 0
  }, {
    "interest_ops" : 1,
    "sent" : 0
  } ],
  "secure_connections" : [ ],
  "paths" : [ "/a", "/b" ],
  "stats" : {
    "avg_latency" : 4.5,
    "max" : 0.0
  },
  "current_config" : { },
  "read_only" : false,
  "error" : null
}"#;
        assert_eq!(answer.to_string(), text);
    }

    #[test]
    fn texts_are_escaped() {
        let text = "a\"\\\n\r\t\u{1}\u{7f}é";
        let json = Json::from(text).to_string();
        assert_eq!(json, "\"a\\\"\\\\\\n\\r\\t\\u0001\u{7f}é\"");
        let parsed: String = serde_json::from_str(&json).unwrap();
        assert_eq!(parsed, text);
        assert_eq!(Json::from(f64::NAN).to_string(), "\"NaN\"");
    }
}

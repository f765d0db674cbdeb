//! Where results go: a readable text, and raw numbers for programs.

use std::io::Write;

use anyhow::Context;

use crate::table::number;

/// The two channels of a run's results.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Output<'a> {
    /// File of the raw numbers; `-` is stdout, and the text moves to stderr.
    json: Option<&'a str>,
}

impl<'a> Output<'a> {
    /// Text on stdout, raw numbers to `json` when given.
    pub(crate) fn new(json: Option<&'a str>) -> Self {
        Self { json }
    }

    /// One line of text.
    pub(crate) fn line(&self, line: &str) {
        self.text(&format!("{line}\n"));
    }

    /// Lines of text. A reader that went away is not an error.
    pub(crate) fn text(&self, text: &str) {
        let _ = match self.json {
            Some("-") => std::io::stderr().write_all(text.as_bytes()),
            _ => std::io::stdout().write_all(text.as_bytes()),
        };
    }

    /// The raw numbers.
    pub(crate) fn json(&self, value: &serde_json::Value) -> anyhow::Result<()> {
        let Some(path) = self.json else { return Ok(()) };
        let mut text = serde_json::to_string_pretty(value)?;
        text.push('\n');
        match path {
            "-" => std::io::stdout().write_all(text.as_bytes()).context("write to stdout"),
            path => std::fs::write(path, text).with_context(|| format!("write {path}")),
        }
    }
}

/// Nanoseconds as µs for a table.
pub(crate) fn unit_us(ns: u64) -> String {
    number(ns as f64 / 1e3)
}

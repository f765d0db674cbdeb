//! The output of results: readable text, and raw numbers for programs.

use std::io::Write;
use std::path::Path;
use zebu_figures::number;

use anyhow::Context;

/// The destinations of a run's results.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Output<'a> {
    /// The file of the raw numbers. With `-` they go to stdout, and the text to stderr.
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

    /// Lines of text. A closed pipe is not an error.
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
            path => replace(Path::new(path), &text).with_context(|| format!("write {path}")),
        }
    }
}

/// Replaces the content of a file as a whole. If the path is no file, writes to it.
fn replace(path: &Path, text: &str) -> std::io::Result<()> {
    if path.metadata().is_ok_and(|meta| !meta.is_file()) {
        return std::fs::write(path, text);
    }
    let mut beside = path.as_os_str().to_owned();
    beside.push(".new");
    std::fs::write(&beside, text)?;
    std::fs::rename(beside, path)
}

/// Nanoseconds as µs for a table.
pub(crate) fn unit_us(ns: u64) -> String {
    number(ns as f64 / 1e3)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn raw_numbers_replace_those_of_an_earlier_run() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("out.json");
        for number in [1, 2] {
            Output::new(path.to_str()).json(&serde_json::json!({ "number": number })).unwrap();
            let text = std::fs::read_to_string(&path).unwrap();
            assert_eq!(text, format!("{{\n  \"number\": {number}\n}}\n"));
        }
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 1, "nothing is left beside it");
        Output::new(Some("/dev/null")).json(&serde_json::json!({})).unwrap();
    }
}

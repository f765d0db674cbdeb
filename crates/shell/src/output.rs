//! The output of commands, as text or as JSON, one value a line: data go to stdout, messages to
//! stderr.

use std::io::{self, IsTerminal, Write};
use std::sync::Arc;

use parking_lot::Mutex;
use serde_json::Value;

use crate::failure::{Failure, Result};

/// Size of the buffer for data.
const BUFFER_BYTES: usize = 64 * 1024;

/// When to use colours.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Colour {
    /// On a terminal, unless `NO_COLOR` is set.
    Auto,
    /// Always.
    Always,
    /// Never.
    Never,
}

impl Colour {
    fn is_wanted(self, is_terminal: bool) -> bool {
        match self {
            Self::Always => true,
            Self::Never => false,
            Self::Auto => {
                let is_off = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
                is_terminal && !is_off && std::env::var_os("TERM").is_none_or(|term| term != "dumb")
            }
        }
    }
}

/// The meaning of a piece of text, for the choice of a colour. Without colours the text alone must
/// suffice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Style {
    /// Lines and numbers of lesser importance.
    Dim,
    /// A match of a search.
    Match,
    /// A path.
    Path,
    /// An ephemeral znode.
    Ephemeral,
    /// A created znode.
    Created,
    /// A deleted znode, or an error.
    Gone,
    /// A changed znode.
    Changed,
}

impl Style {
    fn code(self) -> &'static str {
        match self {
            Self::Dim => "2",
            Self::Match => "1;31",
            Self::Path => "34",
            Self::Ephemeral | Self::Changed => "33",
            Self::Created => "32",
            Self::Gone => "31",
        }
    }
}

/// Text in a colour, if `is_wanted`.
fn paint(is_wanted: bool, style: Style, text: &str) -> String {
    if is_wanted { format!("\x1b[{}m{text}\x1b[0m", style.code()) } else { text.to_owned() }
}

struct Streams {
    out: Box<dyn Write + Send>,
    err: Box<dyn Write + Send>,
    /// Data not yet written to `out`.
    waiting: Vec<u8>,
}

/// The two output streams of a shell, shared by all writers.
#[derive(Clone)]
pub(crate) struct Output {
    streams: Arc<Mutex<Streams>>,
    is_json: bool,
    is_coloured: bool,
    is_talk_coloured: bool,
    /// Whether stderr is a terminal.
    is_watched: bool,
    /// Whether stdout is a terminal.
    is_terminal: bool,
}

impl Output {
    /// The streams of this process.
    pub(crate) fn of_process(colour: Colour, is_json: bool) -> Self {
        let (out, err) = (io::stdout(), io::stderr());
        let (is_terminal, is_watched) = (out.is_terminal(), err.is_terminal());
        Self {
            is_coloured: colour.is_wanted(is_terminal),
            is_talk_coloured: colour.is_wanted(is_watched),
            is_json,
            is_watched,
            is_terminal,
            ..Self::to(Box::new(out), Box::new(err))
        }
    }

    /// Streams given by the caller.
    pub(crate) fn to(out: Box<dyn Write + Send>, err: Box<dyn Write + Send>) -> Self {
        let streams = Arc::new(Mutex::new(Streams { out, err, waiting: Vec::new() }));
        Self {
            streams,
            is_json: false,
            is_coloured: false,
            is_talk_coloured: false,
            is_watched: false,
            is_terminal: false,
        }
    }

    /// The same streams, with JSON or without.
    pub(crate) fn with_json(&self, is_json: bool) -> Self {
        Self { is_json, ..self.clone() }
    }

    pub(crate) fn is_json(&self) -> bool {
        self.is_json
    }

    /// Whether to show progress.
    pub(crate) fn is_watched(&self) -> bool {
        self.is_watched && !self.is_json
    }

    /// Whether a person sees the data.
    pub(crate) fn is_terminal(&self) -> bool {
        self.is_terminal
    }

    /// Data in a colour, if colours are used.
    pub(crate) fn paint(&self, style: Style, text: &str) -> String {
        paint(self.is_coloured, style, text)
    }

    /// Writes data: one line of text, or one JSON value.
    ///
    /// # Errors
    /// The reader of stdout has gone.
    pub(crate) fn emit<T: AsRef<[u8]>>(
        &self,
        text: impl FnOnce() -> T,
        json: impl FnOnce() -> Value,
    ) -> Result {
        if self.is_json {
            self.put(json().to_string().as_bytes())
        } else {
            self.put(text().as_ref())
        }
    }

    /// Writes data that the original prints on stderr. As JSON they go to stdout.
    ///
    /// # Errors
    /// As for [`Output::emit`].
    pub(crate) fn emit_aside(
        &self,
        text: impl FnOnce() -> String,
        json: impl FnOnce() -> Value,
    ) -> Result {
        if self.is_json {
            return self.put(json().to_string().as_bytes());
        }
        self.note(&text());
        Ok(())
    }

    /// Writes a line that only the text output has.
    ///
    /// # Errors
    /// As for [`Output::emit`].
    pub(crate) fn text_only(&self, text: &str) -> Result {
        if self.is_json { Ok(()) } else { self.put(text.as_bytes()) }
    }

    /// Writes a value that only the JSON output has, for a command that prints no text.
    ///
    /// # Errors
    /// As for [`Output::emit`].
    pub(crate) fn json_only(&self, json: impl FnOnce() -> Value) -> Result {
        if self.is_json { self.put(json().to_string().as_bytes()) } else { Ok(()) }
    }

    fn put(&self, line: &[u8]) -> Result {
        let mut streams = self.streams.lock();
        streams.waiting.extend_from_slice(line);
        streams.waiting.push(b'\n');
        if streams.waiting.len() >= BUFFER_BYTES {
            streams.flush()?;
        }
        Ok(())
    }

    /// Writes the buffered data.
    ///
    /// # Errors
    /// As for [`Output::emit`].
    pub(crate) fn flush(&self) -> Result {
        Ok(self.streams.lock().flush()?)
    }

    /// Writes a message, after all data. Failures to write it are ignored.
    pub(crate) fn note(&self, text: &str) {
        let mut streams = self.streams.lock();
        streams.flush().ok();
        writeln!(streams.err, "{text}").and_then(|()| streams.err.flush()).ok();
    }

    /// Writes the reason why a command failed.
    pub(crate) fn fail(&self, failure: &Failure) {
        if failure.message().is_empty() {
            return;
        }
        if self.is_json {
            return self.note(&failure.json().to_string());
        }
        if let Some(list) = failure.list() {
            self.note(list);
        }
        let text = failure.text();
        let (message, hint) = text.split_at(failure.message().len());
        let coloured = self.is_talk_coloured;
        self.note(&format!(
            "{}{}",
            paint(coloured, Style::Gone, message),
            if hint.is_empty() { String::new() } else { paint(coloured, Style::Dim, hint) }
        ));
    }
}

impl Streams {
    fn flush(&mut self) -> io::Result<()> {
        let waiting = std::mem::take(&mut self.waiting);
        self.out.write_all(&waiting)?;
        self.out.flush()
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use serde_json::json;

    use super::*;

    /// Captures the output for a test.
    #[derive(Clone, Default)]
    pub(crate) struct Paper(Arc<Mutex<Vec<u8>>>);

    impl Paper {
        pub(crate) fn text(&self) -> String {
            String::from_utf8_lossy(&self.0.lock()).into_owned()
        }
    }

    impl Write for Paper {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().extend_from_slice(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn data_and_talk_go_apart_and_stay_in_order() {
        let (out, err) = (Paper::default(), Paper::default());
        let output = Output::to(Box::new(out.clone()), Box::new(err.clone()));
        output.emit(|| "data", || json!({"is": "data"})).unwrap();
        assert_eq!(out.text(), "");
        output.note("talk");
        assert_eq!((out.text(), err.text()), ("data\n".to_owned(), "talk\n".to_owned()));
        let output = output.with_json(true);
        output.emit(|| "data", || json!({"is": "data"})).unwrap();
        output.text_only("banner").unwrap();
        output.fail(&Failure::new("wrong"));
        assert_eq!(out.text(), "data\n{\"is\":\"data\"}\n");
        assert_eq!(err.text(), "talk\n{\"error\":{\"message\":\"wrong\"}}\n");
    }

    #[test]
    fn colours_are_off_where_nobody_sees_them() {
        let output = Output::to(Box::new(Paper::default()), Box::new(Paper::default()));
        assert_eq!(output.paint(Style::Gone, "x"), "x");
        assert!(Colour::Always.is_wanted(false));
        assert!(!Colour::Never.is_wanted(true) && !Colour::Auto.is_wanted(false));
        assert_eq!(paint(true, Style::Gone, "x"), "\x1b[31mx\x1b[0m");
    }
}

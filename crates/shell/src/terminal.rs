//! Lines typed by a person, with editing, completion and history. The editor blocks, so it has its
//! own thread.

use std::path::PathBuf;
use std::sync::{Arc, mpsc};
use std::thread;
use std::time::Duration;

use parking_lot::Mutex;
use rustyline::completion::{Completer, Pair};
use rustyline::error::ReadlineError;
use rustyline::highlight::Highlighter;
use rustyline::hint::{Hinter, HistoryHinter};
use rustyline::history::DefaultHistory;
use rustyline::validate::Validator;
use rustyline::{
    Cmd, CompletionType, ConditionalEventHandler, Config, Context, Editor, Event, EventContext,
    EventHandler, ExternalPrinter, Helper, KeyEvent, RepeatCount,
};
use tokio::runtime::Handle;
use zebu_client::Client;

use crate::completion::{self, Wanted};
use crate::failure::{Failure, Result};

/// Maximum number of lines in the history file.
const HISTORY_LINES: usize = 1000;

/// Maximum time that a completion waits for the server.
const COMPLETION_TIME_MAX: Duration = Duration::from_millis(1000);

/// Maximum number of names offered.
const COMPLETIONS_MAX: usize = 1000;

/// Input from the keyboard.
#[derive(Debug)]
pub(crate) enum Typed {
    /// A line.
    Line(String),
    /// Ctrl-C in a line: the line is discarded.
    Cancelled,
    /// Ctrl-D, or Ctrl-C in an empty line.
    End,
    /// The terminal failed.
    Failed(String),
}

/// The client that completion uses. `connect` replaces it.
pub(crate) type CurrentClient = Arc<Mutex<Option<Client>>>;

/// An interactive terminal.
pub(crate) struct Terminal {
    prompts: mpsc::Sender<String>,
    typed: tokio::sync::mpsc::UnboundedReceiver<Typed>,
    printer: Box<dyn ExternalPrinter + Send>,
}

impl Terminal {
    /// Opens the terminal of this process.
    ///
    /// # Errors
    /// The process has no terminal.
    pub(crate) fn open(client: CurrentClient, hints: bool) -> Result<Self> {
        let config = Config::builder()
            .completion_type(CompletionType::List)
            .history_ignore_space(true)
            .max_history_size(HISTORY_LINES)
            .map_err(failed)?
            .build();
        let mut editor: Editor<Assistant, DefaultHistory> =
            Editor::with_config(config).map_err(failed)?;
        let history = hints.then(HistoryHinter::new);
        editor.set_helper(Some(Assistant { client, runtime: Handle::current(), history }));
        editor
            .bind_sequence(KeyEvent::ctrl('C'), EventHandler::Conditional(Box::new(EndsEmptyLine)));
        let file = history_file();
        if let Some(file) = &file {
            // The first time, the file does not exist.
            editor.load_history(file).ok();
        }
        let printer = editor.create_external_printer().map_err(failed)?;
        let (prompts, asked) = mpsc::channel::<String>();
        let (answers, typed) = tokio::sync::mpsc::unbounded_channel();
        thread::Builder::new().name("editor".to_owned()).spawn(move || {
            for prompt in asked {
                let read = editor.readline(&prompt);
                if let Ok(line) = &read {
                    remember(&mut editor, line, file.as_ref());
                }
                let is_over = answers.send(Typed::of(read)).is_err();
                if is_over {
                    return;
                }
            }
        })?;
        Ok(Self { prompts, typed, printer: Box::new(printer) })
    }

    /// Asks for the next line, which [`Terminal::typed`] returns.
    pub(crate) fn ask(&self, prompt: String) {
        // If the thread has ended, `typed` reports it.
        self.prompts.send(prompt).ok();
    }

    /// The typed line. Dropping the future loses nothing.
    pub(crate) async fn typed(&mut self) -> Typed {
        self.typed.recv().await.unwrap_or(Typed::End)
    }

    /// Shows a text above the line that is being typed.
    pub(crate) fn show(&mut self, text: &str) {
        self.printer.print(format!("{text}\n")).ok();
    }
}

fn failed(error: ReadlineError) -> Failure {
    Failure::new(format!("terminal: {error}"))
}

impl Typed {
    fn of(read: rustyline::Result<String>) -> Self {
        match read {
            Ok(line) => Self::Line(line),
            Err(ReadlineError::Interrupted) => Self::Cancelled,
            Err(ReadlineError::Eof) => Self::End,
            Err(error) => Self::Failed(error.to_string()),
        }
    }
}

/// Adds a line to the history. Lines with passwords are not written to the file.
fn remember(editor: &mut Editor<Assistant, DefaultHistory>, line: &str, file: Option<&PathBuf>) {
    let is_secret = line.trim_start().starts_with("addauth");
    if line.trim().is_empty() || is_secret {
        return;
    }
    editor.add_history_entry(line).ok();
    if let Some(file) = file {
        // A history file that cannot be written is not an error.
        editor.append_history(file).ok();
    }
}

/// `$XDG_STATE_HOME/zebu/shell_history`.
fn history_file() -> Option<PathBuf> {
    let set =
        |name: &str| std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let state = set("XDG_STATE_HOME").or_else(|| Some(set("HOME")?.join(".local/state")))?;
    let folder = state.join("zebu");
    std::fs::create_dir_all(&folder).ok()?;
    Some(folder.join("shell_history"))
}

/// Ctrl-C discards a line. In an empty line it ends the shell, as Ctrl-D does.
struct EndsEmptyLine;

impl ConditionalEventHandler for EndsEmptyLine {
    fn handle(&self, _: &Event, _: RepeatCount, _: bool, cx: &EventContext<'_>) -> Option<Cmd> {
        Some(if cx.line().is_empty() { Cmd::EndOfFile } else { Cmd::Interrupt })
    }
}

/// Completes the typed word, and shows the rest of the last similar line in grey.
struct Assistant {
    client: CurrentClient,
    runtime: Handle,
    history: Option<HistoryHinter>,
}

impl Assistant {
    /// The paths of children with which a word may be completed.
    fn znodes(&self, parent: &str, prefix: &str) -> Vec<String> {
        let Some(client) = self.client.lock().clone() else { return Vec::new() };
        let asked = client.get_children(parent);
        // The timeout must be created within the runtime.
        let answered =
            self.runtime.block_on(async { tokio::time::timeout(COMPLETION_TIME_MAX, asked).await });
        // Errors during completion are not shown.
        let Ok(Ok((mut names, _))) = answered else { return Vec::new() };
        names.retain(|name| name.starts_with(prefix));
        names.sort_unstable();
        names.truncate(COMPLETIONS_MAX);
        names.iter().map(|name| crate::walk::join(parent, name)).collect()
    }
}

impl Completer for Assistant {
    type Candidate = Pair;

    fn complete(
        &self,
        line: &str,
        pos: usize,
        _: &Context<'_>,
    ) -> rustyline::Result<(usize, Vec<Pair>)> {
        let line = &line[..pos];
        let (start, wanted) = completion::wanted(line);
        let pairs = match wanted {
            Wanted::Words(words) => {
                let end = if words.len() == 1 { " " } else { "" };
                let pair =
                    |word: String| Pair { replacement: format!("{word}{end}"), display: word };
                words.into_iter().map(pair).collect()
            }
            Wanted::Znode { parent, prefix } => {
                let is_quoted = completion::is_quoted(line);
                let pair = |path: String| {
                    let replacement = completion::replacement(&path, is_quoted);
                    Pair { display: path, replacement }
                };
                self.znodes(&parent, &prefix).into_iter().map(pair).collect()
            }
        };
        Ok((start, pairs))
    }
}

impl Hinter for Assistant {
    type Hint = String;

    fn hint(&self, line: &str, pos: usize, cx: &Context<'_>) -> Option<String> {
        self.history.as_ref()?.hint(line, pos, cx)
    }
}

impl Highlighter for Assistant {
    fn highlight_hint<'h>(&self, hint: &'h str) -> std::borrow::Cow<'h, str> {
        format!("\x1b[2m{hint}\x1b[0m").into()
    }
}

impl Validator for Assistant {}

impl Helper for Assistant {}

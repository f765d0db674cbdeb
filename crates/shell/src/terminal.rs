//! Lines from a person: edited, completed, remembered. The editor has a thread of its own, because it blocks.

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

/// Lines that are remembered between sessions.
const HISTORY_LINES: usize = 1000;

/// How long a completion may wait for the server.
const COMPLETION_TIME_MAX: Duration = Duration::from_millis(1000);

/// Names that are offered at most.
const COMPLETIONS_MAX: usize = 1000;

/// What came from the keyboard.
#[derive(Debug)]
pub(crate) enum Typed {
    /// A line.
    Line(String),
    /// Ctrl-C in a line: it is given up.
    Cancelled,
    /// Ctrl-D, or Ctrl-C where there is no line.
    End,
    /// The terminal is gone.
    Failed(String),
}

/// The client that completion asks; another one after `connect`.
pub(crate) type CurrentClient = Arc<Mutex<Option<Client>>>;

/// A terminal with somebody in front of it.
pub(crate) struct Terminal {
    prompts: mpsc::Sender<String>,
    typed: tokio::sync::mpsc::UnboundedReceiver<Typed>,
    printer: Box<dyn ExternalPrinter + Send>,
}

impl Terminal {
    /// Takes over the terminal of this process.
    ///
    /// # Errors
    /// It is none.
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
            // The first time there is none.
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

    /// Asks for the next line. Its answer comes from [`Terminal::typed`].
    pub(crate) fn ask(&self, prompt: String) {
        // Where the thread is gone, so is the other end of the answers.
        self.prompts.send(prompt).ok();
    }

    /// What was typed; nothing is lost when the future is dropped.
    pub(crate) async fn typed(&mut self) -> Typed {
        self.typed.recv().await.unwrap_or(Typed::End)
    }

    /// Shows something above the line that is being typed.
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

/// Adds a line to the history; what holds a password is kept from the file.
fn remember(editor: &mut Editor<Assistant, DefaultHistory>, line: &str, file: Option<&PathBuf>) {
    let is_secret = line.trim_start().starts_with("addauth");
    if line.trim().is_empty() || is_secret {
        return;
    }
    editor.add_history_entry(line).ok();
    if let Some(file) = file {
        // A history that cannot be kept is no reason to stop.
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

/// Ctrl-C gives up a line; where there is none it ends the shell, as Ctrl-D does.
struct EndsEmptyLine;

impl ConditionalEventHandler for EndsEmptyLine {
    fn handle(&self, _: &Event, _: RepeatCount, _: bool, cx: &EventContext<'_>) -> Option<Cmd> {
        Some(if cx.line().is_empty() { Cmd::EndOfFile } else { Cmd::Interrupt })
    }
}

/// Completes what is typed, and shows in grey how it went on the last time.
struct Assistant {
    client: CurrentClient,
    runtime: Handle,
    history: Option<HistoryHinter>,
}

impl Assistant {
    /// The paths of the children that a word may become.
    fn znodes(&self, parent: &str, prefix: &str) -> Vec<String> {
        let Some(client) = self.client.lock().clone() else { return Vec::new() };
        let asked = client.get_children(parent);
        // The time limit is made where there is a runtime to keep it.
        let answered =
            self.runtime.block_on(async { tokio::time::timeout(COMPLETION_TIME_MAX, asked).await });
        // Somebody who types has no use for errors.
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

//! The main loop: reads lines, runs them, and shows events meanwhile.

use std::future::Future;
use std::io::{BufRead, IsTerminal};
use std::pin::pin;
use std::sync::Arc;

use parking_lot::Mutex;
use serde_json::json;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::mpsc;
use zebu_client::{EventType, Notification};

use crate::arguments::Options;
use crate::command::{self, Spec};
use crate::commands::{self, Context, Credentials};
use crate::failure::{Failure, INTERRUPTED, Result};
use crate::options::Arguments;
use crate::output::Output;
use crate::session::{News, Session, Settings};
use crate::terminal::{CurrentClient, Terminal, Typed};
use crate::words;

/// Number of lines that `history` shows.
const HISTORY_SHOWN: usize = 11;

/// Number of lines read in advance.
const LINES_AHEAD: usize = 64;

/// Whether to continue after a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum After {
    Go,
    Quit,
}

/// A shell with its session.
pub(crate) struct Shell {
    out: Output,
    settings: Settings,
    quiet: bool,
    host: String,
    session: Session,
    credentials: Credentials,
    /// All lines so far. A line's number is its index.
    history: Vec<String>,
    print_watches: bool,
    /// The subtree whose changes the running command shows itself.
    followed: Option<String>,
    /// The exit code of the last command.
    exit_code: u8,
    interrupts: Signal,
    /// The client that completion uses.
    current: CurrentClient,
}

impl Shell {
    /// Opens the session.
    ///
    /// # Errors
    /// The settings are invalid, or `-waitforconnection` was given and no connection was made in
    /// time.
    pub(crate) async fn start(options: &Options, out: Output) -> Result<Self> {
        let (settings, remarks) = options.settings()?;
        remarks.iter().for_each(|remark| out.note(remark));
        let quiet = options.quiet;
        if !quiet {
            out.text_only(&format!("Connecting to {}", options.server))?;
            out.flush()?;
        }
        let session = Session::open(&options.server, &settings)?;
        let current = Arc::new(Mutex::new(Some(session.client.clone())));
        let mut shell = Self {
            out,
            settings,
            quiet,
            host: options.server.clone(),
            session,
            credentials: Credentials::default(),
            history: Vec::new(),
            print_watches: true,
            followed: None,
            exit_code: 0,
            interrupts: signal(SignalKind::interrupt())?,
            current,
        };
        if options.wait_for_connection {
            let client = shell.session.client.clone();
            let waited = shell.attend(async move {
                tokio::time::timeout(options.timeout, client.connected()).await
            });
            let failure = Failure::new("KeeperErrorCode = ConnectionLoss");
            let host = &options.server;
            waited.await?.map_err(|_| failure.hint(format!("no server answers at {host}")))??;
        }
        Ok(shell)
    }

    /// Runs one command and ends the session. Returns the exit code.
    pub(crate) async fn run_once(mut self, command: &[String]) -> u8 {
        self.carry_out(command).await;
        self.finish().await
    }

    /// Runs the lines from stdin, until its end or `quit`. Returns the exit code.
    ///
    /// # Errors
    /// The reader of the output has gone, or the terminal cannot be used.
    pub(crate) async fn run(mut self) -> Result<u8> {
        let is_terminal = std::io::stdin().is_terminal() && std::io::stdout().is_terminal();
        if !self.quiet {
            let state = if is_terminal { "enabled" } else { "disabled" };
            self.out.text_only("Welcome to ZooKeeper!")?;
            self.out.text_only(&format!("JLine support is {state}"))?;
            self.out.flush()?;
        }
        if is_terminal {
            self.converse().await?
        } else {
            self.read_lines().await?
        }
        Ok(self.finish().await)
    }

    /// Closes the session, so that its ephemeral znodes are deleted at once.
    async fn finish(self) -> u8 {
        self.session.client.close().await.ok();
        self.out.flush().ok();
        self.exit_code
    }

    // Sources of lines.

    async fn read_lines(&mut self) -> Result {
        let mut lines = lines_of_stdin()?;
        loop {
            let line = tokio::select! {
                biased;
                news = self.session.news() => {
                    self.show(&news)?;
                    continue;
                }
                _ = self.interrupts.recv() => {
                    self.exit_code = INTERRUPTED;
                    return Ok(());
                }
                line = lines.recv() => line,
            };
            let Some(line) = line else { return Ok(()) };
            if self.run_line(&line).await? == After::Quit || self.exit_code == INTERRUPTED {
                return Ok(());
            }
        }
    }

    async fn converse(&mut self) -> Result {
        let has_colours = self.out.paint(crate::output::Style::Dim, "x") != "x";
        let mut terminal = Terminal::open(self.current.clone(), has_colours)?;
        loop {
            terminal.ask(self.prompt());
            let typed = loop {
                tokio::select! {
                    biased;
                    typed = terminal.typed() => break typed,
                    news = self.session.news() => {
                        if let Some(text) = self.told(&news) {
                            terminal.show(&text);
                        }
                    }
                }
            };
            match typed {
                Typed::Line(text) => {
                    // Pasted text may contain several lines.
                    for line in words::lines(&text) {
                        if self.run_line(line).await? == After::Quit {
                            return Ok(());
                        }
                        if self.exit_code == INTERRUPTED {
                            break;
                        }
                    }
                }
                Typed::Cancelled => {}
                Typed::End => {
                    self.quit().await?;
                    return Ok(());
                }
                Typed::Failed(what) => return Err(Failure::new(format!("terminal: {what}"))),
            }
        }
    }

    /// Source: `ZooKeeperMain.getPrompt`.
    fn prompt(&self) -> String {
        format!("[zk: {}({}) {}] ", self.host, self.session.state_name(), self.history.len())
    }

    // Events while a command runs.

    /// The text for an event, if it is shown.
    fn told(&self, news: &News) -> Option<String> {
        if matches!(news, News::Trouble(_)) {
            return Some(news.line());
        }
        if !self.print_watches {
            return None;
        }
        match news {
            News::Watch(event, _) if self.is_followed(event) => None,
            News::State(_) if self.quiet || self.out.is_json() => None,
            News::Watch(event, state) if self.out.is_json() => {
                let zxid = event.zxid.map(|zxid| format!("0x{:x}", zxid.0));
                let (kind, path) = (event.kind.name(), &event.path);
                let event = json!({
                    "type": kind, "path": path, "state": state.to_string(), "zxid": zxid,
                });
                Some(json!({ "event": event }).to_string())
            }
            news => Some(format!("\nWATCHER::\n\n{}", news.line())),
        }
    }

    /// Whether the running command shows this event itself.
    fn is_followed(&self, event: &Notification) -> bool {
        let Some(root) = &self.followed else { return false };
        let rest = event.path.strip_prefix(root.trim_end_matches('/'));
        event.kind != EventType::NODE_CHILDREN_CHANGED
            && rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
    }

    fn show(&self, news: &News) -> Result {
        match self.told(news) {
            None => Ok(()),
            Some(text) if matches!(news, News::Trouble(_)) => {
                self.out.note(&text);
                Ok(())
            }
            Some(text) => {
                self.out
                    .emit(|| text.clone(), || serde_json::from_str(&text).unwrap_or_default())?;
                self.out.flush()
            }
        }
    }

    /// Waits for `work` and shows events meanwhile. Ctrl-C cancels it.
    async fn attend<F: Future>(&mut self, work: F) -> Result<F::Output> {
        let mut work = pin!(work);
        loop {
            tokio::select! {
                biased;
                _ = self.interrupts.recv() => return Err(Failure::interrupted()),
                news = self.session.news() => self.show(&news)?,
                done = &mut work => return Ok(done),
            }
        }
    }

    /// Shows the events that have already arrived.
    async fn catch_up(&mut self) -> Result {
        self.attend(tokio::task::yield_now()).await
    }

    // Commands.

    async fn run_line(&mut self, line: &str) -> Result<After> {
        let words = words::split(line);
        if words.is_empty() {
            return Ok(After::Go);
        }
        self.history.push(line.to_owned());
        let after = self.carry_out(&words).await;
        // If the reader of the output has gone, the shell ends.
        self.out.flush()?;
        Ok(after)
    }

    /// Runs a command and records its exit code.
    async fn carry_out(&mut self, words: &[String]) -> After {
        let json = ["--json".to_owned()];
        let end = words.iter().position(|word| word == "--").unwrap_or(words.len());
        let is_json = words[..end].iter().skip(1).any(|word| json.contains(word));
        let before = self.out.clone();
        let stripped: Vec<String>;
        let mut words = words;
        if is_json {
            self.out = self.out.with_json(true);
            let (options, data) = words.split_at(end);
            let options = options.iter().filter(|word| !json.contains(word));
            stripped = options.chain(data).cloned().collect();
            words = &stripped;
        }
        let done = self.execute(words).await;
        let after = match done {
            // `quit` keeps the exit code of the command before it.
            Ok(After::Quit) => After::Quit,
            Ok(After::Go) => {
                self.exit_code = 0;
                After::Go
            }
            Err(failure) => {
                self.exit_code = failure.exit_code();
                self.out.fail(&failure);
                After::Go
            }
        };
        self.out = before;
        after
    }

    async fn execute(&mut self, words: &[String]) -> Result<After> {
        let Some((name, rest)) = words.split_first() else { return Ok(After::Go) };
        let Some(spec) = command::find(name) else {
            return Err(Failure::unknown_command(name, command::similar(name)));
        };
        if spec.is_refused_without_session() {
            // The original checks the session before the arguments.
            self.is_connected()?;
        }
        let args = Arguments::parse(spec, rest)?;
        match spec.name {
            "quit" | "exit" => {
                self.quit().await?;
                return Ok(After::Quit);
            }
            "help" => self.help(&args)?,
            "history" => self.show_history()?,
            "printwatches" => self.print_watches(&args)?,
            "redo" => return Box::pin(self.redo(spec, &args)).await,
            "connect" => self.connect(args.try_word(0)).await?,
            "close" => self.close().await?,
            name => self.ask(name, &args).await?,
        }
        Ok(After::Go)
    }

    /// Fails if the session has ended.
    fn is_connected(&self) -> Result {
        if !self.session.client.state().is_over() {
            return Ok(());
        }
        if self.out.is_json() {
            return Err(
                Failure::new("Not connected").hint("open a session with: connect host:port")
            );
        }
        self.out.text_only("Not connected")?;
        Err(Failure::silent())
    }

    /// Runs a command that needs the session.
    async fn ask(&mut self, name: &str, args: &Arguments) -> Result {
        self.is_connected()?;
        let cx = Context {
            client: self.session.client.clone(),
            out: self.out.clone(),
            watches: self.session.watches.clone(),
            settings: self.settings.clone(),
            credentials: self.credentials.clone(),
        };
        self.followed = (name == "watch").then(|| args.try_word(0).unwrap_or("/").to_owned());
        let done = self.attend(commands::run(&cx, name, args)).await;
        let caught_up = self.catch_up().await;
        self.followed = None;
        caught_up?;
        done?
    }

    fn help(&self, args: &Arguments) -> Result {
        let describe = |spec: &Spec| {
            let options: Vec<_> = (spec.options.iter())
                .map(|option| json!({ "name": option.name, "value": option.value, "help": option.help }))
                .collect();
            json!({ "name": spec.name, "syntax": spec.syntax(), "about": spec.about, "options": options })
        };
        match args.try_word(0) {
            None => self
                .out
                .emit(command::overview, || command::COMMANDS.iter().map(describe).collect()),
            Some(name) => match command::find(name) {
                Some(spec) => self.out.emit(|| spec.help(), || describe(spec)),
                None => Err(Failure::unknown_command(name, command::similar(name))),
            },
        }
    }

    fn show_history(&self) -> Result {
        let first = self.history.len().saturating_sub(HISTORY_SHOWN);
        for (number, line) in self.history.iter().enumerate().skip(first) {
            self.out.emit(
                || format!("{number} - {line}"),
                || json!({ "number": number, "line": line }),
            )?;
        }
        Ok(())
    }

    fn print_watches(&mut self, args: &Arguments) -> Result {
        match args.try_word(0) {
            Some(word) => self.print_watches = word == "on",
            None => {
                let state = if self.print_watches { "on" } else { "off" };
                self.out.text_only(&format!("printwatches is {state}"))?;
            }
        }
        self.out.json_only(|| json!({ "printwatches": self.print_watches }))
    }

    /// Runs a line of the history again. That line replaces this one in the history.
    async fn redo(&mut self, spec: &'static Spec, args: &Arguments) -> Result<After> {
        let Some(number) = args.try_word(0) else { return Err(Failure::usage(spec)) };
        let number: usize = number
            .parse()
            .map_err(|_| Failure::new(format!("not the number of a command: {number}")))?;
        let this = self.history.len().saturating_sub(1);
        let Some(line) = self.history.get(number).filter(|_| number < this).cloned() else {
            return Err(Failure::new("Command index out of range")
                .hint("history lists the numbers of commands"));
        };
        let words = words::split(&line);
        if words.first().is_some_and(|name| name == "redo") {
            return Err(Failure::new("No redoing redos"));
        }
        if let Some(entry) = self.history.last_mut() {
            *entry = line;
        }
        self.execute(&words).await
    }

    async fn connect(&mut self, host: Option<&str>) -> Result {
        let host = host.unwrap_or(&self.host).to_owned();
        let session = Session::open(&host, &self.settings)?;
        self.close().await?;
        *self.current.lock() = Some(session.client.clone());
        self.session = session;
        self.credentials.lock().clear();
        self.host = host;
        Ok(())
    }

    /// Closes the session and shows its last event.
    async fn close(&mut self) -> Result {
        if !self.session.client.state().is_over() {
            let closed = self.session.client.close();
            // Without a connection, the session ends at its timeout.
            self.attend(closed).await?.ok();
        }
        self.catch_up().await
    }

    async fn quit(&mut self) -> Result {
        self.close().await
    }
}

/// Reads lines of stdin in a thread of its own. Invalid text is replaced.
fn lines_of_stdin() -> Result<mpsc::Receiver<String>> {
    let (sender, lines) = mpsc::channel(LINES_AHEAD);
    std::thread::Builder::new().name("stdin".to_owned()).spawn(move || {
        let mut stdin = std::io::stdin().lock();
        let mut bytes = Vec::new();
        // An error also ends the input.
        while stdin.read_until(b'\n', &mut bytes).is_ok_and(|count| count > 0) {
            let line = String::from_utf8_lossy(&bytes);
            let line = line.strip_suffix('\n').unwrap_or(&line);
            let line = line.strip_suffix('\r').unwrap_or(line);
            if sender.blocking_send(line.to_owned()).is_err() {
                return;
            }
            bytes.clear();
        }
    })?;
    Ok(lines)
}

#[cfg(test)]
mod tests;

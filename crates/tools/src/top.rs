//! `zebu top`: an ensemble and its busiest clients, live.
//!
//! `look` sends four-letter words to servers and parses the answers. `view` computes rates, lag and
//! health from two observations. `text` and `screen` show them. Servers of the original answer the
//! same words, so `zebu top` shows them as well.

mod look;
mod screen;
mod text;
mod view;

use std::io::{self, IsTerminal as _, Write};
use std::process::ExitCode;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::{Duration, Instant};

use ratatui::crossterm::event::{self, Event, KeyEventKind};
use zebu_credentials::CredentialArgs;
use zebu_proto::{ConnectString, HostPort};

use crate::ask;
use crate::configuration::Access;
use crate::failure::Failure;
use look::Sample;
use screen::{Screen, Wish};
use view::View;

/// How long the screen waits for a key before it checks for a new observation.
const KEY_WAIT: Duration = Duration::from_millis(100);

/// Arguments of `zebu top`.
#[derive(Debug, Clone, PartialEq, Eq, clap::Args)]
#[command(
    about = "Show an ensemble and its busiest clients, live",
    long_about = "Show an ensemble and its busiest clients, live.\n\n\
        Servers are asked with the four-letter words srvr, mntr, cons and conf. One server is enough: it names the other \
        members. A word that 4lw.commands.whitelist of a server does not list is not answered; what it would have told is \
        shown as -, and a note says so.",
    after_long_help = "\
Examples:
  zebu top
  zebu top zk1,zk2,zk3 --interval 500
  zebu top --once localhost:2181               for scripts
  zebu top --once --json --interval 0          one look, without rates

Keys: q ends, p holds the screen, up and down scroll the clients.

Exit codes: 0 a server has answered, 1 none has, 2 bad arguments."
)]
pub struct TopArgs {
    /// Some servers of the ensemble
    #[arg(value_name = "HOST[:PORT],...", default_value = "localhost:2181")]
    pub servers: String,

    /// How the servers are asked.
    #[command(flatten)]
    pub credentials: CredentialArgs,

    /// Time between two looks, in milliseconds
    #[arg(long, value_name = "MS", default_value_t = 2000,
          value_parser = clap::value_parser!(u64).range(0..=3_600_000))]
    pub interval: u64,

    /// How long to wait for each answer, in milliseconds
    #[arg(long, value_name = "MS", default_value_t = 3000,
          value_parser = clap::value_parser!(u64).range(1..=600_000))]
    pub timeout: u64,

    /// Show at most COUNT clients
    #[arg(long, value_name = "COUNT", default_value_t = 50)]
    pub clients: usize,

    /// Ask twice, print the result with rates, and exit; with --interval 0, ask once, without rates
    #[arg(long)]
    pub once: bool,

    /// Print one JSON object
    #[arg(long, requires = "once")]
    pub json: bool,

    /// Ask only the servers that were named
    #[arg(long)]
    pub only: bool,
}

/// Shows the view until the user ends it, or prints it once.
pub fn run(args: &TopArgs) -> ExitCode {
    let shown = if args.once { once(args, &mut io::stdout().lock()) } else { live(args) };
    match shown {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(failure) => failure.report(),
    }
}

/// Observes the ensemble at intervals, and remembers the servers of the last observation.
struct Looks {
    given: Vec<HostPort>,
    known: Vec<HostPort>,
    only_given: bool,
    access: Access,
    timeout: Duration,
    start: Instant,
}

impl Looks {
    fn new(args: &TopArgs) -> Result<Self, Failure> {
        let servers: ConnectString = args.servers.parse()?;
        if let Some(root) = servers.chroot {
            let wrong = format_args!("error: {root} is a path: only servers are named here");
            return Err(Failure::new(wrong));
        }
        Ok(Self {
            given: servers.servers,
            known: Vec::new(),
            only_given: args.only,
            access: Access::of(&args.credentials)?,
            timeout: Duration::from_millis(args.timeout),
            start: Instant::now(),
        })
    }

    fn next(&mut self) -> Vec<Sample> {
        let timeout = self.timeout;
        let dialer = &self.access.dialer;
        let ask = move |at: &HostPort, word: &str| ask::word(dialer, at, word, timeout);
        let only_given = self.only_given;
        let samples =
            look::look(&self.given, &self.known, self.start, only_given, dialer.is_secure(), &ask);
        self.known = samples.iter().map(|sample| sample.at.clone()).collect();
        samples
    }
}

/// Prints the result of two observations. Returns true if a server has answered.
fn once(args: &TopArgs, out: &mut dyn Write) -> Result<bool, Failure> {
    let mut looks = Looks::new(args)?;
    let mut before = Vec::new();
    let mut after = looks.next();
    if args.interval > 0 {
        thread::sleep(Duration::from_millis(args.interval));
        before = std::mem::replace(&mut after, looks.next());
    }
    let view = View::new(&before, &after, args.clients);
    let shown = if args.json { format!("{:#}\n", text::json(&view)) } else { text::plain(&view) };
    // The pipe may be closed; the exit code still shows the result.
    out.write_all(shown.as_bytes()).and_then(|()| out.flush()).ok();
    Ok(after.iter().any(|sample| sample.facts.is_ok()))
}

/// Shows the view until the user ends it. Returns true if a server has answered.
fn live(args: &TopArgs) -> Result<bool, Failure> {
    let mut looks = Looks::new(args)?;
    if !io::stdout().is_terminal() || !io::stdin().is_terminal() {
        return Err(Failure::new(
            "error: this is no terminal\nhint: zebu top --once prints the same as text",
        ));
    }
    // At most one observation waits for the screen. The thread ends with the screen.
    let (to_screen, looked) = mpsc::sync_channel(0);
    let interval = Duration::from_millis(args.interval.max(100));
    thread::spawn(move || {
        while to_screen.send(looks.next()).is_ok() {
            thread::sleep(interval);
        }
    });
    let mut terminal = ratatui::try_init()?;
    let mut screen = Screen::default();
    let mut after = Vec::new();
    let mut view = None;
    let mut has_answered = false;
    let shown = loop {
        match looked.recv_timeout(Duration::ZERO) {
            Ok(samples) => {
                let before = std::mem::replace(&mut after, samples);
                has_answered |= after.iter().any(|sample: &Sample| sample.facts.is_ok());
                if !screen.is_held {
                    view = Some(View::new(&before, &after, args.clients));
                }
            }
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => {
                break Err(Failure::new("error: no look any more"));
            }
        }
        if let Err(error) = terminal.draw(|frame| screen.draw(frame, view.as_ref())) {
            break Err(error.into());
        }
        match next_key() {
            Ok(Some(key)) if screen.press(key) == Wish::Quit => break Ok(has_answered),
            Ok(_) => {}
            Err(error) => break Err(error.into()),
        }
    };
    ratatui::try_restore()?;
    shown
}

/// The key that was pressed within a short time, if any.
fn next_key() -> io::Result<Option<event::KeyEvent>> {
    if !event::poll(KEY_WAIT)? {
        return Ok(None);
    }
    Ok(match event::read()? {
        Event::Key(key) if key.kind == KeyEventKind::Press => Some(key),
        _ => None,
    })
}

#[cfg(test)]
mod tests;

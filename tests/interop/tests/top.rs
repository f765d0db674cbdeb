//! `zebu top` on a terminal: a pseudo-terminal shows its output, and sends it keys.

use std::io::{Read as _, Write as _};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail, ensure};
use zebu_interop::deps;
use zebu_interop::ensemble::{Ensemble, options};
use zebu_interop::raw::Session;
use zebu_interop::server::Kind::Zebu;
use zebu_interop::server::PATIENCE;
use zebu_testkit::wire::{Writer, op};

const ROWS: usize = 30;
const COLUMNS: usize = 160;

/// The characters on a terminal, for the features that `zebu top` uses: positions, printed text,
/// and clearing.
struct Screen {
    cells: Vec<Vec<char>>,
    row: usize,
    column: usize,
    /// Whether the program uses the alternate screen, and restores the terminal at its end.
    is_alternate: bool,
    /// Bytes of an incomplete sequence or character.
    rest: Vec<u8>,
}

impl Screen {
    fn new() -> Self {
        let cells = vec![vec![' '; COLUMNS]; ROWS];
        Self { cells, row: 0, column: 0, is_alternate: false, rest: Vec::new() }
    }

    fn text(&self) -> String {
        let row = |row: &Vec<char>| row.iter().collect::<String>().trim_end().to_owned();
        self.cells.iter().map(row).collect::<Vec<_>>().join("\n")
    }

    fn feed(&mut self, bytes: &[u8]) {
        self.rest.extend_from_slice(bytes);
        let whole = match std::str::from_utf8(&self.rest) {
            Ok(text) => text.len(),
            Err(error) => error.valid_up_to(),
        };
        let text = String::from_utf8_lossy(&self.rest[..whole]).into_owned();
        let mut left = text.as_str();
        while let Some(first) = left.chars().next() {
            if first != '\u{1b}' {
                self.print(first);
                left = &left[first.len_utf8()..];
                continue;
            }
            // `ESC [ parameters letter`; any other sequence has two characters.
            let is_long = left.as_bytes().get(1) == Some(&b'[');
            let end = match left.len() {
                1 => None,
                _ if is_long => left[2..].find(|c: char| c.is_ascii_alphabetic()).map(|at| at + 3),
                _ => Some(2),
            };
            let Some(end) = end else { break };
            if is_long {
                self.obey(&left[2..end - 1], left.as_bytes()[end - 1]);
            }
            left = &left[end..];
        }
        let kept = whole - left.len();
        self.rest.drain(..kept);
    }

    fn print(&mut self, what: char) {
        match what {
            '\r' => self.column = 0,
            '\n' => self.row = (self.row + 1).min(ROWS - 1),
            _ => {
                if let Some(cell) = self.cells[self.row].get_mut(self.column) {
                    *cell = what;
                }
                self.column += 1;
            }
        }
    }

    fn obey(&mut self, parameters: &str, letter: u8) {
        match letter {
            b'H' => {
                let mut numbers = parameters.split(';').map(|it| it.parse().unwrap_or(1_usize));
                self.row = (numbers.next().unwrap_or(1) - 1).min(ROWS - 1);
                self.column = numbers.next().unwrap_or(1) - 1;
            }
            b'J' => self.cells = vec![vec![' '; COLUMNS]; ROWS],
            b'h' | b'l' if parameters == "?1049" => self.is_alternate = letter == b'h',
            _ => {}
        }
    }
}

/// A program on its own terminal, which Debian's `script` creates.
struct OnTerminal {
    child: Child,
    keyboard: ChildStdin,
    screen: Arc<Mutex<Screen>>,
}

impl OnTerminal {
    fn start(program: &str) -> Result<Self> {
        let line = format!("stty rows {ROWS} cols {COLUMNS} && exec {program}");
        let mut command = Command::new("script");
        command.args(["--quiet", "--flush", "--return", "--command", &line, "/dev/null"]);
        command.env("TERM", "xterm").env("SHELL", "/bin/sh");
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
        let keyboard = child.stdin.take().context("stdin")?;
        let mut output = child.stdout.take().context("stdout")?;
        let screen = Arc::new(Mutex::new(Screen::new()));
        let shown = screen.clone();
        thread::spawn(move || {
            let mut some = [0; 4096];
            while let Ok(read @ 1..) = output.read(&mut some) {
                shown.lock().unwrap().feed(&some[..read]);
            }
        });
        Ok(Self { child, keyboard, screen })
    }

    fn text(&self) -> String {
        self.screen.lock().unwrap().text()
    }

    fn wait_for(&self, what: &str, shows: impl Fn(&str) -> bool) -> Result<String> {
        let start = Instant::now();
        loop {
            let text = self.text();
            if shows(&text) {
                return Ok(text);
            }
            ensure!(start.elapsed() < PATIENCE, "{what} is not shown:\n{text}");
            thread::sleep(Duration::from_millis(20));
        }
    }

    fn press(&mut self, keys: &str) -> Result<()> {
        self.keyboard.write_all(keys.as_bytes())?;
        Ok(self.keyboard.flush()?)
    }
}

impl Drop for OnTerminal {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The lines of a table, from its title to its end.
fn table<'t>(text: &'t str, title: &str) -> Vec<&'t str> {
    let after = text.lines().skip_while(|line| !line.starts_with(title)).skip(2);
    after.take_while(|line| !line.is_empty() && !line.contains('─')).collect()
}

/// The requests per second of the first client.
fn busiest(text: &str) -> Option<f64> {
    let columns: Vec<&str> =
        text.lines().find(|it| it.starts_with("client "))?.split_whitespace().collect();
    let at = columns.iter().position(|it| *it == "req/s")?;
    let rate = table(text, "busiest clients").first()?.split_whitespace().nth(at)?;
    rate.trim_end_matches(['k', 'M']).parse().ok()
}

#[test]
#[ignore = "needs third-party programs: cargo xtask deps"]
fn top_shows_an_ensemble_live() -> Result<()> {
    let mut ensemble = Ensemble::prepare(&[Zebu; 3], &options())?.started()?;
    ensemble.wait_for_all()?;
    let addresses = ensemble.addresses();
    let mut session = Session::open(addresses[0], 60_000)?;
    session.create("/application", b"", 0)?;
    let id = format!("{:#x}", session.id);
    let is_over = Arc::new(AtomicBool::new(false));
    let over = is_over.clone();
    let load = thread::spawn(move || -> Result<()> {
        let set = || Writer::new().string("/application").buffer(b"data").int(-1);
        while !over.load(Ordering::Relaxed) {
            session.expect(op::SET_DATA, set())?;
            session.expect(op::GET_DATA, Writer::new().string("/application").bool(false))?;
        }
        session.close()
    });

    let servers: Vec<String> = addresses.iter().map(ToString::to_string).collect();
    let (zebu, servers) = (deps::zebu().display().to_string(), servers.join(","));
    let mut top = OnTerminal::start(&format!("{zebu} top --only --interval 200 {servers}"))?;
    // The output shows the ensemble, its servers, the client, its path and its operations, with
    // numbers.
    let text = top.wait_for("everything", |text| {
        text.contains("busiest paths")
            && text.contains("operations/s: ")
            && busiest(text).is_some_and(|rate| rate > 0.0)
    })?;
    let first = text.lines().next().unwrap_or_default();
    ensure!(first.starts_with("leader server."), "{text}");
    ensure!(first.contains("3 of 3 voters serve"), "{text}");
    let rows = table(&text, "servers");
    let roles = |role: &str| rows.iter().filter(|row| row.contains(&format!(" {role} "))).count();
    ensure!((rows.len(), roles("leader"), roles("follower")) == (3, 1, 2), "{text}");
    ensure!(rows.iter().all(|row| row.contains(" ok ")), "{text}");
    let client = table(&text, "busiest clients")[0];
    ensure!(client.contains(&id) && client.contains("127.0.0.1:"), "{id}: {text}");
    ensure!(table(&text, "busiest paths")[0].starts_with("/application "), "{text}");
    ensure!(text.contains("set_data ") && text.contains("get_data "), "{text}");
    ensure!(top.screen.lock().unwrap().is_alternate, "the program uses the whole screen");

    // The numbers follow events: a member ends and returns.
    let follower = if first.starts_with("leader server.3,") { 1 } else { 2 };
    ensemble.member(follower).kill()?;
    top.wait_for("the lost member", |text| text.contains("2 of 3 voters serve"))?;
    ensure!(top.text().contains("unreachable"), "{}", top.text());
    ensemble.member(follower).launch()?;
    top.wait_for("the member again", |text| text.contains("3 of 3 voters serve"))?;

    // Keys pause the screen and resume it.
    top.press("p")?;
    top.wait_for("the held screen", |text| text.contains("[held]"))?;
    let held = top.text();
    is_over.store(true, Ordering::Relaxed);
    match load.join() {
        Ok(ended) => ended?,
        Err(_) => bail!("the load panicked"),
    }
    thread::sleep(Duration::from_millis(600));
    ensure!(top.text() == held, "the screen has changed:\n{held}\n{}", top.text());
    top.press("p")?;
    top.wait_for("the end of the session", |text| !text.contains(&id))?;

    top.press("q")?;
    let start = Instant::now();
    while top.child.try_wait()?.is_none() {
        ensure!(start.elapsed() < PATIENCE, "it goes on:\n{}", top.text());
        thread::sleep(Duration::from_millis(20));
    }
    ensure!(top.child.wait()?.success(), "exit code");
    let start = Instant::now();
    while top.screen.lock().unwrap().is_alternate {
        ensure!(start.elapsed() < PATIENCE, "the terminal is not given back");
        thread::sleep(Duration::from_millis(20));
    }
    Ok(())
}

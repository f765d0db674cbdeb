//! A leader that the resource itself elects, by its own lock, and that the ensemble announces. The
//! process that has locked the file writes to it, and other programs can look up the leader.
//!
//! ```text
//! cargo run --example ledger -- write /tmp/ledger --name a
//! cargo run --example ledger -- write /tmp/ledger --name b
//! cargo run --example ledger -- who
//! ```
//!
//! There are two ways to keep a former leader from writing. In `election.rs` and `resource.rs`, the
//! ensemble elects the leader, and the resource refuses old tokens. Here, the resource elects the
//! leader, so it never has to refuse a write: a paused leader keeps the lock, so no other process
//! writes meanwhile, and a dead leader loses the lock. Sessions decide nothing.

use std::fs::{File, TryLockError};
use std::io::{BufRead as _, BufReader, Write as _};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context as _, Result};
use clap::{Parser, Subcommand};
use zebu_client::{Acls, Client};
use zebu_examples::connection::{Connection, is_session_over, log};
use zebu_recipes::{Announcement, Announcements};

/// The pause between two attempts to get the file's lock, or to reach the servers.
const PAUSE: Duration = Duration::from_millis(100);

/// Write to a file to which only one process at a time may write, or show that process
#[derive(Parser)]
struct Args {
    #[command(flatten)]
    connection: Connection,

    /// The znode below which leaders announce themselves
    #[arg(long, value_name = "PATH", default_value = "/ledger", global = true)]
    path: String,

    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Wait for the file's lock, then write until Ctrl-C
    Write {
        /// The file
        file: PathBuf,

        /// The name of this leader
        #[arg(long)]
        name: String,
    },
    /// Print the leader, and print it again after each change
    Who,
}

#[tokio::main]
async fn main() -> ExitCode {
    log();
    zebu_examples::exit_code(run(&Args::parse()).await)
}

async fn run(args: &Args) -> Result<()> {
    let doing = async {
        match &args.command {
            Command::Write { file, name } => {
                // Checked first, so the user learns at once if the program cannot work.
                let session = args.connection.open().await?;
                let (mut ledger, term) = Ledger::lock(file).await?;
                println!("leading, term {term}");
                tokio::select! {
                    written = ledger.write(name) => written,
                    () = announce(args, session, name, term) => Ok(()),
                }
            }
            Command::Who => who(args).await,
        }
    };
    tokio::select! {
        end = doing => end,
        asked = zebu_examples::asked_to_stop() => Ok(asked?),
    }
}

/// Announces the leader, again and again: if a session ends, a new session announces the same
/// leader.
async fn announce(args: &Args, session: (Client, Acls), name: &str, term: u64) {
    let mut session = Ok(session);
    loop {
        let end = match &session {
            Ok((client, acl)) => announce_in(client, acl, &args.path, name, term).await,
            Err(error) => Err(anyhow::anyhow!("{error:#}")),
        };
        match end {
            Ok(()) => println!("session over"),
            Err(error) => {
                println!("not announced: {error:#}");
                tokio::time::sleep(PAUSE).await;
            }
        }
        session = args.connection.open().await;
    }
}

/// Announces the leader until the session is over.
async fn announce_in(client: &Client, acl: &Acls, path: &str, name: &str, term: u64) -> Result<()> {
    let _announced = Announcements::new(client, path, acl).announce(name, term).await?;
    println!("announced");
    let mut events = client.session_events();
    while events.next().await.is_some() {}
    Ok(())
}

async fn who(args: &Args) -> Result<()> {
    let mut last = None;
    loop {
        let (client, acl) = args.connection.open().await?;
        let leaders = Announcements::new(&client, &args.path, &acl);
        match watch(&leaders, &mut last).await {
            Err(error) if is_session_over(&error) => println!("session over"),
            end => return end,
        }
    }
}

/// Prints the leader if it differs from the last printed one.
async fn watch(leaders: &Announcements, last: &mut Option<Option<Announcement>>) -> Result<()> {
    loop {
        let (leader, changed) = leaders.watch().await?;
        if last.as_ref() != Some(&leader) {
            match &leader {
                Some(leader) => println!("{} leads, term {}", leader.name, leader.term),
                None => println!("nobody says that it leads"),
            }
            *last = Some(leader);
        }
        changed.await?;
    }
}

/// A file that this process has locked. The lock ends with the process, and not before.
struct Ledger {
    file: File,
    term: u64,
}

impl Ledger {
    /// Waits for the lock. Each holder has a term that is larger than all earlier terms. The lines
    /// in the file begin with the term.
    async fn lock(path: &Path) -> Result<(Self, u64)> {
        let what = || path.display().to_string();
        let file = File::options().create(true).read(true).append(true).open(path);
        let file = file.with_context(what)?;
        let mut is_waiting = false;
        loop {
            match file.try_lock() {
                Ok(()) => break,
                Err(TryLockError::WouldBlock) if is_waiting => {}
                Err(TryLockError::WouldBlock) => {
                    println!("waiting");
                    is_waiting = true;
                }
                Err(TryLockError::Error(error)) => return Err(error).with_context(what),
            }
            tokio::time::sleep(PAUSE).await;
        }
        let mut newest = 0;
        let mut lines = BufReader::new(&file);
        let mut line = Vec::new();
        while lines.read_until(b'\n', &mut line).with_context(what)? > 0 {
            let text = String::from_utf8_lossy(&line);
            let term = text.split(' ').next().and_then(|term| term.parse().ok());
            newest = newest.max(term.unwrap_or_default());
            line.clear();
        }
        let mut ledger = Self { file, term: newest + 1 };
        // Durable before the leader is announced, because the next holder must find the term. The
        // line before may be incomplete.
        ledger.append("begins").with_context(what)?;
        let term = ledger.term;
        Ok((ledger, term))
    }

    fn append(&mut self, text: &str) -> std::io::Result<()> {
        self.file.write_all(format!("\n{} {text}", self.term).as_bytes())?;
        self.file.sync_data()
    }

    /// Writes repeatedly.
    async fn write(&mut self, name: &str) -> Result<()> {
        for number in 0_u64.. {
            self.append(&format!("{name} {number}")).context("write")?;
            tokio::time::sleep(PAUSE).await;
        }
        Ok(())
    }
}

//! Dynamic configuration: all programs have the same settings, and get new settings as soon as they
//! are written.
//!
//! ```text
//! cargo run --example config -- watch
//! cargo run --example config -- set host=db1 port=5432
//! cargo run --example config -- set host=db2 port=
//! ```
//!
//! Readers see a change of several settings completely or not at all. If you must change settings
//! one by one with another tool, run `hold` before and `release` after the changes. Meanwhile all
//! readers keep their settings.

use std::process::ExitCode;

use anyhow::{Context as _, Result};
use clap::{Parser, Subcommand};
use zebu_examples::connection::{Connection, is_session_over, log};
use zebu_recipes::{Settings, Snapshot};

/// Change settings, or follow them
#[derive(Parser)]
struct Args {
    #[command(flatten)]
    connection: Connection,

    /// The znode of the settings
    #[arg(long, value_name = "PATH", default_value = "/config")]
    path: String,

    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Change settings: NAME=VALUE, or NAME= to remove one
    Set {
        /// The settings; they all change at once
        #[arg(required = true, value_name = "NAME=VALUE")]
        changes: Vec<String>,
    },
    /// Print the settings, and print them again after each change
    Watch,
    /// Make readers keep their settings until `release`
    Hold,
    /// Let readers read again
    Release,
}

#[tokio::main]
async fn main() -> ExitCode {
    log();
    zebu_examples::exit_code(run(&Args::parse()).await)
}

async fn run(args: &Args) -> Result<()> {
    let mut latest = None;
    loop {
        let (client, acl) = args.connection.open().await?;
        let mut settings = Settings::new(&client, &args.path, &acl);
        let doing = async {
            match &args.command {
                Command::Set { changes } => {
                    let mut parsed = Vec::new();
                    for change in changes {
                        let (name, value) =
                            change.split_once('=').context("NAME=VALUE is wanted")?;
                        parsed.push((name, Some(value).filter(|value| !value.is_empty())));
                    }
                    println!("version {}", settings.set(&parsed).await?);
                }
                Command::Hold => settings.hold().await?,
                Command::Release => settings.release().await?,
                Command::Watch => loop {
                    let snapshot = settings.next().await?;
                    // A new session reads the settings for the first time, but they may be
                    // unchanged.
                    if latest.as_ref() != Some(&snapshot) {
                        println!("{}", text(&snapshot));
                        latest = Some(snapshot);
                    }
                },
            }
            Ok::<(), anyhow::Error>(())
        };
        let end = tokio::select! {
            end = doing => end,
            asked = zebu_examples::asked_to_stop() => asked.map_err(Into::into),
        };
        match end {
            Err(error) if is_session_over(&error) => println!("session over"),
            end => {
                client.close().await?;
                return end;
            }
        }
    }
}

fn text(snapshot: &Snapshot) -> String {
    let mut text = format!("version {}:", snapshot.version);
    for (name, value) in &snapshot.values {
        text.push_str(&format!(" {name}={}", String::from_utf8_lossy(value)));
    }
    text
}

//! Runs a command while holding a lock, so that of all machines only one runs it at a time; or, with `--shared`, so
//! that nobody holds the lock alone meanwhile.
//!
//! ```text
//! cargo run --example lock -- /locks/backup -- sh -c 'echo token $LOCK_TOKEN; sleep 10'
//! cargo run --example lock -- --shared /locks/backup -- sleep 10
//! cargo run --example lock -- --line /locks/backup
//! ```
//!
//! When the lock may be lost, because the connection is, the command is ended: somebody else may be running it by
//! then. A command that survives even this program shows `LOCK_TOKEN` to what it writes to: see `resource.rs`.

use std::process::ExitCode;

use anyhow::{Context as _, Result, bail};
use clap::Parser;
use tokio::process::Command;
use zebu_examples::Stop;
use zebu_examples::connection::{Connection, log};
use zebu_recipes::{Held, Lock, News};

/// Run a command while holding a lock
#[derive(Parser)]
struct Args {
    #[command(flatten)]
    connection: Connection,

    /// Hold it together with others who share it
    #[arg(long)]
    shared: bool,

    /// Fail instead of waiting
    #[arg(long)]
    no_wait: bool,

    /// End the command when somebody asks for the lock
    #[arg(long)]
    yield_when_asked: bool,

    /// Ask those who hold it to give it back, and do nothing else
    #[arg(long, value_name = "LOCK", conflicts_with_all = ["lock", "line"])]
    ask_back: Option<String>,

    /// Print who stands in line, and do nothing else
    #[arg(long, value_name = "LOCK", conflicts_with = "lock")]
    line: Option<String>,

    /// The lock's znode
    #[arg(required_unless_present_any = ["ask_back", "line"])]
    lock: Option<String>,

    /// The command; without one the lock is held until Ctrl-C
    #[arg(last = true)]
    command: Vec<String>,
}

#[tokio::main]
async fn main() -> ExitCode {
    log();
    zebu_examples::exit_code(run(Args::parse()).await)
}

async fn run(args: Args) -> Result<ExitCode> {
    let (client, acl) = args.connection.open().await?;
    let path = args.lock.or(args.ask_back.clone()).or(args.line.clone());
    let path = path.context("clap wants one of them")?;
    let name = format!("process {} on {}", std::process::id(), host());
    let lock = Lock::new(&client, &path, &acl).named(name);
    if args.ask_back.is_some() {
        println!("asked {}", lock.ask_back().await?);
        return Ok(ExitCode::SUCCESS);
    }
    if args.line.is_some() {
        for contender in lock.line().await? {
            let kind = if contender.is_shared { "shared" } else { "exclusive" };
            println!("{} {kind} {}", contender.token, String::from_utf8_lossy(&contender.data));
        }
        return Ok(ExitCode::SUCCESS);
    }
    let waiting = async {
        Ok::<_, zebu_recipes::Error>(match (args.shared, args.no_wait) {
            (false, false) => Some(lock.exclusive().await?),
            (true, false) => Some(lock.shared().await?),
            (false, true) => lock.try_exclusive().await?,
            (true, true) => lock.try_shared().await?,
        })
    };
    let mut stop = Stop::listen()?;
    println!("waiting");
    let held = tokio::select! {
        held = waiting => held?,
        () = stop.asked() => None,
    };
    let Some(held) = held else {
        println!("not held");
        client.close().await?;
        return Ok(ExitCode::from(75));
    };
    println!("held, token {}", held.token());
    let code = work(held, &args.command, args.yield_when_asked, &mut stop).await?;
    client.close().await?;
    Ok(code)
}

/// Runs the command as long as the lock is held for certain, then gives it back.
async fn work(
    mut held: Held,
    command: &[String],
    yields: bool,
    stop: &mut Stop,
) -> Result<ExitCode> {
    let token = held.token();
    let running = async {
        let [program, words @ ..] = command else {
            stop.asked().await;
            return anyhow::Ok(ExitCode::SUCCESS);
        };
        let mut command = Command::new(program);
        // Whatever ends this future ends the command.
        command.args(words).env("LOCK_TOKEN", token.to_string()).kill_on_drop(true);
        let status = command.status().await.with_context(|| program.clone())?;
        Ok(ExitCode::from(u8::try_from(status.code().unwrap_or(128)).unwrap_or(1)))
    };
    let uncertain = async {
        loop {
            match held.news().await {
                News::Wanted => {
                    println!("asked to give it back");
                    if yields {
                        return News::Wanted;
                    }
                }
                News::Resumed => {}
                news => return news,
            }
        }
    };
    let code = tokio::select! {
        ended = running => ended?,
        news = uncertain => match news {
            News::Wanted => ExitCode::from(75),
            news => bail!("the lock is not certain any more: {news:?}"),
        },
    };
    held.release().await?;
    println!("given back");
    Ok(code)
}

/// What this machine calls itself.
fn host() -> String {
    let name = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    name.trim().to_owned()
}

//! Runs a command while it holds a lock, so that only one machine at a time runs the command. With
//! `--shared`, several machines may run it together, while no program holds the lock exclusively.
//!
//! ```text
//! cargo run --example lock -- /locks/backup -- sh -c 'echo token $LOCK_TOKEN; sleep 10'
//! cargo run --example lock -- --shared /locks/backup -- sleep 10
//! cargo run --example lock -- --line /locks/backup
//! ```
//!
//! If the connection is lost, the lock may be lost and another machine may run the command, so the
//! program ends its command. A command can even survive this program. So it should present
//! `LOCK_TOKEN` to every resource that it writes to, see `resource.rs`.

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

    /// Share the lock with other programs that use this option
    #[arg(long)]
    shared: bool,

    /// Fail instead of waiting
    #[arg(long)]
    no_wait: bool,

    /// End the command when another program asks for the lock
    #[arg(long)]
    yield_when_asked: bool,

    /// Only ask the holders to release the lock
    #[arg(long, value_name = "LOCK", conflicts_with_all = ["lock", "line"])]
    ask_back: Option<String>,

    /// Only print the line of holders and waiting programs
    #[arg(long, value_name = "LOCK", conflicts_with = "lock")]
    line: Option<String>,

    /// The lock's znode
    #[arg(required_unless_present_any = ["ask_back", "line"])]
    lock: Option<String>,

    /// The command; without a command, the program holds the lock until Ctrl-C
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

/// Runs the command as long as the lock is certainly held, then releases the lock.
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
        // When this future ends or is dropped, the command ends.
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

/// The name of this machine.
fn host() -> String {
    let name = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    name.trim().to_owned()
}

//! Leader election, with a leader that writes to something outside of the ensemble: the resource in `resource.rs`.
//!
//! ```text
//! cargo run --example resource -- --file /tmp/journal
//! cargo run --example election -- --name a --resource 127.0.0.1:7070
//! cargo run --example election -- --name b --resource 127.0.0.1:7070
//! ```
//!
//! A leader that stands still does not notice that another one was elected: what it has begun to write may arrive
//! much later. It cannot help that; the resource can, which refuses whoever shows an older token.

use std::process::ExitCode;
use std::time::Duration;

use anyhow::Result;
use clap::Parser;
use zebu_client::{Acls, Client};
use zebu_examples::connection::{Connection, is_session_over, log};
use zebu_examples::resource::{Answer, Remote};
use zebu_recipes::{Election, Held, News};

/// Take part in an election, and write while leading
#[derive(Parser)]
struct Args {
    #[command(flatten)]
    connection: Connection,

    /// The election's znode
    #[arg(long, default_value = "/election")]
    path: String,

    /// What this candidate is called
    #[arg(long)]
    name: String,

    /// The resource that only the leader may write to
    #[arg(long, value_name = "HOST:PORT")]
    resource: Option<String>,

    /// Go on writing whatever the session says, as a leader does that stood still between looking and writing
    #[arg(long, requires = "resource")]
    careless: bool,
}

#[tokio::main]
async fn main() -> ExitCode {
    log();
    zebu_examples::exit_code(run(&Args::parse()).await)
}

async fn run(args: &Args) -> Result<()> {
    let stop = zebu_examples::asked_to_stop();
    tokio::pin!(stop);
    loop {
        let (client, acl) = args.connection.open().await?;
        let end = tokio::select! {
            end = take_part(args, &client, &acl) => end,
            asked = &mut stop => {
                client.close().await?;
                return Ok(asked?);
            }
        };
        match end {
            // Everything that was known is void: from the beginning, as somebody new.
            Err(error) if is_session_over(&error) => println!("session over"),
            end => return end,
        }
    }
}

async fn take_part(args: &Args, client: &Client, acl: &Acls) -> Result<()> {
    let election = Election::new(client, &args.path, acl);
    loop {
        if let Some(leader) = election.leader().await? {
            println!("{} leads", leader.name);
        }
        let mut leadership = election.lead(&args.name).await?;
        println!("leading, token {}", leadership.token());
        if args.careless {
            write(args, leadership.token().0.0).await?;
        } else {
            lead(args, &mut leadership).await?;
        }
        println!("leading no longer");
        leadership.release().await.or_else(|error| match error {
            zebu_recipes::Error::Deleted(_) => Ok(()),
            error => Err(error),
        })?;
    }
}

/// Leads as long as that is certain.
async fn lead(args: &Args, leadership: &mut Held) -> Result<()> {
    let token = leadership.token().0.0;
    loop {
        let news = tokio::select! {
            // Looked at first: nothing is written that is known to be wrong.
            biased;
            news = leadership.news() => news,
            written = write(args, token) => return written,
        };
        println!("{news:?}");
        match news {
            // Not leading, and not giving up either: it may come back.
            News::Suspended => match leadership.news().await {
                News::Resumed => println!("Resumed"),
                _ => return Ok(()),
            },
            News::Lost => return Ok(()),
            News::Resumed | News::Wanted => {}
        }
    }
}

/// Writes again and again, until the resource refuses.
async fn write(args: &Args, token: i64) -> Result<()> {
    let Some(address) = &args.resource else { return std::future::pending().await };
    let mut resource = Remote::connect(address).await?;
    for number in 0_u64.. {
        match resource.append(token, &format!("{} {number}", args.name)).await? {
            Answer::Written => {}
            Answer::Refused { newest } => {
                println!("refused: somebody came with token 0x{newest:x}");
                return Ok(());
            }
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    Ok(())
}

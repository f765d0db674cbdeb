//! Leader election. The leader writes to a resource outside of the ensemble, see `resource.rs`.
//!
//! ```text
//! cargo run --example resource -- --file /tmp/journal
//! cargo run --example election -- --name a --resource 127.0.0.1:7070
//! cargo run --example election -- --name b --resource 127.0.0.1:7070
//! ```
//!
//! A paused leader does not notice that another leader was elected, so its write may arrive much
//! later. The leader cannot prevent that. The resource can: it refuses every writer with an older
//! token.

use std::process::ExitCode;
use std::time::Duration;

use anyhow::Result;
use clap::Parser;
use zebu_client::{Acls, Client};
use zebu_examples::connection::{Connection, is_session_over, log};
use zebu_examples::resource::{Answer, Remote};
use zebu_recipes::{Election, Held, News};

/// Take part in an election, and write as the leader
#[derive(Parser)]
struct Args {
    #[command(flatten)]
    connection: Connection,

    /// The election's znode
    #[arg(long, default_value = "/election")]
    path: String,

    /// The name of this candidate
    #[arg(long)]
    name: String,

    /// The resource to which only the leader may write
    #[arg(long, value_name = "HOST:PORT")]
    resource: Option<String>,

    /// Ignore the session's state and continue to write, like a leader that was paused between its
    /// check and its write
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
            // The session has ended: begin again as a new candidate.
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

/// Leads as long as the leadership is certain.
async fn lead(args: &Args, leadership: &mut Held) -> Result<()> {
    let token = leadership.token().0.0;
    loop {
        let news = tokio::select! {
            // Checked first, so the leader never writes after it has learned that its leadership is
            // in doubt.
            biased;
            news = leadership.news() => news,
            written = write(args, token) => return written,
        };
        println!("{news:?}");
        match news {
            // Neither lead nor give up: the connection may return.
            News::Suspended => match leadership.news().await {
                News::Resumed => println!("Resumed"),
                _ => return Ok(()),
            },
            News::Lost => return Ok(()),
            News::Resumed | News::Wanted => {}
        }
    }
}

/// Writes repeatedly, until the resource refuses a write.
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

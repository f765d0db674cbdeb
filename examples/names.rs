//! A name service with rendezvous: a program offers an address under a name, and other programs
//! find the address or wait until it is offered.
//!
//! ```text
//! cargo run --example names -- find db --wait
//! cargo run --example names -- offer db 10.0.0.1:5432
//! cargo run --example names -- find db --follow
//! ```

use std::process::ExitCode;

use anyhow::{Result, bail};
use clap::{Parser, Subcommand};
use zebu_client::{Acls, Client, CreateMode, ErrorCode, Retry, Version};
use zebu_examples::connection::{Connection, is_session_over, log};
use zebu_recipes::Value;

/// Offer an address under a name, or find one
#[derive(Parser)]
struct Args {
    #[command(flatten)]
    connection: Connection,

    /// The parent of all names
    #[arg(long, value_name = "PATH", default_value = "/names")]
    path: String,

    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Offer an address until Ctrl-C
    Offer {
        /// The name
        name: String,
        /// The address
        address: String,
        /// Keep the offer after the end of this program
        #[arg(long)]
        for_ever: bool,
    },
    /// Print an address
    Find {
        /// What
        name: String,
        /// Wait until the name is offered
        #[arg(long)]
        wait: bool,
        /// Print it again after each change
        #[arg(long)]
        follow: bool,
    },
}

#[tokio::main]
async fn main() -> ExitCode {
    log();
    zebu_examples::exit_code(run(&Args::parse()).await)
}

async fn run(args: &Args) -> Result<()> {
    loop {
        let (client, acl) = args.connection.open().await?;
        Retry::default().reads(|| client.create_all(&args.path, &acl)).await?;
        let doing = async {
            match &args.command {
                Command::Offer { name, address, for_ever } => {
                    let path = format!("{}/{name}", args.path);
                    offer(&client, &acl, &path, address, *for_ever).await
                }
                Command::Find { name, wait, follow } => {
                    find(&client, &format!("{}/{name}", args.path), *wait, *follow).await
                }
            }
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

async fn offer(
    client: &Client,
    acl: &Acls,
    path: &str,
    address: &str,
    for_ever: bool,
) -> Result<()> {
    let mode = if for_ever { CreateMode::Persistent } else { CreateMode::Ephemeral };
    loop {
        // Both requests may be repeated, because only the final state matters.
        match Retry::default().reads(|| client.create(path, address, mode, acl)).await {
            Ok(_) => {}
            Err(error) if error.code() == ErrorCode::NODE_EXISTS => {}
            Err(error) => return Err(error.into()),
        }
        let (stat, change) = Retry::default().reads(|| client.watch_exists(path)).await?;
        let Some(stat) = stat else { continue };
        if for_ever {
            Retry::default().reads(|| client.set_data(path, address, Version::ANY)).await?;
            println!("offered");
            return Ok(());
        }
        if stat.ephemeral_owner == client.session_id().0 {
            println!("offered");
        } else {
            println!("waiting: somebody else offers it");
        }
        change.await?;
    }
}

async fn find(client: &Client, path: &str, wait: bool, follow: bool) -> Result<()> {
    let mut value = Value::of(client, path);
    loop {
        match value.next().await? {
            Some((address, _)) => println!("{}", String::from_utf8_lossy(&address)),
            None if follow => println!("nobody offers it"),
            None if wait => continue,
            None => bail!("nobody offers it\nhint: --wait"),
        }
        if !follow {
            return Ok(());
        }
    }
}

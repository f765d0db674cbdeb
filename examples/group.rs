//! Group membership: the present members of a group and their data.
//!
//! ```text
//! cargo run --example group -- watch
//! cargo run --example group -- join host1 --info "10.0.0.1:80"
//! ```

use std::collections::BTreeSet;
use std::process::ExitCode;

use anyhow::{Result, bail};
use clap::{Parser, Subcommand};
use zebu_client::{Acls, Client, CreateMode, ErrorCode, ErrorKind, Retry};
use zebu_examples::connection::{Connection, is_session_over, log};
use zebu_recipes::Children;

/// Join a group, or watch it
#[derive(Parser)]
struct Args {
    #[command(flatten)]
    connection: Connection,

    /// The group's znode
    #[arg(long, value_name = "PATH", default_value = "/group")]
    path: String,

    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Be a member until Ctrl-C
    Join {
        /// The name of this member
        name: String,

        /// The data that other programs see
        #[arg(long, default_value = "")]
        info: String,
    },
    /// Print members that join or leave
    Watch,
}

#[tokio::main]
async fn main() -> ExitCode {
    log();
    zebu_examples::exit_code(run(&Args::parse()).await)
}

async fn run(args: &Args) -> Result<()> {
    let stop = zebu_examples::asked_to_stop();
    tokio::pin!(stop);
    let mut seen = BTreeSet::new();
    loop {
        let (client, acl) = args.connection.open().await?;
        Retry::default().reads(|| client.create_all(&args.path, &acl)).await?;
        let doing = async {
            match &args.command {
                Command::Join { name, info } => join(&client, &acl, &args.path, name, info).await,
                Command::Watch => watch(&client, &args.path, &mut seen).await,
            }
        };
        let end = tokio::select! {
            end = doing => end,
            asked = &mut stop => {
                // The others see at once that this member leaves, not only after the session
                // timeout.
                client.close().await?;
                return Ok(asked?);
            }
        };
        match end {
            // After the end of a session, members join again; watchers print the changes since
            // then.
            Err(error) if is_session_over(&error) => println!("session over"),
            end => return end,
        }
    }
}

/// A member is an ephemeral znode, which is deleted when its session ends.
async fn join(client: &Client, acl: &Acls, group: &str, name: &str, info: &str) -> Result<()> {
    let path = format!("{group}/{name}");
    loop {
        let create = || client.create(&path, info, CreateMode::Ephemeral, acl);
        match Retry::default().reads(create).await {
            Ok(_) => {}
            Err(error) if error.code() == ErrorCode::NODE_EXISTS => {}
            Err(error) => return Err(error.into()),
        }
        let look = || async {
            client.sync(&path).await?;
            client.watch_exists(&path).await
        };
        let (stat, change) = Retry::default().reads(look).await?;
        match stat {
            None => continue,
            // Created just now, or by an attempt whose answer was lost.
            Some(stat) if stat.ephemeral_owner == client.session_id().0 => println!("joined"),
            Some(stat) if stat.ephemeral_owner == 0 => bail!("{path} is no member"),
            // Another member with this name, or this program before a crash. In the second case,
            // the znode will soon be deleted.
            Some(_) => println!("waiting: there is a {name} already"),
        }
        change.await?;
    }
}

/// Prints the members that have joined or left since the last read. It misses members that joined
/// and left in between.
async fn watch(client: &Client, group: &str, seen: &mut BTreeSet<String>) -> Result<()> {
    let mut children = Children::of(client, group);
    loop {
        let now = children.next().await?.unwrap_or_default();
        for name in seen.difference(&now) {
            println!("{name} has gone");
        }
        for name in now.difference(seen) {
            let path = format!("{group}/{name}");
            match Retry::default().reads(|| client.get_data(&path)).await {
                Ok((info, _)) => println!("{name} has come: {}", String::from_utf8_lossy(&info)),
                Err(error) if error.kind() == ErrorKind::Gone => println!("{name} has come"),
                Err(error) => return Err(error.into()),
            }
        }
        println!("members: {}", now.iter().map(String::as_str).collect::<Vec<_>>().join(" "));
        *seen = now;
    }
}

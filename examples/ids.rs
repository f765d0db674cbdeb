//! A counter that many programs share: each number is given to one program only.
//!
//! ```text
//! cargo run --example ids -- --count 3
//! ```

use std::process::ExitCode;

use anyhow::Result;
use clap::Parser;
use zebu_client::Retry;
use zebu_examples::connection::{Connection, log};
use zebu_recipes::Ids;

/// Take numbers that no other program has
#[derive(Parser)]
struct Args {
    #[command(flatten)]
    connection: Connection,

    /// The parent of all counters
    #[arg(long, value_name = "PATH", default_value = "/counters")]
    path: String,

    /// The counter
    #[arg(long, default_value = "ids")]
    name: String,

    /// How many numbers to take, one after the other
    #[arg(long, default_value_t = 1)]
    count: u32,

    /// How many numbers one request takes from the servers
    #[arg(long, default_value_t = 1)]
    at_a_time: u32,
}

#[tokio::main]
async fn main() -> ExitCode {
    log();
    zebu_examples::exit_code(run(&Args::parse()).await)
}

async fn run(args: &Args) -> Result<()> {
    let (client, acl) = args.connection.open().await?;
    Retry::default().reads(|| client.create_all(&args.path, &acl)).await?;
    let ids = Ids::new(&client, &format!("{}/{}", args.path, args.name), &acl);
    let mut left = args.count;
    while left > 0 {
        let taken = ids.take(args.at_a_time.max(1)).await?;
        for id in taken.take(left as usize) {
            println!("{id}");
            left -= 1;
        }
    }
    Ok(client.close().await?)
}

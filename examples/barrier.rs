//! A computation in rounds by several processes. No process begins a round before all have come,
//! and no process leaves a round before all have finished it.
//!
//! ```text
//! cargo run --example barrier -- --size 2 --name a --rounds 3
//! cargo run --example barrier -- --size 2 --name b --rounds 3
//! ```

use std::process::ExitCode;
use std::time::Duration;

use anyhow::Result;
use clap::Parser;
use zebu_examples::connection::{Connection, log};
use zebu_recipes::DoubleBarrier;

/// Compute in rounds, together with other processes
#[derive(Parser)]
struct Args {
    #[command(flatten)]
    connection: Connection,

    /// The barrier's znode
    #[arg(long, value_name = "PATH", default_value = "/barrier")]
    path: String,

    /// The number of processes that compute together
    #[arg(long)]
    size: usize,

    /// The name of this process
    #[arg(long)]
    name: String,

    /// The number of rounds
    #[arg(long, default_value_t = 1)]
    rounds: u32,

    /// The duration of a round
    #[arg(long, value_name = "MS", default_value_t = 0)]
    work_ms: u64,
}

#[tokio::main]
async fn main() -> ExitCode {
    log();
    zebu_examples::exit_code(run(&Args::parse()).await)
}

async fn run(args: &Args) -> Result<()> {
    let (client, acl) = args.connection.open().await?;
    let barrier = DoubleBarrier::new(&client, &args.path, args.size, &acl);
    for round in 1..=args.rounds {
        println!("waiting for round {round}");
        let inside = barrier.enter(&args.name).await?;
        println!("in round {round}");
        tokio::time::sleep(Duration::from_millis(args.work_ms)).await;
        println!("done with round {round}");
        inside.leave().await?;
        println!("out of round {round}");
    }
    Ok(client.close().await?)
}

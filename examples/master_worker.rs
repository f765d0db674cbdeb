//! The master-worker system of many ZooKeeper tutorials. Every role is a process:
//!
//! ```text
//! cargo run --example master_worker -- master
//! cargo run --example master_worker -- worker
//! cargo run --example master_worker -- submit "sum 1 2 3"
//! cargo run --example master_worker -- show
//! ```
//!
//! Start several masters and workers, and kill them as you like: see `README.md`. The roles
//! themselves are in `src/master_worker`.

use std::process::ExitCode;
use std::time::Duration;

use anyhow::Result;
use clap::{Parser, Subcommand};
use zebu_client::{Acls, Client};
use zebu_examples::connection::{Connection, is_session_over, log};
use zebu_examples::master_worker::client::Tasks;
use zebu_examples::master_worker::master::Master;
use zebu_examples::master_worker::worker::Worker;
use zebu_examples::master_worker::{Layout, admin, random_name};

/// Masters, workers and clients
#[derive(Parser)]
struct Args {
    #[command(flatten)]
    connection: Connection,

    /// The root znode of the system
    #[arg(long, value_name = "PATH", default_value = "/master-worker")]
    root: String,

    #[command(subcommand)]
    role: Role,
}

#[derive(Subcommand)]
enum Role {
    /// Assign tasks to workers, or stand by to take over
    Master {
        /// The name [default: a random name]
        #[arg(long)]
        name: Option<String>,

        /// Maximum number of tasks of a worker at a time; further tasks wait for a free worker
        #[arg(long, value_name = "COUNT", default_value_t = 2)]
        tasks_per_worker: usize,
    },
    /// Execute tasks
    Worker {
        /// The name [default: a random name]
        #[arg(long)]
        name: Option<String>,

        /// Maximum number of tasks that this worker executes at a time
        #[arg(long, value_name = "COUNT", default_value_t = 1)]
        parallel: usize,
    },
    /// Submit tasks, and print their results: "echo TEXT", "sum N N N", "sleep MS", "await PATH"
    Submit {
        /// The tasks
        #[arg(required = true)]
        commands: Vec<String>,

        /// Print only the names of the tasks
        #[arg(long)]
        no_wait: bool,
    },
    /// Print the results of earlier tasks
    Result {
        /// Their names
        #[arg(required = true)]
        tasks: Vec<String>,
    },
    /// Print the state of the whole system
    Show,
}

#[tokio::main]
async fn main() -> ExitCode {
    log();
    zebu_examples::exit_code(run(Args::parse()).await)
}

async fn run(args: Args) -> Result<()> {
    let layout = Layout::new(&args.root);
    match args.role {
        Role::Master { name, tasks_per_worker } => {
            let name = name.unwrap_or_else(|| random_name("master"));
            println!("this is {name}");
            sessions(&args.connection, async |client, acl| {
                let (layout, name) = (layout.clone(), name.clone());
                Master::new(client, acl, layout, name, tasks_per_worker).run().await
            })
            .await
        }
        Role::Worker { name, parallel } => {
            let name = name.unwrap_or_else(|| random_name("worker"));
            sessions(&args.connection, async |client, acl| {
                Worker::new(client, acl, layout.clone(), name.clone(), parallel).run().await
            })
            .await
        }
        Role::Submit { commands, no_wait } => {
            let (client, acl) = args.connection.open().await?;
            let tasks = Tasks::new(client.clone(), acl, layout);
            for command in &commands {
                let name = tasks.submit(command).await?;
                if no_wait {
                    println!("{name}");
                } else {
                    println!("{name}: {}", tasks.result(&name).await?);
                }
            }
            Ok(client.close().await?)
        }
        Role::Result { tasks: names } => {
            let (client, acl) = args.connection.open().await?;
            let tasks = Tasks::new(client.clone(), acl, layout);
            for name in &names {
                println!("{name}: {}", tasks.result(name).await?);
            }
            Ok(client.close().await?)
        }
        Role::Show => {
            let (client, _) = args.connection.open().await?;
            print!("{}", admin::show(&client, &layout).await?);
            Ok(client.close().await?)
        }
    }
}

/// Plays a role until Ctrl-C or SIGTERM, on one session after the other.
///
/// A role never continues silently after the end of its session. Everything that it knew is
/// invalid, so it starts from the beginning with a new session.
async fn sessions(
    connection: &Connection,
    role: impl AsyncFn(Client, Acls) -> Result<()>,
) -> Result<()> {
    let stop = zebu_examples::asked_to_stop();
    tokio::pin!(stop);
    loop {
        let (client, acl) = connection.open().await?;
        let end = tokio::select! {
            end = role(client.clone(), acl) => end,
            asked = &mut stop => {
                // The session ends now, not after its timeout, so others can take over at once.
                client.close().await?;
                return Ok(asked?);
            }
        };
        match end {
            Err(error) if is_session_over(&error) => println!("session over: {error}"),
            end => return end,
        }
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
}

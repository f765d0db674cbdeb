//! A master of the master-worker system that uses the blocking client, so the program needs no
//! runtime. `master_worker` has the workers, the clients and the other masters:
//!
//! ```text
//! cargo run --example blocking_master -- --name m1
//! cargo run --example master_worker -- worker
//! cargo run --example master_worker -- submit "sum 1 2 3"
//! ```
//!
//! The role itself is in `src/master_worker/blocking.rs`.

use std::process::ExitCode;
use std::time::Duration;

use anyhow::Result;
use clap::Parser;
use zebu_client::blocking::Client;
use zebu_examples::connection::{Connection, is_session_over, log};
use zebu_examples::master_worker::blocking::Master;
use zebu_examples::master_worker::random_name;

/// Assign tasks to workers, or stand by to take over
#[derive(Parser)]
struct Args {
    #[command(flatten)]
    connection: Connection,

    /// The root znode of the system
    #[arg(long, value_name = "PATH", default_value = "/master-worker")]
    root: String,

    /// The name of this master [default: a random name]
    #[arg(long)]
    name: Option<String>,

    /// Maximum number of tasks of a worker at a time; further tasks wait for a free worker
    #[arg(long, value_name = "COUNT", default_value_t = 2)]
    tasks_per_worker: usize,
}

fn main() -> ExitCode {
    log();
    zebu_examples::exit_code(run(&Args::parse()))
}

/// Plays the role on one session after the other. A new session begins without any knowledge of the
/// old one.
fn run(args: &Args) -> Result<()> {
    let name = args.name.clone().unwrap_or_else(|| random_name("master"));
    println!("this is {name}");
    loop {
        let (client, acl) = args.connection.open_blocking()?;
        close_when_asked(&client);
        let master = Master::new(client, acl, &args.root, name.clone(), args.tasks_per_worker);
        match master.run() {
            Err(error) if is_session_over(&error) => println!("session over: {error}"),
            end => return end,
        }
        std::thread::sleep(Duration::from_millis(200));
    }
}

/// Ends the session and this program on Ctrl-C or SIGTERM, so another master can take over at once.
fn close_when_asked(client: &Client) {
    let closing = client.asynchronous().unowned();
    client.thread().spawn(async move {
        let asked = zebu_examples::asked_to_stop().await;
        let closed = closing.close().await;
        std::process::exit(i32::from(asked.is_err() || closed.is_err()));
    });
}

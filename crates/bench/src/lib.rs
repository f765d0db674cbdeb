//! The library behind `zebu bench`: a load generator for any ZooKeeper-compatible server, and a
//! comparison of two servers on one machine.
//!
//! Owns load, timing and reports. It has its own small implementation of the protocol, so it shares
//! no code, and no mistakes, with the servers that it measures. It uses our client library only to
//! measure client libraries, rustls for TLS, and `zebu-auth` for SASL.
//!
//! **Rule:** per request the generator costs far less than any server: frames are built once,
//! replies are read no further than their header, and one system call serves a whole batch.

mod board;
mod cleanup;
mod client;
mod clients;
mod clock;
mod compare;
mod contestant;
mod disk;
mod echo;
mod ensemble;
mod entry;
mod floor;
mod load;
mod output;
mod pin;
mod process;
mod run;
mod sketch;
mod suite;
mod swarm;
mod table;
mod tally;
mod timeline;
mod wire;

pub use echo::EchoServer;

/// Measure ZooKeeper-compatible servers
#[derive(Clone, Debug, clap::Args)]
pub struct BenchArgs {
    #[command(subcommand)]
    command: Command,
}

#[derive(Clone, Debug, clap::Subcommand)]
enum Command {
    Run(run::RunArgs),
    Compare(Box<compare::CompareArgs>),
    Echo(run::EchoArgs),
    Disk(disk::DiskArgs),
    Clients(clients::ClientsArgs),
    Drive(clients::DriveArgs),
}

/// Runs the command, and prints the results.
///
/// # Errors
/// A server cannot be started or reached, or stops answering during set-up. Errors under load are
/// results, not errors.
pub fn run(args: BenchArgs) -> anyhow::Result<()> {
    match args.command {
        Command::Run(args) => run::run(&args),
        Command::Compare(args) => compare::run(&args),
        Command::Echo(args) => run::echo(&args),
        Command::Disk(args) => disk::run(&args),
        Command::Clients(args) => clients::run(&args),
        Command::Drive(args) => clients::drive(&args),
    }
}

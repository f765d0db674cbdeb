//! `zebu`: the one binary. Has no logic of its own.

use std::process::ExitCode;

use clap::{Parser, Subcommand};

/// Apache ZooKeeper, done again in Rust.
#[derive(Parser)]
#[command(name = "zebu", version, about, propagate_version = true)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Run a server.
    Server(zebu_server::cli::ServerArgs),
    /// Measure this or any other ZooKeeper-compatible server.
    Bench(zebu_bench::BenchArgs),
}

fn main() -> ExitCode {
    match Cli::parse().command {
        Command::Server(args) => zebu_server::run(&args),
        Command::Bench(args) => match zebu_bench::run(args) {
            Ok(()) => ExitCode::SUCCESS,
            Err(failure) => {
                eprintln!("error: {failure:#}");
                ExitCode::FAILURE
            }
        },
    }
}

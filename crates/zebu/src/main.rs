//! `zebu`: the one binary. Has no logic of its own but starting several servers to try things out.

use std::process::ExitCode;

use clap::{Parser, Subcommand};

mod ensemble;

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
    /// Look at znodes and change them.
    Shell(zebu_shell::ShellArgs),
    /// Run a whole ensemble on this machine, to try things out.
    Ensemble(ensemble::EnsembleArgs),
    /// Measure this or any other ZooKeeper-compatible server.
    Bench(zebu_bench::BenchArgs),
}

fn main() -> ExitCode {
    match Cli::parse().command {
        Command::Server(args) => zebu_server::run(&args),
        Command::Shell(args) => zebu_shell::run(&args),
        Command::Ensemble(args) => ensemble::run(&args),
        Command::Bench(args) => match zebu_bench::run(args) {
            Ok(()) => ExitCode::SUCCESS,
            Err(failure) => {
                eprintln!("error: {failure:#}");
                ExitCode::FAILURE
            }
        },
    }
}

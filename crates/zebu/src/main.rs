//! The program `zebu`: its subcommands, and `zebu ensemble`, which runs several servers on one
//! machine.
//!
//! Every other command lives in a library crate; this crate only parses the command line and calls
//! it.

use std::error::Error;
use std::path::Path;
use std::process::ExitCode;

use clap::{CommandFactory as _, Parser, Subcommand};
use zebu_backup::history::newest::{Limits, Newest, newest};
use zebu_server::HistoryFacts;

mod documents;
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
    /// Remove old snapshots and logs.
    Purge(zebu_tools::purge::PurgeArgs),
    /// Show a transaction log, repair its checksums, or cut it.
    Log(zebu_tools::log::LogArgs),
    /// Show a snapshot, or compare two.
    Snapshot(zebu_tools::snapshot::SnapshotArgs),
    /// Back up the data of a server, list and verify backups.
    Backup(zebu_backup::backup::BackupArgs),
    /// Restore a data directory as it was at a point.
    Restore(zebu_backup::restore::RestoreArgs),
    /// Repair damaged logs and snapshots of one member with the data of other members.
    Repair(zebu_backup::repair::RepairArgs),
    /// Show who changed a znode, when, from which session.
    History(zebu_backup::history::HistoryArgs),
    /// Ask a server a four-letter word.
    Word(zebu_tools::word::WordArgs),
    /// Print the digest ACL identity for a user and password.
    Digest(zebu_tools::digest::DigestArgs),
    /// Print which ZooKeeper version this program corresponds to.
    Version,
    /// Check a server's configuration, its machine and its ensemble.
    Doctor(zebu_tools::doctor::DoctorArgs),
    /// Show an ensemble and its busiest clients, live.
    Top(zebu_tools::top::TopArgs),
    /// Let another member of an ensemble lead.
    HandOver(zebu_tools::hand_over::HandOverArgs),
    /// Decide how to continue after an ensemble has lost its quorum permanently.
    Recover(zebu_tools::recover::RecoverArgs),
    /// Compare the members of an ensemble, or check data directories and compare them.
    Verify(zebu_tools::verify::VerifyArgs),
    /// Run a whole ensemble on this machine, to try things out.
    Ensemble(ensemble::EnsembleArgs),
    /// Measure this or any other ZooKeeper-compatible server.
    Bench(zebu_bench::BenchArgs),
    /// Print completions for a shell.
    Completions(documents::CompletionsArgs),
    /// Print the manual page, or write one for each command.
    Man(documents::ManArgs),
}

/// The history of a znode for the console.
fn read_history(
    data_dir: &Path,
    log_dir: &Path,
    path: &str,
    below: bool,
) -> Result<HistoryFacts, Box<dyn Error + Send + Sync>> {
    let Newest { changes, is_cut, first, unread_logs, errors } =
        newest(data_dir, log_dir, path, below, Limits::BESIDE_A_SERVER)?;
    Ok(HistoryFacts { changes, is_cut, first, unread_logs, errors })
}

fn main() -> ExitCode {
    match Cli::parse().command {
        Command::Server(args) => zebu_server::run(&args, Some(read_history)),
        Command::Shell(args) => zebu_shell::run(&args),
        Command::Purge(args) => zebu_tools::purge::run(&args),
        Command::Log(args) => zebu_tools::log::run(&args),
        Command::Snapshot(args) => zebu_tools::snapshot::run(&args),
        Command::Backup(args) => zebu_backup::backup::run(&args),
        Command::Restore(args) => zebu_backup::restore::run(&args),
        Command::Repair(args) => zebu_backup::repair::run(&args),
        Command::History(args) => zebu_backup::history::run(&args),
        Command::Word(args) => zebu_tools::word::run(&args),
        Command::Digest(args) => zebu_tools::digest::run(&args),
        Command::Version => {
            println!("Apache ZooKeeper, version {} {}", zebu_proto::VERSION, zebu_proto::BUILT_ON);
            ExitCode::SUCCESS
        }
        Command::Doctor(args) => zebu_tools::doctor::run(&args),
        Command::Top(args) => zebu_tools::top::run(&args),
        Command::HandOver(args) => zebu_tools::hand_over::run(&args),
        Command::Recover(args) => zebu_tools::recover::run(&args),
        Command::Verify(args) => zebu_tools::verify::run(&args),
        Command::Ensemble(args) => ensemble::run(&args),
        Command::Completions(args) => documents::completions(&args, Cli::command()),
        Command::Man(args) => documents::man(&args, Cli::command()),
        Command::Bench(args) => match zebu_bench::run(args) {
            Ok(()) => ExitCode::SUCCESS,
            Err(failure) => {
                eprintln!("error: {failure:#}");
                ExitCode::FAILURE
            }
        },
    }
}

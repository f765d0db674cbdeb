//! `zebu server`: from the command line to the exit code.

use std::process::ExitCode;

use tracing::{error, info, warn};

use crate::Server;
use crate::cli::{ServerArgs, StartError, greeting};
use crate::config::{Level, dirs};
use crate::descriptors;

/// Exit code for everything that is neither an invalid invocation nor an unusable directory.
const UNEXPECTED: u8 = 1;

/// Runs a server until it is told to stop by SIGINT or SIGTERM, and returns the process's exit code.
pub fn run(args: &ServerArgs) -> ExitCode {
    match try_run(args) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            eprintln!("error: {failure:#}");
            let code = failure.downcast_ref::<StartError>().map(StartError::exit_code);
            ExitCode::from(code.unwrap_or(UNEXPECTED))
        }
    }
}

fn try_run(args: &ServerArgs) -> anyhow::Result<()> {
    let loaded = args.load()?;
    if args.check {
        print!("{}", args.check(&loaded)?);
        return Ok(());
    }
    log_to_stderr();
    for note in &loaded.notes {
        for line in note.text.lines() {
            match note.level {
                Level::Warn => warn!("{line}"),
                Level::Info => info!("{line}"),
            }
        }
    }
    if let Err(failure) = descriptors::raise() {
        warn!("the limit of open files cannot be raised: {failure}");
    }
    let config = loaded.config;
    // Before directories are created for nothing.
    config.check_built().map_err(StartError::from)?;
    dirs::prepare(&config.data).map_err(StartError::from)?;
    let server = Server::start(config.clone(), Vec::new())?;
    for line in greeting(&config, server.port()) {
        println!("{line}");
    }
    stop_on_signals(server.stopper())?;
    match server.wait() {
        Ok(()) => {
            info!("stopped");
            Ok(())
        }
        Err(failure) => {
            error!("stopping: {failure}");
            Err(failure.into())
        }
    }
}

/// Log lines go to stderr; `RUST_LOG` chooses how much.
fn log_to_stderr() {
    let filter = tracing_subscriber::EnvFilter::try_from_default_env()
        .unwrap_or_else(|_| tracing_subscriber::EnvFilter::new("info"));
    let _ = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(std::io::stderr)
        .with_ansi(std::io::IsTerminal::is_terminal(&std::io::stderr()))
        .with_target(false)
        .try_init();
}

fn stop_on_signals(stop: impl Fn() + Send + 'static) -> anyhow::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let (mut interrupt, mut terminate) = runtime.block_on(async {
        use tokio::signal::unix::{SignalKind, signal};
        anyhow::Ok((signal(SignalKind::interrupt())?, signal(SignalKind::terminate())?))
    })?;
    std::thread::Builder::new().name("zebu-signals".to_owned()).spawn(move || {
        runtime.block_on(async {
            tokio::select! {
                _ = interrupt.recv() => {}
                _ = terminate.recv() => {}
            }
        });
        stop();
    })?;
    Ok(())
}

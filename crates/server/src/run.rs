//! `zebu server`: from the command line to the exit code.

use std::io::Write as _;
use std::process::ExitCode;

use tracing::{error, info, warn};
use zebu_store::StoreError;

use crate::Server;
use crate::cli::{CliError, ServerArgs, greeting};
use crate::clients::descriptors;
use crate::config::{Level, dirs};
use crate::error::{StartError, chain};
use crate::logging::{self, LogFault};
use crate::shared::Failure;
use crate::supervised;

/// Exit code for everything that has none of its own.
const UNEXPECTED: u8 = 1;

/// Exit code when the admin server cannot be started.
const NO_ADMIN_SERVER: u8 = 4;

/// Exit code when the first snapshot cannot be written.
const NO_SNAPSHOT: u8 = 10;

/// Runs a server until it is told to stop by SIGINT or SIGTERM, and returns the process's exit code.
pub fn run(args: &ServerArgs) -> ExitCode {
    match try_run(args) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            eprintln!("error: {}", chain(&failure));
            ExitCode::from(exit_code(&failure))
        }
    }
}

/// Why a process ends with another code than 0.
#[derive(Debug, thiserror::Error)]
enum Ended {
    #[error(transparent)]
    Cli(#[from] CliError),
    #[error(transparent)]
    Start(#[from] StartError),
    #[error(transparent)]
    Run(#[from] Failure),
    #[error(transparent)]
    Log(#[from] LogFault),
    #[error("the process cannot wait for signals")]
    Signals(#[source] std::io::Error),
    #[error("the process cannot feed the watchdog of its supervisor")]
    Watchdog(#[source] std::io::Error),
    #[error("the answer cannot be written")]
    Output(#[source] std::io::Error),
}

fn exit_code(ended: &Ended) -> u8 {
    match ended {
        Ended::Cli(error) => error.exit_code(),
        Ended::Start(StartError::FirstSnapshot(_)) => NO_SNAPSHOT,
        Ended::Start(StartError::Admin(_)) => NO_ADMIN_SERVER,
        Ended::Start(StartError::Data(error)) if is_unusable(error) => {
            dirs::DataDirError::EXIT_CODE
        }
        Ended::Start(_)
        | Ended::Run(_)
        | Ended::Log(_)
        | Ended::Signals(_)
        | Ended::Watchdog(_)
        | Ended::Output(_) => UNEXPECTED,
    }
}

/// Whether it is the directory that cannot be used, not what is in it.
fn is_unusable(error: &StoreError) -> bool {
    matches!(
        error,
        StoreError::Directory { .. } | StoreError::Misplaced { .. } | StoreError::Locked { .. }
    )
}

fn try_run(args: &ServerArgs) -> Result<(), Ended> {
    let loaded = args.load()?;
    if args.check {
        let text = args.check(&loaded)?;
        std::io::stdout().write_all(text.as_bytes()).map_err(Ended::Output)?;
        return Ok(());
    }
    if let Some(ensemble) = &loaded.config.ensemble {
        zebu_logs::process::is_server(ensemble.me.0);
    }
    logging::start(&loaded.config.logging)?;
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
    dirs::prepare(&config.data).map_err(CliError::from)?;
    let server = Server::start(config.clone(), Vec::new())?;
    let stop = server.stopper();
    let stop = move || {
        supervised::stopping();
        stop();
    };
    stop_on_signals(stop).map_err(Ended::Signals)?;
    let watchdog = server.watchdog().map_err(Ended::Watchdog)?;
    supervised::ready();
    let mut stdout = std::io::stdout();
    for line in greeting(&config, server.port()) {
        // Nobody may be reading it.
        let _ = writeln!(stdout, "{line}");
    }
    let ended = server.wait();
    drop(watchdog);
    match ended {
        Ok(()) => {
            info!("stopped");
            Ok(())
        }
        Err(failure) => {
            error!("stopping: {failure}");
            supervised::failed(&failure);
            Err(failure.into())
        }
    }
}

fn stop_on_signals(stop: impl Fn() + Send + 'static) -> std::io::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let (mut interrupt, mut terminate) = runtime.block_on(async {
        use tokio::signal::unix::{SignalKind, signal};
        std::io::Result::Ok((signal(SignalKind::interrupt())?, signal(SignalKind::terminate())?))
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

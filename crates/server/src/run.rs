//! `zebu server`: from the command line to the exit code.

use std::io::Write as _;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use zebu_proto::Causes;

use parking_lot::{Condvar, Mutex};
use tracing::{error, info, warn};
use zebu_store::{OsVfs, StoreError, room};

use crate::cli::{CliError, ServerArgs, greeting};
use crate::clients::descriptors;
use crate::config::{Config, Level, dirs};
use crate::error::{RunError, StartError};
use crate::logging::{self, LogFault};
use crate::shared::Failure;
use crate::supervised;
use crate::{ReadHistory, Server};

/// Exit code of all other errors.
const UNEXPECTED: u8 = 1;

/// Exit code when the admin server cannot be started.
const NO_ADMIN_SERVER: u8 = 4;

/// Exit code when the first snapshot cannot be written.
const NO_SNAPSHOT: u8 = 10;

/// Runs a server until SIGINT or SIGTERM, and returns the exit code of the process. `history` reads
/// the history of a znode for the console.
pub fn run(args: &ServerArgs, history: Option<ReadHistory>) -> ExitCode {
    let ended = try_run(args, history);
    logging::finish();
    match ended {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            eprintln!("error: {}", Causes(&failure));
            ExitCode::from(exit_code(&failure))
        }
    }
}

/// Why a process ends with an exit code other than 0.
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

/// Whether the directory itself cannot be used, as opposed to its content.
fn is_unusable(error: &StoreError) -> bool {
    matches!(
        error,
        StoreError::Directory { .. } | StoreError::Misplaced { .. } | StoreError::Locked { .. }
    )
}

fn try_run(args: &ServerArgs, history: Option<ReadHistory>) -> Result<(), Ended> {
    let loaded = args.load()?;
    if args.check {
        let text = args.check(&loaded)?;
        std::io::stdout().write_all(text.as_bytes()).map_err(Ended::Output)?;
        return Ok(());
    }
    if let Some(ensemble) = &loaded.config.ensemble {
        zebu_logs::process::is_server(ensemble.me.0);
    }
    logging::start(&loaded.config)?;
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
    let mut config = loaded.config;
    dirs::prepare(&config.data).map_err(CliError::from)?;
    let mut server = Server::start(config.clone(), Vec::new())?;
    // A reader of the greeting may ask the process to stop.
    let stop = Arc::new(Stop::default());
    let asked = stop.clone();
    stop_on_signals(move || asked.now()).map_err(Ended::Signals)?;
    let mut stdout = std::io::stdout();
    for line in greeting(&config, server.port()) {
        // There may be no reader.
        let _ = writeln!(stdout, "{line}");
    }
    // If the server restarts, it uses the same port, because clients know it.
    config.net.client_port = server.port().or(config.net.client_port);
    loop {
        if let Some(history) = history {
            server.read_history_with(history);
        }
        stop.use_for(server.stopper());
        let watchdog = server.watchdog().map_err(Ended::Watchdog)?;
        supervised::ready();
        let ended = server.wait();
        drop(watchdog);
        // The ended server would keep the directories locked.
        stop.forget();
        match ended {
            Ok(()) => {
                info!("stopped");
                return Ok(());
            }
            Err(failure) if goes_on(&failure) => {
                let waits = room::is_missing(failure.cause());
                if waits {
                    error!(
                        "not serving: {failure}; hint: free disk space, or make the file system writable; the server then \
                         starts again by itself"
                    );
                } else {
                    info!("{failure}");
                }
                match start_again(&config, &stop, waits)? {
                    Some(again) => server = again,
                    None => {
                        info!("stopped");
                        return Ok(());
                    }
                }
            }
            Err(failure) => {
                error!("stopping: {failure}");
                supervised::failed(&failure);
                return Err(failure.into());
            }
        }
    }
}

/// Whether a server that has stopped by itself should restart.
fn goes_on(failure: &Failure) -> bool {
    room::is_missing(failure.cause()) || RunError::is_repaired(failure.cause())
}

/// Starts a server, after waiting for free disk space if `waits` is set. Returns `None` if the
/// process was asked to stop before.
fn start_again(
    config: &Config,
    stop: &Stop,
    mut waits: bool,
) -> Result<Option<Server>, StartError> {
    loop {
        if waits {
            supervised::waits("no room on the disk, or it is read-only");
        }
        if stop.wait_for(if waits { room::LOOK_AFTER } else { Duration::ZERO }) {
            return Ok(None);
        }
        if waits && !room::is_there(&OsVfs, &[config.data.logs(), config.data.snapshots()]) {
            continue;
        }
        if waits {
            info!("there is room again: starting");
        }
        match Server::start(config.clone(), Vec::new()) {
            Err(failure) if room::is_missing(&failure) || is_held(&failure) => {
                warn!("the start has to wait: {}", Causes(&failure));
                waits = true;
            }
            started => return started.map(Some),
        }
    }
}

/// Whether the server that has just ended still holds a directory or a port.
fn is_held(failure: &StartError) -> bool {
    let is_port = |error: &std::io::Error| error.kind() == std::io::ErrorKind::AddrInUse;
    matches!(failure, StartError::Data(StoreError::Locked { .. }))
        || room::io_of(failure).is_some_and(is_port)
}

/// Whether the process was asked to stop, and the threads to notify.
#[derive(Default)]
struct Stop {
    state: Mutex<Stopping>,
    asked: Condvar,
}

#[derive(Default)]
struct Stopping {
    is_asked: bool,
    stopper: Option<Box<dyn Fn() + Send>>,
}

impl Stop {
    /// The process is asked to stop.
    fn now(&self) {
        supervised::stopping();
        let mut state = self.state.lock();
        state.is_asked = true;
        if let Some(stopper) = &state.stopper {
            stopper();
        }
        self.asked.notify_all();
    }

    /// From now on, a request to stop stops this server.
    fn use_for(&self, stopper: impl Fn() + Send + 'static) {
        let mut state = self.state.lock();
        if state.is_asked {
            stopper();
        }
        state.stopper = Some(Box::new(stopper));
    }

    /// There is no server.
    fn forget(&self) {
        self.state.lock().stopper = None;
    }

    /// Waits at most for `most`. Returns whether the process was asked to stop.
    fn wait_for(&self, most: Duration) -> bool {
        let mut state = self.state.lock();
        if !state.is_asked {
            self.asked.wait_for(&mut state, most);
        }
        state.is_asked
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

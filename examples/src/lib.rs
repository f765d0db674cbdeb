//! Shared parts of the programs in this folder: connecting, stopping, and the parts with tests of
//! their own.
//!
//! The programs themselves are the files beside this folder; `README.md` says how to run them.

pub mod connection;
pub mod date;
pub mod master_worker;
pub mod resource;
pub mod web;

use std::process::{ExitCode, Termination};

/// The exit code for this result: 1 after an error, which is printed to stderr.
pub fn exit_code<T: Termination>(ended: anyhow::Result<T>) -> ExitCode {
    match ended {
        Ok(ended) => ended.report(),
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

/// Waits for Ctrl-C or SIGTERM.
///
/// # Errors
/// The signals cannot be listened to.
pub async fn asked_to_stop() -> std::io::Result<()> {
    Stop::listen()?.asked().await;
    Ok(())
}

/// Listens for Ctrl-C and SIGTERM. A program that waits for them at several places creates one
/// listener, so that no signal between two waits is lost.
#[derive(Debug)]
pub struct Stop {
    interrupt: tokio::signal::unix::Signal,
    terminate: tokio::signal::unix::Signal,
}

impl Stop {
    /// Listens from now on.
    ///
    /// # Errors
    /// The signals cannot be listened to.
    pub fn listen() -> std::io::Result<Self> {
        use tokio::signal::unix::{SignalKind, signal};
        let interrupt = signal(SignalKind::interrupt())?;
        Ok(Self { interrupt, terminate: signal(SignalKind::terminate())? })
    }

    /// Waits for Ctrl-C, or SIGTERM.
    pub async fn asked(&mut self) {
        tokio::select! {
            _ = self.interrupt.recv() => {}
            _ = self.terminate.recv() => {}
        }
    }
}

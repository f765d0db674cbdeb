//! Backups of a data directory, their restore, and the history of a znode. Also the readers of logs
//! and snapshots, which `zebu verify` uses, too.
//!
//! This crate reads the files of a data directory, also while a server writes them, and never
//! changes them.

pub mod backup;
pub mod dates;
pub mod disk_class;
mod error;
pub mod history;
mod identity;
pub mod manifest;
pub mod repair;
pub mod repository;
pub mod restore;
pub mod source;
pub mod stored;

use std::io;
use std::process::ExitCode;

pub use error::BackupError;

/// The exit code if the reader of the output has gone, as in shells.
const UNREAD: u8 = 141;

/// The exit code of a tool: 0 for success, 1 for `false` or a failure. A failure is printed on
/// stderr.
pub(crate) fn end(done: Result<bool, BackupError>) -> ExitCode {
    match done {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(BackupError::Output(error)) if error.kind() == io::ErrorKind::BrokenPipe => {
            ExitCode::from(UNREAD)
        }
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

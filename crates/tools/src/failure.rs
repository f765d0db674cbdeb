//! Why a tool ends before it is through.

use std::error::Error;
use std::fmt;
use std::io;
use std::process::ExitCode;

use zebu_proto::Causes;

/// The exit code when nobody reads any more what is written, as shells have it.
const UNREAD: u8 = 141;

/// What is said on stderr, and the exit code.
#[derive(Debug)]
pub(crate) struct Failure {
    message: String,
    code: u8,
}

impl Failure {
    /// Something is wrong with a file: exit code 1.
    pub(crate) fn new(message: impl fmt::Display) -> Self {
        Self::with_code(1, message)
    }

    /// The same with another exit code.
    pub(crate) fn with_code(code: u8, message: impl fmt::Display) -> Self {
        Self { message: message.to_string(), code }
    }

    /// Says it.
    pub(crate) fn report(&self) -> ExitCode {
        // Who has seen enough need not be told.
        if self.code != UNREAD {
            eprintln!("{}", self.message);
        }
        ExitCode::from(self.code)
    }
}

/// Ends a tool that is `done`; what it has found before a failure is shown first.
pub(crate) fn end(done: Result<(), Failure>, out: &mut dyn io::Write) -> ExitCode {
    let shown = out.flush().map_err(Failure::from);
    match done.and(shown) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => failure.report(),
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl<E: Error + 'static> From<E> for Failure {
    fn from(error: E) -> Self {
        let io = (&error as &(dyn Error + 'static)).downcast_ref::<io::Error>();
        let is_unread = io.is_some_and(|io| io.kind() == io::ErrorKind::BrokenPipe);
        let code = if is_unread { UNREAD } else { 1 };
        Self::with_code(code, format_args!("error: {}", Causes(&error)))
    }
}

//! The reason why a tool fails.

use std::error::Error;
use std::fmt;
use std::io;
use std::process::ExitCode;

use zebu_proto::Causes;

/// Exit code after a broken pipe, as in shells.
const UNREAD: u8 = 141;

/// The message on stderr, and the exit code.
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

    /// Prints the message.
    pub(crate) fn report(&self) -> ExitCode {
        // A reader that closes the pipe needs no message.
        if self.code != UNREAD {
            eprintln!("{}", self.message);
        }
        ExitCode::from(self.code)
    }
}

/// Ends a tool with the result `done`. Output from before a failure is printed first.
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

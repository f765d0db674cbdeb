//! Why a tool ends before it is through.

use std::fmt;
use std::process::ExitCode;

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
        eprintln!("{}", self.message);
        ExitCode::from(self.code)
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl<E: std::error::Error> From<E> for Failure {
    fn from(error: E) -> Self {
        Self::new(format_args!("error: {error}"))
    }
}

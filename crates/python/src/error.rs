//! Errors of the client and of recipes as exceptions of the package.

use pyo3::IntoPyObjectExt;
use pyo3::prelude::*;
use zebu_client::{ErrorCode, ErrorKind};

/// The reason of a failure, without the interpreter.
pub(crate) enum Failure {
    /// A request was refused, or could not be made.
    Client(zebu_client::Error),
    /// A recipe has failed.
    Recipe(zebu_recipes::Error),
    /// The session's thread has ended, or could not start.
    Thread(String),
}

impl From<zebu_client::Error> for Failure {
    fn from(error: zebu_client::Error) -> Self {
        Self::Client(error)
    }
}

impl From<zebu_recipes::Error> for Failure {
    fn from(error: zebu_recipes::Error) -> Self {
        match error {
            zebu_recipes::Error::Client(error) => Self::Client(error),
            error => Self::Recipe(error),
        }
    }
}

impl Failure {
    /// The exception. `zebu.exceptions` maps codes to classes.
    pub(crate) fn raise(&self, py: Python<'_>) -> PyErr {
        let (message, code, kind, path, operation) = match self {
            Self::Client(error) => (
                error.to_string(),
                error.code(),
                name(error.kind()),
                error.path().map(str::to_owned),
                error.failed_operation(),
            ),
            Self::Recipe(error) => (error.to_string(), ErrorCode(0), "recipe", None, None),
            Self::Thread(reason) => {
                (reason.clone(), ErrorCode::SESSION_EXPIRED, "session_over", None, None)
            }
        };
        let made = py
            .import("zebu.exceptions")
            .and_then(|module| module.getattr("_made"))
            .and_then(|make| make.call1((message, code.0, kind, path, operation)));
        match made {
            Ok(exception) => PyErr::from_value(exception),
            Err(error) => error,
        }
    }
}

fn name(kind: ErrorKind) -> &'static str {
    match kind {
        ErrorKind::Gone => "gone",
        ErrorKind::Conflict => "conflict",
        ErrorKind::Denied => "denied",
        ErrorKind::ReadOnly => "read_only",
        ErrorKind::Quota => "quota",
        ErrorKind::Invalid => "invalid",
        ErrorKind::NotExecuted => "not_executed",
        ErrorKind::Unknown => "unknown",
        ErrorKind::SessionOver => "session_over",
        _ => "server",
    }
}

/// A value that becomes a Python object when the program takes it.
pub(crate) type Answer = Box<dyn FnOnce(Python<'_>) -> PyResult<Py<PyAny>> + Send>;

/// An answer from a thread that does not hold the interpreter.
pub(crate) fn answer<T, E>(result: Result<T, E>) -> Answer
where
    T: for<'py> IntoPyObject<'py> + Send + 'static,
    E: Into<Failure>,
{
    let result: Result<T, Failure> = result.map_err(Into::into);
    Box::new(move |py| match result {
        Ok(value) => value.into_py_any(py),
        Err(failure) => Err(failure.raise(py)),
    })
}

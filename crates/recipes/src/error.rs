//! Errors of recipes.

use zebu_client::ErrorKind;

use crate::faults;

/// Why a recipe failed.
///
/// ```
/// # mod embedded { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/../client/tests/support/embedded.in")); }
/// # embedded::run(async |client| {
/// use zebu_client::{Acls, ErrorKind};
/// use zebu_recipes::{Error, Lock};
///
/// client.close().await?;
/// match Lock::new(&client, "/lock", &Acls::creator()).exclusive().await {
///     Err(Error::Client(error)) => assert_eq!(error.kind(), ErrorKind::SessionOver),
///     other => panic!("{other:?}"),
/// }
/// # Ok(()) });
/// ```
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A request failed, even when repeated.
    #[error(transparent)]
    Client(#[from] zebu_client::Error),
    /// Another client deleted a znode that the recipe relies on.
    #[error("another client deleted a znode that the recipe needs: {0}")]
    Deleted(String),
    /// A znode has content or a name that this recipe never writes: another library uses it.
    #[error("znode with a name or data that this recipe never writes: {0}")]
    Foreign(String),
    /// A cache exceeds its limits. The path is the cache's root.
    #[error("znodes exceed the limits of the cache, nodes_max and bytes_max: {0}")]
    TooLarge(String),
    /// A holder of the read lock asks for the write lock. Two such owners would wait for each other
    /// forever.
    #[error("a holder of the read lock must release it before it takes the write lock: {0}")]
    Upgrade(String),
    /// The semaphore's znode names another number of leases than this program.
    #[error("{path} has {stored} leases, and this program asks for {asked}")]
    Leases {
        /// The znode of the semaphore.
        path: String,
        /// The number in the znode.
        stored: usize,
        /// The number that this program asks for.
        asked: usize,
    },
    /// Other clients changed a value again and again between reading and writing it.
    #[error("other clients changed the value at every attempt, try again later: {0}")]
    Contended(String),
    /// A value or a path does not fit the schema of [`Models`](crate::Models).
    #[error("{path} does not fit its schema: {reason}")]
    Model {
        /// The znode, or the template.
        path: String,
        /// What does not fit.
        reason: String,
    },
    /// An invalid name.
    #[error("invalid name: {name:?}: {reason}")]
    Name {
        /// The name.
        name: String,
        /// Why it is invalid.
        reason: &'static str,
    },
}

impl Error {
    /// Whether the session has ended, and with it everything that it held.
    ///
    /// ```
    /// let error = zebu_recipes::Error::Deleted("/lock/x-0000000000".into());
    /// assert!(!error.is_session_over());
    /// ```
    pub fn is_session_over(&self) -> bool {
        matches!(self, Self::Client(error) if error.kind() == ErrorKind::SessionOver)
    }
}

/// The result of an investigation after an answer was lost. If no server could be asked, `unknown`
/// stays the error: the request may have been executed.
pub(crate) fn found_out<T>(
    found: zebu_client::Result<T>,
    unknown: &zebu_client::Error,
) -> zebu_client::Result<T> {
    found.map_err(|error| match error.kind() {
        ErrorKind::NotExecuted if !faults::forgets_the_unknown() => unknown.clone(),
        _ => error,
    })
}

/// The result of an operation of this crate.
pub type Result<T> = std::result::Result<T, Error>;

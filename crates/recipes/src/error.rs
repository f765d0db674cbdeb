//! What can go wrong in a recipe.

use zebu_client::ErrorKind;

/// Why a recipe could not do what was asked.
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
    /// A request failed, also when it was repeated.
    #[error(transparent)]
    Client(#[from] zebu_client::Error),
    /// Somebody else has deleted a znode that this recipe relied upon.
    #[error("deleted by somebody else: {0}")]
    Deleted(String),
    /// A znode holds what this recipe never wrote.
    #[error("not a znode of this recipe: {0}")]
    Foreign(String),
}

impl Error {
    /// Whether the session is over, and with it everything that was held through it.
    ///
    /// ```
    /// let error = zebu_recipes::Error::Deleted("/lock/x-0000000000".into());
    /// assert!(!error.is_session_over());
    /// ```
    pub fn is_session_over(&self) -> bool {
        matches!(self, Self::Client(error) if error.kind() == ErrorKind::SessionOver)
    }
}

/// The result of everything that can fail here.
pub type Result<T> = std::result::Result<T, Error>;

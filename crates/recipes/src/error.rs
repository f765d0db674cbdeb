//! Errors of recipes.

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
    /// A znode holds what this recipe never wrote, or is named as it never names one: another
    /// library uses it.
    #[error("not a znode of this recipe: {0}")]
    Foreign(String),
    /// More is there than a cache may keep. It names the cache's root.
    #[error("too large for this cache: {0}")]
    TooLarge(String),
    /// Who reads under a lock wants to write under it: two such owners would wait for each other
    /// for ever.
    #[error("a reader cannot become a writer: {0}")]
    Upgrade(String),
    /// Others wrote a value again and again between reading and writing it.
    #[error("others were faster: {0}")]
    Contended(String),
    /// A name that cannot be used here.
    #[error("not a possible name: {name:?}: {reason}")]
    Name {
        /// The name.
        name: String,
        /// What is wrong with it.
        reason: &'static str,
    },
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

//! The server side of SASL: one exchange for each connection, with any mechanism.
//!
//! A [`Mechanism`] is created once at the start, from a section of a JAAS file. It begins a
//! [`ServerExchange`] for each connection. An exchange is a state machine over tokens: it opens no
//! socket, and gets the time and random bytes with each token. [`digest`] creates the mechanism of
//! a `DigestLoginModule`, [`gssapi`] that of a `Krb5LoginModule`.
//!
//! Sources: `ZooKeeperSaslServer`, `SaslServerCallbackHandler`.

mod digest;
mod gssapi;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use crate::kerberos::{Malformed, Naming};

pub use digest::digest;
pub use gssapi::gssapi;

/// Random bytes for each token.
pub const RANDOM_BYTES: usize = 32;

/// The time and random bytes for an exchange, which has neither a clock nor a random generator.
#[derive(Clone, Copy)]
pub struct Given {
    /// The wall-clock time since 1970.
    pub wall: Duration,
    /// Unpredictable bytes, different ones for each token.
    pub random: [u8; RANDOM_BYTES],
}

impl fmt::Debug for Given {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Given").field("wall", &self.wall).finish_non_exhaustive()
    }
}

/// The result of a client's token.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Step {
    /// Send this token and wait for the next one.
    More(Vec<u8>),
    /// The client is authenticated.
    Done {
        /// The token to send; `None` if the mechanism ends with the client's token.
        token: Option<Vec<u8>>,
        /// The authenticated name: the owner of the password or the ticket.
        user: String,
    },
}

/// Why an exchange failed: one sentence for the server's log, without secrets. Text from the client
/// is escaped.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Failure(String);

impl Failure {
    /// A failure with this reason.
    pub fn new(reason: impl fmt::Display) -> Self {
        Self(reason.to_string())
    }
}

impl From<Malformed> for Failure {
    fn from(malformed: Malformed) -> Self {
        Self::new(malformed)
    }
}

/// One authentication of one connection. Connections share nothing except the mechanism's own
/// state.
pub trait ServerExchange: fmt::Debug + Send {
    /// Processes a token of the client, which may be empty. After [`Step::Done`] and after a
    /// failure, every further token fails.
    ///
    /// # Errors
    /// The client is not authenticated.
    fn step(&mut self, token: &[u8], given: Given) -> Result<Step, Failure>;
}

/// The mechanism by which clients authenticate. A server has one.
pub trait Mechanism: fmt::Debug + Send + Sync {
    /// Its registered SASL name, such as `DIGEST-MD5`.
    fn name(&self) -> &'static str;

    /// An exchange without any token yet.
    fn begin(&self) -> Box<dyn ServerExchange>;
}

/// A server's SASL settings for its clients.
#[derive(Debug, Clone)]
pub struct Sasl {
    /// The mechanism.
    pub mechanism: Arc<dyn Mechanism>,
    /// The settings that turn an authenticated name into an id.
    pub naming: Naming,
}

impl Sasl {
    /// The id of the scheme `sasl` for the authenticated `user`.
    ///
    /// # Errors
    /// `user` is not a Kerberos name.
    pub fn id(&self, user: &str) -> Result<String, Failure> {
        Ok(self.naming.id(user)?)
    }
}

#[cfg(test)]
mod tests;

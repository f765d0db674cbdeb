//! SASL's GSSAPI (RFC 4752) over Kerberos, for both sides: the tokens of a security context, then a
//! wrapped agreement on the protection of the following data. As in the original, the agreement is
//! always "no protection", because TLS may protect the connection.
//!
//! The context is [`zebu_gssapi`]'s; tests and fuzzing use others. The authenticated identity is
//! that of the ticket.
//!
//! Sources: RFC 4752, and Java's `GssKrb5Server` and `GssKrb5Client`.

mod client;
mod server;

use std::fmt;

pub use crate::authenticated::Authenticated;
pub use client::Client;
pub use server::{Server, Step};
pub use zebu_gssapi::{Acceptor, Context, Error, Gss, Initiator, Progress, Source, Target};

/// A longer token is refused. A ticket with the groups of a directory can have some ten kilobytes.
pub const TOKEN_BYTES_MAX: usize = 64 * 1024;

/// The layer without protection, the only one that this module supports.
const NO_LAYER: u8 = 1;

/// Why an exchange failed. A failure contains no key.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Failure {
    /// The Kerberos library refuses a token, or has no credentials.
    #[error("Kerberos: {0}")]
    Kerberos(#[from] Error),
    /// A message that does not belong to this step of the exchange.
    #[error("GSSAPI: {0}")]
    Message(&'static str),
}

/// Kerberos as the exchange sees it: a context that is established first, and then wraps messages.
pub trait Secured: fmt::Debug + Send {
    /// Processes a token. A client passes an empty token to begin.
    ///
    /// # Errors
    /// The token is invalid.
    fn step(&mut self, token: &[u8]) -> Result<Progress, Error>;

    /// The identity of the other side, after the context of a service is established.
    fn peer(&self) -> Option<&str>;

    /// Wraps a message, so that the other side can verify its origin.
    ///
    /// # Errors
    /// The context is not established.
    fn wrap(&mut self, message: &[u8]) -> Result<Vec<u8>, Error>;

    /// Unwraps a message of the other side.
    ///
    /// # Errors
    /// The other side has not wrapped this message.
    fn unwrap(&mut self, message: &[u8]) -> Result<Vec<u8>, Error>;
}

impl Secured for Context {
    fn step(&mut self, token: &[u8]) -> Result<Progress, Error> {
        Self::step(self, token)
    }

    fn peer(&self) -> Option<&str> {
        Self::peer(self)
    }

    fn wrap(&mut self, message: &[u8]) -> Result<Vec<u8>, Error> {
        Self::wrap(self, message)
    }

    fn unwrap(&mut self, message: &[u8]) -> Result<Vec<u8>, Error> {
        Self::unwrap(self, message)
    }
}

fn check_length(token: &[u8]) -> Result<(), Failure> {
    if token.len() > TOKEN_BYTES_MAX {
        Err(Failure::Message("a token that is too long"))
    } else {
        Ok(())
    }
}

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

pub use client::Client;
pub use server::{Authenticated, Server, Step};
pub use zebu_gssapi::{Acceptor, Context, Error, Gss, Initiator, Progress, Source, Target};

/// A longer token is refused. A ticket with the groups of a directory may have some ten kilobytes.
pub const TOKEN_BYTES_MAX: usize = 64 * 1024;

/// The layer that protects nothing, and the only one here.
const NO_LAYER: u8 = 1;

/// Why an exchange failed. A failure contains no key.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Failure {
    /// The library of Kerberos refuses a token, or has no credentials.
    #[error("Kerberos: {0}")]
    Kerberos(#[from] Error),
    /// A message that is no step of the exchange.
    #[error("GSSAPI: {0}")]
    Message(&'static str),
}

/// What Kerberos is to the exchange: a context that is being established, and then wraps messages.
pub trait Secured: fmt::Debug + Send {
    /// Takes a token; that of a client which begins is empty.
    ///
    /// # Errors
    /// The token is not good.
    fn step(&mut self, token: &[u8]) -> Result<Progress, Error>;

    /// The identity of the other side, after the context of a service is established.
    fn peer(&self) -> Option<&str>;

    /// Makes a message that the other side knows to be of this one.
    ///
    /// # Errors
    /// There is no context.
    fn wrap(&mut self, message: &[u8]) -> Result<Vec<u8>, Error>;

    /// What the other side has wrapped.
    ///
    /// # Errors
    /// It has not.
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

#[cfg(test)]
mod tests;

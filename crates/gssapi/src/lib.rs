//! Kerberos through MIT's libraries `libgssapi_krb5` and `libkrb5`, which are loaded when they are
//! first needed.
//!
//! Owns every call into them, and gives back types that are safe: an [`Acceptor`] with the keys of
//! a service, an [`Initiator`] with the credentials of a client, and the contexts that both sides
//! establish. A program starts without the libraries; [`Gss::load`] then says which package has
//! them. It leaves SASL to its callers, who also bound the length of tokens. Only it and `capi`
//! have `unsafe` code.
//!
//! The libraries read `krb5.conf` by themselves, again when it has changed; the variable
//! `KRB5_CONFIG` names another file. An [`Initiator`] asks the key distribution centre over the
//! network, which may take many seconds. An [`Acceptor`] asks nobody: it reads its key table, and
//! notes in a file of the library's which tickets it has seen.
//!
//! Sources: RFC 2743, RFC 2744, RFC 4121; the headers `gssapi.h`, `gssapi_ext.h` and `krb5.h` of
//! MIT Kerberos 1.20.

mod acceptor;
mod buffer;
mod calls;
mod context;
mod error;
mod initiator;
mod name;
mod sys;

pub use acceptor::Acceptor;
pub use context::{Context, Progress};
pub use error::Error;
pub use initiator::{Initiator, Source, Target};

use sys::Api;

/// The loaded libraries.
#[derive(Clone, Copy)]
pub struct Gss {
    api: &'static Api,
}

impl std::fmt::Debug for Gss {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Gss")
    }
}

impl Gss {
    /// Loads the libraries, once for the whole process.
    ///
    /// # Errors
    /// [`Error::Missing`]: they are not installed, or lack a function.
    pub fn load() -> Result<Self, Error> {
        sys::loaded().map(|api| Self { api })
    }

    /// The realm of names without a realm: `default_realm` of `krb5.conf`.
    ///
    /// # Errors
    /// There is no default realm.
    pub fn default_realm(self) -> Result<String, Error> {
        let name = name::Name::principal(self.api, "x")?.canonical()?.text()?;
        let (_, realm) = name.rsplit_once('@').unwrap_or_default();
        Ok(realm.to_owned())
    }

    /// A principal's full name: with the default realm if the name has none.
    ///
    /// # Errors
    /// The text is not a valid principal.
    pub fn full_name(self, principal: &str) -> Result<String, Error> {
        name::Name::principal(self.api, principal)?.canonical()?.text()
    }
}

#[cfg(test)]
mod tests;

//! DIGEST-MD5 as a mechanism: the users of a `DigestLoginModule`.

use std::fmt;
use std::sync::Arc;

use super::{Failure, Given, Mechanism, ServerExchange, Step};
use crate::digest_md5::{self, CLIENTS, MESSAGE_BYTES_MAX, NONCE_BYTES};
use crate::jaas::DigestLogin;
use crate::secret::Secret;

/// The user whose password a separate setting may replace.
const SUPER: &str = "super";

/// The mechanism with these users.
///
/// `super_password`: `zookeeper.SASLAuthenticationProvider.superPassword`, which replaces the
/// password of the user `super`. It does not create that user: without `user_super` in the section,
/// `super` cannot authenticate. Source: `SaslServerCallbackHandler`.
pub fn digest(login: DigestLogin, super_password: Option<Secret>) -> Arc<dyn Mechanism> {
    Arc::new(DigestMd5 { users: Arc::new(Users { login, super_password }) })
}

struct Users {
    login: DigestLogin,
    super_password: Option<Secret>,
}

impl Users {
    fn password(&self, user: &str) -> Option<Secret> {
        let own = self.login.password(user)?;
        let replaced = self.super_password.as_ref().filter(|_| user == SUPER);
        Some(replaced.unwrap_or(own).clone())
    }
}

struct DigestMd5 {
    users: Arc<Users>,
}

impl fmt::Debug for DigestMd5 {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DigestMd5").field("users", &self.users.login.users.len()).finish()
    }
}

impl Mechanism for DigestMd5 {
    fn name(&self) -> &'static str {
        "DIGEST-MD5"
    }

    fn begin(&self) -> Box<dyn ServerExchange> {
        Box::new(Exchange { users: self.users.clone(), server: None })
    }
}

struct Exchange {
    users: Arc<Users>,
    /// Created with the first token, whose random bytes become the nonce.
    server: Option<digest_md5::Server>,
}

impl fmt::Debug for Exchange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Exchange").field("server", &self.server).finish_non_exhaustive()
    }
}

impl ServerExchange for Exchange {
    fn step(&mut self, token: &[u8], given: Given) -> Result<Step, Failure> {
        if token.len() > MESSAGE_BYTES_MAX {
            // The state does not change: like Java, this ignores the content of such a token.
            let length = token.len();
            return Err(Failure::new(format!("a token of {length} bytes, which is too long")));
        }
        let server = self.server.get_or_insert_with(|| {
            let mut nonce = [0; NONCE_BYTES];
            nonce.copy_from_slice(&given.random[..NONCE_BYTES]);
            digest_md5::Server::new(CLIENTS, nonce)
        });
        match server.step(token, |user| self.users.password(user)).map_err(Failure::new)? {
            digest_md5::Step::Challenge(token) => Ok(Step::More(token)),
            digest_md5::Step::Done { token, who } => {
                Ok(Step::Done { token: Some(token), user: who.user })
            }
        }
    }
}

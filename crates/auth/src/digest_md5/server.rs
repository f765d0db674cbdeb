//! The server side, which verifies a password.

use std::fmt;

use subtle::ConstantTimeEq;

use super::directives::Directives;
use super::{COUNT, Exchange, Failure, NONCE_BYTES, Protocol, QOP, nonce_text, quoted, text};
use crate::authenticated::Authenticated;
use crate::secret::Secret;

/// The result of a peer's message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Step {
    /// Send this token and wait for the next one.
    Challenge(Vec<u8>),
    /// Send this token: the peer is authenticated.
    Done {
        /// The proof that this side knows the password, too.
        token: Vec<u8>,
        /// The authenticated identity.
        who: Authenticated,
    },
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    Start,
    Challenged,
    Over,
}

/// One authentication of one connection.
pub struct Server {
    protocol: Protocol,
    nonce: String,
    state: State,
}

impl fmt::Debug for Server {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Server").field("protocol", &self.protocol).finish_non_exhaustive()
    }
}

impl Server {
    /// An exchange without any message yet. `random` must be unpredictable.
    pub fn new(protocol: Protocol, random: [u8; NONCE_BYTES]) -> Self {
        Self { protocol, nonce: nonce_text(random), state: State::Start }
    }

    #[cfg(test)]
    pub(super) fn with_nonce(protocol: Protocol, nonce: &str) -> Self {
        Self { protocol, nonce: nonce.to_owned(), state: State::Start }
    }

    /// Processes a token. `password`: the user's password, if the user exists. After an error, and
    /// after [`Step::Done`], every further token is an error.
    ///
    /// # Errors
    /// The peer is not authenticated.
    pub fn step(
        &mut self,
        token: &[u8],
        password: impl FnOnce(&str) -> Option<Secret>,
    ) -> Result<Step, Failure> {
        match std::mem::replace(&mut self.state, State::Over) {
            State::Start if token.is_empty() => {
                self.state = State::Challenged;
                Ok(Step::Challenge(self.challenge()))
            }
            State::Start => Err(Failure::Message("an initial response, which is not allowed")),
            State::Challenged => self.finish(token, password),
            State::Over => Err(Failure::Order),
        }
    }

    fn challenge(&self) -> Vec<u8> {
        let realm = quoted(self.protocol.name);
        format!("realm={realm},nonce=\"{}\",charset=utf-8,algorithm=md5-sess", self.nonce)
            .into_bytes()
    }

    fn finish(
        &self,
        token: &[u8],
        password: impl FnOnce(&str) -> Option<Secret>,
    ) -> Result<Step, Failure> {
        let said = Directives::parse(token)?;
        let is_utf8 = said.is_utf8()?;
        let user = text(said.required("username")?, is_utf8)?;
        let realm = text(said.one("realm")?.unwrap_or_default(), is_utf8)?;
        if realm != self.protocol.name {
            return Err(Failure::Mismatch("realm"));
        }
        if said.required("nonce")? != self.nonce.as_bytes() {
            return Err(Failure::Mismatch("nonce"));
        }
        if said.required("nc")? != COUNT {
            return Err(Failure::Mismatch("nonce count"));
        }
        if !said.one("qop")?.unwrap_or(QOP).eq_ignore_ascii_case(QOP) {
            return Err(Failure::Mismatch("quality of protection"));
        }
        let uri = said.required("digest-uri")?;
        let expected_uri = format!("{}/{}", self.protocol.service, self.protocol.name);
        // A third part, the name of the service, is allowed.
        let agrees = uri
            .get(..expected_uri.len())
            .is_some_and(|uri| uri.eq_ignore_ascii_case(expected_uri.as_bytes()))
            && matches!(uri.get(expected_uri.len()), None | Some(b'/'));
        if !agrees {
            return Err(Failure::Mismatch("digest-uri"));
        }
        let authorization = said.one("authzid")?;
        let exchange = Exchange {
            user: &user,
            realm: &realm,
            nonce: self.nonce.as_bytes(),
            cnonce: said.required("cnonce")?,
            count: COUNT,
            uri,
            authorization,
        };
        let response = said.required("response")?;
        // An unknown user costs as much time as a known one.
        let found = password(&user);
        let is_known = found.is_some();
        let password = found.unwrap_or_default();
        let is_right: bool = exchange.response(b"AUTHENTICATE", &password).ct_eq(response).into();
        if !(is_known & is_right) {
            return Err(Failure::Denied(user));
        }
        let mut token = b"rspauth=".to_vec();
        token.extend(exchange.response(b"", &password));
        let authorization = match authorization {
            Some(name) => text(name, is_utf8)?,
            None => user.clone(),
        };
        Ok(Step::Done { token, who: Authenticated { user, authorization } })
    }
}

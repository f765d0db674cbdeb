//! The client side, which has a password.

use std::fmt;

use subtle::ConstantTimeEq;

use super::directives::Directives;
use super::{COUNT, Exchange, Failure, NONCE_BYTES, Protocol, QOP, nonce_text, quoted, text};
use crate::secret::Secret;

enum State {
    Start,
    /// The `rspauth` that the server must answer with.
    Responded([u8; 32]),
    Done,
    Failed,
}

/// One authentication of one connection.
pub struct Client {
    protocol: Protocol,
    user: String,
    password: Secret,
    /// The realm that this client chooses if the server offers several.
    realm: Option<String>,
    cnonce: String,
    state: State,
}

impl fmt::Debug for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Client")
            .field("protocol", &self.protocol)
            .field("user", &self.user)
            .finish_non_exhaustive()
    }
}

impl Client {
    /// The first token of every exchange; it is empty.
    pub const INITIAL: &'static [u8] = b"";

    /// A client that has sent [`Client::INITIAL`]. `random` must be unpredictable.
    pub fn new(
        protocol: Protocol,
        user: String,
        password: Secret,
        random: [u8; NONCE_BYTES],
    ) -> Self {
        let cnonce = nonce_text(random);
        Self { protocol, user, password, realm: None, cnonce, state: State::Start }
    }

    /// Chooses this realm if the server offers several. A single realm is always accepted.
    #[must_use]
    pub fn with_realm(mut self, realm: Option<String>) -> Self {
        self.realm = realm;
        self
    }

    #[cfg(test)]
    pub(super) fn with_cnonce(mut self, cnonce: &str) -> Self {
        self.cnonce = cnonce.to_owned();
        self
    }

    /// Whether the server has proved its identity, so that this client sends no further token.
    pub fn is_done(&self) -> bool {
        matches!(self.state, State::Done)
    }

    /// Processes a token of the server. Returns the answer to send, or `None` at the successful
    /// end.
    ///
    /// # Errors
    /// The server requires an unsupported option, or does not know the password.
    pub fn step(&mut self, token: &[u8]) -> Result<Option<Vec<u8>>, Failure> {
        match std::mem::replace(&mut self.state, State::Failed) {
            State::Start => self.respond(token).map(Some),
            State::Responded(expected) => {
                let said = Directives::parse(token)?;
                if !bool::from(said.required("rspauth")?.ct_eq(&expected)) {
                    return Err(Failure::Server);
                }
                self.state = State::Done;
                Ok(None)
            }
            State::Done | State::Failed => Err(Failure::Order),
        }
    }

    fn respond(&mut self, token: &[u8]) -> Result<Vec<u8>, Failure> {
        let said = Directives::parse(token)?;
        if !said.required("algorithm")?.eq_ignore_ascii_case(b"md5-sess") {
            return Err(Failure::Mismatch("algorithm"));
        }
        let mut offered = said.one("qop")?.unwrap_or(QOP).split(|byte| *byte == b',');
        if !offered.any(|qop| qop.trim_ascii().eq_ignore_ascii_case(QOP)) {
            return Err(Failure::Mismatch("quality of protection"));
        }
        let is_utf8 = said.is_utf8()?;
        let nonce = said.required("nonce")?;
        // If the server offers several realms, ZooKeeper's own name is chosen unless the caller
        // names another. A single realm is accepted as it is.
        let realms: Vec<&[u8]> = said.all("realm").collect();
        let realm = match realms[..] {
            [] => "",
            [only] => &text(only, is_utf8)?,
            _ => match self.realm.as_deref().unwrap_or(self.protocol.name) {
                wanted if realms.contains(&wanted.as_bytes()) => wanted,
                _ => return Err(Failure::Mismatch("realm")),
            },
        };
        let uri = format!("{}/{}", self.protocol.service, self.protocol.name);
        let written = |text: &str| if is_utf8 { Ok(text.as_bytes().to_vec()) } else { latin(text) };
        let authorization = written(&self.user)?;
        let exchange = Exchange {
            user: &self.user,
            realm,
            nonce,
            cnonce: self.cnonce.as_bytes(),
            count: COUNT,
            uri: uri.as_bytes(),
            authorization: Some(&authorization),
        };
        let response = exchange.response(b"AUTHENTICATE", &self.password);
        self.state = State::Responded(exchange.response(b"", &self.password));

        let name = written(&quoted(&self.user))?;
        let mut out = Vec::new();
        if is_utf8 {
            out.extend(b"charset=utf-8,");
        }
        out.extend([&b"username="[..], &name].concat());
        if !realm.is_empty() {
            out.extend(b",realm=");
            out.extend(written(&quoted(realm))?);
        }
        let nonce = quoted(&text(nonce, false)?);
        out.extend(b",nonce=");
        out.extend(latin(&nonce)?);
        out.extend(b",nc=");
        out.extend(COUNT);
        out.extend(
            format!(",cnonce=\"{}\",digest-uri=\"{uri}\",maxbuf=65536,response=", self.cnonce)
                .bytes(),
        );
        out.extend(response);
        out.extend([&b",qop="[..], QOP, b",authzid=", &name].concat());
        Ok(out)
    }
}

fn latin(text: &str) -> Result<Vec<u8>, Failure> {
    let bytes = text.chars().map(|c| u8::try_from(u32::from(c)).ok()).collect::<Option<Vec<u8>>>();
    bytes.ok_or(Failure::Message("the user's name needs UTF-8, which the server does not offer"))
}

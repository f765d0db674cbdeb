//! SASL's DIGEST-MD5 as Java implements it. Each side is a small state machine over bytes.
//!
//! One object serves one connection and shares nothing with others, so a login can never become
//! that of another user (ZOOKEEPER-4839). The caller provides random bytes. Only the quality of
//! protection `auth` is offered and accepted, as in ZooKeeper.
//!
//! These quirks of Java are kept, because peers can see them:
//! - The server sends no `qop`.
//! - An initial response is refused.
//! - Names and passwords are hashed as Latin-1 if all their characters are in it.
//! - A client always sends `maxbuf`, and its own name as `authzid`.
//!
//! Sources: RFC 2831, `com.sun.security.sasl.digest`, `ZooKeeperSaslServer`,
//! `SaslQuorumAuthServer`, `SecurityUtils.createSaslClient`.

mod client;
mod directives;
mod server;

#[cfg(test)]
mod tests;

pub use crate::authenticated::Authenticated;
pub use client::Client;
pub use server::{Server, Step};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use md5::{Digest, Md5};
use zeroize::Zeroizing;

use crate::secret::Secret;

/// Random bytes of a nonce; base64 makes 40 characters of them, as Java's have.
pub const NONCE_BYTES: usize = 30;

/// A message longer than this is refused without parsing it, as Java does with responses.
pub const MESSAGE_BYTES_MAX: usize = 4096;

/// The parties of an exchange: both sides must use the same.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Protocol {
    /// The service of the `digest-uri`.
    pub service: &'static str,
    /// The host of the `digest-uri`, which is the realm, too.
    pub name: &'static str,
}

/// Between clients and servers.
pub const CLIENTS: Protocol = Protocol { service: "zookeeper", name: "zk-sasl-md5" };

/// Between servers.
pub const QUORUM: Protocol = Protocol { service: "zookeeper-quorum", name: "zk-quorum-sasl-md5" };

/// Why an authentication ends. No variant has a secret in it, and what the peer sent is escaped.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Failure {
    /// The message is invalid.
    #[error("not a DIGEST-MD5 message: {0}")]
    Message(&'static str),
    /// The message contradicts an earlier agreement.
    #[error("the peer's DIGEST-MD5 {0} is not what was agreed on")]
    Mismatch(&'static str),
    /// The user is unknown or the password is wrong. The peer must not learn which of both.
    #[error("user {0:?} is unknown or has another password")]
    Denied(String),
    /// The server does not prove that it knows the user's password.
    #[error("the server could not prove that it knows the password")]
    Server,
    /// A message after the end of the exchange, or out of order.
    #[error("a DIGEST-MD5 message out of its order")]
    Order,
}

/// The values that both sides hash.
struct Exchange<'a> {
    user: &'a str,
    realm: &'a str,
    nonce: &'a [u8],
    cnonce: &'a [u8],
    count: &'a [u8],
    uri: &'a [u8],
    authorization: Option<&'a [u8]>,
}

const QOP: &[u8] = b"auth";
const COUNT: &[u8] = b"00000001";

impl Exchange<'_> {
    /// The `response` of a client (`AUTHENTICATE`) or the `rspauth` of a server (an empty method).
    fn response(&self, method: &[u8], password: &Secret) -> [u8; 32] {
        let password = match password.expose_str() {
            Some(text) => hashed_form(text),
            None => Zeroizing::new(password.expose().to_vec()),
        };
        let parts: [&[u8]; 5] =
            [&hashed_form(self.user), b":", &hashed_form(self.realm), b":", &password];
        let secret = Zeroizing::new(md5(&parts));
        let mut parts = vec![&secret[..], b":", self.nonce, b":", self.cnonce];
        if let Some(authorization) = self.authorization {
            parts.extend([&b":"[..], authorization]);
        }
        let first = Zeroizing::new(hex(md5(&parts)));
        let second = hex(md5(&[method, b":", self.uri]));
        hex(md5(&[
            &first[..],
            b":",
            self.nonce,
            b":",
            self.count,
            b":",
            self.cnonce,
            b":",
            QOP,
            b":",
            &second,
        ]))
    }
}

fn md5(parts: &[&[u8]]) -> [u8; 16] {
    let mut state = Md5::new();
    for part in parts {
        state.update(part);
    }
    state.finalize().into()
}

fn hex(bytes: [u8; 16]) -> [u8; 32] {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    let mut text = [0; 32];
    for (pair, byte) in text.chunks_exact_mut(2).zip(bytes) {
        pair[0] = DIGITS[usize::from(byte >> 4)];
        pair[1] = DIGITS[usize::from(byte & 15)];
    }
    text
}

/// Encodes text as Latin-1 if it has all characters, otherwise as UTF-8.
fn hashed_form(text: &str) -> Zeroizing<Vec<u8>> {
    let latin: Option<Vec<u8>> = text.chars().map(|c| u8::try_from(u32::from(c)).ok()).collect();
    Zeroizing::new(latin.unwrap_or_else(|| text.as_bytes().to_vec()))
}

fn nonce_text(random: [u8; NONCE_BYTES]) -> String {
    STANDARD.encode(random)
}

/// The content of a quoted string: quotes and backslashes are escaped with a backslash.
fn quoted(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 2);
    out.push('"');
    for character in text.chars() {
        if matches!(character, '"' | '\\') {
            out.push('\\');
        }
        out.push(character);
    }
    out.push('"');
    out
}

/// Decodes a peer's text: as UTF-8 if the peer declares it, otherwise as Latin-1.
fn text(bytes: &[u8], is_utf8: bool) -> Result<String, Failure> {
    if is_utf8 {
        std::str::from_utf8(bytes).map(str::to_owned).map_err(|_| Failure::Message("not UTF-8"))
    } else {
        Ok(bytes.iter().map(|byte| char::from(*byte)).collect())
    }
}

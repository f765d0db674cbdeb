//! Session passwords: what a client shows to prove that it owns a session.
//!
//! The original computes the password from the session id alone. The id is no secret:
//! `ephemeralOwner` shows it to every client that may read a stat. A key that only the servers know
//! makes passwords that nobody else can compute. All servers of an ensemble need the same key,
//! because a session may move from one server to another.

use std::fmt;

use hmac::{Hmac, Mac};
use sha2::Sha256;
use zebu_proto::reply::PASSWORD_BYTES;
use zebu_proto::{SessionId, compatible_password, same_password};

/// The key of the ensemble that session passwords are made with. It is never printed.
#[derive(Clone)]
pub struct SessionKey(Hmac<Sha256>);

impl SessionKey {
    /// Shortest accepted secret, in bytes.
    pub const BYTES_MIN: usize = 32;

    /// The key that a secret stands for; `None` when the secret is shorter than
    /// [`SessionKey::BYTES_MIN`].
    pub fn new(secret: &[u8]) -> Option<Self> {
        if secret.len() < Self::BYTES_MIN {
            return None;
        }
        let mac = Hmac::new_from_slice(secret).expect("HMAC takes keys of any length");
        Some(Self(mac))
    }

    /// The password of a session: the first half of HMAC-SHA-256 over its id.
    fn password(&self, session: SessionId) -> [u8; PASSWORD_BYTES] {
        self.first_half(b"session", session.0)
    }

    /// Eight hexadecimal digits for comparing keys. They reveal nothing else about the key.
    pub fn fingerprint(&self) -> String {
        let bytes = self.first_half(b"fingerprint", 0);
        bytes[..4].iter().map(|byte| format!("{byte:02x}")).collect()
    }

    fn first_half(&self, purpose: &[u8], number: i64) -> [u8; PASSWORD_BYTES] {
        let mut mac = self.0.clone();
        mac.update(purpose);
        mac.update(&number.to_be_bytes());
        let code = mac.finalize().into_bytes();
        *code.first_chunk().expect("SHA-256 is longer than a password")
    }
}

impl PartialEq for SessionKey {
    fn eq(&self, other: &Self) -> bool {
        self.first_half(b"equal", 0) == other.first_half(b"equal", 0)
    }
}

impl Eq for SessionKey {}

impl fmt::Debug for SessionKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SessionKey({})", self.fingerprint())
    }
}

/// Which passwords a server issues and accepts.
///
/// A running ensemble moves from the first variant to the last, and back, one variant at a time
/// with a rolling restart each. No session is refused on the way.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Passwords {
    /// Issues and accepts the original's passwords: for ensembles with servers of the original.
    #[default]
    Compatible,
    /// Issues the original's passwords, and also accepts keyed ones.
    AcceptKeyed(SessionKey),
    /// Issues keyed passwords, and also accepts the original's.
    AcceptCompatible(SessionKey),
    /// Issues and accepts keyed passwords only.
    Keyed(SessionKey),
}

impl Passwords {
    /// The password issued with a session.
    pub fn give(&self, session: SessionId) -> [u8; PASSWORD_BYTES] {
        match self {
            Self::Compatible | Self::AcceptKeyed(_) => compatible_password(session),
            Self::AcceptCompatible(key) | Self::Keyed(key) => key.password(session),
        }
    }

    /// Whether this password proves ownership of the session.
    pub fn accept(&self, session: SessionId, password: &[u8]) -> bool {
        let is_compatible = || same_password(password, &compatible_password(session));
        let is_keyed = |key: &SessionKey| same_password(password, &key.password(session));
        match self {
            Self::Compatible => is_compatible(),
            Self::AcceptKeyed(key) | Self::AcceptCompatible(key) => {
                is_keyed(key) || is_compatible()
            }
            Self::Keyed(key) => is_keyed(key),
        }
    }
}

impl fmt::Display for Passwords {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Compatible => f.write_str(
                "as ZooKeeper computes them: a client that knows a session id can compute its password",
            ),
            Self::AcceptKeyed(key) => write!(
                f,
                "given as ZooKeeper computes them, accepted also with key {}",
                key.fingerprint()
            ),
            Self::AcceptCompatible(key) => write!(
                f,
                "given with key {}, accepted also as ZooKeeper computes them",
                key.fingerprint()
            ),
            Self::Keyed(key) => write!(f, "given and accepted with key {}", key.fingerprint()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SESSION: SessionId = SessionId(0x0100_001a_3980_0000);

    fn key(byte: u8) -> SessionKey {
        SessionKey::new(&[byte; SessionKey::BYTES_MIN]).expect("it is long enough")
    }

    #[test]
    fn a_keyed_password_is_hmac_sha256_over_the_session_id() {
        // printf 'session\x01\x00\x00\x1a\x39\x80\x00\x00' |
        //   openssl dgst -sha256 -mac HMAC -macopt hexkey:$(printf '07%.0s' $(seq 32))
        let password: String =
            key(7).password(SESSION).iter().map(|byte| format!("{byte:02x}")).collect();
        assert_eq!(password, "975eaedc4198a7af9353d0a7ed894b91");
    }

    #[test]
    fn a_short_secret_makes_no_key() {
        assert!(SessionKey::new(&[7; SessionKey::BYTES_MIN - 1]).is_none());
        assert!(SessionKey::new(&[]).is_none());
    }

    #[test]
    fn each_step_accepts_what_the_steps_beside_it_give() {
        let steps = [
            Passwords::Compatible,
            Passwords::AcceptKeyed(key(7)),
            Passwords::AcceptCompatible(key(7)),
            Passwords::Keyed(key(7)),
        ];
        for (i, giver) in steps.iter().enumerate() {
            let password = giver.give(SESSION);
            for (j, taker) in steps.iter().enumerate() {
                let accepted = taker.accept(SESSION, &password);
                // The last step knows no compatible passwords, the first step knows no key.
                let refused = matches!((i, j), (0 | 1, 3) | (2 | 3, 0));
                assert_eq!(accepted, !refused, "given at step {i}, shown at step {j}");
            }
        }
    }

    #[test]
    fn another_key_another_session_and_a_cut_password_prove_nothing() {
        let (ours, other) = (Passwords::Keyed(key(7)), Passwords::Keyed(key(8)));
        let password = ours.give(SESSION);
        assert!(ours.accept(SESSION, &password));
        assert!(!other.accept(SESSION, &password));
        assert!(!ours.accept(SessionId(SESSION.0 + 1), &password));
        assert!(!ours.accept(SESSION, &password[..15]));
        assert!(!ours.accept(SESSION, &[]));
        assert!(!ours.accept(SESSION, &compatible_password(SESSION)));
    }

    #[test]
    fn debug_shows_the_fingerprint_only() {
        assert_eq!(format!("{:?}", key(7)), format!("SessionKey({})", key(7).fingerprint()));
        assert_ne!(key(7).fingerprint(), key(8).fingerprint());
        assert_eq!(key(7).fingerprint().len(), 8);
    }
}

//! JKS, Java's first format of key stores: keys encrypted with a SHA-1 key stream, plain
//! certificates, and a hash over the password and everything else.
//!
//! Sources: `sun.security.provider.JavaKeyStore` and `KeyProtector`, and files of keytool.

use sha1::{Digest, Sha1};
use subtle::ConstantTimeEq;
use zeroize::Zeroizing;

use super::{Contents, Fault};
use crate::der::{OCTET_STRING, OID, Reader, SEQUENCE, oid_text};
use crate::pbe::Password;

const HASH_BYTES: usize = 20;
/// `1.3.6.1.4.1.42.2.17.1.1`: the key stream of JKS.
const KEY_STREAM: &str = "1.3.6.1.4.1.42.2.17.1.1";
/// The salt that JKS hashes together with the password.
const PEPPER: &[u8] = b"Mighty Aphrodite";

pub(super) fn contents(bytes: &[u8], password: Option<&Password>) -> Result<Contents, Fault> {
    let Some((body, hash)) = bytes.split_last_chunk::<HASH_BYTES>() else {
        return Err(Fault::damaged("JKS", "it ends too early"));
    };
    if let Some(password) = password {
        let mut state = Sha1::new();
        state.update(password.utf16_bare());
        state.update(PEPPER);
        state.update(body);
        if !bool::from(state.finalize().as_slice().ct_eq(hash)) {
            return Err(Fault::new(
                "the password is wrong, or the store is damaged",
                "check the store's password or password file",
            ));
        }
    }
    let mut cursor = Cursor(&body[4..]);
    let version = cursor.number()?;
    if version != 1 && version != 2 {
        return Err(Fault::damaged("JKS", format_args!("unknown version {version}")));
    }
    let mut contents = Contents::default();
    for _ in 0..cursor.number()? {
        let kind = cursor.number()?;
        cursor.text()?; // The alias.
        cursor.take(8)?; // When it was made.
        match kind {
            1 => {
                let protected = cursor.sized()?;
                let mut chain = Vec::new();
                for _ in 0..cursor.number()? {
                    chain.push(cursor.certificate(version)?);
                }
                let password = password.ok_or_else(|| Fault::password(false))?;
                contents.identities.push((key(protected, password)?, chain));
            }
            2 => contents.certificates.push(cursor.certificate(version)?),
            _ => return Err(Fault::damaged("JKS", format_args!("unknown entry {kind}"))),
        }
    }
    Ok(contents)
}

/// Decrypts a key. It may have its own password; ZooKeeper expects the password of the store.
fn key(protected: &[u8], password: &Password) -> Result<Zeroizing<Vec<u8>>, Fault> {
    let damaged = |why: &str| Fault::damaged("JKS", why.to_owned());
    let read = || {
        let mut info = Reader::new(protected).inside(SEQUENCE)?;
        let algorithm = info.inside(SEQUENCE)?.expect(OID)?;
        Ok::<_, crate::der::DerError>((oid_text(algorithm), info.expect(OCTET_STRING)?))
    };
    let (algorithm, data) = read().map_err(|error| Fault::damaged("JKS", error))?;
    if algorithm.as_deref() != Some(KEY_STREAM) {
        return Err(damaged("its key is protected in an unknown manner"));
    }
    let Some((salt, rest)) = data.split_first_chunk::<HASH_BYTES>() else {
        return Err(damaged("its key ends too early"));
    };
    let Some((hidden, check)) = rest.split_last_chunk::<HASH_BYTES>() else {
        return Err(damaged("its key ends too early"));
    };
    let mut plain = Zeroizing::new(Vec::with_capacity(hidden.len()));
    let mut stream = Sha1::new().chain_update(password.utf16_bare()).chain_update(salt).finalize();
    for chunk in hidden.chunks(HASH_BYTES) {
        plain.extend(chunk.iter().zip(stream).map(|(byte, mask)| byte ^ mask));
        stream = Sha1::new().chain_update(password.utf16_bare()).chain_update(stream).finalize();
    }
    let hash = Sha1::new().chain_update(password.utf16_bare()).chain_update(&*plain).finalize();
    if bool::from(hash.as_slice().ct_eq(check)) {
        Ok(plain)
    } else {
        Err(Fault::new(
            "its key has another password than the store",
            "give both one password: keytool -keypasswd",
        ))
    }
}

struct Cursor<'a>(&'a [u8]);

impl<'a> Cursor<'a> {
    fn take(&mut self, length: usize) -> Result<&'a [u8], Fault> {
        let Some((taken, rest)) = self.0.split_at_checked(length) else {
            return Err(Fault::damaged("JKS", "it ends too early"));
        };
        self.0 = rest;
        Ok(taken)
    }

    fn number(&mut self) -> Result<u32, Fault> {
        Ok(self.take(4)?.iter().fold(0, |sum, byte| sum << 8 | u32::from(*byte)))
    }

    fn sized(&mut self) -> Result<&'a [u8], Fault> {
        let length = self.number()?;
        self.take(usize::try_from(length).unwrap_or(usize::MAX))
    }

    fn text(&mut self) -> Result<&'a [u8], Fault> {
        let length = self.take(2)?.iter().fold(0, |sum, byte| sum << 8 | usize::from(*byte));
        self.take(length)
    }

    fn certificate(&mut self, version: u32) -> Result<Vec<u8>, Fault> {
        if version == 2 {
            let kind = self.text()?;
            if kind != b"X.509" {
                return Err(Fault::damaged("JKS", "a certificate is not of X.509"));
            }
        }
        Ok(self.sized()?.to_vec())
    }
}

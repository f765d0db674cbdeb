//! Decryption with a password, as PKCS12 files and encrypted PEM keys use it: PBES2, and PKCS12's
//! own older schemes.
//!
//! Sources: RFC 8018 (PBES2, PBKDF2), RFC 7292 appendix B (PKCS12's key derivation).

use std::cell::Cell;

use aes::cipher::block_padding::Pkcs7;
use aes::cipher::{BlockDecryptMut, InnerIvInit, KeyIvInit};
use aes::{Aes128, Aes192, Aes256};
use cbc::Decryptor;
use des::TdesEde3;
use rc2::Rc2;
use sha1::Sha1;
use sha2::{Digest, Sha224, Sha256, Sha384, Sha512};
use zeroize::Zeroizing;

use crate::der::{DerError, INTEGER, OCTET_STRING, OID, Reader, SEQUENCE, oid_text};

/// Maximum number of rounds of a store, all derivations together, so that a file cannot delay a
/// server for minutes. Java writes 10,000, older versions wrote 50,000 to 100,000 for each entry,
/// OpenSSL writes 2,048; OWASP recommends up to 1,300,000.
pub(crate) const ROUNDS_MAX: u32 = 10_000_000;

/// Why decryption failed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum PbeError {
    /// The result has no valid padding: almost certainly the password is wrong.
    #[error("the password is wrong")]
    Password,
    /// An unsupported scheme.
    #[error("it is encrypted with an unsupported scheme ({0})")]
    Scheme(String),
    /// The number of rounds is too large.
    #[error("its password has {0} rounds, more than are accepted")]
    Rounds(u32),
    /// The structure is invalid.
    #[error(transparent)]
    Der(#[from] DerError),
}

/// A hash function that a store uses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Hash {
    Sha1,
    Sha224,
    Sha256,
    Sha384,
    Sha512,
}

impl Hash {
    /// The hash with this object identifier.
    pub(crate) fn of(oid: &str) -> Option<Self> {
        Some(match oid {
            "1.3.14.3.2.26" | "1.2.840.113549.2.7" => Self::Sha1,
            "2.16.840.1.101.3.4.2.4" | "1.2.840.113549.2.8" => Self::Sha224,
            "2.16.840.1.101.3.4.2.1" | "1.2.840.113549.2.9" => Self::Sha256,
            "2.16.840.1.101.3.4.2.2" | "1.2.840.113549.2.10" => Self::Sha384,
            "2.16.840.1.101.3.4.2.3" | "1.2.840.113549.2.11" => Self::Sha512,
            _ => return None,
        })
    }

    pub(crate) const fn output(self) -> usize {
        match self {
            Self::Sha1 => 20,
            Self::Sha224 => 28,
            Self::Sha256 => 32,
            Self::Sha384 => 48,
            Self::Sha512 => 64,
        }
    }

    const fn block(self) -> usize {
        match self {
            Self::Sha1 | Self::Sha224 | Self::Sha256 => 64,
            Self::Sha384 | Self::Sha512 => 128,
        }
    }

    fn digest(self, parts: &[&[u8]]) -> Zeroizing<Vec<u8>> {
        fn run<D: Digest>(parts: &[&[u8]]) -> Zeroizing<Vec<u8>> {
            let mut state = D::new();
            for part in parts {
                state.update(part);
            }
            Zeroizing::new(state.finalize().to_vec())
        }
        match self {
            Self::Sha1 => run::<Sha1>(parts),
            Self::Sha224 => run::<Sha224>(parts),
            Self::Sha256 => run::<Sha256>(parts),
            Self::Sha384 => run::<Sha384>(parts),
            Self::Sha512 => run::<Sha512>(parts),
        }
    }

    /// PBKDF2 with HMAC of this hash.
    pub(crate) fn pbkdf2(self, password: &[u8], salt: &[u8], rounds: u32, out: &mut [u8]) {
        match self {
            Self::Sha1 => pbkdf2::pbkdf2_hmac::<Sha1>(password, salt, rounds, out),
            Self::Sha224 => pbkdf2::pbkdf2_hmac::<Sha224>(password, salt, rounds, out),
            Self::Sha256 => pbkdf2::pbkdf2_hmac::<Sha256>(password, salt, rounds, out),
            Self::Sha384 => pbkdf2::pbkdf2_hmac::<Sha384>(password, salt, rounds, out),
            Self::Sha512 => pbkdf2::pbkdf2_hmac::<Sha512>(password, salt, rounds, out),
        }
    }

    /// HMAC with this hash; `key` and `message` are those of a store.
    pub(crate) fn hmac(self, key: &[u8], message: &[u8]) -> Vec<u8> {
        let block = self.block();
        let mut inner = Zeroizing::new(vec![0u8; block]);
        if key.len() > block {
            let short = self.digest(&[key]);
            inner[..short.len()].copy_from_slice(&short);
        } else {
            inner[..key.len()].copy_from_slice(key);
        }
        let mut outer = inner.clone();
        inner.iter_mut().for_each(|byte| *byte ^= 0x36);
        outer.iter_mut().for_each(|byte| *byte ^= 0x5c);
        let inside = self.digest(&[&inner, message]);
        self.digest(&[&outer, &inside]).to_vec()
    }

    /// PKCS12's own key derivation. `purpose`: 1 a key, 2 an IV, 3 a MAC's key.
    pub(crate) fn pkcs12(
        self,
        password: &Password,
        salt: &[u8],
        rounds: u32,
        purpose: u8,
        length: usize,
    ) -> Zeroizing<Vec<u8>> {
        let block = self.block();
        let stretch = |bytes: &[u8]| -> Vec<u8> {
            let length = bytes.len().div_ceil(block) * block;
            bytes.iter().copied().cycle().take(length).collect()
        };
        let diversifier = vec![purpose; block];
        let mut input = Zeroizing::new(stretch(salt));
        let secret = Zeroizing::new(stretch(password.utf16()));
        input.extend_from_slice(&secret);
        let mut out = Zeroizing::new(Vec::new());
        while out.len() < length {
            let mut hash = self.digest(&[&diversifier, &input]);
            for _ in 1..rounds {
                hash = self.digest(&[&hash]);
            }
            out.extend_from_slice(&hash);
            let mut add =
                Zeroizing::new(hash.iter().copied().cycle().take(block).collect::<Vec<u8>>());
            for chunk in input.chunks_mut(block) {
                let mut carry = 1u16;
                for (byte, more) in chunk.iter_mut().zip(add.iter_mut()).rev() {
                    carry += u16::from(*byte) + u16::from(*more);
                    *byte = carry.to_be_bytes()[1];
                    carry >>= 8;
                }
            }
        }
        out.truncate(length);
        out
    }
}

/// A password in both forms that stores use, and the remaining number of rounds.
pub(crate) struct Password {
    bytes: Zeroizing<Vec<u8>>,
    utf16: Zeroizing<Vec<u8>>,
    rounds_left: Cell<u32>,
}

impl Password {
    /// `bytes`: the password in a setting or a file. If they are not UTF-8, they are interpreted as
    /// Latin-1.
    ///
    /// `rounds_max`: the limit for all derivations together.
    pub(crate) fn new(bytes: &[u8], rounds_max: u32) -> Self {
        let mut utf16 = Zeroizing::new(Vec::new());
        match std::str::from_utf8(bytes) {
            Ok(text) => text.encode_utf16().for_each(|unit| utf16.extend(unit.to_be_bytes())),
            Err(_) => bytes.iter().for_each(|byte| utf16.extend([0, *byte])),
        }
        utf16.extend([0, 0]);
        let bytes = Zeroizing::new(bytes.to_vec());
        Self { bytes, utf16, rounds_left: Cell::new(rounds_max) }
    }

    /// The form for PBES2.
    pub(crate) fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// The form for PKCS12's own derivation: UTF-16 with a zero at the end.
    pub(crate) fn utf16(&self) -> &[u8] {
        &self.utf16
    }

    /// UTF-16 without the zero, the form for JKS.
    pub(crate) fn utf16_bare(&self) -> &[u8] {
        &self.utf16[..self.utf16.len() - 2]
    }
}

/// Checks the number of rounds that a file requires, and subtracts it from the remaining ones.
pub(crate) fn rounds(wanted: u32, password: &Password) -> Result<u32, PbeError> {
    if wanted == 0 {
        return Err(DerError::Value.into());
    }
    let left = password.rounds_left.get().checked_sub(wanted).ok_or(PbeError::Rounds(wanted))?;
    password.rounds_left.set(left);
    Ok(wanted)
}

/// Decrypts `data` with the algorithm of its `AlgorithmIdentifier` (the content of the sequence).
pub(crate) fn decrypt(
    algorithm: &[u8],
    password: &Password,
    data: &[u8],
) -> Result<Zeroizing<Vec<u8>>, PbeError> {
    let mut reader = Reader::new(algorithm);
    let oid = oid_text(reader.expect(OID)?).ok_or(DerError::Value)?;
    match oid.as_str() {
        "1.2.840.113549.1.5.13" => pbes2(reader.inside(SEQUENCE)?, password, data),
        "1.2.840.113549.1.12.1.3" => pkcs12::<Decryptor<TdesEde3>>(reader, password, data, 24),
        "1.2.840.113549.1.12.1.5" => rc2(reader, password, data, 16),
        "1.2.840.113549.1.12.1.6" => rc2(reader, password, data, 5),
        _ => Err(PbeError::Scheme(oid)),
    }
}

fn pkcs12_parameters<'a>(
    mut reader: Reader<'a>,
    password: &Password,
) -> Result<(&'a [u8], u32), PbeError> {
    let mut parameters = reader.inside(SEQUENCE)?;
    Ok((parameters.expect(OCTET_STRING)?, rounds(parameters.number()?, password)?))
}

/// The key of `key_bytes`, and the initialization vector, of a cipher with blocks of 8 bytes.
fn pkcs12_key(
    reader: Reader<'_>,
    password: &Password,
    key_bytes: usize,
) -> Result<[Zeroizing<Vec<u8>>; 2], PbeError> {
    let (salt, rounds) = pkcs12_parameters(reader, password)?;
    let derive = |purpose, length| Hash::Sha1.pkcs12(password, salt, rounds, purpose, length);
    Ok([derive(1, key_bytes), derive(2, 8)])
}

fn pkcs12<C: KeyIvInit + BlockDecryptMut>(
    reader: Reader<'_>,
    password: &Password,
    data: &[u8],
    key_bytes: usize,
) -> Result<Zeroizing<Vec<u8>>, PbeError> {
    let [key, iv] = pkcs12_key(reader, password, key_bytes)?;
    cbc::<C>(&key, &iv, data)
}

/// RC2 is separate because its effective key length is that of the key.
fn rc2(
    reader: Reader<'_>,
    password: &Password,
    data: &[u8],
    key_bytes: usize,
) -> Result<Zeroizing<Vec<u8>>, PbeError> {
    let [key, iv] = pkcs12_key(reader, password, key_bytes)?;
    let cipher = Rc2::new_with_eff_key_len(&key, key_bytes * 8);
    let decryptor = Decryptor::inner_iv_slice_init(cipher, &iv).map_err(|_| DerError::Value)?;
    unpad(decryptor, data)
}

fn pbes2(
    mut parameters: Reader<'_>,
    password: &Password,
    data: &[u8],
) -> Result<Zeroizing<Vec<u8>>, PbeError> {
    let mut derivation = parameters.inside(SEQUENCE)?;
    let oid = oid_text(derivation.expect(OID)?).ok_or(DerError::Value)?;
    if oid != "1.2.840.113549.1.5.12" {
        return Err(PbeError::Scheme(oid));
    }
    let mut pbkdf2 = derivation.inside(SEQUENCE)?;
    let salt = pbkdf2.expect(OCTET_STRING)?;
    let rounds = rounds(pbkdf2.number()?, password)?;
    if pbkdf2.peek() == Some(INTEGER) {
        pbkdf2.number()?; // The key's length, which the cipher settles.
    }
    let hash = prf(&mut pbkdf2)?;
    let mut scheme = parameters.inside(SEQUENCE)?;
    let cipher = oid_text(scheme.expect(OID)?).ok_or(DerError::Value)?;
    let key_bytes = match cipher.as_str() {
        "2.16.840.1.101.3.4.1.2" => 16,
        "2.16.840.1.101.3.4.1.22" | "1.2.840.113549.3.7" => 24,
        "2.16.840.1.101.3.4.1.42" => 32,
        _ => return Err(PbeError::Scheme(cipher)),
    };
    let iv = scheme.expect(OCTET_STRING)?;
    let mut key = Zeroizing::new(vec![0; key_bytes]);
    hash.pbkdf2(password.bytes(), salt, rounds, &mut key);
    match cipher.as_str() {
        "2.16.840.1.101.3.4.1.2" => cbc::<Decryptor<Aes128>>(&key, iv, data),
        "2.16.840.1.101.3.4.1.22" => cbc::<Decryptor<Aes192>>(&key, iv, data),
        "2.16.840.1.101.3.4.1.42" => cbc::<Decryptor<Aes256>>(&key, iv, data),
        _ => cbc::<Decryptor<TdesEde3>>(&key, iv, data),
    }
}

/// PBKDF2's pseudo-random function; SHA-1 by default.
pub(crate) fn prf(reader: &mut Reader<'_>) -> Result<Hash, PbeError> {
    let Some(algorithm) = reader.optional(SEQUENCE)? else { return Ok(Hash::Sha1) };
    let oid = oid_text(Reader::new(algorithm).expect(OID)?).ok_or(DerError::Value)?;
    Hash::of(&oid).ok_or(PbeError::Scheme(oid))
}

fn cbc<C: KeyIvInit + BlockDecryptMut>(
    key: &[u8],
    iv: &[u8],
    data: &[u8],
) -> Result<Zeroizing<Vec<u8>>, PbeError> {
    let decryptor = C::new_from_slices(key, iv).map_err(|_| DerError::Value)?;
    unpad(decryptor, data)
}

fn unpad<C: BlockDecryptMut>(decryptor: C, data: &[u8]) -> Result<Zeroizing<Vec<u8>>, PbeError> {
    if data.is_empty() || !data.len().is_multiple_of(C::block_size()) {
        return Err(DerError::Short.into());
    }
    let mut buffer = Zeroizing::new(data.to_vec());
    let length =
        decryptor.decrypt_padded_mut::<Pkcs7>(&mut buffer).map_err(|_| PbeError::Password)?.len();
    buffer.truncate(length);
    Ok(buffer)
}

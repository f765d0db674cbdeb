//! Key and trust stores: PEM, PKCS12 and JKS. Their content decides the format, not their name.
//!
//! The suffix of a file and the configured type are not reliable: kazoo's tests write true JKS,
//! keytool writes PKCS12 into files with the suffix `.jks`, and other programs write key and
//! certificate into one PEM file. Every error is one sentence with the file, the fault and a
//! remedy; no error contains a password.

mod jks;
pub mod pem;
mod pkcs12;

#[cfg(test)]
mod tests;

use std::fmt;
use std::path::{Path, PathBuf};

use jiff::Timestamp;
use rustls::pki_types::{CertificateDer, CertificateRevocationListDer, PrivateKeyDer};
use zeroize::Zeroizing;

use crate::certificate::{Facts, Parts};
use crate::der::{Reader, SEQUENCE};
use crate::pbe::{Password, ROUNDS_MAX};
use crate::secret::Secret;

/// A store larger than this is refused.
const BYTES_MAX: u64 = 64 << 20;

/// A kind of store.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// PEM text: certificates, a key, revocation lists.
    Pem,
    /// PKCS12, Java's default since version 9.
    Pkcs12,
    /// Java's own first format.
    Jks,
}

/// A store that cannot be used: the file, the fault, and a remedy.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoreError {
    /// The file.
    pub path: PathBuf,
    /// The fault.
    pub fault: String,
    /// A remedy for the operator.
    pub remedy: &'static str,
}

impl fmt::Display for StoreError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}; {}", self.path.display(), self.fault, self.remedy)
    }
}

impl std::error::Error for StoreError {}

/// A fault in the content of a store, before the file name is added.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fault {
    what: String,
    remedy: &'static str,
}

impl Fault {
    fn new(what: impl Into<String>, remedy: &'static str) -> Self {
        Self { what: what.into(), remedy }
    }

    fn password(has: bool) -> Self {
        if has {
            Self::new("the password is wrong", "check the store's password or password file")
        } else {
            Self::new(
                "it is encrypted and no password is set",
                "set the store's password or passwordPath",
            )
        }
    }

    fn damaged(kind: &str, why: impl fmt::Display) -> Self {
        Self::new(
            format!("it is a damaged {kind} store: {why}"),
            "make the store again or restore it from a backup",
        )
    }

    fn at(self, path: &Path) -> StoreError {
        StoreError { path: path.to_owned(), fault: self.what, remedy: self.remedy }
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}; {}", self.what, self.remedy)
    }
}

/// A private key and its certificate chain, the holder's own certificate first.
pub struct Identity {
    /// The key.
    pub key: PrivateKeyDer<'static>,
    /// The holder's certificate, then those of its issuers.
    pub chain: Vec<CertificateDer<'static>>,
    /// The parsed holder's certificate.
    pub facts: Facts,
}

impl fmt::Debug for Identity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Identity").field("facts", &self.facts).finish_non_exhaustive()
    }
}

/// A private key in DER, overwritten when it is dropped.
type KeyBytes = Zeroizing<Vec<u8>>;

/// The content of a store of any kind.
#[derive(Default)]
pub struct Contents {
    /// Keys with their chains. A PEM file has at most one key.
    identities: Vec<(KeyBytes, Vec<Vec<u8>>)>,
    /// Certificates without a key.
    certificates: Vec<Vec<u8>>,
    /// Revocation lists; PEM only.
    revocations: Vec<Vec<u8>>,
}

impl fmt::Debug for Contents {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Contents")
            .field("identities", &self.identities.len())
            .field("certificates", &self.certificates.len())
            .field("revocations", &self.revocations.len())
            .finish()
    }
}

/// The source of a store's password.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum PasswordSource {
    /// The store has no password.
    #[default]
    None,
    /// The password is in the configuration.
    Inline(Secret),
    /// The password is the content of a file, without its line end (`passwordPath`).
    File(PathBuf),
}

impl PasswordSource {
    /// Returns the current password: reads the file each time.
    ///
    /// # Errors
    /// The file cannot be read.
    pub fn read(&self) -> Result<Option<Secret>, StoreError> {
        match self {
            Self::None => Ok(None),
            Self::Inline(secret) => Ok(Some(secret.clone())),
            Self::File(path) => {
                let bytes = Zeroizing::new(read_file(path)?);
                let line = bytes.split(|byte| *byte == b'\n').next().unwrap_or_default();
                let line = line.strip_suffix(b"\r").unwrap_or(line);
                Ok(Some(Secret::new(line)))
            }
        }
    }
}

/// A store in a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoreFile {
    /// The path.
    pub path: PathBuf,
    /// Its password.
    pub password: PasswordSource,
}

impl StoreFile {
    /// Reads a key store: a key and its certificate chain, which belong together and are valid now.
    ///
    /// # Errors
    /// One sentence: the file, the fault and a remedy.
    pub fn identity(&self, now: Timestamp) -> Result<Identity, StoreError> {
        self.contents()?.identity(now).map_err(|fault| fault.at(&self.path))
    }

    /// Reads a trust store: the trusted certificates, without duplicates.
    ///
    /// # Errors
    /// As for a key store.
    pub fn trusted(&self) -> Result<Vec<CertificateDer<'static>>, StoreError> {
        self.contents()?.trusted().map_err(|fault| fault.at(&self.path))
    }

    /// Reads revocation lists: PEM, or one list in DER.
    ///
    /// # Errors
    /// As for a key store.
    pub fn revocations(&self) -> Result<Vec<CertificateRevocationListDer<'static>>, StoreError> {
        let bytes = read_file(&self.path)?;
        let lists = if bytes.first() == Some(&SEQUENCE) {
            vec![bytes]
        } else {
            pem::contents(&bytes, None).map_err(|fault| fault.at(&self.path))?.revocations
        };
        if lists.is_empty() {
            let fault =
                Fault::new("there is no revocation list in it", "name a PEM or DER file of a CRL");
            return Err(fault.at(&self.path));
        }
        Ok(lists.into_iter().map(CertificateRevocationListDer::from).collect())
    }

    fn contents(&self) -> Result<Contents, StoreError> {
        let bytes = Zeroizing::new(read_file(&self.path)?);
        let password = self.password.read()?;
        Contents::read(&bytes, password.as_ref()).map_err(|fault| fault.at(&self.path))
    }
}

#[expect(clippy::disallowed_methods, reason = "stores are files")]
fn read_file(path: &Path) -> Result<Vec<u8>, StoreError> {
    let fault = |what: String| Fault::new(what, "check the path and its permissions").at(path);
    let length =
        std::fs::metadata(path).map_err(|error| fault(format!("cannot be read: {error}")))?.len();
    if length > BYTES_MAX {
        return Err(fault(format!("it has {length} bytes, more than any store")));
    }
    std::fs::read(path).map_err(|error| fault(format!("cannot be read: {error}")))
}

/// Detects the kind of a store by its bytes.
///
/// # Errors
/// The format is unknown; the fault describes the content.
pub fn sniff(bytes: &[u8]) -> Result<Kind, Fault> {
    const KINDS: &str = "use PEM, PKCS12 or JKS";
    match bytes {
        [] => Err(Fault::new("it is empty", KINDS)),
        [0xfe, 0xed, 0xfe, 0xed, ..] => Ok(Kind::Jks),
        [0xce, 0xce, 0xce, 0xce, ..] => Err(Fault::new(
            "it is a JCEKS store, which is not supported",
            "convert it: keytool -importkeystore -deststoretype PKCS12",
        )),
        [SEQUENCE, ..] => {
            let outer = Reader::new(bytes).inside(SEQUENCE).map_err(|error| {
                Fault::new(format!("it is not a store: it begins like DER, but {error}"), KINDS)
            })?;
            match outer.peek() {
                Some(crate::der::INTEGER) => Ok(Kind::Pkcs12),
                _ => Err(Fault::new(
                    "it is not a store, but DER of another kind, perhaps a bare certificate",
                    "convert it to PEM: openssl x509 -inform DER",
                )),
            }
        }
        _ if pem::is_pem(bytes) => Ok(Kind::Pem),
        _ => Err(Fault::new("it is not a store of any known kind", KINDS)),
    }
}

impl Contents {
    /// Reads a store of any kind.
    ///
    /// # Errors
    /// The fault.
    pub fn read(bytes: &[u8], password: Option<&Secret>) -> Result<Self, Fault> {
        Self::read_within(bytes, password, ROUNDS_MAX)
    }

    /// Reads a store of any kind, with a limit on the rounds of all key derivations together.
    ///
    /// # Errors
    /// The fault, or the store requires more rounds.
    pub fn read_within(
        bytes: &[u8],
        password: Option<&Secret>,
        rounds_max: u32,
    ) -> Result<Self, Fault> {
        let text = password.map(|secret| Password::new(secret.expose(), rounds_max));
        match sniff(bytes)? {
            Kind::Pem => pem::contents(bytes, text.as_ref()),
            Kind::Pkcs12 => pkcs12::contents(bytes, text.as_ref(), rounds_max),
            Kind::Jks => jks::contents(bytes, text.as_ref()),
        }
    }

    /// The key and its chain.
    ///
    /// # Errors
    /// The store has no key, or key and certificate do not belong together, or the certificate is
    /// not valid now.
    pub fn identity(mut self, now: Timestamp) -> Result<Identity, Fault> {
        if self.identities.is_empty() {
            return Err(Fault::new(
                "there is no private key in it",
                "name a key store here, and the store of trusted certificates as the trust store",
            ));
        }
        // Java uses the first entry with a suitable key. With one kind of key, that is the first
        // entry.
        let (key, mut chain) = self.identities.swap_remove(0);
        if chain.is_empty() {
            chain = std::mem::take(&mut self.certificates);
        }
        let Some(first) = chain.first() else {
            return Err(Fault::new(
                "there is a private key in it, but no certificate",
                "add the certificate of the key, then those of its issuers",
            ));
        };
        let facts = Facts::of(first).map_err(|error| {
            Fault::new(
                error.to_string(),
                "add the certificate of the key, then those of its issuers",
            )
        })?;
        let key = private_key(&key)?;
        let chain: Vec<CertificateDer<'static>> =
            chain.into_iter().map(CertificateDer::from).collect();
        belongs(&key, &chain, &facts)?;
        facts.check_dates(now).map_err(|fault| {
            Fault::new(
                fault.to_string(),
                "renew the certificate, or set the clock of this machine right",
            )
        })?;
        Ok(Identity { key, chain, facts })
    }

    /// All certificates: those of a trust store, and the chains of its keys, because Java trusts
    /// both.
    ///
    /// # Errors
    /// There is no certificate, or one is invalid.
    pub fn trusted(self) -> Result<Vec<CertificateDer<'static>>, Fault> {
        let mut trusted: Vec<CertificateDer<'static>> = Vec::new();
        // Of a key's entry, Java trusts only the holder's certificate.
        let of_keys = self.identities.into_iter().filter_map(|(_, chain)| chain.into_iter().next());
        for der in self.certificates.into_iter().chain(of_keys) {
            Facts::of(&der).map_err(|error| {
                Fault::new(
                    format!("certificate {}: {error}", trusted.len() + 1),
                    "remove it from the store",
                )
            })?;
            let der = CertificateDer::from(der);
            if !trusted.contains(&der) {
                trusted.push(der);
            }
        }
        if trusted.is_empty() {
            return Err(Fault::new(
                "there is no certificate in it",
                "add the certificate of the authority that is trusted",
            ));
        }
        Ok(trusted)
    }
}

/// Parses a private key in any DER form.
fn private_key(der: &[u8]) -> Result<PrivateKeyDer<'static>, Fault> {
    PrivateKeyDer::try_from(der.to_vec()).map_err(|_| {
        Fault::new(
            "its private key is of an unknown form",
            "convert the key: openssl pkcs8 -topk8 -in KEY",
        )
    })
}

fn belongs(
    key: &PrivateKeyDer<'static>,
    chain: &[CertificateDer<'static>],
    facts: &Facts,
) -> Result<(), Fault> {
    let provider = crate::crypto::provider();
    let signing = provider.key_provider.load_private_key(key.clone_key()).map_err(|error| {
        Fault::new(
            format!("its private key cannot be used: {error}"),
            "use an RSA key of 2048 to 8192 bits, or an EC key on secp256r1 or secp384r1, or Ed25519",
        )
    })?;
    let own = signing.public_key();
    let certified = chain.first().and_then(|first| Parts::of(first).ok());
    match (own, certified) {
        (Some(own), Some(certified)) if own.as_ref() != certified.public_key => Err(Fault::new(
            format!("its private key does not belong to the certificate of {:?}", facts.subject),
            "put the key's own certificate first",
        )),
        _ => Ok(()),
    }
}

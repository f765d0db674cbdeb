//! Certificates of X.509 version 1, which webpki refuses.
//!
//! `openssl x509 -req` without extensions makes them, and Java accepts them, so clients of old
//! ensembles still have them. Such a certificate has no extensions: only its signature, its issuer
//! and its dates restrict its use. So it is accepted only as the last certificate of its path,
//! directly below a trusted certificate.

use std::sync::Arc;

use jiff::Timestamp;
use rustls::client::danger::HandshakeSignatureValid;
use rustls::crypto::{
    CryptoProvider, WebPkiSupportedAlgorithms, verify_tls12_signature, verify_tls13_signature,
    verify_tls13_signature_with_raw_key,
};
use rustls::pki_types::{
    CertificateDer, SignatureVerificationAlgorithm, SubjectPublicKeyInfoDer, TrustAnchor, UnixTime,
};
use rustls::{
    CertificateError, DigitallySignedStruct, Error, OtherError, PeerIncompatible, RootCertStore,
    SignatureScheme,
};

use crate::certificate::{Facts, Parts, bits};
use crate::der::{BIT_STRING, Reader, SEQUENCE};

/// Whether webpki would refuse the certificate because of its version.
pub(super) fn is_version1(certificate: &CertificateDer<'_>) -> bool {
    Parts::of(certificate).is_ok_and(|parts| parts.version == 1)
}

/// Checks only the dates of a certificate.
pub(super) fn check_dates(certificate: &CertificateDer<'_>, now: UnixTime) -> Result<(), Error> {
    let facts = Facts::of(certificate).map_err(|_| CertificateError::BadEncoding)?;
    let now = i64::try_from(now.as_secs()).ok().and_then(|now| Timestamp::from_second(now).ok());
    let Some(now) = now else { return Err(CertificateError::Expired.into()) };
    if now < facts.not_before {
        return Err(CertificateError::NotValidYet.into());
    }
    if now > facts.not_after {
        return Err(CertificateError::Expired.into());
    }
    Ok(())
}

/// A certificate that might be valid, but requires an unsupported check.
#[derive(Debug, thiserror::Error)]
#[error(
    "a certificate of X.509 version 1 {0}; make it again as version 3, which any extension does"
)]
struct Unchecked(&'static str);

impl From<Unchecked> for Error {
    fn from(fault: Unchecked) -> Self {
        CertificateError::Other(OtherError(Arc::new(fault))).into()
    }
}

/// Verifies certificates of version 1.
#[derive(Debug)]
pub(super) struct Trust {
    roots: Arc<RootCertStore>,
    checks_revocation: bool,
    algorithms: WebPkiSupportedAlgorithms,
}

impl Trust {
    pub(super) fn new(
        roots: Arc<RootCertStore>,
        checks_revocation: bool,
        provider: &CryptoProvider,
    ) -> Self {
        Self { roots, checks_revocation, algorithms: provider.signature_verification_algorithms }
    }

    /// Whether a trusted certificate has signed it, and it is valid now.
    ///
    /// # Errors
    /// It is not valid now, or no trusted certificate has signed it, or there are rules that cannot
    /// be checked.
    pub(super) fn verify(
        &self,
        certificate: &CertificateDer<'_>,
        now: UnixTime,
    ) -> Result<(), Error> {
        let parts = Parts::of(certificate).map_err(|_| CertificateError::BadEncoding)?;
        assert_eq!(parts.version, 1, "webpki verifies the others");
        let mut issuers =
            self.roots.roots.iter().filter(|root| root.subject.as_ref() == parts.issuer).peekable();
        if issuers.peek().is_none() {
            return Err(CertificateError::UnknownIssuer.into());
        }
        let Some(issuer) = issuers.find(|root| self.has_signed(root, &parts)) else {
            return Err(CertificateError::BadSignature.into());
        };
        if issuer.name_constraints.is_some() {
            return Err(Unchecked("cannot be held against its issuer's name constraints").into());
        }
        if self.checks_revocation {
            let why = "names no OCSP responder, and is not looked for in revocation lists";
            return Err(Unchecked(why).into());
        }
        check_dates(certificate, now)
    }

    fn has_signed(&self, root: &TrustAnchor<'_>, parts: &Parts<'_>) -> bool {
        Key::of(&root.subject_public_key_info).is_some_and(|key| {
            key.has_signed(&self.algorithms, parts.algorithm, parts.signed, parts.signature)
        })
    }
}

/// A public key.
pub(super) struct Key<'a> {
    /// The content of its `AlgorithmIdentifier`.
    algorithm: &'a [u8],
    /// The key itself.
    pub(super) bits: &'a [u8],
}

impl<'a> Key<'a> {
    /// Parses a `SubjectPublicKeyInfo` with its tag and length.
    pub(super) fn of_whole(element: &'a [u8]) -> Option<Self> {
        Self::of(Reader::new(element).expect(SEQUENCE).ok()?)
    }

    /// Whether the holder of this key has signed these bytes. `algorithm`: the content of an
    /// `AlgorithmIdentifier`.
    pub(super) fn has_signed(
        &self,
        algorithms: &WebPkiSupportedAlgorithms,
        algorithm: &[u8],
        bytes: &[u8],
        signature: &[u8],
    ) -> bool {
        let mut suitable = algorithms
            .all
            .iter()
            .filter(|it| self.is_for(**it) && it.signature_alg_id().as_ref() == algorithm);
        suitable.any(|it| it.verify_signature(self.bits, bytes, signature).is_ok())
    }

    /// Parses the content of a `SubjectPublicKeyInfo`.
    fn of(content: &'a [u8]) -> Option<Self> {
        let mut reader = Reader::new(content);
        let algorithm = reader.expect(SEQUENCE).ok()?;
        let bits = bits(reader.expect(BIT_STRING).ok()?).ok()?;
        Some(Self { algorithm, bits })
    }

    fn is_for(&self, algorithm: &dyn SignatureVerificationAlgorithm) -> bool {
        algorithm.public_key_alg_id().as_ref() == self.algorithm
    }
}

/// Verifies that the holder of a certificate, of any version, has signed a handshake.
#[derive(Debug)]
pub(super) struct Signatures {
    algorithms: WebPkiSupportedAlgorithms,
}

impl Signatures {
    pub(super) fn new(provider: &CryptoProvider) -> Self {
        Self { algorithms: provider.signature_verification_algorithms }
    }

    pub(super) fn schemes(&self) -> Vec<SignatureScheme> {
        self.algorithms.supported_schemes()
    }

    pub(super) fn tls13(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        match Parts::of(certificate) {
            Ok(parts) if parts.version == 1 => {
                let key = SubjectPublicKeyInfoDer::from(parts.public_key);
                verify_tls13_signature_with_raw_key(message, &key, signature, &self.algorithms)
            }
            _ => verify_tls13_signature(message, certificate, signature, &self.algorithms),
        }
    }

    pub(super) fn tls12(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        match Parts::of(certificate) {
            Ok(parts) if parts.version == 1 => self.tls12_by_key(message, &parts, signature),
            _ => verify_tls12_signature(message, certificate, signature, &self.algorithms),
        }
    }

    fn tls12_by_key(
        &self,
        message: &[u8],
        parts: &Parts<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let key = Key::of_whole(parts.public_key).ok_or(CertificateError::BadEncoding)?;
        let mut mapping = self.algorithms.mapping.iter();
        let Some((_, possible)) = mapping.find(|(scheme, _)| *scheme == signature.scheme) else {
            return Err(PeerIncompatible::NoSignatureSchemesInCommon.into());
        };
        let is_good = possible.iter().any(|algorithm| {
            key.is_for(*algorithm)
                && algorithm.verify_signature(key.bits, message, signature.signature()).is_ok()
        });
        if is_good {
            Ok(HandshakeSignatureValid::assertion())
        } else {
            Err(CertificateError::BadSignature.into())
        }
    }
}

//! What rustls' own verification does not do and Java does.

use std::sync::Arc;

use jiff::Timestamp;
use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::{CertificateDer, CertificateRevocationListDer, ServerName, UnixTime};
use rustls::server::WebPkiClientVerifier;
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::{
    CertificateError, DigitallySignedStruct, DistinguishedName, Error, OtherError, RootCertStore,
    SignatureScheme,
};

use super::{TlsError, verify_hostname};
use crate::certificate::Facts;

/// Certificates that are trusted, as authorities and as themselves.
pub(super) struct Trust {
    roots: Arc<RootCertStore>,
    /// Those of the trust store: Java trusts a peer that shows one of them, be it of an authority or not.
    own: Vec<CertificateDer<'static>>,
    revocations: Vec<CertificateRevocationListDer<'static>>,
    provider: Arc<CryptoProvider>,
}

impl Trust {
    pub(super) fn new(
        trusted: &[CertificateDer<'static>],
        revocations: &[CertificateRevocationListDer<'static>],
        provider: Arc<CryptoProvider>,
    ) -> Result<Self, TlsError> {
        let mut roots = RootCertStore::empty();
        for certificate in trusted {
            roots.add(certificate.clone()).map_err(|error| {
                let subject = Facts::of(certificate).map(|facts| facts.subject).unwrap_or_default();
                TlsError(format!("the trusted certificate of {subject:?} cannot be used: {error}"))
            })?;
        }
        if trusted.is_empty() {
            let fault = "no certificate is trusted; set the trust store";
            return Err(TlsError(fault.to_owned()));
        }
        let (own, revocations) = (trusted.to_vec(), revocations.to_vec());
        Ok(Self { roots: Arc::new(roots), own, revocations, provider })
    }

    pub(super) fn for_clients(self, is_needed: bool) -> Result<Arc<AnyClient>, TlsError> {
        let builder =
            WebPkiClientVerifier::builder_with_provider(self.roots.clone(), self.provider.clone());
        let builder = if self.revocations.is_empty() {
            builder
        } else {
            builder.with_crls(self.revocations.clone()).enforce_revocation_expiration()
        };
        let builder = if is_needed { builder } else { builder.allow_unauthenticated() };
        let inner = builder.build().map_err(|error| TlsError(error.to_string()))?;
        Ok(Arc::new(AnyClient { inner, own: self.own, provider: self.provider }))
    }

    pub(super) fn for_servers(self, is_name_checked: bool) -> Result<Arc<AnyServer>, TlsError> {
        let builder =
            WebPkiServerVerifier::builder_with_provider(self.roots.clone(), self.provider.clone());
        let builder = if self.revocations.is_empty() {
            builder
        } else {
            builder.with_crls(self.revocations.clone()).enforce_revocation_expiration()
        };
        let inner = builder.build().map_err(|error| TlsError(error.to_string()))?;
        Ok(Arc::new(AnyServer { inner, own: self.own, provider: self.provider, is_name_checked }))
    }
}

/// Checks a certificate that is trusted as itself: only its dates are left to check.
fn check_own(certificate: &CertificateDer<'_>, now: UnixTime) -> Result<Facts, Error> {
    let facts = Facts::of(certificate).map_err(|_| CertificateError::BadEncoding)?;
    let now = i64::try_from(now.as_secs()).ok().and_then(|now| Timestamp::from_second(now).ok());
    let Some(now) = now else { return Err(CertificateError::Expired.into()) };
    if now < facts.not_before {
        return Err(CertificateError::NotValidYet.into());
    }
    if now > facts.not_after {
        return Err(CertificateError::Expired.into());
    }
    Ok(facts)
}

/// Verifies clients.
#[derive(Debug)]
pub(super) struct AnyClient {
    inner: Arc<dyn ClientCertVerifier>,
    own: Vec<CertificateDer<'static>>,
    provider: Arc<CryptoProvider>,
}

impl ClientCertVerifier for AnyClient {
    fn offer_client_auth(&self) -> bool {
        self.inner.offer_client_auth()
    }

    fn client_auth_mandatory(&self) -> bool {
        self.inner.client_auth_mandatory()
    }

    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        self.inner.root_hint_subjects()
    }

    fn verify_client_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        now: UnixTime,
    ) -> Result<ClientCertVerified, Error> {
        if self.own.contains(end_entity) {
            return check_own(end_entity, now).map(|_| ClientCertVerified::assertion());
        }
        self.inner.verify_client_cert(end_entity, intermediates, now)
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let algorithms = &self.provider.signature_verification_algorithms;
        verify_tls12_signature(message, certificate, signature, algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let algorithms = &self.provider.signature_verification_algorithms;
        verify_tls13_signature(message, certificate, signature, algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider.signature_verification_algorithms.supported_schemes()
    }
}

/// Verifies servers.
#[derive(Debug)]
pub(super) struct AnyServer {
    inner: Arc<WebPkiServerVerifier>,
    own: Vec<CertificateDer<'static>>,
    provider: Arc<CryptoProvider>,
    is_name_checked: bool,
}

impl ServerCertVerifier for AnyServer {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        server_name: &ServerName<'_>,
        ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        if self.own.contains(end_entity) {
            check_own(end_entity, now)?;
        } else {
            let verdict = self.inner.verify_server_cert(
                end_entity,
                intermediates,
                server_name,
                ocsp_response,
                now,
            );
            match verdict {
                // rustls looks at names last, when all else is good; ZooKeeper's rules for them follow.
                Ok(_)
                | Err(Error::InvalidCertificate(
                    CertificateError::NotValidForName
                    | CertificateError::NotValidForNameContext { .. },
                )) => {}
                Err(error) => return Err(error),
            }
        }
        if self.is_name_checked {
            let facts = Facts::of(end_entity).map_err(|_| CertificateError::BadEncoding)?;
            verify_hostname(&facts, &[&server_name.to_str()])
                .map_err(|error| CertificateError::Other(OtherError(Arc::new(error))))?;
        }
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let algorithms = &self.provider.signature_verification_algorithms;
        verify_tls12_signature(message, certificate, signature, algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let algorithms = &self.provider.signature_verification_algorithms;
        verify_tls13_signature(message, certificate, signature, algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider.signature_verification_algorithms.supported_schemes()
    }
}

//! Java's checks that rustls' own verification does not include.

use std::sync::Arc;

use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::CryptoProvider;
use rustls::pki_types::{CertificateDer, CertificateRevocationListDer, ServerName, UnixTime};
use rustls::server::WebPkiClientVerifier;
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::{
    CertificateError, DigitallySignedStruct, DistinguishedName, Error, OtherError, RootCertStore,
    SignatureScheme,
};

use super::ocsp::Ocsp;
use super::version1::{self, Signatures, check_dates, is_version1};
use super::{TlsError, verify_hostname};
use crate::certificate::Facts;

/// Trusted certificates, as authorities and as themselves.
pub(super) struct Trust {
    roots: Arc<RootCertStore>,
    /// The certificates of the trust store. Java trusts a peer that presents one of them, whether
    /// it is an authority's certificate or not.
    own: Vec<CertificateDer<'static>>,
    first: version1::Trust,
    revocations: Vec<CertificateRevocationListDer<'static>>,
    /// The part that makes OCSP requests. With it, lists only show which certificates are revoked.
    ocsp: Option<Arc<Ocsp>>,
    provider: Arc<CryptoProvider>,
    signatures: Signatures,
}

impl Trust {
    pub(super) fn new(
        trusted: &[CertificateDer<'static>],
        revocations: &[CertificateRevocationListDer<'static>],
        ocsp: Option<Arc<Ocsp>>,
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
        let roots = Arc::new(roots);
        let checks_revocation = ocsp.is_some() || !revocations.is_empty();
        let first = version1::Trust::new(roots.clone(), checks_revocation, &provider);
        let signatures = Signatures::new(&provider);
        Ok(Self { roots, own, first, revocations, ocsp, provider, signatures })
    }

    pub(super) fn for_clients(self, is_needed: bool) -> Result<Arc<AnyClient>, TlsError> {
        let builder =
            WebPkiClientVerifier::builder_with_provider(self.roots.clone(), self.provider.clone());
        let builder = if self.revocations.is_empty() {
            builder
        } else if self.ocsp.is_some() {
            builder.with_crls(self.revocations.clone()).allow_unknown_revocation_status()
        } else {
            builder.with_crls(self.revocations.clone()).enforce_revocation_expiration()
        };
        let builder = if is_needed { builder } else { builder.allow_unauthenticated() };
        let inner = builder.build().map_err(|error| TlsError(error.to_string()))?;
        Ok(Arc::new(AnyClient {
            inner,
            own: self.own,
            first: self.first,
            signatures: self.signatures,
        }))
    }

    pub(super) fn for_servers(self, is_name_checked: bool) -> Result<Arc<AnyServer>, TlsError> {
        let builder =
            WebPkiServerVerifier::builder_with_provider(self.roots.clone(), self.provider.clone());
        let builder = if self.revocations.is_empty() {
            builder
        } else if self.ocsp.is_some() {
            builder.with_crls(self.revocations.clone()).allow_unknown_revocation_status()
        } else {
            builder.with_crls(self.revocations.clone()).enforce_revocation_expiration()
        };
        let inner = builder.build().map_err(|error| TlsError(error.to_string()))?;
        Ok(Arc::new(AnyServer {
            inner,
            own: self.own,
            first: self.first,
            ocsp: self.ocsp,
            signatures: self.signatures,
            is_name_checked,
        }))
    }
}

/// Verifies clients.
#[derive(Debug)]
pub(super) struct AnyClient {
    inner: Arc<dyn ClientCertVerifier>,
    own: Vec<CertificateDer<'static>>,
    first: version1::Trust,
    signatures: Signatures,
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
            return check_dates(end_entity, now).map(|()| ClientCertVerified::assertion());
        }
        if is_version1(end_entity) {
            return self.first.verify(end_entity, now).map(|()| ClientCertVerified::assertion());
        }
        self.inner.verify_client_cert(end_entity, intermediates, now)
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.signatures.tls12(message, certificate, signature)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.signatures.tls13(message, certificate, signature)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.signatures.schemes()
    }
}

/// Verifies servers.
#[derive(Debug)]
pub(super) struct AnyServer {
    inner: Arc<WebPkiServerVerifier>,
    own: Vec<CertificateDer<'static>>,
    first: version1::Trust,
    ocsp: Option<Arc<Ocsp>>,
    signatures: Signatures,
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
            check_dates(end_entity, now)?;
        } else if is_version1(end_entity) {
            self.first.verify(end_entity, now)?;
        } else {
            let verdict = self.inner.verify_server_cert(
                end_entity,
                intermediates,
                server_name,
                ocsp_response,
                now,
            );
            match verdict {
                // rustls checks names last, when everything else is valid; ZooKeeper's rules for
                // names follow.
                Ok(_)
                | Err(Error::InvalidCertificate(
                    CertificateError::NotValidForName
                    | CertificateError::NotValidForNameContext { .. },
                )) => {}
                Err(error) => return Err(error),
            }
            if let Some(ocsp) = &self.ocsp {
                ocsp.stapled(end_entity, intermediates, ocsp_response, now)?;
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
        self.signatures.tls12(message, certificate, signature)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.signatures.tls13(message, certificate, signature)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.signatures.schemes()
    }
}

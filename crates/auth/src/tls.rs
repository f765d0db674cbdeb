//! TLS: Java's names, rustls configurations, ZooKeeper's rules for host names, and the detection of
//! TLS on a port.
//!
//! Configurations are built from typed settings and open no file; to reload, the owner builds
//! another configuration with [`PortFiles`]. rustls verifies certificate paths. This module adds
//! what Java does beyond that: a certificate that is itself in the trust store is trusted, and host
//! names follow `ZKHostnameVerifier`. There are no reverse look-ups.

mod detect;
pub mod fault;
mod files;
mod hostname;
mod names;
pub mod ocsp;
mod verify;
mod version1;

#[cfg(test)]
mod tests;

pub use detect::{Detection, HEADER_BYTES, detect};
pub use files::{FileStates, Port, PortError, PortFiles};
pub use hostname::{HostnameError, verify_hostname};
pub use names::{CIPHER_SUITES, NameError, PROTOCOLS, Protocol, cipher_suites, context, protocols};

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use rustls::crypto::CryptoProvider;
use rustls::pki_types::{CertificateDer, CertificateRevocationListDer};
use rustls::sign::{CertifiedKey, SingleCertAndKey};
use rustls::{ClientConfig, ServerConfig, SupportedCipherSuite, SupportedProtocolVersion};

use crate::store::Identity;
use ocsp::Ocsp;
use verify::{AnyServer, Trust};

/// Whether a server asks for a client's certificate (`clientAuth`).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum ClientAuth {
    /// The server does not ask for a certificate.
    None,
    /// The server asks for a certificate, and accepts clients without one.
    Want,
    /// The server asks for a certificate, and refuses clients without one.
    #[default]
    Need,
}

impl FromStr for ClientAuth {
    type Err = NameError;

    /// As in the original: case does not matter, and an empty value is the default.
    fn from_str(text: &str) -> Result<Self, NameError> {
        match text.to_ascii_lowercase().as_str() {
            "none" => Ok(Self::None),
            "want" => Ok(Self::Want),
            "need" | "" => Ok(Self::Need),
            _ => Err(NameError::new("clientAuth", text, &["none", "want", "need"])),
        }
    }
}

/// Settings from which no configuration can be made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TlsError(String);

impl fmt::Display for TlsError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for TlsError {}

impl From<rustls::Error> for TlsError {
    fn from(error: rustls::Error) -> Self {
        Self(error.to_string())
    }
}

/// The settings of both sides.
#[derive(Debug, Clone)]
pub struct Common {
    /// The enabled versions, at least one.
    pub protocols: Vec<Protocol>,
    /// Cipher suites in the order of preference; `None` for all safe ones.
    pub suites: Option<Vec<SupportedCipherSuite>>,
    /// The trusted certificates.
    pub trusted: Vec<CertificateDer<'static>>,
    /// Revocation lists. If there are any, each certificate of a path must be found good by a list
    /// that is not outdated.
    pub revocations: Vec<CertificateRevocationListDer<'static>>,
    /// The state of OCSP. With it, the owner of each connection must have the other side's
    /// certificates checked after the handshake; the lists decide if a responder does not.
    pub ocsp: Option<Arc<Ocsp>>,
}

impl Common {
    /// Both versions, all suites, and trust in these certificates.
    pub fn trusting(trusted: Vec<CertificateDer<'static>>) -> Self {
        Self {
            protocols: PROTOCOLS.to_vec(),
            suites: None,
            trusted,
            revocations: Vec::new(),
            ocsp: None,
        }
    }

    fn provider(&self) -> Result<Arc<CryptoProvider>, TlsError> {
        let mut provider = crate::crypto::provider();
        if let Some(suites) = &self.suites {
            provider.cipher_suites.clone_from(suites);
        }
        for protocol in &self.protocols {
            let version = protocol.version().version;
            if !provider.cipher_suites.iter().any(|suite| suite.version().version == version) {
                return Err(TlsError(format!(
                    "no cipher suite is left for {}; add one of its suites, or leave the protocol out",
                    protocol.name()
                )));
            }
        }
        Ok(Arc::new(provider))
    }

    fn versions(&self) -> Result<Vec<&'static SupportedProtocolVersion>, TlsError> {
        if self.protocols.is_empty() {
            return Err(TlsError("no protocol is enabled; enable TLSv1.2 or TLSv1.3".to_owned()));
        }
        Ok(self.protocols.iter().map(|protocol| protocol.version()).collect())
    }

    fn trust(&self, provider: &Arc<CryptoProvider>) -> Result<Trust, TlsError> {
        Trust::new(&self.trusted, &self.revocations, self.ocsp.clone(), provider.clone())
    }
}

/// The configuration of the accepting side.
///
/// # Errors
/// Settings contradict each other, or a certificate cannot be used.
pub fn server(
    common: &Common,
    identity: &Identity,
    client_auth: ClientAuth,
) -> Result<ServerConfig, TlsError> {
    let provider = common.provider()?;
    let builder = ServerConfig::builder_with_provider(provider.clone())
        .with_protocol_versions(&common.versions()?)?;
    let builder = match client_auth {
        ClientAuth::None => builder.with_no_client_auth(),
        ClientAuth::Want | ClientAuth::Need => {
            let is_needed = client_auth == ClientAuth::Need;
            builder.with_client_cert_verifier(common.trust(&provider)?.for_clients(is_needed)?)
        }
    };
    Ok(builder.with_cert_resolver(Arc::new(certified(identity, &provider)?)))
}

/// The configuration of the connecting side. `is_name_checked`: whether the server's certificate
/// must be valid for the name that the client connects to.
///
/// # Errors
/// As above.
pub fn client(
    common: &Common,
    identity: Option<&Identity>,
    is_name_checked: bool,
) -> Result<ClientConfig, TlsError> {
    let provider = common.provider()?;
    let verifier: Arc<AnyServer> = common.trust(&provider)?.for_servers(is_name_checked)?;
    let builder = ClientConfig::builder_with_provider(provider.clone())
        .with_protocol_versions(&common.versions()?)?
        .dangerous()
        .with_custom_certificate_verifier(verifier);
    Ok(match identity {
        Some(identity) => {
            builder.with_client_cert_resolver(Arc::new(certified(identity, &provider)?))
        }
        None => builder.with_no_client_auth(),
    })
}

/// The certificate that a side presents. The store's reader has already checked that the key
/// belongs to the certificate; rustls' own check refuses certificates of X.509 version 1.
fn certified(identity: &Identity, provider: &CryptoProvider) -> Result<SingleCertAndKey, TlsError> {
    let key = provider.key_provider.load_private_key(identity.key.clone_key())?;
    Ok(CertifiedKey::new(identity.chain.clone(), key).into())
}

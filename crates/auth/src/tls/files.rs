//! The files of a TLS port, and the configuration that they produce.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::SystemTime;

use jiff::Timestamp;
use rustls::client::Resumption;
use rustls::{ClientConfig, ServerConfig, SupportedCipherSuite};

use super::ocsp::Ocsp;
use super::{ClientAuth, Common, Protocol, TlsError, client, server};
use crate::certificate::{Facts, NotACertificate};
use crate::store::{PasswordSource, StoreError, StoreFile};

/// The key store, the trust store and the other TLS settings of a port.
#[derive(Debug, Clone, PartialEq)]
pub struct PortFiles {
    /// The port's own key and certificate.
    pub key_store: StoreFile,
    /// The trust store. It is not needed if the port asks no client for a certificate.
    pub trust_store: Option<StoreFile>,
    /// Revocation lists in PEM or DER.
    pub revocations: Option<PathBuf>,
    /// Whether OCSP responders are asked about certificates.
    pub ocsp: bool,
    /// Whether clients are asked for a certificate.
    pub client_auth: ClientAuth,
    /// The enabled versions, at least one.
    pub protocols: Vec<Protocol>,
    /// Cipher suites in the order of preference; `None` for all safe ones.
    pub suites: Option<Vec<SupportedCipherSuite>>,
    /// Whether this side also makes connections, with the same certificate and trust store.
    pub dials: bool,
}

/// The result of reading the files.
#[derive(Debug)]
pub struct Port {
    /// The configuration for accepted connections.
    pub server: ServerConfig,
    /// The configuration for outgoing connections, if there are any. It does not check host names.
    pub client: Option<ClientConfig>,
    /// The state of OCSP, for the check after a handshake.
    pub ocsp: Option<Arc<Ocsp>>,
    /// The facts of the port's own certificate.
    pub own: Facts,
    /// The facts of the trusted certificates.
    pub trusted: Vec<Facts>,
}

/// Files from which no configuration can be made.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PortError {
    /// A store cannot be used.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// A certificate cannot be used.
    #[error("{path}: {fault}; replace that certificate", path = .path.display())]
    Certificate {
        /// The store that contains it.
        path: PathBuf,
        /// The reason.
        fault: NotACertificate,
    },
    /// The files contradict each other or the settings.
    #[error("the TLS settings cannot be used: {0}")]
    Settings(#[from] TlsError),
}

impl PortFiles {
    /// Reads the files.
    ///
    /// # Errors
    /// One sentence with the file, the fault and a remedy.
    pub fn read(&self, now: Timestamp) -> Result<Port, PortError> {
        let identity = self.key_store.identity(now)?;
        let (trusted, facts) = match &self.trust_store {
            Some(store) => {
                let trusted = store.trusted()?;
                let facts: Result<_, _> = trusted.iter().map(|der| Facts::of(der)).collect();
                let named = |fault| PortError::Certificate { path: store.path.clone(), fault };
                (trusted, facts.map_err(named)?)
            }
            None => (Vec::new(), Vec::new()),
        };
        let revocations = match &self.revocations {
            Some(path) => {
                let password = PasswordSource::None;
                StoreFile { path: path.clone(), password }.revocations()?
            }
            None => Vec::new(),
        };
        let (protocols, suites) = (self.protocols.clone(), self.suites.clone());
        let ocsp = (self.ocsp && !trusted.is_empty())
            .then(|| Ocsp::new(&trusted, &revocations).map(Arc::new))
            .transpose()?;
        let common = Common { protocols, suites, trusted, revocations, ocsp: ocsp.clone() };
        let server = server(&common, &identity, self.client_auth)?;
        let client = self.dials.then(|| {
            let mut client = client(&common, Some(&identity), false)?;
            // Every client must present its certificate on each connection.
            client.resumption = Resumption::disabled();
            Ok::<_, TlsError>(client)
        });
        let client = client.transpose()?;
        Ok(Port { server, client, ocsp, own: identity.facts, trusted: facts })
    }

    /// The state of the files, determined without reading them.
    pub fn state(&self) -> FileStates {
        let stores = [Some(&self.key_store), self.trust_store.as_ref()];
        let files = stores.into_iter().flatten().flat_map(StoreFile::files);
        FileStates(files.chain(self.revocations.as_deref()).map(state).collect())
    }
}

impl StoreFile {
    fn files(&self) -> impl Iterator<Item = &Path> {
        let password = match &self.password {
            PasswordSource::File(path) => Some(path.as_path()),
            PasswordSource::None | PasswordSource::Inline(_) => None,
        };
        std::iter::once(self.path.as_path()).chain(password)
    }
}

/// Sizes and times of files, including every symbolic link on the way, so that a swapped directory
/// is another state. Equal states have equal content, unless a file was written twice within the
/// resolution of the clock.
#[derive(Clone, PartialEq, Eq)]
pub struct FileStates(Vec<Option<(PathBuf, u64, SystemTime)>>);

impl fmt::Debug for FileStates {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(&self.0).finish()
    }
}

#[expect(clippy::disallowed_methods, reason = "the state of a file shows a change")]
fn state(path: &Path) -> Option<(PathBuf, u64, SystemTime)> {
    let path = path.canonicalize().ok()?;
    let metadata = path.metadata().ok()?;
    Some((path, metadata.len(), metadata.modified().ok()?))
}

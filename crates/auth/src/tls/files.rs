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

/// The key store, the trust store and what else settles a port's TLS.
#[derive(Debug, Clone, PartialEq)]
pub struct PortFiles {
    /// The port's own key and certificate.
    pub key_store: StoreFile,
    /// The trust store; not needed if no client is asked for a certificate.
    pub trust_store: Option<StoreFile>,
    /// Revocation lists in PEM or DER.
    pub revocations: Option<PathBuf>,
    /// Whether the responders of authorities are asked about certificates.
    pub ocsp: bool,
    /// Whether clients are asked for a certificate.
    pub client_auth: ClientAuth,
    /// Versions that are spoken; at least one.
    pub protocols: Vec<Protocol>,
    /// Cipher suites in the order of preference; `None` for all that are safe.
    pub suites: Option<Vec<SupportedCipherSuite>>,
    /// Whether this side connects to others, too, with the same certificate and trust.
    pub dials: bool,
}

/// What the files give.
#[derive(Debug)]
pub struct Port {
    /// For connections that come in.
    pub server: ServerConfig,
    /// For connections that are made, where some are. It checks no name of a host.
    pub client: Option<ClientConfig>,
    /// What asks responders about the certificates of others, once a handshake is over.
    pub ocsp: Option<Arc<Ocsp>>,
    /// The facts of the port's own certificate.
    pub own: Facts,
    /// What the trusted certificates say.
    pub trusted: Vec<Facts>,
}

/// Files that give no configuration.
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
        /// Why.
        fault: NotACertificate,
    },
    /// They contradict each other or the settings.
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
            // Every client must present its certificate at each connection.
            client.resumption = Resumption::disabled();
            Ok::<_, TlsError>(client)
        });
        let client = client.transpose()?;
        Ok(Port { server, client, ocsp, own: identity.facts, trusted: facts })
    }

    /// What the files are at the moment, as far as that is seen without reading them.
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

/// Sizes and times of files, through every symbolic link on the way: a directory that is swapped behind one is another
/// state. Equal states are of the same content, unless a file was written twice within the clock's resolution.
#[derive(Clone, PartialEq, Eq)]
pub struct FileStates(Vec<Option<(PathBuf, u64, SystemTime)>>);

impl fmt::Debug for FileStates {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(&self.0).finish()
    }
}

fn state(path: &Path) -> Option<(PathBuf, u64, SystemTime)> {
    let path = path.canonicalize().ok()?;
    let metadata = path.metadata().ok()?;
    Some((path, metadata.len(), metadata.modified().ok()?))
}

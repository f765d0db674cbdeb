//! TLS: the stores and settings of a connector, and the handshake.
//!
//! `zebu-auth` reads stores, checks host names, and explains failed handshakes.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::SystemTime;

use jiff::Timestamp;
use parking_lot::Mutex;
use rustls::ClientConfig;
use rustls::pki_types::{CertificateDer, ServerName};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tracing::{info, warn};
use zebu_auth::Secret;
use zebu_auth::store::{PasswordSource, StoreError, StoreFile};
use zebu_auth::tls::ocsp::{Ocsp, Side};
use zebu_auth::tls::{self, Common, NameError, PROTOCOLS, TlsError, fault};

pub(crate) use fault::of_connection as fault_of;

use crate::stream::Destination;
use crate::{Error, Result};

/// Why the stores or the settings cannot be used.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Unusable {
    /// A store cannot be read.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// A version of TLS or a cipher suite is unknown.
    #[error(transparent)]
    Name(#[from] NameError),
    /// The settings do not fit together.
    #[error(transparent)]
    Settings(#[from] TlsError),
    /// The system has no authorities, for these reasons.
    #[error(
        "this machine has no trusted authorities ({0}); install its ca-certificates, or set the trust store"
    )]
    NoAuthorities(String),
}

/// A connection over TLS.
pub(crate) type TlsStream = tokio_rustls::client::TlsStream<TcpStream>;

/// The TLS settings of connections: trusted servers, and the certificate of this client.
///
/// Stores are PEM, PKCS12 or JKS files; the client detects the format from the content, not from
/// the name. It reads the stores when it opens a session, and again for the next connection if they
/// have changed, so certificates can be replaced without a restart. If a changed store cannot be
/// used, the client logs a warning and keeps the previous content.
///
/// Without [`Tls::key_store`] the client presents no certificate; servers refuse such a client
/// unless their `ssl.clientAuth` is `want` or `none`. A server's certificate must come from a
/// trusted authority, be valid now, and contain the name of the server: the name from the connect
/// string or from [`HostProvider::name`](crate::HostProvider::name). `Debug` shows no password.
///
/// ```no_run
/// # async fn example() -> zebu_client::Result<()> {
/// use zebu_client::{Connector, Tls};
///
/// let tls = Tls::new().trust_store("/etc/zk/ca.pem").key_store("/etc/zk/amy.p12").key_store_password("secret");
/// let client = Connector::new().tls(tls).connect("zk1:2281,zk2:2281/app").await?;
/// # Ok(()) }
/// ```
#[derive(Clone, Debug)]
pub struct Tls {
    trust: Store,
    has_system_roots: bool,
    key: Store,
    revocations: Option<PathBuf>,
    asks_responders: bool,
    is_name_checked: bool,
    protocols: Option<String>,
    suites: Option<String>,
}

#[derive(Clone, Debug, Default)]
struct Store {
    path: Option<PathBuf>,
    password: PasswordSource,
}

impl Store {
    fn file(&self) -> Option<StoreFile> {
        let path = self.path.clone()?;
        Some(StoreFile { path, password: self.password.clone() })
    }

    fn paths(&self) -> impl Iterator<Item = &Path> {
        let password = match &self.password {
            PasswordSource::File(path) => Some(path.as_path()),
            PasswordSource::None | PasswordSource::Inline(_) => None,
        };
        self.path.as_deref().into_iter().chain(password)
    }
}

impl Default for Tls {
    fn default() -> Self {
        Self::new()
    }
}

impl Tls {
    /// TLS 1.2 and 1.3 with all cipher suites and checked host names, without trusted certificates
    /// and without a certificate of the client.
    ///
    /// ```
    /// let nobody_is_trusted = zebu_client::Tls::new().check().unwrap_err();
    /// assert!(nobody_is_trusted.reason().unwrap().contains("set the trust store"));
    /// ```
    pub fn new() -> Self {
        Self {
            trust: Store::default(),
            has_system_roots: false,
            key: Store::default(),
            revocations: None,
            asks_responders: false,
            is_name_checked: true,
            protocols: None,
            suites: None,
        }
    }

    /// The file with the trusted certificates: those of authorities, or of the servers themselves.
    ///
    /// ```
    /// # let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../auth/tests/fixtures");
    /// # let file = format!("{folder}/ca.pem");
    /// zebu_client::Tls::new().trust_store(file).check()?;
    /// # Ok::<(), zebu_client::Error>(())
    /// ```
    #[must_use]
    pub fn trust_store(mut self, file: impl Into<PathBuf>) -> Self {
        self.trust.path = Some(file.into());
        self
    }

    /// The password of the trust store. PEM needs none, and JKS only to notice damage.
    ///
    /// ```
    /// # let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../auth/tests/fixtures");
    /// # let file = format!("{folder}/trust17.p12");
    /// zebu_client::Tls::new().trust_store(file).trust_store_password("testpass").check()?;
    /// # Ok::<(), zebu_client::Error>(())
    /// ```
    #[must_use]
    pub fn trust_store_password(mut self, password: &str) -> Self {
        self.trust.password = PasswordSource::Inline(Secret::from(password));
        self
    }

    /// As [`Tls::trust_store_password`]; the password is the first line of this file.
    ///
    /// ```
    /// # let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../auth/tests/fixtures");
    /// # let file = format!("{folder}/trust17.p12");
    /// let tls = zebu_client::Tls::new().trust_store(file).trust_store_password_file("/no/such/file");
    /// assert!(tls.check().unwrap_err().reason().unwrap().starts_with("/no/such/file: "));
    /// ```
    #[must_use]
    pub fn trust_store_password_file(mut self, file: impl Into<PathBuf>) -> Self {
        self.trust.password = PasswordSource::File(file.into());
        self
    }

    /// Also trusts the authorities that this machine trusts. The client reads them once. The
    /// variables `SSL_CERT_FILE` and `SSL_CERT_DIR` name other authorities, as for OpenSSL.
    ///
    /// For servers with certificates of a public authority. Put an ensemble's own authority into a
    /// trust store.
    ///
    /// ```no_run
    /// zebu_client::Tls::new().system_roots().check()?;
    /// # Ok::<(), zebu_client::Error>(())
    /// ```
    #[must_use]
    pub fn system_roots(mut self) -> Self {
        self.has_system_roots = true;
        self
    }

    /// The file of this client's private key and its certificate, followed by those of its issuers.
    ///
    /// ```
    /// # let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../auth/tests/fixtures");
    /// # let (trusted, key) = (format!("{folder}/ca.pem"), format!("{folder}/key-first.pem"));
    /// zebu_client::Tls::new().trust_store(trusted).key_store(key).check()?;
    /// # Ok::<(), zebu_client::Error>(())
    /// ```
    #[must_use]
    pub fn key_store(mut self, file: impl Into<PathBuf>) -> Self {
        self.key.path = Some(file.into());
        self
    }

    /// The password of the key store, or of the key in a PEM file.
    ///
    /// ```
    /// # let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../auth/tests/fixtures");
    /// # let (trusted, key) = (format!("{folder}/ca.pem"), format!("{folder}/keytool17.p12"));
    /// use zebu_client::Tls;
    ///
    /// let tls = Tls::new().trust_store(trusted).key_store(key);
    /// tls.clone().key_store_password("testpass").check()?;
    /// let error = tls.key_store_password("wrong").check().unwrap_err();
    /// assert!(error.reason().unwrap().contains("the password is wrong"));
    /// # Ok::<(), zebu_client::Error>(())
    /// ```
    #[must_use]
    pub fn key_store_password(mut self, password: &str) -> Self {
        self.key.password = PasswordSource::Inline(Secret::from(password));
        self
    }

    /// As [`Tls::key_store_password`]; the password is the first line of this file.
    ///
    /// ```
    /// # let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../auth/tests/fixtures");
    /// # let (trusted, key) = (format!("{folder}/ca.pem"), format!("{folder}/keytool17.p12"));
    /// # let file = tempfile::NamedTempFile::new().unwrap();
    /// # std::fs::write(file.path(), "testpass\n").unwrap();
    /// # let file = file.path();
    /// let tls = zebu_client::Tls::new().trust_store(trusted).key_store(key);
    /// tls.key_store_password_file(file).check()?;
    /// # Ok::<(), zebu_client::Error>(())
    /// ```
    #[must_use]
    pub fn key_store_password_file(mut self, file: impl Into<PathBuf>) -> Self {
        self.key.password = PasswordSource::File(file.into());
        self
    }

    /// The file of revocation lists, PEM or DER. With this file, a current list must confirm each
    /// certificate in the path of a server. The client never downloads lists.
    ///
    /// ```
    /// # let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../auth/tests/fixtures");
    /// # let (trusted, lists) = (format!("{folder}/ca.pem"), format!("{folder}/ca.crl"));
    /// zebu_client::Tls::new().trust_store(trusted).revocation_lists(lists).check()?;
    /// # Ok::<(), zebu_client::Error>(())
    /// ```
    #[must_use]
    pub fn revocation_lists(mut self, file: impl Into<PathBuf>) -> Self {
        self.revocations = Some(file.into());
        self
    }

    /// Whether the client asks the responders that the certificates in a server's path name (OCSP).
    /// Default: false. A responder must say that its certificate is good. The client accepts an
    /// answer that the server staples to the handshake. Without an answer, revocation lists decide;
    /// without lists, the client refuses the server.
    ///
    /// ```
    /// # let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../auth/tests/fixtures");
    /// # let file = format!("{folder}/ca.pem");
    /// zebu_client::Tls::new().trust_store(file).ocsp(true).check()?;
    /// # Ok::<(), zebu_client::Error>(())
    /// ```
    #[must_use]
    pub fn ocsp(mut self, is_on: bool) -> Self {
        self.asks_responders = is_on;
        self
    }

    /// Whether a server's certificate must contain the name to which the client connects. Default:
    /// true. Without this check, every holder of a certificate of a trusted authority can act as
    /// any server.
    ///
    /// ```
    /// # let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../auth/tests/fixtures");
    /// # let file = format!("{folder}/ca.pem");
    /// let careless = zebu_client::Tls::new().trust_store(file).hostname_verification(false);
    /// careless.check()?;
    /// # Ok::<(), zebu_client::Error>(())
    /// ```
    #[must_use]
    pub fn hostname_verification(mut self, is_on: bool) -> Self {
        self.is_name_checked = is_on;
        self
    }

    /// The TLS versions, separated by commas: `TLSv1.2`, `TLSv1.3`. Default: both.
    ///
    /// ```
    /// # let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../auth/tests/fixtures");
    /// # let file = format!("{folder}/ca.pem");
    /// let tls = zebu_client::Tls::new().trust_store(file);
    /// tls.clone().protocols("TLSv1.3").check()?;
    /// assert!(tls.protocols("SSLv3").check().is_err());
    /// # Ok::<(), zebu_client::Error>(())
    /// ```
    #[must_use]
    pub fn protocols(mut self, names: &str) -> Self {
        self.protocols = Some(names.to_owned());
        self
    }

    /// The offered cipher suites, by their Java names, separated by commas and the best first.
    /// Default: all supported ones; all of them have forward secrecy and authenticated encryption.
    /// Each TLS version needs at least one suite of its own.
    ///
    /// ```
    /// # let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../auth/tests/fixtures");
    /// # let file = format!("{folder}/ca.pem");
    /// let tls = zebu_client::Tls::new().trust_store(file).protocols("TLSv1.3");
    /// tls.cipher_suites("TLS_AES_256_GCM_SHA384,TLS_AES_128_GCM_SHA256").check()?;
    /// # Ok::<(), zebu_client::Error>(())
    /// ```
    #[must_use]
    pub fn cipher_suites(mut self, names: &str) -> Self {
        self.suites = Some(names.to_owned());
        self
    }

    /// Reads all stores, as opening a session does.
    ///
    /// # Errors
    /// [`ErrorKind::Invalid`](crate::ErrorKind::Invalid): a file cannot be read, its password is
    /// wrong, it contains no key, the key and its certificate do not belong together, the
    /// certificate is not valid now, or a setting is invalid. [`Error::reason`] names the file or
    /// the setting, the fault and the remedy.
    ///
    /// ```
    /// let error = zebu_client::Tls::new().trust_store("/no/such/ca.pem").check().unwrap_err();
    /// assert!(error.to_string().starts_with("TLS cannot be used: /no/such/ca.pem: cannot be read: "));
    /// ```
    pub fn check(&self) -> Result<()> {
        self.config().map(drop).map_err(|fault| Error::tls(&fault.to_string()))
    }

    /// Reads all stores, and returns the rustls configuration, for a program that makes its own
    /// connections.
    ///
    /// # Errors
    /// As [`Tls::check`]. Also fails with [`Tls::ocsp`], because a handshake alone asks no
    /// responder.
    ///
    /// ```
    /// # let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../auth/tests/fixtures");
    /// # let file = format!("{folder}/ca.pem");
    /// let config = zebu_client::Tls::new().trust_store(file).rustls_config()?;
    /// assert!(config.alpn_protocols.is_empty());
    /// # Ok::<(), zebu_client::Error>(())
    /// ```
    pub fn rustls_config(&self) -> Result<Arc<ClientConfig>> {
        if self.asks_responders {
            return Err(Error::tls("a rustls configuration alone cannot check OCSP"));
        }
        let config = self.config().map_err(|fault| Error::tls(&fault.to_string()));
        config.map(|(config, _)| Arc::new(config))
    }

    /// As [`Tls::rustls_config`], with the part that asks OCSP responders after a handshake.
    ///
    /// ```
    /// # let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../auth/tests/fixtures");
    /// # let file = format!("{folder}/ca.pem");
    /// let (_, ocsp) = zebu_client::Tls::new().trust_store(file).rustls_config_and_ocsp()?;
    /// assert!(ocsp.is_none());
    /// # Ok::<(), zebu_client::Error>(())
    /// ```
    #[doc(hidden)]
    pub fn rustls_config_and_ocsp(&self) -> Result<(Arc<ClientConfig>, Option<Arc<Ocsp>>)> {
        let config = self.config().map_err(|fault| Error::tls(&fault.to_string()));
        config.map(|(config, ocsp)| (Arc::new(config), ocsp))
    }

    fn config(&self) -> std::result::Result<(ClientConfig, Option<Arc<Ocsp>>), Unusable> {
        let mut trusted = match self.trust.file() {
            Some(file) => file.trusted()?,
            None => Vec::new(),
        };
        if self.has_system_roots {
            trusted.extend(system_roots()?);
        }
        let identity = (self.key.file()).map(|file| file.identity(Timestamp::now())).transpose()?;
        let revocations = match self.revocations.clone() {
            Some(path) => StoreFile { path, password: PasswordSource::None }.revocations()?,
            None => Vec::new(),
        };
        let protocols = match &self.protocols {
            Some(names) => tls::protocols(names)?,
            None => PROTOCOLS.to_vec(),
        };
        let suites = (self.suites.as_deref()).map(tls::cipher_suites).transpose()?;
        let ocsp = (self.asks_responders && !trusted.is_empty())
            .then(|| Ocsp::new(&trusted, &revocations).map(Arc::new))
            .transpose()?;
        let common = Common { protocols, suites, trusted, revocations, ocsp: ocsp.clone() };
        Ok((tls::client(&common, identity.as_ref(), self.is_name_checked)?, ocsp))
    }

    /// All files that the settings name.
    fn paths(&self) -> impl Iterator<Item = &Path> {
        let lists = self.revocations.as_deref();
        self.trust.paths().chain(self.key.paths()).chain(lists)
    }
}

/// The authorities that this machine trusts.
fn system_roots() -> std::result::Result<Vec<CertificateDer<'static>>, Unusable> {
    let found = rustls_native_certs::load_native_certs();
    if found.certs.is_empty() {
        let why: Vec<String> = found.errors.iter().map(ToString::to_string).collect();
        return Err(Unusable::NoAuthorities(why.join(", ")));
    }
    let mut roots = rustls::RootCertStore::empty();
    // A machine may trust certificates that rustls cannot read.
    Ok(found.certs.into_iter().filter(|root| roots.add(root.clone()).is_ok()).collect())
}

/// Shows whether a file has changed; `None` if it cannot be read.
type Stamp = Option<(SystemTime, u64)>;

fn stamp(path: &Path) -> Stamp {
    let facts = std::fs::metadata(path).ok()?;
    Some((facts.modified().ok()?, facts.len()))
}

/// The loaded stores.
struct Loaded {
    /// The stamp of each file before it was read.
    stamps: Vec<Stamp>,
    now: Now,
}

/// The parts of the next connection: the configuration, and the client for OCSP responders.
type Now = (Arc<ClientConfig>, Option<Arc<Ocsp>>);

/// The settings of TLS, and the loaded stores. All sessions of a connector and its clones share
/// them.
pub(crate) struct Material {
    tls: Tls,
    loaded: Mutex<Option<Loaded>>,
}

impl Material {
    pub(crate) fn new(tls: Tls) -> Self {
        Self { tls, loaded: Mutex::default() }
    }

    /// The configuration for the next connection. Reads the stores if they have changed or were
    /// never read.
    ///
    /// # Errors
    /// A store cannot be used, and no earlier version of it could.
    pub(crate) fn load(&self) -> std::result::Result<Now, Unusable> {
        let mut loaded = self.loaded.lock();
        let stamps: Vec<Stamp> = self.tls.paths().map(stamp).collect();
        let before = loaded.as_mut();
        if let Some(before) = before.as_ref().filter(|before| before.stamps == stamps) {
            return Ok(before.now.clone());
        }
        match (self.tls.config(), before) {
            (Ok((config, ocsp)), before) => {
                if before.is_some() {
                    info!("keys and certificates were read again, since their files have changed");
                }
                let now = (Arc::new(config), ocsp);
                *loaded = Some(Loaded { stamps, now: now.clone() });
                Ok(now)
            }
            (Err(fault), Some(before)) => {
                warn!("changed keys or certificates are not used: {fault}");
                before.stamps = stamps;
                Ok(before.now.clone())
            }
            (Err(fault), None) => Err(fault),
        }
    }

    /// Performs the TLS handshake on a connection.
    ///
    /// # Errors
    /// The handshake fails. The text is for people.
    pub(crate) async fn shake_hands(
        self: &Arc<Self>,
        tcp: TcpStream,
        to: Destination,
    ) -> io::Result<TlsStream> {
        let material = self.clone();
        // The derivation of a key from a password takes long.
        let loaded = tokio::task::spawn_blocking(move || material.load()).await;
        let (config, ocsp) = loaded.map_err(io::Error::other)?.map_err(io::Error::other)?;
        let connector = TlsConnector::from(config);
        let handshake = connector.connect(server_name(&to), tcp).await;
        let stream = handshake
            .map_err(|error| io::Error::other(fault::of_handshake(&error, self.shows_key())))?;
        if let Some(ocsp) = ocsp {
            let chain = stream.get_ref().1.peer_certificates();
            let checked = zebu_ocsp::check(&ocsp, chain, Side::Server).await;
            checked.map_err(|error| io::Error::other(format!("TLS handshake failed: {error}")))?;
        }
        Ok(stream)
    }

    /// Whether this client has a certificate.
    pub(crate) fn shows_key(&self) -> bool {
        self.tls.key.path.is_some()
    }
}

/// The name that the server's certificate must have. If the name is no DNS name, the certificate
/// must have the address.
fn server_name(to: &Destination) -> ServerName<'static> {
    let name = to.name.as_deref().map(|name| name.strip_suffix('.').unwrap_or(name));
    name.and_then(|name| ServerName::try_from(name.to_owned()).ok())
        .unwrap_or_else(|| ServerName::from(to.server.ip().to_canonical()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fixture(name: &str) -> PathBuf {
        [env!("CARGO_MANIFEST_DIR"), "..", "auth", "tests", "fixtures", name].iter().collect()
    }

    #[test]
    fn the_name_of_the_connect_string_is_verified_or_the_address() {
        let verified = |name: Option<&str>, server: &str| {
            let (server, name) = (server.parse().unwrap(), name.map(str::to_owned));
            server_name(&Destination { server, name }).to_str().into_owned()
        };
        assert_eq!(verified(Some("zk1.example.org"), "10.0.0.1:1"), "zk1.example.org");
        assert_eq!(verified(Some("zk1.example.org."), "10.0.0.1:1"), "zk1.example.org");
        assert_eq!(verified(Some("10.0.0.2"), "10.0.0.1:1"), "10.0.0.2");
        assert_eq!(verified(None, "[::1]:1"), "::1");
        assert_eq!(verified(None, "[::ffff:10.0.0.1]:1"), "10.0.0.1");
        assert_eq!(verified(Some("fe80::1%eth0"), "[fe80::1]:1"), "fe80::1");
    }

    #[test]
    fn stores_are_read_again_when_they_have_changed_and_kept_when_that_fails() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let put = |name: &str| std::fs::copy(fixture(name), file.path()).unwrap();
        put("ca.pem");
        let material = Material::new(Tls::new().trust_store(file.path()));
        let load = || material.load().unwrap().0;
        let first = load();
        assert!(Arc::ptr_eq(&first, &load()));
        put("other-ca.pem");
        let second = load();
        assert!(!Arc::ptr_eq(&first, &second));
        std::fs::write(file.path(), "half a file").unwrap();
        assert!(Arc::ptr_eq(&second, &load()));
        std::fs::remove_file(file.path()).unwrap();
        assert!(Arc::ptr_eq(&second, &load()));
        put("ca.pem");
        assert!(!Arc::ptr_eq(&second, &load()));
    }

    #[test]
    fn each_store_that_cannot_be_used_is_named_with_what_helps() {
        let trusting = || Tls::new().trust_store(fixture("ca.pem"));
        let p12 = || trusting().key_store(fixture("keytool17.p12"));
        let cases = [
            (trusting().trust_store("/no/such.pem"), "/no/such.pem: cannot be read: "),
            (p12(), "keytool17.p12: it is encrypted and no password is set; set the store's"),
            (p12().key_store_password("no"), "keytool17.p12: the password is wrong; check"),
            (trusting().key_store(fixture("ca.pem")), "ca.pem: there is no private key in it; "),
            (trusting().key_store(fixture("mismatched.pem")), "does not belong to the certificate"),
            (trusting().protocols("TLSv1.1"), "\"TLSv1.1\" is not a supported TLS protocol; use"),
            (trusting().cipher_suites("RC4"), "\"RC4\" is not a supported cipher suite; use"),
            (Tls::new(), "no certificate is trusted; set the trust store"),
        ];
        for (tls, words) in cases {
            let error = tls.check().unwrap_err();
            assert_eq!(error.kind(), crate::ErrorKind::Invalid);
            let reason = error.reason().unwrap();
            assert!(reason.contains(words), "{reason}");
            let shown = format!("{tls:?} {error:?}");
            assert!(!shown.contains("\"no\""), "{shown}");
        }
        let folder = tempfile::tempdir().unwrap();
        let expired = folder.path().join("expired.pem");
        let read = |name: &str| std::fs::read(fixture(name)).unwrap();
        std::fs::write(&expired, [read("expired.key"), read("expired.pem")].concat()).unwrap();
        let error = trusting().key_store(&expired).check().unwrap_err().to_string();
        assert!(
            error.contains("expired.pem: the certificate of \"CN=expired\" has expired"),
            "{error}"
        );
        assert!(error.contains("; renew the certificate"), "{error}");
    }

    #[test]
    fn every_kind_of_store_is_taken() {
        for trust in ["ca.pem", "trust.jks", "trust17.p12"] {
            for key in ["key-first.pem", "keytool.jks", "keytool17.p12"] {
                let tls = Tls::new()
                    .trust_store(fixture(trust))
                    .trust_store_password("testpass")
                    .key_store(fixture(key))
                    .key_store_password("testpass");
                tls.check().unwrap_or_else(|error| panic!("{trust}, {key}: {error}"));
            }
        }
    }
}

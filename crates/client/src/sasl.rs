//! SASL: the identity of the client, and the exchange at the beginning of each connection.
//!
//! `zebu-auth` makes the tokens. `zebu-session` decides when they are sent.

use std::io;
use std::path::Path;

use bytes::Bytes;
use zebu_auth::Secret;
use zebu_auth::digest_md5::{self, CLIENTS, NONCE_BYTES};
use zebu_auth::gssapi::{self, Context, Gss, Initiator, Source, Target};
use zebu_auth::jaas::{Jaas, Login};
use zebu_session::{Attempt, Challenge, Proof};

use crate::Error;

type Result<T, E = Error> = std::result::Result<T, E>;

/// Why an exchange failed.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Fault {
    /// The system supplies no random bytes.
    #[error("the system gives no random bytes")]
    NoRandomBytes,
    /// Kerberos has no credentials.
    #[error("Kerberos: {0}")]
    NoCredentials(#[from] gssapi::Error),
    /// The exchange has not begun.
    #[error("a challenge before the beginning")]
    NotBegun,
    /// The server has no SASL, or its `Server` section is for another mechanism.
    #[error(
        "the server sends no challenge: it has no SASL, or not DIGEST-MD5; check its JAAS section Server"
    )]
    NoChallenge,
    /// A step of DIGEST-MD5 failed.
    #[error(transparent)]
    Digest(#[from] digest_md5::Failure),
    /// A step of Kerberos failed.
    #[error(transparent)]
    Kerberos(#[from] gssapi::Failure),
    /// The system supplies no thread.
    #[error("no thread for Kerberos: {0}")]
    NoThread(io::Error),
}

/// The name of the service, unless another is set.
const SERVICE: &str = "zookeeper";

/// The identity of a client for SASL, and its proof: a password (DIGEST-MD5) or a Kerberos ticket
/// (GSSAPI). The exchange sends neither a password nor a key, and the server proves its identity,
/// too. `Debug` shows no password.
///
/// With DIGEST-MD5 the server's JAAS section `Server` names the users, as in `user_amy="secret"`.
/// In ACLs the client has the id `amy` of the scheme `sasl`. With Kerberos it has the id
/// `amy@EXAMPLE.ORG`, unless the server shortens it. No mechanism protects requests or answers, and
/// an attacker who records an exchange of DIGEST-MD5 can try passwords on it: use SASL over TLS.
///
/// ```no_run
/// # async fn example() -> zebu_client::Result<()> {
/// use zebu_client::{Connector, Sasl};
///
/// let client = Connector::new().sasl(Sasl::digest_md5("amy", "secret")).connect("zk1,zk2/app").await?;
/// # Ok(()) }
/// ```
#[derive(Clone, Debug)]
pub struct Sasl {
    how: How,
}

#[derive(Clone, Debug)]
enum How {
    Digest { user: String, password: Secret },
    Kerberos { initiator: Initiator, service: Service },
}

/// The parts of a server's principal.
#[derive(Clone, Debug)]
struct Service {
    name: String,
    principal: Option<String>,
    realm: Option<String>,
    is_canonical: bool,
}

impl Service {
    /// The service name of a server on this host.
    fn of(&self, host: &str) -> Target {
        let whole = |principal: &str| match &self.realm {
            Some(realm) if !principal.contains('@') => format!("{principal}@{realm}"),
            _ => principal.to_owned(),
        };
        match &self.principal {
            Some(principal) => Target::Principal(whole(principal)),
            None if self.is_canonical && self.realm.is_none() => {
                Target::Service { service: self.name.clone(), host: host.to_owned() }
            }
            None => Target::Principal(whole(&format!("{}/{host}", self.name))),
        }
    }
}

impl Sasl {
    /// A user and a password.
    ///
    /// ```
    /// let sasl = zebu_client::Sasl::digest_md5("amy", "secret");
    /// assert!(!format!("{sasl:?}").contains("secret"));
    /// ```
    pub fn digest_md5(user: &str, password: &str) -> Self {
        Self { how: How::Digest { user: user.to_owned(), password: Secret::from(password) } }
    }

    /// A Kerberos principal whose key is in a key table. The tickets are in memory, and the library
    /// renews them after half of their lifetime, so the session may last for ever.
    ///
    /// This call loads the library of MIT Kerberos; on Debian, its package is `libgssapi-krb5-2`.
    ///
    /// # Errors
    /// [`ErrorKind::Invalid`](crate::ErrorKind::Invalid): the library is not installed. A wrong key
    /// shows only at the beginning of a connection: it ends the session, and [`Error::reason`]
    /// contains the reason.
    ///
    /// ```no_run
    /// # async fn example() -> zebu_client::Result<()> {
    /// use zebu_client::{Connector, Sasl};
    ///
    /// let sasl = Sasl::kerberos_key_tab("amy@EXAMPLE.ORG", "/etc/amy.keytab")?;
    /// let client = Connector::new().sasl(sasl).connect("zk1.example.org").await?;
    /// # Ok(()) }
    /// ```
    pub fn kerberos_key_tab(principal: &str, key_tab: impl AsRef<Path>) -> Result<Self> {
        Self::kerberos(Source {
            principal: Some(principal.to_owned()),
            key_tab: Some(Some(key_tab.as_ref().to_owned())),
            cache: None,
        })
    }

    /// The owner of the ticket in the user's cache, which `kinit` fills. The client reads the cache
    /// for each connection, so the owner must keep the ticket current.
    ///
    /// # Errors
    /// As [`Sasl::kerberos_key_tab`].
    ///
    /// ```no_run
    /// # async fn example() -> zebu_client::Result<()> {
    /// use zebu_client::{Connector, Sasl};
    ///
    /// let client = Connector::new().sasl(Sasl::kerberos_cache()?).connect("zk1.example.org").await?;
    /// # Ok(()) }
    /// ```
    pub fn kerberos_cache() -> Result<Self> {
        Self::kerberos(Source { cache: Some(None), ..Source::default() })
    }

    fn kerberos(source: Source) -> Result<Self> {
        let gss = Gss::load().map_err(|error| Error::sasl(&error.to_string()))?;
        let service =
            Service { name: SERVICE.to_owned(), principal: None, realm: None, is_canonical: true };
        Ok(Self { how: How::Kerberos { initiator: gss.initiator(source), service } })
    }

    /// Whether the client presents a Kerberos ticket.
    ///
    /// ```
    /// assert!(!zebu_client::Sasl::digest_md5("amy", "secret").is_kerberos());
    /// ```
    pub fn is_kerberos(&self) -> bool {
        matches!(self.how, How::Kerberos { .. })
    }

    fn with_service(mut self, change: impl FnOnce(&mut Service)) -> Self {
        if let How::Kerberos { service, .. } = &mut self.how {
            change(service);
        }
        self
    }

    /// The first part of the servers' Kerberos principals, instead of `zookeeper`. The second part
    /// is the host from the client's connect string. This setting and the following ones have no
    /// effect on DIGEST-MD5.
    ///
    /// ```no_run
    /// let sasl = zebu_client::Sasl::kerberos_cache()?.service_name("zk");
    /// # Ok::<(), zebu_client::Error>(())
    /// ```
    #[must_use]
    pub fn service_name(self, name: &str) -> Self {
        self.with_service(|service| service.name = name.to_owned())
    }

    /// The one principal of all servers, such as `zookeeper/zk.example.org@EXAMPLE.ORG`.
    ///
    /// ```no_run
    /// let sasl = zebu_client::Sasl::kerberos_cache()?.server_principal("zookeeper/zk.example.org@EXAMPLE.ORG");
    /// # Ok::<(), zebu_client::Error>(())
    /// ```
    #[must_use]
    pub fn server_principal(self, principal: &str) -> Self {
        self.with_service(|service| service.principal = Some(principal.to_owned()))
    }

    /// The realm of the servers, if `krb5.conf` does not contain it. With this setting, the library
    /// does not look up host names.
    ///
    /// ```no_run
    /// let sasl = zebu_client::Sasl::kerberos_cache()?.server_realm("EXAMPLE.ORG");
    /// # Ok::<(), zebu_client::Error>(())
    /// ```
    #[must_use]
    pub fn server_realm(self, realm: &str) -> Self {
        self.with_service(|service| service.realm = Some(realm.to_owned()))
    }

    /// Whether the library may look up host names, as `krb5.conf` says
    /// (`dns_canonicalize_hostname`, `rdns`). Default: true. The answer to such a look-up decides
    /// for which server the ticket is.
    ///
    /// ```no_run
    /// let sasl = zebu_client::Sasl::kerberos_cache()?.canonicalize_host(false);
    /// # Ok::<(), zebu_client::Error>(())
    /// ```
    #[must_use]
    pub fn canonicalize_host(self, is_canonical: bool) -> Self {
        self.with_service(|service| service.is_canonical = is_canonical)
    }

    /// Reads the `DigestLoginModule` or the `Krb5LoginModule` of a section of a JAAS file, as
    /// Java's clients do; their section is `Client`. Returns `None` if there is no such section.
    ///
    /// # Errors
    /// [`ErrorKind::Invalid`](crate::ErrorKind::Invalid): the file cannot be read or parsed, the
    /// section has another login module, or the Kerberos library is not installed.
    /// [`Error::reason`] names the file, the line and the fault.
    ///
    /// ```
    /// use zebu_client::Sasl;
    ///
    /// # let file = tempfile::NamedTempFile::new().unwrap();
    /// let section = r#"Client {
    ///     org.apache.zookeeper.server.auth.DigestLoginModule required username="amy" password="secret";
    /// };"#;
    /// std::fs::write(&file, section).unwrap();
    /// assert!(Sasl::jaas(&file, "Client")?.is_some());
    /// assert!(Sasl::jaas(&file, "Other")?.is_none());
    /// # Ok::<(), zebu_client::Error>(())
    /// ```
    pub fn jaas(file: impl AsRef<Path>, section: &str) -> Result<Option<Self>> {
        let file = file.as_ref();
        let wrong = |fault: &dyn std::fmt::Display| Error::sasl(&fault.to_string());
        // A Rust program has no Java properties.
        let jaas = Jaas::read(file, &|_| None).map_err(|error| wrong(&error))?;
        let place = format!("{}: section {section}", file.display());
        match jaas.login(section).map_err(|error| wrong(&error))? {
            None => Ok(None),
            Some(Login::Digest(login)) => match login.credential {
                Some((user, password)) => Ok(Some(Self { how: How::Digest { user, password } })),
                None => Err(wrong(&format_args!("{place}: set username and password"))),
            },
            Some(Login::Kerberos(login)) => {
                let source =
                    login.source().map_err(|missing| wrong(&format_args!("{place}: {missing}")))?;
                Self::kerberos(source).map(Some)
            }
        }
    }
}

/// An exchange with one server, for a program that sends the tokens itself, in requests of type
/// 102.
///
/// Call [`SaslExchange::begin`] first. Then pass the token of each reply to
/// [`SaslExchange::answer`], until it returns no token: then the server has proved its identity.
/// Steps of Kerberos may contact the key distribution centre, and block meanwhile.
///
/// ```
/// let mut exchange = zebu_client::Sasl::digest_md5("amy", "secret").exchange("zk1")?;
/// assert_eq!(exchange.begin()?, b"");
/// assert!(exchange.answer(Some(b"no challenge")).is_err());
/// # Ok::<(), zebu_client::Error>(())
/// ```
#[derive(Debug)]
pub struct SaslExchange(Side);

impl SaslExchange {
    /// The first token.
    ///
    /// # Errors
    /// There is no ticket. [`Error::reason`] contains the reason.
    ///
    /// ```
    /// let mut exchange = zebu_client::Sasl::digest_md5("amy", "secret").exchange("zk1")?;
    /// assert_eq!(exchange.begin()?, b"");
    /// # Ok::<(), zebu_client::Error>(())
    /// ```
    pub fn begin(&mut self) -> Result<Vec<u8>> {
        Ok(self.step(&Challenge::First)?.unwrap_or_default())
    }

    /// The answer to the token of a reply; a reply may have no token. Returns no token at the end.
    ///
    /// # Errors
    /// The server does not prove its identity, or uses another mechanism. [`Error::reason`]
    /// contains the reason.
    ///
    /// ```
    /// let mut exchange = zebu_client::Sasl::digest_md5("amy", "secret").exchange("zk1")?;
    /// exchange.begin()?;
    /// let error = exchange.answer(None).unwrap_err();
    /// assert!(error.reason().unwrap().contains("the server sends no challenge"));
    /// # Ok::<(), zebu_client::Error>(())
    /// ```
    pub fn answer(&mut self, token: Option<&[u8]>) -> Result<Option<Vec<u8>>> {
        self.step(&Challenge::Token(token.map(Bytes::copy_from_slice)))
    }

    fn step(&mut self, challenge: &Challenge) -> Result<Option<Vec<u8>>> {
        let proof = match &mut self.0 {
            Side::Digest(client) => digest(client, challenge),
            Side::Kerberos(kerberos) => kerberos.answer(challenge),
        };
        match proof.map_err(|fault| Error::sasl(&fault.to_string()))? {
            Proof::Token(token) => Ok(Some(token)),
            Proof::Done => Ok(None),
            Proof::Failed => Err(Error::sasl("the server does not prove itself")),
        }
    }
}

/// The client's side of an exchange.
#[derive(Debug)]
enum Side {
    Digest(digest_md5::Client),
    Kerberos(Box<Kerberos>),
}

/// An exchange with Kerberos, whose steps may take a long time.
#[derive(Debug)]
pub(crate) struct Kerberos {
    client: gssapi::Client<Context>,
}

impl Kerberos {
    /// The answer to a challenge. May first contact the key distribution centre.
    ///
    /// # Errors
    /// There is no ticket, or the server does not authenticate itself.
    pub(crate) fn answer(&mut self, challenge: &Challenge) -> Result<Proof, Fault> {
        let token = match challenge {
            Challenge::First => Some(self.client.begin()?),
            // The challenge that ends the exchange has no token.
            Challenge::Token(token) => self.client.step(token.as_deref().unwrap_or_default())?,
        };
        Ok(token.map_or(Proof::Done, Proof::Token))
    }
}

/// The next step after a challenge.
pub(crate) enum Answer {
    /// Send this at once.
    Now(Result<Proof, Fault>),
    /// Call [`Kerberos::answer`] on another thread, then [`Exchange::resume`].
    Later(Box<Kerberos>),
}

/// The exchange of the latest connection.
#[derive(Debug)]
pub(crate) struct Exchange {
    sasl: Sasl,
    attempt: Option<Attempt>,
    side: Option<Side>,
}

impl Exchange {
    pub(crate) fn new(sasl: Sasl) -> Self {
        Self { sasl, attempt: None, side: None }
    }

    /// Begins or continues the exchange of this attempt, with a server on this host.
    pub(crate) fn answer(&mut self, attempt: Attempt, challenge: &Challenge, host: &str) -> Answer {
        if *challenge == Challenge::First {
            self.attempt = Some(attempt);
            self.side = match self.sasl.begin(host) {
                Ok(side) => Some(side),
                Err(fault) => return Answer::Now(Err(fault)),
            };
        }
        match self.side.take() {
            Some(Side::Kerberos(kerberos)) => Answer::Later(kerberos),
            Some(Side::Digest(mut client)) => {
                let answered = digest(&mut client, challenge);
                self.side = Some(Side::Digest(client));
                Answer::Now(answered)
            }
            None => Answer::Now(Err(Fault::NotBegun)),
        }
    }

    /// Takes the Kerberos state back after an answer, if the attempt is still the latest.
    pub(crate) fn resume(&mut self, attempt: Attempt, kerberos: Box<Kerberos>) {
        if self.attempt == Some(attempt) {
            self.side = Some(Side::Kerberos(kerberos));
        }
    }
}

impl Sasl {
    /// An exchange with a server of this host, for a program that sends the tokens itself.
    ///
    /// # Errors
    /// The system supplies no random bytes, or Kerberos has no credentials. [`Error::reason`]
    /// contains the reason.
    ///
    /// ```
    /// let exchange = zebu_client::Sasl::digest_md5("amy", "secret").exchange("zk1")?;
    /// assert!(!format!("{exchange:?}").contains("secret"));
    /// # Ok::<(), zebu_client::Error>(())
    /// ```
    pub fn exchange(&self, host: &str) -> Result<SaslExchange> {
        let side = self.begin(host).map_err(|fault| Error::sasl(&fault.to_string()))?;
        Ok(SaslExchange(side))
    }

    /// A new exchange with a server on this host.
    fn begin(&self, host: &str) -> Result<Side, Fault> {
        match &self.how {
            How::Digest { user, password } => {
                let random =
                    zebu_auth::random::bytes::<NONCE_BYTES>().ok_or(Fault::NoRandomBytes)?;
                let (user, password) = (user.clone(), password.clone());
                Ok(Side::Digest(digest_md5::Client::new(CLIENTS, user, password, random)))
            }
            How::Kerberos { initiator, service } => {
                let context = initiator.begin(&service.of(host))?;
                Ok(Side::Kerberos(Box::new(Kerberos { client: gssapi::Client::new(context) })))
            }
        }
    }
}

/// The answer of a user with a password to a challenge.
fn digest(client: &mut digest_md5::Client, challenge: &Challenge) -> Result<Proof, Fault> {
    let token = match challenge {
        Challenge::First => {
            debug_assert!(!client.is_done(), "an exchange that begins");
            return Ok(Proof::Token(digest_md5::Client::INITIAL.to_vec()));
        }
        Challenge::Token(token) => token.as_ref().ok_or(Fault::NoChallenge)?,
    };
    Ok(client.step(token)?.map_or(Proof::Done, Proof::Token))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The principal that a ticket is for. Source: `SaslServerPrincipal`,
    /// `SecurityUtils.createSaslClient`.
    #[test]
    fn servers_have_the_principals_of_the_original() {
        let service = |principal: Option<&str>, realm: Option<&str>, is_canonical| Service {
            name: SERVICE.to_owned(),
            principal: principal.map(str::to_owned),
            realm: realm.map(str::to_owned),
            is_canonical,
        };
        let looked_up = Target::Service { service: "zookeeper".to_owned(), host: "h".to_owned() };
        assert_eq!(service(None, None, true).of("h"), looked_up);
        for (service, expected) in [
            (service(None, None, false), "zookeeper/h"),
            (service(None, Some("R"), true), "zookeeper/h@R"),
            (service(Some("zk/other"), None, true), "zk/other"),
            (service(Some("zk/other"), Some("R"), true), "zk/other@R"),
            (service(Some("zk/other@S"), Some("R"), false), "zk/other@S"),
        ] {
            assert_eq!(service.of("h"), Target::Principal(expected.to_owned()));
        }
    }
}

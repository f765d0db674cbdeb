//! SASL: who the client is, and the exchange of one connection.
//!
//! The tokens are `zebu-auth`'s, and when they are sent is decided by `zebu-session`.

use std::path::Path;

use zebu_auth::Secret;
use zebu_auth::digest_md5::{self, CLIENTS, NONCE_BYTES};
use zebu_auth::jaas::{Jaas, Login};
use zebu_session::{Challenge, Proof};

use crate::{Error, Result};

/// What a server without SASL answers to a token, and one whose `Server` section is of another mechanism.
const NO_TOKEN: &str = "the server sends no challenge: it has no SASL, or not DIGEST-MD5; check its JAAS section Server";

/// Who a client proves to be with SASL. The mechanism is DIGEST-MD5, in which the password itself is not sent, and the
/// server proves that it knows it, too. `Debug` shows no password.
///
/// The server's JAAS section `Server` names the users, as in `user_amy="secret"`. In ACLs the client has the id `amy` of the
/// scheme `sasl`. DIGEST-MD5 protects neither requests nor answers, and whoever hears an exchange can try passwords on it:
/// use it over TLS.
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
    user: String,
    password: Secret,
}

impl Sasl {
    /// A user and a password.
    ///
    /// ```
    /// let sasl = zebu_client::Sasl::digest_md5("amy", "secret");
    /// assert!(!format!("{sasl:?}").contains("secret"));
    /// ```
    pub fn digest_md5(user: &str, password: &str) -> Self {
        Self { user: user.to_owned(), password: Secret::from(password) }
    }

    /// The `username` and `password` of the `DigestLoginModule` in a section of a JAAS file, as Java's clients have it:
    /// their section is called `Client`. Returns `None` when there is no such section.
    ///
    /// # Errors
    /// [`ErrorKind::Invalid`](crate::ErrorKind::Invalid). [`Error::reason`] names the file, the line, and what is wrong: it
    /// cannot be read or understood, or the section is of another login module. `Krb5LoginModule` is not supported.
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
        // Java's properties are none of a Rust program's.
        let jaas = Jaas::read(file, &|_| None).map_err(|error| wrong(&error))?;
        let place = format!("{}: section {section}", file.display());
        match jaas.login(section).map_err(|error| wrong(&error))? {
            None => Ok(None),
            Some(Login::Digest(login)) => match login.credential {
                Some((user, password)) => Ok(Some(Self { user, password })),
                None => Err(wrong(&format_args!("{place}: set username and password"))),
            },
            Some(Login::Kerberos(_)) => Err(wrong(&format_args!(
                "{place}: Krb5LoginModule is not supported; use DigestLoginModule"
            ))),
        }
    }

    /// An exchange that has said nothing; `None` where the system gives no random bytes.
    fn begin(&self) -> Option<digest_md5::Client> {
        let random = zebu_auth::random::bytes::<NONCE_BYTES>()?;
        let (user, password) = (self.user.clone(), self.password.clone());
        Some(digest_md5::Client::new(CLIENTS, user, password, random))
    }
}

/// The exchange of the latest connection.
#[derive(Debug)]
pub(crate) struct Exchange {
    sasl: Sasl,
    client: Option<digest_md5::Client>,
}

impl Exchange {
    pub(crate) fn new(sasl: Sasl) -> Self {
        Self { sasl, client: None }
    }

    /// What is to be said to a challenge.
    ///
    /// # Errors
    /// The server does not prove itself, or asks for what is not supported. The text is for people.
    pub(crate) fn answer(&mut self, challenge: &Challenge) -> std::result::Result<Proof, String> {
        let token = match challenge {
            Challenge::First => {
                self.client = self.sasl.begin();
                let client = self.client.as_ref().ok_or("the system gives no random bytes")?;
                debug_assert!(!client.is_done(), "an exchange that begins");
                return Ok(Proof::Token(digest_md5::Client::INITIAL.to_vec()));
            }
            Challenge::Token(token) => token.as_ref().ok_or(NO_TOKEN)?,
        };
        let client = self.client.as_mut().ok_or("a challenge before the beginning")?;
        match client.step(token).map_err(|failure| failure.to_string())? {
            Some(token) => Ok(Proof::Token(token)),
            None => Ok(Proof::Done),
        }
    }
}

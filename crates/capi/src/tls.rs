//! TLS of a handle: the certificate string of `zookeeper_init_ssl`, and the files that it names.
//!
//! As in the C client, the certificate of a server must be of the given authority, and need not be
//! for the name that is connected to. The meaning of failed handshakes is `zebu-auth`'s.

use std::fmt::Display;
use std::fs;
use std::path::Path;
use std::sync::Arc;

use jiff::Timestamp;
use rustls::ClientConfig;
use zebu_auth::Secret;
use zebu_auth::store::{Contents, PasswordSource, StoreFile};
use zebu_auth::tls::{self, Common};

/// How connections are made over TLS.
#[derive(Clone, Debug)]
pub(crate) struct Tls {
    pub(crate) config: Arc<ClientConfig>,
    /// Whether this client has a certificate to show.
    pub(crate) shows_key: bool,
}

/// The parts of a certificate string.
#[derive(Debug, PartialEq, Eq)]
struct Files<'a> {
    authority: &'a str,
    /// Certificate and key.
    own: Option<(&'a str, &'a str)>,
    password: Option<&'a str>,
}

impl<'a> Files<'a> {
    /// Parses `authority` or `authority,certificate,key,password`. The password may be missing, and
    /// may contain commas.
    fn parse(text: &'a str) -> Result<Self, String> {
        let mut parts = text.splitn(4, ',').map(|part| (!part.is_empty()).then_some(part));
        let authority =
            parts.next().flatten().ok_or("the certificate string names no authority")?;
        let (certificate, key) = (parts.next().flatten(), parts.next().flatten());
        let own = match (certificate, key) {
            (Some(certificate), Some(key)) => Some((certificate, key)),
            (None, None) => None,
            (Some(_), None) => return Err("the certificate string names no key".to_owned()),
            (None, Some(_)) => {
                return Err("the certificate string names a key without its certificate".to_owned());
            }
        };
        Ok(Self { authority, own, password: parts.next().flatten() })
    }
}

impl Tls {
    /// Reads the files of a certificate string.
    ///
    /// # Errors
    /// A sentence that names the file, and what is wrong with it.
    pub(crate) fn read(text: &str) -> Result<Self, String> {
        let files = Files::parse(text)?;
        let authority = StoreFile { path: files.authority.into(), password: PasswordSource::None };
        let trusted = authority.trusted().map_err(|error| error.to_string())?;
        let password = files.password.map(Secret::from);
        let identity = match files.own {
            Some((certificate, key)) => {
                let mut both = read(certificate)?;
                both.push(b'\n');
                both.extend(read(key)?);
                let both = Secret::new(both);
                let wrong = |fault: &dyn Display| format!("{certificate}, {key}: {fault}");
                let contents = Contents::read(both.expose(), password.as_ref())
                    .map_err(|fault| wrong(&fault))?;
                Some(contents.identity(Timestamp::now()).map_err(|fault| wrong(&fault))?)
            }
            None => None,
        };
        let config = tls::client(&Common::trusting(trusted), identity.as_ref(), false);
        let config = config.map_err(|error| error.to_string())?;
        Ok(Self { config: Arc::new(config), shows_key: identity.is_some() })
    }
}

fn read(file: &str) -> Result<Vec<u8>, String> {
    fs::read(Path::new(file)).map_err(|error| format!("{file}: cannot be read: {error}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fixture(name: &str) -> String {
        format!("{}/../auth/tests/fixtures/{name}", env!("CARGO_MANIFEST_DIR"))
    }

    #[test]
    fn certificate_strings() {
        let parse = Files::parse;
        let own = Some(("cert", "key"));
        assert_eq!(parse("ca"), Ok(Files { authority: "ca", own: None, password: None }));
        let whole = Files { authority: "ca", own, password: Some("pass,word") };
        assert_eq!(parse("ca,cert,key,pass,word"), Ok(whole));
        let without = Files { authority: "ca", own, password: None };
        assert_eq!(parse("ca,cert,key"), Ok(without));
        for wrong in ["", ",cert,key,password", "ca,cert", "ca,,key"] {
            assert!(parse(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn files_that_cannot_be_used_are_named() {
        let (ca, cert) = (fixture("ca.pem"), fixture("client.pem"));
        let with = |key: &str| format!("{ca},{cert},{}", fixture(key));
        assert!(!Tls::read(&ca).unwrap().shows_key);
        assert!(Tls::read(&with("client.key")).unwrap().shows_key);
        for (text, words) in [
            (fixture("none.pem"), "none.pem: cannot be read"),
            (fixture("client.key"), "client.key: there is no certificate"),
            (with("none.key"), "none.key: cannot be read"),
            (with("server.key"), "does not belong to the certificate"),
            (with("quick-encrypted.key"), "quick-encrypted.key: it is encrypted"),
            (with("quick-encrypted.key,no"), "the password is wrong"),
        ] {
            let error = Tls::read(&text).unwrap_err();
            assert!(error.contains(words), "{words}: {error}");
        }
    }
}

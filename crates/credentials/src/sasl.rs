//! The properties of ZooKeeper's clients about SASL.
//!
//! They are collected from all places first, because one place may override another. Source:
//! `ZooKeeperSaslClient`, `ZKClientConfig`.

use std::path::PathBuf;

use zebu_client::Sasl;

use crate::VARIABLES;
use crate::failure::{Failure, Result};
use crate::tls::boolean;

const FILE: &str = "java.security.auth.login.config";
const ENABLED: &str = "zookeeper.sasl.client";
const SECTION: &str = "zookeeper.sasl.clientconfig";
const DEFAULT_SECTION: &str = "Client";

/// The properties that name the servers' Kerberos principal.
const SERVICE: &str = "zookeeper.sasl.client.username";
const PRINCIPAL: &str = "zookeeper.server.principal";
const REALM: &str = "zookeeper.server.realm";
const CANONICAL: &str = "zookeeper.sasl.client.canonicalize.hostname";

/// The property by which Java finds the Kerberos realms, and the environment variable that the
/// library uses.
const KRB5_CONF: &str = "java.security.krb5.conf";
const KRB5_CONFIG: &str = "KRB5_CONFIG";

/// The SASL properties found so far, with their places.
#[derive(Default)]
pub(crate) struct Properties {
    is_off: bool,
    file: Option<(PathBuf, String)>,
    section: Option<(String, String)>,
    service: Option<String>,
    principal: Option<String>,
    realm: Option<String>,
    is_not_canonical: bool,
    krb5_conf: Option<(PathBuf, String)>,
}

impl Properties {
    /// Takes a property if it is about SASL. Returns whether it is.
    ///
    /// # Errors
    /// The value does not say clearly whether SASL is wanted.
    pub(crate) fn take(&mut self, key: &str, value: &str, place: &str) -> Result<bool> {
        match key {
            ENABLED => self.is_off = !boolean(value, key, place)?,
            FILE => self.file = Some((PathBuf::from(value), place.to_owned())),
            SECTION => self.section = Some((value.to_owned(), place.to_owned())),
            SERVICE => self.service = Some(value.to_owned()),
            PRINCIPAL => self.principal = Some(value.to_owned()),
            REALM => self.realm = Some(value.to_owned()),
            CANONICAL => self.is_not_canonical = !boolean(value, key, place)?,
            KRB5_CONF => self.krb5_conf = Some((PathBuf::from(value), place.to_owned())),
            _ => return Ok(false),
        }
        Ok(true)
    }

    /// The credentials for SASL, if it is wanted. As in the original, a file without a section
    /// `Client` is ignored, but a section named in the settings must exist.
    ///
    /// # Errors
    /// The file or its section cannot be used.
    pub(crate) fn settle(&self, remarks: &mut Vec<String>) -> Result<Option<Sasl>> {
        if self.is_off {
            return Ok(None);
        }
        let Some((file, place)) = &self.file else {
            return match &self.section {
                Some((_, place)) => {
                    Err(Failure::new(format!("{place}: {SECTION} is set without a file"))
                        .with_hint(format!("{FILE}=/path/to/jaas.conf")))
                }
                None => Ok(None),
            };
        };
        let section = self.section.as_ref().map_or(DEFAULT_SECTION, |(section, _)| section);
        let sasl = Sasl::jaas(file, section)
            .map_err(|error| Failure::new(error.reason().unwrap_or_default().to_owned()))?;
        if sasl.is_none() {
            let file = file.display();
            let missing = format!("{place}: {FILE}: there is no section {section} in {file}");
            if self.section.is_some() {
                return Err(Failure::new(missing));
            }
            // Environment variables may be meant for other programs.
            if !VARIABLES.contains(&place.as_str()) {
                remarks.push(format!("{missing}, so SASL is not used"));
            }
        }
        let Some(mut sasl) = sasl else { return Ok(None) };
        if sasl.is_kerberos() {
            self.check_krb5_conf(std::env::var_os(KRB5_CONFIG).map(PathBuf::from))?;
        }
        if let Some(name) = &self.service {
            sasl = sasl.service_name(name);
        }
        if let Some(principal) = &self.principal {
            sasl = sasl.server_principal(principal);
        }
        if let Some(realm) = &self.realm {
            sasl = sasl.server_realm(realm);
        }
        Ok(Some(sasl.canonicalize_host(!self.is_not_canonical)))
    }

    /// The Kerberos library ignores Java's properties.
    fn check_krb5_conf(&self, known: Option<PathBuf>) -> Result<()> {
        match &self.krb5_conf {
            Some((path, place)) if known.as_ref() != Some(path) => {
                let path = path.display();
                Err(Failure::new(format!("{place}: {KRB5_CONF}={path} has an effect in Java only"))
                    .with_hint(format!("{KRB5_CONFIG}={path} in the environment")))
            }
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MODULE: &str = "org.apache.zookeeper.server.auth.DigestLoginModule required";

    fn settle(text: &str, more: &[(&str, &str)]) -> (std::result::Result<bool, String>, usize) {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), text).unwrap();
        let (mut properties, mut remarks) = (Properties::default(), Vec::new());
        let path = file.path().display().to_string();
        for (key, value) in [(FILE, &*path)].iter().chain(more) {
            assert!(properties.take(key, value, "F").unwrap(), "{key}");
        }
        let settled = properties.settle(&mut remarks);
        let settled = settled.map(|sasl| sasl.is_some());
        (settled.map_err(|failure| failure.message().replace(&path, "J")), remarks.len())
    }

    #[test]
    fn sections_are_those_of_the_original() {
        let client = format!("Client {{ {MODULE} username=\"amy\" password=\"secret\"; }};");
        let other = client.replace("Client", "Mine");
        assert_eq!(settle(&client, &[]), (Ok(true), 0));
        assert_eq!(settle(&client, &[(ENABLED, "false")]), (Ok(false), 0));
        assert_eq!(settle(&other, &[(SECTION, "Mine")]), (Ok(true), 0));
        assert_eq!(settle(&other, &[]), (Ok(false), 1));
        let (refused, _) = settle(&client, &[(SECTION, "Mine")]);
        assert_eq!(refused.unwrap_err(), format!("F: {FILE}: there is no section Mine in J"));
    }

    #[test]
    fn what_cannot_be_used_is_named() {
        let kerberos = "Client { com.sun.security.auth.module.Krb5LoginModule required; };";
        let server = format!("Client {{ {MODULE} user_amy=\"secret\"; }};");
        for (text, words) in [
            ("Client {", "J:1: "),
            (kerberos, "J: section Client: there is neither a key table nor a cache of tickets"),
            (&server, "J: section Client: set username and password"),
        ] {
            let refused = settle(text, &[]).0.unwrap_err();
            assert!(refused.starts_with(words) && !refused.contains("secret"), "{refused}");
        }
        let conf = |known: Option<&str>| {
            let mut properties = Properties::default();
            properties.take(KRB5_CONF, "/k", "F").unwrap();
            properties
                .check_krb5_conf(known.map(PathBuf::from))
                .map_err(|failure| failure.message().to_owned())
        };
        assert_eq!(conf(Some("/k")), Ok(()));
        for known in [None, Some("/other")] {
            assert_eq!(
                conf(known),
                Err("F: java.security.krb5.conf=/k has an effect in Java only".to_owned())
            );
        }
        let mut properties = Properties::default();
        assert!(properties.take(ENABLED, "maybe", "F").is_err());
        assert!(!properties.take("zookeeper.sasl.x", "x", "F").unwrap());
        properties.take(SECTION, "Mine", "F").unwrap();
        let refused = properties.settle(&mut Vec::new()).unwrap_err();
        assert_eq!(refused.message(), format!("F: {SECTION} is set without a file"));
    }
}

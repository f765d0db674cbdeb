//! What the properties of ZooKeeper's clients say of SASL.
//!
//! They are collected from all places first, as a place may overrule another one. Source: `ZooKeeperSaslClient`,
//! `ZKClientConfig`.

use std::path::PathBuf;

use zebu_client::Sasl;

use crate::arguments::VARIABLES;
use crate::failure::{Failure, Result};
use crate::tls::boolean;

const FILE: &str = "java.security.auth.login.config";
const ENABLED: &str = "zookeeper.sasl.client";
const SECTION: &str = "zookeeper.sasl.clientconfig";
const DEFAULT_SECTION: &str = "Client";

/// Those that mean something to Kerberos alone, which is refused where a section asks for it.
const KERBEROS: [&str; 5] = [
    "zookeeper.sasl.client.username",
    "zookeeper.sasl.client.canonicalize.hostname",
    "zookeeper.server.principal",
    "zookeeper.server.realm",
    "java.security.krb5.conf",
];

/// The properties of SASL that were found, with the places that say so.
#[derive(Default)]
pub(crate) struct Properties {
    is_off: bool,
    file: Option<(PathBuf, String)>,
    section: Option<(String, String)>,
}

impl Properties {
    /// Takes a property, if it has to do with SASL; returns whether it has.
    ///
    /// # Errors
    /// Whether SASL is wanted is not clear.
    pub(crate) fn take(&mut self, key: &str, value: &str, place: &str) -> Result<bool> {
        match key {
            ENABLED => self.is_off = !boolean(value, key, place)?,
            FILE => self.file = Some((PathBuf::from(value), place.to_owned())),
            SECTION => self.section = Some((value.to_owned(), place.to_owned())),
            _ => return Ok(KERBEROS.contains(&key)),
        }
        Ok(true)
    }

    /// Who the user proves to be, if SASL is wanted. As with the original, a file without a section `Client` is for others,
    /// and a section that is named must be there.
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
                        .hint(format!("{FILE}=/path/to/jaas.conf")))
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
            // What stands in variables may be for other programs.
            if !VARIABLES.contains(&place.as_str()) {
                remarks.push(format!("{missing}, so SASL is not used"));
            }
        }
        Ok(sasl)
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
            (kerberos, "J: section Client: Krb5LoginModule is not supported"),
            (&server, "J: section Client: set username and password"),
        ] {
            let refused = settle(text, &[]).0.unwrap_err();
            assert!(refused.starts_with(words) && !refused.contains("secret"), "{refused}");
        }
        let mut properties = Properties::default();
        assert!(properties.take(ENABLED, "maybe", "F").is_err());
        assert!(!properties.take("zookeeper.sasl.x", "x", "F").unwrap());
        properties.take(SECTION, "Mine", "F").unwrap();
        let refused = properties.settle(&mut Vec::new()).unwrap_err();
        assert_eq!(refused.message(), format!("F: {SECTION} is set without a file"));
    }
}

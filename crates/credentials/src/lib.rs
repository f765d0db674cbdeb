//! How a command-line program connects to a server, and which identity it presents.
//!
//! Owns the properties for TLS and SASL that ZooKeeper's clients have, the option that names a file
//! of them, and blocking connections that use them. The shell, `zebu bench` and the tools share
//! this crate, so one file serves all of them.

mod dialer;
mod failure;
mod sasl;
mod tls;

use std::path::{Path, PathBuf};

use zebu_client::{Connector, Sasl, Tls};
use zebu_proto::properties;

pub use dialer::{Dialer, Wire};
pub use failure::Failure;

use failure::Result;

/// The environment variables whose `-D` words are client settings, as in the original's scripts.
pub const VARIABLES: [&str; 2] = ["CLIENT_JVMFLAGS", "JVMFLAGS"];

/// The TLS and SASL properties found so far. They are collected from all sources first, because one
/// source may override another. No `Debug`, because some are passwords.
#[derive(Default)]
pub struct Properties {
    tls: tls::Properties,
    sasl: sasl::Properties,
}

impl Properties {
    /// Takes a property if it is about TLS or SASL. Returns whether it is. `place` is its position.
    ///
    /// # Errors
    /// The value is invalid.
    pub fn take(&mut self, key: &str, value: &str, place: &str) -> Result<bool> {
        Ok(self.tls.take(key, value, place)? || self.sasl.take(key, value, place)?)
    }

    /// The resulting settings. `remarks` gets properties without effect.
    ///
    /// # Errors
    /// A property requires an unsupported feature, or a file cannot be used. Key stores are not
    /// read yet.
    pub fn settle(&self, remarks: &mut Vec<String>) -> Result<Credentials> {
        Ok(Credentials { tls: self.tls.settle(remarks)?, sasl: self.sasl.settle(remarks)? })
    }
}

/// How a program connects, and its identity. The default is without TLS and without an identity.
#[derive(Clone, Debug, Default)]
pub struct Credentials {
    /// TLS, if it is enabled.
    pub tls: Option<Tls>,
    /// SASL, if it is enabled.
    pub sasl: Option<Sasl>,
}

impl Credentials {
    /// A client connector with these settings.
    pub fn apply(&self, mut connector: Connector) -> Connector {
        if let Some(tls) = &self.tls {
            connector = connector.tls(tls.clone());
        }
        if let Some(sasl) = &self.sasl {
            connector = connector.sasl(sasl.clone());
        }
        connector
    }

    /// Makes blocking connections with these settings. Reads the stores.
    ///
    /// # Errors
    /// A store cannot be used.
    pub fn dialer(&self) -> Result<Dialer> {
        let failed = |error: zebu_client::Error| Failure::new(error.to_string());
        match &self.tls {
            None => Ok(Dialer::plain()),
            Some(tls) => {
                let (config, ocsp) = tls.rustls_config_and_ocsp().map_err(failed)?;
                Ok(Dialer::secure(config, ocsp))
            }
        }
    }
}

/// The option that names a file of properties.
#[derive(Clone, Debug, Default, PartialEq, Eq, clap::Args)]
pub struct CredentialArgs {
    /// Properties of ZooKeeper's clients: zookeeper.client.secure, zookeeper.ssl.*,
    /// java.security.auth.login.config
    #[arg(long, value_name = "FILE")]
    pub client_configuration: Option<PathBuf>,
}

impl CredentialArgs {
    /// Reads the variables [`VARIABLES`] and the file. Reports properties without effect to
    /// `remark`.
    ///
    /// # Errors
    /// A file cannot be read, or a property requires an unsupported feature.
    pub fn load(&self, mut remark: impl FnMut(&str)) -> Result<Credentials> {
        let (mut found, mut remarks) = (Properties::default(), Vec::new());
        for name in VARIABLES {
            // Most of these properties are for other programs.
            for (key, value) in defines(&std::env::var(name).unwrap_or_default()) {
                found.take(key, value, name)?;
            }
        }
        if let Some(file) = &self.client_configuration {
            let place = file.display().to_string();
            for (key, value) in read(file)? {
                if !found.take(&key, &value, &place)? {
                    remarks.push(format!("{place}: {key} has no effect here"));
                }
            }
        }
        let credentials = found.settle(&mut remarks)?;
        remarks.iter().for_each(|text| remark(text));
        Ok(credentials)
    }
}

/// The `-Dkey=value` words of a variable.
pub fn defines(text: &str) -> impl Iterator<Item = (&str, &str)> {
    text.split_whitespace().filter_map(|word| word.strip_prefix("-D")?.split_once('='))
}

/// The properties of a file.
///
/// # Errors
/// The file cannot be read, or is not a file of properties.
pub fn read(file: &Path) -> Result<Vec<(String, String)>> {
    let wrong =
        |error: &dyn std::fmt::Display| Failure::new(format!("{}: {error}", file.display()));
    let bytes = std::fs::read(file).map_err(|error| wrong(&error))?;
    let found = properties::parse(&bytes).map_err(|error| wrong(&error))?;
    Ok(found.entries.into_iter().map(|entry| (entry.key, entry.value.trim().to_owned())).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn load(text: &str) -> (Result<Credentials>, Vec<String>) {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), text).unwrap();
        let args = CredentialArgs { client_configuration: Some(file.path().to_owned()) };
        let mut remarks = Vec::new();
        let loaded = args.load(|text| remarks.push(text.to_owned()));
        (loaded, remarks)
    }

    #[test]
    fn a_file_says_over_what_and_as_whom() {
        let (plain, remarks) = load("zookeeper.client.secure=false\nzookeeper.request.timeout=5\n");
        let plain = plain.unwrap();
        assert!(plain.tls.is_none() && plain.sasl.is_none());
        assert!(
            remarks[0].ends_with(": zookeeper.request.timeout has no effect here"),
            "{remarks:?}"
        );
        assert!(!plain.dialer().unwrap().is_secure());
        let trust = concat!(env!("CARGO_MANIFEST_DIR"), "/../auth/tests/fixtures/ca.pem");
        let text =
            format!("zookeeper.client.secure=true\nzookeeper.ssl.trustStore.location={trust}\n");
        let (secure, remarks) = load(&text);
        let secure = secure.unwrap();
        assert!(secure.dialer().unwrap().is_secure() && remarks.is_empty());
        let (refused, _) = load("zookeeper.client.secure=maybe\n");
        assert!(refused.unwrap_err().message().contains("is neither true nor false"));
        let missing = CredentialArgs { client_configuration: Some("/no/such/file".into()) };
        let failure = missing.load(|_| {}).unwrap_err();
        assert!(failure.message().starts_with("/no/such/file: "), "{failure}");
    }

    #[test]
    fn a_store_that_cannot_be_used_is_named() {
        let text =
            "zookeeper.client.secure=true\nzookeeper.ssl.trustStore.location=/no/such/ca.pem\n";
        let failure = load(text).0.unwrap().dialer().unwrap_err();
        assert!(failure.message().contains("/no/such/ca.pem: cannot be read"), "{failure}");
    }
}

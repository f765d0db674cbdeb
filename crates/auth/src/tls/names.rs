//! The names of protocols and cipher suites in Java's configuration, which are IANA's.

use std::fmt;

use rustls::{SupportedCipherSuite, SupportedProtocolVersion, version};

use crate::crypto::cipher_suite as suite;

/// A supported version of TLS.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Protocol {
    /// `TLSv1.2`.
    Tls12,
    /// `TLSv1.3`.
    Tls13,
}

/// All versions.
pub const PROTOCOLS: [Protocol; 2] = [Protocol::Tls12, Protocol::Tls13];

impl Protocol {
    /// Java's name of the version.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Tls12 => "TLSv1.2",
            Self::Tls13 => "TLSv1.3",
        }
    }

    pub(super) fn version(self) -> &'static SupportedProtocolVersion {
        match self {
            Self::Tls12 => &version::TLS12,
            Self::Tls13 => &version::TLS13,
        }
    }
}

/// All suites in the order of preference: those with forward secrecy and authenticated encryption.
/// With the feature `fips`, only those of the validated module.
pub const CIPHER_SUITES: &[(&str, SupportedCipherSuite)] = &[
    ("TLS_AES_256_GCM_SHA384", suite::TLS13_AES_256_GCM_SHA384),
    ("TLS_AES_128_GCM_SHA256", suite::TLS13_AES_128_GCM_SHA256),
    #[cfg(not(feature = "fips"))]
    ("TLS_CHACHA20_POLY1305_SHA256", suite::TLS13_CHACHA20_POLY1305_SHA256),
    ("TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384", suite::TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384),
    ("TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256", suite::TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256),
    #[cfg(not(feature = "fips"))]
    (
        "TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256",
        suite::TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256,
    ),
    ("TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384", suite::TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384),
    ("TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256", suite::TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256),
    #[cfg(not(feature = "fips"))]
    (
        "TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256",
        suite::TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256,
    ),
];

/// A name without a meaning here.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NameError {
    what: &'static str,
    name: String,
    available: Vec<&'static str>,
}

impl NameError {
    pub(super) fn new(what: &'static str, name: &str, available: &[&'static str]) -> Self {
        Self { what, name: name.to_owned(), available: available.to_vec() }
    }
}

impl fmt::Display for NameError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?} is not a supported {}; use ", self.name, self.what)?;
        write!(f, "{}", self.available.join(", "))
    }
}

impl std::error::Error for NameError {}

const PROTOCOL_NAMES: [&str; 2] = [Protocol::Tls12.name(), Protocol::Tls13.name()];

/// The versions in a comma-separated list (`enabledProtocols`).
///
/// # Errors
/// A name is unknown or no longer safe, or the list is empty.
pub fn protocols(list: &str) -> Result<Vec<Protocol>, NameError> {
    listed(list, |name| PROTOCOLS.into_iter().find(|protocol| protocol.name() == name))
        .map_err(|name| NameError::new("TLS protocol", name, &PROTOCOL_NAMES))
}

/// The versions of a Java context (`protocol`): one, or all for `TLS`.
///
/// # Errors
/// As above.
pub fn context(name: &str) -> Result<Vec<Protocol>, NameError> {
    if name == "TLS" { Ok(PROTOCOLS.to_vec()) } else { protocols(name) }
}

/// The suites in a comma-separated list (`ciphersuites`), in its order.
///
/// # Errors
/// A name is unknown, or its suite is not safe enough to be supported, or the list is empty.
pub fn cipher_suites(list: &str) -> Result<Vec<SupportedCipherSuite>, NameError> {
    let find =
        |name: &str| CIPHER_SUITES.iter().find(|(own, _)| *own == name).map(|(_, suite)| *suite);
    listed(list, find).map_err(|name| {
        let available: Vec<&str> = CIPHER_SUITES.iter().map(|(name, _)| *name).collect();
        NameError::new("cipher suite", name, &available)
    })
}

fn listed<T: PartialEq>(list: &str, find: impl Fn(&str) -> Option<T>) -> Result<Vec<T>, &str> {
    let mut found = Vec::new();
    for name in list.split(',').map(str::trim).filter(|name| !name.is_empty()) {
        let value = find(name).ok_or(name)?;
        if !found.contains(&value) {
            found.push(value);
        }
    }
    if found.is_empty() { Err(list) } else { Ok(found) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_those_of_rustls_suites() {
        for (name, suite) in CIPHER_SUITES {
            let own = format!("{:?}", suite.suite()).replace("TLS13_", "TLS_");
            assert_eq!(own, *name);
        }
        let all = crate::crypto::provider().cipher_suites;
        assert_eq!(all.len(), CIPHER_SUITES.len());
    }

    #[test]
    fn lists_keep_their_order() {
        assert_eq!(protocols("TLSv1.3, TLSv1.2,"), Ok(vec![Protocol::Tls13, Protocol::Tls12]));
        assert_eq!(context("TLS"), Ok(PROTOCOLS.to_vec()));
        assert_eq!(context("TLSv1.2"), Ok(vec![Protocol::Tls12]));
        let suites = cipher_suites("TLS_AES_128_GCM_SHA256,TLS_AES_256_GCM_SHA384").unwrap();
        assert_eq!(suites, [suite::TLS13_AES_128_GCM_SHA256, suite::TLS13_AES_256_GCM_SHA384]);
    }

    #[test]
    fn other_names_are_refused_with_those_there_are() {
        for list in ["TLSv1.1", "TLSv1.2,SSLv3", "tlsv1.2", ""] {
            let text = protocols(list).unwrap_err().to_string();
            assert!(
                text.ends_with("is not a supported TLS protocol; use TLSv1.2, TLSv1.3"),
                "{text}"
            );
        }
        let text = cipher_suites("TLS_RSA_WITH_AES_128_CBC_SHA").unwrap_err().to_string();
        assert!(text.starts_with(
            "\"TLS_RSA_WITH_AES_128_CBC_SHA\" is not a supported cipher suite; use TLS_AES"
        ));
        assert!(text.contains("TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256"), "{text}");
    }
}

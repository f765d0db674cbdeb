//! The properties of ZooKeeper's clients about TLS.
//!
//! They are collected from all places first, because one place may override another. If TLS is
//! wanted, a property that asks for an unsupported protection is refused. Source: `ZKClientConfig`,
//! `ClientX509Util`.

use std::collections::BTreeMap;

use zebu_client::Tls;

use crate::VARIABLES;
use crate::failure::{Failure, Result};

const SECURE: &str = "zookeeper.client.secure";
const SOCKET: &str = "zookeeper.clientCnxnSocket";
const FIPS: &str = "zookeeper.fips-mode";
const SSL: &str = "zookeeper.ssl.";
/// Our own: the file of revocation lists, as at a server.
const LISTS: &str = "zebu.ssl.crlFile";

/// The original's transports, with or without their package. Both have the same effect here.
const SOCKETS: [&str; 2] = ["ClientCnxnSocketNetty", "ClientCnxnSocketNIO"];
const PACKAGE: &str = "org.apache.zookeeper.";

/// The settings below `zookeeper.ssl.` that the original's clients know.
const NAMES: [&str; 17] = [
    "keyStore.location",
    "keyStore.password",
    "keyStore.passwordPath",
    "keyStore.type",
    "trustStore.location",
    "trustStore.password",
    "trustStore.passwordPath",
    "trustStore.type",
    "hostnameVerification",
    "protocol",
    "enabledProtocols",
    "ciphersuites",
    "crl",
    "ocsp",
    "tcnative.ocsp.stapling",
    "context.supplier.class",
    "sslProvider",
];

/// Settings for unsupported features. They are refused unless they are empty or `false`.
const REFUSED: [(&str, &str); 2] = [
    (
        "tcnative.ocsp.stapling",
        "a setting of OpenSSL, which is not part of this program; zookeeper.ssl.ocsp takes stapled answers",
    ),
    ("context.supplier.class", "classes of Java cannot be used here"),
];

/// The TLS properties found so far. No `Debug`, because some are passwords.
#[derive(Default)]
pub(crate) struct Properties {
    is_secure: bool,
    /// By name after `zookeeper.ssl.`, with the place of the setting.
    found: BTreeMap<&'static str, (String, String)>,
    /// The place that asks for FIPS, if any.
    fips: Option<String>,
    /// The file of revocation lists.
    lists: Option<String>,
}

impl Properties {
    /// Takes a property if it is about TLS. Returns whether it is.
    ///
    /// # Errors
    /// The value does not say clearly whether TLS is wanted, or the transport is unknown.
    pub(crate) fn take(&mut self, key: &str, value: &str, place: &str) -> Result<bool> {
        match key {
            SECURE => self.is_secure = boolean(value, key, place)?,
            LISTS => self.lists = (!value.is_empty()).then(|| value.to_owned()),
            FIPS => self.fips = boolean(value, key, place)?.then(|| place.to_owned()),
            SOCKET => {
                let class = value.strip_prefix(PACKAGE).unwrap_or(value);
                if !class.is_empty() && !SOCKETS.contains(&class) {
                    return Err(Failure::new(format!(
                        "{place}: {key}: no such transport: {value}"
                    ))
                    .with_hint(format!("{} and {} are the same here", SOCKETS[0], SOCKETS[1])));
                }
            }
            _ => {
                let name = key.strip_prefix(SSL);
                let Some(name) = NAMES.into_iter().find(|own| Some(*own) == name) else {
                    return Ok(false);
                };
                self.found.insert(name, (value.to_owned(), place.to_owned()));
            }
        }
        Ok(true)
    }

    /// The TLS settings, if TLS is wanted. If not, TLS settings in files are reported in `remarks`.
    ///
    /// # Errors
    /// A setting is unsupported or invalid. Stores are not read yet.
    pub(crate) fn settle(&self, remarks: &mut Vec<String>) -> Result<Option<Tls>> {
        if !self.is_secure {
            // Environment variables may be meant for other programs.
            let in_file = |place: &str| !VARIABLES.contains(&place);
            if let Some((name, (_, place))) =
                self.found.iter().find(|(_, (_, place))| in_file(place))
            {
                remarks.push(format!("{place}: {SSL}{name} has no effect without {SECURE}=true"));
            }
            return Ok(None);
        }
        if let Some(place) = &self.fips
            && !zebu_auth::crypto::IS_FIPS
        {
            return Err(Failure::new(format!(
                "{place}: {FIPS}: the cryptography of this program is not validated for FIPS 140"
            ))
            .with_hint(format!("set {FIPS}=false, or build the program with the feature fips")));
        }
        for (name, why) in REFUSED {
            if let Some((value, place)) = self.get(name)
                && !value.eq_ignore_ascii_case("false")
            {
                return Err(Failure::new(format!("{place}: {SSL}{name}: {why}")));
            }
        }
        let mut tls = Tls::new();
        match self.get("trustStore.location") {
            Some((file, _)) => tls = tls.trust_store(file),
            // Without a trust store the system's roots are trusted, as Java does.
            None => tls = tls.system_roots(),
        }
        if let Some((file, _)) = self.get("keyStore.location") {
            tls = tls.key_store(file);
        }
        if let Some((file, _)) = self.get("trustStore.passwordPath") {
            tls = tls.trust_store_password_file(file);
        } else if let Some((password, _)) = self.get("trustStore.password") {
            tls = tls.trust_store_password(password);
        }
        if let Some((file, _)) = self.get("keyStore.passwordPath") {
            tls = tls.key_store_password_file(file);
        } else if let Some((password, _)) = self.get("keyStore.password") {
            tls = tls.key_store_password(password);
        }
        for name in ["keyStore.type", "trustStore.type"] {
            if let Some((kind, place)) = self.get(name)
                && !["JKS", "PEM", "PKCS12"].iter().any(|own| own.eq_ignore_ascii_case(kind))
            {
                let wrong = format!("{place}: {SSL}{name}: unknown type of store: {kind}");
                return Err(Failure::new(wrong).with_hint("PEM, PKCS12 or JKS"));
            }
        }
        let checks_lists = self.get("crl").map(|(value, place)| {
            boolean(value, &format!("{SSL}crl"), place).map(|is_on| (is_on, place))
        });
        match (checks_lists.transpose()?, &self.lists) {
            (Some((true, place)), None) => {
                return Err(Failure::new(format!(
                    "{place}: {SSL}crl: revocation lists are not downloaded"
                ))
                .with_hint(format!("{LISTS} names a file of revocation lists, PEM or DER")));
            }
            // The file by itself is enough, as at a server.
            (_, Some(file)) => tls = tls.revocation_lists(file),
            _ => {}
        }
        if let Some((value, place)) = self.get("ocsp") {
            tls = tls.ocsp(boolean(value, &format!("{SSL}ocsp"), place)?);
        }
        if let Some((value, place)) = self.get("hostnameVerification") {
            let key = format!("{SSL}hostnameVerification");
            tls = tls.hostname_verification(boolean(value, &key, place)?);
        }
        if let Some((names, _)) = self.get("enabledProtocols") {
            tls = tls.protocols(names);
        } else if let Some((name, _)) = self.get("protocol").filter(|(name, _)| *name != "TLS") {
            tls = tls.protocols(name);
        }
        if let Some((names, _)) = self.get("ciphersuites") {
            tls = tls.cipher_suites(names);
        }
        Ok(Some(tls))
    }

    /// A value that is not empty, and its place.
    fn get(&self, name: &str) -> Option<(&str, &str)> {
        let (value, place) = self.found.get(name)?;
        (!value.is_empty()).then_some((value, place))
    }
}

/// Java reads every value except `true` as `false`. A typing error would then switch off
/// protection.
pub(crate) fn boolean(value: &str, key: &str, place: &str) -> Result<bool> {
    match value.to_ascii_lowercase().as_str() {
        "true" => Ok(true),
        "false" | "" => Ok(false),
        _ => Err(Failure::new(format!("{place}: {key} is neither true nor false: {value}"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fixture(name: &str) -> String {
        format!("{}/../auth/tests/fixtures/{name}", env!("CARGO_MANIFEST_DIR"))
    }

    fn settle(lines: &[(&str, &str)]) -> (std::result::Result<Option<Tls>, String>, Vec<String>) {
        let (mut properties, mut remarks) = (Properties::default(), Vec::new());
        for (key, value) in lines {
            match properties.take(key, value, "F") {
                Ok(is_taken) => assert!(is_taken, "{key}"),
                Err(failure) => return (Err(failure.message().to_owned()), remarks),
            }
        }
        let settled = properties.settle(&mut remarks);
        (settled.map_err(|failure| failure.message().to_owned()), remarks)
    }

    /// The properties of the original's TLS guide, with each type of store.
    #[test]
    fn properties_of_the_original_are_taken() {
        for (key, trust) in [
            ("keytool.jks", "trust.jks"),
            ("keytool17.p12", "trust17.p12"),
            ("key-first.pem", "ca.pem"),
        ] {
            let (settled, remarks) = settle(&[
                ("zookeeper.clientCnxnSocket", "org.apache.zookeeper.ClientCnxnSocketNetty"),
                ("zookeeper.client.secure", "true"),
                ("zookeeper.ssl.keyStore.location", &fixture(key)),
                ("zookeeper.ssl.keyStore.password", "testpass"),
                ("zookeeper.ssl.keyStore.type", "jks"),
                ("zookeeper.ssl.trustStore.location", &fixture(trust)),
                ("zookeeper.ssl.trustStore.password", "testpass"),
                ("zookeeper.ssl.hostnameVerification", "false"),
                ("zookeeper.ssl.protocol", "TLS"),
                ("zookeeper.ssl.enabledProtocols", "TLSv1.3,TLSv1.2"),
                (
                    "zookeeper.ssl.ciphersuites",
                    "TLS_AES_128_GCM_SHA256,TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256",
                ),
                ("zookeeper.ssl.crl", "false"),
                ("zookeeper.fips-mode", "false"),
            ]);
            let tls = settled.unwrap().expect("it is wanted");
            tls.check().unwrap();
            assert!(!format!("{tls:?}").contains("testpass"), "{tls:?}");
            assert_eq!(remarks, [""; 0]);
        }
    }

    #[test]
    fn without_a_trust_store_the_authorities_of_the_machine_are_trusted() {
        let trust = fixture("ca.pem");
        let secure = ("zookeeper.client.secure", "true");
        let own = [secure, ("zookeeper.ssl.trustStore.location", &*trust)];
        for (lines, expected) in [(&[secure][..], true), (&own, false)] {
            let tls = settle(lines).0.unwrap().expect("it is wanted");
            let roots = format!("has_system_roots: {expected}");
            assert!(format!("{tls:?}").contains(&roots), "{tls:?}");
        }
    }

    #[test]
    fn a_password_comes_from_its_file_first() {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), "testpass\n").unwrap();
        let (settled, _) = settle(&[
            ("zookeeper.client.secure", "TRUE"),
            ("zookeeper.ssl.trustStore.location", &fixture("trust17.p12")),
            ("zookeeper.ssl.trustStore.password", "wrong"),
            ("zookeeper.ssl.trustStore.passwordPath", &file.path().display().to_string()),
        ]);
        settled.unwrap().expect("it is wanted").check().unwrap();
    }

    #[test]
    fn without_client_secure_there_is_no_tls_and_a_remark() {
        let (settled, remarks) = settle(&[
            ("zookeeper.client.secure", "false"),
            ("zookeeper.ssl.trustStore.location", "ca.pem"),
        ]);
        assert!(settled.unwrap().is_none());
        assert_eq!(
            remarks,
            [
                "F: zookeeper.ssl.trustStore.location has no effect without zookeeper.client.secure=true"
            ]
        );
        let mut properties = Properties::default();
        properties.take("zookeeper.ssl.trustStore.location", "ca.pem", VARIABLES[0]).unwrap();
        let mut remarks = Vec::new();
        assert!(properties.settle(&mut remarks).unwrap().is_none() && remarks.is_empty());
        for other in ["zookeeper.ssl.quorum.keyStore.location", "zookeeper.ssl.clientAuth", "x"] {
            assert!(!properties.take(other, "x", "F").unwrap(), "{other}");
        }
    }

    #[test]
    fn what_is_not_there_is_refused() {
        let cases = [
            (
                "zookeeper.client.secure",
                "yes",
                "zookeeper.client.secure is neither true nor false: yes",
            ),
            (
                "zookeeper.fips-mode",
                "true",
                "zookeeper.fips-mode: the cryptography of this program is",
            ),
            ("zookeeper.ssl.crl", "true", "zookeeper.ssl.crl: revocation lists are not downloaded"),
            ("zookeeper.ssl.ocsp", "yes", "zookeeper.ssl.ocsp is neither true nor false: yes"),
            ("zookeeper.ssl.tcnative.ocsp.stapling", "true", "a setting of OpenSSL"),
            ("zookeeper.ssl.context.supplier.class", "a.B", "classes of Java cannot be used here"),
            ("zookeeper.ssl.keyStore.type", "BCFKS", "unknown type of store: BCFKS"),
            ("zookeeper.ssl.hostnameVerification", "no", "is neither true nor false: no"),
            ("zookeeper.clientCnxnSocket", "my.Socket", "no such transport: my.Socket"),
        ];
        let is_there = |key: &str| key == FIPS && zebu_auth::crypto::IS_FIPS;
        for (key, value, words) in cases.into_iter().filter(|(key, ..)| !is_there(key)) {
            let (settled, _) = settle(&[("zookeeper.client.secure", "true"), (key, value)]);
            let refused = settled.expect_err(key);
            assert!(refused.starts_with("F: ") && refused.contains(words), "{refused}");
        }
    }

    /// With lists, each certificate must be found good by one of them.
    #[test]
    fn revocation_lists_are_files() {
        let secure = ("zookeeper.client.secure", "true");
        let trust = fixture("ca.pem");
        let trust = ("zookeeper.ssl.trustStore.location", &*trust);
        let settled = |file: &str| {
            let lines = [secure, trust, ("zookeeper.ssl.crl", "true"), (LISTS, file)];
            settle(&lines).0.unwrap().expect("it is wanted")
        };
        settled(&fixture("ca.crl")).check().unwrap();
        let error = settled(&fixture("ca.pem")).check().unwrap_err();
        assert!(error.to_string().contains("there is no revocation list in it"), "{error}");
        // The file by itself is enough.
        let alone = settle(&[secure, trust, (LISTS, "/no/such/file")]);
        let error = alone.0.unwrap().expect("it is wanted").check().unwrap_err();
        assert!(error.to_string().contains("/no/such/file: cannot be read"), "{error}");
    }
}

//! The settings of TLS for clients.

use std::path::PathBuf;

use zebu_auth::Secret;
use zebu_auth::store::{PasswordSource, StoreFile};
use zebu_auth::tls::{PortFiles, Protocol, cipher_suites, context, protocols};

use super::build::Reader;
use super::settings::ClientTlsConfig;
use super::sources::Origin;

/// The scheme whose ids are the subjects of certificates.
const X509: &str = "x509";

/// The keys of a store.
struct StoreKeys {
    location: &'static str,
    password: &'static str,
    password_path: &'static str,
    kind: &'static str,
}

const KEY_STORE: StoreKeys = StoreKeys {
    location: "ssl.keyStore.location",
    password: "ssl.keyStore.password",
    password_path: "ssl.keyStore.passwordPath",
    kind: "ssl.keyStore.type",
};

const TRUST_STORE: StoreKeys = StoreKeys {
    location: "ssl.trustStore.location",
    password: "ssl.trustStore.password",
    password_path: "ssl.trustStore.passwordPath",
    kind: "ssl.trustStore.type",
};

impl Reader<'_> {
    /// What the listener for TLS needs; `None` where no port speaks it.
    pub(super) fn client_tls(&self) -> Option<ClientTlsConfig> {
        let may_be_zero = self
            .given("secureClientPort")
            .is_some_and(|given| matches!(given.origin, Origin::Arguments | Origin::Set));
        let port = self
            .number("secureClientPort")
            .and_then(|port| u16::try_from(port).ok())
            .filter(|&port| port > 0 || may_be_zero);
        let address = self.text("secureClientPortAddress");
        if port.is_none() && address.is_some() {
            let text = "secureClientPortAddress is set but secureClientPort is not set";
            self.problem("secureClientPortAddress", text);
        }
        let is_unified = self.is_on("client.portUnification");
        let switch = match port {
            Some(_) => Some("secureClientPort"),
            None => is_unified.then_some("client.portUnification"),
        };
        let files = self.port_files(switch);
        let detection_time = self.ms("ssl.handshakeDetectionTimeoutMillis");
        let handshakes_max = self.count_or_off("netty.server.outstandingHandshake.limit");
        let drop_early = self.is_on("netty.server.earlyDropSecureConnectionHandshakes");
        let reloads = self.is_on("client.certReload");
        // As in the original, the first switch is over the second.
        let [of_servers, of_clients] =
            ["ssl.hostnameVerification", "ssl.clientHostnameVerification"]
                .map(|key| self.is_on(key));
        let settings = ClientTlsConfig {
            port,
            address: address
                .map(|host| host.trim_start_matches('[').trim_end_matches(']').to_owned())
                .filter(|host| host != "0.0.0.0" && host != "::"),
            is_unified,
            files: files?,
            detection_time,
            handshakes_max,
            drop_early,
            verifies_clients_hosts: of_servers && of_clients,
            reloads,
        };
        switch.is_some().then_some(settings)
    }

    /// Reads every setting; faults are told only if there is a `switch` that is on.
    fn port_files(&self, switch: Option<&'static str>) -> Option<PortFiles> {
        let fault = |key: &'static str, text: String| {
            if switch.is_some() {
                self.problem(key, text);
            }
        };
        let scheme = self.value("ssl.authProvider").unwrap_or_default();
        if !scheme.is_empty() && scheme != X509 {
            fault(
                "ssl.authProvider",
                format!(
                    "ssl.authProvider={scheme}: no provider of that scheme knows certificates\n\
                     hint: {X509} is the only one"
                ),
            );
        }
        if self.text("ssl.context.supplier.class").is_some() {
            let text = "ssl.context.supplier.class: this server cannot load Java classes\n\
                        hint: ssl.keyStore.location and ssl.trustStore.location name files";
            fault("ssl.context.supplier.class", text.to_owned());
        }
        if self.is_on("ssl.allowReverseDnsLookup") {
            let text = "ssl.allowReverseDnsLookup=true: names are never looked up from addresses, as whoever owns an \
                        address says what its name is\n\
                        hint: issue certificates for the addresses that clients come from";
            fault("ssl.allowReverseDnsLookup", text.to_owned());
        }
        if self.is_on("ssl.ocsp") {
            let text = "ssl.ocsp=true: OCSP is not part of this version\n\
                        hint: zebu.ssl.crlFile names a file of revocation lists";
            fault("ssl.ocsp", text.to_owned());
        }
        let revocations = self.text("zebu.ssl.crlFile").map(PathBuf::from);
        if self.is_on("ssl.crl") && revocations.is_none() {
            let text = "ssl.crl=true: revocation lists are not fetched from where certificates say\n\
                        hint: zebu.ssl.crlFile names a file of them, which is read anew when it changes";
            fault("ssl.crl", text.to_owned());
        }
        let client_auth = self.choice("ssl.clientAuth").parse().unwrap_or_default();
        let named = |key: &'static str, error: &dyn std::fmt::Display| {
            fault(key, format!("{key}: {error}"));
        };
        let versions = self.versions(&named);
        let suites = self.text("ssl.ciphersuites").and_then(|list| {
            cipher_suites(&list).map_err(|error| named("ssl.ciphersuites", &error)).ok()
        });
        let key_store = self.store(&KEY_STORE, &fault);
        let trust_store = self.store(&TRUST_STORE, &fault);
        if key_store.is_none() {
            let text = "TLS is switched on and ssl.keyStore.location is not set\n\
                        hint: it names a file with the server's private key and certificate";
            fault(switch.unwrap_or(KEY_STORE.location), text.to_owned());
        }
        if trust_store.is_none() && client_auth != zebu_auth::tls::ClientAuth::None {
            let text = "clients are asked for a certificate and ssl.trustStore.location is not set\n\
                        hint: ssl.clientAuth=none takes clients without one";
            fault(switch.unwrap_or(TRUST_STORE.location), text.to_owned());
        }
        Some(PortFiles {
            key_store: key_store?,
            trust_store,
            revocations,
            client_auth,
            protocols: versions,
            suites,
        })
    }

    fn versions(&self, fault: &dyn Fn(&'static str, &dyn std::fmt::Display)) -> Vec<Protocol> {
        let name = self.value("ssl.protocol").unwrap_or_default();
        let (key, found) = match self.text("ssl.enabledProtocols") {
            Some(list) => ("ssl.enabledProtocols", protocols(&list)),
            None => ("ssl.protocol", context(if name.is_empty() { "TLS" } else { name })),
        };
        found.unwrap_or_else(|error| {
            fault(key, &error);
            Vec::new()
        })
    }

    /// A store, if there is one.
    fn store(&self, keys: &StoreKeys, fault: &dyn Fn(&'static str, String)) -> Option<StoreFile> {
        // The content tells.
        self.choice(keys.kind);
        let inline = self.text(keys.password);
        let file = self.text(keys.password_path);
        if inline.is_some() && file.is_some() {
            let text =
                format!("{} and {} are both set; leave one out", keys.password, keys.password_path);
            fault(keys.password_path, text);
        }
        let password = match (inline, file) {
            (_, Some(path)) => PasswordSource::File(path.into()),
            (Some(text), None) => PasswordSource::Inline(Secret::from(text)),
            (None, None) => PasswordSource::None,
        };
        let path = self.text(keys.location)?.into();
        Some(StoreFile { path, password })
    }
}

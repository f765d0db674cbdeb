//! The settings of TLS, for clients and between servers.

use std::path::PathBuf;

use zebu_auth::Secret;
use zebu_auth::store::{PasswordSource, StoreFile};
use zebu_auth::tls::{ClientAuth, PortFiles, Protocol, cipher_suites, context, protocols};

use super::build::Reader;
use super::settings::{AdminTlsConfig, ClientTlsConfig, PeerTlsConfig, PrometheusTlsConfig};
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

/// The keys of one use of TLS; `None` for keys that it does not have.
struct Keys {
    /// The peers that present certificates to this server, for messages.
    others: &'static str,
    /// Whether this server also connects to them.
    dials: bool,
    key_store: StoreKeys,
    trust_store: StoreKeys,
    client_auth: &'static str,
    /// The setting that accepts clients without a certificate.
    asks_nobody: &'static str,
    protocol: Option<&'static str>,
    enabled_protocols: &'static str,
    suites: &'static str,
    crl: Option<&'static str>,
    crl_file: Option<&'static str>,
    ocsp: Option<&'static str>,
    supplier: Option<&'static str>,
    reverse_lookup: Option<&'static str>,
    detection: &'static str,
    hosts: &'static str,
    hosts_of_clients: &'static str,
}

macro_rules! store_keys {
    ($prefix:literal, $store:literal) => {
        StoreKeys {
            location: concat!($prefix, $store, ".location"),
            password: concat!($prefix, $store, ".password"),
            password_path: concat!($prefix, $store, ".passwordPath"),
            kind: concat!($prefix, $store, ".type"),
        }
    };
}

macro_rules! keys {
    ($prefix:literal, $others:literal, $dials:literal) => {
        Keys {
            others: $others,
            dials: $dials,
            key_store: store_keys!($prefix, "keyStore"),
            trust_store: store_keys!($prefix, "trustStore"),
            client_auth: concat!($prefix, "clientAuth"),
            asks_nobody: concat!($prefix, "clientAuth=none"),
            protocol: Some(concat!($prefix, "protocol")),
            enabled_protocols: concat!($prefix, "enabledProtocols"),
            suites: concat!($prefix, "ciphersuites"),
            crl: Some(concat!($prefix, "crl")),
            crl_file: Some(concat!("zebu.", $prefix, "crlFile")),
            ocsp: Some(concat!($prefix, "ocsp")),
            supplier: Some(concat!($prefix, "context.supplier.class")),
            reverse_lookup: Some(concat!($prefix, "allowReverseDnsLookup")),
            detection: concat!($prefix, "handshakeDetectionTimeoutMillis"),
            hosts: concat!($prefix, "hostnameVerification"),
            hosts_of_clients: concat!($prefix, "clientHostnameVerification"),
        }
    };
}

const CLIENTS: Keys = keys!("ssl.", "clients", false);
const SERVERS: Keys = keys!("ssl.quorum.", "servers", true);
/// As in the original, the admin server has the certificates of the server as a member.
const ADMIN: Keys = Keys {
    others: "clients of the admin server",
    dials: false,
    client_auth: "admin.needClientAuth",
    asks_nobody: "admin.needClientAuth=false",
    ..SERVERS
};
/// As in the original, the Prometheus page has separate certificates, and fewer settings.
const PROMETHEUS: Keys = Keys {
    client_auth: "metricsProvider.ssl.need.client.auth",
    asks_nobody: "metricsProvider.ssl.need.client.auth=false with metricsProvider.ssl.want.client.auth=false",
    protocol: None,
    crl: None,
    crl_file: None,
    ocsp: None,
    supplier: None,
    reverse_lookup: None,
    ..keys!("metricsProvider.ssl.", "clients of the Prometheus page", false)
};

impl Reader<'_> {
    /// The settings of the TLS listener; `None` if no port uses TLS.
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
        self.check_auth_provider(switch);
        let files = self.port_files(&CLIENTS, switch, self.client_auth(&CLIENTS));
        let detection_time = self.ms(CLIENTS.detection);
        let handshakes_max = self.count_or_off("netty.server.outstandingHandshake.limit");
        let drop_early = self.is_on("netty.server.earlyDropSecureConnectionHandshakes");
        let reloads = self.is_on("client.certReload");
        let verifies_clients_hosts = self.hosts_of_clients(&CLIENTS);
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
            verifies_clients_hosts,
            reloads,
        };
        switch.is_some().then_some(settings)
    }

    /// TLS between servers; `None` if it is disabled.
    pub(super) fn peer_tls(&self) -> Option<PeerTlsConfig> {
        let (dials, accepts_plain) = (self.is_on("sslQuorum"), self.is_on("portUnification"));
        let switch = match (dials, accepts_plain) {
            (true, _) => Some("sslQuorum"),
            (false, true) => Some("portUnification"),
            (false, false) => None,
        };
        let files = self.port_files(&SERVERS, switch, self.client_auth(&SERVERS));
        let detection_time = self.ms(SERVERS.detection);
        let reloads = self.is_on("sslQuorumReloadCertFiles");
        let verifies_clients = self.hosts_of_clients(&SERVERS);
        let verifies_servers = self.is_on(SERVERS.hosts);
        let binds_ids = self.is_on("zebu.quorum.identity");
        if binds_ids && !(dials && verifies_servers) {
            let text = "zebu.quorum.identity=true needs sslQuorum and ssl.quorum.hostnameVerification\n\
                        hint: it holds the certificate of each server against the hosts of its line in the list of members";
            self.problem("zebu.quorum.identity", text);
        }
        let settings = PeerTlsConfig {
            dials,
            accepts_plain,
            files: files?,
            detection_time,
            verifies_servers,
            verifies_clients,
            binds_ids,
            reloads,
        };
        switch.is_some().then_some(settings)
    }

    /// TLS of the admin server; `None` without TLS. Faults are reported only if the admin server is
    /// enabled.
    ///
    /// Source: `JettyAdminServer`.
    pub(super) fn admin_tls(&self, is_served: bool) -> Option<AdminTlsConfig> {
        const FORCE: &str = "admin.forceHttps";
        const BOTH: &str = "admin.portUnification";
        let (forces, takes_both) = (self.is_on(FORCE), self.is_on(BOTH));
        let needs_certificates = self.is_on(ADMIN.client_auth);
        let switch = match (forces, takes_both) {
            (true, _) => Some(FORCE),
            (false, true) => Some(BOTH),
            (false, false) => None,
        };
        if is_served && needs_certificates && switch.is_none() {
            let text = format!(
                "{key}=true: a client without TLS has no certificate\n\
                 hint: {FORCE}=true requires TLS from every client",
                key = ADMIN.client_auth
            );
            self.problem(ADMIN.client_auth, text);
        }
        let client_auth = if needs_certificates { ClientAuth::Need } else { ClientAuth::None };
        let files = self.port_files(&ADMIN, switch.filter(|_| is_served), client_auth);
        let reloads = self.is_on("sslQuorumReloadCertFiles");
        switch?;
        Some(AdminTlsConfig { accepts_plain: !forces, files: files?, reloads })
    }

    /// TLS of the Prometheus page; `None` without TLS. Faults are reported only if the page is
    /// enabled.
    ///
    /// Source: `PrometheusMetricsProvider`, which asks for certificates unless both switches are
    /// off.
    pub(super) fn prometheus_tls(&self, has_it: bool, port: u16) -> Option<PrometheusTlsConfig> {
        let wants = self.is_on("metricsProvider.ssl.want.client.auth");
        let client_auth = match (self.is_on(PROMETHEUS.client_auth), wants) {
            (true, _) => ClientAuth::Need,
            (false, true) => ClientAuth::Want,
            (false, false) => ClientAuth::None,
        };
        let switch = has_it.then_some("metricsProvider.httpsPort");
        let files = self.port_files(&PROMETHEUS, switch, client_auth);
        switch?;
        Some(PrometheusTlsConfig { port, files: files? })
    }

    /// As in the original, the setting for both directions takes precedence over the one for
    /// clients.
    fn hosts_of_clients(&self, keys: &Keys) -> bool {
        let [both, of_clients] = [keys.hosts, keys.hosts_of_clients].map(|key| self.is_on(key));
        both && of_clients
    }

    fn check_auth_provider(&self, switch: Option<&'static str>) {
        let scheme = self.value("ssl.authProvider").unwrap_or_default();
        if switch.is_some() && !scheme.is_empty() && scheme != X509 {
            let text = format!(
                "ssl.authProvider={scheme}: no provider of that scheme knows certificates\n\
                 hint: {X509} is the only one"
            );
            self.problem("ssl.authProvider", text);
        }
    }

    /// Reads every setting of this use. Faults are reported only if `switch` is on.
    fn port_files(
        &self,
        keys: &Keys,
        switch: Option<&'static str>,
        client_auth: ClientAuth,
    ) -> Option<PortFiles> {
        let fault = |key: &'static str, text: String| {
            if switch.is_some() {
                self.problem(key, text);
            }
        };
        if let Some(supplier) = keys.supplier
            && self.text(supplier).is_some()
        {
            let text = format!(
                "{supplier}: this server cannot load Java classes\nhint: {} and {} name files",
                keys.key_store.location, keys.trust_store.location
            );
            fault(supplier, text);
        }
        if let Some(reverse_lookup) = keys.reverse_lookup
            && self.is_on(reverse_lookup)
        {
            let text = format!(
                "{reverse_lookup}=true: this server does not resolve addresses to names: the owner of an address can choose its name\n\
                 hint: issue certificates for the addresses that {} come from",
                keys.others
            );
            fault(reverse_lookup, text);
        }
        let revocations = keys.crl_file.and_then(|key| self.text(key)).map(PathBuf::from);
        let ocsp = keys.ocsp.is_some_and(|key| self.is_on(key));
        if let (Some(crl), Some(crl_file)) = (keys.crl, keys.crl_file)
            && self.is_on(crl)
            && revocations.is_none()
        {
            let text = format!(
                "{crl}=true: this server does not download revocation lists from the URLs in certificates\n\
                 hint: set {crl_file} to a file with revocation lists; the server reads it again when it changes"
            );
            fault(crl, text);
        }
        let named = |key: &'static str, error: &dyn std::fmt::Display| {
            fault(key, format!("{key}: {error}"));
        };
        let versions = self.versions(keys, &named);
        let suites = self
            .text(keys.suites)
            .and_then(|list| cipher_suites(&list).map_err(|error| named(keys.suites, &error)).ok());
        let key_store = self.store(&keys.key_store, &fault);
        let trust_store = self.store(&keys.trust_store, &fault);
        if key_store.is_none() {
            let key = keys.key_store.location;
            let text = format!(
                "TLS is switched on and {key} is not set\n\
                 hint: it names a file with the server's private key and certificate"
            );
            fault(switch.unwrap_or(key), text);
        }
        if trust_store.is_none() && (keys.dials || client_auth != ClientAuth::None) {
            let key = keys.trust_store.location;
            let hint = if keys.dials {
                "it names a file with the certificates of the authorities that sign certificates of servers"
                    .to_owned()
            } else {
                format!("{} takes {} without one", keys.asks_nobody, keys.others)
            };
            let text = format!(
                "{} are asked for a certificate and {key} is not set\nhint: {hint}",
                keys.others
            );
            fault(switch.unwrap_or(key), text);
        }
        Some(PortFiles {
            key_store: key_store?,
            trust_store,
            revocations,
            ocsp,
            client_auth,
            protocols: versions,
            suites,
            dials: keys.dials,
        })
    }

    fn client_auth(&self, keys: &Keys) -> ClientAuth {
        self.choice(keys.client_auth).parse().unwrap_or_default()
    }

    fn versions(
        &self,
        keys: &Keys,
        fault: &dyn Fn(&'static str, &dyn std::fmt::Display),
    ) -> Vec<Protocol> {
        let name = keys.protocol.and_then(|key| self.value(key)).unwrap_or_default();
        let (key, found) = match self.text(keys.enabled_protocols) {
            Some(list) => (keys.enabled_protocols, protocols(&list)),
            None => (
                keys.protocol.unwrap_or(keys.enabled_protocols),
                context(if name.is_empty() { "TLS" } else { name }),
            ),
        };
        found.unwrap_or_else(|error| {
            fault(key, &error);
            Vec::new()
        })
    }

    /// A store, if there is one.
    fn store(&self, keys: &StoreKeys, fault: &dyn Fn(&'static str, String)) -> Option<StoreFile> {
        // The content determines the type.
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

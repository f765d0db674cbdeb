//! The settings of TLS for clients.

use std::path::Path;

use zebu_auth::store::PasswordSource;
use zebu_auth::tls::{ClientAuth, Protocol};

use super::{Case, PeerTlsConfig};
use crate::AdminTlsConfig;

const STORES: &str = "ssl.keyStore.location=/k.jks\nssl.keyStore.password=apassword\n\
                      ssl.trustStore.location=/t.pem";

#[test]
fn a_port_has_a_key_and_knows_whom_it_trusts() {
    let tls = Case::file(&format!("secureClientPort=2281\n{STORES}")).config().client_tls.unwrap();
    assert_eq!((tls.port, tls.is_unified, tls.reloads), (Some(2281), false, true));
    assert_eq!(tls.files.key_store.path, Path::new("/k.jks"));
    assert_eq!(tls.files.key_store.password, PasswordSource::Inline("apassword".into()));
    assert_eq!(tls.files.trust_store.unwrap().path, Path::new("/t.pem"));
    assert_eq!(tls.files.client_auth, ClientAuth::Need);
    assert_eq!(tls.files.protocols, [Protocol::Tls12, Protocol::Tls13]);
    assert!(!tls.verifies_clients_hosts);
    let config = Case::file(&format!("secureClientPort=2281\n{STORES}")).config();
    assert!(config.auth.x509, "certificates are ids");
    assert!(!format!("{config:?}").contains("apassword"));
}

#[test]
fn one_port_for_both_kinds() {
    let text = "client.portUnification=true\nssl.clientAuth=none\nssl.keyStore.location=/k.pem\n\
                ssl.keyStore.passwordPath=/p\nssl.enabledProtocols=TLSv1.3\n\
                ssl.clientHostnameVerification=true\nclient.certReload=false\n\
                ssl.ciphersuites=TLS_AES_256_GCM_SHA384";
    let tls = Case::file(text).config().client_tls.unwrap();
    assert_eq!((tls.port, tls.is_unified, tls.reloads), (None, true, false));
    assert_eq!(tls.files.key_store.password, PasswordSource::File("/p".into()));
    assert_eq!(tls.files.protocols, [Protocol::Tls13]);
    assert_eq!(tls.files.suites.unwrap().len(), 1);
    assert!(tls.verifies_clients_hosts);
    // The setting for both directions takes precedence over that one.
    let without = format!("{text}\nssl.hostnameVerification=false");
    assert!(!Case::file(&without).config().client_tls.unwrap().verifies_clients_hosts);
}

#[test]
fn without_a_switch_the_rest_is_not_looked_at() {
    let config = Case::file("ssl.ocsp=true\nssl.ciphersuites=NONE_SUCH").config();
    assert_eq!((config.client_tls, config.auth.x509), (None, false));
    let named = "authProvider.x509=org.apache.zookeeper.server.auth.X509AuthenticationProvider";
    assert!(Case::file(named).config().auth.x509);
}

#[test]
fn what_is_not_there_is_refused_by_name() {
    for (line, text) in [
        ("ssl.crl=true", "ssl.crl=true: this server does not download revocation lists"),
        ("ssl.allowReverseDnsLookup=true", "this server does not resolve addresses to names"),
        ("ssl.context.supplier.class=x.Y", "this server cannot load Java classes"),
        ("ssl.authProvider=mine", "no provider of that scheme knows certificates"),
        (
            "ssl.protocol=SSLv3",
            "ssl.protocol: \"SSLv3\" is not a supported TLS protocol; use TLSv1.2, TLSv1.3",
        ),
        ("ssl.enabledProtocols=TLSv1.3,TLSv1", "\"TLSv1\" is not a supported TLS protocol"),
        (
            "ssl.ciphersuites=TLS_RSA_WITH_NULL_MD5",
            "is not a supported cipher suite; use TLS_AES_256_GCM_SHA384",
        ),
        ("ssl.clientAuth=maybe", "ssl.clientAuth=maybe"),
        ("ssl.keyStore.type=BCFKS", "ssl.keyStore.type=BCFKS"),
        ("ssl.keyStore.passwordPath=/p", "are both set; leave one out"),
    ] {
        let fault =
            Case::file(&format!("secureClientPort=1\n{STORES}\n{line}")).load().unwrap_err();
        let (fault, place) = (fault.to_string(), "zoo.cfg:7: ");
        assert!(fault.starts_with(place) && fault.contains(text), "{line}: {fault}");
    }
    Case::file("secureClientPort=2281\nssl.clientAuth=none").fails(
        "zoo.cfg:3: TLS is switched on and ssl.keyStore.location is not set\n\
         hint: it names a file with the server's private key and certificate",
    );
    Case::file("client.portUnification=true\nssl.keyStore.location=/k").fails(
        "zoo.cfg:3: clients are asked for a certificate and ssl.trustStore.location is not set\n\
         hint: ssl.clientAuth=none takes clients without one",
    );
}

const OF_SERVERS: &str = "ssl.quorum.keyStore.location=/k.jks\nssl.quorum.keyStore.password=apassword\n\
                          ssl.quorum.trustStore.location=/t.pem";

fn between_servers(lines: &str) -> Option<PeerTlsConfig> {
    Case::of_three(&format!("{OF_SERVERS}\n{lines}")).ensemble().tls
}

#[test]
fn members_speak_tls_where_they_are_told_to() {
    assert_eq!(between_servers("ssl.quorum.ocsp=true"), None);
    let tls = between_servers("sslQuorum=true").unwrap();
    assert!(tls.dials && !tls.accepts_plain && tls.reloads && !tls.binds_ids);
    assert!(tls.verifies_servers && tls.verifies_clients);
    assert!(tls.files.dials);
    assert_eq!(tls.files.key_store.path, Path::new("/k.jks"));
    assert_eq!(tls.files.trust_store.as_ref().unwrap().path, Path::new("/t.pem"));
    assert_eq!(tls.files.client_auth, ClientAuth::Need);
    assert!(!format!("{tls:?}").contains("apassword"));
    let tls = between_servers("portUnification=true\nsslQuorumReloadCertFiles=false").unwrap();
    assert!(!tls.dials && tls.accepts_plain && !tls.reloads);
    assert!(!tls.files.ocsp);
    let tls = between_servers("sslQuorum=true\nssl.quorum.ocsp=true").unwrap();
    assert!(tls.files.ocsp);
    let tls = between_servers("sslQuorum=true\nzebu.quorum.identity=true").unwrap();
    assert!(tls.binds_ids);
    let tls = between_servers("sslQuorum=true\nssl.quorum.hostnameVerification=false").unwrap();
    assert!(!tls.verifies_servers && !tls.verifies_clients);
    let tls = between_servers("sslQuorum=true\nssl.quorum.clientHostnameVerification=false");
    assert!(tls.is_some_and(|tls| tls.verifies_servers && !tls.verifies_clients));
}

#[test]
fn what_members_cannot_have_is_refused_by_name() {
    for (line, text) in [
        ("ssl.quorum.crl=true", "hint: set zebu.ssl.quorum.crlFile to a file"),
        (
            "ssl.quorum.allowReverseDnsLookup=true",
            "issue certificates for the addresses that servers",
        ),
        ("ssl.quorum.context.supplier.class=x.Y", "hint: ssl.quorum.keyStore.location and"),
        ("ssl.quorum.protocol=SSLv3", "ssl.quorum.protocol: \"SSLv3\" is not a supported"),
        ("ssl.quorum.keyStore.passwordPath=/p", "are both set; leave one out"),
        (
            "zebu.quorum.identity=true\nssl.quorum.hostnameVerification=false",
            "zebu.quorum.identity=true needs sslQuorum and ssl.quorum.hostnameVerification",
        ),
    ] {
        let fault = Case::of_three(&format!("sslQuorum=true\n{OF_SERVERS}\n{line}")).load();
        let fault = fault.unwrap_err().to_string();
        assert!(fault.starts_with("zoo.cfg:11: ") && fault.contains(text), "{line}: {fault}");
    }
    Case::of_three("sslQuorum=true").fails(
        "zoo.cfg:7: TLS is switched on and ssl.quorum.keyStore.location is not set\n\
         hint: it names a file with the server's private key and certificate\n\
         zoo.cfg:7: servers are asked for a certificate and ssl.quorum.trustStore.location is not set\n\
         hint: it names a file with the certificates of the authorities that sign certificates of servers",
    );
}

fn of_admin(lines: &str) -> Option<AdminTlsConfig> {
    Case::file(&format!("{OF_SERVERS}\n{lines}")).config().admin.unwrap().tls
}

/// Source: `JettyAdminServer`.
#[test]
fn the_admin_server_has_the_certificates_of_a_member() {
    assert_eq!(of_admin(""), None);
    assert_eq!(of_admin("sslQuorumReloadCertFiles=false"), None);
    let both = of_admin("admin.portUnification=true").unwrap();
    assert!(both.accepts_plain && both.reloads && !both.files.dials);
    assert_eq!(both.files.client_auth, ClientAuth::None);
    assert_eq!(both.files.key_store.path, Path::new("/k.jks"));
    assert!(!format!("{both:?}").contains("apassword"));
    let forced = "admin.portUnification=true\nadmin.forceHttps=true\nadmin.needClientAuth=true\n\
                  sslQuorumReloadCertFiles=false\nssl.quorum.enabledProtocols=TLSv1.3";
    let forced = of_admin(forced).unwrap();
    assert!(!forced.accepts_plain && !forced.reloads);
    assert_eq!(forced.files.client_auth, ClientAuth::Need);
    assert_eq!(forced.files.trust_store.unwrap().path, Path::new("/t.pem"));
    assert_eq!(forced.files.protocols, [Protocol::Tls13]);
    // A client that is accepted without a certificate is not trusted either.
    let text = "admin.forceHttps=true\nssl.quorum.keyStore.location=/k";
    assert!(Case::file(text).config().admin.unwrap().tls.is_some());
}

#[test]
fn what_the_admin_server_cannot_have_is_refused_by_name() {
    Case::file("admin.forceHttps=true").fails(
        "zoo.cfg:3: TLS is switched on and ssl.quorum.keyStore.location is not set\n\
         hint: it names a file with the server's private key and certificate",
    );
    Case::file("ssl.quorum.keyStore.location=/k\nadmin.portUnification=true\nadmin.needClientAuth=true").fails(
        "zoo.cfg:4: clients of the admin server are asked for a certificate and ssl.quorum.trustStore.location is not set\n\
         hint: admin.needClientAuth=false takes clients of the admin server without one",
    );
    Case::file("admin.needClientAuth=true").fails(
        "zoo.cfg:3: admin.needClientAuth=true: a client without TLS has no certificate\n\
         hint: admin.forceHttps=true requires TLS from every client",
    );
    // A fault that two ports share is reported once.
    let both = "sslQuorum=true\nadmin.forceHttps=true\nssl.quorum.crl=true";
    let fault = Case::of_three(&format!("{OF_SERVERS}\n{both}")).load().unwrap_err().to_string();
    assert_eq!(fault.matches("does not download revocation lists").count(), 1, "{fault}");
    // If no port uses TLS, no file is checked.
    let off = "admin.enableServer=false\nadmin.forceHttps=true\nadmin.needClientAuth=true";
    assert_eq!(Case::file(off).config().admin, None);
}

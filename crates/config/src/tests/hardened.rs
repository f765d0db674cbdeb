//! Insecure settings, and the parts of the hardened profile that refuse them.

use super::Case;
use crate::hardened::open;

/// The insecure parts, one line each.
fn told(text: &str) -> Vec<String> {
    open(&Case::file(text).config()).into_iter().map(|open| open.what).collect()
}

#[test]
fn what_is_open_by_default_is_told() {
    assert_eq!(
        told(""),
        [
            "port 2181 serves clients without TLS",
            "every client that knows a session id can compute the session's password",
            "the server serves clients that have not authenticated",
            "a new ACL may let everybody write",
            "one address may fail to authenticate any number of times",
            "one identity may open any number of connections",
        ]
    );
    let more = told(
        "skipACL=yes\n4lw.commands.whitelist=ruok,stat,mntr\nmaxClientCnxns=0\nadmin.serverAddress=127.0.0.1\n\
         metricsProvider.className=org.apache.zookeeper.metrics.prometheus.PrometheusMetricsProvider\n\
         enforce.auth.enabled=true\nenforce.auth.schemes=ip",
    );
    for what in [
        "metrics are shown without TLS on port 7000",
        "the server serves clients that have not authenticated",
        "ACLs are not checked",
        "four-letter words are answered to anybody: stat, mntr",
        "one address may open any number of connections",
    ] {
        assert!(more.contains(&what.to_owned()), "{what}: {more:?}");
    }
    assert!(!more.iter().any(|what| what.contains("admin server")), "{more:?}");
}

#[test]
fn tls_can_be_required_on_every_port() {
    let off = "zebu.requireTls=true\nadmin.enableServer=false";
    Case::raw_file(&format!("dataDir=/d\n{off}")).config();
    Case::file(off).fails(
        "zoo.cfg:3: zebu.requireTls=true: port 2181 serves clients without TLS\n\
         hint: secureClientPort in place of clientPort, also in the line of this server in the list of members",
    );
    let open = "dataDir=/d\nzebu.requireTls=true\nadmin.serverAddress=::";
    let refused = "zoo.cfg:2: zebu.requireTls=true: the admin server answers without TLS on port 8080\n\
         hint: admin.forceHttps=true with ssl.quorum.keyStore.location, admin.serverAddress=127.0.0.1 behind a proxy with TLS, \
         or admin.enableServer=false";
    Case::raw_file(open).fails(refused);
    let store = "ssl.quorum.keyStore.location=/k";
    Case::raw_file(&format!("{open}\n{store}\nadmin.portUnification=true")).fails(refused);
    Case::raw_file(&format!("{open}\n{store}\nadmin.forceHttps=true")).config();
}

/// A configuration without an insecure part. It has no port, because certificates are not tested
/// here.
const CLOSED: &str = "admin.enableServer=false\nzebu.sessionSecretFile=secret\nenforce.auth.enabled=true\n\
    enforce.auth.schemes=ldap\nauthProvider.1=unix:ldap:/run/ldap.sock";

fn closed(more: &str) -> Case {
    let secret = "0123456789abcdef0123456789abcdef";
    Case::raw_file(&format!("dataDir=/d\n{CLOSED}\n{more}")).with("secret", secret)
}

#[test]
fn the_profile_sets_its_parts_and_refuses_what_is_open() {
    let config = closed("zebu.hardened=true").config();
    assert_eq!(open(&config), []);
    assert!(config.auth.refuses_world_writes);
    assert_eq!(config.auth.failures_per_minute, 10);
    assert_eq!(config.limits.connections_per_identity, 100);
    assert_eq!(config.four_letter_words, ["ruok", "srvr"]);
    // Each part is off without the profile.
    let config = closed("").config();
    assert!(!config.auth.refuses_world_writes);
    assert_eq!(config.auth.failures_per_minute, 0);
    assert_eq!(config.limits.connections_per_identity, 0);
    assert_eq!(config.four_letter_words, ["srvr"]);
    // Each part can be enabled alone.
    let alone = "zebu.refuseWorldWrites=true\nzebu.authFailuresPerMinute=3\nzebu.maxConnectionsPerIdentity=4";
    let config = closed(alone).config();
    assert!(config.auth.refuses_world_writes);
    assert_eq!(config.auth.failures_per_minute, 3);
    assert_eq!(config.limits.connections_per_identity, 4);
    // No part can be disabled while the profile is enabled.
    for (line, what) in [
        ("zebu.refuseWorldWrites=false", "a new ACL may let everybody write"),
        ("zebu.authFailuresPerMinute=0", "one address may fail to authenticate"),
        ("zebu.maxConnectionsPerIdentity=0", "one identity may open"),
        ("maxClientCnxns=0", "one address may open"),
        ("skipACL=yes", "ACLs are not checked"),
        ("4lw.commands.whitelist=*", "four-letter words are answered to anybody: conf,"),
        ("readonlymode.enabled=true", "four-letter words are answered to anybody: isro\n"),
        ("zebu.sessionPasswords=acceptCompatible", "every client that knows a session id"),
        ("clientPort=2181", "port 2181 serves clients without TLS"),
        ("zebu.requireTls=true\nclientPort=2181", "port 2181 serves clients without TLS"),
    ] {
        let fault = closed(&format!("zebu.hardened=true\n{line}")).load().unwrap_err().to_string();
        assert!(fault.contains(&format!("zoo.cfg:7: zebu.hardened=true: {what}")), "{fault}");
        assert_eq!(fault.matches("zebu.hardened=true").count(), 1, "{fault}");
    }
    let digest = "zebu.hardened=true\nenforce.auth.schemes=ldap,digest";
    let fault = closed(digest).load().unwrap_err().to_string();
    assert!(fault.contains("the server serves clients that have not authenticated"), "{fault}");
}

/// The commands show more than the words that the profile permits.
#[test]
fn an_admin_server_that_others_reach_asks_for_certificates() {
    let lines = "admin.enableServer=true\nadmin.serverAddress=0.0.0.0\nadmin.forceHttps=true\n\
        ssl.quorum.keyStore.location=/k\nssl.quorum.trustStore.location=/t\nzebu.hardened=true";
    let text = format!("{}\n{lines}", CLOSED.replace("admin.enableServer=false\n", ""));
    let case = |more: &str| {
        Case::raw_file(&format!("dataDir=/d\n{text}\n{more}"))
            .with("secret", "0123456789abcdef0123456789abcdef")
    };
    let fault = case("").load().unwrap_err().to_string();
    let what = "zebu.hardened=true: commands are answered to anybody on port 8080 of the admin server\n\
                hint: admin.needClientAuth=true with admin.forceHttps=true, or admin.serverAddress=127.0.0.1";
    assert!(fault.contains(what), "{fault}");
    assert_eq!(open(&case("admin.needClientAuth=true").config()), []);
}

//! TLS of the admin server: the requests that it answers, and the clients that it accepts.

use std::fs;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, TcpStream};
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustls::ClientConfig;
use tempfile::TempDir;
use zebu_auth::tls::Protocol;
use zebu_testkit::connection::PATIENCE;
use zebu_testkit::wire::{Writer, err, op};

use crate::running::Running;
use crate::tls::{config, connect, fixture, pair};

const X509: &str = "authProvider.x509=org.apache.zookeeper.server.auth.X509AuthenticationProvider";

/// A server whose admin server has the certificate of that name.
fn start(dir: &TempDir, more: &[&str]) -> Running {
    let stores = [
        format!("ssl.quorum.keyStore.location={}", pair("server", dir.path()).display()),
        format!("ssl.quorum.trustStore.location={}", fixture("ca.pem").display()),
    ];
    let own = ["admin.enableServer=true", "admin.serverPort=0", &stores[0], &stores[1]];
    Running::new(&[&own, more].concat())
}

/// The whole answer to a request, until the connection ends in any way.
fn ask(mut stream: impl Read + Write, path: &str, header: &str) -> String {
    let request = format!("GET {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n{header}\r\n");
    let _ = stream.write_all(request.as_bytes());
    let (mut all, mut some) = (Vec::new(), [0; 4096]);
    while let Ok(count @ 1..) = stream.read(&mut some) {
        all.extend(&some[..count]);
    }
    String::from_utf8_lossy(&all).into_owned()
}

fn plain(port: u16) -> TcpStream {
    let stream = TcpStream::connect((Ipv4Addr::LOCALHOST, port)).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    stream
}

fn shown(name: Option<&str>) -> Arc<ClientConfig> {
    config(name, Protocol::Tls13)
}

fn is_let_in(port: u16, config: Arc<ClientConfig>) -> bool {
    ask(connect(port, config), "/commands/ruok", "").starts_with("HTTP/1.1 200 OK\r\n")
}

/// Source: `JettyAdminServer`: HSTS of a day for all subdomains, for clients with TLS only.
const COME_BACK: &str = "strict-transport-security: max-age=86400; includeSubDomains\r\n";

#[test]
fn requests_with_tls_only() {
    let dir = tempfile::tempdir().unwrap();
    let running = start(&dir, &["admin.forceHttps=true"]);
    let port = running.admin_port();
    for protocol in [Protocol::Tls12, Protocol::Tls13] {
        let answer = ask(connect(port, config(None, protocol)), "/commands/ruok", "");
        assert!(answer.starts_with("HTTP/1.1 200 OK\r\n"), "{answer}");
        assert!(answer.contains(COME_BACK) && answer.ends_with('}'), "{answer}");
    }
    // The server requests no client certificate.
    assert!(is_let_in(port, shown(Some("foreign"))));
    assert_eq!(ask(plain(port), "/commands/ruok", ""), "");
    // A long answer, of many records.
    let answer = ask(connect(port, shown(None)), "/commands/monitor", "");
    assert!(answer.ends_with('}') && answer.len() > 10_000, "{}", answer.len());
    assert!(running.metric("tls_certificate_seconds_left").unwrap() > 86_400.0);
}

#[test]
fn one_port_takes_requests_of_both_kinds() {
    let dir = tempfile::tempdir().unwrap();
    let both = ["admin.portUnification=true", "admin.needClientAuth=true", "admin.idleTimeout=200"];
    let running = start(&dir, &both);
    let port = running.admin_port();
    // The server closes connections that send nothing, and those that begin a handshake and stop.
    let silent = [plain(port), plain(port)];
    (&silent[1]).write_all(&[0x16, 3, 1, 2, 0]).unwrap();
    for mut stream in silent {
        assert_eq!(stream.read(&mut [0; 8]).unwrap_or(0), 0);
    }
    let answer = ask(plain(port), "/commands/ruok", "");
    assert!(answer.starts_with("HTTP/1.1 200 OK\r\n"), "{answer}");
    assert!(!answer.contains("strict-transport-security"), "{answer}");
    assert!(is_let_in(port, shown(Some("client"))));
    assert!(!is_let_in(port, shown(None)));
}

#[test]
fn clients_may_have_to_show_a_certificate() {
    let dir = tempfile::tempdir().unwrap();
    let revocations = format!("zebu.ssl.quorum.crlFile={}", fixture("ca.crl").display());
    let strict = ["admin.forceHttps=true", "admin.needClientAuth=true"];
    let running =
        start(&dir, &[&strict[..], &["ssl.quorum.crl=true", &revocations, X509]].concat());
    let port = running.admin_port();
    for name in [None, Some("foreign"), Some("expired"), Some("future"), Some("revoked")] {
        assert!(!is_let_in(port, shown(name)), "{name:?}");
    }
    assert!(is_let_in(port, shown(Some("client"))));
}

/// The header contains only the scheme, and the connection proves the identity, as in the original.
///
/// Source: `Commands.handleAuthentication`.
#[test]
fn a_certificate_says_who_wants_a_snapshot() {
    let dir = tempfile::tempdir().unwrap();
    let need = ["admin.forceHttps=true", "admin.needClientAuth=true", X509];
    let at = |running: &Running, header: &str| {
        let stream = connect(running.admin_port(), shown(Some("client")));
        let answer = ask(stream, "/commands/snapshot", header);
        answer.split(' ').nth(1).unwrap_or_default().to_owned()
    };
    let subject = {
        let der = fs::read(fixture("client.pem")).unwrap();
        let path = dir.path().join("client.pem");
        fs::write(&path, der).unwrap();
        let store =
            zebu_auth::store::StoreFile { path, password: zebu_auth::store::PasswordSource::None };
        zebu_auth::certificate::Facts::of(&store.trusted().unwrap()[0]).unwrap().subject
    };
    let running = start(&dir, &need);
    let acl = Writer::new().string("/").acl(&[(31, "x509", &subject)]).int(-1);
    assert_eq!(running.client().call(op::SET_ACL, &acl).err, err::OK);
    assert_eq!(at(&running, ""), "401");
    assert_eq!(at(&running, "Authorization: ip\r\n"), "403");
    assert_eq!(at(&running, "Authorization: x509\r\n"), "200");
    drop(running);
    // Without a certificate, no client has an identity of that scheme.
    let running = start(&dir, &["admin.portUnification=true", X509]);
    let answer = ask(plain(running.admin_port()), "/commands/snapshot", "Authorization: x509\r\n");
    assert!(answer.starts_with("HTTP/1.1 401 "), "{answer}");
}

#[test]
fn certificates_are_read_anew() {
    let dir = tempfile::tempdir().unwrap();
    let running = start(&dir, &["admin.forceHttps=true"]);
    let port = running.admin_port();
    let own = || {
        let mut stream = connect(port, shown(None));
        let _ = stream.write_all(b"GET /commands/ruok HTTP/1.0\r\n\r\n");
        let _ = stream.read(&mut [0; 64]);
        stream.conn.peer_certificates().map(|chain| chain[0].to_vec())
    };
    let first = own().expect("a certificate");
    let renewed = pair("renewed", dir.path());
    fs::rename(renewed, dir.path().join("server-pair.pem")).unwrap();
    let until = Instant::now() + PATIENCE;
    while own().is_none_or(|own| own == first) {
        assert!(Instant::now() < until, "the new certificate is not shown");
        std::thread::sleep(Duration::from_millis(50));
    }
}

const PROMETHEUS: [&str; 3] = [
    "metricsProvider.className=org.apache.zookeeper.metrics.prometheus.PrometheusMetricsProvider",
    "metricsProvider.httpHost=127.0.0.1",
    "metricsProvider.httpsPort=0",
];

/// The answer of the Prometheus page to a client with that certificate.
fn scrape(port: u16, name: Option<&str>) -> String {
    ask(connect(port, shown(name)), "/metrics", "")
}

/// As in the original, the page has its own stores, and requires a certificate unless that is
/// turned off.
#[test]
fn the_prometheus_page_has_tls_of_its_own() {
    let dir = tempfile::tempdir().unwrap();
    let stores = [
        format!("metricsProvider.ssl.keyStore.location={}", pair("server", dir.path()).display()),
        format!("metricsProvider.ssl.trustStore.location={}", fixture("ca.pem").display()),
    ];
    let stores = [&*stores[0], &*stores[1]];
    let running = Running::new(&[&PROMETHEUS[..], &stores].concat());
    assert_eq!(running.server().metrics_port(), None, "nobody has asked for one without TLS");
    let port = running.server().metrics_tls_port().unwrap();
    for name in [None, Some("foreign"), Some("expired"), Some("future")] {
        assert_eq!(scrape(port, name), "", "{name:?}");
    }
    assert_eq!(ask(plain(port), "/metrics", ""), "");
    let page = scrape(port, Some("client"));
    assert!(page.starts_with("HTTP/1.1 200 OK\r\n") && page.contains("\nznode_count "), "{page}");
    assert!(running.metric("tls_certificate_seconds_left").unwrap() > 86_400.0);
    drop(running);
    let both = ["metricsProvider.httpPort=0", "metricsProvider.ssl.need.client.auth=false"];
    let running = Running::new(&[&PROMETHEUS[..], &stores, &both].concat());
    let port = running.server().metrics_tls_port().unwrap();
    assert!(scrape(port, None).starts_with("HTTP/1.1 200 OK\r\n"));
    assert_eq!(scrape(port, Some("foreign")), "", "whoever shows one shows one that is trusted");
    let plain_port = running.server().metrics_port().unwrap();
    assert!(ask(plain(plain_port), "/metrics", "").starts_with("HTTP/1.1 200 OK\r\n"));
    drop(running);
    let key =
        format!("metricsProvider.ssl.keyStore.location={}", fixture("keytool17.p12").display());
    let refusal = Running::refusal(dir.path(), &[&PROMETHEUS[..], &[&key, stores[1]]].concat());
    assert!(refusal.starts_with("TLS of the Prometheus page: "), "{refusal}");
}

#[test]
fn stores_that_cannot_be_used_are_told_at_the_start() {
    let dir = tempfile::tempdir().unwrap();
    let key = format!("ssl.quorum.keyStore.location={}", fixture("keytool17.p12").display());
    let own = ["admin.enableServer=true", "admin.serverPort=0", "admin.forceHttps=true"];
    let refusal = Running::refusal(dir.path(), &[&own[..], &[&*key]].concat());
    let text = "TLS of the admin server: ";
    assert!(
        refusal.starts_with(text) && refusal.contains("keytool17.p12: it is encrypted"),
        "{refusal}"
    );
}

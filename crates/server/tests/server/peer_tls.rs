//! TLS between servers: how an ensemble changes to it, and the connections that it refuses.

use std::fs;
use std::io::{ErrorKind, Read as _, Write as _};
use std::net::TcpStream;
use std::time::Duration;

use tempfile::TempDir;
use zebu_auth::certificate::Facts;
use zebu_auth::tls::Protocol;
use zebu_testkit::connection::PATIENCE;

use crate::members::{Three, client_of};
use crate::running::{Running, wait};
use crate::tls::{config, connect, fixture, is_cut_off, pair};

/// The stores of a member with that certificate.
pub fn stores(dir: &TempDir, name: &str) -> [String; 2] {
    [
        format!("ssl.quorum.keyStore.location={}", pair(name, dir.path()).display()),
        format!("ssl.quorum.trustStore.location={}", fixture("ca.pem").display()),
    ]
}

/// Three voters with TLS between them and these settings; two of them serve.
fn secure(dir: &TempDir, more: &[&str]) -> (Three, [Running; 2]) {
    let stores = stores(dir, "server");
    let settings = [&["sslQuorum=true", &stores[0], &stores[1]], more].concat();
    let three = Three::voters(&settings);
    let members = [three.start(1), three.start(2)];
    members.iter().for_each(|member| client_of(member).close());
    (three, members)
}

/// A session that writes at one member and reads at the others.
fn check(members: &[&Running], name: &str) {
    let path = format!("/{name}");
    let mut client = client_of(members[0]);
    client.create(&path, &[7; 100_000]).unwrap();
    client.close();
    for member in members {
        let mut client = client_of(member);
        wait("the znode", || client.exists(&path));
        client.close();
    }
}

#[test]
fn an_ensemble_goes_over_to_tls_member_by_member() {
    let dir = tempfile::tempdir().unwrap();
    let stores = stores(&dir, "server");
    let three = Three::voters(&[&stores[0], &stores[1]]);
    let mut members: Vec<Running> = (1..=3).map(|id| three.start(id)).collect();
    check(&members.iter().collect::<Vec<_>>(), "plain");
    let steps: [&[&str]; 4] = [
        &["portUnification=true"],
        &["portUnification=true", "sslQuorum=true"],
        &["sslQuorum=true", "ssl.quorum.enabledProtocols=TLSv1.3,TLSv1.2"],
        &["sslQuorum=true", "ssl.quorum.enabledProtocols=TLSv1.2"],
    ];
    for (step, settings) in steps.iter().enumerate() {
        for id in 1..=3 {
            drop(members.remove(id - 1));
            members.insert(id - 1, three.start_with(id, settings));
            check(&members.iter().collect::<Vec<_>>(), &format!("step-{step}-{id}"));
        }
    }
    assert!(members[0].metric("tls_certificate_seconds_left").unwrap() > 86_400.0);
    // Connections without TLS are no longer accepted.
    let [_, votes] = three.ports_of(1);
    let mut stream = TcpStream::connect(("127.0.0.1", votes)).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    stream.write_all(&introduction(2)).unwrap();
    match stream.read(&mut [0; 8]) {
        Ok(count) => assert_eq!(count, 0),
        Err(error) => assert_eq!(error.kind(), ErrorKind::ConnectionReset),
    }
}

/// The messages of a server that connects for votes: its id, and a LOOKING notification, which must
/// be answered.
pub fn introduction(id: i64) -> Vec<u8> {
    let address = b"127.0.0.1:1";
    let mut hello = (-65_536_i64).to_be_bytes().to_vec();
    hello.extend(id.to_be_bytes());
    hello.extend((address.len() as i32).to_be_bytes());
    hello.extend(address);
    let (length, looking, version) = (40_i32, 0_i32, 0_i32);
    hello.extend([length, looking].map(i32::to_be_bytes).concat());
    let (zxid, round, epoch) = (0, 1, 0);
    hello.extend([id, zxid, round, epoch].map(i64::to_be_bytes).concat());
    hello.extend(version.to_be_bytes());
    hello
}

/// Whether a server with that certificate and that id is accepted at the election port, or at the
/// quorum port.
fn is_heard(port: u16, name: Option<&str>, id: i64) -> bool {
    let mut stream = connect(port, config(name, Protocol::Tls13));
    let said = stream.write_all(&introduction(id)).and_then(|()| stream.read_exact(&mut [0; 4]));
    match said {
        Ok(()) => true,
        Err(error) => {
            let is_silence = matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut);
            assert!(!is_silence, "neither heard nor sent away");
            false
        }
    }
}

#[test]
fn who_is_not_trusted_is_heard_nowhere() {
    let dir = tempfile::tempdir().unwrap();
    let revocations = format!("zebu.ssl.quorum.crlFile={}", fixture("ca.crl").display());
    let (three, members) = secure(&dir, &[&revocations]);
    let [quorum, votes] = three.ports_of(2);
    assert!(is_heard(votes, Some("server"), 3));
    for name in
        [None, Some("foreign"), Some("expired"), Some("future"), Some("revoked"), Some("client")]
    {
        assert!(!is_heard(votes, name, 3), "{name:?}");
        assert!(!is_heard(quorum, name, 3), "{name:?}");
    }
    // A member with another certificate finds no other member, and does no harm.
    let other = stores(&dir, "foreign");
    let mut outside = three.start_with(3, &[&other[0]]);
    check(&members.each_ref(), "without-it");
    assert!(!outside.word("srvr").contains("Mode: "));
    drop(outside.take());
    let inside = three.start(3);
    check(&[&inside, &members[0], &members[1]], "with-it");
}

#[test]
fn a_handshake_between_servers_has_a_largest_size() {
    let dir = tempfile::tempdir().unwrap();
    // No connection is closed because of a time limit.
    let (three, _members) = secure(&dir, &["quorumCnxnTimeoutMs=600000", "initLimit=10000"]);
    let [quorum, votes] = three.ports_of(2);
    assert!(is_cut_off(votes, 8 << 10));
    assert!(is_cut_off(quorum, 8 << 10));
}

#[test]
fn a_certificate_for_another_host_is_taken_where_that_is_not_checked() {
    let dir = tempfile::tempdir().unwrap();
    let (three, _members) = secure(&dir, &["ssl.quorum.clientHostnameVerification=false"]);
    let [_, votes] = three.ports_of(2);
    assert!(is_heard(votes, Some("client"), 3));
    assert!(!is_heard(votes, Some("foreign"), 3));
}

#[test]
fn a_certificate_belongs_to_a_server() {
    let dir = tempfile::tempdir().unwrap();
    let settings = ["zebu.quorum.identity=true", "ssl.quorum.clientHostnameVerification=false"];
    let (three, members) = secure(&dir, &settings);
    let [_, votes] = three.ports_of(1);
    assert!(is_heard(votes, Some("server"), 3));
    assert!(!is_heard(votes, Some("client"), 3), "it is for no host of server 3");
    assert!(!is_heard(votes, Some("server"), 77), "it is no member");
    let third = three.start(3);
    check(&[&third, &members[0], &members[1]], "all");
}

#[test]
fn certificates_are_read_anew() {
    let dir = tempfile::tempdir().unwrap();
    let (three, members) = secure(&dir, &[]);
    let shown = || {
        let [_, votes] = three.ports_of(1);
        let mut stream = connect(votes, config(Some("server"), Protocol::Tls13));
        stream.write_all(&introduction(77)).unwrap();
        stream.flush().unwrap();
        let chain = stream.conn.peer_certificates().unwrap();
        Facts::of(&chain[0]).unwrap().subject
    };
    let before = shown();
    let mut client = client_of(&members[0]);
    client.create("/before", b"").unwrap();
    // Half of a file, then another certificate for the same hosts.
    let path = pair("server", dir.path());
    fs::write(&path, "-----BEGIN PRIVATE KEY-----\n").unwrap();
    std::thread::sleep(Duration::from_secs(3));
    assert_eq!(shown(), before);
    let mut text = fs::read(fixture("renewed.key")).unwrap();
    text.extend(fs::read(fixture("renewed.pem")).unwrap());
    fs::write(&path, text).unwrap();
    wait("the other certificate", || shown() != before);
    client.create("/after", b"").unwrap();
    // A member that starts now has the new certificate from the beginning, and members with the old
    // one accept it.
    let third = three.start(3);
    check(&[&third, &members[0], &members[1]], "all");
}

#[test]
fn certificates_that_cannot_be_used_are_said_at_the_start() {
    let dir = tempfile::tempdir().unwrap();
    let three = Three::voters(&["sslQuorum=true"]);
    let stores = stores(&dir, "server");
    let expired = format!("ssl.quorum.keyStore.location={}", pair("expired", dir.path()).display());
    let refusal = three.refusal(1, &[&expired, &stores[1]]);
    assert!(
        refusal.contains("TLS between servers") && refusal.contains("has expired"),
        "{refusal}"
    );
    // In another directory, because the threads of the first attempt may hold theirs for a moment.
    let refusal = three.refusal(2, &["ssl.quorum.keyStore.location=/nowhere", &stores[1]]);
    assert!(refusal.contains("/nowhere"), "{refusal}");
}

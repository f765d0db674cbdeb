//! Refused connections, at the client port and at both ports between servers: the log has the
//! reason, and a metric counts them. Only the connection itself ends.

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};

use tempfile::TempDir;
use zebu_auth::tls::Protocol;
use zebu_testkit::connection::PATIENCE;

use crate::client::Client;
use crate::members::{Three, client_of};
use crate::peer_tls::{introduction, stores};
use crate::running::{Running, wait};
use crate::tls::{self, config, connect, fixture, is_let_in, tunnel};
use crate::told;

/// The behaviour of a stranger at a TLS port.
#[derive(Clone, Copy, Debug)]
enum Stranger {
    /// It presents this certificate, or none.
    Shows(Option<&'static str>),
    /// It offers no TLS version above 1.0 or 1.1.
    Speaks([u8; 2]),
    /// It does not use TLS.
    IsPlain,
}

use Stranger::{IsPlain, Shows, Speaks};

/// The connections that a server with revocation lists refuses, with the reasons.
const STRANGERS: &[(Stranger, &str)] = &[
    (Shows(None), "peer sent no certificates"),
    (Shows(Some("foreign")), "UnknownIssuer"),
    (Shows(Some("expired")), "certificate expired"),
    (Shows(Some("future")), "certificate not valid yet"),
    (Shows(Some("revoked")), "Revoked"),
    // The client's own name, and no address.
    (Shows(Some("cn-only")), "the certificate is for cn.example.org and not for 127.0.0.1"),
    (Speaks([3, 1]), "it offers only TLS 1.1 or older"),
    (Speaks([3, 2]), "it offers only TLS 1.1 or older"),
    (IsPlain, ""),
];

/// The form in which the log shows the end of an address and the text after it; the host has
/// several forms.
fn shown(address: SocketAddr) -> String {
    format!(":{}: ", address.port())
}

/// A connection without TLS, and its local address.
fn dial(port: u16) -> (TcpStream, String) {
    let stream = TcpStream::connect(("127.0.0.1", port)).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    let from = shown(stream.local_addr().unwrap());
    (stream, from)
}

/// A ClientHello of an old version, without extensions.
fn old_hello(version: [u8; 2]) -> Vec<u8> {
    // Random bytes and no session; ECDHE_RSA with AES 128 in CBC mode; no compression.
    let tail = [&[0; 33][..], &[0, 2, 0xc0, 0x13, 1, 0]].concat();
    let body = [&version[..], &tail].concat();
    let handshake = [&[1, 0, 0, body.len() as u8][..], &body].concat();
    [&[0x16, 3, 1, 0, handshake.len() as u8][..], &handshake].concat()
}

/// Behaves like this at a port, sends the usual bytes, and is refused. Returns the local address.
fn tries(port: u16, stranger: Stranger, says: &[u8]) -> String {
    let mut answer = Vec::new();
    match stranger {
        Shows(name) => {
            let mut stream = connect(port, config(name, Protocol::Tls13));
            let from = shown(stream.sock.local_addr().unwrap());
            let _ = stream.write_all(says);
            let _ = stream.read_to_end(&mut answer);
            assert!(answer.is_empty(), "{stranger:?} hears {answer:?}");
            from
        }
        Speaks(_) | IsPlain => {
            let (mut stream, from) = dial(port);
            let hello = if let Speaks(version) = stranger { &old_hello(version)[..] } else { says };
            let _ = stream.write_all(hello);
            let _ = stream.read_to_end(&mut answer);
            assert!(answer.is_empty() || answer[0] == 0x15, "nothing, or an alert: {answer:?}");
            from
        }
    }
}

#[test]
fn clients_that_are_refused_are_told_of_and_counted() {
    told::listen();
    let revocations = format!("zebu.ssl.crlFile={}", fixture("ca.crl").display());
    let settings = ["ssl.crl=true", &revocations, "ssl.clientHostnameVerification=true"];
    let secure = tls::start(&settings);
    let (port, running) = (secure.port, &secure.running);
    let mut friend = Client::new(tunnel(port, config(Some("server"), Protocol::Tls13)));
    for (number, (stranger, why)) in STRANGERS.iter().enumerate() {
        let from = tries(port, *stranger, &[b"ruok", &[0; 60][..]].concat());
        let begin = "closing the connection from ";
        wait(&format!("{stranger:?}"), || told::was_told(&[begin, &from]));
        assert!(
            told::was_told(&[begin, &from, "no TLS: ", why]),
            "{stranger:?}: {:?}",
            told::with(&from)
        );
        running.wait_metric("unsuccessful_handshake", |count| count == 1.0 + number as f64);
        friend.ping();
    }
    // TLS at a port without TLS looks like a frame of an impossible length.
    let mut stream = connect(running.port, config(Some("server"), Protocol::Tls13));
    let from = shown(stream.sock.local_addr().unwrap());
    stream.write_all(b"ruok").unwrap_err();
    wait("TLS without TLS", || told::was_told(&[&from, "a frame of impossible length"]));
    friend.ping();
    assert!(is_let_in(port, config(Some("server"), Protocol::Tls12)));
}

/// The address of this machine has a name, `localhost`. The owner of an address decides on its
/// name, so a certificate for that name is not valid for the address.
#[test]
fn the_name_of_an_address_is_not_trusted() {
    told::listen();
    let why = "the certificate is for localhost and not for 127.0.0.1";
    // Without revocation lists, this certificate is good, and for `localhost` only.
    let named = Shows(Some("revoked"));
    let secure = tls::start(&["ssl.clientHostnameVerification=true"]);
    let from = tries(secure.port, named, b"ruok");
    wait("a client", || told::was_told(&[&from, why]));
    drop(secure);
    let dir = tempfile::tempdir().unwrap();
    let (three, _members) = members(&dir, &[]);
    for port in three.ports_of(2) {
        let from = tries(port, named, &introduction(3));
        wait("a server", || told::was_told(&[&from, why]));
    }
}

/// Three voters with TLS between them. Two of them serve, and the second one leads.
fn members(dir: &TempDir, more: &[&str]) -> (Three, [Running; 2]) {
    let stores = stores(dir, "server");
    let three = Three::voters(&[&["sslQuorum=true", &stores[0], &stores[1]], more].concat());
    let members = [three.start(1), three.start(2)];
    members.iter().for_each(|member| client_of(member).close());
    (three, members)
}

#[test]
fn servers_that_are_refused_are_told_of_and_counted() {
    told::listen();
    let dir = tempfile::tempdir().unwrap();
    let revocations = format!("zebu.ssl.quorum.crlFile={}", fixture("ca.crl").display());
    let (three, members) = members(&dir, &["ssl.quorum.crl=true", &revocations]);
    let leader = &members[1];
    let mut friend = client_of(&members[0]);
    let mut refused = leader.metric("peer_connections_refused").unwrap();
    for port in three.ports_of(2) {
        for (stranger, why) in STRANGERS {
            let from = tries(port, *stranger, &introduction(3));
            let why = match stranger {
                IsPlain => "it does not begin TLS, and nothing else is taken",
                Shows(_) | Speaks(_) => why,
            };
            wait(&format!("{stranger:?}"), || told::was_told(&[&from, why]));
            refused += 1.0;
            leader.wait_metric("peer_connections_refused", |count| count == refused);
            friend.ping();
        }
    }
    friend.create("/still-there", b"").unwrap();
    drop((members, three));
    // TLS at a port without TLS.
    let plain = Three::voters(&[]);
    let members = [plain.start(1), plain.start(2)];
    let mut friend = client_of(&members[0]);
    for port in plain.ports_of(2) {
        let mut stream = connect(port, config(Some("server"), Protocol::Tls13));
        let from = shown(stream.sock.local_addr().unwrap());
        stream.write_all(&introduction(3)).unwrap_err();
        wait("TLS without TLS", || told::was_told(&[&from, "it begins TLS (sslQuorum)"]));
    }
    assert!(members[1].metric("peer_connections_refused").unwrap() >= 2.0);
    friend.create("/still-there", b"").unwrap();
}

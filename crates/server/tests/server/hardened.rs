//! The hardened profile as a whole: an ensemble with TLS everywhere, and the clients and servers
//! that it refuses.

use std::fs;
use std::io::{Read as _, Write as _};
use std::net::{Ipv4Addr, TcpStream};
use std::path::Path;

use zebu_auth::tls::Protocol;
use zebu_testkit::connection::{Hello, PATIENCE};
use zebu_testkit::wire::{OPEN, Writer, err, op};

use crate::client::Client;
use crate::members::Three;
use crate::running::{Running, refused_config, wait};
use crate::sasl;
use crate::tls::{self, config, connect, fixture, is_let_in, pair, tunnel, who_am_i};

/// Everything that the profile requires, with certificates of the tests' authority.
fn settings(dir: &Path) -> Vec<String> {
    let secret = dir.join("sessions");
    fs::write(&secret, "0123456789abcdef0123456789abcdef").unwrap();
    // Without a file, there is a port for clients without TLS.
    let file = dir.join("zoo.cfg");
    fs::write(&file, "# the settings stand elsewhere\n").unwrap();
    let (key, trust) = (pair("server", dir), fixture("ca.pem"));
    let (key, trust, list) = (key.display(), trust.display(), fixture("ca.crl"));
    let list = list.display();
    [
        format!("@{}", file.display()),
        "!clientPort".to_owned(),
        "!4lw.commands.whitelist".to_owned(),
        "maxClientCnxns=60".to_owned(),
        "zebu.hardened=true".to_owned(),
        format!("zebu.sessionSecretFile={}", secret.display()),
        "enforce.auth.enabled=true".to_owned(),
        "enforce.auth.schemes=x509".to_owned(),
        "secureClientPort=0".to_owned(),
        format!("ssl.keyStore.location={key}"),
        format!("ssl.trustStore.location={trust}"),
        "ssl.crl=true".to_owned(),
        format!("zebu.ssl.crlFile={list}"),
        "sslQuorum=true".to_owned(),
        format!("ssl.quorum.keyStore.location={key}"),
        format!("ssl.quorum.trustStore.location={trust}"),
        "admin.enableServer=true".to_owned(),
        "admin.serverPort=0".to_owned(),
        "admin.forceHttps=true".to_owned(),
        "admin.needClientAuth=true".to_owned(),
    ]
    .to_vec()
}

fn secure_port(member: &Running) -> u16 {
    member.server().secure_port().unwrap()
}

/// A session over TLS with the certificate of the tests' client, once the member serves.
fn session(member: &Running) -> Client {
    let port = tunnel(secure_port(member), config(Some("client"), Protocol::Tls13));
    let mut client = None;
    wait("a session over TLS", || {
        client = Client::hello(port, &Hello { timeout_ms: 30_000, ..Hello::default() }).ok();
        client.is_some()
    });
    client.unwrap()
}

/// The answer to these bytes without TLS, until the server closes the connection.
fn answer_in_the_clear(port: u16, bytes: &[u8]) -> Vec<u8> {
    // Only the leader has a port for learners.
    let Ok(mut stream) = TcpStream::connect((Ipv4Addr::LOCALHOST, port)) else {
        return Vec::new();
    };
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    let _ = stream.write_all(bytes);
    let mut answer = Vec::new();
    match stream.read_to_end(&mut answer) {
        Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => panic!("still open"),
        _ => answer,
    }
}

/// The answer to a four-letter word over TLS.
fn word(member: &Running, word: &str) -> String {
    let mut stream = connect(secure_port(member), config(Some("client"), Protocol::Tls13));
    let _ = stream.write_all(word.as_bytes());
    let mut answer = Vec::new();
    let _ = stream.read_to_end(&mut answer);
    String::from_utf8(answer).unwrap()
}

#[test]
fn an_ensemble_that_is_open_to_nobody_serves_those_with_a_certificate() {
    let dir = tempfile::tempdir().unwrap();
    let settings = settings(dir.path());
    let settings: Vec<&str> = settings.iter().map(String::as_str).collect();
    let three = Three::voters(&settings);
    let members: Vec<Running> = (1..=3).map(|id| three.start(id)).collect();
    assert!(members.iter().all(|member| member.server().port().is_none()), "nothing is plain");

    // A client with a certificate can work at every member.
    let mut client = session(&members[0]);
    let subject = who_am_i(&mut client).into_iter().find(|(scheme, _)| scheme == "x509").unwrap().1;
    let own = [(31, "x509", subject.as_str())];
    client.create_with("/mine", b"kept", &own, 0).unwrap();
    for member in &members {
        let mut other = session(member);
        other.call(op::SYNC, &Writer::new().string("/mine"));
        assert_eq!(other.get("/mine").unwrap().0, b"kept");
        other.close();
    }
    // No client may create a znode that every client can write.
    assert_eq!(client.create_with("/open", b"", OPEN, 0), Err(err::INVALID_ACL));
    let open = Writer::new().string("/mine").acl(OPEN).int(-1);
    assert_eq!(client.call(op::SET_ACL, &open).err, err::INVALID_ACL);

    for (id, member) in (1..).zip(&members) {
        // Other certificates, no certificate, and no TLS.
        for name in [None, Some("foreign"), Some("expired"), Some("revoked")] {
            assert!(!is_let_in(secure_port(member), config(name, Protocol::Tls13)), "{name:?}");
        }
        let greeting = [&[0, 0, 0, 45][..], &[0; 45]].concat();
        let ports = three.ports_of(id).into_iter();
        for port in ports.chain([secure_port(member), member.admin_port()]) {
            // The server may send a fatal TLS alert and nothing else.
            let answer = answer_in_the_clear(port, &greeting);
            assert!(answer.is_empty() || answer[0] == 0x15, "{port}: {answer:?}");
            let answer =
                answer_in_the_clear(port, b"GET /commands/ruok HTTP/1.1\r\nHost: x\r\n\r\n");
            assert!(answer.is_empty() || answer[0] == 0x15, "{port}: {answer:?}");
        }
        // Two four-letter words are answered.
        assert_eq!(word(member, "ruok"), "imok");
        assert!(word(member, "srvr").starts_with("Zookeeper version: "));
        for other in ["stat", "mntr", "conf", "cons", "dump", "envi", "wchs", "isro"] {
            let answer = word(member, other);
            assert!(
                answer.contains("is not executed because it is not in the whitelist"),
                "{answer}"
            );
        }
    }
    client.close();
}

/// At a port with an optional client certificate, a client without one gets no access.
#[test]
fn a_client_that_proves_nothing_does_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let settings = settings(dir.path());
    let want = ["ssl.clientAuth=want"];
    let settings: Vec<&str> = settings.iter().map(String::as_str).chain(want).collect();
    let running = Running::new(&settings);
    let port = tunnel(secure_port(&running), config(None, Protocol::Tls13));
    let mut nobody = Client::new(port);
    let read = Writer::new().string("/").bool(false);
    let reply = nobody.try_call(op::GET_DATA, &read);
    assert!(reply.is_none_or(|reply| reply.err == err::REQUIRES_AUTH), "it is served");
    // A password does not prove an identity either.
    let mut digest = Client::new(port);
    digest.auth("digest", "amy:pw");
    let reply = digest.try_call(op::GET_DATA, &read);
    assert!(reply.is_none_or(|reply| reply.err == err::REQUIRES_AUTH), "it is served");
    let mut client = session(&running);
    assert_eq!(client.call(op::GET_DATA, &read).err, err::OK);
}

/// The server refuses the profile with one insecure setting, and names the setting that secures it.
#[test]
fn one_hole_is_enough_for_a_refusal() {
    let dir = tempfile::tempdir().unwrap();
    let settings = settings(dir.path());
    for (hole, remedy) in [
        ("clientPort=0", "secureClientPort in place of clientPort"),
        ("4lw.commands.whitelist=mntr", "4lw.commands.whitelist=ruok,srvr"),
        ("zebu.maxConnectionsPerIdentity=0", "zebu.maxConnectionsPerIdentity is more than 0"),
        ("enforce.auth.schemes=digest", "each is sasl, x509 or one of a program of yours"),
    ] {
        let settings = settings.iter().map(String::as_str).chain([hole]);
        let refusal = refused_config(dir.path(), &settings.collect::<Vec<_>>());
        assert!(refusal.contains("zebu.hardened=true: "), "{hole}: {refusal}");
        assert!(refusal.contains(remedy), "{hole}: {refusal}");
    }
}

/// Whether the server answers a request on this connection.
fn is_served(mut client: Client) -> Option<Client> {
    let read = Writer::new().string("/").bool(false);
    client.try_call(op::GET_DATA, &read).map(|reply| {
        assert_eq!(reply.err, err::OK);
        client
    })
}

/// The subject of the certificate is the identity; all connections have the same address.
#[test]
fn a_certificate_has_so_many_connections() {
    let server = tls::start(&["zebu.maxConnectionsPerIdentity=2"]);
    let hello = Hello::default();
    let of = |name| {
        let port = tunnel(server.port, config(Some(name), Protocol::Tls13));
        Client::hello(port, &hello).ok().and_then(is_served)
    };
    let (first, second) = (of("client").unwrap(), of("client").unwrap());
    assert!(of("client").is_none());
    assert!(server.running.metric("identity_connections_rejected").unwrap() >= 1.0);
    let other = of("server").unwrap();
    second.vanish();
    wait("a connection is over", || of("client").is_some());
    drop((first, other));
}

/// The same limit applies to a SASL user, whatever else its connections have proved.
#[test]
fn a_user_of_sasl_has_so_many_connections() {
    let running = sasl::server(&[sasl::SCHEME, "zebu.maxConnectionsPerIdentity=2"]);
    // With DIGEST-MD5, the second token proves the identity.
    let of = |user, password| {
        let mut client = running.client();
        sasl::try_log_in(&mut client, user, password).then_some(client).and_then(is_served)
    };
    let (first, second) = (of("amy", "one").unwrap(), of("amy", "one").unwrap());
    assert!(of("amy", "one").is_none());
    assert!(running.metric("identity_connections_rejected").unwrap() >= 1.0);
    let other = of("bob", "two").unwrap();
    second.vanish();
    wait("a connection is over", || of("amy", "one").is_some());
    drop((first, other));
}

//! Handshakes in memory between both sides, with certificates that openssl made; and a matrix of
//! refused certificates.

#![expect(clippy::disallowed_methods, reason = "a test reads the fixtures")]

use std::path::PathBuf;
use std::sync::Arc;

use rustls::pki_types::ServerName;
use rustls::{ClientConnection, ServerConnection};

use super::*;
use crate::certificate::Facts;
use crate::crypto;
use crate::store::{Contents, PasswordSource, StoreFile};

fn path(name: &str) -> PathBuf {
    [env!("CARGO_MANIFEST_DIR"), "tests/fixtures", name].iter().collect()
}

fn file(name: &str) -> StoreFile {
    StoreFile { path: path(name), password: PasswordSource::Inline("testpass".into()) }
}

/// Reads a key and its certificate at a moment when the certificate is valid, as the peer under
/// test has no scruples.
fn identity(name: &str, at: &str) -> Identity {
    let mut text = std::fs::read(path(&format!("{name}.key"))).unwrap();
    text.extend(std::fs::read(path(&format!("{name}.pem"))).unwrap());
    Contents::read(&text, None).unwrap().identity(at.parse().unwrap()).unwrap()
}

const NOW: &str = "2027-01-01T00:00:00Z";

fn trusting(name: &str) -> Common {
    Common::trusting(file(name).trusted().unwrap())
}

fn facts(name: &str) -> Facts {
    Facts::of(&file(name).trusted().unwrap()[0]).unwrap()
}

/// Runs a handshake to its end; the version, and how many certificates the server has seen.
fn shake(
    client: ClientConfig,
    server: ServerConfig,
    name: &str,
) -> Result<(rustls::ProtocolVersion, usize), rustls::Error> {
    let server = shaken(&Arc::new(client), &Arc::new(server), name)?;
    Ok((server.protocol_version().unwrap(), server.peer_certificates().map_or(0, <[_]>::len)))
}

/// The server's side after a handshake.
fn shaken(
    client: &Arc<ClientConfig>,
    server: &Arc<ServerConfig>,
    name: &str,
) -> Result<ServerConnection, rustls::Error> {
    let name = ServerName::try_from(name.to_owned()).unwrap();
    let mut client = ClientConnection::new(client.clone(), name)?;
    let mut server = ServerConnection::new(server.clone())?;
    for _ in 0..10 {
        let mut bytes = Vec::new();
        client.write_tls(&mut bytes).unwrap();
        while !bytes.is_empty() {
            let read = server.read_tls(&mut bytes.as_slice()).unwrap();
            bytes.drain(..read);
            server.process_new_packets()?;
        }
        server.write_tls(&mut bytes).unwrap();
        while !bytes.is_empty() {
            let read = client.read_tls(&mut bytes.as_slice()).unwrap();
            bytes.drain(..read);
            client.process_new_packets()?;
        }
    }
    assert!(!client.is_handshaking() && !server.is_handshaking());
    Ok(server)
}

fn server_of(name: &str, at: &str, client_auth: ClientAuth) -> ServerConfig {
    server(&trusting("ca.pem"), &identity(name, at), client_auth).unwrap()
}

#[test]
fn both_versions_are_spoken_with_certificates_on_both_sides() {
    let alice = identity("client", NOW);
    for protocol in PROTOCOLS {
        let common = Common { protocols: vec![protocol], ..trusting("ca.pem") };
        let ours = client(&common, Some(&alice), true).unwrap();
        let (version, certificates) =
            shake(ours, server_of("server", NOW, ClientAuth::Need), "zk1.example.org").unwrap();
        assert_eq!((version, certificates), (protocol.version().version, 1));
    }
}

#[test]
fn client_auth_is_none_want_or_need() {
    let anonymous = || client(&trusting("ca.pem"), None, true).unwrap();
    let alice = || client(&trusting("ca.pem"), Some(&identity("client", NOW)), true).unwrap();
    let ours = |client_auth| server_of("server", NOW, client_auth);
    assert_eq!(shake(alice(), ours(ClientAuth::None), "localhost").unwrap().1, 0);
    assert_eq!(shake(anonymous(), ours(ClientAuth::Want), "localhost").unwrap().1, 0);
    assert_eq!(shake(alice(), ours(ClientAuth::Want), "localhost").unwrap().1, 1);
    let refused = shake(anonymous(), ours(ClientAuth::Need), "localhost");
    assert_eq!(refused, Err(rustls::Error::NoCertificatesPresented));
    let foreign = client(&trusting("ca.pem"), Some(&identity("foreign", NOW)), true).unwrap();
    assert!(shake(foreign, ours(ClientAuth::Want), "localhost").is_err());
    assert_eq!("WANT".parse(), Ok(ClientAuth::Want));
    assert!(
        "maybe".parse::<ClientAuth>().unwrap_err().to_string().contains("use none, want, need")
    );
}

#[test]
fn certificates_that_are_not_good_are_refused_on_both_sides() {
    let revocations = file("ca.crl").revocations().unwrap();
    let cases = [
        ("foreign", NOW, "UnknownIssuer"),
        ("expired", "2020-01-15T00:00:00Z", "Expired"),
        ("future", "2090-06-01T00:00:00Z", "NotValidYet"),
        ("revoked", NOW, "Revoked"),
    ];
    for (name, at, word) in cases {
        let common = Common { revocations: revocations.clone(), ..trusting("ca.pem") };
        let ours = client(&common, None, false).unwrap();
        let error = shake(ours, server_of(name, at, ClientAuth::None), "localhost").unwrap_err();
        assert!(format!("{error:?}").contains(word), "{name}: {error:?}");

        let theirs = client(&trusting("ca.pem"), Some(&identity(name, at)), true).unwrap();
        let ours = server(&common, &identity("server", NOW), ClientAuth::Need).unwrap();
        let error = shake(theirs, ours, "localhost").unwrap_err();
        assert!(format!("{error:?}").contains(word), "{name}: {error:?}");
    }
    // Beside the list that revokes one, another of the same authority is good.
    let common = Common { revocations, ..trusting("ca.pem") };
    let ours = client(&common, None, true).unwrap();
    shake(ours, server_of("server", NOW, ClientAuth::None), "localhost").unwrap();
}

/// Clients that serve more than ZooKeeper offer protocols of HTTP, and name hosts that no
/// certificate is for.
#[test]
fn offers_of_other_protocols_and_other_names_do_no_harm() {
    for protocol in PROTOCOLS {
        let common = Common { protocols: vec![protocol], ..trusting("ca.pem") };
        let mut theirs = client(&common, None, false).unwrap();
        theirs.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
        for name in ["zk1.example.org", "elsewhere.example.com", "10.0.0.7"] {
            let ours = server_of("server", NOW, ClientAuth::None);
            let (version, _) = shake(theirs.clone(), ours, name).unwrap();
            assert_eq!(version, protocol.version().version, "{name}");
        }
    }
}

/// Both directions of a port between servers: each connection is a full handshake, as a ticket
/// would outlive a certificate.
#[test]
fn between_servers_nothing_is_resumed() {
    let full = Some(rustls::HandshakeKind::Full);
    for protocol in PROTOCOLS {
        let files = PortFiles {
            key_store: file("keytool17.p12"),
            trust_store: Some(file("trust17.p12")),
            revocations: None,
            ocsp: false,
            client_auth: ClientAuth::Need,
            protocols: vec![protocol],
            suites: None,
            dials: true,
        };
        let port = files.read(NOW.parse().unwrap()).unwrap();
        let (dialled, dials) = (Arc::new(port.server), port.client.unwrap());
        let mut usual = dials.clone();
        usual.resumption = rustls::client::Resumption::default();
        let (usual, dials) = (Arc::new(usual), Arc::new(dials));
        for time in 0..3 {
            let kind = |client| shaken(client, &dialled, "localhost").unwrap().handshake_kind();
            assert_eq!(kind(&dials), full);
            // A client that keeps tickets resumes.
            assert_eq!(kind(&usual) == full, time == 0, "{protocol:?}");
        }
    }
}

#[test]
fn a_certificate_in_the_trust_store_is_trusted_as_itself() {
    // An authority's certificate as a server's own: what `openssl req -x509` makes without further
    // words.
    let ours = server(&trusting("ca.pem"), &identity("ca", NOW), ClientAuth::None).unwrap();
    let theirs = client(&trusting("ca.pem"), None, false).unwrap();
    shake(theirs, ours, "localhost").unwrap();
    let ours = server(&trusting("ca.pem"), &identity("ca", NOW), ClientAuth::None).unwrap();
    let theirs = client(&trusting("other-ca.pem"), None, false).unwrap();
    assert!(shake(theirs, ours, "localhost").is_err());
    // Its dates count nevertheless.
    let ours = server_of("expired", "2020-01-15T00:00:00Z", ClientAuth::None);
    let theirs = client(&trusting("expired.pem"), None, false).unwrap();
    let error = shake(theirs, ours, "localhost").unwrap_err();
    assert!(format!("{error:?}").contains("Expired"), "{error:?}");
}

#[test]
fn certificates_of_version_1_are_good_below_a_trusted_one() {
    for protocol in PROTOCOLS {
        for name in ["version1-rsa", "version1-ec"] {
            let common = Common { protocols: vec![protocol], ..trusting("ca.pem") };
            let theirs = client(&common, Some(&identity(name, NOW)), false).unwrap();
            let seen = shake(theirs, server_of(name, NOW, ClientAuth::Need), "localhost").unwrap();
            assert_eq!(seen, (protocol.version().version, 1), "{name}");
        }
    }
    // Their only name is the common name.
    let checked = || client(&trusting("ca.pem"), None, true).unwrap();
    let shown = || server_of("version1-ec", NOW, ClientAuth::None);
    shake(checked(), shown(), "version1-ec").unwrap();
    assert!(shake(checked(), shown(), "version1-rsa").is_err());
    // In a trust store it is trusted as itself.
    let theirs = client(&trusting("version1-ec.pem"), None, false).unwrap();
    shake(theirs, shown(), "localhost").unwrap();
}

#[test]
fn certificates_of_version_1_are_refused_when_a_check_fails_or_cannot_be_made() {
    let plain = || trusting("ca.pem");
    let revocations = file("ca.crl").revocations().unwrap();
    let cases = [
        ("version1-ec", NOW, trusting("other-ca.pem"), "UnknownIssuer"),
        ("version1-forged", NOW, plain(), "BadSignature"),
        ("version1-expired", "2020-01-15T00:00:00Z", plain(), "Expired"),
        ("version1-ec", NOW, Common { revocations, ..plain() }, "revocation lists"),
    ];
    for (name, at, common, word) in cases {
        let ours = client(&common, None, false).unwrap();
        let error = shake(ours, server_of(name, at, ClientAuth::None), "localhost").unwrap_err();
        assert!(format!("{error} {error:?}").contains(word), "{name}: {error:?}");

        let theirs = client(&plain(), Some(&identity(name, at)), true).unwrap();
        let ours = server(&common, &identity("server", NOW), ClientAuth::Need).unwrap();
        let error = shake(theirs, ours, "localhost").unwrap_err();
        assert!(format!("{error} {error:?}").contains(word), "{name}: {error:?}");
    }
}

#[test]
fn whoever_shows_a_certificate_of_version_1_has_its_key() {
    for protocol in PROTOCOLS {
        let common = Common { protocols: vec![protocol], ..trusting("ca.pem") };
        let stolen = Identity { key: identity("client", NOW).key, ..identity("version1-ec", NOW) };
        let ours = client(&common, None, false).unwrap();
        let theirs = server(&common, &stolen, ClientAuth::None).unwrap();
        let error = shake(ours, theirs, "localhost").unwrap_err();
        assert!(format!("{error:?}").contains("BadSignature"), "{error:?}");
    }
}

#[test]
fn the_servers_name_is_checked_unless_that_is_off() {
    let checked = || client(&trusting("ca.pem"), None, true).unwrap();
    let unchecked = || client(&trusting("ca.pem"), None, false).unwrap();
    let with_names = || server_of("server", NOW, ClientAuth::None);
    for name in ["zk1.example.org", "ZK1.example.org", "a.wild.example.org", "127.0.0.1", "::1"] {
        shake(checked(), with_names(), name).unwrap_or_else(|error| panic!("{name}: {error}"));
    }
    for name in ["zk2.example.org", "a.b.wild.example.org", "127.0.0.2", "::2"] {
        let error = shake(checked(), with_names(), name).unwrap_err().to_string();
        assert!(error.contains(&format!("and not for {name}")), "{error}");
        shake(unchecked(), with_names(), name).unwrap();
    }
    let without = || server_of("cn-only", NOW, ClientAuth::None);
    shake(checked(), without(), "cn.example.org").unwrap();
    assert!(shake(checked(), without(), "zk1.example.org").is_err());
}

#[test]
fn hosts_are_matched_as_zookeeper_matches_them() {
    // The verdicts of ZooKeeper's own verifier: file, host, whether it matches.
    let table = std::fs::read_to_string(path("hostnames.txt")).unwrap();
    assert!(table.lines().count() > 20);
    for line in table.lines() {
        let [file, host, verdict] = line.split('\t').collect::<Vec<_>>()[..] else {
            panic!("{line}")
        };
        let ours = verify_hostname(&facts(file), &[host]).is_ok();
        assert_eq!(ours, verdict == "true", "{line}");
    }
}

#[test]
fn settings_that_contradict_each_other_are_refused() {
    let tls13 = cipher_suites("TLS_AES_128_GCM_SHA256").unwrap();
    let common = Common { suites: Some(tls13), ..trusting("ca.pem") };
    let error = client(&common, None, true).unwrap_err().to_string();
    assert!(error.starts_with("no cipher suite is left for TLSv1.2; add one"), "{error}");
    let error = client(&Common::trusting(Vec::new()), None, true).unwrap_err().to_string();
    assert_eq!(error, "no certificate is trusted; set the trust store");
    let common = Common { protocols: Vec::new(), ..trusting("ca.pem") };
    assert!(
        client(&common, None, true).unwrap_err().to_string().contains("enable TLSv1.2 or TLSv1.3")
    );
}

#[test]
fn suites_are_taken_from_the_list_alone() {
    let common = Common {
        protocols: vec![Protocol::Tls12],
        suites: Some(cipher_suites("TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256").unwrap()),
        ..trusting("ca.pem")
    };
    let ours = client(&common, None, true).unwrap();
    // The server's key is of RSA.
    assert!(shake(ours, server_of("server", NOW, ClientAuth::None), "localhost").is_err());
}

/// The same tests run with the validated cryptography: `cargo test -p zebu-auth --features fips`.
#[test]
fn both_sides_say_whether_their_cryptography_is_validated() {
    let ours = client(&trusting("ca.pem"), None, true).unwrap();
    let theirs = server_of("server", NOW, ClientAuth::None);
    assert_eq!((ours.fips(), theirs.fips()), (crypto::IS_FIPS, crypto::IS_FIPS));
    let chacha = cipher_suites("TLS_CHACHA20_POLY1305_SHA256");
    assert_eq!(chacha.is_err(), crypto::IS_FIPS, "{chacha:?}");
    shake(ours, theirs, "localhost").unwrap();
}

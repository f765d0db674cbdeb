//! Stores of keytool and OpenSSL (`tests/fixtures/make.sh`) that are read, and damaged stores that
//! are refused with a sentence.

#![expect(clippy::disallowed_methods, reason = "a test reads and writes files")]

use std::path::PathBuf;

use jiff::Timestamp;

use super::*;

const PASSWORD: &str = "testpass";

fn fixture(name: &str) -> PathBuf {
    [env!("CARGO_MANIFEST_DIR"), "tests/fixtures", name].iter().collect()
}

fn store(name: &str, password: Option<&str>) -> StoreFile {
    let password =
        password.map_or(PasswordSource::None, |text| PasswordSource::Inline(text.into()));
    StoreFile { path: fixture(name), password }
}

fn now() -> Timestamp {
    "2030-01-01T00:00:00Z".parse().unwrap()
}

fn der(name: &str) -> Vec<u8> {
    let text = std::fs::read(fixture(name)).unwrap();
    pem::blocks(&text).unwrap().remove(0).der.to_vec()
}

fn refused(name: &str, password: Option<&str>) -> String {
    let text = store(name, password).identity(now()).unwrap_err().to_string();
    assert!(text.contains(name), "{text}");
    assert!(!text.contains('\n'), "{text}");
    password.inspect(|password| assert!(!text.contains(*password), "{text}"));
    text
}

#[test]
fn every_form_of_a_key_store_gives_the_same_key_and_chain() {
    let key = der("server.key");
    let (server, ca) = (der("server.pem"), der("ca.pem"));
    for name in [
        "key-first.pem",
        "certificate-first-encrypted.pem",
        "openssl3.p12",
        "openssl-legacy.p12",
        "openssl-nomac.p12",
        "keytool17.p12",
        "keytool8.p12",
        "keytool.jks",
        "pkcs12-inside.jks",
    ] {
        let identity =
            store(name, Some(PASSWORD)).identity(now()).unwrap_or_else(|error| panic!("{error}"));
        assert_eq!(identity.key.secret_der(), key, "{name}");
        assert_eq!(identity.chain.len(), 2, "{name}");
        assert_eq!((&*identity.chain[0], &*identity.chain[1]), (&server[..], &ca[..]), "{name}");
        assert_eq!(identity.facts.common_name.as_deref(), Some("zk1.example.org"));
    }
}

#[test]
fn every_form_of_a_key_is_read() {
    let certificate = std::fs::read(fixture("server.pem")).unwrap();
    for name in [
        "server.key",
        "server-pkcs1.key",
        "server-aes.key",
        "server-aes128-sha512.key",
        "server-des3.key",
        "server-pbe3des.key",
    ] {
        let mut text = std::fs::read(fixture(name)).unwrap();
        text.extend_from_slice(&certificate);
        let contents = Contents::read(&text, Some(&PASSWORD.into())).unwrap();
        contents.identity(now()).unwrap_or_else(|fault| panic!("{name}: {fault}"));
    }
    let mut sec1 = std::fs::read(fixture("client-sec1.key")).unwrap();
    sec1.extend(std::fs::read(fixture("client.pem")).unwrap());
    let identity = Contents::read(&sec1, None).unwrap().identity(now()).unwrap();
    assert!(matches!(identity.key, PrivateKeyDer::Sec1(_)));
}

#[test]
fn trust_stores_of_every_kind_have_their_certificates() {
    let ca = der("ca.pem");
    let other = der("other-ca.pem");
    for name in ["ca.pem", "trust17.p12", "trust8.p12", "openssl-trust.p12"] {
        let trusted =
            store(name, Some(PASSWORD)).trusted().unwrap_or_else(|error| panic!("{error}"));
        assert_eq!(trusted.len(), 1, "{name}");
        assert_eq!(&*trusted[0], &ca[..], "{name}");
    }
    // Java reads the certificates of a JKS store without its password.
    for password in [None, Some(PASSWORD)] {
        let mut trusted = store("trust.jks", password).trusted().unwrap();
        trusted.sort_by_key(|certificate| certificate.len());
        assert_eq!((&*trusted[0], &*trusted[1]), (&other[..], &ca[..]));
    }
}

#[test]
fn empty_and_unicode_passwords_are_those_of_openssl() {
    store("openssl-nopass.p12", None).identity(now()).unwrap();
    store("openssl-nopass.p12", Some("")).identity(now()).unwrap();
    store("openssl-unicode.p12", Some("pässwörd")).identity(now()).unwrap();
}

#[test]
fn a_wrong_password_is_named_as_such() {
    for name in [
        "certificate-first-encrypted.pem",
        "openssl3.p12",
        "openssl-legacy.p12",
        "openssl-nomac.p12",
        "keytool17.p12",
        "keytool8.p12",
        "keytool.jks",
    ] {
        assert!(refused(name, Some("Wr0ng-one")).contains("the password is wrong"), "{name}");
        assert!(refused(name, None).contains("no password is set"), "{name}");
    }
    let text = refused("keypass.jks", Some(PASSWORD));
    assert!(text.contains("another password than the store"), "{text}");
}

#[test]
fn a_store_that_cannot_be_used_is_refused_with_what_helps() {
    let cases = [
        (
            "mismatched.pem",
            "does not belong to the certificate of \"CN=zk1.example.org,L=here+OU=Servers",
        ),
        ("keytool.jceks", "JCEKS store, which is not supported; convert it: keytool"),
        ("server.der", "perhaps a bare certificate; convert it to PEM"),
        ("make.sh", "not a store of any known kind; use PEM, PKCS12 or JKS"),
        ("ca.pem", "there is no private key in it; name a key store here"),
        ("server.key", "but no certificate; add the certificate"),
        ("server-proctype.key", "Proc-Type"),
        ("missing.p12", "cannot be read: No such file"),
    ];
    for (name, words) in cases {
        let text = refused(name, Some(PASSWORD));
        assert!(text.contains(words), "{text}");
    }
}

#[test]
fn a_certificate_out_of_its_dates_is_refused() {
    for (name, words) in [("expired", "has expired"), ("future", "is not valid yet")] {
        let mut text = std::fs::read(fixture(&format!("{name}.key"))).unwrap();
        text.extend(std::fs::read(fixture(&format!("{name}.pem"))).unwrap());
        let fault = Contents::read(&text, None).unwrap().identity(now()).unwrap_err().to_string();
        assert!(fault.contains(words) && fault.contains("renew the certificate"), "{fault}");
    }
}

#[test]
fn the_password_of_a_file_is_its_first_line() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("password");
    for text in ["testpass", "testpass\n", "testpass\r\nmore"] {
        std::fs::write(&path, text).unwrap();
        let password = PasswordSource::File(path.clone());
        StoreFile { path: fixture("keytool17.p12"), password }.identity(now()).unwrap();
    }
    let missing = StoreFile {
        path: fixture("keytool17.p12"),
        password: PasswordSource::File(dir.path().join("none")),
    };
    assert!(missing.identity(now()).unwrap_err().to_string().contains("none: cannot be read"));
}

#[test]
fn revocation_lists_are_read_from_pem_and_der() {
    assert_eq!(store("ca.crl", None).revocations().unwrap().len(), 1);
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("list");
    std::fs::write(&path, der("ca.crl")).unwrap();
    let file = StoreFile { path, password: PasswordSource::None };
    assert_eq!(&*file.revocations().unwrap()[0], &der("ca.crl")[..]);
    assert!(
        store("ca.pem", None).revocations().unwrap_err().to_string().contains("no revocation list")
    );
}

#[test]
fn a_block_without_an_end_is_named_by_its_line() {
    let text = b"some words\n-----BEGIN CERTIFICATE-----\nAAAA\n";
    let fault = Contents::read(text, None).unwrap_err().to_string();
    assert!(fault.starts_with("line 2: the CERTIFICATE has no END line"), "{fault}");
    let text = b"-----BEGIN CERTIFICATE-----\n%%%\n-----END CERTIFICATE-----\n";
    let fault = Contents::read(text, None).unwrap_err().to_string();
    assert!(fault.starts_with("line 1: the CERTIFICATE is not base64"), "{fault}");
}

#[test]
fn a_store_that_asks_for_endless_rounds_is_refused_at_once() {
    // The rounds of keytool's MAC are its last number: 10,000 as 0x2710, two bytes.
    let mut bytes = std::fs::read(fixture("trust17.p12")).unwrap();
    let end = bytes.len();
    assert_eq!(bytes[end - 4..], [2, 2, 0x27, 0x10]);
    bytes.splice(end - 4.., [2, 4, 0x7f, 0xff, 0xff, 0xff]);
    for at in [2, find_mac(&bytes)] {
        let length = u16::from_be_bytes([bytes[at], bytes[at + 1]]);
        if at == 2 {
            bytes[at..at + 2].copy_from_slice(&(length + 2).to_be_bytes());
        } else {
            bytes[at + 1] += 2;
        }
    }
    let fault = Contents::read(&bytes, Some(&PASSWORD.into())).unwrap_err().to_string();
    assert!(fault.contains("rounds, more than are accepted"), "{fault}");
}

/// Where the MAC's sequence begins: the last element of the file.
fn find_mac(bytes: &[u8]) -> usize {
    (0..bytes.len() - 2)
        .rev()
        .find(|at| {
            bytes[*at] == SEQUENCE && *at + 2 + usize::from(bytes[*at + 1]) + 2 == bytes.len()
        })
        .expect("there is a MAC")
}

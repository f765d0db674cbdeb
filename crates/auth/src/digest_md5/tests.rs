//! Exchanges between Java programs, byte for byte, and refused exchanges.

use super::*;

/// Between Java servers of 3.9.5 (user and password "test"): challenge, response, end.
const RECORDED: &str = include_str!("../../tests/fixtures/sasl-digest-md5.txt");

fn recorded() -> Vec<[Vec<u8>; 3]> {
    let lines: Vec<Vec<u8>> = RECORDED
        .lines()
        .filter(|line| !line.starts_with('#'))
        .map(|line| line.as_bytes().to_vec())
        .collect();
    assert!(lines.len() >= 15);
    lines.chunks_exact(3).map(|chunk| chunk.to_vec().try_into().unwrap()).collect()
}

fn between(text: &[u8], from: &str, to: &str) -> String {
    let text = std::str::from_utf8(text).unwrap();
    let start = text.find(from).unwrap() + from.len();
    let end = start + text[start..].find(to).unwrap();
    text[start..end].to_owned()
}

fn test_user(user: &str) -> Option<Secret> {
    (user == "test").then(|| Secret::from("test"))
}

fn challenged(challenge: &[u8]) -> Server {
    let mut server = Server::with_nonce(QUORUM, &between(challenge, "nonce=\"", "\""));
    assert_eq!(server.step(b"", test_user), Ok(Step::Challenge(challenge.to_vec())));
    server
}

#[test]
fn the_server_says_what_java_servers_said() {
    for [challenge, response, end] in recorded() {
        let Ok(Step::Done { token, who }) = challenged(&challenge).step(&response, test_user)
        else {
            panic!("refused")
        };
        assert_eq!(token, end);
        assert_eq!(who, Authenticated { user: "test".into(), authorization: "test".into() });
        assert!(who.is_itself());
    }
}

#[test]
fn the_client_says_what_java_servers_said() {
    for [challenge, response, end] in recorded() {
        let mut client = Client::new(QUORUM, "test".into(), "test".into(), [0; NONCE_BYTES])
            .with_cnonce(&between(&response, "cnonce=\"", "\""));
        assert_eq!(client.step(&challenge), Ok(Some(response)));
        assert!(!client.is_done());
        assert_eq!(client.step(&end), Ok(None));
        assert!(client.is_done());
        assert_eq!(client.step(&end), Err(Failure::Order));
    }
}

#[test]
fn a_wrong_password_and_an_unknown_user_are_denied_alike() {
    let [challenge, response, _] = recorded().remove(0);
    let wrong = challenged(&challenge).step(&response, |_| Some("Test".into()));
    assert_eq!(wrong, Err(Failure::Denied("test".into())));
    assert_eq!(challenged(&challenge).step(&response, |_| None), wrong);
}

#[test]
fn an_unknown_user_is_not_let_in_with_an_empty_password() {
    let mut server = Server::new(CLIENTS, [1; NONCE_BYTES]);
    let Ok(Step::Challenge(challenge)) = server.step(b"", |_| None) else { panic!("no challenge") };
    let mut client = Client::new(CLIENTS, "eve".into(), "".into(), [2; NONCE_BYTES]);
    let response = client.step(&challenge).unwrap().unwrap();
    assert_eq!(server.step(&response, |_| None), Err(Failure::Denied("eve".into())));
}

#[test]
fn a_changed_directive_is_refused() {
    let [challenge, response, _] = recorded().remove(0);
    let response = String::from_utf8(response).unwrap();
    let nonce = between(&challenge, "nonce=\"", "\"");
    let cases = [
        ("charset=utf-8", "charset=utf-16", Failure::Mismatch("charset")),
        ("realm=\"zk-quorum-sasl-md5\"", "realm=\"zk-sasl-md5\"", Failure::Mismatch("realm")),
        ("realm=\"zk-quorum-sasl-md5\",", "", Failure::Mismatch("realm")),
        (nonce.as_str(), "AAAA", Failure::Mismatch("nonce")),
        ("nc=00000001", "nc=00000002", Failure::Mismatch("nonce count")),
        ("qop=auth", "qop=auth-conf", Failure::Mismatch("quality of protection")),
        ("zookeeper-quorum/", "zookeeper/", Failure::Mismatch("digest-uri")),
        (
            "username=\"test\"",
            "username=\"test",
            Failure::Message("a comma is missing after a value"),
        ),
        ("username=\"test\",", "", Failure::Message("a directive is missing")),
        ("nc=00000001", "nc=00000001,nc=00000001", Failure::Message("a directive is there twice")),
        ("authzid=\"test\"", "authzid=\"super\"", Failure::Denied("test".into())),
        ("cnonce=\"", "cnonce=\"x", Failure::Denied("test".into())),
    ];
    for (from, to, failure) in cases {
        let changed = response.replacen(from, to, 1);
        assert_ne!(changed, response);
        assert_eq!(
            challenged(&challenge).step(changed.as_bytes(), test_user),
            Err(failure),
            "{changed}"
        );
    }
}

#[test]
fn every_exchange_has_one_attempt() {
    let [challenge, response, _] = recorded().remove(0);
    let mut server = challenged(&challenge);
    server.step(&response, |_| None).unwrap_err();
    assert_eq!(server.step(&response, test_user), Err(Failure::Order));
    let mut server = Server::new(CLIENTS, [0; NONCE_BYTES]);
    assert!(matches!(server.step(b"x", test_user), Err(Failure::Message(_))));
    assert_eq!(server.step(b"", test_user), Err(Failure::Order));
}

#[test]
fn a_server_without_the_password_is_found_out() {
    let [challenge, _, end] = recorded().remove(0);
    let mut client = Client::new(QUORUM, "test".into(), "test".into(), [7; NONCE_BYTES]);
    client.step(&challenge).unwrap();
    assert_eq!(client.step(&end), Err(Failure::Server));
    assert!(!client.is_done());
}

#[test]
fn a_client_refuses_what_it_does_not_speak() {
    let step = |challenge: &str| {
        Client::new(CLIENTS, "u".into(), "p".into(), [7; NONCE_BYTES]).step(challenge.as_bytes())
    };
    let good = "realm=\"r\",nonce=\"n\",algorithm=md5-sess";
    assert!(step(good).is_ok());
    assert_eq!(
        step(&format!("{good},qop=\"auth-int,auth-conf\"")),
        Err(Failure::Mismatch("quality of protection"))
    );
    assert!(step(&format!("{good},qop=\"auth-int, auth\"")).is_ok());
    assert_eq!(step("nonce=\"n\",algorithm=md5"), Err(Failure::Mismatch("algorithm")));
    assert_eq!(step(&format!("{good},realm=\"s\"")), Err(Failure::Mismatch("realm")));
    assert!(step(&format!("{good},realm=\"zk-sasl-md5\"")).is_ok());
    assert!(step(&"x".repeat(MESSAGE_BYTES_MAX + 1)).is_err());
}

#[test]
fn nothing_that_is_printed_has_the_password() {
    let mut server = Server::new(CLIENTS, [1; NONCE_BYTES]);
    let mut client = Client::new(CLIENTS, "alice".into(), "s3cret".into(), [2; NONCE_BYTES]);
    let Ok(Step::Challenge(challenge)) = server.step(b"", test_user) else {
        panic!("no challenge")
    };
    let response = client.step(&challenge).unwrap().unwrap();
    let denied = server.step(&response, |_| Some("other-s3cret".into())).unwrap_err();
    let shown = format!("{server:?} {client:?} {denied:?} {denied}");
    assert!(!shown.contains("s3cret") && shown.contains("alice"), "{shown}");
}

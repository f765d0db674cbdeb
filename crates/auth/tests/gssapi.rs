//! The exchange of RFC 4752, over a simulated context.

use zebu_auth::gssapi::{Authenticated, Failure, Server, Step, TOKEN_BYTES_MAX};
use zebu_testkit::gssapi::{PEER, Played, refused};

/// Plays an exchange and returns its tokens and its end.
fn exchange(is_mutual: bool) -> (Vec<Vec<u8>>, Authenticated) {
    let (mut client, mut server) = (Played::client(is_mutual), Played::server(is_mutual));
    let mut tokens = vec![client.begin().unwrap()];
    loop {
        match server.step(tokens.last().unwrap()).unwrap() {
            Step::Challenge(token) => {
                let answer = client.step(&token).unwrap().unwrap();
                tokens.extend([token, answer]);
            }
            Step::Done(who) => {
                // The server ends without a token.
                assert_eq!(client.step(b""), Ok(None));
                client.step(b"").unwrap_err();
                server.step(b"").unwrap_err();
                return (tokens, who);
            }
        }
    }
}

/// The tokens of RFC 4752, section 3, with the numbers of Java's server.
#[test]
fn both_sides_agree_on_no_layer() {
    let (tokens, who) = exchange(true);
    assert_eq!(tokens, [&b"ticket"[..], b"proof", b"", b"s\x01\x01\0\0", b"c\x01\0\0\0"]);
    assert_eq!(who.user, PEER);
    assert!(who.is_itself());
    let (tokens, _) = exchange(false);
    assert_eq!(tokens, [&b"ticket"[..], b"s\x01\x01\0\0", b"c\x01\0\0\0"]);
}

/// A server that has sent its offer of protection.
fn offered() -> Server<Played> {
    let mut server = Played::server(false);
    assert!(matches!(server.step(b"ticket"), Ok(Step::Challenge(_))));
    server
}

#[test]
fn a_server_takes_no_other_answer() {
    for (answer, said) in [
        (&b"c\x01\0\0"[..], "an agreement that is too short"),
        (b"c", "an agreement that is too short"),
        (b"c\0\0\0\0", "a security layer"),
        (b"c\x02\0\0\0", "a security layer"),
        (b"c\x05\0\xff\xff", "a security layer"),
        (b"c\x01\0\0\0\xff", "not UTF-8"),
        (b"s\x01\0\0\0", "Kerberos: played"),
        (b"", "Kerberos: played"),
        (&[b'c'; TOKEN_BYTES_MAX + 1], "too long"),
    ] {
        let mut server = offered();
        let failure = server.step(answer).unwrap_err().to_string();
        assert!(failure.contains(said), "{failure}");
        // The right one comes too late.
        server.step(b"c\x01\0\0\0").unwrap_err();
    }
    let acting = offered().step(b"c\x01\0\0\0bob@ZEBU.TEST").unwrap();
    let Step::Done(who) = acting else { panic!("{acting:?}") };
    assert_eq!((&*who.user, &*who.authorization), (PEER, "bob@ZEBU.TEST"));
    assert!(!who.is_itself());
    let mut early = Played::server(true);
    early.step(b"ticket").unwrap();
    early.step(b"c\x01\0\0\0").unwrap_err();
}

#[test]
fn a_client_believes_no_server_that_proves_nothing() {
    for (challenges, said) in [
        (&[&b""[..]][..], "it may not know Kerberos"),
        (&[b"nonsense"], "Kerberos: played"),
        (&[b"proof", b""], "Kerberos: played"),
        (&[b"proof", b"c\x01\x01\0\0"], "Kerberos: played"),
        (&[b"proof", b"s\x01\x01"], "an offer that is too short"),
        (&[b"proof", b"s\x06\x01\0\0"], "requires a security layer"),
        (&[b"proof", b"s\x07\x01\0\0", b"more"], "behind the agreement"),
    ] {
        let mut client = Played::client(true);
        client.begin().unwrap();
        let (last, before) = challenges.split_last().unwrap();
        before.iter().for_each(|token| drop(client.step(token).unwrap().unwrap()));
        let failure = client.step(last).unwrap_err().to_string();
        assert!(failure.contains(said), "{failure}");
        client.step(b"").unwrap_err();
        client.begin().unwrap_err();
    }
}

#[test]
fn a_failure_is_one_line_and_names_the_mechanism() {
    for (failure, said) in [
        (Failure::from(refused()), "Kerberos: played"),
        (Failure::Message("a token that is too long"), "GSSAPI: a token that is too long"),
    ] {
        assert_eq!(failure.to_string(), said);
    }
}

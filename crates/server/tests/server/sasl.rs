//! Clients that authenticate with SASL DIGEST-MD5.

use std::io::{Read as _, Write as _};
use std::path::Path;

use zebu_auth::digest_md5::{CLIENTS, Client as Exchange, NONCE_BYTES};
use zebu_server::config::Secret;
use zebu_testkit::connection::Reply;
use zebu_testkit::wire::{Writer, err};

use crate::client::Client;
use crate::running::{Running, config};

const ALL: i32 = 31;
const READ: i32 = 1;
const SASL: i32 = 102;
pub const SCHEME: &str =
    "authProvider.1=org.apache.zookeeper.server.auth.SASLAuthenticationProvider";

/// A server with the users amy, bob, root, super, zoo and a@b@c.
pub fn server(settings: &[&str]) -> Running {
    let dir = tempfile::tempdir().unwrap();
    let jaas = dir.path().join("jaas.conf");
    std::fs::write(
        &jaas,
        "Server {\n  org.apache.zookeeper.server.auth.DigestLoginModule required\n  user_amy=\"one\"\n  \
         user_bob=\"two\"\n  user_root=\"three\"\n  user_super=\"four\"\n  user_zoo=\"five\"\n  \"user_a@b@c\"=\"six\";\n};\n",
    )
    .unwrap();
    let file = format!("-Djava.security.auth.login.config={}", jaas.display());
    // The server reads the file with the configuration, and not again.
    Running::new(&[settings, &[&file]].concat())
}

fn token(reply: &Reply) -> Option<&[u8]> {
    let (length, rest) = reply.body.split_first_chunk().unwrap();
    match i32::from_be_bytes(*length) {
        -1 => None,
        length => {
            assert_eq!(rest.len(), length as usize);
            Some(rest)
        }
    }
}

fn send(client: &mut Client, token: &[u8]) -> Reply {
    client.call(SASL, &Writer::new().buffer(token))
}

/// The answer to the client's proof. A client that gets the proof of the server checks it.
pub fn log_in(client: &mut Client, user: &str, password: &str) -> Reply {
    let challenge = send(client, Exchange::INITIAL);
    assert_eq!((challenge.err, challenge.zxid), (0, 0));
    let mut exchange = Exchange::new(CLIENTS, user.into(), password.into(), [1; NONCE_BYTES]);
    let proof = exchange.step(token(&challenge).unwrap()).unwrap().unwrap();
    let answer = send(client, &proof);
    if let Some(end) = token(&answer) {
        assert_eq!(exchange.step(end), Ok(None));
    }
    answer
}

/// Whether that user authenticates. A connection that is closed instead counts as refused.
pub fn try_log_in(client: &mut Client, user: &str, password: &str) -> bool {
    let challenge = send(client, Exchange::INITIAL);
    let mut exchange = Exchange::new(CLIENTS, user.into(), password.into(), [1; NONCE_BYTES]);
    let proof = exchange.step(token(&challenge).unwrap()).unwrap().unwrap();
    client.try_call(SASL, &Writer::new().buffer(&proof)).is_some_and(|answer| answer.err == 0)
}

fn logged_in(running: &Running, user: &str, password: &str) -> Client {
    let mut client = running.client();
    let answer = log_in(&mut client, user, password);
    assert_eq!((answer.err, answer.zxid), (0, 0));
    assert!(token(&answer).is_some());
    client
}

/// ACL-13, ACL-14.
#[test]
fn a_user_is_known_by_name() {
    let running = server(&[SCHEME]);
    let mut amy = logged_in(&running, "amy", "one");
    amy.create_with("/auth", b"a", &[(ALL, "auth", "")], 0).unwrap();
    amy.create_with("/amy", b"b", &[(ALL, "sasl", "amy")], 0).unwrap();
    assert_eq!(amy.create_with("/bad", b"", &[(ALL, "sasl", "a@b@c")], 0), Err(err::INVALID_ACL));
    let mut bob = logged_in(&running, "bob", "two");
    let mut nobody = running.client();
    for path in ["/auth", "/amy"] {
        assert!(amy.get(path).is_ok());
        assert_eq!(bob.get(path).unwrap_err(), err::NO_AUTH);
        assert_eq!(nobody.get(path).unwrap_err(), err::NO_AUTH);
    }
    // The id `super` matches every entry of the scheme, and is no super user.
    let mut root = logged_in(&running, "super", "four");
    assert!(root.get("/auth").is_ok());
    root.create_with("/ip", b"", &[(ALL, "ip", "10.1.1.1")], 0).unwrap();
    assert_eq!(root.get("/ip").unwrap_err(), err::NO_AUTH);
    // The identity of a connection ends with it, and the next connection must prove it again.
    drop(amy);
    assert!(logged_in(&running, "amy", "one").get("/auth").is_ok());
}

/// ACL-15.
#[test]
fn a_failure_ends_the_connection() {
    let running = server(&[SCHEME]);
    // The last user proves its password, but its name is no Kerberos name.
    for (user, password) in
        [("amy", "two"), ("amy", ""), ("eve", "one"), ("eve", ""), ("a@b@c", "six")]
    {
        let mut client = running.client();
        let answer = log_in(&mut client, user, password);
        assert_eq!((answer.err, answer.zxid, token(&answer)), (err::AUTH_FAILED, 0, None));
        assert!(client.reply().is_none());
    }
    // An initial response, a token that is too long, and a token after the end.
    let long = vec![b'x'; 100_000];
    for first in [&b"GSSAPI"[..], &long] {
        let mut client = running.client();
        assert_eq!(send(&mut client, first).err, err::AUTH_FAILED);
        assert!(client.reply().is_none());
    }
    let mut amy = logged_in(&running, "amy", "one");
    assert_eq!(send(&mut amy, b"").err, err::AUTH_FAILED);
    assert!(amy.reply().is_none());
    // Other clients are served.
    logged_in(&running, "amy", "one").create("/n", b"").unwrap();
}

#[test]
fn a_client_that_fails_may_stay_without_an_id() {
    let running = server(&[SCHEME, "allowSaslFailedClients=true"]);
    let mut client = running.client();
    for _ in 0..3 {
        let answer = send(&mut client, b"nonsense");
        assert_eq!((answer.err, token(&answer)), (0, None));
    }
    let mut client = running.client();
    let answer = log_in(&mut client, "amy", "two");
    assert_eq!((answer.err, token(&answer)), (0, None));
    assert_eq!(client.create_with("/n", b"", &[(ALL, "auth", "")], 0), Err(err::INVALID_ACL));
    // A connection has one attempt.
    let answer = send(&mut client, b"");
    assert_eq!((answer.err, token(&answer)), (0, None));
    client.create("/n", b"").unwrap();
}

#[test]
fn sasl_may_be_required() {
    for required in [
        &["sessionRequireClientSASLAuth=true"][..],
        &["enforce.auth.enabled=true", "enforce.auth.schemes=sasl"],
    ] {
        // A client that must authenticate cannot stay connected otherwise.
        let running = server(&[required, &[SCHEME, "allowSaslFailedClients=true"]].concat());
        let mut client = running.client();
        assert_eq!(client.get("/").unwrap_err(), err::REQUIRES_AUTH);
        assert!(client.reply().is_none());
        let mut client = running.client();
        let answer = log_in(&mut client, "amy", "two");
        assert_eq!((answer.err, token(&answer)), (err::REQUIRES_AUTH, None));
        assert!(client.reply().is_none());
        assert!(logged_in(&running, "amy", "one").get("/").is_ok());
    }
}

/// A client that must authenticate has the same time for it as for its connect request, and cannot
/// extend the time by sending bytes slowly. Its session continues.
#[test]
fn whoever_must_authenticate_does_so_in_time() {
    let running =
        server(&[SCHEME, "sessionRequireClientSASLAuth=true", "nio.sessionlessCnxnTimeout=3000"]);
    let mut silent = running.client();
    let mut dripping = running.client();
    let mut amy = logged_in(&running, "amy", "one");
    let session = silent.renewal();
    dripping.raw.stream().write_all(&60_000_i32.to_be_bytes()).unwrap();
    let drip = |_: &u32| {
        std::thread::sleep(std::time::Duration::from_millis(20));
        dripping.raw.stream().write_all(&[0]).is_ok()
    };
    assert!((0..50_000).take_while(drip).count() < 50_000);
    assert!(silent.reply().is_none());
    running.wait_metric("unauthenticated_connections_expired", |count| count == 2.0);
    amy.create("/n", b"").unwrap();
    let mut again = Client::hello(running.port, &session).unwrap();
    assert_eq!(log_in(&mut again, "amy", "one").err, 0);
    assert_eq!(again.get("/n").unwrap().0, b"");
}

#[test]
fn a_long_frame_is_not_taken_before_an_authentication_that_is_required() {
    for (required, is_closed) in [(&[][..], false), (&["sessionRequireClientSASLAuth=true"], true)]
    {
        let running = server(&[required, &[SCHEME, "nio.sessionlessCnxnTimeout=600000"]].concat());
        let mut client = running.client();
        client.raw.stream().set_read_timeout(Some(std::time::Duration::from_millis(500))).unwrap();
        client.raw.send_raw(&100_000_i32.to_be_bytes());
        let read = client.raw.stream().read(&mut [0]);
        assert_eq!(matches!(read, Ok(0)), is_closed, "{read:?}");
    }
}

#[test]
fn super_users_and_the_id_for_all() {
    let running = server(&[
        SCHEME,
        "superUser=root",
        "-Dzookeeper.superUser.1=zoo",
        "letAnySaslUserDoX=any",
        "SASLAuthenticationProvider.superPassword=new",
    ]);
    let mut amy = logged_in(&running, "amy", "one");
    amy.create_with("/ip", b"", &[(ALL, "ip", "10.1.1.1")], 0).unwrap();
    amy.create_with("/any", b"", &[(READ, "sasl", "any")], 0).unwrap();
    assert_eq!(amy.get("/ip").unwrap_err(), err::NO_AUTH);
    for (user, password) in [("root", "three"), ("zoo", "five")] {
        assert!(logged_in(&running, user, password).get("/ip").is_ok());
    }
    let mut bob = logged_in(&running, "bob", "two");
    assert!(bob.get("/any").is_ok());
    assert_eq!(bob.set("/any", b"").unwrap_err(), err::NO_AUTH);
    assert_eq!(running.client().get("/any").unwrap_err(), err::NO_AUTH);
    logged_in(&running, "super", "new");
    assert_eq!(log_in(&mut running.client(), "super", "four").err, err::AUTH_FAILED);
}

/// As in the original: the login and the scheme are two settings.
#[test]
fn a_login_without_the_scheme_makes_no_acls() {
    let running = server(&[]);
    let mut amy = logged_in(&running, "amy", "one");
    assert_eq!(amy.create_with("/n", b"", &[(ALL, "auth", "")], 0), Err(err::INVALID_ACL));
    assert_eq!(amy.create_with("/n", b"", &[(ALL, "sasl", "amy")], 0), Err(err::INVALID_ACL));
    // The scheme alone, without the login, sends no token.
    let running = Running::new(&[SCHEME]);
    let mut client = running.client();
    let answer = send(&mut client, b"");
    assert_eq!((answer.err, token(&answer)), (0, None));
    client.create_with("/n", b"", &[(ALL, "sasl", "amy")], 0).unwrap();
    assert_eq!(client.get("/n").unwrap_err(), err::NO_AUTH);
}

#[test]
fn no_password_is_shown() {
    let dir = tempfile::tempdir().unwrap();
    let jaas = dir.path().join("jaas.conf");
    std::fs::write(&jaas, "Server { a.DigestLoginModule required user_amy=\"hush\"; };").unwrap();
    let file = format!("-Djava.security.auth.login.config={}", jaas.display());
    let own: Secret = Secret::new("hush");
    let shown = format!("{:?} {own:?}", config(Path::new("/d"), &[&file]));
    assert!(!shown.contains("hush"), "{shown}");
}

//! ACLs, authentication schemes and identities.

use zebu_testkit::wire::{OPEN, Writer, create, err, op, set_data};

use crate::client::Client;
use crate::running::Running;
use crate::tls::who_am_i;

const ALL: i32 = 31;
const READ: i32 = 1;

/// The output of `echo -n u:p | openssl sha1 -binary | base64`, after the user.
const U_P_SHA1: &str = "u:Jq7wMyA/w2Vd5WIDAKdu4OIIFEQ=";

fn protected(client: &mut Client, path: &str, acl: &[(i32, &str, &str)]) {
    client.create_with(path, b"secret", acl, 0).unwrap();
}

/// ACL-10.
#[test]
fn an_ip_acl_admits_addresses_and_ranges() {
    let running = Running::new(&[]);
    let mut client = running.client();
    protected(&mut client, "/here", &[(ALL, "ip", "127.0.0.1")]);
    protected(&mut client, "/range", &[(ALL, "ip", "127.0.0.0/8")]);
    protected(&mut client, "/there", &[(ALL, "ip", "10.1.2.3")]);
    let seen = ["/here", "/range", "/there"].map(|path| client.get(path).map(|_| ()));
    assert_eq!(seen, [Ok(()), Ok(()), Err(err::NO_AUTH)]);
    assert_eq!(client.set("/there", b"").unwrap_err(), err::NO_AUTH);
    assert_eq!(client.create_with("/x", b"", &[(ALL, "ip", "a.b")], 0), Err(err::INVALID_ACL));
}

/// ACL-05, ACL-07.
#[test]
fn a_password_admits_who_knows_it() {
    let running = Running::new(&[]);
    let mut owner = running.client();
    assert_eq!(owner.auth("digest", "u:p").unwrap().err, 0);
    let reply = owner.call(op::CREATE, &create("/n", b"x", &[(ALL, "auth", "")], 0));
    assert_eq!(reply.err, 0);
    let mut other = running.client();
    assert_eq!(other.get("/n").unwrap_err(), err::NO_AUTH);
    assert_eq!(other.auth("digest", "u:p").unwrap().err, 0);
    assert_eq!(other.get("/n").unwrap().0, b"x");
    // It is stored in a form that every server reads.
    let reply = other.call(op::GET_ACL, &Writer::new().string("/n"));
    let text = String::from_utf8_lossy(&reply.body).into_owned();
    assert!(text.contains("digest"), "{text}");
    let running = running.restart(&[]);
    assert_eq!(running.client().get("/n").unwrap_err(), err::NO_AUTH);
}

#[test]
fn an_unknown_scheme_is_refused_and_the_connection_closed() {
    let running = Running::new(&["DigestAuthenticationProvider.enabled=false"]);
    let mut client = running.client();
    assert_eq!(client.auth("digest", "u:p").unwrap().err, err::AUTH_FAILED);
    assert!(client.reply().is_none());
    let mut client = running.client();
    let acl = &[(ALL, "digest", U_P_SHA1)];
    assert_eq!(client.create_with("/n", b"", acl, 0), Err(err::INVALID_ACL));
}

#[test]
fn the_hash_of_passwords_is_the_configured_one() {
    let running = Running::new(&["DigestAuthenticationProvider.digestAlg=SHA-256"]);
    let mut client = running.client();
    assert_eq!(client.auth("digest", "super:secret").unwrap().err, 0);
    let reply = client.call(op::WHO_AM_I, &Writer::new());
    assert_eq!(reply.err, 0);
    let reply = client.call(op::CREATE, &create("/n", b"", &[(ALL, "auth", "")], 0));
    assert_eq!(reply.err, 0);
    let reply = client.call(op::GET_ACL, &Writer::new().string("/n"));
    // `echo -n super:secret | openssl sha256 -binary | base64`
    let text = String::from_utf8_lossy(&reply.body).into_owned();
    assert!(text.contains("super:WTA5ucCHTdJq645xIMibj8HviTPeB5mMuJ4/+v1dIEw="), "{text}");
}

#[test]
fn identities_are_shown_in_the_order_in_which_a_client_adds_them() {
    let running = Running::new(&[]);
    let mut client = running.client();
    let users = ["zoe", "amy", "max", "eve"];
    for user in users {
        assert_eq!(client.auth("digest", &format!("{user}:x")).unwrap().err, 0);
    }
    let shown: Vec<_> = who_am_i(&mut client).into_iter().map(|(_, user)| user).collect();
    assert_eq!(shown, [&["127.0.0.1"], &users[..]].concat());
}

#[test]
fn characters_above_u_ffff_are_sent_as_utf_8() {
    let running = Running::new(&[]);
    let mut client = running.client();
    assert_eq!(client.auth("digest", "\u{1f993}:x").unwrap().err, 0);
    // `who_am_i` accepts UTF-8 only.
    let shown = who_am_i(&mut client);
    assert!(shown.contains(&("digest".to_owned(), "\u{1f993}".to_owned())), "{shown:?}");
}

/// ACL-11, ACL-12, CLI-05.
#[test]
fn the_super_user_may_do_everything() {
    // `echo -n super:secret | openssl sha1 -binary | base64`
    let digest =
        "-Dzookeeper.DigestAuthenticationProvider.superDigest=super:lK75jTNcA+U9vtVEw5vB51mj/w4=";
    let running = Running::new(&[digest]);
    let mut client = running.client();
    protected(&mut client, "/n", &[(READ, "digest", U_P_SHA1)]);
    assert_eq!(client.set("/n", b"").unwrap_err(), err::NO_AUTH);
    assert_eq!(client.auth("digest", "super:wrong").unwrap().err, 0);
    assert_eq!(client.set("/n", b"").unwrap_err(), err::NO_AUTH);
    assert_eq!(client.auth("digest", "super:secret").unwrap().err, 0);
    client.set("/n", b"").unwrap();
    let running = running.restart(&[]);
    let mut client = running.client();
    client.auth("digest", "super:secret").unwrap();
    assert_eq!(client.set("/n", b"").unwrap_err(), err::NO_AUTH, "only where it is configured");
}

#[test]
fn nothing_is_checked_with_skip_acl() {
    let running = Running::new(&[]);
    protected(&mut running.client(), "/n", &[(ALL, "digest", U_P_SHA1)]);
    let running = running.restart(&["skipACL=yes"]);
    let mut client = running.client();
    assert_eq!(client.get("/n").unwrap().0, b"secret");
    client.set("/n", b"").unwrap();
}

#[test]
fn a_refused_write_takes_a_zxid_on_a_server_alone_eager_or_not() {
    for eager in ["true", "false"] {
        let running = Running::new(&[&format!("enableEagerACLCheck={eager}")]);
        let mut client = running.client();
        protected(&mut client, "/n", &[(READ, "digest", U_P_SHA1)]);
        let before = client.ping().zxid;
        let reply = client.call(op::SET_DATA, &set_data("/n", b""));
        assert_eq!((reply.err, reply.zxid), (err::NO_AUTH, before + 1), "{eager}");
    }
}

#[test]
fn sessions_must_authenticate_when_that_is_enforced() {
    let running = Running::new(&["enforce.auth.enabled=true", "enforce.auth.schemes=digest"]);
    let mut client = running.client();
    let reply = client.call(op::CREATE, &create("/n", b"", OPEN, 0));
    assert_eq!(reply.err, err::REQUIRES_AUTH);
    assert!(client.reply().is_none());
    let mut client = running.client();
    assert_eq!(client.auth("digest", "u:p").unwrap().err, 0);
    client.create("/n", b"").unwrap();
    let running = running.restart(&["enforce.auth.enabled=true", "enforce.auth.schemes=ip"]);
    running.client().get("/n").expect("everybody has an address");
}

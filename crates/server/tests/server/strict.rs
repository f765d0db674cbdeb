//! Parts of the hardened profile, each by itself.

use crate::admin::get;
use zebu_testkit::wire::{OPEN, Writer, create, err, multi, op};

use crate::client::Client;
use crate::outside::{self, Program};
use crate::running::{Running, wait};

#[test]
fn a_new_acl_does_not_let_everybody_write() {
    let running = Running::new(&["zebu.refuseWorldWrites=true"]);
    let mut client = running.client();
    client.auth("digest", "amy:pw").unwrap();
    let read = &[(1, "world", "anyone"), (31, "auth", "")];
    assert_eq!(client.create_with("/open", b"", OPEN, 0), Err(err::INVALID_ACL));
    assert_eq!(client.create_with("/all", b"", &[(3, "ip", "0.0.0.0/0")], 0), Err(-114));
    client.create_with("/mine", b"x", read, 0).unwrap();
    let open = |path: &str| Writer::new().string(path).acl(OPEN).int(-1);
    assert_eq!(client.call(op::SET_ACL, &open("/mine")).err, err::INVALID_ACL);
    let both = [(op::CREATE, create("/a", b"", read, 0)), (op::CREATE, create("/b", b"", OPEN, 0))];
    client.call(op::MULTI, &multi(&both));
    assert!(!client.exists("/a"), "a multi happens as a whole or not at all");
    // Every client may read, and no other client may write.
    let mut other = running.client();
    assert!(other.get("/mine").is_ok());
    assert_eq!(other.set("/mine", b"").unwrap_err(), err::NO_AUTH);
    // Existing open ACLs keep their meaning.
    let running = running.restart(&[]);
    running.client().create("/old", b"").unwrap();
    let running = running.restart(&["zebu.refuseWorldWrites=true"]);
    assert!(running.client().set("/old", b"x").is_ok());
}

#[test]
fn an_address_that_fails_is_turned_away_unheard() {
    let program = Program::listening();
    let running = program.server(&[
        outside::PATIENT,
        "zebu.authFailuresPerMinute=1",
        "admin.enableServer=true",
        "admin.serverPort=0",
    ]);
    let mut client = running.client();
    outside::claim(&mut client, "amy:guess");
    let mut talk = program.accept();
    let question = talk.question();
    talk.refuses(&question);
    assert_eq!(client.reply().unwrap().err, err::AUTH_FAILED);
    // For further attempts, the server asks neither the program nor any other scheme.
    let mut next = running.client();
    outside::claim(&mut next, "amy:pw");
    assert!(next.reply().is_none(), "closed without an answer");
    assert!(running.client().auth("digest", "amy:pw").is_none());
    let header = "Authorization: desk amy:pw\r\n";
    assert_eq!(get(running.admin_port(), "/commands/snapshot", header).status(), "401");
    assert_eq!(running.metric("auth_failures"), Some(1.0));
    assert_eq!(running.metric("auth_attempts_limited"), Some(3.0));
    assert_eq!(running.metric("external_auth_refused"), Some(1.0));
    // A client that does not try to authenticate is served.
    running.client().create("/n", b"").unwrap();
}

#[test]
fn a_guess_over_http_counts_too() {
    let running = Running::new(&[
        "zebu.authFailuresPerMinute=1",
        "admin.enableServer=true",
        "admin.serverPort=0",
    ]);
    let header = "Authorization: nothing x\r\n";
    assert_eq!(get(running.admin_port(), "/commands/snapshot", header).status(), "401");
    assert_eq!(running.metric("auth_failures"), Some(1.0));
    assert!(running.client().auth("digest", "amy:pw").is_none());
}

/// A new connection of that user, unless the user has reached the limit.
fn user(running: &Running, user: &str) -> Option<Client> {
    let mut client = running.client();
    client.auth("digest", user).map(|reply| {
        assert_eq!(reply.err, err::OK);
        client
    })
}

#[test]
fn an_identity_has_so_many_connections() {
    let running = Running::new(&["zebu.maxConnectionsPerIdentity=2"]);
    let mut first = user(&running, "amy:pw").unwrap();
    let second = user(&running, "amy:pw").unwrap();
    // The same id again counts as the same connection.
    assert_eq!(first.auth("digest", "amy:pw").unwrap().err, err::OK);
    assert!(user(&running, "amy:pw").is_none());
    assert_eq!(running.metric("identity_connections_rejected"), Some(1.0));
    let mut bob = user(&running, "bob:pw").unwrap();
    assert!(bob.auth("digest", "amy:pw").is_none(), "nor beside another id");
    // Connections without an id do not count, although all have the same address.
    let many: Vec<Client> = (0..5).map(|_| running.client()).collect();
    second.vanish();
    wait("a connection is over", || user(&running, "amy:pw").is_some());
    drop((first, many));
}

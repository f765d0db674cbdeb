//! Limits of a packet between servers and of a log record, in an ensemble.

use zebu_testkit::wire::{Writer, create, err, op, set_data};

use crate::client::Client;
use crate::members::{client_of, ensemble};
use crate::running::{Running, wait};

fn state(member: &Running) -> String {
    let text = member.word("mntr");
    let line = text.lines().find_map(|line| line.strip_prefix("zk_server_state\t"));
    line.unwrap_or_default().to_owned()
}

fn follower(members: &[Running]) -> &Running {
    members.iter().find(|member| state(member) == "follower").expect("somebody follows")
}

#[test]
fn large_identities_and_a_small_buffer_cut_no_follower_from_its_leader() {
    let (_dir, members) = ensemble(&["-Djute.maxbuffer=100000"]);
    let follower = follower(&members);
    let mut client = client_of(follower);
    let mut refused = 0;
    for name in 'a'..='h' {
        let id = format!("{}:password", name.to_string().repeat(90_000));
        if client.auth("digest", &id).is_none_or(|reply| reply.err != 0) {
            refused += 1;
            client = client_of(follower);
        }
    }
    assert!(refused > 0, "they do not fit into one packet");
    client.create("/n", b"").unwrap();
    let auth = [(31, "auth", "")];
    let reply = client.call(op::CREATE, &create("/auth", b"", &auth, 0));
    assert!([0, err::INVALID_ACL].contains(&reply.err));
    assert_eq!(state(follower), "follower", "it has gone on following");
    assert_eq!(follower.metric("looking_count"), Some(1.0));
}

#[test]
fn a_session_with_as_many_ephemerals_as_it_may_have_ends_everywhere() {
    let (_dir, members) = ensemble(&["-Djute.maxbuffer=10000"]);
    let mut client: Client = client_of(follower(&members));
    let mut refused = None;
    let mut count = 0;
    while refused.is_none() {
        let path = format!("/{count}-{}", "x".repeat(900));
        match client.call(op::CREATE, &create(&path, b"", zebu_testkit::wire::OPEN, 1)).err {
            0 => count += 1,
            code => refused = Some(code),
        }
    }
    assert_eq!((refused, count), (Some(err::QUOTA_EXCEEDED), 21));
    client.call(op::SYNC, &Writer::new().string("/"));
    client.close();
    for member in &members {
        wait("all are gone", || member.metric("ephemerals_count") == Some(0.0));
        assert_eq!(member.metric("looking_count"), Some(1.0));
    }
}

#[test]
fn a_request_that_cannot_be_decoded_is_refused_by_the_server_of_its_client() {
    let (_dir, members) = ensemble(&[]);
    let mut client = client_of(follower(&members));
    let made = client.call(op::CREATE, &create("/n", b"", zebu_testkit::wire::OPEN, 0));
    assert_eq!(made.err, 0);
    for op in [op::CREATE, op::SET_DATA, op::DELETE] {
        // The path ends before its announced length.
        let reply = client.call(op, &Writer::new().int(100));
        assert_eq!((reply.err, reply.zxid), (-5, made.zxid), "no leader has seen it");
    }
    let written = client.call(op::SET_DATA, &set_data("/n", b"x"));
    assert_eq!((written.err, written.zxid), (0, made.zxid + 1));
}

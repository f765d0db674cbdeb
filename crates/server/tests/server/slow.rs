//! A slow authentication scheme: only its own connection waits for the verdict.

use std::sync::{Arc, Mutex};
use std::thread;

use zebu_proto::Id;
use zebu_replica::auth::{Answer, AuthProvider, Claim, Question, Refused, Verdict};

use crate::admin::get;
use zebu_testkit::wire::{Writer, create, err, op};

use crate::client::Client;
use crate::running::{Running, wait};

/// The test gives the verdicts.
#[derive(Clone, Default)]
struct Slow(Arc<Mutex<Vec<(Question, Answer)>>>);

impl Slow {
    fn server(&self, settings: &[&str]) -> Running {
        Running::with(settings, vec![Box::new(self.clone())])
    }

    /// The next question, once it is asked.
    fn question(&self) -> (Question, Answer) {
        wait("the scheme is asked", || !self.0.lock().unwrap().is_empty());
        self.0.lock().unwrap().remove(0)
    }
}

impl AuthProvider for Slow {
    fn scheme(&self) -> &str {
        "slow"
    }

    fn authenticate(&self, _: &Claim<'_>) -> Verdict {
        panic!("a scheme that takes its time is asked, and nothing else");
    }

    fn takes_time(&self) -> bool {
        true
    }

    fn ask(&self, question: Question, answer: Answer) {
        self.0.lock().unwrap().push((question, answer));
    }

    fn is_authenticated(&self) -> bool {
        true
    }

    fn is_valid(&self, _: &str) -> bool {
        true
    }

    fn matches(&self, id: &str, expression: &str) -> bool {
        id == expression
    }
}

fn amy() -> Verdict {
    Ok(vec![Id::new("slow", "amy")])
}

fn auth(client: &mut Client, data: &str) {
    client.post_as(-4, op::AUTH, &Writer::new().int(0).string("slow").string(data));
}

#[test]
fn what_comes_behind_an_auth_packet_waits_for_its_verdict() {
    let slow = Slow::default();
    let running = slow.server(&[]);
    let mut client = running.client();
    auth(&mut client, "amy:pw");
    client.post(op::CREATE, &create("/n", b"x", &[(31, "auth", "")], 0));
    let (question, answer) = slow.question();
    assert_eq!(question.data.as_deref(), Some(&b"amy:pw"[..]));
    assert!(question.peer.is_loopback());
    let mut other = running.client();
    other.create("/other", b"").unwrap();
    assert!(!other.exists("/n"), "it is taken after the verdict");
    answer.give(amy());
    assert_eq!(client.reply().unwrap().err, err::OK);
    assert_eq!(client.reply().unwrap().err, err::OK);
    assert_eq!(other.get("/n").unwrap_err(), err::NO_AUTH);
    assert!(client.get("/n").is_ok());
    // A second packet of the same connection is a question of its own.
    auth(&mut client, "bob:pw");
    slow.question().1.give(Err(Refused::Credentials));
    assert_eq!(client.reply().unwrap().err, err::AUTH_FAILED);
    assert!(client.reply().is_none(), "the connection is closed");
}

#[test]
fn an_answer_that_is_lost_lets_nobody_in() {
    let slow = Slow::default();
    let running = slow.server(&[]);
    let mut client = running.client();
    auth(&mut client, "amy:pw");
    drop(slow.question());
    assert!(client.reply().is_none(), "closed without an answer: another server may know more");
    let again = Client::hello(running.port, &client.renewal());
    assert!(again.is_ok(), "the session is there for another connection");
}

#[test]
fn a_verdict_on_a_client_that_is_gone_is_for_nobody() {
    let slow = Slow::default();
    let running = slow.server(&[]);
    for _ in 0..10 {
        let mut client = running.client();
        auth(&mut client, "amy:pw");
        let (_, answer) = slow.question();
        client.vanish();
        answer.give(amy());
    }
    let mut client = running.client();
    auth(&mut client, "amy:pw");
    let (_, late) = slow.question();
    running.stop();
    late.give(amy());
}

/// A snapshot over HTTP requires all permissions on the root.
#[test]
fn whoever_asks_for_a_snapshot_waits_for_the_verdict() {
    let slow = Slow::default();
    let http = ["admin.enableServer=true", "admin.serverPort=0", "admin.rateLimiterIntervalInMS=0"];
    let running = slow.server(&http);
    let mut client = running.client();
    auth(&mut client, "amy:pw");
    slow.question().1.give(amy());
    assert_eq!(client.reply().unwrap().err, err::OK);
    let acl = Writer::new().string("/").acl(&[(31, "auth", "")]).int(-1);
    assert_eq!(client.call(op::SET_ACL, &acl).err, err::OK);
    let port = running.admin_port();
    for (verdict, status) in [
        (amy(), "200"),
        (Ok(vec![Id::new("slow", "bob")]), "403"),
        (Err(Refused::Credentials), "401"),
    ] {
        let header = "Authorization: slow amy:pw\r\n";
        let asked = thread::spawn(move || get(port, "/commands/snapshot", header));
        let (question, answer) = slow.question();
        assert_eq!(question.data.as_deref(), Some(&b"amy:pw"[..]));
        // The admin server serves other clients meanwhile.
        assert_eq!(get(port, "/commands/ruok", "").status(), "200");
        answer.give(verdict);
        assert_eq!(asked.join().unwrap().status(), status);
    }
}

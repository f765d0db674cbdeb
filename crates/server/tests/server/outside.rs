//! Authentication schemes that a program behind a Unix socket decides. The test plays the program.

use std::fs;
use std::io::{BufRead as _, BufReader, ErrorKind, Write as _};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::PathBuf;

use serde_json::{Value, json};
use tempfile::TempDir;
use zebu_testkit::connection::PATIENCE;
use zebu_testkit::wire::{Writer, err, op};

use crate::client::Client;
use crate::running::{Running, wait};

/// Far longer than any step should take, except for tests of time limits.
pub const PATIENT: &str = "zebu.authCheck.timeoutMillis=50000";

/// The program, and the directory of its socket.
pub struct Program {
    dir: TempDir,
    listener: Option<UnixListener>,
}

impl Program {
    /// A program that does not listen yet.
    fn new() -> Self {
        Self { dir: tempfile::tempdir().unwrap(), listener: None }
    }

    pub fn listening() -> Self {
        let mut program = Self::new();
        program.listen();
        program
    }

    fn path(&self) -> PathBuf {
        self.dir.path().join("check.sock")
    }

    fn listen(&mut self) {
        let listener = UnixListener::bind(self.path()).unwrap();
        listener.set_nonblocking(true).unwrap();
        self.listener = Some(listener);
    }

    /// Ends the program, and removes its socket.
    fn vanish(&mut self) {
        self.listener = None;
        fs::remove_file(self.path()).unwrap();
    }

    pub fn server(&self, settings: &[&str]) -> Running {
        let provider = format!("authProvider.1=unix:desk:{}", self.path().display());
        Running::new(&[&[provider.as_str()], settings].concat())
    }

    /// The next connection of the server.
    pub fn accept(&self) -> Talk {
        let listener = self.listener.as_ref().unwrap();
        let mut stream = None;
        wait("the server dials", || match listener.accept() {
            Ok((accepted, _)) => {
                stream = Some(accepted);
                true
            }
            Err(error) if error.kind() == ErrorKind::WouldBlock => false,
            Err(error) => panic!("{error}"),
        });
        let stream = stream.unwrap();
        stream.set_nonblocking(false).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        Talk { reader: BufReader::new(stream) }
    }
}

/// A connection from the server.
pub struct Talk {
    reader: BufReader<UnixStream>,
}

impl Talk {
    /// The next question.
    pub fn question(&mut self) -> Value {
        let mut line = String::new();
        self.reader.read_line(&mut line).unwrap();
        serde_json::from_str(&line).unwrap()
    }

    pub fn say(&mut self, line: &str) {
        writeln!(self.reader.get_mut(), "{line}").unwrap();
    }

    fn lets_in(&mut self, question: &Value, id: &str) {
        let answer =
            json!({"version": 1, "id": question["id"], "result": "ok", "ids": [id]}).to_string();
        self.say(&answer);
    }

    pub fn refuses(&mut self, question: &Value) {
        let answer = json!({"version": 1, "id": question["id"], "result": "refused"}).to_string();
        self.say(&answer);
    }

    /// Waits until the server has closed the connection.
    fn ends(mut self) {
        let mut line = String::new();
        while self.reader.read_line(&mut line).unwrap() > 0 {}
    }
}

/// Sends an auth packet, whose answer is read later.
pub fn claim(client: &mut Client, data: &str) {
    client.post_as(-4, op::AUTH, &Writer::new().int(0).string("desk").string(data));
}

fn ids(client: &mut Client) -> String {
    let reply = client.call(op::WHO_AM_I, &Writer::new());
    String::from_utf8_lossy(&reply.body).into_owned()
}

#[test]
fn a_program_decides_who_a_client_is() {
    let program = Program::listening();
    let running = program.server(&[PATIENT]);
    let mut amy = running.client();
    claim(&mut amy, "amy:pw");
    let mut talk = program.accept();
    let question = talk.question();
    // `echo -n amy:pw | base64`
    let expected = json!({
        "version": 1, "id": 1, "scheme": "desk", "address": "127.0.0.1", "data": "YW15OnB3",
    });
    assert_eq!(question, expected);
    // Only its own connection waits; others continue.
    let mut other = running.client();
    other.create("/other", b"").unwrap();
    talk.lets_in(&question, "amy");
    assert_eq!(amy.reply().unwrap().err, err::OK);
    assert!(ids(&mut amy).contains("amy"));
    amy.create_with("/amy", b"x", &[(31, "auth", "")], 0).unwrap();
    other.create_with("/also", b"x", &[(31, "desk", "amy")], 0).unwrap();
    assert_eq!(other.create_with("/n", b"", &[(31, "desk", "")], 0), Err(err::INVALID_ACL));
    assert_eq!([other.get("/amy").unwrap_err(), other.get("/also").unwrap_err()], [-102; 2]);
    assert!(amy.get("/amy").is_ok() && amy.get("/also").is_ok());
    claim(&mut other, "bob:pw");
    let question = talk.question();
    talk.refuses(&question);
    assert_eq!(other.reply().unwrap().err, err::AUTH_FAILED);
    assert!(other.reply().is_none(), "the connection is closed");
}

#[test]
fn a_good_verdict_is_remembered_while_the_program_is_away() {
    let mut program = Program::listening();
    let running = program.server(&[PATIENT]);
    let mut first = running.client();
    claim(&mut first, "amy:pw");
    let mut talk = program.accept();
    let question = talk.question();
    talk.lets_in(&question, "amy");
    assert_eq!(first.reply().unwrap().err, err::OK);
    program.vanish();
    drop(talk);
    let mut second = running.client();
    claim(&mut second, "amy:pw");
    assert_eq!(second.reply().unwrap().err, err::OK);
    // Another client waits for the program, which returns.
    let mut third = running.client();
    claim(&mut third, "bob:pw");
    program.listen();
    let mut talk = program.accept();
    let question = talk.question();
    talk.lets_in(&question, "bob");
    assert_eq!(third.reply().unwrap().err, err::OK);
    assert!(ids(&mut third).contains("bob"));
}

#[test]
fn a_program_that_is_not_there_lets_nobody_in() {
    let program = Program::new();
    let running = program.server(&["zebu.authCheck.timeoutMillis=100"]);
    let mut client = running.client();
    claim(&mut client, "amy:pw");
    assert!(client.reply().is_none(), "closed without an answer: another server may know more");
    running.wait_metric("external_auth_unknown", |count| count == 1.0);
    // The session survives, at this server or another one.
    assert!(Client::hello(running.port, &client.renewal()).is_ok());
}

#[test]
fn a_silent_program_lets_nobody_in_and_is_dialled_anew() {
    let program = Program::listening();
    let running = program.server(&["zebu.authCheck.timeoutMillis=100"]);
    let mut client = running.client();
    claim(&mut client, "amy:pw");
    let mut talk = program.accept();
    talk.question();
    assert!(client.reply().is_none());
    talk.ends();
    let mut again = running.client();
    claim(&mut again, "amy:pw");
    assert!(again.reply().is_none());
    program.accept();
}

#[test]
fn a_broken_program_lets_nobody_in() {
    let program = Program::listening();
    let running = program.server(&[PATIENT]);
    // The connection of the previous round stays. A question on a connection that the program has
    // just closed counts as asked.
    let mut kept = None;
    for (round, line) in [
        "what?",
        r#"{"version":1,"id":7777,"result":"ok","ids":["amy"]}"#,
        r#"{"version":1,"id":ID,"result":"ok","ids":["a\u0000b"]}"#,
        &"x".repeat(100_000),
    ]
    .into_iter()
    .enumerate()
    {
        let mut client = running.client();
        claim(&mut client, "amy:pw");
        // The server asks a question twice, and not a third time.
        for _ in 0..2 {
            let mut talk = kept.take().unwrap_or_else(|| program.accept());
            let question = talk.question();
            // The server may close the connection before it has read everything.
            let line = line.replace("ID", &question["id"].to_string());
            drop(writeln!(talk.reader.get_mut(), "{line}"));
        }
        assert!(client.reply().is_none(), "{line:.80}");
        let mut client = running.client();
        claim(&mut client, &format!("bob{round}"));
        let mut talk = program.accept();
        let question = talk.question();
        talk.lets_in(&question, "bob");
        assert_eq!(client.reply().unwrap().err, err::OK);
        kept = Some(talk);
    }
    assert_eq!(running.metric("external_auth_success"), Some(4.0));
}

#[test]
fn a_program_that_vanishes_with_a_question_is_asked_again() {
    let mut program = Program::listening();
    let running = program.server(&[PATIENT]);
    let mut client = running.client();
    claim(&mut client, "amy:pw");
    let mut talk = program.accept();
    talk.question();
    program.vanish();
    drop(talk);
    program.listen();
    let mut talk = program.accept();
    let question = talk.question();
    talk.lets_in(&question, "amy");
    assert_eq!(client.reply().unwrap().err, err::OK);
}

#[test]
fn a_slow_program_judges_many_at_a_time_in_any_order() {
    let program = Program::listening();
    let running = program.server(&[PATIENT, "zebu.authCheck.outstanding=10"]);
    let mut clients: Vec<Client> = (0..30).map(|_| running.client()).collect();
    for (n, client) in clients.iter_mut().enumerate() {
        claim(client, &format!("user{n}"));
    }
    let mut talk = program.accept();
    let mut questions: Vec<Value> = (0..10).map(|_| talk.question()).collect();
    // In reverse order. Each verdict makes room for another question.
    for left in (0..30).rev() {
        let question = questions.pop().unwrap();
        talk.lets_in(&question, "somebody");
        if left >= 10 {
            questions.push(talk.question());
        }
    }
    for client in &mut clients {
        assert_eq!(client.reply().unwrap().err, err::OK);
    }
}

#[test]
fn data_that_are_too_long_are_refused_without_asking() {
    let program = Program::listening();
    let running = program.server(&[PATIENT]);
    let mut client = running.client();
    claim(&mut client, &"x".repeat((64 << 10) + 1));
    assert_eq!(client.reply().unwrap().err, err::AUTH_FAILED);
}

#[test]
fn a_server_stops_while_the_program_is_silent() {
    let program = Program::listening();
    let running = program.server(&[PATIENT]);
    let mut client = running.client();
    claim(&mut client, "amy:pw");
    let mut talk = program.accept();
    talk.question();
    running.stop();
    // The thread ends, and with it the connection.
    talk.ends();
}

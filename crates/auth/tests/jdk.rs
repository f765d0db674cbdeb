//! DIGEST-MD5 against the JDK's own implementation, in both roles.

#![expect(clippy::disallowed_types, reason = "the JDK is a program")]

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use zebu_auth::Secret;
use zebu_auth::digest_md5::{
    CLIENTS, Client, Failure, NONCE_BYTES, Protocol, QUORUM, Server, Step,
};

/// Names and passwords whose characters need each of the rules: quoting, Latin-1, UTF-8.
const USERS: [(&str, &str); 6] = [
    ("bob", "bobsecret"),
    ("super", ""),
    ("a \"quoted\" \\ name", "pass,word=\"x\\y\""),
    ("müller", "pässwörd"),
    ("日本", "пароль"),
    ("latin é", "пароль with é"),
];

struct Peer {
    child: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
}

impl Peer {
    fn start(role: &str, protocol: Protocol, users: &[(&str, &str)]) -> Self {
        let mut command = Command::new("java");
        command.args(["-XX:TieredStopAtLevel=1", "-Xshare:auto"]);
        command.arg(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/DigestPeer.java"));
        command.args([role, protocol.service, protocol.name]);
        for (user, password) in users {
            command.args([hex(user.as_bytes()), hex(password.as_bytes())]);
        }
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("java can be started");
        let input = child.stdin.take().unwrap();
        let output = BufReader::new(child.stdout.take().unwrap());
        Self { child, input, output }
    }

    fn send(&mut self, token: &[u8]) {
        writeln!(self.input, "{}", hex(token)).unwrap();
    }

    fn line(&mut self) -> String {
        let mut line = String::new();
        self.output.read_line(&mut line).unwrap();
        line.trim_end_matches('\n').to_owned()
    }

    fn token(&mut self) -> Vec<u8> {
        unhex(&self.line())
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn unhex(text: &str) -> Vec<u8> {
    let byte =
        |at| u8::from_str_radix(&text[at..at + 2], 16).unwrap_or_else(|_| panic!("{text:?}"));
    (0..text.len()).step_by(2).map(byte).collect()
}

fn client(protocol: Protocol, user: &str, password: &str) -> Client {
    Client::new(protocol, user.to_owned(), password.into(), [0x5a; NONCE_BYTES])
}

#[test]
#[ignore = "needs third-party programs: java"]
fn our_client_is_let_in_by_the_jdk() {
    for protocol in [CLIENTS, QUORUM] {
        let mut peer = Peer::start("server", protocol, &USERS);
        for (user, password) in USERS {
            let mut ours = client(protocol, user, password);
            peer.send(Client::INITIAL);
            let response = ours.step(&peer.token()).unwrap().unwrap();
            peer.send(&response);
            let end = peer.token();
            assert_eq!(ours.step(&end), Ok(None), "{user}");
            assert_eq!(peer.line(), format!("authorized {}", hex(user.as_bytes())));
        }
    }
}

#[test]
#[ignore = "needs third-party programs: java"]
fn our_server_lets_the_jdks_client_in() {
    let mut peer = Peer::start("client", CLIENTS, &USERS);
    for (user, _) in USERS {
        let mut ours = Server::new(CLIENTS, [0xa5; NONCE_BYTES]);
        let lookup = |name: &str| {
            USERS
                .iter()
                .find(|(user, _)| *user == name)
                .map(|(_, password)| Secret::from(*password))
        };
        let Step::Challenge(challenge) = ours.step(b"", lookup).unwrap() else {
            panic!("done at once")
        };
        peer.send(&challenge);
        let Step::Done { token, who } = ours.step(&peer.token(), lookup).unwrap() else {
            panic!("not done")
        };
        assert_eq!((who.user.as_str(), who.authorization.as_str()), (user, user));
        peer.send(&token);
        assert_eq!(peer.line(), "complete");
    }
}

#[test]
#[ignore = "needs third-party programs: java"]
fn a_wrong_password_is_refused_on_both_sides() {
    let mut peer = Peer::start("server", CLIENTS, &USERS);
    let mut ours = client(CLIENTS, "bob", "wrong");
    peer.send(Client::INITIAL);
    let response = ours.step(&peer.token()).unwrap().unwrap();
    peer.send(&response);
    assert_eq!(peer.line(), "refused");

    let mut peer = Peer::start("client", CLIENTS, &[("bob", "wrong")]);
    let mut ours = Server::new(CLIENTS, [0xa5; NONCE_BYTES]);
    let Step::Challenge(challenge) = ours.step(b"", |_| None).unwrap() else {
        panic!("done at once")
    };
    peer.send(&challenge);
    let denied = ours.step(&peer.token(), |_| Some("bobsecret".into()));
    assert_eq!(denied, Err(Failure::Denied("bob".to_owned())));
}

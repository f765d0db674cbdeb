//! Scripts: each line after `> ` is an event, and the lines below it are the session's effects.
//!
//! `UPDATE_EXPECT=1` rewrites them. Read the difference before you commit it.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::Path;
use std::time::Duration;

use zebu_proto::{EnsembleId, EventType, SessionId, WatcherType};
use zebu_session::{
    Attempt, Candidate, Challenge, Effect, Ending, Failure, Input, Options, Output, Probe, Proof,
    Registration, RequestId, Series, Session, State, Submission, Ticket, WatchKind, WatcherId,
};

use crate::wire;

struct Run {
    session: Session,
    now: Duration,
    attempt: Attempt,
    greeting: bool,
    /// The options by their letters.
    series: BTreeMap<String, Series>,
    text: String,
}

fn options(words: &[&str]) -> Options {
    let mut options = Options { timeout: Duration::from_secs(9), ..Options::default() };
    for word in words {
        match *word {
            "read-only" => options.read_only = true,
            "small" => options.request_bytes_max = 20,
            "sasl" => options.sasl = true,
            "asks" => options.asks_ensemble = true,
            "forgetful" => options.restore_watches = false,
            "few" => options.pending_max = 2,
            "hasty" => options.request_timeout = Some(Duration::from_secs(2)),
            "impatient" => options.give_up = Some(Duration::from_secs(20)),
            "3.4" => options.server_version = (3, 4),
            "3.5" => options.server_version = (3, 5),
            "nobody" => {
                options.resume = Some(Ticket { id: SessionId::NONE, password: [7; 16] });
            }
            "resume" => {
                options.resume = Some(Ticket { id: SessionId(0x55), password: [7; 16] });
            }
            other => panic!("no such option: {other}"),
        }
    }
    options
}

fn kind(word: &str) -> WatchKind {
    match word {
        "data" => WatchKind::Data,
        "exist" => WatchKind::Exist,
        "child" => WatchKind::Child,
        "persistent" => WatchKind::Persistent,
        "recursive" => WatchKind::Recursive,
        other => panic!("no such watch: {other}"),
    }
}

fn number(word: &str) -> i64 {
    word.parse().unwrap_or_else(|_| panic!("not a number: {word}"))
}

fn id(word: &str) -> u64 {
    u64::try_from(number(word)).unwrap()
}

fn server(port: &str) -> std::net::SocketAddr {
    ([10, 0, 0, 1], port.parse().unwrap()).into()
}

/// A port, and optionally a rank: `2@1`.
fn candidate(word: &str) -> Candidate {
    let (port, rank) = word.split_once('@').unwrap_or((word, "0"));
    Candidate { address: server(port), rank: rank.parse().unwrap() }
}

impl Run {
    fn new(words: &[&str]) -> Self {
        Self {
            session: Session::new(options(words)),
            now: Duration::ZERO,
            attempt: Attempt(0),
            greeting: false,
            series: BTreeMap::new(),
            text: String::new(),
        }
    }

    fn input(&mut self, line: &str) {
        let words: Vec<&str> = line.split_whitespace().collect();
        let frame = |bytes| Input::Frame(self.attempt, bytes);
        let input = match words[..] {
            // The latest time from which the servers keep the session for its timeout.
            ["proven"] => {
                let ms = self.session.proven().map(|proven| proven.as_millis());
                writeln!(self.text, "proven {ms:?}").unwrap();
                return;
            }
            ["at", ms] => {
                self.now = Duration::from_millis(id(ms));
                Input::Tick
            }
            // The time of the session's next tick.
            ["wait"] => {
                self.now = self.session.deadline().unwrap();
                Input::Tick
            }
            ["resolved", ref ports @ ..] => {
                Input::Resolved(ports.iter().map(|port| candidate(port)).collect())
            }
            ["connected"] => {
                self.greeting = true;
                Input::Connected(self.attempt)
            }
            ["disconnected"] => Input::Disconnected(self.attempt),
            ["stale"] => Input::Disconnected(Attempt(self.attempt.0 - 1)),
            ["welcome", session, timeout] => {
                frame(wire::welcome(number(session), number(timeout) as i32, false, None))
            }
            ["welcome", session, timeout, "read-only"] => {
                frame(wire::welcome(number(session), number(timeout) as i32, true, None))
            }
            ["welcome", session, timeout, "ensemble", id] => {
                let id = Some(EnsembleId(number(id) as u128));
                frame(wire::welcome(number(session), number(timeout) as i32, false, id))
            }
            ["submit", request, path] => Input::Submit(Submission {
                id: RequestId(id(request)),
                frame: wire::get_data(path, false),
                effect: Effect::None,
                series: None,
            }),
            ["submit", request, path, "series", name] => Input::Submit(Submission {
                id: RequestId(id(request)),
                frame: wire::get_data(path, false),
                effect: Effect::None,
                series: Some(self.series.entry(name.to_owned()).or_default().clone()),
            }),
            ["submit", request, path, word] => Input::Submit(Submission {
                id: RequestId(id(request)),
                frame: wire::get_data(path, true),
                effect: Effect::Watch(Registration {
                    watcher: WatcherId(id(request)),
                    kind: kind(word),
                    path: path.into(),
                }),
                series: None,
            }),
            // All watches of a path.
            ["remove", request, path] => Input::Submit(Submission {
                id: RequestId(id(request)),
                frame: wire::remove_watches(path),
                effect: Effect::Unwatch { path: path.into(), kind: WatcherType::Any },
                series: None,
            }),
            ["reply", xid, zxid, err] => {
                frame(wire::reply(number(xid) as i32, number(zxid), number(err) as i32))
            }
            ["event", kind, path, zxid] => {
                frame(wire::event(number(kind) as i32, path, number(zxid)))
            }
            ["token", xid, token] => frame(wire::token(number(xid) as i32, Some(token))),
            ["no-token", xid] => frame(wire::token(number(xid) as i32, None)),
            ["proof", "done"] => Input::Proof(self.attempt, Proof::Done),
            ["proof", "failed"] => Input::Proof(self.attempt, Proof::Failed),
            ["proof", token] => Input::Proof(self.attempt, Proof::Token(token.into())),
            ["stale-proof"] => Input::Proof(Attempt(self.attempt.0 - 1), Proof::Done),
            ["garbage"] => frame(bytes::Bytes::from_static(&[1, 2, 3])),
            ["withdraw", request] => Input::Withdraw(RequestId(id(request))),
            ["auth", request, scheme] => Input::Authenticate {
                id: RequestId(id(request)),
                scheme: scheme.to_owned(),
                auth: b"user:secret".to_vec(),
            },
            ["unwatch", watcher] => Input::Unwatch(WatcherId(id(watcher))),
            ["probed", port, "read-write"] => Input::Probed(server(port), Probe::ReadWrite),
            ["probed", port, "other"] => Input::Probed(server(port), Probe::Other),
            ["close", request] => Input::Close(RequestId(id(request))),
            _ => panic!("no such input: {line}"),
        };
        let mut out = Vec::new();
        self.session.step(self.now, input, &mut out);
        for output in out {
            self.say(output);
        }
    }

    fn say(&mut self, output: Output) {
        let line = match output {
            Output::Resolve => "resolve".to_owned(),
            Output::Connect(attempt, server) => {
                self.attempt = attempt;
                format!("connect {}", server.port())
            }
            Output::Disconnect(attempt) => {
                assert_eq!(attempt, self.attempt);
                "disconnect".to_owned()
            }
            Output::Send(bytes) => {
                for frame in wire::frames(&bytes) {
                    let words = if std::mem::take(&mut self.greeting) {
                        wire::describe_connect(frame)
                    } else {
                        wire::describe(frame)
                    };
                    writeln!(self.text, "send {words}").unwrap();
                }
                return;
            }
            Output::Probe(server) => format!("probe {}", server.port()),
            Output::Prove(attempt, challenge) => {
                assert_eq!(attempt, self.attempt);
                match challenge {
                    Challenge::First => "prove".to_owned(),
                    Challenge::Token(None) => "prove, no token".to_owned(),
                    Challenge::Token(Some(token)) => {
                        format!("prove {}", String::from_utf8_lossy(&token))
                    }
                }
            }
            Output::State(State::Over(Ending::Expired)) => "state expired".to_owned(),
            Output::State(state) => format!("state {state:?}"),
            Output::Done(id, Ok(answer)) => format!("done {} {}", id.0, answer.err.0),
            Output::Done(id, Err(Failure::Over(ending))) => {
                format!("done {} over: {ending:?}", id.0)
            }
            Output::Done(id, Err(failure)) => format!("done {} {failure:?}", id.0),
            Output::Event { watcher, kind, path, zxid, last } => format!(
                "event {} {} {} {zxid:?}{}",
                watcher.0,
                match kind {
                    EventType::NODE_CREATED => "created",
                    EventType::NODE_DELETED => "deleted",
                    EventType::NODE_DATA_CHANGED => "data",
                    EventType::NODE_CHILDREN_CHANGED => "children",
                    EventType::DATA_WATCH_REMOVED => "data-watch-removed",
                    EventType::PERSISTENT_WATCH_REMOVED => "persistent-watch-removed",
                    _ => "other",
                },
                String::from_utf8_lossy(&path),
                if last { " last" } else { "" }
            ),
        };
        writeln!(self.text, "{line}").unwrap();
    }
}

/// The effects of the inputs of a script. A line `# options: ...` starts a new session.
fn run(script: &str) -> String {
    let mut run = Run::new(&[]);
    for line in script.lines() {
        if let Some(words) = line.strip_prefix("# options:") {
            let text = std::mem::take(&mut run.text);
            run = Run::new(&words.split_whitespace().collect::<Vec<_>>());
            run.text = text;
        }
        if line.starts_with('#') || line.is_empty() || line.starts_with("> ") {
            writeln!(run.text, "{line}").unwrap();
        }
        if let Some(input) = line.strip_prefix("> ") {
            run.input(input);
        }
    }
    run.text
}

#[test]
fn scripts() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/session/scripts");
    zebu_testkit::scripts::check(&folder, run);
}

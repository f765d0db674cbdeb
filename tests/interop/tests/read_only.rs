//! Servers without a quorum and read-only clients: the same with the original and with Zebu.

use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail, ensure};
use tokio::runtime::Runtime;
use zebu_client::{Connector, ErrorKind, SessionState, Version};
use zebu_interop::deps;
use zebu_interop::ensemble::{Ensemble, options};
use zebu_interop::normalise::text;
use zebu_interop::raw::Session;
use zebu_interop::run::Program;
use zebu_interop::scenario::compare;
use zebu_interop::server::Kind::{self, Java395, Zebu};
use zebu_interop::server::{PATIENCE, java};
use zebu_testkit::connection::{Connection, Hello, Incoming, Reply};
use zebu_testkit::wire::{Writer, op, open_acl};

/// The maximum timeout of sessions, so that no session expires during a test.
const TIMEOUT_MS: i32 = 60_000;

/// The member that is left alone.
const ALONE: usize = 0;

fn wait_until(what: &str, mut so: impl FnMut() -> Result<bool>) -> Result<()> {
    let start = Instant::now();
    while !so()? {
        ensure!(start.elapsed() < PATIENCE, "never: {what}");
        std::thread::sleep(Duration::from_millis(20));
    }
    Ok(())
}

/// A member's answer to `isro`.
fn isro(ensemble: &mut Ensemble) -> Result<String> {
    ensemble.member(ALONE).four_letter_word("isro")
}

/// Three members with the znode `/x`.
fn start(kind: Kind, local_sessions: bool) -> Result<Ensemble> {
    let options = options()
        .config("localSessionsEnabled", local_sessions)
        .property("readonlymode.enabled", true);
    let mut ensemble = Ensemble::start(&[kind; 3], &options)?;
    // A member that started long before the others serves read-only clients until they start.
    for index in 0..3 {
        ensemble.member(index).wait_until_it_says("isro", |said| said == "rw")?;
    }
    let mut session = Session::open(ensemble.members()[ALONE].address(), TIMEOUT_MS)?;
    session.create("/x", b"1", 0)?;
    session.close()?;
    Ok(ensemble)
}

/// All members but one stop, and that one becomes read-only.
fn lose_quorum(ensemble: &mut Ensemble) -> Result<()> {
    ensemble.member(1).kill()?;
    ensemble.member(2).kill()?;
    ensemble.member(ALONE).wait_until_it_says("isro", |said| said == "ro")
}

/// There is a quorum again.
fn regain_quorum(ensemble: &mut Ensemble) -> Result<()> {
    ensemble.member(1).spawn()?;
    ensemble.member(ALONE).wait_until_it_says("isro", |said| said == "rw")
}

/// Sends a connect request with this last byte, and returns the connection and the answer.
fn shake(
    ensemble: &Ensemble,
    (id, password): (i64, &[u8]),
    read_only: Option<bool>,
) -> Result<(Connection, Incoming)> {
    let mut connection = Connection::open(ensemble.members()[ALONE].address())?;
    let mut request = Hello::renewal(TIMEOUT_MS, id, password).bytes();
    request.pop();
    request.extend(read_only.map(u8::from));
    connection.send(&request)?;
    let answer = connection.receive()?;
    Ok((connection, answer))
}

/// An answer to a connect request, without id and password.
fn shown(answer: &Incoming) -> String {
    match answer {
        Incoming::Frame(frame) if frame.len() == 16 => {
            format!("{:?}", Reply::parse(frame).map(|reply| (reply.xid, reply.err)))
        }
        Incoming::Frame(frame) => {
            let timeout_ms = i32::from_be_bytes(frame[4..8].try_into().expect("four bytes"));
            format!("{} bytes, timeout {timeout_ms}, last {:?}", frame.len(), frame.last())
        }
        other => format!("{other:?}"),
    }
}

/// Answers of a read-only server to raw bytes.
fn story(kind: Kind, local_sessions: bool) -> Result<String> {
    let mut told = String::new();
    let mut tell = |what: &str, said: String| told.push_str(&format!("{what}: {said}\n"));
    let mut ensemble = start(kind, local_sessions)?;
    tell("isro", isro(&mut ensemble)?);
    let before = Session::open(ensemble.member(ALONE).address(), TIMEOUT_MS)?;
    let (id, password) = (before.id, before.password.clone());
    lose_quorum(&mut ensemble)?;
    let srvr = ensemble.member(ALONE).four_letter_word("srvr")?;
    for line in srvr.lines().skip(1).filter(|line| line.contains("READ") || line.contains("Mode")) {
        tell("srvr", line.to_owned());
    }
    let zxid = srvr.lines().find(|line| line.starts_with("Zxid")).map(ToOwned::to_owned);
    let new: (i64, &[u8]) = (0, &[0; 16]);
    for read_only in [None, Some(false)] {
        tell("does not ask for it", shown(&shake(&ensemble, new, read_only)?.1));
    }
    if !local_sessions {
        tell("a session of the ensemble", shown(&shake(&ensemble, (id, &password), Some(true))?.1));
    }
    let (mut connection, answer) = shake(&ensemble, new, Some(true))?;
    tell("a reader", shown(&answer));
    if local_sessions {
        let create = Writer::new().string("/y").string("").acl(&open_acl()).int(0);
        let delete = Writer::new().string("/x").int(-1);
        let set = Writer::new().string("/x").string("2").int(-1);
        let set_acl = Writer::new().string("/x").acl(&open_acl()).int(-1);
        let get = Writer::new().string("/x").bool(false);
        let multi = Writer::new().int(-1).bool(true).int(-1);
        for (xid, (op, body)) in [
            (op::CREATE, create.clone()),
            (op::CREATE2, create.clone()),
            (op::CREATE_CONTAINER, create),
            (op::DELETE, delete),
            (op::SET_DATA, set),
            (op::SET_ACL, set_acl),
            (op::MULTI, multi.clone()),
            (op::SYNC, Writer::new().string("/x")),
            (op::EXISTS, get.clone()),
            (op::GET_DATA, get.clone()),
            (op::GET_CHILDREN, Writer::new().string("/").bool(true)),
            (op::GET_ACL, Writer::new().string("/x")),
            (op::MULTI_READ, multi),
            (op::WHO_AM_I, Writer::new()),
        ]
        .into_iter()
        .enumerate()
        {
            let request = Writer::request(i32::try_from(xid)? + 1, op).raw(&body.done());
            connection.send(&request.done())?;
            let answer = connection.frame().with_context(|| format!("operation {op}"))?;
            let reply = Reply::parse(&answer)?;
            tell(&format!("op {op}"), format!("{} {} {}", reply.xid, reply.err, reply.body.len()));
        }
        // A session that closes, which changes nothing.
        let (mut other, _) = shake(&ensemble, new, Some(true))?;
        other.send(&Writer::request(1, op::CLOSE_SESSION).done())?;
        let farewell = other.frame().context("farewell")?;
        tell("farewell", format!("{}, then {:?}", Reply::parse(&farewell)?.err, other.receive()?));
        // A session that continues on another connection.
        let Incoming::Frame(welcome) = &answer else { bail!("no session") };
        let reader = i64::from_be_bytes(welcome[8..16].try_into()?);
        let key = welcome[20..36].to_vec();
        let (mut again, answer) = shake(&ensemble, (reader, &key), Some(true))?;
        tell("it comes back", shown(&answer));
        tell("where it was", format!("{:?}", connection.receive()?));
        regain_quorum(&mut ensemble)?;
        tell("with a quorum again", format!("{:?}", again.receive()?));
        let (_, answer) = shake(&ensemble, (reader, &key), Some(true))?;
        tell("its session", shown(&answer));
    } else {
        regain_quorum(&mut ensemble)?;
        let (_, answer) = shake(&ensemble, (id, &password), Some(false))?;
        tell("the session of the ensemble", shown(&answer));
    }
    let (_, answer) = shake(&ensemble, new, Some(true))?;
    tell("anybody", shown(&answer));
    let after = ensemble.member(ALONE).four_letter_word("srvr")?;
    let counter = |line: &str| i64::from_str_radix(line.trim_start_matches("Zxid: 0x"), 16).ok();
    let last = after.lines().find(|line| line.starts_with("Zxid")).and_then(counter);
    ensure!(last >= zxid.as_deref().and_then(counter), "{zxid:?} {last:?}");
    Ok(told)
}

fn same_story(local_sessions: bool) {
    let told = [Java395, Zebu].map(|kind| {
        story(kind, local_sessions).unwrap_or_else(|failure| panic!("{kind:?}: {failure:?}"))
    });
    compare("read-only", &told[0], &told[1]);
}

#[test]
#[ignore = "needs third-party programs: cargo xtask deps"]
fn readers_with_local_sessions() {
    same_story(true);
}

#[test]
#[ignore = "needs third-party programs: cargo xtask deps"]
fn readers_without_local_sessions() {
    same_story(false);
}

fn hosts(ensemble: &Ensemble) -> String {
    let addresses: Vec<String> = ensemble.addresses().iter().map(ToString::to_string).collect();
    addresses.join(",")
}

#[test]
#[ignore = "needs third-party programs: cargo xtask deps"]
fn kazoo_reads_and_then_writes() {
    let told = [Java395, Zebu].map(|kind| {
        let run = || -> Result<String> {
            let mut ensemble = start(kind, true)?;
            lose_quorum(&mut ensemble)?;
            let mut python = Command::new(deps::python());
            python.arg(deps::client("kazoo/read_only.py")).arg(hosts(&ensemble));
            python.env("PYTHONDONTWRITEBYTECODE", "1");
            let program = Program::start(&mut python)?;
            program.wait_for(PATIENCE, |text| text.contains("read-only is over"))?;
            regain_quorum(&mut ensemble)?;
            let output = program.finish(PATIENCE)?;
            ensure!(output.status.success(), "{}", output.text);
            Ok(text(&output.text))
        };
        run().unwrap_or_else(|failure| panic!("{kind:?}: {failure:?}"))
    });
    compare("kazoo, read-only", &told[0], &told[1]);
}

#[test]
#[ignore = "needs third-party programs: cargo xtask deps"]
fn the_command_line_reads_and_then_writes() {
    let told = [Java395, Zebu].map(|kind| {
        let run = || -> Result<String> {
            let mut ensemble = start(kind, true)?;
            lose_quorum(&mut ensemble)?;
            let mut command = java(Java395);
            command.arg("-Dorg.slf4j.simpleLogger.defaultLogLevel=off");
            command.args(["org.apache.zookeeper.ZooKeeperMain", "-server", &hosts(&ensemble)]);
            command.args(["-timeout", "20000", "-r"]);
            let mut program = Program::start(&mut command)?;
            program.wait_for(PATIENCE, |text| text.contains("state:ConnectedReadOnly"))?;
            for line in ["get /x", "ls /", "set /x 2", "create /y", "delete /x", "get /none"] {
                program.say(line)?;
            }
            program.wait_for(PATIENCE, |text| text.contains("Node does not exist: /none"))?;
            regain_quorum(&mut ensemble)?;
            program.wait_for(PATIENCE, |text| text.contains("state:SyncConnected"))?;
            for line in ["set /x 3", "get /x", "quit"] {
                program.say(line)?;
            }
            let output = program.finish(PATIENCE)?;
            // Notifications may appear anywhere among the lines.
            let text = text(&output.text);
            let lines = text.lines().filter(|line| {
                !line.is_empty() && *line != "WATCHER::" && !line.starts_with("WatchedEvent")
            });
            Ok(lines.map(|line| format!("{line}\n")).collect())
        };
        run().unwrap_or_else(|failure| panic!("{kind:?}: {failure:?}"))
    });
    compare("zkCli -r", &told[0], &told[1]);
}

#[test]
#[ignore = "needs third-party programs: cargo xtask deps"]
fn our_client_reads_and_then_writes() {
    for kind in [Java395, Zebu] {
        let mut ensemble = start(kind, true).unwrap();
        lose_quorum(&mut ensemble).unwrap();
        let runtime = Runtime::new().unwrap();
        let connector = Connector::new().session_timeout(Duration::from_secs(20));
        let connector = connector.connection_wait(PATIENCE).allow_read_only();
        let client = runtime.block_on(connector.connect(&hosts(&ensemble))).unwrap();
        assert_eq!(client.state(), SessionState::ConnectedReadOnly, "{kind:?}");
        let seen = runtime.block_on(async { client.get_data("/x").await }).unwrap();
        assert_eq!(&seen.0[..], b"1");
        let refused = runtime.block_on(async { client.set_data("/x", "2", Version::ANY).await });
        assert_eq!(refused.unwrap_err().kind(), ErrorKind::ReadOnly, "{kind:?}");
        regain_quorum(&mut ensemble).unwrap();
        wait_until("a better server", || Ok(client.state() == SessionState::Connected)).unwrap();
        runtime.block_on(async { client.set_data("/x", "3", Version::ANY).await }).unwrap();
    }
}

//! The HTTP admin server and the Prometheus page of the original and of Zebu: the same commands,
//! fields and names.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use serde_json::Value;
use zebu_interop::dump::{self, with_super};
use zebu_interop::ensemble::{Ensemble, options};
use zebu_interop::http::{ask, get, post};
use zebu_interop::network::Network;
use zebu_interop::raw::Session;
use zebu_interop::server::Kind::{self, Java395, Zebu};
use zebu_interop::server::{Options, Server, free_port};
use zebu_testkit::wire::{Writer, op};

/// All commands, and an unknown one. `monitor` and the process properties have their own tests.
const COMMANDS: [&str; 29] = [
    "configuration",
    "connections",
    "connection_stat_reset",
    "dirs",
    "dump",
    "environment",
    "get_trace_mask",
    "hash",
    "initial_configuration",
    "is_read_only",
    "last_snapshot",
    "leader",
    "observer_connection_stat_reset",
    "observers",
    "restore",
    "ruok",
    "server_stats",
    "set_trace_mask",
    "set_trace_mask?traceMask=5",
    "snapshot",
    "stats",
    "stat_reset",
    "voting_view",
    "watch_summary",
    "watches",
    "watches_by_path",
    "zabstate",
    "wchp",
    "nonsense",
];

/// A server with an admin server on this port.
fn with_admin(options: Options, port: u16) -> Options {
    options
        .config("admin.enableServer", "true")
        .config("admin.serverAddress", "127.0.0.1")
        .config("admin.serverPort", port)
        .config("admin.rateLimiterIntervalInMS", 0)
}

/// The type of a value without the value. Keys that are numbers are unified, and texts are kept
/// except for errors.
fn shape(key: &str, value: &Value) -> Value {
    match value {
        Value::Null => "null".into(),
        Value::Bool(value) => Value::Bool(*value),
        Value::Number(value) if value.is_f64() => "decimal".into(),
        Value::Number(_) => "number".into(),
        Value::String(text) if key == "error" || key == "command" => text.clone().into(),
        Value::String(_) => "text".into(),
        Value::Array(values) => values.iter().map(|value| shape("", value)).collect(),
        Value::Object(fields) => {
            let name = |key: &String| match key.parse::<i64>() {
                // A small number is a server's id. A session id or a time is not.
                Ok(number) if number > 99 => "a number".to_owned(),
                _ => key.clone(),
            };
            fields.iter().map(|(key, value)| (name(key), shape(key, value))).collect()
        }
    }
}

/// The status and the shape of the answer to each command.
type Answers = BTreeMap<&'static str, (u16, Value)>;

/// Sends all commands.
fn answers(port: u16) -> Result<Answers> {
    let answer = |command: &'static str| {
        let answer = get(port, &format!("/commands/{command}"))?;
        let kind = answer.header("content-type").unwrap_or_default().to_owned();
        ensure!(kind == "application/json", "{command}: {kind}");
        let mut shape = shape("", &answer.json()?);
        // A Zebu server has one digest more than the original: the newest.
        if let Some(digests) = shape.get_mut("digests").and_then(Value::as_array_mut) {
            digests.dedup();
        }
        Ok((command, (answer.status, shape)))
    };
    COMMANDS.into_iter().map(answer).collect()
}

/// A client with an ephemeral znode and watches, after enough transactions for a digest.
fn story(server: &Server, name: &str) -> Result<Session> {
    let mut session = Session::open(server.address(), 60_000)?;
    session.create(&format!("/{name}-mine"), b"", 1)?;
    for n in 0..150 {
        session.create(&format!("/{name}-{n}"), b"x", 0)?;
    }
    for path in ["mine", "1"] {
        let path = format!("/{name}-{path}");
        session.expect(op::EXISTS, Writer::new().string(&path).bool(true))?;
    }
    Ok(session)
}

#[track_caller]
fn compare(who: &str, theirs: &Answers, ours: &Answers) {
    for (command, theirs) in theirs {
        assert_eq!(&ours[command], theirs, "{who}: {command}");
    }
}

#[test]
#[ignore = "needs third-party programs: cargo xtask deps"]
fn a_server_that_stands_alone_answers_as_the_original() -> Result<()> {
    let [theirs, ours] = [Java395, Zebu].map(|kind| -> Result<_> {
        let port = free_port();
        let server = Server::start(kind, &with_admin(Options::default(), port))?;
        let _session = story(&server, "n")?;
        let list = get(port, "/commands")?.text();
        ensure!(get(port, "/commands/")?.text() == list, "the list has two forms");
        let other = ["/", "/nothing", "/commandsx"].map(|path| get(port, path).map(|it| it.status));
        let other = other.into_iter().collect::<Result<Vec<u16>>>()?;
        let taken = |header: &str, path: &str| -> Result<_> {
            let answer = ask(port, "GET", path, header)?;
            let zxid = answer.header("last_zxid").map(str::to_owned);
            let size = answer.header("snapshot_size").map(|size| size.parse::<usize>());
            let is_json = answer.header("content-type") == Some("application/json");
            let is_whole = size.transpose()?.map(|size| is_json || size == answer.body.len());
            let fields = if is_json { answer.json()? } else { Value::Null };
            Ok((answer.status, zxid, is_whole, fields))
        };
        let snapshots = [
            taken("Authorization: digest u:p\r\n", "/commands/snapshot")?,
            taken("Authorization: digest u:p\r\n", "/commands/snapshot?streaming=false")?,
            taken("Authorization: nope u:p\r\n", "/commands/snapshot")?,
            taken("Authorization: digest\r\n", "/commands/snapshot")?,
            taken("", "/commands/snapshot")?,
        ];
        let trace = ask(port, "TRACE", "/commands/ruok", "")?.status;
        Ok((answers(port)?, list, other, snapshots, trace))
    });
    let (theirs, ours) = (theirs?, ours?);
    compare("alone", &theirs.0, &ours.0);
    assert_eq!((theirs.1, theirs.2, theirs.4), (ours.1, ours.2, ours.4));
    for (theirs, ours) in theirs.3.into_iter().zip(ours.3) {
        assert_eq!(ours, theirs);
    }
    Ok(())
}

/// The answers of a leader, a follower and an observer.
fn members(kind: Kind) -> Result<Vec<(&'static str, Answers)>> {
    let ports: [u16; 4] = std::array::from_fn(|_| free_port());
    let options = |index: usize| with_admin(options(), ports[index]);
    let ensemble = Ensemble::prepare_each(Network::loopback(4), &[kind; 4], 1, &options)?;
    let mut ensemble = ensemble.started()?;
    let leader = ensemble.leader(None)?;
    let follower = (0..3).find(|index| *index != leader).context("one of two")?;
    let roles = [("leader", leader), ("follower", follower), ("observer", 3)];
    let answer = |(role, index): (&'static str, usize)| {
        let _session = story(&ensemble.members()[index], role)?;
        Ok((role, answers(ports[index])?))
    };
    roles.into_iter().map(answer).collect()
}

#[test]
#[ignore = "needs third-party programs: cargo xtask deps"]
fn members_of_an_ensemble_answer_as_those_of_the_original() -> Result<()> {
    let (theirs, ours) = (members(Java395)?, members(Zebu)?);
    for ((role, mut theirs), (_, mut ours)) in theirs.into_iter().zip(ours) {
        // The original's answer lacks this for a member.
        let forgotten = theirs.remove("initial_configuration").context("answered")?.1;
        assert_eq!(forgotten["initial_configuration"], "null", "{role}");
        let kept = ours.remove("initial_configuration").context("answered")?.1;
        assert_eq!(kept["initial_configuration"], "text", "{role}");
        compare(role, &theirs, &ours);
    }
    Ok(())
}

/// Each family of a page: its type, and its labels without the values of keys.
fn families(page: &str) -> BTreeMap<String, (String, BTreeSet<String>)> {
    let mut families = BTreeMap::<String, (String, BTreeSet<String>)>::new();
    let mut last = String::new();
    for line in page.lines() {
        if let Some(rest) = line.strip_prefix("# TYPE ") {
            let (name, kind) = rest.split_once(' ').expect("a type");
            last = name.to_owned();
            families.insert(last.clone(), (kind.to_owned(), BTreeSet::new()));
        } else if !line.starts_with('#')
            && let Some(rest) = line.strip_prefix(&last)
            && let Some((labels, _)) = rest.rsplit_once(' ')
        {
            // A comma after the last label is permitted.
            let labels = labels.replace(",}", "}");
            let (_, values) = families.get_mut(&last).expect("its type came first");
            values.insert(labels);
        }
    }
    families
}

/// The page of a server after a client's writes.
fn page(kind: Kind) -> Result<BTreeMap<String, (String, BTreeSet<String>)>> {
    let port = free_port();
    let server = Server::start(kind, &Options::default().metrics(port))?;
    let _session = story(&server, "n")?;
    let page = get(port, "/metrics")?;
    let kind = page.header("content-type").unwrap_or_default().to_ascii_lowercase();
    ensure!(kind == "text/plain; version=0.0.4; charset=utf-8", "{kind}");
    Ok(families(&page.text()))
}

#[test]
#[ignore = "needs third-party programs: cargo xtask deps"]
fn the_prometheus_page_has_every_name_of_the_original() -> Result<()> {
    let (theirs, ours) = (page(Java395)?, page(Zebu)?);
    // Metrics of a JVM. JVM pauses are left out.
    let is_of_jvm = |name: &str| name.starts_with("jvm_") && name != "jvm_pause_time_ms";
    for (name, theirs) in theirs.iter().filter(|(name, _)| !is_of_jvm(name)) {
        assert_eq!(ours.get(name), Some(theirs), "{name}");
    }
    Ok(())
}

#[test]
#[ignore = "needs third-party programs: cargo xtask deps"]
fn the_original_starts_from_a_snapshot_that_was_sent() -> Result<()> {
    let port = free_port();
    let server = Server::start(Zebu, &with_admin(Options::default(), port))?;
    story(&server, "n")?.close()?;
    let taken = ask(port, "GET", "/commands/snapshot", "Authorization: digest u:p\r\n")?;
    let zxid = taken.header("last_zxid").and_then(|zxid| zxid.strip_prefix("0x"));
    let name = format!("version-2/snapshot.{}", zxid.context("no zxid")?);
    let trusting = Options::default().config("snapshot.trust.empty", "true");
    let original = Server::start_with(Java395, &trusting, |data| {
        std::fs::create_dir(data.join("version-2"))?;
        Ok(std::fs::write(data.join(&name), &taken.body)?)
    })?;
    assert_eq!(server.monitor("zk_znode_count")?, original.monitor("zk_znode_count")?);
    Ok(())
}

const AUTH: &str = "Authorization: digest u:p\r\n";

/// Starts a server with an admin server on its data again.
fn again(server: &mut Server, kind: Kind) -> Result<()> {
    server.stop()?;
    server.change_kind(kind);
    server.launch()
}

/// A snapshot that the original sends becomes the state of a running Zebu server, and the original
/// continues with the files on the disk. COMPAT describes the original's own reaction to the same
/// request: its disk keeps the old state.
#[test]
#[ignore = "needs third-party programs: cargo xtask deps"]
fn a_snapshot_of_the_original_is_restored_and_the_original_goes_on_from_it() -> Result<()> {
    let ports = [free_port(), free_port()];
    let options = |port| with_super(with_admin(Options::default(), port));
    let source = Server::start(Java395, &options(ports[0]))?;
    let _session = story(&source, "n")?;
    let taken = ask(ports[0], "GET", "/commands/snapshot", AUTH)?;
    ensure!(taken.status == 200, "{}", taken.head);
    let expected = dump::tree(source.address())?;

    for (kind, outlives) in [(Java395, false), (Zebu, true)] {
        let mut server = Server::start(kind, &options(ports[1]))?;
        let mut session = Session::open(server.address(), 60_000)?;
        session.create("/overwritten", b"", 0)?;
        let answer = post(ports[1], "/commands/restore", AUTH, &taken.body)?;
        ensure!(answer.status == 200, "{kind:?}: {} {}", answer.head, answer.text());
        ensure!(answer.json()?["last_zxid"].is_i64(), "{}", answer.text());
        ensure!(dump::tree(server.address())? == expected, "{kind:?}: another tree");
        again(&mut server, Java395)?;
        let found = dump::tree(server.address())?;
        assert_eq!(found == expected, outlives, "{kind:?} and a restart of the original");
        assert_eq!(found.contains("/overwritten"), !outlives, "{kind:?}");
        let mut session = Session::open(server.address(), 60_000)?;
        session.create("/later", b"", 0)?;
        again(&mut server, Zebu)?;
        ensure!(dump::tree(server.address())?.contains("/later"), "{kind:?}: a write is lost");
    }
    Ok(())
}

/// A kill at any moment of a restore leaves the old state with everything acknowledged, or the new
/// one.
#[test]
#[ignore = "needs third-party programs: cargo xtask deps"]
fn a_kill_during_a_restore_leaves_the_old_state_or_the_new_one() -> Result<()> {
    let port = free_port();
    let mut server = Server::start(Zebu, &with_admin(Options::default(), port))?;
    let mut session = Session::open(server.address(), 60_000)?;
    let data = vec![7; 100_000];
    for n in 0..100 {
        session.create(&format!("/n{n}"), &data, 0)?;
    }
    let taken = ask(port, "GET", "/commands/snapshot", AUTH)?;
    let mut states = [0, 0];
    for round in 0..40 {
        let mut session = Session::open(server.address(), 60_000)?;
        let mark = format!("/mark{round}");
        session.create(&mark, b"", 0)?;
        let body = taken.body.clone();
        let upload = std::thread::spawn(move || post(port, "/commands/restore", AUTH, &body));
        std::thread::sleep(Duration::from_millis(2 * round));
        server.kill()?;
        let was_told = upload.join().is_ok_and(|answer| answer.is_ok_and(|it| it.status == 200));
        server.launch()?;
        let mut session = Session::open(server.address(), 60_000)?;
        let has = |session: &mut Session, path: &str| {
            Ok::<_, anyhow::Error>(
                session.call(op::EXISTS, Writer::new().string(path).bool(false))?.err == 0,
            )
        };
        ensure!(has(&mut session, "/n0")? && has(&mut session, "/n99")?, "round {round}: neither");
        let is_old = has(&mut session, &mark)?;
        ensure!(!(is_old && was_told), "round {round}: what was told is undone");
        states[usize::from(is_old)] += 1;
    }
    println!("{} new, {} old", states[0], states[1]);
    ensure!(states[1] > 0, "never killed before the end: {states:?}");
    Ok(())
}

/// The disk is full during a restore: the state is the old one, and the server continues to serve
/// or returns by itself.
#[test]
#[ignore = "needs third-party programs: cargo xtask deps"]
fn a_restore_onto_a_full_disk_changes_nothing() -> Result<()> {
    let port = free_port();
    let small =
        with_admin(Options::default(), port).small_disk(24).property("zookeeper.preAllocSize", 64);
    let mut server = Server::start(Zebu, &small)?;
    if !server.has_own_disk() {
        eprintln!("no file system of its own can be mounted here");
        return Ok(());
    }
    let mut session = Session::open(server.address(), 60_000)?;
    let data = vec![7; 100_000];
    for n in 0..40 {
        session.create(&format!("/n{n}"), &data, 0)?;
    }
    let taken = ask(port, "GET", "/commands/snapshot", AUTH)?;
    ensure!(taken.status == 200, "{}", taken.text());
    session.create("/mark", b"", 0)?;
    server.fill_disk()?;
    let answer = post(port, "/commands/restore", AUTH, &taken.body)?;
    ensure!(answer.status == 500, "{} {}", answer.head, answer.text());
    server.empty_disk()?;
    server.wait_until_serving()?;
    let mut session = Session::open(server.address(), 60_000)?;
    session.expect(op::EXISTS, Writer::new().string("/mark").bool(false))?;
    let answer = post(port, "/commands/restore", AUTH, &taken.body)?;
    ensure!(answer.status == 200, "{} {}", answer.head, answer.text());
    Ok(())
}

//! Members join, leave, and change their roles and ports while the ensemble serves clients; of one
//! kind and mixed with the original.

use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use zebu_client::blocking::Client;
use zebu_client::{Connector, ErrorCode, ErrorKind, EventKind, Reconfiguration};
use zebu_interop::deps;
use zebu_interop::dump::{self, SUPER};
use zebu_interop::faults::PROGRESS;
use zebu_interop::load::Load;
use zebu_interop::members::Members;
use zebu_interop::raw::Session;
use zebu_interop::run::{Program, succeed};
use zebu_interop::server::Kind::{self, Java395, Zebu};
use zebu_interop::server::PATIENCE;
use zebu_testkit::connection::Reply;
use zebu_testkit::wire::{Reader, Writer, op};

/// One server becomes three, of which any two can continue.
fn grow(kinds: [Kind; 3]) -> Result<()> {
    let mut members = Members::start(&kinds[..1], true)?;
    members.write(&[1], "alone")?;
    members.join(2, kinds[1], &[1])?;
    members.expect_mode(2, "follower")?;
    let second = members.entry(2, "participant");
    let config = members.change(1, &[second], &[])?;
    members.expect(&[1, 2], &config)?;
    members.join(3, kinds[2], &[1, 2])?;
    let third = members.entry(3, "participant");
    let config = members.change(2, &[third], &[])?;
    members.expect(&[1, 2, 3], &config)?;
    members.write(&[1, 2, 3], "grown")?;
    members.server(1).kill()?;
    members.leader(&[2, 3])?;
    members.write(&[2, 3], "without")?;
    // The server finds the others by the files that it has written itself.
    members.server(1).spawn()?;
    members.expect(&[1, 2, 3], &config)?;
    members.write(&[1, 2, 3], "again")?;
    let version = config.rsplit_once("version=").expect("a version").1.to_owned();
    for id in (1..=3).filter(|id| kinds[usize::from(*id) - 1] == Zebu) {
        let file = members.server(id).config();
        let text = std::fs::read_to_string(&file)?;
        let beside = |suffix: &str| format!("{}{suffix}", file.display());
        let dynamic = beside(&format!(".dynamic.{version}"));
        ensure!(text.contains(&format!("dynamicConfigFile={dynamic}\n")), "{text}");
        // Its line contains the client address, unless that comes from its original file.
        ensure!(text.contains("clientPort=") == (id == 1), "{text}");
        ensure!(!text.contains("server."), "{text}");
        let is_member = |line: &&str| line.starts_with("server.");
        let mut lines: Vec<&str> = config.lines().filter(is_member).collect();
        lines.sort_unstable();
        ensure!(std::fs::read_to_string(dynamic)?.lines().eq(lines), "server {id}");
        ensure!(!std::fs::exists(beside(".dynamic.next"))?, "server {id}");
        let backup = std::fs::read_to_string(beside(".bak"))?;
        ensure!(backup.contains("server.1="), "{backup}");
    }
    Ok(())
}

/// A standalone server with data and a client becomes an ensemble of one by its file, then of
/// three.
fn grow_from_standalone(kinds: [Kind; 3]) -> Result<()> {
    let mut members = Members::start(&kinds[..1], false)?;
    members.expect_mode(1, "standalone")?;
    members.write(&[1], "standalone")?;
    let address = members.server(1).address();
    let mut session = Session::open(address, 60_000)?;
    session.create("/ephemeral", b"", 1)?;
    let (id, password) = (session.id, session.password.clone());
    // A standalone server cannot be reconfigured.
    let stranger = "server.9=127.0.0.1:7001:7002:participant;127.0.0.1:7003";
    let refused = members.ask(1, Some(stranger), None, None, -1)?;
    ensure!(refused.err != 0, "a standalone server is reconfigured");
    members.server(1).stop()?;
    let file = members.server(1).config();
    let text = std::fs::read_to_string(&file)?;
    ensure!(text.contains("standaloneEnabled=true\n"), "{text}");
    std::fs::write(&file, text.replace("standaloneEnabled=true", "standaloneEnabled=false"))?;
    members.configure("standaloneEnabled", "false");
    members.server(1).spawn()?;
    members.expect_mode(1, "leader")?;

    for (new, others) in [(2, vec![1]), (3, vec![1, 2])] {
        members.join(new, kinds[usize::from(new) - 1], &others)?;
        let entry = members.entry(new, "participant");
        let config = members.change(1, &[entry], &[])?;
        let all: Vec<u8> = (1..=new).collect();
        members.expect(&all, &config)?;
        members.write(&all, &format!("grown-{new}"))?;
    }
    let exists = |path| Writer::new().string(path).bool(false);
    members.server(1).kill()?;
    members.leader(&[2, 3])?;
    let moved = members.server(3).address();
    let mut session = Session::resume(moved, 60_000, id, &password)?;
    for path in ["/standalone-1", "/ephemeral", "/grown-3-1"] {
        session.expect(op::EXISTS, exists(path)).with_context(|| path.to_owned())?;
    }
    session.close()?;
    members.write(&[2, 3], "without")
}

/// An observer is added, becomes a voter and an observer again. A follower is removed. Client
/// addresses change. The leader moves, and is removed.
fn change(kinds: [Kind; 3], joiner: Kind) -> Result<()> {
    let mut members = Members::start(&kinds, false)?;
    let leader = members.leader(&[1, 2, 3])?;
    members.join(4, joiner, &[1, 2, 3])?;
    members.expect_mode(4, "follower")?;
    let all = [1, 2, 3, 4];

    let mut watching = Session::open(members.server(leader).address(), 60_000)?;
    watching.expect(op::GET_DATA, Writer::new().string("/zookeeper/config").bool(true))?;
    let observer = members.entry(4, "observer");
    let config = members.change(leader, &[observer], &[])?;
    members.expect(&all, &config)?;
    members.expect_mode(4, "observer")?;
    let frame = watching.connection.frame().context("the notification of the configuration")?;
    ensure!(Reply::parse(&frame)?.xid == -1, "no notification");
    members.write(&all, "observer")?;

    let voter = members.entry(4, "participant");
    let config = members.change(4, &[voter], &[])?;
    members.expect(&all, &config)?;
    members.expect_mode(4, "follower")?;
    members.write(&all, "voter")?;

    // A follower moves to another client address.
    let other = if leader == 1 { 2 } else { 1 };
    let before = members.server(other).address();
    let moved = members.moved_entry(other, "participant");
    let config = members.change(leader, &[moved], &[])?;
    members.expect(&all, &config)?;
    ensure!(Session::open(before, 1000).is_err(), "clients are still let in at the old port");
    members.write(&all, "moved")?;

    // It becomes an observer, and is removed: it continues without a vote.
    let observer = members.entry(other, "observer");
    let config = members.change(leader, &[observer], &[])?;
    members.expect_mode(other, "observer")?;
    members.expect(&all, &config)?;
    let config = members.change(leader, &[], &[other])?;
    members.expect_mode(other, "follower")?;
    members.expect(&all, &config)?;
    members.write(&all, "removed")?;
    let voter = members.entry(other, "participant");
    let config = members.change(other, &[voter], &[])?;
    members.expect(&all, &config)?;

    // The leader moves, so another member becomes the leader.
    members.choose_ports(leader);
    let moved = members.entry(leader, "participant");
    let config = members.change(other, &[moved], &[])?;
    members.expect(&all, &config)?;
    members.write(&all, "leader-moved")?;

    // And the current leader is removed.
    let leader = members.leader(&all)?;
    let config = members.change(leader, &[], &[leader])?;
    let rest: Vec<u8> = all.into_iter().filter(|id| *id != leader).collect();
    let next = members.leader(&rest)?;
    members.expect(&all, &config)?;
    members.expect_mode(leader, "follower")?;
    members.write(&all, "leader-removed")?;
    if all.iter().all(|id| members.server(*id).kind() == Zebu) {
        // All members have received the commit before the leader closed their connections.
        for id in rest.iter().filter(|id| **id != next) {
            let said = members.server(*id).log_lines(&["looking for a leader"]);
            let last = said.lines().last().unwrap_or_default();
            ensure!(last.ends_with("another role or leader in it"), "server {id}: {said}");
        }
    }

    // The others continue without it.
    members.server(leader).stop()?;
    members.write(&rest, "stopped")?;
    let text = members.shown(next)?;
    ensure!(text == config, "{text}");
    Ok(())
}

/// A member is added and removed repeatedly while clients write, and each time the leader is killed
/// meanwhile.
fn change_under_crashes() -> Result<()> {
    let mut members = Members::start(&[Zebu; 3], false)?;
    members.join(4, Zebu, &[1, 2, 3])?;
    let load = Load::start(&[1, 2, 3].map(|id| members.server(id).address()))?;
    load.wait_for(PROGRESS)?;
    let all = [1, 2, 3, 4];
    for round in 0..6 {
        let leader = members.leader(&all)?;
        let other = if leader == 1 { 2 } else { 1 };
        let joins = round % 2 == 0;
        let entry = members.entry(4, "participant");
        let (joining, leaving) = if joins { (Some(&*entry), None) } else { (None, Some("4")) };
        let mut session = Session::open(members.server(other).address(), 60_000)?;
        session.auth("digest", SUPER)?;
        let body =
            [joining, leaving, None].into_iter().fold(Writer::new(), Writer::optional_string);
        let request = Writer::request(1_000, op::RECONFIG).raw(&body.long(-1).done());
        session.connection.send(&request.done())?;
        std::thread::sleep(Duration::from_millis(2 * round));
        members.server(leader).kill()?;
        load.wait_for(PROGRESS)?;
        // A removed member does not start. It returns with empty data.
        let is_gone = leader == 4 && !joins;
        if !is_gone {
            members.server(leader).spawn()?;
        }
        // Whether or not the request was executed, repeating it gives the same result.
        let (joining, leaving) = if joins { (vec![entry], vec![]) } else { (vec![], vec![4]) };
        let config = members.change(other, &joining, &leaving)?;
        if is_gone {
            members.join(4, Zebu, &[1, 2, 3])?;
        }
        ensure!(config.contains("server.4=") == joins, "{config}");
        members.expect(&all, &config)?;
        load.wait_for(PROGRESS)?;
    }
    let told = load.finish()?;
    let mut trees = Vec::new();
    for id in all {
        let mut session = Session::open(members.server(id).address(), 60_000)?;
        session.expect(op::SYNC, Writer::new().string("/"))?;
        session.close()?;
        // The members show the configuration at different times.
        let tree = dump::tree(members.server(id).address())?;
        let lines = tree.lines().filter(|line| !line.starts_with("/zookeeper/config "));
        trees.push(lines.flat_map(|line| [line, "\n"]).collect::<String>());
        let mismatches = members.server(id).monitor("zk_digest_mismatches_count")?;
        ensure!(mismatches == "0", "server {id}: {mismatches} digests differ");
    }
    ensure!(trees.iter().all(|tree| *tree == trees[0]), "trees differ: {trees:#?}");
    println!("{}", told.check(&trees[0])?);
    Ok(())
}

/// Answers to invalid reconfigurations.
fn refusals(kind: Kind) -> Result<Vec<i32>> {
    let mut members = Members::start(&[kind; 3], false)?;
    let leader = members.leader(&[1, 2, 3])?;
    let entries = [1, 2, 3].map(|id| members.entry(id, "participant"));
    let absent = "server.9=127.0.0.1:7001:7002:participant;127.0.0.1:7003";
    let two_absent = format!("{absent},server.8=127.0.0.1:7004:7005:participant;127.0.0.1:7006");
    let whole = format!("{},{two_absent}", entries[0]);
    // Members to add, members to remove, or all members; then the version.
    type Case<'c> = ([Option<&'c str>; 3], i64);
    let cases: [Case<'_>; 12] = [
        ([None, Some("3"), None], 7),
        ([None, Some("3"), None], 0),
        ([None, Some("x"), None], -1),
        ([Some("server.9"), None, None], -1),
        ([Some("server.9=127.0.0.1:7001:7002:participant"), None, None], -1),
        ([Some("server.9=127.0.0.1:7001;127.0.0.1:7003"), None, None], -1),
        ([Some("server.9=127.0.0.1:7001:7002:lurker;127.0.0.1:7003"), None, None], -1),
        ([None, None, Some("nonsense=1")], -1),
        ([None, None, Some(&entries[0])], -1),
        ([None, Some("1,2"), None], -1),
        ([Some(&two_absent), Some("1,2"), None], -1),
        ([None, None, Some(&whole)], -1),
    ];
    let mut said = Vec::new();
    for ([joining, leaving, whole], version) in cases {
        for at in [leader, leader % 3 + 1] {
            said.push(members.ask(at, joining, leaving, whole, version)?.err);
        }
    }
    // Only the administrator may reconfigure; this is checked last.
    let mut session = Session::open(members.server(leader).address(), 60_000)?;
    for (leaving, version) in [("3", -1), ("3", 7), ("1,2", -1)] {
        let body = Writer::new().optional_string(None).optional_string(Some(leaving));
        let body = body.optional_string(None).long(version);
        said.push(session.call(op::RECONFIG, body)?.err);
    }
    // None of this has changed anything.
    let config = members.shown(leader)?;
    ensure!(config.ends_with("version=100000000"), "{config}");
    // A complete configuration, with the current version.
    let lines: Vec<String> = [1, 2, 3].map(|id| members.entry(id, "participant")).to_vec();
    let reply = members.ask(leader, None, None, Some(&lines.join(",")), 0x1_0000_0000)?;
    said.push(reply.err);
    let mut reader = Reader::new(&reply.body);
    let config = String::from_utf8(reader.optional_buffer()?.unwrap_or_default().to_vec())?;
    let stat = reader.stat()?;
    reader.end()?;
    said.extend([stat.version, stat.data_length - config.len() as i32]);
    let text: Vec<&str> = config.lines().collect();
    ensure!(text[..3] == lines[..], "{config}");
    members.expect(&[1, 2, 3], &config)?;
    Ok(said)
}

/// REC-01, REC-03, REC-04.
#[test]
fn one_server_becomes_three() {
    grow([Zebu; 3]).unwrap();
}

/// FUT-04, PAI-45; REC-10: the original behaves the same.
#[test]
fn a_standalone_server_becomes_three() {
    grow_from_standalone([Zebu; 3]).unwrap();
}

#[test]
#[ignore = "needs third-party programs: cargo xtask deps"]
fn a_standalone_server_of_either_kind_becomes_three_of_both() {
    grow_from_standalone([Java395, Zebu, Zebu]).unwrap();
    grow_from_standalone([Zebu, Java395, Java395]).unwrap();
}

#[test]
fn members_change_while_leaders_are_killed() {
    change_under_crashes().unwrap();
}

#[test]
fn members_change_while_they_serve() {
    change([Zebu; 3], Zebu).unwrap();
}

/// A folder has the name of the file that the follower has to write.
#[test]
fn a_server_that_cannot_write_its_configuration_stops() {
    let run = || -> Result<()> {
        let mut members = Members::start(&[Zebu; 3], false)?;
        let leader = members.leader(&[1, 2, 3])?;
        let follower = leader % 3 + 1;
        let file = members.server(follower).config();
        std::fs::create_dir(format!("{}.dynamic.next.tmp", file.display()))?;
        // The others are a quorum before and after the change.
        let reply = members.ask(leader, None, Some(&follower.to_string()), None, -1)?;
        ensure!(reply.err == 0, "{}", reply.err);
        let start = std::time::Instant::now();
        while members.server(follower).is_alive() {
            ensure!(start.elapsed() < PATIENCE, "it still runs");
            std::thread::sleep(Duration::from_millis(20));
        }
        let log = members.server(follower).log();
        ensure!(log.contains(".dynamic.next"), "{log}");
        Ok(())
    };
    run().unwrap_or_else(|failure| panic!("{failure:?}"));
}

#[test]
fn an_ensemble_that_has_agreed_does_not_let_its_members_be_changed_by_hand() {
    let mut members = Members::start(&[Zebu; 3], false).unwrap();
    members.write(&[1, 2, 3], "before").unwrap();
    // Two new servers, and one old one whose file lists them. The other two are stopped.
    for id in [1, 2] {
        members.server(id).stop().unwrap();
    }
    members.server(3).stop().unwrap();
    let file = members.server(3).config();
    let lines: Vec<String> = (4..=5)
        .map(|id| {
            members.choose_ports(id);
            let entry = format!("server.{id}=127.0.0.1:{}", zebu_interop::server::free_port());
            format!("{entry}:{}:participant\n", zebu_interop::server::free_port())
        })
        .collect();
    let text = std::fs::read_to_string(&file).unwrap();
    let text: String =
        text.lines().filter(|l| !l.contains("dynamic")).map(|l| format!("{l}\n")).collect();
    let backup = std::fs::read_to_string(format!("{}.bak", file.display())).unwrap();
    let old: String =
        backup.lines().filter(|l| l.starts_with("server.")).map(|l| format!("{l}\n")).collect();
    std::fs::write(&file, format!("{text}{old}{}", lines.concat())).unwrap();
    members.server(3).spawn().unwrap();
    let start = std::time::Instant::now();
    while !members.server(3).log().contains("change members with reconfig") {
        assert!(start.elapsed() < PATIENCE, "{}", members.server(3).log());
        std::thread::sleep(std::time::Duration::from_millis(50));
    }
    // With the old members it continues as before.
    members.server(1).spawn().unwrap();
    members.server(3).wait_until_serving().unwrap();
    members.write(&[1, 3], "after").unwrap();
    let config = members.shown(1).unwrap();
    assert!(!config.contains("server.4"), "{config}");
    members.expect(&[3], &config).unwrap();
}

/// ERR-14.
#[test]
#[ignore = "needs third-party programs: cargo xtask deps"]
fn what_is_refused_is_refused_as_by_the_original() {
    assert_eq!(refusals(Zebu).unwrap(), refusals(Java395).unwrap());
}

#[test]
#[ignore = "needs third-party programs: cargo xtask deps"]
fn ours_join_and_leave_an_ensemble_of_the_originals() {
    change([Java395; 3], Zebu).unwrap();
}

#[test]
#[ignore = "needs third-party programs: cargo xtask deps"]
fn the_originals_join_and_leave_an_ensemble_of_ours() {
    change([Zebu; 3], Java395).unwrap();
}

#[test]
#[ignore = "needs third-party programs: cargo xtask deps"]
fn one_of_the_originals_grows_by_ours_and_the_other_way_round() {
    grow([Java395, Zebu, Zebu]).unwrap();
    grow([Zebu, Java395, Java395]).unwrap();
}

#[test]
#[ignore = "needs third-party programs: cargo xtask deps"]
fn kazoo_changes_the_members() {
    let run = || -> Result<()> {
        let mut members = Members::start(&[Zebu; 3], false)?;
        members.join(4, Zebu, &[1, 2, 3])?;
        let entry = members.entry(4, "observer");
        let address = members.server(2).connect_string();
        let mut python = Command::new(deps::python());
        python.arg(deps::client("kazoo/reconfig.py")).args([&address, SUPER, &entry]);
        python.env("PYTHONDONTWRITEBYTECODE", "1");
        let said = succeed(&mut python, PATIENCE)?;
        let versions: Vec<&str> = said.lines().collect();
        ensure!(versions == ["joined True", "bad version True", "left False"], "{said}");
        Ok(())
    };
    run().unwrap();
}

/// Zebu's clients, asynchronous and blocking, and its shell change the members, and see the
/// results.
fn ours_change_the_members(kind: Kind) -> Result<()> {
    let mut members = Members::start(&[kind; 3], false)?;
    members.join(4, kind, &[1, 2, 3])?;
    let entry = members.entry(4, "observer");
    let address = members.server(2).connect_string();
    let connector = Connector::new()
        .session_timeout(Duration::from_secs(20))
        .request_timeout(PATIENCE)
        .authenticate("digest", SUPER);
    let client = Client::open(connector, &address)?;

    let (before, _stat, changed) = client.watch_config()?;
    let before = String::from_utf8(before.to_vec())?;
    ensure!(before.contains("server.3=") && !before.contains("server.4="), "{before}");
    let join = Reconfiguration::Change { joining: &[&entry], leaving: &[] };
    let (joined, _stat) = client.reconfigure(join, None)?;
    let joined = String::from_utf8(joined.to_vec())?;
    ensure!(joined.contains(&entry), "{joined}");
    let event = client.wait_timeout(PATIENCE, changed).context("no event")??;
    ensure!(event.kind == EventKind::DataChanged, "{event:?}");
    members.expect(&[1, 2, 3, 4], &joined)?;

    // The version makes it conditional.
    let (_, version) = joined.rsplit_once("version=").context("no version")?;
    let version = i64::from_str_radix(version, 16)?;
    let leave = Reconfiguration::Change { joining: &[], leaving: &["4"] };
    let error = client.reconfigure(leave, Some(version - 1)).expect_err("another version");
    ensure!(
        (error.kind(), error.code()) == (ErrorKind::Conflict, ErrorCode::BAD_VERSION),
        "{error}"
    );
    let (left, _stat) = client.reconfigure(leave, Some(version))?;
    ensure!(!String::from_utf8(left.to_vec())?.contains("server.4="));
    // All members, as they are now.
    let lines = [1, 2, 3].map(|id| members.entry(id, "participant"));
    let whole: Vec<&str> = lines.iter().map(String::as_str).collect();
    client.reconfigure(Reconfiguration::Members(&whole), None)?;
    client.close()?;

    // CLI-18.
    let script = format!(
        "addauth digest {SUPER}\nreconfig -add {entry}\nreconfig -remove 4\nconfig\nquit\n"
    );
    let mut shell = Command::new(deps::zebu());
    let mut shell = Program::start_apart(shell.args(["shell", "-q", "-server", &address]))?;
    shell.say(script.trim_end())?;
    let said = shell.finish(PATIENCE)?;
    let committed = said.text.matches("Committed new configuration:").count();
    ensure!(committed == 2 && said.status.success(), "{} {}", said.text, said.errors);
    let configs = said.text.matches("version=").count();
    let with_four = said.text.matches(&entry).count();
    ensure!((configs, with_four) == (3, 1), "{}", said.text);
    Ok(())
}

/// API-11.
#[test]
#[ignore = "needs third-party programs: cargo xtask deps"]
fn our_client_and_shell_change_the_members() {
    for kind in [Zebu, Java395] {
        ours_change_the_members(kind).unwrap_or_else(|error| panic!("{kind:?}: {error:#}"));
    }
}

/// FUT-13: a running client that knows one server learns of servers that join, and continues with
/// them when the first one is gone.
fn a_client_follows(kind: Kind) -> Result<()> {
    let mut members = Members::start(&[kind], true)?;
    let first = members.server(1).address().to_string();
    let connector = Connector::new().session_timeout(Duration::from_secs(20)).follow_members(true);
    let client = Client::open(connector, &first)?;
    // Its only requests read the configuration: once at the start, and once after each change.
    let knows = |configurations: u64| -> Result<()> {
        let start = std::time::Instant::now();
        loop {
            let metrics = client.metrics();
            if metrics.requests >= configurations && metrics.pending() == 0 {
                return Ok(());
            }
            ensure!(start.elapsed() < PATIENCE, "{metrics:?}");
            std::thread::sleep(Duration::from_millis(20));
        }
    };
    knows(1)?;
    members.join(2, kind, &[1])?;
    let second = members.entry(2, "participant");
    members.change(1, &[second], &[])?;
    knows(2)?;
    members.join(3, kind, &[1, 2])?;
    let third = members.entry(3, "participant");
    let config = members.change(1, &[third], &[])?;
    knows(3)?;
    // Until the others know that it is committed, they need a quorum of the old members.
    members.expect(&[1, 2, 3], &config)?;
    members.server(1).kill()?;
    let start = std::time::Instant::now();
    while client.server().is_none_or(|server| server.to_string() == first) {
        let trouble = client.trouble();
        let mut log = |id| members.server(id).log();
        ensure!(start.elapsed() < PATIENCE, "{trouble:?}\n{}\n{}", log(2), log(3));
        std::thread::sleep(Duration::from_millis(20));
    }
    ensure!(client.exists("/zookeeper")?.is_some());
    Ok(())
}

#[test]
fn a_client_follows_the_members() {
    a_client_follows(Zebu).unwrap();
}

#[test]
#[ignore = "needs third-party programs: cargo xtask deps"]
fn a_client_follows_the_originals_members() {
    a_client_follows(Java395).unwrap();
}

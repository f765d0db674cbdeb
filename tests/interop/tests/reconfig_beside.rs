//! Reconfigurations with observers that learn from followers, with hierarchical groups, with an
//! oracle, and with several addresses per server: the same scenario on the original and on Zebu.

use std::fs;
use std::net::Ipv4Addr;
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Result, bail, ensure};
use zebu_interop::deps;
use zebu_interop::dump::SUPER;
use zebu_interop::ensemble::options;
use zebu_interop::members::{Id, Members};
use zebu_interop::raw::Session;
use zebu_interop::run::succeed;
use zebu_interop::server::Kind::{self, Java395, Zebu};
use zebu_interop::server::{PATIENCE, free_port};
use zebu_testkit::wire::{Writer, op};

/// Two observers learn from followers. One becomes a voter and an observer again. Voters are
/// removed and return. After each step, a write at any server is visible at all of them.
fn observers_behind_followers(kinds: [Kind; 3], observers: Kind) -> Result<()> {
    let options = options().config("observerMasterPort", free_port());
    let mut members = Members::start_with(&kinds, options, true)?;
    let mut all: Vec<Id> = vec![1, 2, 3];
    for id in [4, 5] {
        members.join(id, observers, &[1, 2, 3])?;
        all.push(id);
        let entry = members.entry(id, "observer");
        let config = members.change(1, &[entry], &[])?;
        members.expect(&all, &config)?;
        members.expect_mode(id, "observer")?;
    }
    members.write(&all, "observed")?;

    let entry = members.entry(4, "participant");
    let config = members.change(5, &[entry], &[])?;
    members.expect(&all, &config)?;
    members.expect_mode(4, "follower")?;
    members.write(&all, "voting")?;

    // A follower stops, from which observers may be learning.
    let leader = members.leader(&all)?;
    let gone = if leader == 1 { 2 } else { 1 };
    let config = members.change(leader, &[], &[gone])?;
    let rest: Vec<Id> = all.iter().copied().filter(|id| *id != gone).collect();
    members.expect(&rest, &config)?;
    members.server(gone).stop()?;
    members.write(&rest, "without")?;
    // And the leader.
    members.server(leader).kill()?;
    let left: Vec<Id> = rest.iter().copied().filter(|id| *id != leader).collect();
    members.leader(&left)?;
    members.write(&left, "led")?;
    members.server(leader).spawn()?;
    members.expect(&rest, &config)?;

    // A leader of the original that loses its vote may keep a transaction that no other member has.
    // The original's followers never serve clients then.
    while observers == Java395 && members.leader(&rest)? == 4 {
        members.server(4).kill()?;
        let others: Vec<Id> = rest.iter().copied().filter(|id| *id != 4).collect();
        members.leader(&others)?;
        members.server(4).spawn()?;
        members.expect(&rest, &config)?;
    }
    let entry = members.entry(4, "observer");
    let config = members.change(leader, &[entry], &[])?;
    members.expect(&rest, &config)?;
    members.expect_mode(4, "observer")?;
    members.write(&rest, "again")
}

/// Answers of servers in groups to reconfigurations, some of them malformed.
fn groups(kind: Kind) -> Result<(Vec<i32>, Vec<i32>)> {
    let options = options().config("group.1", "1:2:3");
    let options =
        [1, 2, 3].iter().fold(options, |options, id| options.config(&format!("weight.{id}"), 1));
    let mut members = Members::start_with(&[kind; 3], options, false)?;
    let leader = members.leader(&[1, 2, 3])?;
    let lines = [1, 2, 3].map(|id| members.entry(id, "participant")).join(",");
    let stranger = "server.9=127.0.0.1:7001:7002:participant;127.0.0.1:7003";
    let weights = "weight.1=1,weight.2=1,weight.3=1";
    let refused = [
        // A group with an unknown member, and members in no group or in two.
        format!("{lines},group.1=1:2:9,{weights}"),
        format!("{lines},group.1=1:2,{weights}"),
        format!("{lines},group.1=1:2,group.2=2:3,{weights}"),
    ];
    let unreadable =
        [format!("{lines},group.1=1:x:3,{weights}"), format!("{lines},group.1=1:2:3,weight.1=x")];
    let taken = [
        // A member without a weight, one more member, and the old configuration again.
        format!("{lines},group.1=1:2:3,weight.9=1"),
        format!("{lines},{stranger},group.1=1:2:3:9,{weights}"),
        format!("{lines},group.1=1:2:3,{weights}"),
    ];
    let mut ask = |joining: Option<&str>, leaving: Option<&str>, whole: Option<&str>| {
        members.ask(leader, joining, leaving, whole, -1).map(|reply| reply.err)
    };
    // Only majorities support incremental changes.
    let mut said = vec![ask(Some(stranger), None, None)?, ask(None, Some("3"), None)?];
    for whole in &refused {
        said.push(ask(None, None, Some(whole))?);
    }
    let unreadable: Result<_> =
        unreadable.iter().map(|whole| ask(None, None, Some(whole))).collect();
    let unreadable = unreadable?;
    let config = members.shown(leader)?;
    ensure!(config.contains("group.1=1:2:3"), "{config}");
    ensure!(config.ends_with("version=100000000"), "{config}");
    for whole in &taken {
        said.push(members.ask(leader, None, None, Some(whole), -1)?.err);
    }
    Ok((said, unreadable))
}

/// Two members with an oracle become three voters with a majority, and two again.
fn with_an_oracle(kinds: [Kind; 3]) -> Result<()> {
    let folder = tempfile::tempdir()?;
    let oracle = folder.path().join("oracle");
    fs::write(&oracle, "0")?;
    let options = options().config("oraclePath", oracle.to_string_lossy());
    let mut members = Members::start_with(&kinds[..2], options, false)?;
    let lose_one_of_two = |members: &mut Members, gone: Id, name: &str| -> Result<()> {
        members.server(gone).kill()?;
        fs::write(&oracle, "1")?;
        members.write(&[3 - gone], name)?;
        // The oracle's answer to both of them here: the two may not continue alone.
        fs::write(&oracle, "0")?;
        members.server(gone).spawn()?;
        members.server(gone).wait_until_serving()?;
        members.write(&[1, 2], &format!("{name}-and-back"))
    };
    members.write(&[1, 2], "two")?;
    lose_one_of_two(&mut members, 2, "alone")?;

    members.join(3, kinds[2], &[1, 2])?;
    let entry = members.entry(3, "participant");
    let config = members.change(1, &[entry], &[])?;
    members.expect(&[1, 2, 3], &config)?;
    members.write(&[1, 2, 3], "three")?;
    // Any two of three continue, and the oracle is not asked.
    let leader = members.leader(&[1, 2, 3])?;
    members.server(leader).kill()?;
    let rest: Vec<Id> = [1, 2, 3].into_iter().filter(|id| *id != leader).collect();
    members.leader(&rest)?;
    members.write(&rest, "rest")?;
    members.server(leader).spawn()?;
    members.expect(&[1, 2, 3], &config)?;

    let config = members.change(1, &[], &[3])?;
    members.server(3).stop()?;
    members.expect(&[1, 2], &config)?;
    members.write(&[1, 2], "two-again")?;
    lose_one_of_two(&mut members, 1, "alone-again")
}

/// The result of adding a server that does not exist, with these addresses and roles: the error,
/// and the server's line in the configuration and in its file.
fn stranger(members: &mut Members, at: Id, line: &str) -> Result<(i32, String, String)> {
    let joining = format!("server.9={line};127.0.0.1:7003");
    let reply = members.ask(at, Some(&joining), None, None, -1)?;
    if reply.err != 0 {
        return Ok((reply.err, String::new(), String::new()));
    }
    let config = members.shown(at)?;
    let file = members.dynamic_file(at, &config)?;
    let of_it = |text: &str| {
        let line = text.lines().find(|line| line.starts_with("server.9="));
        line.unwrap_or_default().to_owned()
    };
    let said = (0, of_it(&config), of_it(&file));
    members.change(at, &[], &[9])?;
    Ok(said)
}

/// Answers for servers with several addresses, permitted or not.
fn addresses(kind: Kind, allowed: bool) -> Result<Vec<(i32, String, String)>> {
    let options = options().property("zookeeper.multiAddress.enabled", allowed);
    let mut members = Members::start_with(&[kind; 3], options, false)?;
    let leader = members.leader(&[1, 2, 3])?;
    let lines = [
        "127.0.0.1:7001:7002:observer|127.0.0.2:7001:7002:observer",
        // Sorted as text.
        "127.0.0.9:7001:7002:observer|127.0.0.10:7004:7005:observer|127.0.0.1:7006:7007:observer",
        // The role is given once only.
        "127.0.0.1:7001:7002|127.0.0.2:7001:7002:observer",
        "127.0.0.1:7001:7002:observer|127.0.0.2:7001:7002",
        // Duplicate addresses are removed.
        "127.0.0.1:7001:7002:observer|127.0.0.1:7001:7002:observer",
        "127.0.0.2:7001:7002:observer|127.0.0.1:7001:7002:observer|127.0.0.2:7001:7002:observer",
        // An empty part after, before, or between bars.
        "127.0.0.1:7001:7002:observer|",
        "|127.0.0.1:7001:7002:observer",
        "127.0.0.1:7001:7002:observer||127.0.0.2:7001:7002:observer",
        // Different roles, one port for both, a missing port, an invalid one.
        "127.0.0.1:7001:7002:observer|127.0.0.2:7001:7002:participant",
        "127.0.0.1:7001:7002:observer|127.0.0.2:7001:7001:observer",
        "127.0.0.1:7001:7002:observer|127.0.0.2:7001",
        "127.0.0.1:7001:7002:observer|127.0.0.2:x:7002:observer",
    ];
    lines.iter().map(|line| stranger(&mut members, leader, line)).collect()
}

/// Servers get a second address one after the other, then all lose their first one. Compares what
/// each server shows, and has in its file, after each step.
fn moves(kinds: [Kind; 3]) -> Result<Vec<String>> {
    let options = options().property("zookeeper.multiAddress.enabled", "true");
    let mut members = Members::start_with(&kinds, options, true)?;
    let all = [1, 2, 3];
    let first = |id: Id| Ipv4Addr::new(127, 0, 0, 10 + id);
    let second = |id: Id| Ipv4Addr::new(127, 0, 0, 20 + id);
    let mut told = Vec::new();
    let mut tell = |members: &mut Members, config: &str, name: &str| -> Result<()> {
        members.expect(&all, config)?;
        told.push(members.without_ports(config));
        for id in all {
            let file = members.dynamic_file(id, config)?;
            told.push(members.without_ports(&file));
        }
        members.write(&all, name)
    };
    for id in all {
        // Each server requests its own change; one of them is the leader.
        let entry = members.entry_at(id, &[second(id), first(id)], "participant");
        let config = members.change(id, &[entry], &[])?;
        tell(&mut members, &config, &format!("two-{id}"))?;
    }
    let entries = all.map(|id| members.entry_at(id, &[second(id)], "participant"));
    let config = members.change(1, &entries, &[])?;
    tell(&mut members, &config, "second")?;
    // A server that restarts finds the others at their new addresses.
    let leader = members.leader(&all)?;
    members.server(leader).kill()?;
    let rest: Vec<Id> = all.into_iter().filter(|id| *id != leader).collect();
    members.leader(&rest)?;
    members.server(leader).spawn()?;
    tell(&mut members, &config, "back")?;
    // A complete configuration, and back to the old addresses.
    let whole = all.map(|id| members.entry_at(id, &[first(id), second(id)], "participant"));
    let config = members.replace(1, &whole)?;
    tell(&mut members, &config, "whole")?;
    Ok(told)
}

/// An observer without a log becomes a voter that every commit needs. Transactions committed after
/// that are on its disk.
fn vote_without_a_log(kind: Kind) -> Result<()> {
    let options = options().config("syncEnabled", "false");
    let mut members = Members::start_with(&[kind; 2], options, true)?;
    members.join(3, Zebu, &[1, 2])?;
    let entry = members.entry(3, "observer");
    let config = members.change(1, &[entry], &[])?;
    members.expect(&[1, 2, 3], &config)?;
    members.expect_mode(3, "observer")?;
    members.write(&[1, 2, 3], "not-logged")?;

    let entry = members.entry(3, "participant");
    let config = members.change(1, &[entry], &[])?;
    members.expect(&[1, 2, 3], &config)?;
    members.expect_mode(3, "follower")?;
    let config = members.change(1, &[], &[2])?;
    members.server(2).stop()?;
    members.expect(&[1, 3], &config)?;
    members.write(&[1, 3], "logged")?;
    let begun = members.server(3).log_lines(&["it reloads its state from its disk"]);
    ensure!(begun.lines().count() == 1, "{begun}");

    // The leader has all acknowledged transactions, and both members have them.
    for id in [1, 3] {
        members.server(id).kill()?;
    }
    for id in [1, 3] {
        members.server(id).spawn()?;
    }
    members.write(&[1, 3], "restarted")?;
    for id in [1, 3] {
        let mut session = Session::open(members.server(id).address(), 60_000)?;
        for path in ["/not-logged-1", "/not-logged-3", "/logged-1", "/logged-3"] {
            session.expect(op::EXISTS, Writer::new().string(path).bool(false))?;
        }
    }
    Ok(())
}

/// While a reconfiguration waits for the new members, the leaving members restart. They remember
/// the proposed configuration, so they must not elect a leader of their own.
///
/// The new members are paused, so learners of the original could not find the leader: they look for
/// a quorum of the proposed configuration, too. The simulation covers mixed cases.
fn a_proposal_outlives_learners() -> Result<()> {
    // The timeouts for paused members are long.
    let options = options().config("syncLimit", 600);
    let mut members = Members::start_with(&[Zebu; 3], options, false)?;
    // By now another member may lead.
    let_third_lead(&mut members)?;
    for id in [4, 5] {
        members.join(id, Zebu, &[1, 2, 3])?;
    }
    let joining = [4, 5].map(|id| members.entry(id, "participant")).join(",");
    for id in [4, 5] {
        members.server(id).pause()?;
    }
    let asking = replace_two(&mut members, joining);
    for id in [1, 2] {
        proposed(&mut members, id)?;
    }
    for id in [1, 2] {
        members.server(id).kill()?;
        members.server(id).spawn()?;
        members.expect_mode(id, "follower")?;
        // It was told of the current configuration, and must not forget it.
        proposed(&mut members, id)?;
    }
    for id in [4, 5] {
        members.server(id).go_on()?;
    }
    let err = asking.join().expect("it does not panic")?;
    ensure!(err == 0, "the change is refused: {err}");
    let config = members.shown(3)?;
    ensure!(config.contains("server.5=") && !config.contains("server.1="), "{config}");
    members.expect(&[3, 4, 5], &config)?;
    members.write(&[3, 4, 5], "changed")
}

/// The same with learners of the original. The new members are followers that find their leader,
/// but their disks hang. If the others forgot the proposal, two of them would elect a leader, and
/// both sides would acknowledge writes.
fn a_proposal_outlives_learners_of_the_original() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let slow_disk = folder.path().join("slow_disk.so");
    let mut gcc = Command::new("gcc");
    gcc.args(["-Wall", "-Wextra", "-Werror", "-O1", "-shared", "-fPIC", "-o"]).arg(&slow_disk);
    succeed(gcc.arg(deps::client("c/slow_disk.c")), PATIENCE)?;
    let options = options().config("syncLimit", 600).environment("LD_PRELOAD", slow_disk.display());
    let mut members = Members::start_with(&[Java395, Java395, Zebu], options, false)?;
    let_third_lead(&mut members)?;
    for id in [4, 5] {
        members.join_as(id, Zebu, &[1, 2, 3], "participant")?;
        members.expect_mode(id, "follower")?;
    }
    let joining = [4, 5].map(|id| members.entry(id, "participant")).join(",");
    let hang = |members: &mut Members, id: Id| members.server(id).config().with_file_name("hang");
    for id in [4, 5] {
        fs::write(hang(&mut members, id), "")?;
    }
    let asking = replace_two(&mut members, joining);
    for id in [1, 2] {
        proposed(&mut members, id)?;
    }
    for id in [1, 2] {
        members.server(id).kill()?;
        members.server(id).spawn()?;
        members.expect_mode(id, "follower")?;
        proposed(&mut members, id)?;
    }
    ensure!(!asking.is_finished(), "the change was not pending");
    // Packets of the others no longer arrive.
    for id in [3, 4, 5] {
        members.server(id).pause()?;
    }
    // Both must lose their leader at the same time.
    for id in [1, 2] {
        members.server(id).kill()?;
        members.server(id).spawn()?;
    }
    // A fault shows itself soon. Without one, time passes.
    let start = Instant::now();
    while start.elapsed() < Duration::from_secs(10) {
        for id in [1, 2] {
            let mode = members.mode(id).unwrap_or_default();
            ensure!(!["leader", "follower"].contains(&mode.as_str()), "server {id} is a {mode}");
        }
        std::thread::sleep(Duration::from_millis(100));
    }
    for id in [4, 5] {
        fs::remove_file(hang(&mut members, id))?;
    }
    for id in [3, 4, 5] {
        members.server(id).go_on()?;
    }
    // The requester may have lost its leader. All five are running, and each has the proposal.
    if let Ok(err) = asking.join().expect("it does not panic") {
        ensure!(err == 0, "the change is refused: {err}");
    }
    members.write(&[3, 4, 5], "changed")?;
    let config = members.shown(3)?;
    ensure!(config.contains("server.5=") && !config.contains("server.1="), "{config}");
    members.expect(&[3, 4, 5], &config)
}

/// Makes server 3 the leader of the first three.
fn let_third_lead(members: &mut Members) -> Result<()> {
    while members.leader(&[1, 2, 3])? != 3 {
        let leader = members.leader(&[1, 2, 3])?;
        members.server(leader).kill()?;
        members.leader(&[1, 2, 3].into_iter().filter(|id| *id != leader).collect::<Vec<_>>())?;
        members.server(leader).launch()?;
    }
    Ok(())
}

/// Asks server 3 to replace servers 1 and 2, for as long as that takes. Returns the error code.
fn replace_two(members: &mut Members, joining: String) -> std::thread::JoinHandle<Result<i32>> {
    let leader = members.server(3).address();
    std::thread::spawn(move || -> Result<i32> {
        let mut session = Session::open(leader, 60_000)?;
        session.auth("digest", SUPER)?;
        let body = Writer::new().optional_string(Some(&joining)).optional_string(Some("1,2"));
        let reply = session.call(op::RECONFIG, body.optional_string(None).long(-1))?;
        Ok(reply.err)
    })
}

/// Waits until a server's files list server 5 as a future member.
fn proposed(members: &mut Members, id: Id) -> Result<()> {
    let name = format!("{}.dynamic.next", members.server(id).config().display());
    let start = Instant::now();
    loop {
        let text = fs::read_to_string(&name).unwrap_or_default();
        if text.contains("server.5=") {
            return Ok(());
        }
        if start.elapsed() > PATIENCE {
            bail!("server {id} has seen {text:?} last\n{}", members.server(id).log());
        }
        std::thread::sleep(Duration::from_millis(20));
    }
}

fn done(result: Result<()>) {
    result.unwrap_or_else(|failure| panic!("{failure:?}"));
}

#[test]
fn observers_behind_followers_are_reconfigured() {
    done(observers_behind_followers([Zebu; 3], Zebu));
}

#[test]
#[ignore = "needs third-party programs: cargo xtask deps"]
fn observers_behind_followers_of_the_original_are_reconfigured() {
    done(observers_behind_followers([Java395; 3], Java395));
}

#[test]
fn an_observer_without_a_log_gets_a_vote() {
    done(vote_without_a_log(Zebu));
}

#[test]
#[ignore = "needs third-party programs: cargo xtask deps"]
fn an_observer_without_a_log_gets_a_vote_beside_the_original() {
    done(vote_without_a_log(Java395));
}

#[test]
#[ignore = "needs third-party programs: cargo xtask deps"]
fn groups_are_changed_as_by_the_original() {
    let [theirs, ours] = [Java395, Zebu].map(|kind| groups(kind).unwrap());
    assert_eq!(ours.0, theirs.0);
    // The requests are invalid (-8). The original answers that it cannot decode them (-5).
    assert_eq!((ours.1, theirs.1), (vec![-8; 2], vec![-5; 2]));
}

#[test]
#[ignore = "needs third-party programs: cargo xtask deps"]
fn observers_behind_followers_of_either_kind_are_reconfigured() {
    done(observers_behind_followers([Zebu, Java395, Zebu], Java395));
    done(observers_behind_followers([Java395, Zebu, Java395], Zebu));
}

#[test]
fn two_with_an_oracle_become_three_and_two_again() {
    done(with_an_oracle([Zebu; 3]));
}

#[test]
#[ignore = "needs third-party programs: cargo xtask deps"]
fn two_of_the_original_with_an_oracle_become_three_and_two_again() {
    done(with_an_oracle([Java395; 3]));
}

#[test]
#[ignore = "needs third-party programs: cargo xtask deps"]
fn servers_with_several_addresses_join_as_at_the_original() {
    for allowed in [true, false] {
        let [theirs, ours] = [Java395, Zebu].map(|kind| addresses(kind, allowed).unwrap());
        assert_eq!(ours, theirs, "allowed: {allowed}");
    }
}

#[test]
#[ignore = "needs third-party programs: cargo xtask deps"]
fn servers_move_to_other_addresses_as_those_of_the_original() {
    let theirs = moves([Java395; 3]).unwrap_or_else(|failure| panic!("{failure:?}"));
    let mixed = [[Zebu; 3], [Zebu, Java395, Zebu], [Java395, Zebu, Java395]];
    for kinds in mixed {
        let ours = moves(kinds).unwrap_or_else(|failure| panic!("{kinds:?}: {failure:?}"));
        assert_eq!(ours, theirs, "{kinds:?}");
    }
}

#[test]
fn what_is_proposed_outlives_learners() {
    done(a_proposal_outlives_learners());
}

#[test]
#[ignore = "needs third-party programs: cargo xtask deps"]
fn what_is_proposed_outlives_learners_of_the_original() {
    done(a_proposal_outlives_learners_of_the_original());
}

//! Observers of Zebu in their own processes.

use std::fs::{self, DirEntry};
use std::io;
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use zebu_interop::ensemble::{Ensemble, options};
use zebu_interop::faults::PROGRESS;
use zebu_interop::load::Load;
use zebu_interop::network::Network;
use zebu_interop::raw::Session;
use zebu_interop::server::{Kind, PATIENCE, free_port};
use zebu_testkit::wire::{Reader, Writer, op, open_acl};

/// Names of files in a member's data directory.
fn files(ensemble: &mut Ensemble, index: usize) -> Vec<String> {
    let folder = ensemble.member(index).data().join("version-2");
    let name = |entry: io::Result<DirEntry>| entry.unwrap().file_name().into_string().unwrap();
    fs::read_dir(folder).unwrap().map(name).collect()
}

/// While clients write, an observer is restarted, is paused, and loses its leader.
fn survive(ensemble: &mut Ensemble, observer: usize) -> Result<()> {
    let load = Load::start(&ensemble.addresses())?;
    load.wait_for(PROGRESS)?;
    ensemble.member(observer).kill()?;
    load.wait_for(PROGRESS)?;
    ensemble.member(observer).launch()?;
    ensemble.member(observer).pause()?;
    load.wait_for(PROGRESS)?;
    ensemble.member(observer).go_on()?;
    load.wait_for(PROGRESS)?;
    let leader = ensemble.leader(None)?;
    ensemble.member(leader).kill()?;
    load.wait_for(PROGRESS)?;
    ensemble.member(leader).spawn()?;
    ensemble.wait_for_all()?;
    load.wait_for(PROGRESS)?;
    let told = load.finish()?;
    told.check(&ensemble.agreed_tree()?)?;
    Ok(())
}

/// Voters of one kind and two observers of the other kind that learn from followers.
fn prepare_with_masters(voters: Kind, observers: Kind) -> Result<Ensemble> {
    let kinds = [voters, voters, voters, observers, observers];
    let options = options().config("observerMasterPort", free_port());
    Ensemble::prepare_on(Network::addresses(5), &kinds, 2, &options)
}

/// The server that an observer learns from.
fn master(ensemble: &Ensemble, observer: usize) -> Result<usize> {
    let id: usize = ensemble.members()[observer].monitor("zk_observer_master_id")?.parse()?;
    Ok(id - 1)
}

/// Observers learn from followers. Their clients' requests reach the leader through the followers,
/// and the answers return. If its follower ends, an observer moves to another one.
fn learn_from_followers(voters: Kind, observers: Kind) -> Result<()> {
    let mut ensemble = prepare_with_masters(voters, observers)?.started()?;
    let leader = ensemble.leader(None)?;
    let first = master(&ensemble, 3)?;
    ensure!(first != leader, "{first} leads");
    // The answer may be a moment old.
    let start = Instant::now();
    loop {
        let observers: i32 = ensemble.members()[first].monitor("zk_synced_observers")?.parse()?;
        if observers > 0 {
            break;
        }
        ensure!(start.elapsed() < PATIENCE, "it says that it has no observers");
        std::thread::sleep(Duration::from_millis(20));
    }
    ensure!(ensemble.members()[leader].monitor("zk_synced_observers")? == "0");

    // Writes and syncs of an observer's client.
    let at = |ensemble: &Ensemble, index: usize| ensemble.members()[index].address();
    let mut session = Session::open(at(&ensemble, 3), 60_000)?;
    session.create("/written", b"1", 0)?;
    session.create("/ephemeral", b"", 1)?;
    let mut other = Session::open(at(&ensemble, leader), 60_000)?;
    other.expect(op::SET_DATA, Writer::new().string("/written").string("2").int(-1))?;
    session.expect(op::SYNC, Writer::new().string("/"))?;
    let read = session.expect(op::GET_DATA, Writer::new().string("/written").bool(false))?;
    ensure!(Reader::new(&read).string()? == "2", "{read:?}");
    // The session continues at the other observer, and at a voter.
    let (id, password) = (session.id, session.password.clone());
    let session = Session::resume(at(&ensemble, 4), 60_000, id, &password)?;
    let mut session = Session::resume(at(&ensemble, first), 60_000, session.id, &password)?;
    session.create("/moved", b"", 1)?;
    let mut session = Session::resume(at(&ensemble, 3), 60_000, id, &password)?;
    session.expect(op::CLOSE_SESSION, Writer::new())?;

    let current = ensemble.current_addresses(voters);
    let load = Load::start_where(&ensemble.addresses(), &current, 1)?;
    load.wait_for(PROGRESS)?;
    let before = master(&ensemble, 3)?;
    ensemble.member(before).kill()?;
    load.wait_for(PROGRESS)?;
    ensemble.member(3).wait_until_serving()?;
    let start = Instant::now();
    while master(&ensemble, 3)? == before {
        ensure!(start.elapsed() < PATIENCE, "it still learns from {before}");
        std::thread::sleep(Duration::from_millis(20));
    }
    ensemble.member(before).spawn()?;
    ensemble.wait_for_all()?;
    // First some transactions behind, then with empty data.
    ensemble.member(4).kill()?;
    load.wait_for(PROGRESS)?;
    ensemble.member(4).launch()?;
    load.wait_for(PROGRESS)?;
    ensemble.member(4).kill()?;
    ensemble.wipe(4)?;
    ensemble.member(4).launch()?;
    load.wait_for(PROGRESS)?;
    let leader = ensemble.leader(None)?;
    ensemble.member(leader).kill()?;
    load.wait_for(PROGRESS)?;
    ensemble.member(leader).spawn()?;
    ensemble.wait_for_all()?;
    let told = load.finish()?;
    let tree = ensemble.agreed_tree()?;
    told.check(&tree)?;
    ensure!(!tree.contains("/ephemeral ") && !tree.contains("/moved "), "{tree}");
    Ok(())
}

/// COMPAT ensemble-44: a session moves from one observer to another observer of the same follower.
fn late_write() -> Result<()> {
    let mut ensemble = prepare_with_masters(Kind::Zebu, Kind::Zebu)?.started()?;
    let leader = ensemble.leader(None)?;
    let gone = (leader + 1) % 3;
    let follower = 3 - leader - gone;
    ensemble.member(gone).kill()?;
    let start = Instant::now();
    for observer in [3, 4] {
        ensemble.member(observer).wait_until_serving()?;
        while master(&ensemble, observer).ok() != Some(follower) {
            ensure!(start.elapsed() < PATIENCE, "it does not learn from {follower}");
            std::thread::sleep(Duration::from_millis(20));
        }
    }
    let at = |ensemble: &Ensemble, index: usize| ensemble.members()[index].address();
    let mut old = Session::open(at(&ensemble, 3), 60_000)?;
    old.create("/before", b"", 0)?;
    let mut new = Session::resume(at(&ensemble, 4), 60_000, old.id, &old.password)?;
    new.create("/moved", b"", 0)?;
    // The old connection is closed, or its request is refused.
    let late = Writer::new().string("/late").optional_buffer(None).acl(&open_acl()).int(0);
    ensure!(old.call(op::CREATE, late).is_err(), "the old connection still writes");
    let exists = Writer::new().string("/late").bool(false);
    ensure!(new.call(op::EXISTS, exists)?.err == -101, "the late write was executed");
    new.create("/after", b"", 0)?;
    Ok(())
}

#[test]
fn a_session_that_has_moved_writes_nothing_through_its_old_observer() {
    late_write().unwrap_or_else(|failure| panic!("{failure:?}"));
}

#[test]
fn observers_learn_from_followers() {
    learn_from_followers(Kind::Zebu, Kind::Zebu).unwrap_or_else(|failure| panic!("{failure:?}"));
}

#[test]
#[ignore = "needs third-party programs: cargo xtask deps"]
fn our_observers_learn_from_java_followers() {
    let done = learn_from_followers(Kind::Java395, Kind::Zebu);
    done.unwrap_or_else(|failure| panic!("{failure:?}"));
}

#[test]
#[ignore = "needs third-party programs: cargo xtask deps"]
fn java_observers_learn_from_our_followers() {
    let done = learn_from_followers(Kind::Zebu, Kind::Java395);
    done.unwrap_or_else(|failure| panic!("{failure:?}"));
}

/// An observer without a log serves clients like any other, and starts with the leader's snapshot.
#[test]
fn an_observer_without_a_log_has_everything_all_the_same() {
    let options = options().config("syncEnabled", "false");
    let mut ensemble = Ensemble::prepare_with_observers(&[Kind::Zebu; 4], 1, &options).unwrap();
    (0..4).try_for_each(|index| ensemble.member(index).spawn()).unwrap();
    ensemble.wait_for_all().unwrap();
    survive(&mut ensemble, 3).unwrap_or_else(|failure| panic!("{failure:?}"));
    let is_log = |name: &String| name.starts_with("log.");
    assert!(!files(&mut ensemble, 3).iter().any(is_log), "{:?}", files(&mut ensemble, 3));
    assert!(files(&mut ensemble, 0).iter().any(is_log), "{:?}", files(&mut ensemble, 0));
}

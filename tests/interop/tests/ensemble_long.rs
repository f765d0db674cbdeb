//! Long periods in an ensemble: without a leader, and without one member.

use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use zebu_interop::ensemble::{Ensemble, options};
use zebu_interop::raw::Session;
use zebu_interop::server::Kind::{self, Java395, Zebu};
use zebu_interop::server::PATIENCE;
use zebu_testkit::connection::{Connection, Hello, Incoming};
use zebu_testkit::wire::{Reader, Writer, op};

/// A session timeout that is shorter than the time without a server, in milliseconds.
const TIMEOUT_MS: i32 = 8_000;

/// More than a leader keeps in memory for learners that are behind.
const MANY: usize = 1_500;

/// SES-11: without a leader, sessions do not age. Under a new leader, a session that no client
/// renews expires.
fn sessions_wait_for_a_leader(kind: Kind) -> Result<()> {
    let mut ensemble = Ensemble::start(&[kind; 3], &options())?;
    let address = ensemble.member(0).address();
    let mut renewed = Session::open(address, TIMEOUT_MS)?;
    renewed.create("/renewed", b"", 1)?;
    let mut left = Session::open(address, TIMEOUT_MS)?;
    left.create("/left", b"", 1)?;
    for index in [1, 2] {
        ensemble.member(index).kill()?;
    }
    let (id, password) = (renewed.id, renewed.password.clone());
    drop((renewed, left));
    // Time itself must pass here.
    std::thread::sleep(Duration::from_millis(TIMEOUT_MS as u64 * 3 / 2));
    for index in [1, 2] {
        ensemble.member(index).spawn()?;
    }
    let start = Instant::now();
    let patience = Duration::from_secs(1);
    let mut session = loop {
        match Session::attach(address, TIMEOUT_MS, id, &password, 0, patience) {
            Ok(session) => break session.context("it has expired")?,
            Err(error) => ensure!(start.elapsed() < PATIENCE, "no server: {error:#}"),
        }
        std::thread::sleep(Duration::from_millis(10));
    };
    let exists = |session: &mut Session, path: &str| -> Result<i32> {
        session.expect(op::SYNC, Writer::new().string("/"))?;
        Ok(session.call(op::EXISTS, Writer::new().string(path).bool(false))?.err)
    };
    ensure!(exists(&mut session, "/renewed")? == 0, "its ephemeral is gone");
    while exists(&mut session, "/left")? == 0 {
        ensure!(start.elapsed() < PATIENCE, "a session that nobody renews does not end");
        std::thread::sleep(Duration::from_millis(50));
    }
    ensure!(exists(&mut session, "/renewed")? == 0, "its ephemeral is gone");
    session.close()
}

/// SES-07: a client moves to a paused follower, so the new leader knows no server of the session.
/// But the client's bytes wait at the follower, so the client is not silent.
fn follower_that_stands_still() -> Result<()> {
    let start = Instant::now();
    while !one_that_stands_still()? {
        ensure!(start.elapsed() < PATIENCE, "this machine is too busy");
    }
    Ok(())
}

/// False if the client or a server was too late, so that the result tells nothing.
fn one_that_stands_still() -> Result<bool> {
    let timeout = Duration::from_secs(6);
    let timeout_ms = i32::try_from(timeout.as_millis())?;
    // The leader tolerates the silence of a follower for twenty seconds.
    let mut ensemble = Ensemble::start(&[Zebu; 3], &options())?;
    let first = ensemble.leader(None)?;
    let mut session = Session::open(ensemble.member(first).address(), timeout_ms)?;
    session.create("/there", b"", 1)?;
    let renewed = Instant::now();
    ensemble.member(first).kill()?;
    let leader = ensemble.leader(Some(first))?;
    let late = 3 - first - leader;
    // Two of three members continue without the paused one.
    ensemble.member(first).spawn()?;
    ensemble.member(first).wait_until_serving()?;
    ensemble.member(late).wait_until_serving()?;
    let stopped = Instant::now();
    ensemble.member(late).pause()?;
    let mut connection = Connection::open(ensemble.member(late).address())?;
    connection.send(&Hello::renewal(timeout_ms, session.id, &session.password).bytes())?;
    let spoke_in_time = renewed.elapsed() < timeout;
    // Time itself must pass here.
    std::thread::sleep(timeout * 3 / 2);
    ensemble.member(late).go_on()?;
    let borne = stopped.elapsed() < Duration::from_secs(18);
    let answer = connection.receive()?;
    if !spoke_in_time || !borne {
        return Ok(false);
    }
    if let Incoming::Frame(payload) = answer {
        let mut reader = Reader::new(&payload);
        let _version = reader.int()?;
        ensure!(reader.int()? > 0, "the session has ended");
    }
    let address = ensemble.member(leader).address();
    let mut session = Session::resume(address, timeout_ms, session.id, &session.password)?;
    let body = Writer::new().string("/there").bool(false);
    session.expect(op::EXISTS, body).context("its ephemeral is gone")?;
    session.close()?;
    Ok(true)
}

/// A learner that lacks more than the leader has in memory receives it from the log, if that is
/// permitted.
fn long_diff(leader: Kind, learner: Kind) -> Result<()> {
    let options = options()
        .property("zookeeper.snapCount", 300)
        // No limit. The original permits no number above 1.
        .property("zookeeper.snapshotSizeFactor", 0);
    let mut ensemble = Ensemble::prepare(&[learner, leader, leader], &options)?.started()?;
    let write = |ensemble: &mut Ensemble, name: &str, count: usize| -> Result<()> {
        let mut session = Session::open(ensemble.member(2).address(), 60_000)?;
        for number in 0..count {
            session.create(&format!("/{name}-{number}"), b"", 0)?;
        }
        session.close()
    };
    write(&mut ensemble, "before", 100)?;
    ensemble.agreed_tree()?;
    ensemble.member(0).stop()?;
    let copies = |ensemble: &mut Ensemble| {
        let words = ["received the leader's tree", "Getting a snapshot from leader"];
        ensemble.member(0).log_lines(&words).lines().count()
    };
    let before = copies(&mut ensemble);
    write(&mut ensemble, "long", MANY)?;
    ensemble.member(0).launch()?;
    let tree = ensemble.agreed_tree()?;
    ensure!(tree.contains(&format!("/long-{} ", MANY - 1)), "{tree}");
    ensure!(copies(&mut ensemble) == before, "it got the tree: {}", ensemble.member(0).log());
    Ok(())
}

fn done(result: Result<()>) {
    result.unwrap_or_else(|failure| panic!("{failure:?}"));
}

#[test]
fn a_session_outlives_a_leader_and_a_follower_that_stands_still() {
    done(follower_that_stands_still());
}

#[test]
fn sessions_do_not_get_older_while_nobody_leads() {
    done(sessions_wait_for_a_leader(Zebu));
}

#[test]
#[ignore = "needs third-party programs: cargo xtask deps"]
fn sessions_of_the_original_do_not_get_older_while_nobody_leads() {
    done(sessions_wait_for_a_leader(Java395));
}

#[test]
fn a_long_log_is_sent_instead_of_the_tree() {
    done(long_diff(Zebu, Zebu));
}

#[test]
#[ignore = "needs third-party programs: cargo xtask deps"]
fn a_long_log_is_sent_by_and_to_the_original() {
    done(long_diff(Java395, Java395));
    done(long_diff(Java395, Zebu));
    done(long_diff(Zebu, Java395));
}

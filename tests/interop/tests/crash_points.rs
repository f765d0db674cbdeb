//! Servers that are killed at their system calls, one call after the other: a standalone server
//! that boots, writes, rolls its log, takes snapshots and purges, and a member of an ensemble that
//! also takes snapshot transfers and missing transactions, truncates its log, changes the epoch and
//! its role. Each start afterwards has everything that was acknowledged.
//!
//! `cargo xtask crash-points --points 500` tries as many calls; the tests themselves try a few.
//! `strace` kills the process before the call happens, and counts the calls of each thread.

use std::collections::BTreeMap;
use std::fs;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use zebu_interop::dump::{SUPER, with_super};
use zebu_interop::ensemble::Ensemble;
use zebu_interop::http;
use zebu_interop::network::Network;
use zebu_interop::raw::Session;
use zebu_interop::server::{Kind, Options, PATIENCE, Server};
use zebu_interop::tamper::Tampered;
use zebu_testkit::wire::{Reader, Writer, op};

/// The calls that change files, and the number of calls that are skipped between two points.
const CALLS: [(&str, u32); 6] = [
    ("pwrite64", 3),
    ("fsync,fdatasync", 2),
    ("rename", 1),
    ("unlink", 1),
    ("ftruncate,fallocate,mkdir", 1),
    ("write", 5),
];

/// The time limit of a member for its work while it may be killed.
const ACTIVITY: Duration = Duration::from_secs(5);

/// The number of points, unless the command line sets another one.
fn points() -> usize {
    let given = std::env::var("ZEBU_CRASH_POINTS").ok();
    given.map_or(24, |text| text.parse().unwrap_or_else(|_| panic!("ZEBU_CRASH_POINTS: {text}")))
}

/// The next call, of each kind in turn.
#[derive(Default)]
struct Points {
    turn: usize,
    next: [u32; CALLS.len()],
    /// The points at which a process was killed.
    hit: BTreeMap<&'static str, usize>,
}

impl Points {
    fn pick(&mut self) -> (usize, &'static str, u32) {
        let kind = self.turn % CALLS.len();
        self.turn += 1;
        (kind, CALLS[kind].0, self.next[kind] + 1)
    }

    /// Continues after a call that was reached, or begins again: then the last call has been
    /// passed.
    fn done(&mut self, kind: usize, was_killed: bool) {
        let (calls, step) = CALLS[kind];
        if was_killed {
            self.next[kind] += step;
            *self.hit.entry(calls).or_default() += 1;
        } else {
            self.next[kind] = 0;
        }
    }

    fn count(&self) -> usize {
        self.hit.values().sum()
    }
}

/// Creates znodes until a request fails. Returns the number of acknowledged ones.
fn create_until_killed(server: &mut Server, next: &mut u32) -> Result<()> {
    let start = Instant::now();
    let mut session = loop {
        if !server.is_alive() {
            return Ok(());
        }
        match Session::open_within(server.address(), 60_000, Duration::from_secs(5)) {
            Ok(session) => break session,
            Err(error) => ensure!(start.elapsed() < PATIENCE, "{error:#}"),
        }
        std::thread::sleep(Duration::from_millis(5));
    };
    for _ in 0..60 {
        if session.create(&format!("/n-{next}"), b"data", 0).is_err() {
            return Ok(());
        }
        *next += 1;
    }
    session.close().ok();
    Ok(())
}

/// Every acknowledged znode exists.
fn check(server: &Server, next: u32) -> Result<()> {
    let mut session = Session::open(server.address(), 60_000)?;
    let requests: Vec<(i32, Writer)> = (0..next)
        .map(|number| (op::EXISTS, Writer::new().string(&format!("/n-{number}")).bool(false)))
        .collect();
    session.expect_all(&requests).with_context(|| format!("of {next} acknowledged znodes"))?;
    session.close()
}

fn alone() -> Result<()> {
    let options = Options::default()
        .config("forceSync", "yes")
        .config("autopurge.purgeInterval", 1)
        .config("autopurge.snapRetainCount", 3)
        .property("zookeeper.snapCount", 15);
    let (mut points, wanted) = (Points::default(), points());
    let mut fresh: Option<(Server, u32)> = None;
    while points.count() < wanted {
        // A first start is a point, too, so some runs begin without data.
        let (mut server, mut next) = match fresh.take().filter(|_| points.turn % 10 != 0) {
            Some(before) => before,
            None => (Server::prepare(Kind::Zebu, &options, |_| Ok(()))?, 0),
        };
        let (kind, calls, when) = points.pick();
        let what = || format!("killed at call {when} of {calls}");
        server.spawn_killed_at(calls, when)?;
        create_until_killed(&mut server, &mut next).with_context(what)?;
        let was_killed = !server.is_alive();
        points.done(kind, was_killed);
        if !was_killed {
            // A counter that still runs must not kill the next start.
            server.kill().ok();
        }
        server.spawn_if_ended()?;
        server.wait_until_serving().with_context(what)?;
        // The client of an unanswered write does not know the outcome, so its znode may exist.
        check(&server, next).with_context(what)?;
        let mut session = Session::open(server.address(), 60_000)?;
        session.call(op::DELETE, Writer::new().string(&format!("/n-{next}")).int(-1))?;
        session.close()?;
        server.stop()?;
        fresh = Some((server, next));
    }
    println!("a server alone: {} points, {:?}", points.count(), points.hit);
    Ok(())
}

/// The work of a member while it may be killed.
#[derive(Clone, Copy, Debug)]
enum Activity {
    /// It has lost its data, and receives a snapshot transfer.
    Snap,
    /// It receives missing transactions.
    Diff,
    /// The leader is killed, so there is a new epoch.
    Epoch,
    /// It has logged a transaction that no other member has.
    Trunc,
    /// It becomes an observer, and a voter again.
    Reconfigure,
}

const ACTIVITIES: [Activity; 5] =
    [Activity::Snap, Activity::Diff, Activity::Epoch, Activity::Trunc, Activity::Reconfigure];

/// An ensemble whose last member is killed.
struct Party {
    ensemble: Ensemble,
    written: u32,
}

const VICTIM: usize = 2;

impl Party {
    /// Sets a value through the other members, until that is acknowledged.
    fn write(&mut self, times: u32) -> Result<()> {
        let start = Instant::now();
        for _ in 0..times {
            self.written += 1;
            loop {
                let at = self
                    .ensemble
                    .member(usize::from(start.elapsed().as_millis().is_multiple_of(2)));
                let body = Writer::new().string("/v").string(&self.written.to_string()).int(-1);
                let set = Session::open_within(at.address(), 60_000, Duration::from_secs(3))
                    .and_then(|mut session| {
                        session.expect(op::SET_DATA, body)?;
                        session.close()
                    });
                match set {
                    Ok(()) => break,
                    Err(error) => ensure!(start.elapsed() < PATIENCE, "{error:#}"),
                }
                std::thread::sleep(Duration::from_millis(10));
            }
        }
        Ok(())
    }

    /// Kills the member while it leads and has logged a transaction that no other member has.
    fn leave_more_than_others(&mut self) -> Result<()> {
        let start = Instant::now();
        let victim = VICTIM + 1;
        while self.ensemble.leader(None)? != VICTIM {
            let leader = self.ensemble.leader(None)?;
            let at = self.ensemble.member(leader).admin().context("no port for operators")?;
            let who = format!("Authorization: digest {SUPER}\r\n");
            http::ask_at(at, "POST", &format!("/ensemble/hand_over?to={victim}"), &who).ok();
            ensure!(start.elapsed() < PATIENCE, "it does not lead");
            std::thread::sleep(Duration::from_millis(100));
        }
        self.ensemble.wait_for_all()?;
        let mut session = Session::open(self.ensemble.member(VICTIM).address(), 60_000)?;
        (0..VICTIM).try_for_each(|index| self.ensemble.member(index).pause())?;
        let body = Writer::new().string("/v").string("nobody else has this").int(-1);
        let request = Writer::request(1_000, op::SET_DATA).raw(&body.done()).done();
        let sent = session.connection.send(&request);
        let logs = self.ensemble.member(VICTIM).data().join("version-2");
        let is_logged = || -> Result<bool> {
            for entry in fs::read_dir(&logs)? {
                let path = entry?.path();
                let is_log =
                    path.file_name().is_some_and(|name| name.to_string_lossy().starts_with("log."));
                let words = b"nobody else has this";
                if is_log && fs::read(&path)?.windows(words.len()).any(|part| part == words) {
                    return Ok(true);
                }
            }
            Ok(false)
        };
        // Without a quorum it soon stops leading, and may then log nothing more.
        while sent.is_ok() && !is_logged()? && start.elapsed() < ACTIVITY {
            std::thread::sleep(Duration::from_millis(5));
        }
        self.ensemble.member(VICTIM).kill()?;
        (0..VICTIM).try_for_each(|index| self.ensemble.member(index).go_on())
    }

    fn act(&mut self, activity: Activity, calls: &str, when: u32) -> Result<bool> {
        match activity {
            Activity::Trunc => self.leave_more_than_others()?,
            _ => self.ensemble.member(VICTIM).kill()?,
        }
        match activity {
            Activity::Snap => self.ensemble.wipe(VICTIM)?,
            Activity::Diff | Activity::Trunc => self.write(5)?,
            Activity::Epoch | Activity::Reconfigure => {}
        }
        self.ensemble.member(VICTIM).spawn_killed_at(calls, when)?;
        let start = Instant::now();
        let is_serving = |party: &mut Self| {
            let said = party.ensemble.member(VICTIM).ask("srvr", Duration::from_millis(500));
            said.is_ok_and(|text| text.contains("Mode:"))
        };
        while self.ensemble.member(VICTIM).is_alive()
            && !is_serving(self)
            && start.elapsed() < ACTIVITY
        {
            std::thread::sleep(Duration::from_millis(20));
        }
        match activity {
            Activity::Epoch => {
                let leader = self.ensemble.leader(None)?;
                if leader != VICTIM {
                    self.ensemble.member(leader).kill()?;
                    std::thread::sleep(Duration::from_millis(300));
                    self.ensemble.member(leader).spawn()?;
                }
            }
            Activity::Reconfigure => {
                for role in ["observer", "participant"] {
                    self.ensemble.change_role(0, VICTIM, role)?;
                }
            }
            Activity::Snap | Activity::Diff | Activity::Trunc => {}
        }
        self.write(20)?;
        let was_killed = !self.ensemble.member(VICTIM).is_alive();
        if !was_killed {
            // A counter that still runs must not kill the member later.
            self.ensemble.member(VICTIM).kill().ok();
        }
        self.ensemble.member(VICTIM).spawn_if_ended()?;
        self.ensemble.agreed_tree()?;
        let mut session = Session::open(self.ensemble.member(VICTIM).address(), 60_000)?;
        session.expect(op::SYNC, Writer::new().string("/"))?;
        let body = session.expect(op::GET_DATA, Writer::new().string("/v").bool(false))?;
        let value = Reader::new(&body).optional_string()?;
        ensure!(value == Some(self.written.to_string()), "{value:?}, not {}", self.written);
        session.close()?;
        Ok(was_killed)
    }
}

fn in_an_ensemble() -> Result<()> {
    let options = |options: Options| {
        with_super(options)
            .config("syncLimit", 20)
            .config("preAllocSize", 16)
            .config("autopurge.purgeInterval", 1)
            .property("zookeeper.snapCount", 20)
    };
    let network = Network::addresses(3);
    let ensemble = Ensemble::prepare_for_all(network, &[Kind::Zebu; 3], &options)?;
    let mut party = Party { ensemble: ensemble.started()?, written: 0 };
    Session::open(party.ensemble.member(0).address(), 60_000)?.create("/v", b"", 0)?;
    let (mut points, wanted) = (Points::default(), points());
    let mut activities = BTreeMap::new();
    while points.count() < wanted {
        let (kind, calls, when) = points.pick();
        let activity = ACTIVITIES[points.turn % ACTIVITIES.len()];
        let was_killed = party
            .act(activity, calls, when)
            .with_context(|| format!("{activity:?}, killed at call {when} of {calls}"))?;
        points.done(kind, was_killed);
        *activities.entry(format!("{activity:?}")).or_insert(0_usize) += usize::from(was_killed);
    }
    println!("a member: {} points, {:?}, {activities:?}", points.count(), points.hit);
    Ok(())
}

#[test]
fn a_server_that_is_killed_at_any_call_has_what_it_acknowledged() {
    if Tampered::is_possible()
        && let Err(error) = alone()
    {
        panic!("{error:?}");
    }
}

#[test]
fn a_member_that_is_killed_at_any_call_has_what_the_others_have() {
    if Tampered::is_possible()
        && let Err(error) = in_an_ensemble()
    {
        panic!("{error:?}");
    }
}

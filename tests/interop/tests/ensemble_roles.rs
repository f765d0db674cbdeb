//! The behaviour of each role towards clients: the same with the original, with Zebu, and with both
//! together.

use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use zebu_interop::ensemble::{Ensemble, options};
use zebu_interop::raw::Session;
use zebu_interop::scenario::compare;
use zebu_interop::server::Kind::{self, Java395, Zebu};
use zebu_interop::server::{Options, PATIENCE};
use zebu_testkit::wire::{Writer, op, open_acl};

const EPHEMERAL: i32 = 1;
const SEQUENTIAL: i32 = 2;

/// Starts members, the last one as leader.
fn start(kinds: &[Kind], options: &Options) -> Result<Ensemble> {
    let mut ensemble = Ensemble::prepare(kinds, options)?;
    let last = kinds.len() - 1;
    for index in (0..=last).rev() {
        ensemble.member(index).spawn()?;
        if index + 1 == last {
            // Among members with the same history, the one with the greatest id becomes the leader.
            ensemble.member(last).wait_until_serving()?;
        }
    }
    ensemble.wait_for_all()?;
    ensure!(ensemble.leader(None)? == last, "member {} leads", last + 1);
    Ok(ensemble)
}

/// The newest transaction that any member has applied. The leader need not be the first to apply
/// it.
fn zxid(ensemble: &Ensemble) -> Result<i64> {
    let mut newest = 0;
    for member in ensemble.members() {
        let srvr = member.four_letter_word("srvr")?;
        let zxid = srvr.lines().find_map(|line| line.strip_prefix("Zxid: 0x")).unwrap_or("none");
        newest = newest.max(i64::from_str_radix(zxid, 16)?);
    }
    Ok(newest)
}

/// The lines of `dump` before those about ephemerals, without ids and times.
fn sessions_dump(ensemble: &mut Ensemble, index: usize) -> Result<Vec<String>> {
    let dump = ensemble.member(index).four_letter_word("dump")?;
    // How many sessions expire together depends on timing. The original also counts expired ones.
    let line = |line: &str| match line.split_once(" Sets (") {
        Some((what, counts)) => format!("{what} Sets{}", counts.trim_start_matches(|c| c != '/')),
        None if line.starts_with("\t0x") => "\tS".to_owned(),
        None => line.split_once('\t').map_or(line, |(_, rest)| rest).to_owned(),
    };
    let lines = dump.lines().take_while(|line| !line.starts_with("ephemeral nodes"));
    Ok(lines.filter(|line| !line.contains("expire at")).map(line).collect())
}

/// A multi with one create.
fn multi(path: &str, flags: i32) -> Writer {
    let create = Writer::new().string(path).string("x").acl(&open_acl()).int(flags).done();
    let header = |op: i32, done: bool| Writer::new().int(op).bool(done).int(-1).done();
    Writer::new().raw(&header(op::CREATE, false)).raw(&create).raw(&header(-1, true))
}

/// Local sessions, as clients of one member see them.
fn local_sessions_at(ensemble: &mut Ensemble, index: usize, told: &mut Vec<String>) -> Result<()> {
    let leader = ensemble.members().len() - 1;
    let address = ensemble.member(index).address();
    let before = zxid(ensemble)?;
    let mut session = Session::open(address, 60_000)?;
    ensure!(session.id >> 56 == index as i64 + 1, "{:x}", session.id);
    let mut tell = |what: &str, said: String| told.push(format!("{what}: {said}"));
    tell("zxids of a new session", format!("{}", zxid(ensemble)? - before));
    for key in ["zk_local_sessions", "zk_global_sessions"] {
        tell(key, ensemble.member(index).monitor(key)?);
    }
    for line in sessions_dump(ensemble, index)? {
        tell("dump", line);
    }
    let path = format!("/p{index}");
    let create =
        |path: &str, flags| Writer::new().string(path).string("x").acl(&open_acl()).int(flags);
    tell("create", format!("{}", session.call(op::CREATE, create(&path, 0))?.err));
    tell("sync", format!("{}", session.call(op::SYNC, Writer::new().string("/"))?.err));
    let exists = Writer::new().string(&path).bool(false);
    tell("exists", format!("{}", session.call(op::EXISTS, exists)?.err));
    let before = zxid(ensemble)?;
    let e = format!("/e{index}");
    tell("ephemeral", format!("{}", session.call(op::CREATE, create(&e, EPHEMERAL))?.err));
    let reply = session.call(op::MULTI, multi(&format!("/m{index}"), EPHEMERAL))?;
    tell("in a multi", format!("{} {:?}", reply.err, &reply.body[..reply.body.len().min(9)]));
    tell("zxids of these", format!("{}", zxid(ensemble)? - before));
    for key in ["zk_local_sessions", "zk_global_sessions"] {
        tell(key, ensemble.member(index).monitor(key)?);
    }
    let (id, password) = (session.id, session.password.clone());
    for other in (0..=leader).filter(|other| *other != index) {
        let address = ensemble.member(other).address();
        let moved = Session::attach(address, 60_000, id, &password, 0, PATIENCE)?;
        let also_leads = if other == leader { "the leader" } else { "a follower" };
        tell(&format!("moved to {also_leads}"), format!("{}", moved.is_some()));
    }
    let mut back = Session::resume(address, 60_000, id, &password)?;
    let delete = Writer::new().string(&path).int(-1);
    tell("delete", format!("{}", back.call(op::DELETE, delete)?.err));
    let before = zxid(ensemble)?;
    tell("close", format!("{}", back.call(op::CLOSE_SESSION, Writer::new())?.err));
    tell("zxids of the end", format!("{}", zxid(ensemble)? - before));
    // A timeout ends it, too, without a transaction.
    let silent = Session::open(address, 1_000)?;
    let (id, password) = (silent.id, silent.password.clone());
    drop(silent);
    let start = Instant::now();
    while ensemble.member(index).monitor("zk_local_sessions")? != "0" {
        ensure!(start.elapsed() < PATIENCE, "it does not expire");
        std::thread::sleep(Duration::from_millis(50));
    }
    let late = Session::attach(address, 1_000, id, &password, 0, PATIENCE)?;
    tell("after its time", format!("{}", late.is_some()));
    tell("zxids of all this", format!("{}", zxid(ensemble)? - before));
    Ok(())
}

fn local_sessions(kinds: &[Kind], upgrade: bool) -> Result<Vec<String>> {
    let options = options()
        .config("localSessionsEnabled", true)
        .config("localSessionsUpgradingEnabled", upgrade);
    let mut ensemble = start(kinds, &options)?;
    let mut told = Vec::new();
    for index in [0, kinds.len() - 1] {
        local_sessions_at(&mut ensemble, index, &mut told)?;
    }
    ensemble.agreed_tree()?;
    Ok(told)
}

fn same_local_sessions(upgrade: bool) {
    let oracle = local_sessions(&[Java395; 3], upgrade).unwrap();
    for kinds in [[Zebu; 3], [Zebu, Java395, Java395], [Java395, Zebu, Zebu]] {
        assert_eq!(local_sessions(&kinds, upgrade).unwrap(), oracle, "{kinds:?}");
    }
}

#[test]
#[ignore = "needs third-party programs: cargo xtask deps"]
fn local_sessions_are_the_originals() {
    same_local_sessions(false);
}

#[test]
#[ignore = "needs third-party programs: cargo xtask deps"]
fn upgraded_sessions_are_the_originals() {
    same_local_sessions(true);
}

/// Waits until one of these members executes a write in a later epoch, so that there is a leader.
fn until_led_again(ensemble: &Ensemble, among: std::ops::Range<usize>, epoch: i64) -> Result<()> {
    let start = Instant::now();
    let led = |index: usize| -> Result<bool> {
        let address = ensemble.members()[index].address();
        let session = Session::attach(address, 60_000, 0, &[0; 16], 0, Duration::from_secs(10))?;
        let Some(mut session) = session else { return Ok(false) };
        let body = Writer::new().string("/led").string("").acl(&open_acl()).int(SEQUENTIAL);
        let reply = session.call(op::CREATE, body)?;
        Ok(reply.err == 0 && reply.zxid >> 32 > epoch)
    };
    while !among.clone().any(|index| led(index).unwrap_or(false)) {
        ensure!(start.elapsed() < PATIENCE, "nobody leads");
        std::thread::sleep(Duration::from_millis(20));
    }
    Ok(())
}

/// Number of members that give no answer about themselves.
fn silent(ensemble: &Ensemble) -> Result<usize> {
    let mut silent = 0;
    for member in ensemble.members() {
        silent += usize::from(!member.four_letter_word("srvr")?.contains("Mode:"));
    }
    Ok(silent)
}

/// A leader that accepts no clients of its own.
fn leader_without_clients(kinds: [Kind; 3]) -> Result<String> {
    let options = options().config("leaderServes", "no");
    let mut ensemble = Ensemble::prepare(&kinds, &options)?;
    for index in [2, 1] {
        ensemble.member(index).spawn()?;
    }
    // Among members with the same history, the one with the greatest id becomes the leader.
    ensemble.member(1).wait_until_serving()?;
    ensemble.member(0).launch()?;
    let mut told = String::new();
    let mut tell = |what: &str, said: String| told.push_str(&format!("{what}: {said}\n"));
    for word in ["srvr", "isro", "ruok", "mntr", "cons", "conf", "dump"] {
        tell(word, ensemble.member(2).four_letter_word(word)?);
    }
    let leader = ensemble.member(2).address();
    tell("a client", format!("{}", Session::open(leader, 60_000).is_ok()));
    let mut session = Session::open(ensemble.member(0).address(), 60_000)?;
    tell("a follower's client", session.create("/e", b"", EPHEMERAL)?);
    let (id, password) = (session.id, session.password.clone());
    let moved = Session::attach(leader, 60_000, id, &password, 0, PATIENCE);
    tell("moved to the leader", format!("{}", moved.is_ok()));
    // The former leader accepts clients again, and the new one has none. A leader that restarts
    // before the others have noticed its absence leads again.
    let epoch = session.call(op::SYNC, Writer::new().string("/"))?.zxid >> 32;
    ensemble.member(2).kill()?;
    until_led_again(&ensemble, 0..2, epoch)?;
    ensemble.member(2).launch()?;
    let moved = Session::attach(leader, 60_000, id, &password, 0, PATIENCE)?;
    tell("moved to a former leader", format!("{}", moved.is_some()));
    tell("silent", silent(&ensemble)?.to_string());
    Ok(told)
}

#[test]
#[ignore = "needs third-party programs: cargo xtask deps"]
fn a_leader_without_clients_is_as_silent_as_the_originals() {
    let mixed = [[Java395; 3], [Zebu; 3], [Java395, Java395, Zebu], [Zebu, Zebu, Java395]];
    let told = mixed.map(|kinds| {
        leader_without_clients(kinds).unwrap_or_else(|failure| panic!("{kinds:?}: {failure:?}"))
    });
    for ours in &told[1..] {
        compare("leaderServes=no", &told[0], ours);
    }
}

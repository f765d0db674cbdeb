//! Ensembles of Zebu's and the original's servers together.

use std::cell::Cell;
use std::fs;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use regex::Regex;
use zebu_interop::ensemble::{Ensemble, options, quick_options};
use zebu_interop::load::{Client, Figures, Load};
use zebu_interop::normalise::is_only_ours;
use zebu_interop::raw::Session;
use zebu_interop::server::Kind::{self, Java380, Java395, Zebu};
use zebu_interop::server::{Options, PATIENCE, Server};
use zebu_testkit::wire::{Writer, op, open_acl};

/// The error for an existing znode.
const NODE_EXISTS: i32 = -110;

/// Starts these members: the last one as leader, the others waiting to join.
fn start_led_by_last(kinds: &[Kind], options: &Options) -> Result<Ensemble> {
    let mut ensemble = Ensemble::prepare(kinds, options)?;
    let last = kinds.len() - 1;
    // A quorum of three. Among members with the same history, the one with the greatest id becomes
    // the leader.
    for index in [last, last - 1] {
        ensemble.member(index).spawn()?;
    }
    for index in [last, last - 1] {
        ensemble.member(index).wait_until_serving()?;
    }
    ensure!(ensemble.leader(None)? == last, "member {} leads", last + 1);
    Ok(ensemble)
}

/// Creates `count` znodes below `path`, which may exist.
fn write(ensemble: &mut Ensemble, at: usize, path: &str, count: usize) -> Result<()> {
    // The next znode, and whether a create was already sent for it.
    let next = Cell::new((0, false));
    ensemble.ask(at, |address, patience| {
        let mut session = Session::open_within(address, 60_000, patience)?;
        let (first, was_asked) = next.get();
        for number in first..count {
            next.set((number, true));
            let name = format!("{path}{number}");
            let body = Writer::new().string(&name).buffer(path.as_bytes());
            let reply = session.call(op::CREATE, body.acl(&open_acl()).int(0))?;
            // A request without an answer may have created it.
            let is_there = number == first && was_asked && reply.err == NODE_EXISTS;
            ensure!(reply.err == 0 || is_there, "{name}: error {}", reply.err);
        }
        next.set((count, false));
        session.close()
    })
}

/// Whether a member has logged this about a synchronization.
fn was_said(ensemble: &Ensemble, what: &str) -> bool {
    ensemble.members().iter().any(|member| member.log().contains(what))
}

/// A learner of one kind joins a leader of the other kind in every way except a truncation.
fn join(leader: Kind, learner: Kind) -> Result<()> {
    let options = options().property("zookeeper.snapCount", 100_000);
    let mut ensemble = start_led_by_last(&[learner, leader, leader], &options)?;
    write(&mut ensemble, 2, "/before-", 50)?;
    // The learner has no data.
    ensemble.member(0).launch()?;
    ensemble.agreed_tree()?;
    // The learner is a few transactions behind.
    ensemble.member(0).kill()?;
    write(&mut ensemble, 2, "/meanwhile-", 30)?;
    ensemble.member(0).launch()?;
    ensemble.agreed_tree()?;
    // The learner is more transactions behind than the leader keeps in memory.
    ensemble.member(0).stop()?;
    write(&mut ensemble, 2, "/long-", 700)?;
    ensemble.member(0).launch()?;
    ensemble.agreed_tree()?;
    // It serves writes as a member.
    write(&mut ensemble, 0, "/joined-", 30)?;
    let tree = ensemble.agreed_tree()?;
    ensure!(tree.contains("/joined-29 "), "{tree}");
    // The learner has no data, and the tree is large.
    ensemble.member(0).stop()?;
    ensemble.wipe(0)?;
    ensemble.member(0).launch()?;
    write(&mut ensemble, 0, "/wiped-", 30)?;
    ensemble.agreed_tree()?;
    // The learner restarts with its own disk alone.
    ensemble.member(0).restart()?;
    ensemble.agreed_tree()?;
    Ok(())
}

/// Waits until a member has a transaction with these words in its log, or is no longer the leader.
fn wait_until_logged(ensemble: &Ensemble, index: usize, words: &str) -> Result<()> {
    let start = Instant::now();
    let member = &ensemble.members()[index];
    while !is_logged(member, words)? && member.four_letter_word("srvr")?.contains("Mode: leader") {
        ensure!(start.elapsed() < PATIENCE, "{words} is not logged");
        std::thread::sleep(Duration::from_millis(5));
    }
    Ok(())
}

fn is_logged(member: &Server, words: &str) -> Result<bool> {
    for file in fs::read_dir(member.data().join("version-2"))? {
        let file = file?;
        if !file.file_name().to_string_lossy().starts_with("log.") {
            continue;
        }
        if fs::read(file.path())?.windows(words.len()).any(|window| window == words.as_bytes()) {
            return Ok(true);
        }
    }
    Ok(false)
}

/// A leader is killed with transactions on its disk that no other member has, and returns as a
/// learner. It returns before the new leader has ordered anything, and must truncate its log, or
/// after that. In the second case a leader of the original sends the whole tree, because it never
/// truncates across epochs. A Zebu leader truncates the learner's log, because both have the
/// transaction before.
fn take_back(leader: Kind, learner: Kind, is_cut: bool) -> Result<()> {
    // A leader needs up to a tick to notice that it is alone.
    let options = options().config("tickTime", 1500).config("syncLimit", 3);
    for _ in 0..10 {
        let mut ensemble = start_led_by_last(&[leader, leader, learner], &options)?;
        ensemble.member(0).launch()?;
        write(&mut ensemble, 2, "/before-", 10)?;
        let mut alone = Session::open(ensemble.member(2).address(), 60_000)?;
        alone.create("/last", b"", 0)?;
        ensemble.member(0).kill()?;
        ensemble.member(1).kill()?;
        for number in 0..3 {
            let body = Writer::new().string(&format!("/lost-{number}")).string("").acl(&open_acl());
            let request = Writer::request(1_000 + number, op::CREATE).raw(&body.int(0).done());
            alone.connection.send(&request.done())?;
        }
        wait_until_logged(&ensemble, 2, "/lost-2")?;
        ensemble.member(2).kill()?;
        for index in [0, 1] {
            ensemble.member(index).spawn()?;
        }
        for index in [0, 1] {
            ensemble.member(index).wait_until_serving()?;
        }
        if !is_cut {
            write(&mut ensemble, 1, "/after-", 10)?;
        }
        ensemble.member(2).launch()?;
        let happened = was_said(
            &ensemble,
            match (is_cut, leader) {
                (_, Zebu) => "Truncating log to get in sync",
                (true, _) => "truncating everything after",
                (false, _) => "Cannot send TRUNC",
            },
        );
        if is_cut {
            write(&mut ensemble, 1, "/after-", 10)?;
        }
        let tree = ensemble.agreed_tree()?;
        ensure!(tree.contains("/last ") && tree.contains("/after-9 "), "{tree}");
        ensure!(!tree.contains("/lost-"), "what nobody acknowledged is there: {tree}");
        // The learner's own disk agrees.
        ensemble.member(2).restart()?;
        write(&mut ensemble, 2, "/again-", 10)?;
        ensemble.agreed_tree()?;
        if happened {
            return Ok(());
        }
    }
    bail!("the leader had always noticed that it was alone")
}

/// Every member is replaced by one of the other kind with the same data, under load.
fn replace(from: Kind, by: Kind) -> Result<()> {
    let mut ensemble = Ensemble::start(&[from; 3], &options())?;
    let load = Load::start(&ensemble.addresses())?;
    load.wait_for(50)?;
    for kind in [by, from] {
        for index in 0..3 {
            ensemble.member(index).stop()?;
            ensemble.member(index).change_kind(kind);
            ensemble.member(index).spawn()?;
            ensemble.wait_for_all()?;
            load.wait_for(50)?;
        }
    }
    let told = load.finish()?;
    let figures = told.check(&ensemble.agreed_tree()?)?;
    let digests = ensemble.agreed_digests()?;
    ensure!(digests > 0, "no digests to compare");
    println!("{}", Figures { digests, ..figures });
    Ok(())
}

/// Makes a server of this kind the leader.
fn let_lead(ensemble: &mut Ensemble, kind: Kind) -> Result<usize> {
    for _ in 0..10 {
        let leader = ensemble.leader(None)?;
        if ensemble.member(leader).kind() == kind {
            return Ok(leader);
        }
        ensemble.member(leader).stop()?;
        ensemble.leader(Some(leader))?;
        ensemble.member(leader).spawn()?;
        ensemble.wait_for_all()?;
    }
    bail!("{kind:?} never leads")
}

/// The number of transactions in an epoch before its counter overflows.
const EPOCH_TXNS: u32 = 60;

/// Creates one more znode, with as many attempts as necessary. Returns the zxid of the answer.
fn create_one(clients: &mut [Client], created: &mut Vec<String>) -> Result<i64> {
    let path = format!("/rolled-{}", created.len());
    let client = &mut clients[created.len() % 3];
    let start = Instant::now();
    loop {
        match client.create(&path, "", 0)? {
            // Or an earlier attempt, whose answer was lost, has created it.
            Some(reply) if reply.err == 0 || reply.err == -110 => {
                created.push(path);
                return Ok(reply.zxid);
            }
            said => ensure!(start.elapsed() < PATIENCE, "{path}: {:?}", said.map(|it| it.err)),
        }
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// The counter of a leader of each kind overflows: a new epoch begins, nothing is lost, and the
/// sessions continue.
///
/// The original jumps to the counter's test value while it already leads, so few requests may
/// happen at that moment: Zebu followers accept no gap.
fn roll_over(kinds: &[Kind]) -> Result<()> {
    let first = (u32::MAX - EPOCH_TXNS).to_string();
    let options = options().property("zookeeper.testingonly.initialZxid", first);
    let mut ensemble = Ensemble::start(kinds, &options)?;
    let addresses = ensemble.addresses();
    let clients = (0..3).map(|first| Client::open(&addresses, first, 60_000));
    let mut clients: Vec<Client> = clients.collect::<Result<_>>()?;
    for (number, client) in clients.iter_mut().enumerate() {
        let reply = client.create(&format!("/own-{number}"), "", 1)?.context("no answer")?;
        ensure!(reply.err == 0, "error {}", reply.err);
    }
    let mut created = Vec::new();
    for kind in [kinds[0], kinds[1]] {
        let is_end = |zxid: i64| zxid as u32 > u32::MAX - 5;
        let mut tries = 0..10;
        loop {
            ensure!(tries.next().is_some(), "{kind:?} never gets to the end of its counter");
            let leader = let_lead(&mut ensemble, kind)?;
            let mut last = create_one(&mut clients, &mut created)?;
            // No other member becomes the leader meanwhile.
            let leads = ensemble.leader(None)? == leader;
            let next = loop {
                let next = create_one(&mut clients, &mut created)?;
                if next >> 32 > last >> 32 {
                    break next;
                }
                last = next;
            };
            println!("{kind:?}: {last:x}, then {next:x}");
            if leads && is_end(last) {
                break;
            }
        }
    }
    let tree = ensemble.agreed_tree()?;
    let own = (0..clients.len()).map(|number| format!("/own-{number}"));
    for path in own.chain(created) {
        let start = format!("{path} ");
        ensure!(tree.lines().any(|line| line.starts_with(&start)), "{path} is lost");
    }
    clients.into_iter().for_each(Client::close);
    Ok(())
}

/// A member of the original is paused under load, for less and for more than the timeouts, as
/// leader of Zebu members or as follower of one.
///
/// 3.8.0 corrupts its own log if a commit arrives between NEWLEADER and UPTODATE (ZOOKEEPER-4394;
/// its log thread continues meanwhile, ZOOKEEPER-4712). If that has happened and the member reports
/// a wrong tree, the test starts again; the Zebu members must agree even then.
fn pause(kinds: &[Kind], leader: Kind) -> Result<()> {
    for _ in 0..3 {
        let mut ensemble = Ensemble::start(kinds, &quick_options())?;
        let failure = match pause_under_load(&mut ensemble, leader) {
            Ok(figures) => {
                println!("{figures}");
                return Ok(());
            }
            Err(failure) => failure,
        };
        ours_agree(&mut ensemble).with_context(|| format!("after {failure:?}"))?;
        if !is_wrong_by_its_own_fault(&ensemble) {
            return Err(failure);
        }
        println!("version 3.8.0 has lost track of its own log: {failure:#}");
    }
    bail!("version 3.8.0 has always lost track of its own log")
}

fn pause_under_load(ensemble: &mut Ensemble, leader: Kind) -> Result<Figures> {
    let current = ensemble.current_addresses(leader);
    let load = Load::start_where(&ensemble.addresses(), &current, 1)?;
    let paused = pause_again_and_again(ensemble, &load, leader);
    // The client's own error says more than the fact that it gave up.
    let told = load.finish().with_context(|| format!("{paused:?}"))?;
    paused?;
    let figures = told.check(&ensemble.agreed_tree()?)?;
    Ok(Figures { digests: ensemble.agreed_digests()?, ..figures })
}

fn pause_again_and_again(ensemble: &mut Ensemble, load: &Load, leader: Kind) -> Result<()> {
    load.wait_for(50)?;
    for ms in [50, 300, 700, 1_000, 1_400, 2_000, 4_000] {
        let leading = let_lead(ensemble, leader)?;
        let paused = if leader == Zebu {
            let is_java = |member: &Server| member.kind() != Zebu;
            ensemble.members().iter().position(is_java).context("nobody else")?
        } else {
            leading
        };
        ensemble.member(paused).pause()?;
        std::thread::sleep(Duration::from_millis(ms));
        ensemble.member(paused).go_on()?;
        ensemble.wait_for_all()?;
        load.wait_for(50).with_context(|| format!("{ms} ms"))?;
        // Before a member with a wrong tree leads, and all others seem to be wrong.
        ensemble.no_mismatches()?;
    }
    Ok(())
}

/// Zebu's members have the same tree, had the same one at every known digest, and found no digest
/// mismatch.
fn ours_agree(ensemble: &mut Ensemble) -> Result<()> {
    let is_ours = |kind: Kind| kind == Zebu;
    ensemble.same_tree_of(&is_ours)?;
    ensemble.no_mismatches_of(&is_ours)?;
    ensemble.agreed_digests_of(&is_ours)?;
    Ok(())
}

/// Whether a 3.8.0 server finds digest mismatches after one of its synchronizations ended between
/// NEWLEADER and UPTODATE.
fn is_wrong_by_its_own_fault(ensemble: &Ensemble) -> bool {
    let is_wrong = |member: &&Server| {
        member.kind() == Java380
            && member.monitor("zk_digest_mismatches_count").is_ok_and(|count| count != "0")
            && is_cut_short(&member.log_lines(&SYNCHRONIZED))
    };
    ensemble.members().iter().any(|member| is_wrong(&member))
}

/// The log messages of the original about a synchronization, from its middle on.
const SYNCHRONIZED: [&str; 3] =
    ["received NEWLEADER", "received UPTODATE", "Exception when following the leader"];

fn is_cut_short(lines: &str) -> bool {
    let lines: Vec<&str> = lines.lines().collect();
    lines
        .windows(2)
        .any(|pair| pair[0].contains(SYNCHRONIZED[0]) && pair[1].contains(SYNCHRONIZED[2]))
}

/// An observer of one kind learns from voters of the other kind, and its clients write like all
/// others.
fn observe(voters: Kind, observer: Kind, options: &Options) -> Result<()> {
    let kinds = [voters, voters, observer];
    let mut ensemble = Ensemble::prepare_with_observers(&kinds, 1, options)?;
    for index in [0, 1] {
        ensemble.member(index).spawn()?;
    }
    let leader = ensemble.leader(None)?;
    write(&mut ensemble, leader, "/before-", 30)?;
    ensemble.member(2).launch()?;
    let says = ensemble.member(2).four_letter_word("srvr")?;
    ensure!(says.contains("Mode: observer"), "{says}");
    write(&mut ensemble, 2, "/observed-", 30)?;
    ensemble.agreed_tree()?;
    let mut session = Session::open(ensemble.member(2).address(), 60_000)?;
    session.create("/ephemeral", b"", 1)?;
    let (id, password) = (session.id, session.password.clone());
    // It is some transactions behind. Its client continues at a voter meanwhile.
    let copies = ensemble.member(leader).monitor("zk_snap_count")?;
    ensemble.member(2).kill()?;
    let mut session = Session::resume(ensemble.member(leader).address(), 60_000, id, &password)?;
    write(&mut ensemble, leader, "/meanwhile-", 30)?;
    ensemble.member(2).launch()?;
    // It continues from its own log, and receives only what it lacks.
    let is_copied = ensemble.member(leader).monitor("zk_snap_count")? != copies;
    ensure!(!is_copied, "the whole tree is sent to an observer that lacks 30 transactions");
    let tree = ensemble.agreed_tree()?;
    ensure!(tree.contains("/ephemeral ") && tree.contains("/observed-29 "), "{tree}");
    session.expect(op::CLOSE_SESSION, Writer::new())?;
    // The observer has no data.
    ensemble.member(2).stop()?;
    ensemble.wipe(2)?;
    ensemble.member(2).launch()?;
    write(&mut ensemble, 2, "/wiped-", 30)?;
    let tree = ensemble.agreed_tree()?;
    ensure!(!tree.contains("/ephemeral ") && tree.contains("/wiped-29 "), "{tree}");
    Ok(())
}

/// The answers of a member to four-letter words, without parts that differ between servers.
fn words(ensemble: &mut Ensemble, index: usize) -> Result<(String, Vec<String>)> {
    let member = ensemble.member(index);
    let mut text = String::new();
    for word in ["conf", "srvr", "stat", "isro", "dump"] {
        text.push_str(&format!("---- {word}\n{}\n", member.four_letter_word(word)?));
    }
    let pattern = |text: &str| Regex::new(text).expect("a pattern");
    for (found, instead) in [
        (r"version: 3\.9\.5.*", "version: 3.9.5"),
        (r"(data\w*)=.*", "$1=HERE"),
        (r"(serverId|electionPort|quorumPort|clientPort)=\d+", "$1=N"),
        (r"(127\.0\.0\.1|0\.0\.0\.0):\d+", "$1:PORT"),
        (r"PORT:\d+:participant", "PORT:PORT:participant"),
        (r"min/avg/max: .*", "min/avg/max: N"),
        (r"(Received|Sent|Connections): .*", "$1: N"),
        (r"\[\d\]\(queued=.*", "[N](queued=...)"),
        // The original keeps empty buckets.
        (r"(?s)Session Sets.*ephemeral nodes", "Session Sets\nephemeral nodes"),
        (r"(?s)Connections Sets.*", "Connections Sets"),
    ] {
        text = pattern(found).replace_all(&text, instead).into_owned();
    }
    Ok((text, member.four_letter_word("mntr")?.lines().map(ToOwned::to_owned).collect()))
}

/// A Zebu member's answers are those of the original in the same role.
fn compare_words(ours: &(String, Vec<String>), theirs: &(String, Vec<String>)) -> Result<()> {
    ensure!(ours.0 == theirs.0, "ours: {}\ntheirs: {}", ours.0, theirs.0);
    let key = |line: &String| line.split('\t').next().unwrap_or_default().to_owned();
    let theirs_keys: Vec<String> = theirs.1.iter().map(key).collect();
    let only_ours: Vec<String> =
        ours.1.iter().map(key).filter(|key| !theirs_keys.contains(key)).collect();
    let only_ours: Vec<String> = only_ours.into_iter().filter(|key| !is_only_ours(key)).collect();
    ensure!(only_ours.is_empty(), "only ours has {only_ours:?}");
    let roles = [
        "zk_server_state",
        "zk_peer_state",
        "zk_quorum_size",
        "zk_learners",
        "zk_leader_uptime",
        "zk_synced_followers",
        "zk_synced_non_voting_followers",
        "zk_synced_observers",
        "zk_pending_syncs",
        "zk_last_proposal_size",
        "zk_min_proposal_size",
        "zk_max_proposal_size",
        "zk_global_sessions",
        "zk_znode_count",
        "zk_ephemerals_count",
    ];
    let of_role = |lines: &[String]| -> Vec<String> {
        let is_it = |line: &&String| roles.contains(&key(line).as_str());
        let value = |line: &String| match key(line).as_str() {
            "zk_leader_uptime" => "zk_leader_uptime".to_owned(),
            _ => line.clone(),
        };
        let mut lines: Vec<String> = lines.iter().filter(is_it).map(value).collect();
        lines.sort();
        lines
    };
    let (ours, theirs) = (of_role(&ours.1), of_role(&theirs.1));
    ensure!(ours == theirs, "ours: {ours:#?}\ntheirs: {theirs:#?}");
    Ok(())
}

/// The answers may be a moment old, so the words are sent again.
fn until_same(mut compare: impl FnMut() -> Result<()>) -> Result<()> {
    let start = Instant::now();
    loop {
        match compare() {
            Err(_) if start.elapsed() < PATIENCE / 3 => {}
            compared => return compared,
        }
        std::thread::sleep(Duration::from_millis(200));
    }
}

/// The answers of a leader of each kind with a follower of each kind are the same.
fn say() -> Result<()> {
    let started = |kinds: &[Kind]| -> Result<Ensemble> {
        let mut ensemble = start_led_by_last(kinds, &options())?;
        ensemble.member(0).launch()?;
        write(&mut ensemble, 2, "/words-", 10)?;
        ensemble.agreed_tree()?;
        Ok(ensemble)
    };
    let mut theirs = started(&[Zebu, Java395, Java395])?;
    until_same(|| compare_words(&words(&mut theirs, 0)?, &words(&mut theirs, 1)?))
        .context("followers")?;
    let mut ours = started(&[Java395, Zebu, Zebu])?;
    until_same(|| compare_words(&words(&mut ours, 2)?, &words(&mut theirs, 2)?)).context("leaders")
}

/// The answers of an observer of each kind among voters of the original are the same.
fn observers_say() -> Result<()> {
    let kinds = [Java395, Java395, Zebu, Java395];
    let mut ensemble = Ensemble::prepare_with_observers(&kinds, 2, &options())?.started()?;
    write(&mut ensemble, 2, "/words-", 10)?;
    ensemble.agreed_tree()?;
    until_same(|| compare_words(&words(&mut ensemble, 2)?, &words(&mut ensemble, 3)?))
}

#[test]
fn a_synchronization_that_has_ended_well_is_not_cut_short() {
    let [middle, end, failure] = SYNCHRONIZED;
    assert!(is_cut_short(&[middle, end, failure, middle, failure].join("\n")));
    assert!(!is_cut_short(&[middle, end, failure, failure, middle, end].join("\n")));
}

fn done(result: Result<()>) {
    result.unwrap_or_else(|failure| panic!("{failure:?}"));
}

/// ZAB-29, PIP-11, FUT-05, PAI-56.
#[test]
#[ignore = "needs third-party programs: cargo xtask deps"]
fn our_observer_learns_from_java_servers() {
    done(observe(Java395, Zebu, &options()));
}

#[test]
#[ignore = "needs third-party programs: cargo xtask deps"]
fn our_observer_without_a_log_learns_from_java_servers() {
    done(observe(Java395, Zebu, &options().config("syncEnabled", "false")));
}

#[test]
#[ignore = "needs third-party programs: cargo xtask deps"]
fn a_java_observer_learns_from_ours() {
    done(observe(Zebu, Java395, &options()));
}

#[test]
#[ignore = "needs third-party programs: cargo xtask deps"]
fn members_say_of_themselves_what_java_servers_say() {
    done(say());
}

#[test]
#[ignore = "needs third-party programs: cargo xtask deps"]
fn a_java_server_joins_ours() {
    done(join(Zebu, Java395));
}

/// ZAB-26.
#[test]
#[ignore = "needs third-party programs: cargo xtask deps"]
fn ours_joins_java_servers() {
    done(join(Java395, Zebu));
}

#[test]
#[ignore = "needs third-party programs: cargo xtask deps"]
fn a_java_380_server_joins_ours() {
    done(join(Zebu, Java380));
}

#[test]
#[ignore = "needs third-party programs: cargo xtask deps"]
fn ours_joins_java_380_servers() {
    done(join(Java380, Zebu));
}

/// ZAB-25, ZAB-27.
#[test]
#[ignore = "needs third-party programs: cargo xtask deps"]
fn our_former_leader_is_truncated_by_a_java_server() {
    done(take_back(Java395, Zebu, true));
}

#[test]
#[ignore = "needs third-party programs: cargo xtask deps"]
fn a_former_java_leader_is_truncated_by_ours() {
    done(take_back(Zebu, Java395, true));
}

#[test]
#[ignore = "needs third-party programs: cargo xtask deps"]
fn our_former_leader_gets_the_tree_of_a_java_server() {
    done(take_back(Java395, Zebu, false));
}

#[test]
#[ignore = "needs third-party programs: cargo xtask deps"]
fn a_former_java_leader_is_truncated_by_ours_in_a_later_epoch() {
    done(take_back(Zebu, Java395, false));
}

#[test]
#[ignore = "needs third-party programs: cargo xtask deps"]
fn java_servers_are_replaced_by_ours_and_back() {
    done(replace(Java395, Zebu));
}

#[test]
#[ignore = "needs third-party programs: cargo xtask deps"]
fn java_380_servers_are_replaced_by_ours_and_back() {
    done(replace(Java380, Zebu));
}

#[test]
#[ignore = "needs third-party programs: cargo xtask deps"]
fn observers_say_of_themselves_what_java_observers_say() {
    done(observers_say());
}

#[test]
#[ignore = "needs third-party programs: cargo xtask deps"]
fn a_java_leader_of_ours_stands_still() {
    done(pause(&[Zebu, Java395, Zebu], Java395));
}

#[test]
#[ignore = "needs third-party programs: cargo xtask deps"]
fn a_java_380_leader_of_ours_stands_still() {
    done(pause(&[Zebu, Java380, Zebu], Java380));
}

#[test]
#[ignore = "needs third-party programs: cargo xtask deps"]
fn a_java_follower_of_ours_stands_still() {
    done(pause(&[Zebu, Java395, Zebu], Zebu));
}

#[test]
#[ignore = "needs third-party programs: cargo xtask deps"]
fn a_java_380_follower_of_ours_stands_still() {
    done(pause(&[Zebu, Java380, Zebu], Zebu));
}

#[test]
#[ignore = "needs third-party programs: cargo xtask deps"]
fn our_former_leader_is_truncated_by_a_java_380_server() {
    done(take_back(Java380, Zebu, true));
}

#[test]
#[ignore = "needs third-party programs: cargo xtask deps"]
fn a_former_java_380_leader_is_truncated_by_ours() {
    done(take_back(Zebu, Java380, true));
}

#[test]
#[ignore = "needs third-party programs: cargo xtask deps"]
fn our_former_leader_gets_the_tree_of_a_java_380_server() {
    done(take_back(Java380, Zebu, false));
}

#[test]
#[ignore = "needs third-party programs: cargo xtask deps"]
fn a_former_java_380_leader_is_truncated_by_ours_in_a_later_epoch() {
    done(take_back(Zebu, Java380, false));
}

#[test]
#[ignore = "needs third-party programs: cargo xtask deps"]
fn ours_are_replaced_by_java_servers_and_back() {
    done(replace(Zebu, Java395));
}

/// ZAB-06, ZAB-21, B-21.
#[test]
#[ignore = "needs third-party programs: cargo xtask deps"]
fn counters_come_to_their_end_under_leaders_of_both_kinds() {
    done(roll_over(&[Zebu, Java395, Zebu]));
    done(roll_over(&[Java395, Zebu, Java395]));
}

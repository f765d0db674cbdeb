//! Zebu ensembles whose members are killed, paused and wiped while clients write.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use zebu_interop::ensemble::{Ensemble, options, options_with_cuts, quick_options};
use zebu_interop::faults::{Fault, PROGRESS, Whom, inflict};
use zebu_interop::load::{Client, Figures, Load};
use zebu_interop::network::Network;
use zebu_interop::raw::Session;
use zebu_interop::server::{Kind, PATIENCE, free_port};
use zebu_testkit::connection::{Incoming, Reply};
use zebu_testkit::wire::{Reader, Writer, op};

/// Writes continue, no acknowledged write is lost, the histories are linearizable, and all members
/// end with the same tree.
fn survive(ensemble: &mut Ensemble, faults: &[Fault]) {
    let run = |ensemble: &mut Ensemble| -> Result<Figures> {
        let load = Load::start(&ensemble.addresses())?;
        load.wait_for(PROGRESS)?;
        for fault in faults {
            let start = Instant::now();
            if let Err(error) = inflict(ensemble, &load, *fault) {
                // The client's own error says more than the fact that it gave up.
                load.finish().with_context(|| format!("{fault:?}: {error:#}"))?;
                return Err(error.context(format!("{fault:?}")));
            }
            println!("{fault:?}: {:.1?}", start.elapsed());
        }
        let told = load.finish()?;
        told.check(&ensemble.agreed_tree()?)
    };
    match run(ensemble) {
        Ok(figures) => println!("{figures}"),
        Err(failure) => panic!("{failure:?}"),
    }
}

/// ORD-07, ENS-02.
#[test]
fn three_members_outlive_faults_of_one() {
    let mut ensemble = Ensemble::start(&[Kind::Zebu; 3], &quick_options()).unwrap();
    let faults: [fn(Whom) -> Fault; 4] = [Fault::Kill, Fault::Pause, Fault::LongPause, Fault::Wipe];
    let both = faults.iter().flat_map(|fault| [fault(Whom::Follower), fault(Whom::Leader)]);
    survive(&mut ensemble, &both.collect::<Vec<_>>());
}

#[test]
fn five_members_outlive_faults_of_two() {
    let mut ensemble = Ensemble::start(&[Kind::Zebu; 5], &quick_options()).unwrap();
    let faults = [Fault::Kill, Fault::LongPause, Fault::Wipe];
    survive(&mut ensemble, &faults.map(|fault| fault(Whom::Minority)));
}

#[test]
fn three_members_outlive_cuts_between_them() {
    let network = Network::with_cuts(3).unwrap();
    println!("{}", network.kind());
    let ensemble = Ensemble::prepare_on(network, &[Kind::Zebu; 3], 0, &options_with_cuts());
    let mut ensemble = ensemble.unwrap().started().unwrap();
    let faults = [Fault::Island, Fault::Mute, Fault::Deaf];
    let both = faults.iter().flat_map(|fault| [fault(Whom::Follower), fault(Whom::Leader)]);
    survive(&mut ensemble, &both.chain([Fault::Link]).collect::<Vec<_>>());
}

#[test]
fn five_members_outlive_cuts_between_them() {
    let network = Network::with_cuts(5).unwrap();
    println!("{}", network.kind());
    let ensemble = Ensemble::prepare_on(network, &[Kind::Zebu; 5], 0, &options_with_cuts());
    let mut ensemble = ensemble.unwrap().started().unwrap();
    let faults = [Fault::Island, Fault::Mute, Fault::Deaf].map(|fault| fault(Whom::Minority));
    survive(&mut ensemble, &[&faults[..], &[Fault::Ring]].concat());
}

#[test]
fn members_outlive_full_disks() {
    let options = quick_options().small_disk(24);
    let mut ensemble = Ensemble::start(&[Kind::Zebu; 3], &options).unwrap();
    survive(&mut ensemble, &[Fault::FullDisk(Whom::Follower), Fault::FullDisk(Whom::Leader)]);
}

#[test]
fn all_members_killed_at_once_come_back_with_everything() {
    let mut ensemble = Ensemble::start(&[Kind::Zebu; 3], &options()).unwrap();
    survive(&mut ensemble, &[Fault::Kill(Whom::All); 3]);
}

/// Ephemerals by session, in the tree of each member.
fn ephemerals(ensemble: &Ensemble, index: usize) -> Result<Vec<String>> {
    let tree = ensemble.tree(index)?;
    let kept = tree.lines().filter(|line| line.starts_with("/e-"));
    Ok(kept.map(|line| line.split(' ').next().unwrap_or_default().to_owned()).collect())
}

/// SES-16, SES-18.
#[test]
fn sessions_outlive_their_leader_and_end_without_their_client() {
    let mut ensemble = Ensemble::start(&[Kind::Zebu; 3], &options()).unwrap();
    let addresses = ensemble.addresses();
    let leader = ensemble.leader(None).unwrap();
    // On each member: one client that stays, one that disconnects, and one that closes its session.
    let mut stay: Vec<Client> =
        (0..3).map(|index| Client::open(&addresses, index, 20_000).unwrap()).collect();
    for (index, client) in stay.iter_mut().enumerate() {
        let reply = client.create(&format!("/e-stays-{index}"), "", 1).unwrap().unwrap();
        assert_eq!(reply.err, 0);
    }
    let mut gone = Client::open(&addresses, leader + 1, 6_000).unwrap();
    assert_eq!(gone.create("/e-gone", "", 1).unwrap().unwrap().err, 0);
    drop(gone);
    let mut closed = Client::open(&addresses, leader + 2, 20_000).unwrap();
    assert_eq!(closed.create("/e-closed", "", 1).unwrap().unwrap().err, 0);
    assert_eq!(closed.call(op::CLOSE_SESSION, Writer::new()).unwrap().unwrap().err, 0);

    ensemble.member(leader).kill().unwrap();
    ensemble.leader(Some(leader)).unwrap();
    ensemble.member(leader).spawn().unwrap();
    ensemble.wait_for_all().unwrap();
    let wanted = ["/e-stays-0", "/e-stays-1", "/e-stays-2"];
    let start = Instant::now();
    while (0..3).any(|index| ephemerals(&ensemble, index).unwrap() != wanted) {
        for client in &mut stay {
            // A client that has lost its connection returns with its session.
            client.call(op::PING, Writer::new()).unwrap();
        }
        assert!(start.elapsed() < PATIENCE, "{:?}", ephemerals(&ensemble, 0));
        std::thread::sleep(Duration::from_millis(50));
    }
    for (index, client) in stay.iter_mut().enumerate() {
        let body = Writer::new().string(&format!("/e-stays-{index}")).int(-1);
        while client.call(op::DELETE, body.clone()).unwrap().is_none() {}
    }
    for index in 0..3 {
        assert_eq!(ephemerals(&ensemble, index).unwrap(), [""; 0]);
    }
}

/// A leader is paused until there is another leader and a newer value, while a client's sync and
/// read wait for the first one. It must not answer them as if it still led. ORD-11, ORD-12, FUT-06,
/// PAI-26.
#[test]
fn a_leader_that_stood_still_does_not_answer_a_sync_with_what_is_old() {
    // Long enough that no other member times out.
    let options = options().config("syncLimit", 20);
    let mut ensemble = Ensemble::start(&[Kind::Zebu; 3], &options).unwrap();
    let mut client = Client::open(&ensemble.addresses(), 0, 60_000).unwrap();
    assert_eq!(client.create("/v", "0", 0).unwrap().unwrap().err, 0);
    for round in 1..=3 {
        let leader = ensemble.leader(None).unwrap();
        let mut waiting = Session::open(ensemble.member(leader).address(), 60_000).unwrap();
        ensemble.member(leader).pause().unwrap();
        ensemble.leader(Some(leader)).unwrap();
        let body = Writer::new().string("/v").string(&round.to_string()).int(-1);
        while client.call(op::SET_DATA, body.clone()).unwrap().is_none_or(|reply| reply.err != 0) {}
        let (sync, read) = (Writer::request(100, op::SYNC), Writer::request(101, op::GET_DATA));
        let connection = &mut waiting.connection;
        connection.send(&sync.string("/v").done()).unwrap();
        connection.send(&read.string("/v").bool(false).done()).unwrap();
        ensemble.member(leader).go_on().unwrap();
        while let Incoming::Frame(payload) = connection.receive().unwrap() {
            let reply = Reply::parse(&payload).unwrap();
            if reply.xid == 101 {
                let value = Reader::new(&reply.body).optional_string().unwrap();
                assert!(reply.err != 0 || value == Some(round.to_string()), "{value:?}");
                break;
            }
        }
        ensemble.wait_for_all().unwrap();
    }
}

/// A leader is paused. Its followers miss it long before `syncLimit` is over, which is longer than
/// this test may take, and writes go on. When it goes on, it follows. A second pause within a
/// minute is missed, too, if later.
#[test]
fn a_paused_leader_is_missed_long_before_sync_limit() {
    let options = options().config("syncLimit", 10_000).config("quorumCnxnTimeoutMs", 2_000);
    let options = options.config("zebu.leaderSilence", 600);
    let mut ensemble = Ensemble::start(&[Kind::Zebu; 3], &options).unwrap();
    let mut client = Client::open(&ensemble.addresses(), 0, 60_000).unwrap();
    assert_eq!(client.create("/v", "0", 0).unwrap().unwrap().err, 0);
    for round in 1..=2 {
        let leader = ensemble.leader(None).unwrap();
        ensemble.member(leader).pause().unwrap();
        ensemble.leader(Some(leader)).unwrap();
        let body = Writer::new().string("/v").string(&round.to_string()).int(-1);
        while client.call(op::SET_DATA, body.clone()).unwrap().is_none_or(|reply| reply.err != 0) {}
        ensemble.member(leader).go_on().unwrap();
        // It takes itself for the leader until it counts its followers.
        let start = Instant::now();
        let leads = |text: String| text.contains("Mode: leader");
        while leads(ensemble.member(leader).four_letter_word("srvr").unwrap()) {
            assert!(start.elapsed() < PATIENCE, "it leads on");
            std::thread::sleep(Duration::from_millis(20));
        }
        ensemble.wait_for_all().unwrap();
    }
    assert!(ensemble.agreed_tree().unwrap().contains("/v"));
}

/// The log message of a member that refuses a leader which has lost data.
const REFUSES: &str = "this server keeps its data and does not follow";

/// Two members get older data while the third one is paused. The two form a quorum and continue.
/// The third one has served the newer znode: it keeps it, and reports that the others have lost
/// data. Once they have followed it, the znode exists everywhere again. F14, F31.
#[test]
fn a_member_keeps_what_is_committed_when_the_others_are_put_back() {
    let mut ensemble = Ensemble::start(&[Kind::Zebu; 3], &options()).unwrap();
    let addresses = ensemble.addresses();
    let create = |path: &str| {
        let mut client = Client::open(&addresses[2..], 0, 20_000).unwrap();
        assert_eq!(client.create(path, "", 0).unwrap().unwrap().err, 0);
        assert_eq!(client.call(op::CLOSE_SESSION, Writer::new()).unwrap().unwrap().err, 0);
    };
    create("/older");
    let backup = |data: &Path| data.with_extension("backup");
    let copy = |from: &Path, to: &Path| {
        let done = Command::new("cp").arg("-a").args([from, to]).status().unwrap();
        assert!(done.success(), "{} was not copied", from.display());
    };
    for index in 0..3 {
        let member = ensemble.member(index);
        member.stop().unwrap();
        let data = member.data().to_owned();
        copy(&data, &backup(&data));
        member.spawn().unwrap();
        ensemble.wait_for_all().unwrap();
    }
    create("/newer");
    assert!(ensemble.agreed_tree().unwrap().contains("/newer"));

    ensemble.member(2).pause().unwrap();
    for index in 0..2 {
        let member = ensemble.member(index);
        member.kill().unwrap();
        let data = member.data().to_owned();
        fs::remove_dir_all(&data).unwrap();
        fs::rename(backup(&data), &data).unwrap();
        member.spawn().unwrap();
    }
    let serve = |ensemble: &mut Ensemble| {
        for index in 0..2 {
            ensemble.member(index).wait_until_serving().unwrap();
            assert!(!ensemble.tree(index).unwrap().contains("/newer"));
        }
    };
    serve(&mut ensemble);
    // A leader whose epoch is older than the third member's promise steps down, and nothing is
    // lost. Each election uses the next epoch.
    let promised = |ensemble: &mut Ensemble, index: usize| -> u32 {
        let file = ensemble.member(index).data().join("version-2/acceptedEpoch");
        fs::read_to_string(file).unwrap().trim().parse().unwrap()
    };
    let third = promised(&mut ensemble, 2);
    while promised(&mut ensemble, 0).max(promised(&mut ensemble, 1)) < third {
        for index in 0..2 {
            ensemble.member(index).kill().unwrap();
        }
        for index in 0..2 {
            ensemble.member(index).spawn().unwrap();
        }
        serve(&mut ensemble);
    }
    ensemble.member(2).go_on().unwrap();
    let start = Instant::now();
    while !ensemble.member(2).log().contains(REFUSES) {
        assert!(start.elapsed() < PATIENCE, "{}", ensemble.member(2).log());
        std::thread::sleep(Duration::from_millis(50));
    }
    assert!(!ensemble.member(2).four_letter_word("srvr").unwrap().contains("Mode:"));
    let said = ensemble.member(2).log_lines(&[REFUSES]);
    assert!(said.contains("voters without 0x"), "{said}");
    assert!(said.contains("their leader: 1, 2; this server cannot tell"), "{said}");
    // It remembers this after a restart.
    ensemble.member(2).kill().unwrap();
    let refusals =
        |ensemble: &mut Ensemble| ensemble.member(2).log_lines(&[REFUSES]).lines().count();
    let before = refusals(&mut ensemble);
    ensemble.member(2).spawn().unwrap();
    let start = Instant::now();
    while refusals(&mut ensemble) == before {
        assert!(start.elapsed() < PATIENCE, "{}", ensemble.member(2).log());
        std::thread::sleep(Duration::from_millis(50));
    }

    // The operator decides for the third member's data, because no other member has them.
    for index in 0..2 {
        let member = ensemble.member(index);
        member.kill().unwrap();
        // Together with the third member, one of the two is a quorum, although it has no data.
        if index == 0 {
            fs::write(member.data().join("initialize"), "").unwrap();
        }
        ensemble.wipe(index).unwrap();
        ensemble.member(index).spawn().unwrap();
    }
    ensemble.wait_for_all().unwrap();
    let tree = ensemble.agreed_tree().unwrap();
    assert!(tree.contains("/older") && tree.contains("/newer"), "{tree}");

    // Its own data, after a restore, do not count, because of the file beside them.
    let member = ensemble.member(2);
    member.stop().unwrap();
    let data = member.data().to_owned();
    let remembered = data.join("version-2/committed");
    let line = fs::read(&remembered).unwrap();
    fs::remove_dir_all(&data).unwrap();
    fs::rename(backup(&data), &data).unwrap();
    fs::write(&remembered, line).unwrap();
    member.spawn().unwrap();
    member.wait_until_serving().unwrap();
    assert!(member.log().contains("somebody restored an older state"), "{}", member.log());
    assert_eq!(ensemble.agreed_tree().unwrap(), tree);
}

/// The members serve clients only while a majority can communicate. ZAB-08.
#[test]
fn nobody_serves_without_a_quorum() {
    let mut ensemble = Ensemble::start(&[Kind::Zebu; 3], &options()).unwrap();
    let leader = ensemble.leader(None).unwrap();
    for index in (0..3).filter(|index| *index != leader) {
        ensemble.member(index).kill().unwrap();
    }
    let start = Instant::now();
    let serves = |ensemble: &mut Ensemble| -> Result<bool> {
        Ok(ensemble.member(leader).four_letter_word("srvr")?.contains("Mode:"))
    };
    let wait = |ensemble: &mut Ensemble| -> Result<()> {
        while serves(ensemble)? {
            ensure!(start.elapsed() < PATIENCE, "it still serves");
            std::thread::sleep(Duration::from_millis(20));
        }
        Ok(())
    };
    wait(&mut ensemble).unwrap();
    let address = ensemble.member(leader).address();
    let patience = Duration::from_millis(500);
    assert!(Session::attach(address, 4_000, 0, &[0; 16], 0, patience).is_err());
}

/// Whether a file is a snapshot that contains these bytes.
fn is_snapshot_with(file: &Path, text: &str) -> bool {
    let name = file.file_name().unwrap().to_string_lossy();
    let is_whole = name.starts_with("snapshot.") && !name.contains("tmp");
    let bytes = || fs::read(file).unwrap_or_default();
    is_whole && bytes().windows(text.len()).any(|window| window == text.as_bytes())
}

/// After a list of members was edited by hand and has served, the next edit is compared with that
/// list, even if the members have written almost nothing meanwhile. REC-11.
#[test]
fn voters_that_were_changed_by_hand_may_be_changed_again() {
    let options = options().keep_config();
    let mut ensemble = Ensemble::start(&[Kind::Zebu; 3], &options).unwrap();
    for id in [4, 5] {
        let line = format!("server.{id}=127.0.0.1:{}:{}", free_port(), free_port());
        for index in 0..3 {
            let member = ensemble.member(index);
            member.stop().unwrap();
            let text = fs::read_to_string(member.config()).unwrap();
            fs::write(member.config(), format!("{text}{line}\n")).unwrap();
        }
        for index in 0..3 {
            ensemble.member(index).spawn().unwrap();
        }
        ensemble.wait_for_all().unwrap();
        for index in 0..3 {
            let member = ensemble.member(index);
            let (folder, start) = (member.data().join("version-2"), Instant::now());
            let shown = format!("server.{id}=");
            let is_there = || {
                let files = fs::read_dir(&folder).unwrap();
                files.flatten().any(|file| is_snapshot_with(&file.path(), &shown))
            };
            while !is_there() {
                assert!(start.elapsed() < PATIENCE, "{}", member.log());
                std::thread::sleep(Duration::from_millis(20));
            }
        }
    }
}

/// Without reconfiguration, members are changed in files. Voters must be changed one at a time:
/// otherwise the old and the new quorums need not overlap. REC-11, PAI-44.
#[test]
fn voters_are_changed_by_hand_one_at_a_time_unless_more_are_accepted() {
    let options = options().property("zookeeper.snapCount", 10).keep_config();
    let mut ensemble = Ensemble::start(&[Kind::Zebu; 3], &options).unwrap();
    let mut session = Session::open(ensemble.member(0).address(), 60_000).unwrap();
    for number in 0..40 {
        session.create(&format!("/{number}"), b"", 0).unwrap();
    }
    session.close().unwrap();
    ensemble.member(0).stop().unwrap();
    let add = |ensemble: &mut Ensemble, line: &str| {
        let file = ensemble.member(0).config();
        let text = fs::read_to_string(&file).unwrap();
        fs::write(file, format!("{text}{line}\n")).unwrap();
    };
    let member = |id: u8| format!("server.{id}=127.0.0.1:{}:{}", free_port(), free_port());
    let until = |ensemble: &mut Ensemble, said: &str| {
        let start = Instant::now();
        while !ensemble.member(0).log().contains(said) {
            assert!(start.elapsed() < PATIENCE, "{}", ensemble.member(0).log());
            std::thread::sleep(Duration::from_millis(20));
        }
    };
    add(&mut ensemble, &member(4));
    ensemble.member(0).spawn().unwrap();
    // It asks the others already. Their files are not changed yet, so it need not follow.
    until(&mut ensemble, "has another configuration of the same version");
    ensemble.member(0).stop().unwrap();
    add(&mut ensemble, &member(5));
    add(&mut ensemble, &member(6));
    ensemble.member(0).spawn().unwrap();
    until(&mut ensemble, "names {1, 2, 3, 4, 5, 6}: changing more than one voter at a time");
    let start = Instant::now();
    while ensemble.member(0).is_alive() {
        assert!(start.elapsed() < PATIENCE, "it does not end");
        std::thread::sleep(Duration::from_millis(20));
    }
    add(&mut ensemble, "zebu.acceptMembers=true");
    ensemble.member(0).spawn_if_ended().unwrap();
    until(&mut ensemble, "because zebu.acceptMembers is set");
}

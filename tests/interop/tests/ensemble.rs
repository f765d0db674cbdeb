//! Ensembles of ours whose members are killed, paused and wiped while clients write.

use std::time::Duration;

use anyhow::{Result, ensure};
use zebu_interop::ensemble::{Ensemble, LONG, SHORT, options};
use zebu_interop::load::{Client, Load};
use zebu_interop::raw::{Incoming, Reply, Session};
use zebu_interop::server::{Kind, PATIENCE};
use zebu_interop::wire::{Reader, Writer, op};

/// Acknowledged writes that show that an ensemble is at work again.
const PROGRESS: usize = 30;

/// What happens to some members at once.
#[derive(Clone, Copy, Debug)]
enum Fault {
    /// Ends at once, and comes back when the others have gone on.
    Kill,
    /// Comes back with nothing but its id.
    Wipe,
    /// Stands still, and nobody minds.
    Pause,
    /// Stands still, and the others go on without it.
    LongPause,
}

/// Does it to these members, and waits until all is well again.
fn inflict(ensemble: &mut Ensemble, load: &Load, fault: Fault, members: &[usize]) -> Result<()> {
    for index in members {
        match fault {
            Fault::Kill | Fault::Wipe => ensemble.member(*index).kill()?,
            Fault::Pause | Fault::LongPause => ensemble.member(*index).pause()?,
        }
    }
    match fault {
        Fault::Kill | Fault::Wipe => load.wait_for(PROGRESS)?,
        Fault::Pause => std::thread::sleep(SHORT),
        Fault::LongPause => {
            std::thread::sleep(LONG);
            load.wait_for(PROGRESS)?;
        }
    }
    for index in members {
        match fault {
            Fault::Wipe => ensemble.wipe(*index)?,
            Fault::Kill => {}
            Fault::Pause | Fault::LongPause => ensemble.member(*index).go_on()?,
        }
        if let Fault::Kill | Fault::Wipe = fault {
            ensemble.member(*index).spawn()?;
        }
    }
    ensemble.wait_for_all()?;
    load.wait_for(PROGRESS)
}

/// Writes go on, none that was acknowledged is lost, and all members end with the same tree.
fn survive(ensemble: &mut Ensemble, faults: impl FnOnce(&mut Ensemble, &Load) -> Result<()>) {
    let run = |ensemble: &mut Ensemble| -> Result<()> {
        let load = Load::start(&ensemble.addresses())?;
        load.wait_for(PROGRESS)?;
        faults(ensemble, &load)?;
        let told = load.finish()?;
        told.check(&ensemble.agreed_tree()?)
    };
    run(ensemble).unwrap_or_else(|failure| panic!("{failure:?}"));
}

#[test]
fn three_members_outlive_faults_of_one() {
    let mut ensemble = Ensemble::start(&[Kind::Zebu; 3], &options()).unwrap();
    survive(&mut ensemble, |ensemble, load| {
        for fault in [Fault::Kill, Fault::Pause, Fault::LongPause, Fault::Wipe] {
            let follower = ensemble.follower()?;
            inflict(ensemble, load, fault, &[follower])?;
            let leader = ensemble.leader(None)?;
            inflict(ensemble, load, fault, &[leader])?;
        }
        Ok(())
    });
}

#[test]
fn five_members_outlive_faults_of_two() {
    let mut ensemble = Ensemble::start(&[Kind::Zebu; 5], &options()).unwrap();
    survive(&mut ensemble, |ensemble, load| {
        for fault in [Fault::Kill, Fault::LongPause, Fault::Wipe] {
            let leader = ensemble.leader(None)?;
            inflict(ensemble, load, fault, &[leader, (leader + 2) % 5])?;
        }
        Ok(())
    });
}

#[test]
fn all_members_killed_at_once_come_back_with_everything() {
    let mut ensemble = Ensemble::start(&[Kind::Zebu; 3], &options()).unwrap();
    survive(&mut ensemble, |ensemble, load| {
        for _ in 0..3 {
            (0..3).try_for_each(|index| ensemble.member(index).kill())?;
            (0..3).try_for_each(|index| ensemble.member(index).spawn())?;
            ensemble.wait_for_all()?;
            load.wait_for(PROGRESS)?;
        }
        Ok(())
    });
}

/// Ephemerals in the tree of each member, by session.
fn ephemerals(ensemble: &Ensemble, index: usize) -> Result<Vec<String>> {
    let tree = ensemble.tree(index)?;
    let kept = tree.lines().filter(|line| line.starts_with("/e-"));
    Ok(kept.map(|line| line.split(' ').next().unwrap_or_default().to_owned()).collect())
}

#[test]
fn sessions_outlive_their_leader_and_end_without_their_client() {
    let mut ensemble = Ensemble::start(&[Kind::Zebu; 3], &options()).unwrap();
    let addresses = ensemble.addresses();
    let leader = ensemble.leader(None).unwrap();
    // One client on each member that stays, one that goes away, one that closes.
    let mut stay: Vec<Client> =
        (0..3).map(|index| Client::open(&addresses, index, 20_000).unwrap()).collect();
    for (index, client) in stay.iter_mut().enumerate() {
        let reply = client.create(&format!("/e-stays-{index}"), "", 1).unwrap().unwrap();
        assert_eq!(reply.err, 0);
    }
    let mut gone = Client::open(&addresses, leader + 1, 1_500).unwrap();
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
    let start = std::time::Instant::now();
    while (0..3).any(|index| ephemerals(&ensemble, index).unwrap() != wanted) {
        for client in &mut stay {
            // Whoever has lost the connection comes back with the session.
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

/// A leader stands still until there is another one and a newer value, with a sync and a read of a
/// client waiting for it. It may not answer them as if nothing had happened.
#[test]
fn a_leader_that_stood_still_does_not_answer_a_sync_with_what_is_old() {
    let mut ensemble = Ensemble::start(&[Kind::Zebu; 3], &options()).unwrap();
    let mut client = Client::open(&ensemble.addresses(), 0, 30_000).unwrap();
    assert_eq!(client.create("/v", "0", 0).unwrap().unwrap().err, 0);
    for round in 1..=3 {
        let leader = ensemble.leader(None).unwrap();
        let mut waiting = Session::open(ensemble.member(leader).address(), 30_000).unwrap();
        ensemble.member(leader).pause().unwrap();
        let next = ensemble.leader(Some(leader)).unwrap();
        let mut writer = Session::open(ensemble.member(next).address(), 30_000).unwrap();
        let body = Writer::new().string("/v").string(&round.to_string()).int(-1);
        writer.expect(op::SET_DATA, body).unwrap();
        let (sync, read) = (Writer::request(100, op::SYNC), Writer::request(101, op::GET_DATA));
        let connection = &mut waiting.connection;
        connection.send(&sync.string("/v").done()).unwrap();
        connection.send(&read.string("/v").bool(false).done()).unwrap();
        ensemble.member(leader).go_on().unwrap();
        while let Incoming::Frame(payload) = connection.receive().unwrap() {
            let reply = Reply::parse(&payload).unwrap();
            if reply.xid == 101 {
                let value = Reader::new(&reply.body).string().unwrap();
                assert!(reply.err != 0 || value == Some(round.to_string()), "{value:?}");
                break;
            }
        }
        ensemble.wait_for_all().unwrap();
    }
}

/// The members serve only as long as most of them can hear each other.
#[test]
fn nobody_serves_without_a_quorum() {
    let mut ensemble = Ensemble::start(&[Kind::Zebu; 3], &options()).unwrap();
    let leader = ensemble.leader(None).unwrap();
    for index in (0..3).filter(|index| *index != leader) {
        ensemble.member(index).kill().unwrap();
    }
    let start = std::time::Instant::now();
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

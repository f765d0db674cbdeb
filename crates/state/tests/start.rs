//! The state with which a member starts, given its data and files.

use std::sync::Arc;

use zebu_proto::{Epoch, ServerId, Zxid};
use zebu_state::membership::ConfigFiles;
use zebu_state::{Found, Rebuild, membership};
use zebu_store::vfs::MemVfs;
use zebu_store::{Recovered, Store, Vfs};
use zebu_zab::ConfigChange;
use zebu_zab::config::{Membership, files};

fn config(voters: &[i64], version: Zxid) -> Membership {
    let line = |id: &i64| format!("server.{id}=10.0.0.{id}:2888:3888:participant\n");
    let text: String = voters.iter().map(line).collect();
    Membership::agreed(text.as_bytes()).unwrap().with_version(version)
}

fn at(counter: u32) -> Zxid {
    Zxid::new(Epoch(1), counter)
}

fn recovered() -> Recovered {
    let vfs = MemVfs::new("/d".as_ref());
    vfs.put("/d/initialize".as_ref(), b"");
    let options = zebu_store::Options {
        member: true,
        autocreate_db: false,
        ..zebu_store::Options::new("/d")
    };
    let mut store = Store::open(Arc::new(vfs), options).unwrap();
    store.recover(&mut Rebuild::new(zebu_tree::Options::default())).unwrap()
}

fn found(recovered: &Recovered) -> Found<'_> {
    let epochs = zebu_store::Epochs { accepted: Epoch(1), current: Epoch(1), logged: Epoch(1) };
    let committed = Arc::new(config(&[1, 2, 3], at(2)));
    Found {
        recovered,
        epochs,
        certain: None,
        identity: zebu_proto::Identity::Unknown,
        committed,
        proposed: None,
        in_data: None,
        in_files: None,
        reconfig: true,
    }
}

#[test]
fn what_was_proposed_counts_once_its_transaction_is_in_the_data() {
    let recovered = recovered();
    let proposed = Some(config(&[3, 4, 5], at(5)));
    let start = Found { proposed: proposed.clone(), ..found(&recovered) }.start();
    assert_eq!(start.last_seen, None);
    let in_data = Some(config(&[3, 4, 5], at(5)));
    let start = Found { proposed, in_data, ..found(&recovered) }.start();
    assert_eq!(start.last_seen.map(|seen| seen.version()), Some(at(5)));
    // The first version of an epoch is in no transaction.
    let first = Some(config(&[1, 2, 3], Zxid::new(Epoch(2), 0)));
    let start = Found { proposed: first, ..found(&recovered) }.start();
    assert_eq!(start.last_seen.map(|seen| seen.version()), Some(Zxid::new(Epoch(2), 0)));
}

#[test]
fn the_newest_that_was_known_counts_beside_the_one_in_force() {
    let recovered = recovered();
    let (in_data, in_files) = (Some(config(&[1, 2], at(3))), Some(config(&[1, 2, 4], at(4))));
    let found = Found { in_data, in_files, ..found(&recovered) };
    assert_eq!(found.hand_made(), None);
    assert_eq!(found.start().last_seen.map(|seen| seen.version()), Some(at(4)));
}

#[test]
fn who_has_served_more_than_its_data_have_has_no_vote() {
    let recovered = recovered();
    let last = recovered.last_zxid;
    let at_end = Found { certain: Some(last), reconfig: false, ..found(&recovered) };
    assert_eq!(at_end.put_back(), None);
    assert!(at_end.start().has_database);
    let behind = Found { certain: last.next(), reconfig: false, ..found(&recovered) };
    assert_eq!(behind.put_back(), last.next());
    let start = behind.start();
    assert!(!start.has_database);
    assert_eq!(Some(start.certain), last.next());
}

#[test]
fn who_has_lost_its_data_has_no_vote() {
    let recovered = recovered();
    assert!(found(&recovered).start().has_database);
    let epochs = zebu_store::Epochs { accepted: Epoch(0), current: Epoch(0), logged: Epoch(0) };
    assert!(!Found { epochs, ..found(&recovered) }.start().has_database);
}

#[test]
fn a_configuration_that_a_start_has_read_outlives_the_power() {
    let vfs = MemVfs::new("/d".as_ref());
    let file = std::path::Path::new("/d/zoo.cfg");
    vfs.put(file, b"server.1=10.0.0.1:2888:3888\n");
    let committed = Arc::new(config(&[1], Zxid::ZERO));
    let disk: Arc<dyn Vfs> = Arc::new(vfs.clone());
    let mut kept =
        ConfigFiles::new(disk.clone(), Some(file.into()), ServerId(1), committed.clone(), None);
    // The process was killed between the last rename and the directory's sync.
    vfs.stop_at(vfs.mutations() + 9);
    let change = ConfigChange::Committed(Arc::new(config(&[1, 2], at(4))));
    kept.save(&change).unwrap_err();
    vfs.resume();
    let pointer = |vfs: &MemVfs| {
        let text = vfs.content(file).unwrap();
        String::from_utf8(text).unwrap().contains("dynamicConfigFile")
    };
    assert!(pointer(&vfs));
    let lost = zebu_store::vfs::Crash {
        content: zebu_store::vfs::Unsynced::Lost,
        names: zebu_store::vfs::Names::Lost,
    };
    assert!(!pointer(&vfs.crash(lost)));
    ConfigFiles::new(disk.clone(), Some(file.into()), ServerId(1), committed, None)
        .settle()
        .unwrap();
    let after = vfs.crash(lost);
    assert!(pointer(&after));
    assert!(after.content(&files::committed(file, at(4))).is_some());
    assert_eq!(membership::in_files(&after, file).map(|it| it.version()), Some(at(4)));
}

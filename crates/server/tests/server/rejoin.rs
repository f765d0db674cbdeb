//! Members that are started again: with what they had, or without it.

use std::time::Instant;

use crate::members::{client_of, ensemble, initialized};
use crate::running::{Running, files, wait};

/// The place of a member that follows in the ensemble of three, and its number.
fn a_follower(members: &[Running]) -> usize {
    let follows = |member: &Running| member.word("srvr").contains("Mode: follower");
    members.iter().position(follows).expect("two of three follow")
}

#[test]
fn a_wiped_member_learns_everything_where_new_databases_are_forbidden() {
    let (mut members, start) = initialized(&["db.autocreate=false", "snapCount=1000"]);
    let mut client = client_of(&members[0]);
    client.create("/kept", b"by the others").unwrap();
    client.close();
    let place = a_follower(&members);
    let wiped = members.remove(place);
    let path = wiped.files();
    drop(wiped);
    std::fs::remove_dir_all(&path).unwrap();
    let again = start(place + 1);
    // A sync, so that it has what was written before.
    let mut client = client_of(&again);
    wait("the znode", || client.exists("/kept"));
    client.close();
    assert!(!files(&again.files(), "snapshot.").is_empty(), "it keeps what it was sent");
}

#[test]
fn members_that_are_restarted_often_take_snapshots_and_remove_old_files() {
    const LIVES: usize = 16;
    const WRITES: usize = 30;
    let settings = ["snapCount=100", "autopurge.purgeInterval=50ms"];
    let (mut members, start) = initialized(&settings);
    let place = a_follower(&members);
    let mut snapshots = std::collections::BTreeSet::new();
    for life in 0..LIVES {
        let mut client = client_of(&members[place]);
        client.create(&format!("/{life}"), b"").unwrap();
        for _ in 1..WRITES {
            client.set(&format!("/{life}"), b"x").unwrap();
        }
        client.close();
        let stopped = members.remove(place);
        let path = stopped.files();
        drop(stopped);
        snapshots.extend(files(&path, "snapshot."));
        members.insert(place, start(place + 1));
    }
    let member = &members[place];
    client_of(member).close();
    // The first one is from the start of the ensemble. One is due after 50 to 100 transactions.
    assert!(snapshots.len() > 1 + LIVES * WRITES / 200, "{snapshots:?}");
    let replayed = member.metric("sum_startup_txns_loaded").unwrap();
    assert!(replayed < 150.0, "{replayed} transactions were replayed");
    wait("old files are removed", || files(&member.files(), "snapshot.").len() == 3);
    assert!(!member.files().join("log.100000001").exists(), "{:?}", files(&member.files(), ""));
}

#[test]
fn a_member_does_not_start_alone_by_accident() {
    let (_dir, mut members) = ensemble(&[]);
    let member = members.remove(0);
    let path = member.files().parent().unwrap().to_owned();
    client_of(&member).create("/all", b"").unwrap();
    drop((member, members));
    let refusal = Running::refusal(&path, &[]);
    assert!(refusal.contains("voters {1, 2}") && refusal.contains("run alone"), "{refusal}");
    assert!(refusal.contains("zebu.acceptMembers=true"), "{refusal}");
    Running::on(&path, &["zebu.acceptMembers=true"]).client().create("/alone", b"").unwrap();
}

#[test]
fn uptime_begins_with_the_role() {
    let (mut members, _start) = initialized(&[]);
    let place = a_follower(&members);
    let leads = |member: &Running| member.word("srvr").contains("Mode: leader");
    let leader = members.iter().position(leads).unwrap();
    let before = Instant::now();
    drop(members.remove(leader));
    let member = &members[place - usize::from(leader < place)];
    // It serves a while yet as what it was.
    wait("another leader", || members.iter().any(leads) && member.metric("uptime").is_some());
    let uptime = member.metric("uptime").unwrap();
    assert!(uptime <= before.elapsed().as_millis() as f64, "{uptime} ms");
}

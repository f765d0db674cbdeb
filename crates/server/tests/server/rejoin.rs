//! Restarted members, with and without their data.

use std::path::Path;
use std::time::Instant;

use zebu_store::log::read::{Tail, read_log};
use zebu_store::log::{encode_record, header};

use crate::admin::get;
use crate::members::{Three, client_of, ensemble, initialized};
use crate::running::{Running, files, wait};

/// The directory of a following member in the ensemble of three, and its number.
fn a_follower(members: &[Running]) -> usize {
    let follows = |member: &Running| member.word("srvr").contains("Mode: follower");
    members.iter().position(follows).expect("two of three follow")
}

#[test]
fn a_wiped_member_learns_everything_where_new_databases_are_forbidden() {
    let (start, mut members) = initialized(&["db.autocreate=false", "snapCount=1000"]);
    let mut client = client_of(&members[0]);
    client.create("/kept", b"by the others").unwrap();
    client.close();
    let place = a_follower(&members);
    let wiped = members.remove(place);
    let path = wiped.files();
    drop(wiped);
    std::fs::remove_dir_all(&path).unwrap();
    let again = start(place + 1);
    // A sync, so that the server has all earlier writes.
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
    let (start, mut members) = initialized(&settings);
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
    // The first snapshot is from the start of the ensemble. The next one is due after 50 to 100
    // transactions.
    assert!(snapshots.len() > 1 + LIVES * WRITES / 200, "{snapshots:?}");
    let replayed = member.metric("sum_startup_txns_loaded").unwrap();
    assert!(replayed < 150.0, "{replayed} transactions were replayed");
    wait("old files are removed", || files(&member.files(), "snapshot.").len() == 3);
    assert!(!member.files().join("log.100000001").exists(), "{:?}", files(&member.files(), ""));
}

#[test]
fn no_snapshot_is_taken_for_a_new_leader_or_for_a_synchronization() {
    let (start, mut members) = initialized(&[]);
    client_of(&members[0]).create("/before", b"").unwrap();
    let leads = |member: &Running| member.word("srvr").contains("Mode: leader");
    let place = members.iter().position(leads).expect("one of three leads");
    drop(members.remove(place));
    let mut client = client_of(&members[0]);
    client.create("/after", b"").unwrap();
    client.close();
    let again = start(place + 1);
    let mut client = client_of(&again);
    wait("the znode", || client.exists("/after"));
    for member in &members {
        let taken = member.metric("cnt_snapshottime");
        assert_eq!(taken, Some(1.0), "only the first one, of a member without data");
    }
}

/// Other data of the same length in the logs of a directory, with correct checksums.
fn spoil(dir: &Path, right: &[u8], wrong: &[u8]) {
    let mut found = 0;
    for name in files(dir, "log.") {
        let path = dir.join(name);
        let mut log = header().to_vec();
        let content = std::fs::read(&path).unwrap();
        let (_, tail) = read_log(&content[..], 1 << 20, &mut |record| {
            let mut body = record.body.to_vec();
            if let Some(at) = body.windows(right.len()).position(|bytes| bytes == right) {
                body[at..at + right.len()].copy_from_slice(wrong);
                found += 1;
            }
            encode_record(&body, &mut log);
        })
        .unwrap();
        assert_eq!(tail, Tail::Clean);
        std::fs::write(path, log).unwrap();
    }
    assert_eq!(found, 1, "there is one such record");
    // Sidecars would detect the change.
    for name in files(dir, "durable.") {
        std::fs::remove_file(dir.join(name)).unwrap();
    }
}

/// A member whose tree differs from its leader's, once it knows that.
pub fn with_another_tree(look: impl FnOnce(&Running, &Path)) {
    let (start, mut members) = initialized(&[]);
    let place = a_follower(&members);
    // Its own answer, because its log may lack the end of the answers of other members.
    let mut client = client_of(&members[place]);
    client.create("/a", b"right data").unwrap();
    client.close();
    let stopped = members.remove(place);
    let path = stopped.files();
    drop(stopped);
    spoil(&path, b"right data", b"wrong data");
    let another = start(place + 1);
    let mut client = client_of(&members[0]);
    client.create("/b", b"").unwrap();
    wait("the tree is doubted", || {
        client.set("/b", b"").unwrap();
        another.metric("tree_doubts_count") == Some(1.0)
    });
    client.close();
    look(&another, &path);
}

#[test]
fn a_member_with_another_tree_keeps_evidence_and_takes_the_leaders() {
    with_another_tree(|another, path| {
        let (mut text, mut log) = (Vec::new(), Vec::new());
        wait("the evidence is complete", || {
            let kept = files(path, "differs.");
            let of_kind =
                |kind: &str| kept.iter().filter(|name| name.ends_with(kind)).cloned().collect();
            (text, log) = (of_kind(".txt"), of_kind(".log"));
            (text.len(), log.len()) == (1, 1)
        });
        let text = std::fs::read_to_string(path.join(&text[0])).unwrap();
        assert!(text.contains(" differs\n"), "{text}");
        let log = std::fs::read(path.join(&log[0])).unwrap();
        let mut records = 0;
        let (_, tail) = read_log(&log[..], 1 << 20, &mut |_| records += 1).unwrap();
        assert!(records > 0 && tail == Tail::Clean, "{records} records, {tail:?}");
        let mut client = client_of(another);
        assert_eq!(client.get("/a").unwrap().0, b"right data");
        client.close();
        // The leader's tree has arrived, so the znode can be named.
        wait("the znode is named", || {
            files(path, "differs.").iter().any(|name| name.ends_with(".znodes"))
        });
        let name =
            files(path, "differs.").into_iter().find(|name| name.ends_with(".znodes")).unwrap();
        let text = std::fs::read_to_string(path.join(name)).unwrap();
        assert!(text.contains("znodes: 1\n\n/a: data of 10 bytes"), "{text}");
    });
}

#[test]
fn members_that_all_lack_their_history_name_each_other() {
    let settings = ["db.autocreate=false", "admin.enableServer=true", "admin.serverPort=0"];
    let three = Three::voters(&settings);
    let members: Vec<Running> = (1..=3).map(|id| three.start(id)).collect();
    for (member, others) in members.iter().zip(["2, 3", "1, 3", "1, 2"]) {
        let named = format!(
            "voters that do not vote, since their data are lost, damaged or put back: {others}"
        );
        wait("the others are named", || {
            get(member.admin_port(), "/ensemble", "").text().contains(&named)
        });
    }
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
    let (_start, mut members) = initialized(&[]);
    let place = a_follower(&members);
    let leads = |member: &Running| member.word("srvr").contains("Mode: leader");
    let leader = members.iter().position(leads).unwrap();
    let before = Instant::now();
    drop(members.remove(leader));
    let member = &members[place - usize::from(leader < place)];
    // It still serves in its old role for a while.
    wait("another leader", || members.iter().any(leads) && member.metric("uptime").is_some());
    let uptime = member.metric("uptime").unwrap();
    assert!(uptime <= before.elapsed().as_millis() as f64, "{uptime} ms");
}

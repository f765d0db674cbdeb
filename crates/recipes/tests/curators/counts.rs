//! Shared values, counts and atomic numbers.

use zebu_client::{Acls, Client, ErrorKind, Version};
use zebu_recipes::{AtomicInteger, AtomicLong, Error, SharedCount, SharedValue};

use crate::embedded::Server;
use crate::lossy::Lossy;
use crate::{connect, create, names, soon, until_empty};

async fn data(client: &Client, path: &str) -> Vec<u8> {
    client.get_data(path).await.unwrap().0.to_vec()
}

/// The bytes in the znodes are those of Curator's `SharedCount`, `DistributedAtomicInteger` and
/// `DistributedAtomicLong`.
#[tokio::test]
async fn numbers_are_written_as_curator_writes_them() {
    let server = Server::start(&[]);
    let client = connect(server.address()).await;
    let acl = Acls::creator();
    SharedCount::new(&client, "/a/count", -2, &acl).get().await.unwrap();
    assert_eq!(data(&client, "/a/count").await, [255, 255, 255, 254]);
    AtomicInteger::new(&client, "/b/int", &acl).add(258).await.unwrap();
    assert_eq!(data(&client, "/b/int").await, [0, 0, 1, 2]);
    AtomicLong::new(&client, "/c/long", &acl).add(-1).await.unwrap();
    assert_eq!(data(&client, "/c/long").await, [255; 8]);
    // Overflow wraps around, as in Java.
    let long = AtomicLong::new(&client, "/c/long", &acl);
    long.force_set(i64::MAX).await.unwrap();
    assert_eq!(long.increment().await.unwrap().after, i64::MIN);
    for path in ["/a/count", "/c/long"] {
        client.set_data(path, "word", Version::ANY).await.unwrap();
    }
    client.set_data("/a/count", "words", Version::ANY).await.unwrap();
    let error = SharedCount::new(&client, "/a/count", 0, &acl).get().await.unwrap_err();
    assert_eq!(error, Error::Foreign("/a/count".to_owned()));
    let error = long.add(1).await.unwrap_err();
    assert_eq!(error, Error::Foreign("/c/long".to_owned()));
}

#[tokio::test]
async fn a_shared_value_is_set_by_who_has_seen_it() {
    let server = Server::start(&[]);
    let (one, two) = (connect(server.address()).await, connect(server.address()).await);
    let acl = Acls::creator();
    let [mine, yours] = [&one, &two].map(|it| SharedValue::new(it, "/mode", "seed", &acl));
    let mut changes = yours.changes();
    assert_eq!(soon(changes.next()).await.unwrap().value, b"seed");
    let seen = mine.get().await.unwrap();
    assert_eq!(mine.try_set(seen.version, "1").await.unwrap(), Some(Version(1)));
    assert_eq!(yours.try_set(seen.version, "2").await.unwrap(), None);
    assert_eq!(soon(changes.next()).await.unwrap().value, b"1");
    // After two writes the reader receives the last value for certain, and the first one possibly.
    yours.set("2").await.unwrap();
    mine.set("3").await.unwrap();
    while soon(changes.next()).await.unwrap().value != b"3" {}
    // A deleted znode is created again with the seed.
    one.delete("/mode", Version::ANY).await.unwrap();
    while soon(changes.next()).await.unwrap().value != b"seed" {}
}

/// With many writers at once each addition counts once. Writers that lose several races continue
/// under the lock.
#[tokio::test]
async fn every_addition_counts() {
    let server = Server::start(&[]);
    let mut adding = Vec::new();
    for _ in 0..6 {
        let client = connect(server.address()).await;
        let counter = AtomicLong::new(&client, "/counter", &Acls::creator());
        let counter = counter.promoted_to_lock("/counter-lock");
        adding.push(tokio::spawn(async move {
            let mut added = 0;
            while added < 20 {
                match counter.increment().await {
                    Ok(changed) => {
                        assert_eq!(changed.after, changed.before + 1);
                        added += 1;
                    }
                    // Writers without the lock may be faster even than its holder.
                    Err(Error::Contended(_)) => {}
                    Err(error) => panic!("{error}"),
                }
            }
        }));
    }
    for adding in adding {
        soon(adding).await.unwrap();
    }
    let client = connect(server.address()).await;
    let counter = AtomicLong::new(&client, "/counter", &Acls::creator());
    assert_eq!(counter.get().await.unwrap(), 120);
}

/// A writer that has lost several races continues under the lock. While another process holds the
/// lock, it waits.
#[tokio::test]
async fn who_comes_too_late_takes_the_lock() {
    let server = Server::start(&[]);
    let (client, other) = (connect(server.address()).await, connect(server.address()).await);
    let acl = Acls::creator();
    create(&client, "/counter", "\0\0\0\0\0\0\0\0").await;
    let held = zebu_recipes::Mutex::new(&other, "/lock", &acl).acquire().await.unwrap();
    let counter = AtomicLong::new(&client, "/counter", &acl);
    // Another writer writes after each call of the function, so no attempt succeeds.
    let (sender, receiver) = std::sync::mpsc::channel::<std::sync::mpsc::Sender<()>>();
    let writing = std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        while let Ok(done) = receiver.recv() {
            let write = other.set_data("/counter", [0; 8], Version::ANY);
            runtime.block_on(write).unwrap();
            done.send(()).unwrap();
        }
    });
    let disturb = |before: i64| {
        let (done, is_done) = std::sync::mpsc::channel();
        if sender.send(done).is_ok() {
            is_done.recv().unwrap();
        }
        before + 1
    };
    let error = soon(counter.update(disturb)).await.unwrap_err();
    assert_eq!(error, Error::Contended("/counter".to_owned()));
    let promoted = counter.clone().promoted_to_lock("/lock");
    let mut late = Box::pin(promoted.update(disturb));
    let in_line = async {
        let mutex = zebu_recipes::Mutex::new(&client, "/lock", &acl);
        while mutex.participants().await.unwrap().len() < 2 {
            tokio::task::yield_now().await;
        }
    };
    tokio::select! {
        changed = &mut late => panic!("{changed:?}"),
        () = soon(in_line) => {}
    }
    // Dropping the future gives up the place in line.
    drop(late);
    soon(held.release()).await.unwrap();
    until_empty(&client, "/lock").await;
    let error = soon(promoted.update(disturb)).await.unwrap_err();
    assert_eq!(error, Error::Contended("/counter".to_owned()));
    assert_eq!(soon(promoted.increment()).await.unwrap().after, 1);
    until_empty(&client, "/lock").await;
    drop(sender);
    writing.join().unwrap();
}

/// Whichever answer is lost, a reported addition happened once. Otherwise the error says that the
/// outcome is unknown.
#[tokio::test]
async fn no_addition_is_reported_wrongly() {
    let server = Server::start(&[]);
    let network = Lossy::new(server.address()).await;
    let observer = connect(server.address()).await;
    let mut unknown = 0;
    for lost in 0.. {
        let path = format!("/n{lost}");
        let client = connect(network.address).await;
        client.sync("/").await.unwrap();
        network.lose(lost);
        let counter = AtomicLong::new(&client, &path, &Acls::creator());
        let (mut least, mut most) = (0, 0);
        for _ in 0..2 {
            match soon(counter.increment()).await {
                Ok(_) => (least, most) = (least + 1, most + 1),
                Err(Error::Client(error)) if error.kind() == ErrorKind::Unknown => {
                    unknown += 1;
                    most += 1;
                }
                Err(error) => panic!("answer {lost} lost: {error}"),
            }
        }
        let is_lost = network.heal();
        let found = AtomicLong::new(&observer, &path, &Acls::creator()).get().await.unwrap();
        assert!((least..=most).contains(&found), "{lost}: {least} {found} {most}");
        if !is_lost {
            assert_eq!((least, most), (2, 2));
            break;
        }
    }
    assert!(unknown > 0);
    assert_eq!(names(&observer, "/").await.iter().filter(|name| name.contains("_c_")).count(), 0);
}

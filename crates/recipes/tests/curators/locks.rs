//! Locks with Curator's znodes.

use std::time::Duration;

use zebu_client::{Acls, Client, CreateMode, Version};
use zebu_recipes::{Election, Error, Lock, MultiLock, Mutex, News, ReadWriteLock};

use crate::embedded::Server;
use crate::{connect, names, soon, until_empty};

const ID: &str = "_c_0b4f8f1e-5f0c-4a53-9d6e-54b6d1a5d3aa";

/// The name without the unique id, which must be present.
fn without_id(name: &str) -> String {
    let (id, rest) = name.strip_prefix("_c_").expect("protected").split_at(36);
    let lengths: Vec<usize> = id.split('-').map(str::len).collect();
    assert_eq!(lengths, [8, 4, 4, 4, 12], "{name}");
    assert!(id.chars().all(|c| c == '-' || c.is_ascii_hexdigit()), "{name}");
    rest.to_owned()
}

async fn line(client: &Client, path: &str) -> Vec<String> {
    let mut line: Vec<String> =
        names(client, path).await.iter().map(|name| without_id(name)).collect();
    line.sort();
    line
}

/// Creates the znode that Curator would create.
async fn theirs(client: &Client, path: &str, word: &str) -> String {
    let (path, mode) = (format!("{path}/{ID}-{word}"), CreateMode::EphemeralSequential);
    client.create(&path, "10.0.0.1", mode, &Acls::creator()).await.unwrap().path
}

/// The exact names. Our contenders wait for Curator's, and Curator's for ours.
#[tokio::test]
async fn a_mutex_stands_in_curators_line() {
    let server = Server::start(&[]);
    let (client, curator) = (connect(server.address()).await, connect(server.address()).await);
    let mutex = Mutex::new(&client, "/deep/lock", &Acls::creator());
    let guard = soon(mutex.acquire()).await.unwrap();
    assert_eq!(line(&client, "/deep/lock").await, ["-lock-0000000000"]);
    let first = theirs(&curator, "/deep/lock", "lock-").await;
    guard.release().await.unwrap();
    assert!(mutex.try_acquire().await.unwrap().is_none());
    let mut waiting = Box::pin(mutex.acquire());
    let too_early = tokio::time::timeout(Duration::from_millis(200), &mut waiting).await;
    assert!(too_early.is_err());
    curator.delete(&first, Version::ANY).await.unwrap();
    let mut guard = soon(waiting).await.unwrap();
    // A revocation by Curator is noticed, and ours has Curator's format.
    curator.set_data(guard.path(), "__REVOKE__", Version::ANY).await.unwrap();
    assert_eq!(soon(guard.news()).await, News::Wanted);
    soon(guard.release()).await.unwrap();
    let theirs = theirs(&curator, "/deep/lock", "lock-").await;
    assert_eq!(mutex.revoke().await.unwrap(), 1);
    assert_eq!(curator.get_data(&theirs).await.unwrap().0, "__REVOKE__");
}

/// A lock can be reentered by its owner only.
#[tokio::test]
async fn an_owner_enters_again() {
    let server = Server::start(&[]);
    let client = connect(server.address()).await;
    let mutex = Mutex::new(&client, "/lock", &Acls::creator());
    let other = Mutex::new(&client, "/lock", &Acls::creator());
    let outer = soon(mutex.acquire()).await.unwrap();
    let inner = soon(mutex.clone().acquire()).await.unwrap();
    let third = soon(mutex.try_acquire()).await.unwrap().unwrap();
    assert_eq!((outer.path(), outer.token()), (inner.path(), inner.token()));
    assert_eq!(names(&client, "/lock").await.len(), 1);
    soon(outer.release()).await.unwrap();
    drop(third);
    assert!(other.try_acquire().await.unwrap().is_none());
    let stat = client.exists(inner.path()).await.unwrap().unwrap();
    assert_eq!(stat.czxid, inner.token().0);
    soon(inner.release()).await.unwrap();
    let theirs = soon(other.acquire()).await.unwrap();
    // An owner that holds nothing cannot reenter.
    assert!(mutex.try_acquire().await.unwrap().is_none());
    drop(theirs);
    // A lost lock cannot be reentered either, until its guards are dropped.
    let mut guard = soon(mutex.acquire()).await.unwrap();
    client.delete(guard.path(), Version::ANY).await.unwrap();
    soon(guard.lost()).await;
    let path = guard.path().to_owned();
    assert_eq!(soon(mutex.acquire()).await.unwrap_err(), Error::Deleted(path.clone()));
    assert_eq!(soon(guard.release()).await.unwrap_err(), Error::Deleted(path));
    soon(soon(mutex.acquire()).await.unwrap().release()).await.unwrap();
    until_empty(&client, "/lock").await;
}

/// The exact names. Readers share the lock, and writers exclude all others, in Curator's order.
#[tokio::test]
async fn readers_and_writers_stand_in_curators_line() {
    let server = Server::start(&[]);
    let (client, curator) = (connect(server.address()).await, connect(server.address()).await);
    let [one, two] = [(), ()].map(|()| ReadWriteLock::new(&client, "/rw", &Acls::creator()));
    let reading = soon(one.read()).await.unwrap();
    let also = soon(two.read()).await.unwrap();
    assert_eq!(line(&client, "/rw").await, ["-__READ__0000000000", "-__READ__0000000001"]);
    let writer = theirs(&curator, "/rw", "__WRIT__").await;
    assert_eq!(one.write().await.unwrap_err(), Error::Upgrade("/rw".to_owned()));
    drop(also);
    // A new reader waits behind a writer in line, but an owner that reads already may reenter.
    soon(soon(one.read()).await.unwrap().release()).await.unwrap();
    assert!(two.try_read().await.unwrap().is_none());
    soon(reading.release()).await.unwrap();
    curator.delete(&writer, Version::ANY).await.unwrap();
    // A writer may also read, in its own place, and keeps reading after it releases the write lock.
    let writing = soon(one.write()).await.unwrap();
    let behind = theirs(&curator, "/rw", "__WRIT__").await;
    let reading = soon(one.read()).await.unwrap();
    let number = writing.path().rsplit_once("__WRIT__").unwrap().1;
    assert!(reading.path().ends_with(&format!("-__READ__{number}")), "{}", reading.path());
    without_id(reading.path().rsplit_once('/').unwrap().1);
    soon(writing.release()).await.unwrap();
    let participants = one.participants().await.unwrap();
    assert_eq!(participants[0].path, reading.path());
    assert_eq!(participants[1].path, behind);
    assert!(participants[0].is_shared && !participants[1].is_shared);
    assert!(two.try_read().await.unwrap().is_none());
    curator.delete(&behind, Version::ANY).await.unwrap();
    // A reader of Curator's keeps a writer out, but not a reader.
    let reader = theirs(&curator, "/rw", "__READ__").await;
    soon(reading.release()).await.unwrap();
    assert!(two.try_write().await.unwrap().is_none());
    soon(soon(two.try_read()).await.unwrap().unwrap().release()).await.unwrap();
    curator.delete(&reader, Version::ANY).await.unwrap();
    soon(soon(two.try_write()).await.unwrap().unwrap().release()).await.unwrap();
    until_empty(&client, "/rw").await;
}

/// The exact names. Curator's candidates are waited for and listed.
#[tokio::test]
async fn candidates_stand_in_curators_lines() {
    let server = Server::start(&[]);
    let (client, curator) = (connect(server.address()).await, connect(server.address()).await);
    let acl = Acls::creator();
    for (election, path, word) in [
        (Election::of_selector(&client, "/selector", &acl), "/selector", "lock-"),
        (Election::of_latch(&client, "/latch", &acl), "/latch", "latch-"),
    ] {
        let leading = soon(election.lead("me")).await.unwrap();
        assert_eq!(line(&client, path).await, [format!("-{word}0000000000")]);
        let other = theirs(&curator, path, word).await;
        let candidates: Vec<String> =
            election.candidates().await.unwrap().into_iter().map(|it| it.name).collect();
        assert_eq!(candidates, ["me", "10.0.0.1"]);
        soon(leading.release()).await.unwrap();
        assert_eq!(election.leader().await.unwrap().unwrap().name, "10.0.0.1");
        let mut waiting = Box::pin(election.lead("me"));
        let too_early = tokio::time::timeout(Duration::from_millis(200), &mut waiting).await;
        assert!(too_early.is_err());
        curator.delete(&other, Version::ANY).await.unwrap();
        soon(soon(waiting).await.unwrap().release()).await.unwrap();
        until_empty(&client, path).await;
    }
}

/// Locks with another order of contenders are refused in the same znode.
#[tokio::test]
async fn no_curator_lock_is_taken_beside_others() {
    let server = Server::start(&[]);
    let client = connect(server.address()).await;
    let held = Lock::new(&client, "/lock", &Acls::creator()).exclusive().await.unwrap();
    let foreign = Error::Foreign(held.path().to_owned());
    let mutex = Mutex::new(&client, "/lock", &Acls::creator());
    let both = ReadWriteLock::new(&client, "/lock", &Acls::creator());
    assert_eq!(soon(mutex.acquire()).await.unwrap_err(), foreign);
    assert_eq!(soon(both.read()).await.unwrap_err(), foreign);
    assert_eq!(soon(both.write()).await.unwrap_err(), foreign);
}

/// A contender that gives up leaves the line, at whatever point its future is dropped.
#[tokio::test]
async fn who_gives_up_leaves_nothing() {
    let server = Server::start(&[]);
    let (client, other) = (connect(server.address()).await, connect(server.address()).await);
    let acl = Acls::creator();
    let mutex = |client: &Client, path: &str| Mutex::new(client, path, &acl);
    let held = soon(mutex(&client, "/b").acquire()).await.unwrap();
    let both = MultiLock::new(vec![mutex(&other, "/a"), mutex(&other, "/b")]);
    let lock = ReadWriteLock::new(&other, "/rw", &acl);
    let writing = soon(ReadWriteLock::new(&client, "/rw", &acl).write()).await.unwrap();
    for polls in 0..12 {
        let mut waiting = Box::pin(both.acquire());
        let mut reading = Box::pin(lock.read());
        for _ in 0..polls {
            assert!(tokio::time::timeout(Duration::ZERO, &mut waiting).await.is_err());
            assert!(tokio::time::timeout(Duration::ZERO, &mut reading).await.is_err());
            other.sync("/").await.unwrap();
        }
    }
    until_empty(&client, "/a").await;
    soon(held.release()).await.unwrap();
    soon(writing.release()).await.unwrap();
    until_empty(&client, "/b").await;
    until_empty(&client, "/rw").await;
    let all = soon(both.acquire()).await.unwrap();
    assert!(mutex(&client, "/a").try_acquire().await.unwrap().is_none());
    assert!(mutex(&client, "/b").try_acquire().await.unwrap().is_none());
    soon(all.release()).await.unwrap();
    until_empty(&client, "/a").await;
    until_empty(&client, "/b").await;
}

/// RCP-16: every guard has a token, and a future that resolves when the lock is lost.
#[tokio::test]
async fn every_guard_knows_when_it_is_lost() {
    let server = Server::start(&[]);
    let (client, other) = (connect(server.address()).await, connect(server.address()).await);
    let acl = Acls::creator();
    let mut held = soon(Lock::new(&client, "/lock", &acl).exclusive()).await.unwrap();
    let mut leading = soon(Election::new(&client, "/leader", &acl).lead("me")).await.unwrap();
    let mutexes = ["/a", "/b"].map(|path| Mutex::new(&client, path, &acl));
    let mut guard = soon(mutexes[0].acquire()).await.unwrap();
    let mut all = soon(MultiLock::new(mutexes.to_vec()).acquire()).await.unwrap();
    let mut reading = soon(ReadWriteLock::new(&client, "/rw", &acl).read()).await.unwrap();
    let tokens = [held.token(), leading.token(), guard.token(), all.tokens()[1], reading.token()];
    assert!(tokens.is_sorted());
    // The future does not resolve while the lock is held.
    for lost in [
        tokio::time::timeout(Duration::from_millis(20), held.lost()).await,
        tokio::time::timeout(Duration::from_millis(20), all.lost()).await,
    ] {
        assert!(lost.is_err());
    }
    other.delete(held.path(), Version::ANY).await.unwrap();
    soon(held.lost()).await;
    let second = names(&other, "/b").await;
    other.delete(&format!("/b/{}", second[0]), Version::ANY).await.unwrap();
    soon(all.lost()).await;
    client.close().await.unwrap();
    soon(leading.lost()).await;
    soon(guard.lost()).await;
    soon(reading.lost()).await;
}

//! Semaphores with Curator's znodes.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use zebu_client::{Acls, CreateMode, Version};
use zebu_recipes::{Error, Semaphore, SharedCount};

use crate::embedded::Server;
use crate::{connect, names, soon, until_empty};

/// The exact names. Curator's leases count.
#[tokio::test]
async fn leases_are_counted_with_curators() {
    let server = Server::start(&[]);
    let (client, curator) = (connect(server.address()).await, connect(server.address()).await);
    let semaphore = Semaphore::new(&client, "/s", 2, &Acls::creator()).named("me");
    let one = soon(semaphore.acquire()).await.unwrap();
    until_empty(&client, "/s/locks").await;
    assert_eq!(names(&client, "/s").await, ["leases", "locks"]);
    let found = names(&client, "/s/leases").await;
    assert!(found[0].starts_with("_c_") && found[0].ends_with("-lease-0000000000"), "{found:?}");
    let theirs = "/s/leases/_c_0b4f8f1e-5f0c-4a53-9d6e-54b6d1a5d3aa-lease-";
    let mode = CreateMode::EphemeralSequential;
    let theirs = curator.create(theirs, "", mode, &Acls::creator()).await.unwrap().path;
    assert!(soon(semaphore.try_acquire()).await.unwrap().is_none());
    assert_eq!(names(&client, "/s/leases").await.len(), 2);
    let mut waiting = Box::pin(semaphore.acquire());
    let too_early = tokio::time::timeout(Duration::from_millis(200), &mut waiting).await;
    assert!(too_early.is_err());
    // A waiting contender holds Curator's mutex.
    let line = names(&client, "/s/locks").await;
    assert!(line[0].contains("-lock-"), "{line:?}");
    curator.delete(&theirs, Version::ANY).await.unwrap();
    let mut two = soon(waiting).await.unwrap();
    assert_eq!(semaphore.participants().await.unwrap(), [b"me", b"me"]);
    assert!(one.token() < two.token());
    curator.delete(two.path(), Version::ANY).await.unwrap();
    soon(two.lost()).await;
    assert!(matches!(two.release().await, Err(Error::Deleted(_))));
    soon(one.release()).await.unwrap();
    until_empty(&client, "/s/leases").await;
    until_empty(&client, "/s/locks").await;
}

/// There are never more leases than permitted, and every contender gets one in the end.
#[tokio::test]
async fn there_are_never_more_leases_than_there_are() {
    let server = Server::start(&[]);
    let inside = Arc::new(AtomicUsize::new(0));
    let mut working = Vec::new();
    for _ in 0..6 {
        let client = connect(server.address()).await;
        let inside = inside.clone();
        working.push(tokio::spawn(async move {
            let semaphore = Semaphore::new(&client, "/s", 2, &Acls::creator());
            for _ in 0..4 {
                let lease = semaphore.acquire().await.unwrap();
                assert!(inside.fetch_add(1, Ordering::SeqCst) < 2);
                client.sync("/").await.unwrap();
                inside.fetch_sub(1, Ordering::SeqCst);
                lease.release().await.unwrap();
            }
        }));
    }
    for working in working {
        soon(working).await.unwrap();
    }
}

/// A larger number of leases wakes waiting contenders. A smaller number takes no lease away.
#[tokio::test]
async fn a_count_says_how_many_there_are() {
    let server = Server::start(&[]);
    let client = connect(server.address()).await;
    let acl = Acls::creator();
    let count = SharedCount::new(&client, "/bought", 1, &acl);
    let semaphore = Semaphore::counted(&client, "/s", &count, &acl);
    let one = soon(semaphore.acquire()).await.unwrap();
    let mut waiting = Box::pin(semaphore.acquire());
    let too_early = tokio::time::timeout(Duration::from_millis(200), &mut waiting).await;
    assert!(too_early.is_err());
    soon(count.set(2)).await.unwrap();
    let two = soon(waiting).await.unwrap();
    soon(count.set(-1)).await.unwrap();
    soon(one.release()).await.unwrap();
    assert!(soon(semaphore.try_acquire()).await.unwrap().is_none());
    soon(two.release()).await.unwrap();
    assert!(soon(semaphore.try_acquire()).await.unwrap().is_none());
}

/// A contender that gives up leaves neither a lease nor a place in line, at whatever point its
/// future is dropped.
#[tokio::test]
async fn who_gives_up_leaves_no_lease() {
    let server = Server::start(&[]);
    let client = connect(server.address()).await;
    let semaphore = Semaphore::new(&client, "/s", 1, &Acls::creator());
    let lease = soon(semaphore.acquire()).await.unwrap();
    for polls in 0..12 {
        let mut waiting = Box::pin(semaphore.acquire_many(2));
        for _ in 0..polls {
            assert!(tokio::time::timeout(Duration::ZERO, &mut waiting).await.is_err());
            client.sync("/").await.unwrap();
        }
    }
    soon(lease.release()).await.unwrap();
    until_empty(&client, "/s/locks").await;
    until_empty(&client, "/s/leases").await;
    soon(soon(semaphore.acquire()).await.unwrap().release()).await.unwrap();
}

//! Queues with Curator's znodes, and a sharded queue.

use std::collections::BTreeSet;
use std::time::{Duration, SystemTime};

use zebu_client::{Acls, Client, CreateMode};
use zebu_recipes::{DelayQueue, Error, IdQueue, Item, PlainQueue, PriorityQueue, ShardedQueue};

use crate::embedded::Server;
use crate::lossy::Lossy;
use crate::{connect, names, soon, until_empty};

/// One element, `one`, in the format of Curator's `ItemSerializer`.
const ONE: &[u8] = b"\0\x01\0\x01\x01\0\0\0\x03one\x02";

fn text(item: &Item) -> String {
    let elements = item.elements().unwrap();
    elements.iter().map(|element| String::from_utf8_lossy(element)).collect::<Vec<_>>().join(" ")
}

/// Puts in an item as Curator does.
async fn theirs(client: &Client, path: &str, data: &[u8]) -> String {
    let (path, mode) = (format!("/jobs/{path}"), CreateMode::PersistentSequential);
    client.create(&path, data, mode, &Acls::creator()).await.unwrap().path
}

/// The exact names and bytes, and the marks of taken items.
#[tokio::test]
async fn items_are_where_curator_has_them() {
    let server = Server::start(&[]);
    let (client, curator) = (connect(server.address()).await, connect(server.address()).await);
    let queue = PlainQueue::new(&client, "/jobs", "/locks", &Acls::creator());
    soon(queue.put(&[b"one"])).await.unwrap();
    assert_eq!(names(&client, "/jobs").await, ["queue-0000000000"]);
    assert_eq!(client.get_data("/jobs/queue-0000000000").await.unwrap().0, ONE);
    let second = theirs(&curator, "queue-", ONE).await;
    theirs(&curator, "queue-", b"broken").await;
    // A consumer of Curator's has taken the first item.
    let mode = CreateMode::Ephemeral;
    let lock = "/locks/queue-0000000000";
    curator.create(lock, "", mode, &Acls::creator()).await.unwrap();
    let item = soon(queue.take()).await.unwrap();
    assert_eq!(text(&item), "one");
    assert_eq!(format!("/jobs/{}", item.name()), second);
    // Curator cannot take the second item.
    let lock = format!("/locks/{}", item.name());
    curator.create(&lock, "", mode, &Acls::creator()).await.unwrap_err();
    soon(item.finish()).await.unwrap();
    assert!(curator.exists(&lock).await.unwrap().is_none());
    let broken = soon(queue.take()).await.unwrap();
    assert!(matches!(broken.elements(), Err(Error::Foreign(_))));
    soon(broken.finish()).await.unwrap();
    assert_eq!(soon(queue.len()).await.unwrap(), 1);
    // Curator's consumer dies, so its item is free again.
    curator.close().await.unwrap();
    soon(soon(queue.take()).await.unwrap().finish()).await.unwrap();
    assert!(soon(queue.is_empty()).await.unwrap());
}

#[tokio::test]
async fn lower_priorities_come_first() {
    let server = Server::start(&[]);
    let client = connect(server.address()).await;
    let queue = PriorityQueue::new(&client, "/jobs", "/locks", &Acls::creator());
    for (element, priority) in [("c", 3), ("a", i32::MIN), ("d", i32::MAX), ("b", -1), ("e", 3)] {
        soon(queue.put(&[element.as_bytes()], priority)).await.unwrap();
    }
    let mut found = String::new();
    for _ in 0..5 {
        let item = soon(queue.take()).await.unwrap();
        found.push_str(&text(&item));
        soon(item.finish()).await.unwrap();
    }
    assert_eq!(found, "abced");
}

/// No item is taken before its time. An item with an earlier time is taken first, even if it was
/// put in later.
#[tokio::test]
async fn items_wait_for_their_time() {
    let server = Server::start(&[]);
    let client = connect(server.address()).await;
    let queue = DelayQueue::new(&client, "/jobs", "/locks", &Acls::creator());
    let now = SystemTime::now();
    let (far, near) = (now + Duration::from_secs(100_000), now + Duration::from_millis(600));
    soon(queue.put(&[b"far"], far)).await.unwrap();
    let taking = tokio::spawn({
        let queue = queue.clone();
        async move { queue.take().await }
    });
    soon(queue.put(&[b"near"], near)).await.unwrap();
    let item = soon(taking).await.unwrap().unwrap();
    assert_eq!(text(&item), "near");
    // Times are in whole milliseconds.
    assert!(SystemTime::now() + Duration::from_millis(1) >= near);
    soon(item.finish()).await.unwrap();
    let too_early = tokio::time::timeout(Duration::from_millis(100), queue.take()).await;
    assert!(too_early.is_err());
    soon(queue.put(&[b"past"], SystemTime::UNIX_EPOCH)).await.unwrap();
    assert_eq!(text(&soon(queue.take()).await.unwrap()), "past");
}

#[tokio::test]
async fn items_are_taken_out_by_their_ids() {
    let server = Server::start(&[]);
    let client = connect(server.address()).await;
    let queue = IdQueue::new(&client, "/jobs", "/locks", &Acls::creator());
    for (element, id) in [("1", "b"), ("2", "a/x"), ("3", "b"), ("4", "b")] {
        soon(queue.put(&[element.as_bytes()], id)).await.unwrap();
    }
    // Items are taken in the order of insertion, whatever their ids are.
    let first = soon(queue.take()).await.unwrap();
    assert_eq!(text(&first), "1");
    assert!(soon(queue.contains("a/x")).await.unwrap());
    // A taken item is not removed.
    assert_eq!(soon(queue.remove("b")).await.unwrap(), 2);
    assert!(soon(queue.contains("b")).await.unwrap());
    soon(first.finish()).await.unwrap();
    assert!(!soon(queue.contains("b")).await.unwrap());
    let second = soon(queue.take()).await.unwrap();
    assert_eq!(text(&second), "2");
    assert_eq!(soon(queue.remove("a|x")).await.unwrap(), 0);
    drop(second);
    until_marks_are_gone(&client).await;
    assert_eq!(soon(queue.remove("a|x")).await.unwrap(), 1);
    assert!(soon(queue.is_empty()).await.unwrap());
}

/// Waits until only the line's znode is left below the lock path, without marks.
async fn until_marks_are_gone(client: &Client) {
    let mut children = zebu_recipes::Children::of(client, "/locks");
    while soon(children.next()).await.unwrap().unwrap().len() > 2 {}
}

/// Whichever answer is lost, no item is lost and none is taken twice.
#[tokio::test]
async fn no_item_is_lost() {
    let server = Server::start(&[]);
    let network = Lossy::new(server.address()).await;
    let observer = connect(server.address()).await;
    for lost in 0.. {
        let (items, marks) = (format!("/n{lost}"), format!("/m{lost}"));
        let client = connect(network.address).await;
        client.sync("/").await.unwrap();
        network.lose(lost);
        let queue = PriorityQueue::new(&client, &items, &marks, &Acls::creator());
        soon(queue.put(&[b"late"], 2)).await.unwrap();
        soon(queue.put(&[b"early"], 1)).await.unwrap();
        let item = soon(queue.take()).await.unwrap();
        assert_eq!(text(&item), "early");
        soon(item.finish()).await.unwrap();
        let is_lost = network.heal();
        assert_eq!(names(&observer, &items).await.len(), 1);
        until_empty(&observer, &format!("{marks}/puts")).await;
        until_empty(&observer, &format!("{marks}/line")).await;
        client.close().await.unwrap();
        if !is_lost {
            return;
        }
    }
}

/// Each item is taken once, by any worker. A worker that gives up takes nothing.
#[tokio::test]
async fn shards_are_one_queue() {
    let server = Server::start(&[]);
    let client = connect(server.address()).await;
    let acl = Acls::creator();
    let queue = ShardedQueue::new(&client, "/jobs", 3, &acl);
    let expected: BTreeSet<String> = (0..12).map(|number| number.to_string()).collect();
    for number in &expected {
        soon(queue.put(number, 5)).await.unwrap();
    }
    assert_eq!(names(&client, "/jobs").await, ["shard-000", "shard-001", "shard-002"]);
    for shard in 0..3 {
        assert_eq!(names(&client, &format!("/jobs/shard-00{shard}/items")).await.len(), 4);
    }
    for polls in 0..8 {
        let mut taking = Box::pin(queue.take());
        for _ in 0..polls {
            if tokio::time::timeout(Duration::ZERO, &mut taking).await.is_ok() {
                break;
            }
            client.sync("/").await.unwrap();
        }
    }
    let mut working = Vec::new();
    for _ in 0..3 {
        let client = connect(server.address()).await;
        let queue = ShardedQueue::new(&client, "/jobs", 3, &acl);
        working.push(tokio::spawn(async move {
            let mut found = Vec::new();
            for _ in 0..4 {
                let item = queue.take().await.unwrap();
                found.push(String::from_utf8(item.data().to_vec()).unwrap());
                item.finish().await.unwrap();
            }
            found
        }));
    }
    let mut found = Vec::new();
    for working in working {
        found.extend(soon(working).await.unwrap());
    }
    assert_eq!(found.len(), 12);
    assert_eq!(found.into_iter().collect::<BTreeSet<_>>(), expected);
    assert!(soon(queue.is_empty()).await.unwrap());
    for shard in 0..3 {
        until_empty(&client, &format!("/jobs/shard-00{shard}/taken")).await;
        until_empty(&client, &format!("/jobs/shard-00{shard}/line")).await;
    }
}

//! Caches have the servers' content, whatever events and answers were lost.

use std::collections::BTreeMap;

use zebu_client::{Acls, Client, CreateMode, ErrorKind, Version, WatcherType};
use zebu_recipes::{Cache, Change, Changes, Error};

use crate::embedded::Server;
use crate::gate::Gate;
use crate::lossy::Lossy;
use crate::{connect, create, soon};

fn text(change: &Change) -> String {
    let data = |znode: &zebu_recipes::Znode| String::from_utf8_lossy(&znode.data).into_owned();
    match change {
        Change::Created(znode) => format!("+{}={}", znode.path, data(znode)),
        Change::Written { before, now } => format!("{}={}>{}", now.path, data(before), data(now)),
        Change::Deleted(znode) => format!("-{}={}", znode.path, data(znode)),
        other => format!("{other:?}"),
    }
}

async fn next(changes: &mut Changes) -> String {
    text(&soon(changes.next()).await.unwrap())
}

async fn set(client: &Client, path: &str, data: &str) {
    client.set_data(path, data, Version::ANY).await.unwrap();
}

async fn delete(client: &Client, path: &str) {
    client.delete(path, Version::ANY).await.unwrap();
}

/// A new reader receives the content first, then each change.
#[tokio::test]
async fn a_tree_is_told_as_it_grows_and_shrinks() {
    let server = Server::start(&[]);
    let (client, other) = (connect(server.address()).await, connect(server.address()).await);
    create(&other, "/app", "0").await;
    create(&other, "/app/a", "1").await;
    let cache = Cache::tree(&client, "/app").start();
    let mut changes = cache.changes();
    for expected in ["+/app=0", "+/app/a=1", "Current"] {
        assert_eq!(next(&mut changes).await, expected);
    }
    create(&other, "/app/a/deep", "2").await;
    assert_eq!(next(&mut changes).await, "+/app/a/deep=2");
    set(&other, "/app/a", "3").await;
    assert_eq!(next(&mut changes).await, "/app/a=1>3");
    delete(&other, "/app/a/deep").await;
    assert_eq!(next(&mut changes).await, "-/app/a/deep=2");
    assert_eq!(cache.len(), 2);
    assert_eq!(cache.get("/app/a").unwrap().data, "3");
    // A later reader receives the content, too.
    let mut late = cache.changes();
    for expected in ["+/app=0", "+/app/a=3", "Current"] {
        assert_eq!(next(&mut late).await, expected);
    }
    create(&other, "/app/b", "").await;
    assert_eq!(next(&mut late).await, "+/app/b=");
    assert_eq!(next(&mut changes).await, "+/app/b=");
}

/// A cache of children ignores grandchildren, and a cache of one znode ignores children.
#[tokio::test]
async fn a_cache_looks_no_further_than_it_should() {
    let server = Server::start(&[]);
    let client = connect(server.address()).await;
    let node = Cache::node(&client, "/app").start();
    let children = Cache::children(&client, "/app").start();
    let (mut of_node, mut of_children) = (node.changes(), children.changes());
    assert_eq!(next(&mut of_node).await, "Current");
    assert_eq!(next(&mut of_children).await, "Current");
    for (path, data) in [("/app", "0"), ("/app/a", "1"), ("/app/a/deep", "2")] {
        create(&client, path, data).await;
    }
    set(&client, "/app/a", "3").await;
    set(&client, "/app", "4").await;
    let mut found = BTreeMap::new();
    while found.get("/app").is_none_or(|data| data != "4") {
        let (Change::Created(now) | Change::Written { now, .. }) =
            soon(of_children.next()).await.unwrap()
        else {
            panic!("nothing else happens")
        };
        found.insert(now.path.clone(), now.data.clone());
    }
    assert_eq!(found.keys().collect::<Vec<_>>(), ["/app", "/app/a"]);
    assert_eq!(found["/app/a"], "3");
    assert_eq!(children.len(), 2);
    while next(&mut of_node).await != "/app=0>4" && node.get("/app").unwrap().data != "4" {}
    assert_eq!(node.len(), 1);
    // The whole subtree is deleted and created again.
    client.delete_all("/app").await.unwrap();
    while next(&mut of_node).await != "-/app=4" {}
    create(&client, "/app", "new").await;
    while next(&mut of_node).await != "+/app=new" {}
}

/// Changes made while the connection is lost are reported when it is restored.
#[tokio::test]
async fn there_is_no_hole_over_a_reconnection() {
    let server = Server::start(&[]);
    let gate = Gate::new(server.address()).await;
    let (client, other) = (connect(gate.address).await, connect(server.address()).await);
    for (path, data) in
        [("/app", ""), ("/app/a", "1"), ("/app/b", "1"), ("/app/b/c", "1"), ("/app/d", "1")]
    {
        create(&other, path, data).await;
    }
    let cache = Cache::tree(&client, "/app").start();
    soon(cache.current()).await.unwrap();
    let mut changes = cache.changes();
    while next(&mut changes).await != "Current" {}
    gate.close();
    assert_eq!(next(&mut changes).await, "Suspended");
    assert!(!cache.is_current());
    // Reads from the cache still work.
    assert_eq!(cache.get("/app/a").unwrap().data, "1");
    set(&other, "/app/a", "2").await;
    delete(&other, "/app/b/c").await;
    delete(&other, "/app/b").await;
    delete(&other, "/app/d").await;
    create(&other, "/app/d", "again").await;
    create(&other, "/app/e", "new").await;
    gate.open();
    let mut told = Vec::new();
    loop {
        match next(&mut changes).await.as_str() {
            "Current" => break,
            "Suspended" => {}
            change => told.push(change.to_owned()),
        }
    }
    told.sort();
    let expected =
        ["+/app/d=again", "+/app/e=new", "-/app/b/c=1", "-/app/b=1", "-/app/d=1", "/app/a=1>2"];
    assert_eq!(told, expected);
    soon(cache.current()).await.unwrap();
    assert_eq!(cache.len(), 4);
}

/// Whichever frame is lost with its connection, an event or an answer, the cache reaches the
/// server's state.
#[tokio::test]
async fn there_is_no_hole_whatever_is_lost() {
    let server = Server::start(&[]);
    let network = Lossy::new(server.address()).await;
    let (client, other) = (connect(network.address).await, connect(server.address()).await);
    create(&other, "/app", "").await;
    let cache = Cache::tree(&client, "/app").start();
    // The state that follows from the reported changes.
    let mut changes = cache.changes();
    let mut told = BTreeMap::new();
    for round in 0..12 {
        network.lose(round % 4);
        for number in 0..3 {
            let path = format!("/app/{}", (round * 5 + number) % 7);
            match other.exists(&path).await.unwrap() {
                None => create(&other, &path, &round.to_string()).await,
                Some(_) if number == 1 => delete(&other, &path).await,
                Some(_) => set(&other, &path, &round.to_string()).await,
            }
        }
        let mut there = BTreeMap::new();
        for path in other.descendants("/app").await.unwrap() {
            let data = other.get_data(&path).await.unwrap().0;
            there.insert(path, data);
        }
        let converged = async {
            while told != there {
                match changes.next().await.unwrap() {
                    Change::Created(now) | Change::Written { now, .. } => {
                        told.insert(now.path.clone(), now.data.clone());
                    }
                    Change::Deleted(before) => {
                        assert_eq!(told.remove(&before.path), Some(before.data.clone()));
                    }
                    Change::Reset => told.clear(),
                    _ => {}
                }
            }
        };
        soon(converged).await;
        network.heal();
    }
    let kept: BTreeMap<_, _> =
        cache.snapshot().iter().map(|znode| (znode.path.clone(), znode.data.clone())).collect();
    assert_eq!(kept, told);
}

/// A `remove_watches` call of the same client does not stop the cache.
#[tokio::test]
async fn a_watch_that_is_removed_is_set_again() {
    let server = Server::start(&[]);
    let client = connect(server.address()).await;
    let cache = Cache::tree(&client, "/app").start();
    soon(cache.current()).await.unwrap();
    client.remove_watches("/app", WatcherType::Any).await.unwrap();
    create(&client, "/app", "1").await;
    let mut changes = cache.changes();
    while next(&mut changes).await != "+/app=1" {}
}

/// The queue of a reader that does not read stays within its limit, and the cache is then reported
/// to it again.
#[tokio::test]
async fn a_slow_reader_begins_again() {
    let server = Server::start(&[]);
    let client = connect(server.address()).await;
    create(&client, "/app", "").await;
    let cache = Cache::children(&client, "/app").without_data().start();
    soon(cache.current()).await.unwrap();
    let mut changes = cache.changes();
    const COUNT: usize = 5_000;
    for batch in 0..COUNT / 500 {
        let mut transaction = client.transaction();
        for number in 0..500 {
            let path = format!("/app/{batch}-{number}");
            transaction.create(&path, "", CreateMode::Persistent, &Acls::creator());
        }
        transaction.commit().await.unwrap();
    }
    let mut watching = cache.changes();
    while cache.len() <= COUNT {
        soon(watching.next()).await.unwrap();
    }
    // This change was reported before the reader fell behind. The later ones are dropped.
    assert_eq!(next(&mut changes).await, "+/app=");
    assert_eq!(next(&mut changes).await, "Current");
    assert_eq!(next(&mut changes).await, "Reset");
    for _ in 0..=COUNT {
        assert!(next(&mut changes).await.starts_with('+'));
    }
    assert_eq!(next(&mut changes).await, "Current");
}

/// A dropped cache leaves no watch, at whatever point it is dropped.
#[tokio::test]
async fn a_cache_that_is_dropped_leaves_nothing() {
    let server = Server::start(&[]);
    let client = connect(server.address()).await;
    for rounds in 0..5 {
        let cache = Cache::tree(&client, "/").start();
        let clone = cache.clone();
        for _ in 0..rounds {
            tokio::task::yield_now().await;
            client.sync("/").await.unwrap();
        }
        drop(cache);
        drop(clone);
        let gone = async {
            while client.check_watches("/", WatcherType::Any).await.unwrap() {
                tokio::task::yield_now().await;
            }
        };
        soon(gone).await;
    }
}

/// A cache ends with its session, and reports that.
#[tokio::test]
async fn a_cache_ends_with_its_session() {
    let server = Server::start(&[]);
    let client = connect(server.address()).await;
    let cache = Cache::tree(&client, "/").start();
    soon(cache.current()).await.unwrap();
    let mut changes = cache.changes();
    client.close().await.unwrap();
    let error = loop {
        if let Err(error) = soon(changes.next()).await {
            break error;
        }
    };
    assert!(error.is_session_over(), "{error}");
    assert!(soon(cache.current()).await.unwrap_err().is_session_over());
    assert!(!cache.is_current());
    assert!(cache.get("/zookeeper").is_some());
}

/// A cache leaves out znodes that the client may not read. An invalid path is an error.
#[tokio::test]
async fn what_may_not_be_read_is_left_out() {
    let server = Server::start(&[]);
    let client = connect(server.address()).await;
    create(&client, "/mine", "").await;
    let other = soon(Client::connect(&server.address().to_string())).await.unwrap();
    let cache = Cache::children(&other, "/").start();
    soon(cache.current()).await.unwrap();
    assert!(cache.get("/mine").is_none() && cache.get("/zookeeper").is_some());
    let error = soon(Cache::tree(&other, "no path").start().current()).await.unwrap_err();
    let Error::Client(error) = error else { panic!("{error}") };
    assert_eq!(error.kind(), ErrorKind::Invalid);
}
